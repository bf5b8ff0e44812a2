//! Processes of this very program, as the demo needs them: none sees the user's settings, none outlives the demo.

use std::fs::OpenOptions;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// How long a command that ends by itself may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Of a log, so much is shown.
const TAIL: usize = 8;

/// Says to a process of ours that it is to end with its parent.
const WITH_PARENT: &str = "STROLL_ENDS_WITH_PARENT";

/// Called first thing in `main`: a process of a demo asks to be ended if the demo is killed.
pub(in crate::cli) fn end_with_parent() {
    #[cfg(target_os = "linux")]
    if std::env::var_os(WITH_PARENT).is_some() {
        // Elsewhere, or if it fails, only a demo that is killed without warning leaves processes behind.
        let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    }
}

/// A command of this program, with this folder as the home of its user.
pub(super) fn stroll(user: &Path, args: &[&str]) -> anyhow::Result<Command> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("STROLL_") || text.starts_with("XDG_") || text.to_lowercase().ends_with("_proxy")
        {
            command.env_remove(&name);
        }
    }
    command.env("HOME", user).env(WITH_PARENT, "1").current_dir(user);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
    // An interrupt at the terminal is for the demo, which ends them in order.
    command.process_group(0);
    Ok(command)
}

/// Runs a command to its end, and gives what it prints.
pub(super) async fn output(mut command: Command) -> anyhow::Result<String> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let what = format!("{:?}", command.as_std().get_args().take(2).collect::<Vec<_>>());
    let output = timeout(PATIENCE, command.output())
        .await
        .with_context(|| format!("{what} takes too long"))?
        .with_context(|| format!("cannot start {what}"))?;
    if !output.status.success() {
        bail!("{what}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Starts a command that goes on, with what it says in this file.
pub(super) fn start(mut command: Command, log: &Path) -> anyhow::Result<Child> {
    let file = OpenOptions::new().create(true).append(true).open(log);
    let file = file.with_context(|| log.display().to_string())?;
    command.stderr(file);
    command.spawn().context("cannot start a process")
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Well,
    /// With an error.
    Failed,
    /// Not in time, so it was killed. The last member that has the token may look long for somebody to give it to.
    Late,
}

/// Asks it to end, and ends it if it does not within this time.
pub(super) async fn end(child: &mut Child, patience: Duration) -> Ending {
    signal(child, Signal::TERM);
    match timeout(patience, child.wait()).await {
        Ok(status) if status.as_ref().is_ok_and(std::process::ExitStatus::success) => Ending::Well,
        Ok(_) => Ending::Failed,
        Err(_) => {
            // Already gone, if this fails.
            let _ = child.kill().await;
            Ending::Late
        }
    }
}

fn signal(child: &Child, signal: Signal) {
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    if let Some(pid) = pid {
        // A child that was not waited for keeps its number, so this hits nobody else.
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// The last lines of a log.
pub(super) fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines.get(lines.len().saturating_sub(TAIL)..).unwrap_or_default().join("\n  ")
}
