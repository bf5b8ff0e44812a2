//! A command and all that it starts, as one group of processes that can be ended.
//!
//! Hooks and `exec` start their commands here. What makes itself a group of its own (`setsid`) gets away; everything else
//! is gone when [`Group::end`] returns.

use std::fs;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::process::{Child, Command};

use crate::fetch::children::RunningGroup;

/// How often it is looked whether a group that was killed is gone.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// After so many looks somebody should know.
const PATIENT_LOOKS: u32 = 400;

/// A running command.
#[derive(Debug)]
pub struct Group {
    child: Child,
    /// The group's number; `None` when nobody is in it any more, and the number may be somebody else's.
    id: Option<RunningGroup>,
    status: Option<ExitStatus>,
    /// Ends the group if we cannot.
    guard: Option<Box<Group>>,
}

impl Group {
    /// Starts a command in a group of its own.
    pub fn start(mut command: Command) -> io::Result<Self> {
        let (child, id) = RunningGroup::start(|| command.process_group(0).spawn(), Child::id)?;
        Ok(Self { child, id, status: None, guard: None })
    }

    /// The same with somebody beside it who kills the group after `limit`, and when this process ends, however that happens:
    /// then nobody else could. Nor could we if we were frozen.
    pub fn start_guarded(command: Command, limit: Duration) -> io::Result<Self> {
        let mut group = Self::start(command)?;
        if let Some(id) = group.id() {
            group.guard = Some(Box::new(Self::start(guard(id, limit))?));
        }
        Ok(group)
    }

    fn id(&self) -> Option<Pid> {
        self.id.as_ref().map(RunningGroup::id)
    }

    /// Waits for the command itself; what it left behind may still run. May be given up and called again.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.status {
            return Ok(status);
        }
        let status = self.child.wait().await?;
        self.status = Some(status);
        Ok(status)
    }

    /// Sends a signal to everybody in the group.
    pub fn signal(&self, signal: Signal) {
        if let Some(id) = self.id() {
            // Nobody there is as good as told.
            let _ = kill_process_group(id, signal);
        }
    }

    /// Kills whoever is in the group, and returns when nobody is. This is what a turn waits for.
    pub async fn end(&mut self) -> io::Result<ExitStatus> {
        let mut looks = 0_u32;
        while self.is_alive() {
            self.signal(Signal::KILL);
            looks += 1;
            if looks == PATIENT_LOOKS {
                tracing::warn!(group = ?self.id(), "killed, and still there: it hangs in the kernel");
            }
            // Collects the command itself, which would stay in the group until then.
            if let Ok(status) = tokio::time::timeout(LOOK_EVERY, self.wait()).await {
                status?;
                if self.is_alive() {
                    tokio::time::sleep(LOOK_EVERY).await;
                }
            }
        }
        self.is_over();
        self.wait().await
    }

    /// Ready when nobody is in the group any more; the command's exit status.
    pub async fn gone(&mut self) -> io::Result<ExitStatus> {
        let status = self.wait().await?;
        while self.is_alive() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        self.is_over();
        Ok(status)
    }

    /// Nobody is in it any more, and its number may become another's.
    fn is_over(&mut self) {
        self.id = None;
        drop(self.guard.take());
    }

    /// Whether somebody in the group still runs.
    fn is_alive(&self) -> bool {
        let Some(id) = self.id() else { return false };
        if test_kill_process_group(id).is_err() {
            return false;
        }
        // Whose parent does not collect it stays in the group for ever, but does nothing any more.
        self.status.is_none() || has_living_member(id).unwrap_or(true)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.is_alive() {
            self.signal(Signal::KILL);
        }
    }
}

/// Looks into the table of processes; `None` where there is none to look at.
fn has_living_member(group: Pid) -> Option<bool> {
    let wanted = group.as_raw_nonzero().get();
    let mut has_seen_some = false;
    for entry in fs::read_dir("/proc").ok()? {
        let path = entry.ok()?.path();
        if !path.file_name()?.to_str()?.starts_with(|c: char| c.is_ascii_digit()) {
            continue;
        }
        // One that is gone meanwhile is no member.
        let Ok(stat) = fs::read(path.join("stat")) else { continue };
        has_seen_some = true;
        if let Some((state, id)) = state_and_group(&String::from_utf8_lossy(&stat))
            && id == wanted
            && !matches!(state, 'Z' | 'X')
        {
            return Some(true);
        }
    }
    has_seen_some.then_some(false)
}

