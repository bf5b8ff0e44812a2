//! `stroll completions` and `stroll man`: what packagers want to have, made from the command line itself.

use std::io::{self, Write as _};
use std::path::PathBuf;

use anyhow::Context as _;
use clap::CommandFactory as _;
use clap_complete::Shell;

use super::Cli;

/// Print completions for a shell.
///
/// For bash: stroll completions bash > ~/.local/share/bash-completion/completions/stroll
#[derive(Debug, clap::Args)]
pub(super) struct CompletionsArgs {
    /// Which shell
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

/// Print the manual page, or write those of all commands into a folder.
#[derive(Debug, clap::Args)]
pub(super) struct ManArgs {
    /// Folder for stroll.1, stroll-get.1 and the others
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

pub(super) fn completions(args: &CompletionsArgs) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "stroll", &mut script);
    Ok(io::stdout().lock().write_all(&script)?)
}

pub(super) fn man(args: &ManArgs) -> anyhow::Result<()> {
    let Some(folder) = &args.folder else {
        return Ok(clap_mangen::Man::new(Cli::command()).render(&mut io::stdout().lock())?);
    };
    let write = || {
        std::fs::create_dir_all(folder)?;
        clap_mangen::generate_to(Cli::command(), folder)
    };
    write().with_context(|| format!("cannot write manual pages to {}", folder.display()))
}
