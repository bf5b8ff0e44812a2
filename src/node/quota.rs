//! How many tokens one member may make: each names its generator, and beyond the quota its tokens are refused.
//!
//! Nobody can be kept from making tokens. But each member looks for itself, so who makes them without end soon finds nobody
//! who takes one. Only tokens that came here count, by an accepted Commit: what is merely offered costs nobody a place. A
//! generator's name is not signed, so those who bring tokens are counted too: whoever makes names up is found there.
//! `admission` asks here.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::base::{MemberId, Time, TokenId};

/// New tokens that one generator may make in a window. A circle that loses its token every 100 s makes 36 new ones an hour,
/// all its members together; a generator that reaches this has lost one a minute, alone, for an hour.
const GENERATED: usize = 60;

/// New tokens that one member may bring in a window. It brings those of others too, of whole storms of regeneration.
const BROUGHT: usize = 4 * GENERATED;

/// Tokens that are remembered. Beyond, the one that came longest ago is forgotten: to refuse new ones instead would let a
/// few who cheat keep the circle from replacing a token that was lost.
const REMEMBERED: usize = 1024;

/// What is counted in, and in slots where slots are short: a circle that runs faster also loses tokens faster.
const WINDOW: Duration = Duration::from_secs(3600);
const WINDOW_SLOTS: u32 = 900;

/// Tokens that came here within the window.
#[derive(Debug, Default)]
pub(super) struct Quota(BTreeMap<TokenId, Came>);

#[derive(Debug)]
struct Came {
    /// Who brought it first.
    from: MemberId,
    first: Time,
    last: Time,
}

impl Quota {
    /// Whether this token may come: it was here before, or there are not too many.
    pub(super) fn allows(&self, token: TokenId, from: MemberId, slot: Duration, now: Time) -> bool {
        if self.0.contains_key(&token) {
            return true;
        }
        let recent = || self.0.iter().filter(|(_, came)| now.since(came.first) < window(slot));
        let generated = recent().filter(|(known, _)| known.generator == token.generator).count();
        let brought = recent().filter(|(_, came)| came.from == from).count();
        generated < GENERATED && brought < BROUGHT
    }

    /// A token came here.
    pub(super) fn note(&mut self, token: TokenId, from: MemberId, slot: Duration, now: Time) {
        if let Some(came) = self.0.get_mut(&token) {
            came.last = now;
            return;
        }
        self.0.retain(|_, came| now.since(came.last) < window(slot));
        if self.0.len() >= REMEMBERED {
            let oldest = self.0.iter().min_by_key(|(_, came)| came.last).map(|(token, _)| *token);
            oldest.map(|token| self.0.remove(&token));
        }
        self.0.insert(token, Came { from, first: now, last: now });
    }
}

fn window(slot: Duration) -> Duration {
    WINDOW.min(slot.saturating_mul(WINDOW_SLOTS))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT: Duration = Duration::from_secs(4);

    fn member(n: u8) -> MemberId {
        MemberId::from_bytes([n; 16])
    }

    fn token(generator: u8, number: usize) -> TokenId {
        TokenId { created_ms: number as u64, generator: member(generator), random: 0 }
    }

    /// One who has brought so many tokens of one generator in the first minute.
    fn after(count: usize) -> Quota {
        let mut quota = Quota::default();
        for number in 0..count {
            quota.note(token(1, number), member(2), SLOT, Time::from_secs(number as u64 % 60));
        }
        quota
    }

    #[test]
    fn a_generator_may_make_its_quota_and_no_more_within_the_hour() {
        let may = |count, generator, at_s| {
            after(count).allows(token(generator, 1000), member(2), SLOT, Time::from_secs(at_s))
        };
        assert!(may(GENERATED - 1, 1, 60));
        assert!(!may(GENERATED, 1, 60));
        assert!(may(GENERATED, 3, 60), "others are not concerned");
        assert!(may(GENERATED, 1, 3660), "an hour later it may again");
        assert!(after(GENERATED).allows(token(1, 7), member(9), SLOT, Time::from_secs(60)), "it goes on");
    }

    #[test]
    fn whoever_makes_generators_up_is_counted_by_what_it_brings() {
        let mut quota = Quota::default();
        for number in 0..BROUGHT {
            let token = token(u8::try_from(number % 200).unwrap(), number);
            assert!(quota.allows(token, member(250), SLOT, Time::ZERO));
            quota.note(token, member(250), SLOT, Time::ZERO);
        }
        assert!(!quota.allows(token(249, 1), member(250), SLOT, Time::ZERO));
        assert!(quota.allows(token(249, 1), member(251), SLOT, Time::ZERO), "others may bring it");
    }

    /// Table of DESIGN.md, "a token lost every 100 s", and all of them replaced by one member.
    #[test]
    fn a_storm_of_regeneration_is_no_crime() {
        for (slot, every) in [(SLOT, 100), (Duration::from_secs(30), 100), (Duration::from_secs(1), 25)] {
            let mut quota = Quota::default();
            for number in 0..1000 {
                let now = Time::from_secs(number as u64 * every);
                assert!(quota.allows(token(1, number), member(2), slot, now), "{slot:?}: {number}");
                quota.note(token(1, number), member(2), slot, now);
            }
            assert!(quota.0.len() <= GENERATED);
        }
    }

    #[test]
    fn what_came_longest_ago_makes_room() {
        let mut quota = Quota::default();
        for number in 0..2 * REMEMBERED {
            let now = Time::from_secs(1) + Duration::from_millis(number as u64);
            quota.note(token(1, number), member(2), SLOT, now);
            quota.note(token(1, 0), member(2), SLOT, now);
        }
        assert_eq!(quota.0.len(), REMEMBERED);
        assert!(quota.0.contains_key(&token(1, 0)), "the one that lives stays");
    }
}
