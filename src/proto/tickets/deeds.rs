//! Our deed: how it changes, and how our successor hears of the witnesses that it should have.

use crate::base::{Deed, MemberId, Seat, TicketMessage, Time};

use super::machine::{State, Tickets};

impl Tickets {
    /// We would go by another deed from now on.
    pub(super) fn propose(&mut self, change: impl FnOnce(&mut Deed), now: Time) {
        let State::In(place) = &mut self.state else { return };
        place.propose(change, now);
        self.ask_witnesses(now);
        // Who is alone has nobody to ask.
        self.adopt(now);
    }

    /// The proposed deed counts as soon as enough know it.
    pub(super) fn adopt(&mut self, now: Time) {
        let State::In(place) = &mut self.state else { return };
        let Some(before) = place.adopt(&self.book, &self.config, now) else { return };
        if place.is_alone() && place.release.is_some() {
            return self.stay_alone(now);
        }
        if place.deed.next != before.next {
            // Who is alone now and wants to go begins to look for somebody else.
            place.yields_since = place.yields_since.filter(|_| !place.is_alone());
            place.told = None;
            self.finish_exclusion(now);
            self.repeat_grant(now);
        }
        // That it counts is to be known as well: while others know only that it was proposed, the old witnesses have a say.
        self.ask_witnesses(now);
    }

    /// Nobody is left who could take the ticket that we give back, so we stay. But our word that it ends may still be on its
    /// way: that seat is over, and the ring goes on with another one of ours.
    fn stay_alone(&mut self, now: Time) {
        let Some(before) = self.seat() else { return };
        self.lose(true, now);
        let seat = Seat { incarnation: self.base, ..before };
        self.begin(seat, now);
    }

    /// Takes up the witnesses that our predecessor wants us to have; who is alone has none. Those of a newcomer are our own
    /// while nobody but us may know of it, so they stay as they are until it is settled.
    pub(super) fn mind_witnesses(&mut self, now: Time) {
        let State::In(place) = &mut self.state else { return };
        if place.admission.is_some() && !place.is_moving() {
            return;
        }
        if place.latest().next == place.seat {
            place.wish = Some((Vec::new(), now));
        }
        let Some((wish, _)) = place.wish.clone() else { return };
        if wish != place.latest().witnesses {
            let is_settled = place.admission.is_none();
            let change = |deed: &mut Deed| {
                deed.witnesses = wish;
                deed.beyond = deed.beyond.filter(|_| !is_settled);
            };
            self.propose(change, now);
        }
    }

    /// Tells our successor by whom it should go, unless it does.
    pub(super) fn update_successor(&mut self, now: Time) {
        let State::In(place) = &mut self.state else { return };
        let next = place.deed.next;
        // Who is not sure may have no place any more; but if some have forgotten us, somebody must begin.
        let lost_some = || place.deed.witnesses.iter().any(|witness| self.book.is_forgotten(*witness));
        let is_new = place.admission.is_some() && self.book.heard_at(next).is_none();
        let is_entitled = place.is_sure(&self.config, now) || place.is_settled && lost_some();
        if place.is_alone() || is_new || !is_entitled || self.book.is_gone(next) {
            return;
        }
        let witnesses = place.witnesses_after_us(&self.book, &self.config);
        // Who does not ask us goes by others.
        let shown = self.book.asks(next, now - self.config.round * 3 / 2);
        let pause = self.config.round / 2;
        let is_told = place.told.as_ref().is_some_and(|(told, at)| *told == witnesses && now < *at + pause);
        if !is_told && shown.is_none_or(|shown| shown.deed.witnesses != witnesses) {
            place.told = Some((witnesses.clone(), now));
            self.send(next.member, TicketMessage::Update { to: next, witnesses });
        }
    }

    pub(super) fn on_update(&mut self, from: MemberId, to: Seat, witnesses: Vec<Seat>, now: Time) {
        if self.seat() != Some(to) {
            return self.deny_seat(from, to);
        }
        let State::In(place) = &mut self.state else { return };
        let is_sound = witnesses.first().is_some_and(|first| first.member == from)
            && is_list(&witnesses, self.config.witnesses(), self.me);
        if is_sound {
            place.wish = Some((witnesses, now));
        }
    }
}

/// Whether those can be somebody's witnesses: not too many, nobody twice, and not itself.
pub(super) fn is_list(witnesses: &[Seat], most: usize, of: MemberId) -> bool {
    let mut members: Vec<MemberId> = witnesses.iter().map(|seat| seat.member).chain([of]).collect();
    members.sort_unstable();
    members.dedup();
    witnesses.len() <= most && members.len() == witnesses.len() + 1
}
