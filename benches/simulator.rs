//! How fast the simulator is: events per second and memory per member, at growing numbers of members.
//!
//! `cargo bench --bench simulator` prints a table. The cost per event should grow no faster than log N: the column
//! `ns/event ÷ log2 N` must not rise much from row to row (caches make it rise a little).

use std::time::{Duration, Instant};

use stroll::proto::agent::Rules;
use stroll::sim::{Coordination, Scenario, Simulation};

fn main() {
    println!(
        "{:10} {:>9} {:>12} {:>12} {:>9} {:>14} {:>14} {:>14}",
        "rules", "members", "virtual s", "events", "real s", "events/s", "ns/ev ÷ log2N", "bytes/member"
    );
    let rule_sets = [
        ("uncoord.", Coordination::Uncoordinated),
        ("early", Coordination::Agents(Rules::early())),
        ("classic", Coordination::Agents(Rules::classic())),
        ("guarded", Coordination::Agents(Rules::guarded())),
    ];
    for (name, coordination) in rule_sets {
        // The papers' case study; then one nominal period of larger circles.
        for (members, periods) in [(300, 1e5 / 1200.0), (10_000, 1.0), (1_000_000, 1.0)] {
            measure(name, coordination.clone(), members, periods);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn measure(name: &str, coordination: Coordination, members: u32, periods: f64) {
    let slot = Duration::from_secs(4);
    let scenario = Scenario {
        coordination,
        members: members as usize,
        capacity: members,
        duration: (slot * members).mul_f64(periods),
        ..Scenario::default()
    };
    let before = resident_bytes();
    let started = Instant::now();
    let mut simulation = Simulation::new(&scenario, 1).expect("the scenario makes sense");
    let mut events = 0_u64;
    while simulation.step() {
        events += 1;
    }
    let seconds = started.elapsed().as_secs_f64();
    let grown =
        resident_bytes().zip(before).map(|(after, before)| after.saturating_sub(before) / u64::from(members));
    drop(simulation);
    // Small circles reuse what the allocator already has: nothing to see there.
    let grown = grown.filter(|_| members >= 100_000).map_or("–".to_owned(), |bytes| bytes.to_string());
    println!(
        "{name:10} {members:9} {:12.0} {events:12} {seconds:9.2} {:14.0} {:14.1} {grown:>14}",
        scenario.duration.as_secs_f64(),
        events as f64 / seconds,
        1e9 * seconds / events as f64 / f64::from(members).log2(),
    );
}

/// The memory of this process, where the system tells.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kilobytes * 1024)
}
