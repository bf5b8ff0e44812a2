//! `stroll exec`: the codes that it passes on, and that in a circle nobody runs outside slots.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]
#![allow(clippy::disallowed_methods, reason = "these tests are about real time")]

#[path = "common/lab.rs"]
mod lab;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use lab::{Lab, found, join};
use rustix::process::{Pid, Signal, kill_process};

/// Long enough that a shell gets something done in it.
const SLOTS: &[&str] = &["--slot", "1500ms", "--skip", "50ms", "--capacity", "4"];

/// How long anything may take on a busy machine before the test has failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// Writes a line with the time again and again; goes when it is asked to, and says so. If a test fails to end it, it ends
/// with the test's folder.
const POLITE: &str = r#"
    trap 'echo "asked $(date +%s.%N) $STROLL_SLOT_UNTIL" >> "$1"; exit 9' TERM
    echo "begun $(date +%s.%N)" >> "$1"
    while [ -d "${1%/*}" ]; do echo "beat $(date +%s.%N)" >> "$1"; sleep 0.01; done"#;

/// The same, but it does not listen, and neither does what it starts.
const STUBBORN: &str = r#"
    trap '' TERM
    beat() { while [ -d "${1%/*}" ]; do echo "beat $(date +%s.%N)" >> "$1"; sleep 0.01; done; }
    echo "begun $(date +%s.%N)" >> "$1"
    beat "$1" &
    beat "$1""#;

// --- alone ------------------------------------------------------------------------------------------------------

fn alone(folder: &Path, args: &[&str]) -> Command {
    // Whoever runs the tests with `nohup` would have the command ignore hangups, too.
    let mut command = Command::new("/usr/bin/env");
    command.args(["--default-signal=HUP", env!("CARGO_BIN_EXE_stroll"), "exec"]);
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", folder);
    command.args(args);
    command
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

#[test]
fn alone_the_exit_code_is_passed_on() {
    let folder = tempfile::tempdir().unwrap();
    for (script, expected) in
        [("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill -s TERM $$", 143), ("kill -s KILL $$", 137)]
    {
        let output = alone(folder.path(), &["--", "sh", "-c", script]).output().unwrap();
        assert_eq!(code(&output), expected, "{script}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let missing = alone(folder.path(), &["--", "/nonexistent/command"]).output().unwrap();
    assert_eq!(code(&missing), 127);
    let not_executable = alone(folder.path(), &["--", "/etc/passwd"]).output().unwrap();
    assert_eq!(code(&not_executable), 126);
}

/// A command that writes `begun` when it runs and does not listen; it ends with the folder.
fn deaf(folder: &Path) -> String {
    format!(
        "trap '' TERM INT HUP; echo x > {0}/begun; while [ -d {0} ]; do sleep 0.05; done",
        folder.display()
    )
}

#[track_caller]
fn ends(child: &mut Child, within: Duration) -> Option<i32> {
    let begun = Instant::now();
    while begun.elapsed() < within {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        thread::sleep(Duration::from_millis(20));
    }
    let _ = child.kill();
    panic!("it does not end");
}

#[test]
fn who_is_asked_twice_by_whatever_signal_goes_at_once() {
    for (signal, expected) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let folder = tempfile::tempdir().unwrap();
        let mut child = alone(folder.path(), &["--", "sh", "-c", &deaf(folder.path())]).spawn().unwrap();
        let begun = Instant::now();
        while !folder.path().join("begun").exists() {
            assert!(begun.elapsed() < PATIENCE, "it never began");
            thread::sleep(Duration::from_millis(20));
        }
        let pid = Pid::from_child(&child);
        kill_process(pid, signal).unwrap();
        // It gives the command its time to end.
        thread::sleep(Duration::from_millis(500));
        assert!(child.try_wait().unwrap().is_none(), "{signal:?}");
        kill_process(pid, signal).unwrap();
        assert_eq!(ends(&mut child, Duration::from_secs(3)), Some(expected), "{signal:?}");
    }
}

/// `nohup` says so by ignoring the signal, which to listen for it would undo.
#[test]
fn who_is_to_outlive_a_hangup_does() {
    let folder = tempfile::tempdir().unwrap();
    let note = folder.path().join("begun");
    let script = format!("echo x > {}; sleep 2", note.display());
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "trap '' HUP; exec \"$0\" exec -- sh -c \"$1\"",
        env!("CARGO_BIN_EXE_stroll"),
        &script,
    ]);
    let mut child = command.env("HOME", folder.path()).spawn().unwrap();
    let begun = Instant::now();
    while !note.exists() {
        assert!(begun.elapsed() < PATIENCE, "it never began");
        thread::sleep(Duration::from_millis(20));
    }
    kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    assert_eq!(ends(&mut child, PATIENCE), Some(0));
}

