//! `stroll subscribe` as people use it, against real servers: what appears is delivered in order, at least once and whole,
//! whatever happens to us, to the source and to those who read.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]
#![allow(clippy::disallowed_methods, reason = "these tests are about real time")]

#[path = "common/desk.rs"]
mod desk;
#[path = "common/ftpd.rs"]
mod ftpd;
#[path = "common/lab.rs"]
mod lab;
#[path = "common/web.rs"]
mod web;

use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use desk::{Desk, Running, noise};
use ftpd::Ftpd;
use lab::{Lab, found, join};
use rustix::process::Signal;
use serde_json::Value;
use stroll::fetch::sink::{Algorithm, Hasher};
use web::{Kind, Web};

/// How long anything may take on a busy machine before the test has failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// Looks as often as may be, and does not wait for long.
const QUICK: &[[&str; 2]] =
    &[["--poll", "1s"], ["--settle", "0s"], ["--refusal-wait", "1s"], ["--progress", "json"]];

/// These flags, and the usual ones where they do not say otherwise.
fn quick(args: &[&str]) -> Vec<String> {
    let usual = QUICK.iter().filter(|[flag, _]| !args.contains(flag)).flatten();
    usual.chain(args).map(|&word| word.to_owned()).collect()
}

fn command(desk: &Desk, url: &str, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stroll"));
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", desk.home());
    command.current_dir(desk.path("")).args(["subscribe", url, "in"]).stdin(Stdio::null());
    command.args(quick(args));
    command
}

fn start(desk: &Desk, url: &str, args: &[&str]) -> Running {
    Running::start(command(desk, url, args))
}

/// Starts, and waits until what is there is known.
fn start_and_look(desk: &Desk, url: &str, args: &[&str]) -> Running {
    let mut running = start(desk, url, args);
    running.wait_for("listed");
    // Its second look comes after the first was noted.
    running.wait_for("listed");
    running
}

#[track_caller]
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// What the commands of `--exec` wrote down.
fn lines(desk: &Desk) -> Vec<String> {
    let text = fs::read_to_string(desk.path("log")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

const LOG: &[&str] = &["--exec", "printf '%s\\n' \"$STROLL_PATH\" >> log"];

fn with_log<'a>(args: &[&'a str]) -> Vec<&'a str> {
    LOG.iter().chain(args).copied().collect()
}

/// A web server with a folder `s/`.
fn web() -> (Web, String) {
    let web = Web::start(Kind::Nginx);
    fs::create_dir(web.path("s")).unwrap();
    let url = web.http("s/").to_string();
    (web, url)
}

#[track_caller]
fn ends_well(running: Running) -> String {
    running.signal(Signal::TERM);
    let (code, said) = running.end();
    assert_eq!(code, Some(0), "{said}");
    said
}

fn append(path: &Path, bytes: &[u8]) {
    OpenOptions::new().append(true).open(path).unwrap().write_all(bytes).unwrap();
}

fn content(desk: &Desk, name: &str) -> Vec<u8> {
    fs::read(desk.path(name)).unwrap_or_default()
}

// --- files that appear --------------------------------------------------------------------------------------------

#[test]
fn what_appears_is_delivered_in_order_and_what_was_there_is_not() {
    let ((web, url), desk) = (web(), Desk::new());
    web.put("s/old", b"was there", 500);
    let mut running = start_and_look(&desk, &url, LOG);
    let names: Vec<String> = (0..20).map(|n| format!("f{n:02}")).collect();
    for (n, name) in names.iter().enumerate() {
        web.put(&format!("s/{name}"), &noise(n as u64, 10_000 + n), 0);
        thread::sleep(Duration::from_millis(40));
    }
    wait_until("all are delivered", || lines(&desk).len() >= 20);
    assert_eq!(lines(&desk), names);
    for (n, name) in names.iter().enumerate() {
        assert_eq!(desk.read(&format!("in/{name}")), noise(n as u64, 10_000 + n), "{name}");
    }
    // Another version is another file.
    web.put("s/f03", b"longer or shorter", 0);
    running.forget();
    wait_until("the new version", || lines(&desk).len() >= 21);
    assert_eq!(desk.read("in/f03"), b"longer or shorter");
    ends_well(running);
    assert!(!desk.path("in/old").exists());
    // A restart finds nothing to do, and goes on with what came meanwhile.
    web.put("s/g", b"came meanwhile", 0);
    let running = start(&desk, &url, LOG);
    wait_until("what came meanwhile", || lines(&desk).len() >= 22);
    ends_well(running);
    assert_eq!(lines(&desk).last().unwrap(), "g");
    assert_eq!(lines(&desk).len(), 22);
}

