//! Leaving: a ticket goes back to the one before us.

use crate::base::{Deed, MemberId, Seat, Standing, TicketMessage, Time};

use super::book::Fate;
use super::machine::{Leaving, State, Tickets};
use super::nouns::Event;

/// Who has not been sure for so many leases, though somebody wants it to go by others, has lost too many witnesses.
const STRANDED: u32 = 5;

/// Whoever leaves stays for so many leases at most, for those whose witness it still is.
const LINGER: u32 = 3;

/// We leave: from the first word on the ticket is not used any more, and there is no way back.
#[derive(Clone, Debug)]
pub(super) struct Release {
    pub(super) since: Time,
    pub(super) repeat_at: Time,
}

impl Tickets {
    /// Gives the ticket back if that is wanted and possible now. Whoever comes before us must be there to take it: there is
    /// no way back.
    pub(super) fn give_back(&mut self, now: Time) {
        let (wants, is_stranded) = (self.is_leaving() || self.should_yield(now), self.is_stranded(now));
        let is_answered = self.all_are_there(wants, now);
        let State::In(place) = &mut self.state else { return };
        // Who comes after us would be missed by nobody for a while.
        let is_well = place.is_alone() || self.book.is_heard(place.deed.next, now - self.config.lease);
        let is_calm = place.admission.is_none() && place.exclusion.is_none() && !place.is_moving();
        let is_busy = !is_calm || !is_well || !place.is_settled || place.is_denied;
        let is_possible = !self.pull.is_running() && place.release.is_none();
        if wants && is_possible && place.is_alone() && !is_busy {
            // Nobody is there to take it. Who only makes room stays. Who goes waits for a moment, should somebody ask for a
            // ticket: with the last one goes the ring.
            let is_over = place.yields_since.is_some_and(|since| now >= since + self.config.lease);
            if self.is_leaving() && is_over {
                self.lose(true, now);
            }
            return;
        }
        if is_stranded && place.is_moving() && place.admission.take().is_some() {
            // It was never granted.
            place.proposal = None;
        }
        let led = place.led(&self.config, now);
        // Who only makes room gives nothing to one that could not give it to anybody.
        let is_taken = if self.leaving == Leaving::No { led == Some(true) } else { led.is_some() };
        let is_due = wants && is_answered && !is_busy && is_taken || is_stranded && place.admission.is_none();
        if is_possible && is_due {
            self.call_off(|_| true);
            if let State::In(place) = &mut self.state {
                place.release = Some(Release { since: now, repeat_at: now });
            }
            self.repeat_release(now);
        }
    }

    /// Whether all around us have answered since we want to give our ticket back. Should some have just crashed, the others
    /// must not become fewer: a ring that has lost more than half of its members never lives again. Who goes for good does
    /// not wait for long.
    fn all_are_there(&mut self, wants: bool, now: Time) -> bool {
        let is_leaving = self.is_leaving();
        let State::In(place) = &mut self.state else { return false };
        if !wants || self.pull.is_running() || place.release.is_some() {
            place.yields_since = None;
            return false;
        }
        let Some(since) = place.yields_since else {
            place.yields_since = Some(now);
            place.ask_at = place.ask_at.min(now + self.config.round / 4);
            self.call_the_roll(now);
            return false;
        };
        let is_rested = now >= since + self.config.rest();
        is_rested && self.absent(since).is_empty() || is_leaving && now >= since + self.config.lease
    }

    /// Knocks at our witnesses that have not spoken since we want to give our ticket back.
    pub(super) fn call_the_roll(&mut self, now: Time) {
        let State::In(place) = &self.state else { return };
        let Some(since) = place.yields_since.filter(|since| now < *since + self.config.round) else { return };
        for seat in self.absent(since) {
            self.send(seat.member, TicketMessage::Knock { seat });
        }
    }

