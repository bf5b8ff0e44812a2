//! Not a byte after the slot, nothing that outlives an order to stop, and slots that are used to their end.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::world::{Deed, Job, Link, Memory, Proof, Source};
use crate::fetch::Fault;
use crate::fetch::engine::{Outcome, PullError};
use crate::fetch::limit::Limiter;

const MIB: u64 = 1 << 20;

/// Far more than any of these pulls takes in virtual time.
const LONG: Duration = Duration::from_secs(3_600);

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[tokio::test(start_paused = true)]
async fn no_byte_is_read_after_the_deadline() {
    let source = Source::new(100 * MIB).with(|world| {
        (world.rate, world.latency) = (Some(MIB), ms(30));
    });
    let (mut job, mut store, mut links) = (Job::new(), Memory::default(), [source.connect()]);
    for _ in 0..20 {
        let deadline = Instant::now() + ms(700);
        let slot = source.slot(ms(700));
        let outcome = job.pull(&mut links, &mut store, &slot).await.expect("no fault");
        assert_eq!(outcome, Outcome::SlotOver);
        let last = source.world().reads.last().copied().expect("something was read");
        assert!(last <= deadline, "a read {:?} after the end", last - deadline);
        tokio::time::sleep(ms(700)).await;
    }
    assert_eq!(store.bytes[..], source.world().now().bytes(0, store.bytes.len() as u64)[..]);
}

#[tokio::test(start_paused = true)]
async fn a_slow_link_is_cut_at_the_deadline_and_goes_on_in_the_next_slot() {
    // The first range takes longer than the slot.
    let source = Source::new(300_000).with(|world| (world.rate, world.piece) = (Some(100_000), 1_000));
    let (mut job, mut store, mut links) = (Job::new(), Memory::default(), [source.connect()]);
    let mut slots = 0;
    while job.pull(&mut links, &mut store, &source.slot(ms(1_000))).await.expect("no fault")
        != Outcome::Complete
    {
        slots += 1;
        assert!(slots < 10, "no progress");
    }
    assert!(job.seen.cuts() >= 1);
    assert_eq!(store.bytes, source.world().now().whole());
}

#[tokio::test(start_paused = true)]
async fn a_slow_link_brings_something_new_in_every_slot_where_the_end_is_compared() {
    // In each slot the end of what was there took all of the time.
    for rate in [4_000, 20_000, 60_000] {
        let source = Source::new(200_000).with(|world| {
            (world.proof, world.rate, world.piece) = (Proof::Nothing, Some(rate), 1_000);
        });
        let (mut job, mut store, mut links) = (Job::new(), Memory::default(), [source.connect()]);
        let mut slots = 0;
        while job.pull(&mut links, &mut store, &source.slot(ms(1_000))).await.expect("no fault")
            != Outcome::Complete
        {
            slots += 1;
            assert!(slots < 3 * 200_000 / rate, "no progress at {rate} bytes per second");
        }
        assert_eq!(store.bytes, source.world().now().whole());
    }
}

/// Pulls until the order to stop, given after a second, and says how long it took to be obeyed.
async fn obeys(source: &Source, mut links: Vec<Link>, mut store: Memory, mut job: Job) -> Duration {
    let slot = source.slot(LONG);
    let stop = source.world().stop.clone();
    let order = async {
        tokio::time::sleep(ms(1_000)).await;
        stop.send_replace(true);
        Instant::now()
    };
    let pulling = async {
        let outcome = timeout(LONG, job.pull(&mut links, &mut store, &slot)).await.expect("it ends");
        assert_eq!(outcome.expect("no fault"), Outcome::SlotOver);
        Instant::now()
    };
    let (ordered, ended) = tokio::join!(order, pulling);
    assert!(ended >= ordered, "it ended before the order");
    ended - ordered
}

#[tokio::test(start_paused = true)]
async fn an_order_to_stop_is_obeyed_at_once_whatever_is_waited_for() {
    let at_once = ms(50);
    let source = Source::new(MIB);

    let mut job = Job::new();
    job.limiters = vec![Limiter::new(None), Limiter::new(Some(10))];
    assert!(obeys(&source, vec![source.connect()], Memory::default(), job).await < at_once, "a limit");

    let blocked = Memory::blocked;
    assert!(obeys(&source, vec![source.connect()], blocked(), Job::new()).await < at_once, "a full disk");
    let many = vec![source.connect(), source.connect(), source.connect()];
    assert!(obeys(&source, many, blocked(), Job::new()).await < at_once, "a full disk, for several");

    let stalled = Source::new(MIB).with(|world| world.deeds = [(100_000, Deed::Stall)].into());
    assert!(obeys(&stalled, vec![stalled.connect()], Memory::default(), Job::new()).await < at_once, "bytes");

    let mute = Source::new(MIB).with(|world| world.is_mute = true);
    assert!(obeys(&mute, vec![mute.connect()], Memory::default(), Job::new()).await < at_once, "an answer");
    let many = vec![mute.connect(), mute.connect()];
    assert!(obeys(&mute, many, Memory::default(), Job::new()).await < at_once, "an answer to several");
}

