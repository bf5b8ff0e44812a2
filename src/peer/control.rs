//! The control socket: HTTP and JSON over a Unix socket that only the member's own user can open.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::driver::Handle;
use crate::jobs::Slots;
use crate::node::{Command, MemberStatus, Status};
use crate::proto::load::Summary;

use super::borrowing;
use super::lending::Lending;
use crate::trust::expiry_warning;

use super::member::wall_s;

/// How long a member has to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long the probed have to answer: a round trip, with room for a repetition by chance.
const PROBE_FOR: Duration = Duration::from_secs(2);

/// An answer longer than this is none of ours.
const ANSWER_LIMIT: u64 = 4 << 20;

/// What went wrong at the control socket.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Another process runs this member.
    #[error("this member is running already ({0} answers)")]
    Running(PathBuf),
    /// Nobody runs this member.
    #[error("this member is not running (nobody answers at {0}); start it with `stroll run`")]
    NotRunning(PathBuf),
    /// The answer makes no sense.
    #[error("the member's answer makes no sense: {0}")]
    Nonsense(String),
    /// The socket failed.
    #[error("the control socket {path} failed")]
    Io {
        /// Where it is.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Whether the circle can bear its load, as the member sees it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VerdictReport {
    /// `nominal`, `full`, `overloaded` or `starved`.
    pub level: String,
    /// Why, in words and numbers.
    pub reason: String,
    /// For how long it has been so, in seconds.
    pub since_s: f64,
}

/// A member at one moment, as `stroll status --json` prints it. Its names stay as they are.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StatusReport {
    /// Of this format.
    pub version: u32,
    /// The circle's name.
    pub circle: String,
    /// The member's name.
    pub name: String,
    /// The member's identity, in short.
    pub member: String,
    /// Where it listens.
    pub listen: String,
    /// When its certificate expires, in seconds since 1970.
    pub expires_s: u64,
    /// In how many days that is, if it is soon.
    pub expires_in_days: Option<u64>,
    /// What it does: `run` pulls, `idle` holds a token without pulling, `wtok` waits for the token, `cool` leaves the
    /// source alone.
    pub state: String,
    /// The token that is here.
    pub token: Option<String>,
    /// Its session: a number that only grows.
    pub session: Option<u64>,
    /// How much longer the circle leaves the source alone.
    pub cooling_s: f64,
    /// The charter in force.
    pub charter_version: u32,
    /// The bans in force.
    pub bans_version: u32,
    /// Time between visits of the token.
    pub return_time_s: Option<SpanReport>,
    /// Time between slots.
    pub access_interval_s: Option<SpanReport>,
    /// Mean access interval over the nominal period; above 1 is overload.
    pub load_factor: Option<f64>,
    /// Whether the circle can bear its load.
    pub verdict: VerdictReport,
    /// The stream rate that it leaves to this member, in a sentence.
    pub advice: Option<String>,
    /// The same in bytes per second.
    pub sustainable_bytes_per_sec: Option<f64>,
    /// What was counted since the start.
    pub counters: BTreeMap<String, u64>,
    /// Datagrams dropped, by reason.
    pub rejected: BTreeMap<String, u64>,
    /// Whom it knows.
    pub members: Vec<MemberReport>,
}

/// A distribution of time spans, in seconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct SpanReport {
    /// Over how many.
    pub count: usize,
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// Nine of ten are no longer.
    pub p90: f64,
    /// 99 of 100 are no longer.
    pub p99: f64,
    /// The newer half over the older half.
    pub trend: f64,
}

/// Another member, as this one knows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MemberReport {
    /// Its name.
    pub name: String,
    /// Its identity, in short.
    pub member: String,
    /// Where it is.
    pub address: String,
    /// How long ago it was heard at first hand.
    pub heard_s: Option<f64>,
    /// The round trip to it.
    pub round_trip_ms: Option<f64>,
    /// How far its wall clock is ahead of ours.
    pub clock_offset_ms: Option<i64>,
    /// Whether it does not answer.
    pub suspected: bool,
    /// When its certificate expires, in seconds since 1970.
    pub expires_s: u64,
}

/// Where the control socket of a home is.
pub(super) fn path_in(home: &Path) -> PathBuf {
    home.join("control.sock")
}

/// What the control socket tells of, and whom it tells.
#[derive(Clone)]
pub(super) struct Served {
    handle: Handle,
    circle: String,
    name: String,
    reload: mpsc::Sender<()>,
}

