//! The engine: pulls one file into its part, while the slot lasts.
//!
//! It knows nothing of tokens, retries or names. What it guarantees: no byte is read after the slot is over; bytes of two
//! versions never meet in one part; every range is asked for so that it ends before the slot does.
//!
//! ```text
//!   missing range ──> how much fits? ──> open ──> same version? ──> read, write, read, write … ──> next range
//!                      (plan)                        │ no: the part starts anew
//! ```

use std::ops::Range;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use futures_util::future::try_join_all;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;

use super::limit::Limiter;
use super::plan::{Change, Planner};
use super::sink::SinkError;
use super::store::Store;
use super::{Address, Ask, Connection, Cut, Fault, Opened, Sameness, Slot};

/// A file that changes this often while it is pulled is not worth another try now.
const RESTARTS: u32 = 3;

/// How much of the end is compared where the source's word is not enough.
const TAIL: usize = 64 << 10;

/// With several connections to one file, each takes so much at a time: small enough to share, large enough to be worth a
/// request.
const SEGMENT: u64 = 16 << 20;

/// The first time after which what was pulled is made durable; then it doubles up to the longest. A pull that is killed early
/// has lost little, and one that runs for long is not slowed down.
const CHECKPOINT_FIRST: Duration = Duration::from_millis(250);
const CHECKPOINT_LONGEST: Duration = Duration::from_secs(5);

/// Over how long the speed has to be too low: curl takes as long.
const SLOW_FOR: Duration = Duration::from_secs(30);

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
    /// The file has changed at the source, or the source cannot continue it: what was there is dropped.
    Restarted,
    /// The size of the ranges changes.
    Chunk(Change),
    /// A range was cut off at the slot's end.
    WasCut(Cut),
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
    /// Slower than this for too long is a fault; 0 for never.
    pub min_speed: u64,
    /// Who watches.
    pub watch: &'a dyn Watch,
}

/// Pulls what is missing of a file, over all these connections, until it is complete or the slot is over.
pub async fn pull<C: Connection, S: Store>(
    connections: &mut [C],
    store: &mut S,
    planner: &mut Planner,
    with: Pull<'_>,
) -> Result<Outcome, PullError> {
    let mut restarts = 0;
    loop {
        match attempt(connections, store, planner, with).await {
            Err(PullError::Source(Fault::Changed)) if restarts < RESTARTS => {
                restarts += 1;
                store.restart().await?;
                with.watch.on(Event::Restarted);
            }
            Ok(Outcome::Complete) => return Ok(Outcome::Complete),
            // Whatever happened: what is here is worth keeping.
            other => {
                store.checkpoint();
                return other;
            }
        }
    }
}

async fn attempt<C: Connection, S: Store>(
    connections: &mut [C],
    store: &mut S,
    planner: &mut Planner,
    with: Pull<'_>,
) -> Result<Outcome, PullError> {
    let Some((first, others)) = connections.split_first_mut() else {
        return Err(Fault::Unsupported("a pull without a connection".into()).into());
    };
    let mut shared = Shared::new(store, planner, with);
    if others.is_empty() || !shared.agree_on_version(first).await? {
        return shared.work(first).await;
    }
    shared.is_alone = false;
    let workers = std::iter::once(first).chain(others).map(|connection| shared.work(connection));
    let outcomes = try_join_all(workers).await?;
    let all = outcomes.iter().all(|outcome| *outcome == Outcome::Complete);
    Ok(if all { Outcome::Complete } else { Outcome::SlotOver })
}

/// What the connections to one file share.
struct Shared<'a, S> {
    store: AsyncMutex<&'a mut S>,
    books: Mutex<Books<'a>>,
    with: Pull<'a>,
    is_alone: bool,
}

struct Books<'a> {
    planner: &'a mut Planner,
    /// Ranges that some connection is at.
    claimed: Vec<Range<u64>>,
    /// How many ranges were opened.
    opened: u32,
    /// The store knows which version it gets.
    is_begun: bool,
    /// The end of a file of unknown length was seen.
    is_ended: bool,
    checkpoint_at: Instant,
    checkpoint_after: Duration,
}

