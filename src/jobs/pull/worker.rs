//! A worker: one task at a time, over its own connections. Used by the puller alone.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt as _};

use crate::fetch::engine::{self, Outcome, Pull, PullError};
use crate::fetch::plan::{self, Planner};
use crate::fetch::{Address, Connection as _, Fault, Refusal, Slot};
use crate::jobs::backoff::Backoff;

use super::file::{Done, FileWatch, OnItsWay, Place, Prepared, algorithms, begin_next, finish, prepare};
use super::following::LastGrowing;
use super::report::{Event, Fate};
use super::sources::Sources;
use super::sums::SumsBeside;
use super::{Common, Config, End, Feed, Follow, Next, Task};

/// Files that wait for the disk while the next ones are pulled.
const PENDING: usize = 256;

/// A listing that was cut off by so many slots does not fit into one.
const LISTING_TRIES: u32 = 5;

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
}

impl TurnEnd {
    /// The end of one worker's turn that counts for all is the one with the highest weight.
    pub(super) fn weight(&self) -> (u8, Duration) {
        match self {
            Self::Drained => (0, Duration::ZERO),
            Self::Idle => (1, Duration::ZERO),
            Self::SlotOver => (2, Duration::ZERO),
            Self::Pause { wait, .. } => (3, *wait),
        }
    }
}

/// What a worker is at.
enum Current {
    File(OnItsWay),
    Folder { id: usize, address: Address, tries: u32 },
    Growing { id: usize, follow: Follow },
}

/// How far a task came in this turn.
pub(super) enum Step {
    Done,
    /// The task has ended, and the slot with it.
    DoneForNow,
    SlotOver,
}

/// Does one task at a time.
pub(super) struct Worker {
    pub(super) sources: Sources,
    current: Option<Current>,
    /// The file after it: small files would wait for their parts to be opened more than for the source.
    after: Option<OnItsWay>,
    pub(super) planner: Planner,
    pub(super) backoff: Backoff,
    /// The growing file that was last at work on: most often it is the next one, too.
    pub(super) growing: Option<LastGrowing>,
    /// Files that are whole, on their way to the disk and to their names.
    pending: FuturesUnordered<Done>,
    sums: SumsBeside,
    /// Something came from a source.
    pub(super) was_answered: bool,
    /// A source that was never heard of is waited for as well.
    waits_at_first: bool,
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
            sums: SumsBeside::default(),
            was_answered: false,
            waits_at_first: config.patience.at_first,
        }
    }

    /// Does task after task until the slot is over or nothing is left.
    pub(super) async fn turn<F: Feed>(
        &mut self,
        common: &Common<'_, F>,
        slot: &Slot,
        return_time: Option<Duration>,
    ) -> TurnEnd {
        common.slot_limiter().set_rate(slot.rate_bytes_per_sec());
        if let Some(length) = slot.left() {
            self.planner.slot_began(length, return_time);
            self.plan_stream(common, return_time);
        }
        common.at_work();
        let end = self.work(common, slot).await;
        common.at_rest();
        end
    }

    /// A stream needs of a slot what came since the last one and what will come until the next.
    fn plan_stream<F: Feed>(&mut self, common: &Common<'_, F>, return_time: Option<Duration>) {
        let rate = common.work().feed.stream_rate();
        if let (Some(rate), Some(interval)) = (rate, return_time) {
            self.planner.need(rate, interval, interval);
        }
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
            if slot.is_over() {
                return TurnEnd::SlotOver;
            }
            match self.do_current(common, slot).await {
                Ok(Step::Done) => self.current = None,
                Ok(Step::DoneForNow) => {
                    self.current = None;
                    return TurnEnd::SlotOver;
                }
                Ok(Step::SlotOver) => return TurnEnd::SlotOver,
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
            None => next_from(common, slot).await?,
        };
        if let Current::File(file) = &current {
            common.watch.on(Event::Began { index: file.index, address: &file.want.address });
        }
        Ok(current)
    }

    /// What is to be done about an error: wait and try again, or give the file up and go on with the next.
    fn on_error<F: Feed>(&mut self, common: &Common<'_, F>, error: PullError) -> Option<TurnEnd> {
        if let PullError::Source(fault) = error {
            return match self.backoff.after(&fault).filter(|_| self.is_worth_waiting(&fault)) {
                Some(wait) => Some(TurnEnd::Pause { wait, fault }),
                None => self.give_up(common, fault.into()),
            };
        }
        self.give_up(common, error)
    }

    /// A source that will not even connect may have too much to do, if it did before; otherwise nobody is there at all.
    fn is_worth_waiting(&self, fault: &Fault) -> bool {
        let nobody_listens = matches!(fault, Fault::Refused(Refusal { code: None, .. }));
        self.was_answered || self.waits_at_first || !nobody_listens
    }

    fn give_up<F: Feed>(&mut self, common: &Common<'_, F>, error: PullError) -> Option<TurnEnd> {
        match (self.current.take(), error) {
            (Some(Current::File(file)), error) => common.pulled(file.index, Fate::Failed(error)),
            (Some(Current::Folder { id, .. }), PullError::Source(fault)) => {
                common.end(id, End::Listed(Err(fault)));
            }
            (Some(Current::Growing { id, .. }), error) => common.end(id, End::Followed(Err(error))),
            // A listing touches no disk.
            (Some(Current::Folder { .. }), PullError::Sink(_)) | (None, _) => {}
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
                self.current = Some(Current::Folder { id, address, tries: tries + 1 });
                step
            }
            Some(Current::Growing { id, follow }) => {
                let step = self.follow(common, slot, id, &follow).await;
                self.current = Some(Current::Growing { id, follow });
                step
            }
        }
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
            listing = source.list(address) => listing?,
        };
        self.was_answered = true;
        self.backoff.progressed();
        common.totals().listings += 1;
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
        let sources = self.sources.of(&file.want.address)?;
        let with = Pull {
            address: &file.want.address,
            slot,
            limiters: &common.limiters,
            min_speed: common.config.min_speed,
            watch: &watch,
        };
        let before = common.totals().bytes;
        let outcome = match place {
            Place::Part(part) => engine::pull(sources, &mut **part, &mut self.planner, with).await,
            Place::Stream(stream) => {
                // A stream takes bytes in order only, so one connection must do.
                let one = sources.get_mut(..1).unwrap_or_default();
                engine::pull(one, &mut **stream, &mut self.planner, with).await
            }
        };
        // Bytes that were dropped again are no progress: a file may change for ever.
        let is_dropped = matches!(outcome, Err(PullError::Source(Fault::Changed)));
        let has_come = common.totals().bytes > before;
        self.was_answered |= has_come;
        if has_come && !is_dropped {
            self.backoff.progressed();
        }
        if outcome? == Outcome::SlotOver {
            return Ok(Step::SlotOver);
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
        let Self { sources, sums, .. } = self;
        let source = sources.first(&file.want.address)?;
        tokio::select! {
            biased;
            () = slot.over() => Ok(Prepared::SlotOver),
            prepared = prepare(common, source, sums, file) => prepared,
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
        if let Some(mut opening) = self.after.take().and_then(|after| after.opening) {
            // It was never begun, so nothing of it should be left.
            if let Ok(part) = opening.opened().await
                && part.have().is_empty()
            {
                let _ = part.discard().await;
            }
        }
        if let Some(Current::File(file)) = self.current.take() {
            common.pulled(file.index, Fate::Interrupted);
        }
    }

    /// Opens the connections that the next turn will begin with.
    pub(super) async fn warm<F: Feed>(&mut self, common: &Common<'_, F>) {
        let current = match (&self.current, &self.after) {
            (Some(Current::File(file)), _) | (None, Some(file)) => Some(file.want.address.clone()),
            (Some(Current::Folder { address, .. }), _) => Some(address.clone()),
            (Some(Current::Growing { follow, .. }), _) => Some(follow.address.clone()),
            (None, None) => None,
        };
        let Some(address) = current.or_else(|| common.next_address()) else { return };
        if let Ok(sources) = self.sources.of(&address) {
            join_all(sources.iter_mut().map(|source| source.warm(&address))).await;
        }
    }

    /// What a slot is to bring, as last planned.
    pub(super) fn chunk(&self) -> Option<u64> {
        self.planner.chunk()
    }

    /// Closes all connections.
    pub(super) async fn close(&mut self) {
        self.sources.close().await;
    }
}

