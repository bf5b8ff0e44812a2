//! The node where things go wrong by themselves: datagrams get lost, repeated and late, members crash, clocks are wrong.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod common;

use std::time::Duration;

use common::datagrams::GATE;
use common::{Circle, Fate, Packet, SLOT, elsewhere, millis, secs};
use stroll::base::{Nonce, Session, Time, TokenId};
use stroll::node::{Command, Event};
use stroll::proto::agent::Origin;
use stroll::proto::handoff::{self, Dropped};
use stroll::wire::{ANYONE, Body, Datagram, Header, Kind, pad_to};

/// Kinds that a healthy circle sends all the time, and those that it sends when some of these are lost.
const KINDS: [Kind; 10] = [
    Kind::Move,
    Kind::Ack,
    Kind::Commit,
    Kind::EarlyStop,
    Kind::Scout,
    Kind::Report,
    Kind::Release,
    Kind::Check,
    Kind::Holding,
    Kind::Passed,
];

/// Nothing is wrong any more: one token, and everybody is served again.
fn assert_recovers(circle: &mut Circle, within: Duration, what: &str) {
    circle.heal();
    circle.drive(within);
    let begin = circle.now;
    circle.drive(secs(20));
    assert_eq!(circle.tokens_alive(), 1, "{what}");
    for member in 0..circle.members.len() {
        let served = circle
            .events_since(begin)
            .iter()
            .any(|(_, at, event)| *at == member && matches!(event, Event::SlotBegan { .. }));
        assert!(served, "{what}: member {member} is served");
    }
}

/// Which of many, without a generator: every third, by its number.
fn every(third: u64, packet: &Packet) -> bool {
    packet.number.is_multiple_of(third)
}

// --- datagrams --------------------------------------------------------------------------------------------------

#[test]
fn any_kind_may_get_lost_for_a_while() {
    for kind in KINDS {
        let mut circle = Circle::running(4);
        circle.set_network(move |packet| if packet.kind() == kind { Fate::Drop } else { Fate::Deliver });
        circle.drive(secs(15));
        assert_recovers(&mut circle, secs(60), kind.name());
    }
}

#[test]
fn any_kind_may_get_lost_now_and_then_and_no_token_with_it() {
    for kind in KINDS {
        let mut circle = Circle::running(4);
        circle.set_network(move |packet| {
            if packet.kind() == kind && every(3, packet) { Fate::Drop } else { Fate::Deliver }
        });
        circle.drive(secs(30));
        let lost = circle.events().into_iter().filter(|(_, _, event)| {
            matches!(
                event,
                Event::Handoff(handoff::Event::CommitAbandoned { .. } | handoff::Event::Dropped { .. })
            )
        });
        assert_eq!(lost.count(), 0, "{}", kind.name());
        assert_recovers(&mut circle, secs(30), kind.name());
    }
}

#[test]
fn any_kind_may_come_twice() {
    for kind in KINDS {
        let mut circle = Circle::running(4);
        circle.set_network(move |packet| if packet.kind() == kind { Fate::Twice } else { Fate::Deliver });
        let begin = circle.now;
        circle.drive(secs(20));
        let slots = circle.events_since(begin);
        let slots = slots.iter().filter(|(_, _, event)| matches!(event, Event::SlotBegan { .. })).count();
        assert!(slots >= 17, "{}: {slots} slots in 20 s", kind.name());
        assert!(circle.regenerations().is_empty(), "{}", kind.name());
    }
}

#[test]
fn everything_may_come_twice_and_out_of_order() {
    let mut circle = Circle::running(5);
    circle.set_network(|packet| match packet.number % 4 {
        0 => Fate::Twice,
        1 => Fate::Late(millis(15)),
        2 => Fate::Late(millis(180)),
        _ => Fate::Deliver,
    });
    circle.drive(secs(60));
    assert_recovers(&mut circle, secs(30), "reordered");
}

#[test]
fn any_kind_may_be_late_by_seconds_or_minutes() {
    for kind in KINDS {
        for by in [millis(700), secs(5), secs(100)] {
            let mut circle = Circle::running(4);
            circle.set_network(move |packet| {
                if packet.kind() == kind && every(2, packet) { Fate::Late(by) } else { Fate::Deliver }
            });
            circle.drive(secs(20));
            assert_recovers(&mut circle, by + secs(60), kind.name());
        }
    }
}

