//! Exclusion: those after us that are silent lose their seats, and their tickets are ours.
//!
//! It takes three steps. *Lock*: enough witnesses of each silent seat promise to vouch for it no more, tell how long ago they
//! did so last, and what it said last; should it have said that it goes by others too, enough of them as well. *Wait*: until
//! the last word that they gave has run out, by the slowest clock. For one that has long been silent that is no time at
//! all. *Propose*: our deed reaches to the next one that is there. When that counts, the tickets are ours.
//!
//! A promise has no end of its own. Until we propose we may take it back, should the silent one speak again. After that
//! nobody may but who comes before that one, and only if our place is gone and our deed never counted (`Bound`).

use std::collections::BTreeMap;
use std::time::Duration;

use crate::base::{MemberId, Seat, Standing, TicketMessage, Time};

use super::book::{Fate, Known};
use super::machine::{State, Tickets};
use super::nouns::{Config, Event};
use super::place::Place;
use super::ring::{covers, needed_to_exclude, needed_to_read};

/// Silent ones in a row that are looked at, at most.
const ROW: usize = 16;

/// Promises about one seat, at most: more than can come before it in the time of one.
const LOCKS: usize = 16;

/// Seats that we have excluded and remember.
const EXCLUDED: usize = 1024;

/// One that is silent.
#[derive(Clone, Debug)]
struct Target {
    attempt: u64,
    /// Its member says that the seat is no more. Then there is no need to wait, only to hear what it said last.
    is_gone: bool,
    /// How it stands, as far as we know.
    standing: Option<Standing>,
    promises: BTreeMap<MemberId, Promise>,
}

/// A witness vouches for a silent one no more.
#[derive(Clone, Copy, Debug)]
struct Promise {
    /// As long as it remembers: in seats from this number on.
    since: u64,
    /// From then on its last word is worth nothing.
    free_at: Time,
}

/// An exclusion of ours that is under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Exclusion {
    targets: BTreeMap<Seat, Target>,
    /// It is proposed: there is no way back.
    is_decided: bool,
    repeat_at: Time,
    /// When everybody has waited for long enough, if that is still to come.
    over_at: Option<Time>,
}

impl Exclusion {
    /// When something is to be done, unless it is decided.
    pub(super) fn wake_at(&self) -> Option<Time> {
        let at = self.over_at.map_or(self.repeat_at, |over| over.min(self.repeat_at));
        (!self.is_decided).then_some(at)
    }
}

impl Tickets {
    /// Looks whether those after us are there, and does what is due if they are not.
    pub(super) fn mind_successor(&mut self, now: Time) {
        let State::In(place) = &self.state else { return };
        let is_decided = place.exclusion.as_ref().is_some_and(|exclusion| exclusion.is_decided);
        if !place.is_settled || place.is_denied || place.is_moving() || is_decided {
            return;
        }
        let (silent, to) = self.silent_after_us(now);
        if silent.is_empty() {
            return self.call_off(|_| true);
        }
        self.call_off(|seat| silent.iter().all(|(silent, _)| *silent != seat));
        let row = silent.len();
        self.aim_at(silent, now);
        self.repeat_lock(now);
        self.decide(row, to, now);
    }

    /// Those after us in a row that are silent, with what we know of them, and the first after them that is there.
    fn silent_after_us(&self, now: Time) -> (Vec<(Seat, Option<Standing>)>, Option<Seat>) {
        let State::In(place) = &self.state else { return (Vec::new(), None) };
        let mut row: Vec<(Seat, Option<Standing>)> = Vec::new();
        let (mut before, mut deed) = (place.seat, place.deed.clone());
        while row.len() < ROW {
            let at = deed.next;
            if at == place.seat || row.iter().any(|(seat, _)| *seat == at) {
                return (row, (at == place.seat).then_some(at));
            }
            // Who does not speak to us unasked, or not yet, is given the time to answer our knocks.
            let missed_until = place.missed.get(&at).copied().unwrap_or(now) + 2 * self.config.round;
            let new_until = place.next_since + self.config.fresh();
            let patient_until = if row.is_empty() { missed_until.min(new_until) } else { missed_until };
            let is_heard = self.book.is_heard(at, now - self.config.fresh());
            if !self.book.is_gone(at) && (is_heard || now < patient_until) {
                let to = (is_heard || row.is_empty()).then_some(at);
                return (row, to);
            }
            let standing = self.book.standing(at, before, &deed, self.config.witnesses());
            let latest = standing.as_ref().map(|standing| standing.latest().clone());
            row.push((at, standing));
            let Some(latest) = latest else { break };
            (before, deed) = (at, latest);
        }
        (row, None)
    }

