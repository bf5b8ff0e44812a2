//! What tells one version of a file from another.
//!
//! Nothing of a file is ever added to bytes of another version of it, so every pull says of which version its bytes
//! are, and before any resume the two are compared.

use serde::{Deserialize, Serialize};

/// What the source says of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// Its size in bytes.
    pub size: Option<u64>,
    /// Its strong entity tag, with the quotes. A weak one says nothing about bytes and never gets here.
    pub etag: Option<String>,
    /// When it was last changed, in seconds since 1970.
    pub modified_s: Option<i64>,
}

/// Whether two descriptions are of the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sameness {
    /// A strong tag, or size and date, agree.
    Same,
    /// Something differs.
    Changed,
    /// Nothing differs, but too little is known to say that they are the same: compare some bytes.
    Unknown,
}

impl Version {
    /// Compares with what is said now.
    pub fn compare(&self, now: &Self) -> Sameness {
        if differ(self.size.as_ref(), now.size.as_ref())
            || differ(self.etag.as_ref(), now.etag.as_ref())
            || differ(self.modified_s.as_ref(), now.modified_s.as_ref())
        {
            return Sameness::Changed;
        }
        let tagged = self.etag.is_some() && now.etag.is_some();
        let dated = self.modified_s.is_some() && now.modified_s.is_some();
        let sized = self.size.is_some() && now.size.is_some();
        if tagged || (dated && sized) { Sameness::Same } else { Sameness::Unknown }
    }
}

/// Whether both are known and are not equal. A tag that has come or gone says nothing: caches drop them.
fn differ<T: PartialEq>(before: Option<&T>, now: Option<&T>) -> bool {
    matches!((before, now), (Some(before), Some(now)) if before != now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(size: Option<u64>, etag: Option<&str>, modified_s: Option<i64>) -> Version {
        Version { size, etag: etag.map(str::to_owned), modified_s }
    }

    #[test]
    fn any_difference_is_a_change() {
        let was = version(Some(7), Some("\"a\""), Some(100));
        assert_eq!(was.compare(&was.clone()), Sameness::Same);
        for now in [
            version(Some(8), Some("\"a\""), Some(100)),
            version(Some(7), Some("\"b\""), Some(100)),
            version(Some(7), Some("\"a\""), Some(101)),
        ] {
            assert_eq!(was.compare(&now), Sameness::Changed, "{now:?}");
        }
    }

    #[test]
    fn a_tag_or_size_with_date_is_enough_and_less_is_not() {
        let tagged = version(None, Some("\"a\""), None);
        assert_eq!(tagged.compare(&tagged.clone()), Sameness::Same);
        let dated = version(Some(7), None, Some(100));
        assert_eq!(dated.compare(&dated.clone()), Sameness::Same);
        for little in [version(Some(7), None, None), version(None, None, Some(100)), Version::default()] {
            assert_eq!(little.compare(&little.clone()), Sameness::Unknown);
        }
        assert_eq!(tagged.compare(&dated), Sameness::Unknown);
    }
}
