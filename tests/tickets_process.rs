//! A circle that goes by tickets, as real processes around a real FTP server that lets in as many as there are tickets and
//! not one more: it never has to send anybody away, not even while members are killed and come back.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]
#![allow(clippy::disallowed_methods, reason = "these tests are about real time")]

#[path = "common/desk.rs"]
mod desk;
#[path = "common/ftpd.rs"]
mod ftpd;
#[path = "common/lab.rs"]
mod lab;
#[path = "common/turnstile.rs"]
mod turnstile;

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use desk::noise;
use ftpd::{Ftpd, Kind, Tls};
use lab::{Lab, found, join};
use turnstile::Turnstile;

const MEMBERS: usize = 12;
const TICKETS: u32 = 4;

/// How many are killed at once: as many as the circle is made for.
const FAULTS: usize = 2;

/// How long anything may take on a busy machine before the test has failed.
const PATIENCE: Duration = Duration::from_secs(240);

/// Members around a server, each with a replica of its tree.
struct Scene {
    // Ended before the server and the folder go.
    labs: Vec<Lab>,
    door: Turnstile,
    server: Ftpd,
    folder: tempfile::TempDir,
    /// What the server has.
    files: Vec<(String, Vec<u8>)>,
}

impl Scene {
    /// All members run; each pulls no faster than this.
    fn new(bwlimit: &str, files: usize, bytes: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = Ftpd::with(Kind::Vsftpd, Tls::Off, Some(TICKETS));
        let door = Turnstile::before(server.port);
        let labs = (0..MEMBERS).map(|n| Lab::new(folder.path(), &format!("lab-{n}"))).collect();
        let mut scene = Self { labs, door, server, folder, files: Vec::new() };
        scene.publish(files, bytes);
        scene.settle(bwlimit);
        scene.found();
        scene
    }

