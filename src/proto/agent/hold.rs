//! A token that is here: how long it stays, and how far its visit is.

use crate::base::{MemberId, Time};

use super::nouns::Token;
use super::routing::Candidates;

/// A token that is here.
#[derive(Clone, Debug)]
pub(super) struct Hold {
    pub(super) token: Token,
    pub(super) since: Time,
    /// Who watches over it: whoever handed it to us. `None` if it was made here.
    pub(super) from: Option<MemberId>,
    /// The end of the slot, while one runs.
    pub(super) slot: Option<Time>,
    pub(super) stage: Stage,
    pub(super) candidates: Candidates,
}

/// How far the visit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The slot runs, or the token rests, until it is to be offered.
    Kept { until: Time },
    /// It has rested, but nobody has answered the scouts yet.
    AwaitingReports { until: Time },
    /// A handoff is under way.
    Offered,
}

impl Hold {
    pub(super) fn born(&self) -> Time {
        self.since - self.token.age
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        let stage = match self.stage {
            Stage::Kept { until } | Stage::AwaitingReports { until } => Some(until),
            Stage::Offered => None,
        };
        [stage, self.slot].into_iter().flatten().min()
    }
}