#[test]
fn log_lines_go_to_the_file_that_is_named_and_are_nobody_elses() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("stroll.log");
    let flags = ["-v", "--log-file", log.to_str().unwrap()];
    for (format, count) in [("text", 1), ("json", 2)] {
        let args = [&flags[..], &["--log-format", format, "--", "true"]].concat();
        let output = alone(folder.path(), &args).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && !said.contains("INFO"), "{said}");
        let text = fs::read_to_string(&log).unwrap();
        assert_eq!(text.matches("the command ended").count(), count, "it is appended to: {text}");
        assert!(!text.contains('\u{1b}'), "{text:?}");
        if format == "json" {
            let line: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
            assert_eq!(line["level"], "INFO", "{line}");
        }
    }
    assert_eq!(fs::metadata(&log).unwrap().permissions().mode() & 0o777, 0o600);
    let nowhere = alone(folder.path(), &["--log-file", "/nonexistent/log", "--", "true"]).output().unwrap();
    assert_eq!(code(&nowhere), 2);
    assert!(String::from_utf8(nowhere.stderr).unwrap().contains("log-file: /nonexistent/log"));
}

#[test]
fn what_makes_no_sense_is_a_usage_error() {
    let folder = tempfile::tempdir().unwrap();
    for args in [
        &[][..],
        &["--grace", "soon", "--", "true"],
        &["--schedule", "61 * * * *", "--", "true"],
        &["--every", "1ms", "--", "true"],
        &["--every", "1h", "--schedule", "@daily", "--", "true"],
        &["--circle", "virgo", "--", "true"],
    ] {
        let output = alone(folder.path(), args).output().unwrap();
        assert_eq!(code(&output), 2, "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn words_go_through_as_they_are_and_nothing_else_is_said_on_stdout() {
    let folder = tempfile::tempdir().unwrap();
    let output = alone(folder.path(), &["--", "printf", "%s\n", "$(exit 1)", "a  b", "-x"]).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "$(exit 1)\na  b\n-x\n");
    assert!(String::from_utf8(output.stderr).unwrap().contains("running alone"));
    let script = "echo ${STROLL_SLOT_UNTIL-none}";
    let output = alone(folder.path(), &["--solo", "--", "sh", "-c", script]).output().unwrap();
    assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (&b"none\n"[..], &b""[..]));
}

#[test]
fn standard_input_is_closed_unless_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    for (flags, expected) in [(&["--solo"][..], ""), (&["--solo", "--stdin"], "hello")] {
        let args = [flags, &["--", "cat"]].concat();
        let mut command = alone(folder.path(), &args);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // Nobody may be there to read it.
        let _ = child.stdin.take().unwrap().write_all(b"hello");
        assert_eq!(String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap(), expected);
    }
}

#[test]
fn a_failure_is_tried_again_and_a_schedule_repeats() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out").display().to_string();
    let script = r#"echo x >> "$1"; [ $(wc -l < "$1") -ge 2 ]"#;
    let again =
        alone(folder.path(), &["--solo", "--retries", "1", "--", "sh", "-c", script, "sh", &out]).output();
    assert_eq!(code(&again.unwrap()), 0);
    assert_eq!(fs::read_to_string(&out).unwrap(), "x\nx\n");
    let mut command =
        alone(folder.path(), &["--solo", "--every", "1s", "--", "sh", "-c", script, "sh", &out]);
    let mut child = command.spawn().unwrap();
    wait_until("it ran three times more", || fs::read_to_string(&out).unwrap().len() >= 10);
    signal(&child, Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let output = alone(folder.path(), &["--solo", "--max-duration", "200ms", "--", "sleep", "300"]).output();
    assert_eq!(code(&output.unwrap()), 10);
}

