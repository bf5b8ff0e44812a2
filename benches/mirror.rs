//! `stroll mirror` beside other programs: real servers on loopback, programs taking turns.
//!
//! `cargo bench --bench mirror -- pulled` mirrors 10,000 files of 4 KiB in 100 folders from nginx and from vsftpd into an empty
//! folder, in memory (a tmpfs) and on the disk, over one and over four connections. On the disk the time of the others
//! includes a `sync`, as stroll ends with everything durable. curl is given the list of the files; all others find them.
//! `-- unchanged` times the runs that find nothing new. The programs take turns, round after round, so that whatever else the
//! machine does affects all alike; every figure is printed, then medians. `-- rounds=3` for fewer rounds.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot run says so and ends")]

#[path = "../tests/common/ftpd.rs"]
mod ftpd;
#[path = "common/run.rs"]
mod run;
#[path = "../tests/common/web.rs"]
mod web;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use ftpd::Ftpd;
use run::{Run, median, run};
use web::Web;

const FOLDERS: usize = 100;
const FILES: usize = 100;
const FILE_BYTES: usize = 4 << 10;
const ROUNDS: usize = 7;
/// Old and young files: servers write their times differently.
const OLD_S: u64 = 1_600_000_000;
const YOUNG_AGE_S: u64 = 10 * 86_400;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let rounds = words.iter().find_map(|word| word.strip_prefix("rounds=")?.parse().ok()).unwrap_or(ROUNDS);
    let parts: Vec<&String> = words.iter().filter(|word| !word.contains('=')).collect();
    let is_wanted = |part: &str| parts.is_empty() || parts.iter().any(|word| part == *word);
    let (web, ftp) = (Web::start(web::Kind::Nginx), Ftpd::start(ftpd::Kind::Vsftpd));
    for root in [web.root(), ftp.root()] {
        plant(&root.join("tree"));
    }
    let disk = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let servers = [Server::nginx(&web), Server::nginx_json(&web), Server::vsftpd(&ftp)];
    if is_wanted("pulled") {
        let memory = tempfile::tempdir_in("/dev/shm").unwrap();
        for server in servers.iter().filter(|server| server.open.is_some()) {
            for connections in [1, 4] {
                pulled(server, "memory", memory.path(), connections, rounds);
                pulled(server, "disk", disk.path(), connections, rounds);
            }
        }
    }
    if is_wanted("unchanged") {
        for server in &servers {
            unchanged(server, &disk.path().join(server.name), rounds);
        }
    }
}

/// Where the tree is, as programs write it.
struct Server {
    name: &'static str,
    url: String,
    /// What lftp opens, if it can read the listings.
    open: Option<String>,
    /// What rclone calls the server.
    rclone: Vec<String>,
}

impl Server {
    fn nginx(web: &Web) -> Self {
        let root = web.http("").to_string();
        Self {
            name: "nginx",
            url: web.http("tree/").to_string(),
            open: Some(format!("open {root}")),
            rclone: vec![":http:tree".into(), "--http-url".into(), root],
        }
    }

    fn nginx_json(web: &Web) -> Self {
        let url = web.http("all-json/tree/").to_string();
        Self { name: "nginx as JSON", url, open: None, rclone: Vec::new() }
    }

    fn vsftpd(ftp: &Ftpd) -> Self {
        let port = ftp.port;
        let password = Command::new("rclone").args(["obscure", "right"]).output();
        let password = password.map(|output| String::from_utf8(output.stdout).unwrap()).unwrap_or_default();
        let words = format!(
            ":ftp:tree --ftp-host 127.0.0.1 --ftp-port {port} --ftp-user anonymous --ftp-pass {}",
            password.trim()
        );
        Self {
            name: "vsftpd",
            url: format!("ftp://anonymous:right@127.0.0.1:{port}/tree/"),
            open: Some(format!("open -u anonymous,right -p {port} ftp://127.0.0.1")),
            rclone: words.split(' ').map(str::to_owned).collect(),
        }
    }
}

