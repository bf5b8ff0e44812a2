//! `stroll pause`, `resume` and `bwlimit`: short words to a running member.

use stroll::base::units::human_size;
use stroll::fetch::timetable::Timetable;
use stroll::peer::{Client, LimitReport, Ordered};

use super::exit::UsageError;
use super::homes::HomeArgs;

/// Pause a job of the running member, or all of them. A pull that is under way ends at once; the token goes on.
#[derive(Debug, clap::Args)]
pub(super) struct PauseArgs {
    /// Which job, as `stroll status` calls it [default: all]
    #[arg(value_name = "JOB")]
    job: Option<String>,

    #[command(flatten)]
    home: HomeArgs,
}

/// Let a paused job of the running member, or all of them, go on.
#[derive(Debug, clap::Args)]
pub(super) struct ResumeArgs {
    /// Which job, as `stroll status` calls it [default: all]
    #[arg(value_name = "JOB")]
    job: Option<String>,

    #[command(flatten)]
    home: HomeArgs,
}

/// Show how fast the jobs of the running member may pull together, or change it from now on.
#[derive(Debug, clap::Args)]
pub(super) struct LimitArgs {
    /// How fast at most, in bytes a second: 2M, 10Mbit, off, or a timetable ("Mon-08:00,512k Fri-21:00,off"); if left out,
    /// the limit is only shown
    #[arg(value_name = "RATE|TIMETABLE", num_args = 0..)]
    to: Vec<String>,

    /// Print the limit as JSON
    #[arg(long, env = "STROLL_JSON")]
    json: bool,

    #[command(flatten)]
    home: HomeArgs,
}

pub(super) fn pause(args: &PauseArgs) -> anyhow::Result<()> {
    order(&args.home, async |client| {
        let job = args.job.as_deref();
        let ordered = client.pause(job).await.map_err(|error| known(error, job))?;
        eprintln!("{}", paused(&ordered, job));
        Ok(())
    })
}

pub(super) fn resume(args: &ResumeArgs) -> anyhow::Result<()> {
    order(&args.home, async |client| {
        let job = args.job.as_deref();
        let ordered = client.resume(job).await.map_err(|error| known(error, job))?;
        eprintln!("{}", resumed(&ordered, job));
        Ok(())
    })
}

pub(super) fn limit(args: &LimitArgs) -> anyhow::Result<()> {
    let to = args.to.join(" ");
    if !args.to.is_empty() {
        Timetable::parse(&to).map_err(|error| UsageError(format!("bwlimit: {error}")))?;
    }
    order(&args.home, async |client| {
        let report = if args.to.is_empty() { client.limit().await? } else { client.set_limit(&to).await? };
        match (args.json, args.to.is_empty()) {
            (true, _) => println!("{}", serde_json::to_string(&report)?),
            (false, true) => println!("{}", rate(&report)),
            (false, false) => eprintln!("{} for {}", rate(&report), jobs(report.jobs)),
        }
        Ok(())
    })
}

/// Result of an order to pause, in words.
fn paused(ordered: &Ordered, job: Option<&str>) -> String {
    match (job, ordered.jobs.as_slice()) {
        (Some(job), []) => format!("job {job} was paused already"),
        (Some(job), _) => format!("paused job {job}"),
        (None, []) if ordered.paused.is_empty() => {
            "there are no jobs; those that begin later are paused until `stroll resume`".to_owned()
        }
        (None, []) => "all jobs were paused already".to_owned(),
        (None, changed) => format!("{} paused", jobs(changed.len())),
    }
}

/// Result of an order to resume, in words.
fn resumed(ordered: &Ordered, job: Option<&str>) -> String {
    match (job, ordered.jobs.as_slice()) {
        (Some(job), []) if ordered.paused.iter().any(|paused| paused == job) => {
            format!("job {job} stays paused, as all jobs are; `stroll resume` lets all of them go on")
        }
        (Some(job), []) => format!("job {job} was not paused"),
        (Some(job), _) => format!("resumed job {job}"),
        (None, []) => "no job was paused".to_owned(),
        (None, changed) => format!("{} resumed", jobs(changed.len())),
    }
}

/// The limit in words.
fn rate(report: &LimitReport) -> String {
    let rate = report
        .rate_bytes_per_sec
        .map_or_else(|| "no limit".to_owned(), |rate| format!("limit {}/s", human_size(rate)));
    // Only a timetable has commas. The present rate alone would hide the rest of it.
    if report.limit.contains(',') { format!("{rate} now, by {}", report.limit) } else { rate }
}

fn jobs(count: usize) -> String {
    if count == 1 { "1 job".to_owned() } else { format!("{count} jobs") }
}

fn order(home: &HomeArgs, order: impl AsyncFnOnce(Client) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let (_, home) = home.open()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(order(Client::new(home.path())))
}

/// The one thing that a member can have against it.
fn known(error: stroll::peer::ControlError, job: Option<&str>) -> anyhow::Error {
    match (&error, job) {
        (stroll::peer::ControlError::Nonsense(_), Some(job)) => {
            UsageError(format!("there is no job {job}; `stroll status` lists them")).into()
        }
        _ => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordered(jobs: &[&str], paused: &[&str]) -> Ordered {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Ordered { jobs: owned(jobs), paused: owned(paused) }
    }

    #[test]
    fn orders_say_what_they_did() {
        assert_eq!(paused(&ordered(&["x"], &["x"]), Some("x")), "paused job x");
        assert_eq!(paused(&ordered(&[], &["x"]), Some("x")), "job x was paused already");
        assert_eq!(paused(&ordered(&["a", "b", "c"], &["a", "b", "c"]), None), "3 jobs paused");
        assert!(paused(&ordered(&[], &[]), None).starts_with("there are no jobs"));
        assert_eq!(resumed(&ordered(&["x"], &[]), Some("x")), "resumed job x");
        assert!(resumed(&ordered(&[], &["x"]), Some("x")).starts_with("job x stays paused"));
        assert_eq!(resumed(&ordered(&[], &[]), Some("x")), "job x was not paused");
        assert_eq!(resumed(&ordered(&["a"], &[]), None), "1 job resumed");
    }

    #[test]
    fn a_limit_is_shown_with_its_timetable() {
        let report = |limit: &str, rate_bytes_per_sec| {
            rate(&LimitReport { limit: limit.to_owned(), rate_bytes_per_sec, jobs: 2 })
        };
        assert_eq!(report("1M", Some(1 << 20)), "limit 1.00 MiB/s");
        assert_eq!(report("off", None), "no limit");
        assert_eq!(report("Mon-08:00,off", None), "no limit now, by Mon-08:00,off");
    }
}
