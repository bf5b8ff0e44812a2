//! How seats end, and how soon their tickets are back: crashes, last words, and the last one of a ring.

use super::super::machine::State;
use super::super::place::Place;
use super::promises::missed_by_p;
use super::*;
use crate::base::{Deed, Standing};

fn place(world: &World, member: usize) -> &Place {
    match &world.members[member].as_ref().unwrap().state {
        State::In(place) => place,
        State::Out(_) => panic!("{member} has no seat"),
    }
}

/// When all of these were excluded, from now on.
fn excluded_after(world: &mut World, members: &[usize]) -> Duration {
    let begun = world.now;
    world.events.clear();
    world.run_for(30.0);
    let at = |member: usize| {
        let is_it = |(at, _, event): &(Time, usize, Event)| match event {
            Event::Excluded { seats } if seats.iter().any(|seat| seat.member == id(member)) => Some(*at),
            _ => None,
        };
        world.events.iter().find_map(is_it).unwrap_or_else(|| panic!("{member} is not excluded"))
    };
    members.iter().map(|member| at(*member).since(begun)).max().unwrap()
}

/// By the time when it is missed, the word of its witnesses has run out: there is nothing left to wait for.
#[test]
fn a_crashed_ones_ticket_is_back_as_soon_as_it_is_missed() {
    let (mut world, ring) = ring_of(12, 2, None);
    world.crash(ring[5]);
    let missed_after = world.config.fresh();
    let after = excluded_after(&mut world, &[ring[5]]);
    assert!(after < missed_after + secs(1.0), "{after:?}");
}

/// Whether the second one was there was asked only when the first was given up.
#[test]
fn neighbours_that_crash_together_are_missed_together() {
    let (mut world, ring) = ring_of(12, 2, None);
    world.crash(ring[5]);
    world.crash(ring[6]);
    let missed_after = world.config.fresh();
    let after = excluded_after(&mut world, &[ring[5], ring[6]]);
    assert!(after < missed_after + secs(1.5), "{after:?}");
}

/// Nobody answers for the seat after p, which is no more; but its member remembers what was said in it, or has begun anew
/// and does not.
fn a_seat_of_which_only_its_member_can_tell(is_remembered: bool) -> usize {
    let (mut world, ring) = ring_of(8, 1, None);
    let r = ring[3];
    world.loss = Box::new(|message, _, _| {
        matches!(message, TicketMessage::Lock { .. } | TicketMessage::Locked { .. })
    });
    if is_remembered {
        let seat = world.members[r].as_ref().unwrap().seat().unwrap();
        world.tell(r, Input::Work(false));
        world.tell(r, Input::Received { from: id(ring[2]), message: TicketMessage::Gone { seat } });
        world.pulls.remove(&r);
        world.tell(r, Input::SlotStopped);
        assert_eq!(world.members[r].as_ref().unwrap().seat(), None);
    } else {
        world.crash(r);
        world.start(r);
    }
    world.events.clear();
    world.run_for(20.0);
    assert_eq!(world.violations, [""; 0]);
    world.count(|event| matches!(event, Event::Excluded { .. }))
}

#[test]
fn whoever_lost_its_seat_tells_itself_what_was_said_in_it() {
    assert_eq!(a_seat_of_which_only_its_member_can_tell(true), 1);
    assert_eq!(a_seat_of_which_only_its_member_can_tell(false), 0, "nobody can know whom it let in");
}

