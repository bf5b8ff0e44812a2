//! SIGINT and SIGTERM end every command, whatever it is waiting for, and nothing that it started goes on.
//!
//! The promise is two seconds. The tests allow [`LIMIT`], because the machine that runs them is busy with other tests: a
//! process that got its signal may wait for the processor, and so may the test that looks at it. What ends only because it
//! is done, or because its own timeout is over, takes far longer than that in each of these situations.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]
#![allow(clippy::disallowed_methods, reason = "these tests are about real time")]

#[path = "common/desk.rs"]
mod desk;
#[path = "common/lab.rs"]
mod lab;

use std::any::Any;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use desk::{Desk, noise};
use lab::{Lab, found, join};
use rustix::process::{Pid, Signal, kill_process};

/// How long a command may take to end after a signal: the promised two seconds, and as much again for a busy machine.
const LIMIT: Duration = Duration::from_secs(4);

/// How long a command may take to come to the situation that is tested.
const PATIENCE: Duration = Duration::from_secs(100);

/// So many situations at a time: more would measure the machine.
const AT_ONCE: usize = 3;

/// In the environment of the command and of everything that it starts.
const MARK: &str = "SIGNALS_TEST_MARK";

// --- sources that keep a client waiting -------------------------------------------------------------------------

/// What a source does with its clients.
#[derive(Clone, Copy)]
enum Manner {
    /// Says nothing.
    Silent,
    /// Says this, and then nothing.
    Greeting(&'static str),
    /// Begins a large file, and then sends nothing.
    Stalling,
    /// Sends a file without end.
    Endless,
    /// Sends an index page without end.
    EndlessIndex,
    /// Refuses.
    Busy,
}

/// A source that is ended with the value.
struct Source {
    at: SocketAddr,
    clients: Arc<AtomicUsize>,
    sent: Arc<AtomicUsize>,
}

impl Source {
    fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let (clients, sent) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (count, bytes) = (clients.clone(), sent.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (count, bytes) = (count.clone(), bytes.clone());
                std::thread::spawn(move || serve(stream, manner, &count, &bytes));
            }
        });
        Self { at, clients, sent }
    }

    fn http(&self, path: &str) -> String {
        format!("http://{}/{path}", self.at)
    }

    fn ftp(&self, path: &str) -> String {
        format!("ftp://{}/{path}", self.at)
    }

    /// Ready when somebody waits for an answer.
    fn is_asked(&self) -> Ready {
        let clients = self.clients.clone();
        Box::new(move || clients.load(Ordering::SeqCst) > 0)
    }

    /// Ready when so many bytes have gone out.
    fn has_sent(&self, bytes: usize) -> Ready {
        let sent = self.sent.clone();
        Box::new(move || sent.load(Ordering::SeqCst) >= bytes)
    }
}

fn serve(mut stream: TcpStream, manner: Manner, clients: &AtomicUsize, sent: &AtomicUsize) {
    let mut said = [0; 4_096];
    let is_http = !matches!(manner, Manner::Silent | Manner::Greeting(_));
    if is_http && !matches!(stream.read(&mut said), Ok(read) if read > 0) {
        return;
    }
    let head = |kind: &str, length: &str| {
        format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n{length}last-modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n"
        )
    };
    let file = head("application/octet-stream", "content-length: 8000000000\r\naccept-ranges: bytes\r\n");
    let begin = match manner {
        Manner::Silent => String::new(),
        Manner::Greeting(text) => text.to_owned(),
        Manner::Stalling => format!("{file}{}", "x".repeat(100_000)),
        Manner::Endless => file,
        Manner::EndlessIndex => {
            let page = "<html><head><title>Index of /</title></head><body><h1>Index of /</h1><hr><pre>\n";
            format!("{}{page}", head("text/html", "connection: close\r\n"))
        }
        Manner::Busy => "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n".to_owned(),
    };
    let is_well = stream.write_all(begin.as_bytes()).is_ok();
    sent.fetch_add(begin.len(), Ordering::SeqCst);
    clients.fetch_add(1, Ordering::SeqCst);
    let mut number = 0_u64;
    let mut more = || {
        number += 1;
        match manner {
            Manner::Endless => "y".repeat(1 << 16),
            _ => (number * 500..(number + 1) * 500).fold(String::new(), |page, n| {
                page + &format!("<a href=\"f{n}\">f{n}</a>  06-Nov-1994 08:49  {n}\n")
            }),
        }
    };
    if is_well && matches!(manner, Manner::Endless | Manner::EndlessIndex) {
        loop {
            let piece = more();
            if stream.write_all(piece.as_bytes()).is_err() {
                return;
            }
            sent.fetch_add(piece.len(), Ordering::SeqCst);
        }
    }
    // Until the other side goes.
    while matches!(stream.read(&mut said), Ok(read) if read > 0) {}
}

