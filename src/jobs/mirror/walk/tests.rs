//! The walk over scripted listings.

use crate::jobs::mirror::Compare;
use crate::jobs::mirror::compare::by_time;
use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::base::Time;
use crate::fetch::{EntryKind, Link, LinkTarget, NameError, PackedListing, Version};
use crate::jobs::filter::{Filter, Rules};
use crate::jobs::manifest::Listed;
use crate::jobs::mirror::spec::{Delete, Links};

const NOW: Moment = Moment { now: Time::ZERO, wall_s: 1_000_000 };

fn name(text: &str) -> Name {
    Name::new(text).expect(text)
}

fn file(text: &str, size: u64, modified_s: i64) -> Entry {
    Entry {
        name: name(text),
        kind: EntryKind::File,
        size: Some(size),
        modified_s: Some(modified_s),
        coarse_s: None,
    }
}

fn folder(text: &str) -> Entry {
    Entry { kind: EntryKind::Folder, size: None, ..file(text, 0, 0) }
}

fn coarse(text: &str, size: u64, coarse_s: i64) -> Entry {
    Entry { modified_s: None, coarse_s: Some(coarse_s), ..file(text, size, 0) }
}

fn spec() -> Spec {
    Spec {
        source: Address::parse("http://h/data/").expect("an address").0,
        target: "/t".into(),
        filter: Filter::default(),
        compare: Compare::default(),
        order: super::super::spec::Order::default(),
        delete: Some(Delete::default()),
        max_transfer: None,
        hidden: false,
        portable_names: false,
        links: Links::default(),
        dry_run: false,
    }
}

/// What is here, in memory.
#[derive(Debug, Default)]
struct Memory {
    here: BTreeMap<String, (Here, Option<Record>)>,
    notes: Vec<Note>,
    folders_made: Vec<String>,
}

impl Memory {
    fn with(mut self, path: &str, size: u64, modified_s: i64) -> Self {
        self.here.insert(path.to_owned(), (Here::File(Replica { size, modified_s }), None));
        self
    }
}

impl Replicas for &mut Memory {
    fn look(&mut self, below: &[Name], name: &Name) -> Result<Option<(Here, Option<Record>)>, SinkError> {
        Ok(self.here.get(&path_of(below, name.as_str())).cloned())
    }

    fn make_folder(&mut self, below: &[Name]) -> Result<bool, SinkError> {
        self.folders_made.push(path_of(below, ""));
        Ok(true)
    }

    fn note(&mut self, note: Note) {
        self.notes.push(note);
    }
}

/// What is there: folders by their paths, `""` for the root.
type There = BTreeMap<&'static str, PackedListing>;

fn listing(entries: Vec<Entry>) -> PackedListing {
    PackedListing { entries: entries.into(), marks_folders: true, ..PackedListing::default() }
}

fn path_in(address: &Address) -> String {
    let path = String::from_utf8(address.path()).expect("text");
    path.strip_prefix("/data/").expect("below the root").trim_end_matches('/').to_owned()
}

/// Walks to the end: what was asked for, in order, and what was found. Files that are pulled are here afterwards.
fn walk(spec: &Spec, here: &mut Memory, there: &There, fails: &[&str]) -> (Vec<String>, Found) {
    walk_asking(spec, here, there, fails, &|path| panic!("{path} is known"))
}

/// The same with an answer for each entry of unknown type. A file that is pulled where a folder is fails.
fn walk_asking(
    spec: &Spec,
    here: &mut Memory,
    there: &There,
    fails: &[&str],
    answer: &dyn Fn(&str) -> LinkTarget,
) -> (Vec<String>, Found) {
    let mut walk = Walk::new(Arc::new(spec.clone()), here);
    let mut asked = Vec::new();
    loop {
        let (id, task) = match walk.next(NOW) {
            Next::Task(id, task) => (id, task),
            Next::Again => continue,
            Next::Wait(_) => panic!("nothing is under way"),
            Next::Done => break,
        };
        let path = path_in(task.address());
        asked.push(match task {
            Task::List(_) => format!("{path}/"),
            Task::Resolve(_) => format!("{path}?"),
            _ => path.clone(),
        });
        let end = match task {
            Task::Follow(_) | Task::Probe(_) => panic!("nothing is followed or probed"),
            Task::Resolve(_) => End::Resolved(Ok(answer(&path))),
            Task::List(_) => End::Listed(match there.get(path.as_str()) {
                Some(listing) => Ok(listing.clone()),
                None => Err(Fault::NotFound(path)),
            }),
            Task::Pull(want) => {
                let To::File { name, .. } = &want.to else { panic!("to a file") };
                assert_eq!(path.rsplit('/').next(), Some(name.as_str()));
                let fate = if there.contains_key(path.as_str()) {
                    Fate::Failed(Fault::IsFolder(path).into())
                } else if fails.contains(&path.as_str()) {
                    Fate::Failed(Fault::Changed.into())
                } else {
                    Fate::Pulled { size: 1, sha256: Some([7; 32]), modified_s: None, etag: None }
                };
                End::Pulled(fate)
            }
        };
        walk.ended(id, end, NOW);
    }
    (asked, walk.finish())
}

