//! A circle with tickets as processes, around a real FTP server that lets in as many as there are tickets and not one more.
//! Everybody has more to pull than it can.

#![allow(dead_code, reason = "not every file uses all of it")]

use std::fs::{self, File};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use super::ftpd::{Ftpd, Kind, Tls};
use super::lab::{Lab, found, join};

pub(crate) const MEMBERS: usize = 12;
pub(crate) const TICKETS: u32 = 4;

/// How many are killed at once: as many as the circle is made for.
pub(crate) const FAULTS: usize = 2;

/// How long anything may take on a busy machine before it has failed.
const PATIENCE: Duration = Duration::from_secs(240);

/// At so many bytes per second everybody is busy for all of its turn, and for long.
const RATE: &str = "200k";
const FILES: usize = 40;
const FILE_BYTES: u64 = 4_000_000;

/// The members and their server.
pub(crate) struct Crowd {
    // Ended before the server and the folder go.
    pub(crate) labs: Vec<Lab>,
    pub(crate) server: Ftpd,
    folder: tempfile::TempDir,
}

impl Crowd {
    /// All of them run.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = Ftpd::with(Kind::Vsftpd, Tls::Off, Some(TICKETS));
        for number in 0..FILES {
            server.put(&format!("tree/f-{number:02}"), b"", 1_000_000);
            File::options()
                .write(true)
                .open(server.root().join(format!("tree/f-{number:02}")))
                .and_then(|file| file.set_len(FILE_BYTES))
                .unwrap();
        }
        let labs = (0..MEMBERS).map(|n| Lab::new(folder.path(), &format!("lab-{n}"))).collect();
        let mut crowd = Self { labs, server, folder };
        crowd.write_settings();
        crowd.begin();
        crowd
    }

    fn write_settings(&self) {
        let password = self.folder.path().join("password");
        fs::write(&password, "right\n").unwrap();
        fs::set_permissions(&password, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        for lab in &self.labs {
            let text = format!(
                "[transfer]\nuser = \"anonymous\"\npassword_file = \"{}\"\nbwlimit = {RATE:?}\n\
                 [[mirror]]\nname = \"tree\"\nurl = \"{}\"\nto = \"{}\"\nevery = \"1s\"\n",
                password.display(),
                self.url(),
                self.folder.path().join("replicas").join(&lab.name).display(),
            );
            fs::write(self.settings(lab), text).unwrap();
        }
    }

    fn begin(&mut self) {
        let (tickets, faults) = (TICKETS.to_string(), FAULTS.to_string());
        let constants = ["--mode", "tickets", "--tickets", &tickets, "--faults", &faults, "--slot", "2s"];
        found(&self.labs[0], &self.url(), &constants);
        self.run(0);
        for member in 1..MEMBERS {
            join(&self.labs[0], &self.labs[member]);
            self.run(member);
        }
    }

    fn url(&self) -> String {
        self.server.address("tree/").to_string()
    }

    fn settings(&self, lab: &Lab) -> PathBuf {
        self.folder.path().join(format!("{}.toml", lab.name))
    }

    pub(crate) fn run(&mut self, member: usize) {
        let settings = self.settings(&self.labs[member]);
        self.labs[member].run_with(&["--config", settings.to_str().unwrap()]);
    }

    /// How often each member has pulled something, in all of its lives.
    pub(crate) fn pulls(&self) -> Vec<usize> {
        let ends = |lab: &Lab| {
            let log = lab.log_text();
            let is_pull = |line: &&str| line.contains("slot ended") && !line.contains("bytes=0");
            log.lines().filter(is_pull).count()
        };
        self.labs.iter().map(ends).collect()
    }

    /// Waits until everybody has pulled so many times more.
    #[track_caller]
    pub(crate) fn all_are_served(&self, times: usize) {
        let before = self.pulls();
        wait_until(
            || self.pulls().iter().zip(&before).all(|(now, before)| *now >= before + times),
            || format!("somebody is not served: {before:?}, {:?}\n{}", self.pulls(), self.logs()),
        );
    }

    /// Kills as many as may fail at once, so many of them while they pull.
    #[track_caller]
    pub(crate) fn kill_some(&mut self, pulling: usize) -> Vec<usize> {
        let pulls =
            |member: &usize| self.labs[*member].glance().is_some_and(|status| status["state"] == "pulling");
        let mut doomed = Vec::new();
        wait_until(
            || {
                let (busy, idle): (Vec<usize>, Vec<usize>) = (0..MEMBERS).partition(pulls);
                let others = idle.into_iter().take(FAULTS.saturating_sub(pulling));
                doomed = busy.into_iter().take(pulling).chain(others).collect();
                doomed.len() == FAULTS
            },
            || format!("never {pulling} at once\n{}", self.logs()),
        );
        for member in &doomed {
            self.labs[*member].signal("KILL");
        }
        for member in &doomed {
            self.labs[*member].kill();
        }
        doomed
    }

    /// What the server and the members have to say about refusals.
    pub(crate) fn refusals(&self) -> Vec<String> {
        let told = |lab: &Lab| -> Vec<String> {
            let status = lab.glance().unwrap_or_default();
            let jobs = status["jobs"].as_array().cloned().unwrap_or_default();
            let refused =
                |job: &serde_json::Value| job["refusals"].as_object().is_some_and(|it| !it.is_empty());
            jobs.iter().filter(|job| refused(job)).map(|job| format!("{}: {job}", lab.name)).collect()
        };
        self.server.refusals().into_iter().chain(self.labs.iter().flat_map(told)).collect()
    }

    pub(crate) fn logs(&self) -> String {
        let logs: Vec<String> =
            self.labs.iter().map(|lab| format!("--- {}\n{}", lab.name, lab.log_text())).collect();
        logs.concat()
    }
}

#[track_caller]
fn wait_until(mut is_so: impl FnMut() -> bool, otherwise: impl Fn() -> String) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{}", otherwise());
        thread::sleep(Duration::from_millis(20));
    }
}
