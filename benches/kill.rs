//! How soon the next slot starts after the holder of the token was killed: a circle of ten processes on loopback, slots of one
//! second, `SIGKILL` as soon as a slot is seen, which is when it takes longest. Who was killed comes back before the next.
//!
//! `cargo bench --bench kill` kills twelve times, or `KILLS` times, and takes a good minute. Times are from the kill to
//! the first slot that any other member's log tells of. The goal is the slot + 2 s.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot run says so and ends")]

#[path = "../tests/common/lab.rs"]
mod lab;

use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use lab::{Lab, all_are_served, circle};

const MEMBERS: usize = 10;
const KILLS: usize = 12;
const CONSTANTS: &[&str] = &["--slot", "1s", "--skip", "50ms", "--capacity", "10"];
const SLOT_S: f64 = 1.0;
const GOAL_S: f64 = SLOT_S + 2.0;

/// How long to wait for the next slot before the circle counts as dead.
const PATIENCE: Duration = Duration::from_secs(120);

fn main() {
    let kills = std::env::var("KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(KILLS);
    println!("{MEMBERS} members, slots of {SLOT_S} s; the holder is killed {kills} times");
    let folder = tempfile::tempdir().unwrap();
    let mut labs = circle(folder.path(), MEMBERS, CONSTANTS);
    all_are_served(&labs, 1);
    let mut waits: Vec<f64> = (0..kills).map(|_| kill_and_wait(&mut labs)).collect();
    waits.sort_by(f64::total_cmp);
    let within = waits.iter().filter(|wait| **wait <= GOAL_S).count();
    let at = |percent: usize| waits.get((waits.len() * percent / 100).min(waits.len() - 1)).unwrap();
    println!("until the next slot in s: p50 {:.2}, longest {:.2}; goal {GOAL_S:.2}", at(50), at(100));
    println!("{within} of {kills} within the goal");
}

/// Kills who pulls, and brings it back once others go on; gives the time in between.
fn kill_and_wait(labs: &mut [Lab]) -> f64 {
    let holder = holder(labs);
    let killed_at = Timestamp::now();
    labs[holder].kill();
    let others = || labs.iter().enumerate().filter(|(place, _)| *place != holder).map(|(_, lab)| lab);
    let started = Instant::now();
    let next = loop {
        if let Some(began) = others().filter_map(|lab| first_slot_after(lab, killed_at)).min() {
            break began;
        }
        assert!(started.elapsed() < PATIENCE, "nobody goes on");
        thread::sleep(Duration::from_millis(50));
    };
    let slots = labs[holder].slots_in_log();
    labs[holder].run();
    labs[holder].wait_until("is served again", |lab| lab.slots_in_log() > slots);
    (next - killed_at).total(jiff::Unit::Second).unwrap()
}

/// Who pulls now.
fn holder(labs: &[Lab]) -> usize {
    let started = Instant::now();
    loop {
        let pulls = |lab: &Lab| lab.glance().is_some_and(|status| status["state"] == "run");
        if let Some(place) = labs.iter().position(pulls) {
            return place;
        }
        assert!(started.elapsed() < PATIENCE, "nobody pulls");
    }
}

/// When the log's first slot after this moment began.
fn first_slot_after(lab: &Lab, moment: Timestamp) -> Option<Timestamp> {
    let log = lab.log_text();
    let began = log.lines().rev().filter(|line| line.contains("slot began"));
    let times = began.filter_map(|line| line.split(' ').next()?.parse::<Timestamp>().ok());
    times.take_while(|time| *time > moment).last()
}
