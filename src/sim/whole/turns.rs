//! Books of slots over time: how long two tokens are in use at once, whether each slot ends by its deadline, how soon a lost token
//! is replaced, and whether all members get their turns.
//!
//! Two tokens at once, and none for a while, are no broken promise by themselves: the circle cannot know at once that a token
//! is lost or that there are two. Both are measured, and bounded where nothing goes wrong any more.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::base::{Time, TokenId};

use super::violation::Violation;

/// One slot of a member.
#[derive(Clone, Copy, Debug)]
struct Turn {
    token: TokenId,
    until: Time,
    /// The member stands still, and reads nothing.
    is_frozen: bool,
}

/// How much of each there may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// How long a member may take to stop.
    pub(super) stop_within: Duration,
    /// How long two tokens may be in use after the faults are over.
    pub(super) two_tokens: Duration,
    /// How many slots others may have between two of one member with work.
    pub(super) overtaken: usize,
    /// How long there may be no token if no member crashes, stands still or is cut off meanwhile.
    pub(super) recovery: Duration,
}

/// What was measured.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    /// How long two different tokens were in use.
    pub(super) two_tokens: Duration,
    /// How long there was no token, for each time that one was lost and replaced.
    pub(super) recoveries: Vec<Duration>,
    /// The most slots of others between two of one member after the faults are over, in multiples of the number of members
    /// with work.
    pub(super) most_overtaken: f64,
}

/// The books.
#[derive(Debug)]
pub(super) struct Turns {
    limits: Limits,
    running: BTreeMap<usize, Turn>,
    looked_at: Time,
    two_tokens_in_peace: Duration,
    tokenless_since: Option<Time>,
    /// When something happened last that makes members wait anew.
    disturbed_at: Time,
    /// For each member with work: how many slots others had since its last one.
    overtaken: BTreeMap<usize, usize>,
    measured: Measured,
    violations: Vec<Violation>,
}

