//! What the jobs of a process are doing, for `status`, the page and the metrics to read at any moment.
//!
//! Each job has a [`Line`] on the board and writes to it what happens, mostly by being its [`Watch`]er; whoever wants to
//! know takes a copy of all [`JobReport`]s.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::pull::{Event, Fate, SlotPlan, Watch};
use super::subscribe::lag::dark;
use crate::fetch::engine;
use crate::fetch::{Fault, escape};

/// What a job, a borrowing command or the member itself is doing. The words are an interface: status, JSON and page show them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It pulls.
    Pulling,
    /// It waits for the token or a ticket.
    Waiting,
    /// There is nothing to do.
    #[default]
    Idle,
    /// It is behind its source for longer than it should be.
    Lagging,
    /// It was told to pause.
    Paused,
    /// Something went wrong, and it tries again.
    Retrying,
    /// The source asked for fewer requests: nothing is asked of it for a while.
    BackingOff,
    /// It has ended as it should.
    Stopped,
    /// It has ended with an error and is not tried again.
    Failed,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Pulling,
        Self::Waiting,
        Self::Idle,
        Self::Lagging,
        Self::Paused,
        Self::Retrying,
        Self::BackingOff,
        Self::Stopped,
        Self::Failed,
    ];

    /// The word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pulling => "pulling",
            Self::Waiting => "waiting",
            Self::Idle => "idle",
            Self::Lagging => "lagging",
            Self::Paused => "paused",
            Self::Retrying => "retrying",
            Self::BackingOff => "backing-off",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
        }
    }

    /// Whether the last error explains it.
    pub fn is_trouble(self) -> bool {
        matches!(self, Self::Retrying | Self::BackingOff | Self::Failed)
    }
}

/// A job at one moment. Everything that a source may have written into it is escaped.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobReport {
    /// Its name: that of the configuration, or what it pulls.
    pub name: String,
    /// `get`, `subscribe`, `mirror` or `exec`.
    pub kind: String,
    /// What it pulls, without password.
    pub source: String,
    /// Where to.
    pub target: String,
    /// What it does.
    pub state: State,
    /// For how long.
    pub state_s: f64,
    /// Bytes that came.
    pub bytes: u64,
    /// Files that came.
    pub files: u64,
    /// Files that were here already.
    pub up_to_date: u64,
    /// Replicas that were removed.
    pub deleted: u64,
    /// Entries of folders that were listed.
    pub listed: u64,
    /// What went wrong, in total.
    pub errors: u64,
    /// How often the source refused, by its code.
    pub refusals: BTreeMap<String, u64>,
    /// Slots that it had a part of.
    pub slots: u64,
    /// Of these it pulled for so long.
    pub slot_s: f64,
    /// Bytes that its last slot carried.
    pub last_slot_bytes: u64,
    /// What a slot is to bring, as last planned: the budget, or less if a slot cannot carry it.
    pub chunk_bytes: Option<u64>,
    /// Why the budget is another one than before: the last few, newest last.
    pub chunk_changes: Vec<String>,
    /// What its current or last slot should bring, whether a slot can carry it or not.
    #[serde(default)]
    pub budget_bytes: Option<u64>,
    /// What a slot can carry.
    #[serde(default)]
    pub slot_capacity_bytes: Option<u64>,
    /// The recent inter-arrival time: between the beginnings of its slots, as long as there was something to pull.
    #[serde(default)]
    pub interval_s: Option<f64>,
    /// If slots cannot carry what it needs: by how much, and what to do.
    #[serde(default)]
    pub overload: Option<String>,
    /// How far behind its source it is, by what was there when it looked last; nothing if nobody knows.
    pub lag_s: Option<f64>,
    /// How long ago it saw all that the source has, or began if it never did. Only of jobs that follow a stream.
    #[serde(default)]
    pub unseen_s: Option<f64>,
    /// How many bytes that are known to be there are not here yet.
    pub lag_bytes: Option<u64>,
    /// How many listed names were refused: their files are never pulled.
    #[serde(default)]
    pub refused: u64,
    /// The file it is at.
    pub current: Option<String>,
    /// How much of it is here, and of how much.
    pub current_bytes: Option<(u64, Option<u64>)>,
    /// What went wrong last.
    pub last_error: Option<String>,
    /// When it runs next, in seconds since 1970; nothing while it runs, and for a job that does not run again.
    #[serde(default)]
    pub next_run_s: Option<i64>,
    /// When its last run that succeeded ended, or it delivered last, in seconds since 1970.
    #[serde(default)]
    pub last_success_s: Option<i64>,
    /// Summary of that run or delivery.
    #[serde(default)]
    pub last_outcome: Option<String>,
}

