//! One file that grows: looked at now and then, and what is new of it told in pieces.
//!
//! Pure. The bytes themselves are compared and appended by the puller; here is decided when to look, and which bytes were
//! told already. A file that is suddenly another one is told as such: what was not told of the old one first, then the new
//! one from its beginning.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::item::{Item, Machine, Output, Piece, Trouble};
use super::lag::{Backlog, Growth};
use crate::base::Time;
use crate::fetch::engine::PullError;
use crate::fetch::{Address, Fault, Name};
use crate::jobs::manifest::Record;
use crate::jobs::pull::{End, Feed, Follow, Followed, Moment, Next, Task};

/// Which growing file something is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Track<'a> {
    pub(super) path: &'a str,
    pub(super) below: &'a [Name],
    pub(super) name: &'a Name,
    pub(super) address: &'a Address,
}

impl Track<'_> {
    /// What is to be told of a file of which so much was told, and has come so far.
    pub(super) fn told(
        self,
        told: &mut u64,
        followed: Followed,
        modified_s: Option<i64>,
        at: Moment,
    ) -> Vec<Output> {
        let mut outputs = Vec::new();
        if let Some(rotated) = followed.rotated {
            let kept = rotated.kept.as_ref().map(Name::to_string);
            outputs.push(Output::Rotated { path: self.path.to_owned(), kept });
            if *told < rotated.len {
                let piece = Piece { file: rotated.file, range: *told..rotated.len };
                outputs.push(self.old(rotated.kept, piece, at));
            }
            *told = 0;
        }
        if *told > followed.len {
            // Less is here than was told: a crash took it, and it is told again.
            *told = followed.len;
        }
        if *told < followed.len {
            let piece = Piece { file: followed.file, range: *told..followed.len };
            let modified_s = followed.version.and_then(|version| version.modified_s).or(modified_s);
            outputs.push(self.item(self.path.to_owned(), self.name.clone(), piece, modified_s, at));
            *told = followed.len;
        }
        outputs
    }

    fn old(self, kept: Option<Name>, piece: Piece, at: Moment) -> Output {
        let is_gone = kept.is_none();
        let name = kept.unwrap_or_else(|| self.name.clone());
        let path = super::look::path_of(self.below, &name);
        match self.item(path, name, piece, None, at) {
            Output::Arrived(item) => Output::Arrived(Box::new(Item { is_gone, ..*item })),
            other => other,
        }
    }

    fn item(self, path: String, name: Name, piece: Piece, modified_s: Option<i64>, at: Moment) -> Output {
        let record = Record { size: piece.range.end, modified_s, pulled_s: at.wall_s, ..Record::default() };
        Output::Arrived(Box::new(Item {
            path,
            below: self.below.to_vec(),
            name,
            address: self.address.clone(),
            record,
            modified_s,
            piece: Some(piece),
            is_gone: false,
        }))
    }
}

/// The feed.
#[derive(Debug)]
pub struct Growing {
    follow: Follow,
    poll: Duration,
    told: u64,
    /// How long it was at the source when that was last said.
    size: u64,
    asked: Option<usize>,
    next_id: usize,
    next_look: Time,
    last_look_s: Option<i64>,
    is_in_limited_slot: bool,
    has_looked: bool,
    /// It was there at least once.
    was_there: bool,
    growth: Growth,
    backlog: Arc<Mutex<Backlog>>,
    outputs: VecDeque<Output>,
    failure: Option<PullError>,
    trouble: Trouble,
}

impl Growing {
    /// A file of which so much was told by earlier runs, if there were some.
    pub fn new(follow: Follow, poll: Duration, told: Option<u64>, backlog: Arc<Mutex<Backlog>>) -> Self {
        Self {
            follow,
            poll,
            told: told.unwrap_or(0),
            size: 0,
            asked: None,
            next_id: 0,
            next_look: Time::ZERO,
            last_look_s: None,
            is_in_limited_slot: false,
            has_looked: false,
            was_there: told.is_some(),
            growth: Growth::default(),
            backlog,
            outputs: VecDeque::new(),
            failure: None,
            trouble: Trouble::default(),
        }
    }

    /// Why there will never be anything, if it is so.
    pub fn into_failure(self) -> Option<PullError> {
        self.failure
    }

    fn backlog(&self) -> MutexGuard<'_, Backlog> {
        self.backlog.lock().expect("nobody panics with the backlog in hand")
    }

    fn on_followed(&mut self, followed: Followed, at: Moment) {
        self.was_there = true;
        self.trouble = Trouble::default();
        let (path, before) = (self.follow.name.as_str().to_owned(), self.told);
        let size = followed.version.as_ref().and_then(|version| version.size).unwrap_or(followed.len);
        let is_complete = followed.is_complete;
        let is_seen = is_complete || followed.version.as_ref().is_some_and(|version| version.size.is_some());
        let Follow { below, name, address, .. } = &self.follow;
        let track = Track { path: &path, below, name, address };
        let is_another = followed.rotated.is_some();
        let outputs = track.told(&mut self.told, followed, None, at);
        let waiting = size.max(self.told).saturating_sub(if self.told < before { 0 } else { before });
        if !outputs.is_empty() || waiting > 0 {
            let appeared_s = self.last_look_s.unwrap_or(at.wall_s);
            self.backlog().add(&path, appeared_s, waiting);
        }
        // How long it is there is known, however much of it has come.
        if is_seen {
            self.backlog().looked(at.wall_s);
        }
        let new = if is_another { size } else { size.saturating_sub(self.size) };
        self.size = size;
        self.growth.looked(at.now, new);
        self.outputs.extend(outputs);
        if is_complete {
            self.next_look = at.now + self.poll;
            self.has_looked = self.is_in_limited_slot;
            self.last_look_s = Some(at.wall_s);
        }
    }

    fn on_failed(&mut self, error: PullError, at: Moment) {
        // One that was there may come again, such as a log that is being rotated.
        let may_pass = match &error {
            PullError::Source(Fault::NotFound(_)) => self.was_there,
            PullError::Source(fault) => fault.is_temporary(),
            PullError::Sink(_) => false,
        };
        self.next_look = at.now + self.poll;
        if may_pass {
            self.trouble.tell(&error, &mut self.outputs);
        } else {
            self.failure = Some(error);
        }
    }
}

