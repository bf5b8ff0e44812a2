//! The walk through the source's tree: a [`Feed`] that lists folder by folder, compares with what is here, and wants the rest.
//!
//! ```text
//!   pending folders ──> List ──> one folder's entries ──> filter, order ──> here? ──> Pull
//!                                   └─ its folders ──> pending (depth first)
//! ```
//!
//! | file | what it does |
//! |---|---|
//! | `folder` | takes a listing apart: what is meant, which folders follow, which are empty |
//! | `replicas` | what it wants to know of the tree that is here, and what is to be remembered |
//! | `asking` | asks what an entry is: names that may be folders, symbolic links |
//!
//! No clock, disk or socket: what is here is told by [`Replicas`]. In memory are the folders that wait, the entries of one
//! folder, and 8 bytes for each name if what was there is asked for later. A plan moves to a temporary file if it is long.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;

mod asking;
mod folder;
mod replicas;

use super::compare::{Verdict, as_we_left_it, verdict};
use super::found::{Counts, Found, Planned, Trouble, What, Why, path_of};
use super::links::Below;
use super::spec::{Compare, Spec};
use crate::fetch::engine::PullError;
use crate::fetch::sink::{Here, Replica, SinkError};
use crate::fetch::{Address, Entry, Fault, Name, listing};
use crate::jobs::manifest::Record;
use crate::jobs::pull::{End, Fate, Feed, Moment, Next, Task, To, Want};
use replicas::note;
pub use replicas::{Note, Replicas};

/// Deeper trees are nobody's, or a trap.
pub const DEEPEST: usize = 64;

/// More folders than this do not wait.
const MOST_PENDING: usize = 1_000_000;

/// So many replicas are looked at in one go: a folder may have a million, and somebody else may be in a hurry.
const AT_ONCE: usize = 64;

/// A folder of the source.
#[derive(Debug)]
struct Place {
    address: Address,
    below: Vec<Name>,
    /// The folder above it; `None` for the root.
    parent: Option<Arc<Place>>,
    /// Its path at the source without links, if that is known.
    real: Option<Below>,
    /// Number of symbolic links on the way to it.
    links: usize,
    /// Fingerprint of its listing, once listed.
    fingerprint: Option<[u8; 16]>,
}

/// A folder that waits to be listed.
#[derive(Debug)]
struct Visit {
    parent: Arc<Place>,
    /// `None` for the root.
    name: Option<Name>,
    way: Way,
}

/// How a folder is reached from the one above it.
#[derive(Debug)]
enum Way {
    Direct,
    /// Through a symbolic link to this path below the root, if that is known.
    Link(Option<Below>),
}

/// An entry of the folder that is looked at.
#[derive(Clone, Debug)]
struct Item {
    entry: Entry,
    /// Whether it is certainly a file.
    is_sure: bool,
}

/// The files of a folder that are still to be looked at, in little memory.
#[derive(Debug, Default)]
struct Files {
    listed: listing::IntoIter,
    is_sure: bool,
    /// Entries that turned out to be files.
    more: VecDeque<Item>,
}

impl Files {
    fn new(listed: listing::Entries, is_sure: bool) -> Self {
        Self { listed: listed.into_iter(), is_sure, more: VecDeque::new() }
    }

    fn push(&mut self, item: Item) {
        self.more.push_back(item);
    }

    fn next(&mut self) -> Option<Item> {
        let listed = self.listed.next().map(|entry| Item { entry, is_sure: self.is_sure });
        listed.or_else(|| self.more.pop_front())
    }

    fn len(&self) -> usize {
        self.listed.len() + self.more.len()
    }
}

/// A file that was given to the puller.
#[derive(Debug)]
struct OnItsWay {
    place: Arc<Place>,
    item: Item,
    why: Why,
    /// Whether the source is asked for its age.
    asks_age: bool,
    /// SHA-256 of the replica that it replaces.
    sha256: Option<[u8; 32]>,
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
    current: Option<(Arc<Place>, Files)>,
    /// Its entries of unknown type, to be asked for.
    questions: VecDeque<asking::Question>,
    asked: BTreeMap<usize, asking::Question>,
    /// The source writes a slash behind the names of folders.
    marks_folders: bool,
    on_their_way: BTreeMap<usize, OnItsWay>,
    next_id: usize,
    /// Sizes of all that was begun; what has come counts as it came.
    begun_bytes: u64,
    is_full: bool,
    /// In a plan: what is in the way of a file or folder is taken as removed.
    replaces: bool,
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

impl<R: Replicas> Walk<R> {
    /// Begins at the root.
    pub fn new(spec: Arc<Spec>, here: R) -> Self {
        let root = Arc::new(Place {
            address: spec.source.clone(),
            below: Vec::new(),
            parent: None,
            real: Some(Below::new()),
            links: 0,
            fingerprint: None,
        });
        let marks_folders = spec.source.scheme().is_ftp();
        Self {
            spec,
            here,
            pending: vec![Visit { parent: root, name: None, way: Way::Direct }],
            listing: None,
            current: None,
            questions: VecDeque::new(),
            asked: BTreeMap::new(),
            marks_folders,
            on_their_way: BTreeMap::new(),
            next_id: 0,
            begun_bytes: 0,
            is_full: false,
            replaces: false,
            found: Found::default(),
        }
    }

