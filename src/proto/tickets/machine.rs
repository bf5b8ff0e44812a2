//! The machine itself.

use std::collections::VecDeque;
use std::time::Duration;

use crate::base::{MemberId, Rng, Seat, Standing, TicketMessage, Time};

use super::anteroom::Anteroom;
use super::book::Book;
use super::nouns::{Config, Event, Input, Output};
use super::place::Place;
use super::ring::{DRAWS, steps};
use super::turns::Pull;
use super::waiting::Waiting;

/// Who waits is remembered for so many rounds: a little longer than between two questions.
const WAITING_MEMORY: u32 = 6;

/// Words to ourselves that are heard at once, at most: more would be said again in time.
const OWN: usize = 64;

/// Seats of ours that we remember to have taken.
const TAKEN: usize = 64;

/// A seat that we took.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    pub(super) seat: Seat,
    /// All that was said in it, since it has ended.
    pub(super) standing: Option<Standing>,
}

/// Without a seat.
#[derive(Clone, Debug)]
pub(super) struct Out {
    pub(super) began: Time,
    /// When somebody in the ring answered us, or we were told of others to ask.
    pub(super) led_at: Time,
    /// Since when a ticket is wanted.
    pub(super) since: Option<Time>,
    pub(super) ask_at: Time,
    /// Rounds between two questions.
    pub(super) pauses: u32,
}

impl Out {
    pub(super) fn asking_at(now: Time) -> Self {
        Self { began: now, led_at: now, since: None, ask_at: now, pauses: 0 }
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
    /// Of the last input.
    now: Time,
    pub(super) config: Config,
    /// We stand by what we promised in seats from this number on; what was before we have forgotten.
    pub(super) first: u64,
    /// Where the numbers of our next seat begin.
    pub(super) base: u64,
    /// Since when we ask for a seat with these numbers.
    pub(super) base_since: Time,
    /// The seats that we took: the last ones.
    pub(super) taken: VecDeque<Taken>,
    pub(super) rng: Rng,
    pub(super) state: State,
    pub(super) book: Book,
    pub(super) anteroom: Anteroom,
    /// When somebody asked us last as a witness.
    pub(super) asked_at: Option<Time>,
    pub(super) waiting: Waiting,
    /// Members that are in the ring, or may know who is.
    pub(super) known: Vec<MemberId>,
    pub(super) has_work: bool,
    pub(super) leaving: Leaving,
    pub(super) pull: Pull,
    /// Until when the pull may go on, as was told last.
    pub(super) leased_until: Time,
    /// Slots so far.
    pub(super) slots: u64,
    /// We have pulled for a whole turn, or have nothing to pull.
    pub(super) is_turn_over: bool,
    /// Until when we keep our ticket with nothing to pull while others wait.
    pub(super) idle_until: Option<Time>,
    /// Not before then another pull.
    pub(super) pull_at: Option<Time>,
    /// Seats that we have excluded: the last ones.
    pub(super) excluded: VecDeque<Seat>,
    /// What we say to ourselves: who has a seat and had another one before may be a neighbour of both.
    own: VecDeque<TicketMessage>,
    pub(super) out: VecDeque<Output>,
}

impl Tickets {
    /// A member without a ticket. The number of its first seat must be higher than any that it had before, in earlier runs
    /// too.
    pub fn new(me: MemberId, config: Config, incarnation: u64, rng: Rng, now: Time) -> Self {
        let first = incarnation.saturating_add(1).next_multiple_of(DRAWS);
        Self {
            me,
            now,
            config,
            first,
            base: first,
            base_since: now,
            taken: VecDeque::new(),
            rng,
            state: State::Out(Out::asking_at(now)),
            book: Book::default(),
            anteroom: Anteroom::default(),
            asked_at: None,
            waiting: Waiting::default(),
            known: Vec::new(),
            has_work: false,
            leaving: Leaving::No,
            pull: Pull::Idle,
            leased_until: Time::ZERO,
            slots: 0,
            is_turn_over: false,
            idle_until: None,
            pull_at: None,
            excluded: VecDeque::new(),
            own: VecDeque::new(),
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
        self.now = now;
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
        self.hear_ourselves(now);
        if self.book.has_forgotten() {
            self.begin_anew();
        }
    }

    fn hear_ourselves(&mut self, now: Time) {
        for _ in 0..OWN {
            let Some(message) = self.own.pop_front() else { return };
            self.on_message(self.me, message, now);
            self.run(now);
        }
        self.own.clear();
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
            State::Out(out) => vec![self.wants_a_ticket().then_some(out.ask_at), self.leaves_at()],
            State::In(place) => self.deadlines_of(place),
        };
        let reminder = self.anteroom.next_at(self.config.witnesses(), self.config.round);
        let never = Time::ZERO + Duration::MAX;
        state.into_iter().chain([pull, reminder]).flatten().fold(never, Time::min)
    }

