//! A stream of files that appear in a folder: which of them to pull next, and in which order they are told.
//!
//! Pure. It looks at the folder now and then; a file that is new, is meant and has not changed for a while is pulled; what
//! has come is told in the order of the stream, also where several files are pulled side by side.
//!
//! ```text
//!   look ──> new, or changed? ──> Settling ──> Ready ──> Pulling ──> Here ──> told in order
//!                                     ^ still changes │     └─ failed: Ready again after a while
//! ```
//!
//! What it remembers is bounded by what the source lists: a file that is gone there for an hour is forgotten.

mod looking;
mod pulling;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::item::{Item, Machine, Output, Trouble};
use super::lag::{Backlog, Growth};
use super::look::{Look, MINUTE_S, Seen};
use crate::base::Time;
use crate::fetch::{Address, Fault};
use crate::jobs::filter::Filter;
use crate::jobs::manifest::Record;
use crate::jobs::pull::{End, Feed, Moment, Next};

/// In which order files are delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// By the time of their last change, then by name.
    #[default]
    Time,
    /// By name.
    Name,
}

/// From when on files are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Since {
    /// What appears after the first look.
    #[default]
    Now,
    /// What is there, too.
    All,
    /// What was changed at this time, in seconds since 1970, or later.
    At(i64),
}

/// What is wanted of a stream.
#[derive(Clone, Debug)]
pub struct Config {
    /// The folder.
    pub root: Address,
    /// Where replicas go.
    pub target: PathBuf,
    /// Which files are meant.
    pub filter: Filter,
    /// In which order.
    pub order: Order,
    /// From when on.
    pub since: Since,
    /// The least time between two looks.
    pub poll: Duration,
    /// For how long a file must not have changed.
    pub settle: Duration,
    /// Folders in the folder, too.
    pub recursive: bool,
    /// Of names that differ only in case or Unicode composition, only the first is pulled.
    pub refuses_twins: bool,
    /// Files may still grow: what is new of each is appended, and delivered, as it comes. If it is suddenly another file,
    /// its old replica is kept (`true`) or dropped.
    pub follow: Option<bool>,
}

/// What is known of a file at the source.
#[derive(Debug)]
struct Known {
    /// Of a growing file, how much of it was told.
    told: u64,
    size: Option<u64>,
    modified_s: Option<i64>,
    state: State,
    /// Since when it is not listed any more.
    missing_since: Option<Time>,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    /// It may still be written to.
    Settling { since: Time, tries: u32 },
    /// It is waiting to be pulled.
    Ready { tries: u32 },
    /// It is being pulled.
    Pulling { tries: u32 },
    /// It could not be had.
    Failed { again: Time, tries: u32 },
    /// It is here, or was, or is not wanted.
    Done,
}

/// A file that was given out, in the order of the stream.
#[derive(Debug)]
struct Turn {
    seen: Seen,
    path: String,
    item: Option<Box<Item>>,
}

/// The feed.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is about something else")]
pub struct Stream {
    config: Config,
    known: BTreeMap<String, Known>,
    ready: BTreeSet<(i64, String)>,
    /// Where files are that are known: only of those that are not done.
    seen: BTreeMap<String, Seen>,
    look: Option<Look>,
    next_look: Time,
    last_look_s: Option<i64>,
    /// There was no look ever before.
    is_first: bool,
    is_in_limited_slot: bool,
    /// In this slot, if it is a limited one.
    has_looked: bool,
    /// By task.
    turns: BTreeMap<usize, Turn>,
    next_id: usize,
    outputs: VecDeque<Output>,
    growth: Growth,
    /// The source tells times in whole minutes.
    is_by_minute: bool,
    backlog: Arc<Mutex<Backlog>>,
    failure: Option<Fault>,
    trouble: Trouble,
    /// Paths that the source lists like files, and that are folders.
    folders: BTreeSet<String>,
    /// Symbolic links that were told.
    links: BTreeSet<String>,
}

