//! `stroll run` with jobs of the settings, as an operator meets it: what the jobs bring, how they follow the settings, and
//! what the running member answers to `pause`, `resume`, `bwlimit`, signals, its service manager and other users.

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

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use counting::Counting;
use desk::noise;
use lab::{Lab, found, join};
use operator::{Operator, PATIENCE, wait_until};
use serde_json::Value;
use web::{Kind, Web};

/// Long enough that a pull is cut now and then, short enough that a test sees many.
const SLOTS: &[&str] = &["--slot", "1s", "--skip", "50ms", "--capacity", "4"];

/// What the source sends, at most.
const BYTES_PER_SEC: f64 = 1_500_000.0;

/// A member of a circle around this web server.
fn beside(web: &Web) -> Operator {
    Operator::new(&web.http("").to_string(), SLOTS)
}

/// The table of a mirror that looks every second.
fn mirror(web: &Web, name: &str, folder: &str, operator: &Operator) -> String {
    let (url, to) = (web.http(folder), operator.quoted(name));
    format!("[[mirror]]\nname = {name:?}\nurl = \"{url}\"\nto = {to}\nevery = \"1s\"\n")
}

/// The table of a subscription to one file that grows.
fn follow(source: &Counting, name: &str, operator: &Operator) -> String {
    let (url, to) = (source.url(name), operator.quoted(name));
    format!(
        "[[subscribe]]\nname = {name:?}\nurl = {url:?}\nto = {to}\nfollow = true\nsince = \"all\"\npoll = \"1s\"\n"
    )
}

// --- what jobs do ---------------------------------------------------------------------------------------------------

#[test]
fn the_three_kinds_of_jobs_do_their_work_in_slots() {
    let web = Web::start(Kind::Nginx);
    let files: Vec<Vec<u8>> = (1..=3).map(|n| noise(n, 200_000)).collect();
    web.put("stream/a", &files[0], 1_000);
    web.put("stream/b", &files[1], 900);
    web.put("tree/below/c", &files[2], 1_000);
    let mut operator = beside(&web);
    let (stream, note) = (operator.quoted("stream"), operator.path("note"));
    let url = web.http("stream/");
    operator.set(&format!(
        "[[subscribe]]\nurl = \"{url}\"\nto = {stream}\nsince = \"all\"\npoll = \"1s\"\nsettle = \"0s\"\n\
         {}[[exec]]\nname = \"note\"\ncommand = [\"sh\", \"-c\", \"echo once >> {}\"]\n",
        mirror(&web, "tree", "tree/", &operator),
        note.display(),
    ));
    operator.run(&[]);
    for (name, bytes) in [("stream/a", &files[0]), ("stream/b", &files[1]), ("tree/below/c", &files[2])] {
        operator.wait_until(name, |operator| fs::read(operator.path(name)).is_ok_and(|got| got == *bytes));
    }
    operator.wait_until("noted", |_| fs::read_to_string(&note).is_ok_and(|text| text == "once\n"));
    // What appears later comes, too.
    web.put("stream/d", &files[2], 1);
    operator.wait_until("d", |operator| fs::read(operator.path("stream/d")).is_ok_and(|got| got == files[2]));
    let jobs = operator.jobs();
    let kinds: Vec<&str> = jobs.iter().filter_map(|job| job["kind"].as_str()).collect();
    assert_eq!(kinds.len(), 3, "{jobs:?}");
    assert!(["subscribe", "mirror", "exec"].iter().all(|kind| kinds.contains(kind)), "{kinds:?}");
    let subscription = operator.job("stream").unwrap();
    assert_eq!((&subscription["files"], &subscription["bytes"]), (&Value::from(3), &Value::from(600_000)));
    // Done and without a schedule: it was done once.
    assert_eq!(operator.job("note").unwrap()["state"], "stopped");
    operator.wait_until("had slots", |operator| operator.lab.counter("slots") >= 3);
    let (code, log) = operator.end();
    assert_eq!(code, Some(0), "{log}");
    assert_eq!(fs::read_to_string(&note).unwrap(), "once\n");
}

/// It kept the turn in which its program could not be started, and was given no other one, ever.
#[test]
fn a_command_that_cannot_be_started_costs_nobody_a_slot_and_runs_once_it_can_be() {
    let web = Web::start(Kind::Nginx);
    web.put("tree/a", b"a", 1_000);
    let mut operator = beside(&web);
    let (program, note) = (operator.path("later"), operator.path("note"));
    operator.set(&format!(
        "{}[[exec]]\nname = \"later\"\ncommand = [{}]\n",
        mirror(&web, "tree", "tree/", &operator),
        operator.quoted("later"),
    ));
    operator.run(&[]);
    let state = |operator: &Operator| operator.job("later").map(|job| job["state"].clone());
    operator.wait_until("fails", |operator| state(operator) == Some("retrying".into()));
    let check = operator.lab.output(&["status", "--check"]);
    assert_eq!(check.status.code(), Some(1));
    let said = String::from_utf8(check.stdout).unwrap();
    assert!(said.starts_with("STROLL WARNING - ") && said.contains("later [retrying]: "), "{said}");
    // Long enough that a turn which it keeps would be missed.
    let listed = operator.count("tree", "listed");
    operator.wait_until("the other job goes on", |operator| operator.count("tree", "listed") >= listed + 4);
    assert!(!operator.log().contains("does not let go"), "{}", operator.log());

    // Written somewhere else first: a program that is still open for writing cannot be started either.
    let draft = operator.path("draft");
    fs::write(&draft, format!("#!/bin/sh\necho ran >> {}\n", note.display())).unwrap();
    fs::set_permissions(&draft, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(&draft, &program).unwrap();
    operator.wait_until("ran", |_| fs::read_to_string(&note).is_ok_and(|text| text == "ran\n"));
    operator.wait_until("has ended", |operator| state(operator) == Some("stopped".into()));
    assert!(!operator.log().contains("does not let go"), "{}", operator.log());
    // What went wrong before is mended.
    let check = operator.lab.output(&["status", "--check"]);
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stderr));
}

