//! FTP servers that differ from RFC 959 and 3659 in what they know and how they say it: files and folders come all the
//! same, and what cannot be known is not taken for absent.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]
#![allow(
    clippy::disallowed_methods,
    reason = "the harness for real servers, whose certificates are used, waits for them"
)]

#[path = "common/desk.rs"]
mod desk;
#[path = "common/ftpd.rs"]
mod ftpd;
#[path = "common/lying_ftp.rs"]
mod lying_ftp;

use std::sync::Arc;
use std::time::Duration;

use desk::{Desk, noise};
use ftpd::{Certificate, Ftpd, Kind, Tls};
use lying_ftp::{Liar, Script};
use stroll::fetch::ftp::Ftp;
use stroll::fetch::{
    Address, Ask, Connection, EntryKind, Fault, FtpTls, LinkTarget, Listing, Login, Options, Secret, Version,
};

const FILE: &[u8] = b"the file as it is";

fn options() -> Options {
    let within = Duration::from_secs(3);
    let options = Options::new(Certificate::new().client());
    Options { ftp_tls: FtpTls::Off, answer_within: within, stall_after: within, ..options }
}

fn ftp() -> Ftp {
    Ftp::new(Arc::new(options()))
}

fn honest() -> Script {
    Script::honest(FILE)
}

fn ask(address: &Address, from: u64) -> Ask<'_> {
    Ask { address, from, length: None, known: None }
}

async fn pull(ftp: &mut Ftp, ask: Ask<'_>) -> Result<Vec<u8>, Fault> {
    ftp.open(ask).await?;
    let mut out = Vec::new();
    while let Some(bytes) = ftp.read().await? {
        out.extend_from_slice(&bytes);
    }
    Ok(out)
}

/// Of a file that was changed long ago.
fn version(size: Option<u64>, modified_s: Option<i64>) -> Version {
    Version { size, modified_s, ..Version::default() }.described_at(i64::MAX)
}

/// Replies with which servers refuse `SIZE` or `MDTM` of a file that they have.
const REFUSALS: [&str; 10] = [
    "500 unknown command",
    "501 syntax error",
    "502 not implemented",
    "504 not for that parameter",
    "202 superfluous",
    "530 command disabled",
    "550 SIZE not allowed in ASCII mode",
    "550 f: not a plain file.",
    "550 Could not get file size.",
    "553 not allowed",
];

#[tokio::test]
async fn a_file_is_pulled_whatever_the_server_refuses_to_say_of_it() {
    let (size, time) = (Some(FILE.len() as u64), Some(1_704_110_400));
    for refusal in REFUSALS {
        for (refused, expected) in
            [(&["SIZE"][..], (None, time)), (&["MDTM"], (size, None)), (&["SIZE", "MDTM"], (None, None))]
        {
            let script = refused
                .iter()
                .fold(honest().says("CWD", "550 no"), |script, verb| script.says(verb, refusal));
            let liar = Liar::start(script).await;
            let (mut ftp, address) = (ftp(), liar.address("f"));
            let probed =
                ftp.probe(&address).await.unwrap_or_else(|fault| panic!("{refusal} {refused:?}: {fault}"));
            let version = version(expected.0, expected.1);
            assert_eq!(probed.version, version, "{refusal} {refused:?}");
            for _ in 0..2 {
                assert_eq!(pull(&mut ftp, ask(&address, 0)).await.unwrap(), FILE, "{refusal} {refused:?}");
            }
            assert!(ftp.exists(&address).await.unwrap(), "{refusal} {refused:?}");
            assert_eq!(
                ftp.resolve(&address).await.unwrap(),
                LinkTarget::File(version),
                "{refusal} {refused:?}"
            );
            assert_eq!(liar.count("PASS"), 1, "{refusal} {refused:?}");
        }
    }
}

#[tokio::test]
async fn mlst_tells_what_size_and_mdtm_do_not() {
    let facts = "250-Listing f\r\n type=file;size=17;modify=20240101120000; /f\r\n250 End";
    let script = honest().says("SIZE", "502 no").says("MDTM", "502 no").says("MLST", facts);
    let liar = Liar::start(script).await;
    let version = version(Some(17), Some(1_704_110_400));
    assert_eq!(ftp().probe(&liar.address("f")).await.unwrap().version, version);
}

