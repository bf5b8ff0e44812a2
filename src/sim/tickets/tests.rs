//! Whether the checkers bite: books that are told of a broken promise, worlds that break one, and what each checker says to
//! that. And whether they are silent where nothing is broken.

use std::time::Duration;

use crate::base::{Ask, MemberId, Seat, Standing, Ticket, Time};
use crate::proto::tickets::{Config, Flaw, Input};

use super::checks::Checks;
use super::claims::Claim;
use super::{Faults, Outcome, Ring, Scenario, Violation};

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
    checks.debts.silenced(AT, window, 2);
    checks.debts.owed(9, AT);
    checks.claimed(1, Some(Claim { ticket: 4, next: 0 }), later, |_| true);
    assert!(checks.debts.is_overdue(9, AT, window, 1));
    assert!(!checks.debts.is_overdue(9, AT, window, 1), "it is complained of once");

    checks.debts.owed(9, AT);
    checks.claimed(0, None, later, |_| true);
    checks.claimed(1, Some(Claim { ticket: 4, next: 4 }), later, |_| true);
    assert!(!checks.debts.is_overdue(9, AT, window, 1), "somebody has it");

    checks.debts.owed(9, AT);
    checks.debts.silenced(AT, window, 2);
    assert!(!checks.debts.is_overdue(9, AT, window, 1), "more than one fell silent");
}

// --- worlds ---------------------------------------------------------------------------------------------------------

/// Members, tickets, and how long things go wrong and do not, in seconds.
#[expect(clippy::needless_pass_by_value, reason = "as it is written at each call")]
fn scenario(members: usize, tickets: Ticket, (duration, settle): (u64, u64), faults: Faults) -> Scenario {
    Scenario {
        members,
        config: Config::new(tickets, 2, Duration::from_secs(4)),
        duration: Duration::from_secs(duration),
        settle: Duration::from_secs(settle),
        faults: Some(Faults { drift_ppm: 1000, ..faults }),
    }
}

/// Runs these seeds; a broken promise fails with the seed that repeats it.
fn run(scenario: &Scenario, seeds: std::ops::Range<u64>) -> Outcome {
    let mut sum = Outcome::default();
    for seed in seeds {
        let outcome = Ring::new(scenario, seed).run();
        assert_eq!(outcome.violations, [], "seed {seed} of {scenario:?}");
        sum.add(outcome);
    }
    sum
}

/// Whether a ticket is in two hands on one of the seeds.
fn is_doubled(scenario: &Scenario, seeds: std::ops::Range<u64>) -> bool {
    seeds
        .into_iter()
        .any(|seed| Ring::new(scenario, seed).run().violations.iter().any(Violation::is_duplicate))
}

#[test]
fn a_seed_repeats_everything() {
    let scenario = Scenario { faults: None, ..scenario(12, 6, (60, 0), Faults::default()) };
    let trace = |seed| {
        let mut ring = Ring::new(&scenario, seed);
        ring.keep_trace(1_000_000);
        while ring.step() {}
        ring.trace().cloned().collect::<Vec<_>>()
    };
    assert!(trace(1).len() > 1_000);
    assert_eq!(trace(1), trace(1));
    assert_ne!(trace(1), trace(2));
}

#[test]
fn where_nothing_goes_wrong_everybody_is_served_in_turn() {
    let outcome = run(&scenario(20, 8, (0, 90), Faults::default()), 0..3);
    assert_eq!((outcome.lost, outcome.refounded), (0, 0), "{outcome:?}");
    assert!(outcome.given_back > 100 && outcome.longest_wait < Duration::from_secs(45), "{outcome:?}");
}

#[test]
fn a_ring_at_rest_asks_no_more_than_it_must() {
    let outcome = run(&scenario(16, 16, (0, 80), Faults::default()), 0..3);
    // Every witness once a round; who begins to count in the middle of a round counts half a one more.
    assert!((4.5..=5.5).contains(&outcome.asks_at_rest), "{outcome:?}");
}

#[test]
fn messages_that_come_twice_late_and_in_any_order_break_no_promise() {
    let faults =
        Faults { duplication: 0.2, replay: 0.03, jitter: Duration::from_millis(400), ..Faults::default() };
    assert!(run(&scenario(20, 8, (100, 60), faults), 0..3).joins > 100);
}

