//! `stroll circle` and `stroll join`, by spawning the binary: what a user and a script see, and what is left on disk.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use assert_cmd::assert::Assert;
use predicates::prelude::*;
use predicates::str::{contains, is_empty};
use serde_json::Value;
use stroll::trust::{GateKey, Home, Invitation};
use tempfile::TempDir;

const SOURCE: &str = "ftp://ftp.example.org/stream/";

/// Nobody is there: the port of `discard`.
const NOWHERE: &str = "127.0.0.1:9";

/// The homes of one lab, away from everything else of whoever runs the tests.
struct Lab {
    folder: TempDir,
}

impl Lab {
    fn new() -> Self {
        Self { folder: TempDir::new().expect("a folder can be made") }
    }

    /// A lab that has created the circle `virgo`.
    fn founder() -> Self {
        let lab = Self::new();
        lab.create(&[]).success();
        lab
    }

    fn stroll(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stroll"));
        command.env_clear().env("HOME", "/nonexistent").env("XDG_CONFIG_HOME", "/nonexistent");
        command.env("STROLL_HOME", self.root()).args(args);
        command
    }

    fn run(&self, args: &[&str]) -> Assert {
        self.stroll(args).assert()
    }

    fn create(&self, more: &[&str]) -> Assert {
        let usual =
            ["circle", "create", "virgo", "--source", SOURCE, "--listen", NOWHERE, "--member", "lab-a"];
        self.run(&[&usual, more].concat())
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("circles")
    }

    fn home(&self) -> Home {
        Home::open(self.root().join("virgo")).expect("it is a home")
    }

    fn stdout(&self, args: &[&str]) -> String {
        text(&self.run(args).success().get_output().stdout)
    }

    fn show(&self) -> Value {
        serde_json::from_str(&self.stdout(&["circle", "show", "--json"])).expect("it is one object")
    }

    fn members(&self) -> Vec<Value> {
        let lines = self.stdout(&["circle", "members", "--json"]);
        lines.lines().map(|line| serde_json::from_str(line).expect("every line is an object")).collect()
    }

    /// Writes a file for another lab, and gives its path.
    fn file(&self, name: &str, content: &str) -> String {
        let path = self.folder.path().join(name);
        fs::write(&path, content).expect("it can be written");
        path.to_str().expect("it is text").to_owned()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("it is text")
}

fn now_s() -> u64 {
    std::time::SystemTime::UNIX_EPOCH.elapsed().expect("it is after 1970").as_secs()
}

/// The invitation in the command that was printed.
fn invitation(printed: &str) -> Invitation {
    let line = printed.strip_suffix('\n').expect("it is a line");
    let text = line.strip_prefix("stroll join ").expect("it is a command");
    Invitation::parse(text, now_s()).expect("it is an invitation")
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).expect("it exists").permissions().mode() & 0o7777
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = fs::read_dir(folder)
        .expect("it is a folder")
        .map(|entry| entry.expect("it is there").path())
        .collect();
    found.sort();
    found
}

#[test]
fn create_makes_a_circle_and_says_what_comes_next() {
    let lab = Lab::new();
    let words = [
        "Circle virgo is created",
        SOURCE,
        "lab-a, at 127.0.0.1:9",
        "certificate 1 until 20",
        "stroll run\n",
    ];
    let mut made = lab.create(&["--slot", "5s", "--bandwidth", "2Mi"]).success().stdout(is_empty());
    for word in words {
        made = made.stderr(contains(word));
    }
    made.stderr(contains("stroll circle invite lab-b\n"));
    let shown = lab.show();
    assert_eq!((&shown["name"], &shown["member"]["name"]), (&"virgo".into(), &"lab-a".into()));
    let charter = &shown["charter"];
    assert_eq!((&charter["version"], &charter["source"]), (&1.into(), &SOURCE.into()));
    assert_eq!((&charter["slot_s"], &charter["skip_s"]), (&5.0.into(), &0.1.into()));
    assert_eq!((&charter["bandwidth_bytes_per_sec"], &charter["capacity"]), (&2_097_152.into(), &300.into()));
    assert_eq!((&charter["rules"], &charter["scouts"]), (&"guarded".into(), &8.into()));
    assert_eq!((&shown["has_authority_key"], &shown["member"]["serial"]), (&true.into(), &1.into()));
    assert_eq!((&shown["member"]["state"], &shown["member"]["address"]), (&"valid".into(), &NOWHERE.into()));
    let until_s = shown["member"]["not_after_s"].as_u64().expect("a time");
    assert!(until_s.abs_diff(now_s() + 365 * 86_400) < 60, "a year");
}

