//! The world: nodes, the network between them, and what happens to both.

use std::time::Duration;

use crate::base::{MemberId, Rng, Time};
use crate::node::{Command, Config, Event, Identity, Input, Node, Output, Right};
use crate::proto::{agent, directory, handoff};
use crate::sim::measure::jain;
use crate::sim::queue::{Mail, Timers};
use crate::trust::{Authority, GateKey, PrivateKey, Roll};
use crate::wire::records::{Bans, Charter};
use crate::wire::{ANYONE, Kind};

use super::checks::Checks;
use super::faults::Fault;
use super::network::{Faults, Network};
use super::place::{Place, WALL_START_S, address, bytes32, charter, number};
use super::ring::Books;
use super::rows::{Memory, Row};
#[cfg(test)]
use super::sabotage::Sabotage;
use super::scenario::{Outcome, Scenario};
use super::stopwatch::Stopwatch;
use super::turning::{SETTLED_WITHIN, limits};
use super::turns::Turns;
use super::violation::Violation;

/// The gate key of every simulated circle.
pub(super) const GATE: [u8; 32] = [7; 32];

/// How wrong members take their clocks to be at most, in parts of a million.
const STATED_DRIFT_PPM: u32 = 1000;

/// How long it takes at most until a pull by a token that was told to stop has stopped.
pub(super) const STOP_WITHIN: Duration = Duration::from_millis(20);

/// What is under way.
#[derive(Debug)]
pub(super) enum Parcel {
    Datagram { from: usize, to: usize, bytes: Vec<u8> },
    SlotStopped { member: usize, life: u32 },
    Fault(Fault),
    Restart { member: usize, has_files: bool },
    Resume(usize),
    Join,
    Heal,
    TellBans,
    Look,
    Found { member: usize },
    CountTurns,
    Burst,
    BurstEnd { member: usize, life: u32 },
}

/// One run.
#[derive(Debug)]
pub struct Whole {
    pub(super) scenario: Scenario,
    /// What everybody got when it enrolled.
    enrolment: Charter,
    /// The newest that the authority has signed, and the newest bans.
    pub(super) charter: Charter,
    pub(super) authority: Authority,
    pub(super) bans: Option<Bans>,
    pub(super) places: Vec<Place>,
    pub(super) ids: Vec<MemberId>,
    pub(super) network: Network,
    pub(super) mail: Mail<Parcel>,
    timers: Timers,
    pub(super) checks: Checks,
    pub(super) turns: Turns,
    /// In a circle with tickets.
    pub(super) ring: Option<Books>,
    pub(super) memory: Memory,
    pub(super) stopwatch: Stopwatch,
    pub(super) outcome: Outcome,
    pub(super) rng: Rng,
    pub(super) now: Time,
    pub(super) peace_at: Time,
    pub(super) end: Time,
    /// What a test has broken on purpose.
    #[cfg(test)]
    pub(super) sabotage: Sabotage,
}

impl Whole {
    /// A run about to start, with one token or the first ticket at the first member.
    pub fn new(scenario: &Scenario, seed: u64) -> Self {
        let mut rng = Rng::seeded(seed);
        let faults = scenario.faults.clone().unwrap_or_else(|| Faults::swarm(STATED_DRIFT_PPM, &mut rng));
        let authority = Authority::new(PrivateKey::from_seed(scenario.suite, bytes32(&mut rng)));
        let ends = ends_of_certificates(scenario, &faults, &mut rng);
        let places: Vec<Place> = (0..scenario.members)
            .map(|n| Place::new(n, scenario, &authority, ends.get(n).copied().flatten(), &mut rng))
            .collect();
        let ids: Vec<MemberId> =
            places.iter().map(|place| crate::wire::member_id(&place.certificate.key)).collect();
        let first = ids.first().copied().unwrap_or(ANYONE);
        let charter = authority.sign_charter(charter(scenario, &authority, first));
        let peace_at = Time::ZERO + scenario.duration;
        let checks = Checks::default();
        let mut whole = Self {
            enrolment: charter.clone(),
            charter,
            authority,
            bans: None,
            places,
            ids,
            network: Network::new(faults, rng.child()),
            mail: Mail::default(),
            timers: Timers::default(),
            checks,
            turns: Turns::new(limits(scenario)),
            ring: Books::new(scenario),
            memory: Memory::default(),
            stopwatch: Stopwatch::default(),
            outcome: Outcome { runs: 1, ..Outcome::default() },
            rng,
            now: Time::ZERO,
            peace_at,
            end: peace_at + scenario.settle,
            scenario: scenario.clone(),
            #[cfg(test)]
            sabotage: Sabotage::default(),
        };
        for member in 0..whole.places.len() {
            whole.timers.add_member();
            whole.certify(member, ends.get(member).copied().flatten());
            whole.start(member);
        }
        whole.introduce();
        whole.found(0);
        whole.mail.post(Parcel::Look, Time::ZERO, Time::ZERO);
        for fault in Fault::ALL {
            whole.schedule(fault);
        }
        whole.mail.post(Parcel::Heal, peace_at, Time::ZERO);
        whole.mail.post(Parcel::CountTurns, peace_at + SETTLED_WITHIN, Time::ZERO);
        whole.schedule_burst();
        whole
    }

