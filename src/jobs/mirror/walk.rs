//! The walk through the source's tree: a [`Feed`] that lists folder by folder, compares with what is here, and wants the rest.
//!
//! ```text
//!   pending folders ──> List ──> one folder's entries ──> filter, order ──> here? ──> Pull
//!                                   └─ its folders ──> pending (depth first)
//! ```
//!
//! No clock, disk or socket: what is here is told by [`Replicas`]. In memory are the folders that wait, the entries of one
//! folder, and 16 bytes for each name if somebody wants to know later what was there.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;

use super::found::{Counts, Found, Planned, Trouble, What, Why, path_of};
use super::spec::{Compare, Spec};
use crate::fetch::sink::{Here, Replica, SinkError};
use crate::fetch::{Address, Entry, EntryKind, Fault, Listing, Name, NameError};
use crate::jobs::manifest::Record;
use crate::jobs::pull::{End, Fate, Feed, Moment, Next, Task, To, Want};

/// Deeper trees are nobody's, or a trap.
pub const DEEPEST: usize = 64;

/// More folders than this do not wait.
const MOST_PENDING: usize = 1_000_000;

/// A replica whose original was this young when it was seen may have been changed again within the same minute.
const YOUNG_S: i64 = 120;

/// So many replicas are looked at in one go: a folder may have a million, and somebody else may be in a hurry.
const AT_ONCE: usize = 64;

/// How far a coarse time may be from the real one: no zone is farther away, and some listings tell the day only.
const COARSE_S: i64 = (15 + 24) * 3_600;

/// What is known of the tree that is here.
pub trait Replicas: Send {
    /// What is there under a name, and what is remembered of it.
    fn look(&mut self, below: &[Name], name: &Name) -> Result<Option<(Here, Option<Record>)>, SinkError>;

    /// Remember this.
    fn note(&mut self, note: Note);
}

/// A replica that is to be remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The folders down to it.
    pub below: Vec<Name>,
    /// Its name.
    pub name: Name,
    /// When the original was changed, if the listing says so exactly.
    pub exact_s: Option<i64>,
    /// The same, if it does not.
    pub coarse_s: Option<i64>,
    /// Its SHA-256, if that is known.
    pub sha256: Option<[u8; 32]>,
    /// Whether it was pulled just now.
    pub is_new: bool,
    /// When this was, in seconds since 1970.
    pub now_s: i64,
}

/// A folder of the source.
#[derive(Debug)]
struct Place {
    address: Address,
    below: Vec<Name>,
}

/// A folder that waits to be listed.
#[derive(Debug)]
struct Visit {
    parent: Arc<Place>,
    /// `None` for the root.
    name: Option<Name>,
}

/// A file that was given to the puller.
#[derive(Debug)]
struct OnItsWay {
    place: Arc<Place>,
    entry: Entry,
}

/// The walk.
#[derive(Debug)]
pub struct Walk<R> {
    spec: Arc<Spec>,
    here: R,
    pending: Vec<Visit>,
    /// The folder that is being listed.
    listing: Option<(usize, Arc<Place>)>,
    /// The folder whose files are being pulled.
    current: Option<(Arc<Place>, VecDeque<Entry>)>,
    on_their_way: BTreeMap<usize, OnItsWay>,
    next_id: usize,
    /// Sizes of all that was begun; what has come counts as it came.
    begun_bytes: u64,
    is_full: bool,
    found: Found,
}

/// Whether a file is as old as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Age {
    Right,
    Wrong,
    /// Only the source can tell whether it was changed within these times.
    AskFor(RangeInclusive<i64>),
}

/// What is to be done about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    UpToDate,
    Pull(Why),
}

impl<R: Replicas> Walk<R> {
    /// Begins at the root.
    pub fn new(spec: Arc<Spec>, here: R) -> Self {
        let root = Arc::new(Place { address: spec.source.clone(), below: Vec::new() });
        Self {
            spec,
            here,
            pending: vec![Visit { parent: root, name: None }],
            listing: None,
            current: None,
            on_their_way: BTreeMap::new(),
            next_id: 0,
            begun_bytes: 0,
            is_full: false,
            found: Found::default(),
        }
    }

    /// What came of it.
    pub fn finish(mut self) -> Found {
        let is_over = self.pending.is_empty() && self.listing.is_none() && self.current.is_none();
        self.found.counts.left += self.on_their_way.len() as u64;
        self.found.is_full = self.is_full;
        let Counts { failed, refused, left, .. } = self.found.counts;
        self.found.is_whole = is_over && !self.is_full;
        self.found.is_complete = self.found.is_whole && failed + refused + left == 0;
        self.found
    }

