//! Whole nodes in a circle with tickets: what they say to each other, and what the process has to do with it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod common;

use std::collections::BTreeSet;
use std::time::Duration;

use common::datagrams::{GATE, open};
use common::{Circle, Fate, Packet, SLOT, elsewhere, millis, secs};
use stroll::base::{Seat, TicketMessage, Time, TokenId};
use stroll::node::{Command, Event, Right};
use stroll::proto::load::Level;
use stroll::proto::tickets;
use stroll::wire::records::{Charter, Mode, Ring};
use stroll::wire::{Body, Datagram, Header, Kind};

/// The members who pull by a ticket now.
fn pulling(circle: &Circle) -> Vec<(usize, Seat)> {
    let seat = |right| match right {
        Right::Ticket(seat) => seat,
        Right::Token(token) => panic!("{token} in a circle with tickets"),
    };
    let pulls =
        circle.members.iter().enumerate().filter_map(|(number, member)| Some((number, member.pulls?)));
    pulls.map(|(number, right)| (number, seat(right))).collect()
}

/// Drives for so long, and looks at every moment whether two pull by one ticket.
fn drive(circle: &mut Circle, span: Duration) {
    drive_until(circle, span, |_| false);
}

fn drive_until(circle: &mut Circle, span: Duration, is_done: impl Fn(&Circle) -> bool) -> bool {
    circle.drive_until(span, |circle| {
        let pulling = pulling(circle);
        let tickets: BTreeSet<_> = pulling.iter().map(|(_, seat)| seat.ticket).collect();
        assert_eq!(tickets.len(), pulling.len(), "a ticket twice at {}: {pulling:?}", circle.now);
        is_done(circle)
    })
}

/// A ring that has been going round for a while, so that everybody was served.
fn running(members: usize, tickets: u16) -> Circle {
    let mut circle = Circle::with_tickets(members, tickets);
    circle.command(0, Command::FoundRing { epoch: 1 });
    let all = |circle: &Circle| (0..members).all(|member| circle.slots(member) > 0);
    assert!(drive_until(&mut circle, secs(120), all), "everybody is served");
    circle
}

fn ring(circle: &Circle) -> Ring {
    circle.charter.ring().unwrap()
}

/// The charter with another ring, and the one in force for who starts from now on.
fn found_another_ring(circle: &mut Circle, first: usize, epoch: u32) -> Charter {
    let mode = Mode::Tickets(Ring { first: circle.id(first), epoch, ..ring(circle) });
    let charter = Charter { version: circle.charter.version + 1, mode, ..circle.charter.clone() };
    circle.charter = circle.authority.sign_charter(charter);
    circle.charter.clone()
}

fn stops(circle: &Circle, member: usize) -> usize {
    circle.count_events(member, |event| *event == Event::StopSlot)
}

/// Tickets that were lost and not given back.
fn forfeited(circle: &Circle, member: usize) -> usize {
    let is_lost =
        |event: &Event| matches!(event, Event::Tickets(tickets::Event::Lost { is_given_back: false, .. }));
    circle.count_events(member, is_lost)
}

/// Of a slot, for how long it may last.
fn length((at, _, event): (Time, usize, Event)) -> Option<Duration> {
    match event {
        Event::SlotBegan { until, .. } => Some(until.since(at)),
        _ => None,
    }
}

/// Whether a member has told anybody since then that a seat of its own is none.
fn has_denied_a_seat(circle: &Circle, member: usize, since: Time) -> bool {
    let is_denial = |packet: &Packet| {
        let body = open(&packet.bytes, circle.authority.circle()).read().unwrap().body;
        matches!(body, Body::Ticket { message: TicketMessage::NotMe { .. }, .. })
    };
    circle.sent_since(since).iter().any(|packet| packet.sender == member && is_denial(packet))
}

fn has_seat(circle: &Circle, member: usize) -> bool {
    circle.node(member).tickets().unwrap().seat().is_some()
}

fn serves_all_of(circle: &mut Circle, members: &[usize], span: Duration) -> bool {
    let before: Vec<usize> = members.iter().map(|member| circle.slots(*member)).collect();
    drive_until(circle, span, |circle| {
        members.iter().zip(&before).all(|(member, before)| circle.slots(*member) > *before)
    })
}

