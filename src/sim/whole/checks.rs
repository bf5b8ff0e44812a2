//! The checkers: what must hold after every event, whatever the network and the members do.
//!
//! They keep their own books, from what nodes are seen to do, and do not trust what nodes think.

use std::collections::BTreeMap;

use crate::base::{Hearsay, Session, Time, TokenId};

use super::passings::{Losses, Passings};
use super::standing::Standing;
use super::violation::Violation;

/// The books.
#[derive(Debug, Default)]
pub(super) struct Checks {
    holders: BTreeMap<TokenId, usize>,
    sessions: BTreeMap<TokenId, Session>,
    /// When each token was in somebody's hands last.
    last_held: BTreeMap<TokenId, Time>,
    passings: Passings,
    pulls: BTreeMap<usize, TokenId>,
    standing: Standing,
    violations: Vec<Violation>,
}

impl Checks {
    pub(super) fn violations(&self) -> &[Violation] {
        &self.violations
    }

    pub(super) fn complain(&mut self, violation: Violation) {
        self.violations.push(violation);
    }

    // --- tokens -----------------------------------------------------------------------------------------------

    pub(super) fn generated(&mut self, member: usize, token: TokenId, at: Time) {
        self.gain(member, token, at);
    }

    /// A Move left, for the first time or again.
    pub(super) fn offered(&mut self, giver: usize, taker: usize, token: TokenId, session: Session, at: Time) {
        self.passings.offered(token, session, giver, taker, at);
        if self.standing.is_banned(giver) || self.standing.is_banned(taker) {
            self.passings.expelled(giver);
        }
    }

    pub(super) fn arrived(&mut self, member: usize, from: usize, token: TokenId, session: Session, at: Time) {
        if let Some(&before) = self.sessions.get(&token)
            && session <= before
        {
            self.complain(Violation::SessionNotNewer { at, member, token, session, before });
        }
        if self.standing.knows_banned(member, from) || self.standing.sees_expired(member, from, at) {
            self.complain(Violation::TakenFromOutsider { at, member, outsider: from, token });
        }
        self.sessions.insert(token, session);
        self.passings.accepted(token, session);
        self.gain(member, token, at);
    }

    fn gain(&mut self, member: usize, token: TokenId, at: Time) {
        if let Some(&first) = self.holders.get(&token)
            && first != member
        {
            self.complain(Violation::TwoHolders { at, token, first, second: member });
        }
        self.holders.insert(token, member);
        // It may be discarded in the same breath.
        self.last_held.insert(token, at);
    }

    pub(super) fn released(&mut self, member: usize, to: usize, token: TokenId, session: Session, at: Time) {
        if self.pulls.get(&member) == Some(&token) {
            self.complain(Violation::PullOutlivesHandoff { at, member, token });
        }
        let offered_at = self.passings.released(token, session);
        self.last_held.insert(token, at);
        // Between the Move and here a certificate may expire: its owner was a member when it said yes.
        let was_expired = offered_at.is_some_and(|then| self.standing.sees_expired(member, to, then));
        if self.standing.knows_banned(member, to) || was_expired {
            self.complain(Violation::GivenToOutsider { at, member, outsider: to, token });
        }
        self.ended(member, token);
    }

    pub(super) fn abandoned(&mut self, token: TokenId, session: Session) {
        self.passings.abandoned(token, session);
    }

    /// The token is no longer this member's.
    pub(super) fn ended(&mut self, member: usize, token: TokenId) {
        if self.holders.get(&token) == Some(&member) {
            self.holders.remove(&token);
        }
    }

    pub(super) fn pull_began(&mut self, member: usize, token: TokenId, at: Time) {
        let other = self.pulls.iter().find(|(other, by)| **by == token && **other != member);
        if let Some((&first, _)) = other {
            self.complain(Violation::TwoPulls { at, token, first, second: member });
        }
        self.pulls.insert(member, token);
    }

