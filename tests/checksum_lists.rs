//! Lists of checksums at the source, in bounded memory: which are found, what they are believed, and what is said of them.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]
#![allow(clippy::disallowed_methods, reason = "a process is watched while it runs")]

#[path = "common/desk.rs"]
mod desk;
#[path = "common/web.rs"]
mod web;

use std::fs;
use std::io::{BufRead as _, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use desk::Desk;
use serde_json::Value;
use stroll::fetch::sink::{Algorithm, Hasher};
use web::{Kind, Web};

/// How much more memory a large list may take than a mirror of ten files.
const MOST_KIB: u64 = 64 << 10;

fn hex(algorithm: Algorithm, bytes: &[u8]) -> String {
    let mut hasher = Hasher::new(algorithm);
    hasher.update(bytes);
    hasher.finish().to_string().split_once(':').unwrap().1.to_owned()
}

fn sha256(bytes: &[u8]) -> String {
    hex(Algorithm::Sha256, bytes)
}

/// Exit code, report and messages of a mirror of `tree/`.
fn mirror(desk: &Desk, url: &str, args: &[&str]) -> (i32, Value, String) {
    let output = desk.stroll(&["mirror", url, "replica", "--json"]).args(args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code().unwrap(), serde_json::from_slice(&output.stdout).unwrap_or_default(), said)
}

fn tree() -> (Web, String) {
    let web = Web::start(Kind::Nginx);
    for name in ["a", "b", "deep/er/c.dat"] {
        web.put(&format!("tree/{name}"), name.as_bytes(), 1_000);
    }
    let url = web.http("tree/").to_string();
    (web, url)
}

// --- which lists are used ---------------------------------------------------------------------------------------------

#[test]
fn a_list_at_the_root_is_used_for_folders_below_and_only_what_is_listed_is_asked_for() {
    let ((web, url), desk) = (tree(), Desk::new());
    let list = format!(
        "{}  ./a\n{}  b\n{} *deep/er/c.dat\n",
        sha256(b"a"),
        sha256(b"b"),
        sha256(b"deep/er/c.dat").to_uppercase()
    );
    web.put("tree/sha256sum.txt", list.as_bytes(), 1_000);
    let (code, report, said) = mirror(&desk, &url, &["--sums", "auto"]);
    assert_eq!(code, 0, "{said}");
    let sums = &report["checksums"];
    assert_eq!((&sums["files"], &sums["files_without"]), (&3.into(), &0.into()), "{report}");
    assert_eq!(sums["lists"][format!("{url}sha256sum.txt")], 3, "{report}");
    let asked: Vec<String> = web.requests().into_iter().filter(|line| line.contains("SUMS")).collect();
    assert!(asked.is_empty(), "{asked:?}");
    let lists = web.requests().iter().filter(|line| line.contains("sha256sum.txt ")).count();
    assert_eq!(lists, 2, "once to be used and once as a file of the tree: {:?}", web.requests());
    // Other bytes do not get the name.
    web.put("tree/deep/er/c.dat", b"other", 10);
    let (code, _, said) = mirror(&desk, &url, &["--sums", "auto"]);
    assert_eq!(code, 6, "{said}");
    assert!(said.contains("c.dat") && said.contains("checksum"), "{said}");
    assert_eq!(desk.read("replica/deep/er/c.dat"), b"deep/er/c.dat");
}

#[test]
fn every_command_says_which_lists_it_used() {
    let ((web, url), desk) = (tree(), Desk::new());
    web.put("tree/CHECKSUM", format!("# a\nSHA256 (a) = {}\n", sha256(b"a")).as_bytes(), 1_000);
    web.put("tree/b.sha512", format!("{}\n", hex(Algorithm::Sha512, b"b")).as_bytes(), 1_000);
    let said = desk.stroll(&["mirror", &url, "replica", "--sums", "auto"]).output().unwrap().stderr;
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("checksums: CHECKSUM (1 file), FILE.sha512 (1 file), 1 file without"), "{said}");
    let (a, c) = (format!("{url}a"), format!("{url}deep/er/c.dat"));
    let said = desk.pulls(&[&a, &c, "-o", "got/", "--sums", "auto"]);
    assert!(said.contains("checksums: CHECKSUM (1 file), 1 file without"), "{said}");
    let json = desk.json(&[&a, "-o", "again", "--sums", "auto"]);
    assert_eq!(json["checksums"]["files"], 1, "{json}");
    let said = desk.pulls(&[&a, "-o", "off"]);
    assert!(!said.contains("checksums:"), "{said}");
}

