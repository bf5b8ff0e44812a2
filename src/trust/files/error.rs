//! What can go wrong with a home. Every error names the path, and the cure where there is one.

use std::io;
use std::path::PathBuf;

use super::super::TextError;

/// What went wrong with a home, always with the path.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The system said no.
    #[error("cannot {verb} {path}")]
    Io {
        /// What was tried.
        verb: &'static str,
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is no such folder.
    #[error("{path} is no folder of a circle; join one or create one first")]
    NotAHome {
        /// Where it should be.
        path: PathBuf,
    },
    /// A file is missing.
    #[error("{path} is missing; joining was not completed, or the file was deleted")]
    Missing {
        /// Which.
        path: PathBuf,
    },
    /// The new home's folder has something in it.
    #[error("{path} exists and is not empty; nothing was changed")]
    NotEmpty {
        /// Which.
        path: PathBuf,
    },
    /// A key would be lost.
    #[error("{path} holds another key, which would be lost; move it away first")]
    WouldReplace {
        /// Which.
        path: PathBuf,
    },
    /// Others can read a secret, or write into the folder.
    #[error("{path} is open to others (mode {mode:04o}); run: chmod {cure:o} {path}")]
    TooOpen {
        /// Which.
        path: PathBuf,
        /// The mode that it has.
        mode: u32,
        /// The mode that it should have.
        cure: u32,
    },
    /// A secret is a link to somewhere else.
    #[error("{path} is a symbolic link; put the file itself there")]
    Symlink {
        /// Which.
        path: PathBuf,
    },
    /// A folder, pipe or device stands where a file should be, or a file is far too long.
    #[error("{path} is no ordinary file of this program")]
    NotAFile {
        /// Which.
        path: PathBuf,
    },
    /// A file does not say what it should.
    #[error("{path} cannot be used")]
    Damaged {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        source: TextError,
    },
    /// A TOML file does not say what it should. The reason never repeats the file's text, which may be secret.
    #[error("{path}, line {line}: {reason}")]
    Toml {
        /// Which.
        path: PathBuf,
        /// Where in it.
        line: usize,
        /// Why.
        reason: String,
    },
}
