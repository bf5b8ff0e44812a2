//! Values out of fuzzed bytes. When the bytes are used up there are zeros, so every prefix means something.

/// Bytes that have not been used yet.
pub(crate) struct Source<'a>(&'a [u8]);

impl<'a> Source<'a> {
    pub(crate) fn new(data: &'a [u8]) -> Self {
        Self(data)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()) % bound.max(1)
    }

    pub(crate) fn number(&mut self) -> u64 {
        let mut number = [0; 8];
        let bytes = self.take(8);
        number[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(number)
    }

    pub(crate) fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }
}
