//! Lists of checksums in the tree: which there are, what they say of a file, and which files of theirs are not here.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::sync::Arc;

use super::find;
use super::report::{Kind, Report};
use crate::fetch::Name;
use crate::fetch::sink::sums::{Line, Lines, ListName, Said, Sums, SumsError, SumsReader};
use crate::fetch::sink::{Algorithm, Folder, SinkError};
use crate::jobs::mirror::found::path_of;

/// How much is read at a time.
const READ_BYTES: usize = 64 << 10;

/// What a list says of a file, and which list.
pub(super) struct Word {
    pub(super) list: String,
    pub(super) said: Said,
}

/// Lists of the folders on the way down to the one that is looked at.
#[derive(Default)]
pub(super) struct Lists {
    /// Each with the depth of its folder, and its path.
    above: Vec<(usize, String, Sums)>,
    /// Files that lists have and that were reported as missing.
    missing: BTreeSet<Vec<u8>>,
}

/// Lists about one file each, in one folder: by the name of the file.
pub(super) type Singles = BTreeMap<String, Vec<(Name, Option<Algorithm>)>>;

impl Lists {
    /// Reads the lists of a folder. How many there were before is to be given back to [`leave`](Self::leave).
    pub(super) fn enter(
        &mut self,
        folder: &Arc<Folder>,
        below: &[Name],
        names: &[Name],
        tells_missing: bool,
        report: &mut Report,
    ) -> (usize, Singles) {
        let before = self.above.len();
        let mut singles = Singles::new();
        for name in names {
            let Some(list) = ListName::of(name.as_str()) else { continue };
            if !matches!(folder.replica(name), Ok(Some(_))) {
                continue;
            }
            let is_here = |about: &&str| names.binary_search_by(|name| name.as_str().cmp(about)).is_ok();
            if let Some(about) = list.about.filter(is_here) {
                singles.entry(about.to_owned()).or_default().push((name.clone(), list.algorithm));
                continue;
            }
            let path = path_of(below, name.as_str());
            match read(folder, name, list.algorithm) {
                Ok(Ok(sums)) if sums.is_empty() => {
                    let why = "no checksums of a known kind in it".to_owned();
                    report.checksums.get_or_insert_default().cannot_use(&path, why);
                }
                Ok(Ok(sums)) => {
                    self.above.push((below.len(), path, sums));
                    if tells_missing {
                        self.tell_missing(folder, below, name, list.algorithm, report);
                    }
                }
                Ok(Err(error)) => cannot_use(report, &path, &error.to_string()),
                Err(error) => cannot_use(report, &path, &error.to_string()),
            }
        }
        (before, singles)
    }

    /// Forgets the lists of a folder that is left.
    pub(super) fn leave(&mut self, before: usize) {
        self.above.truncate(before);
    }

    /// What lists say of a file.
    pub(super) fn words(&self, folder: &Folder, below: &[Name], name: &Name, singles: &Singles) -> Vec<Word> {
        let mut words = Vec::new();
        for (depth, list, sums) in &self.above {
            let said = sums.said_of(&bytes_of(below.get(*depth..).unwrap_or_default(), name));
            words.push(Word { list: list.clone(), said });
        }
        for (list, algorithm) in singles.get(name.as_str()).into_iter().flatten() {
            if let Ok(Ok(sums)) = read(folder, list, *algorithm) {
                words.push(Word {
                    list: path_of(below, list.as_str()),
                    said: sums.said_of_only(&name.to_bytes()),
                });
            }
        }
        words.retain(|word| word.said != Said::Nothing);
        words
    }

    /// Reports the files of a list that are not here. It is read again for that: names are not kept in memory.
    fn tell_missing(
        &mut self,
        folder: &Arc<Folder>,
        below: &[Name],
        name: &Name,
        algorithm: Option<Algorithm>,
        report: &mut Report,
    ) {
        let mut with = |line: Line<'_>| {
            if let Line::Digest { path: Some(path), .. } = line
                && let Some(names) = names_of(path)
                && !is_here(folder, &names)
            {
                let full = [bytes_of(below, name), vec![0], path.to_vec()].concat();
                let (list, path) = (path_of(below, name.as_str()), joined(below, &names));
                if self.missing.insert(full) {
                    report.add(&path, Kind::Missing, format!("not here, but {list} has it"));
                }
            }
            Ok(())
        };
        let mut lines = Lines::new(algorithm);
        let read = each_piece(folder, name, |piece| lines.push(piece, &mut with));
        if matches!(read, Ok(Ok(()))) {
            // It was read before without an error.
            let _ = lines.finish(&mut with);
        }
    }
}

fn cannot_use(report: &mut Report, path: &str, why: &str) {
    report.checksums.get_or_insert_default().cannot_use(path, why.to_owned());
    report.add(path, Kind::Unreadable, format!("this list of checksums cannot be used: {why}"));
}

fn joined(below: &[Name], names: &[Name]) -> String {
    let Some((name, inside)) = names.split_last() else { return String::new() };
    path_of(&[below, inside].concat(), name.as_str())
}

/// The path of a file below the folder of a list, as the list writes it.
fn bytes_of(below: &[Name], name: &Name) -> Vec<u8> {
    let mut path = Vec::new();
    for folder in below {
        path.extend(folder.to_bytes());
        path.push(b'/');
    }
    path.extend(name.to_bytes());
    path
}

/// The names in a path; `None` if it leads out of the folder.
fn names_of(path: &[u8]) -> Option<Vec<Name>> {
    path.split(|byte| *byte == b'/').map(|part| Name::from_bytes(part).ok()).collect()
}

/// What cannot be looked at may be here.
fn is_here(folder: &Arc<Folder>, path: &[Name]) -> bool {
    match find(folder, path) {
        Ok(Some((folder, name))) => !matches!(folder.look(&name), Ok(None)),
        Ok(None) => false,
        Err(_) => true,
    }
}

fn read(
    folder: &Folder,
    name: &Name,
    algorithm: Option<Algorithm>,
) -> Result<Result<Sums, SumsError>, SinkError> {
    let mut reader = SumsReader::new(algorithm);
    Ok(match each_piece(folder, name, |piece| reader.push(piece))? {
        Ok(()) => reader.finish(),
        Err(error) => Err(error),
    })
}

fn each_piece(
    folder: &Folder,
    name: &Name,
    mut with: impl FnMut(&[u8]) -> Result<(), SumsError>,
) -> Result<Result<(), SumsError>, SinkError> {
    let mut file = folder.read(name)?;
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(Ok(())),
            Ok(len) => {
                if let Err(error) = with(buffer.get(..len).unwrap_or_default()) {
                    return Ok(Err(error));
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => {
                let path = folder.path().join(name.to_os_string());
                return Err(SinkError::from_io(&path, "read the file", &error));
            }
        }
    }
}
