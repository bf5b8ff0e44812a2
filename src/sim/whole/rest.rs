//! Whether the circle has come to rest when the faults are over.

use std::collections::BTreeSet;

use super::violation::Violation;
use super::world::Whole;

impl Whole {
    /// Outsiders do not count: neither their tokens nor whether they are served.
    pub(super) fn check_rest(&mut self) {
        let at = self.now;
        // On its way at this very moment is alive as well.
        let tokens = self.checks.tokens_alive() + self.checks.tokens_under_way();
        if self.ring.is_none() && tokens != 1 {
            self.checks.complain(Violation::NotOneToken { at, tokens });
        }
        self.check_ring();
        for member in self.staying() {
            let has_work = self.scenario.has_work(member);
            if has_work && self.places.get(member).is_some_and(|place| !place.served_in_peace) {
                self.checks.complain(Violation::NotServed { at, member });
            }
            if !self.checks.standing().is_up_to_date(member) {
                self.checks.complain(Violation::BansNotHeard { at, member });
            }
        }
        if let Some(member) = self.find_disconnected() {
            self.checks.complain(Violation::Disconnected { at, member });
        }
    }

    /// Who is a member at the end.
    fn staying(&self) -> BTreeSet<usize> {
        (0..self.places.len()).filter(|member| !self.checks.standing().goes(*member)).collect()
    }

    /// A member from which not everybody is reached by going from directory to directory.
    fn find_disconnected(&self) -> Option<usize> {
        let staying = self.staying();
        staying.iter().copied().find(|start| {
            let mut reached = BTreeSet::from([*start]);
            let mut queue = vec![*start];
            while let Some(member) = queue.pop() {
                let node = self.places.get(member).and_then(|place| place.node.as_ref());
                for (id, _) in node.into_iter().flat_map(|node| node.directory().iter()) {
                    if let Some(other) = self.ids.iter().position(|known| *known == id)
                        && staying.contains(&other)
                        && reached.insert(other)
                    {
                        queue.push(other);
                    }
                }
            }
            reached.len() < staying.len()
        })
    }
}
