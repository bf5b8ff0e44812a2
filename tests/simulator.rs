//! The simulator against the papers: fixed seeds, ranges from the papers and from the reference model.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]

use std::time::Duration;

use proptest::prelude::*;
use stroll::proto::agent::rules::Regeneration;
use stroll::proto::agent::{Event, Origin, Rules};
use stroll::sim::{Churn, Circle, Coordination, Moment, Outcome, Report, Scenario, Simulation, Trace, View};

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// The case study of the 2009 paper, with its losses.
fn case_study(coordination: Coordination) -> Scenario {
    Scenario { coordination, loss_every: Some(seconds(1e4)), ..Scenario::default() }
}

fn agents(rules: Rules) -> Coordination {
    Coordination::Agents(rules)
}

fn report(scenario: &Scenario, runs: u64) -> Report {
    let mut sum = Outcome::default();
    for seed in 1..=runs {
        sum.add(&Simulation::new(scenario, seed).expect("the scenario makes sense").run());
    }
    Report::new("", scenario, &sum, 0.0)
}

#[track_caller]
fn within(what: &str, value: f64, range: std::ops::RangeInclusive<f64>) {
    assert!(range.contains(&value), "{what} is {value}, not in {range:?}");
}

fn trace(scenario: &Scenario, seed: u64) -> Vec<Moment> {
    let Coordination::Agents(rules) = &scenario.coordination else { panic!("only circles are traced") };
    let mut circle = Circle::new(scenario, rules, seed).expect("the scenario makes sense");
    circle.keep_trace();
    while circle.step() {}
    circle.trace().to_vec()
}

// --- the papers' figures ----------------------------------------------------------------------------------------

#[test]
fn uncoordinated_members_idle_and_collide_as_in_the_papers() {
    let report = report(&case_study(Coordination::Uncoordinated), 10);
    within("idle", report.share_of_time.none, 36.0..=41.0);
    within("more than two", report.share_of_time.more, 7.0..=9.0);
    within("mean interval", report.access_interval_s.mean.unwrap(), 1190.0..=1210.0);
    within("longest interval", report.access_interval_s.max.unwrap(), 1795.0..=1800.0);
}

#[test]
fn classic_agrees_with_the_paper() {
    let report = report(&case_study(agents(Rules::classic())), 10);
    within("idle", report.share_of_time.none, 8.0..=10.5);
    within("two", report.share_of_time.two, 5.0..=8.0);
    within("more than two", report.share_of_time.more, 0.15..=0.4);
    within("regenerated per 1e5 s", report.regenerated as f64 / 10.0, 55.0..=75.0);
    within("mean interval", report.access_interval_s.mean.unwrap(), 1190.0..=1245.0);
}

#[test]
fn classic_degrades_smoothly_from_70_to_120_percent_of_the_capacity() {
    let mut before = 0.0;
    for members in [210, 240, 270, 300, 330, 360] {
        let report = report(&Scenario { members, ..case_study(agents(Rules::classic())) }, 4);
        let mean = report.access_interval_s.mean.unwrap();
        assert!(mean > before, "intervals grow with the membership: {mean} at {members}, {before} before");
        assert!(
            before == 0.0 || mean < before * 1.3,
            "and no step is steep: {mean} at {members}, {before} before"
        );
        within("more than two", report.share_of_time.more, 0.0..=1.0);
        before = mean;
    }
}

#[test]
fn classic_hardly_recovers_when_a_token_is_lost_every_100_s() {
    let report =
        report(&Scenario { loss_every: Some(seconds(100.0)), ..case_study(agents(Rules::classic())) }, 10);
    within("idle", report.share_of_time.none, 98.0..=99.2);
    within("one", report.share_of_time.one, 0.8..=1.8);
}

fn early(members: usize) -> Scenario {
    Scenario {
        members,
        skip: seconds(1.0),
        duration: seconds(1e6),
        coordination: agents(Rules::early()),
        ..Scenario::default()
    }
}

#[test]
fn early_at_half_the_capacity_agrees_with_the_paper() {
    let report = report(&early(150), 1);
    within("more than one", report.share_of_time.two + report.share_of_time.more, 0.3..=0.6);
    within("idle", report.share_of_time.none, 32.5..=34.0);
    within("mean interval", report.access_interval_s.mean.unwrap(), 885.0..=900.0);
}

