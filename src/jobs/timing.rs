//! When the runs of a job begin, and the record of them that survives a restart of the program.
//!
//! | settings | first run after a start | later runs |
//! |---|---|---|
//! | neither `every` nor `schedule` | at once | none |
//! | `every` | at once | a span after the start of the last run |
//! | `schedule` | at the next time of the schedule | at the next time of the schedule |
//! | `schedule` with `catch_up` | at once if a time was missed since the last completed run | at the next time of the schedule |
//!
//! `stroll mirror`, `stroll exec` and the jobs of `stroll run` all use this. [`Timing`] is pure but for its waits; [`RunLog`]
//! is one small file per job in the state folder.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::schedule::{Schedule, ScheduleError};

/// A record has a few hundred bytes; a larger file was not written by this module.
const LARGEST_RECORD: u64 = 64 << 10;

/// Errors in the settings that say when a job runs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimingError {
    /// Two that exclude each other.
    #[error("every and schedule: one is enough")]
    Both,
    /// A span that cannot be used.
    #[error("{0}")]
    Every(ScheduleError),
    /// A schedule that cannot be used.
    #[error("schedule: {0}")]
    Schedule(ScheduleError),
    /// Nothing can be missed without a schedule.
    #[error("catch-up: means nothing without a schedule")]
    CatchUp,
}

/// When the runs of a job begin.
#[derive(Clone, Debug, Default)]
pub struct Timing {
    schedule: Option<Schedule>,
    catch_up: bool,
}

impl Timing {
    /// Reads the three settings.
    pub fn new(every: Option<Duration>, schedule: Option<&str>, catch_up: bool) -> Result<Self, TimingError> {
        if catch_up && schedule.is_none() {
            return Err(TimingError::CatchUp);
        }
        let schedule = match (every, schedule) {
            (Some(_), Some(_)) => return Err(TimingError::Both),
            (Some(span), None) => Some(Schedule::every(span).map_err(TimingError::Every)?),
            (None, Some(line)) => Some(Schedule::parse_cron(line).map_err(TimingError::Schedule)?),
            (None, None) => None,
        };
        Ok(Self { schedule, catch_up })
    }

    /// When it runs again; `None` for a job that runs once.
    pub fn schedule(&self) -> Option<&Schedule> {
        self.schedule.as_ref()
    }

    /// When the first run after a start at `now` begins; `None` for never. `last_run` is the start of the last run that was
    /// completed. A record from the future was written by a wrong clock and counts as none.
    pub fn first_due(&self, last_run: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
        let Some(schedule @ Schedule::Cron(_)) = &self.schedule else { return Some(now) };
        let was_missed = || match last_run {
            Some(last) if last <= now => schedule.next_after(last).is_some_and(|due| due <= now),
            Some(_) | None => true,
        };
        if self.catch_up && was_missed() { Some(now) } else { schedule.next_after(now) }
    }

    /// When a job whose last run began at `started` runs next; `None` for never.
    pub fn next_due(&self, started: Timestamp, now: Timestamp) -> Option<Timestamp> {
        self.schedule.as_ref()?.due(started, now)
    }

    /// Waits for the first run after a start; `false` if it never comes. Copes with a clock that is set.
    pub async fn wait_for_first(&self, last_run: Option<Timestamp>, clock: impl Fn() -> Timestamp) -> bool {
        let now = clock();
        match (self.first_due(last_run, now), &self.schedule) {
            (Some(due), Some(schedule)) if due > now => schedule.wait(now, clock).await,
            (due, _) => due.is_some(),
        }
    }

    /// Waits for the run after the one that began at `started`; `false` if there is none.
    pub async fn wait_for_next(&self, started: Timestamp, clock: impl Fn() -> Timestamp) -> bool {
        match &self.schedule {
            Some(schedule) => schedule.wait(started, clock).await,
            None => false,
        }
    }
}

/// Record of a job's runs. Times are in seconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Past {
    /// Start of the last run that was completed. A run that was interrupted, or failed as a whole, is still to be done.
    pub last_run_s: Option<i64>,
    /// End of the last run that succeeded.
    pub last_success_s: Option<i64>,
    /// Summary of the last run that succeeded.
    pub last_outcome: Option<String>,
}