#[test]
fn kills_at_any_moment_lose_nothing_and_leave_nothing_broken() {
    let ((web, url), desk) = (web(), Desk::new());
    ends_well(start_and_look(&desk, &url, LOG));
    let names: Vec<String> = (0..60).map(|n| format!("f{n:02}")).collect();
    thread::scope(|scope| {
        scope.spawn(|| {
            for (n, name) in names.iter().enumerate() {
                web.put(&format!("s/{name}"), &noise(n as u64, 200_000), 0);
                thread::sleep(Duration::from_millis(80));
            }
        });
        for round in 0..8_u64 {
            let running = start(&desk, &url, LOG);
            thread::sleep(Duration::from_millis(150 + round * 137 % 700));
            running.signal(Signal::KILL);
            running.end();
        }
    });
    let running = start(&desk, &url, LOG);
    wait_until("all are delivered", || {
        let seen = lines(&desk);
        names.iter().all(|name| seen.contains(name))
    });
    ends_well(running);
    for (n, name) in names.iter().enumerate() {
        assert!(desk.read(&format!("in/{name}")) == noise(n as u64, 200_000), "{name} differs");
    }
    assert!(!desk.files().iter().any(|name| name.contains(".part")), "{:?}", desk.files());
    println!("{} deliveries of {} files", lines(&desk).len(), names.len());
}

#[test]
fn a_source_that_goes_away_is_waited_for() {
    let ((mut web, url), desk) = (web(), Desk::new());
    let mut running = start_and_look(&desk, &url, LOG);
    web.put("s/before", b"before", 0);
    wait_until("the first", || lines(&desk).len() == 1);
    web.stop();
    running.forget();
    running.wait_for("pausing");
    web.put("s/meanwhile", b"meanwhile", 0);
    web.start_again();
    wait_until("the second", || lines(&desk).len() == 2);
    assert_eq!(desk.read("in/meanwhile"), b"meanwhile");
    ends_well(running);
}

#[test]
fn a_stream_comes_from_ftp_and_folders_in_it_if_asked() {
    let (server, desk) = (Ftpd::start(ftpd::Kind::Vsftpd), Desk::new());
    let now_s = jiff::Timestamp::now().as_second().unsigned_abs();
    server.put("s/deep/er/a.dat", b"a", now_s - 1_000);
    server.put("s/b.dat", b"bb", now_s - 500);
    server.put("s/c.txt", b"ccc", now_s - 700);
    let password = desk.private("password", "right\n");
    let login = ["--user", "anonymous", "--password-file", password.to_str().unwrap()];
    let args = ["--since", "all", "--recursive", "--include", "*.dat"];
    let running = start(&desk, &server.address("s/").to_string(), &with_log(&[&login[..], &args].concat()));
    wait_until("both", || lines(&desk).len() >= 2);
    ends_well(running);
    assert_eq!(lines(&desk), ["deep/er/a.dat", "b.dat"]);
    assert_eq!(desk.read("in/deep/er/a.dat"), b"a");
    assert!(!desk.path("in/c.txt").exists());
}

