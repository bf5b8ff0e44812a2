//! The planner against a model of a link, and against a stream that goes on.

#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a model in floating point")]

use proptest::prelude::*;

use super::budget::DECIDING_VISITS;
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
        while let Some(ask) = planner.next(Some(secs(length - now)), Some(in_file), Room::default()) {
            requests += 1;
            let ask = ask.min(in_file);
            let takes = self.takes(ask);
            if now + takes > length {
                let part = ((length - now - self.latency).max(0.0) * self.bytes_per_sec) as u64;
                planner.measured(
                    part,
                    secs(self.latency.min(length - now)),
                    secs(length - now),
                    Duration::ZERO,
                );
                return (came + part, requests, now + takes - length);
            }
            planner.measured(ask, secs(self.latency), secs(takes), Duration::ZERO);
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
        planner.slot_began();
        link.slot(&mut planner, length, ENDLESS);
    }
    planner.slot_began();
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
    planner.slot_began();
    for _ in 0..5 {
        planner.measured(1 << 20, secs(0.02), secs(0.12), Duration::ZERO);
    }
    assert_eq!(planner.next(Some(secs(1.0)), Some(1 << 20), Room::default()), Some(1 << 20));
    assert_eq!(planner.next(Some(secs(0.03)), Some(10), Room::default()), Some(10));
    assert_eq!(
        planner.next(Some(secs(0.03)), None, Room::default()),
        None,
        "a dribble of a large file is not worth a request"
    );
    assert_eq!(
        planner.next(Some(secs(0.02)), Some(10), Room::default()),
        None,
        "there is no time for an answer"
    );
    assert_eq!(planner.next(Some(secs(1.0)), Some(0), Room::default()), None);
}

#[test]
fn without_a_deadline_all_the_rest_is_asked_for() {
    let mut planner = Planner::new(Config::default());
    assert_eq!(planner.next(None, None, Room::default()), Some(u64::MAX));
    assert_eq!(planner.next(None, Some(7), Room::default()), Some(u64::MAX));
    assert_eq!(planner.next(None, Some(0), Room::default()), None);
    let mut planner = Planner::new(Config { largest_bytes: 1 << 20, ..Config::default() });
    assert_eq!(planner.next(None, None, Room::default()), Some(1 << 20));
    assert_eq!(planner.next(None, Some(1 << 30), Room::default()), Some(1 << 20));
    assert_eq!(planner.next(None, Some(7), Room::default()), Some(u64::MAX));
}

#[test]
fn one_bad_moment_does_not_end_all_asking() {
    let mut planner = Planner::new(Config::default());
    planner.slot_began();
    planner.measured(1 << 10, secs(5.0), secs(6.0), Duration::ZERO);
    let asks = (0..2 * STUCK_AFTER).filter_map(|_| {
        planner.slot_began();
        planner.next(Some(secs(1.0)), None, Room::default())
    });
    assert!(asks.count() > 0);
}

/// A job at a link: its planner and its budgets, as a pull puts them together.
#[derive(Default)]
struct Job {
    planner: Option<Planner>,
    budgets: Budgets,
}

impl Job {
    /// One slot, which another member waits for or not; how many bytes came.
    fn slot(&mut self, link: &Link, visit: Visit, need: Need, is_waited_for: bool, in_file: u64) -> u64 {
        let planner = self.planner.get_or_insert_with(|| Planner::new(Config::default()));
        let length = visit.length.as_secs_f64();
        let capacity = planner.capacity(visit.length);
        planner.slot_began();
        let budget = self.budgets.slot_began(Visit { capacity, ..visit }, need);
        let (mut now, mut came) = (0.0, 0);
        while came < in_file && !(is_waited_for && budget.is_some_and(|budget| came >= budget)) {
            let room = Room { budget: budget.map(|budget| budget.saturating_sub(came)), limit: None };
            let Some(ask) = planner.next(Some(secs(length - now)), Some(in_file - came), room) else { break };
            let ask = ask.min(in_file - came);
            let takes = link.takes(ask);
            if now + takes > length {
                let part = ((length - now - link.latency).max(0.0) * link.bytes_per_sec) as u64;
                planner.measured(part, secs(link.latency), secs(length - now), Duration::ZERO);
                came += part;
                break;
            }
            planner.measured(ask, secs(link.latency), secs(takes), Duration::ZERO);
            now += takes;
            came += ask;
        }
        self.budgets.slot_ended(came);
        came
    }
}

