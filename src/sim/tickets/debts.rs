//! Tickets whose owner has crashed, and which somebody must have to give before long.

use std::collections::VecDeque;
use std::time::Duration;

use crate::base::{Ticket, Time};

/// The tickets, and what else went wrong lately.
#[derive(Debug, Default)]
pub(super) struct Debts {
    open: Vec<Debt>,
    /// When a seat last fell silent or came back: crashes and pauses.
    silences: VecDeque<Time>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Debt {
    ticket: Ticket,
    since: Time,
}

impl Debts {
    /// Somebody with a seat fell silent.
    pub(super) fn silenced(&mut self, now: Time, remembered: Duration) {
        while self.silences.front().is_some_and(|at| now.since(*at) > remembered) {
            self.silences.pop_front();
        }
        self.silences.push_back(now);
    }

    pub(super) fn owed(&mut self, ticket: Ticket, since: Time) {
        self.open.push(Debt { ticket, since });
    }

    /// Somebody has these tickets to give.
    pub(super) fn paid(&mut self, covers: impl Fn(Ticket) -> bool) {
        self.open.retain(|debt| !covers(debt.ticket));
    }

    /// Time is up for this one. Gives true if it is still open, and no more than `most` seats fell silent since `window`
    /// before it.
    pub(super) fn is_overdue(&mut self, ticket: Ticket, since: Time, window: Duration, most: usize) -> bool {
        let debt = Debt { ticket, since };
        let Some(index) = self.open.iter().position(|open| *open == debt) else { return false };
        self.open.swap_remove(index);
        self.silences.iter().filter(|at| **at >= since - window).count() <= most
    }
}
