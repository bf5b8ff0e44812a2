//! The world: machines, the network between them, and what happens to both.

use std::time::Duration;

use crate::base::{MemberId, Rng, Seat, Ticket, TicketMessage, Time};
use crate::proto::tickets::{Event, Input, Output, Tickets};
use crate::sim::clock::Clock;
use crate::sim::numbers::{member_id, member_number};
use crate::sim::queue::{Mail, Timers};

use super::checks::Checks;
use super::faults::Fault;
use super::load::Load;
use super::network::{Faults, Network};
use super::place::{LIFE_BITS, Place, Pull};
use super::scenario::{Outcome, Scenario};
use super::trace::{Moment, Recent, Trace};
use super::violation::Violation;

/// How many members are told to whom knows nobody, besides the first one.
const INTRODUCED: usize = 8;

/// What is under way.
#[derive(Debug)]
pub(super) enum Parcel {
    Message { from: u32, to: u32, message: Box<TicketMessage> },
    Known { member: u32, known: Vec<MemberId> },
    PullEnded { member: u32, life: u64, number: u64 },
    Fault(Fault),
    Restart(u32),
    Resume(u32),
    Work(u32),
    Join,
    Heal,
    Due { ticket: Ticket, since: Time },
    Look,
    Found,
}

/// One run.
#[derive(Debug)]
pub struct Ring {
    pub(super) scenario: Scenario,
    pub(super) places: Vec<Place>,
    pub(super) network: Network,
    pub(super) mail: Mail<Parcel>,
    timers: Timers,
    pub(super) checks: Checks,
    pub(super) load: Load,
    pub(super) outcome: Outcome,
    pub(super) rng: Rng,
    pub(super) now: Time,
    pub(super) peace_at: Time,
    pub(super) end: Time,
    /// Whoever starts has nothing to pull.
    pub(super) starts_idle: bool,
    /// The charter's first coordinator.
    pub(super) first: u32,
    /// How many have a seat, and since when.
    seats: (usize, Time),
    /// When somebody got one.
    pub(super) took_at: Time,
    trace: Recent,
    outputs: Vec<Output>,
}

impl Ring {
    /// A run about to start: the first member founds the ring, and everybody has work.
    pub fn new(scenario: &Scenario, seed: u64) -> Self {
        let mut rng = Rng::seeded(seed);
        let drift_ppm = scenario.config.drift_ppm;
        let faults = scenario.faults.clone().unwrap_or_else(|| Faults::swarm(drift_ppm, &mut rng));
        let peace_at = Time::ZERO + scenario.duration;
        let mut world = Self {
            places: std::iter::repeat_with(Place::new).take(scenario.members).collect(),
            network: Network::new(faults, rng.child()),
            mail: Mail::default(),
            timers: Timers::default(),
            checks: Checks::new(scenario.config.tickets, scenario.members),
            load: Load::new(scenario.config.round, scenario.config.faults, scenario.members),
            outcome: Outcome { runs: 1, ..Outcome::default() },
            rng,
            now: Time::ZERO,
            peace_at,
            end: peace_at + scenario.settle,
            starts_idle: false,
            first: 0,
            seats: (0, Time::ZERO),
            took_at: Time::ZERO,
            trace: Recent::new(0),
            outputs: Vec::new(),
            scenario: scenario.clone(),
        };
        for member in 0..u32::try_from(scenario.members).unwrap_or(u32::MAX) {
            world.timers.add_member();
            world.start(member);
            if member == 0 {
                world.feed(0, Input::Found);
            }
        }
        for fault in Fault::ALL {
            world.schedule(fault);
        }
        world.mail.post(Parcel::Heal, peace_at, Time::ZERO);
        world.mail.post(Parcel::Look, Time::ZERO, Time::ZERO);
        world
    }

    /// Remembers the last `limit` things that happen from now on.
    pub fn keep_trace(&mut self, limit: usize) {
        self.trace = Recent::new(limit);
    }

    /// What has happened last, as far as it is kept.
    pub fn trace(&self) -> impl Iterator<Item = &Moment> {
        self.trace.iter()
    }

    /// The virtual time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Lets the next event happen; false when the time is up or a ticket was in two hands.
    pub fn step(&mut self) -> bool {
        if let Some(parcel) = self.mail.pop_now() {
            self.deliver(parcel);
        } else {
            let (mail, wake) = (self.mail.next(), self.timers.next());
            let next = [mail, wake].into_iter().flatten().min();
            let Some(at) = next.filter(|&at| at < self.end) else {
                self.now = self.end;
                return false;
            };
            self.now = at.max(self.now);
            if mail == Some(at) {
                if let Some((_, parcel)) = self.mail.pop_later() {
                    self.deliver(parcel);
                }
            } else if let Some((_, member)) = self.timers.pop() {
                self.feed(member, Input::Wake);
            }
        }
        !self.checks.is_over()
    }

