//! What changes while a member runs: its clock is set, its charter is amended, its certificate is renewed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod common;

use std::time::Duration;

use common::{Circle, Packet, SLOT, WALL_START_S, elsewhere, millis, secs};
use stroll::base::Time;
use stroll::node::{Command, Event};
use stroll::proto::{agent, handoff};
use stroll::wire::records::Charter;
use stroll::wire::{Body, Kind};

/// What to add to the time to get the right wall clock.
fn right_clock_ms() -> i64 {
    i64::try_from(WALL_START_S * 1000).unwrap()
}

fn dropped(circle: &Circle, member: usize) -> usize {
    circle.count_events(member, |event| matches!(event, Event::Handoff(handoff::Event::Dropped { .. })))
}

// --- the clock --------------------------------------------------------------------------------------------------

#[test]
fn a_member_that_started_in_1970_is_served_once_its_clock_is_set() {
    let mut circle = Circle::running(4);
    circle.members[3].wall_offset_ms = 0;
    circle.restart(3);
    circle.drive(secs(60));
    assert_eq!(circle.count_events(3, |event| *event == Event::Expelled), 0, "it waits for its clock");
    let (before, set_at) = (circle.slots(3), circle.now);
    circle.command(3, Command::WallClock { offset_ms: right_clock_ms() });
    assert!(circle.drive_until(secs(60), |circle| circle.slots(3) >= before + 3), "no token was taken");
    let made_early = circle.regenerations().iter().any(|(at, member, _)| *member == 3 && *at < set_at);
    assert!(!made_early, "its deafness is no proof");
    circle.drive(secs(60));
    assert_eq!(circle.tokens_alive(), 1);
}

#[test]
fn a_member_whose_clock_was_ahead_in_its_former_run_is_answered_again() {
    let mut circle = Circle::running(4);
    circle.command(1, Command::WallClock { offset_ms: right_clock_ms() + 50 * 86_400_000 });
    circle.drive(secs(20));
    circle.restart(1);
    let (begin, id) = (circle.now, circle.id(1));
    let is_answered = |circle: &Circle| {
        let mut sent = circle.sent_since(begin).into_iter();
        sent.any(|packet| packet.kind() == Kind::Report && packet.header.receiver == id)
    };
    assert!(circle.drive_until(secs(30), is_answered), "its numbers stay below those of its former run");
    circle.drive(secs(10));
    assert_eq!(circle.tokens_alive(), 1);
}

#[test]
fn a_token_made_after_the_clock_was_set_is_named_by_the_new_time() {
    let mut circle = Circle::of(1);
    circle.members[0].wall_offset_ms = 0;
    circle.restart(0);
    circle.command(0, Command::WallClock { offset_ms: right_clock_ms() });
    circle.command(0, Command::Found);
    let (token, _) = circle.node(0).token().unwrap();
    assert!(token.created_ms >= WALL_START_S * 1000, "{token}");
}

#[test]
fn the_record_of_a_member_whose_clock_was_set_is_newer_than_what_the_others_remember() {
    let mut circle = Circle::running(3);
    let before = circle.entry(2).record.sequence;
    let day_ms = 86_400_000;
    circle.command(2, Command::WallClock { offset_ms: right_clock_ms() + day_ms });
    let after = circle.entry(2).record.sequence;
    assert!(after > before && after >= (WALL_START_S + 86_400) * 1_000_000, "{before} {after}");
    circle.command(2, Command::WallClock { offset_ms: right_clock_ms() - day_ms });
    assert!(circle.entry(2).record.sequence > after, "a clock that is set back takes nothing back");
}

// --- the charter ------------------------------------------------------------------------------------------------

fn amended(circle: &Circle, slot: Duration) -> Charter {
    circle.authority.sign_charter(Charter { version: 2, slot, ..circle.charter.clone() })
}

#[test]
fn an_amended_charter_changes_the_slot_and_the_load_of_running_members() {
    let mut circle = Circle::running(4);
    circle.drive(secs(60));
    assert!(circle.status(0).verdict.load.is_some());
    let charter = amended(&circle, SLOT * 4);
    circle.command(0, Command::Charter { charter });
    assert_eq!(circle.status(0).verdict.load, None, "what was measured belongs to the old charter");
    circle.drive(secs(30));
    let begin = circle.now;
    circle.drive(secs(40));
    let mut slots = 0;
    for (at, member, event) in circle.events_since(begin) {
        if let Event::SlotBegan { until, .. } = event {
            assert_eq!(until.since(at), SLOT * 4, "of member {member}");
            slots += 1;
        }
    }
    assert!((8..=10).contains(&slots), "{slots} slots of 4 s in 40 s");
    assert_eq!((circle.tokens_alive(), circle.regenerations().len()), (1, 0));
}

