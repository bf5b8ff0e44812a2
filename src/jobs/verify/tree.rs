//! The way through a folder: its files are checked batch by batch, and what is remembered and not here is told at the end.

use std::sync::Arc;

use rayon::prelude::*;

use super::check::{File, Verdict, check};
use super::lists::{Lists, Singles};
use super::report::{Kind, Report};
use super::{Progress, Spec, VerifyError, find};
use crate::fetch::Name;
use crate::fetch::sink::sums::{ListName, Said};
use crate::fetch::sink::{Folder, Here, SinkError};
use crate::jobs::manifest::{Manifest, ManifestError, Record};
use crate::jobs::mirror::found::path_of;

/// So many files are looked at in one go.
const BATCH: usize = 1_024;

/// Deeper than any mirror goes.
const DEEPEST: usize = 128;

/// What is needed on the way.
pub(super) struct Tree<'a> {
    manifest: Option<&'a Manifest>,
    /// Lists are used.
    sums: bool,
    /// Files of which nothing is known are remembered as they are now, at this time.
    adopt: Option<i64>,
    lists: Lists,
    report: &'a mut Report,
    progress: Progress<'a>,
}

impl<'a> Tree<'a> {
    pub(super) fn new(
        spec: &Spec,
        manifest: Option<&'a Manifest>,
        report: &'a mut Report,
        progress: Progress<'a>,
    ) -> Self {
        // What a list knows better is not adopted.
        let sums = spec.sums || spec.adopt;
        if sums {
            report.checksums.get_or_insert_default();
        }
        let adopt = spec.adopt.then(|| jiff::Timestamp::now().as_second());
        Self { manifest, sums, adopt, lists: Lists::default(), report, progress }
    }

    /// Checks a folder, and those in it.
    pub(super) fn look(&mut self, folder: &Arc<Folder>, below: &mut Vec<Name>) -> Result<(), VerifyError> {
        let (names, foreign) = match folder.names_and_others() {
            Ok(all) => all,
            Err(error) if below.is_empty() => return Err(error.into()),
            Err(error) => {
                self.report.add(&path_of(below, ""), Kind::Unreadable, error.to_string());
                return Ok(());
            }
        };
        for _ in 0..foreign {
            let why = "a name with control characters, which no mirror or subscription gives";
            self.report.add(&path_of(below, "?"), Kind::Unknown, why);
        }
        let (before, singles) = if self.sums {
            // What a mirror left out on purpose is not missing: its manifest knows what should be here.
            self.lists.enter(folder, below, &names, self.manifest.is_none(), self.report)
        } else {
            (0, Singles::new())
        };
        let mut batch = Vec::new();
        for name in names {
            if let Some(file) = self.look_at(folder, below, name, &singles)? {
                batch.push(file);
            }
            if batch.len() >= BATCH {
                self.check(folder, std::mem::take(&mut batch))?;
            }
        }
        self.check(folder, batch)?;
        if self.sums {
            self.lists.leave(before);
        }
        Ok(())
    }

    /// Looks at one name: a file is to be checked, a folder is gone through.
    fn look_at(
        &mut self,
        folder: &Arc<Folder>,
        below: &mut Vec<Name>,
        name: Name,
        singles: &Singles,
    ) -> Result<Option<File>, VerifyError> {
        let path = path_of(below, name.as_str());
        let here = match folder.look(&name) {
            Ok(Some(here)) => here,
            // It was removed just now; what should be here is told at the end.
            Ok(None) => return Ok(None),
            Err(error) => {
                self.report.add(&path, Kind::Unreadable, error.to_string());
                return Ok(None);
            }
        };
        let record = self.record(&path)?;
        match here {
            Here::File(_) if name.is_temporary() => Ok(None),
            Here::File(_) => {
                let words = self.lists.words(folder, below, &name, singles);
                self.count(&name, &words);
                Ok(Some(File { path, name, record, words }))
            }
            Here::Folder => {
                if record.is_some() {
                    self.report.add(&path, Kind::Changed, "a folder is in the place of the file");
                }
                self.enter(folder, below, name, &path)?;
                Ok(None)
            }
            Here::Other(what) => {
                match record {
                    Some(_) => self.report.add(&path, Kind::Changed, format!("{what} is in its place")),
                    None => self.report.others += 1,
                }
                Ok(None)
            }
        }
    }

