//! The checkers: what must hold after every event, whatever the network and the members do.
//!
//! They keep their own books, from what machines are seen to do. The one thing on which they take a machine's word is
//! whether it is sure at this moment, by its own clock: that is its claim to a ticket, and two claims to one ticket are what
//! they look for.
//!
//! A member that stands still reads nothing, and its right goes by its clock, which does not stand still. So its pull counts
//! while it has the right, and no longer; the moment after it goes on, until it has looked at the clock, is beyond what
//! members can do (see [`Faults::pause_every`](super::Faults)).

use std::collections::BTreeMap;

use crate::base::{Seat, Ticket, Time};

use super::claims::{Claim, Claims};
use super::debts::Debts;
use super::violation::Violation;

/// The books.
#[derive(Debug)]
pub(in crate::sim) struct Checks {
    tickets: Ticket,
    claims: Claims,
    /// Pulls by ticket and member, and whether the member stands still, or has stood still and lost its right by that.
    pulls: BTreeMap<(Ticket, u32), bool>,
    pub(super) debts: Debts,
    violations: Vec<Violation>,
}

impl Checks {
    pub(in crate::sim) fn new(tickets: Ticket, members: usize) -> Self {
        Self {
            tickets,
            claims: Claims::new(tickets, members),
            pulls: BTreeMap::new(),
            debts: Debts::default(),
            violations: Vec::new(),
        }
    }

    pub(in crate::sim) fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Of each kind the first is enough.
    pub(in crate::sim) fn complain(&mut self, violation: Violation) {
        let kind = std::mem::discriminant(&violation);
        if self.violations.iter().all(|known| std::mem::discriminant(known) != kind) {
            self.violations.push(violation);
        }
    }

    /// Whether a ticket was in two hands: from there on nothing has a meaning.
    pub(super) fn is_over(&self) -> bool {
        self.violations.iter().any(Violation::is_duplicate)
    }

    /// Members that were sure when they were last looked at.
    pub(super) fn sure(&self) -> usize {
        self.claims.len()
    }

    /// What the member claims now. `is_sure` is asked about others.
    pub(in crate::sim) fn claimed(
        &mut self,
        member: u32,
        claim: Option<Claim>,
        at: Time,
        is_sure: impl Fn(u32) -> bool,
    ) {
        if self.claims.of(member) == claim {
            return;
        }
        if let Some((first, ticket)) = self.claims.put(member, claim, &is_sure) {
            self.complain(Violation::TwoCoordinators { at, ticket, first, second: member });
        }
        let Some(claim) = claim else { return };
        self.debts.paid(|ticket| claim.covers(ticket, self.tickets), at);
        let pulled = self.pulls.iter().find(|((ticket, puller), is_frozen)| {
            *puller != member && claim.covers(*ticket, self.tickets) && (!**is_frozen || is_sure(*puller))
        });
        if let Some((&(ticket, puller), _)) = pulled {
            let violation = if ticket == claim.ticket {
                Violation::TwoUsers { at, ticket, first: puller, second: member }
            } else {
                Violation::StillPulled { at, ticket, puller, coordinator: member }
            };
            self.complain(violation);
        }
    }

    pub(in crate::sim) fn pull_began(
        &mut self,
        member: u32,
        seat: Seat,
        at: Time,
        is_sure: impl Fn(u32) -> bool,
    ) {
        let ticket = seat.ticket;
        let counts = |member: u32, is_frozen: bool| !is_frozen || is_sure(member);
        let others = self.pulls.range((ticket, 0)..=(ticket, u32::MAX));
        let other = others
            .map(|(key, is_frozen)| (key.1, *is_frozen))
            .find(|(other, is_frozen)| *other != member && counts(*other, *is_frozen));
        if let Some((first, _)) = other {
            self.complain(Violation::TwoUsers { at, ticket, first, second: member });
        }
        self.pulls.insert((ticket, member), false);
        if self.pulls.len() > usize::from(self.tickets) {
            let pulls = self.pulls.iter().filter(|(key, is_frozen)| counts(key.1, **is_frozen)).count();
            if pulls > usize::from(self.tickets) {
                self.complain(Violation::TooManyPulls { at, pulls });
            }
        }
    }

    pub(in crate::sim) fn pull_ended(&mut self, member: u32, ticket: Ticket) {
        self.pulls.remove(&(ticket, member));
    }

    /// The member stands still, or goes on with its right intact.
    pub(in crate::sim) fn pull_frozen(&mut self, member: u32, ticket: Ticket, is_frozen: bool) {
        if let Some(frozen) = self.pulls.get_mut(&(ticket, member)) {
            *frozen = is_frozen;
        }
    }
}
