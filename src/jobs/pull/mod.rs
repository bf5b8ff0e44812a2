//! Pulls what a [`Feed`] wants, in the slots that are given: the one loop behind every job that pulls.
//!
//! ```text
//!   feed ──> worker ──> engine (while the turn lasts) ──> part ──> finished file
//!              │ fault: wait, tell the circle if the source refuses, go on
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | [`feed`] | what there is to do, one thing at a time |
//! | `work` | tasks taken out of the feed ahead, and tasks given back |
//! | `worker` | does one thing at a time, over its own connections |
//! | `budget` | how much to pull in the slot that runs |
//! | `asking` | asks whether a file exists, and what is at an address |
//! | `surplus` | workers beyond the connections that the source allows |
//! | `current` | the task that a worker is at |
//! | `file` | a file on its way: prepared, whole, named |
//! | `last_folder` | the folder that was last written to |
//! | `sources` | its connections |
//! | `replica` | whether a file is here already |
//! | `following` | does it for files that grow |
//! | `sums`, `checksums` | lists of checksums at the source; which were used |
//! | [`report`] | what was done, and what is told meanwhile |

mod asking;
mod budget;
mod checksums;
mod current;
pub mod feed;
mod file;
mod following;
mod last_folder;
mod replica;
pub mod report;
mod sources;
mod sums;
mod surplus;
mod work;
mod worker;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::base::{Rng, Time};
use crate::fetch::limit::{Limiter, Waiting};
use crate::fetch::plan::Budgets;
use crate::fetch::sink::{Disk, Folder, SinkError};
use crate::fetch::slot::Tally;
use crate::fetch::{Address, Fault, Name, Options};

use super::backoff::Patience;
use super::slots::{Sign, Slots, Turn};
use super::stop::or_stop;

pub use checksums::Checksums;
pub use feed::{End, Feed, Follow, Followed, Moment, Next, Rotated, Task, To, Want};
use last_folder::LastFolder;
pub use replica::Alike;
pub use report::{Event, Fate, SlotPlan, Totals, Watch};
use sums::SumsBeside;
use work::{Peek, Work};
use worker::{TurnEnd, Worker};

/// How to pull.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "they are the user's switches, each on its own")]
pub struct Config {
    /// How connections behave.
    pub options: Arc<Options>,
    /// How many at a time.
    pub connections: usize,
    /// How patient to be.
    pub patience: Patience,
    /// Slower than this, in bytes a second, for half a minute is a fault; 0 for never.
    pub min_speed: u64,
    /// Look for checksums beside the files.
    pub sums: bool,
    /// Go on where an earlier run ended.
    pub resume: bool,
    /// Give replicas the time of their originals.
    pub times: bool,
    /// Compute the SHA-256 of everything.
    pub sha256: bool,
    /// Size of ranges; `None` to follow slot and throughput.
    pub chunk: Option<u64>,
    /// How long a connection may stay open between two slots.
    pub idle_grace: Duration,
    /// Where journals are kept.
    pub state: PathBuf,
    /// Only look what would be pulled.
    pub dry_run: bool,
    /// When a replica is the same as its original.
    pub alike: Alike,
    /// Of what is random: the jitter of waits.
    pub seed: u64,
}

/// A feed that waits is asked again after this at the latest: it may follow something that nobody else sees.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What the workers share.
struct Common<'a, F> {
    config: &'a Config,
    /// What the user allows, what the slot does, and what the member does whose slot is borrowed.
    limiters: [Limiter; 3],
    /// What should be pulled in the slot that runs, and what came.
    tally: Arc<Tally>,
    /// For the user's limit.
    waiting: Mutex<Waiting>,
    budgets: Mutex<Budgets>,
    /// Of the slot that runs.
    plan: Mutex<SlotPlan>,
    /// The user's order.
    stop: watch::Receiver<bool>,
    watch: &'a dyn Watch,
    disk: Disk,
    /// The folder that was last written to: most files go where the last one went, and files of one folder become
    /// durable together.
    folder: Mutex<Option<LastFolder>>,
    work: Mutex<Work<F>>,
    /// A task has ended, or a worker has: there may be something else to do, or nothing to wait for.
    news: Notify,
    totals: Mutex<Totals>,
    begun: Instant,
    /// Held by the file that goes to standard output.
    output: Arc<tokio::sync::Mutex<()>>,
    /// It was said that a source does not tell how old its files are.
    told_ageless: AtomicBool,
    /// Connections to one file that the source refused while another one worked.
    surplus: AtomicUsize,
    /// Lists of checksums at the source.
    sums: tokio::sync::Mutex<SumsBeside>,
}

