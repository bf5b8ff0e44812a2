//! `stroll mirror --dry-run` announces exactly what the next run does, at real servers and with every flag that decides what
//! comes. Also here: symbolic links of a real FTP server, and empty folders.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]
#![allow(clippy::disallowed_methods, reason = "files get times of the past")]

#[path = "common/desk.rs"]
mod desk;
#[path = "common/ftpd.rs"]
mod ftpd;
#[path = "common/origin.rs"]
mod origin;
#[path = "common/web.rs"]
mod web;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use desk::{Desk, noise};
use origin::{Origin, Server};
use serde_json::Value;

const DAY: Duration = Duration::from_secs(86_400);

fn put(root: &Path, path: &str, bytes: &[u8], age: Duration) {
    let place = root.join(path);
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    fs::write(&place, bytes).unwrap();
    fs::File::options().write(true).open(&place).unwrap().set_modified(SystemTime::now() - age).unwrap();
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

    fn run(&self, flags: &[&str]) -> (Option<i32>, Value, String) {
        let url = self.origin.url("tree/");
        let mut command = self.desk.stroll(&["mirror", &url, "replica", "--progress", "none", "--json"]);
        if url.starts_with("ftp:") {
            command.args(["--ftp-tls", "off"]);
        }
        let output = command.args(flags).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or_default(), said)
    }
}

/// A tree and its replica of before: files that are new, changed, equal, replaced by folders and the other way, gone.
fn plant(bench: &Bench) {
    let root = bench.origin.root().join("tree");
    for path in ["same", "gone", "sub/gone", "sub/same", "was-file", "was-folder/f", "left/f.tmp"] {
        put(&root, path, path.as_bytes(), 30 * DAY);
    }
    fs::create_dir(root.join("gone-empty")).unwrap();
    let (code, _, said) = bench.run(&[]);
    assert_eq!(code, Some(0), "{said}");
    for path in ["gone", "sub/gone", "was-file"] {
        fs::remove_file(root.join(path)).unwrap();
    }
    fs::remove_dir_all(root.join("was-folder")).unwrap();
    fs::remove_dir(root.join("gone-empty")).unwrap();
    for path in ["new", "newer/a", "newer/b/c", "new.tmp", "was-file/f", "was-folder"] {
        put(&root, path, &noise(path.len() as u64, 3_000), 5 * DAY);
    }
    put(&root, "sub/same", b"sub/SAME", 2 * DAY);
    put(&root, "young", b"young", Duration::from_secs(30));
    fs::create_dir_all(root.join("empty/inner")).unwrap();
}

fn names(report: &Value, key: &str) -> BTreeSet<String> {
    report[key].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

fn files(root: &Path, below: &Path, found: &mut BTreeSet<(String, Vec<u8>)>) {
    for entry in fs::read_dir(root.join(below)).unwrap() {
        let entry = entry.unwrap();
        let path = below.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            found.insert((format!("{}/", path.display()), Vec::new()));
            files(root, &path, found);
        } else {
            found.insert((path.display().to_string(), fs::read(root.join(&path)).unwrap()));
        }
    }
}

/// The plan and the run agree on every name and number.
fn plans_what_it_does(server: Server) {
    for flags in [
        &[][..],
        &["--delete", "--max-delete", "100%"],
        &["--delete"],
        &["--delete", "--max-delete", "100%", "--exclude", "*.tmp", "--delete-excluded"],
        &["--compare", "exists"],
        &["--compare", "size"],
        &["--max-age", "10d"],
        &["--min-age", "1d"],
        &["--max-transfer", "7k"],
        &["--include", "*.tmp"],
        &["--connections", "2", "--order-by", "size,desc"],
    ] {
        let bench = Bench::new(server);
        plant(&bench);
        let replica = bench.desk.path("replica");
        let tree = || {
            let mut found = BTreeSet::new();
            files(&replica, Path::new(""), &mut found);
            found
        };
        let before = tree();
        let (_, plan, said) = bench.run(&[flags, &["--dry-run"]].concat());
        assert_eq!(tree(), before, "{server:?} {flags:?}: a dry run touches nothing");
        let (_, done, told) = bench.run(flags);
        let context = format!("{server:?} {flags:?}\n{plan}\n{said}\n{done}\n{told}");
        assert_eq!(plan["counts"]["planned"], done["counts"]["pulled"], "{context}");
        for key in ["deleted", "deleted_folders", "folders_made"] {
            assert_eq!(names(&plan, key), names(&done, key), "{key} {context}");
        }
        assert_eq!(plan["not_deleted_because"].is_null(), done["not_deleted_because"].is_null(), "{context}");
        let planned: BTreeSet<String> = plan["plan"]
            .as_array()
            .unwrap()
            .iter()
            .map(|file| file["path"].as_str().unwrap().to_owned())
            .collect();
        let after = tree();
        let changed: BTreeSet<String> = after
            .difference(&before)
            .map(|(path, _)| path.clone())
            .filter(|path| !path.ends_with('/'))
            .collect();
        assert_eq!(planned, changed, "{context}");
        let is_all = flags.starts_with(&["--delete", "--max-delete"]) && flags.len() == 3;
        if is_all {
            let mut there = BTreeSet::new();
            files(&bench.origin.root().join("tree"), Path::new(""), &mut there);
            assert_eq!(after, there, "{context}");
            let (_, again, _) = bench.run(flags);
            assert_eq!(again["counts"]["pulled"], 0, "{again}");
        }
    }
}

