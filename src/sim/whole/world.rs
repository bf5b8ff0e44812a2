//! The world: nodes, the network between them, and what happens to both.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use crate::base::{MemberId, Rng, Time};
use crate::node::{Command, Config, Event, Identity, Input, Node, Output};
use crate::proto::{agent, directory, handoff};
use crate::sim::queue::{Mail, Timers};
use crate::trust::{Authority, GateKey, PrivateKey, Roll};
use crate::wire::records::{Certificate, Charter};

use super::checks::{Checks, Violation};
use super::network::{Faults, Network};
use super::scenario::{Outcome, Scenario};

/// Wall time at the start of every run, in seconds since 1970.
const WALL_START_S: u64 = 1_700_000_000;

/// A paused member's socket keeps so many datagrams; the rest are lost.
const SOCKET_BUFFER: usize = 256;

/// How long it takes at most until a pull that was told to stop has stopped.
const STOP_WITHIN: Duration = Duration::from_millis(20);

/// What is under way.
#[derive(Debug)]
enum Parcel {
    Datagram { from: usize, to: usize, bytes: Vec<u8> },
    SlotStopped { member: usize, life: u32 },
    Fault(Fault),
    Restart(usize),
    Resume(usize),
    Join,
    Heal,
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    Crash,
    Pause,
    Split,
}

/// One place in the circle, and who lives there.
#[derive(Debug)]
struct Place {
    seed: [u8; 32],
    certificate: Certificate,
    node: Option<Node>,
    /// How often it was started: what belongs to an earlier life is void.
    life: u32,
    paused: Option<Vec<(usize, Vec<u8>)>>,
    paused_at: Time,
    served_in_peace: bool,
}

/// One run.
#[derive(Debug)]
pub struct Whole {
    scenario: Scenario,
    charter: Charter,
    authority: [u8; 32],
    places: Vec<Place>,
    ids: Vec<MemberId>,
    pub(super) network: Network,
    mail: Mail<Parcel>,
    timers: Timers,
    pub(super) checks: Checks,
    pub(super) outcome: Outcome,
    rng: Rng,
    pub(super) now: Time,
    pub(super) peace_at: Time,
    end: Time,
}

impl Whole {
    /// A run about to start, with one token at the first member.
    pub fn new(scenario: &Scenario, seed: u64) -> Self {
        let mut rng = Rng::seeded(seed);
        let faults = scenario.faults.clone().unwrap_or_else(|| Faults::swarm(&mut rng));
        let authority = Authority::new(PrivateKey::from_seed(scenario.suite, bytes32(&mut rng)));
        let charter = authority.sign_charter(charter(scenario, &authority));
        let places: Vec<Place> =
            (0..scenario.members).map(|n| Place::new(n, scenario, &authority, &mut rng)).collect();
        let ids = places.iter().map(|place| crate::wire::member_id(&place.certificate.key)).collect();
        let peace_at = Time::ZERO + scenario.duration;
        let mut whole = Self {
            charter,
            authority: authority.public(),
            places,
            ids,
            network: Network::new(faults, rng.child()),
            mail: Mail::default(),
            timers: Timers::default(),
            checks: Checks::default(),
            outcome: Outcome { runs: 1, ..Outcome::default() },
            rng,
            now: Time::ZERO,
            peace_at,
            end: peace_at + scenario.settle,
            scenario: scenario.clone(),
        };
        for member in 0..whole.places.len() {
            whole.timers.add_member();
            whole.start(member);
        }
        whole.introduce();
        whole.command(0, Command::Found);
        for fault in [Fault::Crash, Fault::Pause, Fault::Split] {
            whole.schedule(fault);
        }
        whole.mail.post(Parcel::Heal, peace_at, Time::ZERO);
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
        self.checks.violations().is_empty()
    }

    /// Runs to the end.
    pub fn run(mut self) -> Outcome {
        while self.step() {}
        self.finish()
    }