#[test]
fn early_at_full_capacity_agrees_with_the_paper() {
    let report = report(&early(300), 1);
    within("more than one", report.share_of_time.two + report.share_of_time.more, 8.5..=11.0);
    within("idle", report.share_of_time.none, 15.0..=17.0);
    within("regenerated per 1e5 s", report.regenerated as f64 / 10.0, 1350.0..=1600.0);
}

#[test]
fn uncoordinated_members_of_the_earlier_paper_collide_more_often() {
    for (members, more_than_one) in [(150, 18.5..=19.7), (300, 46.8..=48.3)] {
        let coordination = Coordination::Uncoordinated;
        let longest_wait = Some(1.5);
        let report = report(&Scenario { coordination, members, longest_wait, ..Scenario::default() }, 5);
        within("more than one", report.share_of_time.two + report.share_of_time.more, more_than_one);
    }
}

/// One loss in each of ten runs, long after the start and long before the end.
fn after_one_loss(members: usize, rules: Rules) -> Report {
    let scenario = Scenario {
        members,
        coordination: agents(rules),
        loss_every: Some(seconds(72_000.0)),
        duration: seconds(142_800.0),
        ..early(members)
    };
    report(&scenario, 10)
}

#[test]
fn early_gets_a_new_token_sooner_than_classic_and_is_stable_much_later() {
    let (early, classic) = (after_one_loss(150, Rules::early()), after_one_loss(150, Rules::classic()));
    within("early, first new token", early.recovery_s.mean.unwrap(), 100.0..=700.0);
    within("classic, first new token", classic.recovery_s.mean.unwrap(), 700.0..=3_500.0);
    within("early, stable", early.stabilisation_s.mean.unwrap(), 8_000.0..=30_000.0);
    within("classic, stable", classic.stabilisation_s.mean.unwrap(), 700.0..=3_500.0);
}

// --- what the guarded rules are for -----------------------------------------------------------------------------

fn assert_guarded(report: &Report, idle: f64, two: f64, more: f64) {
    within("idle", report.share_of_time.none, 0.0..=idle);
    within("two", report.share_of_time.two, 0.0..=two);
    within("more than two", report.share_of_time.more, 0.0..=more);
    let interval = &report.access_interval_s;
    within("p99 over mean", interval.p99.unwrap() / interval.mean.unwrap(), 1.0..=1.6);
    within("recovery, p99", report.recovery_s.p99.unwrap(), 1.0..=9.0);
}

#[test]
fn guarded_keeps_the_link_busy_with_one_member_at_a_time() {
    let report = report(&case_study(agents(Rules::guarded())), 10);
    assert_eq!(report.lost, 90);
    assert_guarded(&report, 0.3, 0.15, 0.005);
}

#[test]
fn guarded_with_views_of_32_members_is_as_good_within_a_factor_of_two() {
    let report = report(&Scenario { view: View::Random(32), ..case_study(agents(Rules::guarded())) }, 10);
    assert_guarded(&report, 0.6, 0.3, 0.01);
}

#[test]
fn guarded_at_twice_the_capacity_still_keeps_tokens_apart() {
    let report = report(&Scenario { members: 600, ..case_study(agents(Rules::guarded())) }, 10);
    assert_guarded(&report, 0.3, 0.3, 0.005);
    within("load factor", report.load_factor.unwrap(), 1.9..=2.1);
}

#[test]
fn guarded_survives_a_loss_every_100_s() {
    let report =
        report(&Scenario { loss_every: Some(seconds(100.0)), ..case_study(agents(Rules::guarded())) }, 4);
    within("idle", report.share_of_time.none, 4.0..=7.0);
    within("two", report.share_of_time.two, 0.0..=0.15);
}

#[test]
fn clocks_that_are_1000_s_apart_do_no_harm() {
    let skewed = Scenario { clock_skew: seconds(1000.0), ..case_study(agents(Rules::guarded())) };
    assert_guarded(&report(&skewed, 4), 0.3, 0.15, 0.005);
}

#[test]
fn with_message_delay_the_link_idles_by_one_delay_per_visit_and_no_more() {
    let delayed = Scenario { delay: seconds(0.05), loss_every: None, ..case_study(agents(Rules::guarded())) };
    let report = report(&delayed, 2);
    let one_delay_per_slot = 100.0 * 0.05 / 4.05;
    within("idle in passing", report.idle_in_passing, 0.0..=one_delay_per_slot * 1.1);
    within("idle besides", report.share_of_time.none - report.idle_in_passing, 0.0..=0.3);
    within("two", report.share_of_time.two, 0.0..=0.15);
}