/// The record of one job's runs in the state folder.
#[derive(Debug)]
pub struct RunLog {
    path: PathBuf,
    past: Past,
}

impl RunLog {
    /// The record of the job of this kind that is described by these words: its source and target, or its command. A record
    /// that cannot be read is ignored.
    pub fn open(state: &Path, kind: &str, words: &[&OsStr]) -> Self {
        let mut id = blake3::Hasher::new();
        for word in [OsStr::new(kind)].iter().chain(words) {
            // With its length in front: two lists of words never look the same.
            id.update(&(word.len() as u64).to_be_bytes()).update(word.as_encoded_bytes());
        }
        let path = state.join("runs").join(format!("{}.json", id.finalize().to_hex()));
        let past = read(&path).unwrap_or_default();
        Self { path, past }
    }

    /// The record of a mirror.
    pub fn of_mirror(state: &Path, source: &str, target: &Path) -> Self {
        let target = std::path::absolute(target).unwrap_or_else(|_| target.to_owned());
        Self::open(state, "mirror", &[source.as_ref(), target.as_os_str()])
    }

    /// The record of a command, which is another one in another working folder, or in a job of another name.
    pub fn of_command(state: &Path, name: &str, program: &OsStr, args: &[OsString]) -> Self {
        let folder = std::env::current_dir().unwrap_or_default();
        let mut words = vec![name.as_ref(), folder.as_os_str(), program];
        words.extend(args.iter().map(OsString::as_os_str));
        Self::open(state, "exec", &words)
    }

    /// The record.
    pub fn past(&self) -> &Past {
        &self.past
    }

    /// Start of the last run that was completed.
    pub fn last_run(&self) -> Option<Timestamp> {
        Timestamp::from_second(self.past.last_run_s?).ok()
    }

    /// Records a completed run, with its summary if it succeeded. The record in memory changes even if the file cannot be
    /// written.
    pub fn completed(
        &mut self,
        started: Timestamp,
        ended: Timestamp,
        success: Option<&str>,
    ) -> io::Result<()> {
        self.past.last_run_s = Some(started.as_second());
        if let Some(outcome) = success {
            self.past.last_success_s = Some(ended.as_second());
            self.past.last_outcome = Some(outcome.to_owned());
        }
        write(&self.path, &self.past)
    }
}

fn read(path: &Path) -> Option<Past> {
    let is_ours = fs::metadata(path).ok()?.len() <= LARGEST_RECORD;
    serde_json::from_slice(&fs::read(path).ok().filter(|_| is_ours)?).ok()
}

