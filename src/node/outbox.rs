//! What waits to leave a node: events first, then the datagrams of handoffs, then all others.
//!
//! A datagram is signed when it is taken out, not when it is put in: so the first one is on its way before the second is
//! signed, and a taker knows that the token is its own before it has signed a word about it. The node alone uses it.

use std::collections::VecDeque;
use std::net::SocketAddr;

use crate::trust::{GateKey, PrivateKey};
use crate::wire::{Datagram, Kind};

use super::nouns::{Event, Output};

/// The queues of one node; empty between two inputs.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    events: VecDeque<Event>,
    /// Somebody waits for these with a token.
    handoffs: VecDeque<(SocketAddr, Datagram)>,
    others: VecDeque<(SocketAddr, Datagram)>,
}

impl Outbox {
    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty() && self.handoffs.is_empty() && self.others.is_empty()
    }

    pub(super) fn tell(&mut self, event: Event) {
        self.events.push_back(event);
    }

    pub(super) fn send(&mut self, to: SocketAddr, datagram: Datagram) {
        let queue = match datagram.header.kind {
            Kind::Move | Kind::Ack | Kind::Commit | Kind::EarlyStop => &mut self.handoffs,
            _ => &mut self.others,
        };
        queue.push_back((to, datagram));
    }

    /// The next thing to be done. A datagram that nobody could read is left out.
    pub(super) fn take(&mut self, key: &PrivateKey, gate: &GateKey) -> Option<Output> {
        if let Some(event) = self.events.pop_front() {
            return Some(Output::Event(event));
        }
        while let Some((to, datagram)) = self.handoffs.pop_front().or_else(|| self.others.pop_front()) {
            if let Some(bytes) = datagram.encode(gate.as_bytes(), |bytes| key.sign(bytes)) {
                return Some(Output::Datagram { to, bytes });
            }
        }
        None
    }
}
