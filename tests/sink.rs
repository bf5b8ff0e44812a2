//! Files that are never corrupt: killed at any moment, full disks, planted links, two processes on one file.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::ops::Range;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt as _;
use stroll::base::Rng;
use stroll::fetch::sink::{
    Algorithm, Digest, Disk, Finish, Finished, Folder, Hasher, JournalPlace, Part, Ranges, SinkError,
};
use stroll::fetch::{Name, Version};

/// Says to a child of these tests, which is this very program, what it is to do.
const CHILD: &str = "STROLL_SINK_CHILD";
/// Says in which folder.
const PLACE: &str = "STROLL_SINK_PLACE";

fn name(name: &str) -> Name {
    Name::new(name).unwrap()
}

/// The bytes of a file at the source: every version has its own.
fn content(version: u64, range: Range<u64>) -> Bytes {
    let (first, last) = (range.start / 8, range.end.div_ceil(8));
    let mut bytes = Vec::with_capacity(usize::try_from(8 * (last - first)).unwrap());
    for at in first..last {
        let word = (at ^ (version << 40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bytes.extend_from_slice(&(word ^ (word >> 29)).to_le_bytes());
    }
    let start = usize::try_from(range.start - 8 * first).unwrap();
    let len = usize::try_from(range.end - range.start).unwrap();
    Bytes::from(bytes).slice(start..start + len)
}

fn version(number: u64, size: u64) -> Version {
    Version { size: Some(size), etag: Some(format!("\"{number}\"")), ..Version::default() }
}

fn sha256(bytes: &[u8]) -> Digest {
    let mut hasher = Hasher::new(Algorithm::Sha256);
    hasher.update(bytes);
    hasher.finish()
}

/// A folder to pull into, and a state folder beside it.
struct Lab {
    place: tempfile::TempDir,
    disk: Disk,
}

impl Lab {
    fn new() -> Self {
        Self::at(tempfile::tempdir().unwrap())
    }

    /// Where files are in memory.
    fn in_memory() -> Self {
        Self::at(tempfile::tempdir_in("/dev/shm").unwrap())
    }

    fn at(place: tempfile::TempDir) -> Self {
        fs::create_dir(place.path().join("data")).unwrap();
        Self { place, disk: Disk::start() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join("data").join(name)
    }

    fn state(&self) -> PathBuf {
        self.place.path().join("state")
    }

    fn folder(&self) -> Arc<Folder> {
        Arc::new(Folder::open(&self.place.path().join("data"), false).unwrap())
    }

    async fn open(&self, file: &str) -> Result<Part, SinkError> {
        let journal = JournalPlace::for_file(&self.state(), &self.path(file));
        Part::open(&self.disk, self.folder(), name(file), Some(journal)).await
    }

    /// A part of which these bytes are there and safe.
    async fn begun(&self, file: &str, version: Version, bytes: &'static [u8]) -> Part {
        let mut part = self.open(file).await.unwrap();
        part.begin(version).await.unwrap();
        part.write(0, Bytes::from_static(bytes)).await.unwrap();
        part.checkpoint().await.unwrap();
        part
    }

    /// The names in the target folder, in order.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.place.path().join("data")).unwrap();
        let mut names =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>();
        names.sort();
        names
    }

    fn journals(&self) -> usize {
        fs::read_dir(self.state()).map_or(0, Iterator::count)
    }
}

async fn finish(part: Part, wish: Finish) -> Result<Finished, SinkError> {
    part.finish(wish).await?.await
}

#[tokio::test]
async fn a_file_gets_its_name_only_when_it_is_complete() {
    let lab = Lab::new();
    let mut part = lab.open("x").await.unwrap();
    part.begin(version(1, 300_000)).await.unwrap();
    // Out of order, with a checkpoint in between.
    for (start, end) in [(200_000, 300_000), (0, 100_000)] {
        part.write(start, content(1, start..end)).await.unwrap();
    }
    part.checkpoint().await.unwrap();
    assert_eq!(lab.names(), ["x.stroll.part"]);
    assert!(part.have().missing(300_000).eq(std::iter::once(100_000..200_000)));
    part.write(100_000, content(1, 100_000..200_000)).await.unwrap();
    let whole = content(1, 0..300_000);
    let Digest::Sha256(digest) = sha256(&whole) else { panic!("another digest") };
    let wish = Finish {
        expected: Some(sha256(&whole)),
        modified_s: Some(1_000_000_000),
        total: Some(300_000),
        want_sha256: true,
    };
    let finished = finish(part, wish).await.unwrap();
    assert_eq!(finished, Finished { size: 300_000, sha256: Some(digest) });
    assert_eq!(fs::read(lab.path("x")).unwrap(), whole);
    assert_eq!(fs::metadata(lab.path("x")).unwrap().mtime(), 1_000_000_000);
    assert_eq!(lab.names(), ["x"]);
    assert_eq!(lab.journals(), 0);
}

#[tokio::test]
async fn what_a_checkpoint_saw_is_found_again_and_the_rest_is_not_believed() {
    let lab = Lab::new();
    let mut part = lab.begun("x", version(1, 100), b"hello").await;
    part.write(5, Bytes::from_static(b" world")).await.unwrap();
    part.tail(1).await.unwrap();
    drop(part);
    assert_eq!(fs::read(lab.path("x.stroll.part")).unwrap(), b"hello world");
    let part = lab.open("x").await.unwrap();
    assert_eq!(part.version(), Some(&version(1, 100)));
    assert!(part.have().covers(5));
    assert_eq!(&part.tail(3).await.unwrap()[..], b"llo");
    assert_eq!(fs::read(lab.path("x.stroll.part")).unwrap(), b"hello");
}

/// No disk to wait for: bytes are there when `write` returns, and everything else is as on a disk.
#[tokio::test]
async fn a_large_file_in_memory_is_written_at_once() {
    const SIZE: u64 = 3 << 20;
    let lab = Lab::in_memory();
    let mut part = lab.open("f").await.unwrap();
    part.begin(version(1, SIZE)).await.unwrap();
    part.write(0, content(1, 0..1_000_000)).await.unwrap();
    assert!(fs::read(lab.path("f.stroll.part")).unwrap() == content(1, 0..1_000_000));
    part.checkpoint().await.unwrap();
    part.write(2_000_000, content(1, 2_000_000..2_000_010)).await.unwrap();
    drop(part);
    // What came after the checkpoint is not believed.
    let mut part = lab.open("f").await.unwrap();
    assert!(part.have().covers(1_000_000), "{:?}", part.have());
    part.begin(version(1, SIZE)).await.unwrap();
    part.write(1_000_000, content(1, 1_000_000..SIZE)).await.unwrap();
    assert!(matches!(part.write(SIZE, content(1, 0..1)).await, Err(SinkError::SizeDiffers { .. })));
    let expected = Some(sha256(&content(1, 0..SIZE)));
    let finished = finish(part, Finish { expected, ..Finish::default() }).await.unwrap();
    assert_eq!(finished.size, SIZE);
    assert!(fs::read(lab.path("f")).unwrap() == content(1, 0..SIZE));
    // Digests are not made on the thread that reads the source.
    let mut part = lab.open("g").await.unwrap();
    part.hash_along(&[Algorithm::Sha256]);
    part.begin(version(1, SIZE)).await.unwrap();
    part.write(0, content(1, 0..SIZE)).await.unwrap();
    finish(part, Finish { expected, ..Finish::default() }).await.unwrap();
}

#[tokio::test]
async fn bytes_of_another_version_are_dropped() {
    let lab = Lab::new();
    drop(lab.begun("x", version(1, 5), b"he").await);
    let mut part = lab.open("x").await.unwrap();
    part.begin(version(2, 5)).await.unwrap();
    assert!(part.have().is_empty());
    assert_eq!(fs::metadata(lab.path("x.stroll.part")).unwrap().len(), 0);
    // Killed here, and the source went back to the first version: these are not its bytes.
    part.write(0, Bytes::from_static(b"XXXX")).await.unwrap();
    part.tail(1).await.unwrap();
    drop(part);
    let mut part = lab.open("x").await.unwrap();
    assert!(part.have().is_empty() && part.version().is_none());
    part.begin(version(1, 5)).await.unwrap();
    part.write(0, Bytes::from_static(b"HELLO")).await.unwrap();
    finish(part, Finish::default()).await.unwrap();
    assert_eq!(fs::read(lab.path("x")).unwrap(), b"HELLO");
}

#[tokio::test]
async fn bytes_of_an_unknown_version_are_kept_only_after_a_comparison() {
    let lab = Lab::new();
    let unknown = Version { size: Some(5), ..Version::default() };
    for (compared, kept) in [(true, 2), (false, 0)] {
        drop(lab.begun("x", unknown.clone(), b"he").await);
        let mut part = lab.open("x").await.unwrap();
        if compared {
            part.begin_compared(unknown.clone()).await.unwrap();
        } else {
            part.begin(unknown.clone()).await.unwrap();
        }
        assert_eq!(part.have().bytes(), kept);
        part.discard().await.unwrap();
    }
    // A comparison cannot make up for a contradiction.
    drop(lab.begun("x", Version::default(), b"hello").await);
    let mut part = lab.open("x").await.unwrap();
    part.begin_compared(Version { size: Some(3), ..Version::default() }).await.unwrap();
    assert!(part.have().is_empty());
}

#[tokio::test]
async fn a_part_that_is_not_the_one_remembered_starts_anew() {
    let lab = Lab::new();
    for tamper in ["shortened", "replaced"] {
        drop(lab.begun("x", version(1, 100), b"hello").await);
        if tamper == "shortened" {
            fs::File::options().write(true).open(lab.path("x.stroll.part")).unwrap().set_len(3).unwrap();
        } else {
            fs::write(lab.path("other"), b"jello").unwrap();
            fs::rename(lab.path("other"), lab.path("x.stroll.part")).unwrap();
        }
        let part = lab.open("x").await.unwrap();
        assert!(part.have().is_empty(), "{tamper}");
        part.discard().await.unwrap();
    }
}

#[tokio::test]
async fn a_restart_that_nobody_waited_for_drops_the_bytes_all_the_same() {
    let lab = Lab::new();
    let mut part = lab.begun("x", version(1, 5), b"hello").await;
    // Given up at its first wait.
    assert!(part.restart().now_or_never().is_none_or(|done| done.is_ok()));
    let written = part.write(0, Bytes::from_static(b"h")).await;
    assert!(matches!(written, Err(SinkError::Misuse { .. })), "{written:?}");
    part.begin(version(1, 5)).await.unwrap();
    assert!(part.have().is_empty());
    part.write(0, Bytes::from_static(b"HELLO")).await.unwrap();
    finish(part, Finish::default()).await.unwrap();
    assert_eq!(fs::read(lab.path("x")).unwrap(), b"HELLO");
}

#[tokio::test]
async fn each_byte_comes_once_and_none_beyond_the_end() {
    let lab = Lab::new();
    let mut part = lab.begun("x", version(1, 10), b"hello").await;
    for (offset, bytes) in [(4, "o w"), (0, "h"), (u64::MAX - 1, "xyz")] {
        let refused = part.write(offset, Bytes::from_static(bytes.as_bytes())).await;
        assert!(matches!(refused, Err(SinkError::Misuse { .. })), "{offset}: {refused:?}");
    }
    let refused = part.write(5, Bytes::from_static(b" world")).await;
    assert!(matches!(refused, Err(SinkError::SizeDiffers { expected: 10, got: 11, .. })), "{refused:?}");
    part.write(5, Bytes::from_static(b" worl")).await.unwrap();
    finish(part, Finish::default()).await.unwrap();
    assert_eq!(fs::read(lab.path("x")).unwrap(), b"hello worl");
}

#[tokio::test]
async fn a_file_with_a_gap_or_of_another_size_gets_no_name() {
    let lab = Lab::new();
    let gap = |start, total| (start, Finish { total, ..Finish::default() });
    for (start, wish) in [gap(1, None), gap(1, Some(6)), gap(0, Some(6)), gap(0, Some(4))] {
        let mut part = lab.open("x").await.unwrap();
        part.begin(Version::default()).await.unwrap();
        part.write(start, Bytes::from_static(b"hello")).await.unwrap();
        let refused = finish(part, wish).await;
        assert!(matches!(refused, Err(SinkError::SizeDiffers { .. })), "{refused:?}");
        assert_eq!(lab.names(), ["x.stroll.part"]);
    }
}

#[tokio::test]
async fn wrong_bytes_are_not_kept_whether_hashed_along_or_read_again() {
    let lab = Lab::new();
    for along in [true, false] {
        for right in [false, true] {
            let mut part = lab.open("x").await.unwrap();
            if along {
                part.hash_along(&[Algorithm::Md5, Algorithm::Sha256]);
            }
            part.begin(version(1, 5)).await.unwrap();
            part.write(0, Bytes::from_static(if right { b"hello" } else { b"jello" })).await.unwrap();
            part.checkpoint().await.unwrap();
            let expected = Some("md5:5d41402abc4b2a76b9719d911017c592".parse().unwrap());
            let result = finish(part, Finish { expected, ..Finish::default() }).await;
            if right {
                assert_eq!(result.unwrap().sha256, None);
                assert_eq!(fs::read(lab.path("x")).unwrap(), b"hello");
                fs::remove_file(lab.path("x")).unwrap();
            } else {
                assert!(matches!(result, Err(SinkError::Integrity { .. })), "{result:?}");
                assert_eq!(lab.names(), Vec::<String>::new());
            }
            assert_eq!(lab.journals(), 0);
        }
    }
}

#[tokio::test]
async fn times_in_the_far_future_are_clamped_and_a_closed_file_stays_closed() {
    let lab = Lab::new();
    fs::write(lab.path("x"), "old").unwrap();
    fs::set_permissions(lab.path("x"), fs::Permissions::from_mode(0o600)).unwrap();
    for file in ["x", "y"] {
        let part = lab.begun(file, version(1, 5), b"hello").await;
        finish(part, Finish { modified_s: Some(i64::MAX), ..Finish::default() }).await.unwrap();
    }
    let (x, y) = (fs::metadata(lab.path("x")).unwrap(), fs::metadata(lab.path("y")).unwrap());
    assert_eq!(x.mode() & 0o777, 0o600);
    assert_eq!(y.mode() & 0o111, 0);
    let ahead = x.mtime() - fs::metadata(lab.place.path().join("data")).unwrap().mtime();
    assert!((86_000..=86_400).contains(&ahead), "{ahead} s in the future");
}

#[tokio::test]
async fn many_small_files_are_finished_together_and_never_see_a_journal() {
    const FILES: u64 = 300;
    let lab = Lab::new();
    let folder = lab.folder();
    let deep = Arc::new(folder.subfolder(&name("deep"), true).unwrap());
    let mut pending = Vec::new();
    for number in 0..FILES {
        let file = format!("file-{number}");
        let folder = if number % 2 == 0 { &folder } else { &deep };
        let journal = JournalPlace::for_file(&lab.state(), &lab.path(&file));
        let mut part = Part::open(&lab.disk, Arc::clone(folder), name(&file), Some(journal)).await.unwrap();
        part.begin(version(number, number)).await.unwrap();
        part.write(0, content(number, 0..number)).await.unwrap();
        pending.push(part.finish(Finish::default()).await.unwrap());
    }
    for (number, pending) in (0..FILES).zip(pending) {
        assert_eq!(pending.await.unwrap().size, number);
        let file = if number % 2 == 0 { format!("file-{number}") } else { format!("deep/file-{number}") };
        assert_eq!(fs::read(lab.path(&file)).unwrap(), content(number, 0..number), "{file}");
    }
    assert_eq!(lab.journals(), 0);
    assert_eq!(lab.names().len() as u64, FILES / 2 + 1);
}

#[tokio::test]
async fn what_is_no_file_in_place_of_the_file_is_refused_before_anything_is_pulled() {
    let lab = Lab::new();
    let outside = lab.place.path().join("outside");
    fs::write(&outside, "secret").unwrap();
    fs::create_dir(lab.path("folder")).unwrap();
    fs::create_dir(lab.path("taken.stroll.part")).unwrap();
    symlink(&outside, lab.path("link")).unwrap();
    symlink(&outside, lab.path("planted.stroll.part")).unwrap();
    symlink("nowhere", lab.path("dangling.stroll.part")).unwrap();
    fs::hard_link(&outside, lab.path("hard.stroll.part")).unwrap();
    assert!(Command::new("mkfifo").arg(lab.path("pipe.stroll.part")).status().unwrap().success());
    for file in [
        "folder",
        "taken",
        "link",
        "planted",
        "dangling",
        "hard",
        "pipe",
        "any.stroll.part",
        "any.STROLL.PART",
    ] {
        let error = lab.open(file).await.unwrap_err();
        let expected = match file {
            "folder" | "taken" => matches!(error, SinkError::IsFolder { .. }),
            "any.stroll.part" | "any.STROLL.PART" => matches!(error, SinkError::Reserved { .. }),
            _ => matches!(error, SinkError::NotAFile { .. }),
        };
        assert!(expected, "{file}: {error:?}");
        assert!(error.to_string().contains(file), "{error}");
    }
    assert_eq!(fs::read(&outside).unwrap(), b"secret");
    assert!(!lab.path("nowhere").exists());
}

#[tokio::test]
async fn what_is_planted_during_the_pull_is_neither_followed_nor_overwritten() {
    let lab = Lab::new();
    let outside = lab.place.path().join("outside");
    fs::write(&outside, "secret").unwrap();
    for planted in ["folder", "link", "part"] {
        let part = lab.begun(planted, version(1, 5), b"hello").await;
        let part_path = lab.path(&format!("{planted}.stroll.part"));
        match planted {
            "folder" => fs::create_dir(lab.path(planted)).unwrap(),
            "link" => symlink(&outside, lab.path(planted)).unwrap(),
            _ => {
                fs::remove_file(&part_path).unwrap();
                fs::write(&part_path, "evil!").unwrap();
            }
        }
        let error = finish(part, Finish::default()).await.unwrap_err();
        let expected = match planted {
            "folder" => matches!(error, SinkError::IsFolder { .. }),
            "link" => matches!(error, SinkError::NotAFile { .. }),
            _ => matches!(error, SinkError::Replaced { .. }),
        };
        assert!(expected, "{planted}: {error:?}");
        assert!(part_path.exists());
    }
    assert_eq!(fs::read(&outside).unwrap(), b"secret");
    assert!(!lab.path("part").exists());
}

#[tokio::test]
async fn only_the_part_that_we_made_is_removed() {
    let lab = Lab::new();
    let part = lab.begun("x", version(1, 5), b"hello").await;
    fs::rename(lab.path("x.stroll.part"), lab.path("kept")).unwrap();
    fs::write(lab.path("x.stroll.part"), "somebody's").unwrap();
    part.discard().await.unwrap();
    assert_eq!(fs::read(lab.path("x.stroll.part")).unwrap(), b"somebody's");
    let part = lab.begun("y", version(1, 5), b"hello").await;
    part.discard().await.unwrap();
    assert_eq!(lab.names(), ["kept", "x.stroll.part"]);
    assert_eq!(lab.journals(), 0);
}

#[tokio::test]
async fn paths_longer_than_any_path_may_be_are_no_trouble() {
    let lab = Lab::new();
    let mut folder = lab.folder();
    let long = name(&"n".repeat(250));
    for _ in 0..20 {
        folder = Arc::new(folder.subfolder(&long, true).unwrap());
    }
    let mut part = Part::open(&lab.disk, Arc::clone(&folder), long.clone(), None).await.unwrap();
    part.begin(version(1, 5)).await.unwrap();
    part.write(0, Bytes::from_static(b"hello")).await.unwrap();
    finish(part, Finish::default()).await.unwrap();
    assert_eq!(folder.replica(&long).unwrap().unwrap().size, 5);
}

#[tokio::test]
async fn a_folder_that_takes_no_files_says_so() {
    let disk = Disk::start();
    let folder = Arc::new(Folder::open(Path::new("/proc/self"), false).unwrap());
    let error = Part::open(&disk, folder, name("x"), None).await.unwrap_err();
    assert!(error.to_string().contains("x.stroll.part"), "{error}");
}

/// Runs this very program again, in one of its tests, as a child with a task.
fn child(test: &str, task: &str, place: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--include-ignored"])
        .env(CHILD, task)
        .env(PLACE, place)
        .stdout(Stdio::piped())
        .stdin(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn two_processes_never_pull_one_file() {
    const HERE: &str = "two_processes_never_pull_one_file";
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let open = |place: &Path| {
        let folder = Arc::new(Folder::open(place, false).unwrap());
        runtime.block_on(Part::open(&Disk::start(), folder, name("x"), None))
    };
    if std::env::var(CHILD).is_ok() {
        let part = open(Path::new(&std::env::var(PLACE).unwrap())).unwrap();
        println!("\nheld");
        std::io::stdin().read_line(&mut String::new()).unwrap();
        drop(part);
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let mut holder = child(HERE, "hold", place.path());
    let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "held"), "the child never held it");
    let busy = open(place.path()).unwrap_err();
    assert!(matches!(busy, SinkError::Busy { .. }), "{busy:?}");
    assert!(busy.to_string().contains("another process"), "{busy}");
    holder.kill().unwrap();
    holder.wait().unwrap();
    open(place.path()).expect("a killed process holds nothing");
}

/// How large a tortured file is.
const TORTURED: u64 = 1 << 20;
/// The longest piece that is written at once.
const PIECE: u64 = 32 << 10;

/// What the parent tells a tortured child, in one word.
#[derive(Clone, Copy)]
struct Task {
    version: u64,
    seed: u64,
}

fn below(rng: &mut Rng, bound: u64) -> u64 {
    rng.below(usize::try_from(bound).unwrap()) as u64
}

/// Pulls a file by random pieces, in random order, telling what is safe; until it is complete, or killed.
async fn pull_randomly(place: &Path, task: Task) {
    let mut rng = Rng::seeded(task.seed);
    let disk = Disk::start();
    let folder = Arc::new(Folder::open(&place.join("data"), false).unwrap());
    let journal = JournalPlace::for_file(&place.join("state"), &place.join("data/x"));
    let mut part = Part::open(&disk, folder, name("x"), Some(journal)).await.unwrap();
    let there = fs::read(place.join("data/x.stroll.part")).unwrap();
    if let Some(before) = part.version() {
        let number = before.etag.as_ref().unwrap().trim_matches('"').parse().unwrap();
        for range in part.have().iter() {
            let bytes = &there[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()];
            assert!(content(number, range.clone()) == bytes, "{range:?} is not what was pulled");
        }
        println!("found {number} {}", serde_json::to_string(part.have()).unwrap());
    }
    part.begin(version(task.version, TORTURED)).await.unwrap();
    loop {
        let gaps = part.have().missing(TORTURED).collect::<Vec<_>>();
        if gaps.is_empty() {
            break;
        }
        let gap = gaps[rng.below(gaps.len())].clone();
        let start = gap.start + below(&mut rng, 2) * below(&mut rng, gap.end - gap.start);
        let end = gap.end.min(start + 1 + below(&mut rng, PIECE));
        part.write(start, content(task.version, start..end)).await.unwrap();
        match rng.below(8) {
            0 | 1 => {
                let safe = serde_json::to_string(part.have()).unwrap();
                part.checkpoint().await.unwrap();
                println!("safe {} {safe}", task.version);
            }
            // Nobody waits for this one.
            2 => drop(part.checkpoint()),
            _ => {}
        }
    }
    let expected = Some(sha256(&content(task.version, 0..TORTURED)));
    println!("finishing 0 []");
    finish(part, Finish { expected, ..Finish::default() }).await.unwrap();
    println!("done 0 []");
}

/// What the parent remembers of a child's words.
#[derive(Default)]
struct Heard {
    /// Of which version what was safe.
    safe: Option<(u64, Ranges)>,
    found: Option<(u64, Ranges)>,
    is_done: bool,
}

impl Heard {
    fn hear(&mut self, line: &str) {
        let words = line.splitn(3, ' ').collect::<Vec<_>>();
        let [what @ ("found" | "safe" | "finishing" | "done"), number, ranges] = words[..] else { return };
        let said = Some((number.parse().unwrap(), serde_json::from_str(ranges).unwrap()));
        match what {
            "found" => self.found = said,
            "safe" => self.safe = said,
            "done" => self.is_done = true,
            _ => {}
        }
    }
}

fn contains(all: &Ranges, part: &Ranges) -> bool {
    let mut both = all.clone();
    part.iter().for_each(|range| both.insert(range));
    both == *all
}

/// What was killed: the file was pulled to its end so often, and so many bytes had to be pulled again.
#[test]
fn killed_at_any_moment_a_file_is_complete_or_resumed_and_never_mixed() {
    const HERE: &str = "killed_at_any_moment_a_file_is_complete_or_resumed_and_never_mixed";
    const ROUNDS: u64 = 200;
    if let Ok(task) = std::env::var(CHILD) {
        let (version, seed) = task.split_once(' ').unwrap();
        let task = Task { version: version.parse().unwrap(), seed: seed.parse().unwrap() };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        println!();
        runtime.block_on(pull_randomly(Path::new(&std::env::var(PLACE).unwrap()), task));
        return;
    }
    let lab = Lab::new();
    let mut rng = Rng::seeded(7);
    let (mut source, mut finished, mut resumed, mut changed) = (1, 0, 0, 0);
    let mut safe: Option<(u64, Ranges)> = None;
    for round in 0..ROUNDS {
        if rng.below(15) == 0 {
            source += 1;
            changed += 1;
        }
        let mut process = child(HERE, &format!("{source} {round}"), lab.place.path());
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut heard = Heard::default();
        // Somewhere after so many words, and then somewhere in what it does next.
        for line in lines.by_ref().take(4 + rng.below(7)) {
            heard.hear(&line.unwrap());
        }
        for _ in 0..rng.below(1_000_000) {
            std::hint::spin_loop();
        }
        let _ = process.kill();
        let status = process.wait().unwrap();
        lines.for_each(|line| heard.hear(&line.unwrap()));
        assert!(status.success() || status.code().is_none(), "round {round}: a child failed: {status}");

        if let Some((number, ranges)) = &heard.found {
            resumed += 1;
            if let Some((safe_number, safe)) = &safe
                && safe_number == number
            {
                assert!(contains(ranges, safe), "round {round}: {ranges:?} found, but {safe:?} was safe");
            }
        }
        safe = heard.safe.or(safe);
        if lab.path("x").exists() {
            let there = fs::read(lab.path("x")).unwrap();
            assert!(
                there == content(source, 0..TORTURED),
                "round {round}: another file under the final name"
            );
            fs::remove_file(lab.path("x")).unwrap();
            finished += 1;
            source += 1;
            safe = None;
        } else {
            assert!(!heard.is_done, "round {round}: done, but there is no file");
        }
    }
    println!("{ROUNDS} kills: {finished} files complete, {resumed} resumed, {changed} changed at the source");
    assert!(
        finished > 5 && resumed > 50 && changed > 5,
        "{finished} {resumed} {changed}: it tests too little"
    );
}

/// A file system of its own, gone when dropped.
struct Mount(PathBuf);

impl Mount {
    fn new(at: PathBuf, kind: &str, options: &str) -> Self {
        fs::create_dir_all(&at).unwrap();
        let mount = Self(at);
        mount.run("mount", &["-t", kind, "-o", options, "none"]);
        mount
    }

    #[track_caller]
    fn run(&self, program: &str, args: &[&str]) {
        let output = Command::new(program).args(args).arg(&self.0).output().unwrap();
        assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

#[tokio::test]
#[ignore = "needs root to mount a small file system: tests/all runs it"]
async fn a_full_disk_keeps_what_was_written_and_goes_on_when_there_is_space() {
    let lab = Lab::new();
    let mount = Mount::new(lab.place.path().join("data"), "tmpfs", "size=2m");
    let refused = lab.open("x").await.unwrap().begin(version(1, 3 << 20)).await.unwrap_err();
    assert!(matches!(refused, SinkError::DiskFull { needed: Some(_), .. }), "{refused:?}");

    fs::File::create(lab.path("ballast")).unwrap().write_all(&vec![0; 1 << 20]).unwrap();
    let unsized_version = Version { etag: Some("\"1\"".to_owned()), ..Version::default() };
    let mut part = lab.open("x").await.unwrap();
    part.begin(unsized_version.clone()).await.unwrap();
    let piece = 64 << 10;
    let mut at = 0;
    let error = loop {
        if let Err(error) = part.write(at, content(1, at..at + piece)).await {
            break error;
        }
        at += piece;
    };
    assert!(matches!(error, SinkError::DiskFull { .. }), "{error:?}");
    assert!(part.checkpoint().await.is_err());
    drop(part);
    fs::remove_file(lab.path("ballast")).unwrap();

    let mut part = lab.open("x").await.unwrap();
    let kept = part.have().bytes();
    assert!(kept >= 960 << 10, "only {kept} bytes kept");
    part.begin(unsized_version).await.unwrap();
    part.write(kept, content(1, kept..1_500_000)).await.unwrap();
    finish(part, Finish::default()).await.unwrap();
    assert_eq!(fs::read(lab.path("x")).unwrap(), content(1, 0..1_500_000));

    mount.run("mount", &["-o", "remount,ro"]);
    let error = lab.open("y").await.unwrap_err();
    assert!(matches!(error, SinkError::ReadOnly { .. }), "{error:?}");
}

#[tokio::test]
#[ignore = "needs root to mount a small file system: tests/all runs it"]
async fn a_file_system_that_cannot_reserve_nor_say_how_full_it_is_serves_too() {
    let lab = Lab::new();
    let _mount = Mount::new(lab.place.path().join("data"), "ramfs", "mode=755");
    let mut part = lab.open("x").await.unwrap();
    part.begin(version(1, 2 << 20)).await.unwrap();
    part.write(0, content(1, 0..2 << 20)).await.unwrap();
    part.checkpoint().await.unwrap();
    finish(part, Finish::default()).await.unwrap();
    assert_eq!(fs::read(lab.path("x")).unwrap(), content(1, 0..2 << 20));
}

/// Four changed bytes of a partial file went unnoticed, and became part of the finished file.
#[tokio::test]
async fn a_part_that_was_changed_between_two_runs_keeps_only_the_chunks_that_verify() {
    const SIZE: u64 = 4 << 20;
    let lab = Lab::new();
    let mut part = lab.open("x").await.unwrap();
    part.begin(version(1, SIZE)).await.unwrap();
    part.write(0, content(1, 0..3_500_000)).await.unwrap();
    part.checkpoint().await.unwrap();
    drop(part);
    let file = fs::File::options().write(true).open(lab.path("x.stroll.part")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"evil", 1_500_000).unwrap();
    drop(file);
    let mut part = lab.open("x").await.unwrap();
    let missing = part.have().missing(3_500_000).map(|gap| (gap.start, gap.end)).collect::<Vec<_>>();
    assert_eq!(missing, [(1 << 20, 2 << 20)]);
    part.begin(version(1, SIZE)).await.unwrap();
    for gap in part.have().missing(SIZE).collect::<Vec<_>>() {
        part.write(gap.start, content(1, gap)).await.unwrap();
    }
    finish(part, Finish::default()).await.unwrap();
    assert!(fs::read(lab.path("x")).unwrap() == content(1, 0..SIZE));
}

#[tokio::test]
async fn a_part_into_which_nothing_came_is_not_left_behind() {
    let lab = Lab::new();
    drop(lab.open("x").await.unwrap());
    let mut part = lab.open("y").await.unwrap();
    part.begin(version(1, 5)).await.unwrap();
    drop(part);
    assert_eq!(lab.names(), [""; 0]);
    assert_eq!(lab.journals(), 0);
}

/// A source that declared 3 GB and sent 1,000 bytes left 2.8 GB allocated.
#[tokio::test]
async fn space_is_reserved_in_steps_and_given_back() {
    const SIZE: u64 = 300 << 20;
    let lab = Lab::new();
    let mut part = lab.open("x").await.unwrap();
    part.begin(version(1, SIZE)).await.unwrap();
    part.write(0, content(1, 0..1_000)).await.unwrap();
    part.checkpoint().await.unwrap();
    let allocated = || fs::metadata(lab.path("x.stroll.part")).unwrap().blocks() * 512;
    assert!(allocated() <= 65 << 20, "{}", allocated());
    drop(part);
    assert!(allocated() <= 1 << 20, "{}", allocated());
}

#[tokio::test]
async fn names_of_every_kind_are_pulled_side_by_side() {
    use std::os::unix::ffi::OsStrExt as _;
    let lab = Lab::new();
    let long = "y".repeat(255);
    let names: [&[u8]; 8] =
        [b"x", b"x.part", b"T12:01:00", b"a\\b", b" a.", b"CON", b"caf\xe9", long.as_bytes()];
    for name in names {
        let name = Name::from_bytes(name).unwrap();
        let mut part = Part::open(&lab.disk, lab.folder(), name, None).await.unwrap();
        part.begin(version(1, 5)).await.unwrap();
        part.write(0, Bytes::from_static(b"hello")).await.unwrap();
        finish(part, Finish::default()).await.unwrap();
    }
    for name in names {
        let path = lab.path("").join(std::ffi::OsStr::from_bytes(name));
        assert_eq!(fs::read(path).unwrap(), b"hello", "{name:?}");
    }
    let found = lab.folder().names().unwrap();
    assert_eq!(found.len(), names.len());
    assert!(found.iter().any(|name| name.to_bytes() == b"caf\xe9"));
}
