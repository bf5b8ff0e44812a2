//! What is on its way in a [`Circle`](super::Circle), and what is going to happen to it.

use crate::base::{Session, TokenId};
use crate::proto::agent::{Message, Token};

/// What is under way.
#[derive(Debug)]
pub(super) enum Parcel {
    Message {
        from: u32,
        to: u32,
        message: Message,
    },
    Offer {
        giver: u32,
        taker: u32,
    },
    Accept {
        giver: u32,
        taker: u32,
    },
    Refuse {
        giver: u32,
        taker: Option<u32>,
    },
    Token {
        giver: u32,
        taker: u32,
        token: Token,
    },
    Confirm {
        giver: u32,
        token: TokenId,
        session: Session,
    },
    Fault(Fault),
    Restart(u32),
    /// So many members join at once.
    Surge(usize),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    LoseToken,
    Crash,
    Join,
    Leave,
}
