//! How soon members tell that their circle is overloaded, and how often they say so without reason: simulated circles of the
//! papers' case study, in which every member runs the load machine of a real one.
//!
//! `cargo bench --bench overload` prints the figures of the README; an argument is the number of seeds (usually 4).

use std::time::Duration;

use stroll::proto::agent::Rules;
use stroll::sim::{Coordination, Outcome, Scenario, Simulation, Surge, Verdicts};

fn main() {
    let seeds = std::env::args().find_map(|word| word.parse().ok()).unwrap_or(4);
    for (name, rules) in [("guarded", Rules::guarded()), ("classic", Rules::classic())] {
        println!("{name}, capacity 300, slot 4 s, {seeds} seeds");
        for members in [150, 270, 300] {
            let scenario = Scenario { members, duration: Duration::from_secs(1_000_000), ..circle(&rules) };
            let said = run(&scenario, seeds);
            println!(
                "  {:3} % load: {:.4} false alarms per member and year ({} overloaded, {} starved in {:.0} member-years; \
                 {} changes of mind, others asked {:.1} times per member and day)",
                members / 3,
                said.alarms_per_year(),
                said.overloaded,
                said.starved,
                said.member_s / (365.25 * 86_400.0),
                said.changes,
                said.asked as f64 * 86_400.0 / said.member_s,
            );
        }
        for (before, joining) in [(300, 150), (270, 180), (300, 300)] {
            let surge = Some(Surge { at: Duration::from_secs(100_000), members: joining });
            let duration = Duration::from_secs(140_000);
            let said = run(&Scenario { members: before, surge, duration, ..circle(&rules) }, seeds * 4);
            let nominal_s = 1200.0;
            let told = |share: f64| said.told.quantile_s(share).unwrap_or(f64::NAN) / nominal_s;
            println!(
                "  step from {} % to {} %: told after p50 {:.2}, p90 {:.2}, p99 {:.2}, max {:.2} return times of 1200 s; {} \
                 of {} never",
                before / 3,
                (before + joining) / 3,
                told(0.5),
                told(0.9),
                told(0.99),
                told(1.0),
                said.untold,
                said.told.count() + said.untold,
            );
        }
    }
}

fn circle(rules: &Rules) -> Scenario {
    Scenario {
        coordination: Coordination::Agents(rules.clone()),
        loss_every: rules.custody.is_some().then_some(Duration::from_secs(10_000)),
        verdicts: true,
        ..Scenario::default()
    }
}

fn run(scenario: &Scenario, seeds: u64) -> Verdicts {
    let mut sum = Outcome::default();
    for seed in 1..=seeds {
        sum.add(&Simulation::new(scenario, seed).expect("the scenario makes sense").run());
    }
    sum.verdicts().cloned().unwrap_or_default()
}
