//! Whole nodes over a faulty network: real bytes, real signatures, and checkers that look on.
//!
//! Everything that can go wrong is drawn from the seed: datagrams are lost, repeated, delayed, overtaken and damaged;
//! the network splits; members crash, pause and start again; clocks are wrong; members are banned, and certificates
//! expire. In the last part of a run the faults are over, and the circle must come to rest: one token or a whole ring of
//! tickets, everybody served. A run that breaks a rule says which, and the command that repeats it is the seed.

mod bursts;
mod checks;
mod faults;
mod heal;
mod network;
mod passings;
mod place;
mod rest;
mod ring;
#[cfg(test)]
mod ring_tests;
mod rows;
#[cfg(test)]
mod sabotage;
mod scenario;
mod standing;
mod stopwatch;
#[cfg(test)]
mod tests;
mod turning;
mod turns;
mod violation;
mod world;

pub use heal::Healing;
pub use network::Faults;
pub use rows::{Row, Rows};
pub use scenario::{Outcome, RingCounts, RingSize, Scenario};
pub use stopwatch::Spans;
pub use violation::Violation;
pub use world::Whole;
