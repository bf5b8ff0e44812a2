//! The fuzzers' targets over a few thousand inputs: any bytes, and valid ones with a few bytes changed. Longer runs are
//! libFuzzer's business: `cargo fuzz run --fuzz-dir tests/fuzz TARGET`.

#[path = "targets/cli.rs"]
mod cli;
mod targets;

use std::net::SocketAddr;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use stroll::base::{Seat, TicketMessage};
use stroll::trust::{Authority, GateKey, Grant, Invitation, PrivateKey, Request, Suite, sign_address};
use stroll::wire::records::{Certificate, Charter, Entry, Mode, Ring, RuleSet, Signed};
use stroll::wire::{Body, Datagram, Header, Kind, member_id, pad_to};

use targets::datagram::{CIRCLE, ME};
use targets::node::charter;
use targets::sealed::{GATE, payload};

const NOW_S: u64 = 1_700_000_000;

fn authority() -> Authority {
    Authority::new(PrivateKey::from_seed(Suite::Ed25519, [9; 32]))
}

fn key() -> PrivateKey {
    PrivateKey::from_seed(Suite::Ed25519, [3; 32])
}

fn certificate() -> Certificate {
    authority().issue(3, key().public(), "lab-c", NOW_S - 10, NOW_S + 10_000).expect("it makes sense")
}

fn bootstrap() -> Vec<SocketAddr> {
    vec![
        "192.0.2.1:7433".parse().expect("the sample is good"),
        "[2001:db8::1]:7433".parse().expect("the sample is good"),
    ]
}

fn datagrams() -> Vec<Vec<u8>> {
    let entry = Entry {
        record: sign_address(&key(), authority().circle(), 1, bootstrap()[0]),
        certificate: certificate(),
    };
    let sender = member_id(&key().public());
    let bodies = [
        Body::Ack { entries: vec![entry.clone()] },
        Body::Commit { age: Duration::from_secs(5), cool: Duration::ZERO, entries: vec![entry] },
        Body::Leave { sequence: 4 },
        Body::Charter(charter(&authority())),
        Body::Bans(authority().sign_bans(2, vec![1, 5, 9]).expect("the sample is good")),
        Body::Enrol { key: key().public(), invitation: [1; 8], mac: [2; 16] },
        Body::Ticket { epoch: 1, message: grant() },
        Body::Move,
    ];
    let mut all = Vec::new();
    for body in bodies {
        for certificate in [None, Some(certificate())] {
            let header = Header::bare(body.kind(), CIRCLE, sender, ME);
            let datagram = Datagram { header, body: body.clone(), certificate, padding: 0 };
            let datagram = if body.kind() == Kind::Move { pad_to(datagram, 400) } else { datagram };
            all.extend(datagram.encode(&GATE, |bytes| key().sign(bytes)));
        }
    }
    assert!(all.len() >= 8, "samples that cannot be written: {}", all.len());
    all
}

fn grant() -> TicketMessage {
    let seat = |ticket| Seat { ticket, member: ME, incarnation: 1 };
    let witnesses = vec![seat(3), seat(4)];
    TicketMessage::Grant { by: seat(0), seat: seat(1), next: seat(2), witnesses, deed: None }
}

fn invitations() -> Vec<Vec<u8>> {
    let gate = GateKey::from_bytes(GATE);
    let (authority, ends_s) = (authority().public(), NOW_S + 1_000);
    let invitation = Invitation::new(authority, "reefs", "lab-c", gate, bootstrap(), ends_s, [5; 32])
        .expect("the sample is good");
    both(&invitation.to_text())
}

fn requests() -> Vec<Vec<u8>> {
    both(&Request::new(&key(), "lab-c").expect("the sample is good").to_text())
}

