//! A network that loses, repeats, delays, damages and splits: one more pure machine.

use std::time::Duration;

use crate::base::{Rng, Time};
use crate::sim::split::Split;

/// How long a datagram is held back at most before it is replayed.
const REPLAYED_WITHIN: Duration = Duration::from_secs(60);

/// How wrong drawn clocks are at most in a run in which certificates expire. Two members whose clocks differ by more than
/// [`CLOCK_TOLERANCE`](crate::trust::CLOCK_TOLERANCE) do not agree whether a third one is still a member, and nothing is
/// promised then.
const SKEW_NEAR_EXPIRY: Duration = Duration::from_secs(60);

/// What goes wrong, and how often. Shares are between 0 and 1; spans are means.
#[derive(Clone, Debug, PartialEq)]
pub struct Faults {
    /// The share of datagrams that never arrive.
    pub loss: f64,
    /// The share that arrive twice.
    pub duplication: f64,
    /// The share that arrive damaged.
    pub corruption: f64,
    /// The shortest way.
    pub delay: Duration,
    /// How much longer it may take, evenly drawn: what is sent later may arrive earlier.
    pub jitter: Duration,
    /// The share of datagrams that are held back for up to a minute, and replayed.
    pub replay: f64,
    /// Time between two splits of the network, and how long they last. Half of them are one-way.
    pub split_every: Option<Duration>,
    /// How long a split lasts.
    pub split_for: Duration,
    /// Time between two crashes anywhere.
    pub crash_every: Option<Duration>,
    /// How long a crashed member stays away; some are back at once.
    pub restart_after: Duration,
    /// The share of crashed members that come back without their files: all that is left are the papers of the enrolment.
    pub forgetting: f64,
    /// Time between two pauses of a random member (a suspended computer).
    pub pause_every: Option<Duration>,
    /// How long a pause lasts.
    pub pause_for: Duration,
    /// Wall clocks are off by up to this, either way.
    pub clock_skew: Duration,
    /// Time between two bans of a random member, of which a few members hear from the authority. Half of the circle stays.
    pub ban_every: Option<Duration>,
    /// The share of members whose certificate expires while things go wrong; at most every fourth.
    pub expiring: f64,
    /// How much faster or slower than true time clocks go, in parts of a million; tokens do not mind.
    pub drift_ppm: u32,
}

impl Default for Faults {
    /// A good network: 10 to 15 ms, and nothing goes wrong.
    fn default() -> Self {
        Self {
            loss: 0.0,
            duplication: 0.0,
            corruption: 0.0,
            delay: Duration::from_millis(10),
            jitter: Duration::from_millis(5),
            replay: 0.0,
            split_every: None,
            split_for: Duration::from_secs(30),
            crash_every: None,
            restart_after: Duration::from_secs(20),
            forgetting: 0.0,
            pause_every: None,
            pause_for: Duration::from_secs(10),
            clock_skew: Duration::ZERO,
            ban_every: None,
            expiring: 0.0,
            drift_ppm: 0,
        }
    }
}

impl Faults {
    /// Drawn from the seed: some off, others wild. Clocks stay within what is stated.
    pub fn swarm(stated_drift_ppm: u32, rng: &mut Rng) -> Self {
        let mut maybe = |most: f64| if rng.below(2) == 0 { 0.0 } else { rng.fraction() * most };
        let (loss, duplication, corruption, replay) = (maybe(0.4), maybe(0.3), maybe(0.1), maybe(0.05));
        let span = |rng: &mut Rng, low: u64, high: u64| {
            rng.uniform(Duration::from_millis(low), Duration::from_millis(high))
        };
        let delay = span(rng, 1, 120);
        let jitter = span(rng, 0, 300);
        let mut every = |low, high| (rng.below(2) == 0).then(|| span(rng, low, high));
        let (split_every, crash_every) = (every(20_000, 200_000), every(10_000, 200_000));
        let pause_every = every(20_000, 200_000);
        let mut faults = Self {
            loss,
            duplication,
            corruption,
            delay,
            jitter,
            replay,
            split_every,
            split_for: span(rng, 2_000, 60_000),
            crash_every,
            restart_after: span(rng, 0, 60_000),
            pause_every,
            pause_for: span(rng, 200, 40_000),
            clock_skew: span(rng, 0, 3_600_000),
            ban_every: (rng.below(2) == 0).then(|| span(rng, 30_000, 300_000)),
            expiring: if rng.below(2) == 0 { 0.0 } else { rng.fraction() * 0.3 },
            drift_ppm: stated_drift_ppm,
            forgetting: if rng.below(2) == 0 { 0.0 } else { rng.fraction() },
        };
        if faults.expiring > 0.0 {
            faults.clock_skew = faults.clock_skew.min(SKEW_NEAR_EXPIRY);
        }
        faults
    }
}

/// The network between the members.
#[derive(Debug)]
pub(super) struct Network {
    faults: Faults,
    split: Option<Split>,
    rng: Rng,
}

/// A copy of a datagram that will arrive.
#[derive(Debug)]
pub(super) struct Copy {
    pub(super) at: Time,
    pub(super) bytes: Vec<u8>,
}

impl Network {
    pub(super) fn new(faults: Faults, rng: Rng) -> Self {
        Self { faults, split: None, rng }
    }

    pub(super) fn faults(&self) -> &Faults {
        &self.faults
    }

    pub(super) fn drift_ppm(&self) -> u32 {
        self.faults.drift_ppm
    }

    /// From now on nothing goes wrong, but clocks stay as they are.
    pub(super) fn heal(&mut self) {
        let Faults { delay, jitter, drift_ppm, .. } = self.faults;
        self.faults = Faults { delay, jitter, drift_ppm, ..Faults::default() };
        self.split = None;
    }

    pub(super) fn split(&mut self, members: usize) {
        self.split = Some(Split::drawn(members, 2, &mut self.rng));
    }

    /// Every second member on the other side, and nothing gets across.
    pub(super) fn halve(&mut self, members: usize) {
        self.split = Some(Split::halves(members));
    }

    pub(super) fn join(&mut self) {
        self.split = None;
    }

    /// What becomes of a datagram: any number of copies.
    pub(super) fn carry(&mut self, from: usize, to: usize, bytes: &[u8], now: Time) -> Vec<Copy> {
        let mut copies = Vec::new();
        if self.is_cut(from, to) || self.rng.fraction() < self.faults.loss {
            return copies;
        }
        let count = if self.rng.fraction() < self.faults.duplication { 2 } else { 1 };
        for _ in 0..count {
            let at = now + self.travel();
            copies.push(Copy { at, bytes: self.damage(bytes) });
        }
        if self.rng.fraction() < self.faults.replay {
            let later = self.rng.uniform(Duration::from_secs(1), REPLAYED_WITHIN);
            copies.push(Copy { at: now + later, bytes: bytes.to_vec() });
        }
        copies
    }

    fn travel(&mut self) -> Duration {
        self.faults.delay + self.rng.uniform(Duration::ZERO, self.faults.jitter)
    }

    fn damage(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        if self.rng.fraction() < self.faults.corruption {
            let place = self.rng.below(bytes.len().max(1));
            let bit = self.rng.below(8);
            if let Some(byte) = bytes.get_mut(place) {
                *byte ^= 1 << bit;
            }
            if self.rng.below(4) == 0 {
                bytes.truncate(place);
            }
        }
        bytes
    }

    fn is_cut(&self, from: usize, to: usize) -> bool {
        self.split.as_ref().is_some_and(|split| split.cuts(from, to))
    }
}
