//! What can be changed while a member runs: how fast its jobs pull, and who is told what people should know.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::watch;

use crate::fetch::limit::Limiter;
use crate::fetch::timetable::{self, Timetable};

use super::notices::Notices;

/// What can be changed while a member runs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Dials {
    limit: Arc<watch::Sender<Timetable>>,
    limiter: Limiter,
    notices: Arc<watch::Sender<Notices>>,
}

impl Dials {
    pub(super) fn new(limit: Timetable, notices: Notices) -> Self {
        let limit = Arc::new(watch::Sender::new(limit));
        Self { limit, limiter: Limiter::new(None), notices: Arc::new(watch::Sender::new(notices)) }
    }

    /// How fast all jobs together may pull from now on.
    pub fn set_limit(&self, limit: Timetable) {
        self.limit.send_replace(limit);
    }

    /// How fast all jobs together may pull, and when.
    pub(super) fn limit(&self) -> Timetable {
        self.limit.borrow().clone()
    }

    /// How fast all jobs together may pull at this moment; `None` is as fast as it goes.
    pub(super) fn rate(&self) -> Option<u64> {
        self.limit.borrow().rate_at(Timestamp::now())
    }

    /// Keeps all jobs together to the limit. What other processes pull in slots of this one is charged to it.
    pub(super) fn limiter(&self) -> &Limiter {
        &self.limiter
    }

    /// Who is told from now on.
    pub fn set_notices(&self, notices: Notices) {
        self.notices.send_replace(notices);
    }

    pub(super) fn notices(&self) -> Notices {
        self.notices.borrow().clone()
    }

    /// Keeps the limiter to the timetable that was set last, for as long as anybody can set one.
    pub(super) async fn keep(self) {
        let mut limit = self.limit.subscribe();
        let limiter = self.limiter.clone();
        drop(self);
        loop {
            let timetable = limit.borrow_and_update().clone();
            tokio::select! {
                never = timetable::follow(&timetable, &limiter) => match never {},
                changed = limit.changed() => if changed.is_err() { return },
            }
        }
    }
}
