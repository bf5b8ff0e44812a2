//! A row of an index page: what stands beside the link to a file. A row that names two files says nothing about either.

use super::super::dates::{DateFound, find_all};
use super::super::{Kind, When};
use super::link::trim;

/// More text in one row says nothing more.
const TEXT_LIMIT: usize = 512;

/// Stands between the cells of a row.
pub(super) const CELL: u8 = b'\t';

/// Words of a type column that say that an entry is a folder.
const FOLDER_TYPES: [&str; 12] = [
    "<dir>",
    "dir",
    "[dir]",
    "directory",
    "[directory]",
    "folder",
    "file folder",
    "inode/directory",
    "httpd/unix-directory",
    "verzeichnis",
    "répertoire",
    "directorio",
];

/// Units of sizes with their powers of 1000 or 1024.
const UNITS: [(&str, i32); 22] = [
    ("k", 1),
    ("kb", 1),
    ("kib", 1),
    ("kbytes", 1),
    ("ko", 1),
    ("m", 2),
    ("mb", 2),
    ("mib", 2),
    ("mbytes", 2),
    ("mo", 2),
    ("g", 3),
    ("gb", 3),
    ("gib", 3),
    ("go", 3),
    ("t", 4),
    ("tb", 4),
    ("tib", 4),
    ("to", 4),
    ("p", 5),
    ("pb", 5),
    ("pib", 5),
    ("e", 6),
];

const BYTE_UNITS: [&str; 7] = ["b", "byte", "bytes", "octets", "octet", "o", "байт"];

/// The entry that a row names.
#[derive(Clone, Debug)]
pub(super) struct Child {
    pub(super) name: Vec<u8>,
    pub(super) kind: Kind,
    /// Whether the text of the link is the name.
    pub(super) is_named: bool,
    /// Whether it is something else. Icons and the like are neither.
    pub(super) is_misnamed: bool,
}

/// What a row says of its entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) when: When,
    pub(super) size: Option<u64>,
    /// Whether there is a date or a size of whatever precision.
    pub(super) has_columns: bool,
}

impl Facts {
    const NONE: Self = Self { when: When::Unknown, size: None, has_columns: false };
}

/// A row that is being read.
#[derive(Debug, Default)]
pub(super) struct Row {
    pub(super) child: Option<Child>,
    /// The row names several entries.
    pub(super) is_shared: bool,
    /// The row has a mark of a folder: an icon, a class.
    pub(super) is_folder: bool,
    /// The row is a header: it has links that sort.
    pub(super) is_header: bool,
    before: Vec<u8>,
    after: Vec<u8>,
    /// Times in `<time datetime="…">`.
    times: Vec<Option<i64>>,
    /// A number in an attribute, and how long the text was there.
    attribute: Option<(u64, usize)>,
    /// An attribute that is the size that the text rounds.
    exact: Option<u64>,
}

impl Row {
    /// Adds text outside of the link.
    pub(super) fn push(&mut self, piece: &[u8]) {
        let text = if self.child.is_some() { &mut self.after } else { &mut self.before };
        let room = TEXT_LIMIT.saturating_sub(text.len());
        text.extend_from_slice(piece.get(..room).unwrap_or(piece));
    }

    /// Begins another cell.
    pub(super) fn begin_cell(&mut self) {
        self.push(&[CELL]);
        self.attribute = None;
    }

    /// Adds a time with its zone, written for programs.
    pub(super) fn push_time(&mut self, text: &[u8]) {
        if self.times.len() < 4
            && let [found] = find_all(&String::from_utf8_lossy(text)).as_slice()
        {
            self.times.push(found.time_s);
        }
    }

    /// Adds a number written for programs; it counts if the text that follows is the same size, rounded.
    pub(super) fn push_attribute(&mut self, value: u64) {
        self.attribute = Some((value, self.text().len()));
    }

    /// An element has ended: the attribute before it is a size or not.
    pub(super) fn end_element(&mut self) {
        let Some((value, from)) = self.attribute.take() else { return };
        let text = self.text();
        let text = String::from_utf8_lossy(text.get(from..).unwrap_or_default()).into_owned();
        if text.trim().is_empty() {
            self.attribute = Some((value, from));
        } else if human_size(&text).is_some_and(|size| size.is_rounded(value)) {
            self.exact = Some(value);
        }
    }

    fn text(&self) -> &[u8] {
        if self.child.is_some() { &self.after } else { &self.before }
    }

    /// Number of letters that are not part of the link.
    pub(super) fn letters(&self) -> usize {
        let count = |text: &[u8]| String::from_utf8_lossy(text).chars().filter(|c| c.is_alphabetic()).count();
        count(&self.before) + count(&self.after)
    }

    /// The kind of its entry: a file, unless the row says otherwise.
    pub(super) fn kind(&self, child: &Child) -> Kind {
        let says_folder = self.is_folder || self.has_folder_type();
        if says_folder && !self.is_shared { Kind::Folder } else { child.kind }
    }

