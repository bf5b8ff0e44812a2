//! `stroll get` from servers that lie: nothing of what they say reaches the terminal as it is, nothing wrong is kept.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]
#![allow(clippy::disallowed_methods, reason = "these tests are about real time")]

#[path = "common/desk.rs"]
mod desk;
#[path = "common/lying_ftp.rs"]
mod lying_ftp;
#[path = "common/lying_http.rs"]
mod lying_http;

use std::process::Output;
use std::sync::Arc;

use desk::{Desk, noise};
use lying_ftp::Script;
use lying_http::{Liar, Step, answer};

/// Runs a get beside the servers, which need their threads.
async fn get(desk: &Arc<Desk>, args: &[&str]) -> Output {
    let (desk, args) = (Arc::clone(desk), args.iter().map(ToString::to_string).collect::<Vec<_>>());
    tokio::task::spawn_blocking(move || desk.get(&args.iter().map(String::as_str).collect::<Vec<_>>()))
        .await
        .unwrap()
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

fn part(total: u64, from: u64, to: u64, etag: &str, body: &[u8]) -> Step {
    let range = format!("Content-Range: bytes {from}-{}/{total}", to - 1);
    let length = format!("Content-Length: {}", to - from);
    answer("206 Partial Content", &[&range, &length, &format!("ETag: {etag}")], body)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn words_of_a_web_server_are_escaped() {
    let desk = Arc::new(Desk::new());
    let rude = "\u{1b}]0;pwned\u{7}\u{1b}[2J\u{202e}";
    for status in ["500 \u{1b}[2J", "404 \u{1b}[31mno", "503 \u{1b}c", "401 \u{9b}2J", "302 \u{1b}[2J"] {
        let location = format!("Location: http://127.0.0.2/{rude}");
        let steps = vec![answer(status, &["Content-Length: 0", &location, "Retry-After: 0"], b"")];
        let liar = Liar::always(steps).await;
        for style in ["line", "json"] {
            let address = liar.address("f").to_string();
            let output = get(&desk, &[&address, "--retries", "0", "-vv", "--progress", style]).await;
            assert!(!output.status.success(), "{status:?}");
            harmless(&output);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn words_of_an_ftp_server_are_escaped_and_the_contact_is_the_password() {
    let desk = Arc::new(Desk::new());
    let rude = "550 \u{1b}[2J\u{1b}]0;pwned\u{7} no such file";
    for verb in ["SIZE", "RETR", "PASS", "TYPE", ""] {
        let script = Script::honest(b"bytes").says(verb, rude);
        let liar = lying_ftp::Liar::start(script).await;
        let address = liar.address("f").to_string();
        let output = get(&desk, &[&address, "--retries", "0", "-vv", "--ftp-tls", "off", "-o", "f"]).await;
        let said = harmless(&output);
        assert!(!said.contains('\u{1b}'), "{verb}: {said}");
    }
    let liar = lying_ftp::Liar::start(Script::honest(b"bytes")).await;
    let address = liar.address("f").to_string();
    let output = get(&desk, &[&address, "--contact", "ada@lab.example", "--ftp-tls", "off", "-o", "g"]).await;
    assert!(output.status.success(), "{}", harmless(&output));
    let heard = liar.heard();
    assert!(heard.iter().any(|line| line.trim() == "PASS ada@lab.example"), "{heard:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_breaks_is_continued_and_a_new_version_in_the_middle_begins_anew() {
    let (desk, old, new) = (Arc::new(Desk::new()), noise(40, 100_000), noise(41, 100_000));
    let (first, second) = (old.clone(), new.clone());
    let liar = Liar::start(move |number, head| match number {
        0 => vec![
            answer(
                "200 OK",
                &["Content-Length: 100000", "ETag: \"old\"", "Accept-Ranges: bytes"],
                &first[..60_000],
            ),
            Step::Reset,
        ],
        _ if head.contains("If-Range: \"old\"") || head.contains("if-range: \"old\"") => {
            vec![answer("200 OK", &["Content-Length: 100000", "ETag: \"new\""], &second), Step::Close]
        }
        _ => vec![answer("200 OK", &["Content-Length: 100000", "ETag: \"new\""], &second), Step::Close],
    })
    .await;
    let output = get(&desk, &[&liar.address("f").to_string()]).await;
    let said = harmless(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("starts anew"), "{said}");
    assert!(desk.read("f") == new, "mixed, or old");
    assert!(liar.heard()[1].to_ascii_lowercase().contains("if-range: \"old\""), "{:?}", liar.heard());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_contradicts_itself_is_exit_code_11_and_leaves_no_file() {
    let desk = Arc::new(Desk::new());
    let nonsense = [
        vec![answer("200 OK", &["Content-Length: 5", "Content-Encoding: gzip"], b"12345"), Step::Close],
        vec![part(100, 50, 60, "\"a\"", b"0123456789"), Step::Close],
        vec![answer("299 Strange", &["Content-Length: 0"], b""), Step::Close],
    ];
    for steps in nonsense {
        let liar = Liar::always(steps.clone()).await;
        let output = get(&desk, &[&liar.address("f").to_string(), "--retries", "0"]).await;
        assert_eq!(output.status.code(), Some(11), "{steps:?}: {}", harmless(&output));
        assert!(!desk.path("f").exists());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_chooses_no_name_and_no_other_host() {
    let desk = Arc::new(Desk::new());
    let named = answer(
        "200 OK",
        &["Content-Length: 5", "Content-Disposition: attachment; filename=\"../../.netrc\""],
        b"bytes",
    );
    let liar = Liar::always(vec![named, Step::Close]).await;
    assert!(get(&desk, &[&liar.address("f").to_string()]).await.status.success());
    assert_eq!(desk.files(), ["f"]);
    // Another host may be where the file is, but it never learns who we are.
    let third = Liar::always(vec![answer("200 OK", &["Content-Length: 1"], b"x"), Step::Close]).await;
    let away = format!("Location: http://localhost:{}/x", third.at.port());
    let liar = Liar::always(vec![answer("302 Found", &[&away, "Content-Length: 0"], b"")]).await;
    let password = desk.private("password", "secret\n");
    let login = ["--user", "ada", "--password-file", password.to_str().unwrap()];
    let address = liar.address("g").to_string();
    let allowed = ["--follow-to", "localhost", &address];
    let output = get(&desk, &[&login[..], &allowed].concat()).await;
    assert!(output.status.success(), "{}", harmless(&output));
    assert_eq!(desk.files(), ["f", "g"], "the name is that of the address that was asked for");
    let is_told =
        |heard: &[String]| heard.iter().any(|head| head.to_ascii_lowercase().contains("authorization"));
    assert!(is_told(&liar.heard()) && !is_told(&third.heard()), "{:?}", third.heard());
    for elsewhere in ["ftp://127.0.0.1/x", "file:///etc/passwd", "https://localhost/x"] {
        let away = format!("Location: {elsewhere}");
        let liar = Liar::always(vec![answer("302 Found", &[&away, "Content-Length: 0"], b"")]).await;
        let output = get(&desk, &[&liar.address("h").to_string()]).await;
        assert_eq!(output.status.code(), Some(7), "{elsewhere}: {}", harmless(&output));
    }
}
