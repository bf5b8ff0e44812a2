//! What an HTTP answer means: pure judgements of status and header fields, called by the connection.
//!
//! Nothing is taken on trust. A partial answer counts only if it starts exactly where it was asked to, ends no later, and
//! agrees with itself and with what is known of the file.
//!
//! Public for the fuzzers only.

use std::time::{Duration, UNIX_EPOCH};

use reqwest::StatusCode;
use reqwest::header::{
    ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, DATE, ETAG, HeaderMap, HeaderName,
    LAST_MODIFIED, RETRY_AFTER, TRANSFER_ENCODING,
};

use crate::fetch::{Fault, Opened, Refusal, Sameness, Version, escape};

/// Header fields together may be no longer (C5).
pub const HEADERS_LIMIT: usize = 64 << 10;

/// Nobody can send us away for longer than a day.
const LONGEST_AFTER: Duration = Duration::from_secs(86_400);

/// Larger numbers in a reset field are points in time, smaller ones are durations.
const EPOCH_FROM_S: i64 = 1_000_000_000;

/// Longer tags are not worth sending back.
const TAG_LIMIT: usize = 1_024;

/// No file is larger: what is beyond is a mistake or an attack (C15).
const SIZE_LIMIT: u64 = 1 << 62;

/// A range as it was asked for: the last byte is included, and `None` is the end of the file.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// From which byte.
    pub from: u64,
    /// To which byte.
    pub last: Option<u64>,
    /// The version of which there are bytes already.
    pub known: Option<&'a Version>,
    /// Whether the source was told which version is wanted.
    pub conditional: bool,
    /// The wall clock, in seconds since 1970: for answers without `Date`.
    pub now_s: i64,
}

impl Wanted<'_> {
    /// Whether a range was asked for at all.
    pub fn is_ranged(&self) -> bool {
        self.from > 0 || self.last.is_some()
    }
}

/// What to do about an answer that says that the range is not in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BeyondEnd {
    /// The file is empty, or the source does not like ranges here: ask for the whole.
    AskForAll,
    /// Everything is here already.
    Nothing(Opened),
}

/// Checks what holds for every answer.
pub fn check_head(headers: &HeaderMap) -> Result<(), Fault> {
    let size: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    if size > HEADERS_LIMIT {
        return Err(Fault::Nonsense(format!("{size} bytes of header fields")));
    }
    // The HTTP library removes `chunked` and hands on everything below it as it came.
    let codings =
        headers.get_all(TRANSFER_ENCODING).iter().map(|value| value.to_str().unwrap_or("unreadable").trim());
    let codings = codings.collect::<Vec<_>>().join(", ");
    if !codings.is_empty() && !codings.eq_ignore_ascii_case("chunked") {
        let why = format!("Transfer-Encoding: {}; only chunked is supported", escape(&codings));
        return Err(Fault::Nonsense(why));
    }
    Ok(())
}

/// What an answer that is neither 200 nor 206 nor a redirect means. `now_s` is the wall clock, in seconds since 1970.
pub fn fault(status: StatusCode, headers: &HeaderMap, now_s: i64) -> Fault {
    let said = format!("HTTP {} {}", status.as_u16(), status.canonical_reason().unwrap_or_default());
    let said = said.trim_end().to_owned();
    let after = pause(headers, now_s);
    let refused = |said: &str| Fault::Refused(Refusal::new(Some(status.as_u16()), after, said));
    match status.as_u16() {
        // 420, 509 and 529 are nobody's standard and several servers' habit.
        420 | 429 | 503 | 509 | 529 => refused(&said),
        403 | 502 | 504 if after.is_some() => refused(&said),
        401 | 407 => Fault::login(&said, None),
        404 | 410 => Fault::NotFound(said),
        405 | 501 | 505 | 510 => Fault::Unsupported(said),
        412 => Fault::Changed,
        408 | 425 | 500..=599 => Fault::Failing(said),
        400..=499 => Fault::Denied(said),
        _ => Fault::Nonsense(format!("an answer of {said}")),
    }
}

