//! Pulls single files: `stroll get`.
//!
//! ```text
//!   wants ──> worker ──> engine (while the turn lasts) ──> part ──> finished file
//!               │ fault: wait, tell the circle if the source refuses, go on
//! ```
//!
//! One file is pulled over all connections; several files are pulled each over one, as many at a time as there are
//! connections.

mod replica;
mod report;
mod sums;
mod worker;

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::base::Rng;
use crate::fetch::limit::Limiter;
use crate::fetch::sink::{Digest, Disk, Folder, SinkError};
use crate::fetch::{Address, Fault, Name, Options};

use super::backoff::Patience;
use super::slots::{Sign, Slots, Turn};

pub use report::{Event, Fate, Totals, Watch};
use worker::{TurnEnd, Worker};

/// A file that is wanted.
#[derive(Clone, Debug)]
pub struct Want {
    /// Where it is.
    pub address: Address,
    /// Where it goes.
    pub to: To,
    /// What its bytes must add up to.
    pub expected: Option<Digest>,
}

/// Where a file goes.
#[derive(Clone, Debug)]
pub enum To {
    /// Into a folder, under a name.
    File {
        /// The folder; made if it is not there.
        folder: PathBuf,
        /// The name.
        name: Name,
    },
    /// To standard output, in order.
    Stdout,
}

/// How to get.
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
    /// Of what is random: the jitter of waits.
    pub seed: u64,
}

/// What the workers share.
struct Common<'a> {
    config: &'a Config,
    /// What the user allows, and what the slot does.
    limiters: [Limiter; 2],
    /// The user's order.
    stop: watch::Receiver<bool>,
    watch: &'a dyn Watch,
    disk: Disk,
    /// The folder that was last written to: most files go where the last one went, and files of one folder become
    /// durable together.
    folder: Mutex<Option<(PathBuf, Arc<Folder>)>>,
    queue: Mutex<VecDeque<(usize, Want)>>,
    fates: Mutex<Vec<Option<Fate>>>,
    totals: Mutex<Totals>,
}

impl Common<'_> {
    fn next_want(&self) -> Option<(usize, Want)> {
        self.queue.lock().expect("nobody panics with the queue in hand").pop_front()
    }

    /// The next one, if there are enough for everybody.
    fn want_after_next(&self) -> Option<(usize, Want)> {
        let mut queue = self.queue.lock().expect("nobody panics with the queue in hand");
        if queue.len() > self.config.connections { queue.pop_front() } else { None }
    }

    fn next_address(&self) -> Option<Address> {
        let queue = self.queue.lock().expect("nobody panics with the queue in hand");
        queue.front().map(|(_, want)| want.address.clone())
    }

    fn totals(&self) -> std::sync::MutexGuard<'_, Totals> {
        self.totals.lock().expect("nobody panics with the totals in hand")
    }

    fn folder(&self, path: &Path) -> Result<Arc<Folder>, SinkError> {
        let mut last = self.folder.lock().expect("nobody panics with the folder in hand");
        if let Some((known, folder)) = &*last
            && known == path
            && !folder.is_removed()
        {
            return Ok(Arc::clone(folder));
        }
        let folder = Arc::new(Folder::open(path, true)?);
        *last = Some((path.to_owned(), Arc::clone(&folder)));
        Ok(folder)
    }

    fn slot_limiter(&self) -> &Limiter {
        let [_, slot] = &self.limiters;
        slot
    }

    fn is_stopped(&self) -> bool {
        *self.stop.borrow() || self.stop.has_changed().is_err()
    }

    /// What comes of `work`, or nothing if the user says stop before.
    async fn or_stop<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut stop = self.stop.clone();
        tokio::select! {
            biased;
            // An order that cannot come any more is one.
            _ = stop.wait_for(|stop| *stop) => None,
            done = work => Some(done),
        }
    }

    fn end(&self, index: usize, fate: Fate) {
        self.watch.on(Event::Ended { index, fate: &fate });
        let mut fates = self.fates.lock().expect("nobody panics with the fates in hand");
        if let Some(place) = fates.get_mut(index) {
            *place = Some(fate);
        }
    }
}

