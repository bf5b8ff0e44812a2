//! What a flood of junk does to a member: real processes on loopback, one of them under fire.
//!
//! `cargo bench --bench flood` runs a circle of three `stroll` processes with short slots. Quiet times, random bytes,
//! datagrams with everything right but the gate, and Moves with everything right but the signature take turns, six rounds
//! of each, or `ROUNDS`, so that whatever else the machine does hits all alike. The Moves come from one port, and from so
//! many that no source's own budget holds them back. Printed for each: the achieved rate, the member's mean return time
//! and its ratio to the quiet one, answers (there must be none), the member's resident memory and processor time, and how
//! many signatures were found wrong. The goals: return time +5 % at most under junk, and +25 % under Moves, with 20 % of a
//! core more.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot run says so and ends")]

#[path = "../tests/common/lab.rs"]
mod lab;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use stroll::base::{MemberId, Rng, Session, TokenId};
use stroll::trust::{Home, PrivateKey, Suite};
use stroll::wire::{self, Body, Datagram, Header, pad_to};

use lab::{Lab, circle};

const ROUNDS: u32 = 6;
const PHASE: Duration = Duration::from_secs(10);
/// Between two phases: a slot that began in one is not counted in the next.
const PAUSE: Duration = Duration::from_secs(1);
const CONSTANTS: &[&str] = &["--slot", "200ms", "--skip", "20ms", "--capacity", "3"];

/// What is shot, how many a second, from how many ports.
struct Kind {
    name: &'static str,
    rate: u32,
    ports: usize,
}

const KINDS: [Kind; 5] = [
    Kind { name: "quiet", rate: 0, ports: 0 },
    Kind { name: "random bytes", rate: 50_000, ports: 1 },
    Kind { name: "wrong gate", rate: 50_000, ports: 1 },
    Kind { name: "Moves, 1 port", rate: 5_000, ports: 1 },
    Kind { name: "Moves, 250", rate: 5_000, ports: 250 },
];

fn main() {
    match std::env::var("STROLL_BENCH_TARGET") {
        Ok(target) => {
            let junk = fs::read(std::env::var("STROLL_BENCH_JUNK").unwrap()).unwrap();
            let kind: usize = std::env::var("STROLL_BENCH_KIND").unwrap().parse().unwrap();
            flood(target.parse().unwrap(), &junk, &KINDS[kind]);
        }
        Err(_) => measure(),
    }
}

/// What came of all phases of one kind.
#[derive(Default)]
struct Sum {
    returns: Vec<f64>,
    sent: u64,
    answers: u64,
    cpu: f64,
    resident_kib: u64,
    forgeries: u64,
}

