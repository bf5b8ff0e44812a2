//! A circle of bare agents: tokens and messages pass between them, members come and go, tokens get lost.
//!
//! ```text
//!  giver                     taker            each arrow takes the message delay
//!    |---- Offer ------------->|
//!    |<--- Accept -------------|              the token is on its way from here …
//!    |---- Token ------------->|              … to here
//!    |<--- Confirm ------------|
//! ```

use std::sync::Arc;
use std::time::Duration;

use crate::base::{Rng, Time, TokenId};
use crate::proto::agent::{Agent, Config, Event, Input, Invalid, Message, Origin, Output, Rules, Token};
use crate::proto::load;

use super::measure::{Meter, Outcome};
use super::numbers::{member_id, member_number};
use super::parcel::{Fault, Parcel};
use super::presence::Presence;
use super::queue::{Mail, Timers};
use super::scenario::Scenario;
use super::trace::{Moment, Trace};
use super::verdicts::Judges;
use super::views::Views;

/// How long a giver tries to reach a member that does not answer: three Moves, half a second apart, as at a first
/// contact on a real wire.
const GIVE_UP_AFTER: Duration = Duration::from_millis(1500);

/// Wall time at the start of every run, in milliseconds since 1970. Any would do; tokens only need an order.
const WALL_START_MS: i64 = 1_600_000_000_000;

/// One run.
#[derive(Debug)]
pub struct Circle {
    scenario: Scenario,
    config: Arc<Config>,
    end: Time,
    now: Time,
    agents: Vec<Agent>,
    presence: Vec<Presence>,
    views: Views,
    timers: Timers,
    mail: Mail<Parcel>,
    /// The next token that is handed off gets lost.
    loss_due: bool,
    meter: Meter,
    trace: Option<Vec<Moment>>,
    /// What the members think of their load, if anybody wants to know.
    judges: Option<Judges>,
    /// For the choice of members, for faults, and to seed the agents' own.
    draws: Rng,
    faults: Rng,
    seeds: Rng,
}

impl Circle {
    /// A run about to start, with one token at a random member.
    pub fn new(scenario: &Scenario, rules: &Rules, seed: u64) -> Result<Self, Invalid> {
        let config = Arc::new(scenario.config(rules)?);
        let mut master = Rng::seeded(seed);
        let (mut draws, faults, seeds) = (master.child(), master.child(), master.child());
        let members = u32::try_from(scenario.members).unwrap_or(u32::MAX);
        let mut circle = Self {
            end: Time::ZERO + scenario.duration,
            now: Time::ZERO,
            agents: Vec::with_capacity(scenario.members),
            presence: Vec::with_capacity(scenario.members),
            views: Views::new(members, scenario.view, &mut draws),
            timers: Timers::default(),
            mail: Mail::default(),
            loss_due: false,
            meter: Meter::new(scenario.members, config.nominal_period()),
            trace: None,
            judges: scenario.verdicts.then(Judges::default),
            scenario: scenario.clone(),
            config,
            draws,
            faults,
            seeds,
        };
        for member in 0..members {
            circle.add_agent(member);
        }
        let founder = u32::try_from(circle.draws.below(scenario.members)).unwrap_or(0);
        if let Some(agent) = circle.agents.get_mut(founder as usize) {
            agent.found(Time::ZERO);
        }
        circle.drain(founder);
        for fault in [Fault::LoseToken, Fault::Crash, Fault::Join, Fault::Leave] {
            circle.schedule(fault);
        }
        if let Some(surge) = &scenario.surge {
            circle.post(Parcel::Surge(surge.members), surge.at);
        }
        Ok(circle)
    }

    /// Remembers everything that happens from now on: memory grows with the run.
    pub fn keep_trace(&mut self) {
        self.trace.get_or_insert_default();
    }

    /// What has happened since [`keep_trace`](Self::keep_trace).
    pub fn trace(&self) -> &[Moment] {
        self.trace.as_deref().unwrap_or_default()
    }

    /// The virtual time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The number of members, crashed ones included.
    pub fn members(&self) -> usize {
        self.views.present().len()
    }

