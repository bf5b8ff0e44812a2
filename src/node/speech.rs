//! What the node says: datagrams, and where they go.

use std::net::SocketAddr;
use std::time::Duration;

use crate::base::{Hearsay, MemberId, Nonce, Session, Time, TokenId};
use crate::proto::directory::Known;
use crate::proto::{agent, handoff};
use crate::wire::records::{Certificate, Entry};
use crate::wire::{ANYONE, Body, DATAGRAM_LIMIT, Datagram, Header, Kind, Letter, NO_TOKEN, pad_to};

use super::machine::{ASKED_LIMIT, Asked, Cargo, Node};

/// Questions are padded to this, so that the answer may carry as much: a certificate and two entries.
const QUESTION_LEN: usize = 1100;

/// The same for a question that asks for a proof: room for two sightings, and for nobody's entry.
const PROOF_LEN: usize = 400;

/// Entries told of in one datagram, besides one's own.
const TOLD: usize = 2;

impl Node {
    pub(super) fn send_handoff(
        &mut self,
        to: MemberId,
        token: TokenId,
        session: Session,
        message: handoff::Message,
        with_certificate: bool,
    ) {
        let (kind, nonce, body) = match message {
            handoff::Message::Move => (Kind::Move, Nonce::default(), Body::Move),
            handoff::Message::Ack(nonce) => {
                (Kind::Ack, nonce, Body::Ack { entries: self.directory.sample(TOLD) })
            }
            handoff::Message::Commit(nonce) => {
                let Cargo { age, cool } = self
                    .cargo
                    .get(&token)
                    .copied()
                    .unwrap_or(Cargo { age: Duration::ZERO, cool: Duration::ZERO });
                (Kind::Commit, nonce, Body::Commit { age, cool, entries: self.directory.sample(1) })
            }
            handoff::Message::EarlyStop(nonce) => (Kind::EarlyStop, nonce, Body::EarlyStop),
        };
        let was_asked_with = self.question.is_some_and(|question| question.had_certificate);
        let certificate = (with_certificate || was_asked_with).then(|| self.identity.certificate.clone());
        let header = self.header(kind, to, token, session, nonce);
        let mut datagram = Datagram { header, body, certificate, padding: 0 };
        if kind == Kind::Move {
            datagram = pad_to(datagram, QUESTION_LEN);
        }
        self.send(to, datagram);
    }

    pub(super) fn send_message(&mut self, to: MemberId, message: &agent::Message, now: Time) {
        let (kind, token, session, body) = match *message {
            agent::Message::Report { waited, has_work, hearsay } => {
                let (waited, has_work) =
                    self.office.as_ref().map_or((waited, has_work), |office| office.wait(now));
                let body = Body::Report {
                    hearsay,
                    waited,
                    has_work,
                    charter_version: self.identity.roll.charter().version,
                    bans_version: self.identity.roll.bans_version(),
                    wall_ms: u64::try_from(self.wall_ms(now)).unwrap_or(0),
                    entries: self.own_and_others(TOLD),
                };
                (Kind::Report, NO_TOKEN, Session(0), body)
            }
            agent::Message::Release { token, session } => (Kind::Release, token, session, Body::Release),
            agent::Message::Check { token, session } => (Kind::Check, token, session, Body::Check),
            agent::Message::Holding { token, session } => (Kind::Holding, token, session, Body::Holding),
            agent::Message::Passed { token, session } => (Kind::Passed, token, session, Body::Passed),
            agent::Message::Scout { .. } => return self.scout_member(to, now),
            agent::Message::Demand { member } => return self.pass_on_demand(to, member),
        };
        let nonce = match (kind, self.question) {
            (Kind::Check, _) => self.ask(kind, to, now),
            (Kind::Release, _) | (_, None) => Nonce::default(),
            (_, Some(question)) => question.nonce,
        };
        let had_certificate = self.question.is_some_and(|question| question.had_certificate);
        // In a large circle the taker may have forgotten us since the handoff.
        let needs_certificate = had_certificate || kind == Kind::Check;
        let certificate = needs_certificate.then(|| self.identity.certificate.clone());
        let header = self.header(kind, to, token, session, nonce);
        self.send(to, Datagram { header, body, certificate, padding: 0 });
    }

    pub(super) fn send_scouts(&mut self, count: usize, now: Time) {
        for member in self.directory.draw_to_ask(count) {
            self.scout_member(member, now);
        }
    }

    fn scout_member(&mut self, member: MemberId, now: Time) {
        if let Some(address) = self.directory.address(member) {
            let is_stranger = self.is_stranger(member);
            self.send_scout(address, member, is_stranger, now);
        }
    }

