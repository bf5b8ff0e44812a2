//! The feed of a stream on virtual time, before a source of which everything is known.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::fetch::{Entry, EntryKind, Name, PackedListing};
use crate::jobs::pull::{Fate, Task};

const START_S: i64 = 1_700_000_007;

/// A source, the feed before it, and what the feed told.
struct World {
    stream: Stream,
    backlog: Arc<Mutex<Backlog>>,
    now_s: u64,
    /// Size and time.
    files: BTreeMap<String, (u64, i64)>,
    /// Tasks that go on, and until when.
    pulls: Vec<(usize, String, u64)>,
    told: Vec<Item>,
    records: BTreeMap<String, Record>,
    looks: usize,
    pull_s: fn(usize) -> u64,
    is_away: bool,
    /// A file that nobody is given.
    refused: Option<&'static str>,
}

fn config() -> Config {
    Config {
        root: Address::parse("http://h/s/").unwrap().0,
        target: PathBuf::from("/t"),
        filter: Filter::default(),
        order: Order::Time,
        since: Since::All,
        poll: Duration::from_secs(10),
        settle: Duration::from_secs(20),
        recursive: false,
        refuses_twins: false,
        follow: None,
    }
}

impl World {
    fn new(config: Config) -> Self {
        Self::again(config, BTreeMap::new(), true)
    }

    fn again(config: Config, records: BTreeMap<String, Record>, is_first: bool) -> Self {
        let backlog = Arc::new(Mutex::new(Backlog::default()));
        Self {
            stream: Stream::new(config, records.clone(), is_first, Arc::clone(&backlog)),
            backlog,
            now_s: 0,
            files: BTreeMap::new(),
            pulls: Vec::new(),
            told: Vec::new(),
            records,
            looks: 0,
            pull_s: |_| 0,
            is_away: false,
            refused: None,
        }
    }

    fn at(&self) -> Moment {
        Moment { now: Time::from_secs(self.now_s), wall_s: self.wall_s() }
    }

    fn wall_s(&self) -> i64 {
        START_S + i64::try_from(self.now_s).unwrap()
    }

    fn put(&mut self, name: &str, size: u64) {
        let wall_s = self.wall_s();
        self.files.insert(name.to_owned(), (size, wall_s));
    }

    fn listing(&self) -> PackedListing {
        let entry = |(name, (size, time)): (&String, &(u64, i64))| Entry {
            name: Name::new(name).unwrap(),
            kind: EntryKind::File,
            size: Some(*size),
            modified_s: Some(*time),
            coarse_s: None,
        };
        PackedListing { entries: self.files.iter().map(entry).collect(), ..PackedListing::default() }
    }

    /// Does what there is to do at this second.
    fn step(&mut self) {
        let at = self.at();
        for (id, name, _) in
            self.pulls.extract_if(.., |(_, _, until)| *until <= self.now_s).collect::<Vec<_>>()
        {
            let fate = match self.files.get(&name) {
                _ if self.refused == Some(&name) => Fate::Failed(Fault::Denied(name).into()),
                Some((size, _)) => Fate::Pulled { size: *size, sha256: None, modified_s: None, etag: None },
                None => Fate::Failed(Fault::NotFound(name).into()),
            };
            self.stream.ended(id, End::Pulled(fate), at);
        }
        while let Next::Task(id, task) = self.stream.next(at) {
            match task {
                Task::List(_) => {
                    self.looks += 1;
                    let gone = || Err(Fault::Broken("away".into()));
                    let listed = if self.is_away { gone() } else { Ok(self.listing()) };
                    self.stream.ended(id, End::Listed(listed), at);
                }
                Task::Follow(_) | Task::Probe(_) | Task::Resolve(_) => panic!("nothing grows here"),
                Task::Pull(want) => {
                    let name = want.address.file_name().unwrap().to_string();
                    let until = self.now_s + (self.pull_s)(id);
                    self.pulls.push((id, name, until));
                }
            }
        }
        while let Some(output) = self.stream.poll_output() {
            match output {
                Output::Arrived(item) => {
                    self.backlog.lock().unwrap().remove(&item.path);
                    self.records.insert(item.path.clone(), Record { delivered: true, ..item.record.clone() });
                    self.told.push(*item);
                }
                Output::Before(before) => self.records.extend(before),
                Output::Trouble(_) => {}
                Output::Forgotten(path) => drop(self.records.remove(&path)),
                other => panic!("{other:?}"),
            }
        }
    }

