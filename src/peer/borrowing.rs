//! Slots of a running member for jobs of other processes, through its control socket.
//!
//! The borrower keeps one request open, whose answer never ends: a line of JSON for everything that it should know. What it
//! has to say goes into short requests of its own. If either process dies, the open request breaks, and the turn ends.
//!
//! ```text
//!   POST /v1/borrow?kind=get&what=…&pid=…   <- {"borrower":"…"}  {"soon":{}}  {"turn":{…}}  {"lease":{…}}  {"stop":{}}  {"outlook":{…}}
//!   POST /v1/borrow/{borrower}/work/true    there is something to pull
//!   POST /v1/borrow/{borrower}/cool/300     the source asks to be left alone
//!   POST /v1/borrow/{borrower}/ended/{bytes}  so much has come, and not one more byte is read in this turn
//! ```

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use futures_util::stream;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::base::Time;
use crate::driver::{BootClock, random_bytes};
use crate::fetch::limit::smallest;
use crate::fetch::{Slot, escape};
use crate::jobs::{self, Board, Giver, Outlook, Sign, Slots, Turn, Wish};

use super::control::{Client, ControlError};
use super::dials::Dials;
use super::lending::{Lending, Paused, Terms};
use super::report::BorrowerReport;

/// How often a waiting borrower learns how long it will have to wait.
const OUTLOOK_EVERY: Duration = Duration::from_secs(1);

/// What a borrower is told, one per line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// By which name to speak to the member.
    Borrower(String),
    /// A turn may come in a moment.
    Soon {},
    /// A turn, until then on the machine's boot-time clock, at no more than this rate, perhaps with one connection at most.
    Turn {
        until_ns: i64,
        rate_bytes_per_sec: Option<u64>,
        counts_connections: bool,
        /// It ends then unless that is prolonged, should the member itself stand still and order nothing.
        lease_ns: Option<i64>,
    },
    /// The turn may go on until then.
    Lease { until_ns: i64 },
    /// The turn is over.
    Stop {},
    /// How long the wait is expected to last.
    Outlook { wait_ms: u64 },
}

/// What a borrower says.
#[derive(Debug)]
enum Word {
    Wish(Wish),
    Ended { bytes: u64 },
}

/// Letters of what somebody is about that are kept, at most.
const LONGEST_WHAT: usize = 300;

/// Who wants to borrow, for others to see.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Errand {
    /// The command: `get`, `subscribe`, `mirror` or `exec`.
    pub kind: String,
    /// What it pulls or runs, without password.
    pub what: String,
    /// Its process.
    pub pid: u32,
}

impl Errand {
    /// Of this process.
    pub fn new(kind: &str, what: &str) -> Self {
        Self { kind: kind.to_owned(), what: what.to_owned(), pid: std::process::id() }
    }

    /// By which it can be paused.
    fn name(&self) -> String {
        format!("{}-{}", escape(&self.kind), self.pid)
    }
}

/// Somebody who borrows, as the member sees it.
#[derive(Debug)]
struct Borrower {
    words: mpsc::UnboundedSender<Word>,
    errand: Errand,
    since: Instant,
    has_work: bool,
    is_pulling: bool,
    slots: u64,
    bytes: u64,
}

impl Borrower {
    fn report(&self, paused: &Paused) -> BorrowerReport {
        let name = self.errand.name();
        let state = match (self.is_pulling, self.has_work) {
            _ if paused.is(&name) => jobs::State::Hung,
            (true, _) => jobs::State::Run,
            (false, true) => jobs::State::Wtok,
            (false, false) => jobs::State::Idle,
        };
        BorrowerReport {
            name,
            kind: escape(&self.errand.kind),
            what: escape(&self.errand.what),
            state,
            since_s: self.since.elapsed().as_secs_f64(),
            slots: self.slots,
            bytes: self.bytes,
        }
    }
}

