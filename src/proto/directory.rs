//! The directory: whom a member knows, where they are, and whom to forget.
//!
//! Entries are signed address records with certificates, checked before they come here. The view is bounded: everyone while
//! the circle is small, a random part of it beyond. A member that does not answer is suspected, and then forgotten; a newer
//! record, or a word of its own, brings it back. Nobody keeps a list of everybody.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use crate::base::{MemberId, Rng, RoundTrip, Time};
use crate::wire::records::{Certificate, Entry};

/// How much is remembered, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Members known at most. A walk over random views of 32 is as good as one over the full mesh (the simulator shows
    /// it); four times that keeps a view connected while members come and go, at some 60 KB.
    pub view: usize,
    /// Unanswered questions in a row before a member is suspected. One datagram in five may get lost on a bad line, three
    /// in a row once in 125.
    pub patience: u32,
    /// How long a suspected member is kept before it is forgotten.
    pub forget_after: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self { view: 128, patience: 3, forget_after: Duration::from_secs(600) }
    }
}

/// How many forgotten members are remembered as such, so that old records do not bring them back.
const TOMBSTONES: usize = 256;

/// Members of the last handoffs that keep their place: givers and takers, and some that did not answer.
const PARTNERS: usize = 8;

/// What a record was worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learned {
    /// A member that was not known.
    New,
    /// A newer address of a known member.
    Moved,
    /// Nothing new.
    Nothing,
}

/// One member, as known here.
#[derive(Clone, Debug)]
pub struct Known {
    entry: Entry,
    failures: u32,
    suspected_since: Option<Time>,
    heard_at: Option<Time>,
    round_trip: Option<RoundTrip>,
    clock_offset_ms: Option<i64>,
    /// Since when it has waited for a slot.
    waits_since: Option<Time>,
    /// It said last that it has nothing to pull.
    is_idle: bool,
}

impl Known {
    /// Since when it has waited for a slot, as it said last.
    pub fn waits_since(&self) -> Option<Time> {
        self.waits_since
    }

    /// Whether it can want a slot: it answers, and did not say that it has nothing to pull.
    pub fn can_want(&self) -> bool {
        !self.is_suspected() && !self.is_idle
    }

    /// How far its wall clock is ahead of ours, in milliseconds.
    pub fn clock_offset_ms(&self) -> Option<i64> {
        self.clock_offset_ms
    }

    /// Its signed address and certificate.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Whether it has not answered for some time.
    pub fn is_suspected(&self) -> bool {
        self.suspected_since.is_some()
    }

    /// When it was last heard of at first hand.
    pub fn heard_at(&self) -> Option<Time> {
        self.heard_at
    }

    /// The smoothed round trip to it.
    pub fn round_trip(&self) -> Option<Duration> {
        self.round_trip.map(RoundTrip::smoothed)
    }

    /// How long to wait for its answer.
    pub fn timeout(&self) -> Option<Duration> {
        self.round_trip.map(RoundTrip::timeout)
    }
}

/// Whom one member knows.
#[derive(Clone, Debug)]
pub struct Directory {
    me: MemberId,
    config: Config,
    known: BTreeMap<MemberId, Known>,
    /// Forgotten or left members, with the sequence number that is no longer believed.
    gone: BTreeMap<MemberId, u64>,
    /// The members of the last handoffs, oldest first.
    partners: VecDeque<MemberId>,
    rng: Rng,
}

impl Directory {
    /// A member that knows nobody.
    pub fn new(me: MemberId, config: Config, rng: Rng) -> Self {
        Self { me, config, known: BTreeMap::new(), gone: BTreeMap::new(), partners: VecDeque::new(), rng }
    }

    /// Takes in an entry whose signatures were checked. A full view lets a newcomer in half of the time: so views keep
    /// mixing, and stay random parts of the circle.
    pub fn learn(&mut self, entry: Entry) -> Learned {
        let has_room = self.known.len() < self.config.view || self.rng.below(2) == 0;
        self.insert(entry, has_room)
    }

    /// Takes in an entry of a member that is to be spoken to, also if the view is full.
    pub fn let_in(&mut self, entry: Entry) -> Learned {
        self.insert(entry, true)
    }

