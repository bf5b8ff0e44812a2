//! Scouting: the holder asks some members how long they have waited, and hands off to the one that waited longest.

use std::cmp::Reverse;
use std::time::Duration;

use crate::base::{MemberId, Time};

/// A member that answered, and what it said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Candidate {
    member: MemberId,
    has_work: bool,
    /// How long ago its last slot began; longest for one that never had a slot.
    waited: Duration,
    round_trip: Duration,
    /// Decides between equals. Without it the nearest, who answers first, would be visited most.
    lot: u64,
}

/// The answers to one round of scouting. Lives as long as the token is here.
#[derive(Clone, Debug, Default)]
pub(super) struct Candidates {
    asked_at: Option<Time>,
    /// The best first.
    ranked: Vec<Candidate>,
    /// Members that were asked because of a demand, and when.
    invited: Vec<(MemberId, Time)>,
}

impl Candidates {
    pub(super) fn ask(&mut self, now: Time) {
        self.asked_at = Some(now);
        self.ranked.clear();
        self.invited.clear();
    }

    /// True if this member is to be asked as well, because of a demand: once in a round, and only so many.
    pub(super) fn invite(&mut self, member: MemberId, limit: usize, now: Time) -> bool {
        let has_answered = self.ranked.iter().any(|known| known.member == member && known.has_work);
        let is_invited = self.invited.iter().any(|&(known, _)| known == member);
        let is_new = !has_answered && !is_invited && self.invited.len() < limit;
        if is_new {
            self.invited.push((member, now));
        }
        is_new
    }

    /// A report came. Answers to nothing, and second answers, are ignored; at most `limit` are kept.
    pub(super) fn add(
        &mut self,
        member: MemberId,
        has_work: bool,
        waited: Option<Duration>,
        limit: usize,
        now: Time,
    ) {
        let Some(asked_at) = self.asked_at else { return };
        let invited_at = self.invited.iter().find(|(known, _)| *known == member).map(|&(_, at)| at);
        if invited_at.is_some() {
            // Its first answer may be from before it had work.
            self.drop_unreachable(member);
        }
        let is_full = self.ranked.len() >= limit + self.invited.len();
        if is_full || self.ranked.iter().any(|known| known.member == member) {
            return;
        }
        let waited = waited.unwrap_or(Duration::MAX);
        let candidate = Candidate {
            member,
            has_work,
            waited,
            round_trip: now.since(invited_at.unwrap_or(asked_at)),
            lot: lot(member, asked_at),
        };
        let rank = |candidate: &Candidate| Reverse((candidate.has_work, candidate.waited, candidate.lot));
        let place = self.ranked.partition_point(|known| rank(known) <= rank(&candidate));
        self.ranked.insert(place, candidate);
    }

    pub(super) fn best(&self) -> Option<MemberId> {
        self.ranked.first().map(|candidate| candidate.member)
    }

    /// True if a member with work has answered.
    pub(super) fn has_waiting(&self) -> bool {
        self.ranked.first().is_some_and(|candidate| candidate.has_work)
    }

    /// How long it takes to hear from the best one; nothing is known of anyone else.
    pub(super) fn round_trip(&self) -> Duration {
        self.ranked.first().map_or(Duration::ZERO, |candidate| candidate.round_trip)
    }

    /// This one could not be reached after all.
    pub(super) fn drop_unreachable(&mut self, member: MemberId) {
        self.ranked.retain(|candidate| candidate.member != member);
    }
}

/// A number that is another one for every member and every round, and nobody's choice. Not secret: a member could only win
/// visits in which there is nothing to pull.
fn lot(member: MemberId, asked_at: Time) -> u64 {
    let mixed = member.as_bytes().iter().fold(asked_at.as_nanos().cast_unsigned(), |mixed, byte| {
        (mixed ^ u64::from(*byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    });
    mixed ^ (mixed >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(n: u8) -> MemberId {
        MemberId::from_bytes([n; 16])
    }

    fn candidates(reports: &[(u8, bool, Option<u64>)]) -> Candidates {
        let mut candidates = Candidates::default();
        candidates.ask(Time::ZERO);
        for &(n, has_work, waited) in reports {
            candidates.add(member(n), has_work, waited.map(Duration::from_secs), 8, Time::from_secs(1));
        }
        candidates
    }

    #[test]
    fn the_one_that_waited_longest_is_best() {
        assert_eq!(
            candidates(&[(1, true, Some(5)), (2, true, Some(9)), (3, true, Some(7))]).best(),
            Some(member(2))
        );
    }

    #[test]
    fn one_that_never_had_a_slot_comes_first_and_one_without_work_last() {
        assert_eq!(candidates(&[(1, true, Some(5)), (2, true, None)]).best(), Some(member(2)));
        assert_eq!(candidates(&[(1, false, None), (2, true, Some(1))]).best(), Some(member(2)));
        assert_eq!(candidates(&[(1, false, None)]).best(), Some(member(1)), "better than a blind choice");
    }

    #[test]
    fn among_equals_everybody_wins_now_and_then_whoever_answers_first() {
        let mut wins = [0; 4];
        for round in 0..400 {
            let mut candidates = Candidates::default();
            let asked_at = Time::from_secs(round);
            candidates.ask(asked_at);
            for n in 0..4 {
                candidates.add(member(n), false, None, 8, asked_at);
            }
            let best = candidates.best().expect("somebody answered");
            wins[usize::from(best.as_bytes()[0])] += 1;
        }
        assert!(wins.iter().all(|wins| (60..=140).contains(wins)), "{wins:?}");
    }

    #[test]
    fn an_unreachable_one_makes_room_for_the_next() {
        let mut candidates = candidates(&[(1, true, Some(5)), (2, true, Some(9))]);
        candidates.drop_unreachable(member(2));
        assert_eq!(candidates.best(), Some(member(1)));
    }

    #[test]
    fn nobody_is_believed_twice_nor_unasked_nor_beyond_the_limit() {
        let again = candidates(&[(1, true, Some(5)), (2, true, Some(6)), (1, true, None)]);
        assert_eq!(again.best(), Some(member(2)));
        let mut unasked = Candidates::default();
        unasked.add(member(1), true, None, 8, Time::ZERO);
        assert_eq!(unasked.best(), None);
        let mut full = Candidates::default();
        full.ask(Time::ZERO);
        for n in 0..9 {
            full.add(member(n), true, Some(Duration::from_secs(n.into())), 8, Time::ZERO);
        }
        assert_eq!(full.best(), Some(member(7)));
    }

    #[test]
    fn the_round_trip_is_that_of_the_best() {
        assert_eq!(candidates(&[(1, true, Some(5))]).round_trip(), Duration::from_secs(1));
        assert_eq!(candidates(&[]).round_trip(), Duration::ZERO);
    }
}
