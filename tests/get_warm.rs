//! A job that is told that its turn may come in a moment opens its connection before, asks nothing on it, and begins its
//! turn with it. A source that counts sees all of it.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]
#![allow(clippy::disallowed_methods, reason = "these tests are about real sockets")]

#[path = "common/counting.rs"]
mod counting;
#[path = "common/desk.rs"]
mod desk;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use counting::Counting;
use desk::noise;
use stroll::fetch::limit::Limiter;
use stroll::fetch::{Address, Name, Options, Slot, tls};
use stroll::jobs::backoff::Patience;
use stroll::jobs::get::get;
use stroll::jobs::pull::{Alike, Config, Fate, To, Totals, Want};
use stroll::jobs::slots::{Giver, Slots, Turn};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How long anything may take on a busy machine before the test has failed.
const PATIENCE: Duration = Duration::from_secs(60);

const NEVER: Duration = Duration::from_secs(3_600);

/// A job that pulls one file in the turns that it is given.
struct Job {
    giver: Giver,
    running: JoinHandle<(Vec<Fate>, Totals)>,
    _stop: watch::Sender<bool>,
}

fn start(folder: &Path, source: &Counting, idle_grace: Duration) -> Job {
    let tls = tls::client_config(None).unwrap_or_else(|_| no_trust());
    let config = Config {
        alike: Alike::default(),
        options: Arc::new(Options::new(tls)),
        connections: 1,
        patience: Patience::default(),
        min_speed: 0,
        sums: false,
        resume: true,
        times: true,
        sha256: false,
        chunk: None,
        idle_grace,
        state: folder.join("state"),
        dry_run: false,
        seed: 1,
    };
    let want = Want {
        known_etag: None,
        address: Address::parse(&source.url("f")).unwrap().0,
        to: To::File { root: folder.join("pulled"), below: Vec::new(), name: Name::new("f").unwrap() },
        expected: None,
        ask_first: true,
        changed_within: None,
    };
    let (mut slots, giver) = Slots::given();
    let (stop, order) = watch::channel(false);
    let running =
        tokio::spawn(
            async move { get(vec![want], &config, &mut slots, &Limiter::new(None), &order, &()).await },
        );
    Job { giver, running, _stop: stop }
}

/// For a machine without certificates.
fn no_trust() -> Arc<rustls::ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    Arc::new(builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth())
}

impl Job {
    /// The job hears it only once it waits, so it is said until something is so.
    async fn say_soon_until(&self, what: &str, is_so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < PATIENCE, "never: {what}");
            self.giver.soon.send_replace(());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// A turn that lasts for as long as it is wanted.
    async fn pulls_all(self) {
        let (_order, stop) = watch::channel(false);
        self.giver.turns.send(Turn::new(Slot::eternal(stop)).0).await.unwrap();
        let (fates, _) = self.running.await.unwrap();
        assert!(matches!(fates.as_slice(), [Fate::Pulled { .. }]), "{fates:?}");
    }
}

async fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_connection_is_open_before_the_turn_and_the_turn_begins_with_it() {
    let (folder, bytes) = (tempfile::tempdir().unwrap(), noise(50, 200_000));
    let source = Counting::start(bytes.clone(), 1e9, 0);
    let job = start(folder.path(), &source, NEVER);
    job.say_soon_until("a connection", || source.connections() == 1).await;
    // Said again and again it is still the same one.
    for _ in 0..10 {
        job.giver.soon.send_replace(());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!((source.connections(), source.requests()), (1, 0), "it asks before its turn");
    job.pulls_all().await;
    assert!(std::fs::read(folder.path().join("pulled/f")).unwrap() == bytes);
    assert_eq!(source.connections(), 1, "the turn did not begin with the connection that was open");
    assert!(source.requests() >= 1);
}

#[tokio::test]
async fn a_connection_for_a_turn_that_does_not_come_is_closed_after_its_grace() {
    let (folder, bytes) = (tempfile::tempdir().unwrap(), noise(51, 200_000));
    let source = Counting::start(bytes.clone(), 1e9, 0);
    let job = start(folder.path(), &source, Duration::from_millis(200));
    job.say_soon_until("a connection", || source.connections() >= 1).await;
    wait_until("closed", || source.open_connections() == 0).await;
    assert_eq!(source.requests(), 0, "nothing was ever asked");
    let before = source.connections();
    job.say_soon_until("another connection", || source.connections() > before).await;
    job.pulls_all().await;
    assert!(std::fs::read(folder.path().join("pulled/f")).unwrap() == bytes);
}

#[tokio::test]
async fn without_a_sign_the_first_connection_is_opened_in_the_turn() {
    let (folder, bytes) = (tempfile::tempdir().unwrap(), noise(52, 200_000));
    let source = Counting::start(bytes, 1e9, 0);
    let job = start(folder.path(), &source, NEVER);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(source.connections(), 0, "nobody said that a turn may come");
    job.pulls_all().await;
    assert_eq!(source.connections(), 1);
}
