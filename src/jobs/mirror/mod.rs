//! Mirrors a tree: pulls what is new or changed at the source and, where asked to, removes here what is gone there.
//!
//! | file | what it is |
//! |---|---|
//! | [`spec`] | what a mirror is to do |
//! | [`walk`] | the way through the source's tree: what is there, and what of it is wanted |
//! | `compare` | whether a replica is the file that a listing shows |
//! | [`found`] | what that came to |
//! | [`plan`] | what a dry run would pull |
//! | `zones` | time zones of listings |
//! | `links` | where symbolic links of the source lead |
//! | `here` | the tree that is here, and what is remembered of it |
//! | `confirm` | asks the source for each file before its replica is removed |
//! | [`delete`] | what is here and not there any more |
//!
//! A file that is here whole is up to date in the next run, and one that is half here is continued, so a mirror that was
//! interrupted in the middle of its tree goes on there.

mod compare;
mod confirm;
pub mod delete;
pub mod found;
mod here;
mod links;
mod names;
pub mod plan;
pub mod spec;
pub mod walk;
mod zones;

use std::sync::Arc;

use tokio::sync::watch;

use super::manifest::{Manifest, ManifestError};
use super::pull::{Config, Event, Fate, Totals, Watch, pull};
use super::slots::Slots;
use crate::fetch::Fault;
use crate::fetch::engine::PullError;
use crate::fetch::limit::Limiter;
use crate::fetch::sink::{Folder, SinkError};
use confirm::Confirm;
use delete::{Doomed, Facts, Refusal, Removed, Survey, Surveyor};
pub use found::{Counts, Found, Planned, SkippedLink, Trouble, What, Why};
use here::{Recorder, Tree, forget_gone};
pub use plan::Plan;
pub use spec::{By, Compare, Delete, Links, MaxDelete, Order, Spec, SpecError};
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
    /// Empty folders that were removed, or would be.
    pub deleted_folders: Vec<String>,
    /// Replicas that are in no listing but were not confirmed as missing at the source.
    pub kept: Vec<String>,
    /// Why nothing was removed.
    pub refusal: Option<Refusal>,
    /// What went wrong while removing.
    pub delete_error: Option<SinkError>,
}

impl Outcome {
    fn has_removed(&self) -> bool {
        !self.deleted.is_empty() || !self.deleted_folders.is_empty()
    }
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
    let mut outcome = once(&spec, config, &place, slots, limiter, stop, watch, false).await?;
    // What was in the way of a file or folder has gone: now it can come.
    if outcome.found.conflicts > 0 && outcome.has_removed() {
        let again = once(&spec, config, &place, slots, limiter, stop, watch, spec.dry_run).await?;
        outcome = if spec.dry_run { again } else { join(outcome, again) };
    }
    Ok(outcome)
}

/// Tells everything but the failures of files that turn out to be folders: those are visited.
struct FoldersAside<'a>(&'a dyn Watch);

impl Watch for FoldersAside<'_> {
    fn on(&self, event: Event<'_>) {
        match event {
            Event::Ended { index, fate: Fate::Failed(PullError::Source(Fault::IsFolder(_))) } => {
                self.0.on(Event::Ended { index, fate: &Fate::NotMeant });
            }
            event => self.0.on(event),
        }
    }

    fn name(&self) -> Option<String> {
        self.0.name()
    }
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
        let manifest = if spec.dry_run {
            Manifest::open_known(&state, &spec.target)?
        } else {
            Some(Manifest::open(&state, &spec.target)?)
        };
        Ok(Place { target: Some(Arc::new(target)), manifest: manifest.map(Arc::new) })
    })
    .await?
}

async fn off_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, MirrorError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| MirrorError::Gone)
}