/// `1234 (any (name) S 1 1234 …`: the state, and the group.
fn state_and_group(stat: &str) -> Option<(char, i32)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(1)?.parse().ok()?))
}

/// Waits for the end of its input, which comes with our own end, or of the time, and kills the group then. It is in a group
/// of its own, which is killed when the other one is over: then there is nobody to look after.
fn guard(group: Pid, limit: Duration) -> Command {
    const SCRIPT: &str = r#"
        (sleep "$2"; kill -s KILL -- "-$1") &
        read -r _
        kill -s KILL -- "-$1"
        kill "$!""#;
    let mut command = Command::new("/bin/sh");
    command.args(["-c", SCRIPT, "sh"]).arg(group.as_raw_nonzero().to_string());
    command.arg(format!("{:.3}", limit.as_secs_f64()));
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn sh(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::piped());
        command
    }

    async fn first_line(group: &mut Group) -> String {
        use tokio::io::{AsyncBufReadExt as _, BufReader};
        let mut line = String::new();
        let stdout = group.child.stdout.take().expect("piped");
        BufReader::new(stdout).read_line(&mut line).await.expect("it speaks");
        line.trim().to_owned()
    }

    fn is_running(pid: &str) -> bool {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        state_and_group(&stat).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'))
    }

    #[tokio::test]
    async fn the_end_of_a_group_is_the_end_of_its_grandchildren() {
        let mut group =
            Group::start(sh("trap '' TERM; (trap '' TERM; sleep 300) & echo $!; wait")).expect("it starts");
        let grandchild = first_line(&mut group).await;
        assert!(is_running(&grandchild));
        group.signal(Signal::TERM);
        group.end().await.expect("it ends");
        assert!(!is_running(&grandchild));
        assert!(!group.is_alive());
    }

    #[tokio::test]
    async fn a_command_that_leaves_somebody_behind_is_not_gone() {
        let mut group = Group::start(sh("sleep 300 & echo $!; exit 3")).expect("it starts");
        let left_behind = first_line(&mut group).await;
        assert_eq!(group.wait().await.expect("it ends").code(), Some(3));
        assert!(group.is_alive() && is_running(&left_behind));
        assert_eq!(group.end().await.expect("it ends").code(), Some(3));
        assert!(!is_running(&left_behind));
    }

    #[tokio::test]
    async fn a_guard_kills_the_group_when_its_owner_is_gone() {
        let mut group = Group::start_guarded(sh("echo $$; sleep 300"), HOUR).expect("it starts");
        let pid = first_line(&mut group).await;
        // What the end of our process does to the guard.
        drop(group.guard.as_mut().expect("guarded").child.stdin.take());
        group.gone().await.expect("it ends");
        assert!(!is_running(&pid));
    }

    #[tokio::test]
    async fn a_guard_kills_the_group_when_its_time_is_over_and_not_before() {
        let short = Duration::from_millis(300);
        let mut group =
            Group::start_guarded(sh("trap '' TERM; sleep 300; sleep 300"), short).expect("it starts");
        let begun = tokio::time::Instant::now();
        group.gone().await.expect("it ends");
        assert!(begun.elapsed() >= short / 2, "{:?}", begun.elapsed());
    }

    #[tokio::test]
    async fn a_guard_goes_with_its_group() {
        let mut group = Group::start_guarded(sh("exit 0"), HOUR).expect("it starts");
        let guard = group.guard.as_ref().and_then(|guard| guard.id()).expect("guarded");
        group.end().await.expect("it ends");
        while has_living_member(guard).expect("there is a table of processes") {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        assert!(group.guard.is_none());
    }

    #[test]
    fn a_line_of_the_table_is_read_whatever_the_process_calls_itself() {
        assert_eq!(state_and_group("12 (a b) S) Z 1 34 5"), Some(('Z', 34)));
        assert_eq!(state_and_group("nonsense"), None);
        assert_eq!(state_and_group("1 (x)"), None);
    }
}
