//! How `stroll join` ends: whom the new member reaches, and that nobody in the circle notices. Real processes on loopback.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]
#![allow(clippy::disallowed_methods, reason = "these tests are about real time")]

#[path = "common/lab.rs"]
mod lab;

use std::process::Output;
use std::time::{Duration, Instant};

use lab::{Lab, QUICK, all_are_served, circle, found};

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// `stroll join` with an invitation of the founder's.
fn join_by_invitation(founder: &Lab, lab: &Lab) -> Output {
    let line = founder.succeeds(&["circle", "invite", &lab.name]);
    lab.output(&["join", line.split_whitespace().nth(2).unwrap(), "--listen", &lab.listen()])
}

/// A signed answer for the lab, which has to be given to `stroll join`.
fn signed(founder: &Lab, lab: &Lab) -> String {
    let request = lab.succeeds(&["join", "--request", "virgo", "--member", &lab.name]);
    founder.succeeds(&["circle", "sign", request.trim()]).trim().to_owned()
}

#[test]
fn who_has_joined_is_told_whom_it_reaches_and_nobody_remembers_where_it_asked_from() {
    let folder = tempfile::tempdir().unwrap();
    let mut labs = circle(folder.path(), 2, QUICK);
    all_are_served(&labs, 1);
    let mut lab = Lab::new(folder.path(), "lab-2");
    let joined = join_by_invitation(&labs[0], &lab);
    let text = said(&joined);
    assert!(joined.status.success(), "{text}");
    assert!(text.contains("✓ 2 of 2 members reached   ✓ clock offset 0.0"), "{text}");
    // A token could go to whoever is known: all rounds from here on are among the two.
    all_are_served(&labs, 3);
    for lab in &labs {
        let status = lab.status().unwrap();
        assert_eq!(status["members"].as_array().unwrap().len(), 1, "{status}");
        assert_eq!(status["counters"]["unreachable"], 0, "{status}");
        assert_eq!(status["counters"]["regenerated"], 0, "{status}");
    }
    // And what it asked before does not make its own questions look like recordings.
    lab.run();
    labs.push(lab);
    all_are_served(&labs, 2);
}

#[test]
fn where_nobody_answers_joining_warns_names_the_cure_and_has_succeeded() {
    let folder = tempfile::tempdir().unwrap();
    let (founder, lab) = (Lab::new(folder.path(), "lab-0"), Lab::new(folder.path(), "lab-1"));
    found(&founder, "ftp://127.0.0.1/stream/", QUICK);
    let answer = signed(&founder, &lab);
    let started = Instant::now();
    let joined = lab.output(&["join", &answer, "--listen", &lab.listen()]);
    let text = said(&joined);
    assert_eq!(joined.status.code(), Some(0), "{text}");
    assert!(started.elapsed() < Duration::from_secs(60), "it does not wait for long");
    assert!(text.contains("! 0 of 1 members reached\n"), "{text}");
    let silent = format!("! the member at {} does not answer\n      is it running?", founder.listen());
    assert!(text.contains(&silent), "{text}");
    assert!(text.contains("Next: stroll run"), "{text}");
}

#[test]
fn who_is_a_member_already_is_told_too_by_its_running_member_if_there_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut labs = circle(folder.path(), 1, QUICK);
    let mut lab = Lab::new(folder.path(), "lab-1");
    let line = labs[0].succeeds(&["circle", "invite", &lab.name]);
    let invitation = line.split_whitespace().nth(2).unwrap();
    let join = |lab: &Lab| {
        let text = said(&lab.output(&["join", invitation, "--listen", &lab.listen()]));
        assert!(text.contains("✓ 1 of 1 members reached   ✓ clock offset 0.0"), "{text}");
        text
    };
    assert!(join(&lab).contains("is now a member"));
    assert!(join(&lab).contains("is a member of virgo already"));
    lab.run();
    lab.wait_until("was served", |lab| lab.counter("slots") >= 1);
    assert!(join(&lab).contains("is a member of virgo already"));
    labs.push(lab);
    all_are_served(&labs, 2);
    labs[0].kill();
    let silent_s = |lab: &Lab| lab.glance().and_then(|status| status["members"][0]["heard_s"].as_f64());
    labs[1].wait_until("misses the other", |lab| silent_s(lab).is_some_and(|span| span > 3.0));
    let text = said(&labs[1].output(&["join", invitation]));
    assert!(text.contains("! 0 of 1 members reached\n") && text.contains("does not answer"), "{text}");
}
