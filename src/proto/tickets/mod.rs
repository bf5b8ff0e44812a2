//! Tickets: n members at once, and never two with the same ticket.

mod exclusion;
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

pub use machine::Tickets;
pub use nouns::{Config, Event, Input, Output};
