//! How `stroll get` fares beside curl, wget and lftp: real servers on loopback, real programs, taking turns.
//!
//! `cargo bench --bench pull` pulls 1 GiB from nginx and from vsftpd into memory (a tmpfs) and onto the disk, and 10,000 files
//! of 4 KiB (FTP: 300) over one connection. The programs take turns, round after round, so that whatever else the machine does hits
//! all alike; every figure is printed, then medians. Processor time is what the kernel counted for the process, memory the
//! most that it held. `cargo bench --bench pull -- large` or `-- small` does one half, `-- rounds=3` fewer rounds.
//!
//! Only stroll makes what it pulled durable before it ends, which is what the disk's figures show; into memory that is free.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot run says so and ends")]

#[path = "../tests/common/ftpd.rs"]
mod ftpd;
#[path = "common/run.rs"]
mod run;
#[path = "../tests/common/web.rs"]
mod web;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ftpd::Ftpd;
use run::{Run, median, run};
use web::Web;

const GIB: usize = 1 << 30;
const FILES: usize = 10_000;
/// Over FTP fewer do: wget logs in anew for each.
const FTP_FILES: usize = 300;
const FILE_BYTES: usize = 4 << 10;
const ROUNDS: usize = 7;
/// An old file: young ones have weak tags at some servers.
const AGE_S: u64 = 1_000_000;
const CHANGED_S: u64 = 1_600_000_000;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let rounds = words.iter().find_map(|word| word.strip_prefix("rounds=")?.parse().ok()).unwrap_or(ROUNDS);
    let is_wanted = |part: &str| {
        let mut parts = words.iter().filter(|word| !word.contains('=')).peekable();
        parts.peek().is_none() || parts.any(|word| part.contains(word.as_str()))
    };
    let (web, ftp) = (Web::start(web::Kind::Nginx), Ftpd::start(ftpd::Kind::Vsftpd));
    let servers = [Server::nginx(&web), Server::vsftpd(&ftp)];
    let places = [
        ("memory", tempfile::tempdir_in("/dev/shm").unwrap()),
        ("disk", tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()),
    ];
    if is_wanted("large") {
        fill_large(&web, &ftp);
        for server in &servers {
            for (name, place) in &places {
                large(server, name, place.path(), rounds);
            }
        }
    }
    if is_wanted("small") {
        fill_small(&web, &ftp);
        for server in &servers {
            for (name, place) in &places {
                small(server, name, place.path(), rounds);
            }
        }
    }
}

/// Where files are to be had, as programs write it.
struct Server {
    name: &'static str,
    url: String,
    /// What lftp opens.
    lftp: String,
    /// How many small files there are.
    files: usize,
}

impl Server {
    fn nginx(web: &Web) -> Self {
        let url = web.http("").to_string();
        Self { name: "nginx", lftp: format!("open {url}"), url, files: FILES }
    }

    fn vsftpd(ftp: &Ftpd) -> Self {
        let port = ftp.port;
        Self {
            name: "vsftpd",
            url: format!("ftp://anonymous:right@127.0.0.1:{port}/"),
            lftp: format!("open -u anonymous,right -p {port} ftp://127.0.0.1"),
            files: FTP_FILES,
        }
    }
}

fn pattern(len: usize, salt: usize) -> Vec<u8> {
    (0..len / 8).flat_map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt).to_le_bytes()).collect()
}

fn fill_large(web: &Web, ftp: &Ftpd) {
    let bytes = pattern(GIB, 1);
    web.put("large", &bytes, AGE_S);
    ftp.put("large", &bytes, CHANGED_S);
}

fn fill_small(web: &Web, ftp: &Ftpd) {
    for number in 0..FILES {
        let bytes = pattern(FILE_BYTES, number);
        web.put(&small_name(number), &bytes, AGE_S);
        if number < FTP_FILES {
            ftp.put(&small_name(number), &bytes, CHANGED_S);
        }
    }
}

fn small_name(number: usize) -> String {
    format!("f{number:05}")
}

fn stroll(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stroll"));
    command.env("STROLL_HOME", home.join("home")).env("HOME", home);
    command.args(["get", "-q", "--solo", "--state"]).arg(home.join("state"));
    command
}

