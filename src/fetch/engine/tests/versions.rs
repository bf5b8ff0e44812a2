//! Bytes of two versions never meet, on a real part in a real folder.

use std::collections::VecDeque;
use std::sync::Arc;

use proptest::prelude::*;

use super::world::{Deed, File, Job, Link, Memory, Proof, Source};
use crate::fetch::engine::{Outcome, PullError};
use crate::fetch::sink::{Disk, Finish, Folder, JournalPlace, Part, SinkError};
use crate::fetch::store::Store as _;
use crate::fetch::{Fault, Name, Version};

const SIZE: u64 = 400_000;

/// A folder to pull into.
struct Place {
    folder: tempfile::TempDir,
    disk: Disk,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("data")).expect("a folder");
        Self { folder, disk: Disk::start() }
    }

    async fn part(&self) -> Part {
        let data = self.folder.path().join("data");
        let journal = JournalPlace::for_file(&self.folder.path().join("state"), &data.join("file"));
        let folder = Arc::new(Folder::open(&data, false).expect("the folder"));
        let name = Name::new("file").expect("a name");
        loop {
            let journal = journal.clone();
            match Part::open(&self.disk, Arc::clone(&folder), name.clone(), Some(journal)).await {
                // The disk's threads have not let go of one that was just dropped.
                Err(SinkError::Busy { .. }) => tokio::task::yield_now().await,
                opened => return opened.expect("a part"),
            }
        }
    }

    /// Gives the file its name, and what is in it.
    async fn finish(&self, part: Part) -> Vec<u8> {
        part.finish(Finish::default()).await.expect("whole").await.expect("named");
        std::fs::read(self.folder.path().join("data/file")).expect("the file")
    }
}