fn small_tree() -> There {
    BTreeMap::from([
        ("", listing(vec![file("a", 1, 10), folder("d"), folder("e"), file("z", 1, 10)])),
        ("d", listing(vec![file("b", 1, 10), folder("f")])),
        ("d/f", listing(vec![])),
        ("e", listing(vec![file("c", 1, 10)])),
    ])
}

#[test]
fn a_tree_is_walked_depth_first_and_files_before_folders() {
    let (asked, found) = walk(&spec(), &mut Memory::default(), &small_tree(), &[]);
    assert_eq!(asked, ["/", "a", "z", "d/", "d/b", "d/f/", "e/", "e/c"]);
    let Counts { folders, files, pulled, .. } = found.counts;
    assert_eq!((folders, files, pulled, found.is_complete), (4, 4, 4, true));
    assert!(found.seen.contains("d/b", EntryKind::File) && found.seen.contains("d/f", EntryKind::Folder));
    assert!(!found.seen.contains("d/b", EntryKind::Folder) && !found.seen.contains("b", EntryKind::File));
}

#[test]
fn what_is_here_with_size_and_time_is_not_wanted() {
    let mut here = Memory::default().with("a", 1, 10).with("z", 1, 11).with("d/b", 2, 10);
    let (asked, found) = walk(&spec(), &mut here, &small_tree(), &[]);
    assert_eq!(asked, ["/", "z", "d/", "d/b", "d/f/", "e/", "e/c"]);
    assert_eq!((found.counts.up_to_date, found.counts.pulled), (1, 3));
    // What was here before is remembered from now on, without a digest.
    let adopted: Vec<_> = here.notes.iter().filter(|note| !note.is_new).collect();
    assert_eq!(adopted.len(), 1);
    assert_eq!((adopted[0].name.as_str(), adopted[0].sha256), ("a", None));
}

#[test]
fn every_way_to_compare_decides_as_it_says() {
    let replica = Replica { size: 5, modified_s: 100 };
    let same = file("f", 5, 100);
    let unsized_ = Entry { size: None, ..same.clone() };
    for (compare, entry, expected) in [
        (Compare::Exists, file("f", 6, 7), Verdict::UpToDate),
        (Compare::Size, file("f", 5, 7), Verdict::UpToDate),
        (Compare::Size, file("f", 6, 100), Verdict::Pull(Why::Size)),
        (Compare::Size, unsized_.clone(), Verdict::Pull(Why::Unsure)),
        (Compare::Mtime, same.clone(), Verdict::UpToDate),
        (Compare::Mtime, file("f", 5, 101), Verdict::Pull(Why::Time)),
        (Compare::Mtime, file("f", 5, 99), Verdict::Pull(Why::Time)),
        (Compare::Mtime, unsized_, Verdict::Pull(Why::Unsure)),
        (Compare::Mtime, coarse("f", 5, 60), Verdict::Pull(Why::Unsure)),
        (Compare::Mtime, Entry { modified_s: None, ..same.clone() }, Verdict::Pull(Why::Unsure)),
        (Compare::Checksum, same, Verdict::Pull(Why::Unsure)),
    ] {
        assert_eq!(verdict(compare, &entry, replica, None), expected, "{compare:?} {entry:?}");
    }
}

#[test]
fn a_coarse_time_is_enough_if_nothing_moved_since_it_was_known_for_sure() {
    let replica = Replica { size: 5, modified_s: 100 };
    let record = Record {
        size: 5,
        modified_s: Some(100),
        replica_s: Some(100),
        listed: Some(Listed { coarse_s: Some(60), size: Some(5), seen_s: 1_000, ..Listed::default() }),
        ..Record::default()
    };
    let decide = |entry: Entry, replica, record: &Record| by_time(&entry, replica, Some(record));
    let unsure = Verdict::Pull(Why::Unsure);
    assert_eq!(decide(coarse("f", 5, 60), replica, &record), Verdict::UpToDate);
    assert_eq!(
        decide(Entry { size: None, ..coarse("f", 5, 60) }, replica, &record),
        unsure,
        "another statement"
    );
    assert_eq!(decide(coarse("f", 5, 120), replica, &record), unsure, "another time there");
    let touched = Replica { modified_s: 101, ..replica };
    assert_eq!(decide(coarse("f", 5, 60), touched, &record), unsure, "another time here");
    let young = Record {
        listed: Some(Listed { coarse_s: Some(60), size: Some(5), seen_s: 150, ..Listed::default() }),
        ..record.clone()
    };
    assert_eq!(decide(coarse("f", 5, 60), replica, &young), unsure, "it may have changed in the same minute");
    let never = Record { listed: None, ..record };
    assert_eq!(decide(coarse("f", 5, 60), replica, &never), unsure);
}

