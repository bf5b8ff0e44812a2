//! What sources send, and where they are: listings, lists of digests, addresses, names. Any bytes; what is made of them
//! keeps its promises.

use jiff::Timestamp;
use stroll::fetch::listing::{self, Collector, Line, Lines, Piece, html, json, mlsd};
use stroll::fetch::sink::{Algorithm, Sums};
use stroll::fetch::timetable::Timetable;
use stroll::fetch::{Address, Listing, Name, NameError};
use url::Url;

const NOW_S: i64 = 1_700_000_000;

/// Every listing, whatever was in it.
fn check(listing: &Listing) {
    let mut folded = std::collections::BTreeSet::new();
    for entry in &listing.entries {
        check_name(&entry.name);
        assert!(!entry.name.is_hidden(), "{:?} was not wanted", entry.name);
        assert!(folded.insert(entry.name.folded()), "{:?} is not the only one", entry.name);
    }
    assert!(listing.entries.windows(2).all(|pair| pair[0].name < pair[1].name), "not in order");
    for (name, _) in &listing.refused {
        assert!(!name.chars().any(char::is_control), "{name:?} is not escaped");
    }
}

fn check_name(name: &Name) {
    let text = name.as_str();
    assert!(!text.is_empty() && text != "." && text != ".." && text.len() <= 255, "{text:?}");
    assert!(!text.contains(['/', '\\', '\0', ':']) && !text.chars().any(char::is_control), "{text:?}");
    assert_eq!(Name::new(text).as_ref(), Ok(name), "read again it is the same");
}

fn by_lines(data: &[u8], line: impl for<'a> Fn(&'a [u8]) -> Line<'a>) {
    let (mut lines, mut collector) = (Lines::default(), Collector::with_limit(false, 1_000));
    let take = |piece: Piece<'_>, collector: &mut Collector| match piece {
        Piece::Line(text) => match line(text) {
            Line::Entry(found) => collector.add(&found),
            Line::Nothing => {}
            Line::Strange => collector.mark_truncated(),
        },
        Piece::TooLong(start) => collector.refuse(start, NameError::TooLong),
    };
    // In pieces of any size, as they come from the network.
    let size = usize::from(data.first().copied().unwrap_or(0)) + 1;
    for piece in data.chunks(size) {
        lines.push(piece, |piece| take(piece, &mut collector));
    }
    lines.end(|piece| take(piece, &mut collector));
    check(&collector.finish(Some(3_600)));
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
    check(&html::parse(data, &folder, false));
}

/// An index in JSON.
pub(crate) fn json_listing(data: &[u8]) {
    if let Ok(listing) = json::parse(data, false) {
        check(&listing);
    }
}

/// A list of digests.
pub(crate) fn sums(data: &[u8]) {
    for hint in [None, Some(Algorithm::Sha256), Some(Algorithm::Md5)] {
        let sums = Sums::parse(data, hint);
        assert!(sums.len() <= data.len(), "more files than bytes");
        if let Some(digest) = sums.digest_of("file").or_else(|| sums.digest_of_only("file")) {
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
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(name) = Name::new(text) {
        check_name(&name);
    }
}
