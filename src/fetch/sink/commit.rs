//! Finishing files: proved, made durable, named. In this order, for one file or for many at once.
//!
//! ```text
//!   for each: all bytes there? digest right? mode, time
//!   once:     data durable          (one sync of the file system, or one per file)
//!   for each: NAME.part -> NAME
//!   once:     names durable         (one sync per folder)
//!   for each: journal record gone, answer
//! ```
//!
//! So nothing is ever found under its final name that is not complete, not after a power loss either; and thousands of
//! small files do not wait for the disk one by one. The disk's settler calls it.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustix::fs::{self, Timespec, Timestamps, UTIME_OMIT};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::digest::{Algorithm, Digest, Hasher};
use super::error::SinkError;
use super::file::{PartFile, now_s};
use super::folder::Folder;

/// From so many files on one sync of the whole file system is cheaper than one sync for each.
const TOGETHER: usize = 8;
/// How much is read at a time when a file is read again for its digest.
const READ_BYTES: usize = 256 << 10;
/// How far a file's time may lie in the future: clocks differ, but not by more.
const FUTURE_S: i64 = 86_400;

/// What a file must be to be finished, and how it should look then.
#[derive(Clone, Debug, Default)]
pub struct Finish {
    /// Its digest, if somebody says one.
    pub expected: Option<Digest>,
    /// When it was changed at the source, in seconds since 1970.
    pub modified_s: Option<i64>,
    /// Its size, if it is known. Otherwise what is there is the file, if it is there without a gap.
    pub total: Option<u64>,
    /// Whether to tell its SHA-256, too.
    pub want_sha256: bool,
}

/// A finished file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Its size in bytes.
    pub size: u64,
    /// Its SHA-256, if that was wanted.
    pub sha256: Option<[u8; 32]>,
}

/// A file that waits to be finished.
pub(super) struct Finishing {
    pub(super) file: Arc<PartFile>,
    pub(super) wish: Finish,
    pub(super) answer: oneshot::Sender<Result<Finished, SinkError>>,
    pub(super) permit: OwnedSemaphorePermit,
}

/// A file on its way through the steps; the first failure ends it.
struct Step {
    file: Arc<PartFile>,
    answer: oneshot::Sender<Result<Finished, SinkError>>,
    result: Result<Finished, SinkError>,
    _permit: OwnedSemaphorePermit,
}

impl Step {
    fn then(&mut self, work: impl FnOnce(&PartFile) -> Result<(), SinkError>) {
        if self.result.is_ok()
            && let Err(error) = work(&self.file)
        {
            self.result = Err(error);
        }
    }
}

/// Finishes some files and answers for each.
pub(super) fn commit(batch: Vec<Finishing>) {
    let mut steps = batch.into_iter().map(prepare).collect::<Vec<_>>();
    sync_data(&mut steps);
    for step in &mut steps {
        step.then(give_name);
    }
    sync_names(&mut steps);
    for step in steps {
        if step.result.is_ok() {
            step.file.forget_finished();
        }
        // Closes the file and its lock before anybody hears of it, if nobody else holds it.
        drop(step.file);
        // Nobody need wait for it.
        let _ = step.answer.send(step.result);
    }
}

fn prepare(finishing: Finishing) -> Step {
    let Finishing { file, wish, answer, permit } = finishing;
    let result = prove(&file, &wish).and_then(|finished| dress(&file, &wish).map(|()| finished));
    Step { file, answer, result, _permit: permit }
}

/// All bytes are there, no more, and they give the digest.
fn prove(file: &PartFile, wish: &Finish) -> Result<Finished, SinkError> {
    file.check()?;
    let written = file.written();
    let size = wish.total.unwrap_or_else(|| written.end());
    let on_disk = u64::try_from(file.stat()?.st_size).unwrap_or(0);
    if !written.covers(size) || on_disk != size {
        let got = written.first_gap().min(on_disk);
        return Err(SinkError::SizeDiffers { path: file.path(), expected: size, got });
    }
    let digests = digests(file, wish, size)?;
    let of = |algorithm| digests.iter().find(|digest| digest.algorithm() == algorithm).copied();
    if let Some(expected) = wish.expected
        && let Some(got) = of(expected.algorithm())
        && got != expected
    {
        // Nothing tells the wrong bytes from the right ones, so none are kept for a resume.
        file.discard()?;
        return Err(SinkError::Integrity {
            path: file.path(),
            expected: Box::new(expected),
            got: Box::new(got),
        });
    }
    let sha256 = match of(Algorithm::Sha256) {
        Some(Digest::Sha256(bytes)) if wish.want_sha256 => Some(bytes),
        _ => None,
    };
    Ok(Finished { size, sha256 })
}