// --- slots ------------------------------------------------------------------------------------------------------

#[test]
fn everybody_is_served_and_no_more_than_there_are_tickets_pull_at_once() {
    let mut circle = running(4, 2);
    let most = std::cell::Cell::new(0);
    drive_until(&mut circle, secs(60), |circle| {
        most.set(most.get().max(pulling(circle).len()));
        false
    });
    assert_eq!(most.get(), 2, "both are in use, and there is no third");
    let slots: Vec<usize> = (0..4).map(|member| circle.slots(member)).collect();
    assert!(slots.iter().all(|slots| *slots >= 2), "{slots:?}");
    let spans: BTreeSet<Duration> = circle.events().into_iter().filter_map(length).collect();
    assert_eq!(spans, BTreeSet::from([SLOT]));
}

#[test]
fn there_is_no_token_whatever_happens() {
    let mut circle = Circle::with_tickets(3, 2);
    circle.command(1, Command::Found);
    drive(&mut circle, secs(1_000));
    assert_eq!((circle.all_slots(), circle.tokens_here()), (0, 0), "and without a ring there are no slots");
    circle.command(0, Command::FoundRing { epoch: 1 });
    assert!(serves_all_of(&mut circle, &[0, 1, 2], secs(120)));
    assert!(circle.log.iter().all(|packet| !packet.kind().has_token()), "nobody speaks of one");
    // And whoever speaks of one is not heard.
    let rejected = circle.rejected(0, "irrelevant");
    for body in [Body::Move, Body::EarlyStop, Body::Check, Body::Holding, Body::Release, Body::Passed] {
        let mut header = Header::bare(body.kind(), circle.authority.circle(), circle.id(1), circle.id(0));
        header.token = TokenId { created_ms: 1, generator: circle.id(1), random: 1 };
        let datagram = Datagram { header, body, certificate: None, padding: 0 };
        let bytes = datagram.encode(&GATE, |bytes| circle.key(1).sign(bytes)).unwrap();
        assert!(circle.inject(0, &bytes, circle.address(1)).is_empty());
    }
    assert_eq!(circle.rejected(0, "irrelevant"), rejected + 6);
}

#[test]
fn a_ring_is_begun_only_in_its_epoch() {
    let mut circle = Circle::with_tickets(2, 2);
    for epoch in [0, 2] {
        circle.command(0, Command::FoundRing { epoch });
        assert!(!has_seat(&circle, 0));
    }
    circle.command(0, Command::FoundRing { epoch: 1 });
    assert!(has_seat(&circle, 0));
}

#[test]
fn the_load_is_that_of_the_tickets_in_use_and_of_the_members_that_wait() {
    let mut circle = running(4, 2);
    drive(&mut circle, secs(120));
    let status = circle.status(1);
    let load = status.verdict.load.unwrap();
    assert!((1.6..=2.3).contains(&load), "two pull and two wait: {load}");
    assert_eq!(status.verdict.level, Level::Overloaded, "{:?}", status.verdict);
    assert!(status.slots > 0 && status.return_times.is_some());
}

#[test]
fn a_source_that_asks_for_a_rest_is_left_alone() {
    let mut circle = running(3, 3);
    assert!(drive_until(&mut circle, secs(60), |circle| circle.members[1].pulls.is_some()));
    circle.command(1, Command::Cool { span: secs(30), reason: "busy".to_owned() });
    drive(&mut circle, millis(10));
    assert!(circle.members[1].pulls.is_none(), "the pull ends");
    let slots = circle.slots(1);
    drive(&mut circle, secs(29));
    assert_eq!(circle.slots(1), slots);
    assert!(serves_all_of(&mut circle, &[1], secs(30)), "and goes on after it");
}

#[test]
fn an_amended_charter_changes_the_turn() {
    let mut circle = running(3, 2);
    let charter = Charter { version: 2, slot: SLOT * 3, ..circle.charter.clone() };
    let charter = circle.authority.sign_charter(charter);
    circle.command(0, Command::Charter { charter });
    drive(&mut circle, secs(60));
    let since = circle.now;
    drive(&mut circle, secs(60));
    let spans: BTreeSet<Duration> = circle.events_since(since).into_iter().filter_map(length).collect();
    assert_eq!(spans, BTreeSet::from([SLOT * 3]));
    assert_eq!((0..3).map(|member| forfeited(&circle, member)).sum::<usize>(), 0, "the ring stays");
}

