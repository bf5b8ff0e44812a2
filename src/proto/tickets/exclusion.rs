//! Exclusion: when our successor is silent, those before us agree to vouch for it no more, and after a while its tickets are
//! ours.
//!
//! It takes three steps. *Lock*: whoever agrees vouches for nobody between us and the next one that answers. *Wait*: until
//! every word that was given before has run out, by the slowest clock. *Confirm*: whoever agreed has held to it all the
//! time, and from now on takes us for the predecessor of that next one. Enough means in each step: of every list by which
//! one of the excluded may go, so many that the rest cannot keep it in its seat.

use std::collections::BTreeSet;

use crate::base::{MemberId, Seat, TicketMessage, Time, Witnesses};

use super::followers::Follower;
use super::machine::{State, Tickets};
use super::nouns::{Config, Event};
use super::place::Place;
use super::ring::{is_between, needed_to_exclude};

/// A promise runs out after so many waits, if it is not confirmed.
const PROMISE: u32 = 3;

/// Who cannot exclude its silent successor for so many leases goes itself: the one before it may know more.
const STUCK: u32 = 6;

/// A promise that we gave: to vouch for nobody between these two.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lock {
    pub(super) from: Seat,
    pub(super) to: Seat,
    attempt: u64,
    pub(super) until: Time,
    /// It was kept, and is over: whoever was between them has no place any more.
    pub(super) is_confirmed: bool,
}

impl Lock {
    pub(super) fn is_in_force(&self, now: Time) -> bool {
        now < self.until && !self.is_confirmed
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Locking,
    Waiting { until: Time },
    Confirming { since: Time },
}

/// An exclusion of ours that is under way.
#[derive(Clone, Debug)]
pub(super) struct Exclusion {
    seats: Vec<Seat>,
    to: Seat,
    attempt: u64,
    step: Step,
    locked: BTreeSet<Seat>,
    confirmed: BTreeSet<Seat>,
    /// Somebody may have confirmed: there is no way back.
    is_certain: bool,
    pub(super) wake_at: Time,
}

impl Exclusion {
    pub(super) fn to(&self) -> Seat {
        self.to
    }
}

/// What the chain after us looks like.
enum Outlook {
    /// Our successor answers.
    Well,
    /// These are silent, and that one answers.
    Silent { seats: Vec<Seat>, to: Seat },
    /// More are silent than can be excluded, or nobody answers.
    TooMany,
    /// Our successor is silent, and we do not know enough.
    Unknown,
}

impl Tickets {
    /// Looks whether our successor is there, and does what is due if it is not.
    pub(super) fn mind_successor(&mut self, now: Time) {
        let State::In(place) = &mut self.state else { return };
        if !place.is_settled || place.release.is_some() {
            return;
        }
        let outlook = outlook(place, &self.config, now);
        place.is_well = matches!(outlook, Outlook::Well);
        place.stuck_since = match outlook {
            Outlook::Unknown => Some(place.stuck_since.unwrap_or(now)),
            _ => None,
        };
        let is_certain = place.exclusion.as_ref().is_some_and(|exclusion| exclusion.is_certain);
        match outlook {
            _ if is_certain => {}
            Outlook::Silent { seats, to } => {
                let is_other = |exclusion: &Exclusion| exclusion.seats != seats || exclusion.to != to;
                if place.exclusion.as_ref().is_none_or(is_other) {
                    self.call_off();
                    self.begin_exclusion(seats, to, now);
                }
            }
            Outlook::Well | Outlook::TooMany | Outlook::Unknown => self.call_off(),
        }
        self.go_on_excluding(now);
    }

    /// Whether we cannot get on and should make room.
    pub(super) fn is_stuck(&self, now: Time) -> bool {
        let State::In(place) = &self.state else { return false };
        let is_certain = place.exclusion.as_ref().is_some_and(|exclusion| exclusion.is_certain);
        let patience = self.config.lease * STUCK;
        !is_certain && place.stuck_since.is_some_and(|since| now >= since + patience)
    }

    fn begin_exclusion(&mut self, seats: Vec<Seat>, to: Seat, now: Time) {
        let State::In(place) = &mut self.state else { return };
        // Whoever is being admitted is among them, or comes before them and cannot settle.
        if place.admission.as_ref().is_some_and(|admission| !seats.contains(&admission.seat)) {
            return;
        }
        place.admission = None;
        place.exclusion = Some(Exclusion {
            seats,
            to,
            attempt: place.next_number(),
            step: Step::Locking,
            locked: BTreeSet::new(),
            confirmed: BTreeSet::new(),
            is_certain: false,
            wake_at: now,
        });
    }

    /// They are there again, or others are silent now.
    fn call_off(&mut self) {
        let State::In(place) = &mut self.state else { return };
        let Some(exclusion) = place.exclusion.take() else { return };
        let attempt = exclusion.attempt;
        for witness in witnesses_of(place, &exclusion) {
            self.send(witness.member, TicketMessage::Unlock { attempt });
        }
    }