// --- in a circle ------------------------------------------------------------------------------------------------

/// An exec of a lab: its process, where the script writes, and where it logs itself.
struct Exec {
    child: Child,
    out: PathBuf,
    log: PathBuf,
}

impl Drop for Exec {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Exec {
    fn start(lab: &Lab, script: &str) -> Self {
        let (out, log) = (lab.home.with_extension("out"), lab.home.with_extension("exec.log"));
        let mut command = lab.stroll(&["exec", "-vv", "--", "sh", "-c", script, "sh"]);
        let child =
            command.arg(&out).stdout(Stdio::null()).stderr(fs::File::create(&log).unwrap()).spawn().unwrap();
        Self { child, out, log }
    }

    fn lines(&self, word: &str) -> Vec<String> {
        let text = fs::read_to_string(&self.out).unwrap_or_default();
        let lines = text.lines().filter(|line| line.starts_with(word));
        lines.map(str::to_owned).collect()
    }

    /// Waits until the script has been started so often.
    fn wait_for_runs(&self, count: usize) {
        wait_until("it is run again", || self.lines("begun").len() >= count);
    }

    /// Ends it, and waits until it has left.
    fn stop(&mut self) {
        signal(&self.child, Signal::TERM);
        assert_eq!(self.child.wait().unwrap().code(), Some(1), "{}", self.said());
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Fails if the script ran at a moment that was in none of these slots.
    #[track_caller]
    fn ran_only_in(&self, slots: &[(f64, f64)]) {
        let mut beats = 0;
        for line in self.lines("be") {
            // A clock that was killed, a moment before the shell that asked it, has told no time.
            let Ok(at) = line.split(' ').nth(1).unwrap().parse::<f64>() else { continue };
            let is_in = slots.iter().any(|(began, ended)| (*began..=*ended).contains(&at));
            assert!(is_in, "{line} is in none of {slots:?}");
            beats += 1;
        }
        println!("{beats} signs of life in {} slots", slots.len());
        assert!(beats > 0 && !slots.is_empty());
    }
}

/// The slots of a member, by its log: a line about an end is written before the token goes on.
fn slots_in(log: &str) -> Vec<(f64, f64)> {
    let mut slots = Vec::new();
    for line in log.lines() {
        let at = || line.split(' ').next().unwrap().parse::<jiff::Timestamp>().unwrap().as_microsecond();
        if line.contains("slot began") {
            slots.push((at() as f64 / 1e6, f64::INFINITY));
        } else if line.contains("slot ended") {
            slots.last_mut().unwrap().1 = at() as f64 / 1e6;
        }
    }
    slots
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), signal).unwrap();
}

#[track_caller]
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A founder that runs, and a second lab that does not.
fn two_labs(folder: &Path) -> (Lab, Lab) {
    let (mut founder, other) = (Lab::new(folder, "lab-0"), Lab::new(folder, "lab-1"));
    found(&founder, "ftp://127.0.0.1/stream/", SLOTS);
    founder.run_with(&[]);
    join(&founder, &other);
    (founder, other)
}

