//! The engine: pulls one file into its part, while the slot lasts.
//!
//! It knows nothing of tokens, retries or names. What it guarantees: no byte is read after the slot is over; bytes of two
//! versions never meet in one part; every range is asked for so that it ends before the slot does.
//!
//! ```text
//!   missing range ──> how much fits? ──> open ──> same version? ──> read, write, read, write … ──> next range
//!                      (plan)                        │ no: the part starts anew
//! ```

mod books;
mod follow;
mod pace;
mod settle;
mod shared;
#[cfg(test)]
mod tests;

use std::time::Duration;

use futures_util::future::{join_all, try_join, try_join_all};
use tokio::time::Instant;

use super::limit::Limiter;
use super::plan::{Planner, Room};
use super::sink::SinkError;
use super::store::Store;
use super::{Address, Connection, Cut, Fault, Slot, Version};
use shared::Shared;

pub use follow::{Followed, follow};
pub use settle::Deferral;

/// A file that changes this often while it is pulled is not worth another try now.
const RESTARTS: u32 = 3;

/// Why a pull ended without its file.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// The source.
    #[error(transparent)]
    Source(#[from] Fault),
    /// The disk.
    #[error(transparent)]
    Sink(#[from] SinkError),
}

/// How far a pull came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every byte is in the part.
    Complete,
    /// The slot is over, or what is left of it is not worth a request.
    SlotOver,
    /// The file was written just now, so nothing can tell its versions apart: it is to be pulled again after this time. In
    /// limited slots only; meanwhile the slot is free for other files.
    Unsettled(Duration),
}

/// What happens during a pull, for people to see.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A range begins; the whole file is so long, as far as known, and so much of it is there.
    Opened {
        /// The file's size.
        size: Option<u64>,
        /// What was there before.
        have: u64,
    },
    /// So many bytes came.
    Bytes(u64),
    /// What was there is dropped, and the file starts anew.
    Restarted(Restart),
    /// A range was cut off at the slot's end.
    WasCut(Cut),
    /// The source refused one of several connections, in these words, and serves another one.
    Surplus(String),
}

/// Why a file starts anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// It has changed at the source.
    Changed,
    /// The source does not support resuming.
    NoResume,
    /// It was changed less than a minute before its first bytes came, so its date cannot tell versions apart.
    Fresh,
    /// It was written within the last two seconds, and is pulled when its date can show another write.
    JustWritten,
}

/// Whoever wants to see what happens.
pub trait Watch: Send + Sync {
    /// Something happened.
    fn on(&self, event: Event);
}

/// Nobody.
impl Watch for () {
    fn on(&self, _: Event) {}
}

/// What a pull needs besides connections and store.
#[derive(Clone, Copy)]
pub struct Pull<'a> {
    /// Which file.
    pub address: &'a Address,
    /// Until when.
    pub slot: &'a Slot,
    /// How fast: each of these must agree.
    pub limiters: &'a [Limiter],
    /// How many pulls, this one included, share limits and budget.
    pub abreast: usize,
    /// Slower than this for too long is a fault; 0 for never.
    pub min_speed: u64,
    /// Who watches.
    pub watch: &'a dyn Watch,
}

impl Pull<'_> {
    /// What budget and limits leave for the next range.
    fn room(&self, planner: &Planner, connections: usize) -> Room {
        let sharers = (self.abreast.max(1) * connections.max(1)) as u64;
        let limit = self.slot.left().and_then(|left| {
            let time = planner.usable(left);
            self.limiters.iter().filter_map(|limiter| limiter.within(time)).min()
        });
        let share = |bytes: u64| bytes.div_ceil(sharers);
        Room { budget: self.slot.budget_left().map(share), limit: limit.map(share) }
    }

    /// Waits until so many bytes may be read; gives how long that was.
    async fn limit(&self, bytes: usize) -> Duration {
        let begun = Instant::now();
        for limiter in self.limiters {
            tokio::select! {
                biased;
                () = limiter.take(bytes) => {}
                () = self.slot.over() => break,
            }
        }
        begun.elapsed()
    }
}

/// Pulls what is missing of a file, over all these connections, until it is complete or the slot is over. `deferral` is
/// kept from pull to pull of one file.
pub async fn pull<C: Connection, S: Store>(
    connections: &mut [C],
    store: &mut S,
    planner: &mut Planner,
    deferral: &mut Deferral,
    with: Pull<'_>,
) -> Result<Outcome, PullError> {
    let mut restarts = std::mem::take(&mut deferral.restarts);
    if cannot_be_proved(store, with.slot) {
        store.restart().await?;
        with.watch.on(Event::Restarted(Restart::Fresh));
    }
    loop {
        match attempt(connections, store, planner, deferral, with).await {
            Err(PullError::Source(Fault::Changed)) if restarts < RESTARTS => {
                restarts += 1;
                deferral.begin_anew();
                store.restart().await?;
                with.watch.on(Event::Restarted(Restart::Changed));
            }
            Ok(Outcome::Complete) => return Ok(Outcome::Complete),
            // Whatever happened: nothing more may come, and what is here is worth keeping.
            other => {
                if matches!(other, Ok(Outcome::Unsettled(_))) {
                    deferral.restarts = restarts;
                }
                join_all(connections.iter_mut().map(Connection::cut)).await;
                store.checkpoint();
                return other;
            }
        }
    }
}

/// Whether nothing can tell that what comes is of the version of what is there: its date was fresh when its first bytes
/// came (see [`Version`]). Only all bytes would prove it, so it starts anew, which costs what came within a
/// minute of the last change. Slots follow each other too quickly for that: within one run and its slots, a date that is
/// settled is enough.
fn cannot_be_proved<S: Store>(store: &S, slot: &Slot) -> bool {
    let is_fresh = store.version().is_some_and(Version::is_fresh) && !store.have().is_empty();
    is_fresh && store.can_restart() && (store.is_inherited() || !slot.is_limited())
}

async fn attempt<C: Connection, S: Store>(
    connections: &mut [C],
    store: &mut S,
    planner: &mut Planner,
    deferral: &mut Deferral,
    with: Pull<'_>,
) -> Result<Outcome, PullError> {
    let Some((first, others)) = connections.split_first_mut() else {
        return Err(Fault::Unsupported("a pull without a connection".into()).into());
    };
    let connections = 1 + others.len();
    let mut shared = Shared::new(store, planner, deferral, with);
    if others.is_empty() || !shared.agree_on_version(first).await? {
        return shared.work(first).await;
    }
    shared.connections = connections;
    let others = try_join_all(others.iter_mut().map(|connection| shared.work_if_allowed(connection)));
    let (outcome, others) = try_join(shared.work(first), others).await?;
    if others.contains(&None) {
        // Ranges that a refused connection had claimed are left.
        return shared.work(first).await;
    }
    let outcomes = others.into_iter().flatten().chain([outcome]);
    let is_incomplete = |outcome: &Outcome| *outcome != Outcome::Complete;
    Ok(outcomes
        .filter(is_incomplete)
        .min_by_key(|outcome| *outcome != Outcome::SlotOver)
        .unwrap_or(Outcome::Complete))
}