    fn run(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.step();
            self.now_s += 1;
        }
    }

    fn told(&self) -> Vec<(&str, u64)> {
        self.told.iter().map(|item| (item.path.as_str(), item.record.size)).collect()
    }
}

#[test]
fn what_is_there_at_the_first_look_is_not_wanted_and_what_comes_then_is() {
    let mut world = World::new(Config { since: Since::Now, ..config() });
    world.put("old", 5);
    world.run(15);
    world.put("new", 7);
    world.run(60);
    assert_eq!(world.told(), [("new", 7)]);
    // Another version of an old one is new.
    world.put("old", 6);
    world.run(60);
    assert_eq!(world.told(), [("new", 7), ("old", 6)]);
}

#[test]
fn a_file_is_pulled_when_it_has_not_changed_over_two_looks() {
    let mut world = World::new(config());
    for size in 1..=8 {
        world.put("frame", size * 100);
        world.run(10);
        assert_eq!(world.told(), [], "still written to");
    }
    world.run(40);
    assert_eq!(world.told(), [("frame", 800)]);
}

#[test]
fn an_old_file_need_not_wait_unless_its_time_is_only_known_to_the_minute() {
    let mut world = World::new(config());
    world.files.insert("old".into(), (5, START_S - 100));
    world.run(2);
    assert_eq!(world.told(), [("old", 5)]);
    // 11:08:00 may be 11:08:59.
    let minute_s = START_S - START_S.rem_euclid(60);
    let mut world = World::new(config());
    world.files.insert("by-minute".into(), (5, minute_s));
    world.run(20);
    assert_eq!(world.told(), []);
    world.run(2);
    assert_eq!(world.told(), [("by-minute", 5)]);
}

#[test]
fn files_are_told_in_their_order_however_long_each_of_them_takes() {
    let mut world = World::new(Config { settle: Duration::ZERO, ..config() });
    world.pull_s = |id| 20_u64.saturating_sub(id as u64 * 3);
    for (name, age) in [("c", 30), ("a", 20), ("b", 10)] {
        world.files.insert(name.into(), (1, START_S - age));
    }
    world.run(60);
    assert_eq!(world.told(), [("c", 1), ("a", 1), ("b", 1)]);
    let mut world = World::new(Config { settle: Duration::ZERO, order: Order::Name, ..config() });
    for (name, age) in [("c", 30), ("a", 20), ("b", 10)] {
        world.files.insert(name.into(), (1, START_S - age));
    }
    world.run(60);
    assert_eq!(world.told(), [("a", 1), ("b", 1), ("c", 1)]);
}

#[test]
fn since_a_time_leaves_out_what_is_older() {
    let mut world = World::new(Config { since: Since::At(START_S - 50), ..config() });
    world.files.insert("older".into(), (1, START_S - 60));
    world.files.insert("newer".into(), (2, START_S - 40));
    world.run(5);
    assert_eq!(world.told(), [("newer", 2)]);
}

#[test]
fn a_restart_goes_on_where_the_manifest_says() {
    let mut first = World::new(config());
    first.put("a", 1);
    first.put("b", 2);
    first.run(60);
    assert_eq!(first.told().len(), 2);
    let mut second = World::again(Config { since: Since::Now, ..config() }, first.records, false);
    second.files = first.files;
    second.now_s = first.now_s;
    second.put("c", 3);
    second.put("b", 4);
    second.run(60);
    assert_eq!(second.told(), [("b", 4), ("c", 3)]);
}