    /// How many members pull.
    pub(super) fn pulling(&self) -> usize {
        self.pulls.len()
    }

    pub(super) fn pull_ended(&mut self, member: usize) {
        self.pulls.remove(&member);
    }

    /// The member is gone, and what it held with it; gives how many tokens that were.
    pub(super) fn crashed(&mut self, member: usize) -> u64 {
        self.pulls.remove(&member);
        self.passings.crashed(member);
        self.empty_hands(member)
    }

    fn empty_hands(&mut self, member: usize) -> u64 {
        let before = self.holders.len();
        self.holders.retain(|_, holder| *holder != member);
        (before - self.holders.len()) as u64
    }

    /// What a node can pull by or hand off must be what it was seen to get. `holds` is asked for every token that is
    /// alive anywhere, and `token` is the one that the node says it has.
    pub(super) fn claims(
        &mut self,
        member: usize,
        token: Option<TokenId>,
        holds: impl Fn(TokenId) -> bool,
        at: Time,
    ) {
        let alive = self.holders.keys().copied().chain(self.passings.under_way());
        let mut claimed: Vec<TokenId> = alive.filter(|alive| holds(*alive)).chain(token).collect();
        claimed.dedup();
        for token in claimed {
            if self.standing.knows_itself_out(member, at) {
                self.complain(Violation::HeldByOutsider { at, member, token });
            }
            match self.holders.get(&token) {
                Some(&holder) if holder == member => {}
                Some(&first) => self.complain(Violation::TwoHolders { at, token, first, second: member }),
                None => self.complain(Violation::HeldAfterRestart { at, member, token }),
            }
        }
    }

    /// What a member takes to have been seen must have been there to be seen, whatever was recorded and played again: a sighting
    /// of a token that has ended proves good tokens spurious, and keeps the circle from missing the one that it lost.
    pub(super) fn believes(&mut self, member: usize, hearsay: &Hearsay, at: Time) {
        self.last_held.extend(self.holders.keys().map(|token| (*token, at)));
        for sighting in hearsay.iter().flatten() {
            let (token, seen) = (sighting.token, at - sighting.age);
            let last = self.last_held.get(&token).copied();
            if let Some(last) = last.filter(|last| seen > *last) {
                self.complain(Violation::SeenAfterItsEnd { at, member, token, seen, last });
            }
        }
    }

    /// Whether any token is in somebody's hands or about to be, of whoever.
    pub(super) fn is_any_alive(&self) -> bool {
        !self.holders.is_empty() || self.passings.undisturbed().next().is_some()
    }

    /// Tokens in the hands of those who stay members.
    pub(super) fn tokens_alive(&self) -> usize {
        self.holders.values().filter(|holder| !self.standing.goes(**holder)).count()
    }

    /// Tokens that one of those who stay has let go of, and another is about to have.
    pub(super) fn tokens_under_way(&self) -> usize {
        let is_among_members =
            |(giver, taker): &(usize, usize)| !self.standing.goes(*giver) && !self.standing.goes(*taker);
        self.passings.undisturbed().filter(is_among_members).count()
    }

    pub(super) fn losses(&self) -> Losses {
        self.passings.losses()
    }

    // --- members ----------------------------------------------------------------------------------------------

    pub(super) fn standing(&self) -> &Standing {
        &self.standing
    }

    pub(super) fn standing_mut(&mut self) -> &mut Standing {
        &mut self.standing
    }

    /// The authority bans a member: whoever hears this version of its list must have nothing to do with it.
    pub(super) fn banned(&mut self, member: usize, version: u32) {
        self.standing.ban(member, version);
        self.passings.expelled(member);
    }

    /// The member says that it goes, because it is no member any more; gives how many tokens went with it.
    pub(super) fn expelled(&mut self, member: usize) -> u64 {
        self.passings.expelled(member);
        self.empty_hands(member)
    }
}
