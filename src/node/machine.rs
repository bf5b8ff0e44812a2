//! The machine itself: its state, its commands, and what time does to it.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::base::{Hearsay, MemberId, Nonce, Rng, Session, Time, TokenId};
use crate::proto::agent::{self, Agent};
use crate::proto::directory::Directory;
use crate::proto::handoff::{self, Handoff};
use crate::proto::load::{self, Load};
use crate::proto::tickets;
use crate::trust::{self, Refusal, Roll};
use crate::wire::records::{AddressRecord, Charter, Entry, RuleSet};
use crate::wire::{ANYONE, Header, Kind};

use super::buckets::Buckets;
use super::freshness::LastQuestions;
use super::keyring::Keyring;
use super::nouns::{Command, Config, Event, Identity, Input, Output};
use super::outbox::Outbox;
use super::pull::Pull;
use super::quota::Quota;
use super::status::Counters;
use super::tickets::{Office, first_seat, tickets_config};
use super::twin::Twin;

/// How long a member has to answer before it counts as silent.
const SCOUT_PATIENCE: Duration = Duration::from_secs(3);

/// Addresses to begin at, at most.
pub(super) const GREETED_LIMIT: usize = 16;

/// How often the directory looks for whom to forget.
const TIDY_EVERY: Duration = Duration::from_secs(30);

/// How long a member whose loop lagged takes no token: what kept it from listening may well do so again at once. No longer
/// than it takes a giver to offer in vain and to look for another, or a circle of two would wait for nothing.
const RECOVERY: Duration = Duration::from_secs(3);

/// A wish to leave the source alone that travels with the token counts from its arrival, so it comes back longer by its way.
const ECHO: Duration = Duration::from_secs(5);

/// How many members hear a goodbye.
const GOODBYES: usize = 8;

/// What travels with a token and must be said again with every repetition of its Commit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cargo {
    pub(super) age: Duration,
    pub(super) cool: Duration,
}

/// A question that has not been answered yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) kind: Kind,
    /// [`ANYONE`] for a greeting.
    pub(super) member: MemberId,
    pub(super) nonce: Nonce,
    pub(super) at: Time,
    /// It asks for a proof of what the member has told of tokens.
    pub(super) for_proof: bool,
}

impl Asked {
    pub(super) fn is_answered_by(&self, header: &Header) -> bool {
        header.kind.answers() == Some(self.kind)
            && header.nonce == self.nonce
            && (self.member == header.sender || self.member == ANYONE)
    }
}

/// Questions that may be unanswered at once.
pub(super) const ASKED_LIMIT: usize = 64;

/// The datagram that is being dealt with: answers go back to where it came from, and are no longer than it was.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    pub(super) from: MemberId,
    pub(super) address: SocketAddr,
    pub(super) len: usize,
    pub(super) nonce: Nonce,
    pub(super) had_certificate: bool,
}

/// What is done about an input when all that it led to has left.
#[derive(Clone, Copy, Debug)]
enum Later {
    /// Whatever is due by now.
    Deadlines,
    /// To learn of others, to leave, and to judge the load.
    Judging,
}

/// Whether the member wants to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaving {
    No,
    Draining,
    Gone,
}

