//! Twelve members with four tickets around vsftpd with `max_clients=4`: whether it ever refuses anybody, how well the tickets
//! are used, and how long members wait. Every three minutes two that pull are killed at once, and come back ten
//! seconds later. That is half of the ring, more than one of four seats bears for sure: where nobody pulls any more, the
//! authority founds another one after a while, and that is told.
//!
//! `cargo bench --bench tickets` takes ten minutes, or `SPAN_S` seconds; `tests/servers` brings vsftpd. Sessions are those
//! of the kernel's table, looked at every 10 ms; waits are between two slots in one life of a member, by its log.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot run says so and ends")]

#[path = "../tests/common/crowd.rs"]
mod crowd;
#[path = "../tests/common/ftpd.rs"]
mod ftpd;
#[path = "../tests/common/lab.rs"]
mod lab;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crowd::{Crowd, FAULTS, MEMBERS, TICKETS};
use lab::Lab;

const SPAN: Duration = Duration::from_secs(600);
const LOOK_EVERY: Duration = Duration::from_millis(10);
const KILL_EVERY: Duration = Duration::from_secs(180);
const AWAY: Duration = Duration::from_secs(10);
/// When nobody has pulled for so long, nobody will.
const STANDSTILL: Duration = Duration::from_secs(45);

/// More sessions than there can be.
const MOST: usize = 2 * TICKETS as usize;

fn main() {
    let span =
        std::env::var("SPAN_S").ok().and_then(|text| text.parse().ok()).map_or(SPAN, Duration::from_secs);
    println!("{MEMBERS} members, {TICKETS} tickets, {FAULTS} killed at once; slots of 2 s");
    let mut crowd = Crowd::new();
    crowd.all_are_served(1);
    let (port, is_over) = (crowd.server.port, AtomicBool::new(false));
    let (looks, kills, rings) = thread::scope(|scope| {
        let looking = scope.spawn(|| look(port, &is_over));
        let (kills, rings) = disturb(&mut crowd, span);
        is_over.store(true, Ordering::Relaxed);
        (looking.join().unwrap(), kills, rings)
    });
    let all: usize = looks.iter().sum();
    println!(
        "{kills} times {FAULTS} killed; refusals: {}; rings founded anew: {rings}",
        crowd.refusals().len()
    );
    for (sessions, count) in looks.iter().enumerate().filter(|(_, count)| **count > 0) {
        println!("{sessions} sessions for {:5.1} % of the time", 100.0 * *count as f64 / all as f64);
    }
    println!("pulls per member {:?}", crowd.pulls());
    let mut waits: Vec<f64> = crowd.labs.iter().flat_map(waits).collect();
    waits.sort_by(f64::total_cmp);
    let at = |percent: usize| waits.get((waits.len() * percent / 100).min(waits.len() - 1)).unwrap();
    println!("waits in s: p50 {:.1}, p90 {:.1}, p99 {:.1}, longest {:.1}", at(50), at(90), at(99), at(100));
}

/// Kills and restarts for so long; gives how often, and how many rings had to be founded. Everybody is served in the end.
fn disturb(crowd: &mut Crowd, span: Duration) -> (usize, usize) {
    let end = Instant::now() + span;
    let (mut kills, mut rings) = (0, 0);
    while Instant::now() + KILL_EVERY < end {
        let next = Instant::now() + KILL_EVERY;
        let killed = crowd.kill_some(FAULTS);
        kills += 1;
        thread::sleep(AWAY);
        for member in killed {
            crowd.run(member);
        }
        rings += mind(crowd, next);
    }
    rings += mind(crowd, end);
    crowd.all_are_served(1);
    (kills, rings)
}

/// The authority looks after the ring until then; gives how many others it had to found.
fn mind(crowd: &Crowd, until: Instant) -> usize {
    let count = || crowd.pulls().iter().sum::<usize>();
    let (mut pulls, mut since, mut rings) = (count(), Instant::now(), 0);
    while Instant::now() < until {
        thread::sleep(Duration::from_secs(1));
        let now = count();
        if now != pulls {
            (pulls, since) = (now, Instant::now());
        } else if since.elapsed() > STANDSTILL {
            crowd.labs[0].succeeds(&["circle", "amend", "--new-ring"]);
            (since, rings) = (Instant::now(), rings + 1);
        }
    }
    rings
}

/// How many looks saw how many sessions at the server.
fn look(port: u16, is_over: &AtomicBool) -> [usize; MOST + 1] {
    let mut looks = [0; MOST + 1];
    while !is_over.load(Ordering::Relaxed) {
        looks[sessions(port).min(MOST)] += 1;
        thread::sleep(LOOK_EVERY);
    }
    looks
}

/// Connections at this port of 127.0.0.1 that are established, by their other ends: a table that changes while it is read
/// may have one of them twice.
fn sessions(port: u16) -> usize {
    let (table, local) = (std::fs::read_to_string("/proc/net/tcp").unwrap(), format!("0100007F:{port:04X}"));
    let session = |line: &str| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [_, here, there, "01", ..] if here == local => Some(there.to_owned()),
        _ => None,
    };
    table.lines().filter_map(session).collect::<BTreeSet<_>>().len()
}

/// From each end of a slot to the next begin, in seconds.
fn waits(lab: &Lab) -> Vec<f64> {
    let (mut waits, mut ended) = (Vec::new(), None);
    for line in lab.log_text().lines() {
        let at = || line.split(' ').next()?.parse::<Timestamp>().ok();
        if line.contains("slot ended") {
            ended = at();
        } else if line.contains("slot began") {
            waits.extend(
                ended.take().and_then(|ended| Some((at()? - ended).total(jiff::Unit::Second).unwrap())),
            );
        }
    }
    waits
}
