//! The fixed front of every datagram: which kind it is, who says it to whom, about which token.
//!
//! Here are the values and their bytes. Which header is acceptable, the [envelope](super::Envelope) decides; what
//! it means, the protocol's machines.
//!
//! | offset | bytes | what |
//! |---:|---:|---|
//! | 0 | 4 | magic, `strl` |
//! | 4 | 1 | version, 3 |
//! | 5 | 1 | kind |
//! | 6 | 2 | flags: bit 0 a certificate follows, bit 1 padded; the others are zero |
//! | 8 | 16 | circle |
//! | 24 | 16 | sender |
//! | 40 | 16 | receiver |
//! | 56 | 32 | token: created_ms 8, generator 16, random 8 |
//! | 88 | 8 | session |
//! | 96 | 16 | nonce: of a handoff, made by the taker; of a question, its sequence 8 and chance 8, and of its answer the same |

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use crate::base::{CircleId, MemberId, Nonce, Session, TokenId};

use super::codec::{Malformed, Reader, Writer};

/// The first bytes of every datagram: a filter in front of the socket can go by them.
pub const MAGIC: [u8; 4] = *b"strl";

/// The only version that is spoken. In the first, a scout did not say to which run of its receiver it was; in the second, a
/// question about a ticket did not say whether it was a reminder.
pub const VERSION: u8 = 3;

/// The token in datagrams that are about none.
pub const NO_TOKEN: TokenId = TokenId { created_ms: 0, generator: MemberId::from_bytes([0; 16]), random: 0 };

/// The receiver of a datagram to whoever is at an address: how a newcomer speaks to members that it does not know yet.
/// Only a [`Kind::Scout`] and a [`Kind::Enrol`] may be addressed so; repeating one to somebody else does no harm.
pub const ANYONE: MemberId = MemberId::from_bytes([0; 16]);

/// What a datagram says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Giver to taker: may I hand you this token?
    Move = 1,
    /// Taker to giver: yes, with this nonce.
    Ack = 2,
    /// Giver to taker: it is yours.
    Commit = 3,
    /// Taker to giver: I have it, stop repeating.
    EarlyStop = 4,
    /// Holder to others: how long did you wait, what have you seen?
    Scout = 5,
    /// The answer to a scout.
    Report = 6,
    /// Giver to the custodian from whom it had the token: it went on.
    Release = 7,
    /// Custodian to the one in its custody: do you still have it?
    Check = 8,
    /// The answer: yes.
    Holding = 9,
    /// The answer: it went on, in this session.
    Passed = 10,
    /// A member goes.
    Leave = 11,
    /// The circle's constants.
    Charter = 12,
    /// Who is no longer a member.
    Bans = 13,
    /// Somebody asks to become a member.
    Enrol = 14,
    /// The answer: you are one.
    Enrolled = 15,
    /// A member whose certificate ends soon asks for another one.
    Renew = 16,
    /// The answer: here it is.
    Renewed = 17,
    /// About tickets: which message, its body says.
    Ticket = 18,
    /// A member has something to pull.
    Demand = 19,
}

impl Kind {
    /// All kinds, in the order of their bytes, which begin with 1.
    pub const ALL: [Self; 19] = [
        Self::Move,
        Self::Ack,
        Self::Commit,
        Self::EarlyStop,
        Self::Scout,
        Self::Report,
        Self::Release,
        Self::Check,
        Self::Holding,
        Self::Passed,
        Self::Leave,
        Self::Charter,
        Self::Bans,
        Self::Enrol,
        Self::Enrolled,
        Self::Renew,
        Self::Renewed,
        Self::Ticket,
        Self::Demand,
    ];

    pub(super) fn from_byte(byte: u8) -> Option<Self> {
        let index = usize::from(byte).checked_sub(1)?;
        Self::ALL.get(index).copied()
    }

