//! The model checker: all histories of three processes and one token, within bounds.
//!
//! The network is the set of all datagrams ever sent: each may arrive at any time, any number of times, or never. Any
//! timeout may fire at any moment, processes crash and forget. The machines are the real ones. A process's state and its
//! reaction to each action are computed once and numbered, so that a state of the world is a handful of numbers.

use std::collections::BTreeMap;

use super::super::flaw::Flaw;
use super::super::nouns::{Event, Input, Message, Output};
use super::super::record::Authority;
use super::*;

/// How many processes there are.
pub(super) const PROCESSES: usize = 3;

/// The bounds of a search, and what is broken in it.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one way to break the world, and any may be combined"
)]
pub(super) struct World {
    /// The member that each process claims to be.
    pub(super) members: [u8; PROCESSES],
    /// The last session that may be offered.
    pub(super) sessions: u64,
    pub(super) crashes: u8,
    pub(super) evictions: u8,
    /// The moments that time may jump to, one after the other.
    pub(super) clock: Vec<Duration>,
    pub(super) flaw: Option<Flaw>,
    /// Boot secrets repeat: after a crash, and in a process of the same member.
    pub(super) secrets_repeat: bool,
    /// Who crashes holds after it what it held before.
    pub(super) possession_persists: bool,
    /// Signatures do not name the receiver: everybody takes every datagram for its own.
    pub(super) misdelivered: bool,
    /// Whether a Commit that would still be accepted counts as a holder. It does; to leave it out shows that a broken
    /// machine gets as far as two members that really hold the token.
    pub(super) grants_count: bool,
    /// Which rules are watched.
    pub(super) watched: Vec<Broken>,
}

impl World {
    /// Sound rules, moderate bounds.
    pub(super) fn sound() -> Self {
        Self {
            members: [1, 2, 3],
            sessions: 3,
            crashes: 1,
            evictions: 0,
            clock: vec![Duration::ZERO],
            flaw: None,
            secrets_repeat: false,
            possession_persists: false,
            misdelivered: false,
            grants_count: true,
            watched: vec![Broken::I1, Broken::I2, Broken::I3, Broken::I7],
        }
    }

    fn secret(&self, process: usize, boot: u8) -> [u8; 32] {
        let mut secret = [self.members[process]; 32];
        if !self.secrets_repeat {
            secret[0] = u8::try_from(process).unwrap();
            secret[1] = boot;
        }
        secret
    }

    fn boot(&self, process: usize, boot: u8, now: Time) -> Handoff {
        // One try, because a second Move is the first one again as far as the network is concerned.
        let config = Config { move_tries: 1, ..config() };
        let me = member(self.members[process]);
        // All count from the same moment, so that repeated secrets really repeat their nonces.
        let mut machine = Handoff::new(me, CIRCLE, config, self.secret(process, boot), WALL_MS, Time::ZERO);
        machine.flaw = self.flaw;
        machine.handle(Input::Wake, now);
        machine
    }
}

/// What may happen to one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Action {
    Offer(u8),
    /// Keeps the token for another slot.
    Renew,
    GiveUp,
    SlotStopped,
    AbandonCommit,
    Deliver(u16),
    Wake,
    Evict,
    Crash(u8),
}

/// What an action does to one process: its new state, and the datagrams it sends.
#[derive(Clone, Debug)]
struct Effect {
    local: u32,
    sent: Vec<u16>,
    /// The session that it accepted.
    accepted: Option<u64>,
}

/// Which rule of the specification is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Broken {
    /// Two members hold the token, or could come to.
    I1,
    /// A session was accepted that is not above all before it.
    I2,
    /// Two nonces were committed in one session.
    I3,
    /// A restarted process holds the token.
    I7,
}

/// The sent datagrams, by number.
pub(super) type Sent = [u64; 8];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct State {
    pub(super) locals: [u32; PROCESSES],
    pub(super) sent: Sent,
    pub(super) clock: u8,
    pub(super) crashes: u8,
    pub(super) evictions: u8,
}

pub(super) fn numbers(sent: &Sent) -> impl Iterator<Item = u16> + '_ {
    sent.iter().zip(0_u16..).flat_map(|(word, index)| {
        (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| index * 64 + bit)
    })
}

/// All that was computed about single processes.
pub(super) struct Tables {
    pub(super) world: World,
    pub(super) datagrams: Vec<Datagram>,
    datagram_numbers: BTreeMap<Datagram, u16>,
    locals: Vec<(usize, Handoff)>,
    local_numbers: BTreeMap<String, u32>,
    effects: Vec<BTreeMap<(u8, Action), Effect>>,
    grants: BTreeMap<(u32, u8, u16), bool>,
}