#[test]
fn an_amended_charter_changes_the_times_of_a_running_handoff() {
    // Who slept for 20 s drops its token where slots last a second, and keeps it where they last half a minute.
    for (slot, drops) in [(SLOT, 1), (secs(30), 0)] {
        let mut circle = Circle::running_with_token_at(4, 2);
        let charter = amended(&circle, slot);
        circle.command(2, Command::Charter { charter });
        circle.command(2, Command::Slept { asleep: secs(20), fresh_secret: [9; 32] });
        circle.drive(millis(100));
        assert_eq!(dropped(&circle, 2), drops, "with slots of {slot:?}");
    }
}

// --- the certificate --------------------------------------------------------------------------------------------

const DAY_S: u64 = 86_400;

/// A circle in which the certificate of member 2 ends in so many days, and member 0 has the authority's key.
fn with_days_left(days: u64) -> Circle {
    let mut circle = Circle::of(4);
    let seed = circle.members[2].seed;
    circle.members[2].certificate =
        circle.issue(2, seed, WALL_START_S - 300 * DAY_S, WALL_START_S + days * DAY_S);
    circle.restart(2);
    circle.introduce_all();
    circle.command(0, Command::Found);
    circle
}

/// Time goes by, and member 0 does what the process of a member with the authority's key does.
fn drive_with_authority(circle: &mut Circle, span: Duration) -> Vec<Packet> {
    let (end, mut sent) = (circle.now + span, Vec::new());
    while circle.now < end {
        let before = circle.members[0].events.len();
        circle.drive(millis(100));
        let news = circle.members[0].events[before..].to_vec();
        for (_, event) in news {
            let Event::Renew { member, nonce, address } = event else { continue };
            let seed = circle.members[2].seed;
            let certificate = circle.issue(2, seed, WALL_START_S, WALL_START_S + 365 * DAY_S);
            sent.extend(circle.command(0, Command::Renewed { to: address, member, nonce, certificate }));
        }
    }
    sent
}

#[test]
fn a_certificate_that_ends_soon_is_renewed_and_all_get_to_know_it() {
    let mut circle = with_days_left(29);
    let sent = drive_with_authority(&mut circle, secs(40));
    let question = circle.last(Kind::Renew);
    assert!(!sent.is_empty() && sent.iter().all(|answer| answer.bytes.len() <= question.bytes.len()), "P10");
    let answers =
        circle.log.iter().filter(|packet| packet.receiver == Some(2) && packet.kind() == Kind::Renewed);
    assert!(answers.clone().all(|packet| packet.sender == 0), "who has no key is silent");
    circle.drive(secs(60));
    let until_s = WALL_START_S + 365 * DAY_S;
    assert_eq!(circle.count_events(2, |event| *event == Event::Renewed { until_s }), 1);
    let certificate = circle.status(2).certificate;
    assert_eq!((certificate.serial, certificate.not_after_s), (3, until_s));
    for member in [0, 1, 3] {
        let known = circle.node(member).directory().get(circle.id(2)).unwrap();
        assert_eq!(known.entry().certificate, certificate, "at member {member}");
    }
    let asked = circle.sent(Kind::Renew).len();
    circle.drive(secs(60));
    assert_eq!(circle.sent(Kind::Renew).len(), asked, "it is content");
    assert!(circle.slots(2) > 20 && circle.tokens_alive() == 1);
}

#[test]
fn a_certificate_that_is_good_for_long_is_not_asked_for() {
    let mut circle = with_days_left(31);
    circle.drive(secs(120));
    assert!(circle.sent(Kind::Renew).is_empty());
}

#[test]
fn a_certificate_of_another_key_an_older_one_and_one_that_nobody_signed_are_not_taken() {
    let mut circle = with_days_left(29);
    let own = circle.status(2).certificate;
    let seed = circle.members[2].seed;
    let mut forged = circle.issue(2, seed, WALL_START_S, WALL_START_S + 365 * DAY_S);
    forged.not_after_s += 1;
    let of_another = circle.issue(2, circle.members[1].seed, WALL_START_S, WALL_START_S + 365 * DAY_S);
    let older = circle.issue(2, seed, WALL_START_S, WALL_START_S + 28 * DAY_S);
    for certificate in [forged, of_another, older] {
        circle.command(2, Command::Certificate { certificate });
        assert_eq!(circle.status(2).certificate, own);
    }
}

