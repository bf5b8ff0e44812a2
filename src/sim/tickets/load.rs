//! How much members have to ask and to answer.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::base::{Ask, Time};

/// Asks are counted in windows of so many rounds: members do not ask in step.
pub(super) const WINDOW_ROUNDS: u32 = 10;

/// What one member asks and is asked in the current window.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    window: i64,
    asks: u32,
    asked: u32,
}

/// The counts of all.
#[derive(Debug)]
pub(super) struct Load {
    window: Duration,
    /// The ring is as it was since then.
    unchanged_since: Time,
    of: Vec<Counts>,
    most_at_rest: u32,
    /// What each has told each last.
    told: BTreeMap<(u32, u32), Told>,
    plain: u64,
}

/// By which seat, and by which deed it goes and would go.
type Told = (u64, u32, Option<u32>);

impl Load {
    pub(super) fn new(round: Duration, members: usize) -> Self {
        Self {
            window: round * WINDOW_ROUNDS,
            unchanged_since: Time::ZERO,
            of: vec![Counts::default(); members],
            most_at_rest: 0,
            told: BTreeMap::new(),
            plain: 0,
        }
    }

    /// Somebody came into the ring, went or fell silent, or the network lost something.
    pub(super) fn changed(&mut self, now: Time) {
        self.unchanged_since = now;
    }

    /// A question is sent. Gives who asked or was asked how often, for a window that is over and in which nothing changed.
    pub(super) fn asked(&mut self, from: u32, to: u32, now: Time) -> [Option<(u32, u32)>; 2] {
        let closed = [self.close(from, now), self.close(to, now)];
        if let Some(counts) = self.of.get_mut(from as usize) {
            counts.asks += 1;
        }
        if let Some(counts) = self.of.get_mut(to as usize) {
            counts.asked += 1;
        }
        closed
    }

    /// What is asked tells something new, or else only that who asks is there.
    pub(super) fn told(&mut self, from: u32, to: u32, ask: &Ask) {
        let proposed = ask.standing.proposed.as_ref().map(|deed| deed.version);
        let told = (ask.seat.incarnation, ask.standing.deed.version, proposed);
        self.plain += u64::from(self.told.insert((from, to), told) == Some(told));
    }

    /// Questions that told only that who asked was there.
    pub(super) fn plain(&self) -> u64 {
        self.plain
    }

    /// The most that a member asked or was asked in a window without changes, per round.
    pub(super) fn most_at_rest(&self) -> f64 {
        f64::from(self.most_at_rest) / f64::from(WINDOW_ROUNDS)
    }

    fn close(&mut self, member: u32, now: Time) -> Option<(u32, u32)> {
        let nanos = i64::try_from(self.window.as_nanos()).unwrap_or(i64::MAX);
        let counts = self.of.get_mut(member as usize)?;
        let window = now.as_nanos() / nanos;
        if counts.window == window {
            return None;
        }
        let over = std::mem::replace(counts, Counts { window, ..Counts::default() });
        // Lists settle in a few rounds, for which the window before is there.
        let is_at_rest = self.unchanged_since.as_nanos() < (over.window - 1) * nanos;
        let most = over.asks.max(over.asked);
        is_at_rest.then(|| {
            self.most_at_rest = self.most_at_rest.max(most);
            (member, most)
        })
    }
}