/// While p was not sure, what it heard of the one that it excluded did not reach its own notes: it decided by witnesses
/// by which that one went no longer, and a ticket had two owners.
#[test]
fn what_is_told_of_a_silent_one_counts_for_who_is_not_sure_too() {
    let (mut world, ring, attempt) = missed_by_p();
    let (p, r) = (ring[2], ring[3]);
    world.cut = ring.iter().filter(|other| ![p, ring[4]].contains(*other)).map(|other| (p, *other)).collect();
    world.run_for(3.5);
    assert!(world.members[p].as_ref().unwrap().sure_seat(world.now).is_none());
    let (seat, next) = (place(&world, r).seat, place(&world, r).deed.next);
    let witnesses = [5, 6, 7].map(|at| place(&world, ring[at]).seat).to_vec();
    let deed = Deed { version: 99, next, beyond: None, witnesses };
    let standing = Some(Standing { number: u64::MAX, deed, proposed: None });
    let (attempt, quiet_for) = (attempt.get(), Duration::from_secs(60));
    let message = TicketMessage::Locked { attempt, seat, since: 0, quiet_for, standing };
    world.tell(p, Input::Received { from: id(ring[1]), message });
    assert!(!place(&world, p).is_moving(), "one of three has promised");
}

/// With the last one the ring was gone, although others waited for a ticket.
#[test]
fn the_last_one_leaves_the_ring_to_somebody_who_asks() {
    let mut world = World::new(2, Config::new(4, 2, TURN));
    world.tell(0, Input::Leave);
    world.run_for(0.5);
    assert_eq!(world.sure(), 1, "it waits for a moment");
    world.tell(1, Input::Work(true));
    world.run_for(10.0);
    assert_eq!(world.ring(), [1]);
    assert_eq!(world.count(|event| *event == Event::Left), 1);
    assert_eq!(world.violations, [""; 0]);
}

#[test]
fn the_last_one_does_not_wait_for_long() {
    let mut world = World::new(1, Config::new(4, 2, TURN));
    world.tell(0, Input::Leave);
    world.run_for(5.0);
    assert_eq!(world.count(|event| *event == Event::Left), 1);
}

/// Its word that it gives the ticket back was still on its way when it turned out that nobody was left to take it. Whoever
/// came next after that took it at that word.
#[test]
fn who_would_give_its_ticket_back_and_stays_alone_has_another_seat() {
    let (mut world, ring) = ring_of(2, 1, None);
    let (a, b) = (ring[0], ring[1]);
    let before = place(&world, a).seat;
    world.loss = Box::new(|message, _, _| matches!(message, TicketMessage::Release { .. }));
    world.tell(a, Input::Work(false));
    world.tell(a, Input::Leave);
    world.pulls.remove(&a);
    world.tell(a, Input::SlotStopped);
    world.run_for(4.0);
    assert!(place(&world, a).release.is_some());
    world.crash(b);
    world.start(b);
    world.run_for(1.0);
    let after = place(&world, a).seat;
    assert!(place(&world, a).is_alone());
    assert_eq!(after.ticket, before.ticket);
    assert!(after.incarnation > before.incarnation);
    assert_eq!(world.violations, [""; 0]);
}

/// What one member gave back was taken by nobody. Those after it gave theirs to it, one after the other, and there no ticket
/// could be had from any more.
#[test]
fn what_nobody_takes_back_draws_no_other_ticket_in_and_is_given_up() {
    let mut world = World::new(11, Config::new(8, 2, secs(2.0)));
    world.all_work();
    world.run_for(30.0);
    let stuck = world.ring()[0];
    world.loss =
        Box::new(move |message, from, _| from == stuck && matches!(message, TicketMessage::Release { .. }));
    while place(&world, stuck).release.is_none() {
        world.run_for(0.1);
    }
    let seat = place(&world, stuck).seat;
    world.run_for(10.0);
    let next = place(&world, stuck).latest().next;
    world.served.clear();
    world.run_for(30.0);
    assert_eq!(place(&world, stuck).latest().next, next);
    assert_eq!(world.served.len(), 10, "all others have their turns: {:?}", world.served);
    world.run_for(60.0);
    assert_ne!(world.members[stuck].as_ref().unwrap().seat(), Some(seat));
    assert_eq!(world.violations, [""; 0]);
    assert!(world.served.contains_key(&stuck), "it has another one: {:?}", world.served);
}
