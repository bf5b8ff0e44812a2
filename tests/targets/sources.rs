//! What sources send, and where they are: listings, lists of digests, addresses, names. Any bytes; what is made of them
//! keeps its promises.

use jiff::Timestamp;
use stroll::fetch::listing::{self, Collector, Line, Lines, Piece, html, json, mlsd};
use stroll::fetch::sink::sums::Said;
use stroll::fetch::sink::{Algorithm, Sums};
use stroll::fetch::timetable::Timetable;
use stroll::fetch::{Address, Name, NameError, PackedListing};
use url::Url;

const NOW_S: i64 = 1_700_000_000;

/// Every listing, whatever was in it; then the same with portable names alone.
fn check(mut listing: PackedListing) {
    check_entries(&listing);
    listing.keep_portable();
    let twins = listing.twins();
    listing.refuse_twins(&twins, |_, _| true);
    check_entries(&listing);
    let mut folded = std::collections::BTreeSet::new();
    for entry in listing.entries.iter() {
        assert_eq!(entry.name.check_portable(), Ok(()), "{:?}", entry.name);
        assert!(folded.insert(entry.name.folded()), "{:?} is not the only one", entry.name);
    }
}

fn check_entries(listing: &PackedListing) {
    let names: Vec<Name> = listing.entries.iter().map(|entry| entry.name).collect();
    for entry in listing.entries.iter() {
        check_name(&entry.name);
        assert!(!entry.name.is_hidden(), "{:?} was not wanted", entry.name);
    }
    assert!(names.windows(2).all(|pair| pair[0] < pair[1]), "not in order");
    for (name, _) in &listing.refused {
        assert!(!name.chars().any(char::is_control), "{name:?} is not escaped");
    }
}

fn check_name(name: &Name) {
    let bytes = name.to_bytes();
    assert!(!bytes.is_empty() && bytes != b"." && bytes != b".." && bytes.len() <= 255, "{name:?}");
    assert!(!bytes.iter().any(|byte| *byte == b'/' || byte.is_ascii_control()), "{name:?}");
    assert_eq!(Name::from_bytes(&bytes).as_ref(), Ok(name), "read again it is the same");
    assert_eq!(Name::from_key(name.as_str()).as_ref(), Ok(name), "and so is its text");
}

fn by_lines(data: &[u8], line: impl for<'a> Fn(&'a [u8]) -> Line<'a>) {
    let (mut lines, mut collector) = (Lines::default(), Collector::with_limit(false, 1_000));
    let take = |piece: Piece<'_>, collector: &mut Collector| match piece {
        Piece::Line(text) => line(text).collect(collector),
        Piece::TooLong(start) => collector.refuse(start, NameError::TooLong),
    };
    // In pieces of any size, as they come from the network.
    let size = usize::from(data.first().copied().unwrap_or(0)) + 1;
    for piece in data.chunks(size) {
        lines.push(piece, |piece| take(piece, &mut collector));
    }
    lines.end(|piece| take(piece, &mut collector));
    check(collector.finish(Some(3_600)));
}

/// A listing by MLSD.
pub(crate) fn mlsd_listing(data: &[u8]) {
    by_lines(data, mlsd::line);
}

/// A listing by LIST, in any style.
pub(crate) fn list_listing(data: &[u8]) {
    by_lines(data, |line| listing::list_line(line, NOW_S));
}

/// An index page.
pub(crate) fn html_listing(data: &[u8]) {
    let folder = Url::parse("http://source.example/data/").expect("an address");
    if let Ok(listing) = html::parse(data, &folder, false) {
        check(listing);
    }
}

/// An index in JSON.
pub(crate) fn json_listing(data: &[u8]) {
    if let Ok(listing) = json::parse(data, false) {
        check(listing);
    }
}

/// A list of digests.
pub(crate) fn sums(data: &[u8]) {
    for hint in [None, Some(Algorithm::Sha256), Some(Algorithm::Md5)] {
        let Ok(sums) = Sums::parse(data, hint) else { continue };
        assert!(sums.len() <= data.len(), "more files than bytes");
        if let Said::Digest(digest) = sums.said_of_only(b"file") {
            let (digest, text) = (digest.to_string(), String::from_utf8_lossy(data).to_ascii_lowercase());
            let (_, hex) = digest.split_once(':').expect("its kind is in front");
            assert!(text.contains(hex), "{hex} is nowhere in it");
        }
    }
}

/// A timetable of rates.
pub(crate) fn timetable(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(timetable) = Timetable::parse(text) else { return };
    for at_s in [0, NOW_S, 4_000_000_000] {
        let at = Timestamp::from_second(at_s).expect("a time");
        let rate = timetable.rate_at(at);
        match timetable.next_change_after(at) {
            Some(next) => assert!(next > at, "a change that was"),
            None => assert_eq!(rate, timetable.rate_at(Timestamp::UNIX_EPOCH), "it never changes"),
        }
    }
}

/// An address, and the names that follow from it.
pub(crate) fn address(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok((address, info)) = Address::parse(text) else { return };
    let written = address.to_string();
    let (again, nobody) = Address::parse(&written).expect("what we write we read");
    assert_eq!((&again, nobody), (&address, None), "{text:?} is {written}");
    if let Some(password) = info.and_then(|info| info.password).filter(|password| password.len() > 8) {
        assert!(address.url().password().is_none_or(|kept| kept != password.as_str()), "{written}");
    }
    if let Ok(name) = address.file_name() {
        check_name(&name);
        let parent = address.parent().expect("a file is somewhere");
        assert!(parent.is_folder() && parent.contains(&address), "{parent} does not hold {address}");
    }
}

/// A name.
pub(crate) fn name(data: &[u8]) {
    if let Ok(name) = Name::from_bytes(data) {
        check_name(&name);
    }
}