    /// Lets the next event happen; false when the time is up.
    pub fn step(&mut self) -> bool {
        if let Some(parcel) = self.mail.pop_now() {
            self.meter.event();
            self.deliver(parcel);
            return true;
        }
        let (mail, wake) = (self.mail.next(), self.timers.next());
        let judged = self.judges.as_mut().and_then(Judges::next);
        let next = [mail, wake, judged].into_iter().flatten().min();
        let Some(at) = next.filter(|&at| at < self.end) else {
            self.now = self.end;
            return false;
        };
        self.now = at.max(self.now);
        self.meter.event();
        if mail == Some(at) {
            if let Some((_, parcel)) = self.mail.pop_later() {
                self.deliver(parcel);
            }
        } else if judged == Some(at) {
            if let Some(member) = self.judges.as_mut().and_then(Judges::pop) {
                self.judge(member, load::Input::Wake);
            }
        } else if let Some((_, member)) = self.timers.pop() {
            self.tell(member, Input::Wake);
        }
        true
    }

    /// What was measured.
    pub fn finish(self) -> Outcome {
        let verdicts = self.judges.map(|judges| judges.finish(self.now));
        let scenario = self.scenario;
        Outcome { verdicts, ..self.meter.finish(&|member| scenario.has_work(member), self.now) }
    }

    // --- what happens -----------------------------------------------------------------------------------------

    fn deliver(&mut self, parcel: Parcel) {
        match parcel {
            Parcel::Message { from, to, message } => {
                if self.is_up(to) {
                    if let Message::Report { waited, has_work, .. } = message {
                        self.judge(to, load::Input::Heard { waited, has_work });
                    }
                    let is_answer = matches!(message, Message::Report { .. });
                    let round_trip = is_answer.then_some(self.scenario.delay * 2);
                    self.tell(to, Input::Received { from: member_id(from), message, round_trip });
                }
            }
            Parcel::Offer { giver, taker } => {
                // Who is down and who takes no token now both keep silent.
                if self.is_up(taker) && self.agent(taker).is_some_and(Agent::is_open) {
                    self.post(Parcel::Accept { giver, taker }, self.scenario.delay);
                } else {
                    let rest = GIVE_UP_AFTER.saturating_sub(self.scenario.delay);
                    self.post(Parcel::Refuse { giver, taker: Some(taker) }, rest);
                }
            }
            Parcel::Accept { giver, taker } => self.on_accept(giver, taker),
            Parcel::Refuse { giver, taker } => {
                if let Some(taker) = taker {
                    self.views.replace(giver, taker, &mut self.draws);
                }
                self.tell(giver, Input::Unreachable { member: taker.map(member_id) });
            }
            Parcel::Token { giver, taker, token } => self.on_token(giver, taker, token),
            Parcel::Confirm { giver, token, session } => {
                self.tell(giver, Input::Confirmed { token, session });
            }
            Parcel::Fault(fault) => {
                self.inject(fault);
                self.schedule(fault);
            }
            Parcel::Restart(member) => self.on_restart(member),
            Parcel::Surge(members) => {
                if let Some(judges) = &mut self.judges {
                    judges.surge(self.now);
                }
                (0..members).for_each(|_| self.join_new_member());
            }
        }
    }

    fn on_accept(&mut self, giver: u32, taker: u32) {
        let session = self.agent(giver).and_then(Agent::token).and_then(|token| token.session.next());
        if let Some(session) = session.filter(|_| self.is_up(giver)) {
            let timeout = self.scenario.delay * 2;
            self.tell(giver, Input::Accepted { to: member_id(taker), session, timeout });
        }
    }

    fn on_token(&mut self, giver: u32, taker: u32, token: Token) {
        self.meter.token_arrived(self.now);
        if !self.is_up(taker) || std::mem::take(&mut self.loss_due) {
            self.lose(token.id, taker);
            return;
        }
        let confirm = Parcel::Confirm { giver, token: token.id, session: token.session };
        self.tell(taker, Input::Arrived { token, from: member_id(giver) });
        self.post(confirm, self.scenario.delay);
    }

    fn on_restart(&mut self, member: u32) {
        if self.presence.get(member as usize) != Some(&Presence::Down) {
            return;
        }
        self.note(member, Trace::Restarted);
        let agent = self.new_agent(member);
        if let Some(old) = self.agents.get_mut(member as usize) {
            *old = agent;
        }
        self.set_presence(member, Presence::Up);
        self.tell(member, Input::Work(self.scenario.has_work(member)));
    }

