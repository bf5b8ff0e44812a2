//! Worlds and nodes that break a rule on purpose. They exist only in tests: each checker must notice.

use std::collections::BTreeMap;

use crate::node::Node;
use crate::proto::handoff::Flaw;
use crate::proto::tickets;

use super::place::bytes32;
use super::world::Whole;

/// What is broken.
#[derive(Debug, Default)]
pub(super) struct Sabotage {
    /// A rule inside of every handoff.
    flaw: Option<Flaw>,
    /// K6: what a node was when it crashed it is again when it starts.
    pub(super) possession_persists: bool,
    /// K4: a node starts with the same secret each time.
    pub(super) secrets_repeat: bool,
    /// So many times too long it takes until a pull has stopped.
    pub(super) slowness: Option<u32>,
    /// P47: what a recorded question tells of tokens is believed.
    believes_recordings: bool,
    /// A rule inside of everybody's tickets.
    ticket_flaw: Option<tickets::Flaw>,
    kept: BTreeMap<usize, Node>,
}

impl Sabotage {
    /// A node crashed.
    pub(super) fn keep(&mut self, member: usize, node: Node) {
        if self.possession_persists {
            self.kept.insert(member, node);
        }
    }

    /// A node started.
    pub(super) fn start(&mut self, member: usize, node: &mut Option<Node>) {
        if let Some(kept) = self.kept.remove(&member) {
            *node = Some(kept);
        }
        if let (Some(flaw), Some(node)) = (self.flaw, node.as_mut()) {
            node.break_rule(flaw);
        }
        if let (true, Some(node)) = (self.believes_recordings, node.as_mut()) {
            node.believe_recordings();
        }
        if let (Some(flaw), Some(node)) = (self.ticket_flaw, node) {
            node.break_rule_of_tickets(flaw);
        }
    }

    pub(super) fn slowness(&self) -> u32 {
        self.slowness.unwrap_or(1)
    }
}

impl Whole {
    /// All nodes, now and later, break this rule.
    pub(super) fn break_rule(&mut self, flaw: Flaw) {
        self.sabotage.flaw = Some(flaw);
        for node in self.places.iter_mut().filter_map(|place| place.node.as_mut()) {
            node.break_rule(flaw);
        }
    }

    /// All nodes, now and later, believe what questions tell.
    pub(super) fn believe_recordings(&mut self) {
        self.sabotage.believes_recordings = true;
        for node in self.places.iter_mut().filter_map(|place| place.node.as_mut()) {
            node.believe_recordings();
        }
    }

    /// The same for tickets.
    pub(super) fn break_rule_of_tickets(&mut self, flaw: tickets::Flaw) {
        self.sabotage.ticket_flaw = Some(flaw);
        for node in self.places.iter_mut().filter_map(|place| place.node.as_mut()) {
            node.break_rule_of_tickets(flaw);
        }
    }

    pub(super) fn boot_secret(&mut self, member: usize) -> [u8; 32] {
        let fresh = bytes32(&mut self.rng);
        if self.sabotage.secrets_repeat { [u8::try_from(member).unwrap_or(0); 32] } else { fresh }
    }
}
