//! Work that appears in an idle circle, and how long its member waits for a slot.

use std::time::Duration;

use crate::node::Command;

use super::world::{Parcel, Whole};

/// How long the work lasts from the beginning of its slot.
const LASTS: Duration = Duration::from_millis(100);

impl Whole {
    pub(super) fn schedule_burst(&mut self) {
        if let Some(every) = self.scenario.bursts {
            let wait = self.rng.exponential(every).max(Duration::from_millis(1));
            self.mail.post(Parcel::Burst, self.now + wait, self.now);
        }
    }

    /// Work appears at a member that runs and has none. It must come before the peace, to be served in time.
    pub(super) fn begin_burst(&mut self) {
        if self.now >= self.peace_at {
            return;
        }
        let (member, now) = (self.rng.below(self.places.len()), self.now);
        if let Some(place) = self.places.get_mut(member).filter(|place| place.is_awake())
            && place.burst_at.is_none()
        {
            place.burst_at = Some(now);
            self.command(member, Command::Work(true));
        }
        self.schedule_burst();
    }

    pub(super) fn burst_served(&mut self, member: usize) {
        let Some(place) = self.places.get_mut(member) else { return };
        if let Some(at) = place.burst_at.take() {
            self.outcome.first_slots.push(self.now.since(at));
            let life = place.life;
            self.mail.post(Parcel::BurstEnd { member, life }, self.now + LASTS, self.now);
        }
    }

    pub(super) fn end_burst(&mut self, member: usize, life: u32) {
        if self.places.get(member).is_some_and(|place| place.life == life) {
            self.command(member, Command::Work(false));
        }
    }
}
