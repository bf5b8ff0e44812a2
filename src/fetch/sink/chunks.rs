//! Hashes of a partial file's chunks, so that a changed byte is noticed before the file is resumed.
//!
//! Chunks have a fixed size per file. Each range of written bytes is split at multiples of it; each piece has one BLAKE3
//! hash, cut to 16 bytes. Pieces follow from the ranges, so only the chunk size and the hashes are stored.

use std::collections::BTreeMap;
use std::ops::Range;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};

use super::error::SinkError;
use super::ranges::Ranges;

/// Small enough that little is pulled again after a changed byte, large enough that a record stays small.
const LEAST_BYTES: u64 = 1 << 20;
/// Larger files have larger chunks, so that the record of a file in one piece stays below 160 KB.
const MOST_CHUNKS: u64 = 4_096;
/// For a file whose size is not known.
const UNSIZED_BYTES: u64 = 16 << 20;
/// Bytes kept of each hash: more than enough against accidents and cheap to store.
const HASH_BYTES: usize = 16;
const READ_BYTES: usize = 256 << 10;

type Hash = [u8; HASH_BYTES];

/// Reads exactly these bytes of the file.
pub(super) type Read<'a> = &'a dyn Fn(&mut [u8], u64) -> Result<(), SinkError>;

/// The stored hashes of one partial file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Chunks {
    bytes: u64,
    /// Hexadecimal, one after the other, in the order of the pieces.
    hashes: String,
}

/// Hashes that are known already: bytes are written once, so the hash of a piece never changes.
#[derive(Debug, Default)]
pub(super) struct Known(BTreeMap<(u64, u64), Hash>);

impl Known {
    /// The hashes of these ranges; only pieces that are new are read.
    pub(super) fn hash(
        &mut self,
        size: Option<u64>,
        ranges: &Ranges,
        read: Read<'_>,
    ) -> Result<Chunks, SinkError> {
        let bytes = chunk_bytes(size);
        let mut now = BTreeMap::new();
        let mut hashes = String::new();
        for piece in pieces(ranges, bytes) {
            let key = (piece.start, piece.end);
            let hash = match self.0.get(&key) {
                Some(hash) => *hash,
                None => hash_of(&piece, read)?,
            };
            HEXLOWER.encode_append(&hash, &mut hashes);
            now.insert(key, hash);
        }
        self.0 = now;
        Ok(Chunks { bytes, hashes })
    }
}

impl Chunks {
    /// Which of these ranges still have the bytes that were hashed. A piece that cannot be read has not.
    pub(super) fn verified(&self, ranges: &Ranges, read: Read<'_>) -> Ranges {
        let mut verified = Ranges::default();
        let stored = HEXLOWER.decode(self.hashes.as_bytes()).unwrap_or_default();
        let pieces = pieces(ranges, self.bytes.max(LEAST_BYTES));
        for (piece, stored) in pieces.zip(stored.chunks_exact(HASH_BYTES)) {
            if hash_of(&piece, read).is_ok_and(|hash| hash == stored) {
                verified.insert(piece);
            }
        }
        verified
    }
}

fn chunk_bytes(size: Option<u64>) -> u64 {
    size.map_or(UNSIZED_BYTES, |size| {
        size.div_ceil(MOST_CHUNKS).checked_next_power_of_two().unwrap_or(UNSIZED_BYTES).max(LEAST_BYTES)
    })
}

/// The ranges, split at multiples of the chunk size.
fn pieces(ranges: &Ranges, bytes: u64) -> impl Iterator<Item = Range<u64>> + '_ {
    ranges.iter().flat_map(move |range| {
        let mut from = range.start;
        std::iter::from_fn(move || {
            let boundary = (from / bytes).saturating_add(1).saturating_mul(bytes);
            let piece = from..boundary.min(range.end);
            from = piece.end;
            (piece.start < piece.end).then_some(piece)
        })
    })
}

fn hash_of(piece: &Range<u64>, read: Read<'_>) -> Result<Hash, SinkError> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; READ_BYTES];
    let mut at = piece.start;
    while at < piece.end {
        let len = usize::try_from(piece.end - at).unwrap_or(READ_BYTES).min(READ_BYTES);
        let part = buffer.get_mut(..len).unwrap_or_default();
        read(part, at)?;
        hasher.update(part);
        at += len as u64;
    }
    let mut hash = [0; HASH_BYTES];
    hasher.finalize_xof().fill(&mut hash);
    Ok(hash)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn ranges(all: &[Range<u64>]) -> Ranges {
        let mut ranges = Ranges::default();
        for range in all {
            ranges.insert(range.clone());
        }
        ranges
    }

    fn copy(content: &[u8], bytes: &mut [u8], at: u64) {
        let at = usize::try_from(at).expect("small");
        bytes.copy_from_slice(&content[at..at + bytes.len()]);
    }

    #[test]
    fn only_the_changed_chunk_is_given_up() {
        let mut content = vec![7; 5 << 20];
        let all = ranges(&[0..(3 << 20) + 5, (4 << 20) - 9..5 << 20]);
        let hashed = {
            let read = |bytes: &mut [u8], at| {
                copy(&content, bytes, at);
                Ok(())
            };
            let hashed = Known::default().hash(Some(5 << 20), &all, &read).expect("hashed");
            assert_eq!(hashed.verified(&all, &read), all);
            hashed
        };
        content[(2 << 20) + 17] ^= 1;
        content[(4 << 20) - 9] ^= 1;
        let read = |bytes: &mut [u8], at| {
            copy(&content, bytes, at);
            Ok(())
        };
        let left = ranges(&[0..2 << 20, 3 << 20..(3 << 20) + 5, 4 << 20..5 << 20]);
        assert_eq!(hashed.verified(&all, &read), left);
    }

    #[test]
    fn a_chunk_is_hashed_once_and_the_record_stays_bounded() {
        let was_read = Cell::new(0);
        let read = |bytes: &mut [u8], _| {
            was_read.set(was_read.get() + bytes.len());
            Ok(())
        };
        let mut known = Known::default();
        known.hash(Some(4 << 20), &ranges(&[0..1 << 20, 1 << 20..2 << 20]), &read).expect("hashed");
        known.hash(Some(4 << 20), &ranges(&[0..1 << 20, 1 << 20..3 << 20]), &read).expect("hashed");
        assert_eq!(was_read.get(), 3 << 20);
        assert!(
            u64::MAX / chunk_bytes(Some(1 << 50)) > 0
                && (1 << 50) / chunk_bytes(Some(1 << 50)) <= MOST_CHUNKS
        );
    }
}
