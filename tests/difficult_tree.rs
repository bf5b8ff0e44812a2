//! One difficult tree, mirrored from every real server: unusual names, empty files and folders, 10,001 entries in one
//! folder, a file that is rewritten while it is pulled, kill -9 and resume, then changes and deletions. Each replica is
//! compared with the served folder byte by byte.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]
#![allow(clippy::disallowed_methods, reason = "processes and files are watched while they change")]

#[path = "common/desk.rs"]
mod desk;
#[path = "common/ftpd.rs"]
mod ftpd;
#[path = "common/origin.rs"]
mod origin;
#[path = "common/web.rs"]
mod web;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant, SystemTime};

use desk::{Desk, noise};
use origin::{Origin, Server};
use serde_json::Value;

/// One more than the entries at which caddy and pure-ftpd cut their listings.
const MANY: usize = 10_001;

/// Large enough to be interrupted at [`SLOWLY`].
const LARGE_BYTES: usize = 6 << 20;
const SLOWLY: &str = "3M";

/// Names that are valid on the file systems of Linux and unusual elsewhere.
const NAMES: &[&[u8]] = &[
    b"frame-2026-11-18T12:00:00.gwf",
    b"a b",
    b" leading",
    b"trailing ",
    b"trailing.",
    b"two  blanks",
    b"back\\slash",
    b"CON",
    b"nul.txt",
    b"README",
    b"readme",
    "caf\u{e9}".as_bytes(),
    "cafe\u{301}".as_bytes(),
    "漢字.dat".as_bytes(),
    "Ümläut".as_bytes(),
    b"100%",
    b"100%25",
    b"a%2Fb",
    b"question?mark",
    b"hash#tag",
    b"semi;colon",
    b"amp&ersand",
    b"&amp;",
    b"<angle>",
    b"quote\"double",
    b"quote'single",
    b"plus+plus",
    b"equals=sign",
    b"at@sign",
    b"tilde~",
    b"-rf",
    b"[brackets]",
    b"{braces}",
    b"star*",
    b"download.part",
    b"pipe|",
    b"caret^",
    b"dollar$HOME",
    b"comma,",
    b"exclam!",
    b"a -> b",
    b"latin1-\xe9",
    b"koi8-\xc6\xc1\xca\xcc",
    b"2026-11-18 12:00",
    b"Nov 18 12:00 name",
    b"12345",
    b"..dots",
    b"a..",
    b"...",
    b"http:",
    b"C:",
    b"mailto:x",
    b"index.htm",
    b"x.lnk -> y",
    b"trailing%",
    b"%41",
    "\u{1f600}.dat".as_bytes(),
];

/// What is known of a server besides its protocol.
struct Traits {
    /// Names that this server cannot list or serve correctly to any client.
    unservable: &'static [&'static [u8]],
    /// The listing of a large folder is cut without all entries: the run must fail, and say so.
    cuts_large_listings: bool,
}

fn traits(server: Server) -> Traits {
    let complete = Traits { unservable: &[], cuts_large_listings: false };
    match server {
        Server::Caddy => Traits { cuts_large_listings: true, ..complete },
        // "553 Prohibited file name" to every command.
        Server::PureFtpd => Traits { unservable: &[b"back\\slash"], cuts_large_listings: true },
        // Leaves names that start with a dot out of its pages.
        Server::Nginx => Traits { unservable: &[b"..dots", b"..."], ..complete },
        // The same, and answers 400 to a path that is not UTF-8.
        Server::Lighttpd => {
            Traits { unservable: &[b"..dots", b"...", b"latin1-\xe9", b"koi8-\xc6\xc1\xca\xcc"], ..complete }
        }
        // Writes bytes that are not UTF-8 as question marks.
        Server::Pyftpdlib => Traits { unservable: &[b"latin1-\xe9", b"koi8-\xc6\xc1\xca\xcc"], ..complete },
        // Serves it instead of the listing of its folder.
        Server::MiniHttpd => Traits { unservable: &[b"index.htm"], ..complete },
        // Writes names into its pages without escaping `&`.
        Server::Webfs => Traits { unservable: &[b"&amp;"], ..complete },
        _ => complete,
    }
}

fn dated(path: &Path, bytes: &[u8], age: Duration) {
    fs::write(path, bytes).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - age).unwrap();
}

