//! What can be broken: one promise each, with who broke it and when.

use std::time::Duration;

use crate::base::{Ticket, Time};

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// T1.
    #[error("{at}: members {first} and {second} both have ticket {ticket} to give")]
    TwoCoordinators {
        /// When.
        at: Time,
        /// Which ticket.
        ticket: Ticket,
        /// One.
        first: u32,
        /// The other.
        second: u32,
    },
    /// T2.
    #[error("{at}: members {first} and {second} both use ticket {ticket}")]
    TwoUsers {
        /// When.
        at: Time,
        /// Which ticket.
        ticket: Ticket,
        /// One.
        first: u32,
        /// The other.
        second: u32,
    },
    /// T2: who has it to give might give it to a third.
    #[error("{at}: member {coordinator} has ticket {ticket} to give, by which member {puller} still pulls")]
    StillPulled {
        /// When.
        at: Time,
        /// Which ticket.
        ticket: Ticket,
        /// One.
        puller: u32,
        /// The other.
        coordinator: u32,
    },
    /// T3.
    #[error("{at}: member {member} lost ticket {ticket} although {live} of its witnesses were there")]
    LostAgainstItsWill {
        /// When.
        at: Time,
        /// Who.
        member: u32,
        /// Which ticket.
        ticket: Ticket,
        /// How many.
        live: usize,
    },
    /// T7.
    #[error(
        "{at}: members wait, and nobody has got a seat for long, although no more were silent at once than the ring bears"
    )]
    StoodStill {
        /// When.
        at: Time,
    },
    /// T4.
    #[error("{at}: ticket {ticket}, whose owner crashed {}.{:03} s ago, is still nobody's", .since.as_secs(), .since.subsec_millis())]
    NotFreed {
        /// When.
        at: Time,
        /// Which ticket.
        ticket: Ticket,
        /// How long ago its owner crashed.
        since: Duration,
    },
    /// T5.
    #[error("{at}: member {member} pulls by ticket {ticket}, and is not sure of it")]
    PulledUnsure {
        /// When.
        at: Time,
        /// Who.
        member: u32,
        /// Which ticket.
        ticket: Ticket,
    },
    /// T6.
    #[error("{at}: {pulls} members pull at once")]
    TooManyPulls {
        /// When.
        at: Time,
        /// How many.
        pulls: usize,
    },
    /// T7.
    #[error("{at}: the faults are over, and member {member} was not served")]
    NotServed {
        /// When.
        at: Time,
        /// Who.
        member: u32,
    },
    /// T7, for who wants to go.
    #[error("{at}: the faults are over, and member {member} still cannot leave")]
    NotLeft {
        /// When.
        at: Time,
        /// Who.
        member: u32,
    },
    /// Nobody has more to answer for than 2k+1 others.
    #[error(
        "{at}: the ring is at rest, and member {member} asks or is asked {asks} times in {rounds} rounds"
    )]
    TooManyAsks {
        /// When.
        at: Time,
        /// Who.
        member: u32,
        /// How often.
        asks: u32,
        /// In how many rounds.
        rounds: u32,
    },
    /// Nobody tells more than 2k+1 others in a round that it is there, when that is all it has to tell.
    #[error("{at}: member {member} sends more reminders than it has witnesses within {within:?}")]
    TooManyReminders {
        /// When.
        at: Time,
        /// Who.
        member: u32,
        /// By its own clock.
        within: Duration,
    },
    /// The same the other way round.
    #[error("{at}: member {member} answers more reminders than a seat has witnesses within {within:?}")]
    TooManyAnswers {
        /// When.
        at: Time,
        /// Who.
        member: u32,
        /// In so short a time.
        within: Duration,
    },
}

impl Violation {
    /// Whether one ticket was in two hands.
    pub fn is_duplicate(&self) -> bool {
        matches!(
            self,
            Self::TwoCoordinators { .. }
                | Self::TwoUsers { .. }
                | Self::StillPulled { .. }
                | Self::TooManyPulls { .. }
        )
    }
}
