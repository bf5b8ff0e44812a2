//! What a member's own visits tell about the circle: return times, access intervals, and the load factor.
//!
//! The load factor is the mean access interval divided by the nominal period Δ_op·N_max; above 1 there are more members
//! than the circle was laid out for. Everything is measured over the most recent visits only, so that it
//! follows a circle that grows or shrinks.

use std::collections::VecDeque;
use std::time::Duration;

use crate::base::Time;

/// How many intervals are looked at: enough for a 99th percentile that means something, few enough to follow a change.
pub const WINDOW: usize = 256;

/// What happens to the meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// A token visited this member.
    Visited,
    /// A slot of this member began.
    SlotBegan,
}

/// The meter of one member.
#[derive(Clone, Debug)]
pub struct Load {
    nominal_period: Duration,
    last_visit: Option<Time>,
    last_slot: Option<Time>,
    return_times: Window,
    access_intervals: Window,
}

/// A summary of the most recent intervals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Over how many intervals.
    pub count: usize,
    /// The mean.
    pub mean: Duration,
    /// Half of them are no longer.
    pub p50: Duration,
    /// Nine of ten are no longer.
    pub p90: Duration,
    /// 99 of 100 are no longer.
    pub p99: Duration,
    /// The mean of the newer half over that of the older half: 1 is steady, 2 has doubled.
    pub trend: f64,
}

impl Load {
    /// A member that has seen nothing yet, of a circle with this nominal period.
    pub fn new(nominal_period: Duration) -> Self {
        Self {
            nominal_period,
            last_visit: None,
            last_slot: None,
            return_times: Window::default(),
            access_intervals: Window::default(),
        }
    }

    /// The circle has another nominal period. What was measured stays: it is the members' doing, not the charter's.
    pub fn set_nominal_period(&mut self, nominal_period: Duration) {
        self.nominal_period = nominal_period;
    }

    /// Takes in what happened at `now`.
    pub fn handle(&mut self, input: Input, now: Time) {
        let (last, window) = match input {
            Input::Visited => (&mut self.last_visit, &mut self.return_times),
            Input::SlotBegan => (&mut self.last_slot, &mut self.access_intervals),
        };
        if let Some(before) = last.replace(now) {
            window.push(now.since(before));
        }
    }

    /// The times between two visits; `None` before the second visit.
    pub fn return_times(&self) -> Option<Summary> {
        self.return_times.summary()
    }

    /// The times between the beginnings of two slots; `None` before the second slot.
    pub fn access_intervals(&self) -> Option<Summary> {
        self.access_intervals.summary()
    }

    /// Mean access interval ÷ nominal period; above 1 is overload.
    pub fn factor(&self) -> Option<f64> {
        let mean = self.access_intervals()?.mean;
        Some(mean.as_secs_f64() / self.nominal_period.as_secs_f64())
    }
}

/// The last [`WINDOW`] intervals, the newest last.
#[derive(Clone, Debug, Default)]
struct Window(VecDeque<Duration>);

impl Window {
    fn push(&mut self, interval: Duration) {
        if self.0.len() == WINDOW {
            self.0.pop_front();
        }
        self.0.push_back(interval);
    }

    fn summary(&self) -> Option<Summary> {
        let count = self.0.len();
        if count == 0 {
            return None;
        }
        let mut sorted: Vec<Duration> = self.0.iter().copied().collect();
        sorted.sort_unstable();
        // The smallest value that at least `percent` of all do not exceed.
        let percentile = |percent: usize| {
            let rank = (count * percent).div_ceil(100).max(1);
            sorted.get(rank - 1).copied().unwrap_or_default()
        };
        Some(Summary {
            count,
            mean: mean(self.0.iter()).unwrap_or_default(),
            p50: percentile(50),
            p90: percentile(90),
            p99: percentile(99),
            trend: self.trend().unwrap_or(1.0),
        })
    }

    fn trend(&self) -> Option<f64> {
        let half = self.0.len() / 2;
        let older = mean(self.0.iter().take(half))?;
        let newer = mean(self.0.iter().skip(half))?;
        (!older.is_zero()).then(|| newer.as_secs_f64() / older.as_secs_f64())
    }
}

fn mean<'a>(intervals: impl ExactSizeIterator<Item = &'a Duration>) -> Option<Duration> {
    let count = u32::try_from(intervals.len()).ok().filter(|&count| count > 0)?;
    let sum = intervals.fold(Duration::ZERO, |sum, &interval| sum.saturating_add(interval));
    Some(sum / count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after_slots_at(seconds: impl IntoIterator<Item = u64>) -> Load {
        let mut load = Load::new(Duration::from_secs(100));
        for second in seconds {
            load.handle(Input::SlotBegan, Time::from_secs(second));
        }
        load
    }

    #[test]
    fn before_the_second_slot_nothing_is_known() {
        assert_eq!(after_slots_at([]).factor(), None);
        assert_eq!(after_slots_at([5]).access_intervals(), None);
    }

    #[test]
    fn the_load_factor_is_the_mean_interval_over_the_nominal_period() {
        let load = after_slots_at((0..50).map(|n| n * 150));
        assert_eq!(load.factor(), Some(1.5));
        assert_eq!(load.return_times(), None, "slots are not visits");
    }

    #[test]
    fn percentiles_are_those_of_the_intervals() {
        let mut at = 0;
        let load = after_slots_at((0..=100).map(|n| {
            at += n;
            at
        }));
        let summary = load.access_intervals().unwrap();
        assert_eq!(summary.count, 100);
        assert_eq!(summary.mean, Duration::from_millis(50_500));
        assert_eq!(summary.p50, Duration::from_secs(50));
        assert_eq!(summary.p90, Duration::from_secs(90));
        assert_eq!(summary.p99, Duration::from_secs(99));
    }

    #[test]
    fn the_trend_tells_a_circle_that_fills_up() {
        let steady = after_slots_at((0..40).map(|n| n * 100));
        assert!((steady.access_intervals().unwrap().trend - 1.0).abs() < 1e-9);
        let doubled = after_slots_at((0..=20).map(|n| n * 100).chain((1..=20).map(|n| 2000 + n * 200)));
        assert!((doubled.access_intervals().unwrap().trend - 2.0).abs() < 1e-9);
    }

    #[test]
    fn it_looks_at_recent_intervals_only_and_stays_bounded() {
        let old = (0..1000).map(|n| n * 1000);
        let new = (1..=WINDOW as u64).map(|n| 999_000 + n * 10);
        let summary = after_slots_at(old.chain(new)).access_intervals().unwrap();
        assert_eq!(summary.count, WINDOW);
        assert_eq!(summary.mean, Duration::from_secs(10));
    }

    #[test]
    fn two_visits_at_one_moment_do_no_harm() {
        let mut load = Load::new(Duration::from_secs(100));
        for _ in 0..4 {
            load.handle(Input::Visited, Time::ZERO);
        }
        assert_eq!(load.return_times().unwrap().trend, 1.0);
    }
}
