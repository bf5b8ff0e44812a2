//! What a member knows about one token.

use std::time::Duration;

use crate::base::{MemberId, Nonce, Session, Time};

use super::config::Config;
use super::later;

/// Everything about one token. Without any of the three there is nothing to know, and the record goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) authority: Authority,
    /// The Commit that is repeated until its EarlyStop.
    pub(super) committing: Option<Committing>,
    /// `hi`: the highest session accepted here.
    pub(super) accepted: Option<Accepted>,
    /// The paper's rule, for the tests that show why it is not ours.
    #[cfg(test)]
    pub(super) moved: Option<(Session, bool)>,
}

/// Whether we hold the token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Authority {
    #[default]
    None,
    Holding {
        session: Session,
    },
    /// We hold it, and have asked `taker` whether it would take it.
    Offering {
        session: Session,
        taker: MemberId,
        /// How many Moves were sent.
        tries: u32,
        rto: Duration,
        due: Time,
    },
    /// The taker has said yes. We hold it until the pull has ended, and then no more.
    Releasing {
        session: Session,
        taker: MemberId,
        nonce: Nonce,
        rto: Duration,
    },
}

/// A Commit on its way. We do not hold the token any longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Committing {
    pub(super) session: Session,
    pub(super) taker: MemberId,
    pub(super) nonce: Nonce,
    pub(super) since: Time,
    pub(super) rto: Duration,
    pub(super) last_sent: Time,
    pub(super) gap: Duration,
    pub(super) due: Time,
}

/// The highest session accepted here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Accepted {
    pub(super) session: Session,
    pub(super) at: Time,
    /// When EarlyStop was sent last.
    pub(super) stopped_at: Time,
}

impl Authority {
    /// The session in which we hold the token; `None` if we do not.
    pub(super) fn session(&self) -> Option<Session> {
        match *self {
            Self::None => None,
            Self::Holding { session } | Self::Offering { session, .. } | Self::Releasing { session, .. } => {
                Some(session)
            }
        }
    }

    pub(super) fn is_none(&self) -> bool {
        *self == Self::None
    }

    /// When the Move is to be repeated, or given up.
    pub(super) fn due(&self) -> Option<Time> {
        match *self {
            Self::Offering { due, .. } => Some(due),
            _ => None,
        }
    }
}

impl Committing {
    /// Whether H_commit is not over yet.
    pub(super) fn is_young(&self, config: &Config, now: Time) -> bool {
        now.since(self.since) < config.h_commit()
    }

    /// When it is to be repeated after `gap`, or given up if that comes earlier.
    pub(super) fn due_after(gap: Duration, since: Time, config: &Config, now: Time) -> Time {
        later(now, gap).min(later(since, config.h_commit()))
    }
}

impl Record {
    pub(super) fn holding(session: Session) -> Self {
        Self { authority: Authority::Holding { session }, ..Self::default() }
    }

    /// Whether this session is above all that were accepted here.
    pub(super) fn is_new(&self, session: Session) -> bool {
        self.accepted.as_ref().is_none_or(|accepted| accepted.session < session)
    }

    /// To whom we hand the token off, or have done so without hearing that it came.
    pub(super) fn is_for(&self, member: MemberId) -> bool {
        let offered = match self.authority {
            Authority::Offering { taker, .. } | Authority::Releasing { taker, .. } => Some(taker),
            Authority::None | Authority::Holding { .. } => None,
        };
        let committed = self.committing.as_ref().map(|committing| committing.taker);
        [offered, committed].contains(&Some(member))
    }

    pub(super) fn is_empty(&self) -> bool {
        #[cfg(test)]
        if self.moved.is_some() {
            return false;
        }
        self.authority.is_none() && self.committing.is_none() && self.accepted.is_none()
    }

    /// When the accepted session may be forgotten. While we hold the token that is never: it tells late copies of old
    /// Moves from a conflict.
    pub(super) fn forget_at(&self, config: &Config) -> Option<Time> {
        let accepted = self.accepted.as_ref().filter(|_| self.authority.is_none())?;
        Some(later(accepted.at, config.record_life()))
    }

    /// When there is something to do for this token.
    pub(super) fn due(&self, config: &Config) -> Option<Time> {
        let committing = self.committing.as_ref().map(|committing| committing.due);
        [self.authority.due(), committing, self.forget_at(config)].into_iter().flatten().min()
    }
}
