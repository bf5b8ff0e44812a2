//! Reminders wait here until they are heard: no more of them in a round than a seat has witnesses.
//!
//! At rest as many remind us as we remind. But where tickets change hands quickly, lists of witnesses change one after the
//! other, and for a moment some go by us still and others go by us already. What is too much for this round is heard in the
//! next one. To who asked that is a slow network, which does no harm: its lease counts from its asking.

use std::collections::VecDeque;
use std::time::Duration;

use crate::base::{Ask, MemberId, Time};

/// Those who wait, at most. Whoever finds no room reminds us again.
const LIMIT: usize = 64;

#[derive(Clone, Debug, Default)]
pub(super) struct Anteroom {
    waiting: VecDeque<(MemberId, Ask)>,
    /// When the last reminders were heard: as many as there may be in a round.
    heard: VecDeque<Time>,
}

impl Anteroom {
    /// Whoever waits already keeps its place, with what it said last.
    pub(super) fn enter(&mut self, from: MemberId, ask: Ask) {
        if let Some((_, waiting)) = self.waiting.iter_mut().find(|(other, _)| *other == from) {
            *waiting = ask;
        } else if self.waiting.len() < LIMIT {
            self.waiting.push_back((from, ask));
        }
    }

    /// Its reminder says less than what it has said since.
    pub(super) fn leave(&mut self, from: MemberId) {
        self.waiting.retain(|(other, _)| *other != from);
    }

    /// The next reminder that may be heard by now.
    pub(super) fn call(&mut self, most: usize, round: Duration, now: Time) -> Option<(MemberId, Ask)> {
        if self.next_at(most, round).is_none_or(|at| now < at) {
            return None;
        }
        self.heard.push_back(now);
        let surplus = self.heard.len().saturating_sub(most);
        self.heard.drain(..surplus);
        self.waiting.pop_front()
    }

    /// When the next reminder may be heard, if one waits.
    pub(super) fn next_at(&self, most: usize, round: Duration) -> Option<Time> {
        self.waiting.front()?;
        let is_busy = self.heard.len() >= most;
        Some(self.heard.front().filter(|_| is_busy).map_or(Time::ZERO, |first| *first + round))
    }
}
