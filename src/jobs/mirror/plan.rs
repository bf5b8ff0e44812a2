//! What a dry run would pull, in little memory: records one behind the other, from a certain size on in a temporary file
//! without a name.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::sync::atomic::{AtomicU64, Ordering};

use serde::ser::{Error as _, SerializeSeq as _};
use serde::{Serialize, Serializer};

use super::found::{Planned, Why};

/// So many bytes stay in memory.
const MOST_BYTES: usize = 4 << 20;

/// Bytes of a record before its path: reason, size, length of the path.
const HEAD: usize = 1 + 8 + 8;

/// In place of an unknown size.
const NO_SIZE: u64 = u64::MAX;

/// See the module.
#[derive(Debug, Default)]
pub struct Plan {
    /// Whole records, after those in the file.
    recent: Vec<u8>,
    older: Older,
    new: u64,
}

/// Records that were moved out of memory.
#[derive(Debug, Default)]
enum Older {
    #[default]
    None,
    /// So many bytes of this file.
    In(File, u64),
    /// There is no room for temporary files: everything stays in memory.
    Impossible,
}

impl Plan {
    /// One more file.
    pub fn push(&mut self, planned: &Planned) {
        self.new += u64::from(planned.why == Why::New);
        let why = Why::ALL.iter().position(|why| *why == planned.why).and_then(|at| u8::try_from(at).ok());
        self.recent.push(why.unwrap_or_default());
        self.recent.extend_from_slice(&planned.size.unwrap_or(NO_SIZE).to_le_bytes());
        self.recent.extend_from_slice(&(planned.path.len() as u64).to_le_bytes());
        self.recent.extend_from_slice(planned.path.as_bytes());
        if self.recent.len() >= MOST_BYTES {
            self.move_out();
        }
    }

    /// How many of the files are not here in any version.
    pub fn new_files(&self) -> u64 {
        self.new
    }

    /// Whether nothing would be pulled.
    pub fn is_empty(&self) -> bool {
        self.recent.is_empty() && !matches!(self.older, Older::In(..))
    }

    /// The files, in the order in which they would be pulled.
    pub fn iter(&self) -> impl Iterator<Item = io::Result<Planned>> + '_ {
        let older = match &self.older {
            Older::In(file, length) => Some(FileRecords { file, at: 0, length: *length }),
            Older::None | Older::Impossible => None,
        };
        let mut recent = &self.recent[..];
        older.into_iter().flatten().chain(std::iter::from_fn(move || {
            let (planned, rest) = read(recent)?;
            recent = rest;
            Some(Ok(planned))
        }))
    }

    fn move_out(&mut self) {
        if matches!(self.older, Older::None) {
            self.older = temporary_file().map_or(Older::Impossible, |file| Older::In(file, 0));
        }
        let Older::In(file, length) = &mut self.older else { return };
        // What does not fit stays here; the next attempt begins at the same place.
        if file.write_all_at(&self.recent, *length).is_ok() {
            *length += self.recent.len() as u64;
            self.recent.clear();
        }
    }
}

impl Serialize for Plan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        for planned in self.iter() {
            list.serialize_element(&planned.map_err(S::Error::custom)?)?;
        }
        list.end()
    }
}

/// The first record in these bytes, and what follows it.
fn read(bytes: &[u8]) -> Option<(Planned, &[u8])> {
    let (why, bytes) = bytes.split_first()?;
    let (size, bytes) = bytes.split_first_chunk()?;
    let (length, bytes) = bytes.split_first_chunk()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let (path, rest) = bytes.split_at_checked(length)?;
    let size = Some(u64::from_le_bytes(*size)).filter(|size| *size != NO_SIZE);
    let why = *Why::ALL.get(usize::from(*why))?;
    Some((Planned { path: String::from_utf8_lossy(path).into_owned(), size, why }, rest))
}

/// Reads records from a file.
struct FileRecords<'a> {
    file: &'a File,
    at: u64,
    length: u64,
}

impl FileRecords<'_> {
    fn next_record(&mut self) -> io::Result<Planned> {
        let mut record = vec![0; HEAD];
        self.file.read_exact_at(&mut record, self.at)?;
        let length = record.last_chunk().map_or(0, |length| u64::from_le_bytes(*length));
        let length = usize::try_from(length).map_err(|_| io::ErrorKind::InvalidData)?;
        record.resize(HEAD + length, 0);
        self.file.read_exact_at(&mut record, self.at)?;
        self.at += record.len() as u64;
        let (planned, _) = read(&record).ok_or(io::ErrorKind::InvalidData)?;
        Ok(planned)
    }
}

impl Iterator for FileRecords<'_> {
    type Item = io::Result<Planned>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.length {
            return None;
        }
        let planned = self.next_record();
        if planned.is_err() {
            self.at = self.length;
        }
        Some(planned)
    }
}

/// A file that is gone when it is closed.
fn temporary_file() -> io::Result<File> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = format!("stroll-plan-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let path = std::env::temp_dir().join(name);
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_read_as_it_was_written_however_long_it_is() {
        for count in [0, 3, 200_000] {
            let planned = |number: usize| Planned {
                path: format!("folder-{}/frame-{number:09}.gwf", number % 7),
                size: (!number.is_multiple_of(3)).then_some(number as u64),
                why: Why::ALL[number % Why::ALL.len()],
            };
            let mut plan = Plan::default();
            (0..count).for_each(|number| plan.push(&planned(number)));
            assert!(plan.recent.len() < MOST_BYTES, "the rest is in a file");
            assert_eq!(matches!(plan.older, Older::In(..)), count > 100_000);
            let read: Vec<_> = plan.iter().collect::<io::Result<_>>().expect("it can be read");
            assert!(read.into_iter().eq((0..count).map(planned)));
            assert_eq!(
                (plan.is_empty(), plan.new_files()),
                (count == 0, count.div_ceil(Why::ALL.len()) as u64)
            );
        }
    }
}
