//! The control socket: HTTP and JSON over a Unix socket that only the member's own user can open.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{Query, State as Of};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tracing::warn;

use crate::driver::Handle;
use crate::fetch::timetable::Timetable;
use crate::jobs::{Board, JobReport, Slots, State};
use crate::node::{Command, Status};
use crate::proto::load::retention::{TOLD_FROM, TREND_FROM};

use super::borrowed;
use super::borrowing::{self, Errand, Lenders};
use super::dials::Dials;
use super::lending::Lending;
use super::report::{PageReport, RiskReport, StatusReport};

/// How long a member has to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often the member looks whether its control socket is still there.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// How long the probed have to answer: a round trip, with room for a repetition by chance.
const PROBE_FOR: Duration = Duration::from_secs(2);

/// A job that is further behind than so many long access intervals, and than this at least, lags: it waits for more than
/// its turn.
const LAG_INTERVALS: u32 = 3;
const LEAST_LAG: Duration = Duration::from_secs(30);

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
    /// Somebody runs it, but does not answer.
    #[error(
        "this member does not answer (asked at {0}); its process is stopped or very busy: let it go on (SIGCONT, or `fg` in \
         its shell), or end it and start it again with `stroll run`"
    )]
    Silent(PathBuf),
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
    board: Board,
    lending: Lending,
    lenders: Lenders,
    dials: Dials,
    risks: Arc<Mutex<Vec<RiskReport>>>,
    page: Arc<Mutex<Option<PageReport>>>,
}

impl Served {
    pub(super) fn new(
        handle: Handle,
        (circle, name): (String, String),
        reload: mpsc::Sender<()>,
        (board, lending): (Board, Lending),
        dials: Dials,
    ) -> Self {
        let lenders = Lenders::new(lending.clone(), board.clone(), dials.clone());
        let (risks, page) = (Arc::default(), Arc::default());
        Self { handle, circle, name, reload, board, lending, lenders, dials, risks, page }
    }

    /// Sets the state of the status page, for the report.
    pub(super) fn set_page(&self, report: PageReport) {
        *self.page.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
    }

    /// Names of everything that can be paused: own jobs and commands that borrow slots.
    fn job_names(&self) -> Vec<String> {
        let jobs = self.board.reports().into_iter().map(|job| job.name);
        jobs.chain(self.lenders.reports().into_iter().map(|borrower| borrower.name)).collect()
    }

    fn on_known_job(
        &self,
        which: &Which,
        order: impl Fn(&Lending, Option<&str>),
    ) -> Result<Json<Ordered>, StatusCode> {
        let names = self.job_names();
        if which.job.as_ref().is_some_and(|name| !names.contains(name)) {
            return Err(StatusCode::NOT_FOUND);
        }
        let before = self.lending.paused();
        order(&self.lending, which.job.as_deref());
        let after = self.lending.paused();
        let mut jobs = names.clone();
        jobs.retain(|name| before.is(name) != after.is(name));
        let paused = names.into_iter().filter(|name| after.is(name)).collect();
        Ok(Json(Ordered { jobs, paused }))
    }

    fn limit(&self) -> LimitReport {
        LimitReport {
            limit: self.dials.limit().to_string(),
            rate_bytes_per_sec: self.dials.rate(),
            jobs: self.job_names().len(),
        }
    }

    /// What the jobs do; who is paused hangs, and who is further behind than the circle explains, or than the source's
    /// data lasts, lags.
    fn jobs(&self, status: &Status) -> Vec<JobReport> {
        let paused = self.lending.paused();
        let usual = status.access_intervals.map_or(Duration::ZERO, |intervals| intervals.p99);
        let last_moment = Some(status.retention.mul_f64(TOLD_FROM)).filter(|span| !span.is_zero());
        let is_cooling = !status.cooling_for.is_zero();
        let bound = (usual * LAG_INTERVALS).max(LEAST_LAG).min(last_moment.unwrap_or(Duration::MAX));
        let is_longer =
            |span_s: Option<f64>, bound: Duration| span_s.is_some_and(|s| s > bound.as_secs_f64());
        let mut jobs = self.board.reports();
        for job in &mut jobs {
            // How often a job looks is its own affair, as long as nothing is lost by it.
            let is_late = is_longer(job.lag_s, bound)
                || last_moment.is_some_and(|last_moment| is_longer(job.unseen_s, last_moment));
            job.state = match job.state {
                _ if paused.is(&job.name) => State::Paused,
                State::Waiting if is_cooling => State::BackingOff,
                State::Idle | State::Waiting | State::Pulling if is_late => State::Lagging,
                other => other,
            };
        }
        jobs
    }

