//! Whether a job falls so far behind its source that data will be flushed there before it was pulled.
//!
//! For jobs that follow a stream, whoever runs them: they know how far they are behind, the charter how long the source
//! keeps what it has.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use crate::base::Time;
use crate::base::units::format_duration;

/// A lag of half of the retention is told whatever the trend: there is as much time left to act as was lost.
pub const TOLD_FROM: f64 = 0.5;

/// A lag that has grown is told if it reaches the retention within so many retentions.
const FORESIGHT: f64 = 1.0;

/// A warning ends when the lag is below this share, so that it does not come and go.
const OVER_AT: f64 = 0.4;

/// A lag below this share is no trend yet: a stream that comes in large files is always a file behind.
pub const TREND_FROM: f64 = 0.1;

/// How many lags are remembered, and over what share of the retention a trend is taken.
const REMEMBERED: usize = 64;
const TREND_OVER: f64 = 0.25;

/// Data is about to be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Warning {
    /// How far the job is behind.
    pub lag: Duration,
    /// For how long it has not seen the source: what appeared since is not in the lag.
    pub unseen: Duration,
    /// How long the source keeps what it has.
    pub retention: Duration,
    /// When the first data will be flushed unseen, if it goes on like this; nothing if the lag does not grow, zero if it
    /// happens already.
    pub lost_in: Option<Duration>,
}

impl fmt::Display for Warning {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (lag, retention) = (seconds(self.lag), seconds(self.retention));
        if self.unseen > self.lag {
            let unseen = seconds(self.unseen);
            write!(out, "has not seen its source for {unseen}, which keeps {retention}")?;
            return match self.retention.saturating_sub(self.unseen) {
                Duration::ZERO => write!(out, ": data may be lost already"),
                left => write!(out, ": data may be lost in {}", seconds(left)),
            };
        }
        write!(out, "{lag} behind a source that keeps {retention}")?;
        match self.lost_in {
            None => Ok(()),
            Some(Duration::ZERO) => write!(out, ": data is being lost"),
            Some(left) => write!(out, ": data will be lost in {}", seconds(left)),
        }
    }
}

/// Watches the lag of one job.
#[derive(Clone, Debug)]
pub struct Retention {
    /// Zero if unknown: then nothing is ever told.
    kept_for: Duration,
    /// Time and lag, the newest last.
    lags: VecDeque<(Time, Duration)>,
    warning: Option<Warning>,
}

impl Retention {
    /// For a source that keeps its data for so long; zero if that is unknown.
    pub fn new(retention: Duration) -> Self {
        Self { kept_for: retention, lags: VecDeque::new(), warning: None }
    }

    /// The job is so far behind what it has seen of its source, and has not seen it for so long.
    pub fn handle(&mut self, lag: Duration, unseen: Duration, now: Time) -> Option<Warning> {
        let apart = self.kept_for.mul_f64(TREND_OVER / REMEMBERED as f64);
        // The newest is replaced for as long as it is near the one before, so that those remembered span the time of a trend.
        if let [.., before, _] = self.lags.make_contiguous()
            && now.since(before.0) < apart
        {
            self.lags.pop_back();
        }
        if self.lags.len() == REMEMBERED {
            self.lags.pop_front();
        }
        self.lags.push_back((now, lag));
        self.warning = self.judge(lag, unseen);
        self.warning
    }

    /// The last word.
    pub fn warning(&self) -> Option<Warning> {
        self.warning
    }

    fn judge(&self, lag: Duration, unseen: Duration) -> Option<Warning> {
        let retention = self.kept_for;
        if retention.is_zero() {
            return None;
        }
        let share = lag.as_secs_f64() / retention.as_secs_f64();
        let lost_in = self.lost_in(lag);
        let soon = lost_in.is_some_and(|left| left <= retention.mul_f64(FORESIGHT)) && share >= TREND_FROM;
        // The time since the last look is no trend: it grows until the next one, and is gone.
        let longest = unseen.as_secs_f64() / retention.as_secs_f64();
        let is_far = share.max(longest) >= if self.warning.is_some() { OVER_AT } else { TOLD_FROM };
        (soon || is_far).then_some(Warning { lag, unseen, retention, lost_in })
    }

    /// How long it takes at the present trend until the lag reaches the retention.
    fn lost_in(&self, lag: Duration) -> Option<Duration> {
        let left = self.kept_for.saturating_sub(lag);
        if left.is_zero() {
            return Some(Duration::ZERO);
        }
        let (&(first, before), &(last, _)) = (self.lags.front()?, self.lags.back()?);
        let over = last.since(first);
        // A trend needs time: one file that came late is none.
        if over < self.kept_for.mul_f64(TREND_OVER / 4.0) || lag <= before {
            return None;
        }
        let growth = lag.saturating_sub(before).as_secs_f64() / over.as_secs_f64();
        Duration::try_from_secs_f64(left.as_secs_f64() / growth).ok()
    }
}

