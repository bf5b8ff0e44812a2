//! Flags of circles, members, `exec`, `verify` and `demo`.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::Check;
use crate::desk::{Desk, noise};
use crate::lab::{Lab, found};
use crate::simulating::on_a_terminal;
use crate::site::{Answer, Site};

/// How long a thing may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(25);

/// How long a thing that must not happen is waited for.
const MOMENT: Duration = Duration::from_millis(1_500);

/// Commands that need no member, each so that it could do its work.
const PLAIN: &[(&str, &[&str])] = &[
    ("exec", &["exec", "--", "true"]),
    ("verify", &["verify", "."]),
    ("circle create", &["circle", "create", "lyra", "--source", "http://127.0.0.1:9/"]),
    ("circle invite", &["circle", "invite", "lab-x"]),
    ("circle sign", &["circle", "sign", "request"]),
    ("circle members", &["circle", "members"]),
    ("circle ban", &["circle", "ban", "lab-x"]),
    ("circle amend", &["circle", "amend", "--slot", "7s"]),
    ("circle show", &["circle", "show"]),
    ("join", &["join", "--request", "virgo"]),
    ("run", &["run"]),
    ("status", &["status"]),
    ("pause", &["pause"]),
    ("resume", &["resume"]),
    ("bwlimit", &["bwlimit", "1M"]),
    ("doctor", &["doctor"]),
    ("completions", &["completions", "bash"]),
    ("man", &["man"]),
    ("demo", &["demo"]),
];

/// Those that are about a home that is there.
const AT_HOME: &[&str] = &[
    "exec",
    "circle invite",
    "circle sign",
    "circle members",
    "circle ban",
    "circle amend",
    "circle show",
    "run",
    "status",
    "pause",
    "resume",
    "bwlimit",
    "doctor",
];

pub(crate) fn checks() -> Vec<Check> {
    let config = PLAIN.iter().map(|(command, args)| Check::new(command, &["config"], move || config(args)));
    let at_home = PLAIN.iter().filter(|(command, _)| AT_HOME.contains(command));
    let homes = at_home
        .map(|(command, args)| Check::new(command, &["home", "circle"], move || home_and_circle(args)));
    let own = [
        Check::new("circle create", &["home"], create_at_home),
        Check::new("join", &["home"], request_at_home),
        Check::new(
            "circle create",
            &[
                "source",
                "alias",
                "slot",
                "skip",
                "capacity",
                "bandwidth",
                "rules",
                "scouts",
                "retention",
                "listen",
                "address",
                "member",
                "valid",
            ],
            create,
        ),
        Check::new("circle create", &["mode", "tickets", "faults"], create_with_tickets),
        Check::new(
            "circle amend",
            &["source", "alias", "slot", "skip", "capacity", "bandwidth", "rules", "scouts", "retention"],
            amend,
        ),
        Check::new("circle sign", &["valid"], sign_for),
        Check::new("circle show", &["json"], || as_json(&["circle", "show"])),
        Check::new("circle members", &["json"], || as_json(&["circle", "members"])),
        Check::new("doctor", &["json"], || as_json(&["doctor"])),
        Check::new("doctor", &["ask-source"], ask_source),
        Check::new("status", &["json"], status_as_json),
        Check::new("run", &["hold"], hold),
        Check::new("run", &["listen"], listen),
        Check::new("run", &["verbose", "quiet", "log-format", "log-file"], logs_of_a_member),
        Check::new("exec", &["grace"], grace),
        Check::new("exec", &["schedule"], schedule),
        Check::new("exec", &["solo"], solo),
        Check::new("exec", &["verbose", "quiet"], logs_of_exec),
        Check::new("verify", &["state"], verify_state),
        Check::new("verify", &["progress"], verify_progress),
        Check::new("demo", &["mode", "tickets", "faults", "keep", "no-page"], demo_with_tickets),
        Check::new("demo", &["rules", "overload", "page"], demo_with_rules),
        Check::new("demo", &["progress"], demo_progress),
    ];
    config.chain(homes).chain(own).collect()
}

// --- what they share --------------------------------------------------------------------------------------------

struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