    /// For metrics and log lines.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Move => "move",
            Self::Ack => "ack",
            Self::Commit => "commit",
            Self::EarlyStop => "early_stop",
            Self::Scout => "scout",
            Self::Report => "report",
            Self::Release => "release",
            Self::Check => "check",
            Self::Holding => "holding",
            Self::Passed => "passed",
            Self::Leave => "leave",
            Self::Charter => "charter",
            Self::Bans => "bans",
            Self::Enrol => "enrol",
            Self::Enrolled => "enrolled",
            Self::Renew => "renew",
            Self::Renewed => "renewed",
            Self::Ticket => "ticket",
            Self::Demand => "demand",
        }
    }

    /// Whether the header's token and session mean something; otherwise they are zero.
    pub const fn has_token(self) -> bool {
        matches!(
            self,
            Self::Move
                | Self::Ack
                | Self::Commit
                | Self::EarlyStop
                | Self::Release
                | Self::Check
                | Self::Holding
                | Self::Passed
        )
    }

    /// Whether the header's nonce means something; otherwise it is zero.
    pub const fn has_nonce(self) -> bool {
        matches!(self, Self::Ack | Self::Commit | Self::EarlyStop)
            || self.is_numbered()
            || self.answers().is_some()
    }

    /// Whether it is a question with a number: its nonce begins with one that is higher than those of all questions that
    /// its sender asked before, so that a recorded one is known for what it is. So does all that is said about tickets.
    pub const fn is_numbered(self) -> bool {
        matches!(self, Self::Scout | Self::Check | Self::Renew | Self::Ticket | Self::Demand)
    }

    /// The numbered question to which it is an answer, with that question's nonce.
    pub const fn answers(self) -> Option<Self> {
        match self {
            Self::Report => Some(Self::Scout),
            Self::Holding | Self::Passed => Some(Self::Check),
            Self::Renewed => Some(Self::Renew),
            _ => None,
        }
    }

    /// Whether it may be addressed to [`ANYONE`].
    pub const fn may_be_to_anyone(self) -> bool {
        matches!(self, Self::Scout | Self::Enrol)
    }

    /// Whether it is a question whose answer may be longer than what it has to say, and which is padded therefore.
    pub const fn may_be_padded(self) -> bool {
        matches!(self, Self::Move | Self::Scout | Self::Enrol | Self::Renew)
    }
}

/// The fixed front of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What it says.
    pub kind: Kind,
    /// In which circle.
    pub circle: CircleId,
    /// Who says it.
    pub sender: MemberId,
    /// To whom.
    pub receiver: MemberId,
    /// About which token; [`NO_TOKEN`] in kinds that are about none.
    pub token: TokenId,
    /// In which session of it; zero in kinds that are about no token.
    pub session: Session,
    /// Made by the taker, or by who asks; zero in kinds that have none.
    pub nonce: Nonce,
}

impl Header {
    /// A header about no token, from `sender` to `receiver`.
    pub fn bare(kind: Kind, circle: CircleId, sender: MemberId, receiver: MemberId) -> Self {
        Self {
            kind,
            circle,
            sender,
            receiver,
            token: NO_TOKEN,
            session: Session::default(),
            nonce: Nonce::default(),
        }
    }

    /// Whether everything that its kind does not use is zero: a message is written in one way only. Nobody is
    /// [`ANYONE`]: it can be spoken to, but does not speak.
    pub(super) fn is_canonical(&self) -> bool {
        let token = self.kind.has_token() || (self.token == NO_TOKEN && self.session == Session::default());
        let nonce = self.kind.has_nonce() || self.nonce == Nonce::default();
        token && nonce && self.sender != ANYONE
    }

    pub(super) fn write(&self, flags: Flags, out: &mut Writer) {
        out.bytes(&MAGIC).u8(VERSION).u8(self.kind as u8).u16(flags.bits());
        out.bytes(self.circle.as_bytes()).bytes(self.sender.as_bytes()).bytes(self.receiver.as_bytes());
        write_token(&self.token, out);
        out.u64(self.session.0).bytes(self.nonce.as_bytes());
    }

    /// Reads what comes after the flags.
    pub(super) fn read(kind: Kind, input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            kind,
            circle: CircleId::from_bytes(input.array()?),
            sender: MemberId::from_bytes(input.array()?),
            receiver: MemberId::from_bytes(input.array()?),
            token: read_token(input)?,
            session: Session(input.u64()?),
            nonce: Nonce::from_bytes(input.array()?),
        })
    }
}

pub(super) fn write_token(token: &TokenId, out: &mut Writer) {
    out.u64(token.created_ms).bytes(token.generator.as_bytes()).u64(token.random);
}