impl<F: Feed> Common<'_, F> {
    fn work(&self) -> std::sync::MutexGuard<'_, Work<F>> {
        self.work.lock().expect("nobody panics with the work in hand")
    }

    fn moment(&self) -> Moment {
        Moment { now: Time::ZERO + self.begun.elapsed(), wall_s: jiff::Timestamp::now().as_second() }
    }

    fn next_address(&self) -> Option<Address> {
        let work = self.work();
        work.ahead.front().map(|(_, task)| task.address().clone()).or_else(|| work.feed.outlook())
    }

    fn want_ahead(&self) -> Option<(usize, Want)> {
        let at = self.moment();
        self.work().want_ahead(at)
    }

    fn totals(&self) -> std::sync::MutexGuard<'_, Totals> {
        self.totals.lock().expect("nobody panics with the totals in hand")
    }

    fn folder(&self, root: &Path, below: &[Name]) -> Result<Arc<Folder>, SinkError> {
        let mut last = self.folder.lock().expect("nobody panics with the folder in hand");
        LastFolder::open(&mut last, root, below)
    }

    fn slot_limiter(&self) -> &Limiter {
        let [_, slot, _] = &self.limiters;
        slot
    }

    fn is_stopped(&self) -> bool {
        *self.stop.borrow() || self.stop.has_changed().is_err()
    }

    /// What comes of `work`, or nothing if the user says stop before.
    async fn or_stop<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        or_stop(&self.stop, work).await
    }

    /// How much had come before.
    fn slot_began(&self) -> u64 {
        self.watch.on(Event::SlotBegan);
        let mut totals = self.totals();
        totals.slots += 1;
        totals.bytes
    }

    /// Says whether there is something to pull.
    fn want(&self, slots: &Slots, work: bool) {
        self.waiting.lock().expect("nobody panics with this in hand").set(work);
        slots.want(work);
    }

    /// A worker has something to do.
    fn at_work(&self) {
        self.work().busy += 1;
    }

    /// Counts a worker as idle. True if another worker is still busy.
    ///
    /// Waiting workers are woken only by the last busy one, because then nothing is left to wait for. A wake-up by every idle
    /// worker would also wake the caller itself, which waits next: two of them would spin without ever yielding.
    fn at_rest(&self) -> bool {
        let mut work = self.work();
        work.busy -= 1;
        let are_others = work.busy > 0;
        drop(work);
        if !are_others {
            self.news.notify_waiters();
        }
        are_others
    }

    /// True if a worker other than the calling one can do its task: the source has answered it, or it is busy.
    fn has_others(&self, is_served: bool) -> bool {
        let work = self.work();
        work.busy > 1 || work.served > usize::from(is_served)
    }

    /// Leaves the tasks of one worker to the others.
    fn give_back(&self, tasks: impl Iterator<Item = current::Current>) {
        self.work().given_back.extend(tasks);
        self.news.notify_waiters();
    }

    fn pulled(&self, index: usize, fate: Fate) {
        self.watch.on(Event::Ended { index, fate: &fate });
        self.end(index, End::Pulled(fate));
    }

    fn end(&self, id: usize, end: End) {
        let at = self.moment();
        let is_look = matches!(end, End::Listed(_));
        let mut work = self.work();
        work.feed.ended(id, end, at);
        if is_look {
            // What a look finds is to be pulled in this slot.
            self.tally.cover(work.feed.backlog());
        }
        drop(work);
        self.news.notify_waiters();
    }
}