/// An address that answers no attempt to connect: its queue of connections is full. It lasts as long as the value.
struct BlackHole {
    at: SocketAddr,
    _held: Vec<socket2::Socket>,
}

impl BlackHole {
    fn new() -> Self {
        let tcp = || socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        let listener = tcp();
        listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        listener.listen(0).unwrap();
        let at = listener.local_addr().unwrap();
        let mut held = vec![listener];
        for _ in 0..4 {
            let client = tcp();
            client.set_nonblocking(true).unwrap();
            let _ = client.connect(&at);
            held.push(client);
        }
        Self { at: at.as_socket().unwrap(), _held: held }
    }
}

// --- situations -------------------------------------------------------------------------------------------------

type Ready = Box<dyn Fn() -> bool>;

/// A command that waits for something, and how to see that it does.
struct Situation {
    command: Command,
    ready: Ready,
    /// How it may end.
    codes: &'static [i32],
    /// What it needs; it is ended with the value.
    keep: Vec<Box<dyn Any>>,
}

/// Told to stop in order.
const STOPPED: &[i32] = &[1];
/// By the signal itself, or by the thread that waits for signals.
const KILLED: &[i32] = &[130, 143];
const WELL: &[i32] = &[0];
const ANY: &[i32] = &[0, 1, 5, 130, 143];

fn at(command: Command, ready: Ready, codes: &'static [i32]) -> Situation {
    Situation { command, ready, codes, keep: Vec::new() }
}

impl Situation {
    fn with(mut self, thing: impl Any) -> Self {
        self.keep.push(Box::new(thing));
        self
    }

    /// Standard output is a pipe that is full and never read.
    fn unread(mut self) -> Self {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut filler = fs::File::from(std::os::fd::OwnedFd::from(writer.try_clone().unwrap()));
        let flags = rustix::fs::fcntl_getfl(&filler).unwrap();
        rustix::fs::fcntl_setfl(&filler, flags | rustix::fs::OFlags::NONBLOCK).unwrap();
        while filler.write(&[b'x'; 4_096]).is_ok() {}
        while filler.write(b"x").is_ok() {}
        rustix::fs::fcntl_setfl(&filler, flags).unwrap();
        self.command.stdout(writer);
        self.with(reader)
    }
}

/// Nothing shows that it is there but the time.
fn soon() -> Ready {
    let begun = Instant::now();
    Box::new(move || begun.elapsed() > Duration::from_millis(700))
}

fn exists(path: PathBuf) -> Ready {
    Box::new(move || path.exists())
}

fn long_sleep(note: &Path) -> String {
    format!("echo x > {}; sleep 600 & sleep 600", note.display())
}

/// Does not end by any signal that can be ignored, nor do its children.
fn deaf(note: &Path) -> String {
    format!("trap '' TERM INT HUP; echo x > {}; sleep 600 & while :; do sleep 1; done", note.display())
}

/// The commands that pull, each with an address.
fn pulling(desk: &Desk, url: &str) -> Vec<(&'static str, Command)> {
    let folder = if url.ends_with('/') { url.to_owned() } else { format!("{url}/") };
    let mut get = desk.stroll(&["get", url.trim_end_matches('/')]);
    get.args(["-o", "got"]);
    let mirror = desk.stroll(&["mirror", &folder, "mirrored"]);
    let subscribe = desk.stroll(&["subscribe", &folder, "subscribed", "--since", "all"]);
    vec![("get", get), ("mirror", mirror), ("subscribe", subscribe)]
}

