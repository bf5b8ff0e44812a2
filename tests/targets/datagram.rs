//! Any bytes as a datagram: what can be read is written in the same way again.

use stroll::base::{CircleId, MemberId};
use stroll::wire::{DATAGRAM_MIN, Envelope, MAGIC, VERSION};

use super::sealed::{GATE, gate};

/// To whom the fuzzed datagrams go.
pub(crate) const ME: MemberId = MemberId::from_bytes([2; 16]);
/// In which circle.
pub(crate) const CIRCLE: CircleId = CircleId::from_bytes([1; 16]);

pub(crate) fn run(data: &[u8]) {
    is_read_and_written(data);
    if data.len() < DATAGRAM_MIN {
        return;
    }
    // The same behind the first checks: right preamble, circle, receiver and gate.
    let mut bytes = data.to_vec();
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[4] = VERSION;
    bytes[5] = 1 + bytes[5] % 18;
    bytes[8..24].copy_from_slice(CIRCLE.as_bytes());
    if !bytes[40].is_multiple_of(4) {
        bytes[40..56].copy_from_slice(ME.as_bytes());
    }
    gate(&mut bytes);
    is_read_and_written(&bytes);
}

fn is_read_and_written(bytes: &[u8]) {
    let Ok(envelope) = Envelope::open(bytes, CIRCLE, ME, &GATE) else { return };
    assert_eq!(envelope.len(), bytes.len());
    let certificate = envelope.certificate();
    let Ok(datagram) = envelope.read() else { return };
    assert_eq!(certificate.as_ref(), Ok(&datagram.certificate));
    assert_eq!(datagram.len(), bytes.len());
    let signature = *envelope.signature();
    let written = datagram.encode(&GATE, |signed| {
        assert_eq!(signed, envelope.signed_bytes());
        signature
    });
    assert_eq!(written.as_deref(), Some(bytes));
}