/// Does what the feed wants, in the slots that are given, until there is nothing left or `stop` says otherwise. Gives the
/// feed back.
pub async fn pull<F: Feed>(
    feed: F,
    config: &Config,
    slots: &mut Slots,
    limiter: &Limiter,
    stop: &watch::Receiver<bool>,
    watch: &dyn Watch,
) -> (F, Totals) {
    let mut rng = Rng::seeded(config.seed);
    let connections = config.connections.max(1);
    let count = connections.min(feed.abreast().max(1));
    let each = if count == 1 { connections } else { 1 };
    let mut workers: Vec<Worker> = (0..count).map(|_| Worker::new(each, rng.next_u64(), config)).collect();
    let common = Common {
        config,
        limiters: [limiter.clone(), Limiter::new(None), Limiter::new(None)],
        tally: Arc::default(),
        waiting: Mutex::new(limiter.waiting()),
        budgets: Mutex::default(),
        plan: Mutex::default(),
        stop: stop.clone(),
        watch,
        disk: Disk::start(),
        folder: Mutex::new(None),
        work: Mutex::new(Work::new(feed, count)),
        news: Notify::new(),
        totals: Mutex::new(Totals::default()),
        begun: Instant::now(),
        output: Arc::default(),
        told_ageless: AtomicBool::new(false),
        surplus: AtomicUsize::new(0),
        sums: tokio::sync::Mutex::default(),
    };
    run(&common, &mut workers, slots).await;
    join_all(workers.iter_mut().map(|worker| worker.finish(&common))).await;
    let left = common.work().take_left();
    join_all(left.into_iter().map(|task| task.interrupt(&common))).await;
    let mut totals = common.totals().clone();
    totals.elapsed_s = common.begun.elapsed().as_secs_f64();
    totals.checksums = config.sums.then(|| common.sums.into_inner().into_report());
    let work = common.work.into_inner().unwrap_or_else(PoisonError::into_inner);
    (work.feed, totals)
}

/// Turn after turn, until nothing is left or there are no more turns.
async fn run<F: Feed>(common: &Common<'_, F>, workers: &mut [Worker], slots: &mut Slots) {
    common.want(slots, true);
    while let Some(mut turn) = next_turn(common, workers, slots).await {
        let before = common.slot_began();
        let slot = turn.slot.clone().ended_by(common.stop.clone()).tallied(Arc::clone(&common.tally));
        common.plan_slot(&turn, workers);
        common.work().begin_turn(slot.is_limited());
        let at_work = if slot.counts_connections() { 1 } else { workers.len() };
        let active = workers.iter_mut().filter(|worker| !worker.is_resting()).take(at_work);
        let turns = active.map(|worker| worker.turn(common, &slot));
        let ends = join_all(turns).await;
        if slot.counts_connections() {
            close_all(workers).await;
        }
        let bytes = common.totals().bytes - before;
        turn.carried(bytes);
        // From here on the token or the ticket may go.
        drop(turn);
        common.work().feed.slot_changed(false);
        common.slot_ended(bytes);
        match worst(ends) {
            // Workers whose turn had ended before can do what a refused one has left.
            TurnEnd::Drained | TurnEnd::Idle if !common.work().given_back.is_empty() => {}
            TurnEnd::Drained => break,
            TurnEnd::Idle => {
                if idle(common, workers, slots).await.is_break() {
                    break;
                }
            }
            TurnEnd::SlotOver | TurnEnd::Surplus => {}
            TurnEnd::Pause { wait, fault } => pause(common, workers, slots, wait, &fault).await,
        }
    }
    common.want(slots, false);
}

/// Waits for the next turn; `None` if there is none, or the user says stop. A connection that nobody uses is closed after
/// its grace, and opened when a turn may come.
async fn next_turn<F: Feed>(
    common: &Common<'_, F>,
    workers: &mut [Worker],
    slots: &mut Slots,
) -> Option<Turn> {
    if common.is_stopped() {
        return None;
    }
    if slots.is_eternal() {
        return slots.next().await;
    }
    let begun = Instant::now();
    common.watch.on(Event::Waiting { expected: slots.expected_wait() });
    let turn = common.or_stop(wait_for_turn(common, workers, slots)).await;
    common.totals().waited_s += begun.elapsed().as_secs_f64();
    turn.flatten()
}

