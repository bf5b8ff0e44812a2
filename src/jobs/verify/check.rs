//! One file: what its bytes should be, and what they are.

use super::lists::Word;
use super::report::Kind;
use crate::fetch::Name;
use crate::fetch::sink::sums::Said;
use crate::fetch::sink::{Algorithm, Digest, Folder, Replica, SinkError, digest_of};
use crate::jobs::manifest::Record;

/// A file that is to be checked.
pub(super) struct File {
    pub(super) path: String,
    pub(super) name: Name,
    /// What is remembered of it.
    pub(super) record: Option<Record>,
    /// What lists say of it.
    pub(super) words: Vec<Word>,
}

/// What came of it.
pub(super) enum Verdict {
    /// It is right, and so long.
    Ok(u64),
    /// There was nothing to compare it with; this is to be remembered of it.
    Adopted(Box<Record>),
    Not(Kind, String),
}

/// Reads a file and compares it with what is known of it. With `adopt` one of which nothing is known is to be remembered
/// as it is at this time, in seconds since 1970.
pub(super) fn check(folder: &Folder, file: &File, adopt: Option<i64>) -> Verdict {
    verdict(folder, file, adopt).unwrap_or_else(|error| Verdict::Not(Kind::Unreadable, error.to_string()))
}

fn verdict(folder: &Folder, file: &File, adopt: Option<i64>) -> Result<Verdict, SinkError> {
    let changed = |why: String| Ok(Verdict::Not(Kind::Changed, why));
    let Some(before) = folder.replica(&file.name)? else {
        return Ok(Verdict::Not(Kind::Missing, "not here".to_owned()));
    };
    if let Some(record) = file.record.as_ref().filter(|record| record.size != before.size) {
        return changed(format!("{} bytes, but {} were pulled", before.size, record.size));
    }
    let mut digests: Vec<Digest> = Vec::new();
    let mut digest = |algorithm: Algorithm| match digests.iter().find(|known| known.algorithm() == algorithm)
    {
        Some(known) => Ok(*known),
        None => digest_of(folder, &file.name, algorithm).inspect(|new| digests.push(*new)),
    };
    let mut is_right = false;
    if let Some(sha256) = file.record.as_ref().and_then(|record| record.sha256) {
        if digest(Algorithm::Sha256)? != Digest::Sha256(sha256) {
            return changed("other bytes than were pulled".to_owned());
        }
        is_right = true;
    }
    for Word { list, said } in &file.words {
        match said {
            Said::Nothing => {}
            Said::Conflict => return changed(format!("{list} has different checksums for it")),
            Said::Digest(expected) => {
                let got = digest(expected.algorithm())?;
                if got != *expected {
                    return changed(format!("{got}, but {list} says {expected}"));
                }
                is_right = true;
            }
        }
    }
    let is_hashed = file.record.as_ref().is_some_and(|record| record.sha256.is_some());
    let verdict = match (adopt, is_right, &file.record) {
        (Some(now_s), _, _) if !is_hashed => {
            let Digest::Sha256(sha256) = digest(Algorithm::Sha256)? else { return Err(SinkError::Gone) };
            Verdict::Adopted(Box::new(record(before, sha256, file.record.as_ref(), now_s)))
        }
        (_, true, _) => Verdict::Ok(before.size),
        (_, false, Some(_)) => {
            let why =
                "a mirror found it here, and its checksum was never computed; --adopt takes it as it is now";
            Verdict::Not(Kind::Unhashed, why.to_owned())
        }
        (_, false, None) => Verdict::Not(Kind::Unknown, "nothing is known of it".to_owned()),
    };
    let is_still = folder.replica(&file.name)? == Some(before);
    let is_read = matches!(verdict, Verdict::Ok(_) | Verdict::Adopted(_));
    if is_read && !is_still {
        return Ok(Verdict::Not(Kind::Unreadable, "it changed while it was read".to_owned()));
    }
    Ok(verdict)
}

/// What is remembered of a file that is adopted.
fn record(replica: Replica, sha256: [u8; 32], before: Option<&Record>, now_s: i64) -> Record {
    let new = Record {
        size: replica.size,
        modified_s: Some(replica.modified_s),
        pulled_s: now_s,
        delivered: true,
        replica_s: Some(replica.modified_s),
        ..Record::default()
    };
    Record { sha256: Some(sha256), ..before.cloned().unwrap_or(new) }
}