#[test]
fn what_was_held_back_and_comes_at_once_does_no_harm() {
    for kind in KINDS {
        let mut circle = Circle::running(4);
        circle.set_network(move |packet| if packet.kind() == kind { Fate::Hold } else { Fate::Deliver });
        circle.drive(secs(10));
        circle.heal();
        circle.drive(secs(10));
        circle.release_held();
        assert_recovers(&mut circle, secs(60), kind.name());
    }
}

#[test]
fn a_lost_commit_is_repeated_until_it_arrives() {
    let mut circle = Circle::running_with_token_at(4, 1);
    circle.set_network(|packet| if packet.kind() == Kind::Commit { Fate::Drop } else { Fate::Deliver });
    let begin = circle.now;
    circle.drive(secs(3));
    let lost = circle.sent_since(begin).iter().filter(|packet| packet.kind() == Kind::Commit).count();
    assert!(lost >= 4 && circle.tokens_here() == 0, "{lost}");
    circle.heal();
    let arrivals = circle.arrivals().len();
    assert!(circle.drive_until(secs(3), |circle| circle.arrivals().len() > arrivals), "it arrives after all");
    circle.drive(secs(60));
    assert_eq!(circle.tokens_alive(), 1, "also if a second one was made meanwhile");
}

#[test]
fn a_lost_early_stop_is_repeated_on_the_next_commit() {
    let mut circle = Circle::running_with_token_at(4, 1);
    let mut dropped = 0;
    circle.set_network(move |packet| {
        dropped += u32::from(packet.kind() == Kind::EarlyStop);
        if packet.kind() == Kind::EarlyStop && dropped <= 2 { Fate::Drop } else { Fate::Deliver }
    });
    let before = circle.sent(Kind::EarlyStop).len();
    circle.drive(secs(6));
    let confirmed = |event: &Event| matches!(event, Event::Handoff(handoff::Event::Confirmed { .. }));
    assert!(circle.count_events(1, confirmed) > 0);
    assert!(circle.sent(Kind::EarlyStop).len() > before + 3);
    assert!(circle.regenerations().is_empty());
}

#[test]
fn a_taker_that_does_not_answer_is_passed_over() {
    let mut circle = Circle::running_with_token_at(4, 0);
    circle.set_network(|packet| if packet.receiver == Some(2) { Fate::Drop } else { Fate::Deliver });
    let (begin, slots) = (circle.now, circle.slots(2));
    circle.drive(secs(20));
    assert_eq!(circle.slots(2), slots);
    let others = circle.events_since(begin);
    let others = others.iter().filter(|(_, _, event)| matches!(event, Event::SlotBegan { .. })).count();
    assert!(others >= 10, "{others}");
    assert_recovers(&mut circle, secs(60), "cut off");
}

// --- crashes and cuts -------------------------------------------------------------------------------------------

/// Until member `from` sends such a datagram; the datagram.
fn drive_to(circle: &mut Circle, kind: Kind, from: Option<usize>) -> Packet {
    let begin = circle.log.len();
    let is_it =
        move |packet: &&Packet| packet.kind() == kind && from.is_none_or(|from| packet.sender == from);
    assert!(circle.drive_until(secs(60), |circle| circle.log[begin..].iter().any(|packet| is_it(&packet))));
    circle.log[begin..].iter().find(is_it).unwrap().clone()
}

#[test]
fn a_crash_at_any_moment_of_a_handoff_costs_at_most_the_token() {
    for kind in
        [Kind::Move, Kind::Ack, Kind::Commit, Kind::EarlyStop, Kind::Scout, Kind::Report, Kind::Release]
    {
        for is_sender in [true, false] {
            for is_back_at_once in [true, false] {
                let mut circle = Circle::running(4);
                let packet = drive_to(&mut circle, kind, None);
                let victim = if is_sender { packet.sender } else { packet.receiver.unwrap() };
                circle.crash(victim);
                if !is_back_at_once {
                    circle.drive(secs(10));
                }
                circle.restart(victim);
                assert!(circle.node(victim).token().is_none(), "P30: a restart holds nothing");
                let what = format!("{} {is_sender} {is_back_at_once}", kind.name());
                assert_recovers(&mut circle, secs(60), &what);
            }
        }
    }
}

