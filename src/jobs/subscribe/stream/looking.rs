//! What a stream makes of its looks: which files are new, which have changed, which have settled, which are gone. Pure.

use std::sync::Arc;
use std::time::Duration;

use super::{Known, Since, State, Stream, key};
use crate::base::Time;
use crate::fetch::{Fault, PackedListing};
use crate::jobs::manifest::Record;
use crate::jobs::pull::{Moment, Task};
use crate::jobs::subscribe::item::{Output, Trouble};
use crate::jobs::subscribe::look::{Look, Seen};

/// A file that the source has not listed for so long is forgotten: shorter absences are mishaps.
const FORGET_AFTER: Duration = Duration::from_secs(3_600);

/// So many symbolic links are told one by one.
const MOST_LINKS: usize = 10_000;

impl Stream {
    pub(super) fn next_listing(&mut self, at: Moment) -> Option<(usize, Task)> {
        if self.look.is_none() && at.now >= self.next_look && !self.has_looked {
            self.look = Some(Look::new(self.config.root.clone()));
        }
        let id = self.next_id + 1;
        let address = self.look.as_mut()?.next(id)?;
        self.next_id = id;
        Some((id, Task::List(address)))
    }

    pub(super) fn on_listed(&mut self, id: usize, listed: Result<PackedListing, Fault>, at: Moment) {
        let Some(look) = self.look.as_mut().filter(|look| look.has_asked(id)) else { return };
        match listed {
            Ok(mut listing) => {
                if self.config.refuses_twins {
                    look.refuse_twins(&mut listing, &self.config.filter);
                }
                let deep = self.config.recursive.then_some(&self.config.filter);
                look.listed(listing, &self.config.root, deep, &self.folders);
            }
            Err(fault) if look.is_at_root() => {
                self.look = None;
                self.plan_look(at);
                // Nobody waits for what never was.
                if self.last_look_s.is_none() && self.is_first && !fault.is_temporary() {
                    self.failure = Some(fault);
                } else {
                    self.trouble.tell(&fault, &mut self.outputs);
                }
                return;
            }
            Err(fault) => {
                look.skip();
                self.trouble.tell(&fault, &mut self.outputs);
            }
        }
        if look.is_over()
            && let Some(look) = self.look.take()
        {
            self.on_look(look, at);
        }
    }

    fn plan_look(&mut self, at: Moment) {
        self.next_look = at.now + self.config.poll;
        self.has_looked = self.is_in_limited_slot;
    }

    /// A look is over.
    fn on_look(&mut self, look: Look, at: Moment) {
        if !look.is_partial {
            self.trouble = Trouble::default();
            self.backlog().looked(at.wall_s);
        }
        self.plan_look(at);
        self.tell_refused(&look);
        self.is_by_minute = look.is_by_minute();
        let begins = self.is_first && self.config.since == Since::Now;
        let mut before = Vec::new();
        let mut new_bytes = 0_u64;
        if !look.is_partial {
            self.forget_missing(&look, at);
        }
        for (path, seen) in look.files {
            let Seen { size, modified_s, .. } = seen;
            // Meant or not: who means more one day still does not mean the past.
            if begins {
                let size = size.unwrap_or(0);
                let record = Record { size, modified_s, delivered: true, flushed: true, ..Record::default() };
                before.push((path.clone(), record));
                let known =
                    Known { told: 0, size: seen.size, modified_s, state: State::Done, missing_since: None };
                self.known.insert(path, known);
                continue;
            }
            if !self.is_meant(&path, &seen, at) {
                continue;
            }
            new_bytes = new_bytes.saturating_add(self.on_seen(&path, &seen, at));
        }
        if self.is_first {
            self.outputs.push_back(Output::Before(before));
        }
        self.is_first = false;
        self.last_look_s = Some(at.wall_s);
        self.growth.looked(at.now, new_bytes);
    }

    /// Each refused name is told once, and each link, unless the filter leaves it out.
    fn tell_refused(&mut self, look: &Look) {
        for (path, why) in &look.refused {
            if self.config.filter.allows_refused(path) && self.backlog().refuse(path) {
                self.outputs.push_back(Output::Refused { path: path.clone(), why: why.to_string() });
            }
        }
        for path in &look.links {
            if self.config.filter.allows_refused(path)
                && self.links.len() < MOST_LINKS
                && self.links.insert(path.clone())
            {
                self.outputs.push_back(Output::Link(path.clone()));
            }
        }
    }

