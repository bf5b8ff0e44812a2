//! Members in a small world of messages, with somebody who looks on: no ticket is ever used twice.

mod endings;
mod promises;
mod reminders;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use super::*;
use crate::base::{Ask, MemberId, Rng, Seat, TicketMessage, Time, Vouch};

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

/// Whether a message from one to another is lost.
type Loss = Box<dyn Fn(&TicketMessage, usize, usize) -> bool>;

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
    loss: Loss,
    /// Whom to ask, by those who do not know.
    introduced: Vec<MemberId>,
    events: Vec<(Time, usize, Event)>,
    violations: Vec<String>,
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
            introduced: vec![id(0), id(1)],
            events: Vec::new(),
            violations: Vec::new(),
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
        self.boots += 1 << 48;
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
        let Some(Some(tickets)) = self.members.get_mut(member) else { return };
        tickets.handle(input, self.now);
        let outputs: Vec<Output> = std::iter::from_fn(|| tickets.poll_output()).collect();
        for output in outputs {
            match output {
                Output::Send { to, message } => self.post(member, number(to), message),
                Output::AskWhom => self.tell(member, Input::Known(self.introduced.clone())),
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
        let stops = event == Event::StopSlot;
        if let Event::SlotBegan { seat, .. } = event {
            self.pulls.insert(member, seat);
            *self.served.entry(member).or_default() += 1;
        }
        self.events.push((self.now, member, event));
        if stops {
            self.pulls.remove(&member);
            self.tell(member, Input::SlotStopped);
        }
    }

    /// No ticket has two owners or is used twice.
    fn check(&mut self) {
        let sure = self.members.iter().flatten().filter_map(|tickets| {
            let (seat, next) = (tickets.sure_seat(self.now)?, tickets.next()?);
            Some((seat, super::ring::steps(self.config.tickets, seat.ticket, next.ticket)))
        });
        let mut owners = BTreeMap::new();
        for (seat, range) in sure {
            for step in 0..range {
                let ticket = super::ring::after(self.config.tickets, seat.ticket, step);
                if let Some(other) = owners.insert(ticket, seat) {
                    self.violations.push(format!("{:?}: {ticket} of {seat:?} and {other:?}", self.now));
                }
            }
        }
        let used: BTreeSet<u16> = self.pulls.values().map(|seat| seat.ticket).collect();
        if used.len() < self.pulls.len() {
            self.violations.push(format!("{:?}: {:?}", self.now, self.pulls));
        }
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
    for (members, tickets, faults) in [(2, 2, 1), (3, 4, 2), (12, 4, 2), (20, 16, 2), (30, 8, 2)] {
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
        assert_eq!(world.violations, [""; 0]);
    }
}

/// Both holders of two tickets gave them to each other at the same moment, and there was no ring any more.
#[test]
fn not_everybody_makes_room_at_once() {
    let mut world = World::new(5, Config::new(2, 1, secs(1.0)));
    world.all_work();
    world.run_for(300.0);
    let before = world.served.clone();
    world.run_for(30.0);
    assert_eq!(before.len(), 5, "{before:?}");
    assert!(
        before.iter().all(|(member, turns)| world.served[member] > *turns),
        "{before:?} {:?}",
        world.served
    );
    assert_eq!(world.violations, [""; 0]);
}

#[test]
fn turns_are_shared_fairly() {
    let mut world = World::new(12, Config::new(4, 2, secs(2.0)));
    world.all_work();
    world.run_for(30.0);
    world.served.clear();
    world.run_for(300.0);
    let turns = |pick: fn(Vec<u32>) -> u32| pick(world.served.values().copied().collect());
    let (fewest, most) =
        (turns(|all| all.into_iter().min().unwrap()), turns(|all| all.into_iter().max().unwrap()));
    assert!(world.served.len() == 12 && fewest * 3 >= most * 2, "{:?}", world.served);
}

/// A newcomer that took its last turn's end for this one's gave every other ticket back unused.
#[test]
fn who_gets_a_ticket_has_a_turn_with_it() {
    let mut world = World::new(12, Config::new(4, 2, secs(1.0)));
    world.all_work();
    world.run_for(200.0);
    let mut unused = BTreeSet::new();
    let mut in_vain = 0;
    for (_, member, event) in &world.events {
        match event {
            Event::Took { .. } => drop(unused.insert(*member)),
            Event::SlotBegan { .. } => drop(unused.remove(member)),
            Event::Lost { is_given_back: true, .. } => in_vain += usize::from(unused.remove(member)),
            _ => {}
        }
    }
    let given_back = world.count(|event| matches!(event, Event::Lost { is_given_back: true, .. }));
    assert!(given_back > 50, "{given_back}");
    assert!(in_vain * 10 < given_back, "{in_vain} of {given_back} in vain");
}

/// Whoever pulls goes by it, should nobody be there to order the end.
#[test]
fn a_pull_is_told_how_long_its_ticket_is_sure_and_no_longer() {
    let mut world = World::new(2, Config::new(4, 1, secs(60.0)));
    let lease = |world: &World, member: usize| {
        let told = world.events.iter().rev().filter(|(_, by, _)| *by == member);
        told.into_iter().find_map(|(_, _, event)| match event {
            Event::Leased { until } => Some(until.since(world.now)),
            _ => None,
        })
    };
    world.tell(0, Input::Work(true));
    world.run_for(1.0);
    assert!(lease(&world, 0).unwrap() > secs(1e6), "nobody else can have it");
    world.tell(1, Input::Work(true));
    for _ in 0..20 {
        world.run_for(0.7);
        for member in world.pulls.keys() {
            let left = lease(&world, *member).unwrap();
            assert!(world.ring().len() < 2 || left <= secs(2.5), "{member}: {left:?}");
        }
    }
    assert_eq!(world.pulls.len(), 2);
    let before = lease(&world, 0).unwrap();
    world.cut = BTreeSet::from([(0, 1)]);
    world.run_for(1.0);
    assert!(lease(&world, 0).unwrap() < before, "it is not prolonged");
    world.run_for(3.0);
    assert_eq!(world.pulls.len(), 0);
}

#[test]
fn who_has_enough_early_goes_on_when_its_turn_would_have_ended() {
    let mut world = World::new(1, Config::new(4, 2, secs(0.5)));
    world.tell(0, Input::Work(true));
    world.run_for(0.1);
    world.pulls.clear();
    world.tell(0, Input::SlotStopped);
    world.run_for(0.3);
    assert_eq!(world.served[&0], 1, "not at once");
    world.run_for(0.2);
    assert_eq!(world.served[&0], 2);
}

#[test]
fn a_crashed_one_is_excluded_and_its_ticket_comes_back() {
    let mut world = World::new(20, Config::new(20, 2, TURN));
    world.all_work();
    world.run_for(60.0);
    assert_eq!(world.sure(), 20);
    let ring = world.ring();
    world.crash(ring[5]);
    world.events.clear();
    world.run_for(20.0);
    assert_eq!(world.ring().len(), 19);
    let lost = |event: &Event| matches!(event, Event::Lost { .. });
    assert_eq!(world.count(lost), 0, "nobody else had to go");
    world.start(ring[5]);
    world.tell(ring[5], Input::Work(true));
    world.run_for(20.0);
    assert_eq!(world.sure(), 20);
    assert_eq!(world.violations, [""; 0]);
}

/// A successor that is gone said so to every word of its predecessor, which answered every time: without end, and where
/// messages come twice, twice as many each time.
#[test]
fn who_is_gone_is_told_nothing() {
    let (mut world, ring) = ring_of(8, 1, None);
    let (x, p, r) = (ring[1], ring[2], ring[3]);
    // Cut off from all others, it does not know who comes next, and cannot exclude.
    world.cut = ring.iter().filter(|other| ![x, p, r].contains(*other)).map(|other| (p, *other)).collect();
    world.run_for(10.0);
    let updates = Rc::new(Cell::new(0));
    let count = Rc::clone(&updates);
    world.loss = Box::new(move |message, from, to| {
        let is_meant = (from, to) == (p, r) && matches!(message, TicketMessage::Update { .. });
        count.set(count.get() + u32::from(is_meant));
        false
    });
    for gone in [x, r] {
        world.crash(gone);
        world.start(gone);
    }
    world.run_for(20.0);
    assert!(updates.get() < 40, "{} updates", updates.get());
}

/// A ring in which all members sit, with room between them, in its order.
fn ring_of(members: usize, faults: u8, flaw: Option<Flaw>) -> (World, Vec<usize>) {
    let config = Config { flaw, ..Config::new(200, faults, TURN) };
    let mut world = World::new(members, config);
    world.all_work();
    world.run_for(60.0);
    let ring = world.ring();
    assert_eq!(ring.len(), members);
    (world, ring)
}

/// One crash among twenty: how many others are not sure of their tickets for a while.
fn unsure_after_a_crash(flaw: Option<Flaw>) -> BTreeSet<usize> {
    let (mut world, ring) = ring_of(20, 2, flaw);
    world.crash(ring[7]);
    world.events.clear();
    world.run_for(30.0);
    let unsure = world.events.iter().filter(|(_, _, event)| *event == Event::Unsure);
    unsure.map(|(_, member, _)| *member).collect()
}

#[test]
fn one_crash_costs_nobody_else_its_ticket() {
    assert_eq!(unsure_after_a_crash(None), BTreeSet::new());
    assert!(unsure_after_a_crash(Some(Flaw::AllMustVouch)).len() >= 5);
}

/// An update reaches r and its answer is lost: r goes by witnesses of whom p believes that r does not know them. Then p
/// hears no more of r.
fn an_update_whose_answer_is_lost(flaw: Option<Flaw>) -> World {
    let (mut world, ring) = ring_of(6, 1, flaw);
    // Wherever there is room for two between x2 and p.
    let ticket =
        |world: &World, member: usize| world.members[member].as_ref().unwrap().seat().unwrap().ticket;
    let place =
        (0..ring.len() - 2).find(|at| ticket(&world, ring[*at]) - ticket(&world, ring[at + 1]) > 8).unwrap();
    let (x2, p, r) = (ring[place], ring[place + 1], ring[place + 2]);
    world.introduced = vec![id(x2)];
    let newcomers: Vec<usize> = (world.members.len()..world.members.len() + 2).collect();
    let is_new = |seat: &Seat, first: usize| number(seat.member) >= first;
    let first = newcomers[0];
    world.loss = Box::new(move |message, from, to| {
        let witnesses = match message {
            // From the moment on when r would go by one of them.
            TicketMessage::Ask(ask) => ask.standing.proposed.iter().chain([&ask.standing.deed]),
            _ => return (from, to) == (r, p) && matches!(message, TicketMessage::Here { .. }),
        };
        let news = witnesses.map(|deed| deed.witnesses.iter().filter(|seat| is_new(seat, first)).count());
        (from, to) == (r, p) && news.max() > Some(0)
    });
    for newcomer in newcomers {
        world.members.push(None);
        world.start(newcomer);
        world.tell(newcomer, Input::Work(true));
        world.run_for(1.0);
    }
    world.run_for(40.0);
    world
}

#[test]
fn who_may_have_another_list_is_excluded_by_that_one_too() {
    let sound = an_update_whose_answer_is_lost(None);
    assert_eq!(sound.violations, [""; 0]);
    let excluded = |event: &Event| matches!(event, Event::Excluded { .. });
    assert!(sound.count(excluded) > 0, "and it is excluded");
    let broken = an_update_whose_answer_is_lost(Some(Flaw::ShownListOnly));
    assert_ne!(broken.violations, [""; 0]);
}

/// The successor of p is well, but p does not hear it.
fn an_exclusion_of_one_that_lives(flaw: Option<Flaw>) -> World {
    let (mut world, ring) = ring_of(8, 1, flaw);
    let (p, r) = (ring[2], ring[3]);
    world.loss = Box::new(move |message, from, to| {
        let is_sign = matches!(message, TicketMessage::Ask(_) | TicketMessage::Here { .. });
        is_sign && (from, to) == (r, p)
    });
    world.run_for(30.0);
    world
}

#[test]
fn the_excluded_are_given_the_time_to_notice() {
    let sound = an_exclusion_of_one_that_lives(None);
    assert_eq!(sound.violations, [""; 0]);
    assert!(sound.count(|event| matches!(event, Event::Excluded { .. })) > 0);
    assert!(sound.count(|event| matches!(event, Event::Lost { .. })) > 0);
    for flaw in [Flaw::NoWait, Flaw::NoLock] {
        let broken = an_exclusion_of_one_that_lives(Some(flaw));
        assert_ne!(broken.violations, [""; 0], "{flaw:?}");
    }
}

/// So many neighbours crash at once: who is left and sure after a while, and who when they have come back.
fn neighbours_that_crash(crashes: usize, faults: u8) -> (usize, usize) {
    let (mut world, ring) = ring_of(20, faults, None);
    for member in &ring[5..5 + crashes] {
        world.crash(*member);
    }
    world.run_for(60.0);
    let left = world.sure();
    for member in &ring[5..5 + crashes] {
        world.start(*member);
        world.tell(*member, Input::Work(true));
    }
    world.run_for(60.0);
    world.run_for(60.0);
    assert_eq!(world.violations, [""; 0]);
    (left, world.sure())
}

#[test]
fn neighbours_that_crash_together_do_not_empty_the_ring() {
    for faults in 1..=3 {
        let most = usize::from(faults) + 1;
        assert_eq!(neighbours_that_crash(most, faults), (20 - most, 20), "k = {faults}");
        // One more, and some of those behind them wait until they are back; the others go on.
        let (left, at_last) = neighbours_that_crash(most + 1, faults);
        assert!((20 - 3 * most..20 - most).contains(&left), "k = {faults}: {left}");
        assert!(at_last >= 20 - usize::from(faults == 1), "k = {faults}: {at_last}");
    }
}

/// In the paper only those vouch who are not in doubt themselves: so the crash of k+1 neighbours spreads.
#[test]
fn who_is_in_doubt_itself_vouches_for_others() {
    let unsure = |flaw| {
        let (mut world, ring) = ring_of(20, 1, flaw);
        world.crash(ring[5]);
        world.crash(ring[6]);
        world.events.clear();
        world.run_for(60.0);
        world.count(|event| *event == Event::Unsure)
    };
    let (sound, broken) = (unsure(None), unsure(Some(Flaw::OnlySureVouch)));
    assert!(sound < 4 && broken > 2 * sound, "{sound} and {broken}");
}

#[test]
fn two_members_cannot_exclude_each_other() {
    let (mut world, ring) = ring_of(2, 2, None);
    world.crash(ring[1]);
    world.run_for(60.0);
    assert_eq!(world.sure(), 0, "the survivor stops");
    world.start(ring[1]);
    world.tell(ring[1], Input::Work(true));
    world.run_for(30.0);
    assert_eq!(world.sure(), 2, "until the other one is back");
    assert_eq!(world.violations, [""; 0]);
}

#[test]
fn all_but_the_last_one_leave() {
    let (mut world, ring) = ring_of(6, 2, None);
    for member in &ring {
        world.tell(*member, Input::Leave);
    }
    world.run_for(60.0);
    assert_eq!(world.count(|event| *event == Event::Left), 6);
    assert_eq!(world.violations, [""; 0]);
}

/// A member that was just granted a seat with this number, and the number of its first question.
fn granted(draw: u64) -> (Tickets, u64) {
    let config = Config::new(4, 1, Duration::from_secs(4));
    let now = Time::from_secs(1);
    let mut machine = Tickets::new(id(1), config, 0, Rng::seeded(draw), now);
    machine.handle(Input::Work(true), now);
    let by = Seat { ticket: 0, member: id(0), incarnation: 1 };
    let seat = Seat { ticket: 2, member: id(1), incarnation: super::ring::DRAWS + draw };
    let message = TicketMessage::Grant { by, seat, next: by, witnesses: vec![by], deed: None };
    machine.handle(Input::Received { from: id(0), message }, now);
    let number = asks(&mut machine).first().unwrap().standing.number;
    (machine, number)
}

fn asks(machine: &mut Tickets) -> Vec<Ask> {
    let outputs = std::iter::from_fn(|| machine.poll_output());
    let ask = |output| match output {
        Output::Send { message: TicketMessage::Ask(ask), .. } => Some(ask),
        _ => None,
    };
    outputs.filter_map(ask).collect()
}

fn vouch(number: u64, since: u64) -> TicketMessage {
    TicketMessage::Vouch(Vouch { number, since, proposed: None, is_sure: true, waiters: Vec::new() })
}

#[test]
fn a_word_for_an_earlier_seat_does_not_count_for_the_next() {
    for (number, counts) in [(granted(2).1, true), (granted(1).1, false)] {
        let (mut machine, _) = granted(2);
        let message = vouch(number, 1);
        machine.handle(Input::Received { from: id(0), message }, Time::from_secs(2));
        assert_eq!(machine.sure_seat(Time::from_secs(2)).is_some(), counts);
    }
}

/// Who says that a seat never was is believed without further questions.
#[test]
fn only_a_seat_that_was_never_taken_is_called_vacant() {
    let vacant = |machine: &mut Tickets, seat: Seat| {
        let message = TicketMessage::Knock { seat };
        machine.handle(Input::Received { from: id(5), message }, Time::from_secs(3));
        let is_answer = |output: Output| match output {
            Output::Send { message: TicketMessage::NotMe { is_vacant, .. }, .. } => Some(is_vacant),
            _ => None,
        };
        std::iter::from_fn(|| machine.poll_output()).find_map(is_answer)
    };
    let first = super::ring::DRAWS;
    let seat = |draw| Seat { ticket: 2, member: id(1), incarnation: first + draw };
    let (mut machine, _) = granted(2);
    assert_eq!(vacant(&mut machine, seat(2)), None, "it sits there");
    assert_eq!(vacant(&mut machine, seat(3)), Some(true), "another grant for the same question");
    assert_eq!(
        vacant(&mut machine, Seat { incarnation: first - 1, ..seat(0) }),
        Some(false),
        "an earlier life"
    );
    let gone = TicketMessage::Gone { seat: seat(2) };
    machine.handle(Input::Received { from: id(0), message: gone }, Time::from_secs(3));
    assert_eq!(vacant(&mut machine, seat(2)), Some(false), "it sat there");
    let config = Config::new(4, 1, Duration::from_secs(4));
    let mut founder = Tickets::new(id(1), config, 0, Rng::seeded(1), Time::from_secs(1));
    founder.handle(Input::Found, Time::from_secs(1));
    let seat = founder.seat().unwrap();
    founder.handle(Input::Leave, Time::from_secs(2));
    founder.handle(Input::Wake, Time::from_secs(6));
    assert_eq!(founder.seat(), None);
    assert_eq!(vacant(&mut founder, seat), Some(false), "it founded the ring");
}

/// By chance two grants for two tickets had the same number. Whoever had granted one of them, which was declined, took what
/// was said in the other for its last words, and had two ranges of tickets.
#[test]
fn what_was_said_in_one_seat_is_not_told_of_another_with_its_number() {
    let told = |machine: &mut Tickets, seat: Seat| {
        let message = TicketMessage::Knock { seat };
        machine.handle(Input::Received { from: id(5), message }, Time::from_secs(3));
        let is_told = |output: Output| match output {
            Output::Send { message: TicketMessage::NotMe { standing, .. }, .. } => Some(standing.is_some()),
            _ => None,
        };
        std::iter::from_fn(|| machine.poll_output()).find_map(is_told)
    };
    let (mut machine, _) = granted(2);
    let seat = machine.seat().unwrap();
    let gone = TicketMessage::Gone { seat };
    machine.handle(Input::Received { from: id(0), message: gone }, Time::from_secs(3));
    assert_eq!(told(&mut machine, seat), Some(true));
    assert_eq!(told(&mut machine, Seat { ticket: seat.ticket + 1, ..seat }), Some(false));
}

#[test]
fn the_word_of_who_has_forgotten_its_seat_does_not_count() {
    for (since, counts) in [(1, true), (2, false)] {
        let (mut machine, number) = granted(2);
        let message = vouch(number, since);
        machine.handle(Input::Received { from: id(0), message }, Time::from_secs(2));
        assert_eq!(machine.sure_seat(Time::from_secs(2)).is_some(), counts);
    }
}
