//! HTTP sources that lie, stall, or are somebody else's hands. Each row of the list of threats that concerns HTTP is here.

#[path = "common/lying_http.rs"]
mod lying_http;

use std::sync::Arc;
use std::time::Duration;

use lying_http::{Liar, Step, answer, say};
use stroll::fetch::http::Http;
use stroll::fetch::{
    Address, Ask, Connection, Cut, Fault, Login, Opened, Options, Sameness, Secret, Version, tls,
};

/// Long enough for a loaded machine where something is to come, short where nothing is.
const SHORT: Duration = Duration::from_millis(1_500);
const LONG: Duration = Duration::from_secs(30);

fn options() -> Options {
    Options {
        answer_within: LONG,
        stall_after: LONG,
        ..Options::new(tls::client_config(None).expect("a configuration"))
    }
}

fn impatient() -> Options {
    Options { answer_within: SHORT, stall_after: SHORT, ..options() }
}

fn connect(options: Options) -> Http {
    Http::new(Arc::new(options)).expect("a connection")
}

fn known(etag: &str, size: u64) -> Version {
    Version { size: Some(size), etag: Some(etag.into()), ..Version::default() }
}

async fn pull(http: &mut Http, ask: Ask<'_>) -> Result<(Opened, Vec<u8>), Fault> {
    let opened = http.open(ask).await?;
    let mut bytes = Vec::new();
    while let Some(chunk) = http.read().await? {
        bytes.extend_from_slice(&chunk);
    }
    Ok((opened, bytes))
}

/// Asks for bytes 10 to 19, of a version of 100 bytes with the tag "a".
async fn resume(liar: &Liar) -> Result<(Opened, Vec<u8>), Fault> {
    let version = known("\"a\"", 100);
    let address = liar.address("file");
    pull(
        &mut connect(options()),
        Ask { address: &address, from: 10, length: Some(10), known: Some(&version) },
    )
    .await
}

async fn whole(liar: &Liar, options: Options) -> Result<(Opened, Vec<u8>), Fault> {
    let address = liar.address("file");
    pull(&mut connect(options), Ask { address: &address, from: 0, length: None, known: None }).await
}

fn is_nonsense<T: std::fmt::Debug>(result: &Result<T, Fault>) -> bool {
    matches!(result, Err(Fault::Nonsense(_)))
}

#[tokio::test]
async fn a_question_says_what_it_must_and_nothing_else() {
    let part = answer(
        "206 Partial Content",
        &["Content-Range: bytes 10-19/100", "Content-Length: 10"],
        b"0123456789",
    );
    let liar = Liar::always(vec![part]).await;
    let (opened, bytes) = resume(&liar).await.expect("right");
    assert_eq!((opened.from, bytes.as_slice()), (10, &b"0123456789"[..]));
    let heard = liar.heard().concat().to_ascii_lowercase();
    for line in [
        "range: bytes=10-19\r\n",
        "if-range: \"a\"\r\n",
        "accept-encoding: identity\r\n",
        "user-agent: stroll/",
    ] {
        assert!(heard.contains(line), "{line}: {heard}");
    }
    for word in ["authorization", "cookie", "referer", "gzip"] {
        assert!(!heard.contains(word), "{word}: {heard}");
    }
    let liar = Liar::always(vec![answer("200 OK", &["Content-Length: 2"], b"ok")]).await;
    whole(&liar, options()).await.expect("right");
    assert!(!liar.heard().concat().to_ascii_lowercase().contains("range"));
}

#[tokio::test]
async fn a_date_stands_in_for_a_tag() {
    let liar = Liar::always(vec![answer("404 Not Found", &["Content-Length: 0"], b"")]).await;
    let version = Version { size: Some(100), modified_s: Some(784_111_777), ..Version::default() };
    let address = liar.address("file");
    let ask = Ask { address: &address, from: 10, length: None, known: Some(&version) };
    assert!(matches!(connect(options()).open(ask).await, Err(Fault::NotFound(_))));
    let heard = liar.heard().concat().to_ascii_lowercase();
    assert!(heard.contains("range: bytes=10-\r\n"), "{heard}");
    assert!(heard.contains("if-range: sun, 06 nov 1994 08:49:37 gmt\r\n"), "{heard}");
}

