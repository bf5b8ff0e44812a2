//! A folder to write into, held open: everything below it is reached from its descriptor, never by a path.
//!
//! So nothing that is swapped or planted while we run leads out of it. Below the target no symbolic link is followed,
//! the target itself is the user's word and may be one. Names are [`Name`]s, one component each.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use super::error::SinkError;
use crate::fetch::name::{Name, PART_ENDING};

/// As the user's umask wants it.
const NEW_FOLDER: Mode = Mode::from_raw_mode(0o777);

/// What of a file's mode is passed on.
const PERMISSIONS: u32 = 0o777;

/// An open folder.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
    /// For messages only.
    path: PathBuf,
    /// The folder that holds this one, if that was opened by us too.
    parent: Option<Arc<Folder>>,
    /// Whether this folder would be found again after a power loss, as far as we know.
    is_durable: AtomicBool,
}

/// A file that is there already, under its final name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replica {
    /// Its size in bytes.
    pub size: u64,
    /// When it was changed, in seconds since 1970.
    pub modified_s: i64,
}

/// What is in a folder under some name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Here {
    /// A file.
    File(Replica),
    /// A folder.
    Folder,
    /// A link, a pipe, a device: nothing of ours.
    Other(&'static str),
}

impl Folder {
    /// Opens a folder that the user named; makes it, and those above it, if asked to.
    pub fn open(path: &Path, create: bool) -> Result<Self, SinkError> {
        let is_new = create && !path.is_dir();
        if is_new {
            std::fs::create_dir_all(path).map_err(|error| match error.kind() {
                ErrorKind::AlreadyExists | ErrorKind::NotADirectory => {
                    SinkError::NotAFolder { path: path.to_owned(), link: false }
                }
                _ => SinkError::from_io(path, "make the folder", &error),
            })?;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = fs::open(path, flags, Mode::empty())
            .map_err(|errno| SinkError::at(path, "open the folder", errno))?;
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Ok(Self { fd, path, parent: None, is_durable: AtomicBool::new(!is_new) })
    }

    /// The same for a folder that is to hold a whole tree: not `/` and not the user's home, whatever the way there.
    pub fn open_tree_target(path: &Path, create: bool) -> Result<Self, SinkError> {
        let folder = Self::open(path, create)?;
        let own = identity(&folder.stat()?);
        let home = std::env::home_dir().filter(|home| !home.as_os_str().is_empty());
        let forbidden = [Some(PathBuf::from("/")), home];
        for place in forbidden.iter().flatten() {
            if fs::stat(place).is_ok_and(|stat| identity(&stat) == own) {
                return Err(SinkError::UnsafeTarget { path: folder.path });
            }
        }
        Ok(folder)
    }

    /// A folder in this one; makes it if asked to. One that is there is never changed.
    pub fn subfolder(self: &Arc<Self>, name: &Name, create: bool) -> Result<Self, SinkError> {
        let path = self.path_of(&name.to_os_string());
        let mut opened = self.open_folder(name);
        let mut is_new = false;
        if create && matches!(opened, Err(Errno::NOENT)) {
            is_new = match fs::mkdirat(&self.fd, name.to_os_string(), NEW_FOLDER) {
                Ok(()) => true,
                // Another process was faster, or a link that leads nowhere: opening tells.
                Err(Errno::EXIST) => false,
                Err(errno) => return Err(SinkError::at(&path, "make the folder", errno)),
            };
            opened = self.open_folder(name);
        }
        match opened {
            Ok(fd) => {
                Ok(Self { fd, path, parent: Some(Arc::clone(self)), is_durable: AtomicBool::new(!is_new) })
            }
            // Both say either, depending on the kernel.
            Err(Errno::LOOP | Errno::NOTDIR) => {
                let link = matches!(self.stat_of(&name.to_os_string()), Ok(Some(stat)) if kind(&stat) == FileType::Symlink);
                Err(SinkError::NotAFolder { path, link })
            }
            Err(errno) => Err(SinkError::at(&path, "open the folder", errno)),
        }
    }

    /// The file that is there under its final name, if there is one. What is no file is an error.
    pub fn replica(&self, name: &Name) -> Result<Option<Replica>, SinkError> {
        let replica =
            |stat: Stat| Replica { size: stat.st_size.try_into().unwrap_or(0), modified_s: stat.st_mtime };
        Ok(self.stat_of_file(name)?.map(replica))
    }

    /// What is there under a name, whatever it is.
    pub fn look(&self, name: &Name) -> Result<Option<Here>, SinkError> {
        Ok(self.stat_of(&name.to_os_string())?.map(|stat| match kind(&stat) {
            FileType::RegularFile => {
                let size = stat.st_size.try_into().unwrap_or(0);
                Here::File(Replica { size, modified_s: stat.st_mtime })
            }
            FileType::Directory => Here::Folder,
            other => Here::Other(called(other)),
        }))
    }

    /// All that is in it, in the order of the names. What has a name that we would never give is left out: it is not ours.
    pub fn names(&self) -> Result<Vec<Name>, SinkError> {
        self.names_and_others().map(|(names, _)| names)
    }

    /// The same, and how many entries have a name that we would never give.
    pub fn names_and_others(&self) -> Result<(Vec<Name>, u64), SinkError> {
        let failed = |errno| SinkError::at(&self.path, "read the folder", errno);
        let (mut names, mut others) = (Vec::new(), 0);
        for entry in Dir::read_from(&self.fd).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_bytes();
            match Name::from_bytes(name) {
                Ok(name) => names.push(name),
                Err(_) => others += u64::from(!matches!(name, b"." | b"..")),
            }
        }
        names.sort_unstable();
        Ok((names, others))
    }

