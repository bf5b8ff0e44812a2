//! The agent's nouns: what goes in, what comes out, what one agent says to another.

use std::time::Duration;

use crate::base::{Hearsay, MemberId, Session, Time, TokenId};

/// A token on its way from one member to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// Which token.
    pub id: TokenId,
    /// The session in which it was accepted, or was kept for another slot.
    pub session: Session,
    /// How long it has lived: its holding times, added up.
    pub age: Duration,
}

/// What one agent says to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The holder asks how long you have waited; or somebody who has heard of no token for long, what you know.
    Scout {
        /// What the asking member knows of tokens.
        hearsay: Hearsay,
    },
    /// The answer to a scout.
    Report {
        /// How long ago the last slot began; `None` if there was none.
        waited: Option<Duration>,
        /// Whether there is something to pull.
        has_work: bool,
        /// What the member knows of tokens.
        hearsay: Hearsay,
    },
    /// The token that you handed to me in this session was handed on, or discarded: your custody ends.
    Release {
        /// Which token.
        token: TokenId,
        /// The session in which you handed it over.
        session: Session,
    },
    /// Do you still hold the token that I handed to you in this session?
    Check {
        /// Which token.
        token: TokenId,
        /// The session in which I handed it over.
        session: Session,
    },
    /// Yes, I do.
    Holding {
        /// Which token.
        token: TokenId,
        /// The session that was asked for.
        session: Session,
    },
    /// This member has something to pull: itself, or another one that told us.
    Demand {
        /// Which member.
        member: MemberId,
    },
    /// I had it, and handed it on.
    Passed {
        /// Which token.
        token: TokenId,
        /// The session that was asked for.
        session: Session,
    },
}

/// What happens to an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Time has passed. Harmless at any moment.
    Wake,
    /// A token was handed to us.
    Arrived {
        /// The token, with the session in which it was accepted.
        token: Token,
        /// Who had it before.
        from: MemberId,
    },
    /// The member to which the token was offered takes it. From now on it is no longer ours.
    Accepted {
        /// Who takes it.
        to: MemberId,
        /// The session of the handoff.
        session: Session,
        /// How long to wait for an answer of the taker before the question counts as lost. Zero for the rules' own least
        /// times.
        timeout: Duration,
    },
    /// The taker has confirmed that it holds the token.
    Confirmed {
        /// Which token.
        token: TokenId,
        /// The session of the handoff.
        session: Session,
    },
    /// Nobody takes the token: this member does not answer, or (`None`) there is nobody else.
    Unreachable {
        /// Who does not answer.
        member: Option<MemberId>,
    },
    /// The jobs have ended the slot before its time, and there may be more to pull in the next one.
    SlotDone,
    /// The token is no longer ours, for reasons that the agent does not see (the computer slept, the slot overran).
    Lost,
    /// This member did not listen for a while (its computer or its own loop stood still): what seemed to be others'
    /// silence may have been its own deafness, and proves nothing.
    Stalled,
    /// A message of another agent.
    Received {
        /// Who sent it.
        from: MemberId,
        /// What it says.
        message: Message,
        /// For the answer to a question of ours: how long ago we asked. What it tells was true at some moment since.
        round_trip: Option<Duration>,
    },
    /// Whether there is something to pull. At the start there is not.
    Work(bool),
    /// How many members the circle has, as far as is known, this one included. As long as nobody says, it is as many as
    /// the circle was laid out for.
    Members(u32),
}

/// What an agent wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send [`Agent::scout`](super::Agent::scout) to so many members drawn at random.
    Scout {
        /// How many members are asked.
        count: usize,
    },
    /// Send [`Message::Demand`] of this member itself to so many members drawn at random.
    Announce {
        /// How many members are told.
        count: usize,
    },
    /// Send a message.
    Send {
        /// To whom.
        to: MemberId,
        /// What.
        message: Message,
    },
    /// Hand the token off, to this member or (`None`) to one drawn at random.
    Offer {
        /// To whom.
        to: Option<MemberId>,
    },
    /// The handoff was accepted: this is what the taker gets.
    Pass {
        /// Who takes it.
        to: MemberId,
        /// The token.
        token: Token,
    },
    /// Something happened.
    Event(Event),
}

/// What happened at an agent: for the jobs, the statistics, the log, the checkers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A token came and was not discarded.
    Visited {
        /// Which token.
        token: TokenId,
    },
    /// The member may pull.
    SlotBegan {
        /// By which token.
        token: TokenId,
        /// Until when at most.
        until: Time,
    },
    /// The member must not pull any longer.
    SlotEnded,
    /// The token rests here without a slot.
    Skipped,
    /// The token stays for another slot. Its session advances, as in a handoff to oneself: what is heard of the token
    /// from now on can be told from recordings of what was said before.
    Kept {
        /// Which token.
        token: TokenId,
        /// The new session.
        session: Session,
    },
    /// This member made a new token.
    Generated {
        /// The new token.
        token: TokenId,
        /// Why it did.
        because: Origin,
    },
    /// A token was removed here.
    Discarded {
        /// Which token.
        token: TokenId,
        /// Why it is spurious.
        because: Spurious,
    },
}

/// Why a member made a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It founded the circle.
    Founded,
    /// Nothing was heard of any token for long.
    NoNews,
    /// The member to which it was handed does not answer.
    CustodyUnanswered,
}

/// Why a token is known to be spurious.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spurious {
    /// The early rule: an elder token enabled this member less than Δ_min ago.
    Preceded,
    /// The classic rule: an elder token came between two visits of this one.
    Sandwiched,
    /// An elder token was seen after this one's birth.
    ElderSeen,
    /// Two tokens met here; the elder one stays.
    Met,
    /// Its session numbers are used up.
    WornOut,
}
