//! A token that is here: how long it stays, and how far its visit is.

use std::time::Duration;

use crate::base::{MemberId, Session, Time};

use super::config::Config;
use super::custody::first_check_after;
use super::nouns::Token;
use super::routing::Candidates;

/// A token that is here.
#[derive(Clone, Debug)]
pub(super) struct Hold {
    pub(super) token: Token,
    pub(super) since: Time,
    /// The member that handed it to us and watches over it. `None` if it was made here.
    pub(super) custodian: Option<Custodian>,
    /// The end of the slot, while one runs.
    pub(super) slot: Option<Time>,
    pub(super) stage: Stage,
    pub(super) candidates: Candidates,
}

/// The member that watches over the token that is here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Custodian {
    pub(super) member: MemberId,
    /// The session in which it handed the token to us. The token's own session grows with every slot that we add.
    pub(super) session: Session,
    /// When it was heard of last: it handed the token over, or asked whether the token is still here.
    pub(super) heard_at: Time,
}

/// How far the visit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The slot runs, or the token rests, until it is to be offered.
    Kept { until: Time },
    /// It has rested, but nobody has answered the scouts yet.
    AwaitingReports { until: Time },
    /// The first answer was late, and decides together with those that come right after it.
    Gathering { until: Time },
    /// A handoff is under way.
    Offered,
}

/// How many checks of a custodian may fail to come before it counts as gone.
const CHECKS_MISSED: u32 = 3;

/// How long a holder may hear nothing of its custodian, or of all others, before these count as gone, where answers take so
/// long. `None` without custody.
pub(super) fn patience(timeout: Duration, config: &Config) -> Option<Duration> {
    config.rules.custody.as_ref().map(|_| first_check_after(timeout, config) * CHECKS_MISSED)
}

impl Hold {
    /// Whether another member would notice if this one crashed.
    pub(super) fn is_watched(&self, patience: Option<Duration>, now: Time) -> bool {
        let Some(patience) = patience else { return true };
        self.custodian.is_some_and(|custodian| now.since(custodian.heard_at) < patience)
    }

    pub(super) fn born(&self) -> Time {
        self.since - self.token.age
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        let stage = match self.stage {
            Stage::Kept { until } | Stage::AwaitingReports { until } | Stage::Gathering { until } => {
                Some(until)
            }
            Stage::Offered => None,
        };
        [stage, self.slot].into_iter().flatten().min()
    }
}
