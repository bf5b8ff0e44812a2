//! Renewal: a certificate that ends soon is asked for anew, of whoever has the authority's key at hand.
//!
//! ```text
//!  member                                     some members, drawn anew every time
//!     |---- Renew (numbered, padded) -------------->|  event `Renew`; without the authority's key: silence
//!     |<--- Renewed(certificate) -------------------|  command `Renewed`, by a process that has it
//! ```
//!
//! Nobody tells who has that key, so members are asked at random, in all the weeks that are left. The new certificate has
//! the serial of the old one, so that a ban of the one is a ban of the other. It travels like every certificate, with the
//! address record.

use std::net::SocketAddr;
use std::time::Duration;

use crate::base::{MemberId, Nonce, Session, Time};
use crate::trust::renewal_is_due;
use crate::wire::records::Certificate;
use crate::wire::{Body, Datagram, Kind, NO_TOKEN, pad_to};

use super::machine::{Node, Question};
use super::nouns::Event;

/// How long a Renew is: room for two certificates in the answer, the new one and that of the one who answers.
const RENEW_LEN: usize = 600;

/// How often members are asked, and how many of them.
const RENEW_EVERY: Duration = Duration::from_secs(20);
const RENEW_ASKED: usize = 3;

impl Node {
    /// Asks for a new certificate if it is time. Not worth a wake-up of its own: there are weeks left.
    pub(super) fn renew_when_due(&mut self, now: Time) {
        if now < self.renew_at || !renewal_is_due(&self.identity.certificate, self.wall_s(now)) {
            return;
        }
        self.renew_at = now + RENEW_EVERY;
        for member in self.directory.draw(RENEW_ASKED) {
            let nonce = self.ask(Kind::Renew, member, now);
            let header = self.header(Kind::Renew, member, NO_TOKEN, Session(0), nonce);
            let certificate = Some(self.identity.certificate.clone());
            let question = Datagram { header, body: Body::Renew, certificate, padding: 0 };
            self.send(member, pad_to(question, RENEW_LEN));
        }
    }

    /// Somebody's certificate ends soon. The process decides; what is too short for its answer is not passed on.
    pub(super) fn on_renew(&mut self, question: Option<Question>, now: Time) {
        let Some(Question { from, address, nonce, .. }) =
            question.filter(|question| question.len >= RENEW_LEN)
        else {
            return;
        };
        if self.buckets.allow_news(now) {
            self.outbox.tell(Event::Renew { member: from, nonce, address });
        }
    }

    pub(super) fn send_renewed(
        &mut self,
        to: SocketAddr,
        member: MemberId,
        nonce: Nonce,
        certificate: Certificate,
    ) {
        let header = self.header(Kind::Renewed, member, NO_TOKEN, Session(0), nonce);
        let own = Some(self.identity.certificate.clone());
        let answer = Datagram { header, body: Body::Renewed { certificate }, certificate: own, padding: 0 };
        if answer.len() <= RENEW_LEN {
            self.send_to(to, &answer);
        }
    }

    /// A certificate for our own key takes the place of ours if it is good, and good for longer.
    pub(super) fn take_certificate(&mut self, certificate: Certificate, now: Time) {
        let own = &self.identity.certificate;
        if certificate.key != own.key
            || certificate.not_after_s <= own.not_after_s
            || self.identity.roll.check_certificate(&certificate, self.wall_s(now)).is_err()
        {
            return;
        }
        let until_s = certificate.not_after_s;
        self.identity.certificate = certificate;
        // A newer record, so that the others take the entry.
        self.sign_record(self.record.address);
        self.outbox.tell(Event::Renewed { until_s });
    }
}