/// A member of a circle that has the only token, and another one that waits for it.
struct Waiting {
    holder: Lab,
    other: Lab,
    folder: tempfile::TempDir,
}

impl Waiting {
    fn new(source: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (mut holder, other) = (Lab::new(folder.path(), "lab-0"), Lab::new(folder.path(), "lab-1"));
        found(&holder, source, &["--slot", "1h", "--skip", "1s", "--capacity", "4"]);
        holder.run();
        let is_pulling = |lab: &Lab| lab.glance().is_some_and(|status| status["state"] == "pulling");
        holder.wait_until("has its slot", is_pulling);
        join(&holder, &other);
        Self { holder, other, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

fn all() -> Vec<(String, Box<dyn FnOnce() -> Situation + Send>)> {
    let mut rows: Vec<(String, Box<dyn FnOnce() -> Situation + Send>)> = Vec::new();
    let mut add =
        |name: &str, make: Box<dyn FnOnce() -> Situation + Send>| rows.push((name.to_owned(), make));
    for which in 0..3 {
        let name = ["get", "mirror", "subscribe"][which];
        add(&format!("{name}: connecting over HTTP"), Box::new(move || connecting(which, "http")));
        add(&format!("{name}: connecting over FTP"), Box::new(move || connecting(which, "ftp")));
        for (what, manner) in [
            ("no answer", Manner::Silent),
            ("an endless listing", Manner::EndlessIndex),
            ("a source that refuses", Manner::Busy),
        ] {
            add(&format!("{name}: {what}"), Box::new(move || waiting_for(which, manner)));
        }
        add(&format!("{name}: a stalled transfer"), Box::new(move || stalled(which)));
        for greeting in ["", "220 hello\r\n", "220-hello\r\n hello\r\n"] {
            let what = format!("{name}: an FTP server that says {greeting:?}");
            add(&what, Box::new(move || waiting_for_ftp(which, greeting)));
        }
        add(&format!("{name}: a password command"), Box::new(move || password_command(which)));
        add(&format!("{name}: a slot"), Box::new(move || waiting_for_a_slot(which)));
    }
    add("get: an endless transfer", Box::new(|| waiting_for(0, Manner::Endless)));
    add("mirror: several connections, one transfer stalled", Box::new(mirror_over_several_connections));
    add("get: several connections in a stalled transfer", Box::new(several_connections));
    add("get: standard output that is not read", Box::new(get_to_a_full_pipe));
    add("get: a summary that is not read", Box::new(get_json_to_a_full_pipe));
    add("get: standard input", Box::new(get_from_stdin));
    add("get: reading a file that is here", Box::new(get_hashing));
    add("mirror: the next time", Box::new(mirror_every));
    add("subscribe: standard output that is not read", Box::new(subscribe_to_a_full_pipe));
    add("subscribe: a deaf command", Box::new(|| hook("trap")));
    add("subscribe: a command", Box::new(|| hook("sleep")));
    add("exec: a deaf command", Box::new(|| exec(true)));
    add("exec: a command", Box::new(|| exec(false)));
    add("exec: the next time", Box::new(exec_schedule));
    add("exec: a slot", Box::new(exec_slot));
    add("verify: a large file", Box::new(verify));
    add("run: a slot of its own", Box::new(|| run("", &["--hold"])));
    add("run: jobs", Box::new(run_jobs));
    add("run: a password command", Box::new(run_password));
    add("run: a frozen member that should take the token", Box::new(run_beside_a_frozen_one));
    add("run: a lock", Box::new(|| locked(&["run"], ".lock")));
    add("status --watch", Box::new(|| frozen(&["status", "--watch"], false)));
    add("status --watch: standard output that is not read", Box::new(status_to_a_full_pipe));
    for args in [
        &["status"][..],
        &["status", "--watch"],
        &["pause"],
        &["resume"],
        &["bwlimit", "1M"],
        &["doctor"],
        &["circle", "members"],
        &["circle", "amend", "--slot", "2h"],
        &["get", "http://127.0.0.1:9/f", "--circle", "virgo"],
        &["exec", "--circle", "virgo", "--", "true"],
    ] {
        add(&format!("{}: a frozen member", args.join(" ")), Box::new(move || frozen(args, true)));
    }
    for (args, lock) in [
        (&["circle", "amend", "--slot", "2h"][..], ".authority.lock"),
        (&["circle", "ban", "lab-1"], ".authority.lock"),
        (&["circle", "invite", "lab-9"], ".lock"),
        (&["exec", "--circle", "virgo", "--", "true"], ".lock"),
    ] {
        add(&format!("{}: a lock", args.join(" ")), Box::new(move || locked(args, lock)));
    }
    for args in [&["circle", "sign", "-"][..], &["join", "-"]] {
        add(&format!("{}: standard input", args.join(" ")), Box::new(move || from_stdin(args)));
    }
    add("join: an answer", Box::new(join_unanswered));
    for args in [
        &["--duration", "1e9"][..],
        &["--duration", "1e9", "--rules", "all", "--runs", "8"],
        &["--whole", "--duration", "1e9", "--runs", "8"],
        &["--whole", "--mode", "tickets", "--duration", "1e9"],
        &["--mode", "tickets", "--duration", "1e9", "--runs", "4"],
        &["--duration", "1e7", "--runs", "1000000", "--figures", "figures"],
    ] {
        add(&format!("simulate {}", args.join(" ")), Box::new(move || simulate(args)));
    }
    add("simulate: standard output that is not read", Box::new(simulate_to_a_full_pipe));
    for args in [&["completions", "bash"][..], &["man"]] {
        add(&format!("{}: standard output that is not read", args[0]), Box::new(move || printing(args)));
    }
    add("demo", Box::new(|| demo(&[])));
    add("demo: the source alone", Box::new(|| demo(&["--source-only"])));
    rows
}

fn connecting(which: usize, scheme: &str) -> Situation {
    let (desk, hole) = (Desk::new(), BlackHole::new());
    let url = format!("{scheme}://{}/f/", hole.at);
    let (_, command) = pulling(&desk, &url).swap_remove(which);
    at(command, soon(), ANY).with(desk).with(hole)
}

fn waiting_for(which: usize, manner: Manner) -> Situation {
    let (desk, source) = (Desk::new(), Source::start(manner));
    let (_, command) = pulling(&desk, &source.http("f")).swap_remove(which);
    let ready = match manner {
        Manner::Endless | Manner::EndlessIndex => source.has_sent(3 << 20),
        _ => source.is_asked(),
    };
    at(command, ready, ANY).with(desk).with(source)
}

fn waiting_for_ftp(which: usize, greeting: &'static str) -> Situation {
    let (desk, source) = (Desk::new(), Source::start(Manner::Greeting(greeting)));
    let (_, command) = pulling(&desk, &source.ftp("f")).swap_remove(which);
    at(command, source.is_asked(), ANY).with(desk).with(source)
}

fn password_command(which: usize) -> Situation {
    let desk = Desk::new();
    let note = desk.path("begun");
    let (_, mut command) = pulling(&desk, "http://127.0.0.1:9/f").swap_remove(which);
    command.args(["--user", "ada", "--password-command", &long_sleep(&note)]);
    at(command, exists(note), KILLED).with(desk)
}

fn waiting_for_a_slot(which: usize) -> Situation {
    let source = Source::start(Manner::Silent);
    let circle = Waiting::new(&source.http(""));
    let (desk, url) = (Desk::new(), source.http("f"));
    let words: Vec<String> = pulling(&desk, &url)
        .swap_remove(which)
        .1
        .get_args()
        .map(|arg| arg.to_str().unwrap().to_owned())
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut command = circle.other.stroll(&words);
    command.current_dir(desk.path("")).arg("--state").arg(circle.path("state"));
    at(command, soon(), ANY).with(desk).with(source).with(circle)
}

/// In the middle of a file of a folder that was listed.
fn stalled(which: usize) -> Situation {
    let (desk, source) = (Desk::new(), stream(true));
    let (_, mut command) = pulling(&desk, &source.http("tree/f1")).swap_remove(which);
    if which > 0 {
        let name = ["mirror", "subscribe"][which - 1];
        command = desk.stroll(&[name, &source.http("tree/"), "in"]);
    }
    if which == 2 {
        command.args(["--since", "all", "--settle", "0s"]);
    }
    let ready = source.has_sent(100_000);
    at(command, ready, ANY).with(desk).with(source)
}

fn mirror_over_several_connections() -> Situation {
    let (desk, source) = (Desk::new(), stream(true));
    let command = desk.stroll(&["mirror", &source.http("tree/"), "in", "--connections", "3"]);
    let ready = source.has_sent(100_000);
    at(command, ready, ANY).with(desk).with(source)
}

fn several_connections() -> Situation {
    let (desk, source) = (Desk::new(), Source::start(Manner::Stalling));
    let command = desk.command(&[&source.http("f"), &source.http("g"), "--connections", "4"]);
    at(command, source.has_sent(200_000), ANY).with(desk).with(source)
}

fn get_to_a_full_pipe() -> Situation {
    let (desk, source) = (Desk::new(), Source::start(Manner::Endless));
    let command = desk.command(&[&source.http("f"), "-o", "-"]);
    at(command, source.has_sent(1 << 20), ANY).unread().with(desk).with(source)
}

fn get_json_to_a_full_pipe() -> Situation {
    let desk = Desk::new();
    // Nothing listens there, so it ends with a failure and prints that.
    let command = desk.command(&["http://127.0.0.1:9/f", "--json", "--retries", "0"]);
    at(command, soon(), KILLED).unread().with(desk)
}

fn get_from_stdin() -> Situation {
    let desk = Desk::new();
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = desk.command(&["-i", "-"]);
    command.stdin(reader);
    at(command, soon(), KILLED).with(desk).with(writer)
}

/// A sparse file that takes minutes to be read.
fn sparse(path: &Path) {
    fs::File::create(path).unwrap().set_len(200 << 30).unwrap();
}

fn get_hashing() -> Situation {
    let (desk, source) = (Desk::new(), Source::start(Manner::Stalling));
    sparse(&desk.path("f"));
    let checksum = format!("sha256:{}", "0".repeat(64));
    let command = desk.command(&[&source.http("f"), "--checksum", &checksum]);
    at(command, soon(), ANY).with(desk).with(source)
}

fn mirror_every() -> Situation {
    let desk = Desk::new();
    let mut command =
        desk.stroll(&["mirror", "http://127.0.0.1:9/f/", "here", "--every", "1h", "--retries", "0"]);
    command.arg("--json");
    at(command, soon(), WELL).with(desk)
}

fn subscribe_to_a_full_pipe() -> Situation {
    let (desk, web) = (Desk::new(), stream(false));
    let command = subscribing(&desk, &web, &["--stdout"]);
    let ready = exists(desk.path("in/f1"));
    at(command, ready, ANY).unread().with(desk).with(web)
}

/// A folder with one file, which may come to its middle only.
fn stream(is_stalling: bool) -> Source {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let source = Source {
        at: listener.local_addr().unwrap(),
        clients: Arc::new(AtomicUsize::new(0)),
        sent: Arc::new(AtomicUsize::new(0)),
    };
    let sent = source.sent.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let sent = sent.clone();
            std::thread::spawn(move || serve_stream(stream, is_stalling, &sent));
        }
    });
    source
}

