//! What tells one version of a file from another.
//!
//! Bytes of two versions must never meet in one replica, so every range states its version, and versions are compared before
//! a resume and after the last byte.
//!
//! | validators of both | equal | different |
//! |---|---|---|
//! | strong entity tag | same | changed |
//! | size and date | same | changed |
//! | any of these, with a date of the last two seconds | unknown | changed |
//! | weak entity tag, size or date alone | unknown | changed |
//!
//! A date is a validator of limited resolution: a file that is written twice within one second has one date, one size and,
//! at nginx, caddy and others that derive it from these two, one entity tag. So a fresh date proves nothing across runs
//! ([`Version::is_fresh`], RFC 9110, 8.8.2.2), whatever tag comes with it. What no validator shows is a file whose old date
//! and size were restored on purpose (`touch -r`).

use serde::{Deserialize, Serialize};

/// A younger date is a weak validator. 60 s allow for a difference between the clock of the files and that of the answers.
const FRESH_S: i64 = 60;

/// After this time another write gets another date: whole seconds, and one more for clocks that tick late.
const SETTLED_S: i64 = 2;

/// What the source says of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// Its size in bytes.
    pub size: Option<u64>,
    /// Its strong entity tag, with the quotes.
    pub etag: Option<String>,
    /// Its weak entity tag, with the quotes and without `W/`.
    #[serde(default)]
    pub weak_etag: Option<String>,
    /// When it was last changed, in seconds since 1970.
    pub modified_s: Option<i64>,
    /// Age of this date in seconds by the source's clock, within ±60 s; negative if the date is in the future, `None` if
    /// unknown. Of a partial file: when its first bytes came.
    #[serde(default)]
    pub age_s: Option<i64>,
}

/// Whether two descriptions are of the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sameness {
    /// A strong tag, or size and date, agree.
    Same,
    /// Something differs.
    Changed,
    /// Nothing differs, but too little is known to say that they are the same.
    Unknown,
}

impl Version {
    /// The same, described at this time of the source's clock.
    #[must_use]
    pub fn described_at(mut self, now_s: i64) -> Self {
        let age_s = self.modified_s.map(|modified_s| now_s.saturating_sub(modified_s));
        self.age_s = age_s.map(|age_s| age_s.clamp(-FRESH_S, FRESH_S));
        self
    }

    /// Compares with a later description.
    pub fn compare(&self, now: &Self) -> Sameness {
        if differ(self.size, now.size)
            || differ(self.any_tag(), now.any_tag())
            || (differ(self.modified_s, now.modified_s) && !self.is_dated_anew_like(now))
        {
            return Sameness::Changed;
        }
        let tagged = self.etag.is_some() && now.etag.is_some();
        let dated = self.modified_s.is_some() && now.modified_s.is_some();
        let sized = self.size.is_some() && now.size.is_some();
        let is_dated = self.is_settled() && dated && sized;
        let is_tagged = tagged && (self.is_settled() || differ(self.modified_s, now.modified_s));
        if is_tagged || is_dated { Sameness::Same } else { Sameness::Unknown }
    }

    /// True if the date is too young to prove a version in another run.
    pub fn is_fresh(&self) -> bool {
        self.modified_s.is_some() && self.age_s.is_some_and(|age_s| age_s < FRESH_S)
    }

    /// True if another write would show in the date.
    pub fn is_settled(&self) -> bool {
        self.modified_s.is_none() || self.age_s.is_none_or(|age_s| age_s >= SETTLED_S)
    }

    /// Seconds until a date of just now is settled; `None` if it is already, or if it is in the future.
    pub fn settles_in_s(&self) -> Option<u64> {
        let age_s = self.age_s.filter(|_| self.is_just_now() && !self.is_settled())?;
        u64::try_from(SETTLED_S.saturating_sub(age_s)).ok()
    }

    /// The entity tag, strong or weak, as the source wrote it.
    pub fn tag(&self) -> Option<String> {
        self.etag.clone().or_else(|| self.weak_etag.as_ref().map(|tag| format!("W/{tag}")))
    }

