//! What the connections to one file share, and the work of each: range after range. The engine makes one per attempt.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;

use super::books::Books;
use super::pace::Pace;
use super::settle::Deferral;
use super::{Event, Outcome, Pull, PullError, Restart};
use crate::fetch::plan::Planner;
use crate::fetch::store::Store;
use crate::fetch::{Ask, Connection, Fault, Opened, Sameness, Version};

/// With several connections to one file, each takes so much at a time: small enough to share, large enough to be worth a
/// request.
const SEGMENT: u64 = 16 << 20;

/// What the connections to one file share.
pub(super) struct Shared<'a, S> {
    store: AsyncMutex<&'a mut S>,
    books: Mutex<Books<'a>>,
    with: Pull<'a>,
    /// How many connections pull.
    pub(super) connections: usize,
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
    /// The file's date is too young to tell whether it is being written, and it does not come at once. Nothing is kept.
    Unsettled(Duration),
}

/// What came of the body of a range.
struct Body {
    ended: Ended,
    /// How many bytes came.
    bytes: u64,
    /// How long it waited for the limits.
    held_back: Duration,
}

impl<'a, S: Store> Shared<'a, S> {
    pub(super) fn new(
        store: &'a mut S,
        planner: &'a mut Planner,
        deferral: &'a mut Deferral,
        with: Pull<'a>,
    ) -> Self {
        let books = Books::new(planner, deferral, !store.have().is_empty());
        Self { store: AsyncMutex::new(store), books: Mutex::new(books), with, connections: 1 }
    }

