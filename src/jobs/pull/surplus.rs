//! Workers beyond the number of connections that the source allows: they leave their tasks to the others.

use std::time::Duration;

use tokio::time::Instant;

use super::current::Current;
use super::worker::Worker;
use super::{Common, Feed};

impl Worker {
    /// True while the worker leaves the connections that the source allows to the others.
    pub(super) fn is_resting(&self) -> bool {
        self.rests_until.is_some_and(|until| Instant::now() < until)
    }

    /// The source serves this worker.
    pub(super) fn served<F: Feed>(&mut self, common: &Common<'_, F>) {
        self.was_answered = true;
        if !std::mem::replace(&mut self.is_served, true) {
            common.work().served += 1;
        }
    }

    /// Leaves all tasks to the workers whose connections the source accepts.
    pub(super) fn rest<F: Feed>(&mut self, common: &Common<'_, F>, wait: Duration) {
        self.rests_until = Some(Instant::now() + wait);
        common.work().served -= usize::from(std::mem::take(&mut self.is_served));
        let next = self.after.take().map(Current::File);
        common.give_back(self.current.take().into_iter().chain(next));
    }
}
