//! How long a handoff takes on loopback, between two processes: from sending the Move to accepting the Commit.
//!
//! `cargo bench --bench handoff` prints it beside the least that it could take: three datagrams of the same lengths between
//! the same two processes (one and a half round trips), with the same signatures made and checked on the way (those of
//! Ack and Commit are made and all three are checked; the Move's own is made before it is sent), and nothing else. That is
//! measured as a whole, the *bare exchange*; and as the sum of its parts, a plain ping-pong and the signatures by
//! themselves. The sum is less, as whoever waits for tens of microseconds wakes up more slowly than in a ping-pong.
//!
//! Between two handoffs there is one of each, so that whatever else the machine does hits all of them alike.
//!
//! Last, without network and rests: what two nodes do from the Move to the Commit, back to back, beside its signatures
//! alone. What a handoff takes beyond that is the waking up of processes that have slept.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot run says so and ends")]

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Command as Process, Stdio};
use std::time::{Duration, Instant};

use stroll::base::Time;
use stroll::driver::BootClock;
use stroll::node::{Command, Config, Event, Identity, Input, Node, Output};
use stroll::proto::{directory, handoff};
use stroll::trust::{self, Authority, GateKey, PrivateKey, Roll, Suite};
use stroll::wire::Kind;
use stroll::wire::records::{Charter, Entry, Mode, RuleSet};

const PASSES: usize = 220;
/// The first are not counted.
const WARM_UP: usize = 20;
/// Before each sample of anything: caches and cores have cooled down, as they have before a handoff.
const REST: Duration = Duration::from_millis(80);
/// Move, Ack and Commit between two members that know each other.
const LENGTHS: [usize; 3] = [1_100, 447, 205];
const SIGNATURE_LEN: usize = 64;
/// Handoffs and signatures that follow each other without a rest.
const BACK_TO_BACK: usize = 2_000;

fn main() {
    match std::env::var("STROLL_BENCH_ROLE").as_deref() {
        Ok("member") => {
            let other = std::env::var("STROLL_BENCH_OTHER").unwrap().parse().unwrap();
            let (echo, bare) = (local_socket(), local_socket());
            println!("{}\n{}", echo.local_addr().unwrap(), bare.local_addr().unwrap());
            std::thread::spawn(move || reflect(&echo));
            std::thread::spawn(move || Signer::new().take_all(&bare));
            Member::new(2, 1, other).run(|line| println!("{HANDOFF} {line}"));
        }
        _ => measure(),
    }
}

/// What the other process tells of.
const HANDOFF: &str = "handoff";
const BARE: &str = "bare";

fn measure() {
    let Samples { handoffs, bare, pings, signatures } = samples();
    let sums = pings.iter().zip(&signatures).map(|(ping, signature)| 1.5 * ping + signature).collect();
    println!("loopback, two processes, {} handoffs; microseconds", handoffs.len());
    println!("{:42} {:>8} {:>8} {:>8}", "", "p50", "p90", "p99");
    let print = |name: &str, values: [f64; 3]| {
        println!("{name:42} {:>8.0} {:>8.0} {:>8.0}", values[0], values[1], values[2]);
    };
    print("UDP round trip of 1,100 bytes", quantiles(pings));
    print("two signatures, three checks", quantiles(signatures));
    let (sum, bare, handoff) = (quantiles(sums), quantiles(bare), quantiles(handoffs));
    print("sum: 1.5 round trips + signatures", sum);
    print("bare exchange: both as one", bare);
    print("handoff: Move sent to Commit accepted", handoff);
    for (name, limit) in [("handoff to bare exchange", bare), ("handoff to sum", sum)] {
        let ratio: Vec<f64> = handoff.iter().zip(limit).map(|(handoff, limit)| handoff / limit).collect();
        println!("{name:42} {:>8.2} {:>8.2} {:>8.2}", ratio[0], ratio[1], ratio[2]);
    }
    let (mut pair, signer) = (Pair::new(), Signer::new());
    let (nodes, signatures) = (0..BACK_TO_BACK).map(|_| (pair.pass(), signer.sign_and_check())).unzip();
    print("two nodes, back to back", quantiles(nodes));
    print("two signatures, three checks, likewise", quantiles(signatures));
}