#[tokio::test]
async fn a_server_that_tells_neither_size_nor_time_is_not_asked_again() {
    let script = honest().says("SIZE", "550 no").says("MDTM", "550 no").says("CWD", "550 no");
    let liar = Liar::start(script).await;
    let mut ftp = ftp();
    for _ in 0..3 {
        assert_eq!(pull(&mut ftp, ask(&liar.address("f"), 0)).await.unwrap(), FILE);
    }
    assert_eq!((liar.count("SIZE"), liar.count("MDTM"), liar.count("RETR")), (1, 1, 3));
}

#[tokio::test]
async fn greetings_logins_and_replies_of_all_kinds_lead_to_the_file() {
    let cases: &[(&str, &[(&str, &str)])] = &[
        ("a greeting that says to wait", &[("", "120 wait\r\n220 hello")]),
        (
            "a greeting that lets in",
            &[("", "230 in"), ("USER", "503 already in"), ("PASS", "503 already in")],
        ),
        ("a long greeting", &[("", "220-hello\r\n 220 mirrors\r\n250 GB free\r\n\r\n220 ready")]),
        ("a bare greeting", &[("", "220")]),
        ("another end of the greeting", &[("", "220-hello\r\n230 in")]),
        ("no password", &[("USER", "230 in")]),
        ("no password, another code", &[("USER", "232 in")]),
        ("a password for nothing", &[("PASS", "202 not needed")]),
        ("TYPE 226", &[("TYPE", "226 binary")]),
        ("TYPE 250", &[("TYPE", "250 binary")]),
        ("no FEAT", &[("FEAT", "500 what?")]),
        ("FEAT after login only", &[("FEAT", "530 log in")]),
        ("FEAT that ends otherwise", &[("FEAT", "211-F\r\n SIZE\r\n226 End")]),
        ("UTF8 without OPTS", &[("FEAT", "211-F\r\n UTF8\r\n211 End"), ("OPTS", "501 what?")]),
        ("EPSV unknown", &[("EPSV", "500 what?")]),
        ("EPSV disabled", &[("EPSV", "522 not over IPv4")]),
        ("EPSV without parentheses", &[("EPSV", "229 ok |||{}|"), ("PASV", "500 no")]),
        ("PASV without parentheses", &[("EPSV", "501 no"), ("PASV", "227 go {}")]),
        ("PASV with an equals sign", &[("EPSV", "501 no"), ("PASV", "227 =({})")]),
        ("125", &[("RETR", "125 it is open")]),
        ("a long 150", &[("RETR", "150-here\r\n150 it comes")]),
        ("250 at the end", &[("end", "250 done")]),
        ("two 150", &[("end", "150 still\r\n226 done")]),
        ("the end before the data", &[("RETR", "150 here\r\n226 done"), ("end", "")]),
        ("a reply to nothing", &[("SIZE", "213 17\r\n200 and more")]),
        ("replies to nothing", &[("TYPE", "200 ok\r\n200 really\r\n\r\n220 x")]),
        ("a blank line", &[("SIZE", "\r\n213 17")]),
    ];
    for (what, replies) in cases {
        let script = replies.iter().fold(honest(), |script, (verb, reply)| script.says(verb, *reply));
        for line_end in ["\r\n", "\r\r\n", "\n"] {
            let liar = Liar::start(script.clone().ends_lines_with(line_end)).await;
            let (mut ftp, address) = (ftp(), liar.address("f"));
            for _ in 0..2 {
                let pulled = pull(&mut ftp, ask(&address, 0)).await;
                assert_eq!(pulled.unwrap_or_else(|fault| panic!("{what} {line_end:?}: {fault}")), FILE);
            }
            assert!(liar.count("USER") <= 1, "{what}");
        }
    }
}