#[test]
fn a_file_that_is_still_written_to_is_waited_for() {
    let ((web, url), desk) = (web(), Desk::new());
    let running = start_and_look(&desk, &url, &with_log(&["--settle", "8s"]));
    web.put("s/slow", b"begun", 0);
    for _ in 0..8 {
        thread::sleep(Duration::from_millis(700));
        append(&web.path("s/slow"), b", goes on");
        assert_eq!(lines(&desk).len(), 0, "it was not complete");
    }
    wait_until("it", || !lines(&desk).is_empty());
    assert_eq!(desk.read("in/slow"), fs::read(web.path("s/slow")).unwrap());
    assert_eq!(lines(&desk).len(), 1);
    ends_well(running);
}

// --- what is done with them -----------------------------------------------------------------------------------------

#[test]
fn no_name_is_ever_read_as_a_command() {
    let ((web, url), desk) = (web(), Desk::new());
    let names = [
        "$(touch pwned)",
        "`touch pwned`",
        "a;touch pwned",
        "-rf",
        "b c'd\"e",
        "|touch pwned",
        "&touch pwned",
    ];
    for name in names {
        web.put(&format!("s/{name}"), name.as_bytes(), 1_000);
    }
    let running = start(&desk, &url, &with_log(&["--since", "all", "--order", "name"]));
    wait_until("all of them", || lines(&desk).len() >= names.len());
    ends_well(running);
    let mut seen = lines(&desk);
    seen.sort();
    let mut expected = names.map(str::to_owned);
    expected.sort();
    assert_eq!(seen, expected);
    assert!(!desk.files().iter().any(|name| name == "pwned"), "{:?}", desk.files());
}

#[test]
fn a_command_that_fails_is_tried_again_and_holds_up_deliveries_but_no_pulls() {
    let ((web, url), desk) = (web(), Desk::new());
    web.put("s/a", b"a", 1_000);
    web.put("s/b", b"b", 900);
    let exec =
        "test -e go && printf '%s %s %s\\n' \"$STROLL_PATH\" \"$STROLL_SIZE\" \"$STROLL_SHA256\" >> log";
    let mut running = start(&desk, &url, &["--since", "all", "--exec", exec]);
    wait_until("both are here", || desk.path("in/a").exists() && desk.path("in/b").exists());
    assert_eq!(lines(&desk).len(), 0);
    // Before the first look nobody knows.
    let mut lag = running.wait_for("lag");
    assert!(lag["lag_s"].is_null() && lag["unseen_s"].is_u64(), "{lag}");
    while lag["files"] == 0 {
        lag = running.wait_for("lag");
    }
    assert!(lag["lag_s"].is_u64() && lag["bytes"].as_u64() > Some(0), "{lag}");
    // A restart delivers first what was not delivered.
    running.signal(Signal::TERM);
    running.child.wait().unwrap();
    fs::write(desk.path("go"), b"").unwrap();
    web.remove("s/a");
    let running = start(&desk, &url, &["--since", "all", "--exec", exec]);
    wait_until("both", || lines(&desk).len() == 2);
    ends_well(running);
    let mut hasher = Hasher::new(Algorithm::Sha256);
    hasher.update(b"a");
    let sum = hasher.finish().to_string();
    assert_eq!(lines(&desk)[0], format!("a 1 {}", sum.split_once(':').unwrap().1));
    // Where failures may be skipped the others have their turn.
    let desk = Desk::new();
    let exec = "test \"$STROLL_PATH\" != b && printf '%s\\n' \"$STROLL_PATH\" >> log";
    web.put("s/c", b"c", 100);
    let running = start(&desk, &url, &["--since", "all", "--exec", exec, "--exec-failure", "skip"]);
    wait_until("the other", || lines(&desk) == ["c"]);
    let said = ends_well(running);
    assert!(!said.contains("panicked"), "{said}");
}

