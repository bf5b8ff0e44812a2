//! Leaving: a ticket goes back to the one before us.

use std::time::Duration;

use crate::base::{MemberId, Seat, TicketMessage, Time};

use super::machine::{Leaving, State, Tickets};
use super::nouns::Event;

/// Tries to leave: from the first word on the ticket is not used any more.
#[derive(Clone, Debug)]
pub(super) struct Release {
    /// Those that were not refused, with whom was asked: each of them may have the ticket already. More than one if our
    /// predecessor has changed meanwhile.
    tries: Vec<(u64, Seat)>,
    pub(super) repeat_at: Time,
}

impl Tickets {
    /// Gives the ticket back if that is wanted and possible now.
    pub(super) fn give_back(&mut self, now: Time) {
        let wants = self.is_leaving() || self.should_yield(now) || self.is_stuck(now);
        let State::In(place) = &mut self.state else { return };
        let is_busy = place.admission.is_some()
            || place.exclusion.is_some()
            || !place.is_settled
            || !place.is_at_rest(&self.config) && place.is_well;
        if !wants || is_busy || self.pull.is_running() || place.release.is_some() || now < self.release_at {
            return;
        }
        if place.is_alone() {
            // Nobody is there to take it. Who only makes room stays; who goes is the last one.
            if self.is_leaving() {
                self.lose(true, now);
            }
            return;
        }
        place.release = Some(Release { tries: Vec::new(), repeat_at: now });
        self.repeat_release(now);
    }

    pub(super) fn repeat_release(&mut self, now: Time) {
        let pause = self.config.round / 4;
        let State::In(place) = &mut self.state else { return };
        let (seat, next, predecessor) = (place.seat, place.next, place.predecessor());
        let fresh = place.next_number();
        let Some(release) = place.release.as_mut().filter(|release| now >= release.repeat_at) else { return };
        release.repeat_at = now + pause;
        if let Some(predecessor) = predecessor
            && release.tries.iter().all(|(_, to)| *to != predecessor)
        {
            release.tries.push((fresh, predecessor));
        }
        for (number, to) in release.tries.clone() {
            self.send(to.member, TicketMessage::Release { seat, next, number });
        }
    }

    pub(super) fn on_release(&mut self, from: MemberId, seat: Seat, next: Seat, number: u64, now: Time) {
        if seat.member != from {
            return;
        }
        let State::In(place) = &mut self.state else { return };
        if place.gone.contains_key(&seat) {
            // We have it already, and that was not heard.
            return self.send(from, TicketMessage::Released { number });
        }
        let is_busy = place.exclusion.is_some()
            || place.release.is_some()
            || place.admission.is_some()
            || !place.is_settled
            || place.next != seat;
        // Of whom we know nothing we could not remember that we refused.
        let Some(follower) = place.followers.get_mut(seat) else { return };
        if is_busy || number <= follower.refused {
            follower.refused = follower.refused.max(number);
            return self.send(from, TicketMessage::Refused { number });
        }
        place.followers.name(self.config.tickets, seat, next, place.seat, now);
        place.next = next;
        place.is_gone(seat, now);
        if place.is_alone() {
            place.be_alone();
        }
        self.send(from, TicketMessage::Released { number });
        self.ask_witnesses(now);
    }

    pub(super) fn on_released(&mut self, number: u64, now: Time) {
        let State::In(place) = &self.state else { return };
        let tries = place.release.iter().flat_map(|release| &release.tries);
        if tries.into_iter().any(|(open, _)| *open == number) {
            self.lose(true, now);
        }
    }

    /// Not now: this try is void. When all are, everything is as it was.
    pub(super) fn on_refused(&mut self, number: u64, now: Time) {
        let State::In(place) = &mut self.state else { return };
        let Some(release) = &mut place.release else { return };
        release.tries.retain(|(open, _)| *open != number);
        if release.tries.is_empty() {
            place.release = None;
            self.release_at = now + self.rng.uniform(Duration::ZERO, self.config.round);
        }
    }

    /// Says goodbye when there is nothing left to give back.
    pub(super) fn go_when_out(&mut self) {
        let is_out = matches!(self.state, State::Out(_)) && !self.pull.is_running();
        if self.leaving == Leaving::Wanted && is_out {
            self.leaving = Leaving::Done;
            self.tell(Event::Left);
        }
    }
}
