//! A whole node among members that lie and a network that damages: it never panics, and says nothing without end.

use std::net::SocketAddr;
use std::time::Duration;

use stroll::base::{MemberId, Time};
use stroll::node::{Command, Config, Event, Identity, Input, Node, Output};
use stroll::proto::directory;
use stroll::trust::{Authority, GateKey, PrivateKey, Roll, Suite};
use stroll::wire::records::{Charter, Mode, Ring, RuleSet};
use stroll::wire::{ANYONE, DATAGRAM_LIMIT, DATAGRAM_MIN, Envelope, MAGIC, VERSION};

use super::sealed::{GATE, gate};
use super::source::Source;

const WALL_START_S: u64 = 1_700_000_000;
/// Nodes, and behind them one member that has a certificate and lies.
const NODES: usize = 2;
/// Steps of one history.
const STEPS: usize = 500;
/// What one input may cause at most.
const OUTPUTS_LIMIT: usize = 1_000;

struct World {
    mode: Mode,
    authority: Authority,
    nodes: Vec<Node>,
    liar: PrivateKey,
    /// To which node, from which address, and what.
    sent: Vec<(usize, SocketAddr, Vec<u8>)>,
    /// Orders to stop that have not been obeyed yet.
    stops: Vec<usize>,
    bans: u32,
    now: Time,
}

pub(crate) fn run(data: &[u8]) {
    let mut source = Source::new(data);
    let has_tickets = source.byte() % 2 == 1;
    let mut world = World::new(has_tickets);
    for _ in 0..STEPS {
        if source.is_empty() {
            break;
        }
        world.step(&mut source);
    }
}

/// The charter of the fuzzed circle.
pub(crate) fn charter(authority: &Authority) -> Charter {
    authority.sign_charter(Charter {
        circle: authority.circle(),
        version: 1,
        issued_s: WALL_START_S,
        name: "fuzzed".to_owned(),
        source: "http://127.0.0.1/".to_owned(),
        aliases: Vec::new(),
        slot: Duration::from_secs(1),
        skip: Duration::from_millis(100),
        capacity: 8,
        bandwidth: 0,
        rules: RuleSet::Guarded,
        scouts: 2,
        retention: Duration::ZERO,
        mode: Mode::Token,
        signature: [0; 64],
    })
}

fn address(number: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 7000 + u16::try_from(number).unwrap_or(0)))
}

fn key(number: usize) -> PrivateKey {
    PrivateKey::from_seed(Suite::Simulated, [u8::try_from(number + 1).unwrap_or(0); 32])
}

impl World {
    fn new(has_tickets: bool) -> Self {
        let authority = Authority::new(PrivateKey::from_seed(Suite::Simulated, [9; 32]));
        let ring = Ring { tickets: 3, faults: 1, first: key(0).member_id(), epoch: 1 };
        let mut world = Self {
            mode: if has_tickets { Mode::Tickets(ring) } else { Mode::Token },
            nodes: Vec::new(),
            liar: key(NODES),
            sent: Vec::new(),
            stops: Vec::new(),
            bans: 0,
            now: Time::from_secs(1),
            authority,
        };
        for number in 0..NODES {
            let node = world.node(number);
            world.nodes.push(node);
        }
        for number in 0..NODES {
            for other in 0..NODES {
                let entry = world.nodes[other].entry();
                world.command(number, Command::Learn { entry });
            }
            world.command(number, Command::Work(true));
        }
        world.command(0, Command::Found);
        world.command(0, Command::FoundRing { epoch: 1 });
        world
    }

    fn charter(&self) -> Charter {
        Charter { mode: self.mode, ..charter(&self.authority) }
    }

    fn node(&self, number: usize) -> Node {
        let (key, authority) = (key(number), &self.authority);
        let until_s = WALL_START_S + 86_400;
        let certificate = authority
            .issue(number as u64 + 1, key.public(), "lab", WALL_START_S - 86_400, until_s)
            .expect("the name is short");
        let charter = self.charter();
        let roll = Roll::new(Suite::Simulated, authority.public(), authority.sign_charter(charter), None)
            .expect("the charter is good");
        let identity = Identity { key, certificate, roll, gate: GateKey::from_bytes(GATE) };
        let config = Config {
            address: address(number),
            sequence: 1,
            boot_secret: [u8::try_from(number + 50).unwrap_or(0); 32],
            wall_offset_ms: WALL_START_S.cast_signed() * 1000,
            seed: number as u64,
            directory: directory::Config::default(),
        };
        Node::new(identity, config, self.now).expect("the charter makes sense")
    }

    fn step(&mut self, source: &mut Source<'_>) {
        let number = source.below(NODES);
        match source.below(12) {
            0..=2 => self.deliver(source),
            3 => {
                let len = source.below(256) * 5;
                let bytes = source.take(len);
                self.datagram(number, address(source.below(4)), bytes);
            }
            4 | 5 => self.lie(number, source),
            6 => self.damage(source),
            7 | 8 => {
                let span = Duration::from_millis(source.number() % 20_000);
                self.now = self.now + span;
                for number in 0..NODES {
                    self.feed(number, Input::Wake);
                }
            }
            9 => {
                if let Some(number) = self.stops.pop() {
                    self.command(number, Command::SlotStopped);
                }
            }
            _ => self.wish(number, source),
        }
    }

    fn deliver(&mut self, source: &mut Source<'_>) {
        if !self.sent.is_empty() {
            let back = source.below(self.sent.len().min(256));
            let (to, from, bytes) = self.sent[self.sent.len() - 1 - back].clone();
            self.datagram(to, from, &bytes);
        }
    }