#[test]
fn a_giver_that_dies_after_its_first_commit_loses_nothing() {
    let mut circle = Circle::running(4);
    let commit = drive_to(&mut circle, Kind::Commit, None);
    circle.crash(commit.sender);
    circle.drive(millis(15));
    assert_eq!(circle.holder(), commit.receiver);
    circle.drive(secs(20));
    assert!(circle.regenerations().is_empty());
    assert_eq!(circle.tokens_alive(), 1);
}

#[test]
fn a_cut_in_one_direction_never_doubles_the_token() {
    for (from, to) in [(0, 1), (1, 0), (2, 3)] {
        for kind in [Kind::Move, Kind::Ack, Kind::Commit, Kind::EarlyStop] {
            let mut circle = Circle::running(4);
            drive_to(&mut circle, kind, None);
            circle.set_network(move |packet| {
                if packet.sender == from && packet.receiver == Some(to) { Fate::Drop } else { Fate::Deliver }
            });
            circle.drive(secs(30));
            assert_recovers(&mut circle, secs(90), &format!("{from} to {to} at {}", kind.name()));
        }
    }
}

#[test]
fn two_halves_each_find_a_token_and_become_one_again() {
    let mut circle = Circle::running(6);
    circle.set_network(|packet| {
        let is_cut = packet.receiver.is_some_and(|to| (packet.sender < 3) != (to < 3));
        if is_cut { Fate::Drop } else { Fate::Deliver }
    });
    circle.drive(secs(400));
    assert_eq!(circle.tokens_alive(), 2, "the half without a token made one");
    circle.heal();
    circle.drive(secs(60));
    assert_eq!(circle.tokens_alive(), 1, "the younger was removed");
    assert_recovers(&mut circle, secs(5), "joined");
}

#[test]
fn a_restarted_member_waits_before_it_makes_a_token() {
    let mut circle = Circle::running(3);
    for member in 0..3 {
        circle.crash(member);
    }
    let begin = circle.now;
    for member in 0..3 {
        circle.restart(member);
    }
    circle.introduce_all();
    assert_eq!(circle.tokens_here(), 0);
    assert!(circle.drive_until(secs(600), |circle| circle.tokens_here() == 1));
    // The nominal period of three members: as long as a round takes.
    assert!(circle.now.since(begin) >= SLOT * 3);
    assert_recovers(&mut circle, secs(60), "all restarted");
}

// --- sleep and clocks -------------------------------------------------------------------------------------------

#[test]
fn a_holder_that_slept_shortly_stops_its_slot_and_keeps_its_token() {
    let mut circle = Circle::running_with_token_at(4, 1);
    circle.command(1, Command::Slept { asleep: millis(1500), fresh_secret: [9; 32] });
    assert_eq!(circle.members[1].events.last().unwrap().1, Event::StopSlot);
    circle.drive(millis(10));
    assert!(circle.members[1].pulls.is_none());
    assert_eq!(circle.holder(), Some(1));
    circle.drive(secs(10));
    assert_eq!((circle.tokens_alive(), circle.regenerations().len()), (1, 0));
}

#[test]
fn a_holder_that_slept_for_long_holds_nothing_any_more() {
    let mut circle = Circle::running_with_token_at(4, 1);
    // What T_selffence is made of: half of two visits without an answer and a margin.
    let config = handoff::Config::new(SLOT, SLOT * 2);
    let asleep = config.t_selffence() + millis(1);
    circle.command(1, Command::Slept { asleep, fresh_secret: [9; 32] });
    let is_dropped = |event: &Event| {
        matches!(event, Event::Handoff(handoff::Event::Dropped { because: Dropped::Slept, .. }))
    };
    assert_eq!(circle.count_events(1, is_dropped), 1);
    assert_eq!((circle.holder(), circle.status(1).dropped), (None, 1));
    circle.drive(millis(10));
    assert!(circle.members[1].pulls.is_none());
    circle.drive(secs(5));
    let [(_, by, Origin::CustodyUnanswered)] = circle.regenerations()[..] else {
        panic!("custody brings it back")
    };
    assert_ne!(by, 1);
    assert_recovers(&mut circle, secs(20), "slept");
}

