//! Who has which tickets to give: a book of ranges, in which two that overlap are found at once.

use std::collections::BTreeMap;

use crate::base::Ticket;

/// What one member claims: its own ticket, and all down to before the next member's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) struct Claim {
    pub(in crate::sim) ticket: Ticket,
    pub(in crate::sim) next: Ticket,
}

impl Claim {
    /// How many tickets, of so many; who is alone has all.
    fn length(self, tickets: Ticket) -> u32 {
        match down(self.ticket, self.next, tickets) {
            0 => tickets.into(),
            length => length,
        }
    }

    pub(in crate::sim) fn covers(self, ticket: Ticket, tickets: Ticket) -> bool {
        down(self.ticket, ticket, tickets) < self.length(tickets)
    }

    /// A ticket that both claim.
    fn overlap(self, other: Self, tickets: Ticket) -> Option<Ticket> {
        let starts = [(self, other.ticket), (other, self.ticket)];
        starts.into_iter().find(|(claim, start)| claim.covers(*start, tickets)).map(|(_, start)| start)
    }
}

/// How many steps down the cycle from one ticket to another.
fn down(from: Ticket, to: Ticket, tickets: Ticket) -> u32 {
    let (from, to, tickets) = (u32::from(from), u32::from(to), u32::from(tickets));
    (from + tickets - to) % tickets
}

/// The claims of all who were sure when they were last looked at. They do not overlap, so whoever comes anew is compared
/// with two neighbours only.
#[derive(Debug)]
pub(super) struct Claims {
    tickets: Ticket,
    by_ticket: BTreeMap<Ticket, u32>,
    of: Vec<Option<Claim>>,
}

impl Claims {
    pub(super) fn new(tickets: Ticket, members: usize) -> Self {
        Self { tickets, by_ticket: BTreeMap::new(), of: vec![None; members] }
    }

    pub(super) fn len(&self) -> usize {
        self.by_ticket.len()
    }

    pub(super) fn of(&self, member: u32) -> Option<Claim> {
        self.of.get(member as usize).copied().flatten()
    }

    /// The member claims this from now on. Gives another one that claims part of it, and which part. Whether a claim in the
    /// book still holds is asked when it matters: time ends claims without anything happening.
    pub(super) fn put(
        &mut self,
        member: u32,
        claim: Option<Claim>,
        still_holds: impl Fn(u32) -> bool,
    ) -> Option<(u32, Ticket)> {
        self.remove(member);
        let claim = claim?;
        let mut conflict = None;
        while let Some((other, ticket)) = self.beside(claim) {
            if still_holds(other) {
                conflict = conflict.or(Some((other, ticket)));
            }
            self.remove(other);
        }
        self.by_ticket.insert(claim.ticket, member);
        if let Some(of) = self.of.get_mut(member as usize) {
            *of = Some(claim);
        }
        conflict
    }

    /// One of those who claim part of it.
    fn beside(&self, claim: Claim) -> Option<(u32, Ticket)> {
        let below = self.by_ticket.range(..claim.ticket).next_back().or(self.by_ticket.last_key_value());
        let above = self.by_ticket.range(claim.ticket..).next().or(self.by_ticket.first_key_value());
        [below, above].into_iter().flatten().find_map(|(_, &other)| {
            let ticket = self.of(other)?.overlap(claim, self.tickets)?;
            Some((other, ticket))
        })
    }

    fn remove(&mut self, member: u32) {
        if let Some(claim) = self.of.get_mut(member as usize).and_then(Option::take) {
            self.by_ticket.remove(&claim.ticket);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::unnecessary_wraps, reason = "as it is put and told")]
    fn claim(ticket: Ticket, next: Ticket) -> Option<Claim> {
        Some(Claim { ticket, next })
    }

    #[test]
    fn a_claim_goes_down_to_before_the_next_one_and_around_the_end() {
        let covered = |ticket, next| -> Vec<Ticket> {
            (0..10).filter(|one| Claim { ticket, next }.covers(*one, 10)).collect()
        };
        assert_eq!(covered(7, 4), [5, 6, 7]);
        assert_eq!(covered(1, 8), [0, 1, 9]);
        assert_eq!(covered(3, 2), [3]);
        assert_eq!(covered(3, 3), (0..10).collect::<Vec<_>>(), "alone");
    }

    /// Every pair of ranges of a small cycle, against the sets that they stand for.
    #[test]
    fn two_claims_conflict_exactly_if_they_share_a_ticket() {
        let all = || (0..5).flat_map(|ticket| (0..5).map(move |next| Claim { ticket, next }));
        for (a, b) in all().flat_map(|a| all().map(move |b| (a, b))) {
            let mut claims = Claims::new(5, 2);
            assert_eq!(claims.put(0, Some(a), |_| true), None);
            let found = claims.put(1, Some(b), |_| true);
            let shared = (0..5).any(|ticket| a.covers(ticket, 5) && b.covers(ticket, 5));
            assert_eq!(found.is_some(), shared, "{a:?} and {b:?}");
            let is_shared = |ticket| a.covers(ticket, 5) && b.covers(ticket, 5);
            assert!(found.is_none_or(|(other, ticket)| other == 0 && is_shared(ticket)), "{a:?} and {b:?}");
        }
    }

    #[test]
    fn among_many_the_one_that_overlaps_is_found() {
        let mut claims = Claims::new(100, 12);
        for member in 0..10_u16 {
            let next = (member * 10 + 90) % 100;
            assert_eq!(claims.put(member.into(), claim(member * 10, next), |_| true), None);
        }
        assert_eq!(claims.len(), 10);
        assert_eq!(claims.put(3, claim(30, 25), |_| true), None, "it got smaller");
        assert_eq!(claims.put(10, claim(25, 20), |_| true), None, "in the room that it made");
        assert_eq!(claims.put(11, claim(17, 10), |_| true), Some((2, 17)));
        assert_eq!(claims.put(2, claim(22, 20), |_| true), Some((10, 22)));
    }

    #[test]
    fn a_claim_that_time_has_ended_is_in_nobodys_way() {
        let mut claims = Claims::new(10, 2);
        assert_eq!(claims.put(0, claim(5, 0), |_| true), None);
        assert_eq!(claims.put(1, claim(5, 0), |_| false), None);
        assert_eq!((claims.of(0), claims.of(1)), (None, claim(5, 0)));
    }
}
