//! What is remembered of a tree of replicas from one run to the next: which files were pulled, in which version, and what
//! their bytes add up to. Mirrors and subscriptions write it, `verify` reads it.
//!
//! One database per target folder, in the state folder. It is locked while a job has it open, so one target has one job. A
//! lost manifest costs looking again, never a wrong file: what is on the disk was verified before it got its name.

use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use redb::{
    Database, DatabaseError, ReadableDatabase as _, ReadableTable as _, ReadableTableMetadata as _,
    TableDefinition, TableError,
};
use serde::{Deserialize, Serialize};

use super::moved;

/// By the path below the target, with slashes.
const REPLICAS: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("replicas");

/// What a job wants to know the next time, by its own keys.
const NOTES: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("notes");

/// Records are small, and read in order.
const CACHE_BYTES: usize = 4 << 20;

/// What is known of one replica.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Its size in bytes.
    pub size: u64,
    /// When its original was last changed, in seconds since 1970, as the source says.
    pub modified_s: Option<i64>,
    /// What its bytes add up to.
    pub sha256: Option<[u8; 32]>,
    /// When it was pulled, in seconds since 1970.
    pub pulled_s: i64,
    /// Whether everything that was to be done with it is done.
    pub delivered: bool,
    /// Whether the replica was removed here on purpose (`--keep`): it is not to be pulled again.
    pub flushed: bool,
    /// The time that we gave the replica: with another one it is not as we left it.
    #[serde(default)]
    pub replica_s: Option<i64>,
    /// Entity tag of the version that was pulled.
    #[serde(default)]
    pub etag: Option<String>,
    /// What the source's listing stated when the source was last asked for this file.
    #[serde(default)]
    pub listed: Option<Listed>,
}

/// Statement of a listing about a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// Time as it was written, without zone or not to the second.
    #[serde(default)]
    pub coarse_s: Option<i64>,
    /// Time to the second, in seconds since 1970.
    #[serde(default)]
    pub exact_s: Option<i64>,
    /// Size, if written to the byte.
    #[serde(default)]
    pub size: Option<u64>,
    /// When the statement was last compared with the source's own answer, in seconds since 1970.
    pub seen_s: i64,
    /// Result of that comparison.
    #[serde(default)]
    pub standing: Standing,
}

/// Relation between a listed time and the version that the source served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// The listed time is that of the version: the same statement needs no question.
    #[default]
    Settled,
    /// The listed time may be that of another version: the source is asked in every run.
    Open,
    /// The listed time has changed while the version has not: the source serves an older version than it lists.
    Contradicted,
}

