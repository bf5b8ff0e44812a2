//! HTTP sources as users have them: nginx, lighttpd and apache2, plain, in TLS, and by HTTP/2.

#[path = "common/web.rs"]
mod web;

use std::sync::Arc;

use stroll::fetch::http::Http;
use stroll::fetch::{
    Address, Ask, Connection, Cut, EntryKind, Fault, Login, NameError, Opened, Options, Sameness, Secret,
    Version,
};
use web::{Kind, PASSWORD, USER, Web};

const DAY_S: u64 = 86_400;
const SIZE: usize = 3 << 20;

/// Bytes that are different at every place, and different for every seed.
fn pattern(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

fn connect(options: Arc<Options>) -> Http {
    Http::new(options).expect("a connection")
}

fn ask(address: &Address, from: u64, length: Option<u64>) -> Ask<'_> {
    Ask { address, from, length, known: None }
}

/// Opens and reads to the end.
async fn pull(http: &mut Http, ask: Ask<'_>) -> Result<(Opened, Vec<u8>), Fault> {
    let opened = http.open(ask).await?;
    let mut bytes = Vec::new();
    while let Some(chunk) = http.read().await? {
        bytes.extend_from_slice(&chunk);
    }
    Ok((opened, bytes))
}

async fn gives_the_whole_file_and_its_version(web: &Web) {
    let file = pattern(SIZE, 1);
    web.put("file", &file, DAY_S);
    let address = web.http("file");
    let mut http = connect(web.shared_options());
    let probed = http.probe(&address).await.expect("probed");
    let (opened, bytes) = pull(&mut http, ask(&address, 0, None)).await.expect("pulled");
    assert!(bytes == file);
    assert_eq!(opened, probed);
    assert_eq!((opened.from, opened.length, opened.ranges), (0, Some(SIZE as u64), true));
    assert_eq!(opened.version.size, Some(SIZE as u64));
    assert!(opened.version.etag.is_some() && opened.version.modified_s.is_some(), "{opened:?}");
    web.put("empty", b"", DAY_S);
    for length in [None, Some(100)] {
        let (opened, bytes) = pull(&mut http, ask(&web.http("empty"), 0, length)).await.expect("pulled");
        assert_eq!((opened.length, bytes.len(), opened.version.size), (Some(0), 0, Some(0)));
    }
}

async fn gives_exactly_the_ranges_that_are_asked_for(web: &Web) {
    let file = pattern(SIZE, 2);
    web.put("file", &file, DAY_S);
    let address = web.http("file");
    let mut http = connect(web.shared_options());
    let end = SIZE as u64;
    for (from, length) in
        [(0, Some(1)), (0, Some(end)), (1, None), (1_000, Some(4_096)), (end - 1, Some(1)), (end - 9, None)]
    {
        let (opened, bytes) = pull(&mut http, ask(&address, from, length)).await.expect("pulled");
        let start = usize::try_from(from).expect("fits");
        let stop = length.map_or(SIZE, |length| start + usize::try_from(length).expect("fits"));
        assert!(bytes == file[start..stop], "{from} {length:?}");
        assert_eq!((opened.from, opened.length), (from, Some(bytes.len() as u64)));
        assert_eq!(opened.version.size, Some(end));
    }
    let (opened, bytes) =
        pull(&mut http, ask(&address, end - 5, Some(100))).await.expect("no more than there is");
    assert_eq!((opened.length, bytes.len()), (Some(5), 5));
}

async fn resumes_after_a_cut(web: &Web) {
    let file = pattern(SIZE, 3);
    web.put("file", &file, DAY_S);
    let address = web.http("file");
    let mut http = connect(web.shared_options());
    let opened = http.open(ask(&address, 0, None)).await.expect("opened");
    let mut have = Vec::new();
    while have.len() < SIZE / 3 {
        have.extend_from_slice(&http.read().await.expect("read").expect("more"));
    }
    http.cut().await;
    let rest = Ask { address: &address, from: have.len() as u64, length: None, known: Some(&opened.version) };
    let (again, bytes) = pull(&mut http, rest).await.expect("the rest");
    assert_eq!(again.from, have.len() as u64);
    assert_eq!(opened.version.compare(&again.version), Sameness::Same);
    have.extend_from_slice(&bytes);
    assert!(have == file);
    let done = Ask { address: &address, from: SIZE as u64, length: None, known: Some(&opened.version) };
    let (nothing, bytes) = pull(&mut http, done).await.expect("there is no more");
    assert_eq!((nothing.length, bytes.len()), (Some(0), 0));
    assert_eq!(opened.version.compare(&nothing.version), Sameness::Same);
}

