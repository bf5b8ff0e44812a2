//! What a member costs that has nothing to do: a real `stroll run` in a circle of 300.
//!
//! `cargo bench --bench idle` lets the other 299 live in this process: whole nodes with real signatures, each with its own
//! socket on loopback, slots of 4 s. Twice a minute or more of it: once nobody has anything to pull, so that the token
//! rests 0.1 s at a time and passes all day; once everybody else has.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot run says so and ends")]

#[path = "../tests/common/lab.rs"]
mod lab;

use std::fs;
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use stroll::driver::{self, BootClock, Handle};
use stroll::node::{self, Command, Event, Identity, Node};
use stroll::proto::directory;
use stroll::trust::{Credentials, Home, PrivateKey, Suite};
use tokio::net::UdpSocket;
use tokio::time::sleep;

use lab::Lab;

const OTHERS: u16 = 299;
const WARM_UP: Duration = Duration::from_secs(20);
const SPAN: Duration = Duration::from_secs(60);
const CONSTANTS: &[&str] = &["--slot", "4s", "--skip", "100ms", "--capacity", "300"];

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let mut lab = Lab::new(folder.path(), "idle");
    let listen = lab.listen();
    let mut create =
        vec!["circle", "create", "virgo", "--source", "ftp://127.0.0.1/stream/", "--listen", &listen];
    create.extend(CONSTANTS);
    lab.succeeds(&create);
    lab.process = Some(lab.stroll(&["run"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    lab.wait_until("runs", |lab| lab.status().is_some());
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(measure(&lab));
}

async fn measure(lab: &Lab) {
    let others = populate(lab).await;
    println!("an idle member of a circle of {}; {} s each", OTHERS + 1, SPAN.as_secs());
    println!(
        "{:28} {:>10} {:>7} {:>7} {:>7} {:>9} {:>9}",
        "", "memory MB", "core %", "known", "visits", "accepted", "sent"
    );
    for (name, wants_work) in [("nobody has anything to pull", false), ("all others have", true)] {
        for handle in &others {
            handle.command(Command::Work(wants_work)).await.unwrap();
        }
        sleep(WARM_UP).await;
        let (cpu, before) = (cpu_seconds(lab.pid()), counters(lab));
        sleep(SPAN).await;
        let (cpu, after) = (cpu_seconds(lab.pid()) - cpu, counters(lab));
        println!(
            "{name:28} {:>10.1} {:>7.3} {:>7} {:>7} {:>9} {:>9}",
            resident_kib(lab.pid()) as f64 * 1024.0 / 1e6,
            100.0 * cpu / SPAN.as_secs_f64(),
            after[0],
            after[1] - before[1],
            after[2] - before[2],
            after[3] - before[3],
        );
    }
}

/// Members known; visits, datagrams let in and datagrams sent so far.
fn counters(lab: &Lab) -> [u64; 4] {
    let status = lab.glance().unwrap();
    let count = |name: &str| status["counters"][name].as_u64().unwrap_or(0);
    let known = status["members"].as_array().map_or(0, Vec::len);
    [known as u64, count("visits"), count("datagrams_accepted"), count("datagrams_sent")]
}

/// The others, all running, with one of each other and the lab to begin with.
async fn populate(lab: &Lab) -> Vec<Handle> {
    let home = Home::open(lab.home.join("virgo")).unwrap();
    let authority = home.load_authority().unwrap().unwrap();
    let mut others: Vec<Handle> = Vec::new();
    for number in 0..OTHERS {
        let Credentials { roll, gate, .. } = home.load_credentials().unwrap();
        let mut seed = [1; 32];
        seed[..2].copy_from_slice(&number.to_be_bytes());
        let key = PrivateKey::from_seed(Suite::Ed25519, seed);
        let name = format!("lab-{number}");
        let certificate =
            authority.issue(1_000 + u64::from(number), key.public(), &name, 1, 9_000_000_000).unwrap();
        let handle = start(Identity { key, certificate, roll, gate }, number).await;
        let friends = [lab.local, others.last().map_or(lab.local, Handle::address)];
        for address in friends {
            handle.command(Command::Greet { address }).await.unwrap();
        }
        others.push(handle);
        // Everybody answers only so many strangers a second.
        sleep(Duration::from_millis(30)).await;
    }
    others
}

async fn start(identity: Identity, number: u16) -> Handle {
    let socket = UdpSocket::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let clock = BootClock::new();
    let config = node::Config {
        address: socket.local_addr().unwrap(),
        sequence: 1,
        boot_secret: driver::random_bytes().unwrap(),
        wall_offset_ms: clock.wall_offset_ms(),
        seed: number.into(),
        directory: directory::Config::default(),
    };
    let node = Node::new(identity, config, clock.now()).unwrap();
    let (handle, _) = driver::spawn(node, socket, clock).unwrap();
    let (pull, mut events) = (handle.clone(), handle.events());
    tokio::spawn(async move {
        while let Ok((_, event)) = events.recv().await {
            if event == Event::StopSlot {
                let _ = pull.command(Command::SlotStopped).await;
            }
        }
    });
    handle
}

fn cpu_seconds(pid: u32) -> f64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let nanos = |task: fs::DirEntry| -> f64 {
        let text = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0.0)
    };
    tasks.map_while(Result::ok).map(nanos).sum::<f64>() / 1e9
}

fn resident_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
