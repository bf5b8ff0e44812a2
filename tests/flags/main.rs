//! Every flag of every command has a test that fails if the flag does nothing.
//!
//! The flags are those that `--help` shows. Each is either checked here, by its effect on the real binary, or named with the
//! test that proves it ([`elsewhere`]). A new flag without either makes this test fail.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]
#![allow(clippy::disallowed_methods, reason = "these tests are about real time")]

#[path = "../common/desk.rs"]
mod desk;
#[path = "../common/ftpd.rs"]
mod ftpd;
#[path = "../common/lab.rs"]
mod lab;
#[path = "../common/web.rs"]
mod web;

mod circles;
mod elsewhere;
mod pulling;
mod simulating;
mod site;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

/// So many checks at a time: most of them wait.
const AT_ONCE: usize = 10;

/// A command, as it is typed, and one of its flags without dashes.
type Flag = (String, String);

/// A check of some flags of one command. It panics if one of them does nothing.
struct Check {
    command: &'static str,
    flags: Vec<&'static str>,
    run: Box<dyn FnOnce() + Send>,
}

impl Check {
    fn new(command: &'static str, flags: &[&'static str], run: impl FnOnce() + Send + 'static) -> Self {
        Self { command, flags: flags.to_vec(), run: Box::new(run) }
    }
}

// --- what there is ----------------------------------------------------------------------------------------------

fn help(words: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stroll"));
    let output = command.args(words).arg("--help").env_clear().env("HOME", "/nonexistent").output().unwrap();
    assert!(output.status.success(), "{words:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The commands below one, by its help.
fn commands(help: &str) -> Vec<String> {
    let Some((_, list)) = help.split_once("\nCommands:\n") else { return Vec::new() };
    let lines = list.lines().take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with(' '));
    names
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

/// The long flags of a command, by its help.
fn flags(help: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in help.lines() {
        let line = line.trim_start();
        // A short form stands before it.
        let line = line
            .split_once(", --")
            .filter(|(short, _)| short.len() == 2)
            .map_or(line, |(short, _)| &line[short.len() + 2..]);
        if let Some(flag) = line.strip_prefix("--") {
            let name: String = flag.chars().take_while(|c| c.is_ascii_lowercase() || *c == '-').collect();
            found.push(name);
        }
    }
    found.retain(|name| !name.is_empty() && name != "help" && name != "version");
    found
}

/// Every flag of every command.
fn inventory() -> BTreeSet<Flag> {
    let mut found = BTreeSet::new();
    let mut pending: Vec<Vec<String>> = commands(&help(&[])).into_iter().map(|name| vec![name]).collect();
    while let Some(words) = pending.pop() {
        let help = help(&words.iter().map(String::as_str).collect::<Vec<_>>());
        let below = commands(&help);
        if below.is_empty() {
            found.extend(flags(&help).into_iter().map(|flag| (words.join(" "), flag)));
        }
        pending.extend(below.into_iter().map(|name| [words.clone(), vec![name]].concat()));
    }
    found
}

fn checks() -> Vec<Check> {
    [pulling::checks(), pulling::slow_checks(), circles::checks(), simulating::checks()]
        .into_iter()
        .flatten()
        .collect()
}

// --- the tests --------------------------------------------------------------------------------------------------

#[test]
fn every_flag_of_every_command_has_a_test() {
    let there = inventory();
    assert!(there.len() > 250, "{} flags", there.len());
    let here = checks().into_iter().flat_map(|check| {
        let command = check.command.to_owned();
        check.flags.into_iter().map(move |flag| (command.clone(), flag.to_owned()))
    });
    let elsewhere = elsewhere::all().into_iter().map(|(flag, _)| flag);
    let tested: BTreeSet<Flag> = here.chain(elsewhere).collect();
    let untested: Vec<_> =
        there.difference(&tested).map(|(command, flag)| format!("{command} --{flag}")).collect();
    assert!(untested.is_empty(), "{} flags have no test:\n  {}", untested.len(), untested.join("\n  "));
    let gone: Vec<_> = tested.difference(&there).collect();
    assert!(gone.is_empty(), "these flags are tested and do not exist: {gone:?}");
}

#[test]
fn tests_that_are_named_exist_and_use_the_flag() {
    let mut sources = BTreeMap::new();
    let mut wrong = Vec::new();
    for ((command, flag), test) in elsewhere::all() {
        let (file, function) = test.split_once("::").unwrap();
        let path = format!("tests/{file}.rs");
        let text =
            sources.entry(path.clone()).or_insert_with(|| fs::read_to_string(&path).unwrap_or_default());
        let has_function = text.contains(&format!("fn {function}("));
        let has_flag = text.contains(&format!("--{flag}"))
            || elsewhere::short(&flag).is_some_and(|short| text.contains(short));
        if !has_function || !has_flag {
            wrong.push(format!("{command} --{flag}: {test}"));
        }
    }
    assert!(wrong.is_empty(), "no such test, or not with this flag:\n  {}", wrong.join("\n  "));
    assert!(Path::new("tests/flags/main.rs").exists());
}

/// Runs checks, a few at a time, and tells of all that failed.
fn run_all(checks: Vec<Check>) {
    let (checks, wrong) = (Mutex::new(checks), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let Some(check) = checks.lock().unwrap().pop() else { return };
                    let what = format!("{} --{}", check.command, check.flags.join(" --"));
                    if catch_unwind(AssertUnwindSafe(check.run)).is_err() {
                        wrong.lock().unwrap().push(what);
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} checks failed, as said above:\n  {}", wrong.len(), wrong.join("\n  "));
}

#[test]
fn flags_of_commands_that_pull_do_what_they_say() {
    run_all(pulling::checks());
}

#[test]
fn a_slow_connection_is_given_up_after_half_a_minute() {
    run_all(pulling::slow_checks());
}

#[test]
fn flags_of_circles_and_members_do_what_they_say() {
    run_all(circles::checks());
}

#[test]
fn flags_of_the_simulator_do_what_they_say() {
    run_all(simulating::checks());
}