#[test]
fn a_more_urgent_job_has_every_slot_first() {
    let bytes = noise(41, 6_000_000);
    let source = Counting::start(bytes.clone(), BYTES_PER_SEC, 0);
    let mut operator = Operator::new(&source.source(), SLOTS);
    // By their names, and in the file, the other way round.
    let (low, high) = (follow(&source, "a", &operator), follow(&source, "b", &operator));
    operator.set(&format!("{low}{high}priority = 5\n"));
    operator.run(&[]);
    let is_there = |name: &str| fs::read(operator.path(name).join(name)).is_ok_and(|got| got == bytes);
    operator.wait_until("pulled both", |_| is_there("a") && is_there("b"));
    let (paths, answers) = (source.paths(), source.answers());
    let first = paths.iter().position(|path| path == "b").unwrap();
    // `b` had all of these slots until it was there; before that, `a` had the slot at the very start at most.
    let reached = |index: usize| answers[index].from + answers[index].bytes >= bytes.len() as u64;
    let last = (0..paths.len()).find(|index| paths[*index] == "b" && reached(*index)).unwrap();
    assert!(last > first, "it took several slots: {paths:?}");
    assert!(paths[first..=last].iter().all(|path| path == "b"), "{paths:?}");
    // A slot of one second carries this much.
    let before: u64 = answers[..first].iter().map(|answer| answer.bytes).sum();
    assert!(before <= 1_800_000, "{before} {paths:?}");
}

// --- the settings change --------------------------------------------------------------------------------------------

#[test]
fn a_hangup_reads_the_settings_again_and_disturbs_only_what_changed() {
    let web = Web::start(Kind::Nginx);
    for folder in ["same", "changed", "other", "removed", "new"] {
        web.put(&format!("{folder}/f"), folder.as_bytes(), 1_000);
    }
    let mut operator = beside(&web);
    let table = |name: &str, folder: &str| mirror(&web, name, folder, &operator);
    let (same, new) = (table("same", "same/"), table("new", "new/"));
    let (before, after) = (table("changed", "changed/"), table("changed", "other/"));
    operator.set(&format!("{same}{before}{}", table("removed", "removed/")));
    let missing = format!("{same}{after}{new}[[mirror]]\nname = \"nowhere\"\n");
    operator.run(&[]);
    let has = |operator: &Operator, name: &str, text: &str| {
        fs::read_to_string(operator.path(name)).is_ok_and(|got| got == text)
    };
    operator.wait_until("pulled", |operator| {
        has(operator, "same/f", "same")
            && has(operator, "changed/f", "changed")
            && has(operator, "removed/f", "removed")
    });
    operator.wait_until("looked often", |operator| operator.count("same", "listed") >= 3);
    operator.wait_until("looked often", |operator| operator.count("changed", "listed") >= 3);

    // One job of the new settings makes no sense: none of it is followed.
    operator.set(&missing);
    operator.hang_up();
    operator.wait_until("complained", |operator| operator.log().contains("the settings were not changed"));
    let log = operator.log();
    assert!(log.contains("nowhere") && log.contains("`url`") || log.contains("no circle here"), "{log}");
    assert!(operator.job("new").is_none() && operator.job("removed").is_some());
    assert_eq!(operator.job("changed").unwrap()["source"], web.http("changed/").to_string());

    let listed = operator.count("same", "listed");
    operator.set(&format!("{same}{after}{new}"));
    operator.hang_up();
    operator.wait_until("read them", |operator| operator.log().contains("settings read again"));
    let told = "settings read again: 1 job added, 1 changed, 1 removed, 1 unchanged";
    assert!(operator.log().contains(told), "{}", operator.log());
    operator.wait_until("follows", |operator| {
        has(operator, "changed/f", "other") && has(operator, "new/f", "new")
    });
    assert!(operator.job("removed").is_none(), "{:?}", operator.jobs());
    assert_eq!(operator.job("changed").unwrap()["source"], web.http("other/").to_string());
    assert!(operator.count("same", "listed") >= listed, "the other one began anew");
    assert_eq!(operator.count("same", "files"), 1, "it has not forgotten what it pulled");
    // And goes on.
    let listed = operator.count("same", "listed");
    operator.wait_until("goes on", |operator| operator.count("same", "listed") > listed + 1);
}

