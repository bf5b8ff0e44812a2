//! The node against whoever recorded what was said before, and says it again, perhaps from elsewhere. The numbers are
//! those of the threat list.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod common;

use std::collections::BTreeSet;
use std::time::Duration;

use common::datagrams::{GATE, forge};
use common::{Circle, DELAY, Fate, Packet, SLOT, elsewhere, millis, secs};
use stroll::base::{CircleId, TokenId};
use stroll::node::{Command, Event};
use stroll::proto::agent;
use stroll::proto::handoff;
use stroll::trust::sign_address;
use stroll::wire::records::{Charter, Entry};
use stroll::wire::{Body, DATAGRAM_LIMIT, Datagram, Header, Kind};

/// A moment when member 2 pulls, and the others are idle.
fn quiet_moment() -> Circle {
    Circle::running_with_token_at(4, 2)
}

/// Until such a datagram is sent; the datagram, which the network holds back if told so.
fn drive_to(circle: &mut Circle, kind: Kind) -> Packet {
    let begin = circle.log.len();
    let sent = |circle: &Circle| circle.log[begin..].iter().find(|packet| packet.kind() == kind).cloned();
    assert!(circle.drive_until(secs(60), |circle| sent(circle).is_some()), "a {}", kind.name());
    sent(circle).unwrap()
}

// --- replays ----------------------------------------------------------------------------------------------------

#[test]
fn a_move_that_comes_again_gets_the_same_ack_and_an_old_one_none() {
    let mut circle = Circle::running(4);
    circle.set_network(|packet| if packet.kind() == Kind::Ack { Fate::Hold } else { Fate::Deliver });
    let ack = drive_to(&mut circle, Kind::Ack);
    let taker = ack.sender;
    let shown = |packet: &&Packet| packet.kind() == Kind::Move && packet.receiver == Some(taker);
    let offer = circle.log.iter().rfind(shown).unwrap().clone();
    let again = circle.inject(taker, &offer.bytes, elsewhere(8));
    assert_eq!(again.len(), 1, "P4");
    assert_eq!((again[0].header.nonce, again[0].to), (ack.header.nonce, elsewhere(8)));
    assert!(again[0].bytes.len() <= offer.bytes.len(), "P10");
    circle.heal();
    circle.release_held();
    circle.drive(secs(12));
    assert!(
        circle.inject(taker, &offer.bytes, elsewhere(8)).is_empty(),
        "it was accepted, or passed on since"
    );
    assert_eq!(circle.tokens_alive(), 1);
}

#[test]
fn the_ack_of_a_restarted_taker_is_ignored() {
    let mut circle = Circle::running(4);
    circle.set_network(|packet| if packet.kind() == Kind::Commit { Fate::Hold } else { Fate::Deliver });
    let commit = drive_to(&mut circle, Kind::Commit);
    let (giver, taker) = (commit.sender, commit.receiver.unwrap());
    let offer = circle.log.iter().rfind(|packet| packet.is(Kind::Move, giver, taker)).unwrap().clone();
    circle.restart(taker);
    let [ack] = &circle.inject(taker, &offer.bytes, offer.from)[..] else { panic!("an Ack") };
    let ack = ack.clone();
    assert_ne!(ack.header.nonce, commit.header.nonce, "P4: a new nonce, by a new secret");
    let rejected = circle.rejected(giver, "irrelevant");
    assert!(circle.inject(giver, &ack.bytes, ack.from).is_empty());
    assert_eq!(circle.rejected(giver, "irrelevant"), rejected + 1, "K2: before any signature");
    // And the Commit of before is of another boot.
    assert!(circle.inject(taker, &commit.bytes, commit.from).is_empty());
    assert!(circle.node(taker).token().is_none());
}

#[test]
fn everything_recorded_and_played_again_to_restarted_members_brings_no_token_back() {
    let mut circle = Circle::running(4);
    circle.drive(secs(10));
    let recording = circle.log.clone();
    for member in 0..4 {
        circle.restart(member);
    }
    let arrivals = circle.arrivals().len();
    for packet in &recording {
        circle.inject(packet.receiver.unwrap(), &packet.bytes, packet.from);
        circle.drive(millis(5));
    }
    assert_eq!(circle.arrivals().len(), arrivals, "P5: every Commit is of an earlier boot");
    assert_eq!(circle.tokens_alive(), circle.regenerations().len().min(1));
}