    // --- faults -----------------------------------------------------------------------------------------------

    fn schedule(&mut self, fault: Fault) {
        let every = match fault {
            Fault::LoseToken => self.scenario.loss_every,
            Fault::Crash => self.scenario.churn.crash_every,
            Fault::Join => self.scenario.churn.join_every,
            Fault::Leave => self.scenario.churn.leave_every,
        };
        let Some(every) = every else { return };
        let wait = match fault {
            // By the clock, so that all rules suffer the same losses.
            Fault::LoseToken => every,
            // At least a nanosecond, so that virtual time moves on.
            Fault::Crash | Fault::Join | Fault::Leave => {
                self.faults.exponential(every).max(Duration::from_nanos(1))
            }
        };
        self.post(Parcel::Fault(fault), wait);
    }

    fn inject(&mut self, fault: Fault) {
        match fault {
            Fault::LoseToken => self.loss_due = true,
            Fault::Crash => self.crash_some_member(),
            Fault::Join => self.join_new_member(),
            Fault::Leave => self.let_some_member_leave(),
        }
    }

    fn crash_some_member(&mut self) {
        let Some(member) = self.some_member() else { return };
        if !self.is_up(member) {
            return;
        }
        self.note(member, Trace::Crashed);
        // The agent is not asked: it is gone, and its token and its pull with it.
        let held = self.agent(member).and_then(Agent::token).map(|token| token.id);
        if self.agent(member).is_some_and(Agent::is_pulling) {
            self.on_event(member, Event::SlotEnded);
        }
        if let Some(token) = held {
            self.lose(token, member);
        }
        self.judge(member, load::Input::Work(false));
        self.judge(member, load::Input::Stalled);
        self.set_presence(member, Presence::Down);
        self.post(Parcel::Restart(member), self.scenario.churn.restart_after);
    }

    fn join_new_member(&mut self) {
        let Ok(member) = u32::try_from(self.agents.len()) else { return };
        self.views.join(member, &mut self.draws);
        self.meter.add_member();
        self.add_agent(member);
        self.note(member, Trace::Joined);
    }

    fn let_some_member_leave(&mut self) {
        let Some(member) = self.some_member() else { return };
        if self.members() > 1 && self.presence.get(member as usize) == Some(&Presence::Up) {
            self.set_presence(member, Presence::Leaving);
            self.tell(member, Input::Work(false));
            self.complete_leave(member);
        }
    }

    /// Who leaves goes as soon as it holds no token.
    fn complete_leave(&mut self, member: u32) {
        let is_leaving = self.presence.get(member as usize) == Some(&Presence::Leaving);
        if is_leaving && self.agent(member).is_some_and(|agent| agent.token().is_none()) {
            self.set_presence(member, Presence::Gone);
            self.views.leave(member);
            self.note(member, Trace::Left);
        }
    }

    fn some_member(&mut self) -> Option<u32> {
        let present = self.views.present();
        (!present.is_empty()).then(|| present.get(self.faults.below(present.len())).copied())?
    }

    // --- agents -----------------------------------------------------------------------------------------------

    fn add_agent(&mut self, member: u32) {
        let agent = self.new_agent(member);
        self.agents.push(agent);
        self.presence.push(Presence::Up);
        self.timers.add_member();
        if let Some(judges) = &mut self.judges {
            judges.add_member(self.config.nominal_period(), self.now);
        }
        self.tell(member, Input::Work(self.scenario.has_work(member)));
    }

    fn new_agent(&mut self, member: u32) -> Agent {
        let skew_ms = 2e3 * self.scenario.clock_skew.as_secs_f64() * (self.seeds.fraction() - 0.5);
        #[expect(clippy::cast_possible_truncation, reason = "a cast from float saturates")]
        let wall_offset_ms = WALL_START_MS.saturating_add(skew_ms as i64);
        Agent::new(member_id(member), Arc::clone(&self.config), self.seeds.child(), wall_offset_ms, self.now)
    }