/// A circle laid out for 300 members of which only some have work.
fn partly_active(members: usize, active: usize, duration: f64, runs: u64) -> Report {
    let coordination = agents(scouts(members.min(8)));
    let active = Some(active);
    let duration = seconds(duration);
    report(&Scenario { coordination, members, active, duration, ..Scenario::default() }, runs)
}

#[test]
fn the_only_member_with_work_pulls_all_the_time_however_large_the_circle_is() {
    for members in [3, 30, 300] {
        let report = partly_active(members, 1, 20_000.0, 10);
        within("one", report.share_of_time.one, 97.0..=100.0);
        within("two", report.share_of_time.two, 0.0..=0.0);
        assert_eq!((report.regenerated, report.removed), (0, 0), "{members} members");
    }
}

#[test]
fn ten_of_300_members_with_work_share_the_link_fairly() {
    let report = partly_active(300, 10, 100_000.0, 10);
    within("idle", report.share_of_time.none, 0.0..=2.0);
    within("two", report.share_of_time.two, 0.0..=0.0);
    within("fairness", report.jain, 0.99..=1.0);
}

#[test]
fn three_of_30_members_with_work_lose_little_by_message_delay() {
    let coordination = agents(Rules::guarded());
    let (members, active, delay) = (30, Some(3), seconds(0.02));
    let duration = seconds(20_000.0);
    let report =
        report(&Scenario { coordination, members, active, delay, duration, ..Scenario::default() }, 4);
    within("idle", report.share_of_time.none, 0.0..=2.0);
    within("fairness", report.jain, 0.99..=1.0);
    assert_eq!((report.regenerated, report.removed), (0, 0));
}

#[test]
fn a_full_circle_is_as_busy_and_as_fair_as_with_a_least_interval() {
    let report = report(&Scenario { loss_every: None, ..case_study(agents(Rules::guarded())) }, 10);
    within("idle", report.share_of_time.none, 0.0..=0.1);
    within("two", report.share_of_time.two, 0.0..=0.05);
    let interval = &report.access_interval_s;
    within("p99 over mean", interval.p99.unwrap() / interval.mean.unwrap(), 1.0..=1.6);
}

#[test]
fn when_the_only_member_with_work_crashes_the_others_notice_within_seconds() {
    let crashes = Scenario {
        members: 20,
        capacity: 20,
        active: Some(1),
        duration: seconds(20_000.0),
        churn: Churn { crash_every: Some(seconds(60.0)), restart_after: seconds(120.0), ..Churn::default() },
        ..Scenario::default()
    };
    let report = report(&crashes, 4);
    assert!(report.lost > 20, "crashes hit the holder: {}", report.lost);
    within("mean recovery", report.recovery_s.mean.unwrap(), 1.0..=20.0);
}

/// What one part of the guarded rules is good for: the same circle without it.
fn guarded_without(change: impl FnOnce(&mut Rules)) -> Report {
    let mut rules = Rules::guarded();
    change(&mut rules);
    report(&case_study(agents(rules)), 4)
}

#[test]
fn without_custody_a_loss_costs_minutes() {
    let report = guarded_without(|rules| rules.custody = None);
    within("mean recovery", report.recovery_s.mean.unwrap(), 300.0..=10_000.0);
}

#[test]
fn without_sightings_spurious_tokens_live_longer() {
    let with = guarded_without(|_| {});
    let without = guarded_without(|rules| {
        rules.sightings = None;
        rules.regeneration = Regeneration::Poisson;
    });
    assert!(without.share_of_tokens.two > 10.0 * with.share_of_tokens.two.max(0.01), "{without:?}");
}

#[test]
fn without_scouting_the_random_walk_is_unfair_and_skips() {
    let report = guarded_without(|rules| rules.scouting = None);
    let interval = &report.access_interval_s;
    within("p99 over mean", interval.p99.unwrap() / interval.mean.unwrap(), 2.0..=5.0);
    within("skips per slot", report.skips_per_slot, 0.7..=1.5);
}

#[test]
fn without_the_stretch_members_of_a_crowded_circle_raise_more_false_alarms() {
    let false_alarms = |rules: Rules| {
        let report = report(&Scenario { members: 900, ..case_study(agents(rules)) }, 2);
        report.regenerated - report.lost
    };
    let without = Rules { regeneration: Regeneration::Poisson, ..Rules::guarded() };
    let (with, without) = (false_alarms(Rules::guarded()), false_alarms(without));
    assert!(without > 2 * with, "{without} without, {with} with");
}

// --- repeatability ----------------------------------------------------------------------------------------------

