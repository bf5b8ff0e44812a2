//! A file that is rewritten in place, at any moment and by a clock of whole seconds: the complete file is one version.

use std::collections::VecDeque;
use std::time::Duration;

use proptest::prelude::*;

use super::world::{Deed, Job, Link, Memory, Proof, Source};
use crate::fetch::engine::{Event, Outcome, PullError, Restart};
use crate::fetch::store::Store as _;
use crate::fetch::{Fault, Version};

/// Proofs that show any other version, apart from one that was written within the same second.
const PROOFS: [Proof; 4] = [Proof::Tag, Proof::DateTag, Proof::WeakTag, Proof::Date];

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

/// Deeds in a run with slots: one other version at most. Nothing is waited for in a slot, so two writes within one second
/// are not told apart there.
fn one_rewrite(deeds: Vec<(u64, Deed)>) -> Vec<(u64, Deed)> {
    let is_write = |deed: &Deed| matches!(deed, Deed::Rewrite | Deed::Change(_));
    let mut has_written = false;
    let mut keep = |deed: &Deed| !is_write(deed) || !std::mem::replace(&mut has_written, true);
    deeds.into_iter().filter(|(_, deed)| keep(deed)).collect()
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
        pause_ms in 0..3_000_u64,
        deeds in prop::collection::vec((0..60_000_u64, deed()), 0..12),
        deaths in prop::collection::vec(any::<bool>(), 40),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.expect("a runtime").block_on(async {
            let mut at = 0;
            let (deeds, written_for_ms) = match slot_ms {
                Some(_) => (one_rewrite(deeds), written_for_ms.max(3_000)),
                None => (deeds, written_for_ms),
            };
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
                    Ok(Outcome::SlotOver) | Err(PullError::Source(Fault::Broken(_) | Fault::Changed)) => {}
                    Err(error) => panic!("{error}"),
                }
                pulls += 1;
                prop_assert!(pulls < 200, "it never ends");
                if deaths.next() == Some(true) {
                    store = store.inherited();
                }
                tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            }
            let versions = source.world().versions.clone();
            prop_assert!(versions.iter().any(|version| version.whole() == store.bytes), "mixed: {versions:?}");
            Ok(())
        })?;
    }
}
