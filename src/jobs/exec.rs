//! Runs somebody else's command in slots only: `stroll exec -- wget -c …`.
//!
//! The command is started when a turn comes, asked to end a little before the slot does (SIGTERM), and killed with all that it
//! started before the turn is given back. So it must be one that goes on where it was: `wget -c`, `rsync --partial`,
//! `lftp mirror -c`, `rclone copy`. It ends in one of these ways:
//!
//! | its end | what it means |
//! |---|---|
//! | exit code 0, at any time | the work is done |
//! | any other end after we asked for it | it goes on in the next slot |
//! | any other end by itself | a failure: tried again after a pause, or given up |
//!
//! `cli::exec` calls it. Without a circle there is one slot without end.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rustix::process::Signal;
use tokio::process::Command;
use tokio::sync::watch;

use super::backoff::{Backoff, Patience};
use super::group::Group;
use super::pull::{Event, Watch};
use super::slots::{Slots, Turn};
use crate::fetch::{Fault, Slot};

/// So long before the end of its slot a command is killed, so that it is gone at the end; and so long it has to end
/// by itself when the order to stop comes earlier.
const KILL_MARGIN: Duration = Duration::from_millis(50);

/// How long a command has to end by itself when it is the user who wants to stop, and the slot lasts.
const STOP_GRACE: Duration = Duration::from_millis(1_500);

/// The clock is looked at so often: timers stand still while the computer sleeps.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// What to run, and how.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program.
    pub program: OsString,
    /// Its arguments, as they are: no shell reads them.
    pub args: Vec<OsString>,
    /// The circle's name, for the command to see.
    pub circle: Option<String>,
    /// How long before the end of a slot the command is asked to end; at most half of what is left of it.
    pub grace: Duration,
    /// Whether the command may read our standard input.
    pub stdin: bool,
    /// How often to try again after a failure, and how soon.
    pub patience: Patience,
    /// For the pauses.
    pub seed: u64,
}

impl Plan {
    /// The command on one line, as a shell would read it, and without passwords that stand in addresses.
    pub fn line(&self) -> String {
        command_line(std::iter::once(&self.program).chain(&self.args))
    }
}

/// Words of a command on one line, as a shell would read them, and without passwords that stand in addresses. Cut at 300
/// letters.
pub fn command_line<'a>(words: impl IntoIterator<Item = &'a OsString>) -> String {
    let words: Vec<String> = words.into_iter().map(|word| shown_word(&word.to_string_lossy())).collect();
    let line = words.join(" ");
    match line.char_indices().nth(LONGEST_LINE) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}

/// Letters of a command that are shown, at most.
const LONGEST_LINE: usize = 300;

fn shown_word(word: &str) -> String {
    let word = without_password(word);
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:=@%+,~".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// A word without the user and password of an address that is in it: `--url=ftp://me:secret@host/`.
fn without_password(word: &str) -> String {
    let Some((scheme, rest)) = word.split_once("://") else { return word.to_owned() };
    let end = rest.find(['/', '?', '#', ' ']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    match authority.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://{host}{path}"),
        None => word.to_owned(),
    }
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The work is done.
    Done,
    /// The command failed, as often as it may.
    Failed(ExitStatus),
    /// The user wants to stop.
    Stopped,
    /// There are no more slots.
    NoSlots,
}

/// Why a command could not be run.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// It could not be started.
    #[error("{}: {error}", program.to_string_lossy())]
    Start {
        /// Which.
        program: OsString,
        /// What came of it.
        error: io::Error,
    },
    /// It was started and then lost.
    #[error("the command cannot be waited for: {0}")]
    Wait(#[from] io::Error),
}

/// What a parent process would see: the exit code, or 128 and the signal, as in shells.
pub fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// How one run in one slot ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    /// By itself, or with exit code 0.
    Itself(ExitStatus),
    /// Because the slot did.
    Slot,
    /// Because the user wants it.
    Stop,
}

