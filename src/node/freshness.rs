//! Which questions are new: what was recorded and is said again later gets no answer.
//!
//! A question bears a number that is higher than those of all questions that its sender asked before, in earlier runs
//! too. Whoever is asked remembers the last one of each member; what is not above it is a copy, or was overtaken on its
//! way. Answers need no numbers: each repeats the nonce of a question that is open. `admission` asks here.
//!
//! After a restart the last numbers are forgotten; then the address record, which is saved, still tells apart the runs of a
//! sender. What remains to whoever records is one answer, no longer than the question, to each question of the
//! sender's present run, and it makes nobody look alive: only answers do that.

use std::collections::BTreeMap;

use crate::base::MemberId;

/// Members whose last question is remembered. Beyond, the one that asked longest ago is forgotten.
const ASKERS: usize = 1024;

/// The last question of every member.
#[derive(Debug, Default)]
pub(super) struct LastQuestions(BTreeMap<MemberId, u64>);

impl LastQuestions {
    /// Whether a question with this number is newer than all that this member was heard to ask.
    pub(super) fn is_new(&self, member: MemberId, sequence: u64) -> bool {
        self.0.get(&member).is_none_or(|last| sequence > *last)
    }

    /// Remembers a question whose signature was good.
    pub(super) fn note(&mut self, member: MemberId, sequence: u64) {
        if !self.0.contains_key(&member) && self.0.len() >= ASKERS {
            // Numbers begin with the clock of a member's start, so the lowest one is the oldest.
            let oldest = self.0.iter().min_by_key(|(_, sequence)| **sequence).map(|(member, _)| *member);
            oldest.map(|member| self.0.remove(&member));
        }
        let last = self.0.entry(member).or_default();
        *last = sequence.max(*last);
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
        assert!(!last.is_new(member(1), 5) && !last.is_new(member(1), 4) && last.is_new(member(1), 6));
        assert!(last.is_new(member(2), 1), "others have their own numbers");
        last.note(member(1), 3);
        assert!(!last.is_new(member(1), 5), "nothing is taken back");
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
