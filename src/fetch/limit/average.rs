//! A rate that is an average over a period: what a member of a circle has, which may read in its slots only.
//!
//! A bucket of credit: it fills at the rate, what is taken must be in it, and it holds what could not be read between two
//! slots, up to that of two periods. It counts in bytes times nanoseconds, so that no rate is rounded. governor
//! cannot do this: its limiters neither tell what is left, nor take a debt, nor change their burst.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;

use super::NANOS_PER_SEC;

/// A bucket holds the credit of so many periods. One would lose credit whenever the token comes later than usual.
const PERIODS_SAVED: u32 = 2;

/// An average rate, shared by all that read.
#[derive(Debug)]
pub(super) struct Average {
    rate: u64,
    /// What may pass at once however short the period is.
    burst: u64,
    bucket: Mutex<Bucket>,
    /// Without a queue, takers of small pieces starve those of large ones.
    turn: AsyncMutex<()>,
}

impl Average {
    /// Begins without credit.
    pub(super) fn new(rate: u64, burst: u64, period: Duration) -> Self {
        let average = Self { rate, burst, bucket: Mutex::new(Bucket::new(0)), turn: AsyncMutex::default() };
        average.set_period(period);
        average
    }

    pub(super) fn set_period(&self, period: Duration) {
        let saved = earned(self.rate, period.saturating_mul(PERIODS_SAVED));
        self.bucket().set_cap(saved.max(to_credit(self.burst)));
    }

    /// Begins anew with so much credit.
    pub(super) fn begin_with(&self, saved: u64) {
        self.bucket().credit = to_credit(saved);
    }

    /// What was earned and not read is lost, but for a burst.
    pub(super) fn forget_savings(&self) {
        let mut bucket = self.bucket();
        bucket.refill(self.rate, Instant::now());
        bucket.credit = bucket.credit.min(to_credit(self.burst));
    }

    /// So many bytes were read elsewhere.
    pub(super) fn charge(&self, bytes: u64) {
        let mut bucket = self.bucket();
        bucket.refill(self.rate, Instant::now());
        // A debt beyond what can be saved would never be seen by a user as anything but a standstill.
        bucket.credit = (bucket.credit - to_credit(bytes)).max(-bucket.cap);
    }

    /// How many bytes may pass within so much time.
    pub(super) fn within(&self, time: Duration) -> u64 {
        let mut bucket = self.bucket();
        bucket.refill(self.rate, Instant::now());
        to_bytes(bucket.credit.saturating_add(earned(self.rate, time)))
    }

    pub(super) async fn pass(&self, bytes: u64) {
        let _turn = self.turn.lock().await;
        loop {
            let taken = self.bucket().take(bytes, self.rate, Instant::now());
            let Err(wait) = taken else { return };
            // The runtime's timer counts in milliseconds.
            tokio::time::sleep(wait.max(Duration::from_micros(1))).await;
        }
    }

    fn bucket(&self) -> MutexGuard<'_, Bucket> {
        self.bucket.lock().expect("nobody panics with the bucket in hand")
    }
}

/// What was earned and not taken yet, in bytes times nanoseconds. Starts empty.
#[derive(Debug)]
struct Bucket {
    credit: i128,
    cap: i128,
    refilled: Instant,
}

impl Bucket {
    fn new(cap: i128) -> Self {
        Self { credit: 0, cap, refilled: Instant::now() }
    }

    fn set_cap(&mut self, cap: i128) {
        self.cap = cap;
        self.credit = self.credit.min(cap);
    }

    fn refill(&mut self, rate: u64, now: Instant) {
        let passed = now.saturating_duration_since(self.refilled);
        self.refilled = now;
        self.credit = self.credit.saturating_add(earned(rate, passed)).min(self.cap);
    }

    /// Takes so many bytes, or tells how long to wait for them.
    fn take(&mut self, bytes: u64, rate: u64, now: Instant) -> Result<(), Duration> {
        self.refill(rate, now);
        let missing = to_credit(bytes) - self.credit;
        if missing <= 0 {
            self.credit -= to_credit(bytes);
            return Ok(());
        }
        let nanos = missing.unsigned_abs().div_ceil(u128::from(rate.max(1)));
        Err(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }
}

/// What such a rate earns in this time.
fn earned(rate: u64, time: Duration) -> i128 {
    i128::try_from(u128::from(rate).saturating_mul(time.as_nanos())).unwrap_or(i128::MAX)
}

fn to_credit(bytes: u64) -> i128 {
    i128::try_from(u128::from(bytes) * NANOS_PER_SEC).unwrap_or(i128::MAX)
}

fn to_bytes(credit: i128) -> u64 {
    let bytes = u128::try_from(credit).unwrap_or(0) / NANOS_PER_SEC;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
