//! The node at work: a token goes round, members come and go, and what the authority says reaches all.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use common::datagrams::forge;
use common::{Circle, DELAY, Fate, SLOT, elsewhere, millis, secs};
use stroll::base::{Session, Time, TokenId};
use stroll::node::{Command, Event, Input, Output};
use stroll::proto::agent::Origin;
use stroll::proto::{agent, handoff};
use stroll::wire::records::{Charter, RuleSet};
use stroll::wire::{COOL_LIMIT, Kind};

// --- the round --------------------------------------------------------------------------------------------------

#[test]
fn a_token_goes_round_and_everybody_gets_slots() {
    let mut circle = Circle::of(5).with_token_at(0);
    circle.drive(secs(60));
    for member in 0..5 {
        assert!((8..=13).contains(&circle.slots(member)), "{} slots of {member}", circle.slots(member));
        let status = circle.status(member);
        let returns = status.return_times.expect("return times are measured");
        assert!(returns.mean < secs(7), "{returns:?}");
        assert_eq!((status.regenerated, status.removed, status.dropped), (0, 0, 0));
        assert!(status.handed_off >= 8 && status.unreachable == 0);
        assert!(status.verdict.load.is_some_and(|factor| (0.9..1.3).contains(&factor)), "{status:?}");
    }
    assert_eq!(circle.tokens_alive(), 1);
    assert!(circle.all_slots() >= 50, "of sixty seconds fewer than ten are lost on the way");
}

#[test]
fn sessions_only_grow() {
    let mut circle = Circle::of(4).with_token_at(0);
    circle.drive(secs(30));
    let mut last: BTreeMap<TokenId, Session> = BTreeMap::new();
    for (at, member, token, session) in circle.arrivals() {
        let before = last.insert(token, session);
        assert!(before < Some(session), "{at}: {member} accepted {session} after {before:?}");
    }
    assert_eq!(last.len(), 1);
    assert!(last.values().all(|session| *session >= Session(25)));
}

#[test]
fn round_trips_and_clocks_are_measured() {
    let mut circle = Circle::of(3);
    circle.members[2].wall_offset_ms += 90_000;
    circle.restart(2);
    circle.command(0, Command::Found);
    circle.drive(secs(10));
    let status = circle.status(0);
    assert_eq!(status.members.len(), 2);
    for member in &status.members {
        assert_eq!(member.round_trip, Some(DELAY * 2));
        assert!(member.heard_ago.unwrap() < secs(5) && !member.is_suspected);
        let ahead = if member.member == circle.id(2) { 90_000 } else { 0 };
        assert!((member.clock_offset_ms.unwrap() - ahead).abs() <= 1, "{member:?}");
    }
}

#[test]
fn who_waited_longest_is_next() {
    let circle = {
        let mut circle = Circle::running(4);
        circle.drive(secs(40));
        circle
    };
    let began = circle.events().into_iter().filter(|(_, _, event)| matches!(event, Event::SlotBegan { .. }));
    let order: Vec<usize> = began.map(|(_, member, _)| member).skip(4).collect();
    assert!(order.len() > 30);
    for window in order.windows(4) {
        assert_eq!(window.iter().collect::<BTreeSet<_>>().len(), 4, "{window:?} of {order:?}");
    }
}

#[test]
fn who_has_no_work_gets_no_slot_and_passes_on() {
    let mut circle = Circle::of(4);
    circle.command(3, Command::Work(false));
    circle.command(0, Command::Found);
    circle.drive(secs(30));
    assert_eq!(circle.slots(3), 0);
    assert!((0..3).all(|member| circle.slots(member) > 6));
    circle.command(3, Command::Work(true));
    circle.drive(secs(15));
    assert!(circle.slots(3) >= 2);
}

#[test]
fn a_member_alone_keeps_its_token_and_has_slots() {
    let mut circle = Circle::of(1).with_token_at(0);
    circle.drive(secs(20));
    assert!(circle.slots(0) >= 9, "{}", circle.slots(0));
    assert_eq!(circle.tokens_alive(), 1);
}