/// Runs a command, which is ended after a moment if it does not end by itself.
fn run(mut command: Command) -> Ran {
    command.env("STROLL_TEST", "1").stdin(Stdio::null());
    let folder = tempfile::tempdir().unwrap();
    let (out, err) = (folder.path().join("out"), folder.path().join("err"));
    command.stdout(fs::File::create(&out).unwrap()).stderr(fs::File::create(&err).unwrap());
    let mut child = command.spawn().unwrap();
    let begun = Instant::now();
    let mut code = None;
    while code.is_none() && begun.elapsed() < 3 * MOMENT {
        code = child.try_wait().unwrap().map(|status| status.code());
        std::thread::sleep(Duration::from_millis(10));
    }
    if code.is_none() {
        let _ = rustix::process::kill_process(
            rustix::process::Pid::from_child(&child),
            rustix::process::Signal::TERM,
        );
    }
    child.wait().unwrap();
    Ran { code: code.flatten(), out: fs::read_to_string(out).unwrap(), err: fs::read_to_string(err).unwrap() }
}

/// A founder whose member does not run.
fn founder(source: &str) -> (tempfile::TempDir, Lab) {
    let folder = tempfile::tempdir().unwrap();
    let lab = Lab::new(folder.path(), "lab-0");
    found(&lab, source, &["--slot", "2s", "--skip", "20ms", "--capacity", "4"]);
    (folder, lab)
}

/// Settings that make no sense are noticed.
fn config(args: &[&str]) {
    let desk = Desk::new();
    let (flags, command) = (desk.home().join("odd.toml"), args);
    fs::write(&flags, "nonsense = 1\n").unwrap();
    let mut words = vec![command[0]];
    words.extend(["--config", flags.to_str().unwrap()]);
    words.extend(&command[1..]);
    let ran = run(desk.stroll(&words));
    assert!(ran.code == Some(2) && ran.err.contains("nonsense"), "{words:?}: {:?} {}", ran.code, ran.err);
}

fn home_and_circle(args: &[&str]) {
    let (_folder, lab) = founder("http://127.0.0.1:9/");
    let desk = Desk::new();
    let request = Lab::new(&desk.path(""), "lab-x").succeeds(&["join", "--request", "virgo"]);
    fs::write(desk.path("request"), request).unwrap();
    let with = |flags: &[&str]| {
        let at = args.iter().position(|arg| *arg == "--").unwrap_or(args.len());
        let words = [&args[..at], flags, &args[at..]].concat();
        run(desk.stroll(&words))
    };
    let (without, there) = (with(&[]), with(&["--home", lab.home.to_str().unwrap()]));
    assert!(
        (without.code, &without.out, &without.err) != (there.code, &there.out, &there.err),
        "{args:?}: --home changes nothing: {}",
        there.err
    );
    let elsewhere = with(&["--home", lab.home.to_str().unwrap(), "--circle", "orion"]);
    assert!(elsewhere.code != Some(0) && elsewhere.err.contains("orion"), "{args:?}: {}", elsewhere.err);
}

fn create_at_home() {
    let desk = Desk::new();
    run(desk.stroll(&[
        "circle",
        "create",
        "lyra",
        "--source",
        "http://127.0.0.1:9/",
        "--home",
        "there",
        "--listen",
        "127.0.0.1:9",
    ]));
    assert!(desk.path("there/lyra/circle.toml").exists());
}

fn request_at_home() {
    let desk = Desk::new();
    run(desk.stroll(&["join", "--request", "virgo", "--home", "there"]));
    assert!(desk.path("there/virgo").exists());
}

#[track_caller]
fn json_of(command: Command) -> Value {
    let ran = run(command);
    let lines: Result<Vec<Value>, _> = ran.out.lines().map(serde_json::from_str).collect();
    lines.ok().and_then(|mut lines| lines.pop()).unwrap_or_else(|| panic!("no JSON: {} {}", ran.out, ran.err))
}

fn as_json(args: &[&str]) {
    let (_folder, lab) = founder("http://127.0.0.1:9/");
    let json = [args, &["--json"]].concat();
    assert!(json_of(lab.stroll(&json)).is_object());
    assert!(serde_json::from_str::<Value>(&run(lab.stroll(args)).out).is_err());
}