/// Whatever became of the file, a resume never brings bytes of another version as if they were the rest.
async fn a_changed_file_is_never_mixed(web: &Web) {
    let address = web.http("file");
    let mut http = connect(web.shared_options());
    let from = SIZE as u64 / 2;
    for (what, new, age_s) in [
        ("same size", pattern(SIZE, 5), DAY_S / 2),
        ("grown", pattern(SIZE * 2, 4), DAY_S / 2),
        ("shrunk", pattern(SIZE / 4, 4), DAY_S / 2),
        ("emptied", Vec::new(), DAY_S / 2),
        ("older", pattern(SIZE, 6), DAY_S * 9),
    ] {
        web.put("file", &pattern(SIZE, 4), DAY_S);
        let version = http.probe(&address).await.expect("probed").version;
        web.put("file", &new, age_s);
        let dated = Version { etag: None, ..version.clone() };
        for known in [&version, &dated] {
            let resume = Ask { address: &address, from, length: None, known: Some(known) };
            match pull(&mut http, resume).await {
                Ok((opened, bytes)) => {
                    assert_eq!(opened.from, 0, "{what}");
                    assert_eq!(known.compare(&opened.version), Sameness::Changed, "{what}");
                    assert!(bytes == new, "{what}");
                }
                Err(fault) => assert!(matches!(fault, Fault::Changed), "{what}: {fault}"),
            }
        }
    }
    web.put("file", b"short", DAY_S);
    let beyond = pull(&mut http, ask(&address, 100, None)).await;
    assert!(matches!(beyond, Err(Fault::Changed)), "{beyond:?}");
}

async fn a_file_that_is_gone_is_not_found(web: &Web) {
    web.put("file", b"here", DAY_S);
    let address = web.http("file");
    let mut http = connect(web.shared_options());
    pull(&mut http, ask(&address, 0, None)).await.expect("here");
    web.remove("file");
    assert!(matches!(http.probe(&address).await, Err(Fault::NotFound(_))));
    assert!(matches!(http.open(ask(&address, 2, None)).await, Err(Fault::NotFound(_))));
    web.put("file", b"again", DAY_S);
    assert_eq!(pull(&mut http, ask(&address, 0, None)).await.expect("here again").1, b"again");
}

async fn a_password_is_wanted_and_checked(web: &Web) {
    web.put("private/file", b"for ada", DAY_S);
    let address = web.http("private/file");
    for (password, right) in [(None, false), (Some("wrong"), false), (Some(PASSWORD), true)] {
        let mut options = web.options();
        if let Some(password) = password {
            let login = Login { user: USER.into(), password: Secret::new(password.into()) };
            options.logins.give(web.http(""), login);
        }
        let pulled = pull(&mut connect(Arc::new(options)), ask(&address, 0, None)).await;
        match pulled {
            Ok((_, bytes)) => assert!(right && bytes == b"for ada"),
            Err(fault) => assert!(!right && matches!(fault, Fault::Login(_)), "{fault}"),
        }
    }
}

async fn tls_is_spoken_with_whom_we_trust(web: &Web) {
    let file = pattern(SIZE, 7);
    web.put("file", &file, DAY_S);
    let address = web.https("file");
    let mut http = connect(web.shared_options());
    let (_, bytes) = pull(&mut http, ask(&address, 0, None)).await.expect("pulled");
    assert!(bytes == file);
    let (opened, bytes) = pull(&mut http, ask(&address, 1_000_000, Some(1_000_000))).await.expect("pulled");
    assert!(bytes == file[1_000_000..2_000_000] && opened.from == 1_000_000);

    let stranger = rcgen::generate_simple_self_signed(["localhost".into()]).expect("a certificate");
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("ca.pem"), stranger.cert.pem()).expect("written");
    let tls = stroll::fetch::tls::client_config(Some(&folder.path().join("ca.pem"))).expect("an authority");
    let refused = connect(Arc::new(Options::new(tls))).probe(&address).await;
    assert!(matches!(refused, Err(Fault::Tls(_))), "{refused:?}");
    // A certificate for another name is no better.
    let elsewhere =
        Address::parse(&address.to_string().replace("localhost", "127.0.0.1")).expect("an address").0;
    let refused = connect(web.shared_options()).probe(&elsewhere).await;
    assert!(matches!(refused, Err(Fault::Tls(_))), "{refused:?}");
}

