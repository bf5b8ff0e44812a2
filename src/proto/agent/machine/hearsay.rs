//! What an agent makes of what it hears of tokens, and how long it waits to hear from others.

use std::time::Duration;

use crate::base::{Hearsay, MemberId, RoundTrip, Sighting, Time, TokenId};

use super::super::nouns::Spurious;
use super::super::{hold, rules};
use super::Agent;

/// How long others may take to answer as long as none has: what RFC 6298 begins with.
const FIRST_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a token that rests waits for an answer at most, however slow the answers were: four times a satellite's round trip.
const LONGEST_PATIENCE: Duration = Duration::from_secs(2);

impl Agent {
    /// Whether to ask the sender of a question for a proof of what it has told of tokens. Worth a question is what may end the
    /// token that is here, what may end a custody, and once per slot that a token is alive.
    pub fn wants_proof(&self, hearsay: &Hearsay, now: Time) -> bool {
        self.config.rules.sightings.is_some()
            && hearsay.iter().flatten().any(|sighting| {
                let is_elder =
                    self.hold.as_ref().is_some_and(|hold| sighting.token.is_elder_than(&hold.token.id));
                let is_in_custody = self.custody.as_ref().is_some_and(|custody| {
                    custody.token == sighting.token && custody.session < sighting.session
                });
                let is_old = || !self.sightings.saw_since(sighting.token, now - self.config.slot);
                is_elder || is_in_custody || (self.hold.is_none() && is_old())
            })
    }

    pub(super) fn elder_was_seen(&self, token: TokenId, born: Time, now: Time) -> bool {
        self.config.rules.sightings.as_ref().is_some_and(|rules| {
            let horizon = self.timer.horizon(&self.config);
            self.sightings.elder_seen_since(token, born, horizon, rules, now).is_some()
        })
    }

    pub(super) fn hear(&mut self, from: MemberId, hearsay: &Hearsay, said_at: Time, now: Time) {
        for &sighting in hearsay.iter().flatten() {
            let Some(rules) = &self.config.rules.sightings else { return };
            if let Some(at) = self.sightings.heard(sighting, rules, said_at) {
                self.timer.news(&self.config, &mut self.rng, at);
            }
            self.hear_of_token_in_custody(from, sighting, said_at);
        }
        if let Some(hold) = &self.hold
            && self.elder_was_seen(hold.token.id, hold.born(), now)
        {
            self.discard(Spurious::ElderSeen);
        }
    }

    /// A sighting in a later session than that of our handoff. Only holders speak of an age of zero: if one does that is
    /// not our taker, the token was handed on, even if the release was lost. Otherwise the taker may have kept it.
    fn hear_of_token_in_custody(&mut self, from: MemberId, sighting: Sighting, said_at: Time) {
        let Some(custody) = &mut self.custody else { return };
        if custody.token != sighting.token || custody.session >= sighting.session {
            return;
        }
        if sighting.age.is_zero() && from != custody.taker {
            self.custody = None;
        } else {
            custody.seen_alive(&self.config, said_at - sighting.age);
        }
    }

    /// Whether another member was heard recently. A holder that is heard but hears nothing can neither pass its token on
    /// nor learn that others want it: it must not keep the others from making a new one.
    fn hears_others(&self, now: Time) -> bool {
        self.patience_with_others().is_none_or(|patience| now.since(self.heard_at) < patience)
    }

    pub(super) fn patience_with_others(&self) -> Option<Duration> {
        let timeout = self.round_trips.map_or(Duration::ZERO, RoundTrip::timeout);
        hold::patience(timeout, &self.config)
    }

    /// How long others take to answer, at most. As long as nobody has answered that is a guess.
    pub(super) fn answers_within(&self) -> Duration {
        self.round_trips.map_or(FIRST_TIMEOUT, RoundTrip::timeout)
    }

    /// How long a token that only rests waits for the first answer to the scouts.
    pub(super) fn scouting_patience(&self, rules: &rules::Scouting) -> Duration {
        let usual = rules.patience.min(self.config.slot);
        match self.round_trips {
            Some(known) => usual.max(known.timeout()).min(LONGEST_PATIENCE.max(usual)),
            None => FIRST_TIMEOUT.min(self.config.slot),
        }
    }

    /// What this member has seen and heard of tokens.
    pub fn hearsay(&self, now: Time) -> Hearsay {
        if self.config.rules.sightings.is_none() {
            return Hearsay::default();
        }
        let mut sightings = self.sightings.clone();
        if let Some(hold) = self.hold.as_ref().filter(|_| self.hears_others(now)) {
            sightings.saw(hold.token.id, hold.token.session, now);
        }
        sightings.tell(now)
    }
}
