//! What a walk through the source's tree found: numbers, troubles, a plan, and which names there are.

use std::collections::BTreeSet;

use serde::Serialize;

use super::plan::Plan;

use crate::fetch::engine::PullError;
use crate::fetch::sink::SinkError;
use crate::fetch::{EntryKind, Fault, Name, NameError};

/// Of more troubles than this only the number is kept.
const MOST_TROUBLES: usize = 1_000;

/// A walk in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Folders that were listed.
    pub folders: u64,
    /// Entries that they have.
    pub entries: u64,
    /// Files that are meant.
    pub files: u64,
    /// Files that came.
    pub pulled: u64,
    /// Files that were here already.
    pub up_to_date: u64,
    /// Files and folders that went wrong.
    pub failed: u64,
    /// Names that are not safe, or not clear.
    pub refused: u64,
    /// Files and folders that the filter leaves out.
    pub excluded: u64,
    /// Hidden names that nobody asked for.
    pub hidden: u64,
    /// Symbolic links at the source that the filter does not leave out.
    pub links: u64,
    /// Links that were followed.
    pub links_followed: u64,
    /// Links that were not followed: `--links skip`, out of the tree, or a loop.
    pub links_skipped: u64,
    /// Links that lead nowhere.
    pub links_broken: u64,
    /// Empty folders that were made, or would be.
    pub folders_made: u64,
    /// Empty folders that were removed, or would be.
    pub folders_deleted: u64,
    /// Files that were begun and not ended, or not begun for want of `--max-transfer`.
    pub left: u64,
    /// Files that would be pulled (dry run).
    pub planned: u64,
    /// Replicas that were removed, or would be.
    pub deleted: u64,
    /// Replicas that are in no listing but were not confirmed as missing at the source.
    pub kept: u64,
}

/// Something that went wrong with one entry.
#[derive(Debug)]
pub struct Trouble {
    /// Where, below the root; escaped where a source wrote it.
    pub path: String,
    /// What.
    pub what: What,
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum What {
    /// It did not come.
    #[error(transparent)]
    Pull(PullError),
    /// It could not be listed.
    #[error("cannot be listed: {0}")]
    List(Fault),
    /// Its listing is not all.
    #[error("its listing is not complete")]
    Truncated,
    /// Its name is not for us.
    #[error("refused: {0}")]
    Name(NameError),
    /// What is here is of another kind, or cannot be looked at.
    #[error(transparent)]
    Here(SinkError),
    /// Too deep, or too much.
    #[error("{0}")]
    Bound(&'static str),
    /// A symbolic link, with `--links fail`.
    #[error("a symbolic link at the source, which --links fail does not allow")]
    Link,
    /// Files that are not in its listing exist at the source.
    #[error("its listing is not complete: it does not show {}", if *.0 == 1 { "1 file that exists".to_owned() } else { format!("{} files that exist", .0) })]
    Unlisted(u64),
    /// A file that is in no listing, and the source did not say whether it exists.
    #[error("not removed: it is in no listing, but the source does not say that it is gone: {0}")]
    Unconfirmed(Fault),
}

/// A symbolic link that brings nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkippedLink {
    /// Below the root.
    pub path: String,
    /// Its target, escaped, if the listing states it.
    pub target: Option<String>,
    /// The reason.
    pub why: &'static str,
}

impl std::fmt::Display for SkippedLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "symbolic link {} {}", self.path, self.why)?;
        self.target.as_ref().map_or(Ok(()), |target| write!(f, ": {target}"))
    }
}

/// A file that would be pulled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Planned {
    /// Below the root.
    pub path: String,
    /// If the listing says so.
    pub size: Option<u64>,
    /// Why.
    pub why: Why,
}

/// Why a file would be pulled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Why {
    /// It is not here.
    New,
    /// It has another size.
    Size,
    /// It has another time.
    Time,
    /// The listing does not tell: the source is asked.
    Unsure,
    /// The source was asked: the replica is not up to date.
    Changed,
    /// It was pulled within the second of its last change, and may have been changed again within that second.
    Recent,
}

