//! How often witnesses are asked: those who do not know yet what is new, and everybody once a round.

use super::*;
use crate::base::{Deed, Standing};

/// A member that was granted a seat with so many witnesses at second 1, before it has asked anything that is looked at.
fn newcomer(witnesses: usize) -> Tickets {
    let mut machine = Tickets::new(id(9), Config::new(16, 1, TURN), 0, Rng::seeded(1), Time::from_secs(1));
    machine.handle(Input::Work(true), Time::from_secs(1));
    let seats = |member: usize| Seat {
        ticket: u16::try_from(member).unwrap() + 5,
        member: id(member),
        incarnation: 1,
    };
    let witnesses: Vec<Seat> = (0..witnesses).map(seats).collect();
    let (by, next) = (witnesses[0], Seat { ticket: 0, member: id(8), incarnation: 1 });
    let seat = Seat { ticket: 4, member: id(9), incarnation: super::super::ring::DRAWS };
    let message = TicketMessage::Grant { by, seat, next, witnesses, deed: None };
    machine.handle(Input::Received { from: id(0), message }, Time::from_secs(1));
    machine
}

/// What it sends of one kind, and to whom.
fn sent<T>(machine: &mut Tickets, of: impl Fn(TicketMessage) -> Option<T>) -> Vec<(usize, T)> {
    let outputs = std::iter::from_fn(|| machine.poll_output());
    let sends = outputs.filter_map(|output| match output {
        Output::Send { to, message } => Some((number(to), of(message)?)),
        _ => None,
    });
    sends.collect()
}

/// Whom it asks, by which question.
fn asked(machine: &mut Tickets) -> (Vec<usize>, u64) {
    let asks = sent(machine, |message| match message {
        TicketMessage::Ask(ask) => Some(ask.standing.number),
        _ => None,
    });
    let number = asks.first().map_or(0, |(_, number)| *number);
    (asks.into_iter().map(|(whom, _)| whom).collect(), number)
}

fn vouch(machine: &mut Tickets, by: usize, number: u64, at: f64) {
    let message = super::vouch(number, 1);
    machine.handle(Input::Received { from: id(by), message }, Time::ZERO + secs(at));
}

fn wake(machine: &mut Tickets, at: f64) -> Vec<usize> {
    machine.handle(Input::Wake, Time::ZERO + secs(at));
    asked(machine).0
}

#[test]
fn what_is_new_is_repeated_to_those_who_have_not_answered_it() {
    let mut machine = newcomer(3);
    let (whom, number) = asked(&mut machine);
    assert_eq!(whom, [0, 1, 2]);
    vouch(&mut machine, 1, number, 1.1);
    assert_eq!(wake(&mut machine, 1.3), [0, 2]);
    // With the second word it is settled, which nobody knows yet.
    vouch(&mut machine, 2, number, 1.4);
    let (whom, number) = asked(&mut machine);
    assert_eq!(whom, [0, 1, 2]);
    for witness in 0..3 {
        vouch(&mut machine, witness, number, 1.5);
    }
    assert_eq!(asked(&mut machine).0, [0; 0]);
}

/// A member with nothing but its duty as a witness, and what so many ask it that know it already.
fn witness_of(many: usize) -> (Tickets, Vec<Ask>) {
    let mut machine = Tickets::new(id(200), Config::new(32, 1, TURN), 0, Rng::seeded(1), Time::from_secs(1));
    let ours = Seat { ticket: 20, member: id(200), incarnation: super::super::ring::DRAWS };
    let asks = (0..many).map(|member| {
        let seat = |step: usize| Seat {
            ticket: u16::try_from(member + step).unwrap(),
            member: id(member + step),
            incarnation: 1,
        };
        let deed = Deed { version: 1, next: seat(1), beyond: None, witnesses: vec![ours] };
        Ask {
            seat: seat(0),
            standing: Standing { number: 1, deed, proposed: None },
            unsure_for: Duration::ZERO,
            is_settled: true,
            is_reminder: false,
            waiters: Vec::new(),
        }
    });
    let asks: Vec<Ask> = asks.collect();
    for ask in &asks {
        hear(&mut machine, ask, 1.0);
    }
    (machine, asks)
}

fn hear(machine: &mut Tickets, ask: &Ask, at: f64) {
    let message = TicketMessage::Ask(ask.clone());
    machine.handle(Input::Received { from: ask.seat.member, message }, Time::ZERO + secs(at));
}

fn remind(machine: &mut Tickets, ask: &Ask, number: u64, at: f64) {
    let standing = Standing { number, ..ask.standing.clone() };
    hear(machine, &Ask { standing, is_reminder: true, ..ask.clone() }, at);
}