#[test]
fn old_replicas_are_removed_and_not_pulled_again() {
    let ((web, url), desk) = (web(), Desk::new());
    web.put("s/a", b"aaaa", 1_000);
    let mut running = start(&desk, &url, &with_log(&["--since", "all", "--keep", "2s"]));
    running.wait_for("flushed");
    assert!(!desk.path("in/a").exists());
    running.wait_for("listed");
    running.wait_for("listed");
    ends_well(running);
    let mut running = start(&desk, &url, &with_log(&["--keep", "2s"]));
    running.wait_for("listed");
    running.wait_for("listed");
    ends_well(running);
    assert_eq!(lines(&desk), ["a"]);
    assert_eq!(web.requests().iter().filter(|line| line.starts_with("GET /s/a ")).count(), 1);
}

#[test]
fn sums_beside_the_files_are_heeded() {
    let ((web, url), desk) = (web(), Desk::new());
    let mut hasher = Hasher::new(Algorithm::Sha256);
    hasher.update(b"right");
    let sum = hasher.finish().to_string();
    let hex = sum.split_once(':').unwrap().1;
    web.put("s/bad", b"wrong", 1_000);
    web.put("s/good", b"right", 900);
    web.put("s/SHA256SUMS", format!("{hex}  bad\n{hex}  good\n").as_bytes(), 900);
    let args = with_log(&["--since", "all", "--sums", "auto", "--exclude", "SHA256SUMS"]);
    let running = start(&desk, &url, &args);
    wait_until("the good one", || lines(&desk) == ["good"]);
    let said = ends_well(running);
    assert!(said.contains("checksum"), "{said}");
    assert!(!desk.path("in/bad").exists());
}