fn child(role: &str) -> Process {
    let mut process = Process::new(std::env::current_exe().unwrap());
    process.env("STROLL_BENCH_ROLE", role).stdout(Stdio::piped()).stdin(Stdio::piped());
    process
}

fn quantiles(mut samples: Vec<f64>) -> [f64; 3] {
    samples.sort_by(f64::total_cmp);
    [50, 90, 99].map(|percent| samples.get(samples.len() * percent / 100).copied().unwrap_or(f64::NAN))
}

fn local_socket() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").unwrap()
}

fn reflect(socket: &UdpSocket) {
    let mut buffer = [0; 2048];
    while let Ok((len, from)) = socket.recv_from(&mut buffer) {
        socket.send_to(&buffer[..len], from).unwrap();
    }
}

/// Makes and checks signatures, and does nothing else with a datagram.
struct Signer {
    key: PrivateKey,
    public: [u8; 32],
    clock: BootClock,
}

impl Signer {
    fn new() -> Self {
        let key = PrivateKey::from_seed(Suite::Ed25519, [1; 32]);
        Self { public: key.public(), key, clock: BootClock::new() }
    }

    fn now(&self) -> i64 {
        self.clock.now().as_nanos()
    }

    /// A datagram that begins with a number and ends with a signature.
    fn write(&self, number: i64, len: usize) -> Vec<u8> {
        let mut bytes = number.to_be_bytes().to_vec();
        bytes.resize(len - SIGNATURE_LEN, 7);
        bytes.extend(self.key.sign(&bytes));
        bytes
    }

    fn check(&self, bytes: &[u8]) {
        let (signed, signature) = bytes.split_last_chunk::<SIGNATURE_LEN>().unwrap();
        assert!(trust::verify(Suite::Ed25519, &self.public, signed, signature));
    }

    fn hear(&self, socket: &UdpSocket, buffer: &mut [u8; 2048]) -> (i64, SocketAddr) {
        let (len, from) = socket.recv_from(buffer).unwrap();
        self.check(&buffer[..len]);
        (i64::from_be_bytes(*buffer.first_chunk().unwrap()), from)
    }

    /// All of a handoff, in microseconds.
    fn sign_and_check(&self) -> f64 {
        let [move_, ack, commit] = LENGTHS.map(|len| self.write(0, len));
        let began = Instant::now();
        self.check(&move_);
        std::hint::black_box(self.write(0, LENGTHS[1]));
        self.check(&ack);
        std::hint::black_box(self.write(0, LENGTHS[2]));
        self.check(&commit);
        began.elapsed().as_secs_f64() * 1e6
    }

    /// The taker's half of bare exchanges: when which one was over is told.
    fn take_all(&self, socket: &UdpSocket) {
        let mut buffer = [0; 2048];
        loop {
            let (number, from) = self.hear(socket, &mut buffer);
            socket.send_to(&self.write(number, LENGTHS[1]), from).unwrap();
            self.hear(socket, &mut buffer);
            let now = self.now();
            println!("{BARE} {number} {now}");
        }
    }

    /// The giver's half; gives when it began.
    fn give(&self, number: i64, socket: &UdpSocket, to: SocketAddr) -> i64 {
        let (first, mut buffer) = (self.write(number, LENGTHS[0]), [0; 2048]);
        std::thread::sleep(REST);
        let began = self.now();
        socket.send_to(&first, to).unwrap();
        self.hear(socket, &mut buffer);
        socket.send_to(&self.write(number, LENGTHS[2]), to).unwrap();
        began
    }
}

/// In microseconds.
struct Samples {
    handoffs: Vec<f64>,
    bare: Vec<f64>,
    pings: Vec<f64>,
    signatures: Vec<f64>,
}

