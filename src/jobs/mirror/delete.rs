//! What is here and not there any more: found, weighed, and only then removed. Called by the mirror after a complete walk.
//!
//! ```text
//!   complete walk ──> survey (what is here, what of it is not there) ──> guards ──> remove, or move away
//! ```
//!
//! Everything goes through the target's open folder. Never touched: what we would never have made (links, pipes, names that are
//! not ours), `.part` files, hidden names that no mirror brought, and what the filter leaves out unless that is asked for.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::found::{Seen, path_of};
use super::spec::{Delete, MaxDelete, Spec};
use super::walk::DEEPEST;
use crate::fetch::name::PART_ENDING;
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
}

/// Looks through the target.
pub struct Surveyor<'a> {
    /// What is mirrored.
    pub spec: &'a Spec,
    /// What is at the source.
    pub seen: &'a Seen,
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
            match folder.look(&name)? {
                Some(Here::File(replica)) if self.counts(&name, &path) => {
                    survey.files_here += 1;
                    let is_there = self.seen.contains(&path, EntryKind::File);
                    let (size, time) = (Some(replica.size), Some(replica.modified_s));
                    if !is_there
                        && (self.takes_excluded()
                            || self.spec.filter.allows_file(&path, size, time, self.now_s))
                    {
                        survey.doomed.push(Doomed { below: below.clone(), name });
                    }
                }
                // What is deeper than any walk goes was not made by one.
                Some(Here::Folder) if below.len() + 1 < DEEPEST && self.enters(&name, &path) => {
                    let inner = Arc::new(folder.subfolder(&name, false)?);
                    below.push(name);
                    self.look(&inner, below, survey)?;
                    if !self.seen.contains(&path, EntryKind::Folder) {
                        survey.folders.push(below.clone());
                    }
                    below.pop();
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn takes_excluded(&self) -> bool {
        self.spec.delete.as_ref().is_some_and(|delete| delete.excluded)
    }

    /// Whether a file is one that mirrors make.
    fn counts(&self, name: &Name, path: &str) -> bool {
        let is_hidden = path.split('/').any(|part| part.starts_with('.'));
        !name.as_str().ends_with(PART_ENDING) && (!is_hidden || (self.spec.hidden && (self.is_known)(path)))
    }

    fn enters(&self, name: &Name, path: &str) -> bool {
        (self.spec.hidden || !name.is_hidden())
            && (self.takes_excluded() || self.spec.filter.allows_folder(path))
    }
}

impl Survey {
    /// Removes what is doomed, or moves it away, and then the folders that are empty by it. Gives what is gone; an error
    /// ends it, and what went before stays gone.
    pub fn remove(
        &self,
        target: &Arc<Folder>,
        backup: Option<&Path>,
    ) -> (Vec<String>, Result<(), SinkError>) {
        let mut gone = Vec::new();
        let mut remove = || -> Result<(), SinkError> {
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
                gone.push(doomed.path());
            }
            for folder in &self.folders {
                let Some((name, below)) = folder.split_last() else { continue };
                if let Some(above) = descend(target, below, false)? {
                    above.remove_folder(name)?;
                }
            }
            Ok(())
        };
        let result = remove();
        (gone, result)
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
