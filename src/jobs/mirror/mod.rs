//! Mirrors a tree: pulls what is new or changed at the source and, where asked to, removes here what is gone there.
//!
//! | file | what it is |
//! |---|---|
//! | [`spec`] | what a mirror is to do |
//! | [`walk`] | the way through the source's tree: what is there, and what of it is wanted |
//! | [`found`] | what that came to |
//! | `here` | the tree that is here, and what is remembered of it |
//! | [`delete`] | what is here and not there any more |
//!
//! A file that is here whole is up to date in the next run, and one that is half here is continued, so a mirror that was
//! interrupted in the middle of its tree goes on there.

pub mod delete;
pub mod found;
mod here;
pub mod spec;
pub mod walk;

use std::sync::Arc;

use tokio::sync::watch;

use super::manifest::{Manifest, ManifestError};
use super::pull::{Config, Totals, Watch, pull};
use super::slots::Slots;
use crate::fetch::limit::Limiter;
use crate::fetch::sink::{Folder, SinkError};
use delete::{Facts, Refusal, Surveyor};
pub use found::{Counts, Found, Planned, Trouble, What, Why};
use here::{Recorder, Tree, forget_gone};
pub use spec::{By, Compare, Delete, MaxDelete, Order, Spec, SpecError};
use walk::Walk;

/// Why a mirror could not even begin, or not be remembered.
#[derive(Debug, thiserror::Error)]
pub enum MirrorError {
    /// The target.
    #[error(transparent)]
    Target(#[from] SinkError),
    /// What is remembered of it.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// A thread that should have answered is gone.
    #[error("a thread of the mirror ended too early")]
    Gone,
}

/// What a run came to.
#[derive(Debug)]
pub struct Outcome {
    /// What the walk found.
    pub found: Found,
    /// The pull in numbers.
    pub totals: Totals,
    /// What was removed, or would be (dry run).
    pub deleted: Vec<String>,
    /// Why nothing was removed.
    pub refusal: Option<Refusal>,
    /// What went wrong while removing.
    pub delete_error: Option<SinkError>,
}

/// Mirrors a tree, in the slots that are given, until `stop` says otherwise.
pub async fn mirror(
    spec: &Spec,
    config: &Config,
    slots: &mut Slots,
    limiter: &Limiter,
    stop: &watch::Receiver<bool>,
    watch: &dyn Watch,
) -> Result<Outcome, MirrorError> {
    let spec = Arc::new(spec.clone());
    let place = open(&spec, config).await?;
    let mut outcome = once(&spec, config, &place, slots, limiter, stop, watch).await?;
    // What was in the way of a file or folder has gone: now it can come.
    if outcome.found.conflicts > 0 && !outcome.deleted.is_empty() && !spec.dry_run {
        let again = once(&spec, config, &place, slots, limiter, stop, watch).await?;
        outcome = join(outcome, again);
    }
    Ok(outcome)
}

/// The target and what is remembered of it; neither is made for a dry run.
#[derive(Clone)]
struct Place {
    target: Option<Arc<Folder>>,
    manifest: Option<Arc<Manifest>>,
}

async fn open(spec: &Arc<Spec>, config: &Config) -> Result<Place, MirrorError> {
    let (spec, state) = (Arc::clone(spec), config.state.clone());
    off_thread(move || {
        if spec.dry_run && !spec.target.exists() {
            return Ok(Place { target: None, manifest: None });
        }
        let target = Folder::open_tree_target(&spec.target, !spec.dry_run)?;
        let is_new = !Manifest::path_for(&state, &spec.target).exists();
        let manifest =
            if spec.dry_run && is_new { None } else { Some(Arc::new(Manifest::open(&state, &spec.target)?)) };
        Ok(Place { target: Some(Arc::new(target)), manifest })
    })
    .await?
}

async fn off_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, MirrorError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| MirrorError::Gone)
}