#[test]
fn a_page_that_says_not_found_is_not_a_list_and_a_contradiction_is_an_error() {
    let desk = Desk::new();
    let page = format!("<!DOCTYPE html>\n<pre>\n{}  f\n</pre>\n", sha256(b"other"));
    let list = format!("{}  f\n{}  f\n", sha256(b"f"), sha256(b"g"));
    let site = Site::start(move |path, out| match path {
        "/soft/f" | "/twice/f" => answer(out, "text/plain", b"f"),
        "/twice/SHA256SUMS" => answer(out, "text/plain", list.as_bytes()),
        _ => answer(out, "text/html", page.as_bytes()),
    });
    let said = desk.pulls(&[&site.url("soft/f"), "--sums", "auto"]);
    assert!(said.contains("checksums: no list used, 1 file without"), "{said}");
    let said = desk.fails(11, &[&site.url("twice/f"), "-o", "twice", "--sums", "auto"]);
    assert!(said.contains("different checksums"), "{said}");
    assert!(!desk.path("twice").exists());
}

// --- --compare checksum -----------------------------------------------------------------------------------------------

#[test]
fn comparing_by_checksum_without_any_list_is_one_error() {
    let ((web, url), desk) = (tree(), Desk::new());
    for dry in [&["--dry-run"][..], &[]] {
        let (code, report, said) = mirror(&desk, &url, &[&["--compare", "checksum"], dry].concat());
        assert_eq!(code, 7, "{said}");
        assert!(said.contains("no list of checksums") && said.contains("--compare mtime"), "{said}");
        assert_eq!(said.matches("no list of checksums").count(), 1, "{said}");
        assert_eq!(report["counts"]["pulled"], 0, "{report}");
    }
    // With a list for some of the files the others are named.
    web.put("tree/SHA256SUMS", format!("{}  a\n{}  b\n", sha256(b"a"), sha256(b"b")).as_bytes(), 1_000);
    let (code, report, said) = mirror(&desk, &url, &["--compare", "checksum"]);
    assert_eq!(code, 6, "{said}");
    assert!(said.contains("c.dat") && said.contains("--exclude"), "{said}");
    assert_eq!(
        (&report["counts"]["pulled"], &report["counts"]["failed"]),
        (&3.into(), &1.into()),
        "{report}"
    );
    let (code, _, said) = mirror(&desk, &url, &["--compare", "checksum", "--exclude", "/deep/**"]);
    assert_eq!(code, 0, "{said}");
}

// --- large ones -------------------------------------------------------------------------------------------------------

/// A web server that makes up what it sends.
struct Site {
    at: std::net::SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

type Script = dyn Fn(&str, &mut dyn Write) -> std::io::Result<()> + Send + Sync;

impl Site {
    fn start(script: impl Fn(&str, &mut dyn Write) -> std::io::Result<()> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (at, asked) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<String>>>::default());
        let (script, log): (Arc<Script>, _) = (Arc::new(script), Arc::clone(&asked));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (script, log) = (Arc::clone(&script), Arc::clone(&log));
                std::thread::spawn(move || serve(&stream, &*script, &log));
            }
        });
        Self { at, asked }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.at)
    }
}

/// One request after the other, until the client has enough.
fn serve(stream: &TcpStream, script: &Script, log: &Mutex<Vec<String>>) {
    let mut input = BufReader::new(stream.try_clone().unwrap());
    loop {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            if !matches!(input.read_line(&mut line), Ok(len) if len > 0) {
                return;
            }
            if line.trim().is_empty() {
                break;
            }
            head.push(line);
        }
        let mut words = head[0].split(' ');
        let (method, path) = (words.next().unwrap().to_owned(), words.next().unwrap().to_owned());
        log.lock().unwrap().push(format!("{method} {path}"));
        let sent = if method == "HEAD" {
            let mut head = Head { stream, is_over: false, last: [0; 3] };
            script(&path, &mut head)
        } else {
            script(&path, &mut std::io::BufWriter::with_capacity(1 << 18, stream))
        };
        if sent.is_err() {
            return;
        }
    }
}

/// Lets the head of an answer through.
struct Head<'a> {
    stream: &'a TcpStream,
    is_over: bool,
    last: [u8; 3],
}

impl Write for Head<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if !self.is_over {
            let all = [&self.last[..], bytes].concat();
            let end = all.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4 - 3);
            self.is_over = end.is_some();
            self.stream.write_all(&bytes[..end.unwrap_or(bytes.len())])?;
            self.last = all[all.len() - 3..].try_into().unwrap();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn head(out: &mut dyn Write, kind: &str, length: u64) -> std::io::Result<()> {
    write!(
        out,
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nLast-Modified: Sat, 01 Aug 2026 10:00:00 GMT\r\n\r\n"
    )
}

fn answer(out: &mut dyn Write, kind: &str, body: &[u8]) -> std::io::Result<()> {
    head(out, kind, body.len() as u64)?;
    out.write_all(body)?;
    out.flush()
}

