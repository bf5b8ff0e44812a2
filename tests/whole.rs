//! The whole-node simulator over many seeds, as much of it as a change should wait for.

use std::time::Duration;

use stroll::sim::whole::{Faults, Outcome, RingSize, Row, Scenario, Violation, Whole};
use stroll::trust::Suite;
use stroll::wire::records::RuleSet;

/// Runs these seeds; a broken promise fails with the seed that repeats it.
fn run(scenario: &Scenario, seeds: std::ops::Range<u64>) -> Outcome {
    let mut sum = Outcome::default();
    for seed in seeds {
        let outcome = Whole::new(scenario, seed).run();
        assert!(outcome.violations.is_empty(), "seed {seed} of {scenario:?}: {:?}", outcome.violations);
        sum.add(outcome);
    }
    sum
}

fn simulated() -> Scenario {
    Scenario { suite: Suite::Simulated, ..Scenario::default() }
}

#[test]
fn whatever_a_seed_lets_go_wrong_no_promise_is_broken() {
    let outcome = run(&Scenario { faults: None, ..simulated() }, 0..40);
    assert_eq!((outcome.runs, outcome.duplicates), (40, 0));
    assert!(outcome.passes > 8_000, "{outcome:?}");
    assert!(outcome.lost_by_crash > 3 && outcome.regenerated > 20, "faults that do nothing: {outcome:?}");
    assert!(outcome.removed > 0 && outcome.rejected > 1_000, "{outcome:?}");
    assert!(outcome.forgotten > 10 && outcome.banned > 10, "{outcome:?}");
}

/// Everything at once, with members that stand still for so long.
fn storm(pause_for: Duration) -> Faults {
    Faults {
        loss: 0.25,
        duplication: 0.3,
        replay: 0.2,
        jitter: Duration::from_millis(400),
        crash_every: Some(Duration::from_secs(30)),
        forgetting: 0.3,
        pause_every: Some(Duration::from_secs(5)),
        pause_for,
        ban_every: Some(Duration::from_secs(60)),
        expiring: 0.2,
        ..Faults::default()
    }
}

#[test]
fn every_row_of_the_handoffs_tables_is_reached() {
    // I13. Who slept for a moment keeps its token, who slept for long does not.
    let mut outcome = Outcome::default();
    // The last resort goes by how long a member usually hears nothing, which is long in a storm, and so must peace be.
    let settle = Duration::from_secs(900);
    for pause_for in [Duration::from_secs(2), Duration::from_secs(20)] {
        outcome.add(run(&Scenario { faults: Some(storm(pause_for)), settle, ..simulated() }, 0..20));
    }
    // Only somebody who cheats, or runs twice, offers a token that another one holds: the tests of attacks do.
    assert_eq!(outcome.rows.unreached(), [Row::MoveInConflict], "{:?}", outcome.rows);
}

#[test]
fn what_needs_a_fault_is_not_reached_without_one() {
    let unreached = run(&simulated(), 0..3).rows.unreached();
    let needs = |row: &Row| unreached.contains(row);
    assert!(
        [Row::MoveAgain, Row::GivenUp, Row::CommitAgain, Row::CommitAbandoned].iter().all(needs),
        "{unreached:?}"
    );
    assert!(![Row::Offer, Row::AckStopsPull, Row::EarlyStop].iter().any(needs), "{unreached:?}");
}

#[test]
fn real_signatures_change_nothing() {
    let scenario = Scenario { faults: None, duration: Duration::from_secs(150), ..Scenario::default() };
    assert_eq!(run(&scenario, 100..103).runs, 3);
}

#[test]
fn heavy_loss_with_crashes_loses_tokens_and_brings_them_back() {
    let faults = Faults {
        loss: 0.2,
        duplication: 0.05,
        crash_every: Some(Duration::from_secs(20)),
        ..Faults::default()
    };
    let outcome = run(&Scenario { faults: Some(faults), ..simulated() }, 0..10);
    assert!(outcome.lost_by_crash > 10 && outcome.regenerated >= outcome.lost_by_crash / 2, "{outcome:?}");
}

#[test]
fn loss_alone_loses_no_token() {
    let faults = Faults { loss: 0.05, ..Faults::default() };
    let outcome = run(&Scenario { faults: Some(faults), ..simulated() }, 0..10);
    assert_eq!((outcome.lost, outcome.lost_by_crash), (0, 0), "{outcome:?}");
    assert!(outcome.passes > 3_000, "{outcome:?}");
}

