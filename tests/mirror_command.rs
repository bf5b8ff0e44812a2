//! `stroll mirror` and `stroll verify` as people use them, against real servers and lying ones.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]
#![allow(clippy::disallowed_methods, reason = "these tests are about real time")]

#[path = "common/desk.rs"]
mod desk;
#[path = "common/ftpd.rs"]
mod ftpd;
#[path = "common/web.rs"]
mod web;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, UNIX_EPOCH};

use desk::{Desk, Running, noise};
use ftpd::Ftpd;
use rustix::process::Signal;
use serde_json::Value;
use stroll::fetch::sink::{Algorithm, Hasher};
use stroll::jobs::Manifest;
use web::{Kind, Web};

/// Odd names, folders in folders, an empty file.
const TREE: &[&str] = &[
    "a.dat",
    "empty",
    "-rf",
    "100% sure.dat",
    "sub/b.dat",
    "sub/Ümläut & more.dat",
    "sub/deep/c.dat",
    "sub/deep/deeper/d#1?.dat",
    "zoo/e+f.dat",
];

/// A long time ago: old files have strong tags, and no server writes their time of day.
const CHANGED_S: u64 = 1_600_000_000;

fn bytes_of(path: &str) -> Vec<u8> {
    if path == "empty" { Vec::new() } else { noise(path.len() as u64, 1_000 + path.len()) }
}

/// Writes a file that was changed then.
fn put(root: &Path, path: &str, bytes: &[u8], modified_s: u64) {
    use std::os::unix::fs::PermissionsExt as _;
    let place = root.join(path);
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    fs::write(&place, bytes).unwrap();
    fs::set_permissions(&place, fs::Permissions::from_mode(0o644)).unwrap();
    let time = UNIX_EPOCH + Duration::from_secs(modified_s);
    fs::File::options().write(true).open(&place).unwrap().set_modified(time).unwrap();
}

fn plant(root: &Path) {
    for path in TREE {
        put(root, path, &bytes_of(path), CHANGED_S + path.len() as u64);
    }
}

/// A tree at one of the servers, and how to mirror it.
struct Source {
    name: &'static str,
    root: PathBuf,
    url: String,
    login: Vec<String>,
    server: Server,
}

enum Server {
    Web(Web),
    /// It lasts as long as this value.
    #[expect(dead_code, reason = "nobody asks it anything")]
    Ftp(Ftpd),
}

fn web_source(desk: &Desk, kind: Kind, below: &str) -> Source {
    let (web, _) = (Web::start(kind), desk);
    let (root, url) = (web.root().join("tree"), web.http(&format!("{below}tree/")).to_string());
    fs::create_dir(&root).unwrap();
    Source {
        name: if below.is_empty() { "html" } else { "json" },
        root,
        url,
        login: Vec::new(),
        server: Server::Web(web),
    }
}

fn ftp_source(desk: &Desk, kind: ftpd::Kind) -> Source {
    let server = Ftpd::start(kind);
    let user = if kind == ftpd::Kind::Vsftpd { "anonymous" } else { "ada" };
    let file = desk.private("password", "right\n");
    let login = ["--user", user, "--password-file", file.to_str().unwrap(), "--ftp-tls", "off"];
    let login = login.map(str::to_owned).into();
    let (root, url) = (server.root().join("tree"), server.address("tree/").to_string());
    fs::create_dir(&root).unwrap();
    Source { name: "ftp", root, url, login, server: Server::Ftp(server) }
}

impl Source {
    fn command(&self, desk: &Desk, args: &[&str]) -> Command {
        let mut command = desk.stroll(&["mirror", &self.url, "replica"]);
        command.args(&self.login).args(args);
        command
    }

    fn run(&self, desk: &Desk, args: &[&str]) -> (Option<i32>, Value, String) {
        report(self.command(desk, args).arg("--json").output().unwrap())
    }

    /// What it reports, when it must succeed.
    #[track_caller]
    fn mirrors(&self, desk: &Desk, args: &[&str]) -> Value {
        let (code, report, said) = self.run(desk, args);
        assert_eq!(code, Some(0), "{}: {report} {said}", self.name);
        report
    }