/// What is measured between two handoffs.
struct Yardstick {
    socket: UdpSocket,
    echo: SocketAddr,
    bare: SocketAddr,
    signer: Signer,
    pings: Vec<f64>,
    signatures: Vec<f64>,
    /// When the bare exchanges began.
    began: Vec<i64>,
}

impl Yardstick {
    fn new(echo: SocketAddr, bare: SocketAddr) -> Self {
        Self {
            socket: local_socket(),
            echo,
            bare,
            signer: Signer::new(),
            pings: Vec::new(),
            signatures: Vec::new(),
            began: Vec::new(),
        }
    }

    fn measure(&mut self) {
        self.ping();
        self.sign();
        let number = i64::try_from(self.began.len()).unwrap();
        self.began.push(self.signer.give(number, &self.socket, self.bare));
    }

    fn ping(&mut self) {
        let mut buffer = [0; LENGTHS[0]];
        std::thread::sleep(REST);
        let started = Instant::now();
        self.socket.send_to(&buffer, self.echo).unwrap();
        self.socket.recv_from(&mut buffer).unwrap();
        self.pings.push(started.elapsed().as_secs_f64() * 1e6);
    }

    /// What the taker does (check the Move, sign the Ack, check the Commit), and after a rest what the giver does (check
    /// the Ack, sign the Commit): each begins as cold as it does there.
    fn sign(&mut self) {
        let [move_, ack, commit] = LENGTHS.map(|len| self.signer.write(0, len));
        let mut sum = Duration::ZERO;
        for (checked, signed, checked_after) in [(move_, 1, Some(commit)), (ack, 2, None)] {
            std::thread::sleep(REST);
            let started = Instant::now();
            self.signer.check(&checked);
            std::hint::black_box(self.signer.write(0, LENGTHS[signed]));
            if let Some(bytes) = checked_after {
                self.signer.check(&bytes);
            }
            sum += started.elapsed();
        }
        self.signatures.push(sum.as_secs_f64() * 1e6);
    }
}

fn samples() -> Samples {
    let socket = local_socket();
    let here = socket.local_addr().unwrap();
    let mut other = child("member").env("STROLL_BENCH_OTHER", here.to_string()).spawn().unwrap();
    let mut lines = BufReader::new(other.stdout.take().unwrap()).lines();
    let mut address = || -> SocketAddr { lines.next().unwrap().unwrap().parse().unwrap() };
    let (echo, bare, there) = (address(), address(), address());
    // The other process tells what it took when; both read one clock.
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            let [what, number, at] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
            tell.send((what == HANDOFF, number.parse().unwrap(), at.parse().unwrap())).unwrap();
        }
    });
    let mut member = Member::on(socket, 1, 2, there);
    member.yardstick = Some(Yardstick::new(echo, bare));
    let (moves, yardstick) = member.run(|_| {});
    other.kill().unwrap();
    other.wait().unwrap();
    let Yardstick { pings, signatures, began, .. } = yardstick.unwrap();
    let told: Vec<(bool, i64, i64)> = told.try_iter().collect();
    let taken = |is_handoff: bool| told.iter().filter(move |(what, ..)| *what == is_handoff);
    let micros = |from: i64, to: i64| (to - from) as f64 / 1e3;
    let handoffs = taken(true).filter_map(|(_, number, at)| Some(micros(*moves.get(number)?, *at)));
    let bare = taken(false).map(|(_, number, at)| micros(began[usize::try_from(*number).unwrap()], *at));
    Samples {
        handoffs: handoffs.skip(WARM_UP).collect(),
        bare: bare.skip(WARM_UP).collect(),
        pings: pings[WARM_UP..].to_vec(),
        signatures: signatures[WARM_UP..].to_vec(),
    }
}

/// A node on a blocking socket: no runtime in between, so that only the protocol is measured.
struct Member {
    node: Node,
    socket: UdpSocket,
    clock: BootClock,
    /// The founder's.
    yardstick: Option<Yardstick>,
    /// When the Move of which session was sent.
    moves: BTreeMap<i64, i64>,
}

