//! What a pull did, and what it tells while it does it.

use std::time::Duration;

use serde::Serialize;

use crate::fetch::engine::{self, PullError};
use crate::fetch::plan::{Change, Overload};
use crate::fetch::{Address, Fault, Version};

use super::checksums::Checksums;

/// What became of one file.
#[derive(Debug)]
pub enum Fate {
    /// It is here, whole and verified.
    Pulled {
        /// Its size.
        size: u64,
        /// Its SHA-256, where that was computed.
        sha256: Option<[u8; 32]>,
        /// When the original was changed, if the source said so as it sent it.
        modified_s: Option<i64>,
        /// Entity tag of the version that was pulled.
        etag: Option<String>,
    },
    /// It was here already. The version is the one that the source reported, if it was asked.
    UpToDate(Option<Version>),
    /// It is older or younger than was asked for.
    NotMeant,
    /// It would be pulled (dry run).
    Planned {
        /// Its size, if the source says so.
        size: Option<u64>,
    },
    /// It is not here; what came of it is kept for the next time, where that makes sense.
    Failed(PullError),
    /// There was an order to stop before it was complete; it can be continued.
    Interrupted,
}

/// A pull, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Totals {
    /// Bytes that came in this run.
    pub bytes: u64,
    /// From the start to the end, in seconds.
    pub elapsed_s: f64,
    /// Of it waiting for the token, in seconds.
    pub waited_s: f64,
    /// Of it leaving the source alone, in seconds.
    pub paused_s: f64,
    /// How many slots it took.
    pub slots: u64,
    /// How often a connection was cut off at a slot's end.
    pub cuts: u64,
    /// Folders that were listed.
    pub listings: u64,
    /// Which lists of checksums were used, if that was asked for.
    #[serde(skip)]
    pub checksums: Option<Checksums>,
}

/// What a slot should bring.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotPlan {
    /// How many bytes; `None` before anything is known.
    pub budget: Option<u64>,
    /// What such a slot can carry.
    pub capacity: Option<u64>,
    /// The recent inter-arrival time.
    pub interval: Option<Duration>,
    /// If the budget is another one than before: why.
    pub change: Option<Change>,
}

impl SlotPlan {
    /// What the slot is to bring: the budget, or less if a slot cannot carry it.
    pub fn chunk(&self) -> Option<u64> {
        self.budget.into_iter().chain(self.capacity).min()
    }
}

/// What happens, for people to see.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A file's turn has come.
    Began {
        /// Which of the files.
        index: usize,
        /// Where it is.
        address: &'a Address,
    },
    /// A folder was listed.
    Listed {
        /// Where it is.
        address: &'a Address,
        /// How many entries it has.
        entries: usize,
    },
    /// Something happened to it.
    File {
        /// Which of the files.
        index: usize,
        /// What.
        event: &'a engine::Event,
    },
    /// It is done with.
    Ended {
        /// Which of the files.
        index: usize,
        /// How.
        fate: &'a Fate,
    },
    /// Waiting for the token.
    Waiting {
        /// For about so long.
        expected: Option<Duration>,
    },
    /// A slot began.
    SlotBegan,
    /// What the slot that has begun should bring.
    Budgeted {
        /// The budget of it and what it follows from.
        plan: &'a SlotPlan,
    },
    /// It is over for us.
    SlotEnded {
        /// What it brought.
        bytes: u64,
        /// What a slot is to bring, as last planned: the budget, or less if a slot cannot carry it.
        chunk: Option<u64>,
        /// Whether slots cannot carry what the job needs.
        overload: Option<Overload>,
    },
    /// There is nothing to do.
    Idle {
        /// For so long, if that is known.
        wait: Option<Duration>,
    },
    /// Something went wrong that may pass.
    Pausing {
        /// For so long.
        wait: Duration,
        /// What.
        fault: &'a Fault,
    },
}

/// Whoever wants to see what happens.
pub trait Watch: Send + Sync {
    /// Something happened.
    fn on(&self, event: Event<'_>);

    /// The job's name for the log, if it is one of several.
    fn name(&self) -> Option<String> {
        None
    }
}

/// Nobody.
impl Watch for () {
    fn on(&self, _: Event<'_>) {}
}

/// Both.
impl<A: Watch, B: Watch> Watch for (A, B) {
    fn on(&self, event: Event<'_>) {
        self.0.on(event);
        self.1.on(event);
    }

    fn name(&self) -> Option<String> {
        self.0.name().or_else(|| self.1.name())
    }
}

/// The same one.
impl<W: Watch + ?Sized> Watch for &W {
    fn on(&self, event: Event<'_>) {
        (**self).on(event);
    }

    fn name(&self) -> Option<String> {
        (**self).name()
    }
}