fn plant(root: &Path) {
    let young = std::time::SystemTime::now() - Duration::from_secs(YOUNG_AGE_S);
    for folder in 0..FOLDERS {
        let folder = root.join(format!("folder-{folder:03}"));
        fs::create_dir_all(&folder).unwrap();
        for file in 0..FILES {
            let path = folder.join(format!("file-{file:03}.dat"));
            fs::write(&path, content(&path)).unwrap();
            let time = if file % 2 == 0 { UNIX_EPOCH + Duration::from_secs(OLD_S) } else { young };
            fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        }
    }
}

/// Different in every file.
fn content(path: &Path) -> Vec<u8> {
    path.file_name().unwrap().as_encoded_bytes().iter().copied().cycle().take(FILE_BYTES).collect()
}

/// Makes the command of a program that mirrors the tree, by its place for lists and settings and the target folder.
type Make = fn(&Server, &Path, &Path, usize) -> Command;

fn pulled(server: &Server, where_to: &str, place: &Path, connections: usize, rounds: usize) {
    println!(
        "\n{} files of {FILE_BYTES} bytes in {FOLDERS} folders from {} to {where_to}, connections: {connections}: files per second",
        FOLDERS * FILES,
        server.name
    );
    let programs: [(&str, &str, Make); 6] = [
        ("stroll", "stroll", stroll),
        ("curl with a list", "curl", curl),
        ("wget -r", "wget", wget),
        ("wget2 -r", "wget2", wget2),
        ("lftp", "lftp", lftp),
        ("rclone", "rclone", rclone),
    ];
    let can = |program: &str| match program {
        "wget" => connections == 1,
        // Over FTP wget2 does not exist, and curl opens a connection for each of its files.
        "wget2" => server.name == "nginx",
        "curl" => server.name == "nginx" || connections == 1,
        _ => true,
    };
    let mut programs: Vec<_> = programs
        .into_iter()
        .filter(|(_, program, _)| can(program) && is_installed(program))
        .map(|(name, _, make)| (name, make, Vec::<Run>::new()))
        .collect();
    for round in 0..rounds {
        for (name, make, runs) in &mut programs {
            let target = place.join("target");
            fs::create_dir_all(&target).unwrap();
            let mut command = make(server, place, &target, connections);
            if where_to == "disk" && *name != "stroll" {
                command = then_sync(&command, &target);
            }
            runs.push(run(command));
            let right = count(&target, &|path| fs::read(path).unwrap() == content(path));
            assert!(right == FOLDERS * FILES || *name != "stroll", "{right} files in round {round}");
            if right < FOLDERS * FILES {
                println!("{name} has only {right} files in round {round}");
            }
            fs::remove_dir_all(&target).unwrap();
            let _ = fs::remove_dir_all(place.join("state"));
        }
    }
    for (name, _, runs) in &programs {
        let rates: Vec<f64> = runs.iter().map(|run| (FOLDERS * FILES) as f64 / run.wall_s).collect();
        let all: Vec<String> = rates.iter().map(|rate| format!("{rate:.0}")).collect();
        println!("{name:16} {:>6.0}   ({})   {}", median(&rates), all.join(" "), Run::medians(runs));
    }
}

fn is_installed(program: &str) -> bool {
    let is_there = program == "stroll" || Command::new(program).arg("--version").output().is_ok();
    if !is_there {
        println!("{program} is not installed");
    }
    is_there
}

/// The same command, and then what is written is made durable.
fn then_sync(command: &Command, target: &Path) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", "\"$@\" && sync -f \"$0\""]).arg(target);
    shell.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        shell.env(name, value.unwrap());
    }
    shell
}

