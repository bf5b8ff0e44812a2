//! Who may speak in a circle: keys and signatures, certificates, charters, bans, invitations, key files.
//!
//! What the records say and how they are written is in `wire::records`; here is who may sign them and what a
//! signature is worth. `node` asks a [`Roll`] whom to believe; `cli` founds circles, invites and joins; `peer` answers
//! enrolments with an [`Authority`] and its [`InvitationLedger`].
//!
//! No clock is read and no randomness drawn: wall time comes in as seconds since 1970, keys and secrets are made of
//! bytes that the caller drew. Only [`files`] touches the file system.
//!
//! ```text
//!  authority's member                                 new lab
//!    | Invitation::new, InvitationLedger::open           |
//!    |---- st1-… by mail or chat ----------------------->| Invitation::parse, a key of its own
//!    |<--- key, id, enrolment_mac ----------------------- |
//!    | InvitationLedger::redeem, saved, then             |
//!    |---- certificate, charter, bans ------------------>| Roll::new, check_certificate, Home
//!
//!  authority without a network                        new lab
//!    |<--- sr1-… Request (file) ------------------------ |
//!    |---- sc1-… Grant (file) -------------------------->| Grant::accept, Home
//! ```

mod authority;
pub mod files;
mod invitation;
mod keys;
mod ledger;
mod offline;
mod roll;
#[cfg(test)]
mod samples;
mod shapes;
mod text;

pub use authority::{Authority, Succession, expiry_warning, renewal_is_due, sign_address};
pub use files::{Credentials, FileError, Home};
pub use invitation::{BOOTSTRAP_LIMIT, Invitation, OneTimeSecret, enrolment_mac, verify_enrolment};
pub use keys::{Checker, GateKey, PrivateKey, Suite, verify};
pub use ledger::{EnrolRefusal, InvitationLedger, Invited};
pub use offline::{Grant, Request};
pub use roll::{CLOCK_TOLERANCE, Roll};
pub use text::TextError;

/// Why a record is not believed. Strangers get silence, so this is for counters, logs and people at the keyboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It belongs to another circle.
    #[error("it belongs to another circle")]
    WrongCircle,
    /// The signature is not by the key that it should be by.
    #[error("the signature is wrong")]
    BadSignature,
    /// It becomes valid later.
    #[error("it is not valid yet; is the clock right?")]
    NotYetValid,
    /// It was valid once.
    #[error("it has expired")]
    Expired,
    /// The authority has taken it back.
    #[error("it was banned")]
    Banned,
    /// A newer one is known.
    #[error("a newer one is known")]
    Older,
    /// It is somebody else's.
    #[error("it belongs to another member")]
    WrongMember,
    /// Well signed or not, this cannot be meant.
    #[error("it makes no sense: {0}")]
    Nonsense(&'static str),
}
