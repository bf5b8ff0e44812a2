//! FTP servers that lie, stall or break: none of it may hang, mislead or send us elsewhere.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]
#![allow(
    clippy::disallowed_methods,
    reason = "the harness for real servers, whose certificates are used, waits for them"
)]

#[path = "common/ftpd.rs"]
mod ftpd;
#[path = "common/lying_ftp.rs"]
mod lying_ftp;

use std::sync::Arc;
use std::time::Duration;

use ftpd::Certificate;
use lying_ftp::{Liar, Script, Sends};
use stroll::fetch::ftp::Ftp;
use stroll::fetch::{Ask, Connection, Cut, Fault, FtpTls, Login, NameError, Options, Secret, Version};
use tokio::net::TcpListener;

const FILE: &[u8] = b"the file as it is";

fn options() -> Options {
    Options { ftp_tls: FtpTls::Off, ..Options::new(Certificate::new().client()) }
}

fn hasty() -> Options {
    let moment = Duration::from_secs(2);
    Options { answer_within: moment, stall_after: moment, ..options() }
}

fn honest() -> Script {
    Script::honest(FILE)
}

async fn pull_with(ftp: &mut Ftp, liar: &Liar, from: u64, length: Option<u64>) -> Result<Vec<u8>, Fault> {
    let address = liar.address("f");
    ftp.open(Ask { address: &address, from, length, known: None }).await?;
    let mut out = Vec::new();
    while let Some(bytes) = ftp.read().await? {
        out.extend_from_slice(&bytes);
    }
    Ok(out)
}

async fn pull(script: Script, options: Options) -> Result<Vec<u8>, Fault> {
    let liar = Liar::start(script).await;
    pull_with(&mut Ftp::new(Arc::new(options)), &liar, 0, None).await
}

#[tokio::test]
async fn an_honest_server_is_believed() {
    assert_eq!(pull(honest(), options()).await.unwrap(), FILE);
}

#[tokio::test]
async fn a_passive_address_elsewhere_is_never_connected_to() {
    let third = TcpListener::bind("127.0.0.2:0").await.unwrap();
    let [high, low] = third.local_addr().unwrap().port().to_be_bytes();
    let script = honest().says("EPSV", "500 no").says("PASV", format!("227 go (127,0,0,2,{high},{low})"));
    assert!(matches!(pull(script, hasty()).await, Err(Fault::Broken(_) | Fault::Stalled(_))));
    let came = tokio::time::timeout(Duration::from_millis(200), third.accept()).await;
    assert!(came.is_err(), "somebody connected");
}

#[tokio::test]
async fn without_epsv_there_is_pasv() {
    assert_eq!(pull(honest().says("EPSV", "502 no"), options()).await.unwrap(), FILE);
    assert_eq!(pull(honest().says("EPSV", "229 nonsense"), options()).await.unwrap(), FILE);
}

#[tokio::test]
async fn data_ports_of_other_services_are_refused() {
    let script = honest().says("EPSV", "229 go (|||25|)").says("PASV", "227 go (127,0,0,1,0,25)");
    assert!(matches!(pull(script, options()).await, Err(Fault::Nonsense(_))));
}

#[tokio::test]
async fn an_endless_reply_has_an_end() {
    for verb in ["", "FEAT", "SIZE"] {
        let script = honest().says(verb, vec![b'2'; 10_000_000]);
        let fault = pull(script, options()).await.unwrap_err();
        assert!(matches!(fault, Fault::Nonsense(_)), "{verb} {fault:?}");
    }
    let lines = b"211-more\r\n".repeat(100_000);
    assert!(matches!(pull(honest().says("FEAT", lines), options()).await, Err(Fault::Nonsense(_))));
}

#[tokio::test]
async fn replies_that_are_none_are_nonsense() {
    for reply in ["hello", "9", "99 x", "2a0 x", "\u{1b}[2J 200"] {
        let fault = pull(honest().says("TYPE", reply), hasty()).await.unwrap_err();
        assert!(matches!(fault, Fault::Nonsense(_) | Fault::Stalled(_)), "{reply:?} {fault:?}");
    }
}

#[tokio::test]
async fn impossible_sizes_are_refused_and_no_memory_is_asked_for() {
    for size in ["18446744073709551615", "9223372036854775808", "-1", "99999999999999999999999", "big"] {
        let fault = pull(honest().says("SIZE", format!("213 {size}")), options()).await.unwrap_err();
        assert!(matches!(fault, Fault::Nonsense(_)), "{size} {fault:?}");
    }
    // One that could be.
    let fault = pull(honest().says("SIZE", "213 9223372036854775807"), options()).await.unwrap_err();
    assert!(matches!(fault, Fault::Broken(_)), "{fault:?}");
}

