//! Members in network namespaces of their own, joined by a wire that can be pulled. Needs root and iproute2, so these
//! tests are ignored unless asked for: `tests/all` does.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]
#![allow(clippy::disallowed_methods, reason = "these tests are about real time")]

#[path = "common/lab.rs"]
mod lab;

use std::process::Command;
use std::time::{Duration, Instant};

use lab::{
    Lab, QUICK, all_are_served, circle_of, nobody_shares_a_token, one_token_is_left, slots_were_exclusive,
};

/// Two namespaces and the wire between them: 192.0.2.1 at its one end, 192.0.2.2 at the other. Gone when dropped.
struct Wire {
    ends: [String; 2],
}

impl Wire {
    fn new(name: &str) -> Self {
        let id = std::process::id();
        let wire = Self { ends: [format!("stroll-{id}-{name}-a"), format!("stroll-{id}-{name}-b")] };
        let [a, b] = &wire.ends;
        for end in &wire.ends {
            ip(&["netns", "add", end]);
            ip(&["-n", end, "link", "set", "lo", "up"]);
        }
        ip(&["-n", a, "link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns", b]);
        for (end, address) in wire.ends.iter().zip(["192.0.2.1/24", "192.0.2.2/24"]) {
            ip(&["-n", end, "address", "add", address, "dev", "wire"]);
            ip(&["-n", end, "link", "set", "wire", "up"]);
        }
        wire
    }

    /// A lab at one end.
    fn lab(&self, folder: &std::path::Path, end: usize) -> Lab {
        let local = format!("192.0.2.{}:7433", end + 1).parse().unwrap();
        let mut lab = Lab::at(folder, &format!("lab-{end}"), local);
        lab.wrapper = ["ip", "netns", "exec", &self.ends[end]].map(str::to_owned).to_vec();
        lab
    }

    fn set(&self, end: usize, state: &str) {
        ip(&["-n", &self.ends[end], "link", "set", "wire", state]);
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        for end in &self.ends {
            // One that was never made cannot be deleted.
            let _ = Command::new("ip").args(["netns", "delete", end]).output();
        }
    }
}

#[track_caller]
fn ip(args: &[&str]) {
    let output = Command::new("ip").args(args).output().unwrap();
    assert!(output.status.success(), "ip {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// It was looked at once, when the member started.
#[test]
#[ignore = "needs root and iproute2: tests/all runs it"]
fn a_member_whose_address_changes_while_it_runs_is_found_at_the_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let wire = Wire::new("move");
    let mut mover = wire.lab(folder.path(), 1);
    mover.local = "0.0.0.0:7433".parse().unwrap();
    let labs = circle_of(vec![wire.lab(folder.path(), 0), mover], QUICK);
    let known = |lab: &Lab| lab.status().map(|status| status["members"][0]["address"].clone());
    labs[0].wait_until("knows the other", |lab| known(lab) == Some("192.0.2.2:7433".into()));
    ip(&["-n", &wire.ends[1], "address", "del", "192.0.2.2/24", "dev", "wire"]);
    ip(&["-n", &wire.ends[1], "address", "add", "192.0.2.3/24", "dev", "wire"]);
    let changed = Instant::now();
    labs[0].wait_until("learnt the new address", |lab| known(lab) == Some("192.0.2.3:7433".into()));
    println!("the new address was known after {:?}", changed.elapsed());
    assert_eq!(labs[1].log_text().matches("another address now").count(), 1);
    assert_eq!(labs[1].counter("duplicate_identity"), 0, "who moves is no twin of itself");
    one_token_is_left(&labs);
    slots_were_exclusive(&labs);
}

#[test]
#[ignore = "needs root and iproute2: tests/all runs it"]
fn members_on_two_hosts_are_served_and_recover_when_the_wire_was_pulled() {
    let folder = tempfile::tempdir().unwrap();
    let wire = Wire::new("pull");
    let labs = circle_of(vec![wire.lab(folder.path(), 0), wire.lab(folder.path(), 1)], QUICK);
    all_are_served(&labs, 3);
    // At either end: with its own interface down a member cannot even send.
    for end in [0, 1] {
        wire.set(end, "down");
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(4) {
            nobody_shares_a_token(&labs);
            std::thread::sleep(Duration::from_millis(20));
        }
        wire.set(end, "up");
        let took = one_token_is_left(&labs);
        println!("one token {took:?} after the wire was whole again");
    }
    slots_were_exclusive(&labs);
}
