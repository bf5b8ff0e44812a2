//! What goes wrong on our own side of a pull: the disk, its folders, and bytes that are not what they should be.
//!
//! Every message names the path and, where there is one, the cure. Errors are values that can be told twice: what
//! went wrong on the writer's thread is told to everybody who asks for the file afterwards.

use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::digest::Digest;
use crate::fetch::fault::escape;

/// Steps at which a file system objects to a name. Elsewhere the same error number has other meanings.
const NAMING: [&str; 3] = ["make the file", "make the folder", "rename the finished file"];

/// What went wrong.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SinkError {
    /// No space left, or the quota is used up.
    #[error("{}: {}; free some space there, or choose another folder", shown(.path), full(*.needed, *.quota))]
    DiskFull {
        /// The file, or its folder.
        path: PathBuf,
        /// How many bytes more would be needed, if that is known.
        needed: Option<u64>,
        /// Whether it is the quota and not the disk.
        quota: bool,
    },
    /// The file system is mounted read-only.
    #[error("{}: the file system is read-only; choose another folder", shown(.path))]
    ReadOnly {
        /// The file or folder.
        path: PathBuf,
    },
    /// The file system takes only shorter names.
    #[error("{}: the name is too long for this file system; choose a shorter one with -o, or leave the file out with --exclude", shown(.path))]
    NameTooLong {
        /// The file.
        path: PathBuf,
    },
    /// The file system does not take the name, whatever its length: vfat refuses `:`, others what is not UTF-8.
    #[error("{}: this file system does not allow the name; choose another one with -o, another folder, or leave the file out with --exclude", shown(.path))]
    NameRefused {
        /// The file or folder.
        path: PathBuf,
    },
    /// A folder is where the file should be.
    #[error("{}: there is a folder of that name; move it away or choose another name", shown(.path))]
    IsFolder {
        /// The folder.
        path: PathBuf,
    },
    /// Something else is where a folder should be.
    #[error("{}: not a folder{}", shown(.path), if *.link { ", but a symbolic link, which is not followed below the target" } else { "" })]
    NotAFolder {
        /// What is there.
        path: PathBuf,
        /// Whether it is a symbolic link.
        link: bool,
    },
    /// The bytes that are out are of a version that is gone, and cannot be taken back.
    #[error("{}: the file changed at the source when a part of it was out already; start again", shown(.path))]
    TooLate {
        /// Where they went.
        path: PathBuf,
    },
    /// A link, a pipe, a device: something that is no file is in the way.
    #[error("{}: {what} is in the way; remove it or choose another name", shown(.path))]
    NotAFile {
        /// What is there.
        path: PathBuf,
        /// Which kind.
        what: &'static str,
    },
    /// The partial file belongs to somebody else, who could change it under our hands.
    #[error("{}: belongs to another user; remove it or choose another folder", shown(.path))]
    NotOurs {
        /// The partial file.
        path: PathBuf,
    },
    /// The name of the partial file leads to another file now.
    #[error("{}: was moved or replaced while it was being pulled; nothing was touched, try again", shown(.path))]
    Replaced {
        /// The partial file.
        path: PathBuf,
    },
    /// Names with this ending are kept for files that are being pulled.
    #[error("{}: names that end in .stroll.part are kept for files that are not complete; choose another with -o", shown(.path))]
    Reserved {
        /// The file.
        path: PathBuf,
    },
    /// A folder that is nobody's replica: `/`, or the user's home.
    #[error("{}: refusing to make a replica of a whole tree right here; name a folder below it", shown(.path))]
    UnsafeTarget {
        /// The folder.
        path: PathBuf,
    },
    /// A folder that must not be in the target is in it.
    #[error("{}: is inside the mirrored folder; choose one outside of it", shown(.path))]
    InsideTarget {
        /// The folder.
        path: PathBuf,
    },
    /// Files are moved within one file system only.
    #[error("{}: is on another file system; choose a folder on the target's own", shown(.path))]
    OtherDisk {
        /// Where they should go.
        path: PathBuf,
    },
    /// Another process pulls this very file.
    #[error("{}: another process is pulling this file; wait for it, or stop it", shown(.path))]
    Busy {
        /// The partial file, or its journal.
        path: PathBuf,
    },
    /// No permission.
    #[error("{}: no permission to {doing}; check who owns the folder", shown(.path))]
    Denied {
        /// The file or folder.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
    },
    /// The file's digest is not the one that was expected. What was pulled of it has been removed.
    #[error("{}: the checksum is {got}, but should be {expected}; nothing was kept", shown(.path))]
    Integrity {
        /// The file.
        path: PathBuf,
        /// What was expected.
        expected: Box<Digest>,
        /// What the bytes give.
        got: Box<Digest>,
    },
    /// The bytes do not add up to the size that was declared.
    #[error("{}: {got} bytes, but the source declared {expected}", shown(.path))]
    SizeDiffers {
        /// The file.
        path: PathBuf,
        /// What was declared.
        expected: u64,
        /// What is there, in one piece from the start.
        got: u64,
    },
    /// Whoever read from us has gone away.
    #[error("{}: nobody reads it any more", shown(.path))]
    Closed {
        /// Where to.
        path: PathBuf,
    },
    /// The caller broke the rules of a part: nothing was changed.
    #[error("{}: {what}", shown(.path))]
    Misuse {
        /// The file.
        path: PathBuf,
        /// Which rule.
        what: &'static str,
    },
    /// The journal could not be kept.
    #[error("{}: cannot keep the journal: {why}", shown(.path))]
    Journal {
        /// The database.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// Anything else that the system said.
    #[error("{}: cannot {doing}", shown(.path))]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// What the system said.
        source: Errno,
    },
    /// The thread that writes has ended, which is a mistake of ours.
    #[error("the disk's thread is gone")]
    Gone,
}