#[tokio::test(start_paused = true)]
async fn the_order_is_obeyed_while_bytes_are_compared_and_while_the_end_is_looked_at() {
    let source = Source::new(3 * MIB).with(|world| {
        (world.proof, world.piece) = (Proof::Size, 1_000);
        world.deeds = [(MIB, Deed::Stop), (MIB + 30_000, Deed::Stop)].into();
    });
    let (mut job, mut store, mut links) = (Job::new(), Memory::default(), [source.connect()]);
    for _ in 0..2 {
        let outcome = job.pull(&mut links, &mut store, &source.eternal()).await.expect("no fault");
        assert_eq!(outcome, Outcome::SlotOver);
    }
    // One piece was on its way when the order came.
    let given = source.world().given;
    assert!(given <= MIB + 30_000 + 2 * 1_000, "{given}: read on after the order");
    let outcome = job.pull(&mut links, &mut store, &source.eternal()).await.expect("no fault");
    assert_eq!(outcome, Outcome::Complete);
    assert_eq!(store.bytes, source.world().now().whole());
}

#[tokio::test(start_paused = true)]
async fn ranges_end_before_the_deadline_and_slots_are_used() {
    let (rate, length) = (2 * MIB, Duration::from_secs(4));
    let source = Source::new(200 * MIB).with(|world| {
        (world.rate, world.latency, world.piece) = (Some(rate), ms(40), 16 << 10);
    });
    let (mut job, mut store, mut links) = (Job::new(), Memory::default(), [source.connect()]);
    let mut came = Vec::new();
    for _ in 0..8 {
        let before = source.world().given;
        let slot = source.slot(length);
        assert_eq!(job.pull(&mut links, &mut store, &slot).await.expect("no fault"), Outcome::SlotOver);
        came.push(source.world().given - before);
    }
    assert_eq!(job.seen.cuts(), 0, "a range did not end before its slot");
    let most = rate as f64 * length.as_secs_f64();
    assert!(came[2..].iter().all(|bytes| *bytes as f64 > 0.8 * most), "slots are wasted: {came:?}");
}

/// A limit of 1 MB/s that held at any moment was 0.1 MB/s in one slot of ten.
#[tokio::test(start_paused = true)]
async fn a_limit_that_is_an_average_is_reached_in_one_slot_of_ten() {
    let (rate, period, length) = (1_000_000, Duration::from_secs(5), ms(500));
    let source = Source::new(200 * MIB).with(|world| {
        (world.rate, world.latency, world.piece) = (Some(30 * MIB), ms(20), 16 << 10);
    });
    let (mut job, mut store, mut links) = (Job::new(), Memory::default(), [source.connect()]);
    let limiter = Limiter::new(Some(rate));
    limiter.average_over(Some(period));
    job.limiters = vec![limiter];
    let (begun, mut came) = (Instant::now(), Vec::new());
    for visit in 0..10_u32 {
        let before = source.world().given;
        let outcome = job.pull(&mut links, &mut store, &source.slot(length)).await;
        assert_eq!(outcome.expect("no fault"), Outcome::SlotOver);
        came.push(source.world().given - before);
        let all: u64 = came.iter().sum();
        let most = rate as f64 * begun.elapsed().as_secs_f64();
        assert!(all as f64 <= most + 100_000.0, "{all} bytes, at most {most}");
        tokio::time::sleep_until(begun + period * (visit + 1)).await;
    }
    let usual = 4_900_000..5_100_000;
    assert!(came[4..].iter().all(|bytes| usual.contains(bytes)), "{came:?}");
    assert!(job.seen.cuts() <= 2, "{} ranges did not end before their slot", job.seen.cuts());
}

#[tokio::test(start_paused = true)]
async fn a_pull_ends_with_its_budget_if_somebody_waits_and_goes_on_if_nobody_does() {
    let source = Source::new(200 * MIB).with(|world| {
        (world.rate, world.latency, world.piece) = (Some(10 * MIB), ms(20), 16 << 10);
    });
    let (mut job, mut store, mut links) = (Job::new(), Memory::default(), [source.connect()]);
    let (told, wanted) = watch::channel(true);
    let mut came = Vec::new();
    for (is_wanted, budget) in [(false, 0), (false, 2 * MIB), (true, 2 * MIB), (true, 5 * MIB)] {
        told.send_replace(is_wanted);
        let tally = Arc::clone(&job.seen.tally);
        let slot = source.slot(ms(1_000)).wanted_when(wanted.clone()).tallied(Arc::clone(&tally));
        tally.begin(Some(budget));
        let outcome = job.pull(&mut links, &mut store, &slot).await;
        assert_eq!(outcome.expect("no fault"), Outcome::SlotOver);
        came.push(tally.came());
    }
    assert_eq!(came[2..], [2 * MIB, 5 * MIB], "{came:?}");
    assert!(came[1] > 7 * MIB, "{came:?}");
    assert!(job.seen.cuts() <= 1, "it does not let go by breaking its connection");
}

