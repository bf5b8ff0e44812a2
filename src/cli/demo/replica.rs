//! Replicas, as the demo looks at them from outside: when frames arrive while it runs, and byte by byte when it is over.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;

use super::content::{Content, STREAM, TREE, frame_name};

/// Which frames have come to one replica, and how late.
#[derive(Debug)]
pub(super) struct Arrivals {
    stream: PathBuf,
    /// By number, the first one first.
    is_here: Vec<bool>,
    longest_lag: Duration,
}

impl Arrivals {
    /// For the replica in this folder.
    pub(super) fn new(replica: &Path) -> Self {
        Self { stream: replica.join(STREAM), is_here: Vec::new(), longest_lag: Duration::ZERO }
    }

    /// Looks for frames that were not here before. A file bears its name only when it is whole.
    pub(super) fn look(&mut self, produced: &[Instant], now: Instant) {
        self.is_here.resize(produced.len(), false);
        for (number, (is_here, appeared)) in (1..).zip(self.is_here.iter_mut().zip(produced)) {
            if !*is_here {
                let here_for = age_of_name(&self.stream.join(frame_name(number)));
                *is_here = here_for.is_some();
                let missing = now.saturating_duration_since(*appeared);
                let missing = missing.saturating_sub(here_for.unwrap_or_default());
                self.longest_lag = self.longest_lag.max(missing);
            }
        }
    }

    /// How many are here.
    pub(super) fn count(&self) -> u64 {
        self.is_here.iter().filter(|is_here| **is_here).count() as u64
    }

    /// Whether all are here.
    pub(super) fn is_complete(&self) -> bool {
        self.is_here.iter().all(|is_here| *is_here)
    }

    /// How long the oldest frame that is not here has been missing.
    pub(super) fn lag(&self, produced: &[Instant], now: Instant) -> Duration {
        let missing = self.is_here.iter().zip(produced).find(|(is_here, _)| !**is_here);
        missing.map_or(Duration::ZERO, |(_, appeared)| now.saturating_duration_since(*appeared))
    }

    /// The longest time that any frame was missing, as seen so far.
    pub(super) fn longest_lag(&self) -> Duration {
        self.longest_lag
    }
}

/// For how long a file has had its name; `None` if there is none. What changes of a file last is its name, and its time.
fn age_of_name(path: &Path) -> Option<Duration> {
    let about = fs::symlink_metadata(path).ok()?;
    let changed = jiff::Timestamp::new(about.ctime(), i32::try_from(about.ctime_nsec()).ok()?).ok()?;
    // By another clock, which may have been set.
    Some(Duration::try_from(jiff::Timestamp::now().duration_since(changed)).unwrap_or_default())
}

/// How a replica compares with its original.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Comparison {
    /// Files that are the same, byte by byte.
    pub(super) same: u64,
    /// Files that are not here.
    pub(super) missing: Vec<String>,
    /// Files that are here and are not the same, or have no original.
    pub(super) wrong: Vec<String>,
}

impl Comparison {
    /// Compares a replica with so many frames of the stream, and with the tree if it is to have that.
    pub(super) fn of(replica: &Path, content: &Content, frames: u64, has_tree: bool) -> io::Result<Self> {
        let mut comparison = Self::default();
        let mut wanted = Vec::new();
        for number in 1..=frames {
            let path = Path::new(STREAM).join(frame_name(number));
            comparison.compare(replica, &path, &content.frame(number))?;
            wanted.push(path);
        }
        for (path, bytes) in content.tree().take_while(|_| has_tree) {
            let path = Path::new(TREE).join(path);
            comparison.compare(replica, &path, &bytes)?;
            wanted.push(path);
        }
        let mut found = Vec::new();
        files(replica, Path::new(""), &mut found)?;
        let strangers = found.iter().filter(|path| !wanted.contains(path));
        comparison.wrong.extend(strangers.map(|path| path.display().to_string()));
        Ok(comparison)
    }

