//! A place in the ring: our seat, our deed, the word of our witnesses, and what is under way.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::base::{Ask, Deed, MemberId, Rng, Seat, Standing, Ticket, Time, Vouch, Waiter};

use super::book::Book;
use super::exclusion::Exclusion;
use super::joining::Admission;
use super::leaving::Release;
use super::nouns::Config;
use super::ring::{covers, list_after, needed_to_exclude, needed_to_stay, steps};

/// Questions whose answers still count.
const ASKED: usize = 32;

/// What a question tells besides that we are there: by which deed we go, by which we would, and whether we ever were sure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct News {
    deed: u32,
    proposed: Option<u32>,
    is_settled: bool,
}

/// A question whose answer still counts.
#[derive(Clone, Copy, Debug)]
struct Question {
    number: u64,
    at: Time,
    news: News,
}

/// What a witness has said of us.
#[derive(Clone, Copy, Debug)]
struct Word {
    /// It stands by its promises in seats from this number on.
    since: u64,
    /// The last one that it has answered.
    question: Question,
    /// Whether it was sure of a seat itself.
    is_sure: bool,
}

impl Word {
    fn until(&self, config: &Config) -> Time {
        self.question.at + config.lease
    }
}

/// A deed by which we would go if enough agreed.
#[derive(Clone, Debug)]
pub(super) struct Proposal {
    pub(super) deed: Deed,
    since: Time,
    /// Who has taken notice, in seats from which number on.
    noted: BTreeMap<MemberId, u64>,
}

#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) seat: Seat,
    pub(super) since: Time,
    /// We have been sure of it: from then on it is ours to lose.
    pub(super) is_settled: bool,
    /// By which we go.
    pub(super) deed: Deed,
    pub(super) proposal: Option<Proposal>,
    /// Of the last proposal: no other one has the same, though it may be dropped.
    version: u32,
    /// The witnesses that our predecessor wants us to have, and when it said so.
    pub(super) wish: Option<(Vec<Seat>, Time)>,
    words: BTreeMap<MemberId, Word>,
    asked: VecDeque<Question>,
    /// Of the last question or attempt.
    number: u64,
    pub(super) ask_at: Time,
    /// When all witnesses were asked last.
    reminded_at: Time,
    /// Until when we were sure at least.
    pub(super) last_sure: Time,
    /// Since when the next one is the next one.
    pub(super) next_since: Time,
    /// Since when those after us are missed.
    pub(super) missed: BTreeMap<Seat, Time>,
    /// When our successor was told of its witnesses last, and of which.
    pub(super) told: Option<(Vec<Seat>, Time)>,
    pub(super) admission: Option<Admission>,
    pub(super) exclusion: Option<Exclusion>,
    pub(super) release: Option<Release>,
    /// Since when we want to give the ticket back.
    pub(super) yields_since: Option<Time>,
    /// Somebody who must know says that the seat is not ours any more.
    pub(super) is_denied: bool,
    /// Whether we were sure when that was looked at last.
    pub(super) was_sure: bool,
}

impl Place {
    /// The first place of a ring: alone, with nobody to ask.
    pub(super) fn first(seat: Seat, now: Time) -> Self {
        Self { is_settled: true, ..Self::granted(seat, seat, Vec::new(), now) }
    }

    /// A place as it was granted.
    pub(super) fn granted(seat: Seat, next: Seat, witnesses: Vec<Seat>, now: Time) -> Self {
        Self {
            seat,
            since: now,
            is_settled: false,
            deed: Deed { version: 0, next, beyond: None, witnesses },
            proposal: None,
            version: 0,
            wish: None,
            words: BTreeMap::new(),
            asked: VecDeque::new(),
            number: first_number(seat),
            ask_at: now,
            reminded_at: now,
            last_sure: now,
            next_since: now,
            missed: BTreeMap::new(),
            told: None,
            admission: None,
            exclusion: None,
            release: None,
            yields_since: None,
            is_denied: false,
            was_sure: false,
        }
    }

    pub(super) fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    // --- our deed ---------------------------------------------------------------------------------------------

    /// The deed by which we go, or would go.
    pub(super) fn latest(&self) -> &Deed {
        self.proposal.as_ref().map_or(&self.deed, |proposal| &proposal.deed)
    }

    /// Who comes next is about to change.
    pub(super) fn is_moving(&self) -> bool {
        self.latest().next != self.deed.next
    }