#[tokio::test]
async fn a_wrong_range_is_nonsense() {
    for (range, length) in [
        ("bytes 0-9/100", 10),
        ("bytes 11-19/100", 9),
        ("bytes 10-20/100", 11),
        ("bytes 10-19/15", 10),
        ("bytes 19-10/100", 10),
        ("bytes 10-18446744073709551615/100", 10),
        ("lines 10-19/100", 10),
        ("", 10),
    ] {
        let fields = [format!("Content-Range: {range}"), format!("Content-Length: {length}")];
        let fields = fields.iter().map(String::as_str).collect::<Vec<_>>();
        let liar = Liar::always(vec![answer("206 Partial Content", &fields, &vec![b'x'; length])]).await;
        let result = resume(&liar).await;
        assert!(is_nonsense(&result), "{range}: {result:?}");
    }
}

#[tokio::test]
async fn several_ranges_at_once_are_nonsense() {
    let body = b"--x\r\nContent-Range: bytes 10-19/100\r\n\r\n0123456789\r\n--x--\r\n";
    let length = format!("Content-Length: {}", body.len());
    let fields = ["Content-Type: multipart/byteranges; boundary=x", &length];
    let liar = Liar::always(vec![answer("206 Partial Content", &fields, body)]).await;
    assert!(is_nonsense(&resume(&liar).await));
}

#[tokio::test]
async fn a_part_where_the_whole_was_asked_for_is_nonsense() {
    let part = answer("206 Partial Content", &["Content-Range: bytes 0-1/100", "Content-Length: 2"], b"ok");
    assert!(is_nonsense(&whole(&Liar::always(vec![part]).await, options()).await));
}

#[tokio::test]
async fn another_total_or_tag_is_a_change() {
    for fields in [
        &["Content-Range: bytes 10-19/101", "Content-Length: 10"][..],
        &["Content-Range: bytes 10-19/100", "Content-Length: 10", "ETag: \"b\""],
    ] {
        let liar = Liar::always(vec![answer("206 Partial Content", fields, b"0123456789")]).await;
        let result = resume(&liar).await;
        assert!(matches!(result, Err(Fault::Changed)), "{fields:?}: {result:?}");
    }
}

#[tokio::test]
async fn a_weak_tag_is_never_used() {
    let fields = ["Content-Length: 2", "ETag: W/\"a\"", "Accept-Ranges: bytes"];
    let (opened, _) =
        whole(&Liar::always(vec![answer("200 OK", &fields, b"ok")]).await, options()).await.expect("right");
    assert_eq!(opened.version.etag, None);
}

#[tokio::test]
async fn all_instead_of_a_part_starts_anew_and_says_so() {
    let fields = ["Content-Length: 100", "ETag: \"b\""];
    let liar = Liar::always(vec![answer("200 OK", &fields, &[b'x'; 100])]).await;
    let (opened, bytes) = resume(&liar).await.expect("another version");
    assert_eq!(
        (opened.from, opened.length, bytes.len()),
        (0, Some(20), 20),
        "no more than up to what was asked for"
    );
    assert_eq!(known("\"a\"", 100).compare(&opened.version), Sameness::Changed);
    assert!(!opened.ranges);
}

#[tokio::test]
async fn a_body_that_ends_early_is_broken() {
    for (fields, body) in [
        (&["Content-Length: 100"][..], &b"too short"[..]),
        (&["Transfer-Encoding: chunked"], b"9\r\ntoo short\r\n"),
        (&["Transfer-Encoding: chunked"], b"ff\r\ntoo short"),
    ] {
        let liar = Liar::always(vec![answer("200 OK", fields, body), Step::Close]).await;
        let result = whole(&liar, options()).await;
        assert!(matches!(result, Err(Fault::Broken(_))), "{fields:?}: {result:?}");
    }
    let fields = ["Content-Range: bytes 10-19/100", "Transfer-Encoding: chunked"];
    let liar = Liar::always(vec![answer("206 Partial Content", &fields, b"5\r\n01234\r\n0\r\n\r\n")]).await;
    let result = resume(&liar).await;
    assert!(matches!(result, Err(Fault::Broken(_))), "{result:?}");
}

