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

use std::fs;
use std::process::Output;
use std::sync::Arc;

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
        assert_eq!(desk.files(), ["replica/good"]);
    }
    let output = mirror(&desk, &liar.address("pub/").to_string(), &["--json", "--dry-run"]).await;
    harmless(&output);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_name_is_one_name() {
    let page = "<html><body><a href='CON'>x</a> <a href='good'>x</a></body></html>";
    let (desk, liar) = (Arc::new(Desk::new()), liar(page).await);
    let output = mirror(&desk, &liar.address("pub/").to_string(), &[]).await;
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
    liar.now(Script::honest(b"file").sends(Sends::Bytes(lines)));
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