    /// What it says, when it must end with this code.
    #[track_caller]
    fn ends(&self, desk: &Desk, code: i32, args: &[&str]) -> (Value, String) {
        let (got, report, said) = self.run(desk, args);
        assert_eq!(got, Some(code), "{}: {report} {said}", self.name);
        (report, said)
    }
}

fn report(output: Output) -> (Option<i32>, Value, String) {
    let said = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or_default(), said)
}

fn count(report: &Value, what: &str) -> u64 {
    report["counts"][what].as_u64().unwrap_or_else(|| panic!("{what}: {report}"))
}

fn files(root: &Path) -> Vec<String> {
    fn collect(root: &Path, below: &Path, names: &mut Vec<String>) {
        for entry in fs::read_dir(root.join(below)).unwrap() {
            let entry = entry.unwrap();
            let path = below.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                collect(root, &path, names);
            } else {
                names.push(path.to_str().unwrap().to_owned());
            }
        }
    }
    let mut names = Vec::new();
    collect(root, Path::new(""), &mut names);
    names.sort();
    names
}

/// Both trees have the same files with the same bytes and times.
#[track_caller]
fn same(there: &Path, here: &Path) {
    assert_eq!(files(there), files(here));
    for path in files(there) {
        assert!(
            fs::read(there.join(&path)).unwrap() == fs::read(here.join(&path)).unwrap(),
            "{path} differs"
        );
        let time = |root: &Path| {
            let modified = fs::metadata(root.join(&path)).unwrap().modified().unwrap();
            modified.duration_since(UNIX_EPOCH).unwrap().as_secs()
        };
        assert_eq!(time(there), time(here), "{path}");
    }
}

/// The whole life of a mirror: all, nothing, a change.
fn lives(desk: &Desk, source: &Source) {
    let replica = desk.path("replica");
    plant(&source.root);
    let all = TREE.len() as u64;
    let report = source.mirrors(desk, &[]);
    assert_eq!((count(&report, "pulled"), count(&report, "folders")), (all, 5), "{report}");
    assert_eq!(report["complete"], true);
    same(&source.root, &replica);

    let report = source.mirrors(desk, &[]);
    let unchanged = (count(&report, "pulled"), count(&report, "up_to_date"), &report["totals"]["bytes"]);
    assert_eq!(unchanged, (0, all, &Value::from(0)), "{}: {report}", source.name);
    source.ends(desk, 9, &["--fail-if-nothing"]);

    put(&source.root, "sub/b.dat", b"something else", CHANGED_S + 90_000);
    put(&source.root, "zoo/new/g.dat", b"new", CHANGED_S);
    fs::remove_file(source.root.join("a.dat")).unwrap();
    fs::remove_dir_all(source.root.join("sub/deep")).unwrap();
    let report = source.mirrors(desk, &[]);
    assert_eq!((count(&report, "pulled"), count(&report, "deleted")), (2, 0), "{report}");
    assert!(replica.join("a.dat").exists(), "nothing is removed unless asked for");
    let report = source.mirrors(desk, &["--delete", "--max-delete", "5"]);
    assert_eq!((count(&report, "pulled"), count(&report, "deleted")), (0, 3), "{report}");
    same(&source.root, &replica);
    assert!(!replica.join("sub/deep").exists(), "empty folders go, too");
    let verified = desk.stroll(&["verify", "replica"]).output().unwrap();
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
}

#[test]
fn a_tree_comes_whole_stays_quiet_and_follows_changes_over_index_pages() {
    for kind in [Kind::Nginx, Kind::Lighttpd, Kind::Apache] {
        let desk = Desk::new();
        lives(&desk, &web_source(&desk, kind, ""));
    }
}

#[test]
fn a_tree_comes_whole_stays_quiet_and_follows_changes_over_json() {
    let desk = Desk::new();
    lives(&desk, &web_source(&desk, Kind::Nginx, "all-json/"));
}

#[test]
fn a_tree_comes_whole_stays_quiet_and_follows_changes_over_ftp() {
    for kind in [ftpd::Kind::Vsftpd, ftpd::Kind::Proftpd] {
        let desk = Desk::new();
        lives(&desk, &ftp_source(&desk, kind));
    }
}

