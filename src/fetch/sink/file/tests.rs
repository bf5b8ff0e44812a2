//! Failures of the disk that can be had without one that is full: devices in place of the file.

use super::*;

fn folder() -> (tempfile::TempDir, Arc<Folder>) {
    let place = tempfile::tempdir().expect("a folder");
    let folder = Folder::open(place.path(), false).expect("it opens");
    (place, Arc::new(folder))
}

fn name() -> Name {
    Name::new("x").expect("a name")
}

/// A part whose bytes go to a device instead.
fn part_on(device: &str) -> (tempfile::TempDir, PartFile) {
    let (place, folder) = folder();
    let mut part = PartFile::open(folder, name(), None).expect("it opens");
    part.file = File::options().read(true).write(true).open(device).expect("the device is there");
    (place, part)
}

#[test]
fn a_full_disk_is_told_at_once_and_to_everybody_after() {
    let (_place, part) = part_on("/dev/full");
    assert!(part.check().is_ok());
    part.write(0, b"bytes");
    for _ in 0..2 {
        assert!(matches!(part.check(), Err(SinkError::DiskFull { .. })));
    }
    part.write(5, b"more");
    assert!(part.written().is_empty());
    assert!(matches!(part.checkpoint(), Err(SinkError::DiskFull { .. })));
}

#[test]
fn what_was_written_before_the_disk_was_full_is_remembered() {
    let (place, folder) = folder();
    let journal = || Some(JournalPlace::for_file(&place.path().join("state"), &place.path().join("x")));
    let mut part = PartFile::open(Arc::clone(&folder), name(), journal()).expect("it opens");
    part.set_version(Version { size: Some(10), ..Version::default() });
    part.write(0, b"bytes");
    let whole =
        std::mem::replace(&mut part.file, File::options().write(true).open("/dev/full").expect("there"));
    part.write(5, b"more!");
    part.file = whole;
    assert!(matches!(part.checkpoint(), Err(SinkError::DiskFull { .. })));
    drop(part);
    let part = PartFile::open(folder, name(), journal()).expect("it opens");
    assert_eq!(part.written().bytes(), 5);
    assert_eq!(&part.tail(64).expect("read")[..], b"bytes");
}

#[test]
fn after_a_failed_sync_nothing_is_remembered_any_more() {
    let (place, folder) = folder();
    let journal = || Some(JournalPlace::for_file(&place.path().join("state"), &place.path().join("x")));
    let part = PartFile::open(Arc::clone(&folder), name(), journal()).expect("it opens");
    part.set_version(Version::default());
    part.write(0, b"safe");
    part.checkpoint().expect("remembered");
    part.write(4, b"lost");
    assert!(part.synced(Err(Errno::IO)).is_err());
    // The kernel reports such a failure once, and calls the next sync a success.
    assert!(matches!(part.checkpoint(), Err(SinkError::Io { source: Errno::IO, .. })));
    drop(part);
    let part = PartFile::open(folder, name(), journal()).expect("it opens");
    assert_eq!(part.written().bytes(), 4);
}

#[test]
fn where_space_cannot_be_reserved_the_pull_goes_on() {
    for device in ["/dev/full", "/dev/null"] {
        let file = File::options().write(true).open(device).expect("the device is there");
        let refused = fs::fallocate(&file, fs::FallocateFlags::KEEP_SIZE, 0, 4096);
        assert!(refused.is_err(), "{device} can reserve, so this tests nothing");
        assert_eq!(crate::fetch::sink::space::reserve(&file, 0, 4096), Ok(()));
    }
}

#[test]
fn more_than_the_disk_has_is_refused_before_the_first_byte() {
    let (place, folder) = folder();
    let part = PartFile::open(folder, name(), None).expect("it opens");
    let refused = part.reserve(1 << 60);
    assert!(matches!(refused, Err(SinkError::DiskFull { needed: Some(_), .. })), "{refused:?}");
    part.reserve(3 << 20).expect("there is room for that");
    assert_eq!(std::fs::metadata(place.path().join("x.stroll.part")).expect("there").len(), 0);
}

#[test]
fn digests_are_made_along_only_as_long_as_bytes_come_in_order() {
    let (_place, folder) = folder();
    let part = PartFile::open(folder, name(), None).expect("it opens");
    part.hash_along(vec![Algorithm::Sha256]);
    part.write(0, b"ab");
    part.write(2, b"c");
    assert!(part.take_along(4).is_empty(), "not all bytes are there");
    assert_eq!(part.take_along(3).len(), 1);
    part.restart().expect("restarted");
    part.write(1, b"bc");
    part.write(0, b"a");
    assert!(part.take_along(3).is_empty());
}

/// Where a file system does not tell when a file was made, a new file with the old one's number looks like the old one.
#[test]
fn a_part_that_somebody_removed_is_forgotten_before_a_new_one_is_written() {
    let (place, folder) = folder();
    let journal = || JournalPlace::for_file(&place.path().join("state"), &place.path().join("x"));
    let part = PartFile::open(Arc::clone(&folder), name(), Some(journal())).expect("it opens");
    part.set_version(Version::default());
    part.write(0, b"bytes");
    part.checkpoint().expect("remembered");
    drop(part);
    assert!(journal().load().expect("read").is_some());
    std::fs::remove_file(place.path().join("x.stroll.part")).expect("removed");
    drop(PartFile::open(folder, name(), Some(journal())).expect("it opens"));
    assert_eq!(journal().load().expect("read"), None);
}