#[tokio::test]
async fn more_than_promised_is_nonsense() {
    let fields = ["Content-Range: bytes 10-19/100", "Transfer-Encoding: chunked"];
    let liar = Liar::always(vec![answer(
        "206 Partial Content",
        &fields,
        b"14\r\n01234567890123456789\r\n0\r\n\r\n",
    )])
    .await;
    assert!(is_nonsense(&resume(&liar).await));
}

#[tokio::test]
async fn a_length_that_contradicts_the_range_is_nonsense() {
    for length in ["Content-Length: 9", "Content-Length: 11", "Content-Length: 4611686018427387999"] {
        let fields = ["Content-Range: bytes 10-19/100", length];
        let liar =
            Liar::always(vec![answer("206 Partial Content", &fields, b"0123456789"), Step::Close]).await;
        let result = resume(&liar).await;
        assert!(is_nonsense(&result), "{length}: {result:?}");
    }
}

#[tokio::test]
async fn lengths_that_contradict_each_other_or_are_none_are_nonsense() {
    for fields in [
        &["Content-Length: 2", "Content-Length: 3"][..],
        &["Content-Length: -1"],
        &["Content-Length: 18446744073709551616"],
        &["Content-Length: 0x10"],
    ] {
        let liar = Liar::always(vec![answer("200 OK", fields, b"ok"), Step::Close]).await;
        let result = whole(&liar, options()).await;
        assert!(is_nonsense(&result), "{fields:?}: {result:?}");
    }
}

/// What a server sends beyond a body is never taken for the answer to the next question.
#[tokio::test]
async fn bytes_beyond_the_body_are_nobodys_answer() {
    let trap = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ntrap";
    let liar = Liar::start(move |number, _| match number {
        0 => vec![answer("200 OK", &["Content-Length: 2"], format!("ok{trap}").as_bytes())],
        _ => vec![answer("200 OK", &["Content-Length: 5"], b"right")],
    })
    .await;
    let address = liar.address("file");
    let mut http = connect(options());
    let ask = Ask { address: &address, from: 0, length: None, known: None };
    assert_eq!(pull(&mut http, ask.clone()).await.expect("two bytes").1, b"ok");
    assert_eq!(pull(&mut http, ask).await.expect("the real answer").1, b"right");
}

#[tokio::test]
async fn a_chunk_that_is_none_is_nonsense() {
    let liar = Liar::always(vec![
        answer("200 OK", &["Transfer-Encoding: chunked"], b"zz\r\nhello\r\n"),
        Step::Close,
    ])
    .await;
    let result = whole(&liar, options()).await;
    assert!(is_nonsense(&result), "{result:?}");
}

#[tokio::test]
async fn what_is_encoded_is_refused_before_a_byte_is_read() {
    for encoding in ["gzip", "br", "deflate, gzip", "zstd"] {
        let field = format!("Content-Encoding: {encoding}");
        let head = answer("200 OK", &[&field, "Content-Length: 1000000000000"], b"");
        let liar = Liar::always(vec![head, Step::Endless(vec![0; 4_096])]).await;
        let result = whole(&liar, options()).await;
        assert!(is_nonsense(&result), "{encoding}: {result:?}");
    }
}

#[tokio::test]
async fn an_endless_header_is_refused() {
    let liar = Liar::always(vec![say("HTTP/1.1 200 OK\r\nX-Long: "), Step::Endless(vec![b'x'; 4_096])]).await;
    assert!(is_nonsense(&whole(&liar, options()).await));
    let liar = Liar::always(vec![say("HTTP/1.1 200 OK\r\n"), Step::Endless(b"X-Many: x\r\n".to_vec())]).await;
    assert!(is_nonsense(&whole(&liar, options()).await));
    let long = format!("X-Long: {}", "x".repeat(70_000));
    let liar = Liar::always(vec![answer("200 OK", &[&long, "Content-Length: 2"], b"ok")]).await;
    assert!(is_nonsense(&whole(&liar, options()).await));
}

