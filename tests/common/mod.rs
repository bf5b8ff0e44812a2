//! A circle of real nodes with real signatures, on virtual time, over a network in which every datagram can be seen.
//!
//! Whatever a test does, three promises are looked after at every step: no token is held twice, no Commit leaves
//! while its sender pulls, and nothing is said in answer to a datagram that was not let in.

#![allow(dead_code, reason = "each test file uses its own part of the harness")]

pub(crate) mod datagrams;

use std::collections::BTreeSet;
use std::iter;
use std::net::SocketAddr;
use std::time::Duration;

use stroll::base::{MemberId, Session, Time, TokenId};
use stroll::node::{Command, Config, Event, Identity, Input, Node, Output, Right, Status, first_sequence};
use stroll::proto::{agent, directory, handoff};
use stroll::trust::{Authority, GateKey, PrivateKey, Roll, Suite};
use stroll::wire::records::{Bans, Certificate, Charter, Entry, Mode, Ring, RuleSet};
use stroll::wire::{Header, Kind};

use datagrams::{GATE, open};

/// Wall time at the start, in seconds since 1970.
pub(crate) const WALL_START_S: u64 = 1_700_000_000;

/// The slot of every circle here, unless a test says otherwise.
pub(crate) const SLOT: Duration = Duration::from_secs(1);

/// Each way through the network.
pub(crate) const DELAY: Duration = Duration::from_millis(10);

const DAY_S: u64 = 86_400;

pub(crate) fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub(crate) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn seed_of(member: usize) -> [u8; 32] {
    [u8::try_from(member + 100).unwrap(); 32]
}

/// An address at which no member is.
pub(crate) fn elsewhere(port: u16) -> SocketAddr {
    SocketAddr::from(([203, 0, 113, 9], port))
}

/// A datagram as the network sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) number: u64,
    pub(crate) sent_at: Time,
    pub(crate) arrives_at: Time,
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) sender: usize,
    /// `None` if nobody is there.
    pub(crate) receiver: Option<usize>,
    pub(crate) header: Header,
    pub(crate) bytes: Vec<u8>,
}

impl Packet {
    pub(crate) fn kind(&self) -> Kind {
        self.header.kind
    }

    pub(crate) fn is(&self, kind: Kind, from: usize, to: usize) -> bool {
        self.kind() == kind && self.sender == from && self.receiver == Some(to)
    }
}

/// What the network does with a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Deliver,
    Drop,
    Twice,
    Late(Duration),
    /// Until the test gives it out again.
    Hold,
}

/// One place in the circle, and who lives there.
pub(crate) struct Member {
    pub(crate) seed: [u8; 32],
    pub(crate) certificate: Certificate,
    pub(crate) address: SocketAddr,
    pub(crate) node: Option<Node>,
    pub(crate) events: Vec<(Time, Event)>,
    /// How long its pull takes to stop.
    pub(crate) stop_after: Duration,
    /// By what it pulls.
    pub(crate) pulls: Option<Right>,
    pub(crate) wall_offset_ms: i64,
    life: u32,
}

type Network = Box<dyn FnMut(&Packet) -> Fate>;

/// The harness.
pub(crate) struct Circle {
    pub(crate) now: Time,
    pub(crate) authority: Authority,
    pub(crate) charter: Charter,
    pub(crate) members: Vec<Member>,
    /// Everything that was ever sent.
    pub(crate) log: Vec<Packet>,
    pub(crate) held: Vec<Packet>,
    flight: Vec<Packet>,
    stops: Vec<(Time, usize, u32)>,
    network: Network,
    tokens: BTreeSet<TokenId>,
    /// The same for the founders of two circles with the same members.
    world: u8,
    seed: u64,
}

// --- builders ---------------------------------------------------------------------------------------------------

impl Circle {
    /// Members who know each other and have work; no token yet.
    pub(crate) fn of(members: usize) -> Self {
        let mut circle = Self::of_strangers(members);
        circle.introduce_all();
        circle
    }

    /// Members who have work and know nobody.
    pub(crate) fn of_strangers(members: usize) -> Self {
        let capacity = u32::try_from(members).unwrap();
        Self::by(RuleSet::Guarded, capacity, 1, 1).and_members(members)
    }

