//! A worker: one task at a time, over its own connections. Used by the puller alone.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::time::Instant;
use tracing::{info, warn};

use crate::fetch::engine::{self, Outcome, Pull, PullError};
use crate::fetch::plan::{self, Planner};
use crate::fetch::{Address, Connection as _, Fault, Slot};
use crate::jobs::backoff::Backoff;

use super::current::{Current, next_from};
use super::file::{Done, FileWatch, OnItsWay, Place, Prepared, algorithms, begin_next, finish, prepare};
use super::following::LastGrowing;
use super::report::{Event, Fate};
use super::sources::Sources;
use super::{Common, Config, End, Feed, To};

/// Files that wait for the disk while the next ones are pulled.
const PENDING: usize = 256;

/// A listing that was cut off by so many slots does not fit into one.
const LISTING_TRIES: u32 = 5;

/// Retries for a source that has never answered: after 1 and 2 s, as long as a web server takes to restart.
const TRIES_AT_FIRST: u32 = 2;

/// How a worker's turn ended.
#[derive(Debug)]
pub(super) enum TurnEnd {
    /// There is nothing left to do.
    Drained,
    /// There is nothing to do now.
    Idle,
    /// There is, in another slot.
    SlotOver,
    /// Something went wrong that may pass.
    Pause { wait: Duration, fault: Fault },
    /// The source refuses this worker's connection and serves another one. The others have its tasks.
    Surplus,
}

impl TurnEnd {
    /// The end of one worker's turn that counts for all is the one with the highest weight.
    pub(super) fn weight(&self) -> (u8, Duration) {
        match self {
            Self::Surplus => (0, Duration::ZERO),
            Self::Drained => (1, Duration::ZERO),
            Self::Idle => (2, Duration::ZERO),
            Self::SlotOver => (3, Duration::ZERO),
            Self::Pause { wait, .. } => (4, *wait),
        }
    }
}

/// How far a task came in this turn.
pub(super) enum Step {
    Done,
    /// The task has ended, and the slot with it.
    DoneForNow,
    SlotOver,
    /// The task is to go on after this time, and others meanwhile.
    Later(Duration),
}

/// Does one task at a time.
pub(super) struct Worker {
    pub(super) sources: Sources,
    pub(super) current: Option<Current>,
    /// The file after it: small files would wait for their parts to be opened more than for the source.
    pub(super) after: Option<OnItsWay>,
    pub(super) planner: Planner,
    pub(super) backoff: Backoff,
    /// The growing file that was last at work on: most often it is the next one, too.
    pub(super) growing: Option<LastGrowing>,
    /// Files that are whole, on their way to the disk and to their names.
    pending: FuturesUnordered<Done>,
    /// Something came from a source.
    pub(super) was_answered: bool,
    /// A source that was never heard of is waited for as well.
    waits_at_first: bool,
    /// The source allows fewer connections than there are workers; this one asks again then.
    pub(super) rests_until: Option<Instant>,
    /// The source has answered in this turn.
    pub(super) is_served: bool,
}

impl Worker {
    pub(super) fn new(connections: usize, seed: u64, config: &Config) -> Self {
        Self {
            sources: Sources::new(connections, Arc::clone(&config.options)),
            current: None,
            after: None,
            planner: planner(config),
            backoff: Backoff::new(config.patience, seed),
            growing: None,
            pending: FuturesUnordered::new(),
            was_answered: false,
            waits_at_first: config.patience.at_first,
            rests_until: None,
            is_served: false,
        }
    }

    /// Does task after task until the slot is over or nothing is left.
    pub(super) async fn turn<F: Feed>(&mut self, common: &Common<'_, F>, slot: &Slot) -> TurnEnd {
        common.slot_limiter().set_rate(slot.rate_bytes_per_sec());
        if slot.is_limited() {
            self.planner.slot_began();
        }
        self.is_served = false;
        common.at_work();
        let end = self.work(common, slot).await;
        common.at_rest();
        end
    }

