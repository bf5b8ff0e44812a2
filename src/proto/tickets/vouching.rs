//! Questions and answers: a seat asks those before it, and they tell it whether it still has its place.

use crate::base::{Ask, MemberId, Seat, Standing, TicketMessage, Time, Vouch};

use super::machine::{State, Tickets};
use super::nouns::Event;
use super::ring::{DRAWS, covers};

impl Tickets {
    /// Asks our witnesses, as something is new, or it is time to ask again. And our successor is told who is to vouch for it.
    pub(super) fn ask_witnesses(&mut self, now: Time) {
        let waiters = self.waiting.told(now);
        let State::In(place) = &mut self.state else { return };
        let until = place.sure_until(&self.config).unwrap_or(place.last_sure);
        place.last_sure = place.last_sure.max(until.min(now));
        for (witness, ask) in place.ask(&waiters, &self.config, now) {
            self.send(witness, TicketMessage::Ask(ask));
        }
        self.update_successor(now);
        self.look_for_missing(now);
        self.ask_whether_gone(now);
        self.call_the_roll(now);
    }

    /// Who has not been sure for long may have no seat any more, and nobody left who would say so.
    fn ask_whether_gone(&mut self, now: Time) {
        let State::In(place) = &self.state else { return };
        let seat = place.seat;
        if now < place.unused_since() + 2 * self.config.lease {
            return;
        }
        match self.rng.below(self.known.len() + 1).checked_sub(1).and_then(|index| self.known.get(index)) {
            Some(&whom) => self.send(whom, TicketMessage::Knock { seat }),
            None => self.out.push_back(super::nouns::Output::AskWhom),
        }
    }

    /// What is new is heard at once, a reminder in its turn.
    pub(super) fn on_ask(&mut self, from: MemberId, ask: Ask, now: Time) {
        if ask.is_reminder {
            self.anteroom.enter(from, ask);
        } else {
            self.anteroom.leave(from);
            self.answer(from, ask, now);
        }
    }

    pub(super) fn hear_reminders(&mut self, now: Time) {
        while let Some((from, ask)) = self.anteroom.call(self.config.witnesses(), self.config.round, now) {
            self.answer(from, ask, now);
        }
    }

    fn answer(&mut self, from: MemberId, ask: Ask, now: Time) {
        let Ask { seat, standing, unsure_for, is_settled, waiters, .. } = ask;
        if seat.member != from {
            return;
        }
        #[cfg(test)]
        if self.config.flaw == Some(super::Flaw::OnlySureVouch) && self.sure_seat(now).is_none() {
            return;
        }
        self.waiting.is_served(from, seat.incarnation, now);
        if !self.is_witness(from, &standing) {
            return;
        }
        self.asked_at = Some(now);
        self.waiting.heard(&waiters, now);
        if self.denies(seat, now) {
            return;
        }
        let known = self.book.open(seat, now);
        // What was promised about it may be forgotten by now.
        let is_strange = !known.is_followed && unsure_for > self.config.trust();
        if known.is_gone() {
            // Whoever excluded it may not hear it.
            return self.send(from, TicketMessage::Gone { seat });
        }
        if is_strange || known.number() >= standing.number {
            return;
        }
        known.hear(now);
        if self.is_bound(seat) {
            return;
        }
        let (tickets, next) = (self.config.tickets, standing.deed.next);
        self.book.fulfil(seat, |other| covers(tickets, seat, next, other));
        let (number, proposed) = (standing.number, standing.proposed.as_ref().map(|deed| deed.version));
        let known = self.book.open(seat, now);
        known.learn(standing);
        known.asked_at = Some(now);
        known.is_followed = true;
        known.is_settled = is_settled;
        let (since, is_sure, waiters) = (self.first, self.sure_seat(now).is_some(), self.waiting.told(now));
        self.send(from, TicketMessage::Vouch(Vouch { number, since, proposed, is_sure, waiters }));
        if matches!(&self.state, State::In(place) if place.deed.next == seat) {
            self.update_successor(now);
        }
    }

    /// Whether one of our seats of this life is among the witnesses. Of an earlier one we have forgotten all.
    fn is_witness(&mut self, from: MemberId, standing: &Standing) -> bool {
        let ours: Vec<Seat> =
            standing.lists().flatten().filter(|seat| seat.member == self.me).copied().collect();
        if let Some(old) = ours.iter().find(|seat| seat.incarnation < self.first) {
            self.deny_seat(from, *old);
        }
        ours.iter().any(|seat| seat.incarnation >= self.first)
    }