// --- charters ---------------------------------------------------------------------------------------------------

/// Constants other than those of a new circle, and what the charter then says.
const CONSTANTS: &[(&str, &str, &str)] = &[
    ("--source", "ftp://127.0.0.1/other/", "source"),
    ("--alias", "http://127.0.0.1:9/other/", "aliases"),
    ("--slot", "9s", "slot_s"),
    ("--skip", "250ms", "skip_s"),
    ("--capacity", "17", "capacity"),
    ("--bandwidth", "123k", "bandwidth_bytes_per_sec"),
    ("--rules", "classic", "rules"),
    ("--scouts", "3", "scouts"),
    ("--retention", "2d", "retention_s"),
];

fn charter(lab: &Lab) -> Value {
    json_of(lab.stroll(&["circle", "show", "--json"]))["charter"].clone()
}

fn create() {
    let (_folder, usual) = founder("http://127.0.0.1:9/");
    let folder = tempfile::tempdir().unwrap();
    let lab = Lab::new(folder.path(), "lab-0");
    let mut args = vec!["circle", "create", "virgo"];
    args.extend(CONSTANTS.iter().flat_map(|(flag, value, _)| [*flag, *value]));
    args.extend([
        "--listen",
        "127.0.0.1:9011",
        "--address",
        "127.0.0.2:9012",
        "--member",
        "lab-z",
        "--valid",
        "30d",
    ]);
    lab.succeeds(&args);
    let (before, after) = (charter(&usual), charter(&lab));
    for (flag, value, key) in CONSTANTS {
        assert!(!after[key].is_null(), "{key} is not shown: {after}");
        assert_ne!(before[key], after[key], "{flag} {value}");
    }
    let shown = json_of(lab.stroll(&["circle", "show", "--json"])).to_string();
    for there in ["127.0.0.1:9011", "127.0.0.2:9012", "lab-z"] {
        assert!(shown.contains(there), "{there}: {shown}");
    }
    let until =
        |lab: &Lab| json_of(lab.stroll(&["circle", "members", "--json"]))["until_s"].as_u64().unwrap();
    assert!(until(&lab) + 300 * 86_400 < until(&usual), "365 days are usual");
}

fn create_with_tickets() {
    let folder = tempfile::tempdir().unwrap();
    let lab = Lab::new(folder.path(), "lab-0");
    found(&lab, "http://127.0.0.1:9/", &["--mode", "tickets", "--tickets", "7", "--faults", "1"]);
    let charter = charter(&lab);
    assert_eq!(
        (&charter["mode"], &charter["tickets"], &charter["faults"]),
        (&"tickets".into(), &7.into(), &1.into())
    );
}

fn amend() {
    let (_folder, lab) = founder("http://127.0.0.1:9/");
    for (flag, value, key) in CONSTANTS {
        let before = charter(&lab);
        lab.succeeds(&["circle", "amend", flag, value]);
        assert_ne!(before[key], charter(&lab)[key], "{flag} {value}");
    }
}

fn sign_for() {
    let (folder, lab) = founder("http://127.0.0.1:9/");
    let other = Lab::new(folder.path(), "lab-x");
    let request = other.succeeds(&["join", "--request", "virgo", "--member", "lab-x"]);
    let file = folder.path().join("request");
    fs::write(&file, request).unwrap();
    let ran = run(lab.stroll(&["circle", "sign", file.to_str().unwrap(), "--valid", "1h"]));
    // An hour from now is today or tomorrow, and no other year than one of these.
    let until = ran.err.split("until ").nth(1).unwrap_or_else(|| panic!("{}", ran.err)).trim().to_owned();
    let usual = run(lab.stroll(&["circle", "members"])).out;
    let year: i32 = until[..4].parse().unwrap();
    let now = Command::new("date").args(["-u", "+%Y-%m-%d", "-d", "+1 hour"]).output().unwrap().stdout;
    let now = String::from_utf8(now).unwrap();
    assert!(until.starts_with(now.trim()) && year > 2000, "until {until}: {usual}");
}