fn folder(path: &Path) {
    fs::create_dir_all(path).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

const OLD: Duration = Duration::from_secs(3 * 86_400);

fn plant(root: &Path, unservable: &[&[u8]]) {
    let tree = root.join("tree");
    for name in ["names", "folder with blanks:and colon/deeper", "empty", "plain"] {
        folder(&tree.join(name));
    }
    for (index, name) in NAMES.iter().filter(|name| !unservable.contains(name)).enumerate() {
        dated(&tree.join("names").join(OsStr::from_bytes(name)), &noise(index as u64 + 1, 100 + index), OLD);
    }
    dated(&tree.join("names").join("l".repeat(255)), b"the longest name", OLD);
    dated(&tree.join("plain/empty-file"), b"", OLD);
    dated(&tree.join("folder with blanks:and colon/deeper/x.dat"), b"deep", OLD);
    for index in 0..6 {
        dated(&tree.join(format!("plain/file-{index}")), &noise(index + 100, 3_000), OLD);
    }
}

fn plant_many(root: &Path) {
    let many = root.join("many");
    folder(&many);
    let first = many.join("file-00000");
    dated(&first, b"12345", OLD);
    for index in 1..MANY {
        fs::hard_link(&first, many.join(format!("file-{index:05}"))).unwrap();
    }
}

/// Every file and folder below a folder, by its path in bytes; folders have no content.
fn contents(root: &Path) -> BTreeMap<Vec<u8>, Option<Vec<u8>>> {
    fn collect(folder: &Path, below: &Path, found: &mut BTreeMap<Vec<u8>, Option<Vec<u8>>>) {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let path = below.join(entry.file_name());
            let key = path.clone().into_os_string().into_vec();
            if entry.file_type().unwrap().is_dir() {
                found.insert(key, None);
                collect(&entry.path(), &path, found);
            } else {
                found.insert(key, Some(fs::read(entry.path()).unwrap()));
            }
        }
    }
    let mut found = BTreeMap::new();
    collect(root, Path::new(""), &mut found);
    found
}

/// Compares two trees and names what differs.
#[track_caller]
fn assert_same(origin: &Path, replica: &Path, context: &str) {
    let (there, here) = (contents(origin), contents(replica));
    let mut wrong = Vec::new();
    for path in there.keys().chain(here.keys()) {
        let told = match (there.get(path), here.get(path)) {
            (Some(_), None) => "missing",
            (None, Some(_)) => "surplus",
            (a, b) if a != b => "different",
            _ => continue,
        };
        wrong.push(format!("{told}: {}", String::from_utf8_lossy(path).escape_debug()));
    }
    wrong.sort();
    wrong.dedup();
    assert!(wrong.is_empty(), "{context}:\n{}", wrong.join("\n"));
}

struct Bench {
    desk: Desk,
    origin: Origin,
}

impl Bench {
    fn new(server: Server) -> Self {
        let (desk, origin) = (Desk::new(), Origin::start(server));
        if !origin.netrc().is_empty() {
            desk.private(".netrc", origin.netrc());
        }
        Self { desk, origin }
    }

    fn command(&self, folder: &str, more: &[&str]) -> std::process::Command {
        let url = self.origin.url(&format!("{folder}/"));
        let mut command =
            self.desk.stroll(&["mirror", &url, folder, "--hidden", "--progress", "none", "--json"]);
        // Users with a password are refused on plain connections unless this is said.
        if url.starts_with("ftp:") {
            command.args(["--ftp-tls", "off"]);
        }
        command.args(more);
        command
    }

    fn mirror(&self, folder: &str, more: &[&str]) -> Output {
        self.command(folder, more).output().unwrap()
    }

    /// Mirrors a folder, which must succeed; gives the summary.
    #[track_caller]
    fn mirrors(&self, folder: &str, more: &[&str]) -> Value {
        let output = self.mirror(folder, more);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let summary = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{folder} {more:?}: {:?}\n{said}\n{summary}", output.status);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
    }

    #[track_caller]
    fn assert_same(&self, folder: &str, context: &str) {
        assert_same(&self.origin.root().join(folder), &self.desk.path(folder), context);
    }
}

fn pulled(summary: &Value) -> Option<u64> {
    summary["pulled"].as_u64().or_else(|| summary["counts"]["pulled"].as_u64())
}

/// Names, empty things, then an unchanged run, then changes and deletions.
fn mirrors_a_difficult_tree(server: Server) {
    let bench = Bench::new(server);
    let root = bench.origin.root();
    plant(&root, traits(server).unservable);
    bench.mirrors("tree", &[]);
    bench.assert_same("tree", "first run");
    // The first run may have seen times that were too fresh to be trusted; all of these are old.
    let again = bench.mirrors("tree", &[]);
    assert_eq!(pulled(&again), Some(0), "an unchanged tree is not pulled again: {again}");
    // webfs keeps a page as long as its folder has the same time in whole seconds.
    std::thread::sleep(Duration::from_secs(2));
    let tree = root.join("tree");
    dated(&tree.join("plain/file-0"), &noise(900, 3_000), Duration::from_secs(600));
    dated(&tree.join("plain/file-1"), &noise(901, 2_999), Duration::from_secs(600));
    dated(&tree.join("plain/new"), b"new", Duration::from_secs(600));
    fs::remove_file(tree.join("plain/file-2")).unwrap();
    fs::remove_file(tree.join("names/CON")).unwrap();
    fs::remove_dir(tree.join("empty")).unwrap();
    bench.mirrors("tree", &["--delete"]);
    bench.assert_same("tree", "after changes and deletions");
}

