//! A user's command, run when something has happened: `--exec CMD`, `--on-overload CMD`.
//!
//! The text goes to `sh -c` exactly as the user wrote it. What is known about the occasion (a file's name, an address, a size)
//! comes from strangers and goes into the environment only, never into the text: `--exec 'process "$STROLL_FILE"'`. So no
//! name, however odd, is ever read as a command. A hook's output goes to stderr, since stdout is for data.
//! What it leaves behind in the background ends with it.

use std::ffi::OsStr;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use tokio::process::Command;

use super::group::Group;

/// Longer commands are nobody's.
const LONGEST: usize = 64 << 10;

/// What every variable begins with.
const PREFIX: &str = "STROLL_";

/// How long a hook has between being asked to end and being killed.
const GRACE: Duration = Duration::from_secs(5);

/// Why a hook did not come to its own end.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    /// Nothing to run.
    #[error("an empty command")]
    Empty,
    /// Longer than anybody's.
    #[error("a command longer than {LONGEST} bytes")]
    TooLong,
    /// A byte that no command can have.
    #[error("a command with a zero byte")]
    Zero,
    /// A variable that does not begin as ours do.
    #[error("`{0}` is not a variable for hooks")]
    Variable(String),
    /// It could not be started.
    #[error("`{command}` could not be run: {error}")]
    Run {
        /// As it was written.
        command: String,
        /// What came of it.
        error: io::Error,
    },
    /// It was ended.
    #[error("`{command}` took longer than {limit:?} and was ended")]
    TooSlow {
        /// As it was written.
        command: String,
        /// How long it had.
        limit: Duration,
    },
}

/// A command to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    command: String,
    grace: Duration,
}

impl Hook {
    /// Takes a command as the user wrote it. Never build it from anything else.
    pub fn parse(text: &str) -> Result<Self, HookError> {
        match text {
            text if text.trim().is_empty() => Err(HookError::Empty),
            text if text.len() > LONGEST => Err(HookError::TooLong),
            text if text.contains('\0') => Err(HookError::Zero),
            text => Ok(Self { command: text.to_owned(), grace: GRACE }),
        }
    }

    /// The same with another time between being asked to end and being killed.
    #[must_use]
    pub fn with_grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// As it was written.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// Runs it, for at most `limit`, with these variables. If the run is given up (dropped), so is the command.
    pub async fn run<V: AsRef<OsStr>>(
        &self,
        vars: &[(&str, V)],
        limit: Duration,
    ) -> Result<ExitStatus, HookError> {
        let wrong = |error| HookError::Run { command: self.command.clone(), error };
        let mut running =
            Running { group: Some(Group::start(self.prepare(vars)?).map_err(wrong)?), grace: self.grace };
        let ended = tokio::time::timeout(limit, running.group().wait()).await;
        let mut group = running.release();
        if let Ok(status) = ended {
            return status.map_err(wrong);
        }
        finish(&mut group, self.grace).await.map_err(wrong)?;
        Err(HookError::TooSlow { command: self.command.clone(), limit })
    }

    fn prepare<V: AsRef<OsStr>>(&self, vars: &[(&str, V)]) -> Result<Command, HookError> {
        let mut command = Command::new("/bin/sh");
        // A leading dash would be an option otherwise.
        command.arg("-c").arg("--").arg(&self.command);
        for (name, value) in vars {
            if !name.starts_with(PREFIX) || name.contains(['=', '\0']) {
                return Err(HookError::Variable((*name).to_owned()));
            }
            command.env(name, value);
        }
        command.stdin(Stdio::null()).stdout(Stdio::from(io::stderr())).stderr(Stdio::inherit());
        Ok(command)
    }
}

/// Asks a group to end, and kills it after a while.
async fn finish(group: &mut Group, grace: Duration) -> io::Result<ExitStatus> {
    group.signal(Signal::TERM);
    // However that went, nobody is left after this.
    let _ = tokio::time::timeout(grace, group.gone()).await;
    group.end().await
}

/// A hook that runs; if it is given up, it is ended behind its owner's back.
struct Running {
    group: Option<Group>,
    grace: Duration,
}

impl Running {
    fn group(&mut self) -> &mut Group {
        self.group.as_mut().expect("released only at the end")
    }

