//! What the connections to one file know together: which ranges are taken, and when things happened. Used by `shared` alone.

use std::ops::Range;
use std::time::Duration;

use tokio::time::Instant;

use super::settle::{Deferral, Settling};
use crate::fetch::plan::Planner;

/// The first time after which what was pulled is made durable; then it doubles up to the longest. A pull that is killed early
/// has lost little, and one that runs for long is not slowed down.
const CHECKPOINT_FIRST: Duration = Duration::from_millis(250);
const CHECKPOINT_LONGEST: Duration = Duration::from_secs(5);

/// A file whose last byte came within this time after its header fields is not checked again: the source has read it in
/// about that time, and one more request would double the cost of a small file.
const TOO_SHORT_TO_MATTER: Duration = Duration::from_millis(50);

/// How much of the end is compared where the source's word is not enough: at most, and however slow the link is.
const TAIL: usize = 64 << 10;
const SHORTEST_TAIL: usize = 512;

/// See the module.
pub(super) struct Books<'a> {
    pub(super) planner: &'a mut Planner,
    /// Ranges that some connection is at.
    pub(super) claimed: Vec<Range<u64>>,
    /// How many ranges were opened.
    pub(super) opened: u32,
    /// When the first of them was.
    pub(super) opened_at: Option<Instant>,
    /// There were bytes before the first of them.
    pub(super) is_resumed: bool,
    /// The store knows which version it gets.
    pub(super) is_begun: bool,
    /// Whether another write would show in the file's date.
    pub(super) settling: Settling,
    pub(super) deferral: &'a mut Deferral,
    /// The end of a file of unknown length was seen.
    pub(super) is_ended: bool,
    checkpoint_at: Instant,
    checkpoint_after: Duration,
}

impl<'a> Books<'a> {
    pub(super) fn new(planner: &'a mut Planner, deferral: &'a mut Deferral, is_resumed: bool) -> Self {
        Self {
            planner,
            claimed: Vec::new(),
            opened: 0,
            opened_at: None,
            is_resumed,
            is_begun: false,
            settling: Settling::default(),
            deferral,
            is_ended: false,
            checkpoint_at: Instant::now() + CHECKPOINT_FIRST,
            checkpoint_after: CHECKPOINT_FIRST,
        }
    }

    /// How much is compared with so much of the slot left: no more than a quarter of what that can carry, so that a slow link
    /// brings something new in every slot.
    pub(super) fn tail_length(&self, left: Option<Duration>) -> usize {
        let carried = left.and_then(|left| self.planner.capacity(left));
        let quarter = carried.map(|bytes| usize::try_from(bytes / 4).unwrap_or(TAIL));
        quarter.map_or(TAIL, |quarter| quarter.clamp(SHORTEST_TAIL, TAIL))
    }

    /// Whether it is time to make durable what came; not again before the next time.
    pub(super) fn is_checkpoint_due(&mut self) -> bool {
        if Instant::now() < self.checkpoint_at {
            return false;
        }
        self.checkpoint_after = (self.checkpoint_after * 2).min(CHECKPOINT_LONGEST);
        self.checkpoint_at = Instant::now() + self.checkpoint_after;
        true
    }

    /// Whether the first range was opened a moment ago.
    pub(super) fn is_quick(&self) -> bool {
        self.opened_at.is_some_and(|at| at.elapsed() < TOO_SHORT_TO_MATTER)
    }

    /// Forgets the version, which has been waited for.
    pub(super) fn begin_anew(&mut self) {
        self.settling = Settling::WaitedFor;
        self.is_begun = false;
        self.opened_at = None;
    }
}
