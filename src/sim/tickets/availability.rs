//! How likely it is to get a ticket while holders fail all the time.
//!
//! The ticket paper (Section 4.2) predicts that a ticket can be had with high probability while p_f < (1 − α)/2, where α is
//! the share of tickets that live members hold and p_f the probability that a holder fails within a round. Its rounds are so
//! long that a failure of one is over in the next; ours are short, and it takes several until a silent holder is missed. So
//! p_f is taken for that time here.
//!
//! Holders fail so, and for each that fails another member asks for a ticket, which keeps α: either it has one before its
//! patience is over, or not. The prediction counts tickets, and takes for granted that those of the failed come back. That
//! needs k+1 of 2k+1 witnesses, so where k is small, or half of the ring fails at once, less is to be had.

use std::time::Duration;

use crate::base::Time;
use crate::proto::tickets::Config;

use super::network::Faults;
use super::place::Place;
use super::scenario::Scenario;
use super::world::Ring;

/// Members for each ticket: enough that somebody is always there to ask.
const MEMBERS_PER_TICKET: usize = 3;

/// Who fails is back after so many rounds, as somebody who wants nothing.
const AWAY_ROUNDS: u32 = 30;

/// Whoever has no ticket after so many rounds did not get one.
const PATIENCE_ROUNDS: u32 = 12;

/// Nobody fails for so many rounds, so that the ring is there.
const WARM_UP_ROUNDS: u32 = 60;

/// Requests for tickets while holders fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Availability {
    /// How many.
    pub requests: u64,
    /// How many of them were served in time.
    pub served: u64,
}

impl Availability {
    /// The p_f up to which the paper predicts success if this share of tickets is held.
    pub fn predicted_until(held: f64) -> f64 {
        (1.0 - held) / 2.0
    }

    /// The share of requests that were served, in percent.
    pub fn percent(&self) -> f64 {
        100.0 * self.served as f64 / self.requests.max(1) as f64
    }

    /// Takes in what another run came to.
    pub fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.served += other.served;
    }

    /// So many rounds in which this share of tickets is held, and holders fail with this probability within the time that it
    /// takes to have the ticket of one that failed.
    pub fn measure(config: &Config, held: f64, failing: f64, rounds: u32, seed: u64) -> Self {
        let takes = (config.lease + config.round).as_secs_f64() / config.round.as_secs_f64();
        let failing_per_round = 1.0 - (1.0 - failing).powf(1.0 / takes);
        let away = config.round * AWAY_ROUNDS;
        let scenario = Scenario {
            members: usize::from(config.tickets) * MEMBERS_PER_TICKET,
            config: config.clone(),
            duration: config.round * (WARM_UP_ROUNDS + rounds),
            settle: Duration::ZERO,
            faults: Some(Faults { restart_after: away, ..Faults::default() }),
        };
        let mut trial =
            Trial { ring: Ring::new(&scenario, seed), asking: Vec::new(), result: Self::default() };
        trial.ring.starts_idle = true;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of the tickets")]
        let holders = (f64::from(config.tickets) * held).round() as u32;
        for member in holders.max(1)..u32::try_from(scenario.members).unwrap_or(u32::MAX) {
            trial.ring.work(member, false);
        }
        for round in 1..WARM_UP_ROUNDS + rounds {
            let at = Time::ZERO + config.round * round;
            while trial.ring.now() < at && trial.ring.step() {}
            if round >= WARM_UP_ROUNDS {
                trial.look(config.round * PATIENCE_ROUNDS);
                trial.fail(failing_per_round);
            }
        }
        trial.result
    }
}

struct Trial {
    ring: Ring,
    /// Who has asked for a ticket, and when.
    asking: Vec<(u32, Time)>,
    result: Availability,
}

impl Trial {
    /// One round's failures; somebody else asks in the place of each.
    fn fail(&mut self, failing: f64) {
        let now = self.ring.now();
        for member in 0..u32::try_from(self.ring.places.len()).unwrap_or(u32::MAX) {
            let is_holder = self.ring.place(member).is_some_and(|place| place.sure_seat(now).is_some());
            if is_holder && self.ring.rng.fraction() < failing {
                self.ring.crash(member);
                self.ask();
            }
        }
    }

    fn ask(&mut self) {
        let is_free = |place: &Place| place.is_awake() && place.seat.is_none() && !place.has_work;
        let free: Vec<usize> =
            (0..self.ring.places.len()).filter(|n| self.ring.places.get(*n).is_some_and(is_free)).collect();
        if free.is_empty() {
            return;
        }
        let drawn = self.ring.rng.below(free.len());
        if let Some(member) = free.get(drawn).and_then(|member| u32::try_from(*member).ok()) {
            self.ring.work(member, true);
            self.asking.push((member, self.ring.now()));
        }
    }

    /// Who has a ticket, and who has waited in vain.
    fn look(&mut self, patience: Duration) {
        let now = self.ring.now();
        for (member, since) in std::mem::take(&mut self.asking) {
            let is_served = self.ring.place(member).is_some_and(|place| place.sure_seat(now).is_some());
            let is_over = is_served || now.since(since) >= patience;
            if !is_over {
                self.asking.push((member, since));
                continue;
            }
            self.result.requests += 1;
            self.result.served += u64::from(is_served);
            if !is_served {
                self.ring.work(member, false);
                self.ask();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a ring that bears four failures at once.
    fn measured(held: f64, failing: f64) -> Availability {
        let config = Config::new(40, 4, Duration::from_secs(4));
        let mut sum = Availability::default();
        for seed in 0..6 {
            sum.add(Availability::measure(&config, held, failing, 30, seed));
        }
        assert!(sum.requests > 20, "{sum:?}");
        sum
    }

    #[test]
    fn tickets_can_be_had_as_far_as_predicted_and_not_far_beyond() {
        for (held, within, beyond) in [(0.5, 0.1, 0.4), (0.75, 0.1, 0.4), (0.9, 0.04, 0.4)] {
            assert!(within <= Availability::predicted_until(held));
            let (few, many) = (measured(held, within), measured(held, beyond));
            assert!(few.percent() > 90.0, "{held} held, {within}: {few:?}");
            assert!(many.percent() < 60.0, "{held} held, {beyond}: {many:?}");
        }
    }

    #[test]
    fn the_prediction_is_the_papers() {
        assert!((Availability::predicted_until(0.5) - 0.25).abs() < 1e-9);
        assert!((Availability::predicted_until(0.9) - 0.05).abs() < 1e-9);
    }
}