    /// Tells a seat for which our deed leaves no room that it is no more.
    pub(super) fn denies(&mut self, seat: Seat, now: Time) -> bool {
        let State::In(place) = &self.state else { return false };
        let is_denied = place.is_sure(&self.config, now) && self.ends(place, seat);
        if is_denied {
            self.send(seat.member, TicketMessage::Gone { seat });
        }
        is_denied
    }

    /// Whether we have promised to vouch for it no more. Then it is told, and may know who comes before it now; and whoever
    /// asked for the promise is asked whether it still holds.
    fn is_bound(&mut self, seat: Seat) -> bool {
        #[cfg(test)]
        if self.config.flaw == Some(super::Flaw::NoLock) {
            return false;
        }
        let locks = self.book.get(seat).map(|known| known.locks.clone()).unwrap_or_default();
        let witness = self.me;
        for (&by, &attempt) in &locks {
            for whom in [seat.member, by.member] {
                self.send(whom, TicketMessage::Bound { seat, by, attempt, witness });
            }
        }
        !locks.is_empty()
    }

    pub(super) fn on_vouch(&mut self, from: MemberId, vouch: &Vouch, now: Time) {
        self.waiting.heard(&vouch.waiters, now);
        let State::In(place) = &mut self.state else { return };
        if place.hear_word(from, vouch) {
            self.settle(now);
            self.adopt(now);
        }
    }

    /// We take part fully as soon as enough have vouched for us.
    fn settle(&mut self, now: Time) {
        let State::In(place) = &mut self.state else { return };
        if !place.is_settled && place.has_words(&self.config, now) {
            place.is_settled = true;
            let seat = place.seat;
            // What was over was the turn with another ticket.
            self.is_turn_over = false;
            self.tell(Event::Took { seat });
            self.ask_witnesses(now);
        }
    }

    /// Somebody who must know says that our seat is no more.
    pub(super) fn on_gone(&mut self, seat: Seat) {
        if let State::In(place) = &mut self.state {
            place.is_denied |= place.seat == seat;
        }
    }

    /// Says of a seat of ours that it is none, and never will be.
    pub(super) fn deny_seat(&mut self, to: MemberId, seat: Seat) {
        if seat.member != self.me || self.seat() == Some(seat) || seat.incarnation >= self.base + DRAWS {
            return;
        }
        if seat.incarnation >= self.base {
            self.base += DRAWS;
        }
        let is_remembered = seat.incarnation >= self.first
            && self.taken.front().is_none_or(|oldest| oldest.seat.incarnation < seat.incarnation);
        let taken = self.taken.iter().find(|taken| taken.seat == seat);
        let (is_vacant, standing) =
            (is_remembered && taken.is_none(), taken.and_then(|taken| taken.standing.clone()));
        self.send(to, TicketMessage::NotMe { seat, since: self.first, is_vacant, standing });
    }

    pub(super) fn on_not_me(
        &mut self,
        from: MemberId,
        seat: Seat,
        (since, is_vacant): (u64, bool),
        standing: Option<Standing>,
        now: Time,
    ) {
        if seat.member == from {
            self.waiting.is_served(from, seat.incarnation, now);
            self.book.hear_of_end(seat, since, is_vacant, now);
            self.book.hear_last_words(seat, standing, now);
            self.adopt(now);
        }
    }

    // --- whether anybody is there -----------------------------------------------------------------------------

    pub(super) fn on_knock(&mut self, from: MemberId, seat: Seat, now: Time) {
        if self.seat() == Some(seat) {
            self.send(from, TicketMessage::Here { seat });
        } else if seat.member == self.me {
            self.deny_seat(from, seat);
        } else if seat.member == from && !self.denies(seat, now) && self.is_sure_or_out(now) {
            let coordinators = self.coordinators();
            self.send(from, TicketMessage::Wait { coordinators });
        }
    }

    /// Who has a seat and is not sure of it knows nothing about others.
    fn is_sure_or_out(&self, now: Time) -> bool {
        match &self.state {
            State::In(place) => place.is_sure(&self.config, now),
            State::Out(_) => true,
        }
    }

    pub(super) fn on_here(&mut self, from: MemberId, seat: Seat, now: Time) {
        if seat.member == from {
            self.book.open(seat, now).hear(now);
        }
    }
}