#[test]
fn a_time_that_could_not_be_given_to_the_replica_is_remembered_instead() {
    // From the future, or with --no-times.
    let replica = Replica { size: 5, modified_s: 500 };
    let listed = Listed { exact_s: Some(9_999), size: Some(5), ..Listed::default() };
    let (modified_s, replica_s, listed) = (Some(9_999), Some(500), Some(listed));
    let record = Record { size: 5, modified_s, replica_s, listed, ..Record::default() };
    assert_eq!(by_time(&file("f", 5, 9_999), replica, Some(&record)), Verdict::UpToDate);
    assert_eq!(by_time(&file("f", 5, 9_998), replica, Some(&record)), Verdict::Pull(Why::Time));
    let changed = Replica { size: 5, modified_s: 501 };
    assert_eq!(by_time(&file("f", 5, 9_999), changed, Some(&record)), Verdict::Pull(Why::Time));
}

#[test]
fn whatever_was_not_seen_or_did_not_come_makes_the_walk_incomplete() {
    let whole = small_tree();
    let complete = |there: &There, fails: &[&str]| {
        let found = walk(&spec(), &mut Memory::default(), there, fails).1;
        assert_eq!(found.troubles.is_empty(), found.is_complete);
        found.is_complete
    };
    assert!(complete(&whole, &[]));
    assert!(!complete(&whole, &["d/b"]), "a file did not come");
    let mut there = whole.clone();
    there.remove("d/f");
    assert!(!complete(&there, &[]), "a folder could not be listed");
    let mut there = whole.clone();
    there.get_mut("e").expect("there").truncated = true;
    assert!(!complete(&there, &[]), "a listing was cut");
    let mut there = whole.clone();
    there.get_mut("").expect("there").refused = vec![("../x".into(), NameError::Separator)];
    assert!(!complete(&there, &[]), "a name was refused");
    let mut there = whole;
    there.get_mut("").expect("there").refused = vec![(".htaccess".into(), NameError::Hidden)];
    assert!(complete(&there, &[]), "hidden names are not meant");
}

#[test]
fn a_walk_that_is_not_over_is_not_complete() {
    let (there, spec) = (small_tree(), Arc::new(spec()));
    let steps = walk(&spec, &mut Memory::default(), &there, &[]).0.len();
    for stop in 0..steps {
        let mut here = Memory::default();
        let mut walk = Walk::new(Arc::clone(&spec), &mut here);
        for _ in 0..stop {
            let Next::Task(id, task) = walk.next(NOW) else { panic!("there is more") };
            let end = match task {
                Task::Follow(_) | Task::Probe(_) | Task::Resolve(_) => {
                    panic!("nothing is followed or asked for")
                }
                Task::List(address) => End::Listed(Ok(there[path_in(&address).as_str()].clone())),
                Task::Pull(_) => {
                    End::Pulled(Fate::Pulled { size: 1, sha256: None, modified_s: None, etag: None })
                }
            };
            walk.ended(id, end, NOW);
        }
        // One more is begun, and never ends.
        assert!(matches!(walk.next(NOW), Next::Task(..)), "{stop}");
        assert!(!walk.finish().is_complete, "{stop}");
    }
}

#[test]
fn something_of_another_kind_is_told_and_left_alone() {
    let mut here = Memory::default().with("d", 1, 10);
    here.here.insert("a".into(), (Here::Folder, None));
    here.here.insert("e".into(), (Here::Other("a symbolic link"), None));
    let (asked, found) = walk(&spec(), &mut here, &small_tree(), &[]);
    assert_eq!(asked, ["/", "z"]);
    assert_eq!((found.counts.failed, found.conflicts, found.is_complete), (3, 2, false));
    assert!(!found.is_only_in_the_way(), "a link is no mistake of ours");
}

#[test]
fn depth_has_a_bound() {
    let spec = Arc::new(spec());
    let mut here = Memory::default();
    let mut walk = Walk::new(spec, &mut here);
    let mut listed = 0;
    while let Next::Task(id, task) = walk.next(NOW) {
        assert!(matches!(task, Task::List(_)));
        listed += 1;
        walk.ended(id, End::Listed(Ok(listing(vec![folder("d")]))), NOW);
    }
    assert_eq!(listed, DEEPEST);
    assert!(matches!(walk.finish().troubles.as_slice(), [Trouble { what: What::Bound(_), .. }]));
}

#[test]
fn a_quota_ends_the_walk_at_the_first_file_that_does_not_fit() {
    let sizes =
        There::from([("", listing(vec![file("a", 60, 0), file("b", 50, 0), file("c", 1, 0), folder("d")]))]);
    let spec = Spec { max_transfer: Some(100), ..spec() };
    let (asked, found) = walk(&spec, &mut Memory::default(), &sizes, &[]);
    assert_eq!(asked, ["/", "a"]);
    assert_eq!((found.counts.left, found.is_full, found.is_complete), (2, true, false));
}