/// For how long the source asks to be left alone.
pub fn pause(headers: &HeaderMap, now_s: i64) -> Option<Duration> {
    // The source's own clock, if it shows it: ours may be wrong.
    let now_s = date(headers, &DATE).unwrap_or(now_s);
    let retry = text(headers, &RETRY_AFTER).and_then(|value| {
        let value = value.trim();
        seconds(value, now_s).or_else(|| Some(parse_date(value)? - now_s))
    });
    let wait = retry.or_else(|| rate_limit(headers, now_s))?;
    Some(Duration::from_secs(u64::try_from(wait).unwrap_or(0)).min(LONGEST_AFTER))
}

/// `RateLimit: "default";r=0;t=30`, `RateLimit: limit=9, remaining=0, reset=30`, or a reset field of its own.
fn rate_limit(headers: &HeaderMap, now_s: i64) -> Option<i64> {
    for name in ["ratelimit-reset", "x-ratelimit-reset"] {
        if let Some(wait) = headers.get(name).and_then(|value| seconds(value.to_str().ok()?.trim(), now_s)) {
            return Some(wait);
        }
    }
    let fields = headers.get("ratelimit")?.to_str().ok()?;
    let mut parts = fields.split([';', ',']).filter_map(|part| part.trim().split_once('='));
    parts.find(|(name, _)| matches!(*name, "t" | "reset")).and_then(|(_, value)| seconds(value, now_s))
}

fn seconds(value: &str, now_s: i64) -> Option<i64> {
    let number = value.split_once('.').map_or(value, |(whole, _)| whole);
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    // More digits than fit are a very long time.
    let number = is_number.then(|| number.parse::<i64>().unwrap_or(i64::MAX))?;
    if (EPOCH_FROM_S..EPOCH_FROM_S * 10).contains(&number) { Some(number - now_s) } else { Some(number) }
}

/// What a 200 brings: the file from its start.
pub fn whole(headers: &HeaderMap, wanted: &Wanted<'_>) -> Result<Opened, Fault> {
    let size = content_length(headers)?;
    let length = match (size, wanted.last) {
        (Some(size), Some(last)) => Some(size.min(last.saturating_add(1))),
        (size, _) => size,
    };
    // A source that was asked for a range of whatever version, and sends all, cannot do it whatever it says.
    let ignored = wanted.is_ranged() && !wanted.conditional;
    Ok(Opened {
        version: version(headers, size, wanted.now_s),
        from: 0,
        length,
        ranges: offers_ranges(headers) && !ignored,
    })
}

/// What a 206 brings, if it brings what was asked for.
pub fn partial(headers: &HeaderMap, wanted: &Wanted<'_>) -> Result<Opened, Fault> {
    let nonsense = |what: String| Err(Fault::Nonsense(what));
    if text(headers, &CONTENT_TYPE).is_some_and(|kind| kind.to_ascii_lowercase().starts_with("multipart/")) {
        return nonsense("several ranges at once, where one was asked for".into());
    }
    let (Some(field), 1) = (text(headers, &CONTENT_RANGE), headers.get_all(CONTENT_RANGE).iter().count())
    else {
        return nonsense("a part of the file that does not say which".into());
    };
    let Some((first, last, total)) = content_range(field) else {
        return nonsense(format!("a part of the file called {}", escape(field)));
    };
    let asked = wanted.last.unwrap_or(u64::MAX);
    if first != wanted.from || last > asked || total.is_some_and(|total| last >= total || total > SIZE_LIMIT)
    {
        let asked = wanted.last.map_or_else(String::new, |last| last.to_string());
        return nonsense(format!("bytes {}-{asked} were asked for, {} came", wanted.from, escape(field)));
    }
    let length = last - first + 1;
    if content_length(headers)?.is_some_and(|said| said != length) {
        return nonsense(format!("{length} bytes by its range, another number by its length"));
    }
    let version = version(headers, total, wanted.now_s);
    if wanted.from > 0 && wanted.known.is_some_and(|known| known.compare(&version) == Sameness::Changed) {
        return Err(Fault::Changed);
    }
    Ok(Opened { version, from: first, length: Some(length), ranges: true })
}

