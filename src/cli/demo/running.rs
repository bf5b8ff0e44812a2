//! A demo from the first invitation to the last comparison: starts the labs, looks at them all the time, ends them.
//! Called by `mod`.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use stroll::peer::{SpanReport, StatusReport};
use tokio::time::{Instant, sleep};

use super::content::{Content, Produced, TREE, produce, tree_paths};
use super::killing::{Killing, Order};
use super::lab::{Lab, circle, end_all, leave_in_turn, statuses, uncoordinated};
use super::meter::Seen;
use super::plan::Plan;
use super::replica::{Arrivals, Comparison};
use super::report::{Killed, LabReport, Report, Side};
use super::screen::{Picture, Row, Screen};
use super::source::{Protocol, Source};

/// How often the members are asked how they are; and while somebody is dead.
const LOOK_EVERY: Duration = Duration::from_millis(150);
const LOOK_CLOSELY: Duration = Duration::from_millis(20);

/// Labs around one source, and what is known of them.
struct Camp {
    source: Source,
    labs: Vec<Lab>,
    seats: Vec<Seat>,
    is_circle: bool,
    /// What the source had seen when the stream ended.
    seen: Seen,
}

/// What is known of one lab.
struct Seat {
    arrivals: Arrivals,
    /// As it was when it was asked last; a lab that is dead keeps what it said.
    status: Option<StatusReport>,
    worst: Option<Worst>,
    frames_in_time: u64,
    /// Slots before it was killed.
    earlier_slots: u64,
}

/// The worst that a member said of its circle.
struct Worst {
    rank: usize,
    text: String,
}

/// Everything that runs.
struct Running<'a> {
    plan: &'a Plan,
    content: Content,
    produced: Produced,
    circle: Camp,
    others: Option<Camp>,
    killing: Killing,
    page: Option<String>,
    end: Instant,
    screen: &'a mut Screen,
}

/// Runs all of it.
pub(super) async fn run(
    plan: &Plan,
    rules: &str,
    page: Option<SocketAddr>,
    content: Content,
    folder: &Path,
    source: Source,
    screen: &mut Screen,
) -> anyhow::Result<Report> {
    let lab = folder.join("source");
    screen.say(&format!(
        "the source is at {} and {}",
        source.url(Protocol::Http, ""),
        source.url(Protocol::Ftp, "")
    ));
    screen.doing(&format!("{} members are invited, join and start", plan.members));
    let labs = circle(folder, plan, rules, &source, page).await?;
    let page = labs.first().and_then(Lab::page);
    if let Some(page) = &page {
        screen.say(&format!("status page at {page}"));
    }
    let others = if plan.is_compared {
        let source = Source::start(&lab, plan.link_rate(), plan.at_once()).await?;
        let labs = uncoordinated(folder, plan, &source)?;
        Some(Camp::new(source, labs, false))
    } else {
        None
    };
    let begun = Instant::now();
    let kill_from = plan.kills_holder.then(|| begun + plan.stream_span() / 3);
    let mut running = Running {
        plan,
        content,
        produced: Produced::default(),
        circle: Camp::new(source, labs, true),
        others,
        killing: Killing::new(kill_from),
        page,
        end: begun + plan.span,
        screen,
    };
    running.stream(&lab).await?;
    running.catch_up().await?;
    running.finish(begun).await
}

impl Camp {
    fn new(source: Source, labs: Vec<Lab>, is_circle: bool) -> Self {
        let seat = |lab: &Lab| Seat {
            arrivals: Arrivals::new(&lab.replica()),
            status: None,
            worst: None,
            frames_in_time: 0,
            earlier_slots: 0,
        };
        let seats = labs.iter().map(seat).collect();
        Self { source, labs, seats, is_circle, seen: Seen::default() }
    }

    /// Looks at processes and replicas.
    fn look(&mut self, produced: &[Instant], now: Instant) -> anyhow::Result<()> {
        self.labs.iter_mut().try_for_each(Lab::check)?;
        self.seats.iter_mut().for_each(|seat| seat.arrivals.look(produced, now));
        Ok(())
    }