    fn is_alone(&self) -> bool {
        self.connections == 1
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
            probed = connection.probe_bytes(self.with.address) => probed?,
        };
        let mut store = self.store.lock().await;
        let had = store.version().unwrap_or(&probed.version);
        // Answers of one second that is not over do not tell versions apart.
        let is_doubtful = !probed.version.is_settled() || had.compare(&probed.version) == Sameness::Unknown;
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
                    let ended = self.range(connection, from, length).await;
                    self.books().claimed.retain(|claimed| claimed.start != from);
                    match ended? {
                        Ended::Whole => {}
                        Ended::Cut => return Ok(Outcome::SlotOver),
                        Ended::Unsettled(wait) if self.with.slot.is_limited() => {
                            self.books().deferral.begin();
                            return Ok(Outcome::Unsettled(wait));
                        }
                        Ended::Unsettled(wait) => {
                            self.books().begin_anew();
                            self.wait(wait).await;
                        }
                    }
                }
            }
        }
    }

    /// The work of an additional connection; `None` if the source refuses it, so that one of the others is to do its work.
    pub(super) async fn work_if_allowed<C: Connection>(
        &self,
        connection: &mut C,
    ) -> Result<Option<Outcome>, PullError> {
        match self.work(connection).await {
            Err(PullError::Source(Fault::Refused(refusal))) => {
                let why = Fault::Refused(refusal).to_string();
                self.with.watch.on(Event::Surplus(why));
                Ok(None)
            }
            outcome => outcome.map(Some),
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
        if self.with.slot.is_spent() {
            return Next::SlotOver;
        }
        let wanted = if self.is_alone() { left } else { left.map(|left| left.min(SEGMENT)) };
        let room = self.with.room(books.planner, self.connections);
        let planned = books.planner.next(self.with.slot.left(), wanted, room);
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
            if self.is_alone() && is_only_the_start(&opened, length) {
                // It cannot continue a file, so nothing but all of it is of any use.
                length = None;
                continue;
            }
            let (at, first) = match self.accept(&opened, from - back, !tail.is_empty()).await? {
                Accepted::At(at) => (at, Bytes::new()),
                Accepted::Compare => match self.compare(connection, tail, opened.version.clone()).await? {
                    Compared::Same(first) => (from, first),
                    Compared::Cut(bytes) => {
                        // So that the next comparison is one that fits into a slot.
                        let took = begun.elapsed();
                        self.books().planner.measured(bytes, waited, took, Duration::ZERO);
                        return Ok(self.cut(connection).await);
                    }
                },
                Accepted::Doubtful => {
                    is_doubtful = true;
                    continue;
                }
            };
            if let Some(wait) = self.settles_in(&opened.version).await {
                connection.cut().await;
                return Ok(Ended::Unsettled(wait));
            }
            let pulled = self.body(connection, at, first).await;
            let Body { ended, bytes, held_back } = pulled.map_err(|error| explained(error, &opened))?;
            if let Ended::Unsettled(_) = ended {
                self.store.lock().await.restart().await?;
                self.with.watch.on(Event::Restarted(Restart::JustWritten));
                return Ok(ended);
            }
            let mut books = self.books();
            books.planner.measured(bytes, waited, begun.elapsed(), held_back);
            let is_short = length.is_none_or(|asked| bytes < asked);
            books.is_ended |= ended == Ended::Whole && opened.version.size.is_none() && is_short;
            return Ok(ended);
        }
    }

    /// Whether the source's word will not do to say that more bytes are of the version of those that are there.
    async fn is_doubtful(&self) -> bool {
        let store = self.store.lock().await;
        // A weak version does not even prove to be the same as itself.
        let is_weak = |version: &Version| version.compare(version) != Sameness::Same;
        !store.have().is_empty() && store.version().is_none_or(is_weak)
    }

    /// What is there before this byte, to be compared. If other bytes are there as well nobody could vouch for them.
    async fn tail_before(&self, from: u64) -> Result<Bytes, PullError> {
        let store = self.store.lock().await;
        if store.have().end() != from || store.have().pieces() != 1 {
            return Err(Fault::Changed.into());
        }
        let most = self.books().tail_length(self.with.slot.left());
        Ok(store.tail(most).await?)
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
        let mut books = self.books();
        books.opened += 1;
        books.opened_at.get_or_insert_with(Instant::now);
        drop(books);
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
            if self.with.slot.is_limited() || !self.is_alone() {
                let why = "it cannot continue a file, and this one does not fit into one slot";
                return Err(Fault::Unsupported(why.into()).into());
            }
            store.restart().await?;
            self.with.watch.on(Event::Restarted(Restart::NoResume));
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
    ) -> Result<Compared, PullError> {
        let mut rest = Bytes::new();
        let mut compared = 0;
        while !tail.is_empty() {
            let Some(piece) = self.read(connection).await? else { return Ok(Compared::Cut(compared)) };
            let Some(mut piece) = piece else { return Err(Fault::Changed.into()) };
            let both = piece.len().min(tail.len());
            self.with.limit(both).await;
            if piece.slice(..both) != tail.slice(..both) {
                return Err(Fault::Changed.into());
            }
            compared += both as u64;
            tail.advance(both);
            piece.advance(both);
            rest = piece;
        }
        self.store.lock().await.begin_compared(version).await?;
        self.books().is_begun = true;
        Ok(Compared::Same(rest))
    }

    /// Reads until the range or the slot ends.
    async fn body<C: Connection>(
        &self,
        connection: &mut C,
        start: u64,
        first: Bytes,
    ) -> Result<Body, PullError> {
        let mut at = start;
        let mut held_back = Duration::ZERO;
        let mut pace = Pace::new(self.with.min_speed);
        let mut next = Some(Some(first));
        loop {
            let Some(piece) = next else {
                return Ok(Body { ended: self.cut(connection).await, bytes: at - start, held_back });
            };
            let Some(piece) = piece else {
                return Ok(Body { ended: Ended::Whole, bytes: at - start, held_back });
            };
            let len = piece.len();
            if !self.store(at, piece).await? {
                return Ok(Body { ended: self.cut(connection).await, bytes: at - start, held_back });
            }
            at += len as u64;
            if let Some(wait) = self.must_settle() {
                connection.cut().await;
                return Ok(Body { ended: Ended::Unsettled(wait), bytes: at - start, held_back });
            }
            held_back += self.with.limit(len).await;
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
        if self.books().is_checkpoint_due() {
            store.checkpoint();
        }
        Ok(true)
    }

    /// Asks once more for the version after the last byte: a file that is rewritten in place during one answer keeps the
    /// header fields of that answer, a strong tag included (nginx makes it from mtime and size when it opens the file).
    async fn check_at_the_end<C: Connection>(&self, connection: &mut C) -> Result<Outcome, PullError> {
        let version = self.store.lock().await.version().cloned();
        let (is_short, is_last) = {
            let books = self.books();
            let is_one_piece = books.opened == 1 && !books.is_resumed;
            (is_one_piece && books.is_quick(), books.claimed.is_empty())
        };
        if !is_last {
            // The connection that is still at work checks.
            return Ok(Outcome::Complete);
        }
        let Some(version) = version.filter(|_| !is_short) else { return Ok(Outcome::Complete) };
        loop {
            let sameness = tokio::select! {
                biased;
                () = self.with.slot.over() => return Ok(Outcome::SlotOver),
                verified = connection.verify(self.with.address, &version) => verified?,
            };
            // Bytes came while another write would not have shown: only a date that moves by itself is believed, and that is
            // seen later.
            let is_trusted = self.with.slot.is_limited() && self.books().deferral.is_off();
            let is_open = sameness == Sameness::Unknown && !is_trusted;
            let wait = version.settles_in_s().filter(|_| is_open).map(Duration::from_secs);
            match wait.map(|wait| self.books().deferral.check_in(wait)) {
                None if sameness != Sameness::Changed => return self.has_begun().await,
                None | Some(None) => return Err(Fault::Changed.into()),
                Some(Some(left)) if self.with.slot.is_limited() => return Ok(Outcome::Unsettled(left)),
                Some(Some(left)) => self.wait(left).await,
            }
        }
    }

    /// How long to wait before the first byte of this version, see [`super::settle::Settling`].
    async fn settles_in(&self, version: &Version) -> Option<Duration> {
        let store = self.store.lock().await;
        let mut books = self.books();
        let may_wait = !self.with.slot.is_limited() || books.deferral.is_allowed();
        let is_first = self.is_alone() && store.have().is_empty() && may_wait;
        if is_first { books.settling.begin(version, store.can_restart()) } else { None }
    }

    /// How long to wait for a file of just now that does not come at once.
    fn must_settle(&self) -> Option<Duration> {
        let books = self.books();
        books.settling.due().filter(|_| !books.is_quick())
    }

    async fn wait(&self, wait: Duration) {
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = self.with.slot.over() => {}
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

/// What came of comparing the end of what is here.
enum Compared {
    /// It is the same; these bytes came behind it.
    Same(Bytes),
    /// The slot ended after so many bytes, which were the same.
    Cut(u64),
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

/// Says of a broken transfer that it cannot be continued, if so.
fn explained(error: PullError, opened: &Opened) -> PullError {
    match error {
        PullError::Source(Fault::Broken(why)) if !opened.ranges => {
            Fault::Broken(format!("{why}; the source does not support resuming")).into()
        }
        error => error,
    }
}

/// Whether the source sends from the start because it cannot do otherwise, and was not asked for all of it.
fn is_only_the_start(opened: &Opened, asked: Option<u64>) -> bool {
    let is_part = asked.is_some_and(|asked| opened.version.size.is_none_or(|size| size > asked));
    is_part && !opened.ranges
}
