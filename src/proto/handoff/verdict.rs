//! What a received message means in the present state: the guards of both tables, in one place.
//!
//! The node asks before it checks a signature, `handle` asks again before it acts. Nothing here changes anything.

use std::time::Duration;

use crate::base::{MemberId, Nonce, Session, Time, TokenId};

use super::machine::Handoff;
use super::nonce::Purpose;
use super::nouns::{Message, Received};
use super::record::{Authority, Record};

/// What to do about a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing at all: it is late, repeated, replayed, or not meant for this state.
    Irrelevant,
    /// A Move: say yes.
    Answer,
    /// A Move to which we do not answer, but it shows that our last handoff succeeded.
    Delivered,
    /// A Move for a token that we hold.
    Conflict,
    /// An Ack of the current offer: let go.
    Release,
    /// An Ack of the handoff that is being committed: the Commit was lost, or is on its way.
    CommitAgain,
    /// A Commit that we asked for: take the token.
    Accept,
    /// A Commit of what we accepted already: the EarlyStop was lost.
    StopAgain,
    /// The EarlyStop that we wait for.
    Confirm,
}

/// Sessions that a token may have used per second of its age, and at the start. A hundred times what any circle
/// reaches; it keeps a member from using up a token's sessions with one Move.
const SESSIONS_PER_SECOND: u64 = 1000;

/// Age that every token is credited with, in seconds: a year. The generator's clock may be ahead of ours by anything, so a
/// token's birth refuses no token: one from the future is merely the younger of two. A member that cheats still cannot use
/// up the sessions: each of its Moves gets no further than the sessions of one year, of 580 million years in a `u64`.
const AGE_CREDIT_S: u64 = 365 * 86_400;

impl Handoff {
    pub(super) fn verdict(&self, received: &Received, now: Time) -> Verdict {
        if received.from == self.me {
            return Verdict::Irrelevant;
        }
        let unknown = Record::default();
        let record = self.records.get(&received.token).unwrap_or(&unknown);
        match received.message {
            Message::Move => self.verdict_on_move(record, received, now),
            Message::Ack(nonce) => self.verdict_on_ack(record, received, nonce, now),
            Message::Commit(nonce) => self.verdict_on_commit(record, received, nonce, now),
            Message::EarlyStop(nonce) => verdict_on_early_stop(record, received, nonce),
        }
    }

    fn verdict_on_move(&self, record: &Record, received: &Received, now: Time) -> Verdict {
        let session = received.session;
        // A late copy of an old Move is no conflict, so this comes before the look at who holds the token.
        if !record.is_new(session) || !self.is_plausible(received.token, session, now) {
            Verdict::Irrelevant
        } else if !record.authority.is_none() {
            Verdict::Conflict
        } else if self.open {
            Verdict::Answer
        } else if record.committing.as_ref().is_some_and(|committing| committing.session < session) {
            Verdict::Delivered
        } else {
            Verdict::Irrelevant
        }
    }

    fn verdict_on_ack(&self, record: &Record, received: &Received, nonce: Nonce, now: Time) -> Verdict {
        let about = (received.session, received.from);
        match (record.authority, &record.committing) {
            (Authority::Offering { session, taker, .. }, _) if (session, taker) == about => Verdict::Release,
            (Authority::None, Some(committing))
                if (committing.session, committing.taker) == about
                    && committing.nonce == nonce
                    && committing.is_young(&self.config, now)
                    && now.since(committing.last_sent) >= committing.rto =>
            {
                Verdict::CommitAgain
            }
            _ => Verdict::Irrelevant,
        }
    }

    fn verdict_on_commit(&self, record: &Record, received: &Received, nonce: Nonce, now: Time) -> Verdict {
        // Older than that no giver repeats its Commit: it was recorded.
        let age = self.age_of(nonce, received, now);
        if age.is_none_or(|age| age > self.config.h_accept()) {
            return Verdict::Irrelevant;
        }
        match &record.accepted {
            Some(accepted) if received.session <= accepted.session => {
                if now.since(accepted.stopped_at) >= self.config.early_stop_gap {
                    Verdict::StopAgain
                } else {
                    Verdict::Irrelevant
                }
            }
            _ if record.authority.is_none() && self.has_room_for(received.token) => Verdict::Accept,
            _ => Verdict::Irrelevant,
        }
    }

    /// How long ago we made this nonce for this handoff, to the tick; `None` if we did not.
    pub(super) fn age_of(&self, nonce: Nonce, received: &Received, now: Time) -> Option<Duration> {
        let purpose = self.purpose(received.token, received.session, received.from);
        let issued = self.secret.issued(&nonce, &purpose)?;
        let ticks = self.tick(now)?.checked_sub(issued)?;
        Some(self.config.nonce_tick.saturating_mul(ticks))
    }

    /// What a nonce of ours is for: this token, in this session, from this giver, to us.
    pub(super) fn purpose(&self, token: TokenId, session: Session, giver: MemberId) -> Purpose {
        Purpose { circle: self.circle, token, session, giver, taker: self.me }
    }

    /// The time as nonces know it. `None` when the ticks are used up: after 136 years.
    pub(super) fn tick(&self, now: Time) -> Option<u32> {
        let ticks = now.since(self.origin).as_nanos().checked_div(self.config.nonce_tick.as_nanos())?;
        u32::try_from(ticks).ok()
    }

    /// Whether a token of this age can have come so far. The only place where wall time counts, and it is generous: clocks
    /// that differ by hours change no answer.
    fn is_plausible(&self, token: TokenId, session: Session, now: Time) -> bool {
        let created_ms = i64::try_from(token.created_ms).unwrap_or(i64::MAX);
        let age_ms = now.wall_ms(self.wall_offset_ms).saturating_sub(created_ms);
        let seconds = u64::try_from(age_ms / 1000).unwrap_or(0).saturating_add(AGE_CREDIT_S);
        session.0 <= seconds.saturating_mul(SESSIONS_PER_SECOND)
    }
}

fn verdict_on_early_stop(record: &Record, received: &Received, nonce: Nonce) -> Verdict {
    let is_ours = record.committing.as_ref().is_some_and(|committing| {
        (committing.session, committing.taker, committing.nonce) == (received.session, received.from, nonce)
    });
    if is_ours { Verdict::Confirm } else { Verdict::Irrelevant }
}