/// One member.
#[derive(Debug)]
pub struct Node {
    pub(super) identity: Identity,
    pub(super) me: MemberId,
    pub(super) record: AddressRecord,
    /// The last number given to a record or a question of ours.
    pub(super) sequence: u64,
    /// Another process with our key.
    pub(super) twin: Twin,
    pub(super) wall_offset_ms: i64,
    pub(super) agent: Agent,
    pub(super) handoff: Handoff,
    /// In a circle with tickets.
    pub(super) office: Option<Office>,
    pub(super) directory: Directory,
    pub(super) load: Load,
    pub(super) buckets: Buckets,
    pub(super) rng: Rng,
    pub(super) keyring: Keyring,
    pub(super) asked: Vec<Asked>,
    pub(super) last_questions: LastQuestions,
    /// Addresses at which to begin, for as long as nobody is known.
    pub(super) greeted: Vec<SocketAddr>,
    pub(super) cargo: BTreeMap<TokenId, Cargo>,
    /// Age and cooling of the Commit that is being dealt with.
    pub(super) arriving: Option<Cargo>,
    pub(super) question: Option<Question>,
    pub(super) pull: Pull,
    /// Whether another member waits for the token that is here, as was told last.
    pub(super) is_wanted: bool,
    pub(super) wants_work: bool,
    pub(super) cool_until: Time,
    /// The reason, if this member asked for it.
    pub(super) cool_reason: Option<String>,
    /// Our own loop lagged: until then we take no token.
    pub(super) unhealthy_until: Time,
    pub(super) leaving: Leaving,
    pub(super) tidy_at: Time,
    /// When members are asked again for a certificate that ends soon.
    pub(super) renew_at: Time,
    pub(super) counters: Counters,
    /// Tokens that came here lately.
    pub(super) quota: Quota,
    pub(super) to_agent: VecDeque<agent::Input>,
    pub(super) to_handoff: VecDeque<handoff::Input>,
    /// Entries that came with a handoff. They are checked when nothing is left to be said.
    pub(super) to_learn: VecDeque<Entry>,
    /// When the last input came, and what is still to be done about it.
    heard_at: Time,
    later: Option<Later>,
    pub(super) outbox: Outbox,
    /// What questions tell is believed, as if they could not have been recorded.
    #[cfg(test)]
    pub(super) believes_recordings: bool,
}

impl Node {
    /// A member that starts now: it holds nothing and knows nobody.
    pub fn new(identity: Identity, config: Config, now: Time) -> Result<Self, agent::Invalid> {
        let charter = identity.roll.charter();
        let agent_config = agent_config(charter)?;
        let me = identity.key.member_id();
        let mut rng = Rng::seeded(config.seed);
        let nominal_period = nominal_period(charter, &agent_config);
        let tickets = tickets_config(charter);
        let handoff = Handoff::new(
            me,
            identity.roll.circle(),
            handoff_config(&agent_config),
            config.boot_secret,
            config.wall_offset_ms,
            now,
        );
        let agent = Agent::new(me, Arc::new(agent_config), rng.child(), config.wall_offset_ms, now);
        let record =
            trust::sign_address(&identity.key, identity.roll.circle(), config.sequence, config.address);
        let directory = Directory::new(me, config.directory, rng.child());
        let office =
            tickets.map(|tickets| Office::new(me, tickets, first_seat(config.sequence), rng.child(), now));
        Ok(Self {
            me,
            record,
            sequence: config.sequence,
            twin: Twin::default(),
            wall_offset_ms: config.wall_offset_ms,
            agent,
            handoff,
            office,
            directory,
            load: Load::new(nominal_period).starting(now),
            buckets: Buckets::new(now),
            rng,
            keyring: Keyring::default(),
            asked: Vec::new(),
            last_questions: LastQuestions::default(),
            greeted: Vec::new(),
            cargo: BTreeMap::new(),
            arriving: None,
            question: None,
            pull: Pull::Idle,
            is_wanted: false,
            wants_work: false,
            cool_until: now,
            cool_reason: None,
            unhealthy_until: now,
            leaving: Leaving::No,
            tidy_at: now + TIDY_EVERY,
            renew_at: now,
            counters: Counters::default(),
            quota: Quota::default(),
            to_agent: VecDeque::new(),
            to_handoff: VecDeque::new(),
            to_learn: VecDeque::new(),
            heard_at: now,
            later: None,
            outbox: Outbox::default(),
            #[cfg(test)]
            believes_recordings: false,
            identity,
        })
    }

    /// The one way in: one input, then drain the outputs.
    ///
    /// # Panics
    /// If outputs of the last call were left behind: that is a bug of the driver.
    pub fn handle(&mut self, input: Input<'_>, now: Time) {
        let is_drained = self.outbox.is_empty() && self.to_learn.is_empty() && self.later.is_none();
        assert!(is_drained, "drain the node's outputs before its next input");
        if self.leaving == Leaving::Gone {
            return;
        }
        self.heard_at = now;
        if self.own_validity(now) == Err(Refusal::NotYetValid) {
            // By our clock nobody is to be believed, so nobody is heard; that proves nothing about the token.
            self.to_agent.push_back(agent::Input::Stalled);
        }
        match input {
            Input::Datagram { bytes, from } => {
                if !self.on_datagram(bytes, from, now) {
                    // Nothing has changed but a counter, and nobody else's bytes are a reason to look at the time.
                    return;
                }
            }
            Input::Command(command) => self.on_command(command, now),
            Input::Wake => {}
        }
        self.later = Some(Later::Deadlines);
    }

