//! Points in time as values.
//!
//! A machine never reads a clock: whoever drives it hands in `now`. For a real member that is a clock which goes on
//! counting while the computer sleeps, for the simulator a number that jumps from event to event. The origin is
//! arbitrary, so only differences mean anything; the wall clock is something else (see
//! [`TokenId::created_ms`](super::TokenId)).

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// A point in time, in nanoseconds from an arbitrary origin.
///
/// Signed, because "seen an hour ago" has to be a point in time also for a member that started a minute ago.
/// Arithmetic saturates: 292 years either way are enough, and no datagram can cause an overflow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

impl Time {
    /// The origin.
    pub const ZERO: Self = Self(0);

    /// The point `nanos` nanoseconds after the origin (before it, if negative).
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// The point `secs` seconds after the origin.
    pub fn from_secs(secs: u64) -> Self {
        Self::ZERO + Duration::from_secs(secs)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// Seconds since the origin.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The wall clock at this point, in milliseconds since 1970, for whose clock this is what to add to the time.
    pub const fn wall_ms(self, offset_ms: i64) -> i64 {
        offset_ms.saturating_add(self.0 / 1_000_000)
    }

    /// The same in whole seconds; before 1970 there is nothing.
    pub fn wall_s(self, offset_ms: i64) -> u64 {
        u64::try_from(self.wall_ms(offset_ms) / 1000).unwrap_or(0)
    }

    /// How long ago `earlier` was; zero if it is still to come.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

fn nanos(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(nanos(span)))
    }
}

impl Sub<Duration> for Time {
    type Output = Self;

    fn sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(span)))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} s", self.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_future_is_zero_ago() {
        assert_eq!(Time::ZERO.since(Time::from_secs(3)), Duration::ZERO);
        assert_eq!(Time::from_secs(5).since(Time::from_secs(3)), Duration::from_secs(2));
    }

    #[test]
    fn a_point_before_the_origin_keeps_its_distance() {
        let long_ago = Time::from_secs(10) - Duration::from_secs(3600);
        assert_eq!(Time::from_secs(10).since(long_ago), Duration::from_secs(3600));
    }

    #[test]
    fn the_wall_clock_is_the_time_and_an_offset() {
        let now = Time::from_secs(5);
        assert_eq!((now.wall_ms(1_999), now.wall_s(1_999)), (6_999, 6));
        assert_eq!((now.wall_ms(-7_000), now.wall_s(-7_000)), (-2_000, 0));
        assert_eq!(now.wall_ms(i64::MAX), i64::MAX);
    }

    #[test]
    fn arithmetic_saturates() {
        let end = Time::ZERO + Duration::MAX;
        assert_eq!(end + Duration::from_secs(1), end);
        assert!(Time::ZERO - Duration::MAX < Time::ZERO);
    }
}