fn serve_stream(mut stream: TcpStream, is_stalling: bool, sent: &AtomicUsize) {
    let mut said = [0; 4_096];
    while let Ok(read @ 1..) = stream.read(&mut said) {
        let asked = String::from_utf8_lossy(&said[..read]).into_owned();
        let (kind, body) = if asked.split(' ').nth(1).is_some_and(|path| path.ends_with('/')) {
            let page = "<html><head><title>Index of /</title></head><body><h1>Index of /</h1><hr><pre>\
                        <a href=\"../\">../</a>\n<a href=\"f1\">f1</a>   06-Nov-1994 08:49   300000\n</pre></body></html>";
            ("text/html", page.as_bytes().to_vec())
        } else {
            ("application/octet-stream", noise(1, 300_000))
        };
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nlast-modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n",
            body.len()
        );
        let come = if is_stalling { body.len().min(150_000) } else { body.len() };
        let body = if asked.starts_with("HEAD") { &[] } else { &body[..come] };
        if stream.write_all(&[head.as_bytes(), body].concat()).is_err() {
            return;
        }
        sent.fetch_add(body.len(), Ordering::SeqCst);
    }
}

fn subscribing(desk: &Desk, web: &Source, args: &[&str]) -> Command {
    let mut command =
        desk.stroll(&["subscribe", &web.http("tree/"), "in", "--since", "all", "--settle", "0s"]);
    command.args(["--poll", "300ms"]).args(args);
    command
}