    fn is_complete(&self) -> bool {
        let has_tree = |lab: &Lab| tree_paths().all(|path| lab.replica().join(TREE).join(path).exists());
        self.seats.iter().all(|seat| seat.arrivals.is_complete())
            && (!self.is_circle || self.labs.iter().all(has_tree))
    }

    /// The stream is over: this is what counts.
    fn mark(&mut self) {
        self.seen = self.source.meter().seen();
        self.seats.iter_mut().for_each(|seat| seat.frames_in_time = seat.arrivals.count());
    }

    fn reports(&self, content: &Content, frames: u64) -> anyhow::Result<Vec<LabReport>> {
        let report = |(lab, seat): (&Lab, &Seat)| {
            let comparison = Comparison::of(&lab.replica(), content, frames, self.is_circle)
                .with_context(|| format!("the replica of {}", lab.name))?;
            Ok(LabReport {
                name: lab.name.clone(),
                protocol: lab.protocol.name(),
                frames_in_time: seat.frames_in_time,
                longest_lag: seat.arrivals.longest_lag(),
                return_p99: seat.p99(|status| status.return_time_s),
                access_p99: seat.p99(|status| status.access_interval_s),
                comparison,
                slots: self.is_circle.then(|| seat.slots()),
                verdict: seat.worst.as_ref().map(|worst| worst.text.clone()),
            })
        };
        self.labs.iter().zip(&self.seats).map(report).collect()
    }
}

impl Seat {
    fn slots(&self) -> u64 {
        let now = self.status.as_ref().and_then(|status| status.counters.get("slots").copied());
        self.earlier_slots + now.unwrap_or(0)
    }

    fn p99(&self, of: impl Fn(&StatusReport) -> Option<SpanReport>) -> Option<Duration> {
        Duration::try_from_secs_f64(of(self.status.as_ref()?)?.p99).ok()
    }

    fn hear(&mut self, status: StatusReport) {
        let rank = rank(&status.verdict.level);
        if self.worst.as_ref().is_none_or(|worst| rank >= worst.rank) {
            let text = format!("{}: {}", status.verdict.level, status.verdict.reason);
            self.worst = Some(Worst { rank, text });
        }
        self.status = Some(status);
    }

    fn row(&self, name: &str, is_alive: bool, produced: &[Instant], now: Instant) -> Row {
        let status = self.status.as_ref().filter(|_| is_alive);
        let bytes = self.status.iter().flat_map(|status| &status.jobs).map(|job| job.bytes).sum();
        Row {
            name: name.to_owned(),
            state: status.map_or("dead", |status| &status.state).to_owned(),
            has_token: status.is_some_and(|status| status.token.is_some()),
            ticket: status.and_then(|status| status.ring.as_ref()?.ticket),
            bytes,
            frames: self.arrivals.count(),
            lag: self.arrivals.lag(produced, now),
        }
    }
}

fn rank(level: &str) -> usize {
    let levels = stroll::proto::load::Level::ALL;
    levels.iter().position(|known| known.name() == level).unwrap_or(0)
}