    /// A circle without members, by these rules. `world` is its authority, `seed` all that is random.
    pub(crate) fn by(rules: RuleSet, capacity: u32, world: u8, seed: u64) -> Self {
        let authority = Authority::new(PrivateKey::from_seed(Suite::Ed25519, [world; 32]));
        let charter = authority.sign_charter(Charter {
            circle: authority.circle(),
            version: 1,
            issued_s: WALL_START_S,
            name: "test".to_owned(),
            source: "http://127.0.0.1/".to_owned(),
            aliases: Vec::new(),
            slot: SLOT,
            skip: millis(100),
            capacity,
            bandwidth: 0,
            rules,
            scouts: 8,
            retention: Duration::ZERO,
            mode: Mode::Token,
            signature: [0; 64],
        });
        Self {
            now: Time::ZERO,
            authority,
            charter,
            members: Vec::new(),
            log: Vec::new(),
            held: Vec::new(),
            flight: Vec::new(),
            stops: Vec::new(),
            network: Box::new(|_| Fate::Deliver),
            tokens: BTreeSet::new(),
            world,
            seed,
        }
    }

    /// Members who know each other, have work and go by tickets; the ring would begin with the first of them.
    pub(crate) fn with_tickets(members: usize, tickets: u16) -> Self {
        let mut circle = Self::of_ticket_strangers(members, tickets);
        circle.introduce_all();
        circle
    }

    /// The same for members who know nobody.
    pub(crate) fn of_ticket_strangers(members: usize, tickets: u16) -> Self {
        let mut circle = Self::by(RuleSet::Guarded, u32::try_from(members).unwrap(), 1, 1);
        let first = PrivateKey::from_seed(Suite::Ed25519, seed_of(0)).member_id();
        let mode = Mode::Tickets(Ring { tickets, faults: 2, first, epoch: 1 });
        circle.charter = circle.authority.sign_charter(Charter { mode, ..circle.charter.clone() });
        circle.and_members(members)
    }

    pub(crate) fn and_members(mut self, count: usize) -> Self {
        for _ in 0..count {
            self.add_member();
        }
        self
    }

    /// One more member, who knows nobody and is known to nobody.
    pub(crate) fn add_member(&mut self) -> usize {
        let number = self.members.len();
        let seed = seed_of(number);
        let (from_s, until_s) = (WALL_START_S - DAY_S, WALL_START_S + 100 * DAY_S);
        let certificate = self.issue(number, seed, from_s, until_s);
        self.settle(seed, certificate)
    }

    /// Another process with the key of this member, elsewhere.
    pub(crate) fn add_clone_of(&mut self, member: usize) -> usize {
        let Member { seed, certificate, .. } = &self.members[member];
        self.settle(*seed, certificate.clone())
    }

    fn settle(&mut self, seed: [u8; 32], certificate: Certificate) -> usize {
        let number = self.members.len();
        let address = SocketAddr::from(([10, 0, 0, u8::try_from(number + 1).unwrap()], 7433));
        self.members.push(Member {
            seed,
            certificate,
            address,
            node: None,
            events: Vec::new(),
            stop_after: millis(5),
            pulls: None,
            wall_offset_ms: i64::try_from(WALL_START_S * 1000).unwrap(),
            life: 0,
        });
        self.start(number);
        number
    }

    pub(crate) fn issue(&self, member: usize, seed: [u8; 32], from_s: u64, until_s: u64) -> Certificate {
        let key = PrivateKey::from_seed(Suite::Ed25519, seed);
        let serial = member as u64 + 1;
        self.authority.issue(serial, key.public(), &format!("lab-{member}"), from_s, until_s).unwrap()
    }

    /// The first token, which begins at this member now.
    pub(crate) fn with_token_at(mut self, member: usize) -> Self {
        self.command(member, Command::Found);
        assert_eq!(self.holder(), Some(member));
        self
    }

    /// The token is on its way round since some time, and everybody was served.
    pub(crate) fn running(members: usize) -> Self {
        let mut circle = Self::of(members).with_token_at(0);
        circle.drive(secs(3 * members as u64));
        assert!((0..members).all(|member| circle.slots(member) > 0), "everybody was served");
        circle
    }

    /// The same, at a moment when this member has been pulling for a while.
    pub(crate) fn running_with_token_at(members: usize, member: usize) -> Self {
        let mut circle = Self::running(members);
        circle.drive_to_slot_of(member);
        circle
    }

    pub(crate) fn drive_to_slot_of(&mut self, member: usize) {
        let slots = self.slots(member);
        assert!(self.drive_until(secs(60), |circle| circle.slots(member) > slots), "a slot for {member}");
        self.drive(millis(300));
        assert_eq!(self.holder(), Some(member));
    }
}

// --- what a test does -------------------------------------------------------------------------------------------

impl Circle {
    /// What becomes of every datagram from now on.
    pub(crate) fn set_network(&mut self, network: impl FnMut(&Packet) -> Fate + 'static) {
        self.network = Box::new(network);
    }

