//! What is simulated, and what came of it.

use std::time::Duration;

use crate::proto::tickets::Config;
use crate::sim::Spread;

use super::network::Faults;
use super::violation::Violation;

/// A circle whose members share tickets.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// How many members. All want to pull from the start.
    pub members: usize,
    /// Tickets, tolerated faults, turn, round, lease: what the members go by.
    pub config: Config,
    /// How long things go wrong.
    pub duration: Duration,
    /// How long they do not, at the end.
    pub settle: Duration,
    /// What goes wrong; `None` to draw it from the seed.
    pub faults: Option<Faults>,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            members: 20,
            config: Config::new(8, 2, Duration::from_secs(4)),
            duration: Duration::from_secs(300),
            settle: Duration::from_secs(120),
            faults: Some(Faults::default()),
        }
    }
}

/// What one run, or several, came to.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Runs.
    pub runs: u32,
    /// Rounds, summed over all who had a seat.
    pub rounds: f64,
    /// Seats that became usable.
    pub joins: u64,
    /// Seats that their owners gave back.
    pub given_back: u64,
    /// Seats that their owners lost while they ran.
    pub lost: u64,
    /// Seats that were excluded.
    pub excluded: u64,
    /// Times that a seat was not sure for a while.
    pub unsure: u64,
    /// Slots.
    pub slots: u64,
    /// Members that crashed.
    pub crashes: u64,
    /// Times that nobody had a seat any more, and the authority founded another ring.
    pub refounded: u64,
    /// Messages sent.
    pub messages: u64,
    /// The most messages that reached one member in one round.
    pub busiest: u32,
    /// Asks that told nothing new, only that who asked was there: the paper's ALIVE. The others are its UPDATE as well.
    pub reminders: u64,
    /// The most others that sent them to one member in one round.
    pub most_reminded: usize,
    /// The most asks per round that one member sent or got, while the ring was at rest.
    pub asks_at_rest: f64,
    /// The longest that a member with work waited for a slot after the faults were over.
    pub longest_wait: Duration,
    /// After how long somebody had the ticket of a crashed member, in a ring of more than 2k+1.
    pub back_after: Spread,
    /// Every broken promise.
    pub violations: Vec<Violation>,
}

impl Outcome {
    /// Takes in what another run came to.
    pub fn add(&mut self, other: Self) {
        self.runs += other.runs;
        self.rounds += other.rounds;
        self.joins += other.joins;
        self.given_back += other.given_back;
        self.lost += other.lost;
        self.excluded += other.excluded;
        self.unsure += other.unsure;
        self.slots += other.slots;
        self.crashes += other.crashes;
        self.refounded += other.refounded;
        self.messages += other.messages;
        self.busiest = self.busiest.max(other.busiest);
        self.reminders += other.reminders;
        self.most_reminded = self.most_reminded.max(other.most_reminded);
        self.asks_at_rest = self.asks_at_rest.max(other.asks_at_rest);
        self.longest_wait = self.longest_wait.max(other.longest_wait);
        self.back_after.add(&other.back_after);
        self.violations.extend(other.violations);
    }
}
