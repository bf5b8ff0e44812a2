//! Checksums and gates put right, so that fuzzed bytes get behind them: a fuzzer cannot guess a hash.

use data_encoding::BASE32_NOPAD;

/// The gate key of the fuzzed circle.
pub(crate) const GATE: [u8; 32] = [7; 32];

/// The text form of a payload, as `trust` writes it.
pub(crate) fn text(letters: &str, payload: &[u8]) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"stroll text").update(letters.as_bytes()).update(payload);
    let sum = hasher.finalize();
    let bytes = [payload, &sum.as_bytes()[..4]].concat();
    format!("{letters}1-{}", BASE32_NOPAD.encode(&bytes).to_lowercase())
}

/// The payload of a text form, without its checksum: to begin with something valid.
pub(crate) fn payload(text: &str) -> Vec<u8> {
    let bytes = BASE32_NOPAD.decode(text[4..].to_uppercase().as_bytes()).unwrap_or_default();
    bytes[..bytes.len().saturating_sub(4)].to_vec()
}

/// Puts the gate's tag where it belongs.
pub(crate) fn gate(datagram: &mut [u8]) {
    let Some(end) = datagram.len().checked_sub(16) else { return };
    let tag = blake3::keyed_hash(&GATE, &datagram[..end]);
    datagram[end..].copy_from_slice(&tag.as_bytes()[..16]);
}
