//! What the jobs of a process are doing, for `status`, the page and the metrics to read at any moment.
//!
//! Each job has a [`Line`] on the board and writes to it what happens, mostly by being its [`Watch`]er; whoever wants to
//! know takes a copy of all [`JobReport`]s.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::pull::{Event, Fate, Watch};
use super::subscribe::lag::dark;
use crate::fetch::engine;
use crate::fetch::{Fault, escape};

/// What a job is doing, in sr3's words and two of our own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It pulls.
    Run,
    /// There is nothing to do.
    #[default]
    Idle,
    /// It is behind its source for longer than it should be.
    Lag,
    /// It pulls, but slower than the stream grows.
    Slow,
    /// Something went wrong, and it tries again.
    Rtry,
    /// It was told to pause.
    Hung,
    /// It has ended.
    Stop,
    /// It waits for the token.
    Wtok,
    /// The source asked to be left alone.
    Cool,
}

impl State {
    /// The word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Idle => "idle",
            Self::Lag => "lag",
            Self::Slow => "slow",
            Self::Rtry => "rtry",
            Self::Hung => "hung",
            Self::Stop => "stop",
            Self::Wtok => "wtok",
            Self::Cool => "cool",
        }
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
    /// Bytes of its last slot.
    pub last_slot_bytes: u64,
    /// What a slot is to bring, as last planned.
    pub chunk_bytes: Option<u64>,
    /// Why the chunk is another one than before: the last few, newest last.
    pub chunk_changes: Vec<String>,
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
}

impl JobReport {
    /// For how long the source was not seen, if that says more than the lag does.
    pub fn dark(&self) -> Option<Duration> {
        let span = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or_default();
        dark(self.lag_s.map_or(Duration::ZERO, span), span(self.unseen_s?))
    }
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
            Event::Waiting { .. } => self.set_state(State::Wtok),
            Event::SlotBegan => {
                self.report.slots += 1;
                self.slot_began = Some(Instant::now());
                self.set_state(State::Run);
            }
            Event::SlotEnded { bytes, chunk } => {
                self.report.last_slot_bytes = bytes;
                self.report.chunk_bytes = chunk.or(self.report.chunk_bytes);
                if let Some(began) = self.slot_began.take() {
                    self.report.slot_s += began.elapsed().as_secs_f64();
                }
            }
            Event::Idle { .. } => self.set_state(State::Idle),
            Event::Pausing { fault, .. } => self.on_pausing(fault),
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
            engine::Event::Chunk(change) => {
                report.chunk_bytes = Some(change.to);
                report.chunk_changes.push(change.to_string());
                let surplus = report.chunk_changes.len().saturating_sub(CHANGES);
                report.chunk_changes.drain(..surplus);
            }
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
            self.set_state(State::Cool);
        } else {
            self.set_state(State::Rtry);
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

    #[tokio::test(start_paused = true)]
    async fn a_job_is_on_the_board_as_long_as_it_lasts() {
        let board = Board::default();
        let line = board.enter("mirror", "a\u{1b}[2Jb", "ftp://x/", "/data");
        line.on(Event::SlotBegan);
        tokio::time::advance(Duration::from_secs(2)).await;
        line.on(Event::SlotEnded { bytes: 7, chunk: None });
        line.on(Event::Waiting { expected: None });
        tokio::time::advance(Duration::from_secs(3)).await;
        let report = board.reports().pop().expect("one job");
        assert_eq!((report.state, report.state_s, report.slots, report.slot_s), (State::Wtok, 3.0, 1, 2.0));
        assert!(!report.name.contains('\u{1b}'));
        drop(line);
        assert!(board.reports().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_are_counted_by_their_code() {
        let line = Board::default().enter("get", "x", "ftp://x/", ".");
        let fault = Fault::Refused(Refusal::new(Some(421), None, "too many"));
        line.on(Event::Pausing { wait: Duration::from_secs(300), fault: &fault });
        let report = line.report();
        assert_eq!((report.state, report.refusals.get("421")), (State::Cool, Some(&1)));
        assert_eq!(report.errors, 1);
    }
}