/// Whom it answers, and which question.
fn answered(machine: &mut Tickets) -> Vec<(usize, u64)> {
    sent(machine, |message| match message {
        TicketMessage::Vouch(vouch) => Some(vouch.number),
        _ => None,
    })
}

#[test]
fn no_more_reminders_are_answered_in_a_round_than_a_seat_has_witnesses() {
    let (mut machine, asks) = witness_of(5);
    assert_eq!(answered(&mut machine), [0, 1, 2, 3, 4].map(|whom| (whom, 1)), "what is new, at once");
    for ask in &asks {
        remind(&mut machine, ask, 2, 2.0);
    }
    assert_eq!(answered(&mut machine), [0, 1, 2].map(|whom| (whom, 2)));
    assert_eq!(machine.next_deadline(), Time::from_secs(3));
    // Who reminds again keeps its place, with its last word; what is new goes before.
    remind(&mut machine, &asks[0], 3, 2.8);
    remind(&mut machine, &asks[3], 3, 2.9);
    let standing = Standing { number: 3, ..asks[4].standing.clone() };
    hear(&mut machine, &Ask { standing, ..asks[4].clone() }, 2.9);
    assert_eq!(answered(&mut machine), [(4, 3)]);
    machine.handle(Input::Wake, Time::from_secs(3));
    assert_eq!(answered(&mut machine), [(3, 3), (0, 3)]);
    assert!(machine.next_deadline() > Time::from_secs(1_000_000), "nobody waits");
}

#[test]
fn those_who_wait_to_be_heard_are_not_more_than_can_be_kept() {
    let (mut machine, asks) = witness_of(100);
    answered(&mut machine);
    for ask in &asks {
        remind(&mut machine, ask, 2, 2.0);
    }
    let mut heard = answered(&mut machine).len();
    for round in 3..100 {
        machine.handle(Input::Wake, Time::from_secs(round));
        let now = answered(&mut machine).len();
        assert!(now <= 3, "{now} in one round");
        heard += now;
    }
    assert_eq!(heard, 3 + 64);
}

#[test]
fn who_has_nothing_new_to_tell_asks_everybody_once_a_round() {
    let mut machine = newcomer(2);
    let first = asked(&mut machine).1;
    for witness in 0..2 {
        vouch(&mut machine, witness, first, 1.1);
    }
    let second = asked(&mut machine).1;
    for witness in 0..2 {
        vouch(&mut machine, witness, second, 1.2);
    }
    // However often it is woken. The answers of the last rounds are lost.
    let asks: Vec<(u32, Vec<usize>)> = (13..=45)
        .map(|tenths| (tenths, wake(&mut machine, f64::from(tenths) / 10.0)))
        .filter(|(_, whom)| !whom.is_empty())
        .collect();
    assert_eq!(asks, [(22, vec![0, 1]), (33, vec![0, 1]), (44, vec![0, 1])]);
}

/// A ring that has just lost some must not become smaller still: whoever gives its ticket back looks first whether all are
/// there. They need not be reminded of it for that.
#[test]
fn who_gives_its_ticket_back_knocks_at_its_witnesses_first() {
    for is_answered in [true, false] {
        let mut machine = newcomer(2);
        for round in 0..2 {
            let number = asked(&mut machine).1;
            (0..2).for_each(|witness| vouch(&mut machine, witness, number, 1.1 + f64::from(round) / 10.0));
        }
        let here = |machine: &mut Tickets, seat: Seat| {
            let message = TicketMessage::Here { seat };
            machine.handle(Input::Received { from: seat.member, message }, Time::ZERO + secs(1.4));
        };
        here(&mut machine, Seat { ticket: 0, member: id(8), incarnation: 1 });
        machine.handle(Input::SlotStopped, Time::ZERO + secs(1.4));
        sent(&mut machine, Some);
        machine.handle(Input::Leave, Time::ZERO + secs(1.5));
        let messages = sent(&mut machine, Some);
        let knocks: Vec<Seat> = messages
            .iter()
            .filter_map(|(_, message)| match message {
                TicketMessage::Knock { seat } => Some(*seat),
                _ => None,
            })
            .collect();
        assert_eq!((knocks.len(), messages.len()), (2, 2), "{messages:?}");
        for seat in knocks.into_iter().take(if is_answered { 2 } else { 1 }) {
            let message = TicketMessage::Here { seat };
            machine.handle(Input::Received { from: seat.member, message }, Time::ZERO + secs(1.6));
        }
        machine.handle(Input::Wake, Time::ZERO + secs(1.8));
        let releases =
            sent(&mut machine, |message| matches!(message, TicketMessage::Release { .. }).then_some(()));
        assert_eq!(!releases.is_empty(), is_answered);
    }
}
