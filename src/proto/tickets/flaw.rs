//! Rules that a test may switch off, to see that the checkers notice.

/// Which rule is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// All witnesses must vouch, as in the paper's pseudo-code: one crash empties the ring.
    AllMustVouch,
    /// Only what was shown to the one who excludes counts: an update may have been taken and its answer lost.
    ShownListOnly,
    /// The excluded are not given the time to notice.
    NoWait,
    /// Only those vouch who are sure themselves, as in the paper: failures spread.
    OnlySureVouch,
    /// Whoever has promised to vouch no more does so all the same.
    NoLock,
}
