//! Waits for a file that was written just now: another write within the same second would not show in its date, so nothing
//! could tell that its bytes are of one version. The engine asks when the first range begins and at every piece.
//!
//! A file that comes within a moment is not waited for, and none is waited for twice in one attempt: a date that is always
//! the time of the answer never settles.
//!
//! In a limited slot others wait for the token. There the pull ends with [`Outcome::Unsettled`](super::Outcome::Unsettled),
//! and [`Deferral`] remembers why until the next pull of the file.

use std::time::Duration;

use tokio::time::Instant;

use crate::fetch::Version;

/// A file is deferred before its bytes for so long at most, so that one that is written every second is pulled at all: its
/// bytes are then checked after the last one.
const DEFER_FOR: Duration = Duration::from_secs(4);

/// Pulls of one file that ended because its date was too young.
#[derive(Debug, Default)]
pub struct Deferral {
    /// When the first of them ended.
    since: Option<Instant>,
    /// All bytes came while another write would not have shown in the date. The source is asked once more at this time.
    check_at: Option<Instant>,
    /// How many times the last of them began anew because the file had changed.
    pub(super) restarts: u32,
    /// The caller waits until files have settled, by its own rules.
    is_off: bool,
}

impl Deferral {
    /// No pull in a limited slot is deferred: the caller has waited until the file had settled, by its own rules.
    pub fn switch_off(&mut self) {
        self.is_off = true;
    }

    pub(super) fn is_off(&self) -> bool {
        self.is_off
    }

    /// Whether the file may be deferred before its bytes have come.
    pub(super) fn is_allowed(&self) -> bool {
        !self.is_off && self.since.is_none_or(|since| since.elapsed() < DEFER_FOR)
    }

    /// The pull ends because the date is too young.
    pub(super) fn begin(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }

    /// How long to wait before the source is asked about the complete file again; `None` if that time has come.
    pub(super) fn check_in(&mut self, wait: Duration) -> Option<Duration> {
        self.begin();
        let check_at = *self.check_at.get_or_insert_with(|| Instant::now() + wait);
        Some(check_at.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())
    }

    /// The bytes that came are dropped.
    pub(super) fn begin_anew(&mut self) {
        self.check_at = None;
    }
}

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
