//! One job of `stroll run` at work: runs when its timing says so, and again a little later after a failure.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use stroll::base::units::{human_duration, human_size};
use stroll::fetch::limit::Limiter;
use stroll::jobs::exec::{self, Outcome, Plan};
use stroll::jobs::mirror::{self as mirroring, mirror};
use stroll::jobs::pull::{Config, Event, Watch};
use stroll::jobs::stop::or_stop;
use stroll::jobs::subscribe::lag::Lag;
use stroll::jobs::subscribe::{self as subscribing, Delivered, Tell, subscribe};
use stroll::jobs::timing::{RunLog, Timing};
use stroll::jobs::{Line, Slots, State};
use stroll::peer::DONE;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::cli::bars::chain;
use crate::cli::ending::Stopped;
use crate::cli::mirror::Summary;

/// A job that failed is begun again after this, and later each time.
const AGAIN_AFTER: Duration = Duration::from_secs(60);
const AGAIN_AT_LAST: Duration = Duration::from_secs(3_600);

/// Batches of deliveries are reported no more often than this: a stream with a file every second is no reason for a log with a
/// line every second.
const BATCHES_EVERY: Duration = Duration::from_secs(10);

/// Deliveries that follow each other for longer than this are reported in several batches.
const LONGEST_BATCH: Duration = Duration::from_secs(60);

/// A job whose settings make sense.
pub(super) enum Ready {
    Subscribe(Box<subscribing::Spec>, Box<Config>),
    Mirror(Box<mirroring::Spec>, Box<Config>, Timing),
    /// With the state folder.
    Exec(Box<Plan>, Timing, PathBuf),
}

impl Ready {
    /// When it runs; a subscription runs at once, and has no end of its own.
    fn timing(&self) -> Timing {
        match self {
            Self::Mirror(.., timing) | Self::Exec(_, timing, _) => timing.clone(),
            Self::Subscribe(..) => Timing::default(),
        }
    }

    /// Where the runs of the job of this name are remembered.
    pub(super) fn log(&self, name: &str) -> Option<RunLog> {
        match self {
            Self::Subscribe(..) => None,
            Self::Mirror(spec, config, _) => {
                Some(RunLog::of_mirror(&config.state, &spec.source.to_string(), &spec.target))
            }
            Self::Exec(plan, _, state) => Some(RunLog::of_command(state, name, &plan.program, &plan.args)),
        }
    }
}

/// A job at work.
pub(super) struct Work {
    pub(super) slots: Slots,
    pub(super) limiter: Limiter,
    pub(super) stop: watch::Receiver<bool>,
    pub(super) line: Line,
    pub(super) log: Option<RunLog>,
}

/// How a run of a job ended.
enum Ended {
    /// Success, with a summary of the run.
    Well(String),
    /// Partial failure, with a summary and the reason. The next scheduled run may succeed.
    Partly(String, String),
    /// The job, or the member, is to end.
    Stopped,
    Badly(String),
}

impl Work {
    /// Again and again: by its timing, and after a failure a little later.
    pub(super) async fn run(mut self, ready: Ready) {
        self.remember();
        if self.wait_for_first(&ready.timing()).await {
            self.repeat(&ready).await;
        }
        self.line.end();
        // What has ended stays to be seen until the member ends.
        if !self.is_stopped() {
            self.or_stop(std::future::pending::<()>()).await;
        }
    }

    async fn repeat(&mut self, ready: &Ready) {
        let timing = ready.timing();
        let mut again_after = AGAIN_AFTER;
        loop {
            let started = Timestamp::now();
            self.line.set_next_run(None);
            let ended = self.once(ready).await;
            // However it ended: a turn that comes before the next run would be kept, and nobody pulls in it.
            self.slots.want(false);
            if self.is_stopped() {
                return;
            }
            // Files that fail tell the board why as they do; folders and a whole run do not.
            match &ended {
                Ended::Badly(why) => self.line.failed(why),
                Ended::Partly(_, why) if self.line.report().last_error.is_none() => self.line.failed(why),
                _ => {}
            }
            self.report(&ended, started);
            match ended {
                // Nobody told it to: it is the slots that have ended.
                Ended::Stopped => {
                    self.line.failed("it gets no more slots");
                    return;
                }
                Ended::Well(_) => {
                    again_after = AGAIN_AFTER;
                    self.line.mended();
                    if !self.wait_for_next(State::Idle, &timing, started).await {
                        return;
                    }
                }
                // Its schedule is soon enough for what failed; until then everybody sees that something did.
                Ended::Partly(..) if timing.schedule().is_some() => {
                    again_after = AGAIN_AFTER;
                    if !self.wait_for_next(State::Retrying, &timing, started).await {
                        return;
                    }
                }
                Ended::Partly(_, why) | Ended::Badly(why) => {
                    warn!(again_in = ?again_after, "{}: {why}", self.title());
                    self.line.set_state(State::Retrying);
                    let again = SignedDuration::try_from(again_after).unwrap_or_default();
                    self.line.set_next_run(Timestamp::now().checked_add(again).ok());
                    if self.or_stop(tokio::time::sleep(again_after)).await.is_none() {
                        return;
                    }
                    again_after = (again_after * 2).min(AGAIN_AT_LAST);
                }
            }
        }
    }

