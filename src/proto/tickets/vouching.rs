//! Questions and answers: a seat asks those before it, and they tell it whether it still has its place.

use crate::base::{Ask, MemberId, Seat, TicketMessage, Time, Waiter, Witnesses};

use super::machine::{State, Tickets};
use super::nouns::{Config, Event};
use super::place::Place;

impl Tickets {
    /// Asks everybody who is to vouch for us, and tells our successor who is to vouch for it.
    pub(super) fn ask_witnesses(&mut self, now: Time) {
        let waiters = self.waiting.told(now);
        let State::In(place) = &mut self.state else { return };
        let ask = place.ask(waiters, now);
        let pause = if place.is_settled { self.config.round } else { self.config.round / 4 };
        place.ask_at = now + pause;
        let witnesses = place.witnesses();
        for witness in witnesses {
            self.send(witness.member, TicketMessage::Ask(ask.clone()));
        }
        self.update_successor();
        self.knock_at_the_silent(now);
    }

    /// Who is silent may have come back without its seat, and tells if it is spoken to.
    fn knock_at_the_silent(&mut self, now: Time) {
        let State::In(place) = &self.state else { return };
        let (chain, _) = place.chain(&self.config);
        let is_silent =
            |seat: &Seat| place.followers.get(*seat).is_some_and(|it| it.is_silent(&self.config, now));
        let silent: Vec<Seat> = chain.into_iter().take_while(is_silent).collect();
        let Some(witnesses) = place.witnesses_after_us(place.next, &self.config) else { return };
        for to in silent {
            self.send(to.member, TicketMessage::Update { to, witnesses: witnesses.clone() });
        }
    }

    /// Unless it goes by them already.
    pub(super) fn update_successor(&mut self) {
        let State::In(place) = &self.state else { return };
        let next = place.next;
        let Some(witnesses) = place.witnesses_after_us(next, &self.config) else { return };
        let follower = place.next_follower();
        // Who is gone would say so, and be told again.
        if place.is_alone() || follower.is_some_and(|follower| follower.is_gone) {
            return;
        }
        let shown = follower.and_then(|follower| follower.adopted.as_ref());
        if shown.is_none_or(|shown| shown.seats != witnesses) {
            self.send(next.member, TicketMessage::Update { to: next, witnesses });
        }
    }

    pub(super) fn on_ask(&mut self, from: MemberId, ask: &Ask, now: Time) {
        if ask.seat.member != from {
            return;
        }
        let lists = || ask.adopted.iter().chain(&ask.proposed).flat_map(|list| &list.seats);
        let seat = self.seat();
        if let Some(old) = lists().find(|witness| witness.member == self.me && Some(**witness) != seat) {
            self.deny_seat(from, *old);
        }
        self.waiting.is_served(from, ask.seat.incarnation, now);
        let State::In(place) = &mut self.state else { return };
        if !lists().any(|witness| *witness == place.seat) {
            return;
        }
        self.waiting.heard(&ask.waiters, now);
        let (chain, _) = place.chain(&self.config);
        let Some(position) = chain.iter().position(|seat| *seat == ask.seat) else {
            // Who is being admitted may be unknown here for a moment; it takes no notice.
            if place.is_settled && place.is_skipped(ask.seat, &self.config) {
                self.send(from, TicketMessage::Gone { number: ask.number });
            }
            return;
        };
        if !place.followers.asks(self.config.tickets, ask, place.seat, now) {
            return;
        }
        if let Some(admission) = &mut place.admission {
            admission.has_asked |= admission.seat == ask.seat;
        }
        let between = chain.get(..position).unwrap_or_default();
        let waiters = self.waiting.told(now);
        if let Some(answer) = vouch(place, ask, between, waiters, &self.config, now) {
            self.send(from, answer);
        }
        self.settle(now);
        self.update_successor();
    }

    pub(super) fn on_vouch(
        &mut self,
        from: MemberId,
        number: u64,
        lists: (Option<u32>, Option<u32>),
        waiters: &[Waiter],
        now: Time,
    ) {
        self.waiting.heard(waiters, now);
        let State::In(place) = &mut self.state else { return };
        let Some(asked_at) = place.asked_at(number) else { return };
        if place.is_vouched_for(from, lists, asked_at + self.config.lease) {
            self.settle(now);
            // They must hear by whom we go, and our successor by whom it should.
            self.ask_witnesses(now);
        }
    }

    /// Somebody has a seat where ours was. Who is not settled yet may only not be known there.
    pub(super) fn on_gone(&mut self, from: MemberId, number: u64, now: Time) {
        let State::In(place) = &mut self.state else { return };
        if place.asked_at(number).is_none() {
            return;
        }
        let witness = place.adopted.iter().flat_map(|list| &list.seats).find(|seat| seat.member == from);
        if let Some(&witness) = witness {
            place.denials.insert(witness, now);
        }
    }

