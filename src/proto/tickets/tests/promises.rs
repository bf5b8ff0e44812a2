//! Promises not to vouch: what they rest on, when they are void, and that they are kept.

use super::super::book::Book;
use super::super::machine::State;
use super::super::ring::DRAWS;
use super::*;
use crate::base::{Deed, Standing};

fn seat(ticket: u16, member: usize, incarnation: u64) -> Seat {
    Seat { ticket, member: id(member), incarnation }
}

fn deed(version: u32, witnesses: &[usize]) -> Deed {
    let witnesses = witnesses.iter().map(|member| seat(9, *member, 1)).collect();
    Deed { version, next: seat(1, 1, 1), beyond: None, witnesses }
}

fn said(number: u64, goes_by: u32, proposed: Option<u32>) -> Standing {
    let proposed = proposed.map(|version| deed(version, &[4, 5]));
    Standing { number, deed: deed(goes_by, &[2, 3]), proposed }
}

/// A newcomer was told by which deed its next one goes, numbered as if that had been said last. An earlier word, which a
/// witness had heard, told of another deed that was about to count, and was not believed: the next one was excluded while
/// it was sure by those whom nobody had asked.
#[test]
fn an_introduction_hides_nothing_that_was_said() {
    let (x, now) = (seat(7, 7, 1), Time::from_secs(1));
    let known = |told: &[Standing]| {
        let mut book = Book::default();
        for standing in told {
            book.learn(x, Some(standing.clone()), now);
        }
        let standing = book.said(x).unwrap().clone();
        (standing.deed.version, standing.proposed.map(|deed| deed.version))
    };
    let introduced = |version| Standing::introduced(deed(version, &[2, 3]));
    for (goes_by, expected) in
        [(3, (4, Some(6))), (4, (4, Some(6))), (5, (5, Some(6))), (6, (6, None)), (7, (7, None))]
    {
        let word = said(8, 4, Some(6));
        assert_eq!(known(&[introduced(goes_by), word.clone()]), expected, "introduced by {goes_by} first");
        assert_eq!(known(&[word, introduced(goes_by)]), expected, "introduced by {goes_by} last");
    }
    assert_eq!(known(&[said(9, 5, None), said(8, 4, Some(5))]), (5, None));
}

/// A ring of eight in which p, the third, does not hear r, the fourth, nor what is promised about it; and the attempt with
/// which it asks for that.
pub(super) fn missed_by_p() -> (World, Vec<usize>, Rc<Cell<u64>>) {
    let (mut world, ring) = ring_of(8, 1, None);
    let (p, r) = (ring[2], ring[3]);
    let attempt = Rc::new(Cell::new(0));
    let seen = Rc::clone(&attempt);
    world.loss = Box::new(move |message, from, to| {
        if let TicketMessage::Lock { attempt, seat, .. } = message
            && (from, seat.member) == (p, id(r))
        {
            seen.set(*attempt);
        }
        (from, to) == (r, p) || to == p && matches!(message, TicketMessage::Locked { .. })
    });
    world.run_for(4.5);
    assert_ne!(attempt.get(), 0, "r is missed");
    (world, ring, attempt)
}

/// A witness had promised, begun anew, and come back as a witness in another seat. Its old promise counted for that one,
/// though it had forgotten it, and vouched.
#[test]
fn who_is_a_witness_in_another_seat_is_asked_for_its_promise_again() {
    let (mut world, ring, attempt) = missed_by_p();
    let (p, w, r) = (ring[2], ring[1], ring[3]);
    let sits_at = |world: &World, member: usize| world.members[member].as_ref().unwrap().seat().unwrap();
    let (silent, next) = (sits_at(&world, r), sits_at(&world, ring[4]));
    let mut witnesses = [p, w, ring[0]].map(|member| sits_at(&world, member)).to_vec();
    let first = attempt.get();
    let mut promise = |by: usize, version: u32, witnesses: &[Seat]| {
        let deed = Deed { version, next, beyond: None, witnesses: witnesses.to_vec() };
        let standing = Some(Standing { number: u64::MAX - 100 + u64::from(version), deed, proposed: None });
        let quiet_for = Duration::from_secs(1);
        let message =
            TicketMessage::Locked { attempt: attempt.get(), seat: silent, since: 0, quiet_for, standing };
        world.tell(p, Input::Received { from: id(by), message });
        attempt.get()
    };
    assert_eq!(promise(w, 50, &witnesses), first, "those are its witnesses");
    witnesses[1].incarnation += DRAWS;
    assert!(promise(ring[0], 51, &witnesses) > first, "nobody has promised in that seat yet");
}