/// What to do next.
enum Next {
    Range { from: u64, length: Option<u64> },
    Complete,
    SlotOver,
}

/// How a range ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    Whole,
    Cut,
}

impl<'a, S: Store> Shared<'a, S> {
    fn new(store: &'a mut S, planner: &'a mut Planner, with: Pull<'a>) -> Self {
        let books = Books {
            planner,
            claimed: Vec::new(),
            opened: 0,
            is_begun: false,
            is_ended: false,
            checkpoint_at: Instant::now() + CHECKPOINT_FIRST,
            checkpoint_after: CHECKPOINT_FIRST,
        };
        Self { store: AsyncMutex::new(store), books: Mutex::new(books), with, is_alone: true }
    }

    fn books(&self) -> MutexGuard<'_, Books<'a>> {
        self.books.lock().expect("nobody panics with the books in hand")
    }

    /// Several connections need to know beforehand which version they pull, and that it can be pulled in pieces.
    async fn agree_on_version<C: Connection>(&self, connection: &mut C) -> Result<bool, PullError> {
        let probed = tokio::select! {
            biased;
            () = self.with.slot.over() => return Ok(false),
            probed = connection.probe(self.with.address) => probed?,
        };
        let mut store = self.store.lock().await;
        let sameness = store.version().map(|had| had.compare(&probed.version));
        if !probed.ranges || probed.version.size.is_none() || sameness == Some(Sameness::Unknown) {
            return Ok(false);
        }
        store.begin(probed.version).await?;
        self.books().is_begun = true;
        Ok(true)
    }

    /// One connection's work: range after range.
    async fn work<C: Connection>(&self, connection: &mut C) -> Result<Outcome, PullError> {
        loop {
            match self.next().await {
                Next::Complete => return self.check_at_the_end(connection).await,
                Next::SlotOver => return Ok(Outcome::SlotOver),
                Next::Range { from, length } => {
                    let ended = self.range(connection, from, length).await?;
                    self.books().claimed.retain(|claimed| claimed.start != from);
                    if ended == Ended::Cut {
                        return Ok(Outcome::SlotOver);
                    }
                }
            }
        }
    }

    async fn next(&self) -> Next {
        let store = self.store.lock().await;
        let mut books = self.books();
        let total = store.version().and_then(|version| version.size);
        let mut taken = store.have().clone();
        for claimed in &books.claimed {
            taken.insert(claimed.clone());
        }
        let gap = match total {
            Some(total) => taken.missing(total).next().map(|gap| (gap.start, Some(gap.end - gap.start))),
            None if books.is_ended => None,
            None => Some((taken.end(), None)),
        };
        let Some((from, left)) = gap else {
            // An empty file has to be asked for, too: only then is it known.
            let is_asked_for = books.is_begun || !store.have().is_empty();
            return if is_asked_for { Next::Complete } else { Next::Range { from: 0, length: None } };
        };
        if self.with.slot.is_over() {
            return Next::SlotOver;
        }
        let wanted = if self.is_alone { left } else { left.map(|left| left.min(SEGMENT)) };
        let planned = books.planner.next(self.with.slot.left(), wanted);
        while let Some(change) = books.planner.poll_change() {
            self.with.watch.on(Event::Chunk(change));
        }
        let Some(planned) = planned else { return Next::SlotOver };
        // All the rest is asked for without a number: it may be more by now, which is then noticed.
        let length = match wanted {
            Some(wanted) if planned >= wanted && Some(from + wanted) == total => None,
            Some(wanted) => Some(planned.min(wanted)),
            None => (planned < u64::MAX).then_some(planned),
        };
        let end = length.map(|length| from + length).or(total).unwrap_or(u64::MAX);
        books.claimed.push(from..end);
        Next::Range { from, length }
    }