pub(super) fn read_token(input: &mut Reader<'_>) -> Result<TokenId, Malformed> {
    Ok(TokenId {
        created_ms: input.u64()?,
        generator: MemberId::from_bytes(input.array()?),
        random: input.u64()?,
    })
}

/// What besides the body is in a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flags {
    pub(super) certificate: bool,
    pub(super) padded: bool,
}

impl Flags {
    const CERTIFICATE: u16 = 1;
    const PADDED: u16 = 1 << 1;

    fn bits(self) -> u16 {
        let certificate = if self.certificate { Self::CERTIFICATE } else { 0 };
        let padded = if self.padded { Self::PADDED } else { 0 };
        certificate | padded
    }

    /// `None` if a flag is set that does not exist, or not for this kind.
    pub(super) fn from_bits(bits: u16, kind: Kind) -> Option<Self> {
        let flags = Self { certificate: bits & Self::CERTIFICATE != 0, padded: bits & Self::PADDED != 0 };
        (flags.bits() == bits && flags.suits(kind)).then_some(flags)
    }

    pub(super) fn suits(self, kind: Kind) -> bool {
        !self.padded || kind.may_be_padded()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_numbered_from_one_without_a_gap() {
        for (byte, kind) in (1..).zip(Kind::ALL) {
            assert_eq!(kind as u8, byte);
            assert_eq!(Kind::from_byte(byte), Some(kind));
        }
        assert_eq!(Kind::from_byte(0), None);
        assert!((20..=255).all(|byte| Kind::from_byte(byte).is_none()));
    }

    #[test]
    fn names_of_kinds_differ() {
        let names: std::collections::BTreeSet<_> = Kind::ALL.map(Kind::name).into();
        assert_eq!(names.len(), Kind::ALL.len());
    }

    #[test]
    fn flags_are_read_back_and_reserved_ones_refused() {
        for bits in 0..=u16::MAX {
            let flags = Flags::from_bits(bits, Kind::Move);
            assert_eq!(flags.map(Flags::bits), (bits < 4).then_some(bits));
        }
    }

    #[test]
    fn only_questions_may_be_padded() {
        let padded: Vec<_> =
            Kind::ALL.into_iter().filter(|&kind| Flags::from_bits(2, kind).is_some()).collect();
        assert_eq!(padded, [Kind::Move, Kind::Scout, Kind::Enrol, Kind::Renew]);
    }

    #[test]
    fn a_field_that_the_kind_does_not_use_must_be_zero() {
        let [a, b] = [1, 2].map(|byte| MemberId::from_bytes([byte; 16]));
        let token = TokenId { created_ms: 0, generator: a, random: 0 };
        for kind in Kind::ALL {
            let bare = Header::bare(kind, CircleId::from_bytes([9; 16]), a, b);
            assert!(bare.is_canonical(), "{kind:?}");
            assert_eq!(Header { token, ..bare }.is_canonical(), kind.has_token(), "{kind:?}");
            assert_eq!(Header { session: Session(1), ..bare }.is_canonical(), kind.has_token(), "{kind:?}");
            let nonce = Nonce::from_bytes([1; 16]);
            assert_eq!(Header { nonce, ..bare }.is_canonical(), kind.has_nonce(), "{kind:?}");
        }
    }

    #[test]
    fn the_bytes_are_where_the_table_says() {
        let header = Header {
            kind: Kind::Commit,
            circle: CircleId::from_bytes([1; 16]),
            sender: MemberId::from_bytes([2; 16]),
            receiver: MemberId::from_bytes([3; 16]),
            token: TokenId {
                created_ms: u64::from_be_bytes([4; 8]),
                generator: MemberId::from_bytes([5; 16]),
                random: u64::from_be_bytes([6; 8]),
            },
            session: Session(u64::from_be_bytes([7; 8])),
            nonce: Nonce::from_bytes([8; 16]),
        };
        let mut out = Writer::new();
        header.write(Flags { certificate: true, padded: false }, &mut out);
        let mut expected = b"strl\x03\x03\x00\x01".to_vec();
        for (byte, count) in [(1, 16), (2, 16), (3, 16), (4, 8), (5, 16), (6, 8), (7, 8), (8, 16)] {
            expected.extend(std::iter::repeat_n(byte, count));
        }
        assert_eq!(expected.len(), 112);
        assert_eq!(out.finish(), expected);
    }
}
