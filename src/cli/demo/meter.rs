//! What the lab source sees: how many transfers are under way, for what share of the time. Fed by `http` and `ftp`.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

/// None, one, two, more: so many are told apart at least.
const CLASSES: usize = 4;

/// Counts the transfers of one source: the bodies of files, not listings. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug)]
struct Inner {
    under_way: usize,
    /// When that changed last.
    since: Instant,
    seen: Seen,
}

/// What was seen since the last reset.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Seen {
    /// For how long there were none, one, two and so on; the last is for all that are more.
    times: Vec<Duration>,
    /// At once, at most.
    pub(super) most: usize,
    /// That were sent.
    pub(super) bytes: u64,
    /// Transfers that began.
    pub(super) transfers: u64,
    /// Questions that were not answered with what was asked for.
    pub(super) refusals: u64,
}

impl Seen {
    /// So much time with none, one, two and so on.
    #[cfg(test)]
    pub(super) fn over<const N: usize>(times: [Duration; N]) -> Self {
        let most = times.iter().rposition(|time| !time.is_zero()).unwrap_or(0);
        Self { times: times.into(), most, ..Self::default() }
    }

    fn of(classes: usize) -> Self {
        Self { times: vec![Duration::ZERO; classes], ..Self::default() }
    }

    /// The share of the time with none, one, two and so on; the last is for all that are more.
    pub(super) fn shares(&self) -> Vec<f64> {
        let total: Duration = self.times.iter().sum();
        if total.is_zero() {
            return (0..self.times.len()).map(|class| f64::from(u8::from(class == 0))).collect();
        }
        self.times.iter().map(|time| time.as_secs_f64() / total.as_secs_f64()).collect()
    }

    /// For how long more than so many transfers were under way.
    pub(super) fn time_beyond(&self, at_once: usize) -> Duration {
        self.times.iter().skip(at_once + 1).sum()
    }

    /// The share of the time in which more than so many transfers were under way.
    pub(super) fn beyond(&self, at_once: usize) -> f64 {
        self.shares().iter().skip(at_once + 1).sum()
    }
}

impl Meter {
    /// Tells up to so many transfers at once apart from more.
    pub(super) fn new(at_once: usize) -> Self {
        let seen = Seen::of(CLASSES.max(at_once + 2));
        let inner = Inner { under_way: 0, since: Instant::now(), seen };
        Self { inner: Arc::new(Mutex::new(inner)) }
    }

    /// A transfer begins; it ends when the value is dropped.
    pub(super) fn begin(&self) -> Transfer {
        let mut inner = self.lock();
        inner.count_time();
        inner.under_way += 1;
        inner.seen.transfers += 1;
        inner.seen.most = inner.seen.most.max(inner.under_way);
        Transfer { meter: self.clone() }
    }

    /// A question was not answered with what was asked for.
    pub(super) fn refused(&self) {
        self.lock().seen.refusals += 1;
    }

    /// Forgets what was seen; transfers that are under way stay so.
    pub(super) fn reset(&self) {
        let mut inner = self.lock();
        inner.since = Instant::now();
        inner.seen = Seen { most: inner.under_way, ..Seen::of(inner.seen.times.len()) };
    }

    /// Transfers at this moment.
    pub(super) fn under_way(&self) -> usize {
        self.lock().under_way
    }

    /// What was seen up to now.
    pub(super) fn seen(&self) -> Seen {
        let mut inner = self.lock();
        inner.count_time();
        inner.seen.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("nobody panics with the meter in hand")
    }
}

impl Inner {
    /// Books the time since the last change under the number of transfers of that time.
    fn count_time(&mut self) {
        let now = Instant::now();
        let class = self.under_way.min(self.seen.times.len() - 1);
        if let Some(time) = self.seen.times.get_mut(class) {
            *time += now.duration_since(self.since);
        }
        self.since = now;
    }
}

/// A transfer that is under way.
#[derive(Debug)]
pub(super) struct Transfer {
    meter: Meter,
}

impl Transfer {
    /// So many bytes more were sent.
    pub(super) fn sent(&self, bytes: usize) {
        self.meter.lock().seen.bytes += bytes as u64;
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        let mut inner = self.meter.lock();
        inner.count_time();
        inner.under_way -= 1;
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const STEP: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn time_is_booked_under_the_number_of_transfers() {
        let meter = Meter::new(1);
        advance(STEP).await;
        let first = meter.begin();
        advance(3 * STEP).await;
        let others = [meter.begin(), meter.begin(), meter.begin()];
        advance(STEP).await;
        drop(others);
        let second = meter.begin();
        advance(2 * STEP).await;
        drop((first, second));
        advance(STEP).await;
        let seen = meter.seen();
        assert_eq!(seen.times, [2 * STEP, 3 * STEP, 2 * STEP, STEP]);
        assert_eq!(seen.shares(), [0.25, 0.375, 0.25, 0.125]);
        assert_eq!((seen.beyond(1), seen.beyond(2)), (0.375, 0.125));
        assert_eq!((seen.most, seen.transfers), (4, 5));
    }

    #[tokio::test(start_paused = true)]
    async fn a_reset_forgets_the_past_but_not_what_is_under_way() {
        let meter = Meter::new(1);
        let transfer = meter.begin();
        transfer.sent(7);
        meter.refused();
        advance(STEP).await;
        meter.reset();
        advance(STEP).await;
        transfer.sent(5);
        let seen = meter.seen();
        assert_eq!(seen.shares(), [0.0, 1.0, 0.0, 0.0]);
        assert_eq!((seen.bytes, seen.refusals, seen.most), (5, 0, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn as_many_classes_are_told_apart_as_may_be_under_way() {
        let meter = Meter::new(4);
        let transfers: Vec<Transfer> = (0..6).map(|_| meter.begin()).collect();
        advance(STEP).await;
        drop(transfers);
        assert_eq!(meter.seen().shares(), [0.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
    }

    #[tokio::test(start_paused = true)]
    async fn no_time_at_all_is_time_without_transfers() {
        assert_eq!(Meter::new(1).seen().shares(), [1.0, 0.0, 0.0, 0.0]);
    }
}
