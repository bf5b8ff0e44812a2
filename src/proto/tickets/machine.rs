//! The machine itself.

use std::collections::VecDeque;
use std::time::Duration;

use crate::base::{MemberId, Rng, Seat, TicketMessage, Time};

use super::nouns::{Config, Event, Input, Output};
use super::place::Place;
use super::turns::Pull;
use super::waiting::Waiting;

/// Seats that are in no chain are remembered for so many rounds.
const MEMORY: u32 = 12;

/// And who waits: a little longer than between two questions.
const WAITING_MEMORY: u32 = 6;

/// Without a seat.
#[derive(Clone, Debug)]
pub(super) struct Out {
    /// Since when a ticket is wanted.
    pub(super) since: Option<Time>,
    pub(super) ask_at: Time,
    /// Rounds between two questions.
    pub(super) pauses: u32,
}

impl Out {
    pub(super) fn asking_at(now: Time) -> Self {
        Self { since: None, ask_at: now, pauses: 0 }
    }
}

/// Whether we want to go for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Leaving {
    No,
    Wanted,
    Done,
}

#[derive(Clone, Debug)]
pub(super) enum State {
    Out(Out),
    In(Box<Place>),
}

/// One member's part in the ring.
#[derive(Debug)]
pub struct Tickets {
    pub(super) me: MemberId,
    pub(super) config: Config,
    /// Of our last seat.
    pub(super) incarnation: u64,
    pub(super) rng: Rng,
    pub(super) state: State,
    pub(super) waiting: Waiting,
    /// Members that are in the ring, or may know who is.
    pub(super) known: Vec<MemberId>,
    pub(super) has_work: bool,
    pub(super) leaving: Leaving,
    pub(super) pull: Pull,
    /// Slots so far.
    pub(super) slots: u64,
    /// We have pulled for a whole turn, or have nothing to pull.
    pub(super) is_turn_over: bool,
    /// Until when we keep our ticket with nothing to pull while others wait.
    pub(super) idle_until: Option<Time>,
    /// Not before then another pull.
    pub(super) pull_at: Option<Time>,
    /// Not before then another try to leave.
    pub(super) release_at: Time,
    pub(super) out: VecDeque<Output>,
}

impl Tickets {
    /// A member without a ticket. The number of its first seat must be higher than any that it had before, in earlier runs
    /// too.
    pub fn new(me: MemberId, config: Config, incarnation: u64, rng: Rng, now: Time) -> Self {
        Self {
            me,
            config,
            incarnation,
            rng,
            state: State::Out(Out::asking_at(now)),
            waiting: Waiting::default(),
            known: Vec::new(),
            has_work: false,
            leaving: Leaving::No,
            pull: Pull::Idle,
            slots: 0,
            is_turn_over: false,
            idle_until: None,
            pull_at: None,
            release_at: now,
            out: VecDeque::new(),
        }
    }

    /// How long a holder may pull while others wait, from the next slot on.
    pub fn set_turn(&mut self, turn: Duration) {
        self.config.turn = turn;
    }

    /// From now on it breaks a rule: for tests of the checkers.
    #[cfg(test)]
    pub(crate) fn break_rule(&mut self, flaw: super::Flaw) {
        self.config.flaw = Some(flaw);
    }

    /// The one way in: one input, then drain the outputs.
    pub fn handle(&mut self, input: Input, now: Time) {
        match input {
            Input::Wake => {}
            Input::Found => self.found(now),
            Input::Work(has_work) => self.has_work = has_work,
            Input::Leave => self.leaving = self.leaving.max(Leaving::Wanted),
            Input::SlotStopped => self.on_slot_stopped(now),
            Input::Known(members) => self.learn(&members),
            Input::Received { from, message } => self.on_message(from, message, now),
            Input::Reset => self.reset(now),
        }
        self.run(now);
    }

    /// The next thing to be done, until there is none.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// When it wants to be woken.
    pub fn next_deadline(&self) -> Time {
        let pull = match self.pull {
            Pull::Running { until } => Some(until),
            Pull::Idle | Pull::Stopping => None,
        };
        let state = match &self.state {
            State::Out(out) => vec![self.wants_a_ticket().then_some(out.ask_at)],
            State::In(place) => self.deadlines_of(place),
        };
        let never = Time::ZERO + Duration::MAX;
        state.into_iter().chain([pull]).flatten().fold(never, Time::min)
    }

    fn deadlines_of(&self, place: &Place) -> Vec<Option<Time>> {
        let until = place.sure_until(&self.config).filter(|_| place.was_sure);
        let stop_at = until.filter(|_| matches!(self.pull, Pull::Running { .. }));
        vec![
            Some(place.ask_at),
            until,
            stop_at.map(|until| until - self.config.stop_within),
            place.exclusion.as_ref().map(|exclusion| exclusion.wake_at),
            place.admission.as_ref().map(|admission| admission.wake_at(&self.config)),
            place.release.as_ref().map(|release| release.repeat_at),
            self.idle_until,
            self.pull_at,
        ]
    }

    // --- what can be asked ------------------------------------------------------------------------------------

    /// Our seat, if we have one or are about to.
    pub fn seat(&self) -> Option<Seat> {
        match &self.state {
            State::In(place) => Some(place.seat),
            State::Out(_) => None,
        }
    }

