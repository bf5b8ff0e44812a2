//! The machine itself: one agent, its token if it has one, and its reactions.

mod demanding;
mod hearsay;
mod visit;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::base::{MemberId, Rng, RoundTrip, Session, Time, TokenId};

use super::config::Config;
use super::custody::{Custody, Due};
use super::demand::Demands;
use super::history::History;
use super::hold::{Custodian, Hold, Stage};
use super::nouns::{Event, Input, Message, Origin, Output, Spurious, Token};
use super::regeneration::{Alarm, Timer};
use super::sightings::Sightings;

/// How long a token that is due waits after the first answer for those of others: as long as answers vary, within bounds that
/// are little beside the round trip of a path on which they come late.
const LEAST_SPREAD: Duration = Duration::from_millis(10);
const LONGEST_SPREAD: Duration = Duration::from_millis(100);

/// The machine. [The module's page](super) says what it does; [`Input`] and [`Output`] how it is driven.
#[derive(Clone, Debug)]
pub struct Agent {
    me: MemberId,
    config: Arc<Config>,
    rng: Rng,
    /// What to add to `now` to get the wall clock, in milliseconds since 1970.
    wall_offset_ms: i64,
    has_work: bool,
    /// The last slot: when it began, and which token gave it.
    last_slot: Option<(Time, TokenId)>,
    history: History,
    sightings: Sightings,
    timer: Timer,
    /// When another member was heard last.
    heard_at: Time,
    /// How long others take to answer.
    round_trips: Option<RoundTrip>,
    /// True if another member was ever heard.
    has_heard: bool,
    // Boxed, because at any moment all but one member of a circle have neither.
    hold: Option<Box<Hold>>,
    custody: Option<Box<Custody>>,
    demands: Demands,
    outputs: VecDeque<Output>,
}

impl Agent {
    /// A member that starts now, without a token. `wall_offset_ms` added to `now` is the wall clock, as far as this
    /// member knows it; it only goes into the names of tokens.
    pub fn new(me: MemberId, config: Arc<Config>, mut rng: Rng, wall_offset_ms: i64, now: Time) -> Self {
        let timer = Timer::new(&config, &mut rng, now);
        Self {
            me,
            config,
            rng,
            wall_offset_ms,
            has_work: false,
            last_slot: None,
            history: History::default(),
            sightings: Sightings::default(),
            timer,
            heard_at: now,
            round_trips: None,
            has_heard: false,
            hold: None,
            custody: None,
            demands: Demands::default(),
            outputs: VecDeque::new(),
        }
    }

    /// The one way in: one input, then drain the outputs.
    ///
    /// # Panics
    /// If outputs of the last call were left behind: that is a bug of the driver.
    pub fn handle(&mut self, input: Input, now: Time) {
        assert!(self.outputs.is_empty(), "drain the agent's outputs before its next input");
        match input {
            Input::Wake => {}
            Input::Arrived { token, from } => self.on_arrived(token, from, now),
            Input::Accepted { to, session, timeout } => self.on_accepted(to, session, timeout, now),
            Input::Confirmed { token, session } => self.on_confirmed(token, session),
            Input::Unreachable { member } => self.on_unreachable(member, now),
            Input::SlotDone => self.on_slot_done(now),
            Input::Lost => self.on_lost(now),
            Input::Stalled => self.on_stalled(now),
            Input::Received { from, message, round_trip } => {
                self.on_message(from, &message, round_trip, now);
            }
            Input::Work(has_work) => self.on_work(has_work, now),
            Input::Members(members) => self.on_members(members, now),
        }
        self.run_deadlines(now);
    }

    /// The next thing to be done, until there is none.
    pub fn poll_output(&mut self) -> Option<Output> {
        let output = self.outputs.pop_front();
        if output.is_none() {
            // An idle agent keeps no queue: it would double the memory of a simulated circle.
            self.outputs = VecDeque::new();
        }
        output
    }

    /// When the agent wants to be woken.
    pub fn next_deadline(&self) -> Time {
        let idle = || self.hold.is_none().then(|| self.timer.deadline());
        let hold = self.hold.as_ref().and_then(|hold| hold.deadline());
        let custody = self.custody.as_ref().map(|custody| custody.due());
        [hold, custody, idle(), self.demands.deadline()]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(Time::ZERO + Duration::MAX)
    }

    /// Makes the circle's first token: what a founder does once, and nobody after.
    ///
    /// # Panics
    /// As [`handle`](Self::handle).
    pub fn found(&mut self, now: Time) {
        assert!(self.outputs.is_empty(), "drain the agent's outputs before its next input");
        if self.hold.is_none() {
            self.generate(Origin::Founded, now);
        }
    }