#[test]
fn one_seed_gives_the_same_bytes_and_another_does_not() {
    let run = |seed| {
        let mut circle = Circle::by(RuleSet::Guarded, 5, 1, seed).and_members(5);
        circle.introduce_all();
        circle.command(0, Command::Found);
        circle.drive(secs(10));
        circle.crash(circle.holder().unwrap_or(2));
        circle.drive(secs(10));
        circle.log
    };
    let (first, again, other) = (run(3), run(3), run(4));
    assert!(first.len() > 200);
    assert_eq!(first, again);
    assert_ne!(first, other);
}

#[test]
fn two_circles_in_one_network_do_not_hear_each_other() {
    // The same labs with the same keys at the same addresses, even the same gate key: only the authority differs.
    let found = |world| {
        let mut circle = Circle::by(RuleSet::Guarded, 3, world, 1).and_members(3);
        circle.introduce_all();
        circle.command(0, Command::Found);
        circle
    };
    let (mut one, mut other, mut undisturbed) = (found(1), found(2), found(1));
    for _ in 0..100 {
        other.drive(millis(100));
        one.drive(millis(100));
        undisturbed.drive(millis(100));
        for packet in other.sent_since(other.now - millis(99)) {
            let accepted = one.accepted(packet.receiver.unwrap());
            assert!(one.inject(packet.receiver.unwrap(), &packet.bytes, packet.from).is_empty());
            assert_eq!(one.accepted(packet.receiver.unwrap()), accepted);
        }
    }
    assert!((0..3).all(|member| one.rejected(member, "circle") > 15));
    assert_eq!(one.log, undisturbed.log);
}

// --- members ----------------------------------------------------------------------------------------------------

#[test]
fn members_are_learnt_by_scouts() {
    let mut circle = Circle::of_strangers(5);
    for member in 1..5 {
        circle.introduce(member - 1, member);
    }
    circle.command(0, Command::Found);
    circle.drive(secs(60));
    for member in 0..5 {
        assert_eq!(circle.node(member).directory().len(), 4, "member {member}");
        assert!(circle.slots(member) > 3);
    }
}

#[test]
fn a_newcomer_greets_one_member_and_is_served_by_all() {
    let mut circle = Circle::running(4);
    let newcomer = circle.add_member();
    circle.drive(secs(5));
    assert_eq!(circle.slots(newcomer), 0, "nobody knows it yet");
    circle.command(newcomer, Command::Greet { address: circle.address(2) });
    circle.drive(secs(40));
    assert!(circle.slots(newcomer) > 3);
    assert_eq!(circle.node(newcomer).directory().len(), 4);
    assert!((0..4).all(|member| circle.knows(member, newcomer)));
    let learned = circle.count_events(newcomer, |event| matches!(event, Event::MemberLearned { .. }));
    assert_eq!(learned, 4);
}

#[test]
fn a_greeting_with_a_certificate_of_another_authority_is_not_answered() {
    let mut circle = Circle::running(3);
    let mut other = Circle::by(RuleSet::Guarded, 3, 2, 1).and_members(5);
    let stranger = &other.command(4, Command::Greet { address: circle.address(1) })[0].bytes.clone();
    // It writes the right circle over its own.
    let claimed = circle.authority.circle();
    let forged = forge(stranger, |bytes| bytes[8..24].copy_from_slice(claimed.as_bytes()));
    assert!(circle.inject(1, &forged, elsewhere(1)).is_empty());
    assert_eq!(circle.rejected(1, "certificate"), 1);
    assert!(
        !circle.node(1).directory().iter().any(|(_, known)| known.entry().record.address == elsewhere(1))
    );
}

#[test]
fn an_enrolment_reaches_the_process_and_the_answer_its_newcomer() {
    let mut circle = Circle::running(3);
    let newcomer = circle.add_member();
    let body = circle.bodies(newcomer).into_iter().find(|body| body.kind() == Kind::Enrol).unwrap();
    let bytes = circle.write(newcomer, stroll::wire::ANYONE, body, false, 1200);
    assert!(circle.inject(0, &bytes, elsewhere(5)).is_empty(), "the process decides");
    let event = circle.members[0].events.last().unwrap().1.clone();
    let Event::Enrol { member, key, address, .. } = event else { panic!("{event:?}") };
    assert_eq!((member, key), (circle.id(newcomer), circle.key(newcomer).public()));
    assert_eq!(address, elsewhere(5));
    let certificate = circle.members[newcomer].certificate.clone();
    let sent = circle.command(0, Command::Welcome { to: address, member, certificate });
    assert_eq!(sent.len(), 1);
    assert_eq!((sent[0].kind(), sent[0].to), (Kind::Enrolled, elsewhere(5)));
    assert!(sent[0].bytes.len() <= bytes.len(), "P10");
    assert!(circle.inject(newcomer, &sent[0].bytes, circle.address(0)).is_empty());
    assert_eq!(circle.rejected(newcomer, "irrelevant"), 1, "a node is a member and asks for nothing");
}