impl Current {
    fn new(id: usize, task: Task) -> Self {
        match task {
            Task::Pull(want) => Self::File(OnItsWay::new(id, want)),
            Task::List(address) => Self::Folder { id, address, tries: 0 },
            Task::Follow(follow) => Self::Growing { id, follow },
        }
    }
}

/// Asks the feed for the next thing to do. As long as others are at work there may be something in a moment.
async fn next_from<F: Feed>(common: &Common<'_, F>, slot: &Slot) -> Result<Current, TurnEnd> {
    loop {
        let mut news = pin!(common.news.notified());
        // From here on no news is missed.
        news.as_mut().enable();
        let at = common.moment();
        let next = common.work().next(at);
        let until = match next {
            Next::Task(id, task) => return Ok(Current::new(id, task)),
            Next::Done => return Err(TurnEnd::Drained),
            Next::Again if slot.is_over() => return Err(TurnEnd::SlotOver),
            Next::Again => {
                tokio::task::yield_now().await;
                continue;
            }
            Next::Wait(until) => until,
        };
        let are_others_at_work = common.at_rest();
        if are_others_at_work {
            let nap = until.map_or(Duration::MAX, |until| until.since(at.now));
            tokio::select! {
                () = news => {}
                () = slot.over() => {}
                () = tokio::time::sleep(nap) => {}
            }
        }
        common.at_work();
        if !are_others_at_work || slot.is_over() {
            return Err(TurnEnd::Idle);
        }
    }
}

fn planner(config: &Config) -> Planner {
    let usual = plan::Config::default();
    Planner::new(plan::Config { largest_bytes: config.chunk.unwrap_or(usual.largest_bytes), ..usual })
}
