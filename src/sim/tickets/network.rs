//! What goes wrong, and the network where part of it does.

use std::time::Duration;

use crate::base::{Rng, Time};
use crate::sim::split::Split;

/// What goes wrong, and how often. Shares are between 0 and 1; spans are means.
#[derive(Clone, Debug, PartialEq)]
pub struct Faults {
    /// The share of messages that never arrive.
    pub loss: f64,
    /// The share that arrive twice.
    pub duplication: f64,
    /// The share that come once more, up to a minute later.
    pub replay: f64,
    /// The shortest way.
    pub delay: Duration,
    /// How much longer it may take, evenly drawn: what is sent later may arrive earlier.
    pub jitter: Duration,
    /// Time between two splits of the network: even or of a few members, both ways or one way.
    pub split_every: Option<Duration>,
    /// How long a split lasts.
    pub split_for: Duration,
    /// Time between two crashes: of one member, now and then of up to k neighbours at once.
    pub crash_every: Option<Duration>,
    /// How long a crashed member stays away; some are back at once.
    pub restart_after: Duration,
    /// Time between two pauses of a random member (a suspended computer).
    pub pause_every: Option<Duration>,
    /// How long a pause lasts.
    pub pause_for: Duration,
    /// Time between two members leaving in good order.
    pub leave_every: Option<Duration>,
    /// How long they stay away.
    pub away_for: Duration,
    /// Time between two members that run out of work.
    pub idle_every: Option<Duration>,
    /// How long they have none.
    pub idle_for: Duration,
    /// How much faster or slower than true time clocks really go, in parts of a million.
    pub drift_ppm: u32,
}

impl Default for Faults {
    /// A good network: 10 to 15 ms, and nothing goes wrong.
    fn default() -> Self {
        Self {
            loss: 0.0,
            duplication: 0.0,
            replay: 0.0,
            delay: Duration::from_millis(10),
            jitter: Duration::from_millis(5),
            split_every: None,
            split_for: Duration::from_secs(20),
            crash_every: None,
            restart_after: Duration::from_secs(20),
            pause_every: None,
            pause_for: Duration::from_secs(10),
            leave_every: None,
            away_for: Duration::from_secs(10),
            idle_every: None,
            idle_for: Duration::from_secs(10),
            drift_ppm: 0,
        }
    }
}

impl Faults {
    /// Drawn from the seed: some off, others wild. Clocks stay within what is stated.
    pub fn swarm(stated_drift_ppm: u32, rng: &mut Rng) -> Self {
        let mut maybe = |most: f64| if rng.below(2) == 0 { 0.0 } else { rng.fraction() * most };
        let (loss, duplication, replay) = (maybe(0.3), maybe(0.3), maybe(0.05));
        let span = |rng: &mut Rng, low: u64, high: u64| {
            rng.uniform(Duration::from_millis(low), Duration::from_millis(high))
        };
        let (delay, jitter) = (span(rng, 0, 120), span(rng, 0, 600));
        let mut every = |low, high| (rng.below(2) == 0).then(|| span(rng, low, high));
        Self {
            loss,
            duplication,
            replay,
            delay,
            jitter,
            split_every: every(20_000, 200_000),
            crash_every: every(5_000, 100_000),
            pause_every: every(10_000, 100_000),
            leave_every: every(5_000, 100_000),
            idle_every: every(2_000, 60_000),
            split_for: span(rng, 500, 60_000),
            restart_after: span(rng, 0, 60_000),
            pause_for: span(rng, 200, 20_000),
            away_for: span(rng, 0, 20_000),
            idle_for: span(rng, 100, 20_000),
            drift_ppm: stated_drift_ppm,
        }
    }
}

/// The network between the members.
#[derive(Debug)]
pub(super) struct Network {
    faults: Faults,
    split: Option<Split>,
    /// When it last was in two parts.
    split_at: Option<Time>,
    rng: Rng,
}

impl Network {
    pub(super) fn new(faults: Faults, rng: Rng) -> Self {
        Self { faults, split: None, split_at: None, rng }
    }

    pub(super) fn faults(&self) -> &Faults {
        &self.faults
    }

    /// From now on nothing goes wrong, but clocks stay as they are.
    pub(super) fn heal(&mut self, now: Time) {
        let Faults { delay, jitter, drift_ppm, .. } = self.faults;
        self.faults = Faults { delay, jitter, drift_ppm, ..Faults::default() };
        self.join(now);
    }

    pub(super) fn split(&mut self, members: usize) {
        let one_in = if self.rng.below(2) == 0 { 2 } else { 8 };
        self.split = Some(Split::drawn(members, one_in, &mut self.rng));
    }

    pub(super) fn join(&mut self, now: Time) {
        if self.split.take().is_some() {
            self.split_at = Some(now);
        }
    }

    /// Whether it is in two parts.
    pub(super) fn is_split(&self) -> bool {
        self.split.is_some()
    }

    /// Whether everybody could reach everybody all the time since then, and nothing got lost.
    pub(super) fn was_whole_since(&self, since: Time) -> bool {
        self.faults.loss == 0.0 && self.split.is_none() && self.split_at.is_none_or(|at| at < since)
    }

    /// When a message arrives: not at all, once, twice, or once more much later.
    pub(super) fn carry(&mut self, from: usize, to: usize, now: Time) -> impl Iterator<Item = Time> + use<> {
        let is_lost = self.split.as_ref().is_some_and(|split| split.cuts(from, to))
            || self.rng.fraction() < self.faults.loss;
        let mut copies = [None; 3];
        if !is_lost {
            let [first, second, third] = &mut copies;
            *first = Some(now + self.travel());
            if self.rng.fraction() < self.faults.duplication {
                *second = Some(now + self.travel());
            }
            if self.rng.fraction() < self.faults.replay {
                *third = Some(now + self.rng.uniform(Duration::from_secs(1), Duration::from_secs(60)));
            }
        }
        copies.into_iter().flatten()
    }

    fn travel(&mut self) -> Duration {
        self.faults.delay + self.rng.uniform(Duration::ZERO, self.faults.jitter)
    }
}