#[test]
fn a_new_address_is_learnt_from_the_signed_record() {
    let mut circle = Circle::running(4);
    let address = elsewhere(4000);
    circle.command(1, Command::Moved { address });
    circle.members[1].address = address;
    circle.drive(secs(30));
    for member in [0, 2, 3] {
        assert_eq!(circle.node(member).directory().address(circle.id(1)), Some(address));
    }
    let slots = circle.slots(1);
    circle.drive(secs(15));
    assert!(circle.slots(1) > slots, "and it is reached there");
}

// --- custody ----------------------------------------------------------------------------------------------------

/// When this member got the token that it has.
fn arrived_at(circle: &Circle, member: usize) -> Time {
    circle.arrivals().into_iter().rfind(|arrival| arrival.1 == member).expect("it came from somebody").0
}

#[test]
fn the_token_of_a_crashed_holder_is_back_within_slot_grace_and_checks() {
    for victim in 0..4 {
        let mut circle = Circle::running_with_token_at(4, victim);
        let arrived = arrived_at(&circle, victim);
        circle.crash(victim);
        let crashed = circle.now;
        circle.drive(secs(4));
        let regenerations = circle.regenerations();
        let [(at, _, because)] = regenerations[..] else { panic!("{regenerations:?}") };
        assert_eq!(because, Origin::CustodyUnanswered);
        let took = at.since(arrived);
        assert!(
            (SLOT + millis(1600)..SLOT + millis(1800)).contains(&took),
            "{took:?} after it was handed over"
        );
        let slots = circle.events_since(crashed);
        let slots = slots.iter().filter(|(_, _, event)| matches!(event, Event::SlotBegan { .. })).count();
        assert!(slots >= 1, "and it is used");
        circle.drive(secs(20));
        assert_eq!((circle.tokens_alive(), circle.regenerations().len()), (1, 1));
    }
}

#[test]
fn a_check_is_answered_by_who_still_holds_the_token() {
    let mut circle = Circle::running_with_token_at(4, 2);
    // Its pull takes long to stop, so that the custodian asks.
    circle.members[2].stop_after = secs(5);
    circle.drive(secs(8));
    assert!(!circle.sent(Kind::Check).is_empty());
    let answers = circle.sent(Kind::Holding);
    assert!(!answers.is_empty() && answers.iter().all(|packet| packet.sender == 2));
    assert!(circle.regenerations().is_empty());
    circle.members[2].stop_after = Duration::ZERO;
    circle.drive(secs(10));
    assert_eq!(circle.tokens_alive(), 1);
}

#[test]
fn a_lost_release_costs_a_check_and_no_token() {
    let mut circle = Circle::running(4);
    circle.set_network(|packet| if packet.kind() == Kind::Release { Fate::Drop } else { Fate::Deliver });
    let begin = circle.now;
    circle.drive(secs(30));
    let count = |kind| circle.sent_since(begin).iter().filter(|packet| packet.kind() == kind).count();
    assert!(count(Kind::Release) > 20);
    assert!(circle.regenerations().is_empty(), "scouts and checks tell as much");
    assert_eq!(circle.tokens_alive(), 1);
    // Where nothing else is heard, the check is answered.
    circle.set_network(|packet| match packet.kind() {
        Kind::Release | Kind::Scout => Fate::Drop,
        _ => Fate::Deliver,
    });
    circle.drive(secs(30));
    assert!(!circle.sent(Kind::Passed).is_empty());
    let regenerations = circle.regenerations();
    let is_unanswered = |(.., because): &(Time, usize, Origin)| *because == Origin::CustodyUnanswered;
    assert!(!regenerations.iter().any(is_unanswered), "{regenerations:?}");
}

#[test]
fn a_token_without_custodian_is_made_anew_after_long_silence() {
    let mut circle = Circle::of(4).with_token_at(0);
    circle.drive(millis(500));
    circle.crash(0);
    circle.drive(secs(300));
    let regenerations = circle.regenerations();
    assert!(matches!(regenerations[..], [(at, _, Origin::NoNews), ..] if at > Time::from_secs(4)));
    circle.drive(secs(60));
    assert_eq!(circle.tokens_alive(), 1);
}

