//! What members say to each other, as bytes: records, datagrams, and the limits of both.

mod body;
pub mod codec;
mod envelope;
mod header;
pub mod records;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod ticket_samples;
mod tickets;

use crate::base::{CircleId, MemberId};

pub use body::{Body, COOL_LIMIT, ENTRIES_LIMIT};
pub use envelope::{DATAGRAM_LIMIT, DATAGRAM_MIN, Datagram, Envelope, Letter, Rejected, pad_to};
pub use header::{ANYONE, Header, Kind, MAGIC, NO_TOKEN, VERSION};
use records::PublicKey;
pub use tickets::{COORDINATORS_LIMIT, SEATS_LIMIT, WAITERS_LIMIT};

/// The member with this public key.
pub fn member_id(key: &PublicKey) -> MemberId {
    MemberId::from_bytes(short_hash(b"member", key))
}

/// The circle of the authority with this public key.
pub fn circle_id(authority: &PublicKey) -> CircleId {
    CircleId::from_bytes(short_hash(b"circle", authority))
}

fn short_hash(domain: &[u8], key: &PublicKey) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(domain).update(key);
    let mut short = [0; 16];
    hasher.finalize_xof().fill(&mut short);
    short
}
