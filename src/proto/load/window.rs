//! The most recent intervals of one kind, and what they come to: for the meter in the module above.

use std::collections::VecDeque;
use std::time::Duration;

/// How many intervals are looked at: enough for a 99th percentile that means something, few enough to follow a change.
pub const WINDOW: usize = 256;

/// How many intervals are recent: after so many at a new pace nothing of the old one is left, and one that was unusually
/// short or long counts for a third.
pub const RECENT: usize = 3;

/// The last [`RECENT`] intervals of one kind: what to expect of the next one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recent {
    /// The newest first.
    last: [Option<Duration>; RECENT],
}

impl Recent {
    /// Another one.
    pub fn push(&mut self, interval: Duration) {
        self.last.rotate_right(1);
        self.last[0] = Some(interval);
    }

    /// Their mean; `None` before the first.
    pub fn mean(&self) -> Option<Duration> {
        let known: Vec<Duration> = self.last.iter().flatten().copied().collect();
        mean(known.iter())
    }
}

/// A summary of the most recent intervals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Over how many intervals.
    pub count: usize,
    /// The mean.
    pub mean: Duration,
    /// The mean of the last [`RECENT`].
    pub recent: Duration,
    /// Half of them are no longer.
    pub p50: Duration,
    /// Nine of ten are no longer.
    pub p90: Duration,
    /// 99 of 100 are no longer.
    pub p99: Duration,
    /// The mean of the newer half over that of the older half: 1 is steady, 2 has doubled.
    pub trend: f64,
}

/// The last [`WINDOW`] intervals, the newest last.
#[derive(Clone, Debug, Default)]
pub(super) struct Window(VecDeque<Duration>);

impl Window {
    pub(super) fn push(&mut self, interval: Duration) {
        if self.0.len() == WINDOW {
            self.0.pop_front();
        }
        self.0.push_back(interval);
    }

    pub(super) fn summary(&self) -> Option<Summary> {
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
            recent: mean(self.0.range(count.saturating_sub(RECENT)..)).unwrap_or_default(),
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