#[test]
fn a_commit_for_what_was_acknowledged_before_a_sleep_is_refused() {
    let mut circle = Circle::running(4);
    circle.set_network(|packet| if packet.kind() == Kind::Commit { Fate::Hold } else { Fate::Deliver });
    let commit = drive_to(&mut circle, Kind::Commit, None);
    let taker = commit.receiver.unwrap();
    circle.command(taker, Command::Slept { asleep: secs(2), fresh_secret: [9; 32] });
    circle.inject(taker, &commit.bytes, commit.from);
    assert!(circle.node(taker).token().is_none(), "the nonce is of another secret");
    assert_recovers(&mut circle, secs(60), "slept between Ack and Commit");
}

#[test]
fn a_member_that_stalled_takes_its_own_deafness_for_no_proof() {
    let mut circle = Circle::running_with_token_at(4, 2);
    let custodian = circle.arrivals();
    let custodian = custodian[custodian.len() - 2].1;
    circle.crash(2);
    circle.drive(millis(2200));
    assert!(circle.regenerations().is_empty(), "the last check is still open");
    circle.command(custodian, Command::Stalled);
    circle.drive(millis(600));
    assert!(circle.regenerations().is_empty(), "all checks anew");
    circle.drive(secs(2));
    assert_eq!(circle.regenerations().len(), 1);
}

/// A datagram of a handoff, as member 0 would write it.
fn crafted(circle: &Circle, to: usize, body: Body, header: Header) -> Vec<u8> {
    let bare = Header::bare(body.kind(), circle.authority.circle(), circle.id(0), circle.id(to));
    let Header { token, session, nonce, .. } = header;
    let header = Header { token, session, nonce, ..bare };
    let datagram = pad_to(Datagram { header, body, certificate: None, padding: 0 }, 1100);
    datagram.encode(&GATE, |bytes| circle.key(0).sign(bytes)).unwrap()
}

/// What member `to` says to a Move of member 0 for this token.
fn offered(circle: &mut Circle, to: usize, token: TokenId, session: Session) -> Vec<Packet> {
    let header = Header { token, session, ..circle.last(Kind::Move).header };
    let bytes = crafted(circle, to, Body::Move, Header { nonce: Nonce::default(), ..header });
    circle.inject(to, &bytes, circle.address(0))
}

#[test]
fn a_member_that_stalled_takes_no_token_for_a_moment() {
    for is_asleep in [false, true] {
        let mut circle = Circle::running_with_token_at(4, 2);
        // What is offered comes from the test alone, to somebody who neither holds the token nor answers for it.
        circle.set_network(|_| Fate::Drop);
        let custodian = circle.arrivals();
        let custodian = custodian[custodian.len() - 2].1;
        let taker = [1, 3].into_iter().find(|member| *member != custodian).unwrap();
        let (token, session) = circle.token();
        let answers = |circle: &mut Circle, more| {
            offered(circle, taker, token, Session(session.0 + more))
                .iter()
                .map(Packet::kind)
                .collect::<Vec<_>>()
        };
        assert_eq!(answers(&mut circle, 10), [Kind::Ack]);
        let slept = Command::Slept { asleep: secs(2), fresh_secret: [9; 32] };
        circle.command(taker, if is_asleep { slept } else { Command::Stalled });
        assert_eq!(answers(&mut circle, 11), [], "P21: it does not keep up");
        circle.drive(millis(2500));
        assert_eq!(answers(&mut circle, 12), []);
        circle.drive(secs(1));
        assert_eq!(answers(&mut circle, 13), [Kind::Ack], "it kept up for a while");
    }
}

#[test]
fn clocks_that_differ_by_hours_change_nothing() {
    // A member whose clock was more than ten minutes behind that of the token's generator refused the token.
    let mut circle = Circle::of(4);
    for (member, minutes) in [(0, 9), (1, -300), (2, 0), (3, 240)] {
        circle.members[member].wall_offset_ms += minutes * 60_000;
        circle.restart(member);
    }
    circle.introduce_all();
    circle.command(2, Command::Found);
    circle.drive(secs(40));
    assert!((0..4).all(|member| circle.slots(member) > 7));
    let offset =
        circle.status(2).members.iter().find(|other| other.member == circle.id(1)).unwrap().clock_offset_ms;
    assert!((offset.unwrap() + 300 * 60_000).abs() < 10, "and everybody can see it");
    assert_eq!(circle.tokens_alive(), 1);
}

