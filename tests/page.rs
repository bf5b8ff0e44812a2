//! The status page, its JSON and the metrics of a running member, as browsers and Prometheus meet them.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]
#![allow(clippy::disallowed_methods, reason = "these tests are about real time")]

#[path = "common/counting.rs"]
mod counting;
#[path = "common/desk.rs"]
mod desk;
#[path = "common/lab.rs"]
mod lab;
#[path = "common/operator.rs"]
mod operator;
#[path = "common/web.rs"]
mod web;

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use counting::Counting;
use desk::noise;
use lab::{Lab, QUICK, join};
use openmetrics_parser::OpenMetricsValue;
use openmetrics_parser::openmetrics::parse_openmetrics;
use operator::{Operator, PATIENCE};
use serde_json::Value;
use web::{Kind, Web};

const PAGE: &[&str] = &["--page", "127.0.0.1:0"];

/// Names that do harm where somebody forgets to escape them. That of a member may have no slash.
const MEMBER: &str = "<img src=x onerror=alert(1)>";
const JOB: &str = "\"><script>alert(2)</script>'&amp;";
const FILE: &str = "<script>alert(3)<script> \"'&";

/// An answer of the page.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

fn ask(at: SocketAddr, verb: &str, path: &str, host: &str) -> Answer {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "{verb} {path} HTTP/1.0\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

#[track_caller]
fn get(at: SocketAddr, path: &str) -> Answer {
    let answer = ask(at, "GET", path, &at.to_string());
    assert_eq!(answer.status, 200, "{path}: {}", answer.head);
    answer
}

/// A member whose neighbour, job and source have bad names, with all of them in sight.
fn among_bad_names() -> (Operator, Lab, Web) {
    let web = Web::start(Kind::Nginx);
    web.put("s/good", b"good", 1_000);
    // It is listed, and then it is not there: the job has an error to tell of.
    symlink("nowhere", web.path("s").join(FILE)).unwrap();
    let mut operator = Operator::new(&web.http("").to_string(), QUICK);
    let (url, to) = (web.http("s/"), operator.quoted("s"));
    operator.set(&format!("[[mirror]]\nname = '''{JOB}'''\nurl = \"{url}\"\nto = {to}\n"));
    // Both always have work, so the token goes to and fro.
    operator.run(&[PAGE, &["--hold"]].concat());
    let mut other = Lab::new(&operator.path(""), MEMBER);
    join(&operator.lab, &other);
    other.run();
    operator.wait_until("knows the other", |operator| {
        let status = operator.lab.glance().unwrap_or_default();
        status["members"]
            .as_array()
            .is_some_and(|members| members.iter().any(|member| member["name"] == MEMBER))
    });
    operator.wait_until("failed", |operator| operator.jobs().iter().any(|job| job["last_error"].is_string()));
    operator.wait_until("waits to try again", |operator| {
        operator.jobs().iter().any(|job| job["state"] == "retrying")
    });
    operator.wait_until("was visited", |operator| operator.lab.counter("visits") >= 3);
    (operator, other, web)
}

#[test]
fn names_of_others_are_only_text() {
    let (operator, _other, _web) = among_bad_names();
    for path in ["/", "/live"] {
        let html = get(operator.page(), path).body;
        assert!(html.contains("&lt;img src=x onerror=alert(1)&gt;"), "the member is shown: {html}");
        assert!(html.contains("&quot;&gt;&lt;script&gt;alert(2)"), "the job is shown: {html}");
        assert!(html.contains("&lt;script&gt;alert(3)") || html.contains("%3Cscript%3Ealert(3)"), "{html}");
        for bad in ["<img", "<script>alert", "alert(1)>", "\"><script", "'&amp;<"] {
            assert!(!html.contains(bad), "{bad}: {html}");
        }
        // The page's own script is the only one.
        assert_eq!(html.matches("<script").count(), usize::from(path == "/"), "{html}");
    }
}

#[test]
fn the_page_says_all_without_a_script() {
    let (operator, _other, _web) = among_bad_names();
    let html = get(operator.page(), "/").body;
    for part in [
        "The token's way",
        "Return time",
        "Access interval",
        "Throughput",
        "1 other member<",
        "Jobs",
        "visits,",
    ] {
        assert!(html.contains(part), "{part}: {html}");
    }
    assert!(html.contains(r#"<noscript><meta http-equiv="refresh""#), "it comes again by itself: {html}");
    let content = html.split_once("<main>").unwrap().1.split_once("</main>").unwrap().0;
    assert!(content.contains("<svg") && content.contains("virgo"), "{content}");
    for outside in ["http-equiv=\"set-cookie", "src=\"http", "href=\"http", "//cdn", "style="] {
        assert!(!html.contains(outside), "{outside}: {html}");
    }
}

#[test]
fn the_page_is_read_only_and_has_manners() {
    let mut operator = Operator::new("http://127.0.0.1:1/", QUICK);
    operator.run(PAGE);
    let at = operator.page();
    for path in ["/", "/live", "/page.css", "/page.js", "/v1/status", "/v1/past", "/metrics"] {
        let answer = get(at, path);
        let policy = answer.header("content-security-policy").unwrap();
        assert!(
            policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"),
            "{policy}"
        );
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{path}");
        for verb in ["POST", "PUT", "DELETE"] {
            assert_eq!(ask(at, verb, path, &at.to_string()).status, 405, "{verb} {path}");
        }
        for host in ["evil.example", "evil.example:7480", &format!("localhost.evil.example:{}", at.port())] {
            let answer = ask(at, "GET", path, host);
            assert_eq!(answer.status, 421, "{host} {path}");
            assert!(!answer.body.contains("virgo"), "{host} {path}: {}", answer.body);
        }
    }
    assert_eq!(ask(at, "GET", "/", &format!("localhost:{}", at.port())).status, 200);
    // What orders a member about is for the control socket.
    for order in ["/v1/pause", "/v1/resume", "/v1/bwlimit?to=1k", "/v1/reload", "/v1/slots"] {
        assert_eq!(ask(at, "POST", order, &at.to_string()).status, 404, "{order}");
    }
}

#[test]
fn without_being_asked_nothing_is_served() {
    let mut operator = Operator::new("http://127.0.0.1:1/", QUICK);
    operator.run(&[]);
    assert!(!operator.log().contains("status page"), "{}", operator.log());
}

#[test]
fn the_json_of_the_page_is_that_of_the_status_command() {
    let mut operator = Operator::new("http://127.0.0.1:1/", QUICK);
    let mut flags = PAGE.to_vec();
    flags.push("--hold");
    operator.run(&flags);
    operator.wait_until("was served", |operator| operator.lab.counter("slots") >= 3);
    let at = operator.page();
    let (page, command) = (get(at, "/v1/status").json(), operator.lab.status().unwrap());
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&page), keys(&command));
    assert_eq!((&page["version"], &page["member"]), (&Value::from(1), &command["member"]));
    let past = get(at, "/v1/past").json();
    assert_eq!(past["version"], 1);
    let visits = past["visits"].as_array().unwrap();
    assert!(visits.len() >= 3, "{past}");
    let numbers: Vec<u64> = visits.iter().map(|visit| visit["number"].as_u64().unwrap()).collect();
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "{numbers:?}");
    assert!(past["return_times_s"].as_array().unwrap().len() + 1 >= visits.len(), "{past}");
    assert!(past["samples"].as_array().is_some() && past["access_intervals_s"].as_array().is_some());
}

