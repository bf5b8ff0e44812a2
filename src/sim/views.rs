//! Whom each member knows, and random draws from it.

use crate::base::Rng;

use super::scenario::View;

/// Everybody's view of everybody else.
#[derive(Debug)]
pub(super) struct Views {
    /// Who is a member, crashed ones included: nobody can tell that they crashed.
    present: Vec<u32>,
    /// Where in `present` a member stands.
    place: Vec<Option<u32>>,
    /// With partial views, whom each member knows, `size` entries each.
    known: Vec<u32>,
    size: usize,
}

impl Views {
    pub(super) fn new(members: u32, view: View, rng: &mut Rng) -> Self {
        let size = match view {
            View::Full => 0,
            View::Random(size) => size,
        };
        let mut views = Self {
            present: (0..members).collect(),
            place: (0..members).map(Some).collect(),
            known: Vec::with_capacity(members as usize * size),
            size,
        };
        for member in 0..members {
            views.fill_view_of(member, rng);
        }
        views
    }

    /// A newcomer. With partial views it gets one, and as many others, drawn at random, learn of it.
    pub(super) fn join(&mut self, member: u32, rng: &mut Rng) {
        self.place.push(u32::try_from(self.present.len()).ok());
        self.present.push(member);
        self.fill_view_of(member, rng);
        for other in self.sample_present(self.size, member, rng) {
            let entry = rng.below(self.size);
            if let Some(entry) = self.view_mut(other).get_mut(entry) {
                *entry = member;
            }
        }
    }

    pub(super) fn leave(&mut self, member: u32) {
        let Some(place) = self.place.get_mut(member as usize).and_then(Option::take) else { return };
        self.present.swap_remove(place as usize);
        if let Some(&moved) = self.present.get(place as usize)
            && let Some(slot) = self.place.get_mut(moved as usize)
        {
            *slot = Some(place);
        }
    }

    /// Who is a member now.
    pub(super) fn present(&self) -> &[u32] {
        &self.present
    }

    /// Some other member that `member` knows.
    pub(super) fn draw(&self, member: u32, rng: &mut Rng) -> Option<u32> {
        self.sample(member, 1, rng).first().copied()
    }

    /// Up to `count` different members that `member` knows, itself not among them.
    pub(super) fn sample(&self, member: u32, count: usize, rng: &mut Rng) -> Vec<u32> {
        let pool = self.view(member);
        let mut chosen: Vec<u32> = Vec::with_capacity(count);
        let is_new = |candidate: u32, chosen: &[u32]| candidate != member && !chosen.contains(&candidate);
        // With far more to choose from than wanted, trial and error is quick; otherwise shuffle.
        if pool.len() > 4 * count {
            while chosen.len() < count {
                match pool.get(rng.below(pool.len())) {
                    Some(&candidate) if is_new(candidate, &chosen) => chosen.push(candidate),
                    _ => {}
                }
            }
            return chosen;
        }
        let mut shuffled = pool.to_vec();
        for i in (1..shuffled.len()).rev() {
            shuffled.swap(i, rng.below(i + 1));
        }
        for candidate in shuffled {
            if chosen.len() < count && is_new(candidate, &chosen) {
                chosen.push(candidate);
            }
        }
        chosen
    }

    /// `member` has found that `gone` does not answer. With partial views somebody else takes the place, as the
    /// directory's exchange would bring it about; with the full mesh there is nobody unknown to take it.
    pub(super) fn replace(&mut self, member: u32, gone: u32, rng: &mut Rng) {
        let Some(&fresh) = self.sample_present(1, member, rng).first() else { return };
        if let Some(entry) = self.view_mut(member).iter_mut().find(|known| **known == gone) {
            *entry = fresh;
        }
    }

    fn fill_view_of(&mut self, member: u32, rng: &mut Rng) {
        let mut known = self.sample_present(self.size, member, rng);
        // A view larger than the circle has become is filled up with repetitions.
        known.resize(self.size, known.first().copied().unwrap_or(member));
        self.known.extend(known);
    }

    fn sample_present(&self, count: usize, member: u32, rng: &mut Rng) -> Vec<u32> {
        let mut chosen = Vec::with_capacity(count);
        let others = self.present.len().saturating_sub(1);
        while chosen.len() < count.min(others) {
            match self.present.get(rng.below(self.present.len())) {
                Some(&candidate) if candidate != member && !chosen.contains(&candidate) => {
                    chosen.push(candidate);
                }
                _ => {}
            }
        }
        chosen
    }

    fn view(&self, member: u32) -> &[u32] {
        if self.size == 0 {
            return &self.present;
        }
        let start = member as usize * self.size;
        self.known.get(start..start + self.size).unwrap_or_default()
    }

    fn view_mut(&mut self, member: u32) -> &mut [u32] {
        let start = member as usize * self.size;
        self.known.get_mut(start..start + self.size).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_draws_itself_nor_anyone_twice() {
        let mut rng = Rng::seeded(1);
        for view in [View::Full, View::Random(9)] {
            let views = Views::new(10, view, &mut rng);
            for count in [1, 3, 9, 20] {
                let mut drawn = views.sample(4, count, &mut rng);
                drawn.sort_unstable();
                drawn.dedup();
                assert_eq!(drawn.len(), count.min(9), "all others, at most");
                assert!(!drawn.contains(&4));
            }
        }
    }

    #[test]
    fn who_left_is_drawn_no_more_and_who_joined_is() {
        let mut rng = Rng::seeded(2);
        let mut views = Views::new(5, View::Full, &mut rng);
        views.leave(0);
        views.leave(4);
        views.leave(4);
        views.join(5, &mut rng);
        let mut drawn = views.sample(1, 9, &mut rng);
        drawn.sort_unstable();
        assert_eq!(drawn, [2, 3, 5]);
    }

    #[test]
    fn a_member_alone_draws_nobody() {
        let mut rng = Rng::seeded(3);
        assert_eq!(Views::new(1, View::Full, &mut rng).draw(0, &mut rng), None);
    }

    #[test]
    fn draws_are_even() {
        let mut rng = Rng::seeded(4);
        let views = Views::new(10, View::Full, &mut rng);
        let mut count = [0_u32; 10];
        for _ in 0..90_000 {
            count[views.draw(3, &mut rng).unwrap() as usize] += 1;
        }
        assert_eq!(count[3], 0);
        assert!(count.iter().enumerate().all(|(i, n)| i == 3 || (9_500..10_500).contains(n)), "{count:?}");
    }

    #[test]
    fn a_partial_view_replaces_who_does_not_answer() {
        let mut rng = Rng::seeded(5);
        let mut views = Views::new(100, View::Random(4), &mut rng);
        let gone = views.draw(0, &mut rng).unwrap();
        views.leave(gone);
        views.replace(0, gone, &mut rng);
        assert!(!views.sample(0, 4, &mut rng).contains(&gone));
    }
}
