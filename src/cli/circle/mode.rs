//! How a circle's members take turns, as flags: the token's circle needs none, one with tickets says how many.

use clap::ValueEnum;
use stroll::base::{MemberId, Ticket};
use stroll::trust::{Credentials, InvitationLedger};
use stroll::wire::member_id;
use stroll::wire::records::{Charter, Mode, Ring};

use crate::cli::exit::UsageError;

use super::holds;

/// More neighbours than this seldom crash together where tickets are spread over labs, and each more costs datagrams.
const USUAL_FAULTS: u8 = 2;

/// The mode of a new circle, for good.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ModeArgs {
    /// How members take turns, for as long as the circle lives
    #[arg(long, value_enum, default_value_t = ModeName::Token, env = "STROLL_MODE")]
    mode: ModeName,

    #[command(flatten)]
    numbers: Numbers,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum ModeName {
    /// One at a time, with rare short exceptions; survives almost anything
    Token,
    /// So many at once, possibly fewer
    Tickets,
}

/// What a ring of tickets is made of.
#[derive(Clone, Debug, clap::Args)]
struct Numbers {
    /// n: how many members may pull at once (tickets)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=1000), env = "STROLL_TICKETS")]
    tickets: Option<Ticket>,

    /// k: how many neighbours in the ring may crash at once (tickets) [new circle: 2]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u8).range(1..=4), env = "STROLL_FAULTS")]
    faults: Option<u8>,
}

impl ModeArgs {
    /// The mode of a circle that this member founds, and whose ring it begins.
    pub(super) fn mode(&self, founder: MemberId) -> Result<Mode, UsageError> {
        let Numbers { tickets, faults } = self.numbers;
        match (self.mode, tickets) {
            (ModeName::Token, None) if faults.is_none() => Ok(Mode::Token),
            (ModeName::Token, _) => Err(UsageError(
                "tickets: --tickets and --faults go with --mode tickets; a token needs neither".to_owned(),
            )),
            (ModeName::Tickets, None) => {
                Err(UsageError("tickets: say how many there are, for example --tickets 5".to_owned()))
            }
            (ModeName::Tickets, Some(tickets)) => {
                let faults = faults.unwrap_or(USUAL_FAULTS);
                Ok(Mode::Tickets(Ring { tickets, faults, first: founder, epoch: 1 }))
            }
        }
    }
}

/// What to change about a ring.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct RingArgs {
    #[command(flatten)]
    numbers: Numbers,

    /// Found a new ring of tickets, after which every older one is void (tickets)
    ///
    /// For when more neighbours crashed at once than the charter's faults allow and they do not come back. Every member of
    /// the old ring must have stopped or heard of it: one that has not may pull beside the new ring, which begins
    /// 15 seconds after its first member has heard of it. Other --tickets or --faults make a new ring too.
    #[arg(long, env = "STROLL_NEW_RING")]
    new_ring: bool,

    /// The member with which the new ring begins [default: the one with which the old ring began]
    #[arg(long, value_name = "NAME", requires = "new_ring", env = "STROLL_FIRST")]
    first: Option<String>,
}

impl RingArgs {
    /// Writes what was said into the charter: whatever is different in a ring makes it a new one.
    pub(super) fn write_into(
        &self,
        charter: &mut Charter,
        ledger: &InvitationLedger,
        credentials: &Credentials,
        now_s: u64,
    ) -> Result<(), UsageError> {
        let Numbers { tickets, faults } = self.numbers;
        let Some(old) = charter.ring() else {
            let is_silent = tickets.is_none() && faults.is_none() && !self.new_ring;
            return if is_silent { Ok(()) } else { Err(no_tickets(&charter.name)) };
        };
        let bears = |name: &str| ledger.certificates().iter().rev().find(|one| one.name == name);
        let first = match &self.first {
            None => old.first,
            Some(name) => bears(name).map(|one| member_id(&one.key)).ok_or_else(|| {
                UsageError(format!("first: nobody called {name} has a certificate of this circle"))
            })?,
        };
        let new = Ring {
            tickets: tickets.unwrap_or(old.tickets),
            faults: faults.unwrap_or(old.faults),
            first,
            epoch: old.epoch,
        };
        if new == old && !self.new_ring {
            return Ok(());
        }
        let is_member = |member| {
            let mut own = ledger.certificates().iter().filter(|one| member_id(&one.key) == member);
            own.any(|one| holds(one, credentials, now_s))
        };
        if !is_member(first) {
            return Err(UsageError(
                "first: the one with which the ring would begin is no member any more; name another with --first"
                    .to_owned(),
            ));
        }
        charter.mode = Mode::Tickets(Ring { epoch: old.epoch.saturating_add(1), ..new });
        Ok(())
    }
}

fn no_tickets(circle: &str) -> UsageError {
    UsageError(format!(
        "{circle} goes by a token, and a circle keeps its mode: --tickets, --faults and --new-ring are for circles \
         created with --mode tickets"
    ))
}

/// The mode in a few words.
pub(super) fn describe_mode(mode: Mode) -> String {
    match mode {
        Mode::Token => "token".to_owned(),
        Mode::Tickets(Ring { tickets, faults, epoch, .. }) => {
            format!("tickets {tickets}, faults {faults}, ring {epoch}")
        }
    }
}

/// What to mind when a new ring is founded.
pub(super) fn warning(old: Ring, new: Ring, first: &str) -> String {
    format!(
        "Ring {} begins at {first} as soon as its member hears of this. A member of ring {} that has neither stopped nor \
         heard of it may pull besides: see `stroll circle members` who answers.",
        new.epoch, old.epoch
    )
}
