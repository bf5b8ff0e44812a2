//! Who waits for a ticket. Whoever waits longest is served first.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::base::{MemberId, Time, Waiter};

/// Waiters remembered, at most: those who wait longest.
const LIMIT: usize = 64;

/// Waiters told of in one message.
const TOLD: usize = 4;

#[derive(Clone, Copy, Debug)]
struct Entry {
    incarnation: u64,
    since: Time,
    heard_at: Time,
    /// It asked us itself. Only of those we tell others, so that nobody is waited for by hearsay alone.
    is_direct: bool,
}

/// Those who wait, as far as we know.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiting {
    entries: BTreeMap<MemberId, Entry>,
    /// The last seat that each is known to have had, or to have declined, and since when we know: whoever still tells that
    /// it waits for that one does not know it yet.
    served: BTreeMap<MemberId, (u64, Time)>,
}

impl Waiting {
    pub(super) fn asked(&mut self, waiter: Waiter, now: Time) {
        self.put(waiter, true, now);
    }

    pub(super) fn heard(&mut self, waiters: &[Waiter], now: Time) {
        for waiter in waiters {
            if self.entries.get(&waiter.member).is_none_or(|entry| !entry.is_direct) {
                self.put(*waiter, false, now);
            }
        }
    }

    fn put(&mut self, waiter: Waiter, is_direct: bool, now: Time) {
        let Waiter { member, incarnation, waited } = waiter;
        if self.served.get(&member).is_some_and(|(served, _)| incarnation <= *served) {
            return;
        }
        let since = Time::from_nanos(now.as_nanos().saturating_sub(nanos(waited)));
        self.entries.insert(member, Entry { incarnation, since, heard_at: now, is_direct });
        if self.entries.len() > LIMIT
            && let Some((youngest, _)) = self.entries.iter().max_by_key(|(_, entry)| entry.since)
        {
            let youngest = *youngest;
            self.entries.remove(&youngest);
        }
    }

    pub(super) fn remove(&mut self, member: MemberId) {
        self.entries.remove(&member);
    }

    /// The member has had this seat, or declined it: it does not wait for it any more.
    pub(super) fn is_served(&mut self, member: MemberId, incarnation: u64, now: Time) {
        if self.entries.get(&member).is_some_and(|entry| entry.incarnation <= incarnation) {
            self.entries.remove(&member);
        }
        let before = self.served.get(&member).map_or(0, |(before, _)| *before);
        self.served.insert(member, (incarnation.max(before), now));
        if self.served.len() > LIMIT
            && let Some((oldest, _)) = self.served.iter().min_by_key(|(_, (_, at))| *at)
        {
            let oldest = *oldest;
            self.served.remove(&oldest);
        }
    }

    /// Who has not asked again for so long does not wait any more.
    pub(super) fn forget(&mut self, silent_since: Time) {
        self.entries.retain(|_, entry| entry.heard_at >= silent_since);
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Who waits longest.
    pub(super) fn first(&self, now: Time) -> Option<Waiter> {
        self.waiters(now).into_iter().next().map(|(waiter, _)| waiter)
    }

    /// Those who asked us and wait longest, to tell others of.
    pub(super) fn told(&self, now: Time) -> Vec<Waiter> {
        let direct = self.waiters(now).into_iter().filter(|(_, is_direct)| *is_direct);
        direct.map(|(waiter, _)| waiter).take(TOLD).collect()
    }

    fn waiters(&self, now: Time) -> Vec<(Waiter, bool)> {
        let mut waiters: Vec<(Waiter, bool)> = self
            .entries
            .iter()
            .map(|(&member, entry)| {
                let waited = now.since(entry.since);
                (Waiter { member, incarnation: entry.incarnation, waited }, entry.is_direct)
            })
            .collect();
        waiters.sort_by_key(|(waiter, _)| std::cmp::Reverse(waiter.waited));
        waiters
    }
}

fn nanos(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(member: u8, waited_s: u64) -> Waiter {
        let member = MemberId::from_bytes([member; 16]);
        Waiter { member, incarnation: 5, waited: Duration::from_secs(waited_s) }
    }

    fn order(waiters: &[Waiter]) -> Vec<u8> {
        waiters.iter().map(|waiter| waiter.member.as_bytes()[0]).collect()
    }

    const NOW: Time = Time::from_nanos(1_000_000_000_000);

    #[test]
    fn whoever_waits_longest_is_first_whoever_told_of_it() {
        let mut waiting = Waiting::default();
        waiting.asked(waiter(1, 10), NOW);
        waiting.heard(&[waiter(2, 30), waiter(3, 20)], NOW);
        assert_eq!(order(&[waiting.first(NOW).unwrap()]), [2]);
        waiting.asked(waiter(3, 40), NOW);
        let later = NOW + Duration::from_secs(1);
        assert_eq!(waiting.first(later), Some(waiter(3, 41)));
        assert_eq!(order(&waiting.told(later)), [3, 1], "those who asked, longest first");
    }

    #[test]
    fn who_was_served_or_is_silent_waits_no_more() {
        let mut waiting = Waiting::default();
        for member in 1..=3 {
            waiting.asked(waiter(member, 10), NOW);
        }
        waiting.is_served(waiter(1, 0).member, 5, NOW);
        waiting.heard(&[waiter(1, 10)], NOW);
        assert_eq!(waiting.len(), 2, "whoever tells of it does not know yet");
        let later = NOW + Duration::from_secs(5);
        waiting.asked(waiter(2, 15), later);
        waiting.forget(later);
        assert_eq!(order(&[waiting.first(later).unwrap()]), [2]);
        assert_eq!(waiting.len(), 1);
    }

    #[test]
    fn of_too_many_those_who_wait_longest_are_kept() {
        let mut waiting = Waiting::default();
        for member in 0..=u8::MAX {
            waiting.asked(waiter(member, u64::from(member)), NOW);
        }
        assert_eq!(waiting.len(), LIMIT);
        assert_eq!(waiting.first(NOW), Some(waiter(u8::MAX, 255)));
    }
}
