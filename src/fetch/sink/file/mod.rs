//! A partial file as the disk's threads see it: opened, locked, written, synced and remembered.
//!
//! Everything here may block; it runs on the disk's threads, called by [`Part`](super::Part) through them.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use rustix::fs::{self, FileType, FlockOperation, Mode, OFlags, Stat, StatxFlags};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use super::along::Along;
use super::chunks::{Chunks, Known};
use super::digest::{Algorithm, Hasher};
use super::error::SinkError;
use super::folder::{Folder, called, identity, kind};
use super::journal::{FileId, JournalPlace, Record};
use super::ranges::Ranges;
use super::space::{Reserved, free_bytes, is_in_memory};
use crate::fetch::name::Name;
use crate::fetch::version::Version;

/// As the user's umask wants it.
const NEW_FILE: Mode = Mode::from_raw_mode(0o666);
/// How often the name may change hands between opening and locking before we call it busy.
const TRIES: usize = 10;

/// How often, and how far apart, a lock is tried.
const LOCK_TRIES: u32 = 10;
const LOCK_PAUSE: std::time::Duration = std::time::Duration::from_millis(10);
/// An open, locked partial file.
#[derive(Debug)]
pub(super) struct PartFile {
    file: File,
    folder: Arc<Folder>,
    name: Name,
    part_name: OsString,
    journal: Option<JournalPlace>,
    /// Device and inode.
    identity: (u64, u64),
    /// Whether there is a failure in the state: looked at before every write, without the lock.
    is_broken: AtomicBool,
    reserved: Reserved,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    version: Option<Version>,
    written: Ranges,
    failure: Option<SinkError>,
    /// A sync failed: what was written since the last good one may be lost, although it can still be read.
    is_suspect: bool,
    /// What the journal says.
    remembered: Option<(Version, Ranges)>,
    /// The journal could not be written, and that was said.
    is_unremembered: bool,
    /// Whether the name of the part would survive a power loss.
    is_named: bool,
    along: Along,
    hashes: Known,
}

impl PartFile {
    /// Opens or makes the partial file and locks it. What is there already is kept only if the journal vouches for it.
    pub(super) fn open(
        folder: Arc<Folder>,
        name: Name,
        journal: Option<JournalPlace>,
    ) -> Result<Self, SinkError> {
        let path = folder.path_of(&name.to_os_string());
        if name.is_temporary() {
            return Err(SinkError::Reserved { path });
        }
        // Before anything is pulled: a folder or a link of that name would make it useless.
        folder.replica(&name)?;
        let part_name = name.part_name();
        let (file, stat, is_new) = open_locked(&folder, &part_name)?;
        let identity = identity(&stat);
        let part = Self {
            file,
            folder,
            name,
            part_name,
            journal,
            identity,
            is_broken: AtomicBool::new(false),
            reserved: Reserved::default(),
            state: Mutex::default(),
        };
        if is_new {
            part.forget_stale()?;
        } else {
            part.take_over(&stat)?;
        }
        Ok(part)
    }

    /// A record about an earlier file of that name, which somebody removed: a new file may get its number again, and then
    /// a crash would make the record speak for it.
    fn forget_stale(&self) -> Result<(), SinkError> {
        match &self.journal {
            Some(journal) if journal.load()?.is_some() => journal.forget(),
            _ => Ok(()),
        }
    }

    /// What was there before we came: the journal's bytes are kept, anything else is cut off.
    fn take_over(&self, stat: &Stat) -> Result<(), SinkError> {
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        let loaded = self.journal.as_ref().map(JournalPlace::load).transpose()?.flatten();
        let fits = |record: &Record| record.file.is(&self.id()) && record.ranges.end() <= size;
        let record = loaded.filter(fits);
        if record.is_none() && stat.st_uid != rustix::process::geteuid().as_raw() {
            return Err(SinkError::NotOurs { path: self.part_path() });
        }
        let verified = record.as_ref().map(|record| self.verified(record)).unwrap_or_default();
        if verified.end() < size {
            self.cut(verified.end())?;
        }
        if let Some(Record { version, ranges, .. }) = record.filter(|_| !verified.is_empty()) {
            let mut state = self.state();
            state.version = Some(version.clone());
            state.written = verified.clone();
            // What does not verify must be remembered anew.
            state.remembered = (verified == ranges).then_some((version, ranges));
            state.is_named = true;
        }
        Ok(())
    }

