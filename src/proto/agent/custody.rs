//! Custody: who handed a token off watches over it until the taker has handed it on.
//!
//! ```text
//!  custodian                  taker                      next
//!     |------ token ----------->|                          |
//!     |                         |------ token ------------>|
//!     |<----- Release ----------|      (custody has moved on)
//!
//!     |--- Check (no release) ->|
//!     |<-- Holding / Passed ----|      or silence: after the last check, a new token
//! ```

use crate::base::{MemberId, Session, Time, TokenId};

use super::config::Config;
use super::rules;

/// One token that we handed off and that was not reported as handed on.
#[derive(Clone, Debug)]
pub(super) struct Custody {
    pub(super) token: TokenId,
    pub(super) session: Session,
    pub(super) taker: MemberId,
    /// From whom we had it, and in which session: to be released when our own handoff is confirmed.
    pub(super) predecessor: Option<(MemberId, Session)>,
    checks: u32,
    due: Time,
}

/// What is to be done when a custody falls due.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Due {
    Check,
    Regenerate,
}

impl Custody {
    pub(super) fn new(
        token: TokenId,
        session: Session,
        taker: MemberId,
        predecessor: Option<(MemberId, Session)>,
        rules: &rules::Custody,
        config: &Config,
        now: Time,
    ) -> Self {
        Self { token, session, taker, predecessor, checks: 0, due: now + config.slot + rules.grace }
    }

    pub(super) fn due(&self) -> Time {
        self.due
    }

    /// Asks, and when it has asked often enough gives the token up for lost.
    pub(super) fn fall_due(&mut self, rules: &rules::Custody, now: Time) -> Due {
        if self.checks >= rules.checks {
            return Due::Regenerate;
        }
        self.checks += 1;
        self.due = now + rules.check_every;
        Due::Check
    }

    /// Its silence so far proves nothing: all checks anew.
    pub(super) fn ask_again(&mut self, rules: &rules::Custody, now: Time) {
        self.checks = 0;
        self.due = self.due.max(now + rules.check_every);
    }

    /// The taker still holds the token: it gets one more slot.
    pub(super) fn prolong(&mut self, rules: &rules::Custody, config: &Config, now: Time) {
        self.checks = 0;
        self.due = now + config.slot + rules.grace;
    }

    /// The token was alive at `at`, though the taker does not answer: the checks begin anew one slot after that.
    pub(super) fn seen_alive(&mut self, rules: &rules::Custody, config: &Config, at: Time) {
        let due = at + config.slot + rules.grace;
        if self.checks > 0 && due > self.due {
            self.checks = 0;
            self.due = due;
        }
    }

    /// Whether a message about this token and session, from this member, is about this custody.
    pub(super) fn concerns(&self, from: MemberId, token: TokenId, session: Session) -> bool {
        (self.taker, self.token, self.session) == (from, token, session)
    }
}
