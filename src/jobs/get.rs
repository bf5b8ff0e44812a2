//! Pulls single files: `stroll get`.

use std::collections::VecDeque;

use tokio::sync::watch;

use crate::fetch::Address;
use crate::fetch::limit::Limiter;

use super::pull::{Config, End, Fate, Feed, Moment, Next, Task, Totals, Want, Watch, pull};
use super::slots::Slots;

/// Pulls what is wanted, in the slots that are given, until `stop` says otherwise. Gives what became of each, in the same
/// order.
pub async fn get(
    wants: Vec<Want>,
    config: &Config,
    slots: &mut Slots,
    limiter: &Limiter,
    stop: &watch::Receiver<bool>,
    watch: &dyn Watch,
) -> (Vec<Fate>, Totals) {
    let (list, totals) = pull(Wants::new(wants), config, slots, limiter, stop, watch).await;
    let fates = list.fates.into_iter().map(|fate| fate.unwrap_or(Fate::Interrupted));
    (fates.collect(), totals)
}

/// A list of files, and what became of them.
struct Wants {
    left: VecDeque<(usize, Want)>,
    fates: Vec<Option<Fate>>,
}

impl Wants {
    fn new(wants: Vec<Want>) -> Self {
        let fates = wants.iter().map(|_| None).collect();
        Self { left: wants.into_iter().enumerate().collect(), fates }
    }
}

impl Feed for Wants {
    fn next(&mut self, _: Moment) -> Next {
        match self.left.pop_front() {
            Some((id, want)) => Next::Task(id, Task::Pull(want)),
            None => Next::Done,
        }
    }

    fn ended(&mut self, id: usize, end: End, _: Moment) {
        if let (Some(place), End::Pulled(fate)) = (self.fates.get_mut(id), end) {
            *place = Some(fate);
        }
    }

    fn outlook(&self) -> Option<Address> {
        self.left.front().map(|(_, want)| want.address.clone())
    }

    fn abreast(&self) -> usize {
        self.fates.len()
    }
}
