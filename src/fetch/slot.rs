//! The time in which bytes may be read.
//!
//! A slot is a value: it says until when, on a clock that goes on counting while the computer sleeps, and carries the
//! order to stop, which may come at any time and is final. Whoever reads looks at it before every read.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
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
    /// Whether somebody else is known to wait for it.
    wanted: Option<watch::Receiver<bool>>,
    /// What the job should pull in it, shared by the job's connections.
    tally: Option<Arc<Tally>>,
}

/// The bytes that a job should pull in a slot, and those that came. When as many came and somebody else waits for the
/// slot, the job asks for nothing more; if nobody waits, it goes on, until somebody does.
#[derive(Debug)]
pub struct Tally {
    /// [`u64::MAX`] is as many as come.
    budget: AtomicU64,
    came: AtomicU64,
}

impl Default for Tally {
    fn default() -> Self {
        Self { budget: AtomicU64::new(u64::MAX), came: AtomicU64::new(0) }
    }
}

impl Tally {
    /// A slot begins, in which so many bytes should be pulled; `None` is as many as come.
    pub fn begin(&self, budget: Option<u64>) {
        self.came.store(0, Ordering::Relaxed);
        self.budget.store(budget.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// So many bytes came.
    pub fn add(&self, bytes: u64) {
        self.came.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So many more bytes than have come are there to be pulled: the budget is at least that large. Without a budget
    /// nothing changes.
    pub fn cover(&self, bytes: u64) {
        self.budget.fetch_max(self.came().saturating_add(bytes), Ordering::Relaxed);
    }

    /// How many bytes came in this slot.
    pub fn came(&self) -> u64 {
        self.came.load(Ordering::Relaxed)
    }

    fn is_exceeded(&self) -> bool {
        self.came() > self.budget.load(Ordering::Relaxed)
    }

    /// How many bytes of the budget are left; `None` if there is none.
    pub fn left(&self) -> Option<u64> {
        let budget = self.budget.load(Ordering::Relaxed);
        (budget < u64::MAX).then(|| budget.saturating_sub(self.came()))
    }
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
            wanted: None,
            tally: None,
        }
    }

    /// The same slot, which somebody else is known to wait for when this says so.
    #[must_use]
    pub fn wanted_when(mut self, wanted: watch::Receiver<bool>) -> Self {
        self.wanted = Some(wanted);
        self
    }

    /// Whether somebody else waits for it, to hand that on.
    pub fn wanted(&self) -> Option<watch::Receiver<bool>> {
        self.wanted.clone()
    }

    /// The same slot for a job that counts what it pulls in it.
    #[must_use]
    pub fn tallied(mut self, tally: Arc<Tally>) -> Self {
        self.tally = Some(tally);
        self
    }

    /// How many bytes of the job's budget are left; `None` if it has none.
    pub fn budget_left(&self) -> Option<u64> {
        self.tally.as_ref()?.left()
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
        if self.is_stopped() || self.lets_go() || self.lease_left().is_some_and(|left| left.is_zero()) {
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
        let mut wanted = self.wanted.clone();
        loop {
            let nap = match self.left() {
                Some(Duration::ZERO) => return,
                Some(left) => left.min(self.lease_left().unwrap_or(left)).min(LOOK_EVERY),
                None => LOOK_EVERY,
            };
            tokio::select! {
                changed = stop.changed() => if changed.is_err() { return },
                () = changed(&mut also) => {}
                () = changed_while_held(&mut wanted) => {}
                () = tokio::time::sleep(nap) => {}
            }
        }
    }

    /// Whether nothing more should be asked for: it is over, or the job has what it should have and somebody else waits.
    /// What was asked for until then comes to its end, which costs no connection.
    pub fn is_spent(&self) -> bool {
        self.is_over() || (self.is_wanted() && self.budget_left() == Some(0))
    }

    fn is_wanted(&self) -> bool {
        self.wanted.as_ref().is_some_and(|wanted| *wanted.borrow())
    }

    /// Whether the job has more than it should have in this slot, and somebody else waits.
    fn lets_go(&self) -> bool {
        self.is_wanted() && self.tally.as_ref().is_some_and(|tally| tally.is_exceeded())
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

/// Ready when it may have become known that somebody waits; never if nobody can tell any more.
async fn changed_while_held(wanted: &mut Option<watch::Receiver<bool>>) {
    if let Some(wanted) = wanted
        && wanted.changed().await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("left", &self.left()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
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

    #[tokio::test(start_paused = true)]
    async fn a_slot_is_over_when_the_budget_is_used_up_and_somebody_waits() {
        let (_order, stop) = watch::channel(false);
        let (told, wanted) = watch::channel(false);
        let tally = Arc::new(Tally::default());
        let clock = ticking(Arc::default());
        let slot = Slot::until(Time::from_secs(9), clock, stop).wanted_when(wanted).tallied(tally.clone());
        tally.begin(Some(10));
        tally.add(10);
        assert!(!slot.is_spent(), "nobody waits: it goes on");
        told.send_replace(true);
        assert!(slot.is_spent() && !slot.is_over(), "what was asked for comes to its end");
        told.send_replace(false);
        tally.add(1);
        let begun = tokio::time::Instant::now();
        let waiting = tokio::spawn({
            let slot = slot.clone();
            async move { slot.over().await }
        });
        tokio::time::sleep(Duration::from_millis(10)).await;
        told.send_replace(true);
        waiting.await.expect("waits");
        assert!(slot.is_over() && begun.elapsed() < Duration::from_millis(50));
        tally.begin(None);
        tally.add(1 << 40);
        assert!(!slot.is_over(), "there is no budget");
        tally.begin(Some(10));
        tally.cover(30);
        tally.add(20);
        assert!(!slot.is_spent(), "more turned out to be there");
        drop(told);
        tally.add(11);
        assert!(slot.is_over(), "what was known last holds");
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
