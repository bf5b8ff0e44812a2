//! What servers say beside bytes: header fields of HTTP answers, replies of FTP; and the netrc file, which others write
//! too. Any bytes; what is made of them keeps its promises.

use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use stroll::fetch::ftp::replies::{Asked, Features, Reply};
use stroll::fetch::http::answers::{self, BeyondEnd, Wanted};
use stroll::fetch::{Address, Fault, Logins, Opened, Sameness, Version};

use super::source::Source;

const NOW_S: i64 = 1_700_000_000;
const DAY: Duration = Duration::from_secs(86_400);

/// No file is larger.
const LARGEST: u64 = 1 << 62;

/// The last second of the year 9999.
const LAST_SECOND: i64 = 253_402_300_799;

/// What one says of a fault is fit for a terminal, and a pause has an end.
fn check_fault(fault: &Fault) {
    let said = fault.to_string();
    assert!(!said.chars().any(char::is_control), "{said:?} is not escaped");
    assert!(said.len() < 2_000, "a message of {} bytes", said.len());
    if let Fault::Refused(refusal) = fault {
        assert!(refusal.after.is_none_or(|after| after <= DAY), "{refusal:?}");
    }
}

/// What is said of a file can be believed, and said back.
fn check_version(version: &Version) {
    assert!(version.size.is_none_or(|size| size <= LARGEST), "{version:?}");
    assert!(version.modified_s.is_none_or(|at| (0..=LAST_SECOND).contains(&at)), "{version:?}");
    if let Some(tag) = &version.etag {
        let inner = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"')).expect("in quotes");
        assert!(tag.len() <= 1_024 && inner.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"'));
    }
    let condition = answers::if_range(version);
    assert!(condition.is_none_or(|text| HeaderValue::from_str(&text).is_ok()), "{version:?}");
    assert_ne!(version.compare(version), Sameness::Changed, "not even itself");
}

/// Header fields, a line each; lines that cannot be such are passed over, as the library below would refuse them.
fn headers(lines: &[u8]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines.split(|byte| *byte == b'\n').take(100) {
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let (Some(name), Some(value)) = (parts.next(), parts.next()) else { continue };
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name), HeaderValue::from_bytes(value.trim_ascii()))
        {
            headers.append(name, value);
        }
    }
    headers
}

/// An HTTP answer: two bytes of status, from where, to where and of which version was asked, then header fields.
pub(crate) fn http_answer(data: &[u8]) {
    let mut source = Source::new(data);
    let status = u16::from_le_bytes([source.byte(), source.byte()]) % 900 + 100;
    // Small and large places alike.
    let (shift, switches) = (u32::from(source.byte()) % 64, source.byte());
    let from = source.number() >> shift;
    let last = (switches & 1 == 1).then(|| from.saturating_add(source.number() >> shift));
    let known = Version {
        size: (switches & 2 == 2).then(|| source.number() >> shift),
        etag: (switches & 4 == 4).then(|| "\"a\"".to_owned()),
        modified_s: (switches & 8 == 8).then_some(NOW_S),
        ..Version::default()
    };
    let wanted = Wanted {
        from,
        last,
        known: (switches & 16 == 16).then_some(&known),
        conditional: switches & 32 == 32,
        now_s: NOW_S,
    };
    let headers = headers(source.take(usize::MAX));
    if let Err(fault) = answers::check_head(&headers) {
        return check_fault(&fault);
    }
    assert!(answers::pause(&headers, NOW_S).is_none_or(|pause| pause <= DAY));
    check_version(&answers::version(&headers, None, NOW_S));
    let status = StatusCode::from_u16(status).expect("three digits");
    check_fault(&answers::fault(status, &headers, NOW_S));
    match answers::whole(&headers, &wanted) {
        Ok(opened) => check_whole(&opened, &wanted),
        Err(fault) => check_fault(&fault),
    }
    match answers::partial(&headers, &wanted) {
        Ok(opened) => check_partial(&opened, &wanted),
        Err(fault) => check_fault(&fault),
    }
    match answers::beyond_end(&headers, &wanted) {
        Ok(BeyondEnd::AskForAll) => assert_eq!(from, 0),
        Ok(BeyondEnd::Nothing(opened)) => {
            assert_eq!((opened.from, opened.length, opened.version.size), (from, Some(0), Some(from)));
        }
        Err(fault) => check_fault(&fault),
    }
}

