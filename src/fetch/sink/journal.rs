//! What is remembered of a partial file across crashes: its version, which bytes are safely on the disk, and which
//! file they are in.
//!
//! A journal is one database file; each partial file has a record in it under a key. `get` has a database per target,
//! removed when the file is complete; a job with many files has one for all of them. The file is made when the first
//! record is written, not before, so thousands of small files never see one. A damaged database is set aside, never
//! trusted and never a panic: the worst that a lost journal costs is pulling again.
//!
//! A [`Part`](super::Part) calls it, on the disk's threads.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use redb::{Database, DatabaseError, ReadableDatabase as _, StorageError, TableDefinition, TableError};
use serde::{Deserialize, Serialize};

use super::chunks::Chunks;
use super::error::SinkError;
use super::ranges::Ranges;
use crate::fetch::version::Version;

const PARTS: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("parts");
/// A record is small, and so is what is read again.
const CACHE_BYTES: usize = 1 << 20;
/// Leading bytes of the record's BLAKE3, before the record.
const CHECK_BYTES: usize = 16;

/// A journal: opened when it is first needed.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    /// Whether the database is about one file, and goes with it.
    is_single: bool,
    database: Mutex<Option<Database>>,
}

/// Where the record of one partial file is kept.
#[derive(Clone, Debug)]
pub struct JournalPlace {
    journal: Arc<Journal>,
    key: String,
}

/// What is remembered of one partial file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// Of which version the bytes are.
    pub(super) version: Version,
    /// Which bytes were safely on the disk.
    pub(super) ranges: Ranges,
    /// In which file.
    pub(super) file: FileId,
    /// When this was written, in seconds since 1970. For people.
    pub(super) made_at_s: i64,
    /// Hashes of the bytes; missing in records of older versions and of growing files.
    #[serde(default)]
    pub(super) chunks: Option<Chunks>,
}

/// What tells a file from another one that came to have the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileId {
    /// The device. Numbers of devices may change when a machine starts again.
    pub(super) device: u64,
    /// The inode. Used again once the file is gone.
    pub(super) inode: u64,
    /// When the file was made, in nanoseconds since 1970, where the file system knows.
    pub(super) born_ns: Option<i64>,
}

impl FileId {
    /// Whether both are one and the same file.
    pub(super) fn is(&self, other: &Self) -> bool {
        let same = match (self.born_ns, other.born_ns) {
            (Some(one), Some(other)) => one == other,
            _ => self.device == other.device,
        };
        self.inode == other.inode && same
    }
}

impl Journal {
    /// A journal for many files, in this database.
    pub fn shared(database: PathBuf) -> Arc<Self> {
        Arc::new(Self { path: database, is_single: false, database: Mutex::new(None) })
    }

    /// The place of one file's record: a job's files are told apart by their relative paths.
    pub fn place(self: &Arc<Self>, key: &str) -> JournalPlace {
        JournalPlace { journal: Arc::clone(self), key: key.to_owned() }
    }
}

impl JournalPlace {
    /// A database of its own in the state folder, for the file that will be at this path.
    pub fn for_file(state_folder: &Path, target: &Path) -> Self {
        let target = std::path::absolute(target).unwrap_or_else(|_| target.to_owned());
        let id = blake3::hash(target.as_os_str().as_encoded_bytes()).to_hex();
        let path = state_folder.join(format!("{id}.redb"));
        let journal = Journal { path, is_single: true, database: Mutex::new(None) };
        Self { journal: Arc::new(journal), key: target.to_string_lossy().into_owned() }
    }

    /// What is remembered, if anything is.
    pub(super) fn load(&self) -> Result<Option<Record>, SinkError> {
        if !self.journal.exists() {
            return Ok(None);
        }
        Ok(self.journal.with(|database| read(database, &self.key))?.flatten())
    }

    /// Remembers; when this returns, the disk does.
    pub(super) fn store(&self, record: &Record) -> Result<(), SinkError> {
        let written = self.journal.with(|database| write(database, &self.key, Some(record)))?;
        // A database that was damaged has been set aside: the second try finds a new one.
        match written {
            Some(()) => Ok(()),
            None => self.journal.with(|database| write(database, &self.key, Some(record))).map(drop),
        }
    }

    /// Forgets; when this returns, the disk has, too.
    pub(super) fn forget(&self) -> Result<(), SinkError> {
        if !self.journal.exists() {
            return Ok(());
        }
        self.journal.with(|database| write(database, &self.key, None)).map(drop)
    }

    /// The file is complete and has its name: its record is of no use any more. One that a power loss brings back is
    /// about a file that no longer is a partial one, and so harmless.
    pub(super) fn remove(&self) -> Result<(), SinkError> {
        if !self.journal.is_single {
            return self.forget();
        }
        // One that was never opened does not exist: whoever opens a part looks into it.
        if self.journal.lock().take().is_none() {
            return Ok(());
        }
        match std::fs::remove_file(&self.journal.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(SinkError::from_io(&self.journal.path, "remove the journal", &error))
            }
            _ => Ok(()),
        }
    }
}