#[test]
fn a_hangup_changes_the_rate_and_who_is_told_and_says_what_waits_for_the_next_start() {
    let web = Web::start(Kind::Nginx);
    let frame = noise(45, 20_000_000);
    web.put("same/f", b"f", 1_000);
    web.put("json/frame", &frame, 200);
    let constants = [SLOTS, &["--retention", "5m"]].concat();
    let mut operator = Operator::new(&web.http("").to_string(), &constants);
    let (same, notes) = (mirror(&web, "same", "same/", &operator), operator.path("notes"));
    operator.set(&same);
    operator.run(&[]);
    operator.wait_until("pulled", |operator| operator.count("same", "files") == 1);

    // The new job is so far behind that it is told of, to the new hook. It would not be if the new rate did not hold.
    let (url, to) = (web.http("json/"), operator.quoted("stream"));
    let hook = format!("echo $STROLL_EVENT $STROLL_JOB >> {}", notes.display());
    let settings = |bwlimit: &str| {
        format!(
            "[transfer]\nbwlimit = {bwlimit:?}\n[run]\npage = \"127.0.0.1:0\"\non_overload = {hook:?}\n{same}\
             [[subscribe]]\nname = \"frames\"\nurl = \"{url}\"\nto = {to}\nsince = \"all\"\npoll = \"1s\"\nsettle = \"1s\"\n"
        )
    };
    operator.set(&settings("50k"));
    operator.hang_up();
    operator.wait_until("ran the new hook", |_| {
        fs::read_to_string(&notes).is_ok_and(|text| text.lines().any(|line| line == "retention frames"))
    });
    let log = operator.log();
    assert!(log.contains("settings read again: 1 job added, 1 unchanged; limit 50k"), "{log}");
    assert!(log.contains("the status page stays as it is until the member is started again"), "{log}");
    assert!(!log.contains("status page at"), "{log}");
    assert!(!operator.path("stream/frame").exists());

    let bytes = operator.count("frames", "bytes");
    operator.set(&settings("off"));
    operator.hang_up();
    operator.wait_until("pulls as fast as it can", |operator| {
        fs::read(operator.path("stream/frame")).is_ok_and(|got| got == frame)
    });
    // Nobody began anew: what was counted before still counts.
    assert!(operator.count("frames", "bytes") >= bytes.max(frame.len() as u64), "{:?}", operator.jobs());
    assert_eq!(operator.count("same", "files"), 1, "{:?}", operator.jobs());

    // What was ordered by hand holds until the settings say something else than they did.
    operator.lab.succeeds(&["bwlimit", "1k"]);
    web.put("json/next", &frame, 1);
    let seen = operator.log().matches("settings read again").count();
    operator.hang_up();
    operator.wait_until("read them again", |operator| {
        operator.log().matches("settings read again").count() > seen
    });
    operator.wait_until("begins the next", |operator| operator.path("stream/next.stroll.part").exists());
    operator.set(&settings("100M"));
    operator.hang_up();
    operator.wait_until("pulls fast again", |operator| operator.path("stream/next").exists());
}

// --- settings that make no sense --------------------------------------------------------------------------------------

#[test]
fn settings_that_make_no_sense_are_named_and_end_with_exit_code_2() {
    let web = Web::start(Kind::Nginx);
    let operator = beside(&web);
    let url = web.http("s/").to_string();
    let table = |kind: &str, more: &str| format!("[[{kind}]]\nurl = \"{url}\"\nto = \"/tmp/x\"\n{more}\n");
    let elsewhere = "[[mirror]]\nurl = \"http://192.0.2.1/\"\nto = \"/tmp/x\"\n";
    let cases = [
        (table("subscribe", "sinse = \"all\""), vec!["sinse"]),
        (table("mirror", "evry = \"6h\""), vec!["evry"]),
        ("[[exec]]\ncommand = [\"true\"]\ncomand = 1\n".to_owned(), vec!["comand"]),
        (table("mirror", "every = \"6 parsecs\""), vec!["every", "parsecs"]),
        (table("subscribe", "poll = \"1 furlong\""), vec!["poll", "furlong"]),
        (table("mirror", "max_size = \"many\""), vec!["max-size", "many"]),
        ("[[exec]]\nname = \"e\"\n".to_owned(), vec!["exec e", "`command`"]),
        (table("mirror", "circle = \"pisces\""), vec!["no circle pisces"]),
        (elsewhere.to_owned(), vec!["mirror x", "`circle = …`"]),
        (table("mirror", "") + &table("subscribe", ""), vec!["two jobs", "`name = …`"]),
        (table("mirror", "every = \"6h\"\nschedule = \"@daily\""), vec!["schedule"]),
        ("[run]\npage = \"here\"\n".to_owned(), vec!["page"]),
        ("[run]\nwebhook = \"nowhere\"\n".to_owned(), vec!["webhook"]),
        ("[notify]\nwebhook = \"nowhere\"\n".to_owned(), vec!["webhook"]),
        ("[notify]\nwebhok = \"http://h/\"\n".to_owned(), vec!["webhok"]),
    ];
    for (text, names) in cases {
        operator.set(&text);
        let output = operator.command(&[]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}{said}");
        for name in names {
            assert!(said.contains(name), "{name}: {said}");
        }
    }
}