    async fn work<F: Feed>(&mut self, common: &Common<'_, F>, slot: &Slot) -> TurnEnd {
        loop {
            // First this: who has nothing left does not wait for another slot to find it out.
            if self.current.is_none() {
                match self.next_task(common, slot).await {
                    Ok(current) => self.current = Some(current),
                    Err(end) => return end,
                }
            }
            if slot.is_spent() {
                return TurnEnd::SlotOver;
            }
            match self.do_current(common, slot).await {
                Ok(Step::Done) => self.current = None,
                Ok(Step::DoneForNow) => {
                    self.current = None;
                    return TurnEnd::SlotOver;
                }
                Ok(Step::SlotOver) => return TurnEnd::SlotOver,
                Ok(Step::Later(wait)) => self.set_aside(common, slot, wait).await,
                Err(error) => {
                    if let Some(pause) = self.on_error(common, error) {
                        return pause;
                    }
                }
            }
            self.collect(common, PENDING).await;
        }
    }

    /// The next thing to do. As long as others are at work there may be something in a moment.
    async fn next_task<F: Feed>(&mut self, common: &Common<'_, F>, slot: &Slot) -> Result<Current, TurnEnd> {
        let current = match self.after.take() {
            Some(file) => Current::File(file),
            None => self.wait_for_task(common, slot).await?,
        };
        if let Current::File(file) = &current {
            info!(url = %file.want.address, "pulling");
            common.watch.on(Event::Began { index: file.index, address: &file.want.address });
        }
        Ok(current)
    }

    /// Waits for a task; complete files get their names meanwhile.
    async fn wait_for_task<F: Feed>(
        &mut self,
        common: &Common<'_, F>,
        slot: &Slot,
    ) -> Result<Current, TurnEnd> {
        let mut task = pin!(next_from(common, slot));
        loop {
            tokio::select! {
                biased;
                next = &mut task => return next,
                Some((index, fate)) = self.pending.next() => common.pulled(index, fate),
            }
        }
    }

