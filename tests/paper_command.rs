//! `stroll completions` and `stroll man`: what packagers take from the program.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Output, Stdio};

const COMMANDS: &[&str] =
    &["get", "exec", "mirror", "verify", "subscribe", "circle", "join", "run", "status", "pause", "resume"];

fn stroll(args: &[&str]) -> Output {
    let output =
        Command::new(env!("CARGO_BIN_EXE_stroll")).args(args).output().expect("the program can be run");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn printed(args: &[&str]) -> String {
    String::from_utf8(stroll(args).stdout).expect("it prints text")
}

/// The subcommands, as the help of `path` lists them.
fn subcommands(path: &[&str]) -> Vec<String> {
    let help = printed(&[path, &["--help"]].concat());
    let Some((_, list)) = help.split_once("Commands:\n") else { return Vec::new() };
    let names = list.lines().take_while(|line| !line.is_empty()).filter(|line| line.starts_with("  "));
    let names =
        names.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// The long flags, as the help of `path` lists them.
fn flags(path: &[&str]) -> Vec<String> {
    let help = printed(&[path, &["--help"]].concat());
    let starts = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    let words = starts.flat_map(|line| line.split([' ', ',', '=', '[', '.']).take(3).collect::<Vec<_>>());
    words.filter(|word| word.starts_with("--") && word.len() > 2).map(str::to_owned).collect()
}

#[test]
fn completions_know_every_command_and_its_flags() {
    for shell in ["bash", "zsh", "fish"] {
        let script = printed(&["completions", shell]);
        for command in COMMANDS {
            assert!(script.contains(command), "{shell}: {command}");
        }
        for flag in ["on-overload", "max-delete", "name-template"] {
            assert!(script.contains(flag), "{shell}: {flag}");
        }
    }
}

#[test]
fn bash_accepts_its_completions_and_completes_a_command_and_a_flag() {
    let script = printed(&["completions", "bash"]);
    let try_out = r#"
        completed() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _stroll stroll "${@: -1}" "${@: -2:1}"; echo "${COMPREPLY[*]}"; }
        completed stroll subs
        completed stroll mirror --max-del
    "#;
    for (flags, more) in [(&["-n"][..], ""), (&[], try_out)] {
        let mut bash = Command::new("bash");
        let mut bash = bash
            .args(flags)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = bash.stdin.take().unwrap();
        write!(stdin, "{script}\n{more}").unwrap();
        drop(stdin);
        let output = bash.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{said}");
        let expected = if more.is_empty() { "" } else { "subscribe\n--max-delete\n" };
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    }
}

#[test]
fn an_unknown_shell_is_refused() {
    let output = Command::new(env!("CARGO_BIN_EXE_stroll")).args(["completions", "sh"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn every_command_has_a_manual_page_that_names_its_flags() {
    let folder = tempfile::tempdir().unwrap();
    let below = folder.path().join("man/man1");
    stroll(&["man", below.to_str().unwrap()]);
    let page =
        |name: &str| fs::read_to_string(below.join(name)).unwrap_or_else(|_| panic!("there is no {name}"));
    let all = subcommands(&[]);
    for command in COMMANDS {
        assert!(all.iter().any(|known| known == command), "{command} is not in {all:?}");
    }
    assert!(page("stroll.1").contains(".TH"));
    let mut looked_at = 0;
    for command in &all {
        let paths = subcommands(&[command]);
        let mut paths: Vec<Vec<&str>> = paths.iter().map(|sub| vec![command.as_str(), sub]).collect();
        paths.push(vec![command]);
        for path in paths {
            let text = page(&format!("stroll-{}.1", path.join("-"))).replace("\\-", "-");
            for flag in flags(&path) {
                assert!(text.contains(&flag), "stroll {} {flag}", path.join(" "));
                looked_at += 1;
            }
        }
    }
    assert!(looked_at > 100, "only {looked_at} flags were looked at");
}

#[test]
fn without_a_folder_the_page_of_the_program_is_printed() {
    let page = printed(&["man"]);
    assert!(page.contains(".TH") && page.contains("subscribe"), "{page}");
}