impl Why {
    pub(super) const ALL: [Self; 6] =
        [Self::New, Self::Size, Self::Time, Self::Unsure, Self::Changed, Self::Recent];

    /// The word.
    pub fn word(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Size => "another size",
            Self::Time => "another time",
            Self::Unsure => "the source would be asked",
            Self::Changed => "changed at the source",
            Self::Recent => "pulled within the second of its last change",
        }
    }
}

/// What a walk found.
#[derive(Debug, Default)]
pub struct Found {
    /// In numbers.
    pub counts: Counts,
    /// What went wrong, the first thousand of it.
    pub troubles: Vec<Trouble>,
    /// What would be pulled.
    pub planned: Plan,
    /// What is there; empty if nobody wanted to know.
    pub seen: Seen,
    /// Entries that the filter leaves out; empty without `--delete-excluded`.
    pub left_out: Seen,
    /// Names of symbolic links that bring nothing. What is here under them is kept.
    pub kept_links: Seen,
    /// The same links for a report, the first thousand.
    pub links: Vec<SkippedLink>,
    /// Empty folders that were made, or would be.
    pub folders_made: Vec<String>,
    /// How many entries the root has, if it was listed.
    pub root_entries: Option<usize>,
    /// Entries that something of another kind is in the way of.
    pub conflicts: u64,
    /// Whether everything was seen, and everything that is meant is here.
    pub is_complete: bool,
    /// Whether nothing was left to be listed or pulled at its end.
    pub is_whole: bool,
    /// Whether `--max-transfer` ended it.
    pub is_full: bool,
}

impl Found {
    /// Whether all that went wrong is that something of another kind is in the way.
    pub fn is_only_in_the_way(&self) -> bool {
        let Counts { failed, refused, left, .. } = self.counts;
        self.is_whole && failed == self.conflicts && refused + left == 0
    }

    /// Keeps what is here under the name of a symbolic link.
    pub(super) fn keep_link(&mut self, path: &str) {
        for kind in [EntryKind::File, EntryKind::Folder] {
            self.seen.insert(path, kind);
        }
        self.kept_links.insert(path, EntryKind::File);
    }

    pub(super) fn add(&mut self, trouble: Trouble) {
        match trouble.what {
            What::Name(_) => self.counts.refused += 1,
            _ => self.counts.failed += 1,
        }
        if self.troubles.len() < MOST_TROUBLES {
            self.troubles.push(trouble);
        }
    }
}

/// Which paths there are, by hashes of 64 bits: a path that is not there counts as there once in 10¹³ questions about a
/// million paths, and is then kept.
#[derive(Clone, Debug, Default)]
pub struct Seen(BTreeSet<u64>);

impl Seen {
    /// There is this file, or folder.
    pub fn insert(&mut self, path: &str, kind: EntryKind) {
        self.0.insert(hash(path, kind));
    }

    /// There is no file, or folder, of this name after all.
    pub fn remove(&mut self, path: &str, kind: EntryKind) {
        self.0.remove(&hash(path, kind));
    }

    /// Whether there is.
    pub fn contains(&self, path: &str, kind: EntryKind) -> bool {
        self.0.contains(&hash(path, kind))
    }
}

fn hash(path: &str, kind: EntryKind) -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(if kind == EntryKind::Folder { b"d" } else { b"f" }).update(path.as_bytes());
    let mut short = [0; 8];
    hasher.finalize_xof().fill(&mut short);
    u64::from_le_bytes(short)
}

/// The path of something below the root, with slashes.
pub fn path_of(below: &[Name], name: &str) -> String {
    let mut path = String::new();
    for folder in below {
        path.push_str(folder.as_str());
        path.push('/');
    }
    path.push_str(name);
    path
}