    /// Writes everybody's settings.
    fn settle(&self, bwlimit: &str) {
        let password = self.folder.path().join("password");
        fs::write(&password, "right\n").unwrap();
        fs::set_permissions(&password, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        for lab in &self.labs {
            let text = format!(
                "[transfer]\nuser = \"anonymous\"\npassword_file = {password:?}\nbwlimit = {bwlimit:?}\n\
                 [[mirror]]\nname = \"tree\"\nurl = \"{}\"\nto = {:?}\nevery = \"1s\"\n",
                self.url(),
                self.replica(lab),
            );
            fs::write(self.settings(lab), text).unwrap();
        }
    }

    fn found(&mut self) {
        let (tickets, faults, url) = (TICKETS.to_string(), FAULTS.to_string(), self.url());
        let constants = ["--mode", "tickets", "--tickets", &tickets, "--faults", &faults, "--slot", "1s"];
        found(&self.labs[0], &url, &constants);
        self.run(0);
        for n in 1..MEMBERS {
            join(&self.labs[0], &self.labs[n]);
            self.run(n);
        }
    }

    fn url(&self) -> String {
        format!("ftp://{}/tree/", self.door.at)
    }

    fn settings(&self, lab: &Lab) -> PathBuf {
        self.folder.path().join(format!("{}.toml", lab.name))
    }

    fn replica(&self, lab: &Lab) -> PathBuf {
        self.folder.path().join("replicas").join(&lab.name)
    }

    fn run(&mut self, member: usize) {
        let settings = self.settings(&self.labs[member]);
        self.labs[member].run_with(&["--config", settings.to_str().unwrap()]);
    }

    /// The server has so many files more.
    fn publish(&mut self, count: usize, bytes: usize) {
        for _ in 0..count {
            let number = self.files.len();
            let (name, content) = (format!("f-{number:04}"), noise(number as u64 + 1, bytes));
            self.server.put(&format!("tree/{name}"), &content, 1_000_000 + number as u64);
            self.files.push((name, content));
        }
    }

    fn is_whole(&self, lab: &Lab) -> bool {
        let replica = self.replica(lab);
        self.files.iter().all(|(name, _)| replica.join(name).exists())
    }

    #[track_caller]
    fn wait_until(&self, what: &str, is_so: impl Fn(&Self) -> bool) -> Duration {
        let begun = Instant::now();
        while !is_so(self) {
            assert!(begun.elapsed() < PATIENCE, "never: {what}\n{}", self.logs());
            thread::sleep(Duration::from_millis(10));
        }
        begun.elapsed()
    }

    /// Those who pull at this moment.
    fn pulling(&self) -> Vec<usize> {
        let pulls = |lab: &Lab| lab.glance().is_some_and(|status| status["state"] == "run");
        (0..MEMBERS).filter(|n| pulls(&self.labs[*n])).collect()
    }

    /// Kills as many as may fail at once, while they pull.
    fn kill_some(&mut self) -> Vec<usize> {
        let mut doomed = Vec::new();
        let begun = Instant::now();
        while doomed.len() < FAULTS {
            assert!(begun.elapsed() < PATIENCE, "never {FAULTS} at once\n{}", self.logs());
            doomed = self.pulling();
        }
        doomed.truncate(FAULTS);
        for n in &doomed {
            self.labs[*n].signal("KILL");
        }
        for n in &doomed {
            self.labs[*n].kill();
        }
        self.wait_until("the killed are outside", |scene| scene.door.inside() + FAULTS <= TICKETS as usize);
        doomed
    }

    #[track_caller]
    fn everybody_has_everything(&self) {
        self.wait_until("everybody has everything", |scene| scene.labs.iter().all(|lab| scene.is_whole(lab)));
        for lab in &self.labs {
            for (name, content) in &self.files {
                let path = self.replica(lab).join(name);
                assert!(fs::read(&path).unwrap() == *content, "{}: {name} differs", lab.name);
            }
        }
    }

    #[track_caller]
    fn nobody_was_sent_away(&self) {
        assert_eq!(self.door.refusals(), Vec::<String>::new(), "{}", self.logs());
        let most = self.door.most();
        assert!(most <= TICKETS as usize, "{most} at once\n{}", self.logs());
    }

    fn logs(&self) -> String {
        self.labs.iter().map(|lab| format!("--- {}\n{}", lab.name, lab.log_text())).collect()
    }
}

#[test]
fn a_server_for_four_refuses_none_of_twelve_and_two_of_them_may_be_killed() {
    let mut scene = Scene::new("300k", 10, 200_000);
    let killed = scene.kill_some();
    scene.publish(1, 200_000);
    scene.wait_until("the tickets of the killed are in use", |scene| scene.door.inside() == TICKETS as usize);
    for n in killed {
        scene.run(n);
    }
    scene.everybody_has_everything();
    scene.nobody_was_sent_away();
    assert_eq!(scene.door.most(), TICKETS as usize, "all tickets were in use at once");
}

/// The same for `STROLL_TICKETS_MINUTES` (ten, if unset), with more to pull than can be pulled, two kills a minute, and
/// figures.
#[test]
#[ignore = "takes ten minutes"]
fn for_a_long_time() {
    let minutes = std::env::var("STROLL_TICKETS_MINUTES").map_or(10.0, |text| text.parse().unwrap());
    let mut scene = Scene::new("100k", 10, 40_000);
    let (begun, span) = (Instant::now(), Duration::from_secs_f64(60.0 * minutes));
    let mut until_used = Vec::new();
    while begun.elapsed() < span {
        publish_for(&mut scene, Duration::from_secs(15));
        let killed = scene.kill_some();
        until_used.push(
            scene.wait_until("all tickets are in use", |scene| scene.door.inside() == TICKETS as usize),
        );
        publish_for(&mut scene, Duration::from_secs(15));
        for n in killed {
            scene.run(n);
        }
    }
    let slots: Vec<usize> = scene.labs.iter().map(Lab::slots_in_log).collect();
    println!("{:.1} minutes, {} connections", begun.elapsed().as_secs_f64() / 60.0, scene.door.came());
    println!("at once at most {}, refusals {}", scene.door.most(), scene.door.refusals().len());
    println!("slots per member {slots:?}");
    println!("until the tickets of the killed were in use again {until_used:.1?}");
    scene.everybody_has_everything();
    scene.nobody_was_sent_away();
}

/// A file a second: a little more than all tickets together can carry.
fn publish_for(scene: &mut Scene, span: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < span {
        scene.publish(1, 40_000);
        thread::sleep(Duration::from_secs(1));
    }
}
