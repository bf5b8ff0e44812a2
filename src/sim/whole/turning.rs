//! The world shows the [books of slots](super::turns) what happens, and takes over what they have measured.

use std::time::Duration;

use crate::wire::records::RuleSet;

use super::place::Place;
use super::scenario::Scenario;
use super::turns::Limits;
use super::world::{STOP_WITHIN, Whole};

/// After the faults are over it takes a while until everybody has heard of everybody again, and one token is left.
pub(super) const SETTLED_WITHIN: Duration = Duration::from_secs(60);

/// How many slots others may have between two of one member with work, in multiples of the number of members. Where all have
/// work twice is already rare.
const OVERTAKEN_ROUNDS: usize = 5;

/// Bounds for a circle of this size. The papers' rules do not promise that two tokens find each other soon.
pub(super) fn limits(scenario: &Scenario) -> Limits {
    let members = u32::try_from(scenario.members).unwrap_or(u32::MAX);
    let round = scenario.slot * scenario.capacity.unwrap_or(members).max(members);
    let is_guarded = scenario.rules == RuleSet::Guarded && scenario.ring.is_none();
    Limits {
        stop_within: STOP_WITHIN,
        two_tokens: if is_guarded { SETTLED_WITHIN * 3 / 2 + round * 2 } else { Duration::MAX },
        // The member that has waited longest of the eight that are asked is next. All have been asked after some rounds.
        overtaken: OVERTAKEN_ROUNDS * scenario.members,
        // The last resort: a member waits four times as long as it usually hears nothing, two rounds in a storm; then one in
        // the circle wakes after 15 slots on average, and after 15 times as many once in three million losses.
        recovery: if is_guarded { round * 8 + scenario.slot * 225 + SETTLED_WITHIN } else { Duration::MAX },
    }
}

impl Whole {
    /// How long it takes until a pull by a token has stopped.
    pub(super) fn token_pull_stops_within(&mut self) -> Duration {
        let within = STOP_WITHIN;
        #[cfg(test)]
        let within = within * self.sabotage.slowness();
        self.rng.uniform(Duration::ZERO, within)
    }

    /// After every event.
    pub(super) fn look_at_turns(&mut self) {
        if self.ring.is_none() {
            let (is_alive, is_peace) = (self.checks.is_any_alive(), self.now > self.peace_at);
            let standing = self.checks.standing();
            self.turns.look(usize::from(is_alive), is_peace, |member| standing.goes(member), self.now);
            self.turns.take_violations().into_iter().for_each(|violation| self.checks.complain(violation));
        }
    }

    /// Counts from now on how often members with work are overtaken. Who runs now does so to the end.
    pub(super) fn count_turns(&mut self) {
        let is_guarded = self.scenario.rules == RuleSet::Guarded && self.ring.is_none();
        let standing = self.checks.standing();
        let with_work = (0..self.places.len()).filter(|member| {
            let is_there = self.places.get(*member).is_some_and(Place::is_awake);
            is_guarded && is_there && self.scenario.has_work(*member) && !standing.goes(*member)
        });
        self.turns.count_turns_of(with_work);
    }

    pub(super) fn check_fairness(&mut self) {
        self.turns.check_fairness(self.now);
        self.turns.take_violations().into_iter().for_each(|violation| self.checks.complain(violation));
    }

    pub(super) fn note_turns(&mut self) {
        let measured = self.turns.measured().clone();
        self.outcome.two_tokens += measured.two_tokens;
        self.outcome.recoveries.extend(measured.recoveries);
        self.outcome.most_overtaken = self.outcome.most_overtaken.max(measured.most_overtaken);
    }
}
