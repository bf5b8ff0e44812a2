//! Flags of `stroll simulate`: with the same seed, another result.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::Check;
use crate::desk::Desk;

/// What a run says in JSON, without the time that it took.
fn simulated(args: &[&str]) -> Vec<Value> {
    let output =
        Desk::new().stroll(&["simulate", "--json", "--progress", "none"]).args(args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    // A broken promise is a result, too.
    assert!(matches!(output.status.code(), Some(0 | 1 | 11)), "{args:?}: {said}");
    let lines = String::from_utf8(output.stdout).unwrap();
    let mut values: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for value in &mut values {
        value.as_object_mut().unwrap().remove("elapsed_s");
    }
    values
}

/// The result differs by these flags alone.
fn differs(base: &[&str], more: &[&str]) {
    let with: Vec<&str> = base.iter().chain(more).copied().collect();
    assert_eq!(simulated(base), simulated(base), "{base:?} is not repeatable");
    assert_ne!(simulated(base), simulated(&with), "{more:?} changes nothing");
}

const TOKEN: &[&str] =
    &["--members", "6", "--capacity", "6", "--duration", "3000", "--rules", "guarded", "--loss-every", "300"];
const WHOLE: &[&str] = &["--whole", "--members", "4", "--duration", "40", "--fast-signatures"];
const TICKETS: &[&str] = &["--mode", "tickets", "--members", "6", "--tickets", "3", "--duration", "60"];

/// A flag, the run to which it is added, and what is added.
type Row = (&'static [&'static str], &'static [&'static str], &'static [&'static str]);

const ROWS: &[Row] = &[
    (&["rules"], &TOKEN_RULES, &["--rules", "classic"]),
    (&["without"], TOKEN, &["--without", "custody"]),
    (&["members"], &["--duration", "3000", "--rules", "guarded", "--capacity", "6"], &["--members", "5"]),
    (&["capacity"], &["--members", "6", "--duration", "3000", "--rules", "guarded"], &["--capacity", "12"]),
    (&["slot"], TOKEN, &["--slot", "2s"]),
    (&["skip"], &TOKEN_RULES_CLASSIC, &["--skip", "1s"]),
    (&["active"], TOKEN, &["--active", "2"]),
    (&["active"], WHOLE, &["--active", "2"]),
    (&["min-interval"], &TOKEN_RULES_CLASSIC, &["--min-interval", "100s"]),
    (&["max-interval"], TOKEN_EARLY, &["--max-interval", "50s"]),
    (&["regeneration-mean"], &TOKEN_RULES_CLASSIC, &["--regeneration-mean", "100s"]),
    (&["longest-wait"], TOKEN_UNCOORDINATED, &["--longest-wait", "1.5"]),
    (&["stream-rate"], TOKEN, &["--stream-rate", "650k"]),
    (&["duration"], &["--members", "6", "--capacity", "6", "--rules", "guarded"], &["--duration", "2000"]),
    (&["loss-every"], TOKEN_QUIET, &["--loss-every", "300"]),
    (&["delay"], TOKEN, &["--delay", "200ms"]),
    (&["scouts"], TOKEN_OVER, &["--scouts", "1"]),
    (&["view"], TOKEN_OVER, &["--view", "3"]),
    (&["crash-every"], TOKEN, &["--crash-every", "200"]),
    (&["restart-after"], TOKEN_CRASHES, &["--restart-after", "10"]),
    (&["join-every"], TOKEN, &["--join-every", "500"]),
    (&["leave-every"], TOKEN, &["--leave-every", "900"]),
    (&["clock-skew"], &TOKEN_RULES_CLASSIC, &["--clock-skew", "600s"]),
    (&["overload"], TOKEN, &["--overload"]),
    (&["surge"], TOKEN, &["--surge", "4"]),
    (&["runs"], TOKEN, &["--runs", "2"]),
    (&["seed"], TOKEN_OVER, &["--seed", "7"]),
    (&["whole"], &["--members", "4", "--duration", "40"], &["--whole"]),
    (&["swarm"], WHOLE, &["--swarm"]),
    (&["loss"], WHOLE, &["--loss", "0.3"]),
    (&["duplication"], WHOLE, &["--duplication", "0.3"]),
    (&["corruption"], WHOLE, &["--corruption", "0.3"]),
    (&["replay"], WHOLE, &["--replay", "0.3"]),
    (&["jitter"], WHOLE, &["--jitter", "300ms"]),
    (&["split-every"], WHOLE, &["--split-every", "10s"]),
    (&["pause-every"], WHOLE, &["--pause-every", "10s"]),
    (&["ban-every"], WHOLE, &["--ban-every", "10s"]),
    (&["expiring"], WHOLE_LONG, &["--expiring", "0.25"]),
    (&["bursts"], WHOLE, &["--bursts", "5s"]),
    (&["settle"], WHOLE, &["--settle", "200s"]),
    (&["mode"], &["--members", "6", "--duration", "60"], &["--mode", "tickets"]),
    (&["tickets"], &["--mode", "tickets", "--members", "6", "--duration", "60"], &["--tickets", "4"]),
    (&["faults"], TICKETS, &["--faults", "1"]),
    (&["drift-ppm"], TICKETS, &["--drift-ppm", "20000"]),
    (&["real-drift-ppm"], TICKETS, &["--real-drift-ppm", "50"]),
    (&["idle-every"], TICKETS, &["--idle-every", "5s"]),
];