/// Files are wanted ahead of those that are being pulled; without sizes all of them seemed to fit.
#[test]
fn without_sizes_a_quota_waits_for_what_comes_before_it_wants_more() {
    let sizeless = |text: &str| Entry { size: None, ..file(text, 0, 0) };
    let spec = Arc::new(Spec { max_transfer: Some(100), ..spec() });
    let mut here = Memory::default();
    let mut walk = Walk::new(spec, &mut here);
    let Next::Task(id, Task::List(_)) = walk.next(NOW) else { panic!("no listing") };
    walk.ended(id, End::Listed(Ok(listing(vec![sizeless("a"), sizeless("b"), sizeless("c")]))), NOW);
    for size in [60, 40] {
        let Next::Task(id, Task::Pull(_)) = walk.next(NOW) else { panic!("nothing wanted") };
        assert!(matches!(walk.next(NOW), Next::Wait(None)), "it does not know yet whether there is room");
        walk.ended(id, End::Pulled(Fate::Pulled { size, sha256: None, modified_s: None, etag: None }), NOW);
    }
    assert!(matches!(walk.next(NOW), Next::Done), "there is room for nothing more");
    let found = walk.finish();
    assert_eq!((found.counts.pulled, found.counts.left, found.is_full), (2, 1, true));
}

#[test]
fn what_the_filter_leaves_out_is_not_wanted_and_not_forgotten() {
    let rules = Rules { exclude: vec!["z".into(), "/d/".into()], ..Rules::default() };
    let mut spec = Spec { filter: Filter::new(&rules).expect("a filter"), ..spec() };
    let (asked, found) = walk(&spec, &mut Memory::default(), &small_tree(), &[]);
    assert_eq!(asked, ["/", "a", "e/", "e/c"]);
    assert!(found.seen.contains("z", EntryKind::File) && found.is_complete);
    spec.delete = Some(Delete { excluded: true, ..Delete::default() });
    assert!(!walk(&spec, &mut Memory::default(), &small_tree(), &[]).1.seen.contains("z", EntryKind::File));
}

#[test]
fn a_dry_run_wants_nothing_and_says_why() {
    let spec = Spec { dry_run: true, ..spec() };
    let mut here = Memory::default().with("a", 2, 10).with("z", 1, 11).with("d/b", 1, 10);
    let (asked, found) = walk(&spec, &mut here, &small_tree(), &[]);
    assert_eq!(asked, ["/", "d/", "d/f/", "e/"]);
    let planned: Vec<_> = found.planned.iter().map(|planned| planned.expect("it can be read")).collect();
    let plan: Vec<_> = planned.iter().map(|planned| (planned.path.as_str(), planned.why)).collect();
    assert_eq!(plan, [("a", Why::Size), ("z", Why::Time), ("e/c", Why::New)]);
    assert!(here.notes.is_empty());
}

#[test]
fn a_hundred_thousand_files_take_one_folder_of_memory() {
    struct Nothing;
    impl Replicas for Nothing {
        fn look(&mut self, _: &[Name], _: &Name) -> Result<Option<(Here, Option<Record>)>, SinkError> {
            Ok(None)
        }
        fn make_folder(&mut self, _: &[Name]) -> Result<bool, SinkError> {
            Ok(true)
        }
        fn note(&mut self, _: Note) {}
    }
    let (folders, files) = (100, 1_000);
    let mut walk = Walk::new(Arc::new(spec()), Nothing);
    let (mut pulled, mut most) = (0, 0);
    while let Next::Task(id, task) = walk.next(NOW) {
        let end = match task {
            Task::Follow(_) | Task::Probe(_) | Task::Resolve(_) => panic!("nothing is followed or asked for"),
            Task::List(address) if path_in(&address).is_empty() => {
                End::Listed(Ok(listing((0..folders).map(|n| folder(&format!("d{n:03}"))).collect())))
            }
            Task::List(_) => {
                End::Listed(Ok(listing((0..files).map(|n| file(&format!("f{n:04}"), 1, 1)).collect())))
            }
            Task::Pull(_) => {
                pulled += 1;
                End::Pulled(Fate::Pulled { size: 1, sha256: None, modified_s: None, etag: None })
            }
        };
        walk.ended(id, end, NOW);
        let waiting = walk.current.as_ref().map_or(0, |(_, files)| files.len());
        most = most.max(waiting + walk.pending.len() + walk.on_their_way.len());
    }
    assert_eq!(pulled, folders * files);
    assert!(most <= folders + files, "{most} things were kept at once");
    let found = walk.finish();
    assert!(found.is_complete && found.troubles.is_empty() && found.planned.is_empty());
}

