//! Joining: who has no ticket asks for one, who has tickets to give admits the one that waits longest.

use std::time::Duration;

use crate::base::{Deed, MemberId, Seat, Standing, Ticket, TicketMessage, Time, Waiter};

use super::deeds::is_list;
use super::machine::{Leaving, State, Tickets};
use super::nouns::{Event, Output};
use super::place::Place;
use super::ring::{DRAWS, after, list_after};

/// Those known to be in the ring, at most.
const KNOWN: usize = 16;

/// How many of them are told to who asks.
const TOLD: usize = 4;

/// Questions come apart by so many rounds, at most.
const LONGEST_PAUSE: u32 = 4;

/// Who hears of nobody in the ring for so many rounds begins anew with those whom the node names.
const LOST_AFTER: u32 = 8;

/// Whoever gets no seat within so many leases gives up and asks anew.
const PATIENCE: u32 = 4;

/// Who has not been sure for so many leases never will be again.
const LOST: u32 = 20;

/// Numbers for a seat are asked with for so many leases: a grant that took longer is void.
const FRESH: u32 = 3;

/// A newcomer that we let in and that is not settled yet.
#[derive(Clone, Debug)]
pub(super) struct Admission {
    pub(super) seat: Seat,
    pub(super) repeat_at: Time,
}

impl Tickets {
    // --- without a ticket -------------------------------------------------------------------------------------

    /// Asks for a ticket when it is time to.
    pub(super) fn ask_for_a_ticket(&mut self, now: Time) {
        let wants = self.wants_a_ticket();
        let State::Out(out) = &mut self.state else { return };
        if !wants {
            out.since = None;
            return;
        }
        let since = *out.since.get_or_insert(now);
        if now < out.ask_at {
            return;
        }
        out.pauses = (out.pauses * 2).clamp(1, LONGEST_PAUSE);
        let pause = self.config.round * out.pauses;
        out.ask_at = now + self.rng.uniform(pause / 2, pause);
        if now >= out.led_at + LOST_AFTER * self.config.round {
            // Those who do not know either only send us to each other.
            out.led_at = now;
            self.known.clear();
        }
        if self.known.is_empty() {
            self.out.push_back(Output::AskWhom);
            return;
        }
        let whom = self.rng.below(self.known.len());
        if let Some(&whom) = self.known.get(whom) {
            if now >= self.base_since + FRESH * self.config.lease {
                self.base += DRAWS;
                self.base_since = now;
            }
            let incarnation = self.base;
            self.send(whom, TicketMessage::Join { incarnation, waited: now.since(since) });
        }
    }

    pub(super) fn on_wait(&mut self, from: MemberId, coordinators: &[MemberId], now: Time) {
        if !coordinators.contains(&from) {
            self.known.retain(|known| *known != from);
        }
        self.learn(coordinators);
        self.give_up_if_lost(coordinators.contains(&from), now);
        let round = self.config.round;
        let State::Out(out) = &mut self.state else { return };
        if coordinators.contains(&from) {
            out.led_at = now;
        }
        if coordinators.first() != Some(&from) {
            // It passes us on, or knows nobody: the next one is asked soon.
            out.ask_at = out.ask_at.min(now + round / 10);
        }
    }

    /// The ring goes on elsewhere, and we have not been sure for so long, or nobody has taken what we give back, that nobody
    /// can be left who could help. What was
    /// ours to give is lost until the authority founds another ring, but we can ask for another ticket.
    fn give_up_if_lost(&mut self, goes_on: bool, now: Time) {
        let State::In(place) = &self.state else { return };
        if goes_on && !self.pull.is_running() && now >= place.unused_since() + LOST * self.config.lease {
            self.lose(place.release.is_some(), now);
        }
    }

    pub(super) fn learn(&mut self, members: &[MemberId]) {
        for member in members {
            if *member == self.me || self.known.contains(member) {
                continue;
            }
            if self.known.len() >= KNOWN {
                let worst = self.rng.below(KNOWN);
                self.known.swap_remove(worst);
            }
            self.known.push(*member);
        }
    }

    pub(super) fn on_grant(
        &mut self,
        from: MemberId,
        by: Seat,
        seat: Seat,
        (next, deed): (Seat, Option<Deed>),
        witnesses: Vec<Seat>,
        now: Time,
    ) {
        if seat.member != self.me || by.member != from || self.seat() == Some(seat) {
            return;
        }
        let is_sound = witnesses.first() == Some(&by)
            && is_list(&witnesses, self.config.witnesses(), self.me)
            && next.member != self.me
            && seat.ticket < self.config.tickets;
        let is_asked_for = (self.base..self.base + DRAWS).contains(&seat.incarnation)
            && now < self.base_since + 2 * FRESH * self.config.lease;
        let is_out = matches!(self.state, State::Out(_));
        if !(is_sound && is_out && is_asked_for && self.wants_a_ticket()) {
            return self.deny_seat(from, seat);
        }
        self.take(seat, now);
        self.book.learn(next, deed.map(Standing::introduced), now);
        self.state = State::In(Box::new(Place::granted(seat, next, witnesses, now)));
        self.ask_witnesses(now);
    }

    /// A seat that never got settled is given up.
    pub(super) fn give_up_waiting_for_a_seat(&mut self, now: Time) {
        let State::In(place) = &self.state else { return };
        if !place.is_settled && now >= place.since + self.config.lease * PATIENCE {
            self.give_up(now);
        }
    }