    fn id(&mut self) -> usize {
        self.next_id += 1;
        self.next_id
    }

    fn trouble(&mut self, path: String, what: What) {
        self.found.add(Trouble { path, what });
    }

    /// The next folder to be listed.
    fn visit(&mut self) -> Option<(usize, Address)> {
        if self.is_full {
            return None;
        }
        let Visit { parent, name } = self.pending.pop()?;
        let place = match name {
            None => parent,
            Some(name) => {
                let address = parent.address.folder(&name);
                let below = parent.below.iter().cloned().chain([name]).collect();
                Arc::new(Place { address, below })
            }
        };
        let id = self.id();
        let address = place.address.clone();
        self.listing = Some((id, place));
        Some((id, address))
    }

    fn listed(&mut self, place: Arc<Place>, listing: Result<Listing, Fault>, at: Moment) {
        let path = path_of(&place.below, "");
        let listing = match listing {
            Ok(listing) => listing,
            Err(fault) => return self.trouble(path, What::List(fault)),
        };
        self.found.counts.folders += 1;
        self.found.counts.entries += listing.entries.len() as u64;
        self.found.root_entries.get_or_insert(listing.entries.len());
        if listing.truncated {
            self.trouble(path, What::Truncated);
        }
        for (name, why) in listing.refused {
            if why == NameError::Hidden {
                self.found.counts.hidden += 1;
            } else {
                self.trouble(format!("{}{name}", path_of(&place.below, "")), What::Name(why));
            }
        }
        let mut files = Vec::new();
        let mut folders = Vec::new();
        for entry in listing.entries {
            if self.is_meant(&place, &entry, at) {
                let list = if entry.kind == EntryKind::File { &mut files } else { &mut folders };
                list.push(entry);
            }
        }
        self.found.counts.files += files.len() as u64;
        self.spec.order.sort(&mut files);
        for folder in folders.into_iter().rev() {
            self.add_folder(&place, folder.name);
        }
        self.current = Some((place, files.into()));
    }

    /// Whether an entry is meant. What is there is remembered, so that it is not removed here.
    fn is_meant(&mut self, place: &Place, entry: &Entry, at: Moment) -> bool {
        let path = path_of(&place.below, entry.name.as_str());
        let is_meant = match entry.kind {
            EntryKind::File => {
                self.spec.filter.allows_file(&path, entry.size, entry.modified_s, at.wall_s)
                    && self.age(entry, at) != Age::Wrong
            }
            EntryKind::Folder => self.spec.filter.allows_folder(&path),
        };
        if !is_meant {
            self.found.counts.excluded += 1;
        }
        if let Some(delete) = &self.spec.delete
            && (is_meant || !delete.excluded)
        {
            self.found.seen.insert(&path, entry.kind);
        }
        is_meant
    }

    /// What a listing without exact times says of a file's age.
    fn age(&self, entry: &Entry, at: Moment) -> Age {
        let times = self.spec.filter.changed_within(at.wall_s).filter(|_| entry.modified_s.is_none());
        let Some(times) = times else { return Age::Right };
        let Some(coarse_s) = entry.coarse_s else { return Age::AskFor(times) };
        let (first, last) = (coarse_s.saturating_sub(COARSE_S), coarse_s.saturating_add(COARSE_S));
        if last < *times.start() || first > *times.end() {
            Age::Wrong
        } else if times.contains(&first) && times.contains(&last) {
            Age::Right
        } else {
            Age::AskFor(times)
        }
    }

    fn add_folder(&mut self, place: &Arc<Place>, name: Name) {
        let path = path_of(&place.below, name.as_str());
        if place.below.len() + 1 >= DEEPEST {
            return self.trouble(path, What::Bound("deeper than 64 folders"));
        }
        if self.pending.len() >= MOST_PENDING {
            return self.trouble(path, What::Bound("more than a million folders wait to be listed"));
        }
        match self.here.look(&place.below, &name) {
            Ok(None | Some((Here::Folder, _))) => {
                self.pending.push(Visit { parent: Arc::clone(place), name: Some(name) });
            }
            Ok(Some((here, _))) => {
                self.found.conflicts += u64::from(matches!(here, Here::File(_)));
                let link = here == Here::Other("a symbolic link");
                let path_here = self.spec.target.join(&path);
                self.trouble(path, What::Here(SinkError::NotAFolder { path: path_here, link }));
            }
            Err(error) => self.trouble(path, What::Here(error)),
        }
    }