    fn go_on_excluding(&mut self, now: Time) {
        let wait = self.config.wait();
        #[cfg(test)]
        let wait =
            if self.config.flaw == Some(super::Flaw::NoWait) { std::time::Duration::ZERO } else { wait };
        let State::In(place) = &mut self.state else { return };
        let Some(mut exclusion) = place.exclusion.take() else { return };
        match exclusion.step {
            Step::Locking if self.is_enough(&exclusion, &exclusion.locked) => {
                exclusion.step = Step::Waiting { until: now + wait };
                exclusion.wake_at = now + wait;
            }
            Step::Waiting { until } if now >= until => {
                exclusion.step = Step::Confirming { since: now };
                exclusion.is_certain = true;
                exclusion.wake_at = now;
            }
            _ => {}
        }
        if let Step::Confirming { since } = exclusion.step {
            if self.is_enough(&exclusion, &exclusion.confirmed) {
                return self.take_over(exclusion, now);
            }
            if now >= since + self.config.wait() {
                // Some promises have run out meanwhile.
                exclusion.step = Step::Locking;
                exclusion.locked.clear();
                exclusion.confirmed.clear();
            }
        }
        self.call_for_more(exclusion, now);
    }

    /// Repeats the present step to whoever has not answered.
    fn call_for_more(&mut self, mut exclusion: Exclusion, now: Time) {
        let pause = self.config.round / 2;
        let State::In(place) = &mut self.state else { return };
        let (seat, attempt, to) = (place.seat, exclusion.attempt, exclusion.to);
        if now >= exclusion.wake_at && !matches!(exclusion.step, Step::Waiting { .. }) {
            exclusion.wake_at = now + pause;
            for witness in witnesses_of(place, &exclusion) {
                let message = match exclusion.step {
                    Step::Locking if !exclusion.locked.contains(&witness) => {
                        TicketMessage::Lock { seat, attempt, to }
                    }
                    Step::Confirming { .. }
                        if exclusion.locked.contains(&witness) && !exclusion.confirmed.contains(&witness) =>
                    {
                        TicketMessage::Confirm { attempt }
                    }
                    _ => continue,
                };
                self.out.push_back(super::nouns::Output::Send { to: witness.member, message });
            }
        }
        place.exclusion = Some(exclusion);
    }

    /// Whether those, with ourselves, are enough of every list by which one of the excluded may go.
    fn is_enough(&self, exclusion: &Exclusion, those: &BTreeSet<Seat>) -> bool {
        let State::In(place) = &self.state else { return false };
        let is_gone = |seat: &Seat| place.followers.get(*seat).is_some_and(|follower| follower.is_gone);
        let agrees = |seat: &&Seat| **seat == place.seat || those.contains(seat) || is_gone(seat);
        let faults = usize::from(self.config.faults);
        let mut lists = exclusion
            .seats
            .iter()
            .filter(|seat| !is_gone(seat))
            .filter_map(|seat| place.followers.get(*seat))
            .flat_map(|follower| lists_of(follower, &self.config));
        lists.all(|list| {
            list.seats.iter().filter(agrees).count() >= needed_to_exclude(list.seats.len(), faults)
        })
    }

    fn take_over(&mut self, exclusion: Exclusion, now: Time) {
        let State::In(place) = &mut self.state else { return };
        let attempt = exclusion.attempt;
        let mut released = witnesses_of(place, &exclusion);
        released.retain(|witness| !exclusion.confirmed.contains(witness));
        place.next = exclusion.to;
        place.is_well = true;
        for seat in &exclusion.seats {
            place.is_gone(*seat, now);
        }
        if place.is_alone() {
            place.be_alone();
        }
        for witness in released {
            self.send(witness.member, TicketMessage::Unlock { attempt });
        }
        self.tell(Event::Excluded { seats: exclusion.seats });
        self.ask_witnesses(now);
    }

    // --- what others exclude ----------------------------------------------------------------------------------

    pub(super) fn on_lock(&mut self, from: MemberId, seat: Seat, attempt: u64, to: Seat, now: Time) {
        let until = now + self.config.wait() * PROMISE;
        let tickets = self.config.tickets;
        let State::In(place) = &mut self.state else { return };
        let is_within = |ticket| is_between(tickets, ticket, seat.ticket, to.ticket);
        let (chain, _) = place.chain(&self.config);
        let unlocked = place.followers.get(seat).map_or(0, |follower| follower.unlocked);
        let is_heir = seat.member == from && chain.contains(&seat) && !is_within(place.seat.ticket);
        let overlaps = |from: Seat, to: Seat| {
            from.ticket == seat.ticket
                || is_within(from.ticket)
                || is_between(tickets, seat.ticket, from.ticket, to.ticket)
        };
        let theirs = place.locks.iter().filter(|lock| lock.is_in_force(now) && lock.from.member != from);
        let ours = place.exclusion.as_ref().map(|exclusion| (place.seat, exclusion.to));
        let mut others = theirs.map(|lock| (lock.from, lock.to)).chain(ours);
        if !is_heir || attempt <= unlocked || others.any(|(from, to)| overlaps(from, to)) {
            return;
        }
        place.locks.retain(|lock| now < lock.until && lock.from.member != from);
        place.locks.push(Lock { from: seat, to, attempt, until, is_confirmed: false });
        self.send(from, TicketMessage::Locked { attempt });
    }