/// Those who borrow through the control socket.
#[derive(Clone, Debug)]
pub(super) struct Lenders {
    lending: Lending,
    /// Where what they bring is counted.
    board: Board,
    /// Where the rate is set to which they keep as well.
    dials: Dials,
    borrowers: Arc<Mutex<BTreeMap<String, Borrower>>>,
}

impl Lenders {
    pub(super) fn new(lending: Lending, board: Board, dials: Dials) -> Self {
        Self { lending, board, dials, borrowers: Arc::default() }
    }

    /// Who borrows, the longest first.
    pub(super) fn reports(&self) -> Vec<BorrowerReport> {
        let paused = self.lending.paused();
        let mut reports: Vec<_> =
            self.borrowers().values().map(|borrower| borrower.report(&paused)).collect();
        reports.sort_by(|a, b| b.since_s.total_cmp(&a.since_s));
        reports
    }

    fn borrowers(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Borrower>> {
        self.borrowers.lock().expect("nobody panics with the list in hand")
    }

    fn say(&self, borrower: &str, word: Word) -> StatusCode {
        match self.borrowers().get(borrower).map(|borrower| borrower.words.send(word)) {
            Some(Ok(())) => StatusCode::OK,
            Some(Err(_)) | None => StatusCode::NOT_FOUND,
        }
    }
}

/// The routes of the control socket that are about borrowing.
pub(super) fn routes(lenders: Lenders) -> Router {
    Router::new()
        .route("/v1/borrow", post(borrow))
        .route("/v1/borrow/{borrower}/work/{has_work}", post(work))
        .route("/v1/borrow/{borrower}/cool/{seconds}", post(cool))
        .route("/v1/borrow/{borrower}/ended/{bytes}", post(turn_ended))
        .with_state(lenders)
}

async fn work(
    State(lenders): State<Lenders>,
    Path((borrower, has_work)): Path<(String, bool)>,
) -> StatusCode {
    lenders.say(&borrower, Word::Wish(Wish::Work(has_work)))
}

async fn cool(State(lenders): State<Lenders>, Path((borrower, seconds)): Path<(String, u64)>) -> StatusCode {
    lenders.say(&borrower, Word::Wish(Wish::Cool(Duration::from_secs(seconds))))
}

async fn turn_ended(
    State(lenders): State<Lenders>,
    Path((borrower, bytes)): Path<(String, u64)>,
) -> StatusCode {
    lenders.say(&borrower, Word::Ended { bytes })
}

async fn borrow(State(lenders): State<Lenders>, Query(mut errand): Query<Errand>) -> Response {
    errand.what = errand.what.chars().take(LONGEST_WHAT).collect();
    let terms = Terms { name: errand.name(), ..Terms::default() };
    let (Ok(slots), Ok(id)) = (lenders.lending.borrow_on(terms).await, random_bytes::<16>()) else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let name = data_encoding::HEXLOWER.encode(&id);
    let (words, said) = mpsc::unbounded_channel();
    let since = Instant::now();
    let borrower = Borrower { words, errand, since, has_work: false, is_pulling: false, slots: 0, bytes: 0 };
    lenders.borrowers().insert(name.clone(), borrower);
    let loan = Loan { name, lenders, slots, said, turn: None, lease: None, greeted: false };
    let lines = stream::unfold(loan, |mut loan| async move {
        let line = loan.next_line().await?;
        let mut text = serde_json::to_vec(&line).ok()?;
        text.push(b'\n');
        Some((Ok::<_, Infallible>(Bytes::from(text)), loan))
    });
    Response::new(Body::from_stream(lines))
}

/// One borrower's open request. It is dropped when the borrower goes away, and its turn with it.
struct Loan {
    name: String,
    lenders: Lenders,
    slots: Slots,
    said: mpsc::UnboundedReceiver<Word>,
    turn: Option<(Turn, bool)>,
    /// Until when the turn that is out may go on, while it is prolonged.
    lease: Option<watch::Receiver<Time>>,
    greeted: bool,
}

impl Loan {
    /// Waits for something that the borrower should know; `None` when the member ends.
    async fn next_line(&mut self) -> Option<Line> {
        if !std::mem::replace(&mut self.greeted, true) {
            return Some(Line::Borrower(self.name.clone()));
        }
        loop {
            if let Some((turn, told)) = &mut self.turn {
                tokio::select! {
                    () = turn.slot.over(), if !*told => {
                        *told = true;
                        return Some(Line::Stop {});
                    }
                    until = prolonged(&mut self.lease), if !*told => {
                        return Some(Line::Lease { until_ns: until.as_nanos() });
                    }
                    word = self.said.recv() => self.on_word(&word?),
                }
            } else {
                tokio::select! {
                    sign = self.slots.sign() => match sign {
                        Sign::Turn(turn) => {
                            // One turn is out at a time, so what all may have together is what this one may have.
                            let line = line_of(&turn.slot, self.lenders.dials.rate());
                            self.lease = turn.slot.lease();
                            self.turn = Some((turn, false));
                            self.note(|borrower| {
                                borrower.is_pulling = true;
                                borrower.slots += 1;
                            });
                            return Some(line);
                        }
                        Sign::Soon => return Some(Line::Soon {}),
                        Sign::Never => return None,
                    },
                    word = self.said.recv() => self.on_word(&word?),
                    () = tokio::time::sleep(OUTLOOK_EVERY) => if let Some(wait) = self.slots.expected_wait() {
                        return Some(Line::Outlook { wait_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX) });
                    },
                }
            }
        }
    }