#[test]
fn members_that_come_and_go_and_run_out_of_work_break_no_promise() {
    let faults = Faults {
        leave_every: Some(Duration::from_secs(8)),
        idle_every: Some(Duration::from_secs(5)),
        ..Faults::default()
    };
    assert!(run(&scenario(20, 8, (100, 60), faults), 0..3).given_back > 100);
}

#[test]
fn lost_messages_cost_nobody_its_ticket() {
    let faults = Faults { loss: 0.1, ..Faults::default() };
    assert_eq!(run(&scenario(20, 20, (120, 60), faults), 0..3).lost, 0);
}

#[test]
fn tickets_of_crashed_members_come_back() {
    let faults = Faults { crash_every: Some(Duration::from_secs(20)), ..Faults::default() };
    let outcome = run(&scenario(20, 20, (120, 60), faults), 0..3);
    assert!(outcome.crashes > 10 && outcome.excluded > 10, "{outcome:?}");
}

/// The ticket paper gives a ticket back as many rounds after a crash was noticed as it is from the one before the crashed
/// to the one after it: two, and a round must be longer than a message takes. We notice within a lease and a round.
#[test]
fn the_ticket_of_one_that_crashes_alone_is_back_within_the_papers_bound() {
    let faults = Faults {
        crash_every: Some(Duration::from_secs(120)),
        restart_after: Duration::from_secs(5),
        ..Faults::default()
    };
    let slowest = faults.delay + faults.jitter;
    let scenario = scenario(20, 20, (1200, 60), faults);
    let config = &scenario.config;
    let noticed = config.lease + config.round + slowest;
    let bound = noticed + 2 * (config.round + slowest).mul_f64(1.0 + 2.0 * f64::from(config.drift_ppm) / 1e6);
    let back_after = run(&scenario, 0..4).back_after;
    assert!(back_after.count() > 20);
    // Of a few a neighbour crashed soon after.
    let usual = back_after.quantile_s(0.9).unwrap();
    assert!(usual <= bound.as_secs_f64(), "{usual} of {bound:?}");
}

/// Two were left, and gave their tickets back: the lower one to those by whom it went, who were gone, and the higher one to
/// the lower, which had to wait for the higher.
#[test]
fn the_last_two_leave_though_one_goes_by_others() {
    let faults = Faults {
        loss: 0.25,
        delay: Duration::from_millis(100),
        jitter: Duration::from_millis(400),
        leave_every: Some(Duration::from_millis(500)),
        ..Faults::default()
    };
    run(&scenario(4, 10, (600, 60), faults), 20..26);
}

#[test]
fn whatever_goes_wrong_no_promise_is_broken() {
    let scenario = Scenario { faults: None, ..scenario(20, 8, (120, 120), Faults::default()) };
    let outcome = run(&scenario, 0..25);
    assert!(outcome.crashes > 20 && outcome.joins > 500, "{outcome:?}");
    // With k = 2 five of each seat, and never more.
    assert!((outcome.reminders as f64) < 5.0 * outcome.rounds, "{outcome:?}");
}

/// Both holders of that seat's last words had crashed, so it could never be seen off. Its member asked for another ticket for
/// ever, as everybody waited for the old seat to go.
#[test]
fn who_lost_a_seat_that_nobody_can_see_off_gets_another_one() {
    let scenario = Scenario { faults: None, ..scenario(20, 8, (600, 120), Faults::default()) };
    assert_eq!(Ring::new(&scenario, 1971).run().violations, []);
}

// --- storms ---------------------------------------------------------------------------------------------------------

/// All want a ticket at once: everybody is served, and nobody is drowned.
fn storm(members: usize, tickets: Ticket, settle: u64) -> Outcome {
    let outcome = run(&scenario(members, tickets, (0, settle), Faults::default()), 0..1);
    // The first one is asked by all of them, more than once; from there on they are passed on.
    let most = u32::try_from(8 * members).unwrap() + 2_000;
    assert!(outcome.busiest < most, "{outcome:?}");
    let rounds = settle as f64;
    assert!((outcome.messages as f64) < 40.0 * members as f64 * rounds, "{outcome:?}");
    outcome
}