fn large(server: &Server, where_to: &str, place: &Path, rounds: usize) {
    println!("\n1 GiB from {} to {where_to}: seconds, seconds of processor, most memory in MB", server.name);
    let url = format!("{}large", server.url);
    let target = place.join("got");
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let mut command = stroll(place);
        command.arg(&url).arg("-o").arg(&target);
        ours.push(one_large(command, &target, round == 0));
        let mut command = Command::new("curl");
        command.args(["-sS", "-o"]).arg(&target).arg(&url);
        theirs.push(one_large(command, &target, false));
    }
    for (name, runs) in [("stroll", &ours), ("curl", &theirs)] {
        println!("{name:8} {}", runs.iter().map(Run::to_string).collect::<Vec<_>>().join("  "));
        println!("{name:8} median {}", Run::medians(runs));
    }
    let ratios: Vec<f64> = ours.iter().zip(&theirs).map(|(our, their)| our.wall_s / their.wall_s).collect();
    let (ours, theirs) = (Run::medians(&ours), Run::medians(&theirs));
    println!(
        "stroll/curl: time {:.3} of medians, {:.3} median of pairs; processor {:.3}; memory {:.1} MB",
        ours.wall_s / theirs.wall_s,
        median(&ratios),
        ours.cpu_s / theirs.cpu_s,
        ours.peak_mb,
    );
}

fn one_large(command: Command, target: &Path, check: bool) -> Run {
    let done = run(command);
    assert_eq!(fs::metadata(target).unwrap().len(), GIB as u64);
    if check {
        assert!(fs::read(target).unwrap() == pattern(GIB, 1), "other bytes");
    }
    fs::remove_file(target).unwrap();
    done
}

/// Makes the command that pulls all small files of a server into a folder; lists go into the place above it.
type Make = fn(&Server, &Path, &Path) -> Command;

fn small(server: &Server, where_to: &str, place: &Path, rounds: usize) {
    let files = server.files;
    println!("\n{files} files of {FILE_BYTES} bytes from {} to {where_to}: files per second", server.name);
    let programs: [(&str, Make); 4] =
        [("stroll", stroll_many), ("wget", wget_many), ("lftp", lftp_many), ("curl", curl_many)];
    let programs = programs.map(|(name, make)| (name, make, Vec::<Run>::new()));
    let mut programs: Vec<_> = programs.into_iter().filter(|(name, ..)| is_installed(name)).collect();
    for round in 0..rounds {
        for (_, make, runs) in &mut programs {
            let folder = place.join("many");
            fs::create_dir(&folder).unwrap();
            runs.push(run(make(server, place, &folder)));
            let got = fs::read_dir(&folder).unwrap().count();
            assert_eq!(got, files);
            if round == 0 {
                let wrong = (0..files)
                    .find(|n| fs::read(folder.join(small_name(*n))).unwrap() != pattern(FILE_BYTES, *n));
                assert_eq!(wrong, None);
            }
            fs::remove_dir_all(&folder).unwrap();
        }
    }
    for (name, _, runs) in &programs {
        let rates: Vec<f64> = runs.iter().map(|run| files as f64 / run.wall_s).collect();
        let all: Vec<String> = rates.iter().map(|rate| format!("{rate:.0}")).collect();
        println!("{name:8} {:>6.0}   ({})   {}", median(&rates), all.join(" "), Run::medians(runs));
    }
}

fn is_installed(program: &str) -> bool {
    let is_there = program == "stroll" || Command::new(program).arg("--version").output().is_ok();
    if !is_there {
        println!("{program} is not installed");
    }
    is_there
}

/// The addresses, each between these.
fn list(server: &Server, place: &Path, name: &str, before: &str, after: &str) -> PathBuf {
    let lines = (0..server.files).map(|n| format!("{before}{}{}{after}\n", server.url, small_name(n)));
    let path = place.join(name);
    fs::write(&path, lines.collect::<String>()).unwrap();
    path
}

fn stroll_many(server: &Server, place: &Path, folder: &Path) -> Command {
    let mut command = stroll(place);
    command.arg("-i").arg(list(server, place, "list", "", "")).arg("-o").arg(folder);
    command
}

fn wget_many(server: &Server, place: &Path, folder: &Path) -> Command {
    let mut command = Command::new("wget");
    command.args(["-q", "--no-config", "-i"]).arg(list(server, place, "list", "", "")).arg("-P").arg(folder);
    command
}

fn curl_many(server: &Server, place: &Path, folder: &Path) -> Command {
    let mut command = Command::new("curl");
    let list = list(server, place, "curl", "url = \"", "\"");
    command.args(["-q", "-sS", "--remote-name-all", "--output-dir"]).arg(folder).arg("-K").arg(list);
    command
}

fn lftp_many(server: &Server, place: &Path, folder: &Path) -> Command {
    let names: Vec<String> = (0..server.files).map(small_name).collect();
    let script = format!(
        "set net:connection-limit 1\nset cmd:fail-exit yes\n{}\nlcd {}\nget {}\n",
        server.lftp,
        folder.display(),
        names.join(" ")
    );
    let path = place.join("lftp");
    fs::write(&path, script).unwrap();
    let mut command = Command::new("lftp");
    command.env("HOME", place).arg("--norc").arg("-f").arg(path);
    command
}