impl Member {
    fn new(me: u8, other: u8, address: SocketAddr) -> Self {
        let socket = local_socket();
        println!("{}", socket.local_addr().unwrap());
        std::io::stdout().flush().unwrap();
        Self::on(socket, me, other, address)
    }

    fn on(socket: UdpSocket, me: u8, other: u8, address: SocketAddr) -> Self {
        let clock = BootClock::new();
        let here = socket.local_addr().unwrap();
        let node = node((me, here), (other, address), clock.now(), clock.wall_offset_ms());
        Self { node, socket, clock, yardstick: None, moves: BTreeMap::new() }
    }

    /// Hands the token to and fro; gives when which Move left.
    fn run(mut self, mut report: impl FnMut(String)) -> (BTreeMap<i64, i64>, Option<Yardstick>) {
        self.drain(&mut report);
        if self.yardstick.is_some() {
            let now = self.clock.now();
            self.node.handle(Input::Command(Command::Found), now);
            self.drain(&mut report);
        }
        let mut buffer = [0; 2048];
        let mut is_measured = false;
        while self.moves.len() < PASSES {
            // While the token rests here: what a handoff is measured by, each after a rest as well.
            let is_here = self.node.token().is_some();
            if is_here && !is_measured {
                self.measure_between(&mut buffer, &mut report);
            }
            is_measured = is_here;
            self.listen(self.node.next_deadline().since(self.clock.now()), &mut buffer, &mut report);
        }
        (self.moves, self.yardstick)
    }

    fn measure_between(&mut self, buffer: &mut [u8], report: &mut impl FnMut(String)) {
        // First the answers to the scouts; they come at once.
        self.listen(Duration::from_millis(5), buffer, report);
        if let Some(yardstick) = &mut self.yardstick {
            yardstick.measure();
        }
    }

    /// Until something comes, or for so long.
    fn listen(&mut self, wait: Duration, buffer: &mut [u8], report: &mut impl FnMut(String)) {
        self.socket.set_read_timeout(Some(wait.max(Duration::from_micros(1)))).unwrap();
        let received = self.socket.recv_from(buffer);
        let now = self.clock.now();
        match received {
            Ok((len, from)) => self.node.handle(Input::Datagram { bytes: &buffer[..len], from }, now),
            Err(_) => self.node.handle(Input::Wake, now),
        }
        self.drain(report);
    }

    fn drain(&mut self, report: &mut impl FnMut(String)) {
        // What has happened has happened when the node says so; a line on the way out is not part of it.
        let mut arrived = None;
        while let Some(output) = self.node.poll_output() {
            let now: Time = self.clock.now();
            match output {
                Output::Datagram { to, bytes } => {
                    if bytes[5] == Kind::Move as u8 {
                        let session = i64::from_be_bytes(bytes[88..96].try_into().unwrap());
                        self.moves.entry(session).or_insert(now.as_nanos());
                    }
                    self.socket.send_to(&bytes, to).unwrap();
                }
                Output::Event(Event::Handoff(handoff::Event::Arrived { session, .. })) => {
                    arrived = Some(format!("{} {}", session.0, now.as_nanos()));
                }
                Output::Event(_) => {}
            }
        }
        arrived.into_iter().for_each(report);
    }
}

/// A member that knows another one.
fn node(
    (me, here): (u8, SocketAddr),
    (other, there): (u8, SocketAddr),
    now: Time,
    wall_offset_ms: i64,
) -> Node {
    let config = Config {
        address: here,
        sequence: 1,
        boot_secret: [me; 32],
        wall_offset_ms,
        seed: me.into(),
        directory: directory::Config::default(),
    };
    let mut node = Node::new(identity(me), config, now).unwrap();
    let key = PrivateKey::from_seed(Suite::Ed25519, [other; 32]);
    let record = trust::sign_address(&key, node.roll().circle(), 1, there);
    let entry = Entry { record, certificate: identity(other).certificate };
    node.handle(Input::Command(Command::Learn { entry }), now);
    node
}