#[tokio::test]
async fn fewer_bytes_than_promised_are_a_fault_even_with_a_226() {
    let fault = pull(honest().sends(Sends::Bytes(FILE[..5].to_vec())), options()).await.unwrap_err();
    assert!(matches!(fault, Fault::Broken(_)), "{fault:?}");
}

#[tokio::test]
async fn more_bytes_than_promised_are_a_fault() {
    let fault = pull(honest().sends(Sends::Bytes([FILE, b"!"].concat())), options()).await.unwrap_err();
    assert!(matches!(fault, Fault::Nonsense(_)), "{fault:?}");
    let fault = pull(honest().sends(Sends::Endless(FILE.to_vec())), options()).await.unwrap_err();
    assert!(matches!(fault, Fault::Nonsense(_)), "{fault:?}");
}

#[tokio::test]
async fn without_a_226_nothing_is_complete() {
    for (end, hung_up) in [("426 broke", false), ("451 disk", false), ("", true)] {
        let script = if hung_up {
            honest().leaves("RETR", "150 ok").says("end", "")
        } else {
            honest().says("end", end)
        };
        let fault = pull(script, hasty()).await.unwrap_err();
        assert!(matches!(fault, Fault::Broken(_)), "{end} {fault:?}");
    }
    assert!(matches!(pull(honest().says("end", ""), hasty()).await, Err(Fault::Stalled(_))));
}

#[tokio::test]
async fn a_control_connection_that_dies_under_the_data_is_noticed() {
    let script = honest().dies();
    assert!(matches!(pull(script, options()).await, Err(Fault::Broken(_))));
}

#[tokio::test]
async fn silence_and_dripping_end() {
    let script = Script::honest(&vec![0; 100_000]);
    let stalled = pull(script.clone().sends(Sends::Stalls(FILE.to_vec())), hasty()).await;
    assert!(matches!(stalled, Err(Fault::Stalled(_))), "{stalled:?}");
    let dripped = pull(script.sends(Sends::Drips(Duration::from_millis(20))), hasty()).await;
    assert!(matches!(dripped, Err(Fault::Slow(_))), "{dripped:?}");
    for verb in ["", "USER", "SIZE", "RETR"] {
        let stalled = pull(honest().says("end", "").says(verb, ""), hasty()).await;
        assert!(matches!(stalled, Err(Fault::Stalled(_))), "{verb} {stalled:?}");
    }
}

#[tokio::test]
async fn a_changed_file_is_noticed_at_its_end() {
    let liar = Liar::start(honest()).await;
    let mut ftp = Ftp::new(Arc::new(options()));
    let address = liar.address("f");
    ftp.open(Ask { address: &address, from: 0, length: None, known: None }).await.unwrap();
    assert_eq!(ftp.read().await.unwrap().unwrap(), FILE);
    liar.now(honest().says("MDTM", "213 20240101120001"));
    assert!(matches!(ftp.read().await, Err(Fault::Changed)));
}

#[tokio::test]
async fn a_server_that_knows_little_is_read_from_the_start() {
    let script =
        honest().says("SIZE", "502 no").says("MDTM", "500 no").says("REST", "504 no").says("FEAT", "500 no");
    let liar = Liar::start(script).await;
    let mut ftp = Ftp::new(Arc::new(options()));
    let address = liar.address("f");
    let opened = ftp.open(Ask { address: &address, from: 5, length: None, known: None }).await.unwrap();
    assert_eq!(
        (opened.version, opened.from, opened.length, opened.ranges),
        (Version::default(), 0, None, false)
    );
    assert_eq!(ftp.read().await.unwrap().unwrap(), FILE);
    assert!(ftp.read().await.unwrap().is_none());
    assert_eq!(pull_with(&mut ftp, &liar, 0, Some(3)).await.unwrap(), FILE[..3]);
    assert_eq!(liar.count("PASS"), 1);
}

#[tokio::test]
async fn a_binary_type_must_be_confirmed() {
    let fault = pull(honest().says("TYPE", "504 only text"), options()).await.unwrap_err();
    assert!(matches!(fault, Fault::Unsupported(_)), "{fault:?}");
}

