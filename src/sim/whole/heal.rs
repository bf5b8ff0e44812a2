//! How soon one token is left after two halves of a circle have found together again. Tests and `benches/heal.rs` ask.

use std::time::Duration;

use crate::base::Time;

use super::scenario::Scenario;
use super::world::Whole;

/// A circle that was cut in two, and what became of its tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Healing {
    /// The mean time between two visits of a token at a member, before the cut.
    pub return_time: Duration,
    /// Tokens alive when the halves met again.
    pub tokens: usize,
    /// How long two were alive after that.
    pub took: Duration,
    /// Tokens alive at the end.
    pub left: usize,
    /// Broken promises of any kind.
    pub violations: usize,
}

impl Healing {
    /// The time it took, in return times.
    pub fn return_times(&self) -> f64 {
        self.took.as_secs_f64() / self.return_time.as_secs_f64()
    }

    /// Runs a circle that is whole for as long as `whole`, then cut in two for the rest of the scenario's duration, and
    /// whole again while it settles.
    pub fn measure(scenario: &Scenario, whole: Duration, seed: u64) -> Self {
        let mut circle = Whole::new(scenario, seed);
        while circle.now < Time::ZERO + whole && circle.step() {}
        let visits = u32::try_from(circle.outcome.passes).unwrap_or(u32::MAX).max(1);
        let members = u32::try_from(scenario.members).unwrap_or(u32::MAX);
        let return_time = (whole * members) / visits;

        circle.network.halve(scenario.members);
        while circle.now < circle.peace_at && circle.step() {}
        let tokens = circle.checks.tokens_alive();
        let mut two_until = circle.peace_at;
        let mut before = tokens;
        while circle.step() {
            if before.max(circle.checks.tokens_alive()) > 1 {
                two_until = circle.now;
            }
            before = circle.checks.tokens_alive();
        }
        Self {
            return_time,
            tokens,
            took: two_until.since(circle.peace_at),
            left: before,
            violations: circle.checks.violations().len(),
        }
    }
}