#[test]
fn a_seed_gives_the_same_trace_twice_and_another_seed_another() {
    let eventful = Scenario {
        members: 40,
        capacity: 40,
        duration: seconds(5_000.0),
        loss_every: Some(seconds(300.0)),
        delay: seconds(0.02),
        view: View::Random(12),
        churn: Churn {
            crash_every: Some(seconds(200.0)),
            restart_after: seconds(30.0),
            join_every: Some(seconds(400.0)),
            leave_every: Some(seconds(400.0)),
        },
        clock_skew: seconds(10.0),
        ..Scenario::default()
    };
    for rules in [Rules::early(), Rules::classic(), Rules::guarded()] {
        let scenario = Scenario { coordination: agents(rules), ..eventful.clone() };
        let first = trace(&scenario, 7);
        assert!(first.len() > 500, "something happened");
        assert_eq!(first, trace(&scenario, 7));
        assert_ne!(first, trace(&scenario, 8));
    }
}

// --- churn ------------------------------------------------------------------------------------------------------

#[test]
fn a_crash_of_the_holder_costs_seconds() {
    let crashes = Scenario {
        members: 20,
        capacity: 20,
        duration: seconds(50_000.0),
        churn: Churn { crash_every: Some(seconds(60.0)), restart_after: seconds(120.0), ..Churn::default() },
        ..Scenario::default()
    };
    let report = report(&crashes, 2);
    assert!(report.lost > 20, "crashes hit the holder: {}", report.lost);
    within("mean recovery", report.recovery_s.mean.unwrap(), 1.0..=9.0);
    within("longest: holder and custodian crashed together", report.recovery_s.max.unwrap(), 1.0..=2000.0);
    within("time without a token", report.share_of_tokens.none, 0.0..=1.0);
}

#[test]
fn members_come_and_go_and_newcomers_are_served() {
    let churn = Scenario {
        members: 50,
        capacity: 100,
        duration: seconds(20_000.0),
        churn: Churn {
            join_every: Some(seconds(400.0)),
            leave_every: Some(seconds(500.0)),
            ..Churn::default()
        },
        ..Scenario::default()
    };
    for view in [View::Full, View::Random(16)] {
        let trace = trace(&Scenario { view, ..churn.clone() }, 3);
        let count = |wanted: &Trace| trace.iter().filter(|moment| moment.what == *wanted).count();
        assert!(count(&Trace::Joined) > 20 && count(&Trace::Left) > 20);
        let newcomers = |moment: &&Moment| moment.what == Trace::Joined && moment.at.as_secs_f64() < 18_000.0;
        for newcomer in trace.iter().filter(newcomers) {
            let left =
                trace.iter().find(|moment| moment.member == newcomer.member && moment.what == Trace::Left);
            let served = trace.iter().any(|moment| {
                moment.member == newcomer.member
                    && matches!(moment.what, Trace::Agent(Event::SlotBegan { .. }))
            });
            assert!(
                served || left.is_some(),
                "member {} joined at {} and was never served",
                newcomer.member,
                newcomer.at
            );
        }
        for leaver in trace.iter().filter(|moment| moment.what == Trace::Left) {
            let after = |moment: &&Moment| moment.at > leaver.at && moment.member == leaver.member;
            assert_eq!(trace.iter().find(after), None, "who has left does nothing any more");
        }
    }
}

// --- extremes ---------------------------------------------------------------------------------------------------

fn small(members: usize, capacity: u32, rules: Rules) -> Scenario {
    Scenario {
        members,
        capacity,
        duration: seconds(3_000.0),
        coordination: agents(rules),
        ..Scenario::default()
    }
}

fn scouts(count: usize) -> Rules {
    let mut rules = Rules::guarded();
    if let Some(scouting) = &mut rules.scouting {
        scouting.scouts = count;
    }
    rules
}

#[test]
fn one_member_alone_is_served_at_its_least_interval() {
    for (rules, interval) in
        [(Rules::early(), 20.0..=24.5), (Rules::classic(), 20.0..=24.5), (scouts(1), 4.0..=4.0)]
    {
        let report = report(&small(1, 10, rules), 1);
        assert_eq!(report.share_of_tokens.one, 100.0);
        within("mean interval", report.access_interval_s.mean.unwrap(), interval);
    }
}

#[test]
fn two_members_share_fairly() {
    for rules in [Rules::early(), Rules::classic(), scouts(1)] {
        let report = report(&small(2, 2, rules), 1);
        within("one", report.share_of_time.one, 95.0..=100.0);
        within("fairness", report.jain, 0.999..=1.0);
    }
}