    fn enter(
        &mut self,
        folder: &Arc<Folder>,
        below: &mut Vec<Name>,
        name: Name,
        path: &str,
    ) -> Result<(), VerifyError> {
        if below.len() >= DEEPEST {
            self.report.add(path, Kind::Unreadable, "deeper than 128 folders");
            return Ok(());
        }
        match folder.subfolder(&name, false) {
            Ok(inner) => {
                below.push(name);
                let looked = self.look(&Arc::new(inner), below);
                below.pop();
                looked
            }
            Err(error) => {
                self.report.add(path, Kind::Unreadable, error.to_string());
                Ok(())
            }
        }
    }

    fn record(&self, path: &str) -> Result<Option<Record>, ManifestError> {
        let Some(manifest) = self.manifest else { return Ok(None) };
        // What was removed on purpose and is here again is not what was pulled.
        Ok(manifest.find(path)?.filter(|record| !record.flushed))
    }

    /// Which lists have the file.
    fn count(&mut self, name: &Name, words: &[super::lists::Word]) {
        let Some(checksums) = &mut self.report.checksums else { return };
        match words.iter().find(|word| matches!(word.said, Said::Digest(_))) {
            Some(word) => checksums.used(&word.list),
            None => checksums.files_without += u64::from(ListName::of(name.as_str()).is_none()),
        }
    }

    fn check(&mut self, folder: &Arc<Folder>, files: Vec<File>) -> Result<(), VerifyError> {
        let (adopt, progress) = (self.adopt, self.progress);
        let check = |file: &File| {
            let verdict = check(folder, file, adopt);
            progress(1);
            verdict
        };
        let verdicts: Vec<Verdict> = files.par_iter().map(check).collect();
        let mut adopted = Vec::new();
        for (file, verdict) in files.into_iter().zip(verdicts) {
            let is_list = self.sums && ListName::of(file.name.as_str()).is_some();
            match verdict {
                Verdict::Ok(bytes) => {
                    self.report.ok += 1;
                    self.report.bytes += bytes;
                }
                Verdict::Adopted(record) => {
                    self.report.adopted += 1;
                    self.report.bytes += record.size;
                    adopted.push((file.path, record));
                }
                // A list need not be in a list.
                Verdict::Not(Kind::Unknown, _) if is_list => {}
                Verdict::Not(kind, why) => self.report.add(&file.path, kind, why),
            }
        }
        if let Some(manifest) = self.manifest.filter(|_| !adopted.is_empty()) {
            manifest.write(adopted.iter().map(|(path, record)| (path.as_str(), Some(&**record))))?;
        }
        Ok(())
    }

    /// Tells what is remembered and not here. What is here was checked.
    pub(super) fn finish(&mut self, root: &Arc<Folder>) -> Result<(), VerifyError> {
        let Some(manifest) = self.manifest else { return Ok(()) };
        let report = &mut *self.report;
        manifest.for_each(|path, record| {
            if !record.flushed
                && let Some((kind, why)) = is_missing(root, path)
            {
                report.add(path, kind, why);
            }
            true
        })?;
        Ok(())
    }
}

/// What is to be told of a file that should be here, unless it is.
fn is_missing(root: &Arc<Folder>, path: &str) -> Option<(Kind, String)> {
    let names: Result<Vec<Name>, _> = path.split('/').map(Name::from_key).collect();
    let missing = || Some((Kind::Missing, "not here".to_owned()));
    let Ok(names) = names else { return missing() };
    match find(root, &names) {
        Ok(None) => missing(),
        Ok(Some((folder, name))) => match folder.look(&name) {
            Ok(None) => missing(),
            // An error was told on the way.
            Ok(Some(_)) | Err(_) => None,
        },
        Err(error @ SinkError::NotAFolder { .. }) => Some((Kind::Changed, error.to_string())),
        Err(error) => Some((Kind::Unreadable, error.to_string())),
    }
}