/// Whoever called its exclusion off and left told those who had promised, but not all may have heard of it. They were bound
/// for ever.
#[test]
fn who_has_left_still_says_that_a_promise_is_void() {
    let (mut world, ring, _) = missed_by_p();
    let (p, w, r) = (ring[2], ring[1], ring[3]);
    let silent = world.members[r].as_ref().unwrap().seat().unwrap();
    let bound = |world: &World| {
        let locks = world.members[w].as_ref().unwrap().book.get(silent).map(|known| known.locks.len());
        locks.unwrap_or(0)
    };
    world.loss = Box::new(|message, _, _| {
        matches!(message, TicketMessage::Unlock { .. } | TicketMessage::Bound { .. })
    });
    world.run_for(1.0);
    world.tell(p, Input::Work(false));
    world.tell(p, Input::Leave);
    world.pulls.remove(&p);
    world.tell(p, Input::SlotStopped);
    world.run_for(8.0);
    assert!(matches!(world.members[p].as_ref().unwrap().state, State::Out(_)));
    assert_eq!(bound(&world), 1);
    world.loss = Box::new(|_, _, _| false);
    world.run_for(3.0);
    assert_eq!(bound(&world), 0);
    assert_eq!(world.violations, [""; 0]);
}

#[test]
fn promises_about_one_seat_are_bounded_and_none_is_dropped_for_another() {
    let (mut world, ring) = ring_of(4, 1, None);
    let me = ring[0];
    let silent = seat(3, 99, 1);
    for attempt in 1..=100 {
        let message = TicketMessage::Lock { by: seat(4, 98, attempt), attempt, seat: silent };
        world.tell(me, Input::Received { from: id(98), message });
    }
    let locks = &world.members[me].as_ref().unwrap().book.get(silent).unwrap().locks;
    assert!((2..=16).contains(&locks.len()) && locks.contains_key(&seat(4, 98, 1)));
}

/// The book has room for 1024 seats. Who must forget a promise stands by none from then on.
#[test]
fn a_promise_that_must_be_forgotten_is_told() {
    let mut machine = Tickets::new(id(1), Config::new(8, 1, TURN), 0, Rng::seeded(1), Time::ZERO);
    let mut since = Vec::new();
    for silent in 1..=1025 {
        let seat = seat(3, 2, silent);
        let message =
            TicketMessage::Lock { by: Seat { ticket: 4, member: id(3), incarnation: 1 }, attempt: 1, seat };
        machine.handle(Input::Received { from: id(3), message }, Time::from_secs(1));
        since.extend(std::iter::from_fn(|| machine.poll_output()).filter_map(|output| match output {
            Output::Send { message: TicketMessage::Locked { since, .. }, .. } => Some(since),
            _ => None,
        }));
    }
    assert_eq!(since.len(), 1025);
    machine.handle(Input::Wake, Time::from_secs(2));
    assert!(machine.next_incarnation() > since[0], "{since:?}");
    let seat = seat(3, 2, 5000);
    let message =
        TicketMessage::Lock { by: Seat { ticket: 4, member: id(3), incarnation: 1 }, attempt: 1, seat };
    machine.handle(Input::Received { from: id(3), message }, Time::from_secs(2));
    let answer = std::iter::from_fn(|| machine.poll_output()).find_map(|output| match output {
        Output::Send { message: TicketMessage::Locked { since, .. }, .. } => Some(since),
        _ => None,
    });
    assert!(answer.unwrap() > since[0]);
}

/// What any member may say must harm nobody.
#[test]
fn tickets_that_there_are_none_of_are_harmless() {
    let (mut world, ring) = ring_of(4, 1, None);
    let strange = seat(u16::MAX, 99, u64::MAX);
    let own = Seat { member: id(ring[0]), ..strange };
    for named in [strange, own] {
        for message in [
            TicketMessage::Knock { seat: named },
            TicketMessage::Gone { seat: named },
            TicketMessage::Lock { by: strange, attempt: u64::MAX, seat: named },
            TicketMessage::Release { seat: strange, next: named, deed: None },
            TicketMessage::Join { incarnation: u64::MAX, waited: Duration::MAX },
            TicketMessage::NotMe { seat: strange, since: u64::MAX, is_vacant: true, standing: None },
        ] {
            world.tell(ring[0], Input::Received { from: id(99), message });
        }
    }
    world.run_for(10.0);
    assert_eq!(world.sure(), 4);
    assert_eq!(world.violations, [""; 0]);
}