    /// Looks whether the circle has come to rest, and sums up.
    pub fn finish(mut self) -> Outcome {
        if self.checks.violations().is_empty() && self.now >= self.end {
            self.check_rest();
        }
        for member in 0..self.places.len() {
            self.outcome.rejected += self.rejected_by(member);
        }
        let violations = self.checks.violations().to_vec();
        self.outcome.duplicates =
            violations.iter().filter(|violation| violation.is_duplicate()).count() as u64;
        self.outcome.violations = violations;
        self.outcome
    }

    // --- what happens -----------------------------------------------------------------------------------------

    fn deliver(&mut self, parcel: Parcel) {
        match parcel {
            Parcel::Datagram { from, to, bytes } => {
                let is_paused = self.places.get_mut(to).and_then(|place| place.paused.as_mut());
                match is_paused {
                    Some(buffer) if buffer.len() < SOCKET_BUFFER => buffer.push((from, bytes)),
                    Some(_) => {}
                    None => self.feed(to, Input::Datagram { bytes: &bytes, from: address(from) }),
                }
            }
            Parcel::SlotStopped { member, life } => {
                if self.places.get(member).is_some_and(|place| place.life == life) {
                    self.checks.pull_ended(member);
                    self.command(member, Command::SlotStopped);
                }
            }
            Parcel::Fault(fault) => {
                if self.now < self.peace_at {
                    self.inject(fault);
                    self.schedule(fault);
                }
            }
            Parcel::Restart(member) => {
                if self.places.get(member).is_some_and(|place| place.node.is_none()) {
                    self.start(member);
                    self.introduce_one(member);
                }
            }
            Parcel::Resume(member) => self.resume(member),
            Parcel::Join => self.network.join(),
            Parcel::Heal => self.network.heal(),
        }
    }

    fn schedule(&mut self, fault: Fault) {
        let faults = self.network.faults();
        let every = match fault {
            Fault::Crash => faults.crash_every,
            Fault::Pause => faults.pause_every,
            Fault::Split => faults.split_every,
        };
        if let Some(every) = every {
            let wait = self.rng.exponential(every).max(Duration::from_millis(1));
            self.mail.post(Parcel::Fault(fault), self.now + wait, self.now);
        }
    }

    fn inject(&mut self, fault: Fault) {
        let member = self.rng.below(self.places.len());
        let faults = self.network.faults().clone();
        match fault {
            Fault::Crash => self.crash(member, faults.restart_after),
            Fault::Pause => self.pause(member, self.now + faults.pause_for),
            Fault::Split => {
                self.network.split(self.places.len());
                self.mail.post(Parcel::Join, self.now + faults.split_for, self.now);
            }
        }
    }

    fn crash(&mut self, member: usize, restart_after: Duration) {
        self.outcome.rejected += self.rejected_by(member);
        let Some(place) = self.places.get_mut(member) else { return };
        if place.node.take().is_none() {
            return;
        }
        place.paused = None;
        self.outcome.lost_by_crash += self.checks.crashed(member).len() as u64;
        // One in four is back at once: the replays of its former life still fly.
        let wait = if self.rng.below(4) == 0 { Duration::from_millis(1) } else { restart_after };
        // In any case before the peace, so that everybody is there to be served.
        let back = (self.now + wait).min(self.peace_at);
        self.mail.post(Parcel::Restart(member), back, self.now);
    }

    fn pause(&mut self, member: usize, until: Time) {
        let now = self.now;
        let Some(place) = self.places.get_mut(member) else { return };
        if place.node.is_some() && place.paused.is_none() {
            place.paused = Some(Vec::new());
            place.paused_at = now;
            self.mail.post(Parcel::Resume(member), until.min(self.peace_at), now);
        }
    }

    /// What a driver does when it finds that its loop stood still; then the socket's buffer.
    fn resume(&mut self, member: usize) {
        let fresh_secret = bytes32(&mut self.rng);
        let Some(place) = self.places.get_mut(member) else { return };
        let Some(buffer) = place.paused.take() else { return };
        let asleep = self.now.since(place.paused_at);
        if asleep > Duration::from_secs(1) {
            self.command(member, Command::Slept { asleep, fresh_secret });
        }
        for (from, bytes) in buffer {
            self.feed(member, Input::Datagram { bytes: &bytes, from: address(from) });
        }
        self.feed(member, Input::Wake);
    }