/// Reads a little of a large file and ends it.
async fn cut_early(web: &Web, address: &Address) -> Cut {
    let mut http = connect(web.shared_options());
    http.open(ask(address, 0, None)).await.expect("opened");
    http.read().await.expect("read").expect("more");
    let cut = http.cut().await;
    let (_, bytes) = pull(&mut http, ask(address, 10, Some(10))).await.expect("goes on");
    assert_eq!(bytes.len(), 10);
    cut
}

#[tokio::test]
async fn http_2_keeps_its_connection_when_a_range_is_cut_and_http_1_does_not() {
    let web = Web::start(Kind::Nginx);
    web.put("file", &pattern(32 << 20, 8), DAY_S);
    assert_eq!(cut_early(&web, &web.https("file")).await, Cut::Kept);
    assert_eq!(cut_early(&web, &web.http("file")).await, Cut::Closed);
}

#[tokio::test]
async fn a_range_of_which_little_is_left_is_read_to_its_end() {
    let web = Web::start(Kind::Nginx);
    web.put("file", &pattern(32 << 10, 9), DAY_S);
    let mut http = connect(web.shared_options());
    http.open(ask(&web.http("file"), 0, None)).await.expect("opened");
    assert_eq!(http.cut().await, Cut::Kept);
}

#[tokio::test]
async fn a_server_at_its_limit_refuses_and_says_for_how_long() {
    let web = Web::start(Kind::Nginx);
    web.put("limited/file", &pattern(SIZE, 10), DAY_S);
    let address = web.http("limited/file");
    let mut first = connect(web.shared_options());
    first.open(ask(&address, 0, None)).await.expect("opened");
    first.read().await.expect("read").expect("more");
    let refused = connect(web.shared_options()).open(ask(&address, 0, None)).await;
    let Err(Fault::Refused(refusal)) = refused else { panic!("{refused:?}") };
    assert_eq!((refusal.code, refusal.after.map(|after| after.as_secs())), (Some(429), Some(7)));
    let busy = connect(web.shared_options()).probe(&web.http("busy/file")).await;
    assert!(
        matches!(busy, Err(Fault::Refused(refusal)) if refusal.code == Some(503) && refusal.after.is_none())
    );
}

/// lighttpd says neither tag nor date of a file whose type it does not know: nobody may call two pulls the same then.
#[tokio::test]
async fn a_source_without_validators_leaves_it_unknown_whether_the_file_is_the_same() {
    let web = Web::start(Kind::Lighttpd);
    let file = pattern(SIZE, 11);
    web.put("file.untyped", &file, DAY_S);
    let address = web.http("file.untyped");
    let mut http = connect(web.shared_options());
    let version = http.probe(&address).await.expect("probed").version;
    assert_eq!(version, Version { size: Some(SIZE as u64), ..Version::default() });
    let resume = Ask { address: &address, from: 1_000, length: None, known: Some(&version) };
    let (opened, bytes) = pull(&mut http, resume).await.expect("pulled");
    assert!(opened.from == 1_000 && bytes == file[1_000..]);
    assert_eq!(version.compare(&opened.version), Sameness::Unknown);
}

/// Names that are hard to write in a page.
const HARD: [&str; 8] = [
    "100% of it",
    "a & b.dat",
    "a+b;c=d,e",
    "caf\u{e9} \u{6f22}\u{5b57}",
    "it's \"quoted\"",
    "q?x#y",
    "<b>&amp;",
    "%41",
];