    async fn once(&mut self, ready: &Ready) -> Ended {
        let Self { slots, limiter, stop, line, .. } = self;
        match ready {
            Ready::Subscribe(spec, config) => {
                let teller = Batches { line, batch: Mutex::default() };
                match subscribe((**spec).clone(), config, slots, limiter, stop, &teller).await {
                    Ok(_) => Ended::Stopped,
                    Err(error) => Ended::Badly(chain(&error)),
                }
            }
            Ready::Mirror(spec, config, _) => {
                match mirror(spec, config, slots, limiter, stop, &*line).await {
                    Ok(outcome) => self.mirrored(spec, &outcome),
                    Err(error) => Ended::Badly(chain(&error)),
                }
            }
            Ready::Exec(plan, ..) => {
                let begun = Instant::now();
                match exec::exec(plan, slots, stop, &*line).await {
                    Ok(Outcome::Done) => Ended::Well(format!("done in {}", human_duration(begun.elapsed()))),
                    Ok(Outcome::Failed(status)) => Ended::Badly(format!("the command failed: {status}")),
                    Ok(Outcome::Stopped | Outcome::NoSlots) => Ended::Stopped,
                    Err(error) => Ended::Badly(chain(&error)),
                }
            }
        }
    }

    fn mirrored(&self, spec: &mirroring::Spec, outcome: &mirroring::Outcome) -> Ended {
        let counts = &outcome.found.counts;
        self.line.deleted(outcome.deleted.len() as u64);
        self.line.set_refused(counts.refused);
        if let Some(refusal) = &outcome.refusal {
            warn!("{}: nothing was removed: {refusal}", self.title());
        }
        let done = Summary { spec, outcome, stopped: Stopped::No, unslashed: None }.line();
        match &outcome.delete_error {
            Some(error) => Ended::Badly(chain(error)),
            None if counts.failed > 0 => {
                Ended::Partly(done, format!("{} files or folders failed", counts.failed))
            }
            None if counts.refused > 0 => {
                Ended::Partly(done, format!("{} names were refused", counts.refused))
            }
            None => Ended::Well(done),
        }
    }

    /// Kind and name, as log lines show them: `mirror nightly`.
    fn title(&self) -> String {
        title(&self.line)
    }

    /// Reports a completed run to the log and the board, and records it on disk.
    fn report(&mut self, ended: &Ended, started: Timestamp) {
        let (done, is_success) = match ended {
            Ended::Well(done) => (done, true),
            Ended::Partly(done, _) => (done, false),
            Ended::Stopped | Ended::Badly(_) => return,
        };
        let now = Timestamp::now();
        info!(target: DONE, "{}: {done}", self.title());
        if is_success {
            self.line.succeeded(now.as_second(), done);
        }
        let success = is_success.then_some(done.as_str());
        if let Some(Err(error)) = self.log.as_mut().map(|log| log.completed(started, now, success)) {
            warn!(%error, "{}: the state folder cannot be written: this run is not remembered", self.title());
        }
    }

    /// Puts the last success before this start on the board.
    fn remember(&self) {
        let Some(past) = self.log.as_ref().map(RunLog::past) else { return };
        if let Some(at_s) = past.last_success_s {
            self.line.succeeded(at_s, past.last_outcome.as_deref().unwrap_or_default());
        }
    }

    async fn wait_for_first(&self, timing: &Timing) -> bool {
        let last_run = self.log.as_ref().and_then(RunLog::last_run);
        self.line.set_next_run(timing.first_due(last_run, Timestamp::now()));
        self.or_stop(timing.wait_for_first(last_run, Timestamp::now)).await.unwrap_or(false)
    }

    /// Waits for the next run; `false` if there is none.
    async fn wait_for_next(&self, state: State, timing: &Timing, started: Timestamp) -> bool {
        self.line.set_state(state);
        self.line.set_next_run(timing.next_due(started, Timestamp::now()));
        self.or_stop(timing.wait_for_next(started, Timestamp::now)).await.unwrap_or(false)
    }

    fn is_stopped(&self) -> bool {
        *self.stop.borrow() || self.stop.has_changed().is_err()
    }

    async fn or_stop<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        or_stop(&self.stop, work).await
    }
}