// --- metrics --------------------------------------------------------------------------------------------------------

/// The metrics that are promised, with their types. Counters and what is information have their endings only in the samples.
const METRICS: &[(&str, &str)] = &[
    ("stroll_build", "Info"),
    ("stroll_bytes_transferred", "Counter"),
    ("stroll_files_transferred", "Counter"),
    ("stroll_files_deleted", "Counter"),
    ("stroll_entries_listed", "Counter"),
    ("stroll_errors", "Counter"),
    ("stroll_source_refusals", "Counter"),
    ("stroll_token_return_seconds", "Histogram"),
    ("stroll_access_interval_seconds", "Histogram"),
    ("stroll_token_visits", "Counter"),
    ("stroll_slots", "Counter"),
    ("stroll_slot_seconds", "Counter"),
    ("stroll_handoff_seconds", "Histogram"),
    ("stroll_handoff_confirmation_seconds", "Histogram"),
    ("stroll_handoff_retransmissions", "Counter"),
    ("stroll_commits_abandoned", "Counter"),
    ("stroll_handoffs", "Counter"),
    ("stroll_tokens_regenerated", "Counter"),
    ("stroll_tokens_removed", "Counter"),
    ("stroll_authority_conflicts", "Counter"),
    ("stroll_duplicate_identity", "Counter"),
    ("stroll_datagrams_rejected", "Counter"),
    ("stroll_chunk_bytes", "Gauge"),
    ("stroll_slot_budget_bytes", "Gauge"),
    ("stroll_slot_carried_bytes", "Gauge"),
    ("stroll_job_interval_seconds", "Gauge"),
    ("stroll_load_factor", "Gauge"),
    ("stroll_overloaded", "Gauge"),
    ("stroll_members", "Gauge"),
    ("stroll_certificate_expiry_timestamp_seconds", "Gauge"),
    ("stroll_check", "Gauge"),
    ("stroll_backing_off_seconds", "Gauge"),
    ("stroll_jobs", "Gauge"),
    ("stroll_jobs_at_risk", "Gauge"),
];