#[test]
fn each_delivery_is_a_line_of_json_and_time_may_be_limited() {
    let ((web, url), desk) = (web(), Desk::new());
    web.put("s/a", b"12345", 1_000);
    web.put("s/b", b"1234567", 900);
    let mut running = start(&desk, &url, &["--since", "all", "--json"]);
    let mut out = BufReader::new(running.child.stdout.take().unwrap()).lines();
    let lines: Vec<Value> =
        (0..2).map(|_| serde_json::from_str(&out.next().unwrap().unwrap()).unwrap()).collect();
    ends_well(running);
    assert_eq!(lines.iter().map(|line| line["size"].as_u64().unwrap()).collect::<Vec<_>>(), [5, 7]);
    assert!(lines[0]["path"].as_str().unwrap().ends_with("/in/a"), "{lines:?}");
    assert_eq!(lines[1]["url"], format!("{url}b"));
    let output = command(&desk, &url, &["--for", "1s"]).output().unwrap();
    assert_eq!(output.status.code(), Some(10), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let ((web, url), desk) = (web(), Desk::new());
    let fails = |url: &str, args: &[&str]| {
        let output = command(&desk, url, args).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(fails(&web.http("s").to_string(), &[]).0, 2);
    assert_eq!(fails(&url, &["--since", "yesterday"]).0, 2);
    assert_eq!(fails(&url, &["--json", "--stdout"]).0, 2);
    assert_eq!(fails(&url, &["--name-template", "f-%M"]).0, 2);
    assert_eq!(fails(&url, &["--step", "60s"]).0, 2);
    assert_eq!(fails(&url, &["--exec", " "]).0, 2);
    let (code, said) = fails(&web.http("nowhere/").to_string(), &[]);
    assert_eq!(code, 3, "{said}");
    let first = start_and_look(&desk, &url, &[]);
    let (code, said) = fails(&url, &[]);
    assert!(code == 1 && said.contains("another job is at work there"), "{code} {said}");
    ends_well(first);
}

// --- standard output --------------------------------------------------------------------------------------------------

#[test]
fn the_stream_goes_to_a_pipe_in_order_and_goes_on_after_a_restart() {
    let ((web, url), desk) = (web(), Desk::new());
    let bytes: Vec<Vec<u8>> = (0..5).map(|n| noise(n, 300_000)).collect();
    for (n, bytes) in (0_u64..).zip(&bytes) {
        web.put(&format!("s/f{n}"), bytes, 1_000 - n);
    }
    let mut running = start(&desk, &url, &["--since", "all", "--stdout"]);
    let mut got = vec![0; 1_500_000];
    running.child.stdout.as_mut().unwrap().read_exact(&mut got).unwrap();
    assert!(got == bytes.concat(), "in order");
    for _ in 0..5 {
        running.wait_for("delivered");
    }
    running.wait_for("listed");
    ends_well(running);
    web.put("s/g", b"more", 0);
    let mut running = start(&desk, &url, &["--stdout"]);
    let mut got = [0; 4];
    running.child.stdout.as_mut().unwrap().read_exact(&mut got).unwrap();
    assert_eq!(&got, b"more");
    // A reader that goes away ends it, and that is no failure.
    drop(running.child.stdout.take());
    web.put("s/h", b"nobody reads this", 0);
    let (code, said) = running.end();
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn a_reader_that_sleeps_does_not_keep_the_token() {
    let (folder, (web, url)) = (tempfile::tempdir().unwrap(), web());
    let mut labs: Vec<Lab> = (0..2).map(|n| Lab::new(folder.path(), &format!("lab-{n}"))).collect();
    let (founder, others) = labs.split_first_mut().unwrap();
    found(founder, &url, &["--slot", "1s", "--skip", "50ms", "--capacity", "4"]);
    founder.run_with(&[]);
    join(founder, &others[0]);
    others[0].run();
    let target = folder.path().join("in");
    let mut command = labs[0].stroll(&["subscribe", &url]);
    command.arg(&target).arg("--state").arg(folder.path().join("state"));
    command.args(quick(&["--since", "all", "--stdout"]));
    let mut running = Running::start(command);
    running.wait_for("slot");
    let bytes: Vec<Vec<u8>> = (0..6).map(|n| noise(n, 500_000)).collect();
    for (n, bytes) in (0_u64..).zip(&bytes) {
        web.put(&format!("s/f{n}"), bytes, 1_000 - n);
    }
    // Nobody reads, and all of it comes all the same, in turns.
    wait_until("all files are here", || (0..6).all(|n| target.join(format!("f{n}")).exists()));
    let before = labs[1].counter("slots");
    labs[1].wait_until("was served while the reader slept", |lab| lab.counter("slots") >= before + 3);
    let mut got = vec![0; 3_000_000];
    running.child.stdout.as_mut().unwrap().read_exact(&mut got).unwrap();
    assert!(got == bytes.concat(), "in order");
    ends_well(running);
}

// --- files that grow ----------------------------------------------------------------------------------------------------

/// The old replicas of a growing file, by their content.
fn kept(desk: &Desk, name: &str) -> Vec<Vec<u8>> {
    let prefix = format!("in/{name}.2");
    let mut names: Vec<String> = desk.files().into_iter().filter(|file| file.starts_with(&prefix)).collect();
    names.sort();
    names.iter().map(|name| desk.read(name)).collect()
}

#[test]
fn a_growing_file_is_appended_to_and_another_one_is_never_spliced_to_it() {
    let (web, desk) = (Web::start(Kind::Nginx), Desk::new());
    let url = web.http("log").to_string();
    let first = noise(1, 300_000);
    web.put("log", &first, 0);
    let running = start(&desk, &url, &["--follow"]);
    wait_until("the beginning", || content(&desk, "in/log") == first);
    let inode =
        |desk: &Desk| std::os::unix::fs::MetadataExt::ino(&fs::metadata(desk.path("in/log")).unwrap());
    let before = inode(&desk);
    append(&web.path("log"), &noise(2, 70_000));
    let grown = [first, noise(2, 70_000)].concat();
    wait_until("what was appended", || content(&desk, "in/log") == grown);
    assert_eq!(inode(&desk), before, "in place");
    // Shorter: rotated.
    let second = noise(3, 100_000);
    web.put("log", &second, 0);
    wait_until("a shorter one", || content(&desk, "in/log") == second);
    assert_eq!(kept(&desk, "log"), std::slice::from_ref(&grown));
    // Longer, and another one.
    let third = noise(4, 250_000);
    web.put("log", &third, 0);
    wait_until("another one", || content(&desk, "in/log") == third);
    assert_eq!(kept(&desk, "log"), [grown, second]);
    ends_well(running);
    // It is another one again while nobody looks.
    let fourth = noise(5, 400_000);
    web.put("log", &fourth, 0);
    let running = start(&desk, &url, &["--follow", "--on-rotate", "drop"]);
    wait_until("the fourth", || content(&desk, "in/log") == fourth);
    ends_well(running);
    assert_eq!(kept(&desk, "log").len(), 2);
}

#[test]
fn a_growing_file_survives_kills_and_comes_to_a_pipe_from_ftp_too() {
    let (server, desk) = (Ftpd::start(ftpd::Kind::Vsftpd), Desk::new());
    let password = desk.private("password", "right\n");
    let args = ["--follow", "--user", "anonymous", "--password-file", password.to_str().unwrap()];
    server.put("log", b"begun", 1_600_000_000);
    let (url, path) = (server.address("log").to_string(), server.root().join("log"));
    thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..60 {
                append(&path, &noise(n, 50_000));
                thread::sleep(Duration::from_millis(100));
            }
        });
        for round in 0..6_u64 {
            let running = start(&desk, &url, &args);
            thread::sleep(Duration::from_millis(300 + round * 171 % 800));
            running.signal(Signal::KILL);
            running.end();
            let (here, there) = (content(&desk, "in/log"), fs::read(&path).unwrap());
            assert!(there.starts_with(&here), "what is here is the beginning of what is there");
        }
    });
    let there = fs::read(&path).unwrap();
    let running = start(&desk, &url, &args);
    wait_until("all of it", || content(&desk, "in/log") == there);
    ends_well(running);
    assert_eq!(kept(&desk, "log").len(), 0, "it was the same file all the time");
    let desk = Desk::new();
    let password = desk.private("password", "right\n");
    let args = ["--follow", "--stdout", "--user", "anonymous", "--password-file", password.to_str().unwrap()];
    let mut running = start(&desk, &url, &args);
    let mut got = vec![0; there.len()];
    running.child.stdout.as_mut().unwrap().read_exact(&mut got).unwrap();
    assert!(got == there, "to the pipe");
    append(&path, b"and more");
    let mut more = [0; 8];
    running.child.stdout.as_mut().unwrap().read_exact(&mut more).unwrap();
    assert_eq!(&more, b"and more");
    ends_well(running);
}