impl JobReport {
    /// What its slots should bring and what they bring, in words; `None` before its second slot.
    pub fn slot_words(&self) -> Option<String> {
        let (budget, interval_s) = (self.budget_bytes?, self.interval_s?);
        let digits = usize::from(interval_s < 9.95);
        let carries = self.slot_capacity_bytes;
        let carries = carries.map_or(String::new(), |bytes| format!(", a slot can carry {}", brief(bytes)));
        Some(format!(
            "budget {} per slot, the last carried {}{carries}; token returns every {interval_s:.digits$} s",
            brief(budget),
            brief(self.last_slot_bytes),
        ))
    }

    /// For how long the source was not seen, if that says more than the lag does.
    pub fn dark(&self) -> Option<Duration> {
        let span = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or_default();
        dark(self.lag_s.map_or(Duration::ZERO, span), span(self.unseen_s?))
    }
}

/// A size in decimal units, as reasons have it.
fn brief(bytes: u64) -> String {
    crate::fetch::plan::in_bytes(bytes)
}

/// How many reasons are kept.
const CHANGES: usize = 8;

/// All jobs of a process. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Board {
    jobs: Arc<Mutex<BTreeMap<u64, Arc<Mutex<Job>>>>>,
    /// What other processes brought in slots of this one.
    borrowed_bytes: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Job {
    report: JobReport,
    since: Instant,
    slot_began: Option<Instant>,
    /// The files that are being pulled: one for each connection.
    open: BTreeMap<usize, String>,
}

/// A job's own line on the board; wiped when it is dropped.
#[derive(Debug)]
pub struct Line {
    board: Board,
    id: u64,
    job: Arc<Mutex<Job>>,
}

impl Board {
    /// A new job. `source` is shown as it is: without its password, that is.
    pub fn enter(&self, kind: &str, name: &str, source: &str, target: &str) -> Line {
        let report = JobReport {
            kind: kind.to_owned(),
            name: escape(name),
            source: escape(source),
            target: escape(target),
            ..JobReport::default()
        };
        let job = Arc::new(Mutex::new(Job {
            report,
            since: Instant::now(),
            slot_began: None,
            open: BTreeMap::new(),
        }));
        let mut jobs = self.lock();
        let id = jobs.last_key_value().map_or(0, |(id, _)| id + 1);
        jobs.insert(id, Arc::clone(&job));
        Line { board: self.clone(), id, job }
    }

    /// All jobs, in the order in which they came.
    pub fn reports(&self) -> Vec<JobReport> {
        self.lock().values().map(|job| lock(job).current()).collect()
    }

    /// Another process brought so much in a slot of this one.
    pub fn add_borrowed(&self, bytes: u64) {
        self.borrowed_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// What other processes brought in slots of this one.
    pub fn borrowed_bytes(&self) -> u64 {
        self.borrowed_bytes.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Mutex<Job>>>> {
        self.jobs.lock().expect("nobody panics with the board in hand")
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.board.lock().remove(&self.id);
    }
}

impl Line {
    /// It does something else now.
    pub fn set_state(&self, state: State) {
        self.lock().set_state(state);
    }

    /// It has ended for good: as it should, or with the error that was told last.
    pub fn end(&self) {
        let mut job = self.lock();
        let state = if job.report.last_error.is_some() { State::Failed } else { State::Stopped };
        job.set_state(state);
    }

    /// How far it is behind its source, and for how long that was not looked at.
    pub fn set_lag(&self, lag: Option<Duration>, bytes: Option<u64>, unseen: Option<Duration>) {
        let mut job = self.lock();
        job.report.lag_s = lag.map(|lag| lag.as_secs_f64());
        job.report.lag_bytes = bytes;
        job.report.unseen_s = unseen.map(|unseen| unseen.as_secs_f64());
    }

    /// So many names were refused.
    pub fn set_refused(&self, count: u64) {
        self.lock().report.refused = count;
    }

    /// So many replicas were removed.
    pub fn deleted(&self, count: u64) {
        self.lock().report.deleted += count;
    }

    /// Something went wrong.
    pub fn failed(&self, error: &str) {
        self.lock().failed(error);
    }

    /// What went wrong before does not matter any more: all went well since.
    pub fn mended(&self) {
        self.lock().report.last_error = None;
    }

    /// Records when the next run begins.
    pub fn set_next_run(&self, at: Option<Timestamp>) {
        self.lock().report.next_run_s = at.map(Timestamp::as_second);
    }

    /// Records the end of a successful run, or a delivery, with its summary.
    pub fn succeeded(&self, at_s: i64, outcome: &str) {
        let mut job = self.lock();
        job.report.last_success_s = Some(at_s);
        job.report.last_outcome = Some(escape(outcome));
    }

    /// What it says of itself.
    pub fn report(&self) -> JobReport {
        self.lock().current()
    }

    fn lock(&self) -> MutexGuard<'_, Job> {
        lock(&self.job)
    }
}

impl Watch for Line {
    fn on(&self, event: Event<'_>) {
        self.lock().on(event);
    }

