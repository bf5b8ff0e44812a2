//! A worker: one task at a time, over its own connections. Used by the puller alone.

use std::collections::BTreeMap;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt as _};

use tracing::info;

use crate::fetch::engine::{self, Outcome, Pull, PullError};
use crate::fetch::plan::{self, Planner};
use crate::fetch::sink::{Algorithm, Digest, Finish, JournalPlace, Opening, Part, Pipe};
use crate::fetch::source::Source;
use crate::fetch::store::Stream;
use crate::fetch::{Address, Connection as _, Fault, Options, Refusal, Slot};
use crate::jobs::backoff::Backoff;

use super::alike::is_up_to_date;
use super::report::{Event, Fate};
use super::sums::SumsBeside;
use super::{Common, Config, End, Feed, Next, Task, To, Want};

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
}

/// A file on its way.
struct OnItsWay {
    index: usize,
    want: Want,
    /// A new part that is being opened: asked for while the file before was pulled.
    opening: Option<Opening>,
    place: Option<Place>,
}

/// Where its bytes go.
enum Place {
    Part(Box<Part>),
    Stream(Box<Stream>),
}

/// How far a task came in this turn.
enum Step {
    Done,
    SlotOver,
}

type Done = Pin<Box<dyn Future<Output = (usize, Fate)> + Send>>;

/// Does one task at a time.
pub(super) struct Worker {
    sources: Sources,
    current: Option<Current>,
    /// The file after it: small files would wait for their parts to be opened more than for the source.
    after: Option<OnItsWay>,
    planner: Planner,
    backoff: Backoff,
    /// Files that are whole, on their way to the disk and to their names.
    pending: FuturesUnordered<Done>,
    sums: SumsBeside,
    /// Something came from a source.
    was_answered: bool,
    /// A source that was never heard of is waited for as well.
    waits_at_first: bool,
}

