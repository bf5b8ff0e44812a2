//! What happened in a simulated ring, one by one: for whoever wants to look at every moment of it.

use std::collections::VecDeque;
use std::fmt;

use crate::base::{TicketMessage, Time};
use crate::proto::tickets::Event;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// When.
    pub at: Time,
    /// To which member, by its number.
    pub member: u32,
    /// What.
    pub what: Trace,
}

/// The last things that happened.
#[derive(Debug)]
pub(super) struct Recent {
    limit: usize,
    moments: VecDeque<Moment>,
}

impl Recent {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, moments: VecDeque::new() }
    }

    pub(super) fn is_kept(&self) -> bool {
        self.limit > 0
    }

    pub(super) fn push(&mut self, moment: Moment) {
        if self.moments.len() >= self.limit {
            self.moments.pop_front();
        }
        self.moments.push_back(moment);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Moment> {
        self.moments.iter()
    }
}

/// What happened to a member, or to all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trace {
    /// Something that it tells.
    Event(Event),
    /// It sent a message.
    Sent {
        /// To whom.
        to: u32,
        /// What it says.
        message: TicketMessage,
    },
    /// It arrived.
    Got {
        /// From whom.
        from: u32,
        /// What it says.
        message: TicketMessage,
    },
    /// It runs, and knows nothing.
    Started,
    /// It crashed.
    Crashed,
    /// It stands still.
    Paused,
    /// It goes on.
    Resumed,
    /// It was told to leave.
    Leaves,
    /// It has something to pull, or not.
    Work(bool),
    /// Its pull has stopped.
    PullEnded,
    /// The network is in two parts.
    Split,
    /// It is whole again.
    Joined,
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>10.6} {:>4} {:?}", self.at.as_secs_f64(), self.member, self.what)
    }
}
