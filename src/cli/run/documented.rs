//! The shipped settings are the defaults, and name and explain every key that there is. Tests only.

use std::collections::BTreeSet;

use clap::{Args, Command};
use serde::Deserialize;
use stroll::fetch::{Address, Logins};

use super::RunOptions;
use super::tables::{ExecOptions, Head, Job};
use crate::cli::settings::Settings;
use crate::cli::transfer::Transfer;
use crate::cli::{mirror, simulate, subscribe};

const SHIPPED: &str = include_str!("../../../config/stroll.toml");

/// The shipped file without the comment signs before its keys and tables.
fn uncommented() -> String {
    let is_key = |text: &str| {
        let (key, rest) = text.split_once(' ').unwrap_or((text, ""));
        text.starts_with("[[")
            || (rest.starts_with("= ") && key.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
    };
    let bare = |line: &'static str| line.strip_prefix("# ").filter(|text| is_key(text)).unwrap_or(line);
    SHIPPED.lines().flat_map(|line| [bare(line), "\n"]).collect()
}

/// The flags of a command's options, spelled as keys.
fn flags<O: Args>() -> BTreeSet<String> {
    let command = O::augment_args(Command::new("any"));
    command.get_arguments().filter_map(clap::Arg::get_long).map(|flag| flag.replace('-', "_")).collect()
}

/// The fields of what refuses others, by what it says then.
fn fields<O: for<'de> Deserialize<'de>>() -> BTreeSet<String> {
    let error = toml::from_str::<O>("no_such_key = 1").err().expect("there is no such key").to_string();
    let known = error.split_once("expected").expect("it says which there are").1;
    known.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// All keys of all tables of this kind.
fn documented(kind: &str) -> BTreeSet<String> {
    let settings: toml::Table = toml::from_str(&uncommented()).expect("the settings are right");
    let keys = |table: &toml::Value| table.as_table().expect("a table").keys().cloned().collect::<Vec<_>>();
    match &settings[kind] {
        toml::Value::Array(tables) => tables.iter().flat_map(keys).collect(),
        table => keys(table).into_iter().collect(),
    }
}

/// A section of it, without those keys for which there is only an example.
fn defaults<O: for<'de> Deserialize<'de>>(section: &str, examples: &[&str]) -> O {
    let settings: toml::Table = toml::from_str(&uncommented()).expect("the settings are right");
    let mut section = settings[section].as_table().expect("a table").clone();
    for example in examples {
        assert!(section.remove(*example).is_some(), "there is no {example}");
    }
    O::deserialize(section).expect("the settings are right")
}

/// What a command does of its own, such as trying a file less often, is not overruled by a file that nobody has changed.
#[test]
fn the_shipped_settings_are_the_same_as_none() {
    let settings: Settings = toml::from_str(SHIPPED).expect("the settings are right");
    assert_eq!(settings, Settings::default());
    assert_eq!(defaults::<RunOptions>("run", &["page", "on_overload", "webhook"]), RunOptions::default());
}

#[test]
fn the_documented_defaults_of_pulling_are_the_defaults() {
    let examples = ["contact", "proxy", "ca_file", "netrc_file", "user", "password_file", "password_command"];
    let said: Transfer = defaults("transfer", &examples);
    let usual = Transfer::default();
    assert_ne!(said, usual, "it says them in so many words");
    assert_eq!(said.connections().ok(), usual.connections().ok());
    assert_eq!(said.timetable().ok(), usual.timetable().ok());
    assert_eq!(said.chunk().ok(), usual.chunk().ok());
    assert_eq!(said.min_speed().ok(), usual.min_speed().ok());
    assert_eq!(said.patience(), usual.patience());
    assert_eq!(said.idle_grace(), usual.idle_grace());
    let behaviour = |transfer: &Transfer| {
        let options = transfer.options(Logins::default()).expect("options");
        (options.answer_within, options.stall_after, options.contact, options.proxy, options.ftp_tls)
    };
    assert_eq!(behaviour(&said), behaviour(&usual));
}

#[test]
fn the_documented_defaults_of_simulate_are_the_defaults() {
    let faults = ["loss_every", "crash_every", "join_every", "leave_every", "surge"];
    // These follow from others if they are left out.
    let derived =
        ["active", "min_interval", "max_interval", "regeneration_mean", "longest_wait", "stream_rate"];
    let examples = [&faults[..], &derived].concat();
    let said: simulate::Options = defaults("simulate", &examples);
    assert_ne!(said, simulate::Options::default(), "it says them in so many words");
    assert_eq!(said.resolve().expect("a plan"), simulate::Options::default().resolve().expect("a plan"));
}

#[test]
fn the_shipped_settings_document_every_key_of_transfer_and_simulate() {
    assert_eq!(documented("transfer"), flags::<Transfer>());
    assert_eq!(documented("simulate"), flags::<simulate::Options>());
}

#[test]
fn the_shipped_settings_document_every_key_of_run_and_of_each_job() {
    let of_all = fields::<Head>();
    assert!(of_all.contains("priority"), "{of_all:?}");
    let with = |own: BTreeSet<String>| -> BTreeSet<String> { own.union(&of_all).cloned().collect() };
    assert_eq!(documented("run"), flags::<RunOptions>());
    assert_eq!(documented("subscribe"), with(flags::<subscribe::StreamOptions>()));
    assert_eq!(documented("mirror"), with(flags::<mirror::Options>()));
    let mut of_exec = with(fields::<ExecOptions>());
    for unused in ["to", "sums"] {
        of_exec.remove(unused);
    }
    assert_eq!(documented("exec"), of_exec);
}

#[test]
fn flags_of_a_job_are_its_keys() {
    assert_eq!(flags::<RunOptions>(), fields::<RunOptions>());
    assert_eq!(flags::<subscribe::StreamOptions>(), fields::<subscribe::StreamOptions>());
    assert_eq!(flags::<mirror::Options>(), fields::<mirror::Options>());
}

#[test]
fn the_documented_jobs_make_sense_as_they_stand() {
    let settings: Settings = toml::from_str(&uncommented()).expect("the settings are right");
    assert_eq!(settings.jobs().expect("each has a name").len(), 7);
    for (name, job) in settings.jobs().expect("each has a name") {
        let ends = || {
            let (url, to) = job.ends().expect("an address and a folder");
            (Address::parse(url).expect("an address").0, to.clone())
        };
        match &job {
            Job::Subscribe(table) => {
                let (address, to) = ends();
                // The file of rules is not on this machine.
                let options = subscribe::StreamOptions { filter_from: None, ..table.options.clone() };
                options.spec(address, to, 0).expect(&name);
            }
            Job::Mirror(table) => {
                let (address, to) = ends();
                let options = mirror::Options { filter_from: None, ..table.options.clone() };
                options.spec(address, to, false).expect(&name);
                assert!(options.timing().expect(&name).schedule().is_some());
            }
            Job::Exec(table) => {
                assert!(!table.options.command.is_empty());
                assert_ne!(table.options.every.is_some(), table.options.schedule.is_some());
            }
        }
    }
}

#[test]
fn an_unknown_key_and_a_wrong_unit_are_errors_that_name_them() {
    let error = |text: &str| toml::from_str::<Settings>(text).expect_err(text).to_string();
    for (text, named) in [
        ("[run]\npge = '127.0.0.1:1'", "pge"),
        ("[[subscribe]]\nurll = 'ftp://h/'", "urll"),
        ("[[mirror]]\nevry = '6h'", "evry"),
        ("[[exec]]\ncomand = ['true']", "comand"),
        ("[[mirrors]]\nurl = 'ftp://h/'", "mirrors"),
        ("[[subscribe]]\npoll = '10 parsecs'", "parsecs"),
        ("[[mirror]]\nevery = '6 fortnights'", "fortnights"),
        ("[[exec]]\ngrace = 'soon'", "soon"),
    ] {
        assert!(error(text).contains(named), "{text}: {}", error(text));
    }
}