#[tokio::test]
async fn what_is_not_http_is_nonsense() {
    for bytes in [
        &b"220 ftp.example.org ready\r\n\r\n"[..],
        b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
        b"HTTP/1.1 99999 x\r\n\r\n",
    ] {
        let liar = Liar::always(vec![Step::Say(bytes.to_vec()), Step::Close]).await;
        let result = whole(&liar, options()).await;
        assert!(is_nonsense(&result), "{result:?}");
    }
}

#[tokio::test]
async fn a_source_that_never_answers_is_given_up() {
    for steps in [
        vec![Step::Stall],
        vec![say("HTTP/1.1 200 OK\r\nX-Half: "), Step::Stall],
        vec![Step::Endless(b"HTTP/1.1 103 Early Hints\r\n\r\n".to_vec())],
    ] {
        let result = whole(&Liar::always(steps.clone()).await, impatient()).await;
        assert!(matches!(result, Err(Fault::Stalled(SHORT))), "{result:?}");
    }
}

#[tokio::test]
async fn a_body_that_stands_still_is_given_up() {
    let liar = Liar::always(vec![answer("200 OK", &["Content-Length: 100"], b"some"), Step::Stall]).await;
    let result = whole(&liar, impatient()).await;
    assert!(matches!(result, Err(Fault::Stalled(SHORT))), "{result:?}");
}

#[tokio::test]
async fn a_body_that_drips_is_given_up() {
    let head = answer("200 OK", &["Content-Length: 1000000"], b"");
    let drip = Step::Drip(b"x".to_vec(), Duration::from_millis(20));
    let result = whole(&Liar::always(vec![head, drip]).await, impatient()).await;
    // On a machine that sleeps between two drops it is a stall.
    assert!(matches!(result, Err(Fault::Slow(1_024) | Fault::Stalled(SHORT))), "{result:?}");
}

#[tokio::test]
async fn a_reset_in_the_middle_is_broken_and_the_next_question_works() {
    let liar = Liar::start(|number, _| match number {
        0 => vec![
            answer("200 OK", &["Content-Length: 100"], b"some"),
            Step::Wait(Duration::from_millis(50)),
            Step::Reset,
        ],
        _ => vec![answer("200 OK", &["Content-Length: 5"], b"right")],
    })
    .await;
    let address = liar.address("file");
    let mut http = connect(options());
    let ask = Ask { address: &address, from: 0, length: None, known: None };
    let result = pull(&mut http, ask.clone()).await;
    assert!(matches!(result, Err(Fault::Broken(_))), "{result:?}");
    assert!(http.read().await.is_err(), "nothing is open any more");
    assert_eq!(http.cut().await, Cut::Kept);
    assert_eq!(pull(&mut http, ask).await.expect("heals").1, b"right");
}

#[tokio::test]
async fn a_read_may_be_cancelled_at_any_time() {
    let pause = || Step::Wait(Duration::from_millis(60));
    let head = answer("200 OK", &["Content-Length: 9"], b"abc");
    let liar = Liar::always(vec![head, pause(), say("def"), pause(), say("ghi")]).await;
    let address = liar.address("file");
    let mut http = connect(options());
    http.open(Ask { address: &address, from: 0, length: None, known: None }).await.expect("opened");
    let (mut bytes, mut cancelled) = (Vec::new(), 0);
    loop {
        match tokio::time::timeout(Duration::from_millis(5), http.read()).await {
            Ok(read) => match read.expect("no fault") {
                Some(chunk) => bytes.extend_from_slice(&chunk),
                None => break,
            },
            Err(_) => cancelled += 1,
        }
    }
    assert!(cancelled > 0);
    assert_eq!(bytes, b"abcdefghi");
}

#[tokio::test]
async fn redirects_are_followed_a_few_times_and_no_more() {
    let liar = Liar::start(|number, _| match number {
        0..=4 => vec![answer("302 Found", &[&format!("Location: /hop{number}"), "Content-Length: 0"], b"")],
        _ => vec![answer("200 OK", &["Content-Length: 2"], b"ok")],
    })
    .await;
    assert_eq!(whole(&liar, options()).await.expect("five are followed").1, b"ok");
    let liar = Liar::always(vec![answer("302 Found", &["Location: /again", "Content-Length: 0"], b"")]).await;
    let result = whole(&liar, options()).await;
    assert!(matches!(result, Err(Fault::Redirect(_))), "{result:?}");
    assert_eq!(liar.heard().len(), 6);
}