    /// The ranges of a record whose bytes are still the ones that were hashed. A record of an older version has no hashes,
    /// and proves nothing.
    fn verified(&self, record: &Record) -> Ranges {
        let read = |bytes: &mut [u8], offset| self.read(bytes, offset);
        let verified = record.chunks.as_ref().map(|chunks| chunks.verified(&record.ranges, &read));
        let verified = verified.unwrap_or_default();
        if verified != record.ranges {
            let lost = record.ranges.bytes().saturating_sub(verified.bytes());
            tracing::warn!(part = %self.part_path().display(), lost, "bytes of the partial file do not verify, pulling them again");
        }
        verified
    }

    fn hashes(&self, version: &Version, ranges: &Ranges) -> Result<Chunks, SinkError> {
        let mut known = std::mem::take(&mut self.state().hashes);
        let hashed = known.hash(version.size, ranges, &|bytes, offset| self.read(bytes, offset));
        self.state().hashes = known;
        hashed
    }

    /// Of which version the bytes are, and which are there.
    pub(super) fn found(&self) -> (Option<Version>, Ranges) {
        let state = self.state();
        (state.version.clone(), state.written.clone())
    }

    /// Says of which version the bytes are from now on.
    pub(super) fn set_version(&self, version: Version) {
        self.state().version = Some(version);
    }

    /// Which digests to make as bytes come; only before the first byte.
    pub(super) fn hash_along(&self, wanted: Vec<Algorithm>) {
        let mut state = self.state();
        state.along.wanted = wanted;
        if state.written.is_empty() {
            state.along.start();
        }
    }

    /// Whether some are made.
    pub(super) fn is_hashed_along(&self) -> bool {
        !self.state().along.wanted.is_empty()
    }

    /// Writes. A failure is remembered, and everything after it is dropped.
    pub(super) fn write(&self, offset: u64, bytes: &[u8]) {
        if self.is_broken.load(Ordering::Acquire) {
            return;
        }
        self.reserved.before_write(&self.file, offset, bytes.len() as u64);
        match self.file.write_all_at(bytes, offset) {
            Ok(()) => {
                let mut state = self.state();
                state.written.insert(offset..offset + bytes.len() as u64);
                if !state.along.hashers.is_empty() {
                    state.along.update(offset, bytes);
                }
            }
            Err(error) => self.fail(SinkError::from_io(&self.part_path(), "write", &error)),
        }
    }

    /// The failure of an earlier write or sync.
    pub(super) fn check(&self) -> Result<(), SinkError> {
        if !self.is_broken.load(Ordering::Acquire) {
            return Ok(());
        }
        Err(self.state().failure.clone().unwrap_or(SinkError::Gone))
    }

    /// Makes what is written durable, then remembers it. After a failed write what came before it is still kept; after
    /// a failed sync nothing is believed any more.
    pub(super) fn checkpoint(&self) -> Result<(), SinkError> {
        let Some(journal) = &self.journal else { return self.check() };
        // What is in the set was written before the sync begins, so the sync covers it.
        let (now, is_named) = {
            let state = self.state();
            let version = state.version.clone().unwrap_or_default();
            ((!state.is_suspect).then(|| (version, state.written.clone())), state.is_named)
        };
        let is_news =
            |now: &(Version, Ranges)| !now.1.is_empty() && self.state().remembered.as_ref() != Some(now);
        let Some(now) = now.filter(is_news) else { return self.check() };
        self.sync_data()?;
        if !is_named {
            self.folder.sync()?;
        }
        let chunks = Some(self.hashes(&now.0, &now.1)?);
        let (version, ranges) = now.clone();
        let record = Record { version, ranges, file: self.id(), made_at_s: now_s(), chunks };
        if let Err(error) = journal.store(&record) {
            self.warn_of_journal(&error);
            return Err(error);
        }
        let mut state = self.state();
        state.remembered = Some(now);
        state.is_named = true;
        drop(state);
        self.check()
    }

    /// Says once that the file starts from the beginning after an interruption.
    fn warn_of_journal(&self, error: &SinkError) {
        if !std::mem::replace(&mut self.state().is_unremembered, true) {
            let file = self.path();
            tracing::warn!(file = %file.display(), %error, "an interrupted pull of this file will start from the beginning");
        }
    }

    /// Drops all bytes: forgotten first, so that no crash leaves a record about bytes of another version.
    pub(super) fn restart(&self) -> Result<(), SinkError> {
        self.forget()?;
        self.cut(0)?;
        let mut state = self.state();
        let mut along = std::mem::take(&mut state.along);
        along.start();
        *state = State { along, is_named: state.is_named, ..State::default() };
        self.is_broken.store(false, Ordering::Release);
        Ok(())
    }