#[test]
fn a_dry_run_agrees_with_the_real_run_at_nginx() {
    plans_what_it_does(Server::Nginx);
}

#[test]
fn a_dry_run_agrees_with_the_real_run_at_micro_httpd_which_lists_folders_like_files() {
    plans_what_it_does(Server::MicroHttpd);
}

#[test]
fn a_dry_run_agrees_with_the_real_run_at_vsftpd() {
    plans_what_it_does(Server::Vsftpd);
}

// --- symbolic links -----------------------------------------------------------------------------------------------

fn plant_links(root: &Path) {
    use std::os::unix::fs::symlink;
    put(root, "real/data", b"data", 5 * DAY);
    put(root, "v2.dat", b"v2", 5 * DAY);
    put(root.parent().unwrap(), "private/secret", b"secret", 5 * DAY);
    for (target, link) in [
        ("v2.dat", "latest.dat"),
        ("real", "alias"),
        ("nowhere", "dangling"),
        ("../private", "outside"),
        ("/etc", "absolute"),
        ("..", "real/up"),
        (".", "real/self"),
    ] {
        symlink(target, root.join(link)).unwrap();
    }
}

fn counts(report: &Value) -> [u64; 4] {
    ["links", "links_followed", "links_skipped", "links_broken"]
        .map(|key| report["counts"][key].as_u64().unwrap())
}

#[test]
fn links_of_a_real_ftp_server_are_followed_within_the_tree_skipped_or_refused() {
    let bench = Bench::new(Server::Vsftpd);
    plant_links(&bench.origin.root().join("tree"));
    let (_, plan, _) = bench.run(&["--dry-run"]);
    for pulled in [4, 0] {
        let (code, report, said) = bench.run(&["--delete"]);
        assert_eq!((code, &report["counts"]["pulled"]), (Some(0), &pulled.into()), "{report} {said}");
        assert_eq!(counts(&report), [9, 2, 6, 1], "{report} {said}");
        assert!(said.contains("symbolic link outside leads outside the tree: ../private"), "{said}");
        assert!(said.contains("symbolic link dangling leads nowhere: nowhere"), "{said}");
    }
    assert_eq!(plan["counts"]["planned"], 4, "{plan}");
    assert_eq!(
        bench.desk.files(),
        ["alias/data", "latest.dat", "real/data", "v2.dat"].map(|path| format!("replica/{path}"))
    );
    assert_eq!(bench.desk.read("replica/latest.dat"), b"v2");
    // What came through a link stays when links are skipped.
    let (code, report, said) = bench.run(&["--links", "skip", "--delete", "--max-delete", "100%"]);
    assert_eq!((code, counts(&report)), (Some(0), [7, 0, 7, 0]), "{report} {said}");
    assert_eq!(report["deleted"], serde_json::json!([]), "{report}");
    let (code, report, said) = bench.run(&["--links", "fail"]);
    assert_eq!((code, &report["counts"]["failed"]), (Some(6), &7.into()), "{report} {said}");
    assert!(said.contains("--links fail"), "{said}");
}

/// A file that becomes a link was removed from the replica.
#[test]
fn a_file_that_is_replaced_by_a_link_stays() {
    let bench = Bench::new(Server::Vsftpd);
    let root = bench.origin.root().join("tree");
    put(&root, "a", b"a", 5 * DAY);
    put(&root, "b", b"b", 5 * DAY);
    bench.run(&[]);
    fs::remove_file(root.join("a")).unwrap();
    std::os::unix::fs::symlink("/outside/a", root.join("a")).unwrap();
    for links in ["follow", "skip"] {
        let (code, report, said) = bench.run(&["--links", links, "--delete", "--max-delete", "100%"]);
        assert_eq!((code, &report["counts"]["deleted"]), (Some(0), &0.into()), "{report} {said}");
        assert_eq!(bench.desk.read("replica/a"), b"a");
    }
}

/// The file is written twice within one second, with one size: no time and no size tells the versions apart.
#[test]
fn a_file_that_changes_again_within_the_second_of_its_pull_is_pulled_again() {
    let bench = Bench::new(Server::Nginx);
    let root = bench.origin.root().join("tree");
    put(&root, "f", b"one", Duration::ZERO);
    bench.run(&[]);
    let stamp = fs::metadata(root.join("f")).unwrap().modified().unwrap();
    if SystemTime::now().duration_since(stamp).unwrap() > Duration::from_millis(1_900) {
        return; // The machine was too slow for this second.
    }
    fs::write(root.join("f"), b"two").unwrap();
    fs::File::options().write(true).open(root.join("f")).unwrap().set_modified(stamp).unwrap();
    bench.run(&[]);
    assert_eq!(bench.desk.read("replica/f"), b"two");
}