#[test]
fn without_losses_guarded_needs_its_first_token_only() {
    let report = report(&Scenario { loss_every: None, ..case_study(agents(Rules::guarded())) }, 2);
    within("one", report.share_of_time.one, 99.9..=100.0);
    within("time without a token", report.share_of_tokens.none, 0.0..=0.0);
    assert_eq!(report.recovery_s.mean, None);
}

#[test]
fn a_loss_at_every_handoff_ends_no_run() {
    for rules in [Rules::early(), Rules::classic()] {
        let scenario = Scenario { loss_every: Some(seconds(0.01)), ..small(30, 30, rules) };
        within("lost", report(&scenario, 1).lost as f64, 5.0..=1000.0);
    }
    let trace = trace(&Scenario { loss_every: Some(seconds(0.01)), ..small(30, 30, Rules::guarded()) }, 1);
    let count = |wanted: fn(&Event) -> bool| {
        trace.iter().filter(|moment| matches!(&moment.what, Trace::Agent(event) if wanted(event))).count()
    };
    let made = count(|event| matches!(event, Event::Generated { because: Origin::CustodyUnanswered, .. }));
    // Each of them gives a slot first: 4 s, and 5.7 s until custody has found that it is lost.
    assert!(made > 250, "custody replaces every one of them: {made}");
    assert_eq!(count(|event| matches!(event, Event::Visited { .. })), made, "none arrives where it was sent");
}

#[test]
fn a_million_members_start_and_take_turns() {
    let crowd = Scenario {
        members: 1_000_000,
        capacity: 1_000_000,
        duration: seconds(2_000.0),
        ..Scenario::default()
    };
    let report = report(&crowd, 1);
    within("one", report.share_of_time.one, 99.9..=100.0);
    assert_eq!(report.access_interval_s.mean, None, "nobody can have had two slots yet");
}

#[test]
fn guarded_with_every_part_switched_off_is_classic() {
    let mut rules = Rules::guarded();
    rules.scouting = None;
    rules.sightings = None;
    rules.custody = None;
    rules.meeting = false;
    rules.work_conserving = false;
    rules.announcing = None;
    rules.regeneration = Regeneration::Poisson;
    assert_eq!(rules, Rules::classic());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever is asked for, tokens are accounted for and slots stay within bounds.
    #[test]
    fn any_circle_keeps_its_books(
        members in 1_usize..40,
        capacity in 1_u32..60,
        which in 0_usize..3,
        seed in any::<u64>(),
        loss in prop::option::of(1.0..500.0_f64),
        crash in prop::option::of(1.0..500.0_f64),
        join in prop::option::of(20.0..500.0_f64),
        leave in prop::option::of(20.0..500.0_f64),
        delay in prop_oneof![Just(0.0), 0.0..0.5_f64, 0.5..8.0_f64],
        skew in 0.0..100.0_f64,
    ) {
        let rules = vec![Rules::early(), Rules::classic(), scouts(members.min(8))].swap_remove(which);
        let scenario = Scenario {
            delay: seconds(delay),
            loss_every: loss.map(seconds),
            churn: Churn {
                crash_every: crash.map(seconds),
                restart_after: seconds(20.0),
                join_every: join.map(seconds),
                leave_every: leave.map(seconds),
            },
            clock_skew: seconds(skew),
            ..small(members, capacity, rules)
        };
        let trace = trace(&scenario, seed);
        // The founder's slot began before the trace did.
        let mut pulling = std::collections::BTreeSet::new();
        let mut alive = 1_isize;
        for moment in &trace {
            match moment.what {
                Trace::Agent(Event::SlotBegan { .. }) => prop_assert!(pulling.insert(moment.member)),
                Trace::Agent(Event::SlotEnded) => { pulling.remove(&moment.member); }
                Trace::Agent(Event::Generated { .. }) => alive += 1,
                Trace::Agent(Event::Discarded { .. }) | Trace::Lost(_) => alive -= 1,
                _ => {}
            }
            prop_assert!(alive >= 0, "more tokens ended than were made, at {}", moment.at);
            prop_assert!(pulling.len().cast_signed() <= alive, "more pull than there are tokens, at {}", moment.at);
        }
        let report = report(&scenario, 1);
        let share: f64 = [report.share_of_time.none, report.share_of_time.one, report.share_of_time.two, report.share_of_time.more].iter().sum();
        prop_assert!((share - 100.0).abs() < 1e-6, "shares add up: {share}");
    }
}
