//! Tickets: n members at once, and never two with the same ticket.
//!
//! The tickets form a cycle, and those who hold one a ring: each *coordinates* the tickets from its own down to before its
//! successor's, and gives them to whoever joins. A *seat* is one life of one member in the ring.
//!
//! ```text
//!  a newcomer             coordinator          its witnesses
//!     |---- Join ------------->|                     |
//!     |                        |---- Ask ----------->|   my deed would reach only to the newcomer
//!     |                        |<--- Vouch ----------|
//!     |<--- Grant -------------|                     |
//!     |---- Ask -------------->|-------------------->|   do you vouch for me?
//!     |<--- Vouch -------------|<--------------------|   now the ticket is its own
//!     |---- Update ----------------------------------------> its successor: go by these witnesses
//! ```
//!
//! # Deeds and witnesses
//!
//! The *deed* of a seat says who comes next, so how far its tickets reach, and who its *witnesses* are: the 2k+1 seats
//! before it (all others, in a small ring). A seat changes its deed alone, but a changed deed counts only when more than
//! half of the witnesses of the old one *and* of the new one have taken notice of it. To be a witness is a member's duty as
//! long as its process lives, with a seat or without.
//!
//! A seat reminds its witnesses once in a round, and asks those at once who do not know what is new. It is *sure* only
//! while k+1 of them have vouched within the lease, which counts from its own asking, so that no delay on the way can
//! prolong it. Whoever is not sure uses nothing and gives nothing; the pull ends before the lease does. Nobody sends more
//! than 2k+1 reminders in a round, nor answers more.
//!
//! # Why no ticket has two owners
//!
//! - Who comes next is in exactly one deed, and only its owner changes that: it lets a newcomer in, takes back what its
//!   successor gives back, or excludes a successor that is silent.
//! - To exclude a seat, k+1 of its witnesses promise to vouch for it no more and to take notice of nothing that it says,
//!   and they tell which deed it showed last. Had it changed its deed, one of them would know; then k+1 of the other list
//!   must promise too; and whoever is listed there in another seat than before, as it has begun anew, is asked again. Then
//!   what is left of the last lease that they gave is waited for, by the slowest clock: now the seat
//!   is not sure, and can never be again. What it said last tells who comes after it.
//! - A promise ends only by the word of who asked for it, before anything was decided by it, or of the sure seat that comes
//!   right before the one that is meant: that one is there, and no room is left for who asked.
//! - A member that starts anew has forgotten its promises, and says so: it counts for nobody in an old seat. Of its own
//!   seat it says that it is no more; then no wait is needed, but still k+1 must tell what it said last. Only who has lost
//!   a seat and still remembers it tells that itself. Who is not known to a witness and has not been sure for long is
//!   not vouched for: there may have been a promise.
//! - In a small ring (at most 2k+1 seats) more than half of all must vouch, and more than half of all must renounce. Two
//!   members can never exclude each other: the survivor waits until the other one is back.
//! - A ticket is given back to the predecessor. Who gives it back has ended its pull before, and has no way back: should
//!   nobody be left to take it, it goes on in another seat.
//! - The number of a seat is drawn by who grants it: no two grants make the same seat.
//!
//! None of it depends on how long messages take, only on clocks that do not differ by more than the stated drift. Witnesses
//! vouch also while they are not sure themselves, so that one failure does not spread. When more neighbours crash at once
//! than the ring bears, some tickets are lost until they are back, or until the authority founds another ring; no ticket
//! is ever doubled by that.
//!
//! # Turns
//!
//! Whoever waits longest is served first. A holder keeps its ticket while nobody waits; when it was asked for one, nobody
//! has one to spare, and it has pulled for a turn (or has nothing to pull), it gives its own back.

#![deny(clippy::indexing_slicing, clippy::unwrap_used)]

mod anteroom;
mod book;
mod deeds;
mod exclusion;
#[cfg(test)]
mod flaw;
mod joining;
mod leaving;
mod machine;
mod nouns;
mod place;
mod ring;
#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "a test that indexes wrongly fails")]
mod tests;
mod turns;
mod vouching;
mod waiting;

#[cfg(test)]
pub(crate) use flaw::Flaw;
pub use machine::Tickets;
pub use nouns::{Config, Event, Input, Output};