/// Any small tree: paths of files, each with a size.
fn any_tree() -> impl Strategy<Value = BTreeMap<String, u64>> {
    proptest::collection::btree_map("[ab](/[cd]){0,2}/[xy]", 0_u64..3, 0..12)
}

/// The listings of a tree.
fn listings(tree: &BTreeMap<String, u64>) -> BTreeMap<String, PackedListing> {
    let mut all = BTreeMap::from([(String::new(), BTreeMap::new())]);
    for (path, size) in tree {
        let parts: Vec<&str> = path.split('/').collect();
        for depth in 0..parts.len() {
            let is_file = depth + 1 == parts.len();
            let entry = if is_file { file(parts[depth], *size, 1) } else { folder(parts[depth]) };
            all.entry(parts[..depth].join("/")).or_default().insert(parts[depth].to_owned(), entry);
        }
    }
    all.into_iter().map(|(path, entries)| (path, listing(entries.into_values().collect()))).collect()
}

proptest! {
    #[test]
    fn after_a_mirror_everything_that_is_there_is_here_and_nothing_is_wanted_again(
        there in any_tree(), before in any_tree(),
    ) {
        let all = listings(&there);
        let mut here = Memory::default();
        for (path, size) in &before {
            here = here.with(path, *size, 1);
        }
        for round in 0..2 {
            let mut pulled = Vec::new();
            let mut walk = Walk::new(Arc::new(spec()), &mut here);
            while let Next::Task(id, task) = walk.next(NOW) {
                let path = path_in(task.address());
                let end = match task {
                    Task::Follow(_) | Task::Probe(_) | Task::Resolve(_) => panic!("nothing is followed or asked for"),
                    Task::List(_) => End::Listed(Ok(all[&path].clone())),
                    Task::Pull(_) => {
                        pulled.push(path.clone());
                        End::Pulled(Fate::Pulled { size: there[&path], sha256: None, modified_s: None, etag: None })
                    }
                };
                walk.ended(id, end, NOW);
            }
            let found = walk.finish();
            prop_assert!(found.is_complete);
            prop_assert_eq!(found.counts.up_to_date + found.counts.pulled, there.len() as u64);
            prop_assert!(round == 0 || pulled.is_empty(), "{pulled:?} came twice");
            for path in pulled {
                here.here.insert(path.clone(), (Here::File(Replica { size: there[&path], modified_s: 1 }), None));
            }
            for (path, size) in &there {
                let expected = Here::File(Replica { size: *size, modified_s: 1 });
                prop_assert_eq!(here.here.get(path).map(|(here, _)| *here), Some(expected));
                prop_assert!(found.seen.contains(path, EntryKind::File));
            }
        }
    }
}

/// What is meant by this maximal age, of files that are not here: what is asked for, and whether their ages are.
fn asked_ages(max_age_s: u64, entries: &[Entry]) -> Vec<(String, bool)> {
    let max_age = Some(std::time::Duration::from_secs(max_age_s));
    let filter = Filter::new(&Rules { max_age, ..Rules::default() }).expect("rules");
    let mut here = Memory::default();
    let mut walk = Walk::new(Arc::new(Spec { filter, ..spec() }), &mut here);
    let mut asked = Vec::new();
    while let Next::Task(id, task) = walk.next(NOW) {
        let end = match task {
            Task::Pull(want) => {
                asked.push((path_in(&want.address), want.changed_within.is_some()));
                End::Pulled(Fate::Pulled { size: 1, sha256: None, modified_s: None, etag: None })
            }
            _ => End::Listed(Ok(listing(entries.to_vec()))),
        };
        walk.ended(id, end, NOW);
    }
    asked
}

#[test]
fn an_age_that_a_listing_does_not_tell_is_asked_for_and_one_that_it_tells_roughly_only_if_it_matters() {
    let (day, now) = (86_400, NOW.wall_s);
    let unknown = Entry { modified_s: None, ..file("unknown", 1, 0) };
    let entries = vec![
        file("exactly-young", 1, now - day),
        file("exactly-old", 1, now - 6 * day),
        coarse("roughly-young", 1, now - day),
        coarse("roughly-near", 1, now - 4 * day),
        coarse("roughly-old", 1, now - 8 * day),
        unknown,
    ];
    let asked = asked_ages(5 * 86_400, &entries);
    let asked: Vec<(&str, bool)> = asked.iter().map(|(path, is_asked)| (path.as_str(), *is_asked)).collect();
    let expected =
        [("exactly-young", false), ("roughly-near", true), ("roughly-young", false), ("unknown", true)];
    let mut sorted = asked.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, expected);
}

