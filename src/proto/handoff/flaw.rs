//! Machines that break one rule on purpose. They exist only in tests, which must notice each of them.

use crate::base::{Time, TokenId};

use super::machine::Handoff;
use super::nouns::{Event, Message, Output, Received};
use super::record::Authority;

/// Which rule is broken inside the machine. What else can be broken lies outside: secrets that repeat, possession
/// that outlives a crash, signatures that do not name their receiver. The model checker breaks those itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// K1, K2: an Ack counts if token and session are right, whoever sent it, whatever its nonce.
    AckByTokenAndSession,
    /// K1: the Ack of an offer that was given up still releases.
    LateAckHonoured,
    /// K2: each Ack of the taker gets a Commit with its own nonce.
    SecondNonceCommitted,
    /// K3: the nonce does not say for whom it is.
    NonceUnbound,
    /// K5: accepted sessions are not recorded.
    NothingRecorded,
    /// K5: a record is evicted, and the secret stays.
    EvictedWithoutNewSecret,
    /// K8: without an EarlyStop the token is taken back.
    TakenBack,
    /// K4: the paper's rule: the session is recorded when the Move comes, and that record is all the Commit needs.
    RecordedAtMove,
    /// I4: the Commit does not wait until the pull has ended.
    PullNotAwaited,
}

impl Handoff {
    /// From now on this machine breaks a rule.
    pub(crate) fn break_rule(&mut self, flaw: Flaw) {
        self.flaw = Some(flaw);
    }

    /// Does what the flaw makes of this message; `false` if the flaw has nothing to do with it.
    pub(super) fn reacts_wrongly(&mut self, received: &Received, now: Time) -> bool {
        let Some(flaw) = self.flaw else { return false };
        match (flaw, received.message) {
            (
                Flaw::AckByTokenAndSession | Flaw::SecondNonceCommitted | Flaw::LateAckHonoured,
                Message::Ack(_),
            ) => self.commits_wrongly(flaw, received),
            (Flaw::NonceUnbound | Flaw::NothingRecorded, Message::Commit(nonce)) => {
                let idle = self
                    .records
                    .get(&received.token)
                    .is_none_or(|record| record.authority.is_none() && record.is_new(received.session));
                let believed = flaw == Flaw::NonceUnbound || self.age_of(nonce, received, now).is_some();
                if idle && believed {
                    self.accept(received, nonce, now);
                }
                if flaw == Flaw::NothingRecorded
                    && let Some(record) = self.records.get_mut(&received.token)
                {
                    record.accepted = None;
                }
                true
            }
            (Flaw::RecordedAtMove, Message::Move | Message::Commit(_)) => {
                self.takes_by_the_papers_rule(received, now);
                true
            }
            _ => false,
        }
    }

    fn commits_wrongly(&mut self, flaw: Flaw, received: &Received) -> bool {
        let Received { from, token, session, message } = *received;
        let (Message::Ack(nonce), Some(record)) = (message, self.records.get_mut(&token)) else {
            return false;
        };
        if let (Flaw::AckByTokenAndSession, Authority::Offering { session: offered, rto, .. }) =
            (flaw, record.authority)
            && offered == session
        {
            record.authority = Authority::Releasing { session, taker: from, nonce, rto };
            self.outputs.push_back(Output::StopSlot { token });
            return true;
        }
        let last = record.committing.as_ref().map(|committing| (committing.session, committing.taker));
        let again = match flaw {
            Flaw::AckByTokenAndSession => last.is_some_and(|(last, _)| last == session),
            Flaw::SecondNonceCommitted => last == Some((session, from)),
            _ => last.map(|(last, _)| last).or(record.authority.session()).is_some_and(|last| session < last),
        };
        if again {
            self.send(from, token, session, Message::Commit(nonce), true);
        }
        again
    }

    fn takes_by_the_papers_rule(&mut self, received: &Received, now: Time) {
        let Received { token, session, message, .. } = *received;
        let record = self.records.entry(token).or_default();
        if !record.authority.is_none() {
            return;
        }
        match message {
            Message::Move
                if record.moved.is_none_or(|(moved, open)| moved < session || open && moved == session) =>
            {
                record.moved = Some((session, true));
                self.answer(received, now);
            }
            Message::Commit(nonce) if record.moved == Some((session, true)) => {
                record.moved = Some((session, false));
                self.accept(received, nonce, now);
            }
            _ => {}
        }
    }

    /// The giver's wrong end of H_commit.
    pub(super) fn take_back(&mut self, token: TokenId) {
        let Some(record) = self.records.get_mut(&token).filter(|_| self.flaw == Some(Flaw::TakenBack)) else {
            return;
        };
        if let Some(committing) = record.committing.take() {
            record.authority = Authority::Holding { session: committing.session };
            self.emit(Event::Unreachable { token, to: committing.taker });
        }
    }

    /// The giver's Commit, while the pull still runs.
    pub(super) fn release_early(&mut self, token: TokenId, now: Time) {
        if self.flaw == Some(Flaw::PullNotAwaited) {
            self.on_slot_stopped(token, now);
        }
    }

    /// An eviction, as if the table had been full.
    pub(super) fn evict_now(&mut self, token: TokenId) {
        let secret = self.secret.clone();
        self.evict(token);
        if self.flaw == Some(Flaw::EvictedWithoutNewSecret) {
            self.secret = secret;
        }
    }
}
