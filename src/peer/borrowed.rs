//! The borrower's side of [`borrowing`](super::borrowing): slots of a running member for a job of this process.
//!
//! When the member ends, a turn that is out ends at once, and the borrower asks again until the member is there again: a
//! restart of `stroll run` costs a command nothing but the time that it takes. After [`COMES_BACK_WITHIN`] the slots end.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use crate::base::Time;
use crate::base::units::format_duration;
use crate::driver::BootClock;
use crate::fetch::Slot;
use crate::jobs::{Giver, Slots, Turn, Wish};

use super::DONE;
use super::borrowing::{Errand, Line};
use super::control::{Client, ControlError};

/// How long a member may be away before its borrowers give up: longer than a restart of the service on a slow machine, and
/// short enough that a script hears of a member that was ended for good.
const COMES_BACK_WITHIN: Duration = Duration::from_secs(60);

/// How often a member that is away is looked for.
const ASK_EVERY: Duration = Duration::from_millis(500);

/// A loan that lasted this long, or brought a turn, counts as working: a later loss starts a new waiting period.
const WORKS_AFTER: Duration = Duration::from_secs(10);

/// Asks a running member for slots.
pub(super) async fn borrow_from(client: &Client, errand: &Errand) -> Result<Slots, ControlError> {
    let loan = open(client, errand).await?;
    let (slots, giver) = Slots::given();
    let borrowed = Borrowed {
        client: client.clone(),
        errand: errand.clone(),
        giver,
        has_work: false,
        lease: watch::Sender::new(Time::ZERO),
        wanted: watch::Sender::new(false),
        lost_at: None,
    };
    tokio::spawn(borrowed.run(loan));
    Ok(slots)
}

async fn open(client: &Client, errand: &Errand) -> Result<Loan, ControlError> {
    let query = url::form_urlencoded::Serializer::new(String::new())
        .append_pair("kind", &errand.kind)
        .append_pair("what", &errand.what)
        .append_pair("pid", &errand.pid.to_string())
        .finish();
    let target = format!("/v1/borrow?{query}");
    let begun = async {
        let mut lines = client.open("POST", &target).await?;
        match read_line(&mut lines).await {
            Some(Line::Borrower(name)) => Ok((name, lines)),
            _ => Err(ControlError::Nonsense("no name for a borrower".into())),
        }
    };
    let (name, mut lines) = client.in_time(begun).await?;
    let (heard, hearing) = mpsc::channel(16);
    // Reading a line is not cancel-safe, so a task of its own does it.
    let reader = tokio::spawn(async move {
        while let Some(line) = read_line(&mut lines).await {
            if heard.send(line).await.is_err() {
                return;
            }
        }
    });
    Ok(Loan { name, hearing, reader, begun: Instant::now() })
}

async fn read_line<R: AsyncRead + Unpin>(lines: &mut BufReader<R>) -> Option<Line> {
    let mut text = String::new();
    lines.read_line(&mut text).await.ok()?;
    serde_json::from_str(&text).ok()
}

/// One open request. Dropping it ends the member's side of the loan.
struct Loan {
    /// The member's identifier of the borrower.
    name: String,
    hearing: mpsc::Receiver<Line>,
    reader: JoinHandle<()>,
    begun: Instant,
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// Which of the two ends of a loan has gone.
#[derive(PartialEq, Eq)]
enum Gone {
    Job,
    Member,
}

/// A turn that is out: the sender that ends it, and the receiver of the bytes that it brought.
type Out = (watch::Sender<bool>, oneshot::Receiver<u64>);

/// The borrower's side.
struct Borrowed {
    client: Client,
    errand: Errand,
    giver: Giver,
    /// Last statement of the job about its work.
    has_work: bool,
    lease: watch::Sender<Time>,
    /// Whether another member, or another job, waits for the turn that is out.
    wanted: watch::Sender<bool>,
    /// Since when the member is away, or ends every loan soon.
    lost_at: Option<Instant>,
}

impl Borrowed {
    async fn run(mut self, mut loan: Loan) {
        loop {
            if self.serve(&mut loan).await == Gone::Job {
                return;
            }
            if loan.begun.elapsed() >= WORKS_AFTER {
                self.lost_at = None;
            }
            drop(loan);
            match self.find_again().await {
                Some(again) => loan = again,
                // With the giver the job's slots end.
                None => return,
            }
        }
    }