    fn insert(&mut self, entry: Entry, has_room: bool) -> Learned {
        let member = entry.record.member;
        let sequence = entry.record.sequence;
        if member == self.me || self.gone.get(&member).is_some_and(|gone| sequence <= *gone) {
            return Learned::Nothing;
        }
        if let Some(known) = self.known.get_mut(&member) {
            if sequence <= known.entry.record.sequence {
                return Learned::Nothing;
            }
            known.entry = entry;
            known.failures = 0;
            known.suspected_since = None;
            return Learned::Moved;
        }
        if !has_room || !self.make_room() {
            return Learned::Nothing;
        }
        self.gone.remove(&member);
        let known = Known {
            entry,
            failures: 0,
            suspected_since: None,
            heard_at: None,
            round_trip: None,
            clock_offset_ms: None,
            waits_since: None,
            is_idle: false,
        };
        self.known.insert(member, known);
        Learned::New
    }

    /// A token is handed to this member, or comes from it: its place in a full view is kept for a while, because the handoff has
    /// several steps, and both ask each other later what became of the token.
    pub fn handed(&mut self, member: MemberId) {
        self.partners.retain(|partner| *partner != member);
        self.partners.push_back(member);
        if self.partners.len() > PARTNERS.min(self.config.view / 2) {
            self.partners.pop_front();
        }
    }

    /// In a full view a newcomer takes the place of a suspected member, or of any that took no part in the last handoffs.
    /// False for a view of nobody.
    fn make_room(&mut self) -> bool {
        if self.known.len() < self.config.view {
            return true;
        }
        if self.config.view == 0 {
            return false;
        }
        let suspected = self.known.iter().find(|(_, known)| known.is_suspected()).map(|(member, _)| *member);
        let any = || {
            let others = self.known.keys().filter(|member| !self.partners.contains(member));
            let others: Vec<MemberId> = others.copied().collect();
            others.get(self.rng.below(others.len().max(1))).copied()
        };
        suspected.or_else(any).is_some_and(|member| self.known.remove(&member).is_some())
    }

    /// The member itself spoke, and (if it was an answer) this was the round trip. Smoothed as TCP does.
    pub fn heard_from(&mut self, member: MemberId, round_trip: Option<Duration>, now: Time) {
        let Some(known) = self.known.get_mut(&member) else { return };
        known.failures = 0;
        known.suspected_since = None;
        known.heard_at = Some(now);
        if let Some(round_trip) = round_trip {
            RoundTrip::measure(&mut known.round_trip, round_trip);
        }
    }

    /// The member has just answered a question of ours: whatever was believed of it, it is there, and its record is believed
    /// again. What others say of it, or what may be a replay, does not bring anybody back.
    pub fn is_alive(&mut self, member: MemberId) {
        self.gone.remove(&member);
    }

    /// The member told its wall clock.
    pub fn saw_clock(&mut self, member: MemberId, offset_ms: i64) {
        if let Some(known) = self.known.get_mut(&member) {
            known.clock_offset_ms = Some(offset_ms);
        }
    }

    /// The member told how long ago its last slot began, if it had one, and whether it would use another.
    pub fn saw_wait(&mut self, member: MemberId, waited: Option<Duration>, has_work: bool, now: Time) {
        if let Some(known) = self.known.get_mut(&member) {
            known.waits_since = waited.filter(|_| has_work).map(|waited| now - waited);
            known.is_idle = !has_work;
        }
    }

    /// The member announced that it has something to pull.
    pub fn saw_demand(&mut self, member: MemberId) {
        if let Some(known) = self.known.get_mut(&member) {
            known.is_idle = false;
        }
    }

    /// How many of the known members can want a slot; `None` if there may be members that are not known.
    pub fn can_want(&self) -> Option<usize> {
        let is_complete = self.known.len() < self.config.view;
        is_complete.then(|| self.known.values().filter(|known| known.can_want()).count())
    }

    /// The member did not answer.
    pub fn failed(&mut self, member: MemberId, now: Time) {
        let patience = self.config.patience;
        let Some(known) = self.known.get_mut(&member) else { return };
        known.failures = known.failures.saturating_add(1);
        if known.failures >= patience && known.suspected_since.is_none() {
            known.suspected_since = Some(now);
        }
    }

