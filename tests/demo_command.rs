//! `stroll demo`: its source pulled with `stroll get`, and whole demos.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]
#![allow(clippy::disallowed_methods, reason = "these tests are about real time")]

#[path = "common/desk.rs"]
mod desk;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use desk::Desk;
use serde_json::Value;

fn demo(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stroll"));
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", "/nonexistent");
    command.arg("demo").args(args).stdin(Stdio::null());
    command
}

/// The source of a demo without members. It is ended with the value.
struct Source {
    child: Child,
    http: String,
    ftp: String,
    files: std::path::PathBuf,
}

impl Source {
    fn start(folder: &Path) -> Self {
        let keep = folder.join("demo");
        let mut command = demo(&["--source-only", "--for", "300s", "--keep", keep.to_str().unwrap()]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let (http, ftp) = (lines.next().unwrap(), lines.next().unwrap());
        Self { child, http, ftp, files: keep.join("source/served") }
    }

    /// What it answers to one request: the head and the body.
    fn ask(&self, method: &str, path: &str, header: &str) -> (String, Vec<u8>) {
        let at = self.http.strip_prefix("http://").unwrap().trim_end_matches('/');
        let mut stream = TcpStream::connect(at).unwrap();
        write!(stream, "{method} /{path} HTTP/1.1\r\nHost: lab\r\nConnection: close\r\n{header}\r\n")
            .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
        (String::from_utf8(answer[..end].to_vec()).unwrap(), answer[end + 4..].to_vec())
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn header<'a>(head: &'a str, name: &str) -> &'a str {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).unwrap_or_default()
}

#[test]
fn the_source_gives_the_same_files_over_both_protocols() {
    let folder = tempfile::tempdir().unwrap();
    let (source, desk) = (Source::start(folder.path()), Desk::new());
    for path in
        ["tree/calibration/file-01.dat", "tree/calibration/2026/file-20.dat", "stream/frame-000001.gwf"]
    {
        let original = fs::read(source.files.join(path)).unwrap();
        for (name, root) in [("by-http", &source.http), ("by-ftp", &source.ftp)] {
            desk.pulls(&[&format!("{root}{path}"), "-o", name, "--solo"]);
            assert!(desk.read(name) == original, "{path} {name} differs");
            fs::remove_file(desk.path(name)).unwrap();
        }
    }
    assert_eq!(fs::metadata(source.files.join("stream/frame-000001.gwf")).unwrap().len(), 325_000);
}

#[test]
fn the_source_knows_ranges_and_validators() {
    let folder = tempfile::tempdir().unwrap();
    let source = Source::start(folder.path());
    let path = "tree/notes/file-18.dat";
    let original = fs::read(source.files.join(path)).unwrap();
    let (head, body) = source.ask("GET", path, "");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert_eq!(body, original);
    let tag = header(&head, "etag").to_owned();
    assert!(tag.starts_with('"') && header(&head, "last-modified").ends_with("GMT"), "{head}");

    let (head, body) = source.ask("HEAD", path, "");
    assert_eq!(header(&head, "content-length"), original.len().to_string());
    assert!(body.is_empty());

    let (head, body) = source.ask("GET", path, &format!("Range: bytes=10-19\r\nIf-Range: {tag}\r\n"));
    assert!(head.starts_with("HTTP/1.1 206"), "{head}");
    assert_eq!(header(&head, "content-range"), format!("bytes 10-19/{}", original.len()));
    assert_eq!(body, original[10..20]);
    let (head, body) = source.ask("GET", path, "Range: bytes=10-19\r\nIf-Range: \"another\"\r\n");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert_eq!(body, original);

    assert!(source.ask("GET", path, "Range: bytes=99999-\r\n").0.starts_with("HTTP/1.1 416"));
    assert!(source.ask("GET", "tree/../../making", "").0.starts_with("HTTP/1.1 404"));
    assert!(source.ask("PUT", path, "Content-Length: 0\r\n").0.starts_with("HTTP/1.1 405"));
    let (_, index) = source.ask("GET", "tree/", "");
    let index: Value = serde_json::from_slice(&index).unwrap();
    assert_eq!(index.as_array().unwrap().len(), 2, "{index}");
}

#[track_caller]
fn report(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{:?}: {said}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_demo_is_all_right_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = demo(&["--for", "8s", "--members", "3", "--progress", "none", "--json"]);
    let output = command.env("TMPDIR", folder.path()).output().unwrap();
    let report = report(&output);
    assert_eq!((&report["version"], &report["ok"]), (&1.into(), &true.into()), "{report}");
    assert_eq!(report["frames"], 10, "{report}");
    assert!(report["page"].as_str().unwrap().starts_with("http://127.0.0.1:"), "{report}");
    for (side, files) in [("circle", 30), ("uncoordinated", 10)] {
        let side = &report[side];
        let shares: Vec<f64> = side["shares"].as_array().unwrap().iter().filter_map(Value::as_f64).collect();
        assert!(shares.len() == 4 && (shares.iter().sum::<f64>() - 1.0).abs() < 1e-6, "{report}");
        let fairness = side["fairness"].as_f64().unwrap();
        assert!(fairness > 0.0 && fairness <= 1.0, "{report}");
        assert!(side["bytes"].as_u64().unwrap() > 0, "{report}");
        let labs = side["labs"].as_array().unwrap();
        assert_eq!(labs.len(), 3, "{report}");
        for lab in labs {
            assert_eq!(lab["same"], files, "{report}");
        }
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_killed_holder_costs_nothing_but_its_time() {
    let args = [
        "--for",
        "12s",
        "--members",
        "3",
        "--kill-holder",
        "--no-comparison",
        "--progress",
        "none",
        "--json",
    ];
    let report = report(&demo(&args).output().unwrap());
    assert!(report["killed"]["next_slot_s"].as_f64().unwrap() > 0.0, "{report}");
    assert!(report["uncoordinated"].is_null(), "{report}");
}

#[test]
fn with_tickets_so_many_pull_at_once_and_never_more() {
    let mut command =
        demo(&["--mode", "tickets", "--for", "8s", "--members", "4", "--progress", "none", "--json"]);
    let report = report(&command.arg("--no-comparison").output().unwrap());
    assert_eq!((&report["mode"], &report["tickets"]), (&"tickets".into(), &3.into()), "{report}");
    let circle = &report["circle"];
    assert_eq!(circle["shares"].as_array().unwrap().len(), 5, "{report}");
    assert!((1..=3).contains(&circle["most_at_once"].as_u64().unwrap()), "{report}");
    for lab in circle["labs"].as_array().unwrap() {
        assert_eq!(lab["same"], 30, "{report}");
    }
}

#[test]
fn nonsense_is_refused_before_anything_begins() {
    for args in [
        &["--members", "1"][..],
        &["--for", "1s"],
        &["--rules", "none"],
        &["--page", "1:2", "--no-page"],
        &["--tickets", "3"],
        &["--mode", "tickets", "--tickets", "1"],
    ] {
        let output = demo(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
    }
}