    pub(crate) fn heal(&mut self) {
        self.network = Box::new(|_| Fate::Deliver);
    }

    /// Puts what was held back on its way again, in the order in which it was sent.
    pub(crate) fn release_held(&mut self) {
        for mut packet in std::mem::take(&mut self.held) {
            packet.arrives_at = self.now + DELAY;
            self.flight.push(packet);
        }
    }

    pub(crate) fn introduce_all(&mut self) {
        for member in 0..self.members.len() {
            self.introduce_to_all(member);
        }
    }

    /// This member hears of all others, as from a file.
    pub(crate) fn introduce_to_all(&mut self, member: usize) {
        for other in (0..self.members.len()).filter(|other| *other != member) {
            self.introduce(member, other);
        }
    }

    /// `member` hears of `other`.
    pub(crate) fn introduce(&mut self, member: usize, other: usize) {
        let Some(entry) = self.members[other].node.as_ref().map(Node::entry) else { return };
        self.command(member, Command::Learn { entry });
    }

    pub(crate) fn command(&mut self, member: usize, command: Command) -> Vec<Packet> {
        self.feed(member, Input::Command(command))
    }

    /// Bytes come in at a member, now; gives what it sends because of them.
    pub(crate) fn inject(&mut self, member: usize, bytes: &[u8], from: SocketAddr) -> Vec<Packet> {
        // What is due anyway must not look like an answer.
        while self.members[member].node.as_ref().is_some_and(|node| node.next_deadline() <= self.now) {
            self.feed(member, Input::Wake);
        }
        let before = self.accepted(member);
        let events = self.members[member].events.len();
        let sent = self.feed(member, Input::Datagram { bytes, from });
        if self.accepted(member) == before {
            assert!(sent.is_empty(), "I5: an answer to what was not let in: {sent:?}");
            let events = &self.members[member].events[events..];
            assert!(events.is_empty(), "what was not let in did something: {events:?}");
        }
        sent
    }

    pub(crate) fn crash(&mut self, member: usize) {
        let place = &mut self.members[member];
        place.node = None;
        place.pulls = None;
    }

    /// The same key, a new boot secret, and what its file says of the others.
    pub(crate) fn restart(&mut self, member: usize) {
        self.crash(member);
        self.start(member);
        self.introduce_to_all(member);
    }

    fn start(&mut self, member: usize) {
        let (now, circle_charter, authority) = (self.now, self.charter.clone(), self.authority.public());
        let (world, run) = (self.world, self.seed);
        let place = &mut self.members[member];
        place.life += 1;
        let roll = Roll::new(Suite::Ed25519, authority, circle_charter, None).unwrap();
        let mut boot_secret = [world; 32];
        boot_secret[0] = u8::try_from(member).unwrap();
        boot_secret[1] = u8::try_from(place.life).unwrap();
        let config = Config {
            address: place.address,
            sequence: first_sequence(now.wall_ms(place.wall_offset_ms)) + u64::from(place.life),
            boot_secret,
            wall_offset_ms: place.wall_offset_ms,
            seed: run * 1000 + member as u64 + u64::from(place.life) * 100,
            directory: directory::Config::default(),
        };
        let identity = Identity {
            key: PrivateKey::from_seed(Suite::Ed25519, place.seed),
            certificate: place.certificate.clone(),
            roll,
            gate: GateKey::from_bytes(GATE),
        };
        place.node = Some(Node::new(identity, config, now).unwrap());
        self.command(member, Command::Work(true));
    }

    /// The network and the members for so long.
    pub(crate) fn drive(&mut self, span: Duration) {
        self.drive_until(span, |_| false);
    }

    /// Until something is true; false if it did not become so within the span.
    pub(crate) fn drive_until(&mut self, span: Duration, is_done: impl Fn(&Self) -> bool) -> bool {
        let end = self.now + span;
        let mut at_once = 0;
        while !is_done(self) {
            let Some(next) = self.next_event().filter(|at| *at <= end) else {
                self.now = end;
                return false;
            };
            at_once = if next > self.now { 0 } else { at_once + 1 };
            assert!(at_once < 20_000, "a node wakes itself without pause at {}", self.now);
            self.now = next.max(self.now);
            self.step();
        }
        true
    }

    fn next_event(&self) -> Option<Time> {
        let deadlines = self.members.iter().filter_map(|member| member.node.as_ref());
        let deadlines = deadlines.map(Node::next_deadline);
        let stops = self.stops.iter().map(|(at, ..)| *at);
        let arrivals = self.flight.iter().map(|packet| packet.arrives_at);
        deadlines.chain(stops).chain(arrivals).min()
    }

