//! `stroll verify` as people use it: what is right, what is not, what nothing is known of, and how it ends.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]
#![allow(clippy::disallowed_methods, reason = "these tests are about real files")]

#[path = "common/desk.rs"]
mod desk;
#[path = "common/web.rs"]
mod web;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::Command;

use desk::Desk;
use serde_json::Value;
use stroll::fetch::sink::{Algorithm, Hasher};
use web::{Kind, Web};

const NAMES: [&str; 3] = ["a.dat", "frame-12:01:00.gwf", "sub/b.dat"];

fn put(desk: &Desk, path: &str, bytes: &[u8]) {
    let path = desk.path(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

fn hex(algorithm: Algorithm, bytes: &[u8]) -> String {
    let mut hasher = Hasher::new(algorithm);
    hasher.update(bytes);
    hasher.finish().to_string().split_once(':').unwrap().1.to_owned()
}

/// A web server with a tree, mirrored to `replica`.
fn mirrored(desk: &Desk) -> Web {
    let web = Web::start(Kind::Nginx);
    for name in NAMES {
        web.put(&format!("tree/{name}"), name.as_bytes(), 1_000);
    }
    mirror(desk, &web, "replica", &[]);
    web
}

#[track_caller]
fn mirror(desk: &Desk, web: &Web, to: &str, args: &[&str]) -> Value {
    let url = web.http("tree/").to_string();
    let output = desk.stroll(&["mirror", &url, to, "--json"]).args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Exit code, the result as JSON, and what is said to people.
fn report(mut command: Command) -> (i32, Value, String) {
    let output = command.arg("--json").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output.status.code().unwrap(), document["result"].clone(), said)
}

fn verify(desk: &Desk, args: &[&str]) -> (i32, Value, String) {
    report(desk.stroll(&[&["verify"], args].concat()))
}

#[track_caller]
fn counts(result: &Value, expected: &[(&str, u64)]) {
    for (name, count) in expected {
        assert_eq!(result[name], Value::from(*count), "{name}: {result}");
    }
}

// --- nothing to verify with -----------------------------------------------------------------------------------------

/// It said "0 files are right" and ended with exit code 0.
#[test]
fn a_folder_of_which_nothing_is_known_is_an_error_that_says_what_to_do() {
    let desk = Desk::new();
    let _web = mirrored(&desk);
    let mut elsewhere = desk.stroll(&["verify", "replica"]);
    let (code, result, said) = report({
        elsewhere.env("HOME", desk.path(""));
        elsewhere
    });
    assert_eq!((code, &result), (1, &Value::Null), "{said}");
    assert!(
        said.contains("nothing is known") && said.contains("--state") && said.contains("--adopt"),
        "{said}"
    );
    let (code, result, said) = verify(&desk, &["replica", "--state", "other-records", "--sums", "auto"]);
    assert_eq!(code, 1, "{said}");
    counts(&result, &[("ok", 0), ("unknown", 3)]);
    assert!(said.contains("nothing was verified") && said.contains("--adopt"), "{said}");
    assert_eq!(
        verify(&desk, &["replica", "--state", "other-records", "--sums", "auto", "--allow-unknown"]).0,
        1
    );
    assert_eq!(verify(&desk, &["replica"]).0, 0);
}

#[test]
fn an_empty_folder_and_an_empty_manifest_verify_nothing() {
    let desk = Desk::new();
    let web = Web::start(Kind::Nginx);
    web.make_folder("tree");
    mirror(&desk, &web, "replica", &[]);
    for args in [&["replica"][..], &["replica", "--sums", "auto"], &["replica", "--adopt"]] {
        let (code, _, said) = verify(&desk, args);
        assert_eq!(code, 1, "{args:?}: {said}");
    }
    assert_eq!(verify(&desk, &["nowhere"]).0, 3);
}

// --- moved and copied -------------------------------------------------------------------------------------------------

#[test]
fn a_moved_replica_is_recognised_and_its_next_mirror_pulls_nothing() {
    let desk = Desk::new();
    let web = mirrored(&desk);
    let was = desk.path("replica").display().to_string();
    fs::create_dir(desk.path("archive")).unwrap();
    fs::rename(desk.path("replica"), desk.path("archive/moved")).unwrap();
    let (code, result, said) = verify(&desk, &["archive/moved"]);
    assert_eq!(code, 0, "{said}");
    assert!(result["known_as"].as_str().unwrap().ends_with("/here/replica"), "{result} {was}");
    counts(&result, &[("ok", 3), ("unknown", 0)]);
    let told = desk.stroll(&["verify", "archive/moved"]).output().unwrap();
    assert!(String::from_utf8_lossy(&told.stdout).contains("is known as"), "{told:?}");
    let planned = mirror(&desk, &web, "archive/moved", &["--dry-run"]);
    assert_eq!(planned["counts"]["planned"], 0, "{planned}");
    let report = mirror(&desk, &web, "archive/moved", &[]);
    assert_eq!((&report["counts"]["pulled"], &report["counts"]["up_to_date"]), (&0.into(), &3.into()));
    let (code, result, said) = verify(&desk, &["archive/moved"]);
    assert_eq!((code, &result["known_as"]), (0, &Value::Null), "{said}");
    counts(&result, &[("ok", 3), ("unhashed", 0)]);
    // What was changed on the way is found.
    fs::rename(desk.path("archive/moved"), desk.path("again")).unwrap();
    fs::write(desk.path("again/sub/b.dat"), b"SUB/b.dat").unwrap();
    fs::remove_file(desk.path("again/a.dat")).unwrap();
    let (code, result, _) = verify(&desk, &["again"]);
    assert_eq!(code, 11);
    counts(&result, &[("ok", 1), ("changed", 1), ("missing", 1)]);
}

#[test]
fn a_copy_is_compared_with_what_is_known_of_its_original() {
    let desk = Desk::new();
    let _web = mirrored(&desk);
    let copied =
        Command::new("cp").args(["-a", "replica", "copy"]).current_dir(desk.path("")).status().unwrap();
    assert!(copied.success());
    let (code, result, said) = verify(&desk, &["copy"]);
    assert_eq!(code, 0, "{said}");
    assert!(result["known_as"].is_string(), "{result}");
    // The original keeps what is known of it.
    assert_eq!(verify(&desk, &["replica"]).0, 0);
    // A folder with other files is not taken for a copy.
    put(&desk, "other/a.dat", b"something else");
    assert_eq!(verify(&desk, &["other"]).0, 1);
}

// --- files of which nothing is known ----------------------------------------------------------------------------------

#[test]
fn unknown_files_are_shown_and_make_exit_code_6_until_they_are_allowed_or_adopted() {
    let desk = Desk::new();
    let _web = mirrored(&desk);
    let path = desk.path("replica").join(OsStr::from_bytes(b"mine-\xe9"));
    fs::write(&path, b"mine").unwrap();
    let output = desk.stroll(&["verify", "replica"]).output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(6), "{out}");
    assert!(out.contains("unknown mine-\\xE9: ") && out.contains("1 not known"), "{out}");
    let (code, result, _) = verify(&desk, &["replica", "--allow-unknown"]);
    assert_eq!(code, 0);
    counts(&result, &[("ok", 3), ("unknown", 1)]);
    let (code, result, said) = verify(&desk, &["replica", "--adopt"]);
    assert_eq!(code, 0, "{said}");
    counts(&result, &[("ok", 3), ("adopted", 1), ("unknown", 0)]);
    let (code, result, _) = verify(&desk, &["replica"]);
    assert_eq!(code, 0);
    counts(&result, &[("ok", 4), ("adopted", 0)]);
    fs::write(&path, b"MINE").unwrap();
    let (code, result, _) = verify(&desk, &["replica", "--adopt"]);
    assert_eq!(code, 11, "what is known is not adopted again");
    counts(&result, &[("ok", 3), ("adopted", 0), ("changed", 1)]);
}

#[test]
fn files_that_a_mirror_found_here_were_never_hashed_and_can_be_adopted() {
    let desk = Desk::new();
    let web = Web::start(Kind::Nginx);
    web.put("tree/f", b"12345", 1_000);
    let modified = fs::metadata(web.path("tree/f")).unwrap().modified().unwrap();
    put(&desk, "replica/f", b"12345");
    fs::File::options().write(true).open(desk.path("replica/f")).unwrap().set_modified(modified).unwrap();
    mirror(&desk, &web, "replica", &[]);
    let (code, result, said) = verify(&desk, &["replica"]);
    assert_eq!(code, 1, "{said}");
    counts(&result, &[("ok", 0), ("unhashed", 1)]);
    assert_eq!(verify(&desk, &["replica", "--adopt"]).0, 0);
    assert_eq!(verify(&desk, &["replica"]).0, 0);
    assert_eq!(mirror(&desk, &web, "replica", &[])["counts"]["pulled"], 0, "still up to date");
    assert_eq!(verify(&desk, &["replica"]).0, 0, "and still known");
}

#[test]
fn adopting_makes_a_plain_folder_known() {
    let desk = Desk::new();
    put(&desk, "data/deep/er/f", b"f");
    put(&desk, "data/g", b"g");
    let (code, result, said) = verify(&desk, &["data", "--adopt"]);
    assert_eq!(code, 0, "{said}");
    counts(&result, &[("adopted", 2)]);
    fs::remove_file(desk.path("data/g")).unwrap();
    let (code, result, _) = verify(&desk, &["data"]);
    assert_eq!(code, 11);
    counts(&result, &[("ok", 1), ("missing", 1)]);
}

#[test]
fn what_takes_the_place_of_a_file_is_told() {
    let desk = Desk::new();
    let _web = mirrored(&desk);
    fs::remove_file(desk.path("replica/a.dat")).unwrap();
    std::os::unix::fs::symlink("sub/b.dat", desk.path("replica/a.dat")).unwrap();
    fs::rename(desk.path("replica/sub"), desk.path("away")).unwrap();
    std::os::unix::fs::symlink("../away", desk.path("replica/sub")).unwrap();
    let (code, result, _) = verify(&desk, &["replica"]);
    assert_eq!(code, 11);
    counts(&result, &[("ok", 1), ("changed", 2), ("missing", 0)]);
}

// --- lists of checksums -----------------------------------------------------------------------------------------------

#[test]
fn the_lists_that_were_used_are_told() {
    let desk = Desk::new();
    for name in ["a", "deep/er/b", "c", "unlisted"] {
        put(&desk, &format!("data/{name}"), name.as_bytes());
    }
    let sha256 = |name: &str| hex(Algorithm::Sha256, name.as_bytes());
    put(
        &desk,
        "data/SHA256SUMS",
        format!("{}  a\r\n{} *./deep/er/b\r\n", sha256("a"), sha256("deep/er/b")).as_bytes(),
    );
    put(&desk, "data/c.md5", format!("MD5 (c) = {}\n", hex(Algorithm::Md5, b"c").to_uppercase()).as_bytes());
    put(&desk, "data/MD5SUMS", b"<!DOCTYPE html><html>404</html>");
    let output = desk.stroll(&["verify", "data", "--sums", "auto"]).output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(6), "{out}");
    assert!(out.contains("checksums: SHA256SUMS (2 files), c.md5 (1 file), 1 file without"), "{out}");
    assert!(out.contains("unreadable MD5SUMS: ") && out.contains("unknown unlisted: "), "{out}");
    fs::remove_file(desk.path("data/MD5SUMS")).unwrap();
    fs::remove_file(desk.path("data/unlisted")).unwrap();
    let (code, result, said) = verify(&desk, &["data", "--sums", "auto"]);
    assert_eq!(code, 0, "{said}");
    counts(&result, &[("ok", 3)]);
    assert_eq!(result["checksums"]["lists"]["SHA256SUMS"], 2, "{result}");
    assert_eq!(result["checksums"]["files_without"], 0, "{result}");
}