    /// Says of a seat of ours that it is none.
    pub(super) fn deny_seat(&mut self, to: MemberId, seat: Seat) {
        // One that is still to come is no business of anybody.
        if seat.member == self.me && seat.incarnation <= self.incarnation {
            self.send(to, TicketMessage::NotMe { seat });
        }
    }

    pub(super) fn on_not_me(&mut self, from: MemberId, seat: Seat, now: Time) {
        if seat.member != from {
            return;
        }
        self.waiting.is_served(from, seat.incarnation, now);
        if let State::In(place) = &mut self.state {
            place.are_gone(seat, now);
            // Whoever waits for its successor to know it waits in vain.
            if !place.is_settled && place.next_follower().is_some_and(|next| next.is_gone) {
                return self.give_up(now);
            }
            self.withdraw_admission_of_the_gone(now);
            self.update_successor();
        }
    }

    pub(super) fn on_update(&mut self, from: MemberId, to: Seat, witnesses: Vec<Seat>, now: Time) {
        let me = self.me;
        if self.seat() != Some(to) {
            return self.deny_seat(from, to);
        }
        let State::In(place) = &mut self.state else { return };
        let is_sound = witnesses.first().is_some_and(|first| first.member == from)
            && witnesses.len() <= self.config.witnesses()
            && witnesses.iter().all(|witness| witness.member != me);
        if is_sound && place.propose(witnesses) {
            self.ask_witnesses(now);
        }
    }

    /// We take part fully as soon as we have our witnesses and our successor goes by us: then we can exclude it if it fails.
    fn settle(&mut self, now: Time) {
        let State::In(place) = &mut self.state else { return };
        let shown = place.next_follower().and_then(|follower| follower.adopted.as_ref());
        let is_known = shown.is_some_and(|shown| shown.seats.contains(&place.seat));
        if !place.is_settled && place.adopted.is_some() && is_known {
            place.is_settled = true;
            let seat = place.seat;
            // What was over was the turn with another ticket.
            self.is_turn_over = false;
            self.tell(Event::Took { seat });
            self.ask_witnesses(now);
        }
        if let State::In(place) = &mut self.state
            && let Some(admission) = &place.admission
            && place.followers.get(admission.seat).is_some_and(|follower| follower.is_settled)
        {
            place.admission = None;
        }
    }
}

/// Our word for a seat that is in the chain, as far as we can give it; `between` are those between us and it.
fn vouch(
    place: &mut Place,
    ask: &Ask,
    between: &[Seat],
    waiters: Vec<Waiter>,
    config: &Config,
    now: Time,
) -> Option<TicketMessage> {
    if place.is_locked(ask.seat.ticket, config, now) {
        return None;
    }
    let proposed = ask
        .proposed
        .as_ref()
        .filter(|list| is_right(place, ask.seat, between, list, usize::from(config.faults)));
    let follower = place.followers.get_mut(ask.seat)?;
    if let Some(list) = proposed {
        follower.vouch_for(list);
    }
    let adopted = ask.adopted.as_ref().filter(|list| follower.lists.contains(list));
    if adopted.is_none() && proposed.is_none() {
        return None;
    }
    let version = |list: Option<&Witnesses>| list.map(|list| list.version);
    Some(TicketMessage::Vouch {
        number: ask.number,
        adopted: version(adopted),
        proposed: version(proposed),
        waiters,
    })
}

/// Whether a list of a seat is right from us on. It must name everybody between us and the seat who may come to exclude
/// it, and so has to know its lists: of those who are settled, or were in an earlier list, the k+1 nearest. Who is just
/// being admitted may be in it or not, and nobody else.
fn is_right(place: &Place, seat: Seat, between: &[Seat], list: &Witnesses, faults: usize) -> bool {
    let Some(at) = list.seats.iter().position(|witness| *witness == place.seat) else { return false };
    let mut nearer = list.seats.get(..at).unwrap_or_default();
    let known = place.followers.get(seat).map_or(&[][..], |follower| &follower.lists);
    let counts_on_it = |other: &Seat| {
        let follower = place.followers.get(*other);
        follower.is_some_and(|follower| follower.is_settled && !follower.is_gone)
            || known.iter().any(|list| list.seats.contains(other))
    };
    for other in between.iter().rev() {
        match nearer.split_first() {
            Some((first, rest)) if first == other => nearer = rest,
            _ if at - nearer.len() <= faults && counts_on_it(other) => return false,
            _ => {}
        }
    }
    nearer.is_empty()
}