    /// How the member is; `None` when it has ended.
    pub(super) async fn report(&self) -> Option<StatusReport> {
        let status = self.handle.status().await.ok()?;
        let listen = self.handle.address().to_string();
        let (circle, name) = (self.circle.clone(), self.name.clone());
        let (jobs, mut borrowers) = (self.jobs(&status), self.lenders.reports());
        for borrower in &mut borrowers {
            if borrower.state == State::Waiting && !status.cooling_for.is_zero() {
                borrower.state = State::BackingOff;
            }
        }
        let report = StatusReport::new(circle, name, listen, &status, jobs, borrowers);
        let mut at_risk = self.risks.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // A job may have caught up since the notices looked.
        at_risk.retain(|risk| {
            report.jobs.iter().any(|job| job.name == risk.job && is_behind(job, status.retention))
        });
        let page = self.page.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Some(StatusReport { borrowed_bytes: self.board.borrowed_bytes(), at_risk, page, ..report })
    }

    /// Jobs that may lose data, as the notices found last.
    pub(super) fn set_risks(&self, risks: Vec<RiskReport>) {
        *self.risks.lock().unwrap_or_else(PoisonError::into_inner) = risks;
    }
}

/// Whether a job is far enough behind, or has not seen its source for long enough, to be warned of.
fn is_behind(job: &JobReport, retention: Duration) -> bool {
    let longest = job.lag_s.unwrap_or(0.0).max(job.unseen_s.unwrap_or(0.0));
    longest >= retention.as_secs_f64() * TREND_FROM
}

/// Serves the control socket until the task is ended. A socket whose file was removed is made again.
pub(super) async fn serve(path: &Path, served: Served) -> Result<JoinHandle<()>, ControlError> {
    if UnixStream::connect(path).await.is_ok() {
        return Err(ControlError::Running(path.to_owned()));
    }
    let failed = |source| ControlError::Io { path: path.to_owned(), source };
    // Left behind by a member that was killed.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let listener = listen(path).map_err(failed)?;
    let router = Router::new()
        .route("/v1/status", get(status))
        .route("/v1/probe", get(probe))
        .route("/v1/reload", post(reload_files))
        .route("/v1/pause", post(pause))
        .route("/v1/resume", post(resume))
        .route("/v1/bwlimit", get(limit).post(set_limit))
        .with_state(served.clone())
        .merge(borrowing::routes(served.lenders));
    Ok(tokio::spawn(keep_serving(path.to_owned(), listener, router)))
}

fn listen(path: &Path) -> io::Result<UnixListener> {
    let listener = UnixListener::bind(path)?;
    // The home is closed to others already; the socket says so for itself.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Serves, and checks regularly whether the socket's file still exists: new clients cannot connect without it.
async fn keep_serving(path: PathBuf, listener: UnixListener, router: Router) {
    // Ends with this task. Connections to a socket without a file go on, so its listener does as well.
    let mut listeners = JoinSet::new();
    let serve = |listener| {
        let router = router.clone();
        async move {
            let _ = axum::serve(listener, router).await;
        }
    };
    listeners.spawn(serve(listener));
    let mut has_failed = false;
    loop {
        sleep(LOOK_EVERY).await;
        // An existing file is never replaced, even if it belongs to another process by now.
        if path.symlink_metadata().is_ok() {
            continue;
        }
        match listen(&path) {
            Ok(listener) => {
                warn!(path = %path.display(), "the control socket was removed; it is there again");
                listeners.spawn(serve(listener));
                has_failed = false;
            }
            Err(error) if !has_failed => {
                warn!(path = %path.display(), %error, "the control socket was removed, and cannot be made again");
                has_failed = true;
            }
            Err(_) => {}
        }
    }
}

async fn status(Of(served): Of<Served>) -> Result<Json<StatusReport>, StatusCode> {
    served.report().await.map(Json).ok_or(StatusCode::SERVICE_UNAVAILABLE)
}

/// The files were changed by somebody else.
async fn reload_files(Of(served): Of<Served>) -> StatusCode {
    // If one is waiting already, that will read the newest files as well.
    let _ = served.reload.try_send(());
    StatusCode::OK
}

/// One job, by its name; all of them, if none is named.
#[derive(Debug, Deserialize)]
struct Which {
    job: Option<String>,
}

/// Result of an order to pause or to resume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ordered {
    /// Jobs, and commands that borrow slots, that were paused by it, or go on by it.
    pub jobs: Vec<String>,
    /// Those that are paused now.
    pub paused: Vec<String>,
}