/// What a scrape says: the sum of each counter, gauge and histogram's count, and the labels of each family.
#[derive(Debug)]
struct Scrape {
    types: BTreeMap<String, String>,
    sums: BTreeMap<String, f64>,
    labels: BTreeMap<String, Vec<String>>,
}

fn scrape(at: SocketAddr) -> Scrape {
    let answer = get(at, "/metrics");
    assert!(
        answer.header("content-type").unwrap().starts_with("application/openmetrics-text"),
        "{}",
        answer.head
    );
    let text = answer.body;
    let read = parse_openmetrics(&text).unwrap_or_else(|error| panic!("{error:?}:\n{text}"));
    let mut scrape = Scrape { types: BTreeMap::new(), sums: BTreeMap::new(), labels: BTreeMap::new() };
    for (name, family) in read.families {
        let sum = family.iter_samples().map(|sample| value(&sample.value)).sum();
        scrape.types.insert(name.clone(), format!("{:?}", family.family_type));
        scrape.labels.insert(name.clone(), family.get_label_names().to_vec());
        if family.iter_samples().next().is_some() {
            scrape.sums.insert(name, sum);
        }
    }
    scrape
}

fn value(value: &OpenMetricsValue) -> f64 {
    match value {
        OpenMetricsValue::Counter(counter) => counter.value.as_f64(),
        OpenMetricsValue::Gauge(number) | OpenMetricsValue::Unknown(number) => number.as_f64(),
        OpenMetricsValue::Histogram(histogram) => {
            let counts: Vec<f64> = histogram.buckets.iter().map(|bucket| bucket.count.as_f64()).collect();
            assert!(counts.windows(2).all(|pair| pair[0] <= pair[1]), "buckets hold those below: {counts:?}");
            let count = histogram.count.unwrap() as f64;
            assert_eq!(counts.last(), Some(&count), "the last bucket has all");
            assert!(histogram.buckets.last().unwrap().upper_bound.is_infinite());
            count
        }
        _ => 1.0,
    }
}