/// A folder with more entries than some servers list. All are listed; over FTP, which takes several round trips for each
/// file, one in a hundred is pulled.
fn mirrors_a_large_folder(server: Server) {
    let bench = Bench::new(server);
    plant_many(&bench.origin.root());
    let is_ftp = bench.origin.url("").starts_with("ftp:");
    let some: &[&str] = if is_ftp { &["--include", "file-*00"] } else { &[] };
    if !traits(server).cuts_large_listings {
        let summary = bench.mirrors("many", some);
        assert_eq!(summary["counts"]["entries"], MANY, "{summary}");
        let pulled = if is_ftp { MANY.div_ceil(100) } else { MANY };
        return assert_eq!(summary["counts"]["pulled"], pulled, "{summary}");
    }
    let output = bench.mirror("many", some);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "a cut listing is not a success: {said}");
    assert!(said.contains("not complete"), "{said}");
    // Replicas that the cut listing leaves out stay.
    for entry in fs::read_dir(bench.origin.root().join("many")).unwrap() {
        let name = entry.unwrap().file_name();
        dated(&bench.desk.path("many").join(name), b"12345", OLD);
    }
    let output = bench.mirror("many", &["--delete"]);
    assert!(!output.status.success(), "a cut listing is not a success");
    bench.assert_same("many", "after --delete");
}

/// Waits until some bytes of a file are on the disk.
fn wait_for_part(folder: &Path, bytes: u64) {
    let begun = Instant::now();
    let is_there = || {
        let Ok(entries) = fs::read_dir(folder) else { return false };
        entries.flatten().any(|entry| entry.metadata().is_ok_and(|stat| stat.len() >= bytes))
    };
    while !is_there() {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing arrives");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The file is overwritten in place, without truncation, while it is pulled.
fn never_mixes_two_versions(server: Server) {
    let bench = Bench::new(server);
    let place = bench.origin.root().join("large");
    folder(&place);
    dated(&place.join("data"), &noise(1, LARGE_BYTES), OLD);
    let (old, new) = (noise(1, LARGE_BYTES), noise(2, LARGE_BYTES));
    let mut child = bench.command("large", &["--bwlimit", SLOWLY]).spawn().unwrap();
    wait_for_part(&bench.desk.path("large"), 1 << 20);
    let file = fs::File::options().write(true).open(place.join("data")).unwrap();
    file.write_all_at(&new, 0).unwrap();
    drop(file);
    let status = child.wait().unwrap();
    let here = fs::read(bench.desk.path("large/data")).ok();
    if status.success() {
        assert!(here.as_deref() == Some(&new[..]), "the replica is the file that is at the source");
    }
    assert!(here.is_none_or(|here| here == old || here == new), "bytes of two versions in one file");
    // The new version's time is recent, so a cached or coarse validator may need a moment to become conclusive.
    std::thread::sleep(Duration::from_secs(3));
    bench.mirrors("large", &[]);
    bench.assert_same("large", "after the rewrite");
}

/// kill -9 in the middle of a file; the next run completes it.
fn resumes_after_a_kill(server: Server) {
    let bench = Bench::new(server);
    let place = bench.origin.root().join("large");
    folder(&place);
    dated(&place.join("data"), &noise(3, LARGE_BYTES), OLD);
    let mut child = bench.command("large", &["--bwlimit", SLOWLY]).spawn().unwrap();
    wait_for_part(&bench.desk.path("large"), 2 << 20);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!bench.desk.path("large/data").exists(), "it has its name only when it is complete");
    bench.mirrors("large", &[]);
    bench.assert_same("large", "after a kill");
}

macro_rules! servers {
    ($($module:ident: $server:ident),* $(,)?) => { $(
        mod $module {
            use super::*;

            #[test]
            fn a_difficult_tree_is_mirrored() {
                mirrors_a_difficult_tree(Server::$server);
            }

            #[test]
            fn a_large_folder_is_mirrored_or_reported() {
                mirrors_a_large_folder(Server::$server);
            }

            #[test]
            fn two_versions_are_never_mixed() {
                never_mixes_two_versions(Server::$server);
            }

            #[test]
            fn a_killed_mirror_is_resumed() {
                resumes_after_a_kill(Server::$server);
            }
        }
    )* };
}

servers! {
    nginx: Nginx,
    apache: Apache,
    lighttpd: Lighttpd,
    caddy: Caddy,
    mini_httpd: MiniHttpd,
    micro_httpd: MicroHttpd,
    webfs: Webfs,
    vsftpd: Vsftpd,
    proftpd: Proftpd,
    pure_ftpd: PureFtpd,
    pyftpdlib: Pyftpdlib,
    inetutils_ftpd: InetutilsFtpd,
}