    /// They are there again, or have no place after us any more.
    pub(super) fn call_off(&mut self, is_meant: impl Fn(Seat) -> bool) {
        let State::In(place) = &mut self.state else { return };
        let Some(exclusion) = place.exclusion.as_mut().filter(|exclusion| !exclusion.is_decided) else {
            return;
        };
        let by = place.seat;
        let meant: Vec<Seat> = exclusion.targets.keys().copied().filter(|seat| is_meant(*seat)).collect();
        let dropped: Vec<(Seat, Target)> =
            meant.into_iter().filter_map(|seat| Some((seat, exclusion.targets.remove(&seat)?))).collect();
        if exclusion.targets.is_empty() {
            place.exclusion = None;
        }
        for (seat, target) in dropped {
            let attempt = target.attempt;
            self.on_unlock(seat, by, attempt);
            for whom in witnesses_of(&target) {
                self.send(whom, TicketMessage::Unlock { seat, by, attempt });
            }
        }
    }

    /// Whoever is not sure of its own place, or gives it back, excludes nobody: the one that is silent may have it. But the
    /// range of one that is gone by its own word is taken.
    fn aim_at(&mut self, silent: Vec<(Seat, Option<Standing>)>, now: Time) {
        let State::In(place) = &mut self.state else { return };
        let mut may_aim = true;
        let is_sure = place.is_sure(&self.config, now);
        for (seat, standing) in silent {
            let is_gone = self.book.is_gone(seat);
            let before = place.exclusion.as_mut().and_then(|exclusion| exclusion.targets.get_mut(&seat));
            let before = before.filter(|target| target.is_gone == is_gone);
            let is_aimed = before.is_some();
            if let Some(target) = before.filter(|target| target.has_lists_of(standing.as_ref())) {
                target.standing = standing;
                continue;
            }
            // What was told before it said that it is gone may be less than what it said last. And who is another seat's
            // witness than we thought may have promised in an earlier life, of which it has forgotten all: all are asked anew.
            may_aim &= is_sure || is_gone;
            if may_aim || is_aimed {
                let attempt = place.next_number();
                let known = self.book.open(seat, now);
                known.locks.insert(place.seat, attempt);
                let free_at = now + still_bound(known.quiet_for(now), &self.config);
                let ours = (self.me, Promise { since: self.first, free_at });
                let target = Target { attempt, is_gone, standing, promises: BTreeMap::from([ours]) };
                let exclusion = place.exclusion.get_or_insert_default();
                exclusion.targets.insert(seat, target);
                exclusion.repeat_at = now;
            }
        }
    }

    /// Repeats what was not answered.
    fn repeat_lock(&mut self, now: Time) {
        let State::In(place) = &mut self.state else { return };
        let (by, ours) = (place.seat, &place.deed.witnesses);
        let Some(exclusion) = place.exclusion.as_mut().filter(|it| now >= it.repeat_at) else { return };
        exclusion.repeat_at = now + self.config.round / 2;
        let around: Vec<MemberId> = exclusion.targets.values().flat_map(witnesses_of).collect();
        let mut sent = Vec::new();
        for (seat, target) in &exclusion.targets {
            let attempt = target.attempt;
            let mut asked = witnesses_of(target);
            // Of whom we know nothing, others around may know more.
            if target.standing.is_none() {
                asked.extend(ours.iter().map(|witness| witness.member).chain(around.iter().copied()));
                asked.sort_unstable();
                asked.dedup();
            }
            asked.retain(|whom| !target.promises.contains_key(whom) && *whom != seat.member);
            let lock = |whom| (whom, TicketMessage::Lock { by, attempt, seat: *seat });
            sent.extend(asked.into_iter().map(lock));
        }
        for (whom, message) in sent {
            self.send(whom, message);
        }
        self.look_for_missing(now);
    }

    /// Knocks at those after us that have not spoken lately, as far as the first that has: should the next one be silent,
    /// it is known by then who else is. Who does not go by us yet does not speak to us unasked; and who is gone may still
    /// tell what it said last.
    pub(super) fn look_for_missing(&mut self, now: Time) {
        let missing = self.missing_after_us(now);
        let State::In(place) = &mut self.state else { return };
        place.missed.retain(|seat, _| missing.contains(seat));
        let is_aimed = place.exclusion.as_ref().is_some_and(|exclusion| !exclusion.targets.is_empty());
        // Who is being let in may not have heard of it yet, and would decline.
        let newcomer = place.admission.as_ref().filter(|_| !is_aimed).map(|admission| admission.seat);
        for seat in &missing {
            place.missed.entry(*seat).or_insert(now);
        }
        for seat in missing.into_iter().filter(|seat| newcomer != Some(*seat)) {
            if !self.book.get(seat).is_some_and(|known| known.is_told) {
                self.send(seat.member, TicketMessage::Knock { seat });
            }
        }
    }

