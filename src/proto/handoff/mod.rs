//! The handoff: one token, from one member to the next, so that never two of them hold it.
//!
//! ```text
//!  giver                         taker
//!    |---- Move(t, s) ------------->|   may I? (while the slot still runs)
//!    |<--- Ack(t, s, nonce) --------|   yes, and only this run of me could have made this nonce
//!    |  the pull is ended by force  |
//!    |---- Commit(t, s, nonce) ---->|   it is yours
//!    |<--- EarlyStop(t, s, nonce) --|   stop repeating
//! ```
//!
//! One machine is one member, giver and taker at once, for all tokens that it has to do with. Datagrams may be lost,
//! repeated, reordered, delayed without bound and replayed, and members may restart at any moment: a token may get
//! lost by that (the circle makes a new one), but is never doubled. These are the rules; each is needed, and the tests
//! break each in turn:
//!
//! - **K1 single release.** Authority leaves the giver in one step, on a valid Ack for the current offer.
//! - **K2 one nonce per session.** The giver commits to the nonce of the first such Ack, and to no other.
//! - **K3 bound both ways.** Signature and nonce name sender and receiver; a datagram for one is nothing to another.
//! - **K4 fresh taker.** A Commit is taken only with a nonce that this boot of the taker made for it, not long ago.
//! - **K5 once.** A session is accepted only above the highest one accepted. That record outlives every nonce that it
//!   guards; to forget it earlier takes a new boot secret.
//! - **K6 volatile possession.** A process that starts holds nothing: there is no way to hand a state in.
//! - **K7 the session advances with every attempt**, so sessions are unique and serve as a fencing number. It also
//!   advances with every further slot of a holder that keeps the token ([`Input::Renewed`]).
//! - **K8 no un-release.** Neither a timeout nor a missing EarlyStop gives authority back.
//!
//! # What it is not
//!
//! It knows no signatures, bytes, addresses, slots or rules about which token survives. The node checks gate and
//! signature, and asks [`Handoff::is_relevant`] before the expensive one of the two. The node also ends the pull when
//! it is told to ([`Output::StopSlot`]) and says when that is done; not before then does the Commit leave.
//!
//! # How it is made
//!
//! What a received message means in the present state is decided in one place (`verdict.rs`), for the query and for
//! `handle` alike. `giver.rs` and `taker.rs` react. A taker keeps nothing for a Move: the nonce brings back in the Commit
//! all that has to be known, so a flood of Moves fills no table.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

mod config;
#[cfg(test)]
mod flaw;
mod giver;
mod machine;
mod nonce;
mod nouns;
mod record;
mod taker;
#[cfg(test)]
mod tests;
mod verdict;

pub use config::Config;
#[cfg(test)]
pub(crate) use flaw::Flaw;
pub use machine::{Handoff, TOKENS_MAX};
pub use nouns::{Dropped, Event, Input, Message, Output, Received};

use std::time::Duration;

use crate::base::Time;

/// The moment `span` after `now`.
#[expect(clippy::arithmetic_side_effects, reason = "the arithmetic of Time saturates")]
fn later(now: Time, span: Duration) -> Time {
    now + span
}
