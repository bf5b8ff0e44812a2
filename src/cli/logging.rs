//! The log: to stderr, as text or JSON, as much of it as asked for.

use clap::{ArgAction, ValueEnum};
use tracing_subscriber::EnvFilter;
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

/// Starts logging. Once per process.
pub(super) fn start(args: &LogArgs) -> Result<(), UsageError> {
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
        .with_writer(std::io::stderr)
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
