//! `--connections N` against real servers: everything comes, at a bounded cost, also where the server allows fewer
//! connections than asked for.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]
#![allow(clippy::disallowed_methods, reason = "these tests are about real time")]

#[path = "common/desk.rs"]
mod desk;
#[path = "common/ftpd.rs"]
mod ftpd;
#[path = "common/lab.rs"]
mod lab;
#[path = "common/lying_http.rs"]
mod lying_http;
#[path = "common/web.rs"]
mod web;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use desk::{Desk, noise};
use ftpd::Ftpd;
use lab::{Lab, QUICK, found, join};
use web::{Kind, Web};

/// Counts of connections: two, some, and as many as there may be.
const CONNECTIONS: [&str; 3] = ["2", "4", "32"];

/// How long one run may take on a busy machine. A run that waits out a refusal takes five minutes.
const PATIENCE: Duration = Duration::from_secs(100);

/// Processor time of a run that pulls next to nothing. One that spins uses as much as it runs.
const CPU: Duration = Duration::from_secs(5);

// --- trees ------------------------------------------------------------------------------------------------------

type Tree = BTreeMap<String, Vec<u8>>;

fn files(count: usize, size: usize) -> Tree {
    (0..count).map(|number| (format!("f{number}.dat"), noise(number as u64, size))).collect()
}

/// Small files, a few in each of many folders.
fn in_folders(count: usize, each: usize) -> Tree {
    (0..count)
        .map(|number| (format!("d{:02}/e{}/f{number}", number / each, number % 3), noise(number as u64, 300)))
        .collect()
}

fn plant(root: &Path, tree: &Tree) {
    let may_read = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    fs::create_dir_all(root).unwrap();
    for (path, bytes) in tree {
        let place = root.join(path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(&place, bytes).unwrap();
        may_read(&place, 0o644);
        let long_ago = std::time::SystemTime::now() - Duration::from_secs(10_000);
        fs::File::options().write(true).open(&place).unwrap().set_modified(long_ago).unwrap();
    }
}

#[track_caller]
fn is_here(here: &Path, tree: &Tree) {
    let mut found = Tree::new();
    collect(here, here, &mut found);
    let (want, have): (Vec<_>, Vec<_>) = (tree.keys().collect(), found.keys().collect());
    assert_eq!(want, have);
    assert!(*tree == found, "a file has other bytes");
}

fn collect(root: &Path, folder: &Path, found: &mut Tree) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(root, &path, found);
        } else {
            let name = path.strip_prefix(root).unwrap().display().to_string();
            found.insert(name, fs::read(&path).unwrap());
        }
    }
}

// --- runs -------------------------------------------------------------------------------------------------------

/// What a run left: how it ended, and the processor time that it used.
struct Ran {
    output: Output,
    cpu: Duration,
}

