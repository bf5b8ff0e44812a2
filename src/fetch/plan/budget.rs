//! How many bytes a job should pull in a slot, and whether slots can carry that. Pure: the job tells what it needs before
//! each slot, and what came after it.
//!
//! | job | budget of a slot |
//! |---|---|
//! | stream | backlog + rate of the stream × inter-arrival time |
//! | with an average rate (`--bwlimit` in a circle) | rate × inter-arrival time |
//! | any other | what a slot carries |
//!
//! The inter-arrival time is that between the beginnings of the job's slots, a mean of the last few. A token that is kept
//! for slot after slot gives a slot each time: the time between these is a slot's length, and so is what each of them has
//! to make up for. In this way the budgets of all slots together are what is needed in all the time, whatever the
//! pattern of slots and waits.
//!
//! A job is overloaded if for several visits in a row a slot could not carry what one visit has to bring, and did not. A
//! backlog alone is no overload: it is made up for, slot by slot, as long as slots carry more than is produced.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use super::reason::{Causes, Change, in_bytes};

/// So many visits in a row decide that a job is overloaded, or not any more.
pub(super) const DECIDING_VISITS: u32 = 3;

/// A job may always pull this much before it lets go: without a look at its source it would never see what is there.
const SMALLEST: u64 = 64 << 10;

/// Changes that nobody fetched; older ones are dropped.
const UNREAD_CHANGES: usize = 16;

/// A slot that begins, as the job knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Visit {
    /// Its length.
    pub length: Duration,
    /// The recent inter-arrival time; `None` before the second slot.
    pub interval: Option<Duration>,
    /// How long ago the job's last slot began.
    pub since_last: Option<Duration>,
    /// What such a slot can carry, as far as that is known.
    pub capacity: Option<u64>,
}

/// What a job needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// Of a stream: its rate, in bytes per second.
    pub stream: Option<u64>,
    /// Of a stream: what is known to be there and is not here.
    pub backlog: u64,
    /// The rate that it may have on average, in bytes per second.
    pub limit: Option<u64>,
    /// Of that, what could have been read by now and was not, where it is known.
    pub saved: Option<u64>,
}

/// A job whose slots cannot carry what it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overload {
    /// What each visit has to bring, in bytes.
    pub needed: u64,
    /// What a slot carries, in bytes.
    pub carried: u64,
    /// Whether it is a limit that is not reached, rather than a stream that runs away.
    pub is_limit: bool,
}

impl Overload {
    /// By how many percent the rate is too high.
    fn percent(&self) -> u64 {
        let missing = u128::from(self.needed.saturating_sub(self.carried));
        u64::try_from((missing * 100).div_ceil(u128::from(self.needed.max(1)))).unwrap_or(100)
    }
}

impl fmt::Display for Overload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = if self.is_limit { "limit" } else { "stream rate" };
        write!(
            f,
            "needs {} per visit, a slot carries {}: reduce the {rate} by {} % or enlarge the slot",
            in_bytes(self.needed),
            in_bytes(self.carried),
            self.percent()
        )
    }
}

/// The budgets of one job, slot after slot.
#[derive(Clone, Debug, Default)]
pub struct Budgets {
    budget: Option<u64>,
    /// The budget that was told last, and what it followed from.
    told: Option<(u64, Causes)>,
    changes: VecDeque<Change>,
    /// Of the slot that runs.
    needs: Option<Overload>,
    /// Visits in a row that say otherwise than `overload` does.
    dissent: u32,
    overload: Option<Overload>,
}

