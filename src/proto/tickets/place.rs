//! A place in the ring: our seat, our witnesses and their word, our successor, and what is under way with it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::base::{Ask, MemberId, Rng, Seat, Ticket, Time, Waiter, Witnesses};

use super::exclusion::{Exclusion, Lock};
use super::followers::{Follower, Followers, is_meant};
use super::joining::Admission;
use super::leaving::Release;
use super::nouns::Config;
use super::ring::{is_between, needed_to_stay, steps};

/// Questions whose answers still count.
const ASKED: usize = 32;

/// Witnesses that we would go by if all of them agreed.
#[derive(Clone, Debug)]
pub(super) struct Proposal {
    pub(super) witnesses: Witnesses,
    /// Until when each of those counts that have agreed.
    words: BTreeMap<Seat, Time>,
}

#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) seat: Seat,
    pub(super) next: Seat,
    pub(super) since: Time,
    /// We have our witnesses and are one of our successor's: from then on the ticket may be used.
    pub(super) is_settled: bool,
    /// Those who come before us, by whom we go.
    pub(super) adopted: Option<Witnesses>,
    pub(super) proposed: Option<Proposal>,
    /// Until when the word of each witness counts.
    words: BTreeMap<Seat, Time>,
    /// When each witness said last that we have no seat any more.
    pub(super) denials: BTreeMap<Seat, Time>,
    asked: VecDeque<(u64, Time)>,
    /// Of the last question, attempt or try.
    number: u64,
    pub(super) ask_at: Time,
    pub(super) followers: Followers,
    /// Seats that are no more, as we know for certain, and since when: in a small ring they come before us too.
    pub(super) gone: BTreeMap<Seat, Time>,
    /// What we have promised to others about those who come after us.
    pub(super) locks: Vec<Lock>,
    pub(super) admission: Option<Admission>,
    pub(super) exclusion: Option<Exclusion>,
    pub(super) release: Option<Release>,
    /// Whether we were sure when that was looked at last.
    pub(super) was_sure: bool,
    /// Our successor answers.
    pub(super) is_well: bool,
    /// Since when it does not, and we know too little of it to exclude it.
    pub(super) stuck_since: Option<Time>,
}

impl Place {
    /// The first place of a ring: alone, with nobody to ask.
    pub(super) fn first(seat: Seat, now: Time) -> Self {
        let mut place = Self::with_witnesses(seat, &[seat], Vec::new(), now);
        place.be_alone();
        place.is_settled = true;
        place
    }

    /// A place as it was granted: with these to come after it, nearest first, and these to vouch for it.
    pub(super) fn with_witnesses(seat: Seat, followers: &[Seat], witnesses: Vec<Seat>, now: Time) -> Self {
        let witnesses = Witnesses { version: 1, seats: witnesses };
        Self {
            seat,
            next: followers.first().copied().unwrap_or(seat),
            since: now,
            is_settled: false,
            adopted: None,
            proposed: Some(Proposal { witnesses, words: BTreeMap::new() }),
            words: BTreeMap::new(),
            denials: BTreeMap::new(),
            asked: VecDeque::new(),
            number: first_number(seat),
            ask_at: now,
            followers: Followers::in_order(followers, now),
            gone: BTreeMap::new(),
            locks: Vec::new(),
            admission: None,
            exclusion: None,
            release: None,
            was_sure: false,
            is_well: true,
            stuck_since: None,
        }
    }

    pub(super) fn is_alone(&self) -> bool {
        self.next == self.seat
    }

    /// Nobody else is left: nobody has to be asked.
    pub(super) fn be_alone(&mut self) {
        let seats = Vec::new();
        self.adopted = Some(Witnesses { version: self.next_version(), seats });
        self.next = self.seat;
        self.proposed = None;
        self.words.clear();
        self.denials.clear();
        self.followers = Followers::default();
        self.locks.clear();
    }

    // --- numbers ----------------------------------------------------------------------------------------------

    pub(super) fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    fn next_version(&self) -> u32 {
        let adopted = self.adopted.as_ref().map_or(0, |list| list.version);
        let proposed = self.proposed.as_ref().map_or(0, |proposal| proposal.witnesses.version);
        adopted.max(proposed).saturating_add(1)
    }

    // --- our witnesses ----------------------------------------------------------------------------------------