fn seconds(span: Duration) -> String {
    format_duration(Duration::from_secs(span.as_secs()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DAY: u64 = 86_400;

    /// A job of a source that keeps a day, looked at every minute for so many hours.
    fn after(hours: u64, lag_s: impl Fn(u64) -> u64) -> Retention {
        let mut retention = Retention::new(Duration::from_secs(DAY));
        for minute in 0..hours * 60 {
            let lag = Duration::from_secs(lag_s(minute * 60));
            retention.handle(lag, Duration::ZERO, Time::from_secs(minute * 60));
        }
        retention
    }

    #[test]
    fn a_small_and_steady_lag_is_nothing_to_tell() {
        assert_eq!(after(48, |_| 3600).warning(), None);
        assert_eq!(after(48, |now| 3600 + now % 1800).warning(), None, "files come one by one");
    }

    #[test]
    fn half_of_the_retention_is_told_though_it_is_steady() {
        let warning = after(48, |_| DAY / 2).warning().unwrap();
        assert_eq!(warning.lost_in, None);
        assert_eq!(warning.to_string(), "12h behind a source that keeps 1d");
    }

    #[test]
    fn a_lag_that_grows_is_told_long_before_data_is_lost() {
        // Half as fast as the source: lost after two days. Told when a tenth is reached, which is after 4.8 hours.
        assert_eq!(after(4, |now| now / 2).warning(), None);
        let told = (1..48).find(|&hours| after(hours, |now| now / 2).warning().is_some());
        assert!(told.is_some_and(|hours| (5..30).contains(&hours)), "{told:?}");
        let warning = after(40, |now| now / 2).warning().unwrap();
        let left = warning.lost_in.unwrap().as_secs();
        assert!((7 * 3600..9 * 3600).contains(&left), "{warning}");
    }

    #[test]
    fn beyond_the_retention_data_is_lost_already() {
        let warning = after(2, |_| 2 * DAY).warning().unwrap();
        assert_eq!(warning.lost_in, Some(Duration::ZERO));
        assert!(warning.to_string().ends_with("data is being lost"), "{warning}");
    }

    #[test]
    fn a_warning_neither_comes_and_goes_nor_outlives_its_reason() {
        let mut retention = after(48, |_| DAY / 2);
        let mut now = Time::from_secs(48 * 3600);
        let mut step = |lag: u64| {
            now = now + Duration::from_secs(60);
            retention.handle(Duration::from_secs(lag), Duration::ZERO, now).is_some()
        };
        assert!((0..600).all(|n| step(DAY / 2 - n % 2 * 3600)));
        assert!(!step(3600));
    }

    #[test]
    fn a_source_that_nobody_sees_is_told_of_at_half_of_its_retention_and_its_looks_are_no_trend() {
        let mut retention = Retention::new(Duration::from_secs(DAY));
        let mut look = |hour: u64, unseen_h: u64| {
            let (unseen, now) = (Duration::from_secs(unseen_h * 3600), Time::from_secs(hour * 3600));
            retention.handle(Duration::ZERO, unseen, now).map(|warning| warning.to_string())
        };
        // A look every six hours.
        assert!((0..48).all(|hour| look(hour, hour % 6).is_none()));
        assert!((48..59).all(|hour| look(hour, hour - 48 + 1).is_none()));
        let told = look(60, 12);
        assert_eq!(
            told.as_deref(),
            Some("has not seen its source for 12h, which keeps 1d: data may be lost in 12h")
        );
        assert!(look(80, 32).is_some_and(|told| told.ends_with("data may be lost already")));
        assert_eq!(look(81, 0), None);
    }

    #[test]
    fn a_source_of_unknown_retention_is_never_warned_of() {
        let mut retention = Retention::new(Duration::ZERO);
        assert_eq!(retention.handle(Duration::MAX, Duration::MAX, Time::from_secs(1)), None);
    }

    proptest! {
        #[test]
        fn any_lags_at_any_times_are_survived_and_bounded(
            retention in any::<u32>(),
            lags in proptest::collection::vec((any::<u64>(), any::<u32>()), 0..300),
        ) {
            let mut watch = Retention::new(Duration::from_secs(retention.into()));
            for (lag, at) in lags {
                let unseen = Duration::from_secs(lag ^ u64::from(at));
                let warning = watch.handle(Duration::from_secs(lag), unseen, Time::from_secs(at.into()));
                prop_assert_eq!(warning, watch.warning());
                prop_assert!(watch.lags.len() <= REMEMBERED);
            }
        }
    }
}