#[tokio::test(start_paused = true)]
async fn what_is_left_of_a_slot_and_worth_nothing_is_given_back_unasked() {
    let source = Source::new(100 * MIB).with(|world| (world.rate, world.latency) = (Some(MIB), ms(50)));
    let (mut job, mut store, mut links) = (Job::new(), Memory::default(), [source.connect()]);
    let slot = source.slot(Duration::from_secs(4));
    job.pull(&mut links, &mut store, &slot).await.expect("no fault");
    assert!(slot.left().is_some_and(|left| !left.is_zero()), "the slot was used to the last instant");
    let asked = source.world().asked.len();
    let with_rest = slot.clone();
    job.planner.slot_began();
    // Not the job's own slot_began: this is what is left of a slot that was begun.
    assert_eq!(job.pull(&mut links, &mut store, &with_rest).await.expect("no fault"), Outcome::SlotOver);
    assert!(source.world().asked.len() <= asked + 1, "many questions in a moment");
    let begun = Instant::now();
    assert_eq!(
        job.pull(&mut links, &mut store, &source.slot(ms(20))).await.expect("no fault"),
        Outcome::SlotOver
    );
    assert_eq!(begun.elapsed(), Duration::ZERO, "it waited for the end of a slot that is too short");
}

#[tokio::test(start_paused = true)]
async fn a_source_that_drips_is_given_up_and_our_own_limit_is_not_its_fault() {
    let drip = Source::new(MIB).with(|world| (world.rate, world.piece) = (Some(100), 100));
    let mut job = Job::new();
    job.min_speed = 1_024;
    let begun = Instant::now();
    let outcome = job.pull(&mut [drip.connect()], &mut Memory::default(), &drip.eternal()).await;
    assert!(matches!(outcome, Err(PullError::Source(Fault::Slow(1_024)))), "{outcome:?}");
    assert!((30..40).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());

    let quick = Source::new(100_000);
    let mut job = Job::new();
    (job.min_speed, job.limiters) = (1 << 20, vec![Limiter::new(Some(500))]);
    let mut store = Memory::default();
    let outcome = job.pull(&mut [quick.connect()], &mut store, &quick.eternal()).await;
    assert_eq!(outcome.expect("no fault"), Outcome::Complete);
}

#[tokio::test(start_paused = true)]
async fn a_source_that_cannot_continue_fits_into_the_slot_or_is_no_source_for_slots() {
    let source = Source::new(MIB).with(|world| (world.ranges, world.rate) = (false, Some(MIB)));
    let mut store = Memory::default();
    let outcome = Job::new().pull(&mut [source.connect()], &mut store, &source.slot(ms(4_000))).await;
    assert_eq!(outcome.expect("it fits"), Outcome::Complete);
    assert_eq!(store.bytes, source.world().now().whole());

    let (mut job, mut store, mut links) = (Job::new(), Memory::default(), [source.connect()]);
    let outcome = job.pull(&mut links, &mut store, &source.slot(ms(500))).await;
    assert_eq!(outcome.expect("no fault yet"), Outcome::SlotOver);
    let outcome = job.pull(&mut links, &mut store, &source.slot(ms(500))).await;
    assert!(matches!(outcome, Err(PullError::Source(Fault::Unsupported(_)))), "{outcome:?}");
}

#[tokio::test(start_paused = true)]
async fn a_source_that_cannot_continue_is_asked_for_all_of_it_whatever_the_chunk() {
    let source = Source::new(10 * MIB).with(|world| world.ranges = false);
    let (mut job, mut store) = (Job::with_chunk(Some(100_000)), Memory::default());
    let outcome = job.pull(&mut [source.connect()], &mut store, &source.eternal()).await;
    assert_eq!(outcome.expect("no fault"), Outcome::Complete);
    assert_eq!(store.bytes, source.world().now().whole());
    assert_eq!(source.world().given, 10 * MIB, "bytes came twice");
    assert_eq!(source.world().asked, [(0, Some(100_000)), (0, None)]);
}

#[tokio::test(start_paused = true)]
async fn several_connections_pull_each_byte_once() {
    let source = Source::new(50 * MIB + 7).with(|world| {
        (world.latency, world.piece, world.rate) = (ms(20), 200_000, Some(8 * MIB));
    });
    let mut links = [source.connect(), source.connect(), source.connect(), source.connect()];
    let (mut store, mut job, begun) = (Memory::default(), Job::new(), Instant::now());
    let outcome = job.pull(&mut links, &mut store, &source.eternal()).await;
    assert_eq!(outcome.expect("no fault"), Outcome::Complete);
    assert_eq!(source.world().given, 50 * MIB + 7);
    assert!(begun.elapsed() < Duration::from_secs(4), "one after the other: {:?}", begun.elapsed());
    assert_eq!(store.bytes, source.world().now().whole());
}

#[tokio::test(start_paused = true)]
async fn a_pull_without_a_connection_says_so() {
    let source = Source::new(1);
    let outcome = Job::new().pull(&mut [], &mut Memory::default(), &source.eternal()).await;
    assert!(matches!(outcome, Err(PullError::Source(Fault::Unsupported(_)))), "{outcome:?}");
}
