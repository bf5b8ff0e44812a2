//! A tree of 100,000 files is looked through in bounded memory.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]
#![allow(clippy::disallowed_methods, reason = "a process is watched while it runs")]

#[path = "common/desk.rs"]
mod desk;
#[path = "common/web.rs"]
mod web;

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::time::Duration;

use desk::Desk;
use web::{Kind, Web};

const FOLDERS: usize = 100;
const FILES_EACH: usize = 1_000;

/// About three times what was seen; the names and sizes of all files alone are several megabytes.
const MOST_KIB: u64 = 64 << 10;

/// The files of a folder are names of one and the same, which makes the tree quickly.
fn plant(web: &Web) {
    let name = |folder: usize, file: usize| format!("tree/folder-{folder:03}/frame-{file:06}.gwf");
    for folder in 0..FOLDERS {
        web.put(&name(folder, 0), b"12345", 1_000_000);
        let one = web.root().join(name(folder, 0));
        for file in 1..FILES_EACH {
            fs::hard_link(&one, web.root().join(name(folder, file))).unwrap();
        }
    }
}

/// The most memory that it ever had, in KiB, looked at until it ends.
fn peak_kib(child: &mut Child) -> u64 {
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let words = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        peak = words.unwrap_or(0).max(peak);
        std::thread::sleep(Duration::from_millis(10));
    }
    peak
}

#[test]
fn a_tree_of_a_hundred_thousand_files_is_planned_in_bounded_memory() {
    let (desk, web) = (Desk::new(), Web::start(Kind::Nginx));
    plant(&web);
    let plan = File::create(desk.path("plan")).unwrap();
    let url = web.http("tree/").to_string();
    let mut child = desk
        .stroll(&["mirror", &url, "replica", "--dry-run", "--json", "--progress", "none"])
        .stdout(Stdio::from(plan))
        .spawn()
        .unwrap();
    let peak = peak_kib(&mut child);
    assert!(child.wait().unwrap().success());
    assert!(peak > 1_000, "it was looked at: {peak} KiB");
    assert!(peak < MOST_KIB, "{peak} KiB");
    let lines = BufReader::new(File::open(desk.path("plan")).unwrap()).lines().map_while(Result::ok);
    let pulls: usize = lines.map(|line| line.matches("frame-").count()).sum();
    assert_eq!(pulls, FOLDERS * FILES_EACH);
}
