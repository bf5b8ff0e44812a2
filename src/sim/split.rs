//! A network in two parts.

use crate::base::Rng;

/// Some members are on one side, the others on the other; nothing gets across, or only from one of them.
#[derive(Clone, Debug)]
pub(super) struct Split {
    side: Vec<bool>,
    is_one_way: bool,
}

impl Split {
    /// About one in so many on one side, the rest on the other. Who, and whether it is one-way, is chance.
    pub(super) fn drawn(members: usize, one_in: usize, rng: &mut Rng) -> Self {
        let side = (0..members).map(|_| rng.below(one_in) == 0).collect();
        Self { side, is_one_way: rng.below(2) == 0 }
    }

    /// Every second member on the other side, and nothing gets across.
    pub(super) fn halves(members: usize) -> Self {
        Self { side: (0..members).map(|member| member % 2 == 0).collect(), is_one_way: false }
    }

    /// Whether nothing gets from the one to the other.
    pub(super) fn cuts(&self, from: usize, to: usize) -> bool {
        match (self.side.get(from), self.side.get(to)) {
            (Some(a), Some(b)) if a != b => !self.is_one_way || *a,
            _ => false,
        }
    }
}