impl Budgets {
    /// A slot begins. Gives the bytes after which the job lets go if another one waits; `None` if it may use all of the
    /// slot.
    pub fn slot_began(&mut self, visit: Visit, need: Need) -> Option<u64> {
        let stream = need.stream.zip(visit.interval).map(|(rate, interval)| {
            let horizon = interval.max(visit.since_last.unwrap_or_default());
            need.backlog.saturating_add(produced(rate, horizon))
        });
        let limit = need.limit.zip(visit.interval).map(|(rate, interval)| produced(rate, interval));
        let budget = stream.into_iter().chain(limit).min();
        // One interval is shorter than the other: what counts is what the limit really leaves.
        let left = limit.map(|limit| need.saved.map_or(limit, |saved| left_by_limit(saved, need, visit)));
        self.needs = needs(visit, need);
        self.budget = budget.or(visit.capacity);
        let is_limit = budget.is_some() && budget == limit;
        let is_stream = budget.is_some() && !is_limit;
        let causes = Causes {
            interval: visit.interval.filter(|_| budget.is_some()),
            limit: need.limit.filter(|_| is_limit),
            stream: need.stream.filter(|_| is_stream),
            backlog: is_stream.then_some(need.backlog),
            slot: budget.is_none().then_some(visit.length),
            throughput: visit.capacity.filter(|_| budget.is_none()).map(|bytes| per_sec(bytes, visit.length)),
        };
        if let Some(budget) = self.budget {
            self.note(budget, causes);
        }
        stream.into_iter().chain(left).min().map(|bytes| bytes.max(SMALLEST))
    }

    /// The slot is over, and brought so many bytes.
    pub fn slot_ended(&mut self, carried: u64) {
        let overload =
            self.needs.take().filter(|needs| needs.needed > needs.carried && carried < needs.needed);
        if overload.is_some() == self.overload.is_some() {
            self.dissent = 0;
            self.overload = overload;
            return;
        }
        self.dissent += 1;
        if self.dissent >= DECIDING_VISITS {
            self.dissent = 0;
            self.overload = overload;
        }
    }

    /// What the slot that runs, or the last one, should bring.
    pub fn budget(&self) -> Option<u64> {
        self.budget
    }

    /// Whether slots cannot carry what the job needs.
    pub fn overload(&self) -> Option<Overload> {
        self.overload
    }

    /// What changed about the budget, and why; oldest first.
    pub fn poll_change(&mut self) -> Option<Change> {
        self.changes.pop_front()
    }

    /// Notes the budget, and says so if it is another one than before.
    fn note(&mut self, budget: u64, causes: Causes) {
        let Some((before, then)) = self.told else {
            self.told = Some((budget, causes));
            return;
        };
        if !differs(before, budget) {
            return;
        }
        if self.changes.len() >= UNREAD_CHANGES {
            self.changes.pop_front();
        }
        self.changes.push_back(Change { from: before, to: budget, reason: causes.reason(&then) });
        self.told = Some((budget, causes));
    }
}

/// What a visit has to bring for as much to come as is produced, and what a slot carries. A limit that the link itself
/// does not reach limits nothing.
fn needs(visit: Visit, need: Need) -> Option<Overload> {
    let (interval, carried) = (visit.interval?, visit.capacity?);
    let limit = need.limit.filter(|&rate| rate <= per_sec(carried, visit.length));
    let rate = need.stream.into_iter().chain(limit).min()?;
    let is_limit = Some(rate) == limit && need.stream.is_none_or(|stream| stream > rate);
    Some(Overload { needed: produced(rate, interval), carried, is_limit })
}

/// What a limit leaves to a slot: what was saved, and what is earned while that is pulled.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and saturating")]
fn left_by_limit(saved: u64, need: Need, visit: Visit) -> u64 {
    let rate = need.limit.unwrap_or(u64::MAX);
    let most = saved.saturating_add(produced(rate, visit.length));
    let free =
        visit.capacity.map_or(0.0, |bytes| 1.0 - rate as f64 / per_sec(bytes, visit.length).max(1) as f64);
    if free > 0.0 { most.min((saved as f64 / free) as u64) } else { most }
}

fn produced(bytes_per_sec: u64, time: Duration) -> u64 {
    let bytes = u128::from(bytes_per_sec).saturating_mul(time.as_nanos()).div_ceil(1_000_000_000);
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

fn per_sec(bytes: u64, time: Duration) -> u64 {
    let millis = time.as_millis().max(1);
    u64::try_from(u128::from(bytes) * 1_000 / millis).unwrap_or(u64::MAX)
}

/// By more than a quarter.
fn differs(before: u64, now: u64) -> bool {
    u128::from(before.abs_diff(now)) * 4 > u128::from(before)
}
