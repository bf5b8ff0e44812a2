//! A folder whose files are read with care and replaced as a whole.
//!
//! Knows nothing of keys and circles: that is the home's. Secrets are refused if others can read them or if they are
//! links; writers exclude each other by a lock.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags};
use zeroize::Zeroizing;

use super::FileError;

/// No file of a home comes near: the ledger of ten thousand members has about 4 MB.
const LENGTH_LIMIT: u64 = 16 << 20;

/// Whether a file must be closed to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Secrecy {
    Secret,
    Public,
}

/// While it lives, no other process or thread has the same lock. The kernel takes it back from the dead.
#[derive(Debug)]
pub(super) struct Lock(#[expect(dead_code, reason = "the lock goes when the file is closed")] File);

/// A folder that is closed to others.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Makes a new one, or closes an empty one. One with something in it is left alone: there may be a key in it.
    pub(super) fn create(path: PathBuf) -> Result<Self, FileError> {
        let folder = Self { path };
        let failed = |source| io_error("create", &folder.path, source);
        DirBuilder::new().recursive(true).mode(0o700).create(&folder.path).map_err(failed)?;
        if fs::read_dir(&folder.path).map_err(failed)?.next().is_some() {
            return Err(FileError::NotEmpty { path: folder.path });
        }
        // The folder may have been there, empty and wider.
        fs::set_permissions(&folder.path, Permissions::from_mode(0o700)).map_err(failed)?;
        Ok(folder)
    }

    /// One that exists.
    pub(super) fn open(path: PathBuf) -> Result<Self, FileError> {
        let metadata = match fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => metadata,
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(io_error("open", &path, source));
            }
            _ => return Err(FileError::NotAHome { path }),
        };
        // Whoever can write into the folder can exchange every file in it.
        let mode = metadata.permissions().mode() & 0o7777;
        if mode & 0o022 != 0 {
            return Err(FileError::TooOpen { path, mode, cure: 0o700 });
        }
        Ok(Self { path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until nobody else has the lock of this name.
    pub(super) fn lock(&self, name: &str) -> Result<Lock, FileError> {
        let path = self.path.join(name);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let failed = |errno: rustix::io::Errno| io_error("lock", &path, errno.into());
        let file = rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
        rustix::io::retry_on_intr(|| rustix::fs::flock(&file, FlockOperation::LockExclusive))
            .map_err(failed)?;
        Ok(Lock(file.into()))
    }

    /// The file's bytes, if it exists. A secret must be closed to others and must not be a link.
    pub(super) fn read(&self, name: &str, secrecy: Secrecy) -> Result<Option<Zeroizing<Vec<u8>>>, FileError> {
        let path = self.path.join(name);
        // Not to wait for a pipe that somebody put there.
        let mut flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        if secrecy == Secrecy::Secret {
            flags |= OFlags::NOFOLLOW;
        }
        let file = match rustix::fs::open(&path, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(rustix::io::Errno::LOOP) => return Err(FileError::Symlink { path }),
            Err(errno) => return Err(io_error("open", &path, errno.into())),
        };
        let metadata = file.metadata().map_err(|source| io_error("read", &path, source))?;
        if !metadata.is_file() || metadata.len() > LENGTH_LIMIT {
            return Err(FileError::NotAFile { path });
        }
        let mode = metadata.permissions().mode() & 0o7777;
        if secrecy == Secrecy::Secret && mode & 0o077 != 0 {
            return Err(FileError::TooOpen { path, mode, cure: 0o600 });
        }
        // Room for everything at once: a growing buffer leaves copies of secrets behind.
        let capacity = usize::try_from(metadata.len()).unwrap_or_default() + 32;
        let mut bytes = Zeroizing::new(Vec::with_capacity(capacity));
        let mut input = file.take(LENGTH_LIMIT);
        input.read_to_end(&mut bytes).map_err(|source| io_error("read", &path, source))?;
        Ok(Some(bytes))
    }

    /// Puts a new file in the place of the old one: written, on disk, then renamed. Mode 0600 for everything.
    pub(super) fn write(&self, _: &Lock, name: &str, bytes: &[u8]) -> Result<(), FileError> {
        let (path, temporary) = (self.path.join(name), self.path.join(format!(".{name}.new")));
        let failed = |source| io_error("write", &path, source);
        // Left over from a crash; under the lock nobody else is writing it.
        let _ = fs::remove_file(&temporary);
        let written = write_new(&temporary, bytes).and_then(|()| fs::rename(&temporary, &path));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written.map_err(failed)?;
        File::open(&self.path).and_then(|folder| folder.sync_all()).map_err(failed)
    }
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?);
    file.write_all(bytes)?;
    file.sync_all()
}

pub(super) fn io_error(verb: &'static str, path: &Path, source: io::Error) -> FileError {
    FileError::Io { verb, path: path.to_owned(), source }
}
