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
//!
//! How long silence must last follows the round trips to the taker. While the checks go out the handoff repeats its Commit by the
//! same timeout, four times and more; so a taker that only lost the Commit has it before it is given up.

use std::time::Duration;

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
    /// How long to wait for an answer of the taker.
    timeout: Duration,
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
        timeout: Duration,
        config: &Config,
        now: Time,
    ) -> Self {
        let checks = 0;
        let due = now + first_check_after(timeout, config);
        Self { token, session, taker, predecessor, timeout, checks, due }
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
        self.due = now + self.check_every(rules);
        Due::Check
    }

    /// Its silence so far proves nothing: all checks anew.
    pub(super) fn ask_again(&mut self, rules: &rules::Custody, now: Time) {
        self.checks = 0;
        self.due = self.due.max(now + self.check_every(rules));
    }

    fn check_every(&self, rules: &rules::Custody) -> Duration {
        rules.check_every.max(self.timeout)
    }

    /// The taker still holds the token: it gets one more slot.
    pub(super) fn prolong(&mut self, config: &Config, now: Time) {
        self.checks = 0;
        self.due = now + first_check_after(self.timeout, config);
    }

    /// The token was alive at `at`, though the taker does not answer: the checks begin anew one slot after that.
    pub(super) fn seen_alive(&mut self, config: &Config, at: Time) {
        let due = at + first_check_after(self.timeout, config);
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

/// How long after a token left, or was known to be there, it is asked after: a slot and what the taker needs to hand the token
/// on, which is two exchanges over such a path, until its release is here.
pub(super) fn first_check_after(timeout: Duration, config: &Config) -> Duration {
    let grace = config.rules.custody.as_ref().map_or(Duration::ZERO, |rules| rules.grace);
    config.slot.saturating_add(grace.max(timeout.saturating_mul(2)))
}
