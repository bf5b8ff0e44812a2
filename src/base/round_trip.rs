//! Round trips, smoothed, and how long to wait for an answer by that.

use std::time::Duration;

/// The shortest allowance for answers that take longer than usual: below it a busy scheduler looks like a lost datagram.
const LEAST_ALLOWANCE: Duration = Duration::from_millis(50);

/// Smoothed round trips and their deviation, as TCP keeps them (RFC 6298).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTrip {
    smoothed: Duration,
    deviation: Duration,
}

impl RoundTrip {
    /// After one round trip. Its deviation is taken to be half of it, as nothing is known of the others.
    pub fn first(sample: Duration) -> Self {
        Self { smoothed: sample, deviation: sample / 2 }
    }

    /// After one more. The sample must be of an answer that names its question: one to a repeated question could be to either.
    pub fn add(&mut self, sample: Duration) {
        let off = self.smoothed.abs_diff(sample);
        self.deviation = (self.deviation.saturating_mul(3).saturating_add(off)) / 4;
        self.smoothed = (self.smoothed.saturating_mul(7).saturating_add(sample)) / 8;
    }

    /// Takes in a sample, the first or one more.
    pub fn measure(known: &mut Option<Self>, sample: Duration) {
        match known {
            Some(round_trip) => round_trip.add(sample),
            None => *known = Some(Self::first(sample)),
        }
    }

    /// The smoothed round trip.
    pub fn smoothed(self) -> Duration {
        self.smoothed
    }

    /// How much later than the first answer those of others come that were asked at the same time: four deviations.
    pub fn spread(self) -> Duration {
        self.deviation.saturating_mul(4)
    }

    /// After so long without an answer the question or the answer is lost: four deviations more than usual, and at least a
    /// quarter more, because a path that was steady so far may change.
    pub fn timeout(self) -> Duration {
        let allowance = self.spread().max(self.smoothed / 4).max(LEAST_ALLOWANCE);
        self.smoothed.saturating_add(allowance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn after(samples: impl IntoIterator<Item = u64>) -> RoundTrip {
        let mut known = None;
        samples.into_iter().for_each(|sample| RoundTrip::measure(&mut known, ms(sample)));
        known.unwrap()
    }

    #[test]
    fn the_first_wait_is_three_round_trips_and_a_steady_path_needs_little_more_than_one() {
        assert_eq!(after([560]).timeout(), ms(1680));
        let steady = after([560; 50]).timeout();
        assert_eq!(steady, ms(700));
        assert_eq!(after([1; 50]).timeout(), ms(51));
    }

    #[test]
    fn answers_of_a_path_that_varies_come_within_the_timeout() {
        let varying = |n: u64| 200 + n * 37 % 600;
        let round_trip = after((0..200).map(varying));
        assert!(round_trip.timeout() > ms(800), "{round_trip:?}");
        assert!(round_trip.timeout() < ms(1400), "{round_trip:?}");
    }

    #[test]
    fn a_path_that_becomes_longer_is_followed_within_a_few_answers() {
        let round_trip = after([20; 50].into_iter().chain([500; 4]));
        assert!(round_trip.timeout() > ms(500), "{round_trip:?}");
    }

    #[test]
    fn absurd_samples_do_not_overflow() {
        let mut round_trip = RoundTrip::first(Duration::MAX);
        (0..9).for_each(|_| round_trip.add(Duration::MAX));
        assert!(round_trip.timeout() > Duration::from_secs(1_000_000));
    }
}