#[test]
fn a_clock_that_is_set_changes_no_timer() {
    const DAY_MS: i64 = 86_400_000;
    let run = |jump_ms: i64| {
        let mut circle = Circle::running(4);
        for member in [1, 3] {
            let offset_ms = circle.members[member].wall_offset_ms + jump_ms;
            circle.command(member, Command::WallClock { offset_ms });
        }
        circle.drive(secs(60));
        let events = |(at, member, event): (Time, usize, Event)| {
            matches!(event, Event::SlotBegan { .. }).then_some((at, member))
        };
        assert!(circle.regenerations().is_empty());
        circle.events().into_iter().filter_map(events).collect::<Vec<_>>()
    };
    let undisturbed = run(0);
    assert_eq!(run(DAY_MS), undisturbed);
    // A day back the certificates are not valid yet by ten minutes less than a day: still within.
    assert_eq!(run(-DAY_MS / 2), undisturbed);
}

#[test]
fn a_clock_beyond_the_certificates_end_expels_the_member_and_no_other() {
    let mut circle = Circle::running_with_token_at(4, 3);
    let offset_ms = circle.members[3].wall_offset_ms + 101 * 86_400_000;
    circle.command(3, Command::WallClock { offset_ms });
    circle.drive(secs(35));
    assert_eq!(circle.count_events(3, |event| *event == Event::Expelled), 1, "within a tidy-up");
    assert!((0..3).all(|member| circle.count_events(member, |event| *event == Event::Expelled) == 0));
    let begin = circle.now;
    circle.drive(secs(20));
    let served = |member| {
        circle
            .events_since(begin)
            .iter()
            .any(|(_, at, event)| *at == member && matches!(event, Event::SlotBegan { .. }))
    };
    assert_eq!([0, 1, 2, 3].map(served), [true, true, true, false]);
}

// --- the forgotten ----------------------------------------------------------------------------------------------

/// Where a member has asked whoever is there, since then.
fn greetings(circle: &Circle, by: usize, since: Time) -> Vec<Packet> {
    let is_greeting = |packet: &Packet| packet.kind() == Kind::Scout && packet.header.receiver == ANYONE;
    circle.sent_since(since).into_iter().filter(|packet| packet.sender == by && is_greeting(packet)).collect()
}

/// A circle of three, long after the third was cut off.
fn one_is_forgotten() -> Circle {
    let mut circle = Circle::running(3);
    circle.set_network(|packet| {
        if packet.sender == 2 || packet.receiver == Some(2) { Fate::Drop } else { Fate::Deliver }
    });
    let is_forgotten =
        |circle: &Circle| [(0, 2), (1, 2), (2, 0), (2, 1)].iter().all(|(a, b)| !circle.knows(*a, *b));
    assert!(circle.drive_until(secs(900), is_forgotten), "silence leads to oblivion");
    circle
}

#[test]
fn now_and_then_the_old_address_of_somebody_forgotten_is_greeted() {
    let mut circle = one_is_forgotten();
    let begin = circle.now;
    circle.drive(secs(100));
    for member in [0, 1] {
        let greetings = greetings(&circle, member, begin);
        assert!(greetings.iter().all(|packet| packet.receiver == Some(2)), "nobody else is missing");
        let visits = circle.arrivals().iter().filter(|(at, who, ..)| *at >= begin && *who == member).count();
        let (least, most) = (3, visits + 5);
        assert!((least..=most).contains(&greetings.len()), "{} greetings, {visits} visits", greetings.len());
    }
}

#[test]
fn who_was_forgotten_is_found_again_where_it_was() {
    let mut circle = one_is_forgotten();
    circle.drive(secs(300));
    assert_recovers(&mut circle, secs(10), "forgotten");
    let begin = circle.now;
    circle.drive(secs(100));
    for member in 0..3 {
        assert_eq!(circle.node(member).directory().len(), 2);
        assert_eq!(greetings(&circle, member, begin), [], "there is nobody left to be found");
    }
}

// --- twins and tokens without end -------------------------------------------------------------------------------

fn says_that_it_is_double(event: &Event) -> bool {
    matches!(event, Event::DuplicateIdentity { .. })
}