    /// Lets the next event happen; false when the time is up or a promise was broken.
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
                self.feed(member as usize, Input::Wake);
            }
        }
        self.outcome.pulling.set(self.checks.pulling(), self.now);
        self.look_at_turns();
        self.is_unbroken()
    }

    /// Runs to the end.
    pub fn run(mut self) -> Outcome {
        while self.step() {}
        self.finish()
    }

    /// Looks whether the circle has come to rest, and sums up.
    pub fn finish(mut self) -> Outcome {
        if self.is_unbroken() && self.now >= self.end {
            self.check_rest();
            self.check_fairness();
        }
        for member in 0..self.places.len() {
            self.outcome.rejected += self.rejected_by(member);
        }
        self.outcome.pulling.settle(self.now);
        let active = (0..).zip(&self.places).filter(|(member, _)| self.scenario.has_work(*member));
        self.outcome.jain.push(jain(active.map(|(_, place)| f64::from(place.slots))));
        self.note_turns();
        let losses = self.checks.losses();
        self.outcome.lost += losses.plain;
        self.outcome.lost_by_crash += losses.by_crash;
        self.outcome.lost_by_ban += losses.by_ban;
        let violations = self.violations();
        self.outcome.duplicates =
            violations.iter().filter(|violation| violation.is_duplicate()).count() as u64;
        self.outcome.violations = violations;
        self.outcome
    }

    fn is_unbroken(&self) -> bool {
        self.checks.violations().is_empty()
            && self.ring.as_ref().is_none_or(|ring| ring.violations().is_empty())
    }

    fn violations(&self) -> Vec<Violation> {
        let of_ring = self.ring.iter().flat_map(Books::violations).cloned().map(Violation::Ring);
        of_ring.chain(self.checks.violations().iter().cloned()).collect()
    }

    // --- what happens -----------------------------------------------------------------------------------------

    fn deliver(&mut self, parcel: Parcel) {
        match parcel {
            Parcel::Datagram { from, to, bytes } => {
                match self.places.get_mut(to).and_then(|place| place.paused.as_mut()) {
                    Some(pause) => pause.keep(from, bytes),
                    None => self.feed(to, Input::Datagram { bytes: &bytes, from: address(from) }),
                }
            }
            Parcel::SlotStopped { member, life } => {
                if self.places.get(member).is_some_and(|place| place.life == life) {
                    self.slot_stopped(member);
                }
            }
            Parcel::Fault(fault) => {
                if self.now < self.peace_at {
                    self.inject(fault);
                    self.schedule(fault);
                }
            }
            Parcel::Restart { member, has_files } => self.restart(member, has_files),
            Parcel::Resume(member) => self.resume(member),
            Parcel::Join => {
                self.network.join();
                self.turns.disturbed(self.now);
            }
            Parcel::Heal => {
                self.network.heal();
                self.turns.disturbed(self.now);
                // When everybody is back, so that somebody listens.
                self.mail.post(Parcel::TellBans, self.now + Duration::from_secs(1), self.now);
            }
            Parcel::TellBans => self.tell_bans(1),
            Parcel::Look => self.look_at_ring(),
            Parcel::Found { member } => self.found(member),
            Parcel::CountTurns => self.count_turns(),
            Parcel::Burst => self.begin_burst(),
            Parcel::BurstEnd { member, life } => self.end_burst(member, life),
        }
    }

    fn slot_stopped(&mut self, member: usize) {
        self.checks.pull_ended(member);
        self.turns.ended(member, self.now);
        self.ticket_pull_ended(member);
        match self.places.get_mut(member).and_then(|place| place.paused.as_mut()) {
            Some(pause) => pause.slot_stopped = true,
            None => self.command(member, Command::SlotStopped),
        }
    }

    // --- nodes ------------------------------------------------------------------------------------------------

    /// Puts down until when the member's certificate counts, if that is during the run.
    fn certify(&mut self, member: usize, ends: Option<Duration>) {
        if let (Some(_), Some(place)) = (ends, self.places.get(member)) {
            self.checks.standing_mut().certified_until(member, place.certificate.not_after_s);
        }
    }

    #[cfg(not(test))]
    fn boot_secret(&mut self, _: usize) -> [u8; 32] {
        bytes32(&mut self.rng)
    }

    pub(super) fn start(&mut self, member: usize) {
        let skew = self.network.faults().clock_skew.as_millis() as f64 * (2.0 * self.rng.fraction() - 1.0);
        #[expect(clippy::cast_possible_truncation, reason = "a cast from float saturates")]
        let wall_ms = WALL_START_S.cast_signed() * 1000 + skew as i64;
        let clock = self.draw_clock();
        let wall_offset_ms = wall_ms - clock.shows(Time::ZERO).as_nanos() / 1_000_000;
        let config = Config {
            address: address(member),
            sequence: WALL_START_S + u64::try_from(self.now.as_nanos()).unwrap_or(0),
            boot_secret: self.boot_secret(member),
            wall_offset_ms,
            seed: self.rng.next_u64(),
            directory: directory::Config::default(),
        };
        self.checks.standing_mut().started(member, wall_offset_ms);
        let (suite, now) = (self.scenario.suite, clock.shows(self.now));
        let Some(place) = self.places.get_mut(member) else { return };
        place.life += 1;
        place.burst_at = None;
        place.clock = clock;
        let charter = place.charter.as_ref().unwrap_or(&self.enrolment).clone();
        let roll = Roll::new(suite, self.authority.public(), charter, place.bans.clone());
        // Who is no longer a member does not even start.
        let is_member =
            |roll: &Roll| roll.check_validity(&place.certificate, wall_s(wall_offset_ms, now)).is_ok();
        let Some(roll) = roll.ok().filter(is_member) else { return };
        let key = PrivateKey::from_seed(suite, place.seed);
        let gate = GateKey::from_bytes(GATE);
        let identity = Identity { key, certificate: place.certificate.clone(), roll, gate };
        place.node = Node::new(identity, config, now).ok();
        #[cfg(test)]
        self.sabotage.start(member, &mut place.node);
        self.command(member, Command::Work(self.scenario.has_work(member)));
    }

    /// Everybody hears of some others, as from a file.
    fn introduce(&mut self) {
        for member in 0..self.places.len() {
            self.introduce_one(member);
        }
    }

    pub(super) fn introduce_one(&mut self, member: usize) {
        let others = self.places.len();
        for _ in 0..8.min(others) {
            let other = self.rng.below(others);
            let entry = self.places.get(other).and_then(|place| place.node.as_ref()).map(Node::entry);
            if let Some(entry) = entry {
                self.command(member, Command::Learn { entry });
            }
            // And one of them is greeted, so that a member that came back is heard of.
            self.command(member, Command::Greet { address: address(other) });
        }
    }

    pub(super) fn command(&mut self, member: usize, command: Command) {
        self.feed(member, Input::Command(command));
    }

    /// One input, then everything that follows from it.
    pub(super) fn feed(&mut self, member: usize, input: Input<'_>) {
        let (now, heard) = (self.now, self.heard(member, &input));
        let Some(place) = self.places.get_mut(member) else { return };
        if place.paused.is_some() {
            return;
        }
        let Some(node) = &mut place.node else { return };
        node.handle(input, place.clock.shows(now));
        let outputs: Vec<Output> = std::iter::from_fn(|| node.poll_output()).collect();
        let deadline = place.clock.when(node.next_deadline());
        self.count_rows(member, heard, &outputs);
        for output in outputs {
            self.obey(member, output);
        }
        if let Some(Place { node: Some(node), clock, .. }) = self.places.get(member) {
            let token = node.token().map(|(token, _)| token);
            self.checks.claims(member, token, |token| node.holds(token), now);
            self.checks.believes(member, &node.hearsay(clock.shows(now)), now);
        }
        self.look_at_ticket(member);
        self.timers.arm(u32::try_from(member).unwrap_or(u32::MAX), deadline);
    }

    fn obey(&mut self, member: usize, output: Output) {
        match output {
            Output::Datagram { to, bytes } => {
                self.outcome.datagrams += 1;
                let Some(to) = number(to).filter(|to| *to < self.places.len()) else { return };
                self.note_move(member, to, &bytes);
                for copy in self.network.carry(member, to, &bytes, self.now) {
                    self.mail.post(
                        Parcel::Datagram { from: member, to, bytes: copy.bytes },
                        copy.at,
                        self.now,
                    );
                }
            }
            Output::Event(event) => self.on_event(member, &event),
        }
    }

    /// A handoff begins with its Move: from there on the checkers follow it.
    fn note_move(&mut self, from: usize, to: usize, bytes: &[u8]) {
        if let Some(header) = self.header_of_handoff(to, bytes).filter(|header| header.kind == Kind::Move) {
            self.checks.offered(from, to, header.token, header.session, self.now);
        }
    }

    fn on_event(&mut self, member: usize, event: &Event) {
        self.time(member, event);
        let now = self.now;
        match *event {
            Event::SlotBegan { right, until, .. } => {
                self.outcome.slots += 1;
                match right {
                    Right::Token(token) => {
                        self.checks.pull_began(member, token, now);
                        self.turns.began(member, token, until);
                    }
                    Right::Ticket(seat) => self.ticket_pull_began(member, seat),
                }
                if let Some(place) = self.places.get_mut(member) {
                    place.slots += 1;
                    place.served_in_peace |= now >= self.peace_at;
                }
                self.burst_served(member);
            }
            Event::StopSlot => {
                let life = self.places.get(member).map_or(0, |place| place.life);
                let stopped = match self.ticket_pull_stops_at(member) {
                    Some(at) => at,
                    None => now + self.token_pull_stops_within(),
                };
                self.mail.post(Parcel::SlotStopped { member, life }, stopped, now);
            }
            Event::Agent(agent::Event::Generated { token, because }) => {
                let is_replacement = because != agent::Origin::Founded;
                let is_needless = self.checks.tokens_alive() + self.checks.tokens_under_way() > 0;
                self.checks.generated(member, token, now);
                self.outcome.regenerated += u64::from(is_replacement);
                self.outcome.needless += u64::from(is_replacement && is_needless);
            }
            Event::Agent(agent::Event::Discarded { token, .. }) => {
                self.outcome.removed += 1;
                self.checks.ended(member, token);
            }
            Event::Handoff(event) => self.on_handoff(member, event),
            Event::Tickets(ref event) => self.on_ticket_event(event),
            Event::CharterChanged { .. } => {
                if let Some(place) = self.places.get_mut(member) {
                    place.charter = place.node.as_ref().map(|node| node.roll().charter().clone());
                }
            }
            Event::BansChanged { version } => {
                self.checks.standing_mut().heard(member, version);
                if let Some(place) = self.places.get_mut(member) {
                    place.bans = place.node.as_ref().and_then(|node| node.roll().bans().cloned());
                }
            }
            Event::Expelled => {
                self.outcome.expelled += 1;
                let held = self.checks.expelled(member);
                self.outcome.lost_by_ban += held;
                (0..held).for_each(|_| self.outcome.rows.reached(Row::Expelled));
            }
            _ => {}
        }
    }

    fn on_handoff(&mut self, member: usize, event: handoff::Event) {
        let now = self.now;
        match event {
            handoff::Event::Arrived { token, session, from } => {
                self.outcome.passes += 1;
                if let Some(from) = self.number_of(from) {
                    self.checks.arrived(member, from, token, session, now);
                }
            }
            handoff::Event::Released { token, session, to } => {
                if let Some(to) = self.number_of(to) {
                    self.checks.released(member, to, token, session, now);
                }
            }
            handoff::Event::Dropped { token, .. } => self.checks.ended(member, token),
            handoff::Event::CommitAbandoned { token, session, .. } => self.checks.abandoned(token, session),
            _ => {}
        }
    }

    fn number_of(&self, id: MemberId) -> Option<usize> {
        self.ids.iter().position(|known| *known == id)
    }

    pub(super) fn rejected_by(&self, member: usize) -> u64 {
        let Some(place) = self.places.get(member) else { return 0 };
        let now = place.clock.shows(self.now);
        place.node.as_ref().map_or(0, |node| node.status(now).rejected.values().sum())
    }
}

/// Until when each member's certificate counts, if it ends during the run: well before the peace, so that everybody
/// has noticed by then, and at most for every fourth member.
fn ends_of_certificates(scenario: &Scenario, faults: &Faults, rng: &mut Rng) -> Vec<Option<Duration>> {
    let mut left = scenario.members / 4;
    let mut end = || {
        let ends = left > 0 && rng.fraction() < faults.expiring;
        left -= usize::from(ends);
        ends.then(|| rng.uniform(scenario.duration / 8, scenario.duration / 2))
    };
    (0..scenario.members).map(|_| end()).collect()
}

fn wall_s(wall_offset_ms: i64, now: Time) -> u64 {
    u64::try_from(wall_offset_ms.saturating_add(now.as_nanos() / 1_000_000) / 1000).unwrap_or(0)
}
