//! Whether a file need not be pulled, because it is here. A worker asks before the first byte.

use std::sync::Arc;

use tracing::warn;

use crate::fetch::engine::PullError;
use crate::fetch::sink::{Digest, Folder, Reply, begin_digest};
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

/// Result of the comparison with the source.
pub(super) enum Answer {
    /// The replica is the file at the source, in this version if the source was asked in this call.
    UpToDate(Option<Version>),
    /// The file has to be pulled.
    Pull,
}

/// A replica that is being read. It goes on while other members have their slots.
pub(super) type Reading = Option<Reply<Digest>>;

/// Whether the replica that is here is the file that is there: same size and time, as every mirror has it. Where a digest
/// is known it decides, because times lie and disks forget.
pub(super) async fn is_up_to_date(
    alike: Alike,
    folder: &Arc<Folder>,
    name: &Name,
    source: &mut Source,
    want: &Want,
    reading: &mut Reading,
) -> Result<Answer, PullError> {
    if reading.is_none() {
        let Some(replica) = folder.replica(name)? else { return Ok(Answer::Pull) };
        let version = source.probe(&want.address).await?.version;
        let (size, modified_s) = (version.size, version.modified_s);
        let is_same_time = modified_s == Some(replica.modified_s);
        // Without a time an unchanged entity tag decides, for a replica that is as it was pulled.
        let is_same_tag = modified_s.is_none() && version.tag().is_some() && version.tag() == want.known_etag;
        // Apache does not say how long an empty file is.
        let is_same_size =
            size.map_or(is_same_tag || (replica.size == 0 && is_same_time), |size| size == replica.size);
        let Some(expected) = want.expected.as_ref().filter(|_| size.is_none_or(|size| size == replica.size))
        else {
            let is_same = is_same_size && (is_same_time || is_same_tag || alike == Alike::Size);
            return Ok(if is_same { Answer::UpToDate(Some(version)) } else { Answer::Pull });
        };
        *reading = Some(begin_digest(Arc::clone(folder), name.clone(), expected.algorithm()));
    }
    let Some(reply) = reading else { return Ok(Answer::Pull) };
    let read = reply.await;
    *reading = None;
    // What is wrong or cannot be read is pulled anew, and takes its place once it is right.
    match (read, &want.expected) {
        (Ok(digest), Some(expected)) if digest == *expected => return Ok(Answer::UpToDate(None)),
        (Ok(digest), _) => {
            warn!(file = %name, %digest, "the file that is here is not the one that is wanted");
        }
        (Err(error), _) => warn!(file = %name, %error, "the file that is here cannot be checked"),
    }
    Ok(Answer::Pull)
}
