//! Who is a member, in whose eyes: the checkers' own books of bans and certificates.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::base::Time;
use crate::trust::CLOCK_TOLERANCE;

/// A node looks at its own certificate every 30 s; then it has a second to act, because wall time is in whole seconds.
const OWN_EXPIRY_UNSEEN: Duration = Duration::from_secs(31);

/// What the authority has said, who has heard it, and what everybody's clock shows.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// The version of the bans that named the member first.
    banned: BTreeMap<usize, u32>,
    /// The version of the bans that the member has heard of. It is in its files, so a crash alone does not change it.
    heard: BTreeMap<usize, u32>,
    /// Certificates that end during the run: until when they count, in seconds since 1970.
    ends_s: BTreeMap<usize, u64>,
    wall_offset_ms: BTreeMap<usize, i64>,
}

impl Standing {
    /// The authority bans a member with this version of its list.
    pub(super) fn ban(&mut self, member: usize, version: u32) {
        self.banned.entry(member).or_insert(version);
    }

    /// The member knows this version of the list.
    pub(super) fn heard(&mut self, member: usize, version: u32) {
        let known = self.heard.entry(member).or_default();
        *known = version.max(*known);
    }

    /// The member has lost its files: until it hears of the bans again it cannot know whom they name, be it itself.
    pub(super) fn forgot(&mut self, member: usize) {
        self.heard.remove(&member);
    }

    /// The member's certificate ends during the run.
    pub(super) fn certified_until(&mut self, member: usize, not_after_s: u64) {
        self.ends_s.insert(member, not_after_s.saturating_add(CLOCK_TOLERANCE.as_secs()));
    }

    /// The member started with its clock so.
    pub(super) fn started(&mut self, member: usize, wall_offset_ms: i64) {
        self.wall_offset_ms.insert(member, wall_offset_ms);
    }

    /// Whether the authority has banned it, whoever knows.
    pub(super) fn is_banned(&self, member: usize) -> bool {
        self.banned.contains_key(&member)
    }

    /// Whether it is, or will be, no member at the end of the run.
    pub(super) fn goes(&self, member: usize) -> bool {
        self.is_banned(member) || self.ends_s.contains_key(&member)
    }

    /// Whether it has heard the newest bans.
    pub(super) fn is_up_to_date(&self, member: usize) -> bool {
        self.version_of(member) >= self.banned.values().copied().max().unwrap_or(0)
    }

    /// Whether `member` knows that `other` is banned.
    pub(super) fn knows_banned(&self, member: usize, other: usize) -> bool {
        self.banned.get(&other).is_some_and(|version| *version <= self.version_of(member))
    }

    /// Whether the certificate of `other` has expired by the clock of `member`.
    pub(super) fn sees_expired(&self, member: usize, other: usize, at: Time) -> bool {
        let Some(ends_s) = self.ends_s.get(&other) else { return false };
        let offset_ms = self.wall_offset_ms.get(&member).copied().unwrap_or(0);
        let wall_s = offset_ms.saturating_add(at.as_nanos() / 1_000_000) / 1000;
        u64::try_from(wall_s).unwrap_or(0) > *ends_s
    }

    /// Whether it must have found out that it is no member any more.
    pub(super) fn knows_itself_out(&self, member: usize, at: Time) -> bool {
        self.knows_banned(member, member) || self.sees_expired(member, member, at - OWN_EXPIRY_UNSEEN)
    }

    fn version_of(&self, member: usize) -> u32 {
        self.heard.get(&member).copied().unwrap_or(0)
    }
}
