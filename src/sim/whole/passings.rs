//! Handoffs that are under way, and why those that never ended did not.

use std::collections::BTreeMap;

use crate::base::{Session, Time, TokenId};

/// How far an attempt has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The giver still has the token.
    Offered,
    /// The giver has let go: the token is nowhere but on its way.
    Released,
    /// And has repeated its Commit for long enough.
    Abandoned,
}

/// One attempt to hand a token over, from its first Move on.
#[derive(Debug)]
struct Passing {
    giver: usize,
    taker: usize,
    offered_at: Time,
    stage: Stage,
    /// Giver or taker crashed since the Move.
    saw_crash: bool,
    /// Giver or taker turned out to be no member any more.
    saw_expulsion: bool,
}

impl Passing {
    fn is_released(&self) -> bool {
        self.stage != Stage::Offered
    }

    fn concerns(&self, member: usize) -> bool {
        self.giver == member || self.taker == member
    }
}

/// Tokens that ended on their way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Losses {
    /// Between two members of which neither crashed nor was expelled.
    pub(super) plain: u64,
    /// One of them crashed.
    pub(super) by_crash: u64,
    /// One of them was banned or had expired.
    pub(super) by_ban: u64,
}

/// All attempts of which it is not known that they succeeded.
#[derive(Debug, Default)]
pub(super) struct Passings(BTreeMap<(TokenId, Session), Passing>);

impl Passings {
    /// A Move left. Attempts with the same token that came to nothing are forgotten.
    pub(super) fn offered(&mut self, token: TokenId, session: Session, giver: usize, taker: usize, at: Time) {
        self.forget_offers(token, session);
        self.0.entry((token, session)).or_insert(Passing {
            giver,
            taker,
            offered_at: at,
            stage: Stage::Offered,
            saw_crash: false,
            saw_expulsion: false,
        });
    }

    /// The giver lets go; gives the time of its first Move.
    pub(super) fn released(&mut self, token: TokenId, session: Session) -> Option<Time> {
        let passing = self.0.get_mut(&(token, session))?;
        passing.stage = Stage::Released;
        Some(passing.offered_at)
    }

    /// The taker has it.
    pub(super) fn accepted(&mut self, token: TokenId, session: Session) {
        self.0.remove(&(token, session));
        self.forget_offers(token, session);
    }

    /// The giver gives up repeating. The token may still arrive.
    pub(super) fn abandoned(&mut self, token: TokenId, session: Session) {
        if let Some(passing) = self.0.get_mut(&(token, session)) {
            passing.stage = Stage::Abandoned;
        }
    }

    /// The member crashed.
    pub(super) fn crashed(&mut self, member: usize) {
        for passing in self.0.values_mut().filter(|passing| passing.concerns(member)) {
            passing.saw_crash = true;
        }
    }

    /// The member was banned, by whomever that is known, or has expired.
    pub(super) fn expelled(&mut self, member: usize) {
        for passing in self.0.values_mut().filter(|passing| passing.concerns(member)) {
            passing.saw_expulsion = true;
        }
    }

    /// Tokens that are on their way.
    pub(super) fn under_way(&self) -> impl Iterator<Item = TokenId> {
        self.0.iter().filter(|(_, passing)| passing.is_released()).map(|((token, _), _)| *token)
    }

    /// Giver and taker of each token that is on its way, is still repeated, and has no reason to get lost.
    pub(super) fn undisturbed(&self) -> impl Iterator<Item = (usize, usize)> {
        let is_undisturbed = |passing: &&Passing| {
            passing.stage == Stage::Released && !passing.saw_crash && !passing.saw_expulsion
        };
        self.0.values().filter(is_undisturbed).map(|passing| (passing.giver, passing.taker))
    }

    /// What never arrived, and why; asked at the end. What is neither abandoned nor disturbed may still arrive.
    pub(super) fn losses(&self) -> Losses {
        let mut losses = Losses::default();
        for passing in self.0.values().filter(|passing| passing.is_released()) {
            if passing.saw_crash {
                losses.by_crash += 1;
            } else if passing.saw_expulsion {
                losses.by_ban += 1;
            } else if passing.stage == Stage::Abandoned {
                losses.plain += 1;
            }
        }
        losses
    }

    fn forget_offers(&mut self, token: TokenId, before: Session) {
        self.0.retain(|(other, session), passing| {
            *other != token || *session >= before || passing.is_released()
        });
    }
}
