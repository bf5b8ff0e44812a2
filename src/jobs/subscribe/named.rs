//! Files whose names are known beforehand: one every so often, asked for by name, so that nothing is ever listed.
//!
//! Pure. A file that is not there is asked for again after a short wait, until the one after it is there or it was waited
//! for long enough; then it is a gap, which is told, and the stream goes on.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use jiff::Timestamp;

use super::item::{Item, Machine, Output};
use super::lag::Backlog;
use super::look::path_of;
use crate::base::Time;
use crate::fetch::engine::PullError;
use crate::fetch::{Address, Name};
use crate::jobs::manifest::Record;
use crate::jobs::pull::{End, Fate, Feed, Moment, Next, Task, To, Want};
use crate::jobs::template::Template;

/// So many names are known ahead at most.
const MOST: usize = 1_024;

/// Nothing is asked for again sooner than this.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);

/// What the names are, and how long to wait for them.
#[derive(Clone, Debug)]
pub struct Config {
    /// The names.
    pub template: Template,
    /// How long after its moment a file may be expected.
    pub delay: Duration,
    /// How long after its moment a file is not waited for any more.
    pub give_up: Duration,
    /// How long to wait before a file is asked for again.
    pub again: Duration,
    /// Names that some platform cannot hold are refused.
    pub portable: bool,
}

#[derive(Debug)]
struct Due {
    moment_s: i64,
    path: String,
    below: Vec<Name>,
    name: Name,
    /// Not to be asked for before.
    again: Time,
}

/// The feed.
#[derive(Debug)]
pub struct Named {
    config: Config,
    root: Address,
    target: PathBuf,
    /// Everything up to this moment is in `due`, or done with.
    reached: Option<Timestamp>,
    due: VecDeque<Due>,
    /// The task, and which of those that are due it is about: the first, or the one after it.
    asked: Option<(usize, usize)>,
    next_id: usize,
    /// The first one was not there just now.
    is_first_missing: bool,
    outputs: VecDeque<Output>,
    backlog: Arc<Mutex<Backlog>>,
}

impl Named {
    /// Names below this folder, after this moment (in seconds since 1970), or from now on.
    pub fn new(
        config: Config,
        root: Address,
        target: PathBuf,
        after_s: Option<i64>,
        backlog: Arc<Mutex<Backlog>>,
    ) -> Self {
        Self {
            config,
            root,
            target,
            reached: after_s.and_then(|after_s| Timestamp::from_second(after_s).ok()),
            due: VecDeque::new(),
            asked: None,
            next_id: 0,
            is_first_missing: false,
            outputs: VecDeque::new(),
            backlog,
        }
    }

    fn backlog(&self) -> MutexGuard<'_, Backlog> {
        self.backlog.lock().expect("nobody panics with the backlog in hand")
    }

    /// Which names have become due.
    fn refill(&mut self, at: Moment) {
        let delay_s = i64::try_from(self.config.delay.as_secs()).unwrap_or(i64::MAX);
        let Ok(until) = Timestamp::from_second(at.wall_s.saturating_sub(delay_s)) else { return };
        let Some(reached) = self.reached else {
            // The first time: what is due now is not wanted any more.
            self.reached = Some(until);
            self.outputs.push_back(Output::Reached(until.as_second()));
            return;
        };
        let room = MOST.saturating_sub(self.due.len());
        if room == 0 || until <= reached {
            return;
        }
        let mut names = self.config.template.names_after(Some(reached), until);
        let mut last = None;
        for (moment, mut below) in names.by_ref().take(room) {
            last = Some(moment);
            let portable = || below.iter().try_for_each(Name::check_portable);
            if let Some(why) = self.config.portable.then(portable).and_then(Result::err) {
                let path = path_of_all(&below);
                if self.backlog.lock().expect("nobody panics with the backlog in hand").refuse(&path) {
                    self.outputs.push_back(Output::Refused { path, why: why.to_string() });
                }
                continue;
            }
            let Some(name) = below.pop() else { continue };
            let (path, moment_s) = (path_of(&below, &name), moment.as_second());
            let appeared_s = moment_s.saturating_add(delay_s);
            self.backlog.lock().expect("nobody panics with the backlog in hand").add(&path, appeared_s, 0);
            self.due.push_back(Due { moment_s, path, below, name, again: at.now });
        }
        // If there was room for more, all moments that were looked at have no other name.
        self.reached = if self.due.len() < MOST { names.reached().or(last) } else { last }.or(self.reached);
    }

    fn next_index(&self) -> usize {
        usize::from(self.is_first_missing && self.due.len() > 1)
    }

    fn address(&self, due: &Due) -> Address {
        due.below.iter().fold(self.root.clone(), |folder, name| folder.folder(name)).file(&due.name)
    }

    fn on_here(&mut self, index: usize, record: Record, modified_s: Option<i64>) {
        for _ in 0..index {
            self.give_up_first();
        }
        self.is_first_missing = false;
        let Some(due) = self.due.pop_front() else { return };
        let address = self.address(&due);
        let Due { moment_s, path, below, name, .. } = due;
        let item = Item { path, below, name, address, record, modified_s, piece: None, is_gone: false };
        self.outputs.push_back(Output::Arrived(Box::new(item)));
        self.outputs.push_back(Output::Reached(moment_s));
    }

    /// The first one is a gap.
    fn give_up_first(&mut self) {
        let Some(due) = self.due.pop_front() else { return };
        self.backlog().remove(&due.path);
        self.outputs.push_back(Output::Gap(due.path));
        self.outputs.push_back(Output::Reached(due.moment_s));
    }

    fn on_missing(&mut self, index: usize, error: &PullError, at: Moment) {
        if index == 0 && self.due.len() > 1 && matches!(error, PullError::Source(_)) {
            // Is the next one there already?
            self.is_first_missing = true;
            return;
        }
        self.is_first_missing = false;
        let step = self.config.template.step();
        let wait = self.config.again.min(step).max(SHORTEST_WAIT);
        let give_up_s = i64::try_from(self.config.give_up.as_secs()).unwrap_or(i64::MAX);
        let Some(first) = self.due.front_mut() else { return };
        first.again = at.now + wait;
        if matches!(error, PullError::Source(_)) && at.wall_s.saturating_sub(first.moment_s) > give_up_s {
            self.give_up_first();
        }
    }
}