    /// Nobody could use this seat yet, so it simply ends.
    pub(super) fn give_up(&mut self, now: Time) {
        let State::In(place) = &self.state else { return };
        let (seat, told) = (place.seat, place.witnesses());
        self.go_out(now);
        for witness in told {
            self.deny_seat(witness, seat);
        }
    }

    // --- with tickets to give ---------------------------------------------------------------------------------

    pub(super) fn on_join(&mut self, from: MemberId, incarnation: u64, waited: Duration, now: Time) {
        if matches!(self.state, State::In(_)) {
            self.waiting.asked(Waiter { member: from, incarnation, waited }, now);
            self.admit(now);
            if self.is_admitting(from) {
                return;
            }
        }
        let coordinators = self.coordinators();
        self.send(from, TicketMessage::Wait { coordinators });
    }

    /// Whom to ask instead of us: those who have tickets to give, or else everybody in the ring that we know.
    pub(super) fn coordinators(&self) -> Vec<MemberId> {
        let State::In(place) = &self.state else { return self.known.iter().copied().take(TOLD).collect() };
        let (mut givers, _) = self.givers();
        givers.retain(|giver| *giver != place.seat);
        if givers.is_empty() {
            givers = self.ring();
        } else {
            // Who names itself is in the ring; who has a ticket to give comes first.
            givers.truncate(TOLD - 1);
            givers.push(place.seat);
        }
        givers.iter().map(|seat| seat.member).take(TOLD).collect()
    }

    fn is_admitting(&self, member: MemberId) -> bool {
        matches!(&self.state, State::In(place)
            if place.admission.as_ref().is_some_and(|admission| admission.seat.member == member))
    }

    /// Lets the one in that waits longest, one at a time: our deed reaches to it, and when that counts it has the seat.
    pub(super) fn admit(&mut self, now: Time) {
        let State::In(place) = &mut self.state else { return };
        // Who was alone has nobody yet who knows whom it let in last, and lets nobody else in before.
        let is_unknown = place.deed.witnesses.is_empty() && !place.is_alone();
        let is_busy =
            place.admission.is_some() || place.exclusion.is_some() || place.is_moving() || is_unknown;
        let free = place.free(&self.config);
        // A newcomer would have to begin to miss who comes after it.
        let is_well = place.is_alone() || self.book.is_heard(place.deed.next, now - self.config.lease);
        // Who leaves lets nobody in but one to whom it can leave the ring.
        let is_leaving = self.leaving != Leaving::No && !place.is_alone();
        if is_leaving || is_busy || !is_well || free == 0 || !place.is_sure(&self.config, now) {
            return;
        }
        let Some(waiter) = self.waiting.first(now) else { return };
        self.waiting.remove(waiter.member);
        // An old seat of it must be seen off first, or be no more by its own word.
        let (chain, _) = self.book.chain(place.seat, place.deed.next, now - self.config.fresh());
        let is_there = |seat: &Seat| seat.member == waiter.member && !self.book.is_gone(*seat);
        if waiter.member == self.me || chain.iter().any(is_there) {
            return;
        }
        let step = Ticket::try_from(self.rng.below(usize::from(free))).unwrap_or(0) + 1;
        let ticket = after(self.config.tickets, place.seat.ticket, step);
        let draw = self.rng.next_u64() % DRAWS;
        let seat =
            Seat { ticket, member: waiter.member, incarnation: waiter.incarnation.saturating_add(draw) };
        place.admission = Some(Admission { seat, repeat_at: now + self.config.round / 4 });
        self.propose(|deed| (deed.beyond, deed.next) = (Some(deed.next), seat), now);
    }

    /// Tells the newcomer, as soon as our deed reaches to it, until it speaks to us.
    pub(super) fn repeat_grant(&mut self, now: Time) {
        let State::In(place) = &mut self.state else { return };
        let (by, deed) = (place.seat, &place.deed);
        let Some(admission) = &mut place.admission else { return };
        admission.repeat_at = now + self.config.round / 4;
        let seat = admission.seat;
        let Some(next) = deed.beyond.filter(|_| deed.next == seat) else { return };
        if self.book.heard_at(seat).is_none() && !self.book.is_gone(seat) {
            let witnesses = list_after(by, &deed.witnesses, seat, self.config.witnesses());
            let deed = self.book.introduction(next);
            self.send(seat.member, TicketMessage::Grant { by, seat, next, witnesses, deed });
        }
    }

    pub(super) fn mind_admission(&mut self, now: Time) {
        let State::In(place) = &mut self.state else { return };
        let Some(admission) = &place.admission else { return };
        if self.book.get(admission.seat).is_some_and(|known| known.is_settled) {
            place.admission = None;
        } else if now >= admission.repeat_at {
            self.repeat_grant(now);
        }
    }

    pub(super) fn lose(&mut self, is_given_back: bool, now: Time) {
        if let State::In(place) = &self.state {
            let seat = place.seat;
            let witnesses = place.witnesses();
            self.call_off(|_| true);
            self.learn(&witnesses);
            self.go_out(now);
            // With another seat begins another turn.
            self.is_turn_over = false;
            self.tell(Event::Lost { seat, is_given_back });
        }
    }
}
