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
