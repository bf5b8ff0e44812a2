//! Who a member is, which circle and which token this is, how often it was offered, and where it was seen last.

use std::fmt;
use std::time::Duration;

/// A circle's identity: 16 bytes that stand for its authority's public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CircleId([u8; 16]);

impl CircleId {
    /// The identity with these bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The identity's bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for CircleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().take(4).try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A member's identity: 16 bytes that stand for its public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId([u8; 16]);

impl MemberId {
    /// The identity with these bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The identity's bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for MemberId {
    /// The first eight hexadecimal digits: enough to tell members of one circle apart in a log line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().take(4).try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A token's identity. The order is that of the papers: the one created first is the elder, and survives.
///
/// The field order matters, it is the order of comparison: wall time of creation, then generator, then chance.
/// Wall time only orders tokens; any order on which all members agree would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenId {
    /// Wall time of creation at the generator, in milliseconds since 1970.
    pub created_ms: u64,
    /// The member that made it.
    pub generator: MemberId,
    /// Tells apart what one generator made within a millisecond.
    pub random: u64,
}

impl TokenId {
    /// Whether this token is the elder of the two, the one that survives when they meet.
    pub fn is_elder_than(&self, other: &Self) -> bool {
        self < other
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{:08x}", self.created_ms, self.generator, self.random >> 32)
    }
}

/// How often a token was offered since its generation. It increases with every attempt to hand the token off, so it
/// also tells which of two reports about one token is the later one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Session(pub u64);

impl Session {
    /// The session of the next attempt; `None` when the numbers are used up, which ends the token.
    pub fn next(self) -> Option<Self> {
        self.0.checked_add(1).map(Self)
    }
}

impl fmt::Display for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// What a taker makes for one handoff, and only this run of it could have made: the second of the taker's clock at which
/// it was issued, and a tag. Or what a question bears and its answer repeats: the question's number, and chance. 16 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nonce([u8; 16]);

impl Nonce {
    /// The nonce with these bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The nonce of a question with this number. The rest is chance, so that nobody can answer what it was not asked.
    pub fn of_question(sequence: u64, chance: u64) -> Self {
        Self(((u128::from(sequence) << 64) | u128::from(chance)).to_be_bytes())
    }

    /// The number in the nonce of a question.
    pub fn sequence(&self) -> u64 {
        u64::try_from(u128::from_be_bytes(self.0) >> 64).unwrap_or(u64::MAX)
    }

    /// The nonce's bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

/// One token, as last seen by somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Which token.
    pub token: TokenId,
    /// In which session: a later session is later news, whatever ages are claimed.
    pub session: Session,
    /// How long ago.
    pub age: Duration,
}

/// How many tokens a member remembers and tells of. One would do if tokens never died: the sighting of a lost elder
/// token must not push out that of the one which lives.
pub const SIGHTINGS: usize = 2;

/// What one member tells another about tokens.
pub type Hearsay = [Option<Sighting>; SIGHTINGS];

#[cfg(test)]
mod tests {
    use super::*;

    fn token(created_ms: u64, generator: u8, random: u64) -> TokenId {
        TokenId { created_ms, generator: MemberId::from_bytes([generator; 16]), random }
    }

    #[test]
    fn precedence_goes_by_creation_then_generator_then_chance() {
        assert!(token(1, 9, 9).is_elder_than(&token(2, 0, 0)));
        assert!(token(1, 1, 9).is_elder_than(&token(1, 2, 0)));
        assert!(token(1, 1, 1).is_elder_than(&token(1, 1, 2)));
        assert!(!token(1, 1, 1).is_elder_than(&token(1, 1, 1)), "no token is its own elder");
    }

    #[test]
    fn sessions_end_instead_of_wrapping() {
        assert_eq!(Session(7).next(), Some(Session(8)));
        assert_eq!(Session(u64::MAX).next(), None);
    }
}