/// How fast all jobs of a member together may pull.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitReport {
    /// The rate or the timetable, as it was written.
    pub limit: String,
    /// The rate at this moment; nothing for no limit.
    pub rate_bytes_per_sec: Option<u64>,
    /// How many jobs, and commands that borrow slots, it holds for.
    pub jobs: usize,
}

async fn pause(Of(served): Of<Served>, Query(which): Query<Which>) -> Result<Json<Ordered>, StatusCode> {
    served.on_known_job(&which, Lending::pause)
}

async fn resume(Of(served): Of<Served>, Query(which): Query<Which>) -> Result<Json<Ordered>, StatusCode> {
    served.on_known_job(&which, Lending::resume)
}

/// How fast all jobs of this member together may pull: a rate, or a timetable.
#[derive(Debug, Deserialize)]
struct NewLimit {
    to: String,
}

async fn set_limit(
    Of(served): Of<Served>,
    Query(new): Query<NewLimit>,
) -> Result<Json<LimitReport>, StatusCode> {
    let timetable = Timetable::parse(&new.to).map_err(|_| StatusCode::BAD_REQUEST)?;
    served.dials.set_limit(timetable);
    Ok(Json(served.limit()))
}

async fn limit(Of(served): Of<Served>) -> Json<LimitReport> {
    Json(served.limit())
}

/// The same, after everybody who is known was asked whether they are there.
async fn probe(served: Of<Served>) -> Result<Json<StatusReport>, StatusCode> {
    served.handle.command(Command::Probe).await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    sleep(PROBE_FOR).await;
    status(served).await
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
        self.in_time(self.post("/v1/reload")).await
    }

    /// Pauses a job of this name, or all of them.
    pub async fn pause(&self, job: Option<&str>) -> Result<Ordered, ControlError> {
        self.order("/v1/pause", "job", job).await
    }

    /// Lets it, or all of them, go on.
    pub async fn resume(&self, job: Option<&str>) -> Result<Ordered, ControlError> {
        self.order("/v1/resume", "job", job).await
    }

    /// Sets how fast all jobs together may pull: a rate, or a timetable.
    pub async fn set_limit(&self, to: &str) -> Result<LimitReport, ControlError> {
        self.order("/v1/bwlimit", "to", Some(to)).await
    }

    /// Asks how fast all jobs together may pull.
    pub async fn limit(&self) -> Result<LimitReport, ControlError> {
        self.ask("/v1/bwlimit").await
    }

    /// A member of an earlier version obeys the order and answers with an empty body.
    async fn order<T: DeserializeOwned + Default>(
        &self,
        target: &str,
        key: &str,
        value: Option<&str>,
    ) -> Result<T, ControlError> {
        let query = value.map(|value| {
            let pair = url::form_urlencoded::Serializer::new(String::new()).append_pair(key, value).finish();
            format!("?{pair}")
        });
        let target = format!("{target}{}", query.unwrap_or_default());
        let body = self.in_time(self.request("POST", &target)).await?;
        Ok(serde_json::from_slice(&body).unwrap_or_default())
    }

    /// A process that is stopped takes connections, and never says a word.
    pub(super) async fn in_time<T>(
        &self,
        asked: impl Future<Output = Result<T, ControlError>>,
    ) -> Result<T, ControlError> {
        timeout(PATIENCE, asked).await.unwrap_or_else(|_| Err(ControlError::Silent(self.path.clone())))
    }

    async fn ask<T: DeserializeOwned>(&self, target: &str) -> Result<T, ControlError> {
        let body = self.in_time(self.request("GET", target)).await?;
        serde_json::from_slice(&body).map_err(|error| ControlError::Nonsense(error.to_string()))
    }

    /// Asks for slots for a job of this process. They go on when the member is started again; they end if it is away for
    /// longer than a minute.
    pub async fn borrow(&self, errand: &Errand) -> Result<Slots, ControlError> {
        borrowed::borrow_from(self, errand).await
    }

    /// Says something to which only "yes" is an answer, and waits for it however long it takes: what a borrower has to say
    /// must be heard.
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