#[test]
fn an_unchanged_tree_costs_one_request_a_folder() {
    for below in ["", "all-json/"] {
        let desk = Desk::new();
        let source = web_source(&desk, Kind::Nginx, below);
        plant(&source.root);
        source.mirrors(&desk, &[]);
        let Server::Web(web) = &source.server else { panic!("a web server") };
        let before = web.requests().len();
        let report = source.mirrors(&desk, &[]);
        let requests = web.requests().split_off(before);
        assert_eq!(requests.len(), 5, "{requests:?}");
        assert_eq!(count(&report, "up_to_date"), TREE.len() as u64);
    }
}

#[test]
fn a_file_that_changes_within_its_minute_is_noticed_all_the_same() {
    let desk = Desk::new();
    let source = web_source(&desk, Kind::Nginx, "");
    let now_s = std::time::SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let minute = now_s / 60 * 60;
    put(&source.root, "f", b"one", minute);
    source.mirrors(&desk, &[]);
    put(&source.root, "f", b"two", minute + 1);
    assert_eq!(count(&source.mirrors(&desk, &[]), "pulled"), 1);
    same(&source.root, &desk.path("replica"));
}

#[test]
fn files_that_somebody_else_brought_are_not_pulled_again() {
    let desk = Desk::new();
    let source = web_source(&desk, Kind::Nginx, "");
    plant(&source.root);
    for path in TREE {
        put(&desk.path("replica"), path, &bytes_of(path), CHANGED_S + path.len() as u64);
    }
    let report = source.mirrors(&desk, &[]);
    assert_eq!((count(&report, "pulled"), count(&report, "up_to_date")), (0, TREE.len() as u64), "{report}");
    // And from then on the listing alone will do.
    let Server::Web(web) = &source.server else { panic!("a web server") };
    let before = web.requests().len();
    source.mirrors(&desk, &[]);
    assert_eq!(web.requests().len() - before, 5);
}

#[test]
fn filters_sizes_and_orders_decide_what_comes() {
    let desk = Desk::new();
    let source = web_source(&desk, Kind::Nginx, "all-json/");
    plant(&source.root);
    put(&source.root, "young.dat", b"young", 4_000_000_000);
    let (report, _) = source.ends(
        &desk,
        0,
        &["--include", "*.dat", "--exclude", "/sub/deep/", "--min-size", "1", "--min-age", "1d"],
    );
    assert!(count(&report, "excluded") >= 3, "{report}");
    assert_eq!(
        files(&desk.path("replica")),
        ["100% sure.dat", "a.dat", "sub/b.dat", "sub/Ümläut & more.dat", "zoo/e+f.dat"]
    );
    let desk = Desk::new();
    fs::remove_file(source.root.join("young.dat")).unwrap();
    put(&source.root, "large", &noise(1, 50_000), CHANGED_S);
    let (report, _) = source.ends(&desk, 8, &["--order-by", "size,desc", "--max-transfer", "51k"]);
    assert!(desk.path("replica/large").exists() && count(&report, "left") > 0, "{report}");
    assert!(report["totals"]["bytes"].as_u64().unwrap() <= 51 << 10, "{report}");
    source.mirrors(&desk, &[]);
    same(&source.root, &desk.path("replica"));
}

#[test]
fn compare_says_what_up_to_date_means() {
    let desk = Desk::new();
    let source = web_source(&desk, Kind::Nginx, "all-json/");
    put(&source.root, "f", b"there", CHANGED_S);
    put(&desk.path("replica"), "f", b"older", CHANGED_S - 10);
    for (how, pulled) in [("exists", 0), ("size", 0), ("mtime", 1)] {
        let report = source.mirrors(&desk, &["--dry-run", "--compare", how]);
        assert_eq!(count(&report, "planned"), pulled, "{how}: {report}");
    }
    // Same size, same time, other bytes: only a list of checksums tells.
    put(&desk.path("replica"), "f", b"wrong", CHANGED_S);
    assert_eq!(count(&source.mirrors(&desk, &[]), "pulled"), 0);
    let mut hasher = Hasher::new(Algorithm::Sha256);
    hasher.update(b"there");
    let hex = hasher.finish().to_string().split_once(':').unwrap().1.to_owned();
    put(&source.root, "SHA256SUMS", format!("{hex}  f\n").as_bytes(), CHANGED_S);
    let report = source.mirrors(&desk, &["--compare", "checksum"]);
    assert_eq!(count(&report, "pulled"), 2, "{report}");
    assert_eq!(desk.read("replica/f"), b"there");
    assert_eq!(count(&source.mirrors(&desk, &["--compare", "checksum"]), "pulled"), 0);
}

