//! Whether a replica is the file that a listing shows. Pure; the walk and the recorder ask.
//!
//! A listing is often older or newer than what the source serves (HTTP caches, stat caches), and often without a zone. So its
//! statement about a file counts only if it was compared with the version that the source served ([`standing`]), and the
//! same statement then needs no further question ([`verdict`]). Anything else is asked for or pulled.

use super::found::Why;
use super::spec::Compare;
use super::walk::Note;
use super::zones::Zones;
use crate::fetch::Entry;
use crate::fetch::sink::Replica;
use crate::jobs::manifest::{Listed, Record, Standing};

/// A replica whose original was this young when it was seen may have been changed again within the same minute.
const YOUNG_S: i64 = 120;

/// A file that was pulled within this time of its last change may have been changed again within the same second: one second
/// of resolution. Longer transfers are checked after their last byte.
const SAME_SECOND_S: u64 = 1;

/// How far a coarse time may be from the real one: no zone is farther away, and some listings tell the day only.
pub(super) const COARSE_S: i64 = (15 + 24) * 3_600;

/// All time zones differ from UTC by a multiple of a quarter of an hour.
pub(super) const ZONE_STEP_S: i64 = 900;

pub(super) const MINUTE_S: i64 = 60;
pub(super) const DAY_S: i64 = 86_400;

/// What is to be done about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    UpToDate,
    Pull(Why),
}

const UNSURE: Verdict = Verdict::Pull(Why::Unsure);

/// Whether the replica that is here is the file that a listing shows.
pub(super) fn verdict(compare: Compare, entry: &Entry, replica: Replica, record: Option<&Record>) -> Verdict {
    let same_size = entry.size.map(|size| size == replica.size);
    match (compare, same_size) {
        (Compare::Exists, _) | (Compare::Size, Some(true)) => Verdict::UpToDate,
        // The listing said so before, and the source served this size: it is the listing that is wrong.
        (_, Some(false)) if as_we_left_it(replica, record).is_some_and(|record| states(record, entry)) => {
            UNSURE
        }
        (_, Some(false)) => Verdict::Pull(Why::Size),
        (Compare::Size, None) | (Compare::Checksum, _) => UNSURE,
        (Compare::Mtime, _) => by_time(entry, replica, record),
    }
}

/// A time to the second decides. A coarse one only says whether the source is as it was when we last knew for sure.
pub(super) fn by_time(entry: &Entry, replica: Replica, record: Option<&Record>) -> Verdict {
    let exact = entry.exact_s();
    let is_same_time = exact == Some(replica.modified_s);
    let Some(record) = as_we_left_it(replica, record) else {
        return match exact {
            Some(_) if is_same_time && entry.size.is_some() => Verdict::UpToDate,
            Some(_) if !is_same_time => Verdict::Pull(Why::Time),
            _ => UNSURE,
        };
    };
    let is_stated = states(record, entry);
    let of_version =
        record.listed.as_ref().filter(|listed| is_stated && listed.standing == Standing::Settled);
    let is_settled = of_version.is_some_and(|listed| is_over(record, listed));
    match exact {
        _ if (of_version.is_some() || is_same_time) && was_changed_as_it_was_pulled(record) => {
            Verdict::Pull(Why::Recent)
        }
        Some(_) if is_same_time && entry.size.is_some() => Verdict::UpToDate,
        _ if is_settled => Verdict::UpToDate,
        Some(_) if !is_same_time && !is_stated => Verdict::Pull(Why::Time),
        _ => UNSURE,
    }
}

/// What is remembered of a replica, if nothing else has changed the replica since.
pub(super) fn as_we_left_it(replica: Replica, record: Option<&Record>) -> Option<&Record> {
    record.filter(|record| record.size == replica.size && record.replica_s == Some(replica.modified_s))
}

/// True if the listing states the same as when the source was last asked.
fn states(record: &Record, entry: &Entry) -> bool {
    record.listed.as_ref().is_some_and(|listed| {
        (listed.exact_s, listed.coarse_s, listed.size) == (entry.exact_s(), entry.coarse_s, entry.size)
    })
}

fn was_changed_as_it_was_pulled(record: &Record) -> bool {
    record.modified_s.is_some_and(|modified_s| record.pulled_s.abs_diff(modified_s) <= SAME_SECOND_S)
}

