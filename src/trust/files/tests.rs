//! Homes on a real file system.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::time::Duration;

use tempfile::TempDir;

use super::*;
use crate::trust::samples::{NOW_S, authority, charter, private_key};
use crate::trust::{EnrolRefusal, Invitation};

const SECRETS: [&str; 4] = [MEMBER_KEY, GATE_KEY, AUTHORITY_KEY, INVITATIONS];
const YEAR: Duration = Duration::from_secs(365 * 86_400);

fn credentials(seed: u8) -> Credentials {
    let authority = authority();
    let key = private_key(seed);
    let bans = authority.sign_bans(4, vec![9]).unwrap();
    let charter = authority.sign_charter(charter());
    Credentials {
        certificate: authority.issue(2, key.public(), "lab-a", NOW_S, NOW_S + 999).unwrap(),
        roll: Roll::new(Suite::Ed25519, authority.public(), charter, Some(bans)).unwrap(),
        gate: GateKey::from_bytes([0xb8; 32]),
        bootstrap: vec!["192.0.2.1:7433".parse().unwrap()],
        name: "lab-a".to_owned(),
        listen: "[::]:7433".parse().unwrap(),
        key,
    }
}

/// The founder's home, with every file that there can be.
fn founded() -> (TempDir, Home) {
    let folder = TempDir::new().unwrap();
    let home = Home::create(folder.path().join("circles/virgo")).unwrap();
    home.save_credentials(&credentials(0xa7)).unwrap();
    home.save_authority(&authority()).unwrap();
    home.update_ledger(|ledger| ledger.open(&invitation(), NOW_S)).unwrap().unwrap();
    home.save_directory(b"members").unwrap();
    (folder, home)
}