/// Runs the command until its work is done.
pub async fn exec(
    plan: &Plan,
    slots: &mut Slots,
    stop: &watch::Receiver<bool>,
    watch: &dyn Watch,
) -> Result<Outcome, ExecError> {
    let mut backoff = Backoff::new(plan.patience, plan.seed);
    loop {
        slots.want(true);
        watch.on(Event::Waiting { expected: slots.expected_wait() });
        let turn = tokio::select! {
            biased;
            () = ordered(stop) => return Ok(finished(slots, Outcome::Stopped)),
            turn = slots.next() => match turn {
                Some(turn) => turn,
                None => return Ok(Outcome::NoSlots),
            },
        };
        // Who cannot run has no use for another turn either.
        watch.on(Event::SlotBegan);
        let run = run_in(plan, turn, stop).await;
        watch.on(Event::SlotEnded { bytes: 0, chunk: None, overload: None });
        let run = run.inspect_err(|_| slots.want(false))?;
        match run {
            Run::Slot => tracing::debug!("the command was ended with its slot"),
            Run::Itself(_) | Run::Stop => tracing::info!(?run, "the command ended"),
        }
        let status = match run {
            Run::Slot => {
                // It had a whole slot and did not fail: that is progress.
                backoff.progressed();
                continue;
            }
            Run::Stop => return Ok(finished(slots, Outcome::Stopped)),
            Run::Itself(status) if status.success() => return Ok(finished(slots, Outcome::Done)),
            Run::Itself(status) => status,
        };
        slots.want(false);
        let fault = Fault::Broken(status.to_string());
        let Some(pause) = backoff.after(&fault) else {
            return Ok(Outcome::Failed(status));
        };
        watch.on(Event::Pausing { wait: pause, fault: &fault });
        tracing::warn!(%status, ?pause, "the command failed; it is tried again");
        tokio::select! {
            () = ordered(stop) => return Ok(Outcome::Stopped),
            () = tokio::time::sleep(pause) => {}
        }
    }
}

fn finished(slots: &Slots, outcome: Outcome) -> Outcome {
    slots.want(false);
    outcome
}

/// Runs the command in one slot. When this returns, nobody of its group is left; only then the turn ends.
async fn run_in(plan: &Plan, turn: Turn, stop: &watch::Receiver<bool>) -> Result<Run, ExecError> {
    let slot = turn.slot.clone();
    if slot.is_over() {
        return Ok(Run::Slot);
    }
    let command = prepare(plan, &slot, Timestamp::now());
    let started = match slot.left() {
        Some(left) => Group::start_guarded(command, left),
        None => Group::start(command),
    };
    let mut group = started.map_err(|error| ExecError::Start { program: plan.program.clone(), error })?;
    let run = watch_over(plan, &mut group, &slot, stop).await;
    // Whatever happened, not even an error leaves somebody behind.
    let status = group.end().await;
    drop(turn);
    match run? {
        // In its last moments it may have come to its end all the same.
        Run::Slot | Run::Stop if status.as_ref().is_ok_and(ExitStatus::success) => Ok(Run::Itself(status?)),
        run => Ok(run),
    }
}

/// Waits for the command's own end, or asks for it and gives it the time that there is.
async fn watch_over(
    plan: &Plan,
    group: &mut Group,
    slot: &Slot,
    stop: &watch::Receiver<bool>,
) -> Result<Run, ExecError> {
    let grace = slot.left().map_or(plan.grace, |left| plan.grace.min(left / 2)).max(KILL_MARGIN);
    let run = tokio::select! {
        biased;
        status = group.wait() => {
            let status = status?;
            // Killed by its guard while we were frozen, or out of breath at the end: not its fault.
            let is_late = slot.left().is_some_and(|left| left <= KILL_MARGIN);
            return Ok(if is_late && !status.success() { Run::Slot } else { Run::Itself(status) });
        }
        () = almost_over(slot, grace) => Run::Slot,
        () = ordered(stop) => Run::Stop,
    };
    group.signal(Signal::TERM);
    let patience = async {
        let by_order = slot.is_over();
        tokio::select! {
            () = almost_over(slot, KILL_MARGIN), if !by_order => {}
            () = tokio::time::sleep(KILL_MARGIN), if by_order => {}
            () = tokio::time::sleep(STOP_GRACE), if run == Run::Stop => {}
        }
        // The order to stop may have come meanwhile; a slot that comes to its end by the clock has a moment left.
        if !by_order && slot.is_over() {
            tokio::time::sleep(KILL_MARGIN).await;
        }
    };
    tokio::select! {
        gone = group.gone() => { gone?; }
        () = patience => {}
    }
    Ok(run)
}