    /// Plans as if everything that is in the way of a file or folder had been removed.
    #[must_use]
    pub fn replacing(self, replaces: bool) -> Self {
        Self { replaces, ..self }
    }

    /// What came of it.
    pub fn finish(mut self) -> Found {
        let is_asked = self.questions.is_empty() && self.asked.is_empty();
        let is_over = self.pending.is_empty() && self.listing.is_none() && self.current.is_none() && is_asked;
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
        let Visit { parent, name, way } = self.pending.pop()?;
        let place = match name {
            None => parent,
            Some(name) => {
                let address = parent.address.folder(&name);
                let (real, links) = match way {
                    Way::Link(target) => (target, parent.links + 1),
                    Way::Direct => {
                        let real = parent.real.as_ref().map(|real| [&real[..], &[name.to_bytes()]].concat());
                        (real, parent.links)
                    }
                };
                let below = parent.below.iter().cloned().chain([name]).collect();
                Arc::new(Place { address, below, parent: Some(parent), real, links, fingerprint: None })
            }
        };
        let id = self.id();
        let address = place.address.clone();
        self.listing = Some((id, place));
        Some((id, address))
    }

    /// What is to be done for a file, if anything is.
    fn consider(&mut self, place: &Arc<Place>, item: Item, at: Moment) -> Option<(usize, Want)> {
        let path = path_of(&place.below, item.entry.name.as_str());
        let in_the_way = |path: &str| self.spec.target.join(path);
        let (verdict, record) = match self.here.look(&place.below, &item.entry.name) {
            Ok(None) => (Verdict::Pull(Why::New), None),
            Ok(Some((Here::File(replica), record))) => {
                let verdict = self.compare(place, &item.entry, replica, record.as_ref(), at);
                (verdict, record.filter(|record| as_we_left_it(replica, Some(record)).is_some()))
            }
            Ok(Some((Here::Folder, _))) if !item.is_sure => {
                self.question(place, item.entry, asking::About::Type);
                return None;
            }
            Ok(Some((Here::Folder, _))) if self.replaces => (Verdict::Pull(Why::New), None),
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
            // A folder needs no room.
            Verdict::Pull(_) if !item.is_sure && self.spec.max_transfer.is_some() => {
                self.question(place, item.entry, asking::About::Type);
            }
            Verdict::Pull(_) if !self.has_room(&item.entry) => {}
            Verdict::Pull(why) if self.spec.dry_run && self.is_plain(&item, why, at) => {
                self.found.counts.planned += 1;
                self.found.planned.push(&Planned { path, size: item.entry.size, why });
            }
            Verdict::Pull(why) => return Some(self.want(place, item, why, record, at)),
        }
        None
    }

    /// Whether a dry run may plan a file by its listing alone. It asks the source wherever a real run might end otherwise.
    fn is_plain(&self, item: &Item, why: Why, at: Moment) -> bool {
        let is_listed = item.is_sure && item.entry.size.is_some() && self.spec.compare != Compare::Checksum;
        is_listed && !matches!(why, Why::Unsure | Why::Recent) && self.age(&item.entry, at) == Age::Right
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
            let is_proven = self.compares_times();
            self.here.note(Note { is_new: false, is_proven, ..note(place, entry, at) });
        }
        verdict
    }

