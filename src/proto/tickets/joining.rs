//! Joining: who has no ticket asks for one, who has tickets to give admits the one that waits longest.

use std::time::Duration;

use crate::base::{MemberId, Seat, Ticket, TicketMessage, Time, Waiter};

use super::machine::{Out, State, Tickets};
use super::nouns::{Config, Event, Output};
use super::place::Place;
use super::ring::after;

/// Those known to be in the ring, at most.
const KNOWN: usize = 16;

/// How many of them are told to who asks.
const TOLD: usize = 4;

/// Questions come apart by so many rounds, at most.
const LONGEST_PAUSE: u32 = 4;

/// Whoever gets no seat within so many leases gives up and asks anew.
const PATIENCE: u32 = 4;

/// A newcomer that we have let in and that is not settled yet.
#[derive(Clone, Debug)]
pub(super) struct Admission {
    pub(super) seat: Seat,
    /// Who came after us before.
    old_next: Seat,
    since: Time,
    repeat_at: Time,
    /// It has asked us to vouch, so it may come to sit there.
    pub(super) has_asked: bool,
}

impl Admission {
    /// When to repeat it, or to take it back.
    pub(super) fn wake_at(&self, config: &Config) -> Time {
        if self.has_asked { self.since + self.patience(config) } else { self.repeat_at }
    }

