//! What we know of others, and what we have promised about them: our duty as a witness. It does not end with our seat, only
//! with our process.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::base::{Deed, Seat, Standing, Time};

use super::ring::{DRAWS, list_after};

/// Seats remembered, at most.
const LIMIT: usize = 1024;

/// What has become of a seat, as far as we know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fate {
    There,
    /// It is no more: its member said so, or we have excluded it.
    Gone,
    /// It never was anything: its member did not take it.
    Vacant,
    /// Its member has also forgotten what it promised in it.
    Forgotten,
}

/// One seat of somebody.
#[derive(Clone, Debug)]
pub(super) struct Known {
    /// What it said last, to us or to somebody who told us.
    pub(super) standing: Option<Standing>,
    /// We have vouched for it, and not forgotten anything about it since.
    pub(super) is_followed: bool,
    /// When it asked us to vouch for it, and we did.
    pub(super) asked_at: Option<Time>,
    /// When it spoke to us.
    pub(super) heard_at: Option<Time>,
    /// When it spoke to us, or was spoken of.
    touched_at: Time,
    pub(super) is_settled: bool,
    pub(super) fate: Fate,
    /// Its member has told all that was said in it: nobody else need be asked.
    pub(super) is_told: bool,
    /// To whom we have promised to vouch for it no more, and with which attempt.
    pub(super) locks: BTreeMap<Seat, u64>,
}

impl Known {
    fn new(now: Time) -> Self {
        Self {
            standing: None,
            is_followed: false,
            asked_at: None,
            heard_at: None,
            touched_at: now,
            is_settled: false,
            fate: Fate::There,
            is_told: false,
            locks: BTreeMap::new(),
        }
    }

    pub(super) fn number(&self) -> u64 {
        self.standing.as_ref().map_or(0, |standing| standing.number)
    }

    pub(super) fn is_gone(&self) -> bool {
        self.fate > Fate::There
    }

    /// For how long we have not vouched for it. What we do not know may have been forgotten just now.
    pub(super) fn quiet_for(&self, now: Time) -> Duration {
        self.asked_at.map_or(Duration::ZERO, |at| now.since(at))
    }

    pub(super) fn learn(&mut self, standing: Standing) {
        self.standing = Some(match self.standing.take() {
            Some(before) => before.merged(standing),
            None => standing,
        });
    }

    pub(super) fn hear(&mut self, now: Time) {
        self.heard_at = Some(now);
        self.touched_at = now;
    }
}

/// All seats that we know of.
#[derive(Clone, Debug, Default)]
pub(super) struct Book {
    seats: BTreeMap<Seat, Known>,
    has_forgotten: bool,
}

impl Book {
    pub(super) fn get(&self, seat: Seat) -> Option<&Known> {
        self.seats.get(&seat)
    }

    pub(super) fn get_mut(&mut self, seat: Seat) -> Option<&mut Known> {
        self.seats.get_mut(&seat)
    }

    /// What is known of it, which is nothing if it is new. It is spoken of.
    pub(super) fn open(&mut self, seat: Seat, now: Time) -> &mut Known {
        if self.seats.len() >= LIMIT && !self.seats.contains_key(&seat) {
            self.make_room();
        }
        let known = self.seats.entry(seat).or_insert_with(|| Known::new(now));
        known.touched_at = now;
        known
    }

    /// Forgets who is no more first, then those about whom nothing was promised and of whom nobody has spoken for longest.
    fn make_room(&mut self) {
        let by_use =
            |(_, known): &(&Seat, &Known)| (!known.is_gone(), !known.locks.is_empty(), known.touched_at);
        let least = self.seats.iter().min_by_key(by_use).map(|(seat, _)| *seat);
        let least = least.and_then(|least| self.seats.remove(&least));
        self.has_forgotten |= least.is_some_and(|known| !known.is_gone() && !known.locks.is_empty());
    }

    /// Whether a promise was forgotten since this was asked last: then we stand by none of those that we gave.
    pub(super) fn has_forgotten(&mut self) -> bool {
        std::mem::take(&mut self.has_forgotten)
    }