    fn deadlines_of(&self, place: &Place) -> Vec<Option<Time>> {
        let until = place.sure_until(&self.config).filter(|_| place.was_sure);
        let stop_at = until.filter(|_| matches!(self.pull, Pull::Running { .. }));
        let is_stopped = place.is_moving() || place.is_denied;
        let exclusion = place.exclusion.as_ref().filter(|_| !is_stopped);
        vec![
            Some(place.ask_at),
            until,
            stop_at.map(|until| until - self.config.stop_within),
            exclusion.and_then(super::exclusion::Exclusion::wake_at),
            place.admission.as_ref().map(|admission| admission.repeat_at),
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

    /// No seat of ours had this number yet, nor a higher one.
    pub fn next_incarnation(&self) -> u64 {
        self.base
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
            State::In(place) => Some(place.deed.next),
            State::Out(_) => None,
        }
    }

    /// The ring as far as we know it: ourselves first, then who comes after us; empty without a seat.
    pub fn ring(&self) -> Vec<Seat> {
        match &self.state {
            State::In(place) => {
                let (chain, _) = self.book.chain(place.seat, place.deed.next, self.now - self.config.fresh());
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
            let seat = Seat { ticket: 0, member: self.me, incarnation: self.base };
            self.begin(seat, now);
        }
    }

    /// All tickets are ours, by this seat.
    pub(super) fn begin(&mut self, seat: Seat, now: Time) {
        self.take(seat, now);
        self.state = State::In(Box::new(Place::first(seat, now)));
        self.tell(Event::Took { seat });
    }

    /// This seat is ours from now on; its number will not be used again.
    pub(super) fn take(&mut self, seat: Seat, now: Time) {
        (self.base, self.base_since) = (self.base + DRAWS, now);
        self.taken.push_back(Taken { seat, standing: None });
        let surplus = self.taken.len().saturating_sub(TAKEN);
        self.taken.drain(..surplus);
    }

    /// We have no seat from now on. What was said in it is remembered, for whoever comes before it.
    pub(super) fn go_out(&mut self, now: Time) {
        let State::In(place) = &self.state else { return };
        let (seat, standing) = (place.seat, place.last_words());
        if let Some(taken) = self.taken.iter_mut().find(|taken| taken.seat == seat) {
            taken.standing = Some(standing);
        }
        self.state = State::Out(Out::asking_at(now));
    }

    /// We stand by no promise that we gave so far.
    fn begin_anew(&mut self) {
        self.base += DRAWS;
        self.first = self.base;
    }

    fn reset(&mut self, now: Time) {
        self.lose(false, now);
        // What was promised is of no use to anybody, and must not be taken for more.
        self.begin_anew();
        self.book = Book::default();
        self.anteroom = Anteroom::default();
        self.excluded.clear();
        self.known.clear();
        self.waiting = Waiting::default();
    }

    fn on_message(&mut self, from: MemberId, message: TicketMessage, now: Time) {
        match message {
            TicketMessage::Ask(ask) => self.on_ask(from, ask, now),
            TicketMessage::Vouch(vouch) => self.on_vouch(from, &vouch, now),
            TicketMessage::Gone { seat } => self.on_gone(seat),
            TicketMessage::NotMe { seat, since, is_vacant, standing } => {
                self.on_not_me(from, seat, (since, is_vacant), standing, now);
            }
            TicketMessage::Join { incarnation, waited } => self.on_join(from, incarnation, waited, now),
            TicketMessage::Wait { coordinators } => self.on_wait(from, &coordinators, now),
            TicketMessage::Grant { by, seat, next, witnesses, deed } => {
                self.on_grant(from, by, seat, (next, deed), witnesses, now);
            }
            TicketMessage::Update { to, witnesses } => self.on_update(from, to, witnesses, now),
            TicketMessage::Knock { seat } => self.on_knock(from, seat, now),
            TicketMessage::Here { seat } => self.on_here(from, seat, now),
            TicketMessage::Lock { by, attempt, seat } => self.on_lock(from, by, attempt, seat, now),
            TicketMessage::Locked { attempt, seat, since, quiet_for, standing } => {
                self.on_locked(from, (seat, attempt), (since, quiet_for), standing, now);
            }
            TicketMessage::Bound { seat, by, attempt, witness } => {
                self.on_bound(seat, by, attempt, witness, now);
            }
            TicketMessage::Unlock { seat, by, attempt } => self.on_unlock(seat, by, attempt),
            TicketMessage::Release { seat, next, deed } => {
                self.on_release(from, seat, (next, deed), now);
            }
            TicketMessage::Released { seat } => self.on_released(seat, now),
        }
    }

    /// Everything that time or the new state of things makes due.
    fn run(&mut self, now: Time) {
        self.waiting.forget(now - self.config.round * WAITING_MEMORY);
        self.hear_reminders(now);
        if matches!(&self.state, State::In(place) if now >= place.ask_at) {
            self.ask_witnesses(now);
        }
        self.give_up_waiting_for_a_seat(now);
        self.mind_admission(now);
        self.mind_successor(now);
        self.mind_witnesses(now);
        self.mind_idleness(now);
        self.mind_pull(now);
        self.leave_if_denied(now);
        self.give_back(now);
        self.repeat_release(now);
        self.admit(now);
        self.ask_for_a_ticket(now);
        self.go_when_out(now);
    }

    /// The ring goes on without us: the pull ends, then the seat.
    fn leave_if_denied(&mut self, now: Time) {
        let State::In(place) = &self.state else { return };
        if place.is_denied && !self.pull.is_running() {
            // Others may hear that it was given back before we do.
            self.lose(place.release.is_some(), now);
        }
    }

    /// Those in the ring who have a ticket to give, as far as we know; and whether we know the whole ring at first hand.
    pub(super) fn givers(&self) -> (Vec<Seat>, bool) {
        let State::In(place) = &self.state else { return (Vec::new(), false) };
        let since = self.now - self.config.fresh();
        let (chain, is_closed) = self.book.chain(place.seat, place.deed.next, since);
        let next = |seat: &Seat| Some(self.book.asks(*seat, since)?.deed.next);
        let nexts = chain.iter().filter_map(|seat| Some((*seat, next(seat)?)));
        let all = [(place.seat, place.deed.next)].into_iter().chain(nexts);
        let givers = all.filter(|(seat, next)| steps(self.config.tickets, seat.ticket, next.ticket) > 1);
        (givers.map(|(seat, _)| seat).collect(), is_closed && chain.len() <= self.config.witnesses())
    }

    pub(super) fn send(&mut self, to: MemberId, message: TicketMessage) {
        if to == self.me {
            self.own.push_back(message);
        } else {
            self.out.push_back(Output::Send { to, message });
        }
    }

    pub(super) fn tell(&mut self, event: Event) {
        self.out.push_back(Output::Event(event));
    }
}
