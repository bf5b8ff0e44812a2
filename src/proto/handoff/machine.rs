//! The machine itself: one member, its records, and who reacts to what.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::base::{CircleId, MemberId, Session, Time, TokenId};

use super::config::Config;
#[cfg(test)]
use super::flaw::Flaw;
use super::nonce::BootSecret;
use super::nouns::{Dropped, Event, Input, Message, Output, Received};
use super::record::{Authority, Record};
use super::verdict::Verdict;

/// How many tokens a member keeps records of. A circle has one, and two or three for a while after one was wrongly
/// believed lost; more come only from somebody who makes them up.
pub const TOKENS_MAX: usize = 64;

/// The machine. [The module's page](super) says what it does; [`Input`] and [`Output`] how it is driven.
#[derive(Clone, Debug)]
pub struct Handoff {
    pub(super) me: MemberId,
    pub(super) circle: CircleId,
    pub(super) config: Config,
    pub(super) secret: BootSecret,
    /// When this boot began: the zero of the ticks in nonces.
    pub(super) origin: Time,
    /// What to add to `now` to get the wall clock, in milliseconds since 1970.
    pub(super) wall_offset_ms: i64,
    pub(super) open: bool,
    pub(super) records: BTreeMap<TokenId, Record>,
    pub(super) outputs: VecDeque<Output>,
    /// The rule that this machine breaks.
    #[cfg(test)]
    pub(super) flaw: Option<Flaw>,
}

impl Handoff {
    /// A member that starts now. It holds nothing, whatever it held when it ended (K6).
    ///
    /// `boot_secret` is 32 fresh random bytes. `wall_offset_ms` added to `now` is the wall clock, as far as this member
    /// knows it; it only serves to refuse sessions that no token of that age can have reached.
    pub fn new(
        me: MemberId,
        circle: CircleId,
        config: Config,
        boot_secret: [u8; 32],
        wall_offset_ms: i64,
        now: Time,
    ) -> Self {
        Self {
            me,
            circle,
            config,
            secret: BootSecret::new(boot_secret),
            origin: now,
            wall_offset_ms,
            open: true,
            records: BTreeMap::new(),
            outputs: VecDeque::new(),
            #[cfg(test)]
            flaw: None,
        }
    }

    /// The one way in: one input, then drain the outputs.
    ///
    /// # Panics
    /// If outputs of the last call were left behind: that is a bug of the driver.
    pub fn handle(&mut self, input: Input, now: Time) {
        assert!(self.outputs.is_empty(), "drain the handoff's outputs before its next input");
        match input {
            Input::Wake => {}
            Input::Generated { token } => self.on_generated(token, now),
            Input::Offer { token, taker, timeout } => self.on_offer(token, taker, timeout, now),
            Input::Renewed { token, session } => self.on_renewed(token, session),
            Input::SlotStopped { token } => self.on_slot_stopped(token, now),
            Input::Discard { token } => self.on_discard(token),
            Input::Banned { member } => self.on_banned(member),
            Input::Received(received) => self.on_received(&received, now),
            Input::Slept { asleep, fresh_secret } => self.on_slept(asleep, fresh_secret),
            Input::Open(open) => self.open = open,
        }
        // After the input: an Ack that waited in the socket while we were busy is still in time.
        self.run_deadlines(now);
    }

    /// The wall clock was set forward: the ages of tokens are judged by it from now on. One that is set back proves nothing
    /// about tokens that were good until then (I11).
    pub fn set_wall_offset(&mut self, wall_offset_ms: i64) {
        self.wall_offset_ms = self.wall_offset_ms.max(wall_offset_ms);
    }

    /// The circle has new constants. Where nonces are believed for longer than before, those issued so far lose their
    /// worth: records that guarded them may have been forgotten by the shorter times (K5).
    pub fn reconfigure(&mut self, config: Config) {
        if config.h_accept() > self.config.h_accept() {
            self.secret.advance();
        }
        self.config = config;
    }

    /// The next thing to be done, until there is none.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When the machine wants to be woken, if ever.
    pub fn next_deadline(&self) -> Option<Time> {
        self.records.values().filter_map(|record| record.due(&self.config)).min()
    }

    /// Whether this message would change or cause anything if its signature were good. Ask before checking the
    /// signature; what is not relevant is dropped in silence.
    pub fn is_relevant(&self, received: &Received, now: Time) -> bool {
        #[cfg(test)]
        if self.flaw.is_some() {
            return true; // what it breaks may be what the verdict says
        }
        self.verdict(received, now) != Verdict::Irrelevant
    }

    /// Whether we hold this token: only then may we pull, and only then is it ours to hand off.
    pub fn holds(&self, token: TokenId) -> bool {
        self.session(token).is_some()
    }

    /// The session in which we hold this token: that of its last attempt. `None` if we do not hold it.
    pub fn session(&self, token: TokenId) -> Option<Session> {
        self.records.get(&token)?.authority.session()
    }

    /// Whether a handoff to this member is under way.
    pub fn is_engaged_with(&self, member: MemberId) -> bool {
        self.records.values().any(|record| record.is_for(member))
    }

    // --- what happens -----------------------------------------------------------------------------------------

    fn on_generated(&mut self, token: TokenId, now: Time) {
        if self.records.contains_key(&token) {
            return; // not new at all
        }
        if self.make_room_for(token, now) {
            self.records.insert(token, Record::holding(Session(0)));
        } else {
            self.emit(Event::Dropped { token, because: Dropped::NoRoom });
        }
    }

