//! Guards, and deletion on a real disk: never outside, never what is not ours.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;

use proptest::prelude::*;

use super::*;
use crate::fetch::Address;
use crate::jobs::filter::{Filter, Rules};
use crate::jobs::mirror::spec::{Compare, Links, Order};

fn spec(delete: Delete) -> Spec {
    Spec {
        source: Address::parse("http://h/data/").expect("an address").0,
        target: "/t".into(),
        filter: Filter::default(),
        compare: Compare::default(),
        order: Order::default(),
        delete: Some(delete),
        max_transfer: None,
        hidden: false,
        portable_names: false,
        links: Links::default(),
        dry_run: false,
    }
}

fn good() -> Facts {
    Facts {
        is_complete: true,
        root_entries: 5,
        files_there: 90,
        files_before: 100,
        files_here: 100,
        doomed: 10,
    }
}

#[test]
fn every_guard_refuses_what_it_is_for() {
    let (usual, told) =
        (Delete::default(), Delete { is_told: true, max: MaxDelete::Percent(100), ..Delete::default() });
    assert_eq!(allows(&usual, good()), Ok(()));
    let partial = Facts { is_complete: false, ..good() };
    let empty = Facts { root_entries: 0, files_there: 0, ..good() };
    for delete in [&usual, &told] {
        assert_eq!(allows(delete, partial), Err(Refusal::Incomplete));
        assert_eq!(allows(delete, Facts { doomed: 0, ..partial }), Err(Refusal::Incomplete));
        assert_eq!(allows(delete, empty), Err(Refusal::Empty));
        assert_eq!(allows(delete, Facts { doomed: 0, ..empty }), Ok(()), "nothing to refuse");
    }
    let much = Facts { doomed: 11, ..good() };
    assert!(matches!(allows(&usual, much), Err(Refusal::TooMany { doomed: 11, here: 100, .. })));
    assert_eq!(allows(&told, much), Ok(()));
    let shrunk = Facts { files_there: 49, ..good() };
    assert_eq!(allows(&usual, shrunk), Err(Refusal::Shrunk { before: 100, now: 49 }));
    assert_eq!(allows(&told, shrunk), Ok(()));
}

fn target() -> (tempfile::TempDir, Arc<Folder>) {
    let place = tempfile::tempdir().expect("a folder");
    fs::create_dir(place.path().join("t")).expect("made");
    let folder = Folder::open(&place.path().join("t"), false).expect("it opens");
    (place, Arc::new(folder))
}

fn write(root: &Path, path: &str) {
    let place = root.join(path);
    fs::create_dir_all(place.parent().expect("a folder")).expect("made");
    fs::write(place, path).expect("written");
}

fn survey(spec: &Spec, target: &Arc<Folder>, there: &[&str], known: &[&str]) -> Survey {
    let mut seen = Seen::default();
    for path in there {
        seen.insert(path, EntryKind::File);
        for (at, _) in path.match_indices('/') {
            seen.insert(&path[..at], EntryKind::Folder);
        }
    }
    let is_known = |path: &str| known.contains(&path);
    let links = Seen::default();
    let surveyor =
        Surveyor { spec, seen: &seen, left_out: &links, links: &links, is_known: &is_known, now_s: 0 };
    let mut survey = surveyor.survey(target).expect("a survey");
    // The source has none of the folders.
    let folders = survey.take_folders_to_ask_for();
    survey.add_folders(folders);
    survey
}

/// Removes, and compares with the plan.
fn remove(
    survey: &Survey,
    target: &Arc<Folder>,
    backup: Option<&Path>,
) -> (Vec<String>, Result<(), SinkError>) {
    let planned = survey.plan(target);
    let Removed { files, folders, error } = survey.remove(target, backup);
    if let (Ok(planned), None) = (planned, &error) {
        assert_eq!((planned.files, planned.folders), (files.clone(), folders));
    }
    (files, error.map_or(Ok(()), Err))
}

fn doomed(survey: &Survey) -> Vec<String> {
    survey.doomed.iter().map(Doomed::path).collect()
}

#[test]
fn only_what_a_mirror_could_have_made_is_doomed() {
    let (place, folder) = target();
    let root = place.path().join("t");
    for path in ["kept", "gone", "sub/gone", "x.stroll.part", ".mine", ".known", ".d/f", "left.txt"] {
        write(&root, path);
    }
    write(place.path(), "outside/precious");
    symlink("../outside", root.join("link")).expect("linked");
    let rules = Rules { exclude: vec!["*.txt".into()], ..Rules::default() };
    let mut spec = Spec { filter: Filter::new(&rules).expect("a filter"), ..spec(Delete::default()) };
    let found = survey(&spec, &folder, &["kept"], &[".known"]);
    assert_eq!(doomed(&found), ["gone", "sub/gone"]);
    assert_eq!(found.files_here, 4, "kept, gone, sub/gone and what is left out");
    spec.hidden = true;
    assert_eq!(doomed(&survey(&spec, &folder, &["kept"], &[".known"])), [".known", "gone", "sub/gone"]);
    spec.hidden = false;
    spec.delete = Some(Delete { excluded: true, ..Delete::default() });
    let found = survey(&spec, &folder, &["kept"], &[]);
    assert_eq!(doomed(&found), ["gone", "left.txt", "sub/gone"]);
    let (gone, result) = remove(&found, &folder, None);
    result.expect("removed");
    assert_eq!(gone, ["gone", "left.txt", "sub/gone"]);
    assert!(!root.join("sub").exists() && root.join("kept").exists() && root.join(".d/f").exists());
    assert!(place.path().join("outside/precious").exists() && root.join("link").is_symlink());
}