fn hook(how: &str) -> Situation {
    let (desk, web) = (Desk::new(), stream(false));
    let note = desk.path("begun");
    let script = if how == "trap" { deaf(&note) } else { long_sleep(&note) };
    let command = subscribing(&desk, &web, &["--exec", &script]);
    at(command, exists(note), ANY).with(desk).with(web)
}

fn exec(is_deaf: bool) -> Situation {
    let desk = Desk::new();
    let note = desk.path("begun");
    let script = if is_deaf { deaf(&note) } else { long_sleep(&note) };
    at(desk.stroll(&["exec", "--solo", "--", "sh", "-c", &script]), exists(note), ANY).with(desk)
}

fn exec_schedule() -> Situation {
    let desk = Desk::new();
    let command = desk.stroll(&["exec", "--solo", "--schedule", "0 0 1 1 *", "--", "true"]);
    at(command, soon(), STOPPED).with(desk)
}

fn exec_slot() -> Situation {
    let circle = Waiting::new("http://127.0.0.1:9/");
    let command = circle.other.stroll(&["exec", "--", "true"]);
    at(command, soon(), ANY).with(circle)
}

fn verify() -> Situation {
    let desk = Desk::new();
    fs::create_dir(desk.path("tree")).unwrap();
    sparse(&desk.path("tree/large"));
    fs::write(desk.path("tree/SHA256SUMS"), format!("{}  large\n", "0".repeat(64))).unwrap();
    at(desk.stroll(&["verify", "tree", "--sums", "auto"]), soon(), KILLED).with(desk)
}

