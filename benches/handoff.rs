//! How long a handoff takes on loopback, between two processes: from sending the Move to accepting the Commit.
//!
//! `cargo bench --bench handoff` prints it beside its limit: one and a half round trips of a bare UDP ping-pong between the
//! same two processes (Move there, Ack back, Commit there), plus the three signatures and three verifications on
//! the way, all measured in the same run.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot run says so and ends")]

use std::collections::BTreeMap;
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
use stroll::wire::records::{Charter, Entry, RuleSet};

const PASSES: usize = 400;
const PINGS: usize = 400;
/// Between two samples of anything: a handoff comes after a rest too, when caches and cores have cooled down.
const REST: Duration = Duration::from_millis(20);
/// As long as a Move, which is padded.
const PING_LEN: usize = 1_100;

fn main() {
    match std::env::var("STROLL_BENCH_ROLE").as_deref() {
        Ok("echo") => echo(),
        Ok("member") => {
            let other = std::env::var("STROLL_BENCH_OTHER").unwrap().parse().unwrap();
            Member::new(2, 1, other).run(|line| println!("{line}"));
        }
        _ => measure(),
    }
}

fn measure() {
    let ping = ping_pong();
    let signatures = signatures();
    let (passes, count) = handoffs();
    let limit = |round_trip: f64| 1.5 * round_trip + signatures;
    println!("loopback, two processes, {count} handoffs; microseconds");
    println!("{:34} {:>9} {:>9}", "", "p50", "p99");
    println!("{:34} {:>9.0} {:>9.0}", "UDP round trip of 1,100 bytes", ping.0, ping.1);
    println!("{:34} {signatures:>9.0}", "three signatures, three checks");
    println!("{:34} {:>9.0} {:>9.0}", "limit: 1.5 round trips + these", limit(ping.0), limit(ping.1));
    println!("{:34} {:>9.0} {:>9.0}", "handoff: Move sent to Commit taken", passes.0, passes.1);
    println!("{:34} {:>9.2} {:>9.2}", "ratio", passes.0 / limit(ping.0), passes.1 / limit(ping.1));
}

fn child(role: &str) -> Process {
    let mut process = Process::new(std::env::current_exe().unwrap());
    process.env("STROLL_BENCH_ROLE", role).stdout(Stdio::piped()).stdin(Stdio::piped());
    process
}

/// Median and 99th percentile.
fn quantiles(mut samples: Vec<f64>) -> (f64, f64) {
    samples.sort_by(f64::total_cmp);
    let at = |percent: usize| samples.get(samples.len() * percent / 100).copied().unwrap_or(f64::NAN);
    (at(50), at(99))
}

fn echo() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    println!("{}", socket.local_addr().unwrap());
    let mut buffer = [0; 2048];
    while let Ok((len, from)) = socket.recv_from(&mut buffer) {
        socket.send_to(&buffer[..len], from).unwrap();
    }
}

fn ping_pong() -> (f64, f64) {
    let mut echo = child("echo").spawn().unwrap();
    let mut line = String::new();
    BufReader::new(echo.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(line.trim()).unwrap();
    let mut buffer = [0; PING_LEN];
    let samples = (0..PINGS).map(|_| {
        std::thread::sleep(REST);
        let started = Instant::now();
        socket.send(&buffer).unwrap();
        socket.recv(&mut buffer).unwrap();
        started.elapsed().as_secs_f64() * 1e6
    });
    let quantiles = quantiles(samples.collect());
    echo.kill().unwrap();
    echo.wait().unwrap();
    quantiles
}

/// What three signatures and three checks cost, in microseconds.
fn signatures() -> f64 {
    let key = PrivateKey::from_seed(Suite::Ed25519, [1; 32]);
    let message = [7; PING_LEN];
    let samples = (0..PINGS).map(|_| {
        std::thread::sleep(REST);
        let started = Instant::now();
        for _ in 0..3 {
            let signature = key.sign(&message);
            assert!(trust::verify(Suite::Ed25519, &key.public(), &message, &signature));
        }
        started.elapsed().as_secs_f64() * 1e6
    });
    quantiles(samples.collect()).0
}

fn handoffs() -> ((f64, f64), usize) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let here = socket.local_addr().unwrap();
    let mut other = child("member").env("STROLL_BENCH_OTHER", here.to_string()).spawn().unwrap();
    let mut lines = BufReader::new(other.stdout.take().unwrap()).lines();
    let there: SocketAddr = lines.next().unwrap().unwrap().parse().unwrap();
    // The other process tells when it accepted which session; both read one clock.
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            let mut words = line.split(' ').map(|word| word.parse::<i64>().unwrap());
            tell.send((words.next().unwrap(), words.next().unwrap())).unwrap();
        }
    });
    let mut member = Member::on(socket, 1, 2, there);
    member.is_founder = true;
    let moves = member.run(|_| {});
    other.kill().unwrap();
    other.wait().unwrap();
    let samples: Vec<f64> = told
        .try_iter()
        .filter_map(|(session, at)| Some((at - moves.get(&session)?) as f64 / 1e3))
        .skip(20)
        .collect();
    let count = samples.len();
    (quantiles(samples), count)
}