#[tokio::test]
async fn redirects_to_other_schemes_and_networks_are_not_followed() {
    for location in [
        "file:///etc/passwd",
        "ftp://127.0.0.1/x",
        "gopher://127.0.0.1/x",
        "javascript:alert(1)",
        "http://169.254.169.254/latest/meta-data/",
        "http://10.0.0.1/",
        "http://[fe80::1]/",
        "http://[::ffff:192.168.1.1]/",
        "http://224.0.0.1/",
        "//192.168.1.1/x",
        "/a%2f..%2fb",
        "http://",
    ] {
        let field = format!("Location: {location}");
        let liar = Liar::always(vec![answer("302 Found", &[&field, "Content-Length: 0"], b"")]).await;
        let result = whole(&liar, options()).await;
        assert!(matches!(result, Err(Fault::Redirect(_))), "{location}: {result:?}");
        assert_eq!(liar.heard().len(), 1, "{location}");
    }
    let liar = Liar::always(vec![answer("302 Found", &["Content-Length: 0"], b"")]).await;
    assert!(is_nonsense(&whole(&liar, options()).await));
}

#[tokio::test]
async fn the_words_of_a_redirect_are_escaped() {
    let liar =
        Liar::always(vec![answer("302 Found", &["Location: file:///\u{1b}[2J", "Content-Length: 0"], b"")])
            .await;
    let message = whole(&liar, options()).await.expect_err("refused").to_string();
    assert!(!message.contains('\u{1b}'), "{message:?}");
}

/// The source redirects to another host: its password, and anybody's, stays here.
#[tokio::test]
async fn another_host_gets_no_password_and_no_answer_unless_allowed() {
    let other =
        Liar::start_at("127.0.0.2:0", |_, _| vec![answer("200 OK", &["Content-Length: 2"], b"ok")]).await;
    let to = format!("Location: http://eve:eve@{}/other", other.at);
    let source = Liar::always(vec![answer("307 Temporary Redirect", &[&to, "Content-Length: 0"], b"")]).await;
    let mut allowed = options();
    allowed.follow_to = vec!["127.0.0.2".into()];
    for address in [source.address(""), other.address("")] {
        allowed.logins.give(address, Login { user: "ada".into(), password: Secret::new("secret".into()) });
    }
    assert_eq!(whole(&source, allowed.clone()).await.expect("followed").1, b"ok");
    assert!(source.heard().concat().to_ascii_lowercase().contains("authorization: basic ywrhonnly3jlda=="));
    let heard = other.heard().concat().to_ascii_lowercase();
    assert!(
        !heard.contains("authorization") && !heard.contains("referer") && !heard.contains("cookie"),
        "{heard}"
    );
    let result = whole(&source, Options { follow_to: Vec::new(), ..allowed }).await;
    let Err(fault @ Fault::Redirect(_)) = result else { panic!("{result:?}") };
    assert!(fault.to_string().ends_with("another host; allow it with --follow-to 127.0.0.2"), "{fault}");
    assert_eq!(other.heard().len(), 1);
}

/// Another port is another origin.
#[tokio::test]
async fn another_port_gets_no_password() {
    let other = Liar::always(vec![answer("200 OK", &["Content-Length: 2"], b"ok")]).await;
    let to = format!("Location: http://{}/other", other.at);
    let source = Liar::always(vec![answer("302 Found", &[&to, "Content-Length: 0"], b"")]).await;
    let mut options = options();
    options
        .logins
        .give(source.address(""), Login { user: "ada".into(), password: Secret::new("secret".into()) });
    whole(&source, options).await.expect("followed");
    assert!(!other.heard().concat().to_ascii_lowercase().contains("authorization"));
}

#[tokio::test]
async fn a_redirect_within_the_source_keeps_the_password() {
    let liar = Liar::start(|number, _| match number {
        0 => vec![answer("302 Found", &["Location: /there", "Content-Length: 0"], b"")],
        _ => vec![answer("200 OK", &["Content-Length: 2"], b"ok")],
    })
    .await;
    let mut options = options();
    options
        .logins
        .give(liar.address(""), Login { user: "ada".into(), password: Secret::new("secret".into()) });
    whole(&liar, options).await.expect("followed");
    assert!(liar.heard().iter().all(|head| head.to_ascii_lowercase().contains("authorization")));
}

