//! What recent ranges tell about the next one. Used by the planner alone.

use std::collections::VecDeque;
use std::time::Duration;

/// So many ranges are remembered: a few slots' worth.
const REMEMBERED: usize = 8;

/// A range may be so many times as large as the largest one lately: what was measured on little says little.
const GROWTH: u64 = 4;

/// With fewer ranges, or a scatter beyond this, the estimate is not relied on.
const SURE_RANGES: usize = 3;
const SURE_SCATTER: f64 = 0.1;

/// Shorter transfers are noise of the clock and of buffers.
const SHORTEST: Duration = Duration::from_micros(50);

#[derive(Clone, Copy, Debug)]
struct Range {
    bytes: u64,
    wait: Duration,
    transfer: Duration,
}

impl Range {
    fn rate(&self) -> f64 {
        self.bytes as f64 / self.transfer.as_secs_f64()
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Estimate {
    ranges: VecDeque<Range>,
}

impl Estimate {
    pub(super) fn measured(&mut self, bytes: u64, wait: Duration, took: Duration) {
        if bytes == 0 {
            // Nothing came before the cut: that took longer than all that is known of.
            if let Some(last) = self.ranges.back_mut() {
                last.wait = last.wait.max(took);
            }
            return;
        }
        if self.ranges.len() >= REMEMBERED {
            self.ranges.pop_front();
        }
        let wait = wait.min(took);
        self.ranges.push_back(Range { bytes, wait, transfer: took.saturating_sub(wait).max(SHORTEST) });
    }

    /// The same of a range that was held back: the link is at least that fast, and at least as fast as it was.
    pub(super) fn measured_at_least(&mut self, bytes: u64, wait: Duration, took: Duration) {
        let wait = wait.min(took);
        let known = self.throughput().map_or(Duration::MAX, |rate| {
            Duration::try_from_secs_f64(bytes as f64 / rate.max(1.0)).unwrap_or(Duration::MAX)
        });
        self.measured(bytes, wait, took.min(wait.saturating_add(known)));
    }

    /// Bytes per second, once a byte has come: the mean of the recent ranges without the fastest and the slowest one, or
    /// of the last two if that is less. It follows a link that gets slower at once, one that gets faster in time.
    pub(super) fn throughput(&self) -> Option<f64> {
        if self.ranges.is_empty() {
            return None;
        }
        let mut sorted = self.ranges.iter().copied().collect::<Vec<_>>();
        sorted.sort_by(|a, b| a.rate().total_cmp(&b.rate()));
        let outliers = usize::from(sorted.len() >= 4);
        let inner = sorted.iter().skip(outliers).take(sorted.len() - 2 * outliers);
        let lately = self.ranges.iter().rev().take(2);
        Some(mean(inner).min(mean(lately)))
    }

    /// The median wait for the first byte.
    pub(super) fn latency(&self) -> Duration {
        let mut waits = self.ranges.iter().map(|range| range.wait).collect::<Vec<_>>();
        waits.sort_unstable();
        waits.get(waits.len() / 2).copied().unwrap_or_default()
    }

    /// The mean deviation from the mean, as a share of it. A byte counts as much as another: the few that fill the end of a
    /// slot come at whatever rate a buffer has for them, and would make the whole seem unsteady.
    pub(super) fn scatter(&self) -> f64 {
        let weighed = |value: &dyn Fn(&Range) -> f64| {
            self.ranges.iter().map(|range| range.bytes as f64 * value(range)).sum::<f64>()
        };
        let bytes = weighed(&|_| 1.0).max(1.0);
        let mean = weighed(&Range::rate) / bytes;
        if mean <= 0.0 {
            return 1.0;
        }
        weighed(&|range| (range.rate() - mean).abs()) / bytes / mean
    }

    pub(super) fn is_sure(&self) -> bool {
        self.ranges.len() >= SURE_RANGES && self.scatter() <= SURE_SCATTER
    }

    /// How large a range may be after those that came.
    pub(super) fn grown(&self, first: u64) -> u64 {
        let largest = self.ranges.iter().map(|range| range.bytes).max().unwrap_or_default();
        largest.saturating_mul(GROWTH).max(first)
    }
}

fn mean<'a>(ranges: impl Iterator<Item = &'a Range>) -> f64 {
    let (bytes, time) = ranges.fold((0.0, 0.0), |(bytes, time), range| {
        (bytes + range.bytes as f64, time + range.transfer.as_secs_f64())
    });
    bytes / f64::max(time, SHORTEST.as_secs_f64())
}
