//! Simulated members are numbers to the circle of bare agents, and identities to the agents.

use crate::base::MemberId;

/// Members are numbered; the number is spelled into the first bytes of the identity.
pub(super) fn member_id(number: u32) -> MemberId {
    let mut bytes = [0; 16];
    for (byte, digit) in bytes.iter_mut().zip(number.to_be_bytes()) {
        *byte = digit;
    }
    MemberId::from_bytes(bytes)
}

/// The number that was spelled so.
pub(super) fn member_number(id: MemberId) -> u32 {
    id.as_bytes().iter().take(4).fold(0, |number, &byte| number << 8 | u32::from(byte))
}