    /// Runs to the end.
    pub fn run(mut self) -> Outcome {
        while self.step() {}
        self.finish()
    }

    /// Looks whether everybody was served, and sums up.
    pub fn finish(mut self) -> Outcome {
        if self.now >= self.end {
            self.check_rest();
        }
        self.count_rounds();
        self.outcome.asks_at_rest = self.load.most_at_rest();
        self.outcome.reminders = self.load.reminders();
        self.outcome.most_reminded = self.load.most_reminded();
        self.outcome.back_after = self.checks.debts.back_after().clone();
        self.outcome.violations = self.checks.violations().to_vec();
        self.outcome
    }

    // --- what happens -----------------------------------------------------------------------------------------

    fn deliver(&mut self, parcel: Parcel) {
        match parcel {
            Parcel::Message { from, to, message } => self.arrive(from, to, *message),
            Parcel::Known { member, known } => self.feed(member, Input::Known(known)),
            Parcel::PullEnded { member, life, number } => self.end_pull(member, life, number),
            Parcel::Fault(fault) => {
                if self.now < self.peace_at {
                    self.inject(fault);
                    self.schedule(fault);
                }
            }
            Parcel::Restart(member) => {
                if self.place(member).is_some_and(|place| place.machine.is_none()) {
                    self.start(member);
                }
            }
            Parcel::Resume(member) => self.resume(member),
            Parcel::Work(member) => self.work(member, true),
            Parcel::Join => {
                self.note(self.first, || Trace::Joined);
                self.network.join(self.now);
                self.load.changed(self.now);
            }
            Parcel::Heal => self.network.heal(self.now),
            Parcel::Due { ticket, since } => self.check_debt(ticket, since),
            Parcel::Look => self.look_after(),
            Parcel::Found => self.found(),
        }
    }

    fn arrive(&mut self, from: u32, to: u32, message: TicketMessage) {
        let round = i64::try_from(self.scenario.config.round.as_nanos()).unwrap_or(i64::MAX);
        let now = self.now.as_nanos() / round;
        let Some(place) = self.place_mut(to) else { return };
        place.heard = if place.heard.0 == now { (now, place.heard.1 + 1) } else { (now, 1) };
        let heard = place.heard.1;
        self.outcome.busiest = self.outcome.busiest.max(heard);
        self.note(to, || Trace::Got { from, message: message.clone() });
        match self.place_mut(to).and_then(|place| place.paused.as_mut()) {
            Some(pause) => pause.keep(from, message),
            None => self.feed(to, Input::Received { from: member_id(from), message }),
        }
    }

    // --- machines ---------------------------------------------------------------------------------------------

    pub(super) fn place(&self, member: u32) -> Option<&Place> {
        self.places.get(member as usize)
    }

    pub(super) fn place_mut(&mut self, member: u32) -> Option<&mut Place> {
        self.places.get_mut(member as usize)
    }

    pub(super) fn start(&mut self, member: u32) {
        let origin = Time::ZERO + self.rng.uniform(Duration::ZERO, Duration::from_secs(1_000_000));
        let clock = Clock::new(origin, self.drift());
        let (now, rng, config) = (self.now, self.rng.child(), self.scenario.config.clone());
        let Some(place) = self.place_mut(member) else { return };
        let before = std::mem::replace(place, Place::new());
        *place = Place {
            life: before.life + 1,
            clock,
            awake_since: now,
            served_in_peace: before.served_in_peace,
            ..Place::new()
        };
        // Seats are numbered from the life on: no earlier one had so many.
        place.machine =
            Some(Tickets::new(member_id(member), config, place.life << LIFE_BITS, rng, clock.shows(now)));
        self.load.started(member);
        self.note(member, || Trace::Started);
        if before.begins_again {
            self.feed(member, Input::Found);
        }
        self.work(member, !self.starts_idle);
    }

    /// Half of the clocks are as wrong as they can be.
    fn drift(&mut self) -> f64 {
        let most = f64::from(self.network.faults().drift_ppm) / 1e6;
        match self.rng.below(4) {
            0 => -most,
            1 => most,
            _ => most * (2.0 * self.rng.fraction() - 1.0),
        }
    }

    /// There is something to pull from now on, or nothing any more: then a pull has enough as well.
    pub(super) fn work(&mut self, member: u32, has_work: bool) {
        let now = self.now;
        let Some(place) = self.place_mut(member).filter(|place| place.is_awake()) else { return };
        place.has_work = has_work;
        place.waits_since = (has_work && place.pull.is_none()).then(|| place.waits_since.unwrap_or(now));
        self.note(member, || Trace::Work(has_work));
        self.feed(member, Input::Work(has_work));
        if !has_work {
            self.stop_pull(member);
        }
    }

