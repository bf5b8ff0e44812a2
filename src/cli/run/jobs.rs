//! Runs the jobs of the settings in a member's slots, and follows the settings when they change.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use stroll::driver::random_bytes;
use stroll::fetch::Address;
use stroll::fetch::limit::Limiter;
use stroll::jobs::exec::Plan;
use stroll::jobs::timing::Timing;
use stroll::jobs::{Board, Patience};
use stroll::peer::{Lending, Terms};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::tables::{ExecOptions, Job, JobTable};
use super::work::{Ready, Work};
use crate::cli::circles::{Source, remedy, uncovered};
use crate::cli::homes::HomeArgs;
use crate::cli::job::{Sums, config, state_folder};
use crate::cli::transfer::Transfer;
use crate::cli::{exit, mirror as mirror_command, subscribe as subscribe_command};

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

/// Number of jobs by how a new reading of the settings affected them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    added: usize,
    /// Those that had ended, and are begun again, included.
    changed: usize,
    removed: usize,
    unchanged: usize,
}

/// `1 job added, 2 unchanged`: counts of zero are left out.
impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { added, changed, removed, unchanged } = *self;
        let counts = [(added, "added"), (changed, "changed"), (removed, "removed"), (unchanged, "unchanged")];
        let mut told = counts.into_iter().filter(|(count, _)| *count > 0).enumerate().peekable();
        if told.peek().is_none() {
            return f.write_str("no jobs");
        }
        told.try_for_each(|(index, (count, what))| match (index, count) {
            (0, 1) => write!(f, "1 job {what}"),
            (0, _) => write!(f, "{count} jobs {what}"),
            _ => write!(f, ", {count} {what}"),
        })
    }
}

impl Jobs {
    /// Makes what runs what is wanted: ends jobs that are gone or changed, begins new ones. Nothing is changed if one of
    /// them makes no sense. Returns the number of jobs that were added, changed, removed and left alone.
    pub(super) async fn follow(
        &mut self,
        wanted: Vec<(String, Job)>,
        transfer: &Transfer,
        circle: &str,
        place: &Place,
    ) -> anyhow::Result<Changes> {
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
        let is_wanted = |name: &&String| ready.contains_key(*name);
        let kept = self.running.iter().filter(|(name, running)| is_same(name, running)).count();
        let known = self.running.keys().filter(is_wanted).count();
        let changes = Changes {
            added: ready.len() - known,
            changed: known - kept,
            removed: self.running.len() - known,
            unchanged: kept,
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
        Ok(changes)
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
        Ready::Exec(plan, ..) => (plan.line(), String::new()),
    };
    let line = place.board.enter(job.kind(), name, &source, &target);
    let terms = Terms { name: line.report().name, priority: job.head().priority };
    let slots = place.lending.borrow_on(terms).await?;
    let log = ready.log(name);
    let work = Work { slots, limiter: place.limiter.clone(), stop: stopped, line, log };
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
            let timing = table.options.timing().with_context(context)?;
            Ok(Ready::Mirror(Box::new(spec), Box::new(config), timing))
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
    let timing = Timing::new(options.every, options.schedule.as_deref(), options.catch_up)
        .map_err(|error| job.wrong(&error.to_string()))?;
    Ok(Ready::Exec(Box::new(plan), timing, state_folder(None)?))
}

/// Those jobs of the settings that belong to this circle: by name, by what they pull, or because there is no other circle.
pub(super) fn of_circle(
    jobs: Vec<(String, Job)>,
    circle: &str,
    sources: &[Source],
    home: &HomeArgs,
) -> Result<Vec<(String, Job)>, exit::UsageError> {
    let mut own = Vec::new();
    for (name, job) in jobs {
        let belongs_to = match (&job.head().circle, &job) {
            (Some(named), _) if sources.iter().any(|source| source.circle == *named) => named,
            (Some(named), _) => return Err(job.wrong(&format!("there is no circle {named} here"))),
            (None, Job::Exec(_)) if sources.len() == 1 => circle,
            (None, _) => by_source(&job, sources, home)?,
        };
        if belongs_to == circle {
            own.push((name, job));
        }
    }
    Ok(own)
}

fn by_source<'a>(job: &Job, sources: &'a [Source], home: &HomeArgs) -> Result<&'a str, exit::UsageError> {
    let url = job.head().url.as_deref().unwrap_or_default();
    let Ok((address, _)) = Address::parse(url) else {
        return Err(job.wrong("its `url` does not say which circle it is for; say it with `circle = …`"));
    };
    if let Some(source) = sources.iter().find(|source| source.covers(&address)) {
        return Ok(&source.circle);
    }
    let why = uncovered(&address, sources).unwrap_or_else(|| "there is no circle here".to_owned());
    let remedy = remedy(&address, sources, home);
    Err(job.wrong(&format!("{why}; {remedy}. Or say with `circle = …` in whose slots it runs all the same")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_told_in_one_line_without_what_did_not_happen() {
        let told =
            |added, changed, removed, unchanged| Changes { added, changed, removed, unchanged }.to_string();
        assert_eq!(told(1, 1, 0, 2), "1 job added, 1 changed, 2 unchanged");
        assert_eq!(told(0, 0, 2, 1), "2 jobs removed, 1 unchanged");
        assert_eq!(told(0, 0, 0, 0), "no jobs");
    }
}
