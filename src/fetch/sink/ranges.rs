//! Which bytes of a file are there: a sorted set of ranges that neither overlap nor touch.
//!
//! Pure. A part and its journal keep one; the engine asks it what is still missing.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// A set of bytes, as few ranges as possible, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<(u64, u64)>", into = "Vec<(u64, u64)>")]
pub struct Ranges(Vec<Range<u64>>);

/// A list that is no such set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("ranges that are empty, out of order or touching")]
pub struct RangesError;

impl Ranges {
    /// Adds a range; what is there already stays.
    pub fn insert(&mut self, new: Range<u64>) {
        if new.start >= new.end {
            return;
        }
        // Appending to the last range is what nearly every write does.
        if let Some(last) = self.0.last_mut()
            && last.end == new.start
        {
            last.end = new.end;
            return;
        }
        let from = self.0.partition_point(|range| range.end < new.start);
        let to = self.0.partition_point(|range| range.start <= new.end);
        let merged = self
            .0
            .get(from..to)
            .unwrap_or_default()
            .iter()
            .fold(new, |all, range| all.start.min(range.start)..all.end.max(range.end));
        self.0.splice(from..to, [merged]);
    }

    /// Whether some byte of the range is there.
    pub fn overlaps(&self, range: &Range<u64>) -> bool {
        let next = self.0.partition_point(|own| own.end <= range.start);
        range.start < range.end && self.0.get(next).is_some_and(|own| own.start < range.end)
    }

    /// What is missing of a file of that many bytes, in order.
    pub fn missing(&self, total: u64) -> impl Iterator<Item = Range<u64>> + '_ {
        let starts = std::iter::once(0).chain(self.0.iter().map(|range| range.end));
        let ends = self.0.iter().map(|range| range.start).chain(std::iter::once(total));
        starts
            .zip(ends)
            .map(move |(start, end)| start.min(total)..end.min(total))
            .filter(|gap| gap.start < gap.end)
    }

    /// Where the first missing byte is: so many are there in one piece from the start.
    pub fn first_gap(&self) -> u64 {
        self.0.first().filter(|first| first.start == 0).map_or(0, |first| first.end)
    }

    /// Whether these are exactly the bytes of a file of that size, no more and no less.
    pub fn covers(&self, total: u64) -> bool {
        self.first_gap() == total && self.end() == total
    }

    /// Behind the last byte that is there.
    pub fn end(&self) -> u64 {
        self.0.last().map_or(0, |last| last.end)
    }

    /// How many bytes are there.
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|range| range.end - range.start).sum()
    }

    /// How many pieces there are.
    pub fn pieces(&self) -> usize {
        self.0.len()
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The ranges, in order.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.0.iter().cloned()
    }
}

impl TryFrom<Vec<(u64, u64)>> for Ranges {
    type Error = RangesError;

    fn try_from(pairs: Vec<(u64, u64)>) -> Result<Self, RangesError> {
        let filled = pairs.iter().all(|(start, end)| start < end);
        let apart = pairs.iter().zip(pairs.iter().skip(1)).all(|(one, next)| one.1 < next.0);
        if !filled || !apart {
            return Err(RangesError);
        }
        Ok(Self(pairs.into_iter().map(|(start, end)| start..end).collect()))
    }
}

impl From<Ranges> for Vec<(u64, u64)> {
    fn from(ranges: Ranges) -> Self {
        ranges.0.into_iter().map(|range| (range.start, range.end)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn some_range() -> impl Strategy<Value = Range<u64>> {
        (0_u64..60, 0_u64..12).prop_map(|(start, len)| start..start + len)
    }

    fn ranges_of(list: &[Range<u64>]) -> (Ranges, BTreeSet<u64>) {
        let mut ranges = Ranges::default();
        for range in list {
            ranges.insert(range.clone());
        }
        (ranges, list.iter().cloned().flatten().collect())
    }

    #[test]
    fn a_file_in_one_piece_stays_one_range() {
        let mut ranges = Ranges::default();
        for at in 0..1_000 {
            ranges.insert(at * 10..at * 10 + 10);
        }
        assert_eq!(ranges.pieces(), 1);
        assert!(ranges.covers(10_000) && !ranges.covers(9_999) && !ranges.covers(10_001));
    }

    #[test]
    fn an_empty_file_is_covered_by_nothing() {
        assert!(Ranges::default().covers(0));
        assert_eq!(Ranges::default().missing(0).count(), 0);
    }

    #[test]
    fn a_list_that_is_no_set_is_refused() {
        for bad in ["[[5,5]]", "[[5,4]]", "[[0,5],[5,9]]", "[[6,9],[0,5]]", "[[0,7],[6,9]]"] {
            assert!(serde_json::from_str::<Ranges>(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn it_is_the_set_of_the_bytes_inserted(list in prop::collection::vec(some_range(), 0..20), total in 0_u64..80) {
            let (ranges, bytes) = ranges_of(&list);
            prop_assert_eq!(ranges.iter().flatten().collect::<BTreeSet<_>>(), bytes.clone());
            prop_assert_eq!(ranges.bytes(), bytes.len() as u64);
            let missing = ranges.missing(total).flatten().collect::<Vec<_>>();
            prop_assert_eq!(missing, (0..total).filter(|byte| !bytes.contains(byte)).collect::<Vec<_>>());
            let gap = (0..100).find(|byte| !bytes.contains(byte));
            prop_assert_eq!(Some(ranges.first_gap()), gap);
            prop_assert_eq!(ranges.covers(total), bytes == (0..total).collect());
        }

        #[test]
        fn ranges_stay_sorted_apart_and_survive_their_text(list in prop::collection::vec(some_range(), 0..20)) {
            let (ranges, _) = ranges_of(&list);
            let text = serde_json::to_string(&ranges).expect("ranges can be written");
            prop_assert_eq!(serde_json::from_str::<Ranges>(&text).expect("a set is read back"), ranges);
        }

        #[test]
        fn overlap_is_a_byte_in_common(list in prop::collection::vec(some_range(), 0..20), other in some_range()) {
            let (ranges, bytes) = ranges_of(&list);
            prop_assert_eq!(ranges.overlaps(&other), other.clone().any(|byte| bytes.contains(&byte)));
        }
    }
}