    fn step(&mut self) {
        let now = self.now;
        if let Some(place) = self.stops.iter().position(|(at, ..)| *at <= now) {
            let (_, member, life) = self.stops.remove(place);
            if self.members[member].life == life && self.members[member].node.is_some() {
                self.members[member].pulls = None;
                self.command(member, Command::SlotStopped);
            }
            return;
        }
        let first = self.flight.iter().enumerate().filter(|(_, packet)| packet.arrives_at <= now);
        if let Some((place, _)) = first.min_by_key(|(_, packet)| (packet.arrives_at, packet.number)) {
            let packet = self.flight.remove(place);
            if let Some(member) = self.at(packet.to) {
                self.inject(member, &packet.bytes, packet.from);
            }
            return;
        }
        let is_due = |member: &Member| member.node.as_ref().is_some_and(|node| node.next_deadline() <= now);
        if let Some(member) = self.members.iter().position(is_due) {
            self.feed(member, Input::Wake);
        }
    }

    /// One input, everything that follows from it, and the promises.
    pub(crate) fn feed(&mut self, member: usize, input: Input<'_>) -> Vec<Packet> {
        let now = self.now;
        let Some(node) = &mut self.members[member].node else { return Vec::new() };
        node.handle(input, now);
        let outputs: Vec<Output> = iter::from_fn(|| node.poll_output()).collect();
        let mut sent = Vec::new();
        for output in outputs {
            match output {
                Output::Datagram { to, bytes } => sent.push(self.send(member, to, bytes)),
                Output::Event(event) => self.on_event(member, event),
            }
        }
        self.check_uniqueness();
        sent
    }

    fn send(&mut self, member: usize, to: SocketAddr, bytes: Vec<u8>) -> Packet {
        let header = *open(&bytes, self.authority.circle()).header();
        if header.kind == Kind::Commit {
            let pulls = self.members[member].pulls;
            assert_ne!(pulls, Some(Right::Token(header.token)), "I4: member {member} commits while it pulls");
        }
        let packet = Packet {
            number: self.log.len() as u64,
            sent_at: self.now,
            arrives_at: self.now + DELAY,
            from: self.members[member].address,
            to,
            sender: member,
            receiver: self.at(to),
            header,
            bytes,
        };
        self.log.push(packet.clone());
        match (self.network)(&packet) {
            Fate::Deliver => self.flight.push(packet.clone()),
            Fate::Drop => {}
            Fate::Twice => self.flight.extend([packet.clone(), packet.clone()]),
            Fate::Late(by) => {
                self.flight.push(Packet { arrives_at: packet.arrives_at + by, ..packet.clone() });
            }
            Fate::Hold => self.held.push(packet.clone()),
        }
        packet
    }

    fn on_event(&mut self, member: usize, event: Event) {
        let now = self.now;
        let place = &mut self.members[member];
        match event {
            Event::SlotBegan { right, .. } => {
                assert_eq!(
                    place.pulls, None,
                    "I4: a slot of member {member} began before the last pull ended"
                );
                place.pulls = Some(right);
            }
            Event::StopSlot => self.stops.push((now + place.stop_after, member, place.life)),
            _ => {}
        }
        place.events.push((now, event));
    }

    /// I1, by what the nodes themselves say.
    fn check_uniqueness(&mut self) {
        let nodes = || self.members.iter().filter_map(|member| member.node.as_ref());
        let here: Vec<TokenId> = nodes().filter_map(Node::token).map(|(token, _)| token).collect();
        self.tokens.extend(here);
        for token in &self.tokens {
            let holders = self.members.iter().filter_map(|member| member.node.as_ref());
            let holders = holders.filter(|node| node.holds(*token)).count();
            assert!(holders <= 1, "I1: {token} is held {holders} times at {}", self.now);
        }
    }
}

// --- what a test looks at ---------------------------------------------------------------------------------------

impl Circle {
    pub(crate) fn node(&self, member: usize) -> &Node {
        self.members[member].node.as_ref().expect("the member runs")
    }

    pub(crate) fn id(&self, member: usize) -> MemberId {
        self.key(member).member_id()
    }

    pub(crate) fn key(&self, member: usize) -> PrivateKey {
        PrivateKey::from_seed(Suite::Ed25519, self.members[member].seed)
    }

    pub(crate) fn address(&self, member: usize) -> SocketAddr {
        self.members[member].address
    }