#[test]
fn everything_recorded_and_played_again_to_running_members_changes_nothing() {
    let mut circle = Circle::running(4);
    let recording = circle.log.clone();
    circle.drive(secs(5));
    let begin = circle.now;
    let slots = circle.all_slots();
    for packet in recording.iter().filter(|packet| packet.kind() != Kind::Scout) {
        circle.inject(packet.receiver.unwrap(), &packet.bytes, elsewhere(3));
        circle.drive(millis(40));
    }
    assert!(circle.regenerations().is_empty());
    assert_eq!(circle.tokens_alive(), 1);
    let took = circle.now.since(begin).as_secs_f64();
    let served = (circle.all_slots() - slots) as f64;
    assert!(served > took * 0.85, "P9: {served} slots in {took} s");
    for member in 0..4 {
        assert!(
            circle
                .node(member)
                .directory()
                .iter()
                .all(|(_, known)| known.entry().record.address != elsewhere(3))
        );
    }
}

#[test]
fn a_commit_that_comes_again_after_the_token_went_on_is_refused_and_stopped_once_a_second() {
    let mut circle = Circle::running(4);
    let commit = drive_to(&mut circle, Kind::Commit);
    let taker = commit.receiver.unwrap();
    circle.drive(millis(2500));
    assert_ne!(circle.holder(), Some(taker), "it went on");
    let mut stops = 0;
    let begin = circle.now;
    while circle.now.since(begin) < millis(2900) {
        for answer in circle.inject(taker, &commit.bytes, elsewhere(4)) {
            assert_eq!((answer.kind(), answer.to), (Kind::EarlyStop, elsewhere(4)));
            assert!(answer.bytes.len() <= commit.bytes.len());
            stops += 1;
        }
        assert!(circle.node(taker).token().is_none_or(|(_, session)| session > commit.header.session), "P6");
        circle.drive(millis(50));
    }
    assert_eq!(stops, 3);
}

#[test]
fn a_late_ack_of_an_abandoned_offer_is_dropped_before_its_signature() {
    let mut circle = Circle::running_with_token_at(4, 0);
    circle.set_network(|packet| if packet.kind() == Kind::Ack { Fate::Hold } else { Fate::Deliver });
    let unreachable = |circle: &Circle| {
        circle.count_events(0, |event| matches!(event, Event::Handoff(handoff::Event::Unreachable { .. })))
    };
    assert!(circle.drive_until(secs(10), |circle| unreachable(circle) == 1));
    let ack = circle.held[0].clone();
    circle.heal();
    circle.held.clear();
    let rejected = circle.rejected(0, "irrelevant");
    assert!(circle.inject(0, &ack.bytes, ack.from).is_empty(), "P7");
    assert_eq!(circle.rejected(0, "irrelevant"), rejected + 1);
    circle.drive(secs(10));
    assert_eq!((circle.tokens_alive(), circle.regenerations().len()), (1, 0));
}

#[test]
fn a_forged_or_foreign_early_stop_does_not_end_the_commits() {
    let mut circle = Circle::running(4);
    let old_stop = circle.last(Kind::EarlyStop);
    circle.set_network(|packet| match packet.kind() {
        Kind::Commit | Kind::EarlyStop => Fate::Drop,
        _ => Fate::Deliver,
    });
    let commit = drive_to(&mut circle, Kind::Commit);
    let (giver, taker) = (commit.sender, commit.receiver.unwrap());
    let mut header = Header {
        kind: Kind::EarlyStop,
        sender: circle.id(taker),
        receiver: circle.id(giver),
        ..commit.header
    };
    let write = |circle: &Circle, header: Header, by: usize| {
        let datagram = Datagram { header, body: Body::EarlyStop, certificate: None, padding: 0 };
        datagram.encode(&GATE, |bytes| circle.key(by).sign(bytes)).unwrap()
    };
    let forged = write(&circle, header, (taker + 1) % 4);
    circle.inject(giver, &forged, commit.to);
    circle.inject(giver, &old_stop.bytes, old_stop.from);
    let nonce = header.nonce;
    header.nonce = stroll::base::Nonce::from_bytes([1; 16]);
    let other_nonce = write(&circle, header, taker);
    circle.inject(giver, &other_nonce, commit.to);
    let begin = circle.now;
    circle.drive(millis(1500));
    let repeats = |circle: &Circle, since| {
        circle.sent_since(since).iter().filter(|packet| packet.header == commit.header).count()
    };
    assert!(repeats(&circle, begin) >= 3, "P8");
    header.nonce = nonce;
    let right = write(&circle, header, taker);
    circle.inject(giver, &right, commit.to);
    let begin = circle.now;
    circle.drive(secs(5));
    assert_eq!(repeats(&circle, begin + millis(1)), 0, "the right one does");
}