// --- orders ---------------------------------------------------------------------------------------------------------

#[test]
fn a_paused_job_stands_still_and_goes_on_when_it_is_resumed() {
    let source = Counting::start(noise(42, 200_000_000), BYTES_PER_SEC, 0);
    let mut operator = Operator::new(&source.source(), SLOTS);
    operator.set(&follow(&source, "f", &operator));
    operator.run(&[]);
    let state = |operator: &Operator| operator.job("f").unwrap()["state"].as_str().unwrap().to_owned();
    for which in [&["pause"][..], &["pause", "f"]] {
        let begun = source.bytes();
        operator.wait_until("pulls", |_| source.bytes() > begun + 500_000);
        operator.lab.succeeds(which);
        operator.wait_until("hangs", |operator| state(operator) == "paused");
        // What was on its way has come.
        thread::sleep(Duration::from_millis(500));
        let (bytes, requests) = (source.bytes(), source.requests());
        thread::sleep(Duration::from_secs(3));
        assert_eq!((source.bytes(), source.requests()), (bytes, requests), "it pulls all the same");
        operator.lab.succeeds(&["resume"]);
        operator.wait_until("goes on", |operator| {
            source.bytes() > bytes + 500_000 && state(operator) != "paused"
        });
    }
    operator.lab.succeeds(&["pause", "f"]);
    operator.lab.succeeds(&["resume", "f"]);
    let bytes = source.bytes();
    operator.wait_until("goes on", |_| source.bytes() > bytes + 500_000);
    for verb in ["pause", "resume"] {
        let output = operator.lab.output(&[verb, "nobody"]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("no job nobody") && said.contains("stroll status"), "{said}");
    }
    assert_ne!(state(&operator), "paused", "and nothing was paused by that");
}

