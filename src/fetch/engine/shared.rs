//! What the connections to one file share, and the work of each: range after range. The engine makes one per attempt.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;

use super::pace::Pace;
use super::{Event, Outcome, Pull, PullError};
use crate::fetch::plan::Planner;
use crate::fetch::store::Store;
use crate::fetch::{Ask, Connection, Fault, Opened, Sameness, Version};

/// How much of the end is compared where the source's word is not enough.
const TAIL: usize = 64 << 10;

/// With several connections to one file, each takes so much at a time: small enough to share, large enough to be worth a
/// request.
const SEGMENT: u64 = 16 << 20;

/// The first time after which what was pulled is made durable; then it doubles up to the longest. A pull that is killed early
/// has lost little, and one that runs for long is not slowed down.
const CHECKPOINT_FIRST: Duration = Duration::from_millis(250);
const CHECKPOINT_LONGEST: Duration = Duration::from_secs(5);

/// What the connections to one file share.
pub(super) struct Shared<'a, S> {
    store: AsyncMutex<&'a mut S>,
    books: Mutex<Books<'a>>,
    with: Pull<'a>,
    /// Only one connection pulls.
    pub(super) is_alone: bool,
}

struct Books<'a> {
    planner: &'a mut Planner,
    /// Ranges that some connection is at.
    claimed: Vec<Range<u64>>,
    /// How many ranges were opened.
    opened: u32,
    /// There were bytes before the first of them.
    is_resumed: bool,
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
    pub(super) fn new(store: &'a mut S, planner: &'a mut Planner, with: Pull<'a>) -> Self {
        let books = Books {
            planner,
            claimed: Vec::new(),
            opened: 0,
            is_resumed: !store.have().is_empty(),
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
    pub(super) async fn agree_on_version<C: Connection>(
        &self,
        connection: &mut C,
    ) -> Result<bool, PullError> {
        let probed = tokio::select! {
            biased;
            () = self.with.slot.over() => return Ok(false),
            probed = connection.probe(self.with.address) => probed?,
        };
        let mut store = self.store.lock().await;
        let had = store.version().unwrap_or(&probed.version);
        let is_doubtful = had.compare(&probed.version) == Sameness::Unknown;
        if !probed.ranges || probed.version.size.is_none() || is_doubtful {
            return Ok(false);
        }
        store.begin(probed.version).await?;
        self.books().is_begun = true;
        Ok(true)
    }

    /// One connection's work: range after range.
    pub(super) async fn work<C: Connection>(&self, connection: &mut C) -> Result<Outcome, PullError> {
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

    /// Pulls one range into the store.
    async fn range<C: Connection>(
        &self,
        connection: &mut C,
        from: u64,
        mut length: Option<u64>,
    ) -> Result<Ended, PullError> {
        let begun = Instant::now();
        let mut is_doubtful = self.is_doubtful().await;
        loop {
            let tail = if is_doubtful { self.tail_before(from).await? } else { Bytes::new() };
            let back = tail.len() as u64;
            let longer = length.map(|length| length.saturating_add(back));
            let Some(opened) = self.open(connection, from - back, longer).await? else {
                return Ok(Ended::Cut);
            };
            let waited = begun.elapsed();
            if self.is_alone && is_only_the_start(&opened, length) {
                // It cannot continue a file, so nothing but all of it is of any use.
                length = None;
                continue;
            }
            let (at, first) = match self.accept(&opened, from - back, !tail.is_empty()).await? {
                Accepted::At(at) => (at, Bytes::new()),
                Accepted::Compare => match self.compare(connection, tail, opened.version.clone()).await? {
                    Some(first) => (from, first),
                    None => return Ok(self.cut(connection).await),
                },
                Accepted::Doubtful => {
                    is_doubtful = true;
                    continue;
                }
            };
            let (ended, bytes) = self.body(connection, at, first).await?;
            let mut books = self.books();
            books.planner.measured(bytes, waited, begun.elapsed());
            let is_short = length.is_none_or(|asked| bytes < asked);
            books.is_ended |= ended == Ended::Whole && opened.version.size.is_none() && is_short;
            return Ok(ended);
        }
    }

    /// Whether the source's word will not do to say that more bytes are of the version of those that are there.
    async fn is_doubtful(&self) -> bool {
        let store = self.store.lock().await;
        !store.have().is_empty() && store.version().is_none_or(is_weak)
    }

    /// What is there before this byte, to be compared. If other bytes are there as well nobody could vouch for them.
    async fn tail_before(&self, from: u64) -> Result<Bytes, PullError> {
        let store = self.store.lock().await;
        if store.have().end() != from || store.have().pieces() != 1 {
            return Err(Fault::Changed.into());
        }
        Ok(store.tail(TAIL).await?)
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
    async fn accept(&self, opened: &Opened, asked: u64, is_tail: bool) -> Result<Accepted, PullError> {
        let mut store = self.store.lock().await;
        let have = store.have().bytes();
        let is_begun = self.books().is_begun;
        let known = store.version().filter(|_| have > 0 || is_begun);
        let sameness = known.map(|had| had.compare(&opened.version));
        if sameness == Some(Sameness::Changed) {
            return Err(Fault::Changed.into());
        }
        self.with.watch.on(Event::Opened { size: opened.version.size, have });
        let is_elsewhere = opened.from != asked;
        if is_elsewhere {
            // Asked for the middle, got the beginning: the source cannot continue a file.
            if self.with.slot.is_limited() || !self.is_alone {
                let why = "it cannot continue a file, and this one does not fit into one slot";
                return Err(Fault::Unsupported(why.into()).into());
            }
            store.restart().await?;
            self.with.watch.on(Event::Restarted);
        } else if is_tail {
            return Ok(Accepted::Compare);
        } else if sameness == Some(Sameness::Unknown) && have > 0 {
            return Ok(Accepted::Doubtful);
        }
        if !is_begun || is_elsewhere {
            store.begin(opened.version.clone()).await?;
            self.books().is_begun = true;
        }
        Ok(Accepted::At(opened.from))
    }

    /// Compares what is there with what comes. Gives what came behind it; `None` if the slot is over before.
    async fn compare<C: Connection>(
        &self,
        connection: &mut C,
        mut tail: Bytes,
        version: Version,
    ) -> Result<Option<Bytes>, PullError> {
        let mut rest = Bytes::new();
        while !tail.is_empty() {
            let Some(piece) = self.read(connection).await? else { return Ok(None) };
            let Some(mut piece) = piece else { return Err(Fault::Changed.into()) };
            let both = piece.len().min(tail.len());
            self.limit(both).await;
            if piece.slice(..both) != tail.slice(..both) {
                return Err(Fault::Changed.into());
            }
            tail.advance(both);
            piece.advance(both);
            rest = piece;
        }
        self.store.lock().await.begin_compared(version).await?;
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

    /// A file that came in several pieces, without a strong tag to hold them together, is looked at once more; and so is one
    /// that was here before anybody asked.
    async fn check_at_the_end<C: Connection>(&self, connection: &mut C) -> Result<Outcome, PullError> {
        let version = self.store.lock().await.version().cloned();
        let (opened, is_resumed, is_last) = {
            let books = self.books();
            (books.opened, books.is_resumed, books.claimed.is_empty())
        };
        if !is_last {
            // Whoever is still at work will look.
            return Ok(Outcome::Complete);
        }
        let is_tagged = version.as_ref().is_some_and(|version| version.etag.is_some());
        let is_one_piece = opened == 1 && !is_resumed;
        let Some(version) = version.filter(|_| opened == 0 || !(is_tagged || is_one_piece)) else {
            return Ok(Outcome::Complete);
        };
        let now = tokio::select! {
            biased;
            () = self.with.slot.over() => return Ok(Outcome::SlotOver),
            probed = connection.probe(self.with.address) => probed?.version,
        };
        match version.compare(&now) {
            Sameness::Changed => Err(Fault::Changed.into()),
            Sameness::Same | Sameness::Unknown => self.has_begun().await,
        }
    }

    /// A part that was whole already, and of which the source has just said that it is still so, has not begun yet.
    async fn has_begun(&self) -> Result<Outcome, PullError> {
        if !self.books().is_begun {
            let mut store = self.store.lock().await;
            if let Some(version) = store.version().cloned() {
                store.begin_compared(version).await?;
            }
        }
        Ok(Outcome::Complete)
    }
}

/// What to do with a range that was opened.
enum Accepted {
    /// Its bytes go there.
    At(u64),
    /// They begin with some that are there already, to be compared.
    Compare,
    /// Some bytes must say that it is the same file.
    Doubtful,
}

/// Whether a version does not even prove to be the same as itself.
fn is_weak(version: &Version) -> bool {
    version.compare(version) != Sameness::Same
}

/// Whether the source sends from the start because it cannot do otherwise, and was not asked for all of it.
fn is_only_the_start(opened: &Opened, asked: Option<u64>) -> bool {
    let is_part = asked.is_some_and(|asked| opened.version.size.is_none_or(|size| size > asked));
    is_part && !opened.ranges
}