/// What a 416 means.
pub fn beyond_end(headers: &HeaderMap, wanted: &Wanted<'_>) -> Result<BeyondEnd, Fault> {
    if wanted.from == 0 {
        return Ok(BeyondEnd::AskForAll);
    }
    let size = match text(headers, &CONTENT_RANGE) {
        Some(field) => field.trim().strip_prefix("bytes */").and_then(digits),
        // Apache does not say the size here. With a condition the file is the known one, or all of it would have come.
        None => wanted.known.filter(|_| wanted.conditional).and_then(|known| known.size),
    };
    if size != Some(wanted.from) {
        return Err(Fault::Changed);
    }
    let mut version = version(headers, size, wanted.now_s);
    if wanted.known.is_some_and(|known| known.compare(&version) == Sameness::Changed) {
        return Err(Fault::Changed);
    }
    // Had it been another version, the condition would have brought all of that one.
    if let Some(known) = wanted.known.filter(|_| wanted.conditional) {
        version = Version { size, ..known.clone() };
    }
    Ok(BeyondEnd::Nothing(Opened { version, from: wanted.from, length: Some(0), ranges: true }))
}

/// What is said of the file. `now_s` is the wall clock, used if the source does not show its own.
pub fn version(headers: &HeaderMap, size: Option<u64>, now_s: i64) -> Version {
    let field = text(headers, &ETAG).map(str::trim);
    let version = Version {
        size,
        etag: field.and_then(sound_tag),
        weak_etag: field.and_then(|tag| sound_tag(tag.strip_prefix("W/")?)),
        modified_s: date(headers, &LAST_MODIFIED),
        age_s: None,
    };
    version.described_at(date(headers, &DATE).unwrap_or(now_s))
}

/// Whether the source says that it can start in the middle.
pub fn offers_ranges(headers: &HeaderMap) -> bool {
    text(headers, &ACCEPT_RANGES).is_some_and(|units| units.split(',').any(|unit| unit.trim() == "bytes"))
}

/// The declared length.
pub fn content_length(headers: &HeaderMap) -> Result<Option<u64>, Fault> {
    let Some(field) = text(headers, &CONTENT_LENGTH) else { return Ok(None) };
    let length = digits(field.trim()).filter(|length| *length <= SIZE_LIMIT);
    length.map(Some).ok_or_else(|| Fault::Nonsense(format!("a length of {}", escape(field))))
}

/// The value of `If-Range` for this version: a strong tag, else a date that is strong as well (RFC 9110, 13.1.5).
pub fn if_range(known: &Version) -> Option<String> {
    known.etag.clone().or_else(|| {
        let seconds = u64::try_from(known.modified_s.filter(|_| !known.is_fresh())?).ok()?;
        // Dates that HTTP cannot write are not sent.
        let representable = seconds < 253_402_300_800;
        representable.then(|| httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds)))
    })
}

/// A strong tag, as it may be sent back.
fn sound_tag(tag: &str) -> Option<String> {
    let inner = tag.strip_prefix('"')?.strip_suffix('"')?;
    let is_sound =
        tag.len() <= TAG_LIMIT && inner.bytes().all(|byte| byte == 0x21 || (0x23..=0x7e).contains(&byte));
    is_sound.then(|| tag.to_owned())
}

/// `bytes 0-99/1000` or `bytes 0-99/*`.
fn content_range(field: &str) -> Option<(u64, u64, Option<u64>)> {
    let (range, total) = field.trim().strip_prefix("bytes ")?.trim().split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last) = (digits(first)?, digits(last)?);
    let total = if total == "*" { None } else { Some(digits(total)?) };
    (first <= last && last < SIZE_LIMIT).then_some((first, last, total))
}

fn digits(text: &str) -> Option<u64> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn date(headers: &HeaderMap, name: &HeaderName) -> Option<i64> {
    parse_date(text(headers, name)?)
}

