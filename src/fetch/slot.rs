//! The time in which bytes may be read.
//!
//! A slot is a value: it says until when, on a clock that goes on counting while the computer sleeps, and carries the
//! order to stop, which may come at any time and is final. Whoever reads looks at it before every read.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::base::Time;

/// The longest sleep before the clock is looked at again: a timer of the runtime stands still while the computer sleeps.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// A clock, as the slot's owner reads it.
pub type Clock = Arc<dyn Fn() -> Time + Send + Sync>;

/// Until when, and how fast, bytes may be read.
#[derive(Clone)]
pub struct Slot {
    ends: Option<Ends>,
    rate_bytes_per_sec: Option<u64>,
    counts_connections: bool,
    /// Until when there is a right to read, which is prolonged while it lasts.
    lease: Option<watch::Receiver<Time>>,
    stop: watch::Receiver<bool>,
    /// The user's own order to stop, if it is not the one above.
    also: Option<watch::Receiver<bool>>,
}

#[derive(Clone)]
struct Ends {
    at: Time,
    clock: Clock,
}

impl Slot {
    /// A slot until `deadline` on `clock`; it is over earlier when `stop` becomes true or its sender goes away.
    pub fn until(deadline: Time, clock: Clock, stop: watch::Receiver<bool>) -> Self {
        Self { ends: Some(Ends { at: deadline, clock }), ..Self::eternal(stop) }
    }

    /// A slot that ends only by order: what a user without a circle has.
    pub fn eternal(stop: watch::Receiver<bool>) -> Self {
        Self {
            ends: None,
            rate_bytes_per_sec: None,
            counts_connections: false,
            lease: None,
            stop,
            also: None,
        }
    }

    /// The same slot at no more than this rate.
    #[must_use]
    pub fn at_rate(mut self, bytes_per_sec: Option<u64>) -> Self {
        self.rate_bytes_per_sec = bytes_per_sec;
        self
    }

    /// The same slot; whether the source counts connections, so that there is one at most, and none when the slot is over.
    #[must_use]
    pub fn counting_connections(mut self, counts: bool) -> Self {
        self.counts_connections = counts;
        self
    }

    /// The same slot, which also ends when its lease does, unless that was prolonged by then.
    #[must_use]
    pub fn leased(mut self, lease: Option<watch::Receiver<Time>>) -> Self {
        self.lease = lease;
        self
    }

    /// Its lease, to hand it on.
    pub fn lease(&self) -> Option<watch::Receiver<Time>> {
        self.lease.clone()
    }

    /// The same slot, which this order ends as well.
    #[must_use]
    pub fn ended_by(mut self, also: watch::Receiver<bool>) -> Self {
        self.also = Some(also);
        self
    }

    /// How fast at most.
    pub fn rate_bytes_per_sec(&self) -> Option<u64> {
        self.rate_bytes_per_sec
    }

    /// Whether there may be one connection at most, and none when the slot is over.
    pub fn counts_connections(&self) -> bool {
        self.counts_connections
    }

    /// Whether there is an end in sight.
    pub fn is_limited(&self) -> bool {
        self.ends.is_some()
    }

    /// How much time is left, if its lease is prolonged for so long; `None` if there is no end in sight.
    pub fn left(&self) -> Option<Duration> {
        if self.is_stopped() || self.lease_left().is_some_and(|left| left.is_zero()) {
            return Some(Duration::ZERO);
        }
        self.ends.as_ref().map(|ends| ends.at.since((ends.clock)()))
    }

    fn lease_left(&self) -> Option<Duration> {
        let (lease, ends) = (self.lease.as_ref()?, self.ends.as_ref()?);
        Some(lease.borrow().since((ends.clock)()))
    }

    /// Whether not one more byte may be read.
    pub fn is_over(&self) -> bool {
        self.left().is_some_and(|left| left.is_zero())
    }