    fn name(&self) -> Option<String> {
        Some(self.lock().report.name.clone())
    }
}

impl Job {
    fn current(&self) -> JobReport {
        let running = self.slot_began.map_or(0.0, |began| began.elapsed().as_secs_f64());
        JobReport {
            state_s: self.since.elapsed().as_secs_f64(),
            slot_s: self.report.slot_s + running,
            ..self.report.clone()
        }
    }

    fn set_state(&mut self, state: State) {
        if self.report.state != state {
            self.report.state = state;
            self.since = Instant::now();
        }
    }

    fn failed(&mut self, error: &str) {
        self.report.errors += 1;
        self.report.last_error = Some(escape(error));
    }

    fn on(&mut self, event: Event<'_>) {
        match event {
            Event::Began { index, address } => {
                let address = address.to_string();
                self.report.current = Some(escape(&address));
                self.open.insert(index, address);
                self.report.current_bytes = None;
            }
            Event::Listed { entries, .. } => self.report.listed += entries as u64,
            Event::File { event, .. } => self.on_file(event),
            Event::Ended { index, fate } => self.on_ended(index, fate),
            Event::Waiting { .. } => self.set_state(State::Waiting),
            Event::SlotBegan => {
                self.report.slots += 1;
                self.slot_began = Some(Instant::now());
                self.set_state(State::Pulling);
            }
            Event::Budgeted { plan } => self.on_budgeted(plan),
            Event::SlotEnded { bytes, chunk, overload } => {
                self.report.last_slot_bytes = bytes;
                self.report.overload = overload.map(|overload| overload.to_string());
                self.report.chunk_bytes = chunk.or(self.report.chunk_bytes);
                if let Some(began) = self.slot_began.take() {
                    self.report.slot_s += began.elapsed().as_secs_f64();
                }
            }
            Event::Idle { .. } => self.set_state(State::Idle),
            Event::Pausing { fault, .. } => self.on_pausing(fault),
        }
    }

    fn on_budgeted(&mut self, plan: &SlotPlan) {
        let report = &mut self.report;
        report.budget_bytes = plan.budget;
        report.slot_capacity_bytes = plan.capacity;
        report.interval_s = plan.interval.map(|interval| interval.as_secs_f64());
        report.chunk_bytes = plan.chunk().or(report.chunk_bytes);
        if let Some(change) = &plan.change {
            report.chunk_changes.push(change.to_string());
            let surplus = report.chunk_changes.len().saturating_sub(CHANGES);
            report.chunk_changes.drain(..surplus);
        }
    }

    fn on_file(&mut self, event: &engine::Event) {
        let report = &mut self.report;
        match event {
            engine::Event::Opened { size, have } => report.current_bytes = Some((*have, *size)),
            engine::Event::Bytes(bytes) => {
                report.bytes += bytes;
                if let Some((have, _)) = &mut report.current_bytes {
                    *have += bytes;
                }
            }
            engine::Event::Restarted(_) => report.current_bytes = None,
            engine::Event::WasCut(_) | engine::Event::Surplus(_) => {}
        }
    }

    fn on_ended(&mut self, index: usize, fate: &Fate) {
        let address = self.open.remove(&index);
        self.report.current = None;
        self.report.current_bytes = None;
        match fate {
            Fate::Pulled { .. } => self.report.files += 1,
            Fate::UpToDate(_) => self.report.up_to_date += 1,
            Fate::Failed(error) => match address {
                Some(address) => self.failed(&format!("{address}: {error}")),
                None => self.failed(&error.to_string()),
            },
            Fate::Planned { .. } | Fate::NotMeant | Fate::Interrupted => {}
        }
    }

