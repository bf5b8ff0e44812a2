//! Flags of `get`, `mirror` and `subscribe`: those that they share, each for every one of them, and their own.
//!
//! What can also be set by the environment or the settings is checked that way, too, with `get`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use crate::Check;
use crate::desk::{Desk, noise};
use crate::ftpd::{self, Ftpd};
use crate::lab::{Lab, found};
use crate::site::{Answer, Request, Site, Then, file_or_index};
use crate::web::{Kind, PASSWORD, USER, Web};

/// How long a command that ends by itself, or does what is waited for, may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(25);

/// How long a thing that must not happen is waited for.
const MOMENT: Duration = Duration::from_millis(1_500);

const PULLING: [&str; 3] = ["get", "mirror", "subscribe"];

/// How a setting is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Flag,
    Environment,
    Settings,
}

/// Whether a command has come so far.
type Until = Box<dyn Fn(&Desk) -> bool>;

/// One of the three commands, as it is to be started.
struct Pull {
    desk: Desk,
    command: &'static str,
    way: Way,
    args: Vec<String>,
    settings: Vec<(String, String)>,
    /// Ended when it has come so far; without, at its own end.
    until: Option<Until>,
    patience: Duration,
}

/// What came of it.
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
    took: Duration,
}

impl Pull {
    /// Pulls these files of a folder into `in`.
    fn new(command: &'static str, way: Way, folder: &str, files: &[&'static str]) -> Self {
        let mut args: Vec<String> = Vec::new();
        match command {
            "get" => {
                args.extend(files.iter().map(|file| format!("{folder}{file}")));
                args.extend(["-o", "in/"].map(str::to_owned));
            }
            "mirror" => args.extend([folder, "in"].map(str::to_owned)),
            _ => {
                args.extend([folder, "in", "--since", "all", "--settle", "0s"].map(str::to_owned));
            }
        }
        let files: Vec<&'static str> = files.to_vec();
        let has_all = move |desk: &Desk| files.iter().all(|file| desk.path("in").join(file).exists());
        let until: Option<Until> = if command == "subscribe" { Some(Box::new(has_all)) } else { None };
        Self { desk: Desk::new(), command, way, args, settings: Vec::new(), until, patience: PATIENCE }
    }

    /// Sets something, by a flag or as this check is to set it.
    fn with(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Always by words of the command line.
    fn plus(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(|arg| (*arg).to_owned()));
        self
    }

    /// Subscriptions look rarely otherwise.
    fn looking_every(self, poll: &str) -> Self {
        if self.command == "subscribe" { self.plus(&["--poll", poll]) } else { self }
    }

    fn until(mut self, is_so: impl Fn(&Desk) -> bool + 'static) -> Self {
        self.until = Some(Box::new(is_so));
        self
    }

    /// Gives up after a moment, because it is expected not to come.
    fn in_vain(mut self) -> Self {
        self.patience = MOMENT;
        self
    }

    fn to_command(&self) -> Command {
        let mut command = self.desk.stroll(&[self.command]);
        command.args(&self.args);
        let mut lines = String::from("[transfer]\n");
        for (name, value) in &self.settings {
            match self.way {
                Way::Flag if value == "true" => drop(command.arg(format!("--{name}"))),
                Way::Flag => drop(command.args([format!("--{name}"), value.clone()])),
                Way::Environment => {
                    command.env(format!("STROLL_{}", name.to_uppercase().replace('-', "_")), value);
                }
                Way::Settings => {
                    let is_number = matches!(name.as_str(), "connections" | "retries");
                    let value = match name.as_str() {
                        _ if is_number => value.clone(),
                        "follow-to" => format!("[\"{value}\"]"),
                        _ => format!("\"{value}\""),
                    };
                    lines += &[&name.replace('-', "_"), " = ", &value, "\n"].concat();
                }
            }
        }
        if self.way == Way::Settings {
            fs::write(self.desk.home().join("stroll.toml"), lines).unwrap();
            command.arg("--config").arg(self.desk.home().join("stroll.toml"));
        }
        command
    }

    fn run(&self) -> Ran {
        self.run_command(self.to_command())
    }

    fn run_command(&self, mut command: Command) -> Ran {
        let (out, err) = (self.desk.home().join("out"), self.desk.home().join("err"));
        command.stdout(fs::File::create(&out).unwrap()).stderr(fs::File::create(&err).unwrap());
        let begun = Instant::now();
        let mut child = command.spawn().unwrap();
        let (mut took, mut code) = (None, None);
        while begun.elapsed() < self.patience {
            if let Some(status) = child.try_wait().unwrap() {
                code = status.code();
                took.get_or_insert(begun.elapsed());
                break;
            }
            if self.until.as_ref().is_some_and(|until| until(&self.desk)) {
                took = Some(begun.elapsed());
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        if code.is_none() {
            let pid = rustix::process::Pid::from_child(&child);
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let status = child.wait().unwrap();
        if code.is_none() {
            // Ended only because the test wants it: no exit code of its own.
            code = took.and(status.code());
        }
        Ran {
            code,
            out: fs::read_to_string(out).unwrap(),
            err: fs::read_to_string(err).unwrap(),
            took: took.unwrap_or(self.patience),
        }
    }

    fn has(&self, file: &str) -> bool {
        self.desk.path("in").join(file).exists()
    }

    #[track_caller]
    fn comes(&self, file: &str) -> Ran {
        let ran = self.run();
        assert!(self.has(file), "{} by {:?} with {:?}: {}", self.command, self.way, self.settings, ran.err);
        ran
    }

    #[track_caller]
    fn comes_not(self, file: &str) -> Ran {
        let pull = self.in_vain();
        let ran = pull.run();
        assert!(!pull.has(file), "{} with {:?}: {}", pull.command, pull.settings, ran.err);
        ran
    }
}

/// Each of the three commands by its flag, and `get` in all ways.
fn in_all_ways(flags: &[&'static str], check: fn(&'static str, Way)) -> Vec<Check> {
    let mut checks: Vec<Check> =
        PULLING.iter().map(|command| Check::new(command, flags, move || check(command, Way::Flag))).collect();
    for way in [Way::Environment, Way::Settings] {
        checks.push(Check::new("get", flags, move || check("get", way)));
    }
    checks
}

/// Each of the three commands by its flag, and `get` by the environment.
fn by_flag(flags: &[&'static str], check: fn(&'static str, Way)) -> Vec<Check> {
    let mut checks = in_all_ways(flags, check);
    checks.pop();
    checks
}

pub(crate) fn checks() -> Vec<Check> {
    let shared = [
        in_all_ways(&["connections"], connections),
        in_all_ways(&["bwlimit"], bwlimit),
        in_all_ways(&["chunk"], chunk),
        in_all_ways(&["retries"], retries),
        in_all_ways(&["refusal-wait"], refusal_wait),
        in_all_ways(&["timeout"], timeout),
        in_all_ways(&["idle-grace"], idle_grace),
        in_all_ways(&["contact"], contact),
        in_all_ways(&["proxy"], proxy),
        in_all_ways(&["follow-to"], follow_to),
        in_all_ways(&["ftp-tls"], ftp_tls),
        in_all_ways(&["ca-file"], ca_file),
        in_all_ways(&["netrc-file"], netrc_file),
        in_all_ways(&["user", "password-file"], password_file),
        in_all_ways(&["user", "password-command"], password_command),
        by_flag(&["state"], state),
        by_flag(&["json"], json),
        by_flag(&["progress"], progress),
        by_flag(&["verbose"], verbose),
        by_flag(&["quiet"], quiet),
        by_flag(&["log-format"], log_format),
        by_flag(&["log-file"], log_file),
        by_flag(&["sums"], sums),
        by_flag(&["no-resume"], no_resume),
        by_flag(&["no-times"], no_times),
        by_flag(&["max-duration"], max_duration),
        by_flag(&["solo"], solo),
        by_flag(&["home"], home),
        by_flag(&["circle"], circle),
        by_flag(&["config"], |command, _| config(command)),
    ];
    let own = [
        Check::new("mirror", &["filter-from"], || filter_from("mirror")),
        Check::new("subscribe", &["filter-from"], || filter_from("subscribe")),
        Check::new("mirror", &["max-size"], || max_size("mirror")),
        Check::new("subscribe", &["max-size"], || max_size("subscribe")),
        Check::new("subscribe", &["min-size"], min_size),
        Check::new("subscribe", &["include", "exclude"], include_and_exclude),
        Check::new("subscribe", &["portable-names"], || portable_names("subscribe")),
        Check::new("mirror", &["portable-names"], || portable_names("mirror")),
        Check::new("mirror", &["hidden"], hidden),
        Check::new("mirror", &["schedule"], schedule),
        Check::new("subscribe", &["poll"], poll),
        Check::new("subscribe", &["delay"], delay),
        Check::new("subscribe", &["give-up"], give_up),
        Check::new("subscribe", &["exec-timeout"], exec_timeout),
    ];
    shared.into_iter().flatten().chain(own).collect()
}

/// Those that take long, because the flag is about half a minute.
pub(crate) fn slow_checks() -> Vec<Check> {
    in_all_ways(&["min-speed"], min_speed)
}

// --- what they share --------------------------------------------------------------------------------------------

fn one(size: usize) -> Site {
    Site::of(vec![("f", noise(1, size))])
}

/// Files are asked for side by side.
fn connections(command: &'static str, way: Way) {
    let files: Vec<_> = ["a", "b", "c", "d"].map(|name| (name, noise(3, 1_000))).into();
    let site = Site::start(move |request| {
        let is_file = !request.path().ends_with('/');
        let after = Duration::from_millis(if is_file { 800 } else { 0 });
        Answer { after, ..file_or_index(request, &files) }
    });
    Pull::new(command, way, &site.url(""), &["a", "b", "c", "d"]).with("connections", "4").comes("d");
    let gets = site.gets();
    assert!(gets[1].at - gets[0].at < Duration::from_millis(700), "one after the other");
}

fn bwlimit(command: &'static str, way: Way) {
    let site = one(400_000);
    let ran = Pull::new(command, way, &site.url(""), &["f"]).with("bwlimit", "200k").comes("f");
    assert!(ran.took > Duration::from_millis(900), "400 kB came in {:?}", ran.took);
}

fn chunk(command: &'static str, way: Way) {
    let site = one(300_000);
    Pull::new(command, way, &site.url(""), &["f"]).with("chunk", "64k").comes("f");
    assert!(site.gets().len() >= 4, "{:?}", site.gets());
}

fn retries(command: &'static str, way: Way) {
    for (tries, requests) in [("0", 1), ("1", 2)] {
        let site = Site::start(|_| Answer::new(Vec::new(), Then::Close));
        let pull = Pull::new(command, way, &site.url(""), &["f"]).with("retries", tries).looking_every("10m");
        // The first wait is 1.25 s at most, the second one at least 2 s.
        let pull = if command == "subscribe" {
            Pull { patience: Duration::from_millis(2_500), ..pull }
        } else {
            pull
        };
        pull.run();
        assert_eq!(site.requests().len(), requests, "--retries {tries}");
    }
}

fn refusal_wait(command: &'static str, way: Way) {
    let site = Site::start(|_| Answer::status("503 Service Unavailable", ""));
    let pull = Pull::new(command, way, &site.url(""), &["f"])
        .with("refusal-wait", "200ms")
        .plus(&["--retries", "1"]);
    let pull = if command == "subscribe" { Pull { patience: Duration::from_secs(5), ..pull } } else { pull };
    pull.run();
    assert!(site.requests().len() >= 2, "{:?}", site.requests());
}

/// Something that must be said, since the command does not end by it: it tries again later.
fn says_that(what: &'static str) -> impl Fn(&Desk) -> bool {
    move |desk| fs::read_to_string(desk.home().join("err")).is_ok_and(|said| said.contains(what))
}

fn timeout(command: &'static str, way: Way) {
    let site = Site::start(|_| Answer::new(Vec::new(), Then::Stall));
    let pull =
        Pull::new(command, way, &site.url(""), &["f"]).with("timeout", "300ms").plus(&["--retries", "0"]);
    let pull = if command == "subscribe" { pull.until(says_that("looking again")) } else { pull };
    let ran = pull.run();
    assert!(ran.took < Duration::from_secs(20), "{}", ran.err);
}

/// It takes half a minute to find that a connection is slow.
fn min_speed(command: &'static str, way: Way) {
    let files = vec![("f", noise(1, 300_000))];
    let site = Site::start(move |request| {
        let whole = file_or_index(request, &files);
        if !request.is_get() || request.path().ends_with('/') {
            return whole;
        }
        Answer::new(whole.bytes[..20_000].to_vec(), Then::Drip)
    });
    let pull =
        Pull::new(command, way, &site.url(""), &["f"]).with("min-speed", "100k").plus(&["--retries", "0"]);
    let pull = Pull { patience: Duration::from_secs(50), ..pull };
    let pull = pull.until(says_that("slow"));
    let ran = pull.run();
    let is_said = ran.err.to_lowercase().contains("slow");
    assert!(is_said && ran.took < Duration::from_secs(45), "after {:?}: {}", ran.took, ran.err);
}

/// A connection is open as long as its grace, here from one slot to the next, or is made anew.
fn idle_grace(command: &'static str, way: Way) {
    let connections = |grace: &str| {
        let files: Vec<_> = ["a", "b", "c", "d", "e", "f"].map(|name| (name, noise(3, 1_000))).into();
        let site = Site::start(move |request| {
            let is_file = !request.path().ends_with('/');
            let after = Duration::from_millis(if is_file { 350 } else { 0 });
            Answer { after, ..file_or_index(request, &files) }
        });
        let folder = tempfile::tempdir().unwrap();
        let lab = Lab::new(folder.path(), "lab-0");
        found(&lab, &site.url(""), &["--slot", "1s", "--skip", "300ms", "--capacity", "4"]);
        let pull = Pull::new(command, way, &site.url(""), &["a", "b", "c", "d", "e", "f"]);
        let pull = pull.with("idle-grace", grace);
        let mut command = pull.to_command();
        command.env("STROLL_HOME", &lab.home);
        let ran = pull.run_command(command);
        assert!(pull.has("f"), "{}", ran.err);
        site.connections()
    };
    let (kept, closed) = (connections("1m"), connections("1ms"));
    assert!(closed > kept, "{closed} connections with a short grace, {kept} with a long one");
}

fn contact(command: &'static str, way: Way) {
    let site = one(1_000);
    Pull::new(command, way, &site.url(""), &["f"]).with("contact", "you@lab.example").comes("f");
    let requests = site.requests();
    let agents: Vec<_> = requests.iter().filter_map(|request| request.field("user-agent")).collect();
    assert!(!agents.is_empty() && agents.iter().all(|agent| agent.contains("you@lab.example")), "{agents:?}");
}

fn proxy(command: &'static str, way: Way) {
    let site = one(1_000);
    let pull = Pull::new(command, way, "http://source.invalid/", &["f"]);
    pull.with("proxy", site.url("").trim_end_matches('/')).comes("f");
    assert!(site.requests().iter().all(|request| request.path().starts_with("http://source.invalid/")));
}

fn follow_to(command: &'static str, way: Way) {
    let other = one(1_000);
    let port = other.at.port();
    let files = vec![("f", noise(1, 1_000))];
    let site = Site::start(move |request| {
        if request.path().ends_with('/') {
            return file_or_index(request, &files);
        }
        Answer::status("302 Found", &format!("location: http://localhost:{port}/f\r\n"))
    });
    Pull::new(command, way, &site.url(""), &["f"]).with("follow-to", "localhost").comes("f");
    Pull::new(command, way, &site.url(""), &["f"]).with("follow-to", "elsewhere.invalid").comes_not("f");
}

fn ftp_tls(command: &'static str, way: Way) {
    let server = Ftpd::start(ftpd::Kind::Vsftpd);
    server.put("f", &noise(1, 1_000), 1_600_000_000);
    let pull = |when: &str| {
        let pull = Pull::new(command, way, &server.address("").to_string(), &["f"]).with("ftp-tls", when);
        let password = pull.desk.private("password", "right\n").display().to_string();
        pull.plus(&["--user", "anonymous", "--password-file", &password])
    };
    pull("off").comes("f");
    pull("required").comes_not("f");
}

fn ca_file(command: &'static str, way: Way) {
    let web = Web::start(Kind::Nginx);
    web.put("tree/f", &noise(1, 1_000), 10_000);
    let url = web.https("tree/").to_string();
    Pull::new(command, way, &url, &["f"]).with("ca-file", web.certificate().to_str().unwrap()).comes("f");
    Pull::new(command, way, &url, &["f"]).comes_not("f");
}

/// A folder behind a password.
fn private() -> (Web, String) {
    let web = Web::start(Kind::Nginx);
    web.put("private/f", &noise(1, 1_000), 10_000);
    let url = web.http("private/").to_string();
    (web, url)
}

fn netrc_file(command: &'static str, way: Way) {
    let (_web, url) = private();
    let pull = Pull::new(command, way, &url, &["f"]);
    let file = pull.desk.private("logins", &format!("machine 127.0.0.1 login {USER} password {PASSWORD}\n"));
    pull.with("netrc-file", file.to_str().unwrap()).comes("f");
    Pull::new(command, way, &url, &["f"]).comes_not("f");
}

fn password_file(command: &'static str, way: Way) {
    let (_web, url) = private();
    for (user, comes) in [(USER, true), ("nobody", false)] {
        let pull = Pull::new(command, way, &url, &["f"]);
        let file = pull.desk.private("password", &format!("{PASSWORD}\n"));
        let pull = pull.with("user", user).with("password-file", file.to_str().unwrap());
        if comes {
            pull.comes("f");
        } else {
            pull.comes_not("f");
        }
    }
}

fn password_command(command: &'static str, way: Way) {
    let (_web, url) = private();
    let say = format!("echo {PASSWORD}");
    Pull::new(command, way, &url, &["f"]).with("user", USER).with("password-command", &say).comes("f");
    Pull::new(command, way, &url, &["f"])
        .with("user", USER)
        .with("password-command", "echo no")
        .comes_not("f");
}

/// A file of which only the first part comes while the switch is on.
fn broken_off() -> (Site, std::sync::Arc<AtomicBool>) {
    let (is_broken, files) = (std::sync::Arc::new(AtomicBool::new(true)), vec![("f", vec![b'x'; 400_000])]);
    let switch = is_broken.clone();
    let site = Site::start(move |request| {
        let mut answer = file_or_index(request, &files);
        if request.is_get() && !request.path().ends_with('/') && switch.load(Ordering::SeqCst) {
            answer.bytes.truncate(300_000);
            answer.then = Then::Fade;
        }
        answer
    });
    (site, is_broken)
}

/// The journal of a part is there, if not where it always is.
fn state(command: &'static str, way: Way) {
    let (site, _) = broken_off();
    let pull = Pull::new(command, way, &site.url(""), &["f"]);
    let place = pull.desk.path("place");
    let is_there = |place: PathBuf| fs::read_dir(place).is_ok_and(|mut entries| entries.next().is_some());
    let pull = pull.with("state", place.to_str().unwrap()).plus(&["--retries", "0"]).looking_every("10m");
    let pull = Pull { patience: Duration::from_secs(3), ..pull };
    pull.run();
    assert!(is_there(place), "nothing is in the folder that was named");
    assert!(!pull.desk.home().join(".local/state/stroll").exists(), "it is in the usual place");
}

fn json(command: &'static str, way: Way) {
    let site = one(1_000);
    let is_json = |pull: Pull| {
        let ran = pull.comes("f");
        !ran.out.is_empty()
            && ran.out.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok())
    };
    let pull = || Pull::new(command, way, &site.url(""), &["f"]);
    let lines =
        |pull: Pull| if command == "subscribe" { pull.until(|desk| has_text(desk, "out")) } else { pull };
    assert!(is_json(lines(pull().with("json", "true"))));
    assert!(!is_json(pull()));
}

fn has_text(desk: &Desk, name: &str) -> bool {
    fs::metadata(desk.home().join(name)).is_ok_and(|file| file.len() > 0)
}

fn progress(command: &'static str, way: Way) {
    let site = one(1_000);
    let said =
        |how: &str| Pull::new(command, way, &site.url(""), &["f"]).with("progress", how).comes("f").err;
    let is_event = |line: &str| {
        serde_json::from_str::<serde_json::Value>(line).is_ok_and(|line| line["event"].is_string())
    };
    assert!(said("json").lines().any(is_event));
    assert!(!said("line").lines().any(is_event));
}

/// A site that refuses the second connection once, which is worth a warning.
fn refusing_once() -> Site {
    let (files, refused) = (vec![("a", noise(1, 1_000)), ("b", noise(2, 1_000))], AtomicUsize::new(0));
    Site::start(move |request| {
        if request.is_get() && request.path().ends_with("/b") && refused.fetch_add(1, Ordering::SeqCst) == 0 {
            return Answer::status("429 Too Many Requests", "");
        }
        let after = Duration::from_millis(if request.path().ends_with("/a") { 300 } else { 0 });
        Answer { after, ..file_or_index(request, &files) }
    })
}

const WARNING: &str = "fewer connections";

fn warned(command: &'static str, way: Way, site: &Site) -> Pull {
    Pull::new(command, way, &site.url(""), &["a", "b"]).plus(&["--connections", "2"])
}

fn log_format(command: &'static str, way: Way) {
    let ran = warned(command, way, &refusing_once()).with("log-format", "json").comes("b");
    let line = ran.err.lines().find(|line| line.contains(WARNING)).unwrap_or_else(|| panic!("{}", ran.err));
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!(line["level"], "WARN", "{line}");
}

fn log_file(command: &'static str, way: Way) {
    let pull = warned(command, way, &refusing_once());
    let log = pull.desk.path("log");
    let ran = pull.with("log-file", log.to_str().unwrap());
    let said = ran.comes("b").err;
    assert!(fs::read_to_string(&log).unwrap().contains(WARNING) && !said.contains(WARNING), "{said}");
}

fn quiet(command: &'static str, way: Way) {
    let said = |is_quiet: bool| {
        let pull = warned(command, way, &refusing_once());
        if is_quiet { pull.with("quiet", "true").comes("b").err } else { pull.comes("b").err }
    };
    assert!(said(false).contains(WARNING));
    assert_eq!(said(true), "");
}

/// Once for more, twice for everything.
fn verbose(command: &'static str, way: Way) {
    let site = one(300_000);
    let said = |level: Option<&str>| {
        let pull = Pull::new(command, Way::Flag, &site.url(""), &["f"]).plus(&["--progress", "none"]);
        let pull = match (level, way) {
            (None, _) => pull,
            (Some(level), Way::Environment) => {
                let pull = pull.plus(&["--chunk", "auto"]);
                Pull { way, ..pull }.with("verbose", level)
            }
            (Some("2"), _) => pull.plus(&["--verbose", "--verbose"]),
            (Some(_), _) => pull.plus(&["--verbose"]),
        };
        pull.comes("f").err
    };
    let (usual, more) = (said(None), said(Some("2")));
    assert!(more.lines().count() > usual.lines().count(), "{more}");
}

fn sums(command: &'static str, way: Way) {
    let wrong = format!("{}  f\n", "0".repeat(64)).into_bytes();
    let site = Site::of(vec![("SHA256SUMS", wrong), ("f", noise(1, 1_000))]);
    let pull = || Pull::new(command, way, &site.url(""), &["f"]);
    pull().with("sums", "off").comes("f");
    pull().with("sums", "auto").comes_not("f");
}

fn no_resume(command: &'static str, way: Way) {
    for (is_resumed, extra) in [(true, false), (false, true)] {
        let (site, is_broken) = broken_off();
        let pull =
            Pull::new(command, way, &site.url(""), &["f"]).plus(&["--retries", "0"]).looking_every("10m");
        let pull = Pull { patience: Duration::from_secs(3), ..pull };
        pull.run();
        is_broken.store(false, Ordering::SeqCst);
        let before = site.gets().len();
        let pull = Pull { patience: PATIENCE, ..pull };
        let pull = if extra { pull.with("no-resume", "true") } else { pull };
        pull.comes("f");
        let first = site.gets()[before].field("range").unwrap_or_default();
        let has_gone_on = !first.is_empty() && !first.starts_with("bytes=0-");
        assert_eq!(has_gone_on, is_resumed, "{first:?}");
    }
}

fn no_times(command: &'static str, way: Way) {
    let site = one(1_000);
    let age = |pull: Pull| {
        pull.comes("f");
        let changed = fs::metadata(pull.desk.path("in/f")).unwrap().modified().unwrap();
        SystemTime::now().duration_since(changed).unwrap_or_default()
    };
    let pull = || Pull::new(command, way, &site.url(""), &["f"]);
    assert!(age(pull()) > Duration::from_secs(1_000_000));
    assert!(age(pull().with("no-times", "true")) < Duration::from_secs(1_000));
}

fn max_duration(command: &'static str, way: Way) {
    let site = Site::start(|_| Answer::new(Vec::new(), Then::Stall));
    let pull = Pull::new(command, way, &site.url(""), &["f"]).with("max-duration", "500ms").until(|_| false);
    assert_eq!(pull.run().code, Some(10));
}

/// A circle around a site, with a founder whose member does not run.
fn around(site: &Site) -> (tempfile::TempDir, Lab) {
    let folder = tempfile::tempdir().unwrap();
    let lab = Lab::new(folder.path(), "lab-0");
    found(&lab, &site.url(""), &["--slot", "2s", "--skip", "20ms", "--capacity", "4"]);
    (folder, lab)
}

const IN_CIRCLE: &str = "in the slots of circle virgo";

fn solo(command: &'static str, way: Way) {
    let site = one(1_000);
    let (_folder, lab) = around(&site);
    let home = lab.home.to_str().unwrap();
    let pull = || Pull::new(command, way, &site.url(""), &["f"]).plus(&["--home", home]);
    assert!(pull().comes("f").err.contains(IN_CIRCLE));
    assert!(!pull().with("solo", "true").comes("f").err.contains(IN_CIRCLE));
}

fn home(command: &'static str, way: Way) {
    let site = one(1_000);
    let (_folder, lab) = around(&site);
    let pull = || Pull::new(command, way, &site.url(""), &["f"]);
    assert!(!pull().comes("f").err.contains(IN_CIRCLE));
    assert!(pull().with("home", lab.home.to_str().unwrap()).comes("f").err.contains(IN_CIRCLE));
}

/// A circle that is named is entered for addresses that are not its source's, too.
fn circle(command: &'static str, way: Way) {
    let (site, other) = (one(1_000), one(1_000));
    let (_folder, lab) = around(&other);
    let home = lab.home.to_str().unwrap();
    let pull = || Pull::new(command, way, &site.url(""), &["f"]).plus(&["--home", home]);
    assert!(!pull().comes("f").err.contains(IN_CIRCLE));
    assert!(pull().with("circle", "virgo").comes("f").err.contains(IN_CIRCLE));
}

fn config(command: &'static str) {
    let site = one(1_000);
    let pull = Pull::new(command, Way::Settings, &site.url(""), &["f"]).with("nonsense", "1");
    let ran = pull.run();
    assert!(ran.code == Some(2) && ran.err.contains("nonsense"), "{:?}: {}", ran.code, ran.err);
}

// --- their own --------------------------------------------------------------------------------------------------

/// Pulls these files of three of different sizes, and no others.
#[track_caller]
fn only(command: &'static str, expected: &[&'static str], args: impl FnOnce(&Desk) -> Vec<String>) {
    let site =
        Site::of(vec![("a.dat", noise(1, 100)), ("b.txt", noise(2, 10_000)), ("c.dat", noise(3, 100_000))]);
    let pull = Pull::new(command, Way::Flag, &site.url(""), expected);
    let args = args(&pull.desk);
    let pull = pull.plus(&args.iter().map(String::as_str).collect::<Vec<_>>());
    let ran = pull.run();
    for file in ["a.dat", "b.txt", "c.dat"] {
        assert_eq!(pull.has(file), expected.contains(&file), "{file}: {}", ran.err);
    }
}