#[test]
fn the_rate_is_changed_while_jobs_pull() {
    let source = Counting::start(noise(43, 200_000_000), 4.0 * BYTES_PER_SEC, 0);
    let mut operator = Operator::new(&source.source(), SLOTS);
    operator.set(&follow(&source, "f", &operator));
    operator.run(&[]);
    let over_some_seconds = || {
        let before = source.bytes();
        thread::sleep(Duration::from_secs(4));
        source.bytes() - before
    };
    operator.wait_until("pulls", |_| source.bytes() > 2_000_000);
    operator.lab.succeeds(&["bwlimit", "100k"]);
    thread::sleep(Duration::from_secs(2));
    let slow = over_some_seconds();
    // 400 KiB, and what buffers hold.
    assert!(slow < 1_500_000, "{slow} bytes in 4 s");
    assert!(slow > 0, "it stands still");
    operator.lab.succeeds(&["bwlimit", "off"]);
    let bytes = source.bytes();
    operator.wait_until("is fast again", |_| source.bytes() > bytes + 3_000_000);
    let output = operator.lab.output(&["bwlimit", "fast"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("bwlimit") && said.contains("fast"), "{said}");
}

/// It held for the member's own jobs only, and what others brought in its slots was counted nowhere.
#[test]
fn a_command_that_borrows_slots_keeps_to_the_members_rate_and_is_counted() {
    let bytes = noise(46, 8_000_000);
    let source = Counting::start(bytes.clone(), 4.0 * BYTES_PER_SEC, 0);
    let mut operator = Operator::new(&source.source(), SLOTS);
    operator.set("[run]\npage = \"127.0.0.1:0\"\n");
    operator.run(&[]);
    operator.lab.succeeds(&["bwlimit", "100k"]);
    let to = operator.path("f").display().to_string();
    let mut get = operator.lab.stroll(&["get", &source.url("f"), "-o", &to, "--quiet"]);
    let mut get = get.stdin(Stdio::null()).spawn().unwrap();
    operator.wait_until("pulls", |_| source.bytes() > 0);
    thread::sleep(Duration::from_secs(6));
    // 600 KiB in the slots of that time at most, and what buffers hold.
    assert!(source.bytes() < 2_000_000, "{} bytes in 6 s", source.bytes());
    operator.lab.succeeds(&["bwlimit", "off"]);
    assert_eq!(operator::code_of(&mut get), Some(0));
    assert_eq!(fs::read(&to).unwrap(), bytes);
    let counted = |operator: &Operator| operator.metric("stroll_bytes_transferred_total{job=\"(borrowed)\"}");
    operator.wait_until("counted it", |operator| counted(operator) == Some(8_000_000.0));
    operator.wait_until("is gone", |operator| {
        operator.lab.glance().unwrap()["borrowers"] == serde_json::json!([])
    });
    assert_eq!(counted(&operator), Some(8_000_000.0), "what came has come");
}

#[test]
fn orders_to_a_member_that_does_not_run_say_how_to_start_it() {
    let operator = Operator::new("http://127.0.0.1:1/", SLOTS);
    for order in [&["pause"][..], &["resume"], &["bwlimit", "1M"], &["status"]] {
        let output = operator.lab.output(order);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{order:?}");
        assert!(said.contains("stroll run"), "{order:?}: {said}");
    }
}

/// A process that is stopped takes connections and never says a word: who asked it waited for ever, and did not hear signals.
#[test]
fn a_member_that_is_frozen_keeps_nobody_waiting() {
    let mut operator = Operator::new("http://127.0.0.1:1/", SLOTS);
    operator.run(&[]);
    operator.lab.signal("STOP");
    // Whoever runs the tests with `nohup` would have the commands ignore hangups, too.
    operator.lab.wrapper = ["/usr/bin/env", "--default-signal=HUP"].map(str::to_owned).into();
    let folder = operator.path("there").display().to_string();
    let start = |args: &[&str]| {
        let mut command = operator.lab.stroll(args);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let begun = Instant::now();
    let asked: Vec<(&str, Child)> = [
        &["get", "http://127.0.0.1:1/f"][..],
        &["mirror", "http://127.0.0.1:1/", &folder],
        &["subscribe", "http://127.0.0.1:1/", &folder],
        &["exec", "--", "true"],
        &["pause"],
        &["bwlimit", "1M"],
        &["status"],
    ]
    .map(|args| (args[0], start(args)))
    .into();
    for (verb, mut child) in asked {
        let code = operator::code_of(&mut child);
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(code, Some(13), "{verb}: {said}");
        assert!(said.contains("does not answer") && said.contains("SIGCONT"), "{verb}: {said}");
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!(operator.lab.output(&["status", "--check"]).status.code(), Some(3));

    // A signal is heard while it waits.
    for (signal, bit) in [("TERM", 14), ("INT", 1), ("HUP", 0)] {
        let mut child = start(&["get", "http://127.0.0.1:1/f"]);
        let status = format!("/proc/{}/status", child.id());
        let caught = |text: String| {
            let mask =
                text.lines().find_map(|line| line.strip_prefix("SigCgt:").map(str::trim)).map(str::to_owned);
            mask.is_some_and(|mask| u64::from_str_radix(&mask, 16).unwrap() >> bit & 1 == 1)
        };
        wait_until("it listens", || fs::read_to_string(&status).is_ok_and(caught));
        let begun = Instant::now();
        assert!(
            Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().unwrap().success()
        );
        assert_eq!(operator::code_of(&mut child), Some(1), "{signal}");
        assert!(begun.elapsed() < Duration::from_secs(3), "{signal}: {:?}", begun.elapsed());
    }
    operator.lab.signal("CONT");
}

#[test]
fn the_doctor_asks_the_source_by_order_only_and_says_what_it_can_do() {
    let source = Counting::start(noise(47, 10_000), BYTES_PER_SEC, 0);
    let mut operator = Operator::new(&source.url("f"), SLOTS);
    operator.run(&[]);
    let findings = |operator: &Operator, args: &[&str]| {
        let report: Value = serde_json::from_str(&operator.lab.succeeds(args)).unwrap();
        assert_eq!(report["ok"], true, "{report}");
        let all = report["findings"].as_array().unwrap().iter();
        all.map(|finding| format!("{}: {}", finding["level"], finding["what"])).collect::<Vec<_>>().join("\n")
    };
    let health = findings(&operator, &["doctor", "--json"]);
    assert!(health.contains("the member runs") && !health.contains("from the middle"), "{health}");
    assert_eq!(source.requests(), 0, "nobody asked for it");
    let health = findings(&operator, &["doctor", "--json", "--source"]);
    assert!(health.contains("\"well\"") && health.contains("can be pulled from the middle"), "{health}");
    assert!(health.contains("10000 bytes"), "{health}");
    assert_eq!(source.requests(), 1, "one byte of one file");

    let web = Web::start(Kind::Nginx);
    web.put("json/f", b"frame", 200);
    let mut operator = Operator::new(&web.http("json/").to_string(), SLOTS);
    operator.run(&[]);
    let health = operator.lab.succeeds(&["doctor", "--source"]);
    for line in ["lists 1 entry", "tells sizes to the byte", "can be pulled from the middle"] {
        assert!(health.lines().any(|said| said.starts_with("✓ ") && said.contains(line)), "{line}: {health}");
    }
    drop(web);
    let output = operator.lab.output(&["doctor", "--source"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(!output.status.success() && said.contains("✗ the source http://"), "{said}");
}

// --- others on the machine ------------------------------------------------------------------------------------------

#[test]
fn the_control_socket_is_its_owners_alone() {
    let mut operator = Operator::new("http://127.0.0.1:1/", SLOTS);
    operator.run(&[]);
    let socket = operator.lab.home.join("virgo/control.sock");
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&socket), 0o600);
    assert_eq!(mode(socket.parent().unwrap()) & 0o077, 0, "{:o}", mode(socket.parent().unwrap()));
    operator.lab.signal("TERM");
    operator.wait_until("took it away", |_| !socket.exists());
}

#[test]
#[ignore = "needs root: it acts as another user"]
fn another_user_learns_nothing_from_a_member() {
    let mut operator = Operator::new("http://127.0.0.1:1/", SLOTS);
    operator.run(&[]);
    // Where everybody can run it; and the way to the home is open, so that it is the home that is closed.
    let open = tempfile::Builder::new().prefix("stroll-open-").tempdir().unwrap();
    let open_to_all = || fs::Permissions::from_mode(0o755);
    fs::set_permissions(open.path(), open_to_all()).unwrap();
    fs::set_permissions(operator.path(""), open_to_all()).unwrap();
    let program = open.path().join("stroll");
    fs::copy(env!("CARGO_BIN_EXE_stroll"), &program).unwrap();
    let nobody = |args: &[&str]| {
        let mut command = Command::new(&program);
        command.uid(65_534).gid(65_534).env("STROLL_HOME", &operator.lab.home).args(args).output().unwrap()
    };
    assert!(nobody(&["--version"]).status.success(), "it can run at all");
    assert!(operator.lab.status().is_some(), "the owner is answered");
    for order in [&["status"][..], &["status", "--json"], &["pause"], &["bwlimit", "1k"]] {
        let output = nobody(order);
        assert!(!output.status.success(), "{order:?}");
        assert!(output.stdout.is_empty(), "{order:?}: {}", String::from_utf8_lossy(&output.stdout));
    }
}

#[test]
fn the_service_manager_hears_when_it_is_ready_and_when_it_ends() {
    let mut operator = Operator::new("http://127.0.0.1:1/", SLOTS);
    let at = operator.path("notify.sock");
    let manager = UnixDatagram::bind(&at).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let hears = |what: &str| {
        let mut said = [0; 4_096];
        let len = manager.recv(&mut said).unwrap();
        let text = String::from_utf8_lossy(&said[..len]).into_owned();
        assert!(text.lines().any(|line| line == what), "{what}: {text}");
    };
    let mut command = operator.command(&[]);
    command.env("NOTIFY_SOCKET", &at);
    operator.start(command);
    hears("READY=1");
    assert!(operator.lab.glance().is_some(), "ready means that it answers");
    operator.lab.signal("TERM");
    hears("STOPPING=1");
    let (code, log) = operator.ended();
    assert_eq!(code, Some(0), "{log}");
}

// --- overload -------------------------------------------------------------------------------------------------------

/// Takes one post, and gives its body.
fn webhook() -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let (tell, posts) = mpsc::channel();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut len, mut line) = (0, String::new());
            while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                if let Some(said) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    len = said.trim().parse().unwrap();
                }
                line.clear();
            }
            let mut body = vec![0; len];
            reader.read_exact(&mut body).unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
            if tell.send(String::from_utf8(body).unwrap()).is_err() {
                return;
            }
        }
    });
    (url, posts)
}