#[test]
fn files_in_a_folder_may_grow_too() {
    let ((web, url), desk) = (web(), Desk::new());
    web.put("s/one", &noise(1, 10_000), 1_000);
    let running = start(&desk, &url, &with_log(&["--follow", "--since", "all"]));
    wait_until("the first", || content(&desk, "in/one") == noise(1, 10_000));
    append(&web.path("s/one"), b"grown");
    web.put("s/two", b"two", 0);
    let grown = [noise(1, 10_000), b"grown".to_vec()].concat();
    wait_until("both", || content(&desk, "in/one") == grown && content(&desk, "in/two") == b"two");
    wait_until("three deliveries", || lines(&desk).len() == 3);
    ends_well(running);
    assert_eq!(kept(&desk, "one").len(), 0);
}

// --- names that are known -----------------------------------------------------------------------------------------------

#[test]
fn names_that_are_known_are_pulled_without_any_listing() {
    let ((web, url), desk) = (web(), Desk::new());
    let now_s = jiff::Timestamp::now().as_second();
    let name = |at_s: i64| jiff::Timestamp::from_second(at_s).unwrap().strftime("f-%H%M%S.dat").to_string();
    let first_s = (now_s - 100) / 20 * 20;
    // The third one never comes.
    let there: Vec<i64> = [20, 40, 80].iter().map(|after| first_s + after).collect();
    for (n, at_s) in (0_u64..).zip(&there) {
        web.put(&format!("s/{}", name(*at_s)), &noise(n, 5_000), 0);
    }
    let since = jiff::Timestamp::from_second(first_s).unwrap().to_string();
    let args = ["--name-template", "f-%H%M%S.dat", "--step", "20s", "--since", &since, "--progress", "line"];
    let running = start(&desk, &url, &with_log(&args));
    wait_until("those that are there", || lines(&desk).len() >= 3);
    let said = ends_well(running);
    assert_eq!(lines(&desk)[..3], there.iter().map(|at_s| name(*at_s)).collect::<Vec<_>>());
    assert!(said.contains(&format!("{}: never came", name(first_s + 60))), "{said}");
    assert!(!web.requests().iter().any(|line| line.starts_with("GET /s/ ")), "{:?}", web.requests());
}

