//! Turns: who may use its ticket pulls, and makes room when its turn is over and others wait.

use std::time::Duration;

use crate::base::Time;

use super::machine::{State, Tickets};
use super::nouns::Event;

/// Whoever waits for so many rounds has asked several, and none had a ticket.
const LONG_WAIT: u32 = 8;

/// Whether the jobs pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pull {
    Idle,
    Running {
        until: Time,
    },
    /// Told to stop.
    Stopping,
}

impl Pull {
    pub(super) fn is_running(self) -> bool {
        self != Self::Idle
    }
}

impl Tickets {
    /// Begins and ends pulls.
    pub(super) fn mind_pull(&mut self, now: Time) {
        self.tell_whether_sure(now);
        self.pull_at = self.pull_at.filter(|at| now < *at);
        match self.pull {
            Pull::Running { until } => {
                if now >= until || !self.may_pull_at(now) {
                    self.is_turn_over |= now >= until;
                    self.pull = Pull::Stopping;
                    self.tell(Event::StopSlot);
                } else {
                    self.tell_lease();
                }
            }
            Pull::Idle => self.begin_pull(now),
            Pull::Stopping => {}
        }
    }

    fn begin_pull(&mut self, now: Time) {
        // With time left for more than to stop at once.
        let soon = now + self.config.stop_within;
        if !self.has_work || self.pull_at.is_some() || !self.may_pull_at(soon) {
            return;
        }
        let is_yielding = self.should_yield(now);
        let State::In(place) = &mut self.state else { return };
        // If somebody does not answer for too long, the ticket is of more use here.
        if is_yielding && place.yields_since.is_none_or(|since| now < since + self.config.round) {
            return;
        }
        place.yields_since = None;
        let seat = place.seat;
        let until = now + self.config.turn;
        self.slots += 1;
        self.is_turn_over = false;
        self.pull = Pull::Running { until };
        self.leased_until = Time::ZERO;
        self.tell_lease();
        self.tell(Event::SlotBegan { seat, number: self.slots, until });
    }

    /// Tells for how long the pull may go on, if that is news: it grows with every word, and ends for who was alone with the
    /// first newcomer.
    fn tell_lease(&mut self) {
        let State::In(place) = &self.state else { return };
        let Some(sure_until) = place.sure_until(&self.config) else { return };
        let until = sure_until - self.config.stop_within;
        if until != self.leased_until {
            self.leased_until = until;
            self.tell(Event::Leased { until });
        }
    }

    /// The ticket is ours for longer than it takes to stop.
    fn may_pull_at(&self, now: Time) -> bool {
        let State::In(place) = &self.state else { return false };
        !self.is_leaving() && place.is_sure(&self.config, now + self.config.stop_within)
    }

    pub(super) fn on_slot_stopped(&mut self, now: Time) {
        let rested = now + self.config.rest();
        self.pull_at = Some(rested);
        if let Pull::Running { until } = self.pull {
            // The jobs have enough. If they want more at once, they wait for a moment, or the rest of their turn.
            self.is_turn_over = true;
            self.pull_at = Some(until.min(now + self.config.round).max(rested));
        }
        self.pull = Pull::Idle;
    }

    fn tell_whether_sure(&mut self, now: Time) {
        let State::In(place) = &mut self.state else { return };
        let is_sure = place.is_sure(&self.config, now);
        if is_sure != place.was_sure {
            place.was_sure = is_sure;
            self.tell(if is_sure { Event::Sure } else { Event::Unsure });
        }
    }

    /// Our turn is over, somebody has asked us for a ticket, and nobody has another one to give. Whoever does not know the
    /// whole ring takes a long wait for a sign of that. (Who was asked makes room, so that not all do for one that waits.)
    /// While those after us are not settled we could not go, so the ticket is of more use here.
    pub(super) fn should_yield(&self, now: Time) -> bool {
        let State::In(place) = &self.state else { return false };
        let waiters = self.waiting.told(now);
        let may_go = place.is_settled && place.exclusion.is_none() && !place.is_moving();
        let Some(waiter) = waiters.first().filter(|_| self.is_turn_over && may_go) else {
            return false;
        };
        let (givers, is_whole) = self.givers();
        givers.is_empty() && (is_whole || waiter.waited >= self.config.round * LONG_WAIT)
    }

    /// The turn of who has nothing to pull while others wait is over too, but not everybody's at the same moment.
    pub(super) fn mind_idleness(&mut self, now: Time) {
        let is_idle = !self.has_work && !self.pull.is_running() && self.waiting.len() > 0;
        match self.idle_until {
            _ if !is_idle || self.is_turn_over => self.idle_until = None,
            None => self.idle_until = Some(now + self.rng.uniform(Duration::ZERO, self.config.round)),
            Some(until) => self.is_turn_over |= now >= until,
        }
    }
}
