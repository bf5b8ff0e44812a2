//! The node against forgers without keys, members without rights and members that cheat. The numbers are those of the
//! threat list.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod common;

use std::collections::BTreeSet;
use std::time::Duration;

use common::datagrams::{GATE, forge};
use common::{Circle, Fate, Packet, WALL_START_S, elsewhere, millis, secs};
use stroll::base::{MemberId, Session, TokenId};
use stroll::node::{Command, Event};
use stroll::proto::agent::{self, Origin};
use stroll::proto::handoff;
use stroll::trust::{PrivateKey, Suite};
use stroll::wire::{Body, Datagram, Header, Kind, pad_to};

/// One datagram of every kind, from member 0 to member 1, as if there were nothing wrong with it.
fn one_of_every_kind(circle: &Circle) -> Vec<(Kind, Vec<u8>)> {
    let written = |body: Body| (body.kind(), circle.write(0, circle.id(1), body, false, 0));
    circle.bodies(0).into_iter().map(written).collect()
}

/// Not let in, not answered, nothing happened (the harness looks), and nobody new is known.
fn assert_silent(circle: &mut Circle, bytes: &[u8], what: &str) {
    let (accepted, members) = (circle.accepted(1), circle.node(1).directory().len());
    let token = circle.node(1).token();
    assert!(circle.inject(1, bytes, elsewhere(1)).is_empty(), "{what}");
    assert_eq!(circle.accepted(1), accepted, "{what}");
    assert_eq!(circle.node(1).directory().len(), members, "{what}");
    assert_eq!(circle.node(1).token(), token, "{what}");
}

/// A moment when member 2 pulls, member 1 is idle, and member 0 says things.
fn quiet_moment() -> Circle {
    Circle::running_with_token_at(4, 2)
}

// --- who is listened to -----------------------------------------------------------------------------------------

#[test]
fn what_is_written_here_would_be_let_in() {
    // Otherwise silence towards the broken ones below would prove nothing.
    let let_in: BTreeSet<Kind> = one_of_every_kind(&quiet_moment())
        .into_iter()
        .filter(|(_, bytes)| {
            let mut circle = quiet_moment();
            let accepted = circle.accepted(1);
            circle.inject(1, bytes, circle.address(0));
            circle.accepted(1) > accepted
        })
        .map(|(kind, _)| kind)
        .collect();
    // The others are parts of something that would have to be under way, and a member does not enrol.
    let expected =
        [Kind::Move, Kind::Scout, Kind::Check, Kind::Leave, Kind::Charter, Kind::Bans, Kind::Renew];
    assert_eq!(let_in, BTreeSet::from(expected));
}

#[test]
fn cut_damaged_and_misdirected_datagrams_are_met_with_silence() {
    let mut circle = quiet_moment();
    for (kind, bytes) in one_of_every_kind(&circle) {
        let name = kind.name();
        for len in [0, 1, 4, 55, 111, 112, 191, 192, bytes.len() - 17, bytes.len() - 1] {
            assert_silent(&mut circle, &bytes[..len.min(bytes.len() - 1)], &format!("{name} cut to {len}"));
        }
        assert_silent(&mut circle, &[&bytes[..], &[0]].concat(), &format!("{name} and a byte more"));
        assert_silent(&mut circle, &[&bytes[..], &[0; 1200]].concat(), &format!("{name}, too long"));
        for place in (0..8).chain((8..bytes.len()).step_by(7)) {
            let mut damaged = bytes.clone();
            damaged[place] ^= 0x10;
            assert_silent(&mut circle, &damaged, &format!("{name} damaged at {place}"));
            // The same by somebody who knows the gate key.
            if place < bytes.len() - 16 {
                let forged = forge(&bytes, |bytes| bytes[place] ^= 0x10);
                circle.drive(millis(60));
                assert_silent(&mut circle, &forged, &format!("{name} forged at {place}"));
            }
        }
        let for_another = forge(&bytes, |bytes| bytes[40..56].copy_from_slice(&[3; 16]));
        assert_silent(&mut circle, &for_another, &format!("{name} for somebody else"));
        let of_another = forge(&bytes, |bytes| bytes[8..24].copy_from_slice(&[3; 16]));
        assert_silent(&mut circle, &of_another, &format!("{name} of another circle"));
        let other = circle.id(3);
        let by_another = forge(&bytes, |bytes| bytes[24..40].copy_from_slice(other.as_bytes()));
        assert_silent(&mut circle, &by_another, &format!("{name} in another's name"));
    }
    for reason in ["too_short", "too_long", "magic", "version", "circle", "receiver", "gate", "signature"] {
        assert!(circle.rejected(1, reason) > 0, "{reason}: {:?}", circle.status(1).rejected);
    }
}

