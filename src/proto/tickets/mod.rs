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

//!
//! # What differs from the paper
//!
//! The paper is *Dynamic and fault-tolerant cluster management* by Gidenstam, Koldehofe, Papatriantafilou and Tsigas. As
//! printed it can give one ticket to two members.
//!
//! | paper | here | why |
//! |---|---|---|
//! | ALIVE messages are pushed to the 2k+1 nearest successors in every round | a seat asks its 2k+1 witnesses, and each answer is a lease that counts from the asking | a late ALIVE would prolong the life of an excluded member |
//! | Algorithm 3 stops at fewer than 2k+1 ALIVEs, the text at fewer than k+1 | sure with k+1 | by the printed algorithm one crash among 20 empties the ring in 7 rounds |
//! | an UPDATE whose status was lost leaves two views of the witnesses | a changed deed counts once more than half of the old and of the new witnesses know it, and an exclusion needs k+1 of every list that may be in force | two owners of one ticket otherwise, with k = 1 and two joins |
//! | a temporary coordinator waits for dist(p, q) rounds | the rest of the last lease given, by the slowest clock | rounds are not in phase, and the printed TempRounds is one short |
//! | rings of fewer than 2k+2 members are not treated | more than half of all must vouch or renounce | two members could exclude each other |
//! | two rings that are begun with the same tickets are not treated | the first member is named in the charter, with an epoch, and signed by the authority | each of the two rings would give out every ticket |
//! | fail-stop | a paused member finds its lease over, and a restarted one says that it has forgotten its promises | computers sleep, processes restart |
//! | leaving is not treated where there are failures | a ticket is given back to the predecessor after the pull has ended | members that all leave would wait for each other |
//! | an UPDATE has no version, and its sender is not checked | signed, believed only from the seat right before, and only if it is newer | a replayed or forged one would bring an excluded member back |
//! | k+1 neighbours that crash empty the ring | k is 2 by default, and the authority can sign another ring | neighbours are often at one site |

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