impl Running<'_> {
    /// The stream runs, and the sources count.
    async fn stream(&mut self, folder: &Path) -> anyhow::Result<()> {
        for camp in self.camps() {
            camp.source.meter().reset();
        }
        let produced = self.produced.clone();
        let (content, span) = (self.content, self.plan.stream_span());
        let producing = produce(content, folder, span, &produced);
        tokio::pin!(producing);
        loop {
            let pause = self.look().await?;
            tokio::select! {
                ended = &mut producing => {
                    ended.context("the stream")?;
                    break;
                }
                () = sleep(pause) => {}
            }
        }
        Ok(())
    }

    /// Until everything is everywhere, but not for ever.
    async fn catch_up(&mut self) -> anyhow::Result<()> {
        self.look().await?;
        self.camps().for_each(Camp::mark);
        loop {
            let pause = self.look().await?;
            let now = Instant::now();
            let is_done = self.plan.is_overload || self.camps().all(|camp| camp.is_complete());
            if now >= self.end
                && (is_done && !self.killing.is_close(now) || now >= self.end + self.plan.overtime())
            {
                return Ok(());
            }
            sleep(pause).await;
        }
    }

    fn camps(&mut self) -> impl Iterator<Item = &mut Camp> {
        [Some(&mut self.circle), self.others.as_mut()].into_iter().flatten()
    }

    /// Looks at everything once, shows it, and does what is due. Says when to look again.
    async fn look(&mut self) -> anyhow::Result<Duration> {
        let heard = statuses(&self.circle.labs).await;
        let (now, produced) = (Instant::now(), self.produced.times());
        for camp in self.camps() {
            camp.look(&produced, now)?;
        }
        let order = self.killing.look(&heard, now);
        self.show(&heard, &produced, now);
        for (seat, status) in self.circle.seats.iter_mut().zip(heard) {
            if let Some(status) = status {
                seat.hear(status);
            }
        }
        match order {
            Some(Order::Kill(member)) => self.kill(member).await?,
            Some(Order::Restart(member)) => self.restart(member).await?,
            None => {}
        }
        Ok(if self.killing.is_close(now) { LOOK_CLOSELY } else { LOOK_EVERY })
    }

    async fn kill(&mut self, member: usize) -> anyhow::Result<()> {
        let Some(lab) = self.circle.labs.get_mut(member) else { return Ok(()) };
        lab.kill().await?;
        let right = match self.killing.custody().and_then(|custody| custody.ticket) {
            None => "the token".to_owned(),
            Some(ticket) => format!("ticket {ticket}"),
        };
        self.screen.say(&format!("{} was killed while it had {right}", lab.name));
        if let Some(seat) = self.circle.seats.get_mut(member) {
            seat.earlier_slots = seat.slots();
            seat.status = None;
        }
        Ok(())
    }

    async fn restart(&mut self, member: usize) -> anyhow::Result<()> {
        let Some(lab) = self.circle.labs.get_mut(member) else { return Ok(()) };
        self.screen.say(&format!("{} is started again", lab.name));
        lab.run().await
    }

    fn show(&mut self, heard: &[Option<StatusReport>], produced: &[Instant], now: Instant) {
        let Self { circle, others, screen, .. } = self;
        let labs = circle.labs.iter().zip(&circle.seats).zip(heard);
        let rows = labs.map(|((lab, seat), status)| seat.row(&lab.name, status.is_some(), produced, now));
        let picture = Picture {
            left: self.end.saturating_duration_since(now),
            has_tickets: self.plan.ring.is_some(),
            page: self.page.clone(),
            produced: produced.len() as u64,
            transfers: (
                circle.source.meter().under_way(),
                others.as_ref().map(|camp| camp.source.meter().under_way()),
            ),
            rows: rows.collect(),
        };
        screen.draw(&picture, now);
    }

    /// Ends all processes, then compares.
    async fn finish(mut self, begun: Instant) -> anyhow::Result<Report> {
        self.screen.doing("the members hand over and leave");
        let disorderly = leave_in_turn(&mut self.circle.labs).await;
        if let Some(camp) = &mut self.others {
            end_all(&mut camp.labs).await;
        }
        let took = begun.elapsed();
        self.screen.doing("every replica is compared with its original");
        let frames = self.produced.count();
        let killed = self.killing.custody().map(|custody| Killed {
            name: self.circle.labs.get(custody.member).map_or_else(String::new, |lab| lab.name.clone()),
            ticket: custody.ticket,
            made_good: custody.made_good,
            was_back: custody.was_back,
        });
        let side = |camp: &Camp| {
            let labs = camp.reports(&self.content, frames)?;
            Ok::<_, anyhow::Error>(Side { seen: camp.seen.clone(), labs })
        };
        Ok(Report {
            took,
            frames,
            ring: self.plan.ring,
            slot: self.plan.slot(),
            page: self.page.clone(),
            circle: side(&self.circle)?,
            uncoordinated: self.others.as_ref().map(side).transpose()?,
            is_overload: self.plan.is_overload,
            is_guarded: self.plan.is_guarded,
            wants_kill: self.plan.kills_holder,
            killed,
            disorderly,
        })
    }
}