    /// The member said goodbye, when this was its newest record. If it has a newer one, it has come back since.
    pub fn leave(&mut self, member: MemberId, sequence: u64) {
        if self.known.get(&member).is_some_and(|known| known.entry.record.sequence <= sequence) {
            self.remove(member);
        }
    }

    /// The member is to be forgotten.
    pub fn remove(&mut self, member: MemberId) {
        if let Some(known) = self.known.remove(&member) {
            self.bury(member, known.entry.record.sequence);
        }
    }

    /// Forgets who was suspected for long; gives where they were, for they may only have been cut off.
    pub fn forget_silent(&mut self, now: Time) -> Vec<SocketAddr> {
        let forget_after = self.config.forget_after;
        let is_due =
            |known: &Known| known.suspected_since.is_some_and(|since| now.since(since) >= forget_after);
        let silent: Vec<MemberId> =
            self.known.iter().filter(|(_, known)| is_due(known)).map(|(member, _)| *member).collect();
        let places = silent.iter().filter_map(|member| self.address(*member)).collect();
        for member in silent {
            self.remove(member);
        }
        places
    }

    fn bury(&mut self, member: MemberId, sequence: u64) {
        if self.gone.len() >= TOMBSTONES {
            self.gone.pop_first();
        }
        self.gone.insert(member, sequence);
    }

    /// Removes all whose certificate does not pass; gives them.
    pub fn retain(&mut self, is_welcome: impl Fn(&Certificate) -> bool) -> Vec<MemberId> {
        let out: Vec<MemberId> = self
            .known
            .iter()
            .filter(|(_, known)| !is_welcome(&known.entry.certificate))
            .map(|(member, _)| *member)
            .collect();
        for member in &out {
            self.remove(*member);
        }
        out
    }

    /// Up to `count` different members, suspected ones only where there are not enough others.
    pub fn draw(&mut self, count: usize) -> Vec<MemberId> {
        let (mut drawn, mut suspected): (Vec<MemberId>, Vec<MemberId>) = (Vec::new(), Vec::new());
        for (member, known) in &self.known {
            if known.is_suspected() { suspected.push(*member) } else { drawn.push(*member) }
        }
        self.shuffle(&mut drawn);
        self.shuffle(&mut suspected);
        drawn.extend(suspected);
        drawn.truncate(count);
        drawn
    }

    /// Up to `count` different members to ask, and among them one that is suspected, if there is one: two parts of a circle
    /// that were cut off from each other must find out that they no longer are.
    pub fn draw_to_ask(&mut self, count: usize) -> Vec<MemberId> {
        let mut drawn = self.draw(count);
        let mut suspected: Vec<MemberId> =
            self.known.iter().filter(|(_, known)| known.is_suspected()).map(|(member, _)| *member).collect();
        self.shuffle(&mut suspected);
        if let Some(member) = suspected.first()
            && !drawn.contains(member)
            && let Some(last) = drawn.last_mut()
        {
            *last = *member;
        }
        drawn
    }

    /// Up to `count` entries to tell others of; nobody who is suspected.
    pub fn sample(&mut self, count: usize) -> Vec<Entry> {
        let drawn = self.draw(count);
        let entry = |member: &MemberId| self.known.get(member).filter(|known| !known.is_suspected());
        drawn.iter().filter_map(entry).map(|known| known.entry.clone()).collect()
    }

    fn shuffle(&mut self, members: &mut [MemberId]) {
        for i in (1..members.len()).rev() {
            members.swap(i, self.rng.below(i + 1));
        }
    }

    /// What is known of a member.
    pub fn get(&self, member: MemberId) -> Option<&Known> {
        self.known.get(&member)
    }

    /// Where a member is.
    pub fn address(&self, member: MemberId) -> Option<SocketAddr> {
        self.known.get(&member).map(|known| known.entry.record.address)
    }

    /// Whether somebody who answers is known at this address.
    pub fn has_somebody_at(&self, address: SocketAddr) -> bool {
        self.known.values().any(|known| known.entry.record.address == address && !known.is_suspected())
    }

