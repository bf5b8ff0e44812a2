//! Two circles on one machine: members of one know the address of the other's, speak to it, and get no answer. Real
//! processes on loopback.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]
#![allow(clippy::disallowed_methods, reason = "these tests are about real time")]

#[path = "common/lab.rs"]
mod lab;

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use lab::{Lab, QUICK, all_are_served, circle, slots_were_exclusive};
use serde_json::Value;
use stroll::trust::Home;

/// A circle of two labs in a folder of its own.
fn circle_in(folder: &Path, name: &str) -> Vec<Lab> {
    let folder = folder.join(name);
    fs::create_dir(&folder).unwrap();
    circle(&folder, 2, QUICK)
}

/// Starts the lab again, and tells it that a member of its circle is at this address.
fn misinform(lab: &mut Lab, address: SocketAddr) {
    lab.kill();
    let home = Home::open(lab.home.join("virgo")).unwrap();
    let mut credentials = home.load_credentials().unwrap();
    credentials.bootstrap.push(address);
    home.save_credentials(&credentials).unwrap();
    lab.run();
}

/// How many datagrams of another circle it has dropped.
fn of_another_circle(lab: &Lab) -> u64 {
    lab.glance().and_then(|status| status["rejected"]["circle"].as_u64()).unwrap_or(0)
}

fn listed(lab: &Lab) -> Vec<Value> {
    let status = lab.status().unwrap();
    status["members"].as_array().unwrap().iter().map(|member| member["address"].clone()).collect()
}

#[test]
fn two_circles_on_one_machine_do_not_hear_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let (mut ours, theirs) = (circle_in(folder.path(), "ours"), circle_in(folder.path(), "theirs"));
    all_are_served(&ours, 1);
    all_are_served(&theirs, 1);
    misinform(&mut ours[1], theirs[0].local);
    theirs[0].wait_until("heard of the other circle", |lab| of_another_circle(lab) > 0);
    all_are_served(&ours, 4);
    all_are_served(&theirs, 4);
    assert_eq!(of_another_circle(&ours[1]), 0, "an answer would have come back to who asked");
    for labs in [&ours, &theirs] {
        assert_eq!(listed(&labs[0]), [Value::from(labs[1].listen())], "each knows its own");
        assert_eq!(listed(&labs[1]), [Value::from(labs[0].listen())], "each knows its own");
        slots_were_exclusive(labs);
    }
    let regenerated = |labs: &[Lab]| labs.iter().map(|lab| lab.counter("regenerated")).sum::<u64>();
    assert_eq!(regenerated(&theirs), 0, "they lost nothing by it");
}
