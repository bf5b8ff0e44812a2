//! Which rows of the handoff's two tables a run has come through (I13): a simulator that never loses a token tests nothing.
//!
//! A row is known by what a node was told and what it said and did then; nobody looks into it. What is silent shows that
//! it dropped something, whatever its reason was.

use std::collections::BTreeMap;

use crate::base::{Session, TokenId};
use crate::node::{Command, Event, Input, Output};
use crate::proto::{agent, handoff};
use crate::wire::{Envelope, Header, Kind};

use super::place::number;
use super::world::{GATE, Whole};

/// A row of the tables; some are two, because their action has two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Row {
    /// Giver: an offer begins.
    Offer,
    /// Giver, T_move: the Move is repeated.
    MoveAgain,
    /// Giver, T_move: the taker is given up.
    GivenUp,
    /// Giver: the Ack of its offer orders the pull to stop.
    AckStopsPull,
    /// Giver: the Ack of its offer finds no pull, and the Commit leaves at once.
    AckWithoutPull,
    /// Giver: the pull has stopped, and the Commit leaves.
    PullStopped,
    /// Giver: the Ack comes again, and so does the Commit.
    AckAgain,
    /// Giver: any other Ack.
    AckDropped,
    /// Giver, T_commit: the Commit is repeated.
    CommitAgain,
    /// Giver, T_commit: it was repeated for long enough.
    CommitAbandoned,
    /// Giver: EarlyStop.
    EarlyStop,
    /// Giver: a Move of a later session shows that the token was delivered.
    MoveOfLater,
    /// Giver: slept for a moment; the pull ends.
    Slept,
    /// Giver: slept for too long; the token ends.
    SleptTooLong,
    /// Giver: finds that it is banned or expired, and the token ends.
    Expelled,
    /// Taker: a Move is answered.
    MoveAnswered,
    /// Taker: a Move for what it holds.
    MoveInConflict,
    /// Taker: a Move of a session that is not above the highest accepted.
    MoveTooOld,
    /// Taker: a Commit is accepted.
    CommitAccepted,
    /// Taker: a Commit comes again, and so does the EarlyStop.
    CommitAnsweredAgain,
    /// Taker: any other Commit.
    CommitDropped,
    /// Taker: two tokens met, and the younger one ends.
    TokensMet,
    /// Taker: started again, with nothing.
    Started,
}

impl Row {
    /// All of them, in the order of the tables.
    pub const ALL: [Self; 23] = [
        Self::Offer,
        Self::MoveAgain,
        Self::GivenUp,
        Self::AckStopsPull,
        Self::AckWithoutPull,
        Self::PullStopped,
        Self::AckAgain,
        Self::AckDropped,
        Self::CommitAgain,
        Self::CommitAbandoned,
        Self::EarlyStop,
        Self::MoveOfLater,
        Self::Slept,
        Self::SleptTooLong,
        Self::Expelled,
        Self::MoveAnswered,
        Self::MoveInConflict,
        Self::MoveTooOld,
        Self::CommitAccepted,
        Self::CommitAnsweredAgain,
        Self::CommitDropped,
        Self::TokensMet,
        Self::Started,
    ];
}

/// How often each row was reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows(BTreeMap<Row, u64>);

impl Rows {
    /// Rows that were never reached.
    pub fn unreached(&self) -> Vec<Row> {
        Row::ALL.into_iter().filter(|row| !self.0.contains_key(row)).collect()
    }

    /// How often this row was reached.
    pub fn count(&self, row: Row) -> u64 {
        self.0.get(&row).copied().unwrap_or(0)
    }

    pub(super) fn reached(&mut self, row: Row) {
        *self.0.entry(row).or_default() += 1;
    }

    pub(super) fn add(&mut self, other: Self) {
        for (row, count) in other.0 {
            *self.0.entry(row).or_default() += count;
        }
    }
}

/// What has to be remembered to tell rows apart.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// The last offer of each member.
    offered: BTreeMap<usize, (TokenId, Session)>,
    /// The highest session of each token that a member has accepted since it started.
    accepted: BTreeMap<(usize, TokenId), Session>,
}

impl Memory {
    pub(super) fn started(&mut self, member: usize) {
        self.offered.remove(&member);
        self.accepted.retain(|(other, _), _| *other != member);
    }
}

/// What a node is told, as far as handoffs go.
#[derive(Clone, Copy, Debug)]
pub(super) enum Heard {
    Datagram(Header),
    Slept,
    PullStopped,
    Other,
}

impl Heard {
    fn is(self, kind: Kind) -> bool {
        matches!(self, Self::Datagram(header) if header.kind == kind)
    }

    fn is_ack_of(self, commit: &Header) -> bool {
        let about = (commit.token, commit.session);
        matches!(self, Self::Datagram(ack) if ack.kind == Kind::Ack && (ack.token, ack.session) == about)
    }
}

impl Whole {
    pub(super) fn heard(&self, member: usize, input: &Input<'_>) -> Heard {
        match input {
            Input::Datagram { bytes, .. } => {
                self.header_of_handoff(member, bytes).map_or(Heard::Other, Heard::Datagram)
            }
            Input::Command(Command::Slept { .. }) => Heard::Slept,
            Input::Command(Command::SlotStopped) => Heard::PullStopped,
            _ => Heard::Other,
        }
    }

