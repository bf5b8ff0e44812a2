//! What waits to leave a node: events first, then the datagrams of handoffs, then all others.
//!
//! Events and handoffs are urgent: the node lets them out before its protocols say anything more. And a datagram is signed
//! when it is taken out, not when it is put in: so the first one is on its way before the second is signed, and a taker
//! knows that the token is its own before it has signed a word about it. The node alone uses it.

use std::collections::VecDeque;
use std::net::SocketAddr;

use crate::trust::{GateKey, PrivateKey};
use crate::wire::{Kind, Letter};

use super::nouns::{Event, Output};

/// The queues of one node; empty between two inputs.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    events: VecDeque<Event>,
    /// Somebody waits for these with a token.
    handoffs: VecDeque<(SocketAddr, Letter)>,
    others: VecDeque<(SocketAddr, Letter)>,
}

impl Outbox {
    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty() && self.handoffs.is_empty() && self.others.is_empty()
    }

    /// Whether somebody waits for something that is in it.
    pub(super) fn is_urgent(&self) -> bool {
        !self.events.is_empty() || !self.handoffs.is_empty()
    }

    pub(super) fn tell(&mut self, event: Event) {
        self.events.push_back(event);
    }

    pub(super) fn send(&mut self, to: SocketAddr, letter: Letter) {
        let queue = match letter.kind() {
            Kind::Move | Kind::Ack | Kind::Commit | Kind::EarlyStop => &mut self.handoffs,
            _ => &mut self.others,
        };
        queue.push_back((to, letter));
    }

    /// The next thing to be done.
    pub(super) fn take(&mut self, key: &PrivateKey, gate: &GateKey) -> Option<Output> {
        if let Some(event) = self.events.pop_front() {
            return Some(Output::Event(event));
        }
        let (to, letter) = self.handoffs.pop_front().or_else(|| self.others.pop_front())?;
        Some(Output::Datagram { to, bytes: letter.seal(gate.as_bytes(), |bytes| key.sign(bytes)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{CircleId, MemberId, Time};
    use crate::trust::Suite;
    use crate::wire::{Body, Datagram, Envelope, Header};

    const GATE: [u8; 32] = [3; 32];

    fn somewhere(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    fn receiver() -> MemberId {
        MemberId::from_bytes([2; 16])
    }

    fn circle() -> CircleId {
        CircleId::from_bytes([1; 16])
    }

    fn key() -> PrivateKey {
        PrivateKey::from_seed(Suite::Simulated, [4; 32])
    }

    fn letter(body: Body) -> Letter {
        let header = Header::bare(body.kind(), circle(), key().member_id(), receiver());
        Datagram { header, body, certificate: None, padding: 0 }.write().unwrap()
    }

    fn goodbye() -> Letter {
        letter(Body::Leave { sequence: 1 })
    }

    fn cooling() -> Event {
        Event::Cooling { until: Time::from_secs(1), reason: None }
    }

    /// What comes out: of a datagram where it goes and its kind, of an event nothing.
    fn drain(outbox: &mut Outbox) -> Vec<Option<(u16, Kind)>> {
        let take = || outbox.take(&key(), &GateKey::from_bytes(GATE));
        let read = |output| match output {
            Output::Event(_) => None,
            Output::Datagram { to, bytes } => {
                let envelope = Envelope::open(&bytes, circle(), receiver(), &GATE).unwrap();
                Some((to.port(), envelope.header().kind))
            }
        };
        std::iter::from_fn(take).map(read).collect()
    }

    #[test]
    fn events_come_first_then_handoffs_then_all_others() {
        let mut outbox = Outbox::default();
        outbox.send(somewhere(1), goodbye());
        outbox.send(somewhere(2), letter(Body::Move));
        outbox.tell(cooling());
        outbox.send(somewhere(3), letter(Body::Ack { entries: Vec::new() }));
        outbox.tell(Event::StopSlot);
        let came = drain(&mut outbox);
        assert_eq!(
            came,
            [None, None, Some((2, Kind::Move)), Some((3, Kind::Ack)), Some((1, Kind::Leave))],
            "and what is of one sort, in the order in which it was said"
        );
        assert!(outbox.is_empty());
    }

    #[test]
    fn what_comes_in_between_two_takings_is_sorted_in() {
        let mut outbox = Outbox::default();
        outbox.send(somewhere(1), goodbye());
        outbox.send(somewhere(2), goodbye());
        let first = outbox.take(&key(), &GateKey::from_bytes(GATE));
        assert!(matches!(first, Some(Output::Datagram { to, .. }) if to == somewhere(1)));
        outbox.send(somewhere(3), letter(Body::Move));
        outbox.tell(cooling());
        assert_eq!(drain(&mut outbox), [None, Some((3, Kind::Move)), Some((2, Kind::Leave))]);
    }
}