/// What may happen to a database.
enum Trouble {
    /// It makes no sense.
    Damaged(String),
    Failed(SinkError),
}

impl Journal {
    fn exists(&self) -> bool {
        self.lock().is_some() || self.path.exists()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Database>> {
        self.database.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the database, opening or making it first. `None`: it was damaged and has been set aside.
    fn with<T>(&self, work: impl Fn(&Database) -> Result<T, redb::Error>) -> Result<Option<T>, SinkError> {
        let mut slot = self.lock();
        let tried = (|| {
            let database = match slot.take() {
                Some(database) => database,
                None => self.open()?,
            };
            // The library may trust what it finds in a file too much.
            let done = catch_unwind(AssertUnwindSafe(|| work(&database)))
                .map_err(|_| Trouble::Damaged("it cannot be read".to_owned()))?
                .map_err(|error| self.trouble(error))?;
            // After an error the library wants to be opened anew, so only now is it kept.
            *slot = Some(database);
            Ok(done)
        })();
        match tried {
            Ok(done) => Ok(Some(done)),
            Err(Trouble::Failed(error)) => Err(error),
            Err(Trouble::Damaged(why)) => {
                self.set_aside(&why)?;
                Ok(None)
            }
        }
    }

    fn open(&self) -> Result<Database, Trouble> {
        let (file, is_new) = self
            .open_file()
            .map_err(|error| Trouble::Failed(SinkError::from_io(&self.path, "open the journal", &error)))?;
        let opened = catch_unwind(AssertUnwindSafe(|| {
            Database::builder().set_cache_size(CACHE_BYTES).create_file(file)
        }));
        let database = match opened {
            Ok(Ok(database)) => database,
            Ok(Err(DatabaseError::DatabaseAlreadyOpen)) => {
                return Err(Trouble::Failed(SinkError::Busy { path: self.path.clone() }));
            }
            Ok(Err(error)) => return Err(self.trouble(error.into())),
            Err(_) => return Err(Trouble::Damaged("it cannot be opened".to_owned())),
        };
        if is_new {
            self.sync_name();
        }
        Ok(database)
    }

    /// Only its owner may read it: it says what is pulled.
    fn open_file(&self) -> io::Result<(File, bool)> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o600);
        match options.open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened.map(|file| (file, false)),
        }
        if let Some(folder) = self.path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        options.create(true).open(&self.path).map(|file| (file, true))
    }

    fn sync_name(&self) {
        let synced = self.path.parent().map(|folder| File::open(folder).and_then(|folder| folder.sync_all()));
        if let Some(Err(error)) = synced {
            tracing::debug!(journal = %self.path.display(), %error, "cannot sync the state folder");
        }
    }

    fn trouble(&self, error: redb::Error) -> Trouble {
        match error {
            redb::Error::Io(error) if error.raw_os_error().is_some() => {
                Trouble::Failed(SinkError::from_io(&self.path, "write the journal", &error))
            }
            redb::Error::Io(_)
            | redb::Error::Corrupted(_)
            | redb::Error::RepairAborted
            | redb::Error::UpgradeRequired(_)
            | redb::Error::TableTypeMismatch { .. } => Trouble::Damaged(error.to_string()),
            other => Trouble::Failed(SinkError::Journal { path: self.path.clone(), why: other.to_string() }),
        }
    }

    fn set_aside(&self, why: &str) -> Result<(), SinkError> {
        let aside = self.path.with_extension("damaged");
        tracing::warn!(journal = %self.path.display(), why, "a damaged journal is set aside, files start anew");
        std::fs::rename(&self.path, &aside)
            .map_err(|error| SinkError::from_io(&self.path, "set the damaged journal aside", &error))
    }
}

