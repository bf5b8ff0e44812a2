//! A folder from which `stroll` is run, with a home of its own: what it writes, says and answers.

#![allow(dead_code, reason = "each test file needs its own part of this")]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long anything may take on a busy machine before the test has failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// Bytes that do not repeat, and are others for each seed.
pub(crate) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

pub(crate) struct Desk {
    folder: tempfile::TempDir,
}

impl Desk {
    pub(crate) fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("stroll-desk-").tempdir().unwrap();
        fs::create_dir(folder.path().join("home")).unwrap();
        fs::create_dir(folder.path().join("here")).unwrap();
        Self { folder }
    }

    /// A path below the folder in which commands run.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("here").join(name)
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Everything below the folder, sorted.
    pub(crate) fn files(&self) -> Vec<String> {
        let mut names = Vec::new();
        collect(&self.path(""), Path::new(""), &mut names);
        names.sort();
        names
    }

    /// A file that only its owner may read.
    pub(crate) fn private(&self, name: &str, text: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.home().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.stroll(&["get"]);
        command.args(args);
        command
    }

    /// Any command.
    pub(crate) fn stroll(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stroll"));
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", self.home());
        command.current_dir(self.path("")).args(args).stdin(Stdio::null());
        command
    }

    pub(crate) fn get(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// What it says to people, when it must succeed.
    #[track_caller]
    pub(crate) fn pulls(&self, args: &[&str]) -> String {
        let output = self.get(args);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{args:?}: {:?} {said}", output.status);
        said
    }

    /// What it says to people, when it must fail with this code.
    #[track_caller]
    pub(crate) fn fails(&self, code: i32, args: &[&str]) -> String {
        let output = self.get(args);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        said
    }

    /// What it prints with `--json`.
    #[track_caller]
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let mut all = vec!["--json"];
        all.extend_from_slice(args);
        let output = self.get(&all);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
    }

    /// Starts a get whose events can be waited for.
    pub(crate) fn start(&self, args: &[&str]) -> Running {
        let mut all = vec!["--progress", "json"];
        all.extend_from_slice(args);
        let command = self.command(&all);
        Running::start(command)
    }
}

fn collect(root: &Path, below: &Path, names: &mut Vec<String>) {
    for entry in fs::read_dir(root.join(below)).unwrap() {
        let entry = entry.unwrap();
        let path = below.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            collect(root, &path, names);
        } else {
            names.push(path.display().to_string());
        }
    }
}

/// A get that runs, with `--progress json`. It is ended with the value.
pub(crate) struct Running {
    pub(crate) child: Child,
    lines: std::sync::mpsc::Receiver<String>,
    heard: Vec<String>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (tell, lines) = std::sync::mpsc::channel();
        let stderr = child.stderr.take().unwrap();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if tell.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, lines, heard: Vec::new() }
    }

    /// Waits until an event of this name has happened, and gives it.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, event: &str) -> Value {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            let Ok(line) = self.lines.recv_timeout(PATIENCE) else { break };
            let value: Value = serde_json::from_str(&line).unwrap_or_default();
            self.heard.push(line);
            if value["event"] == event {
                return value;
            }
        }
        panic!("no {event}: {:?}", self.heard);
    }

    /// Waits until it has said this in some line.
    #[track_caller]
    pub(crate) fn wait_for_words(&mut self, words: &str) {
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            let is_it = line.contains(words);
            self.heard.push(line);
            if is_it {
                return;
            }
        }
        panic!("never said {words}: {:?}", self.heard);
    }

    /// Forgets what has happened so far.
    pub(crate) fn forget(&mut self) {
        self.heard.extend(self.lines.try_iter());
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Waits for the end: the exit code, and all that was said.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let status = self.child.wait().unwrap();
        let mut out = Vec::new();
        if let Some(mut stdout) = self.child.stdout.take() {
            stdout.read_to_end(&mut out).unwrap();
        }
        self.heard.extend(self.lines.iter());
        (status.code(), self.heard.join("\n"))
    }
}
