//! `stroll get` as people use it, against real servers: where files go, what is checked, what is said, how it ends.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]
#![allow(clippy::disallowed_methods, reason = "these tests are about real time")]

#[path = "common/desk.rs"]
mod desk;
#[path = "common/ftpd.rs"]
mod ftpd;
#[path = "common/web.rs"]
mod web;

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use desk::{Desk, noise};
use ftpd::Ftpd;
use rustix::process::Signal;
use serde_json::Value;
use stroll::fetch::sink::{Algorithm, Hasher};
use web::{Kind, Web};

const MIB: usize = 1 << 20;

fn url(web: &Web, path: &str) -> String {
    web.http(path).to_string()
}

fn digest(algorithm: Algorithm, bytes: &[u8]) -> String {
    let mut hasher = Hasher::new(algorithm);
    hasher.update(bytes);
    hasher.finish().to_string()
}

fn hex(algorithm: Algorithm, bytes: &[u8]) -> String {
    digest(algorithm, bytes).split_once(':').unwrap().1.to_owned()
}

/// Users and passwords for a server of the harness.
fn ftp_login(desk: &Desk, server: &Ftpd, password: &str) -> Vec<String> {
    let user = if server.kind == ftpd::Kind::Vsftpd { "anonymous" } else { "ada" };
    let file = desk.private("password", &format!("{password}\n"));
    ["--user", user, "--password-file", file.to_str().unwrap(), "--ftp-tls", "off"].map(str::to_owned).into()
}