/// Pulls what is wanted, in the slots that are given, until `stop` says otherwise. Gives what became of each, in the same
/// order.
pub async fn get(
    wants: Vec<Want>,
    config: &Config,
    slots: &mut Slots,
    limiter: &Limiter,
    stop: &watch::Receiver<bool>,
    watch: &dyn Watch,
) -> (Vec<Fate>, Totals) {
    let begun = Instant::now();
    let count = wants.len();
    let common = Common {
        config,
        limiters: [limiter.clone(), Limiter::new(None)],
        stop: stop.clone(),
        watch,
        disk: Disk::start(),
        folder: Mutex::new(None),
        queue: Mutex::new(wants.into_iter().enumerate().collect()),
        fates: Mutex::new((0..count).map(|_| None).collect()),
        totals: Mutex::new(Totals::default()),
    };
    let mut rng = Rng::seeded(config.seed);
    let connections = config.connections.max(1);
    let mut workers: Vec<Worker> = if count == 1 {
        vec![Worker::new(connections, rng.next_u64(), config)]
    } else {
        (0..connections.min(count)).map(|_| Worker::new(1, rng.next_u64(), config)).collect()
    };
    run(&common, &mut workers, slots).await;
    join_all(workers.iter_mut().map(|worker| worker.finish(&common))).await;
    let mut totals = *common.totals();
    totals.elapsed_s = begun.elapsed().as_secs_f64();
    let fates = common.fates.into_inner().unwrap_or_default();
    (fates.into_iter().map(|fate| fate.unwrap_or(Fate::Interrupted)).collect(), totals)
}

/// Turn after turn, until nothing is left or there are no more turns.
async fn run(common: &Common<'_>, workers: &mut [Worker], slots: &mut Slots) {
    slots.want(true);
    while let Some(turn) = next_turn(common, workers, slots).await {
        common.totals().slots += 1;
        common.watch.on(Event::SlotBegan);
        let slot = turn.slot.clone().ended_by(common.stop.clone());
        let return_time = slots.expected_wait();
        let turns = workers.iter_mut().map(|worker| worker.turn(common, &slot, return_time));
        let ends = join_all(turns).await;
        // From here on the token may go.
        drop(turn);
        match worst(ends) {
            TurnEnd::Drained => break,
            TurnEnd::SlotOver => {}
            TurnEnd::Pause { wait, fault } => pause(common, workers, slots, wait, &fault).await,
        }
    }
    slots.want(false);
}

/// Waits for the next turn; `None` if there is none, or the user says stop. A connection that nobody uses is closed after
/// its grace, and opened when a turn may come.
async fn next_turn(common: &Common<'_>, workers: &mut [Worker], slots: &mut Slots) -> Option<Turn> {
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

async fn wait_for_turn(common: &Common<'_>, workers: &mut [Worker], slots: &mut Slots) -> Option<Turn> {
    slots.forget_signs();
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
                join_all(workers.iter_mut().map(Worker::close)).await;
            }
        }
    }
}

/// Opens connections for a turn that may come in a moment. If it comes before they are open, it begins with that.
async fn warm_up(
    common: &Common<'_>,
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

/// Leaves the source alone for a while; the circle is told if it was the source's wish.
async fn pause(common: &Common<'_>, workers: &mut [Worker], slots: &Slots, wait: Duration, fault: &Fault) {
    common.watch.on(Event::Pausing { wait, fault });
    if let Fault::Refused(_) = fault {
        slots.cool(wait);
    }
    slots.want(false);
    join_all(workers.iter_mut().map(Worker::close)).await;
    let begun = Instant::now();
    common.or_stop(sleep(wait)).await;
    common.totals().paused_s += begun.elapsed().as_secs_f64();
    slots.want(true);
}

/// A source that refuses one worker refuses them all; a slot that is over is over for everybody.
fn worst(ends: Vec<TurnEnd>) -> TurnEnd {
    ends.into_iter().max_by_key(TurnEnd::weight).unwrap_or(TurnEnd::Drained)
}
