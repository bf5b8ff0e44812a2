//! `stroll status`: for monitors the one line and the exit codes of `--check`, and `--fail-on-overload`; and who borrows slots.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]
#![allow(clippy::disallowed_methods, reason = "these tests are about real time")]

#[path = "common/counting.rs"]
mod counting;
#[path = "common/desk.rs"]
mod desk;
#[path = "common/lab.rs"]
mod lab;
#[path = "common/operator.rs"]
mod operator;
#[path = "common/web.rs"]
mod web;

use std::process::{Child, Command, Stdio};

use counting::Counting;
use desk::noise;
use lab::{Lab, QUICK, circle};
use operator::Operator;
use serde_json::Value;
use web::{Kind, Web};

/// The exit code, and what was said: to standard output if all is well, to standard error otherwise.
fn status(lab: &Lab, flags: &[&str]) -> (Option<i32>, String, String) {
    let output = lab.output(&[&["status"], flags].concat());
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn of_a_member_that_does_not_run_nothing_is_known() {
    let operator = Operator::new("http://127.0.0.1:1/", QUICK);
    let (code, out, said) = status(&operator.lab, &["--check"]);
    assert_eq!((code, said.as_str()), (Some(3), ""), "{out}");
    assert!(out.starts_with("STROLL UNKNOWN - ") && out.lines().count() == 1, "{out}");
    assert!(out.contains("stroll run"), "{out}");
    let (code, out, said) = status(&operator.lab, &["--check", "--circle", "elsewhere"]);
    assert_eq!((code, said.as_str()), (Some(3), ""), "{out}");
    assert!(out.starts_with("STROLL UNKNOWN - ") && out.contains("elsewhere"), "{out}");
}

#[test]
fn a_member_whose_jobs_go_well_is_well_and_one_whose_job_fails_is_not() {
    let web = Web::start(Kind::Nginx);
    web.put("good/f", b"f", 1_000);
    let mut operator = Operator::new(&web.http("").to_string(), QUICK);
    let table = |name: &str| {
        let (url, to) = (web.http(&format!("{name}/")), operator.quoted(name));
        format!("[[mirror]]\nname = {name:?}\nurl = \"{url}\"\nto = {to}\nevery = \"1s\"\n")
    };
    let (good, bad) = (table("good"), table("bad"));
    operator.set(&good);
    operator.run(&[]);
    operator.wait_until("pulled", |operator| operator.count("good", "files") == 1);
    let (code, out, said) = status(&operator.lab, &["--check"]);
    assert_eq!((code, said.as_str()), (Some(0), ""), "{out}");
    assert!(out.starts_with("STROLL OK - 1 job, ") && out.lines().count() == 1, "{out}");
    assert!(out.contains(" | members=0 jobs=1"), "{out}");
    operator.lab.succeeds(&["pause"]);
    let (code, out, _) = status(&operator.lab, &["--check"]);
    assert_eq!(code, Some(1), "{out}");
    assert!(out.starts_with("STROLL WARNING - the only job is paused"), "{out}");
    operator.wait_until("is paused", |operator| {
        let (_, text, _) = status(&operator.lab, &[]);
        text.contains("is paused [paused]") && text.contains("all jobs are paused")
    });
    operator.lab.succeeds(&["resume"]);

    // There is no such folder.
    operator.set(&format!("{good}{bad}"));
    operator.hang_up();
    operator
        .wait_until("failed", |operator| operator.job("bad").is_some_and(|job| job["state"] == "retrying"));
    let (code, out, said) = status(&operator.lab, &["--check"]);
    assert_eq!((code, said.as_str()), (Some(1), ""), "{out}");
    assert!(out.starts_with("STROLL WARNING - bad [retrying]: ") && !out.contains("good"), "{out}");
    // Without `--check` that is nothing to fail of.
    let (code, out, said) = status(&operator.lab, &["--fail-on-overload"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(out.contains("bad") && out.contains("[retrying]"), "{out}");
}

#[test]
fn an_overloaded_circle_fails_who_asked_for_it_and_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    // Twice as many members with work as it was laid out for.
    let labs = circle(folder.path(), 4, &["--slot", "400ms", "--skip", "20ms", "--capacity", "2"]);
    labs[0].wait_until("is overloaded", |lab| status(lab, &["--fail-on-overload"]).0 == Some(15));
    let (_, out, said) = status(&labs[0], &["--fail-on-overload"]);
    assert!(said.contains("overloaded: "), "{said}");
    assert!(!out.is_empty(), "what there is to show is shown first");
    let (code, out, said) = status(&labs[0], &[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(out.contains("overloaded for ") && out.contains("demand is "), "{out}");
    let (code, out, said) = status(&labs[0], &["--check"]);
    assert_eq!((code, said.as_str()), (Some(1), ""), "{out}");
    assert!(out.starts_with("STROLL WARNING - overloaded: demand is "), "{out}");
}

/// With two tickets a ring has two members, and of these neither can tell whether the other is dead.
#[test]
fn a_member_with_tickets_tells_of_its_ring_and_says_when_nobody_vouches_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let tickets = [QUICK, &["--mode", "tickets", "--tickets", "2", "--faults", "1"]].concat();
    let mut labs = circle(folder.path(), 2, &tickets);
    let ring = |lab: &Lab| lab.glance().unwrap_or_default()["ring"].clone();
    labs[0].wait_until("pulls beside the other", |lab| {
        let status = lab.glance().unwrap_or_default();
        status["state"] == "pulling"
            && status["ring"]["coordinators"].as_array().is_some_and(|all| all.len() == 2)
    });
    let seen = labs[0].status().unwrap();
    assert_eq!((&seen["version"], &seen["mode"]), (&Value::from(1), &Value::from("tickets")), "{seen}");
    assert!(seen["token"].is_null() && seen["return_time_s"].is_null(), "{seen}");
    let (tickets, faults) = (&seen["ring"]["tickets"], &seen["ring"]["faults"]);
    assert_eq!((tickets, faults), (&Value::from(2), &Value::from(1)), "{seen}");
    assert_eq!(seen["ring"]["coordinators"][0]["name"], seen["name"], "ourselves first: {seen}");
    let (_, text, _) = status(&labs[0], &[]);
    assert!(text.contains("ring 1: 2 tickets, faults 1") && text.contains("lab-1"), "{text}");
    assert!(!text.contains("token") && !text.contains("return time"), "{text}");
    let doctor = labs[0].succeeds(&["doctor"]);
    assert!(doctor.contains("✓ members take turns by tickets: 2 of them, faults 1"), "{doctor}");
    assert!(
        doctor.contains("! faults 1 needs 3 members and as many tickets; a ring of 2 bears no crash"),
        "{doctor}"
    );

    labs[1].kill();
    labs[0].wait_until("does not trust its ticket any more", |lab| {
        ring(lab)["ticket"].is_number() && ring(lab)["sure"] == false && ring(lab)["waited_s"].is_number()
    });
    let (_, text, _) = status(&labs[0], &[]);
    assert!(text.contains("too few vouch for it [waiting]") && text.contains("may not be used"), "{text}");
    let examined = labs[0].output(&["doctor"]);
    assert!(!examined.status.success());
    assert!(String::from_utf8_lossy(&examined.stdout).contains("circle amend --new-ring"));
}

/// A command in the background. It is ended with the value.
struct Background(Child);

impl Background {
    fn start(mut command: Command) -> Self {
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn commands_that_borrow_slots_are_listed_with_what_they_do_and_can_be_paused() {
    let source = Counting::start(noise(61, 200_000_000), 1_500_000.0, 0);
    let mut operator = Operator::new(&source.source(), QUICK);
    operator.run(&["--page", "127.0.0.1:0"]);
    let borrowers = |operator: &Operator| {
        let status = operator.lab.glance().unwrap_or_default();
        status["borrowers"].as_array().cloned().unwrap_or_default()
    };
    let of = |operator: &Operator, kind: &str| -> Value {
        borrowers(operator).into_iter().find(|borrower| borrower["kind"] == kind).unwrap_or_default()
    };
    assert!(borrowers(&operator).is_empty());

    let url = source.url("f").replace("http://", "http://ada:secret@");
    let mut get = operator.lab.stroll(&["get", &url, "-o", "f"]);
    let get = Background::start({
        get.current_dir(operator.path("")).env("HOME", operator.path(""));
        get
    });
    operator.wait_until("pulls", |operator| of(operator, "get")["state"] == "pulling");
    operator.wait_until("has had slots", |operator| of(operator, "get")["bytes"].as_u64() > Some(100_000));
    let listed = of(&operator, "get");
    let name = format!("get-{}", get.0.id());
    assert_eq!(
        (&listed["name"], &listed["what"]),
        (&Value::from(name.as_str()), &Value::from(source.url("f")))
    );
    assert!(listed["since_s"].as_f64().unwrap() > 0.0 && listed["slots"].as_u64() > Some(0), "{listed}");
    assert!(!operator.lab.glance().unwrap().to_string().contains("secret"));
    assert!(status(&operator.lab, &[]).1.contains(&name));

    // A second one waits while the first one pulls: nobody else has the token.
    let second = Background::start(operator.lab.stroll(&["exec", "--", "sleep", "1000"]));
    operator.wait_until("waits", |operator| of(operator, "exec")["state"] == "waiting");
    assert_eq!(of(&operator, "exec")["what"], "sleep", "what follows may be secret");
    operator.lab.succeeds(&["pause", &name]);
    operator.wait_until("hangs", |operator| of(operator, "get")["state"] == "paused");
    operator.wait_until("runs alone", |operator| of(operator, "exec")["state"] == "pulling");
    operator.lab.succeeds(&["resume", &name]);
    operator.wait_until("goes on", |operator| of(operator, "get")["state"] == "pulling");

    // Who has ended, by whatever way, is not listed any more.
    drop((get, second));
    operator.wait_until("forgets them", |operator| borrowers(operator).is_empty());
}
