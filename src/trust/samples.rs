//! Keys and records for the tests of this room.

use std::time::Duration;

use crate::base::CircleId;
use crate::wire::records::{Charter, Mode, RuleSet};

use super::{Authority, PrivateKey, Suite};

pub(super) const NOW_S: u64 = 1_700_000_000;

pub(super) fn private_key(seed: u8) -> PrivateKey {
    PrivateKey::from_seed(Suite::Ed25519, [seed; 32])
}

pub(super) fn authority() -> Authority {
    Authority::new(private_key(1))
}

/// A charter that makes sense; not signed.
pub(super) fn charter() -> Charter {
    Charter {
        circle: CircleId::from_bytes([0; 16]),
        version: 7,
        issued_s: NOW_S,
        name: "virgo".to_owned(),
        source: "ftp://ftp.example.org/stream/".to_owned(),
        aliases: Vec::new(),
        slot: Duration::from_secs(4),
        skip: Duration::from_millis(100),
        capacity: 300,
        bandwidth: 0,
        rules: RuleSet::Guarded,
        scouts: 8,
        retention: Duration::ZERO,
        mode: Mode::Token,
        signature: [0; 64],
    }
}