    fn on_received(&mut self, received: &Received, now: Time) {
        #[cfg(test)]
        if self.reacts_wrongly(received, now) {
            return;
        }
        let token = received.token;
        match (self.verdict(received, now), received.message) {
            (Verdict::Answer, _) => self.answer(received, now),
            (Verdict::Delivered, _) => self.confirm_before(token, received.session),
            (Verdict::Conflict, _) => self.emit(Event::AuthorityConflict { token, from: received.from }),
            (Verdict::Release, Message::Ack(nonce)) => {
                self.release(token, nonce);
                #[cfg(test)]
                self.release_early(token, now);
            }
            (Verdict::CommitAgain, _) => self.commit_again(token, now),
            (Verdict::Accept, Message::Commit(nonce)) => self.accept(received, nonce, now),
            (Verdict::StopAgain, Message::Commit(nonce)) => self.stop_again(received, nonce, now),
            (Verdict::Confirm, _) => self.confirm(token),
            (Verdict::Irrelevant | Verdict::Release | Verdict::Accept | Verdict::StopAgain, _) => {}
        }
    }

    /// No order to stop the pull: who discards a token ends the pull that runs by it, and another may run by another.
    fn on_discard(&mut self, token: TokenId) {
        if let Some(record) = self.records.get_mut(&token) {
            record.authority = Authority::None;
        }
    }

    /// Asleep for long, we may have been replaced; whatever we hold is not ours to use or to give any more. In any case
    /// the slot has run out of step with true time.
    fn on_slept(&mut self, asleep: Duration, fresh_secret: [u8; 32]) {
        self.secret.replace(fresh_secret);
        let too_long = asleep > self.config.t_selffence();
        let held = self.records.iter().filter(|(_, record)| !record.authority.is_none());
        for token in held.map(|(token, _)| *token).collect::<Vec<_>>() {
            if too_long {
                self.drop_token(token, Dropped::Slept);
            } else {
                self.outputs.push_back(Output::StopSlot { token });
            }
        }
    }

    // --- what time does ---------------------------------------------------------------------------------------

    fn run_deadlines(&mut self, now: Time) {
        let config = &self.config;
        let is_due = |record: &Record| record.due(config).is_some_and(|due| due <= now);
        let due = self.records.iter().filter(|(_, record)| is_due(record));
        for token in due.map(|(token, _)| *token).collect::<Vec<_>>() {
            self.run_deadlines_of(token, now);
        }
        self.records.retain(|_, record| !record.is_empty());
    }

    fn run_deadlines_of(&mut self, token: TokenId, now: Time) {
        let Some(record) = self.records.get_mut(&token) else { return };
        if record.forget_at(&self.config).is_some_and(|at| at <= now) {
            record.accepted = None;
        }
        let move_is_due = record.authority.due().is_some_and(|due| due <= now);
        let commit_is_due = record.committing.as_ref().is_some_and(|committing| committing.due <= now);
        if move_is_due {
            self.on_move_timer(token, now);
        }
        if commit_is_due {
            self.on_commit_timer(token, now);
        }
    }

    // --- what it does -----------------------------------------------------------------------------------------

    /// Ends a token that we hold.
    pub(super) fn drop_token(&mut self, token: TokenId, because: Dropped) {
        if let Some(record) = self.records.get_mut(&token) {
            record.authority = Authority::None;
        }
        self.outputs.push_back(Output::StopSlot { token });
        self.emit(Event::Dropped { token, because });
    }

    /// Whether [`make_room_for`](Self::make_room_for) would succeed.
    pub(super) fn has_room_for(&self, token: TokenId) -> bool {
        self.records.contains_key(&token)
            || self.records.len() < TOKENS_MAX
            || self.records.values().any(|record| record.authority.is_none())
    }

    /// Makes sure that a record of this token fits in. What we hold is never evicted.
    pub(super) fn make_room_for(&mut self, token: TokenId, now: Time) -> bool {
        if !self.records.contains_key(&token) && self.records.len() >= TOKENS_MAX {
            self.run_deadlines(now);
        }
        while !self.records.contains_key(&token) && self.records.len() >= TOKENS_MAX {
            let Some(victim) = self.least_needed() else { return false };
            self.evict(victim);
        }
        true
    }

    /// The record whose loss hurts least: rather none on its way to a taker, and the one accepted longest ago.
    fn least_needed(&self) -> Option<TokenId> {
        let idle = self.records.iter().filter(|(_, record)| record.authority.is_none());
        let need = |record: &Record| {
            (record.committing.is_some(), record.accepted.as_ref().map(|accepted| accepted.at))
        };
        idle.min_by_key(|(_, record)| need(record)).map(|(token, _)| *token)
    }

    /// Forgets a token that we do not hold. Without its record a copy of a Commit would be accepted again, so all nonces
    /// that we ever made lose their worth (K5).
    pub(super) fn evict(&mut self, token: TokenId) {
        self.abandon_commit(token);
        if self.records.remove(&token).is_some_and(|record| record.accepted.is_some()) {
            self.secret.advance();
        }
    }

    pub(super) fn send(
        &mut self,
        to: MemberId,
        token: TokenId,
        session: Session,
        message: Message,
        with_certificate: bool,
    ) {
        self.outputs.push_back(Output::Send { to, token, session, message, with_certificate });
    }

    pub(super) fn emit(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
    }
}