/// Pulls until the file is complete, as a job does: slot after slot, fault after fault.
async fn all(source: &Source, job: &mut Job, links: &mut [Link], part: &mut Part) -> usize {
    for slots in 1..200 {
        match job.pull(links, part, &source.eternal()).await {
            Ok(Outcome::Complete) => return slots,
            Ok(_) | Err(PullError::Source(Fault::Broken(_) | Fault::Changed)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    panic!("never complete");
}

/// What comes of a file that is replaced by one of this size after so many bytes, with a slot's end before or after.
async fn replaced(proof: Proof, size: u64, deeds: Vec<(u64, Deed)>) -> (Vec<u8>, Vec<File>) {
    let source = Source::new(SIZE).with(|world| {
        (world.proof, world.deeds) = (proof, VecDeque::from(deeds));
    });
    let (place, mut job) = (Place::new(), Job::with_chunk(Some(90_000)));
    let mut part = place.part().await;
    all(&source, &mut job, &mut [source.connect()], &mut part).await;
    let versions = source.world().versions.clone();
    assert_eq!(versions.last().map(|file| file.size), Some(size));
    (place.finish(part).await, versions)
}

#[tokio::test]
async fn a_file_that_changes_between_ranges_or_slots_is_the_new_one_and_nothing_of_the_old() {
    for proof in [Proof::Tag, Proof::Date, Proof::Size, Proof::Nothing] {
        for size in [SIZE, SIZE + 50_000, SIZE - 50_000] {
            for deeds in [
                vec![(180_000, Deed::Change(size))],
                vec![(200_000, Deed::Change(size)), (200_000, Deed::Stop)],
                vec![(200_000, Deed::Stop), (200_000, Deed::Change(size))],
                vec![(200_000, Deed::Change(size)), (200_000, Deed::Break)],
            ] {
                let (bytes, versions) = replaced(proof, size, deeds.clone()).await;
                let new = versions.last().expect("the new one").whole();
                assert_eq!(bytes, new, "{proof:?} {size} {deeds:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_change_during_the_last_range_is_seen_at_the_end() {
    // A strong tag is no exception: servers make it when they open the file.
    for proof in [Proof::Tag, Proof::Date] {
        let last = vec![(SIZE - 10_000, Deed::Change(SIZE))];
        let (bytes, versions) = replaced(proof, SIZE, last).await;
        assert_eq!(bytes, versions[1].whole(), "{proof:?}");
    }
}

#[tokio::test]
async fn a_source_without_ranges_begins_anew_and_is_never_continued() {
    let source = Source::new(SIZE).with(|world| {
        (world.ranges, world.deeds) = (false, [(200_000, Deed::Break), (300_000, Deed::Change(SIZE))].into());
    });
    let (place, mut job) = (Place::new(), Job::new());
    let mut part = place.part().await;
    all(&source, &mut job, &mut [source.connect()], &mut part).await;
    // Once because the source cannot continue, and once because the last look finds another version.
    assert_eq!(job.seen.restarts(), 2);
    assert_eq!(place.finish(part).await, source.world().versions[1].whole());
}

#[tokio::test]
async fn a_file_that_changes_all_the_time_is_given_up_after_a_few_tries() {
    let source = Source::new(SIZE).with(|world| world.changes = u32::MAX);
    let (mut job, mut store) = (Job::with_chunk(Some(90_000)), Memory::default());
    let outcome = job.pull(&mut [source.connect()], &mut store, &source.eternal()).await;
    assert!(matches!(outcome, Err(PullError::Source(Fault::Changed))), "{outcome:?}");
    assert_eq!((job.seen.restarts(), source.world().asked.len()), (3, 8));
}

#[tokio::test]
async fn a_change_before_the_first_byte_of_several_connections_is_one() {
    for proof in [Proof::Tag, Proof::Date] {
        let size = 20 << 20;
        let source = Source::new(size).with(|world| (world.proof, world.piece) = (proof, 1 << 20));
        let place = Place::new();
        let mut part = place.part().await;
        // What was agreed on is not what is there when the ranges are opened.
        source.world().changes = u32::MAX;
        let mut links = [source.connect(), source.connect()];
        let mut job = Job::new();
        let outcome = job.pull(&mut links, &mut part, &source.eternal()).await;
        assert!(matches!(outcome, Err(PullError::Source(Fault::Changed))), "{proof:?} {outcome:?}");
        source.world().changes = 0;
        all(&source, &mut job, &mut links, &mut part).await;
        assert!(place.finish(part).await == source.world().now().whole(), "{proof:?}: mixed");
    }
}

#[tokio::test]
async fn bytes_are_called_by_the_version_that_they_are_of() {
    // It changes between the question which version it is and the first range.
    let source = Source::new(SIZE).with(|world| world.changes = 1);
    let (mut job, mut store) = (Job::new(), Memory::default());
    let mut links = [source.connect(), source.connect()];
    let outcome = job.pull(&mut links, &mut store, &source.eternal()).await;
    assert_eq!(outcome.expect("no fault"), Outcome::Complete);
    assert_eq!(store.version().and_then(|version| version.etag.as_deref()), Some("\"2\""));
    assert_eq!(store.bytes, source.world().now().whole());
}

#[tokio::test]
async fn a_source_that_says_less_than_before_is_believed_as_far_as_its_bytes_go() {
    for is_changed in [false, true] {
        let source = Source::new(SIZE).with(|world| world.deeds = [(200_000, Deed::Stop)].into());
        let (mut job, mut store, mut links) = (Job::new(), Memory::default(), [source.connect()]);
        let outcome = job.pull(&mut links, &mut store, &source.eternal()).await;
        assert_eq!(outcome.expect("no fault"), Outcome::SlotOver);
        source.world().proof = Proof::Size;
        if is_changed {
            source.world().change(SIZE);
        }
        let outcome = job.pull(&mut links, &mut store, &source.eternal()).await;
        assert_eq!(outcome.expect("no fault"), Outcome::Complete);
        assert_eq!(store.bytes, source.world().now().whole());
        let is_kept = source.world().given < SIZE + 100_000;
        assert_ne!(is_kept, is_changed, "what is the same is kept, what is not is dropped");
    }
}

#[tokio::test]
async fn pieces_behind_a_gap_that_nobody_can_vouch_for_are_dropped() {
    let source = Source::new(SIZE);
    let mut store = Memory::default();
    let old = source.world().now();
    let version = Version { size: Some(SIZE), etag: Some("\"1\"".into()), ..Version::default() };
    store.begin(version).await.expect("begun");
    store.write(300_000, old.bytes(300_000, 350_000)).await.expect("written");
    source.world().proof = Proof::Size;
    source.world().change(SIZE);
    let outcome = Job::new().pull(&mut [source.connect()], &mut store, &source.eternal()).await;
    assert_eq!(outcome.expect("no fault"), Outcome::Complete);
    assert_eq!(store.bytes, source.world().now().whole());
}

#[tokio::test]
async fn where_bytes_must_be_compared_every_range_is_asked_for_once() {
    let source = Source::new(SIZE).with(|world| world.proof = Proof::Size);
    let (mut job, mut store) = (Job::with_chunk(Some(90_000)), Memory::default());
    let outcome = job.pull(&mut [source.connect()], &mut store, &source.eternal()).await;
    assert_eq!(outcome.expect("no fault"), Outcome::Complete);
    let asked = source.world().asked.clone();
    assert_eq!(asked.len(), 5, "{asked:?}");
}

#[tokio::test]
async fn several_connections_need_more_than_a_size_to_hold_their_pieces_together() {
    let source = Source::new(20 << 20).with(|world| (world.proof, world.piece) = (Proof::Size, 1 << 20));
    let (mut job, mut store) = (Job::new(), Memory::default());
    let mut links = [source.connect(), source.connect()];
    let outcome = job.pull(&mut links, &mut store, &source.eternal()).await;
    assert_eq!(outcome.expect("no fault"), Outcome::Complete);
    assert_eq!(source.world().asked, [(0, None)], "pieces that nothing holds together");
}

#[tokio::test]
async fn files_of_unknown_length_and_empty_ones_are_complete_when_the_source_says_so() {
    for (proof, size) in
        [(Proof::Nothing, SIZE), (Proof::Nothing, 180_000), (Proof::Nothing, 0), (Proof::Tag, 0)]
    {
        let source = Source::new(size).with(|world| world.proof = proof);
        let (place, mut job) = (Place::new(), Job::with_chunk(Some(90_000)));
        let mut part = place.part().await;
        assert_eq!(all(&source, &mut job, &mut [source.connect()], &mut part).await, 1);
        assert_eq!(place.finish(part).await, source.world().now().whole(), "{proof:?} {size}");
    }
}

#[tokio::test]
async fn a_part_that_was_whole_when_its_process_died_is_finished_or_begun_anew() {
    for is_changed in [false, true] {
        let source = Source::new(SIZE);
        let place = Place::new();
        let mut part = place.part().await;
        all(&source, &mut Job::new(), &mut [source.connect()], &mut part).await;
        part.checkpoint().await.expect("durable");
        drop(part);
        if is_changed {
            source.world().change(SIZE);
        }
        let mut part = place.part().await;
        assert_eq!(part.have().bytes(), SIZE);
        all(&source, &mut Job::new(), &mut [source.connect()], &mut part).await;
        assert_eq!(place.finish(part).await, source.world().now().whole());
        let pulled = if is_changed { 2 * SIZE } else { SIZE };
        assert_eq!(source.world().given, pulled);
    }
}

#[tokio::test]
async fn what_is_there_is_not_pulled_again_after_a_cut() {
    let source = Source::new(SIZE).with(|world| {
        world.deeds = [(100_000, Deed::Stop), (200_000, Deed::Break), (300_000, Deed::Stop)].into();
    });
    let (place, mut job) = (Place::new(), Job::new());
    let mut part = place.part().await;
    assert_eq!(all(&source, &mut job, &mut [source.connect()], &mut part).await, 4);
    let extra = source.world().given - SIZE;
    // One piece per order: it was read before the order could be seen.
    assert!(extra <= 2 * 10_000, "{extra} bytes came twice");
    assert_eq!(place.finish(part).await, source.world().now().whole());
}

fn proof() -> impl Strategy<Value = Proof> {
    prop::sample::select(vec![Proof::Tag, Proof::Date, Proof::Size, Proof::Nothing])
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        2 => (0..300_000_u64).prop_map(Deed::Change),
        1 => Just(Deed::Change(200_000)),
        4 => Just(Deed::Stop),
        2 => Just(Deed::Break),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn whatever_happens_the_file_is_one_version(
        proof in proof(),
        ranges in prop::bool::weighted(0.8),
        connections in 1..3_usize,
        chunk in prop::option::of(20_000..200_000_u64),
        piece in 1_000..70_000_u64,
        deeds in prop::collection::vec((0..60_000_u64, deed()), 0..12),
        deaths in prop::collection::vec(any::<bool>(), 40),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let mut at = 0;
            let deeds = deeds.into_iter().map(|(gap, deed)| { at += gap; (at, deed) }).collect();
            let source = Source::new(200_000).with(|world| {
                (world.proof, world.ranges, world.piece, world.deeds) = (proof, ranges, piece, deeds);
            });
            let (place, mut job) = (Place::new(), Job::with_chunk(chunk));
            let mut links: Vec<Link> = (0..connections).map(|_| source.connect()).collect();
            let mut part = place.part().await;
            let mut deaths = deaths.into_iter();
            loop {
                match job.pull(&mut links, &mut part, &source.eternal()).await {
                    Ok(Outcome::Complete) => break,
                    Ok(_) | Err(PullError::Source(Fault::Broken(_) | Fault::Changed)) => {}
                    Err(error) => panic!("{error}"),
                }
                if deaths.next().expect("it ends") {
                    drop(part);
                    part = place.part().await;
                }
            }
            let bytes = place.finish(part).await;
            let versions = source.world().versions.clone();
            prop_assert!(versions.iter().any(|version| version.whole() == bytes), "{versions:?}");
            Ok(())
        })?;
    }
}