    /// The circle has new constants. What is under way goes on by the old ones.
    pub fn reconfigure(&mut self, config: Arc<Config>) {
        self.config = config;
    }

    /// The wall clock was set: tokens made from now on are named by it.
    pub fn set_wall_offset(&mut self, wall_offset_ms: i64) {
        self.wall_offset_ms = wall_offset_ms;
    }

    /// What a scout of this member says now.
    pub fn scout(&self, now: Time) -> Message {
        Message::Scout { hearsay: self.hearsay(now) }
    }

    /// The token that is here.
    pub fn token(&self) -> Option<&Token> {
        self.hold.as_ref().map(|hold| &hold.token)
    }

    /// Whether a token that is offered now would be taken. Where tokens do not meet, who has one takes no other,
    /// unless it is about to hand its own off: or two members with a token each would wait for each other for ever.
    pub fn is_open(&self) -> bool {
        self.config.rules.meeting || self.hold.as_ref().is_none_or(|hold| hold.stage == Stage::Offered)
    }

    /// Whether this member took this token from us in this session, and did not say yet that it went on.
    pub fn is_custodian(&self, taker: MemberId, token: TokenId, session: Session) -> bool {
        self.custody.as_ref().is_some_and(|custody| custody.concerns(taker, token, session))
    }

    /// Whether there is something to pull, as far as the agent was told.
    pub fn has_work(&self) -> bool {
        self.has_work
    }

    /// Whether a slot runs.
    pub fn is_pulling(&self) -> bool {
        self.hold.as_ref().is_some_and(|hold| hold.slot.is_some())
    }

    // --- what happens -----------------------------------------------------------------------------------------

    fn on_arrived(&mut self, token: Token, from: MemberId, now: Time) {
        self.heard_at = now;
        if self.hold.as_ref().is_some_and(|hold| hold.token.id == token.id) {
            return; // the handoff never gives one token twice
        }
        let id = token.id;
        if self.custody.as_ref().is_some_and(|custody| custody.token == id && custody.session < token.session)
        {
            self.custody = None;
        }
        let because = self.spurious_on_arrival(&token, now);
        self.history.note(id, token.session);
        self.sightings.saw(id, token.session, now);
        let elder_here = self.hold.as_ref().is_some_and(|hold| hold.token.id.is_elder_than(&id));
        if let Some(because) = because.or(elder_here.then_some(Spurious::Met)) {
            self.emit(Event::Discarded { token: id, because });
            self.send_release(from, id, token.session);
            return;
        }
        if self.hold.is_some() {
            self.discard(Spurious::Met);
        }
        self.timer.visited(&self.config, &mut self.rng, now);
        self.demands.stop_announcing();
        self.emit(Event::Visited { token: id });
        let custodian = Custodian { member: from, session: token.session, heard_at: now };
        self.begin_visit(token, Some(custodian), now);
    }

    fn on_accepted(&mut self, to: MemberId, session: Session, timeout: Duration, now: Time) {
        // Without a token here, or without an offer, there is nothing to pass: it was discarded meanwhile.
        let Some(hold) = self.hold.take_if(|hold| hold.stage == Stage::Offered) else { return };
        let Hold { token, since, custodian, slot, .. } = *hold;
        if slot.is_some() {
            self.emit(Event::SlotEnded);
        }
        let passed = Token { id: token.id, session, age: token.age + now.since(since) };
        self.sightings.saw(token.id, session, now);
        self.timer.news(&self.config, &mut self.rng, now);
        if self.config.rules.custody.is_some() {
            let predecessor = custodian.map(|custodian| (custodian.member, custodian.session));
            let custody = Custody::new(token.id, session, to, predecessor, timeout, &self.config, now);
            self.custody = Some(Box::new(custody));
        }
        self.outputs.push_back(Output::Pass { to, token: passed });
    }

    fn on_confirmed(&mut self, token: TokenId, session: Session) {
        let Some(custody) = &mut self.custody else { return };
        if (custody.token, custody.session) != (token, session) {
            return;
        }
        let taker = custody.taker;
        if let Some((member, session)) = custody.predecessor.take()
            && member != taker
        {
            self.send_release(member, token, session);
        }
    }

    fn on_unreachable(&mut self, member: Option<MemberId>, now: Time) {
        let Some(hold) = self.hold.as_mut().filter(|hold| hold.stage == Stage::Offered) else { return };
        if let Some(member) = member {
            hold.candidates.drop_unreachable(member);
            let has_another = hold.candidates.best().is_some();
            if !has_another && self.is_token_useful_here() { self.keep(now) } else { self.pass_on(now) }
        } else if hold.slot.is_some() {
            hold.stage = Stage::Kept { until: now + self.config.skip };
        } else {
            self.visit_again(now);
        }
    }

