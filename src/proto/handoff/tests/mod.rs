//! The handoff's tests: each row of both tables, the interleavings that break lesser protocols, all bounded
//! histories of three members, and random ones.
#![allow(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

mod giver_rows;
mod interleavings;
mod loss;
mod model;
mod model_runs;
mod properties;
mod taker_rows;
mod times;

use std::time::Duration;

use super::*;
use crate::base::{CircleId, MemberId, Nonce, Session, Time, TokenId};

/// When tokens were made and the members started, on the wall clock.
const WALL_MS: i64 = 1_700_000_000_000;

const TOKEN: TokenId =
    TokenId { created_ms: WALL_MS.unsigned_abs(), generator: MemberId::from_bytes([1; 16]), random: 7 };

const CIRCLE: CircleId = CircleId::from_bytes([9; 16]);

fn member(n: u8) -> MemberId {
    MemberId::from_bytes([n; 16])
}

/// The papers' case study: slots of 4 s, at least 600 s between two of one member.
fn config() -> Config {
    Config::new(Duration::from_secs(4), Duration::from_secs(600))
}

fn machine(n: u8, boot: u8, now: Time) -> Handoff {
    Handoff::new(member(n), CIRCLE, config(), [boot; 32], WALL_MS, now)
}

fn received(from: u8, session: u64, message: Message) -> Received {
    Received { from: member(from), token: TOKEN, session: Session(session), message }
}

/// A datagram on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Datagram {
    to: MemberId,
    received: Received,
}

/// One member and what it said last.
struct Bench {
    machine: Handoff,
    now: Time,
    said: Vec<Output>,
}

impl Bench {
    const ME: u8 = 1;
    const OTHER: u8 = 2;

    fn idle() -> Self {
        Self { machine: machine(Self::ME, 1, Time::ZERO), now: Time::from_secs(1), said: Vec::new() }
    }

    fn holding() -> Self {
        let mut bench = Self::idle();
        bench.handle(Input::Generated { token: TOKEN });
        bench
    }

    /// Offers to `OTHER` in session 1.
    fn offering() -> Self {
        let mut bench = Self::holding();
        bench.offer(Self::OTHER);
        bench
    }

    fn releasing(nonce: Nonce) -> Self {
        let mut bench = Self::offering();
        bench.receive(Self::OTHER, 1, Message::Ack(nonce));
        bench
    }

    fn committing(nonce: Nonce) -> Self {
        let mut bench = Self::releasing(nonce);
        bench.handle(Input::SlotStopped { token: TOKEN });
        bench
    }

    /// Has accepted session 5 of `OTHER`, with the nonce that is returned.
    fn arrived() -> (Self, Nonce) {
        let mut bench = Self::idle();
        let nonce = bench.acked(Self::OTHER, 5);
        bench.receive(Self::OTHER, 5, Message::Commit(nonce));
        (bench, nonce)
    }

    /// The nonce that a Move gets.
    fn acked(&mut self, from: u8, session: u64) -> Nonce {
        self.receive(from, session, Message::Move);
        let Some(Output::Send { message: Message::Ack(nonce), .. }) = self.said.last() else {
            panic!("no Ack: {:?}", self.said);
        };
        *nonce
    }

    fn offer(&mut self, taker: u8) {
        self.handle(Input::Offer { token: TOKEN, taker: member(taker), timeout: None });
    }

    fn receive(&mut self, from: u8, session: u64, message: Message) {
        let received = received(from, session, message);
        let relevant = self.machine.is_relevant(&received, self.now);
        self.handle(Input::Received(received));
        assert!(relevant || self.said.is_empty(), "an irrelevant message had an effect: {:?}", self.said);
    }

    fn handle(&mut self, input: Input) {
        self.machine.handle(input, self.now);
        self.said = std::iter::from_fn(|| self.machine.poll_output()).collect();
        assert!(self.machine.next_deadline().is_none_or(|due| due > self.now), "a deadline is left behind");
    }

    fn pass(&mut self, span: Duration) {
        self.now = self.now + span;
        self.handle(Input::Wake);
    }

    /// Wakes the machine at its next deadline.
    fn wake(&mut self) {
        self.now = self.machine.next_deadline().expect("it waits for something");
        self.handle(Input::Wake);
    }

    fn holds(&self) -> bool {
        self.machine.holds(TOKEN)
    }
}

fn send(to: u8, session: u64, message: Message, with_certificate: bool) -> Output {
    Output::Send { to: member(to), token: TOKEN, session: Session(session), message, with_certificate }
}

const A_NONCE: Nonce = Nonce::from_bytes([3; 16]);
const ANOTHER_NONCE: Nonce = Nonce::from_bytes([4; 16]);