#[test]
fn a_datagram_signed_for_one_receiver_is_nothing_to_another() {
    let mut circle = quiet_moment();
    for body in circle.bodies(0).into_iter().filter(|body| body.kind() != Kind::Enrol) {
        let (kind, bytes) = (body.kind(), circle.write(0, circle.id(3), body, true, 0));
        assert_silent(&mut circle, &bytes, kind.name());
        let me = circle.id(1);
        let readdressed = forge(&bytes, |bytes| bytes[40..56].copy_from_slice(me.as_bytes()));
        assert_silent(&mut circle, &readdressed, kind.name());
    }
}

#[test]
fn who_is_expired_banned_unknown_or_of_another_circle_is_met_with_silence() {
    let mut circle = quiet_moment();
    let (circle_id, me) = (circle.authority.circle(), circle.id(1));
    let key = PrivateKey::from_seed(Suite::Ed25519, [50; 32]);
    let (now_s, day_s) = (WALL_START_S, 86_400);
    let bans = circle.authority.sign_bans(1, vec![7]).unwrap();
    circle.command(1, Command::Bans { bans });
    let issue = |circle: &Circle, serial, from_s, until_s| {
        circle.authority.issue(serial, key.public(), "stranger", from_s, until_s).unwrap()
    };
    let good = issue(&circle, 50, now_s - day_s, now_s + day_s);
    let expired = issue(&circle, 50, now_s - 2 * day_s, now_s - day_s);
    let early = issue(&circle, 50, now_s + day_s, now_s + 2 * day_s);
    let banned = issue(&circle, 7, now_s - day_s, now_s + day_s);
    let other = Circle::by(stroll::wire::records::RuleSet::Guarded, 4, 9, 1);
    let foreign = issue(&other, 50, now_s - day_s, now_s + day_s);
    let mut self_made = good.clone();
    self_made.signature[5] ^= 1;
    for body in circle.bodies(0).into_iter().filter(|body| body.kind() != Kind::Enrol) {
        let name = body.kind().name();
        let strangers = [
            ("without certificate", None),
            ("expired", Some(expired.clone())),
            ("not valid yet", Some(early.clone())),
            ("banned", Some(banned.clone())),
            ("of another authority", Some(foreign.clone())),
            ("self-made", Some(self_made.clone())),
        ];
        for (what, certificate) in strangers {
            let bytes = circle.write_for(circle_id, &key, certificate, me, body.clone(), 0);
            circle.drive(millis(60));
            assert_silent(&mut circle, &bytes, &format!("{name}, {what}"));
        }
        // Whose circle is another, with everything else in order.
        let bytes = circle.write_for(other.authority.circle(), &key, None, me, body.clone(), 0);
        assert_silent(&mut circle, &bytes, name);
    }
    let scout = circle.bodies(0).into_iter().find(|body| body.kind() == Kind::Scout).unwrap();
    let bytes = circle.write_for(circle_id, &key, Some(good), me, scout, 1100);
    assert_eq!(circle.inject(1, &bytes, elsewhere(1)).len(), 1, "with a good certificate it is answered");
    assert!(circle.rejected(1, "certificate") > 10 && circle.rejected(1, "unknown_sender") > 5);
}

