//! Room for a file on its file system: how much is free, and blocks reserved in bounded steps.

use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{self, FallocateFlags};
use rustix::io::Errno;

/// Smaller files are not worth a reservation.
const RESERVE_FROM_BYTES: u64 = 1 << 20;
/// How far ahead of a write blocks are reserved: a server that declares more than it sends costs no more than this.
const AHEAD_BYTES: u64 = 64 << 20;
/// Reserving there costs a second pass over the memory, and gives nothing.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// Blocks that are reserved for one file.
#[derive(Debug, Default)]
pub(super) struct Reserved {
    /// The file's declared size; 0 if nothing is to be reserved.
    size: AtomicU64,
    /// Where the last reservation ends.
    end: AtomicU64,
}

impl Reserved {
    /// From now on blocks are reserved for a file of this size, where that is worth it.
    pub(super) fn begin(&self, size: u64, is_in_memory: bool) {
        let is_worth_it = size >= RESERVE_FROM_BYTES && !is_in_memory;
        self.size.store(if is_worth_it { size } else { 0 }, Ordering::Relaxed);
    }

    /// Reserves more if a write comes near the end of what is reserved. Running out of space is told by the write.
    pub(super) fn before_write(&self, file: &File, offset: u64, len: u64) {
        let size = self.size.load(Ordering::Relaxed);
        let end = offset.saturating_add(len);
        if end <= self.end.load(Ordering::Relaxed) || offset >= size {
            return;
        }
        let next = offset.saturating_add(AHEAD_BYTES).max(end).min(size);
        // Nothing is reserved where the file system cannot.
        let _ = reserve(file, offset, next - offset);
        self.end.store(next, Ordering::Relaxed);
    }

    /// Where the last reservation ends.
    pub(super) fn end(&self) -> u64 {
        self.end.load(Ordering::Relaxed)
    }

    /// Everything was given back.
    pub(super) fn clear(&self) {
        self.end.store(0, Ordering::Relaxed);
    }
}

/// How much a user may still write there; `None` where the file system does not say.
pub(super) fn free_bytes(file: &File) -> Option<u64> {
    let room = fs::fstatvfs(file).ok().filter(|room| room.f_blocks > 0)?;
    Some(room.f_bavail.saturating_mul(room.f_frsize))
}

pub(super) fn is_in_memory(file: &File) -> bool {
    fs::fstatfs(file).is_ok_and(|system| u64::try_from(system.f_type).is_ok_and(|kind| kind == TMPFS_MAGIC))
}

/// Reserves blocks without changing the size. Where the file system cannot, the look at the free space has to do.
pub(super) fn reserve(file: &File, offset: u64, len: u64) -> Result<(), Errno> {
    match fs::fallocate(file, FallocateFlags::KEEP_SIZE, offset, len) {
        Err(Errno::NOSPC) => Err(Errno::NOSPC),
        Err(Errno::DQUOT) => Err(Errno::DQUOT),
        Err(Errno::FBIG) => Err(Errno::FBIG),
        // Not supported, in one of its many spellings, or interrupted.
        _ => Ok(()),
    }
}
