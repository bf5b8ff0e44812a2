//! A member's own clock: it starts anywhere, and goes a little too fast or too slow.

use crate::base::Time;

/// True time beyond which nobody looks: a member that waits for nothing is woken then.
const NEVER: Time = Time::from_nanos(i64::MAX);

/// How one member's time follows from true time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// What it showed when the run began, in nanoseconds.
    origin: i64,
    /// How much faster than true time it goes: 0.001 is a second too many in a thousand.
    drift: f64,
}

impl Clock {
    pub(super) fn new(origin: Time, drift: f64) -> Self {
        Self { origin: origin.as_nanos(), drift }
    }

    /// What it shows at this moment.
    #[expect(clippy::cast_possible_truncation, reason = "a run lasts days, not centuries")]
    pub(super) fn shows(&self, now: Time) -> Time {
        let gone = now.as_nanos();
        let gained = (gone as f64 * self.drift).floor() as i64;
        Time::from_nanos(self.origin.saturating_add(gone).saturating_add(gained))
    }

    /// The first moment at which it shows that, or more.
    #[expect(clippy::cast_possible_truncation, reason = "what is too large was sorted out before")]
    pub(super) fn when(&self, shown: Time) -> Time {
        if shown.as_nanos() > i64::MAX / 2 {
            return NEVER;
        }
        let span = shown.as_nanos() - self.origin;
        let mut nanos = (span as f64 / (1.0 + self.drift)).floor() as i64;
        while self.shows(Time::from_nanos(nanos)) < shown {
            nanos += 1;
        }
        Time::from_nanos(nanos)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn whoever_waits_for_a_reading_wakes_when_it_is_shown_and_not_before() {
        for drift in [-0.5, -0.001, 0.0, 0.000_3, 0.001, 0.5] {
            let clock = Clock::new(Time::from_secs(77), drift);
            for span in [0, 1, 999, 1_000_000_007, 86_400_000_000_001] {
                let shown = Time::from_secs(77) + Duration::from_nanos(span);
                let at = clock.when(shown);
                assert!(clock.shows(at) >= shown, "{drift}: {at:?}");
                assert!(span == 0 || clock.shows(at - Duration::from_nanos(2)) < shown, "{drift}: {at:?}");
            }
        }
    }

    #[test]
    fn a_fast_clock_gains() {
        let clock = Clock::new(Time::ZERO, 0.001);
        assert_eq!(clock.shows(Time::from_secs(1000)), Time::from_secs(1001));
        assert_eq!(clock.when(Time::ZERO + Duration::MAX), NEVER);
    }
}