// --- who knows whom ---------------------------------------------------------------------------------------------

#[test]
fn members_who_know_only_the_first_get_to_know_each_other_and_are_served() {
    let mut circle = Circle::of_ticket_strangers(6, 3);
    circle.command(0, Command::FoundRing { epoch: 1 });
    let address = circle.address(0);
    for member in 1..6 {
        circle.command(member, Command::Greet { address });
    }
    assert!(serves_all_of(&mut circle, &[0, 1, 2, 3, 4, 5], secs(180)));
    drive(&mut circle, secs(180));
    for member in 0..6 {
        assert_eq!(circle.node(member).directory().len(), 5, "whom member {member} knows");
        assert!(
            circle
                .status(member)
                .members
                .iter()
                .all(|other| other.heard_ago.is_some_and(|ago| ago < secs(180)))
        );
    }
}

#[test]
fn members_without_anything_to_pull_stay_in_touch() {
    let mut circle = Circle::of_ticket_strangers(5, 2);
    let address = circle.address(0);
    for member in 0..5 {
        circle.command(member, Command::Work(false));
        circle.command(member, Command::Greet { address });
    }
    drive(&mut circle, secs(300));
    for member in 0..5 {
        let others = circle.status(member).members;
        assert_eq!(others.len(), 4, "whom member {member} knows");
        assert!(others.iter().all(|other| other.heard_ago.is_some_and(|ago| ago < secs(100))));
    }
}

#[test]
fn who_is_in_no_directory_is_answered_where_it_speaks_from() {
    let mut circle = Circle::of_ticket_strangers(2, 2);
    circle.command(0, Command::FoundRing { epoch: 1 });
    circle.introduce(1, 0);
    circle.set_network(|packet| match packet.kind() {
        Kind::Ticket => Fate::Deliver,
        _ => Fate::Drop,
    });
    assert!(serves_all_of(&mut circle, &[1], secs(60)));
    assert!(!circle.knows(0, 1));
    let to_stranger = circle.log.iter().find(|packet| packet.is(Kind::Ticket, 0, 1)).unwrap();
    let opened = open(&to_stranger.bytes, circle.authority.circle());
    assert!(opened.certificate().unwrap().is_some(), "who may not know us gets our certificate");
}

#[test]
fn charters_and_bans_spread_without_a_token() {
    let mut circle = running(4, 2);
    let charter = Charter { version: 2, capacity: 9, ..circle.charter.clone() };
    let charter = circle.authority.sign_charter(charter);
    circle.command(3, Command::Charter { charter });
    let bans = circle.bans(1, &[90]);
    circle.command(2, Command::Bans { bans });
    drive(&mut circle, secs(120));
    for member in 0..4 {
        let status = circle.status(member);
        assert_eq!((status.charter_version, status.bans_version), (2, 1), "member {member}");
    }
}

// --- coming and going -------------------------------------------------------------------------------------------

#[test]
fn who_leaves_gives_its_ticket_back_and_the_others_go_on() {
    let mut circle = running(4, 4);
    assert!(drive_until(&mut circle, secs(60), |circle| (0..4).all(|member| has_seat(circle, member))));
    circle.command(2, Command::Leave);
    let has_left = |circle: &Circle| circle.count_events(2, |event| *event == Event::Left) == 1;
    assert!(drive_until(&mut circle, secs(10), has_left));
    let is_given_back =
        |event: &Event| matches!(event, Event::Tickets(tickets::Event::Lost { is_given_back: true, .. }));
    assert!(circle.count_events(2, is_given_back) > 0 && circle.members[2].pulls.is_none());
    assert_eq!(
        circle.count_events(2, |event| matches!(event, Event::RingClosed { .. })),
        0,
        "others are there"
    );
    assert!(serves_all_of(&mut circle, &[0, 1, 3], secs(60)));
    assert!(
        circle.count_events(0, |event| matches!(event, Event::Tickets(tickets::Event::Excluded { .. }))) == 0
    );
}