#[test]
fn a_certificate_that_ends_is_no_longer_good_until_it_is_renewed() {
    let mut circle = Circle::of(3);
    let seed = circle.members[2].seed;
    circle.members[2].certificate = circle.issue(2, seed, WALL_START_S - 10, WALL_START_S + 30);
    circle.restart(2);
    circle.introduce_all();
    circle.command(0, Command::Found);
    // Ten minutes of tolerance for wrong clocks.
    circle.drive(secs(620));
    assert!(circle.slots(2) > 100);
    circle.drive(secs(60));
    assert_eq!(circle.count_events(2, |event| *event == Event::Expelled), 1, "P27");
    let slots = circle.slots(2);
    circle.drive(secs(20));
    assert_eq!((circle.slots(2), circle.tokens_alive()), (slots, 1));
    circle.members[2].certificate = circle.issue(2, seed, WALL_START_S - 10, WALL_START_S + 86_400);
    circle.restart(2);
    circle.command(2, Command::Greet { address: circle.address(0) });
    circle.drive(secs(40));
    assert!(circle.slots(2) > slots + 5, "renewed");
    assert_eq!(circle.tokens_alive(), 1);
}

#[test]
fn who_does_not_notice_that_its_certificate_has_ended_is_refused_by_all() {
    let mut circle = Circle::of(3);
    let seed = circle.members[2].seed;
    circle.members[2].certificate = circle.issue(2, seed, WALL_START_S - 1000, WALL_START_S + 30);
    // Its clock is nine minutes behind, so it goes on for longer than the others listen.
    circle.members[2].wall_offset_ms -= 540_000;
    circle.restart(2);
    circle.introduce_all();
    circle.command(0, Command::Found);
    circle.drive(secs(640));
    let slots = circle.slots(2);
    assert!(slots > 100);
    let (begin, all) = (circle.now, circle.all_slots());
    circle.drive(secs(60));
    assert!(circle.all_slots() > all + 40, "P27: the token is not lost with it");
    let is_answer = |packet: &Packet| packet.receiver == Some(2) && packet.kind() != Kind::Move;
    let answers = circle.sent_since(begin);
    let answers = answers.iter().filter(|packet| is_answer(packet) && packet.kind() != Kind::Scout);
    assert_eq!(answers.count(), 0);
    assert!(circle.slots(2) <= slots + 1);
    assert_eq!(circle.count_events(2, |event| *event == Event::Expelled), 0);
}

#[test]
fn a_renewed_certificate_is_found_in_the_directory() {
    // The old one was met first, and used to be the only one that was looked at.
    let mut circle = Circle::of_strangers(2);
    let (me, news) = (circle.id(1), Body::Bans(circle.bans(1, &[])));
    // Within the tolerance for wrong clocks for another 100 s.
    let old = circle.issue(0, circle.members[0].seed, WALL_START_S - 1000, WALL_START_S - 500);
    let circle_id = circle.authority.circle();
    let with_old = circle.write_for(circle_id, &circle.key(0), Some(old), me, news.clone(), 0);
    let without = circle.write_for(circle_id, &circle.key(0), None, me, news, 0);
    circle.inject(1, &with_old, circle.address(0));
    circle.introduce(1, 0);
    assert_eq!(circle.accepted(1), 1);
    circle.crash(0);
    circle.drive(secs(150));
    let accepted = circle.accepted(1);
    circle.inject(1, &without, circle.address(0));
    assert_eq!(circle.accepted(1), accepted + 1, "{:?}", circle.status(1).rejected);
}

#[test]
fn a_banned_holder_is_refused_at_once_and_custody_brings_a_token_back() {
    // It does not hear of its ban, and goes on as if nothing had happened.
    let mut circle = Circle::running_with_token_at(4, 3);
    circle.set_network(|packet| {
        if packet.kind() == Kind::Bans && packet.receiver == Some(3) { Fate::Drop } else { Fate::Deliver }
    });
    let begin = circle.now;
    for member in 0..3 {
        let bans = circle.bans(1, &[3]);
        circle.command(member, Command::Bans { bans });
    }
    circle.drive(secs(5));
    let answers = circle.sent_since(begin);
    let is_answer = |packet: &&Packet| packet.receiver == Some(3) && packet.kind() != Kind::Bans;
    assert_eq!(answers.iter().find(is_answer).map(Packet::kind), None, "P28");
    assert!(answers.iter().any(|packet| packet.sender == 3 && packet.kind() == Kind::Move));
    assert!(matches!(circle.regenerations()[..], [(_, 0..=2, Origin::CustodyUnanswered)]));
    circle.drive(secs(20));
    let served = |member| {
        let is_slot =
            |(_, at, event): &(_, usize, Event)| *at == member && matches!(event, Event::SlotBegan { .. });
        circle.events_since(begin + secs(5)).iter().filter(|event| is_slot(event)).count()
    };
    assert!((0..3).all(|member| served(member) > 3));
}

