//! Slots of a running member for jobs of other processes, through its control socket.
//!
//! The borrower keeps one request open, whose answer never ends: a line of JSON for everything that it should know. What it
//! has to say goes into short requests of its own. If either process dies, the open request breaks, and the turn ends. Here is
//! the member's side; [`borrowed`](super::borrowed) is the borrower's.
//!
//! ```text
//!   POST /v1/borrow?kind=get&what=…&pid=…   <- {"borrower":"…"}  {"soon":{}}  {"turn":{…}}  {"lease":{…}}  {"wanted":true}  {"stop":{}}  {"outlook":{…}}
//!   POST /v1/borrow/{borrower}/work/true    there is something to pull
//!   POST /v1/borrow/{borrower}/cool/300?reason=…  the source asks to be left alone
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
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::base::Time;
use crate::driver::{BootClock, random_bytes};
use crate::fetch::escape;
use crate::fetch::limit::Waiting;
use crate::jobs::{self, Board, Sign, Slots, Turn, Wish, average_period};

use super::dials::Dials;
use super::lending::{Lending, Paused, Terms};
use super::report::BorrowerReport;
use super::turn_terms::TurnTerms;

/// How often a waiting borrower learns how long it will have to wait.
const OUTLOOK_EVERY: Duration = Duration::from_secs(1);

/// What a borrower is told, one per line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
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
        /// How often such turns come, and what the member's own limit leaves to this one.
        #[serde(default)]
        terms: TurnTerms,
    },
    /// Whether somebody else waits for the slot.
    Wanted(bool),
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
            _ if paused.is(&name) => jobs::State::Paused,
            (true, _) => jobs::State::Pulling,
            (false, true) => jobs::State::Waiting,
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

/// What the source said with its refusal. A command of an older version does not tell.
#[derive(Debug, Deserialize)]
struct Said {
    #[serde(default)]
    reason: String,
}

async fn cool(
    State(lenders): State<Lenders>,
    Path((borrower, seconds)): Path<(String, u64)>,
    Query(said): Query<Said>,
) -> StatusCode {
    let reason = escape(&said.reason).chars().take(LONGEST_WHAT).collect();
    lenders.say(&borrower, Word::Wish(Wish::Cool(Duration::from_secs(seconds), reason)))
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
    let waiting = lenders.dials.limiter().waiting();
    let loan =
        Loan { name, lenders, slots, said, turn: None, lease: None, wanted: None, waiting, greeted: false };
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
    /// Whether somebody else waits for the slot that is out.
    wanted: Option<watch::Receiver<bool>>,
    /// For the member's limit.
    waiting: Waiting,
    greeted: bool,
}

impl Loan {
    /// Waits for something that the borrower should know; `None` when the member ends.
    async fn next_line(&mut self) -> Option<Line> {
        if !std::mem::replace(&mut self.greeted, true) {
            return Some(Line::Borrower(self.name.clone()));
        }
        loop {
            if let Some((turn, is_told)) = &mut self.turn {
                tokio::select! {
                    () = turn.slot.over(), if !*is_told => {
                        *is_told = true;
                        return Some(Line::Stop {});
                    }
                    until = told(&mut self.lease), if !*is_told => {
                        return Some(Line::Lease { until_ns: until.as_nanos() });
                    }
                    is_wanted = told(&mut self.wanted), if !*is_told => return Some(Line::Wanted(is_wanted)),
                    word = self.said.recv() => self.on_word(&word?),
                }
            } else {
                tokio::select! {
                    sign = self.slots.sign() => match sign {
                        Sign::Turn(turn) => {
                            let line = line_of(&turn, &self.lenders.dials);
                            (self.lease, self.wanted) = (turn.slot.lease(), turn.slot.wanted());
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
                self.waiting.set(*has_work);
                self.note(|borrower| borrower.has_work = *has_work);
            }
            Word::Wish(Wish::Cool(span, reason)) => self.slots.cool(*span, reason.clone()),
            Word::Ended { bytes } => {
                if let Some((mut turn, _)) = self.turn.take() {
                    turn.carried(*bytes);
                }
                self.lenders.board.add_borrowed(*bytes);
                self.lenders.dials.limiter().charge(*bytes);
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

/// One turn is out at a time, so what the limit leaves to all together is what it leaves to this one.
fn line_of(turn: &Turn, dials: &Dials) -> Line {
    let slot = &turn.slot;
    let left = slot.left().unwrap_or_default();
    dials.limiter().average_over(Some(average_period(turn.rhythm.interval, left)));
    let terms = TurnTerms::new(turn, dials.rate(), dials.limiter().within(Duration::ZERO));
    Line::Turn {
        until_ns: (BootClock::new().now() + left).as_nanos(),
        rate_bytes_per_sec: slot.rate_bytes_per_sec(),
        counts_connections: slot.counts_connections(),
        lease_ns: slot.lease().map(|lease| lease.borrow().as_nanos()),
        terms,
    }
}

/// Ready when something else is told, such as that a lease was prolonged; never if there is nothing to tell, or nobody
/// left who could.
async fn told<T: Copy>(news: &mut Option<watch::Receiver<T>>) -> T {
    if let Some(news) = news
        && news.changed().await.is_ok()
    {
        return *news.borrow_and_update();
    }
    std::future::pending().await
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
                terms: TurnTerms {
                    interval_ms: Some(41_000),
                    since_last_ms: Some(18_000),
                    limit_bytes_per_sec: Some(9),
                    saved: 8,
                    is_wanted: true,
                },
            },
            Line::Wanted(true),
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
