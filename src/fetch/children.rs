//! Process groups of the commands that this process has started, so that a forced end leaves none of them running.
//!
//! Commands are ended by their owners when those are dropped. `std::process::exit` drops nothing, so whatever calls it kills
//! these groups first.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process_group};

/// Group numbers; `Pid` has no order.
static RUNNING: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// A process group that is killed by [`kill_all`] until this value is dropped.
#[derive(Debug)]
pub struct RunningGroup(Pid);

impl RunningGroup {
    /// Starts a command as a group of its own and remembers the group. Nothing can be started while [`kill_all`] runs.
    pub fn start<T>(
        start: impl FnOnce() -> io::Result<T>,
        id: impl FnOnce(&T) -> Option<u32>,
    ) -> io::Result<(T, Option<Self>)> {
        let mut running = running();
        let child = start()?;
        let id = id(&child).and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        running.extend(id.map(|id| id.as_raw_nonzero().get()));
        Ok((child, id.map(Self)))
    }

    /// The number of the group.
    pub fn id(&self) -> Pid {
        self.0
    }
}

impl Drop for RunningGroup {
    fn drop(&mut self) {
        running().remove(&self.0.as_raw_nonzero().get());
    }
}

/// Kills all groups that run, and lets no other one start. To be called right before the process exits.
pub fn kill_all() {
    let running = running();
    for group in running.iter().copied().filter_map(Pid::from_raw) {
        // A group that has just ended needs no signal.
        let _ = kill_process_group(group, Signal::KILL);
    }
    std::mem::forget(running);
}

fn running() -> MutexGuard<'static, BTreeSet<i32>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}