    /// What is to be done for a file, if anything is.
    fn consider(&mut self, place: &Arc<Place>, entry: Entry, at: Moment) -> Option<(usize, Want)> {
        let path = path_of(&place.below, entry.name.as_str());
        let in_the_way = |path: &str| self.spec.target.join(path);
        let verdict = match self.here.look(&place.below, &entry.name) {
            Ok(None) => Verdict::Pull(Why::New),
            Ok(Some((Here::File(replica), record))) => {
                self.compare(place, &entry, replica, record.as_ref(), at)
            }
            Ok(Some((Here::Folder, _))) => {
                let what = What::Here(SinkError::IsFolder { path: in_the_way(&path) });
                self.found.conflicts += 1;
                self.trouble(path, what);
                return None;
            }
            Ok(Some((Here::Other(what), _))) => {
                let what = What::Here(SinkError::NotAFile { path: in_the_way(&path), what });
                self.trouble(path, what);
                return None;
            }
            Err(error) => {
                self.trouble(path, What::Here(error));
                return None;
            }
        };
        match verdict {
            Verdict::UpToDate => self.found.counts.up_to_date += 1,
            Verdict::Pull(_) if !self.has_room(&entry) => {}
            Verdict::Pull(why) if self.spec.dry_run => {
                let why = if self.age(&entry, at) == Age::Right { why } else { Why::Unsure };
                self.found.counts.planned += 1;
                self.found.planned.push(Planned { path, size: entry.size, why });
            }
            Verdict::Pull(why) => return Some(self.want(place, entry, why, at)),
        }
        None
    }

    fn compare(
        &mut self,
        place: &Place,
        entry: &Entry,
        replica: Replica,
        record: Option<&Record>,
        at: Moment,
    ) -> Verdict {
        let verdict = verdict(self.spec.compare, entry, replica, record);
        if verdict == Verdict::UpToDate && record.is_none() && !self.spec.dry_run {
            let note = Note { is_new: false, ..note(place, entry, None, at) };
            self.here.note(note);
        }
        verdict
    }

    /// Whether one more file may be pulled. The first that may not ends the walk: what is left comes with the next one.
    fn has_room(&mut self, entry: &Entry) -> bool {
        // Without a word about its size a file is taken for one byte: it fits if anything does.
        let bytes = self.begun_bytes.saturating_add(entry.size.unwrap_or(0));
        let least = bytes.saturating_add(u64::from(entry.size.is_none()));
        if self.spec.max_transfer.is_some_and(|most| least > most) {
            self.is_full = true;
            self.found.counts.left += 1;
            return false;
        }
        self.begun_bytes = bytes;
        true
    }

    /// Whether the room that is left depends on files of unknown size that have not come yet.
    fn is_room_unsure(&self) -> bool {
        self.spec.max_transfer.is_some() && self.on_their_way.values().any(|file| file.entry.size.is_none())
    }

    fn want(&mut self, place: &Arc<Place>, entry: Entry, why: Why, at: Moment) -> (usize, Want) {
        let changed_within = match self.age(&entry, at) {
            Age::AskFor(times) => Some(times),
            Age::Right | Age::Wrong => None,
        };
        let id = self.id();
        let root: PathBuf = self.spec.target.clone();
        let want = Want {
            address: place.address.file(&entry.name),
            to: To::File { root, below: place.below.clone(), name: entry.name.clone() },
            expected: None,
            ask_first: why == Why::Unsure,
            changed_within,
        };
        self.on_their_way.insert(id, OnItsWay { place: Arc::clone(place), entry });
        (id, want)
    }

    fn pulled(&mut self, OnItsWay { place, entry }: OnItsWay, fate: Fate, at: Moment) {
        match fate {
            Fate::Pulled { size, sha256, .. } => {
                self.found.counts.pulled += 1;
                let more = size.saturating_sub(entry.size.unwrap_or(0));
                self.begun_bytes = self.begun_bytes.saturating_add(more);
                self.here.note(note(&place, &entry, sha256, at));
            }
            Fate::UpToDate => {
                self.found.counts.up_to_date += 1;
                self.begun_bytes = self.begun_bytes.saturating_sub(entry.size.unwrap_or(0));
                self.here.note(Note { is_new: false, ..note(&place, &entry, None, at) });
            }
            Fate::NotMeant => {
                self.found.counts.excluded += 1;
                self.found.counts.files -= 1;
                self.begun_bytes = self.begun_bytes.saturating_sub(entry.size.unwrap_or(0));
            }
            Fate::Failed(error) => {
                let path = path_of(&place.below, entry.name.as_str());
                self.trouble(path, What::Pull(error));
            }
            Fate::Interrupted | Fate::Planned { .. } => self.found.counts.left += 1,
        }
    }
}

