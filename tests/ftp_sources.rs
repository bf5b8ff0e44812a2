//! FTP sources as users have them: vsftpd, proftpd and pure-ftpd, and what can happen to a file on them.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]
#![allow(clippy::disallowed_methods, reason = "servers take real time to start")]

#[path = "common/ftpd.rs"]
mod ftpd;

use std::sync::Arc;

use ftpd::{Ftpd, Kind, Tls, free_port};
use stroll::fetch::ftp::Ftp;
use stroll::fetch::{Address, Ask, Connection, Cut, EntryKind, Fault, FtpTls, Options, Version};

/// The same behaviour on every server.
macro_rules! on {
    ($kind:expr, $(#[$attribute:meta])* fn $module:ident) => {
        mod $module {
            use super::*;
            on!(@ $kind, ($(#[$attribute])*)
                a_file_is_pulled_whole
                a_range_is_pulled_and_the_login_kept
                a_pull_goes_on_where_it_was
                a_cut_keeps_the_login_every_time
                a_file_that_was_replaced_starts_anew
                a_file_that_shrank_starts_anew
                a_file_that_grows_while_it_is_pulled_has_changed
                a_file_that_is_not_there_is_not_found
                a_wrong_password_is_a_matter_of_login
                a_full_house_is_a_refusal
                a_folder_is_listed
                a_secure_connection_is_kept_secure
                where_tls_is_not_offered_it_cannot_be_required
            );
        }
    };
    (@ $kind:expr, $attributes:tt $($test:ident)*) => { $(on!(@@ $kind, $attributes $test);)* };
    (@@ $kind:expr, ($(#[$attribute:meta])*) $test:ident) => {
        #[tokio::test]
        $(#[$attribute])*
        async fn $test() {
            super::$test($kind).await;
        }
    };
}

on!(Kind::Vsftpd, fn vsftpd);
on!(Kind::Proftpd, fn proftpd);
on!(
    Kind::PureFtpd,
    #[ignore = "needs root: pure-ftpd does not start without"]
    fn pure_ftpd
);

const THEN_S: u64 = 1_700_000_000;

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|index| u8::try_from((index * 31 + index / 251) % 256).unwrap()).collect()
}

fn ftp(options: Options) -> Ftp {
    Ftp::new(Arc::new(options))
}

fn ask(address: &Address, from: u64, length: Option<u64>) -> Ask<'_> {
    Ask { address, from, length, known: None }
}

async fn rest(ftp: &mut Ftp) -> Result<Vec<u8>, Fault> {
    let mut out = Vec::new();
    while let Some(bytes) = ftp.read().await? {
        assert!(!bytes.is_empty());
        out.extend_from_slice(&bytes);
    }
    Ok(out)
}

async fn pull(ftp: &mut Ftp, ask: Ask<'_>) -> Result<Vec<u8>, Fault> {
    ftp.open(ask).await?;
    rest(ftp).await
}

/// Where PASV has nothing to say.
#[tokio::test]
async fn a_file_is_pulled_over_ipv6() {
    let server = Ftpd::on_ipv6();
    let content = bytes(300_000);
    server.put("f", &content, THEN_S);
    let (mut ftp, address) = (ftp(server.options()), server.address("f"));
    assert!(address.to_string().starts_with("ftp://[::1]:"), "{address}");
    assert!(pull(&mut ftp, ask(&address, 0, None)).await.unwrap() == content);
    assert!(pull(&mut ftp, ask(&address, 1_000, Some(99))).await.unwrap() == content[1_000..1_099]);
    assert_eq!(ftp.list(&server.address("")).await.unwrap().entries.len(), 1);
}

async fn a_file_is_pulled_whole(kind: Kind) {
    let server = Ftpd::start(kind);
    let content = bytes(3_000_000);
    server.put("a b/Grüße #1.dat", &content, THEN_S);
    server.put("empty", b"", THEN_S);
    let mut ftp = ftp(server.options());
    let address = server.address("a b/Grüße #1.dat".replace('#', "%23").as_str());
    let version = Version {
        size: Some(3_000_000),
        modified_s: Some(1_700_000_000),
        age_s: Some(60),
        ..Version::default()
    };

    let probed = ftp.probe(&address).await.unwrap();
    assert_eq!((&probed.version, probed.ranges), (&version, true));
    let opened = ftp.open(ask(&address, 0, None)).await.unwrap();
    assert_eq!((&opened.version, opened.from, opened.length), (&version, 0, Some(3_000_000)));
    assert_eq!(rest(&mut ftp).await.unwrap(), content);
    assert_eq!(pull(&mut ftp, ask(&server.address("empty"), 0, None)).await.unwrap(), b"");
    // A second slash is the root, which for this login is the same or above.
    if ftpd::is_root() {
        let absolute = server.address("/empty");
        assert_eq!(ftp.probe(&absolute).await.unwrap().length, Some(0));
    }
    ftp.close().await;
}

async fn a_range_is_pulled_and_the_login_kept(kind: Kind) {
    // One client only: a second login would be refused.
    let server = Ftpd::with(kind, Tls::Off, Some(1));
    let content = bytes(8_000_000);
    server.put("f", &content, THEN_S);
    let address = server.address("f");
    let mut ftp = ftp(Options { ftp_tls: FtpTls::Off, ..server.options() });
    for from in [0usize, 1, 65_536, 4_000_000, 7_999_990] {
        let opened = ftp.open(ask(&address, from as u64, Some(100_000))).await.unwrap();
        let length = content.len().saturating_sub(from).min(100_000);
        assert_eq!((opened.from, opened.length), (from as u64, Some(length as u64)));
        assert!(rest(&mut ftp).await.unwrap() == content[from..from + length], "from {from}");
        assert!(ftp.read().await.unwrap().is_none());
    }
    assert!(pull(&mut ftp, ask(&address, 8_000_000, None)).await.unwrap().is_empty());
    assert!(matches!(ftp.open(ask(&address, 8_000_001, None)).await, Err(Fault::Changed)));
    assert_eq!(pull(&mut ftp, ask(&address, 7_999_999, None)).await.unwrap(), content[7_999_999..]);
}

async fn a_pull_goes_on_where_it_was(kind: Kind) {
    let server = Ftpd::start(kind);
    let content = bytes(2_000_000);
    server.put("f", &content, THEN_S);
    let address = server.address("f");
    let mut first = ftp(server.options());
    let known = first.open(ask(&address, 0, None)).await.unwrap().version;
    let mut have = first.read().await.unwrap().unwrap().to_vec();
    drop(first);

    let mut second = ftp(server.options());
    let from = have.len() as u64;
    let opened = second.open(Ask { known: Some(&known), ..ask(&address, from, None) }).await.unwrap();
    assert_eq!((opened.from, &opened.version), (from, &known));
    have.extend(rest(&mut second).await.unwrap());
    assert!(have == content);
}

async fn a_cut_keeps_the_login_every_time(kind: Kind) {
    let server = Ftpd::with(kind, Tls::Off, Some(1));
    let content = bytes(20_000_000);
    server.put("f", &content, THEN_S);
    server.put("g", b"other", THEN_S);
    let (f, g) = (server.address("f"), server.address("g"));
    let mut ftp = ftp(Options { ftp_tls: FtpTls::Off, ..server.options() });
    for round in 0..20 {
        ftp.open(ask(&f, round * 1_000, None)).await.unwrap();
        if round % 3 > 0 {
            assert!(ftp.read().await.unwrap().is_some());
        }
        assert_eq!(ftp.cut().await, Cut::Kept, "round {round}");
        assert_eq!(pull(&mut ftp, ask(&g, 0, None)).await.unwrap(), b"other", "round {round}");
    }
}

async fn a_file_that_was_replaced_starts_anew(kind: Kind) {
    let server = Ftpd::start(kind);
    server.put("f", &bytes(1_000), THEN_S);
    let address = server.address("f");
    let mut ftp = ftp(server.options());
    let known = ftp.probe(&address).await.unwrap().version;
    // Of the same size.
    server.put("f", &[7; 1_000], THEN_S + 1);
    let opened = ftp.open(Ask { known: Some(&known), ..ask(&address, 500, None) }).await.unwrap();
    assert_eq!(opened.from, 0);
    assert_ne!(opened.version, known);
    assert_eq!(rest(&mut ftp).await.unwrap(), [7; 1_000]);
}

async fn a_file_that_shrank_starts_anew(kind: Kind) {
    let server = Ftpd::start(kind);
    server.put("f", &bytes(1_000), THEN_S);
    let address = server.address("f");
    let mut ftp = ftp(server.options());
    let known = ftp.probe(&address).await.unwrap().version;
    server.put("f", b"short", THEN_S + 1);
    let opened = ftp.open(Ask { known: Some(&known), ..ask(&address, 500, None) }).await.unwrap();
    assert_eq!((opened.from, opened.length), (0, Some(5)));
    assert_eq!(rest(&mut ftp).await.unwrap(), b"short");
}

async fn a_file_that_grows_while_it_is_pulled_has_changed(kind: Kind) {
    let server = Ftpd::start(kind);
    let mut content = bytes(20_000_000);
    server.put("f", &content, THEN_S);
    let address = server.address("f");
    let mut ftp = ftp(server.options());
    ftp.open(ask(&address, 0, None)).await.unwrap();
    ftp.read().await.unwrap();
    content.extend_from_slice(b"more");
    server.put("f", &content, THEN_S + 1);
    assert!(matches!(rest(&mut ftp).await, Err(Fault::Changed)));
    assert!(pull(&mut ftp, ask(&address, 0, None)).await.unwrap() == content);
}

async fn a_file_that_is_not_there_is_not_found(kind: Kind) {
    let server = Ftpd::start(kind);
    server.put("f", b"here", THEN_S);
    let (gone, here) = (server.address("gone"), server.address("f"));
    let mut ftp = ftp(server.options());
    assert!(matches!(ftp.probe(&gone).await, Err(Fault::NotFound(_))));
    assert!(matches!(ftp.open(ask(&gone, 0, None)).await, Err(Fault::NotFound(_))));
    // That is no reason to log in again.
    assert_eq!(pull(&mut ftp, ask(&here, 0, None)).await.unwrap(), b"here");
    std::fs::remove_file(server.root().join("f")).unwrap();
    assert!(matches!(ftp.open(ask(&here, 2, None)).await, Err(Fault::NotFound(_))));
}

async fn a_wrong_password_is_a_matter_of_login(kind: Kind) {
    let server = Ftpd::start(kind);
    server.put("f", b"here", THEN_S);
    let fault = ftp(server.options_with("wrong")).probe(&server.address("f")).await.unwrap_err();
    assert!(matches!(fault, Fault::Login(_)), "{fault:?}");
}

async fn a_full_house_is_a_refusal(kind: Kind) {
    let server = Ftpd::with(kind, Tls::Off, Some(1));
    server.put("f", b"here", THEN_S);
    let address = server.address("f");
    let plain = || Options { ftp_tls: FtpTls::Off, ..server.options() };
    let mut inside = ftp(plain());
    inside.probe(&address).await.unwrap();
    let fault = ftp(plain()).probe(&address).await.unwrap_err();
    let Fault::Refused(refusal) = fault else { panic!("{fault:?}") };
    assert!(matches!(refusal.code, Some(421 | 530)), "{refusal:?}");
    inside.probe(&address).await.unwrap();
}

async fn a_folder_is_listed(kind: Kind) {
    let server = Ftpd::start(kind);
    // Recent enough to be listed with a time of day.
    let now_s = jiff::Timestamp::now().as_second();
    let recent_s = now_s - 86_400;
    for (name, size) in [("a b", 1), ("Grüße", 2), ("-rf", 3), ("[x]*", 4), ("CON", 5), (".hidden", 6)] {
        server.put(&format!("dir [1]/{name}"), &bytes(size), recent_s.unsigned_abs());
    }
    server.put("dir [1]/sub/deep", b"x", THEN_S);
    std::os::unix::fs::symlink("a b", server.root().join("dir [1]/link")).unwrap();
    std::fs::create_dir(server.root().join("nothing")).unwrap();
    let mut ftp = ftp(server.options());
    let folder = server.address("dir [1]/");

    let listing = ftp.list(&folder).await.unwrap();
    let seen = listing.entries.iter().map(|entry| (entry.name.as_str(), entry.kind, entry.size));
    let file = EntryKind::File;
    let mut expected = vec![
        ("-rf", file, Some(3)),
        ("CON", file, Some(5)),
        ("Grüße", file, Some(2)),
        ("a b", file, Some(1)),
        ("sub", EntryKind::Folder, None),
    ];
    expected.insert(3, ("[x]*", file, Some(4)));
    assert_eq!(seen.collect::<Vec<_>>(), expected, "{:?}", listing.refused);
    assert!(!listing.truncated);
    for entry in listing.entries.iter().filter(|entry| entry.kind == file) {
        let off_s = recent_s - entry.modified_s.unwrap();
        assert!((0..60).contains(&off_s), "{entry:?}");
        assert_eq!(ftp.probe(&folder.file(&entry.name)).await.unwrap().length, entry.size, "{entry:?}");
    }
    assert_eq!(ftp.list(&server.address("nothing/")).await.unwrap().entries, []);
    assert_eq!(ftp.list(&server.address("")).await.unwrap().entries.len(), 2);
    assert!(matches!(ftp.list(&server.address("gone/")).await, Err(Fault::NotFound(_))));
}

async fn a_secure_connection_is_kept_secure(kind: Kind) {
    // Two of the servers refuse data connections that do not resume the session of the control connection.
    let modes = if kind == Kind::PureFtpd { &[Tls::Explicit][..] } else { &[Tls::Explicit, Tls::Implicit] };
    for tls in modes {
        let server = Ftpd::with(kind, *tls, None);
        let content = bytes(5_000_000);
        server.put("dir/f", &content, THEN_S);
        let address = server.address("dir/f");
        for rule in [FtpTls::Required, FtpTls::Try] {
            let mut ftp = ftp(Options { ftp_tls: rule, ..server.options() });
            assert!(pull(&mut ftp, ask(&address, 0, None)).await.unwrap() == content, "{tls:?} {rule:?}");
            for from in [5usize, 4_000_000] {
                let range = pull(&mut ftp, ask(&address, from as u64, Some(70_000))).await.unwrap();
                assert!(range == content[from..from + 70_000], "{tls:?} {rule:?}");
            }
            // The others hang up, or fall silent, when a secure data connection is cut.
            for _ in 0..3 {
                ftp.open(ask(&address, 0, None)).await.unwrap();
                ftp.read().await.unwrap();
                let cut = ftp.cut().await;
                assert!(cut == Cut::Kept || kind != Kind::Vsftpd, "{tls:?} {rule:?}");
                assert_eq!(
                    pull(&mut ftp, ask(&address, 4_999_990, None)).await.unwrap(),
                    content[4_999_990..]
                );
            }
            assert_eq!(ftp.list(&server.address("dir/")).await.unwrap().entries.len(), 1);
        }
        // Nobody else's certificate, and nothing unprotected.
        let stranger = Options { tls: ftpd::Certificate::new().client(), ..server.options() };
        assert!(matches!(ftp(stranger).probe(&address).await, Err(Fault::Tls(_))), "{tls:?}");
    }
}

async fn where_tls_is_not_offered_it_cannot_be_required(kind: Kind) {
    let server = Ftpd::start(kind);
    server.put("f", b"here", THEN_S);
    let address = server.address("f");
    // A password that is no secret may go out in plain text without asking.
    let is_anonymous = kind == Kind::Vsftpd;
    for (rule, works) in [(FtpTls::Required, false), (FtpTls::Try, is_anonymous), (FtpTls::Off, true)] {
        let result = ftp(Options { ftp_tls: rule, ..server.options() }).probe(&address).await;
        match result {
            Ok(opened) => assert!(works && opened.length == Some(4), "{rule:?}"),
            Err(fault) => assert!(!works && matches!(fault, Fault::Tls(_)), "{rule:?} {fault:?}"),
        }
    }
}

#[tokio::test]
async fn where_nobody_listens_there_is_no_connection() {
    let certificate = ftpd::Certificate::new();
    for scheme in ["ftp", "ftps"] {
        let address = Address::parse(&format!("{scheme}://127.0.0.1:{}/f", free_port())).unwrap().0;
        let fault = ftp(Options::new(certificate.client())).probe(&address).await.unwrap_err();
        assert!(matches!(&fault, Fault::Connect { .. }), "{fault:?}");
    }
}
