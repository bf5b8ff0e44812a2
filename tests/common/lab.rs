//! Members as real processes: founding, joining, running, asking, ending. Used by every test file that starts some.

#![allow(dead_code, reason = "each test file needs its own part of this")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long anything may take on a busy machine before the test has failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// Slots short enough that a test sees many of them.
pub(crate) const QUICK: &[&str] = &["--slot", "400ms", "--skip", "20ms", "--capacity", "4"];

/// One lab: its home folder and, if it runs, its process. What was started is ended, whatever happens.
pub(crate) struct Lab {
    pub(crate) name: String,
    pub(crate) home: PathBuf,
    pub(crate) log: PathBuf,
    /// Where it listens.
    pub(crate) local: SocketAddr,
    /// Where it says that others reach it, if that is somewhere else.
    pub(crate) address: Option<SocketAddr>,
    /// What stands before the program, such as `ip netns exec …`.
    pub(crate) wrapper: Vec<String>,
    pub(crate) process: Option<Child>,
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Lab {
    /// A lab on loopback, at a port that was free just now.
    pub(crate) fn new(folder: &Path, name: &str) -> Self {
        Self::at(folder, name, UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap())
    }

    /// A lab that listens here.
    pub(crate) fn at(folder: &Path, name: &str, local: SocketAddr) -> Self {
        Self {
            name: name.to_owned(),
            log: folder.join(format!("{name}.log")),
            home: folder.join(name),
            local,
            address: None,
            wrapper: Vec::new(),
            process: None,
        }
    }

    pub(crate) fn stroll(&self, args: &[&str]) -> Command {
        let program = env!("CARGO_BIN_EXE_stroll").to_owned();
        let words: Vec<String> = self.wrapper.iter().cloned().chain([program]).collect();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("HOME", &self.home).env("STROLL_HOME", &self.home).args(args);
        command
    }

    pub(crate) fn output(&self, args: &[&str]) -> Output {
        self.stroll(args).output().unwrap()
    }

    #[track_caller]
    pub(crate) fn succeeds(&self, args: &[&str]) -> String {
        let output = self.output(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn listen(&self) -> String {
        self.local.to_string()
    }

    fn address_flag(&self) -> Vec<String> {
        self.address.map(|address| vec!["--address".to_owned(), address.to_string()]).unwrap_or_default()
    }

    /// Runs, and uses every slot to its end.
    pub(crate) fn run(&mut self) {
        self.run_with(&["--hold"]);
    }

    /// Runs.
    pub(crate) fn run_with(&mut self, flags: &[&str]) {
        let log = fs::OpenOptions::new().create(true).append(true).open(&self.log).unwrap();
        let mut command = self.stroll(&["run", "-vv"]);
        command.args(flags).args(self.address_flag());
        self.process = Some(command.stdout(Stdio::null()).stderr(log).spawn().unwrap());
        self.wait_until("runs", |lab| lab.status().is_some());
    }

    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.pid().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.as_ref().unwrap().id()
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.process.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// What `stroll status --json` says.
    pub(crate) fn status(&self) -> Option<Value> {
        let output = self.output(&["status", "--json"]);
        output.status.success().then(|| serde_json::from_slice(&output.stdout).unwrap())
    }

    /// The same, asked at the control socket itself: cheap enough to be asked all the time.
    pub(crate) fn glance(&self) -> Option<Value> {
        let mut stream = UnixStream::connect(self.home.join("virgo/control.sock")).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        stream.write_all(b"GET /v1/status HTTP/1.0\r\nHost: stroll\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
    }

    pub(crate) fn counter(&self, name: &str) -> u64 {
        self.status().and_then(|status| status["counters"][name].as_u64()).unwrap_or(0)
    }

    #[track_caller]
    pub(crate) fn wait_until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let started = Instant::now();
        while !is_so(self) {
            let log = self.log_text();
            assert!(started.elapsed() < PATIENCE, "{} never {what}:\n{log}", self.name);
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn log_text(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub(crate) fn slots_in_log(&self) -> usize {
        self.log_text().matches("slot began").count()
    }
}

/// A founder and its circle of `count` labs, all running.
pub(crate) fn circle(folder: &Path, count: usize, constants: &[&str]) -> Vec<Lab> {
    let labs = (0..count).map(|n| Lab::new(folder, &format!("lab-{n}"))).collect();
    circle_of(labs, constants)
}

/// The first of these labs founds a circle, the others join it; all run.
pub(crate) fn circle_of(mut labs: Vec<Lab>, constants: &[&str]) -> Vec<Lab> {
    let Some((founder, others)) = labs.split_first_mut() else { return labs };
    found(founder, "ftp://127.0.0.1/stream/", constants);
    founder.run();
    for lab in others {
        join(founder, lab);
        lab.run();
    }
    labs
}

/// Founds a circle around this source.
#[track_caller]
pub(crate) fn found(founder: &Lab, source: &str, constants: &[&str]) {
    let (listen, address) = (founder.listen(), founder.address_flag());
    let mut create = vec!["circle", "create", "virgo", "--source", source, "--listen", &listen];
    create.extend(address.iter().map(String::as_str).chain(constants.iter().copied()));
    founder.succeeds(&create);
}

#[track_caller]
pub(crate) fn join(founder: &Lab, lab: &Lab) -> String {
    let line = founder.succeeds(&["circle", "invite", &lab.name]);
    let invitation = line.split_whitespace().nth(2).unwrap().to_owned();
    let (listen, address) = (lab.listen(), lab.address_flag());
    let mut join = vec!["join", &invitation, "--listen", &listen];
    join.extend(address.iter().map(String::as_str));
    lab.succeeds(&join);
    invitation
}

/// Fails if two labs pull at this moment by one token. Who pulls in the same session when asked before and when asked
/// after did so in between, so all of those pull at once.
#[track_caller]
pub(crate) fn nobody_shares_a_token(labs: &[Lab]) {
    let look = || labs.iter().map(pulls_by).collect::<Vec<_>>();
    let (before, after) = (look(), look());
    let mut tokens = BTreeSet::new();
    for (lab, (before, after)) in labs.iter().zip(before.iter().zip(&after)) {
        if let (Some((token, session)), true) = (before, before == after) {
            assert!(tokens.insert(token), "{} in session {session} is not alone: {before:?}", lab.name);
        }
    }
}

fn pulls_by(lab: &Lab) -> Option<(String, u64)> {
    let status = lab.glance().filter(|status| status["state"] == "pulling")?;
    Some((status["token"].as_str()?.to_owned(), status["session"].as_u64()?))
}

/// Waits until every one of the labs has had `count` more slots, and looks all the while that nobody shares a token.
#[track_caller]
pub(crate) fn all_are_served(labs: &[Lab], count: usize) {
    let wanted: Vec<usize> = labs.iter().map(|lab| lab.slots_in_log() + count).collect();
    let started = Instant::now();
    while labs.iter().zip(&wanted).any(|(lab, wanted)| lab.slots_in_log() < *wanted) {
        nobody_shares_a_token(labs);
        assert!(started.elapsed() < PATIENCE, "somebody is not served:\n{}", all_logs(labs));
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits for a time in which everybody is served twice and only one token is seen anywhere; says how long that took.
#[track_caller]
pub(crate) fn one_token_is_left(labs: &[Lab]) -> Duration {
    let started = Instant::now();
    loop {
        let wanted: Vec<usize> = labs.iter().map(|lab| lab.slots_in_log() + 2).collect();
        let mut seen = BTreeSet::new();
        while labs.iter().zip(&wanted).any(|(lab, wanted)| lab.slots_in_log() < *wanted) {
            nobody_shares_a_token(labs);
            let token =
                |lab: &Lab| lab.glance().and_then(|status| Some(status["token"].as_str()?.to_owned()));
            seen.extend(labs.iter().filter_map(token));
            assert!(started.elapsed() < PATIENCE, "tokens {seen:?} remain:\n{}", all_logs(labs));
            std::thread::sleep(Duration::from_millis(10));
        }
        if seen.len() == 1 {
            return started.elapsed();
        }
    }
}

/// Fails if, by the logs, two slots of one token ever overlapped or its sessions did not grow. A log line about a slot's
/// end is written before the token goes on, and one about its begin after it has come: their times tell.
#[track_caller]
pub(crate) fn slots_were_exclusive(labs: &[Lab]) {
    let mut tokens: BTreeMap<String, Vec<Slot>> = BTreeMap::new();
    for lab in labs {
        for (token, slot) in slots_of(lab) {
            tokens.entry(token).or_default().push(slot);
        }
    }
    assert!(!tokens.is_empty(), "there were no slots");
    for (token, mut slots) in tokens {
        slots.sort_by(|a, b| a.began.cmp(&b.began));
        for pair in slots.windows(2) {
            let has_ended = pair[0].ended.as_ref().is_some_and(|ended| *ended <= pair[1].began);
            assert!(has_ended, "{token}: {pair:?} overlap");
            assert!(pair[0].session < pair[1].session, "{token}: {pair:?}: the session did not grow");
        }
    }
}

/// A slot as the log tells it; the times are text, and sort like times.
#[derive(Debug)]
struct Slot {
    session: u64,
    began: String,
    ended: Option<String>,
}

fn slots_of(lab: &Lab) -> Vec<(String, Slot)> {
    let mut slots: Vec<(String, Slot)> = Vec::new();
    for line in lab.log_text().lines() {
        let began = line.split(' ').next().unwrap_or_default().to_owned();
        let field = |name: &str| line.split(' ').find_map(|word| word.strip_prefix(name)).map(str::to_owned);
        if line.contains("slot began") {
            let session = field("session=").unwrap().trim_start_matches('#').parse().unwrap();
            slots.push((field("token=").unwrap(), Slot { session, began, ended: None }));
        } else if let (true, Some((_, slot))) = (line.contains("slot ended"), slots.last_mut()) {
            slot.ended.get_or_insert(began);
        }
    }
    slots
}

fn all_logs(labs: &[Lab]) -> String {
    let logs: Vec<String> = labs.iter().map(|lab| format!("--- {}\n{}", lab.name, lab.log_text())).collect();
    logs.concat()
}