#[test]
fn a_dry_run_plans_and_touches_nothing() {
    let desk = Desk::new();
    let source = web_source(&desk, Kind::Nginx, "");
    plant(&source.root);
    let report = source.mirrors(&desk, &["--dry-run", "--delete"]);
    assert_eq!(report["plan"].as_array().unwrap().len(), TREE.len(), "{report}");
    assert!(!desk.path("replica").exists());
    source.mirrors(&desk, &[]);
    fs::remove_file(source.root.join("a.dat")).unwrap();
    put(&source.root, "new.dat", b"new", CHANGED_S);
    let output = source.command(&desk, &["-n", "--delete", "--max-delete", "1"]).output().unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    assert_eq!(lines, "pull new.dat (3 B, new)\nremove a.dat\n");
    assert!(desk.path("replica/a.dat").exists() && !desk.path("replica/new.dat").exists());
}

// --- deletion, and what forbids it ------------------------------------------------------------------------------

#[test]
fn too_much_is_not_removed() {
    let desk = Desk::new();
    let source = web_source(&desk, Kind::Nginx, "all-json/");
    for n in 0..20 {
        put(&source.root, &format!("f{n:02}"), b"x", CHANGED_S);
    }
    source.mirrors(&desk, &[]);
    for n in 0..3 {
        fs::remove_file(source.root.join(format!("f{n:02}"))).unwrap();
    }
    let (report, said) = source.ends(&desk, 12, &["--delete"]);
    assert!(said.contains("3 of the 20 files here") && said.contains("--max-delete 10%"), "{said}");
    assert_eq!(count(&report, "deleted"), 0);
    source.ends(&desk, 12, &["--delete", "--max-delete", "2"]);
    assert_eq!(files(&desk.path("replica")).len(), 20);
    let report = source.mirrors(&desk, &["--delete", "--max-delete", "15%"]);
    assert_eq!(count(&report, "deleted"), 3, "{report}");
    // A source that is suddenly empty is broken, not empty.
    for n in 3..20 {
        fs::remove_file(source.root.join(format!("f{n:02}"))).unwrap();
    }
    let (_, said) = source.ends(&desk, 12, &["--delete", "--max-delete", "100%"]);
    assert!(said.contains("empty"), "{said}");
    assert_eq!(files(&desk.path("replica")).len(), 17);
}

#[test]
fn what_is_not_ours_is_never_removed_and_what_is_removed_can_be_kept() {
    let desk = Desk::new();
    let source = web_source(&desk, Kind::Nginx, "all-json/");
    plant(&source.root);
    source.mirrors(&desk, &[]);
    let replica = desk.path("replica");
    put(&replica, "other.stroll.part", b"somebody's", CHANGED_S);
    put(&replica, ".hidden", b"mine", CHANGED_S);
    put(&replica, "notes.txt", b"mine, and left out", CHANGED_S);
    let outside = desk.path("outside");
    put(&outside, "precious", b"precious", CHANGED_S);
    std::os::unix::fs::symlink(&outside, replica.join("link")).unwrap();
    fs::remove_file(source.root.join("sub/b.dat")).unwrap();
    let delete = ["--delete", "--max-delete", "50%", "--exclude", "*.txt"];
    // Before anything is pulled.
    put(&source.root, "new", b"new", CHANGED_S);
    let url = source.url.clone();
    let within = ["mirror", &url, "replica", "--backup-dir", "replica/old"];
    let output = desk.stroll(&[&within[..], &delete[..]].concat()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("backup-dir: replica/old is inside the mirror"), "{said}");
    assert!(!replica.join("new").exists());
    let report = source.mirrors(&desk, &[&delete[..], &["--backup-dir", "old"]].concat());
    assert_eq!(report["deleted"], serde_json::json!(["sub/b.dat"]), "{report}");
    assert_eq!(desk.read("old/sub/b.dat"), bytes_of("sub/b.dat"));
    for kept in ["other.stroll.part", ".hidden", "notes.txt", "link/precious"] {
        assert!(replica.join(kept).exists(), "{kept}");
    }
    let report = source.mirrors(&desk, &[&delete[..], &["--delete-excluded"]].concat());
    assert_eq!(report["deleted"], serde_json::json!(["notes.txt"]), "{report}");
}