impl Served {
    pub(super) fn new(handle: Handle, circle: String, name: String, reload: mpsc::Sender<()>) -> Self {
        Self { handle, circle, name, reload }
    }
}

/// Serves the control socket until the task is ended.
pub(super) async fn serve(
    path: &Path,
    served: Served,
    lending: Lending,
) -> Result<JoinHandle<()>, ControlError> {
    if UnixStream::connect(path).await.is_ok() {
        return Err(ControlError::Running(path.to_owned()));
    }
    let failed = |source| ControlError::Io { path: path.to_owned(), source };
    // Left behind by a member that was killed.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    // The home is closed to others already; the socket says so for itself.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    let router = Router::new()
        .route("/v1/status", get(status))
        .route("/v1/probe", get(probe))
        .route("/v1/reload", post(reload_files))
        .with_state(served)
        .merge(borrowing::routes(borrowing::Lenders::new(lending)));
    Ok(tokio::spawn(async move {
        // It ends when the task is aborted.
        let _ = axum::serve(listener, router).await;
    }))
}

async fn status(State(served): State<Served>) -> Result<Json<StatusReport>, StatusCode> {
    let status = served.handle.status().await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    let listen = served.handle.address().to_string();
    Ok(Json(StatusReport::new(served.circle, served.name, listen, &status)))
}

/// The files were changed by somebody else.
async fn reload_files(State(served): State<Served>) -> StatusCode {
    // If one is waiting already, that will read the newest files as well.
    let _ = served.reload.try_send(());
    StatusCode::OK
}

/// The same, after everybody who is known was asked whether they are there.
async fn probe(served: State<Served>) -> Result<Json<StatusReport>, StatusCode> {
    served.handle.command(Command::Probe).await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    sleep(PROBE_FOR).await;
    status(served).await
}

impl StatusReport {
    fn new(circle: String, name: String, listen: String, status: &Status) -> Self {
        let state = match (status.is_pulling, status.token.is_some(), status.cooling_for.is_zero()) {
            (true, ..) => "run",
            (false, _, false) => "cool",
            (false, true, true) => "idle",
            (false, false, true) => "wtok",
        };
        let counters = [
            ("visits", status.visits),
            ("slots", status.slots),
            ("regenerated", status.regenerated),
            ("removed", status.removed),
            ("handed_off", status.handed_off),
            ("unreachable", status.unreachable),
            ("dropped", status.dropped),
            ("datagrams_sent", status.sent),
            ("datagrams_accepted", status.accepted),
        ];
        Self {
            version: 1,
            circle,
            name,
            member: status.member.to_string(),
            listen,
            expires_s: status.certificate.not_after_s,
            expires_in_days: expiry_warning(&status.certificate, wall_s()),
            state: state.to_owned(),
            token: status.token.map(|(token, _)| token.to_string()),
            session: status.token.map(|(_, session)| session.0),
            cooling_s: status.cooling_for.as_secs_f64(),
            charter_version: status.charter_version,
            bans_version: status.bans_version,
            return_time_s: status.return_times.map(SpanReport::from),
            access_interval_s: status.access_intervals.map(SpanReport::from),
            load_factor: status.load_factor,
            verdict: VerdictReport {
                level: status.verdict.level.name().to_owned(),
                reason: status.verdict.reason.clone(),
                since_s: status.verdict_for.as_secs_f64(),
            },
            advice: status.advice.map(|advice| advice.to_string()),
            sustainable_bytes_per_sec: status.advice.map(|advice| advice.bytes_per_sec),
            counters: counters.into_iter().map(|(name, count)| (name.to_owned(), count)).collect(),
            rejected: status.rejected.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
            members: status.members.iter().map(MemberReport::from).collect(),
        }
    }
}

impl From<Summary> for SpanReport {
    fn from(summary: Summary) -> Self {
        Self {
            count: summary.count,
            mean: summary.mean.as_secs_f64(),
            p50: summary.p50.as_secs_f64(),
            p90: summary.p90.as_secs_f64(),
            p99: summary.p99.as_secs_f64(),
            trend: summary.trend,
        }
    }
}

impl From<&MemberStatus> for MemberReport {
    fn from(member: &MemberStatus) -> Self {
        Self {
            name: member.name.clone(),
            member: member.member.to_string(),
            address: member.address.to_string(),
            heard_s: member.heard_ago.map(|ago| ago.as_secs_f64()),
            round_trip_ms: member.round_trip.map(|span| span.as_secs_f64() * 1e3),
            clock_offset_ms: member.clock_offset_ms,
            suspected: member.is_suspected,
            expires_s: member.expires_s,
        }
    }
}

