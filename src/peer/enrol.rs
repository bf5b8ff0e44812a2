//! Enrolling: how somebody with an invitation becomes a member.
//!
//! ```text
//!  newcomer                                   a member that has the authority's key at hand
//!     |---- Enrol(key, invitation, mac) ------------>|  padded, so that the answer is no longer
//!     |<--- Enrolled(certificate, charter) ----------|  once per key; nothing for anybody else
//! ```
//!
//! The bans do not fit into that datagram; the newcomer gets them as anybody gets them who is behind, in answer to its first
//! Scout, which says that it has none.
//!
//! The newcomer believes nothing but the authority's key, which came with the invitation.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::base::{CircleId, MemberId};
use crate::trust::{self, Invitation, PrivateKey, Refusal, Roll, Suite};
use crate::wire::records::{Certificate, Charter, PublicKey};
use crate::wire::{ANYONE, Body, DATAGRAM_LIMIT, Datagram, Envelope, Header, Kind, member_id, pad_to};

use super::sockets::Sockets;

/// How long to wait for an answer before the question is repeated.
const REPEAT_EVERY: Duration = Duration::from_millis(700);

/// What came of an enrolment.
#[derive(Debug)]
pub struct Enrolled {
    /// The new member's certificate.
    pub certificate: Certificate,
    /// The circle, as its authority says.
    pub roll: Roll,
    /// Who answered: the first member to greet.
    pub from: SocketAddr,
}

/// Why an enrolment did not work.
#[derive(Debug, thiserror::Error)]
pub enum EnrolError {
    /// Silence: nobody there, or the invitation is no longer good. Who cannot be authenticated gets no answer at all.
    #[error("nobody answered at {}", list(tried))]
    NoAnswer {
        /// Where we asked.
        tried: Vec<SocketAddr>,
    },
    /// An answer that the authority did not sign, or not for us.
    #[error("the answer is not the authority's word for this key: {0}")]
    Refused(#[from] Refusal),
    /// The socket failed.
    #[error("cannot use UDP")]
    Io(#[from] io::Error),
}

fn list(addresses: &[SocketAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Sends the enrolment request to the invitation's addresses until one answers; checks everything that comes back.
pub async fn enrol(
    invitation: &Invitation,
    key: &PrivateKey,
    wall_s: u64,
    patience: Duration,
) -> Result<Enrolled, EnrolError> {
    let tried = invitation.bootstrap.clone();
    let attempt = ask_until_answered(invitation, key, wall_s);
    timeout(patience, attempt).await.unwrap_or(Err(EnrolError::NoAnswer { tried }))
}

async fn ask_until_answered(
    invitation: &Invitation,
    key: &PrivateKey,
    wall_s: u64,
) -> Result<Enrolled, EnrolError> {
    let question = question(invitation, key);
    let sockets = Sockets::bind().await?;
    loop {
        for address in &invitation.bootstrap {
            sockets.send(&question, *address).await;
        }
        let answer = tokio::select! {
            answer = sockets.receive() => answer,
            () = sleep(REPEAT_EVERY) => continue,
        };
        let (bytes, from) = answer?;
        if let Some((certificate, charter)) = read_answer(&bytes, invitation, key.member_id()) {
            let roll = Roll::new(Suite::Ed25519, invitation.authority, charter, None)?;
            roll.check_certificate(&certificate, wall_s)?;
            if certificate.key != key.public() {
                return Err(Refusal::WrongMember.into());
            }
            return Ok(Enrolled { certificate, roll, from });
        }
    }
}

/// As long as a datagram can be, so that the answer is no longer than it.
fn question(invitation: &Invitation, key: &PrivateKey) -> Vec<u8> {
    let header = Header::bare(Kind::Enrol, invitation.circle(), key.member_id(), ANYONE);
    let mac = invitation.mac(&key.public());
    let body = Body::Enrol { key: key.public(), invitation: invitation.id, mac };
    let datagram = pad_to(Datagram { header, body, certificate: None, padding: 0 }, DATAGRAM_LIMIT);
    datagram.encode(invitation.gate.as_bytes(), |bytes| key.sign(bytes)).unwrap_or_default()
}

/// The answer, if it is one and signed by a member of the circle; anything else is noise.
fn read_answer(bytes: &[u8], invitation: &Invitation, me: MemberId) -> Option<(Certificate, Charter)> {
    let circle: CircleId = invitation.circle();
    let envelope = Envelope::open(bytes, circle, me, invitation.gate.as_bytes()).ok()?;
    let sender = envelope.certificate().ok()??;
    if !is_signed_by(&envelope, &sender.key) || member_id(&sender.key) != envelope.header().sender {
        return None;
    }
    match envelope.read().ok()?.body {
        Body::Enrolled { certificate, charter } => Some((certificate, charter)),
        _ => None,
    }
}

fn is_signed_by(envelope: &Envelope<'_>, key: &PublicKey) -> bool {
    trust::verify(Suite::Ed25519, key, &envelope.signed_bytes(), envelope.signature())
}
