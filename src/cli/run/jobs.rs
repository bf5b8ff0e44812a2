//! Runs the jobs of the settings in a member's slots, and follows the settings when they change.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use stroll::base::units::human_size;
use stroll::driver::random_bytes;
use stroll::fetch::Address;
use stroll::fetch::limit::Limiter;
use stroll::jobs::exec::{self, Outcome, Plan};
use stroll::jobs::mirror::{self as mirroring, mirror};
use stroll::jobs::pull::Config;
use stroll::jobs::schedule::Schedule;
use stroll::jobs::stop::or_stop;
use stroll::jobs::subscribe::{self as subscribing, subscribe};
use stroll::jobs::{Board, Line, Patience, Slots, State};
use stroll::peer::{Lending, Terms};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::{info, warn};

use super::tables::{ExecOptions, Job, JobTable};
use crate::cli::bars::chain;
use crate::cli::job::{Sums, config, state_folder};
use crate::cli::transfer::Transfer;
use crate::cli::{exit, mirror as mirror_command, subscribe as subscribe_command};

/// A job that failed is begun again after this, and later each time.
const AGAIN_AFTER: Duration = Duration::from_secs(60);
const AGAIN_AT_LAST: Duration = Duration::from_secs(3_600);

/// How long a command has between being asked to end and being killed, if nothing is said.
const GRACE: Duration = Duration::from_millis(500);

/// How long jobs that the settings no longer name may take to end.
const END_WITHIN: Duration = Duration::from_secs(10);

/// How long all jobs together may take to end when the member does: the whole process has two seconds.
const END_WITH_MEMBER_WITHIN: Duration = Duration::from_millis(500);

/// What jobs need of the member.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) lending: Lending,
    pub(super) board: Board,
    pub(super) limiter: Limiter,
}

/// The jobs that run.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    running: BTreeMap<String, Running>,
}

#[derive(Debug)]
struct Running {
    job: Job,
    transfer: Transfer,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

/// A job whose settings make sense.
enum Ready {
    Subscribe(Box<subscribing::Spec>, Box<Config>),
    Mirror(Box<mirroring::Spec>, Box<Config>, Option<Schedule>),
    Exec(Plan, Option<Schedule>),
}

impl Ready {
    /// When it runs again.
    fn schedule(&self) -> Option<&Schedule> {
        match self {
            Self::Mirror(.., schedule) | Self::Exec(_, schedule) => schedule.as_ref(),
            Self::Subscribe(..) => None,
        }
    }
}

impl Jobs {
    /// Makes what runs what is wanted: ends jobs that are gone or changed, begins new ones. Nothing is changed if one of
    /// them makes no sense.
    pub(super) async fn follow(
        &mut self,
        wanted: Vec<(String, Job)>,
        transfer: &Transfer,
        circle: &str,
        place: &Place,
    ) -> anyhow::Result<()> {
        // They share one limiter, so nobody begins anew because of its rate.
        let transfer = &Transfer { bwlimit: None, ..transfer.clone() };
        let mut ready = BTreeMap::new();
        for (name, job) in wanted {
            let prepared = prepare(&job, transfer, circle)?;
            ready.insert(name, (job, prepared));
        }
        let is_same = |name: &String, running: &Running| {
            let wanted = ready.get(name).is_some_and(|(job, _)| *job == running.job);
            wanted && running.transfer == *transfer && !running.task.is_finished()
        };
        let old: Vec<String> = self
            .running
            .iter()
            .filter(|(name, running)| !is_same(name, running))
            .map(|(name, _)| name.clone())
            .collect();
        let ended = old.into_iter().filter_map(|name| self.running.remove(&name)).collect();
        end(ended, END_WITHIN).await;
        for (name, (job, prepared)) in ready {
            if let Entry::Vacant(free) = self.running.entry(name) {
                let running = begin(free.key(), job, prepared, transfer, place).await?;
                free.insert(running);
            }
        }
        Ok(())
    }

    /// Ends them all.
    pub(super) async fn end(self) {
        end(self.running.into_values().collect(), END_WITH_MEMBER_WITHIN).await;
    }