#[test]
fn replayed_moves_do_not_keep_the_regeneration_back() {
    let run = |is_replayed: bool| {
        let mut circle = Circle::of(4).with_token_at(0);
        let offer = drive_to(&mut circle, Kind::Move);
        // The founder has no custodian: only long silence brings a token back.
        circle.crash(0);
        let taker = offer.receiver.unwrap();
        while circle.regenerations().is_empty() {
            assert!(circle.now.as_secs_f64() < 900.0, "P37");
            circle.drive(millis(500));
            if is_replayed {
                circle.inject(taker, &offer.bytes, offer.from);
            }
        }
        circle.regenerations()[0].0
    };
    assert_eq!(run(true), run(false));
}

/// Whether it is a Scout that tells of tokens, as the holder's do. Those that ask for a proof are shorter, and tell nothing.
fn is_of_holder(packet: &Packet, member: usize) -> bool {
    packet.kind() == Kind::Scout && packet.sender == member && packet.bytes.len() > 1000
}

#[test]
fn replayed_scouts_do_not_kill_the_token_that_replaced_a_lost_one() {
    // A Scout says "this token was here just now", and nothing in it says when. Played again after the token died, it
    // would prove every younger token spurious, if a session that is known already counted as news.
    let mut circle = Circle::running_with_token_at(4, 2);
    let scouts: Vec<Packet> =
        circle.log.iter().rev().filter(|packet| is_of_holder(packet, 2)).take(3).cloned().collect();
    circle.crash(2);
    let begin = circle.now;
    for _ in 0..120 {
        circle.drive(millis(500));
        for packet in scouts.iter().filter(|packet| packet.receiver != Some(2)) {
            circle.inject(packet.receiver.unwrap(), &packet.bytes, packet.from);
        }
    }
    let is_removed = |(_, _, event): &(_, usize, Event)| {
        matches!(event, Event::Agent(agent::Event::Discarded { because: agent::Spurious::ElderSeen, .. }))
    };
    let removed = circle.events_since(begin).into_iter().filter(is_removed).count();
    assert_eq!((removed, circle.tokens_alive()), (0, 1));
}

/// The holder crashes, and comes back when another token is there. It is neither 0 nor 2.
fn replace_token(circle: &mut Circle) {
    let is_theirs = |circle: &Circle| matches!(circle.holder(), Some(1 | 3));
    assert!(circle.drive_until(secs(60), is_theirs));
    let (holder, made) = (circle.holder().unwrap(), circle.regenerations().len());
    circle.crash(holder);
    assert!(circle.drive_until(secs(60), |circle| circle.regenerations().len() > made));
    circle.restart(holder);
    // Older than the margin that sightings are given.
    circle.drive(secs(10));
}

/// How long ago a member believes that a token was seen.
fn believed_age(circle: &Circle, member: usize, token: TokenId) -> Option<Duration> {
    let hearsay = circle.node(member).hearsay(circle.now);
    hearsay.iter().flatten().find(|sighting| sighting.token == token).map(|sighting| sighting.age)
}

/// For the next half a minute nobody takes the token that is there for spurious.
fn assert_token_stays(circle: &mut Circle) {
    let (begin, made) = (circle.now, circle.regenerations().len());
    circle.drive(secs(30));
    let is_removed =
        |(_, _, event): &(_, usize, Event)| matches!(event, Event::Agent(agent::Event::Discarded { .. }));
    let removed = circle.events_since(begin).into_iter().filter(is_removed).count();
    assert_eq!((removed, circle.tokens_alive(), circle.regenerations().len()), (0, 1, made));
}