/// True if the listed time was over when it was seen: a later change has another one.
fn is_over(record: &Record, listed: &Listed) -> bool {
    match (listed.exact_s, listed.coarse_s, record.modified_s) {
        (Some(_), ..) => true,
        (None, None, _) => false,
        (None, Some(_), Some(modified_s)) => listed.seen_s.saturating_sub(modified_s) >= YOUNG_S,
        (None, Some(coarse_s), None) => {
            is_over_in_every_zone(listed.seen_s.saturating_sub(coarse_s), coarse_s)
        }
    }
}

/// True if a listed minute was over when it was seen, whatever its zone: zones differ by quarters of an hour.
fn is_over_in_every_zone(age_s: i64, coarse_s: i64) -> bool {
    let is_far = age_s.saturating_abs() >= COARSE_S + YOUNG_S;
    is_far || (!is_day(coarse_s) && age_s.rem_euclid(ZONE_STEP_S) >= YOUNG_S)
}

/// Midnight: the listing gives the day alone.
pub(super) fn is_day(coarse_s: i64) -> bool {
    coarse_s.rem_euclid(DAY_S) == 0
}

/// Relation between a listed time and the version that the source served for this replica. A time is settled only by
/// its own version: a cache may serve an older one.
pub(super) fn standing(note: &Note, replica: Replica, before: Option<&Record>, zones: &Zones) -> Standing {
    if !note.is_proven || note.size.is_some_and(|size| size != replica.size) {
        return Standing::Open;
    }
    match (note.version_s, note.exact_s, note.coarse_s) {
        (Some(version_s), Some(exact_s), _) if version_s != exact_s => Standing::Open,
        (Some(version_s), None, Some(coarse_s)) => {
            if fits(version_s, coarse_s, note.zone_s.unwrap_or(0)) {
                Standing::Settled
            } else if has_moved(note, before, version_s) {
                Standing::Contradicted
            } else if zones.usual().any(|zone_s| fits(version_s, coarse_s, zone_s)) {
                Standing::Settled
            } else {
                Standing::Open
            }
        }
        _ => Standing::Settled,
    }
}

/// True if the listing shows another time than before for the same version.
fn has_moved(note: &Note, before: Option<&Record>, version_s: i64) -> bool {
    let same = before.filter(|before| before.modified_s == Some(version_s));
    same.and_then(|same| same.listed.as_ref())
        .is_some_and(|listed| listed.coarse_s != note.coarse_s || listed.standing == Standing::Contradicted)
}