#[test]
fn two_processes_with_one_key_never_hold_one_token() {
    let mut circle = Circle::running(4);
    let twin = circle.add_clone_of(1);
    circle.introduce_to_all(twin);
    circle.command(twin, Command::Greet { address: circle.address(0) });
    circle.command(twin, Command::Greet { address: circle.address(2) });
    circle.drive(secs(60));
    // Both hear their own voice when they talk to each other.
    let bytes = circle.write(1, circle.id(2), Body::Move, true, 1100);
    let me = circle.id(1);
    let echo = forge(&bytes, |bytes| bytes[40..56].copy_from_slice(me.as_bytes()));
    assert_silent(&mut circle, &echo, "P29");
    assert_eq!(circle.rejected(1, "own_echo"), 1);
    assert!((0..4).filter(|member| *member != 1).all(|member| circle.slots(member) > 8));
}

// --- floods -----------------------------------------------------------------------------------------------------

/// Slots in the next seconds while something is injected every few milliseconds.
fn slots_under(
    circle: &mut Circle,
    span: Duration,
    every: Duration,
    mut attack: impl FnMut(&mut Circle, u64),
) -> usize {
    let (begin, slots) = (circle.now, circle.all_slots());
    let mut number = 0;
    while circle.now.since(begin) < span {
        attack(circle, number);
        number += 1;
        circle.drive(every);
    }
    circle.all_slots() - slots
}

#[test]
fn a_flood_of_junk_costs_no_signature_and_no_slot() {
    let mut circle = Circle::running(4);
    let sample = circle.last(Kind::Move).bytes;
    let checked = |circle: &Circle| -> u64 {
        (0..4).map(|member| circle.rejected(member, "signature") + circle.rejected(member, "too_many")).sum()
    };
    let before = checked(&circle);
    let slots = slots_under(&mut circle, secs(10), millis(10), |circle, number| {
        for member in 0..4 {
            let mut junk = sample.clone();
            let me = circle.id(member);
            junk[24..40].copy_from_slice(&[9; 16]);
            junk[40..56].copy_from_slice(me.as_bytes());
            junk[100..108].copy_from_slice(&number.to_be_bytes());
            let port = u16::try_from(number % 60_000).unwrap();
            for copy in 0..10 {
                junk[110] = copy;
                assert!(circle.inject(member, &junk, elsewhere(port)).is_empty());
            }
        }
    });
    assert!(slots >= 9, "P11: {slots}");
    assert_eq!(checked(&circle), before, "the gate keeps them out");
    assert!((0..4).all(|member| circle.rejected(member, "gate") >= 9_000));
}

/// A Move with another token, so that it is new to everybody, in the name of member 0 and with a wrong signature.
fn forged_move(circle: &Circle, to: usize) -> Vec<u8> {
    let bytes = circle.write(0, circle.id(to), Body::Move, false, 400);
    forge(&bytes, |bytes| *bytes.last_mut().unwrap() ^= 1)
}

#[test]
fn a_flood_of_forged_moves_is_bounded_by_its_source_and_the_token_goes_on() {
    let mut circle = Circle::running(4);
    let samples: Vec<Vec<u8>> = (1..4).map(|member| forged_move(&circle, member)).collect();
    let members = circle.node(1).directory().len();
    let slots = slots_under(&mut circle, secs(10), millis(20), |circle, number| {
        for (member, sample) in (1..).zip(&samples) {
            for copy in 0..20_u64 {
                let random = number * 100 + copy;
                let bytes = forge(sample, |bytes| bytes[80..88].copy_from_slice(&random.to_be_bytes()));
                assert!(circle.inject(member, &bytes, elsewhere(1)).is_empty());
            }
        }
    });
    assert!(slots >= 9, "P12: {slots}");
    for member in 1..4 {
        let checked = circle.rejected(member, "signature");
        assert!(checked <= 20 * 10 + 40, "20 a second and a burst of 40: {checked}");
        assert!(circle.rejected(member, "too_many") > 9_000);
        assert_eq!(circle.node(member).directory().len(), members);
    }
}