impl Worker {
    pub(super) fn new(connections: usize, seed: u64, config: &Config) -> Self {
        Self {
            sources: Sources {
                by_origin: BTreeMap::new(),
                connections,
                options: Arc::clone(&config.options),
            },
            current: None,
            after: None,
            planner: planner(config),
            backoff: Backoff::new(config.patience, seed),
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
            match self.prepare(common, slot, &mut file.want).await? {
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
        want: &mut Want,
    ) -> Result<Prepared, PullError> {
        let Self { sources, sums, .. } = self;
        tokio::select! {
            biased;
            () = slot.over() => Ok(Prepared::SlotOver),
            prepared = prepare(common, sources.first(&want.address)?, sums, want) => prepared,
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
            (None, None) => None,
        };
        let Some(address) = current.or_else(|| common.next_address()) else { return };
        if let Ok(sources) = self.sources.of(&address) {
            join_all(sources.iter_mut().map(|source| source.warm(&address))).await;
        }
    }

    /// Closes all connections.
    pub(super) async fn close(&mut self) {
        join_all(self.sources.by_origin.values_mut().flatten().map(Source::close)).await;
    }
}

impl OnItsWay {
    fn new(index: usize, want: Want) -> Self {
        Self { index, want, opening: None, place: None }
    }
}

impl Current {
    fn new(id: usize, task: Task) -> Self {
        match task {
            Task::Pull(want) => Self::File(OnItsWay::new(id, want)),
            Task::List(address) => Self::Folder { id, address, tries: 0 },
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
        let until = match common.work().next(at) {
            Next::Task(id, task) => return Ok(Current::new(id, task)),
            Next::Done => return Err(TurnEnd::Drained),
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

/// Takes the next file out ahead and begins to open its part, if that is all there is to prepare.
fn begin_next<F: Feed>(common: &Common<'_, F>) -> Option<OnItsWay> {
    let config = common.config;
    if config.dry_run || config.sums || !config.resume {
        return None;
    }
    let (index, want) = common.want_ahead()?;
    let mut next = OnItsWay::new(index, want);
    if let To::File { root, below, name } = &next.want.to
        && let Ok(folder) = common.folder(root, below)
        // What is there may be up to date: the source has to be asked.
        && (!next.want.ask_first || matches!(folder.replica(name), Ok(None)))
    {
        let journal = JournalPlace::for_file(&config.state, &folder.path().join(name.as_str()));
        next.opening = Some(Part::begin_to_open(&common.disk, folder, name.clone(), Some(journal)));
    }
    Some(next)
}

fn planner(config: &Config) -> Planner {
    let usual = plan::Config::default();
    Planner::new(plan::Config { largest_bytes: config.chunk.unwrap_or(usual.largest_bytes), ..usual })
}

async fn prepare<F: Feed>(
    common: &Common<'_, F>,
    source: &mut Source,
    sums: &mut SumsBeside,
    want: &mut Want,
) -> Result<Prepared, PullError> {
    let config = common.config;
    if config.dry_run {
        let size = source.probe(&want.address).await?.version.size;
        return Ok(Prepared::Fate(Fate::Planned { size }));
    }
    if config.sums && want.expected.is_none() {
        want.expected = sums.find(source, &want.address).await?;
    }
    let wanted = algorithms(config, want.expected.as_ref());
    let To::File { root, below, name } = &want.to else {
        let mut stream = Stream::new(Pipe::start("standard output", std::io::stdout()));
        if let Some(algorithm) = wanted.first() {
            stream.hash_along(*algorithm);
        }
        return Ok(Prepared::Place(Place::Stream(Box::new(stream))));
    };
    let folder = common.folder(root, below)?;
    if want.ask_first && is_up_to_date(config.alike, &folder, name, source, want).await? {
        return Ok(Prepared::Fate(Fate::UpToDate));
    }
    let journal = JournalPlace::for_file(&config.state, &folder.path().join(name.as_str()));
    let mut part = Part::open(&common.disk, folder, name.clone(), Some(journal)).await?;
    if !config.resume {
        part.restart().await?;
    }
    part.hash_along(&wanted);
    Ok(Prepared::Place(Place::Part(Box::new(part))))
}

/// Which digests will be wanted at the end.
fn algorithms(config: &Config, expected: Option<&Digest>) -> Vec<Algorithm> {
    let sha256 = config.sha256.then_some(Algorithm::Sha256);
    let mut wanted: Vec<Algorithm> = expected.map(Digest::algorithm).into_iter().chain(sha256).collect();
    wanted.dedup();
    wanted
}

/// What is to be done for a file.
enum Prepared {
    Place(Place),
    Fate(Fate),
    SlotOver,
}

/// Connections by origin, so that none is ever used for another host or another kind of security.
struct Sources {
    by_origin: BTreeMap<(crate::fetch::Scheme, String, u16), Vec<Source>>,
    connections: usize,
    options: Arc<Options>,
}

impl Sources {
    fn of(&mut self, address: &Address) -> Result<&mut [Source], Fault> {
        let origin = (address.scheme(), address.host(), address.port());
        let sources = self.by_origin.entry(origin).or_default();
        while sources.len() < self.connections {
            sources.push(Source::new(address, &self.options)?);
        }
        Ok(sources)
    }

    fn first(&mut self, address: &Address) -> Result<&mut Source, Fault> {
        Ok(self.of(address)?.first_mut().expect("there is at least one connection"))
    }
}

/// Sends a whole file on its way to the disk and to its name.
fn finish<F: Feed>(common: &Common<'_, F>, file: &OnItsWay, place: Place) -> Done {
    let index = file.index;
    let modified_s = match &place {
        Place::Part(part) if common.config.times => part.version().and_then(|version| version.modified_s),
        _ => None,
    };
    let wish =
        Finish { expected: file.want.expected, modified_s, total: None, want_sha256: common.config.sha256 };
    Box::pin(async move {
        let finished = match place {
            Place::Part(part) => match part.finish(wish).await {
                Ok(pending) => pending.await,
                Err(error) => Err(error),
            },
            Place::Stream(stream) => stream.finish(wish).await,
        };
        match finished {
            Ok(finished) => (index, Fate::Pulled { size: finished.size, sha256: finished.sha256 }),
            Err(error) => (index, Fate::Failed(error.into())),
        }
    })
}

/// Passes on what happens to one file.
struct FileWatch<'a, F> {
    common: &'a Common<'a, F>,
    index: usize,
}

impl<F: Feed> engine::Watch for FileWatch<'_, F> {
    fn on(&self, event: engine::Event) {
        let mut totals = self.common.totals();
        match &event {
            engine::Event::Bytes(bytes) => totals.bytes += bytes,
            engine::Event::WasCut(_) => totals.cuts += 1,
            engine::Event::Chunk(change) => info!("{change}"),
            engine::Event::Opened { .. } | engine::Event::Restarted => {}
        }
        drop(totals);
        self.common.watch.on(Event::File { index: self.index, event: &event });
    }
}
