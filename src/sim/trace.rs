//! What happened in a simulated circle, one by one: for whoever wants to look at every moment of it.

use crate::base::{Time, TokenId};
use crate::proto::agent::Event;

/// One thing that happened, for whoever wants to look at every one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// When.
    pub at: Time,
    /// To which member, by its number.
    pub member: u32,
    /// What.
    pub what: Trace,
}

/// What happened to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trace {
    /// Something that its agent tells.
    Agent(Event),
    /// A token was lost here, or on the way to here.
    Lost(TokenId),
    /// It crashed.
    Crashed,
    /// It is back, and has forgotten everything.
    Restarted,
    /// It is new.
    Joined,
    /// It has left.
    Left,
}
