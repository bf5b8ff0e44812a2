//! `stroll pause`, `resume` and `bwlimit`: short words to a running member.

use stroll::fetch::timetable::Timetable;
use stroll::peer::Client;

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

/// Change how fast the jobs of the running member may pull together, from now on.
#[derive(Debug, clap::Args)]
pub(super) struct LimitArgs {
    /// How fast at most, in bytes a second: 2M, 10Mbit, off, or a timetable ("Mon-08:00,512k Fri-21:00,off")
    #[arg(value_name = "RATE|TIMETABLE", required = true, num_args = 1..)]
    to: Vec<String>,

    #[command(flatten)]
    home: HomeArgs,
}

pub(super) fn pause(args: &PauseArgs) -> anyhow::Result<()> {
    order(&args.home, async |client| {
        client.pause(args.job.as_deref()).await.map_err(|error| known(error, args.job.as_deref()))
    })
}

pub(super) fn resume(args: &ResumeArgs) -> anyhow::Result<()> {
    order(&args.home, async |client| {
        client.resume(args.job.as_deref()).await.map_err(|error| known(error, args.job.as_deref()))
    })
}

pub(super) fn limit(args: &LimitArgs) -> anyhow::Result<()> {
    let to = args.to.join(" ");
    Timetable::parse(&to).map_err(|error| UsageError(format!("bwlimit: {error}")))?;
    order(&args.home, async |client| Ok(client.limit(&to).await?))
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
