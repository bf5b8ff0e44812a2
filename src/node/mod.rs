//! The node: one member as one machine. Datagrams, commands and time go in; datagrams and events come out.
//!
//! ```text
//!              datagrams                                    commands
//!                  |                                            |
//!   admission: gate, relevance, buckets, certificate, signature |
//!                  |                                            |
//!        +---------+-----------+------------------+-------------+
//!        |                     |                  |
//!     handoff  <--- offers --- agent           directory       load
//!        |   --- arrivals --->  |                  |
//!        |        (or instead of both: tickets)    |
//!        +---------+-----------+------------------+
//!                  |
//!            datagrams, events
//! ```
//!
//! The protocols do not know each other; the node translates what one says into what another hears. It has no clock, no
//! socket and no file: the tokio driver, the simulator and the tests run the same node. One input, then drain.

mod admission;
mod buckets;
mod freshness;
mod hearing;
mod keyring;
mod machine;
mod nouns;
mod outbox;
mod pull;
mod quota;
mod renewal;
mod speech;
mod status;
mod tickets;
mod touch;
mod translation;
mod twin;

pub use admission::Rejection;
pub use machine::{Node, first_sequence};
pub use nouns::{Command, Config, Event, Identity, Input, Output};
pub use pull::Right;
pub use status::{MemberStatus, RingStatus, Status};
