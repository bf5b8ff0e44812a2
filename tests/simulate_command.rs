//! `stroll simulate`, by spawning the binary: what a user and a script see.

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;

/// The binary, away from the settings of whoever runs the tests.
fn stroll() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stroll"));
    command.env_clear().env("HOME", "/nonexistent").env("XDG_CONFIG_HOME", "/nonexistent");
    command
}

fn simulate(args: &[&str]) -> Command {
    let mut command = stroll();
    command.arg("simulate").args(args);
    command
}

const SMALL: &[&str] = &["--members", "20", "--capacity", "20", "--duration", "2000"];

fn json(args: &[&str]) -> Vec<Value> {
    let output = simulate(args).arg("--json").assert().success().stderr("").get_output().stdout.clone();
    let text = String::from_utf8(output).expect("JSON is text");
    text.lines().map(|line| serde_json::from_str(line).expect("every line is an object")).collect()
}

#[test]
fn without_arguments_it_says_how_it_is_used() {
    stroll().assert().code(2).stderr(contains("Usage:").and(contains("simulate")));
}

#[test]
fn help_teaches() {
    let help = simulate(&["--help"]).assert().success();
    let words = [
        "--rules",
        "--loss-every",
        "--scouts",
        "--view",
        "--figures",
        "Examples:",
        "[default: 4s]",
        "custody",
    ];
    for word in words {
        let text = String::from_utf8_lossy(&help.get_output().stdout).into_owned();
        assert!(text.contains(word), "{word} is not in the help");
    }
}

#[test]
fn the_table_shows_every_rule_set_and_every_figure() {
    let table = simulate(SMALL).args(["--loss-every", "500"]).assert().success();
    let text = String::from_utf8_lossy(&table.get_output().stdout).into_owned();
    for word in [
        "uncoordinated",
        "early",
        "classic",
        "guarded",
        "members pulling",
        "access interval",
        "return time",
        "p99",
        "tokens",
        "regenerated",
        "removed",
        "skipped",
        "Jain",
        "from the loss of the last token",
        "20 members, capacity 20, slot 4s, skip 100ms; one run of 2000 s; a token lost every 500s",
    ] {
        assert!(text.contains(word), "{word:?} is not in\n{text}");
    }
}

#[test]
fn json_has_one_object_per_rule_set_with_the_documented_keys() {
    let objects = json(&[SMALL, &["--rules", "all", "--runs", "2"]].concat());
    let names: Vec<_> = objects.iter().map(|object| object["rules"].as_str().expect("a name")).collect();
    assert_eq!(names, ["uncoordinated", "early", "classic", "guarded"]);
    for object in &objects {
        assert_eq!((&object["members"], &object["runs"]), (&20.into(), &2.into()));
        for (key, parts) in [
            ("share_of_time", &["0", "1", "2", "more", "more_than_5"][..]),
            ("access_interval_s", &["mean", "p50", "p80", "p90", "p99", "max"]),
            ("share_of_tokens", &["0", "1", "2", "more"]),
        ] {
            for part in parts {
                assert!(object[key][part].is_number(), "{key}.{part} in {object}");
            }
        }
        assert!(object["stabilisation_s"].as_object().expect("an object").contains_key("p50"));
        for key in ["regenerated", "removed", "skips_per_slot", "jain", "events", "elapsed_s"] {
            assert!(object[key].is_number(), "{key} in {object}");
        }
        for (key, part) in [("return_time_s", "p80"), ("recovery_s", "mean"), ("recovery_s", "max")] {
            assert!(object[key].as_object().expect("an object").contains_key(part), "{key}.{part}");
        }
        let share = &object["share_of_time"];
        let sum: f64 = ["0", "1", "2", "more"].iter().filter_map(|level| share[level].as_f64()).sum();
        assert!((sum - 100.0).abs() < 1e-6, "{share}");
    }
    assert!(objects[3]["return_time_s"]["mean"].is_number());
    assert!(objects[0]["return_time_s"]["mean"].is_null(), "without tokens nothing returns");
}

