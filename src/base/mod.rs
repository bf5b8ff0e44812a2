//! Values without behaviour of their own: time, seeded randomness, identities, units.
//!
//! Everything else in the house is built on these, and they import nothing of it.

mod ids;
mod rng;
mod round_trip;
mod seats;
mod time;
pub mod units;

pub use ids::{CircleId, Hearsay, MemberId, Nonce, SIGHTINGS, Session, Sighting, TokenId};
pub use rng::Rng;
pub use round_trip::RoundTrip;
pub use seats::{Ask, Deed, Seat, Standing, Ticket, TicketMessage, Vouch, Waiter};
pub use time::Time;