    /// The question of this round.
    pub(super) fn ask(&mut self, waiters: Vec<Waiter>, now: Time) -> Ask {
        let number = self.next_number();
        self.asked.push_back((number, now));
        if self.asked.len() > ASKED {
            self.asked.pop_front();
        }
        Ask {
            seat: self.seat,
            number,
            next: self.next,
            is_settled: self.is_settled,
            adopted: self.adopted.clone(),
            proposed: self.proposed.as_ref().map(|proposal| proposal.witnesses.clone()),
            waiters,
        }
    }

    /// Whom we ask: those by whom we go, and those by whom we would.
    pub(super) fn witnesses(&self) -> Vec<Seat> {
        let adopted = self.adopted.iter().flat_map(|list| &list.seats);
        let proposed = self.proposed.iter().flat_map(|proposal| &proposal.witnesses.seats);
        let mut seats: Vec<Seat> = adopted.chain(proposed).copied().collect();
        seats.sort_unstable();
        seats.dedup();
        seats
    }

    /// Who comes right before us, as far as we know.
    pub(super) fn predecessor(&self) -> Option<Seat> {
        self.adopted.as_ref().and_then(|list| list.seats.first()).copied()
    }

    /// When we asked this, if the answer still counts.
    pub(super) fn asked_at(&self, number: u64) -> Option<Time> {
        self.asked.iter().find(|(asked, _)| *asked == number).map(|(_, at)| *at)
    }

    /// A member vouches for us until then, as a witness of these lists. True if that makes the proposed list the one we go
    /// by.
    pub(super) fn is_vouched_for(
        &mut self,
        by: MemberId,
        (adopted, proposed): (Option<u32>, Option<u32>),
        until: Time,
    ) -> bool {
        if let Some(list) = &self.adopted
            && adopted == Some(list.version)
            && let Some(witness) = list.seats.iter().find(|seat| seat.member == by)
        {
            let word = self.words.entry(*witness).or_insert(until);
            *word = until.max(*word);
            self.denials.remove(witness);
        }
        if let Some(proposal) = &mut self.proposed
            && proposed == Some(proposal.witnesses.version)
            && let Some(witness) = proposal.witnesses.seats.iter().find(|seat| seat.member == by)
        {
            proposal.words.insert(*witness, until);
            let is_complete = proposal.words.len() == proposal.witnesses.seats.len();
            return is_complete && self.adopt();
        }
        false
    }

    fn adopt(&mut self) -> bool {
        let Some(proposal) = self.proposed.take() else { return false };
        self.adopted = Some(proposal.witnesses);
        self.words = proposal.words;
        self.denials.clear();
        true
    }

    /// Our predecessor thinks that our witnesses should be these. True if that is new.
    pub(super) fn propose(&mut self, seats: Vec<Seat>) -> bool {
        if self.adopted.as_ref().is_some_and(|list| list.seats == seats) {
            self.proposed = None;
            return false;
        }
        if self.proposed.as_ref().is_some_and(|proposal| proposal.witnesses.seats == seats) {
            return false;
        }
        let witnesses = Witnesses { version: self.next_version(), seats };
        self.proposed = Some(Proposal { witnesses, words: BTreeMap::new() });
        true
    }

    /// Until when enough witnesses vouch for us; `None` if they do not.
    pub(super) fn sure_until(&self, config: &Config) -> Option<Time> {
        let list = self.adopted.as_ref()?;
        let Some(place) = needed(list.seats.len(), config).checked_sub(1) else {
            return Some(Time::ZERO + Duration::MAX);
        };
        let mut words: Vec<Time> = self.words.values().copied().collect();
        words.sort_unstable_by_key(|until| std::cmp::Reverse(*until));
        words.get(place).copied()
    }

    /// Whether the ticket is ours without doubt at this moment.
    pub(super) fn is_sure(&self, config: &Config, now: Time) -> bool {
        self.is_settled && self.release.is_none() && self.sure_until(config).is_some_and(|until| now < until)
    }

    /// So many witnesses say that we have no seat that it cannot be ours any more.
    pub(super) fn is_denied(&self) -> bool {
        self.adopted.as_ref().is_some_and(|list| {
            let others = list.seats.len().saturating_sub(self.denials.len());
            self.is_settled && others < needed_to_stay(list.seats.len())
        })
    }

    // --- those after us ---------------------------------------------------------------------------------------