    fn missing_after_us(&self, now: Time) -> Vec<Seat> {
        let State::In(place) = &self.state else { return Vec::new() };
        let (mut missing, mut before, mut deed) = (Vec::new(), place.seat, place.deed.clone());
        let is_missing = |seat: Seat| !self.book.is_heard(seat, now - self.config.round * 3 / 2);
        while missing.len() < ROW {
            let at = deed.next;
            if at == place.seat || missing.contains(&at) || !is_missing(at) {
                break;
            }
            missing.push(at);
            let standing = self.book.standing(at, before, &deed, self.config.witnesses());
            let Some(standing) = standing else { break };
            (before, deed) = (at, standing.latest().clone());
        }
        missing
    }

    /// When enough have promised and nothing that they said before counts, our deed reaches to the first one that is there.
    fn decide(&mut self, row: usize, to: Option<Seat>, now: Time) {
        let State::In(place) = &mut self.state else { return };
        let Some(exclusion) = &mut place.exclusion else { return };
        let is_read = |known: &Known| known.fate == Fate::Vacant || known.is_told;
        let ends = exclusion.targets.iter().map(|(seat, target)| {
            let is_read = self.book.get(*seat).is_some_and(is_read);
            if is_read { Some(now) } else { target.over_at(&self.config) }
        });
        let ends: Vec<Option<Time>> = ends.collect();
        exclusion.over_at = ends.iter().flatten().copied().filter(|at| *at > now).max();
        let is_over = ends.len() == row && ends.iter().all(|at| at.is_some_and(|at| at <= now));
        let Some(to) = to.filter(|_| is_over) else { return };
        exclusion.is_decided = true;
        place.admission = None;
        self.propose(|deed| (deed.next, deed.beyond) = (to, None), now);
    }

    /// Our deed counts: they have no seat any more.
    pub(super) fn finish_exclusion(&mut self, now: Time) {
        let State::In(place) = &mut self.state else { return };
        let Some(exclusion) = place.exclusion.take_if(|exclusion| exclusion.is_decided) else { return };
        let seats: Vec<Seat> = exclusion.targets.into_keys().collect();
        for seat in &seats {
            self.book.bury(*seat, Fate::Gone, now);
            self.excluded.push_back(*seat);
        }
        let surplus = self.excluded.len().saturating_sub(EXCLUDED);
        self.excluded.drain(..surplus);
        self.tell(Event::Excluded { seats });
    }

    // --- what others exclude ----------------------------------------------------------------------------------

    pub(super) fn on_lock(&mut self, from: MemberId, by: Seat, attempt: u64, seat: Seat, now: Time) {
        if by.member != from || self.seat() == Some(seat) {
            return;
        }
        if seat.member == self.me {
            return self.deny_seat(from, seat);
        }
        if self.book.is_gone(by) {
            return;
        }
        let known = self.book.open(seat, now);
        if known.locks.len() >= LOCKS && !known.locks.contains_key(&by) {
            return;
        }
        let before = known.locks.entry(by).or_insert(attempt);
        *before = attempt.max(*before);
        let (quiet_for, standing) = (known.quiet_for(now), known.standing.clone());
        self.send(from, TicketMessage::Locked { attempt, seat, since: self.first, quiet_for, standing });
    }

    pub(super) fn on_locked(
        &mut self,
        from: MemberId,
        (seat, attempt): (Seat, u64),
        (since, quiet_for): (u64, Duration),
        standing: Option<Standing>,
        now: Time,
    ) {
        let State::In(place) = &mut self.state else { return };
        let exclusion = place.exclusion.as_mut().filter(|exclusion| !exclusion.is_decided);
        let target = exclusion.and_then(|exclusion| exclusion.targets.get_mut(&seat));
        let Some(target) = target.filter(|target| target.attempt == attempt) else { return };
        let free_at = now + still_bound(quiet_for, &self.config);
        let promise = target.promises.entry(from).or_insert(Promise { since, free_at });
        // Who has begun anew since then has forgotten it.
        promise.since = promise.since.max(since);
        #[cfg(test)]
        let standing = standing.filter(|_| self.config.flaw != Some(super::Flaw::ShownListOnly));
        self.book.learn(seat, standing, now);
    }

