//! Hearsay: which tokens were seen lately by anyone, and what that proves.
//!
//! A token is spurious if an elder one was seen after its birth: both were alive then. Both times travel as durations
//! (how old the token is, how long ago the elder one was seen) and never as clock readings, so clocks need not agree.

use std::time::Duration;

use crate::base::{Hearsay, SIGHTINGS, Session, Sighting, Time, TokenId};

use super::rules;

#[derive(Clone, Copy, Debug)]
struct Seen {
    token: TokenId,
    session: Session,
    at: Time,
}

/// The tokens seen most recently, by anyone.
#[derive(Clone, Debug, Default)]
pub(super) struct Sightings {
    seen: [Option<Seen>; SIGHTINGS],
}

impl Sightings {
    /// We have the token ourselves.
    pub(super) fn saw(&mut self, token: TokenId, session: Session, now: Time) {
        self.merge(Seen { token, session, at: now }, |new, old| new >= old);
    }

    /// Somebody told us. Gives the time of the sighting if it was news.
    pub(super) fn heard(&mut self, sighting: Sighting, rules: &rules::Sightings, now: Time) -> Option<Time> {
        let at = now - sighting.age - rules.relay;
        let new = Seen { token: sighting.token, session: sighting.session, at };
        // Strictly later: what was said in a session that we have heard of already may be a replay, and its age a lie.
        self.merge(new, |new, old| new > old).then_some(at)
    }

    /// Whether this token is known to have been alive at this time, or later.
    pub(super) fn saw_since(&self, token: TokenId, at: Time) -> bool {
        self.seen.iter().flatten().any(|seen| seen.token == token && seen.at >= at)
    }

    /// What we can tell others.
    pub(super) fn tell(&self, now: Time) -> Hearsay {
        self.seen.map(|seen| {
            seen.map(|seen| Sighting { token: seen.token, session: seen.session, age: now.since(seen.at) })
        })
    }

    /// The elder token that proves this one, born at `born`, spurious. What was seen longer ago than `horizon` may
    /// have died since, and proves nothing.
    pub(super) fn elder_seen_since(
        &self,
        token: TokenId,
        born: Time,
        horizon: Duration,
        rules: &rules::Sightings,
        now: Time,
    ) -> Option<TokenId> {
        self.seen
            .iter()
            .flatten()
            .find(|seen| {
                seen.token.is_elder_than(&token)
                    && seen.at > born + rules.margin
                    && now.since(seen.at) < horizon
            })
            .map(|seen| seen.token)
    }

    /// Keeps the tokens seen last; true if this was news.
    fn merge(&mut self, new: Seen, is_later: fn(Session, Session) -> bool) -> bool {
        let same = self.seen.iter_mut().flatten().find(|old| old.token == new.token);
        if let Some(old) = same {
            let is_news = new.at > old.at && is_later(new.session, old.session);
            if is_news {
                *old = new;
            }
            return is_news;
        }
        let oldest = self.seen.iter_mut().min_by_key(|seen| seen.map(|seen| seen.at));
        match oldest {
            Some(slot) if slot.is_none_or(|seen| seen.at < new.at) => {
                *slot = Some(new);
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::MemberId;

    const HORIZON: Duration = Duration::from_secs(600);

    fn token(created_ms: u64) -> TokenId {
        TokenId { created_ms, generator: MemberId::from_bytes([0; 16]), random: 0 }
    }

    fn rules() -> rules::Sightings {
        rules::Sightings { margin: Duration::from_secs(5), relay: Duration::ZERO }
    }

    fn heard(token: TokenId, session: u64, age: u64) -> Sighting {
        Sighting { token, session: Session(session), age: Duration::from_secs(age) }
    }

    fn proves(sighting: Sighting, token: TokenId, age: u64) -> bool {
        let now = Time::from_secs(10_000);
        let mut sightings = Sightings::default();
        sightings.heard(sighting, &rules(), now);
        let born = now - Duration::from_secs(age);
        sightings.elder_seen_since(token, born, HORIZON, &rules(), now).is_some()
    }

    #[test]
    fn an_elder_token_seen_after_the_birth_proves_a_token_spurious() {
        assert!(proves(heard(token(1), 0, 10), token(2), 100));
    }

    #[test]
    fn an_elder_token_seen_before_the_birth_or_within_the_margin_proves_nothing() {
        assert!(!proves(heard(token(1), 0, 101), token(2), 100));
        assert!(!proves(heard(token(1), 0, 96), token(2), 100));
    }

    #[test]
    fn a_younger_token_proves_nothing() {
        assert!(!proves(heard(token(3), 0, 10), token(2), 100));
    }

    #[test]
    fn a_sighting_beyond_the_horizon_proves_nothing() {
        assert!(!proves(heard(token(1), 0, 700), token(2), 5_000));
    }

    #[test]
    fn an_older_session_is_no_news_even_if_it_claims_to_be_fresh() {
        let now = Time::from_secs(1_000);
        let mut sightings = Sightings::default();
        assert!(sightings.heard(heard(token(1), 7, 50), &rules(), now).is_some());
        assert!(sightings.heard(heard(token(1), 6, 0), &rules(), now).is_none(), "an old replay");
        assert!(sightings.heard(heard(token(1), 7, 0), &rules(), now).is_none(), "a recent one");
        assert_eq!(sightings.tell(now)[0].unwrap().age, Duration::from_secs(50));
    }

    #[test]
    fn the_tokens_seen_last_are_kept() {
        let now = Time::from_secs(1_000);
        let mut sightings = Sightings::default();
        for (created, age) in [(1, 500), (2, 20), (3, 10)] {
            sightings.heard(heard(token(created), 0, age), &rules(), now);
        }
        let told: Vec<_> = sightings.tell(now).into_iter().flatten().map(|s| s.token.created_ms).collect();
        assert_eq!(told.len(), SIGHTINGS);
        assert!(!told.contains(&1), "the one seen longest ago makes room");
        assert!(sightings.heard(heard(token(9), 0, 900), &rules(), now).is_none(), "older than all we know");
    }

    #[test]
    fn telling_adds_the_time_on_the_way() {
        let rules = rules::Sightings::default();
        let now = Time::from_secs(100);
        let mut sightings = Sightings::default();
        sightings.heard(heard(token(1), 0, 1), &rules, now);
        assert_eq!(sightings.tell(now)[0].unwrap().age, Duration::from_secs(1) + rules.relay);
    }
}