    /// Those of our witnesses that have not spoken to us since then, or have forgotten what they promised.
    fn absent(&self, since: Time) -> Vec<Seat> {
        let State::In(place) = &self.state else { return Vec::new() };
        let is_there = |seat: Seat| {
            self.book.heard_at(seat).is_some_and(|at| at >= since) && !self.book.is_forgotten(seat)
        };
        place.deed.witnesses.iter().copied().filter(|witness| !is_there(*witness)).collect()
    }

    /// Too many of our witnesses are no more: we can never be sure again, nor change our deed. But our predecessor can have
    /// the ticket.
    fn is_stranded(&self, now: Time) -> bool {
        let State::In(place) = &self.state else { return false };
        let is_wanted = place.wish.as_ref().is_some_and(|(_, at)| now < *at + 3 * self.config.round);
        is_wanted && place.is_settled && now >= place.last_sure + STRANDED * self.config.lease
    }

    pub(super) fn repeat_release(&mut self, now: Time) {
        let State::In(place) = &mut self.state else { return };
        // What we propose may never count, but whoever was between has no seat any more.
        let (seat, next) = (place.seat, place.latest().next);
        let deed = self.book.introduction(next);
        let Some(release) = place.release.as_mut().filter(|release| now >= release.repeat_at) else { return };
        release.repeat_at = now + self.config.round / 4;
        // Who comes before us may have changed, and not be sure enough to tell us: everybody is told who may.
        let wished = place.wish.iter().filter_map(|(wish, _)| wish.first());
        let mut before: Vec<MemberId> =
            place.deed.witnesses.iter().chain(wished).map(|seat| seat.member).collect();
        before.sort_unstable();
        before.dedup();
        for whom in before {
            self.send(whom, TicketMessage::Release { seat, next, deed: deed.clone() });
        }
    }

    pub(super) fn on_release(
        &mut self,
        from: MemberId,
        seat: Seat,
        (next, deed): (Seat, Option<Deed>),
        now: Time,
    ) {
        if seat.member != from {
            return;
        }
        self.book.open(seat, now).hear(now);
        let State::In(place) = &self.state else { return };
        let is_ours = place.latest().next == seat && place.admission.is_none();
        // If everybody gave its ticket to the one before, there would be no ring left: the highest one stays.
        let is_tied = place.release.is_some() && place.seat.ticket < seat.ticket;
        if is_ours && is_tied {
            // It comes before us as well, though we may go by others still, who are gone.
            if next == place.seat {
                let (seat, next) = (place.seat, place.latest().next);
                let deed = self.book.introduction(next);
                self.send(from, TicketMessage::Release { seat, next, deed });
            }
            return;
        }
        if is_ours {
            self.book.bury(seat, Fate::Gone, now);
            self.book.learn(next, deed.map(Standing::introduced), now);
            self.propose(|deed| (deed.next, deed.beyond) = (next, None), now);
        } else if !self.book.is_gone(seat) && !self.ends(place, seat) {
            return;
        }
        self.send(from, TicketMessage::Released { seat });
    }

    pub(super) fn on_released(&mut self, seat: Seat, now: Time) {
        if matches!(&self.state, State::In(place) if place.seat == seat && place.release.is_some()) {
            self.lose(true, now);
        }
    }

    /// Says goodbye when there is nothing left to give back, and nobody asks us as a witness any more.
    pub(super) fn go_when_out(&mut self, now: Time) {
        if self.leaves_at().is_some_and(|at| now >= at) {
            self.leaving = Leaving::Done;
            self.tell(Event::Left);
        }
    }

    pub(super) fn leaves_at(&self) -> Option<Time> {
        let State::Out(out) = &self.state else { return None };
        let is_going = self.leaving == Leaving::Wanted && !self.pull.is_running();
        let at = self.asked_at.map_or(out.began, |asked| asked + 2 * self.config.round);
        is_going.then(|| at.min(out.began + LINGER * self.config.lease))
    }
}