    pub(super) fn count(&self) -> usize {
        self.running.len()
    }
}

/// Ends all these jobs within a time that they share.
async fn end(jobs: Vec<Running>, within: Duration) {
    for running in &jobs {
        running.stop.send_replace(true);
    }
    let deadline = Instant::now() + within;
    for running in jobs {
        let mut task = running.task;
        if tokio::time::timeout_at(deadline, &mut task).await.is_err() {
            task.abort();
        }
    }
}

async fn begin(
    name: &str,
    job: Job,
    ready: Ready,
    transfer: &Transfer,
    place: &Place,
) -> anyhow::Result<Running> {
    let (stop, stopped) = watch::channel(false);
    let (source, target) = match &ready {
        Ready::Subscribe(spec, _) => (spec.address.to_string(), spec.target.display().to_string()),
        Ready::Mirror(spec, ..) => (spec.source.to_string(), spec.target.display().to_string()),
        Ready::Exec(plan, _) => (plan.program.to_string_lossy().into_owned(), String::new()),
    };
    let line = place.board.enter(job.kind(), name, &source, &target);
    let terms = Terms { name: line.report().name, priority: job.head().priority };
    let slots = place.lending.borrow_on(terms).await?;
    let work = Work { name: name.to_owned(), slots, limiter: place.limiter.clone(), stop: stopped, line };
    let task = tokio::spawn(work.run(ready));
    Ok(Running { job, transfer: transfer.clone(), stop, task })
}

fn prepare(job: &Job, transfer: &Transfer, circle: &str) -> anyhow::Result<Ready> {
    let context = || format!("{} {}", job.kind(), job.name());
    match job {
        Job::Subscribe(table) => {
            let (url, to) = job.ends()?;
            let mut transfer = transfer.clone();
            transfer.retries.get_or_insert(subscribe_command::RETRIES);
            let (address, logins) = subscribe_command::login(url, &transfer).with_context(context)?;
            let now_s = Timestamp::now().as_second();
            let spec = table.options.spec(address, to.clone(), now_s).with_context(context)?;
            let mut config = config(&transfer, logins, state_folder(None)?).with_context(context)?;
            config.patience.at_first = true;
            config.sha256 = true;
            config.sums = table.head.sums == Sums::Auto;
            Arc::make_mut(&mut config.options).portable_names = table.options.portable_names;
            Ok(Ready::Subscribe(Box::new(spec), Box::new(config)))
        }
        Job::Mirror(table) => {
            let (url, to) = job.ends()?;
            let mut logins = transfer.logins()?;
            let source = mirror_command::folder_address(url, &mut logins).with_context(context)?;
            if let Some(login) = transfer.named_login()? {
                logins.give(source.clone(), login);
            }
            let spec = table.options.spec(source, to.clone(), false).with_context(context)?;
            let mut config = config(transfer, logins, state_folder(None)?).with_context(context)?;
            config.sha256 = true;
            config.sums = table.head.sums == Sums::Auto;
            config.patience.at_first = true;
            let config = mirror_command::config_for(&spec, config);
            let schedule = table.options.schedule().with_context(context)?;
            Ok(Ready::Mirror(Box::new(spec), Box::new(config), schedule))
        }
        Job::Exec(table) => exec_plan(job, table, circle),
    }
}

fn exec_plan(job: &Job, table: &JobTable<ExecOptions>, circle: &str) -> anyhow::Result<Ready> {
    let options = &table.options;
    let Some((program, args)) = options.command.split_first() else {
        return Err(job
            .wrong("`command` is missing: a list of words, such as [\"rsync\", \"-a\", …]")
            .into());
    };
    let plan = Plan {
        program: program.into(),
        args: args.iter().map(Into::into).collect(),
        circle: Some(circle.to_owned()),
        grace: options.grace.unwrap_or(GRACE),
        stdin: false,
        patience: Patience { retries: options.retries, ..Patience::default() },
        seed: u64::from_be_bytes(random_bytes()?),
    };
    let schedule = match (options.every, &options.schedule) {
        (Some(_), Some(_)) => return Err(job.wrong("`every` and `schedule`: one is enough").into()),
        (Some(span), None) => Some(Schedule::every(span).map_err(|error| job.wrong(&error.to_string()))?),
        (None, Some(line)) => {
            Some(Schedule::parse_cron(line).map_err(|error| job.wrong(&error.to_string()))?)
        }
        (None, None) => None,
    };
    Ok(Ready::Exec(plan, schedule))
}

/// A job at work.
struct Work {
    name: String,
    slots: Slots,
    limiter: Limiter,
    stop: watch::Receiver<bool>,
    line: Line,
}

/// How a run of a job ended.
enum Ended {
    /// As it should.
    Well,
    /// Some of it failed, which the next run by its schedule may mend.
    Partly(String),
    /// The job, or the member, is to end.
    Stopped,
    Badly(String),
}

impl Work {
    /// Again and again: by its schedule, and after a failure a little later.
    async fn run(mut self, ready: Ready) {
        let mut again_after = AGAIN_AFTER;
        loop {
            let started = Timestamp::now();
            let ended = self.once(&ready).await;
            // However it ended: a turn that comes before the next run would be kept, and nobody pulls in it.
            self.slots.want(false);
            if self.is_stopped() {
                break;
            }
            // The parts that fail tell the board why as they do; a whole run does not.
            if let Ended::Badly(why) = &ended {
                self.line.failed(why);
            }
            match ended {
                // Nobody told it to: it is the slots that have ended.
                Ended::Stopped => {
                    self.line.failed("it gets no more slots");
                    break;
                }
                Ended::Well => {
                    again_after = AGAIN_AFTER;
                    self.line.mended();
                    if !self.wait_for_schedule(State::Idle, &ready, started).await {
                        break;
                    }
                }
                // Its schedule is soon enough for what failed; until then everybody sees that something did.
                Ended::Partly(_) if ready.schedule().is_some() => {
                    again_after = AGAIN_AFTER;
                    if !self.wait_for_schedule(State::Rtry, &ready, started).await {
                        break;
                    }
                }
                Ended::Partly(why) | Ended::Badly(why) => {
                    warn!(job = self.name, again_in = ?again_after, "{why}");
                    self.line.set_state(State::Rtry);
                    if self.or_stop(tokio::time::sleep(again_after)).await.is_none() {
                        break;
                    }
                    again_after = (again_after * 2).min(AGAIN_AT_LAST);
                }
            }
        }
        self.line.set_state(State::Stop);
        // What has ended stays to be seen until the member ends.
        if !self.is_stopped() {
            self.or_stop(std::future::pending::<()>()).await;
        }
    }

