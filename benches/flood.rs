//! What a flood of junk does to a member: real processes on loopback, one of them under fire.
//!
//! `cargo bench --bench flood` runs a circle of three `stroll` processes with short slots. Quiet times, random bytes and
//! datagrams with everything right but the gate take turns, several rounds of each, so that whatever else the machine does
//! hits all alike. Printed for each: the achieved rate, the member's mean return time and its ratio to the quiet one,
//! answers (there must be none), and the member's resident memory and processor time.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot run says so and ends")]

#[path = "../tests/common/lab.rs"]
mod lab;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use stroll::base::{MemberId, Rng};
use stroll::trust::{Home, PrivateKey, Suite};
use stroll::wire::{Body, Datagram, Header, Kind, pad_to};

use lab::{Lab, circle};

const RATE: u32 = 50_000;
const ROUNDS: usize = 6;
const PHASE: Duration = Duration::from_secs(10);
/// Between two phases: a slot that began in one is not counted in the next.
const PAUSE: Duration = Duration::from_secs(1);
const CONSTANTS: &[&str] = &["--slot", "200ms", "--skip", "20ms", "--capacity", "3"];
const KINDS: [&str; 3] = ["quiet", "random bytes", "wrong gate"];

fn main() {
    match std::env::var("STROLL_BENCH_TARGET") {
        Ok(target) => {
            let junk = fs::read(std::env::var("STROLL_BENCH_JUNK").unwrap()).unwrap();
            flood(target.parse().unwrap(), &junk);
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
}

fn measure() {
    let folder = tempfile::tempdir().unwrap();
    let labs = circle(folder.path(), 3, CONSTANTS);
    let target = &labs[0];
    target.wait_until("is at home", |lab| lab.slots_in_log() > 20);
    let files: Vec<_> = KINDS.iter().map(|kind| folder.path().join(kind)).collect();
    fs::write(&files[1], random_junk()).unwrap();
    fs::write(&files[2], gated_junk(target)).unwrap();
    let mut sums: [Sum; 3] = Default::default();
    for _ in 0..ROUNDS {
        for (kind, sum) in sums.iter_mut().enumerate() {
            let (slots, cpu) = (target.slots_in_log(), cpu_seconds(target.pid()));
            if kind == 0 {
                std::thread::sleep(PHASE);
            } else {
                let (sent, answers) = shoot(target.local, &files[kind]);
                sum.sent += sent;
                sum.answers += answers;
            }
            sum.cpu += cpu_seconds(target.pid()) - cpu;
            sum.resident_kib = sum.resident_kib.max(resident_kib(target.pid()));
            sum.returns.extend(return_times(target, slots));
            std::thread::sleep(PAUSE);
        }
    }
    report(&sums);
}

fn report(sums: &[Sum; 3]) {
    let mean = |sum: &Sum| sum.returns.iter().sum::<f64>() / sum.returns.len() as f64;
    let seconds = PHASE.as_secs_f64() * ROUNDS as f64;
    println!("one of three members under fire; {ROUNDS} rounds of {} s each", PHASE.as_secs());
    println!(
        "{:14} {:>11} {:>8} {:>12} {:>7} {:>8} {:>11} {:>7}",
        "", "datagrams/s", "returns", "mean return", "ratio", "answers", "memory KiB", "core %"
    );
    for (kind, sum) in KINDS.iter().zip(sums) {
        println!(
            "{kind:14} {:>11.0} {:>8} {:>9.1} ms {:>7.3} {:>8} {:>11} {:>7.1}",
            sum.sent as f64 / seconds,
            sum.returns.len(),
            mean(sum) * 1e3,
            mean(sum) / mean(&sums[0]),
            sum.answers,
            sum.resident_kib,
            100.0 * sum.cpu / seconds,
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
    let header = Header::bare(Kind::Scout, credentials.roll.circle(), stranger.member_id(), member);
    let body = Body::Scout { hearsay: [None; 2], charter_version: 1, bans_version: 0, entries: Vec::new() };
    let datagram = pad_to(Datagram { header, body, certificate: None, padding: 0 }, 1_100);
    datagram.encode(&[0; 32], |bytes| stranger.sign(bytes)).unwrap()
}

/// Lets another process flood the target for one phase; gives datagrams sent and answers that came.
fn shoot(target: SocketAddr, junk: &std::path::Path) -> (u64, u64) {
    let mut process = Command::new(std::env::current_exe().unwrap());
    process.env("STROLL_BENCH_TARGET", target.to_string()).env("STROLL_BENCH_JUNK", junk);
    let mut child = process.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    child.wait().unwrap();
    let mut words = line.split_whitespace().map(|word| word.parse().unwrap());
    (words.next().unwrap(), words.next().unwrap())
}

/// The flooding process: as many as are due by now, then a short rest.
fn flood(target: SocketAddr, junk: &[u8]) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    let (mut sent, mut answers, mut buffer) = (0_u32, 0_u32, [0; 2048]);
    let started = Instant::now();
    while started.elapsed() < PHASE {
        let due = started.elapsed().as_secs_f64() * f64::from(RATE);
        while f64::from(sent) < due {
            // What the kernel does not take was not sent, and is not counted.
            if socket.send_to(junk, target).is_err() {
                break;
            }
            sent += 1;
        }
        answers += u32::from(socket.recv(&mut buffer).is_ok());
        std::thread::sleep(Duration::from_micros(500));
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