    fn patience(&self, config: &Config) -> Duration {
        if self.has_asked { config.lease * (PATIENCE + 1) } else { config.lease }
    }
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
        if self.known.is_empty() {
            self.out.push_back(Output::AskWhom);
            return;
        }
        let whom = self.rng.below(self.known.len());
        if let Some(&whom) = self.known.get(whom) {
            let incarnation = self.incarnation + 1;
            self.send(whom, TicketMessage::Join { incarnation, waited: now.since(since) });
        }
    }

    pub(super) fn on_wait(&mut self, from: MemberId, coordinators: &[MemberId], now: Time) {
        if !coordinators.contains(&from) {
            self.known.retain(|known| *known != from);
        }
        self.learn(coordinators);
        let round = self.config.round;
        // It only passed the word on: whom it named is asked at once.
        if let State::Out(out) = &mut self.state
            && !coordinators.contains(&from)
            && !coordinators.is_empty()
        {
            out.ask_at = out.ask_at.min(now + round / 10);
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
        followers: &[Seat],
        witnesses: Vec<Seat>,
        now: Time,
    ) {
        if seat.member != self.me || by.member != from || self.seat() == Some(seat) {
            return;
        }
        let is_sound = witnesses.first() == Some(&by)
            && witnesses.len() <= self.config.witnesses()
            && !followers.is_empty()
            && seat.ticket < self.config.tickets
            && witnesses.iter().chain(followers).all(|other| other.member != self.me);
        let is_out = matches!(self.state, State::Out(_));
        if !(is_sound && is_out && self.wants_a_ticket() && seat.incarnation == self.incarnation + 1) {
            // What is declined is never taken later.
            if is_out {
                self.incarnation = self.incarnation.max(seat.incarnation.min(self.incarnation + 1));
            }
            return self.deny_seat(from, seat);
        }
        self.incarnation = seat.incarnation;
        self.state = State::In(Box::new(Place::with_witnesses(seat, followers, witnesses, now)));
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
        let seat = place.seat;
        let told: Vec<Seat> = place.witnesses().into_iter().chain([place.next]).collect();
        self.state = State::Out(Out::asking_at(now));
        for witness in told {
            self.send(witness.member, TicketMessage::NotMe { seat });
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
    fn coordinators(&mut self) -> Vec<MemberId> {
        let State::In(place) = &self.state else { return self.known.iter().copied().take(TOLD).collect() };
        let (mut givers, _) = place.givers(&self.config);
        givers.retain(|giver| *giver != place.seat);
        if givers.is_empty() {
            givers = self.ring();
        }
        givers.iter().map(|seat| seat.member).take(TOLD).collect()
    }

    fn is_admitting(&self, member: MemberId) -> bool {
        matches!(&self.state, State::In(place)
            if place.admission.as_ref().is_some_and(|admission| admission.seat.member == member))
    }

    /// Lets the one in that waits longest, one at a time.
    pub(super) fn admit(&mut self, now: Time) {
        if self.is_leaving() {
            return;
        }
        let State::In(place) = &mut self.state else { return };
        let is_busy = place.admission.is_some() || place.exclusion.is_some() || !place.is_well;
        let free = place.free(&self.config);
        if is_busy || !place.is_sure(&self.config, now) || free == 0 {
            return;
        }
        let Some(waiter) = self.waiting.first(now) else { return };
        self.waiting.remove(waiter.member);
        // An old seat of it must be seen off first.
        if place.followers.seat_of(waiter.member).is_some()
            || place.witnesses().iter().any(|witness| witness.member == waiter.member)
        {
            return;
        }
        let step = Ticket::try_from(self.rng.below(usize::from(free))).unwrap_or(0) + 1;
        let ticket = after(self.config.tickets, place.seat.ticket, step);
        let seat = Seat { ticket, member: waiter.member, incarnation: waiter.incarnation };
        let old_next = place.next;
        place.followers.insert(seat, old_next, now);
        place.next = seat;
        place.admission = Some(Admission { seat, old_next, since: now, repeat_at: now, has_asked: false });
        // Everybody before us must know of it before it asks them.
        self.ask_witnesses(now);
        self.repeat_grant(now);
    }

    fn repeat_grant(&mut self, now: Time) {
        let pause = self.config.round / 4;
        let State::In(place) = &mut self.state else { return };
        let Some(admission) = &mut place.admission else { return };
        admission.repeat_at = now + pause;
        let seat = admission.seat;
        let Some(witnesses) = place.witnesses_after_us(seat, &self.config) else { return };
        let (chain, is_closed) = place.chain(&self.config);
        let last = is_closed.then_some(place.seat);
        let followers =
            chain.into_iter().skip(1).chain(last).take(self.config.witnesses()).collect::<Vec<Seat>>();
        let by = place.seat;
        self.send(seat.member, TicketMessage::Grant { by, seat, followers, witnesses });
    }

    /// Repeats what was not heard; takes back what nobody takes.
    pub(super) fn mind_admission(&mut self, now: Time) {
        let State::In(place) = &mut self.state else { return };
        let Some(admission) = &mut place.admission else { return };
        let patience = admission.patience(&self.config);
        if now >= admission.since + patience {
            // Should that not be possible, it is tried again as long after.
            admission.since = now;
            self.withdraw_admission(now);
        } else if !admission.has_asked && now >= admission.repeat_at {
            self.repeat_grant(now);
        }
    }

    /// Who never asked us cannot have become anything: all witnesses must agree, and we are the first of them. Neither can
    /// the second of a ring by whom we, its successor too, do not go.
    fn withdraw_admission(&mut self, now: Time) {
        let State::In(place) = &mut self.state else { return };
        let (me, adopted) = (place.seat, place.adopted.as_ref());
        let is_nothing = |admission: &mut Admission| {
            let was_alone = admission.old_next == me;
            !admission.has_asked || was_alone && adopted.is_none_or(|list| list.seats.is_empty())
        };
        if let Some(admission) = place.admission.take_if(is_nothing) {
            place.next = admission.old_next;
            place.followers.remove(admission.seat);
            if place.is_alone() {
                place.be_alone();
            }
            self.ask_witnesses(now);
        }
    }

    pub(super) fn withdraw_admission_of_the_gone(&mut self, now: Time) {
        let State::In(place) = &self.state else { return };
        let is_gone = place.admission.as_ref().is_some_and(|admission| {
            place.followers.get(admission.seat).is_some_and(|follower| follower.is_gone)
        });
        if is_gone {
            self.withdraw_admission(now);
        }
    }

    pub(super) fn lose(&mut self, is_given_back: bool, now: Time) {
        if let State::In(place) = &self.state {
            let seat = place.seat;
            self.learn(&place.witnesses().iter().map(|witness| witness.member).collect::<Vec<_>>());
            self.state = State::Out(Out::asking_at(now));
            // With another seat begins another turn.
            self.is_turn_over = false;
            self.tell(Event::Lost { seat, is_given_back });
        }
    }
}