#[test]
fn what_a_list_has_and_the_folder_has_not_is_missing_unless_it_was_left_out_on_purpose() {
    let desk = Desk::new();
    let sha256 = |name: &str| hex(Algorithm::Sha256, name.as_bytes());
    let list = format!("{}  a\n{}  gone/b\n{}  ../outside\n", sha256("a"), sha256("b"), sha256("x"));
    put(&desk, "data/a", b"a");
    put(&desk, "data/SHA256SUMS", list.as_bytes());
    let (code, result, said) = verify(&desk, &["data", "--sums", "auto"]);
    assert_eq!(code, 11, "{said}");
    counts(&result, &[("ok", 1), ("missing", 1)]);
    assert_eq!(result["findings"][0]["path"], "gone/b", "{result}");
    // A mirror with a filter has fewer files than the list.
    let web = Web::start(Kind::Nginx);
    web.put("tree/a", b"a", 1_000);
    web.put("tree/gone/b", b"b", 1_000);
    web.put("tree/SHA256SUMS", list.as_bytes(), 1_000);
    mirror(&desk, &web, "replica", &["--exclude", "/gone/**"]);
    let (code, result, said) = verify(&desk, &["replica", "--sums", "auto"]);
    assert_eq!(code, 0, "{said}");
    counts(&result, &[("ok", 2), ("missing", 0)]);
}

#[test]
fn a_list_that_contradicts_itself_or_the_file_is_exit_code_11_and_nothing_is_adopted() {
    let desk = Desk::new();
    for (name, list) in [
        ("twice", format!("{}  f\n{}  f\n", hex(Algorithm::Sha256, b"f"), hex(Algorithm::Sha256, b"g"))),
        ("other", format!("{}  f\n", hex(Algorithm::Sha256, b"g"))),
    ] {
        put(&desk, &format!("{name}/f"), b"f");
        put(&desk, &format!("{name}/SHA256SUMS"), list.as_bytes());
        for args in [&[name, "--sums", "auto"][..], &[name, "--adopt"]] {
            let (code, result, said) = verify(&desk, args);
            assert_eq!(code, 11, "{args:?}: {said}");
            assert_eq!(result["changed"], 1, "{args:?}: {result}");
        }
        assert_ne!(verify(&desk, &[name]).0, 0);
        assert!(Path::new(&desk.path(name)).exists());
    }
}
