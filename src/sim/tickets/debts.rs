//! Tickets whose owner has crashed, and which somebody must have to give before long.

use std::collections::VecDeque;
use std::time::Duration;

use crate::base::{Ticket, Time};
use crate::sim::Spread;

/// The tickets, and what else went wrong lately.
#[derive(Debug, Default)]
pub(super) struct Debts {
    open: Vec<Debt>,
    /// Tickets that are lost because more fell silent than the ring bears, or that nobody owes. Until they are back it bears
    /// less.
    lost: Vec<Ticket>,
    /// When a seat last fell silent or came back: crashes and pauses.
    silences: VecDeque<Time>,
    were_too_many: bool,
    /// After how long they came back.
    back_after: Spread,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Debt {
    ticket: Ticket,
    since: Time,
}

impl Debts {
    /// Somebody with a seat fell silent, of a ring that bears so many.
    pub(super) fn silenced(&mut self, now: Time, remembered: Duration, borne: usize) {
        while self.silences.front().is_some_and(|at| now.since(*at) > remembered) {
            self.silences.pop_front();
        }
        self.silences.push_back(now);
        self.were_too_many |= self.silences.len() > borne;
    }

    /// Whether more were silent at once than the ring bears, since this was asked last.
    pub(super) fn were_too_many(&mut self) -> bool {
        std::mem::take(&mut self.were_too_many)
    }

    pub(super) fn owed(&mut self, ticket: Ticket, since: Time) {
        self.open.push(Debt { ticket, since });
    }

    /// Its owner has crashed, and it may or may not come back.
    pub(super) fn lose(&mut self, ticket: Ticket) {
        self.lost.push(ticket);
    }

    /// Whether there are such.
    pub(super) fn are_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    /// Another ring has all tickets.
    pub(super) fn forget(&mut self) {
        self.open.clear();
        self.lost.clear();
    }

    /// Somebody has these tickets to give.
    pub(super) fn paid(&mut self, covers: impl Fn(Ticket) -> bool, now: Time) {
        let paid = self.open.extract_if(.., |debt| covers(debt.ticket));
        paid.for_each(|debt| self.back_after.record(now.since(debt.since)));
        self.lost.retain(|ticket| !covers(*ticket));
    }

    pub(super) fn back_after(&self) -> &Spread {
        &self.back_after
    }

    /// Time is up for this one. Gives true if it is still open, no more than `most` seats fell silent since `window`
    /// before it, and the ring was whole.
    pub(super) fn is_overdue(&mut self, ticket: Ticket, since: Time, window: Duration, most: usize) -> bool {
        let debt = Debt { ticket, since };
        let Some(index) = self.open.iter().position(|open| *open == debt) else { return false };
        self.open.swap_remove(index);
        let silences = self.silences.iter().filter(|at| **at >= since - window).count();
        let is_excused = silences > most || !self.lost.is_empty();
        if is_excused {
            self.lost.push(ticket);
        }
        !is_excused
    }
}