// --- mistakes -------------------------------------------------------------------------------------------------------

#[test]
fn mistakes_are_named_with_a_remedy() {
    let (web, desk) = (Web::start(Kind::Nginx), Desk::new());
    web.put("s/f", b"bytes", 1_000);
    let (folder, absent) = (web.http("s/").to_string(), web.http("absent/").to_string());
    let private = web.http("private/").to_string();
    for (args, code, words) in [
        (&[&*absent, "in"][..], 3, format!("{absent}: not found")),
        (&[&*private, "in"], 7, format!("{private}: the source wants a login: HTTP 401")),
        (&[&*folder, "in", "--state", "/dev/null/state"], 2, "state: cannot make /dev/null/state".to_owned()),
    ] {
        let output = desk.stroll(&["subscribe"]).args(args).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(&words), "{args:?}: {said}");
    }
}

// --- names ----------------------------------------------------------------------------------------------------------

/// Where frames appear: their names hold the time, and `--portable-names` refuses colons.
fn frames(put: impl Fn(&str)) {
    for minute in 0..6 {
        put(&format!("frame-2026-11-18T12:0{minute}:00.gwf"));
    }
    put("good.gwf");
}

/// Events of refused names, each with its reason.
fn refusals(said: &str) -> Vec<String> {
    let events = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let refused = events.filter(|event| event["event"] == "refused");
    refused.map(|event| event["path"].as_str().unwrap().to_owned()).collect()
}

