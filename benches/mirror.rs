//! How long `stroll mirror` needs to find out that nothing has changed, beside lftp's: real servers on loopback, taking turns.
//!
//! `cargo bench --bench mirror` mirrors 10,000 files in 100 folders from nginx and from vsftpd, then times the runs that find
//! them unchanged, over one connection. The programs take turns, round after round, so that whatever else the machine does hits
//! all alike; every figure is printed, then medians. `-- rounds=3` for fewer rounds.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot run says so and ends")]

#[path = "../tests/common/ftpd.rs"]
mod ftpd;
#[path = "common/run.rs"]
mod run;
#[path = "../tests/common/web.rs"]
mod web;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use ftpd::Ftpd;
use run::{Run, median, run};
use web::Web;

const FOLDERS: usize = 100;
const FILES: usize = 100;
const ROUNDS: usize = 7;
/// Old and young files: servers write their times differently.
const OLD_S: u64 = 1_600_000_000;
const YOUNG_AGE_S: u64 = 10 * 86_400;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let rounds = words.iter().find_map(|word| word.strip_prefix("rounds=")?.parse().ok()).unwrap_or(ROUNDS);
    let (web, ftp) = (Web::start(web::Kind::Nginx), Ftpd::start(ftpd::Kind::Vsftpd));
    for root in [web.root(), ftp.root()] {
        plant(&root.join("tree"));
    }
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let port = ftp.port;
    let sources = [
        ("nginx", web.http("tree/").to_string(), format!("open {}", web.http(""))),
        ("nginx as JSON", web.http("all-json/tree/").to_string(), String::new()),
        (
            "vsftpd",
            format!("ftp://anonymous:right@127.0.0.1:{port}/tree/"),
            format!("open -u anonymous,right -p {port} ftp://127.0.0.1"),
        ),
    ];
    for (name, url, open) in &sources {
        unchanged(name, url, open, &place.path().join(name), rounds);
    }
}

fn plant(root: &Path) {
    let young = std::time::SystemTime::now() - Duration::from_secs(YOUNG_AGE_S);
    for folder in 0..FOLDERS {
        let folder = root.join(format!("folder-{folder:03}"));
        fs::create_dir_all(&folder).unwrap();
        for file in 0..FILES {
            let path = folder.join(format!("file-{file:03}.dat"));
            fs::write(&path, path.to_str().unwrap()).unwrap();
            let time = if file % 2 == 0 { UNIX_EPOCH + Duration::from_secs(OLD_S) } else { young };
            fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        }
    }
}

/// Makes the command of a program.
type Make<'a> = Box<dyn Fn() -> Command + 'a>;

fn unchanged(name: &str, url: &str, open: &str, place: &Path, rounds: usize) {
    fs::create_dir(place).unwrap();
    println!("\n{} unchanged files in {FOLDERS} folders at {name}: seconds", FOLDERS * FILES);
    let mut programs: Vec<(&str, Make<'_>, Vec<Run>)> =
        vec![("stroll", Box::new(|| stroll(url, place)), Vec::new())];
    if !open.is_empty() && Command::new("lftp").arg("--version").output().is_ok() {
        programs.push(("lftp", Box::new(|| lftp(open, place)), Vec::new()));
    }
    for (program, make, _) in &programs {
        let first = run(make());
        println!("{program:8} the first time: {:.2}", first.wall_s);
        let here = walk(&place.join(program));
        assert_eq!(here, FOLDERS * FILES, "{program}");
    }
    for _ in 0..rounds {
        for (_, make, runs) in &mut programs {
            runs.push(run(make()));
        }
    }
    for (program, _, runs) in &programs {
        let times: Vec<f64> = runs.iter().map(|run| run.wall_s).collect();
        let all: Vec<String> = times.iter().map(|time| format!("{time:.3}")).collect();
        println!("{program:8} {:>6.3}   ({})   {}", median(&times), all.join(" "), Run::medians(runs));
    }
}

fn walk(folder: &Path) -> usize {
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() { walk(&entry.path()) } else { 1 }
        })
        .sum()
}

fn stroll(url: &str, place: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stroll"));
    command.env_clear().env("HOME", place).args(["mirror", "--quiet", "--solo", url]);
    command.arg(place.join("stroll")).arg("--state").arg(place.join("state"));
    command
}

fn lftp(open: &str, place: &Path) -> Command {
    let script = format!(
        "set net:connection-limit 1\nset cmd:fail-exit yes\n{open}\nmirror --parallel=1 tree {}\n",
        place.join("lftp").display()
    );
    let path = place.join("script");
    fs::write(&path, script).unwrap();
    let mut command = Command::new("lftp");
    command.env("HOME", place).arg("--norc").arg("-f").arg(path);
    command
}