async fn once(
    spec: &Arc<Spec>,
    config: &Config,
    place: &Place,
    slots: &mut Slots,
    limiter: &Limiter,
    stop: &watch::Receiver<bool>,
    watch: &dyn Watch,
) -> Result<Outcome, MirrorError> {
    let recorder = match &place.manifest {
        Some(manifest) if !spec.dry_run => Some(Recorder::start(Arc::clone(manifest), spec.target.clone())),
        _ => None,
    };
    let notes = recorder.as_ref().map(Recorder::notes);
    let tree = Tree::new(place.target.clone(), place.manifest.clone(), notes);
    let walk = Walk::new(Arc::clone(spec), tree);
    let (walk, totals) = pull(walk, config, slots, limiter, stop, watch).await;
    // With the walk goes its line to the recorder, who then ends.
    let found = walk.finish();
    if let Some(recorder) = recorder {
        off_thread(move || recorder.finish()).await??;
    }
    let mut outcome = Outcome { found, totals, deleted: Vec::new(), refusal: None, delete_error: None };
    if spec.delete.is_some()
        && let Some(target) = place.target.clone()
    {
        let (spec, manifest) = (Arc::clone(spec), place.manifest.clone());
        outcome = off_thread(move || clean(&spec, &target, manifest.as_deref(), outcome)).await??;
    }
    if let Place { target: Some(target), manifest: Some(manifest) } = place.clone()
        && outcome.found.is_complete
        && !spec.dry_run
    {
        let files = outcome.found.counts.files;
        // As many as there are files: nothing is gone, and nobody need look.
        off_thread(move || if manifest.count()? > files { forget_gone(&target, &manifest) } else { Ok(()) })
            .await??;
    }
    Ok(outcome)
}

/// Removes what is here and not there.
fn clean(
    spec: &Spec,
    target: &Arc<Folder>,
    manifest: Option<&Manifest>,
    mut outcome: Outcome,
) -> Result<Outcome, MirrorError> {
    let Some(delete) = &spec.delete else { return Ok(outcome) };
    let found = &mut outcome.found;
    // What stands in the way of something else is the one trouble that removing it cures.
    let is_complete = found.is_complete || found.is_only_in_the_way();
    let mut facts = Facts {
        is_complete,
        root_entries: found.root_entries.unwrap_or(0),
        files_there: found.counts.files,
        ..Facts::default()
    };
    if !is_complete {
        outcome.refusal = delete::allows(delete, facts).err();
        return Ok(outcome);
    }
    let is_known = |path: &str| manifest.is_some_and(|manifest| matches!(manifest.find(path), Ok(Some(_))));
    let now_s = jiff::Timestamp::now().as_second();
    let surveyor = Surveyor { spec, seen: &found.seen, is_known: &is_known, now_s };
    let survey = match surveyor.survey(target) {
        Ok(survey) => survey,
        Err(error) => {
            outcome.delete_error = Some(error);
            return Ok(outcome);
        }
    };
    facts.files_before = match manifest {
        Some(manifest) => remembered(spec, manifest, now_s)?,
        None => 0,
    };
    facts.files_here = survey.files_here;
    facts.doomed = survey.doomed.len() as u64;
    if let Err(refusal) = delete::allows(delete, facts) {
        outcome.refusal = Some(refusal);
        return Ok(outcome);
    }
    if spec.dry_run {
        outcome.deleted = survey.doomed.iter().map(delete::Doomed::path).collect();
    } else {
        let (gone, result) = survey.remove(target, delete.backup.as_deref());
        outcome.delete_error = result.err();
        if let Some(manifest) = manifest {
            manifest.write(gone.iter().map(|path| (path.as_str(), None)))?;
        }
        outcome.deleted = gone;
    }
    found.counts.deleted = outcome.deleted.len() as u64;
    Ok(outcome)
}

/// How many files are remembered, of those that are meant now.
fn remembered(spec: &Spec, manifest: &Manifest, now_s: i64) -> Result<u64, ManifestError> {
    let mut count = 0;
    manifest.for_each(|path, record| {
        let is_meant = spec.filter.allows_file(path, Some(record.size), record.modified_s, now_s);
        count += u64::from(is_meant);
        true
    })?;
    Ok(count)
}

/// Two runs, of which the second is the one that counts.
fn join(first: Outcome, second: Outcome) -> Outcome {
    let mut joined = second;
    joined.found.counts.pulled += first.found.counts.pulled;
    joined.found.counts.deleted += first.found.counts.deleted;
    joined.deleted.splice(0..0, first.deleted);
    joined.delete_error = joined.delete_error.or(first.delete_error);
    let (totals, before) = (&mut joined.totals, first.totals);
    totals.bytes += before.bytes;
    totals.elapsed_s += before.elapsed_s;
    totals.waited_s += before.waited_s;
    totals.paused_s += before.paused_s;
    totals.slots += before.slots;
    totals.cuts += before.cuts;
    totals.listings += before.listings;
    joined
}