    /// The next thing to be done, until there is none. Somebody may wait with a token, so what a handoff has to say leaves
    /// before anybody thinks about it further, and everything else after that. Datagrams are signed here, one by one:
    /// send each before the next is asked for.
    pub fn poll_output(&mut self) -> Option<Output> {
        loop {
            if !self.outbox.is_urgent() && self.talk(self.heard_at) {
                continue;
            }
            if let Some(output) = self.outbox.take(&self.identity.key, &self.identity.gate) {
                self.counters.sent += u64::from(matches!(output, Output::Datagram { .. }));
                return Some(output);
            }
            self.do_later()?;
        }
    }

    /// The next part of what can wait; `None` if there is none.
    fn do_later(&mut self) -> Option<()> {
        let now = self.heard_at;
        match self.later? {
            Later::Deadlines => {
                self.question = None;
                self.later = Some(Later::Judging);
                self.run_deadlines(now);
            }
            Later::Judging => {
                if let Some(entry) = self.to_learn.pop_front() {
                    self.learn(entry, now);
                } else {
                    self.later = None;
                    self.leave_when_drained();
                    self.judge_load(now);
                    self.tell_wanted();
                }
            }
        }
        Some(())
    }

    /// When the node wants to be woken: then it must be, whatever else comes in.
    pub fn next_deadline(&self) -> Time {
        if self.leaving == Leaving::Gone {
            return Time::ZERO + Duration::MAX;
        }
        let scouts = self.asked.iter().map(|asked| asked.at + SCOUT_PATIENCE).min();
        let is_cooling = self.wants_work && !self.is_working() && self.leaving == Leaving::No;
        let cooled = is_cooling.then_some(self.cool_until);
        let (agent, handoff, load) =
            (self.agent.next_deadline(), self.handoff.next_deadline(), self.load.next_deadline());
        let tickets = self.office.as_ref().map(Office::next_deadline);
        [Some(agent), handoff, tickets, load, scouts, cooled]
            .into_iter()
            .flatten()
            .fold(self.tidy_at, Time::min)
    }

    /// Who this is.
    pub fn id(&self) -> MemberId {
        self.me
    }

    /// What it believes of its circle.
    pub fn roll(&self) -> &Roll {
        &self.identity.roll
    }

    /// Whom it knows.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The token that is here, with the session in which it came.
    pub fn token(&self) -> Option<(TokenId, Session)> {
        self.agent.token().map(|token| (token.id, token.session))
    }

    /// Whether it has authority over this token: it holds it, or offers it and was not taken at its word yet.
    pub fn holds(&self, token: TokenId) -> bool {
        self.handoff.holds(token)
    }

    /// What it has seen and heard of tokens, and tells the others.
    pub fn hearsay(&self, now: Time) -> Hearsay {
        self.agent.hearsay(now)
    }

    /// Its own signed address with its certificate.
    pub fn entry(&self) -> Entry {
        Entry { record: self.record.clone(), certificate: self.identity.certificate.clone() }
    }

    /// From now on its handoffs break a rule: for tests of the checkers.
    #[cfg(test)]
    pub(crate) fn break_rule(&mut self, flaw: handoff::Flaw) {
        self.handoff.break_rule(flaw);
    }

    /// From now on it believes what questions tell: for tests of the checkers.
    #[cfg(test)]
    pub(crate) fn believe_recordings(&mut self) {
        self.believes_recordings = true;
    }

    // --- commands ---------------------------------------------------------------------------------------------