fn words(args: &[&str]) -> Vec<String> {
    args.iter().map(|arg| (*arg).to_owned()).collect()
}

fn filter_from(command: &'static str) {
    only(command, &["b.txt"], |desk| {
        let rules = desk.path("rules");
        fs::write(&rules, "+ *.txt\n- *\n").unwrap();
        fs::set_permissions(&rules, fs::Permissions::from_mode(0o644)).unwrap();
        vec!["--filter-from".to_owned(), rules.display().to_string()]
    });
}

fn max_size(command: &'static str) {
    only(command, &["a.dat", "b.txt"], |_| words(&["--max-size", "20k"]));
}

fn min_size() {
    only("subscribe", &["b.txt", "c.dat"], |_| words(&["--min-size", "1k"]));
}

fn include_and_exclude() {
    only("subscribe", &["a.dat", "c.dat"], |_| words(&["--include", "*.dat"]));
    only("subscribe", &["a.dat", "b.txt"], |_| words(&["--exclude", "c*"]));
}

fn portable_names(command: &'static str) {
    let site = || Site::of(vec![("a:b", noise(1, 100)), ("z", noise(1, 100))]);
    let usual = site();
    Pull::new(command, Way::Flag, &usual.url(""), &["a:b", "z"]).comes("a:b");
    let strict = site();
    let pull = Pull::new(command, Way::Flag, &strict.url(""), &["z"]).plus(&["--portable-names"]);
    pull.comes("z");
    assert!(!pull.has("a:b"));
}