impl Tables {
    /// The tables, and the state in which the first process has made the token.
    pub(super) fn new(world: World) -> (Self, State) {
        let mut tables = Self {
            world,
            datagrams: Vec::new(),
            datagram_numbers: BTreeMap::new(),
            locals: Vec::new(),
            local_numbers: BTreeMap::new(),
            effects: Vec::new(),
            grants: BTreeMap::new(),
        };
        let locals = std::array::from_fn(|process| {
            let mut machine = tables.world.boot(process, 0, Time::ZERO);
            if process == 0 {
                machine.handle(Input::Generated { token: TOKEN }, Time::ZERO);
            }
            tables.number_of(process, machine)
        });
        let (crashes, evictions) = (tables.world.crashes, tables.world.evictions);
        (tables, State { locals, sent: Sent::default(), clock: 0, crashes, evictions })
    }

    fn now(&self, clock: u8) -> Time {
        Time::ZERO + self.world.clock[usize::from(clock)]
    }

    /// Timers fire by actions of their own, and limits on repetitions change no set of sent datagrams: their fields
    /// would only multiply states.
    fn normalize(machine: &mut Handoff) {
        let h_commit = machine.config.h_commit();
        for record in machine.records.values_mut() {
            if let Authority::Offering { due, .. } = &mut record.authority {
                *due = Time::ZERO + Duration::MAX;
            }
            if let Some(committing) = &mut record.committing {
                committing.gap = committing.rto;
                committing.last_sent = committing.since;
                committing.due = committing.since + h_commit;
            }
            if let Some(accepted) = &mut record.accepted {
                accepted.stopped_at = accepted.at;
            }
        }
    }

    fn number_of(&mut self, process: usize, mut machine: Handoff) -> u32 {
        Self::normalize(&mut machine);
        let purpose = machine.purpose(TOKEN, Session(0), machine.me);
        let secret = machine.secret.issue(0, &purpose);
        let key = format!("{process} {secret:?} {:?}", machine.records);
        let next = u32::try_from(self.locals.len()).unwrap();
        let number = *self.local_numbers.entry(key).or_insert(next);
        if number == next {
            self.locals.push((process, machine));
            self.effects.push(BTreeMap::new());
        }
        number
    }

    /// What a process may do by itself.
    pub(super) fn actions(&self, local: u32, state: &State) -> Vec<Action> {
        let (_, machine) = &self.locals[local as usize];
        let mut actions = Vec::new();
        if state.clock > 0 {
            actions.push(Action::Wake);
        }
        if state.crashes > 0 {
            actions.push(Action::Crash(state.crashes));
        }
        let Some(record) = machine.records.get(&TOKEN) else { return actions };
        match record.authority {
            Authority::None if state.evictions > 0 => actions.push(Action::Evict),
            Authority::Holding { session } if session.0 < self.world.sessions => {
                let others = (1..=3).filter(|&taker| member(taker) != machine.me);
                actions.extend(others.filter(|taker| self.world.members.contains(taker)).map(Action::Offer));
                actions.push(Action::Renew);
            }
            Authority::None | Authority::Holding { .. } => {}
            Authority::Offering { .. } => actions.push(Action::GiveUp),
            Authority::Releasing { .. } => actions.push(Action::SlotStopped),
        }
        if record.committing.is_some() {
            actions.push(Action::AbandonCommit);
        }
        actions
    }

    /// Whether this datagram reaches this process.
    pub(super) fn reaches(&self, datagram: u16, process: usize) -> bool {
        let datagram = &self.datagrams[usize::from(datagram)];
        let me = member(self.world.members[process]);
        datagram.received.from != me && (self.world.misdelivered || datagram.to == me)
    }

    /// The world after an action of this process, and what it broke; `None` if nothing changed.
    pub(super) fn step(
        &mut self,
        state: &State,
        process: usize,
        action: Action,
    ) -> Option<(State, Option<Broken>)> {
        let local = state.locals[process];
        let effect = match self.effects[local as usize].get(&(state.clock, action)) {
            Some(effect) => effect.clone(),
            None => self.compute(local, state.clock, action),
        };
        let mut next = *state;
        next.locals[process] = effect.local;
        for number in &effect.sent {
            next.sent[usize::from(number / 64)] |= 1 << (number % 64);
        }
        match action {
            Action::Crash(_) => next.crashes -= 1,
            Action::Evict => next.evictions -= 1,
            _ => {}
        }
        let broken = self.broken(state, &next, process, action, &effect);
        let broken = broken.into_iter().find(|broken| self.world.watched.contains(broken));
        (next != *state || broken.is_some()).then_some((next, broken))
    }