    fn compare(&mut self, replica: &Path, path: &Path, original: &[u8]) -> io::Result<()> {
        match fs::read(replica.join(path)) {
            Ok(bytes) if bytes == original => self.same += 1,
            Ok(_) => self.wrong.push(path.display().to_string()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.missing.push(path.display().to_string());
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// What is not right, in words; `None` if all is. What is missing may be so where the link is too small.
    pub(super) fn complaint(&self, may_miss: bool) -> Option<String> {
        let tell = |what: &str, files: &[String]| {
            files.first().map(|first| format!("{} {what}, such as {first}", files.len()))
        };
        let missing = tell("files are missing", &self.missing).filter(|_| !may_miss);
        let complaints: Vec<_> = missing.into_iter().chain(tell("files are wrong", &self.wrong)).collect();
        (!complaints.is_empty()).then(|| complaints.join(" and "))
    }
}

/// All files below the folder that are finished.
fn files(root: &Path, below: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    let entries = match fs::read_dir(root.join(below)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let (path, name) = (below.join(entry.file_name()), entry.file_name());
        let name = name.to_string_lossy();
        if entry.file_type()?.is_dir() {
            files(root, &path, found)?;
        } else if !name.starts_with('.') && !name.ends_with(".part") {
            found.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replica(content: &Content, frames: u64) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: PathBuf, bytes: &[u8]| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        };
        for number in 1..=frames {
            write(folder.path().join(STREAM).join(frame_name(number)), &content.frame(number));
        }
        for (path, bytes) in content.tree() {
            write(folder.path().join(TREE).join(path), &bytes);
        }
        folder
    }

    #[test]
    fn a_true_replica_is_the_same() {
        let content = Content::new(1, 1_000);
        let folder = replica(&content, 3);
        fs::write(folder.path().join("stream/.journal"), "").unwrap();
        fs::write(folder.path().join("stream/frame-000004.gwf.part"), "").unwrap();
        let comparison = Comparison::of(folder.path(), &content, 3, true).unwrap();
        assert_eq!((comparison.same, comparison.complaint(false)), (23, None));
    }

    #[test]
    fn a_flipped_bit_a_lost_file_and_a_stranger_are_found() {
        let content = Content::new(1, 1_000);
        let folder = replica(&content, 3);
        let second = folder.path().join("stream/frame-000002.gwf");
        let mut bytes = fs::read(&second).unwrap();
        bytes[400] ^= 1;
        fs::write(second, bytes).unwrap();
        fs::remove_file(folder.path().join("stream/frame-000003.gwf")).unwrap();
        fs::write(folder.path().join("tree/notes/stranger"), "").unwrap();
        let comparison = Comparison::of(folder.path(), &content, 3, true).unwrap();
        assert_eq!(comparison.missing, ["stream/frame-000003.gwf"]);
        assert_eq!(comparison.wrong, ["stream/frame-000002.gwf", "tree/notes/stranger"]);
        assert!(comparison.complaint(false).unwrap().starts_with("1 files are missing"));
        assert!(comparison.complaint(true).unwrap().starts_with("2 files are wrong"));
    }

    #[test]
    fn nothing_at_all_is_everything_missing() {
        let content = Content::new(1, 1_000);
        let folder = tempfile::tempdir().unwrap();
        let comparison = Comparison::of(&folder.path().join("none"), &content, 2, false).unwrap();
        assert_eq!(comparison.missing.len(), 2);
        assert_eq!(comparison.complaint(true), None);
    }

    #[tokio::test(start_paused = true)]
    async fn arrivals_tell_how_late_frames_are() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(STREAM)).unwrap();
        let mut arrivals = Arrivals::new(folder.path());
        let begun = Instant::now();
        let at = |minutes| begun + Duration::from_mins(minutes);
        let produced = [at(0), at(1), at(2)];
        fs::write(folder.path().join(STREAM).join(frame_name(1)), "").unwrap();
        arrivals.look(&produced, at(2));
        assert_eq!((arrivals.count(), arrivals.is_complete()), (1, false));
        assert_eq!(arrivals.lag(&produced, at(4)), Duration::from_mins(3));
        for number in 2..=3 {
            fs::write(folder.path().join(STREAM).join(frame_name(number)), "").unwrap();
        }
        arrivals.look(&produced, at(5));
        assert!(arrivals.is_complete());
        assert_eq!(arrivals.lag(&produced, at(9)), Duration::ZERO);
        let longest = arrivals.longest_lag();
        assert!(longest > Duration::from_mins(3) && longest <= Duration::from_mins(4), "{longest:?}");
    }
}
