//! The taker's side: say yes and forget it, take what comes with our own nonce, say so.

use crate::base::{Nonce, Session, Time, TokenId};

use super::machine::Handoff;
use super::nouns::{Event, Message, Received};
use super::record::{Accepted, Authority};

impl Handoff {
    /// A Move that is welcome. Nothing is remembered of it: there is nothing for a spoofed one to fill or multiply.
    pub(super) fn answer(&mut self, received: &Received, now: Time) {
        let Received { from, token, session, .. } = *received;
        self.confirm_before(token, session);
        let Some(tick) = self.tick(now) else { return };
        let nonce = self.secret.issue(tick, &self.purpose(token, session, from));
        self.send(from, token, session, Message::Ack(nonce), false);
    }

    /// A Commit with a nonce of ours, the first of its session: from now on we hold the token.
    pub(super) fn accept(&mut self, received: &Received, nonce: Nonce, now: Time) {
        let Received { from, token, session, .. } = *received;
        if !self.make_room_for(token, now) {
            return;
        }
        self.confirm_before(token, session);
        let record = self.records.entry(token).or_default();
        // K5: all other copies of this Commit are dead from here on.
        record.accepted = Some(Accepted { session, at: now, stopped_at: now });
        record.authority = Authority::Holding { session };
        record.committing = None;
        // First what somebody waits for.
        self.emit(Event::Arrived { token, session, from });
        self.send(from, token, session, Message::EarlyStop(nonce), false);
    }

    /// A copy of a Commit that we accepted: the giver has not heard so.
    pub(super) fn stop_again(&mut self, received: &Received, nonce: Nonce, now: Time) {
        let Received { from, token, session, .. } = *received;
        if let Some(accepted) = self.records.get_mut(&token).and_then(|record| record.accepted.as_mut()) {
            accepted.stopped_at = now;
        }
        self.send(from, token, session, Message::EarlyStop(nonce), false);
    }

    /// Somebody hands the token off in a later session than we did, so our taker must have got it.
    pub(super) fn confirm_before(&mut self, token: TokenId, session: Session) {
        let committing = self.records.get(&token).and_then(|record| record.committing.as_ref());
        if committing.is_some_and(|committing| committing.session < session) {
            self.confirm(token);
        }
    }
}
