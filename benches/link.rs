//! How well a circle uses its source's link: ten `stroll get` processes with slots of 1 s on a link of 200 Mbit/s and 20 ms.
//!
//! ```text
//!   namespace of the labs                                  namespace of the source
//!   ten labs ── TCP ── delay 10 ms each way ── veth ── tbf 200 Mbit/s ── nginx
//!       └─ UDP among themselves, 10 ms each way
//! ```
//!
//! `cargo bench --bench link` needs root, for network namespaces. The circle and a single curl take turns on the same path.
//! This kernel has no netem, so a relay delays: bytes by 10 ms each way, and the first ones of a connection by 20 ms more,
//! as its set-up would. It notes when requests went up and answers came down at the source's end of the delay, from which
//! everything printed is computed. What it does not show: slow start over a real 20 ms, and lost packets.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot run says so and ends")]

#[path = "common/delay.rs"]
mod delay;
#[path = "../tests/common/lab.rs"]
mod lab;
#[path = "../tests/common/relay.rs"]
mod relay;

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use delay::{Delay, Use};
use lab::{Lab, join};
use relay::{Faults, Relay};

const MEMBERS: usize = 10;
const ONE_WAY: Duration = Duration::from_millis(10);
const RATE: &str = "200mbit";
const CONSTANTS: &[&str] = &["--slot", "1s", "--skip", "20ms", "--capacity", "10"];
/// So long after the last lab has joined everybody has had a few slots.
const WARM_UP: Duration = Duration::from_secs(25);
const SPAN: Duration = Duration::from_secs(60);
const CURL_SPAN: Duration = Duration::from_secs(20);
const ROUNDS: usize = 2;
const SOURCE: &str = "192.0.2.1:8080";
const FILE_BYTES: u64 = 2 << 30;

fn main() {
    if !rustix::process::geteuid().is_root() {
        println!("this benchmark needs root, for network namespaces");
        return;
    }
    if std::env::args().any(|word| word == "inside") {
        inside();
        return;
    }
    let wire = Wire::new();
    let folder = tempfile::tempdir().unwrap();
    let _nginx = Nginx::start(folder.path(), &wire.source);
    let program = std::env::current_exe().unwrap();
    let status = in_namespace(&wire.labs, program.to_str().unwrap()).arg("inside").status().unwrap();
    assert!(status.success());
}

/// What is done in the labs' namespace.
fn inside() {
    let rounds = std::env::var("ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(ROUNDS);
    let span =
        std::env::var("SPAN_S").ok().and_then(|text| text.parse().ok()).map_or(SPAN, Duration::from_secs);
    println!("{MEMBERS} members, slots of 1 s, {RATE} and {:?} there and back", 2 * ONE_WAY);
    let delay = Delay::start(SOURCE.parse().unwrap(), ONE_WAY);
    let mut curls = vec![curl(&delay)];
    let mut circles = Vec::new();
    for _ in 0..rounds {
        circles.push(circle(&delay, span));
        curls.push(curl(&delay));
    }
    // The best curl is the yardstick: one that something else held up would flatter the circle.
    let best = curls.into_iter().fold(0.0, f64::max);
    for rate in circles {
        println!("circle/best curl: {:.3}", rate / best);
    }
}

/// One curl without a pause; gives its bytes per second.
fn curl(delay: &Delay) -> f64 {
    let url = format!("http://{}/large", delay.address());
    let mut child = Command::new("curl").args(["-sS", "-o", "/dev/null", &url]).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(1));
    let begun = Instant::now();
    std::thread::sleep(CURL_SPAN);
    let used = delay.used(begun, Instant::now());
    child.kill().unwrap();
    child.wait().unwrap();
    // What is on its way is of no use to the next.
    std::thread::sleep(Duration::from_millis(500));
    println!("curl    {:.2} MB/s", used.bytes_per_sec / 1e6);
    used.bytes_per_sec
}

/// A circle from its foundation to its end; gives its bytes per second at the source while everybody was there.
fn circle(delay: &Delay, span: Duration) -> f64 {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let relay = Relay::new(1);
    relay.set(Faults { delay: ONE_WAY, ..Faults::default() });
    let mut labs: Vec<Lab> = (0..MEMBERS).map(|n| Lab::new(folder.path(), &format!("lab-{n}"))).collect();
    for lab in &mut labs {
        lab.address = Some(relay.front(lab.local));
    }
    let all = Instant::now();
    let (founder, others) = labs.split_first_mut().unwrap();
    found(founder, delay.address());
    get(founder, folder.path(), delay.address());
    for lab in others {
        join(founder, lab);
        get(lab, folder.path(), delay.address());
    }
    std::thread::sleep(WARM_UP);
    let begun = Instant::now();
    std::thread::sleep(span);
    let used = delay.used(begun, Instant::now());
    for lab in &labs {
        lab.signal("INT");
    }
    let totals: Vec<Value> = labs.iter_mut().map(|lab| end(lab, folder.path())).collect();
    let sum = |name: &str| totals.iter().filter_map(|totals| totals[name].as_f64()).sum::<f64>();
    print_circle(&used, &delay.used(all, Instant::now()), sum("slots"), sum("cuts"));
    used.bytes_per_sec
}