    /// Whether this file system distinguishes names that differ only in case or Unicode composition: tried with a temporary
    /// file. Where nothing can be made, nothing can collide either.
    pub fn distinguishes_twins(&self) -> bool {
        let probe = format!("Probe-\u{e9}-{}{PART_ENDING}", std::process::id());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        if self.open_file(OsStr::new(&probe), flags, Mode::from_raw_mode(0o600)).is_err() {
            return true;
        }
        let twins = [probe.to_lowercase(), probe.replace('\u{e9}', "e\u{301}")];
        let is_found = |twin: &String| matches!(self.stat_of(OsStr::new(twin)), Ok(Some(_)));
        let distinguishes = !twins.iter().any(is_found);
        // What stays is recognised as temporary.
        let _ = self.unlink(OsStr::new(&probe));
        distinguishes
    }

    /// Opens a file to be read.
    pub fn read(&self, name: &Name) -> Result<File, SinkError> {
        self.stat_of_file(name)?;
        self.open_file(&name.to_os_string(), OFlags::RDONLY, Mode::empty())
            .map_err(|errno| SinkError::at(&self.path_of(&name.to_os_string()), "read the file", errno))
    }

    /// The beginning of a file, up to so many bytes.
    pub fn content(&self, name: &Name, most: u64) -> Result<Vec<u8>, SinkError> {
        let mut content = Vec::new();
        match self.read(name)?.take(most).read_to_end(&mut content) {
            Ok(_) => Ok(content),
            Err(error) => {
                Err(SinkError::from_io(&self.path_of(&name.to_os_string()), "read the file", &error))
            }
        }
    }

    /// Removes a file, if it is one.
    pub fn remove_file(&self, name: &Name) -> Result<(), SinkError> {
        match self.stat_of_file(name)? {
            Some(_) => self.unlink(&name.to_os_string()),
            None => Ok(()),
        }
    }