#[test]
fn every_metric_that_is_promised_is_there_and_counters_grow() {
    let source = Counting::start(noise(51, 20_000_000), 1_500_000.0, 1);
    let mut operator = Operator::new(&source.source(), QUICK);
    let (url, to) = (source.url("f"), operator.quoted("f"));
    operator.set(&format!(
        "[transfer]\nrefusal_wait = \"1s\"\n[[subscribe]]\nname = \"job\"\nurl = {url:?}\nto = {to}\nfollow = true\n\
         since = \"all\"\npoll = \"1s\"\n"
    ));
    operator.run(PAGE);
    let mut other = Lab::new(&operator.path(""), "other");
    join(&operator.lab, &other);
    other.run();
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger.send_to(b"hello", operator.lab.local).unwrap();
    operator.wait_until("pulled", |operator| operator.count("job", "bytes") > 1_000_000);
    let at = operator.page();
    operator.wait_until("has a chunk and a load", |operator| {
        let status = operator.lab.glance().unwrap_or_default();
        let job = &status["jobs"][0];
        let is_known = ["chunk_bytes", "budget_bytes", "interval_s"].iter().all(|key| job[key].is_number());
        status["load_factor"].is_number() && is_known
    });
    let before = scrape(at);
    for (name, kind) in METRICS {
        assert_eq!(before.types.get(*name).map(String::as_str), Some(*kind), "{name}: {before:?}");
        assert!(before.sums.contains_key(*name), "{name} has no value: {before:?}");
    }
    for (name, label) in [
        ("stroll_source_refusals", "code"),
        ("stroll_source_refusals", "job"),
        ("stroll_bytes_transferred", "job"),
        ("stroll_errors", "job"),
        ("stroll_handoffs", "result"),
        ("stroll_datagrams_rejected", "reason"),
        ("stroll_members", "state"),
        ("stroll_build", "version"),
    ] {
        assert!(before.labels[name].iter().any(|found| found == label), "{name}: {:?}", before.labels[name]);
    }
    for (name, _) in TICKET_METRICS {
        assert!(!before.types.contains_key(*name), "{name} is for rings");
    }
    assert_eq!(before.sums["stroll_members"], 1.0);
    assert_eq!(before.sums["stroll_jobs"], 1.0);
    assert_eq!(before.sums["stroll_source_refusals"], 1.0);
    assert!(before.sums["stroll_datagrams_rejected"] >= 1.0);
    let slots = operator.lab.counter("slots");
    operator.wait_until("had more slots", |operator| operator.lab.counter("slots") > slots + 2);
    operator.wait_until("pulled more", |operator| {
        operator.count("job", "bytes") as f64 > before.sums["stroll_bytes_transferred"]
    });
    let after = scrape(at);
    for (name, kind) in METRICS.iter().filter(|(_, kind)| *kind != "Gauge") {
        assert!(after.sums[*name] >= before.sums[*name], "{name}, a {kind}, has become less");
    }
    for name in [
        "stroll_bytes_transferred",
        "stroll_token_visits",
        "stroll_slots",
        "stroll_slot_seconds",
        "stroll_handoffs",
        "stroll_token_return_seconds",
        "stroll_access_interval_seconds",
        "stroll_handoff_seconds",
        "stroll_handoff_confirmation_seconds",
    ] {
        assert!(after.sums[name] > before.sums[name], "{name} stands still: {after:?}");
    }
}

// --- with tickets ---------------------------------------------------------------------------------------------------