    /// Leaves the task for later. Nothing else can go to standard output meanwhile, so a file that goes there is waited for.
    async fn set_aside<F: Feed>(&mut self, common: &Common<'_, F>, slot: &Slot, wait: Duration) {
        if matches!(&self.current, Some(Current::File(file)) if file.want.to == To::Stdout) {
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = slot.over() => {}
            }
        } else if let Some(task) = self.current.take() {
            let until = common.moment().now + wait;
            common.work().set_aside.push((until, task));
        }
    }

    /// What is to be done about an error: wait and try again, or give the file up and go on with the next.
    fn on_error<F: Feed>(&mut self, common: &Common<'_, F>, error: PullError) -> Option<TurnEnd> {
        if let PullError::Source(fault) = error {
            return match self.backoff.after(&fault).filter(|_| self.is_worth_waiting(&fault)) {
                Some(wait) if matches!(fault, Fault::Refused(_)) && common.has_others(self.is_served) => {
                    warn!("{fault}; continuing with fewer connections");
                    self.rest(common, wait);
                    Some(TurnEnd::Surplus)
                }
                Some(wait) => Some(TurnEnd::Pause { wait, fault }),
                None => self.give_up(common, fault.into()),
            };
        }
        self.give_up(common, error)
    }

    /// A source that has never answered gets a few tries, enough for a restart; after that its address is called wrong.
    fn is_worth_waiting(&self, fault: &Fault) -> bool {
        let is_unreachable = matches!(fault, Fault::Connect { .. });
        let has_tries = self.backoff.failures() <= TRIES_AT_FIRST;
        self.was_answered || self.waits_at_first || !is_unreachable || has_tries
    }

    fn give_up<F: Feed>(&mut self, common: &Common<'_, F>, error: PullError) -> Option<TurnEnd> {
        match (self.current.take(), error) {
            (Some(Current::File(file)), error) => common.pulled(file.index, Fate::Failed(error)),
            (Some(Current::Folder { id, .. }), PullError::Source(fault)) => {
                common.end(id, End::Listed(Err(fault)));
            }
            (Some(Current::Question { id, question }), PullError::Source(fault)) => {
                common.end(id, question.failed(fault));
            }
            (Some(Current::Growing { id, .. }), error) => common.end(id, End::Followed(Err(error))),
            // A listing or a question touches no disk.
            (Some(_), PullError::Sink(_)) | (None, _) => {}
        }
        // The next one deserves all our patience.
        self.backoff.progressed();
        None
    }

    async fn do_current<F: Feed>(&mut self, common: &Common<'_, F>, slot: &Slot) -> Result<Step, PullError> {
        match self.current.take() {
            None => Ok(Step::Done),
            Some(Current::File(mut file)) => {
                let step = self.pull(common, slot, &mut file).await;
                self.current = Some(Current::File(file));
                step
            }
            Some(Current::Folder { id, address, tries }) => {
                let step = self.list(common, slot, id, &address, tries).await;
                // Any other failure has its own number of retries.
                let tries = tries + u32::from(matches!(step, Ok(Step::SlotOver)));
                self.current = Some(Current::Folder { id, address, tries });
                step
            }
            Some(Current::Question { id, question }) => {
                let step = self.ask(common, slot, id, &question).await;
                self.current = Some(Current::Question { id, question });
                step
            }
            Some(Current::Growing { id, follow }) => {
                let step = self.follow(common, slot, id, &follow).await;
                self.current = Some(Current::Growing { id, follow });
                step
            }
        }
    }

    /// The source has answered with what was asked for.
    pub(super) fn answered<F: Feed>(&mut self, common: &Common<'_, F>) {
        self.served(common);
        self.backoff.progressed();
    }

    async fn list<F: Feed>(
        &mut self,
        common: &Common<'_, F>,
        slot: &Slot,
        id: usize,
        address: &Address,
        tries: u32,
    ) -> Result<Step, PullError> {
        if tries >= LISTING_TRIES {
            let why = format!("{address}: its listing takes longer than a slot");
            return Err(Fault::Unsupported(why).into());
        }
        let source = self.sources.first(address)?;
        let listing = tokio::select! {
            biased;
            () = slot.over() => return Ok(Step::SlotOver),
            listing = source.list_packed(address) => listing?,
        };
        self.answered(common);
        info!(url = %address, entries = listing.entries.len(), "listed");
        common.totals().listings += 1;
        if common.config.sums {
            common.sums.lock().await.listed(address, &listing);
        }
        common.watch.on(Event::Listed { address, entries: listing.entries.len() });
        common.end(id, End::Listed(Ok(listing)));
        Ok(Step::Done)
    }

    async fn pull<F: Feed>(
        &mut self,
        common: &Common<'_, F>,
        slot: &Slot,
        file: &mut OnItsWay,
    ) -> Result<Step, PullError> {
        if file.place.is_none() && !self.open_begun(common, slot, file).await? {
            match self.prepare(common, slot, file).await? {
                Prepared::Place(place) => file.place = Some(place),
                Prepared::Fate(fate) => {
                    common.pulled(file.index, fate);
                    return Ok(Step::Done);
                }
                Prepared::SlotOver => return Ok(Step::SlotOver),
            }
        }
        let Some(place) = &mut file.place else { return Ok(Step::SlotOver) };
        if self.after.is_none() {
            self.after = begin_next(common);
        }
        let watch = FileWatch { common, index: file.index };
        let address = &file.want.address;
        let sources = if slot.counts_connections() {
            std::slice::from_mut(self.sources.first(address)?)
        } else {
            self.sources.of(address)?
        };
        let with = Pull {
            address,
            slot,
            limiters: &common.limiters,
            min_speed: common.config.min_speed,
            abreast: common.work().busy,
            watch: &watch,
        };
        let before = common.totals().bytes;
        let most = *file.most_bytes.get_or_insert(place.bytes());
        if common.work().feed.waits_until_settled() {
            file.deferral.switch_off();
        }
        let outcome = match place {
            Place::Part(part) => {
                engine::pull(sources, &mut **part, &mut self.planner, &mut file.deferral, with).await
            }
            Place::Stream(stream) => {
                // A stream takes bytes in order only, so one connection must do.
                let one = sources.get_mut(..1).unwrap_or_default();
                engine::pull(one, &mut **stream, &mut self.planner, &mut file.deferral, with).await
            }
        };
        let surplus = common.surplus.swap(0, Ordering::Relaxed);
        if surplus > 0 {
            self.sources.drop_surplus(surplus).await;
        }
        if common.totals().bytes > before {
            self.served(common);
        }
        // Only bytes that are kept are progress: a file may change for ever, and a source without resume may always break.
        let is_dropped = matches!(outcome, Err(PullError::Source(Fault::Changed)));
        if place.bytes() > most && !is_dropped {
            file.most_bytes = Some(place.bytes());
            self.backoff.progressed();
        }
        match outcome? {
            Outcome::Complete => {}
            Outcome::SlotOver => return Ok(Step::SlotOver),
            Outcome::Unsettled(wait) => return Ok(Step::Later(wait)),
        }
        if let Some(place) = file.place.take() {
            self.pending.push(finish(common, file, place));
        }
        Ok(Step::Done)
    }

    /// Finds out what is to be done for a file, before its first byte.
    async fn prepare<F: Feed>(
        &mut self,
        common: &Common<'_, F>,
        slot: &Slot,
        file: &mut OnItsWay,
    ) -> Result<Prepared, PullError> {
        let source = self.sources.first(&file.want.address)?;
        tokio::select! {
            biased;
            () = slot.over() => Ok(Prepared::SlotOver),
            prepared = prepare(common, source, file) => prepared,
        }
    }

    /// Waits for a part whose opening was begun before, if it was.
    async fn open_begun<F: Feed>(
        &mut self,
        common: &Common<'_, F>,
        slot: &Slot,
        file: &mut OnItsWay,
    ) -> Result<bool, PullError> {
        let Some(opening) = &mut file.opening else { return Ok(false) };
        let opened = tokio::select! {
            biased;
            opened = opening.opened() => opened,
            () = slot.over() => return Ok(true),
        };
        file.opening = None;
        let mut part = opened?;
        part.hash_along(&algorithms(common.config, file.want.expected.as_ref()));
        file.place = Some(Place::Part(Box::new(part)));
        Ok(true)
    }

    /// Waits for finished files until no more than `most` are on their way.
    pub(super) async fn collect<F: Feed>(&mut self, common: &Common<'_, F>, most: usize) {
        while self.pending.len() > most {
            if let Some((index, fate)) = self.pending.next().await {
                common.pulled(index, fate);
            }
        }
        // Those that are done already cost nothing to look at.
        while let Some(Some((index, fate))) = futures_util::FutureExt::now_or_never(self.pending.next()) {
            common.pulled(index, fate);
        }
    }

    /// Waits for all finished files, and says goodbye to the sources.
    pub(super) async fn finish<F: Feed>(&mut self, common: &Common<'_, F>) {
        self.collect(common, 0).await;
        self.close().await;
        let after = self.after.take().map(Current::File);
        for task in self.current.take().into_iter().chain(after) {
            task.interrupt(common).await;
        }
        common.disk.idle().await;
    }

    /// Opens the connections that the next turn will begin with.
    pub(super) async fn warm<F: Feed>(&mut self, common: &Common<'_, F>) {
        if self.is_resting() {
            return;
        }
        let Some(address) = self.address().cloned().or_else(|| common.next_address()) else { return };
        if let Ok(sources) = self.sources.of(&address) {
            join_all(sources.iter_mut().map(|source| source.warm(&address))).await;
        }
    }

    /// Where its task is.
    pub(super) fn address(&self) -> Option<&Address> {
        match (&self.current, &self.after) {
            (Some(Current::File(file)), _) | (None, Some(file)) => Some(&file.want.address),
            (Some(Current::Folder { address, .. }), _) => Some(address),
            (Some(Current::Question { question, .. }), _) => Some(question.address()),
            (Some(Current::Growing { follow, .. }), _) => Some(&follow.address),
            (None, None) => None,
        }
    }

    /// What a slot of this length can carry over its connections, as far as that is known.
    pub(super) fn capacity(&self, length: Duration) -> Option<u64> {
        self.planner.capacity(length)
    }

    /// Closes all connections.
    pub(super) async fn close(&mut self) {
        self.sources.close().await;
    }
}

fn planner(config: &Config) -> Planner {
    let usual = plan::Config::default();
    Planner::new(plan::Config { largest_bytes: config.chunk.unwrap_or(usual.largest_bytes), ..usual })
}
