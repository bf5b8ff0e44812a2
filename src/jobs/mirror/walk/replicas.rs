//! What a walk wants to know of the tree that is here, and what it wants to be remembered of each replica.

use super::{Moment, Place};
use crate::fetch::sink::{Here, SinkError};
use crate::fetch::{Entry, Name};
use crate::jobs::manifest::Record;

/// What is known of the tree that is here.
pub trait Replicas: Send {
    /// What is there under a name, and what is remembered of it.
    fn look(&mut self, below: &[Name], name: &Name) -> Result<Option<(Here, Option<Record>)>, SinkError>;

    /// Whether the target can hold names that differ only in case or Unicode composition.
    fn distinguishes_twins(&mut self) -> bool {
        true
    }

    /// Makes a folder; a dry run only looks. True if it was not there.
    fn make_folder(&mut self, below: &[Name]) -> Result<bool, SinkError>;

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
    /// Its size, if the listing states it.
    pub size: Option<u64>,
    /// When the original was changed, if the listing says so exactly.
    pub exact_s: Option<i64>,
    /// The same, if it does not.
    pub coarse_s: Option<i64>,
    /// How far the coarse time is ahead of UTC, if the source of the listing told.
    pub zone_s: Option<i64>,
    /// When the version that the source served was changed, if the source said so.
    pub version_s: Option<i64>,
    /// Entity tag of this version.
    pub etag: Option<String>,
    /// Its SHA-256, if that is known.
    pub sha256: Option<[u8; 32]>,
    /// Whether it was pulled just now.
    pub is_new: bool,
    /// Whether the replica is known to be this version: pulled, or equal in more than size.
    pub is_proven: bool,
    /// When this was, in seconds since 1970.
    pub now_s: i64,
}

/// A note of a replica that was pulled by this entry.
pub(super) fn note(place: &Place, entry: &Entry, at: Moment) -> Note {
    Note {
        below: place.below.clone(),
        name: entry.name.clone(),
        size: entry.size,
        exact_s: entry.exact_s(),
        coarse_s: entry.coarse_s,
        zone_s: entry.coarse_s.zip(entry.modified_s).map(|(coarse_s, modified_s)| coarse_s - modified_s),
        version_s: None,
        etag: None,
        sha256: None,
        is_new: true,
        is_proven: true,
        now_s: at.wall_s,
    }
}