fn grants() -> Vec<Vec<u8>> {
    let grant = Grant {
        authority: authority().public(),
        succession: None,
        certificate: certificate(),
        charter: charter(&authority()),
        bans: Some(authority().sign_bans(1, vec![1, 2]).expect("the sample is good")),
        gate: GateKey::from_bytes(GATE),
        bootstrap: bootstrap(),
    };
    assert!(grant.accept(&key(), NOW_S).is_ok());
    both(&grant.to_text())
}

/// The text, and what is inside of it.
fn both(text: &str) -> Vec<Vec<u8>> {
    vec![text.as_bytes().to_vec(), payload(text)]
}

fn records() -> Vec<Vec<u8>> {
    let early = Charter { rules: RuleSet::Early, ..charter(&authority()) };
    let ring = Ring { tickets: 5, faults: 2, first: ME, epoch: 1 };
    let tickets = Charter { mode: Mode::Tickets(ring), ..early.clone() };
    let aliases = vec!["http://localhost/data/".to_owned()];
    let alias = Charter { aliases: aliases.clone(), ..early.clone() };
    let both = Charter { aliases, ..tickets.clone() };
    let address = sign_address(&key(), authority().circle(), 1, bootstrap()[1]);
    let request = Request::new(&key(), "lab-c").expect("the sample is good");
    let bans = authority().sign_bans(3, vec![7, 8]).expect("the sample is good");
    let entry = [address.encode(), certificate().encode()].concat();
    let records =
        [early.encode(), bans.encode(), certificate().encode(), address.encode(), request.encode(), entry];
    let charters = [tickets, alias, both].map(|charter| (0, charter.encode()));
    let records = (0..).zip(records).chain(charters);
    records.map(|(kind, record)| [vec![kind], record].concat()).collect()
}

fn settings() -> Vec<Vec<u8>> {
    let scenario = include_bytes!("../config/scenarios/comparison.toml");
    vec![
        include_bytes!("../config/stroll.toml").to_vec(),
        scenario.to_vec(),
        b"rules = [\"guarded\", \"classic\"]\nslot = \"4s\"\nskip = 0.1\nmembers = 30".to_vec(),
        b"[simulate]\nview = \"full\"\nduration = 1e5\nloss_every = \"2h\"".to_vec(),
    ]
}

fn units() -> Vec<Vec<u8>> {
    ["100ms", "1e5", "1.5h", " 4 s", "2w", "0.000001us", "9.2e9", "-1s"]
        .map(|text| text.as_bytes().to_vec())
        .into()
}

fn texts(samples: &[&str]) -> Vec<Vec<u8>> {
    samples.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// Any bytes, or a sample with up to four bytes changed and perhaps cut off.
fn input(samples: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let some = vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    let changed = (prop::sample::select(samples), some, any::<prop::sample::Index>(), any::<bool>())
        .prop_map(|(mut bytes, changes, end, is_cut)| {
            for (place, byte) in changes {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
            if is_cut {
                bytes.truncate(end.index(bytes.len() + 1));
            }
            bytes
        });
    prop_oneof![vec(any::<u8>(), 0..1300), changed]
}

/// Samples as they are, then changed. A target says what it does not like by a panic.
fn holds(target: fn(&[u8]), samples: Vec<Vec<u8>>, cases: u32) {
    target(&[]);
    for sample in &samples {
        target(sample);
    }
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) };
    let run = |bytes: Vec<u8>| {
        target(&bytes);
        Ok(())
    };
    let outcome = prop::test_runner::TestRunner::new(config).run(&input(samples), run);
    assert!(outcome.is_ok(), "{outcome:?}");
}

#[test]
fn datagrams_have_one_form() {
    holds(targets::datagram::run, datagrams(), 2_000);
}

#[test]
fn invitations_have_one_text() {
    holds(targets::invitation::run, invitations(), 1_000);
}

#[test]
fn requests_are_read_as_written() {
    holds(targets::request::run, requests(), 500);
}

#[test]
fn grants_are_read_as_written() {
    holds(targets::grant::run, grants(), 500);
}

