//! Entries of which the listing does not tell what they are: the source is asked. These are names without a slash on index
//! pages that may list folders like files, and symbolic links.

use std::sync::Arc;

use super::{Files, Item, Moment, Place, Replicas, Walk, Way};
use crate::fetch::engine::PullError;
use crate::fetch::{Address, Entry, EntryKind, Fault, Link, LinkTarget, escape};
use crate::jobs::mirror::found::{SkippedLink, What, path_of};
use crate::jobs::mirror::links::{Below, Leads, leads};
use crate::jobs::mirror::spec::Links;

/// Of more skipped links than this only the number is kept.
const MOST_TOLD: usize = 1_000;

/// An entry whose type is asked for.
#[derive(Debug)]
pub(super) struct Question {
    place: Arc<Place>,
    entry: Entry,
    about: About,
}

/// Why it is asked for.
#[derive(Debug)]
pub(super) enum About {
    /// It is meant, as a file or as a folder.
    Type,
    /// It is not meant as a file, but a folder of this name is.
    LeftOut,
    /// It is a symbolic link, to this path below the root if that is known; and the target as stated, escaped.
    Link(Option<Below>, Option<String>),
}

impl Question {
    pub(super) fn address(&self) -> Address {
        self.place.address.file(&self.entry.name)
    }
}

impl<R: Replicas> Walk<R> {
    pub(super) fn question(&mut self, place: &Arc<Place>, entry: Entry, about: About) {
        self.questions.push_back(Question { place: Arc::clone(place), entry, about });
    }

    pub(super) fn resolved(
        &mut self,
        Question { place, entry, about }: Question,
        target: Result<LinkTarget, Fault>,
        at: Moment,
    ) {
        let path = path_of(&place.below, entry.name.as_str());
        let target = match target {
            Ok(target) => target,
            Err(fault) => return self.trouble(path, What::Pull(PullError::Source(fault))),
        };
        match (about, target) {
            (About::Type, LinkTarget::File(_)) => self.go_on_with(&place, entry),
            (About::Type, LinkTarget::Folder) => {
                self.found.counts.files -= 1;
                self.add_folder_listed_as_file(&place, entry, at);
            }
            (About::Type, LinkTarget::Missing) => {
                let fault = Fault::NotFound(place.address.file(&entry.name).to_string());
                self.trouble(path, What::Pull(PullError::Source(fault)));
            }
            (About::LeftOut, LinkTarget::Folder) => {
                self.found.counts.excluded -= 1;
                self.add_folder_listed_as_file(&place, entry, at);
            }
            (About::LeftOut, LinkTarget::File(_) | LinkTarget::Missing) => {}
            (About::Link(real, _), LinkTarget::Folder) => {
                self.found.counts.links_followed += 1;
                let entry = Entry { kind: EntryKind::Folder, ..entry };
                if self.is_meant(&place, &entry, at) {
                    self.add_folder(&place, entry.name, Way::Link(real));
                }
            }
            (About::Link(..), LinkTarget::File(version)) => {
                self.found.counts.links_followed += 1;
                let entry = Entry { size: version.size, modified_s: version.modified_s, ..entry };
                if self.is_meant(&place, &entry, at) {
                    self.found.counts.files += 1;
                    self.go_on_with(&place, entry);
                }
            }
            (About::Link(_, stated), LinkTarget::Missing) => {
                self.found.counts.links_broken += 1;
                self.tell_link(path, stated, "leads nowhere");
            }
        }
    }

    /// Puts an entry that is certainly a file with those of its folder.
    fn go_on_with(&mut self, place: &Arc<Place>, entry: Entry) {
        let item = Item { entry, is_sure: true };
        let (_, files) = self.current.get_or_insert_with(|| (Arc::clone(place), Files::default()));
        files.push(item);
    }

    /// A symbolic link in a listing.
    pub(super) fn meet_link(&mut self, place: &Arc<Place>, link: &Link, at: Moment) {
        let path = path_of(&place.below, link.name.as_str());
        let is_meant = self.spec.filter.allows_file(&path, None, None, at.wall_s)
            || self.spec.filter.allows_folder(&path);
        if !is_meant {
            // Not asked for, so both types are there.
            for kind in [EntryKind::File, EntryKind::Folder] {
                self.is_meant(place, &Entry { kind, ..entry_of(link) }, at);
            }
            self.found.counts.excluded -= 1;
            return;
        }
        self.found.counts.links += 1;
        let target = link.target.as_deref();
        let stated = target.map(|target| escape(&String::from_utf8_lossy(target)));
        match self.spec.links {
            Links::Skip => self.skip_link(&path, stated, "not followed"),
            Links::Fail => {
                self.found.keep_link(&path);
                self.trouble(path, What::Link);
            }
            Links::Follow => match self.leads(place, target) {
                Leads::Outside => self.skip_link(&path, stated, "leads outside the tree"),
                Leads::Inside(real) if place.is_at_or_below(&real) => {
                    self.skip_link(&path, stated, "leads back to a folder above it");
                }
                Leads::Inside(real) => self.question(place, entry_of(link), About::Link(Some(real), stated)),
                Leads::Unknown => self.question(place, entry_of(link), About::Link(None, stated)),
            },
        }
    }

    fn leads(&self, place: &Place, target: Option<&[u8]>) -> Leads {
        let path = self.spec.source.path();
        let root: Vec<Vec<u8>> =
            path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).map(<[u8]>::to_vec).collect();
        leads(&root, place.real.as_ref(), target)
    }

    pub(super) fn skip_link(&mut self, path: &str, target: Option<String>, why: &'static str) {
        self.found.counts.links_skipped += 1;
        self.tell_link(path.trim_end_matches('/').to_owned(), target, why);
    }

    /// Reports a link that brings nothing. Replicas of its name are kept.
    fn tell_link(&mut self, path: String, target: Option<String>, why: &'static str) {
        self.found.keep_link(&path);
        if self.found.links.len() < MOST_TOLD {
            self.found.links.push(SkippedLink { path, target, why });
        }
    }
}

fn entry_of(link: &Link) -> Entry {
    Entry { name: link.name.clone(), kind: EntryKind::File, size: None, modified_s: None, coarse_s: None }
}

impl Place {
    /// Whether this folder, or one on the way to it, is the folder at `real` or in it.
    fn is_at_or_below(&self, real: &Below) -> bool {
        let mut way = std::iter::successors(Some(self), |place| place.parent.as_deref());
        way.any(|place| place.real.as_ref().is_some_and(|path| path.starts_with(real)))
    }
}
