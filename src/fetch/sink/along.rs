//! Digests of a file, made as its bytes come in order. Used by the partial file alone.

use super::digest::{Algorithm, Hasher};

/// Digests made as the bytes come, as long as they come in order.
#[derive(Default)]
pub(super) struct Along {
    pub(super) wanted: Vec<Algorithm>,
    pub(super) hashers: Vec<Hasher>,
    pub(super) at: u64,
}

impl std::fmt::Debug for Along {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Along").field("wanted", &self.wanted).field("at", &self.at).finish_non_exhaustive()
    }
}

impl Along {
    pub(super) fn start(&mut self) {
        self.hashers = self.wanted.iter().copied().map(Hasher::new).collect();
        self.at = 0;
    }

    pub(super) fn update(&mut self, offset: u64, bytes: &[u8]) {
        if offset != self.at {
            self.hashers.clear();
        }
        for hasher in &mut self.hashers {
            hasher.update(bytes);
        }
        self.at += bytes.len() as u64;
    }
}