#[test]
fn records_have_one_form() {
    holds(targets::records::run, records(), 2_000);
}

#[test]
fn settings_are_read_or_refused() {
    holds(targets::settings::run, settings(), 500);
}

#[test]
fn durations_are_read_as_written() {
    holds(targets::units::run, units(), 2_000);
}

#[test]
fn a_network_that_does_what_it_likes_never_doubles_a_token() {
    holds(targets::handoff::run, vec![(0..=255).collect(), vec![6; 500]], 300);
}

#[test]
fn a_node_survives_members_that_lie() {
    holds(targets::node::run, vec![(0..=255).collect(), (1..=255).collect(), vec![7; 500]], 200);
}

#[test]
fn folders_by_mlsd_are_what_they_say_or_refused() {
    let samples = [
        "type=file;size=7;modify=20240229120000; a.dat\r\ntype=dir;modify=20240101000000.5; d\r\ntype=cdir; .\r\n",
        "Type=OS.unix=slink:/etc/passwd;Size=1; x\r\ntype=file;size=99999999999999999999; y\r\n",
    ];
    holds(targets::sources::mlsd_listing, texts(&samples), 2_000);
}

#[test]
fn folders_by_list_are_what_they_say_or_refused() {
    let samples = [
        "total 8\r\n-rw-r--r--   1 ftp ftp      1234 Feb 29 12:00 a b.dat\r\ndrwxr-xr-x 2 0 0 4096 Jan  1  2020 d\r\n",
        "02-29-24  12:00PM       <DIR>          d\r\n02-29-2024  01:00AM             1234 a.dat\r\n",
        "lrwxrwxrwx 1 0 0 4 Jan 1 2020 link -> /etc\r\n-rw-r--r-- 1 0 0 1 Jan 1 2020 ../x\r\n",
    ];
    holds(targets::sources::list_listing, texts(&samples), 2_000);
}

#[test]
fn folders_by_index_pages_are_what_they_say_or_refused() {
    let samples = [
        "<html><h1>Index of /data/</h1><pre><a href=\"../\">../</a>\n<a href=\"a%20b.dat\">a b.dat</a> 29-Feb-2024 12:00  123\n</pre>",
        "<table><tr><td><a href='/data/d/'>d/</a></td><td>2024-02-29 12:00</td><td>1.2K</td></tr></table>",
        "<a href=\"%2e%2e%2fx\">x</a><a href=\"//evil.example/y\">y</a><a href='?C=N;O=D'>Name</a><a href=javascript:x>",
    ];
    holds(targets::sources::html_listing, texts(&samples), 2_000);
}

#[test]
fn folders_in_json_are_what_they_say_or_refused() {
    let samples = [
        r#"[{"name":"a.dat","type":"file","mtime":"Thu, 29 Feb 2024 12:00:00 GMT","size":7},{"name":"d","type":"directory"}]"#,
        r#"[{"name":"../x","type":"file","size":-1},{"name":"A","type":"file"},{"name":"a","type":"file"}]"#,
    ];
    holds(targets::sources::json_listing, texts(&samples), 2_000);
}

#[test]
fn lists_of_digests_are_read_or_skipped() {
    let zeros = "0".repeat(64);
    let samples = [
        format!("{zeros}  file\n{zeros} *other\n# remark\nSHA256 (file) = {zeros}\n"),
        format!("{}  file\n", "a".repeat(32)),
        zeros,
    ];
    let samples: Vec<&str> = samples.iter().map(String::as_str).collect();
    holds(targets::sources::sums, texts(&samples), 2_000);
}

#[test]
fn timetables_change_in_the_future() {
    let samples = [
        "off",
        "2M",
        "08:00,512k 12:00,off",
        "TZ=Europe/Rome Mon-08:00,512k Fri-21:00,off",
        "TZ=UTC 00:00,1",
    ];
    holds(targets::sources::timetable, texts(&samples), 500);
}