    pub(super) fn is_alone(&self) -> bool {
        self.deed.next == self.seat
    }

    /// Tickets that are ours to give.
    pub(super) fn free(&self, config: &Config) -> Ticket {
        steps(config.tickets, self.seat.ticket, self.deed.next.ticket).saturating_sub(1)
    }

    /// Whether our deed leaves no room for that seat of somebody else.
    pub(super) fn covers(&self, other: Seat, config: &Config) -> bool {
        covers(config.tickets, self.seat, self.deed.next, other)
    }

    /// Those who should vouch for who comes right after us.
    pub(super) fn witnesses_after_us(&self, book: &Book, config: &Config) -> Vec<Seat> {
        let there: Vec<Seat> =
            self.deed.witnesses.iter().copied().filter(|witness| !book.is_gone(*witness)).collect();
        list_after(self.seat, &there, self.deed.next, config.witnesses())
    }

    /// From now on we would go by this deed.
    pub(super) fn propose(&mut self, change: impl FnOnce(&mut Deed), now: Time) {
        self.version = self.version.saturating_add(1);
        let mut deed = Deed { version: self.version, ..self.latest().clone() };
        change(&mut deed);
        self.proposal = Some(Proposal { deed, since: now, noted: BTreeMap::new() });
    }

    /// Goes by the proposed deed if enough of the witnesses of both know it. Gives the one before.
    pub(super) fn adopt(&mut self, book: &Book, config: &Config, now: Time) -> Option<Deed> {
        let proposal = self.proposal.as_ref()?;
        let is_known = [&self.deed, &proposal.deed]
            .into_iter()
            .all(|deed| is_noted(&deed.witnesses, &proposal.noted, book, config));
        let deed = self.proposal.take_if(|_| is_known)?.deed;
        if deed.next != self.deed.next {
            self.next_since = now;
        }
        Some(std::mem::replace(&mut self.deed, deed))
    }

    /// When to ask again: sooner while something is new.
    fn next_ask(&self, config: &Config, now: Time) -> Time {
        let since = self.proposal.as_ref().map_or(self.since, |proposal| proposal.since);
        let is_new = (self.is_moving() || !self.is_settled) && now < since + 2 * config.round;
        let is_yielding = self.yields_since.is_some_and(|since| now < since + config.round);
        let pause = if is_new || is_yielding { config.round / 4 } else { config.pause() };
        (now + pause).min(self.reminded_at + config.pause())
    }

    /// All that was said in this seat, now that nothing more will be.
    pub(super) fn last_words(&self) -> Standing {
        let proposed = self.proposal.as_ref().map(|proposal| proposal.deed.clone());
        Standing { number: self.number.saturating_add(1), deed: self.deed.clone(), proposed }
    }

    // --- our witnesses ----------------------------------------------------------------------------------------

    /// The next question to each to whom it goes: to those who do not know what it tells, and once in a while to all by whom
    /// we go, as a reminder. So nobody is reminded of us more often than that, nor more than 2k+1 in a round, whatever
    /// happens around us.
    pub(super) fn ask(&mut self, waiters: &[Waiter], config: &Config, now: Time) -> Vec<(MemberId, Ask)> {
        let (number, news) = (self.next_number(), self.news());
        let is_round_over = now >= self.reminded_at + config.pause();
        let (deed, words) = (&self.deed, &self.words);
        let knows = |whom: MemberId| words.get(&whom).is_some_and(|word| word.question.news == news);
        let vouches = |whom: MemberId| deed.witnesses.iter().any(|witness| witness.member == whom);
        let is_asked = |whom: MemberId| !knows(whom) || is_round_over && vouches(whom);
        let whom: Vec<MemberId> = self.witnesses().into_iter().filter(|whom| is_asked(*whom)).collect();
        let are_all_asked = deed.witnesses.iter().all(|witness| whom.contains(&witness.member));
        if are_all_asked {
            self.reminded_at = now;
        }
        self.ask_at = self.next_ask(config, now);
        self.asked.push_back(Question { number, at: now, news });
        if self.asked.len() > ASKED {
            self.asked.pop_front();
        }
        let proposed = self.proposal.as_ref().map(|proposal| proposal.deed.clone());
        let standing = Standing { number, deed: self.deed.clone(), proposed };
        let knows = |whom: &MemberId| self.words.get(whom).is_some_and(|word| word.question.news == news);
        let ask = |whom: MemberId| Ask {
            seat: self.seat,
            standing: standing.clone(),
            unsure_for: now.since(self.last_sure),
            is_settled: self.is_settled,
            is_reminder: knows(&whom),
            waiters: waiters.to_vec(),
        };
        whom.into_iter().map(|whom| (whom, ask(whom))).collect()
    }

