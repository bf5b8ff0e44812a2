//! How much work strangers can cause: leaky buckets, filled by time.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::base::{MemberId, Time};

/// Sources that are told apart at once; beyond that all others share one bucket.
const SOURCES: usize = 1024;

/// Allows `rate` a second, and `burst` at once.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    level: f64,
    filled_at: Time,
}

impl Bucket {
    fn full(burst: f64, now: Time) -> Self {
        Self { level: burst, filled_at: now }
    }

    fn take(&mut self, rate: f64, burst: f64, now: Time) -> bool {
        let gained = now.since(self.filled_at).as_secs_f64() * rate;
        self.level = (self.level + gained).min(burst);
        self.filled_at = self.filled_at.max(now);
        let is_allowed = self.level >= 1.0;
        if is_allowed {
            self.level -= 1.0;
        }
        is_allowed
    }

    fn is_full(&self, rate: f64, burst: f64, now: Time) -> bool {
        self.level + now.since(self.filled_at).as_secs_f64() * rate >= burst
    }
}

/// A source may ask for 20 signatures a second: a holder that hands off ten times a second needs fewer.
const SOURCE: (f64, f64) = (20.0, 40.0);
/// Members that have a budget of their own at once: more than a directory holds.
const MEMBERS: usize = 512;
/// All sources together 2,000: a tenth of what a core can verify.
const SIGNATURES: (f64, f64) = (2000.0, 400.0);
/// Answers to our own open offers have a budget that no flood of questions can empty.
const ANSWERS: (f64, f64) = (500.0, 100.0);
/// New certificates 50.
const CERTIFICATES: (f64, f64) = (50.0, 200.0);
/// Charters and bans told to who lacks them 10.
const NEWS: (f64, f64) = (10.0, 20.0);

/// All budgets of one node.
#[derive(Debug)]
pub(super) struct Buckets {
    members: BTreeMap<MemberId, Bucket>,
    sources: BTreeMap<SocketAddr, Bucket>,
    others: Bucket,
    signatures: Bucket,
    answers: Bucket,
    certificates: Bucket,
    news: Bucket,
}

impl Buckets {
    pub(super) fn new(now: Time) -> Self {
        Self {
            members: BTreeMap::new(),
            sources: BTreeMap::new(),
            others: Bucket::full(SOURCE.1, now),
            signatures: Bucket::full(SIGNATURES.1, now),
            answers: Bucket::full(ANSWERS.1, now),
            certificates: Bucket::full(CERTIFICATES.1, now),
            news: Bucket::full(NEWS.1, now),
        }
    }

    /// Something in a member's name, from the place where that member is. It has a budget of its own, which no flood from
    /// elsewhere can empty.
    pub(super) fn allow_member(&mut self, member: MemberId, now: Time) -> bool {
        if self.members.len() >= MEMBERS && !self.members.contains_key(&member) {
            self.members.retain(|_, bucket| !bucket.is_full(SOURCE.0, SOURCE.1, now));
            if self.members.len() >= MEMBERS {
                return false;
            }
        }
        let bucket = self.members.entry(member).or_insert_with(|| Bucket::full(SOURCE.1, now));
        bucket.take(SOURCE.0, SOURCE.1, now)
    }

    /// A question: the source's own budget, then everybody's.
    pub(super) fn allow_question(&mut self, from: SocketAddr, now: Time) -> bool {
        self.source(from, now).take(SOURCE.0, SOURCE.1, now)
            && self.signatures.take(SIGNATURES.0, SIGNATURES.1, now)
    }

    fn source(&mut self, from: SocketAddr, now: Time) -> &mut Bucket {
        if !self.sources.contains_key(&from) && self.sources.len() >= SOURCES {
            // Who has been quiet for long enough is not missed.
            self.sources.retain(|_, bucket| !bucket.is_full(SOURCE.0, SOURCE.1, now));
            if self.sources.len() >= SOURCES {
                return &mut self.others;
            }
        }
        self.sources.entry(from).or_insert_with(|| Bucket::full(SOURCE.1, now))
    }

    /// An answer that we are waiting for.
    pub(super) fn allow_answer(&mut self, now: Time) -> bool {
        self.answers.take(ANSWERS.0, ANSWERS.1, now)
    }

    /// A certificate that we do not know.
    pub(super) fn allow_certificate(&mut self, now: Time) -> bool {
        self.certificates.take(CERTIFICATES.0, CERTIFICATES.1, now)
    }

    /// News for somebody who is behind.
    pub(super) fn allow_news(&mut self, now: Time) -> bool {
        self.news.take(NEWS.0, NEWS.1, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    #[test]
    fn a_source_gets_its_burst_and_then_its_rate() {
        let mut buckets = Buckets::new(Time::ZERO);
        let burst = (0..100).filter(|_| buckets.allow_question(source(1), Time::ZERO)).count();
        assert_eq!(burst, 40);
        let second = (0..100).filter(|_| buckets.allow_question(source(1), Time::from_secs(1))).count();
        assert_eq!(second, 20);
        assert!(buckets.allow_question(source(2), Time::from_secs(1)), "others are not concerned");
    }

    #[test]
    fn a_flood_from_many_sources_leaves_answers_their_budget_and_memory_bounded() {
        let mut buckets = Buckets::new(Time::ZERO);
        let allowed =
            (0..50_000_u16).filter(|port| buckets.allow_question(source(*port), Time::ZERO)).count();
        assert!(allowed <= 400, "{allowed}");
        assert!(buckets.sources.len() <= SOURCES);
        assert!(buckets.allow_answer(Time::ZERO));
    }

    #[test]
    fn a_member_where_it_is_known_to_be_has_its_own_budget() {
        let mut buckets = Buckets::new(Time::ZERO);
        for port in 0..2000 {
            buckets.allow_question(source(port), Time::ZERO);
        }
        assert!(!buckets.allow_question(source(60_000), Time::ZERO));
        let member = |number: u16| {
            let [high, low] = number.to_be_bytes();
            MemberId::from_bytes([high, low, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
        };
        let allowed = (0..100).filter(|_| buckets.allow_member(member(1), Time::ZERO)).count();
        assert_eq!(allowed, 40);
        for number in 0..2000 {
            buckets.allow_member(member(number), Time::ZERO);
        }
        assert_eq!(buckets.members.len(), MEMBERS);
        assert!(buckets.allow_member(member(3000), Time::from_secs(10)), "the quiet ones made room");
    }

    #[test]
    fn quiet_sources_make_room() {
        let mut buckets = Buckets::new(Time::ZERO);
        for port in 0..2000 {
            buckets.allow_question(source(port), Time::ZERO);
        }
        buckets.allow_question(source(60_000), Time::from_secs(10));
        assert_eq!(buckets.sources.len(), 1);
    }
}