#[tokio::test]
async fn a_reply_that_comes_twice_after_a_cut_does_no_harm() {
    let liar = Liar::start(Script::honest(&vec![7; 5_000_000]).says("end", "426 cut\r\n226 and done")).await;
    let mut ftp = Ftp::new(Arc::new(options()));
    let address = liar.address("f");
    for _ in 0..3 {
        ftp.open(Ask { address: &address, from: 0, length: None, known: None }).await.unwrap();
        ftp.read().await.unwrap();
        assert_eq!(ftp.cut().await, Cut::Kept);
    }
    assert_eq!(liar.count("PASS"), 1);
}

#[tokio::test]
async fn a_login_that_the_server_has_forgotten_is_made_anew() {
    let liar = Liar::start(honest().leaves("NOOP", "200 ok")).await;
    let mut ftp = Ftp::new(Arc::new(options()));
    assert_eq!(pull_with(&mut ftp, &liar, 0, Some(3)).await.unwrap(), FILE[..3]);
    // The server hung up after the NOOP.
    assert_eq!(pull_with(&mut ftp, &liar, 0, None).await.unwrap(), FILE);
    assert_eq!(liar.count("PASS"), 2);
}

#[tokio::test]
async fn a_call_that_was_cancelled_leaves_nothing_behind() {
    let liar = Liar::start(honest().says("RETR", "")).await;
    let mut ftp = Ftp::new(Arc::new(options()));
    let address = liar.address("f");
    let open = ftp.open(Ask { address: &address, from: 0, length: None, known: None });
    assert!(tokio::time::timeout(Duration::from_millis(200), open).await.is_err());
    liar.now(honest());
    assert_eq!(pull_with(&mut ftp, &liar, 0, None).await.unwrap(), FILE);
    // On a busy machine the first call may not have come as far as its login.
    assert!((1..=2).contains(&liar.count("PASS")));
}

#[tokio::test]
async fn reading_may_be_cancelled_and_goes_on() {
    let liar = Liar::start(honest().sends(Sends::Stalls(FILE[..5].to_vec()))).await;
    let mut ftp = Ftp::new(Arc::new(options()));
    let address = liar.address("f");
    ftp.open(Ask { address: &address, from: 0, length: None, known: None }).await.unwrap();
    assert_eq!(ftp.read().await.unwrap().unwrap(), FILE[..5]);
    for _ in 0..3 {
        assert!(tokio::time::timeout(Duration::from_millis(20), ftp.read()).await.is_err());
    }
    assert_eq!(ftp.cut().await, Cut::Kept);
    liar.now(honest());
    assert_eq!(pull_with(&mut ftp, &liar, 0, None).await.unwrap(), FILE);
    assert_eq!(liar.count("PASS"), 1);
}

#[tokio::test]
async fn banners_and_replies_never_reach_a_terminal_as_they_are() {
    for verb in ["", "PASS", "RETR"] {
        let fault = pull(honest().says(verb, "530 \u{1b}[2Jgo \u{202e}away"), options()).await.unwrap_err();
        let told = format!("{fault} {fault:?}");
        assert!(!told.contains(['\u{1b}', '\u{202e}']), "{told}");
    }
}

#[tokio::test]
async fn a_refusal_is_told_apart_from_a_wrong_password() {
    for (verb, reply, refused) in [
        ("", "421 too many users", true),
        ("", "120 ready in 3 minutes", true),
        ("PASS", "530 maximum number of clients reached", true),
        ("PASS", "530 Login incorrect", false),
        ("PASS", "332 account?", false),
        ("SIZE", "421 closing", true),
        ("RETR", "450 too many transfers, try again later", true),
    ] {
        match pull(honest().says(verb, reply), hasty()).await.unwrap_err() {
            Fault::Refused(_) => assert!(refused, "{reply}"),
            Fault::Login(_) => assert!(!refused, "{reply}"),
            other => panic!("{reply}: {other:?}"),
        }
    }
    // Logged in without a password, and with one that was not needed.
    assert_eq!(pull(honest().says("USER", "230 in"), options()).await.unwrap(), FILE);
    assert_eq!(pull(honest().says("PASS", "202 not needed"), options()).await.unwrap(), FILE);
}

#[tokio::test]
async fn nobody_is_asked_for_by_a_name_with_a_command_in_it() {
    let liar = Liar::start(honest()).await;
    let mut options = options();
    let login = Login { user: "ada\r\nDELE f".to_owned(), password: Secret::new("x".to_owned()) };
    options.logins.give(liar.address(""), login);
    let fault = Ftp::new(Arc::new(options)).probe(&liar.address("f")).await.unwrap_err();
    assert!(matches!(fault, Fault::Login(_)), "{fault:?}");
    assert_eq!(liar.count("DELE"), 0);
}