/// The budget that all sources share was used up, and the questions of members with it: return times grew by a third.
#[test]
fn a_flood_of_forged_moves_from_everywhere_keeps_no_member_out() {
    let mut circle = quiet_moment();
    let sample = forged_move(&circle, 1);
    for random in 0..3000_u64 {
        let bytes = forge(&sample, |bytes| bytes[80..88].copy_from_slice(&random.to_be_bytes()));
        assert!(circle.inject(1, &bytes, elsewhere(u16::try_from(random).unwrap())).is_empty());
    }
    assert!(circle.rejected(1, "too_many") > 2_000);
    let (_, scout) = one_of_every_kind(&circle).into_iter().find(|(kind, _)| *kind == Kind::Scout).unwrap();
    assert!(circle.inject(1, &scout, elsewhere(1)).is_empty(), "there is nothing left for strangers");
    let home = circle.address(0);
    assert_eq!(circle.inject(1, &scout, home).len(), 1, "P12: a member at home is answered");
}

#[test]
fn a_flood_of_forged_reports_does_not_use_up_what_is_set_aside_for_answers() {
    // Their sender is one that was asked, but their echo is a guess. Their signatures were checked all the same, at the
    // expense of Acks and Commits.
    let mut circle = Circle::running(4);
    let reports: Vec<Vec<u8>> = (0..4)
        .map(|to| {
            let from = (to + 1) % 4;
            let body = circle.bodies(from).into_iter().find(|body| body.kind() == Kind::Report).unwrap();
            let bytes = circle.write(from, circle.id(to), body, false, 0);
            forge(&bytes, |bytes| *bytes.last_mut().unwrap() ^= 1)
        })
        .collect();
    let slots = slots_under(&mut circle, secs(10), millis(2), |circle, _| {
        for (member, bytes) in reports.iter().enumerate() {
            for _ in 0..5 {
                assert!(circle.inject(member, bytes, elsewhere(1)).is_empty());
            }
        }
    });
    assert!(slots >= 9, "{slots}");
    for member in 0..4 {
        assert_eq!((circle.rejected(member, "signature"), circle.rejected(member, "too_many")), (0, 0));
    }
}

#[test]
fn a_flood_of_certificates_is_bounded_and_known_members_are_still_heard() {
    let mut circle = Circle::running(4);
    let me = circle.id(1);
    let scout = circle.bodies(0).into_iter().find(|body| body.kind() == Kind::Scout).unwrap();
    // Whoever is no member makes certificates itself, with as many keys as it likes.
    let strangers: Vec<Vec<u8>> = (0..20_u8)
        .map(|number| {
            let key = PrivateKey::from_seed(Suite::Ed25519, [number; 32]);
            let mut certificate = circle
                .authority
                .issue(900, key.public(), "x", WALL_START_S - 9, WALL_START_S + 90_000)
                .unwrap();
            certificate.signature[3] ^= 1;
            circle.write_for(circle.authority.circle(), &key, Some(certificate), me, scout.clone(), 0)
        })
        .collect();
    let members = circle.node(1).directory().len();
    let slots = slots_under(&mut circle, secs(10), millis(20), |circle, number| {
        for (copy, bytes) in strangers.iter().enumerate() {
            let port = u16::try_from((number * 20 + copy as u64) % 50_000).unwrap();
            assert!(circle.inject(1, bytes, elsewhere(port)).is_empty());
        }
    });
    assert!(slots >= 9, "P13: {slots}");
    let checked = circle.rejected(1, "certificate");
    assert!(checked <= 50 * 11 + 200, "50 a second and a burst of 200: {checked}");
    assert!(circle.rejected(1, "too_many") > 5_000);
    assert_eq!(circle.node(1).directory().len(), members);
}

// --- members that cheat -----------------------------------------------------------------------------------------

/// A Move by member 0 to member 1 with this token and session.
fn crafted_move(circle: &Circle, token: TokenId, session: Session) -> Vec<u8> {
    let header = Header {
        token,
        session,
        ..Header::bare(Kind::Move, circle.authority.circle(), circle.id(0), circle.id(1))
    };
    let datagram = pad_to(Datagram { header, body: Body::Move, certificate: None, padding: 0 }, 1100);
    datagram.encode(&GATE, |bytes| circle.key(0).sign(bytes)).unwrap()
}