#[tokio::test]
async fn a_server_that_is_not_ready_or_wants_an_account_says_so() {
    let liar = Liar::start(honest().says("", "120 Service ready in 7 minutes")).await;
    let Err(Fault::Refused(refusal)) = ftp().probe(&liar.address("f")).await else { panic!("not refused") };
    assert_eq!(refusal.after, Some(Duration::from_secs(420)));
    for verb in ["USER", "PASS"] {
        let liar = Liar::start(honest().says(verb, "332 account needed")).await;
        let fault = ftp().probe(&liar.address("f")).await.unwrap_err();
        assert!(matches!(&fault, Fault::Login(why) if why.contains("ACCT")), "{fault:?}");
    }
    // Many users, after a greeting of several lines that has not ended.
    let liar = Liar::start(honest().leaves("", "220-Welcome\r\n421 Too many users")).await;
    assert!(matches!(ftp().probe(&liar.address("f")).await, Err(Fault::Refused(_))));
}

// --- a file that became shorter -----------------------------------------------------------------------------------

#[tokio::test]
async fn a_refused_position_begins_the_file_anew() {
    let unsized_file = honest().says("SIZE", "502 no").says("MDTM", "502 no");
    for (verb, reply) in [
        ("REST", "554 beyond the end"),
        ("REST", "501 bad position"),
        ("REST", "550 no"),
        ("REST", "551 no"),
        ("REST", "504 no"),
        ("RETR", "554 invalid REST"),
        ("RETR", "551 beyond the end"),
        ("RETR", "550 Restart offset 5 is too large"),
    ] {
        let liar = Liar::start(unsized_file.clone().says(verb, reply)).await;
        let (mut ftp, address) = (ftp(), liar.address("f"));
        let fault = ftp.open(ask(&address, 5)).await.unwrap_err();
        assert!(matches!(fault, Fault::Changed), "{verb} {reply}: {fault:?}");
        liar.now(unsized_file.clone().says("REST", reply));
        assert_eq!(pull(&mut ftp, ask(&address, 0)).await.unwrap(), FILE, "{verb} {reply}");
        assert_eq!(liar.count("PASS"), 1, "{verb} {reply}");
    }
    // A file that is gone is not one that has changed.
    let liar = Liar::start(unsized_file.says("RETR", "550 f: No such file or directory")).await;
    assert!(matches!(ftp().open(ask(&liar.address("f"), 5)).await, Err(Fault::NotFound(_))));
}