    /// Everyone who is known.
    pub fn iter(&self) -> impl Iterator<Item = (MemberId, &Known)> {
        self.known.iter().map(|(member, known)| (*member, known))
    }

    /// How many are known.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether nobody is known.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::base::CircleId;
    use crate::base::Rng;
    use crate::wire::records::AddressRecord;

    fn member(n: u8) -> MemberId {
        MemberId::from_bytes([n; 16])
    }

    fn entry(n: u8, sequence: u64, port: u16) -> Entry {
        let circle = CircleId::from_bytes([9; 16]);
        Entry {
            record: AddressRecord {
                circle,
                member: member(n),
                sequence,
                address: SocketAddr::from(([127, 0, 0, 1], port)),
                signature: [0; 64],
            },
            certificate: Certificate {
                circle,
                serial: n.into(),
                not_before_s: 0,
                not_after_s: u64::MAX,
                key: [n; 32],
                name: format!("lab-{n}"),
                signature: [0; 64],
            },
        }
    }

    fn directory(view: usize) -> Directory {
        Directory::new(member(0), Config { view, ..Config::default() }, Rng::seeded(1))
    }

    fn at(seconds: u64) -> Time {
        Time::from_secs(seconds)
    }

    #[test]
    fn a_newer_record_moves_a_member_and_an_older_one_does_not() {
        let mut directory = directory(8);
        assert_eq!(directory.learn(entry(1, 5, 1000)), Learned::New);
        assert_eq!(directory.learn(entry(1, 5, 2000)), Learned::Nothing);
        assert_eq!(directory.learn(entry(1, 4, 2000)), Learned::Nothing);
        assert_eq!(directory.address(member(1)).unwrap().port(), 1000);
        assert_eq!(directory.learn(entry(1, 6, 2000)), Learned::Moved);
        assert_eq!(directory.address(member(1)).unwrap().port(), 2000);
    }

    #[test]
    fn nobody_is_in_its_own_directory() {
        let mut directory = directory(8);
        assert_eq!(directory.learn(entry(0, 5, 1000)), Learned::Nothing);
        assert!(directory.is_empty());
    }

    #[test]
    fn silence_leads_to_suspicion_and_then_to_oblivion() {
        let mut directory = directory(8);
        directory.learn(entry(1, 5, 1000));
        directory.learn(entry(2, 5, 1000));
        for _ in 0..3 {
            assert!(!directory.get(member(1)).unwrap().is_suspected());
            directory.failed(member(1), at(10));
        }
        assert!(directory.get(member(1)).unwrap().is_suspected());
        assert_eq!(directory.draw(1), [member(2)], "others first");
        assert_eq!(directory.draw(2).len(), 2, "but better than nobody");
        assert_eq!(directory.sample(2).len(), 1, "and not recommended");
        assert_eq!(directory.forget_silent(at(609)), []);
        assert_eq!(directory.forget_silent(at(610)), [SocketAddr::from(([127, 0, 0, 1], 1000))]);
        assert_eq!(
            directory.learn(entry(1, 5, 1000)),
            Learned::Nothing,
            "an old record does not bring it back"
        );
        assert_eq!(directory.learn(entry(1, 6, 1000)), Learned::New, "a newer one does");
    }

    #[test]
    fn one_suspected_member_is_always_among_the_asked() {
        let mut directory = directory(32);
        for n in 1..=20 {
            directory.learn(entry(n, 5, 1000));
        }
        (0..3).for_each(|_| directory.failed(member(7), at(10)));
        for _ in 0..20 {
            let asked = directory.draw_to_ask(8);
            assert_eq!(asked.len(), 8);
            assert!(asked.contains(&member(7)));
            assert!(!directory.draw(8).contains(&member(7)), "but nothing is handed to it");
        }
    }

    #[test]
    fn a_word_of_its_own_ends_suspicion() {
        let mut directory = directory(8);
        directory.learn(entry(1, 5, 1000));
        (0..3).for_each(|_| directory.failed(member(1), at(10)));
        directory.heard_from(member(1), Some(Duration::from_millis(80)), at(11));
        let known = directory.get(member(1)).unwrap();
        assert!(!known.is_suspected());
        assert_eq!((known.heard_at(), known.round_trip()), (Some(at(11)), Some(Duration::from_millis(80))));
        directory.heard_from(member(1), Some(Duration::from_millis(160)), at(12));
        assert_eq!(directory.get(member(1)).unwrap().round_trip(), Some(Duration::from_millis(90)));
    }