/// Talks to a running member.
#[derive(Clone, Debug)]
pub struct Client {
    path: PathBuf,
}

impl Client {
    /// For the member with this home.
    pub fn new(home: &Path) -> Self {
        Self { path: path_in(home) }
    }

    /// Asks how it is.
    pub async fn status(&self) -> Result<StatusReport, ControlError> {
        self.ask("/v1/status").await
    }

    /// Asks how it is after it has asked everybody whether they are there.
    pub async fn probe(&self) -> Result<StatusReport, ControlError> {
        self.ask("/v1/probe").await
    }

    /// Tells it that its files were changed: a new charter, new bans.
    pub async fn reload(&self) -> Result<(), ControlError> {
        self.request("POST", "/v1/reload").await.map(drop)
    }

    async fn ask(&self, target: &str) -> Result<StatusReport, ControlError> {
        let body = timeout(PATIENCE, self.request("GET", target))
            .await
            .map_err(|_| ControlError::Nonsense("no answer in time".to_owned()))??;
        serde_json::from_slice(&body).map_err(|error| ControlError::Nonsense(error.to_string()))
    }

    /// Asks for slots for a job of this process. They end when the member does.
    pub async fn borrow(&self) -> Result<Slots, ControlError> {
        borrowing::borrow_from(self).await
    }

    /// Says something to which only "yes" is an answer.
    pub(super) async fn post(&self, target: &str) -> Result<(), ControlError> {
        self.request("POST", target).await.map(drop)
    }

    /// Opens an answer that goes on and on; what it says is read line by line.
    pub(super) async fn open(&self, verb: &str, target: &str) -> Result<BufReader<UnixStream>, ControlError> {
        let mut answer = BufReader::new(self.send(verb, target).await?);
        let mut status = String::new();
        let mut line = String::new();
        while answer.read_line(&mut line).await.map_err(|source| self.failed(source))? > 2 {
            if status.is_empty() {
                status.clone_from(&line);
            }
            line.clear();
        }
        match status.split(' ').nth(1) {
            Some("200") => Ok(answer),
            _ => Err(ControlError::Nonsense(status.trim().escape_debug().to_string())),
        }
    }

    fn failed(&self, source: io::Error) -> ControlError {
        ControlError::Io { path: self.path.clone(), source }
    }

    /// HTTP/1.0, one request for a connection: no library is needed for that.
    async fn send(&self, verb: &str, target: &str) -> Result<UnixStream, ControlError> {
        let mut stream = UnixStream::connect(&self.path).await.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                ControlError::NotRunning(self.path.clone())
            }
            _ => self.failed(error),
        })?;
        let request = format!("{verb} {target} HTTP/1.0\r\nHost: stroll\r\nContent-Length: 0\r\n\r\n");
        stream.write_all(request.as_bytes()).await.map_err(|source| self.failed(source))?;
        Ok(stream)
    }

    /// One request, one whole answer.
    async fn request(&self, verb: &str, target: &str) -> Result<Vec<u8>, ControlError> {
        let stream = self.send(verb, target).await?;
        let mut answer = Vec::new();
        stream.take(ANSWER_LIMIT).read_to_end(&mut answer).await.map_err(|source| self.failed(source))?;
        body_of(&answer).map(<[u8]>::to_vec).ok_or_else(|| {
            let start =
                String::from_utf8_lossy(answer.get(..60).unwrap_or(&answer)).escape_debug().to_string();
            ControlError::Nonsense(start)
        })
    }
}

/// The body of a 200; nothing of anything else.
fn body_of(answer: &[u8]) -> Option<&[u8]> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let (head, body) = answer.split_at_checked(end + 4)?;
    let status = head.split(|byte| *byte == b' ').nth(1)?;
    (status == b"200").then_some(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_body_of_a_200_is_an_answer() {
        assert_eq!(body_of(b"HTTP/1.0 200 OK\r\nA: b\r\n\r\n{}"), Some(&b"{}"[..]));
        assert_eq!(body_of(b"HTTP/1.0 503 No\r\n\r\n{}"), None);
        assert_eq!(body_of(b"HTTP/1.0 200 OK\r\n"), None);
        assert_eq!(body_of(b""), None);
    }
}