fn prepare(plan: &Plan, slot: &Slot, now: Timestamp) -> Command {
    let mut command = Command::new(&plan.program);
    command.args(&plan.args);
    if !plan.stdin {
        command.stdin(Stdio::null());
    }
    for name in ["STROLL_SLOT_UNTIL", "STROLL_SLOT_SECONDS", "STROLL_DEADLINE_S"] {
        command.env_remove(name);
    }
    if let Some(circle) = &plan.circle {
        command.env("STROLL_CIRCLE", circle);
    }
    let ends = slot.left().and_then(|left| {
        let until = now.checked_add(SignedDuration::try_from(left).ok()?).ok()?;
        Some((left, until))
    });
    if let Some((left, until)) = ends {
        command.env("STROLL_SLOT_UNTIL", format!("{until:.3}"));
        command.env("STROLL_SLOT_SECONDS", format!("{:.3}", left.as_secs_f64()));
        command.env("STROLL_DEADLINE_S", until.as_second().to_string());
    }
    command
}

/// Ready when no more than this is left of the slot, or it was ended by order; never for a slot without end.
async fn almost_over(slot: &Slot, margin: Duration) {
    loop {
        let nap = match slot.left() {
            Some(left) if left <= margin => return,
            Some(left) => left.saturating_sub(margin).min(LOOK_EVERY),
            None => LOOK_EVERY,
        };
        tokio::select! {
            () = slot.over() => return,
            () = tokio::time::sleep(nap) => {}
        }
    }
}