#[test]
fn a_seed_gives_the_same_result_and_parallel_runs_do_not_change_it() {
    let run = |seed, cores| {
        let args = [SMALL, &["--runs", "4", "--seed", seed, "--loss-every", "300", "--json"]].concat();
        let output =
            simulate(&args).env("RAYON_NUM_THREADS", cores).assert().success().get_output().stdout.clone();
        let mut text = String::from_utf8(output).expect("JSON is text");
        // How long it took is the one thing that may differ.
        while let Some(at) = text.find("\"elapsed_s\":") {
            let end = at + text[at..].find('}').expect("the object ends");
            text.replace_range(at..end, "");
        }
        text
    };
    assert_eq!(run("5", "1"), run("5", "2"));
    assert_ne!(run("5", "1"), run("6", "1"));
}

#[test]
fn nonsense_names_the_field_and_exits_2() {
    for (args, field) in [
        (&["--slot", "0"][..], "slot"),
        (&["--slot", "1s", "--skip", "1s"], "skip"),
        (&["--capacity", "0"], "capacity"),
        (&["--members", "0"], "members"),
        (&["--rules", "guarded", "--members", "20", "--scouts", "21"], "scouts"),
        (&["--view", "0"], "view"),
        (&["--view", "many"], "--view"),
        (&["--duration", "4 fortnights"], "--duration"),
        (&["--rules", "anarchy"], "--rules"),
        (&["--without", "custody", "--rules", "classic"], "without"),
        (&["--loss-every", "0"], "loss-every"),
        (&["--runs", "0"], "runs"),
        (&["--members", "-3"], "-3"),
        (&["--min-interval", "0"], "min-interval"),
        (&["--max-interval", "1s"], "max-interval"),
        (&["--regeneration-mean", "0"], "regeneration-mean"),
        (&["--longest-wait", "0.5"], "longest-wait"),
        (&["--stream-rate", "fast"], "--stream-rate"),
        (&["--whole", "--min-interval", "10s"], "min-interval"),
    ] {
        simulate(args).assert().code(2).stdout("").stderr(contains(field));
    }
}

#[test]
fn flags_win_over_the_environment_over_the_scenario_over_the_settings() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = folder.path().join("stroll.toml");
    let scenario = folder.path().join("scenario.toml");
    fs::write(
        &settings,
        "[simulate]\nrules = 'classic'\nmembers = 11\ncapacity = 11\nduration = 100\nseed = 4",
    )
    .unwrap();
    fs::write(&scenario, "members = 12\ncapacity = 12").unwrap();
    let members = |command: &mut Command| {
        let output = command.args(["simulate", "--json"]).assert().success().get_output().stdout.clone();
        let object: Value = serde_json::from_slice(&output).expect("one object");
        object["members"].as_u64().expect("a number")
    };
    let settings = settings.to_str().unwrap();
    let scenario = scenario.to_str().unwrap();
    assert_eq!(members(stroll().args(["--config", settings])), 11);
    assert_eq!(members(stroll().env("STROLL_CONFIG", settings).env("STROLL_SCENARIO", scenario)), 12);
    let with_environment = || {
        let mut command = stroll();
        command.env("STROLL_CONFIG", settings).env("STROLL_SCENARIO", scenario).env("STROLL_MEMBERS", "13");
        command
    };
    assert_eq!(members(&mut with_environment()), 13);
    simulate(&["--members", "14", "--json"])
        .env("STROLL_CONFIG", settings)
        .env("STROLL_MEMBERS", "13")
        .assert()
        .success()
        .stdout(contains("\"members\":14"));
}

#[test]
fn an_unknown_key_and_a_missing_file_are_clear_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("scenario.toml");
    fs::write(&file, "members = 10\nslots = '4s'\n").unwrap();
    let path = file.to_str().unwrap();
    simulate(&["--scenario", path]).assert().code(2).stderr(contains("slots").and(contains("scenario.toml")));
    fs::write(&file, "slot = '4 parsecs'\n").unwrap();
    simulate(&["--scenario", path]).assert().code(2).stderr(contains("parsecs").and(contains("line 1")));
    fs::write(&file, "slot = [").unwrap();
    simulate(&["--scenario", path]).assert().code(2);
    simulate(&["--scenario", "nowhere.toml"]).assert().code(4).stderr(contains("nowhere.toml"));
    stroll().args(["--config", "nowhere.toml", "simulate"]).assert().code(4).stderr(contains("nowhere.toml"));
}

