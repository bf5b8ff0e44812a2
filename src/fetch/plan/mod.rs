//! How much to ask for next, so that a slot is used to its end and not a byte longer; and how much a job should pull in a
//! slot. Pure: the engine feeds the [`Planner`] with what it measured and asks before every range, the job asks for its
//! [budget](Budgets) before every slot.
//!
//! ```text
//!   slot_began ──> next ──> Some(bytes) ──> measured ──> next ──> … ──> None      give the token back
//! ```
//!
//! A range is cut so that it ends just before the deadline: throughput from a recent mean without outliers, the wait for
//! the first byte from a recent median, and a margin as wide as the throughput scatters. While little is known, ranges
//! grow by four and take half of what seems to fit. No range is larger than what the budget and the rate limits leave
//! room for.

mod budget;
mod estimate;
mod reason;
#[cfg(test)]
mod tests;

use std::time::Duration;

use estimate::Estimate;

pub use budget::{Budgets, Need, Overload, Visit};
pub use reason::{Change, in_bytes};

/// Slots in a row in which nothing was worth a request, after which what was measured is forgotten: it may have been
/// a bad moment, and without a request nothing new is ever measured.
const STUCK_AFTER: u32 = 3;

/// A pull that waits for its own limits for more than this part of the time says little of the link.
const HELD_BACK_SHARE: u32 = 8;

/// What the planner goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The first range ever, before anything is known. 256 KiB take 2 s at 1 Mbit/s and fill no buffer.
    pub first_bytes: u64,
    /// Less than this is not worth a request of its own, unless it ends the file or is all that a slot can carry.
    pub smallest_bytes: u64,
    /// No range is larger (`--chunk`). By default there is no such limit: a slot is.
    pub largest_bytes: u64,
    /// What is kept free before the deadline at least, in thousandths of what is left. 15 use 98 % of a slot.
    pub margin_permille: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            first_bytes: 256 << 10,
            smallest_bytes: 64 << 10,
            largest_bytes: u64::MAX,
            margin_permille: 15,
        }
    }
}

/// What else bounds a range. By default nothing does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// What is left of the job's budget for this slot, in bytes.
    pub budget: Option<u64>,
    /// What the rate limits let pass in the [usable](Planner::usable) part of the slot, in bytes.
    pub limit: Option<u64>,
}

/// What is known of the slot that runs.
#[derive(Clone, Copy, Debug, Default)]
struct Running {
    asked: bool,
    refused: bool,
}

/// Plans the ranges of one job at one source.
#[derive(Clone, Debug)]
pub struct Planner {
    config: Config,
    estimate: Estimate,
    slot: Running,
    stuck: u32,
}

impl Planner {
    /// A planner that knows nothing yet.
    pub fn new(config: Config) -> Self {
        Self { config, estimate: Estimate::default(), slot: Running::default(), stuck: 0 }
    }

    /// A slot has begun.
    pub fn slot_began(&mut self) {
        let was_stuck = self.slot.refused && !self.slot.asked;
        self.stuck = if was_stuck { self.stuck + 1 } else { 0 };
        if self.stuck >= STUCK_AFTER {
            self.estimate = Estimate::default();
            self.stuck = 0;
        }
        self.slot = Running::default();
    }

    /// A range of so many bytes came: the first byte after `wait_for_first_byte`, the last after `took`, both since it was
    /// asked for. Also for a range that was cut. Of this time the pull itself has waited for so long, to keep to a limit.
    pub fn measured(
        &mut self,
        bytes: u64,
        wait_for_first_byte: Duration,
        took: Duration,
        held_back: Duration,
    ) {
        if held_back > took / HELD_BACK_SHARE {
            self.estimate.measured_at_least(bytes, wait_for_first_byte, took);
        } else {
            self.estimate.measured(bytes, wait_for_first_byte, took);
        }
    }

    /// How many bytes to ask for with so much time and so much of the file left (`None`: no end in sight, and not known).
    /// `u64::MAX` is all the rest. `None` means that nothing more is worth asking for: give the token back. When the budget
    /// is used up the job is asked whether it lets go; if it asks on, nobody waits, and there is room for all.
    pub fn next(&mut self, left: Option<Duration>, left_in_file: Option<u64>, room: Room) -> Option<u64> {
        let most = left_in_file.unwrap_or(u64::MAX).min(self.config.largest_bytes);
        if most == 0 {
            return None;
        }
        let Some(left) = left else {
            let capped = self.config.largest_bytes < left_in_file.unwrap_or(u64::MAX);
            return Some(if capped { self.config.largest_bytes } else { u64::MAX });
        };
        let ask = self.fitting(left, most, left_in_file, room);
        match ask {
            Some(_) => self.slot.asked = true,
            None => self.slot.refused = true,
        }
        ask
    }

    /// Less than this is not worth another request. What a rate limit lets pass in the rest of the slot comes slowly, so that
    /// one request takes all of that time.
    fn least(&self, room: Room) -> u64 {
        let limited = room.limit.map_or(u64::MAX, |bytes| bytes.max(self.config.smallest_bytes / 4));
        self.config.smallest_bytes.min(limited)
    }

    /// The largest range for which there is room.
    fn most(&self, room: Room) -> u64 {
        let budget = room.budget.filter(|&left| left > 0).map(|left| left.max(self.config.smallest_bytes));
        budget.into_iter().chain(room.limit).min().unwrap_or(u64::MAX).max(1)
    }

    /// For how much of this time bytes come, if a range is asked for now and its end is to be safe.
    pub fn usable(&self, time: Duration) -> Duration {
        time.saturating_sub(self.estimate.latency()).mul_f64(1.0 - self.margin())
    }

    /// What a slot of this length can carry over this connection, as far as that is known.
    pub fn capacity(&self, length: Duration) -> Option<u64> {
        Some(self.carried(self.estimate.throughput()?, length))
    }

    fn fitting(&self, left: Duration, most: u64, left_in_file: Option<u64>, room: Room) -> Option<u64> {
        let (least, room) = (self.least(room), self.most(room));
        if left.is_zero() {
            return None;
        }
        let Some(throughput) = self.estimate.throughput() else {
            return Some(most.min(room).min(self.config.first_bytes.max(1)));
        };
        let fits = self.carried(throughput, left);
        if fits == 0 {
            return None;
        }
        if left_in_file.is_some_and(|rest| {
            rest <= fits.min(most).min(room).min(self.estimate.grown(self.config.first_bytes))
        }) {
            return left_in_file;
        }
        let careful =
            if self.estimate.is_sure() { fits } else { (fits / 2).max(self.config.smallest_bytes.min(fits)) };
        let ask = careful.min(most).min(room).min(self.estimate.grown(self.config.first_bytes)).max(1);
        let time = left.saturating_sub(self.estimate.latency());
        let pays = ask >= least.min(most) && time >= self.estimate.latency();
        (pays || !self.slot.asked).then_some(ask)
    }

    /// How many bytes come in so much time, from the question to the last byte, with the margin kept free.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and saturating"
    )]
    fn carried(&self, throughput: f64, time: Duration) -> u64 {
        (throughput * self.usable(time).as_secs_f64()) as u64
    }

    /// The share of the time that is kept free: the more, the less steady the throughput is.
    fn margin(&self) -> f64 {
        let least = f64::from(self.config.margin_permille) / 1_000.0;
        self.estimate.scatter().clamp(least, least.max(0.3))
    }
}
