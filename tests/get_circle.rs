//! `stroll get` in the slots of a circle: real members on loopback, a source that counts what it sends and when.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]
#![allow(clippy::disallowed_methods, reason = "these tests are about real time")]

#[path = "common/counting.rs"]
mod counting;
#[path = "common/desk.rs"]
mod desk;
#[path = "common/lab.rs"]
mod lab;
#[path = "common/relay.rs"]
mod relay;

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use counting::Counting;
use desk::{Running, noise};
use lab::{Lab, found, join};
use relay::{Faults, Relay};
use rustix::process::Signal;
use serde_json::Value;

/// Longer than a slot of `QUICK`, so that a server that sends twice at once is seen.
const SLOTS: &[&str] = &["--slot", "1s", "--skip", "50ms", "--capacity", "4"];

/// How long anything may take on a busy machine before the test has failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// What the source sends, at most: a file takes several slots.
const BYTES_PER_SEC: f64 = 1_500_000.0;

/// Labs of a circle around this source. Nobody runs yet but the founder, without anything to pull.
fn labs(folder: &Path, count: usize, source: &Counting, constants: &[&str]) -> Vec<Lab> {
    let mut labs: Vec<Lab> = (0..count).map(|n| Lab::new(folder, &format!("lab-{n}"))).collect();
    let (founder, others) = labs.split_first_mut().unwrap();
    found(founder, &source.source(), constants);
    founder.run_with(&[]);
    for lab in others {
        join(founder, lab);
    }
    labs
}

/// The command `stroll get` of a lab, into a folder of its own.
fn get(lab: &Lab, args: &[&str]) -> Command {
    let mut command = lab.stroll(&["get"]);
    command
        .arg("--state")
        .arg(lab.home.join("state"))
        .args(["-o", &format!("{}/", pulled(lab, "").display())]);
    command.args(args);
    command
}

fn pulled(lab: &Lab, name: &str) -> std::path::PathBuf {
    lab.home.with_extension("pulled").join(name)
}

fn start(lab: &Lab, args: &[&str]) -> Running {
    let mut command = get(lab, args);
    command.args(["--progress", "json"]);
    Running::start(command)
}

