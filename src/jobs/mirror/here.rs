//! The tree that is here, and what is remembered of it: the disk behind a walk. Made and ended by the mirror.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::compare::{as_we_left_it, standing};
use super::found::path_of;
use super::walk::{Note, Replicas};
use super::zones::Zones;
use crate::fetch::Name;
use crate::fetch::sink::{Folder, Here, Replica, SinkError};
use crate::jobs::manifest::{Listed, Manifest, ManifestError, Record};

/// So many replicas are remembered in one go, and so many more may wait.
const BATCH: usize = 512;

/// Key of the time zones in the manifest's notes.
const ZONES: &str = "zones";

/// What has come is remembered after this at the latest.
const GATHER: Duration = Duration::from_secs(1);

/// What is here.
pub(super) struct Tree {
    root: Option<Arc<Folder>>,
    manifest: Option<Arc<Manifest>>,
    notes: Option<SyncSender<Note>>,
    opened: Opened,
    distinguishes: Option<bool>,
    /// Nothing is made.
    is_dry: bool,
}

/// The folder that was last looked into: most questions are about the same one.
#[derive(Default)]
struct Opened {
    below: Vec<Name>,
    folder: Option<Arc<Folder>>,
}

impl Opened {
    /// The folder down there; `None` if there is none.
    fn find(&mut self, root: &Arc<Folder>, below: &[Name]) -> Result<Option<Arc<Folder>>, SinkError> {
        if self.below != below || self.folder.as_ref().is_none_or(|folder| folder.is_removed()) {
            self.folder = None;
            let mut folder = Arc::clone(root);
            for name in below {
                // A file in place of a folder is reported where it is met; below it there is nothing.
                if let None | Some(Here::File(_)) = folder.look(name)? {
                    return Ok(None);
                }
                folder = Arc::new(folder.subfolder(name, false)?);
            }
            self.below = below.to_vec();
            self.folder = Some(folder);
        }
        Ok(self.folder.clone())
    }
}

impl Tree {
    pub(super) fn new(
        root: Option<Arc<Folder>>,
        manifest: Option<Arc<Manifest>>,
        notes: Option<SyncSender<Note>>,
        is_dry: bool,
    ) -> Self {
        Self { root, manifest, notes, opened: Opened::default(), distinguishes: None, is_dry }
    }
}

impl Replicas for Tree {
    fn look(&mut self, below: &[Name], name: &Name) -> Result<Option<(Here, Option<Record>)>, SinkError> {
        let Some(root) = &self.root else { return Ok(None) };
        let Some(folder) = self.opened.find(root, below)? else { return Ok(None) };
        let Some(here) = folder.look(name)? else { return Ok(None) };
        let record = match (&self.manifest, here) {
            (Some(manifest), Here::File(_)) => {
                // What cannot be read is not known; writing will tell what is wrong.
                manifest.find(&path_of(below, name.as_str())).ok().flatten()
            }
            _ => None,
        };
        Ok(Some((here, record)))
    }

    fn distinguishes_twins(&mut self) -> bool {
        let Some(root) = &self.root else { return true };
        *self.distinguishes.get_or_insert_with(|| root.distinguishes_twins())
    }

    fn make_folder(&mut self, below: &[Name]) -> Result<bool, SinkError> {
        let Some(root) = &self.root else { return Ok(true) };
        if self.opened.find(root, below)?.is_some() {
            return Ok(false);
        }
        if !self.is_dry {
            let mut folder = Arc::clone(root);
            for name in below {
                folder = Arc::new(folder.subfolder(name, true)?);
            }
        }
        Ok(true)
    }

    fn note(&mut self, note: Note) {
        if let Some(notes) = &self.notes {
            // If the recorder is gone, its own error will be told.
            let _ = notes.send(note);
        }
    }
}

/// Forgets replicas that are gone. After a complete run everything that is there is here: so what is not here is gone on
/// both sides.
pub(super) fn forget_gone(root: &Arc<Folder>, manifest: &Manifest) -> Result<(), ManifestError> {
    let mut opened = Opened::default();
    let mut gone = Vec::new();
    manifest.for_each(|path, _| {
        if is_gone(root, &mut opened, path) {
            gone.push(path.to_owned());
        }
        true
    })?;
    manifest.write(gone.iter().map(|path| (path.as_str(), None)))
}

/// What cannot be looked at may be there.
fn is_gone(root: &Arc<Folder>, opened: &mut Opened, path: &str) -> bool {
    let names: Result<Vec<Name>, _> = path.split('/').map(Name::from_key).collect();
    let Ok(names) = names else { return false };
    let Some((name, below)) = names.split_last() else { return false };
    match opened.find(root, below) {
        Ok(Some(folder)) => matches!(folder.look(name), Ok(None)),
        Ok(None) => true,
        Err(_) => false,
    }
}

/// Writes down what came, on a thread of its own.
pub(super) struct Recorder {
    notes: SyncSender<Note>,
    thread: JoinHandle<Result<(), ManifestError>>,
}

impl Recorder {
    pub(super) fn start(manifest: Arc<Manifest>, target: PathBuf) -> Self {
        let (notes, inbox) = sync_channel(BATCH);
        let thread = thread::spawn(move || record_all(&manifest, &target, &inbox));
        Self { notes, thread }
    }

    /// A line to it. It ends when all lines are gone.
    pub(super) fn notes(&self) -> SyncSender<Note> {
        self.notes.clone()
    }

    /// Waits until everything is written.
    pub(super) fn finish(self) -> Result<(), ManifestError> {
        drop(self.notes);
        self.thread.join().unwrap_or(Ok(()))
    }
}