impl Turns {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            running: BTreeMap::new(),
            looked_at: Time::ZERO,
            two_tokens_in_peace: Duration::ZERO,
            tokenless_since: None,
            disturbed_at: Time::ZERO,
            overtaken: BTreeMap::new(),
            measured: Measured::default(),
            violations: Vec::new(),
        }
    }

    /// What was measured, and what was broken since this was asked last.
    pub(super) fn measured(&self) -> &Measured {
        &self.measured
    }

    pub(super) fn take_violations(&mut self) -> Vec<Violation> {
        std::mem::take(&mut self.violations)
    }

    // --- slots ------------------------------------------------------------------------------------------------

    pub(super) fn began(&mut self, member: usize, token: TokenId, until: Time) {
        self.running.insert(member, Turn { token, until, is_frozen: false });
        if let Some(&others) = self.overtaken.get(&member) {
            self.note_overtaken(others);
            self.overtaken.values_mut().for_each(|others| *others += 1);
            self.overtaken.insert(member, 0);
        }
    }

    pub(super) fn ended(&mut self, member: usize, at: Time) {
        self.check_deadlines(at);
        self.running.remove(&member);
    }

    /// The member stands still, or goes on. Then it has to stop at once if it should have stopped meanwhile.
    pub(super) fn frozen(&mut self, member: usize, is_frozen: bool, at: Time) {
        if let Some(turn) = self.running.get_mut(&member) {
            turn.is_frozen = is_frozen;
            turn.until = turn.until.max(at);
        }
        self.disturbed(at);
    }

    fn check_deadlines(&mut self, at: Time) {
        let stop_within = self.limits.stop_within;
        for (&member, turn) in &mut self.running {
            if !turn.is_frozen && at > turn.until + stop_within {
                self.violations.push(Violation::SlotOverran { at, member, until: turn.until });
                // Once is enough.
                turn.until = Time::ZERO + Duration::MAX;
            }
        }
    }

    // --- tokens -----------------------------------------------------------------------------------------------

    /// A member crashed or came back, stood still or goes on, or the network was cut or joined: whoever waits may wait anew.
    pub(super) fn disturbed(&mut self, at: Time) {
        self.disturbed_at = at;
    }

    /// Time has passed until now, and so many tokens are alive from now on.
    /// Who is no member any more, and may not know it, uses whatever it has.
    pub(super) fn look(
        &mut self,
        tokens_alive: usize,
        is_peace: bool,
        is_outsider: impl Fn(usize) -> bool,
        at: Time,
    ) {
        let span = at.since(self.looked_at);
        self.looked_at = at;
        if !span.is_zero() {
            self.check_deadlines(at);
            self.count_two_tokens(span, is_peace, is_outsider, at);
        }
        match self.tokenless_since {
            None if tokens_alive == 0 => self.tokenless_since = Some(at),
            Some(since) if tokens_alive > 0 => {
                self.measured.recoveries.push(at.since(since));
                self.tokenless_since = None;
            }
            Some(since) if at.since(since.max(self.disturbed_at)) > self.limits.recovery => {
                self.violations.push(Violation::NotRecovered { at, since });
                self.disturbed_at = Time::ZERO + Duration::MAX;
            }
            _ => {}
        }
    }

    fn count_two_tokens(
        &mut self,
        span: Duration,
        is_peace: bool,
        is_outsider: impl Fn(usize) -> bool,
        at: Time,
    ) {
        let counts = |(member, turn): &(&usize, &Turn)| !turn.is_frozen && !is_outsider(**member);
        let mut in_use = self.running.iter().filter(counts).map(|(_, turn)| turn.token);
        let first = in_use.next();
        if !in_use.any(|token| Some(token) != first) {
            return;
        }
        self.measured.two_tokens += span;
        if is_peace {
            let before = self.two_tokens_in_peace;
            self.two_tokens_in_peace += span;
            if before <= self.limits.two_tokens && self.two_tokens_in_peace > self.limits.two_tokens {
                self.violations.push(Violation::TwoTokensInUse { at, lasted: self.two_tokens_in_peace });
            }
        }
    }

    fn note_overtaken(&mut self, others: usize) {
        let relative = others as f64 / self.overtaken.len() as f64;
        self.measured.most_overtaken = self.measured.most_overtaken.max(relative);
    }

    // --- fairness ---------------------------------------------------------------------------------------------

    /// From now on these members, which all have work, are to get their turns.
    pub(super) fn count_turns_of(&mut self, members: impl Iterator<Item = usize>) {
        self.overtaken = members.map(|member| (member, 0)).collect();
    }

    /// Who was overtaken too often, at the end.
    pub(super) fn check_fairness(&mut self, at: Time) {
        let limit = self.limits.overtaken;
        for (&member, &others) in &self.overtaken.clone() {
            self.note_overtaken(others);
            if others > limit {
                self.violations.push(Violation::Starved { at, member, others });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::MemberId;

    const SECOND: Duration = Duration::from_secs(1);

    fn turns() -> Turns {
        Turns::new(Limits {
            stop_within: Duration::from_millis(20),
            two_tokens: 3 * SECOND,
            recovery: 60 * SECOND,
            overtaken: 15,
        })
    }

    fn token(n: u64) -> TokenId {
        TokenId { created_ms: n, generator: MemberId::from_bytes([1; 16]), random: 0 }
    }

    fn at(seconds: f64) -> Time {
        Time::ZERO + Duration::from_secs_f64(seconds)
    }

    /// The first members pull by these tokens for so many seconds of peace; what the checker says.
    fn together(tokens: &[u64], seconds: f64) -> (Duration, Vec<Violation>) {
        let mut turns = turns();
        for (member, n) in tokens.iter().enumerate() {
            turns.began(member, token(*n), at(1e6));
        }
        turns.look(1, true, |member| member == 9, at(seconds / 2.0));
        turns.look(1, true, |member| member == 9, at(seconds));
        (turns.measured().two_tokens, turns.take_violations())
    }

    #[test]
    fn two_different_tokens_in_use_are_measured_and_bounded() {
        assert_eq!(together(&[1], 9.0), (Duration::ZERO, vec![]));
        assert_eq!(together(&[1, 1], 9.0), (Duration::ZERO, vec![]), "one token twice is another checker's");
        assert_eq!(together(&[1, 2], 2.0), (2 * SECOND, vec![]));
        let lasted = 4 * SECOND;
        assert_eq!(together(&[1, 2], 4.0), (lasted, vec![Violation::TwoTokensInUse { at: at(4.0), lasted }]));
    }

    #[test]
    fn two_tokens_are_not_bounded_while_things_go_wrong_and_a_frozen_member_uses_none() {
        let mut turns = turns();
        turns.began(0, token(1), at(1e6));
        turns.began(1, token(2), at(1e6));
        turns.look(2, false, |member| member == 9, at(100.0));
        assert_eq!((turns.measured().two_tokens, turns.take_violations()), (100 * SECOND, vec![]));
        turns.frozen(1, true, at(100.0));
        turns.look(2, true, |member| member == 9, at(200.0));
        assert_eq!((turns.measured().two_tokens, turns.take_violations()), (100 * SECOND, vec![]));
    }

    #[test]
    fn a_token_that_an_outsider_uses_does_not_count() {
        let mut turns = turns();
        turns.began(0, token(1), at(1e6));
        turns.began(9, token(2), at(1e6));
        turns.look(2, true, |member| member == 9, at(100.0));
        assert_eq!((turns.measured().two_tokens, turns.take_violations()), (Duration::ZERO, vec![]));
    }

    #[test]
    fn a_slot_that_outlasts_its_deadline_is_found_when_it_ends_and_when_it_does_not() {
        let overran = |ended: bool, when: f64| {
            let mut turns = turns();
            turns.began(3, token(1), at(5.0));
            if ended {
                turns.ended(3, at(when));
            } else {
                turns.look(1, false, |member| member == 9, at(when));
            }
            turns.take_violations()
        };
        for ended in [true, false] {
            assert_eq!(overran(ended, 5.02), []);
            let until = at(5.0);
            assert_eq!(overran(ended, 5.03), [Violation::SlotOverran { at: at(5.03), member: 3, until }]);
        }
    }

    #[test]
    fn a_frozen_member_has_to_stop_when_it_goes_on() {
        let mut turns = turns();
        turns.began(3, token(1), at(5.0));
        turns.frozen(3, true, at(4.0));
        turns.look(1, false, |member| member == 9, at(60.0));
        turns.frozen(3, false, at(60.0));
        turns.look(1, false, |member| member == 9, at(60.02));
        assert_eq!(turns.take_violations(), []);
        turns.look(1, false, |member| member == 9, at(60.03));
        assert_eq!(turns.take_violations().len(), 1);
    }

    #[test]
    fn a_lost_token_that_is_not_replaced_in_time_is_missed() {
        let mut turns = turns();
        turns.look(1, false, |member| member == 9, at(1.0));
        turns.look(0, false, |member| member == 9, at(10.0));
        turns.look(1, false, |member| member == 9, at(14.0));
        assert_eq!(turns.measured().recoveries, [4 * SECOND]);
        turns.look(0, false, |member| member == 9, at(100.0));
        turns.disturbed(at(120.0));
        turns.look(0, false, |member| member == 9, at(180.0));
        assert_eq!(turns.take_violations(), [], "members that came back wait anew");
        turns.look(0, false, |member| member == 9, at(181.0));
        assert_eq!(turns.take_violations(), [Violation::NotRecovered { at: at(181.0), since: at(100.0) }]);
    }

    #[test]
    fn a_member_that_is_overtaken_again_and_again_is_found() {
        let mut turns = turns();
        turns.count_turns_of(0..3);
        for round in 0..8 {
            turns.began(0, token(1), at(1e6));
            turns.began(1, token(1), at(1e6));
            if round < 2 {
                turns.began(2, token(1), at(1e6));
            }
            turns.began(7, token(1), at(1e6));
        }
        turns.check_fairness(at(9.0));
        assert_eq!(turns.take_violations(), []);
        assert!((turns.measured().most_overtaken - 4.0).abs() < 1e-9, "{:?}", turns.measured());
        (0..4).for_each(|_| turns.began(0, token(1), at(1e6)));
        turns.check_fairness(at(9.0));
        assert_eq!(turns.take_violations(), [Violation::Starved { at: at(9.0), member: 2, others: 16 }]);
    }
}