const SLOT: f64 = 4.0;

fn visit(interval: f64) -> Visit {
    let (length, interval) = (secs(SLOT), Some(secs(interval)));
    Visit { length, interval, since_last: interval, capacity: None }
}

fn limited_to(bytes_per_sec: u64) -> Need {
    Need { limit: Some(bytes_per_sec), ..Need::default() }
}

#[test]
fn twice_the_inter_arrival_time_is_twice_the_bytes_per_slot() {
    let (mut job, link) = (Job::default(), Link { bytes_per_sec: 10e6, latency: 0.05 });
    for _ in 0..WARM_UP {
        job.slot(&link, visit(10.0), limited_to(500_000), true, ENDLESS);
    }
    let before = job.slot(&link, visit(10.0), limited_to(500_000), true, ENDLESS);
    let after = job.slot(&link, visit(20.0), limited_to(500_000), true, ENDLESS);
    let close = |came: u64, to: f64| (to..to + 70e3).contains(&(came as f64));
    assert!(close(before, 5e6) && close(after, 10e6), "{before} {after}");
    let change = std::iter::from_fn(|| job.budgets.poll_change()).last().expect("a change");
    assert_eq!(change.to_string(), "budget 5 MB → 10 MB: token returns every 20 s, was 10 s");
}

#[test]
fn a_job_whose_budget_is_used_up_goes_on_as_long_as_nobody_waits() {
    let (mut job, link) = (Job::default(), Link { bytes_per_sec: 10e6, latency: 0.05 });
    let mut slot = |is_waited_for| job.slot(&link, visit(10.0), limited_to(500_000), is_waited_for, ENDLESS);
    for _ in 0..WARM_UP {
        slot(false);
    }
    let (alone, waited_for) = (slot(false), slot(true));
    assert!(alone as f64 > 0.95 * SLOT * link.bytes_per_sec, "{alone}");
    assert!((5_000_000..5_070_000).contains(&waited_for), "{waited_for}");
}

#[test]
fn a_job_without_rate_uses_the_whole_slot_whoever_waits() {
    let (mut job, link) = (Job::default(), Link { bytes_per_sec: 10e6, latency: 0.05 });
    for _ in 0..WARM_UP {
        job.slot(&link, visit(10.0), Need::default(), true, ENDLESS);
    }
    let came = job.slot(&link, visit(10.0), Need::default(), true, ENDLESS);
    let budget = job.budgets.budget().expect("what a slot carries");
    assert!(came as f64 > 0.95 * SLOT * link.bytes_per_sec, "{came}");
    assert!(budget.abs_diff(came) * 20 < came, "{budget} {came}");
}

#[test]
fn a_job_whose_slots_cannot_carry_its_need_is_overloaded_after_three_visits() {
    let (mut job, link) = (Job::default(), Link { bytes_per_sec: 6.6e6, latency: 0.0 });
    let stream = |rate| Need { stream: Some(rate), ..Need::default() };
    for _ in 0..WARM_UP {
        job.slot(&link, visit(20.0), stream(650_000), true, ENDLESS);
    }
    assert_eq!(job.budgets.overload(), None, "13 MB of 26 MB");
    let mut told = Vec::new();
    for _ in 0..DECIDING_VISITS {
        job.slot(&link, visit(20.0), stream(2_050_000), true, ENDLESS);
        told.push(job.budgets.overload().map(|overload| overload.to_string()));
    }
    let words =
        "needs 41 MB per visit, a slot carries 26 MB: reduce the stream rate by 37 % or enlarge the slot";
    assert_eq!(told, [None, None, Some(words.to_owned())]);
    for _ in 0..DECIDING_VISITS {
        job.slot(&link, visit(20.0), stream(650_000), true, ENDLESS);
    }
    assert_eq!(job.budgets.overload(), None, "it has passed");
}

