//! The replica of a file that grows: appended to in place, under its own name.
//!
//! ```text
//!   open ──> tail (compared with the source's bytes) ──> append … checkpoint ──> append …
//!                └─ another file: rotate ──> the old replica keeps its bytes under another name, a new one begins
//! ```
//!
//! What a crash leaves behind the last checkpoint is cut off when the file is opened again; what nobody vouches for is
//! proved by the comparison that comes before every append. The engine's `follow` calls it; the disk's threads do
//! the work.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use rustix::fs::{self, Timespec, Timestamps, UTIME_OMIT};

use super::disk::{Disk, Thread};
use super::error::SinkError;
use super::file::{file_id, now_s, open_locked};
use super::folder::{Folder, identity};
use super::journal::{JournalPlace, Record};
use super::ranges::Ranges;
use crate::fetch::name::Name;
use crate::fetch::version::Version;

/// The largest tail that is read back.
const LARGEST_TAIL: u64 = 1 << 20;
/// How far a file's time may lie in the future.
const FUTURE_S: i64 = 86_400;
/// So many replicas may be rotated in one second.
const MOST_TWINS: usize = 100;

/// The replica of a file that grows.
#[derive(Debug)]
pub struct Growing {
    disk: Disk,
    inner: Arc<Inner>,
    /// What was given, some of it perhaps still on its way.
    len: u64,
}

#[derive(Debug)]
struct Inner {
    file: Arc<File>,
    folder: Arc<Folder>,
    name: Name,
    journal: JournalPlace,
    identity: (u64, u64),
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    written: u64,
    durable: u64,
    failure: Option<SinkError>,
}

impl Growing {
    /// Opens or makes the replica of `name`.
    pub async fn open(
        disk: &Disk,
        folder: Arc<Folder>,
        name: Name,
        journal: JournalPlace,
    ) -> Result<Self, SinkError> {
        let inner = disk.run(Thread::Writer, move || Inner::open(folder, name, journal)).await?;
        let len = inner.state().written;
        Ok(Self { disk: disk.clone(), inner: Arc::new(inner), len })
    }

    /// How many bytes are here.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether nothing is here.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether its name still leads to it.
    pub fn is_in_place(&self) -> bool {
        self.inner.is_in_place().unwrap_or(false)
    }

    /// The open file, for whoever reads what is durable: it stays the same when the name becomes another's.
    pub fn file(&self) -> Arc<File> {
        Arc::clone(&self.inner.file)
    }

    /// The last bytes, at most so many.
    pub async fn tail(&self, most: usize) -> Result<Bytes, SinkError> {
        let (inner, end) = (Arc::clone(&self.inner), self.len);
        let most = (most as u64).min(LARGEST_TAIL);
        self.disk.run(Thread::Writer, move || inner.read(end.saturating_sub(most), end)).await
    }

    /// Appends. If the future is dropped before it is ready, nothing was given.
    pub async fn append(&mut self, bytes: Bytes) -> Result<(), SinkError> {
        self.inner.check()?;
        let room = self.disk.room(bytes.len()).await?;
        let (inner, at) = (Arc::clone(&self.inner), self.len);
        self.len += bytes.len() as u64;
        // How it went is told by the next call.
        drop(self.disk.run(Thread::Writer, move || {
            inner.write(at, &bytes);
            drop(room);
            Ok(())
        }));
        Ok(())
    }

    /// Makes durable what was appended, and gives the replica this time. How many bytes are durable then.
    pub async fn checkpoint(&self, modified_s: Option<i64>) -> Result<u64, SinkError> {
        let inner = Arc::clone(&self.inner);
        self.disk.run(Thread::Settler, move || inner.checkpoint(modified_s)).await
    }

    /// Begins a new replica. The old one goes to another name, which is given; or away.
    pub async fn rotate(self, keep: bool) -> Result<(Self, Option<Name>), SinkError> {
        let Self { disk, inner, .. } = self;
        let (folder, name, journal) = (Arc::clone(&inner.folder), inner.name.clone(), inner.journal.clone());
        let kept = disk.run(Thread::Settler, move || inner.rotate(keep)).await?;
        Ok((Self::open(&disk, folder, name, journal).await?, kept))
    }
}