    fn on_word(&mut self, word: &Word) {
        match word {
            Word::Wish(Wish::Work(has_work)) => {
                self.slots.want(*has_work);
                self.note(|borrower| borrower.has_work = *has_work);
            }
            Word::Wish(Wish::Cool(span)) => self.slots.cool(*span),
            Word::Ended { bytes } => {
                if let Some((mut turn, _)) = self.turn.take() {
                    turn.carried(*bytes);
                }
                self.lenders.board.add_borrowed(*bytes);
                self.note(|borrower| {
                    borrower.is_pulling = false;
                    borrower.bytes += bytes;
                });
            }
        }
    }

    /// For others to see.
    fn note(&self, change: impl FnOnce(&mut Borrower)) {
        if let Some(borrower) = self.lenders.borrowers().get_mut(&self.name) {
            change(borrower);
        }
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.lenders.borrowers().remove(&self.name);
    }
}

fn line_of(slot: &Slot, limit: Option<u64>) -> Line {
    let until = BootClock::new().now() + slot.left().unwrap_or_default();
    Line::Turn {
        until_ns: until.as_nanos(),
        rate_bytes_per_sec: smallest([slot.rate_bytes_per_sec(), limit]),
        counts_connections: slot.counts_connections(),
        lease_ns: slot.lease().map(|lease| lease.borrow().as_nanos()),
    }
}

/// Ready when a lease was prolonged; never if there is none, or nobody left who could.
async fn prolonged(lease: &mut Option<watch::Receiver<Time>>) -> Time {
    if let Some(lease) = lease
        && lease.changed().await.is_ok()
    {
        return *lease.borrow_and_update();
    }
    std::future::pending().await
}

/// Asks a running member for slots. They end when the member does.
pub(super) async fn borrow_from(client: &Client, errand: &Errand) -> Result<Slots, ControlError> {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.append_pair("kind", &errand.kind).append_pair("what", &errand.what);
    query.append_pair("pid", &errand.pid.to_string());
    let mut lines = client.open("POST", &format!("/v1/borrow?{}", query.finish())).await?;
    let Some(Line::Borrower(name)) = read_line(&mut lines).await else {
        return Err(ControlError::Nonsense("no name for a borrower".into()));
    };
    let (slots, giver) = Slots::given();
    let borrowed = Borrowed { client: client.clone(), name };
    tokio::spawn(borrowed.run(lines, giver));
    Ok(slots)
}

