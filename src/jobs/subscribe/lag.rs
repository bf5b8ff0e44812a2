//! How far a subscription is behind its source: what is known to be there and was not delivered yet, and for how long
//! nobody has looked at what is there.
//!
//! Pure. The feeds enter what they see and when they looked, the delivery strikes it out, and the job shows the sum.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::base::Time;
use crate::base::units::{human_duration, human_size};

/// Over how many looks the rate of the stream is measured.
const LOOKS: usize = 32;

/// Below this the time since the last look is the pace of looking, and nothing that people want to read.
const WORTH_TELLING: Duration = Duration::from_secs(60);

/// So many refused names are remembered; more are not counted.
const MOST_REFUSED: usize = 100_000;

/// How far behind the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// How long ago the oldest thing appeared that is not delivered yet.
    pub behind: Duration,
    /// How many files are not delivered yet.
    pub files: usize,
    /// How many bytes they have together, as far as the source says.
    pub bytes: u64,
    /// How long ago all of the source was seen, or the subscription began. What appeared since is in none of the above.
    pub unseen: Duration,
    /// Whether all of the source was seen at least once. If not, nobody knows what is there.
    pub has_looked: bool,
    /// How many names of the source were refused: those files are never pulled, and in none of the above.
    pub refused: usize,
}

impl Lag {
    /// How far behind; `None` if nobody knows because the source was never seen and nothing waits from before.
    pub fn behind(&self) -> Option<Duration> {
        (self.has_looked || self.files > 0).then_some(self.behind)
    }

    /// For how long the source was not seen, if that says more than the lag does.
    pub fn dark(&self) -> Option<Duration> {
        dark(self.behind, self.unseen)
    }
}

/// The time since the last look, if it says more than the lag does.
pub(in crate::jobs) fn dark(behind: Duration, unseen: Duration) -> Option<Duration> {
    (unseen >= WORTH_TELLING.max(behind)).then_some(unseen)
}

impl std::fmt::Display for Lag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let files = if self.files == 1 { "file" } else { "files" };
        let (seconds, bytes) = (self.behind.as_secs(), human_size(self.bytes));
        match (self.behind(), self.files) {
            (None, _) => f.write_str("lag unknown")?,
            (Some(_), 0) => f.write_str("no lag")?,
            (Some(_), count) => write!(f, "lag {seconds} s, {count} {files}, {bytes} behind")?,
        }
        if let Some(unseen) = self.dark() {
            write!(f, ", source not seen for {}", human_duration(unseen))?;
        }
        match self.refused {
            0 => Ok(()),
            1 => f.write_str(", 1 name refused"),
            count => write!(f, ", {count} names refused"),
        }
    }
}

/// What is known to be at the source and was not delivered yet.
#[derive(Debug, Default)]
pub struct Backlog {
    /// By path: when it appeared, in seconds since 1970, and how long it is.
    items: BTreeMap<String, (i64, u64)>,
    bytes: u64,
    looks: Looks,
    /// Paths that were refused, as far as they are told one by one.
    refused: BTreeSet<String>,
}

/// When all of the source was seen last.
#[derive(Clone, Copy, Debug)]
enum Looks {
    /// Never since this moment, in seconds since 1970.
    None { since_s: i64 },
    /// At this moment.
    Last { at_s: i64 },
    /// Nobody has to look: what will be there is known beforehand.
    Needless,
}

impl Default for Looks {
    fn default() -> Self {
        Self::None { since_s: i64::MAX }
    }
}

impl Backlog {
    /// Of a source that was not looked at since this moment.
    pub fn begun(wall_s: i64) -> Self {
        Self { looks: Looks::None { since_s: wall_s }, ..Self::default() }
    }

    /// Of a source at which nobody has to look: what will be there is known beforehand.
    pub fn foreknown() -> Self {
        Self { looks: Looks::Needless, ..Self::default() }
    }

    /// All of the source was seen.
    pub fn looked(&mut self, wall_s: i64) {
        if !matches!(self.looks, Looks::Needless) {
            self.looks = Looks::Last { at_s: wall_s };
        }
    }

    /// This name was refused. Tells whether that is new; of very many only the first are remembered.
    pub fn refuse(&mut self, path: &str) -> bool {
        self.refused.len() < MOST_REFUSED && self.refused.insert(path.to_owned())
    }

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
        // A clock that was set back makes nothing older.
        let since = |then_s: i64| Duration::from_secs(wall_s.saturating_sub(then_s).max(0).unsigned_abs());
        let (has_looked, unseen) = match self.looks {
            Looks::None { since_s } => (false, since(since_s)),
            Looks::Last { at_s } => (true, since(at_s)),
            Looks::Needless => (true, Duration::ZERO),
        };
        let behind = oldest_s.map_or(Duration::ZERO, since);
        Lag {
            behind,
            files: self.items.len(),
            bytes: self.bytes,
            unseen,
            has_looked,
            refused: self.refused.len(),
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
        backlog.looked(1_000);
        assert_eq!(backlog.lag(1_000), Lag { has_looked: true, ..Lag::default() });
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

    /// A source that cannot be looked at was told as one without lag.
    #[test]
    fn what_nobody_has_seen_is_not_said_to_be_without_lag() {
        let mut backlog = Backlog::begun(1_000);
        assert_eq!(backlog.lag(1_030).behind(), None);
        assert_eq!(backlog.lag(1_030).to_string(), "lag unknown");
        assert_eq!(backlog.lag(1_060).to_string(), "lag unknown, source not seen for 1 min 0 s");
        backlog.add("left by an earlier run", 990, 5);
        assert_eq!(backlog.lag(1_000).behind(), Some(Duration::from_secs(10)), "at least");
        backlog.remove("left by an earlier run");

        backlog.looked(1_100);
        let lag = backlog.lag(1_130);
        assert_eq!((lag.behind(), lag.unseen.as_secs(), lag.dark()), (Some(Duration::ZERO), 30, None));
        assert_eq!(backlog.lag(1_300).to_string(), "no lag, source not seen for 3 min 20 s");
        // One that is further behind than it was looked at knows enough.
        backlog.add("old", 500, 5);
        assert_eq!(backlog.lag(1_300).dark(), None);
        assert_eq!(backlog.lag(900).unseen, Duration::ZERO, "a clock that was set back");
    }

    #[test]
    fn who_knows_the_names_has_no_need_to_look() {
        let mut backlog = Backlog::foreknown();
        backlog.looked(1_000);
        let lag = backlog.lag(9_000);
        assert_eq!((lag.behind(), lag.unseen), (Some(Duration::ZERO), Duration::ZERO));
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