    // --- nodes ------------------------------------------------------------------------------------------------

    fn start(&mut self, member: usize) {
        let skew = self.network.faults().clock_skew.as_millis() as f64 * (2.0 * self.rng.fraction() - 1.0);
        #[expect(clippy::cast_possible_truncation, reason = "a cast from float saturates")]
        let wall_offset_ms = WALL_START_S.cast_signed() * 1000 + skew as i64;
        let config = Config {
            address: address(member),
            sequence: WALL_START_S + u64::try_from(self.now.as_nanos()).unwrap_or(0),
            boot_secret: bytes32(&mut self.rng),
            wall_offset_ms,
            seed: self.rng.next_u64(),
            directory: directory::Config::default(),
        };
        let suite = self.scenario.suite;
        let Ok(roll) = Roll::new(suite, self.authority, self.charter.clone(), None) else { return };
        let now = self.now;
        let Some(place) = self.places.get_mut(member) else { return };
        let key = PrivateKey::from_seed(suite, place.seed);
        let gate = GateKey::from_bytes([7; 32]);
        let identity = Identity { key, certificate: place.certificate.clone(), roll, gate };
        place.life += 1;

        place.node = Node::new(identity, config, now).ok();
        self.command(member, Command::Work(true));
    }

    /// Everybody hears of some others, as from a file.
    fn introduce(&mut self) {
        for member in 0..self.places.len() {
            self.introduce_one(member);
        }
    }

