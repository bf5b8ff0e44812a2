//! Members as processes on loopback: joining, handing on, killing, freezing, leaving. Real sockets, real time.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]
#![allow(clippy::disallowed_methods, reason = "these tests are about real time")]

#[path = "common/lab.rs"]
mod lab;

use std::fs;
use std::time::{Duration, Instant};

use lab::{Lab, QUICK, circle, join};

#[test]
fn three_commands_make_a_circle_of_two_and_both_are_served() {
    let folder = tempfile::tempdir().unwrap();
    let labs = circle(folder.path(), 2, QUICK);
    for lab in &labs {
        lab.wait_until("had three slots", |lab| lab.counter("slots") >= 3);
        let status = lab.status().unwrap();
        assert_eq!(status["circle"], "virgo");
        assert_eq!(status["members"].as_array().unwrap().len(), 1, "it knows the other");
    }
    let text = labs[1].succeeds(&["status"]);
    assert!(text.contains("lab-0") || text.contains("other members"), "{text}");
    let health = labs[1].succeeds(&["doctor"]);
    assert!(health.contains("answers, round trip"), "{health}");
}

#[test]
fn an_invitation_works_once() {
    let folder = tempfile::tempdir().unwrap();
    let labs = circle(folder.path(), 1, QUICK);
    let (first, second) = (Lab::new(folder.path(), "lab-1"), Lab::new(folder.path(), "lab-2"));
    let invitation = join(&labs[0], &first);
    let again = second.output(&["join", &invitation, "--listen", &second.listen(), "--timeout", "2s"]);
    assert_eq!(again.status.code(), Some(13), "silence: {}", String::from_utf8_lossy(&again.stderr));
}

#[test]
fn a_killed_holder_is_replaced_within_seconds() {
    let folder = tempfile::tempdir().unwrap();
    let mut labs = circle(folder.path(), 6, &["--slot", "1s", "--skip", "50ms", "--capacity", "6"]);
    for lab in &labs {
        lab.wait_until("was served", |lab| lab.counter("slots") >= 1);
    }
    let holder = loop {
        if let Some(place) =
            labs.iter().position(|lab| lab.status().is_some_and(|status| status["state"] == "run"))
        {
            break place;
        }
    };
    let before: usize =
        labs.iter().enumerate().filter(|(n, _)| *n != holder).map(|(_, lab)| lab.slots_in_log()).sum();
    labs[holder].kill();
    let killed = Instant::now();
    loop {
        let slots: usize =
            labs.iter().enumerate().filter(|(n, _)| *n != holder).map(|(_, lab)| lab.slots_in_log()).sum();
        if slots > before {
            break;
        }
        // Slot + 2 s is the goal, and what was measured; the bound is for a machine that is busy with other tests.
        assert!(killed.elapsed() < Duration::from_secs(15), "nobody went on");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_member_that_is_told_to_go_hands_the_token_over() {
    let folder = tempfile::tempdir().unwrap();
    let mut labs = circle(folder.path(), 2, QUICK);
    labs[1].wait_until("was served", |lab| lab.counter("slots") >= 2);
    labs[0]
        .wait_until("holds the token", |lab| lab.status().is_some_and(|status| !status["token"].is_null()));
    labs[0].signal("TERM");
    assert!(labs[0].process.take().unwrap().wait().unwrap().success());
    let log = fs::read_to_string(&labs[0].log).unwrap();
    assert!(!log.contains("nobody took the token"), "{log}");
    labs[1].wait_until("has the token", |lab| lab.status().is_some_and(|status| !status["token"].is_null()));
    assert_eq!(labs[1].counter("regenerated"), 0, "it was handed over, not replaced");
    assert_eq!(labs[1].status().unwrap()["members"].as_array().unwrap().len(), 0, "goodbye was heard");
}

#[test]
fn a_member_comes_back_after_a_kill_and_is_served_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut labs = circle(folder.path(), 3, QUICK);
    labs[2].wait_until("was served", |lab| lab.counter("slots") >= 1);
    labs[2].kill();
    labs[2].run();
    labs[2].wait_until("was served again", |lab| lab.counter("slots") >= 2);
}

#[test]
fn a_frozen_holder_stops_when_it_wakes_and_the_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let labs = circle(folder.path(), 3, QUICK);
    for lab in &labs {
        lab.wait_until("was served", |lab| lab.counter("slots") >= 1);
    }
    labs[1].wait_until("pulls", |lab| lab.status().is_some_and(|status| status["state"] == "run"));
    labs[1].signal("STOP");
    let others = || labs[0].slots_in_log() + labs[2].slots_in_log();
    let before = others();
    labs[0].wait_until("goes on", |_| others() >= before + 4);
    labs[1].signal("CONT");
    labs[1].wait_until("is served again", |lab| lab.slots_in_log() >= 2);
    let alive: usize = labs.iter().filter(|lab| lab.status().is_some_and(|s| s["state"] == "run")).count();
    assert!(alive <= 1 || labs.iter().map(|lab| lab.counter("removed")).sum::<u64>() > 0, "{alive} pull");
}

#[test]
fn one_process_runs_a_member_and_a_second_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let labs = circle(folder.path(), 1, QUICK);
    let second = labs[0].output(&["run", "--listen", "127.0.0.1:0"]);
    assert!(!second.status.success());
    assert!(String::from_utf8_lossy(&second.stderr).contains("running already"));
}

#[test]
fn a_banned_member_ends_and_the_circle_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut labs = circle(folder.path(), 3, QUICK);
    labs[2].wait_until("was served", |lab| lab.counter("slots") >= 1);
    labs[0].succeeds(&["circle", "ban", "lab-2"]);
    let banned = labs[2].process.as_mut().unwrap();
    let started = Instant::now();
    while banned.try_wait().unwrap().is_none() {
        assert!(started.elapsed() < Duration::from_secs(180), "it still runs");
        std::thread::sleep(Duration::from_millis(50));
    }
    let log = fs::read_to_string(&labs[2].log).unwrap();
    assert!(log.contains("no longer one"), "{log}");
    let slots = labs[1].counter("slots");
    labs[1].wait_until("goes on", |lab| lab.counter("slots") >= slots + 2);
}

#[test]
fn the_control_socket_is_closed_to_others() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let labs = circle(folder.path(), 1, QUICK);
    let socket = labs[0].home.join("virgo/control.sock");
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(socket.parent().unwrap()).unwrap().permissions().mode() & 0o077, 0);
}

#[test]
fn without_a_running_member_status_says_how_to_start_it() {
    let folder = tempfile::tempdir().unwrap();
    let lab = Lab::new(folder.path(), "lab-0");
    lab.succeeds(&["circle", "create", "virgo", "--source", "ftp://127.0.0.1/", "--listen", &lab.listen()]);
    let output = lab.output(&["status"]);
    assert_eq!(output.status.code(), Some(13));
    assert!(String::from_utf8_lossy(&output.stderr).contains("stroll run"));
}
