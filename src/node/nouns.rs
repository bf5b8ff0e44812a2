//! The node's nouns: what goes in and what comes out.

use std::net::SocketAddr;
use std::time::Duration;

use crate::base::{MemberId, Nonce, Session, Time, TokenId};
use crate::proto::{agent, directory, handoff, load, tickets};
use crate::trust::{GateKey, PrivateKey, Roll};
use crate::wire::records::{Bans, Certificate, Charter, Entry, PublicKey};

use super::pull::Right;

/// Who a member is, and what it believes of its circle.
#[derive(Debug)]
pub struct Identity {
    /// Its private key.
    pub key: PrivateKey,
    /// The authority's word for it.
    pub certificate: Certificate,
    /// Charter and bans.
    pub roll: Roll,
    /// The circle's gate key.
    pub gate: GateKey,
}

/// How a member starts.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where others reach it.
    pub address: SocketAddr,
    /// Where its sequence numbers begin, of its address record and its questions: higher than any that it used before, such
    /// as [`first_sequence`](super::first_sequence).
    pub sequence: u64,
    /// 32 bytes that nobody can guess and that were never used before.
    pub boot_secret: [u8; 32],
    /// What to add to `now` to get the wall clock, in milliseconds since 1970.
    pub wall_offset_ms: i64,
    /// Seed of everything that is random but need not be secret.
    pub seed: u64,
    /// How many members it knows, and for how long.
    pub directory: directory::Config,
}

/// What happens to a node.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "an input is made, handled and gone; it is never stored")]
pub enum Input<'a> {
    /// Bytes came in.
    Datagram {
        /// The bytes, whatever they are.
        bytes: &'a [u8],
        /// From where, as far as the network says.
        from: SocketAddr,
    },
    /// Its own process wants something.
    Command(Command),
    /// Time has passed.
    Wake,
}

/// What its own process wants of a node.
#[derive(Debug)]
pub enum Command {
    /// Whether there is something to pull.
    Work(bool),
    /// The pull has ended: no byte is read any more.
    SlotStopped,
    /// So many bytes were pulled in the slot that has just ended: what a slot carries is the measure of the advice.
    Carried {
        /// How many.
        bytes: u64,
    },
    /// Make the circle's first token.
    Found,
    /// Begin the circle's ring of tickets. Whoever says so knows that nobody has begun this one, or that it ended here.
    FoundRing {
        /// Which ring; nothing happens if another one is in force.
        epoch: u32,
    },
    /// Say hello to whoever is at this address.
    Greet {
        /// Where.
        address: SocketAddr,
    },
    /// Ask everybody who is known whether they are there.
    Probe,
    /// An entry from a file: it is checked like any other.
    Learn {
        /// The entry.
        entry: Entry,
    },
    /// This member is reached at another address now.
    Moved {
        /// Where.
        address: SocketAddr,
    },
    /// The source asks to be left alone for so long.
    Cool {
        /// How long.
        span: Duration,
        /// What it said, for people to read. It does not travel with the token.
        reason: String,
    },
    /// The computer slept, or the clocks jumped against each other.
    Slept {
        /// For how long.
        asleep: Duration,
        /// 32 new bytes that nobody can guess.
        fresh_secret: [u8; 32],
    },
    /// The loop was late by more than a second: nobody listened.
    Stalled,
    /// The wall clock was set.
    WallClock {
        /// What to add to `now`.
        offset_ms: i64,
    },
    /// A charter from the authority at hand.
    Charter {
        /// The charter.
        charter: Charter,
    },
    /// Bans from the authority at hand.
    Bans {
        /// The bans.
        bans: Bans,
    },
    /// The answer to [`Event::Enrol`].
    Welcome {
        /// Where the newcomer is.
        to: SocketAddr,
        /// Who it is.
        member: MemberId,
        /// Its certificate.
        certificate: Certificate,
    },
    /// The answer to [`Event::Renew`].
    Renewed {
        /// Where the member is.
        to: SocketAddr,
        /// Who it is.
        member: MemberId,
        /// Of its question.
        nonce: Nonce,
        /// Its new certificate.
        certificate: Certificate,
    },
    /// A new certificate of this member itself: it is checked like any other.
    Certificate {
        /// The certificate.
        certificate: Certificate,
    },
    /// Hand the token over, or the ticket back, and go.
    Leave,
}

/// What a node wants done.
#[derive(Debug, PartialEq, Eq)]
pub enum Output {
    /// Send these bytes.
    Datagram {
        /// Where to.
        to: SocketAddr,
        /// What.
        bytes: Vec<u8>,
    },
    /// Something happened.
    Event(Event),
}

/// What happened at a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The jobs may pull.
    SlotBegan {
        /// By what.
        right: Right,
        /// In which session: a number that only grows, to fence off late writers.
        session: Session,
        /// Until when at most.
        until: Time,
    },
    /// Another member has offered us a token and we have said yes: a slot may begin in a moment, or not.
    Expecting {
        /// Which token.
        token: TokenId,
    },
    /// We ask another member whether it takes a token: the first Move of this attempt leaves.
    Offering {
        /// Which token.
        token: TokenId,
        /// The session of the attempt.
        session: Session,
    },
    /// Whether another member is known to wait for the token that is here.
    Wanted(bool),
    /// The jobs must end their pull now, and say [`Command::SlotStopped`] when no byte is read any more.
    StopSlot,
    /// The pull has ended, by order or because the jobs had enough.
    SlotEnded,
    /// Something at the agent.
    Agent(agent::Event),
    /// Something about a handoff.
    Handoff(handoff::Event),
    /// Something about tickets.
    Tickets(tickets::Event),
    /// We were the last of the ring and have left it in good order: no ticket is with anybody, and it may be begun again
    /// here, by [`Command::FoundRing`], at the next start.
    RingClosed {
        /// Which ring.
        epoch: u32,
    },
    /// A member that was not known.
    MemberLearned {
        /// Who.
        member: MemberId,
    },
    /// Another process speaks with this member's key. Told once a minute at most.
    DuplicateIdentity {
        /// Where that says that it is.
        address: SocketAddr,
    },
    /// The circle leaves its source alone.
    Cooling {
        /// Until when.
        until: Time,
        /// Why, if this member asked for it; nothing if it came with the token from another member.
        reason: Option<String>,
    },
    /// The circle bears its load otherwise than before; [`Status::verdict`](super::Status::verdict) says why.
    Load(load::Level),
    /// A newer charter is in force.
    CharterChanged {
        /// Its version.
        version: u32,
    },
    /// A newer list of bans is in force.
    BansChanged {
        /// Its version.
        version: u32,
    },
    /// Somebody with an invitation wants to be a member.
    Enrol {
        /// Who it would be.
        member: MemberId,
        /// Its key; the datagram was signed with it.
        key: PublicKey,
        /// Which invitation.
        invitation: [u8; 8],
        /// The proof that it knows the invitation's secret.
        mac: [u8; 16],
        /// Where the answer goes.
        address: SocketAddr,
    },
    /// A member's certificate ends soon, and it asks for another one.
    Renew {
        /// Who.
        member: MemberId,
        /// Of the question.
        nonce: Nonce,
        /// Where the answer goes.
        address: SocketAddr,
    },
    /// This member has a new certificate: [`Status::certificate`](super::Status::certificate), to be saved.
    Renewed {
        /// Until when it is good, in seconds since 1970.
        until_s: u64,
    },
    /// This member was banned, or its certificate has expired.
    Expelled,
    /// The token is handed over, or the ticket given back, and goodbye is said.
    Left,
}