fn title(line: &Line) -> String {
    let report = line.report();
    format!("{} {}", report.kind, report.name)
}

/// Watches a subscription: reports one line per batch of deliveries, and leaves the rest to the board.
///
/// A batch is over when nothing that is known is left to deliver, and the last report was [`BATCHES_EVERY`] ago; or after
/// [`LONGEST_BATCH`].
struct Batches<'a> {
    line: &'a Line,
    batch: Mutex<Batch>,
}

#[derive(Default)]
struct Batch {
    begun: Option<Instant>,
    files: u64,
    bytes: u64,
    /// When the batch before was reported.
    reported: Option<Instant>,
}

impl Batch {
    fn is_over(&self, has_delivered_all: bool) -> bool {
        let is_rare = self.reported.is_none_or(|reported| reported.elapsed() >= BATCHES_EVERY);
        let is_long = self.begun.is_some_and(|begun| begun.elapsed() >= LONGEST_BATCH);
        has_delivered_all && is_rare || is_long
    }
}

impl Batches<'_> {
    fn batch(&self) -> std::sync::MutexGuard<'_, Batch> {
        // The counts are consistent at every moment, so a panic elsewhere does not matter.
        self.batch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, bytes: u64) {
        let mut batch = self.batch();
        batch.begun.get_or_insert_with(Instant::now);
        batch.files += 1;
        batch.bytes += bytes;
    }

    fn report(&self) {
        let Batch { begun: Some(begun), files, bytes, .. } = *self.batch() else { return };
        *self.batch() = Batch { reported: Some(Instant::now()), ..Batch::default() };
        let noun = if files == 1 { "file" } else { "files" };
        let mut done = format!("{files} {noun} delivered, {}", human_size(bytes));
        if begun.elapsed() >= Duration::from_secs(1) {
            done = format!("{done} in {}", human_duration(begun.elapsed()));
        }
        info!(target: DONE, "{}: {done}", title(self.line));
        self.line.succeeded(Timestamp::now().as_second(), &done);
    }
}

impl Drop for Batches<'_> {
    fn drop(&mut self) {
        self.report();
    }
}

impl Watch for Batches<'_> {
    fn on(&self, event: Event<'_>) {
        self.line.on(event);
    }

    fn name(&self) -> Option<String> {
        self.line.name()
    }
}

impl Tell for Batches<'_> {
    fn lag(&self, lag: Lag) {
        self.line.lag(lag);
        let is_over = self.batch().is_over(lag.files == 0);
        if is_over {
            self.report();
        }
    }

    fn delivered(&self, delivered: &Delivered<'_>) {
        self.line.delivered(delivered);
        self.add(delivered.record.size.saturating_sub(delivered.from));
    }

    fn hook_failed(&self, path: &str, why: &str, is_skipped: bool) {
        self.line.hook_failed(path, why, is_skipped);
    }

    fn trouble(&self, why: &str) {
        self.line.trouble(why);
    }

    fn refused(&self, path: &str, why: &str) {
        self.line.refused(path, why);
    }

    fn gap(&self, path: &str) {
        self.line.gap(path);
    }

    fn flushed(&self, count: u64) {
        self.line.flushed(count);
    }
}

#[cfg(test)]
mod tests {
    use stroll::jobs::Board;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn deliveries_are_reported_in_batches_and_not_all_the_time() {
        let line = Board::default().enter("subscribe", "frames", "ftp://h/", "/data");
        let teller = Batches { line: &line, batch: Mutex::default() };
        let told = || line.report().last_outcome.unwrap_or_default();
        let behind = |files| Lag { files, has_looked: true, ..Lag::default() };
        teller.lag(behind(0));
        assert_eq!(told(), "", "nothing was delivered");
        teller.add(1_000);
        teller.lag(behind(3));
        assert_eq!(told(), "", "there is more to come");
        teller.add(1_000);
        teller.lag(behind(0));
        assert_eq!(told(), "2 files delivered, 1.95 KiB");
        // From now on one comes every second, and all are there each time.
        for _ in 0..9 {
            tokio::time::advance(Duration::from_secs(1)).await;
            teller.add(1);
            teller.lag(behind(0));
            assert_eq!(told(), "2 files delivered, 1.95 KiB");
        }
        tokio::time::advance(Duration::from_secs(1)).await;
        teller.lag(behind(0));
        assert_eq!(told(), "9 files delivered, 9 B in 9.0 s");
        // What is never all there is reported now and then, and the rest at the end.
        teller.add(1);
        tokio::time::advance(LONGEST_BATCH).await;
        teller.lag(behind(1));
        assert_eq!(told(), "1 file delivered, 1 B in 1 min 0 s");
        teller.add(7);
        drop(teller);
        assert_eq!(told(), "1 file delivered, 7 B");
    }
}
