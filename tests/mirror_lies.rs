//! `stroll mirror` from servers that lie: nothing is written or removed outside of the target, nothing that they say reaches
//! the terminal as it is, and no listing that is not whole removes anything.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]
#![allow(clippy::disallowed_methods, reason = "these tests are about real time")]

#[path = "common/desk.rs"]
mod desk;
#[path = "common/ftpd.rs"]
mod ftpd;
#[path = "common/lying_ftp.rs"]
mod lying_ftp;
#[path = "common/lying_http.rs"]
mod lying_http;

use std::collections::BTreeMap;
use std::fs;
use std::process::Output;
use std::sync::{Arc, Mutex};

use desk::Desk;
use lying_ftp::{Script, Sends};
use lying_http::{Liar, answer};

/// Runs a mirror beside the servers, which need their threads.
async fn mirror(desk: &Arc<Desk>, url: &str, args: &[&str]) -> Output {
    let mut command = desk.stroll(&["mirror", url, "replica", "--retries", "0"]);
    command.args(args);
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

/// What was said, if not one byte of it could move a cursor.
fn harmless(output: &Output) -> String {
    for text in [&output.stdout, &output.stderr] {
        let text = String::from_utf8(text.clone()).unwrap();
        let bad =
            text.chars().find(|c| c.is_control() && *c != '\n' || ('\u{202a}'..='\u{202e}').contains(c));
        assert_eq!(bad, None, "{text:?}");
    }
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A page for folders, and always the same body for files.
async fn liar(page: &'static str) -> Liar {
    Liar::start(move |_, head| {
        let is_folder = head.lines().next().is_some_and(|line| line.contains("/ HTTP"));
        let body: &[u8] = if is_folder { page.as_bytes() } else { b"file" };
        let kind = if is_folder { "Content-Type: text/html" } else { "Content-Type: x/y" };
        let length = format!("Content-Length: {}", body.len());
        let times = "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT";
        let body = if head.starts_with("HEAD") { b"" } else { body };
        vec![answer("200 OK", &[kind, &length, times], body)]
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_lead_out_are_refused_and_the_rest_comes() {
    let page = "<html><body><a href='..%2fescaped'>x</a> <a href='%2e%2e%5cback'>x</a> <a href='/etc/passwd'>x</a> \
                <a href='a%1b%5b2Jb'>x</a> <a href='%e2%80%aex'>x</a> <a href='CON'>x</a> <a href='good'>x</a> \
                <a href='.ssh'>x</a> <a href='c%0d%0aDELE'>x</a></body></html>";
    let (desk, liar) = (Arc::new(Desk::new()), liar(page).await);
    for style in ["line", "json"] {
        let output =
            mirror(&desk, &liar.address("pub/").to_string(), &["-vv", "--progress", style, "--delete"]).await;
        let said = harmless(&output);
        assert_eq!(output.status.code(), Some(6), "{said}");
        assert!(said.contains("names were refused") && said.contains("nothing is removed"), "{said}");
        assert_eq!(desk.files(), ["replica/CON", "replica/good"]);
    }
    let output = mirror(&desk, &liar.address("pub/").to_string(), &["--json", "--dry-run"]).await;
    harmless(&output);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_name_is_one_name() {
    let page = "<html><body><a href='CON'>x</a> <a href='good'>x</a></body></html>";
    let (desk, liar) = (Arc::new(Desk::new()), liar(page).await);
    let output = mirror(&desk, &liar.address("pub/").to_string(), &["--portable-names"]).await;
    let said = harmless(&output);
    assert!(said.contains("1 name was refused") && said.contains(", 1 name refused"), "{said}");
}

/// Files are wanted ahead; those of unknown size all seemed to fit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_without_sizes_is_no_way_around_a_quota() {
    let page = "<html><body><a href='a'>a</a> <a href='b'>b</a> <a href='c'>c</a> <a href='d'>d</a> \
                <a href='e'>e</a></body></html>";
    let (desk, liar) = (Arc::new(Desk::new()), liar(page).await);
    let url = liar.address("pub/").to_string();
    for (run, count) in [(1, 2), (2, 4)] {
        let output = mirror(&desk, &url, &["--max-transfer", "8"]).await;
        assert_eq!(output.status.code(), Some(8), "{}", harmless(&output));
        assert_eq!(desk.files().len(), count, "run {run}: {:?}", desk.files());
    }
    let output = mirror(&desk, &url, &["--max-transfer", "8"]).await;
    assert_eq!((output.status.code(), desk.files().len()), (Some(0), 5), "{}", harmless(&output));
}

/// A page of links tells no times; the answers do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_for_files_learns_their_time_from_the_answers_where_the_index_has_none() {
    let page = "<html><body><a href='a'>a</a></body></html>";
    let (desk, liar) = (Arc::new(Desk::new()), liar(page).await);
    let url = liar.address("pub/").to_string();
    let mut command = desk.stroll(&["subscribe", &url, "replica", "--since", "all", "--settle", "0s"]);
    let once = "echo \"$STROLL_MODIFIED\" > told.new; mv told.new told";
    command.args(["--poll", "1s", "--exec", once, "--max-duration", "20s"]);
    let (told, mut child) = (desk.path("told"), command.spawn().unwrap());
    let told = tokio::task::spawn_blocking(move || {
        let begun = std::time::Instant::now();
        while !told.exists() && begun.elapsed().as_secs() < 60 {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        let _ = child.kill();
        let _ = child.wait();
        fs::read_to_string(told).unwrap_or_default()
    });
    assert_eq!(told.await.unwrap(), "784111777\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tree_without_an_end_has_one() {
    let (desk, liar) = (Arc::new(Desk::new()), liar("<html><body><a href='d/'>d/</a></body></html>").await);
    let output = mirror(&desk, &liar.address("").to_string(), &[]).await;
    let said = harmless(&output);
    assert_eq!(output.status.code(), Some(6), "{said}");
    assert!(said.contains("deeper than 64 folders"), "{said}");
    assert_eq!(liar.heard().len(), 64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_of_an_ftp_server_lead_nowhere_and_cut_listings_remove_nothing() {
    let desk = Arc::new(Desk::new());
    let lines = "type=file;size=4;modify=20240101120000; ../../x\r\ntype=file;size=4;modify=20240101120000; /etc/x\r\n\
                 type=file;size=4;modify=20240101120000; a\u{1b}[2Jb\r\ntype=dir;modify=20240101120000; ..\r\n";
    let evil = Script::honest(b"file").sends(Sends::Bytes(lines.as_bytes().to_vec()));
    let liar = lying_ftp::Liar::start(evil).await;
    let url = liar.address("pub/").to_string();
    let output = mirror(&desk, &url, &["-vv", "--delete", "--max-delete", "100%"]).await;
    let said = harmless(&output);
    assert_eq!(output.status.code(), Some(6), "{said}");
    assert_eq!(desk.files(), Vec::<String>::new());

    // Two files are here; of a third the source says nothing, and that it has more than it says.
    fs::create_dir_all(desk.path("replica")).unwrap();
    for name in ["here", "gone"] {
        fs::write(desk.path("replica").join(name), "file").unwrap();
    }
    let lines = b"type=file;size=4; here\r\n".to_vec();
    let cut = "226-Output truncated to 1 matches\r\n226 1 matches total";
    let all = ["--delete", "--max-delete", "100%", "--compare", "size"];
    liar.now(Script::honest(b"file").sends(Sends::Bytes(lines.clone())).says("end", cut));
    let output = mirror(&desk, &url, &all).await;
    let said = harmless(&output);
    assert_eq!(output.status.code(), Some(6), "{said}");
    assert!(said.contains("listing is not complete") && said.contains("nothing is removed"), "{said}");
    assert_eq!(desk.files(), ["replica/gone", "replica/here"]);
    // The same listing, whole.
    let none = "550 no such file";
    let gone = Script::honest(b"file").says("SIZE", none).says("MDTM", none).says("RETR", none);
    liar.now(gone.sends(Sends::Bytes(lines)));
    let output = mirror(&desk, &url, &all).await;
    assert_eq!(output.status.code(), Some(0), "{}", harmless(&output));
    assert_eq!(desk.files(), ["replica/here"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_breaks_off_removes_nothing() {
    let (desk, liar) = (Arc::new(Desk::new()), liar("<html><body><a href='good'>x</a>").await);
    fs::create_dir_all(desk.path("replica")).unwrap();
    fs::write(desk.path("replica/other"), "x").unwrap();
    let output = mirror(&desk, &liar.address("").to_string(), &["--delete", "--max-delete", "100%"]).await;
    let said = harmless(&output);
    assert_eq!(output.status.code(), Some(6), "{said}");
    assert_eq!(desk.files(), ["replica/good", "replica/other"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_that_was_planted_below_the_target_is_not_followed() {
    let (desk, liar) = (
        Arc::new(Desk::new()),
        liar("<html><body><a href='sub/'>x</a> <a href='good'>x</a></body></html>").await,
    );
    fs::create_dir_all(desk.path("replica")).unwrap();
    fs::create_dir_all(desk.path("outside")).unwrap();
    std::os::unix::fs::symlink("../outside", desk.path("replica/sub")).unwrap();
    let output = mirror(&desk, &liar.address("").to_string(), &["--delete", "--max-delete", "100%"]).await;
    let said = harmless(&output);
    assert_eq!(output.status.code(), Some(6), "{said}");
    assert!(said.contains("symbolic link"), "{said}");
    assert_eq!(fs::read_dir(desk.path("outside")).unwrap().count(), 0);
    assert!(desk.path("replica/sub").is_symlink());
}

#[test]
#[ignore = "needs root: pure-ftpd does not start without"]
fn pure_ftpd_says_that_its_listing_is_cut_and_nothing_is_removed() {
    let (desk, server) = (Desk::new(), ftpd::Ftpd::start(ftpd::Kind::PureFtpd));
    for n in 0..10_050 {
        server.put(&format!("tree/f{n:05}"), b"", 1_600_000_000);
    }
    fs::create_dir_all(desk.path("replica")).unwrap();
    fs::write(desk.path("replica/mine"), "x").unwrap();
    let password = desk.private("password", "right\n");
    let url = server.address("tree/").to_string();
    let mut command = desk.stroll(&["mirror", &url, "replica", "--user", "ada", "--password-file"]);
    command.arg(password).args([
        "--ftp-tls",
        "off",
        "--compare",
        "exists",
        "--delete",
        "--max-delete",
        "100%",
        "--json",
        "--dry-run",
    ]);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(6), "{said}");
    assert!(said.contains("listing is not complete") && said.contains("nothing is removed"), "{said}");
    assert!(desk.path("replica/mine").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_that_does_not_say_how_old_its_files_are_is_told_of_once() {
    let liar = Liar::start(|_, head| {
        let is_folder = head.lines().next().is_some_and(|line| line.contains("/ HTTP"));
        let page = b"<html><body><a href='one'>x</a> <a href='two'>x</a> <a href='three'>x</a></body></html>";
        let (body, kind): (&[u8], _) = if is_folder { (page, "text/html") } else { (b"file", "x/y") };
        let fields = [format!("Content-Type: {kind}"), format!("Content-Length: {}", body.len())];
        let body = if head.starts_with("HEAD") { b"" } else { body };
        vec![answer("200 OK", &[&fields[0], &fields[1]], body)]
    })
    .await;
    let desk = Arc::new(Desk::new());
    let output = mirror(&desk, &liar.address("pub/").to_string(), &["--max-age", "10d"]).await;
    let said = harmless(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_eq!(desk.files(), ["replica/one", "replica/three", "replica/two"]);
    assert_eq!(said.matches("does not say how old its files are").count(), 1, "{said}");
}

// --- caches, missing files, pages without slashes ----------------------------------------------------------------

/// A site in memory that a test changes: what a folder lists, and what the URLs of files answer.
#[derive(Clone, Default)]
struct Site {
    /// Bodies of pages, by path.
    pages: BTreeMap<String, String>,
    /// Status, header fields and body of files, by path.
    files: BTreeMap<String, (String, Vec<String>, Vec<u8>)>,
    /// HEAD answers 404 to everything.
    rejects_head: bool,
}

impl Site {
    fn page(mut self, path: &str, lines: &[&str]) -> Self {
        let body = format!(
            "<html><head><title>Index of {path}</title></head><body><h1>Index of {path}</h1><pre>{}</pre></body></html>",
            lines.join("\n")
        );
        self.pages.insert(path.to_owned(), body);
        self
    }

    fn answers(mut self, path: &str, status: &str, fields: &[&str], body: &[u8]) -> Self {
        let fields = fields.iter().map(|field| (*field).to_owned()).collect();
        self.files.insert(path.to_owned(), (status.to_owned(), fields, body.to_vec()));
        self
    }

    fn file(self, path: &str, body: &[u8], modified: &str) -> Self {
        self.answers(path, "200 OK", &[&format!("Last-Modified: {modified}")], body)
    }

    fn reply(&self, head: &str) -> lying_http::Step {
        let mut words = head.split(' ');
        let (method, path) = (words.next().unwrap(), words.next().unwrap());
        let is_head = method == "HEAD";
        let none = ("404 Not Found".to_owned(), Vec::new(), b"no".to_vec());
        let (status, mut fields, body) = match (self.pages.get(path), self.files.get(path)) {
            _ if is_head && self.rejects_head => none,
            (Some(page), _) => {
                ("200 OK".to_owned(), vec!["Content-Type: text/html".to_owned()], page.clone().into_bytes())
            }
            (None, Some(file)) => file.clone(),
            (None, None) => none,
        };
        fields.push(format!("Content-Length: {}", body.len()));
        let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        answer(&status, &fields, if is_head { b"" } else { &body })
    }
}

/// A server of a site that can be changed.
async fn serve(site: &Arc<Mutex<Site>>) -> Liar {
    let site = Arc::clone(site);
    Liar::start(move |_, head| vec![site.lock().unwrap().reply(head)]).await
}

/// Mirrors and gives the exit code, the report and what was said.
async fn report(desk: &Arc<Desk>, liar: &Liar, args: &[&str]) -> (Option<i32>, serde_json::Value, String) {
    let output = mirror(desk, &liar.address("t/").to_string(), &[&["--json"], args].concat()).await;
    let said = harmless(&output);
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or_default(), said)
}

const PARENT: &str = "<a href='../'>../</a>";

/// The listing showed a new time while the cache in front of the server still had the old file: the new time was taken
/// for that of the replica, and the file was never asked for again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listed_time_that_a_cache_does_not_serve_yet_is_asked_about_in_every_run() {
    // An hour is also the difference between two zones.
    for (listed, served) in
        [("13:00", "12:00:10"), ("12:59", "12:00:10"), ("12:01", "12:00:10"), ("12:00", "11:59:59")]
    {
        for is_known_before in [false, true] {
            let line = |time: &str| format!("<a href='f'>f</a>   02-Mar-2026 {time}   3");
            let old = format!("Mon, 02 Mar 2026 {served} GMT");
            let new = format!("Mon, 02 Mar 2026 {listed}:20 GMT");
            let site = Site::default().file("/t/f", b"old", &old);
            let before = site.clone().page("/t/", &[PARENT, &line(&served[..5])]);
            let stale = site.page("/t/", &[PARENT, &line(listed)]);
            let fresh = stale.clone().file("/t/f", b"new", &new);
            let (desk, shared) = (Arc::new(Desk::new()), Arc::new(Mutex::new(before)));
            let liar = serve(&shared).await;
            if is_known_before {
                report(&desk, &liar, &[]).await;
            }
            *shared.lock().unwrap() = stale;
            for _ in 0..2 {
                let (code, told, said) = report(&desk, &liar, &[]).await;
                assert_eq!((code, desk.read("replica/f")), (Some(0), b"old".to_vec()), "{told} {said}");
            }
            *shared.lock().unwrap() = fresh;
            let context = format!("listed {listed}, served {served}, {is_known_before}");
            let (_, told, _) = report(&desk, &liar, &[]).await;
            assert_eq!(desk.read("replica/f"), b"new", "{context}: {told}");
            // Listing and version agree: nothing more is asked.
            let before = liar.heard().len();
            let (_, told, _) = report(&desk, &liar, &[]).await;
            assert_eq!(
                (liar.heard().len() - before, &told["counts"]["up_to_date"]),
                (1, &1.into()),
                "{context}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_file_that_its_own_url_calls_missing_is_removed() {
    let date = "Mon, 02 Mar 2026 12:00:00 GMT";
    let names = ["kept", "gone", "gone-410", "unlisted", "broken", "moved"];
    let line = |name: &str| format!("<a href='{name}'>{name}</a>   02-Mar-2026 12:00   1");
    let lines: Vec<String> = std::iter::once(PARENT.to_owned()).chain(names.map(line)).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let site = names.iter().fold(Site::default(), |site, name| site.file(&format!("/t/{name}"), b"x", date));
    let site = site.page("/t/", &lines).page("/login", &["please log in"]);
    let (desk, shared) = (Arc::new(Desk::new()), Arc::new(Mutex::new(site.clone())));
    let liar = serve(&shared).await;
    assert_eq!(report(&desk, &liar, &[]).await.0, Some(0));
    let mut now = site
        .page("/t/", &[PARENT, &line("kept")])
        .answers("/t/gone-410", "410 Gone", &[], b"")
        .answers("/t/broken", "500 Internal Server Error", &[], b"")
        .answers("/t/moved", "302 Found", &["Location: /login"], b"");
    now.files.remove("/t/gone");
    // HEAD says 404 to everything, as some servers do: GET decides.
    for rejects_head in [true, false] {
        let site = Site { rejects_head, ..now.clone() };
        *shared.lock().unwrap() = site;
        let all = ["--delete", "--max-delete", "100%"];
        let (code, plan, said) = report(&desk, &liar, &[&all[..], &["--dry-run"]].concat()).await;
        assert_eq!(code, Some(6), "{said}");
        let (code, told, said) = report(&desk, &liar, &all).await;
        assert_eq!(code, Some(6), "{said}");
        assert_eq!(told["deleted"], plan["deleted"], "the plan is what happens");
        assert_eq!(desk.files(), ["replica/broken", "replica/kept", "replica/moved", "replica/unlisted"]);
        assert_eq!(told["kept"], serde_json::json!(["broken", "moved", "unlisted"]), "{told}");
        assert!(said.contains("it does not show 2 files that exist"), "{said}");
        assert!(said.contains("broken: not removed") && said.contains("500"), "{said}");
        // Again for the other half.
        fs::write(desk.path("replica/gone"), "x").unwrap();
        fs::write(desk.path("replica/gone-410"), "x").unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_tags_and_without_times_is_not_pulled_from_twice() {
    for tag in ["\"one\"", "W/\"one\""] {
        let site = Site::default().page("/t/", &[PARENT, "<a href='f'>f</a>"]).answers(
            "/t/f",
            "200 OK",
            &[&format!("ETag: {tag}")],
            b"abc",
        );
        let (desk, shared) = (Arc::new(Desk::new()), Arc::new(Mutex::new(site.clone())));
        let liar = serve(&shared).await;
        report(&desk, &liar, &[]).await;
        let (_, again, said) = report(&desk, &liar, &[]).await;
        assert_eq!(again["counts"]["up_to_date"], 1, "{tag}: {again} {said}");
        assert_eq!(again["totals"]["bytes"], 0, "{tag}: {again}");
        *shared.lock().unwrap() = site.answers("/t/f", "200 OK", &["ETag: \"two\""], b"xyz");
        report(&desk, &liar, &[]).await;
        assert_eq!(desk.read("replica/f"), b"xyz");
    }
}

/// No time and no tag anywhere but in the listing: its statement is what there is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_states_times_in_its_listing_only_is_not_pulled_from_twice() {
    let line = |time: &str| format!("<a href='f'>f</a>   02-Mar-2026 {time}   3");
    let site = Site::default().answers("/t/f", "200 OK", &[], b"abc");
    let first = site.clone().page("/t/", &[PARENT, &line("12:00")]);
    let (desk, shared) = (Arc::new(Desk::new()), Arc::new(Mutex::new(first)));
    let liar = serve(&shared).await;
    report(&desk, &liar, &[]).await;
    let (_, again, said) = report(&desk, &liar, &[]).await;
    assert_eq!((&again["counts"]["up_to_date"], &again["totals"]["bytes"]), (&1.into(), &0.into()), "{said}");
    let site = site.answers("/t/f", "200 OK", &[], b"xyz");
    *shared.lock().unwrap() = site.page("/t/", &[PARENT, &line("12:01")]);
    report(&desk, &liar, &[]).await;
    assert_eq!(desk.read("replica/f"), b"xyz");
}

/// Express and others list folders like files; the redirect of a folder tells.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn folders_listed_like_files_are_mirrored_whatever_the_flags() {
    let date = "Mon, 02 Mar 2026 12:00:00 GMT";
    let li = |href: &str| format!("<li><a href=\"{href}\"><span>{href}</span></a></li>");
    let moved = |to: &str| format!("Location: {to}");
    let site = Site::default()
        .page("/t/", &[&li("/t/a.gwf"), &li("/t/sub.gwf"), &li("/t/plain"), &li("/t/z.txt")])
        .page("/t/plain/", &[&li("/t/plain/b.gwf"), &li("/t/plain/c.txt")])
        .page("/t/sub.gwf/", &[&li("/t/sub.gwf/d.gwf")])
        .answers("/t/plain", "301 Moved Permanently", &[&moved("/t/plain/")], b"")
        .answers("/t/sub.gwf", "301 Moved Permanently", &[&moved("/t/sub.gwf/")], b"");
    let files = ["a.gwf", "z.txt", "plain/b.gwf", "plain/c.txt", "sub.gwf/d.gwf"];
    let site = files.iter().fold(site, |site, path| site.file(&format!("/t/{path}"), path.as_bytes(), date));
    let liar = serve(&Arc::new(Mutex::new(site))).await;
    for (flags, expected) in [
        (&[][..], 5),
        (&["--include", "*.gwf"], 3),
        (&["--compare", "size"], 5),
        (&["--compare", "exists"], 5),
        (&["--max-transfer", "1M"], 5),
        (&["--max-age", "100000d"], 5),
        (&["--connections", "3"], 5),
        (&["--delete", "--max-delete", "100%"], 5),
    ] {
        let desk = Arc::new(Desk::new());
        let (code, plan, said) = report(&desk, &liar, &[flags, &["--dry-run"]].concat()).await;
        assert_eq!(
            (code, &plan["counts"]["planned"]),
            (Some(0), &expected.into()),
            "{flags:?} {plan} {said}"
        );
        for pulled in [expected, 0] {
            let (code, told, said) = report(&desk, &liar, flags).await;
            assert_eq!(
                (code, &told["counts"]["pulled"]),
                (Some(0), &pulled.into()),
                "{flags:?} {told} {said}"
            );
            assert_eq!(told["counts"]["files"], expected, "{flags:?}");
        }
        assert_eq!(desk.files().len(), expected, "{flags:?}");
    }
}
