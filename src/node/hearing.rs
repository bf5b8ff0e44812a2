//! What the node hears: datagrams that were let in, and what each means to whom.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::base::Time;
use crate::proto::directory::Learned;
use crate::proto::{agent, handoff};
use crate::wire::records::{Bans, Charter, Entry};
use crate::wire::{Body, Datagram};

use super::machine::{Cargo, Leaving, Node, Question, agent_config};
use super::nouns::{Event, Output};

impl Node {
    pub(super) fn on_datagram(&mut self, bytes: &[u8], from: SocketAddr, now: Time) {
        let datagram = match self.admit(bytes, from, now) {
            Ok(datagram) => datagram,
            Err(rejection) => {
                self.counters.reject(rejection);
                return;
            }
        };
        self.counters.accepted += 1;
        let sender = datagram.header.sender;
        self.directory.heard_from(sender, None, now);
        self.question = Some(Question {
            from: sender,
            address: from,
            len: bytes.len(),
            echo: 0,
            had_certificate: datagram.certificate.is_some(),
        });
        self.on_body(datagram, from, now);
    }

    fn on_body(&mut self, datagram: Datagram, address: SocketAddr, now: Time) {
        let Datagram { header, body, .. } = datagram;
        let (from, token, session) = (header.sender, header.token, header.session);
        let hand = |message| handoff::Input::Received(handoff::Received { from, token, session, message });
        let say = |message| agent::Input::Received { from, message };
        match body {
            Body::Move => self.to_handoff.push_back(hand(handoff::Message::Move)),
            Body::Ack { entries } => {
                self.to_handoff.push_back(hand(handoff::Message::Ack(header.nonce)));
                self.learn_all(entries, now);
            }
            Body::Commit { age, cool, entries } => {
                self.arriving = Some(Cargo { age, cool });
                self.to_handoff.push_back(hand(handoff::Message::Commit(header.nonce)));
                self.learn_all(entries, now);
            }
            Body::EarlyStop => self.to_handoff.push_back(hand(handoff::Message::EarlyStop(header.nonce))),
            Body::Scout { hearsay, echo, charter_version, bans_version, entries } => {
                if let Some(question) = &mut self.question {
                    question.echo = echo;
                }
                self.learn_all(entries, now);
                self.share_versions(from, charter_version, bans_version, now);
                self.to_agent.push_back(say(agent::Message::Scout { hearsay }));
            }
            Body::Report {
                hearsay,
                echo,
                waited,
                has_work,
                charter_version,
                bans_version,
                wall_ms,
                entries,
            } => {
                let asked = self.asked.iter().position(|asked| asked.concerns(from) && asked.echo == echo);
                let Some(asked) = asked.map(|place| self.asked.swap_remove(place)) else { return };
                let round_trip = now.since(asked.at);
                self.directory.heard_from(from, Some(round_trip), now);
                self.directory.saw_clock(from, self.clock_offset_ms(wall_ms, round_trip, now));
                self.learn_all(entries, now);
                self.share_versions(from, charter_version, bans_version, now);
                self.to_agent.push_back(say(agent::Message::Report { waited, has_work, hearsay }));
            }
            Body::Release => self.to_agent.push_back(say(agent::Message::Release { token, session })),
            Body::Check => self.to_agent.push_back(say(agent::Message::Check { token, session })),
            Body::Holding => self.to_agent.push_back(say(agent::Message::Holding { token, session })),
            Body::Passed => self.to_agent.push_back(say(agent::Message::Passed { token, session })),
            Body::Leave { sequence } => self.directory.leave(from, sequence),
            Body::Charter(charter) => self.on_charter(charter),
            Body::Bans(bans) => self.on_bans(bans, now),
            Body::Enrol { key, invitation, mac } => {
                let event = Event::Enrol { member: from, key, invitation, mac, address };
                self.outputs.push_back(Output::Event(event));
            }
            // An answer to somebody who was not a member when it asked: nothing that a node asks for.
            Body::Enrolled { .. } => {}
        }
    }

    fn learn_all(&mut self, entries: Vec<Entry>, now: Time) {
        for entry in entries {
            self.learn(entry, now);
        }
    }

    /// Two signatures are checked for a new entry, so first see whether it would be one.
    pub(super) fn learn(&mut self, entry: Entry, now: Time) {
        let member = entry.record.member;
        let known = self.directory.get(member).map(|known| known.entry().record.sequence);
        if member == self.me || known.is_some_and(|sequence| entry.record.sequence <= sequence) {
            return;
        }
        if !self.buckets.allow_certificate(now)
            || self.identity.roll.check_entry(&entry, self.wall_s(now)).is_err()
        {
            return;
        }
        if self.directory.learn(entry) == Learned::New {
            self.tell_members();
            self.outputs.push_back(Output::Event(Event::MemberLearned { member }));
        }
    }

    pub(super) fn on_charter(&mut self, charter: Charter) {
        // Only a charter that makes sense can come into force.
        let Ok(config) = agent_config(&charter) else { return };
        if self.identity.roll.offer_charter(charter) == Ok(true) {
            self.agent.reconfigure(Arc::new(config));
            let version = self.identity.roll.charter().version;
            self.outputs.push_back(Output::Event(Event::CharterChanged { version }));
        }
    }

    pub(super) fn on_bans(&mut self, bans: Bans, now: Time) {
        if self.identity.roll.offer_bans(bans) != Ok(true) {
            return;
        }
        self.tell_the_banned();
        let roll = &self.identity.roll;
        let listed = self.directory.iter().map(|(member, known)| (member, &known.entry().certificate));
        let heard = self.keys.iter().map(|(member, certificate)| (*member, certificate));
        let banned = listed.chain(heard).filter(|(_, certificate)| roll.is_banned(certificate.serial));
        self.to_handoff.extend(banned.map(|(member, _)| handoff::Input::Banned { member }));
        self.directory.retain(|certificate| !roll.is_banned(certificate.serial));
        self.keys.retain(|_, certificate| !roll.is_banned(certificate.serial));
        self.outputs.push_back(Output::Event(Event::BansChanged { version: roll.bans_version() }));
        self.expel_myself_if_banned(now);
    }

    /// Who is no longer a member stops at once, whatever it holds.
    pub(super) fn expel_myself_if_banned(&mut self, now: Time) {
        let own = &self.identity.certificate;
        if self.identity.roll.check_validity(own, self.wall_s(now)).is_ok() || self.leaving == Leaving::Gone {
            return;
        }
        self.end_pull();
        if let Some(token) = self.agent.token().map(|token| token.id) {
            self.to_handoff.push_back(handoff::Input::Discard { token });
            self.to_agent.push_back(agent::Input::Lost);
        }
        self.leaving = Leaving::Gone;
        self.outputs.push_back(Output::Event(Event::Expelled));
    }
}
