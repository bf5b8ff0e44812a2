//! Recognises a folder of replicas that was moved, so that its manifest is found under its old path.
//!
//! Beside each manifest lies a note about its folder: the path, and what the file system calls it. A folder is the same one
//! if the file system says so, or if its old path is gone and files at the new one are as the manifest remembers them.

use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use tracing::info;

use super::manifest::{Manifest, Record};
use crate::fetch::name::disk_path;

/// So many files are compared where the file system does not tell.
const SAMPLE: u32 = 64;

/// So many of them must be the same: some may have been changed or lost since.
const MOVED_SHARE: f64 = 0.5;

/// Ending of the notes.
const ENDING: &str = "json";

/// What is noted about the folder of a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    /// The absolute path, as bytes.
    target: Vec<u8>,
    device: u64,
    inode: u64,
    /// When the folder was made, in nanoseconds since 1970, where the file system knows.
    born_ns: Option<u64>,
}

impl Note {
    fn of(target: &Path) -> io::Result<Self> {
        let path = fs::canonicalize(target)?;
        let about = fs::metadata(&path)?;
        let born = about.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
        Ok(Self {
            target: path.into_os_string().into_vec(),
            device: about.dev(),
            inode: about.ino(),
            born_ns: born.and_then(|born| u64::try_from(born.as_nanos()).ok()),
        })
    }

    fn read(path: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(path).ok()?).ok()
    }

    fn path(&self) -> PathBuf {
        PathBuf::from(std::ffi::OsStr::from_bytes(&self.target))
    }

    /// Whether both are about one folder: the number of an inode is given again, but not with the same time of birth. The
    /// number of a device may change with every start of the machine.
    fn is_same_folder(&self, other: &Self) -> bool {
        self.inode == other.inode && self.born_ns.is_some() && self.born_ns == other.born_ns
    }

    /// Whether the folder may have been moved away from its old path to `here`.
    fn has_gone(&self, here: &Self) -> bool {
        match Self::of(&self.path()) {
            // One folder at two paths, such as by a bind mount. A snapshot has another device.
            Ok(there) if self.is_same_folder(&there) => {
                here.device == there.device && here.inode == there.inode
            }
            Ok(_) => true,
            Err(error) => matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
        }
    }
}

/// A manifest that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Known {
    /// The manifest.
    pub(super) manifest: PathBuf,
    /// The path under which the folder is known.
    pub(super) was: PathBuf,
}

/// Finds the manifest of a folder that is known under another path. With `copies` that of a folder that is still there, too,
/// if all files of a sample are the same in both.
pub(super) fn find(state: &Path, target: &Path, copies: bool) -> Option<Known> {
    let here = Note::of(target).ok()?;
    let mut notes = Vec::new();
    for entry in fs::read_dir(state.join("manifests")).ok()?.flatten() {
        let path = entry.path();
        let manifest = path.with_extension("redb");
        if path.extension().is_some_and(|ending| ending == ENDING)
            && manifest.exists()
            && let Some(note) = Note::read(&path)
            && note.target != here.target
        {
            notes.push((note, manifest));
        }
    }
    notes.sort_by(|a, b| a.1.cmp(&b.1));
    let known = |(note, manifest): &(Note, PathBuf)| Known { manifest: manifest.clone(), was: note.path() };
    let is_same = |note: &Note| note.is_same_folder(&here) && note.has_gone(&here);
    if let Some(same) = notes.iter().find(|(note, _)| is_same(note)) {
        return Some(known(same));
    }
    let is_alike = |(note, manifest): &&(Note, PathBuf)| {
        let least = if note.has_gone(&here) { MOVED_SHARE } else { 1.0 };
        (copies || note.has_gone(&here)) && share_alike(manifest, target) >= least
    };
    notes.iter().find(is_alike).map(known)
}

