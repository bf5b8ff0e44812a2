//! Members in a small world of messages, with somebody who looks on: no ticket is ever used twice.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::*;
use crate::base::{MemberId, Rng, Seat, TicketMessage, Time};

const TURN: Duration = Duration::from_secs(5);

fn id(number: usize) -> MemberId {
    MemberId::from_bytes([u8::try_from(number).unwrap(); 16])
}

fn number(id: MemberId) -> usize {
    usize::from(id.as_bytes()[0])
}

fn secs(secs: f64) -> Duration {
    Duration::from_secs_f64(secs)
}

/// Everybody, and the messages under way.
struct World {
    config: Config,
    members: Vec<Option<Tickets>>,
    boots: u64,
    /// By arrival, then by order of sending.
    mail: BTreeMap<(Time, u64), (usize, usize, TicketMessage)>,
    posted: u64,
    rng: Rng,
    now: Time,
    /// Messages between these get lost.
    cut: BTreeSet<(usize, usize)>,
    /// What is lost besides.
    loss: Box<dyn Fn(&TicketMessage, usize, usize) -> bool>,
    events: Vec<(Time, usize, Event)>,
    pulls: BTreeMap<usize, Seat>,
    served: BTreeMap<usize, u32>,
}

impl World {
    fn new(members: usize, config: Config) -> Self {
        let mut world = Self {
            config,
            members: Vec::new(),
            boots: 0,
            mail: BTreeMap::new(),
            posted: 0,
            rng: Rng::seeded(1),
            now: Time::ZERO,
            cut: BTreeSet::new(),
            loss: Box::new(|_, _, _| false),
            events: Vec::new(),
            pulls: BTreeMap::new(),
            served: BTreeMap::new(),
        };
        for member in 0..members {
            world.members.push(None);
            world.start(member);
        }
        world.tell(0, Input::Found);
        world
    }

    fn start(&mut self, member: usize) {
        self.boots += 1000;
        let rng = self.rng.child();
        let tickets = Tickets::new(id(member), self.config.clone(), self.boots, rng, self.now);
        self.members[member] = Some(tickets);
    }

    fn crash(&mut self, member: usize) {
        self.members[member] = None;
        self.pulls.remove(&member);
    }

    fn all_work(&mut self) {
        for member in 0..self.members.len() {
            self.tell(member, Input::Work(true));
        }
    }

    fn tell(&mut self, member: usize, input: Input) {
        let Some(tickets) = &mut self.members[member] else { return };
        tickets.handle(input, self.now);
        let outputs: Vec<Output> = std::iter::from_fn(|| tickets.poll_output()).collect();
        for output in outputs {
            match output {
                Output::Send { to, message } => self.post(member, number(to), message),
                Output::AskWhom => self.tell(member, Input::Known(vec![id(0), id(1)])),
                Output::Event(event) => self.on_event(member, event),
            }
        }
        self.check();
    }

    fn post(&mut self, from: usize, to: usize, message: TicketMessage) {
        if self.cut.contains(&(from, to)) || self.cut.contains(&(to, from)) || (self.loss)(&message, from, to)
        {
            return;
        }
        self.posted += 1;
        let at = self.now + self.rng.uniform(secs(0.01), secs(0.05));
        self.mail.insert((at, self.posted), (from, to, message));
    }

    fn on_event(&mut self, member: usize, event: Event) {
        self.events.push((self.now, member, event.clone()));
        match event {
            Event::SlotBegan { seat, .. } => {
                self.pulls.insert(member, seat);
                *self.served.entry(member).or_default() += 1;
            }
            Event::StopSlot => {
                self.pulls.remove(&member);
                self.tell(member, Input::SlotStopped);
            }
            _ => {}
        }
    }

