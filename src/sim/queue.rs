//! What happens next: one pending wake-up per member, and everything else that is under way.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use crate::base::Time;

/// Wake-ups, at most one that counts per member.
///
/// A deadline that moves later (most do: every visit moves one) leaves its entry where it is; when it comes up, the
/// member is asked again. So a heap without removal serves, and costs 16 bytes per member.
#[derive(Debug, Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Entry>,
    /// The entry that counts, per member.
    pending: Vec<Time>,
}

#[derive(Debug, PartialEq, Eq)]
struct Entry {
    at: Time,
    member: u32,
}

const NEVER: Time = Time::from_nanos(i64::MAX);

impl Timers {
    /// Makes room for one more member.
    pub(super) fn add_member(&mut self) {
        self.pending.push(NEVER);
    }

    /// The member wants to be woken at `deadline`, or was to be woken before: both will do.
    pub(super) fn arm(&mut self, member: u32, deadline: Time) {
        let Some(pending) = self.pending.get_mut(member as usize) else { return };
        if deadline < *pending {
            *pending = deadline;
            self.heap.push(Entry { at: deadline, member });
        }
    }

    pub(super) fn next(&mut self) -> Option<Time> {
        self.drop_stale();
        self.heap.peek().map(|entry| entry.at)
    }

    pub(super) fn pop(&mut self) -> Option<(Time, u32)> {
        self.drop_stale();
        let Entry { at, member } = self.heap.pop()?;
        if let Some(pending) = self.pending.get_mut(member as usize) {
            *pending = NEVER;
        }
        Some((at, member))
    }

    /// Entries that an earlier one has overtaken.
    fn drop_stale(&mut self) {
        while let Some(entry) = self.heap.peek()
            && self.pending.get(entry.member as usize) != Some(&entry.at)
        {
            self.heap.pop();
        }
    }
}

/// Everything else that is under way, in the order in which it happens; what was posted first goes first.
#[derive(Debug)]
pub(super) struct Mail<T> {
    /// What arrives at once; with no message delay that is nearly everything.
    now: VecDeque<T>,
    later: BinaryHeap<Posted<T>>,
    posted: u64,
}

#[derive(Debug)]
struct Posted<T> {
    at: Time,
    number: u64,
    item: T,
}

impl<T> Default for Mail<T> {
    fn default() -> Self {
        Self { now: VecDeque::new(), later: BinaryHeap::new(), posted: 0 }
    }
}

impl<T> Mail<T> {
    pub(super) fn post(&mut self, item: T, at: Time, now: Time) {
        if at <= now {
            self.now.push_back(item);
        } else {
            self.posted += 1;
            self.later.push(Posted { at, number: self.posted, item });
        }
    }

    /// What happens at this very moment.
    pub(super) fn pop_now(&mut self) -> Option<T> {
        self.now.pop_front()
    }

    pub(super) fn next(&self) -> Option<Time> {
        self.later.peek().map(|posted| posted.at)
    }

    pub(super) fn pop_later(&mut self) -> Option<(Time, T)> {
        self.later.pop().map(|posted| (posted.at, posted.item))
    }
}

// `BinaryHeap` gives the greatest first, so the earliest has to be the greatest.

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.member).cmp(&(self.at, self.member))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Posted<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl<T> PartialOrd for Posted<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Posted<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for Posted<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_deadline_overtakes_and_a_later_one_waits_its_turn() {
        let mut timers = Timers::default();
        timers.add_member();
        timers.arm(0, Time::from_secs(10));
        timers.arm(0, Time::from_secs(5));
        timers.arm(0, Time::from_secs(20));
        assert_eq!(timers.pop(), Some((Time::from_secs(5), 0)));
        assert_eq!(timers.pop(), None, "the overtaken entry does not come up");
    }

    #[test]
    fn wake_ups_of_one_moment_come_in_the_order_of_members() {
        let mut timers = Timers::default();
        for member in 0..3 {
            timers.add_member();
            timers.arm(2 - member.min(2), Time::from_secs(1));
            timers.arm(member, Time::from_secs(1));
        }
        let order: Vec<_> = std::iter::from_fn(|| timers.pop()).map(|(_, member)| member).collect();
        assert_eq!(order, [0, 1, 2]);
    }

    #[test]
    fn mail_of_one_moment_comes_in_the_order_of_posting() {
        let mut mail = Mail::default();
        for n in 0..5 {
            mail.post(n, Time::from_secs(1), Time::ZERO);
        }
        mail.post(9, Time::ZERO, Time::ZERO);
        assert_eq!(mail.pop_now(), Some(9));
        let order: Vec<_> = std::iter::from_fn(|| mail.pop_later()).map(|(_, n)| n).collect();
        assert_eq!(order, [0, 1, 2, 3, 4]);
    }
}