/// A large backlog takes several slots, and less than a slot carries is produced meanwhile: it is made up for.
#[test]
fn a_backlog_and_a_limit_that_the_link_does_not_reach_are_no_overload() {
    let link = Link { bytes_per_sec: 6.6e6, latency: 0.0 };
    let needs = [Need { stream: Some(650_000), backlog: 1 << 40, ..Need::default() }, limited_to(50_000_000)];
    for need in needs {
        let mut job = Job::default();
        for _ in 0..2 * WARM_UP {
            job.slot(&link, visit(20.0), need, true, ENDLESS);
        }
        assert_eq!(job.budgets.overload(), None, "{need:?}");
    }
    // A limit that the link reaches, but not in these slots.
    let mut job = Job::default();
    for _ in 0..2 * WARM_UP {
        job.slot(&link, visit(20.0), limited_to(2_050_000), true, ENDLESS);
    }
    let overload = job.budgets.overload().expect("overloaded").to_string();
    assert!(overload.contains("reduce the limit by 37 %"), "{overload}");
}

#[test]
fn changes_of_the_budget_tell_their_reason() {
    let mut budgets = Budgets::default();
    let mut told = |visit: Visit, need: Need| {
        budgets.slot_began(visit, need);
        budgets.slot_ended(0);
        budgets.poll_change().map(|change| change.to_string())
    };
    let stream = |stream, backlog| Need { stream: Some(stream), backlog, ..Need::default() };
    assert_eq!(told(visit(18.0), stream(444_000, 0)), None, "the first is no change");
    assert_eq!(told(visit(19.0), stream(444_000, 0)), None, "a little more is not worth a word");
    let change = told(visit(41.0), stream(444_000, 0));
    assert_eq!(change.as_deref(), Some("budget 8 MB → 18 MB: token returns every 41 s, was 18 s"));
    let change = told(visit(41.0), stream(888_000, 0));
    assert_eq!(change.as_deref(), Some("budget 18 MB → 36 MB: stream 888 KB/s, was 444 KB/s"));
    let change = told(visit(41.0), stream(888_000, 100_000_000));
    assert_eq!(change.as_deref(), Some("budget 36 MB → 136 MB: backlog 100 MB, was 0 B"));
    let change = told(Visit { capacity: Some(8_000_000), ..visit(41.0) }, Need::default());
    assert_eq!(change.as_deref(), Some("budget 136 MB → 8 MB: throughput 2 MB/s"));
    let change = told(Visit { capacity: Some(800_000), ..visit(41.0) }, Need::default());
    assert_eq!(change.as_deref(), Some("budget 8 MB → 800 KB: throughput 200 KB/s, was 2 MB/s"));
}

#[test]
fn a_range_that_was_held_back_proves_no_slow_link() {
    let mut planner = Planner::new(Config::default());
    let second = secs(1.0);
    for _ in 0..8 {
        planner.measured(10_000_000, Duration::ZERO, second, Duration::ZERO);
    }
    let free = planner.capacity(second).expect("known");
    for _ in 0..20 {
        planner.measured(1_000_000, Duration::ZERO, second, secs(0.9));
    }
    assert_eq!(planner.capacity(second), Some(free));
    for _ in 0..8 {
        planner.measured(20_000_000, Duration::ZERO, second, secs(0.2));
    }
    assert!(planner.capacity(second).is_some_and(|now| now > free), "but it may prove a faster one");
    let room = Room { budget: None, limit: Some(3_000_000) };
    planner.slot_began();
    assert_eq!(planner.next(Some(second), None, room), Some(3_000_000));
    let slow = |limit| Room { budget: None, limit: Some(limit) };
    assert_eq!(planner.next(Some(second), None, slow(20_000)), Some(20_000), "it takes the rest of the slot");
    assert_eq!(planner.next(Some(second), None, slow(10_000)), None, "a dribble");
}