    pub(super) fn on_unlock(&mut self, from: MemberId, attempt: u64) {
        let State::In(place) = &mut self.state else { return };
        place.locks.retain(|lock| lock.from.member != from || lock.attempt > attempt);
        // A word that was overtaken by its end is void too.
        if let Some(seat) = place.followers.seat_of(from)
            && let Some(follower) = place.followers.get_mut(seat)
        {
            follower.unlocked = follower.unlocked.max(attempt);
        }
    }

    pub(super) fn on_confirm(&mut self, from: MemberId, attempt: u64, now: Time) {
        let State::In(place) = &mut self.state else { return };
        let is_it =
            |lock: &&mut Lock| lock.from.member == from && lock.attempt == attempt && now < lock.until;
        // It is remembered for a while, as the word may be repeated.
        if let Some(lock) = place.locks.iter_mut().find(is_it) {
            lock.is_confirmed = true;
            place.followers.name(self.config.tickets, lock.from, lock.to, place.seat, now);
            self.send(from, TicketMessage::Confirmed { attempt });
        }
    }

    pub(super) fn on_agreed(&mut self, from: MemberId, attempt: u64, is_confirmed: bool, now: Time) {
        let State::In(place) = &mut self.state else { return };
        let Some(exclusion) = place.exclusion.take_if(|exclusion| exclusion.attempt == attempt) else {
            return;
        };
        let witness = witnesses_of(place, &exclusion).into_iter().find(|seat| seat.member == from);
        let exclusion = place.exclusion.insert(exclusion);
        if let Some(witness) = witness {
            let agreed = if is_confirmed { &mut exclusion.confirmed } else { &mut exclusion.locked };
            agreed.insert(witness);
            self.go_on_excluding(now);
        }
    }
}

/// Whom to ask: everybody by whom one of the excluded may go, but for themselves and us.
fn witnesses_of(place: &Place, exclusion: &Exclusion) -> BTreeSet<Seat> {
    let followers = exclusion.seats.iter().filter_map(|seat| place.followers.get(*seat));
    let witnesses = followers.flat_map(|follower| &follower.lists).flat_map(|list| &list.seats);
    let others = witnesses.filter(|seat| **seat != place.seat && !exclusion.seats.contains(seat));
    others.copied().collect()
}

/// Every list by which it may go.
#[cfg(not(test))]
fn lists_of<'a>(follower: &'a Follower, _: &Config) -> &'a [Witnesses] {
    &follower.lists
}

#[cfg(test)]
fn lists_of<'a>(follower: &'a Follower, config: &Config) -> &'a [Witnesses] {
    let is_broken = config.flaw == Some(super::Flaw::ShownListOnly);
    if is_broken { follower.adopted.as_slice() } else { &follower.lists }
}

fn outlook(place: &Place, config: &Config, now: Time) -> Outlook {
    let (chain, is_closed) = place.chain(config);
    let mut seats = Vec::new();
    let mut to = is_closed.then_some(place.seat);
    for seat in chain {
        let Some(follower) = place.followers.get(seat) else { break };
        // Who was just let in may take a moment to be heard.
        let is_there = !follower.is_silent(config, now) && (follower.heard_at.is_some() || seats.is_empty());
        if is_there && !follower.is_gone {
            to = Some(seat);
            break;
        }
        seats.push(seat);
    }
    if seats.is_empty() {
        return Outlook::Well;
    }
    // Of whom does not go by us yet, others may know lists that we do not, and newcomers that it has let in.
    let goes_by_us = |seat: &Seat| place.followers.get(*seat).is_some_and(|it| it.goes_by(place.seat));
    // Farther away, there may be lists in which we are not.
    let is_gone = |seat: &Seat| place.followers.get(*seat).is_some_and(|it| it.is_gone);
    let faults = usize::from(config.faults);
    let most = if seats.iter().all(is_gone) { 2 * faults } else { faults + 1 };
    match to {
        Some(to) if seats.len() <= most && seats.iter().all(goes_by_us) => Outlook::Silent { seats, to },
        _ if seats.iter().all(goes_by_us) => Outlook::TooMany,
        _ => Outlook::Unknown,
    }
}