#[test]
fn show_says_it_to_people_too() {
    let lab = Lab::founder();
    let shown = lab.stdout(&["circle", "show"]);
    let home = lab.root().join("virgo");
    for word in
        ["version 1", SOURCE, "4s", "300 members", "guarded", "lab-a", "good from 20", home.to_str().unwrap()]
    {
        assert!(shown.contains(word), "{word} is not in\n{shown}");
    }
    let fingerprint = lab.show()["authority"].as_str().expect("text").to_owned();
    assert!(shown.replace(' ', "").contains(&fingerprint), "{fingerprint} is not in\n{shown}");
}

#[test]
fn everything_is_closed_to_others() {
    let lab = Lab::founder();
    let home = lab.root().join("virgo");
    assert_eq!((mode(&lab.root()), mode(&home)), (0o700, 0o700));
    let files = files(&home);
    assert!(files.len() > 7, "{files:?}");
    for file in files {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

#[test]
fn a_circle_is_never_created_over_another() {
    let lab = Lab::founder();
    let before = lab.show();
    lab.create(&[]).code(2).stderr(contains("there is a circle virgo here already"));
    assert_eq!(lab.show(), before);
    assert_eq!(files(&lab.root()).len(), 1, "nothing is left over");
}

/// The README creates its circle with tickets without saying where others reach the member.
#[test]
fn a_member_that_listens_everywhere_is_reached_where_it_reaches_the_source() {
    let lab = Lab::new();
    let source = ["circle", "create", "virgo", "--source", "ftp://127.0.0.1:2121/"];
    let tickets = ["--mode", "tickets", "--tickets", "5", "--faults", "2"];
    lab.run(&[&source[..], &tickets].concat())
        .success()
        .stderr(contains("127.0.0.1:7433").and(contains("this computer only")).and(contains("--address")));
    assert_eq!(lab.show()["member"]["address"], "127.0.0.1:7433");
}

#[test]
fn nonsense_is_refused_by_the_name_of_its_field_and_leaves_nothing() {
    let lab = Lab::new();
    for (args, field) in [
        (&["--slot", "0"][..], "slot: "),
        (&["--slot", "1.5ms", "--skip", "1ms"], "slot: "),
        (&["--skip", "10s"], "skip: "),
        (&["--capacity", "0"], "capacity: "),
        (&["--scouts", "0"], "--scouts"),
        (&["--bandwidth", "fast"], "--bandwidth"),
        (&["--address", "0.0.0.0:7433"], "address: "),
        (&["--valid", "0"], "certificate: "),
    ] {
        lab.create(args).code(2).stderr(contains(field));
    }
    let create = |name, source, listen, member| {
        lab.run(&["circle", "create", name, "--source", source, "--listen", listen, "--member", member])
    };
    create("virgo", "example.org", NOWHERE, "lab-a").code(2).stderr(contains("source: "));
    create("../virgo", SOURCE, NOWHERE, "lab-a").code(2).stderr(contains("NAME: "));
    create("virgo", SOURCE, NOWHERE, "lab/a").code(2).stderr(contains("certificate: "));
    create("virgo", SOURCE, "127.0.0.1", "lab-a").code(2).stderr(contains("such as 0.0.0.0:7433"));
    create("virgo", "ftp://no-such-host.invalid/", "0.0.0.0:7433", "lab-a")
        .code(2)
        .stderr(contains("address: ").and(contains("--address")));
    assert!(!lab.root().exists());
}

#[test]
fn an_invitation_is_one_command_alone_on_stdout() {
    let lab = Lab::founder();
    let made = lab.run(&["circle", "invite", "lab-b", "--expires", "2h"]).success();
    let made = made.stderr(contains("Send this to lab-b by a private channel; it works once, until 20"));
    let invitation = invitation(&text(&made.get_output().stdout));
    assert_eq!((invitation.circle_name.as_str(), invitation.name.as_str()), ("virgo", "lab-b"));
    assert_eq!(invitation.bootstrap, [NOWHERE.parse().unwrap()]);
    assert!(invitation.expires_s.abs_diff(now_s() + 7200) < 60);
    assert_eq!(invitation.circle(), lab.home().load_credentials().unwrap().roll.circle());
    let ledger = lab.home().load_ledger().unwrap();
    assert!(ledger.invitations().iter().any(|one| one.id == invitation.id), "it is remembered");
    assert_eq!(lab.members()[1]["state"], "invited");
}

#[test]
fn inviting_again_replaces_the_invitation() {
    let lab = Lab::founder();
    let first = invitation(&lab.stdout(&["circle", "invite", "lab-b"]));
    let again = lab.run(&["circle", "invite", "lab-b"]).success().stderr(contains("no longer works"));
    let second = invitation(&text(&again.get_output().stdout));
    let ids: Vec<_> = lab.home().load_ledger().unwrap().invitations().iter().map(|one| one.id).collect();
    assert_eq!(ids, [second.id]);
    assert_ne!(first.id, second.id);
}

#[test]
fn a_name_that_somebody_bears_is_not_given_again() {
    let lab = Lab::founder();
    lab.run(&["circle", "invite", "lab-a"]).code(2).stderr(contains("the name lab-a is taken"));
    let other = Lab::new();
    let request = other.stdout(&["join", "--request", "virgo", "--member", "lab-a"]);
    let signed = || lab.stroll(&["circle", "sign", "-"]);
    signed().write_stdin(request.clone()).assert().code(2).stderr(contains("the name lab-a is taken"));
    signed().args(["--member", "lab-b"]).write_stdin(request).assert().success();
    assert_eq!(lab.members()[1]["name"], "lab-b");
}

#[test]
fn only_the_authority_lets_others_in() {
    let (founder, member) = joined_by_files(&[]);
    for args in [
        &["circle", "invite", "lab-c"][..],
        &["circle", "ban", "lab-a"],
        &["circle", "amend", "--slot", "5s"],
    ] {
        member.run(args).code(1).stderr(contains("the authority's key of virgo is not here"));
    }
    let rows = member.members();
    assert_eq!((rows.len(), &rows[0]["name"]), (1, &"lab-b".into()));
    assert_eq!(founder.members().len(), 2);
}

#[test]
fn a_ban_is_a_new_version_and_takes_every_certificate_of_a_member() {
    let (lab, _) = joined_by_files(&[]);
    lab.run(&["circle", "ban", "lab-b"]).success().stderr(contains("version 1").and(contains("stroll run")));
    assert_eq!(lab.show()["bans"]["serials"], Value::from(vec![2]));
    assert_eq!(lab.members()[1]["state"], "banned");
    lab.run(&["circle", "ban", "2"]).success().stderr(contains("banned already"));
    assert_eq!(lab.show()["bans"]["version"], 1);
    lab.run(&["circle", "ban", "lab-z"]).code(2).stderr(contains("circle members"));
    lab.run(&["circle", "ban", "17"]).code(2);
    lab.run(&["circle", "ban", "lab-a"]).code(1).stderr(contains("this member itself"));
    lab.run(&["circle", "invite", "lab-b"]).success();
    lab.run(&["circle", "ban", "lab-b"]).success().stderr(contains("withdrawn"));
    assert!(lab.home().load_ledger().unwrap().invitations().is_empty());
}

#[test]
fn amending_makes_the_next_version_of_the_charter() {
    let lab = Lab::founder();
    let amend = |args: &[&str]| lab.run(&[&["circle", "amend"], args].concat());
    amend(&["--slot", "6s", "--rules", "classic"]).success().stderr(contains("version 2"));
    amend(&["--source", "https://example.org/data/"]).success().stderr(contains("version 3"));
    let charter = &lab.show()["charter"];
    assert_eq!((&charter["version"], &charter["slot_s"]), (&3.into(), &6.0.into()));
    assert_eq!((&charter["rules"], &charter["capacity"]), (&"classic".into(), &300.into()));
    assert_eq!(charter["source"], "https://example.org/data/");
    amend(&[]).code(2).stderr(contains("nothing was changed"));
    amend(&["--slot", "50ms"]).code(2).stderr(contains("skip: "));
    assert_eq!(lab.show()["charter"]["version"], 3);
}

#[test]
fn a_circle_with_tickets_is_created_shown_and_gets_a_new_ring() {
    let (lab, _) = joined_by_files(&["--mode", "tickets", "--tickets", "5"]);
    let (charter, member) = (lab.show()["charter"].clone(), lab.show()["member"].clone());
    assert_eq!((&charter["mode"], &charter["tickets"]), (&"tickets".into(), &5.into()));
    assert_eq!((&charter["faults"], &charter["epoch"]), (&2.into(), &1.into()));
    assert_eq!(charter["first"], member["id"], "who creates the circle begins its ring");
    assert!(lab.stdout(&["circle", "show"]).contains("tickets 5, faults 2, ring 1"));

    let amend = |args: &[&str]| lab.run(&[&["circle", "amend"], args].concat());
    let ring = || {
        let charter = &lab.show()["charter"];
        ["tickets", "faults", "epoch"].map(|field| charter[field].as_u64().expect("a number"))
    };
    amend(&["--slot", "5s"]).success().stderr(contains("Ring").not());
    assert_eq!(ring(), [5, 2, 1], "the ring has nothing to do with it");
    amend(&["--tickets", "5"]).code(2).stderr(contains("nothing was changed"));
    amend(&["--tickets", "6", "--faults", "1"]).success().stderr(contains("Ring 2 begins at lab-a"));
    assert_eq!(ring(), [6, 1, 2], "members of one ring go by the same numbers");
    amend(&["--new-ring", "--first", "lab-b"]).success().stderr(contains("Ring 3 begins at lab-b"));
    assert_eq!(ring(), [6, 1, 3]);
    assert_ne!(lab.show()["charter"]["first"], member["id"]);

    amend(&["--first", "lab-a"]).code(2).stderr(contains("--new-ring"));
    amend(&["--new-ring", "--first", "lab-z"]).code(2).stderr(contains("nobody called lab-z"));
    lab.run(&["circle", "ban", "lab-b"]).success();
    amend(&["--new-ring"]).code(2).stderr(contains("name another with --first"));
    assert_eq!(ring(), [6, 1, 3]);
    amend(&["--new-ring", "--first", "lab-a"]).success().stderr(contains("Ring 4 begins at lab-a"));
}

#[test]
fn tickets_are_for_circles_with_tickets() {
    let lab = Lab::new();
    for (args, word) in [
        (&["--tickets", "5"][..], "--mode tickets"),
        (&["--faults", "2"], "--mode tickets"),
        (&["--mode", "tickets"], "--tickets 5"),
        (&["--mode", "tickets", "--tickets", "0"], "--tickets"),
        (&["--mode", "tickets", "--tickets", "1001"], "--tickets"),
        (&["--mode", "tickets", "--tickets", "5", "--faults", "5"], "--faults"),
    ] {
        lab.create(args).code(2).stderr(contains(word));
    }
    lab.create(&[]).success();
    let charter = lab.show()["charter"].clone();
    assert_eq!((&charter["mode"], &charter["tickets"]), (&"token".into(), &Value::Null));
    for args in [&["--tickets", "5"][..], &["--faults", "1"], &["--new-ring"]] {
        lab.run(&[&["circle", "amend"], args].concat()).code(2).stderr(contains("a circle keeps its mode"));
    }
    assert_eq!(lab.show()["charter"], charter);
}

/// A founder, and a member that joined without any network.
fn joined_by_files(more: &[&str]) -> (Lab, Lab) {
    let (founder, member) = (Lab::new(), Lab::new());
    founder.create(more).success();
    let request = member.stdout(&["join", "--request", "virgo", "--member", "lab-b"]);
    let signed = founder.stdout(&["circle", "sign", &founder.file("lab-b.req", &request)]);
    let answer = member.file("lab-b.crt", &signed);
    let joined = member.run(&["join", &answer, "--listen", "127.0.0.1:7434"]).success().stdout(is_empty());
    joined
        .stderr(contains("lab-b is now a member of virgo").and(contains("stroll run\n")))
        .stderr(contains("✓ authority matches   ✓ key made here, never sent   ✓ certificate until 20"));
    (founder, member)
}

#[test]
fn a_lab_joins_without_any_network() {
    let (founder, member) = joined_by_files(&[]);
    let (theirs, ours) = (founder.show(), member.show());
    assert_eq!((&theirs["authority"], &theirs["charter"]), (&ours["authority"], &ours["charter"]));
    assert_eq!((&ours["member"]["serial"], &ours["has_authority_key"]), (&2.into(), &false.into()));
    assert_eq!((&ours["member"]["name"], &ours["member"]["state"]), (&"lab-b".into(), &"valid".into()));
    assert_eq!(ours["member"]["bootstrap"], Value::from(vec![NOWHERE]));
    assert_eq!(ours["member"]["listen"], "127.0.0.1:7434");
    let (theirs, ours) =
        (founder.home().load_credentials().unwrap(), member.home().load_credentials().unwrap());
    assert_eq!(theirs.gate, ours.gate);
    for file in files(member.home().path()) {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

#[test]
fn where_to_listen_is_said_with_the_answer_and_a_request_reminds_of_it() {
    let member = Lab::new();
    let ask = |flags: &[&str]| member.run(&[&["join", "--request", "virgo"], flags].concat()).success();
    ask(&[]).stderr(contains("--listen").not());
    ask(&["--listen", "127.0.0.1:7434", "--address", "lab-b.example.org:7434"])
        .stderr(contains("stroll join FILE --listen 127.0.0.1:7434 --address lab-b.example.org:7434"));
}

#[test]
fn a_request_and_its_answer_can_be_made_again() {
    let (founder, member) = (Lab::founder(), Lab::new());
    let ask = || member.stdout(&["join", "--request", "virgo", "--member", "lab-b"]);
    let request = ask();
    assert_eq!(ask(), request, "the key is made once");
    let sign = || founder.stdout(&["circle", "sign", request.trim()]);
    let answer = sign();
    assert_eq!(sign(), answer, "the certificate is issued once");
    member.run(&["join", answer.trim()]).success();
    member.run(&["join", answer.trim()]).success();
    assert_eq!(founder.members().len(), 2);
}

#[test]
fn an_answer_is_for_the_lab_that_asked() {
    let (founder, member, other) = (Lab::founder(), Lab::new(), Lab::new());
    let request = member.stdout(&["join", "--request", "virgo", "--member", "lab-b"]);
    let answer = founder.stdout(&["circle", "sign", request.trim()]);
    other.run(&["join", "--request", "virgo", "--member", "lab-c"]).success();
    other.run(&["join", answer.trim()]).code(1).stderr(contains("where the request was made"));
    other.run(&["circle", "show"]).code(2).stderr(
        contains("there is no circle").and(contains("joining virgo was begun; give the signed answer")),
    );
    other.run(&["circle", "show", "--circle", "virgo"]).code(1).stderr(contains("not completed"));
}

#[test]
fn nobody_answers() {
    let (founder, lab) = (Lab::founder(), Lab::new());
    let command = founder.stdout(&["circle", "invite", "lab-b"]);
    let file = lab.file("invitation.txt", &command);
    let join = || lab.run(&["join", &file, "--timeout", "300ms"]);
    join()
        .code(13)
        .stdout(is_empty())
        .stderr(contains("nobody answered at 127.0.0.1:9 within 300ms"))
        .stderr(
            contains("founder's member running")
                .and(contains("UDP port"))
                .and(contains("same command again")),
        );
    let key = fs::read(lab.root().join("virgo/member.key")).expect("the key was saved before it was used");
    join().code(13);
    assert_eq!(fs::read(lab.root().join("virgo/member.key")).unwrap(), key, "and is used again");
    lab.run(&["circle", "show"]).code(2).stderr(contains("there is no circle"));
}

#[test]
fn invitations_are_read_from_stdin_and_said_to_be_what_is_wrong_with_them() {
    let (founder, lab) = (Lab::founder(), Lab::new());
    let command = founder.stdout(&["circle", "invite", "lab-b"]);
    let line = command.trim().strip_prefix("stroll join ").expect("it is a command");
    let join = |text: &str| lab.run(&["join", text, "--timeout", "100ms"]);
    join(&line[..line.len() - 7]).code(2).stderr(contains("damaged or incomplete"));
    join(&line.replace("st1-", "st2-")).code(2).stderr(contains("newer stroll"));
    join("nonsense").code(4).stderr(contains("nonsense: no such file"));
    join(&lab.file("empty", "")).code(2).stderr(contains("not an invitation"));
    join(&expired()).code(2).stderr(contains("it has expired; ask for a new one"));
    assert!(!lab.root().exists(), "nothing was begun");
    lab.stroll(&["join", "-", "--timeout", "100ms"]).write_stdin(command.as_str()).assert().code(13);
    lab.run(&["join"]).code(2).stderr(contains("Usage:"));
}

fn expired() -> String {
    let (gate, bootstrap) = (GateKey::from_bytes([7; 32]), vec![NOWHERE.parse().expect("an address")]);
    let invitation = Invitation::new([1; 32], "virgo", "lab-b", gate, bootstrap, now_s() - 3600, [9; 32]);
    invitation.expect("it was good once").to_text().to_string()
}

#[test]
fn a_name_that_another_circle_has_here_is_taken() {
    let (founder, lab) = (Lab::founder(), Lab::founder());
    let line = founder.stdout(&["circle", "invite", "lab-b"]);
    let file = lab.file("invitation.txt", &line);
    lab.run(&["join", &file])
        .code(2)
        .stderr(contains("the name virgo is taken here").and(contains("--circle")));
    lab.run(&["join", &file, "--circle", "theirs", "--timeout", "100ms"]).code(13);
}

#[test]
fn a_member_that_joins_again_is_told_that_it_is_one() {
    let lab = Lab::founder();
    let line = lab.stdout(&["circle", "invite", "lab-b"]);
    let file = lab.file("invitation.txt", &line);
    lab.run(&["join", &file]).success().stderr(contains("lab-a is a member of virgo already"));
}

#[test]
fn with_several_circles_the_commands_want_to_know_which() {
    let lab = Lab::founder();
    let more = ["circle", "create", "lyra", "--source", SOURCE, "--listen", NOWHERE, "--member", "lab-a"];
    lab.run(&more).success().stderr(contains("stroll circle invite lab-b --circle lyra\n"));
    lab.run(&["circle", "show"]).code(2).stderr(contains("several here (lyra, virgo)"));
    lab.run(&["circle", "show", "--circle", "lyra"]).success().stdout(contains("lyra"));
    lab.stroll(&["circle", "show"])
        .env("STROLL_CIRCLE", "virgo")
        .assert()
        .success()
        .stdout(contains("virgo"));
    lab.run(&["circle", "show", "--circle", "orion"]).code(2).stderr(contains("there are lyra, virgo"));
}

#[test]
fn changes_made_at_once_each_get_a_version_of_their_own() {
    let lab = Lab::founder();
    // The scope waits for all of them, and fails if one does.
    std::thread::scope(|scope| {
        for capacity in 10..18 {
            let lab = &lab;
            scope.spawn(move || lab.stdout(&["circle", "amend", "--capacity", &capacity.to_string()]));
        }
    });
    assert_eq!(lab.show()["charter"]["version"], 9, "no change was lost");
}

#[test]
fn what_is_wrong_with_a_file_is_said_once() {
    let lab = Lab::founder();
    fs::write(lab.root().join("virgo/charter"), "nonsense\n").expect("it can be written");
    let said = text(&lab.run(&["circle", "show"]).failure().get_output().stderr);
    assert!(said.contains("charter"), "{said}");
    let last = said.trim_end().rsplit(": ").next().expect("a reason").to_owned();
    assert_eq!(said.matches(&last).count(), 1, "{said}");
}
