//! Those who come after us: who they are, whom each takes for its successor, and by which witnesses they go.

use std::collections::BTreeMap;

use crate::base::{Ask, MemberId, Seat, Ticket, Time, Witnesses};

use super::nouns::Config;
use super::ring::steps;

/// One seat after ours.
#[derive(Clone, Debug)]
pub(super) struct Follower {
    /// Whom it takes for its successor.
    pub(super) next: Option<Seat>,
    /// Of its last question.
    pub(super) number: u64,
    pub(super) heard_at: Option<Time>,
    /// Since when we know of it.
    pub(super) known_at: Time,
    pub(super) is_settled: bool,
    /// The list that it last said to go by.
    pub(super) adopted: Option<Witnesses>,
    /// Every list for which we vouched and by which it may go now or later. It can go by no other: a list counts only when
    /// all of it agree, and we are in each.
    pub(super) lists: Vec<Witnesses>,
    /// It was let in by us, or by one that goes by us: it cannot have become anything without us.
    is_ours: bool,
    /// Its member has said that this seat is no more.
    pub(super) is_gone: bool,
    /// Tries to leave that we have refused.
    pub(super) refused: u64,
    /// Attempts of it to exclude others that it has called off.
    pub(super) unlocked: u64,
}

impl Follower {
    fn new(next: Option<Seat>, is_ours: bool, now: Time) -> Self {
        Self {
            next,
            number: 0,
            heard_at: None,
            known_at: now,
            is_settled: false,
            adopted: None,
            lists: Vec::new(),
            is_ours,
            is_gone: false,
            refused: 0,
            unlocked: 0,
        }
    }

    /// Takes in what it tells of itself.
    fn tells(&mut self, ask: &Ask, now: Time) {
        self.number = ask.number;
        self.heard_at = Some(now);
        self.is_settled = ask.is_settled;
        self.adopted.clone_from(&ask.adopted);
        if let Some(adopted) = &ask.adopted {
            self.lists.retain(|list| list.version >= adopted.version);
        }
    }

    /// We are one of the witnesses of this list from now on, if it comes to that.
    pub(super) fn vouch_for(&mut self, list: &Witnesses) {
        if !self.lists.contains(list) {
            self.lists.push(list.clone());
        }
    }

    /// Whether we know every list by which it may go.
    pub(super) fn goes_by(&self, me: Seat) -> bool {
        match &self.adopted {
            Some(list) => list.seats.contains(&me),
            None => self.is_ours || self.heard_at.is_some(),
        }
    }

    /// For longer than it takes to lose its ticket.
    pub(super) fn is_silent(&self, config: &Config, now: Time) -> bool {
        now >= self.last_heard() + config.lease + config.round
    }

    fn last_heard(&self) -> Time {
        self.heard_at.unwrap_or(self.known_at)
    }
}

/// All of them that we know.
#[derive(Clone, Debug, Default)]
pub(super) struct Followers {
    seats: BTreeMap<Seat, Follower>,
}

impl Followers {
    /// As we are told when we get our seat: nearest first.
    pub(super) fn in_order(seats: &[Seat], now: Time) -> Self {
        let nexts = seats.iter().skip(1).copied().map(Some).chain([None]);
        let seats =
            seats.iter().zip(nexts).map(|(seat, next)| (*seat, Follower::new(next, false, now))).collect();
        Self { seats }
    }

    pub(super) fn get(&self, seat: Seat) -> Option<&Follower> {
        self.seats.get(&seat)
    }

    pub(super) fn get_mut(&mut self, seat: Seat) -> Option<&mut Follower> {
        self.seats.get_mut(&seat)
    }

    pub(super) fn insert(&mut self, seat: Seat, next: Seat, now: Time) {
        self.seats.insert(seat, Follower::new(Some(next), true, now));
    }

    pub(super) fn remove(&mut self, seat: Seat) {
        self.seats.remove(&seat);
    }

    /// From `first` on as each names the next, never back or beyond `me`; and whether the chain closes at `me`.
    pub(super) fn chain(&self, tickets: Ticket, me: Seat, first: Seat) -> (Vec<Seat>, bool) {
        let mut chain = Vec::new();
        let (mut at, mut way) = (first, 0);
        while at != me {
            let steps = steps(tickets, me.ticket, at.ticket);
            let Some(follower) = self.seats.get(&at).filter(|_| steps > way && steps < tickets) else {
                return (chain, false);
            };
            chain.push(at);
            way = steps;
            match follower.next {
                Some(next) => at = next,
                None => return (chain, false),
            }
        }
        (chain, true)
    }

    /// A seat names its successor. Who is new comes before whom it named until now, as far as we know.
    pub(super) fn name(&mut self, tickets: Ticket, namer: Seat, next: Seat, me: Seat, now: Time) {
        let Some(follower) = self.seats.get_mut(&namer) else { return };
        let before = follower.next.replace(next);
        let is_ours = follower.goes_by(me);
        if next == me || self.seats.contains_key(&next) {
            return;
        }
        let way = |to: Seat| steps(tickets, namer.ticket, to.ticket);
        let after = before.filter(|before| way(next) < way(*before));
        self.seats.insert(next, Follower::new(after, is_ours, now));
    }

    /// A question of a seat that is in the chain: false if a later one came already.
    pub(super) fn asks(&mut self, tickets: Ticket, ask: &Ask, me: Seat, now: Time) -> bool {
        let Some(follower) = self.seats.get_mut(&ask.seat).filter(|follower| follower.number < ask.number)
        else {
            return false;
        };
        follower.tells(ask, now);
        self.name(tickets, ask.seat, ask.next, me, now);
        true
    }

    /// A member says which of its seats are no more: that one, and all before it.
    pub(super) fn are_gone(&mut self, gone: Seat) {
        for (seat, follower) in &mut self.seats {
            follower.is_gone |= is_meant(gone, *seat);
        }
    }

    /// Forgets whoever is in no chain and has been silent since.
    pub(super) fn forget(&mut self, keep: &[Seat], silent_since: Time) {
        self.seats.retain(|seat, follower| keep.contains(seat) || follower.last_heard() >= silent_since);
    }

    /// The latest seat of a member among them.
    pub(super) fn seat_of(&self, member: MemberId) -> Option<Seat> {
        self.seats.keys().filter(|seat| seat.member == member).max_by_key(|seat| seat.incarnation).copied()
    }
}

/// Whether a member that says one of its seats is no more means this one: that very seat, or any before it.
pub(super) fn is_meant(gone: Seat, seat: Seat) -> bool {
    seat.member == gone.member && (seat == gone || seat.incarnation < gone.incarnation)
}
