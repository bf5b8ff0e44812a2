//! The driver: a node on a real socket and a real clock. The only place that owns a socket or reads a clock for it.
//!
//! One task owns the node and the socket. Others talk to it through a [`Handle`]: commands go in, events come out, and the
//! node's status can be asked for. Nothing is shared, so nothing is locked.

mod clock;
mod task;

pub use clock::BootClock;
pub use task::{DriverError, Handle, random_bytes, spawn};