    /// Translates lines into turns and wishes into requests, until one of the two ends.
    async fn serve(&mut self, loan: &mut Loan) -> Gone {
        let mut out: Option<Out> = None;
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
                    self.tell(loan, &format!("ended/{bytes}")).await;
                }
                line = loan.hearing.recv() => {
                    let Some(line) = line else {
                        self.on_loss(out);
                        return Gone::Member;
                    };
                    self.on_line(line, &mut out).await;
                }
                wish = self.giver.wishes.recv() => match wish {
                    Some(Wish::Work(has_work)) => {
                        self.has_work = has_work;
                        self.tell(loan, &format!("work/{has_work}")).await;
                    }
                    Some(Wish::Cool(span, reason)) => {
                        let said = url::form_urlencoded::Serializer::new(String::new())
                            .append_pair("reason", &reason)
                            .finish();
                        self.tell(loan, &format!("cool/{}?{said}", span.as_secs().max(1))).await;
                    }
                    None => return Gone::Job,
                },
            }
        }
    }

    async fn on_line(&mut self, line: Line, out: &mut Option<Out>) {
        match line {
            Line::Turn { until_ns, rate_bytes_per_sec, counts_connections, lease_ns, terms } => {
                self.lost_at = None;
                let (order, stop) = watch::channel(false);
                self.lease.send_replace(Time::from_nanos(lease_ns.unwrap_or(0)));
                self.wanted.send_replace(terms.is_wanted);
                let slot = slot(until_ns, rate_bytes_per_sec, stop)
                    .leased(lease_ns.map(|_| self.lease.subscribe()))
                    .wanted_when(self.wanted.subscribe());
                let (turn, ended) = Turn::new(slot.counting_connections(counts_connections));
                let turn = turn.at_rhythm(terms.rhythm()).within(terms.allowance());
                *out = Some((order, ended));
                // If the job is gone, its wishes end too.
                let _ = self.giver.turns.send(turn).await;
            }
            Line::Lease { until_ns } => {
                self.lease.send_replace(Time::from_nanos(until_ns));
            }
            Line::Wanted(is_wanted) => {
                self.wanted.send_replace(is_wanted);
            }
            Line::Soon {} => {
                self.giver.soon.send_replace(());
            }
            Line::Stop {} => {
                if let Some((order, _)) = out {
                    order.send_replace(true);
                }
            }
            Line::Outlook { wait_ms } => self.giver.outlook.set(Some(Duration::from_millis(wait_ms))),
            Line::Borrower(_) => {}
        }
    }

    /// Ends the turn that is out: without a member there is no right to pull.
    fn on_loss(&self, out: Option<Out>) {
        if let Some((order, _)) = out {
            order.send_replace(true);
        }
        self.lease.send_replace(Time::ZERO);
        self.giver.outlook.set(None);
    }

    /// Looks for the member until it is there again; `None` if it stays away, or the job does not want it any more.
    async fn find_again(&mut self) -> Option<Loan> {
        let patience = format_duration(COMES_BACK_WITHIN);
        if self.lost_at.is_none() {
            warn!(
                "the running member (`stroll run`) has ended; waiting up to {patience} for it to come back"
            );
        }
        let lost_at = *self.lost_at.get_or_insert_with(Instant::now);
        while lost_at.elapsed() < COMES_BACK_WITHIN {
            self.pause().await?;
            if let Ok(loan) = open(&self.client, &self.errand).await {
                info!(target: DONE, "the running member is there again");
                self.tell(&loan, &format!("work/{}", self.has_work)).await;
                return Some(loan);
            }
        }
        warn!("the running member did not come back within {patience}; start it with `stroll run`");
        None
    }

    /// Waits a moment and follows the job's wishes meanwhile; `None` if the job is gone.
    async fn pause(&mut self) -> Option<()> {
        let moment = sleep(ASK_EVERY);
        tokio::pin!(moment);
        loop {
            tokio::select! {
                () = &mut moment => return Some(()),
                wish = self.giver.wishes.recv() => match wish? {
                    Wish::Work(has_work) => self.has_work = has_work,
                    // There is no member to tell, and the job itself observes the pause.
                    Wish::Cool(..) => {}
                },
            }
        }
    }

    async fn tell(&self, loan: &Loan, what: &str) {
        // If the member is gone, the open request ends as well.
        let _ = self.client.post(&format!("/v1/borrow/{}/{what}", loan.name)).await;
    }
}

