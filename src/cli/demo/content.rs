//! What the lab source holds: a stream of frames and a small tree, all of it noise that can be computed again. `source`
//! writes it, `verify` compares replicas with it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at};

/// Where the stream is, below the source and in every replica.
pub(super) const STREAM: &str = "stream";

/// Where the tree is.
pub(super) const TREE: &str = "tree";

/// Where frames are written before they appear.
const MAKING: &str = "making";

/// Frames a second.
const FRAMES_PER_SEC: u32 = 2;

const TREE_FOLDERS: [&str; 3] = ["calibration", "calibration/2026", "notes"];
const TREE_FILES: u64 = 20;

/// The content, by its seed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Content {
    seed: u64,
    frame_bytes: usize,
}

impl Content {
    /// A stream of so many bytes a second.
    pub(super) fn new(seed: u64, bytes_per_sec: u64) -> Self {
        let frame_bytes = bytes_per_sec / u64::from(FRAMES_PER_SEC);
        Self { seed, frame_bytes: usize::try_from(frame_bytes).unwrap_or(usize::MAX) }
    }

    /// The frame with this number.
    pub(super) fn frame(&self, number: u64) -> Vec<u8> {
        self.noise(&frame_name(number), self.frame_bytes)
    }

    /// The files of the tree: their paths below it, and what is in them.
    pub(super) fn tree(&self) -> impl Iterator<Item = (PathBuf, Vec<u8>)> + '_ {
        (1..=TREE_FILES).zip(tree_paths()).map(|(number, path)| {
            // Of one byte up to some ten thousand.
            let length = 1 + (number * number * 37) % 12_000;
            let bytes = self.noise(&path, usize::try_from(length).unwrap_or(1));
            (PathBuf::from(path), bytes)
        })
    }

    fn noise(&self, name: &str, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.seed.to_be_bytes()).update(name.as_bytes());
        hasher.finalize_xof().fill(&mut bytes);
        bytes
    }

    /// Writes the tree and makes room for the stream, below this folder. It is served from [`served`].
    pub(super) fn lay_out(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder.join(MAKING))?;
        let served = served(folder);
        fs::create_dir_all(served.join(STREAM))?;
        for name in TREE_FOLDERS {
            fs::create_dir_all(served.join(TREE).join(name))?;
        }
        self.tree().try_for_each(|(path, bytes)| fs::write(served.join(TREE).join(path), bytes))
    }

    /// Writes a frame where nobody looks, then lets it appear.
    fn publish(&self, folder: &Path, number: u64) -> io::Result<()> {
        let name = frame_name(number);
        let unfinished = folder.join(MAKING).join(&name);
        fs::write(&unfinished, self.frame(number))?;
        fs::rename(unfinished, served(folder).join(STREAM).join(name))
    }
}

/// What of the folder the servers show.
pub(super) fn served(folder: &Path) -> PathBuf {
    folder.join("served")
}

/// The name of the frame with this number; numbers begin with 1.
pub(super) fn frame_name(number: u64) -> String {
    format!("frame-{number:06}.gwf")
}

/// The paths of the tree's files, below it.
pub(super) fn tree_paths() -> impl Iterator<Item = String> {
    let folders = TREE_FOLDERS.iter().cycle();
    (1..=TREE_FILES).zip(folders).map(|(number, folder)| format!("{folder}/file-{number:02}.dat"))
}

/// When each frame appeared, the first one first. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Produced {
    times: Arc<Mutex<Vec<Instant>>>,
}

impl Produced {
    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.times().len() as u64
    }

    /// When each of them appeared.
    pub(super) fn times(&self) -> Vec<Instant> {
        self.times.lock().expect("nobody panics with the times in hand").clone()
    }

    fn push(&self, time: Instant) {
        self.times.lock().expect("nobody panics with the times in hand").push(time);
    }
}

/// Lets frames appear for so long. Whoever drops this early stops the stream.
pub(super) async fn produce(
    content: Content,
    folder: &Path,
    span: Duration,
    produced: &Produced,
) -> io::Result<()> {
    let begun = Instant::now();
    let mut ticks = interval_at(begun, Duration::from_secs(1) / FRAMES_PER_SEC);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let end = begun + span;
    loop {
        let due = ticks.tick().await;
        if due >= end {
            return Ok(());
        }
        let (number, folder) = (produced.count() + 1, folder.to_owned());
        tokio::task::spawn_blocking(move || content.publish(&folder, number)).await??;
        produced.push(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_the_same_each_time_and_differs_by_seed_and_name() {
        let content = Content::new(7, 650_000);
        assert_eq!(content.frame(1).len(), 325_000);
        assert_eq!(content.frame(1), Content::new(7, 650_000).frame(1));
        assert_ne!(content.frame(1), content.frame(2));
        assert_ne!(content.frame(1), Content::new(8, 650_000).frame(1));
        let tree: Vec<_> = content.tree().collect();
        assert_eq!(tree.len(), 20);
        assert!(tree.iter().all(|(_, bytes)| !bytes.is_empty()));
    }

    #[tokio::test]
    async fn frames_appear_whole_and_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let (content, produced) = (Content::new(1, 2_000), Produced::default());
        content.lay_out(folder.path()).unwrap();
        produce(content, folder.path(), Duration::from_millis(600), &produced).await.unwrap();
        assert_eq!(produced.count(), 2);
        let stream = served(folder.path()).join(STREAM);
        for number in 1..=2 {
            assert_eq!(fs::read(stream.join(frame_name(number))).unwrap(), content.frame(number));
        }
        assert_eq!(fs::read_dir(folder.path().join(MAKING)).unwrap().count(), 0);
    }
}
