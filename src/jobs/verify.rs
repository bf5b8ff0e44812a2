//! Reads replicas again and says whether they are what was pulled: `stroll verify`.
//!
//! Known are the files of a manifest, by size and SHA-256, and where asked for those of lists of checksums that lie in
//! the tree (`SHA256SUMS`, `MD5SUMS`, `FILE.sha256`). Files are read on all processors.

use std::path::Path;
use std::sync::Arc;

use rayon::prelude::*;
use serde::Serialize;

use super::manifest::{Manifest, ManifestError, Record};
use super::mirror::found::path_of;
use crate::fetch::Name;
use crate::fetch::name::PART_ENDING;
use crate::fetch::sink::sums::LARGEST;
use crate::fetch::sink::{Algorithm, Digest, Folder, Here, SinkError, Sums, digest_of};

/// So many files are looked at in one go.
const BATCH: usize = 1_024;

/// Of more findings than this only the number is kept.
const MOST_FINDINGS: usize = 10_000;

/// Deeper than any mirror goes.
const DEEPEST: usize = 128;

/// Why nothing can be verified.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// Nothing is known of the folder.
    #[error(
        "{0}: nothing is known of its files, because no mirror or subscription put them there; if there are lists of \
         checksums among them, use --sums auto"
    )]
    Unknown(String),
    /// The folder.
    #[error(transparent)]
    Target(#[from] SinkError),
    /// What is remembered of it.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}

/// What is wrong with a file, or not known of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Below the folder.
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
    /// There is nothing to compare it with.
    Unknown,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Files that are what they should be.
    pub ok: u64,
    /// Files with other bytes.
    pub changed: u64,
    /// Files that are not here.
    pub missing: u64,
    /// Files with nothing to compare them with.
    pub unknown: u64,
    /// Bytes of the files that are right.
    pub bytes: u64,
    /// Which files are not.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Whether anything is wrong.
    pub fn is_wrong(&self) -> bool {
        self.changed + self.missing > 0
    }

    fn add(&mut self, path: String, verdict: Verdict) {
        let (kind, why) = match verdict {
            Verdict::Ok(bytes) => {
                self.ok += 1;
                self.bytes += bytes;
                return;
            }
            Verdict::Not(kind, why) => (kind, why),
        };
        match kind {
            Kind::Changed => self.changed += 1,
            Kind::Missing => self.missing += 1,
            Kind::Unknown => self.unknown += 1,
        }
        if self.findings.len() < MOST_FINDINGS {
            self.findings.push(Finding { path, kind, why });
        }
    }
}

enum Verdict {
    Ok(u64),
    Not(Kind, String),
}

/// Who wants to know how far it is: files that are looked at, and bytes that are read.
pub type Progress<'a> = &'a (dyn Fn(u64) + Sync);

/// Verifies all that is known of a folder; `sums` also by the lists of checksums in it.
pub fn verify(
    state: &Path,
    target: &Path,
    sums: bool,
    progress: Progress<'_>,
) -> Result<Report, VerifyError> {
    let root = Arc::new(Folder::open(target, false)?);
    let manifest = match Manifest::path_for(state, target).exists() {
        true => Some(Manifest::open(state, target)?),
        false if sums => None,
        false => return Err(VerifyError::Unknown(root.path().display().to_string())),
    };
    let mut report = Report::default();
    if let Some(manifest) = &manifest {
        by_manifest(&root, manifest, &mut report, progress)?;
    }
    let is_known =
        |path: &str| matches!(&manifest, Some(manifest) if matches!(manifest.find(path), Ok(Some(_))));
    let mut lists = Lists { is_known: &is_known, sums, found: Vec::new(), progress };
    lists.look(&root, &mut Vec::new(), &mut report)?;
    Ok(report)
}

/// How many files are remembered.
pub fn count(state: &Path, target: &Path) -> Result<u64, ManifestError> {
    let mut count = 0;
    if Manifest::path_for(state, target).exists() {
        Manifest::open(state, target)?.for_each(|_, _| {
            count += 1;
            true
        })?;
    }
    Ok(count)
}

fn by_manifest(
    root: &Arc<Folder>,
    manifest: &Manifest,
    report: &mut Report,
    progress: Progress<'_>,
) -> Result<(), ManifestError> {
    let mut batch: Vec<(String, Record)> = Vec::new();
    let mut flush = |batch: &mut Vec<(String, Record)>| {
        let look = |(path, record): &(String, Record)| {
            let verdict = replica(root, path, record);
            progress(1);
            verdict
        };
        let verdicts: Vec<Verdict> = batch.par_iter().map(look).collect();
        for ((path, _), verdict) in batch.drain(..).zip(verdicts) {
            report.add(path, verdict);
        }
    };
    manifest.for_each(|path, record| {
        if !record.flushed {
            batch.push((path.to_owned(), record));
        }
        if batch.len() >= BATCH {
            flush(&mut batch);
        }
        true
    })?;
    flush(&mut batch);
    Ok(())
}