    /// Somebody is bound by a promise about one that speaks again. It is void if we asked for it and called it off; or if
    /// that one comes right after us, as then there is no room for whoever asked. Who is meant itself tells the one before.
    pub(super) fn on_bound(&mut self, seat: Seat, by: Seat, attempt: u64, witness: MemberId, now: Time) {
        if self.seat() == Some(seat) {
            let State::In(place) = &self.state else { return };
            let before = place.wish.iter().filter_map(|(wish, _)| wish.first()).chain(&place.deed.witnesses);
            if let Some(before) = before.map(|seat| seat.member).next() {
                self.send(before, TicketMessage::Bound { seat, by, attempt, witness });
            }
        } else if self.is_void(seat, by, now) {
            self.send(witness, TicketMessage::Unlock { seat, by, attempt });
        } else {
            self.denies(seat, now);
        }
    }

    /// Whether a promise about a seat, for which `by` asked, holds no more.
    fn is_void(&self, seat: Seat, by: Seat, now: Time) -> bool {
        match &self.state {
            State::In(place) if place.seat == by => {
                let is_aimed = |exclusion: &Exclusion| exclusion.targets.contains_key(&seat);
                !place.exclusion.as_ref().is_some_and(is_aimed) && !self.ends(place, seat)
            }
            _ if by.member == self.me => self.never_excluded(seat, by),
            State::In(place) => {
                let is_next = place.deed.next == seat && place.is_sure(&self.config, now);
                is_next && place.covers(by, &self.config)
            }
            State::Out(_) => false,
        }
    }

    /// Whether that seat of ours, which has ended, has left the other one its place. We called off what we had begun, but
    /// not everybody may have heard of it.
    fn never_excluded(&self, seat: Seat, by: Seat) -> bool {
        let last_words = self.taken.iter().find(|taken| taken.seat == by);
        let Some(last_words) = last_words.and_then(|taken| taken.standing.as_ref()) else { return false };
        let mut deeds = [Some(&last_words.deed), last_words.proposed.as_ref()].into_iter().flatten();
        let has_room = deeds.all(|deed| !covers(self.config.tickets, by, deed.next, seat));
        has_room && self.excluded.len() < EXCLUDED && !self.excluded.contains(&seat)
    }

    /// Whether a seat of somebody else is no more: we have excluded it, or our deed leaves no room for it.
    pub(super) fn ends(&self, place: &Place, other: Seat) -> bool {
        self.excluded.contains(&other) || place.covers(other, &self.config)
    }

    pub(super) fn on_unlock(&mut self, seat: Seat, by: Seat, attempt: u64) {
        if let Some(known) = self.book.get_mut(seat)
            && known.locks.get(&by).is_some_and(|locked| *locked <= attempt)
        {
            known.locks.remove(&by);
        }
    }
}

impl Target {
    /// Whether those who vouch for it are the same as we thought.
    fn has_lists_of(&self, standing: Option<&Standing>) -> bool {
        self.standing.iter().flat_map(Standing::lists).eq(standing.into_iter().flat_map(Standing::lists))
    }

    /// From when on it cannot be sure by any of its lists, nor ever again; `None` while too few have promised.
    fn over_at(&self, config: &Config) -> Option<Time> {
        let lists = self.standing.as_ref()?.lists();
        lists.map(|list| self.free_at(list, config)).try_fold(Time::ZERO, |latest, at| Some(latest.max(at?)))
    }

    /// From when on enough of a list stand by their promises, with no word left that counts. Who says itself that it is no
    /// more goes by no word.
    fn free_at(&self, list: &[Seat], config: &Config) -> Option<Time> {
        let promises = list.iter().filter_map(|seat| {
            let promise =
                self.promises.get(&seat.member).filter(|promise| promise.since <= seat.incarnation)?;
            Some(if self.is_gone { Time::ZERO } else { promise.free_at })
        });
        let mut times: Vec<Time> = promises.collect();
        times.sort_unstable();
        let exclude = needed_to_exclude(list.len(), usize::from(config.faults));
        let needed = if self.is_gone { needed_to_read(list.len()) } else { exclude };
        times.get(needed.checked_sub(1)?).copied()
    }
}

/// Everybody who may vouch for it.
fn witnesses_of(target: &Target) -> Vec<MemberId> {
    let lists = target.standing.iter().flat_map(Standing::lists);
    let mut members: Vec<MemberId> = lists.flatten().map(|seat| seat.member).collect();
    members.sort_unstable();
    members.dedup();
    members
}

/// How long the last word of a witness may still count that has given none for so long.
fn still_bound(quiet_for: Duration, config: &Config) -> Duration {
    #[cfg(test)]
    if config.flaw == Some(super::Flaw::NoWait) {
        return Duration::ZERO;
    }
    config.wait().saturating_sub(quiet_for)
}
