//! What a borrowing process is told with a turn about how much to pull in it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::jobs::{Allowance, Rhythm, Turn};

/// The part of a turn that is about how much to pull.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct TurnTerms {
    pub(super) interval_ms: Option<u64>,
    pub(super) since_last_ms: Option<u64>,
    /// The member's limit, which is an average over the slots of all its jobs; and what it has saved.
    pub(super) limit_bytes_per_sec: Option<u64>,
    pub(super) saved: u64,
    pub(super) is_wanted: bool,
}

impl TurnTerms {
    pub(super) fn new(turn: &Turn, limit: Option<u64>, saved: Option<u64>) -> Self {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self {
            interval_ms: turn.rhythm.interval.map(millis),
            since_last_ms: turn.rhythm.since_last.map(millis),
            limit_bytes_per_sec: limit,
            saved: saved.unwrap_or(0),
            is_wanted: turn.slot.wanted().is_some_and(|wanted| *wanted.borrow()),
        }
    }

    pub(super) fn rhythm(&self) -> Rhythm {
        let (interval, since_last) = (self.interval_ms, self.since_last_ms);
        Rhythm {
            interval: interval.map(Duration::from_millis),
            since_last: since_last.map(Duration::from_millis),
        }
    }

    pub(super) fn allowance(&self) -> Allowance {
        Allowance { bytes_per_sec: self.limit_bytes_per_sec, saved: self.saved }
    }
}
