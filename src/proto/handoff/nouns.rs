//! The handoff's nouns: what goes in, what comes out, what one member says to another.

use std::fmt;
use std::time::Duration;

use crate::base::{MemberId, Nonce, Session, TokenId};

/// What one member says to another. Token and session stand beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Message {
    /// Would you take it?
    Move,
    /// Yes. A Commit with this nonce will be believed.
    Ack(Nonce),
    /// It is yours.
    Commit(Nonce),
    /// I have it, stop repeating.
    EarlyStop(Nonce),
}

/// A message that came in, addressed to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Received {
    /// Who signed it.
    pub from: MemberId,
    /// Which token it is about.
    pub token: TokenId,
    /// Which attempt to hand it off.
    pub session: Session,
    /// What it says.
    pub message: Message,
}

/// What happens to a member.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// Time has passed. Harmless at any moment.
    Wake,
    /// A token was made here: we hold it, in session 0.
    Generated {
        /// The new token.
        token: TokenId,
    },
    /// Hand it to this member. Ignored unless we hold it and it is not on offer yet.
    Offer {
        /// Which token.
        token: TokenId,
        /// To whom.
        taker: MemberId,
        /// How long to wait for that member's answer, if round trips to it were measured.
        timeout: Option<Duration>,
    },
    /// We keep it for another slot, in this session: as if we had handed it to ourselves. Ignored unless we hold it, it is
    /// not on offer, and the session is higher than all that we have used for it.
    Renewed {
        /// Which token.
        token: TokenId,
        /// The new session.
        session: Session,
    },
    /// The pull has ended: what [`Output::StopSlot`] ordered is done, and no byte will be read any more.
    SlotStopped {
        /// By which token we pulled.
        token: TokenId,
    },
    /// The token was found spurious, or must go because we are banned or expired: we hold it no longer. Whoever says so
    /// has ended the pull that ran by it.
    Discard {
        /// Which token.
        token: TokenId,
    },
    /// This member is none any more. What it was offered, and even what it said yes to, stays here: without the Commit it
    /// has nothing. What was committed to it is gone.
    Banned {
        /// Who.
        member: MemberId,
    },
    /// A message that has passed gate and signature.
    Received(Received),
    /// The computer slept, or its clocks jumped. The boot secret is replaced in every case: after a jump nobody can tell
    /// whether this process is the only one with the old one (a virtual machine that was rolled back).
    Slept {
        /// For how long; [`Duration::MAX`] if that cannot be known, as after a jump.
        asleep: Duration,
        /// 32 fresh random bytes.
        fresh_secret: [u8; 32],
    },
    /// Whether a token would be welcome: we are not draining, and our own loop is healthy. At the start it is. A
    /// Commit is accepted in any case: to refuse it would lose the token.
    Open(bool),
}

impl fmt::Debug for Input {
    /// As derived, but for the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wake => f.write_str("Wake"),
            Self::Generated { token } => write!(f, "Generated({token:?})"),
            Self::Offer { token, taker, timeout } => {
                write!(f, "Offer({token:?}, {taker:?}, {timeout:?})")
            }
            Self::Renewed { token, session } => write!(f, "Renewed({token:?}, {session:?})"),
            Self::SlotStopped { token } => write!(f, "SlotStopped({token:?})"),
            Self::Discard { token } => write!(f, "Discard({token:?})"),
            Self::Banned { member } => write!(f, "Banned({member:?})"),
            Self::Received(received) => received.fmt(f),
            Self::Slept { asleep, .. } => write!(f, "Slept({asleep:?}, ..)"),
            Self::Open(open) => write!(f, "Open({open})"),
        }
    }
}

/// What a member wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send a message. An Ack and an EarlyStop go to where the datagram came from that they answer.
    Send {
        /// To whom.
        to: MemberId,
        /// Which token.
        token: TokenId,
        /// Which attempt.
        session: Session,
        /// What it says.
        message: Message,
        /// Whether our certificate goes along: from the second try on, in case the other has never seen it.
        with_certificate: bool,
    },
    /// End the pull by force, then say [`Input::SlotStopped`]; at once if none runs.
    StopSlot {
        /// By which token we pull.
        token: TokenId,
    },
    /// Something happened.
    Event(Event),
}

/// What happened: for the agent, the log, the checkers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// We accepted a Commit: we hold it.
    Arrived {
        /// Which token.
        token: TokenId,
        /// The session in which it was accepted.
        session: Session,
        /// Who had it before.
        from: MemberId,
    },
    /// We hold it no longer: the taker does, or soon will. Said right before the first Commit.
    Released {
        /// Which token.
        token: TokenId,
        /// The session of the handoff.
        session: Session,
        /// Who takes it.
        to: MemberId,
    },
    /// It was delivered: EarlyStop came, or a message of a later session, which only a holder can have caused.
    Confirmed {
        /// Which token.
        token: TokenId,
        /// The session of the handoff.
        session: Session,
        /// Who took it.
        to: MemberId,
    },
    /// No Move was answered (or the offer was to ourselves, or to somebody who was banned meanwhile). We still hold it.
    Unreachable {
        /// Which token.
        token: TokenId,
        /// Who does not answer.
        to: MemberId,
    },
    /// We hold it no longer, and nobody else does: it is lost. Not said for [`Input::Discard`].
    Dropped {
        /// Which token.
        token: TokenId,
        /// Why.
        because: Dropped,
    },
    /// The Commit was repeated long enough. Whether it was delivered is not known.
    CommitAbandoned {
        /// Which token.
        token: TokenId,
        /// The session of the handoff.
        session: Session,
        /// To whom.
        to: MemberId,
    },
    /// A Move, in a later session than ours, for a token that we hold: somebody cheats, or runs with a copied state.
    AuthorityConflict {
        /// Which token.
        token: TokenId,
        /// Who offers it.
        from: MemberId,
    },
}

/// Why a token ended here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// We slept for so long that the others may have replaced it.
    Slept,
    /// Its session numbers are used up.
    SessionsUsedUp,
    /// There are more tokens here than anybody should ever see.
    NoRoom,
}