    async fn range<C: Connection>(
        &self,
        connection: &mut C,
        from: u64,
        length: Option<u64>,
    ) -> Result<Ended, PullError> {
        let begun = Instant::now();
        let Some(opened) = self.open(connection, from, length).await? else { return Ok(Ended::Cut) };
        let waited = begun.elapsed();
        let (at, first) = match self.accept(&opened, from).await? {
            Accepted::At(at) => (at, Bytes::new()),
            // The source's word is not enough: some bytes must say that it is the same file.
            Accepted::Doubtful => match self.compare_tail(connection, from, length).await? {
                Some(first) => (from, first),
                None => return Ok(Ended::Cut),
            },
        };
        let (ended, bytes) = self.body(connection, at, first).await?;
        let mut books = self.books();
        books.planner.measured(bytes, waited, begun.elapsed());
        if ended == Ended::Whole && opened.version.size.is_none() && length.is_none_or(|asked| bytes < asked)
        {
            books.is_ended = true;
        }
        Ok(ended)
    }

    /// Asks for a range; `None` if the slot is over first.
    async fn open<C: Connection>(
        &self,
        connection: &mut C,
        from: u64,
        length: Option<u64>,
    ) -> Result<Option<Opened>, PullError> {
        let known = self.store.lock().await.version().cloned();
        let ask = Ask { address: self.with.address, from, length, known: known.as_ref() };
        let opened = tokio::select! {
            biased;
            () = self.with.slot.over() => return Ok(None),
            opened = connection.open(ask) => opened?,
        };
        self.books().opened += 1;
        Ok(Some(opened))
    }

    /// Whether the bytes that come may go into the store, and where.
    async fn accept(&self, opened: &Opened, asked: u64) -> Result<Accepted, PullError> {
        let mut store = self.store.lock().await;
        let have = store.have().bytes();
        let sameness = store.version().filter(|_| have > 0).map(|had| had.compare(&opened.version));
        if sameness == Some(Sameness::Changed) {
            return Err(Fault::Changed.into());
        }
        self.with.watch.on(Event::Opened { size: opened.version.size, have });
        if opened.from != asked {
            // Asked for the middle, got the beginning: the source cannot continue a file.
            if self.with.slot.left().is_some() || !self.is_alone {
                let why = "it cannot continue a file, and this one does not fit into one slot";
                return Err(Fault::Unsupported(why.into()).into());
            }
            store.restart().await?;
            self.with.watch.on(Event::Restarted);
        } else if sameness == Some(Sameness::Unknown) && !self.books().is_begun {
            return Ok(Accepted::Doubtful);
        }
        if !self.books().is_begun || opened.from != asked {
            store.begin(opened.version.clone()).await?;
            self.books().is_begun = true;
        }
        Ok(Accepted::At(opened.from))
    }

    /// Asks again, a little earlier, and compares what is there with what comes. Gives what came behind it; `None` if the
    /// slot is over before.
    async fn compare_tail<C: Connection>(
        &self,
        connection: &mut C,
        from: u64,
        length: Option<u64>,
    ) -> Result<Option<Bytes>, PullError> {
        let mut tail = self.store.lock().await.tail(TAIL).await?;
        let back = tail.len() as u64;
        connection.cut().await;
        let longer = length.map(|length| length + back);
        let Some(opened) = self.open(connection, from - back, longer).await? else { return Ok(None) };
        if opened.from != from - back {
            return Err(Fault::Changed.into());
        }
        let mut rest = Bytes::new();
        while !tail.is_empty() {
            let Some(piece) = self.read(connection).await? else { return Ok(None) };
            let Some(mut piece) = piece else { return Err(Fault::Changed.into()) };
            let both = piece.len().min(tail.len());
            if piece.slice(..both) != tail.slice(..both) {
                return Err(Fault::Changed.into());
            }
            tail.advance(both);
            piece.advance(both);
            rest = piece;
        }
        self.store.lock().await.begin_compared(opened.version).await?;
        self.books().is_begun = true;
        Ok(Some(rest))
    }