// --- what the authority says ------------------------------------------------------------------------------------

#[test]
fn a_newer_charter_reaches_all_and_its_slot_is_used() {
    let mut circle = Circle::running(5);
    let charter = Charter { version: 2, slot: millis(500), ..circle.charter.clone() };
    let charter = circle.authority.sign_charter(charter);
    circle.command(3, Command::Charter { charter });
    circle.drive(secs(30));
    for member in 0..5 {
        assert_eq!(circle.node(member).roll().charter().version, 2, "member {member}");
        assert_eq!(
            circle.count_events(member, |event| matches!(event, Event::CharterChanged { version: 2 })),
            1
        );
    }
    let begin = circle.now;
    circle.drive(secs(10));
    let slots: Vec<Duration> = circle
        .events_since(begin)
        .into_iter()
        .filter_map(|(at, _, event)| match event {
            Event::SlotBegan { until, .. } => Some(until.since(at)),
            _ => None,
        })
        .collect();
    assert!(slots.len() > 12 && slots.iter().all(|slot| *slot == millis(500)), "{slots:?}");
}

#[test]
fn an_older_or_unsigned_charter_changes_nothing() {
    let mut circle = Circle::running(3);
    let newer = circle.authority.sign_charter(Charter { version: 3, ..circle.charter.clone() });
    circle.command(1, Command::Charter { charter: newer.clone() });
    let older =
        circle.authority.sign_charter(Charter { version: 2, slot: secs(9), ..circle.charter.clone() });
    circle.command(1, Command::Charter { charter: older });
    let unsigned = Charter { version: 9, slot: secs(9), ..newer };
    circle.command(1, Command::Charter { charter: unsigned });
    circle.drive(secs(10));
    for member in 0..3 {
        let charter = circle.node(member).roll().charter();
        assert_eq!((charter.version, charter.slot), (3, SLOT));
    }
}

#[test]
fn a_taker_that_is_banned_before_the_commit_gets_nothing() {
    let mut circle = Circle::running_with_token_at(5, 2);
    // Its pull takes long to stop: there is time for a ban between the taker's yes and the Commit.
    circle.members[2].stop_after = secs(3);
    let start = circle.now;
    let is_acked = |circle: &Circle| {
        let sent = circle.sent_since(start);
        sent.iter().any(|packet| packet.kind() == Kind::Ack && packet.receiver == Some(2))
    };
    assert!(circle.drive_until(secs(10), is_acked));
    circle.drive(DELAY);
    let (taker, begin) = (circle.last(Kind::Ack).sender, circle.now);
    circle.members[2].stop_after = Duration::ZERO;
    let bans = circle.bans(1, &[taker]);
    circle.command(2, Command::Bans { bans });
    circle.drive(secs(20));
    let commits = circle.sent_since(begin);
    let commits = || commits.iter().filter(|packet| packet.kind() == Kind::Commit && packet.sender == 2);
    assert!(commits().count() > 0, "it went to another");
    assert!(commits().all(|packet| packet.receiver != Some(taker)));
    assert_eq!((circle.tokens_alive(), circle.regenerations().len()), (1, 0), "and nothing was lost by it");
}

#[test]
fn bans_reach_all_and_the_banned_is_forgotten_and_expels_itself() {
    let mut circle = Circle::running(5);
    let bans = circle.bans(1, &[4]);
    circle.command(0, Command::Bans { bans });
    circle.drive(secs(20));
    for member in 0..4 {
        assert_eq!(circle.status(member).bans_version, 1, "member {member}");
        assert!(!circle.knows(member, 4), "member {member}");
    }
    assert_eq!(circle.count_events(4, |event| *event == Event::Expelled), 1);
    let begin = circle.now;
    circle.drive(secs(400));
    let slots = |(_, member, event): &(Time, usize, Event)| {
        matches!(event, Event::SlotBegan { .. }).then_some(*member)
    };
    let served: BTreeSet<usize> = circle.events_since(begin).iter().filter_map(slots).collect();
    assert_eq!(served, BTreeSet::from([0, 1, 2, 3]));
    let by_banned = circle.sent_since(begin).iter().filter(|packet| packet.sender == 4).count();
    assert_eq!(by_banned, 0, "who is expelled is silent, and makes no token of its own");
    let scout = circle.bodies(0).into_iter().find(|body| body.kind() == Kind::Scout).unwrap();
    let bytes = circle.write(0, circle.id(4), scout, true, 1100);
    assert!(circle.inject(4, &bytes, circle.address(0)).is_empty(), "also when it is asked");
}

