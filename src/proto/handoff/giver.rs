//! The giver's side: offer, let go, commit, repeat.

use std::time::Duration;

use crate::base::{MemberId, Nonce, Session, Time, TokenId};

use super::later;
use super::machine::Handoff;
use super::nouns::{Dropped, Event, Message, Output};
use super::record::{Authority, Committing};

impl Handoff {
    pub(super) fn on_offer(&mut self, token: TokenId, taker: MemberId, timeout: Option<Duration>, now: Time) {
        let Some(record) = self.records.get_mut(&token) else { return };
        let Authority::Holding { session } = record.authority else { return };
        if taker == self.me {
            self.emit(Event::Unreachable { token, to: taker });
            return;
        }
        // K7: a new session for every attempt. A late answer to the attempt before cannot be taken for one to this.
        let Some(session) = session.next() else {
            self.drop_token(token, Dropped::SessionsUsedUp);
            return;
        };
        let rto = self.config.rto(timeout);
        record.authority = Authority::Offering { session, taker, tries: 1, rto, due: later(now, rto) };
        record.committing = None;
        self.send(taker, token, session, Message::Move, false);
    }

    /// K7: sessions only ever grow. An attempt to hand the token off may have used this one and higher ones already.
    pub(super) fn on_renewed(&mut self, token: TokenId, renewed: Session) {
        let Some(record) = self.records.get_mut(&token) else { return };
        if let Authority::Holding { session } = &mut record.authority {
            *session = renewed.max(*session);
        }
    }

    /// T_move is over: ask again, or give this taker up.
    pub(super) fn on_move_timer(&mut self, token: TokenId, now: Time) {
        let Some(record) = self.records.get_mut(&token) else { return };
        let Authority::Offering { session, taker, tries, rto, .. } = record.authority else { return };
        if tries < self.config.move_tries {
            let tries = tries.saturating_add(1);
            record.authority = Authority::Offering { session, taker, tries, rto, due: later(now, rto) };
            self.send(taker, token, session, Message::Move, true);
        } else {
            record.authority = Authority::Holding { session };
            self.emit(Event::Unreachable { token, to: taker });
        }
    }

    /// K1: the first Ack of the current offer. From here there is only one way on, and it does not lead back.
    pub(super) fn release(&mut self, token: TokenId, nonce: Nonce) {
        let Some(record) = self.records.get_mut(&token) else { return };
        let Authority::Offering { session, taker, rto, .. } = record.authority else { return };
        record.authority = Authority::Releasing { session, taker, nonce, rto };
        self.outputs.push_back(Output::StopSlot { token });
    }

    /// The taker is no member any more. No Commit has left, so nothing was given: K1 and K8 are not touched.
    pub(super) fn on_banned(&mut self, member: MemberId) {
        let mut refused = Vec::new();
        for (token, record) in &mut self.records {
            if let Authority::Offering { session, taker, .. } | Authority::Releasing { session, taker, .. } =
                record.authority
                && taker == member
            {
                record.authority = Authority::Holding { session };
                refused.push(*token);
            }
        }
        for token in refused {
            self.emit(Event::Unreachable { token, to: member });
        }
    }

    /// No byte will be read any more: now, and not before, the taker may know.
    pub(super) fn on_slot_stopped(&mut self, token: TokenId, now: Time) {
        let Some(record) = self.records.get_mut(&token) else { return };
        let Authority::Releasing { session, taker, nonce, rto } = record.authority else { return };
        record.authority = Authority::None;
        let due = Committing::due_after(rto, now, &self.config, now);
        record.committing =
            Some(Committing { session, taker, nonce, since: now, rto, last_sent: now, gap: rto, due });
        self.emit(Event::Released { token, session, to: taker });
        self.send(taker, token, session, Message::Commit(nonce), false);
    }

    /// T_commit is over: repeat while it is worth while.
    pub(super) fn on_commit_timer(&mut self, token: TokenId, now: Time) {
        let Some(committing) = self.records.get_mut(&token).and_then(|record| record.committing.as_mut())
        else {
            return;
        };
        if !committing.is_young(&self.config, now) {
            self.abandon_commit(token);
            return;
        }
        committing.gap = self.config.wider(committing.gap);
        committing.due = Committing::due_after(committing.gap, committing.since, &self.config, now);
        self.commit_again(token, now);
    }

    /// K2: whatever Acks came since, the nonce is that of the first.
    pub(super) fn commit_again(&mut self, token: TokenId, now: Time) {
        let Some(committing) = self.records.get_mut(&token).and_then(|record| record.committing.as_mut())
        else {
            return;
        };
        committing.last_sent = now;
        let Committing { session, taker, nonce, .. } = *committing;
        self.send(taker, token, session, Message::Commit(nonce), true);
    }

    /// K8: the token is not ours again because nobody confirmed it. It may well have arrived.
    pub(super) fn abandon_commit(&mut self, token: TokenId) {
        #[cfg(test)]
        self.take_back(token);
        let Some(record) = self.records.get_mut(&token) else { return };
        let Some(Committing { session, taker, .. }) = record.committing.take() else { return };
        self.emit(Event::CommitAbandoned { token, session, to: taker });
    }

    /// Our last handoff of this token has succeeded.
    pub(super) fn confirm(&mut self, token: TokenId) {
        let Some(record) = self.records.get_mut(&token) else { return };
        let Some(Committing { session, taker, .. }) = record.committing.take() else { return };
        self.emit(Event::Confirmed { token, session, to: taker });
    }
}
