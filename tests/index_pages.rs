//! Which pages `stroll mirror` takes for the index of a folder: those of real servers, and nothing else.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]
#![allow(clippy::disallowed_methods, reason = "servers are waited for")]

#[path = "common/desk.rs"]
mod desk;
#[path = "common/ftpd.rs"]
mod ftpd;
#[path = "common/lying_http.rs"]
mod lying_http;
#[path = "common/origin.rs"]
mod origin;
#[path = "common/web.rs"]
mod web;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use desk::Desk;
use lying_http::{Liar, answer};
use origin::{Origin, Server};

const NAMES: [&str; 6] = ["frame-2026-11-18T12:00:00.gwf", "a b", "100%", "semi;colon", "C:", "漢字.dat"];

fn mirror(desk: &Desk, url: &str, more: &[&str]) -> Output {
    let args = [&["mirror", url, "replica", "--retries", "0", "--progress", "none"], more].concat();
    desk.stroll(&args).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Files with hard names, a folder, and an empty one.
fn plant(root: &Path) {
    for name in NAMES {
        fs::write(root.join("tree").join(name), name).unwrap();
    }
    fs::write(root.join("tree/sub/deep"), "deep").unwrap();
}

fn folders(root: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    for folder in ["tree", "tree/sub", "tree/empty"] {
        fs::create_dir(root.join(folder)).unwrap();
        fs::set_permissions(root.join(folder), fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[track_caller]
fn assert_replica(desk: &Desk) {
    for name in NAMES {
        assert_eq!(desk.read(&format!("replica/{name}")), name.as_bytes(), "{name}");
    }
    assert_eq!(desk.read("replica/sub/deep"), b"deep");
    assert_eq!(desk.files().len(), NAMES.len() + 1, "{:?}", desk.files());
}

/// An `index.html` replaces the listing of a folder: the folder cannot be listed any more, and nothing is removed.
fn an_added_page_is_an_error_and_removes_nothing(server: Server) {
    let (desk, origin) = (Desk::new(), Origin::start(server));
    folders(&origin.root());
    plant(&origin.root());
    let url = origin.url("tree/");
    let first = mirror(&desk, &url, &[]);
    assert!(first.status.success(), "{}", said(&first));
    assert_replica(&desk);
    for page in [
        "<html><body><h1>Welcome</h1></body></html>",
        "<html><head><title>Our data</title></head><body><p>Start with <a href=\"a%20b\">a b</a>.</p></body></html>",
    ] {
        fs::write(origin.root().join("tree/index.html"), page).unwrap();
        let again = mirror(&desk, &url, &["--delete", "--max-delete", "100%"]);
        assert!(!again.status.success(), "{server:?}");
        assert!(said(&again).contains("not an index page"), "{server:?}: {}", said(&again));
        assert_replica(&desk);
    }
    // The same below the root.
    fs::remove_file(origin.root().join("tree/index.html")).unwrap();
    fs::write(origin.root().join("tree/sub/index.html"), "<html><body>It works!</body></html>").unwrap();
    let again = mirror(&desk, &url, &["--delete", "--max-delete", "100%"]);
    assert!(!again.status.success() && said(&again).contains("sub"), "{}", said(&again));
    assert_replica(&desk);
}

#[test]
fn a_page_added_at_nginx_is_an_error_and_removes_nothing() {
    an_added_page_is_an_error_and_removes_nothing(Server::Nginx);
}

#[test]
fn a_page_added_at_caddy_is_an_error_and_removes_nothing() {
    an_added_page_is_an_error_and_removes_nothing(Server::Caddy);
}

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn python_is_mirrored_with_its_empty_folders() {
    let (desk, root) = (Desk::new(), tempfile::tempdir().unwrap());
    folders(root.path());
    plant(root.path());
    let port = ftpd::free_port();
    let mut server = Command::new("python3");
    server.args(["-m", "http.server", "--bind", "127.0.0.1", &port.to_string(), "-d"]).arg(root.path());
    let _server = Ended(server.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    for _ in 0..500 {
        if TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).is_ok() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = mirror(&desk, &format!("http://127.0.0.1:{port}/tree/"), &[]);
    assert!(output.status.success(), "{}", said(&output));
    assert_replica(&desk);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_no_index_is_an_error_and_says_what_to_do() {
    const LOGIN: &str = "<html><title>Sign in</title><body><form><input type=password></form></body></html>";
    const APP: &str = "<html><head><title>Files</title><script src=/app.js></script></head><body><div id=root></div></body></html>";
    for (kind, body) in [
        ("text/html", LOGIN),
        ("text/html; charset=utf-8", APP),
        ("text/html", "<html><body><h1>It works!</h1></body></html>"),
        ("text/html", ""),
        ("text/plain", "a.dat\nb.dat\n"),
        ("image/png", "png"),
        ("application/xml", "<ListBucketResult></ListBucketResult>"),
        ("application/json", "{\"files\": []}"),
        ("application/json", "[{\"login\": \"ada\", \"id\": 1}]"),
    ] {
        let desk = Arc::new(Desk::new());
        let liar = Liar::start(move |_, _| {
            let fields = [format!("Content-Type: {kind}"), format!("Content-Length: {}", body.len())];
            vec![answer("200 OK", &[&fields[0], &fields[1]], body.as_bytes())]
        })
        .await;
        fs::create_dir_all(desk.path("replica")).unwrap();
        fs::write(desk.path("replica/kept"), "x").unwrap();
        let url = liar.address("pub/").to_string();
        let here = Arc::clone(&desk);
        let run = move || mirror(&here, &url, &["--delete", "--max-delete", "100%"]);
        let output = tokio::task::spawn_blocking(run).await.unwrap();
        let said = said(&output);
        assert!(!output.status.success(), "{kind} {body}: {said}");
        assert!(said.contains("not an index page") && said.contains("stroll get"), "{kind} {body}: {said}");
        assert_eq!(desk.files(), ["replica/kept"]);
    }
}
