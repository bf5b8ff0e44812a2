//! The checkers: what must hold after every event, whatever the network and the members do.
//!
//! They keep their own books, from what nodes are seen to do, and do not trust what nodes think.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::{Session, Time, TokenId};

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// I1.
    #[error("{at}: token {token} is held by members {first} and {second}")]
    TwoHolders {
        /// When.
        at: Time,
        /// Which token.
        token: TokenId,
        /// One holder.
        first: usize,
        /// The other.
        second: usize,
    },
    /// I2.
    #[error("{at}: member {member} accepted token {token} in session {session} after session {before}")]
    SessionNotNewer {
        /// When.
        at: Time,
        /// Who.
        member: usize,
        /// Which token.
        token: TokenId,
        /// The session accepted.
        session: Session,
        /// The session accepted before.
        before: Session,
    },
    /// I4.
    #[error("{at}: member {member} let go of token {token} while it still pulled")]
    PullOutlivesHandoff {
        /// When.
        at: Time,
        /// Who.
        member: usize,
        /// Which token.
        token: TokenId,
    },
    /// I4.
    #[error("{at}: members {first} and {second} pull by one token {token}")]
    TwoPulls {
        /// When.
        at: Time,
        /// Which token.
        token: TokenId,
        /// One.
        first: usize,
        /// The other.
        second: usize,
    },
    /// I7.
    #[error("{at}: member {member} holds a token {token} that nobody gave it since it started")]
    HeldAfterRestart {
        /// When.
        at: Time,
        /// Who.
        member: usize,
        /// Which token.
        token: TokenId,
    },
    /// I8.
    #[error("{at}: the faults are over, and {tokens} tokens are alive")]
    NotOneToken {
        /// When.
        at: Time,
        /// How many.
        tokens: usize,
    },
    /// I8.
    #[error("{at}: the faults are over, and member {member} was not served")]
    NotServed {
        /// When.
        at: Time,
        /// Who.
        member: usize,
    },
    /// The directories do not hang together.
    #[error("{at}: from member {member} not everybody can be reached through directories")]
    Disconnected {
        /// When.
        at: Time,
        /// From whom.
        member: usize,
    },
}

impl Violation {
    /// Whether one token was at two places.
    pub fn is_duplicate(&self) -> bool {
        matches!(self, Self::TwoHolders { .. } | Self::TwoPulls { .. })
    }
}

/// The books.
#[derive(Debug, Default)]
pub(super) struct Checks {
    holders: BTreeMap<TokenId, usize>,
    sessions: BTreeMap<TokenId, Session>,
    /// Sessions accepted, to tell a lost Commit from a lost EarlyStop.
    accepted: BTreeSet<(TokenId, Session)>,
    pulls: BTreeMap<usize, TokenId>,
    violations: Vec<Violation>,
}

impl Checks {
    pub(super) fn violations(&self) -> &[Violation] {
        &self.violations
    }

    pub(super) fn complain(&mut self, violation: Violation) {
        self.violations.push(violation);
    }

    pub(super) fn generated(&mut self, member: usize, token: TokenId, at: Time) {
        self.gain(member, token, at);
    }

    pub(super) fn arrived(&mut self, member: usize, token: TokenId, session: Session, at: Time) {
        if let Some(&before) = self.sessions.get(&token)
            && session <= before
        {
            self.complain(Violation::SessionNotNewer { at, member, token, session, before });
        }
        self.sessions.insert(token, session);
        self.accepted.insert((token, session));
        self.gain(member, token, at);
    }

    fn gain(&mut self, member: usize, token: TokenId, at: Time) {
        if let Some(&first) = self.holders.get(&token)
            && first != member
        {
            self.complain(Violation::TwoHolders { at, token, first, second: member });
        }
        self.holders.insert(token, member);
    }

    pub(super) fn released(&mut self, member: usize, token: TokenId, at: Time) {
        if self.pulls.get(&member) == Some(&token) {
            self.complain(Violation::PullOutlivesHandoff { at, member, token });
        }
        self.ended(member, token);
    }

    /// The token is no longer this member's.
    pub(super) fn ended(&mut self, member: usize, token: TokenId) {
        if self.holders.get(&token) == Some(&member) {
            self.holders.remove(&token);
        }
    }

    /// Whether a Commit that was given up had been accepted.
    pub(super) fn was_accepted(&self, token: TokenId, session: Session) -> bool {
        self.accepted.contains(&(token, session))
    }

    pub(super) fn pull_began(&mut self, member: usize, token: TokenId, at: Time) {
        let other = self.pulls.iter().find(|(other, by)| **by == token && **other != member);
        if let Some((&first, _)) = other {
            self.complain(Violation::TwoPulls { at, token, first, second: member });
        }
        self.pulls.insert(member, token);
    }

    pub(super) fn pull_ended(&mut self, member: usize) {
        self.pulls.remove(&member);
    }

    /// The member is gone, and what it held with it; gives the tokens.
    pub(super) fn crashed(&mut self, member: usize) -> Vec<TokenId> {
        self.pulls.remove(&member);
        let held: Vec<TokenId> =
            self.holders.iter().filter(|(_, holder)| **holder == member).map(|(token, _)| *token).collect();
        for token in &held {
            self.holders.remove(token);
        }
        held
    }

    /// What a node thinks it holds must be what it was seen to get.
    pub(super) fn claims(&mut self, member: usize, token: TokenId, at: Time) {
        match self.holders.get(&token) {
            Some(&holder) if holder == member => {}
            Some(&first) => self.complain(Violation::TwoHolders { at, token, first, second: member }),
            None => self.complain(Violation::HeldAfterRestart { at, member, token }),
        }
    }

    pub(super) fn tokens_alive(&self) -> usize {
        self.holders.len()
    }
}