    /// Whether a member may not know our certificate. One that does not answer may have forgotten us.
    fn is_stranger(&self, member: MemberId) -> bool {
        let knows_us = |known: &Known| known.heard_at().is_some() && !known.is_suspected();
        !self.directory.get(member).is_some_and(knows_us)
    }

    /// Tells some members that this one has work.
    pub(super) fn announce_demand(&mut self, count: usize) {
        for member in self.directory.draw(count) {
            let certificate = self.is_stranger(member).then(|| self.identity.certificate.clone());
            self.send_demand(member, self.entry(), certificate);
        }
    }

    /// Tells one member that another one has work.
    fn pass_on_demand(&mut self, to: MemberId, member: MemberId) {
        if let Some(entry) = self.directory.get(member).map(|known| known.entry().clone()) {
            self.send_demand(to, entry, None);
        }
    }

    /// A demand goes to the address that the receiver signed, never to where a question came from: it is not an answer, and
    /// longer than some questions.
    fn send_demand(&mut self, to: MemberId, entry: Entry, certificate: Option<Certificate>) {
        let Some(address) = self.directory.address(to) else { return };
        let nonce = Nonce::of_question(self.next_sequence(), self.rng.next_u64());
        let header = self.header(Kind::Demand, to, NO_TOKEN, Session(0), nonce);
        self.send_to(address, &Datagram { header, body: Body::Demand { entry }, certificate, padding: 0 });
    }

    /// A scout to whoever is at the address: how a newcomer gets to know its first members.
    pub(super) fn send_greeting(&mut self, address: SocketAddr, now: Time) {
        self.send_scout(address, ANYONE, true, now);
    }

    fn send_scout(&mut self, address: SocketAddr, member: MemberId, with_certificate: bool, now: Time) {
        let nonce = self.ask(Kind::Scout, member, now);
        let body = Body::Scout {
            record: self.directory.get(member).map_or(0, |known| known.entry().record.sequence),
            hearsay: self.hearsay(now),
            charter_version: self.identity.roll.charter().version,
            bans_version: self.identity.roll.bans_version(),
            entries: vec![self.entry()],
        };
        let certificate = with_certificate.then(|| self.identity.certificate.clone());
        let header = self.header(Kind::Scout, member, NO_TOKEN, Session(0), nonce);
        let datagram = pad_to(Datagram { header, body, certificate, padding: 0 }, QUESTION_LEN);
        self.send_to(address, &datagram);
    }

    /// The nonce of a new question, whose answer is waited for.
    pub(super) fn ask(&mut self, kind: Kind, member: MemberId, now: Time) -> Nonce {
        let nonce = Nonce::of_question(self.next_sequence(), self.rng.next_u64());
        if self.asked.len() >= ASKED_LIMIT {
            self.asked.remove(0);
        }
        self.asked.push(Asked { kind, member, nonce, at: now, for_proof: false });
        nonce
    }

    /// Asks a member whether what its question has told of tokens is still so. The question itself proves nothing: it may have
    /// been recorded, and its sender have crashed since. The answer repeats a nonce of ours. It is asked for where the member
    /// said that it is, never where the question came from, and tells nothing, so that nothing is asked back.
    pub(super) fn ask_for_proof(&mut self, member: MemberId, now: Time) {
        let is_asked = |asked: &Asked| asked.member == member && asked.kind == Kind::Scout;
        let Some(address) = self.directory.address(member) else { return };
        if self.asked.iter().any(is_asked) {
            return;
        }
        let certificate = self.is_stranger(member).then(|| self.identity.certificate.clone());
        let nonce = self.ask(Kind::Scout, member, now);
        if let Some(asked) = self.asked.last_mut() {
            asked.for_proof = true;
        }
        let body = Body::Scout {
            record: self.directory.get(member).map_or(0, |known| known.entry().record.sequence),
            hearsay: Hearsay::default(),
            charter_version: self.identity.roll.charter().version,
            bans_version: self.identity.roll.bans_version(),
            entries: Vec::new(),
        };
        let header = self.header(Kind::Scout, member, NO_TOKEN, Session(0), nonce);
        let datagram = pad_to(Datagram { header, body, certificate, padding: 0 }, PROOF_LEN);
        self.send_to(address, &datagram);
    }

    pub(super) fn send_goodbye(&mut self, member: MemberId) {
        let header = self.header(Kind::Leave, member, NO_TOKEN, Session(0), Nonce::default());
        let body = Body::Leave { sequence: self.record.sequence };
        self.send(member, Datagram { header, body, certificate: None, padding: 0 });
    }

