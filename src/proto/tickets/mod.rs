//! Tickets: n members at once, and never two with the same ticket.
//!
//! The tickets form a cycle, and those who hold one a ring: each *coordinates* the tickets from its own down to before its
//! successor's, and gives them to whoever joins. A *seat* is one life of one member in the ring.
//!
//! ```text
//!  a newcomer             coordinator           the seats before it          its successor
//!     |---- Join ------------->|                         |                         |
//!     |<--- Grant -------------|---- Ask (my next: it) ->|                         |
//!     |---- Ask -------------->|------------------------>|   do you vouch for me?  |
//!     |<--- Vouch -------------|<------------------------|                         |
//!     |---- Update ---------------------------------------------------------------->|  by these you go
//!     |<--- Ask -------------------------------------------------------------------|
//! ```
//!
//! # Who may use its ticket
//!
//! The *witnesses* of a seat are the 2k+1 seats before it (all others, in a small ring). It asks them every round, and is
//! *sure* only while k+1 of them have vouched within the lease, which counts from its own asking, so that no delay on the
//! way can prolong it. Whoever is not sure uses nothing and gives nothing; the pull ends before the lease does.
//!
//! # Why no ticket has two owners
//!
//! - A seat goes by one list of witnesses at a time, and **a list counts only when every one of it has agreed to it**. A
//!   witness agrees only to a seat that is in its chain of followers, and to a list that leaves out nobody who may have to
//!   exclude that seat (`is_right`). So **who excludes a seat is in every list of it, and knows them all**.
//! - Who comes next is said by each seat alone, in its questions. A newcomer is named before it asks, and acts only when
//!   all its witnesses agree and its successor goes by it. So who excludes also knows everybody in between.
//! - To exclude silent followers, their predecessor stops vouching for all tickets between itself and the next one that
//!   answers, and asks k+1 of *each* list by which one of them may go to do the same. Then it waits for a lease, by the
//!   slowest clock: now none of them is sure, and none can become so. Then those who agreed confirm that they have held to
//!   it, and take the new order for the true one; only when enough have, the range is taken over.
//! - In a small ring (at most 2k+1 seats) more than half of all must vouch, and more than half of all must renounce. Two
//!   members can never exclude each other: the survivor waits.
//! - Whoever comes back has another seat, and says of its old one that it is no more: that counts like everybody's
//!   agreement. So a ring that lost too many at once lives again as soon as they are back.
//! - A ticket is given back to the predecessor, which takes it over at once: who gives it back has ended its pull before.
//!
//! None of it depends on how long messages take, only on clocks that do not differ by more than the stated drift. Witnesses
//! vouch also while they are not sure themselves, so that one failure does not spread.
//!
//! # Turns
//!
//! Whoever waits longest is served first. A holder keeps its ticket while nobody waits; when it was asked for one, has none
//! to spare, and has pulled for a turn (or has nothing to pull), it gives its own back.

mod exclusion;
#[cfg(test)]
mod flaw;
mod followers;
mod joining;
mod leaving;
mod machine;
mod nouns;
mod place;
mod ring;
#[cfg(test)]
mod tests;
mod turns;
mod vouching;
mod waiting;

#[cfg(test)]
pub(crate) use flaw::Flaw;
pub use machine::Tickets;
pub use nouns::{Config, Event, Input, Output};