    fn release(mut self) -> Group {
        self.group.take().expect("released once")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(mut group) = self.group.take() else { return };
        group.signal(Signal::TERM);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let grace = self.grace;
            // If the runtime ends before, dropping the group kills it.
            runtime.spawn(async move { finish(&mut group, grace).await });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    const LONG: Duration = Duration::from_secs(120);

    fn hook(text: &str) -> Hook {
        Hook::parse(text).expect(text)
    }

    fn here(folder: &Path, name: &str) -> (&'static str, String) {
        ("STROLL_TEST", folder.join(name).display().to_string())
    }

    /// Waits until a file has something in it.
    async fn written(path: &Path) -> String {
        loop {
            match fs::read_to_string(path) {
                Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
                _ => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    }

    fn is_running(pid: &str) -> bool {
        fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
            !stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with(['Z', 'X']))
        })
    }

    async fn gone(pid: &str) {
        while is_running(pid) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn a_hook_sees_its_variables_and_says_how_it_ended() {
        let status = hook("test \"$STROLL_SIZE\" = 17 && exit 3").run(&[("STROLL_SIZE", "17")], LONG).await;
        assert_eq!(status.expect("it runs").code(), Some(3));
        let status = hook("-x 2>/dev/null").run::<String>(&[], LONG).await;
        assert_eq!(status.expect("it runs").code(), Some(127));
    }

    #[tokio::test]
    async fn a_hostile_name_is_never_read_as_a_command() {
        let folder = tempfile::tempdir().expect("a folder");
        let (out, trap) = (folder.path().join("out"), folder.path().join("trap"));
        for name in [
            format!("$(touch {0}) `touch {0}`; touch {0} #", trap.display()),
            format!("'; touch {}; '", trap.display()),
            format!("\"; touch {}; \"", trap.display()),
            format!("a\n touch {}\n", trap.display()),
            "-rf *".to_owned(),
        ] {
            let vars = [("STROLL_FILE", name.clone()), here(folder.path(), "out")];
            let status = hook("printf %s \"$STROLL_FILE\" > \"$STROLL_TEST\"").run(&vars, LONG).await;
            assert!(status.expect("it runs").success());
            assert_eq!(fs::read_to_string(&out).expect("written"), name);
            assert!(!trap.exists(), "{name:?} was run");
        }
    }

    #[tokio::test]
    async fn what_cannot_be_passed_on_is_an_error() {
        assert!(matches!(Hook::parse("  "), Err(HookError::Empty)));
        assert!(matches!(Hook::parse("a\0b"), Err(HookError::Zero)));
        assert!(matches!(Hook::parse(&"x".repeat(100_000)), Err(HookError::TooLong)));
        let run = hook("true").run(&[("PATH", "/tmp")], LONG).await;
        assert!(matches!(run, Err(HookError::Variable(name)) if name == "PATH"));
        let run = hook("true").run(&[("STROLL_FILE", "a\0b")], LONG).await;
        assert!(matches!(run, Err(HookError::Run { .. })));
    }

    #[tokio::test]
    async fn a_slow_hook_is_asked_to_end_and_then_killed_with_all_that_it_started() {
        let folder = tempfile::tempdir().expect("a folder");
        let polite = hook(
            "trap 'echo asked >> \"$STROLL_TEST\"; exit 0' TERM; echo begun > \"$STROLL_TEST\"; while :; do sleep 0.02; done",
        );
        let vars = [here(folder.path(), "polite")];
        let run = polite.run(&vars, Duration::from_secs(2)).await;
        assert!(matches!(run, Err(HookError::TooSlow { .. })));
        assert_eq!(fs::read_to_string(folder.path().join("polite")).expect("written"), "begun\nasked\n");

        let stubborn = hook("trap '' TERM; sleep 300 & echo $! > \"$STROLL_TEST\"; wait")
            .with_grace(Duration::from_millis(50));
        let vars = [here(folder.path(), "stubborn")];
        let run = stubborn.run(&vars, Duration::from_secs(2)).await;
        assert!(matches!(run, Err(HookError::TooSlow { .. })));
        assert!(!is_running(&written(&folder.path().join("stubborn")).await));
    }

    #[tokio::test]
    async fn a_hook_that_is_given_up_is_ended() {
        let folder = tempfile::tempdir().expect("a folder");
        let stubborn = hook("trap '' TERM; echo $$ > \"$STROLL_TEST\"; sleep 300; sleep 300")
            .with_grace(Duration::from_millis(50));
        let vars = [here(folder.path(), "pid")];
        let pid = {
            let run = stubborn.run(&vars, LONG);
            tokio::pin!(run);
            let file = folder.path().join("pid");
            tokio::select! {
                _ = &mut run => panic!("it ended by itself"),
                pid = written(&file) => pid,
            }
        };
        tokio::time::timeout(LONG, gone(&pid)).await.expect("it is ended");
    }
}