#[test]
fn a_folder_that_becomes_a_link_meanwhile_leads_nowhere() {
    let (place, folder) = target();
    let root = place.path().join("t");
    write(&root, "sub/f");
    write(place.path(), "outside/f");
    let found = survey(&spec(Delete::default()), &folder, &[], &[]);
    assert_eq!(doomed(&found), ["sub/f"]);
    fs::rename(root.join("sub"), place.path().join("moved")).expect("moved");
    symlink("../outside", root.join("sub")).expect("linked");
    let (gone, result) = remove(&found, &folder, None);
    assert!(gone.is_empty() && matches!(result, Err(SinkError::NotAFolder { link: true, .. })), "{result:?}");
    assert!(place.path().join("outside/f").exists() && place.path().join("moved/f").exists());
}

#[test]
fn what_is_moved_away_is_found_at_its_place_outside_the_target() {
    let (place, folder) = target();
    let root = place.path().join("t");
    write(&root, "a/b/f");
    let found = survey(&spec(Delete::default()), &folder, &[], &[]);
    for inside in [root.clone(), root.join("a/b"), root.join("new/deep")] {
        let (gone, result) = remove(&found, &folder, Some(&inside));
        assert!(gone.is_empty() && matches!(result, Err(SinkError::InsideTarget { .. })), "{result:?}");
    }
    let backup = place.path().join("backup");
    let (gone, result) = remove(&found, &folder, Some(&backup));
    result.expect("moved");
    assert_eq!(
        (gone.as_slice(), fs::read_to_string(backup.join("a/b/f")).ok()),
        (&["a/b/f".to_owned()][..], Some("a/b/f".into()))
    );
    assert!(!root.join("a").exists());
}

fn files(root: &Path, below: &str, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(root.join(below)).expect("a folder") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().into_string().expect("text");
        let path = if below.is_empty() { name } else { format!("{below}/{name}") };
        if entry.file_type().expect("a kind").is_dir() {
            files(root, &path, found);
        } else {
            found.insert(path);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_is_here_and_there_afterwards_the_rest_is_gone_and_nothing_else(
        here in proptest::collection::btree_set("[ab]/[cd]/[xy]|[ab]/x|f", 0..10),
        there in proptest::collection::btree_set("[ab]/[cd]/[xy]|[ab]/x|f", 0..10),
    ) {
        let (place, folder) = target();
        let root = place.path().join("t");
        write(place.path(), "beside/f");
        for path in &here {
            write(&root, path);
        }
        let there: Vec<&str> = there.iter().map(String::as_str).collect();
        let found = survey(&spec(Delete::default()), &folder, &there, &[]);
        let (gone, result) = remove(&found, &folder, None);
        prop_assert!(result.is_ok(), "{:?}", result);
        let mut left = BTreeSet::new();
        files(&root, "", &mut left);
        let expected: BTreeSet<String> = here.iter().filter(|path| there.contains(&path.as_str())).cloned().collect();
        prop_assert_eq!(&left, &expected);
        prop_assert_eq!(gone.len() + left.len(), here.len());
        prop_assert!(place.path().join("beside/f").exists());
    }
}

#[test]
fn a_folder_is_removed_unproven_only_if_it_held_a_file_that_would_go() {
    let (place, folder) = target();
    let root = place.path().join("t");
    write(&root, "held/f");
    fs::create_dir_all(root.join("empty/inner")).expect("made");
    fs::create_dir_all(root.join("now-a-file")).expect("made");
    let mut seen = Seen::default();
    seen.insert("now-a-file", EntryKind::File);
    let (spec, none) = (spec(Delete::default()), Seen::default());
    let is_known = |_: &str| true;
    let surveyor =
        Surveyor { spec: &spec, seen: &seen, left_out: &none, links: &none, is_known: &is_known, now_s: 0 };
    let mut survey = surveyor.survey(&folder).expect("a survey");
    let asked: Vec<String> =
        survey.take_folders_to_ask_for().iter().map(|below| path_of(below, "")).collect();
    assert_eq!(asked, ["empty/inner/", "empty/"]);
    let mut folders = survey.remove(&folder, None).folders;
    folders.sort();
    assert_eq!(folders, ["held/", "now-a-file/"]);
    assert!(root.join("empty/inner").is_dir());
}

#[test]
fn what_is_here_under_the_name_of_a_skipped_link_is_neither_counted_nor_removed() {
    let (place, folder) = target();
    for path in ["link/f", "gone"] {
        write(&place.path().join("t"), path);
    }
    let (spec, none, mut links) = (spec(Delete::default()), Seen::default(), Seen::default());
    links.insert("link", EntryKind::File);
    let is_known = |_: &str| true;
    let surveyor =
        Surveyor { spec: &spec, seen: &none, left_out: &none, links: &links, is_known: &is_known, now_s: 0 };
    let survey = surveyor.survey(&folder).expect("a survey");
    assert_eq!((doomed(&survey), survey.files_here), (vec!["gone".to_owned()], 1));
}