#[expect(clippy::too_many_arguments, reason = "they are what one pass has in common with the next")]
async fn once(
    spec: &Arc<Spec>,
    config: &Config,
    place: &Place,
    slots: &mut Slots,
    limiter: &Limiter,
    stop: &watch::Receiver<bool>,
    watch: &dyn Watch,
    replaces: bool,
) -> Result<Outcome, MirrorError> {
    let recorder = match &place.manifest {
        Some(manifest) if !spec.dry_run => Some(Recorder::start(Arc::clone(manifest), spec.target.clone())),
        _ => None,
    };
    let notes = recorder.as_ref().map(Recorder::notes);
    let tree = Tree::new(place.target.clone(), place.manifest.clone(), notes, spec.dry_run);
    let walk = Walk::new(Arc::clone(spec), tree).replacing(replaces);
    let (walk, totals) = pull(walk, config, slots, limiter, stop, &FoldersAside(watch)).await;
    // With the walk goes its line to the recorder, who then ends.
    let found = walk.finish();
    if let Some(recorder) = recorder {
        off_thread(move || recorder.finish()).await??;
    }
    let mut outcome = Outcome {
        found,
        totals,
        deleted: Vec::new(),
        deleted_folders: Vec::new(),
        kept: Vec::new(),
        refusal: None,
        delete_error: None,
    };
    if spec.delete.is_some()
        && let Some(target) = place.target.clone()
    {
        let (spec, manifest) = (Arc::clone(spec), place.manifest.clone());
        let (surveyed, spec_, target_, manifest_) =
            (outcome, Arc::clone(&spec), Arc::clone(&target), manifest.clone());
        let (mut surveyed, survey) =
            off_thread(move || look(&spec_, &target_, manifest_.as_deref(), surveyed)).await??;
        if let Some(mut survey) = survey {
            let folders = survey.take_folders_to_ask_for();
            let doomed = std::mem::take(&mut survey.doomed);
            let (certain, asked) = doomed.into_iter().partition(|doomed: &Doomed| doomed.is_certain);
            survey.doomed = certain;
            let confirm = Confirm::new(spec.source.clone(), asked, folders);
            let (confirm, totals) = pull(confirm, config, slots, limiter, stop, watch).await;
            add(&mut surveyed.totals, totals);
            take_over(confirm, &mut survey, &mut surveyed);
            surveyed =
                off_thread(move || clean(&spec, &target, manifest.as_deref(), &survey, surveyed)).await??;
        }
        outcome = surveyed;
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

/// Takes over what the source said of the candidates.
fn take_over(mut confirm: Confirm, survey: &mut Survey, outcome: &mut Outcome) {
    confirm.tell(&mut outcome.found);
    outcome.kept = confirm.kept;
    outcome.found.counts.kept = outcome.kept.len() as u64;
    survey.doomed.extend(confirm.gone);
    survey.doomed.sort_by_cached_key(Doomed::path);
    survey.add_folders(confirm.folders_gone);
}

/// Finds the replicas that may be removed; `None` if nothing may be.
fn look(
    spec: &Spec,
    target: &Arc<Folder>,
    manifest: Option<&Manifest>,
    mut outcome: Outcome,
) -> Result<(Outcome, Option<Survey>), MirrorError> {
    let Some(delete) = &spec.delete else { return Ok((outcome, None)) };
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
        return Ok((outcome, None));
    }
    let is_known = |path: &str| manifest.is_some_and(|manifest| matches!(manifest.find(path), Ok(Some(_))));
    let now_s = jiff::Timestamp::now().as_second();
    let surveyor = Surveyor {
        spec,
        seen: &found.seen,
        left_out: &found.left_out,
        links: &found.kept_links,
        is_known: &is_known,
        now_s,
    };
    let survey = match surveyor.survey(target) {
        Ok(survey) => survey,
        Err(error) => {
            outcome.delete_error = Some(error);
            return Ok((outcome, None));
        }
    };
    facts.files_before = match manifest {
        Some(manifest) => remembered(spec, manifest, now_s)?,
        None => 0,
    };
    // The real run weighs what is here after it has pulled.
    let new = found.planned.new_files();
    facts.files_before += new;
    facts.files_here = survey.files_here + new;
    facts.doomed = survey.doomed.len() as u64;
    if let Err(refusal) = delete::allows(delete, facts) {
        outcome.refusal = Some(refusal);
        return Ok((outcome, None));
    }
    Ok((outcome, Some(survey)))
}

/// Removes replicas that are confirmed as missing at the source.
fn clean(
    spec: &Spec,
    target: &Arc<Folder>,
    manifest: Option<&Manifest>,
    survey: &Survey,
    mut outcome: Outcome,
) -> Result<Outcome, MirrorError> {
    let Some(delete) = &spec.delete else { return Ok(outcome) };
    let removed = if spec.dry_run {
        survey.plan(target).unwrap_or_else(|error| Removed { error: Some(error), ..Removed::default() })
    } else {
        survey.remove(target, delete.backup.as_deref())
    };
    if let Some(manifest) = manifest.filter(|_| !spec.dry_run) {
        manifest.write(removed.files.iter().map(|path| (path.as_str(), None)))?;
    }
    outcome.delete_error = removed.error;
    outcome.found.counts.deleted = removed.files.len() as u64;
    outcome.found.counts.folders_deleted = removed.folders.len() as u64;
    (outcome.deleted, outcome.deleted_folders) = (removed.files, removed.folders);
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
    joined.found.counts.folders_made += first.found.counts.folders_made;
    joined.found.folders_made.splice(0..0, first.found.folders_made);
    joined.found.counts.folders_deleted += first.found.counts.folders_deleted;
    joined.deleted_folders.splice(0..0, first.deleted_folders);
    joined.kept.extend(first.kept.into_iter().filter(|path| !joined.kept.contains(path)).collect::<Vec<_>>());
    joined.found.counts.kept = joined.kept.len() as u64;
    joined.delete_error = joined.delete_error.or(first.delete_error);
    add(&mut joined.totals, first.totals);
    joined
}

fn add(totals: &mut Totals, before: Totals) {
    totals.bytes += before.bytes;
    totals.elapsed_s += before.elapsed_s;
    totals.waited_s += before.waited_s;
    totals.paused_s += before.paused_s;
    totals.slots += before.slots;
    totals.cuts += before.cuts;
    totals.listings += before.listings;
    if let Some(checksums) = before.checksums {
        totals.checksums.get_or_insert_default().merge(checksums);
    }
}