#[test]
fn a_folder_that_cannot_be_listed_forbids_removing_anything() {
    use std::os::unix::fs::PermissionsExt as _;
    let desk = Desk::new();
    let source = ftp_source(&desk, ftpd::Kind::Vsftpd);
    plant(&source.root);
    source.mirrors(&desk, &[]);
    fs::remove_file(source.root.join("a.dat")).unwrap();
    fs::set_permissions(source.root.join("zoo"), fs::Permissions::from_mode(0o000)).unwrap();
    let (report, said) = source.ends(&desk, 6, &["--delete", "--max-delete", "100%", "--retries", "0"]);
    assert!(said.contains("nothing is removed") && said.contains("zoo/: cannot be listed"), "{said}");
    assert_eq!(count(&report, "deleted"), 0, "{report}");
    assert!(desk.path("replica/a.dat").exists() && desk.path("replica/zoo/e+f.dat").exists());
}

#[test]
fn what_was_a_file_and_is_a_folder_is_told_and_only_replaced_with_delete() {
    let desk = Desk::new();
    let source = web_source(&desk, Kind::Nginx, "all-json/");
    put(&source.root, "was-file", b"x", CHANGED_S);
    put(&source.root, "was-folder/f", b"x", CHANGED_S);
    source.mirrors(&desk, &[]);
    fs::remove_file(source.root.join("was-file")).unwrap();
    fs::remove_dir_all(source.root.join("was-folder")).unwrap();
    put(&source.root, "was-file/f", b"y", CHANGED_S);
    put(&source.root, "was-folder", b"y", CHANGED_S);
    let (_, said) = source.ends(&desk, 6, &[]);
    assert!(said.contains("was-file: ") && said.contains("not a folder"), "{said}");
    assert!(said.contains("was-folder: ") && said.contains("there is a folder of that name"), "{said}");
    assert_eq!(files(&desk.path("replica")), ["was-file", "was-folder/f"]);
    let report = source.mirrors(&desk, &["--delete", "--max-delete", "100%"]);
    assert_eq!((count(&report, "pulled"), count(&report, "deleted")), (2, 2), "{report}");
    same(&source.root, &desk.path("replica"));
}

// --- ends, locks, kills -----------------------------------------------------------------------------------------