/// Twice as many members with work as the circle was laid out for.
#[test]
fn an_overloaded_circle_is_told_to_a_command_and_a_webhook_and_ends_who_asked_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut labs: Vec<Lab> = (0..4).map(|n| Lab::new(folder.path(), &format!("lab-{n}"))).collect();
    let (url, posts) = webhook();
    let levels = folder.path().join("levels");
    let hook = format!(
        "printf '%s %s %s\\n' \"$STROLL_EVENT\" \"$STROLL_LEVEL\" \"$STROLL_CIRCLE\" >> {}",
        levels.display()
    );
    let later = folder.path().join("later.toml").display().to_string();
    fs::write(&later, "").unwrap();
    let (founder, others) = labs.split_first_mut().unwrap();
    found(founder, "http://127.0.0.1:1/", &["--slot", "400ms", "--skip", "20ms", "--capacity", "2"]);
    founder.run_with(&["--hold", "--on-overload", &hook, "--webhook", &url]);
    for (number, lab) in others.iter_mut().enumerate() {
        join(founder, lab);
        let more = if number == 0 { vec!["--fail-on-overload"] } else { vec!["--config", later.as_str()] };
        lab.run_with(&[vec!["--hold"], more].concat());
    }
    let told = || fs::read_to_string(&levels).unwrap_or_default();
    wait_until("the command ran", || told().lines().any(|line| line == "load overloaded virgo"));
    let overloaded = |post: &Value| post["level"] == "overloaded";
    let post =
        posts.iter().map(|post| serde_json::from_str::<Value>(&post).unwrap()).find(overloaded).unwrap();
    assert_eq!((&post["version"], &post["event"]), (&Value::from(1), &Value::from("load")));
    assert_eq!(post["circle"], "virgo");
    assert!(post["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{post}");
    // The one that wanted to end so has seen the same, or will.
    let mut process = labs[1].process.take().unwrap();
    let code = operator::code_of(&mut process);
    assert_eq!(code, Some(15), "{}", labs[1].log_text());
    assert!(labs[1].log_text().contains("the circle is overloaded"), "{}", labs[1].log_text());
    // And who wants it only now need not wait until it is judged anew.
    fs::write(&later, "[run]\nfail_on_overload = true\n").unwrap();
    labs[2].signal("HUP");
    let mut process = labs[2].process.take().unwrap();
    assert_eq!(operator::code_of(&mut process), Some(15), "{}", labs[2].log_text());
}

