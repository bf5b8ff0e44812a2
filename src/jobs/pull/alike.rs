//! Whether the replica that is here is the file that is there. Asked by the worker before it pulls.

use std::sync::Arc;

use crate::fetch::engine::PullError;
use crate::fetch::sink::{Digest, Folder, SinkError, digest_of};
use crate::fetch::source::Source;
use crate::fetch::{Connection as _, Name, Version};

use super::Want;

/// When a replica is the same as its original, for files of which the source is asked first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Alike {
    /// Same size and same time, as every mirror has it.
    #[default]
    SizeAndTime,
    /// Same size.
    Size,
    /// Its bytes add up to what a list beside the original says. By size and time, where there is none.
    Digest,
}

/// Whether the replica that is here is the file that is there.
pub(super) async fn is_up_to_date(
    alike: Alike,
    folder: &Arc<Folder>,
    name: &Name,
    source: &mut Source,
    want: &Want,
) -> Result<bool, PullError> {
    let Some(replica) = folder.replica(name)? else { return Ok(false) };
    if let (Alike::Digest, Some(expected)) = (alike, want.expected) {
        return adds_up(Arc::clone(folder), name.clone(), expected).await;
    }
    let Version { size, modified_s, .. } = source.probe(&want.address).await?.version;
    let is_same_time = modified_s.is_some_and(|modified| modified == replica.modified_s);
    // Apache does not say how long an empty file is.
    let is_same_size = size.map_or(replica.size == 0 && is_same_time, |size| size == replica.size);
    Ok(is_same_size && (is_same_time || alike == Alike::Size))
}

/// Whether the bytes that are here add up to this.
async fn adds_up(folder: Arc<Folder>, name: Name, expected: Digest) -> Result<bool, PullError> {
    let reading = move || digest_of(&folder, &name, expected.algorithm()).map(|digest| digest == expected);
    let read = tokio::task::spawn_blocking(reading).await;
    Ok(read.unwrap_or(Err(SinkError::Gone))?)
}