    fn news(&self) -> News {
        let proposed = self.proposal.as_ref().map(|proposal| proposal.deed.version);
        News { deed: self.deed.version, proposed, is_settled: self.is_settled }
    }

    /// Whom we ask: those by whom we go, and those by whom we would.
    pub(super) fn witnesses(&self) -> Vec<MemberId> {
        let proposed = self.proposal.iter().flat_map(|proposal| &proposal.deed.witnesses);
        let mut members: Vec<MemberId> =
            self.deed.witnesses.iter().chain(proposed).map(|seat| seat.member).collect();
        members.sort_unstable();
        members.dedup();
        members
    }

    /// A member has answered one of our questions, and has perhaps taken notice of what we propose. False if that counts no
    /// more.
    pub(super) fn hear_word(&mut self, by: MemberId, vouch: &Vouch) -> bool {
        let Vouch { number, since, proposed, is_sure, .. } = *vouch;
        let asked = self.asked.iter().find(|question| question.number == number);
        let Some(question) = asked.copied() else { return false };
        let word = self.words.entry(by).or_insert(Word { since, question, is_sure });
        word.since = word.since.max(since);
        if word.question.number < number {
            (word.question, word.is_sure) = (question, is_sure);
        }
        if let Some(proposal) = &mut self.proposal
            && proposed == Some(proposal.deed.version)
        {
            proposal.noted.insert(by, since);
        }
        let asked: Vec<MemberId> = self.witnesses();
        self.words.retain(|member, _| asked.contains(member));
        true
    }

    /// Until when enough witnesses vouch for us; `None` if they never did.
    pub(super) fn sure_until(&self, config: &Config) -> Option<Time> {
        let list = &self.deed.witnesses;
        let Some(place) = needed(list.len(), config).checked_sub(1) else {
            return Some(Time::ZERO + Duration::MAX);
        };
        let word =
            |witness: &Seat| self.words.get(&witness.member).filter(|word| word.since <= witness.incarnation);
        let mut words: Vec<Time> = list.iter().filter_map(word).map(|word| word.until(config)).collect();
        words.sort_unstable_by_key(|until| std::cmp::Reverse(*until));
        words.get(place).copied()
    }

    /// Enough witnesses vouch for us at this moment.
    pub(super) fn has_words(&self, config: &Config, now: Time) -> bool {
        self.sure_until(config).is_some_and(|until| now < until)
    }

    /// Whether the ticket is ours without doubt at this moment. Who gives it back may have lost it already.
    pub(super) fn is_sure(&self, config: &Config, now: Time) -> bool {
        self.is_settled && self.release.is_none() && !self.is_denied && self.has_words(config, now)
    }

    /// Since when the ticket has been of no use to us: we are not sure of it, or give it back.
    pub(super) fn unused_since(&self) -> Time {
        self.release.as_ref().map_or(self.last_sure, |release| release.since.min(self.last_sure))
    }

    /// Whether our predecessor has vouched for us lately; and whether it was sure of its own seat, so that what we give back
    /// can be had again.
    pub(super) fn led(&self, config: &Config, now: Time) -> Option<bool> {
        let first = self.deed.witnesses.first()?;
        let word = self.words.get(&first.member)?;
        (word.since <= first.incarnation && now < word.until(config)).then_some(word.is_sure)
    }
}

/// Whether enough of a list have taken notice: so many that nobody can exclude us, or read what we said when we are no
/// more, without hearing of it from one of them. Should some have lost their memory, the others are enough if no exclusion
/// can be without one of them; nothing can be read then, until the next deed counts.
fn is_noted(list: &[Seat], noted: &BTreeMap<MemberId, u64>, book: &Book, config: &Config) -> bool {
    let has_noted = |seat: &&Seat| noted.get(&seat.member).is_some_and(|since| *since <= seat.incarnation);
    let count = list.iter().filter(has_noted).count();
    let forgotten = list.iter().filter(|seat| book.is_forgotten(**seat)).count();
    let is_all = count + forgotten == list.len();
    count >= needed_to_stay(list.len())
        || is_all && count + needed_to_exclude(list.len(), usize::from(config.faults)) > list.len()
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