impl SinkError {
    /// What the system's answer means for this path.
    pub(super) fn at(path: &Path, doing: &'static str, errno: Errno) -> Self {
        let path = path.to_owned();
        match errno {
            Errno::NOSPC => Self::DiskFull { path, needed: None, quota: false },
            Errno::DQUOT => Self::DiskFull { path, needed: None, quota: true },
            Errno::ROFS => Self::ReadOnly { path },
            Errno::NAMETOOLONG => Self::NameTooLong { path },
            Errno::ILSEQ => Self::NameRefused { path },
            Errno::INVAL if NAMING.contains(&doing) => Self::NameRefused { path },
            Errno::ISDIR => Self::IsFolder { path },
            Errno::NOTDIR => Self::NotAFolder { path, link: false },
            Errno::LOOP => Self::NotAFile { path, what: "a symbolic link" },
            Errno::ACCESS | Errno::PERM => Self::Denied { path, doing },
            Errno::PIPE => Self::Closed { path },
            source => Self::Io { path, doing, source },
        }
    }

    /// The same for an error of `std`.
    pub(crate) fn from_io(path: &Path, doing: &'static str, error: &std::io::Error) -> Self {
        // `std` makes some errors of its own: a write of nothing, an early end. They are failures of the device to us.
        Self::at(path, doing, Errno::from_io_error(error).unwrap_or(Errno::IO))
    }
}

fn shown(path: &Path) -> String {
    escape(&path.to_string_lossy())
}

fn full(needed: Option<u64>, quota: bool) -> String {
    let what = if quota { "the quota is used up" } else { "no space left on the disk" };
    match needed {
        Some(bytes) => format!("{what}, {bytes} bytes more are needed"),
        None => what.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_names_the_path_and_what_helps() {
        let path = Path::new("/data/x.part");
        for (errno, helps) in [
            (Errno::NOSPC, "free some space"),
            (Errno::DQUOT, "quota"),
            (Errno::ROFS, "choose another folder"),
            (Errno::NAMETOOLONG, "shorter"),
            (Errno::ISDIR, "move it away"),
            (Errno::ACCESS, "check who owns"),
            (Errno::LOOP, "symbolic link"),
            (Errno::ILSEQ, "does not allow the name"),
            (Errno::INVAL, "cannot write"),
            (Errno::IO, "cannot write"),
        ] {
            let said = SinkError::at(path, "write", errno).to_string();
            assert!(said.starts_with("/data/x.part: ") && said.contains(helps), "{said}");
        }
        for doing in NAMING {
            let said = SinkError::at(path, doing, Errno::INVAL).to_string();
            assert!(said.contains("does not allow the name"), "{doing}: {said}");
        }
    }

    #[test]
    fn a_path_cannot_write_to_the_terminal() {
        let said = SinkError::at(Path::new("/x\u{1b}[2J"), "write", Errno::IO).to_string();
        assert!(!said.contains('\u{1b}'), "{said:?}");
    }
}
