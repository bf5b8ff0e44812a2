//! Tickets: n members at once, and never two with the same ticket.

mod machine;
mod nouns;

pub use machine::Tickets;
pub use nouns::{Config, Event, Input, Output};
