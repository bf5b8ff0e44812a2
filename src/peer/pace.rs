//! How often a job of this member has its turn: what it is told with each of them. Used by the lender alone.

use std::time::Duration;

use crate::base::Time;
use crate::jobs::Rhythm;
use crate::proto::load::Recent;

/// How often a job has its turn.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    intervals: Recent,
    last_turn: Option<Time>,
    /// Since when there is something to pull, without a break.
    work_since: Option<Time>,
}

impl Pace {
    /// The recent time between two turns.
    pub(super) fn interval(&self) -> Option<Duration> {
        self.intervals.mean()
    }

    /// Whether there is something to pull.
    pub(super) fn work(&mut self, has_work: bool, now: Time) {
        self.work_since = has_work.then(|| self.work_since.unwrap_or(now));
    }

    /// A turn begins. The time in which there was nothing to pull is no part of an interval: whatever the token did then,
    /// the job would not have had a turn.
    pub(super) fn turn(&mut self, now: Time) -> Rhythm {
        let before = self.last_turn.replace(now);
        if let Some(before) = before {
            self.intervals.push(now.since(self.work_since.map_or(before, |since| since.max(before))));
        }
        Rhythm { interval: self.intervals.mean(), since_last: before.map(|before| now.since(before)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_between_turns_follows_within_three_and_leaves_out_when_there_was_no_work() {
        let mut pace = Pace::default();
        let mut turn = |at: u64| pace.turn(Time::from_secs(at));
        assert_eq!(turn(0), Rhythm::default());
        let known = |interval: u64, since_last: u64| Rhythm {
            interval: Some(Duration::from_secs(interval)),
            since_last: Some(Duration::from_secs(since_last)),
        };
        for at in [10, 20, 30] {
            assert_eq!(turn(at), known(10, 10));
        }
        assert_eq!([turn(50), turn(70), turn(90)][2], known(20, 20), "twice as many members");
        // Kept for slot after slot, a token gives one slot in a slot's length.
        assert_eq!([turn(94), turn(98), turn(102)][2], known(4, 4));
        pace.work(false, Time::from_secs(110));
        pace.work(true, Time::from_secs(1_000));
        pace.work(true, Time::from_secs(1_001));
        assert_eq!(pace.turn(Time::from_secs(1_004)), known(4, 902), "an idle job does not wait");
    }
}