#[test]
fn a_renewal_that_nobody_asked_for_and_a_short_question_have_no_effect() {
    let mut circle = with_days_left(29);
    circle.drive(secs(10));
    let own = circle.status(2).certificate;
    let certificate = circle.issue(2, circle.members[2].seed, WALL_START_S, WALL_START_S + 365 * DAY_S);
    let answer = circle.write(0, circle.id(2), Body::Renewed { certificate }, false, 0);
    assert!(circle.inject(2, &answer, circle.address(0)).is_empty());
    assert_eq!(circle.status(2).certificate, own);
    let short = circle.write(2, circle.id(1), Body::Renew, true, 0);
    let asked = |event: &Event| matches!(event, Event::Renew { .. });
    let before = circle.count_events(1, asked);
    circle.inject(1, &short, elsewhere(1));
    assert_eq!(circle.count_events(1, asked), before, "its answer would be longer");
}

// --- cooling ----------------------------------------------------------------------------------------------------

#[test]
fn twenty_hops_take_less_than_a_second_from_a_rest() {
    let mut circle = Circle::running(4);
    let holder = (0..4).find(|member| circle.node(*member).token().is_some()).unwrap();
    circle.command(holder, Command::Cool { span: secs(600), reason: "busy".to_owned() });
    let begin = circle.now;
    let hops = circle.arrivals().len() + 20;
    assert!(circle.drive_until(secs(300), |circle| circle.arrivals().len() >= hops));
    let elapsed = circle.now.since(begin);
    for member in 0..4 {
        let left = circle.status(member).cooling_for;
        let lost = secs(600).saturating_sub(elapsed).saturating_sub(left);
        assert!(lost < secs(1), "{lost:?} are lost at member {member} of {left:?}");
    }
}

// --- pulls that have to end -------------------------------------------------------------------------------------

#[test]
fn a_member_that_hears_of_its_own_ban_stops_pulling_at_once() {
    let mut with_token = Circle::running_with_token_at(4, 2);
    let mut with_ticket = Circle::with_tickets(4, 2);
    with_ticket.command(0, Command::FoundRing { epoch: 1 });
    assert!(with_ticket.drive_until(secs(60), |circle| circle.members[2].pulls.is_some()));
    with_ticket.drive(millis(300));
    for circle in [&mut with_token, &mut with_ticket] {
        assert!(circle.members[2].pulls.is_some());
        let (since, bans) = (circle.now, circle.bans(1, &[2]));
        circle.command(2, Command::Bans { bans });
        let told = circle.events_since(since);
        let is_order = |(_, member, event): &(_, usize, Event)| *member == 2 && *event == Event::StopSlot;
        assert_eq!(told.iter().filter(|event| is_order(event)).count(), 1, "{told:?}");
        circle.drive(secs(60));
        let began = circle.events_since(since);
        let is_slot =
            |(_, member, event): &(_, usize, Event)| *member == 2 && matches!(event, Event::SlotBegan { .. });
        assert!(!began.iter().any(is_slot), "and never pulls again");
        assert_eq!(circle.members[2].pulls, None);
    }
}

#[test]
fn a_slot_that_waited_for_the_end_of_a_pull_does_not_begin_after_its_own_end() {
    let mut circle = Circle::of(3);
    for idle in [0, 1] {
        circle.command(idle, Command::Work(false));
    }
    let mut circle = circle.with_token_at(2);
    circle.drive(secs(10));
    // The pull takes longer to stop than the next slot lasts, which waits for it.
    circle.members[2].stop_after = secs(1000);
    let last_slot = |circle: &Circle| {
        let until = |(_, event): &(Time, Event)| match event {
            Event::Agent(agent::Event::SlotBegan { until, .. }) => Some(*until),
            _ => None,
        };
        circle.members[2].events.iter().rev().find_map(until).unwrap()
    };
    let running_until = last_slot(&circle);
    assert!(circle.drive_until(secs(60), |circle| last_slot(circle) > running_until));
    let (begun, waiting_until) = (circle.slots(2), last_slot(&circle));
    // The process was busy with the end of the pull, and tells the node of it before it tells the time.
    circle.now = waiting_until + millis(1);
    circle.members[2].pulls = None;
    circle.command(2, Command::SlotStopped);
    let is_late =
        |(at, event): &(Time, Event)| matches!(event, Event::SlotBegan { until, .. } if until <= at);
    assert!(!circle.members[2].events.iter().any(is_late), "it is over before it begins");
    assert!(circle.slots(2) <= begun + 1, "the one after it may begin");
}