/// Six files were dropped, and it said "no lag" and ended with exit code 0.
#[test]
fn refused_names_are_told_once_each_and_counted_and_make_exit_code_6() {
    let web = Web::start(Kind::Nginx);
    frames(|name| web.put(&format!("s/{name}"), b"12345", 1_000));
    let server = Ftpd::start(ftpd::Kind::Vsftpd);
    frames(|name| server.put(&format!("s/{name}"), b"12345", 1_600_000_000));
    let desk = Desk::new();
    let password = desk.private("password", "right\n");
    let login = ["--user", "anonymous", "--password-file", password.to_str().unwrap()];
    for (url, login) in
        [(web.http("s/").to_string(), &login[..0]), (server.address("s/").to_string(), &login)]
    {
        for more in
            [&[][..], &["--stdout"], &["--exec", "true"], &["--follow"], &["--json"], &["--sums", "auto"]]
        {
            let desk = Desk::new();
            // Long enough for several looks.
            let args = ["--since", "all", "--portable-names", "--for", "4s"];
            let output = command(&desk, &url, &[&args[..], login, more].concat()).output().unwrap();
            let (said, out) =
                (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
            assert_eq!(output.status.code(), Some(6), "{url} {more:?}: {said}");
            let mut told = refusals(&said);
            told.sort();
            assert_eq!(told.len(), 6, "{url} {more:?}: {said}");
            assert_eq!(told[5], "frame-2026-11-18T12:05:00.gwf", "{url} {more:?}: {said}");
            assert!(said.contains("no lag, 6 names refused"), "{url} {more:?}: {said}");
            assert!(said.contains(r#""refused":6"#), "{url} {more:?}: {said}");
            assert_eq!(desk.read("in/good.gwf"), b"12345");
            if more == ["--json"] {
                let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
                let refused = lines.iter().filter(|line| line["refused"].is_string()).count();
                assert_eq!((refused, lines.len()), (6, 7), "{out}");
            }
        }
    }
}

#[test]
fn a_signal_and_a_filter_decide_about_refused_names_as_well() {
    let ((web, url), desk) = (web(), Desk::new());
    web.put("s/good", b"12345", 1_000);
    web.put("s/up\u{202e}side", b"12345", 1_000);
    web.put("s/a\u{200b}b", b"12345", 1_000);
    let running = start(&desk, &url, &with_log(&["--since", "all"]));
    wait_until("the good one", || lines(&desk) == ["good"]);
    running.signal(Signal::TERM);
    let (code, said) = running.end();
    assert_eq!(code, Some(6), "{said}");
    assert_eq!(refusals(&said).len(), 2, "{said}");
    // What is left out is not refused.
    let running = start(&desk, &url, &["--include", "good"]);
    thread::sleep(Duration::from_secs(2));
    let said = ends_well(running);
    assert!(refusals(&said).is_empty(), "{said}");
}

#[test]
fn every_name_that_the_disk_can_hold_is_delivered_under_its_own_bytes_and_removed_in_its_time() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let ((web, url), desk) = (web(), Desk::new());
    let long = "x".repeat(255);
    let names: [&[u8]; 7] = [
        b"caf\xe9.dat",
        b"12:00:00.gwf",
        b"back\\slash",
        b"dots...",
        b" blanks ",
        b"half.part",
        long.as_bytes(),
    ];
    for name in names {
        fs::write(web.path("s").join(OsStr::from_bytes(name)), name).unwrap();
    }
    let hook = "printf '%s\\n' \"$STROLL_PATH\" >> log; cat \"$STROLL_FILE\" >> all; echo >> all";
    let args = ["--since", "all", "--order", "name", "--exec", hook, "--keep", "4s"];
    let running = start(&desk, &url, &args);
    wait_until("all were delivered", || content(&desk, "all").split(|byte| *byte == b'\n').count() > 7);
    let sorted = |mut lines: Vec<Vec<u8>>| {
        lines.sort();
        lines
    };
    let told = |file| {
        sorted(
            content(&desk, file)
                .split(|b| *b == b'\n')
                .filter(|l| !l.is_empty())
                .map(<[u8]>::to_vec)
                .collect(),
        )
    };
    let expected = sorted(names.iter().map(|name| name.to_vec()).collect());
    assert_eq!(told("log"), expected, "the variables hold the names as they are");
    assert_eq!(told("all"), expected);
    wait_until("all were removed", || fs::read_dir(desk.path("in")).unwrap().count() == 0);
    ends_well(running);
    assert_eq!(told("log"), expected, "nothing was delivered twice");
}

/// Its name was remembered in another spelling, so everything was delivered again.
#[test]
fn a_growing_file_whose_name_is_no_text_goes_on_after_a_restart() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let (web, desk) = (Web::start(Kind::Nginx), Desk::new());
    let path = web.root().join(OsStr::from_bytes(b"log-\xe9"));
    fs::write(&path, b"first\n").unwrap();
    let url = format!("{}log-%E9", web.http(""));
    let hook = ["--follow", "--exec", "printf '%s %s\\n' \"$STROLL_FROM\" \"$STROLL_SIZE\" >> log"];
    let running = start(&desk, &url, &hook);
    wait_until("the first", || lines(&desk) == ["0 6"]);
    ends_well(running);
    append(&path, b"second\n");
    let running = start(&desk, &url, &hook);
    wait_until("the second", || lines(&desk).len() >= 2);
    ends_well(running);
    assert_eq!(lines(&desk), ["0 6", "6 13"]);
}
