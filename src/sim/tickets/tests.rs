//! Whether the checkers bite: books that are told of a broken promise, and what each checker says to that.

use std::time::Duration;

use crate::base::{MemberId, Seat, Ticket, Time};

use super::Violation;
use super::checks::Checks;
use super::claims::Claim;

const AT: Time = Time::from_nanos(1_000_000_000);

fn seat(ticket: Ticket, member: u8) -> Seat {
    Seat { ticket, member: MemberId::from_bytes([member; 16]), incarnation: 1 }
}

/// Ten tickets; member 0 has 9 to 5, member 1 has 4 to 0.
fn shared_by_two() -> Checks {
    let mut checks = Checks::new(10, 4);
    checks.claimed(0, Some(Claim { ticket: 9, next: 4 }), AT, |_| true);
    checks.claimed(1, Some(Claim { ticket: 4, next: 9 }), AT, |_| true);
    assert_eq!(checks.violations(), []);
    checks
}

#[test]
fn a_ticket_that_two_have_to_give_is_seen() {
    let mut checks = shared_by_two();
    checks.claimed(2, Some(Claim { ticket: 6, next: 4 }), AT, |_| true);
    let expected = Violation::TwoCoordinators { at: AT, ticket: 6, first: 0, second: 2 };
    assert_eq!(checks.violations(), [expected]);
}

#[test]
fn a_newcomer_for_whom_there_was_made_room_is_welcome() {
    let mut checks = shared_by_two();
    checks.claimed(0, Some(Claim { ticket: 9, next: 6 }), AT, |_| true);
    checks.claimed(2, Some(Claim { ticket: 6, next: 4 }), AT, |_| true);
    assert_eq!(checks.violations(), []);
    assert_eq!(checks.sure(), 3);
}

#[test]
fn two_pulls_by_one_ticket_are_seen() {
    let mut checks = shared_by_two();
    checks.pull_began(0, seat(9, 0), AT, |_| true);
    checks.pull_began(1, seat(4, 1), AT, |_| true);
    assert_eq!(checks.violations(), []);
    checks.pull_began(2, seat(9, 2), AT, |_| true);
    assert_eq!(checks.violations(), [Violation::TwoUsers { at: AT, ticket: 9, first: 0, second: 2 }]);
}

#[test]
fn a_pull_that_has_ended_is_in_nobodys_way() {
    let mut checks = shared_by_two();
    checks.pull_began(0, seat(9, 0), AT, |_| true);
    checks.pull_ended(0, 9);
    checks.claimed(0, None, AT, |_| true);
    checks.claimed(2, Some(Claim { ticket: 9, next: 4 }), AT, |_| true);
    checks.pull_began(2, seat(9, 2), AT, |_| true);
    assert_eq!(checks.violations(), []);
}

#[test]
fn a_pull_that_outlives_its_right_is_seen_by_the_next_owner_and_by_who_may_give_the_ticket() {
    for (claim, expected) in [
        (Claim { ticket: 9, next: 4 }, Violation::TwoUsers { at: AT, ticket: 9, first: 0, second: 2 }),
        (
            Claim { ticket: 0, next: 4 },
            Violation::StillPulled { at: AT, ticket: 9, puller: 0, coordinator: 2 },
        ),
    ] {
        let mut checks = Checks::new(10, 4);
        checks.claimed(0, Some(Claim { ticket: 9, next: 4 }), AT, |_| true);
        checks.pull_began(0, seat(9, 0), AT, |_| true);
        checks.claimed(0, None, AT, |_| true);
        assert_eq!(checks.violations(), []);
        checks.claimed(2, Some(claim), AT, |_| true);
        assert_eq!(checks.violations(), [expected]);
    }
}

#[test]
fn a_member_that_stands_still_pulls_only_while_its_clock_gives_it_the_right() {
    for (is_sure, expected) in [(false, 0), (true, 1)] {
        let mut checks = shared_by_two();
        checks.pull_began(0, seat(9, 0), AT, |_| true);
        checks.pull_frozen(0, 9, true);
        checks.pull_began(2, seat(9, 2), AT, |_| is_sure);
        assert_eq!(checks.violations().len(), expected, "sure: {is_sure}");
    }
    let mut checks = shared_by_two();
    checks.pull_began(0, seat(9, 0), AT, |_| true);
    checks.pull_frozen(0, 9, true);
    checks.pull_frozen(0, 9, false);
    checks.pull_began(2, seat(9, 2), AT, |_| false);
    assert_eq!(checks.violations().len(), 1, "it went on in time");
}

#[test]
fn more_pulls_than_tickets_are_seen() {
    let mut checks = Checks::new(2, 4);
    for member in 0..3 {
        checks.pull_began(member, seat(Ticket::try_from(member).unwrap(), 0), AT, |_| true);
    }
    assert_eq!(checks.violations(), [Violation::TooManyPulls { at: AT, pulls: 3 }]);
}

#[test]
fn a_ticket_that_does_not_come_back_is_missed() {
    let (window, later) = (Duration::from_secs(10), AT + Duration::from_secs(10));
    let mut checks = shared_by_two();
    checks.debts.silenced(AT, window);
    checks.debts.owed(9, AT);
    checks.claimed(1, Some(Claim { ticket: 4, next: 0 }), later, |_| true);
    assert!(checks.debts.is_overdue(9, AT, window, 1));
    assert!(!checks.debts.is_overdue(9, AT, window, 1), "it is complained of once");

    checks.debts.owed(9, AT);
    checks.claimed(0, None, later, |_| true);
    checks.claimed(1, Some(Claim { ticket: 4, next: 4 }), later, |_| true);
    assert!(!checks.debts.is_overdue(9, AT, window, 1), "somebody has it");

    checks.debts.owed(9, AT);
    checks.debts.silenced(AT, window);
    assert!(!checks.debts.is_overdue(9, AT, window, 1), "more than one fell silent");
}