#[test]
fn a_recorded_scout_of_a_crashed_holder_that_never_came_proves_nothing() {
    // Its number is above all that the holder was heard to say, so it passed for new, put off the last resort, and named a
    // dead token as one that was just seen.
    let mut circle = Circle::running(4);
    circle.set_network(|packet| if is_of_holder(packet, 2) { Fate::Hold } else { Fate::Deliver });
    circle.drive_to_slot_of(2);
    let token = circle.node(2).token().unwrap().0;
    let scouts: Vec<Packet> = circle.held.drain(..).collect();
    circle.crash(2);
    circle.drive(SLOT + millis(500));
    for packet in scouts.iter().rev().take(3) {
        let receiver = packet.receiver.unwrap();
        let age = believed_age(&circle, receiver, token);
        let answers = circle.inject(receiver, &packet.bytes, packet.from);
        let proofs = |packet: &&Packet| packet.kind() == Kind::Scout;
        let asked = answers.iter().find(proofs).expect("it is asked for a proof");
        assert_eq!(asked.to, circle.address(2), "where it signed that it is");
        assert_eq!(believed_age(&circle, receiver, token), age, "P47");
    }
}

#[test]
fn what_was_told_of_a_token_before_a_restart_is_not_believed_after_it() {
    // The last numbers are forgotten with the restart, so the Scout passed for a new one. "The token is here", said a
    // minute ago of one that has died since, made the member discard the one that had replaced it, and all others after it.
    let mut circle = Circle::running_with_token_at(4, 2);
    let token = circle.node(2).token().unwrap().0;
    let scout = circle.log.iter().rfind(|packet| packet.is(Kind::Scout, 2, 0)).unwrap().clone();
    replace_token(&mut circle);
    circle.restart(0);
    circle.inject(0, &scout.bytes, scout.from);
    assert!(believed_age(&circle, 0, token).is_none_or(|age| age > secs(10)));
    assert_token_stays(&mut circle);
}

#[test]
fn what_a_scout_tells_that_comes_much_too_late_is_not_believed() {
    // Members remember the two tokens seen last, so a third one is unheard of. A Scout that was overtaken by a few others may
    // be answered; but it told of a token that had died long before as if it were there.
    let mut circle = Circle::running(4);
    let is_meant = |packet: &Packet| is_of_holder(packet, 2) && packet.receiver == Some(0);
    circle.set_network(move |packet| if is_meant(packet) { Fate::Hold } else { Fate::Deliver });
    circle.drive_to_slot_of(2);
    circle.heal();
    let (scout, token) = (circle.held.pop().unwrap(), circle.node(2).token().unwrap().0);
    replace_token(&mut circle);
    replace_token(&mut circle);
    assert_eq!(believed_age(&circle, 0, token), None, "two others came since");
    let answers = circle.inject(0, &scout.bytes, scout.from);
    assert!(
        answers.iter().all(|packet| packet.kind() == Kind::Report),
        "nor is a proof asked for: {answers:?}"
    );
    assert_eq!(believed_age(&circle, 0, token), None);
    assert_token_stays(&mut circle);
}

#[test]
fn what_waited_in_the_socket_while_a_member_slept_is_not_believed() {
    let mut circle = Circle::running_with_token_at(4, 2);
    let token = circle.node(2).token().unwrap().0;
    circle.set_network(|packet| if packet.receiver == Some(0) { Fate::Hold } else { Fate::Deliver });
    let begin = circle.now;
    replace_token(&mut circle);
    circle.heal();
    circle.command(0, Command::Slept { asleep: circle.now.since(begin), fresh_secret: [77; 32] });
    circle.release_held();
    circle.drive(secs(1));
    assert!(believed_age(&circle, 0, token).is_none_or(|age| age > secs(10)));
    assert_token_stays(&mut circle);
}

