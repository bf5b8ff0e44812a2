//! What a member says of its ring of tickets: a part of its status.

use serde::{Deserialize, Serialize};

use crate::base::Ticket;
use crate::node::{MemberStatus, RingStatus};

/// So many tickets are told one by one.
const LISTED: Ticket = 6;

/// A ring of tickets, as one member knows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RingReport {
    /// n: how many tickets there are.
    pub tickets: Ticket,
    /// k: how many neighbours may crash at once, in a ring that is large enough.
    pub faults: u8,
    /// Which of the circle's rings it is.
    pub epoch: u32,
    /// Ours.
    pub ticket: Option<Ticket>,
    /// Whether it may be used: enough members vouch for it.
    pub sure: bool,
    /// The tickets that are ours to give.
    pub coordinates: Option<RangeReport>,
    /// Who has a ticket as far as we know: ourselves first, then who comes after us.
    pub coordinators: Vec<CoordinatorReport>,
    /// How many members wait for a ticket, as far as we know.
    pub waiting: usize,
    /// How long we have waited for a ticket that we may use.
    pub waited_s: Option<f64>,
}

/// Tickets in their order, which goes down, and after 0 comes the highest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeReport {
    /// The first.
    pub from: Ticket,
    /// The last.
    pub to: Ticket,
    /// How many.
    pub count: Ticket,
}

/// Somebody who has a ticket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoordinatorReport {
    /// Which.
    pub ticket: Ticket,
    /// Who, in short.
    pub member: String,
    /// Its name, if that is known.
    pub name: Option<String>,
}

impl CoordinatorReport {
    /// Its name, or who it is.
    pub fn called(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.member)
    }
}

impl RangeReport {
    /// In words, in a ring of so many tickets: all of them if they are few.
    pub fn describe(&self, tickets: Ticket) -> String {
        let Self { from, to, count } = *self;
        let after = |steps: Ticket| (i32::from(from) - i32::from(steps)).rem_euclid(tickets.max(1).into());
        if count <= LISTED {
            let all: Vec<String> = (0..count).map(|steps| after(steps).to_string()).collect();
            return all.join(", ");
        }
        format!("{from}, {}, … {to} ({count} tickets)", after(1))
    }
}

impl RingReport {
    /// How many of so many members may crash at once, and the others go on: more than half of a small ring must be left. A
    /// ring has no more members than tickets.
    pub fn faults_borne(&self, members: usize) -> usize {
        let seats = members.min(self.tickets.into());
        (seats.saturating_sub(1) / 2).min(self.faults.into())
    }

    /// Whether a ticket is ours to use or to give.
    pub fn has(&self, ticket: Ticket) -> bool {
        let is_in = |range: RangeReport| {
            let steps = (i32::from(range.from) - i32::from(ticket)).rem_euclid(self.tickets.max(1).into());
            steps < range.count.into()
        };
        self.sure && self.coordinates.is_some_and(is_in)
    }

    pub(super) fn new(status: &RingStatus, name: &str, members: &[MemberStatus]) -> Self {
        let name_of = |member| match members.iter().find(|known| known.member == member) {
            Some(known) => Some(known.name.clone()),
            None => status.seat.is_some_and(|seat| seat.member == member).then(|| name.to_owned()),
        };
        let coordinators = status.coordinators.iter().map(|seat| CoordinatorReport {
            ticket: seat.ticket,
            member: seat.member.to_string(),
            name: name_of(seat.member),
        });
        Self {
            tickets: status.ring.tickets,
            faults: status.ring.faults,
            epoch: status.ring.epoch,
            ticket: status.seat.map(|seat| seat.ticket),
            sure: status.is_sure,
            coordinates: status.coordinated().map(|(from, to, count)| RangeReport { from, to, count }),
            coordinators: coordinators.collect(),
            waiting: status.waiting,
            waited_s: status.waits_for.map(|span| span.as_secs_f64()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ring of five tickets and k = 2, of which we have ticket 1 and give it and those after it.
    fn ring(count: Ticket) -> RingReport {
        RingReport {
            tickets: 5,
            faults: 2,
            epoch: 1,
            ticket: Some(1),
            sure: true,
            coordinates: Some(RangeReport { from: 1, to: (6 + 1 - count) % 5, count }),
            coordinators: Vec::new(),
            waiting: 0,
            waited_s: None,
        }
    }

    #[test]
    fn tickets_are_ours_from_our_own_down_and_round() {
        let ours = |ring: RingReport| (0..5).filter(|ticket| ring.has(*ticket)).collect::<Vec<_>>();
        assert_eq!(ours(ring(1)), [1]);
        assert_eq!(ours(ring(3)), [0, 1, 4]);
        assert_eq!(ours(ring(5)), [0, 1, 2, 3, 4]);
        assert!(ours(RingReport { sure: false, ..ring(5) }).is_empty(), "who is not sure has none");
    }

    #[test]
    fn few_tickets_are_listed_and_many_are_not() {
        let told = |from, to, count| RangeReport { from, to, count }.describe(100);
        assert_eq!(told(1, 98, 4), "1, 0, 99, 98");
        assert_eq!(told(0, 20, 81), "0, 99, … 20 (81 tickets)");
    }

    #[test]
    fn a_small_ring_bears_as_many_crashes_as_leave_more_than_half_of_it() {
        let borne: Vec<usize> = (1..=7).map(|members| ring(1).faults_borne(members)).collect();
        assert_eq!(borne, [0, 0, 1, 1, 2, 2, 2]);
        assert_eq!(RingReport { tickets: 2, ..ring(1) }.faults_borne(100), 0, "no more seats than tickets");
    }
}
