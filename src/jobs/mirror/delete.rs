//! What is here and not there any more: found, weighed, and only then removed. Called by the mirror after a complete walk.
//!
//! ```text
//!   complete walk ──> survey (what is here, what of it is not there) ──> guards ──> remove, or move away
//! ```
//!
//! Everything goes through the target's open folder. Never touched: what we would never have made (links, pipes, names that are
//! not ours), our temporary files, hidden names that no mirror brought, and what the filter leaves out unless that is asked for.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::found::{Seen, path_of};
use super::spec::{Delete, MaxDelete, Spec};
use super::walk::DEEPEST;
use crate::fetch::sink::{Folder, Here, SinkError};
use crate::fetch::{EntryKind, Name};

/// Why nothing was removed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Something was not seen, or did not come.
    #[error("nothing is removed: not everything at the source was seen and pulled")]
    Incomplete,
    /// Nobody has an empty tree.
    #[error("nothing is removed: the source's folder is empty")]
    Empty,
    /// Much of what was there is not.
    #[error(
        "nothing is removed: of {before} files at the source {now} are left; if that is right, say so with --max-delete"
    )]
    Shrunk {
        /// How many are remembered.
        before: u64,
        /// How many there are.
        now: u64,
    },
    /// More than the user allows.
    #[error(
        "nothing is removed: {doomed} of the {here} files here are not at the source, more than --max-delete {max} allows"
    )]
    TooMany {
        /// How many would go.
        doomed: u64,
        /// Of how many.
        here: u64,
        /// What is allowed.
        max: MaxDelete,
    },
}

/// What the guards look at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Whether the walk saw and pulled everything.
    pub is_complete: bool,
    /// Entries of the root.
    pub root_entries: usize,
    /// Files at the source that are meant.
    pub files_there: u64,
    /// Files that are remembered from before, as far as they are meant.
    pub files_before: u64,
    /// Files that are here.
    pub files_here: u64,
    /// Of these, how many would go.
    pub doomed: u64,
}

/// Whether so much may be removed. All guards, in one place.
pub fn allows(delete: &Delete, facts: Facts) -> Result<(), Refusal> {
    let Facts { files_there, files_before, files_here, doomed, .. } = facts;
    if !facts.is_complete {
        return Err(Refusal::Incomplete);
    }
    if doomed == 0 {
        return Ok(());
    }
    if facts.root_entries == 0 {
        return Err(Refusal::Empty);
    }
    if !delete.max.allows(doomed, files_here) {
        return Err(Refusal::TooMany { doomed, here: files_here, max: delete.max });
    }
    if !delete.is_told && files_there.saturating_mul(2) < files_before {
        return Err(Refusal::Shrunk { before: files_before, now: files_there });
    }
    Ok(())
}

/// A file that would go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doomed {
    /// The folders down to it.
    pub below: Vec<Name>,
    /// Its name.
    pub name: Name,
    /// The filter leaves it out, or the listing shows a folder of this name: the source need not be asked.
    pub is_certain: bool,
}

impl Doomed {
    /// Where it is, below the target.
    pub fn path(&self) -> String {
        path_of(&self.below, self.name.as_str())
    }
}

/// What is here.
#[derive(Debug, Default)]
pub struct Survey {
    /// Files that are here and count.
    pub files_here: u64,
    /// What is not there, in the order of the paths.
    pub doomed: Vec<Doomed>,
    /// Folders that are not there, deepest first.
    folders: Vec<Vec<Name>>,
    /// Folders that are in no listing, deepest first.
    unlisted_folders: Vec<Vec<Name>>,
}

/// What was removed, or would be.
#[derive(Debug, Default)]
pub struct Removed {
    /// Files.
    pub files: Vec<String>,
    /// Folders that were empty by then.
    pub folders: Vec<String>,
    /// What ended it early.
    pub error: Option<SinkError>,
}