fn slot(until_ns: i64, rate: Option<u64>, stop: watch::Receiver<bool>) -> Slot {
    Slot::until(Time::from_nanos(until_ns), Arc::new(|| BootClock::new().now()), stop).at_rate(rate)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tokio::io::AsyncWriteExt as _;
    use tokio::net::{UnixListener, UnixStream};

    use super::*;

    /// A member that lends one endless turn to every borrower; the requests that it receives come out.
    struct Member {
        task: JoinHandle<()>,
        told: mpsc::UnboundedReceiver<String>,
    }

    impl Member {
        fn start(home: &Path) -> Self {
            let path = home.join("control.sock");
            let _ = std::fs::remove_file(&path);
            let listener = UnixListener::bind(path).expect("a socket");
            let (tell, told) = mpsc::unbounded_channel();
            let task = tokio::spawn(async move {
                let mut lent = Vec::new();
                while let Ok((stream, _)) = listener.accept().await {
                    lent.extend(answer(stream, &tell).await);
                }
            });
            Self { task, told }
        }

        /// As if it was killed: all its connections break.
        async fn kill(self) {
            self.task.abort();
            let _ = self.task.await;
        }
    }

    /// Answers one request, and keeps the connection of one that borrows.
    async fn answer(stream: UnixStream, tell: &mpsc::UnboundedSender<String>) -> Option<UnixStream> {
        let mut stream = BufReader::new(stream);
        let mut request = String::new();
        stream.read_line(&mut request).await.ok()?;
        let mut header = String::new();
        while stream.read_line(&mut header).await.ok()? > 2 {
            header.clear();
        }
        let is_loan = request.contains("/v1/borrow?");
        let _ = tell.send(request);
        let mut stream = stream.into_inner();
        let mut text = "HTTP/1.0 200 OK\r\n\r\n".to_owned();
        if is_loan {
            text.push_str("{\"borrower\":\"ab\"}\n{\"turn\":{\"until_ns\":9000000000000000000,");
            text.push_str("\"rate_bytes_per_sec\":null,\"counts_connections\":false,\"lease_ns\":null}}\n");
        }
        stream.write_all(text.as_bytes()).await.ok()?;
        is_loan.then_some(stream)
    }

    async fn borrowing(home: &Path) -> (Member, Slots, Turn) {
        let member = Member::start(home);
        let mut slots = Client::new(home).borrow(&Errand::new("get", "x")).await.expect("a loan");
        slots.want(true);
        let turn = slots.next().await.expect("a turn");
        (member, slots, turn)
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_ends_with_its_member_and_the_slots_go_on_with_the_next_one() {
        let home = tempfile::tempdir().expect("a folder");
        let (member, mut slots, turn) = borrowing(home.path()).await;
        member.kill().await;
        turn.slot.over().await;
        drop(turn);
        let mut again = Member::start(home.path());
        assert!(slots.next().await.is_some_and(|turn| !turn.slot.is_over()));
        // The new member was not told of the work that the old one knew about.
        loop {
            let request = again.told.recv().await.expect("it is told");
            if request.contains("/v1/borrow/ab/work/true") {
                break;
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_slots_end_if_the_member_stays_away() {
        let home = tempfile::tempdir().expect("a folder");
        let (member, mut slots, turn) = borrowing(home.path()).await;
        let begun = Instant::now();
        member.kill().await;
        drop(turn);
        assert!(slots.next().await.is_none());
        let waited = begun.elapsed();
        assert!(waited >= COMES_BACK_WITHIN && waited < COMES_BACK_WITHIN * 2, "{waited:?}");
    }
}