    fn check(&self) {
        let sure: Vec<(Seat, Seat)> = self
            .members
            .iter()
            .flatten()
            .filter_map(|tickets| Some((tickets.sure_seat(self.now)?, tickets.next()?)))
            .collect();
        let mut owners = BTreeMap::new();
        for (seat, next) in &sure {
            let range = super::ring::steps(self.config.tickets, seat.ticket, next.ticket);
            for step in 0..range {
                let ticket = super::ring::after(self.config.tickets, seat.ticket, step);
                let other = owners.insert(ticket, seat);
                assert_eq!(other, None, "{ticket} is {seat:?}'s too at {:?}", self.now);
            }
        }
        let used: BTreeSet<u16> = self.pulls.values().map(|seat| seat.ticket).collect();
        assert_eq!(
            used.len(),
            self.pulls.len(),
            "two pull by one ticket at {:?}: {:?}",
            self.now,
            self.pulls
        );
    }

    fn run_for(&mut self, span: f64) {
        let end = self.now + secs(span);
        loop {
            let mail = self.mail.keys().next().map(|(at, _)| *at);
            let wakes = self.members.iter().flatten().map(Tickets::next_deadline);
            let wake = wakes.min().map(|at| at.max(self.now));
            let Some(at) = [mail, wake].into_iter().flatten().min().filter(|at| *at < end) else { break };
            self.now = at;
            if mail == Some(at) {
                let (_, (from, to, message)) = self.mail.pop_first().unwrap();
                self.tell(to, Input::Received { from: id(from), message });
            } else {
                let due =
                    |tickets: &Option<Tickets>| tickets.as_ref().is_some_and(|t| t.next_deadline() <= at);
                let member = self.members.iter().position(due).unwrap();
                self.tell(member, Input::Wake);
                let deadline = self.members[member].as_ref().map(Tickets::next_deadline);
                assert!(
                    deadline.is_none_or(|deadline| deadline > at),
                    "{member} wants to be woken for ever: {:?}",
                    self.members[member]
                );
            }
        }
        self.now = end;
        for member in 0..self.members.len() {
            self.tell(member, Input::Wake);
        }
    }

    fn sure(&self) -> usize {
        self.members.iter().flatten().filter(|tickets| tickets.sure_seat(self.now).is_some()).count()
    }

    /// Members in the order of the ring.
    fn ring(&self) -> Vec<usize> {
        let mut seats: Vec<Seat> =
            self.members.iter().flatten().filter_map(|tickets| tickets.sure_seat(self.now)).collect();
        seats.sort_by_key(|seat| std::cmp::Reverse(seat.ticket));
        seats.iter().map(|seat| number(seat.member)).collect()
    }

    fn count(&self, is_meant: impl Fn(&Event) -> bool) -> usize {
        self.events.iter().filter(|(_, _, event)| is_meant(event)).count()
    }
}

#[test]
fn the_first_pulls_alone() {
    let mut world = World::new(1, Config::new(4, 2, TURN));
    world.tell(0, Input::Work(true));
    world.run_for(1.0);
    assert_eq!(world.pulls.len(), 1);
}

#[test]
fn as_many_pull_as_there_are_tickets_and_everybody_has_a_turn() {
    for (members, tickets, faults) in [(2, 2, 1), (3, 4, 2), (12, 4, 2), (20, 16, 2), (30, 8, 1)] {
        let mut world = World::new(members, Config::new(tickets, faults, TURN));
        world.all_work();
        world.run_for(30.0);
        assert!(
            world.sure() >= members.min(usize::from(tickets)) / 2,
            "{members} {tickets}: {}",
            world.sure()
        );
        world.run_for(200.0);
        assert_eq!(world.served.len(), members, "{members} members, {tickets} tickets: {:?}", world.served);
        println!("{members} {tickets} {faults}: {:?}", world.served);
    }
}

#[test]
fn a_crashed_one_is_excluded_and_its_ticket_comes_back() {
    let mut world = World::new(20, Config::new(20, 2, TURN));
    world.all_work();
    world.run_for(60.0);
    assert_eq!(world.sure(), 20);
    let ring = world.ring();
    world.crash(ring[5]);
    world.run_for(20.0);
    assert_eq!(world.ring().len(), 19);
    let lost = |event: &Event| matches!(event, Event::Lost { .. });
    assert_eq!(world.count(lost), 0, "nobody else had to go");
    world.start(ring[5]);
    world.tell(ring[5], Input::Work(true));
    world.run_for(20.0);
    assert_eq!(world.sure(), 20);
}