#[test]
fn addresses_are_read_as_written() {
    let samples = [
        "https://ada:a-long-secret@example.org:8443/a%20b/c.dat?x=1#y",
        "ftp://[2001:db8::1]/pub/%2e%2e/x",
        "ftps://example.org/a/../b/./c",
        "http://EXAMPLE.org./%ff%00",
    ];
    holds(targets::sources::address, texts(&samples), 2_000);
}

#[test]
fn names_are_one_component_on_every_machine() {
    holds(
        targets::sources::name,
        texts(&["a.dat", "..", "COM\u{b9}.txt", "a/b", "x ", "\u{202e}x", ".hidden"]),
        2_000,
    );
}

/// An answer to a request from `from` to `last`, of a version with all that is known of it.
fn http_answer(status: u16, from: u64, last: u64, lines: &str) -> Vec<u8> {
    let mut bytes = (status - 100).to_le_bytes().to_vec();
    bytes.extend([0, 63]);
    bytes.extend([from, last - from, 1_000].map(u64::to_le_bytes).concat());
    bytes.extend(lines.as_bytes());
    bytes
}

#[test]
fn http_answers_are_what_was_asked_for_or_refused() {
    let validators = "etag: \"a\"\nlast-modified: Tue, 14 Nov 2023 22:13:20 GMT\naccept-ranges: bytes\n";
    let samples = [
        http_answer(206, 100, 199, &format!("content-range: bytes 100-199/1000\n{validators}")),
        http_answer(206, 0, u64::MAX, "content-range: bytes 0-18446744073709551614/*"),
        http_answer(206, 100, 199, "content-type: multipart/byteranges; boundary=x\ncontent-length: 100"),
        http_answer(200, 0, 999, &format!("content-length: 1000\n{validators}")),
        http_answer(200, 0, 9, "content-encoding: gzip\ncontent-length: 18446744073709551615"),
        http_answer(416, 1_000, 1_999, "content-range: bytes */1000"),
        http_answer(429, 0, 9, "retry-after: 120\ndate: Tue, 14 Nov 2023 22:13:20 GMT"),
        http_answer(503, 0, 9, "retry-after: Tue, 14 Nov 2023 22:14:20 GMT\nx-ratelimit-reset: 1700000090"),
        http_answer(403, 0, 9, "ratelimit: \"default\";r=0;t=45\nratelimit-reset: 30.5"),
    ];
    holds(targets::answers::http_answer, samples.into(), 3_000);
}

#[test]
fn ftp_replies_are_read_with_care() {
    let samples = [
        "229 Entering Extended Passive Mode (|||6446|)\r\n",
        "227 Entering Passive Mode (192,0,2,1,25,46).\r\n",
        "211-Features:\r\n MLST type*;size*;\r\n REST STREAM\r\n UTF8\r\n AUTH TLS\r\n211 End\r\n",
        "257 \"/a\"\"b\" is the current directory\r\n",
        "213 9223372036854775807\r\n",
        "213 20240229120000.5\r\n",
        "120 Service ready in 5 minutes\r\n",
        "530-Sorry\u{1b}[2J\r\n530 the maximum number of clients is connected\r\n",
        "550 x: No such file or directory\r\n",
    ];
    holds(targets::answers::ftp_reply, texts(&samples), 3_000);
}

#[test]
fn netrc_files_are_read_for_exact_hosts_or_refused() {
    let samples = [
        "machine h login ada password 12345678\ndefault login anonymous password me@lab\n",
        "# machine h\nmachine h account x login \"a d\\\"a\" password p#1\nmacdef init\nput x\n\nmachine g login b",
        "default login a machine not-named.example login b password \"\\\\\\t\\n\"",
        "machine \"h\" password 87654321 login",
    ];
    holds(targets::answers::netrc, texts(&samples), 3_000);
}
