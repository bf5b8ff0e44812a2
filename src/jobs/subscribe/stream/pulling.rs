//! What a stream gives out to be pulled, and what it tells when it has come: in the order of the stream. Pure.

use std::time::Duration;

use super::{State, Stream, Turn, key};
use crate::fetch::engine::PullError;
use crate::fetch::{Address, Fault};
use crate::jobs::manifest::Record;
use crate::jobs::pull::{Fate, Follow, Followed, Moment, Task, To, Want};
use crate::jobs::subscribe::growing::Track;
use crate::jobs::subscribe::item::{Item, Output};
use crate::jobs::subscribe::look::Seen;

/// So many folders that are listed like files are remembered.
const MOST_FOLDERS: usize = 100_000;

/// The longest wait before a file that cannot be had is tried again.
const LONGEST_RETRY: Duration = Duration::from_secs(3_600);

impl Stream {
    pub(super) fn next_pull(&mut self) -> Option<(usize, Task)> {
        let (_, path) = self.ready.pop_first()?;
        let seen = self.seen.get(&path)?.clone();
        if let Some(known) = self.known.get_mut(&path)
            && let State::Ready { tries } = known.state
        {
            known.state = State::Pulling { tries };
        }
        let id = self.id();
        if let Some(keep_old) = self.config.follow {
            let follow = Follow {
                address: self.address(&seen),
                root: self.config.target.clone(),
                below: seen.below.clone(),
                name: seen.name.clone(),
                keep_old,
            };
            self.turns.insert(id, Turn { seen, path, item: None });
            return Some((id, Task::Follow(follow)));
        }
        let to =
            To::File { root: self.config.target.clone(), below: seen.below.clone(), name: seen.name.clone() };
        let want = Want {
            address: self.address(&seen),
            to,
            expected: None,
            ask_first: true,
            changed_within: None,
            known_etag: None,
        };
        self.turns.insert(id, Turn { seen, path, item: None });
        Some((id, Task::Pull(want)))
    }

    pub(super) fn address(&self, seen: &Seen) -> Address {
        let folder = seen.below.iter().fold(self.config.root.clone(), |folder, name| folder.folder(name));
        folder.file(&seen.name)
    }

    pub(super) fn on_pulled(&mut self, id: usize, fate: Fate, at: Moment) {
        let Some(turn) = self.turns.get(&id) else { return };
        let (size, sha256, sent_s) = match fate {
            Fate::Pulled { size, sha256, modified_s, .. } => (size, sha256, modified_s),
            Fate::UpToDate(_) | Fate::Planned { .. } => (turn.seen.size.unwrap_or(0), None, None),
            // What comes after it in the stream waits for the next run, too.
            Fate::Interrupted | Fate::NotMeant => return,
            Fate::Failed(error) => return self.on_failed(id, &error, at),
        };
        let address = self.address(&turn.seen);
        // As it was listed: it is compared with what will be listed.
        let (listed, modified_s) = (turn.seen.size, turn.seen.modified_s);
        let record = Record { size, modified_s, sha256, pulled_s: at.wall_s, ..Record::default() };
        let Some(turn) = self.turns.get_mut(&id) else { return };
        if let Some(known) = self.known.get_mut(&turn.path) {
            known.size = listed;
            known.modified_s = modified_s;
            known.state = State::Done;
        }
        self.seen.remove(&turn.path);
        turn.item = Some(Box::new(Item {
            path: turn.path.clone(),
            below: turn.seen.below.clone(),
            name: turn.seen.name.clone(),
            address,
            record,
            modified_s: modified_s.or(sent_s),
            piece: None,
            is_gone: false,
        }));
        self.tell_in_order();
    }

    pub(super) fn on_followed(&mut self, id: usize, followed: Result<Followed, PullError>, at: Moment) {
        let followed = match followed {
            Ok(followed) => followed,
            Err(error) => return self.on_failed(id, &error, at),
        };
        let Some(turn) = self.turns.remove(&id) else { return };
        let address = self.address(&turn.seen);
        let Turn { seen, path, .. } = turn;
        let Some(known) = self.known.get_mut(&path) else { return };
        let track = Track { path: &path, below: &seen.below, name: &seen.name, address: &address };
        let is_whole = followed.is_complete;
        let appended = track.told(&mut known.told, followed, seen.modified_s, at);
        if is_whole {
            known.size = seen.size;
            known.modified_s = seen.modified_s;
            known.state = State::Done;
            self.seen.remove(&path);
            if appended.is_empty() {
                self.backlog().remove(&path);
            }
        } else {
            known.state = State::Ready { tries: 0 };
            self.ready.insert(key(self.config.order, &path, known.modified_s));
        }
        self.outputs.extend(appended);
    }

    fn on_failed(&mut self, id: usize, error: &PullError, at: Moment) {
        let Some(turn) = self.turns.remove(&id) else { return };
        let is_folder = matches!(error, PullError::Source(Fault::IsFolder(_)));
        if is_folder && self.folders.len() < MOST_FOLDERS {
            // The next look goes into it, if folders are wanted.
            self.folders.insert(turn.path.clone());
        }
        if is_folder || matches!(error, PullError::Source(Fault::NotFound(_))) {
            // If it comes again, it is new.
            self.known.remove(&turn.path);
            self.seen.remove(&turn.path);
            self.backlog().remove(&turn.path);
        } else if let Some(known) = self.known.get_mut(&turn.path)
            && let State::Pulling { tries } = known.state
        {
            let wait = self.config.poll.max(Duration::from_secs(1)).saturating_mul(1 << tries.min(12));
            known.state = State::Failed { again: at.now + wait.min(LONGEST_RETRY), tries: tries + 1 };
        }
        self.tell_in_order();
    }

    /// Tells what has come, up to the first file that is still on its way.
    fn tell_in_order(&mut self) {
        while let Some(first) = self.turns.first_entry()
            && first.get().item.is_some()
        {
            if let Some(item) = first.remove().item {
                self.outputs.push_back(Output::Arrived(item));
            }
        }
    }
}