fn parse_date(text: &str) -> Option<i64> {
    let time = httpdate::parse_http_date(text).ok()?;
    i64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_secs()).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use reqwest::header::HeaderValue;

    use super::*;

    const NOW_S: i64 = 1_700_000_000;

    fn headers(fields: &[(&str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in fields {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
            map.append(name, HeaderValue::from_str(value).expect("a value"));
        }
        map
    }

    fn wanted(from: u64, last: Option<u64>) -> Wanted<'static> {
        Wanted { from, last, known: None, conditional: false, now_s: NOW_S }
    }

    fn status(code: u16) -> StatusCode {
        StatusCode::from_u16(code).expect("a status")
    }

    #[test]
    fn each_status_means_what_it_says() {
        let none = HeaderMap::new();
        for code in [429, 503, 509, 529] {
            assert!(
                matches!(fault(status(code), &none, NOW_S), Fault::Refused(Refusal { code: Some(c), .. }) if c == code)
            );
        }
        assert!(matches!(fault(status(401), &none, NOW_S), Fault::Login(_)));
        assert!(matches!(fault(status(407), &none, NOW_S), Fault::Login(_)));
        assert!(matches!(fault(status(403), &none, NOW_S), Fault::Denied(_)));
        assert!(matches!(fault(status(404), &none, NOW_S), Fault::NotFound(_)));
        assert!(matches!(fault(status(410), &none, NOW_S), Fault::NotFound(_)));
        for code in [500, 502, 504, 507, 520, 408] {
            assert!(matches!(fault(status(code), &none, NOW_S), Fault::Failing(_)), "{code}");
        }
        for (code, text) in [
            (404, "not found at the source: HTTP 404 Not Found"),
            (410, "not found at the source: HTTP 410 Gone"),
            (403, "the source does not allow it: HTTP 403 Forbidden"),
            (451, "the source does not allow it: HTTP 451 Unavailable For Legal Reasons"),
            (500, "the source answers HTTP 500 Internal Server Error"),
            (599, "the source answers HTTP 599"),
            (503, "the source refuses for now: HTTP 503 Service Unavailable"),
        ] {
            assert_eq!(fault(status(code), &none, NOW_S).to_string(), text);
        }
        assert!(matches!(fault(status(204), &none, NOW_S), Fault::Nonsense(_)));
        assert!(matches!(fault(status(304), &none, NOW_S), Fault::Nonsense(_)));
        let later = headers(&[("retry-after", "7")]);
        for code in [403, 502, 504] {
            assert!(matches!(fault(status(code), &later, NOW_S), Fault::Refused(_)), "{code}");
        }
    }

    #[test]
    fn a_pause_is_read_in_all_its_spellings_and_bounded() {
        let seconds = |fields: &[(&str, &str)]| pause(&headers(fields), NOW_S).map(|pause| pause.as_secs());
        assert_eq!(seconds(&[]), None);
        assert_eq!(seconds(&[("retry-after", "120")]), Some(120));
        assert_eq!(seconds(&[("retry-after", "Tue, 14 Nov 2023 22:14:20 GMT")]), Some(60));
        assert_eq!(seconds(&[("retry-after", "Tue, 14 Nov 2000 22:14:20 GMT")]), Some(0), "the past");
        let by_its_clock =
            [("retry-after", "Tue, 14 Nov 2000 22:14:20 GMT"), ("date", "Tue, 14 Nov 2000 22:14:00 GMT")];
        assert_eq!(seconds(&by_its_clock), Some(20));
        assert_eq!(seconds(&[("retry-after", "99999999999999999999999")]), Some(86_400));
        assert_eq!(seconds(&[("retry-after", "soon")]), None);
        assert_eq!(seconds(&[("retry-after", "-5")]), None);
        assert_eq!(seconds(&[("ratelimit-reset", "30")]), Some(30));
        assert_eq!(seconds(&[("x-ratelimit-reset", "1700000090")]), Some(90));
        assert_eq!(seconds(&[("ratelimit", "\"default\";r=0;t=45")]), Some(45));
        assert_eq!(seconds(&[("ratelimit", "limit=9, remaining=0, reset=46")]), Some(46));
        assert_eq!(
            seconds(&[("retry-after", "3"), ("ratelimit-reset", "30")]),
            Some(3),
            "the standard one first"
        );
    }

    #[test]
    fn a_part_is_taken_only_if_it_is_the_one_that_was_asked_for() {
        let answer = |range: &str| partial(&headers(&[("content-range", range)]), &wanted(100, Some(199)));
        let opened = answer("bytes 100-199/1000").expect("what was asked for");
        assert_eq!((opened.from, opened.length, opened.version.size), (100, Some(100), Some(1_000)));
        assert_eq!(answer("bytes 100-149/150").expect("the end of the file").length, Some(50));
        assert_eq!(answer("bytes 100-199/*").expect("no total").version.size, None);
        for wrong in [
            "bytes 99-199/1000",
            "bytes 101-199/1000",
            "bytes 0-99/1000",
            "bytes 100-200/1000",
            "bytes 100-199/199",
            "bytes 199-100/1000",
            "bytes 100-199",
            "bytes */1000",
            "items 100-199/1000",
            "bytes 100-199/-1",
            "bytes 100-99999999999999999999/1000",
            "",
        ] {
            assert!(matches!(answer(wrong), Err(Fault::Nonsense(_))), "{wrong}");
        }
    }

    #[test]
    fn a_part_that_contradicts_itself_is_refused() {
        for fields in [
            &[][..],
            &[("content-range", "bytes 0-9/10"), ("content-length", "11")],
            &[("content-range", "bytes 0-9/10"), ("content-length", "9")],
            &[("content-range", "bytes 0-9/10"), ("content-range", "bytes 0-8/10")],
            &[("content-range", "bytes 0-9/10"), ("content-type", "Multipart/ByteRanges; boundary=x")],
            &[("content-range", "bytes 0-9/18446744073709551615")],
            &[("content-range", "bytes 0-9/10"), ("content-length", "ten")],
        ] {
            let answer = partial(&headers(fields), &wanted(0, Some(9)));
            assert!(matches!(answer, Err(Fault::Nonsense(_))), "{fields:?}: {answer:?}");
        }
    }

    #[test]
    fn a_part_of_another_version_is_a_change() {
        let known = Version {
            size: Some(1_000),
            etag: Some("\"a\"".into()),
            modified_s: Some(784_111_777),
            ..Version::default()
        };
        let wanted = Wanted { from: 100, last: None, known: Some(&known), conditional: true, now_s: NOW_S };
        let range = ("content-range", "bytes 100-999/1000");
        assert!(partial(&headers(&[range]), &wanted).is_ok());
        assert!(partial(&headers(&[range, ("etag", "\"a\"")]), &wanted).is_ok());
        for fields in [
            &[range, ("etag", "\"b\"")][..],
            &[range, ("last-modified", "Sun, 06 Nov 1994 08:49:38 GMT")],
            &[("content-range", "bytes 100-1000/1001")],
        ] {
            assert!(matches!(partial(&headers(fields), &wanted), Err(Fault::Changed)), "{fields:?}");
        }
    }

    #[test]
    fn a_tag_is_strong_or_weak_and_a_broken_one_is_none() {
        let tag = |value| version(&headers(&[("etag", value)]), None, NOW_S).tag();
        for sound in ["\"abc\"", "W/\"abc\""] {
            assert_eq!(tag(sound).as_deref(), Some(sound));
        }
        assert_eq!(version(&headers(&[("etag", "W/\"abc\"")]), None, NOW_S).etag, None);
        for broken in ["w/\"abc\"", "W/abc", "abc", "\"", "\"a\"b\"", "\"a b\""] {
            assert_eq!(tag(broken), None, "{broken}");
        }
        assert_eq!(tag(&format!("\"{}\"", "x".repeat(2_000))), None);
    }

    #[test]
    fn the_age_of_a_date_is_measured_by_the_clock_of_the_source() {
        let modified = ("last-modified", "Tue, 14 Nov 2023 22:13:20 GMT");
        let age_s = |fields: &[(&str, &str)]| version(&headers(fields), None, NOW_S + 30).age_s;
        assert_eq!(age_s(&[modified, ("date", "Tue, 14 Nov 2023 22:13:27 GMT")]), Some(7));
        assert_eq!(age_s(&[modified, ("date", "Tue, 14 Nov 2023 22:13:17 GMT")]), Some(-3));
        assert_eq!(age_s(&[modified, ("date", "Wed, 15 Nov 2023 22:13:17 GMT")]), Some(60));
        assert_eq!(age_s(&[modified]), Some(30), "no Date: the local clock");
        assert_eq!(age_s(&[("date", "Tue, 14 Nov 2023 22:13:27 GMT")]), None);
    }

    #[test]
    fn a_resume_names_the_tag_or_else_the_date() {
        let tagged =
            Version { etag: Some("\"a\"".into()), modified_s: Some(784_111_777), ..Version::default() };
        assert_eq!(if_range(&tagged).as_deref(), Some("\"a\""));
        let dated = Version { etag: None, ..tagged };
        assert_eq!(if_range(&dated).as_deref(), Some("Sun, 06 Nov 1994 08:49:37 GMT"));
        assert_eq!(if_range(&dated.clone().described_at(784_111_777 + 59)), None, "a weak validator");
        assert!(if_range(&dated.described_at(784_111_777 + 60)).is_some());
        assert_eq!(if_range(&Version::default()), None);
        assert_eq!(if_range(&Version { modified_s: Some(i64::MAX), ..Version::default() }), None);
    }

    #[test]
    fn a_range_beyond_the_end_is_an_empty_file_or_the_end_or_a_change() {
        let known = Version { size: Some(100), etag: Some("\"a\"".into()), ..Version::default() };
        let at_100 = Wanted { from: 100, last: None, known: Some(&known), conditional: true, now_s: NOW_S };
        let star = |size: &str| headers(&[("content-range", &format!("bytes */{size}"))]);
        assert!(matches!(beyond_end(&star("0"), &wanted(0, Some(9))), Ok(BeyondEnd::AskForAll)));
        let Ok(BeyondEnd::Nothing(opened)) = beyond_end(&star("100"), &at_100) else { panic!("complete") };
        assert_eq!((opened.length, &opened.version), (Some(0), &known));
        for size in ["99", "101", "x", ""] {
            assert!(matches!(beyond_end(&star(size), &at_100), Err(Fault::Changed)), "{size}");
        }
        assert!(
            matches!(beyond_end(&HeaderMap::new(), &at_100), Ok(BeyondEnd::Nothing(_))),
            "as Apache says it"
        );
        let unconditional = Wanted { conditional: false, ..at_100 };
        assert!(matches!(beyond_end(&HeaderMap::new(), &unconditional), Err(Fault::Changed)));
        let at_101 = Wanted { from: 101, ..at_100 };
        assert!(matches!(beyond_end(&HeaderMap::new(), &at_101), Err(Fault::Changed)));
    }

    #[test]
    fn all_instead_of_a_part_is_from_the_start_and_no_more_than_asked() {
        let fields = headers(&[("content-length", "1000"), ("accept-ranges", "bytes")]);
        let opened = whole(&fields, &wanted(100, Some(199))).expect("all");
        assert_eq!((opened.from, opened.length, opened.ranges), (0, Some(200), false));
        let opened = whole(&fields, &wanted(0, None)).expect("all");
        assert_eq!((opened.from, opened.length, opened.ranges), (0, Some(1_000), true));
    }

    #[test]
    fn transfer_codings_and_endless_headers_are_refused() {
        assert!(check_head(&headers(&[("transfer-encoding", "Chunked")])).is_ok());
        for coding in ["gzip", "gzip, chunked", "identity", "chunked, chunked"] {
            let answer = check_head(&headers(&[("transfer-encoding", coding)]));
            assert!(matches!(answer, Err(Fault::Nonsense(_))), "{coding}");
        }
        let two = check_head(&headers(&[("transfer-encoding", "gzip"), ("transfer-encoding", "chunked")]));
        assert!(matches!(two, Err(Fault::Nonsense(_))));
        let long = "x".repeat(HEADERS_LIMIT);
        assert!(matches!(check_head(&headers(&[("x-long", &long)])), Err(Fault::Nonsense(_))));
    }

    proptest! {
        #[test]
        fn no_answer_upsets_the_judge(
            fields in prop::collection::vec((0_usize..9, "[ -~]{0,40}"), 0..6),
            from in any::<u64>(),
            last in prop::option::of(any::<u64>()),
        ) {
            let names = ["content-range", "content-length", "etag", "last-modified", "retry-after", "date",
                "ratelimit", "transfer-encoding", "accept-ranges"];
            let fields = fields.iter().map(|(name, value)| (names[*name], value.as_str())).collect::<Vec<_>>();
            let fields = headers(&fields);
            let wanted = wanted(from, last);
            let _ = (check_head(&fields), pause(&fields, NOW_S), whole(&fields, &wanted), beyond_end(&fields, &wanted));
            if let Ok(opened) = partial(&fields, &wanted) {
                prop_assert_eq!(opened.from, from);
                prop_assert!(opened.length.is_some_and(|length| length > 0));
            }
        }

        #[test]
        fn a_part_never_reaches_beyond_what_was_asked(
            first in 0_u64..50, last in 0_u64..50, total in 0_u64..60, from in 0_u64..50, asked in 0_u64..50,
        ) {
            let field = format!("bytes {first}-{last}/{total}");
            if let Ok(opened) = partial(&headers(&[("content-range", &field)]), &wanted(from, Some(asked))) {
                let length = opened.length.expect("a length");
                prop_assert_eq!(opened.from, from);
                prop_assert!(from + length - 1 <= asked && from + length <= total);
            }
        }
    }
}