#[test]
fn a_good_network_has_one_token_and_makes_no_other() {
    let outcome = run(&simulated(), 0..3);
    assert_eq!((outcome.lost, outcome.regenerated, outcome.removed), (0, 0, 0), "{outcome:?}");
    // 420 s of one second each, of which less than a tenth is lost on the way.
    assert!(outcome.slots > 3 * 380, "{outcome:?}");
}

/// A circle that is laid out for 300 members, with fewer of them, of which some have work.
fn partly_active(members: usize, active: usize) -> Outcome {
    let capacity = Some(300);
    let faults = Faults { delay: Duration::from_millis(5), ..Faults::default() };
    let scenario = Scenario {
        members,
        active: Some(active),
        capacity,
        slot: Duration::from_secs(4),
        duration: Duration::from_secs(3_000),
        faults: Some(faults),
        ..simulated()
    };
    run(&scenario, 0..3)
}

#[test]
fn the_only_member_with_work_pulls_nearly_all_the_time() {
    for members in [3, 30] {
        let outcome = partly_active(members, 1);
        let percent = outcome.pulling_percent();
        assert!(percent[1] >= 97.0 && percent[2] == 0.0, "{members} members: {:?}", &percent[..3]);
        assert_eq!((outcome.lost, outcome.regenerated, outcome.removed), (0, 0, 0), "{members} members");
    }
}

#[test]
fn the_few_members_with_work_share_the_link_fairly() {
    let outcome = partly_active(30, 4);
    let percent = outcome.pulling_percent();
    assert!(percent[0] <= 2.0 && percent[2] == 0.0, "{:?}", &percent[..3]);
    // Of 14 seeds one has 0.977 and the others 0.990 to 0.999: eight of 29 are asked at a time.
    let mean = outcome.jain.iter().sum::<f64>() / outcome.jain.len() as f64;
    assert!(mean >= 0.985 && outcome.jain.iter().all(|jain| *jain >= 0.97), "{:?}", outcome.jain);
}

#[test]
fn all_sets_of_rules_keep_the_promises() {
    let faults = Faults { loss: 0.05, duplication: 0.05, ..Faults::default() };
    for rules in [RuleSet::Early, RuleSet::Classic, RuleSet::Guarded] {
        let scenario = Scenario { rules, faults: Some(faults.clone()), ..simulated() };
        for seed in 0..5 {
            let mut outcome = Whole::new(&scenario, seed).run();
            if rules != RuleSet::Guarded {
                // The papers' rules come to one token on average, not at any given moment.
                outcome.violations.retain(|violation| !matches!(violation, Violation::NotOneToken { .. }));
            }
            assert_eq!(outcome.violations, [], "{rules:?}, seed {seed}");
            assert!(outcome.slots > 100, "{rules:?}, seed {seed}: {outcome:?}");
        }
    }
}

#[test]
fn a_seed_repeats_its_run() {
    let scenario = Scenario { faults: None, ..simulated() };
    let outcome = |seed| format!("{:?}", Whole::new(&scenario, seed).run());
    assert_eq!(outcome(7), outcome(7));
    assert_ne!(outcome(7), outcome(8));
}

// --- tickets ----------------------------------------------------------------------------------------------------

fn with_tickets(members: usize, tickets: u16) -> Scenario {
    let ring = RingSize { tickets, faults: 2 };
    Scenario { members, suite: Suite::Simulated, ..Scenario::of_ring(ring) }
}

#[test]
fn whatever_a_seed_lets_go_wrong_no_ticket_is_in_two_hands() {
    let scenario = Scenario { faults: None, ..with_tickets(12, 6) };
    let mut outcome = Outcome::default();
    for seed in 0..15 {
        // Not everybody is served in time after every storm: only what must never happen is looked for.
        let mut run = Whole::new(&scenario, seed).run();
        run.violations.retain(Violation::is_duplicate);
        assert_eq!(run.violations, [], "seed {seed}");
        outcome.add(run);
    }
    assert!(outcome.slots > 3_000 && outcome.ring.rounds > 10_000, "{outcome:?}");
    assert!(outcome.ring.excluded > 20 && outcome.banned > 3, "faults that do nothing: {outcome:?}");
}