impl Feed for Growing {
    fn next(&mut self, at: Moment) -> Next {
        if self.failure.is_some() {
            return Next::Done;
        }
        if self.asked.is_some() || self.has_looked {
            return Next::Wait(None);
        }
        if at.now < self.next_look {
            return Next::Wait(Some(self.next_look));
        }
        self.next_id += 1;
        self.asked = Some(self.next_id);
        Next::Task(self.next_id, Task::Follow(self.follow.clone()))
    }

    fn ended(&mut self, id: usize, end: End, at: Moment) {
        if self.asked != Some(id) {
            return;
        }
        self.asked = None;
        match end {
            End::Followed(Ok(followed)) => self.on_followed(followed, at),
            End::Followed(Err(error)) => self.on_failed(error, at),
            End::Pulled(_) | End::Listed(_) | End::Probed(_) | End::Resolved(_) => {}
        }
    }

    fn outlook(&self) -> Option<Address> {
        Some(self.follow.address.clone())
    }

    fn abreast(&self) -> usize {
        1
    }

    fn stream_rate(&self) -> Option<u64> {
        self.growth.rate()
    }

    fn backlog(&self) -> u64 {
        self.size.saturating_sub(self.told)
    }

    fn slot_changed(&mut self, is_in_limited_slot: bool) {
        self.is_in_limited_slot = is_in_limited_slot;
        self.has_looked = false;
    }
}

impl Machine for Growing {
    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fetch::Version;
    use crate::jobs::pull::Rotated;

    fn at(now_s: u64) -> Moment {
        Moment { now: Time::from_secs(now_s), wall_s: 1_000 + i64::try_from(now_s).unwrap() }
    }

    fn feed(told: Option<u64>) -> Growing {
        let follow = Follow {
            address: Address::parse("http://h/log").unwrap().0,
            root: "/t".into(),
            below: Vec::new(),
            name: Name::new("log").unwrap(),
            keep_old: true,
        };
        Growing::new(follow, Duration::from_secs(10), told, Arc::default())
    }

    fn file() -> Arc<std::fs::File> {
        Arc::new(tempfile::tempfile().unwrap())
    }

    fn followed(len: u64, size: u64) -> Followed {
        let version = Some(Version { size: Some(size), ..Version::default() });
        Followed { file: file(), len, version, is_complete: len == size, rotated: None }
    }

    fn step(feed: &mut Growing, now_s: u64, end: Result<Followed, PullError>) -> Vec<(String, u64, u64)> {
        let Next::Task(id, Task::Follow(_)) = feed.next(at(now_s)) else { panic!("not due at {now_s}") };
        feed.ended(id, End::Followed(end), at(now_s));
        let outputs = std::iter::from_fn(|| feed.poll_output());
        let piece = |output| match output {
            Output::Arrived(item) => {
                let range = item.piece.unwrap().range;
                Some((item.path, range.start, range.end))
            }
            Output::Rotated { .. } | Output::Trouble(_) => None,
            other => panic!("{other:?}"),
        };
        outputs.filter_map(piece).collect()
    }

    #[test]
    fn each_look_tells_what_is_new_and_an_unfinished_one_goes_on_at_once() {
        let mut feed = feed(Some(5));
        assert_eq!(step(&mut feed, 0, Ok(followed(20, 50))), [("log".to_owned(), 5, 20)]);
        assert_eq!(feed.backlog().lag(1_000).bytes, 45);
        assert_eq!(step(&mut feed, 0, Ok(followed(50, 50))), [("log".to_owned(), 20, 50)]);
        assert!(matches!(feed.next(at(3)), Next::Wait(Some(until)) if until == Time::from_secs(10)));
        assert_eq!(step(&mut feed, 10, Ok(followed(50, 50))), []);
    }

    #[test]
    fn what_was_not_told_of_an_old_file_comes_before_the_new_one() {
        let mut feed = feed(None);
        assert_eq!(step(&mut feed, 0, Ok(followed(20, 20))).len(), 1);
        let rotated = Some(Rotated { file: file(), len: 30, kept: Some(Name::new("log.1").unwrap()) });
        let end = Followed { rotated, is_complete: false, ..followed(0, 0) };
        assert_eq!(step(&mut feed, 10, Ok(end)), [("log.1".to_owned(), 20, 30)]);
        assert_eq!(step(&mut feed, 10, Ok(followed(7, 7))), [("log".to_owned(), 0, 7)]);
    }

    #[test]
    fn a_file_that_is_gone_is_waited_for_if_it_ever_was_there() {
        let gone = || Err(Fault::NotFound("404".into()).into());
        let mut known = feed(Some(5));
        assert_eq!(step(&mut known, 0, gone()), []);
        assert!(matches!(known.next(at(10)), Next::Task(..)));
        let mut new = feed(None);
        assert_eq!(step(&mut new, 0, gone()), []);
        assert!(matches!(new.next(at(10)), Next::Done));
        assert!(new.into_failure().is_some());
    }
}
