//! `stroll mirror` in the slots of a circle: listings are part of the load, so they wait for the token, too.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]
#![allow(clippy::disallowed_methods, reason = "these tests are about real time")]

#[path = "common/desk.rs"]
mod desk;
#[path = "common/lab.rs"]
mod lab;
#[path = "common/web.rs"]
mod web;

use std::fs;
use std::io::Write as _;
use std::time::{Duration, Instant};

use desk::{Running, noise};
use lab::{Lab, found, join};
use serde_json::Value;
use web::{Kind, Web};

const SLOTS: &[&str] = &["--slot", "1s", "--skip", "50ms", "--capacity", "4"];

#[test]
fn a_tree_is_listed_and_pulled_in_slots_only() {
    let (folder, web) = (tempfile::tempdir().unwrap(), Web::start(Kind::Nginx));
    for n in 0..6 {
        web.put(&format!("tree/d{n}/f"), &noise(n, 400_000), 1_000_000);
    }
    let source = web.http("tree/").to_string();
    let (mut founder, other) = (Lab::new(folder.path(), "lab-0"), Lab::new(folder.path(), "lab-1"));
    found(&founder, &source, SLOTS);
    founder.run_with(&["--hold"]);
    join(&founder, &other);
    // The founder's member has the token most of the time; the other one brings a member of its own.
    let (replica, state) = (folder.path().join("replica"), folder.path().join("state"));
    let mut command = other.stroll(&["mirror", &source]);
    command.arg(&replica).arg("--state").arg(state).args([
        "--progress",
        "json",
        "--bwlimit",
        "800k",
        "--json",
    ]);
    let mut running = Running::start(command);
    running.wait_for("waiting");
    running.wait_for("slot");
    running.wait_for("listed");
    let (code, said) = running.end();
    assert_eq!(code, Some(0), "{said}");
    for n in 0..6 {
        assert!(fs::read(replica.join(format!("d{n}/f"))).unwrap() == noise(n, 400_000), "d{n}/f differs");
    }
    // Whatever was done at the source was done between the beginning of a slot and its end.
    let mut is_ours = true;
    let mut slots = 0;
    for event in said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        match event["event"].as_str() {
            Some("waiting" | "slot_ended") => is_ours = false,
            Some("slot") => {
                is_ours = true;
                slots += 1;
            }
            Some("listed" | "began") => assert!(is_ours, "{said}"),
            _ => {}
        }
    }
    assert!(slots >= 2, "{said}");
}

/// A founder alone, and a mirror of `tree/` that brings a member of its own.
fn alone(folder: &std::path::Path, web: &Web, more: &[&str]) -> (Running, std::path::PathBuf) {
    let (lab, source) = (Lab::new(folder, "lab-0"), web.http("tree/").to_string());
    found(&lab, &source, SLOTS);
    let replica = folder.join("replica");
    let mut command = lab.stroll(&["mirror", &source]);
    command.arg(&replica).arg("--state").arg(folder.join("state"));
    command.args(["--progress", "json", "--json"]).args(more);
    (Running::start(command), replica)
}

/// Neither date nor size tells the two versions apart, and the second one is written over the first.
#[test]
fn a_file_that_is_written_twice_within_a_second_is_the_second_one_in_slots() {
    for _ in 0..3 {
        let (folder, web) = (tempfile::tempdir().unwrap(), Web::start(Kind::Nginx));
        web.put("tree/old", &noise(1, 100_000), 1_000_000);
        web.put("tree/z", &noise(2, 800_000), 0);
        let (mut running, replica) = alone(folder.path(), &web, &["--bwlimit", "600k"]);
        // First of `old`, then of `z`.
        running.wait_for("opened");
        running.wait_for("opened");
        fs::OpenOptions::new()
            .write(true)
            .open(web.path("tree/z"))
            .unwrap()
            .write_all(&noise(3, 800_000))
            .unwrap();
        let (code, said) = running.end();
        assert_eq!(code, Some(0), "{said}");
        assert!(fs::read(replica.join("z")).unwrap() == noise(3, 800_000), "mixed: {said}");
        assert!(fs::read(replica.join("old")).unwrap() == noise(1, 100_000), "{said}");
    }
}

#[test]
fn files_that_were_written_just_now_are_left_for_a_later_slot_and_all_come() {
    let (folder, web) = (tempfile::tempdir().unwrap(), Web::start(Kind::Nginx));
    for n in 0..5 {
        web.put(&format!("tree/new-{n}"), &noise(n, 200_000), 0);
        web.put(&format!("tree/old-{n}"), &noise(n + 10, 200_000), 1_000_000);
    }
    let (running, replica) = alone(folder.path(), &web, &["--bwlimit", "1M"]);
    let (code, said) = running.end();
    assert_eq!(code, Some(0), "{said}");
    for n in 0..5 {
        assert!(fs::read(replica.join(format!("new-{n}"))).unwrap() == noise(n, 200_000), "new-{n}: {said}");
        assert!(fs::read(replica.join(format!("old-{n}"))).unwrap() == noise(n + 10, 200_000), "old-{n}");
    }
}

#[test]
fn a_restart_of_the_source_interrupts_a_mirror_in_a_circle_for_seconds() {
    let (folder, mut web) = (tempfile::tempdir().unwrap(), Web::start(Kind::Nginx));
    for n in 0..4 {
        web.put(&format!("tree/f{n}"), &noise(n, 600_000), 1_000_000);
    }
    let (mut running, replica) = alone(folder.path(), &web, &["--bwlimit", "800k"]);
    running.wait_for("began");
    web.stop();
    std::thread::sleep(Duration::from_secs(2));
    let begun = Instant::now();
    web.start_again();
    let (code, said) = running.end();
    assert_eq!(code, Some(0), "{said}");
    assert!(begun.elapsed() < Duration::from_secs(30), "it was paused for {:?}: {said}", begun.elapsed());
    for n in 0..4 {
        assert!(fs::read(replica.join(format!("f{n}"))).unwrap() == noise(n, 600_000), "f{n}: {said}");
    }
}
