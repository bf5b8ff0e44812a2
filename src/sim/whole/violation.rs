//! What can be broken: one promise each, with who broke it and when.

use std::time::Duration;

use crate::base::{Session, Ticket, Time, TokenId};
use crate::sim::tickets;

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
    /// A token came from somebody who is no member in the taker's eyes.
    #[error(
        "{at}: member {member} took token {token} from {outsider}, which it knows to be banned or expired"
    )]
    TakenFromOutsider {
        /// When.
        at: Time,
        /// Who.
        member: usize,
        /// From whom.
        outsider: usize,
        /// Which token.
        token: TokenId,
    },
    /// A token went to somebody who is no member in the giver's eyes.
    #[error("{at}: member {member} gave token {token} to {outsider}, which it knows to be banned or expired")]
    GivenToOutsider {
        /// When.
        at: Time,
        /// Who.
        member: usize,
        /// To whom.
        outsider: usize,
        /// Which token.
        token: TokenId,
    },
    /// Who learnt that it is no member any more goes on holding.
    #[error("{at}: member {member} holds token {token}, and knows that it is banned or expired itself")]
    HeldByOutsider {
        /// When.
        at: Time,
        /// Who.
        member: usize,
        /// Which token.
        token: TokenId,
    },
    /// A sighting that cannot be.
    #[error(
        "{at}: member {member} believes that token {token} was seen at {seen}, but nobody had it after {last}"
    )]
    SeenAfterItsEnd {
        /// When.
        at: Time,
        /// Who.
        member: usize,
        /// Which token.
        token: TokenId,
        /// When it is said to have been seen.
        seen: Time,
        /// When somebody had it last.
        last: Time,
    },
    /// Who learnt that it is no member any more goes on using its ticket.
    #[error("{at}: member {member} uses ticket {ticket}, and knows that it is banned or expired itself")]
    UsedByOutsider {
        /// When.
        at: Time,
        /// Who.
        member: usize,
        /// Which ticket.
        ticket: Ticket,
    },
    /// A promise of the ring.
    #[error(transparent)]
    Ring(#[from] tickets::Violation),
    /// The ring is not whole.
    #[error("{at}: the faults are over, and ticket {ticket} has been nobody's for long")]
    NobodysTicket {
        /// When.
        at: Time,
        /// Which ticket.
        ticket: Ticket,
    },
    /// I4: a pull goes on after the end of its slot.
    #[error("{at}: member {member} still pulls, though its slot ended at {until}")]
    SlotOverran {
        /// When.
        at: Time,
        /// Who.
        member: usize,
        /// When the slot ended.
        until: Time,
    },
    /// Two tokens do not find each other.
    #[error("{at}: the faults are over, and two different tokens were in use for {lasted:?} since")]
    TwoTokensInUse {
        /// When.
        at: Time,
        /// How long.
        lasted: Duration,
    },
    /// I8: no member makes a new token.
    #[error("{at}: there is no token since {since}, and nobody makes one")]
    NotRecovered {
        /// When.
        at: Time,
        /// Since when.
        since: Time,
    },
    /// Others are served again and again, and one member is not.
    #[error("{at}: the faults are over, and member {member} waits while others had {others} slots")]
    Starved {
        /// When.
        at: Time,
        /// Who.
        member: usize,
        /// How many slots others had since its last one.
        others: usize,
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
    /// News of the authority do not reach everybody.
    #[error("{at}: the faults are over, and member {member} has not heard of the newest bans")]
    BansNotHeard {
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
    /// Whether one token, or one ticket, was at two places.
    pub fn is_duplicate(&self) -> bool {
        match self {
            Self::TwoHolders { .. } | Self::TwoPulls { .. } => true,
            Self::Ring(violation) => violation.is_duplicate(),
            _ => false,
        }
    }
}
