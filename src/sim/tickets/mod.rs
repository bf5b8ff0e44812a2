//! Tickets on virtual time: bare machines, without bytes and signatures, over a faulty network, and checkers that look on.
//!
//! Everything that can go wrong is drawn from the seed: messages are lost, repeated, delayed and overtaken; the network
//! splits; members crash, stand still, leave and come back; clocks go too fast and too slow. In the last part of a run the
//! faults are over, and everybody must be served. A run that breaks a promise says which, and its seed repeats it.
//!
//! The promises are T1 to T7 of the protocol; [`Violation`] has one entry for each.

mod authority;
mod availability;
pub(super) mod checks;
pub(super) mod claims;
mod debts;
mod faults;
mod load;
mod network;
mod place;
mod rest;
mod scenario;
#[cfg(test)]
mod tests;
mod trace;
mod violation;
mod world;

pub use availability::Availability;
pub use network::Faults;
pub use scenario::{Outcome, Scenario};
pub use trace::{Moment, Trace};
pub use violation::Violation;
pub use world::Ring;