#[tokio::test]
async fn a_source_that_knows_no_head_is_probed_by_its_first_byte() {
    let liar = Liar::start(|_, head| {
        if head.starts_with("HEAD") {
            return vec![answer("405 Method Not Allowed", &["Content-Length: 0"], b"")];
        }
        assert!(head.to_ascii_lowercase().contains("range: bytes=0-0"), "{head}");
        vec![answer(
            "206 Partial Content",
            &["Content-Range: bytes 0-0/77", "Content-Length: 1", "ETag: \"a\""],
            b"x",
        )]
    })
    .await;
    let probed = connect(options()).probe(&liar.address("file")).await.expect("probed");
    assert_eq!((probed.version, probed.length, probed.ranges), (known("\"a\"", 77), Some(77), true));
}

#[tokio::test]
async fn a_condition_that_was_not_asked_for_is_nonsense() {
    let liar = Liar::always(vec![answer("304 Not Modified", &["Content-Length: 0"], b"")]).await;
    assert!(is_nonsense(&resume(&liar).await));
}

#[tokio::test]
async fn nobody_there_is_no_connection() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
    let (address, _) = Address::parse(&format!("http://{free}/x")).expect("an address");
    let result = connect(options()).probe(&address).await;
    // No rejection: the circle must not pause because a server restarts.
    let Err(Fault::Connect { to, .. }) = result else { panic!("{result:?}") };
    assert_eq!(to, free.to_string());
}

#[tokio::test]
async fn tls_where_there_is_none_fails() {
    let liar = Liar::always(vec![answer("200 OK", &["Content-Length: 2"], b"ok")]).await;
    let (address, _) =
        Address::parse(&liar.address("x").to_string().replace("http:", "https:")).expect("an address");
    let result = connect(impatient()).probe(&address).await;
    assert!(result.is_err(), "{result:?}");
    assert!(liar.heard().is_empty(), "not a word in the clear");
}

#[tokio::test]
async fn a_proxy_is_used_if_one_is_given() {
    let proxy = Liar::always(vec![answer("200 OK", &["Content-Length: 7"], b"proxied")]).await;
    let options = Options { proxy: Some(format!("http://{}", proxy.at)), ..options() };
    let (address, _) = Address::parse("http://source.invalid/file").expect("an address");
    let mut http = connect(options);
    let (_, bytes) =
        pull(&mut http, Ask { address: &address, from: 0, length: None, known: None }).await.expect("pulled");
    assert_eq!(bytes, b"proxied");
    assert!(proxy.heard()[0].starts_with("GET http://source.invalid/file HTTP/1.1"));
}

#[tokio::test]
async fn after_close_a_new_connection_is_made() {
    let liar = Liar::always(vec![answer("200 OK", &["Content-Length: 2"], b"ok")]).await;
    let address = liar.address("file");
    let mut http = connect(options());
    for _ in 0..2 {
        let ask = Ask { address: &address, from: 0, length: None, known: None };
        assert_eq!(pull(&mut http, ask).await.expect("pulled").1, b"ok");
        http.close().await;
    }
}

/// A folder that is asked for as a file: Express, mini-httpd and h2o list folders without their slash.
#[tokio::test]
async fn a_file_that_redirects_to_itself_with_a_slash_is_a_folder() {
    for to in ["/x/file/", "file/", "http://its-own-name.example/x/file/"] {
        let field = format!("Location: {to}");
        let liar =
            Liar::always(vec![answer("301 Moved Permanently", &[&field, "Content-Length: 0"], b"")]).await;
        let address = liar.address("x/file");
        let probed = connect(options()).probe(&address).await;
        assert!(matches!(&probed, Err(Fault::IsFolder(at)) if *at == format!("{address}/")), "{probed:?}");
        let ask = Ask { address: &address, from: 0, length: None, known: None };
        let opened = connect(options()).open(ask).await;
        assert!(matches!(opened, Err(Fault::IsFolder(_))), "{opened:?}");
    }
}