fn record_all(
    manifest: &Manifest,
    target: &std::path::Path,
    inbox: &Receiver<Note>,
) -> Result<(), ManifestError> {
    let root = Folder::open(target, false).ok().map(Arc::new);
    let mut opened = Opened::default();
    let mut batch: Vec<(String, Record)> = Vec::new();
    // Zones that cannot be read are learnt anew.
    let known = manifest.note(ZONES)?.and_then(|bytes| serde_json::from_slice::<Zones>(&bytes).ok());
    let mut zones = known.clone().unwrap_or_default();
    loop {
        let note = inbox.recv_timeout(GATHER);
        let (is_over, is_idle) = match note {
            Ok(note) => {
                let replica = root.as_ref().and_then(|root| replica(root, &mut opened, &note));
                if let Some(replica) = replica {
                    let path = path_of(&note.below, note.name.as_str());
                    let record = record(&note, replica, manifest.find(&path)?.as_ref(), &mut zones);
                    batch.push((path, record));
                }
                (false, false)
            }
            Err(RecvTimeoutError::Timeout) => (false, true),
            Err(RecvTimeoutError::Disconnected) => (true, true),
        };
        if !batch.is_empty() && (is_idle || batch.len() >= BATCH) {
            manifest.write(batch.iter().map(|(path, record)| (path.as_str(), Some(record))))?;
            batch.clear();
        }
        if is_over {
            break;
        }
    }
    if known.as_ref() != Some(&zones) && zones != Zones::default() {
        manifest.write_note(ZONES, &serde_json::to_vec(&zones).expect("zones are plain data"))?;
    }
    Ok(())
}

fn replica(root: &Arc<Folder>, opened: &mut Opened, note: &Note) -> Option<Replica> {
    let folder = opened.find(root, &note.below).ok().flatten()?;
    folder.replica(&note.name).ok().flatten()
}

/// What is to be remembered of a replica, given what was.
fn record(note: &Note, replica: Replica, before: Option<&Record>, zones: &mut Zones) -> Record {
    let same = as_we_left_it(replica, before).filter(|_| !note.is_new);
    let modified_s = note.version_s.or(note.exact_s);
    let standing = standing(note, replica, before, zones);
    // Each version counts once.
    if let (Some(version_s), Some(coarse_s)) = (note.version_s, note.coarse_s)
        && before.is_none_or(|before| before.modified_s != Some(version_s))
    {
        zones.observe(version_s, coarse_s);
    }
    Record {
        size: replica.size,
        modified_s: modified_s.or(same.and_then(|same| same.modified_s)),
        sha256: note.sha256.or(same.and_then(|same| same.sha256)),
        pulled_s: same.map_or(note.now_s, |same| same.pulled_s),
        delivered: true,
        replica_s: Some(replica.modified_s),
        etag: note.etag.clone().or(same.and_then(|same| same.etag.clone())),
        listed: Some(Listed {
            coarse_s: note.coarse_s,
            exact_s: note.exact_s,
            size: note.size,
            seen_s: note.now_s,
            standing,
        }),
        ..Record::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::manifest::Standing;

    fn note(is_new: bool, coarse_s: Option<i64>) -> Note {
        Note {
            below: Vec::new(),
            name: Name::new("f").expect("a name"),
            size: Some(5),
            exact_s: None,
            coarse_s,
            zone_s: None,
            version_s: None,
            etag: is_new.then(|| "\"e\"".to_owned()),
            sha256: is_new.then_some([1; 32]),
            is_new,
            is_proven: true,
            now_s: 2_000,
        }
    }

    #[test]
    fn what_is_confirmed_keeps_its_digest_only_if_it_is_as_we_left_it() {
        let replica = Replica { size: 5, modified_s: 1_000 };
        let zones = &mut Zones::default();
        let new = record(&note(true, Some(960)), replica, None, zones);
        assert_eq!(
            (new.size, new.sha256, new.pulled_s, new.replica_s),
            (5, Some([1; 32]), 2_000, Some(1_000))
        );
        let listed = Listed { coarse_s: Some(960), size: Some(5), seen_s: 2_000, ..Listed::default() };
        assert_eq!(new.listed, Some(listed));
        let before = Record { pulled_s: 1_500, ..new };
        let kept = record(&note(false, None), replica, Some(&before), zones);
        assert_eq!((kept.sha256, kept.pulled_s, kept.etag.as_deref()), (Some([1; 32]), 1_500, Some("\"e\"")));
        let touched = Replica { size: 5, modified_s: 1_001 };
        let kept = record(&note(false, None), touched, Some(&before), zones);
        assert_eq!((kept.sha256, kept.etag), (None, None));
    }

    #[test]
    fn a_listed_time_stays_open_as_long_as_a_cache_serves_the_version_before() {
        let replica = Replica { size: 5, modified_s: 900_000 };
        let zones = &mut Zones::default();
        let note = |coarse_s, version_s| Note { version_s: Some(version_s), ..note(true, Some(coarse_s)) };
        let stands = |record: &Record| record.listed.map(|listed| listed.standing);
        let fresh = record(&note(900_000, 900_030), replica, None, zones);
        assert_eq!(stands(&fresh), Some(Standing::Settled));
        let stale = record(&note(900_120, 900_000), replica, None, zones);
        assert_eq!(stands(&stale), Some(Standing::Open));
        // Confirmed by the same cache in the next run: still the old version, an hour before the listed one.
        let asked = Note { is_new: false, ..note(903_600, 900_030) };
        let again = record(&asked, replica, Some(&fresh), zones);
        assert_eq!(stands(&again), Some(Standing::Contradicted));
        assert_eq!(stands(&record(&asked, replica, Some(&again), zones)), Some(Standing::Contradicted));
        let served = record(&note(903_600, 903_610), replica, Some(&again), zones);
        assert_eq!(stands(&served), Some(Standing::Settled));
    }
}
