//! One file being pulled: `NAME.part`, until it is complete and gets its name.
//!
//! ```text
//!   open ──> begin(version) ──> write … checkpoint … write ──> finish ──> NAME
//!              │ other version: bytes dropped       └─ crash: open finds what the last checkpoint saw
//! ```
//!
//! The engine calls it. Nothing here waits for the disk: the disk's threads do, and tell. A large file that is in memory
//! (tmpfs) has no disk to wait for, and is written at once.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use super::commit::{Finish, Finished, Finishing};
use super::digest::Algorithm;
use super::disk::{Disk, Reply, Thread};
use super::error::SinkError;
use super::file::PartFile;
use super::folder::Folder;
use super::journal::JournalPlace;
use super::ranges::Ranges;
use crate::fetch::name::Name;
use crate::fetch::version::{Sameness, Version};

/// More pieces than any plan makes: a journal record stays below 100 KB.
const MOST_PIECES: usize = 4_096;
/// The largest tail that is read back; comparing takes 64 KiB.
const LARGEST_TAIL: usize = 1 << 20;
/// No file system has larger files.
const LARGEST: u64 = i64::MAX as u64;
/// Below this size a look at the free space is not worth a hop to the disk's thread.
const SMALL: u64 = 1 << 20;

/// One file being pulled. Dropped, it stays as it is on the disk: what a checkpoint saw is found again.
#[derive(Debug)]
pub struct Part {
    disk: Disk,
    file: Arc<PartFile>,
    version: Option<Version>,
    have: Ranges,
    is_begun: bool,
    /// Whether bytes are being dropped, and nobody waited until they were.
    is_stale: bool,
    /// Whether bytes are written at once: the file is in memory, handing them to another thread would cost more.
    is_direct: bool,
}

/// A partial file on its way to be opened: what is asked of the disk is asked already, and done whether somebody waits or
/// not. Harmless to wait for by halves.
#[derive(Debug)]
pub struct Opening {
    disk: Disk,
    file: Reply<PartFile>,
}

impl Opening {
    /// The partial file, when it is open.
    pub async fn opened(&mut self) -> Result<Part, SinkError> {
        let opened = (&mut self.file).await?;
        let (version, have) = opened.found();
        Ok(Part {
            disk: self.disk.clone(),
            file: Arc::new(opened),
            version,
            have,
            is_begun: false,
            is_stale: false,
            is_direct: false,
        })
    }
}

/// A file on its way to its name: ready when it is there for good.
pub type Pending = Reply<Finished>;

impl Part {
    /// Opens or makes the partial file of `name`. What is there already is kept if the journal vouches for it.
    pub async fn open(
        disk: &Disk,
        folder: Arc<Folder>,
        name: Name,
        journal: Option<JournalPlace>,
    ) -> Result<Self, SinkError> {
        Self::begin_to_open(disk, folder, name, journal).opened().await
    }

    /// The same for somebody who has something else to do meanwhile.
    pub fn begin_to_open(
        disk: &Disk,
        folder: Arc<Folder>,
        name: Name,
        journal: Option<JournalPlace>,
    ) -> Opening {
        let file = disk.run(Thread::Writer, move || PartFile::open(folder, name, journal));
        Opening { disk: disk.clone(), file }
    }

    /// Of which version the bytes are.
    pub fn version(&self) -> Option<&Version> {
        self.version.as_ref()
    }

    /// Which bytes are there: those that the journal vouches for, and all that were given to [`write`](Self::write)
    /// since.
    pub fn have(&self) -> &Ranges {
        &self.have
    }

    /// True if the bytes were found on the disk, and nothing was begun since.
    pub fn is_inherited(&self) -> bool {
        !self.is_begun && !self.have.is_empty()
    }

    /// Where the complete file will be.
    pub fn path(&self) -> PathBuf {
        self.file.path()
    }

    /// Says of which version the bytes to come are. Bytes that may be of another version are dropped. If the size is
    /// known, room is made for it, or the disk is called full right now.
    pub async fn begin(&mut self, version: Version) -> Result<(), SinkError> {
        let keep = self.sameness(&version) == Sameness::Same;
        self.begin_with(version, keep).await
    }

    /// The same after the caller has compared the tail with the source's bytes: what is there is kept unless the versions
    /// contradict each other.
    pub async fn begin_compared(&mut self, version: Version) -> Result<(), SinkError> {
        let keep = self.sameness(&version) != Sameness::Changed;
        self.begin_with(version, keep).await
    }

    /// Which digests [`finish`](Self::finish) will want. Made as the bytes come, if they come in order and none are there
    /// yet; otherwise the file is read again at its end.
    pub fn hash_along(&mut self, wanted: &[Algorithm]) {
        if self.have.is_empty() {
            self.is_direct &= wanted.is_empty();
            self.file.hash_along(wanted.to_vec());
        }
    }

    /// The last bytes before the first gap, at most so many: to compare with the source's.
    pub async fn tail(&self, len: usize) -> Result<Bytes, SinkError> {
        let file = Arc::clone(&self.file);
        let len = len.min(LARGEST_TAIL);
        self.disk.run(Thread::Writer, move || file.tail(len)).await
    }

