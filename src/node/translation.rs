//! Translation: what one protocol says becomes what another hears.

use std::time::Duration;

use crate::base::{MemberId, Session, Time, TokenId};
use crate::proto::directory::Known;
use crate::proto::{agent, handoff, load};

use super::machine::{Cargo, Node};
use super::nouns::Event;
use super::pull::Right;

/// How long a member may take to answer as long as it has not: what RFC 6298 begins with.
const FIRST_TIMEOUT: Duration = Duration::from_secs(1);

impl Node {
    /// Lets one of the protocols say or hear one thing; false if none has anything left to say. The agent goes first: what it
    /// answers to a handoff must be known before the handoff's next datagram is written.
    pub(super) fn talk(&mut self, now: Time) -> bool {
        if let Some(output) = self.agent.poll_output() {
            self.on_agent(output, now);
        } else if let Some(input) = self.to_agent.pop_front() {
            self.agent.handle(input, now);
        } else if let Some(output) = self.handoff.poll_output() {
            self.on_handoff(output, now);
        } else if let Some(input) = self.to_handoff.pop_front() {
            self.handoff.handle(input, now);
        } else {
            return self.talk_of_tickets(now);
        }
        true
    }

    fn on_agent(&mut self, output: agent::Output, now: Time) {
        match output {
            agent::Output::Scout { count } => {
                self.send_scouts(count, now);
                self.greet_the_forgotten(now);
            }
            agent::Output::Announce { count } => self.announce_demand(count),
            agent::Output::Send { to, message } => self.send_message(to, &message, now),
            agent::Output::Offer { to } => self.offer(to),
            agent::Output::Pass { token, .. } => {
                let cool = self.cool_until.since(now);
                self.cargo.insert(token.id, Cargo { age: token.age, cool });
            }
            agent::Output::Event(event) => self.on_agent_event(event, now),
        }
    }

    fn offer(&mut self, to: Option<MemberId>) {
        let Some(token) = self.agent.token().map(|token| token.id) else { return };
        match to.or_else(|| self.directory.draw(1).first().copied()) {
            Some(taker) => {
                let timeout = self.directory.get(taker).and_then(Known::timeout);
                self.to_handoff.push_back(handoff::Input::Offer { token, taker, timeout });
            }
            None => self.to_agent.push_back(agent::Input::Unreachable { member: None }),
        }
    }

    fn on_agent_event(&mut self, event: agent::Event, now: Time) {
        match event {
            agent::Event::Visited { .. } => self.load.handle(load::Input::Visited, now),
            agent::Event::SlotBegan { token, until } => {
                self.load.handle(load::Input::SlotBegan, now);
                let session = self.agent.token().map_or(Session(0), |token| token.session);
                self.begin_pull(Right::Token(token), session, until);
            }
            agent::Event::SlotEnded => self.end_pull(),
            agent::Event::Skipped => {}
            agent::Event::Kept { token, session } => {
                self.to_handoff.push_back(handoff::Input::Renewed { token, session });
            }
            agent::Event::Generated { token, .. } => {
                self.to_handoff.push_back(handoff::Input::Generated { token });
            }
            agent::Event::Discarded { token, .. } => {
                self.to_handoff.push_back(handoff::Input::Discard { token });
            }
        }
        self.counters.note(event);
        self.outbox.tell(Event::Agent(event));
    }

    /// Tells the meter what it cannot see, and does what it wants. Only a member that the agent gives slots to waits.
    pub(super) fn judge_load(&mut self, now: Time) {
        self.load.handle(load::Input::Work(self.is_working()), now);
        let demand = match self.ring_view(now) {
            Some(view) => load::Input::Ring(view),
            None => load::Input::Demand {
                members: self.directory.can_want().map(|others| others + 1),
                capacity: self.identity.roll.charter().capacity,
            },
        };
        self.load.handle(demand, now);
        while let Some(output) = self.load.poll_output() {
            match output {
                load::Output::Ask { count } => self.send_scouts(count, now),
                load::Output::Changed(level) => self.outbox.tell(Event::Load(level)),
            }
        }
    }

    fn on_handoff(&mut self, output: handoff::Output, now: Time) {
        match output {
            handoff::Output::Send { to, token, session, message, with_certificate } => {
                self.directory.handed(to);
                // A certificate goes along from the second try on.
                match message {
                    handoff::Message::Ack(_) if self.is_working() => {
                        self.outbox.tell(Event::Expecting { token });
                    }
                    handoff::Message::Move if !with_certificate => {
                        self.outbox.tell(Event::Offering { token, session });
                    }
                    handoff::Message::Move => self.counters.move_repeated(),
                    handoff::Message::Commit(_) if with_certificate => self.counters.commit_repeated(),
                    _ => {}
                }
                self.send_handoff(to, token, session, message, with_certificate);
            }
            handoff::Output::StopSlot { token } => self.stop_pull(Right::Token(token)),
            handoff::Output::Event(event) => self.on_handoff_event(event, now),
        }
    }

    fn on_handoff_event(&mut self, event: handoff::Event, now: Time) {
        self.counters.note_handoff(&event);
        if let handoff::Event::Released { to, .. } | handoff::Event::Confirmed { to, .. } = event {
            self.directory.heard_from(to, None, now);
        }
        match event {
            handoff::Event::Arrived { token, session, from } => {
                let cargo =
                    self.arriving.take().unwrap_or(Cargo { age: Duration::ZERO, cool: Duration::ZERO });
                self.directory.heard_from(from, None, now);
                self.quota.note(token, from, self.identity.roll.charter().slot, now);
                self.cool(cargo.cool, None, now);
                let token = agent::Token { id: token, session, age: cargo.age };
                self.to_agent.push_back(agent::Input::Arrived { token, from });
            }
            handoff::Event::Released { token, session, to } if self.is_here(token) => {
                let timeout = self.directory.get(to).and_then(Known::timeout).unwrap_or(FIRST_TIMEOUT);
                self.to_agent.push_back(agent::Input::Accepted { to, session, timeout });
            }
            handoff::Event::Confirmed { token, session, .. } => {
                self.cargo.remove(&token);
                self.to_agent.push_back(agent::Input::Confirmed { token, session });
            }
            handoff::Event::Unreachable { token, to } => {
                self.directory.failed(to, now);
                if self.is_here(token) {
                    self.to_agent.push_back(agent::Input::Unreachable { member: Some(to) });
                }
            }
            handoff::Event::Dropped { token, .. } if self.is_here(token) => {
                self.to_agent.push_back(agent::Input::Lost);
            }
            handoff::Event::CommitAbandoned { token, .. } => {
                self.cargo.remove(&token);
            }
            // About a token that the agent has discarded meanwhile, or nothing to do about.
            handoff::Event::Released { .. }
            | handoff::Event::Dropped { .. }
            | handoff::Event::AuthorityConflict { .. } => {}
        }
        self.outbox.tell(Event::Handoff(event));
    }

    /// Whether this is the token that the agent has.
    fn is_here(&self, token: TokenId) -> bool {
        self.agent.token().is_some_and(|here| here.id == token)
    }
}
