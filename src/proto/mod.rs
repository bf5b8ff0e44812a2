//! The protocols, each a pure machine that does not know the others.
//!
//! A machine has three verbs: `handle(input, now)` changes its state once, `poll_output()` is then called until it
//! has nothing left to say, `next_deadline()` tells when it wants to be woken. Waking it early, late or for nothing is
//! harmless. The simulator, the tests and a real member drive the same machines.

pub mod agent;
pub mod directory;
pub mod handoff;
pub mod load;
pub mod tickets;