#[test]
fn on_a_good_network_tickets_go_round_and_everybody_is_served() {
    let outcome = run(&with_tickets(12, 6), 0..2);
    assert_eq!(outcome.ring.refounded, 0, "{outcome:?}");
    assert!(outcome.ring.given_back > 200 && outcome.slots > 600, "{outcome:?}");
}

/// How long members of an idle circle wait for their first slot after work has appeared, in order.
fn first_slots(members: usize, seeds: std::ops::Range<u64>) -> Vec<Duration> {
    let faults = Faults { delay: Duration::from_millis(20), jitter: Duration::ZERO, ..Faults::default() };
    let scenario = Scenario {
        members,
        bursts: Some(Duration::from_secs(10)),
        capacity: Some(300),
        slot: Duration::from_secs(4),
        faults: Some(faults),
        ..simulated()
    };
    let outcome = run(&scenario, seeds);
    assert_eq!(outcome.regenerated, 0, "no token is lost, so none may be replaced");
    let mut waits = outcome.first_slots;
    waits.sort_unstable();
    waits
}

#[test]
fn work_that_appears_in_an_idle_circle_is_served_at_once() {
    let waits = first_slots(10, 0..10);
    assert!(waits.len() > 200, "{}", waits.len());
    assert!(waits[waits.len() / 2] <= Duration::from_millis(500), "{waits:?}");
    assert!(waits[waits.len() * 99 / 100] <= Duration::from_secs(2), "{waits:?}");
}

#[test]
fn work_that_appears_in_a_large_idle_circle_is_served_within_seconds() {
    let waits = first_slots(300, 0..4);
    assert!(waits.len() > 80, "{}", waits.len());
    assert!(waits[waits.len() * 99 / 100] <= Duration::from_secs(5), "{waits:?}");
}

// --- long paths -------------------------------------------------------------------------------------------------

#[test]
fn no_token_is_made_needlessly_however_long_the_paths_are() {
    // By timeouts that did not follow round trips a taker whose Commit was lost was given up before it was repeated.
    for delay_ms in [20, 100, 280, 500] {
        let faults = Faults { delay: Duration::from_millis(delay_ms), loss: 0.02, ..Faults::default() };
        let scenario = Scenario { faults: Some(faults), duration: Duration::from_secs(1_200), ..simulated() };
        let outcome = run(&scenario, 0..3);
        assert_eq!((outcome.regenerated, outcome.needless), (0, 0), "{delay_ms} ms: {outcome:?}");
        assert_eq!(outcome.two_tokens, Duration::ZERO, "{delay_ms} ms");
        assert!(outcome.passes > 1_000, "{delay_ms} ms: {outcome:?}");
    }
}

#[test]
fn a_token_that_a_crash_took_is_replaced_within_seconds() {
    for (delay_ms, most) in [(20, Duration::from_secs(10)), (280, Duration::from_secs(20))] {
        let faults = Faults {
            delay: Duration::from_millis(delay_ms),
            crash_every: Some(Duration::from_secs(30)),
            ..Faults::default()
        };
        let scenario = Scenario { faults: Some(faults), duration: Duration::from_secs(900), ..simulated() };
        let mut recoveries = run(&scenario, 0..5).recoveries;
        recoveries.sort_unstable();
        assert!(recoveries.len() > 5, "{recoveries:?}");
        assert!(recoveries[recoveries.len() / 2] <= most, "{delay_ms} ms: {recoveries:?}");
    }
}

#[test]
fn clocks_that_are_an_hour_apart_break_no_promise() {
    let faults = Faults {
        clock_skew: Duration::from_secs(3_600),
        crash_every: Some(Duration::from_secs(60)),
        ..Faults::default()
    };
    let scenario =
        Scenario { members: 12, faults: Some(faults), duration: Duration::from_secs(900), ..simulated() };
    assert!(run(&scenario, 0..3).lost_by_crash > 0);
}

#[test]
fn recordings_of_crashed_members_keep_no_circle_from_a_new_token() {
    let faults = Faults { replay: 0.5, crash_every: Some(Duration::from_secs(20)), ..Faults::default() };
    let outcome = run(&Scenario { faults: Some(faults), ..simulated() }, 11_000_000_061..11_000_000_071);
    let slow = outcome.recoveries.iter().filter(|span| **span > Duration::from_secs(10)).count();
    // Where giver and taker crash together only the last resort is left.
    assert!(outcome.recoveries.len() > 10 && slow <= 2, "{outcome:?}");
}