/// Looks through the target.
pub struct Surveyor<'a> {
    /// What is mirrored.
    pub spec: &'a Spec,
    /// What is at the source.
    pub seen: &'a Seen,
    /// Entries of the source that the filter leaves out, if `--delete-excluded` removes their replicas.
    pub left_out: &'a Seen,
    /// Symbolic links of the source: what is here under their names is neither counted nor removed.
    pub links: &'a Seen,
    /// Whether a mirror brought this file.
    pub is_known: &'a dyn Fn(&str) -> bool,
    /// In seconds since 1970.
    pub now_s: i64,
}

impl Surveyor<'_> {
    /// Finds what is here and not there.
    pub fn survey(&self, target: &Arc<Folder>) -> Result<Survey, SinkError> {
        let mut survey = Survey::default();
        self.look(target, &mut Vec::new(), &mut survey)?;
        Ok(survey)
    }

    fn look(
        &self,
        folder: &Arc<Folder>,
        below: &mut Vec<Name>,
        survey: &mut Survey,
    ) -> Result<(), SinkError> {
        for name in folder.names()? {
            let path = path_of(below, name.as_str());
            if self.links.contains(&path, EntryKind::File) {
                continue;
            }
            match folder.look(&name)? {
                Some(Here::File(replica)) if self.counts(&name, &path) => {
                    survey.files_here += 1;
                    let is_there = self.seen.contains(&path, EntryKind::File);
                    let (size, time) = (Some(replica.size), Some(replica.modified_s));
                    let is_allowed = self.spec.filter.allows_file(&path, size, time, self.now_s);
                    if !is_there && (self.takes_excluded() || is_allowed) {
                        let is_certain = !is_allowed
                            || self.seen.contains(&path, EntryKind::Folder)
                            || self.is_left_out(below, &path)
                            || self.is_below_a_file(below);
                        survey.doomed.push(Doomed { below: below.clone(), name, is_certain });
                    }
                }
                // What is deeper than any walk goes was not made by one.
                Some(Here::Folder) if below.len() + 1 < DEEPEST && self.enters(&name, &path) => {
                    let inner = Arc::new(folder.subfolder(&name, false)?);
                    below.push(name);
                    self.look(&inner, below, survey)?;
                    if !self.seen.contains(&path, EntryKind::Folder) {
                        let is_certain =
                            self.seen.contains(&path, EntryKind::File) || self.is_left_out(below, &path);
                        let folders =
                            if is_certain { &mut survey.folders } else { &mut survey.unlisted_folders };
                        folders.push(below.clone());
                    }
                    below.pop();
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// True if the source has the file, or a folder above it, and the filter leaves it out.
    fn is_left_out(&self, below: &[Name], path: &str) -> bool {
        self.left_out.contains(path, EntryKind::File)
            || folders_above(below).any(|folder| self.left_out.contains(&folder, EntryKind::Folder))
    }

    /// True if a folder above it is a file at the source now. A link counts as both and proves nothing.
    fn is_below_a_file(&self, below: &[Name]) -> bool {
        folders_above(below).any(|path| {
            self.seen.contains(&path, EntryKind::File) && !self.seen.contains(&path, EntryKind::Folder)
        })
    }

    fn takes_excluded(&self) -> bool {
        self.spec.delete.as_ref().is_some_and(|delete| delete.excluded)
    }

    /// Whether a file is one that mirrors make.
    fn counts(&self, name: &Name, path: &str) -> bool {
        let is_hidden = path.split('/').any(|part| part.starts_with('.'));
        !name.is_temporary() && (!is_hidden || (self.spec.hidden && (self.is_known)(path)))
    }

    fn enters(&self, name: &Name, path: &str) -> bool {
        (self.spec.hidden || !name.is_hidden())
            && (self.takes_excluded() || self.spec.filter.allows_folder(path))
    }
}

/// The paths of the folders down to a file, from the root on.
fn folders_above(below: &[Name]) -> impl Iterator<Item = String> + '_ {
    below
        .iter()
        .enumerate()
        .map(|(depth, name)| path_of(below.get(..depth).unwrap_or_default(), name.as_str()))
}

impl Survey {
    /// Takes out the folders that the source has to be asked for: those that held none of the files that would go.
    pub fn take_folders_to_ask_for(&mut self) -> Vec<Vec<Name>> {
        let doomed = &self.doomed;
        let held_some = |folder: &Vec<Name>| doomed.iter().any(|doomed| doomed.below.starts_with(folder));
        let (gone, unsure) = std::mem::take(&mut self.unlisted_folders).into_iter().partition(held_some);
        self.add_folders(gone);
        unsure
    }

    /// Adds folders that are gone at the source.
    pub fn add_folders(&mut self, folders: Vec<Vec<Name>>) {
        self.folders.extend(folders);
        self.folders.sort_by_key(|folder| std::cmp::Reverse(folder.len()));
    }

    /// Says what [`remove`](Self::remove) would remove.
    pub fn plan(&self, target: &Arc<Folder>) -> Result<Removed, SinkError> {
        let files: Vec<String> = self.doomed.iter().map(Doomed::path).collect();
        let mut gone: BTreeSet<String> = files.iter().cloned().collect();
        let mut folders = Vec::new();
        for below in &self.folders {
            let Some(folder) = descend(target, below, false)? else { continue };
            if folder.names()?.iter().all(|name| gone.contains(&path_of(below, name.as_str()))) {
                gone.insert(path_of(below, "").trim_end_matches('/').to_owned());
                folders.push(path_of(below, ""));
            }
        }
        Ok(Removed { files, folders, error: None })
    }

    /// Removes what is doomed, or moves it away, and then the folders that are empty by it. An error ends it, and what went
    /// before stays gone.
    pub fn remove(&self, target: &Arc<Folder>, backup: Option<&Path>) -> Removed {
        let mut removed = Removed::default();
        removed.error = self.remove_into(target, backup, &mut removed).err();
        removed
    }

    fn remove_into(
        &self,
        target: &Arc<Folder>,
        backup: Option<&Path>,
        removed: &mut Removed,
    ) -> Result<(), SinkError> {
        let backup = match backup {
            Some(path) => Some(open_backup(target, path)?),
            None => None,
        };
        for doomed in &self.doomed {
            let Some(folder) = descend(target, &doomed.below, false)? else { continue };
            match &backup {
                Some(backup) => {
                    if let Some(to) = descend(backup, &doomed.below, true)? {
                        folder.move_file(&doomed.name, &to)?;
                    }
                }
                None => folder.remove_file(&doomed.name)?,
            }
            removed.files.push(doomed.path());
        }
        for folder in &self.folders {
            let Some((name, below)) = folder.split_last() else { continue };
            if let Some(above) = descend(target, below, false)?
                && above.remove_folder(name)?
            {
                removed.folders.push(path_of(folder, ""));
            }
        }
        Ok(())
    }
}

/// What is moved away must not be in the tree, where the next run would find it.
fn open_backup(target: &Arc<Folder>, path: &Path) -> Result<Arc<Folder>, SinkError> {
    if target.contains(path) {
        return Err(SinkError::InsideTarget { path: PathBuf::from(path) });
    }
    Ok(Arc::new(Folder::open(path, true)?))
}

/// The folder down there; `None` if it is gone.
fn descend(root: &Arc<Folder>, below: &[Name], create: bool) -> Result<Option<Arc<Folder>>, SinkError> {
    let mut folder = Arc::clone(root);
    for name in below {
        if !create && folder.look(name)?.is_none() {
            return Ok(None);
        }
        folder = Arc::new(folder.subfolder(name, create)?);
    }
    Ok(Some(folder))
}

#[cfg(test)]
mod tests;
