//! How long to wait before the next try.
//!
//! A broken connection is tried again soon, and each time a little later. A refusal is a wish of the source's operator: at
//! least five minutes (NCEP asks for that in words), longer each time, and never sooner than the source says.

use std::time::Duration;

use crate::base::Rng;
use crate::fetch::Fault;

/// How patient to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// How often to try again after the first failure without any progress.
    pub retries: u32,
    /// The first wait after a broken connection; doubled each time. curl's first one too.
    pub first_wait: Duration,
    /// The first wait after a refusal; doubled each time.
    pub refusal_wait: Duration,
    /// Whether to wait for a source to which nobody could connect yet, or to call it wrong at once.
    pub at_first: bool,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            retries: 10,
            first_wait: Duration::from_secs(1),
            refusal_wait: Duration::from_secs(300),
            at_first: false,
        }
    }
}

/// Longest wait after a broken or refused connection: a server that restarts is back within seconds.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// A refusal is never waited for longer than this, whatever the source says: a day's outage is somebody's to look at.
const LONGEST_REFUSAL: Duration = Duration::from_secs(6 * 3600);

/// Counts failures in a row.
#[derive(Debug)]
pub struct Backoff {
    patience: Patience,
    failures: u32,
    rng: Rng,
}

impl Backoff {
    /// Starts without failures.
    pub fn new(patience: Patience, seed: u64) -> Self {
        Self { patience, failures: 0, rng: Rng::seeded(seed) }
    }

    /// Bytes came: the next failure is the first one again.
    pub fn progressed(&mut self) {
        self.failures = 0;
    }

    /// Failures in a row.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// How long to wait after this; `None` if it is of no use, or was tried often enough.
    pub fn after(&mut self, fault: &Fault) -> Option<Duration> {
        if !fault.is_temporary() || self.failures >= self.patience.retries {
            return None;
        }
        let doublings = self.failures.min(20);
        self.failures += 1;
        let wait = match fault {
            Fault::Refused(refusal) => {
                let ours = self.doubled(self.patience.refusal_wait, doublings);
                ours.max(refusal.after.unwrap_or_default()).min(LONGEST_REFUSAL)
            }
            // A file that changes all the time, too: it was begun anew at once, and several times.
            _ => self.doubled(self.patience.first_wait, doublings).min(LONGEST_WAIT),
        };
        Some(wait)
    }

    /// Up to a quarter more than asked for, so that labs which were refused together do not come back together.
    fn doubled(&mut self, first: Duration, doublings: u32) -> Duration {
        let wait = first.saturating_mul(1 << doublings).min(LONGEST_REFUSAL);
        wait + wait.mul_f64(0.25 * self.rng.fraction())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fetch::Refusal;

    fn refused(after: Option<Duration>) -> Fault {
        Fault::Refused(Refusal::new(Some(503), after, "busy"))
    }

    #[test]
    fn a_refusal_costs_five_minutes_then_ten_and_what_the_source_says_counts_if_longer() {
        let mut backoff = Backoff::new(Patience::default(), 1);
        let first = backoff.after(&refused(None)).expect("try again");
        assert!((300.0..=375.0).contains(&first.as_secs_f64()), "{first:?}");
        let second = backoff.after(&refused(None)).expect("try again");
        assert!((600.0..=750.0).contains(&second.as_secs_f64()), "{second:?}");
        let said = backoff.after(&refused(Some(Duration::from_secs(7_200)))).expect("try again");
        assert_eq!(said, Duration::from_secs(7_200));
    }

    #[test]
    fn what_will_not_change_is_not_tried_again() {
        let mut backoff = Backoff::new(Patience::default(), 1);
        assert_eq!(backoff.after(&Fault::NotFound("x".into())), None);
        assert_eq!(backoff.after(&Fault::Login("x".into())), None);
    }

    #[test]
    fn a_file_that_changes_all_the_time_is_waited_for_longer_and_longer() {
        let mut backoff = Backoff::new(Patience { retries: 3, ..Patience::default() }, 1);
        let waits: Vec<_> = (0..3).map(|_| backoff.after(&Fault::Changed).expect("try again")).collect();
        assert!(
            waits[0] >= Duration::from_secs(1) && waits.windows(2).all(|pair| pair[0] < pair[1]),
            "{waits:?}"
        );
        assert_eq!(backoff.after(&Fault::Changed), None);
    }

    #[test]
    fn patience_ends_and_begins_anew_with_progress() {
        let mut backoff = Backoff::new(Patience { retries: 2, ..Patience::default() }, 1);
        let broken = Fault::Broken("reset".into());
        assert!(backoff.after(&broken).is_some() && backoff.after(&broken).is_some());
        assert_eq!(backoff.after(&broken), None);
        backoff.progressed();
        assert!(backoff.after(&broken).is_some());
    }

    proptest! {
        #[test]
        fn no_wait_is_longer_than_the_longest(seed: u64, secs in 0u64..u64::MAX / 2, tries in 0u32..60) {
            let patience = Patience { retries: 200, ..Patience::default() };
            let mut backoff = Backoff::new(patience, seed);
            for _ in 0..tries {
                let wait = backoff.after(&refused(Some(Duration::from_secs(secs))));
                prop_assert!(wait.expect("try again") <= LONGEST_REFUSAL);
                let wait = backoff.after(&Fault::Broken(String::new()));
                prop_assert!(wait.expect("try again") <= LONGEST_WAIT);
            }
        }
    }
}
