//! Nonces: what a taker gives in its Ack, and wants to see again in the Commit.
//!
//! ```text
//! nonce  issued (u32, ticks since this boot) || tag (12 bytes)
//! tag    keyed BLAKE3(boot secret; issued || circle || token || session || giver || taker)
//! ```
//!
//! The nonce is the taker's whole memory of a Move: it comes back, and its tag says that this very process made it for
//! exactly this handoff. A counter or a time would not do: after a restart it could repeat.

use std::fmt;

use constant_time_eq::constant_time_eq;
use zeroize::Zeroize as _;

use crate::base::{CircleId, MemberId, Nonce, Session, TokenId};

/// The handoff for which a nonce is made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Purpose {
    pub(super) circle: CircleId,
    pub(super) token: TokenId,
    pub(super) session: Session,
    pub(super) giver: MemberId,
    pub(super) taker: MemberId,
}

/// What only this run of this process knows. Never stored, never printed.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct BootSecret([u8; 32]);

impl BootSecret {
    pub(super) const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The nonce for this purpose, issued at this tick.
    pub(super) fn issue(&self, issued: u32, purpose: &Purpose) -> Nonce {
        let tag = self.tag(issued, purpose);
        let mut bytes = [0; 16];
        let all = issued.to_be_bytes().into_iter().chain(tag);
        bytes.iter_mut().zip(all).for_each(|(byte, value)| *byte = value);
        Nonce::from_bytes(bytes)
    }

    /// At which tick this secret issued the nonce for this purpose; `None` if it did not.
    pub(super) fn issued(&self, nonce: &Nonce, purpose: &Purpose) -> Option<u32> {
        let (issued, tag) = nonce.as_bytes().split_first_chunk::<4>()?;
        let issued = u32::from_be_bytes(*issued);
        constant_time_eq(tag, &self.tag(issued, purpose)).then_some(issued)
    }

    /// Goes over to the next secret, so that all nonces issued so far are worth nothing.
    ///
    /// A hash of the old one is enough: it cannot be guessed, because the old one could not; tags under it have
    /// nothing in common with tags under the old one; and once the old one is overwritten there is no way back to it. What
    /// a hash cannot do is tell apart two copies of this process: both would go over to the same secret. After a
    /// sleep or a jump, when there might be two, the driver brings fresh random bytes instead.
    pub(super) fn advance(&mut self) {
        self.replace(blake3::derive_key("stroll 2025 handoff: next boot secret", &self.0));
    }

    /// Forgets the old secret and takes this one.
    pub(super) fn replace(&mut self, bytes: [u8; 32]) {
        self.0.zeroize();
        self.0 = bytes;
    }

    fn tag(&self, issued: u32, purpose: &Purpose) -> [u8; 12] {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        // All fields have a fixed length, so no two purposes give the same bytes.
        hasher.update(&issued.to_be_bytes());
        hasher.update(purpose.circle.as_bytes());
        hasher.update(&purpose.token.created_ms.to_be_bytes());
        hasher.update(purpose.token.generator.as_bytes());
        hasher.update(&purpose.token.random.to_be_bytes());
        hasher.update(&purpose.session.0.to_be_bytes());
        hasher.update(purpose.giver.as_bytes());
        hasher.update(purpose.taker.as_bytes());
        let mut tag = [0; 12];
        hasher.finalize_xof().fill(&mut tag);
        tag
    }
}

impl Drop for BootSecret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for BootSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BootSecret(..)")
    }
}