fn unchanged(server: &Server, place: &Path, rounds: usize) {
    fs::create_dir(place).unwrap();
    println!("\n{} unchanged files in {FOLDERS} folders at {}: seconds", FOLDERS * FILES, server.name);
    let mut programs: Vec<(&str, Make, Vec<Run>)> = vec![("stroll", stroll, Vec::new())];
    if server.open.is_some() && is_installed("lftp") {
        programs.push(("lftp", lftp, Vec::new()));
    }
    for (program, make, _) in &programs {
        let target = place.join(program);
        let first = run(make(server, place, &target, 1));
        println!("{program:8} the first time: {:.2}", first.wall_s);
        assert_eq!(count(&target, &|_| true), FOLDERS * FILES, "{program}");
    }
    for _ in 0..rounds {
        for (program, make, runs) in &mut programs {
            runs.push(run(make(server, place, &place.join(program), 1)));
        }
    }
    for (program, _, runs) in &programs {
        let times: Vec<f64> = runs.iter().map(|run| run.wall_s).collect();
        let all: Vec<String> = times.iter().map(|time| format!("{time:.3}")).collect();
        println!("{program:8} {:>6.3}   ({})   {}", median(&times), all.join(" "), Run::medians(runs));
    }
}

/// The number of such files below a folder.
fn count(folder: &Path, is_such: &dyn Fn(&Path) -> bool) -> usize {
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let path = entry.path();
            if entry.file_type().unwrap().is_dir() {
                count(&path, is_such)
            } else {
                usize::from(is_such(&path))
            }
        })
        .sum()
}

fn stroll(server: &Server, place: &Path, target: &Path, connections: usize) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stroll"));
    command.env_clear().env("HOME", place).args(["mirror", "--quiet", "--solo", "--connections"]);
    command.arg(connections.to_string()).arg(&server.url);
    command.arg(target).arg("--state").arg(place.join("state"));
    command
}

fn curl(server: &Server, place: &Path, target: &Path, connections: usize) -> Command {
    let mut list = String::new();
    for (folder, file) in (0..FOLDERS).flat_map(|folder| (0..FILES).map(move |file| (folder, file))) {
        let name = format!("folder-{folder:03}/file-{file:03}.dat");
        let _ = write!(list, "url = \"{}{name}\"\noutput = \"{}/{name}\"\n", server.url, target.display());
    }
    let path = place.join("curl");
    fs::write(&path, list).unwrap();
    let mut command = Command::new("curl");
    command.args(["-q", "-sS", "--create-dirs", "-K"]).arg(path);
    if connections > 1 {
        command.args(["--parallel", "--parallel-max"]).arg(connections.to_string());
    }
    command
}

fn wget(server: &Server, _: &Path, target: &Path, _: usize) -> Command {
    let mut command = Command::new("wget");
    command.args(["-q", "--no-config", "-r", "-np", "-nH", "--cut-dirs=1", "-R", "index.html*", "-P"]);
    command.arg(target).arg(&server.url);
    command
}

fn wget2(server: &Server, _: &Path, target: &Path, connections: usize) -> Command {
    let mut command = Command::new("wget2");
    command.args(["-q", "--no-config", "-r", "-np", "-nH", "--cut-dirs=1", "-R", "index.html*", "-P"]);
    command.arg(target).arg(format!("--max-threads={connections}")).arg(&server.url);
    command
}

fn lftp(server: &Server, place: &Path, target: &Path, connections: usize) -> Command {
    let open = server.open.as_deref().unwrap();
    let script = format!(
        "set net:connection-limit {connections}\nset cmd:fail-exit yes\n{open}\nmirror --parallel={connections} tree {}\n",
        target.display()
    );
    let path = place.join("script");
    fs::write(&path, script).unwrap();
    let mut command = Command::new("lftp");
    command.env("HOME", place).arg("--norc").arg("-f").arg(path);
    command
}

fn rclone(server: &Server, place: &Path, target: &Path, connections: usize) -> Command {
    let mut command = Command::new("rclone");
    command.env("HOME", place).args(["copy", "-q", "--transfers"]).arg(connections.to_string());
    command.args(&server.rclone).arg(target);
    command
}