#[test]
fn the_shipped_scenarios_are_the_papers_case_studies() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/scenarios");
    let mut seen = 0;
    for entry in fs::read_dir(folder).expect("the scenarios are there") {
        let path = entry.expect("the entry can be read").path();
        // A short run shows that it is read; the figures are checked in the simulator's tests.
        let objects = json(&["--scenario", path.to_str().unwrap(), "--duration", "3000", "--runs", "1"]);
        assert!(objects.iter().all(|object| object["capacity"] == 300), "{}", path.display());
        seen += 1;
    }
    assert_eq!(seen, 4);
}

/// A circle that is laid out for 20 members, where Δ_min is 40 s.
const FOR_TWENTY: &[&str] = &["--capacity", "20", "--duration", "2000"];

/// The access intervals of one set of rules.
fn intervals(args: &[&str]) -> Value {
    json(&[FOR_TWENTY, args].concat()).swap_remove(0)["access_interval_s"].take()
}

#[test]
fn uncoordinated_members_wait_as_long_as_they_are_told() {
    for (args, longest) in [
        (&[][..], 118.0..=120.0),
        (&["--longest-wait", "1.5"], 59.0..=60.0),
        (&["--max-interval", "200s"], 195.0..=200.0),
        (&["--max-interval", "200s", "--longest-wait", "2"], 79.0..=80.0),
    ] {
        let args = [&["--rules", "uncoordinated", "--members", "20", "--runs", "10"], args].concat();
        let max = intervals(&args)["max"].as_f64().expect("a number");
        assert!(longest.contains(&max), "{args:?}: {max}");
    }
}

#[test]
fn the_least_interval_can_be_given() {
    let shortest = |given: &[&str]| {
        let args = [&["--rules", "classic", "--members", "3"], given].concat();
        intervals(&args)["p50"].as_f64().expect("a number")
    };
    assert!((40.0..50.0).contains(&shortest(&[])), "Δ_min is 40 s");
    assert!((100.0..115.0).contains(&shortest(&["--min-interval", "100s"])));
}

#[test]
fn the_regeneration_times_can_be_given() {
    // The only token gets lost soon, and from then on a member waits for so long.
    let recovery = |rules: &str, given: &[&str]| {
        let lossy = ["--members", "2", "--loss-every", "1100s", "--runs", "20", "--rules", rules];
        let object = json(&[FOR_TWENTY, &lossy, given].concat()).swap_remove(0);
        assert_eq!(object["lost"], 20);
        object["recovery_s"]["p50"].as_f64().expect("a number")
    };
    let (usual, given) = (recovery("early", &[]), recovery("early", &["--max-interval", "600s"]));
    assert!(usual < 125.0 && (450.0..=600.0).contains(&given), "{usual}, {given}");
    let (quick, slow) = (
        recovery("classic", &["--regeneration-mean", "1s"]),
        recovery("classic", &["--regeneration-mean", "400s"]),
    );
    assert!(quick < 42.0 && slow > 80.0, "{quick}, {slow}");
}

#[test]
fn a_stream_shows_the_buffer_that_its_source_needs() {
    let args = [SMALL, &["--rules", "guarded", "--stream-rate", "650KB"]].concat();
    let object = json(&args).swap_remove(0);
    let (buffer, intervals) = (&object["buffer"], &object["access_interval_s"]);
    assert_eq!(buffer["stream_bytes_per_s"], 650_000);
    assert_eq!((&buffer["p99_s"], &buffer["max_s"]), (&intervals["p99"], &intervals["max"]));
    for part in ["p99", "p999", "max"] {
        let of = |unit: &str| buffer[format!("{part}_{unit}")].as_f64().expect("a number");
        assert!((of("bytes") - of("s") * 650_000.0).abs() <= 1.0, "{buffer}");
    }
    simulate(&args).assert().success().stdout(contains("a stream of 650KB/s").and(contains("99.9 %")));
    assert!(json(&[SMALL, &["--rules", "guarded"]].concat())[0].get("buffer").is_none());
}