async fn wait_for_turn<F: Feed>(
    common: &Common<'_, F>,
    workers: &mut [Worker],
    slots: &mut Slots,
) -> Option<Turn> {
    slots.forget_signs();
    tokio::select! {
        biased;
        turn = slots.next() => return turn,
        // Files that are whole get their names while we wait.
        () = collect_all(common, workers) => {}
    }
    let mut is_open = true;
    loop {
        let grace = if is_open { common.config.idle_grace } else { Duration::MAX };
        match timeout(grace, slots.sign()).await {
            Ok(Sign::Turn(turn)) => return Some(turn),
            Ok(Sign::Never) => return None,
            Ok(Sign::Soon) => {
                is_open = true;
                if let ControlFlow::Break(turn) = warm_up(common, workers, slots).await {
                    return turn;
                }
            }
            Err(_) => {
                is_open = false;
                close_all(workers).await;
            }
        }
    }
}

/// Opens connections for a turn that may come in a moment. If it comes before they are open, it begins with that.
async fn warm_up<F: Feed>(
    common: &Common<'_, F>,
    workers: &mut [Worker],
    slots: &mut Slots,
) -> ControlFlow<Option<Turn>> {
    let mut warming = pin!(join_all(workers.iter_mut().map(|worker| worker.warm(common))));
    tokio::select! {
        biased;
        _ = &mut warming => ControlFlow::Continue(()),
        turn = slots.next() => {
            if let Some(turn) = &turn {
                tokio::select! {
                    _ = warming => {}
                    () = turn.slot.over() => {}
                }
            }
            ControlFlow::Break(turn)
        }
    }
}

/// Waits until the feed has something to do again. Nobody needs the token meanwhile.
async fn idle<F: Feed>(common: &Common<'_, F>, workers: &mut [Worker], slots: &mut Slots) -> ControlFlow<()> {
    common.want(slots, false);
    if common.or_stop(collect_all(common, workers)).await.is_none() {
        return ControlFlow::Break(());
    }
    let close_at = Instant::now() + common.config.idle_grace;
    let mut is_open = true;
    let mut told = None;
    loop {
        let at = common.moment();
        let peek = common.work().peek(at);
        let until = match peek {
            Peek::Task => break,
            Peek::Again if common.is_stopped() => return ControlFlow::Break(()),
            Peek::Again => {
                tokio::task::yield_now().await;
                continue;
            }
            Peek::Done => return ControlFlow::Break(()),
            Peek::Wait(until) => until,
        };
        if told != Some(until) {
            common.watch.on(Event::Idle { wait: until.map(|until| until.since(at.now)) });
            told = Some(until);
        }
        let nap = until.map_or(LOOK_EVERY, |until| until.since(at.now)).min(LOOK_EVERY);
        let wake = Instant::now() + nap;
        let wake = if is_open { wake.min(close_at) } else { wake };
        if common.or_stop(sleep_until(wake)).await.is_none() {
            return ControlFlow::Break(());
        }
        if is_open && Instant::now() >= close_at {
            is_open = false;
            close_all(workers).await;
        }
    }
    common.want(slots, true);
    ControlFlow::Continue(())
}

/// Leaves the source alone for a while; the circle is told if it was the source's wish.
async fn pause<F: Feed>(
    common: &Common<'_, F>,
    workers: &mut [Worker],
    slots: &Slots,
    wait: Duration,
    fault: &Fault,
) {
    common.watch.on(Event::Pausing { wait, fault });
    if let Fault::Refused(refusal) = fault {
        let host = workers.iter().find_map(|worker| worker.address()).map(Address::host);
        slots.cool(wait, refusal.told_by(host.as_deref()));
    }
    common.want(slots, false);
    close_all(workers).await;
    let begun = Instant::now();
    common.or_stop(sleep(wait)).await;
    common.totals().paused_s += begun.elapsed().as_secs_f64();
    common.want(slots, true);
}

async fn collect_all<F: Feed>(common: &Common<'_, F>, workers: &mut [Worker]) {
    join_all(workers.iter_mut().map(|worker| worker.collect(common, 0))).await;
}

async fn close_all(workers: &mut [Worker]) {
    join_all(workers.iter_mut().map(Worker::close)).await;
}

/// A refusal of the last connection is one of all; a slot that is over is over for all workers.
fn worst(ends: Vec<TurnEnd>) -> TurnEnd {
    ends.into_iter().max_by_key(TurnEnd::weight).unwrap_or(TurnEnd::Drained)
}