fn simulate(args: &[&str]) -> Situation {
    let desk = Desk::new();
    let mut command = desk.stroll(&["simulate"]);
    command.args(args);
    at(command, soon(), KILLED).with(desk)
}

fn simulate_to_a_full_pipe() -> Situation {
    let desk = Desk::new();
    let command = desk.stroll(&["simulate", "--duration", "1e3", "--members", "3", "--capacity", "3"]);
    at(command, soon(), KILLED).unread().with(desk)
}

fn printing(args: &[&str]) -> Situation {
    let desk = Desk::new();
    at(desk.stroll(args), soon(), KILLED).unread().with(desk)
}

fn demo(args: &[&str]) -> Situation {
    let desk = Desk::new();
    let mut command = desk.stroll(&["demo", "--keep", "kept", "--for", "200s", "--no-page"]);
    command.args(args);
    let ready = exists(desk.path(if args.is_empty() { "kept/lab-2/circles" } else { "kept/source" }));
    at(command, ready, KILLED).with(desk)
}

/// A founder's home without a member that runs.
fn founder(source: &str) -> (tempfile::TempDir, Lab) {
    let folder = tempfile::tempdir().unwrap();
    let lab = Lab::new(folder.path(), "lab-0");
    found(&lab, source, &["--slot", "1h", "--skip", "1s", "--capacity", "4"]);
    (folder, lab)
}

/// `stroll run` with these settings.
fn run(settings: &str, args: &[&str]) -> Situation {
    run_around("http://127.0.0.1:9/", settings, args)
}