#[test]
fn whole_nodes_tell_how_long_visits_and_handoffs_take() {
    let lossy = [
        "--whole",
        "--members",
        "3",
        "--duration",
        "600s",
        "--settle",
        "60s",
        "--slot",
        "1s",
        "--loss",
        "0.2",
    ];
    let objects = json(&[&lossy[..], &["--fast-signatures", "--delay", "30ms"]].concat());
    let number = |key: &str| objects[0][key].as_u64().unwrap_or_else(|| panic!("{key} in {}", objects[0]));
    assert!(number("moves_repeated") > 20 && number("commits_repeated") > 20, "{}", objects[0]);
    assert_eq!(number("commits_abandoned"), 0);
    let span = |key: &str, part: &str| objects[0][key][part].as_f64().expect("a number");
    // Two round trips from the first Move to the EarlyStop, half of one on the way.
    assert!(span("handoff_s", "p50") >= 0.12 && span("on_the_way_s", "p50") >= 0.03, "{}", objects[0]);
    assert!(span("handoff_s", "max") > 0.3, "some Moves were repeated: {}", objects[0]);
    assert!((2.0..6.0).contains(&span("return_time_s", "p50")), "{}", objects[0]);
    let text = simulate(&lossy).arg("--fast-signatures").assert().success().get_output().stdout.clone();
    let text = String::from_utf8(text).expect("a table is text");
    for words in ["return time, s", "handoff, Move to EarlyStop, s", "Moves repeated", "Commits given up"] {
        assert!(text.contains(words), "{words} is not in\n{text}");
    }
}

#[test]
fn parts_of_the_guarded_rules_can_be_switched_off() {
    let objects = json(&[SMALL, &["--rules", "guarded", "--without", "custody,scouting"]].concat());
    assert_eq!(objects[0]["rules"], "guarded without custody, scouting");
    assert!(objects[0]["skips_per_slot"].as_f64().unwrap() > 0.3, "a blind walk skips");
}

#[test]
fn figures_are_drawn_as_pictures_that_parse() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = folder.path().join("new/figures");
    simulate(&[SMALL, &["--loss-every", "300", "--figures", target.to_str().unwrap()]].concat())
        .assert()
        .success()
        .stderr(contains("stabilisation.svg"));
    for name in [
        "concurrent-operations.svg",
        "memberships.svg",
        "access-intervals.svg",
        "intervals-by-membership.svg",
        "intervals-full-and-half.svg",
        "tokens-over-time.svg",
        "regeneration.svg",
        "stabilisation.svg",
    ] {
        let text = fs::read_to_string(target.join(name)).expect("the figure is there");
        let document = roxmltree::Document::parse(&text).expect("it is XML");
        assert_eq!(document.root_element().tag_name().name(), "svg");
        let words: String = document.descendants().filter_map(|node| node.text()).collect();
        assert!(words.contains("guarded"), "{name} has a legend");
    }
}

const TICKETS: &[&str] =
    &["--mode", "tickets", "--members", "8", "--tickets", "8", "--duration", "20s", "--settle", "20s"];

#[test]
fn tickets_are_simulated_and_counted() {
    let text = simulate(TICKETS).assert().success().get_output().stdout.clone();
    let text = String::from_utf8(text).expect("a table is text");
    for word in ["8 members, 8 tickets, 2 faults", "broken promises", "seats excluded", "most asks per round"]
    {
        assert!(text.contains(word), "{word:?} is not in\n{text}");
    }
    let objects = json(&[TICKETS, &["--runs", "2"]].concat());
    assert_eq!((&objects[0]["runs"], &objects[0]["violations"]), (&2.into(), &0.into()));
    assert!(objects[0]["rounds"].as_f64().expect("a number") > 400.0, "{}", objects[0]);
}

#[test]
fn tickets_in_two_hands_fail_with_the_command_that_repeats_it() {
    let broken =
        [TICKETS, &["--real-drift-ppm", "900000", "--runs", "4", "--seed", "3", "--trace", "5"]].concat();
    simulate(&broken)
        .assert()
        .code(1)
        .stderr(contains("repeat it with: stroll simulate --mode tickets").and(contains("--runs 1 --seed")))
        .stderr(contains("broken promises").and(contains("ticket")));
}

/// The command after "repeat it with:", as a shell would take it.
fn replay(command: &mut Command) -> String {
    let stderr = command.assert().code(1).get_output().stderr.clone();
    let text = String::from_utf8(stderr).expect("complaints are text");
    let (_, replay) = text.split_once("repeat it with: ").unwrap_or_else(|| panic!("no replay in {text}"));
    replay.lines().next().expect("a line").to_owned()
}

