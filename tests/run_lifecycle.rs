//! A member over several starts: schedules that wait for their time, runs that are remembered, commands that outlive a
//! restart, a control socket and a page that come back, and a source with several addresses.

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
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use counting::Counting;
use desk::noise;
use lab::{Lab, QUICK, found};
use operator::{Operator, PATIENCE, code_of, wait_until};
use serde_json::Value;
use web::{Kind, Web};

/// A time that no test meets.
const NEW_YEAR: &str = "TZ=UTC 0 0 1 1 *";

fn said(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Whether a run of some job is remembered in this state folder.
fn has_record(state: &Path) -> bool {
    fs::read_dir(state.join("runs")).is_ok_and(|mut files| {
        files.any(|file| file.is_ok_and(|file| file.path().extension().is_some_and(|end| end == "json")))
    })
}

/// The status page as a browser gets it.
fn page_of(operator: &Operator) -> String {
    let mut stream = TcpStream::connect(operator.page()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn end(mut child: Child) -> Option<i32> {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-s", "TERM", &pid]).status().unwrap().success());
    code_of(&mut child)
}

// --- schedules --------------------------------------------------------------------------------------------------------

/// A schedule for the night ran at every start, too: by day, while everybody works.
#[test]
fn a_scheduled_job_waits_for_its_time_catches_up_if_asked_and_is_remembered() {
    let web = Web::start(Kind::Nginx);
    web.put("nightly/f", b"nightly", 1_000);
    web.put("often/f", b"often", 1_000);
    let mut operator = Operator::new(&web.http("").to_string(), QUICK);
    let table = |folder: &str, when: &str| {
        let (url, to) = (web.http(&format!("{folder}/")), operator.quoted(folder));
        format!("[[mirror]]\nurl = \"{url}\"\nto = {to}\n{when}\n")
    };
    let page = "[run]\npage = \"127.0.0.1:0\"\n";
    let often = table("often", "every = \"1s\"");
    let nightly = format!("{page}{often}{}", table("nightly", &format!("schedule = \"{NEW_YEAR}\"")));
    let noted = operator.path("noted");
    let command = format!("[\"sh\", \"-c\", \"echo x >> {}\"]", noted.display());
    let exec = format!("[[exec]]\nname = \"note\"\ncommand = {command}\nschedule = \"{NEW_YEAR}\"\n");
    let looked_often = |operator: &Operator| {
        let listed = operator.count("often", "listed");
        operator.wait_until("looked often", |operator| operator.count("often", "listed") >= listed + 3);
    };
    operator.set(&format!("{nightly}{exec}"));
    operator.run(&[]);
    looked_often(&operator);
    let job = operator.job("nightly").unwrap();
    assert_eq!(
        (&job["listed"], &job["state"], &job["last_success_s"]),
        (&0.into(), &"idle".into(), &Value::Null)
    );
    let next_s = job["next_run_s"].as_i64().unwrap();
    let next = jiff::Timestamp::from_second(next_s).unwrap().strftime("%m-%d %H:%M").to_string();
    assert_eq!(next, "01-01 00:00");
    let metric = |operator: &Operator, name: &str| {
        operator.metric(&format!("stroll_job_{name}_timestamp_seconds{{job=\"nightly\"}}"))
    };
    #[allow(clippy::cast_precision_loss)]
    let expected = Some(next_s as f64);
    assert_eq!((metric(&operator, "next_run"), metric(&operator, "last_success")), (expected, None));
    assert!(operator.lab.succeeds(&["status"]).contains("-01-01 00:00Z"));
    let note = operator.job("note").unwrap();
    assert!(note["source"].as_str().unwrap().starts_with("sh -c 'echo x"), "{note}");
    assert!(!noted.exists() && note["next_run_s"] == next_s, "{note}");
    let (code, log) = operator.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(!log.contains("mirror nightly") && log.contains("mirror often: 1 file pulled"), "{log}");

    let catching_up = format!("{nightly}catch_up = true\n{exec}catch_up = true\n");
    operator.set(&catching_up);
    // Where the page is, it says anew.
    fs::write(&operator.lab.log, "").unwrap();
    operator.run(&[]);
    operator.wait_until("caught up", |operator| operator.path("nightly/f").exists());
    operator.wait_until("told of it", |operator| operator.log().contains("mirror nightly: 1 file pulled"));
    operator.wait_until("noted", |operator| operator.log().contains("exec note: done in"));
    operator.wait_until("waits", |operator| operator.job("nightly").unwrap()["next_run_s"] == next_s);
    let job = operator.job("nightly").unwrap();
    assert!(job["last_success_s"].is_i64(), "{job}");
    assert!(job["last_outcome"].as_str().unwrap().starts_with("1 file pulled"), "{job}");
    assert!(metric(&operator, "last_success").is_some());
    let shown = operator.lab.succeeds(&["status"]);
    assert!(shown.contains("last success 20") && shown.contains("1 file pulled"), "{shown}");
    let page = page_of(&operator);
    for part in ["next run 20", "-01-01 00:00Z", "last success 20", "1 file pulled", "<code>sh -c "] {
        assert!(page.contains(part), "{part}: {page}");
    }
    operator.end();

    // Nothing was missed since, and what it did then is still known.
    operator.run(&[]);
    looked_often(&operator);
    let again = operator.job("nightly").unwrap();
    assert_eq!((&again["listed"], &again["next_run_s"]), (&0.into(), &next_s.into()));
    assert_eq!(again["last_success_s"], job["last_success_s"]);
    operator.end();
    assert_eq!(fs::read_to_string(&noted).unwrap(), "x\n");
}

#[test]
fn a_scheduled_command_line_waits_for_its_time_and_catches_up_if_asked() {
    let web = Web::start(Kind::Nginx);
    web.put("tree/f", b"f", 1_000);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (state, copy, noted) = (path("state"), path("copy"), path("noted"));
    let url = web.http("tree/").to_string();
    let script = format!("echo x >> {noted}");
    let mirror = ["mirror", &url, &copy];
    let exec = ["exec", "--solo"];
    let lab = Lab::new(folder.path(), "lab");
    let begin = |command: &[&str], more: &[&str]| {
        let words = [command, &["--state", &state, "--schedule", NEW_YEAR], more].concat();
        let run = if command[0] == "exec" { vec!["--", "sh", "-c", &script] } else { Vec::new() };
        lab.stroll(&words).args(run).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let waits = |command: &[&str], more: &[&str]| {
        let child = begin(command, &[more, &["--max-duration", "1s"]].concat());
        child.wait_with_output().unwrap()
    };
    let output = waits(&mirror, &[]);
    assert!(said(&output).contains("the first run begins at 20"), "{}", said(&output));
    waits(&exec, &[]);
    assert!(!Path::new(&copy).join("f").exists() && !Path::new(&noted).exists());

    let child = begin(&mirror, &["--catch-up"]);
    wait_until("mirrored and remembered", || has_record(Path::new(&state)));
    assert!(Path::new(&copy).join("f").exists());
    end(child);
    fs::remove_file(Path::new(&copy).join("f")).unwrap();
    waits(&mirror, &["--catch-up"]);
    assert!(!Path::new(&copy).join("f").exists(), "nothing was missed");

    fs::remove_dir_all(Path::new(&state).join("runs")).unwrap();
    let child = begin(&exec, &["--catch-up"]);
    wait_until("run and remembered", || has_record(Path::new(&state)));
    end(child);
    waits(&exec, &["--catch-up"]);
    assert_eq!(fs::read_to_string(&noted).unwrap(), "x\n");
}

// --- what orders and the log say --------------------------------------------------------------------------------------

#[test]
fn orders_say_what_they_did_and_the_limit_can_be_read() {
    let source = Counting::start(noise(60, 200_000_000), 1_500_000.0, 0);
    let mut operator = Operator::new(&source.source(), QUICK);
    let table = |name: &str| {
        let (url, to) = (source.url(name), operator.quoted(name));
        format!("[[subscribe]]\nname = {name:?}\nurl = {url:?}\nto = {to}\nfollow = true\n")
    };
    operator.set(&format!("{}{}", table("a"), table("b")));
    operator.run(&[]);
    let told = |words: &[&str]| {
        let output = operator.lab.output(words);
        assert!(output.status.success(), "{words:?}: {}", said(&output));
        let out = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        (out, said(&output).trim().to_owned())
    };
    for (words, expected) in [
        (&["pause", "a"][..], "paused job a"),
        (&["pause", "a"], "job a was paused already"),
        (&["resume", "b"], "job b was not paused"),
        (&["pause"], "1 job paused"),
        (&["resume"], "2 jobs resumed"),
        (&["bwlimit", "1M"], "limit 1.00 MiB/s for 2 jobs"),
    ] {
        assert_eq!(told(words), (String::new(), expected.to_owned()), "{words:?}");
    }
    assert_eq!(told(&["bwlimit"]).0, "limit 1.00 MiB/s");
    let json: Value = serde_json::from_str(&told(&["bwlimit", "--json"]).0).unwrap();
    assert_eq!((&json["limit"], &json["rate_bytes_per_sec"]), (&"1M".into(), &(1 << 20).into()));
    assert_eq!(told(&["bwlimit", "off"]).1, "no limit for 2 jobs");
    assert_eq!(told(&["bwlimit"]).0, "no limit");
}

/// It said nothing at all about jobs that went well.
#[test]
fn the_default_log_has_a_line_for_each_run_and_batch_and_verbose_one_for_each_slot() {
    let web = Web::start(Kind::Nginx);
    web.put("tree/f", b"f", 1_000);
    web.put("stream/a", b"12345", 1_000);
    let mut operator = Operator::new(&web.http("").to_string(), QUICK);
    let (tree, stream) = (web.http("tree/"), web.http("stream/"));
    let (to_tree, to_stream) = (operator.quoted("tree"), operator.quoted("stream"));
    operator.set(&format!(
        "[[mirror]]\nurl = \"{tree}\"\nto = {to_tree}\n[[subscribe]]\nurl = \"{stream}\"\nto = {to_stream}\nsince = \"all\"\n\
         poll = \"1s\"\nsettle = \"0s\"\n"
    ));
    let begin = |operator: &mut Operator, more: &[&str]| {
        let mut command = operator.lab.stroll(&["--config"]);
        command.arg(operator.path("stroll.toml")).arg("run").args(more).stdin(Stdio::null());
        command.env("HOME", operator.path(""));
        operator.start(command);
        operator.wait_until("runs", |operator| operator.lab.glance().is_some());
    };
    begin(&mut operator, &[]);
    operator.wait_until("mirrored", |operator| operator.log().contains("mirror tree: 1 file pulled"));
    operator.wait_until("delivered", |operator| {
        operator.log().contains("subscribe stream: 1 file delivered, 5 B")
    });
    operator.wait_until("had slots", |operator| operator.lab.counter("slots") >= 3);
    let (_, log) = operator.end();
    assert!(!log.contains("slot ended") && !log.contains("slot began"), "{log}");

    fs::write(&operator.lab.log, "").unwrap();
    begin(&mut operator, &["-v"]);
    operator.wait_until("had slots", |operator| operator.log().matches("slot ended").count() >= 2);
    let (_, log) = operator.end();
    assert!(!log.contains("slot began"), "{log}");
}

// --- what comes back --------------------------------------------------------------------------------------------------

/// As `systemctl restart` does it, every so often while a command pulls.
#[test]
fn a_command_goes_on_over_several_restarts_of_its_member() {
    let bytes = noise(62, 6_000_000);
    let source = Counting::start(bytes.clone(), 1_500_000.0, 0);
    let mut operator = Operator::new(&source.source(), QUICK);
    operator.run(&[]);
    let (to, log) = (operator.path("f"), operator.path("get.log"));
    let mut get = operator.lab.stroll(&["get", &source.url("f"), "-o", &to.display().to_string()]);
    let get = get.args(["--progress", "line"]).stdin(Stdio::null()).stderr(fs::File::create(&log).unwrap());
    let mut get = get.spawn().unwrap();
    let said = || fs::read_to_string(&log).unwrap_or_default();
    for round in 1..=2 {
        let pulled = source.bytes();
        operator.wait_until("pulls", |_| source.bytes() > pulled + 500_000);
        let (code, log) = operator.end();
        assert_eq!(code, Some(0), "{log}");
        operator.wait_until("says so", |_| said().matches("has ended; waiting").count() == round);
        operator.run(&[]);
        operator.wait_until("goes on", |_| said().matches("is there again").count() == round);
    }
    assert_eq!(code_of(&mut get), Some(0), "{}", said());
    assert!(fs::read(&to).unwrap() == bytes, "the file differs");
    println!("{}", said());
}

#[test]
fn a_control_socket_that_was_removed_is_there_again() {
    let mut operator = Operator::new("http://127.0.0.1:1/", QUICK);
    operator.run(&[]);
    let socket = operator.lab.home.join("virgo/control.sock");
    for _ in 0..2 {
        fs::remove_file(&socket).unwrap();
        operator.wait_until("answers again", |operator| operator.lab.glance().is_some());
    }
    assert!(operator.log().contains("the control socket was removed"), "{}", operator.log());
    // A second process is still told that there is one.
    let second = operator.command(&["--listen", "127.0.0.1:0"]).output().unwrap();
    assert!(said(&second).contains("is running already"), "{}", said(&second));
    operator.end();
    assert!(!socket.exists(), "it goes with the member");
}

#[test]
fn a_page_whose_address_is_in_use_is_reported_and_served_once_it_is_free() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let mut first = Operator::new("http://127.0.0.1:1/", QUICK);
    let mut second = Operator::new("http://127.0.0.1:1/", QUICK);
    first.run(&["--page", &port]);
    second.run(&["--page", &port]);
    assert_eq!(first.lab.status().unwrap()["page"]["problem"], Value::Null);
    let page = second.lab.status().unwrap()["page"].clone();
    assert_eq!((&page["address"], &page["problem"]), (&port.as_str().into(), &"address in use".into()));
    assert!(second.log().contains("the status page is not served"), "{}", second.log());
    assert!(second.lab.succeeds(&["status"]).contains(&format!("page not served at {port}: address in use")));
    assert_eq!(first.end().0, Some(0));
    assert_eq!(second.page().to_string(), port);
    second.wait_until("is served", |second| second.lab.status().unwrap()["page"]["problem"] == Value::Null);
    assert!(second.metric("stroll_overloaded").is_some());
}

// --- a source with several addresses ----------------------------------------------------------------------------------

#[test]
fn an_address_that_no_circle_covers_is_pulled_outside_with_a_word_until_it_is_an_alias() {
    let (folder, bytes) = (tempfile::tempdir().unwrap(), noise(61, 100_000));
    let source = Counting::start(bytes, 1e9, 0);
    let lab = Lab::new(folder.path(), "lab");
    let stream = source.source().replace("/data/", "/stream/");
    found(&lab, &stream, QUICK);
    let get = |name: &str, more: &[&str]| {
        let (url, to) = (source.url("f"), folder.path().join(name).display().to_string());
        let state = folder.path().join("state").display().to_string();
        let words = [&["get", &url, "-o", &to, "--state", &state, "--progress", "line"], more].concat();
        let output = lab.output(&words);
        assert!(output.status.success(), "{}", said(&output));
        said(&output)
    };
    let outside = get("a", &[]);
    let data = source.source();
    for part in [
        format!(
            "{} is not covered by circle virgo (source {stream}): pulling without the circle",
            source.url("f")
        ),
        format!("`stroll circle amend --alias {data}`"),
    ] {
        assert!(outside.contains(&part), "{part}: {outside}");
    }
    assert!(!get("b", &["--solo"]).contains("circle"), "who wants none need not hear of it");
    // A script that reads events finds it in the log, and one that wants quiet has it.
    let as_json = lab.output(&["get", &source.url("f"), "-o", "-", "--progress", "json"]);
    assert!(
        said(&as_json).contains("WARN") && said(&as_json).contains("is not covered by"),
        "{}",
        said(&as_json)
    );
    assert_eq!(said(&lab.output(&["get", &source.url("f"), "-o", "-", "--quiet"])), "");

    lab.succeeds(&["circle", "amend", "--alias", &data]);
    let inside = get("c", &[]);
    assert!(inside.contains("in the slots of circle virgo") && inside.contains("slot"), "{inside}");
    let shown: Value = serde_json::from_str(&lab.succeeds(&["circle", "show", "--json"])).unwrap();
    assert_eq!(shown["charter"]["aliases"], serde_json::json!([data]));
    assert!(lab.succeeds(&["circle", "show"]).contains(&format!("{stream}, also {data}")));
    lab.succeeds(&["circle", "amend", "--no-alias"]);
    assert!(get("d", &[]).contains("is not covered by circle virgo"));
}

#[test]
fn a_job_whose_address_no_circle_covers_is_refused_with_the_remedy() {
    let operator = Operator::new("http://127.0.0.1:1/stream/", QUICK);
    operator.set("[[mirror]]\nname = \"m\"\nurl = \"http://localhost:1/stream/x/\"\nto = \"/tmp/x\"\n");
    let output = operator.command(&[]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    for part in [
        "mirror m: http://localhost:1/stream/x/ is not covered by circle virgo (source http://127.0.0.1:1/stream/)",
        "`stroll circle amend --alias http://localhost:1/stream/x/`",
        "`circle = …`",
    ] {
        assert!(said(&output).contains(part), "{part}: {}", said(&output));
    }
}