fn path_of_all(names: &[Name]) -> String {
    names.iter().map(Name::as_str).collect::<Vec<_>>().join("/")
}

impl Feed for Named {
    fn next(&mut self, at: Moment) -> Next {
        self.refill(at);
        if self.asked.is_some() {
            return Next::Wait(None);
        }
        let index = self.next_index();
        let Some(due) = self.due.get(index) else {
            let step_s = i64::try_from(self.config.template.step().as_secs()).unwrap_or(i64::MAX);
            let delay_s = i64::try_from(self.config.delay.as_secs()).unwrap_or(0);
            let into_s = at.wall_s.saturating_sub(delay_s).rem_euclid(step_s);
            return Next::Wait(Some(at.now + Duration::from_secs(step_s.abs_diff(into_s))));
        };
        if index == 0 && at.now < due.again {
            return Next::Wait(Some(due.again));
        }
        let to = To::File { root: self.target.clone(), below: due.below.clone(), name: due.name.clone() };
        let want = Want {
            address: self.address(due),
            to,
            expected: None,
            ask_first: true,
            changed_within: None,
            known_etag: None,
        };
        self.next_id += 1;
        self.asked = Some((self.next_id, index));
        Next::Task(self.next_id, Task::Pull(want))
    }

    fn ended(&mut self, id: usize, end: End, at: Moment) {
        let Some((_, index)) = self.asked.take_if(|(asked, _)| *asked == id) else { return };
        match end {
            End::Pulled(Fate::Pulled { size, sha256, modified_s, .. }) => {
                let record = Record { size, sha256, pulled_s: at.wall_s, ..Record::default() };
                self.on_here(index, record, modified_s);
            }
            End::Pulled(Fate::UpToDate(_) | Fate::Planned { .. }) => {
                self.on_here(index, Record { pulled_s: at.wall_s, ..Record::default() }, None);
            }
            End::Pulled(Fate::Failed(error)) => self.on_missing(index, &error, at),
            End::Pulled(Fate::Interrupted | Fate::NotMeant)
            | End::Listed(_)
            | End::Followed(_)
            | End::Probed(_)
            | End::Resolved(_) => {}
        }
    }

    fn outlook(&self) -> Option<Address> {
        Some(self.due.front().map_or_else(|| self.root.clone(), |due| self.address(due)))
    }

    fn abreast(&self) -> usize {
        1
    }
}

impl Machine for Named {
    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::fetch::Fault;

    /// A source that has these names, asked second by second.
    struct World {
        feed: Named,
        now_s: u64,
        there: BTreeSet<String>,
        told: Vec<String>,
        reached_s: Option<i64>,
        asked: usize,
    }

    const START_S: i64 = 1_700_000_000 / 60 * 60;

    fn world(after_s: Option<i64>) -> World {
        let template = Template::parse("%H/f-%M.dat", Duration::from_secs(60)).unwrap();
        let second = Duration::from_secs(1);
        let config = Config {
            template,
            delay: second * 5,
            give_up: second * 600,
            again: second * 10,
            portable: false,
        };
        let root = Address::parse("http://h/s/").unwrap().0;
        let feed = Named::new(config, root, "/t".into(), after_s, Arc::default());
        World { feed, now_s: 10, there: BTreeSet::new(), told: Vec::new(), reached_s: None, asked: 0 }
    }