async fn read_line<R: AsyncRead + Unpin>(lines: &mut BufReader<R>) -> Option<Line> {
    let mut text = String::new();
    lines.read_line(&mut text).await.ok()?;
    serde_json::from_str(&text).ok()
}

/// The borrower's side.
struct Borrowed {
    client: Client,
    name: String,
}

impl Borrowed {
    /// Translates lines into turns and wishes into requests, until one of the two ends.
    async fn run<R: AsyncRead + Unpin + Send + 'static>(self, mut lines: BufReader<R>, giver: Giver) {
        let Giver { turns, soon, mut wishes, outlook } = giver;
        let (heard, mut hearing) = mpsc::channel(16);
        // Reading a line cannot be given up in the middle, so somebody else does it.
        let reader = tokio::spawn(async move {
            while let Some(line) = read_line(&mut lines).await {
                if heard.send(line).await.is_err() {
                    return;
                }
            }
        });
        let mut out: Option<(watch::Sender<bool>, oneshot::Receiver<u64>)> = None;
        let lease = watch::Sender::new(Time::ZERO);
        loop {
            let end = async {
                match &mut out {
                    Some((_, ended)) => ended.await.unwrap_or(0),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                bytes = end => {
                    out = None;
                    self.tell(&format!("ended/{bytes}")).await;
                }
                line = hearing.recv() => match line {
                    Some(Line::Turn { until_ns, rate_bytes_per_sec, counts_connections, lease_ns }) => {
                        let (order, stop) = watch::channel(false);
                        lease.send_replace(Time::from_nanos(lease_ns.unwrap_or(0)));
                        let slot = slot(until_ns, rate_bytes_per_sec, stop)
                            .leased(lease_ns.map(|_| lease.subscribe()));
                        let (turn, ended) = Turn::new(slot.counting_connections(counts_connections));
                        out = Some((order, ended));
                        // If the job is gone, its wishes end too.
                        let _ = turns.send(turn).await;
                    }
                    Some(Line::Lease { until_ns }) => {
                        lease.send_replace(Time::from_nanos(until_ns));
                    }
                    Some(Line::Soon {}) => {
                        soon.send_replace(());
                    }
                    Some(Line::Stop {}) => if let Some((order, _)) = &out {
                        order.send_replace(true);
                    },
                    Some(Line::Outlook { wait_ms }) => set(&outlook, wait_ms),
                    Some(Line::Borrower(_)) => {}
                    None => break,
                },
                wish = wishes.recv() => match wish {
                    Some(Wish::Work(has_work)) => self.tell(&format!("work/{has_work}")).await,
                    Some(Wish::Cool(span)) => self.tell(&format!("cool/{}", span.as_secs().max(1))).await,
                    None => break,
                },
            }
        }
        // With the open request the member's side of the loan ends.
        reader.abort();
    }

    async fn tell(&self, what: &str) {
        // If the member is gone, the open request ends as well.
        let _ = self.client.post(&format!("/v1/borrow/{}/{what}", self.name)).await;
    }
}

fn slot(until_ns: i64, rate: Option<u64>, stop: watch::Receiver<bool>) -> Slot {
    Slot::until(Time::from_nanos(until_ns), Arc::new(|| BootClock::new().now()), stop).at_rate(rate)
}

fn set(outlook: &Outlook, wait_ms: u64) {
    outlook.set(Some(Duration::from_millis(wait_ms)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_reads_back() {
        for line in [
            Line::Borrower("ab".into()),
            Line::Soon {},
            Line::Turn {
                until_ns: 7,
                rate_bytes_per_sec: Some(3),
                counts_connections: true,
                lease_ns: Some(5),
            },
            Line::Lease { until_ns: 6 },
            Line::Stop {},
            Line::Outlook { wait_ms: 9 },
        ] {
            let text = serde_json::to_string(&line).expect("a line");
            assert!(!text.contains('\n'));
            assert_eq!(serde_json::from_str::<Line>(&text).expect("reads back"), line);
        }
    }
}
