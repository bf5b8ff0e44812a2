//! Seeded randomness: one master seed, a child generator for every component.
//!
//! Nothing in the pure rooms draws from anywhere else, so a run is repeated bit for bit by its seed.

use std::time::Duration;

use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_distr::{Distribution as _, Exp1};
use rand_pcg::Pcg64Mcg;

/// A small, fast, repeatable generator. Not for keys or nonces.
#[derive(Clone, Debug)]
pub struct Rng(Pcg64Mcg);

impl Rng {
    /// The generator that this seed always gives.
    pub fn seeded(seed: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed))
    }

    /// A generator for one component. It goes its own way: how much the component draws changes nothing elsewhere.
    #[must_use]
    pub fn child(&mut self) -> Self {
        Self::seeded(self.next_u64())
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A whole number in `0..bound`.
    ///
    /// # Panics
    /// If `bound` is zero: there is no such number.
    pub fn below(&mut self, bound: usize) -> usize {
        assert!(bound > 0, "a draw from an empty range");
        self.0.random_range(0..bound)
    }

    /// A number in `0.0..1.0`.
    pub fn fraction(&mut self) -> f64 {
        self.0.random()
    }

    /// A span between `low` and `high`, each equally likely.
    pub fn uniform(&mut self, low: Duration, high: Duration) -> Duration {
        low + high.saturating_sub(low).mul_f64(self.fraction())
    }

    /// The time until the next event of a Poisson process with this mean time between events.
    pub fn exponential(&mut self, mean: Duration) -> Duration {
        let factor: f64 = Exp1.sample(&mut self.0);
        Duration::try_from_secs_f64(mean.as_secs_f64() * factor).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_another_does_not() {
        let draw = |seed| {
            let mut rng = Rng::seeded(seed);
            [rng.next_u64(), rng.child().next_u64(), rng.next_u64()]
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn a_child_does_not_disturb_its_parent() {
        let (mut a, mut b) = (Rng::seeded(7), Rng::seeded(7));
        let mut busy = a.child();
        let _idle = b.child();
        for _ in 0..100 {
            busy.next_u64();
        }
        assert_eq!(a.next_u64(), b.next_u64());
    }

    #[test]
    fn exponential_has_the_mean_and_the_spread_it_should() {
        let mut rng = Rng::seeded(3);
        let n = 100_000;
        let draws: Vec<f64> =
            (0..n).map(|_| rng.exponential(Duration::from_secs(60)).as_secs_f64()).collect();
        let mean = draws.iter().sum::<f64>() / f64::from(n);
        let above = draws.iter().filter(|&&x| x > 120.0).count() as f64 / f64::from(n);
        assert!((mean - 60.0).abs() < 1.0, "mean {mean}");
        assert!((above - (-2.0_f64).exp()).abs() < 0.01, "share above twice the mean: {above}");
    }

    #[test]
    fn exponential_of_an_absurd_mean_does_not_overflow() {
        let mut rng = Rng::seeded(1);
        for _ in 0..1000 {
            assert!(rng.exponential(Duration::MAX) > Duration::ZERO);
        }
    }
}