#[test]
fn a_replayed_goodbye_does_not_make_the_circle_forget_a_member_that_came_back() {
    let mut circle = quiet_moment();
    circle.command(1, Command::Leave);
    let goodbyes = circle.sent(Kind::Leave);
    assert_eq!(goodbyes.len(), 3);
    circle.drive(secs(5));
    circle.restart(1);
    circle.command(1, Command::Greet { address: circle.address(0) });
    circle.drive(secs(20));
    assert!([0, 2, 3].iter().all(|member| circle.knows(*member, 1)));
    for packet in goodbyes {
        circle.inject(packet.receiver.unwrap(), &packet.bytes, packet.from);
    }
    circle.drive(secs(20));
    assert!([0, 2, 3].iter().all(|member| circle.knows(*member, 1)));
}

/// Everything in which a recording could leave a trace.
fn traces(circle: &Circle, member: usize) -> String {
    let status = circle.status(member);
    let others: Vec<_> = status
        .members
        .iter()
        .map(|other| (other.member, other.address, other.is_suspected, other.heard_ago.is_some()))
        .collect();
    let versions = (status.charter_version, status.bans_version);
    format!("{:?} {versions:?} {others:?}", status.token)
}

/// One datagram of every kind that a circle says, delivered once, from or about member 1.
fn recordings() -> (Circle, Vec<Packet>) {
    let mut circle = Circle::running(4);
    let mut found: Vec<Packet> = Vec::new();
    // Releases get lost for a while, so that there are checks; the answers are "passed" and, in a long slot, "holding".
    let charter = circle.authority.sign_charter(Charter { version: 2, ..circle.charter.clone() });
    circle.command(0, Command::Charter { charter });
    let bans = circle.bans(1, &[90]);
    circle.command(0, Command::Bans { bans });
    circle.set_network(|packet| match packet.kind() {
        Kind::Release | Kind::Scout | Kind::Report if packet.number % 3 > 0 => Fate::Drop,
        _ => Fate::Deliver,
    });
    for stop_after in [millis(5), millis(1500)] {
        for member in 0..4 {
            circle.members[member].stop_after = stop_after;
        }
        circle.drive(secs(120));
    }
    circle.heal();
    circle.drive(secs(20));
    for packet in circle.log.iter().rev() {
        let is_new = |other: &Packet| (other.kind(), other.receiver) != (packet.kind(), packet.receiver);
        if packet.receiver.is_some() && found.iter().all(is_new) {
            found.push(packet.clone());
        }
    }
    (circle, found)
}

#[test]
fn whatever_is_recorded_and_said_again_later_gets_no_answer_and_changes_nothing() {
    let (mut circle, recorded) = recordings();
    let kinds: BTreeSet<Kind> = recorded.iter().map(Packet::kind).collect();
    for kind in Kind::ALL {
        let is_unsaid = matches!(
            kind,
            Kind::Leave | Kind::Enrol | Kind::Enrolled | Kind::Renew | Kind::Renewed | Kind::Ticket
        );
        assert_eq!(kinds.contains(&kind), !is_unsaid, "{}", kind.name());
    }
    // Long enough that no Commit is repeated and no nonce believed any more.
    circle.drive(secs(120));
    for packet in recorded {
        let receiver = packet.receiver.unwrap();
        let before = traces(&circle, receiver);
        let sent = circle.inject(receiver, &packet.bytes, elsewhere(5));
        let kind = packet.kind().name();
        assert!(sent.is_empty(), "an old {kind} is answered: {sent:?}");
        assert_eq!(traces(&circle, receiver), before, "an old {kind}");
    }
}

#[test]
fn a_dead_member_does_not_look_alive_because_of_what_was_recorded_of_it() {
    let (mut circle, recorded) = recordings();
    let recorded: Vec<Packet> = recorded.into_iter().filter(|packet| packet.sender == 1).collect();
    let more: Vec<Packet> =
        circle.log.iter().rev().filter(|packet| packet.sender == 1).take(60).cloned().collect();
    circle.crash(1);
    // Held back at the crash, so that nobody has heard the last ones either.
    let id = circle.id(1);
    let is_suspected = |circle: &Circle, member: usize| {
        circle.node(member).directory().get(id).is_none_or(stroll::proto::directory::Known::is_suspected)
    };
    assert!(
        circle.drive_until(secs(300), |circle| [0, 2, 3].iter().all(|member| is_suspected(circle, *member)))
    );
    for packet in recorded.iter().chain(&more) {
        let Some(receiver) = packet.receiver.filter(|receiver| *receiver != 1) else { continue };
        circle.inject(receiver, &packet.bytes, packet.from);
        assert!(is_suspected(&circle, receiver), "an old {} brings it back", packet.kind().name());
    }
}