impl Ran {
    fn said(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    #[track_caller]
    fn ended(&self, code: i32) -> &Self {
        assert_eq!(self.output.status.code(), Some(code), "{}", self.said());
        self.spun_not()
    }

    #[track_caller]
    fn spun_not(&self) -> &Self {
        assert!(self.cpu < CPU, "it used {:?} of processor time: {}", self.cpu, self.said());
        self
    }
}

/// Runs a command to its end; one that does not end within the time has failed.
#[track_caller]
fn run(mut command: Command) -> Ran {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let watch = std::thread::spawn(move || watch_until_gone(pid));
    let output = child.wait_with_output().unwrap();
    let (cpu, was_killed) = watch.join().unwrap();
    assert!(!was_killed, "it did not end: {}", String::from_utf8_lossy(&output.stderr));
    Ran { output, cpu }
}

/// Looks at a process until it has ended: the processor time as last seen, and whether it had to be killed.
fn watch_until_gone(pid: u32) -> (Duration, bool) {
    let (begun, mut last) = (Instant::now(), Duration::ZERO);
    while let Some(cpu) = cpu_of(pid) {
        last = cpu;
        if begun.elapsed() > PATIENCE {
            let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            return (last, true);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    (last, false)
}

/// User and system time of a process; `None` once it has ended.
fn cpu_of(pid: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    if matches!(fields[0], "Z" | "X") {
        return None;
    }
    let ticks: u64 = fields[11].parse::<u64>().ok()? + fields[12].parse::<u64>().ok()?;
    Some(Duration::from_millis(ticks * 10))
}

fn end(child: &mut Child) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    child.wait().unwrap();
}

// --- sources ----------------------------------------------------------------------------------------------------

struct Source {
    url: String,
    flags: Vec<String>,
    root: std::path::PathBuf,
    _web: Option<Web>,
    ftpd: Option<Ftpd>,
}

fn nginx() -> Source {
    let web = Web::start(Kind::Nginx);
    let (url, root) = (web.http("tree/").to_string(), web.root().join("tree"));
    fs::create_dir(&root).unwrap();
    Source { url, flags: Vec::new(), root, _web: Some(web), ftpd: None }
}

fn vsftpd(desk: &Desk, clients: Option<u32>) -> Source {
    let ftpd = Ftpd::with(ftpd::Kind::Vsftpd, ftpd::Tls::Off, clients);
    let password = desk.private("password", "right\n").display().to_string();
    let flags = ["--user", "anonymous", "--ftp-tls", "off", "--password-file"].map(str::to_owned);
    let flags = flags.into_iter().chain([password]).collect();
    let (url, root) = (ftpd.address("tree/").to_string(), ftpd.root().join("tree"));
    fs::create_dir(&root).unwrap();
    Source { url, flags, root, _web: None, ftpd: Some(ftpd) }
}

impl Source {
    fn mirror(&self, desk: &Desk, to: &str, args: &[&str]) -> Ran {
        let mut command = desk.stroll(&["mirror", &self.url, to]);
        command.args(&self.flags).args(args);
        run(command)
    }

    fn lives(&self, desk: &Desk, name: &str, tree: &Tree) {
        plant(&self.root, tree);
        for connections in CONNECTIONS {
            let to = format!("{name}-{connections}");
            self.mirror(desk, &to, &["--connections", connections]).ended(0);
            is_here(&desk.path(&to), tree);
        }
        fs::remove_dir_all(&self.root).unwrap();
    }
}

// --- whole trees ------------------------------------------------------------------------------------------------

fn trees_of_every_shape(desk: &Desk, source: &Source) {
    source.lives(desk, "six", &files(6, 20_000));
    source.lives(desk, "one", &files(1, 20_000));
    source.lives(desk, "none", &Tree::new());
    source.lives(desk, "large", &files(1, 40 << 20));
}

/// Two workers woke each other without end, so that nothing came and no signal was heeded.
#[test]
fn trees_of_every_shape_come_over_several_http_connections() {
    trees_of_every_shape(&Desk::new(), &nginx());
}

#[test]
fn trees_of_every_shape_come_over_several_ftp_connections() {
    let desk = Desk::new();
    let source = vsftpd(&desk, None);
    trees_of_every_shape(&desk, &source);
}

#[test]
fn many_small_files_in_many_folders_come_over_several_connections() {
    let (desk, tree) = (Desk::new(), in_folders(500, 10));
    nginx().lives(&desk, "http", &tree);
    let source = vsftpd(&desk, None);
    plant(&source.root, &tree);
    source.mirror(&desk, "ftp", &["--connections", "4"]).ended(0);
    is_here(&desk.path("ftp"), &tree);
}

#[test]
fn a_dry_run_a_quota_and_removing_work_over_several_connections() {
    let (desk, tree) = (Desk::new(), files(6, 20_000));
    for source in [nginx(), vsftpd(&desk, None)] {
        plant(&source.root, &tree);
        for connections in CONNECTIONS {
            let with = |args: &[&str]| -> Vec<String> {
                args.iter().copied().chain(["--connections", connections]).map(str::to_owned).collect()
            };
            let ran = |to: &str, args: &[&str], code| {
                let args = with(args);
                let args: Vec<&str> = args.iter().map(String::as_str).collect();
                source.mirror(&desk, to, &args).ended(code);
            };
            ran("dry", &["--dry-run"], 0);
            assert!(!desk.path("dry").exists());
            ran("quota", &["--max-transfer", "45k"], 8);
            let come = fs::read_dir(desk.path("quota")).unwrap().count();
            assert!((1..6).contains(&come), "{come} files of 20 kB within 45 kB");
            ran("quota", &["--max-transfer", "1M"], 0);
            is_here(&desk.path("quota"), &tree);
            fs::write(desk.path("quota").join("stranger"), "x").unwrap();
            ran("quota", &["--delete", "--max-delete", "100%"], 0);
            is_here(&desk.path("quota"), &tree);
            fs::remove_dir_all(desk.path("quota")).unwrap();
        }
    }
}

#[test]
fn several_addresses_come_over_several_connections() {
    let (web, desk, tree) = (Web::start(Kind::Nginx), Desk::new(), files(7, 50_000));
    for (name, bytes) in &tree {
        web.put(name, bytes, 1_000);
    }
    let urls: Vec<String> = tree.keys().map(|name| web.http(name).to_string()).collect();
    for count in [1, 2, 3, 7] {
        let to = format!("got-{count}");
        let mut command = desk.command(&["--connections", "3", "-o", &format!("{to}/")]);
        command.args(&urls[..count]);
        run(command).ended(0);
        let wanted = tree.iter().take(count).map(|(name, bytes)| (name.clone(), bytes.clone())).collect();
        is_here(&desk.path(&to), &wanted);
    }
}

#[test]
fn a_subscription_follows_over_several_connections_and_rests_in_between() {
    let (desk, source, tree) = (Desk::new(), nginx(), files(6, 20_000));
    plant(&source.root, &tree);
    let mut command = desk.stroll(&["subscribe", &source.url, "in", "--since", "all", "--settle", "0s"]);
    command.args(["--poll", "200ms", "--connections", "2", "--progress", "none"]).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let begun = Instant::now();
    let has_come = |name: &str| desk.path("in").join(name).exists();
    while !tree.keys().all(|name| has_come(name)) {
        assert!(begun.elapsed() < PATIENCE, "not all files come");
        std::thread::sleep(Duration::from_millis(20));
    }
    let before = cpu_of(child.id()).unwrap();
    std::thread::sleep(Duration::from_secs(1));
    let used = cpu_of(child.id()).unwrap().saturating_sub(before);
    assert!(used < Duration::from_millis(500), "{used:?} of processor time in one second of waiting");
    plant(&source.root, &files(7, 20_000));
    while !has_come("f6.dat") {
        assert!(begun.elapsed() < PATIENCE, "a new file does not come");
        std::thread::sleep(Duration::from_millis(20));
    }
    end(&mut child);
    is_here(&desk.path("in"), &files(7, 20_000));
}

// --- sources that allow fewer connections -----------------------------------------------------------------------

#[test]
fn where_an_ftp_server_allows_one_connection_everything_comes_over_that_one() {
    let desk = Desk::new();
    let source = vsftpd(&desk, Some(1));
    let tree = in_folders(40, 8);
    plant(&source.root, &tree);
    let server = source.ftpd.as_ref().unwrap();
    for connections in CONNECTIONS {
        let to = format!("ftp-{connections}");
        server.wait_until_idle();
        let ran = source.mirror(&desk, &to, &["--connections", connections]);
        ran.ended(0);
        is_here(&desk.path(&to), &tree);
        assert!(ran.said().contains("fewer connections"), "{}", ran.said());
    }
    let refusals = server.refusals().len();
    assert!(refusals <= 1 + 3 + 31, "it was refused {refusals} times");
    // One file in ranges, each over a connection of its own.
    let large = files(1, 40 << 20);
    plant(&source.root, &large);
    server.wait_until_idle();
    let mut command = desk.command(&["--connections", "3", &format!("{}f0.dat", source.url)]);
    command.args(&source.flags);
    let ran = run(command);
    ran.ended(0);
    assert!(desk.read("f0.dat") == large["f0.dat"]);
}

/// nginx with `limit_conn`: it serves one request at a time and answers the others with 429.
#[test]
fn where_a_web_server_allows_one_connection_everything_comes_over_that_one() {
    let (web, desk, tree) = (Web::start(Kind::Nginx), Desk::new(), files(6, 40_000));
    for (name, bytes) in &tree {
        web.put(&format!("limited/{name}"), bytes, 1_000);
    }
    let urls: Vec<String> =
        tree.keys().map(|name| web.http(&format!("limited/{name}")).to_string()).collect();
    let mut command = desk.command(&["--connections", "4", "-o", "got/"]);
    command.args(&urls);
    let ran = run(command);
    ran.ended(0);
    is_here(&desk.path("got"), &tree);
    assert!(ran.said().contains("fewer connections"), "{}", ran.said());
}

/// All connections are refused: this is a refusal of the source, which is told and waited out as with one connection.
#[test]
fn where_a_source_refuses_all_connections_the_command_fails_and_says_so() {
    let desk = Desk::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let liar = runtime.block_on(lying_http::Liar::always(vec![lying_http::answer(
        "503 Service Unavailable",
        &["content-length: 0"],
        b"",
    )]));
    let urls: Vec<String> = (0..6).map(|number| liar.address(&format!("f{number}")).to_string()).collect();
    let mut command = desk.command(&["--connections", "3", "--retries", "1", "--refusal-wait", "300ms"]);
    command.args(&urls);
    let ran = run(command);
    ran.ended(5);
    assert!(ran.said().contains("503"), "{}", ran.said());
}

// --- in a circle ------------------------------------------------------------------------------------------------

#[test]
fn a_tree_comes_over_several_connections_in_the_slots_of_a_circle() {
    let (folder, source, tree) = (tempfile::tempdir().unwrap(), nginx(), in_folders(30, 6));
    plant(&source.root, &tree);
    let (mut founder, other) = (Lab::new(folder.path(), "lab-0"), Lab::new(folder.path(), "lab-1"));
    found(&founder, &source.url, QUICK);
    founder.run_with(&["--hold"]);
    join(&founder, &other);
    for connections in ["2", "32"] {
        let (replica, state) = (folder.path().join(connections), folder.path().join("state"));
        let mut command = other.stroll(&["mirror", &source.url, "--connections", connections]);
        command.arg(&replica).arg("--state").arg(state);
        run(command).ended(0);
        is_here(&replica, &tree);
    }
}