    /// The token goes on, or stays for another slot; slots that end at once begin no faster than a resting token moves.
    fn on_slot_done(&mut self, now: Time) {
        let Some(hold) = self.hold.as_mut().filter(|hold| hold.slot.is_some()) else { return };
        hold.slot = None;
        if let Stage::Kept { until } = &mut hold.stage {
            let goes_on = hold.candidates.has_waiting() || !self.config.rules.is_work_conserving();
            *until = if goes_on { now } else { now.max(hold.since + self.config.skip) };
        }
        self.emit(Event::SlotEnded);
    }

    fn on_lost(&mut self, now: Time) {
        let Some(hold) = self.hold.take() else { return };
        self.timer.news(&self.config, &mut self.rng, now);
        if hold.slot.is_some() {
            self.emit(Event::SlotEnded);
        }
        // Forgotten, so that we do not tell our custodian that it was handed on.
        self.history.forget(hold.token.id);
    }

    fn on_stalled(&mut self, now: Time) {
        self.timer.restart(&self.config, &mut self.rng, now);
        if let (Some(custody), Some(rules)) = (&mut self.custody, &self.config.rules.custody) {
            custody.ask_again(rules, now);
        }
    }

    fn on_work(&mut self, has_work: bool, now: Time) {
        self.has_work = has_work;
        if has_work {
            return self.seek_slot(now);
        }
        self.demands.stop_announcing();
        let Some(hold) = self.hold.as_mut().filter(|hold| hold.slot.is_some()) else { return };
        hold.slot = None;
        if let Stage::Kept { until } = &mut hold.stage {
            *until = now;
        }
        self.emit(Event::SlotEnded);
    }

    fn on_message(&mut self, from: MemberId, message: &Message, round_trip: Option<Duration>, now: Time) {
        self.heard_at = now;
        self.has_heard = true;
        if let Some(round_trip) = round_trip {
            RoundTrip::measure(&mut self.round_trips, round_trip);
        }
        // An answer may have been written at any moment since its question.
        let said_at = now - round_trip.unwrap_or_default();
        match *message {
            Message::Scout { ref hearsay } => {
                self.hear(from, hearsay, said_at, now);
                let waited = self.last_slot.map(|(began, _)| now.since(began));
                let hearsay = self.hearsay(now);
                self.send(from, Message::Report { waited, has_work: self.has_work, hearsay });
                self.pass_on_demand(from, now);
            }
            Message::Report { waited, has_work, ref hearsay } => {
                self.hear(from, hearsay, said_at, now);
                self.on_report(from, waited, has_work, now);
            }
            Message::Release { token, session } | Message::Passed { token, session } => {
                self.custody.take_if(|custody| custody.concerns(from, token, session));
            }
            Message::Check { token, session } => self.on_check(from, token, session, now),
            Message::Demand { member } => self.on_demand(member, now),
            Message::Holding { token, session } => {
                if let Some(custody) = &mut self.custody
                    && custody.concerns(from, token, session)
                {
                    custody.prolong(&self.config, now);
                }
            }
        }
    }

    fn on_report(&mut self, from: MemberId, waited: Option<Duration>, has_work: bool, now: Time) {
        let (Some(hold), Some(rules)) = (&mut self.hold, &self.config.rules.scouting) else { return };
        hold.candidates.add(from, has_work, waited, rules.scouts, now);
        // Where answers come late they decide, but not the first of them alone: the nearest would always be next.
        let spread = self.round_trips.map_or(Duration::ZERO, RoundTrip::spread);
        let gathered = now + spread.clamp(LEAST_SPREAD, LONGEST_SPREAD);
        match (hold.stage, hold.slot) {
            (Stage::AwaitingReports { .. }, _) => hold.stage = Stage::Gathering { until: gathered },
            // The Move leaves one round trip before the slot's end, so that the Ack comes just when it ends.
            (Stage::Kept { .. }, Some(end))
                if hold.candidates.has_waiting() || !self.config.rules.is_work_conserving() =>
            {
                let until = end - hold.candidates.round_trip();
                hold.stage =
                    if until > now { Stage::Kept { until } } else { Stage::Gathering { until: gathered } };
            }
            // A token that rests here is wanted there.
            (Stage::Kept { .. }, None)
                if hold.candidates.has_waiting() && self.config.rules.is_work_conserving() =>
            {
                hold.stage = Stage::Kept { until: now };
            }
            _ => {}
        }
    }