/// A node on a blocking socket: no runtime in between, so that only the protocol is measured.
struct Member {
    node: Node,
    socket: UdpSocket,
    clock: BootClock,
    is_founder: bool,
    /// When the Move of which session was sent.
    moves: BTreeMap<i64, i64>,
}

impl Member {
    fn new(me: u8, other: u8, address: SocketAddr) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        println!("{}", socket.local_addr().unwrap());
        std::io::stdout().flush().unwrap();
        Self::on(socket, me, other, address)
    }

    fn on(socket: UdpSocket, me: u8, other: u8, address: SocketAddr) -> Self {
        let clock = BootClock::new();
        let here = socket.local_addr().unwrap();
        let config = Config {
            address: here,
            sequence: 1,
            boot_secret: [me; 32],
            wall_offset_ms: clock.wall_offset_ms(),
            seed: me.into(),
            directory: directory::Config::default(),
        };
        let mut node = Node::new(identity(me), config, clock.now()).unwrap();
        let key = PrivateKey::from_seed(Suite::Ed25519, [other; 32]);
        let record = trust::sign_address(&key, node.roll().circle(), 1, address);
        let entry = Entry { record, certificate: identity(other).certificate };
        node.handle(Input::Command(Command::Learn { entry }), clock.now());
        Self { node, socket, clock, is_founder: false, moves: BTreeMap::new() }
    }

    /// Hands the token to and fro; gives when which Move left.
    fn run(mut self, mut report: impl FnMut(String)) -> BTreeMap<i64, i64> {
        self.drain(&mut report);
        if self.is_founder {
            let now = self.clock.now();
            self.node.handle(Input::Command(Command::Found), now);
            self.drain(&mut report);
        }
        let mut buffer = [0; 2048];
        while self.moves.len() < PASSES {
            let wait = self.node.next_deadline().since(self.clock.now()).max(Duration::from_micros(1));
            self.socket.set_read_timeout(Some(wait)).unwrap();
            let received = self.socket.recv_from(&mut buffer);
            let now = self.clock.now();
            match received {
                Ok((len, from)) => self.node.handle(Input::Datagram { bytes: &buffer[..len], from }, now),
                Err(_) => self.node.handle(Input::Wake, now),
            }
            self.drain(&mut report);
        }
        self.moves
    }

    fn drain(&mut self, report: &mut impl FnMut(String)) {
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
                    report(format!("{} {}", session.0, now.as_nanos()));
                }
                Output::Event(_) => {}
            }
        }
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
        slot: Duration::from_secs(1),
        // A member answers a few questions a second to each source, and no more.
        skip: Duration::from_millis(60),
        capacity: 2,
        bandwidth: 0,
        rules: RuleSet::Guarded,
        scouts: 1,
        signature: [0; 64],
    });
    let key = PrivateKey::from_seed(Suite::Ed25519, [member; 32]);
    let certificate = authority.issue(member.into(), key.public(), "bench", 1, 9_000_000_000).unwrap();
    let roll = Roll::new(Suite::Ed25519, authority.public(), charter, None).unwrap();
    Identity { key, certificate, roll, gate: GateKey::from_bytes([3; 32]) }
}