fn read(database: &Database, key: &str) -> Result<Option<Record>, redb::Error> {
    let table = match database.begin_read()?.open_table(PARTS) {
        Ok(table) => table,
        Err(TableError::TableDoesNotExist(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let Some(found) = redb::ReadableTable::get(&table, key)? else { return Ok(None) };
    let damaged = || StorageError::Corrupted("a record that makes no sense".to_owned()).into();
    unsealed(found.value()).map(Some).ok_or_else(damaged)
}

fn write(database: &Database, key: &str, record: Option<&Record>) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    {
        let mut table = transaction.open_table(PARTS)?;
        match record {
            Some(record) => table.insert(key, sealed(record).as_slice())?,
            None => table.remove(key)?,
        };
    }
    Ok(transaction.commit()?)
}

/// The record as bytes, behind a check of its own: the database checks pages only after a crash.
fn sealed(record: &Record) -> Vec<u8> {
    // Maps with text for keys, numbers and lists: this cannot fail.
    let json = serde_json::to_vec(record).unwrap_or_default();
    let mut bytes = blake3::hash(&json).as_bytes().get(..CHECK_BYTES).unwrap_or_default().to_vec();
    bytes.extend_from_slice(&json);
    bytes
}

fn unsealed(bytes: &[u8]) -> Option<Record> {
    let (check, json) = bytes.split_at_checked(CHECK_BYTES)?;
    let is_whole = blake3::hash(json).as_bytes().starts_with(check);
    is_whole.then(|| serde_json::from_slice(json).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    fn record(end: u64) -> Record {
        let mut ranges = Ranges::default();
        ranges.insert(0..end);
        let version = Version { size: Some(100), etag: Some("\"a\"".into()), ..Version::default() };
        let file = FileId { device: 1, inode: 2, born_ns: Some(3) };
        Record { version, ranges, file, made_at_s: 4, chunks: None }
    }

    fn state() -> (tempfile::TempDir, PathBuf) {
        let place = tempfile::tempdir().expect("a folder");
        let folder = place.path().join("state/parts");
        (place, folder)
    }

    fn only_file(folder: &Path) -> PathBuf {
        let entries =
            std::fs::read_dir(folder).expect("it is there").map(|entry| entry.expect("an entry").path());
        let entries = entries.collect::<Vec<_>>();
        assert_eq!(entries.len(), 1, "{entries:?}");
        entries.into_iter().next().expect("one")
    }

    #[test]
    fn nothing_is_made_before_something_is_remembered() {
        let (_place, folder) = state();
        let place = JournalPlace::for_file(&folder, Path::new("/data/x"));
        assert_eq!(place.load().expect("read"), None);
        place.forget().expect("forgotten");
        place.remove().expect("removed");
        assert!(!folder.exists());
    }

    #[test]
    fn a_record_is_found_again_and_gone_with_its_file() {
        let (_place, folder) = state();
        let place = JournalPlace::for_file(&folder, Path::new("/data/x"));
        place.store(&record(7)).expect("stored");
        place.store(&record(9)).expect("stored");
        drop(place);
        let place = JournalPlace::for_file(&folder, Path::new("/data/x"));
        assert_eq!(place.load().expect("read"), Some(record(9)));
        let file = only_file(&folder);
        let mode = |path: &Path| std::fs::metadata(path).expect("there").mode() & 0o777;
        assert_eq!((mode(&file), mode(&folder)), (0o600, 0o700));
        place.remove().expect("removed");
        assert!(!file.exists());
    }

    #[test]
    fn many_files_of_a_job_share_a_database() {
        let (_place, folder) = state();
        let journal = Journal::shared(folder.join("job.redb"));
        for (key, end) in [("a/x", 1), ("b/x", 2)] {
            journal.place(key).store(&record(end)).expect("stored");
        }
        journal.place("a/x").remove().expect("removed");
        drop(journal);
        let journal = Journal::shared(folder.join("job.redb"));
        assert_eq!(journal.place("a/x").load().expect("read"), None);
        assert_eq!(journal.place("b/x").load().expect("read"), Some(record(2)));
    }

    #[test]
    fn a_journal_in_use_is_busy() {
        let (_place, folder) = state();
        let one = JournalPlace::for_file(&folder, Path::new("/data/x"));
        one.store(&record(7)).expect("stored");
        let two = JournalPlace::for_file(&folder, Path::new("/data/x"));
        assert!(matches!(two.load(), Err(SinkError::Busy { .. })));
    }

    /// Wherever a byte is flipped, what is read back is the truth or nothing.
    #[test]
    fn a_damaged_journal_is_never_believed_and_never_a_panic() {
        let (_place, folder) = state();
        let target = Path::new("/data/x");
        JournalPlace::for_file(&folder, target).store(&record(7)).expect("stored");
        let path = only_file(&folder);
        let whole = std::fs::read(&path).expect("read");
        let steps = (0..whole.len()).step_by(whole.len() / 150).chain(0..64);
        for at in steps {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x55;
            std::fs::write(&path, &damaged).expect("written");
            let place = JournalPlace::for_file(&folder, target);
            let found = place.load().expect("damage is no error");
            assert!(found.is_none_or(|found| found == record(7)), "byte {at}");
            place.store(&record(8)).expect("it can be written again");
            assert_eq!(place.load().expect("read"), Some(record(8)));
        }
        for content in [&b""[..], &b"no database"[..], &whole[..whole.len() / 2]] {
            std::fs::write(&path, content).expect("written");
            let place = JournalPlace::for_file(&folder, target);
            assert_eq!(place.load().expect("damage is no error"), None);
            place.store(&record(8)).expect("it can be written again");
        }
    }

    #[test]
    fn a_new_file_with_an_old_number_is_another_file() {
        let file = FileId { device: 1, inode: 2, born_ns: Some(3) };
        assert!(file.is(&FileId { device: 9, ..file }), "devices are numbered anew at every start");
        assert!(!file.is(&FileId { born_ns: Some(4), ..file }));
        assert!(!file.is(&FileId { inode: 7, ..file }));
        assert!(!file.is(&FileId { born_ns: None, device: 9, ..file }));
    }
}
