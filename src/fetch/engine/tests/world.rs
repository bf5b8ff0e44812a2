//! A source in memory that does what a test tells it to, when so many bytes have been given out; and a store beside it.

use std::collections::VecDeque;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::base::Time;
use crate::fetch::engine::{Deferral, Event, Outcome, Pull, PullError, Watch, pull};
use crate::fetch::limit::Limiter;
use crate::fetch::plan::{self, Planner};
use crate::fetch::sink::{Ranges, SinkError};
use crate::fetch::slot::Tally;
use crate::fetch::store::Store;
use crate::fetch::{Address, Ask, Connection, Cut, Fault, Opened, PackedListing, Sameness, Slot, Version};

/// What happens at the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// The file is replaced by its next version, of this size.
    Change(u64),
    /// The same file gets the bytes of its next version, of the same size: what is being sent goes on with them.
    Rewrite,
    /// The order to stop.
    Stop,
    /// The connection breaks.
    Break,
    /// Nothing more comes.
    Stall,
}

/// How much the source says of its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    Tag,
    /// A strong tag that is made of date and size, and the date.
    DateTag,
    WeakTag,
    /// A strong tag, and the time of the answer as the date.
    NowTag,
    Date,
    Size,
    Nothing,
}

/// One version: its number, which makes its bytes, and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct File {
    pub(super) number: u64,
    pub(super) size: u64,
    /// Versions that were written into the same file share it.
    inode: u64,
    /// Its date: whole seconds since the start, if dates go by the clock; a number of its own otherwise.
    date_s: u64,
}

impl File {
    pub(super) fn bytes(self, from: u64, to: u64) -> Bytes {
        let byte = |at: u64| (at ^ (self.number << 40)).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[0];
        (from..to).map(byte).collect()
    }

    pub(super) fn whole(self) -> Bytes {
        self.bytes(0, self.size)
    }
}

pub(super) struct World {
    pub(super) proof: Proof,
    /// Dates are those of the clock, to the second; otherwise each version has another one, of long ago.
    clock: Option<Instant>,
    pub(super) versions: Vec<File>,
    /// Deeds, each when so many bytes have been given out in all.
    pub(super) deeds: VecDeque<(u64, Deed)>,
    pub(super) ranges: bool,
    pub(super) latency: Duration,
    pub(super) rate: Option<u64>,
    pub(super) piece: u64,
    /// The next times when a range is opened the file is another one.
    pub(super) changes: u32,
    /// No question is ever answered.
    pub(super) is_mute: bool,
    pub(super) stop: watch::Sender<bool>,
    pub(super) given: u64,
    pub(super) asked: Vec<(u64, Option<u64>)>,
    pub(super) probes: usize,
    /// When bytes were given out.
    pub(super) reads: Vec<Instant>,
}

impl World {
    pub(super) fn now(&self) -> File {
        *self.versions.last().expect("there is a version")
    }

    pub(super) fn change(&mut self, size: u64) {
        let number = self.now().number + 1;
        let date_s = self.clock.map_or(number, |begun| begun.elapsed().as_secs());
        self.versions.push(File { number, size, inode: number, date_s });
    }

    fn rewrite(&mut self) {
        let inode = self.now().inode;
        self.change(self.now().size);
        if let Some(now) = self.versions.last_mut() {
            now.inode = inode;
        }
    }

    /// What is in the file that was opened in this version.
    fn content(&self, opened: File) -> File {
        let written = self.versions.iter().rev().find(|version| version.inode == opened.inode);
        *written.expect("it was opened")
    }

    fn version(&self, file: File) -> Version {
        let seconds =
            |since_start_s: u64| 1_700_000_000 + i64::try_from(since_start_s).expect("a small number");
        let now_s = self.clock.map(|begun| seconds(begun.elapsed().as_secs()));
        let modified_s = Some(seconds(file.date_s));
        let quoted = |text: String| Some(format!("\"{text}\""));
        let mut version = Version { size: Some(file.size), ..Version::default() };
        match self.proof {
            Proof::Tag => version.etag = quoted(file.number.to_string()),
            Proof::DateTag => {
                version.modified_s = modified_s;
                version.etag = quoted(format!("{}-{}", file.date_s, file.size));
            }
            Proof::NowTag => {
                version.modified_s = now_s;
                version.etag = quoted(file.number.to_string());
            }
            Proof::WeakTag => version.weak_etag = quoted(file.number.to_string()),
            Proof::Date => version.modified_s = modified_s,
            Proof::Size => {}
            Proof::Nothing => version.size = None,
        }
        match now_s {
            Some(now_s) => version.described_at(now_s),
            None => version,
        }
    }
}

/// The source, and the tests' way to it.
#[derive(Clone)]
pub(super) struct Source(Arc<Mutex<World>>);

impl Source {
    pub(super) fn new(size: u64) -> Self {
        Self(Arc::new(Mutex::new(World {
            proof: Proof::Tag,
            clock: None,
            versions: vec![File { number: 1, size, inode: 1, date_s: 1 }],
            deeds: VecDeque::new(),
            ranges: true,
            latency: Duration::ZERO,
            rate: None,
            piece: 10_000,
            changes: 0,
            is_mute: false,
            stop: watch::Sender::new(false),
            given: 0,
            asked: Vec::new(),
            probes: 0,
            reads: Vec::new(),
        })))
    }