// --- leaving and cooling ----------------------------------------------------------------------------------------

#[test]
fn who_leaves_hands_the_token_over_before_it_has_left() {
    let mut circle = Circle::running_with_token_at(4, 2);
    circle.command(2, Command::Leave);
    assert!(circle.drive_until(secs(5), |circle| circle.count_events(2, |event| *event == Event::Left) > 0));
    let events: Vec<Event> = circle.members[2].events.iter().map(|(_, event)| event.clone()).collect();
    let stopped = events.iter().rposition(|event| *event == Event::StopSlot).unwrap();
    let confirmed = events
        .iter()
        .rposition(|event| matches!(event, Event::Handoff(handoff::Event::Confirmed { .. })))
        .unwrap();
    let left = events.iter().position(|event| *event == Event::Left).unwrap();
    assert!(stopped < confirmed && confirmed < left, "{events:?}");
    circle.drive(secs(1));
    circle.crash(2);
    circle.drive(secs(20));
    assert!([0, 1, 3].iter().all(|member| !circle.knows(*member, 2)));
    assert!(circle.regenerations().is_empty());
    assert_eq!(circle.tokens_alive(), 1);
}

#[test]
fn who_leaves_without_a_token_is_gone_at_once_and_takes_none() {
    let mut circle = Circle::running_with_token_at(4, 2);
    circle.command(1, Command::Leave);
    assert_eq!(circle.count_events(1, |event| *event == Event::Left), 1);
    let slots = circle.slots(1);
    circle.drive(secs(60));
    assert_eq!(circle.slots(1), slots);
    assert!([0, 2, 3].iter().all(|member| !circle.knows(*member, 1)));
    assert_eq!(circle.tokens_alive(), 1);
}

#[test]
fn the_last_member_can_leave() {
    let mut circle = Circle::of(1).with_token_at(0);
    circle.drive(millis(300));
    circle.command(0, Command::Leave);
    circle.drive(secs(2));
    assert_eq!(circle.count_events(0, |event| *event == Event::Left), 1);
}

#[test]
fn a_member_that_drains_does_not_wake_itself_without_pause() {
    // The end of a cooling that was long over was a deadline for who leaves; the driver took that for a sleep, and the
    // token was dropped.
    let mut circle = Circle::running_with_token_at(4, 2);
    circle.members[2].stop_after = secs(1);
    circle.command(2, Command::Leave);
    assert!(circle.node(2).next_deadline() >= circle.now, "{}", circle.node(2).next_deadline());
}

#[test]
fn the_circle_cools_together_and_goes_on_together() {
    let mut circle = Circle::running_with_token_at(4, 1);
    let asked = circle.now;
    circle.command(
        1,
        Command::Cool { span: secs(30), reason: "429 Too Many Requests from example.org".to_owned() },
    );
    circle.drive(secs(10));
    for member in 0..4 {
        let reason = circle.status(member).cooling_reason;
        let expected = (member == 1).then(|| "429 Too Many Requests from example.org".to_owned());
        assert_eq!(reason, expected, "the wire does not carry it to member {member}");
    }
    circle.drive(secs(50));
    let slots = |from: Time, until: Time| {
        let events = circle.events();
        let within = events.iter().filter(|(at, ..)| *at >= from && *at < until);
        within.filter(|(_, _, event)| matches!(event, Event::SlotBegan { .. })).count()
    };
    // In whole seconds, rounded down by each of the three who are told.
    assert_eq!(slots(asked, asked + secs(27)), 0, "the token carries it on");
    assert!(slots(asked + secs(27), asked + secs(60)) > 20);
    for member in 0..4 {
        let cooling =
            |event: &Event| matches!(event, Event::Cooling { until, .. } if *until <= asked + secs(31));
        assert!(circle.count_events(member, cooling) >= 1, "member {member}");
        assert_eq!(circle.status(member).cooling_for, Duration::ZERO);
    }
    assert_eq!((circle.tokens_alive(), circle.regenerations().len()), (1, 0));
}

