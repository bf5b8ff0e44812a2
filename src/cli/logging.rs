//! The log: to stderr, as text or JSON, as much of it as asked for.

use std::io::{self, Write};

use clap::{ArgAction, ValueEnum};
use indicatif::MultiProgress;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::time::SystemTime;

use super::exit::UsageError;

/// How much is logged, and how it looks.
#[derive(Debug, clap::Args)]
pub(super) struct LogArgs {
    /// Say more; twice for everything
    #[arg(short, long, action = ArgAction::Count, env = "STROLL_VERBOSE")]
    verbose: u8,

    /// Say only what is wrong
    #[arg(short, long, conflicts_with = "verbose", env = "STROLL_QUIET")]
    quiet: bool,

    /// How log lines look
    #[arg(long, value_enum, default_value_t, env = "STROLL_LOG_FORMAT")]
    log_format: Format,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    #[default]
    Text,
    /// One object per line
    Json,
}

impl LogArgs {
    /// Whether only what is wrong is to be said.
    pub(super) fn is_quiet(&self) -> bool {
        self.quiet
    }
}

/// Starts logging to stderr. Once per process.
pub(super) fn start(args: &LogArgs) -> Result<(), UsageError> {
    start_to(args, std::io::stderr)
}

/// Starts logging to stderr, around these bars.
pub(super) fn start_through(args: &LogArgs, bars: MultiProgress) -> Result<(), UsageError> {
    start_to(args, move || AroundBars(bars.clone()))
}

/// Writes to stderr while the bars are out of the way.
struct AroundBars(MultiProgress);

impl Write for AroundBars {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.suspend(|| io::stderr().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

fn start_to<W>(args: &LogArgs, writer: W) -> Result<(), UsageError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let level = match (args.quiet, args.verbose) {
        (true, _) => "error",
        (false, 0) => "warn",
        (false, 1) => "info",
        (false, _) => "debug",
    };
    let filter =
        EnvFilter::try_new(format!("stroll={level}")).map_err(|error| UsageError(error.to_string()))?;
    let is_coloured = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::io::IsTerminal::is_terminal(&std::io::stderr());
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .with_ansi(is_coloured)
        .with_timer(SystemTime)
        .with_target(false);
    // A second start changes nothing, which is as well.
    let _ = match args.log_format {
        Format::Text => log.try_init(),
        Format::Json => log.json().try_init(),
    };
    Ok(())
}
