//! `stroll circle`: found a circle, let others in, look at it, change it.
//!
//! Everything here works on the home's files; no datagram is sent. A running member reads what changed, and is asked whom
//! it knows.

mod admit;
mod change;
mod constants;
mod create;
mod members;
mod mode;
mod show;

use clap::Subcommand;
use stroll::trust::{Credentials, InvitationLedger};
use stroll::wire::records::Certificate;

use super::exit::UsageError;
use super::homes::{HomeArgs, quoted};
use super::utc::format_utc;

pub(super) use mode::ModeName;

/// Create a circle, invite others into it, look at it and change it.
#[derive(Debug, clap::Args)]
#[command(after_help = "From nothing to a circle of two:
  lab-a$ stroll circle create virgo --source ftp://ftp.example.org/stream/
  lab-a$ stroll run &
  lab-a$ stroll circle invite lab-b
  lab-b$ stroll join st1-…

How members take turns is chosen once:
  token    one at a time, with rare short exceptions, survives almost anything
  tickets  n at once, possibly fewer: circle create … --mode tickets --tickets 5")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Create(create::Args),
    Invite(admit::InviteArgs),
    Sign(admit::SignArgs),
    Show(show::ShowArgs),
    Members(members::Args),
    Ban(change::BanArgs),
    Amend(change::AmendArgs),
}

/// Does what the subcommand says.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.command {
        Command::Create(args) => create::run(args),
        Command::Invite(args) => admit::invite(args),
        Command::Sign(args) => admit::sign(args),
        Command::Show(args) => show::show(args),
        Command::Members(args) => members::run(args),
        Command::Ban(args) => change::ban(args),
        Command::Amend(args) => change::amend(args),
    }
}

/// Refuses a name that somebody else bears: two members of one name could not be told apart by people.
fn check_free(
    name: &str,
    ledger: &InvitationLedger,
    credentials: &Credentials,
    wall_s: u64,
    homes: &HomeArgs,
    circle: &str,
) -> Result<(), UsageError> {
    let bears =
        |certificate: &&Certificate| certificate.name == name && holds(certificate, credentials, wall_s);
    let Some(held) = ledger.certificates().iter().find(bears) else { return Ok(()) };
    Err(UsageError(format!(
        "the name {name} is taken: that member has certificate {} until {}; choose another name, or if its key was lost \
         run `stroll circle ban {}{}` first",
        held.serial,
        format_utc(held.not_after_s),
        quoted(name),
        homes.flags(circle),
    )))
}

/// Whether a certificate is neither banned nor over.
fn holds(certificate: &Certificate, credentials: &Credentials, wall_s: u64) -> bool {
    certificate.not_after_s >= wall_s && !credentials.roll.is_banned(certificate.serial)
}