    /// One input, then everything that follows from it.
    pub(super) fn feed(&mut self, member: u32, input: Input) {
        let now = self.now;
        let Some(place) = self.places.get_mut(member as usize).filter(|place| place.paused.is_none()) else {
            return;
        };
        place.was_alone = place.is_alone(now);
        if let Input::Received { from, message: TicketMessage::Vouch(vouch) } = &input {
            self.load.answered(member_number(*from), member, vouch.number);
        }
        let Some(machine) = &mut place.machine else { return };
        let mut outputs = std::mem::take(&mut self.outputs);
        machine.handle(input, place.clock.shows(now));
        outputs.extend(std::iter::from_fn(|| machine.poll_output()));
        let deadline = place.clock.when(machine.next_deadline());
        for output in outputs.drain(..) {
            self.obey(member, output);
        }
        self.outputs = outputs;
        self.look_at(member);
        self.timers.arm(member, deadline);
    }

    fn obey(&mut self, member: u32, output: Output) {
        match output {
            Output::Send { to, message } => self.send(member, member_number(to), message),
            Output::AskWhom => {
                let others = self.places.len();
                let drawn = std::iter::repeat_with(|| self.rng.below(others)).take(INTRODUCED);
                let known = drawn.filter_map(|other| u32::try_from(other).ok()).collect::<Vec<_>>();
                let live = |other: &u32| self.place(*other).is_some_and(Place::is_awake);
                let known = known.into_iter().filter(live).chain([self.first]);
                let known = known.filter(|other| *other != member).map(member_id).collect();
                self.mail.post(Parcel::Known { member, known }, self.now, self.now);
            }
            Output::Event(event) => self.on_event(member, event),
        }
    }

    fn send(&mut self, from: u32, to: u32, message: TicketMessage) {
        self.outcome.messages += 1;
        self.note(from, || Trace::Sent { to, message: message.clone() });
        if let TicketMessage::Ask(ask) = &message {
            self.check_reminders(from, to, ask);
            for (member, asks) in self.load.asked(from, to, self.now).into_iter().flatten() {
                self.check_asks(member, asks);
            }
            // While somebody waits, turns change.
            if ask.standing.proposed.is_some() || !ask.waiters.is_empty() {
                self.load.changed(self.now);
            }
            let deed = &ask.standing.deed;
            if let Some(place) = self.place_mut(from)
                && place.deed.as_ref().map(|known| known.version) != Some(deed.version)
            {
                place.deed = Some(deed.clone());
            }
        }
        if let TicketMessage::Vouch(vouch) = &message {
            self.check_answers(from, to, vouch.number);
        }
        let now = self.now;
        let mut arrivals = self.network.carry(from as usize, to as usize, now);
        let Some(mut at) = arrivals.next() else { return };
        for later in arrivals {
            let copy = Parcel::Message { from, to, message: Box::new(message.clone()) };
            self.mail.post(copy, std::mem::replace(&mut at, later), now);
        }
        self.mail.post(Parcel::Message { from, to, message: Box::new(message) }, at, now);
    }

    fn on_event(&mut self, member: u32, event: Event) {
        let now = self.now;
        match &event {
            Event::Took { .. } => {
                self.outcome.joins += 1;
                self.took_at = now;
                if let Some(place) = self.place_mut(member) {
                    place.begins_again = false;
                }
            }
            Event::SlotBegan { seat, number, .. } => self.begin_pull(member, *seat, *number),
            Event::StopSlot => self.stop_pull(member),
            Event::Unsure | Event::Sure => {
                let is_sure = event == Event::Sure;
                self.outcome.unsure += u64::from(!is_sure);
                if let Some(place) = self.place_mut(member) {
                    place.unsure_since = (!is_sure).then_some(now);
                }
            }
            Event::Lost { seat, is_given_back } => {
                self.outcome.given_back += u64::from(*is_given_back);
                self.outcome.lost += u64::from(!*is_given_back);
                if let Some(place) = self.place_mut(member) {
                    place.begins_again = *is_given_back && place.was_alone;
                }
                // With another ring everybody loses its seat.
                if !is_given_back && self.took_at < now {
                    self.check_loss(member, *seat);
                }
            }
            Event::Excluded { seats } => self.outcome.excluded += seats.len() as u64,
            Event::Left => self.left(member),
            Event::Leased { .. } => {}
        }
        // Whoever has pulled for a turn looks whether it can make room, if somebody waits for that.
        let somebody_waits =
            || self.places.iter().any(|place| place.waits_since.is_some() && place.seat.is_none());
        let is_calm = match event {
            Event::SlotBegan { .. } | Event::Leased { .. } => true,
            Event::StopSlot => !somebody_waits(),
            _ => false,
        };
        if !is_calm {
            self.load.changed(now);
        }
        self.note(member, || Trace::Event(event));
    }

