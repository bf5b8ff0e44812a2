//! What the node hears: datagrams that were let in, and what each means to whom.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::base::{Hearsay, Time};
use crate::proto::directory::{Directory, Learned};
use crate::proto::{agent, handoff, load};
use crate::trust::Refusal;
use crate::wire::records::{Bans, Charter, Entry};
use crate::wire::{Body, Datagram, Header};

use super::machine::{Cargo, Leaving, Node, Question, agent_config, handoff_config, nominal_period};
use super::nouns::Event;

/// More questions than a member asks between two of its address records.
const QUESTIONS_OF_A_RUN: u64 = 1_000_000_000;

/// An answer to a question of ours.
#[derive(Clone, Copy, Debug)]
struct Answered {
    /// How long ago we asked.
    round_trip: Duration,
    /// We asked for a proof of what the member had told.
    is_proof: bool,
}

impl Node {
    /// False if it was not let in.
    pub(super) fn on_datagram(&mut self, bytes: &[u8], from: SocketAddr, now: Time) -> bool {
        let datagram = match self.admit(bytes, from, now) {
            Ok(datagram) => datagram,
            Err(rejection) => {
                self.counters.reject(rejection);
                return false;
            }
        };
        self.counters.accepted += 1;
        let sender = datagram.header.sender;
        self.question = Some(Question {
            from: sender,
            address: from,
            len: bytes.len(),
            nonce: datagram.header.nonce,
            had_certificate: datagram.certificate.is_some(),
        });
        let answered = self.on_answer(&datagram.header, now);
        self.on_body(datagram, from, answered, now);
        true
    }

    /// Only an answer to what was asked just now shows that a member is there: anything else may be a recording.
    fn on_answer(&mut self, header: &Header, now: Time) -> Option<Answered> {
        let asked = self.asked.iter().position(|asked| asked.is_answered_by(header));
        let asked = asked.map(|place| self.asked.swap_remove(place))?;
        let round_trip = now.since(asked.at);
        self.directory.is_alive(header.sender);
        self.directory.heard_from(header.sender, Some(round_trip), now);
        Some(Answered { round_trip, is_proof: asked.for_proof })
    }

    fn on_body(&mut self, datagram: Datagram, address: SocketAddr, answered: Option<Answered>, now: Time) {
        let Datagram { header, body, .. } = datagram;
        let round_trip = answered.map(|answered| answered.round_trip);
        let (from, token, session) = (header.sender, header.token, header.session);
        let hand = |message| handoff::Input::Received(handoff::Received { from, token, session, message });
        let say = |message| agent::Input::Received { from, message, round_trip };
        match body {
            Body::Move => self.to_handoff.push_back(hand(handoff::Message::Move)),
            Body::Ack { entries } => {
                self.to_handoff.push_back(hand(handoff::Message::Ack(header.nonce)));
                self.learn_later(entries);
            }
            Body::Commit { age, cool, entries } => {
                self.arriving = Some(Cargo { age, cool });
                self.to_handoff.push_back(hand(handoff::Message::Commit(header.nonce)));
                self.learn_later(entries);
            }
            Body::EarlyStop => self.to_handoff.push_back(hand(handoff::Message::EarlyStop(header.nonce))),
            Body::Scout { record, hearsay, charter_version, bans_version, entries } => {
                self.learn_all(entries, now);
                self.share_versions(from, charter_version, bans_version, now);
                #[cfg(test)]
                let believed = if self.believes_recordings { hearsay } else { Hearsay::default() };
                #[cfg(not(test))]
                let believed = Hearsay::default();
                self.to_agent.push_back(say(agent::Message::Scout { hearsay: believed }));
                if self.wants_proof(&header, record, &hearsay, now) {
                    self.ask_for_proof(from, now);
                }
            }
            Body::Report { hearsay, waited, has_work, charter_version, bans_version, wall_ms, entries } => {
                // What nobody asked for may be a recording, or one voice that speaks for many. And a member that is asked for a
                // proof was not drawn at random.
                if answered.is_some_and(|answered| !answered.is_proof) {
                    self.load.handle(load::Input::Heard { waited, has_work }, now);
                }
                let took = round_trip.unwrap_or_default();
                self.directory.saw_clock(from, self.clock_offset_ms(wall_ms, took, now));
                self.directory.saw_wait(from, waited, has_work, now);
                self.learn_all(entries, now);
                self.share_versions(from, charter_version, bans_version, now);
                self.to_agent.push_back(say(agent::Message::Report { waited, has_work, hearsay }));
            }
            Body::Release => self.to_agent.push_back(say(agent::Message::Release { token, session })),
            Body::Check => self.to_agent.push_back(say(agent::Message::Check { token, session })),
            Body::Holding => self.to_agent.push_back(say(agent::Message::Holding { token, session })),
            Body::Passed => self.to_agent.push_back(say(agent::Message::Passed { token, session })),
            Body::Demand { entry } => {
                let member = entry.record.member;
                self.take_in(entry, Directory::let_in, now);
                if self.directory.get(member).is_some() {
                    self.directory.saw_demand(member);
                    self.to_agent.push_back(say(agent::Message::Demand { member }));
                }
            }
            Body::Leave { sequence } => self.directory.leave(from, sequence),
            Body::Charter(charter) => self.on_charter(charter, now),
            Body::Bans(bans) => self.on_bans(bans, now),
            Body::Enrol { key, invitation, mac } => {
                let event = Event::Enrol { member: from, key, invitation, mac, address };
                self.outbox.tell(event);
            }
            Body::Ticket { epoch, message } => self.on_ticket(from, address, epoch, message, now),
            Body::Renew => self.on_renew(self.question, now),
            Body::Renewed { certificate } => self.take_certificate(certificate, now),
            // An answer to somebody who was not a member when it asked: nothing that a node asks for.
            Body::Enrolled { .. } => {}
        }
    }

