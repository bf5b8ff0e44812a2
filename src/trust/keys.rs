//! Keys and signatures.
//!
//! Not here: what is signed (`wire::records`) and whom to believe ([`Roll`](super::Roll)). Secrets print redacted, are
//! wiped when dropped, and leave only by methods whose names say so.

use std::fmt;

use constant_time_eq::constant_time_eq_32;
use ed25519_dalek::{Signer as _, SigningKey, VerifyingKey};
use zeroize::{Zeroize as _, ZeroizeOnDrop};

use crate::base::MemberId;
use crate::wire::member_id;
use crate::wire::records::{PublicKey, Signature};

const SIMULATED_KEY: &str = "stroll 1 simulated public key";

/// Which signatures: real ones, or for very large simulations a keyed hash that anybody could forge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    /// Ed25519, checked strictly.
    Ed25519,
    /// **Worthless outside the simulator**: the public key is all it takes to sign. It behaves like a signature towards
    /// accidents (every changed bit is noticed) and costs a small part of one.
    Simulated,
}

/// A member's or an authority's private key.
pub struct PrivateKey(Inner);

enum Inner {
    /// Wipes itself.
    Ed25519(SigningKey),
    Simulated {
        seed: [u8; 32],
        public: PublicKey,
    },
}

impl PrivateKey {
    /// The key that this seed always gives. The seed is the secret: 32 bytes from the system's generator, except in
    /// simulations.
    pub fn from_seed(suite: Suite, mut seed: [u8; 32]) -> Self {
        let key = match suite {
            Suite::Ed25519 => Inner::Ed25519(SigningKey::from_bytes(&seed)),
            Suite::Simulated => Inner::Simulated { seed, public: blake3::derive_key(SIMULATED_KEY, &seed) },
        };
        seed.zeroize();
        Self(key)
    }

    /// Which signatures it makes.
    pub fn suite(&self) -> Suite {
        match self.0 {
            Inner::Ed25519(_) => Suite::Ed25519,
            Inner::Simulated { .. } => Suite::Simulated,
        }
    }

    /// The public half.
    pub fn public(&self) -> PublicKey {
        match &self.0 {
            Inner::Ed25519(key) => key.verifying_key().to_bytes(),
            Inner::Simulated { public, .. } => *public,
        }
    }

    /// The member whose key it is.
    pub fn member_id(&self) -> MemberId {
        member_id(&self.public())
    }

    /// Signs a message.
    pub fn sign(&self, message: &[u8]) -> Signature {
        match &self.0 {
            Inner::Ed25519(key) => key.sign(message).to_bytes(),
            Inner::Simulated { public, .. } => simulated_signature(public, message),
        }
    }

    /// The secret itself, for saving only.
    pub fn seed(&self) -> &[u8; 32] {
        match &self.0 {
            Inner::Ed25519(key) => key.as_bytes(),
            Inner::Simulated { seed, .. } => seed,
        }
    }
}

impl Drop for PrivateKey {
    fn drop(&mut self) {
        if let Inner::Simulated { seed, .. } = &mut self.0 {
            seed.zeroize();
        }
    }
}

impl ZeroizeOnDrop for PrivateKey {}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey(of {}, redacted)", self.member_id())
    }
}

/// Whether this key made this signature of this message.
///
/// `verify_strict` for Ed25519: keys and commitments of small order are refused, and so is any second signature that
/// somebody derives from a valid one. One message has one valid signature per signing, which nobody else can vary.
pub fn verify(suite: Suite, key: &PublicKey, message: &[u8], signature: &Signature) -> bool {
    Checker::new(suite, key).is_some_and(|checker| checker.check(message, signature))
}

/// A public key that is ready to check signatures with. To find its point on the curve is a good part of a check, and need
/// not be done again for somebody who speaks often.
#[derive(Clone, Debug)]
pub struct Checker(Ready);

#[derive(Clone, Debug)]
enum Ready {
    Ed25519(VerifyingKey),
    Simulated(PublicKey),
}

impl Checker {
    /// For this key; `None` if it is no point of the curve.
    pub fn new(suite: Suite, key: &PublicKey) -> Option<Self> {
        Some(Self(match suite {
            Suite::Ed25519 => Ready::Ed25519(VerifyingKey::from_bytes(key).ok()?),
            Suite::Simulated => Ready::Simulated(*key),
        }))
    }

    /// As [`verify`].
    pub fn check(&self, message: &[u8], signature: &Signature) -> bool {
        match &self.0 {
            Ready::Ed25519(key) => {
                key.verify_strict(message, &ed25519_dalek::Signature::from_bytes(signature)).is_ok()
            }
            Ready::Simulated(key) => simulated_signature(key, message) == *signature,
        }
    }
}

/// Whether this can be anybody's public key: a point of the curve, and not one of the few for which signatures can be made
/// that fit every message.
pub(super) fn is_usable(suite: Suite, key: &PublicKey) -> bool {
    match suite {
        Suite::Ed25519 => VerifyingKey::from_bytes(key).is_ok_and(|key| !key.is_weak()),
        Suite::Simulated => true,
    }
}

fn simulated_signature(public: &PublicKey, message: &[u8]) -> Signature {
    let mut signature = [0; 64];
    blake3::Hasher::new_keyed(public).update(message).finalize_xof().fill(&mut signature);
    signature
}