impl Inner {
    fn open(folder: Arc<Folder>, name: Name, journal: JournalPlace) -> Result<Self, SinkError> {
        if name.is_temporary() {
            return Err(SinkError::Reserved { path: folder.path_of(&name.to_os_string()) });
        }
        let (file, stat, is_new) = open_locked(&folder, &name.to_os_string())?;
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        let identity = identity(&stat);
        let inner = Self { file: Arc::new(file), folder, name, journal, identity, state: Mutex::default() };
        let record = inner.journal.load()?;
        if is_new && record.is_some() {
            // About a file that somebody removed: a new one may get its number.
            inner.journal.forget()?;
        }
        let id = file_id(&inner.file, identity);
        let durable = record
            .filter(|record| !is_new && record.file.is(&id) && record.ranges.first_gap() <= size)
            .map(|record| record.ranges.first_gap());
        if let Some(durable) = durable.filter(|durable| *durable < size) {
            fs::ftruncate(&inner.file, durable)
                .map_err(|errno| SinkError::at(&inner.path(), "cut the file", errno))?;
        }
        let written = durable.unwrap_or(size);
        *inner.state() = State { written, durable: durable.unwrap_or(0), failure: None };
        Ok(inner)
    }

    fn path(&self) -> PathBuf {
        self.folder.path_of(&self.name.to_os_string())
    }

    fn is_in_place(&self) -> Result<bool, SinkError> {
        let named = self.folder.stat_of(&self.name.to_os_string())?;
        Ok(named.is_some_and(|stat| identity(&stat) == self.identity))
    }

    fn read(&self, from: u64, to: u64) -> Result<Bytes, SinkError> {
        let mut bytes = vec![0; usize::try_from(to.saturating_sub(from)).unwrap_or(0)];
        let read = self.file.read_exact_at(&mut bytes, from);
        read.map_err(|error| SinkError::from_io(&self.path(), "read", &error))?;
        Ok(bytes.into())
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        if self.state().failure.is_some() {
            return;
        }
        let written = self.file.write_all_at(bytes, at);
        let mut state = self.state();
        match written {
            Ok(()) => state.written = at + bytes.len() as u64,
            Err(error) => state.failure = Some(SinkError::from_io(&self.path(), "write", &error)),
        }
    }

    fn check(&self) -> Result<(), SinkError> {
        self.state().failure.clone().map_or(Ok(()), Err)
    }

    /// Durable first, then remembered.
    fn checkpoint(&self, modified_s: Option<i64>) -> Result<u64, SinkError> {
        self.check()?;
        let (written, durable) = {
            let state = self.state();
            (state.written, state.durable)
        };
        if written == durable {
            return Ok(durable);
        }
        if let Some(modified_s) = modified_s {
            self.set_time(modified_s);
        }
        let synced = fs::fsync(&self.file).map_err(|errno| SinkError::at(&self.path(), "sync", errno));
        if let Err(error) = synced {
            // A second try may succeed although the bytes are lost: never believe it again.
            self.state().failure = Some(error.clone());
            return Err(error);
        }
        if durable == 0 {
            self.folder.sync()?;
        }
        let mut ranges = Ranges::default();
        ranges.insert(0..written);
        let version = Version { modified_s, ..Version::default() };
        let file = file_id(&self.file, self.identity);
        self.journal.store(&Record { version, ranges, file, made_at_s: now_s(), chunks: None })?;
        self.state().durable = written;
        Ok(written)
    }

    /// Only a hint.
    fn set_time(&self, modified_s: i64) {
        let tv_sec = modified_s.min(now_s().saturating_add(FUTURE_S));
        let times = Timestamps {
            last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
            last_modification: Timespec { tv_sec, tv_nsec: 0 },
        };
        if let Err(errno) = fs::futimens(&self.file, &times) {
            tracing::debug!(file = %self.path().display(), %errno, "cannot set the time");
        }
    }