    /// Reads until the range or the slot ends. Gives how it ended, and how many bytes came.
    async fn body<C: Connection>(
        &self,
        connection: &mut C,
        start: u64,
        first: Bytes,
    ) -> Result<(Ended, u64), PullError> {
        let mut at = start;
        let mut pace = Pace::new(self.with.min_speed);
        let mut next = Some(Some(first));
        loop {
            let Some(piece) = next else { return Ok((self.cut(connection).await, at - start)) };
            let Some(piece) = piece else { return Ok((Ended::Whole, at - start)) };
            let len = piece.len();
            if !self.store(at, piece).await? {
                return Ok((self.cut(connection).await, at - start));
            }
            at += len as u64;
            self.limit(len).await;
            let asked = Instant::now();
            next = self.read(connection).await?;
            pace.note(len as u64, asked.elapsed())?;
        }
    }

    async fn cut<C: Connection>(&self, connection: &mut C) -> Ended {
        let cut = connection.cut().await;
        self.with.watch.on(Event::WasCut(cut));
        Ended::Cut
    }

    /// The next piece; the outer `None` if the slot is over, the inner one if the range is.
    async fn read<C: Connection>(&self, connection: &mut C) -> Result<Option<Option<Bytes>>, PullError> {
        if self.with.slot.is_over() {
            return Ok(None);
        }
        tokio::select! {
            biased;
            piece = connection.read() => Ok(Some(piece?)),
            () = self.with.slot.over() => Ok(None),
        }
    }

    /// Puts a piece away; not, if the slot is over before there is room for it.
    async fn store(&self, at: u64, piece: Bytes) -> Result<bool, PullError> {
        if piece.is_empty() {
            return Ok(true);
        }
        let len = piece.len() as u64;
        let mut store = self.store.lock().await;
        tokio::select! {
            biased;
            written = store.write(at, piece) => written?,
            () = self.with.slot.over() => return Ok(false),
        }
        self.with.watch.on(Event::Bytes(len));
        if self.is_checkpoint_due() {
            store.checkpoint();
        }
        Ok(true)
    }

    async fn limit(&self, len: usize) {
        for limiter in self.with.limiters {
            tokio::select! {
                biased;
                () = limiter.take(len) => {}
                () = self.with.slot.over() => return,
            }
        }
    }

    fn is_checkpoint_due(&self) -> bool {
        let mut books = self.books();
        if Instant::now() < books.checkpoint_at {
            return false;
        }
        books.checkpoint_after = (books.checkpoint_after * 2).min(CHECKPOINT_LONGEST);
        books.checkpoint_at = Instant::now() + books.checkpoint_after;
        true
    }

    /// A file that came in several pieces, without a strong tag to hold them together, is looked at once more.
    async fn check_at_the_end<C: Connection>(&self, connection: &mut C) -> Result<Outcome, PullError> {
        let version = self.store.lock().await.version().cloned();
        let Some(version) = version.filter(|version| version.etag.is_none()) else {
            return Ok(Outcome::Complete);
        };
        if self.books().opened == 1 {
            return Ok(Outcome::Complete);
        }
        let now = tokio::select! {
            biased;
            () = self.with.slot.over() => return Ok(Outcome::SlotOver),
            probed = connection.probe(self.with.address) => probed?.version,
        };
        match version.compare(&now) {
            Sameness::Changed => Err(Fault::Changed.into()),
            Sameness::Same | Sameness::Unknown => Ok(Outcome::Complete),
        }
    }
}

/// What to do with a range that was opened.
enum Accepted {
    At(u64),
    Doubtful,
}

/// Whether bytes come fast enough. Only the time spent waiting for them counts: our own limit is not the source's fault.
struct Pace {
    min_speed: u64,
    bytes: u64,
    waited: Duration,
}

impl Pace {
    fn new(min_speed: u64) -> Self {
        Self { min_speed, bytes: 0, waited: Duration::ZERO }
    }

    fn note(&mut self, bytes: u64, waited: Duration) -> Result<(), Fault> {
        self.bytes += bytes;
        self.waited += waited;
        if self.min_speed == 0 || self.waited < SLOW_FOR {
            return Ok(());
        }
        if (self.bytes as f64) < self.min_speed as f64 * self.waited.as_secs_f64() {
            return Err(Fault::Slow(self.min_speed));
        }
        *self = Self::new(self.min_speed);
        Ok(())
    }
}