#[test]
fn a_small_joining_storm_is_weathered() {
    assert!(storm(60, 60, 40).longest_wait < Duration::from_secs(20));
    assert!(storm(60, 10, 120).longest_wait < Duration::from_secs(90));
}

#[test]
#[ignore = "half a minute without optimisation"]
fn a_joining_storm_of_a_thousand_is_weathered() {
    assert!(storm(1000, 1000, 60).longest_wait < Duration::from_secs(40));
    assert!(storm(1000, 50, 300).longest_wait < Duration::from_secs(250));
}

// --- bounds broken on purpose ---------------------------------------------------------------------------------------

/// A network on which every rule is needed.
fn rough() -> Scenario {
    let faults = Faults {
        loss: 0.1,
        jitter: Duration::from_millis(400),
        crash_every: Some(Duration::from_secs(10)),
        pause_every: Some(Duration::from_secs(20)),
        split_every: Some(Duration::from_secs(15)),
        split_for: Duration::from_secs(7),
        ..Faults::default()
    };
    scenario(20, 12, (120, 0), faults)
}

fn without_rule(flaw: Flaw, scenario: Scenario) -> Scenario {
    Scenario { config: Config { flaw: Some(flaw), ..scenario.config }, ..scenario }
}

#[test]
fn clocks_far_beyond_what_is_stated_put_tickets_into_two_hands() {
    let sound = rough();
    assert!(!is_doubled(&sound, 0..10));
    let faults = sound.faults.clone().map(|faults| Faults { drift_ppm: 800_000, ..faults });
    assert!(is_doubled(&Scenario { faults, ..sound }, 0..10));
}

#[test]
fn rules_that_are_switched_off_put_tickets_into_two_hands() {
    for flaw in [Flaw::NoWait, Flaw::NoLock] {
        assert!(is_doubled(&without_rule(flaw, rough()), 0..40), "{flaw:?}");
    }
}

/// No promise is broken by that alone: who is not sure stops, and goes on later. But it stops for every crash around it.
#[test]
fn who_needs_the_word_of_all_is_unsure_with_every_crash() {
    let faults = Faults { crash_every: Some(Duration::from_secs(20)), ..Faults::default() };
    let sound = scenario(20, 20, (60, 0), faults);
    let broken = without_rule(Flaw::AllMustVouch, sound.clone());
    let [few, many] = [sound, broken].map(|scenario| run(&scenario, 0..6).unsure);
    assert!(many > 10 * few.max(1), "{few} and {many}");
}

/// Everybody has a ticket, and nothing happens.
fn at_rest() -> Ring {
    let mut ring = Ring::new(&scenario(12, 12, (0, 600), Faults::default()), 1);
    while ring.now() < Time::from_secs(60) && ring.step() {}
    assert_eq!((ring.checks.sure(), ring.checks.violations()), (12, &[][..]));
    ring
}

#[test]
fn a_seat_that_is_lost_without_need_is_seen() {
    let mut ring = at_rest();
    let seat = ring.places[3].seat.unwrap();
    ring.check_loss(3, seat);
    let at = ring.now();
    let expected = Violation::LostAgainstItsWill { at, member: 3, ticket: seat.ticket, live: 5 };
    assert_eq!(ring.checks.violations(), [expected]);
}

#[test]
fn a_seat_that_is_lost_with_its_witnesses_is_no_surprise() {
    let mut ring = at_rest();
    let witnesses = ring.places[3].deed.clone().unwrap().witnesses;
    for witness in &witnesses[..3] {
        ring.crash(crate::sim::numbers::member_number(witness.member));
    }
    ring.check_loss(3, ring.places[3].seat.unwrap());
    assert_eq!(ring.checks.violations(), []);
}

#[test]
fn a_pull_without_a_right_is_seen() {
    let mut ring = at_rest();
    let others = ring.places[4].seat.unwrap();
    ring.begin_pull(3, others, 1_000);
    let is_it = |found: &Violation| matches!(found, Violation::PulledUnsure { member: 3, .. });
    assert!(ring.checks.violations().iter().any(is_it), "{:?}", ring.checks.violations());
}