#[track_caller]
fn succeeds(lab: &Lab, args: &[&str]) -> Value {
    let output = get(lab, args).args(["--json", "--progress", "none"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[track_caller]
fn has(lab: &Lab, name: &str, bytes: &[u8]) {
    let got = std::fs::read(pulled(lab, name)).unwrap();
    assert!(got == bytes, "{}: {name} differs", lab.name);
}

#[track_caller]
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_founder_alone_pulls_in_slots_of_its_own() {
    let (folder, bytes) = (tempfile::tempdir().unwrap(), noise(30, 3_000_000));
    let source = Counting::start(bytes.clone(), BYTES_PER_SEC, 0);
    let lab = Lab::new(folder.path(), "lab-0");
    found(&lab, &source.source(), SLOTS);
    let report = succeeds(&lab, &[&source.url("f")]);
    has(&lab, "f", &bytes);
    assert!(report["totals"]["slots"].as_u64().unwrap() >= 2, "{report}");
    assert!(report["totals"]["waited_s"].as_f64().unwrap() > 0.0, "{report}");
    // What the circle does not have is pulled without it.
    let other = Counting::start(bytes.clone(), 1e9, 0);
    assert_eq!(succeeds(&lab, &[&other.url("g")])["totals"]["slots"], 1);
}

#[test]
fn a_member_of_its_own_and_a_running_one_take_turns_at_the_source() {
    let (folder, bytes) = (tempfile::tempdir().unwrap(), noise(31, 4_000_000));
    let source = Counting::start(bytes.clone(), BYTES_PER_SEC, 0);
    let labs = labs(folder.path(), 3, &source, SLOTS);
    // One borrows from the member that runs, the others bring members of their own.
    let gets: Vec<Running> = labs.iter().map(|lab| start(lab, &[&source.url("f")])).collect();
    for (lab, get) in labs.iter().zip(gets) {
        let (code, said) = get.end();
        assert_eq!(code, Some(0), "{}: {said}", lab.name);
        has(lab, "f", &bytes);
    }
    assert!(source.answers().len() >= 9, "every one of them needed several slots");
    let total = bytes.len() as f64 * 3.0 / BYTES_PER_SEC;
    let overlap = source.overlap().as_secs_f64();
    println!("{overlap:.3} s of about {total:.1} s twice at once");
    assert!(overlap < 0.15 * total, "{overlap:.3} s of about {total:.1} s twice at once");
    let again = source.bytes().saturating_sub(3 * bytes.len() as u64);
    assert!(again < 2_000_000, "{again} bytes came in vain");
}

/// A member that has said yes to the token opens its connection while the token is still on its way: here for the two
/// ways that the network's delay puts between the yes and the slot.
#[test]
fn connections_are_opened_before_the_turn_comes() {
    let (folder, bytes) = (tempfile::tempdir().unwrap(), noise(39, 4_000_000));
    let (source, relay) = (Counting::start(bytes.clone(), BYTES_PER_SEC, 0), Relay::new(1));
    let mut labs: Vec<Lab> = (0..2).map(|n| Lab::new(folder.path(), &format!("lab-{n}"))).collect();
    for lab in &mut labs {
        lab.address = Some(relay.front(lab.local));
    }
    found(&labs[0], &source.source(), SLOTS);
    labs[0].run_with(&[]);
    join(&labs[0], &labs[1]);
    let delay = Duration::from_millis(100);
    relay.set(Faults { delay, ..Faults::default() });
    // Without a grace worth the name nearly every turn needs a new connection.
    let args = [&source.url("f"), "--idle-grace", "500ms"];
    let gets: Vec<Running> = labs.iter().map(|lab| start(lab, &args)).collect();
    for (lab, get) in labs.iter().zip(gets) {
        let (code, said) = get.end();
        assert_eq!(code, Some(0), "{}: {said}", lab.name);
        has(lab, "f", &bytes);
    }
    let silences = source.silences();
    println!("{silences:?}");
    assert!(silences.iter().any(|silence| *silence >= delay), "nobody opened one before its turn");
}

#[test]
fn two_gets_of_one_member_share_its_slots() {
    let (folder, bytes) = (tempfile::tempdir().unwrap(), noise(32, 3_000_000));
    let source = Counting::start(bytes.clone(), BYTES_PER_SEC, 0);
    let labs = labs(folder.path(), 1, &source, SLOTS);
    let (f, g) = (start(&labs[0], &[&source.url("f")]), start(&labs[0], &[&source.url("g")]));
    for get in [f, g] {
        let (code, said) = get.end();
        assert_eq!(code, Some(0), "{said}");
    }
    has(&labs[0], "f", &bytes);
    has(&labs[0], "g", &bytes);
    let (overlap, total) = (source.overlap().as_secs_f64(), bytes.len() as f64 * 2.0 / BYTES_PER_SEC);
    assert!(overlap < 0.15 * total, "{overlap:.3} s of about {total:.1} s twice at once");
}

#[test]
fn a_killed_get_gives_its_slot_back() {
    let (folder, bytes) = (tempfile::tempdir().unwrap(), noise(33, 50_000_000));
    let source = Counting::start(bytes, BYTES_PER_SEC, 0);
    let mut labs = labs(folder.path(), 2, &source, SLOTS);
    labs[1].run();
    labs[1].wait_until("was served", |lab| lab.counter("slots") >= 1);
    let mut get = start(&labs[0], &[&source.url("f")]);
    get.wait_for("opened");
    get.signal(Signal::KILL);
    get.end();
    // Both go on: the member that lent the slot, and the other one.
    let (before, began) = (labs[1].counter("slots"), Instant::now());
    labs[1].wait_until("was served again", |lab| lab.counter("slots") >= before + 2);
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    // A machine that is busy with other things may be taken for dead once.
    assert!(labs[1].counter("regenerated") + labs[0].counter("regenerated") <= 1, "the token was lost");
    let bytes = source.bytes();
    thread::sleep(Duration::from_secs(1));
    assert_eq!(source.bytes(), bytes, "somebody still reads");
}

#[test]
fn a_frozen_get_does_not_keep_the_token() {
    let (folder, bytes) = (tempfile::tempdir().unwrap(), noise(38, 50_000_000));
    let source = Counting::start(bytes, BYTES_PER_SEC, 0);
    let mut labs = labs(folder.path(), 2, &source, SLOTS);
    labs[1].run();
    labs[1].wait_until("was served", |lab| lab.counter("slots") >= 1);
    let mut get = start(&labs[0], &[&source.url("f")]);
    get.wait_for("opened");
    get.signal(Signal::STOP);
    let before = labs[1].counter("slots");
    labs[1].wait_until("was served again", |lab| lab.counter("slots") >= before + 3);
    // The member has given it up; it asks again and goes on.
    get.forget();
    get.signal(Signal::CONT);
    get.wait_for("opened");
    get.signal(Signal::TERM);
    let (code, said) = get.end();
    assert_eq!(code, Some(1), "{said}");
}

/// A restart of `stroll run`, for a new version or new hardware, ended every command that borrowed its slots.
#[test]
fn a_get_whose_member_is_killed_says_so_stops_at_once_and_goes_on_with_its_successor() {
    let (folder, bytes) = (tempfile::tempdir().unwrap(), noise(34, 6_000_000));
    let source = Counting::start(bytes.clone(), BYTES_PER_SEC, 0);
    let mut labs = labs(folder.path(), 1, &source, SLOTS);
    let mut get = start(&labs[0], &[&source.url("f")]);
    get.wait_for("opened");
    // More than one slot brings: something is safely on the disk.
    wait_until("more than a slot's worth has come", || source.bytes() > 2_500_000);
    labs[0].kill();
    get.wait_for_words("the running member (`stroll run`) has ended");
    // What was on its way has come.
    thread::sleep(Duration::from_millis(500));
    let before = source.bytes();
    thread::sleep(Duration::from_secs(2));
    assert_eq!(source.bytes(), before, "it goes on without a turn");
    labs[0].run_with(&[]);
    let (code, said) = get.end();
    assert_eq!(code, Some(0), "{said}");
    has(&labs[0], "f", &bytes);
    assert!(
        source.bytes() < before + bytes.len() as u64,
        "nothing was kept: {before} then {}",
        source.bytes()
    );
}

#[test]
fn a_source_that_refuses_one_is_left_alone_by_all() {
    let folder = tempfile::tempdir().unwrap();
    let source = Counting::start(noise(35, 100_000), BYTES_PER_SEC, u64::MAX);
    let mut labs = labs(folder.path(), 2, &source, SLOTS);
    labs[1].run();
    labs[1].wait_until("was served", |lab| lab.counter("slots") >= 1);
    let mut get = start(&labs[0], &[&source.url("f"), "--refusal-wait", "60s"]);
    get.wait_for("pausing");
    labs[1].wait_until("heard of it", |lab| {
        lab.status().is_some_and(|status| status["cooling_s"].as_f64().unwrap() > 10.0)
    });
    // The member that was refused tells what the source said; the token brings the others the end alone.
    let said = labs[0].status().unwrap()["backing_off_reason"].clone();
    assert!(said.as_str().is_some_and(|said| said.ends_with(" from 127.0.0.1")), "{said}");
    let other = labs[1].status().unwrap();
    assert_eq!(other["backing_off_reason"], "asked for by another member");
    assert_eq!(other["state"], "backing-off");
    assert!(other["backing_off_until_s"].as_u64() > Some(1_700_000_000), "{other}");
    let reason = other["verdict"]["reason"].as_str().unwrap();
    assert!(reason.starts_with("nothing is pulled while the circle backs off"), "{reason}");
    let text = labs[1].succeeds(&["status"]);
    assert!(text.contains("[backing-off]") && text.contains("\nbacking off until 2"), "{text}");
    let check = labs[1].output(&["status", "--check"]);
    let line = String::from_utf8(check.stdout).unwrap();
    assert_eq!(check.status.code(), Some(1), "{line}");
    assert!(line.contains("backing off until 2") && line.contains("asked for by another member"), "{line}");
    let (requests, slots) = (source.requests(), labs[1].counter("slots"));
    thread::sleep(Duration::from_secs(2));
    assert_eq!(source.requests(), requests, "somebody asks all the same");
    assert!(labs[1].counter("slots") <= slots + 1, "slots go on");
    get.signal(Signal::TERM);
    let (code, said) = get.end();
    assert_eq!(code, Some(1), "{said}");
}

#[test]
fn the_bandwidth_of_the_charter_is_kept() {
    let (folder, bytes) = (tempfile::tempdir().unwrap(), noise(36, 1_200_000));
    let source = Counting::start(bytes.clone(), 1e9, 0);
    let constants = [SLOTS, &["--bandwidth", "400k"]].concat();
    let labs = labs(folder.path(), 1, &source, &constants);
    let begun = Instant::now();
    succeeds(&labs[0], &[&source.url("f")]);
    // 1.2 MB at 400 KiB a second, but for the first burst.
    assert!(begun.elapsed() >= Duration::from_millis(2_400), "{:?}", begun.elapsed());
    has(&labs[0], "f", &bytes);
}

#[test]
fn a_holder_that_was_frozen_past_its_slot_reads_nothing_more() {
    let (folder, bytes) = (tempfile::tempdir().unwrap(), noise(37, 60_000_000));
    let source = Counting::start(bytes, 2.0 * BYTES_PER_SEC, 0);
    let labs = labs(folder.path(), 2, &source, &["--slot", "3s", "--skip", "50ms", "--capacity", "4"]);
    let mut get = start(&labs[1], &[&source.url("f")]);
    get.wait_for("opened");
    wait_until("enough has come", || source.bytes() > 6_000_000);
    let answers = source.answers().len();
    wait_until("the next range began", || {
        source.answers().len() > answers
            && source.answers().last().is_some_and(|answer| answer.bytes > 100_000)
    });
    get.signal(Signal::STOP);
    let read = source.bytes();
    // What was asked for goes on to come, into the kernel's buffers.
    thread::sleep(Duration::from_secs(5));
    get.forget();
    let frozen = source.answers().len();
    let sent = || source.answers().iter().take(frozen).map(|answer| answer.bytes).sum::<u64>();
    let before = sent();
    get.signal(Signal::CONT);
    thread::sleep(Duration::from_millis(700));
    // What the answers of before have sent since it woke: one read, and what makes room in the buffers by it.
    let since = sent() - before;
    assert!(since <= 320 << 10, "{since} bytes were sent after it woke");
    // And of what had come meanwhile it has taken no more than one read either.
    get.wait_for("slot");
    let have = get.wait_for("opened")["have"].as_u64().unwrap();
    println!("{} bytes came while it was frozen, {} were taken", before - read, have.saturating_sub(read));
    assert!(have <= read + (128 << 10), "{} bytes were read after it woke", have - read);
    get.signal(Signal::TERM);
    get.end();
}

// --- with tickets -----------------------------------------------------------------------------------------------

/// Two labs with two tickets and slots of this length; the second one holds its ticket and pulls nothing.
fn with_tickets(folder: &Path, source: &Counting, slot: &str) -> Vec<Lab> {
    let constants =
        ["--slot", slot, "--capacity", "4", "--mode", "tickets", "--tickets", "2", "--faults", "1"];
    let mut labs = labs(folder, 2, source, &constants);
    labs[1].run();
    labs[1].wait_until("has a ticket", |lab| lab.slots_in_log() >= 1);
    labs
}

/// A member that stands still cannot order the pull to end, and loses its ticket to others after some seconds. The command
/// that had borrowed the slot went on to its end.
#[test]
fn a_get_whose_member_is_frozen_stops_before_others_can_have_the_ticket() {
    let (folder, bytes) = (tempfile::tempdir().unwrap(), noise(39, 200_000_000));
    let source = Counting::start(bytes, BYTES_PER_SEC, 0);
    let labs = with_tickets(folder.path(), &source, "2m");
    let mut get = start(&labs[0], &[&source.url("f")]);
    get.wait_for("opened");
    wait_until("more than one lease's worth has come", || source.bytes() > 6_000_000);
    labs[0].signal("STOP");
    thread::sleep(Duration::from_secs(4));
    let before = source.bytes();
    thread::sleep(Duration::from_secs(3));
    let since = source.bytes() - before;
    labs[0].signal("CONT");
    assert!(since <= 320 << 10, "{since} bytes were sent after the lease had ended");
    get.signal(Signal::TERM);
    get.end();
}

/// Its connection counts at the source, so nobody else may have its ticket.
#[test]
fn a_frozen_get_keeps_its_ticket_and_goes_on_when_it_wakes() {
    let (folder, bytes) = (tempfile::tempdir().unwrap(), noise(40, 12_000_000));
    let source = Counting::start(bytes.clone(), BYTES_PER_SEC, 0);
    let labs = with_tickets(folder.path(), &source, "2s");
    let mut get = start(&labs[0], &[&source.url("f")]);
    get.wait_for("opened");
    wait_until("something has come", || source.bytes() > 500_000);
    get.signal(Signal::STOP);
    labs[0].wait_until("keeps the ticket", |lab| lab.log_text().contains("the ticket is kept"));
    let slots = labs[0].slots_in_log();
    thread::sleep(Duration::from_secs(5));
    assert_eq!(labs[0].slots_in_log(), slots);
    get.signal(Signal::CONT);
    let (code, said) = get.end();
    assert_eq!(code, Some(0), "{said}");
    has(&labs[0], "f", &bytes);
}
