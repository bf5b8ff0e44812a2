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
