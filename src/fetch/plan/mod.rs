//! How much to ask for next, so that a slot is used to its end and not a byte longer. Pure: the engine feeds it with what
//! it measured and asks before every range.
//!
//! ```text
//!   slot_began ──> next ──> Some(bytes) ──> measured ──> next ──> … ──> None      give the token back
//! ```
//!
//! A range is cut so that it ends just before the deadline: throughput from a recent mean without outliers, the wait for
//! the first byte from a recent median, and a margin as wide as the throughput scatters. While little is known, ranges
//! grow by four and take half of what seems to fit. Whenever the chunk (what a whole slot is to bring) changes by more
//! than a quarter, a [`Change`] says so with its reason.

mod estimate;
mod reason;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use estimate::Estimate;
use reason::Causes;

pub use reason::Change;

/// Slots in a row in which nothing was worth a request, after which what was measured is forgotten: it may have been
/// a bad moment, and without a request nothing new is ever measured.
const STUCK_AFTER: u32 = 3;

/// Changes that nobody fetched; older ones are dropped.
const UNREAD_CHANGES: usize = 16;

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

/// What is known of the slot that runs.
#[derive(Clone, Copy, Debug, Default)]
struct Running {
    length: Duration,
    return_time: Option<Duration>,
    asked: bool,
    refused: bool,
}

/// Plans the ranges of one job at one source.
#[derive(Clone, Debug)]
pub struct Planner {
    config: Config,
    estimate: Estimate,
    slot: Running,
    /// What the subscriber needs of this slot, and its rate.
    need: Option<(u64, u64)>,
    stuck: u32,
    chunk: Option<(u64, Causes)>,
    changes: VecDeque<Change>,
}

impl Planner {
    /// A planner that knows nothing yet.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            estimate: Estimate::default(),
            slot: Running::default(),
            need: None,
            stuck: 0,
            chunk: None,
            changes: VecDeque::new(),
        }
    }

    /// A slot of this length has begun. `return_time` is the time between the token's last two visits.
    pub fn slot_began(&mut self, length: Duration, return_time: Option<Duration>) {
        let was_stuck = self.slot.refused && !self.slot.asked;
        self.stuck = if was_stuck { self.stuck + 1 } else { 0 };
        if self.stuck >= STUCK_AFTER {
            self.estimate = Estimate::default();
            self.stuck = 0;
        }
        self.slot = Running { length, return_time, asked: false, refused: false };
        self.need = None;
    }

    /// What a stream of this rate needs of this slot: what came since the last one, and what will come until the next.
    /// Say it after [`slot_began`](Self::slot_began) and before the first [`next`](Self::next).
    pub fn need(&mut self, rate_bytes_per_sec: u64, since_last_slot: Duration, until_next: Duration) -> u64 {
        let millis = since_last_slot.saturating_add(until_next).as_millis();
        let bytes = u128::from(rate_bytes_per_sec).saturating_mul(millis).div_ceil(1_000);
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.need = Some((bytes, rate_bytes_per_sec));
        bytes
    }

    /// A range of so many bytes came: the first byte after `wait_for_first_byte`, the last after `took`, both since it was
    /// asked for. Also for a range that was cut.
    pub fn measured(&mut self, bytes: u64, wait_for_first_byte: Duration, took: Duration) {
        self.estimate.measured(bytes, wait_for_first_byte, took);
    }

    /// How many bytes to ask for with so much time and so much of the file left (`None`: no end in sight, and not known).
    /// `u64::MAX` is all the rest. `None` means that nothing more is worth asking for: give the token back.
    pub fn next(&mut self, left: Option<Duration>, left_in_file: Option<u64>) -> Option<u64> {
        let most = left_in_file.unwrap_or(u64::MAX).min(self.config.largest_bytes);
        if most == 0 {
            return None;
        }
        let Some(left) = left else {
            let capped = self.config.largest_bytes < left_in_file.unwrap_or(u64::MAX);
            return Some(if capped { self.config.largest_bytes } else { u64::MAX });
        };
        self.note_chunk();
        let ask = self.fitting(left, most, left_in_file);
        match ask {
            Some(_) => self.slot.asked = true,
            None => self.slot.refused = true,
        }
        ask
    }

    /// What changed about the chunk, and why; oldest first.
    pub fn poll_change(&mut self) -> Option<Change> {
        self.changes.pop_front()
    }

    /// What a slot is to bring, as last planned.
    pub fn chunk(&self) -> Option<u64> {
        self.chunk.map(|(bytes, _)| bytes)
    }

    fn fitting(&self, left: Duration, most: u64, left_in_file: Option<u64>) -> Option<u64> {
        if left.is_zero() {
            return None;
        }
        let Some(throughput) = self.estimate.throughput() else {
            return Some(most.min(self.config.first_bytes.max(1)));
        };
        let fits = self.carried(throughput, left);
        if fits == 0 {
            return None;
        }
        if left_in_file
            .is_some_and(|rest| rest <= fits.min(most).min(self.estimate.grown(self.config.first_bytes)))
        {
            return left_in_file;
        }
        let careful =
            if self.estimate.is_sure() { fits } else { (fits / 2).max(self.config.smallest_bytes.min(fits)) };
        let ask = careful.min(most).min(self.estimate.grown(self.config.first_bytes)).max(1);
        let time = left.saturating_sub(self.estimate.latency());
        let pays = ask >= self.config.smallest_bytes.min(most) && time >= self.estimate.latency();
        (pays || !self.slot.asked).then_some(ask)
    }

    /// How many bytes come in so much time, from the question to the last byte, with the margin kept free.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and saturating"
    )]
    fn carried(&self, throughput: f64, time: Duration) -> u64 {
        let least = f64::from(self.config.margin_permille) / 1_000.0;
        let free = self.estimate.scatter().clamp(least, least.max(0.3));
        let time = time.saturating_sub(self.estimate.latency()).as_secs_f64() * (1.0 - free);
        (throughput * time) as u64
    }

    /// Notes what this slot is to bring, once a slot, and says so if that is another size than before.
    fn note_chunk(&mut self) {
        let Some(throughput) = self.estimate.throughput().filter(|_| !self.slot.asked) else { return };
        let carried = self.carried(throughput, self.slot.length);
        let chunk =
            carried.min(self.need.map_or(u64::MAX, |(bytes, _)| bytes)).min(self.config.largest_bytes);
        let causes = Causes {
            // Only a subscriber's chunk follows from these.
            return_time: self.slot.return_time.filter(|_| self.need.is_some()),
            stream: self.need.map(|(_, rate)| rate as f64),
            slot: self.slot.length,
            throughput,
        };
        match self.chunk {
            Some((before, then)) if differs(before, chunk) => {
                let reason = causes.reason(&then);
                if self.changes.len() >= UNREAD_CHANGES {
                    self.changes.pop_front();
                }
                self.changes.push_back(Change { from: before, to: chunk, reason });
                self.chunk = Some((chunk, causes));
            }
            Some(_) => {}
            None => self.chunk = Some((chunk, causes)),
        }
    }
}

/// By more than a quarter.
fn differs(before: u64, now: u64) -> bool {
    u128::from(before.abs_diff(now)) * 4 > u128::from(before)
}
