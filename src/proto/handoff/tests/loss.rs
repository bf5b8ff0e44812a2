//! How often a token is lost on links that lose much: the figures in the specification, on virtual time.

use super::super::nouns::{Event, Input, Output};
use super::*;
use crate::base::Rng;

/// Two members, and a link that loses, delays and so reorders.
struct Link {
    machines: [Handoff; 2],
    now: Time,
    rng: Rng,
    loss: f64,
    /// By time of arrival, then by number.
    flying: std::collections::BTreeMap<(Time, u64), (usize, Received)>,
    sent: u64,
    confirmed: u64,
    abandoned: u64,
}

const ROUND_TRIP: Duration = Duration::from_millis(25);

impl Link {
    fn new(loss: f64, seed: u64) -> Self {
        Self {
            machines: [machine(1, 1, Time::ZERO), machine(2, 2, Time::ZERO)],
            now: Time::ZERO,
            rng: Rng::seeded(seed),
            loss,
            flying: std::collections::BTreeMap::new(),
            sent: 0,
            confirmed: 0,
            abandoned: 0,
        }
    }

    fn input(&mut self, who: usize, input: Input) {
        self.machines[who].handle(input, self.now);
        while let Some(output) = self.machines[who].poll_output() {
            match output {
                Output::Send { token, session, message, .. } => {
                    self.sent += 1;
                    if self.rng.fraction() >= self.loss {
                        let delay = self.rng.uniform(ROUND_TRIP / 4, ROUND_TRIP * 3 / 4);
                        let from = self.machines[who].me;
                        let received = Received { from, token, session, message };
                        self.flying.insert((self.now + delay, self.sent), (1 - who, received));
                    }
                }
                Output::StopSlot { token } => {
                    assert!(self.machines[who].poll_output().is_none());
                    self.input(who, Input::SlotStopped { token });
                }
                Output::Event(Event::Confirmed { .. }) => self.confirmed += 1,
                Output::Event(Event::CommitAbandoned { .. }) => self.abandoned += 1,
                Output::Event(_) => {}
            }
        }
    }

    /// Goes on to the next arrival or deadline. `false` if there is none.
    fn step(&mut self) -> bool {
        let arrival = self.flying.keys().next().map(|(at, _)| *at);
        let deadlines = [0, 1].map(|who| self.machines[who].next_deadline());
        let Some(next) = deadlines.into_iter().chain([arrival]).flatten().min() else { return false };
        self.now = next;
        if arrival == Some(next) {
            let (_, (to, received)) = self.flying.pop_first().unwrap();
            self.input(to, Input::Received(received));
        }
        for who in [0, 1] {
            self.input(who, Input::Wake);
        }
        true
    }

    fn holder(&self) -> Option<usize> {
        let holders = [0, 1].map(|who| self.machines[who].holds(TOKEN));
        assert_ne!(holders, [true, true], "two holders at {}", self.now);
        holders.iter().position(|holds| *holds)
    }

    /// One pass from a holder to the other member, with as many attempts as it takes. `false` if the token was lost.
    fn pass(&mut self) -> bool {
        let giver = self.holder().expect("somebody holds it");
        let taker = self.machines[1 - giver].me;
        while self.holder() != Some(1 - giver) {
            self.input(giver, Input::Offer { token: TOKEN, taker, timeout: Some(4 * ROUND_TRIP) });
            if !self.step() || (self.holder().is_none() && self.is_over()) {
                return false;
            }
        }
        true
    }

    /// Nobody holds the token, nobody sends it, and nothing is on its way.
    fn is_over(&self) -> bool {
        let committing =
            |machine: &Handoff| machine.records.values().any(|record| record.committing.is_some());
        self.flying.is_empty() && !self.machines.iter().any(committing)
    }
}

/// How many of so many passes lose the token.
fn tokens_lost(loss: f64, passes: u32, seed: u64) -> u32 {
    let mut count = 0;
    let mut link = Link::new(loss, seed);
    link.input(0, Input::Generated { token: TOKEN });
    for pass in 0..passes {
        if !link.pass() {
            count += 1;
            link = Link::new(loss, seed.wrapping_add(u64::from(pass)));
            link.input(0, Input::Generated { token: TOKEN });
        }
    }
    assert!(link.confirmed + link.abandoned > 0);
    count
}

#[test]
fn no_token_of_twenty_thousand_is_lost_at_thirty_percent() {
    assert_eq!(tokens_lost(0.3, 20_000, 1), 0);
}

#[test]
fn fewer_than_one_token_in_ten_thousand_is_lost_at_fifty_percent() {
    let lost = tokens_lost(0.5, 100_000, 2);
    assert!(lost < 10, "{lost} of 100,000");
}

#[test]
fn on_a_dead_link_every_token_stays_where_it_is() {
    let mut link = Link::new(1.0, 3);
    link.input(0, Input::Generated { token: TOKEN });
    for _ in 0..100 {
        link.input(0, Input::Offer { token: TOKEN, taker: member(2), timeout: None });
        link.step();
        assert_eq!(link.holder(), Some(0));
    }
}

#[test]
fn one_seed_gives_one_history() {
    let history = |seed| {
        let mut link = Link::new(0.4, seed);
        link.input(0, Input::Generated { token: TOKEN });
        let ends: Vec<(Time, bool)> = (0..100).map(|_| (link.now, link.pass())).collect();
        (ends, link.sent)
    };
    assert_eq!(history(5), history(5));
    assert_ne!(history(5), history(6));
}