    /// Removes a folder if it is empty, and says whether it was.
    pub fn remove_folder(&self, name: &Name) -> Result<bool, SinkError> {
        match fs::unlinkat(&self.fd, name.to_os_string(), AtFlags::REMOVEDIR) {
            Ok(()) => Ok(true),
            Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOENT | Errno::NOTDIR | Errno::BUSY) => Ok(false),
            Err(errno) => Err(SinkError::at(&self.path_of(&name.to_os_string()), "remove the folder", errno)),
        }
    }

    /// Moves a file to another folder of the same file system; one that is there already is replaced.
    pub fn move_file(&self, name: &Name, to: &Self) -> Result<(), SinkError> {
        if self.stat_of_file(name)?.is_none() {
            return Ok(());
        }
        fs::renameat(&self.fd, name.to_os_string(), &to.fd, name.to_os_string()).map_err(
            |errno| match errno {
                Errno::XDEV => SinkError::OtherDisk { path: to.path.clone() },
                errno => SinkError::at(&to.path_of(&name.to_os_string()), "move the file", errno),
            },
        )
    }

    /// Whether it is this very folder, or above the other one, whatever the ways there.
    pub fn contains(&self, other: &Path) -> bool {
        let Ok(own) = self.stat() else { return false };
        let Ok(path) = std::path::absolute(other) else { return false };
        path.ancestors().any(|above| fs::stat(above).is_ok_and(|stat| identity(&stat) == identity(&own)))
    }

    /// Opens that file for reading.
    pub fn open_replica(&self, name: &Name) -> Result<Option<File>, SinkError> {
        if self.replica(name)?.is_none() {
            return Ok(None);
        }
        match self.open_file(&name.to_os_string(), OFlags::RDONLY, Mode::empty()) {
            Ok(file) => Ok(Some(file)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(SinkError::at(&self.path_of(&name.to_os_string()), "open the file", errno)),
        }
    }

    /// Removes that file, if it is there. What is no file is an error.
    pub fn remove_replica(&self, name: &Name) -> Result<(), SinkError> {
        if self.replica(name)?.is_some() {
            self.unlink(&name.to_os_string())?;
        }
        Ok(())
    }

    /// Who may do what with that file.
    pub(super) fn mode_of(&self, name: &Name) -> Result<Option<Mode>, SinkError> {
        Ok(self.stat_of_file(name)?.map(|stat| Mode::from_raw_mode(stat.st_mode & PERMISSIONS)))
    }

    fn stat_of_file(&self, name: &Name) -> Result<Option<Stat>, SinkError> {
        let Some(stat) = self.stat_of(&name.to_os_string())? else { return Ok(None) };
        let path = || self.path_of(&name.to_os_string());
        match kind(&stat) {
            FileType::RegularFile => Ok(Some(stat)),
            FileType::Directory => Err(SinkError::IsFolder { path: path() }),
            other => Err(SinkError::NotAFile { path: path(), what: called(other) }),
        }
    }

    /// Whether somebody has removed it since: what is written into it now goes nowhere.
    pub fn is_removed(&self) -> bool {
        fs::fstat(&self.fd).is_ok_and(|stat| stat.st_nlink == 0)
    }

    /// Where it is; for people.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where a file of this folder is; for people.
    pub(super) fn path_of(&self, name: &OsStr) -> PathBuf {
        self.path.join(name)
    }

    /// Opens something in this folder, without following any link and without waiting for a pipe's other end.
    pub(super) fn open_file(&self, name: &OsStr, flags: OFlags, mode: Mode) -> Result<File, Errno> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        open_beneath(self.fd.as_fd(), name, flags, mode).map(File::from)
    }

    /// What is there under a name; a link is a link.
    pub(super) fn stat_of(&self, name: &OsStr) -> Result<Option<Stat>, SinkError> {
        match fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(SinkError::at(&self.path_of(name), "look at the file", errno)),
        }
    }

    pub(super) fn rename(&self, from: &OsStr, to: &OsStr) -> Result<(), SinkError> {
        fs::renameat(&self.fd, from, &self.fd, to)
            .map_err(|errno| SinkError::at(&self.path_of(to), "rename the finished file", errno))
    }

    pub(super) fn unlink(&self, name: &OsStr) -> Result<(), SinkError> {
        match fs::unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(SinkError::at(&self.path_of(name), "remove the file", errno)),
        }
    }

    /// Makes the names in this folder survive a power loss, and the folder's own name if that is new.
    pub(super) fn sync(&self) -> Result<(), SinkError> {
        self.sync_names()?;
        if !self.is_durable.load(Ordering::Relaxed) {
            match &self.parent {
                Some(parent) => parent.sync()?,
                None => self.sync_above(),
            }
            self.is_durable.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    fn sync_names(&self) -> Result<(), SinkError> {
        match fs::fsync(&self.fd) {
            // Some network file systems have no such thing for folders.
            Ok(()) | Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
            Err(errno) => Err(SinkError::at(&self.path, "sync the folder", errno)),
        }
    }

    /// The folders above a target that was made for us. Those are the user's, so failing is no failure.
    fn sync_above(&self) {
        for above in self.path.ancestors().skip(1) {
            let synced = File::open(above).and_then(|folder| folder.sync_all());
            if let Err(error) = synced {
                tracing::debug!(folder = %above.display(), %error, "cannot sync a folder above the target");
            }
        }
    }

    fn stat(&self) -> Result<Stat, SinkError> {
        fs::fstat(&self.fd).map_err(|errno| SinkError::at(&self.path, "look at the folder", errno))
    }

    fn open_folder(&self, name: &Name) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        open_beneath(self.fd.as_fd(), &name.to_os_string(), flags, Mode::empty())
    }
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Opens one component below a folder. The kernel sees to it that the way stays there; one that is too old for that, or
/// a sandbox that forbids it, still does not follow a link as the last component, and a name has no other.
fn open_beneath(folder: BorrowedFd<'_>, name: &OsStr, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match fs::openat2(folder, name, flags, mode, beneath) {
        Err(Errno::NOSYS | Errno::PERM | Errno::INVAL | Errno::TOOBIG) => {
            open_without_help(folder, name, flags, mode)
        }
        answer => answer,
    }
}

fn open_without_help(
    folder: BorrowedFd<'_>,
    name: &OsStr,
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd, Errno> {
    debug_assert!(
        !name.as_encoded_bytes().contains(&b'/') && flags.contains(OFlags::NOFOLLOW),
        "one component, never followed"
    );
    fs::openat(folder, name, flags, mode)
}

pub(super) fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

pub(super) fn called(kind: FileType) -> &'static str {
    match kind {
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Directory => "a folder",
        _ => "something that is no file",
    }
}

