//! The task that a worker is at, and the next one.

use std::pin::pin;
use std::time::Duration;

use crate::fetch::{Address, Slot};

use super::asking::Question;
use super::file::OnItsWay;
use super::report::Fate;
use super::worker::TurnEnd;
use super::{Common, Feed, Follow, Next, Task};

/// What a worker is at.
#[expect(clippy::large_enum_variant, reason = "there is one for each worker, and few are given back")]
pub(super) enum Current {
    File(OnItsWay),
    Folder { id: usize, address: Address, tries: u32 },
    Growing { id: usize, follow: Follow },
    Question { id: usize, question: Question },
}

impl Current {
    pub(super) fn new(id: usize, task: Task) -> Self {
        match task {
            Task::Pull(want) => Self::File(OnItsWay::new(id, want)),
            Task::List(address) => Self::Folder { id, address, tries: 0 },
            Task::Follow(follow) => Self::Growing { id, follow },
            Task::Probe(address) => Self::Question { id, question: Question::Exists(address) },
            Task::Resolve(address) => Self::Question { id, question: Question::Resolve(address) },
        }
    }

    /// Ends a task that nobody continues in this run. A part that was only opened is removed.
    pub(super) async fn interrupt<F: Feed>(self, common: &Common<'_, F>) {
        let Self::File(mut file) = self else { return };
        if let Some(mut opening) = file.opening.take()
            && let Ok(part) = opening.opened().await
            && part.have().is_empty()
        {
            let _ = part.discard().await;
        }
        common.pulled(file.index, Fate::Interrupted);
    }
}

/// Asks the feed for the next thing to do. As long as others are at work there may be something in a moment.
pub(super) async fn next_from<F: Feed>(common: &Common<'_, F>, slot: &Slot) -> Result<Current, TurnEnd> {
    loop {
        let mut news = pin!(common.news.notified());
        // From here on no news is missed.
        news.as_mut().enable();
        let at = common.moment();
        let (next, left) = common.work().next_or_left(at);
        if let Some(task) = left {
            return Ok(task);
        }
        let until = match next {
            Next::Task(id, task) => return Ok(Current::new(id, task)),
            Next::Done => return Err(TurnEnd::Drained),
            Next::Again if slot.is_over() => return Err(TurnEnd::SlotOver),
            Next::Again => {
                tokio::task::yield_now().await;
                continue;
            }
            Next::Wait(until) => until,
        };
        let are_others_at_work = common.at_rest();
        if are_others_at_work {
            let nap = until.map_or(Duration::MAX, |until| until.since(at.now));
            tokio::select! {
                () = news => {}
                () = slot.over() => {}
                () = tokio::time::sleep(nap) => {}
            }
        }
        common.at_work();
        if !are_others_at_work || slot.is_over() {
            return Err(TurnEnd::Idle);
        }
    }
}