/// The circle's gate key: every datagram carries a hash with it, a cheap filter before any signature is checked.
/// It comes with the credentials; whoever learns it can only make us check more signatures.
#[derive(Clone)]
pub struct GateKey([u8; 32]);

impl GateKey {
    /// The key with these bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The key's bytes, for hashing and saving.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl PartialEq for GateKey {
    fn eq(&self, other: &Self) -> bool {
        constant_time_eq_32(&self.0, &other.0)
    }
}

impl Eq for GateKey {}

impl Drop for GateKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl ZeroizeOnDrop for GateKey {}

impl fmt::Debug for GateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GateKey(redacted)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUITES: [Suite; 2] = [Suite::Ed25519, Suite::Simulated];

    /// ℓ, the order of the group, little-endian: adding it to S gives the classic second signature.
    const ORDER: [u8; 32] = [
        0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
    ];

    fn plus_order(signature: &Signature) -> Signature {
        let mut malleated = *signature;
        let mut carry = 0;
        for (digit, add) in malleated[32..].iter_mut().zip(ORDER) {
            let sum = u16::from(*digit) + u16::from(add) + carry;
            *digit = sum.to_le_bytes()[0];
            carry = sum >> 8;
        }
        assert_eq!(carry, 0, "S + ℓ fits into 32 bytes");
        malleated
    }

    #[test]
    fn a_signature_holds_for_its_message_and_key_only() {
        for suite in SUITES {
            let (mine, other) =
                (PrivateKey::from_seed(suite, [1; 32]), PrivateKey::from_seed(suite, [2; 32]));
            let signature = mine.sign(b"hello");
            assert!(verify(suite, &mine.public(), b"hello", &signature));
            assert!(!verify(suite, &mine.public(), b"hallo", &signature));
            assert!(!verify(suite, &other.public(), b"hello", &signature));
            assert!(!verify(suite, &mine.public(), b"hello", &[0; 64]));
        }
    }

    #[test]
    fn suites_do_not_take_each_other_for_real() {
        let simulated = PrivateKey::from_seed(Suite::Simulated, [1; 32]);
        assert!(!verify(Suite::Ed25519, &simulated.public(), b"hello", &simulated.sign(b"hello")));
        let real = PrivateKey::from_seed(Suite::Ed25519, [1; 32]);
        assert!(!verify(Suite::Simulated, &real.public(), b"hello", &real.sign(b"hello")));
    }

    #[test]
    fn every_changed_bit_of_a_signature_is_noticed() {
        for suite in SUITES {
            let key = PrivateKey::from_seed(suite, [1; 32]);
            let signature = key.sign(b"hello");
            for bit in 0..512 {
                let mut forged = signature;
                forged[bit / 8] ^= 1 << (bit % 8);
                assert!(!verify(suite, &key.public(), b"hello", &forged), "bit {bit}");
            }
        }
    }

    #[test]
    fn a_malleated_signature_is_refused() {
        let key = PrivateKey::from_seed(Suite::Ed25519, [1; 32]);
        for message in [&b"hello"[..], b"", b"token"] {
            let malleated = plus_order(&key.sign(message));
            assert!(!verify(Suite::Ed25519, &key.public(), message, &malleated));
        }
    }

    /// The eight points whose order divides 8, in their canonical encodings.
    fn small_order_keys() -> Vec<PublicKey> {
        let hex = |text: &str| -> PublicKey {
            data_encoding::HEXLOWER.decode(text.as_bytes()).unwrap().try_into().unwrap()
        };
        vec![
            hex("0100000000000000000000000000000000000000000000000000000000000000"),
            hex("ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
            hex("0000000000000000000000000000000000000000000000000000000000000000"),
            hex("0000000000000000000000000000000000000000000000000000000000000080"),
            hex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"),
            hex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa"),
            hex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"),
            hex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85"),
        ]
    }

    #[test]
    fn keys_of_small_order_are_refused() {
        // With A the neutral element, R = B·s fits every message: s = 0 gives R = the neutral element, S = 0.
        let mut universal = [0; 64];
        universal[0] = 1;
        for key in small_order_keys() {
            assert!(VerifyingKey::from_bytes(&key).is_ok(), "the list holds points of the curve");
            assert!(!is_usable(Suite::Ed25519, &key));
            for message in 0..32_u8 {
                assert!(!verify(Suite::Ed25519, &key, &[message], &universal));
            }
        }
    }

    #[test]
    fn bytes_that_are_no_point_are_refused() {
        let mut key = [0; 32];
        key[0] = 2;
        assert!(!is_usable(Suite::Ed25519, &key));
        assert!(!verify(Suite::Ed25519, &key, b"hello", &[0; 64]));
    }

    #[test]
    fn secrets_print_redacted() {
        for suite in SUITES {
            let text = format!("{:?}", PrivateKey::from_seed(suite, [0xa7; 32]));
            assert!(text.contains("redacted") && !text.contains("a7a7") && !text.contains("167"), "{text}");
        }
        let text = format!("{:?}", GateKey::from_bytes([0xa7; 32]));
        assert_eq!(text, "GateKey(redacted)");
    }
}