const TOKEN_RULES: [&str; 6] = ["--members", "6", "--capacity", "6", "--duration", "3000"];
const TOKEN_RULES_CLASSIC: [&str; 12] = [
    "--members",
    "20",
    "--capacity",
    "20",
    "--duration",
    "6000",
    "--rules",
    "classic",
    "--loss-every",
    "300",
    "--crash-every",
    "500",
];
const TOKEN_EARLY: &[&str] =
    &["--members", "20", "--capacity", "20", "--duration", "6000", "--rules", "early"];
const TOKEN_UNCOORDINATED: &[&str] = &["--members", "6", "--duration", "6000", "--rules", "uncoordinated"];
/// Long enough for certificates to expire.
const WHOLE_LONG: &[&str] =
    &["--whole", "--members", "8", "--duration", "200", "--settle", "200s", "--fast-signatures"];
const TOKEN_QUIET: &[&str] =
    &["--members", "6", "--capacity", "6", "--duration", "3000", "--rules", "guarded"];
/// Fewer members than the circle is laid out for.
const TOKEN_OVER: &[&str] = &[
    "--members",
    "20",
    "--capacity",
    "40",
    "--duration",
    "3000",
    "--rules",
    "guarded",
    "--loss-every",
    "300",
];
const TOKEN_CRASHES: &[&str] = &[
    "--members",
    "6",
    "--capacity",
    "6",
    "--duration",
    "3000",
    "--rules",
    "guarded",
    "--crash-every",
    "200",
];

pub(crate) fn checks() -> Vec<Check> {
    let rows =
        ROWS.iter().map(|(flags, base, more)| Check::new("simulate", flags, move || differs(base, more)));
    let others = [
        Check::new("simulate", &["json", "scenario", "config"], settings),
        Check::new("simulate", &["fast-signatures"], signatures_that_cost_nothing),
        Check::new("simulate", &["progress"], progress),
    ];
    rows.chain(others).collect()
}

fn settings() {
    let desk = Desk::new();
    fs::write(
        desk.path("six.toml"),
        "members = 6\ncapacity = 6\nduration = \"1000s\"\nrules = \"guarded\"\n",
    )
    .unwrap();
    fs::write(desk.path("five.toml"), "[simulate]\nmembers = 5\n").unwrap();
    let run = |args: &[&str]| {
        let output = desk.stroll(&["simulate"]).args(args).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let value: Value = serde_json::from_str(&run(&["--scenario", "six.toml", "--json"])).unwrap();
    assert_eq!(value["members"], 6);
    assert!(
        serde_json::from_str::<Value>(&run(&["--scenario", "six.toml"])).is_err(),
        "that is JSON without --json"
    );
    let few = ["--json", "--duration", "1000", "--rules", "guarded", "--capacity", "6"];
    let value: Value = serde_json::from_str(&run(&[&["--config", "five.toml"], &few[..]].concat())).unwrap();
    assert_eq!(value["members"], 5);
}

/// The signatures differ, so does what is random; and the same circle takes less time.
fn signatures_that_cost_nothing() {
    let base = ["--whole", "--members", "4", "--duration", "40"];
    differs(&base, &["--fast-signatures"]);
}

/// On a terminal, a bar is shown for what takes long.
fn progress() {
    let desk = Desk::new();
    let said = |style: &str| {
        let run = "simulate --duration 3e5 --rules guarded --members 20 --capacity 20 --runs 12";
        on_a_terminal(&desk, &format!("{run} --progress {style}"))
    };
    assert!(said("bar").contains("simulating") && !said("none").contains("simulating"));
}

/// What a command shows on a terminal.
pub(crate) fn on_a_terminal(desk: &Desk, words: &str) -> String {
    let mut command = Command::new("script");
    command.args(["-qfc", &format!("{} {words}", env!("CARGO_BIN_EXE_stroll")), "/dev/null"]);
    command.current_dir(desk.path("")).env("HOME", desk.home()).env("TERM", "xterm").stdin(Stdio::null());
    String::from_utf8_lossy(&command.output().unwrap().stdout).into_owned()
}