    async fn once(&mut self, ready: &Ready) -> Ended {
        let Self { slots, limiter, stop, line, .. } = self;
        match ready {
            Ready::Subscribe(spec, config) => {
                match subscribe((**spec).clone(), config, slots, limiter, stop, &*line).await {
                    Ok(_) => Ended::Stopped,
                    Err(error) => Ended::Badly(chain(&error)),
                }
            }
            Ready::Mirror(spec, config, _) => {
                match mirror(spec, config, slots, limiter, stop, &*line).await {
                    Ok(outcome) => self.mirrored(&outcome),
                    Err(error) => Ended::Badly(chain(&error)),
                }
            }
            Ready::Exec(plan, _) => {
                line.set_state(State::Wtok);
                match exec::exec(plan, slots, stop).await {
                    Ok(Outcome::Done) => Ended::Well,
                    Ok(Outcome::Failed(status)) => Ended::Badly(format!("the command failed: {status}")),
                    Ok(Outcome::Stopped | Outcome::NoSlots) => Ended::Stopped,
                    Err(error) => Ended::Badly(chain(&error)),
                }
            }
        }
    }

    fn mirrored(&self, outcome: &mirroring::Outcome) -> Ended {
        let counts = &outcome.found.counts;
        self.line.deleted(outcome.deleted.len() as u64);
        self.line.set_refused(counts.refused);
        info!(
            job = self.name,
            pulled = counts.pulled,
            up_to_date = counts.up_to_date,
            failed = counts.failed,
            deleted = outcome.deleted.len(),
            "mirrored {}",
            human_size(outcome.totals.bytes)
        );
        if let Some(refusal) = &outcome.refusal {
            warn!(job = self.name, "nothing was removed: {refusal}");
        }
        match &outcome.delete_error {
            Some(error) => Ended::Badly(chain(error)),
            None if counts.failed > 0 => Ended::Partly(format!("{} files or folders failed", counts.failed)),
            None if counts.refused > 0 => Ended::Partly(format!("{} names were refused", counts.refused)),
            None => Ended::Well,
        }
    }

    /// Whether it is to run again.
    async fn wait_for_schedule(&mut self, state: State, ready: &Ready, started: Timestamp) -> bool {
        self.line.set_state(state);
        let Some(schedule) = ready.schedule() else { return false };
        self.or_stop(schedule.wait(started, Timestamp::now)).await.unwrap_or(false)
    }

    fn is_stopped(&self) -> bool {
        *self.stop.borrow() || self.stop.has_changed().is_err()
    }

    async fn or_stop<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        or_stop(&self.stop, work).await
    }
}

/// Those jobs of the settings that belong to this circle: by name, by what they pull, or because there is no other circle.
pub(super) fn of_circle(
    jobs: Vec<(String, Job)>,
    circle: &str,
    sources: &BTreeMap<String, String>,
) -> Result<Vec<(String, Job)>, exit::UsageError> {
    let mut own = Vec::new();
    for (name, job) in jobs {
        let belongs_to = match (&job.head().circle, &job) {
            (Some(named), _) if sources.contains_key(named) => named.clone(),
            (Some(named), _) => return Err(job.wrong(&format!("there is no circle {named} here"))),
            (None, Job::Exec(_)) if sources.len() == 1 => circle.to_owned(),
            (None, _) => match by_source(&job, sources) {
                Some(found) => found,
                None => return Err(job.wrong("no circle here has its source; say which with `circle = …`")),
            },
        };
        if belongs_to == circle {
            own.push((name, job));
        }
    }
    Ok(own)
}

fn by_source(job: &Job, sources: &BTreeMap<String, String>) -> Option<String> {
    let (address, _) = Address::parse(job.head().url.as_deref()?).ok()?;
    sources.iter().find_map(|(circle, source)| {
        let (source, _) = Address::parse(source).ok()?;
        source.contains(&address).then(|| circle.clone())
    })
}