#[tokio::test]
async fn a_server_that_refuses_every_position_is_asked_for_whole_files() {
    let liar = Liar::start(honest().says("REST", "554 never")).await;
    let (mut ftp, address) = (ftp(), liar.address("f"));
    for _ in 0..2 {
        assert!(matches!(ftp.open(ask(&address, 5)).await, Err(Fault::Changed)));
    }
    let opened = ftp.open(ask(&address, 5)).await.unwrap();
    assert_eq!((opened.from, opened.ranges), (0, false));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_file_that_became_shorter_is_pulled_anew() {
    let long = noise(7, 300_000);
    let unsized_file = |bytes: &[u8]| Script::honest(bytes).says("SIZE", "502 no").says("MDTM", "502 no");
    let desk = Arc::new(Desk::new());
    let liar = Liar::start(unsized_file(&long).says("end", "426 broke")).await;
    let url = liar.address("f").to_string();
    let get = || {
        let (desk, url) = (Arc::clone(&desk), url.clone());
        tokio::task::spawn_blocking(move || desk.command(&[&url, "--retries", "0", "-vv"]).output().unwrap())
    };
    let first = get().await.unwrap();
    assert!(!first.status.success(), "{first:?}");
    assert!(desk.files().iter().any(|name| name.contains("part")), "{:?}", desk.files());
    liar.now(unsized_file(b"short").says("REST", "554 beyond the end"));
    let second = get().await.unwrap();
    assert!(second.status.success(), "{second:?}");
    assert_eq!((desk.files(), desk.read("f")), (vec!["f".to_owned()], b"short".to_vec()));
}

// --- folders --------------------------------------------------------------------------------------------------------

const LIST: &str =
    "total 2\r\n-rw-r--r-- 1 ada lab 17 Jan  1  2024 f\r\ndrwxr-xr-x 2 ada lab 4096 Jan  1  2024 sub\r\n";

fn names(listing: &Listing) -> Vec<(&str, EntryKind)> {
    listing.entries.iter().map(|entry| (entry.name.as_str(), entry.kind)).collect()
}

const BOTH: [(&str, EntryKind); 2] = [("f", EntryKind::File), ("sub", EntryKind::Folder)];

async fn list(script: Script) -> (Result<Listing, Fault>, Liar) {
    let liar = Liar::start(script).await;
    (ftp().list(&liar.address("pub/")).await, liar)
}

#[tokio::test]
async fn where_mlsd_is_refused_there_is_list() {
    let script = honest().sends_for("LIST", LIST);
    for reply in
        ["500 what?", "501 no", "502 no", "504 no", "550 no", "451 local error", "425 no data", "202 no"]
    {
        let liar = Liar::start(script.clone().says("MLSD", reply)).await;
        let mut ftp = ftp();
        for _ in 0..3 {
            let listing =
                ftp.list(&liar.address("pub/")).await.unwrap_or_else(|fault| panic!("{reply}: {fault}"));
            assert_eq!((names(&listing), listing.truncated), (BOTH.to_vec(), false), "{reply}");
        }
        assert_eq!((liar.count("MLSD"), liar.count("PASS")), (1, 1), "{reply}");
    }
    // It dies, and after that it is not asked for ever.
    let liar = Liar::start(script.leaves("MLSD", "")).await;
    let mut ftp = ftp();
    for _ in 0..4 {
        assert_eq!(names(&ftp.list(&liar.address("pub/")).await.unwrap()), BOTH);
    }
    assert!(liar.count("MLSD") <= 2, "{}", liar.count("MLSD"));
}

#[tokio::test]
async fn an_empty_folder_is_told_from_one_that_is_not_there() {
    let list_only = honest().says("FEAT", "500 no").sends_for("LIST", "");
    for (what, script) in [
        ("226", list_only.clone()),
        ("226 without data", list_only.clone().says("LIST", "226 No files")),
        ("450", list_only.clone().says("LIST", "450 No files found")),
        ("550", list_only.clone().says("LIST", "550 No files found.")),
        ("550, as of a file", list_only.clone().says("LIST", "550 No such file or directory")),
        ("450 at the end", list_only.clone().says("end", "450 No files found")),
        ("MLSD", honest().sends_for("MLSD", "")),
        ("MLSD 226", honest().says("MLSD", "226 No files")),
        ("MLSD 450", honest().says("MLSD", "450 No files found").says("LIST", "450 No files found")),
        ("MLSD with itself", honest().sends_for("MLSD", "type=cdir; .\r\ntype=pdir; ..\r\n")),
        ("itself as a folder", honest().sends_for("MLSD", "type=dir; .\r\ntype=dir; ..\r\n")),
    ] {
        let (listing, _liar) = list(script.clone()).await;
        let listing = listing.unwrap_or_else(|fault| panic!("{what}: {fault}"));
        assert_eq!((listing.entries.len(), listing.truncated), (0, false), "{what}");
        if what != "MLSD with itself" && what != "itself as a folder" {
            let (listing, _liar) = list(script.says("CWD", "550 no")).await;
            assert!(matches!(listing, Err(Fault::NotFound(_))), "{what} {listing:?}");
        }
    }
    for (what, script) in [
        ("denied", list_only.clone().says("LIST", "550 Permission denied")),
        ("unclear", list_only.clone().says("LIST", "550 Failed to open directory")),
        ("not now", list_only.clone().says("LIST", "451 No files, local error")),
        ("cut off", list_only.says("end", "426 broke")),
    ] {
        assert!(list(script).await.0.is_err(), "{what}");
    }
}

#[tokio::test]
async fn the_way_back_from_a_folder_is_found_whatever_pwd_says() {
    let script = honest().says("FEAT", "500 no").sends_for("LIST", LIST);
    for (reply, home) in [
        ("257 \"/home/ada\" is here", Some("CWD /home/ada")),
        ("257 /home/ada", Some("CWD /home/ada")),
        ("257 /home/ada is the current directory", Some("CWD /home/ada")),
        ("250 \"/home/ada\"", Some("CWD /home/ada")),
        ("257 here", None),
        ("500 what?", None),
        ("550 no", None),
    ] {
        let liar = Liar::start(script.clone().says("PWD", reply)).await;
        let mut ftp = ftp();
        for folder in ["pub/", "a%20b/", "%5Bx%5D/"] {
            assert_eq!(names(&ftp.list(&liar.address(folder)).await.unwrap()), BOTH, "{reply} {folder}");
            assert_eq!(pull(&mut ftp, ask(&liar.address("f"), 0)).await.unwrap(), FILE, "{reply} {folder}");
        }
        if let Some(home) = home {
            assert_eq!(liar.heard().iter().filter(|line| *line == home).count(), 3, "{reply}");
            assert_eq!((liar.count("PWD"), liar.count("PASS")), (1, 1), "{reply}");
        } else {
            // A plain path needs no CWD; after another one only a new login is where it should be.
            assert!(liar.heard().contains(&"LIST pub".to_owned()), "{reply}");
            assert_eq!(liar.count("PASS"), 3, "{reply}");
        }
    }
}

#[tokio::test]
async fn list_with_an_option_is_not_needed() {
    for refused in ["450 No files found", "550 -a: No such file or directory", "501 no", "226 No files"] {
        let script = honest().says("FEAT", "500 no").sends_for("LIST", LIST).says("LIST -a", refused);
        let liar = Liar::start(script).await;
        let mut ftp = Ftp::new(Arc::new(Options { hidden: true, ..options() }));
        for _ in 0..2 {
            assert_eq!(names(&ftp.list(&liar.address("pub/")).await.unwrap()), BOTH, "{refused}");
        }
        assert_eq!(liar.heard().iter().filter(|line| *line == "LIST -a").count(), 1, "{refused}");
    }
}

#[tokio::test]
async fn listings_in_other_languages_and_styles_are_complete() {
    for (what, text) in [
        ("German", &b"Gesamt 2\r\n-rw-r--r-- 1 ada lab 17 M\xe4r  1 12:34 f\r\ndrwxr-xr-x 2 ada lab 4096 Dez  1  2024 sub\r\n"[..]),
        ("French", "total 2\r\n-rw-r--r-- 1 ada lab 17 18 févr. 12:34 f\r\ndrwxr-xr-x 2 ada lab 4096 18 août   2024 sub\r\n".as_bytes()),
        ("Russian", "итого 2\r\n-rw-r--r-- 1 ada lab 17 ноя 18 12:34 f\r\ndrwxr-xr-x 2 ada lab 4096 мая 18  2024 sub\r\n".as_bytes()),
        ("Japanese", "合計 2\r\n-rw-r--r-- 1 ada lab 17  3月 18 12:34 f\r\ndrwxr-xr-x 2 ada lab 4096  3月 18  2024年 sub\r\n".as_bytes()),
        ("with a header", b".:\r\ntotal 2\r\n-rw-r--r-- 1 ada lab 17 Jan  1  2024 f\r\ndrwxr-xr-x 2 ada lab 4096 Jan  1  2024 sub\r\n"),
        ("IIS", b"03-18-24  03:09 PM               17 f\r\n03-18-2024  03:09AM       <DIR>          sub\r\n"),
        ("EPLF", b"+i1.1,m824255902,r,s17,\tf\r\n+i1.2,m824255902,/,\tsub\r\n"),
        ("CRCRLF", b"total 2\r\r\n-rw-r--r-- 1 ada lab 17 Jan  1  2024 f\r\r\ndrwxr-xr-x 2 ada lab 0 Jan  1  2024 sub\r\r\n"),
    ] {
        let (listing, _liar) = list(honest().says("FEAT", "500 no").sends_for("LIST", text)).await;
        let listing = listing.unwrap();
        assert_eq!((names(&listing), listing.truncated), (BOTH.to_vec(), false), "{what}");
        assert_eq!(listing.entries[0].size, Some(17), "{what}");
    }
    let (listing, _liar) = list(honest().says("FEAT", "500 no").sends_for("LIST", "hello\r\n")).await;
    assert!(listing.unwrap().truncated, "what is not understood may have been a file");
}

// --- what exists ----------------------------------------------------------------------------------------------------

#[tokio::test]
async fn only_a_server_that_states_it_has_lost_a_file() {
    let refuses = |words: &str| {
        let list = honest().says("FEAT", "500 no").sends_for("LIST", LIST);
        list.says("SIZE", words).says("MDTM", words).says("RETR", words).says("CWD f", "550 no")
    };
    let other = "-rw-r--r-- 1 ada lab 17 Jan  1  2024 g\r\n";
    let (vague, clear) = ("550 Could not get it.", "550 f: No such file or directory");
    for (what, script, exists) in [
        ("listed, vague", refuses(vague), true),
        ("listed, clear", refuses(clear), true),
        ("not listed, vague", refuses(vague).sends_for("LIST", other), false),
        ("not listed, clear", refuses(clear).sends_for("LIST", other), false),
        ("not listed, denied", refuses("550 Permission denied").sends_for("LIST", other), true),
        ("not listed, but sent", refuses(vague).sends_for("LIST", other).says("RETR", "150 here"), true),
        ("cut listing, vague", refuses(vague).sends_for("LIST", "?\r\n"), true),
        ("cut listing, clear", refuses(clear).sends_for("LIST", "?\r\n"), false),
        ("no listing, vague", refuses(vague).says("LIST", "550 Permission denied"), true),
        ("a link", refuses(vague).sends_for("LIST", "lrwxrwxrwx 1 ada lab 1 Jan  1  2024 f -> g\r\n"), true),
        ("a folder", refuses(vague).sends_for("LIST", "drwxrwxrwx 1 ada lab 1 Jan  1  2024 f\r\n"), true),
        ("hidden", refuses(vague).sends_for("LIST -a", LIST).sends_for("LIST", other), true),
        (
            "no questions, not listed",
            refuses(vague).says("SIZE", "502 no").says("MDTM", "502 no").sends_for("LIST", other),
            false,
        ),
    ] {
        let liar = Liar::start(script).await;
        assert_eq!(ftp().exists(&liar.address("pub/f")).await.unwrap(), exists, "{what}");
    }
    // Of a folder that is gone, too, its own must say so.
    for (list, exists) in [(other, false), ("drwxr-xr-x 2 ada lab 1 Jan  1  2024 pub\r\n", true)] {
        let liar = Liar::start(refuses(vague).says("CWD pub", "550 no").sends_for("LIST", list)).await;
        assert_eq!(ftp().exists(&liar.address("pub/f")).await.unwrap(), exists, "{list}");
    }
    for reply in ["421 closing", "450 busy, try again later", "451 error"] {
        let liar = Liar::start(refuses(reply).sends_for("LIST", other)).await;
        assert!(ftp().exists(&liar.address("pub/f")).await.is_err(), "{reply}");
    }
}

#[tokio::test]
async fn a_folder_is_listed_once_for_all_files_that_may_be_gone_from_it() {
    let script =
        honest().says("SIZE", "550 no").says("MDTM", "550 no").says("RETR", "550 no").says("FEAT", "500 no");
    let liar = Liar::start(script.sends_for("LIST", LIST)).await;
    let mut ftp = ftp();
    for name in ["a", "b", "c"] {
        assert!(!ftp.exists(&liar.address(name)).await.unwrap());
    }
    assert_eq!(liar.count("LIST"), 1);
    liar.now(honest().says("FEAT", "500 no").sends_for("LIST", "-rw-r--r-- 1 ada lab 17 Jan  1  2024 a\r\n"));
    ftp.list(&liar.address("")).await.unwrap();
    assert!(ftp.exists(&liar.address("a")).await.unwrap());
}

macro_rules! on {
    ($($kind:ident $(#[$attribute:meta])* fn $name:ident;)*) => {
        $(#[tokio::test] $(#[$attribute])* async fn $name() {
            links_files_and_folders_are_what_they_are(Kind::$kind).await;
        })*
    };
}

on! {
    Vsftpd fn links_files_and_folders_of_vsftpd_are_what_they_are;
    Proftpd fn links_files_and_folders_of_proftpd_are_what_they_are;
    PureFtpd #[ignore = "needs root: pure-ftpd does not start without"]
    fn links_files_and_folders_of_pure_ftpd_are_what_they_are;
}

async fn links_files_and_folders_are_what_they_are(kind: Kind) {
    let server = Ftpd::start(kind);
    server.put("dir/f", FILE, 1_600_000_000);
    server.put("dir/ [a] *?", FILE, 1_600_000_000);
    let link =
        |target: &str, name: &str| std::os::unix::fs::symlink(target, server.root().join(name)).unwrap();
    link("dir/f", "to-file");
    link("dir", "to-folder");
    link("nowhere", "to-nothing");
    let mut ftp = Ftp::new(Arc::new(server.options()));
    let version = version(Some(17), Some(1_600_000_000));
    for (name, target) in [
        ("to-file", LinkTarget::File(version.clone())),
        ("dir/f", LinkTarget::File(version.clone())),
        ("to-folder", LinkTarget::Folder),
        ("dir", LinkTarget::Folder),
        ("to-nothing", LinkTarget::Missing),
        ("gone", LinkTarget::Missing),
    ] {
        assert_eq!(ftp.resolve(&server.address(name)).await.unwrap(), target, "{name}");
    }
    for (name, exists) in [
        ("dir/f", true),
        ("dir/%20%5Ba%5D%20*%3F", true),
        ("to-file", true),
        ("to-folder/f", true),
        ("dir", true),
        ("to-folder", true),
        ("gone", false),
        ("dir/gone", false),
        ("gone/f", false),
        ("gone/deeper/f", false),
    ] {
        assert_eq!(ftp.exists(&server.address(name)).await.unwrap(), exists, "{name}");
    }
    assert!(matches!(ftp.probe(&server.address("dir")).await, Err(Fault::IsFolder(_))));
    assert!(matches!(ftp.probe(&server.address("gone")).await, Err(Fault::NotFound(_))));
    // All of that has left the login where it was.
    assert_eq!(pull(&mut ftp, ask(&server.address("dir/f"), 0)).await.unwrap(), FILE);
    assert_eq!(ftp.list(&server.address("to-folder/")).await.unwrap().entries.len(), 2);
}

// --- TLS ------------------------------------------------------------------------------------------------------------

fn with_password(liar: &Liar, rule: FtpTls, certificate: &Certificate) -> Options {
    let mut options = Options { ftp_tls: rule, tls: certificate.client(), ..options() };
    let login = Login { user: "ada".to_owned(), password: Secret::new("secret".to_owned()) };
    options.logins.give(liar.address(""), login);
    options
}

#[tokio::test]
async fn a_password_is_never_sent_in_plain_text_unless_tls_is_off() {
    let certificate = Certificate::new();
    let secured = || honest().secured(certificate.server()).says("FEAT", "211-F\r\n AUTH TLS\r\n211 End");
    for (what, script) in [
        ("PROT 536", secured().says("PROT", "536 no")),
        ("PROT 500", secured().says("PROT", "500 no")),
        ("PROT 534", secured().says("PROT", "534 no")),
        ("PBSZ and PROT", secured().says("PBSZ", "503 no").says("PROT", "503 no")),
        ("AUTH 500", secured().says("AUTH", "500 no")),
        ("AUTH 504", secured().says("AUTH", "504 no")),
        ("AUTH 431", secured().says("AUTH", "431 no")),
        ("AUTH and away", secured().leaves("AUTH", "500 no")),
        ("no offer", honest()),
        ("wrong password", secured().says("PASS", "530 wrong")),
        ("no data in TLS", secured().says("RETR", "522 no")),
    ] {
        for rule in [FtpTls::Try, FtpTls::Required] {
            let liar = Liar::start(script.clone()).await;
            let options = with_password(&liar, rule, &certificate);
            let result = pull(&mut Ftp::new(Arc::new(options)), ask(&liar.address("f"), 0)).await;
            assert!(result.is_err(), "{what} {rule:?}");
            let plain = liar.heard_in_plain_text();
            assert!(
                !plain.iter().any(|line| line.contains("ada") || line.contains("secret")),
                "{what} {plain:?}"
            );
        }
        let liar = Liar::start(script.clone()).await;
        let result = Ftp::new(Arc::new(with_password(&liar, FtpTls::Try, &certificate)))
            .probe(&liar.address("f"))
            .await;
        if what.starts_with("PROT") || what.starts_with("AUTH 50") || what == "no offer" {
            let said = result.unwrap_err().to_string();
            assert!(said.contains("--ftp-tls off"), "{what}: {said}");
        }
    }
    let liar = Liar::start(honest()).await;
    let options = with_password(&liar, FtpTls::Off, &certificate);
    assert_eq!(pull(&mut Ftp::new(Arc::new(options)), ask(&liar.address("f"), 0)).await.unwrap(), FILE);
    let liar = Liar::start(secured()).await;
    for rule in [FtpTls::Try, FtpTls::Required] {
        let mut ftp = Ftp::new(Arc::new(with_password(&liar, rule, &certificate)));
        assert_eq!(pull(&mut ftp, ask(&liar.address("f"), 0)).await.unwrap(), FILE);
    }
    assert!(
        liar.heard_in_plain_text().iter().all(|line| line == "AUTH TLS"),
        "{:?}",
        liar.heard_in_plain_text()
    );
}

#[tokio::test]
async fn an_anonymous_login_goes_on_without_tls_but_not_after_a_handshake() {
    let certificate = Certificate::new();
    let offers = || honest().secured(certificate.server()).says("FEAT", "211-F\r\n AUTH TLS\r\n211 End");
    let attempt = |liar: &Liar, tls| {
        let options = Options { ftp_tls: FtpTls::Try, tls, ..options() };
        let address = liar.address("f");
        async move { pull(&mut Ftp::new(Arc::new(options)), ask(&address, 0)).await }
    };
    for script in [honest(), offers().says("AUTH", "500 no"), offers().says("AUTH", "431 no"), offers()] {
        let liar = Liar::start(script).await;
        assert_eq!(attempt(&liar, certificate.client()).await.unwrap(), FILE);
    }
    let liar = Liar::start(offers().says("PROT", "536 no")).await;
    assert!(matches!(attempt(&liar, certificate.client()).await, Err(Fault::Tls(_))));
    assert!(!liar.heard_in_plain_text().iter().any(|line| line.starts_with("USER")));
    let liar = Liar::start(offers()).await;
    let said = attempt(&liar, Certificate::new().client()).await.unwrap_err().to_string();
    assert!(said.contains("--ca-file") && said.contains("--ftp-tls off"), "{said}");
    assert!(!liar.heard_in_plain_text().iter().any(|line| line.starts_with("USER")));
}

#[tokio::test]
async fn a_certificate_in_the_file_is_trusted_for_its_own_name_and_time() {
    // `openssl req -x509` makes authorities, often without alternative names.
    let certificate = |names: &[&str], common: &str| {
        let names = names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let mut params = rcgen::CertificateParams::new(names).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, common);
        params
    };
    let named = |name: &str| certificate(&[], name);
    let with_names = |name: &str| certificate(&[name], "any");
    let mut old = with_names("127.0.0.1");
    old.not_after = rcgen::date_time_ymd(2021, 1, 1);
    for (what, params, works) in [
        ("names", with_names("127.0.0.1"), true),
        ("common name", named("127.0.0.1"), true),
        ("other names", with_names("other.example"), false),
        ("other common name", named("other.example"), false),
        ("expired", old, false),
    ] {
        let certificate = Certificate::of(&params);
        let liar = Liar::start(honest().secured(certificate.server())).await;
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), certificate.pem()).unwrap();
        let tls = stroll::fetch::tls::client_config(Some(file.path())).unwrap();
        let pulled = pull(
            &mut Ftp::new(Arc::new(Options { tls, ..with_password(&liar, FtpTls::Required, &certificate) })),
            ask(&liar.address("f"), 0),
        )
        .await;
        assert_eq!(pulled.is_ok(), works, "{what}: {pulled:?}");
    }
}

#[test]
fn a_server_with_a_certificate_of_its_own_is_trusted_by_its_file() {
    let (desk, server) = (Desk::new(), Ftpd::with(Kind::Proftpd, Tls::Explicit, None));
    server.put("f", FILE, 1_600_000_000);
    let (own, other) = (desk.private("own.pem", server.certificate.pem()), Certificate::new());
    let other = desk.private("other.pem", other.pem());
    let password = desk.private("password", "right\n");
    let url = server.address("f").to_string();
    let get = |more: &[&str]| {
        let login = ["--user", "ada", "--password-file", password.to_str().unwrap(), "--retries", "0"];
        desk.command(&[&[url.as_str()], &login[..], more].concat()).output().unwrap()
    };
    for wrong in [&[][..], &["--ca-file", other.to_str().unwrap()]] {
        let output = get(wrong);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(7), "{said}");
        assert!(said.contains("--ca-file") && said.contains("--ftp-tls off"), "{said}");
    }
    let output = get(&["--ca-file", own.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(desk.read("f"), FILE);
}