    #[test]
    fn who_answers_is_believed_again_whatever_was_forgotten() {
        let mut directory = directory(8);
        for n in [1, 2] {
            directory.learn(entry(n, 5, 1000));
            directory.remove(member(n));
        }
        directory.is_alive(member(1));
        assert!(directory.is_empty(), "that it is alive does not say where");
        assert_eq!(directory.learn(entry(1, 5, 1000)), Learned::New, "its old record does");
        assert_eq!(directory.learn(entry(2, 5, 1000)), Learned::Nothing, "the other one has not answered");
        directory.is_alive(member(1));
        assert_eq!(directory.draw(9), [member(1)], "who is known stays as it is");
        directory.leave(member(1), 5);
        assert_eq!(directory.learn(entry(1, 5, 1000)), Learned::Nothing, "it is not believed for ever");
    }

    #[test]
    fn who_left_is_gone_until_it_says_otherwise() {
        let mut directory = directory(8);
        directory.learn(entry(1, 5, 1000));
        directory.leave(member(1), 4);
        assert_eq!(directory.draw(9), [member(1)], "a goodbye of an earlier life");
        directory.leave(member(1), 5);
        assert_eq!(directory.draw(9), []);
        assert_eq!(directory.learn(entry(1, 5, 1000)), Learned::Nothing);
    }

    #[test]
    fn a_full_view_keeps_mixing_and_stays_bounded() {
        let mut directory = directory(4);
        for n in 1..=100 {
            directory.learn(entry(n, 1, 1000));
            assert!(directory.len() <= 4);
        }
        assert!(directory.iter().any(|(id, _)| id > member(4)), "newcomers get in");
    }

    #[test]
    fn members_of_the_last_handoffs_keep_their_place_in_a_full_view() {
        let mut directory = directory(8);
        (1..=8).for_each(|n| {
            directory.learn(entry(n, 1, 1000));
        });
        (1..=5).for_each(|n| directory.handed(member(n)));
        for n in 9..=100 {
            directory.let_in(entry(n, 1, 1000));
            assert_eq!(directory.len(), 8);
        }
        let kept: Vec<bool> = (1..=5).map(|n| directory.get(member(n)).is_some()).collect();
        assert_eq!(kept, [false, true, true, true, true], "half of the view at most");
    }

    #[test]
    fn banned_members_are_removed() {
        let mut directory = directory(8);
        (1..5).for_each(|n| {
            directory.learn(entry(n, 1, 1000));
        });
        assert_eq!(directory.retain(|certificate| certificate.serial != 3), [member(3)]);
        assert_eq!(directory.len(), 3);
    }

    #[test]
    fn draws_are_even() {
        let mut directory = directory(8);
        (1..=8).for_each(|n| {
            directory.learn(entry(n, 1, 1000));
        });
        let mut count = [0_u32; 9];
        for _ in 0..8000 {
            let drawn = directory.draw(1);
            count[usize::from(drawn[0].as_bytes()[0])] += 1;
        }
        assert!(count[1..].iter().all(|n| (850..1150).contains(n)), "{count:?}");
    }

    proptest! {
        #[test]
        fn any_sequence_keeps_the_bounds(steps in prop::collection::vec((0..6_u8, 0..12_u8, 0..9_u64), 0..200)) {
            let mut directory = directory(5);
            for (now, (what, n, sequence)) in steps.into_iter().enumerate() {
                let now = at(now as u64 * 100);
                match what {
                    0 | 1 => { directory.learn(entry(n, sequence, 1000)); }
                    2 => directory.failed(member(n), now),
                    3 => directory.heard_from(member(n), None, now),
                    4 => directory.remove(member(n)),
                    _ => { directory.forget_silent(now); }
                }
                prop_assert!(directory.len() <= 5);
                let drawn = directory.draw(9);
                prop_assert_eq!(drawn.len(), directory.len());
                prop_assert!(!drawn.contains(&member(0)));
            }
        }
    }
}