#[test]
fn the_lag_is_known_from_the_look_that_shows_a_file_until_its_delivery() {
    let mut world = World::new(config());
    world.run(10);
    world.put("a", 1_000);
    let lag = |world: &World| world.backlog.lock().unwrap().lag(world.wall_s());
    world.run(11);
    let seen = lag(&world);
    assert_eq!((seen.files, seen.bytes, seen.behind.as_secs()), (1, 1_000, 11));
    world.run(30);
    assert_eq!(world.told(), [("a", 1_000)]);
    assert_eq!((lag(&world).files, lag(&world).behind()), (0, Some(Duration::ZERO)));
    assert!(world.stream.stream_rate().is_some_and(|rate| rate > 0));
}

#[test]
fn looks_keep_their_distance_and_come_once_a_slot() {
    let mut world = World::new(config());
    world.run(100);
    assert_eq!(world.looks, 10);
    let mut world = World::new(Config { poll: Duration::from_secs(1), ..config() });
    world.stream.slot_changed(true);
    world.run(30);
    assert_eq!(world.looks, 1, "in one slot");
    world.stream.slot_changed(false);
    world.step();
    assert_eq!(world.looks, 2, "that is over");
}

#[test]
fn a_source_that_is_away_is_looked_at_again_and_nothing_is_forgotten() {
    let mut world = World::new(config());
    world.put("a", 1);
    world.run(60);
    world.is_away = true;
    world.run(600);
    world.is_away = false;
    world.put("b", 2);
    world.run(60);
    assert_eq!(world.told(), [("a", 1), ("b", 2)]);
}

#[test]
fn a_folder_that_never_was_ends_it() {
    let mut world = World::new(config());
    let Next::Task(id, Task::List(_)) = world.stream.next(world.at()) else { panic!("a look first") };
    world.stream.ended(id, End::Listed(Err(Fault::NotFound("404".into()))), world.at());
    assert!(matches!(world.stream.next(world.at()), Next::Done));
    assert!(matches!(world.stream.into_failure(), Some(Fault::NotFound(_))));
}

#[test]
fn an_empty_listing_in_between_pulls_nothing_twice_and_an_hour_of_them_forgets() {
    let mut world = World::new(config());
    world.put("a", 1);
    world.run(60);
    let files = std::mem::take(&mut world.files);
    world.run(1_000);
    world.files = files.clone();
    world.run(100);
    assert_eq!(world.told(), [("a", 1)]);
    world.files.clear();
    world.run(4_000);
    assert!(world.stream.known.is_empty() && world.records.is_empty(), "nothing is remembered for ever");
}

#[test]
fn a_file_that_cannot_be_had_is_tried_again_and_holds_nobody_up() {
    let mut world = World::new(Config { settle: Duration::ZERO, ..config() });
    world.files.insert("bad".into(), (1, START_S - 10));
    world.refused = Some("bad");
    world.put("good", 2);
    world.run(100);
    assert_eq!(world.told(), [("good", 2)]);
    world.refused = None;
    world.run(200);
    assert_eq!(world.told(), [("good", 2), ("bad", 1)]);
}

/// A file that is written to in steps: from when on, how often and how far apart, and its size in the end.
#[derive(Clone, Debug)]
struct Written {
    from_s: i64,
    steps: i64,
    every_s: i64,
    size: u64,
    vanishes: bool,
}