    /// The deed of a seat counts which leaves no room for these: what was promised to it about them has done its service.
    pub(super) fn fulfil(&mut self, by: Seat, ends: impl Fn(Seat) -> bool) {
        let promised = self.seats.iter_mut().filter(|(_, known)| known.locks.contains_key(&by));
        for (_, known) in promised.filter(|(seat, _)| ends(**seat)) {
            known.fate = known.fate.max(Fate::Gone);
            known.locks.clear();
        }
    }

    /// Somebody tells what the seat has said, or by which deed it goes.
    pub(super) fn learn(&mut self, seat: Seat, standing: Option<Standing>, now: Time) {
        let known = self.open(seat, now);
        if let Some(standing) = standing {
            known.learn(standing);
        }
    }

    /// What it has said, as far as we know.
    pub(super) fn said(&self, seat: Seat) -> Option<&Standing> {
        self.get(seat)?.standing.as_ref()
    }

    pub(super) fn is_gone(&self, seat: Seat) -> bool {
        self.get(seat).is_some_and(Known::is_gone)
    }

    pub(super) fn heard_at(&self, seat: Seat) -> Option<Time> {
        self.get(seat)?.heard_at
    }

    /// Whether it spoke to us since then, and is not gone.
    pub(super) fn is_heard(&self, seat: Seat, since: Time) -> bool {
        self.get(seat).is_some_and(|known| !known.is_gone() && known.heard_at.is_some_and(|at| at >= since))
    }

    pub(super) fn bury(&mut self, seat: Seat, fate: Fate, now: Time) {
        let known = self.open(seat, now);
        known.fate = known.fate.max(fate);
    }

    /// A member says that this seat is no more, or never was; then neither is any that it had before. It stands by its
    /// promises in seats from `since` on.
    pub(super) fn hear_of_end(&mut self, seat: Seat, since: u64, is_vacant: bool, now: Time) {
        self.bury(seat, if is_vacant { Fate::Vacant } else { Fate::Gone }, now);
        self.open(seat, now).hear(now);
        let step = seat.incarnation / DRAWS;
        for (other, known) in self.seats.iter_mut().filter(|(other, _)| other.member == seat.member) {
            if other.incarnation < since {
                known.fate = Fate::Forgotten;
            } else if other.incarnation / DRAWS < step {
                known.fate = known.fate.max(Fate::Gone);
            }
        }
    }

    /// Its member says what it said last in this seat, which is no more.
    pub(super) fn hear_last_words(&mut self, seat: Seat, standing: Option<Standing>, now: Time) {
        if let Some(standing) = standing {
            self.learn(seat, Some(standing), now);
            self.open(seat, now).is_told = true;
        }
    }

    pub(super) fn is_forgotten(&self, seat: Seat) -> bool {
        self.get(seat).is_some_and(|known| known.fate == Fate::Forgotten)
    }

    /// What it goes by, to tell others who do not know it yet: not what it would go by, which they can learn from those who
    /// have heard it.
    pub(super) fn introduction(&self, seat: Seat) -> Option<Deed> {
        Some(self.said(seat)?.deed.clone())
    }

    /// How things stand with a seat that comes after this one: as it said itself, or else as it was let in.
    pub(super) fn standing(
        &self,
        seat: Seat,
        before: Seat,
        deed: &Deed,
        witnesses: usize,
    ) -> Option<Standing> {
        let said = self.said(seat).cloned();
        said.or_else(|| {
            let next = deed.beyond.filter(|_| deed.next == seat)?;
            let witnesses = list_after(before, &deed.witnesses, seat, witnesses);
            Some(Standing::introduced(Deed { version: 0, next, beyond: None, witnesses }))
        })
    }

    /// What it has said itself since then.
    pub(super) fn asks(&self, seat: Seat, since: Time) -> Option<&Standing> {
        let known = self.get(seat).filter(|known| !known.is_gone())?;
        known.standing.as_ref().filter(|_| known.asked_at.is_some_and(|at| at >= since))
    }

    /// Those after `seat` as each names the next and has done so since then, and whether the way closes there.
    pub(super) fn chain(&self, seat: Seat, next: Seat, since: Time) -> (Vec<Seat>, bool) {
        let (mut chain, mut at) = (Vec::new(), next);
        while at != seat {
            if chain.contains(&at) {
                return (chain, false);
            }
            chain.push(at);
            let Some(standing) = self.asks(at, since) else { return (chain, false) };
            at = standing.deed.next;
        }
        (chain, true)
    }
}
