//! The agent: what a member does with a token that visits it, and what it does without one.
//!
//! ```text
//!               Arrived                        Accepted by the next member
//!   (no token) ---------> slot or rest ------> offer -----------------------> custody, then (no token)
//!        |                     |                 | Unreachable
//!        |                     | spurious        +---> offer to another
//!        |                     v
//!        |                  discarded, silently
//!        +--- no news for long, even when asked for, or a check unanswered ---> a new token: as if it had arrived
//! ```
//!
//! One machine serves all sets of rules; [`Rules`] says which parts are on. The agent knows nothing of datagrams,
//! keys or addresses. Whoever drives it (the node, or the simulator) passes tokens and messages on, draws members
//! from the directory where it is asked to, and ends a pull when the slot ends. In particular a handoff is the
//! driver's: the agent says [`Output::Offer`], and hears [`Input::Accepted`] or [`Input::Unreachable`].

mod config;
mod custody;
mod demand;
mod history;
mod hold;
mod machine;
mod nouns;
mod regeneration;
mod routing;
pub mod rules;
mod sightings;
#[cfg(test)]
mod tests;

pub use config::{CAPACITY_LIMIT, Config, Invalid};
pub use machine::Agent;
pub use nouns::{Event, Input, Message, Origin, Output, Spurious, Token};
pub use rules::Rules;
