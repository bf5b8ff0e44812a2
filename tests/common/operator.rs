//! Somebody who runs a member with settings: a founder alone, which is a circle of one, and its jobs.

#![allow(dead_code, reason = "each test file needs its own part of this")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::lab::{Lab, found};

/// How long anything may take on a busy machine before the test has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

#[track_caller]
pub(crate) fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// The exit code of a process that must end.
#[track_caller]
pub(crate) fn code_of(process: &mut Child) -> Option<i32> {
    let begun = Instant::now();
    loop {
        if let Some(status) = process.try_wait().unwrap() {
            return status.code();
        }
        if begun.elapsed() > PATIENCE {
            let _ = process.kill();
            panic!("it does not end");
        }
        thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) struct Operator {
    // Ended before its folder goes.
    pub(crate) lab: Lab,
    folder: TempDir,
}

impl Operator {
    /// The founder of a circle around this source; it does not run yet.
    pub(crate) fn new(source: &str, constants: &[&str]) -> Self {
        let folder = tempfile::Builder::new().prefix("stroll-run-").tempdir().unwrap();
        let lab = Lab::new(folder.path(), "lab");
        found(&lab, source, constants);
        let operator = Self { lab, folder };
        operator.set("");
        operator
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The same, as the settings have it.
    pub(crate) fn quoted(&self, name: &str) -> String {
        format!("\"{}\"", self.path(name).display())
    }

    /// Writes the settings.
    pub(crate) fn set(&self, text: &str) {
        fs::write(self.path("stroll.toml"), text).unwrap();
    }

    /// `stroll run` with these settings.
    pub(crate) fn command(&self, flags: &[&str]) -> Command {
        let mut command = self.lab.stroll(&["--config"]);
        command.arg(self.path("stroll.toml")).args(["run", "-v"]).args(flags);
        command.env("HOME", self.path("")).stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&mut self, flags: &[&str]) {
        let command = self.command(flags);
        self.start(command);
        self.wait_until("runs", |operator| operator.lab.glance().is_some());
    }

    pub(crate) fn start(&mut self, mut command: Command) {
        let log = fs::OpenOptions::new().create(true).append(true).open(&self.lab.log).unwrap();
        self.lab.process = Some(command.stdout(Stdio::null()).stderr(log).spawn().unwrap());
    }

    pub(crate) fn hang_up(&self) {
        self.lab.signal("HUP");
    }

    /// Ends it: the exit code, and all that it said.
    pub(crate) fn end(&mut self) -> (Option<i32>, String) {
        self.lab.signal("TERM");
        self.ended()
    }

    /// The same for a member that was told to end already: a second signal would end it at once.
    pub(crate) fn ended(&mut self) -> (Option<i32>, String) {
        let mut process = self.lab.process.take().unwrap();
        (code_of(&mut process), self.log())
    }

    pub(crate) fn log(&self) -> String {
        self.lab.log_text()
    }

    pub(crate) fn jobs(&self) -> Vec<Value> {
        let status = self.lab.glance().unwrap_or_default();
        status["jobs"].as_array().cloned().unwrap_or_default()
    }

    pub(crate) fn job(&self, name: &str) -> Option<Value> {
        self.jobs().into_iter().find(|job| job["name"] == name)
    }

    /// What a job has counted.
    pub(crate) fn count(&self, job: &str, what: &str) -> u64 {
        self.job(job).and_then(|job| job[what].as_u64()).unwrap_or(0)
    }

    /// Where its page is, once it has said so.
    pub(crate) fn page(&self) -> std::net::SocketAddr {
        let found =
            |log: &str| Some(log.split_once("status page at http://")?.1.split_once('/')?.0.parse().unwrap());
        self.wait_until("said where its page is", |operator| found(&operator.log()).is_some());
        found(&self.log()).unwrap()
    }

    /// What its page says of a metric, written as it is there: with its labels.
    pub(crate) fn metric(&self, name: &str) -> Option<f64> {
        let mut stream = TcpStream::connect(self.page()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
    }

    #[track_caller]
    pub(crate) fn wait_until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let begun = Instant::now();
        while !is_so(self) {
            assert!(begun.elapsed() < PATIENCE, "never {what}: {:?}\n{}", self.jobs(), self.log());
            thread::sleep(Duration::from_millis(50));
        }
    }
}