    /// The seat by which we may pull and give out tickets at this moment.
    pub fn sure_seat(&self, now: Time) -> Option<Seat> {
        match &self.state {
            State::In(place) if place.is_sure(&self.config, now) => Some(place.seat),
            _ => None,
        }
    }

    /// Who comes after us: tickets from ours down to before that one's are ours to give. Ourselves if we are alone.
    pub fn next(&self) -> Option<Seat> {
        match &self.state {
            State::In(place) => Some(place.next),
            State::Out(_) => None,
        }
    }

    /// The ring as far as we know it: ourselves first, then who comes after us; empty without a seat.
    pub fn ring(&self) -> Vec<Seat> {
        match &self.state {
            State::In(place) => {
                let (chain, _) = place.chain(&self.config);
                [place.seat].into_iter().chain(chain).collect()
            }
            State::Out(_) => Vec::new(),
        }
    }

    /// How many members wait for a ticket, as far as we know.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Whether there is something to pull.
    pub fn has_work(&self) -> bool {
        self.has_work
    }

    /// The constants that it goes by.
    pub fn config(&self) -> &Config {
        &self.config
    }

    pub(super) fn wants_a_ticket(&self) -> bool {
        self.has_work && !self.is_leaving()
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.leaving != Leaving::No
    }

    // --- what happens -----------------------------------------------------------------------------------------

    fn found(&mut self, now: Time) {
        if matches!(self.state, State::Out(_)) && !self.is_leaving() {
            self.incarnation += 1;
            let seat = Seat { ticket: 0, member: self.me, incarnation: self.incarnation };
            self.state = State::In(Box::new(Place::first(seat, now)));
            self.tell(Event::Took { seat });
        }
    }

    fn reset(&mut self, now: Time) {
        self.lose(false, now);
        self.known.clear();
        self.waiting = Waiting::default();
    }

    fn on_message(&mut self, from: MemberId, message: TicketMessage, now: Time) {
        match message {
            TicketMessage::Ask(ask) => self.on_ask(from, &ask, now),
            TicketMessage::Vouch { number, adopted, proposed, waiters } => {
                self.on_vouch(from, number, (adopted, proposed), &waiters, now);
            }
            TicketMessage::Gone { number } => self.on_gone(from, number, now),
            TicketMessage::NotMe { seat } => self.on_not_me(from, seat, now),
            TicketMessage::Join { incarnation, waited } => self.on_join(from, incarnation, waited, now),
            TicketMessage::Wait { coordinators } => self.on_wait(from, &coordinators, now),
            TicketMessage::Grant { by, seat, followers, witnesses } => {
                self.on_grant(from, by, seat, &followers, witnesses, now);
            }
            TicketMessage::Update { to, witnesses } => self.on_update(from, to, witnesses, now),
            TicketMessage::Lock { seat, attempt, to } => self.on_lock(from, seat, attempt, to, now),
            TicketMessage::Locked { attempt } => self.on_agreed(from, attempt, false, now),
            TicketMessage::Unlock { attempt } => self.on_unlock(from, attempt),
            TicketMessage::Confirm { attempt } => self.on_confirm(from, attempt, now),
            TicketMessage::Confirmed { attempt } => self.on_agreed(from, attempt, true, now),
            TicketMessage::Release { seat, next, number } => self.on_release(from, seat, next, number, now),
            TicketMessage::Released { number } => self.on_released(number, now),
            TicketMessage::Refused { number } => self.on_refused(number, now),
        }
    }

    /// Everything that time or the new state of things makes due.
    fn run(&mut self, now: Time) {
        let is_asking = matches!(&self.state, State::In(place) if now >= place.ask_at);
        if is_asking {
            self.forget(now);
            self.ask_witnesses(now);
        }
        self.give_up_waiting_for_a_seat(now);
        self.mind_admission(now);
        self.mind_successor(now);
        self.mind_idleness(now);
        self.mind_pull(now);
        self.leave_if_denied(now);
        self.give_back(now);
        self.repeat_release(now);
        self.admit(now);
        self.ask_for_a_ticket(now);
        self.go_when_out();
    }

    fn forget(&mut self, now: Time) {
        let since = now - self.config.round * MEMORY;
        self.waiting.forget(now - self.config.round * WAITING_MEMORY);
        let State::In(place) = &mut self.state else { return };
        let (chain, _) = place.chain(&self.config);
        let kept: Vec<Seat> = match &place.exclusion {
            Some(exclusion) => chain.into_iter().chain([exclusion.to()]).collect(),
            None => chain,
        };
        place.followers.forget(&kept, since);
        place.gone.retain(|_, at| *at >= since);
        place.locks.retain(|lock| now < lock.until);
    }

    /// The ring goes on without us: the pull ends, then the seat.
    fn leave_if_denied(&mut self, now: Time) {
        let State::In(place) = &self.state else { return };
        if place.is_denied() && !self.pull.is_running() {
            // Others may hear that it was given back before we do.
            self.lose(place.release.is_some(), now);
        }
    }

    pub(super) fn send(&mut self, to: MemberId, message: TicketMessage) {
        self.out.push_back(Output::Send { to, message });
    }

    pub(super) fn tell(&mut self, event: Event) {
        self.out.push_back(Output::Event(event));
    }
}