fn written() -> impl Strategy<Value = Written> {
    (0_i64..300, 1_i64..6, 1_i64..=9, 1_u64..100, prop::bool::weighted(0.1)).prop_map(
        |(from_s, steps, every_s, size, vanishes)| Written { from_s, steps, every_s, size, vanishes },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_file_is_told_whole_and_in_order_whatever_appears_grows_and_vanishes(
        files in prop::collection::vec(written(), 1..20),
        slowness in 0_usize..3,
        restart_s in prop::option::of(0_i64..400),
    ) {
        let mut world = World::new(config());
        world.pull_s = [|_| 0, |id| (id as u64 * 7) % 5, |id| (id as u64 * 13) % 40][slowness];
        let mut told = Vec::new();
        for second in 0..800_i64 {
            for (number, file) in files.iter().enumerate() {
                let name = format!("f{number:02}");
                let since = second - file.from_s;
                let step = since.div_euclid(file.every_s);
                if since >= 0 && since % file.every_s == 0 && step < file.steps {
                    let left = (file.steps - 1 - step).unsigned_abs();
                    world.put(&name, file.size * 10 - left.min(file.size * 10 - 1));
                }
                if file.vanishes && since == 60 {
                    world.files.remove(&name);
                }
            }
            if restart_s == Some(second) {
                let (files, now_s, pull_s) = (world.files.clone(), world.now_s, world.pull_s);
                told.append(&mut world.told);
                let is_first = world.looks == 0;
                world = World::again(config(), world.records, is_first);
                (world.files, world.now_s, world.pull_s) = (files, now_s, pull_s);
            }
            world.run(1);
        }
        told.append(&mut world.told);
        for (number, file) in files.iter().enumerate() {
            let name = format!("f{number:02}");
            let sizes: Vec<u64> = told.iter().filter(|item| item.path == name).map(|item| item.record.size).collect();
            prop_assert!(sizes.iter().all(|size| *size == file.size * 10), "{name}: a part of it was told: {sizes:?}");
            prop_assert!(file.vanishes || !sizes.is_empty(), "{name} was never told");
        }
        let order: Vec<_> = told.iter().map(|item| (item.record.modified_s, item.path.clone())).collect();
        prop_assert!(order.is_sorted(), "{order:?}");
    }
}

/// The names of a folder that is listed now.
fn look(stream: &mut Stream, at_s: u64, names: &[&str], links: &[&str]) -> Vec<Output> {
    let at = Moment { now: Time::from_secs(at_s), wall_s: START_S };
    let Next::Task(id, Task::List(_)) = stream.next(at) else { panic!("no look at {at_s} s") };
    let entry = |name: &&str| Entry {
        name: Name::new(name).unwrap(),
        kind: EntryKind::File,
        size: None,
        modified_s: None,
        coarse_s: None,
    };
    let link = |name: &&str| crate::fetch::Link { name: Name::new(name).unwrap(), target: None };
    let (entries, links) = (names.iter().map(entry).collect(), links.iter().map(link).collect());
    let listing = PackedListing { entries, links, ..PackedListing::default() };
    stream.ended(id, End::Listed(Ok(listing)), at);
    std::iter::from_fn(|| stream.poll_output()).collect()
}

/// Some index pages list folders like files. The file was asked for again and again, and the lag grew.
#[test]
fn a_folder_that_is_listed_like_a_file_is_looked_into_or_left_alone() {
    for recursive in [false, true] {
        let config = Config { recursive, settle: Duration::ZERO, ..config() };
        let backlog = Arc::new(Mutex::new(Backlog::default()));
        let mut stream = Stream::new(config, [], true, Arc::clone(&backlog));
        look(&mut stream, 0, &["sub"], &[]);
        let at = |now_s| Moment { now: Time::from_secs(now_s), wall_s: START_S };
        let Next::Task(id, Task::Pull(_)) = stream.next(at(0)) else { panic!("not pulled") };
        let folder = Fault::IsFolder("http://h/s/sub/".to_owned());
        stream.ended(id, End::Pulled(Fate::Failed(folder.into())), at(0));
        assert_eq!(backlog.lock().unwrap().lag(START_S).files, 0);
        look(&mut stream, 10, &["sub"], &[]);
        match stream.next(at(10)) {
            Next::Task(_, Task::List(address)) if recursive => {
                assert_eq!(address.to_string(), "http://h/s/sub/");
            }
            Next::Wait(_) if !recursive => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_link_is_told_once_unless_it_is_left_out() {
    let rules = crate::jobs::filter::Rules { exclude: vec!["latest".to_owned()], ..Default::default() };
    let config = Config { filter: Filter::new(&rules).unwrap(), ..config() };
    let mut stream = Stream::new(config, [], true, Arc::default());
    let told = |outputs: Vec<Output>| -> Vec<String> {
        let link = |output| if let Output::Link(path) = output { Some(path) } else { None };
        outputs.into_iter().filter_map(link).collect()
    };
    assert_eq!(told(look(&mut stream, 0, &[], &["latest", "frame"])), ["frame"]);
    assert!(told(look(&mut stream, 10, &[], &["latest", "frame"])).is_empty());
}
