//! Waits for a file that was written just now: another write within the same second would not show in its date, so nothing
//! could tell that its bytes are of one version. The engine asks when the first range begins and at every piece.
//!
//! A file that comes within a moment is not waited for, and none is waited for twice in one attempt: a date that is always
//! the time of the answer never settles.

use std::time::Duration;

use crate::fetch::Version;

/// What is known of the date of the file that begins.
#[derive(Debug, Default)]
pub(super) enum Settling {
    /// It has not been looked at, or is old enough.
    #[default]
    No,
    /// It is too young, and its bytes are coming.
    Coming(Duration),
    WaitedFor,
}

impl Settling {
    /// Looks at the version that the first bytes are of. Gives how long to wait before them if they could not be taken back.
    pub(super) fn begin(&mut self, version: &Version, can_restart: bool) -> Option<Duration> {
        let (Self::No, Some(wait_s)) = (&self, version.settles_in_s()) else { return None };
        let wait = Duration::from_secs(wait_s);
        *self = Self::Coming(wait);
        (!can_restart && version.size != Some(0)).then_some(wait)
    }

    /// How long to wait, now that the bytes have been coming for more than a moment.
    pub(super) fn due(&self) -> Option<Duration> {
        match self {
            Self::Coming(wait) => Some(*wait),
            Self::No | Self::WaitedFor => None,
        }
    }
}