/// Under another name first: a record is never seen half written.
fn write(path: &Path, past: &Past) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let draft = path.with_extension(format!("{}.new", std::process::id()));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    let written = file
        .write_all(&serde_json::to_vec(past)?)
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&draft, path));
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::SignedDuration;

    const NIGHTLY: &str = "TZ=UTC 30 2 * * *";

    fn at(text: &str) -> Timestamp {
        text.parse().expect(text)
    }

    fn nightly(catch_up: bool) -> Timing {
        Timing::new(None, Some(NIGHTLY), catch_up).expect("a timing")
    }

    #[test]
    fn a_schedule_waits_for_its_time_and_a_span_does_not() {
        let now = at("2026-03-02T10:00:00Z");
        let every = Timing::new(Some(Duration::from_secs(3_600)), None, false).expect("a timing");
        for last_run in [None, Some(at("2026-02-01T02:30:00Z")), Some(now)] {
            assert_eq!(nightly(false).first_due(last_run, now), Some(at("2026-03-03T02:30:00Z")));
            assert_eq!(every.first_due(last_run, now), Some(now));
            assert_eq!(Timing::default().first_due(last_run, now), Some(now));
        }
    }

    #[test]
    fn a_run_that_was_missed_is_caught_up_with_once() {
        let (now, next) = (at("2026-03-02T10:00:00Z"), at("2026-03-03T02:30:00Z"));
        let first = |last_run: &str| nightly(true).first_due(Some(at(last_run)), now);
        assert_eq!(first("2026-03-01T02:30:00Z"), Some(now), "the run of this night was missed");
        assert_eq!(first("2026-03-02T02:30:00Z"), Some(next), "it was not");
        assert_eq!(first("2026-03-02T02:29:59Z"), Some(now), "a run just before is another one");
        assert_eq!(first("2026-03-02T09:00:00Z"), Some(next), "a later run made up for it");
        assert_eq!(first("2027-01-01T00:00:00Z"), Some(now), "a record from the future is none");
        assert_eq!(nightly(true).first_due(None, now), Some(now), "a job that never ran was missed");
    }

    #[test]
    fn later_runs_follow_the_schedule_whatever_was_missed() {
        let (started, now) = (at("2026-03-02T02:30:00Z"), at("2026-03-05T10:00:00Z"));
        assert_eq!(nightly(true).next_due(started, now), Some(at("2026-03-06T02:30:00Z")));
        assert_eq!(Timing::default().next_due(started, now), None);
    }

    #[test]
    fn settings_that_exclude_each_other_are_refused() {
        let hour = Some(Duration::from_secs(3_600));
        assert_eq!(Timing::new(hour, Some(NIGHTLY), false).expect_err("both"), TimingError::Both);
        assert_eq!(Timing::new(hour, None, true).expect_err("no schedule"), TimingError::CatchUp);
        let error = Timing::new(None, Some("soon"), false).expect_err("no line of cron");
        assert!(error.to_string().starts_with("schedule: "), "{error}");
        assert!(matches!(Timing::new(Some(Duration::ZERO), None, false), Err(TimingError::Every(_))));
    }

    /// A wall clock that goes with the runtime's paused time.
    fn wall(from: &str) -> impl Fn() -> Timestamp + use<> {
        let (from, begun) = (at(from), tokio::time::Instant::now());
        move || from + SignedDuration::try_from(begun.elapsed()).expect("short")
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_for_the_first_run_lasts_until_its_time() {
        let begun = tokio::time::Instant::now();
        assert!(nightly(false).wait_for_first(None, wall("2026-03-02T02:00:00Z")).await);
        assert_eq!(begun.elapsed(), Duration::from_secs(1_800));
        let begun = tokio::time::Instant::now();
        assert!(nightly(true).wait_for_first(None, wall("2026-03-02T02:00:00Z")).await);
        assert_eq!(begun.elapsed(), Duration::ZERO);
        assert!(Timing::default().wait_for_first(None, wall("2026-03-02T02:00:00Z")).await);
        assert!(!Timing::default().wait_for_next(at("2026-03-02T02:00:00Z"), Timestamp::now).await);
    }

    #[test]
    fn a_record_is_that_of_one_job_and_comes_back() {
        let state = tempfile::tempdir().expect("a folder");
        let open = |words: &[&str]| {
            let words: Vec<&OsStr> = words.iter().map(OsStr::new).collect();
            RunLog::open(state.path(), "exec", &words)
        };
        let mut log = open(&["wget", "-c"]);
        assert_eq!((log.past(), log.last_run()), (&Past::default(), None));
        let (started, ended) = (at("2026-03-02T02:30:00Z"), at("2026-03-02T02:31:00Z"));
        log.completed(started, ended, Some("3 files pulled")).expect("written");
        log.completed(ended, ended, None).expect("written");
        let again = open(&["wget", "-c"]);
        assert_eq!(again.last_run(), Some(ended));
        assert_eq!(again.past().last_success_s, Some(ended.as_second()), "a failure changes no success");
        assert_eq!(again.past().last_outcome.as_deref(), Some("3 files pulled"));
        for other in [&["wget-c"][..], &["wget"], &["wget", "", "-c"]] {
            assert_eq!(open(other).last_run(), None, "{other:?}");
        }
        // Other users cannot read it, and a damaged record is ignored.
        let mode =
            std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&again.path).expect("there").permissions());
        assert_eq!(mode & 0o777, 0o600);
        fs::write(&again.path, "{").expect("written");
        assert_eq!(open(&["wget", "-c"]).last_run(), None);
    }
}
