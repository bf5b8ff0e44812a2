//! What a mirror is to do, as plain values: made by the command line and by the settings, read by the walk and the deletion.

use std::path::PathBuf;
use std::str::FromStr;

use serde::Deserialize;

use crate::fetch::Address;
use crate::fetch::listing::Entries;
use crate::jobs::filter::Filter;

/// A mirror.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The folder at the source.
    pub source: Address,
    /// The folder here.
    pub target: PathBuf,
    /// Which files are meant.
    pub filter: Filter,
    /// When a replica is up to date.
    pub compare: Compare,
    /// Which file of a folder comes first.
    pub order: Order,
    /// What is removed here, if anything is.
    pub delete: Option<Delete>,
    /// How many bytes one run may pull.
    pub max_transfer: Option<u64>,
    /// Whether names that start with a dot are meant, too.
    pub hidden: bool,
    /// Only names that every platform can hold.
    pub portable_names: bool,
    /// What is done about symbolic links at an FTP source.
    pub links: Links,
    /// Only say what would be done.
    pub dry_run: bool,
}

/// What is done about symbolic links at the source. HTTP servers do not show which entries are links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Links {
    /// Mirrored as what they lead to, if that is in the mirrored tree.
    #[default]
    Follow,
    /// Counted and reported.
    Skip,
    /// Each is an error.
    Fail,
}

/// When a replica is up to date.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compare {
    /// When it is there.
    Exists,
    /// When it has the size of the original.
    Size,
    /// When it has its size and its time.
    #[default]
    Mtime,
    /// When its bytes add up to what a list beside the original says; where there is none, by size and time.
    Checksum,
}

/// Which file of a folder comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// By what.
    pub by: By,
    /// The last one first.
    pub descending: bool,
}

/// By what files are ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// By their names.
    #[default]
    Name,
    /// By their sizes.
    Size,
    /// By their times.
    Mtime,
}

/// What is wrong with an order or a limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// Not an order.
    #[error("`{0}` is not an order; write name, size or mtime, perhaps with ,desc behind it")]
    Order(String),
    /// Not a limit of deletion.
    #[error("`{0}` is not a limit; write a number of files, or a share such as 10%")]
    MaxDelete(String),
}

impl FromStr for Order {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let wrong = || SpecError::Order(text.to_owned());
        let (by, direction) = text.split_once(',').unwrap_or((text, "asc"));
        let by = match by.trim() {
            "name" => By::Name,
            "size" => By::Size,
            "mtime" => By::Mtime,
            _ => return Err(wrong()),
        };
        let descending = match direction.trim() {
            "asc" => false,
            "desc" => true,
            _ => return Err(wrong()),
        };
        Ok(Self { by, descending })
    }
}

impl Order {
    /// Puts entries, which are in the order of their names, into this one. What a listing does not tell comes last.
    pub(super) fn sort(self, entries: &mut Entries) {
        let Self { by, descending } = self;
        let value = |size: Option<u64>, time_s: Option<i64>| match by {
            By::Name => None,
            By::Size => size.map(i128::from),
            By::Mtime => time_s.map(i128::from),
        };
        match (by, descending) {
            (By::Name, false) => {}
            (By::Name, true) => entries.reverse(),
            (_, false) => entries.sort_by_key(|size, time_s| {
                let value = value(size, time_s);
                (value.is_none(), value)
            }),
            (_, true) => entries.sort_by_key(|size, time_s| {
                let value = value(size, time_s);
                (value.is_none(), value.map(std::cmp::Reverse))
            }),
        }
    }
}

/// What is removed here because it is not there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delete {
    /// How much at most.
    pub max: MaxDelete,
    /// Whether the user said so, and did not leave it at the usual.
    pub is_told: bool,
    /// Whether also what the filter leaves out.
    pub excluded: bool,
    /// Where to move it instead.
    pub backup: Option<PathBuf>,
}

/// How much may be removed in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaxDelete {
    /// So many files.
    Files(u64),
    /// So many per cent of the files that are here.
    Percent(u8),
}

impl Default for MaxDelete {
    fn default() -> Self {
        Self::Percent(10)
    }
}

impl MaxDelete {
    /// Whether `doomed` of `here` files are not too many.
    pub fn allows(self, doomed: u64, here: u64) -> bool {
        match self {
            Self::Files(most) => doomed <= most,
            Self::Percent(most) => u128::from(doomed) * 100 <= u128::from(here) * u128::from(most),
        }
    }
}

impl std::fmt::Display for MaxDelete {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Files(most) => write!(f, "{most}"),
            Self::Percent(most) => write!(f, "{most}%"),
        }
    }
}

impl FromStr for MaxDelete {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let wrong = || SpecError::MaxDelete(text.to_owned());
        match text.trim().strip_suffix('%') {
            Some(share) => match share.trim_end().parse() {
                Ok(share @ 0..=100) => Ok(Self::Percent(share)),
                _ => Err(wrong()),
            },
            None => text.trim().parse().map(Self::Files).map_err(|_| wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fetch::{Entry, EntryKind, Name};

    fn entry(name: &str, size: Option<u64>, modified_s: Option<i64>) -> Entry {
        let name = Name::new(name).expect(name);
        Entry { name, kind: EntryKind::File, size, modified_s, coarse_s: None }
    }

    #[test]
    fn orders_are_read_and_kept_and_what_is_not_told_comes_last() {
        let all = [entry("a", Some(2), Some(9)), entry("b", None, None), entry("c", Some(1), Some(10))];
        for (text, expected) in [
            ("name", "abc"),
            ("name,desc", "cba"),
            ("size", "cab"),
            ("size,desc", "acb"),
            ("mtime", "acb"),
            ("mtime, desc", "cab"),
        ] {
            let mut sorted: Entries = all.to_vec().into();
            text.parse::<Order>().expect(text).sort(&mut sorted);
            let names: String = sorted.iter().map(|entry| entry.name.to_string()).collect();
            assert_eq!(names, expected, "{text}");
        }
        assert!("age".parse::<Order>().is_err() && "size,down".parse::<Order>().is_err());
    }

    #[test]
    fn limits_are_a_number_or_a_share() {
        assert_eq!("10%".parse(), Ok(MaxDelete::default()));
        assert_eq!("3".parse(), Ok(MaxDelete::Files(3)));
        for wrong in ["", "-1", "101%", "ten", "1.5%"] {
            assert!(wrong.parse::<MaxDelete>().is_err(), "{wrong}");
        }
        let tenth = MaxDelete::default();
        assert!(tenth.allows(1, 10) && tenth.allows(0, 0) && !tenth.allows(1, 9) && !tenth.allows(1, 0));
        assert!(MaxDelete::Files(3).allows(3, 3) && !MaxDelete::Files(3).allows(4, 1_000));
    }
}