fn invitation() -> Invitation {
    let (gate, bootstrap) = (GateKey::from_bytes([0xb8; 32]), vec!["192.0.2.1:7433".parse().unwrap()]);
    Invitation::new(authority().public(), "virgo", "lab-b", gate, bootstrap, NOW_S + 9, [6; 32]).unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn load_all(home: &Home) -> Result<(), FileError> {
    home.load_credentials()?;
    home.load_authority()?;
    home.load_ledger()?;
    home.load_directory()?;
    Ok(())
}

#[test]
fn credentials_come_back_whole() {
    let (_folder, home) = founded();
    let home = Home::open(home.path()).unwrap();
    let (loaded, saved) = (home.load_credentials().unwrap(), credentials(0xa7));
    assert_eq!(loaded.key.seed(), saved.key.seed());
    assert_eq!((&loaded.certificate, &loaded.gate), (&saved.certificate, &saved.gate));
    assert_eq!((loaded.roll.charter(), loaded.roll.bans()), (saved.roll.charter(), saved.roll.bans()));
    assert_eq!((loaded.name, loaded.listen, loaded.bootstrap), (saved.name, saved.listen, saved.bootstrap));
    assert_eq!(home.load_authority().unwrap().unwrap().circle(), authority().circle());
    assert_eq!(home.load_directory().unwrap().unwrap(), b"members");
    assert!(home.is_complete());
}

#[test]
fn the_folder_is_0700_and_every_file_in_it_0600() {
    let (folder, home) = founded();
    assert_eq!(mode(home.path()), 0o700);
    assert_eq!(mode(&folder.path().join("circles")), 0o700);
    let files = fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    assert_eq!(files.len(), 10, "{files:?}");
    for path in files {
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

#[test]
fn a_folder_that_was_there_is_closed_if_empty_and_left_alone_if_not() {
    let folder = TempDir::new().unwrap();
    set_mode(folder.path(), 0o755);
    let home = Home::create(folder.path()).unwrap();
    assert_eq!(mode(folder.path()), 0o700);
    home.save_key(&private_key(1)).unwrap();
    assert!(matches!(Home::create(folder.path()), Err(FileError::NotEmpty { .. })));
}

#[test]
fn secrets_that_others_can_read_are_refused_with_the_cure() {
    for name in SECRETS {
        for wide in [0o640, 0o604, 0o620, 0o601] {
            let (_folder, home) = founded();
            let path = home.path().join(name);
            set_mode(&path, wide);
            let error = load_all(&home).unwrap_err().to_string();
            assert!(error.contains(&format!("chmod 600 {}", path.display())), "{error}");
            assert!(error.contains(&format!("{wide:04o}")), "{error}");
            set_mode(&path, 0o600);
            load_all(&home).unwrap();
        }
    }
}

#[test]
fn a_secret_that_is_closed_even_to_its_owner_is_not_too_open() {
    let (_folder, home) = founded();
    set_mode(&home.path().join(MEMBER_KEY), 0o400);
    load_all(&home).unwrap();
}

#[test]
fn a_folder_that_others_can_write_into_is_refused_with_the_cure() {
    let (_folder, home) = founded();
    for wide in [0o770, 0o702] {
        set_mode(home.path(), wide);
        let error = Home::open(home.path()).unwrap_err().to_string();
        assert!(error.contains(&format!("chmod 700 {}", home.path().display())), "{error}");
    }
}

#[test]
fn secrets_behind_symbolic_links_are_refused() {
    for name in SECRETS {
        let (folder, home) = founded();
        let (path, elsewhere) = (home.path().join(name), folder.path().join("elsewhere"));
        fs::rename(&path, &elsewhere).unwrap();
        symlink(&elsewhere, &path).unwrap();
        assert!(matches!(load_all(&home), Err(FileError::Symlink { path: found }) if found == path));
    }
}

#[test]
fn a_record_behind_a_symbolic_link_is_replaced_not_followed() {
    let (folder, home) = founded();
    let elsewhere = folder.path().join("elsewhere");
    fs::write(&elsewhere, "untouched").unwrap();
    fs::remove_file(home.path().join(DIRECTORY)).unwrap();
    symlink(&elsewhere, home.path().join(DIRECTORY)).unwrap();
    home.save_directory(b"new").unwrap();
    assert_eq!(fs::read_to_string(elsewhere).unwrap(), "untouched");
    assert_eq!(home.load_directory().unwrap().unwrap(), b"new");
}

#[test]
fn what_is_no_file_is_refused_without_waiting() {
    let (_folder, home) = founded();
    let path = home.path().join(CHARTER);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(matches!(load_all(&home), Err(FileError::NotAFile { .. })));
}

#[test]
fn a_home_that_is_missing_is_no_home() {
    let folder = TempDir::new().unwrap();
    let missing = folder.path().join("virgo");
    assert!(matches!(Home::open(&missing), Err(FileError::NotAHome { path }) if path == missing));
    fs::write(folder.path().join("file"), "").unwrap();
    assert!(matches!(Home::open(folder.path().join("file")), Err(FileError::NotAHome { .. })));
}

#[test]
fn every_missing_file_is_named_and_the_optional_ones_are_not_missed() {
    for name in [MEMBER_KEY, GATE_KEY, CERTIFICATE, CHARTER, FACTS] {
        let (_folder, home) = founded();
        fs::remove_file(home.path().join(name)).unwrap();
        let error = home.load_credentials().unwrap_err();
        assert!(matches!(&error, FileError::Missing { path } if path.ends_with(name)), "{error}");
    }
    let (_folder, home) = founded();
    for name in [BANS, AUTHORITY_KEY, INVITATIONS, DIRECTORY] {
        fs::remove_file(home.path().join(name)).unwrap();
    }
    load_all(&home).unwrap();
    assert_eq!(home.load_credentials().unwrap().roll.bans_version(), 0);
    assert!(home.load_authority().unwrap().is_none());
}

#[test]
fn a_damaged_file_is_named_and_its_content_is_not_shown() {
    for name in [MEMBER_KEY, GATE_KEY, CERTIFICATE, CHARTER, BANS, FACTS, INVITATIONS] {
        let (_folder, home) = founded();
        let path = home.path().join(name);
        let content = fs::read(&path).unwrap();
        fs::write(&path, &content[..content.len() - 9]).unwrap();
        let error = load_all(&home).unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(text.contains(name), "{text}");
        assert!(["0606", "u6t2p", "xc4lq"].iter().all(|secret| !text.contains(secret)), "{text}");
    }
}

/// What is wrong with the file: the error itself says only which one it is.
fn reason(error: &FileError) -> String {
    std::error::Error::source(error).unwrap().to_string()
}

#[test]
fn a_certificate_of_somebody_else_or_by_somebody_else_is_refused() {
    let (_folder, home) = founded();
    let other = authority().issue(3, private_key(8).public(), "lab-x", NOW_S, NOW_S + 9).unwrap();
    home.save_certificate(&other).unwrap();
    let error = reason(&home.load_credentials().unwrap_err());
    assert!(error.contains("another member"), "{error}");
    let forger = Authority::succeeding(private_key(66), authority().circle());
    let key = private_key(0xa7).public();
    home.save_certificate(&forger.issue(3, key, "lab-a", NOW_S, NOW_S + 9).unwrap()).unwrap();
    let error = reason(&home.load_credentials().unwrap_err());
    assert!(error.contains("signature"), "{error}");
}

#[test]
fn a_charter_or_ban_list_by_somebody_else_is_refused() {
    let forger = Authority::succeeding(private_key(66), authority().circle());
    let (_folder, home) = founded();
    home.save_bans(&forger.sign_bans(9, vec![]).unwrap()).unwrap();
    assert!(home.load_credentials().unwrap_err().to_string().contains("bans"));
    home.save_charter(&forger.sign_charter(charter())).unwrap();
    assert!(home.load_credentials().unwrap_err().to_string().contains("charter"));
}

#[test]
fn a_key_is_never_overwritten_by_another() {
    let (_folder, home) = founded();
    home.save_key(&private_key(0xa7)).unwrap();
    assert!(matches!(home.save_key(&private_key(9)), Err(FileError::WouldReplace { .. })));
    assert_eq!(home.load_key().unwrap().unwrap().seed(), &[0xa7; 32]);
    let other = Authority::new(private_key(9));
    assert!(matches!(home.save_authority(&other), Err(FileError::WouldReplace { .. })));
}

#[test]
fn an_authority_key_of_another_circle_is_refused_and_a_successors_is_not() {
    let (_folder, home) = founded();
    fs::remove_file(home.path().join(AUTHORITY_KEY)).unwrap();
    home.save_authority(&Authority::new(private_key(9))).unwrap();
    assert!(reason(&home.load_authority().unwrap_err()).contains("another circle"));
    home.save_succession(&authority().sign_succession(private_key(9).public()).unwrap()).unwrap();
    let successor = home.load_authority().unwrap().unwrap();
    assert_eq!((successor.circle(), successor.public()), (authority().circle(), private_key(9).public()));
}

#[test]
fn a_file_is_replaced_as_a_whole_and_a_crash_before_that_changes_nothing() {
    let (_folder, home) = founded();
    let path = home.path().join(DIRECTORY);
    let old = File::open(&path).unwrap();
    // What a crash in the middle of a write leaves behind.
    fs::write(home.path().join(".directory.new"), "half of wh").unwrap();
    assert_eq!(home.load_directory().unwrap().unwrap(), b"members");
    home.save_directory(b"more members").unwrap();
    assert_eq!(io::read_to_string(old).unwrap(), "members", "the old file was not written to");
    assert_eq!(home.load_directory().unwrap().unwrap(), b"more members");
    assert!(!home.path().join(".directory.new").exists());
    assert_eq!(mode(&path), 0o600);
}

#[test]
fn a_failed_write_leaves_the_old_file_and_no_rest() {
    let (_folder, home) = founded();
    // A folder cannot be replaced by a file.
    fs::remove_file(home.path().join(DIRECTORY)).unwrap();
    fs::create_dir(home.path().join(DIRECTORY)).unwrap();
    let error = home.save_directory(b"new").unwrap_err();
    assert!(matches!(&error, FileError::Io { verb: "write", path, .. } if path.ends_with(DIRECTORY)));
    assert!(!home.path().join(".directory.new").exists());
}

#[test]
fn an_invitation_is_used_once_however_many_ask_at_the_same_time() {
    let (_folder, home) = founded();
    let ask = |seed: u8| {
        let key = private_key(seed).public();
        let (id, mac) = (invitation().id, invitation().mac(&key));
        home.update_ledger(|ledger| ledger.redeem(&id, &key, &mac, NOW_S, &authority(), YEAR)).unwrap()
    };
    let answers = std::thread::scope(|scope| {
        let asking = (10..18).map(|seed| scope.spawn(move || ask(seed))).collect::<Vec<_>>();
        asking.into_iter().map(|one| one.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    assert_eq!(answers.iter().filter(|answer| **answer == Err(EnrolRefusal::AlreadyUsed)).count(), 7);
    assert_eq!(home.load_ledger().unwrap().certificates().len(), 1);
}

#[test]
fn credentials_print_without_their_secrets() {
    let text = format!("{:?}", credentials(0xa7));
    for secret in ["167, 167", "a7a7", "u6t2p", "184, 184", "b8b8"] {
        assert!(!text.to_lowercase().contains(secret), "{secret} in {text}");
    }
}

#[test]
fn the_key_file_is_text_and_only_the_key_file_holds_the_key() {
    let (_folder, home) = founded();
    let saved = to_text(Kind::KEY, &[0xa7; 32]);
    assert_eq!(fs::read_to_string(home.path().join(MEMBER_KEY)).unwrap(), format!("{saved}\n"));
    for entry in fs::read_dir(home.path()).unwrap() {
        let path = entry.unwrap().path();
        let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
        assert!(path.ends_with(MEMBER_KEY) || !text.contains(&saved[4..40]), "{}", path.display());
    }
}

#[test]
fn a_ring_is_begun_once_by_its_first_and_by_nobody_else() {
    let (_folder, home) = founded();
    assert!(!home.take_ring(1, false).unwrap(), "another member is its first");
    assert!(home.take_ring(1, true).unwrap());
    for _ in 0..2 {
        let home = Home::open(home.path()).unwrap();
        assert!(!home.take_ring(1, true).unwrap(), "not after a restart either");
    }
    assert!(!home.take_ring(2, false).unwrap());
    assert!(home.take_ring(2, true).unwrap(), "a new ring");
    assert!(!home.take_ring(1, true).unwrap(), "and the old one is over");
    assert_eq!(mode(&home.path().join(RING)), 0o600);
}

/// A member whose clock was ahead in its last life came with lower numbers in the next one.
#[test]
fn every_life_begins_above_the_one_before_whatever_the_clock_says() {
    let (_folder, home) = founded();
    let first = home.begin_life(1_000_000).unwrap();
    assert_eq!(first, 1_000_000);
    let home = Home::open(home.path()).unwrap();
    let second = home.begin_life(5).unwrap();
    assert!(second > first + (1 << 30), "{second}");
    home.keep_numbers(second + (1 << 50)).unwrap();
    assert!(home.begin_life(5).unwrap() > second + (1 << 50));
    home.keep_numbers(7).unwrap();
    let ahead = 1 << 60;
    assert_eq!(home.begin_life(ahead).unwrap(), ahead);
    fs::write(home.path().join("life"), "next = -1").unwrap();
    assert!(matches!(home.begin_life(5), Err(FileError::Toml { .. })));
}

#[test]
fn who_left_a_ring_last_may_begin_it_again_once() {
    let (_folder, home) = founded();
    home.keep_ring(3).unwrap();
    assert!(!home.take_ring(2, true).unwrap() && !home.take_ring(4, false).unwrap());
    assert!(home.take_ring(3, false).unwrap());
    assert!(!home.take_ring(3, false).unwrap() && !home.take_ring(3, true).unwrap());
}

#[test]
fn a_ring_file_that_is_damaged_begins_nothing() {
    let (_folder, home) = founded();
    fs::write(home.path().join(RING), "epoch = 1").unwrap();
    assert!(matches!(home.take_ring(2, true), Err(FileError::Toml { .. })));
}
