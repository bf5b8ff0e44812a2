//! How soon a circle that was cut in two has one token again: `cargo bench --bench heal`, on virtual time.

use std::time::Duration;

use rayon::prelude::*;
use stroll::sim::whole::{Healing, Scenario};
use stroll::trust::Suite;

const SEEDS: u64 = 100;

fn main() {
    println!("time from the meeting of two halves to one token, in mean return times; {SEEDS} seeds each");
    println!(
        "{:>7} {:>9} {:>11} {:>10} {:>6} {:>6} {:>6} {:>6} {:>7}",
        "members", "cut for s", "return time", "two tokens", "p50", "p90", "p99", "max", "not one"
    );
    // Members look for the forgotten every 30 s, and here all at the same moment: no cut may end just then.
    for (members, cut) in [(8, 120), (8, 1200), (16, 300), (16, 1200), (30, 910), (30, 2410)] {
        report(members, Duration::from_secs(cut));
    }
}

fn report(members: usize, cut: Duration) {
    let whole = Duration::from_secs(20 * members as u64);
    let scenario = Scenario {
        members,
        suite: Suite::Simulated,
        duration: whole + cut,
        settle: Duration::from_secs(10 * members as u64),
        ..Scenario::default()
    };
    let all: Vec<Healing> =
        (0..SEEDS).into_par_iter().map(|seed| Healing::measure(&scenario, whole, seed)).collect();
    let mut times: Vec<f64> =
        all.iter().filter(|healing| healing.tokens > 1).map(Healing::return_times).collect();
    times.sort_by(f64::total_cmp);
    let at = |percent: usize| times.get(times.len() * percent / 100).copied().unwrap_or(f64::NAN);
    let return_time =
        all.iter().map(|healing| healing.return_time.as_secs_f64()).sum::<f64>() / all.len() as f64;
    let not_one = all.iter().filter(|healing| healing.left > 1 || healing.violations > 0).count();
    println!(
        "{members:>7} {:>9} {return_time:>9.1} s {:>10} {:>6.2} {:>6.2} {:>6.2} {:>6.2} {not_one:>7}",
        cut.as_secs(),
        times.len(),
        at(50),
        at(90),
        at(99),
        times.last().copied().unwrap_or(f64::NAN),
    );
}