    fn introduce_one(&mut self, member: usize) {
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

    fn command(&mut self, member: usize, command: Command) {
        self.feed(member, Input::Command(command));
    }

    /// One input, then everything that follows from it.
    fn feed(&mut self, member: usize, input: Input<'_>) {
        let now = self.now;
        let Some(place) = self.places.get_mut(member) else { return };
        if place.paused.is_some() {
            return;
        }
        let Some(node) = &mut place.node else { return };
        node.handle(input, now);
        let outputs: Vec<Output> = std::iter::from_fn(|| node.poll_output()).collect();
        let (deadline, token) = (node.next_deadline(), node.token().map(|(token, _)| token));
        for output in outputs {
            self.obey(member, output);
        }
        if let Some(token) = token {
            self.checks.claims(member, token, now);
        }
        self.timers.arm(u32::try_from(member).unwrap_or(u32::MAX), deadline);
    }

    fn obey(&mut self, member: usize, output: Output) {
        match output {
            Output::Datagram { to, bytes } => {
                self.outcome.datagrams += 1;
                let Some(to) = number(to).filter(|to| *to < self.places.len()) else { return };
                for copy in self.network.carry(member, to, &bytes, self.now) {
                    self.mail.post(
                        Parcel::Datagram { from: member, to, bytes: copy.bytes },
                        copy.at,
                        self.now,
                    );
                }
            }
            Output::Event(event) => self.on_event(member, event),
        }
    }

    fn on_event(&mut self, member: usize, event: Event) {
        let now = self.now;
        match event {
            Event::SlotBegan { token, .. } => {
                self.outcome.slots += 1;
                self.checks.pull_began(member, token, now);
                if now >= self.peace_at
                    && let Some(place) = self.places.get_mut(member)
                {
                    place.served_in_peace = true;
                }
            }
            Event::StopSlot => {
                let life = self.places.get(member).map_or(0, |place| place.life);
                let stopped = now + self.rng.uniform(Duration::ZERO, STOP_WITHIN);
                self.mail.post(Parcel::SlotStopped { member, life }, stopped, now);
            }
            Event::Agent(agent::Event::Generated { token, because }) => {
                self.checks.generated(member, token, now);
                self.outcome.regenerated += u64::from(because != agent::Origin::Founded);
            }
            Event::Agent(agent::Event::Discarded { token, .. }) => {
                self.outcome.removed += 1;
                self.checks.ended(member, token);
            }
            Event::Handoff(event) => self.on_handoff(member, event),
            _ => {}
        }
    }

    fn on_handoff(&mut self, member: usize, event: handoff::Event) {
        let now = self.now;
        match event {
            handoff::Event::Arrived { token, session, .. } => {
                self.outcome.passes += 1;
                self.checks.arrived(member, token, session, now);
            }
            handoff::Event::Released { token, .. } => self.checks.released(member, token, now),
            handoff::Event::Dropped { token, .. } => self.checks.ended(member, token),
            handoff::Event::CommitAbandoned { token, session, .. } => {
                self.outcome.lost += u64::from(!self.checks.was_accepted(token, session));
            }
            _ => {}
        }
    }

    // --- rest -------------------------------------------------------------------------------------------------

    fn check_rest(&mut self) {
        let at = self.now;
        let tokens = self.checks.tokens_alive();
        // On its way at this very moment is alive as well.
        if tokens > 1 {
            self.checks.complain(Violation::NotOneToken { at, tokens });
        }
        for member in 0..self.places.len() {
            if self.places.get(member).is_some_and(|place| !place.served_in_peace) {
                self.checks.complain(Violation::NotServed { at, member });
            }
        }
        if let Some(member) = self.find_disconnected() {
            self.checks.complain(Violation::Disconnected { at, member });
        }
    }

    /// A member from which not everybody is reached by going from directory to directory.
    fn find_disconnected(&self) -> Option<usize> {
        (0..self.places.len()).find(|start| {
            let mut reached = BTreeSet::from([*start]);
            let mut queue = vec![*start];
            while let Some(member) = queue.pop() {
                let node = self.places.get(member).and_then(|place| place.node.as_ref());
                for (id, _) in node.into_iter().flat_map(|node| node.directory().iter()) {
                    if let Some(other) = self.ids.iter().position(|known| *known == id)
                        && reached.insert(other)
                    {
                        queue.push(other);
                    }
                }
            }
            reached.len() < self.places.len()
        })
    }

    fn rejected_by(&self, member: usize) -> u64 {
        let node = self.places.get(member).and_then(|place| place.node.as_ref());
        node.map_or(0, |node| node.status(self.now).rejected.values().sum())
    }
}

impl Place {
    fn new(number: usize, scenario: &Scenario, authority: &Authority, rng: &mut Rng) -> Self {
        let seed = bytes32(rng);
        let key = PrivateKey::from_seed(scenario.suite, seed);
        let serial = number as u64 + 1;
        let name = format!("lab-{number}");
        let certificate = authority
            .issue(serial, key.public(), &name, WALL_START_S - 86_400, WALL_START_S + 3_000_000_000)
            .expect("the name is short and the times are in order");
        Self {
            seed,
            certificate,
            node: None,
            life: 0,
            paused: None,
            paused_at: Time::ZERO,
            served_in_peace: false,
        }
    }
}

fn charter(scenario: &Scenario, authority: &Authority) -> Charter {
    Charter {
        circle: authority.circle(),
        version: 1,
        issued_s: WALL_START_S,
        name: "simulated".to_owned(),
        source: "http://127.0.0.1/".to_owned(),
        slot: scenario.slot,
        skip: scenario.skip,
        capacity: u32::try_from(scenario.members).unwrap_or(u32::MAX),
        bandwidth: 0,
        rules: scenario.rules,
        scouts: 8,
        signature: [0; 64],
    }
}

fn bytes32(rng: &mut Rng) -> [u8; 32] {
    let mut bytes = [0; 32];
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&rng.next_u64().to_be_bytes());
    }
    bytes
}

/// Members live at 10.x.y.z: the number in the address.
fn address(member: usize) -> SocketAddr {
    let number = u32::try_from(member).unwrap_or(0);
    SocketAddr::from((Ipv4Addr::from(0x0a00_0000 | number), 7433))
}

fn number(address: SocketAddr) -> Option<usize> {
    match address {
        SocketAddr::V4(v4) => usize::try_from(u32::from(*v4.ip()) & 0x00ff_ffff).ok(),
        SocketAddr::V6(_) => None,
    }
}
