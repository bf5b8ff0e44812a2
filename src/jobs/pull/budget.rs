//! How much to pull in the slot that runs: what the giver measured, what the feed needs and what the limits leave, put
//! together once per slot. Used by the puller alone.

use std::sync::MutexGuard;
use std::time::Duration;

use tracing::{info, warn};

use super::report::{Event, SlotPlan};
use super::worker::Worker;
use super::{Common, Feed, Turn};
use crate::fetch::Slot;
use crate::fetch::limit::smallest;
use crate::fetch::plan::{Budgets, Need, Visit};
use crate::jobs::slots::average_period;

impl<F: Feed> Common<'_, F> {
    fn budgets(&self) -> MutexGuard<'_, Budgets> {
        self.budgets.lock().expect("nobody panics with the budgets in hand")
    }

    fn plan(&self) -> MutexGuard<'_, SlotPlan> {
        self.plan.lock().expect("nobody panics with the plan in hand")
    }

    /// A turn begins.
    pub(super) fn plan_slot(&self, turn: &Turn, workers: &[Worker]) {
        let [own, _, lent] = &self.limiters;
        let Some(length) = turn.slot.left().filter(|_| turn.slot.is_limited()) else {
            own.average_over(None);
            self.tally.begin(None);
            return;
        };
        let interval = turn.rhythm.interval;
        let period = average_period(interval, length);
        own.average_over(Some(period));
        lent.begin_with(turn.allowance.bytes_per_sec, turn.allowance.saved, Some(period));
        let visit = Visit {
            length,
            interval,
            since_last: turn.rhythm.since_last,
            capacity: capacity(&turn.slot, length, workers),
        };
        let work = self.work();
        let need = Need {
            stream: work.feed.stream_rate(),
            backlog: work.feed.backlog(),
            limit: smallest([own.rate(), lent.rate()]),
            saved: [own, lent].iter().filter_map(|limiter| limiter.within(Duration::ZERO)).min(),
        };
        drop(work);
        let mut budgets = self.budgets();
        self.tally.begin(budgets.slot_began(visit, need));
        let change = std::iter::from_fn(|| budgets.poll_change()).last();
        let plan = SlotPlan { budget: budgets.budget(), capacity: visit.capacity, interval, change };
        drop(budgets);
        if let Some(change) = &plan.change {
            info!(job = self.watch.name(), "{change}");
        }
        self.watch.on(Event::Budgeted { plan: &plan });
        *self.plan() = plan;
    }

    /// The turn has ended, and brought so many bytes.
    pub(super) fn slot_ended(&self, bytes: u64) {
        let mut budgets = self.budgets();
        let before = budgets.overload();
        budgets.slot_ended(bytes);
        let overload = budgets.overload();
        drop(budgets);
        match (before, overload) {
            (None, Some(overload)) => warn!(job = self.watch.name(), "overloaded: {overload}"),
            (Some(_), None) => info!(job = self.watch.name(), "not overloaded any more"),
            _ => {}
        }
        let chunk = self.plan().chunk();
        self.watch.on(Event::SlotEnded { bytes, chunk, overload });
    }
}

/// What a slot carries over all connections, at the rate that the circle allows.
fn capacity(slot: &Slot, length: Duration, workers: &[Worker]) -> Option<u64> {
    let at_work = if slot.counts_connections() { 1 } else { workers.len() };
    let over_links = workers.iter().take(at_work).filter_map(|worker| worker.capacity(length));
    let over_links = over_links.reduce(u64::saturating_add)?;
    let allowed = slot
        .rate_bytes_per_sec()
        .map(|rate| u64::try_from(u128::from(rate) * length.as_millis() / 1_000).unwrap_or(u64::MAX));
    allowed.into_iter().chain([over_links]).min()
}