/// What makes it the same file on the same disk.
pub(super) fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    use super::*;

    fn name(name: &str) -> Name {
        Name::new(name).expect(name)
    }

    fn target() -> (tempfile::TempDir, Arc<Folder>) {
        let place = tempfile::tempdir().expect("a folder");
        let folder = Folder::open(place.path(), false).expect("it opens");
        (place, Arc::new(folder))
    }

    #[test]
    fn a_folder_is_made_when_asked_and_not_otherwise() {
        let (place, folder) = target();
        let deep = place.path().join("a/b");
        assert!(matches!(Folder::open(&deep, false), Err(SinkError::Io { source: Errno::NOENT, .. })));
        Folder::open(&deep, true).expect("it is made").sync().expect("it is synced");
        assert!(deep.is_dir());
        assert!(matches!(
            folder.subfolder(&name("c"), false),
            Err(SinkError::Io { source: Errno::NOENT, .. })
        ));
        let made = Arc::new(folder.subfolder(&name("c"), true).expect("it is made"));
        made.subfolder(&name("d"), true).expect("it is made").sync().expect("it is synced");
        assert!(place.path().join("c/d").is_dir());
    }

    #[test]
    fn the_mode_of_a_folder_that_is_there_is_never_changed() {
        let (place, folder) = target();
        let inner = place.path().join("inner");
        std::fs::create_dir(&inner).expect("made");
        std::fs::set_permissions(&inner, std::fs::Permissions::from_mode(0o750)).expect("set");
        folder.subfolder(&name("inner"), true).expect("it opens");
        Folder::open(&inner, true).expect("it opens");
        assert_eq!(std::fs::metadata(&inner).expect("there").mode() & 0o7777, 0o750);
    }

    #[test]
    fn a_link_or_a_file_in_place_of_a_subfolder_is_refused() {
        let (place, folder) = target();
        let outside = tempfile::tempdir().expect("a folder");
        symlink(outside.path(), place.path().join("link")).expect("linked");
        symlink("nowhere", place.path().join("dangling")).expect("linked");
        std::fs::write(place.path().join("file"), "x").expect("written");
        for (there, is_link) in [("link", true), ("dangling", true), ("file", false)] {
            let refused = folder.subfolder(&name(there), true);
            let Err(SinkError::NotAFolder { link, .. }) = refused else { panic!("{there}: {refused:?}") };
            assert_eq!(link, is_link, "{there}");
        }
    }

    #[test]
    fn without_help_of_the_kernel_links_are_not_followed_either() {
        let (place, folder) = target();
        symlink("/etc", place.path().join("link")).expect("linked");
        std::fs::create_dir(place.path().join("real")).expect("made");
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = |name| open_without_help(folder.as_fd(), OsStr::new(name), flags, Mode::empty());
        assert!(matches!(open("link"), Err(Errno::NOTDIR | Errno::LOOP)));
        assert!(open("real").is_ok());
    }

    #[test]
    fn only_a_file_is_a_replica() {
        let (place, folder) = target();
        std::fs::write(place.path().join("file"), "1234567").expect("written");
        std::fs::create_dir(place.path().join("folder")).expect("made");
        symlink("file", place.path().join("link")).expect("linked");
        assert_eq!(folder.replica(&name("none")).expect("looked"), None);
        let replica = folder.replica(&name("file")).expect("looked").expect("there");
        assert_eq!(replica.size, 7);
        assert!(replica.modified_s > 1_700_000_000);
        assert!(matches!(folder.replica(&name("folder")), Err(SinkError::IsFolder { .. })));
        let link = folder.replica(&name("link"));
        assert!(matches!(link, Err(SinkError::NotAFile { what: "a symbolic link", .. })), "{link:?}");
    }

    #[test]
    fn a_tree_is_never_made_in_the_root_or_in_the_home() {
        let (place, _) = target();
        let mut forbidden = vec![PathBuf::from("/"), PathBuf::from("/usr/..")];
        forbidden.extend(std::env::home_dir().filter(|home| home.is_dir()));
        for path in forbidden {
            let refused = Folder::open_tree_target(&path, false);
            assert!(
                matches!(refused, Err(SinkError::UnsafeTarget { .. })),
                "{}: {refused:?}",
                path.display()
            );
            assert!(Folder::open(&path, false).is_ok());
        }
        let link = place.path().join("link");
        symlink("/", &link).expect("linked");
        assert!(matches!(Folder::open_tree_target(&link, false), Err(SinkError::UnsafeTarget { .. })));
        assert!(Folder::open_tree_target(place.path(), false).is_ok());
    }
}