#[test]
fn the_last_one_closes_the_ring_and_may_begin_it_again() {
    let mut circle = running(2, 2);
    let has_left = |member: usize| {
        move |circle: &Circle| circle.count_events(member, |event| *event == Event::Left) == 1
    };
    circle.command(0, Command::Leave);
    assert!(drive_until(&mut circle, secs(20), has_left(0)));
    circle.crash(0);
    circle.command(1, Command::Leave);
    assert!(drive_until(&mut circle, secs(20), has_left(1)));
    let closed: Vec<usize> = (0..2)
        .filter(|member| circle.count_events(*member, |event| *event == Event::RingClosed { epoch: 1 }) == 1)
        .collect();
    assert_eq!(closed, [1]);
    circle.restart(0);
    circle.restart(1);
    circle.command(1, Command::FoundRing { epoch: 1 });
    assert!(serves_all_of(&mut circle, &[0, 1], secs(60)));
}

#[test]
fn who_crashes_loses_its_ticket_and_comes_back_to_another() {
    let mut circle = running(4, 4);
    assert!(drive_until(&mut circle, secs(60), |circle| (0..4).all(|member| has_seat(circle, member))));
    circle.crash(3);
    drive(&mut circle, secs(40));
    let is_excluded = |event: &Event| matches!(event, Event::Tickets(tickets::Event::Excluded { .. }));
    let excluded: usize = (0..3).map(|member| circle.count_events(member, is_excluded)).sum();
    assert_eq!(excluded, 1);
    assert!(serves_all_of(&mut circle, &[0, 1, 2], secs(60)));
    circle.restart(3);
    assert!(serves_all_of(&mut circle, &[3], secs(60)));
}

#[test]
fn who_is_banned_stops_at_once_and_its_ticket_comes_back() {
    let mut circle = running(4, 4);
    assert!(drive_until(&mut circle, secs(60), |circle| circle.members[3].pulls.is_some()));
    let bans = circle.bans(1, &[3]);
    circle.command(3, Command::Bans { bans: bans.clone() });
    drive(&mut circle, millis(10));
    assert_eq!(
        (circle.members[3].pulls, circle.count_events(3, |event| *event == Event::Expelled)),
        (None, 1)
    );
    circle.command(0, Command::Bans { bans });
    drive(&mut circle, secs(60));
    assert!(circle.members[3].node.is_some() && !has_seat(&circle, 3));
    assert!(serves_all_of(&mut circle, &[0, 1, 2], secs(60)));
    let rings: Vec<usize> =
        (0..3).map(|member| circle.node(member).tickets().unwrap().ring().len()).collect();
    assert_eq!(rings, [3, 3, 3]);
}

#[test]
fn clocks_that_jump_cost_the_ticket_but_not_the_ring_of_who_is_alone() {
    let mut circle = running(3, 3);
    assert!(drive_until(&mut circle, secs(60), |circle| circle.members[1].pulls.is_some()));
    let jump = |circle: &mut Circle, member| {
        circle.command(member, Command::Slept { asleep: Duration::MAX, fresh_secret: [8; 32] });
    };
    jump(&mut circle, 1);
    assert_eq!((forfeited(&circle, 1), has_seat(&circle, 1), stops(&circle, 1) > 0), (1, false, true));
    assert!(serves_all_of(&mut circle, &[0, 1, 2], secs(60)));

    let mut alone = running(1, 3);
    jump(&mut alone, 0);
    assert_eq!((forfeited(&alone, 0), has_seat(&alone, 0)), (0, true), "nobody else could found it again");
}

#[test]
fn who_has_begun_anew_says_nothing_before_its_old_pull_has_ended() {
    let mut circle = running(3, 3);
    circle.members[1].stop_after = secs(2);
    assert!(drive_until(&mut circle, secs(60), |circle| circle.members[1].pulls.is_some()));
    circle.command(1, Command::Slept { asleep: Duration::MAX, fresh_secret: [8; 32] });
    let begin = circle.now;
    drive(&mut circle, millis(1900));
    assert!(circle.members[1].pulls.is_some(), "the pull goes on");
    assert!(!has_denied_a_seat(&circle, 1, begin), "its seat is not free yet");
    drive(&mut circle, secs(10));
    assert!(has_denied_a_seat(&circle, 1, begin), "now it is");
}

// --- another ring -----------------------------------------------------------------------------------------------

