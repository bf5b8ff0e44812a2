//! What there is to do: tasks that were taken out of the feed ahead, and tasks that a worker gave back or left for later.
//! Used by the puller and its workers alone.

use std::collections::VecDeque;

use crate::base::Time;

use super::current::Current;
use super::{Feed, Moment, Next, Task, Want};

/// What there is to do.
pub(super) struct Work<F> {
    pub(super) feed: F,
    /// Taken out ahead, so that the next file can be prepared while one is pulled.
    pub(super) ahead: VecDeque<(usize, Task)>,
    /// Tasks of workers whose connection the source refused while others worked. They come last: if the source refuses one
    /// file rather than one connection, everything else is pulled first.
    pub(super) given_back: VecDeque<Current>,
    /// Tasks that go on after a time: files whose date is too young. Each has taken a worker some time, so they are few.
    pub(super) set_aside: Vec<(Time, Current)>,
    workers: usize,
    /// Workers that are doing something right now.
    pub(super) busy: usize,
    /// Workers that the source has answered in this turn, without those that rest since.
    pub(super) served: usize,
}

/// What the feed would say.
pub(super) enum Peek {
    Task,
    Again,
    Wait(Option<Time>),
    Done,
}

impl<F: Feed> Work<F> {
    pub(super) fn new(feed: F, workers: usize) -> Self {
        Self {
            feed,
            ahead: VecDeque::new(),
            given_back: VecDeque::new(),
            set_aside: Vec::new(),
            workers,
            busy: 0,
            served: 0,
        }
    }

    pub(super) fn begin_turn(&mut self, is_in_limited_slot: bool) {
        self.served = 0;
        self.feed.slot_changed(is_in_limited_slot);
    }

    pub(super) fn peek(&mut self, at: Moment) -> Peek {
        match self.look_ahead(at) {
            _ if !self.ahead.is_empty() || !self.given_back.is_empty() || self.is_due(at) => Peek::Task,
            Some(rest) => match self.with_set_aside(rest) {
                Next::Done => Peek::Done,
                Next::Again => Peek::Again,
                Next::Wait(until) => Peek::Wait(until),
                Next::Task(..) => Peek::Wait(None),
            },
            None => Peek::Wait(None),
        }
    }

    fn next(&mut self, at: Moment) -> Next {
        let rest = self.look_ahead(at);
        match (self.ahead.pop_front(), rest) {
            (Some((id, task)), _) => Next::Task(id, task),
            (None, Some(rest)) => self.with_set_aside(rest),
            (None, None) => self.with_set_aside(Next::Wait(None)),
        }
    }

    /// Whether a task that was left for later can go on.
    fn is_due(&self, at: Moment) -> bool {
        self.set_aside.iter().any(|(until, _)| *until <= at.now)
    }

    /// What the feed says when it has no more tasks, if there are some that were left for later.
    fn with_set_aside(&self, rest: Next) -> Next {
        let first = self.set_aside.iter().map(|(until, _)| *until).min();
        match (rest, first) {
            (Next::Done | Next::Wait(None), Some(first)) => Next::Wait(Some(first)),
            (Next::Wait(Some(until)), Some(first)) => Next::Wait(Some(until.min(first))),
            (rest, _) => rest,
        }
    }

    /// All tasks that a worker has begun and left.
    pub(super) fn take_left(&mut self) -> Vec<Current> {
        let set_aside = std::mem::take(&mut self.set_aside).into_iter().map(|(_, task)| task);
        std::mem::take(&mut self.given_back).into_iter().chain(set_aside).collect()
    }

    /// A task that was left for later, or else the next one; one that was given back if the feed has no task.
    pub(super) fn next_or_left(&mut self, at: Moment) -> (Next, Option<Current>) {
        if let Some(due) = self.set_aside.iter().position(|(until, _)| *until <= at.now) {
            return (Next::Again, Some(self.set_aside.remove(due).1));
        }
        let next = self.next(at);
        let is_task = matches!(next, Next::Task(..));
        let given_back = if is_task { None } else { self.given_back.pop_front() };
        (next, given_back)
    }

    /// The next file, if there are enough for everybody.
    pub(super) fn want_ahead(&mut self, at: Moment) -> Option<(usize, Want)> {
        self.look_ahead(at);
        if self.ahead.len() <= self.workers {
            return None;
        }
        match self.ahead.pop_front()? {
            (id, Task::Pull(want)) => Some((id, want)),
            other => {
                self.ahead.push_front(other);
                None
            }
        }
    }

    /// What the feed said when it had no more tasks.
    fn look_ahead(&mut self, at: Moment) -> Option<Next> {
        while self.ahead.len() < 2 * self.workers {
            match self.feed.next(at) {
                Next::Task(id, task) => self.ahead.push_back((id, task)),
                rest => return Some(rest),
            }
        }
        None
    }
}
