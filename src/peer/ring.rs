//! The member's part in a ring of tickets that is not the node's: who begins it, and what the log says of it.

use std::time::Duration;

use tracing::{info, warn};

use crate::node::Command;
use crate::proto::tickets::Event;
use crate::wire::records::Ring;

use super::member::{Member, PeerError};

/// A ring that replaces another one begins so long after its first member has heard of it: the others hear of it too, or
/// their witnesses do, and what they hold by the old one has ended.
const NEW_RING_AFTER: Duration = Duration::from_secs(15);

impl Member {
    /// There is a ring to begin, now or soon.
    pub(super) async fn plan_ring(&mut self) -> Result<(), PeerError> {
        let ring = self.handle.roll().await?.charter().ring();
        let wait = |ring: Ring| if ring.epoch > 1 { NEW_RING_AFTER } else { Duration::ZERO };
        self.ring_at = ring.map(|ring| self.clock.now() + wait(ring));
        Ok(())
    }

    /// Begins the circle's ring, if that is this member's to do. Whoever was there before joins like everybody else.
    pub(super) async fn begin_ring(&self) -> Result<(), PeerError> {
        let roll = self.handle.roll().await?;
        let Some(ring) = roll.charter().ring() else { return Ok(()) };
        let is_first = self.handle.status().await?.member == ring.first;
        if self.home.take_ring(ring.epoch, is_first)? {
            info!(ring = ring.epoch, "begins the ring");
            self.handle.command(Command::FoundRing { epoch: ring.epoch }).await?;
        }
        Ok(())
    }

    /// The ring ended with us: the next start begins it again.
    pub(super) fn keep_ring(&self, epoch: u32) {
        info!(ring = epoch, "was the last of the ring, and begins it again at the next start");
        if let Err(error) = self.home.keep_ring(epoch) {
            warn!(%error, "cannot save that; the authority must found a new ring");
        }
    }
}

pub(super) fn log(event: &Event) {
    match event {
        Event::Took { seat } => info!(ticket = seat.ticket, "has a ticket"),
        Event::Unsure => info!("too few members vouch for our ticket; it is not used"),
        Event::Sure => info!("the ticket may be used again"),
        Event::Lost { seat, is_given_back: true } => info!(ticket = seat.ticket, "gave the ticket back"),
        Event::Lost { seat, is_given_back: false } => warn!(ticket = seat.ticket, "lost the ticket"),
        Event::Excluded { seats } => {
            for seat in seats {
                warn!(member = %seat.member, ticket = seat.ticket, "did not answer, and has lost its ticket");
            }
        }
        // The lender's, and the end of the process.
        Event::SlotBegan { .. } | Event::Leased { .. } | Event::StopSlot | Event::Left => {}
    }
}