#[test]
fn who_asks_too_much_is_seen() {
    let mut ring = at_rest();
    ring.check_asks(3, 55);
    assert_eq!(ring.checks.violations(), []);
    ring.check_asks(3, 56);
    let expected = Violation::TooManyAsks { at: ring.now(), member: 3, asks: 56, rounds: 10 };
    assert_eq!(ring.checks.violations(), [expected]);
}

#[test]
fn who_reminds_too_many_is_seen() {
    let mut ring = at_rest();
    let place = &ring.places[3];
    let (seat, deed) = (place.seat.unwrap(), place.deed.clone().unwrap());
    let asked = deed.witnesses.iter().map(|witness| crate::sim::numbers::member_number(witness.member));
    let asked: Vec<u32> = asked.collect();
    let standing = Standing { number: u64::MAX, deed, proposed: None };
    let ask = Ask {
        seat,
        standing,
        unsure_for: Duration::ZERO,
        is_settled: true,
        is_reminder: true,
        waiters: Vec::new(),
    };
    // Two rounds later all of its witnesses once, and then one of them again.
    ring.now = Time::from_secs(62);
    for whom in &asked {
        ring.check_reminders(3, *whom, &ask);
    }
    assert_eq!((asked.len(), ring.checks.violations()), (5, &[][..]));
    ring.check_reminders(3, asked[0], &ask);
    let expected = Violation::TooManyReminders { at: ring.now(), member: 3, within: Duration::ZERO };
    assert_eq!(ring.checks.violations(), [expected]);
}

#[test]
fn who_answers_too_many_reminders_is_seen() {
    let mut ring = at_rest();
    let asks: Vec<(u32, u32, Ask)> = (0..ring.places.len())
        .filter_map(|member| {
            let place = &ring.places[member];
            let (seat, deed) = (place.seat?, place.deed.clone()?);
            let witness = crate::sim::numbers::member_number(deed.witnesses.first()?.member);
            let standing = Standing { number: u64::MAX, deed, proposed: None };
            let (unsure_for, waiters) = (Duration::ZERO, Vec::new());
            let ask = Ask { seat, standing, unsure_for, is_settled: true, is_reminder: true, waiters };
            Some((u32::try_from(member).unwrap(), witness, ask))
        })
        .take(6)
        .collect();
    ring.now = Time::from_secs(62);
    for (member, witness, ask) in &asks {
        ring.check_reminders(*member, *witness, ask);
    }
    // One clock for all of them: what counts is who answers.
    let (member, witness, _) = asks[0];
    for _ in 0..5 {
        ring.check_answers(witness, member, u64::MAX);
    }
    assert_eq!(ring.checks.violations(), []);
    ring.check_answers(witness, member, u64::MAX);
    let expected = Violation::TooManyAnswers { at: ring.now(), member: witness, within: Duration::ZERO };
    assert_eq!(ring.checks.violations(), [expected]);
}

#[test]
fn a_ticket_of_a_crashed_member_that_nobody_takes_is_missed() {
    let mut ring = at_rest();
    ring.starts_idle = true;
    ring.crash(3);
    // All others are gone as well, so that nobody can; and nobody asks for another ring.
    for place in &mut ring.places {
        place.machine = None;
        place.has_work = false;
    }
    while ring.now() < Time::from_secs(100) && ring.step() {}
    let is_it = |found: &Violation| matches!(found, Violation::NotFreed { .. });
    assert!(ring.checks.violations().iter().any(is_it), "{:?}", ring.checks.violations());
}

#[test]
fn who_is_not_served_and_who_cannot_leave_are_missed() {
    for (is_leaving, expected) in [
        (false, Violation::NotServed { at: Time::from_secs(600), member: 5 }),
        (true, Violation::NotLeft { at: Time::from_secs(600), member: 5 }),
    ] {
        let mut ring = at_rest();
        ring.feed(5, Input::Leave);
        ring.places[5].machine = None;
        ring.places[5].served_in_peace = false;
        ring.places[5].is_leaving = is_leaving;
        while ring.step() {}
        let violations = ring.finish().violations;
        assert!(violations.contains(&expected), "{violations:?}");
    }
}