    fn on_check(&mut self, from: MemberId, token: TokenId, session: Session, now: Time) {
        if let Some(custodian) = self.hold.as_mut().and_then(|hold| hold.custodian.as_mut())
            && (custodian.member, custodian.session) == (from, session)
        {
            custodian.heard_at = now;
        }
        let holds =
            self.hold.as_ref().is_some_and(|hold| hold.token.id == token && hold.token.session >= session);
        if holds {
            self.send(from, Message::Holding { token, session });
        } else if self.history.had(token, session) {
            self.send(from, Message::Passed { token, session });
        }
    }

    // --- what time does ---------------------------------------------------------------------------------------

    fn run_deadlines(&mut self, now: Time) {
        self.end_slot_when_over(now);
        self.offer_when_due(now);
        self.check_custody_when_due(now);
        self.announce_when_due(now);
        if self.hold.is_none() && self.timer.deadline() <= now {
            match self.timer.run_out(self.answers_within(), &self.config, now) {
                Alarm::Ask { count } => self.outputs.push_back(Output::Scout { count }),
                Alarm::Regenerate => self.generate(Origin::NoNews, now),
            }
        }
    }

    fn end_slot_when_over(&mut self, now: Time) {
        let Some(hold) = &mut self.hold else { return };
        if hold.slot.take_if(|end| *end <= now).is_some() {
            self.emit(Event::SlotEnded);
        }
    }

    fn offer_when_due(&mut self, now: Time) {
        let patience = self.config.rules.scouting.as_ref().map(|rules| self.scouting_patience(rules));
        let Some(hold) = &mut self.hold else { return };
        match hold.stage {
            Stage::Kept { until } if until <= now => match patience.map(|patience| hold.since + patience) {
                Some(until) if hold.candidates.best().is_none() && until > now => {
                    hold.stage = Stage::AwaitingReports { until };
                }
                _ => self.pass_on(now),
            },
            Stage::AwaitingReports { until } | Stage::Gathering { until } if until <= now => {
                self.pass_on(now);
            }
            _ => {}
        }
    }

    fn check_custody_when_due(&mut self, now: Time) {
        let (Some(custody), Some(rules)) = (&mut self.custody, &self.config.rules.custody) else { return };
        if custody.due() > now {
            return;
        }
        let (to, token, session) = (custody.taker, custody.token, custody.session);
        match custody.fall_due(rules, now) {
            Due::Check => self.send(to, Message::Check { token, session }),
            Due::Regenerate => {
                self.custody = None;
                // With another token here the circle is not without one.
                if self.hold.is_none() {
                    self.generate(Origin::CustodyUnanswered, now);
                }
            }
        }
    }

    // --- what it does -----------------------------------------------------------------------------------------

    fn spurious_on_arrival(&self, token: &Token, now: Time) -> Option<Spurious> {
        let rules = &self.config.rules;
        let preceded = || {
            self.last_slot.is_some_and(|(began, by)| {
                by.is_elder_than(&token.id) && now.since(began) < self.config.min_interval()
            })
        };
        if token.session.next().is_none() {
            Some(Spurious::WornOut)
        } else if rules.precedence && preceded() {
            Some(Spurious::Preceded)
        } else if rules.sandwich && self.history.is_sandwiched(token.id) {
            Some(Spurious::Sandwiched)
        } else if self.elder_was_seen(token.id, now - token.age, now) {
            Some(Spurious::ElderSeen)
        } else {
            None
        }
    }

    fn generate(&mut self, because: Origin, now: Time) {
        let created_ms = u64::try_from(now.wall_ms(self.wall_offset_ms)).unwrap_or(0);
        let id = TokenId { created_ms, generator: self.me, random: self.rng.next_u64() };
        let token = Token { id, session: Session(0), age: Duration::ZERO };
        self.history.note(id, token.session);
        self.sightings.saw(id, token.session, now);
        self.timer.regenerated(&self.config, &mut self.rng, now);
        self.emit(Event::Generated { token: id, because });
        self.emit(Event::Visited { token: id });
        self.begin_visit(token, None, now);
    }

    /// Ends the token that is here.
    fn discard(&mut self, because: Spurious) {
        let Some(hold) = self.hold.take() else { return };
        if hold.slot.is_some() {
            self.emit(Event::SlotEnded);
        }
        self.emit(Event::Discarded { token: hold.token.id, because });
        if let Some(custodian) = hold.custodian {
            self.send_release(custodian.member, hold.token.id, custodian.session);
        }
    }

    fn send_release(&mut self, to: MemberId, token: TokenId, session: Session) {
        if self.config.rules.custody.is_some() {
            self.send(to, Message::Release { token, session });
        }
    }

    fn send(&mut self, to: MemberId, message: Message) {
        self.outputs.push_back(Output::Send { to, message });
    }

    fn emit(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
    }
}

#[cfg(test)]
impl Agent {
    /// How many tokens it remembers.
    pub(super) fn remembered(&self) -> usize {
        self.history.len()
    }
}
