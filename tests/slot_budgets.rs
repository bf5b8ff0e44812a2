//! How much a job pulls in a slot: a limit on its rate is an average over the circle's period, and what a slot brings
//! follows the time between two slots. A giver of slots in this process, and a circle of real members that grows.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]
#![allow(clippy::disallowed_methods, reason = "these tests are about real sockets and members")]

#[path = "common/counting.rs"]
mod counting;
#[path = "common/desk.rs"]
mod desk;
#[path = "common/lab.rs"]
mod lab;
#[path = "common/operator.rs"]
mod operator;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use counting::Counting;
use desk::{Running, noise};
use lab::{Lab, found, join};
use operator::Operator;
use rustix::process::Signal;
use stroll::base::Time;
use stroll::fetch::limit::Limiter;
use stroll::fetch::{Address, Name, Options, Slot, tls};
use stroll::jobs::backoff::Patience;
use stroll::jobs::get::get;
use stroll::jobs::pull::{Alike, Config, To, Want};
use stroll::jobs::slots::{Giver, Rhythm, Slots, Turn};
use tokio::sync::watch;

/// How long anything may take on a busy machine before the test has failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// More than any of these tests pulls.
const ENDLESS: usize = 60_000_000;

fn config(state: &Path) -> Config {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let no_trust = builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth();
    let tls = tls::client_config(None).unwrap_or_else(|_| Arc::new(no_trust));
    Config {
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
        idle_grace: PATIENCE,
        state: state.to_owned(),
        dry_run: false,
        seed: 1,
    }
}

/// Gives slots of this length, one every period, in which another member waits or not. What each brought, and how long
/// it was kept.
async fn give(
    giver: &Giver,
    count: usize,
    length: Duration,
    period: Duration,
    is_wanted: bool,
) -> Vec<(u64, Duration)> {
    let epoch = Instant::now();
    let (_told, wanted) = watch::channel(is_wanted);
    let mut visits = Vec::new();
    for visit in 0..count {
        let now = epoch.elapsed();
        let (_order, stop) = watch::channel(false);
        let clock = Arc::new(move || Time::ZERO + epoch.elapsed());
        let slot = Slot::until(Time::ZERO + now + length, clock, stop).wanted_when(wanted.clone());
        let interval = (visit > 0).then_some(period);
        let (turn, ended) = Turn::new(slot);
        let turn = turn.at_rhythm(Rhythm { interval, since_last: interval });
        giver.turns.send(turn).await.unwrap();
        let brought = ended.await.unwrap();
        visits.push((brought, epoch.elapsed().saturating_sub(now)));
        tokio::time::sleep((now + period).saturating_sub(epoch.elapsed())).await;
    }
    visits
}

/// A job that pulls an endless file at this rate on average, in the slots that it is given.
async fn pull_at<T>(rate: u64, give: impl AsyncFnOnce(&Giver) -> T) -> T {
    let folder = tempfile::tempdir().unwrap();
    let source = Counting::start(noise(60, ENDLESS), 1e9, 0);
    let want = Want {
        known_etag: None,
        address: Address::parse(&source.url("f")).unwrap().0,
        to: To::File { root: folder.path().join("pulled"), below: Vec::new(), name: Name::new("f").unwrap() },
        expected: None,
        ask_first: true,
        changed_within: None,
    };
    let (mut slots, giver) = Slots::given();
    let (stop, order) = watch::channel(false);
    let config = config(&folder.path().join("state"));
    let limiter = Limiter::new(Some(rate));
    let pulling = async { get(vec![want], &config, &mut slots, &limiter, &order, &()).await };
    let giving = async {
        let visits = give(&giver).await;
        stop.send_replace(true);
        drop(giver);
        visits
    };
    tokio::join!(pulling, giving).1
}

/// A limit that held at any moment gave a tenth of it.
#[tokio::test]
async fn a_limited_job_reaches_its_limit_in_one_slot_of_ten_and_lets_go_early() {
    const RATE: u64 = 400_000;
    let (length, period) = (Duration::from_millis(300), Duration::from_secs(3));
    let begun = Instant::now();
    let given = pull_at(RATE, async |giver| give(giver, 7, length, period, true).await).await;
    let all: u64 = given.iter().map(|(bytes, _)| bytes).sum();
    println!("{given:?}");
    assert!(
        all as f64 <= RATE as f64 * begun.elapsed().as_secs_f64() + 100_000.0,
        "more than the limit: {given:?}"
    );
    // The first two find out what there is to know. A slot that a busy machine delays is made up for by the next one.
    let usual = given[2..].iter().map(|(bytes, _)| *bytes as f64).sum::<f64>() / (given.len() - 2) as f64;
    let at_limit = RATE as f64 * period.as_secs_f64();
    assert!(usual > 0.7 * at_limit, "{usual} bytes a slot, {at_limit} at the limit: {given:?}");
    let kept = given[2..].iter().map(|(_, kept)| *kept).min().unwrap();
    assert!(kept < length, "it never let go before its slot's end: {given:?}");
}