fn print_circle(used: &Use, overall: &Use, slots: f64, cuts: f64) {
    println!("circle  {:.2} MB/s", used.bytes_per_sec / 1e6);
    let [none, one, two, more] = used.shares;
    println!(
        "        time with no transfer {:.2} %, one {:.2} %, two {:.2} %, more {:.2} %",
        100.0 * none,
        100.0 * one,
        100.0 * two,
        100.0 * more
    );
    println!(
        "        of each slot {:.1} % used; {:.2} requests and {:.2} connections per slot; {:.1} cuts per 100 slots",
        100.0 * overall.busy_s / slots,
        overall.requests as f64 / slots,
        overall.connections as f64 / slots,
        100.0 * cuts / slots
    );
    println!(
        "        pause between transfers: median {:.1} ms, 90 % below {:.1} ms, longest {:.1} ms",
        1e3 * used.pauses[0],
        1e3 * used.pauses[1],
        1e3 * used.pauses[2]
    );
}

fn found(founder: &Lab, source: SocketAddr) {
    let (listen, source) = (founder.listen(), format!("http://{source}/"));
    let address = founder.address.unwrap().to_string();
    let mut create = vec!["circle", "create", "virgo", "--source", &source, "--listen", &listen];
    create.extend(["--address", &address]);
    create.extend(CONSTANTS);
    founder.succeeds(&create);
}

/// Starts a lab's `get`, with a member of its own, and waits until that runs.
fn get(lab: &mut Lab, folder: &Path, source: SocketAddr) {
    let url = format!("http://{source}/large");
    let state = folder.join(format!("{}-state", lab.name));
    let target = folder.join(format!("{}-large", lab.name));
    let mut command = lab.stroll(&["get", "--circle", "virgo", "--json", "-v", &url]);
    command.arg("-o").arg(target).arg("--state").arg(state);
    command.stdout(File::create(totals_of(lab, folder)).unwrap()).stderr(File::create(&lab.log).unwrap());
    lab.process = Some(command.spawn().unwrap());
    lab.wait_until("runs", |lab| lab.glance().is_some());
}

fn totals_of(lab: &Lab, folder: &Path) -> std::path::PathBuf {
    folder.join(format!("{}-totals", lab.name))
}

/// Waits for the end of a lab's `get`; gives its totals.
fn end(lab: &mut Lab, folder: &Path) -> Value {
    lab.process.take().unwrap().wait().unwrap();
    let text = fs::read_to_string(totals_of(lab, folder)).unwrap();
    let said: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{}", lab.log_text()));
    said["totals"].clone()
}

/// Two namespaces and the wire between them, slow at the source's end. Gone when dropped.
struct Wire {
    source: String,
    labs: String,
}

impl Wire {
    fn new() -> Self {
        let id = std::process::id();
        let wire = Self { source: format!("stroll-{id}-source"), labs: format!("stroll-{id}-labs") };
        let Self { source, labs } = &wire;
        for end in [source, labs] {
            done("ip", &["netns", "add", end]);
            done("ip", &["-n", end, "link", "set", "lo", "up"]);
        }
        done(
            "ip",
            &["-n", source, "link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns", labs],
        );
        for (end, address) in [(source, "192.0.2.1/24"), (labs, "192.0.2.2/24")] {
            done("ip", &["-n", end, "address", "add", address, "dev", "wire"]);
            done("ip", &["-n", end, "link", "set", "wire", "up"]);
        }
        let shape = ["root", "tbf", "rate", RATE, "burst", "128kb", "latency", "30ms"];
        done("tc", &[&["-n", source, "qdisc", "add", "dev", "wire"], &shape[..]].concat());
        wire
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        for end in [&self.source, &self.labs] {
            // One that was never made cannot be deleted.
            let _ = Command::new("ip").args(["netns", "delete", end]).output();
        }
    }
}

fn done(program: &str, args: &[&str]) {
    let output = Command::new(program).args(args).output().unwrap();
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn in_namespace(namespace: &str, program: &str) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace, program]);
    command
}

/// The source.
struct Nginx(Child);

impl Nginx {
    fn start(folder: &Path, namespace: &str) -> Self {
        let at = folder.display();
        fs::create_dir_all(folder.join("www")).unwrap();
        let file = File::create(folder.join("www/large")).unwrap();
        file.set_len(FILE_BYTES).unwrap();
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {at}/{name};"))
            .join(" ");
        let config = format!(
            "daemon off; master_process off; user root; pid {at}/pid; error_log {at}/error.log;
             events {{ worker_connections 64; }}
             http {{ access_log off; sendfile on; {temporary} server {{ listen {SOURCE}; root {at}/www; }} }}\n"
        );
        fs::write(folder.join("config"), config).unwrap();
        let unpacked = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/servers/nginx/usr/sbin/nginx");
        let program = if unpacked.exists() { unpacked } else { "/usr/sbin/nginx".into() };
        let mut command = in_namespace(namespace, program.to_str().unwrap());
        command.arg("-p").arg(folder).arg("-e").arg(folder.join("error.log"));
        command.arg("-c").arg(folder.join("config")).stdin(Stdio::null());
        let nginx = Self(command.spawn().unwrap());
        std::thread::sleep(Duration::from_secs(1));
        nginx
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