#[test]
fn a_new_ring_voids_the_old_one_at_everybody_who_hears_of_it() {
    let mut circle = running(4, 2);
    let charter = found_another_ring(&mut circle, 1, 2);
    for member in 0..4 {
        circle.command(member, Command::Charter { charter: charter.clone() });
        assert!(!has_seat(&circle, member));
    }
    drive(&mut circle, secs(2));
    assert!(pulling(&circle).is_empty(), "what ran by the old ring has ended");
    drive(&mut circle, secs(60));
    assert!((0..4).all(|member| !has_seat(&circle, member)), "and nobody begins a new one by itself");
    circle.command(1, Command::FoundRing { epoch: 2 });
    assert!(serves_all_of(&mut circle, &[0, 1, 2, 3], secs(120)));
}

#[test]
fn who_has_not_heard_of_the_new_ring_is_told_as_soon_as_it_speaks() {
    let mut circle = running(4, 4);
    assert!(drive_until(&mut circle, secs(60), |circle| (0..4).all(|member| has_seat(circle, member))));
    // Scouts would tell it too, but later.
    circle.set_network(|packet| match packet.kind() {
        Kind::Scout | Kind::Report => Fate::Drop,
        _ => Fate::Deliver,
    });
    let charter = found_another_ring(&mut circle, 0, 2);
    for member in 0..3 {
        circle.command(member, Command::Charter { charter: charter.clone() });
    }
    circle.drive(secs(5));
    assert_eq!(circle.status(3).charter_version, 2);
    assert!(!has_seat(&circle, 3));
}

#[test]
fn what_is_said_in_another_ring_counts_for_nothing() {
    let mut circle = running(3, 3);
    let charter = found_another_ring(&mut circle, 0, 2);
    circle.command(0, Command::Charter { charter: charter.clone() });
    circle.command(0, Command::FoundRing { epoch: 2 });
    // The old ring goes on, cut off from all news, and speaks to the first of the new one.
    circle.set_network(|packet| match packet.kind() {
        Kind::Ticket => Fate::Deliver,
        _ => Fate::Drop,
    });
    circle.drive(secs(60));
    let ring = circle.node(0).tickets().unwrap().ring();
    assert_eq!(ring.len(), 1, "nobody of the old ring was let in: {ring:?}");
    assert!([1, 2].iter().all(|member| circle.status(*member).charter_version == 1));
    circle.heal();
    assert!(circle.drive_until(secs(90), |circle| {
        (0..3).all(|member| circle.node(member).tickets().unwrap().ring().len() == 3)
    }));
}

#[test]
fn a_circle_keeps_its_mode() {
    let mut circle = running(2, 2);
    let token = Charter { version: 2, mode: Mode::Token, ..circle.charter.clone() };
    let token = circle.authority.sign_charter(token);
    circle.command(0, Command::Charter { charter: token });
    assert_eq!(circle.status(0).charter_version, 1);
    let mut circle = Circle::running(2);
    let ring = Ring { tickets: 2, faults: 2, first: circle.id(0), epoch: 1 };
    let tickets = Charter { version: 2, mode: Mode::Tickets(ring), ..circle.charter.clone() };
    let tickets = circle.authority.sign_charter(tickets);
    circle.command(0, Command::Charter { charter: tickets });
    assert_eq!(circle.status(0).charter_version, 1);
    let bytes = circle.write(1, circle.id(0), circle.bodies(1).pop().unwrap(), true, 0);
    assert!(circle.inject(0, &bytes, circle.address(1)).is_empty(), "nobody asks for a ticket there");
}

// --- recordings -------------------------------------------------------------------------------------------------

#[test]
fn what_was_recorded_is_not_heard_again() {
    let mut circle = running(4, 2);
    drive(&mut circle, secs(30));
    let recorded: Vec<Packet> = circle
        .sent(Kind::Ticket)
        .into_iter()
        .rev()
        .filter(|packet| packet.receiver.is_some())
        .take(300)
        .collect();
    assert!(recorded.len() > 200);
    drive(&mut circle, secs(1));
    for packet in recorded {
        let receiver = packet.receiver.unwrap();
        let before = circle.accepted(receiver);
        assert!(circle.inject(receiver, &packet.bytes, elsewhere(5)).is_empty());
        assert_eq!(circle.accepted(receiver), before);
    }
}