    fn compute(&mut self, local: u32, clock: u8, action: Action) -> Effect {
        let now = self.now(clock);
        let (process, mut machine) = self.locals[local as usize].clone();
        match action {
            Action::Offer(taker) => {
                let taker = member(taker);
                machine.handle(Input::Offer { token: TOKEN, taker, timeout: None }, now);
            }
            Action::Renew => {
                let session = machine.session(TOKEN).and_then(Session::next).unwrap();
                machine.handle(Input::Renewed { token: TOKEN, session }, now);
            }
            Action::GiveUp => machine.on_move_timer(TOKEN, now),
            Action::SlotStopped => machine.handle(Input::SlotStopped { token: TOKEN }, now),
            Action::AbandonCommit => machine.abandon_commit(TOKEN),
            Action::Deliver(number) => {
                let received = self.datagrams[usize::from(number)].received;
                machine.handle(Input::Received(received), now);
            }
            Action::Wake => machine.handle(Input::Wake, now),
            Action::Evict => machine.evict_now(TOKEN),
            Action::Crash(boot) => {
                let mut reborn = self.world.boot(process, boot, now);
                if self.world.possession_persists {
                    reborn.records = machine.records;
                }
                machine = reborn;
            }
        }
        let mut effect = Effect { local, sent: Vec::new(), accepted: None };
        while let Some(output) = machine.poll_output() {
            match output {
                Output::Send { to, token, session, message, .. } => {
                    let received = Received { from: machine.me, token, session, message };
                    effect.sent.push(self.datagram_number(Datagram { to, received }));
                }
                Output::Event(Event::Arrived { session, .. }) => effect.accepted = Some(session.0),
                Output::StopSlot { .. } | Output::Event(_) => {}
            }
        }
        machine.records.retain(|_, record| !record.is_empty());
        effect.local = self.number_of(process, machine);
        self.effects[local as usize].insert((clock, action), effect.clone());
        effect
    }

    fn datagram_number(&mut self, datagram: Datagram) -> u16 {
        let next = u16::try_from(self.datagrams.len()).unwrap();
        let number = *self.datagram_numbers.entry(datagram).or_insert(next);
        if number == next {
            assert!(next < 512, "more datagrams than a state has room for");
            self.datagrams.push(datagram);
        }
        number
    }

    fn broken(
        &mut self,
        before: &State,
        after: &State,
        process: usize,
        action: Action,
        effect: &Effect,
    ) -> Vec<Broken> {
        let mut broken = Vec::new();
        let holds = |local: u32| self.locals[local as usize].1.holds(TOKEN);
        if matches!(action, Action::Crash(_)) && holds(after.locals[process]) {
            broken.push(Broken::I7);
        }
        let kept = |number: u16| &self.datagrams[usize::from(number)].received;
        let stopped = |number: u16| matches!(kept(number).message, Message::EarlyStop(_));
        let is_commit = |number: u16| matches!(kept(number).message, Message::Commit(_));
        // Every acceptance has left its EarlyStop among the sent.
        if let Some(session) = effect.accepted
            && numbers(&before.sent).any(|number| stopped(number) && kept(number).session.0 >= session)
        {
            broken.push(Broken::I2);
        }
        let commits: Vec<u16> = numbers(&after.sent).filter(|&number| is_commit(number)).collect();
        for &one in effect.sent.iter().filter(|&&number| is_commit(number)) {
            if commits.iter().any(|&other| other != one && kept(other).session == kept(one).session) {
                broken.push(Broken::I3);
            }
        }
        let holders = after.locals.iter().filter(|&&local| holds(local)).count();
        let grants = if self.world.grants_count { self.live_grants(after, &commits) } else { 0 };
        if holders + grants > 1 {
            broken.push(Broken::I1);
        }
        broken
    }

    /// Commits that would be accepted now by somebody who does not hold the token already.
    fn live_grants(&mut self, state: &State, commits: &[u16]) -> usize {
        let now = self.now(state.clock);
        let mut live = 0;
        for &number in commits {
            for (process, local) in state.locals.into_iter().enumerate() {
                if self.reaches(number, process) {
                    let received = self.datagrams[usize::from(number)].received;
                    let machine = &self.locals[local as usize].1;
                    let grant = self.grants.entry((local, state.clock, number));
                    live += usize::from(*grant.or_insert_with(|| is_grant(machine, &received, now)));
                }
            }
        }
        live
    }
}

fn is_grant(machine: &Handoff, received: &Received, now: Time) -> bool {
    let Message::Commit(nonce) = received.message else { return false };
    let fresh = machine.age_of(nonce, received, now).is_some_and(|age| age <= machine.config.h_accept());
    fresh && machine.records.get(&received.token).is_none_or(|record| record.is_new(received.session))
}