fn hidden() {
    let site = Site::of(vec![(".a", noise(1, 100)), ("z", noise(1, 100))]);
    let pull = Pull::new("mirror", Way::Flag, &site.url(""), &["z"]);
    pull.comes("z");
    assert!(!pull.has(".a"));
    Pull::new("mirror", Way::Flag, &site.url(""), &["z"]).plus(&["--hidden"]).comes(".a");
}

/// It waits for the next time.
fn schedule() {
    let site = one(1_000);
    let pull =
        Pull::new("mirror", Way::Flag, &site.url(""), &["f"]).plus(&["--schedule", "0 0 1 1 *"]).in_vain();
    assert_eq!(pull.run().code, None, "it ended by itself");
}

fn poll() {
    let looks = |poll: &str| {
        let site = one(1_000);
        let pull =
            Pull::new("subscribe", Way::Flag, &site.url(""), &["f"]).plus(&["--poll", poll]).until(|_| false);
        pull.in_vain().run();
        site.requests().iter().filter(|request| request.path().ends_with('/')).count()
    };
    let (often, seldom) = (looks("100ms"), looks("10m"));
    assert!(often > 3 && seldom <= 2, "{often} looks and {seldom}");
}

/// Names of every second; the site has all of them.
fn named(args: &[&str], is_there: bool, until: impl Fn(&Desk) -> bool + 'static) -> (Site, Ran) {
    let site = Site::start(move |request| {
        let name = request.path().trim_start_matches('/').to_owned();
        if !is_there || name.is_empty() {
            return Answer::status("404 Not Found", "");
        }
        let asked = Request { head: request.head.replacen(&name, "any", 1), ..request.clone() };
        file_or_index(&asked, &[("any", noise(1, 100))])
    });
    let pull = Pull::new("subscribe", Way::Flag, &site.url(""), &[]).until(until);
    let pull = Pull { args: vec![site.url(""), "in".to_owned()], ..pull };
    let pull = pull.plus(&["--name-template", "t-%H%M%S", "--step", "1s", "--poll", "100ms"]).plus(args);
    let ran = Pull { patience: Duration::from_secs(6), ..pull }.run();
    (site, ran)
}

/// A file is asked for when the delay after its moment is over.
fn delay() {
    let asked = |delay: &str| {
        let args = ["--since", "1s", "--delay", delay];
        let (site, _) = named(&args, true, |_| false);
        site.requests().len()
    };
    let (soon, late) = (asked("0s"), asked("1h"));
    assert!(soon > 0 && late == 0, "{soon} requests without a delay, {late} with a long one");
}

/// What does not come is given up, and the next one is waited for.
fn give_up() {
    let gaps = |give_up: &str| {
        let args = ["--since", "3s", "--delay", "0s", "--give-up", give_up, "--progress", "line"];
        named(&args, false, says_that("never came")).1.err.contains("never came")
    };
    assert!(gaps("1s") && !gaps("1h"));
}

fn exec_timeout() {
    let ended = |limit: &str| {
        let site = one(1_000);
        let pull = Pull::new("subscribe", Way::Flag, &site.url(""), &["f"]);
        let pull =
            pull.plus(&["--exec", "sleep 60", "--exec-timeout", limit]).until(says_that("longer than"));
        Pull { patience: Duration::from_secs(4), ..pull }.run().err.contains("longer than")
    };
    assert!(ended("300ms") && !ended("1h"));
}