#[test]
fn nobody_can_make_the_circle_cool_for_longer_than_the_limit() {
    let mut circle = Circle::running_with_token_at(3, 1);
    circle.command(1, Command::Cool { span: secs(1_000_000), reason: "busy".to_owned() });
    circle.drive(secs(3));
    for member in 0..3 {
        let cooling = circle.status(member).cooling_for;
        assert!(cooling > secs(3500) && cooling <= COOL_LIMIT, "{member}: {cooling:?}");
    }
}

// --- slots ------------------------------------------------------------------------------------------------------

#[test]
fn the_commit_waits_for_the_pull_to_end() {
    let mut circle = Circle::running_with_token_at(4, 0);
    circle.members[0].stop_after = secs(4);
    let begin = circle.now;
    circle.drive(secs(3));
    let commits =
        |circle: &Circle| circle.sent_since(begin).iter().filter(|p| p.kind() == Kind::Commit).count();
    assert!(circle.sent_since(begin).iter().any(|packet| packet.kind() == Kind::Ack), "it was acknowledged");
    assert_eq!(commits(&circle), 0);
    assert_eq!(circle.holder(), Some(0));
    circle.drive(secs(2));
    assert!(commits(&circle) > 0);
    circle.members[0].stop_after = Duration::ZERO;
    circle.drive(secs(10));
    assert_eq!((circle.tokens_alive(), circle.regenerations().len()), (1, 0));
}

#[test]
fn a_taker_pulls_before_it_has_signed_a_word_and_thanks_before_it_asks() {
    let mut circle = Circle::running(4);
    circle.set_network(|packet| if packet.kind() == Kind::Commit { Fate::Hold } else { Fate::Deliver });
    assert!(circle.drive_until(secs(10), |circle| !circle.held.is_empty()));
    let commit = circle.held[0].clone();
    let node = circle.members[commit.receiver.unwrap()].node.as_mut().unwrap();
    node.handle(Input::Datagram { bytes: &commit.bytes, from: commit.from }, circle.now);
    let mut outputs = std::iter::from_fn(|| node.poll_output());
    let arrived = outputs.next();
    assert!(
        matches!(arrived, Some(Output::Event(Event::Handoff(handoff::Event::Arrived { .. })))),
        "{arrived:?}"
    );
    let (mut pulls, mut kinds) = (false, Vec::new());
    for output in outputs {
        match output {
            Output::Event(event) => pulls |= matches!(event, Event::SlotBegan { .. }),
            Output::Datagram { bytes, .. } => {
                assert!(pulls, "it has a slot before it says anything");
                kinds.push(bytes[5]);
            }
        }
    }
    assert_eq!(kinds.first(), Some(&(Kind::EarlyStop as u8)));
    assert!(kinds.contains(&(Kind::Scout as u8)), "{kinds:?}");
}

#[test]
fn a_slot_begins_only_when_the_pull_before_has_ended() {
    // Alone, a member's next slot is due at once. It used to begin while the last pull was still stopping; the
    // node then took the new pull for the one that had ended, and never stopped it.
    let mut circle = Circle::of(1).with_token_at(0);
    circle.members[0].stop_after = millis(700);
    circle.drive(secs(30));
    let pulls = circle.members[0].events.iter().filter_map(|(at, event)| match event {
        Event::SlotBegan { until, .. } => Some((*at, Some(*until))),
        Event::StopSlot => Some((*at, None)),
        _ => None,
    });
    let pulls: Vec<(Time, Option<Time>)> = pulls.collect();
    assert!(pulls.len() > 20);
    for pair in pulls.chunks_exact(2) {
        let [(_, Some(until)), (stopped, None)] = pair else { panic!("{pulls:?}") };
        assert!(stopped <= until);
    }
}

#[test]
fn work_that_ends_ends_the_slot_and_the_token_goes_on() {
    let mut circle = Circle::running_with_token_at(4, 3);
    circle.command(3, Command::Work(false));
    circle.drive(millis(200));
    assert_ne!(circle.holder(), Some(3));
    let ended = |event: &Event| matches!(event, Event::Agent(agent::Event::SlotEnded));
    assert!(circle.count_events(3, ended) > 0 && circle.members[3].pulls.is_none());
}