/// The manifest of a folder that was moved goes with it.
pub(super) fn adopt(state: &Path, target: &Path) -> io::Result<()> {
    let path = Manifest::path_for(state, target);
    if path.exists() {
        return Ok(());
    }
    let Some(Known { manifest, was }) = find(state, target, false) else { return Ok(()) };
    info!(was = %was.display(), now = %target.display(), "the folder was moved, and is still known");
    fs::rename(&manifest, &path)?;
    match fs::remove_file(manifest.with_extension(ENDING)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Notes which folder the manifest of a target is about.
pub(super) fn record(state: &Path, target: &Path) -> io::Result<()> {
    // A target that is not there yet is noted the next time.
    let Ok(note) = Note::of(target) else { return Ok(()) };
    let path = Manifest::path_for(state, target).with_extension(ENDING);
    if Note::read(&path).as_ref() == Some(&note) {
        return Ok(());
    }
    let new = path.with_extension("new");
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(&serde_json::to_vec(&note).map_err(io::Error::other)?)?;
    fs::rename(&new, &path)
}

/// How many of the first files that a manifest remembers are in this folder, with the same sizes and times.
fn share_alike(manifest: &Path, target: &Path) -> f64 {
    // A manifest that is in use belongs to a folder that is in use.
    let Ok(manifest) = Manifest::open_at(manifest.to_owned(), target) else { return 0.0 };
    let (mut count, mut same) = (0_u32, 0_u32);
    let read = manifest.for_each(|path, record| {
        if !record.flushed {
            count += 1;
            same += u32::from(is_as_remembered(&target.join(disk_path(path)), &record));
        }
        count < SAMPLE
    });
    if read.is_ok() { f64::from(same) / f64::from(count.max(1)) } else { 0.0 }
}

fn is_as_remembered(path: &Path, record: &Record) -> bool {
    let Ok(about) = fs::symlink_metadata(path) else { return false };
    let is_same_time = record.replica_s.is_none_or(|time| time == about.mtime());
    about.is_file() && about.len() == record.size && is_same_time
}

#[cfg(test)]
mod tests {
    use super::*;

    struct World {
        folder: tempfile::TempDir,
    }

    impl World {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir(folder.path().join("old")).unwrap();
            fs::write(folder.path().join("old/f"), b"12345").unwrap();
            let world = Self { folder };
            let record = Record { size: 5, delivered: true, ..Record::default() };
            Manifest::open(&world.state(), &world.at("old")).unwrap().write([("f", Some(&record))]).unwrap();
            world
        }

        fn state(&self) -> PathBuf {
            self.at("state")
        }

        fn at(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn was(&self, name: &str, copies: bool) -> Option<PathBuf> {
            find(&self.state(), &self.at(name), copies).map(|known| known.was)
        }

        fn copy(&self, to: &str, bytes: &[u8]) {
            fs::create_dir(self.at(to)).unwrap();
            fs::write(self.at(to).join("f"), bytes).unwrap();
        }
    }

    #[test]
    fn a_moved_folder_takes_its_manifest_along() {
        let world = World::new();
        fs::rename(world.at("old"), world.at("new")).unwrap();
        assert_eq!(world.was("new", false), Some(world.at("old")));
        let manifest = Manifest::open(&world.state(), &world.at("new")).unwrap();
        assert_eq!(manifest.find("f").unwrap().map(|record| record.size), Some(5));
        drop(manifest);
        // Nothing of the old place is left behind.
        fs::create_dir(world.at("old")).unwrap();
        assert_eq!(Manifest::open(&world.state(), &world.at("old")).unwrap().count().unwrap(), 0);
        fs::rename(world.at("new"), world.at("newer")).unwrap();
        assert_eq!(world.was("newer", false), Some(world.at("new")));
    }

    #[test]
    fn a_folder_on_another_disk_is_recognised_by_its_files() {
        let world = World::new();
        world.copy("copy", b"12345");
        assert_eq!((world.was("copy", false), world.was("copy", true)), (None, Some(world.at("old"))));
        world.copy("other", b"1234");
        fs::remove_dir_all(world.at("old")).unwrap();
        assert_eq!(world.was("copy", false), Some(world.at("old")));
        assert_eq!((world.was("other", false), world.was("other", true)), (None, None));
    }

    #[test]
    fn a_new_folder_at_the_old_path_is_another_one() {
        let world = World::new();
        fs::rename(world.at("old"), world.at("new")).unwrap();
        fs::create_dir(world.at("old")).unwrap();
        assert_eq!(world.was("new", false), Some(world.at("old")));
        // Used first, it takes over what is known; then the moved one is recognised by its files only as a copy.
        drop(Manifest::open(&world.state(), &world.at("old")).unwrap());
        assert_eq!((world.was("new", false), world.was("new", true)), (None, Some(world.at("old"))));
    }
}