fn measure() {
    let folder = tempfile::tempdir().unwrap();
    let labs = circle(folder.path(), 3, CONSTANTS);
    let target = &labs[0];
    target.wait_until("is at home", |lab| lab.slots_in_log() > 20);
    let files: Vec<_> = KINDS.iter().map(|kind| folder.path().join(kind.name)).collect();
    fs::write(&files[1], random_junk()).unwrap();
    fs::write(&files[2], gated_junk(target)).unwrap();
    fs::write(&files[3], forged_move(target, &labs[1])).unwrap();
    fs::copy(&files[3], &files[4]).unwrap();
    let mut sums: [Sum; KINDS.len()] = Default::default();
    let rounds = std::env::var("ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(ROUNDS);
    for _ in 0..rounds {
        for (kind, sum) in sums.iter_mut().enumerate() {
            let (slots, cpu) = (target.slots_in_log(), cpu_seconds(target.pid()));
            let forgeries = forgeries_found(target);
            if kind == 0 {
                std::thread::sleep(PHASE);
            } else {
                let (sent, answers) = shoot(target.local, &files[kind], kind);
                sum.sent += sent;
                sum.answers += answers;
            }
            sum.cpu += cpu_seconds(target.pid()) - cpu;
            sum.forgeries += forgeries_found(target) - forgeries;
            sum.resident_kib = sum.resident_kib.max(resident_kib(target.pid()));
            sum.returns.extend(return_times(target, slots));
            std::thread::sleep(PAUSE);
        }
    }
    report(&sums, rounds);
}

fn report(sums: &[Sum], rounds: u32) {
    let mean = |sum: &Sum| sum.returns.iter().sum::<f64>() / sum.returns.len() as f64;
    let seconds = PHASE.as_secs_f64() * f64::from(rounds);
    println!("one of three members under fire; {rounds} rounds of {} s each", PHASE.as_secs());
    println!(
        "{:14} {:>11} {:>8} {:>12} {:>7} {:>8} {:>11} {:>7} {:>11}",
        "",
        "datagrams/s",
        "returns",
        "mean return",
        "ratio",
        "answers",
        "memory KiB",
        "core %",
        "forgeries/s"
    );
    for (kind, sum) in KINDS.iter().zip(sums) {
        println!(
            "{:14} {:>11.0} {:>8} {:>9.1} ms {:>7.3} {:>8} {:>11} {:>7.1} {:>11.0}",
            kind.name,
            sum.sent as f64 / seconds,
            sum.returns.len(),
            mean(sum) * 1e3,
            mean(sum) / mean(&sums[0]),
            sum.answers,
            sum.resident_kib,
            100.0 * sum.cpu / seconds,
            sum.forgeries as f64 / seconds,
        );
    }
}

/// The times between the beginnings of the slots that the log tells of, after the first `skip` ones.
fn return_times(lab: &Lab, skip: usize) -> Vec<f64> {
    let log = lab.log_text();
    let began: Vec<f64> =
        log.lines().filter(|line| line.contains("slot began")).skip(skip).map(second_of_day).collect();
    began.windows(2).map(|pair| pair[1] - pair[0]).filter(|time| *time > 0.0).collect()
}

/// `2026-01-01T12:34:56.789012Z …`
fn second_of_day(line: &str) -> f64 {
    let time = line.split(['T', 'Z']).nth(1).unwrap();
    time.split(':').fold(0.0, |sum, part| sum * 60.0 + part.parse::<f64>().unwrap())
}

/// As often as a datagram could be damaged: nothing in it is right.
fn random_junk() -> Vec<u8> {
    let mut rng = Rng::seeded(1);
    (0..1_200).map(|_| rng.next_u64().to_be_bytes()[0]).collect()
}

/// Everything in it is right as far as it can be without the gate key.
fn gated_junk(target: &Lab) -> Vec<u8> {
    let credentials = Home::open(target.home.join("virgo")).unwrap().load_credentials().unwrap();
    let stranger = PrivateKey::from_seed(Suite::Ed25519, [1; 32]);
    let member: MemberId = credentials.key.member_id();
    let header = Header::bare(wire::Kind::Scout, credentials.roll.circle(), stranger.member_id(), member);
    let body = Body::Scout {
        record: 0,
        hearsay: [None; 2],
        charter_version: 1,
        bans_version: 0,
        entries: Vec::new(),
    };
    let datagram = pad_to(Datagram { header, body, certificate: None, padding: 0 }, 1_100);
    datagram.encode(&[0; 32], |bytes| stranger.sign(bytes)).unwrap()
}

/// A Move of a token that the target never saw, as if from a member that it knows, by somebody who has the gate key but not
/// that member's: only its signature is wrong.
fn forged_move(target: &Lab, member: &Lab) -> Vec<u8> {
    let credentials = |lab: &Lab| Home::open(lab.home.join("virgo")).unwrap().load_credentials().unwrap();
    let (to, from) = (credentials(target), credentials(member).key.member_id());
    let created_ms = u64::try_from(Timestamp::now().as_millisecond()).unwrap();
    let token = TokenId { created_ms, generator: from, random: 1 };
    let bare = Header::bare(wire::Kind::Move, to.roll.circle(), from, to.key.member_id());
    let header = Header { token, session: Session(1), ..bare };
    let datagram = pad_to(Datagram { header, body: Body::Move, certificate: None, padding: 0 }, 1_100);
    let stranger = PrivateKey::from_seed(Suite::Ed25519, [1; 32]);
    datagram.encode(to.gate.as_bytes(), |bytes| stranger.sign(bytes)).unwrap()
}

/// Datagrams that were dropped for their signature so far.
fn forgeries_found(lab: &Lab) -> u64 {
    lab.glance().and_then(|status| status["rejected"]["signature"].as_u64()).unwrap_or(0)
}

/// Lets another process flood the target for one phase; gives datagrams sent and answers that came.
fn shoot(target: SocketAddr, junk: &std::path::Path, kind: usize) -> (u64, u64) {
    let mut process = Command::new(std::env::current_exe().unwrap());
    process.env("STROLL_BENCH_TARGET", target.to_string()).env("STROLL_BENCH_JUNK", junk);
    process.env("STROLL_BENCH_KIND", kind.to_string());
    let mut child = process.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    child.wait().unwrap();
    let mut words = line.split_whitespace().map(|word| word.parse().unwrap());
    (words.next().unwrap(), words.next().unwrap())
}

/// The flooding process: as many as are due by now, from one port after the other, then a short rest.
fn flood(target: SocketAddr, junk: &[u8], kind: &Kind) {
    let socket = |_| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    };
    let sockets: Vec<UdpSocket> = (0..kind.ports).map(socket).collect();
    let (mut sent, mut answers, mut buffer) = (0_u32, 0_usize, [0; 2048]);
    let started = Instant::now();
    for socket in sockets.iter().cycle() {
        if started.elapsed() >= PHASE {
            break;
        }
        let is_due = f64::from(sent) < started.elapsed().as_secs_f64() * f64::from(kind.rate);
        // What the kernel does not take was not sent, and is not counted.
        if is_due && socket.send_to(junk, target).is_ok() {
            sent += 1;
        } else {
            answers += usize::from(socket.recv(&mut buffer).is_ok());
            std::thread::sleep(Duration::from_micros(500));
        }
    }
    println!("{sent} {answers}");
}

fn cpu_seconds(pid: u32) -> f64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let nanos = |task: fs::DirEntry| -> f64 {
        let text = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0.0)
    };
    tasks.map_while(Result::ok).map(nanos).sum::<f64>() / 1e9
}

fn resident_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