fn run_around(source: &str, settings: &str, args: &[&str]) -> Situation {
    let (folder, lab) = founder(source);
    let config = folder.path().join("stroll.toml");
    fs::write(&config, settings.replace("HERE", folder.path().to_str().unwrap())).unwrap();
    let mut command = lab.stroll(&["run", "--config", config.to_str().unwrap()]);
    command.args(args);
    let ready = exists(lab.home.join("virgo/control.sock"));
    at(command, Box::new(move || ready() && soon_after_that()), WELL).with(lab).with(folder)
}

/// Time for jobs to begin.
fn soon_after_that() -> bool {
    std::thread::sleep(Duration::from_millis(500));
    true
}

fn run_jobs() -> Situation {
    let web = stream(false);
    let settings = format!(
        "[[subscribe]]\nurl = \"{}\"\nto = \"HERE/in\"\nsince = \"all\"\nsettle = \"0s\"\nexec = \"trap '' TERM; touch HERE/begun; while :; do sleep 1; done\"\n\
         [[exec]]\nname = \"deaf\"\ngrace = \"30s\"\ncommand = [\"sh\", \"-c\", \"trap '' TERM; while :; do sleep 1; done\"]\n",
        web.http("tree/")
    );
    run_around(&web.http(""), &settings, &[]).with(web)
}

fn run_password() -> Situation {
    let settings = "[transfer]\nuser = \"ada\"\npassword_command = \"touch HERE/begun; sleep 600 & sleep 600\"\n\
                    [[mirror]]\nurl = \"http://127.0.0.1:9/f/\"\nto = \"HERE/in\"\n";
    let mut situation = run(settings, &[]);
    situation.ready = soon();
    situation.codes = KILLED;
    situation
}

fn run_beside_a_frozen_one() -> Situation {
    let (folder, mut lab) = founder("http://127.0.0.1:9/");
    let mut other = Lab::new(folder.path(), "lab-1");
    lab.run();
    join(&lab, &other);
    other.run();
    lab.wait_until("knows the other", |lab| {
        lab.glance()
            .is_some_and(|status| status["members"].as_array().is_some_and(|members| !members.is_empty()))
    });
    lab.kill();
    other.signal("STOP");
    let socket = lab.home.join("virgo/control.sock");
    let _ = fs::remove_file(&socket);
    at(lab.stroll(&["run", "--hold"]), exists(socket), WELL).with(other).with(lab).with(folder)
}

/// A command at the home of a member that is frozen, or is not.
fn frozen(args: &[&str], is_frozen: bool) -> Situation {
    let circle = Waiting::new("http://127.0.0.1:9/");
    let command = circle.holder.stroll(args);
    if is_frozen {
        circle.holder.signal("STOP");
    }
    at(command, soon(), ANY).with(circle)
}

fn status_to_a_full_pipe() -> Situation {
    frozen(&["status", "--watch"], false).unread()
}

/// A command at a home of which somebody holds a lock.
fn locked(args: &[&str], lock: &str) -> Situation {
    let (folder, lab) = founder("http://127.0.0.1:9/");
    let file = fs::File::create(lab.home.join("virgo").join(lock)).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
    at(lab.stroll(args), soon(), ANY).with(file).with(lab).with(folder)
}

fn from_stdin(args: &[&str]) -> Situation {
    let (folder, lab) = founder("http://127.0.0.1:9/");
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = lab.stroll(args);
    command.stdin(reader);
    at(command, soon(), KILLED).with(writer).with(lab).with(folder)
}

fn join_unanswered() -> Situation {
    let (folder, lab) = founder("http://127.0.0.1:9/");
    let other = Lab::new(folder.path(), "lab-1");
    let line = lab.succeeds(&["circle", "invite", "lab-1"]);
    // The port is the test's own, so nothing answers there.
    let silent = UdpSocket::bind(lab.local).unwrap();
    let command = other.stroll(&["join", line.split_whitespace().nth(2).unwrap(), "--timeout", "1h"]);
    at(command, soon(), KILLED).with(silent).with(other).with(lab).with(folder)
}

// --- the tests --------------------------------------------------------------------------------------------------

fn code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
}