    fn has_folder_type(&self) -> bool {
        [&self.before, &self.after].into_iter().any(|text| {
            let text = String::from_utf8_lossy(text).to_lowercase();
            let mut cells = text.split('\t').map(str::trim);
            let is_type = cells.any(|cell| FOLDER_TYPES.contains(&cell));
            is_type || text.contains("<dir>") || text.split_whitespace().any(is_folder_mode)
        })
    }

    /// What it says of its entry.
    pub(super) fn facts(&self) -> Facts {
        if self.is_shared {
            return Facts::NONE;
        }
        let before = String::from_utf8_lossy(&self.before);
        let after = String::from_utf8_lossy(&self.after);
        let (dates_before, dates_after) = (find_all(&before), find_all(&after));
        let mut times: Vec<Option<i64>> = self.times.clone();
        if times.is_empty() {
            times.extend(dates_before.iter().chain(&dates_after).map(|found| found.time_s));
        }
        let first = times.first().copied().flatten();
        // Two times: which of them is the last change?
        let when = match first {
            Some(one) if times.iter().all(|time| *time == Some(one)) => When::Roughly(one),
            _ => When::Unknown,
        };
        let size = self.exact.map(Size::exact).or_else(|| {
            let beside = |text: &str, dates: &[DateFound]| match dates {
                [date] => beside(text, *date),
                _ => None,
            };
            let by_date = beside(&after, &dates_after).or_else(|| beside(&before, &dates_before));
            by_date.or_else(|| in_cells(&before, &after)).or_else(|| {
                let is_dated = !dates_before.is_empty() || !dates_after.is_empty();
                if is_dated { None } else { human_size(&after) }
            })
        });
        let has_columns = !times.is_empty() || size.is_some();
        Facts { when, size: size.and_then(|size| size.bytes), has_columns }
    }
}

/// `drwxr-xr-x`.
fn is_folder_mode(word: &str) -> bool {
    word.len() == 10 && word.starts_with('d') && word.chars().skip(1).all(|c| "rwxsStT-".contains(c))
}

/// A size as people read it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Size {
    /// The size, if written to the byte.
    bytes: Option<u64>,
    number: f64,
    power: i32,
}

impl Size {
    #[allow(clippy::cast_precision_loss, reason = "only compared roughly")]
    fn exact(bytes: u64) -> Self {
        Self { bytes: Some(bytes), number: bytes as f64, power: 0 }
    }

    /// True if this is `value`, rounded.
    #[allow(clippy::cast_precision_loss, reason = "only compared roughly")]
    fn is_rounded(self, value: u64) -> bool {
        let is_near = |base: f64| {
            let size = self.number * base.powi(self.power);
            (size - value as f64).abs() <= 0.1 * size.max(1.0)
        };
        match self.bytes {
            Some(bytes) => bytes == value,
            None => is_near(1_000.0) || is_near(1_024.0),
        }
    }
}

/// The size right behind a date, or right before it.
fn beside(text: &str, date: DateFound) -> Option<Size> {
    let cells = text.get(date.end..).unwrap_or_default().split('\t');
    let behind = cells.map(str::trim).find(|cell| !cell.is_empty()).unwrap_or_default();
    let before = text.get(..date.start).unwrap_or_default();
    let before = before.trim_end().rsplit(char::is_whitespace).next().unwrap_or_default();
    match (first_size(behind), human_size(before)) {
        (Some(size), None) | (None, Some(size)) => Some(size),
        // `12 18-Nov-2026 15:09 34`: one of them is something else.
        _ => None,
    }
}

/// The size at the beginning of a text. More may follow behind two blanks: a description. Behind one blank it belongs to the
/// number: `2 days`, `1 234`.
fn first_size(text: &str) -> Option<Size> {
    let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let second = rest.split_whitespace().next().unwrap_or_default();
    let with_unit = human_size(&format!("{first} {second}"));
    let is_alone = rest.is_empty() || rest.starts_with(char::is_whitespace);
    let has_more_digits = second.starts_with(|c: char| c.is_ascii_digit());
    with_unit.or_else(|| human_size(first).filter(|_| is_alone && !has_more_digits))
}

/// The only cell with a size. A number without a unit counts only if no other cell has a unit.
fn in_cells(before: &str, after: &str) -> Option<Size> {
    let cells = before.split('\t').chain(after.split('\t'));
    let sizes: Vec<(Size, bool)> = cells
        .filter_map(|cell| Some((human_size(cell)?, cell.trim().chars().all(|c| c.is_ascii_digit()))))
        .collect();
    let has_cells = before.contains('\t') || after.contains('\t');
    match sizes.as_slice() {
        [(size, _)] if has_cells => Some(*size),
        [(size, false), (_, true)] | [(_, true), (size, false)] if has_cells => Some(*size),
        _ => None,
    }
}