/// Two nodes on virtual time that hand a token to and fro.
struct Pair {
    nodes: [Node; 2],
    addresses: [SocketAddr; 2],
    flight: VecDeque<(usize, Vec<u8>)>,
    now: Time,
    has_arrived: bool,
}

impl Pair {
    fn new() -> Self {
        let addresses = [1, 2].map(|host| SocketAddr::from(([127, 0, 0, host], 7433)));
        let [a, b] = [(1, addresses[0]), (2, addresses[1])];
        let wall_offset_ms = 1_700_000_000_000;
        let nodes = [node(a, b, Time::ZERO, wall_offset_ms), node(b, a, Time::ZERO, wall_offset_ms)];
        let mut pair =
            Self { nodes, addresses, flight: VecDeque::new(), now: Time::ZERO, has_arrived: false };
        for number in [0, 1] {
            pair.drain(number);
        }
        pair.nodes[0].handle(Input::Command(Command::Found), pair.now);
        pair.drain(0);
        pair
    }

    /// Until the token has arrived at the other one: how long they took to answer, in microseconds.
    fn pass(&mut self) -> f64 {
        let mut sum = Duration::ZERO;
        self.has_arrived = false;
        while !self.has_arrived {
            let began = Instant::now();
            let number = if let Some((to, bytes)) = self.flight.pop_front() {
                self.nodes[to]
                    .handle(Input::Datagram { bytes: &bytes, from: self.addresses[1 - to] }, self.now);
                to
            } else {
                let first = usize::from(self.nodes[1].next_deadline() < self.nodes[0].next_deadline());
                self.now = self.now.max(self.nodes[first].next_deadline());
                self.nodes[first].handle(Input::Wake, self.now);
                first
            };
            sum += self.drain(number).map_or(Duration::ZERO, |at| at - began);
        }
        sum.as_secs_f64() * 1e6
    }

    /// When the other one could go on with the handoff.
    fn drain(&mut self, number: usize) -> Option<Instant> {
        let mut answered = None;
        while let Some(output) = self.nodes[number].poll_output() {
            match output {
                Output::Datagram { bytes, .. } => {
                    if bytes[5] == Kind::Ack as u8 || bytes[5] == Kind::Commit as u8 {
                        answered = Some(Instant::now());
                    }
                    self.flight.push_back((1 - number, bytes));
                }
                Output::Event(Event::Handoff(handoff::Event::Arrived { .. })) => {
                    answered = Some(Instant::now());
                    self.has_arrived = true;
                }
                Output::Event(_) => {}
            }
        }
        answered
    }
}

/// Both processes make the same circle from the same seeds.
fn identity(member: u8) -> Identity {
    let authority = Authority::new(PrivateKey::from_seed(Suite::Ed25519, [9; 32]));
    let charter = authority.sign_charter(Charter {
        circle: authority.circle(),
        version: 1,
        issued_s: 1,
        name: "bench".to_owned(),
        source: "http://127.0.0.1/".to_owned(),
        aliases: Vec::new(),
        slot: Duration::from_secs(1),
        // A member answers a few questions a second to each source, and no more.
        skip: Duration::from_millis(400),
        capacity: 2,
        bandwidth: 0,
        rules: RuleSet::Guarded,
        scouts: 1,
        retention: Duration::ZERO,
        mode: Mode::Token,
        signature: [0; 64],
    });
    let key = PrivateKey::from_seed(Suite::Ed25519, [member; 32]);
    let certificate = authority.issue(member.into(), key.public(), "bench", 1, 9_000_000_000).unwrap();
    let roll = Roll::new(Suite::Ed25519, authority.public(), charter, None).unwrap();
    Identity { key, certificate, roll, gate: GateKey::from_bytes([3; 32]) }
}
