//! `stroll status` for monitors: the one line and the exit codes of `--check`, and `--fail-on-overload`.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]
#![allow(clippy::disallowed_methods, reason = "these tests are about real time")]

#[path = "common/lab.rs"]
mod lab;
#[path = "common/operator.rs"]
mod operator;
#[path = "common/web.rs"]
mod web;

use lab::{Lab, QUICK, circle};
use operator::Operator;
use web::{Kind, Web};

/// The exit code, and what was said: to standard output if all is well, to standard error otherwise.
fn status(lab: &Lab, flags: &[&str]) -> (Option<i32>, String, String) {
    let output = lab.output(&[&["status"], flags].concat());
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_member_that_does_not_run_is_down() {
    let operator = Operator::new("http://127.0.0.1:1/", QUICK);
    let (code, out, said) = status(&operator.lab, &["--check"]);
    assert_eq!((code, out.as_str()), (Some(2), ""), "{said}");
    assert!(said.contains("down: ") && said.contains("stroll run"), "{said}");
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
    let (code, out, said) = status(&operator.lab, &["--check", "--fail-on-overload"]);
    assert_eq!((code, said.as_str()), (Some(0), ""), "{out}");
    assert!(out.starts_with("ok: 1 job, nominal [") && out.lines().count() == 1, "{out}");

    // There is no such folder.
    operator.set(&format!("{good}{bad}"));
    operator.hang_up();
    operator.wait_until("failed", |operator| operator.job("bad").is_some_and(|job| job["state"] == "rtry"));
    let (code, out, said) = status(&operator.lab, &["--check"]);
    assert_eq!((code, out.as_str()), (Some(1), ""), "{said}");
    assert!(said.contains("bad [rtry]") && !said.contains("good"), "{said}");
    // Without `--check` that is nothing to fail of.
    let (code, out, said) = status(&operator.lab, &["--fail-on-overload"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(out.contains("bad") && out.contains("[rtry]"), "{out}");
}

#[test]
fn an_overloaded_circle_fails_who_asked_for_it_and_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    // Twice as many members with work as it was laid out for.
    let labs = circle(folder.path(), 4, &["--slot", "400ms", "--skip", "20ms", "--capacity", "2"]);
    for flags in [&["--fail-on-overload"][..], &["--check", "--fail-on-overload"]] {
        labs[0].wait_until("is overloaded", |lab| status(lab, flags).0 == Some(15));
        let (_, out, said) = status(&labs[0], flags);
        assert!(said.contains("overloaded: "), "{said}");
        assert!(!out.is_empty(), "what there is to show is shown first");
    }
    for flags in [&[][..], &["--check"]] {
        let (code, out, said) = status(&labs[0], flags);
        assert_eq!(code, Some(0), "{said}");
        assert!(out.contains("overloaded"), "{out}");
    }
}
