//! Another process with our key: a copied home folder, or a machine that was cloned. Both sign as one member, and neither
//! can be told which is the right one; but both can say that there are two.

use std::net::SocketAddr;
use std::time::Duration;

use crate::base::Time;

use super::machine::Node;
use super::nouns::Event;

/// How often it is told of.
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// What is known of another process with our key.
#[derive(Debug, Default)]
pub(super) struct Twin {
    /// A record of ours that was newer than ours was heard of before.
    has_caught_up: bool,
    told_at: Option<Time>,
}

impl Node {
    /// A signed record of our own is newer than ours, and names this address. One such record may be of an earlier run with
    /// a clock that was ahead. But then we count on from above it, so whoever signs a still newer one is alive.
    pub(super) fn on_newer_record(&mut self, address: SocketAddr, now: Time) {
        let is_alive = std::mem::replace(&mut self.twin.has_caught_up, true);
        if !is_alive || address == self.record.address {
            return;
        }
        self.counters.duplicate_identity += 1;
        if self.twin.told_at.is_none_or(|told_at| now.since(told_at) >= TOLD_EVERY) {
            self.twin.told_at = Some(now);
            self.outbox.tell(Event::DuplicateIdentity { address });
        }
    }
}