/// A job that is too slow for its source: the stream's data will be gone before it was pulled.
#[test]
fn data_that_the_source_is_about_to_flush_is_told_to_the_log_a_command_a_webhook_and_the_metrics() {
    let web = Web::start(Kind::Nginx);
    let frame = noise(44, 20_000_000);
    // Its index is JSON, so that the age of the file is known when it is first seen.
    web.put("json/frame", &frame, 200);
    let constants = [SLOTS, &["--retention", "5m"]].concat();
    let mut operator = Operator::new(&web.http("").to_string(), &constants);
    let ((webhook, posts), notes) = (webhook(), operator.path("notes"));
    let (url, to, webhook) = (web.http("json/"), operator.quoted("stream"), format!("{webhook:?}"));
    let hook = format!("echo $STROLL_EVENT $STROLL_LEVEL $STROLL_JOB: $STROLL_REASON >> {}", notes.display());
    operator.set(&format!(
        "[transfer]\nbwlimit = \"50k\"\n[run]\npage = \"127.0.0.1:0\"\non_overload = {hook:?}\nwebhook = {webhook}\n\
         [[subscribe]]\nname = \"frames\"\nurl = \"{url}\"\nto = {to}\nsince = \"all\"\npoll = \"1s\"\nsettle = \"1s\"\n"
    ));
    operator.run(&[]);
    // In words, and the same everywhere. Other notices are about the load.
    let is_told = |line: &str| line.contains(" behind a source that keeps 5m");
    let told = || fs::read_to_string(&notes).unwrap_or_default();
    operator.wait_until("ran the command", |_| {
        told().lines().any(|line| line.starts_with("retention lagging frames: ") && is_told(line))
    });
    let mut posts = posts.iter().map(|post| serde_json::from_str::<Value>(&post).unwrap());
    let post = posts.find(|post| post["event"] == "retention").unwrap();
    assert_eq!((&post["circle"], &post["job"]), (&Value::from("virgo"), &Value::from("frames")));
    assert!(is_told(post["reason"].as_str().unwrap()), "{post}");
    let log = operator.log();
    assert!(
        log.lines().any(|line| line.contains("WARN") && line.contains("frames") && is_told(line)),
        "{log}"
    );
    assert_eq!(operator.metric("stroll_retention_seconds"), Some(300.0));
    let lag_s = operator.metric("stroll_lag_seconds{job=\"frames\"}").unwrap();
    assert!(lag_s >= 150.0, "{lag_s}");
    let check = operator.lab.output(&["status", "--check"]);
    let said = String::from_utf8(check.stdout).unwrap();
    assert!(matches!(check.status.code(), Some(1 | 2)), "{said}");
    assert!(said.contains("frames [") && is_told(&said), "{said}");

    // It catches up: the lag is gone, and what was told is not told again.
    operator.lab.succeeds(&["bwlimit", "off"]);
    operator.wait_until("caught up", |operator| {
        operator.metric("stroll_lag_seconds{job=\"frames\"}") == Some(0.0)
    });
    assert_eq!(fs::read(operator.path("stream/frame")).unwrap(), frame);
    assert!(operator.lab.output(&["status", "--check"]).status.success());
    assert_eq!(told().matches("retention").count(), 1, "{}", told());
}

/// A lag of zero was told while nobody could look at the source, and so nobody heard that its data was being lost.
#[test]
fn a_source_that_cannot_be_looked_at_is_told_of_before_its_data_is_gone() {
    let web = Web::start(Kind::Nginx);
    web.put("json/frame", b"frame", 200);
    let constants = [SLOTS, &["--retention", "40s"]].concat();
    let mut operator = Operator::new(&web.http("").to_string(), &constants);
    let (url, to, notes) = (web.http("json/"), operator.quoted("stream"), operator.path("notes"));
    let hook = format!("echo $STROLL_EVENT $STROLL_JOB: $STROLL_REASON >> {}", notes.display());
    operator.set(&format!(
        "[run]\npage = \"127.0.0.1:0\"\non_overload = {hook:?}\n\
         [[subscribe]]\nname = \"frames\"\nurl = \"{url}\"\nto = {to}\nsince = \"all\"\npoll = \"1s\"\nsettle = \"0s\"\n"
    ));
    operator.run(&[]);
    operator.wait_until("delivered", |operator| {
        operator.path("stream/frame").exists() && operator.job("frames").unwrap()["lag_s"] == 0.0
    });
    let unseen = |operator: &Operator| operator.metric("stroll_unseen_seconds{job=\"frames\"}");
    assert!(unseen(&operator).is_some_and(|unseen_s| unseen_s < 15.0), "{:?}", unseen(&operator));
    drop(web);
    let told = || fs::read_to_string(&notes).unwrap_or_default();
    let is_told = |line: &str| {
        line.starts_with("retention frames: has not seen its source for ")
            && line.contains(", which keeps 40s")
    };
    operator.wait_until("is told", |_| told().lines().any(is_told));
    let job = operator.job("frames").unwrap();
    assert!(job["lag_s"] == 0.0 && job["unseen_s"].as_f64().unwrap() >= 20.0, "{job}");
    let check = operator.lab.output(&["status", "--check"]);
    assert_eq!(check.status.code(), Some(1), "{}", String::from_utf8_lossy(&check.stderr));
}