    fn on_command(&mut self, command: Command, now: Time) {
        match command {
            Command::Work(wants_work) => {
                self.wants_work = wants_work;
                self.tell_work(now);
            }
            Command::SlotStopped => self.on_slot_stopped(now),
            Command::Found if self.office.is_none() => self.agent.found(now),
            Command::Found => {}
            Command::FoundRing { epoch } => self.found_ring(epoch),
            Command::Greet { address } => {
                if self.greeted.len() < GREETED_LIMIT && !self.greeted.contains(&address) {
                    self.greeted.push(address);
                }
                self.send_greeting(address, now);
            }
            Command::Probe => self.send_scouts(ASKED_LIMIT, now),
            Command::Learn { entry } => self.learn(entry, now),
            Command::Moved { address } => {
                self.sign_record(address);
                // Nobody finds us where we were: we have to speak first.
                self.send_scouts(ASKED_LIMIT, now);
            }
            Command::Cool { span, reason } => self.cool(span, Some(reason), now),
            Command::Slept { asleep, fresh_secret } => {
                self.to_handoff.push_back(handoff::Input::Slept { asleep, fresh_secret });
                if asleep == Duration::MAX {
                    self.distrust_tickets(now);
                }
                self.on_stalled(now);
            }
            Command::Stalled => self.on_stalled(now),
            Command::Carried { bytes } => self.load.handle(load::Input::Carried { bytes }, now),
            Command::WallClock { offset_ms } => self.on_wall_clock(offset_ms, now),
            Command::Charter { charter } => self.on_charter(charter, now),
            Command::Bans { bans } => self.on_bans(bans, now),
            Command::Welcome { to, member, certificate } => self.send_welcome(to, member, certificate),
            Command::Renewed { to, member, nonce, certificate } => {
                self.send_renewed(to, member, nonce, certificate);
            }
            Command::Certificate { certificate } => self.take_certificate(certificate, now),
            Command::Leave => {
                self.leaving = Leaving::Draining;
                self.tell_work(now);
                self.to_handoff.push_back(handoff::Input::Open(false));
                if let Some(office) = &mut self.office {
                    office.tell(tickets::Input::Leave);
                }
            }
        }
    }

    /// Who did not listen knows too little to make a token, and is not fit to take one.
    fn on_stalled(&mut self, now: Time) {
        self.unhealthy_until = now + RECOVERY;
        self.to_agent.push_back(agent::Input::Stalled);
        self.load.handle(load::Input::Stalled, now);
    }

    /// Everything that goes by the wall clock goes by the new one. The address record too: that of a member which started
    /// with a clock in 1970 is older than all that the others remember of it.
    fn on_wall_clock(&mut self, offset_ms: i64, now: Time) {
        self.wall_offset_ms = offset_ms;
        self.agent.set_wall_offset(offset_ms);
        self.handoff.set_wall_offset(offset_ms);
        self.sequence = self.sequence.max(first_sequence(self.wall_ms(now)));
        self.sign_record(self.record.address);
    }

    pub(super) fn sign_record(&mut self, address: SocketAddr) {
        let sequence = self.next_sequence();
        let circle = self.identity.roll.circle();
        self.record = trust::sign_address(&self.identity.key, circle, sequence, address);
    }

    /// A number that is higher than all before it, also than those of earlier runs.
    pub(super) fn next_sequence(&mut self) -> u64 {
        self.sequence = self.sequence.saturating_add(1);
        self.sequence
    }

    pub(super) fn is_working(&self) -> bool {
        self.tickets().map_or_else(|| self.agent.has_work(), tickets::Tickets::has_work)
    }

    /// There is work if the jobs want some, the source does not ask for a rest, and we are not leaving.
    pub(super) fn tell_work(&mut self, now: Time) {
        let works = self.may_work(now);
        if works == self.is_working() {
            return;
        }
        match &mut self.office {
            Some(office) => {
                office.tell(tickets::Input::Work(works));
                if !works {
                    self.end_pull();
                }
            }
            None => self.to_agent.push_back(agent::Input::Work(works)),
        }
    }

    pub(super) fn may_work(&self, now: Time) -> bool {
        self.wants_work && now >= self.cool_until && self.leaving == Leaving::No
    }

    /// The source asks to be left alone. It is only ever prolonged, and never beyond the limit.
    pub(super) fn cool(&mut self, span: Duration, reason: Option<String>, now: Time) {
        let until = now + span.min(crate::wire::COOL_LIMIT);
        if !span.is_zero() && until > self.cool_until {
            // The token brings our own wish back, a round trip longer: that is no news.
            let is_echo = reason.is_none() && now < self.cool_until && until < self.cool_until + ECHO;
            if !is_echo {
                self.cool_reason = reason;
            }
            self.cool_until = until;
            self.outbox.tell(Event::Cooling { until, reason: self.cool_reason.clone() });
            self.tell_work(now);
        }
    }