#[tokio::test]
async fn anonymous_users_say_whom_to_write_to() {
    for (contact, password) in
        [(None, "PASS stroll@"), (Some("me@lab.example".to_owned()), "PASS me@lab.example")]
    {
        let liar = Liar::start(honest()).await;
        let mut ftp = Ftp::new(Arc::new(Options { contact, ..options() }));
        ftp.probe(&liar.address("f")).await.unwrap();
        assert!(
            liar.heard().contains(&"USER anonymous".to_owned())
                && liar.heard().contains(&password.to_owned())
        );
    }
}

#[tokio::test]
async fn where_tls_is_required_nothing_is_said_without_it() {
    let required = || Options { ftp_tls: FtpTls::Required, ..options() };
    let liar = Liar::start(honest().says("AUTH", "502 no")).await;
    let fault = Ftp::new(Arc::new(required())).probe(&liar.address("f")).await.unwrap_err();
    assert!(matches!(fault, Fault::Tls(_)), "{fault:?}");
    assert_eq!(liar.count("USER"), 0);

    // Replies smuggled in before the handshake are not taken for the server's.
    let liar = Liar::start(honest().says("AUTH", "234 go\r\n200 ok\r\n200 ok\r\n230 in")).await;
    let fault = Ftp::new(Arc::new(Options { answer_within: Duration::from_millis(500), ..required() }))
        .probe(&liar.address("f"))
        .await
        .unwrap_err();
    assert!(matches!(fault, Fault::Tls(_) | Fault::Stalled(_) | Fault::Broken(_)), "{fault:?}");
    assert_eq!(liar.count("USER") + liar.count("PBSZ"), 0);
}

#[tokio::test]
async fn hostile_listings_stay_listings() {
    let page = "type=file;size=1; ../x\r\ntype=file;size=1; /etc/passwd\r\ntype=file;size=1; ok\r\ntype=file;size=1; a\rDELE b\r\n\
                type=dir; ..\r\ntype=file;size=1; \u{1b}[2J\r\ntype=OS.unix=slink:/etc; dup\r\ntype=dir; dup\r\n\
                type=file;size=18446744073709551615; huge\r\n";
    let liar = Liar::start(honest().sends(Sends::Bytes(page.as_bytes().to_vec()))).await;
    let listing = Ftp::new(Arc::new(options())).list(&liar.address("")).await.unwrap();
    let seen = listing.entries.iter().map(|entry| (entry.name.as_str(), entry.size)).collect::<Vec<_>>();
    assert_eq!(seen, [("huge", None), ("ok", Some(1))]);
    assert_eq!(listing.refused.iter().filter(|(_, why)| *why == NameError::Twice).count(), 2);
    assert_eq!(listing.refused.len(), 6);
    assert!(listing.refused.iter().all(|(name, _)| !name.contains(['\u{1b}', '\r'])));
}

#[tokio::test]
async fn an_endless_line_and_an_endless_listing_have_an_end() {
    let long = [b"type=file; a\r\n", &vec![b'x'; 20_000_000][..], b"\r\ntype=file; b\r\n"].concat();
    let liar = Liar::start(honest().sends(Sends::Bytes(long))).await;
    let mut ftp = Ftp::new(Arc::new(options()));
    let listing = ftp.list(&liar.address("")).await.unwrap();
    assert_eq!((listing.entries.len(), listing.refused.len(), listing.truncated), (2, 1, true));

    liar.now(honest().sends(Sends::Endless(vec![b'x'; 1_000_000])));
    let listing = ftp.list(&liar.address("")).await.unwrap();
    assert_eq!((listing.entries.len(), listing.truncated), (0, true));

    // The login outlives both.
    liar.now(honest());
    assert_eq!(pull_with(&mut ftp, &liar, 0, None).await.unwrap(), FILE);
    assert_eq!(liar.count("PASS"), 1);
}

#[tokio::test]
async fn a_listing_that_was_cut_says_so() {
    let page = b"type=file; a\r\n".to_vec();
    for (end, truncated) in
        [("226 done", false), ("226-Output truncated to 1 matches\r\n226 1 matches total", true)]
    {
        let liar = Liar::start(honest().sends(Sends::Bytes(page.clone())).says("end", end)).await;
        let listing = Ftp::new(Arc::new(options())).list(&liar.address("")).await.unwrap();
        assert_eq!((listing.entries.len(), listing.truncated), (1, truncated), "{end}");
    }
    let liar = Liar::start(honest().sends(Sends::Bytes(page)).says("end", "426 broke")).await;
    assert!(matches!(Ftp::new(Arc::new(options())).list(&liar.address("")).await, Err(Fault::Broken(_))));
}