#[test]
fn in_a_circle_commands_run_only_in_slots_whether_they_listen_or_not() {
    let folder = tempfile::tempdir().unwrap();
    let (founder, other) = two_labs(folder.path());
    // One borrows from the member that runs, the other one brings a member of its own.
    let mut polite = Exec::start(&founder, POLITE);
    let mut stubborn = Exec::start(&other, STUBBORN);
    polite.wait_for_runs(3);
    stubborn.wait_for_runs(3);
    // The first moments of a shell on a busy machine may take its slot; sooner or later it hears the question in time.
    // One that was killed while it wrote has written half a line.
    let is_in_time = |line: &String| {
        let mut words = line.split(' ').skip(1);
        let at = words.next().and_then(|at| at.parse::<f64>().ok());
        let until = words.next().and_then(|until| until.parse::<jiff::Timestamp>().ok());
        at.zip(until).is_some_and(|(at, until)| at < until.as_microsecond() as f64 / 1e6)
    };
    wait_until("it is asked to end before its slot does", || polite.lines("asked").iter().any(is_in_time));
    polite.stop();
    stubborn.stop();
    assert!(polite.said().contains("in the slots of circle virgo"), "{}", polite.said());
    assert!(stubborn.lines("asked").is_empty());
    polite.ran_only_in(&slots_in(&founder.log_text()));
    stubborn.ran_only_in(&slots_in(&stubborn.said()));
}

#[test]
fn work_that_is_done_in_a_later_slot_ends_well_and_leaves() {
    let folder = tempfile::tempdir().unwrap();
    let (founder, _other) = two_labs(folder.path());
    let script = format!(r#"[ -e "$1" ] && [ $(grep -c begun "$1") -ge 2 ] && exit 0; {POLITE}"#);
    let mut exec = Exec::start(&founder, &script);
    assert_eq!(exec.child.wait().unwrap().code(), Some(0), "{}", exec.said());
    assert_eq!(exec.lines("begun").len(), 2);
    let mut failing = Exec::start(&founder, "exit 42");
    assert_eq!(failing.child.wait().unwrap().code(), Some(42), "{}", failing.said());
}

#[test]
fn when_exec_is_killed_its_command_is_killed_too() {
    let folder = tempfile::tempdir().unwrap();
    let (_founder, other) = two_labs(folder.path());
    let mut exec = Exec::start(&other, STUBBORN);
    exec.wait_for_runs(1);
    wait_until("it lives", || exec.lines("beat").len() > 3);
    exec.child.kill().unwrap();
    exec.child.wait().unwrap();
    wait_until("nobody writes any more", || {
        let before = exec.lines("beat").len();
        thread::sleep(Duration::from_millis(500));
        exec.lines("beat").len() == before
    });
}

#[test]
fn when_exec_is_frozen_its_command_does_not_run_past_the_slot() {
    let folder = tempfile::tempdir().unwrap();
    let (_founder, other) = two_labs(folder.path());
    let mut exec = Exec::start(&other, STUBBORN);
    exec.wait_for_runs(1);
    wait_until("it lives", || exec.lines("beat").len() > 3);
    signal(&exec.child, Signal::STOP);
    wait_until("nobody writes any more", || {
        let before = exec.lines("beat").len();
        thread::sleep(Duration::from_millis(500));
        exec.lines("beat").len() == before
    });
    // That was not the command's fault: it goes on.
    let runs = exec.lines("begun").len();
    signal(&exec.child, Signal::CONT);
    exec.wait_for_runs(runs + 1);
    exec.stop();
}

#[test]
fn when_its_member_ends_the_command_does_too_and_goes_on_with_its_successor() {
    let folder = tempfile::tempdir().unwrap();
    let (mut founder, _other) = two_labs(folder.path());
    let mut exec = Exec::start(&founder, STUBBORN);
    exec.wait_for_runs(1);
    founder.kill();
    wait_until("it says so", || exec.said().contains("the running member (`stroll run`) has ended"));
    // From the loss on the command has the time that it has at the end of every slot.
    wait_until("nobody writes any more", || {
        let before = exec.lines("beat").len();
        thread::sleep(Duration::from_millis(500));
        exec.lines("beat").len() == before
    });
    let (before, runs) = (exec.lines("beat").len(), exec.lines("begun").len());
    thread::sleep(Duration::from_millis(300));
    assert_eq!(exec.lines("beat").len(), before, "it goes on without a turn");
    founder.run_with(&[]);
    exec.wait_for_runs(runs + 1);
    exec.stop();
}
