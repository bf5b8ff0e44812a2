//! Staying in touch: with whoever was forgotten, and with anybody at all.

use crate::base::Time;
use crate::proto::agent;

use super::machine::{GREETED_LIMIT, Node};

impl Node {
    /// Whoever was forgotten may only have been cut off, together with others: now and then one of the old addresses is
    /// greeted, so that two circles which grew out of one find together again, however long it took.
    pub(super) fn keep_in_touch(&mut self, now: Time) {
        for address in self.directory.forget_silent(now) {
            if self.greeted.contains(&address) {
                continue;
            }
            if self.greeted.len() < GREETED_LIMIT {
                self.greeted.push(address);
            } else if let Some(old) = self.greeted.get_mut(self.rng.below(GREETED_LIMIT)) {
                *old = address;
            }
        }
        self.greet_the_forgotten(now);
    }

    /// One of the old addresses at which nobody is known. Whoever has a token greets one more: two tokens that grew out of
    /// one circle must hear of each other soon, and it is their holders who decide.
    pub(super) fn greet_the_forgotten(&mut self, now: Time) {
        let mut lost = self.greeted.clone();
        lost.retain(|address| !self.directory.has_somebody_at(*address));
        if let Some(address) = lost.get(self.rng.below(lost.len().max(1))).copied() {
            self.send_greeting(address, now);
        }
    }

    /// Who knows nobody tries the first addresses until somebody answers.
    pub(super) fn greet_again(&mut self, now: Time) {
        for address in self.greeted.clone() {
            self.send_greeting(address, now);
        }
    }

    /// The last resort is shared by all members, so the agent has to know how many there are.
    pub(super) fn tell_members(&mut self) {
        let members = u32::try_from(self.directory.len()).unwrap_or(u32::MAX).saturating_add(1);
        self.to_agent.push_back(agent::Input::Members(members));
    }
}
