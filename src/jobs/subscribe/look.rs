//! One look at a source: its folder, and those below it, listed one after the other. Used by the stream alone; pure.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::fetch::{Address, EntryKind, Name, NameError, PackedListing};
use crate::jobs::filter::Filter;

/// Deeper folders are not looked at.
const DEEPEST: usize = 16;

/// No more files are remembered of one look: a stream that has more wants to be several.
const MOST_FILES: usize = 1_000_000;

/// No more folders wait to be listed.
const MOST_FOLDERS: usize = 100_000;

/// Some listings tell whole minutes, rounded down.
pub(super) const MINUTE_S: i64 = 60;

/// A file as a look saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) below: Vec<Name>,
    pub(super) name: Name,
    pub(super) size: Option<u64>,
    pub(super) modified_s: Option<i64>,
}

/// A look that goes on.
#[derive(Debug, Default)]
pub(super) struct Look {
    folders: VecDeque<(Address, Vec<Name>)>,
    /// The listing that was asked for.
    asked: Option<(usize, Vec<Name>)>,
    pub(super) files: BTreeMap<String, Seen>,
    /// The source, or a bound, has left something out: what is missing may still be there.
    pub(super) is_partial: bool,
    /// Paths that were refused, and why.
    pub(super) refused: Vec<(String, NameError)>,
    /// Paths of symbolic links.
    pub(super) links: Vec<String>,
}

impl Look {
    pub(super) fn new(root: Address) -> Self {
        Self { folders: VecDeque::from([(root, Vec::new())]), ..Self::default() }
    }

    /// The next folder to list, if none is being listed.
    pub(super) fn next(&mut self, id: usize) -> Option<Address> {
        if self.asked.is_some() {
            return None;
        }
        let (address, below) = self.folders.pop_front()?;
        self.asked = Some((id, below));
        Some(address)
    }

    /// Whether this task is a listing of this look's.
    pub(super) fn has_asked(&self, id: usize) -> bool {
        self.asked.as_ref().is_some_and(|(asked, _)| *asked == id)
    }

    /// Whether it is the first listing that was asked for.
    pub(super) fn is_at_root(&self) -> bool {
        self.asked.as_ref().is_some_and(|(_, below)| below.is_empty())
    }

    /// A folder below the first one cannot be listed.
    pub(super) fn skip(&mut self) {
        self.asked = None;
        self.is_partial = true;
    }

    /// Refuses names that the target would take for another one that is meant.
    pub(super) fn refuse_twins(&self, listing: &mut PackedListing, filter: &Filter) {
        let twins = listing.twins();
        let Some((_, below)) = self.asked.as_ref().filter(|_| !twins.is_empty()) else { return };
        listing.refuse_twins(&twins, |name, kind| filter.allows_entry(&path_of(below, name), kind));
    }

    /// A folder was listed. Folders in it are looked at afterwards, if that is wanted.
    /// `folders` are known as such, although the source lists them like files.
    pub(super) fn listed(
        &mut self,
        listing: PackedListing,
        root: &Address,
        deep: Option<&Filter>,
        folders: &BTreeSet<String>,
    ) {
        let Some((_, below)) = self.asked.take() else { return };
        self.is_partial |= listing.truncated;
        let above = below.iter().fold(String::new(), |path, name| format!("{path}{name}/"));
        for (name, why) in listing.refused {
            let is_out_of_sight = why == NameError::Hidden || (name.ends_with('/') && deep.is_none());
            if !is_out_of_sight && self.refused.len() < MOST_FILES {
                self.refused.push((format!("{above}{name}"), why));
            }
        }
        for link in listing.links.iter().take(MOST_FILES.saturating_sub(self.links.len())) {
            self.links.push(path_of(&below, &link.name));
        }
        let folder = below.iter().fold(root.clone(), |folder, name| folder.folder(name));
        for entry in listing.entries {
            let path = path_of(&below, &entry.name);
            let kind = if folders.contains(&path) { EntryKind::Folder } else { entry.kind };
            match (kind, deep) {
                (EntryKind::File, _) if self.files.len() >= MOST_FILES => self.is_partial = true,
                (EntryKind::File, _) => {
                    let (size, modified_s) = (entry.size, entry.modified_s);
                    let seen = Seen { below: below.clone(), name: entry.name, size, modified_s };
                    self.files.insert(path, seen);
                }
                (EntryKind::Folder, Some(filter)) if filter.allows_folder(&path) => {
                    if below.len() >= DEEPEST || self.folders.len() >= MOST_FOLDERS {
                        self.is_partial = true;
                    } else {
                        let inside = below.iter().chain([&entry.name]).cloned().collect();
                        self.folders.push_back((folder.folder(&entry.name), inside));
                    }
                }
                (EntryKind::Folder, _) => {}
            }
        }
    }

    /// Whether the source tells times in whole minutes.
    pub(super) fn is_by_minute(&self) -> bool {
        let mut times = self.files.values().filter_map(|seen| seen.modified_s);
        times.all(|modified_s| modified_s.rem_euclid(MINUTE_S) == 0)
    }

    /// Whether every folder was listed.
    pub(super) fn is_over(&self) -> bool {
        self.folders.is_empty() && self.asked.is_none()
    }
}

/// The path of a file below the target.
pub(super) fn path_of(below: &[Name], name: &Name) -> String {
    let mut path = String::new();
    for folder in below {
        path.push_str(folder.as_str());
        path.push('/');
    }
    path.push_str(name.as_str());
    path
}