#[test]
fn a_session_that_cannot_be_is_not_answered() {
    let mut circle = quiet_moment();
    let (token, session) = circle.token();
    for session in [u64::MAX, u64::MAX - 1, 1 << 40] {
        let bytes = crafted_move(&circle, token, Session(session));
        assert_silent(&mut circle, &bytes, "P15");
    }
    let bytes = crafted_move(&circle, token, Session(session.0 + 100_000));
    assert_eq!(circle.inject(1, &bytes, circle.address(0)).len(), 1, "a possible one is");
}

#[test]
fn a_token_from_the_future_is_answered_like_any_other() {
    let mut circle = quiet_moment();
    let (token, _) = circle.token();
    for hours in [1, 24, 100_000] {
        let token = TokenId { created_ms: (WALL_START_S + 3600 * hours) * 1000, ..token };
        let bytes = crafted_move(&circle, token, Session(1));
        assert_eq!(circle.inject(1, &bytes, circle.address(0)).len(), 1, "P17");
    }
}

#[test]
fn a_move_for_a_token_that_is_here_is_noticed_and_not_answered() {
    let mut circle = Circle::running_with_token_at(4, 1);
    let (token, session) = circle.token();
    let bytes = crafted_move(&circle, token, Session(session.0 + 3));
    assert!(circle.inject(1, &bytes, circle.address(0)).is_empty());
    let is_conflict =
        |event: &Event| matches!(event, Event::Handoff(handoff::Event::AuthorityConflict { .. }));
    assert_eq!(circle.count_events(1, is_conflict), 1);
    assert_eq!(circle.holder(), Some(1));
}

#[test]
fn a_younger_token_that_comes_while_the_pull_stops_does_not_hold_the_elder_up() {
    // Its removal took the place of the handoff that waited for the pull to end, which then waited for ever.
    let mut circle = Circle::running_with_token_at(4, 1);
    circle.members[1].stop_after = secs(3);
    let begin = circle.now;
    let acknowledged = |circle: &Circle| {
        circle.sent_since(begin).iter().any(|packet| packet.kind() == Kind::Ack && packet.receiver == Some(1))
    };
    assert!(circle.drive_until(secs(3), acknowledged));
    circle.drive(millis(100));
    assert_eq!(circle.holder(), Some(1), "its pull is still stopping");
    let (token, _) = circle.token();
    let younger = TokenId { created_ms: token.created_ms + 1000, ..token };
    let offer = crafted_move(&circle, younger, Session(1));
    let [ack] = &circle.inject(1, &offer, circle.address(0))[..] else { panic!("tokens may meet") };
    let header = Header {
        kind: Kind::Commit,
        nonce: ack.header.nonce,
        sender: circle.id(0),
        receiver: circle.id(1),
        ..ack.header
    };
    let body = Body::Commit { age: Duration::ZERO, cool: Duration::ZERO, entries: Vec::new() };
    let commit = Datagram { header, body, certificate: None, padding: 0 };
    let commit = commit.encode(&GATE, |bytes| circle.key(0).sign(bytes)).unwrap();
    circle.inject(1, &commit, circle.address(0));
    let is_met = |event: &Event| matches!(event, Event::Agent(agent::Event::Discarded { token, .. }) if *token == younger);
    assert_eq!(circle.count_events(1, is_met), 1);
    circle.members[1].stop_after = Duration::ZERO;
    circle.drive(secs(4));
    assert_ne!(circle.status(1).token.map(|(token, _)| token), Some(younger));
    circle.drive(secs(10));
    let arrivals =
        circle.arrivals().into_iter().filter(|(at, _, which, _)| *which == token && *at > begin + secs(2));
    assert!(arrivals.count() > 5, "the elder goes on");
}

#[test]
fn nobody_can_be_asked_to_be_anyone() {
    let mut circle = quiet_moment();
    let anyone = stroll::wire::ANYONE;
    assert_eq!(anyone, MemberId::from_bytes([0; 16]));
    for body in circle.bodies(0) {
        let kind = body.kind();
        if kind.may_be_to_anyone() {
            continue;
        }
        let bytes = circle.write(0, anyone, body, true, 0);
        assert_silent(&mut circle, &bytes, kind.name());
    }
    assert_eq!(circle.rejected(1, "receiver"), 16);
}