    /// Gives bytes to the disk; waits while too many are on their way. Each byte comes once. An error of an earlier write is
    /// told here, too. If the future is dropped before it is ready, nothing was given.
    pub async fn write(&mut self, offset: u64, bytes: Bytes) -> Result<(), SinkError> {
        self.file.check()?;
        if bytes.is_empty() {
            return Ok(());
        }
        let range = offset..self.end_of(offset, bytes.len())?;
        if self.is_direct {
            self.have.insert(range);
            self.file.write(offset, &bytes);
            return self.file.check();
        }
        let room = self.disk.room(bytes.len()).await?;
        self.have.insert(range);
        self.disk.write(Arc::clone(&self.file), offset, bytes, room)
    }

    /// Makes durable and remembers what was written until now. It is on its way when this returns; waiting tells how it
    /// went, and need not be done before the next write. Without a journal there is nothing to do.
    pub fn checkpoint(&mut self) -> Reply<()> {
        let file = Arc::clone(&self.file);
        self.disk.run(Thread::Settler, move || file.checkpoint())
    }

    /// Drops all bytes, on the disk and in the journal. Begin again after it.
    pub async fn restart(&mut self) -> Result<(), SinkError> {
        // Now, because this may be given up while it waits: then the bytes are dropped all the same.
        self.is_begun = false;
        self.is_stale = true;
        self.have = Ranges::default();
        self.version = None;
        let file = Arc::clone(&self.file);
        self.disk.run(Thread::Settler, move || file.restart()).await?;
        self.is_stale = false;
        Ok(())
    }

    /// Removes the partial file and what is remembered of it.
    pub async fn discard(self) -> Result<(), SinkError> {
        let file = self.file;
        self.disk.run(Thread::Settler, move || file.discard()).await
    }

    /// Gives the file its name, once it is proved to be complete and right and is safely on the disk. Many files may be
    /// pending; they are made durable together.
    pub async fn finish(self, wish: Finish) -> Result<Pending, SinkError> {
        if !self.is_begun {
            return Err(self.misuse("finished before it was begun"));
        }
        let Self { disk, file, version, .. } = self;
        let declared = version.and_then(|version| version.size);
        if let (Some(expected), Some(got)) = (declared, wish.total)
            && expected != got
        {
            return Err(SinkError::SizeDiffers { path: file.path(), expected, got });
        }
        let wish = Finish { total: wish.total.or(declared), ..wish };
        disk.finish(move |answer, permit| Finishing { file, wish, answer, permit }).await
    }

    fn sameness(&self, version: &Version) -> Sameness {
        let too_long = version.size.is_some_and(|size| size < self.have.end());
        match &self.version {
            _ if self.have.is_empty() => Sameness::Same,
            Some(_) if too_long => Sameness::Changed,
            Some(before) => before.compare(version),
            None => Sameness::Changed,
        }
    }

    async fn begin_with(&mut self, version: Version, keep: bool) -> Result<(), SinkError> {
        self.is_begun = false;
        if !keep || self.is_stale {
            self.restart().await?;
        }
        if self.have.is_empty() {
            self.version = None;
        }
        self.file.check()?;
        let version = match self.version.take() {
            Some(before) => united(before, version),
            None => version,
        };
        if let Some(size) = version.size.filter(|size| *size >= SMALL) {
            let file = Arc::clone(&self.file);
            let is_in_memory = self.disk.run(Thread::Writer, move || file.reserve(size)).await?;
            // Digests are the writer's work.
            self.is_direct = is_in_memory && !self.file.is_hashed_along();
        }
        self.file.set_version(version.clone());
        self.version = Some(version);
        self.is_begun = true;
        Ok(())
    }

    /// Where a write would end, if it is one that may be.
    fn end_of(&self, offset: u64, len: usize) -> Result<u64, SinkError> {
        if !self.is_begun {
            return Err(self.misuse("written before it was begun"));
        }
        let end = offset.checked_add(len as u64).filter(|end| *end <= LARGEST);
        let end = end.ok_or_else(|| self.misuse("larger than any file can be"))?;
        if let Some(expected) = self.version.as_ref().and_then(|version| version.size)
            && end > expected
        {
            return Err(SinkError::SizeDiffers { path: self.path(), expected, got: end });
        }
        if self.have.overlaps(&(offset..end)) {
            return Err(self.misuse("bytes that are there already"));
        }
        let touches = self.have.overlaps(&(offset.saturating_sub(1)..end.saturating_add(1)));
        if self.have.pieces() >= MOST_PIECES && !touches {
            return Err(self.misuse("in too many pieces"));
        }
        Ok(end)
    }

    fn misuse(&self, what: &'static str) -> SinkError {
        SinkError::Misuse { path: self.path(), what }
    }
}

/// What both say together: a cache may have dropped the tag that came with the first bytes.
fn united(before: Version, now: Version) -> Version {
    Version {
        size: now.size.or(before.size),
        etag: now.etag.or(before.etag),
        weak_etag: now.weak_etag.or(before.weak_etag),
        modified_s: now.modified_s.or(before.modified_s),
        // The bytes that are kept came when the date was younger.
        age_s: before.age_s.into_iter().chain(now.age_s).min(),
    }
}
