//! Whether the checkers of the ring bite in whole nodes: rules that are broken, and what each checker says to that.

use std::time::Duration;

use crate::proto::tickets::Flaw;
use crate::sim::tickets::Violation as RingViolation;
use crate::trust::Suite;

use super::ring::TicketPull;
use super::{Faults, RingSize, Scenario, Violation, Whole};

/// So many seeds are tried until a broken rule must have shown.
const SEEDS: u64 = 12;

fn scenario(faults: Faults) -> Scenario {
    Scenario {
        members: 10,
        slot: Duration::from_secs(2),
        suite: Suite::Simulated,
        duration: Duration::from_secs(120),
        faults: Some(faults),
        ..Scenario::of_ring(RingSize { tickets: 6, faults: 1 })
    }
}

/// A network on which every rule is needed.
fn rough() -> Faults {
    Faults {
        loss: 0.2,
        duplication: 0.2,
        replay: 0.1,
        jitter: Duration::from_millis(400),
        crash_every: Some(Duration::from_secs(10)),
        restart_after: Duration::from_secs(10),
        pause_every: Some(Duration::from_secs(10)),
        pause_for: Duration::from_secs(8),
        split_every: Some(Duration::from_secs(20)),
        split_for: Duration::from_secs(10),
        drift_ppm: 1000,
        ..Faults::default()
    }
}

fn shows(faults: &Faults, break_it: impl Fn(&mut Whole), wanted: impl Fn(&Violation) -> bool) -> bool {
    (0..SEEDS).any(|seed| {
        let mut whole = Whole::new(&scenario(faults.clone()), seed);
        break_it(&mut whole);
        whole.run().violations.iter().any(&wanted)
    })
}

/// All that the checkers say of one run, which goes on after the first complaint.
fn all_complaints(break_it: impl Fn(&mut Whole)) -> Vec<Violation> {
    let mut whole = Whole::new(&scenario(Faults::default()), 1);
    break_it(&mut whole);
    while whole.now < whole.end {
        whole.step();
    }
    whole.check_rest();
    whole.finish().violations
}

#[test]
fn sound_nodes_have_no_ticket_in_two_hands() {
    assert!(!shows(&rough(), |_| {}, Violation::is_duplicate));
}

/// Some are heard by a few only: the rest exclude them while they are still sure.
fn torn() -> Faults {
    Faults {
        split_every: Some(Duration::from_secs(8)),
        split_for: Duration::from_secs(7),
        loss: 0.1,
        ..Faults::default()
    }
}

#[test]
fn broken_rules_of_tickets_show_in_whole_nodes() {
    // The other rules are needed more seldom.
    assert!(shows(&torn(), |whole| whole.break_rule_of_tickets(Flaw::NoWait), Violation::is_duplicate));
}

#[test]
fn clocks_that_are_more_wrong_than_stated_put_a_ticket_into_two_hands() {
    let faults = Faults { drift_ppm: 800_000, ..torn() };
    assert!(shows(&faults, |_| {}, Violation::is_duplicate));
}

#[test]
fn pulls_that_take_too_long_to_stop_are_seen() {
    let outlives = |violation: &Violation| {
        matches!(
            violation,
            Violation::Ring(RingViolation::TwoUsers { .. } | RingViolation::StillPulled { .. })
        )
    };
    assert!(shows(&rough(), |whole| whole.sabotage.slowness = Some(40), outlives));
}

#[test]
fn who_pulls_by_a_ticket_that_it_does_not_have_is_seen() {
    let complaints = all_complaints(|whole| {
        whole.places[3].pull = Some(TicketPull { ticket: 5, is_stopping: false });
    });
    let unsure = |found: &Violation| {
        matches!(found, Violation::Ring(RingViolation::PulledUnsure { member: 3, ticket: 5, .. }))
    };
    assert!(complaints.iter().any(unsure), "{complaints:?}");
}

#[test]
fn who_knows_that_it_is_banned_and_goes_on_is_seen() {
    // The checkers are told that it has heard it. The node has not.
    let complaints = all_complaints(|whole| {
        whole.checks.banned(3, 1);
        whole.checks.standing_mut().heard(3, 1);
    });
    let used = |found: &Violation| matches!(found, Violation::UsedByOutsider { member: 3, .. });
    assert!(complaints.iter().any(used), "{complaints:?}");
    let others =
        |found: &Violation| matches!(found, Violation::UsedByOutsider { member, .. } if *member != 3);
    assert!(!complaints.iter().any(others), "{complaints:?}");
}

#[test]
fn tickets_that_are_nobodys_and_who_is_not_served_are_missed() {
    let complaints = all_complaints(|whole| whole.places.iter_mut().for_each(|place| place.node = None));
    assert!(
        complaints.iter().any(|found| matches!(found, Violation::NobodysTicket { .. })),
        "{complaints:?}"
    );
    assert!(complaints.iter().any(|found| matches!(found, Violation::NotServed { .. })), "{complaints:?}");
}

#[test]
fn a_ring_that_dies_is_founded_anew() {
    // Alone in the ring, and gone with all tickets.
    let mut whole = Whole::new(&scenario(Faults::default()), 1);
    whole.crash(0, Duration::from_secs(60));
    let outcome = whole.run();
    assert_eq!((outcome.ring.refounded, outcome.violations), (1, vec![]));
    assert!(outcome.ring.joins >= 10, "{:?}", outcome.ring);
}