#[test]
fn a_question_that_was_kept_from_its_receiver_makes_nobody_look_alive() {
    // It is new to the receiver, so it is answered; but that it was asked just now, nothing shows.
    let mut circle = Circle::running_with_token_at(4, 1);
    circle.set_network(|packet| match packet.kind() {
        Kind::Scout if packet.sender == 1 => Fate::Hold,
        _ => Fate::Deliver,
    });
    circle.drive(secs(12));
    let kept = circle.held.clone();
    circle.crash(1);
    circle.heal();
    let id = circle.id(1);
    let packet = kept.into_iter().rev().find(|packet| packet.receiver == Some(0)).unwrap();
    let is_suspected = |circle: &Circle| circle.node(0).directory().get(id).unwrap().is_suspected();
    assert!(circle.drive_until(secs(300), is_suspected));
    assert_eq!(circle.inject(0, &packet.bytes, packet.from).len(), 1);
    assert!(is_suspected(&circle));
    assert!(circle.inject(0, &packet.bytes, packet.from).is_empty(), "once");
}

#[test]
fn a_replayed_holding_does_not_prolong_custody() {
    let lost_for = |is_replayed: bool| {
        let mut circle = Circle::running(4);
        for member in 0..4 {
            circle.members[member].stop_after = millis(2500);
        }
        let holding = drive_to(&mut circle, Kind::Holding);
        let (custodian, holder) = (holding.receiver.unwrap(), holding.sender);
        circle.drive(DELAY * 2);
        circle.crash(holder);
        let crashed_at = circle.now;
        while circle.regenerations().is_empty() && circle.now.since(crashed_at) < secs(60) {
            circle.drive(millis(100));
            if is_replayed {
                circle.inject(custodian, &holding.bytes, holding.from);
            }
        }
        circle.now.since(crashed_at)
    };
    let (plain, replayed) = (lost_for(false), lost_for(true));
    assert!(plain < secs(6), "{plain:?}");
    assert_eq!(replayed, plain);
}

#[test]
fn a_flood_of_questions_does_not_keep_a_release_out() {
    let mut circle = Circle::running(4);
    let commit = drive_to(&mut circle, Kind::Commit);
    let (giver, taker) = (commit.sender, commit.receiver.unwrap());
    let check = circle.bodies(taker).into_iter().find(|body| body.kind() == Kind::Check).unwrap();
    let check = forge(&circle.write(taker, circle.id(giver), check, false, 0), |bytes| {
        *bytes.last_mut().unwrap() ^= 1;
    });
    // Otherwise the next holder's Scout tells the giver as well.
    circle.set_network(move |packet| match packet.kind() {
        Kind::Scout | Kind::Report if packet.receiver == Some(giver) => Fate::Drop,
        _ => Fate::Deliver,
    });
    // From the very address from which the Release will come: that source's budget is empty all the time.
    let begin = circle.now;
    while circle.now.since(begin) < millis(1800) {
        circle.drive(millis(1));
        for _ in 0..3 {
            circle.inject(giver, &check, circle.address(taker));
        }
    }
    assert!(circle.rejected(giver, "too_many") > 1000, "or this shows nothing");
    let sent = circle.sent_since(begin);
    assert!(sent.iter().any(|packet| packet.is(Kind::Release, taker, giver)));
    assert!(!sent.iter().any(|packet| packet.is(Kind::Check, giver, taker)), "the Release was not heard");
}

// --- addresses and amplification --------------------------------------------------------------------------------

#[test]
fn a_spoofed_source_address_changes_no_stored_address() {
    let mut circle = Circle::running(4);
    let recording = circle.log.clone();
    for packet in recording.iter().rev().take(60) {
        circle.inject(packet.receiver.unwrap(), &packet.bytes, elsewhere(9));
    }
    circle.drive(secs(5));
    for member in 0..4 {
        for other in (0..4).filter(|other| *other != member) {
            assert_eq!(
                circle.node(member).directory().address(circle.id(other)),
                Some(circle.address(other)),
                "P2"
            );
        }
    }
}

