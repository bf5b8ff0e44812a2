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
//!
//! # What differs from the paper
//!
//! The paper is Ciuffoletti's *Secure token passing at application level* (2007 and 2010).
//!
//! | paper | here | why |
//! |---|---|---|
//! | duplicates are excluded by session numbers that both sides remember | a nonce of the taker's boot in Ack and Commit (K4) | one restart or one forgotten record, and a replayed Move and Commit, give two holders in eleven steps and without any key |
//! | the taker starts a timer with its Ack | the taker keeps nothing for a Move, the giver repeats it | a spoofed Move fills no table and causes no more than one answer |
//! | the session advances with every reception | with every attempt (K7) | a late Ack of an abandoned offer cannot be taken for one to the present offer |
//! | the Commit is repeated ten times in quick succession | for up to a minute, with growing pauses (H_commit) | at 30 % loss timers like the paper's lose the token in 1.5 % of the handoffs, these in none of a million; at 50 % in 9 % against 5 in a million |
//! | datagrams name addresses and ports | keys are bound, answers go to where the datagram came from | address translation and a change of address do no harm |
//! | a signature, *optionally replaced by* a certificate | always a signature; the certificate goes along from the second try on | whoever has seen a certificate could send Moves otherwise |
//! | DSA | Ed25519, after a keyed hash as a cheap filter | small and quick; a flood of junk costs a hash per datagram |

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
