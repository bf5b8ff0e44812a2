//! The units that are shipped for systemd: it takes every line of them as it is meant.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn units() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/systemd");
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// What a unit says under a key.
fn said<'a>(text: &'a str, key: &str) -> Vec<&'a str> {
    text.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('=')).collect()
}

/// The member tells systemd when it is ready, so a start that fails is seen.
#[test]
fn every_service_names_its_program_once_and_the_member_says_when_it_is_ready() {
    let units = units();
    assert_eq!(units.len(), 3, "{units:?}");
    for unit in units {
        let text = fs::read_to_string(&unit).unwrap();
        if unit.extension().is_some_and(|kind| kind == "timer") {
            assert_eq!(said(&text, "OnCalendar").len(), 1, "{}", unit.display());
            continue;
        }
        let starts = said(&text, "ExecStart");
        assert!(matches!(starts[..], [start] if start.starts_with("/usr/local/bin/stroll ")), "{starts:?}");
        let kind = if unit.to_string_lossy().contains('@') { "notify" } else { "oneshot" };
        assert_eq!(said(&text, "Type"), [kind], "{}", unit.display());
    }
}

/// Where systemd is; elsewhere the test above has to do. It warns of what it ignores, and succeeds all the same.
#[test]
fn systemd_has_nothing_to_say_against_them() {
    let program = env!("CARGO_BIN_EXE_stroll");
    let folder = tempfile::tempdir().unwrap();
    for unit in units() {
        let text = fs::read_to_string(&unit).unwrap().replace("/usr/local/bin/stroll", program);
        fs::write(folder.path().join(unit.file_name().unwrap()), text).unwrap();
    }
    for name in ["stroll@virgo.service", "stroll-mirror.service", "stroll-mirror.timer"] {
        let mut verify = Command::new("systemd-analyze");
        verify.args(["verify", "--man=no"]).arg(folder.path().join(name));
        let Ok(output) = verify.output() else { return };
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && complaint.is_empty(), "{name}: {complaint}");
    }
}