    /// One input, then everything that follows from it.
    fn tell(&mut self, member: u32, input: Input) {
        if !self.is_up(member) {
            return;
        }
        if let Input::Work(has_work) = input {
            self.judge(member, load::Input::Work(has_work));
        }
        let Some(agent) = self.agents.get_mut(member as usize) else { return };
        agent.handle(input, self.now);
        self.drain(member);
    }

    /// The member's load machine hears of it, and asks others if it wants to.
    fn judge(&mut self, member: u32, input: load::Input) {
        let Some(judges) = &mut self.judges else { return };
        let asked = judges.handle(member, input, self.now);
        if asked > 0 && self.is_up(member) {
            self.send_scouts(member, asked);
        }
    }

    fn drain(&mut self, member: u32) {
        while let Some(output) = self.agents.get_mut(member as usize).and_then(Agent::poll_output) {
            self.obey(member, output);
        }
        if let Some(agent) = self.agents.get(member as usize) {
            self.timers.arm(member, agent.next_deadline());
        }
    }

    fn obey(&mut self, member: u32, output: Output) {
        match output {
            Output::Scout { count } => self.send_scouts(member, count),
            Output::Announce { count } => self.announce(member, count),
            Output::Send { to, message } => {
                self.post(
                    Parcel::Message { from: member, to: member_number(to), message },
                    self.scenario.delay,
                );
            }
            Output::Offer { to } => {
                let taker = to.map(member_number).or_else(|| self.views.draw(member, &mut self.draws));
                match taker {
                    Some(taker) => self.post(Parcel::Offer { giver: member, taker }, self.scenario.delay),
                    None => self.post(Parcel::Refuse { giver: member, taker: None }, Duration::ZERO),
                }
            }
            Output::Pass { to, token } => {
                self.meter.token_left(self.now);
                let parcel = Parcel::Token { giver: member, taker: member_number(to), token };
                self.post(parcel, self.scenario.delay);
                self.complete_leave(member);
            }
            Output::Event(event) => self.on_event(member, event),
        }
    }

    fn send_scouts(&mut self, member: u32, count: usize) {
        let Some(agent) = self.agents.get(member as usize) else { return };
        let message = agent.scout(self.now);
        for to in self.views.sample(member, count, &mut self.draws) {
            if self.is_up(to) {
                let message = message.clone();
                self.post(Parcel::Message { from: member, to, message }, self.scenario.delay);
            } else {
                self.views.replace(member, to, &mut self.draws);
            }
        }
    }

    fn announce(&mut self, member: u32, count: usize) {
        for to in self.views.sample(member, count, &mut self.draws) {
            let message = Message::Demand { member: member_id(member) };
            self.post(Parcel::Message { from: member, to, message }, self.scenario.delay);
        }
    }

    fn on_event(&mut self, member: u32, event: Event) {
        let now = self.now;
        match event {
            Event::Visited { .. } => self.meter.visited(member, now),
            Event::SlotBegan { .. } => {
                self.meter.slot_began(member, now);
                self.judge(member, load::Input::SlotBegan);
            }
            Event::SlotEnded => self.meter.slot_ended(now),
            Event::Skipped => self.meter.skipped(),
            Event::Kept { .. } => {}
            Event::Generated { because, .. } => self.meter.token_made(because == Origin::Founded, now),
            Event::Discarded { .. } => {
                self.meter.token_removed(now);
                self.complete_leave(member);
            }
        }
        self.note(member, Trace::Agent(event));
    }

    // --- bookkeeping ------------------------------------------------------------------------------------------

    fn lose(&mut self, token: TokenId, member: u32) {
        self.meter.token_lost(self.now);
        self.note(member, Trace::Lost(token));
    }

    fn post(&mut self, parcel: Parcel, after: Duration) {
        self.mail.post(parcel, self.now + after, self.now);
    }

    fn note(&mut self, member: u32, what: Trace) {
        if let Some(trace) = &mut self.trace {
            trace.push(Moment { at: self.now, member, what });
        }
    }

    fn agent(&self, member: u32) -> Option<&Agent> {
        self.agents.get(member as usize)
    }

    fn is_up(&self, member: u32) -> bool {
        self.presence.get(member as usize).is_some_and(|presence| presence.is_up())
    }

    fn set_presence(&mut self, member: u32, presence: Presence) {
        if let Some(slot) = self.presence.get_mut(member as usize) {
            *slot = presence;
        }
    }
}