#[test]
fn a_file_that_turns_out_not_to_be_meant_counts_as_left_out() {
    let max_age = Some(std::time::Duration::from_secs(1));
    let filter = Filter::new(&Rules { max_age, ..Rules::default() }).expect("rules");
    let mut here = Memory::default();
    let mut walk = Walk::new(Arc::new(Spec { filter, ..spec() }), &mut here);
    let entries = vec![Entry { modified_s: None, ..file("old", 1, 0) }];
    while let Next::Task(id, task) = walk.next(NOW) {
        let end = match task {
            Task::Pull(_) => End::Pulled(Fate::NotMeant),
            _ => End::Listed(Ok(listing(entries.clone()))),
        };
        walk.ended(id, end, NOW);
    }
    let found = walk.finish();
    let Counts { files, excluded, pulled, left, .. } = found.counts;
    assert_eq!((files, excluded, pulled, left, found.is_complete), (0, 1, 0, 0, true));
}

#[test]
fn a_large_folder_is_looked_at_in_small_steps() {
    let names: Vec<String> = (0..1_000).map(|n| format!("f{n:04}")).collect();
    let mut here = names.iter().fold(Memory::default(), |here, name| here.with(name, 1, 10));
    let mut walk = Walk::new(Arc::new(spec()), &mut here);
    let Next::Task(id, Task::List(_)) = walk.next(NOW) else { panic!("the root") };
    let entries = names.iter().map(|name| file(name, 1, 10)).collect();
    walk.ended(id, End::Listed(Ok(listing(entries))), NOW);
    let mut before = 0;
    loop {
        let next = walk.next(NOW);
        let looked = walk.found.counts.up_to_date;
        assert!(looked - before <= AT_ONCE as u64, "{looked} after {before}");
        before = looked;
        match next {
            Next::Again => {}
            Next::Done => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(before, 1_000);
}

// --- entries of unknown type ------------------------------------------------------------------------------------

/// A page that lists folders like files.
fn plain(names: &[&str]) -> PackedListing {
    PackedListing {
        marks_folders: false,
        ..listing(names.iter().map(|name| file(name, 1, 10).roughly()).collect())
    }
}

impl Entry {
    /// Index pages without a slash behind folders tell no zones either.
    fn roughly(self) -> Self {
        Self { modified_s: None, coarse_s: self.modified_s, ..self }
    }
}

fn plain_tree() -> There {
    There::from([
        ("", plain(&["a.gwf", "d", "z.txt"])),
        ("d", plain(&["b.gwf", "c.txt", "e"])),
        ("d/e", plain(&[])),
    ])
}

fn is_folder(path: &str) -> LinkTarget {
    if matches!(path, "d" | "d/e") { LinkTarget::Folder } else { LinkTarget::File(Version::default()) }
}

#[test]
fn a_folder_listed_like_a_file_is_visited_in_every_run() {
    let there = plain_tree();
    let mut here = Memory::default();
    let (asked, found) = walk(&spec(), &mut here, &there, &[]);
    assert_eq!(asked, ["/", "a.gwf", "d", "z.txt", "d/", "d/b.gwf", "d/c.txt", "d/e", "d/e/"]);
    let Counts { files, pulled, folders, failed, .. } = found.counts;
    assert_eq!((files, pulled, folders, failed, found.is_complete), (4, 4, 3, 0, true));
    assert_eq!(here.folders_made, ["d/e/"]);
    // The folders are here now: they are no conflict.
    for folder in ["d", "d/e"] {
        here.here.insert(folder.into(), (Here::Folder, None));
    }
    for path in ["a.gwf", "z.txt", "d/b.gwf", "d/c.txt"] {
        here = here.with(path, 1, 10);
    }
    let spec = Spec { compare: Compare::Size, ..spec() };
    let (asked, found) = walk_asking(&spec, &mut here, &there, &[], &is_folder);
    assert_eq!(asked, ["/", "d?", "d/", "d/e?", "d/e/"]);
    let Counts { files, up_to_date, failed, .. } = found.counts;
    assert_eq!((files, up_to_date, failed, found.is_complete), (4, 4, 0, true));
    assert!(found.seen.contains("d/e", EntryKind::Folder));
}

#[test]
fn a_name_that_the_filter_leaves_out_as_a_file_is_asked_for_as_a_folder() {
    let rules = Rules { include: vec!["*.gwf".into()], ..Rules::default() };
    let spec = Spec { filter: Filter::new(&rules).expect("a filter"), ..spec() };
    let mut here = Memory::default();
    let (asked, found) = walk_asking(&spec, &mut here, &plain_tree(), &[], &is_folder);
    assert_eq!(asked, ["/", "d?", "z.txt?", "a.gwf", "d/", "d/c.txt?", "d/e?", "d/b.gwf", "d/e/"]);
    let Counts { files, pulled, excluded, folders, .. } = found.counts;
    assert_eq!((files, pulled, excluded, folders, found.is_complete), (2, 2, 2, 3, true));
    assert_eq!(here.folders_made, Vec::<String>::new(), "an empty folder holds no *.gwf");
    let marked = There::from([("", listing(vec![file("z.txt", 1, 10).roughly()]))]);
    assert_eq!(walk(&spec, &mut Memory::default(), &marked, &[]).0, ["/"], "a page that marks folders");
}

#[test]
fn a_dry_run_asks_what_the_real_run_would_find_out() {
    let spec = Spec { dry_run: true, ..spec() };
    let (asked, _) = walk(&spec, &mut Memory::default(), &plain_tree(), &[]);
    assert_eq!(asked, ["/", "a.gwf", "d", "z.txt", "d/", "d/b.gwf", "d/c.txt", "d/e", "d/e/"]);
    let marked =
        There::from([("", listing(vec![file("a", 1, 10), Entry { size: None, ..file("b", 1, 10) }]))]);
    assert_eq!(walk(&spec, &mut Memory::default(), &marked, &[]).0, ["/", "b"]);
}

#[test]
fn a_folder_needs_no_room() {
    let spec = Spec { max_transfer: Some(3), ..spec() };
    let large = |name: &str| file(name, 4_096, 10).roughly();
    let root =
        PackedListing { marks_folders: false, ..listing(vec![file("a.gwf", 1, 10).roughly(), large("d")]) };
    let there = There::from([("", root), ("d", plain(&["b.gwf"]))]);
    let (_, found) = walk_asking(&spec, &mut Memory::default(), &there, &[], &is_folder);
    assert_eq!((found.counts.pulled, found.is_full), (2, false));
}

#[test]
fn a_quota_waits_for_files_that_may_be_up_to_date() {
    let spec = Arc::new(Spec { max_transfer: Some(100), ..spec() });
    let mut here = Memory::default().with("a", 60, 1).with("b", 60, 1);
    let mut walk = Walk::new(spec, &mut here);
    let Next::Task(id, Task::List(_)) = walk.next(NOW) else { panic!("no listing") };
    let entries = vec![coarse("a", 60, 0), coarse("b", 60, 0)];
    walk.ended(id, End::Listed(Ok(listing(entries))), NOW);
    for _ in 0..2 {
        let Next::Task(id, Task::Pull(_)) = walk.next(NOW) else { panic!("nothing asked") };
        assert!(matches!(walk.next(NOW), Next::Wait(None)));
        walk.ended(id, End::Pulled(Fate::UpToDate(None)), NOW);
    }
    assert!(matches!(walk.next(NOW), Next::Done));
    assert!(!walk.finish().is_full);
}

// --- symbolic links -----------------------------------------------------------------------------------------------

fn ftp_spec(links: Links) -> Spec {
    Spec { source: Address::parse("ftp://h/data/").expect("an address").0, links, ..spec() }
}

fn linked(entries: Vec<Entry>, links: &[(&str, Option<&str>)]) -> PackedListing {
    let link = |(link, target): &(&str, Option<&str>)| Link {
        name: name(link),
        target: target.map(|target| target.as_bytes().to_vec()),
    };
    PackedListing { links: links.iter().map(link).collect(), ..listing(entries) }
}

fn link_tree() -> There {
    let links = [
        ("broken", Some("nowhere")),
        ("file", Some("a")),
        ("folder", Some("d")),
        ("out", Some("../private")),
        ("passwd", Some("/etc/passwd")),
    ];
    There::from([
        ("", linked(vec![file("a", 1, 10), folder("d")], &links)),
        ("d", linked(vec![file("b", 1, 10)], &[("up", Some("..")), ("self", Some("."))])),
        ("folder", linked(vec![file("b", 1, 10)], &[("up", Some("..")), ("self", Some("."))])),
    ])
}

fn target_of(path: &str) -> LinkTarget {
    match path {
        "broken" => LinkTarget::Missing,
        "folder" => LinkTarget::Folder,
        "file" => LinkTarget::File(Version { size: Some(1), modified_s: Some(10), ..Version::default() }),
        other => panic!("{other} is not asked for"),
    }
}

#[test]
fn links_within_the_tree_are_followed_and_all_others_told() {
    let mut here = Memory::default();
    let (asked, found) = walk_asking(&ftp_spec(Links::Follow), &mut here, &link_tree(), &[], &target_of);
    assert_eq!(asked, ["/", "broken?", "file?", "folder?", "a", "file", "folder/", "folder/b", "d/", "d/b"]);
    let Counts { links, links_followed, links_skipped, links_broken, files, pulled, .. } = found.counts;
    assert_eq!((links, links_followed, links_skipped, links_broken), (9, 2, 6, 1));
    assert_eq!((files, pulled, found.is_complete), (4, 4, true));
    let told: Vec<String> = found.links.iter().map(ToString::to_string).collect();
    for expected in [
        "symbolic link out leads outside the tree: ../private",
        "symbolic link passwd leads outside the tree: /etc/passwd",
        "symbolic link d/up leads back to a folder above it: ..",
        "symbolic link folder/self leads back to a folder above it: .",
        "symbolic link broken leads nowhere: nowhere",
    ] {
        assert!(told.iter().any(|line| line == expected), "{expected}: {told:?}");
    }
    assert!(
        found.kept_links.contains("out", EntryKind::File) && found.seen.contains("out", EntryKind::Folder)
    );
    assert!(!found.kept_links.contains("file", EntryKind::File));
}

#[test]
fn links_are_skipped_or_fail_as_the_user_says() {
    let (asked, found) = walk(&ftp_spec(Links::Skip), &mut Memory::default(), &link_tree(), &[]);
    assert_eq!(asked, ["/", "a", "d/", "d/b"]);
    assert_eq!((found.counts.links, found.counts.links_skipped, found.is_complete), (7, 7, true));
    let (_, found) = walk(&ftp_spec(Links::Fail), &mut Memory::default(), &link_tree(), &[]);
    assert_eq!((found.counts.failed, found.counts.pulled, found.is_complete), (7, 2, false));
}

#[test]
fn links_that_the_filter_leaves_out_are_neither_asked_for_nor_counted() {
    let rules = Rules { exclude: vec!["*".into()], ..Rules::default() };
    let spec = Spec { filter: Filter::new(&rules).expect("a filter"), ..ftp_spec(Links::Fail) };
    let (asked, found) = walk(&spec, &mut Memory::default(), &link_tree(), &[]);
    assert_eq!((asked, found.counts.links, found.counts.failed), (vec!["/".to_owned()], 0, 0));
}

#[test]
fn links_without_a_stated_target_end_where_a_listing_comes_back() {
    // MLSD states no targets. Each folder links to the other one.
    let to = |link| linked(vec![file(link, 1, 10)], &[(link, None)]);
    let to = |link: &'static str, other: &str| PackedListing {
        entries: vec![file(other, 1, 10)].into(),
        ..to(link)
    };
    let mut there = There::from([("", listing(vec![folder("a"), folder("b")]))]);
    for (path, link) in [("a", "x"), ("a/x", "y"), ("a/x/y", "x"), ("b", "y"), ("b/y", "x"), ("b/y/x", "y")] {
        there.insert(path, to(link, if link == "x" { "in-a" } else { "in-b" }));
    }
    let answer = |_: &str| LinkTarget::Folder;
    let (asked, found) = walk_asking(&ftp_spec(Links::Follow), &mut Memory::default(), &there, &[], &answer);
    let listed = asked.iter().filter(|path| path.ends_with('/')).count();
    assert_eq!((listed, found.counts.pulled, found.counts.links_skipped), (7, 4, 2), "{asked:?}");
    assert!(found.is_complete);
}

#[test]
fn links_on_one_path_have_a_bound() {
    let mut here = Memory::default();
    let mut walk = Walk::new(Arc::new(ftp_spec(Links::Follow)), &mut here);
    let mut listed = 0;
    loop {
        let (id, end) = match walk.next(NOW) {
            Next::Task(id, Task::List(_)) => {
                listed += 1;
                // Every listing is another one, so no loop is recognised.
                let other = format!("x{listed}");
                (id, End::Listed(Ok(linked(Vec::new(), &[("l", None), (&other, None)]))))
            }
            Next::Task(id, Task::Resolve(address)) => {
                let is_chain = path_in(&address).ends_with('l');
                (id, End::Resolved(Ok(if is_chain { LinkTarget::Folder } else { LinkTarget::Missing })))
            }
            Next::Done => break,
            Next::Again => continue,
            other => panic!("{other:?}"),
        };
        walk.ended(id, end, NOW);
    }
    let found = walk.finish();
    assert_eq!((listed, found.counts.failed), (9, 1));
    assert!(found.troubles[0].what.to_string().contains("8 symbolic links"), "{:?}", found.troubles);
}

// --- empty folders ------------------------------------------------------------------------------------------------

#[test]
fn folders_that_are_empty_at_the_source_are_made_and_others_come_with_their_files() {
    let there = small_tree();
    let mut here = Memory::default();
    let (_, found) = walk(&spec(), &mut here, &there, &[]);
    assert_eq!(here.folders_made, ["d/f/"]);
    assert_eq!((found.counts.folders_made, found.folders_made), (1, vec!["d/f/".to_owned()]));
    for (exclude, include) in [("/d/f/**", ""), ("", "*.gwf")] {
        let some = |pattern: &str| (!pattern.is_empty()).then(|| pattern.to_owned()).into_iter().collect();
        let rules = Rules { exclude: some(exclude), include: some(include), ..Rules::default() };
        let spec = Spec { filter: Filter::new(&rules).expect("a filter"), ..spec() };
        let mut here = Memory::default();
        walk(&spec, &mut here, &there, &[]);
        assert_eq!(here.folders_made, Vec::<String>::new(), "{exclude} {include}");
    }
    let mut there = there;
    there.get_mut("d/f").expect("there").truncated = true;
    let mut here = Memory::default();
    walk(&spec(), &mut here, &there, &[]);
    assert_eq!(here.folders_made, Vec::<String>::new(), "a cut listing");
}