    /// Forgotten first: no crash leaves a record about bytes of another file.
    fn rotate(&self, keep: bool) -> Result<Option<Name>, SinkError> {
        if !self.is_in_place()? {
            return Err(SinkError::Replaced { path: self.path() });
        }
        self.journal.forget()?;
        let kept = if keep { Some(self.free_name()?) } else { None };
        match &kept {
            Some(kept) => self.folder.rename(&self.name.to_os_string(), &kept.to_os_string())?,
            None => self.folder.unlink(&self.name.to_os_string())?,
        }
        self.folder.sync()?;
        Ok(kept)
    }

    /// `NAME.20260131T120000Z`, or with a number behind it if there is one already.
    fn free_name(&self) -> Result<Name, SinkError> {
        let now = jiff::Timestamp::from_second(now_s()).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        let stamp = now.strftime("%Y%m%dT%H%M%SZ");
        for twin in 0..MOST_TWINS {
            let number = if twin == 0 { String::new() } else { format!("-{twin}") };
            let ending = format!(".{stamp}{number}");
            let name = Name::from_bytes(&[&self.name.to_bytes(), ending.as_bytes()].concat())
                .map_err(|_| SinkError::NameTooLong { path: self.path() })?;
            if self.folder.stat_of(&name.to_os_string())?.is_none() {
                return Ok(name);
            }
        }
        Err(SinkError::Busy { path: self.path() })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place {
        folder: tempfile::TempDir,
        disk: Disk,
    }

    impl Place {
        fn new() -> Self {
            Self { folder: tempfile::tempdir().unwrap(), disk: Disk::start() }
        }

        async fn open(&self) -> Growing {
            let target = self.folder.path().join("data");
            let folder = Arc::new(Folder::open(&target, true).unwrap());
            let journal = JournalPlace::for_file(&self.folder.path().join("state"), &target.join("log"));
            Growing::open(&self.disk, folder, Name::new("log").unwrap(), journal).await.unwrap()
        }

        fn read(&self, name: &str) -> Vec<u8> {
            std::fs::read(self.folder.path().join("data").join(name)).unwrap()
        }
    }

    #[tokio::test]
    async fn what_no_checkpoint_saw_is_cut_off_and_what_one_saw_stays() {
        let place = Place::new();
        let mut growing = place.open().await;
        growing.append(Bytes::from_static(b"durable ")).await.unwrap();
        assert_eq!(growing.checkpoint(Some(1_600_000_000)).await.unwrap(), 8);
        growing.append(Bytes::from_static(b"torn")).await.unwrap();
        assert_eq!(growing.tail(100).await.unwrap().as_ref(), b"durable torn");
        drop(growing);
        let growing = place.open().await;
        assert_eq!((growing.len(), place.read("log")), (8, b"durable ".to_vec()));
        assert_eq!(growing.tail(3).await.unwrap().as_ref(), b"le ");
    }

    #[tokio::test]
    async fn a_file_that_nobody_vouches_for_is_kept_to_be_compared() {
        let place = Place::new();
        std::fs::create_dir(place.folder.path().join("data")).unwrap();
        std::fs::write(place.folder.path().join("data/log"), b"from elsewhere").unwrap();
        let growing = place.open().await;
        assert_eq!(growing.len(), 14);
    }

    #[tokio::test]
    async fn a_rotated_replica_keeps_its_bytes_and_its_reader() {
        let place = Place::new();
        let mut growing = place.open().await;
        growing.append(Bytes::from_static(b"old")).await.unwrap();
        growing.checkpoint(None).await.unwrap();
        let reader = growing.file();
        let (mut new, kept) = growing.rotate(true).await.unwrap();
        assert!(new.is_empty());
        new.append(Bytes::from_static(b"new one")).await.unwrap();
        new.checkpoint(None).await.unwrap();
        assert_eq!(place.read(kept.unwrap().as_str()), b"old");
        assert_eq!(place.read("log"), b"new one");
        let mut bytes = [0; 3];
        reader.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"old");
        let (_, kept) = new.rotate(false).await.unwrap();
        assert!(kept.is_none());
        assert_eq!(place.read("log"), b"");
    }
}