/// A text that is nothing but a size: `1234`, `1,234,567`, `6 B`, `1.2K`.
fn human_size(text: &str) -> Option<Size> {
    let text = text.trim().trim_matches('\u{a0}').trim();
    let digits =
        text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | ',' | '\''))).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    if !number.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let unit = unit.trim().trim_matches('\u{a0}').to_lowercase();
    if unit.is_empty() || BYTE_UNITS.contains(&unit.as_str()) {
        let bytes =
            ungrouped(number).or_else(|| number.parse().ok()).filter(|size| i64::try_from(*size).is_ok());
        return bytes.map(Size::exact);
    }
    let power = UNITS.iter().find(|(name, _)| *name == unit)?.1;
    let number = number.replace(',', ".").parse().ok()?;
    Some(Size { bytes: None, number, power })
}

/// A number whose digits are in groups of three: `1,234`, `1.234.567`. One dot may begin a fraction.
fn ungrouped(number: &str) -> Option<u64> {
    let separator = number.chars().find(|c| !c.is_ascii_digit())?;
    let groups: Vec<&str> = number.split(separator).collect();
    let (first, rest) = groups.split_first()?;
    let is_grouped = (1..=3).contains(&first.len()) && rest.iter().all(|group| group.len() == 3);
    let is_certain = separator != '.' || rest.len() > 1;
    (is_grouped && is_certain).then(|| groups.concat().parse().ok()).flatten()
}

/// A number in an attribute: `data-order="1234"`.
pub(super) fn attribute_number(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(trim(text)).ok()?;
    human_size(text).and_then(|size| size.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(before: &str, after: &str) -> Facts {
        let mut row = Row::default();
        row.push(before.as_bytes());
        row.child = Some(Child { name: b"f".to_vec(), kind: Kind::File, is_named: true, is_misnamed: false });
        row.push(after.as_bytes());
        row.facts()
    }

    #[test]
    fn sizes_stand_beside_the_date_or_in_a_cell_of_their_own() {
        for (before, after, size) in [
            ("", "  18-Nov-2026 15:09      1234", Some(1_234)),
            ("", "  18-Nov-2026 15:09      1.2K", None),
            ("", "  18-Nov-2026 15:09      12 MB", None),
            ("", "  18-Nov-2026 15:09      12 bytes", Some(12)),
            ("", "  18-Nov-2026 15:09      1 234", None),
            ("", "  18-Nov-2026 15:09 2 days ago", None),
            ("", "  18-Nov-2026 15:09  12   the second run", Some(12)),
            ("", "  18-Nov-2026 15:09      1,234,567", Some(1_234_567)),
            ("", "  18-Nov-2026 15:09      1.234", None),
            ("", "  18-Nov-2026 15:09   -  ", None),
            (" 11/18/2026  3:09 PM         1234 ", "", Some(1_234)),
            ("-rw-r--r--  root  root  Nov 18 20:13     6  B  ", "", Some(6)),
            ("-rw-r--r--  root  root  Nov 18 20:13     6 kB  ", "", None),
            ("-r--  1       1234  Nov 18 20:13  ", "", Some(1_234)),
            ("", "\t6B\t[text/plain]", Some(6)),
            ("", "\t18-Nov-2026 15:09\t1234\t&nbsp;", Some(1_234)),
            ("\t(-rw-r--r--)\t18-Nov-2026 15:09\t1.2k\t", "", None),
            ("", "\t12\t1.2 MB\t2026-11-18 15:09", None),
            ("", "  6", Some(6)),
            ("", "  6 downloads", None),
            ("", "", None),
        ] {
            assert_eq!(row(before, after).size, size, "{before:?} {after:?}");
        }
    }

    #[test]
    fn a_row_with_two_times_or_two_files_says_nothing() {
        let time = When::Roughly(1_795_014_540);
        assert_eq!(row("2026-11-18 15:09", "").when, time);
        assert_eq!(row("", "2026-11-18 15:09\t2026-11-18 15:09").when, time);
        assert_eq!(row("2026-11-18 15:09", "2026-11-18 15:10").when, When::Unknown);
        let mut shared = Row { is_shared: true, ..Row::default() };
        shared.push(b"2026-11-18 15:09");
        assert_eq!(shared.facts(), Facts::NONE);
    }

    #[test]
    fn a_number_in_an_attribute_counts_if_the_text_is_the_same_size() {
        for (text, size) in
            [("1.2 KiB", Some(1_234)), ("1.2 MB", None), ("1234 B", Some(1_234)), ("yes", None)]
        {
            let mut row = Row::default();
            row.push_attribute(1_234);
            row.end_element();
            row.push(text.as_bytes());
            row.end_element();
            assert_eq!(row.facts().size, size, "{text}");
        }
    }

    #[test]
    fn folders_are_told_by_their_type() {
        let child = Child { name: b"f".to_vec(), kind: Kind::File, is_named: true, is_misnamed: false };
        for (text, kind) in [
            ("<DIR>", Kind::Folder),
            ("\tDirectory", Kind::Folder),
            ("drwxr-xr-x 2 root", Kind::Folder),
            ("-rw-r--r-- 2 root", Kind::File),
            ("\tdirectory of names", Kind::File),
        ] {
            let mut row = Row::default();
            row.push(text.as_bytes());
            assert_eq!(row.kind(&child), kind, "{text}");
        }
    }
}