    /// The tag without its strength: servers weaken a tag without changing it.
    fn any_tag(&self) -> Option<&String> {
        self.etag.as_ref().or(self.weak_etag.as_ref())
    }

    /// True if both dates are the time of the answer (Apache does so for dates in the future) and the tags agree.
    fn is_dated_anew_like(&self, now: &Self) -> bool {
        self.is_just_now() && now.is_just_now() && self.etag.is_some() && self.etag == now.etag
    }

    fn is_just_now(&self) -> bool {
        self.modified_s.is_some() && self.age_s.is_some_and(|age_s| age_s.abs() <= SETTLED_S)
    }
}

/// Whether both are known and are not equal. A tag that has come or gone says nothing: caches drop them.
fn differ<T: PartialEq>(before: Option<T>, now: Option<T>) -> bool {
    matches!((before, now), (Some(before), Some(now)) if before != now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(size: Option<u64>, etag: Option<&str>, modified_s: Option<i64>) -> Version {
        Version { size, etag: etag.map(str::to_owned), modified_s, ..Version::default() }
    }

    fn weak(tag: &str) -> Version {
        Version { size: Some(7), weak_etag: Some(tag.to_owned()), ..Version::default() }
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

    #[test]
    fn a_weak_tag_shows_a_change_and_proves_nothing() {
        assert_eq!(weak("\"a\"").compare(&weak("\"a\"")), Sameness::Unknown);
        assert_eq!(weak("\"a\"").compare(&weak("\"b\"")), Sameness::Changed);
        let strong = version(Some(7), Some("\"a\""), None);
        assert_eq!(strong.compare(&weak("\"b\"")), Sameness::Changed);
        assert_eq!(strong.compare(&weak("\"a\"")), Sameness::Unknown, "weakened, as nginx does");
        assert_eq!(strong.compare(&Version::default()), Sameness::Unknown, "dropped, as caches do");
        assert_eq!((strong.tag(), weak("\"a\"").tag()), (Some("\"a\"".into()), Some("W/\"a\"".into())));
    }

    #[test]
    fn a_date_of_just_now_proves_nothing_and_a_fresh_one_nothing_in_another_run() {
        let at = |now_s| version(Some(7), Some("\"64-7\""), Some(100)).described_at(now_s);
        for (now_s, is_settled, is_fresh) in
            [(100, false, true), (101, false, true), (102, true, true), (159, true, true), (160, true, false)]
        {
            let sameness = at(now_s).compare(&at(1_000));
            let expected = if is_settled { Sameness::Same } else { Sameness::Unknown };
            assert_eq!((sameness, at(now_s).is_fresh()), (expected, is_fresh), "{now_s}");
        }
        assert!(at(50).is_fresh() && at(i64::MIN).is_fresh(), "a date in the future");
        assert_eq!(at(50).settles_in_s(), None, "waiting is of no use");
        assert_eq!(
            (at(100).settles_in_s(), at(99).settles_in_s(), at(102).settles_in_s()),
            (Some(2), Some(3), None)
        );
        let undated = version(Some(7), Some("\"a\""), None).described_at(100);
        assert!(!undated.is_fresh() && undated.is_settled());
        assert!(!version(Some(7), None, Some(100)).is_fresh(), "its age is not known");
    }

    #[test]
    fn a_date_that_is_the_time_of_the_answer_is_no_change_if_the_tag_is_the_same() {
        let at = |etag, now_s| version(Some(7), etag, Some(now_s)).described_at(now_s);
        let tag = Some("\"a\"");
        assert_eq!(at(tag, 100).compare(&at(tag, 105)), Sameness::Same);
        assert_eq!(at(tag, 100).compare(&at(tag, 100)), Sameness::Unknown);
        assert_eq!(at(None, 100).compare(&at(None, 105)), Sameness::Changed);
        assert_eq!(at(tag, 100).compare(&at(Some("\"b\""), 105)), Sameness::Changed);
        let rewritten = version(Some(7), tag, Some(105)).described_at(120);
        assert_eq!(at(tag, 100).compare(&rewritten), Sameness::Changed);
    }
}