/// What was made as the bytes came, and the rest by reading them again.
fn digests(file: &PartFile, wish: &Finish, size: u64) -> Result<Vec<Digest>, SinkError> {
    let mut needed = wish.expected.iter().map(Digest::algorithm).collect::<Vec<_>>();
    if wish.want_sha256 && !needed.contains(&Algorithm::Sha256) {
        needed.push(Algorithm::Sha256);
    }
    if needed.is_empty() {
        return Ok(Vec::new());
    }
    let mut digests = file.take_along(size).into_iter().map(Hasher::finish).collect::<Vec<_>>();
    needed.retain(|algorithm| digests.iter().all(|digest| digest.algorithm() != *algorithm));
    if !needed.is_empty() {
        let mut hashers = needed.into_iter().map(Hasher::new).collect::<Vec<_>>();
        read_again(file, size, &mut hashers)?;
        digests.extend(hashers.into_iter().map(Hasher::finish));
    }
    Ok(digests)
}

fn read_again(file: &PartFile, size: u64, hashers: &mut [Hasher]) -> Result<(), SinkError> {
    let mut buffer = vec![0; READ_BYTES];
    let mut at = 0;
    while at < size {
        let len = usize::try_from(size - at).unwrap_or(READ_BYTES).min(READ_BYTES);
        let piece = buffer.get_mut(..len).unwrap_or_default();
        file.read(piece, at)?;
        for hasher in hashers.iter_mut() {
            hasher.update(piece);
        }
        at += len as u64;
    }
    Ok(())
}

/// Time and mode, both only hints: a file without them is still right. What is no file is refused; should it come later,
/// renaming fails on a folder and does not follow a link.
fn dress(file: &PartFile, wish: &Finish) -> Result<(), SinkError> {
    if let Some(mode) = file.folder().mode_of(file.name())? {
        // Who has closed a file to others finds it closed after a pull.
        report(file, fs::fchmod(file.file(), mode));
    }
    if let Some(modified_s) = wish.modified_s {
        let tv_sec = modified_s.min(now_s().saturating_add(FUTURE_S));
        let times = Timestamps {
            last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
            last_modification: Timespec { tv_sec, tv_nsec: 0 },
        };
        report(file, fs::futimens(file.file(), &times));
    }
    Ok(())
}

fn report(file: &PartFile, done: Result<(), rustix::io::Errno>) {
    if let Err(errno) = done {
        tracing::debug!(file = %file.path().display(), %errno, "cannot set mode or time");
    }
}

fn sync_data(steps: &mut [Step]) {
    let alive = steps.iter().filter(|step| step.result.is_ok());
    let folders = alive.map(|step| (step.file.device(), step.file.folder())).collect::<Vec<_>>();
    // Any folder of a file system will do.
    let systems = folders.iter().copied().collect::<BTreeMap<_, _>>();
    if folders.len() >= TOGETHER && systems.values().all(|folder| fs::syncfs(folder).is_ok()) {
        return;
    }
    // Also after a failure, which may be about a file of somebody else.
    for step in steps {
        step.then(PartFile::sync_all);
    }
}

fn give_name(file: &PartFile) -> Result<(), SinkError> {
    if !file.is_in_place()? {
        return Err(SinkError::Replaced { path: file.part_path() });
    }
    file.folder().rename(file.part_name(), &file.name().to_os_string())
}

fn sync_names(steps: &mut [Step]) {
    let alive = steps.iter().filter(|step| step.result.is_ok());
    for folder in unique(alive.map(|step| step.file.folder())) {
        let Err(error) = folder.sync() else { continue };
        for step in steps.iter_mut().filter(|step| Arc::ptr_eq(step.file.folder(), &folder)) {
            step.then(|_| Err(error.clone()));
        }
    }
}

fn unique<'a>(folders: impl Iterator<Item = &'a Arc<Folder>>) -> Vec<Arc<Folder>> {
    let mut unique = Vec::<Arc<Folder>>::new();
    for folder in folders {
        if !unique.iter().any(|known| Arc::ptr_eq(known, folder)) {
            unique.push(Arc::clone(folder));
        }
    }
    unique
}