fn words<'a>(first: &'a [String], rest: &[&'a str]) -> Vec<&'a str> {
    first.iter().map(String::as_str).chain(rest.iter().copied()).collect()
}

// --- where files go ---------------------------------------------------------------------------------------------

#[test]
fn one_file_is_here_whole_under_its_name_with_the_time_of_the_original() {
    for kind in [Kind::Nginx, Kind::Lighttpd, Kind::Apache] {
        let (web, desk, bytes) = (Web::start(kind), Desk::new(), noise(1, MIB + 7));
        web.put("frame.gwf", &bytes, 86_400);
        let said = desk.pulls(&[&url(&web, "frame.gwf")]);
        assert!(said.contains("1 file pulled"), "{said}");
        assert_eq!(desk.read("frame.gwf"), bytes, "{kind:?}");
        assert_eq!(desk.files(), ["frame.gwf"], "nothing else is left");
        let age = fs::metadata(desk.path("frame.gwf")).unwrap().modified().unwrap().elapsed().unwrap();
        assert!(age.as_secs().abs_diff(86_400) < 600, "{age:?} old");
    }
}

#[test]
fn a_file_comes_from_ftp_and_from_tls() {
    let (bytes, desk) = (noise(2, 300_000), Desk::new());
    for kind in [ftpd::Kind::Vsftpd, ftpd::Kind::Proftpd] {
        let server = Ftpd::start(kind);
        server.put("pub/f.dat", &bytes, 1_600_000_000);
        let (login, address) = (ftp_login(&desk, &server, "right"), server.address("pub/f.dat").to_string());
        let name = format!("{kind:?}");
        desk.pulls(&words(&login, &[&address, "-o", &name]));
        assert_eq!(desk.read(&name), bytes);
        assert_eq!(fs::metadata(desk.path(&name)).unwrap().mtime(), 1_600_000_000);
    }
    let web = Web::start(Kind::Nginx);
    web.put("f.dat", &bytes, 100);
    let (address, authority) = (web.https("f.dat").to_string(), web.certificate());
    desk.pulls(&[&address, "-o", "by-tls", "--ca-file", authority.to_str().unwrap()]);
    assert_eq!(desk.read("by-tls"), bytes);
    let said = desk.fails(7, &[&address, "-o", "untrusted", "--retries", "0"]);
    assert!(said.contains("no secure connection") && said.contains("--ca-file"), "{said}");
}

#[test]
#[ignore = "needs root: pure-ftpd does not start without"]
fn a_file_comes_from_pure_ftpd() {
    let (bytes, desk, server) = (noise(2, 300_000), Desk::new(), Ftpd::start(ftpd::Kind::PureFtpd));
    server.put("pub/f.dat", &bytes, 1_600_000_000);
    let (login, address) = (ftp_login(&desk, &server, "right"), server.address("pub/f.dat").to_string());
    desk.pulls(&words(&login, &[&address]));
    assert_eq!(desk.read("f.dat"), bytes);
}

#[test]
fn several_files_go_into_a_folder_that_is_made() {
    let (web, desk) = (Web::start(Kind::Nginx), Desk::new());
    for name in ["a", "b", "c", "d"] {
        web.put(name, name.repeat(1_000).as_bytes(), 100);
    }
    fs::write(
        desk.path("list"),
        format!("# remarks and blanks\n\n{}\n  {}\n", url(&web, "b"), url(&web, "c")),
    )
    .unwrap();
    desk.pulls(&[&url(&web, "a"), &url(&web, "a"), "-i", "list", "-o", "replicas/deep/"]);
    assert_eq!(desk.files(), ["list", "replicas/deep/a", "replicas/deep/b", "replicas/deep/c"]);
    assert_eq!(desk.read("replicas/deep/c"), "c".repeat(1_000).as_bytes());

    let mut child = desk.command(&["-i", "-", "-o", "piped/"]).stdin(Stdio::piped()).spawn().unwrap();
    writeln!(child.stdin.take().unwrap(), "{}\n{}", url(&web, "c"), url(&web, "d")).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(desk.read("piped/d"), "d".repeat(1_000).as_bytes());
}

#[test]
fn many_small_files_come_over_several_connections() {
    let (web, desk) = (Web::start(Kind::Nginx), Desk::new());
    let names: Vec<String> = (0..60).map(|n| format!("f{n}")).collect();
    for name in &names {
        web.put(name, name.repeat(100).as_bytes(), 100);
    }
    let urls: Vec<String> = names.iter().map(|name| url(&web, name)).collect();
    let args: Vec<&str> =
        urls.iter().map(String::as_str).chain(["--connections", "4", "-o", "all/"]).collect();
    desk.pulls(&args);
    for name in &names {
        assert_eq!(desk.read(&format!("all/{name}")), name.repeat(100).as_bytes());
    }
}

#[test]
fn output_is_a_file_a_folder_or_standard_output() {
    let (web, desk, bytes) = (Web::start(Kind::Nginx), Desk::new(), noise(3, 200_000));
    web.put("f", &bytes, 100);
    desk.pulls(&[&url(&web, "f"), "-o", "named.dat"]);
    fs::create_dir(desk.path("folder")).unwrap();
    desk.pulls(&[&url(&web, "f"), "-o", "folder"]);
    assert_eq!(desk.files(), ["folder/f", "named.dat"]);
    let output = desk.get(&[&url(&web, "f"), "-o", "-"]);
    assert!(output.status.success());
    assert_eq!(output.stdout, bytes);
    web.put("g", b"and more", 100);
    let both = desk.get(&[&url(&web, "f"), &url(&web, "g"), "-o", "-"]);
    assert_eq!(both.stdout, [bytes.as_slice(), b"and more"].concat(), "one after the other");
}

/// Each file was written by a thread of its own, so the second could overtake what a slow reader had not yet taken of the
/// first.
#[test]
fn files_for_a_slow_reader_come_one_after_the_other() {
    let (web, desk, bytes) = (Web::start(Kind::Nginx), Desk::new(), noise(44, 900_000));
    web.put("f", &bytes, 100);
    web.put("g", b"and more", 100);
    let mut child = desk
        .command(&[&url(&web, "f"), &url(&web, "g"), "-o", "-"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let (mut came, mut some) = (Vec::new(), [0; 10_000]);
    loop {
        std::thread::sleep(Duration::from_millis(20));
        let count = std::io::Read::read(&mut stdout, &mut some).unwrap();
        if count == 0 {
            break;
        }
        came.extend_from_slice(&some[..count]);
    }
    assert!(child.wait().unwrap().success());
    assert!(came == [bytes.as_slice(), b"and more"].concat(), "one after the other");
}

#[test]
fn who_has_read_enough_of_standard_output_is_no_error() {
    let (web, desk) = (Web::start(Kind::Nginx), Desk::new());
    web.put("f", &noise(4, 20 * MIB), 100);
    let mut child = desk
        .command(&[&url(&web, "f"), "-o", "-"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut some = [0; 1_000];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut some).unwrap();
    drop(child.stdout.take());
    let begun = Instant::now();
    let output = child.wait_with_output().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(60), "it went on without a reader");
    assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"), "{output:?}");
}

#[test]
fn names_that_lead_elsewhere_are_refused_before_anything_is_asked() {
    let (web, desk) = (Web::start(Kind::Nginx), Desk::new());
    for path in ["%2e%2e%2fescaped", "a%00b", "a%0d%0ab", "%2e%2e", "folder/", ""] {
        let address = format!("{}{path}", web.http(""));
        let said = desk.fails(2, &[&address]);
        assert!(said.len() < 600, "{path}: {said}");
    }
    for name in ["x\u{202e}y", "x.stroll.part"] {
        let output = desk.get(&[&url(&web, "f"), "-o", name]);
        assert!(!output.status.success(), "{name}");
    }
    let long = "x".repeat(300);
    let said = desk.fails(2, &[&url(&web, &long)]);
    assert!(said.contains("--output"), "{said}");
    desk.fails(2, &[&url(&web, "f"), "-o", &long]);
    let two = desk.fails(2, &[&url(&web, "a/f"), &url(&web, "b/f")]);
    assert!(two.contains("both become f"), "{two}");
    assert!(desk.files().is_empty(), "{:?}", desk.files());
    assert!(web.requests().is_empty(), "{:?}", web.requests());
}

#[test]
fn every_name_that_the_disk_can_hold_is_kept_as_it_is() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let (web, desk) = (Web::start(Kind::Nginx), Desk::new());
    let long = "x".repeat(255);
    let names: [(&str, &[u8]); 8] = [
        ("caf%E9.dat", b"caf\xe9.dat"),
        ("12:00:00.gwf", b"12:00:00.gwf"),
        ("12%3A01.gwf", b"12:01.gwf"),
        ("back%5Cslash", b"back\\slash"),
        ("dots...", b"dots..."),
        ("%20blanks%20", b" blanks "),
        ("half.part", b"half.part"),
        (&long, long.as_bytes()),
    ];
    for (_, name) in names {
        fs::write(web.root().join(OsStr::from_bytes(name)), name).unwrap();
    }
    let urls: Vec<String> = names.iter().map(|(path, _)| format!("{}{path}", web.http(""))).collect();
    let all: Vec<&str> = urls.iter().map(String::as_str).chain(["-o", "got/"]).collect();
    desk.pulls(&all);
    for (_, name) in names {
        let got = fs::read(desk.path("got").join(OsStr::from_bytes(name))).unwrap();
        assert_eq!(got, name, "{name:?}");
    }
    assert!(desk.pulls(&all).contains("8 up to date"));
    let odd = OsStr::from_bytes(b"out:\xff.");
    let output = desk.command(&[&urls[0], "-o"]).arg(odd).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fs::read(desk.path("").join(odd)).unwrap(), b"caf\xe9.dat");
}

#[test]
fn a_folder_is_not_a_file_and_the_message_says_what_copies_it() {
    let (web, desk) = (Web::start(Kind::Nginx), Desk::new());
    web.put("folder/f", b"f", 100);
    let said = desk.fails(2, &[&url(&web, "folder/")]);
    assert!(said.contains("stroll mirror") && said.contains("--output"), "{said}");
    let said = desk.fails(7, &[&url(&web, "folder")]);
    assert!(said.contains("stroll mirror"), "{said}");
    assert!(desk.files().is_empty(), "{:?}", desk.files());
}

#[test]
fn what_is_in_the_way_stays_and_is_named() {
    let (web, desk) = (Web::start(Kind::Nginx), Desk::new());
    web.put("f", b"new", 100);
    fs::create_dir_all(desk.path("here/f")).unwrap();
    fs::write(desk.path("here/f/kept"), "kept").unwrap();
    let said = desk.fails(1, &[&url(&web, "f"), "-o", "here"]);
    assert!(said.contains("there is a folder of that name"), "{said}");
    assert_eq!(desk.files(), ["here/f/kept"]);

    fs::write(desk.path("file"), "kept").unwrap();
    desk.fails(3, &[&url(&web, "f"), "-o", "file/"]);
    desk.fails(2, &[&url(&web, "f"), &url(&web, "g"), "-o", "file"]);
    assert_eq!(desk.read("file"), b"kept");

    fs::write(desk.path("target"), "kept").unwrap();
    std::os::unix::fs::symlink(desk.path("target"), desk.path("f.stroll.part")).unwrap();
    let said = desk.fails(1, &[&url(&web, "f")]);
    assert!(said.contains("in the way"), "{said}");
    assert_eq!(desk.read("target"), b"kept");
}

/// Two files went into a new folder of that name, which looks like a file.
#[test]
fn several_files_go_into_a_folder_only_if_it_is_one_or_ends_in_a_slash() {
    let (web, desk) = (Web::start(Kind::Nginx), Desk::new());
    let urls = ["f", "g"].map(|name| {
        web.put(name, b"bytes", 1_000);
        url(&web, name)
    });
    let said = desk.fails(2, &[&urls[0], &urls[1], "-o", "out.bin"]);
    assert!(said.contains("--output out.bin/"), "{said}");
    assert!(desk.files().is_empty());
    desk.pulls(&[&urls[0], &urls[1], "-o", "new/"]);
    fs::create_dir(desk.path("old")).unwrap();
    desk.pulls(&[&urls[0], &urls[1], "-o", "old"]);
    assert_eq!(desk.files(), ["new/f", "new/g", "old/f", "old/g"]);
}

/// Nothing was said, and at the end it was promised that the next run would go on.
#[test]
fn a_state_folder_that_cannot_be_written_is_told_and_no_resuming_is_promised() {
    let (web, desk) = (Web::start(Kind::Nginx), Desk::new());
    web.put("f", &noise(6, 4 * MIB), 1_000);
    let said = desk.fails(2, &[&url(&web, "f"), "--state", "/dev/null/state"]);
    assert!(said.contains("state: cannot make /dev/null/state: /dev/null: not a folder"), "{said}");
    let get = |flags: &[&str]| {
        let mut command = desk.command(&[&url(&web, "f"), "--bwlimit", "100k", "--max-duration", "1s"]);
        let output = command.args(flags).env("XDG_STATE_HOME", "/dev/null").output().unwrap();
        assert_eq!(output.status.code(), Some(10));
        String::from_utf8(output.stderr).unwrap()
    };
    let said = get(&[]);
    assert!(said.contains("nothing can be remembered") && said.contains("--state"), "{said}");
    assert!(said.contains("starts from the beginning") && !said.contains("goes on"), "{said}");
    assert!(get(&["--no-resume"]).contains("starts from the beginning"));
    assert!(get(&["--state", "state"]).contains("goes on where this one ended"));
}

#[test]
fn the_only_file_is_named_by_its_address() {
    let (web, desk) = (Web::start(Kind::Nginx), Desk::new());
    let address = url(&web, "absent");
    let said = desk.fails(4, &[&address]);
    assert!(said.contains(&format!("stroll: {address}: not found")), "{said}");
    assert!(said.contains("0 files pulled, 1 failed in"), "no rate of nothing: {said}");
}

#[test]
fn a_refused_login_says_where_logins_are_put() {
    let (web, desk) = (Web::start(Kind::Nginx), Desk::new());
    let said = desk.fails(7, &[&url(&web, "private/f")]);
    assert!(said.contains("wants a login: HTTP 401 Unauthorized; put user and password into"), "{said}");
    assert!(said.contains("~/.netrc") && said.contains("--user with --password-file"), "{said}");

    let server = Ftpd::start(ftpd::Kind::Proftpd);
    server.put("pub/f.dat", b"bytes", 1_600_000_000);
    let (login, address) = (ftp_login(&desk, &server, "wrong"), server.address("pub/f.dat").to_string());
    let said = desk.fails(7, &words(&login, &[&address, "--retries", "0"]));
    assert!(said.contains("another login than that of ada: 530") && said.contains("~/.netrc"), "{said}");
}

#[test]
fn a_folder_at_an_ftp_server_is_told_with_the_command_that_copies_it() {
    let desk = Desk::new();
    for kind in [ftpd::Kind::Vsftpd, ftpd::Kind::Proftpd] {
        let server = Ftpd::start(kind);
        server.put("pub/deep/f.dat", b"bytes", 1_600_000_000);
        let (login, address) = (ftp_login(&desk, &server, "right"), server.address("pub/deep").to_string());
        let output = desk.get(&words(&login, &[&address, "--retries", "0"]));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains("`stroll mirror`"), "{kind:?}: {said}");
    }
}

