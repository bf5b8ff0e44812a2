//! A file that is rewritten in place, at any moment and by a clock of whole seconds: the complete file is one version.

use std::collections::VecDeque;
use std::time::Duration;

use proptest::prelude::*;

use super::world::{Deed, Job, Link, Memory, Proof, Source};
use crate::fetch::engine::{Deferral, Event, Outcome, PullError, Restart};
use crate::fetch::store::Store as _;
use crate::fetch::{Fault, Version};

/// Proofs that show any other version, apart from one that was written within the same second.
const PROOFS: [Proof; 5] = [Proof::Tag, Proof::DateTag, Proof::WeakTag, Proof::NowTag, Proof::Date];

const SIZE: u64 = 200_000;

/// At the highest rate below it takes longer than a moment: a file that comes at once is not checked at its end, so a write in
/// that moment is not noticed.
const LEAST: u64 = 60_000;

/// One second for the whole file.
const RATE: Option<u64> = Some(SIZE);

async fn pull_all(source: &Source, job: &mut Job, links: &mut [Link], store: &mut Memory) {
    for _ in 0..100 {
        match job.pull(links, store, &source.eternal()).await {
            Ok(Outcome::Complete) => return,
            Ok(Outcome::Unsettled(wait)) => tokio::time::sleep(wait).await,
            Ok(Outcome::SlotOver) | Err(PullError::Source(Fault::Broken(_) | Fault::Changed)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    panic!("never complete");
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_rewritten_while_it_comes_is_pulled_again() {
    for proof in PROOFS {
        for written_for in [0, 10, 100] {
            for at in [5_000, SIZE / 2, SIZE - 5_000] {
                let source = Source::by_the_clock(SIZE).with(|world| {
                    (world.proof, world.rate, world.deeds) = (proof, RATE, [(at, Deed::Rewrite)].into());
                });
                tokio::time::sleep(Duration::from_secs(written_for)).await;
                let (mut job, mut store) = (Job::new(), Memory::default());
                pull_all(&source, &mut job, &mut [source.connect()], &mut store).await;
                let new = source.world().now().whole();
                assert!(store.bytes == new, "{proof:?} {written_for} {at}: mixed");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_of_just_now_is_pulled_when_its_date_would_show_another_write() {
    let source = Source::by_the_clock(SIZE).with(|world| (world.proof, world.rate) = (Proof::DateTag, RATE));
    let (begun, mut job, mut store) = (tokio::time::Instant::now(), Job::new(), Memory::default());
    pull_all(&source, &mut job, &mut [source.connect()], &mut store).await;
    let restarts = job.seen.count(|event| *event == Event::Restarted(Restart::JustWritten));
    assert_eq!((restarts, source.world().asked.len()), (1, 2));
    let took = begun.elapsed().as_secs_f64();
    assert!((3.0..4.5).contains(&took), "2 s to settle and 1 s to pull, not {took}");
}

#[tokio::test(start_paused = true)]
async fn a_file_of_just_now_that_comes_at_once_is_asked_for_once() {
    let source = Source::by_the_clock(SIZE).with(|world| world.proof = Proof::DateTag);
    let (mut job, mut store) = (Job::new(), Memory::default());
    pull_all(&source, &mut job, &mut [source.connect()], &mut store).await;
    let world = source.world();
    assert_eq!((world.asked.len(), world.probes), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_fresh_file_of_an_earlier_run_starts_anew_and_an_old_one_goes_on() {
    for (written_for, is_kept) in [(30, false), (90, true)] {
        for proof in [Proof::DateTag, Proof::Date] {
            let source = Source::by_the_clock(SIZE).with(|world| {
                (world.proof, world.rate) = (proof, RATE);
                world.deeds = [(SIZE / 2, Deed::Stop)].into();
            });
            tokio::time::sleep(Duration::from_secs(written_for)).await;
            let (mut job, mut store) = (Job::new(), Memory::default());
            let cut = job.pull(&mut [source.connect()], &mut store, &source.eternal()).await;
            assert_eq!(cut.expect("no fault"), Outcome::SlotOver);
            let mut store = store.inherited();
            pull_all(&source, &mut job, &mut [source.connect()], &mut store).await;
            let restarts = job.seen.count(|event| *event == Event::Restarted(Restart::Fresh));
            assert_eq!(restarts == 0, is_kept, "{proof:?} {written_for}");
            assert_eq!(store.bytes, source.world().now().whole());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_fresh_file_goes_on_from_slot_to_slot() {
    let source = Source::by_the_clock(SIZE).with(|world| (world.proof, world.rate) = (Proof::DateTag, RATE));
    tokio::time::sleep(Duration::from_secs(10)).await;
    let (mut job, mut store, mut links) = (Job::new(), Memory::default(), [source.connect()]);
    for _ in 0..20 {
        let slot = source.slot(Duration::from_millis(400));
        if job.pull(&mut links, &mut store, &slot).await.expect("no fault") == Outcome::Complete {
            break;
        }
    }
    assert_eq!((store.bytes.len() as u64, job.seen.restarts()), (SIZE, 0));
}

/// Pulls in one slot after the other; gives how many there were and how long those took together.
async fn pull_in_slots(
    source: &Source,
    job: &mut Job,
    store: &mut Memory,
    length: Duration,
) -> (u32, Duration) {
    pull_in_slots_over(&mut [source.connect()], source, job, store, length).await
}

async fn pull_in_slots_over(
    links: &mut [Link],
    source: &Source,
    job: &mut Job,
    store: &mut Memory,
    length: Duration,
) -> (u32, Duration) {
    let mut in_slots = Duration::ZERO;
    for slots in 1..100 {
        let begun = tokio::time::Instant::now();
        let outcome = job.pull(links, store, &source.slot(length)).await;
        in_slots += begun.elapsed();
        match outcome {
            Ok(Outcome::Complete) => return (slots, in_slots),
            Ok(Outcome::Unsettled(wait)) => tokio::time::sleep(wait).await,
            Ok(Outcome::SlotOver) => {}
            Err(error) => panic!("{error}"),
        }
    }
    panic!("never complete");
}

#[tokio::test(start_paused = true)]
async fn a_file_of_just_now_is_left_for_a_later_slot() {
    for proof in [Proof::DateTag, Proof::Date] {
        let source = Source::by_the_clock(SIZE).with(|world| (world.proof, world.rate) = (proof, RATE));
        let (mut job, mut store) = (Job::new(), Memory::default());
        let first =
            job.pull(&mut [source.connect()], &mut store, &source.slot(Duration::from_secs(10))).await;
        assert_eq!(first.expect("no fault"), Outcome::Unsettled(Duration::from_secs(2)));
        assert_eq!(store.bytes.len(), 0, "another write would not show");
        tokio::time::sleep(Duration::from_secs(2)).await;
        let (slots, in_slots) = pull_in_slots(&source, &mut job, &mut store, Duration::from_secs(10)).await;
        assert_eq!((slots, store.bytes), (1, source.world().now().whole().to_vec()), "{proof:?}");
        assert!(in_slots < Duration::from_millis(1_100), "1 s to pull, not {in_slots:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_always_dated_now_is_complete_after_some_slots() {
    for (length, connections) in [(400, 1), (10_000, 1), (400, 2), (10_000, 2)] {
        let length = Duration::from_millis(length);
        let source =
            Source::by_the_clock(SIZE).with(|world| (world.proof, world.rate) = (Proof::NowTag, RATE));
        let (begun, mut job, mut store) = (tokio::time::Instant::now(), Job::new(), Memory::default());
        let mut links: Vec<Link> = (0..connections).map(|_| source.connect()).collect();
        pull_in_slots_over(&mut links, &source, &mut job, &mut store, length).await;
        assert_eq!(store.bytes, source.world().now().whole());
        let took = begun.elapsed().as_secs_f64();
        assert!(took < 10.0, "slots of {length:?}, {connections} connections: {took} s");
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_written_twice_in_one_second_is_not_mixed_in_slots() {
    for length in [Duration::from_millis(300), Duration::from_secs(10)] {
        for at in [15_000, 100_000, 195_000, 450_000] {
            let deeds = [(at, Deed::Rewrite), (at + 10_000, Deed::Rewrite)];
            let source = Source::by_the_clock(SIZE).with(|world| {
                (world.proof, world.rate, world.deeds) = (Proof::DateTag, RATE, deeds.into());
            });
            tokio::time::sleep(Duration::from_secs(5)).await;
            let (mut job, mut store) = (Job::new(), Memory::default());
            pull_in_slots(&source, &mut job, &mut store, length).await;
            let versions = source.world().versions.clone();
            assert!(versions.iter().any(|version| version.whole() == store.bytes), "{length:?} {at}: mixed");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_source_that_breaks_and_cannot_resume_says_so() {
    let source = Source::new(SIZE).with(|world| {
        (world.ranges, world.deeds) = (false, [(100_000, Deed::Break)].into());
    });
    let (mut job, mut store) = (Job::new(), Memory::default());
    let error = job.pull(&mut [source.connect()], &mut store, &source.eternal()).await.expect_err("broken");
    assert!(error.to_string().ends_with("; the source does not support resuming"), "{error}");
    pull_all(&source, &mut job, &mut [source.connect()], &mut store).await;
    assert_eq!(job.seen.count(|event| *event == Event::Restarted(Restart::NoResume)), 1);
    assert_eq!(job.seen.count(|event| *event == Event::Restarted(Restart::Changed)), 0);
    assert_eq!(store.version().map(Version::is_fresh), Some(false));
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        5 => Just(Deed::Rewrite),
        2 => Just(Deed::Change(SIZE)),
        1 => (LEAST..300_000).prop_map(Deed::Change),
        2 => Just(Deed::Stop),
        2 => Just(Deed::Break),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn whenever_it_is_rewritten_the_file_is_one_version(
        proof in prop::sample::select(PROOFS.to_vec()),
        ranges in prop::bool::weighted(0.8),
        connections in 1..3_usize,
        chunk in prop::option::of(20_000..200_000_u64),
        rate in 50_000..1_000_000_u64,
        written_for_ms in prop_oneof![0..3_000_u64, 0..100_000_u64],
        slot_ms in prop::option::of(500..5_000_u64),
        pause_ms in 50..3_000_u64,
        waits in any::<bool>(),
        deeds in prop::collection::vec((0..60_000_u64, deed()), 0..12),
        deaths in prop::collection::vec(any::<bool>(), 40),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.expect("a runtime").block_on(async {
            let mut at = 0;
            let deeds: VecDeque<_> = deeds.into_iter().map(|(gap, deed)| { at += gap; (at, deed) }).collect();
            let source = Source::by_the_clock(SIZE).with(|world| {
                (world.proof, world.ranges, world.deeds) = (proof, ranges || slot_ms.is_some(), deeds);
                (world.rate, world.piece) = (Some(rate), 10_000);
            });
            tokio::time::sleep(Duration::from_millis(written_for_ms)).await;
            let (mut job, mut store) = (Job::with_chunk(chunk), Memory::default());
            let mut links: Vec<Link> = (0..connections).map(|_| source.connect()).collect();
            let mut deaths = deaths.into_iter();
            let mut pulls = 0;
            loop {
                let slot = slot_ms.map_or_else(|| source.eternal(), |ms| source.slot(Duration::from_millis(ms)));
                match job.pull(&mut links, &mut store, &slot).await {
                    Ok(Outcome::Complete) => break,
                    Ok(Outcome::Unsettled(wait)) if waits => tokio::time::sleep(wait).await,
                    Ok(_) | Err(PullError::Source(Fault::Broken(_) | Fault::Changed)) => {}
                    Err(error) => panic!("{error}"),
                }
                pulls += 1;
                prop_assert!(pulls < 200, "it never ends");
                if deaths.next() == Some(true) {
                    (store, job.deferral) = (store.inherited(), Deferral::default());
                }
                tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            }
            let versions = source.world().versions.clone();
            prop_assert!(versions.iter().any(|version| version.whole() == store.bytes), "mixed: {versions:?}");
            Ok(())
        })?;
    }
}