#[test]
fn two_processes_with_one_key_both_say_so_once_a_minute() {
    let mut circle = Circle::running(4);
    let twin = circle.add_clone_of(1);
    circle.introduce_to_all(twin);
    for member in [0, 2] {
        circle.command(twin, Command::Greet { address: circle.address(member) });
    }
    circle.drive(secs(110));
    for (member, other) in [(1, twin), (twin, 1)] {
        let told = circle.count_events(member, says_that_it_is_double);
        assert!((1..=2).contains(&told), "P29: {member} said it {told} times");
        let address = circle.address(other);
        assert!(circle.count_events(member, |event| *event == Event::DuplicateIdentity { address }) > 0);
        assert!(circle.status(member).duplicate_identity >= told as u64);
    }
    assert!([0, 2, 3].iter().all(|member| circle.status(*member).duplicate_identity == 0));
}

#[test]
fn who_moves_or_had_a_wrong_clock_in_its_former_run_is_no_twin_of_itself() {
    let mut circle = Circle::running(4);
    circle.command(1, Command::Moved { address: elsewhere(7) });
    circle.members[1].address = elsewhere(7);
    circle.drive(secs(20));
    // A run with a clock that is a day ahead, and then one with the right clock at yet another address.
    let offset_ms = circle.members[1].wall_offset_ms + 86_400_000;
    circle.command(1, Command::WallClock { offset_ms });
    circle.command(1, Command::Moved { address: elsewhere(8) });
    circle.members[1].address = elsewhere(8);
    circle.drive(secs(20));
    let former = circle.entry(1);
    circle.members[1].address = elsewhere(9);
    circle.restart(1);
    circle.command(1, Command::Learn { entry: former });
    circle.drive(secs(60));
    let known = |circle: &Circle, member: usize| circle.node(member).directory().address(circle.id(1));
    assert!([0, 2, 3].iter().all(|member| known(&circle, *member) == Some(elsewhere(9))));
    assert_eq!(circle.count_events(1, says_that_it_is_double), 0);
    assert_eq!(circle.status(1).duplicate_identity, 0);
}

#[test]
fn an_offer_of_a_token_that_is_here_is_counted() {
    let mut circle = Circle::running_with_token_at(4, 1);
    let (token, session) = circle.token();
    assert_eq!(offered(&mut circle, 1, token, Session(session.0 + 3)), []);
    assert_eq!((circle.status(1).authority_conflicts, circle.holder()), (1, Some(1)));
}

/// A token that was made up comes to member 1, from member 0; false if it is not wanted.
fn comes(circle: &mut Circle, token: TokenId) -> bool {
    let [ack] = &offered(circle, 1, token, Session(1))[..] else { return false };
    let body = Body::Commit { age: Duration::ZERO, cool: Duration::ZERO, entries: Vec::new() };
    let commit = crafted(circle, 1, body, ack.header);
    let arrived = circle.arrivals().len();
    circle.inject(1, &commit, circle.address(0));
    circle.arrivals().len() > arrived
}

#[test]
fn who_makes_tokens_without_end_finds_nobody_who_takes_them() {
    let mut circle = Circle::running_with_token_at(4, 2);
    let ((token, _), ids) = (circle.token(), [0, 3].map(|member| circle.id(member)));
    let made =
        |generator, number| TokenId { created_ms: token.created_ms + 1000 + number, generator, ..token };
    let mut came = 0;
    for number in 0..100 {
        came += u64::from(comes(&mut circle, made(ids[0], number)));
        circle.drive(millis(150));
    }
    assert_eq!((came, token.generator), (59, ids[0]), "P34: with the circle's first it made sixty");
    assert!(circle.rejected(1, "quota") >= 40);
    assert!(comes(&mut circle, made(ids[1], 1)), "others are not concerned");
    circle.drive(secs(20));
    assert_eq!(circle.token().0, token, "and the eldest goes on");
    circle.drive(SLOT * 900);
    assert!(comes(&mut circle, made(ids[0], 1000)), "later it may again");
}

// --- addresses --------------------------------------------------------------------------------------------------

#[test]
fn a_member_behind_a_nat_is_answered_where_its_question_came_from() {
    let mut circle = Circle::running(3);
    let sent = circle.command(1, Command::Greet { address: circle.address(0) });
    let answers = circle.inject(0, &sent[0].bytes, elsewhere(55));
    assert!(matches!(&answers[..], [report] if report.kind() == Kind::Report && report.to == elsewhere(55)));
    assert_eq!(circle.node(0).directory().address(circle.id(1)), Some(circle.address(1)));
}
