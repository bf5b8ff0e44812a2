//! Reads replicas again and says whether they are what was pulled: `stroll verify`.
//!
//! Known are the files of a manifest, by size and SHA-256, and where asked for those of lists of checksums that lie in
//! the tree (`SHA256SUMS`, `CHECKSUM`, `FILE.sha256`). Files are read on all processors.
//!
//! | file | what it is |
//! |---|---|
//! | [`report`] | what was found |
//! | `lists` | lists of checksums in the tree |
//! | `check` | one file: what its bytes should be, and what they are |
//! | `tree` | the way through the folder |

mod check;
mod lists;
pub mod report;
mod tree;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::manifest::{Manifest, ManifestError};
use super::moved;
use crate::fetch::Name;
use crate::fetch::sink::{Folder, SinkError};
pub use report::{Finding, Kind, Report};
use tree::Tree;

/// Why nothing can be verified.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// Nothing is known of the folder.
    #[error(
        "{0}: nothing is known of its files: no mirror or subscription of this user put them there, with its records in {1}; \
         name another folder of records with --state, use --sums auto if there are lists of checksums among the files, \
         or --adopt to take the files as they are now for right"
    )]
    Unknown(String, String),
    /// The folder.
    #[error(transparent)]
    Target(#[from] SinkError),
    /// What is remembered of it.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}

/// What is to be verified, and by what.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Where manifests are kept.
    pub state: PathBuf,
    /// The folder.
    pub target: PathBuf,
    /// Also compare with the lists of checksums in the folder.
    pub sums: bool,
    /// Remember files with nothing to compare them with as they are now.
    pub adopt: bool,
}

/// Told how many files were looked at, and how many are known in the end.
pub type Progress<'a> = &'a (dyn Fn(u64) + Sync);

/// Verifies all that is known of a folder.
pub fn verify(spec: &Spec, progress: Progress<'_>) -> Result<Report, VerifyError> {
    let root = Arc::new(Folder::open(&spec.target, false)?);
    let (manifest, known_as) = manifest(spec)?;
    if manifest.is_none() && !spec.sums {
        let state = spec.state.join("manifests").display().to_string();
        return Err(VerifyError::Unknown(root.path().display().to_string(), state));
    }
    let mut report = Report { known_as, ..Report::default() };
    let mut tree = Tree::new(spec, manifest.as_ref(), &mut report, progress);
    tree.look(&root, &mut Vec::new())?;
    tree.finish(&root)?;
    Ok(report)
}

/// The manifest of the folder, and the path under which the folder is known if that is another one.
fn manifest(spec: &Spec) -> Result<(Option<Manifest>, Option<String>), ManifestError> {
    let (state, target) = (&spec.state, &spec.target);
    if Manifest::path_for(state, target).exists() {
        return Ok((Some(Manifest::open(state, target)?), None));
    }
    let known = moved::find(state, target, true);
    let was = known.as_ref().map(|known| known.was.display().to_string());
    let manifest = match known {
        _ if spec.adopt => Some(Manifest::open(state, target)?),
        Some(known) => Some(Manifest::open_at(known.manifest, target)?),
        None => None,
    };
    Ok((manifest, was))
}

/// How many files are remembered.
pub fn count(state: &Path, target: &Path) -> Result<u64, ManifestError> {
    let path = Manifest::path_for(state, target);
    if path.exists() { Manifest::open_at(path, target)?.count() } else { Ok(0) }
}

/// The folder in which a path ends, and the name there.
fn find(root: &Arc<Folder>, path: &[Name]) -> Result<Option<(Arc<Folder>, Name)>, SinkError> {
    let Some((name, below)) = path.split_last() else { return Ok(None) };
    let mut folder = Arc::clone(root);
    for part in below {
        if folder.look(part)?.is_none() {
            return Ok(None);
        }
        folder = Arc::new(folder.subfolder(part, false)?);
    }
    Ok(Some((folder, name.clone())))
}