/// True if a version of this time is listed so in this zone.
fn fits(version_s: i64, coarse_s: i64, zone_s: i64) -> bool {
    let later_s = version_s.saturating_add(zone_s).saturating_sub(coarse_s);
    (0..if is_day(coarse_s) { DAY_S } else { MINUTE_S }).contains(&later_s)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fetch::Name;

    const LISTED: i64 = 1_700_000_040;

    fn note(version_s: i64, coarse_s: i64) -> Note {
        Note {
            below: Vec::new(),
            name: Name::new("f").expect("a name"),
            size: Some(5),
            exact_s: None,
            coarse_s: Some(coarse_s),
            zone_s: None,
            version_s: Some(version_s),
            etag: None,
            sha256: None,
            is_new: true,
            is_proven: true,
            now_s: LISTED + 1_000_000,
        }
    }

    const REPLICA: Replica = Replica { size: 5, modified_s: LISTED };

    fn stands(note: &Note, zones: &Zones) -> Standing {
        standing(note, REPLICA, None, zones)
    }

    #[test]
    fn a_listed_time_is_settled_by_its_own_version_only() {
        let none = Zones::default();
        assert_eq!(stands(&note(LISTED, LISTED), &none), Standing::Settled);
        assert_eq!(stands(&note(LISTED + 59, LISTED), &none), Standing::Settled);
        for older_s in [1, 60, 600, 3_600, 5 * 3_600, 86_400] {
            assert_eq!(stands(&note(LISTED - older_s, LISTED), &none), Standing::Open, "{older_s}");
        }
        let exact = |version_s| Note { exact_s: Some(LISTED), coarse_s: None, ..note(version_s, 0) };
        assert_eq!(stands(&exact(LISTED), &none), Standing::Settled);
        assert_eq!(stands(&exact(LISTED - 3_600), &none), Standing::Open);
        let other_size = Note { size: Some(6), ..note(LISTED, LISTED) };
        assert_eq!(stands(&other_size, &none), Standing::Open);
        let unproven = Note { is_proven: false, ..note(LISTED, LISTED) };
        assert_eq!(stands(&unproven, &none), Standing::Open);
        let day = 1_700_006_400;
        assert_eq!(stands(&note(day + 50_000, day), &none), Standing::Settled);
        assert_eq!(stands(&note(day - 1, day), &none), Standing::Open);
    }

    #[test]
    fn a_zone_that_many_files_share_settles_and_one_file_in_it_does_not() {
        let mut zones = Zones::default();
        let east = |n: i64| (LISTED + n * 86_400, LISTED + n * 86_400 + 7_200);
        for n in 0..3 {
            assert_eq!(stands(&note(east(n).0, east(n).1), &zones), Standing::Open, "{n}");
            zones.observe(east(n).0, east(n).1);
        }
        assert_eq!(stands(&note(east(7).0, east(7).1), &zones), Standing::Settled);
        assert_eq!(stands(&note(LISTED, LISTED + 3_600), &zones), Standing::Open);
    }

    #[test]
    fn a_listed_time_that_moves_while_the_version_does_not_is_never_settled_by_a_zone() {
        let mut zones = Zones::default();
        (0..9).for_each(|n| zones.observe(LISTED + n, LISTED + n + 3_600));
        let moved = note(LISTED, LISTED + 3_600);
        let listed = Listed { coarse_s: Some(LISTED), size: Some(5), ..Listed::default() };
        let before = Record { size: 5, modified_s: Some(LISTED), listed: Some(listed), ..Record::default() };
        assert_eq!(standing(&moved, REPLICA, None, &zones), Standing::Settled);
        assert_eq!(standing(&moved, REPLICA, Some(&before), &zones), Standing::Contradicted);
        let again = Listed { coarse_s: moved.coarse_s, standing: Standing::Contradicted, ..listed };
        let before = Record { listed: Some(again), ..before };
        assert_eq!(standing(&moved, REPLICA, Some(&before), &zones), Standing::Contradicted);
    }

    #[test]
    fn without_a_version_a_listed_minute_must_be_over_in_every_zone() {
        for (age_s, expected) in [
            (0, false),
            (119, false),
            (120, true),
            (899, true),
            (900, false),
            (3_600 + 30, false),
            (-3_600 + 30, false),
            (-3_600 + 300, true),
            (50 * 3_600, true),
        ] {
            assert_eq!(is_over_in_every_zone(age_s, LISTED), expected, "{age_s}");
        }
        assert!(!is_over_in_every_zone(30 * 3_600, 86_400 * 20_000), "only the day is known");
    }

    #[test]
    fn a_file_pulled_within_the_second_of_its_change_is_pulled_again_once() {
        let entry = |exact| Entry {
            name: Name::new("f").expect("a name"),
            kind: crate::fetch::EntryKind::File,
            size: Some(5),
            modified_s: Some(exact),
            coarse_s: None,
        };
        let record = |pulled_s| Record {
            size: 5,
            modified_s: Some(LISTED),
            replica_s: Some(LISTED),
            pulled_s,
            ..Record::default()
        };
        let decide = |pulled_s| by_time(&entry(LISTED), REPLICA, Some(&record(pulled_s)));
        assert_eq!(decide(LISTED), Verdict::Pull(Why::Recent));
        assert_eq!(decide(LISTED + 1), Verdict::Pull(Why::Recent));
        assert_eq!(decide(LISTED + 2), Verdict::UpToDate);
    }

    #[test]
    fn a_listing_that_was_wrong_before_is_asked_about_and_not_believed() {
        let entry = |size, exact| Entry {
            name: Name::new("f").expect("a name"),
            kind: crate::fetch::EntryKind::File,
            size: Some(size),
            modified_s: Some(exact),
            coarse_s: None,
        };
        let listed = |size, exact_s| Listed {
            exact_s: Some(exact_s),
            size: Some(size),
            standing: Standing::Open,
            ..Listed::default()
        };
        let record = |listed| Record {
            size: 5,
            modified_s: Some(LISTED),
            replica_s: Some(LISTED),
            listed: Some(listed),
            ..Record::default()
        };
        let decide = |entry, listed| verdict(Compare::Mtime, &entry, REPLICA, Some(&record(listed)));
        // A cache serves an older version than the listing shows.
        assert_eq!(decide(entry(5, LISTED + 9), listed(5, LISTED + 9)), UNSURE);
        assert_eq!(decide(entry(5, LISTED + 10), listed(5, LISTED + 9)), Verdict::Pull(Why::Time));
        assert_eq!(decide(entry(6, LISTED), listed(6, LISTED)), UNSURE);
        assert_eq!(decide(entry(7, LISTED), listed(6, LISTED)), Verdict::Pull(Why::Size));
    }
}