    pub(super) fn send_welcome(&mut self, to: SocketAddr, member: MemberId, certificate: Certificate) {
        let charter = self.identity.roll.charter().clone();
        let header = self.header(Kind::Enrolled, member, NO_TOKEN, Session(0), Nonce::default());
        let body = Body::Enrolled { certificate, charter };
        let own = Some(self.identity.certificate.clone());
        self.send_to(to, &Datagram { header, body, certificate: own, padding: 0 });
    }

    /// Somebody whose charter or bans are older than ours gets ours: at the address that it signed, not where its question
    /// came from. Together with the report it is more than was asked with, and an old question can be sent again from
    /// anywhere.
    pub(super) fn share_versions(
        &mut self,
        to: MemberId,
        charter_version: u32,
        bans_version: u32,
        now: Time,
    ) {
        let roll = &self.identity.roll;
        let mut news = Vec::new();
        if charter_version < roll.charter().version {
            news.push((Kind::Charter, Body::Charter(roll.charter().clone())));
        }
        if let Some(bans) = roll.bans().filter(|bans| bans_version < bans.version) {
            news.push((Kind::Bans, Body::Bans(bans.clone())));
        }
        for (kind, body) in news {
            if self.buckets.allow_news(now) {
                let header = self.header(kind, to, NO_TOKEN, Session(0), Nonce::default());
                let certificate = Some(self.identity.certificate.clone());
                let datagram = Datagram { header, body, certificate, padding: 0 };
                if let Some(address) = self.directory.address(to) {
                    self.send_to(address, &datagram);
                }
            }
        }
    }

    /// Who is banned hears it, once, before everybody turns away: it should stop by itself.
    pub(super) fn tell_the_banned(&mut self) {
        let roll = &self.identity.roll;
        let Some(bans) = roll.bans().cloned() else { return };
        let is_banned = |certificate: &Certificate| roll.is_banned(certificate.serial);
        let banned: Vec<MemberId> = self
            .directory
            .iter()
            .filter(|(_, known)| is_banned(&known.entry().certificate))
            .map(|(member, _)| member)
            .collect();
        for member in banned {
            let header = Header::bare(Kind::Bans, self.identity.roll.circle(), self.me, member);
            let certificate = Some(self.identity.certificate.clone());
            self.send(member, Datagram { header, body: Body::Bans(bans.clone()), certificate, padding: 0 });
        }
    }

    fn own_and_others(&mut self, others: usize) -> Vec<Entry> {
        let mut entries = vec![self.entry()];
        entries.extend(self.directory.sample(others));
        entries
    }

    pub(super) fn header(
        &self,
        kind: Kind,
        receiver: MemberId,
        token: TokenId,
        session: Session,
        nonce: Nonce,
    ) -> Header {
        Header { kind, circle: self.identity.roll.circle(), sender: self.me, receiver, token, session, nonce }
    }

    /// An answer goes back to where the question came from, and is cut to its length: what cannot be cut so far is not
    /// said. Anything else goes to the address that the member signed.
    pub(super) fn send(&mut self, to: MemberId, datagram: Datagram) {
        let question = self.question.filter(|question| question.from == to);
        let limit = question.map_or(DATAGRAM_LIMIT, |question| question.len);
        let letter = write_within(datagram, limit);
        let may_leave = |letter: &Letter| !is_answer(letter.kind()) || letter.len() <= limit;
        if let Some((address, letter)) = self.address_of(to).zip(letter.filter(may_leave)) {
            self.outbox.send(address, letter);
        }
    }

    fn address_of(&self, member: MemberId) -> Option<SocketAddr> {
        match self.question {
            Some(question) if question.from == member => Some(question.address),
            _ => self.directory.address(member),
        }
    }

    pub(super) fn send_to(&mut self, to: SocketAddr, datagram: &Datagram) {
        if let Some(letter) = datagram.write() {
            self.outbox.send(to, letter);
        }
    }
}

/// Whether anybody gets it for the asking. A Commit and a Move are no such answers: they belong to a handoff that is under
/// way, which nobody can begin from outside.
fn is_answer(kind: Kind) -> bool {
    matches!(kind, Kind::Ack | Kind::EarlyStop | Kind::Report | Kind::Holding | Kind::Passed)
}

/// Leaves out entries, and then the certificate, until the datagram is no longer than `len` or nothing more can be left out.
fn write_within(mut datagram: Datagram, len: usize) -> Option<Letter> {
    loop {
        let letter = datagram.write();
        let fits = letter.as_ref().is_some_and(|letter| letter.len() <= len);
        if fits || !shorten(&mut datagram) {
            return letter;
        }
    }
}

fn shorten(datagram: &mut Datagram) -> bool {
    let entries = match &mut datagram.body {
        Body::Ack { entries } | Body::Commit { entries, .. } | Body::Report { entries, .. } => entries.pop(),
        _ => None,
    };
    entries.is_some() || datagram.certificate.take().is_some()
}
