//! `stroll get` of files that change at the source, of partial files that change here, and from sources that break or say
//! little: a file that is complete is one version, and a source that cannot do better is not asked for ever.

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
#[path = "common/web.rs"]
mod web;

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use desk::{Desk, Running, noise};
use ftpd::Ftpd;
use lying_http::{Liar, Step, answer};
use rustix::process::Signal;
use web::{Kind, Web};

const MIB: usize = 1 << 20;

/// Writes over a file as it stands, so that a server that has it open sends the new bytes.
fn rewrite(path: &Path, bytes: &[u8]) {
    File::options().write(true).open(path).unwrap().write_all_at(bytes, 0).unwrap();
}

fn set_modified(path: &Path, time: SystemTime) {
    File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

/// The partial file, if there is one.
fn part(desk: &Desk) -> Option<PathBuf> {
    let is_part = |name: &String| Path::new(name).extension().is_some_and(|ending| ending == "part");
    desk.files().into_iter().find(is_part).map(|name| desk.path(&name))
}

/// Starts a get and kills it when it has kept some bytes.
fn killed(desk: &Desk, args: &[&str]) {
    let mut running = desk.start(args);
    running.wait_for("opened");
    thread::sleep(Duration::from_millis(1_500));
    running.signal(Signal::KILL);
    running.end();
    assert!(fs::metadata(part(desk).unwrap()).unwrap().len() > 0, "nothing was kept");
}

fn opened_with(running: &mut Running) -> u64 {
    running.wait_for("opened")["have"].as_u64().unwrap()
}

async fn get(desk: &Arc<Desk>, args: &[&str]) -> Output {
    let (desk, args) = (Arc::clone(desk), args.iter().map(ToString::to_string).collect::<Vec<_>>());
    let get = move || desk.get(&args.iter().map(String::as_str).collect::<Vec<_>>());
    tokio::task::spawn_blocking(get).await.unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// One answer, one piece of a range, several connections: whichever way the old bytes come, they are not kept.
#[test]
fn a_file_that_is_rewritten_in_place_during_a_get_is_the_new_one() {
    for (kind, age_s) in
        [(Kind::Nginx, 1_000), (Kind::Nginx, 0), (Kind::Apache, 1_000), (Kind::Lighttpd, 1_000)]
    {
        let (web, old) = (Web::start(kind), noise(1, 12 * MIB));
        let ways = [
            ("a", &[][..]),
            ("b", &["--chunk", "1M"]),
            ("c", &["--connections", "3"]),
            ("d", &["--retries", "0"]),
        ];
        for (name, _) in ways {
            web.put(name, &old, age_s);
        }
        thread::scope(|scope| {
            for (name, flags) in ways {
                let web = &web;
                scope.spawn(move || {
                    let (desk, new) = (Desk::new(), noise(2, 12 * MIB));
                    let address = web.http(name).to_string();
                    let mut running = desk.start(&[flags, &["--bwlimit", "4M", &address]].concat());
                    running.wait_for("opened");
                    thread::sleep(Duration::from_millis(if age_s == 0 { 3_500 } else { 1_500 }));
                    rewrite(&web.path(name), &new);
                    let (code, said) = running.end();
                    assert_eq!(code, Some(0), "{kind:?} {flags:?}: {said}");
                    assert!(desk.read(name) == new, "{kind:?} {flags:?}: mixed or old");
                    assert!(said.contains("restarted"), "{said}");
                });
            }
        });
    }
}

#[test]
fn a_resume_does_not_mix_two_versions_of_one_size_and_second() {
    let web = Web::start(Kind::Nginx);
    let ftp = Ftpd::start(ftpd::Kind::Vsftpd);
    let now_s = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let (old, mut new) = (noise(3, 6 * MIB), noise(3, 6 * MIB));
    // The end of what the first run keeps is the same, so a look at the tail alone would not tell.
    new[..100].fill(7);
    new[5 * MIB..].fill(7);
    web.put("f", &old, 5);
    ftp.put("f", &old, now_s - 5);
    let desks = [Desk::new(), Desk::new()];
    let password = desks[1].private("password", "right\n").display().to_string();
    let (http, ftp_address) = (web.http("f").to_string(), ftp.address("f").to_string());
    let all: [(&[&str], &Path); 2] = [
        (&[&http], &web.path("f")),
        (&["--user", "anonymous", "--password-file", &password, &ftp_address], &ftp.root().join("f")),
    ];
    for (desk, (args, place)) in desks.iter().zip(all) {
        let modified = fs::metadata(place).unwrap().modified().unwrap();
        killed(desk, &[args, &["--bwlimit", "1M"]].concat());
        fs::write(place, &new).unwrap();
        set_modified(place, modified);
        let said = desk.pulls(args);
        assert!(desk.read("f") == new, "{args:?}: mixed");
        assert!(said.contains("less than a minute old"), "{said}");
    }
}

type Harm = fn(&File);

#[test]
fn a_part_that_was_changed_or_cut_or_made_longer_is_made_right() {
    let web = Web::start(Kind::Nginx);
    let bytes = noise(4, 6 * MIB);
    web.put("f", &bytes, 1_000);
    let address = web.http("f").to_string();
    let harms: [(&str, Harm); 4] = [
        ("four bytes", |part| part.write_all_at(b"oops", 70_000).unwrap()),
        ("four bytes at the end", |part| {
            let end = part.metadata().unwrap().len();
            part.write_all_at(b"oops", end - 4).unwrap();
        }),
        ("cut", |part| part.set_len(600_000).unwrap()),
        ("longer", |part| part.set_len(6 << 20).unwrap()),
    ];
    for (what, harm) in harms {
        let desk = Desk::new();
        killed(&desk, &["--bwlimit", "1500k", &address]);
        harm(&File::options().write(true).open(part(&desk).unwrap()).unwrap());
        desk.pulls(&[&address]);
        assert!(desk.read("f") == bytes, "{what}");
    }
    // One that nothing happened to goes on.
    let desk = Desk::new();
    killed(&desk, &["--bwlimit", "1500k", &address]);
    let mut running = desk.start(&[&address]);
    assert!(opened_with(&mut running) > 0);
    assert_eq!(running.end().0, Some(0));
    assert!(desk.read("f") == bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_that_closes_early_and_cannot_resume_is_asked_as_often_as_allowed() {
    let bodies = [
        ("Content-Length: 1000000", noise(5, 400_000)),
        ("Transfer-Encoding: chunked", [b"7a120\r\n".to_vec(), noise(5, 400_000)].concat()),
    ];
    for (length, body) in bodies {
        let desk = Arc::new(Desk::new());
        let steps = vec![answer("200 OK", &[length], &body), Step::Close];
        let liar = Liar::always(steps).await;
        let output = get(&desk, &["--retries", "1", &liar.address("f").to_string()]).await;
        let said = said(&output);
        assert!(!output.status.success(), "{said}");
        assert_eq!(liar.heard().len(), 2, "{said}");
        assert!(said.contains("after 400000") && said.contains("does not support resuming"), "{said}");
        assert!(!said.contains("another version"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_that_gives_a_little_more_each_time_is_asked_until_it_is_all_there() {
    let (desk, bytes) = (Arc::new(Desk::new()), noise(6, 3_000));
    let file = bytes.clone();
    let liar = Liar::start(move |_, head| {
        let head = head.to_ascii_lowercase();
        let from = head.split("range: bytes=").nth(1).and_then(|rest| rest.split('-').next()?.parse().ok());
        let from: usize = from.unwrap_or(0);
        let tag = "ETag: \"a\"".to_owned();
        if head.starts_with("head") {
            return vec![answer("200 OK", &["Content-Length: 3000", &tag], b"")];
        }
        let (status, range) = if from == 0 {
            ("200 OK", "Accept-Ranges: bytes".to_owned())
        } else {
            ("206 Partial Content", format!("Content-Range: bytes {from}-2999/3000"))
        };
        let length = format!("Content-Length: {}", 3_000 - from);
        vec![answer(status, &[&length, &range, &tag], &file[from..3_000.min(from + 1_000)]), Step::Close]
    })
    .await;
    let output = get(&desk, &["--retries", "1", &liar.address("f").to_string()]).await;
    assert!(output.status.success(), "{}", said(&output));
    assert!(desk.read("f") == bytes);
}

/// A file that takes longer than a moment, with these header fields.
fn slow_file(fields: &[&str], bytes: &[u8]) -> Vec<Step> {
    let (start, end) = bytes.split_at(bytes.len() / 2);
    vec![answer("200 OK", fields, start), Step::Wait(Duration::from_millis(150)), Step::Say(end.to_vec())]
}

/// What HEAD says is believed only as far as GET agrees.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heads_that_are_rejected_or_wrong_or_never_answered_do_no_harm() {
    const DATE: &str = "Last-Modified: Tue, 14 Nov 2023 22:13:20 GMT";
    let heads: [(&str, Vec<Step>); 8] = [
        ("says little", vec![answer("200 OK", &[], b"")]),
        ("says nothing of the length", vec![answer("200 OK", &["Content-Length: 0", DATE], b"")]),
        ("says another date", vec![answer("200 OK", &["Last-Modified: Tue, 14 Nov 2023 22:13:21 GMT"], b"")]),
        ("403", vec![answer("403 Forbidden", &["Content-Length: 0"], b"")]),
        ("400", vec![answer("400 Bad Request", &["Content-Length: 0"], b""), Step::Close]),
        ("501", vec![answer("501 Not Implemented", &["Content-Length: 0"], b"")]),
        ("hangs", vec![Step::Stall]),
        ("closes", vec![Step::Close]),
    ];
    for (what, head) in heads {
        for connections in ["1", "2"] {
            let (desk, bytes) = (Arc::new(Desk::new()), noise(7, 100_000));
            let (head, file) = (head.clone(), bytes.clone());
            let liar = Liar::start(move |_, request| {
                if request.starts_with("HEAD") {
                    return head.clone();
                }
                slow_file(&["Content-Length: 100000", DATE], &file)
            })
            .await;
            let args = ["--retries", "0", "--timeout", "2s", "--connections", connections];
            let output = get(&desk, &[&args[..], &[&liar.address("f").to_string()]].concat()).await;
            assert!(output.status.success(), "{what}: {}", said(&output));
            assert!(desk.read("f") == bytes, "{what}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stored_encodings_are_kept_and_others_are_an_error() {
    for (name, is_kept) in [("f.gz", true), ("f.csv", false)] {
        let (desk, bytes) = (Arc::new(Desk::new()), noise(8, 50_000));
        let file = bytes.clone();
        let liar = Liar::start(move |number, head| {
            let fields = ["Content-Encoding: gzip", "ETag: \"a\"", "Accept-Ranges: bytes"];
            if number == 0 {
                let whole = [&fields[..], &["Content-Length: 50000"]].concat();
                return vec![answer("200 OK", &whole, &file[..20_000]), Step::Close];
            }
            if head.starts_with("HEAD") {
                let whole = [&fields[..], &["Content-Length: 50000"]].concat();
                return vec![answer("200 OK", &whole, b"")];
            }
            let rest =
                [&fields[..], &["Content-Length: 30000", "Content-Range: bytes 20000-49999/50000"]].concat();
            vec![answer("206 Partial Content", &rest, &file[20_000..])]
        })
        .await;
        let output = get(&desk, &[&liar.address(name).to_string()]).await;
        assert_eq!(output.status.success(), is_kept, "{}", said(&output));
        if is_kept {
            assert!(desk.read(name) == bytes);
        } else {
            assert!(said(&output).contains("Content-Encoding: gzip"), "{}", said(&output));
            assert_eq!(desk.files(), [""; 0]);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_part_is_left_where_no_byte_came() {
    let desk = Arc::new(Desk::new());
    for status in
        ["404 Not Found", "403 Forbidden", "410 Gone", "429 Too Many Requests", "500 Oops", "401 Who"]
    {
        let liar = Liar::always(vec![answer(status, &["Content-Length: 0"], b"")]).await;
        let output = get(&desk, &["--retries", "0", &liar.address("f").to_string()]).await;
        assert!(!output.status.success());
        assert!(said(&output).contains(&format!("HTTP {}", &status[..3])), "{status}: {}", said(&output));
        assert_eq!(desk.files(), [""; 0], "{status}");
    }
    let away = answer("302 Found", &["Location: http://other.example/f", "Content-Length: 0"], b"");
    let liar = Liar::always(vec![away]).await;
    let not_tls = liar.address("f").to_string().replace("http:", "https:");
    let stalls = Liar::always(vec![Step::Stall]).await;
    for address in [liar.address("f").to_string(), not_tls, stalls.address("f").to_string()] {
        let args = ["--retries", "0", "--timeout", "1s", &address];
        assert!(!get(&desk, &args).await.status.success());
        assert_eq!(desk.files(), [""; 0], "{address}");
    }
    for (verb, reply) in [("PASS", "530 no"), ("RETR", "550 no"), ("", "421 too many")] {
        let liar = lying_ftp::Liar::start(lying_ftp::Script::honest(b"bytes").says(verb, reply)).await;
        let output = get(&desk, &["--retries", "0", &liar.address("f").to_string()]).await;
        assert!(!output.status.success(), "{verb}");
        assert_eq!(desk.files(), [""; 0], "{verb} {reply}: {}", said(&output));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_to_stop_before_the_first_byte_leaves_nothing() {
    let desk = Desk::new();
    let liar = Liar::always(vec![Step::Stall]).await;
    let running = desk.start(&[&liar.address("f").to_string()]);
    while liar.heard().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    running.signal(Signal::INT);
    let (code, said) = tokio::task::spawn_blocking(move || running.end()).await.unwrap();
    assert_ne!(code, Some(0), "{said}");
    assert_eq!(desk.files(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_length_that_is_never_sent_takes_no_room() {
    let desk = Desk::new();
    let head = answer("200 OK", &["Content-Length: 3000000000", "Accept-Ranges: bytes"], &noise(9, 1_000));
    let liar = Liar::always(vec![head, Step::Wait(Duration::from_millis(700)), Step::Close]).await;
    let mut running = desk.start(&["--retries", "0", &liar.address("f").to_string()]);
    running.wait_for("opened");
    let begun = Instant::now();
    let mut most = 0;
    while begun.elapsed() < Duration::from_millis(500) {
        if let Some(Ok(part)) = part(&desk).map(fs::metadata) {
            most = most.max(part.blocks() * 512);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(most < 70 << 20, "{most} bytes were taken");
    let (code, said) = tokio::task::spawn_blocking(move || running.end()).await.unwrap();
    assert_ne!(code, Some(0));
    assert!(said.contains("closed after 1000 of 3000000000 bytes"), "{said}");
    let left = fs::metadata(part(&desk).unwrap()).unwrap();
    assert!(left.len() == 1_000 && left.blocks() * 512 <= 64 << 10, "{left:?}");
}

/// As archives do: every answer leads to another signature, at a host that must not learn who asks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_presigned_redirect_is_followed_and_resumed_without_credentials() {
    let (desk, bytes) = (Arc::new(Desk::new()), noise(10, 200_000));
    let file = bytes.clone();
    let store = Liar::start_at("127.0.0.2:0", move |_, head| {
        let head = head.to_ascii_lowercase();
        if head.starts_with("head") {
            return vec![answer("403 Forbidden", &["Content-Length: 0"], b"")];
        }
        if head.contains("range: bytes=0-0") {
            return vec![answer(
                "206 Partial Content",
                &["Content-Range: bytes 0-0/200000", "ETag: \"a\""],
                &file[..1],
            )];
        }
        if head.contains("if-range: \"a\"") {
            assert!(head.contains("range: bytes=150000-"), "{head}");
            let fields = ["Content-Range: bytes 150000-199999/200000", "ETag: \"a\""];
            return vec![answer("206 Partial Content", &fields, &file[150_000..]), Step::Close];
        }
        vec![answer("200 OK", &["Content-Length: 200000", "ETag: \"a\""], &file[..150_000]), Step::Close]
    })
    .await;
    let at = store.at;
    let source = Liar::start(move |number, _| {
        let to = format!("Location: http://{at}/object?X-Amz-Signature={number}");
        vec![answer("307 Temporary Redirect", &[&to, "Content-Length: 0"], b"")]
    })
    .await;
    let hosts = "machine 127.0.0.1 login ada password secret\nmachine 127.0.0.2 login eve password other\n";
    let netrc = desk.private(".netrc", hosts);
    let address = source.address("f").to_string();
    let args = ["--netrc-file", netrc.to_str().unwrap(), "--follow-to", "127.0.0.2", &address];
    let output = get(&desk, &args).await;
    assert!(output.status.success(), "{}", said(&output));
    assert!(desk.read("f") == bytes);
    assert!(source.heard().concat().to_ascii_lowercase().contains("authorization: basic"));
    let heard = store.heard().concat().to_ascii_lowercase();
    assert!(
        !heard.contains("authorization") && !heard.contains("cookie") && !heard.contains("referer"),
        "{heard}"
    );
    assert!(heard.contains("signature=0") && heard.contains("signature=1"), "{heard}");
    let refused = said(&get(&desk, &["-o", "g", &address]).await);
    assert!(refused.contains("--follow-to 127.0.0.2") && !refused.contains("Signature"), "{refused}");
}

/// A folder at another host, to which everything is redirected: listings as well as files, for every command.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_command_follows_redirects_to_the_hosts_that_are_named_and_to_no_other() {
    let store = Liar::start_at("127.0.0.2:0", |_, head| {
        let is_folder = head.lines().next().unwrap().contains("/ HTTP");
        let page = "<h1>Index of /data/</h1><pre><a href=\"../\">../</a>\n<a href=\"f\">f</a> 06-Nov-1994 08:49 5\n</pre>";
        let body: &[u8] = if is_folder { page.as_bytes() } else { b"bytes" };
        let kind = if is_folder { "Content-Type: text/html" } else { "Content-Type: x/y" };
        let fields = [kind, &format!("Content-Length: {}", body.len()), "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT"];
        vec![answer("200 OK", &fields, if head.starts_with("HEAD") { b"" } else { body })]
    })
    .await;
    let at = store.at;
    let source = Liar::start(move |_, head| {
        let path = head.split(' ').nth(1).unwrap();
        vec![answer("302 Found", &[&format!("Location: http://{at}{path}"), "Content-Length: 0"], b"")]
    })
    .await;
    let (folder, file) = (source.address("data/").to_string(), source.address("data/f").to_string());
    for (args, name) in [
        (&["get", "-o", "f", &file][..], "f"),
        (&["mirror", &folder, "replica"], "replica/f"),
        (&["subscribe", &folder, "in", "--since", "all", "--settle", "0s", "--poll", "1s"], "in/f"),
    ] {
        for hosts in ["", "127.0.0.2"] {
            let desk = Desk::new();
            let mut command = desk.stroll(args);
            command.args(["--retries", "0", "--max-duration", "3s"]);
            if !hosts.is_empty() {
                command.env("STROLL_FOLLOW_TO", hosts);
            }
            let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
            let said = said(&output);
            if hosts.is_empty() {
                assert!(said.contains("allow it with --follow-to 127.0.0.2"), "{args:?}: {said}");
                assert!(!output.status.success() && desk.files().is_empty(), "{args:?}: {said}");
            } else {
                assert!(desk.path(name).exists(), "{args:?}: {said}");
                assert_eq!(desk.read(name), b"bytes", "{args:?}");
            }
        }
    }
}

#[test]
fn a_server_that_restarts_is_back_within_seconds() {
    let (mut web, desk, bytes) = (Web::start(Kind::Nginx), Desk::new(), noise(11, 8 * MIB));
    web.put("f", &bytes, 1_000);
    let mut running = desk.start(&["--bwlimit", "2M", &web.http("f").to_string()]);
    running.wait_for("opened");
    thread::sleep(Duration::from_millis(800));
    web.stop();
    thread::sleep(Duration::from_secs(2));
    web.start_again();
    let begun = Instant::now();
    let (code, said) = running.end();
    assert_eq!(code, Some(0), "{said}");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?} {said}", begun.elapsed());
    assert!(desk.read("f") == bytes && !said.contains("restarted"), "{said}");
}

#[test]
fn an_unreachable_or_failing_proxy_is_named() {
    let (desk, web) = (Desk::new(), Web::start(Kind::Nginx));
    let port = ftpd::free_port();
    let proxy = format!("http://ada:secret@127.0.0.1:{port}");
    let shown = format!("through the proxy http://127.0.0.1:{port}: ");
    for args in [
        &["--proxy", &proxy, "--retries", "0", "http://source.example/f"][..],
        &["--proxy", &proxy, "--retries", "0", "https://source.example/f"],
    ] {
        let said = said(&desk.get(args));
        assert!(said.contains(&shown) && said.contains("refused") && !said.contains("secret"), "{said}");
    }
    let output =
        desk.command(&["--retries", "0", "http://source.example/f"]).env("http_proxy", &proxy).output();
    let said_of_it = said(&output.unwrap());
    assert!(said_of_it.contains(&shown), "{said_of_it}");
    let wrong = said(&desk.get(&["--proxy", "http://", "--retries", "0", &web.http("f").to_string()]));
    assert!(wrong.contains("invalid proxy URL: "), "{wrong}");
}
