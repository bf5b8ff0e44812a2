//! Members of a circle with tickets as processes on loopback: real sockets, real time.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]
#![allow(clippy::disallowed_methods, reason = "these tests are about real time")]

#[path = "common/lab.rs"]
mod lab;

use lab::{Lab, QUICK, circle};

fn with_tickets(tickets: &str) -> Vec<&str> {
    [QUICK, &["--mode", "tickets", "--tickets", tickets]].concat()
}

/// How often this lab has begun a ring, in all of its runs.
fn begun(lab: &Lab) -> usize {
    lab.log_text().matches("begins the ring").count()
}

fn all_begun(labs: &[Lab]) -> Vec<usize> {
    labs.iter().map(begun).collect()
}

#[track_caller]
fn is_served_again(lab: &Lab) {
    let slots = lab.slots_in_log();
    lab.wait_until("was served again", |lab| lab.slots_in_log() > slots + 1);
}

/// Ends the process as a user does, and waits for it.
fn stop(lab: &mut Lab) {
    lab.signal("TERM");
    assert!(lab.process.take().unwrap().wait().unwrap().success(), "{}", lab.log_text());
}

#[test]
fn three_members_share_two_tickets() {
    let folder = tempfile::tempdir().unwrap();
    let labs = circle(folder.path(), 3, &with_tickets("2"));
    for _ in 0..2 {
        labs.iter().for_each(is_served_again);
    }
    assert_eq!(all_begun(&labs), [1, 0, 0]);
}

/// With as many tickets as members nobody makes room, so the one that crashes is never alone in the ring.
#[test]
fn who_began_the_ring_and_crashed_joins_it_like_everybody_else() {
    let folder = tempfile::tempdir().unwrap();
    let mut labs = circle(folder.path(), 3, &with_tickets("3"));
    labs.iter().for_each(is_served_again);
    labs[0].kill();
    labs[0].run();
    labs.iter().for_each(is_served_again);
    assert_eq!(all_begun(&labs), [1, 0, 0]);
    stop(&mut labs[1]);
    assert!(labs[1].log_text().contains("gave the ticket back"), "{}", labs[1].log_text());
    for lab in [&labs[0], &labs[2]] {
        is_served_again(lab);
    }
}

#[test]
fn who_leaves_the_ring_last_begins_it_again_and_who_crashes_in_it_alone_needs_a_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut labs = circle(folder.path(), 2, &with_tickets("2"));
    labs.iter().for_each(is_served_again);
    stop(&mut labs[0]);
    is_served_again(&labs[1]);
    stop(&mut labs[1]);
    assert!(labs[1].log_text().contains("was the last of the ring"), "{}", labs[1].log_text());
    for lab in &mut labs {
        lab.run();
    }
    labs.iter().for_each(is_served_again);
    assert_eq!(all_begun(&labs), [1, 1]);

    labs.iter_mut().for_each(Lab::kill);
    for lab in &mut labs {
        lab.run();
    }
    assert_eq!(all_begun(&labs), [1, 1], "nobody knows who has the tickets");
    labs[0].succeeds(&["circle", "amend", "--new-ring"]);
    labs.iter().for_each(is_served_again);
    assert_eq!(all_begun(&labs), [2, 1]);
}
