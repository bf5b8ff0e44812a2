//! The authority: it looks after the ring, and founds another one when nothing else helps.

use std::time::Duration;

use crate::proto::tickets::Input;

use super::place::Place;
use super::world::{Parcel, Ring};

/// The authority founds another ring when somebody waits for so long, and for so many turns, and nobody has got a seat
/// meanwhile or some tickets are lost.
const REFOUNDED_AFTER: Duration = Duration::from_secs(60);
const REFOUNDED_AFTER_TURNS: u32 = 10;

/// Until then whatever ran by the old one has ended.
const FOUNDING_TAKES: Duration = Duration::from_secs(10);

/// How often it looks.
const LOOKED_EVERY: Duration = Duration::from_secs(5);

impl Ring {
    /// When nobody gets a seat for long, or too few are left to be had, only the authority can help. That must not be because
    /// of few.
    pub(super) fn look_after(&mut self) {
        self.mail.post(Parcel::Look, self.now + LOOKED_EVERY, self.now);
        let patience = REFOUNDED_AFTER.max(REFOUNDED_AFTER_TURNS * self.scenario.config.turn);
        let (now, awake_for) = (self.now, |place: &Place| self.now.since(place.awake_since));
        let waits = |place: &Place| {
            let waited = place.waits_since.map_or(Duration::ZERO, |since| now.since(since));
            place.is_awake() && place.seat.is_none() && waited.min(awake_for(place)) >= patience
        };
        let stands_still = self.now >= self.took_at + patience;
        let is_broken = stands_still || self.checks.debts.are_lost();
        // Who stands still would not hear of the new ring, and wake in the old one.
        let are_all_told = self.places.iter().all(|place| place.paused.is_none());
        if !is_broken || !are_all_told || !self.places.iter().any(waits) {
            return;
        }
        if stands_still {
            self.check_standstill(self.took_at);
        }
        self.took_at = self.now;
        self.checks.debts.forget();
        self.outcome.refounded += 1;
        for member in 0..u32::try_from(self.places.len()).unwrap_or(u32::MAX) {
            self.feed(member, Input::Reset);
        }
        // What somebody would begin again is void as well.
        self.places.iter_mut().for_each(|place| place.begins_again = false);
        self.mail.post(Parcel::Found, self.now + FOUNDING_TAKES, self.now);
    }

    pub(super) fn found(&mut self) {
        let members = 0..u32::try_from(self.places.len()).unwrap_or(u32::MAX);
        let awake: Vec<u32> =
            members.filter(|member| self.place(*member).is_some_and(Place::is_awake)).collect();
        match awake.get(self.rng.below(awake.len().max(1))) {
            Some(&first) => {
                self.first = first;
                self.feed(first, Input::Found);
            }
            None => self.mail.post(Parcel::Found, self.now + FOUNDING_TAKES, self.now),
        }
    }
}
