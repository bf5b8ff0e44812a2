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

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::growing::Track;
use super::item::{Item, Machine, Output};
use super::lag::{Backlog, Growth};
use super::look::{Look, MINUTE_S, Seen};
use crate::base::Time;
use crate::fetch::engine::PullError;
use crate::fetch::{Address, Fault};
use crate::jobs::filter::Filter;
use crate::jobs::manifest::Record;
use crate::jobs::pull::{End, Fate, Feed, Follow, Followed, Moment, Next, Task, To, Want};

/// A file that the source has not listed for so long is forgotten: shorter absences are mishaps.
const FORGET_AFTER: Duration = Duration::from_secs(3_600);

/// The longest wait before a file that cannot be had is tried again.
const LONGEST_RETRY: Duration = Duration::from_secs(3_600);

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

    // --- looking ---

    fn next_listing(&mut self, at: Moment) -> Option<(usize, Task)> {
        if self.look.is_none() && at.now >= self.next_look && !self.has_looked {
            self.look = Some(Look::new(self.config.root.clone()));
        }
        let id = self.next_id + 1;
        let address = self.look.as_mut()?.next(id)?;
        self.next_id = id;
        Some((id, Task::List(address)))
    }

    fn on_listed(&mut self, id: usize, listed: Result<crate::fetch::Listing, Fault>, at: Moment) {
        let Some(look) = self.look.as_mut().filter(|look| look.has_asked(id)) else { return };
        match listed {
            Ok(listing) => {
                let deep = self.config.recursive.then_some(&self.config.filter);
                look.listed(listing, &self.config.root, deep);
            }
            Err(fault) if look.is_at_root() => {
                self.look = None;
                self.plan_look(at);
                // Nobody waits for what never was.
                if self.last_look_s.is_none() && self.is_first && !fault.is_temporary() {
                    self.failure = Some(fault);
                }
                return;
            }
            Err(_) => look.skip(),
        }
        if look.is_over()
            && let Some(look) = self.look.take()
        {
            self.on_look(look, at);
        }
    }

    fn plan_look(&mut self, at: Moment) {
        self.next_look = at.now + self.config.poll;
        self.has_looked = self.is_in_limited_slot;
    }

    /// A look is over.
    fn on_look(&mut self, look: Look, at: Moment) {
        self.plan_look(at);
        self.is_by_minute = look.is_by_minute();
        let begins = self.is_first && self.config.since == Since::Now;
        let mut before = Vec::new();
        let mut new_bytes = 0_u64;
        if !look.is_partial {
            self.forget_missing(&look, at);
        }
        for (path, seen) in look.files {
            let Seen { size, modified_s, .. } = seen;
            if !self.is_meant(&path, &seen, at) {
                continue;
            }
            if begins {
                let size = size.unwrap_or(0);
                let record = Record { size, modified_s, delivered: true, flushed: true, ..Record::default() };
                before.push((path.clone(), record));
                let known =
                    Known { told: 0, size: seen.size, modified_s, state: State::Done, missing_since: None };
                self.known.insert(path, known);
                continue;
            }
            new_bytes = new_bytes.saturating_add(self.on_seen(path, seen, at));
        }
        if self.is_first {
            self.outputs.push_back(Output::Before(before));
        }
        self.is_first = false;
        self.last_look_s = Some(at.wall_s);
        self.growth.looked(at.now, new_bytes);
    }

    fn is_meant(&self, path: &str, seen: &Seen, at: Moment) -> bool {
        let is_late = match (self.config.since, seen.modified_s) {
            (Since::At(from_s), Some(modified_s)) => self.latest(modified_s) >= from_s,
            _ => true,
        };
        is_late && self.config.filter.allows_file(path, seen.size, seen.modified_s, at.wall_s)
    }

    /// What a listed file means. Gives how many bytes are new.
    fn on_seen(&mut self, path: String, seen: Seen, at: Moment) -> u64 {
        let bytes = seen.size.unwrap_or(0);
        let Some(known) = self.known.get_mut(&path) else {
            let state = State::Settling { since: at.now, tries: 0 };
            let (size, modified_s) = (seen.size, seen.modified_s);
            let known = Known { told: 0, size, modified_s, state, missing_since: None };
            self.known.insert(path.clone(), known);
            self.enter(path, seen, at);
            return bytes;
        };
        known.missing_since = None;
        let is_same = !differ(known.size, seen.size) && !differ(known.modified_s, seen.modified_s);
        match known.state {
            // Its end will tell, and the look after it.
            State::Pulling { .. } => return 0,
            State::Done if is_same => return 0,
            _ if is_same => {
                self.settle(&path, &seen, at);
                return 0;
            }
            _ => {}
        }
        let grown = bytes.saturating_sub(known.size.unwrap_or(0));
        let is_anew = known.state == State::Done && self.config.follow.is_none();
        let new = if is_anew { bytes } else { grown };
        self.ready.remove(&key(self.config.order, &path, known.modified_s));
        known.size = seen.size;
        known.modified_s = seen.modified_s;
        known.state = State::Settling { since: at.now, tries: 0 };
        self.enter(path, seen, at);
        new
    }

    /// Something that is not here is there.
    fn enter(&mut self, path: String, seen: Seen, at: Moment) {
        let earliest_s = self.last_look_s.unwrap_or(i64::MIN);
        let appeared_s = seen.modified_s.unwrap_or(at.wall_s).clamp(earliest_s.min(at.wall_s), at.wall_s);
        self.backlog().add(&path, appeared_s, seen.size.unwrap_or(0));
        self.seen.insert(path.clone(), seen.clone());
        self.settle(&path, &seen, at);
    }

    /// Whether a file that is waiting may be pulled now.
    fn settle(&mut self, path: &str, seen: &Seen, at: Moment) {
        let modified_s = seen.modified_s.map(|modified_s| self.latest(modified_s));
        // A file that may grow need not have stopped.
        let settle = if self.config.follow.is_some() { Duration::ZERO } else { self.config.settle };
        let Some(known) = self.known.get_mut(path) else { return };
        let tries = match known.state {
            State::Settling { since, tries } if is_settled(modified_s, since, settle, at) => tries,
            State::Failed { again, tries } if again <= at.now => tries,
            _ => return,
        };
        known.state = State::Ready { tries };
        self.ready.insert(key(self.config.order, path, known.modified_s));
    }

    /// What a complete look does not show is gone, or will be forgotten.
    fn forget_missing(&mut self, look: &Look, at: Moment) {
        let (order, backlog) = (self.config.order, Arc::clone(&self.backlog));
        let mut backlog = backlog.lock().expect("nobody panics with the backlog in hand");
        let (ready, seen, outputs) = (&mut self.ready, &mut self.seen, &mut self.outputs);
        self.known.retain(|path, known| {
            if look.files.contains_key(path) || matches!(known.state, State::Pulling { .. }) {
                return true;
            }
            if known.state != State::Done {
                // It never came, and never will.
                ready.remove(&key(order, path, known.modified_s));
                seen.remove(path);
                backlog.remove(path);
                return false;
            }
            let since = *known.missing_since.get_or_insert(at.now);
            let is_kept = at.now.since(since) < FORGET_AFTER;
            if !is_kept {
                outputs.push_back(Output::Forgotten(path.clone()));
            }
            is_kept
        });
    }

    // --- pulling ---

    fn next_pull(&mut self) -> Option<(usize, Task)> {
        let (_, path) = self.ready.pop_first()?;
        let seen = self.seen.get(&path)?.clone();
        if let Some(known) = self.known.get_mut(&path)
            && let State::Ready { tries } = known.state
        {
            known.state = State::Pulling { tries };
        }
        let id = self.id();
        if let Some(keep_old) = self.config.follow {
            let follow = Follow {
                address: self.address(&seen),
                root: self.config.target.clone(),
                below: seen.below.clone(),
                name: seen.name.clone(),
                keep_old,
            };
            self.turns.insert(id, Turn { seen, path, item: None });
            return Some((id, Task::Follow(follow)));
        }
        let to =
            To::File { root: self.config.target.clone(), below: seen.below.clone(), name: seen.name.clone() };
        let want = Want { address: self.address(&seen), to, expected: None, ask_first: true };
        self.turns.insert(id, Turn { seen, path, item: None });
        Some((id, Task::Pull(want)))
    }

    fn address(&self, seen: &Seen) -> Address {
        let folder = seen.below.iter().fold(self.config.root.clone(), |folder, name| folder.folder(name));
        folder.file(&seen.name)
    }

    fn on_pulled(&mut self, id: usize, fate: Fate, at: Moment) {
        let Some(turn) = self.turns.get(&id) else { return };
        let (size, sha256) = match fate {
            Fate::Pulled { size, sha256 } => (size, sha256),
            Fate::UpToDate | Fate::Planned { .. } => (turn.seen.size.unwrap_or(0), None),
            // What comes after it in the stream waits for the next run, too.
            Fate::Interrupted => return,
            Fate::Failed(error) => return self.on_failed(id, &error, at),
        };
        let address = self.address(&turn.seen);
        // As it was listed: it is compared with what will be listed.
        let (listed, modified_s) = (turn.seen.size, turn.seen.modified_s);
        let record = Record { size, modified_s, sha256, pulled_s: at.wall_s, ..Record::default() };
        let Some(turn) = self.turns.get_mut(&id) else { return };
        if let Some(known) = self.known.get_mut(&turn.path) {
            known.size = listed;
            known.modified_s = modified_s;
            known.state = State::Done;
        }
        self.seen.remove(&turn.path);
        turn.item = Some(Box::new(Item {
            path: turn.path.clone(),
            below: turn.seen.below.clone(),
            name: turn.seen.name.clone(),
            address,
            record,
            piece: None,
            is_gone: false,
        }));
        self.tell_in_order();
    }

    fn on_followed(&mut self, id: usize, followed: Result<Followed, PullError>, at: Moment) {
        let followed = match followed {
            Ok(followed) => followed,
            Err(error) => return self.on_failed(id, &error, at),
        };
        let Some(turn) = self.turns.remove(&id) else { return };
        let address = self.address(&turn.seen);
        let Turn { seen, path, .. } = turn;
        let Some(known) = self.known.get_mut(&path) else { return };
        let track = Track { path: &path, below: &seen.below, name: &seen.name, address: &address };
        let is_whole = followed.is_complete;
        let appended = track.told(&mut known.told, followed, seen.modified_s, at);
        if is_whole {
            known.size = seen.size;
            known.modified_s = seen.modified_s;
            known.state = State::Done;
            self.seen.remove(&path);
            if appended.is_empty() {
                self.backlog().remove(&path);
            }
        } else {
            known.state = State::Ready { tries: 0 };
            self.ready.insert(key(self.config.order, &path, known.modified_s));
        }
        self.outputs.extend(appended);
    }

    fn on_failed(&mut self, id: usize, error: &PullError, at: Moment) {
        let Some(turn) = self.turns.remove(&id) else { return };
        if let PullError::Source(Fault::NotFound(_)) = error {
            // If it comes again, it is new.
            self.known.remove(&turn.path);
            self.seen.remove(&turn.path);
            self.backlog().remove(&turn.path);
        } else if let Some(known) = self.known.get_mut(&turn.path)
            && let State::Pulling { tries } = known.state
        {
            let wait = self.config.poll.max(Duration::from_secs(1)).saturating_mul(1 << tries.min(12));
            known.state = State::Failed { again: at.now + wait.min(LONGEST_RETRY), tries: tries + 1 };
        }
        self.tell_in_order();
    }

    /// Tells what has come, up to the first file that is still on its way.
    fn tell_in_order(&mut self) {
        while let Some(first) = self.turns.first_entry()
            && first.get().item.is_some()
        {
            if let Some(item) = first.remove().item {
                self.outputs.push_back(Output::Arrived(item));
            }
        }
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

/// Whether it has not changed for long enough: over two looks, or by its own time.
fn is_settled(modified_s: Option<i64>, since: Time, settle: Duration, at: Moment) -> bool {
    let settle_s = i64::try_from(settle.as_secs()).unwrap_or(i64::MAX);
    let age_s = modified_s.map(|modified_s| at.wall_s.saturating_sub(modified_s));
    settle.is_zero() || at.now.since(since) >= settle || age_s.is_some_and(|age_s| age_s > settle_s)
}

/// Whether both are known and are not equal.
fn differ<T: PartialEq>(before: Option<T>, now: Option<T>) -> bool {
    matches!((before, now), (Some(before), Some(now)) if before != now)
}

fn key(order: Order, path: &str, modified_s: Option<i64>) -> (i64, String) {
    let time_s = match order {
        Order::Time => modified_s.unwrap_or(i64::MAX),
        Order::Name => 0,
    };
    (time_s, path.to_owned())
}

#[cfg(test)]
#[path = "stream/tests.rs"]
mod tests;