fn note(place: &Place, entry: &Entry, sha256: Option<[u8; 32]>, at: Moment) -> Note {
    Note {
        below: place.below.clone(),
        name: entry.name.clone(),
        exact_s: entry.exact_s(),
        coarse_s: entry.coarse_s,
        sha256,
        is_new: true,
        now_s: at.wall_s,
    }
}

/// Whether the replica that is here is the file that a listing shows.
fn verdict(compare: Compare, entry: &Entry, replica: Replica, record: Option<&Record>) -> Verdict {
    let same_size = entry.size.map(|size| size == replica.size);
    match (compare, same_size) {
        (Compare::Exists, _) | (Compare::Size, Some(true)) => Verdict::UpToDate,
        (_, Some(false)) => Verdict::Pull(Why::Size),
        (Compare::Size, None) | (Compare::Checksum, _) => Verdict::Pull(Why::Unsure),
        (Compare::Mtime, _) => by_time(entry, replica, record),
    }
}

/// A time to the second decides. A coarse one only says whether the source is as it was when we last knew for sure.
fn by_time(entry: &Entry, replica: Replica, record: Option<&Record>) -> Verdict {
    let as_we_left_it = record.filter(|record| {
        record.size == replica.size && record.replica_s.is_some_and(|time| time == replica.modified_s)
    });
    match (entry.exact_s(), entry.coarse_s) {
        (Some(exact), _) => {
            let is_same = exact == replica.modified_s
                || as_we_left_it.is_some_and(|record| record.modified_s == Some(exact));
            match (is_same, entry.size) {
                (true, Some(_)) => Verdict::UpToDate,
                (true, None) => Verdict::Pull(Why::Unsure),
                (false, _) => Verdict::Pull(Why::Time),
            }
        }
        (None, Some(coarse)) if as_we_left_it.is_some_and(|record| is_settled(record, coarse)) => {
            Verdict::UpToDate
        }
        (None, _) => Verdict::Pull(Why::Unsure),
    }
}

/// Whether a coarse time still means the version that is remembered: the same time, and one that was over when it was seen.
fn is_settled(record: &Record, coarse_s: i64) -> bool {
    record.listed.zip(record.modified_s).is_some_and(|(listed, modified_s)| {
        listed.coarse_s == coarse_s && listed.seen_s.saturating_sub(modified_s) >= YOUNG_S
    })
}

impl<R: Replicas> Feed for Walk<R> {
    fn next(&mut self, at: Moment) -> Next {
        if let Some((place, mut files)) = self.current.take() {
            for looked in 0.. {
                if looked == AT_ONCE {
                    self.current = Some((place, files));
                    return Next::Again;
                }
                if self.is_room_unsure() {
                    self.current = Some((place, files));
                    return Next::Wait(None);
                }
                let Some(entry) = files.pop_front() else { break };
                if self.is_full {
                    self.found.counts.left += 1 + files.len() as u64;
                    break;
                }
                if let Some((id, want)) = self.consider(&place, entry, at) {
                    self.current = Some((place, files));
                    return Next::Task(id, Task::Pull(want));
                }
            }
        }
        if self.listing.is_some() {
            return Next::Wait(None);
        }
        match self.visit() {
            Some((id, address)) => Next::Task(id, Task::List(address)),
            None => Next::Done,
        }
    }

    fn ended(&mut self, id: usize, end: End, at: Moment) {
        match end {
            End::Listed(listing) => {
                if let Some((_, place)) = self.listing.take_if(|(listing, _)| *listing == id) {
                    self.listed(place, listing, at);
                }
            }
            End::Pulled(fate) => {
                if let Some(file) = self.on_their_way.remove(&id) {
                    self.pulled(file, fate, at);
                }
            }
            // A mirror follows nothing.
            End::Followed(_) => {}
        }
    }

    fn outlook(&self) -> Option<Address> {
        let visit = self.pending.last().map(|visit| visit.parent.address.clone());
        self.listing.as_ref().map(|(_, place)| place.address.clone()).or(visit)
    }
}

#[cfg(test)]
mod tests;