impl Stream {
    /// A stream of which these files are known already; `is_first` if it was never looked at before.
    pub fn new(
        config: Config,
        known: impl IntoIterator<Item = (String, Record)>,
        is_first: bool,
        backlog: Arc<Mutex<Backlog>>,
    ) -> Self {
        let done = |record: Record| Known {
            told: if record.flushed { 0 } else { record.size },
            size: Some(record.size),
            modified_s: record.modified_s,
            state: State::Done,
            missing_since: None,
        };
        Self {
            config,
            known: known.into_iter().map(|(path, record)| (path, done(record))).collect(),
            ready: BTreeSet::new(),
            seen: BTreeMap::new(),
            look: None,
            next_look: Time::ZERO,
            last_look_s: None,
            is_first,
            is_in_limited_slot: false,
            has_looked: false,
            turns: BTreeMap::new(),
            next_id: 0,
            outputs: VecDeque::new(),
            growth: Growth::default(),
            is_by_minute: true,
            backlog,
            failure: None,
            trouble: Trouble::default(),
            folders: BTreeSet::new(),
            links: BTreeSet::new(),
        }
    }

    /// Why there will never be anything, if it is so.
    pub fn into_failure(self) -> Option<Fault> {
        self.failure
    }

    fn backlog(&self) -> MutexGuard<'_, Backlog> {
        self.backlog.lock().expect("nobody panics with the backlog in hand")
    }

    fn id(&mut self) -> usize {
        self.next_id += 1;
        self.next_id
    }

    /// When a file that is listed with this time was changed at the latest.
    fn latest(&self, modified_s: i64) -> i64 {
        if self.is_by_minute { modified_s.saturating_add(MINUTE_S - 1) } else { modified_s }
    }
}

impl Feed for Stream {
    fn next(&mut self, at: Moment) -> Next {
        if self.failure.is_some() {
            return Next::Done;
        }
        if let Some((id, task)) = self.next_listing(at).or_else(|| self.next_pull()) {
            return Next::Task(id, task);
        }
        // In a slot in which it has looked already it is asked again when that is over.
        Next::Wait((self.look.is_none() && !self.has_looked).then_some(self.next_look))
    }

    fn ended(&mut self, id: usize, end: End, at: Moment) {
        match end {
            End::Listed(listed) => self.on_listed(id, listed, at),
            End::Pulled(fate) => self.on_pulled(id, fate, at),
            End::Followed(followed) => self.on_followed(id, followed, at),
            End::Probed(_) | End::Resolved(_) => {}
        }
    }

    fn abreast(&self) -> usize {
        // Two connections must not append to one file.
        if self.config.follow.is_some() { 1 } else { usize::MAX }
    }

    fn outlook(&self) -> Option<Address> {
        let next = self.ready.first().and_then(|(_, path)| self.seen.get(path));
        Some(next.map_or_else(|| self.config.root.clone(), |seen| self.address(seen)))
    }

    fn stream_rate(&self) -> Option<u64> {
        self.growth.rate()
    }

    fn backlog(&self) -> u64 {
        let is_due = |path: &String| {
            let state = self.known.get(path).map(|known| &known.state);
            matches!(state, Some(State::Ready { .. } | State::Pulling { .. }))
        };
        let told = |path: &String| self.known.get(path).map_or(0, |known| known.told);
        let sizes = self.seen.iter().filter(|(path, _)| is_due(path)).map(|(path, seen)| {
            let size = seen.size.unwrap_or(0);
            if self.config.follow.is_some() { size.saturating_sub(told(path)) } else { size }
        });
        sizes.fold(0, u64::saturating_add)
    }

    fn slot_changed(&mut self, is_in_limited_slot: bool) {
        self.is_in_limited_slot = is_in_limited_slot;
        self.has_looked = false;
    }
}

impl Machine for Stream {
    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }
}

fn key(order: Order, path: &str, modified_s: Option<i64>) -> (i64, String) {
    let time_s = match order {
        Order::Time => modified_s.unwrap_or(i64::MAX),
        Order::Name => 0,
    };
    (time_s, path.to_owned())
}

#[cfg(test)]
mod tests;
