//! `stroll subscribe --follow` from web servers that lie about a file that grows: whatever they say, what is here is a
//! beginning of what is there, and two versions are never spliced; and in a circle of two, from a real server.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]
#![allow(clippy::disallowed_methods, reason = "these tests are about real time")]

#[path = "common/desk.rs"]
mod desk;
#[path = "common/lab.rs"]
mod lab;
#[path = "common/lying_http.rs"]
mod lying_http;
#[path = "common/web.rs"]
mod web;

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use desk::{Desk, Running, noise};
use lab::{Lab, found, join};
use lying_http::{Liar, Step, answer};
use rustix::process::Signal;
use web::{Kind, Web};

/// How long anything may take on a busy machine before the test has failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// Longer than what is compared, so that a request begins in the middle.
const FIRST: usize = 200_000;

const FLAGS: &[&str] =
    &["--follow", "--poll", "1s", "--refusal-wait", "1s", "--retries", "1", "--progress", "json"];

fn subscribe(desk: &Desk, url: &str) -> Running {
    let mut command = desk.stroll(&["subscribe", url, "in"]);
    command.args(FLAGS);
    Running::start(command)
}

/// From where, and to where, the request wants bytes of a file that is so long.
fn range(head: &str, len: usize) -> (usize, usize) {
    let head = head.to_ascii_lowercase();
    let (from, to) =
        head.split("range: bytes=").nth(1).unwrap().lines().next().unwrap().trim().split_once('-').unwrap();
    (from.parse().unwrap(), to.parse().map_or(len, |to: usize| len.min(to + 1)))
}

/// The answer of a server that has this file. What it says and what it sends may be changed.
fn partial(file: &[u8], head: &str, etag: &str, total: usize, send: impl Fn(&[u8]) -> usize) -> Vec<Step> {
    if !head.to_ascii_lowercase().contains("range: bytes=") {
        let length = format!("Content-Length: {}", file.len());
        return vec![answer("200 OK", &[&length, &format!("ETag: {etag}"), "Accept-Ranges: bytes"], file)];
    }
    let (from, to) = range(head, file.len());
    if from >= to {
        return refused(&[&format!("Content-Range: bytes */{total}")]);
    }
    let body = &file[from..to];
    let (range, length) = (
        format!("Content-Range: bytes {from}-{}/{total}", to - 1),
        format!("Content-Length: {}", body.len()),
    );
    let count = send(body);
    let said = answer("206 Partial Content", &[&range, &length, &format!("ETag: {etag}")], &body[..count]);
    if count == body.len() { vec![said] } else { vec![said, Step::Close] }
}

fn refused(fields: &[&str]) -> Vec<Step> {
    vec![answer("416 Range Not Satisfiable", &[fields, &["Content-Length: 0"]].concat(), b"")]
}

fn honest(file: &[u8], head: &str) -> Vec<Step> {
    partial(file, head, &format!("\"{}\"", file.len()), file.len(), <[u8]>::len)
}

/// The old replicas, by their content.
fn kept(desk: &Desk) -> Vec<Vec<u8>> {
    let old = desk.files().into_iter().filter(|name| name.starts_with("in/log.2"));
    old.map(|name| desk.read(&name)).collect()
}

async fn wait_until(what: &str, is_so: impl AsyncFn() -> bool) {
    let begun = Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn here(desk: &Desk) -> Vec<u8> {
    fs::read(desk.path("in/log")).unwrap_or_default()
}

/// What a server says once, when it is asked whether its file has grown: given the file, and the head of the request.
type Lie = fn(&[u8], &str) -> Vec<Step>;

/// What comes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// It goes on as if nothing had been.
    GoesOn,
    /// It is taken for another file: the old replica is kept.
    BeginsAnew,
    /// The source cannot be followed: it ends with this exit code.
    Ends(i32),
}