    /// Whether to ask the sender of a question for a proof of what it tells of tokens. It is never believed by itself. "It was here a moment ago", heard a minute late, proves tokens spurious
    /// that are all the circle has, and keeps it from missing one that it lost. Whoever recorded a question that never came
    /// can bring it at any time, also when its sender has crashed. Answers cannot be late: each repeats the nonce of a
    /// question that is open, and is taken to be as old as that question.
    ///
    /// There is no need to ask if it cannot have been said just now: its number is not above all that its sender asked before,
    /// our record is one of an earlier run, or it may have waited in the socket while we were deaf.
    fn wants_proof(&self, question: &Header, record: u64, hearsay: &Hearsay, now: Time) -> bool {
        record == self.record.sequence
            && self.last_questions.is_newest(question.sender, question.nonce.sequence())
            && now >= self.unhealthy_until
            && self.agent.wants_proof(hearsay, now)
    }

    fn learn_all(&mut self, entries: Vec<Entry>, now: Time) {
        for entry in entries {
            self.learn(entry, now);
        }
    }

    /// With a token on its way there is no time for other people's signatures.
    fn learn_later(&mut self, entries: Vec<Entry>) {
        self.to_learn.extend(entries);
    }

    /// Two signatures are checked for a new entry, so first see whether it would be one.
    pub(super) fn learn(&mut self, entry: Entry, now: Time) {
        self.take_in(entry, Directory::learn, now);
    }

    fn take_in(&mut self, entry: Entry, learn: fn(&mut Directory, Entry) -> Learned, now: Time) {
        let member = entry.record.member;
        if member == self.me {
            return self.catch_up_with(&entry, now);
        }
        let known = self.directory.get(member).map(|known| known.entry().record.sequence);
        if known.is_some_and(|sequence| entry.record.sequence <= sequence) {
            return;
        }
        if !self.buckets.allow_certificate(now)
            || self.identity.roll.check_entry(&entry, self.wall_s(now)).is_err()
        {
            return;
        }
        if learn(&mut self.directory, entry) == Learned::New {
            self.tell_members();
            self.outbox.tell(Event::MemberLearned { member });
        }
    }

    /// A record of our own that is newer than ours: an earlier run had a clock that was ahead of ours. As long as our numbers
    /// are below those that the others remember, they take all that we say for recordings.
    fn catch_up_with(&mut self, own: &Entry, now: Time) {
        let theirs = own.record.sequence;
        if theirs <= self.record.sequence
            || !self.buckets.allow_certificate(now)
            || self.identity.roll.check_entry(own, self.wall_s(now)).is_err()
        {
            return;
        }
        self.on_newer_record(own.record.address, now);
        self.sequence = self.sequence.max(theirs.saturating_add(QUESTIONS_OF_A_RUN));
        self.sign_record(self.record.address);
    }

    pub(super) fn on_charter(&mut self, charter: Charter, now: Time) {
        // Only a charter that makes sense can come into force.
        let Ok(config) = agent_config(&charter) else { return };
        let old_ring = self.identity.roll.charter().ring();
        if self.identity.roll.offer_charter(charter) == Ok(true) {
            self.handoff.reconfigure(handoff_config(&config));
            self.load.set_nominal_period(nominal_period(self.identity.roll.charter(), &config), now);
            self.agent.reconfigure(Arc::new(config));
            self.take_up_ring(old_ring, now);
            let version = self.identity.roll.charter().version;
            self.outbox.tell(Event::CharterChanged { version });
        }
    }

    pub(super) fn on_bans(&mut self, bans: Bans, now: Time) {
        if self.identity.roll.offer_bans(bans) != Ok(true) {
            return;
        }
        self.tell_the_banned();
        let roll = &self.identity.roll;
        let listed = self.directory.iter().map(|(member, known)| (member, &known.entry().certificate));
        let banned = listed
            .chain(self.keyring.certificates())
            .filter(|(_, certificate)| roll.is_banned(certificate.serial));
        self.to_handoff.extend(banned.map(|(member, _)| handoff::Input::Banned { member }));
        self.directory.retain(|certificate| !roll.is_banned(certificate.serial));
        self.keyring.retain(|certificate| !roll.is_banned(certificate.serial));
        self.outbox.tell(Event::BansChanged { version: roll.bans_version() });
        self.expel_myself_if_banned(now);
    }

    /// What our own certificate is worth.
    pub(super) fn own_validity(&self, now: Time) -> Result<(), Refusal> {
        self.identity.roll.check_validity(&self.identity.certificate, self.wall_s(now))
    }

    /// Who is no longer a member stops at once, whatever it holds. Who is not one *yet* has a clock that is behind, as a
    /// computer without a battery has after its start, and waits for that to be set.
    pub(super) fn expel_myself_if_banned(&mut self, now: Time) {
        if matches!(self.own_validity(now), Ok(()) | Err(Refusal::NotYetValid))
            || self.leaving == Leaving::Gone
        {
            return;
        }
        self.end_pull();
        self.drop_ticket(now);
        if let Some(token) = self.agent.token().map(|token| token.id) {
            self.to_handoff.push_back(handoff::Input::Discard { token });
            self.to_agent.push_back(agent::Input::Lost);
        }
        self.leaving = Leaving::Gone;
        self.outbox.tell(Event::Expelled);
    }
}
