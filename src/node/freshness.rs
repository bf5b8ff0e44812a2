//! Which questions are new: what was recorded and is said again later gets no answer.
//!
//! A question bears a number that is higher than those of all questions that its sender asked before, in earlier runs
//! too. Whoever is asked remembers the last ones of each member: what is among them is a copy, and what is below them all
//! was recorded or came much too late. Those in between were overtaken on their way, as happens to what is said at one
//! moment: in a ring of tickets that is a lot. They are answered, but what they tell of tokens is not asked for. Answers need no
//! numbers: each repeats the nonce of a question that is open. `admission` asks here, and `hearing`.
//!
//! After a restart the last numbers are forgotten; then the address record, which is saved, still tells apart the runs of a
//! sender. What remains to whoever records is one answer, no longer than the question, to each question of the
//! sender's present run, and it makes nobody look alive: only answers do that. Nor is anything believed that a question tells
//! of tokens: a new number shows that it was not heard before, not when it was said. `hearing` asks its sender for a proof.

use std::collections::BTreeMap;

use crate::base::MemberId;

/// Members whose last questions are remembered. Beyond, the one that asked longest ago is forgotten.
const ASKERS: usize = 1024;

/// So many of each: more than one member says to another while a datagram is on its way.
const REMEMBERED: usize = 16;

/// The last questions of every member, in order.
#[derive(Debug, Default)]
pub(super) struct LastQuestions(BTreeMap<MemberId, Vec<u64>>);

impl LastQuestions {
    /// Whether a question with this number was not heard before, and is newer than all that this member asked long ago.
    pub(super) fn is_new(&self, member: MemberId, sequence: u64) -> bool {
        self.0.get(&member).is_none_or(|last| {
            let is_recent = last.len() < REMEMBERED || last.first().is_some_and(|first| sequence > *first);
            is_recent && last.binary_search(&sequence).is_err()
        })
    }

    /// Whether this one, which was heard, is newer than all others: nothing that was said since has come before it.
    pub(super) fn is_newest(&self, member: MemberId, sequence: u64) -> bool {
        self.0.get(&member).and_then(|last| last.last()).is_none_or(|last| *last <= sequence)
    }

    /// Remembers a question whose signature was good.
    pub(super) fn note(&mut self, member: MemberId, sequence: u64) {
        if !self.0.contains_key(&member) && self.0.len() >= ASKERS {
            // Numbers begin with the clock of a member's start, so the lowest one is the oldest.
            let oldest =
                self.0.iter().min_by_key(|(_, last)| last.last().copied()).map(|(member, _)| *member);
            oldest.map(|member| self.0.remove(&member));
        }
        let last = self.0.entry(member).or_default();
        if let Err(place) = last.binary_search(&sequence) {
            last.insert(place, sequence);
        }
        if last.len() > REMEMBERED {
            last.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(n: u16) -> MemberId {
        let mut bytes = [0; 16];
        bytes[..2].copy_from_slice(&n.to_be_bytes());
        MemberId::from_bytes(bytes)
    }

    #[test]
    fn a_number_is_new_once() {
        let mut last = LastQuestions::default();
        assert!(last.is_new(member(1), 0), "from somebody who never asked, any is");
        last.note(member(1), 5);
        assert!(!last.is_new(member(1), 5) && last.is_new(member(1), 6));
        assert!(last.is_new(member(2), 1), "others have their own numbers");
        last.note(member(1), 3);
        assert!(!last.is_new(member(1), 5) && !last.is_new(member(1), 3), "nothing is taken back");
    }

    #[test]
    fn who_was_overtaken_by_a_few_is_heard_and_who_comes_much_too_late_is_not() {
        let mut last = LastQuestions::default();
        for sequence in (0..2 * REMEMBERED as u64).filter(|sequence| *sequence != 20) {
            last.note(member(1), sequence);
        }
        assert!(last.is_new(member(1), 20));
        last.note(member(1), 20);
        assert!(!last.is_new(member(1), 20), "once");
        assert!(!last.is_new(member(1), 3), "it was heard, though it is not remembered");
    }

    #[test]
    fn who_was_overtaken_is_heard_but_is_not_the_newest() {
        let mut last = LastQuestions::default();
        for sequence in [5, 9, 7] {
            last.note(member(1), sequence);
            assert_eq!(last.is_newest(member(1), sequence), sequence != 7);
        }
        last.note(member(2), 3);
        assert!(
            last.is_newest(member(2), 3) && last.is_newest(member(1), 9),
            "others have their own numbers"
        );
    }

    #[test]
    fn who_asked_longest_ago_makes_room() {
        let mut last = LastQuestions::default();
        for n in 0..5000 {
            last.note(member(n), u64::from(n) + 1);
        }
        assert_eq!(last.0.len(), ASKERS);
        assert!(!last.is_new(member(4999), 5000));
        assert!(last.is_new(member(0), 1));
    }
}