/// What a folder with hard names, a folder and a hidden file looks like, and that what it names can be had.
async fn lists(web: &Web, folder: &str, size: Option<u64>, modified: bool, shows_hidden: bool) {
    web.make_folder(&format!("{folder}/sub"));
    for name in HARD.into_iter().chain([".hidden"]) {
        web.put(&format!("{folder}/{name}"), name.as_bytes(), DAY_S);
    }
    web.put(&format!("{folder}/known.dat"), &pattern(777, 12), DAY_S);
    let address = web.http(&format!("{folder}/"));
    let mut http = connect(web.shared_options());
    let listing = http.list(&address).await.expect("listed");
    assert!(!listing.truncated);
    let mut names: Vec<&str> = HARD.into_iter().chain(["known.dat", "sub"]).collect();
    names.sort_unstable();
    assert_eq!(listing.entries.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(), names);
    let hidden: Vec<_> =
        shows_hidden.then(|| (".hidden".to_owned(), NameError::Hidden)).into_iter().collect();
    assert_eq!(listing.refused, hidden);
    for entry in &listing.entries {
        let is_folder = entry.name.as_str() == "sub";
        assert_eq!(entry.kind == EntryKind::Folder, is_folder, "{entry:?}");
        if is_folder {
            continue;
        }
        let file = address.file(&entry.name);
        let (opened, bytes) = pull(&mut http, ask(&file, 0, None)).await.expect("what was listed is there");
        if entry.name.as_str() == "known.dat" {
            assert_eq!((entry.size, bytes.len()), (size, 777));
            assert_eq!(entry.modified_s, opened.version.modified_s.filter(|_| modified));
        } else {
            assert_eq!(bytes, entry.name.as_str().as_bytes());
        }
    }
    let mut options = web.options();
    options.hidden = true;
    let all = connect(Arc::new(options)).list(&address).await.expect("listed");
    assert_eq!(all.entries.iter().any(|entry| entry.name.is_hidden()), shows_hidden);
}

#[tokio::test]
async fn a_page_of_nginx_is_listed() {
    lists(&Web::start(Kind::Nginx), "page", Some(777), false, false).await;
}

#[tokio::test]
async fn an_index_of_nginx_in_json_is_listed_with_its_times() {
    lists(&Web::start(Kind::Nginx), "json", Some(777), true, false).await;
}

/// It rounds sizes, so none is believed.
#[tokio::test]
async fn a_page_of_lighttpd_is_listed() {
    lists(&Web::start(Kind::Lighttpd), "page", None, false, false).await;
}

#[tokio::test]
async fn a_plain_list_and_a_table_of_apache_are_listed() {
    let web = Web::start(Kind::Apache);
    lists(&web, "plain", None, false, true).await;
    lists(&web, "table", Some(777), false, true).await;
}

#[tokio::test]
async fn a_folder_that_is_not_there_is_not_found() {
    for kind in [Kind::Nginx, Kind::Lighttpd, Kind::Apache] {
        let web = Web::start(kind);
        let listed = connect(web.shared_options()).list(&web.http("absent/")).await;
        assert!(matches!(listed, Err(Fault::NotFound(_))), "{kind:?}: {listed:?}");
    }
}

#[tokio::test]
async fn a_file_is_pulled_over_ipv6() {
    let web = Web::start(Kind::Nginx);
    let file = pattern(SIZE, 13);
    web.put("file", &file, DAY_S);
    let address = web.http_v6("file");
    let mut http = connect(web.shared_options());
    assert!(pull(&mut http, ask(&address, 0, None)).await.expect("pulled").1 == file);
    let (opened, bytes) = pull(&mut http, ask(&address, 1_000, Some(99))).await.expect("pulled");
    assert!(opened.from == 1_000 && bytes == file[1_000..1_099]);
}

macro_rules! at_every_server {
    ($($scenario:ident)*) => {
        at_every_server!(@server nginx Nginx $($scenario)*);
        at_every_server!(@server lighttpd Lighttpd $($scenario)*);
        at_every_server!(@server apache Apache $($scenario)*);
    };
    (@server $name:ident $kind:ident $($scenario:ident)*) => {
        mod $name {
            use super::*;
            $(
                #[tokio::test]
                async fn $scenario() {
                    super::$scenario(&Web::start(Kind::$kind)).await;
                }
            )*
        }
    };
}

at_every_server! {
    gives_the_whole_file_and_its_version
    gives_exactly_the_ranges_that_are_asked_for
    resumes_after_a_cut
    a_changed_file_is_never_mixed
    a_file_that_is_gone_is_not_found
    a_password_is_wanted_and_checked
    tls_is_spoken_with_whom_we_trust
}