    /// One byte of something that was really said is changed, and the gate put right.
    fn damage(&mut self, source: &mut Source<'_>) {
        if let Some((to, from, mut bytes)) = self.sent.last().cloned() {
            let place = usize::try_from(source.number() % bytes.len() as u64).unwrap_or(0);
            bytes[place] = source.byte();
            gate(&mut bytes);
            self.datagram(to, from, &bytes);
        }
    }

    /// A member with a good key says what it likes: header and content come from the fuzzer, the signature is right.
    fn lie(&mut self, number: usize, source: &mut Source<'_>) {
        let mut bytes = vec![0; 112];
        let fuzzed = source.take(56);
        bytes[56..56 + fuzzed.len()].copy_from_slice(fuzzed);
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        bytes[5] = 1 + source.byte() % 18;
        bytes[7] = source.byte() % 4;
        let receiver = if source.below(4) == 0 { ANYONE } else { self.nodes[number].id() };
        bytes[8..24].copy_from_slice(self.authority.circle().as_bytes());
        bytes[24..40].copy_from_slice(self.liar.member_id().as_bytes());
        bytes[40..56].copy_from_slice(receiver.as_bytes());
        if bytes[7] & 1 == 1 {
            bytes.extend_from_slice(&self.certificate_of_liar());
        }
        let len = source.below(256) * 4;
        bytes.extend_from_slice(source.take(len));
        bytes.truncate(DATAGRAM_LIMIT - 80);
        bytes.extend_from_slice(&[0; 80]);
        self.sign(&mut bytes, self.nodes[number].id());
        self.datagram(number, address(NODES), &bytes);
    }

    fn certificate_of_liar(&self) -> Vec<u8> {
        use stroll::wire::records::Signed as _;
        let (from_s, until_s) = (WALL_START_S - 86_400, WALL_START_S + 86_400);
        let issued = self.authority.issue(NODES as u64 + 1, self.liar.public(), "liar", from_s, until_s);
        issued.map(|certificate| certificate.encode()).unwrap_or_default()
    }

    fn sign(&self, bytes: &mut [u8], receiver: MemberId) {
        debug_assert!(bytes.len() >= DATAGRAM_MIN);
        gate(bytes);
        let signature = Envelope::open(bytes, self.authority.circle(), receiver, &GATE)
            .map(|envelope| self.liar.sign(&envelope.signed_bytes()));
        if let Ok(signature) = signature {
            let place = bytes.len() - 80;
            bytes[place..place + 64].copy_from_slice(&signature);
            gate(bytes);
        }
    }

    fn wish(&mut self, number: usize, source: &mut Source<'_>) {
        let span = Duration::from_millis(source.number() >> source.below(64));
        let command = match source.below(16) {
            0 | 1 => Command::Work(source.below(2) == 0),
            2 if source.below(2) == 0 => Command::FoundRing { epoch: u32::from(source.byte() % 4) },
            2 => Command::Found,
            3 => Command::Greet { address: address(source.below(8)) },
            4 => Command::Probe,
            5 => Command::Learn { entry: self.nodes[source.below(NODES)].entry() },
            6 => Command::Moved { address: address(source.below(8)) },
            7 => Command::Cool { span, reason: String::new() },
            8 => Command::Slept { asleep: span, fresh_secret: [source.byte(); 32] },
            9 => Command::Stalled,
            10 => Command::WallClock { offset_ms: source.number().cast_signed() >> source.below(64) },
            11 => {
                let mut next = self.charter();
                next.version = u32::from(source.byte());
                if let Mode::Tickets(ring) = &mut next.mode {
                    ring.epoch = u32::from(source.byte() % 4);
                }
                next.slot = span;
                next.skip = Duration::from_millis(source.number() >> source.below(64));
                next.capacity = u32::try_from(source.number() >> 32).unwrap_or(0) >> source.below(32);
                next.scouts = source.byte();
                Command::Charter { charter: self.authority.sign_charter(next) }
            }
            12 => {
                self.bans += 1;
                let serials = vec![u64::from(source.byte() % 8)];
                let Ok(bans) = self.authority.sign_bans(self.bans, serials) else { return };
                Command::Bans { bans }
            }
            13 => {
                let node = self.node(number);
                self.nodes[number] = node; // it crashed
                return;
            }
            14 => Command::SlotStopped,
            _ => Command::Leave,
        };
        self.command(number, command);
    }

    fn command(&mut self, number: usize, command: Command) {
        self.feed(number, Input::Command(command));
    }

    fn datagram(&mut self, number: usize, from: SocketAddr, bytes: &[u8]) {
        self.feed(number, Input::Datagram { bytes, from });
    }

    fn feed(&mut self, number: usize, input: Input<'_>) {
        let node = &mut self.nodes[number];
        node.handle(input, self.now);
        let mut count = 0;
        while let Some(output) = node.poll_output() {
            count += 1;
            assert!(count < OUTPUTS_LIMIT, "no end of it: {output:?}");
            match output {
                Output::Datagram { to, bytes } => {
                    assert!((DATAGRAM_MIN..=DATAGRAM_LIMIT).contains(&bytes.len()));
                    if let Some(to) = (0..NODES).find(|other| address(*other) == to) {
                        self.sent.push((to, address(number), bytes));
                    }
                }
                Output::Event(Event::StopSlot) => self.stops.push(number),
                Output::Event(_) => {}
            }
        }
        let status = node.status(self.now);
        assert!(status.members.len() <= directory::Config::default().view);
        let _ = node.next_deadline();
    }
}
