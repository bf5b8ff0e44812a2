//! The planner against a model of a link, and against a stream that goes on.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "bytes of a model: not negative, and no petabyte"
)]

use proptest::prelude::*;

use super::*;

fn secs(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// A link of steady throughput and latency.
struct Link {
    bytes_per_sec: f64,
    latency: f64,
}

impl Link {
    fn takes(&self, bytes: u64) -> f64 {
        self.latency + bytes as f64 / self.bytes_per_sec
    }

    /// Runs one slot and says how many bytes came by the deadline, how many requests there were, and by how much the
    /// last one overran (it is cut there).
    fn slot(&self, planner: &mut Planner, length: f64, mut in_file: u64) -> (u64, u32, f64) {
        let (mut now, mut came, mut requests) = (0.0, 0_u64, 0);
        while let Some(ask) = planner.next(Some(secs(length - now)), Some(in_file)) {
            requests += 1;
            let ask = ask.min(in_file);
            let takes = self.takes(ask);
            if now + takes > length {
                let part = ((length - now - self.latency).max(0.0) * self.bytes_per_sec) as u64;
                planner.measured(part, secs(self.latency.min(length - now)), secs(length - now));
                return (came + part, requests, now + takes - length);
            }
            planner.measured(ask, secs(self.latency), secs(takes));
            now += takes;
            came += ask;
            in_file -= ask;
        }
        (came, requests, 0.0)
    }
}

const WARM_UP: usize = 6;
const ENDLESS: u64 = 1 << 50;

/// The share of what the link can bring, once warm.
fn used(link: &Link, length: f64) -> (f64, u32, f64) {
    let mut planner = Planner::new(Config::default());
    for _ in 0..WARM_UP {
        planner.slot_began(secs(length), None);
        link.slot(&mut planner, length, ENDLESS);
    }
    planner.slot_began(secs(length), None);
    let (came, requests, overrun) = link.slot(&mut planner, length, ENDLESS);
    (came as f64 / (link.bytes_per_sec * length), requests, overrun)
}

#[test]
fn a_slot_of_a_second_at_20_ms_is_used_to_95_percent_by_one_or_two_requests() {
    for bytes_per_sec in [2e6, 12.5e6, 125e6, 1.25e9] {
        let (share, requests, overrun) = used(&Link { bytes_per_sec, latency: 0.02 }, 1.0);
        assert!(share >= 0.95, "{bytes_per_sec}: {share}");
        assert!(requests <= 2 && overrun == 0.0, "{bytes_per_sec}: {requests} requests, {overrun} s over");
    }
}

#[test]
fn a_slow_link_still_makes_progress_in_every_slot() {
    let link = Link { bytes_per_sec: 8e3, latency: 0.3 };
    let (share, requests, overrun) = used(&link, 1.0);
    assert!(share > 0.5 && requests == 1 && overrun == 0.0, "{share} {requests} {overrun}");
}

#[test]
fn a_small_file_is_fetched_if_there_is_time_for_it() {
    let mut planner = Planner::new(Config::default());
    planner.slot_began(secs(1.0), None);
    for _ in 0..5 {
        planner.measured(1 << 20, secs(0.02), secs(0.12));
    }
    assert_eq!(planner.next(Some(secs(1.0)), Some(1 << 20)), Some(1 << 20));
    assert_eq!(planner.next(Some(secs(0.03)), Some(10)), Some(10));
    assert_eq!(
        planner.next(Some(secs(0.03)), None),
        None,
        "a dribble of a large file is not worth a request"
    );
    assert_eq!(planner.next(Some(secs(0.02)), Some(10)), None, "there is no time for an answer");
    assert_eq!(planner.next(Some(secs(1.0)), Some(0)), None);
}

#[test]
fn without_a_deadline_all_the_rest_is_asked_for() {
    let mut planner = Planner::new(Config::default());
    assert_eq!(planner.next(None, None), Some(u64::MAX));
    assert_eq!(planner.next(None, Some(7)), Some(u64::MAX));
    assert_eq!(planner.next(None, Some(0)), None);
    let mut planner = Planner::new(Config { largest_bytes: 1 << 20, ..Config::default() });
    assert_eq!(planner.next(None, None), Some(1 << 20));
    assert_eq!(planner.next(None, Some(1 << 30)), Some(1 << 20));
    assert_eq!(planner.next(None, Some(7)), Some(u64::MAX));
}

#[test]
fn one_bad_moment_does_not_end_all_asking() {
    let mut planner = Planner::new(Config::default());
    planner.slot_began(secs(1.0), None);
    planner.measured(1 << 10, secs(5.0), secs(6.0));
    let asks = (0..2 * STUCK_AFTER).filter_map(|_| {
        planner.slot_began(secs(1.0), None);
        planner.next(Some(secs(1.0)), None)
    });
    assert!(asks.count() > 0);
}

#[test]
fn a_change_of_chunk_tells_its_reason() {
    let mut planner = Planner::new(Config::default());
    for _ in 0..5 {
        planner.measured(16 << 20, secs(0.02), secs(0.5));
    }
    let mut slot = |return_time: f64| {
        planner.slot_began(secs(4.0), Some(secs(return_time)));
        planner.need(325_000, secs(return_time), Duration::ZERO);
        planner.next(Some(secs(4.0)), None);
        planner.poll_change().map(|change| change.to_string())
    };
    assert_eq!(slot(18.0), None);
    assert_eq!(slot(19.0), None, "a little more is not worth a word");
    assert_eq!(slot(41.0).as_deref(), Some("chunk 5.6M→13M: return time 41 s, twice the 18 s before"));
    assert_eq!(slot(41.0), None);
    for _ in 0..8 {
        planner.measured(1 << 20, secs(0.02), secs(0.52));
    }
    planner.slot_began(secs(4.0), None);
    planner.next(Some(secs(4.0)), None);
    let change = planner.poll_change().expect("a change").to_string();
    assert!(change.contains("throughput 2M/s, 0.1 times the 33M/s before"), "{change}");
}

const STREAM: u64 = 650_000;
const SLOT: f64 = 4.0;
const DOUBLED_AT: usize = 20;

/// What a subscriber to a stream of 650 KB/s is behind at the end of each of 40 slots of 4 s, on a link of 10 MB/s. The time
/// between two slots is about 20 s, give or take a fifth, and twice that from the twentieth slot on. `most` is the most that
/// a slot may bring, for a subscriber that does not adapt.
fn behind(seed: u64, most: u64) -> Vec<f64> {
    let link = Link { bytes_per_sec: 10e6, latency: 0.05 };
    let mut rng = crate::base::Rng::seeded(seed);
    let mut planner = Planner::new(Config::default());
    let mut lag = 0.0;
    let slots = (0..2 * DOUBLED_AT).map(|visit| {
        let usual = if visit < DOUBLED_AT { 20.0 } else { 40.0 };
        let return_time = usual * (0.8 + 0.4 * rng.fraction());
        lag += STREAM as f64 * (return_time - SLOT);
        planner.slot_began(secs(SLOT), Some(secs(return_time)));
        let need = planner.need(STREAM, secs(return_time), secs(return_time));
        let (came, _, overrun) = link.slot(&mut planner, SLOT, need.min(lag as u64).min(most));
        assert!(overrun == 0.0 || visit < 3, "visit {visit}: {overrun} s over");
        // While the slot runs, the stream goes on.
        lag += STREAM as f64 * SLOT - came as f64;
        lag
    });
    slots.collect()
}

fn most(lags: &[f64]) -> f64 {
    lags.iter().copied().fold(0.0, f64::max)
}

/// As long as a slot can carry what a return time brings: 40 MB against 31 at most.
#[test]
fn a_stream_is_caught_up_within_three_slots_after_return_times_double() {
    for seed in 0..50 {
        let lags = behind(seed, u64::MAX);
        let old_bound = most(&lags[DOUBLED_AT / 2..DOUBLED_AT]);
        assert!(old_bound < 2.0 * STREAM as f64 * SLOT, "seed {seed}: never caught up: {lags:?}");
        let after = most(&lags[DOUBLED_AT + 2..]);
        assert!(after <= old_bound + 1.0, "seed {seed}: {after} > {old_bound}: {lags:?}");
        // Whoever goes on with the chunk of before is left behind for good, so this does measure something.
        let chunk = (STREAM as f64 * 20.0 * 1.2) as u64;
        let stubborn = behind(seed, chunk);
        assert!(most(&stubborn[..DOUBLED_AT]) <= 2.0 * old_bound, "seed {seed}: {stubborn:?}");
        assert!(stubborn[2 * DOUBLED_AT - 1] > 20.0 * old_bound, "seed {seed}: {stubborn:?}");
    }
}

proptest! {
    #[test]
    fn never_asks_past_the_deadline_at_the_measured_rate_and_never_for_nothing(
        bytes_per_sec in 1e3_f64..1e10,
        latency in 0.0_f64..0.5,
        left in 0.0_f64..10.0,
        ranges in prop::collection::vec(1_u64..100_000_000, 1..20),
        in_file in prop::option::of(0_u64..1_000_000_000),
    ) {
        let link = Link { bytes_per_sec, latency };
        let mut planner = Planner::new(Config::default());
        planner.slot_began(secs(10.0), None);
        for bytes in ranges {
            planner.measured(bytes, secs(latency), secs(link.takes(bytes)));
        }
        if let Some(ask) = planner.next(Some(secs(left)), in_file) {
            prop_assert!(ask > 0);
            prop_assert!(ask <= in_file.unwrap_or(u64::MAX));
            prop_assert!(link.takes(ask) <= left + 1e-6, "{ask} bytes take {} of {left} s", link.takes(ask));
        }
    }

    #[test]
    fn an_eternal_slot_always_goes_on(
        measured in prop::collection::vec((0_u64..1_000_000, 0.0_f64..5.0, 0.0_f64..5.0), 0..20),
        in_file in prop::option::of(1_u64..1_000_000_000),
    ) {
        let mut planner = Planner::new(Config::default());
        for (bytes, wait, took) in measured {
            planner.measured(bytes, secs(wait), secs(took));
            prop_assert_eq!(planner.next(None, in_file), Some(u64::MAX));
        }
    }

    #[test]
    fn nothing_that_is_measured_upsets_it(
        steps in prop::collection::vec((any::<u64>(), 0.0_f64..1e6, 0.0_f64..1e6, 0.0_f64..100.0), 0..40),
    ) {
        let mut planner = Planner::new(Config::default());
        for (bytes, wait, took, left) in steps {
            planner.slot_began(secs(left), Some(secs(took)));
            planner.need(bytes, secs(wait), secs(took));
            prop_assert_ne!(planner.next(Some(secs(left)), None), Some(0));
            planner.measured(bytes, secs(wait), secs(took));
            while planner.poll_change().is_some() {}
        }
    }
}