/// Processes that have the mark in their environment and have not ended.
fn marked(mark: &str) -> Vec<String> {
    let wanted = format!("{MARK}={mark}");
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        let has_mark = environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes());
        if has_mark {
            let words = fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
            found.push(words.replace('\0', " "));
        }
    }
    found
}

/// A shell that starts this test in the background ignores SIGINT for it and all commands. With a handler here, commands
/// start with the default.
fn heed_interrupts() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _guard = runtime.enter();
    // The handler stays when this value is gone.
    drop(tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt()).unwrap());
}

fn begin(mut situation: Situation, mark: &str) -> Result<(Child, Situation), String> {
    heed_interrupts();
    situation.command.env(MARK, mark).stderr(Stdio::null());
    let mut child = situation.command.spawn().unwrap();
    let begun = Instant::now();
    while !(situation.ready)() {
        if let Some(status) = child.try_wait().unwrap() {
            return Err(format!("it ended by itself with {}", code(status)));
        }
        if begun.elapsed() > PATIENCE {
            end_by_force(&mut child, mark);
            return Err("it never came to wait".to_owned());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok((child, situation))
}

fn end_by_force(child: &mut Child, mark: &str) {
    let _ = child.kill();
    let _ = child.wait();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        let is_ours = String::from_utf8_lossy(&environment).contains(&format!("{MARK}={mark}"));
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        if let (true, Some(pid)) = (is_ours, pid) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// Waits for its end; the exit code and how long it took.
fn end_of(child: &mut Child) -> Option<(i32, Duration)> {
    let begun = Instant::now();
    while begun.elapsed() < LIMIT {
        if let Some(status) = child.try_wait().unwrap() {
            return Some((code(status), begun.elapsed()));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    None
}

/// What is wrong with how a command ends.
fn judge(situation: Situation, signal: Signal, times: usize, mark: &str) -> Result<(), String> {
    let (mut child, situation) = begin(situation, mark)?;
    let pid = Pid::from_child(&child);
    if let Some(status) = child.try_wait().unwrap() {
        return Err(format!("it did not wait: it ended with {}", code(status)));
    }
    kill_process(pid, signal).map_err(|error| error.to_string())?;
    if times == 2 {
        std::thread::sleep(Duration::from_millis(150));
        if child.try_wait().unwrap().is_none() {
            let _ = kill_process(pid, signal);
        }
    }
    let asked = Instant::now();
    let Some((code, took)) = end_of(&mut child) else {
        end_by_force(&mut child, mark);
        return Err(format!("it did not end within {LIMIT:?}"));
    };
    let is_expected = situation.codes.contains(&code) || (times == 2 && KILLED.contains(&code));
    if !is_expected {
        end_by_force(&mut child, mark);
        return Err(format!("it ended with {code}, not with one of {:?}", situation.codes));
    }
    // A second signal leaves nothing to wait for; the rest is the machine.
    if times == 2 && took > Duration::from_secs(1) {
        return Err(format!("it ended {took:?} after a second signal"));
    }
    // What was killed may take a moment to be gone.
    while !marked(mark).is_empty() && asked.elapsed() < LIMIT {
        std::thread::sleep(Duration::from_millis(10));
    }
    let left = marked(mark);
    if !left.is_empty() {
        end_by_force(&mut child, mark);
        return Err(format!("it left behind: {left:?}"));
    }
    Ok(())
}

/// Goes through all situations, a few at a time, and tells of all that went wrong.
fn through_all(times: usize) {
    let rows = Mutex::new(all().into_iter().enumerate().collect::<Vec<_>>());
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let Some((number, (name, make))) = rows.lock().unwrap().pop() else { return };
                    let signal = if number % 2 == 0 { Signal::TERM } else { Signal::INT };
                    let mark = format!("{}-{times}-{number}", std::process::id());
                    if let Err(why) = judge(make(), signal, times, &mark) {
                        wrong.lock().unwrap().push(format!("{name} ({signal:?}): {why}"));
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} situations:\n  {}", wrong.len(), wrong.join("\n  "));
}

#[test]
fn one_signal_ends_every_command_within_two_seconds() {
    through_all(1);
}

#[test]
fn a_second_signal_ends_every_command_at_once() {
    through_all(2);
}
