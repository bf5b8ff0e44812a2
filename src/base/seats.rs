//! The ring of those who hold a ticket, and what they say to each other: values that travel.

use std::time::Duration;

use super::MemberId;

/// The number of a ticket.
pub type Ticket = u16;

/// One life of one member in the ring: who holds which ticket. Whoever comes back holds another seat, even with the same
/// ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seat {
    /// Which ticket.
    pub ticket: Ticket,
    /// Who holds it.
    pub member: MemberId,
    /// Which of the member's seats: a later one has a higher number.
    pub incarnation: u64,
}

/// Who waits for a ticket, and for how long already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// Who.
    pub member: MemberId,
    /// Which of its seats it would be.
    pub incarnation: u64,
    /// How long.
    pub waited: Duration,
}

/// Witnesses: the seats before one's own, nearest first. The version tells the lists of one seat apart, and the later one
/// is higher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witnesses {
    /// Which of the lists of this seat.
    pub version: u32,
    /// Nearest first.
    pub seats: Vec<Seat>,
}

/// What a seat asks its witnesses, once a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Who asks.
    pub seat: Seat,
    /// Grows with every question of this seat; the answer repeats it.
    pub number: u64,
    /// Whom the one who asks takes for its successor: nobody but it decides that.
    pub next: Seat,
    /// Whether it takes part fully: it has its witnesses, and is one of its successor's.
    pub is_settled: bool,
    /// The witnesses that it goes by, if it has any yet.
    pub adopted: Option<Witnesses>,
    /// The witnesses that it would go by if all of them agreed.
    pub proposed: Option<Witnesses>,
    /// Those who wait longest, as far as it knows.
    pub waiters: Vec<Waiter>,
}

/// What members say to each other about tickets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TicketMessage {
    /// Do you vouch for me?
    Ask(Ask),
    /// For so long after you asked, yes.
    Vouch {
        /// Of the question.
        number: u64,
        /// The list by which it is meant, if it goes by one.
        adopted: Option<u32>,
        /// The list that may replace it, as far as the one who answers is concerned.
        proposed: Option<u32>,
        /// Those who wait longest, as far as it knows.
        waiters: Vec<Waiter>,
    },
    /// You have no seat any more: another one has the place.
    Gone {
        /// Of the question.
        number: u64,
    },
    /// The seat of mine that you mean is no more, and whatever ran by it has ended.
    NotMe {
        /// Which.
        seat: Seat,
    },
    /// May I have a ticket?
    Join {
        /// Which of its seats it would be.
        incarnation: u64,
        /// Waiting for so long already.
        waited: Duration,
    },
    /// Not now. Those may know more, or have one.
    Wait {
        /// Who is in the ring.
        coordinators: Vec<MemberId>,
    },
    /// You have it, as soon as all your witnesses agree and your successor knows you.
    Grant {
        /// Who grants it.
        by: Seat,
        /// Yours.
        seat: Seat,
        /// Those who come after you, nearest first.
        followers: Vec<Seat>,
        /// Yours.
        witnesses: Vec<Seat>,
    },
    /// Your witnesses should be these.
    Update {
        /// Who is meant.
        to: Seat,
        /// The sender first.
        witnesses: Vec<Seat>,
    },
    /// Those between me and that one do not answer. Vouch for none of them any more.
    Lock {
        /// Who says so.
        seat: Seat,
        /// Grows with every attempt; the answer repeats it.
        attempt: u64,
        /// The first one after them.
        to: Seat,
    },
    /// I vouch for none of them.
    Locked {
        /// Which attempt.
        attempt: u64,
    },
    /// They are there again: forget it.
    Unlock {
        /// Which attempt.
        attempt: u64,
    },
    /// Enough have agreed for long enough: those between us have no seat any more.
    Confirm {
        /// Which attempt.
        attempt: u64,
    },
    /// So it is.
    Confirmed {
        /// Which attempt.
        attempt: u64,
    },
    /// I give my ticket back to you, who come before me.
    Release {
        /// Whose seat ends.
        seat: Seat,
        /// Who comes next.
        next: Seat,
        /// Grows with every try; the answer repeats it.
        number: u64,
    },
    /// I have it.
    Released {
        /// Which try.
        number: u64,
    },
    /// Not now: this try is void.
    Refused {
        /// Which try.
        number: u64,
    },
}