    /// Removes the partial file, if the one of that name is still ours, and what is remembered of it.
    pub(super) fn discard(&self) -> Result<(), SinkError> {
        self.forget()?;
        if self.is_in_place()? {
            self.folder.unlink(&self.part_name)?;
        }
        self.journal.as_ref().map_or(Ok(()), JournalPlace::remove)
    }

    /// Sees to it that there is room for a file of this size. Tells whether it is in memory, where no write waits for a
    /// disk.
    pub(super) fn reserve(&self, size: u64) -> Result<bool, SinkError> {
        let path = self.part_path();
        let stat = self.stat()?;
        // The counts are in blocks of 512 bytes, whatever the file system's own are.
        let owned = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
        let needed = size.saturating_sub(owned);
        if let Some(free) = free_bytes(&self.file)
            && free < needed
        {
            return Err(SinkError::DiskFull { path, needed: Some(needed - free), quota: false });
        }
        let is_in_memory = is_in_memory(&self.file);
        self.reserved.begin(size, is_in_memory);
        Ok(is_in_memory)
    }

    /// The last bytes before the first gap.
    pub(super) fn tail(&self, len: usize) -> Result<Bytes, SinkError> {
        let end = self.state().written.first_gap();
        let start = end.saturating_sub(len as u64);
        let mut bytes = vec![0; usize::try_from(end - start).unwrap_or(0)];
        self.read(&mut bytes, start)?;
        Ok(bytes.into())
    }

    pub(super) fn read(&self, bytes: &mut [u8], offset: u64) -> Result<(), SinkError> {
        let read = self.file.read_exact_at(bytes, offset);
        read.map_err(|error| SinkError::from_io(&self.part_path(), "read", &error))
    }

    /// Which bytes are there.
    pub(super) fn written(&self) -> Ranges {
        self.state().written.clone()
    }

    /// The digests made as the bytes came, if they came in order up to the last one.
    pub(super) fn take_along(&self, size: u64) -> Vec<Hasher> {
        let mut state = self.state();
        let is_whole = state.along.at == size;
        if is_whole { std::mem::take(&mut state.along.hashers) } else { Vec::new() }
    }

    /// Cuts the file to this size, and gives back what was reserved behind it.
    pub(super) fn cut(&self, size: u64) -> Result<(), SinkError> {
        self.reserved.clear();
        fs::ftruncate(&self.file, size)
            .map_err(|errno| SinkError::at(&self.part_path(), "cut the file", errno))
    }

    pub(super) fn sync_data(&self) -> Result<(), SinkError> {
        self.synced(fs::fdatasync(&self.file))
    }

    /// Data and times.
    pub(super) fn sync_all(&self) -> Result<(), SinkError> {
        self.synced(fs::fsync(&self.file))
    }

    /// A sync that failed once may succeed the next time, although the bytes are lost: never believe it again.
    fn synced(&self, result: Result<(), Errno>) -> Result<(), SinkError> {
        result.map_err(|errno| {
            let error = SinkError::at(&self.part_path(), "sync", errno);
            self.state().is_suspect = true;
            self.fail(error.clone());
            error
        })
    }

    /// Whether the part's name still leads to this very file.
    pub(super) fn is_in_place(&self) -> Result<bool, SinkError> {
        Ok(self.folder.stat_of(&self.part_name)?.is_some_and(|stat| identity(&stat) == self.identity))
    }

    /// The record goes; when this returns, for good.
    pub(super) fn forget(&self) -> Result<(), SinkError> {
        self.journal.as_ref().map_or(Ok(()), JournalPlace::forget)?;
        self.state().remembered = None;
        Ok(())
    }

    /// The record is of no use any more.
    pub(super) fn forget_finished(&self) {
        let removed = self.journal.as_ref().map_or(Ok(()), JournalPlace::remove);
        if let Err(error) = removed {
            // The file is complete and in its place; a record that stays is about no file any more.
            tracing::warn!(%error, "a finished file's journal stays behind");
        }
    }

    pub(super) fn stat(&self) -> Result<Stat, SinkError> {
        fs::fstat(&self.file).map_err(|errno| SinkError::at(&self.part_path(), "look at the file", errno))
    }