    impl World {
        fn run(&mut self, seconds: u64) {
            for _ in 0..seconds {
                let wall_s = START_S + i64::try_from(self.now_s).unwrap();
                let at = Moment { now: Time::from_secs(self.now_s), wall_s };
                while let Next::Task(id, Task::Pull(want)) = self.feed.next(at) {
                    self.asked += 1;
                    let name = want.address.file_name().unwrap().to_string();
                    let fate = if self.there.contains(&name) {
                        Fate::Pulled { size: 1, sha256: None, modified_s: None, etag: None }
                    } else {
                        Fate::Failed(Fault::NotFound(name).into())
                    };
                    self.feed.ended(id, End::Pulled(fate), at);
                }
                while let Some(output) = self.feed.poll_output() {
                    match output {
                        Output::Arrived(item) => self.told.push(item.name.to_string()),
                        Output::Gap(path) => self.told.push(format!("no {path}")),
                        Output::Reached(at_s) => self.reached_s = Some(at_s),
                        other => panic!("{other:?}"),
                    }
                }
                self.now_s += 1;
            }
        }

        fn minute(minute: i64) -> String {
            Timestamp::from_second(START_S + 60 * minute).unwrap().strftime("f-%M.dat").to_string()
        }

        fn put(&mut self, minute: i64) -> String {
            let name = Self::minute(minute);
            self.there.insert(name.clone());
            name
        }
    }

    #[test]
    fn names_come_one_after_the_other_and_the_first_is_the_next_one() {
        let mut world = world(None);
        let (one, two) = (world.put(1), world.put(2));
        world.put(0);
        world.run(190);
        assert_eq!(world.told, [one, two]);
        assert_eq!(world.reached_s, Some(START_S + 120));
    }

    #[test]
    fn names_that_are_not_portable_are_told_and_not_asked_for() {
        let template = Template::parse("%H:%M.dat", Duration::from_secs(60)).unwrap();
        let second = Duration::from_secs(1);
        let config =
            Config { template, delay: second, give_up: second * 600, again: second * 10, portable: true };
        let root = Address::parse("http://h/s/").unwrap().0;
        let backlog = Arc::new(Mutex::new(Backlog::foreknown()));
        let mut feed = Named::new(config, root, "/t".into(), Some(START_S - 120), Arc::clone(&backlog));
        let at = Moment { now: Time::from_secs(1), wall_s: START_S + 2 };
        assert!(matches!(feed.next(at), Next::Wait(_)));
        let told =
            std::iter::from_fn(|| feed.poll_output()).filter(|o| matches!(o, Output::Refused { .. })).count();
        let lag = backlog.lock().unwrap().lag(START_S);
        assert_eq!((told, lag.refused, lag.files), (2, 2, 0));
    }

    #[test]
    fn a_late_file_is_asked_for_again_now_and_then() {
        let mut world = world(None);
        world.run(90);
        assert_eq!(world.told, [""; 0]);
        let asked = world.asked;
        assert!((2..=4).contains(&asked), "{asked} times in 25 s");
        let one = world.put(1);
        world.run(20);
        assert_eq!(world.told, [one]);
    }

    #[test]
    fn a_file_is_a_gap_when_the_next_one_is_there() {
        let mut world = world(None);
        let (missing, two) = (World::minute(1), world.put(2));
        world.run(200);
        assert_eq!(world.told.len(), 2);
        assert!(world.told[0].starts_with("no ") && world.told[0].ends_with(&missing), "{:?}", world.told);
        assert_eq!(world.told[1], two);
    }

    #[test]
    fn what_nobody_ever_writes_is_given_up_after_its_time() {
        let mut world = world(None);
        world.run(700);
        assert!(world.told.len() == 1, "{:?}", world.told);
        let nine = world.put(20);
        world.run(1_000);
        assert_eq!(world.told.last(), Some(&nine));
        assert_eq!(world.told.iter().filter(|told| told.starts_with("no ")).count(), world.told.len() - 1);
    }

    #[test]
    fn a_restart_goes_on_after_the_moment_that_was_reached() {
        let mut world = world(Some(START_S - 180));
        let names: Vec<String> = (-2..=0).map(|minute| world.put(minute)).collect();
        world.run(10);
        assert_eq!(world.told, names);
        let lag = world.feed.backlog().lag(START_S + 10);
        assert_eq!(lag.files, 3, "struck out by the delivery, not by the feed");
    }
}