#[test]
fn what_the_environment_and_a_shell_need_is_in_the_command_that_repeats_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let scenario = folder.path().join("it's a scenario.toml");
    fs::write(&scenario, "duration = '30s'\n").unwrap();
    let mut first =
        simulate(&["--whole", "--scenario", scenario.to_str().unwrap(), "--runs=3", "--seed", "3"]);
    // Nobody is served within no time at all: that breaks a promise of theirs.
    first.env("STROLL_SETTLE", "0s").env("STROLL_MEMBERS", "3");
    let command = replay(first.env("STROLL_SEED", "9").env("STROLL_HOLD", "true"));
    assert!(command.starts_with("STROLL_MEMBERS=3 STROLL_SETTLE=0s stroll simulate --whole "), "{command}");
    assert!(command.ends_with(r"it'\''s a scenario.toml' --runs 1 --seed 3"), "{command}");
    // A shell has the last word.
    let program = Path::new(env!("CARGO_BIN_EXE_stroll"));
    let mut shell = Command::new("/bin/sh");
    shell.env_clear().env("HOME", "/nonexistent").env("PATH", program.parent().expect("a folder"));
    assert_eq!(replay(shell.args(["-c", &command])), command);
}

#[test]
fn whole_nodes_are_counted_in_json() {
    let args = ["--whole", "--members", "5", "--duration", "60s", "--settle", "2m", "--loss", "0.2"];
    let objects =
        json(&[&args[..], &["--corruption", "0.05", "--crash-every", "4s", "--runs", "2"]].concat());
    let [object] = &objects[..] else { panic!("one object: {objects:?}") };
    assert_eq!((&object["whole"], &object["runs"]), (&true.into(), &2.into()));
    let count = |key: &str| object[key].as_u64().unwrap_or_else(|| panic!("{key} in {object}"));
    assert_eq!((count("duplicates"), count("lost"), count("violations")), (0, 0, 0), "{object}");
    assert!(count("passes") > 20 && count("datagrams") > 4 * count("passes"), "{object}");
    assert!(count("rejected") > 0 && count("rejected") < count("datagrams"), "{object}");
    assert!(count("regenerated") > 0, "somebody crashed with the token: {object}");
}

#[test]
fn nonsense_about_tickets_names_the_field() {
    for (args, field) in [
        (&["--mode", "tickets", "--tickets", "0"][..], "tickets"),
        (&["--mode", "tickets", "--faults", "0"], "faults"),
        (&["--mode", "tickets", "--runs", "0"], "runs"),
        (&["--mode", "tickets", "--slot", "0"], "slot"),
        (&["--mode", "tickets", "--drift-ppm", "600000"], "drift-ppm"),
        (&["--mode", "tickets", "--loss", "2"], "--loss"),
        (&["--mode", "coupons"], "--mode"),
        (&["--swarm"], "swarm"),
    ] {
        simulate(args).assert().code(2).stdout("").stderr(contains(field));
    }
}

#[test]
fn the_figure_of_tickets_is_drawn() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = folder.path().to_str().unwrap();
    simulate(&[TICKETS, &["--figures", target]].concat())
        .assert()
        .success()
        .stderr(contains("availability.svg"));
    let text = fs::read_to_string(folder.path().join("availability.svg")).expect("the figure is there");
    let document = roxmltree::Document::parse(&text).expect("it is XML");
    let words: String = document.descendants().filter_map(|node| node.text()).collect();
    assert!(words.contains("50 % held") && words.contains("predicted up to here"), "{words}");
}

#[test]
fn a_folder_that_cannot_be_made_is_a_clear_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let below = file.join("figures");
    simulate(&[SMALL, &["--figures", below.to_str().unwrap()]].concat())
        .assert()
        .code(1)
        .stderr(contains("file/figures"));
}

#[test]
fn progress_goes_to_stderr_and_can_be_silenced() {
    // Not a terminal and quicker than the first line: nothing to see, and the data is clean.
    simulate(SMALL).assert().success().stderr("");
    simulate(&[SMALL, &["--progress", "none"]].concat()).assert().success().stderr("");
    simulate(&[SMALL, &["--progress", "loud"]].concat()).assert().code(2);
}