/// Two members in a ring of five tickets, the other with a bad name.
fn in_a_ring() -> (Operator, Lab) {
    let tickets = [QUICK, &["--mode", "tickets", "--tickets", "5", "--faults", "1"]].concat();
    let mut operator = Operator::new("http://127.0.0.1:1/", &tickets);
    operator.run(&[PAGE, &["--hold"]].concat());
    let mut other = Lab::new(&operator.path(""), MEMBER);
    join(&operator.lab, &other);
    other.run();
    operator.wait_until("knows the other in the ring, and may pull", |operator| {
        let ring = operator.lab.glance().unwrap_or_default()["ring"].clone();
        let names = ring["coordinators"].as_array().cloned().unwrap_or_default();
        ring["sure"] == true && names.len() == 2 && names[1]["name"] == MEMBER
    });
    (operator, other)
}

#[test]
fn the_page_of_a_ring_shows_tickets_instead_of_the_tokens_way() {
    let (operator, _other) = in_a_ring();
    let html = get(operator.page(), "/").body;
    for part in [
        "The ring of tickets",
        "This member has ticket",
        "After it come &lt;img src=x onerror=alert(1)&gt; (",
        "5 tickets, faults 1",
        "Access interval",
        "tickets had",
    ] {
        assert!(html.contains(part), "{part}: {html}");
    }
    for part in ["token", "Return time", "handed off", "<img"] {
        assert!(!html.contains(part), "{part}: {html}");
    }
    // Which of the two has more to give is a matter of chance.
    let ring = operator.lab.glance().unwrap()["ring"].clone();
    let has_more = ring["coordinates"]["count"].as_u64() > Some(1);
    for part in [r#"class="range""#, "it coordinates</span>"] {
        assert_eq!(html.contains(part), has_more, "{part} {ring}: {html}");
    }
    assert_eq!(html.matches(r#"class="free""#).count(), 3, "two of five tickets are had: {html}");
}

const TICKET_METRICS: &[(&str, &str)] = &[
    ("stroll_ticket_held", "Gauge"),
    ("stroll_ticket_sure", "Gauge"),
    ("stroll_tickets_coordinated", "Gauge"),
    ("stroll_tickets_waiting", "Gauge"),
    ("stroll_tickets_taken", "Counter"),
    ("stroll_tickets_lost", "Counter"),
    ("stroll_tickets_excluded", "Counter"),
];

#[test]
fn the_metrics_of_a_ring_tell_of_tickets() {
    let (operator, _other) = in_a_ring();
    let scrape = scrape(operator.page());
    for (name, kind) in TICKET_METRICS {
        assert_eq!(scrape.types.get(*name).map(String::as_str), Some(*kind), "{name}: {scrape:?}");
        assert!(scrape.sums.contains_key(*name), "{name} has no value: {scrape:?}");
    }
    assert_eq!((scrape.sums["stroll_ticket_held"], scrape.sums["stroll_ticket_sure"]), (1.0, 1.0));
    assert!((1.0..=4.0).contains(&scrape.sums["stroll_tickets_coordinated"]), "{scrape:?}");
    assert!(scrape.sums["stroll_tickets_taken"] >= 1.0 && scrape.sums["stroll_slots"] >= 1.0, "{scrape:?}");
}

// --- in a browser ---------------------------------------------------------------------------------------------------

/// Stands between browser and page, and keeps what both say.
struct Between {
    at: SocketAddr,
    asked: Arc<Mutex<Vec<u8>>>,
    told: Arc<Mutex<Vec<u8>>>,
}

impl Between {
    /// What is asked for at `broken` is not answered.
    fn start(page: SocketAddr, broken: Option<&'static str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let (asked, told) = (Arc::default(), Arc::default());
        let (asking, telling) = (Arc::clone(&asked), Arc::clone(&told));
        thread::spawn(move || {
            for browser in listener.incoming().map_while(Result::ok) {
                let Ok(page) = TcpStream::connect(page) else { return };
                let (back, forth) = (browser.try_clone().unwrap(), page.try_clone().unwrap());
                let (asking, telling) = (Arc::clone(&asking), Arc::clone(&telling));
                thread::spawn(move || carry(browser, forth, &asking, broken));
                thread::spawn(move || carry(page, back, &telling, None));
            }
        });
        Self { at, asked, told }
    }

    fn asked(&self) -> String {
        String::from_utf8_lossy(&self.asked.lock().unwrap()).into_owned()
    }

    fn told(&self) -> String {
        String::from_utf8_lossy(&self.told.lock().unwrap()).into_owned()
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, keep: &Mutex<Vec<u8>>, broken: Option<&str>) {
    let mut bytes = [0; 16 << 10];
    while let Ok(len @ 1..) = from.read(&mut bytes) {
        keep.lock().unwrap().extend_from_slice(&bytes[..len]);
        let said = String::from_utf8_lossy(&bytes[..len]);
        if broken.is_some_and(|broken| said.contains(broken)) {
            break;
        }
        // The browser's seconds fly, the token's do not.
        if said.starts_with("GET /live ") {
            thread::sleep(Duration::from_millis(300));
        }
        if to.write_all(&bytes[..len]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

fn chromium(flags: &[&str], at: SocketAddr) -> Output {
    browse(flags, &format!("http://{at}/"))
}

fn browse(flags: &[&str], url: &str) -> Output {
    let profile = tempfile::Builder::new().prefix("stroll-chromium-").tempdir().unwrap();
    let mut command = Command::new("chromium");
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
    ]);
    command.args(["--enable-logging=stderr", "--window-size=1200,1100"]);
    command.arg(format!("--user-data-dir={}", profile.path().display())).env("HOME", profile.path());
    let output = command.args(flags).arg(url).output().expect("chromium is here");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

#[track_caller]
fn console_is_empty(output: &Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    let complaints: Vec<&str> = said.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(complaints.is_empty(), "{complaints:?}");
}

/// The number in `Visit 12 since the start`, wherever it is said.
fn visits(html: &str) -> Vec<u64> {
    let said = html.split("Visit ").skip(1).filter_map(|rest| rest.split_once(" since")?.0.parse().ok());
    said.collect()
}

#[test]
#[ignore = "needs chromium"]
fn a_browser_shows_the_page_and_its_script_makes_it_move() {
    let (operator, _other, _web) = among_bad_names();
    let between = Between::start(operator.page(), None);
    let output = chromium(&["--virtual-time-budget=8000", "--dump-dom"], between.at);
    console_is_empty(&output);
    let dom = String::from_utf8(output.stdout).unwrap();
    assert!(between.asked().contains("GET /live "), "the script asked for nothing: {}", between.asked());
    let shown = *visits(&dom).last().expect("a visit is shown");
    let at_first = *visits(&between.told()).first().expect("a visit was told");
    assert!(shown > at_first, "the page stands still at visit {at_first}");
    assert!(dom.contains("&lt;img src=x onerror=alert(1)&gt;"), "{dom}");
    assert_eq!((dom.matches("<script").count(), dom.matches("<img").count()), (1, 0), "{dom}");
    assert!(dom.contains("<svg") && !dom.contains(r#"class="stale""#), "{dom}");
}

#[test]
#[ignore = "needs chromium"]
fn a_browser_shows_that_the_member_does_not_answer_any_more() {
    let mut operator = Operator::new("http://127.0.0.1:1/", QUICK);
    operator.run(&[PAGE, &["--hold"]].concat());
    operator.wait_until("was visited", |operator| operator.lab.counter("visits") >= 1);
    let between = Between::start(operator.page(), Some("GET /live "));
    let output = chromium(&["--virtual-time-budget=5000", "--dump-dom"], between.at);
    assert!(between.asked().contains("GET /live "), "the script asked for nothing: {}", between.asked());
    let dom = String::from_utf8(output.stdout).unwrap();
    assert!(dom.contains(r#"class="stale""#), "{dom}");
    assert!(dom.contains("<svg"), "what was known last is still there: {dom}");
}

/// The page as a picture, kept under this name.
fn screenshot(at: SocketAddr, name: &str, scheme: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("status-page-{name}.png"));
    let _ = std::fs::remove_file(&path);
    let scheme = format!("--blink-settings=preferredColorScheme={scheme}");
    let shot = format!("--screenshot={}", path.display());
    console_is_empty(&chromium(&[&scheme, "--virtual-time-budget=3000", &shot], at));
    std::fs::read(path).unwrap()
}

/// A telephone: the page in a frame of 390 points, and what of it lies outside.
#[test]
#[ignore = "needs chromium"]
fn files_bytes_and_lag_are_in_sight_on_a_narrow_screen() {
    let (operator, _other, _web) = among_bad_names();
    let at = operator.page();
    let folder = tempfile::tempdir().unwrap();
    let narrow = get(at, "/").body.replace("/page.css", "page.css").replace("/page.js", "measure.js");
    std::fs::write(folder.path().join("page.css"), get(at, "/page.css").body).unwrap();
    std::fs::write(folder.path().join("narrow.html"), narrow).unwrap();
    let measure = r#"
        const cells = [...document.querySelectorAll("td")].filter(cell => cell.dataset.label);
        const seen = cells.filter(cell => {
            const { left, right, width, height } = cell.getBoundingClientRect();
            return left >= 0 && right <= 390 && width > 0 && height > 0;
        });
        const words = seen.map(cell => cell.dataset.label + " " + getComputedStyle(cell, "::before").content);
        const wide = document.documentElement.scrollWidth;
        const out = [...document.querySelectorAll("main *")].filter(e => e.getBoundingClientRect().right > 390);
        words.push("too wide: " + out.map(e => e.tagName + "." + e.getAttribute("class")).join(" "));
        parent.postMessage(wide + "; " + (cells.length - seen.length) + " hidden; " + words.join(", "), "*");
    "#;
    std::fs::write(folder.path().join("measure.js"), measure).unwrap();
    let frame = r#"<!doctype html><iframe src="narrow.html" width="390" height="1200"></iframe><p id="said"></p>
        <script>onmessage = event => { document.getElementById("said").textContent = event.data; };</script>"#;
    let path = folder.path().join("frame.html");
    std::fs::write(&path, frame).unwrap();
    let output = browse(&["--virtual-time-budget=3000", "--dump-dom"], &format!("file://{}", path.display()));
    let dom = String::from_utf8(output.stdout).unwrap();
    assert!(dom.contains("390; 0 hidden; "), "{dom}");
    for column in ["files", "bytes", "lag"] {
        assert!(dom.contains(&format!("{column} \"{column}\"")), "{column}: {dom}");
    }
}

#[test]
#[ignore = "needs chromium"]
fn a_browser_shows_the_ring_of_tickets() {
    let (operator, _other) = in_a_ring();
    let output = chromium(&["--virtual-time-budget=3000", "--dump-dom"], operator.page());
    console_is_empty(&output);
    let dom = String::from_utf8(output.stdout).unwrap();
    assert!(dom.contains("The ring of tickets") && dom.contains("This member has ticket"), "{dom}");
    assert_eq!((dom.matches("<script").count(), dom.matches("<img").count()), (1, 0), "{dom}");
    assert!(screenshot(operator.page(), "tickets", "1").starts_with(b"\x89PNG"));
}

#[test]
#[ignore = "needs chromium"]
fn screenshots_are_taken_in_light_and_dark() {
    let (operator, _other, _web) = among_bad_names();
    let pictures =
        [("light", "1"), ("dark", "0")].map(|(name, scheme)| screenshot(operator.page(), name, scheme));
    let is_png = |bytes: &Vec<u8>| bytes.starts_with(b"\x89PNG") && bytes.len() > 10_000;
    assert!(pictures.iter().all(is_png), "{:?}", pictures.iter().map(Vec::len).collect::<Vec<_>>());
    assert_ne!(pictures[0], pictures[1], "dark is another picture");
}