fn replica(root: &Arc<Folder>, path: &str, record: &Record) -> Verdict {
    let changed = |why: String| Verdict::Not(Kind::Changed, why);
    let (folder, name) = match find(root, path) {
        Ok(Some(place)) => place,
        Ok(None) => return Verdict::Not(Kind::Missing, "not here".to_owned()),
        Err(error) => return changed(error.to_string()),
    };
    let size = match folder.replica(&name) {
        Ok(Some(replica)) => replica.size,
        Ok(None) => return Verdict::Not(Kind::Missing, "not here".to_owned()),
        Err(error) => return changed(error.to_string()),
    };
    if size != record.size {
        return changed(format!("{size} bytes, but {} were pulled", record.size));
    }
    let Some(sha256) = record.sha256 else {
        return Verdict::Not(
            Kind::Unknown,
            "it was here before the first mirror, and never pulled".to_owned(),
        );
    };
    match digest_of(&folder, &name, Algorithm::Sha256) {
        Ok(digest) if digest == Digest::Sha256(sha256) => Verdict::Ok(size),
        Ok(_) => changed("other bytes than were pulled".to_owned()),
        Err(error) => changed(error.to_string()),
    }
}

/// The folder in which a path ends, and the name there.
fn find(root: &Arc<Folder>, path: &str) -> Result<Option<(Arc<Folder>, Name)>, SinkError> {
    let mut folder = Arc::clone(root);
    let (below, name) = path.rsplit_once('/').map_or((None, path), |(below, name)| (Some(below), name));
    for part in below.into_iter().flat_map(|below| below.split('/')) {
        let Ok(part) = Name::new(part) else { return Ok(None) };
        if folder.look(&part)?.is_none() {
            return Ok(None);
        }
        folder = Arc::new(folder.subfolder(&part, false)?);
    }
    Ok(Name::new(name).ok().map(|name| (folder, name)))
}

/// Goes through the tree for lists of checksums, and for files of which nothing is known.
struct Lists<'a> {
    is_known: &'a dyn Fn(&str) -> bool,
    sums: bool,
    /// Lists of the folders above, with the depth of each.
    found: Vec<(usize, Sums)>,
    progress: Progress<'a>,
}

impl Lists<'_> {
    fn look(
        &mut self,
        folder: &Arc<Folder>,
        below: &mut Vec<Name>,
        report: &mut Report,
    ) -> Result<(), SinkError> {
        let names = folder.names()?;
        let before = self.found.len();
        let mut singles = Vec::new();
        if self.sums {
            for name in &names {
                if let (Some(algorithm), Ok(Some(_))) =
                    (Sums::algorithm_of(name.as_str()), folder.replica(name))
                {
                    let sums = Sums::parse(&folder.content(name, LARGEST as u64)?, Some(algorithm));
                    match name.as_str().rsplit_once('.').filter(|(_, end)| Algorithm::named(end).is_some()) {
                        Some((about, _)) => singles.push((about.to_owned(), sums)),
                        None => self.found.push((below.len(), sums)),
                    }
                }
            }
        }
        let mut files = Vec::new();
        for name in names {
            match folder.look(&name)? {
                Some(Here::File(_)) if !name.as_str().ends_with(PART_ENDING) => {
                    let digests = self.digests(below, &name, &singles);
                    files.push((name, digests));
                }
                Some(Here::Folder) if below.len() < DEEPEST => {
                    let inner = Arc::new(folder.subfolder(&name, false)?);
                    below.push(name);
                    self.look(&inner, below, report)?;
                    below.pop();
                }
                _ => {}
            }
        }
        self.found.truncate(before);
        self.check(folder, below, files, report);
        Ok(())
    }

    /// What lists say of a file.
    fn digests(&self, below: &[Name], name: &Name, singles: &[(String, Sums)]) -> Vec<Digest> {
        let of_folders = self.found.iter().filter_map(|(depth, sums)| {
            let path = path_of(below.get(*depth..).unwrap_or_default(), name.as_str());
            sums.digest_of(&path)
        });
        let own = singles.iter().filter(|(about, _)| about == name.as_str());
        of_folders.chain(own.filter_map(|(_, sums)| sums.digest_of_only(name.as_str()))).collect()
    }

    fn check(
        &self,
        folder: &Arc<Folder>,
        below: &[Name],
        files: Vec<(Name, Vec<Digest>)>,
        report: &mut Report,
    ) {
        let verdicts: Vec<Option<Verdict>> = files
            .par_iter()
            .map(|(name, digests)| {
                let verdict = by_lists(folder, name, digests);
                if verdict.is_some() {
                    (self.progress)(1);
                }
                verdict
            })
            .collect();
        for ((name, _), verdict) in files.into_iter().zip(verdicts) {
            let path = path_of(below, name.as_str());
            let is_known = (self.is_known)(&path);
            match verdict {
                // It has been counted by the manifest already.
                Some(Verdict::Ok(_)) | None if is_known => {}
                Some(verdict) => report.add(path, verdict),
                None if self.sums && Sums::algorithm_of(name.as_str()).is_some() => {}
                None => {
                    let why = "nothing is known of it".to_owned();
                    report.add(path, Verdict::Not(Kind::Unknown, why));
                }
            }
        }
    }
}

fn by_lists(folder: &Folder, name: &Name, digests: &[Digest]) -> Option<Verdict> {
    let size = folder.replica(name).ok().flatten().map_or(0, |replica| replica.size);
    let mut verdict = None;
    for expected in digests {
        verdict = Some(match digest_of(folder, name, expected.algorithm()) {
            Ok(digest) if digest == *expected => Verdict::Ok(size),
            Ok(digest) => {
                return Some(Verdict::Not(Kind::Changed, format!("{digest}, but a list says {expected}")));
            }
            Err(error) => return Some(Verdict::Not(Kind::Changed, error.to_string())),
        });
    }
    verdict
}