fn check_whole(opened: &Opened, wanted: &Wanted<'_>) {
    check_version(&opened.version);
    assert_eq!(opened.from, 0);
    if let Some(length) = opened.length {
        assert!(opened.version.size.is_some_and(|size| length <= size), "{opened:?}");
        assert!(wanted.last.is_none_or(|last| length <= last.saturating_add(1)), "{opened:?} {wanted:?}");
    }
}

/// It starts where it was asked to, ends no later, and is inside of the file.
fn check_partial(opened: &Opened, wanted: &Wanted<'_>) {
    check_version(&opened.version);
    let length = opened.length.expect("a part has a length");
    assert!(length > 0 && opened.from == wanted.from, "{opened:?} {wanted:?}");
    let end = opened.from.checked_add(length).expect("inside of any file");
    assert!(wanted.last.is_none_or(|last| end - 1 <= last), "{opened:?} {wanted:?}");
    assert!(end <= opened.version.size.unwrap_or(LARGEST), "{opened:?} {wanted:?}");
    if let Some(known) = wanted.known.filter(|_| wanted.from > 0) {
        assert_ne!(known.compare(&opened.version), Sameness::Changed, "{opened:?} {wanted:?}");
    }
}

/// An FTP reply, complete.
pub(crate) fn ftp_reply(data: &[u8]) {
    let Some(reply) = Reply::read(data) else { return };
    assert!((100..700).contains(&reply.code));
    let text = String::from_utf8_lossy(data).into_owned();
    assert!(!reply.said().chars().any(char::is_control), "{:?} is not escaped", reply.said());
    for asked in [Asked::Entry, Asked::FileThatIs, Asked::Anything, Asked::Manners] {
        check_fault(&reply.fault(asked));
    }
    if let Some(port) = reply.extended_port() {
        assert!(text.contains(&port.to_string()), "port {port} of {text:?}");
    }
    if let Some(port) = reply.passive_port() {
        let [high, low] = port.to_be_bytes();
        assert!(text.contains(&high.to_string()) && text.contains(&low.to_string()), "port {port}");
    }
    if let Some(size) = reply.size() {
        assert!(i64::try_from(size).is_ok() && text.contains(&size.to_string()), "{size} of {text:?}");
    }
    assert!(reply.time_s().is_none_or(|at| at <= LAST_SECOND), "{text:?}");
    if let Some(folder) = reply.folder().filter(|folder| !folder.contains(&b'\n') && !folder.contains(&b'\r'))
    {
        let mut written = b"257 \"".to_vec();
        for byte in &folder {
            written.extend(std::iter::repeat_n(*byte, if *byte == b'"' { 2 } else { 1 }));
        }
        written.extend_from_slice(b"\" is where you are");
        let again = Reply::read(&written).expect("a reply");
        assert_eq!(again.folder(), Some(folder), "{written:?}");
    }
    let features = Features::read(&reply);
    assert!(reply.code == 211 || features == Features::default(), "{features:?} of {text:?}");
}

/// A netrc file.
pub(crate) fn netrc(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let address = |host: &str| Address::parse(&format!("ftp://{host}/f")).expect("an address").0;
    let (known, unknown) = (address("h"), address("not-named.example"));
    let mut logins = Logins::default();
    if let Err(error) = logins.parse_netrc(text) {
        let said = error.to_string();
        assert!(said.is_ascii() && said.len() < 60, "{said:?}");
        return;
    }
    // A redirect never gets what was not written for its host.
    let plain = text.replace('\\', "").to_ascii_lowercase();
    let redirected = logins.lookup_redirected(&unknown).expect("looked up");
    assert!(redirected.is_none() || plain.contains("not-named.example"), "{text:?}");
    let found = logins.lookup(&known).expect("looked up");
    for login in found.iter().chain(&redirected) {
        let password = login.password.reveal();
        assert!(password.chars().count() <= text.chars().count(), "longer than the file");
        // Numbers, because words may well be ours.
        let is_telling = password.len() >= 8 && password.bytes().all(|byte| byte.is_ascii_digit());
        if is_telling && text.matches(password).count() == 1 {
            assert!(!format!("{logins:?}").contains(password), "it prints a password");
        }
    }
    // A remark changes nothing, whatever it says.
    let mut remarked = Logins::default();
    remarked.parse_netrc(&format!("# machine h login evil password \"\n{text}")).expect("as before");
    assert_eq!(remarked.lookup(&known).expect("looked up"), found, "{text:?}");
}