/// It stopped every download.
#[test]
fn a_netrc_that_others_can_read_stops_only_downloads_that_need_it() {
    let (web, desk) = (Web::start(Kind::Nginx), Desk::new());
    web.put("f", b"for everybody", 1_000);
    let netrc = |host: &str| {
        let path = desk.private(".netrc", &format!("machine {host} login ada password secret\n"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        path
    };
    netrc("data.example.org");
    desk.pulls(&[&url(&web, "f")]);
    let path = netrc("127.0.0.1");
    let said = desk.fails(1, &[&url(&web, "f"), "-o", "again"]);
    assert!(said.contains(&format!("chmod 600 {}", path.display())), "{said}");
}

#[test]
fn a_folder_that_cannot_be_written_to_is_named() {
    let (web, desk) = (Web::start(Kind::Nginx), Desk::new());
    web.put("f", b"new", 100);
    // Nobody may make anything there, not even root.
    let output = desk.get(&[&url(&web, "f"), "-o", "/proc/stroll/"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("/proc/stroll"), "{said}");
    if !ftpd::is_root() {
        fs::create_dir(desk.path("shut")).unwrap();
        fs::set_permissions(desk.path("shut"), fs::Permissions::from_mode(0o500)).unwrap();
        assert!(desk.fails(1, &[&url(&web, "f"), "-o", "shut"]).contains("no permission"));
    }
}

// --- what is checked --------------------------------------------------------------------------------------------

#[test]
fn a_checksum_decides_whether_there_is_a_file_at_all() {
    let (web, desk, bytes) = (Web::start(Kind::Nginx), Desk::new(), noise(5, 100_000));
    web.put("f", &bytes, 100);
    for algorithm in [Algorithm::Sha256, Algorithm::Sha512, Algorithm::Md5, Algorithm::Blake3] {
        let right = digest(algorithm, &bytes);
        desk.pulls(&[&url(&web, "f"), "--checksum", &right, "-o", &format!("{algorithm:?}")]);
        let wrong = digest(algorithm, b"something else");
        let said = desk.fails(11, &[&url(&web, "f"), "--checksum", &wrong, "-o", "wrong"]);
        assert!(said.contains("checksum") && said.contains(&wrong), "{said}");
    }
    assert_eq!(desk.files(), ["Blake3", "Md5", "Sha256", "Sha512"]);
    desk.fails(2, &[&url(&web, "f"), "--checksum", "sha256:12"]);
    desk.fails(2, &[&url(&web, "f"), &url(&web, "g"), "--checksum", &digest(Algorithm::Md5, b"")]);
    let output = desk.get(&[&url(&web, "f"), "-o", "-", "--checksum", &digest(Algorithm::Md5, b"")]);
    assert_eq!(output.status.code(), Some(11), "too late, but said");
}

#[test]
fn lists_of_checksums_beside_the_files_are_used_when_asked_for() {
    let (web, desk) = (Web::start(Kind::Nginx), Desk::new());
    web.put("right", b"right", 100);
    web.put("wrong", b"wrong", 100);
    web.put("single", b"single", 100);
    web.put("unlisted", b"unlisted", 100);
    let right = hex(Algorithm::Sha256, b"right");
    web.put("SHA256SUMS", format!("{right}  right\n{right}  wrong\n").as_bytes(), 100);
    web.put("single.md5", format!("{}  single\n", hex(Algorithm::Md5, b"other")).as_bytes(), 100);
    let urls = ["right", "wrong", "single", "unlisted"].map(|name| url(&web, name));
    let mut args: Vec<&str> = urls.iter().map(String::as_str).collect();
    args.extend(["--sums", "auto", "-o", "got/"]);
    let said = desk.fails(6, &args);
    assert!(said.contains("wrong: ") && said.contains("single: "), "{said}");
    assert_eq!(desk.files(), ["got/right", "got/unlisted"]);
    desk.pulls(&[&url(&web, "wrong"), "-o", "got/"]);
}

/// Other bytes, same size, same time: a disk that forgot, or somebody who was careful.
fn damage(desk: &Desk, name: &str) {
    let path = desk.path(name);
    let (mut bytes, was) = (fs::read(&path).unwrap(), fs::metadata(&path).unwrap().modified().unwrap());
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).unwrap();
    File::options().write(true).open(&path).unwrap().set_modified(was).unwrap();
}

#[test]
fn a_file_that_is_here_is_believed_only_if_its_checksum_is_right() {
    let (web, desk, bytes) = (Web::start(Kind::Nginx), Desk::new(), noise(6, 700_000));
    web.put("f", &bytes, 1_000);
    web.put("SHA256SUMS", format!("{}  f\n", hex(Algorithm::Sha256, &bytes)).as_bytes(), 1_000);
    let (address, right) = (url(&web, "f"), digest(Algorithm::Sha256, &bytes));
    desk.pulls(&[&address]);
    for check in [["--checksum", &right], ["--sums", "auto"]] {
        damage(&desk, "f");
        assert!(desk.pulls(&[&address]).contains("1 up to date"), "by size and time");
        desk.pulls(&[&[address.as_str()], &check[..]].concat());
        assert!(desk.read("f") == bytes, "the bytes differ: {check:?}");
        let said = desk.pulls(&[&[address.as_str()], &check[..]].concat());
        assert!(said.contains("1 up to date"), "{said}");
    }
    // The right bytes are not pulled again because somebody has touched them.
    File::options().write(true).open(desk.path("f")).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    assert!(desk.pulls(&[&address, "--checksum", &right]).contains("1 up to date"));
    // Neither here nor there: what is here is left alone.
    damage(&desk, "f");
    let damaged = desk.read("f");
    web.put("f", &noise(7, 700_000), 1_000);
    assert!(desk.fails(11, &[&address, "--checksum", &right]).contains("checksum"));
    assert!(desk.read("f") == damaged);
    assert_eq!(desk.files(), ["f"]);
}

#[test]
fn what_is_here_already_is_not_pulled_again_and_what_has_changed_is() {
    let (web, desk) = (Web::start(Kind::Nginx), Desk::new());
    web.put("f", b"the first", 1_000);
    desk.pulls(&[&url(&web, "f")]);
    let said = desk.pulls(&[&url(&web, "f")]);
    assert!(said.contains("1 up to date"), "{said}");
    let gets = |web: &Web| web.requests().iter().filter(|line| line.starts_with("GET")).count();
    assert_eq!(gets(&web), 1, "{:?}", web.requests());
    web.put("f", b"the other", 500);
    desk.pulls(&[&url(&web, "f")]);
    assert_eq!(desk.read("f"), b"the other");
    assert_eq!(gets(&web), 2);
}

#[test]
fn times_are_left_alone_when_asked() {
    let (web, desk) = (Web::start(Kind::Nginx), Desk::new());
    web.put("f", b"old", 1_000_000);
    desk.pulls(&[&url(&web, "f"), "--no-times"]);
    let age = fs::metadata(desk.path("f")).unwrap().modified().unwrap().elapsed().unwrap();
    assert!(age < Duration::from_secs(1_000), "{age:?}");
}

// --- going on ---------------------------------------------------------------------------------------------------

/// Interrupts a pull in the middle; gives the exit code and what was said.
fn interrupted(desk: &Desk, args: &[&str]) -> (Option<i32>, String) {
    let mut all = vec!["--bwlimit", "400k"];
    all.extend_from_slice(args);
    let mut running = desk.start(&all);
    running.wait_for("opened");
    std::thread::sleep(Duration::from_millis(1_200));
    running.signal(Signal::INT);
    running.end()
}

/// The first byte of the last range that was asked for.
fn last_from(web: &Web) -> u64 {
    let line = web.requests().into_iter().rfind(|line| line.starts_with("GET")).unwrap();
    let range = line.split_once("bytes=").map(|(_, range)| range.split('-').next().unwrap().to_owned());
    range.map_or(0, |from| from.parse().unwrap())
}

#[test]
fn an_interrupted_pull_goes_on_where_it_ended() {
    let (web, desk, bytes) = (Web::start(Kind::Nginx), Desk::new(), noise(6, 4 * MIB));
    web.put("f", &bytes, 1_000);
    let (code, said) = interrupted(&desk, &[&url(&web, "f")]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("interrupted; the same command goes on"), "{said}");
    assert_eq!(desk.files(), ["f.stroll.part"]);
    desk.pulls(&[&url(&web, "f")]);
    assert_eq!(desk.read("f"), bytes);
    assert_eq!(desk.files(), ["f"]);
    assert!(last_from(&web) > 60_000, "{:?}", web.requests());
}

#[test]
fn an_interrupted_ftp_pull_goes_on_and_a_changed_file_begins_anew() {
    let (desk, bytes) = (Desk::new(), noise(7, 4 * MIB));
    let server = Ftpd::start(ftpd::Kind::Vsftpd);
    server.put("f", &bytes, 1_600_000_000);
    server.put("g", &bytes, 1_600_000_000);
    let login = ftp_login(&desk, &server, "right");
    for name in ["f", "g"] {
        let address = server.address(name).to_string();
        let (code, said) = interrupted(&desk, &words(&login, &[&address]));
        assert_eq!(code, Some(1), "{said}");
    }
    let address = server.address("f").to_string();
    let report = desk.json(&words(&login, &[&address]));
    let came = report["totals"]["bytes"].as_u64().unwrap();
    assert!(came < 4 * MIB as u64 - 60_000, "{came} bytes came again");
    assert_eq!(desk.read("f"), bytes);
    // Of the same size, and another one.
    let other = noise(8, 4 * MIB);
    server.put("g", &other, 1_600_000_001);
    let address = server.address("g").to_string();
    let report = desk.json(&words(&login, &[&address]));
    assert_eq!(report["totals"]["bytes"], 4 * MIB as u64);
    assert_eq!(desk.read("g"), other);
}

#[test]
fn a_file_that_changed_between_two_runs_begins_anew() {
    let (web, desk) = (Web::start(Kind::Nginx), Desk::new());
    web.put("f", &noise(9, 4 * MIB), 1_000);
    interrupted(&desk, &[&url(&web, "f")]);
    let other = noise(10, 4 * MIB);
    web.put("f", &other, 500);
    let said = desk.pulls(&[&url(&web, "f")]);
    assert!(said.contains("starts anew"), "{said}");
    assert_eq!(desk.read("f"), other);
}

#[test]
fn no_resume_begins_at_the_beginning() {
    let (web, desk, bytes) = (Web::start(Kind::Nginx), Desk::new(), noise(11, 4 * MIB));
    web.put("f", &bytes, 1_000);
    interrupted(&desk, &[&url(&web, "f")]);
    desk.pulls(&[&url(&web, "f"), "--no-resume"]);
    assert_eq!(desk.read("f"), bytes);
    assert_eq!(last_from(&web), 0);
}

#[test]
fn out_of_time_is_exit_code_10_and_the_same_command_goes_on() {
    let (web, desk, bytes) = (Web::start(Kind::Nginx), Desk::new(), noise(12, 4 * MIB));
    web.put("f", &bytes, 1_000);
    let said = desk.fails(10, &[&url(&web, "f"), "--bwlimit", "300k", "--max-duration", "2s"]);
    assert!(said.contains("out of time"), "{said}");
    desk.pulls(&[&url(&web, "f")]);
    assert_eq!(desk.read("f"), bytes);
}

#[test]
fn two_processes_never_pull_one_file() {
    let (web, desk, bytes) = (Web::start(Kind::Nginx), Desk::new(), noise(13, 3 * MIB));
    web.put("f", &bytes, 1_000);
    let address = url(&web, "f");
    let mut first = desk.start(&["--bwlimit", "500k", &address]);
    first.wait_for("opened");
    let said = desk.fails(1, &[&address]);
    assert!(said.contains("another process is pulling this file"), "{said}");
    let (code, said) = first.end();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(desk.read("f"), bytes);
}

#[test]
fn several_connections_pull_one_file() {
    let (web, desk, bytes) = (Web::start(Kind::Nginx), Desk::new(), noise(14, 40 * MIB));
    web.put("f", &bytes, 1_000);
    desk.pulls(&[&url(&web, "f"), "--connections", "4"]);
    assert!(desk.read("f") == bytes, "the bytes differ");
    let ranges = web.requests().iter().filter(|line| line.contains(" 206 ")).count();
    assert!(ranges >= 3, "{:?}", web.requests());
}

#[test]
fn a_limit_is_kept() {
    let (web, desk) = (Web::start(Kind::Nginx), Desk::new());
    web.put("f", &noise(15, MIB), 1_000);
    let begun = Instant::now();
    desk.pulls(&[&url(&web, "f"), "--bwlimit", "512k"]);
    assert!(begun.elapsed() >= Duration::from_millis(1_700), "{:?}", begun.elapsed());
}

// --- what is said -----------------------------------------------------------------------------------------------

#[test]
fn a_dry_run_writes_nothing() {
    let (web, desk) = (Web::start(Kind::Nginx), Desk::new());
    web.put("f", &[7; 3_000], 1_000);
    let output = desk.get(&["-n", &url(&web, "f"), "-o", "there/"]);
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && told.contains("-> there/f"), "{told}");
    let plan = desk.json(&["-n", &url(&web, "f")]);
    assert_eq!(plan["files"][0]["result"], "planned");
    assert_eq!(plan["files"][0]["size"], 3_000);
    assert!(desk.files().is_empty() && !desk.path("there").exists());
    desk.fails(4, &["-n", &url(&web, "absent")]);
}

#[test]
fn json_says_what_became_of_every_file() {
    let (web, desk) = (Web::start(Kind::Nginx), Desk::new());
    web.put("f", b"some bytes", 1_000);
    let report = desk.json(&[&url(&web, "f"), &url(&web, "absent"), "-o", "got/"]);
    assert_eq!(report["version"], 1);
    let files = report["files"].as_array().unwrap();
    assert_eq!(files[0]["result"], "pulled");
    assert_eq!(files[0]["path"], "got/f");
    assert_eq!(files[0]["url"], url(&web, "f"));
    assert_eq!(files[0]["size"], 10);
    assert_eq!(files[0]["sha256"], hex(Algorithm::Sha256, b"some bytes"));
    assert_eq!(files[1]["result"], "failed");
    assert!(files[1]["error"].as_str().unwrap().contains("not found"));
    for field in ["bytes", "elapsed_s", "waited_s", "paused_s", "slots", "cuts"] {
        assert!(report["totals"][field].is_number(), "{field}");
    }
    let report = desk.json(&[&url(&web, "f"), "-o", "got"]);
    assert_eq!(report["files"][0]["result"], "up_to_date");
}

#[test]
fn progress_as_json_is_a_line_for_everything_that_happens() {
    let (web, desk) = (Web::start(Kind::Nginx), Desk::new());
    web.put("f", b"some bytes", 1_000);
    let output = desk.get(&[&url(&web, "f"), "--progress", "json", "-q"]);
    let said = String::from_utf8(output.stderr).unwrap();
    let events: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let names: Vec<&str> = events.iter().filter_map(|event| event["event"].as_str()).collect();
    assert_eq!(names, ["slot", "began", "opened", "slot_ended", "pulled"]);
}

#[test]
fn quiet_says_only_what_is_wrong() {
    let (web, desk) = (Web::start(Kind::Nginx), Desk::new());
    web.put("f", b"some bytes", 1_000);
    assert_eq!(desk.pulls(&[&url(&web, "f"), "-q"]), "");
    let said = desk.fails(6, &[&url(&web, "f"), &url(&web, "absent"), "-q", "-o", "got/"]);
    assert!(said.contains("absent: not found"), "which of them? {said}");
}

#[test]
fn exit_codes_say_what_is_wrong() {
    let (web, desk) = (Web::start(Kind::Nginx), Desk::new());
    web.put("f", b"some bytes", 1_000);
    for wrong in [
        &[][..],
        &["gopher://example.org/x"],
        &["not an address"],
        &["http://127.0.0.1:1/x", "--bwlimit", "fast"],
        &["http://127.0.0.1:1/x", "--connections", "0"],
        &["http://127.0.0.1:1/x", "--chunk", "0"],
        &["http://127.0.0.1:1/x", "--user", "ada"],
        &["http://127.0.0.1:1/x", "--nonsense"],
        &["http://127.0.0.1:1/x", "--circle", "none"],
    ] {
        desk.fails(2, wrong);
    }
    desk.fails(4, &[&url(&web, "absent")]);
    desk.fails(4, &["-i", "no-such-list"]);
    desk.fails(5, &[&url(&web, "busy/f"), "--retries", "0"]);
    desk.fails(5, &["http://127.0.0.1:1/x", "--retries", "0"]);
    desk.fails(6, &[&url(&web, "f"), &url(&web, "absent"), "-o", "got/"]);
    desk.fails(7, &[&url(&web, "private/f")]);
}

#[test]
fn a_source_that_is_busy_is_left_alone_and_asked_again() {
    let (web, desk) = (Web::start(Kind::Nginx), Desk::new());
    let said = desk.fails(5, &[&url(&web, "busy/f"), "--retries", "2", "--refusal-wait", "300ms"]);
    assert_eq!(said.matches("trying again").count(), 2, "{said}");
    assert_eq!(web.requests().iter().filter(|line| line.contains(" 503 ")).count(), 3);
}

// --- who we are -------------------------------------------------------------------------------------------------

#[test]
fn passwords_come_from_files_and_commands_and_are_never_shown() {
    let (web, desk) = (Web::start(Kind::Nginx), Desk::new());
    web.put("private/f", b"not for everybody", 1_000);
    let (address, host) = (url(&web, "private/f"), "127.0.0.1");
    let password = desk.private("password", &format!("{}\n", web::PASSWORD));
    let netrc =
        desk.private("my-netrc", &format!("machine {host} login {} password {}\n", web::USER, web::PASSWORD));
    let wrong = desk.private("wrong", "someth1ng-else\n");
    let in_url = address.replace("://", &format!("://{}:{}@", web::USER, web::PASSWORD));
    let (password, netrc, wrong) =
        (password.to_str().unwrap(), netrc.to_str().unwrap(), wrong.to_str().unwrap());
    let command = format!("cat {password}");
    let ways: [&[&str]; 4] = [
        &[&address, "--user", web::USER, "--password-file", password],
        &[&address, "--user", web::USER, "--password-command", &command],
        &[&address, "--netrc-file", netrc],
        &[&in_url],
    ];
    for (number, way) in ways.into_iter().enumerate() {
        let name = number.to_string();
        let args: Vec<&str> =
            way.iter().copied().chain(["-vv", "--json", "--progress", "json", "-o", &name]).collect();
        let output = desk.get(&args);
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        assert!(output.status.success(), "{said}");
        assert!(!said.contains(web::PASSWORD) && !said.contains("YWRhOnNlY3JldA"), "{said}");
        assert_eq!(desk.read(&name), b"not for everybody");
    }
    let said = desk.fails(7, &[&address, "--user", web::USER, "--password-file", wrong, "-vv"]);
    assert!(said.contains("wants another login") && !said.contains("someth1ng"), "{said}");

    fs::copy(netrc, desk.home().join(".netrc")).unwrap();
    fs::set_permissions(desk.home().join(".netrc"), fs::Permissions::from_mode(0o600)).unwrap();
    desk.pulls(&[&address, "-o", "by-home"]);
    fs::set_permissions(password, fs::Permissions::from_mode(0o644)).unwrap();
    let said = desk.fails(1, &[&address, "--user", web::USER, "--password-file", password]);
    assert!(said.contains("password"), "others may read it: {said}");
}

#[test]
fn a_wrong_ftp_password_is_exit_code_7() {
    let (desk, server) = (Desk::new(), Ftpd::start(ftpd::Kind::Proftpd));
    server.put("f", b"x", 1_600_000_000);
    let (login, address) = (ftp_login(&desk, &server, "wr0ng-one"), server.address("f").to_string());
    let said = desk.fails(7, &words(&login, &[&address, "-vv", "--retries", "0"]));
    assert!(!said.contains("wr0ng-one"), "{said}");
}

#[test]
fn the_operator_of_the_source_learns_whom_to_write_to() {
    let (web, desk) = (Web::start(Kind::Nginx), Desk::new());
    web.put("f", b"x", 1_000);
    desk.pulls(&[&url(&web, "f"), "--contact", "ada@lab.example"]);
    assert!(web.requests()[0].contains("ada@lab.example"), "{:?}", web.requests());
}

// --- a full disk ------------------------------------------------------------------------------------------------

#[test]
#[ignore = "needs root to mount a small file system: tests/all runs it"]
fn a_full_disk_is_exit_code_14_and_the_other_files_come() {
    let (web, desk) = (Web::start(Kind::Nginx), Desk::new());
    web.put("large", &noise(16, 8 * MIB), 1_000);
    web.put("small", b"fits", 1_000);
    fs::create_dir(desk.path("disk")).unwrap();
    let place = desk.path("disk");
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=2m", "tmpfs"]).arg(&place).status().unwrap();
    assert!(mounted.success());
    let alone = desk.get(&[&url(&web, "large"), "-o", "disk/"]);
    let both = desk.get(&[&url(&web, "large"), &url(&web, "small"), "-o", "disk/"]);
    let small = fs::read(place.join("small"));
    assert!(Command::new("umount").arg(&place).status().unwrap().success());
    let said = String::from_utf8_lossy(&alone.stderr).into_owned();
    assert_eq!(alone.status.code(), Some(14), "{said}");
    assert!(said.contains("free some space"), "{said}");
    assert_eq!(both.status.code(), Some(6));
    assert_eq!(small.unwrap(), b"fits");
}