    pub(crate) fn at(&self, address: SocketAddr) -> Option<usize> {
        self.members.iter().position(|member| member.address == address)
    }

    pub(crate) fn status(&self, member: usize) -> Status {
        self.node(member).status(self.now)
    }

    pub(crate) fn accepted(&self, member: usize) -> u64 {
        self.members[member].node.as_ref().map_or(0, |node| node.status(self.now).accepted)
    }

    pub(crate) fn rejected(&self, member: usize, reason: &str) -> u64 {
        self.status(member).rejected.get(reason).copied().unwrap_or(0)
    }

    /// Who has authority over a token now. There may be nobody: it is on its way.
    pub(crate) fn holder(&self) -> Option<usize> {
        let holds = |member: &Member| {
            let node = member.node.as_ref();
            node.is_some_and(|node| node.token().is_some_and(|(token, _)| node.holds(token)))
        };
        self.members.iter().position(holds)
    }

    pub(crate) fn tokens_here(&self) -> usize {
        self.members.iter().filter_map(|member| member.node.as_ref()?.token()).count()
    }

    /// The same when none is on its way.
    pub(crate) fn tokens_alive(&mut self) -> usize {
        self.drive_until(secs(2), |circle| circle.tokens_here() > 0);
        self.tokens_here()
    }

    pub(crate) fn slots(&self, member: usize) -> usize {
        self.count_events(member, |event| matches!(event, Event::SlotBegan { .. }))
    }

    pub(crate) fn all_slots(&self) -> usize {
        (0..self.members.len()).map(|member| self.slots(member)).sum()
    }

    pub(crate) fn count_events(&self, member: usize, is: impl Fn(&Event) -> bool) -> usize {
        self.members[member].events.iter().filter(|(_, event)| is(event)).count()
    }

    /// Of all members, in the order of time.
    pub(crate) fn events(&self) -> Vec<(Time, usize, Event)> {
        let of = |(number, member): (usize, &Member)| {
            member.events.iter().map(move |(at, event)| (*at, number, event.clone())).collect::<Vec<_>>()
        };
        let mut events: Vec<_> = self.members.iter().enumerate().flat_map(of).collect();
        events.sort_by_key(|(at, ..)| *at);
        events
    }

    pub(crate) fn events_since(&self, since: Time) -> Vec<(Time, usize, Event)> {
        self.events().into_iter().filter(|(at, ..)| *at >= since).collect()
    }

    /// Tokens made because one was believed lost: when, by whom, why.
    pub(crate) fn regenerations(&self) -> Vec<(Time, usize, agent::Origin)> {
        let made = |(at, member, event)| match event {
            Event::Agent(agent::Event::Generated { because, .. }) if because != agent::Origin::Founded => {
                Some((at, member, because))
            }
            _ => None,
        };
        self.events().into_iter().filter_map(made).collect()
    }

    /// Tokens that arrived: when, where, in which session, from whom.
    pub(crate) fn arrivals(&self) -> Vec<(Time, usize, TokenId, Session)> {
        let arrived = |(at, member, event)| match event {
            Event::Handoff(handoff::Event::Arrived { token, session, .. }) => {
                Some((at, member, token, session))
            }
            _ => None,
        };
        self.events().into_iter().filter_map(arrived).collect()
    }

    pub(crate) fn sent(&self, kind: Kind) -> Vec<Packet> {
        self.log.iter().filter(|packet| packet.kind() == kind).cloned().collect()
    }

    pub(crate) fn last(&self, kind: Kind) -> Packet {
        self.sent(kind).pop().unwrap_or_else(|| panic!("no {} was sent", kind.name()))
    }

    /// What was sent since then.
    pub(crate) fn sent_since(&self, since: Time) -> Vec<Packet> {
        self.log.iter().filter(|packet| packet.sent_at >= since).cloned().collect()
    }

    pub(crate) fn knows(&self, member: usize, other: usize) -> bool {
        self.node(member).directory().get(self.id(other)).is_some()
    }

    pub(crate) fn entry(&self, member: usize) -> Entry {
        self.node(member).entry()
    }

    pub(crate) fn bans(&self, version: u32, members: &[usize]) -> Bans {
        let serials = members.iter().map(|member| *member as u64 + 1).collect();
        self.authority.sign_bans(version, serials).unwrap()
    }

    /// The token that is alive, with the highest session that anybody accepted.
    pub(crate) fn token(&self) -> (TokenId, Session) {
        let last = self.arrivals().pop().map(|(.., token, session)| (token, session));
        last.or_else(|| self.members.iter().find_map(|member| member.node.as_ref()?.token()))
            .expect("a token")
    }
}