    /// Ready when the slot is over.
    pub async fn over(&self) {
        let mut stop = self.stop.clone();
        let mut also = self.also.clone();
        loop {
            let nap = match self.left() {
                Some(Duration::ZERO) => return,
                Some(left) => left.min(self.lease_left().unwrap_or(left)).min(LOOK_EVERY),
                None => LOOK_EVERY,
            };
            tokio::select! {
                changed = stop.changed() => if changed.is_err() { return },
                () = changed(&mut also) => {}
                () = tokio::time::sleep(nap) => {}
            }
        }
    }

    fn is_stopped(&self) -> bool {
        let is_ordered = |stop: &watch::Receiver<bool>| *stop.borrow() || stop.has_changed().is_err();
        is_ordered(&self.stop) || self.also.as_ref().is_some_and(is_ordered)
    }
}

/// Ready when the order may have come; never if there is none.
async fn changed(order: &mut Option<watch::Receiver<bool>>) {
    match order {
        Some(order) => drop(order.changed().await),
        None => std::future::pending().await,
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("left", &self.left()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    fn ticking(seconds: Arc<AtomicU64>) -> Clock {
        Arc::new(move || Time::from_secs(seconds.load(Ordering::SeqCst)))
    }

    #[test]
    fn a_slot_is_over_at_its_deadline_and_by_order() {
        let now = Arc::new(AtomicU64::new(0));
        let (order, stop) = watch::channel(false);
        let slot = Slot::until(Time::from_secs(4), ticking(now.clone()), stop.clone());
        assert_eq!(slot.left(), Some(Duration::from_secs(4)));
        now.store(4, Ordering::SeqCst);
        assert!(slot.is_over());
        now.store(0, Ordering::SeqCst);
        assert!(!slot.is_over());
        let eternal = Slot::eternal(stop);
        assert!(!eternal.is_over());
        order.send_replace(true);
        assert!(slot.is_over() && eternal.is_over());
    }

    #[test]
    fn a_slot_is_over_when_its_lease_is_not_prolonged() {
        let now = Arc::new(AtomicU64::new(0));
        let (_order, stop) = watch::channel(false);
        let (lease, leased) = watch::channel(Time::from_secs(3));
        let slot = Slot::until(Time::from_secs(9), ticking(now.clone()), stop).leased(Some(leased));
        assert_eq!(slot.left(), Some(Duration::from_secs(9)), "it is expected to be prolonged");
        now.store(2, Ordering::SeqCst);
        lease.send_replace(Time::from_secs(5));
        now.store(4, Ordering::SeqCst);
        assert!(!slot.is_over());
        now.store(5, Ordering::SeqCst);
        assert!(slot.is_over());
    }

    #[tokio::test(start_paused = true)]
    async fn the_users_order_ends_a_slot_as_well() {
        let (_order, stop) = watch::channel(false);
        let (user, also) = watch::channel(false);
        let slot = Slot::eternal(stop).ended_by(also);
        assert!(!slot.is_over());
        let waiting = tokio::spawn({
            let slot = slot.clone();
            async move { slot.over().await }
        });
        user.send_replace(true);
        waiting.await.expect("waits");
        assert!(slot.is_over());
    }

    #[test]
    fn a_slot_whose_owner_is_gone_is_over() {
        let (order, stop) = watch::channel(false);
        let slot = Slot::eternal(stop);
        drop(order);
        assert!(slot.is_over());
    }

    #[tokio::test(start_paused = true)]
    async fn waking_from_a_suspension_finds_the_slot_over() {
        let now = Arc::new(AtomicU64::new(0));
        let (_order, stop) = watch::channel(false);
        let slot = Slot::until(Time::from_secs(3_600), ticking(now.clone()), stop);
        let begun = tokio::time::Instant::now();
        now.store(4_000, Ordering::SeqCst);
        slot.over().await;
        assert!(begun.elapsed() < Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn an_order_to_stop_is_noticed_at_once() {
        let (order, stop) = watch::channel(false);
        let slot = Slot::eternal(stop);
        let begun = tokio::time::Instant::now();
        let waiting = tokio::spawn(async move { slot.over().await });
        tokio::time::sleep(Duration::from_millis(10)).await;
        order.send_replace(true);
        waiting.await.expect("waits");
        assert!(begun.elapsed() < Duration::from_millis(50));
    }
}