#[test]
fn an_address_record_that_is_older_or_not_the_members_own_is_not_believed() {
    let mut circle = Circle::running(3);
    let sequence = circle.entry(1).record.sequence;
    let certificate = circle.members[1].certificate.clone();
    let by = |circle: &Circle, member: usize, sequence| {
        sign_address(&circle.key(member), circle.authority.circle(), sequence, elsewhere(6))
    };
    let older = Entry { record: by(&circle, 1, sequence), certificate: certificate.clone() };
    let mut stolen = by(&circle, 2, sequence + 9);
    stolen.member = circle.id(1);
    let foreign = sign_address(&circle.key(1), CircleId::from_bytes([5; 16]), sequence + 9, elsewhere(6));
    for record in [older.record, stolen, foreign] {
        circle.command(0, Command::Learn { entry: Entry { record, certificate: certificate.clone() } });
    }
    assert_eq!(circle.node(0).directory().address(circle.id(1)), Some(circle.address(1)));
    let newer = Entry { record: by(&circle, 1, sequence + 1), certificate };
    circle.command(0, Command::Learn { entry: newer });
    assert_eq!(circle.node(0).directory().address(circle.id(1)), Some(elsewhere(6)), "P25");
}

/// Bytes sent to where the question came from.
fn answered(sent: &[Packet], to: std::net::SocketAddr) -> usize {
    sent.iter().filter(|packet| packet.to == to).map(|packet| packet.bytes.len()).sum()
}

#[test]
fn no_question_brings_more_bytes_to_its_source_than_it_has() {
    for receiver in [1, 2] {
        for with_certificate in [false, true] {
            for len in [0, 250, 400, 700, 1100, DATAGRAM_LIMIT] {
                for (number, body) in quiet_moment().bodies(0).into_iter().enumerate() {
                    let mut circle = quiet_moment();
                    // Whoever asks also lacks the newest charter and bans.
                    let charter = Charter { version: 3, ..circle.charter.clone() };
                    let charter = circle.authority.sign_charter(charter);
                    let bans = circle.authority.sign_bans(3, (1000..1080).collect()).unwrap();
                    circle.command(receiver, Command::Charter { charter });
                    circle.command(receiver, Command::Bans { bans });
                    let kind = body.kind();
                    let bytes = circle.write(0, circle.id(receiver), body, with_certificate, len);
                    let sent = circle.inject(receiver, &bytes, elsewhere(2));
                    let out = answered(&sent, elsewhere(2));
                    assert!(
                        out <= bytes.len(),
                        "P10: {} of {} bytes brought {out}",
                        kind.name(),
                        bytes.len()
                    );
                    if number == 4 && len == 1100 {
                        assert!(out > 700, "a padded scout is answered at length: {out}");
                    }
                }
            }
        }
    }
}

#[test]
fn whatever_a_circle_says_no_answer_is_longer_than_its_question() {
    // Everything that was said in half a minute with losses, asked again from elsewhere.
    let mut circle = Circle::running(4);
    circle.set_network(|packet| if packet.number % 5 == 0 { Fate::Drop } else { Fate::Deliver });
    let newcomer = circle.add_member();
    circle.command(newcomer, Command::Greet { address: circle.address(0) });
    let mut seen = BTreeSet::new();
    for _ in 0..300 {
        let number = circle.log.len();
        circle.drive(millis(100));
        let said: Vec<Packet> = circle.log[number..].to_vec();
        for packet in said {
            let Some(receiver) = packet.receiver else { continue };
            // A Report may bring the offer that it was asked for, and an Ack its Commit: both belong to a live exchange.
            if matches!(packet.kind(), Kind::Report | Kind::Ack) {
                continue;
            }
            let sent = circle.inject(receiver, &packet.bytes, elsewhere(7));
            assert!(answered(&sent, elsewhere(7)) <= packet.bytes.len(), "{}", packet.kind().name());
            seen.insert(packet.kind());
        }
    }
    assert!(seen.len() >= 5, "{seen:?}");
}