/// Ready when the user wants to stop.
async fn ordered(stop: &watch::Receiver<bool>) {
    let mut stop = stop.clone();
    // If nobody can give the order any more, it is as good as given.
    let _ = stop.wait_for(|ordered| *ordered).await;
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::base::Time;
    use crate::jobs::{Board, Giver, Wish};

    const LONG: Duration = Duration::from_secs(120);

    fn sh(script: &str, folder: &Path) -> Plan {
        Plan {
            program: "/bin/sh".into(),
            args: vec!["-c".into(), script.into(), "sh".into(), folder.join("out").into()],
            circle: Some("virgo".into()),
            grace: Duration::from_millis(500),
            stdin: false,
            patience: Patience { retries: 0, first_wait: Duration::from_millis(1), ..Patience::default() },
            seed: 1,
        }
    }

    fn read(folder: &Path) -> String {
        fs::read_to_string(folder.join("out")).unwrap_or_default()
    }

    /// A slot of so many milliseconds from now, and what ends it by order.
    fn slot(millis: u64) -> (Slot, watch::Sender<bool>) {
        let begun = tokio::time::Instant::now();
        let clock = Arc::new(move || Time::ZERO + begun.elapsed());
        let (order, stop) = watch::channel(false);
        (Slot::until(Time::ZERO + Duration::from_millis(millis), clock, stop), order)
    }

    /// Gives slots of this length one after the other, until the job has nothing more to do; how many.
    async fn give(mut giver: Giver, millis: u64) -> usize {
        let mut turns = 0;
        while let Some(wish) = giver.wishes.recv().await {
            if wish == Wish::Work(false) {
                break;
            }
            let (slot, _order) = slot(millis);
            let (turn, ended) = Turn::new(slot);
            turns += 1;
            if giver.turns.send(turn).await.is_err() {
                break;
            }
            let _ = ended.await;
        }
        turns
    }

    async fn in_slots(plan: &Plan, millis: u64) -> (Outcome, usize) {
        let (mut slots, giver) = Slots::given();
        let (_order, stop) = watch::channel(false);
        let giving = tokio::spawn(give(giver, millis));
        let outcome = tokio::time::timeout(LONG, exec(plan, &mut slots, &stop, &())).await.expect("it ends");
        drop(slots);
        (outcome.expect("it runs"), giving.await.expect("it gives"))
    }

    #[test]
    fn a_command_is_shown_as_a_shell_would_read_it_and_without_passwords() {
        let shown = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            command_line(&words)
        };
        assert_eq!(shown(&["rsync", "-a", "/x/", "a b", ""]), "rsync -a /x/ 'a b' ''");
        assert_eq!(shown(&["echo", "it's"]), r"echo 'it'\''s'");
        let with_password = ["wget", "ftp://me:secret@host/a", "--to=https://me:secret@h", "me@host"];
        assert_eq!(shown(&with_password), "wget ftp://host/a --to=https://h me@host");
        assert!(shown(&["x".repeat(1_000).as_str()]).chars().count() <= LONGEST_LINE + 1);
    }

    #[tokio::test]
    async fn alone_a_command_runs_once_and_its_code_is_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let (_order, stop) = watch::channel(false);
        let done =
            exec(&sh("exit 0", folder.path()), &mut Slots::eternal(), &stop, &()).await.expect("it runs");
        assert_eq!(done, Outcome::Done);
        for (script, code) in [("exit 7", 7), ("kill -s KILL $$", 137)] {
            let failed =
                exec(&sh(script, folder.path()), &mut Slots::eternal(), &stop, &()).await.expect("it runs");
            assert!(matches!(failed, Outcome::Failed(status) if exit_code(status) == code), "{failed:?}");
        }
        let nothing = Plan { program: "/nonexistent/x".into(), ..sh("", folder.path()) };
        let error = exec(&nothing, &mut Slots::eternal(), &stop, &()).await.expect_err("nothing to run");
        assert!(matches!(error, ExecError::Start { error, .. } if error.kind() == io::ErrorKind::NotFound));
    }

    #[tokio::test]
    async fn the_board_shows_the_slots_of_a_command_and_its_pauses() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut plan = sh("echo x >> \"$1\"; [ $(wc -l < \"$1\") -ge 2 ]", folder.path());
        plan.patience.retries = 1;
        let line = Board::default().enter("exec", "x", &plan.line(), "");
        let (mut slots, giver) = Slots::given();
        let (_order, stop) = watch::channel(false);
        let giving = tokio::spawn(async move {
            let mut wishes = giver.wishes;
            while let Some(wish) = wishes.recv().await {
                if wish == Wish::Work(true) {
                    let (slot, _order) = slot(60_000);
                    let (turn, ended) = Turn::new(slot);
                    giver.turns.send(turn).await.expect("the job is there");
                    let _ = ended.await;
                }
            }
        });
        let done = tokio::time::timeout(LONG, exec(&plan, &mut slots, &stop, &line)).await.expect("it ends");
        assert_eq!(done.expect("it runs"), Outcome::Done);
        let report = line.report();
        assert_eq!((report.slots, report.errors), (2, 1), "one run failed, and the next one did not");
        assert!(report.source.starts_with("/bin/sh -c "), "{}", report.source);
        drop(slots);
        giving.await.expect("it gives");
    }

    #[tokio::test]
    async fn who_cannot_be_started_wants_no_more_turns() {
        let folder = tempfile::tempdir().expect("a folder");
        let nothing = Plan { program: "/nonexistent/x".into(), ..sh("", folder.path()) };
        let (mut slots, giver) = Slots::given();
        let (_order, stop) = watch::channel(false);
        let giving = tokio::spawn(give(giver, 1_500));
        exec(&nothing, &mut slots, &stop, &()).await.expect_err("nothing to run");
        // It says so, and need not be gone for that.
        let turns = tokio::time::timeout(LONG, giving).await.expect("it was told");
        assert_eq!(turns.expect("it gives"), 1);
        drop(slots);
    }

    #[tokio::test]
    async fn a_failure_is_tried_again_as_often_as_asked_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut plan = sh("echo x >> \"$1\"; exit 5", folder.path());
        plan.patience.retries = 2;
        let (_order, stop) = watch::channel(false);
        let failed = exec(&plan, &mut Slots::eternal(), &stop, &()).await.expect("it runs");
        assert!(matches!(failed, Outcome::Failed(status) if status.code() == Some(5)));
        assert_eq!(read(folder.path()), "x\nx\nx\n");
    }

    #[tokio::test]
    async fn a_command_sees_its_slot_and_goes_on_in_the_next_one() {
        let folder = tempfile::tempdir().expect("a folder");
        // It needs three turns, and is asked to end in two of them.
        let script = "echo \"$STROLL_CIRCLE $STROLL_SLOT_SECONDS $STROLL_DEADLINE_S $STROLL_SLOT_UNTIL\" >> \"$1\"; \
                      [ $(wc -l < \"$1\") -ge 3 ] && exit 0; trap 'exit 9' TERM; while :; do sleep 0.01; done";
        let (outcome, given) = in_slots(&sh(script, folder.path()), 1_500).await;
        assert_eq!((outcome, given), (Outcome::Done, 3));
        for line in read(folder.path()).lines() {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(words[0], "virgo");
            let left: f64 = words[1].parse().expect("seconds");
            assert!(left > 0.0 && left <= 1.5, "{line}");
            let until: Timestamp = words[3].parse().expect("RFC 3339");
            assert_eq!(until.as_second().to_string(), words[2]);
        }
    }

    #[tokio::test]
    async fn who_does_not_listen_is_killed_before_the_turn_ends() {
        let folder = tempfile::tempdir().expect("a folder");
        let script = "trap '' TERM; echo $$ > \"$1\"; while :; do sleep 0.01; done";
        let (_order, stop) = watch::channel(false);
        let (slot, _hold) = slot(1_500);
        let (turn, ended) = Turn::new(slot.clone());
        let run = tokio::time::timeout(LONG, run_in(&sh(script, folder.path()), turn, &stop)).await;
        assert_eq!(run.expect("in time").expect("it runs"), Run::Slot);
        assert_eq!(ended.await, Ok(0), "the turn has ended");
        let pid = read(folder.path());
        assert!(!Path::new(&format!("/proc/{}", pid.trim())).exists(), "it still runs");
    }

    #[tokio::test]
    async fn an_order_to_stop_ends_a_command_that_does_not_listen() {
        let folder = tempfile::tempdir().expect("a folder");
        let script = "trap '' TERM; echo $$ > \"$1\"; while :; do sleep 0.01; done";
        let plan = sh(script, folder.path());
        let (_order, stop) = watch::channel(false);
        let (slot, hold) = slot(1_000_000);
        let (turn, _ended) = Turn::new(slot);
        let running = tokio::spawn(async move { run_in(&plan, turn, &stop).await });
        while !read(folder.path()).ends_with('\n') {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        hold.send_replace(true);
        let run = tokio::time::timeout(LONG, running).await.expect("in time").expect("no panic");
        assert_eq!(run.expect("it runs"), Run::Slot);
        assert!(!Path::new(&format!("/proc/{}", read(folder.path()).trim())).exists(), "it still runs");
    }

    #[tokio::test]
    async fn the_user_may_stop_it_at_any_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let plan = sh(
            "trap 'echo asked >> \"$1\"; exit 1' TERM; echo x >> \"$1\"; while :; do sleep 0.01; done",
            folder.path(),
        );
        let (order, stop) = watch::channel(false);
        let running = tokio::spawn(async move { exec(&plan, &mut Slots::eternal(), &stop, &()).await });
        while !read(folder.path()).ends_with('\n') {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        order.send_replace(true);
        let outcome = tokio::time::timeout(LONG, running).await.expect("in time").expect("no panic");
        assert_eq!(outcome.expect("it runs"), Outcome::Stopped);
        assert_eq!(read(folder.path()), "x\nasked\n");
    }

    #[tokio::test]
    async fn without_more_slots_it_ends() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut slots, giver) = Slots::given();
        drop(giver);
        let (_order, stop) = watch::channel(false);
        let outcome = exec(&sh("exit 0", folder.path()), &mut slots, &stop, &()).await.expect("it runs");
        assert_eq!(outcome, Outcome::NoSlots);
    }
}
