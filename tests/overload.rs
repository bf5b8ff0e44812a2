//! The overload verdict, by simulation: fixed seeds, so that nothing here depends on the machine. Circles of the papers' case
//! study, in which every member runs the load machine of a real one; `cargo bench --bench overload` has more of it.

use std::time::Duration;

use stroll::proto::agent::Rules;
use stroll::sim::{Coordination, Scenario, Simulation, Surge, Verdicts};

const NOMINAL_S: f64 = 1200.0;

fn said(members: usize, duration_s: u64, surge: Option<Surge>, seed: u64) -> Verdicts {
    let scenario = Scenario {
        coordination: Coordination::Agents(Rules::guarded()),
        members,
        duration: Duration::from_secs(duration_s),
        loss_every: Some(Duration::from_secs(10_000)),
        verdicts: true,
        surge,
        ..Scenario::default()
    };
    let outcome = Simulation::new(&scenario, seed).expect("the scenario makes sense").run();
    outcome.verdicts().cloned().expect("verdicts were asked for")
}

#[test]
fn at_nine_tenths_of_the_capacity_there_is_less_than_one_false_alarm_per_member_and_year() {
    let said = said(270, 300_000, None, 11);
    assert!(said.member_s > 8e7, "two and a half member-years, not {} s", said.member_s);
    assert!(said.alarms_per_year() < 1.0, "{said:?}");
}

#[test]
fn a_step_to_half_as_much_again_is_told_by_all_within_three_return_times() {
    let surge = Some(Surge { at: Duration::from_secs(50_000), members: 150 });
    let said = said(300, 60_000, surge, 12);
    assert_eq!((said.told.count(), said.untold), (300, 0), "everybody told");
    let told = |share: f64| said.told.quantile_s(share).unwrap_or(f64::MAX) / NOMINAL_S;
    assert!(told(0.5) < 1.5, "half of them after {} return times", told(0.5));
    let last = said.told.max_s().unwrap_or(f64::MAX) / NOMINAL_S;
    assert!(last < 3.0, "the last one after {last} return times");
}

#[test]
fn the_same_seed_gives_the_same_verdicts() {
    let surge = Some(Surge { at: Duration::from_secs(10_000), members: 150 });
    let (one, two) = (said(300, 20_000, surge, 5), said(300, 20_000, surge, 5));
    assert_eq!((one.asked, one.told.max_s(), one.changes), (two.asked, two.told.max_s(), two.changes));
    assert!(one.asked > 0);
}