    /// One whose first version is being written right now, by the runtime's clock.
    pub(super) fn by_the_clock(size: u64) -> Self {
        Self::new(size).with(|world| {
            world.clock = Some(Instant::now());
            world.versions[0].date_s = 0;
        })
    }

    pub(super) fn with(self, change: impl FnOnce(&mut World)) -> Self {
        change(&mut self.world());
        self
    }

    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().expect("no test panics with the world in hand")
    }

    pub(super) fn connect(&self) -> Link {
        Link { source: self.clone(), open: None }
    }

    /// A slot that ends by order only.
    pub(super) fn eternal(&self) -> Slot {
        let world = self.world();
        world.stop.send_replace(false);
        Slot::eternal(world.stop.subscribe())
    }

    /// A slot of this length, from now, on the runtime's clock.
    pub(super) fn slot(&self, length: Duration) -> Slot {
        let begun = Instant::now();
        let clock = Arc::new(move || Time::ZERO + begun.elapsed());
        let world = self.world();
        world.stop.send_replace(false);
        Slot::until(Time::ZERO + length, clock, world.stop.subscribe())
    }

    fn due(&self) -> Option<Deed> {
        let mut world = self.world();
        let given = world.given;
        let is_due = world.deeds.front().is_some_and(|(at, _)| *at <= given);
        let (_, deed) = is_due.then(|| world.deeds.pop_front()).flatten()?;
        match deed {
            Deed::Change(size) => world.change(size),
            Deed::Rewrite => world.rewrite(),
            Deed::Stop => drop(world.stop.send_replace(true)),
            Deed::Break | Deed::Stall => {}
        }
        Some(deed)
    }

    /// The size of its pieces, and how many bytes a second.
    fn speed(&self) -> (u64, Option<u64>) {
        let world = self.world();
        (world.piece, world.rate)
    }

    fn is_mute(&self) -> bool {
        self.world().is_mute
    }

    async fn answer(&self) {
        let latency = self.world().latency;
        if self.is_mute() {
            pending::<()>().await;
        }
        sleep(latency).await;
    }
}

/// A connection to it.
pub(super) struct Link {
    source: Source,
    /// What is being sent: of which version, from where, to where.
    open: Option<(File, u64, u64)>,
}

impl Connection for Link {
    async fn probe(&mut self, _: &Address) -> Result<Opened, Fault> {
        self.source.answer().await;
        let mut world = self.source.world();
        world.probes += 1;
        let version = world.version(world.now());
        Ok(Opened { length: version.size, version, from: 0, ranges: world.ranges })
    }

    async fn list_packed(&mut self, _: &Address) -> Result<PackedListing, Fault> {
        Ok(PackedListing::default())
    }

    async fn open(&mut self, ask: Ask<'_>) -> Result<Opened, Fault> {
        self.open = None;
        self.source.answer().await;
        let mut world = self.source.world();
        world.asked.push((ask.from, ask.length));
        if let Some(left) = world.changes.checked_sub(1) {
            world.changes = left;
            let size = world.now().size;
            world.change(size);
        }
        let file = world.now();
        let version = world.version(file);
        // As If-Range does; a source that says nothing does not understand it.
        let is_other = ask.known.is_some_and(|known| known.compare(&version) == Sameness::Changed);
        if !is_other && ask.from > file.size && world.ranges {
            return Err(Fault::Changed);
        }
        let from = if is_other || !world.ranges { 0 } else { ask.from };
        let asked_to = ask.length.map_or(u64::MAX, |length| ask.from.saturating_add(length));
        let to = file.size.min(asked_to).max(from);
        self.open = Some((file, from, to));
        let length = version.size.map(|_| to - from);
        Ok(Opened { version, from, length, ranges: world.ranges })
    }

    async fn read(&mut self) -> Result<Option<Bytes>, Fault> {
        while let Some(deed) = self.source.due() {
            match deed {
                Deed::Break => {
                    self.open = None;
                    return Err(Fault::Broken("by order".into()));
                }
                Deed::Stall => pending().await,
                // Whoever looks at the slot before every read has not read this.
                Deed::Change(_) | Deed::Rewrite | Deed::Stop => {}
            }
        }
        let Some((file, from, to)) = self.open else { return Err(Fault::Broken("nothing is open".into())) };
        if from >= to {
            self.open = None;
            return Ok(None);
        }
        let (piece, rate) = self.source.speed();
        let end = to.min(from + piece);
        if let Some(rate) = rate {
            sleep(Duration::from_secs_f64((end - from) as f64 / rate as f64)).await;
        }
        self.open = Some((file, end, to));
        let mut world = self.source.world();
        world.given += end - from;
        world.reads.push(Instant::now());
        Ok(Some(world.content(file).bytes(from, end)))
    }