async fn told(lie: Lie, then: Then) {
    let grown = noise(1, FIRST + 100_000);
    let file = grown.clone();
    let liar = Liar::start(move |number, head| match number {
        0 => honest(&file[..FIRST], head),
        1 => lie(&file, head),
        _ => honest(&file, head),
    })
    .await;
    let (desk, url) = (Desk::new(), liar.address("log").to_string());
    let mut running = subscribe(&desk, &url);
    wait_until("the lie was told", async || liar.heard().len() > 1).await;
    if let Then::Ends(code) = then {
        let (ended, said) = tokio::task::spawn_blocking(|| running.end()).await.unwrap();
        assert_eq!(ended, Some(code), "{said}");
        assert!(here(&desk) == grown[..FIRST], "what was here is untouched");
        running = subscribe(&desk, &url);
    }
    wait_until("all of it is here", async || here(&desk) == grown).await;
    running.signal(Signal::TERM);
    let (code, said) = tokio::task::spawn_blocking(|| running.end()).await.unwrap();
    assert_eq!(code, Some(0), "{said}");
    let old = kept(&desk);
    assert_eq!(old.len(), usize::from(then == Then::BeginsAnew), "{said}");
    assert!(old.iter().all(|old| grown.starts_with(old)), "two versions in one file");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_of_the_file_instead_of_a_range_is_not_appended() {
    let whole: Lie = |file, _| vec![answer("200 OK", &[&format!("Content-Length: {}", file.len())], file)];
    told(whole, Then::Ends(7)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_etag_for_the_same_bytes_is_the_same_file() {
    told(|file, head| partial(file, head, "\"another\"", file.len(), <[u8]>::len), Then::GoesOn).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_ends_early_is_continued() {
    // In what is new, and in what is compared: that is no shorter file.
    told(|file, head| partial(file, head, "\"1\"", file.len(), |body| body.len() - 50_000), Then::GoesOn)
        .await;
    told(|file, head| partial(file, head, "\"1\"", file.len(), |_| 1_000), Then::GoesOn).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_range_that_is_refused_with_a_wrong_size_loses_nothing() {
    // Of what was asked for a part is here, and came from there: so it has shrunk, or is another one.
    told(|_, _| refused(&["Content-Range: bytes */999999999"]), Then::BeginsAnew).await;
    told(|_, _| refused(&["Content-Range: bytes */7"]), Then::BeginsAnew).await;
    told(|_, _| refused(&[]), Then::BeginsAnew).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_range_than_was_asked_for_is_not_appended() {
    let shifted: Lie = |file, _| {
        let range = format!("Content-Range: bytes {}-{}/{}", FIRST, file.len() - 1, file.len());
        let length = format!("Content-Length: {}", file.len() - FIRST);
        vec![answer("206 Partial Content", &[&range, &length], &file[FIRST..])]
    };
    told(shifted, Then::Ends(11)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_size_that_has_shrunk_is_another_file() {
    // It says so, though it still has the bytes.
    told(
        |file, head| partial(&file[..FIRST - 10_000], head, "\"1\"", FIRST - 10_000, <[u8]>::len),
        Then::BeginsAnew,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_bytes_from_the_middle_of_an_answer_on_are_never_spliced() {
    // The second look finds another version, as long as the grown first one; the first part of its answer is still right.
    let (old, new) = (noise(1, FIRST), noise(2, FIRST + 100_000));
    let mixed = [&old[..FIRST - 1_000], &new[FIRST - 1_000..]].concat();
    let (first, second) = (old.clone(), new.clone());
    let liar = Liar::start(move |number, head| match number {
        0 => honest(&first, head),
        1 => partial(&mixed, head, "\"new\"", mixed.len(), <[u8]>::len),
        _ => honest(&second, head),
    })
    .await;
    let desk = Desk::new();
    let running = subscribe(&desk, &liar.address("log").to_string());
    wait_until("the new one is here", async || here(&desk) == new).await;
    running.signal(Signal::TERM);
    let (code, said) = tokio::task::spawn_blocking(|| running.end()).await.unwrap();
    assert_eq!(code, Some(0), "{said}");
    assert!(kept(&desk) == [old], "the old one is kept as it was");
}

// --- in a circle ------------------------------------------------------------------------------------------------------

#[test]
fn two_members_follow_a_growing_file_in_their_slots() {
    let (folder, web) = (tempfile::tempdir().unwrap(), Web::start(Kind::Nginx));
    let source = web.http("").to_string();
    let mut labs: Vec<Lab> = (0..2).map(|n| Lab::new(folder.path(), &format!("lab-{n}"))).collect();
    let (founder, others) = labs.split_first_mut().unwrap();
    found(founder, &source, &["--slot", "400ms", "--skip", "20ms", "--capacity", "2"]);
    founder.run_with(&[]);
    join(founder, &others[0]);
    others[0].run_with(&[]);
    web.put("log", &noise(3, FIRST), 0);
    let url = web.http("log").to_string();
    let follow = |lab: &Lab| -> (Running, PathBuf) {
        let target = folder.path().join(format!("in-{}", lab.name));
        let mut command: Command = lab.stroll(&["subscribe", &url]);
        command
            .arg(&target)
            .arg("--state")
            .arg(folder.path().join(format!("state-{}", lab.name)))
            .args(FLAGS);
        (Running::start(command), target.join("log"))
    };
    let running: Vec<(Running, PathBuf)> = labs.iter().map(follow).collect();
    let all_have = |what: &str, wanted: &[u8]| {
        let begun = Instant::now();
        let has = |path: &PathBuf| fs::read(path).is_ok_and(|got| got == wanted);
        while !running.iter().all(|(_, path)| has(path)) {
            assert!(begun.elapsed() < PATIENCE, "never: {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let mut there = noise(3, FIRST);
    all_have("the beginning", &there);
    for round in 0..3 {
        let more = noise(10 + round, 300_000);
        OpenOptions::new().append(true).open(web.path("log")).unwrap().write_all(&more).unwrap();
        there.extend(more);
        all_have("what was appended", &there);
    }
    // Another file, of the same length: both begin anew, and keep the old one.
    let another = noise(20, there.len());
    web.put("log", &another, 0);
    all_have("another one", &another);
    for (running, path) in running {
        let old: Vec<PathBuf> = fs::read_dir(path.parent().unwrap())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("log.2"))
            .collect();
        assert!(old.len() == 1 && fs::read(&old[0]).unwrap() == there, "{old:?}");
        running.signal(Signal::TERM);
        let (code, said) = running.end();
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("\"slot\""), "it pulled in slots: {said}");
    }
    lab::slots_were_exclusive(&labs);
}
