//! Whether a simulated member is there: for the circle of bare agents.

/// Whether a member is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    Up,
    /// Up until it has handed the token off.
    Leaving,
    Down,
    Gone,
}

impl Presence {
    pub(super) fn is_up(self) -> bool {
        matches!(self, Self::Up | Self::Leaving)
    }
}