fn index(out: &mut dyn Write, path: &str, names: impl Iterator<Item = (String, u64)>) -> std::io::Result<()> {
    let mut page = format!(
        "<html>\r\n<head><title>Index of {path}</title></head>\r\n<body>\r\n<h1>Index of {path}</h1><hr><pre><a href=\"../\">../</a>\r\n"
    );
    let row = |(name, size): (String, u64)| {
        format!("<a href=\"{name}\">{name}</a>      01-Aug-2026 10:00      {size}\r\n")
    };
    page.push_str(&names.map(row).collect::<Vec<_>>().concat());
    page.push_str("</pre><hr></body>\r\n</html>\r\n");
    answer(out, "text/html", page.as_bytes())
}

fn name(n: u64) -> String {
    format!("f{n:07}.dat")
}

/// A list of so many lines, of which the first ten are right.
fn list(out: &mut dyn Write, lines: u64) -> std::io::Result<()> {
    let line = |n: u64| {
        let digest = if n < 10 { sha256(name(n).as_bytes()) } else { format!("{n:064x}") };
        format!("{digest}  {}\n", name(n))
    };
    head(out, "text/plain", lines * line(0).len() as u64)?;
    for n in 0..lines {
        out.write_all(line(n).as_bytes())?;
    }
    out.flush()
}

/// Ten files and a list of so many lines.
fn site(lines: u64) -> Site {
    Site::start(move |path, out| match path.rsplit_once('/').unwrap().1 {
        "" => {
            let size = name(0).len() as u64;
            let files = (0..10).map(|n| (name(n), size));
            let list = (lines > 0).then(|| ("SHA256SUMS".to_owned(), lines * 79));
            index(out, path, files.chain(list))
        }
        "SHA256SUMS" => list(out, lines),
        file => answer(out, "application/octet-stream", file.as_bytes()),
    })
}

/// The most memory that it ever had, in KiB, looked at until it ends.
fn peak_kib(child: &mut Child) -> u64 {
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let words = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        peak = words.unwrap_or(0).max(peak);
        std::thread::sleep(Duration::from_millis(5));
    }
    peak
}

fn mirror_and_watch(desk: &Desk, url: &str) -> (u64, i32, String) {
    let args = ["mirror", url, "replica", "--sums", "auto", "--exclude", "SHA256SUMS", "--progress", "none"];
    let mut child = desk.stroll(&args).stderr(Stdio::piped()).spawn().unwrap();
    let peak = peak_kib(&mut child);
    let output = child.wait_with_output().unwrap();
    (peak, output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn usual_peak_kib() -> u64 {
    let (site, desk) = (site(0), Desk::new());
    let (peak, code, said) = mirror_and_watch(&desk, &site.url("d/"));
    assert_eq!(code, 0, "{said}");
    peak
}

#[test]
fn a_list_of_a_million_lines_is_used_and_an_endless_one_is_refused_in_bounded_memory() {
    let usual = usual_peak_kib();
    let (large, desk) = (site(1_000_000), Desk::new());
    let (peak, code, said) = mirror_and_watch(&desk, &large.url("d/"));
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("checksums: SHA256SUMS (10 files)"), "{said}");
    assert!(peak <= usual + MOST_KIB, "{peak} KiB, and {usual} KiB without a list");
    let lists = large.asked.lock().unwrap().iter().filter(|line| line.ends_with("/SHA256SUMS")).count();
    assert_eq!(lists, 1, "it is read once");

    let (endless, desk) = (site(40_000_000), Desk::new());
    let (peak, code, said) = mirror_and_watch(&desk, &endless.url("d/"));
    assert_ne!(code, 0, "{said}");
    assert!(said.contains("SHA256SUMS") && said.contains("memory") && said.contains("--sums off"), "{said}");
    assert!(peak <= usual + MOST_KIB, "{peak} KiB, and {usual} KiB without a list");
    let lists = endless.asked.lock().unwrap().iter().filter(|line| line.ends_with("/SHA256SUMS")).count();
    assert_eq!(lists, 1, "it is read once, and not for every file");
}

/// Every list that was ever read stayed in memory.
#[test]
fn lists_of_folders_that_were_left_are_dropped() {
    const FOLDERS: u64 = 30;
    let usual = usual_peak_kib();
    let site = Site::start(move |path, out| match path.rsplit_once('/').unwrap() {
        ("/d", "") => index(out, path, (0..FOLDERS).map(|n| (format!("s{n:02}/"), 0))),
        (_, "") => {
            let list = ("SHA256SUMS".to_owned(), 100_000 * 79);
            index(out, path, [(name(1), 12), list].into_iter())
        }
        (_, "SHA256SUMS") => list(out, 100_000),
        (_, file) => answer(out, "application/octet-stream", file.as_bytes()),
    });
    let desk = Desk::new();
    let (peak, code, said) = mirror_and_watch(&desk, &site.url("d/"));
    assert_eq!(code, 0, "{said}");
    assert!(said.contains(&format!("checksums: {FOLDERS} lists SHA256SUMS ({FOLDERS} files)")), "{said}");
    assert!(peak <= usual + MOST_KIB, "{peak} KiB, and {usual} KiB without lists");
}
