//! The folder in which everything of a demo lies; it goes with the demo, unless somebody wants to keep it.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use data_encoding::HEXLOWER;
use stroll::driver::random_bytes;
use tokio::time::sleep;

use crate::cli::exit::UsageError;

/// Paths of Unix sockets are shorter than this on every system, and a member's has this many bytes below the folder at most.
const SOCKET_LIMIT: usize = 103;
const SOCKET_BELOW: usize = "/lab-00/circles/demo/control.sock".len();

/// Processes that were just killed may still be writing.
const TRIES: u32 = 40;
const PAUSE: Duration = Duration::from_millis(50);

/// A folder of our own.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    is_kept: bool,
}

impl Folder {
    /// A new one: here, to stay, or else somewhere, to go.
    pub(super) fn create(keep: Option<&Path>) -> anyhow::Result<Self> {
        let path = if let Some(path) = keep {
            std::path::absolute(path)?
        } else {
            let number: [u8; 4] = random_bytes()?;
            std::env::temp_dir().join(format!("stroll-demo-{}", HEXLOWER.encode(&number)))
        };
        if path.as_os_str().len() + SOCKET_BELOW > SOCKET_LIMIT {
            let field = if keep.is_some() { "keep" } else { "TMPDIR" };
            return Err(UsageError(format!(
                "{field}: the path of {} is too long for the members' sockets",
                path.display()
            ))
            .into());
        }
        if keep.is_some() && fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(UsageError(format!("keep: {} is not empty", path.display())).into());
        }
        let create = || fs::DirBuilder::new().recursive(keep.is_some()).mode(0o700).create(&path);
        create().with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self { path, is_kept: keep.is_some() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it, unless it is to be kept.
    pub(super) async fn remove(mut self) -> io::Result<()> {
        let mut tries = 0;
        while !self.is_kept {
            match fs::remove_dir_all(&self.path) {
                Err(error) if tries == TRIES && error.kind() != io::ErrorKind::NotFound => return Err(error),
                Err(error) if error.kind() != io::ErrorKind::NotFound => sleep(PAUSE).await,
                _ => self.is_kept = true,
            }
            tries += 1;
        }
        Ok(())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.is_kept {
            // Somebody panics; what cannot be removed stays.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_folder_goes_unless_it_is_kept() {
        let folder = Folder::create(None).unwrap();
        let path = folder.path().to_owned();
        fs::write(path.join("file"), "").unwrap();
        folder.remove().await.unwrap();
        assert!(!path.exists());

        let outer = tempfile::tempdir().unwrap();
        let kept = outer.path().join("a/b");
        Folder::create(Some(&kept)).unwrap().remove().await.unwrap();
        assert!(kept.is_dir());
        fs::write(kept.join("file"), "").unwrap();
        let said = Folder::create(Some(&kept)).unwrap_err().to_string();
        assert!(said.contains("is not empty"), "{said}");
    }

    #[test]
    fn a_path_that_no_socket_can_have_is_refused() {
        let long = PathBuf::from("/tmp").join("x".repeat(90));
        assert!(Folder::create(Some(&long)).unwrap_err().to_string().contains("too long"));
        assert!(!long.exists());
    }
}