#[test]
fn a_mirror_that_is_killed_in_the_middle_goes_on() {
    let desk = Desk::new();
    let source = web_source(&desk, Kind::Nginx, "all-json/");
    plant(&source.root);
    put(&source.root, "large", &noise(9, 3_000_000), CHANGED_S);
    let mut running = Running::start({
        let mut command = source.command(&desk, &["--progress", "json", "--bwlimit", "600k"]);
        command.arg("--quiet");
        command
    });
    while running.wait_for("opened")["size"] != 3_000_000 {}
    std::thread::sleep(Duration::from_secs(2));
    let (code, _, said) = source.run(&desk, &[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("another job is at work there"), "{said}");
    running.signal(Signal::KILL);
    running.end();
    let here = files(&desk.path("replica")).iter().filter(|path| !path.contains(".part")).count() as u64;
    let report = source.mirrors(&desk, &[]);
    assert_eq!(count(&report, "pulled"), TREE.len() as u64 + 1 - here, "{report}");
    assert!(report["totals"]["bytes"].as_u64().unwrap() < 3_000_000, "{report}");
    same(&source.root, &desk.path("replica"));
    assert_eq!(count(&source.mirrors(&desk, &[]), "pulled"), 0);
}

#[test]
fn the_end_tells_what_was_wrong() {
    let desk = Desk::new();
    let source = web_source(&desk, Kind::Nginx, "all-json/");
    let nowhere = source.url.replace("tree", "nowhere");
    for (url, target, code) in
        [(nowhere.as_str(), "replica", 3), (&source.url, "/", 1), ("gopher://x/", "replica", 2)]
    {
        let output = desk.stroll(&["mirror", url, target, "--retries", "0"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{url}: {said}");
    }
    for wrong in
        [&["--max-delete", "5"][..], &["--every", "1h", "--schedule", "@daily"], &["--order-by", "age"]]
    {
        source.ends(&desk, 2, wrong);
    }
}

#[test]
fn a_mirror_repeats_itself_until_it_is_stopped() {
    let desk = Desk::new();
    let source = web_source(&desk, Kind::Nginx, "all-json/");
    plant(&source.root);
    let mut running =
        Running::start(source.command(&desk, &["--progress", "json", "--every", "1s", "--json"]));
    for _ in 0..TREE.len() {
        running.wait_for("pulled");
    }
    put(&source.root, "later", b"later", CHANGED_S);
    running.wait_for("pulled");
    running.signal(Signal::TERM);
    let (code, said) = running.end();
    assert!(matches!(code, Some(0 | 1)), "{code:?} {said}");
    same(&source.root, &desk.path("replica"));
}

// --- verify -----------------------------------------------------------------------------------------------------

#[test]
fn verify_finds_what_was_changed_lost_or_added() {
    let desk = Desk::new();
    let source = web_source(&desk, Kind::Nginx, "all-json/");
    plant(&source.root);
    let verify =
        |args: &[&str]| report(desk.stroll(&[&["verify", "--json"], args].concat()).output().unwrap());
    fs::create_dir(desk.path("replica")).unwrap();
    let (code, _, said) = verify(&["replica"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("nothing is known of its files") && said.contains("--sums auto"), "{said}");
    assert_eq!(verify(&["nowhere"]).0, Some(3));
    source.mirrors(&desk, &[]);
    let (code, found, said) = verify(&["replica"]);
    assert_eq!((code, &found["result"]["ok"]), (Some(0), &Value::from(TREE.len())), "{found} {said}");

    let replica = desk.path("replica");
    let mut bytes = bytes_of("sub/b.dat");
    bytes[7] ^= 1;
    put(&replica, "sub/b.dat", &bytes, CHANGED_S + "sub/b.dat".len() as u64);
    fs::remove_file(replica.join("a.dat")).unwrap();
    put(&replica, "mine", b"mine", CHANGED_S);
    let (code, found, said) = verify(&["replica"]);
    assert_eq!(code, Some(11), "{said}");
    let of = |kind: &str| -> Vec<String> {
        let all = found["result"]["findings"].as_array().unwrap().iter();
        all.filter(|one| one["kind"] == kind).map(|one| one["path"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(
        (of("changed"), of("missing"), of("unknown")),
        (vec!["sub/b.dat".into()], vec!["a.dat".into()], vec!["mine".into()])
    );
}

#[test]
fn verify_uses_the_lists_in_the_tree() {
    let desk = Desk::new();
    let root = desk.path("data");
    let digest = |algorithm, bytes: &[u8]| {
        let mut hasher = Hasher::new(algorithm);
        hasher.update(bytes);
        hasher.finish().to_string().split_once(':').unwrap().1.to_owned()
    };
    put(&root, "a", b"a", CHANGED_S);
    put(&root, "sub/b", b"b", CHANGED_S);
    put(&root, "c", b"c", CHANGED_S);
    let list =
        format!("{}  a\n{}  sub/b\n", digest(Algorithm::Sha256, b"a"), digest(Algorithm::Sha256, b"b"));
    put(&root, "SHA256SUMS", list.as_bytes(), CHANGED_S);
    put(&root, "c.md5", digest(Algorithm::Md5, b"c").as_bytes(), CHANGED_S);
    let verify = || report(desk.stroll(&["verify", "--json", "--sums", "auto", "data"]).output().unwrap());
    let (code, found, said) = verify();
    assert_eq!((code, &found["result"]["ok"]), (Some(0), &Value::from(3)), "{found} {said}");
    put(&root, "sub/b", b"x", CHANGED_S);
    let (code, found, _) = verify();
    assert_eq!((code, &found["result"]["changed"]), (Some(11), &Value::from(1)), "{found}");
}

// --- mistakes -------------------------------------------------------------------------------------------------------

/// Each mistake of a newcomer, with the exit code and the words that help.
#[test]
fn mistakes_are_named_with_a_remedy() {
    let (web, desk) = (Web::start(Kind::Nginx), Desk::new());
    web.put("tree/f", b"bytes", 1_000);
    fs::write(desk.path("file"), "kept").unwrap();
    let (tree, file) = (web.http("tree/").to_string(), web.http("tree/f").to_string());
    for (args, code, words) in [
        (
            &[&*file, "replica"][..],
            3,
            format!("{file}: no such folder at the source; if it is a file, use `stroll get {file}`"),
        ),
        (&[&*tree, "file"], 3, "file: not a folder".to_owned()),
        (
            &[&*tree, "replica", "--state", "/dev/null/state"],
            2,
            "state: cannot make /dev/null/state".to_owned(),
        ),
    ] {
        let output = desk.stroll(&["mirror"]).args(args).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(&words), "{args:?}: {said}");
    }
    assert_eq!(desk.read("file"), b"kept");
}

// --- ages, and what is gone -----------------------------------------------------------------------------------------

/// Index pages of nginx tell no zone: a time near the limit must be asked for, and the others need not be.
#[test]
fn an_age_that_the_listing_does_not_tell_exactly_is_asked_for() {
    let desk = Desk::new();
    let source = web_source(&desk, Kind::Nginx, "");
    let Server::Web(web) = &source.server else { panic!("a web server") };
    let day = 86_400;
    for (name, age_s) in [("young", 0), ("near-young", 9 * day), ("near-old", 11 * day), ("old", 100 * day)] {
        web.put(&format!("tree/{name}"), name.as_bytes(), age_s);
    }
    let (code, report, said) = source.run(&desk, &["--max-age", "10d"]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(files(&desk.path("replica")), ["near-young", "young"]);
    assert_eq!((count(&report, "pulled"), count(&report, "excluded"), count(&report, "files")), (2, 2, 2));
    let requests = web.requests();
    let asked = |name: &str| requests.iter().filter(|line| line.contains(&format!("/tree/{name} "))).count();
    assert_eq!((asked("old"), asked("young")), (0, 1), "{requests:?}");
    assert_eq!(asked("near-old"), 1, "{requests:?}");
}

#[test]
fn what_is_gone_on_both_sides_is_forgotten_after_a_complete_run() {
    let desk = Desk::new();
    let source = web_source(&desk, Kind::Nginx, "");
    let Server::Web(web) = &source.server else { panic!("a web server") };
    for name in ["kept", "gone-there", "gone/on-both"] {
        web.put(&format!("tree/{name}"), name.as_bytes(), 1_000);
    }
    assert_eq!(source.run(&desk, &[]).0, Some(0));
    let remembered = || {
        let manifest =
            Manifest::open(&desk.home().join(".local/state/stroll"), &desk.path("replica")).unwrap();
        let mut names = Vec::new();
        manifest
            .for_each(|path, _| {
                names.push(path.to_owned());
                true
            })
            .unwrap();
        names
    };
    assert_eq!(remembered(), ["gone-there", "gone/on-both", "kept"]);
    for name in ["gone-there", "gone/on-both"] {
        fs::remove_file(web.path("tree").join(name)).unwrap();
    }
    fs::remove_dir(web.path("tree/gone")).unwrap();
    fs::remove_dir_all(desk.path("replica/gone")).unwrap();
    // Not complete: one file cannot be had.
    std::os::unix::fs::symlink("nowhere", web.path("tree/broken")).unwrap();
    assert_ne!(source.run(&desk, &["--retries", "0"]).0, Some(0));
    assert_eq!(remembered().len(), 3, "who knows what else is there");
    fs::remove_file(web.path("tree/broken")).unwrap();
    assert_eq!(source.run(&desk, &[]).0, Some(0));
    assert_eq!(remembered(), ["gone-there", "kept"], "what is here is still known");
}
