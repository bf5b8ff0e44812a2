//! Datagrams by hand: written with a member's key, or forged without one.

use std::time::Duration;

use stroll::base::{CircleId, MemberId, Nonce, Session, TicketMessage};
use stroll::trust::PrivateKey;
use stroll::wire::records::{Certificate, Charter};
use stroll::wire::{Body, Datagram, Envelope, Header};

use super::{Circle, secs};

/// The gate key of every circle here: it comes with the credentials, so an attacker may well know it.
pub(crate) const GATE: [u8; 32] = [7; 32];

impl Circle {
    /// A datagram that this member might have written, signed with its key.
    pub(crate) fn write(
        &self,
        from: usize,
        to: MemberId,
        body: Body,
        certificate: bool,
        len: usize,
    ) -> Vec<u8> {
        let circle = self.authority.circle();
        self.write_for(
            circle,
            &self.key(from),
            certificate.then(|| self.members[from].certificate.clone()),
            to,
            body,
            len,
        )
    }

    pub(crate) fn write_for(
        &self,
        circle: CircleId,
        key: &PrivateKey,
        certificate: Option<Certificate>,
        to: MemberId,
        body: Body,
        len: usize,
    ) -> Vec<u8> {
        let kind = body.kind();
        let mut header = Header::bare(kind, circle, key.member_id(), to);
        if kind.has_token() {
            let (token, session) = self.token();
            (header.token, header.session) = (token, Session(session.0 + 5));
        }
        if kind.has_nonce() {
            header.nonce = Nonce::from_bytes([9; 16]);
        }
        let datagram = stroll::wire::pad_to(Datagram { header, body, certificate, padding: 0 }, len);
        datagram.encode(&GATE, |bytes| key.sign(bytes)).expect("a datagram that can be written")
    }

    /// What a body of every kind may look like, from this member.
    pub(crate) fn bodies(&self, from: usize) -> Vec<Body> {
        let entries = vec![self.entry(from)];
        vec![
            Body::Move,
            Body::Ack { entries: entries.clone() },
            Body::Commit { age: secs(1), cool: Duration::ZERO, entries: entries.clone() },
            Body::EarlyStop,
            Body::Scout {
                record: 0,
                hearsay: [None; 2],
                charter_version: 1,
                bans_version: 0,
                entries: entries.clone(),
            },
            Body::Report {
                hearsay: [None; 2],
                waited: None,
                has_work: true,
                charter_version: 1,
                bans_version: 0,
                wall_ms: 0,
                entries,
            },
            Body::Release,
            Body::Check,
            Body::Holding,
            Body::Passed,
            Body::Leave { sequence: 0 },
            Body::Charter(self.authority.sign_charter(Charter { version: 2, ..self.charter.clone() })),
            Body::Bans(self.bans(1, &[])),
            Body::Enrol { key: self.key(from).public(), invitation: [1; 8], mac: [2; 16] },
            Body::Enrolled {
                certificate: self.members[from].certificate.clone(),
                charter: self.charter.clone(),
            },
            Body::Renew,
            Body::Renewed { certificate: self.members[from].certificate.clone() },
            Body::Ticket { epoch: 1, message: TicketMessage::Join { incarnation: 1, waited: secs(1) } },
        ]
    }
}

/// What a node sends can be read by whom it is for.
pub(crate) fn open(bytes: &[u8], circle: CircleId) -> Envelope<'_> {
    let receiver = MemberId::from_bytes(bytes[40..56].try_into().unwrap());
    Envelope::open(bytes, circle, receiver, &GATE).expect("what a node sends can be read")
}

/// The same bytes, changed by somebody who knows the gate key but no private key.
pub(crate) fn forge(bytes: &[u8], change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut forged = bytes.to_vec();
    let end = forged.len() - 16;
    change(&mut forged[..end]);
    let mut tag = [0; 16];
    blake3::Hasher::new_keyed(&GATE).update(&forged[..end]).finalize_xof().fill(&mut tag);
    forged[end..].copy_from_slice(&tag);
    forged
}