    /// Counts the rows that a node came through with this input.
    pub(super) fn count_rows(&mut self, member: usize, heard: Heard, outputs: &[Output]) {
        // Who is to go may have gone already, and is silent for that reason.
        if let (Heard::Datagram(header), []) = (heard, outputs)
            && !self.checks.standing().goes(member)
        {
            self.count(self.row_of_silence(member, &header));
        }
        for output in outputs {
            let row = match output {
                Output::Datagram { to, bytes } => number(*to)
                    .and_then(|to| self.header_of_handoff(to, bytes))
                    .and_then(|said| self.row_of_saying(member, heard, &said, outputs)),
                Output::Event(event) => self.row_of_event(member, heard, event, outputs),
            };
            self.count(row);
        }
    }

    fn count(&mut self, row: Option<Row>) {
        if let Some(row) = row {
            self.outcome.rows.reached(row);
        }
    }

    fn row_of_silence(&self, member: usize, heard: &Header) -> Option<Row> {
        match heard.kind {
            Kind::Ack => Some(Row::AckDropped),
            Kind::Commit => Some(Row::CommitDropped),
            Kind::Move => {
                let accepted = self.memory.accepted.get(&(member, heard.token));
                accepted.filter(|accepted| heard.session <= **accepted).map(|_| Row::MoveTooOld)
            }
            _ => None,
        }
    }

    fn row_of_saying(
        &mut self,
        member: usize,
        heard: Heard,
        said: &Header,
        outputs: &[Output],
    ) -> Option<Row> {
        let about = (said.token, said.session);
        let did = |wanted: fn(&handoff::Event) -> bool| handoffs(outputs).any(wanted);
        match said.kind {
            Kind::Move if self.memory.offered.insert(member, about) == Some(about) => Some(Row::MoveAgain),
            Kind::Move => Some(Row::Offer),
            Kind::Ack => Some(Row::MoveAnswered),
            // The first one of its session belongs to the row of the event.
            Kind::Commit if did(|event| matches!(event, handoff::Event::Released { .. })) => None,
            Kind::Commit if heard.is_ack_of(said) => Some(Row::AckAgain),
            Kind::Commit => Some(Row::CommitAgain),
            Kind::EarlyStop if did(|event| matches!(event, handoff::Event::Arrived { .. })) => None,
            Kind::EarlyStop => Some(Row::CommitAnsweredAgain),
            _ => None,
        }
    }

    fn row_of_event(
        &mut self,
        member: usize,
        heard: Heard,
        event: &Event,
        outputs: &[Output],
    ) -> Option<Row> {
        let is_dropped = |event: &handoff::Event| matches!(event, handoff::Event::Dropped { .. });
        match *event {
            Event::StopSlot if heard.is(Kind::Ack) => Some(Row::AckStopsPull),
            Event::StopSlot if matches!(heard, Heard::Slept) && !handoffs(outputs).any(is_dropped) => {
                Some(Row::Slept)
            }
            Event::Agent(agent::Event::Discarded { because: agent::Spurious::Met, .. }) => {
                Some(Row::TokensMet)
            }
            Event::Handoff(event) => self.row_of_handoff(member, heard, event, outputs),
            _ => None,
        }
    }

    fn row_of_handoff(
        &mut self,
        member: usize,
        heard: Heard,
        event: handoff::Event,
        outputs: &[Output],
    ) -> Option<Row> {
        match event {
            handoff::Event::Released { .. } if heard.is(Kind::Ack) => Some(Row::AckWithoutPull),
            handoff::Event::Released { .. } => Some(Row::PullStopped),
            handoff::Event::Confirmed { .. } if heard.is(Kind::EarlyStop) => Some(Row::EarlyStop),
            handoff::Event::Confirmed { .. } => heard.is(Kind::Move).then_some(Row::MoveOfLater),
            // Who was banned meanwhile did not fail to answer.
            handoff::Event::Unreachable { .. } => {
                let is_ban = |output: &Output| matches!(output, Output::Event(Event::BansChanged { .. }));
                (!outputs.iter().any(is_ban)).then_some(Row::GivenUp)
            }
            handoff::Event::CommitAbandoned { .. } => Some(Row::CommitAbandoned),
            handoff::Event::AuthorityConflict { .. } => Some(Row::MoveInConflict),
            handoff::Event::Dropped { because, .. } => {
                (because == handoff::Dropped::Slept).then_some(Row::SleptTooLong)
            }
            handoff::Event::Arrived { token, session, .. } => {
                self.memory.accepted.insert((member, token), session);
                Some(Row::CommitAccepted)
            }
        }
    }

    /// The header, if it is one of the four that hand a token off and would be looked at by its receiver.
    pub(super) fn header_of_handoff(&self, receiver: usize, bytes: &[u8]) -> Option<Header> {
        // Most are not: their gates need not be checked once more.
        bytes.get(KIND_AT).filter(|kind| **kind <= Kind::EarlyStop as u8)?;
        let envelope =
            Envelope::open(bytes, self.authority.circle(), *self.ids.get(receiver)?, &GATE).ok()?;
        Some(*envelope.header())
    }
}

/// Where a datagram tells its kind.
const KIND_AT: usize = 5;

fn handoffs(outputs: &[Output]) -> impl Iterator<Item = &handoff::Event> {
    outputs.iter().filter_map(|output| match output {
        Output::Event(Event::Handoff(event)) => Some(event),
        _ => None,
    })
}