const STREAM: u64 = 650_000;
const DOUBLED_AT: usize = 20;

/// What a subscriber to a stream of 650 KB/s is behind at the end of each of 40 slots of 4 s, on a link of 10 MB/s. The time
/// between two slots is about 20 s, give or take a fifth, and twice that from the twentieth slot on. Its budget is what it
/// is told, or that of `always`.
fn behind(seed: u64, always: Option<Visit>) -> Vec<f64> {
    let link = Link { bytes_per_sec: 10e6, latency: 0.05 };
    let mut rng = crate::base::Rng::seeded(seed);
    let (mut job, mut lag) = (Job::default(), 0.0);
    let mut recent = vec![20.0; 3];
    let slots = (0..2 * DOUBLED_AT).map(|at| {
        let usual = if at < DOUBLED_AT { 20.0 } else { 40.0 };
        let interval = usual * (0.8 + 0.4 * rng.fraction());
        recent.remove(0);
        recent.push(interval);
        lag += STREAM as f64 * (interval - SLOT);
        let measured = Visit { since_last: Some(secs(interval)), ..visit(recent.iter().sum::<f64>() / 3.0) };
        let backlog = if always.is_some() { 0 } else { (lag - STREAM as f64 * interval).max(0.0) as u64 };
        let need = Need { stream: Some(STREAM), backlog, ..Need::default() };
        let came = job.slot(&link, always.unwrap_or(measured), need, true, lag as u64);
        // While the slot runs, the stream goes on.
        lag += STREAM as f64 * SLOT - came as f64;
        lag
    });
    slots.collect()
}

fn most(lags: &[f64]) -> f64 {
    lags.iter().copied().fold(0.0, f64::max)
}

/// As long as a slot can carry what an inter-arrival time brings: 40 MB against 31 at most.
#[test]
fn a_stream_is_caught_up_within_three_slots_after_inter_arrival_times_double() {
    for seed in 0..50 {
        let lags = behind(seed, None);
        let old_bound = most(&lags[DOUBLED_AT / 2..DOUBLED_AT]);
        assert!(old_bound < 2.0 * STREAM as f64 * SLOT, "seed {seed}: never caught up: {lags:?}");
        let after = most(&lags[DOUBLED_AT + 3..]);
        assert!(after <= old_bound + 1e3, "seed {seed}: {after} > {old_bound}: {lags:?}");
        // A budget that stays as it was leaves the job behind for good, so this does measure something.
        let stubborn = behind(seed, Some(visit(20.0 * 1.2)));
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
        planner.slot_began();
        for bytes in ranges {
            planner.measured(bytes, secs(latency), secs(link.takes(bytes)), Duration::ZERO);
        }
        if let Some(ask) = planner.next(Some(secs(left)), in_file, Room::default()) {
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
            planner.measured(bytes, secs(wait), secs(took), Duration::ZERO);
            prop_assert_eq!(planner.next(None, in_file, Room::default()), Some(u64::MAX));
        }
    }

    #[test]
    fn nothing_that_is_measured_upsets_it(
        steps in prop::collection::vec((any::<u64>(), 0.0_f64..1e6, 0.0_f64..1e6, 0.0_f64..100.0), 0..40),
    ) {
        let mut planner = Planner::new(Config::default());
        for (bytes, wait, took, left) in steps {
            planner.slot_began();
            prop_assert_ne!(planner.next(Some(secs(left)), None, Room::default()), Some(0));
            planner.measured(bytes, secs(wait), secs(took), Duration::ZERO);
        }
    }
}
