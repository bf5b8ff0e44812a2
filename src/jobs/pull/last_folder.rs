//! The folder that was last written to: most files go where the last one went, and files of one folder become durable
//! together.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::fetch::Name;
use crate::fetch::sink::{Folder, SinkError};

/// A folder that is open.
pub(super) struct LastFolder {
    root: PathBuf,
    below: Vec<Name>,
    folder: Arc<Folder>,
}

impl LastFolder {
    /// The folder down there, made if need be.
    pub(super) fn open(
        last: &mut Option<Self>,
        root: &Path,
        below: &[Name],
    ) -> Result<Arc<Folder>, SinkError> {
        if let Some(last) = last
            && last.root == root
            && last.below == below
            && !last.folder.is_removed()
        {
            return Ok(Arc::clone(&last.folder));
        }
        let mut folder = Arc::new(Folder::open(root, true)?);
        for name in below {
            folder = Arc::new(folder.subfolder(name, true)?);
        }
        let (root, below) = (root.to_owned(), below.to_vec());
        *last = Some(Self { root, below, folder: Arc::clone(&folder) });
        Ok(folder)
    }
}
