//! Whole nodes over a faulty network: real bytes, real signatures, and checkers that look on.
//!
//! Everything that can go wrong is drawn from the seed: datagrams are lost, repeated, delayed, overtaken and damaged;
//! the network splits; members crash, pause and start again; clocks are wrong. In the last part of a run the faults are
//! over, and the circle must come to rest: one token, everybody served. A run that breaks a rule says which,
//! and the command that repeats it is the seed.

mod checks;
mod heal;
mod network;
mod scenario;
mod world;

pub use checks::Violation;
pub use heal::Healing;
pub use network::Faults;
pub use scenario::{Outcome, Scenario};
pub use world::Whole;