    fn on_pausing(&mut self, fault: &Fault) {
        self.failed(&fault.to_string());
        if let Fault::Refused(refusal) = fault {
            let code = refusal.code.map_or_else(|| "none".to_owned(), |code| code.to_string());
            *self.report.refusals.entry(code).or_default() += 1;
            self.set_state(State::BackingOff);
        } else {
            self.set_state(State::Retrying);
        }
    }
}

fn lock(job: &Mutex<Job>) -> MutexGuard<'_, Job> {
    job.lock().expect("nobody panics with a line in hand")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fetch::Refusal;
    use crate::fetch::plan::{Change, Overload};

    #[tokio::test(start_paused = true)]
    async fn a_job_is_on_the_board_as_long_as_it_lasts() {
        let board = Board::default();
        let line = board.enter("mirror", "a\u{1b}[2Jb", "ftp://x/", "/data");
        line.on(Event::SlotBegan);
        tokio::time::advance(Duration::from_secs(2)).await;
        line.on(Event::SlotEnded { bytes: 7, chunk: None, overload: None });
        line.on(Event::Waiting { expected: None });
        tokio::time::advance(Duration::from_secs(3)).await;
        let report = board.reports().pop().expect("one job");
        assert_eq!(
            (report.state, report.state_s, report.slots, report.slot_s),
            (State::Waiting, 3.0, 1, 2.0)
        );
        assert!(!report.name.contains('\u{1b}'));
        drop(line);
        assert!(board.reports().is_empty());
    }

    #[test]
    fn each_state_has_the_same_word_in_text_and_json() {
        let words = State::ALL.map(State::word);
        let expected = [
            "pulling",
            "waiting",
            "idle",
            "lagging",
            "paused",
            "retrying",
            "backing-off",
            "stopped",
            "failed",
        ];
        assert_eq!(words, expected);
        assert_eq!(State::ALL.map(|state| serde_json::to_value(state).expect("a word")), expected);
    }

    #[test]
    fn a_job_that_ends_with_an_error_has_failed_and_any_other_has_stopped() {
        let line = Board::default().enter("exec", "x", "true", "");
        line.end();
        assert_eq!(line.report().state, State::Stopped);
        line.failed("no such program");
        line.end();
        assert_eq!(line.report().state, State::Failed);
    }

    #[test]
    fn the_budget_of_the_slot_and_its_reason_are_on_the_board() {
        let line = Board::default().enter("get", "x", "ftp://x/", ".");
        let change =
            |from| Change { from, to: 16_000_000, reason: "token returns every 41 s, was 18 s".into() };
        let plan = |from| SlotPlan {
            budget: Some(16_000_000),
            capacity: Some(9_000_000),
            interval: Some(Duration::from_secs(41)),
            change: Some(change(from)),
        };
        for from in 0..20 {
            line.on(Event::Budgeted { plan: &plan(from) });
        }
        line.on(Event::Budgeted { plan: &plan(8_000_000) });
        let overload = Overload { needed: 16_000_000, carried: 9_000_000, is_limit: false };
        line.on(Event::SlotEnded { bytes: 9_000_001, chunk: None, overload: Some(overload) });
        let report = line.report();
        assert_eq!((report.budget_bytes, report.interval_s), (Some(16_000_000), Some(41.0)));
        assert_eq!((report.chunk_bytes, report.slot_capacity_bytes), (Some(9_000_000), Some(9_000_000)));
        assert_eq!(report.last_slot_bytes, 9_000_001);
        let reason = "budget 8 MB → 16 MB: token returns every 41 s, was 18 s";
        assert_eq!(report.chunk_changes.last().map(String::as_str), Some(reason));
        assert_eq!(report.chunk_changes.len(), CHANGES);
        let words =
            "budget 16 MB per slot, the last carried 9 MB, a slot can carry 9 MB; token returns every 41 s";
        assert_eq!(report.slot_words().as_deref(), Some(words));
        assert!(report.overload.is_some_and(|words| words.contains("44 %")));
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_are_counted_by_their_code() {
        let line = Board::default().enter("get", "x", "ftp://x/", ".");
        let fault = Fault::Refused(Refusal::new(Some(421), None, "too many"));
        line.on(Event::Pausing { wait: Duration::from_secs(300), fault: &fault });
        let report = line.report();
        assert_eq!((report.state, report.refusals.get("421")), (State::BackingOff, Some(&1)));
        assert_eq!(report.errors, 1);
    }
}