    // --- what time does ---------------------------------------------------------------------------------------

    fn run_deadlines(&mut self, now: Time) {
        self.to_agent.push_back(agent::Input::Wake);
        self.to_handoff.push_back(handoff::Input::Wake);
        if let Some(office) = &mut self.office {
            office.tell(tickets::Input::Wake);
        }
        self.tell_work(now);
        let (silent, pending) = self.asked.iter().partition(|asked| now >= asked.at + SCOUT_PATIENCE);
        self.asked = pending;
        let silent: Vec<Asked> = silent;
        // Who is asked for a token that it knows nothing of is silent too, and well.
        for asked in silent.iter().filter(|asked| asked.kind == Kind::Scout) {
            self.directory.failed(asked.member, now);
        }
        if self.directory.is_empty() && self.asked.is_empty() {
            self.greet_again(now);
        }
        self.renew_when_due(now);
        self.look_around_when_due(now);
        if now >= self.tidy_at {
            self.tidy_at = now + TIDY_EVERY;
            self.keep_in_touch(now);
            self.look_around(now);
            self.tell_members();
            self.expel_myself_if_banned(now);
        }
    }

    /// Says goodbye as soon as no token is here or on its way, and no ticket is ours. Whoever is alone has nobody to hand a
    /// token to.
    fn leave_when_drained(&mut self) {
        let has_token = self.agent.token().is_some() && !self.directory.is_empty();
        let has_ticket = self.office.as_ref().is_some_and(|office| !office.has_left());
        let is_drained = !has_token && !has_ticket && self.cargo.is_empty() && self.pull == Pull::Idle;
        if self.leaving != Leaving::Draining || !is_drained {
            return;
        }
        self.leaving = Leaving::Gone;
        for member in self.directory.draw(GOODBYES) {
            self.send_goodbye(member);
        }
        self.outbox.tell(Event::Left);
    }

    pub(super) fn wall_ms(&self, now: Time) -> i64 {
        now.wall_ms(self.wall_offset_ms)
    }

    pub(super) fn wall_s(&self, now: Time) -> u64 {
        now.wall_s(self.wall_offset_ms)
    }

    /// How far another's wall clock is ahead of ours, if its answer took half of the round trip.
    pub(super) fn clock_offset_ms(&self, wall_ms: u64, round_trip: Duration, now: Time) -> i64 {
        let then = self.wall_ms(now).saturating_sub(i64::try_from(round_trip.as_millis() / 2).unwrap_or(0));
        i64::try_from(wall_ms).unwrap_or(i64::MAX).saturating_sub(then)
    }
}

/// The agent's constants, as the charter says.
pub(super) fn agent_config(charter: &Charter) -> Result<agent::Config, agent::Invalid> {
    let mut rules = match charter.rules {
        RuleSet::Early => agent::Rules::early(),
        RuleSet::Classic => agent::Rules::classic(),
        RuleSet::Guarded => {
            let mut rules = agent::Rules::guarded();
            if let Some(scouting) = &mut rules.scouting {
                scouting.scouts = usize::from(charter.scouts.max(1));
            }
            rules
        }
    };
    if charter.ring().is_some() {
        rules.regeneration = agent::rules::Regeneration::Never;
    }
    agent::Config::new(charter.slot, charter.skip, charter.capacity, rules)
}

/// How often a member of a full circle has a slot: of n tickets each is used like a token of its own.
pub(super) fn nominal_period(charter: &Charter, config: &agent::Config) -> Duration {
    config.nominal_period() / charter.ring().map_or(1, |ring| ring.tickets.max(1).into())
}

/// The handoff's times that go with the agent's constants.
pub(super) fn handoff_config(config: &agent::Config) -> handoff::Config {
    handoff::Config::new(config.slot, config.min_interval())
}

/// The sequence number with which to begin at this time of the wall clock: that in microseconds. Nobody asks so often that
/// its numbers would come before the clock, so those of the next run are higher.
pub fn first_sequence(wall_ms: i64) -> u64 {
    u64::try_from(wall_ms).unwrap_or(0).saturating_mul(1000)
}