    // --- pulls ------------------------------------------------------------------------------------------------

    pub(super) fn begin_pull(&mut self, member: u32, seat: Seat, number: u64) {
        let (now, peace_at) = (self.now, self.peace_at);
        self.outcome.slots += 1;
        let Some(place) = self.places.get_mut(member as usize) else { return };
        let is_sure = place.sure_seat(now) == Some(seat);
        place.pull = Some(Pull { ticket: seat.ticket, number, is_stopping: false });
        let waited = place.waits_since.take();
        if now >= peace_at {
            place.served_in_peace = true;
            let waited = now.since(waited.unwrap_or(now).max(peace_at));
            self.outcome.longest_wait = self.outcome.longest_wait.max(waited);
        }
        let places = &self.places;
        let others_sure =
            |other: u32| places.get(other as usize).is_some_and(|place| place.sure_seat(now).is_some());
        self.checks.pull_began(member, seat, now, others_sure);
        if !is_sure {
            self.checks.complain(Violation::PulledUnsure { at: now, member, ticket: seat.ticket });
        }
    }

    /// The pull is told to stop, or has enough: before long it has stopped, and as late as allowed now and then.
    pub(super) fn stop_pull(&mut self, member: u32) {
        let within = self.scenario.config.stop_within;
        let takes = if self.rng.below(4) == 0 { within } else { self.rng.uniform(Duration::ZERO, within) };
        let now = self.now;
        let Some(place) = self.place_mut(member) else { return };
        let Some(pull) = place.pull.as_mut().filter(|pull| !pull.is_stopping) else { return };
        pull.is_stopping = true;
        let (life, number) = (place.life, pull.number);
        // The bound is the member's own, by its own clock.
        let at = place.clock.when(place.clock.shows(now) + takes);
        self.mail.post(Parcel::PullEnded { member, life, number }, at, now);
    }

    fn end_pull(&mut self, member: u32, life: u64, number: u64) {
        let now = self.now;
        let Some(place) = self.place_mut(member).filter(|place| place.life == life) else { return };
        let Some(pull) = place.pull.take_if(|pull| pull.number == number) else { return };
        place.waits_since = place.has_work.then_some(now);
        self.checks.pull_ended(member, pull.ticket);
        self.note(member, || Trace::PullEnded);
        match self.place_mut(member).and_then(|place| place.paused.as_mut()) {
            Some(pause) => pause.pull_ended = true,
            None => self.feed(member, Input::SlotStopped),
        }
    }

    // --- looking on -------------------------------------------------------------------------------------------

    /// What the member claims after whatever happened to it.
    fn look_at(&mut self, member: u32) {
        let now = self.now;
        let Some(place) = self.places.get(member as usize) else { return };
        let claim = place.claim(now);
        let is_sure =
            |other: u32| self.places.get(other as usize).is_some_and(|place| place.sure_seat(now).is_some());
        self.checks.claimed(member, claim, now, is_sure);
        if let Some(pull) = place.pull.filter(|pull| !pull.is_stopping)
            && claim.is_none_or(|claim| claim.ticket != pull.ticket)
        {
            self.checks.complain(Violation::PulledUnsure { at: now, member, ticket: pull.ticket });
        }
        let seat = place.machine.as_ref().and_then(Tickets::seat);
        if seat != place.seat {
            self.seated(member, seat);
        }
    }

    /// The member has another seat than before, or none.
    pub(super) fn seated(&mut self, member: u32, seat: Option<Seat>) {
        let Some(place) = self.place_mut(member) else { return };
        let before = std::mem::replace(&mut place.seat, seat);
        if before.is_some() == seat.is_some() {
            return;
        }
        self.count_rounds();
        let (count, _) = &mut self.seats;
        if seat.is_some() {
            *count += 1;
        } else {
            *count -= 1;
        }
    }

    fn count_rounds(&mut self) {
        let (count, since) = &mut self.seats;
        let span = self.now.since(std::mem::replace(since, self.now));
        self.outcome.rounds += *count as f64 * span.as_secs_f64() / self.scenario.config.round.as_secs_f64();
    }

    pub(super) fn note(&mut self, member: u32, what: impl FnOnce() -> Trace) {
        if self.trace.is_kept() {
            self.trace.push(Moment { at: self.now, member, what: what() });
        }
    }
}