// --- members ----------------------------------------------------------------------------------------------------

fn ask_source() {
    let site = Site::start(|_| Answer::status("200 OK", ""));
    let (_folder, lab) = founder(&site.url(""));
    run(lab.stroll(&["doctor"]));
    assert_eq!(site.requests().len(), 0);
    run(lab.stroll(&["doctor", "--ask-source"]));
    assert!(!site.requests().is_empty());
}

fn status_as_json() {
    let (_folder, mut lab) = founder("http://127.0.0.1:9/");
    lab.run_with(&[]);
    assert!(json_of(lab.stroll(&["status", "--json"])).is_object());
    assert!(serde_json::from_str::<Value>(&run(lab.stroll(&["status"])).out).is_err());
}

fn hold() {
    let pulls = |flags: &[&str]| {
        let (_folder, mut lab) = founder("http://127.0.0.1:9/");
        lab.run_with(flags);
        let begun = Instant::now();
        let patience = if flags.is_empty() { MOMENT } else { PATIENCE };
        while begun.elapsed() < patience {
            if lab.glance().is_some_and(|status| status["state"] == "pulling") {
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    };
    assert!(pulls(&["--hold"]) && !pulls(&[]));
}

fn listen() {
    let (_folder, lab) = founder("http://127.0.0.1:9/");
    let ran = run(lab.stroll(&["run", "--listen", "127.0.0.3:0"]));
    assert!(ran.err.contains("listening on 127.0.0.3:"), "{}", ran.err);
}

/// A job that fails is worth a warning, and slots are told to whom they interest.
fn logs_of_a_member() {
    let folder = tempfile::tempdir().unwrap();
    let (settings, log) = (folder.path().join("stroll.toml"), folder.path().join("log"));
    let job = "[transfer]\nretries = 0\n[[exec]]\nname = \"failing\"\ncommand = [\"false\"]\n";
    fs::write(&settings, job).unwrap();
    let said = |flags: &[&str]| {
        let (_folder, lab) = founder("http://127.0.0.1:9/");
        run(lab.stroll(&[&["run", "--config", settings.to_str().unwrap()], flags].concat())).err
    };
    let usual = said(&[]);
    assert!(usual.contains("WARN") && !usual.contains("INFO"), "{usual}");
    assert!(said(&["--verbose"]).contains("INFO"));
    assert!(!said(&["--quiet"]).contains("WARN"));
    let is_line = |line: &str| serde_json::from_str::<Value>(line).is_ok_and(|line| line["level"] == "WARN");
    assert!(said(&["--log-format", "json"]).lines().any(is_line));
    assert!(!said(&["--log-file", log.to_str().unwrap()]).contains("WARN"));
    assert!(fs::read_to_string(log).unwrap().contains("WARN"));
}

// --- exec -------------------------------------------------------------------------------------------------------

/// How long a command of a slot of 2 s runs before it is asked to end: half of the slot at least.
fn grace() {
    let ran_for = |grace: &str| {
        let (folder, lab) = founder("http://127.0.0.1:9/");
        let note = folder.path().join("asked");
        let script = format!(
            "trap 'date +%s%N > {}; exit 0' TERM; date +%s%N > {0}.begun; sleep 9 & wait",
            note.display()
        );
        run(lab.stroll(&["exec", "--grace", grace, "--", "sh", "-c", &script]));
        let time = |path: &Path| fs::read_to_string(path).unwrap().trim().parse::<u64>().unwrap();
        Duration::from_nanos(time(&note) - time(&folder.path().join("asked.begun")))
    };
    let (short, long) = (ran_for("100ms"), ran_for("900ms"));
    assert!(
        long + Duration::from_millis(400) < short,
        "{short:?} with a short grace, {long:?} with a long one"
    );
}

fn schedule() {
    let desk = Desk::new();
    let ran = run(desk.stroll(&["exec", "--solo", "--schedule", "0 0 1 1 *", "--", "touch", "here"]));
    assert!(!desk.path("here").exists() && ran.code.is_none());
}

fn solo() {
    let (_folder, lab) = founder("http://127.0.0.1:9/");
    assert!(run(lab.stroll(&["exec", "--", "true"])).err.contains("in the slots of circle virgo"));
    assert_eq!(run(lab.stroll(&["exec", "--solo", "--", "true"])).err, "");
}

fn logs_of_exec() {
    let desk = Desk::new();
    let said = |flags: &[&str]| run(desk.stroll(&[&["exec"], flags, &["--", "true"]].concat())).err;
    assert!(said(&[]).contains("running alone") && !said(&[]).contains("INFO"));
    assert!(said(&["--verbose"]).contains("INFO"));
    assert_eq!(said(&["--quiet"]), "");
}

// --- verify -----------------------------------------------------------------------------------------------------

/// It finds what a mirror with the same folder of states has pulled.
fn verify_state() {
    let site = Site::of(vec![("f", noise(1, 1_000))]);
    let desk = Desk::new();
    let mirrored = run(desk.stroll(&["mirror", &site.url(""), "in", "--state", "there"]));
    assert_eq!(mirrored.code, Some(0), "{}", mirrored.err);
    let here = run(desk.stroll(&["verify", "in", "--state", "there"]));
    assert!(here.code == Some(0) && here.out.contains("1 file"), "{} {}", here.out, here.err);
    let elsewhere = run(desk.stroll(&["verify", "in"]));
    assert!((elsewhere.code, elsewhere.out) != (here.code, here.out));
}

/// On a terminal, a bar is shown for what takes long.
fn verify_progress() {
    let desk = Desk::new();
    fs::create_dir(desk.path("tree")).unwrap();
    let names = ["a", "b", "c"];
    for name in names {
        fs::File::create(desk.path("tree").join(name)).unwrap().set_len(1 << 30).unwrap();
    }
    let sums = names.map(|name| format!("{}  {name}\n", "0".repeat(64))).concat();
    fs::write(desk.path("tree/SHA256SUMS"), sums).unwrap();
    let shown = |style: &str| on_a_terminal(&desk, &format!("verify tree --sums auto --progress {style}"));
    assert!(shown("bar").contains("verifying") && !shown("none").contains("verifying"));
}

// --- demo -------------------------------------------------------------------------------------------------------

/// Starts a demo, waits until its first member runs, and gives the charter and that member's log.
fn demo(flags: &[&str]) -> (Value, String) {
    let desk = Desk::new();
    let mut command =
        desk.stroll(&["demo", "--keep", "kept", "--members", "2", "--for", "100s", "--no-comparison"]);
    let mut child = command.args(flags).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let (home, log) = (desk.path("kept/lab-1/circles"), desk.path("kept/lab-1/log"));
    let is_running = || fs::read_to_string(&log).is_ok_and(|log| log.contains("member of circle"));
    let begun = Instant::now();
    while !is_running() && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(300));
    let shown = json_of(desk.stroll(&["circle", "show", "--json", "--home", home.to_str().unwrap()]));
    let said = fs::read_to_string(&log).unwrap();
    let _ = rustix::process::kill_process(
        rustix::process::Pid::from_child(&child),
        rustix::process::Signal::TERM,
    );
    child.wait().unwrap();
    (shown["charter"].clone(), said)
}

fn demo_with_tickets() {
    let (charter, log) = demo(&["--mode", "tickets", "--tickets", "4", "--faults", "1", "--no-page"]);
    assert_eq!(
        (&charter["mode"], &charter["tickets"], &charter["faults"]),
        (&"tickets".into(), &4.into(), &1.into())
    );
    assert!(!log.contains("status page"), "{log}");
}

fn demo_with_rules() {
    let (charter, log) = demo(&["--rules", "classic", "--overload", "--page", "127.0.0.3:0"]);
    assert_eq!(charter["rules"], "classic");
    assert_eq!(charter["capacity"], 1, "laid out for half of its members");
    assert!(log.contains("status page at http://127.0.0.3:"), "{log}");
}

fn demo_progress() {
    let said = |style: &str| {
        run(Desk::new().stroll(&["demo", "--members", "2", "--no-page", "--progress", style])).err
    };
    assert_ne!(said("none"), said("line"));
}
