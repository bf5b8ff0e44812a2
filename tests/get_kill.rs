//! `stroll get` killed at any instant: whatever is under the file's name is whole and right, and what was made durable is
//! not pulled again. `STROLL_KILLS=1000` for the nightly run.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]
#![allow(clippy::disallowed_methods, reason = "these tests are about real time")]

#[path = "common/desk.rs"]
mod desk;
#[path = "common/ftpd.rs"]
mod ftpd;
#[path = "common/web.rs"]
mod web;

use std::fs::{self, File};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use desk::{Desk, noise};
use ftpd::Ftpd;
use serde_json::Value;
use stroll::base::Rng;
use web::{Kind, Web};

/// What one pull brings, in about half a second.
const SIZE: usize = 3 << 20;
const RATE: &str = "6Mi";

/// Kills in a row before a file is left to be completed.
const ROUND: usize = 12;

/// The longest life of a get that is to be killed.
const LIFE_MS: u64 = 700;

/// A get that is killed after so long; what it had when it began, if it came so far.
fn lives(desk: &Desk, args: &[&str], life: Duration) -> Option<u64> {
    let log = desk.home().join("log");
    let mut command = desk.command(args);
    command.args(["--progress", "json", "--bwlimit", RATE]);
    let mut child = command.stdout(Stdio::null()).stderr(File::create(&log).unwrap()).spawn().unwrap();
    thread::sleep(life);
    child.kill().unwrap();
    child.wait().unwrap();
    let said = fs::read_to_string(log).unwrap();
    let events = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    assert!(!said.contains("restarted"), "{said}");
    events.into_iter().find(|event| event["event"] == "opened")?["have"].as_u64()
}

/// What the kills of one desk came to.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    kills: usize,
    /// A later get found bytes of an earlier one.
    kept: usize,
    /// It was killed when the file was there already.
    late: usize,
}

/// Kills gets of one file at random instants, round after round; looks at the file after every one.
fn kill_many(desk: &Desk, args: &[&str], bytes: &[u8], kills: usize, seed: u64) -> Tally {
    let mut rng = Rng::seeded(seed);
    let mut tally = Tally::default();
    while tally.kills < kills {
        let mut had = 0;
        for _ in 0..ROUND.min(kills - tally.kills) {
            let life = Duration::from_millis(rng.next_u64() % LIFE_MS);
            if let Some(have) = lives(desk, args, life) {
                assert!(have >= had, "{have} bytes are left of {had}");
                assert!(have <= bytes.len() as u64);
                tally.kept += usize::from(have > 0);
                had = have;
            }
            tally.kills += 1;
            if desk.path("f").exists() {
                assert!(desk.read("f") == bytes, "a file that is not the source's after {tally:?}");
                tally.late += 1;
                break;
            }
        }
        desk.pulls(args);
        assert!(desk.read("f") == bytes, "a file that is not the source's after {tally:?}");
        assert_eq!(desk.files(), ["f"]);
        fs::remove_file(desk.path("f")).unwrap();
    }
    tally
}

fn kills(usual: usize) -> usize {
    std::env::var("STROLL_KILLS").map_or(usual, |kills| kills.parse().expect("a number"))
}

#[test]
fn two_hundred_kills_at_any_instant_and_every_file_is_right() {
    let (web, bytes) = (Web::start(Kind::Nginx), noise(20, SIZE));
    web.put("f", &bytes, 1_000);
    let (address, each) = (web.http("f").to_string(), kills(200).div_ceil(4));
    let tallies: Vec<Tally> = thread::scope(|scope| {
        let desks: Vec<_> = (0..4)
            .map(|seed| {
                let (address, bytes) = (&address, &bytes);
                scope.spawn(move || kill_many(&Desk::new(), &[address], bytes, each, seed))
            })
            .collect();
        desks.into_iter().map(|desk| desk.join().unwrap()).collect()
    });
    println!("{tallies:?}");
    let sum = |of: fn(&Tally) -> usize| tallies.iter().map(of).sum::<usize>();
    assert!(sum(|tally| tally.kills) >= kills(200));
    assert!(sum(|tally| tally.kept) > 0, "no kill hit the middle");
}

#[test]
fn kills_during_an_ftp_pull_leave_no_wrong_file() {
    let (server, bytes, desk) = (Ftpd::start(ftpd::Kind::Vsftpd), noise(21, SIZE), Desk::new());
    server.put("f", &bytes, 1_600_000_000);
    let password = desk.private("password", "right\n");
    let address = server.address("f").to_string();
    let args = ["--user", "anonymous", "--password-file", password.to_str().unwrap(), &address];
    let tally = kill_many(&desk, &args, &bytes, kills(200).div_ceil(8), 7);
    println!("{tally:?}");
    assert!(tally.kills >= 25);
}

#[test]
fn what_a_checkpoint_saw_is_not_pulled_again() {
    let (web, bytes, desk) = (Web::start(Kind::Nginx), noise(22, SIZE), Desk::new());
    web.put("f", &bytes, 1_000);
    let address = web.http("f").to_string();
    let mut running = desk.start(&["--bwlimit", "300k", &address]);
    running.wait_for("opened");
    thread::sleep(Duration::from_secs(3));
    running.signal(rustix::process::Signal::KILL);
    running.end();
    let report = desk.json(&[&address]);
    let came = report["totals"]["bytes"].as_u64().unwrap();
    // Checkpoints are after 0.25 s, 0.75 s, 1.75 s; on a busy machine at least the first one has seen something.
    assert!(came <= (SIZE - (64 << 10)) as u64, "{came} of {SIZE} bytes came again");
    assert!(desk.read("f") == bytes, "the bytes differ");
}
