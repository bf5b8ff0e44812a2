//! One place in the circle, its papers, and who lives there.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use crate::base::{MemberId, Rng, Time};
use crate::node::Node;
use crate::sim::clock::Clock;
use crate::trust::{Authority, CLOCK_TOLERANCE, PrivateKey};
use crate::wire::records::{Bans, Certificate, Charter, Mode, Ring};

use super::ring::TicketPull;
use super::scenario::{RingSize, Scenario};

/// Wall time at the start of every run, in seconds since 1970.
pub(super) const WALL_START_S: u64 = 1_700_000_000;

/// A paused member's socket keeps so many datagrams; the rest are lost.
const SOCKET_BUFFER: usize = 256;

/// One place in the circle.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) seed: [u8; 32],
    pub(super) certificate: Certificate,
    /// The newest bans that it has heard of, as in its files.
    pub(super) bans: Option<Bans>,
    /// The same for the charter; none if it has only that of its enrolment.
    pub(super) charter: Option<Charter>,
    pub(super) clock: Clock,
    pub(super) node: Option<Node>,
    /// How often it was started: what belongs to an earlier life is void.
    pub(super) life: u32,
    pub(super) paused: Option<Pause>,
    pub(super) pull: Option<TicketPull>,
    pub(super) served_in_peace: bool,
    pub(super) slots: u32,
    /// Since when it waits for the first slot after work appeared.
    pub(super) burst_at: Option<Time>,
}

/// What waits for a member that stands still.
#[derive(Debug)]
pub(super) struct Pause {
    pub(super) since: Time,
    pub(super) buffer: Vec<(usize, Vec<u8>)>,
    /// Its pull has ended meanwhile.
    pub(super) slot_stopped: bool,
}

impl Pause {
    pub(super) fn since(now: Time) -> Self {
        Self { since: now, buffer: Vec::new(), slot_stopped: false }
    }

    pub(super) fn keep(&mut self, from: usize, bytes: Vec<u8>) {
        if self.buffer.len() < SOCKET_BUFFER {
            self.buffer.push((from, bytes));
        }
    }
}

impl Place {
    /// A place whose certificate counts for so long, or longer than any run.
    pub(super) fn new(
        number: usize,
        scenario: &Scenario,
        authority: &Authority,
        certified_for: Option<Duration>,
        rng: &mut Rng,
    ) -> Self {
        let seed = bytes32(rng);
        let key = PrivateKey::from_seed(scenario.suite, seed);
        let serial = number as u64 + 1;
        let name = format!("lab-{number}");
        // Everybody's clock may be wrong, so certificates count a while longer than they say.
        let not_after_s = certified_for.map_or(WALL_START_S + 3_000_000_000, |span| {
            WALL_START_S.saturating_add(span.as_secs()).saturating_sub(CLOCK_TOLERANCE.as_secs())
        });
        let certificate = authority
            .issue(serial, key.public(), &name, WALL_START_S - 86_400, not_after_s)
            .expect("the name is short and the times are in order");
        Self {
            seed,
            certificate,
            bans: None,
            charter: None,
            clock: Clock::new(Time::ZERO, 0.0),
            node: None,
            life: 0,
            paused: None,
            pull: None,
            served_in_peace: false,
            slots: 0,
            burst_at: None,
        }
    }

    /// Whether somebody is there and listens.
    pub(super) fn is_awake(&self) -> bool {
        self.node.is_some() && self.paused.is_none()
    }
}

pub(super) fn charter(scenario: &Scenario, authority: &Authority, first: MemberId) -> Charter {
    let ring = |RingSize { tickets, faults }| Mode::Tickets(Ring { tickets, faults, first, epoch: 1 });
    Charter {
        circle: authority.circle(),
        version: 1,
        issued_s: WALL_START_S,
        name: "simulated".to_owned(),
        source: "http://127.0.0.1/".to_owned(),
        aliases: Vec::new(),
        slot: scenario.slot,
        skip: scenario.skip,
        capacity: scenario.capacity.unwrap_or(u32::try_from(scenario.members).unwrap_or(u32::MAX)),
        bandwidth: 0,
        rules: scenario.rules,
        scouts: 8,
        retention: Duration::ZERO,
        mode: scenario.ring.map_or(Mode::Token, ring),
        signature: [0; 64],
    }
}

pub(super) fn bytes32(rng: &mut Rng) -> [u8; 32] {
    let mut bytes = [0; 32];
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&rng.next_u64().to_be_bytes());
    }
    bytes
}

/// Members live at 10.x.y.z: the number in the address.
pub(super) fn address(member: usize) -> SocketAddr {
    let number = u32::try_from(member).unwrap_or(0);
    SocketAddr::from((Ipv4Addr::from(0x0a00_0000 | number), 7433))
}

pub(super) fn number(address: SocketAddr) -> Option<usize> {
    match address {
        SocketAddr::V4(v4) => usize::try_from(u32::from(*v4.ip()) & 0x00ff_ffff).ok(),
        SocketAddr::V6(_) => None,
    }
}