/// What goes wrong with a manifest.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// Another process has it open.
    #[error("{}: another job is at work there; wait for it, or stop it", target.display())]
    Busy {
        /// The target folder.
        target: PathBuf,
    },
    /// The database makes no sense.
    #[error("the manifest {} is damaged; remove it, and the next run makes a new one", path.display())]
    Damaged {
        /// Where it is.
        path: PathBuf,
        /// What is wrong.
        source: Box<redb::Error>,
    },
    /// It cannot be read or written.
    #[error("cannot use the manifest {}", path.display())]
    Io {
        /// Where it is.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// The manifest of one target folder. Its calls wait for the disk: not for async threads.
#[derive(Debug)]
pub struct Manifest {
    database: Database,
    path: PathBuf,
}

impl Manifest {
    /// Where the manifest of a target is.
    pub fn path_for(state: &Path, target: &Path) -> PathBuf {
        let target = std::fs::canonicalize(target)
            .or_else(|_| std::path::absolute(target))
            .unwrap_or_else(|_| target.to_owned());
        let id = blake3::hash(target.as_os_str().as_encoded_bytes()).to_hex();
        state.join("manifests").join(format!("{id}.redb"))
    }

    /// Opens the manifest of a target, or makes it. Nobody else can have it open at the same time. The manifest of a folder
    /// that was moved to this place goes with it.
    pub fn open(state: &Path, target: &Path) -> Result<Self, ManifestError> {
        let path = Self::path_for(state, target);
        let failed = |source| ManifestError::Io { path: path.clone(), source };
        let folder = path.parent().unwrap_or(state);
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        moved::adopt(state, target).map_err(failed)?;
        let manifest = Self::open_at(path.clone(), target)?;
        moved::record(state, target).map_err(failed)?;
        Ok(manifest)
    }

    /// Opens the manifest of a target if there is one, also that of a folder that was moved to this place. Changes nothing.
    pub fn open_known(state: &Path, target: &Path) -> Result<Option<Self>, ManifestError> {
        let path = Self::path_for(state, target);
        let known = if path.exists() {
            Some(path)
        } else {
            moved::find(state, target, false).map(|known| known.manifest)
        };
        known.map(|path| Self::open_at(path, target)).transpose()
    }

    /// Opens the manifest in this file, which belongs to `target`.
    pub(super) fn open_at(path: PathBuf, target: &Path) -> Result<Self, ManifestError> {
        let failed = |source| ManifestError::Io { path: path.clone(), source };
        let mut options = std::fs::OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let opened = Database::builder().set_cache_size(CACHE_BYTES).create_file(file.map_err(failed)?);
        match opened {
            Ok(database) => Ok(Self { database, path }),
            Err(DatabaseError::DatabaseAlreadyOpen) => Err(ManifestError::Busy { target: target.to_owned() }),
            Err(error) => Err(trouble(&path, error)),
        }
    }

    /// What is known of a replica.
    pub fn find(&self, path: &str) -> Result<Option<Record>, ManifestError> {
        let read = || -> Result<Option<Record>, redb::Error> {
            let table = match self.database.begin_read()?.open_table(REPLICAS) {
                Err(TableError::TableDoesNotExist(_)) => return Ok(None),
                table => table?,
            };
            Ok(table.get(path)?.and_then(|bytes| decode(bytes.value())))
        };
        read().map_err(|error| trouble(&self.path, error))
    }

    /// How many replicas are remembered.
    pub fn count(&self) -> Result<u64, ManifestError> {
        let read = || -> Result<u64, redb::Error> {
            match self.database.begin_read()?.open_table(REPLICAS) {
                Err(TableError::TableDoesNotExist(_)) => Ok(0),
                table => Ok(table?.len()?),
            }
        };
        read().map_err(|error| trouble(&self.path, error))
    }

    /// Calls `with` for every replica, in the order of the paths, until it says stop.
    pub fn for_each(&self, mut with: impl FnMut(&str, Record) -> bool) -> Result<(), ManifestError> {
        let mut read = || -> Result<(), redb::Error> {
            let table = match self.database.begin_read()?.open_table(REPLICAS) {
                Err(TableError::TableDoesNotExist(_)) => return Ok(()),
                table => table?,
            };
            for entry in table.iter()? {
                let (path, bytes) = entry?;
                if let Some(record) = decode(bytes.value())
                    && !with(path.value(), record)
                {
                    break;
                }
            }
            Ok(())
        };
        read().map_err(|error| trouble(&self.path, error))
    }

    /// Remembers (or forgets, with `None`) several replicas at once; when this returns, the disk does.
    pub fn write<'a>(
        &self,
        changes: impl IntoIterator<Item = (&'a str, Option<&'a Record>)>,
    ) -> Result<(), ManifestError> {
        let write = || -> Result<(), redb::Error> {
            let transaction = self.database.begin_write()?;
            {
                let mut table = transaction.open_table(REPLICAS)?;
                for (path, record) in changes {
                    match record {
                        Some(record) => drop(table.insert(path, encode(record).as_slice())?),
                        None => drop(table.remove(path)?),
                    }
                }
            }
            Ok(transaction.commit()?)
        };
        write().map_err(|error| trouble(&self.path, error))
    }

    /// What the job noted under this key.
    pub fn note(&self, key: &str) -> Result<Option<Vec<u8>>, ManifestError> {
        let read = || -> Result<Option<Vec<u8>>, redb::Error> {
            match self.database.begin_read()?.open_table(NOTES) {
                Err(TableError::TableDoesNotExist(_)) => Ok(None),
                table => Ok(table?.get(key)?.map(|bytes| bytes.value().to_vec())),
            }
        };
        read().map_err(|error| trouble(&self.path, error))
    }

    /// Notes something for the next run.
    pub fn write_note(&self, key: &str, value: &[u8]) -> Result<(), ManifestError> {
        let write = || -> Result<(), redb::Error> {
            let transaction = self.database.begin_write()?;
            transaction.open_table(NOTES)?.insert(key, value)?;
            Ok(transaction.commit()?)
        };
        write().map_err(|error| trouble(&self.path, error))
    }
}

fn encode(record: &Record) -> Vec<u8> {
    serde_json::to_vec(record).expect("a record is plain data")
}

/// A record that cannot be read is none: its file is looked at again.
fn decode(bytes: &[u8]) -> Option<Record> {
    serde_json::from_slice(bytes).ok()
}

fn trouble(path: &Path, error: impl Into<redb::Error>) -> ManifestError {
    match error.into() {
        redb::Error::Io(source) => ManifestError::Io { path: path.to_owned(), source },
        source => ManifestError::Damaged { path: path.to_owned(), source: Box::new(source) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(size: u64) -> Record {
        Record { size, sha256: Some([7; 32]), modified_s: Some(-1), ..Record::default() }
    }

    #[test]
    fn what_was_written_is_there_the_next_time() {
        let (state, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let manifest = Manifest::open(state.path(), target.path()).unwrap();
        assert_eq!(manifest.find("a").unwrap(), None);
        manifest.write([("b/c", Some(&record(2))), ("a", Some(&record(1)))]).unwrap();
        manifest.write_note("last", b"x").unwrap();
        drop(manifest);
        let manifest = Manifest::open(state.path(), target.path()).unwrap();
        assert_eq!(manifest.find("a").unwrap(), Some(record(1)));
        assert_eq!(manifest.note("last").unwrap().as_deref(), Some(&b"x"[..]));
        manifest.write([("a", None)]).unwrap();
        let mut seen = Vec::new();
        manifest
            .for_each(|path, record| {
                seen.push((path.to_owned(), record.size));
                true
            })
            .unwrap();
        assert_eq!(seen, [("b/c".to_owned(), 2)]);
    }

    #[test]
    fn one_target_has_one_job() {
        let (state, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let _first = Manifest::open(state.path(), target.path()).unwrap();
        let second = Manifest::open(state.path(), &target.path().join("."));
        assert!(matches!(second, Err(ManifestError::Busy { .. })), "{second:?}");
        Manifest::open(state.path(), state.path()).unwrap();
    }

    #[test]
    fn a_damaged_manifest_is_named() {
        let (state, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = Manifest::path_for(state.path(), target.path());
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, b"no database at all").unwrap();
        let error = Manifest::open(state.path(), target.path()).unwrap_err();
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    }
}