    fn is_meant(&self, path: &str, seen: &Seen, at: Moment) -> bool {
        let is_late = match (self.config.since, seen.modified_s) {
            (Since::At(from_s), Some(modified_s)) => self.latest(modified_s) >= from_s,
            _ => true,
        };
        is_late && self.config.filter.allows_file(path, seen.size, seen.modified_s, at.wall_s)
    }

    /// What a listed file means. Gives how many bytes are new.
    fn on_seen(&mut self, path: &str, seen: &Seen, at: Moment) -> u64 {
        let bytes = seen.size.unwrap_or(0);
        let Some(known) = self.known.get_mut(path) else {
            let state = State::Settling { since: at.now, tries: 0 };
            let (size, modified_s) = (seen.size, seen.modified_s);
            let known = Known { told: 0, size, modified_s, state, missing_since: None };
            self.known.insert(path.to_owned(), known);
            self.enter(path, seen, at);
            return bytes;
        };
        known.missing_since = None;
        let is_same = !differ(known.size, seen.size) && !differ(known.modified_s, seen.modified_s);
        match known.state {
            // Its end will tell, and the look after it.
            State::Pulling { .. } => return 0,
            State::Done if is_same => return 0,
            _ if is_same => {
                self.settle(path, seen, at);
                return 0;
            }
            _ => {}
        }
        let grown = bytes.saturating_sub(known.size.unwrap_or(0));
        let is_anew = known.state == State::Done && self.config.follow.is_none();
        let new = if is_anew { bytes } else { grown };
        self.ready.remove(&key(self.config.order, path, known.modified_s));
        known.size = seen.size;
        known.modified_s = seen.modified_s;
        known.state = State::Settling { since: at.now, tries: 0 };
        self.enter(path, seen, at);
        new
    }

    /// Something that is not here is there.
    fn enter(&mut self, path: &str, seen: &Seen, at: Moment) {
        let earliest_s = self.last_look_s.unwrap_or(i64::MIN);
        let appeared_s = seen.modified_s.unwrap_or(at.wall_s).clamp(earliest_s.min(at.wall_s), at.wall_s);
        self.backlog().add(path, appeared_s, seen.size.unwrap_or(0));
        self.seen.insert(path.to_owned(), seen.clone());
        self.settle(path, seen, at);
    }

    /// Whether a file that is waiting may be pulled now.
    fn settle(&mut self, path: &str, seen: &Seen, at: Moment) {
        let modified_s = seen.modified_s.map(|modified_s| self.latest(modified_s));
        // A file that may grow need not have stopped.
        let settle = if self.config.follow.is_some() { Duration::ZERO } else { self.config.settle };
        let Some(known) = self.known.get_mut(path) else { return };
        let tries = match known.state {
            State::Settling { since, tries } if is_settled(modified_s, since, settle, at) => tries,
            State::Failed { again, tries } if again <= at.now => tries,
            _ => return,
        };
        known.state = State::Ready { tries };
        self.ready.insert(key(self.config.order, path, known.modified_s));
    }

    /// What a complete look does not show is gone, or will be forgotten.
    fn forget_missing(&mut self, look: &Look, at: Moment) {
        let (order, backlog) = (self.config.order, Arc::clone(&self.backlog));
        let mut backlog = backlog.lock().expect("nobody panics with the backlog in hand");
        let (ready, seen, outputs) = (&mut self.ready, &mut self.seen, &mut self.outputs);
        self.known.retain(|path, known| {
            if look.files.contains_key(path) || matches!(known.state, State::Pulling { .. }) {
                return true;
            }
            if known.state != State::Done {
                // It never came, and never will.
                ready.remove(&key(order, path, known.modified_s));
                seen.remove(path);
                backlog.remove(path);
                return false;
            }
            let since = *known.missing_since.get_or_insert(at.now);
            let is_kept = at.now.since(since) < FORGET_AFTER;
            if !is_kept {
                outputs.push_back(Output::Forgotten(path.clone()));
            }
            is_kept
        });
    }
}

/// Whether it has not changed for long enough: over two looks, or by its own time.
fn is_settled(modified_s: Option<i64>, since: Time, settle: Duration, at: Moment) -> bool {
    let settle_s = i64::try_from(settle.as_secs()).unwrap_or(i64::MAX);
    let age_s = modified_s.map(|modified_s| at.wall_s.saturating_sub(modified_s));
    settle.is_zero() || at.now.since(since) >= settle || age_s.is_some_and(|age_s| age_s > settle_s)
}

/// Whether both are known and are not equal.
fn differ<T: PartialEq>(before: Option<T>, now: Option<T>) -> bool {
    matches!((before, now), (Some(before), Some(now)) if before != now)
}
