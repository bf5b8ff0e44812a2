//! The command line: arguments, settings, progress, messages; one file or folder per command.
//!
//! Arguments become resolved values here, and everything below runs on those. Data goes to stdout, everything meant
//! for people (progress, messages) to stderr.

mod bars;
mod circle;
mod circles;
#[cfg(feature = "demo")]
mod demo;
mod doctor;
mod ending;
mod exec;
mod exit;
mod get;
mod homes;
mod inspection;
mod job;
mod join;
mod logging;
mod mirror;
mod orders;
mod paper;
mod progress;
mod reach;
mod run;
mod settings;
mod simulate;
mod status;
mod subscribe;
mod terminal;
mod transfer;
mod utc;
mod verify;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use settings::Settings;

/// Labs that pull from one server, as one polite client.
///
/// Many labs pull the same data from one plain FTP or HTTP server and together overload it. With stroll they form a circle
/// in which one token wanders at random: only the member that holds it pulls, for at most its slot.
/// Without a circle it is a download client that never leaves a broken file behind.
#[derive(Debug, Parser)]
#[command(name = "stroll", version, max_term_width = 80, arg_required_else_help = true)]
struct Cli {
    /// Settings file [default: stroll.toml in the configuration folder, if there is one]
    #[arg(long, global = true, value_name = "FILE", env = "STROLL_CONFIG")]
    config: Option<PathBuf>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[cfg(feature = "demo")]
    Demo(Box<demo::Args>),
    Get(Box<get::Args>),
    Exec(exec::Args),
    Mirror(Box<mirror::Args>),
    Verify(verify::Args),
    Subscribe(Box<subscribe::Args>),
    Circle(circle::Args),
    Join(join::Args),
    Run(run::Args),
    Status(status::Args),
    Pause(orders::PauseArgs),
    Resume(orders::ResumeArgs),
    Bwlimit(orders::LimitArgs),
    Doctor(doctor::Args),
    Simulate(Box<simulate::Args>),
    Completions(paper::CompletionsArgs),
    Man(paper::ManArgs),
}

/// Runs the program on the process's arguments.
pub(crate) fn main() -> ExitCode {
    #[cfg(feature = "demo")]
    demo::end_with_parent();
    let cli = Cli::parse();
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if exit::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) if error.is::<exit::Told>() => exit::code(&error),
        Err(error) => {
            eprintln!("stroll: {}", exit::chain(error.as_ref()));
            exit::code(&error)
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<()> {
    let settings = Settings::load(cli.config.as_deref())?;
    match cli.command {
        #[cfg(feature = "demo")]
        Command::Demo(args) => demo::run(&args),
        Command::Get(args) => get::run(&args, settings.transfer),
        Command::Exec(args) => exec::run(&args),
        Command::Mirror(args) => mirror::run(&args, settings.transfer),
        Command::Verify(args) => verify::run(&args),
        Command::Subscribe(args) => subscribe::run(&args, settings.transfer),
        Command::Circle(args) => circle::run(&args),
        Command::Join(args) => join::run(&args),
        Command::Run(args) => run::run(&args, &settings, cli.config.as_deref()),
        Command::Pause(args) => orders::pause(&args),
        Command::Resume(args) => orders::resume(&args),
        Command::Bwlimit(args) => orders::limit(&args),
        Command::Status(args) => status::run(&args),
        Command::Doctor(args) => doctor::run(&args, &settings.transfer),
        Command::Simulate(args) => simulate::run(&args, settings.simulate),
        Command::Completions(args) => paper::completions(&args),
        Command::Man(args) => paper::man(&args),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_flag_has_an_environment_variable_of_its_name() {
        fn check(command: &clap::Command) {
            for arg in command.get_arguments().filter(|arg| !arg.is_positional()) {
                let name = arg.get_long().expect("every flag has a long form");
                if matches!(name, "help" | "version") {
                    continue;
                }
                let expected = format!("STROLL_{}", name.to_uppercase().replace('-', "_"));
                assert_eq!(arg.get_env().and_then(|env| env.to_str()), Some(expected.as_str()), "--{name}");
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }

    /// Examples are copied: they must not be wrapped in the middle.
    #[test]
    fn help_fits_80_columns() {
        fn check(command: &mut clap::Command) {
            let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let help = command.clone().term_width(80).render_long_help().to_string();
            for line in examples.lines().chain(help.lines()) {
                assert!(terminal::width(line) <= 80, "{}: {line}", command.get_name());
            }
            command.get_subcommands_mut().for_each(check);
        }
        check(&mut Cli::command());
    }

    /// What the shipped unit starts.
    fn exec_start(unit: &str) -> Cli {
        let line =
            unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("it starts something");
        let words = line.split_whitespace().map(|word| word.replace("%i", "virgo"));
        Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    #[test]
    fn the_shipped_units_start_what_there_is() {
        let member = exec_start(include_str!("../../config/systemd/stroll@.service"));
        assert!(matches!(member.command, Command::Run(_)), "{member:?}");
        assert!(format!("{member:?}").contains("virgo"), "{member:?}");
        let mirror = exec_start(include_str!("../../config/systemd/stroll-mirror.service"));
        assert!(matches!(mirror.command, Command::Mirror(_)), "{mirror:?}");
    }

    #[test]
    fn the_shipped_units_set_variables_that_there_are() {
        fn known(command: &clap::Command, found: &mut Vec<String>) {
            let names = command.get_arguments().filter_map(clap::Arg::get_env);
            found.extend(names.map(|name| name.to_string_lossy().into_owned()));
            command.get_subcommands().for_each(|command| known(command, found));
        }
        let mut names = Vec::new();
        known(&Cli::command(), &mut names);
        let units = [
            include_str!("../../config/systemd/stroll@.service"),
            include_str!("../../config/systemd/stroll-mirror.service"),
        ];
        for unit in units {
            let set = unit.lines().filter_map(|line| line.strip_prefix("Environment="));
            let set: Vec<&str> = set.flat_map(str::split_whitespace).collect();
            assert!(set.iter().any(|word| word.starts_with("STROLL_HOME=")), "{set:?}");
            for name in set.iter().filter_map(|word| word.split('=').next()) {
                let is_known = !name.starts_with("STROLL_") || names.iter().any(|known| known == name);
                assert!(is_known, "{name}");
            }
        }
    }
}
