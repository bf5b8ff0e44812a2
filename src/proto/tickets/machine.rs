//! The machine itself.

use std::collections::VecDeque;
use std::time::Duration;

use crate::base::{MemberId, Rng, Seat, Time};

use super::nouns::{Config, Input, Output};

/// One member's part in the ring.
#[derive(Debug)]
pub struct Tickets {
    me: MemberId,
    config: Config,
    incarnation: u64,
    rng: Rng,
    out: VecDeque<Output>,
}

impl Tickets {
    /// A member without a ticket. The number of its first seat must be higher than any that it had before, in earlier runs
    /// too.
    pub fn new(me: MemberId, config: Config, incarnation: u64, rng: Rng, now: Time) -> Self {
        Self { me, config, incarnation, rng, out: VecDeque::new() }
    }

    /// The one way in: one input, then drain the outputs.
    pub fn handle(&mut self, input: Input, now: Time) {}

    /// The next thing to be done, until there is none.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// When it wants to be woken.
    pub fn next_deadline(&self) -> Time {
        Time::ZERO + Duration::MAX
    }

    /// Our seat, if we have one or are about to.
    pub fn seat(&self) -> Option<Seat> {
        None
    }

    /// The seat by which we may pull and give out tickets at this moment.
    pub fn sure_seat(&self, now: Time) -> Option<Seat> {
        None
    }

    /// Who comes after us: tickets from ours down to before that one's are ours to give. Ourselves if we are alone.
    pub fn next(&self) -> Option<Seat> {
        None
    }

    /// The ring as far as we know it: ourselves first, then who comes after us; empty without a seat.
    pub fn ring(&self) -> Vec<Seat> {
        Vec::new()
    }

    /// How many members wait for a ticket, as far as we know.
    pub fn waiting(&self) -> usize {
        0
    }

    /// Whether there is something to pull.
    pub fn has_work(&self) -> bool {
        false
    }

    /// The constants that it goes by.
    pub fn config(&self) -> &Config {
        &self.config
    }
}
