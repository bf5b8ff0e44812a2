//! How far a subscription is behind its source: what is known to be there and was not delivered yet.
//!
//! Pure. The feeds enter what they see, the delivery strikes it out, and the job shows the sum.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::base::Time;
use crate::base::units::human_size;

/// Over how many looks the rate of the stream is measured.
const LOOKS: usize = 32;

/// How far behind the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// How long ago the oldest thing appeared that is not delivered yet.
    pub behind: Duration,
    /// How many files are not delivered yet.
    pub files: usize,
    /// How many bytes they have together, as far as the source says.
    pub bytes: u64,
}

impl std::fmt::Display for Lag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.files == 0 {
            return f.write_str("no lag");
        }
        let files = if self.files == 1 { "file" } else { "files" };
        let (seconds, bytes) = (self.behind.as_secs(), human_size(self.bytes));
        write!(f, "lag {seconds} s, {} {files}, {bytes} behind", self.files)
    }
}

/// What is known to be at the source and was not delivered yet.
#[derive(Debug, Default)]
pub struct Backlog {
    /// By path: when it appeared, in seconds since 1970, and how long it is.
    items: BTreeMap<String, (i64, u64)>,
    bytes: u64,
}

impl Backlog {
    /// Something is there. What was not delivered yet keeps the time at which it appeared.
    pub fn add(&mut self, path: &str, appeared_s: i64, bytes: u64) {
        let first_s = self.remove(path).map_or(appeared_s, |(before_s, _)| before_s.min(appeared_s));
        self.items.insert(path.to_owned(), (first_s, bytes));
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// It was delivered, or is gone.
    pub fn remove(&mut self, path: &str) -> Option<(i64, u64)> {
        let item = self.items.remove(path)?;
        self.bytes = self.bytes.saturating_sub(item.1);
        Some(item)
    }

    /// How far behind.
    pub fn lag(&self, wall_s: i64) -> Lag {
        let oldest_s = self.items.values().map(|(appeared_s, _)| *appeared_s).min();
        let behind_s = oldest_s.map_or(0, |oldest_s| wall_s.saturating_sub(oldest_s).max(0));
        Lag {
            behind: Duration::from_secs(behind_s.unsigned_abs()),
            files: self.items.len(),
            bytes: self.bytes,
        }
    }
}

/// How fast a stream grows at its source, as the looks see it.
#[derive(Debug, Default)]
pub(super) struct Growth {
    /// When, and how much was new since the look before.
    looks: VecDeque<(Time, u64)>,
}

impl Growth {
    /// A look found so many new bytes.
    pub(super) fn looked(&mut self, now: Time, new_bytes: u64) {
        self.looks.push_back((now, new_bytes));
        if self.looks.len() > LOOKS {
            self.looks.pop_front();
        }
    }

    /// Bytes a second; `None` before there were two looks.
    pub(super) fn rate(&self) -> Option<u64> {
        let (first, last) = (self.looks.front()?, self.looks.back()?);
        let span_s = last.0.since(first.0).as_secs_f64();
        // What the first look found came before it.
        let bytes: u64 = self.looks.iter().skip(1).map(|(_, bytes)| bytes).sum();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "positive, and no petabyte"
        )]
        (span_s > 0.0).then(|| (bytes as f64 / span_s) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lag_is_that_of_the_oldest_thing_and_of_all_bytes() {
        let mut backlog = Backlog::default();
        assert_eq!(backlog.lag(1_000), Lag::default());
        backlog.add("b", 940, 10);
        backlog.add("a", 990, 5);
        let lag = backlog.lag(1_000);
        assert_eq!((lag.behind.as_secs(), lag.files, lag.bytes), (60, 2, 15));
        // It has grown before it was delivered: as old as it was.
        backlog.add("b", 995, 20);
        let lag = backlog.lag(1_000);
        assert_eq!((lag.behind.as_secs(), lag.files, lag.bytes), (60, 2, 25));
        backlog.remove("b");
        backlog.remove("b");
        assert_eq!(backlog.lag(1_000).to_string(), "lag 10 s, 1 file, 5 B behind");
        backlog.remove("a");
        assert_eq!(backlog.lag(1_000).to_string(), "no lag");
    }

    #[test]
    fn a_clock_that_was_set_back_makes_no_lag() {
        let mut backlog = Backlog::default();
        backlog.add("a", 2_000, 1);
        assert_eq!(backlog.lag(1_000).behind, Duration::ZERO);
    }

    #[test]
    fn the_rate_counts_what_came_between_looks_and_forgets_the_old_ones() {
        let mut growth = Growth::default();
        growth.looked(Time::from_secs(0), 1_000_000);
        assert_eq!(growth.rate(), None, "one look knows no rate");
        growth.looked(Time::from_secs(10), 500);
        growth.looked(Time::from_secs(20), 1_500);
        assert_eq!(growth.rate(), Some(100));
        for look in 3..200 {
            growth.looked(Time::from_secs(look * 10), 0);
        }
        assert_eq!((growth.rate(), growth.looks.len()), (Some(0), LOOKS));
    }
}