/// Nobody knows how far behind a job is that has never seen its source.
#[test]
fn the_lag_of_a_job_that_never_saw_its_source_is_unknown() {
    let mut operator = Operator::new("http://127.0.0.1:1/", SLOTS);
    let to = operator.quoted("stream");
    operator.set(&format!(
        "[[subscribe]]\nname = \"frames\"\nurl = \"http://127.0.0.1:1/\"\nto = {to}\nsince = \"all\"\n"
    ));
    operator.run(&[]);
    operator.wait_until("failed", |operator| operator.count("frames", "errors") > 0);
    let job = operator.job("frames").unwrap();
    assert!(job["lag_s"].is_null() && job["unseen_s"].is_f64(), "{job}");
    assert!(operator.lab.succeeds(&["status"]).contains("lag ?"));
}

/// Files with names that cannot be used never come: without this the job would look as if nothing were missing.
#[test]
fn refused_names_are_counted_in_the_status_the_metrics_and_on_the_page() {
    let web = Web::start(Kind::Nginx);
    for minute in 0..6 {
        web.put(&format!("stream/frame-12:0{minute}.gwf"), b"12345", 1_000);
        web.put(&format!("tree/frame-12:0{minute}.gwf"), b"12345", 1_000);
    }
    let mut operator = beside(&web);
    let (url, stream) = (web.http("stream/"), operator.quoted("stream"));
    operator.set(&format!(
        "[run]\npage = \"127.0.0.1:0\"\n\
         [[subscribe]]\nurl = \"{url}\"\nto = {stream}\nsince = \"all\"\npoll = \"1s\"\nportable_names = true\n\
         {}portable_names = true\n",
        mirror(&web, "tree", "tree/", &operator),
    ));
    operator.run(&[]);
    for job in ["stream", "tree"] {
        operator.wait_until(job, |operator| operator.count(job, "refused") == 6);
    }
    assert!(operator.lab.succeeds(&["status"]).contains("6 names refused"));
    assert_eq!(operator.metric("stroll_refused_names{job=\"stream\"}"), Some(6.0));
    assert_eq!(operator.job("tree").unwrap()["files"], 0);
}

/// Serves a folder with one file that is at another host.
fn redirecting(to: &str) -> String {
    let (listener, to) = (TcpListener::bind("127.0.0.1:0").unwrap(), to.to_owned());
    let url = format!("http://{}/", listener.local_addr().unwrap());
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
            let first = lines.next().unwrap_or_default();
            while lines.next().is_some_and(|line| !line.is_empty()) {}
            let page = "<title>Index of /</title><pre><a href=\"../\">../</a>\n<a href=\"f\">f</a>  06-Nov-1994 08:49  5\n</pre>";
            let (status, body) = match first.split(' ').nth(1) {
                Some(path) if path.ends_with('/') => ("200 OK\r\ncontent-type: text/html".to_owned(), page),
                _ => (format!("302 Found\r\nlocation: {to}f"), ""),
            };
            let length = body.len();
            let head = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
            let body = if first.starts_with("HEAD ") { "" } else { body };
            let _ = stream.write_all(format!("{head}{body}").as_bytes());
        }
    });
    url
}

#[test]
fn jobs_follow_redirects_to_the_hosts_of_the_settings_only() {
    let web = Web::start(Kind::Nginx);
    web.put("f", b"12345", 1_000_000);
    let source = redirecting(&web.http("").to_string().replace("127.0.0.1", "localhost"));
    for (hosts, is_allowed) in
        [("[\"localhost\"]", true), ("[\"elsewhere.invalid\"]", false), ("[\"*\"]", true)]
    {
        let mut operator = Operator::new(&source, SLOTS);
        let (stream, tree) = (operator.quoted("stream"), operator.quoted("tree"));
        operator.set(&format!(
            "[transfer]\nfollow_to = {hosts}\nretries = 0\n\
             [[subscribe]]\nname = \"stream\"\nurl = \"{source}\"\nto = {stream}\nsince = \"all\"\npoll = \"1s\"\nsettle = \"0s\"\n\
             [[mirror]]\nname = \"tree\"\nurl = \"{source}\"\nto = {tree}\nevery = \"1s\"\n"
        ));
        operator.run(&[]);
        for job in ["stream", "tree"] {
            if is_allowed {
                let file = operator.path(job).join("f");
                operator.wait_until(job, |_| fs::read(&file).is_ok_and(|bytes| bytes == b"12345"));
            } else {
                operator.wait_until(job, |operator| operator.count(job, "errors") > 0);
                assert!(!operator.path(job).join("f").exists(), "{job} with {hosts}");
            }
        }
    }
}
