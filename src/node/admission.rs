//! Who is listened to: every check on a datagram, the cheapest first, silent at the first failure.

use std::net::SocketAddr;

use crate::base::{MemberId, Time};
use crate::proto::handoff;
use crate::trust::{self, Refusal};
use crate::wire::records::{Certificate, PublicKey};
use crate::wire::{self, Body, Datagram, Envelope, Header, Kind};

use super::machine::Node;

/// Why a datagram was dropped. Counted, never answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// Not a datagram of this circle for this member.
    Wire(wire::Rejected),
    /// A good datagram that fits nothing that is under way.
    Irrelevant,
    /// Too many of them.
    TooMany,
    /// A token too many: of its generator, or of who brings it.
    Quota,
    /// A sender without a known certificate, and it brought none.
    UnknownSender,
    /// A certificate that is not valid here.
    Certificate(Refusal),
    /// Not signed by its sender.
    Signature,
}

impl Rejection {
    /// A word for metrics and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wire(rejected) => rejected.name(),
            Self::Irrelevant => "irrelevant",
            Self::TooMany => "too_many",
            Self::Quota => "quota",
            Self::UnknownSender => "unknown_sender",
            Self::Certificate(_) => "certificate",
            Self::Signature => "signature",
        }
    }
}

impl From<wire::Rejected> for Rejection {
    fn from(rejected: wire::Rejected) -> Self {
        Self::Wire(rejected)
    }
}

impl Node {
    pub(super) fn admit(&mut self, bytes: &[u8], from: SocketAddr, now: Time) -> Result<Datagram, Rejection> {
        let circle = self.identity.roll.circle();
        let envelope = Envelope::open(bytes, circle, self.me, self.identity.gate.as_bytes())?;
        let header = envelope.header();
        if !self.is_relevant(&envelope, now) {
            return Err(Rejection::Irrelevant);
        }
        if matches!(header.kind, Kind::Move | Kind::Commit) {
            let slot = self.identity.roll.charter().slot;
            if !self.quota.allows(header.token, header.sender, slot, now) {
                return Err(Rejection::Quota);
            }
        }
        let is_at_home = self.directory.address(header.sender) == Some(from);
        let is_allowed = match header.kind {
            _ if is_at_home && self.buckets.allow_member(header.sender, now) => true,
            // What belongs to something that is under way, as was just seen.
            Kind::Ack
            | Kind::Commit
            | Kind::EarlyStop
            | Kind::Report
            | Kind::Holding
            | Kind::Passed
            | Kind::Renewed
            | Kind::Release => self.buckets.allow_answer(now),
            _ => self.buckets.allow_question(from, now),
        };
        if !is_allowed {
            return Err(Rejection::TooMany);
        }
        let (suite, signed) = (self.identity.key.suite(), envelope.signed_bytes());
        let is_signed = if header.kind == Kind::Enrol {
            trust::verify(suite, &enrolling_key(&envelope)?, &signed, envelope.signature())
        } else {
            let key = self.sender_key(&envelope, now)?;
            let handoff = &self.handoff;
            let is_needed = |member| handoff.is_engaged_with(member);
            let checker = self.keyring.checker(suite, header.sender, &key, is_needed);
            checker.is_some_and(|checker| checker.check(&signed, envelope.signature()))
        };
        if !is_signed {
            return Err(Rejection::Signature);
        }
        let datagram = envelope.read()?;
        if header.kind.is_numbered() {
            self.last_questions.note(header.sender, header.nonce.sequence());
        }
        Ok(datagram)
    }

    /// Whether the datagram fits something that is under way, by its header alone. Nobody can guess the nonce of an open
    /// question, so a flood of forged answers does not use up what is set aside for them.
    fn is_relevant(&self, envelope: &Envelope<'_>, now: Time) -> bool {
        let header = envelope.header();
        if self.office.is_some() && header.kind.has_token() {
            // There is none in this circle.
            return false;
        }
        let message = match header.kind {
            Kind::Move => handoff::Message::Move,
            Kind::Ack => handoff::Message::Ack(header.nonce),
            Kind::Commit => handoff::Message::Commit(header.nonce),
            Kind::EarlyStop => handoff::Message::EarlyStop(header.nonce),
            Kind::Scout | Kind::Check | Kind::Renew | Kind::Demand => return self.is_new_question(header),
            Kind::Report | Kind::Holding | Kind::Passed | Kind::Renewed => {
                return self.asked.iter().any(|asked| asked.is_answered_by(header));
            }
            Kind::Release => {
                return self.agent.is_custodian(header.sender, header.token, header.session);
            }
            // Who is a member already has no need to become one.
            Kind::Enrol => return self.directory.get(header.sender).is_none(),
            Kind::Ticket => return self.office.is_some() && self.is_new_question(header),
            Kind::Enrolled => return false,
            Kind::Leave | Kind::Charter | Kind::Bans => return true,
        };
        let (from, token, session) = (header.sender, header.token, header.session);
        let is_open = header.kind != Kind::Move || (self.agent.is_open() && now >= self.unhealthy_until);
        is_open && self.handoff.is_relevant(&handoff::Received { from, token, session, message }, now)
    }

    /// Whether nobody heard this question before: its number is above the last one, and above that of the sender's record,
    /// which comes before all questions of one run.
    fn is_new_question(&self, header: &Header) -> bool {
        let sequence = header.nonce.sequence();
        let known = self.directory.get(header.sender).map(|known| known.entry().record.sequence);
        known.is_none_or(|record| sequence > record) && self.last_questions.is_new(header.sender, sequence)
    }

    /// The key that the signature is checked with: of a known certificate, or of the one that came along.
    fn sender_key(&mut self, envelope: &Envelope<'_>, now: Time) -> Result<PublicKey, Rejection> {
        let sender = envelope.header().sender;
        let wall_s = self.wall_s(now);
        for certificate in self.known_certificates(sender) {
            match self.identity.roll.check_validity(certificate, wall_s) {
                Ok(()) => return Ok(certificate.key),
                // It may have been renewed.
                Err(Refusal::Expired) => {}
                Err(refusal) => return Err(Rejection::Certificate(refusal)),
            }
        }
        let certificate = envelope.certificate()?.ok_or(Rejection::UnknownSender)?;
        if wire::member_id(&certificate.key) != sender {
            return Err(Rejection::Certificate(Refusal::WrongMember));
        }
        if !self.buckets.allow_certificate(now) {
            return Err(Rejection::TooMany);
        }
        self.identity.roll.check_certificate(&certificate, wall_s).map_err(Rejection::Certificate)?;
        let (key, handoff) = (certificate.key, &self.handoff);
        self.keyring.add(sender, certificate, |member| handoff.is_engaged_with(member));
        Ok(key)
    }

    fn known_certificates(&self, member: MemberId) -> impl Iterator<Item = &Certificate> {
        let listed = self.directory.get(member).map(|known| &known.entry().certificate);
        self.keyring.certificate(member).into_iter().chain(listed)
    }
}

/// Somebody who is not yet a member brings its key itself.
fn enrolling_key(envelope: &Envelope<'_>) -> Result<PublicKey, Rejection> {
    match envelope.read()?.body {
        Body::Enrol { key, .. } => Ok(key),
        _ => Err(Rejection::Wire(wire::Rejected::Malformed)),
    }
}