    /// Those after us in order, and whether the chain closes at ourselves.
    pub(super) fn chain(&self, config: &Config) -> (Vec<Seat>, bool) {
        self.followers.chain(config.tickets, self.seat, self.next)
    }

    /// Whether somebody after us names a successor beyond this one, who then has no place.
    pub(super) fn is_skipped(&self, seat: Seat, config: &Config) -> bool {
        let (chain, _) = self.chain(config);
        let nexts = chain.iter().filter_map(|seat| Some((*seat, self.followers.get(*seat)?.next?)));
        [(self.seat, self.next)]
            .into_iter()
            .chain(nexts)
            .any(|(from, to)| is_between(config.tickets, seat.ticket, from.ticket, to.ticket))
    }

    pub(super) fn next_follower(&self) -> Option<&Follower> {
        self.followers.get(self.next)
    }

    /// Tickets that are ours to give.
    pub(super) fn free(&self, config: &Config) -> Ticket {
        steps(config.tickets, self.seat.ticket, self.next.ticket).saturating_sub(1)
    }

    /// Those who should vouch for who comes right after us.
    pub(super) fn witnesses_after_us(&self, next: Seat, config: &Config) -> Option<Vec<Seat>> {
        let before = self.adopted.as_ref()?.seats.iter().copied();
        let before = before.filter(|seat| *seat != next && !self.gone.contains_key(seat));
        Some([self.seat].into_iter().chain(before).take(config.witnesses()).collect())
    }

    /// Nothing changes around us: our witnesses are as they should be, and so are our successor's.
    pub(super) fn is_at_rest(&self, config: &Config) -> bool {
        let shown = self.next_follower().and_then(|follower| follower.adopted.as_ref());
        let due = self.witnesses_after_us(self.next, config);
        self.proposed.is_none()
            && (self.is_alone() || shown.zip(due).is_some_and(|(shown, due)| shown.seats == due))
    }

    /// Those in the ring who have a ticket to give, as far as we know; and whether we know the whole ring at first hand.
    pub(super) fn givers(&self, config: &Config) -> (Vec<Seat>, bool) {
        let (chain, is_closed) = self.chain(config);
        let nexts = chain.iter().filter_map(|seat| Some((*seat, self.followers.get(*seat)?.next?)));
        let all = [(self.seat, self.next)].into_iter().chain(nexts);
        let givers = all.filter(|(seat, next)| steps(config.tickets, seat.ticket, next.ticket) > 1);
        (givers.map(|(seat, _)| seat).collect(), is_closed && chain.len() <= config.witnesses())
    }

    /// A seat after us is no more.
    pub(super) fn is_gone(&mut self, seat: Seat, now: Time) {
        self.followers.remove(seat);
        self.gone.insert(seat, now);
    }

    /// A member says which of its seats are no more: that one, and all before it.
    pub(super) fn are_gone(&mut self, gone: Seat, now: Time) {
        self.followers.are_gone(gone);
        for witness in self.witnesses() {
            if is_meant(gone, witness) {
                self.gone.insert(witness, now);
            }
        }
    }

    /// Whether we have promised to vouch for nobody with this ticket.
    pub(super) fn is_locked(&self, ticket: Ticket, config: &Config, now: Time) -> bool {
        #[cfg(test)]
        if config.flaw == Some(super::Flaw::NoLock) {
            return false;
        }
        let ours = self.exclusion.as_ref().map(|exclusion| (self.seat, exclusion.to()));
        let theirs = self.locks.iter().filter(|lock| lock.is_in_force(now)).map(|lock| (lock.from, lock.to));
        theirs.chain(ours).any(|(from, to)| is_between(config.tickets, ticket, from.ticket, to.ticket))
    }
}

/// Where the questions of a seat begin to count: anywhere, so that no answer to one of an earlier seat fits them.
fn first_number(seat: Seat) -> u64 {
    Rng::seeded(seat.incarnation).next_u64() / 2
}

/// How many of so many witnesses must vouch.
#[cfg(not(test))]
fn needed(witnesses: usize, _: &Config) -> usize {
    needed_to_stay(witnesses)
}

#[cfg(test)]
fn needed(witnesses: usize, config: &Config) -> usize {
    let is_broken = config.flaw == Some(super::Flaw::AllMustVouch);
    if is_broken { witnesses } else { needed_to_stay(witnesses) }
}