#[tokio::test]
async fn a_limited_job_keeps_its_slots_as_long_as_nobody_waits() {
    let (length, period) = (Duration::from_millis(400), Duration::from_millis(800));
    let given = pull_at(400_000, async |giver| give(giver, 6, length, period, false).await).await;
    let kept = given[2..].iter().map(|(_, kept)| *kept).max().unwrap();
    assert!(kept >= length.mul_f64(0.5), "{given:?}");
}

const SLOTS: &[&str] = &["--slot", "1s", "--skip", "50ms", "--capacity", "8"];

/// What the next slot of a command brought.
fn next_slot(get: &mut Running) -> f64 {
    get.wait_for("slot_ended")["bytes"].as_f64().unwrap()
}

/// The mean of the last three slots.
fn lately(slots: &[f64]) -> f64 {
    let last = &slots[slots.len().saturating_sub(3)..];
    last.iter().sum::<f64>() / last.len().max(1) as f64
}

/// A command borrows slots of a member. With as many members again that want every slot, its slots come half as often, and
/// each has to bring twice as much. What counts is the ratio: a busy machine makes all intervals longer.
#[test]
fn twice_the_members_make_slots_of_a_limited_command_bring_twice_as_much() {
    let folder = tempfile::tempdir().unwrap();
    let source = Counting::start(noise(61, ENDLESS), 1e9, 0);
    let mut labs: Vec<Lab> = (0..4).map(|n| Lab::new(folder.path(), &format!("lab-{n}"))).collect();
    found(&labs[0], &source.source(), SLOTS);
    labs[0].run_with(&[]);
    let (founder, others) = labs.split_first_mut().unwrap();
    for lab in others.iter() {
        join(founder, lab);
    }
    others[0].run();
    others[0].wait_until("was served", |lab| lab.counter("slots") >= 1);
    let mut command = founder.stroll(&["get", &source.url("f"), "--bwlimit", "200k", "--progress", "json"]);
    let target = format!("{}/", folder.path().join("pulled").display());
    command.arg("--state").arg(folder.path().join("state")).args(["-o", &target]);
    let mut get = Running::start(command);
    let mut slots: Vec<f64> = (0..8).map(|_| next_slot(&mut get)).collect();
    let before = lately(&slots);
    assert!(before > 0.0, "{slots:?}");
    for lab in &mut others[1..] {
        lab.run();
    }
    // The interval is a mean of the last three, so this takes a slot or two.
    get.wait_for_words("token returns every");
    let (begun, mut after) = (Instant::now(), before);
    while after < 1.6 * before {
        assert!(begun.elapsed() < PATIENCE, "{before} bytes a slot before, {after} after: {slots:?}");
        slots.push(next_slot(&mut get));
        after = lately(&slots);
    }
    println!("{before} bytes a slot before, {after} after");
    get.signal(Signal::INT);
    get.end();
}

#[test]
fn status_metrics_and_log_tell_budget_and_bytes_of_a_slot_and_why_the_budget_changed() {
    // On a busy machine the time between slots may change by more than the limit does.
    let is_reason = |text: &str| {
        text.contains("budget ")
            && (text.contains(": limit 512 KB/s, was 205 KB/s") || text.contains(": token returns every "))
    };
    let source = Counting::start(noise(62, ENDLESS), 1e9, 0);
    let mut operator = Operator::new(&source.source(), SLOTS);
    let (url, to) = (source.url("f"), operator.quoted("f"));
    operator.set(&format!(
        "[transfer]\nbwlimit = \"200k\"\n[run]\npage = \"127.0.0.1:0\"\n[[subscribe]]\nname = \"frames\"\nurl = {url:?}\n\
         to = {to}\nfollow = true\nsince = \"all\"\npoll = \"1s\"\n"
    ));
    operator.run(&[]);
    operator.wait_until("has a budget", |operator| {
        let job = operator.job("frames").unwrap_or_default();
        // The limit's, and not yet what is known of a slot without one.
        job["interval_s"].is_number() && job["slots"].as_u64() > Some(2)
    });
    operator.lab.succeeds(&["bwlimit", "500k"]);
    operator.wait_until("has another budget for a reason", |operator| {
        let job = operator.job("frames").unwrap_or_default();
        let reasons = job["chunk_changes"].as_array().cloned().unwrap_or_default();
        reasons.iter().any(|reason| reason.as_str().is_some_and(is_reason))
    });
    operator.wait_until("carries what it should", |operator| {
        let job = operator.job("frames").unwrap_or_default();
        let (budget, carried) = (job["budget_bytes"].as_f64(), job["last_slot_bytes"].as_f64());
        budget.zip(carried).is_some_and(|(budget, carried)| carried > 0.5 * budget && carried < 2.0 * budget)
    });
    let said = operator.lab.succeeds(&["status"]);
    assert!(said.contains(" per slot, the last carried ") && said.lines().any(is_reason), "{said}");
    for metric in ["slot_budget_bytes", "slot_carried_bytes", "job_interval_seconds"] {
        let value = operator.metric(&format!("stroll_{metric}{{job=\"frames\"}}"));
        assert!(value.is_some_and(|value| value > 0.0), "{metric}: {value:?}");
    }
    let log = operator.log();
    let is_told = |line: &str| is_reason(line) && line.contains("frames");
    assert!(log.lines().any(is_told), "{log}");
}