    async fn cut(&mut self) -> Cut {
        match self.open.take() {
            Some(_) => Cut::Closed,
            None => Cut::Kept,
        }
    }

    async fn warm(&mut self, _: &Address) {}

    async fn close(&mut self) {
        self.open = None;
    }
}

/// A store without a disk, which lets virtual time alone.
#[derive(Default)]
pub(super) struct Memory {
    version: Option<Version>,
    have: Ranges,
    pub(super) bytes: Vec<u8>,
    /// There is never room.
    is_blocked: bool,
    is_inherited: bool,
}

impl Memory {
    /// One that never has room.
    pub(super) fn blocked() -> Self {
        Self { is_blocked: true, ..Self::default() }
    }

    /// What the next run finds of it.
    pub(super) fn inherited(self) -> Self {
        Self { is_inherited: !self.have.is_empty(), ..self }
    }
}

impl Store for Memory {
    fn version(&self) -> Option<&Version> {
        self.version.as_ref()
    }

    fn have(&self) -> &Ranges {
        &self.have
    }

    fn is_inherited(&self) -> bool {
        self.is_inherited
    }

    fn can_restart(&self) -> bool {
        true
    }

    async fn begin(&mut self, version: Version) -> Result<(), SinkError> {
        if self.version.as_ref().is_some_and(|had| had.compare(&version) != Sameness::Same) {
            self.restart().await?;
        }
        self.begin_compared(version).await
    }

    async fn begin_compared(&mut self, mut version: Version) -> Result<(), SinkError> {
        let before = self.version.take().filter(|_| !self.have.is_empty());
        version.age_s = before.and_then(|before| before.age_s).into_iter().chain(version.age_s).min();
        self.version = Some(version);
        self.is_inherited = false;
        Ok(())
    }

    async fn tail(&self, len: usize) -> Result<Bytes, SinkError> {
        let end = usize::try_from(self.have.first_gap()).expect("a small file");
        Ok(Bytes::copy_from_slice(&self.bytes[end.saturating_sub(len)..end]))
    }

    async fn write(&mut self, offset: u64, bytes: Bytes) -> Result<(), SinkError> {
        if self.is_blocked {
            pending::<()>().await;
        }
        let start = usize::try_from(offset).expect("a small file");
        let end = start + bytes.len();
        assert!(!self.have.overlaps(&(offset..end as u64)), "bytes at {offset} that are there already");
        self.bytes.resize(self.bytes.len().max(end), 0);
        self.bytes[start..end].copy_from_slice(&bytes);
        self.have.insert(offset..end as u64);
        Ok(())
    }

    fn checkpoint(&mut self) {}

    async fn restart(&mut self) -> Result<(), SinkError> {
        *self = Self { is_blocked: self.is_blocked, ..Self::default() };
        Ok(())
    }
}

/// Remembers what happened.
#[derive(Default)]
pub(super) struct Seen {
    events: Mutex<Vec<Event>>,
    /// Of the bytes that came.
    pub(super) tally: Arc<Tally>,
}

impl Watch for Seen {
    fn on(&self, event: Event) {
        if let Event::Bytes(bytes) = event {
            self.tally.add(bytes);
        }
        self.events.lock().expect("no test panics with the events in hand").push(event);
    }
}

impl Seen {
    pub(super) fn count(&self, is: impl Fn(&Event) -> bool) -> usize {
        self.events
            .lock()
            .expect("no test panics with the events in hand")
            .iter()
            .filter(|event| is(event))
            .count()
    }

    pub(super) fn cuts(&self) -> usize {
        self.count(|event| matches!(event, Event::WasCut(_)))
    }

    pub(super) fn restarts(&self) -> usize {
        self.count(|event| matches!(event, Event::Restarted(_)))
    }
}

/// One job: a planner that learns, and what it sees.
pub(super) struct Job {
    pub(super) planner: Planner,
    pub(super) limiters: Vec<Limiter>,
    pub(super) min_speed: u64,
    pub(super) seen: Seen,
    pub(super) deferral: Deferral,
    address: Address,
}

impl Job {
    pub(super) fn new() -> Self {
        Self::with_chunk(None)
    }

    pub(super) fn with_chunk(chunk: Option<u64>) -> Self {
        let usual = plan::Config::default();
        let config = plan::Config { largest_bytes: chunk.unwrap_or(usual.largest_bytes), ..usual };
        Self {
            planner: Planner::new(config),
            limiters: Vec::new(),
            min_speed: 0,
            seen: Seen::default(),
            deferral: Deferral::default(),
            address: Address::parse("http://source.example/file").expect("an address").0,
        }
    }

    pub(super) async fn pull<S: Store>(
        &mut self,
        links: &mut [Link],
        store: &mut S,
        slot: &Slot,
    ) -> Result<Outcome, PullError> {
        if slot.is_limited() {
            self.planner.slot_began();
        }
        let with = Pull {
            address: &self.address,
            slot,
            limiters: &self.limiters,
            min_speed: self.min_speed,
            abreast: 1,
            watch: &self.seen,
        };
        pull(links, store, &mut self.planner, &mut self.deferral, with).await
    }
}
