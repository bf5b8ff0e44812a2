//! What a verification found.

use serde::Serialize;

use crate::fetch::name::shown;
use crate::jobs::pull::Checksums;

/// Of more findings than this only the number is kept.
const MOST_FINDINGS: usize = 10_000;

/// What is wrong with a file, or not known of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Below the folder; bytes that are no text are written as `\xE9`.
    pub path: String,
    /// What it is.
    pub kind: Kind,
    /// In words.
    pub why: String,
}

/// What is found about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Its bytes are others.
    Changed,
    /// It is not here.
    Missing,
    /// It cannot be read.
    Unreadable,
    /// No mirror or subscription put it here, and no list has it.
    Unknown,
    /// A mirror found it here already, so its checksum was never computed.
    Unhashed,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Files that are what they should be.
    pub ok: u64,
    /// Files with nothing to compare them with, which are remembered as they are now.
    pub adopted: u64,
    /// Files with other bytes.
    pub changed: u64,
    /// Files that are not here.
    pub missing: u64,
    /// Files and folders that cannot be read.
    pub unreadable: u64,
    /// Files of which nothing is known.
    pub unknown: u64,
    /// Files that are known without a checksum.
    pub unhashed: u64,
    /// Links, pipes, devices and the like, of which nothing is known.
    pub others: u64,
    /// Bytes of the files that are right.
    pub bytes: u64,
    /// Which lists of checksums were used, if that was asked for.
    pub checksums: Option<Checksums>,
    /// The path under which the folder is known, if that is another one.
    pub known_as: Option<String>,
    /// Which files are not right.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Whether files are not what they should be.
    pub fn is_wrong(&self) -> bool {
        self.changed + self.missing > 0
    }

    /// How many files have nothing to compare them with.
    pub fn unverified(&self) -> u64 {
        self.unknown + self.unhashed
    }

    /// Whether nothing at all could be verified.
    pub fn is_empty(&self) -> bool {
        self.ok + self.adopted + self.changed + self.missing == 0
    }

    pub(super) fn add(&mut self, path: &str, kind: Kind, why: impl Into<String>) {
        *match kind {
            Kind::Changed => &mut self.changed,
            Kind::Missing => &mut self.missing,
            Kind::Unreadable => &mut self.unreadable,
            Kind::Unknown => &mut self.unknown,
            Kind::Unhashed => &mut self.unhashed,
        } += 1;
        if self.findings.len() < MOST_FINDINGS {
            self.findings.push(Finding { path: shown(path), kind, why: why.into() });
        }
    }
}
