//! Removes replicas that were delivered long ago (`--keep`). What is remembered of them stays as long as the source lists
//! them, so that they are not pulled again.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tracing::{info, warn};

use super::Tell;
use super::delivery::blocking;
use crate::fetch::Name;
use crate::fetch::sink::{Folder, SinkError};
use crate::jobs::manifest::{Manifest, ManifestError, Record};

/// How often it is looked for old replicas, at most and at least.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(600);

/// So many are removed at once at most; the rest the next time.
const BATCH: usize = 10_000;

/// Removes old replicas now and then, for ever.
pub(super) async fn keep(
    manifest: Arc<Manifest>,
    target: PathBuf,
    keep: Duration,
    except: Option<Name>,
    tell: &dyn Tell,
) -> std::convert::Infallible {
    let every = (keep / 10).clamp(SHORTEST, LONGEST);
    loop {
        let (manifest, target, except) = (Arc::clone(&manifest), target.clone(), except.clone());
        let now_s = jiff::Timestamp::now().as_second();
        match blocking(move || flush(&manifest, &target, keep, except.as_ref(), now_s)).await {
            Ok(0) => {}
            Ok(count) => tell.flushed(count),
            Err(error) => warn!(%error, "cannot look for old replicas"),
        }
        tokio::time::sleep(every).await;
    }
}

/// Removes what was delivered longer ago than that. How many.
fn flush(
    manifest: &Manifest,
    target: &Path,
    keep: Duration,
    except: Option<&Name>,
    now_s: i64,
) -> Result<u64, ManifestError> {
    let keep_s = i64::try_from(keep.as_secs()).unwrap_or(i64::MAX);
    let mut old = Vec::new();
    manifest.for_each(|path, record| {
        let is_old = now_s.saturating_sub(record.pulled_s) > keep_s;
        let is_meant = except.is_none_or(|name| name.as_str() != path);
        if is_meant && record.delivered && !record.flushed && is_old {
            old.push((path.to_owned(), Record { flushed: true, ..record }));
        }
        old.len() < BATCH
    })?;
    old.retain(|(path, _)| match remove(target, path) {
        Ok(()) => {
            info!(path, "flushed");
            true
        }
        Err(error) => {
            warn!(%error, "cannot flush");
            false
        }
    });
    manifest.write(old.iter().map(|(path, record)| (path.as_str(), Some(record))))?;
    Ok(old.len() as u64)
}

fn remove(target: &Path, path: &str) -> Result<(), SinkError> {
    let mut names = path.split('/').map(Name::from_key).collect::<Result<Vec<_>, _>>().unwrap_or_default();
    // A path that is none was never written here.
    let Some(name) = names.pop() else { return Ok(()) };
    let mut folder = Arc::new(Folder::open(target, false)?);
    for below in &names {
        folder = Arc::new(folder.subfolder(below, false)?);
    }
    folder.remove_replica(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_delivered_long_ago_is_removed_and_never_through_a_link() {
        let (state, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let manifest = Manifest::open(state.path(), target.path()).unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        std::fs::write(elsewhere.path().join("f"), b"mine").unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), target.path().join("link")).unwrap();
        let record = |pulled_s, delivered| Record { pulled_s, delivered, ..Record::default() };
        for name in ["old", "young", "waiting"] {
            std::fs::write(target.path().join(name), name).unwrap();
        }
        let records = [
            ("old", record(0, true)),
            ("young", record(99_990, true)),
            ("waiting", record(0, false)),
            ("link/f", record(0, true)),
            ("../up", record(0, true)),
        ];
        manifest.write(records.iter().map(|(path, record)| (*path, Some(record)))).unwrap();
        flush(&manifest, target.path(), Duration::from_secs(60), None, 100_000).unwrap();
        let there = |name: &str| target.path().join(name).exists();
        assert!(!there("old") && there("young") && there("waiting"));
        assert!(elsewhere.path().join("f").exists());
        let flushed = |path| manifest.find(path).unwrap().unwrap().flushed;
        assert!(flushed("old") && !flushed("young") && !flushed("waiting") && !flushed("link/f"));
    }
}
