//! Cuts a stream of bytes into lines, whatever a hostile source makes of it.

/// Longer lines name nothing that could be created.
const LONGEST_LINE: usize = 8 * 1_024;

/// No folder needs more bytes than this to be listed.
const MOST_BYTES: u64 = 256 * 1_024 * 1_024;

/// A piece of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A line without its end.
    Line(&'a [u8]),
    /// The start of a line that is too long.
    TooLong(&'a [u8]),
}

/// Cuts bytes into lines. Holds one line at most.
pub struct Lines {
    begun: Vec<u8>,
    /// The rest of a line that was too long is skipped.
    skipping: bool,
    total: u64,
    most: u64,
}

impl Default for Lines {
    fn default() -> Self {
        Self::with_limit(MOST_BYTES)
    }
}

impl Lines {
    /// The same with another bound on all bytes together.
    pub fn with_limit(most: u64) -> Self {
        Self { begun: Vec::new(), skipping: false, total: 0, most }
    }

    /// Takes more bytes and gives out the lines that are complete.
    pub fn push(&mut self, bytes: &[u8], mut give: impl FnMut(Piece<'_>)) {
        self.total = self.total.saturating_add(bytes.len() as u64);
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            if !self.skipping {
                self.begun.extend_from_slice(part);
            }
            let ended = part.ends_with(b"\n");
            if ended || self.begun.len() > LONGEST_LINE {
                self.give(&mut give);
                self.skipping = !ended;
            }
        }
    }

    /// There are no more bytes: what has begun is a line too.
    pub fn end(&mut self, mut give: impl FnMut(Piece<'_>)) {
        self.give(&mut give);
    }

    /// Whether more bytes have come than a listing may have.
    pub fn is_over(&self) -> bool {
        self.total > self.most
    }

    fn give(&mut self, give: &mut impl FnMut(Piece<'_>)) {
        let line = self.begun.strip_suffix(b"\n").unwrap_or(&self.begun);
        // Some servers end lines with two carriage returns.
        let returns = line.iter().rev().take_while(|byte| **byte == b'\r').count();
        let line = line.get(..line.len() - returns).unwrap_or_default();
        if line.len() > LONGEST_LINE {
            give(Piece::TooLong(line));
        } else if !line.is_empty() {
            give(Piece::Line(line));
        }
        self.begun.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut(chunks: &[&[u8]]) -> Vec<(bool, Vec<u8>)> {
        let mut lines = Lines::default();
        let mut out = Vec::new();
        let mut give = |piece: Piece<'_>| match piece {
            Piece::Line(line) => out.push((true, line.to_vec())),
            Piece::TooLong(line) => out.push((false, line.to_vec())),
        };
        for chunk in chunks {
            lines.push(chunk, &mut give);
        }
        lines.end(&mut give);
        out
    }

    #[test]
    fn an_endless_line_is_told_once_and_the_next_one_is_read() {
        let long = vec![b'x'; 100_000];
        let out = cut(&[b"a\r\n", &long, &long, b"tail\nb\nc"]);
        let kinds = out.iter().map(|(whole, line)| (*whole, line.first().copied())).collect::<Vec<_>>();
        assert_eq!(kinds, [(true, Some(b'a')), (false, Some(b'x')), (true, Some(b'b')), (true, Some(b'c'))]);
    }

    #[test]
    fn memory_is_bounded_by_one_line_and_the_bytes_are_counted() {
        let mut lines = Lines::with_limit(1_000_000);
        for _ in 0..200 {
            lines.push(&[b'x'; 8_192], |_| {});
            assert!(lines.begun.len() <= 2 * LONGEST_LINE);
        }
        assert!(lines.is_over());
    }

    #[test]
    fn lines_end_with_any_number_of_carriage_returns() {
        let out = cut(&[b"a\r\r\nb\n\r\r\nc\rd\r\n"]);
        let lines = out.iter().map(|(_, line)| line.as_slice()).collect::<Vec<_>>();
        assert_eq!(lines, [&b"a"[..], b"b", b"c\rd"]);
    }

    proptest! {
        #[test]
        fn where_the_bytes_are_cut_does_not_matter(text in "[a\r\n]{0,60}", at in 0usize..60) {
            let bytes = text.as_bytes();
            let (a, b) = bytes.split_at(at.min(bytes.len()));
            prop_assert_eq!(cut(&[a, b]), cut(&[bytes]));
        }
    }
}