    /// Whether equal means more than an equal size.
    fn compares_times(&self) -> bool {
        matches!(self.spec.compare, Compare::Mtime | Compare::Checksum)
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

    /// Whether the room that is left depends on files of which the source has not told yet how much will come.
    fn is_room_unsure(&self) -> bool {
        let is_unsure =
            |file: &OnItsWay| file.item.entry.size.is_none() || file.asks_age || file.why == Why::Unsure;
        self.spec.max_transfer.is_some() && self.on_their_way.values().any(is_unsure)
    }

    fn want(
        &mut self,
        place: &Arc<Place>,
        item: Item,
        why: Why,
        record: Option<Record>,
        at: Moment,
    ) -> (usize, Want) {
        let changed_within = match self.age(&item.entry, at) {
            Age::AskFor(times) => Some(times),
            Age::Right | Age::Wrong => None,
        };
        let id = self.id();
        let (known_etag, sha256) = record.map(|record| (record.etag, record.sha256)).unwrap_or_default();
        let root: PathBuf = self.spec.target.clone();
        let want = Want {
            address: place.address.file(&item.entry.name),
            to: To::File { root, below: place.below.clone(), name: item.entry.name.clone() },
            expected: None,
            ask_first: why == Why::Unsure || (why == Why::Recent && self.spec.dry_run),
            changed_within,
            known_etag,
        };
        let asks_age = want.changed_within.is_some();
        self.on_their_way.insert(id, OnItsWay { place: Arc::clone(place), item, why, asks_age, sha256 });
        (id, want)
    }

    fn pulled(&mut self, file: OnItsWay, fate: Fate, at: Moment) {
        let OnItsWay { place, item: Item { entry, .. }, why, sha256: before, .. } = file;
        match fate {
            Fate::Pulled { size, sha256, modified_s, etag } => {
                // What was pulled only to be sure was up to date if it is the same.
                if why == Why::Recent && sha256.is_some() && sha256 == before {
                    self.found.counts.up_to_date += 1;
                } else {
                    self.found.counts.pulled += 1;
                }
                let more = size.saturating_sub(entry.size.unwrap_or(0));
                self.begun_bytes = self.begun_bytes.saturating_add(more);
                self.here.note(Note { version_s: modified_s, etag, sha256, ..note(&place, &entry, at) });
            }
            Fate::UpToDate(version) => {
                self.found.counts.up_to_date += 1;
                self.begun_bytes = self.begun_bytes.saturating_sub(entry.size.unwrap_or(0));
                let (version_s, etag) =
                    version.map(|version| (version.modified_s, version.tag())).unwrap_or_default();
                let is_proven = self.compares_times();
                let note = note(&place, &entry, at);
                self.here.note(Note { is_new: false, is_proven, version_s, etag, ..note });
            }
            Fate::NotMeant => {
                self.found.counts.excluded += 1;
                self.found.counts.files -= 1;
                self.begun_bytes = self.begun_bytes.saturating_sub(entry.size.unwrap_or(0));
            }
            // Some index pages list folders like files; the source itself tells the difference.
            Fate::Failed(PullError::Source(Fault::IsFolder(_))) => {
                self.begun_bytes = self.begun_bytes.saturating_sub(entry.size.unwrap_or(0));
                self.found.counts.files -= 1;
                self.add_folder_listed_as_file(&place, entry, at);
            }
            Fate::Failed(error) => {
                let path = path_of(&place.below, entry.name.as_str());
                self.trouble(path, What::Pull(error));
            }
            Fate::Planned { size } => {
                let path = path_of(&place.below, entry.name.as_str());
                let why = if matches!(why, Why::Unsure | Why::Recent) { Why::Changed } else { why };
                let more = size.unwrap_or(0).saturating_sub(entry.size.unwrap_or(0));
                self.begun_bytes = self.begun_bytes.saturating_add(more);
                self.found.counts.planned += 1;
                self.found.planned.push(&Planned { path, size: entry.size.or(size), why });
            }
            Fate::Interrupted => self.found.counts.left += 1,
        }
    }
}

impl<R: Replicas> Walk<R> {
    /// The next task for an entry of the folder that is looked at.
    fn next_of_folder(&mut self, at: Moment) -> Option<Next> {
        if self.is_full {
            self.questions.clear();
        } else if let Some(question) = self.questions.pop_front() {
            let (id, address) = (self.id(), question.address());
            self.asked.insert(id, question);
            return Some(Next::Task(id, Task::Resolve(address)));
        }
        let (place, mut files) = self.current.take()?;
        for looked in 0.. {
            if looked == AT_ONCE {
                self.current = Some((place, files));
                return Some(Next::Again);
            }
            if self.is_room_unsure() {
                self.current = Some((place, files));
                return Some(Next::Wait(None));
            }
            let Some(item) = files.next() else { break };
            if self.is_full {
                self.found.counts.left += 1 + files.len() as u64;
                break;
            }
            if let Some((id, want)) = self.consider(&place, item, at) {
                self.current = Some((place, files));
                return Some(Next::Task(id, Task::Pull(want)));
            }
        }
        (!self.questions.is_empty()).then_some(Next::Again)
    }
}

impl<R: Replicas> Feed for Walk<R> {
    fn next(&mut self, at: Moment) -> Next {
        if let Some(next) = self.next_of_folder(at) {
            return next;
        }
        // An answer may bring more for this folder.
        if self.listing.is_some() || !self.asked.is_empty() {
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
            End::Resolved(target) => {
                if let Some(question) = self.asked.remove(&id) {
                    self.resolved(question, target, at);
                }
            }
            // A walk follows and probes nothing.
            End::Followed(_) | End::Probed(_) => {}
        }
    }

    fn outlook(&self) -> Option<Address> {
        let visit = self.pending.last().map(|visit| visit.parent.address.clone());
        self.listing.as_ref().map(|(_, place)| place.address.clone()).or(visit)
    }
}

#[cfg(test)]
mod tests;
