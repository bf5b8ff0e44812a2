//! A listing, taken apart: what of it is meant, which folders are to be visited, and whether the folder is empty.

use std::sync::Arc;

use super::asking::About;
use super::{Age, DEEPEST, Files, MOST_PENDING, Moment, Place, Replicas, Visit, Walk, Way};
use crate::fetch::listing::Entries;
use crate::fetch::sink::{Here, SinkError};
use crate::fetch::{Entry, EntryKind, Fault, Name, NameError, PackedListing};
use crate::jobs::mirror::compare::COARSE_S;
use crate::jobs::mirror::found::{What, path_of};
use crate::jobs::mirror::links::{MOST_LINKS, fingerprint};
use crate::jobs::mirror::names;

impl<R: Replicas> Walk<R> {
    pub(super) fn listed(&mut self, place: Arc<Place>, listing: Result<PackedListing, Fault>, at: Moment) {
        let path = path_of(&place.below, "");
        let mut listing = match listing {
            Ok(listing) => listing,
            Err(fault) => return self.trouble(path, What::List(fault)),
        };
        let Some(place) = self.unless_loop(place, &listing) else { return };
        self.found.counts.folders += 1;
        self.found.counts.entries += listing.entries.len() as u64;
        self.found.root_entries.get_or_insert(listing.entries.len() + listing.links.len());
        self.make_if_empty(&place, &listing, at);
        let excluded = names::settle(&mut listing, &path, &self.spec, &mut self.here);
        self.found.counts.excluded += excluded;
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
        for link in &listing.links {
            self.meet_link(&place, link, at);
        }
        // A source that marks folders does so in every listing; formats with times to the second state the type.
        let states_types = |entry: &Entry| entry.kind == EntryKind::Folder || entry.exact_s().is_some();
        self.marks_folders |=
            listing.marks_folders || listing.entries.iter().any(|entry| states_types(&entry));
        self.take_apart(place, listing.entries, at);
    }

    fn take_apart(&mut self, place: Arc<Place>, mut entries: Entries, at: Moment) {
        let is_sure = self.marks_folders;
        entries.retain(|entry| {
            let is_meant = self.is_meant(&place, entry, at);
            // Not meant as a file, but perhaps a folder with files that are.
            let may_be_folder = entry.kind == EntryKind::File && !is_sure && !is_meant;
            if may_be_folder && self.is_meant_as_folder(&place, &entry.name) {
                self.question(&place, entry.clone(), About::LeftOut);
            }
            is_meant
        });
        let (mut files, folders) = entries.split();
        self.found.counts.files += files.len() as u64;
        self.spec.order.sort(&mut files);
        for folder in folders.into_iter().rev() {
            self.add_folder(&place, folder.name, Way::Direct);
        }
        self.current = Some((place, Files::new(files, is_sure)));
    }

    /// The folder with its fingerprint; `None` if it is one of those above it, reached through a symbolic link.
    fn unless_loop(&mut self, place: Arc<Place>, listing: &PackedListing) -> Option<Arc<Place>> {
        if !place.address.scheme().is_ftp() {
            return Some(place);
        }
        let print = fingerprint(listing);
        let mut above = std::iter::successors(place.parent.as_deref(), |place| place.parent.as_deref());
        if place.links > 0 && above.any(|above| above.fingerprint == Some(print)) {
            self.found.counts.links_followed = self.found.counts.links_followed.saturating_sub(1);
            self.skip_link(&path_of(&place.below, ""), None, "leads back to a folder above it");
            return None;
        }
        let Place { address, below, parent, real, links, .. } = &*place;
        let (address, below, parent, real) = (address.clone(), below.clone(), parent.clone(), real.clone());
        Some(Arc::new(Place { address, below, parent, real, links: *links, fingerprint: Some(print) }))
    }

    /// A folder without entries is made here, too. Other folders are made with their first file.
    fn make_if_empty(&mut self, place: &Place, listing: &PackedListing, at: Moment) {
        let is_hidden = |(_, why): &(_, NameError)| *why == NameError::Hidden;
        let is_empty = listing.entries.is_empty() && listing.links.is_empty() && !listing.truncated;
        // It is meant if a file of any name in it would be.
        let any = path_of(&place.below, "\u{1}");
        let is_meant = self.spec.filter.allows_file(&any, None, None, at.wall_s);
        if place.below.is_empty() || !is_empty || !listing.refused.iter().all(is_hidden) || !is_meant {
            return;
        }
        match self.here.make_folder(&place.below) {
            Ok(true) => {
                self.found.counts.folders_made += 1;
                self.found.folders_made.push(path_of(&place.below, ""));
            }
            Ok(false) => {}
            Err(error) => self.trouble(path_of(&place.below, ""), What::Here(error)),
        }
    }

    /// Whether an entry is meant. What is there is remembered, so that it is not removed here.
    pub(super) fn is_meant(&mut self, place: &Place, entry: &Entry, at: Moment) -> bool {
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
        if let Some(delete) = &self.spec.delete {
            let is_kept = is_meant || !delete.excluded;
            let set = if is_kept { &mut self.found.seen } else { &mut self.found.left_out };
            set.insert(&path, entry.kind);
        }
        is_meant
    }

    pub(super) fn is_meant_as_folder(&self, place: &Place, name: &Name) -> bool {
        self.spec.filter.allows_folder(&path_of(&place.below, name.as_str()))
    }

    /// What a listing without exact times says of a file's age.
    pub(super) fn age(&self, entry: &Entry, at: Moment) -> Age {
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

    pub(super) fn add_folder_listed_as_file(&mut self, place: &Arc<Place>, entry: Entry, at: Moment) {
        let path = path_of(&place.below, entry.name.as_str());
        self.found.seen.remove(&path, EntryKind::File);
        self.found.left_out.remove(&path, EntryKind::File);
        let entry = Entry { kind: EntryKind::Folder, size: None, ..entry };
        if self.is_meant(place, &entry, at) {
            self.add_folder(place, entry.name, Way::Direct);
        }
    }

    /// Adds a folder to those that wait to be listed.
    pub(super) fn add_folder(&mut self, place: &Arc<Place>, name: Name, way: Way) {
        let path = path_of(&place.below, name.as_str());
        if place.below.len() + 1 >= DEEPEST {
            return self.trouble(path, What::Bound("deeper than 64 folders"));
        }
        if matches!(way, Way::Link(_)) && place.links >= MOST_LINKS {
            return self.trouble(path, What::Bound("more than 8 symbolic links on one path"));
        }
        if self.pending.len() >= MOST_PENDING {
            return self.trouble(path, What::Bound("more than a million folders wait to be listed"));
        }
        match self.here.look(&place.below, &name) {
            Ok(Some((Here::File(_), _))) if !self.replaces => {
                self.found.conflicts += 1;
                let path_here = self.spec.target.join(&path);
                self.trouble(path, What::Here(SinkError::NotAFolder { path: path_here, link: false }));
            }
            Ok(Some((here @ Here::Other(_), _))) => {
                let link = here == Here::Other("a symbolic link");
                let path_here = self.spec.target.join(&path);
                self.trouble(path, What::Here(SinkError::NotAFolder { path: path_here, link }));
            }
            Ok(_) => self.pending.push(Visit { parent: Arc::clone(place), name: Some(name), way }),
            Err(error) => self.trouble(path, What::Here(error)),
        }
    }
}