    /// The number of its file system.
    pub(super) fn device(&self) -> u64 {
        self.identity.0
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    pub(super) fn folder(&self) -> &Arc<Folder> {
        &self.folder
    }

    pub(super) fn name(&self) -> &Name {
        &self.name
    }

    pub(super) fn part_name(&self) -> &OsStr {
        &self.part_name
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.path_of(&self.name.to_os_string())
    }

    pub(super) fn part_path(&self) -> PathBuf {
        self.folder.path_of(&self.part_name)
    }

    /// What tells this file from others, for the journal; small files never ask.
    fn id(&self) -> FileId {
        file_id(&self.file, self.identity)
    }

    fn fail(&self, error: SinkError) {
        self.state().failure.get_or_insert(error);
        self.is_broken.store(true, Ordering::Release);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives back blocks that were reserved and not used, and removes a part into which nothing was written.
impl Drop for PartFile {
    fn drop(&mut self) {
        let written = self.written();
        if written.is_empty() && self.is_in_place().unwrap_or(false) {
            // One that stays is taken over by the next run.
            let _ = self.folder.unlink(&self.part_name);
        } else if self.reserved.end() > written.end()
            && let Ok(stat) = self.stat()
        {
            let _ = self.cut(u64::try_from(stat.st_size).unwrap_or(0));
        }
    }
}

/// Locks a part. A process that was just started may hold our own former lock until it has become another program, so it is
/// tried for a moment.
#[expect(clippy::disallowed_methods, reason = "on the disk's own thread, which is there to wait")]
fn lock(file: &File) -> Result<(), Errno> {
    let mut tries = 0;
    loop {
        match fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if tries < LOCK_TRIES => {
                tries += 1;
                std::thread::sleep(LOCK_PAUSE);
            }
            result => return result,
        }
    }
}

/// What tells an open file from others, for the journal.
pub(super) fn file_id(file: &File, (device, inode): (u64, u64)) -> FileId {
    let born_ns = fs::statx(file, "", fs::AtFlags::EMPTY_PATH, StatxFlags::BTIME)
        .ok()
        .filter(|known| known.stx_mask & StatxFlags::BTIME.bits() != 0)
        .map(|known| known.stx_btime)
        .and_then(|born| born.tv_sec.checked_mul(1_000_000_000)?.checked_add(born.tv_nsec.into()));
    FileId { device, inode, born_ns }
}

/// Opens the part and locks it, and makes sure that what is locked is what the name leads to.
pub(super) fn open_locked(folder: &Folder, part_name: &OsStr) -> Result<(File, Stat, bool), SinkError> {
    let path = || folder.path_of(part_name);
    for _ in 0..TRIES {
        let (file, is_new) = open_or_make(folder, part_name)?;
        match lock(&file) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(SinkError::Busy { path: path() }),
            // Some network file systems have no locks; then nobody can be kept out.
            Err(errno) => tracing::debug!(part = %path().display(), %errno, "cannot lock"),
        }
        let stat = fs::fstat(&file).map_err(|errno| SinkError::at(&path(), "look at the file", errno))?;
        let named = folder.stat_of(part_name)?;
        // Between opening and locking another process may have finished or removed it.
        if named.is_none_or(|named| identity(&named) != identity(&stat)) {
            continue;
        }
        return match kind(&stat) {
            FileType::RegularFile if stat.st_nlink == 1 => Ok((file, stat, is_new)),
            FileType::RegularFile => {
                Err(SinkError::NotAFile { path: path(), what: "a file with a second name" })
            }
            other => Err(SinkError::NotAFile { path: path(), what: called(other) }),
        };
    }
    Err(SinkError::Busy { path: path() })
}

fn open_or_make(folder: &Folder, part_name: &OsStr) -> Result<(File, bool), SinkError> {
    let failed = |errno| SinkError::at(&folder.path_of(part_name), "make the file", errno);
    for _ in 0..TRIES {
        match folder.open_file(part_name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, NEW_FILE) {
            Err(Errno::EXIST) => {}
            made => return made.map(|file| (file, true)).map_err(failed),
        }
        match folder.open_file(part_name, OFlags::RDWR, Mode::empty()) {
            // Gone in between: its owner has finished it.
            Err(Errno::NOENT) => {}
            opened => return opened.map(|file| (file, false)).map_err(failed),
        }
    }
    Err(SinkError::Busy { path: folder.path_of(part_name) })
}

/// The wall clock, in seconds since 1970.
pub(super) fn now_s() -> i64 {
    clock_gettime(ClockId::Realtime).tv_sec
}

#[cfg(test)]
mod tests;
