//! Confirms that files missing from the listings are missing at the source, too. Used by the mirror before it removes replicas.
//!
//! A listing may be cut off silently. Therefore each candidate's own URL is asked for, inside slots: only "not found" removes. The
//! number of questions is bounded by `--max-delete`. Folders without any such file are asked for as well.

use std::collections::{BTreeMap, VecDeque};

use super::delete::Doomed;
use super::found::{Found, Trouble, What, path_of};
use crate::fetch::{Address, Fault, LinkTarget, Name};
use crate::jobs::pull::{End, Feed, Moment, Next, Task};

/// Something that is here and in no listing.
#[derive(Debug)]
enum Candidate {
    File(Doomed),
    Folder(Vec<Name>),
}

/// Asks for every candidate.
#[derive(Debug)]
pub(super) struct Confirm {
    root: Address,
    waiting: VecDeque<Candidate>,
    asked: BTreeMap<usize, Candidate>,
    next_id: usize,
    /// Files that are confirmed as missing at the source.
    pub(super) gone: Vec<Doomed>,
    /// Folders that are.
    pub(super) folders_gone: Vec<Vec<Name>>,
    /// Files that are still at the source, or of unknown state.
    pub(super) kept: Vec<String>,
    /// Number of files and folders that exist and are not listed, by the folder that should list them.
    unlisted: BTreeMap<String, u64>,
    unknown: Vec<(String, Fault)>,
}

impl Confirm {
    pub(super) fn new(root: Address, files: Vec<Doomed>, folders: Vec<Vec<Name>>) -> Self {
        let files = files.into_iter().map(Candidate::File);
        Self {
            root,
            waiting: files.chain(folders.into_iter().map(Candidate::Folder)).collect(),
            asked: BTreeMap::new(),
            next_id: 0,
            gone: Vec::new(),
            folders_gone: Vec::new(),
            kept: Vec::new(),
            unlisted: BTreeMap::new(),
            unknown: Vec::new(),
        }
    }

    /// True if every candidate was asked for.
    pub(super) fn is_whole(&self) -> bool {
        self.waiting.is_empty() && self.asked.is_empty()
    }

    /// Adds what was found to the result of the walk: listings that do not show what exists, and questions without an answer.
    pub(super) fn tell(&mut self, found: &mut Found) {
        for (path, count) in std::mem::take(&mut self.unlisted) {
            found.add(Trouble { path, what: What::Unlisted(count) });
        }
        for (path, fault) in std::mem::take(&mut self.unknown) {
            found.add(Trouble { path, what: What::Unconfirmed(fault) });
        }
        found.is_whole &= self.is_whole();
        found.is_complete &= self.is_whole() && found.counts.failed == 0;
    }

    fn task_for(&self, candidate: &Candidate) -> Task {
        let folder =
            |below: &[Name]| below.iter().fold(self.root.clone(), |folder, name| folder.folder(name));
        match candidate {
            Candidate::File(doomed) => Task::Probe(folder(&doomed.below).file(&doomed.name)),
            Candidate::Folder(below) => match below.split_last() {
                Some((name, above)) => Task::Resolve(folder(above).file(name)),
                None => Task::Resolve(self.root.clone()),
            },
        }
    }

    fn is_unlisted(&mut self, below: &[Name]) {
        *self.unlisted.entry(path_of(below, "")).or_default() += 1;
    }
}

impl Feed for Confirm {
    fn next(&mut self, _: Moment) -> Next {
        let Some(candidate) = self.waiting.pop_front() else {
            return if self.asked.is_empty() { Next::Done } else { Next::Wait(None) };
        };
        let task = self.task_for(&candidate);
        self.next_id += 1;
        self.asked.insert(self.next_id, candidate);
        Next::Task(self.next_id, task)
    }

    fn ended(&mut self, id: usize, end: End, _: Moment) {
        let Some(candidate) = self.asked.remove(&id) else { return };
        match (candidate, end) {
            (Candidate::File(doomed), End::Probed(Ok(false))) => self.gone.push(doomed),
            (Candidate::File(doomed), end) => {
                self.kept.push(doomed.path());
                match end {
                    End::Probed(Err(fault)) => self.unknown.push((doomed.path(), fault)),
                    _ => self.is_unlisted(&doomed.below),
                }
            }
            (Candidate::Folder(below), End::Resolved(Ok(LinkTarget::Missing))) => {
                self.folders_gone.push(below);
            }
            (Candidate::Folder(below), End::Resolved(Err(fault))) => {
                self.unknown.push((path_of(&below, ""), fault));
            }
            (Candidate::Folder(below), _) => {
                self.is_unlisted(below.split_last().map_or(&[], |(_, above)| above));
            }
        }
    }

    fn outlook(&self) -> Option<Address> {
        self.waiting.front().map(|candidate| self.task_for(candidate).address().clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Time;

    const NOW: Moment = Moment { now: Time::ZERO, wall_s: 0 };

    fn doomed(path: &str) -> Doomed {
        let mut names: Vec<Name> = path.split('/').map(|name| Name::new(name).expect(name)).collect();
        let name = names.pop().expect("a name");
        Doomed { below: names, name, is_certain: false }
    }

    #[test]
    fn only_what_the_source_calls_missing_is_gone_and_the_rest_is_told_by_folder() {
        let files = ["d/a", "d/b", "d/c", "e"].map(doomed).to_vec();
        let folder = vec![Name::new("f").expect("a name")];
        let root = Address::parse("http://h/data/").expect("an address").0;
        let mut confirm = Confirm::new(root, files, vec![folder.clone()]);
        while let Next::Task(id, task) = confirm.next(NOW) {
            let end = match String::from_utf8(task.address().path()).expect("text").as_str() {
                "/data/d/a" => End::Probed(Ok(false)),
                "/data/d/b" | "/data/d/c" => End::Probed(Ok(true)),
                "/data/e" => End::Probed(Err(Fault::Changed)),
                "/data/f" => End::Resolved(Ok(LinkTarget::Missing)),
                other => panic!("{other}"),
            };
            confirm.ended(id, end, NOW);
        }
        let paths: Vec<String> = confirm.gone.iter().map(Doomed::path).collect();
        assert_eq!((paths, &confirm.folders_gone), (vec!["d/a".to_owned()], &vec![folder]));
        assert_eq!(confirm.kept, ["d/b", "d/c", "e"]);
        let mut found = Found { is_whole: true, is_complete: true, ..Found::default() };
        confirm.tell(&mut found);
        let told: Vec<String> =
            found.troubles.iter().map(|trouble| format!("{}: {}", trouble.path, trouble.what)).collect();
        assert_eq!(told[0], "d/: its listing is not complete: it does not show 2 files that exist");
        assert!(told[1].starts_with("e: not removed"), "{told:?}");
        assert_eq!((told.len(), found.is_whole, found.is_complete), (2, true, false));
    }

    #[test]
    fn questions_that_were_not_answered_keep_everything() {
        let root = Address::parse("http://h/data/").expect("an address").0;
        let mut confirm = Confirm::new(root, vec![doomed("a")], Vec::new());
        assert!(matches!(confirm.next(NOW), Next::Task(..)));
        let mut found = Found { is_whole: true, is_complete: true, ..Found::default() };
        confirm.tell(&mut found);
        assert!(confirm.gone.is_empty() && !found.is_complete && !found.is_whole);
    }
}
