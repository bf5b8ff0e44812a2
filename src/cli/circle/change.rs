//! `stroll circle ban` and `stroll circle amend`: a new version of what the authority says.

use anyhow::bail;
use stroll::peer::Client;
use stroll::trust::{Authority, Home, InvitationLedger};
use stroll::wire::member_id;
use stroll::wire::records::{BANS_LIMIT, Bans};

use crate::cli::exit::UsageError;
use crate::cli::homes::HomeArgs;
use crate::cli::utc::now_s;

use super::constants::{self, Constants};
use super::create::describe;
use super::mode::{RingArgs, warning};

/// Ban a member from the circle, at once and for good.
///
/// All of its certificates lose their worth, and an invitation that it has not used is withdrawn.
#[derive(Debug, clap::Args)]
pub(super) struct BanArgs {
    /// The member's name, or the serial number of a certificate
    #[arg(value_name = "NAME|SERIAL")]
    whom: String,

    #[command(flatten)]
    homes: HomeArgs,
}

/// Change the circle's charter: makes a new version of it.
#[derive(Debug, clap::Args)]
pub(super) struct AmendArgs {
    /// What the members pull
    #[arg(long, value_name = "URL", env = "STROLL_SOURCE")]
    source: Option<String>,

    /// Another address of the same source, which is then pulled from in the circle's slots; repeatable. Members that run
    /// a stroll without aliases refuse such a charter and keep the one they have
    #[arg(long, value_name = "URL", env = "STROLL_ALIAS")]
    alias: Vec<String>,

    /// Drop all aliases of before
    #[arg(long, env = "STROLL_NO_ALIAS")]
    no_alias: bool,

    #[command(flatten)]
    constants: Constants,

    #[command(flatten)]
    ring: RingArgs,

    #[command(flatten)]
    homes: HomeArgs,
}

/// Signs a longer list of bans.
pub(super) fn ban(args: &BanArgs) -> anyhow::Result<()> {
    let (circle, home, authority) = args.homes.open_authority()?;
    let lock = home.lock_authority()?;
    let credentials = home.load_credentials()?;
    let now_s = now_s();
    let ledger = home.load_ledger()?;
    let serials = serials(&args.whom, &ledger, now_s);
    if serials.contains(&credentials.certificate.serial) {
        bail!(
            "{} is this member itself, without which nobody could join {circle}; it is not banned",
            args.whom
        );
    }
    let was_invited = ledger.invitations().iter().any(|one| one.name == args.whom && one.serial.is_none());
    if was_invited {
        home.update_ledger(|ledger| ledger.withdraw(&args.whom))?;
        eprintln!("The invitation of {} is withdrawn.", args.whom);
    }
    if serials.is_empty() {
        return if was_invited { Ok(()) } else { Err(unknown(&args.whom, args, &circle).into()) };
    }
    let mut roll = credentials.roll;
    let new = serials.into_iter().filter(|serial| !roll.is_banned(*serial)).collect::<Vec<_>>();
    if new.is_empty() {
        eprintln!("{} is banned already; nothing was changed.", args.whom);
        return Ok(());
    }
    let bans = longer(roll.bans(), &new, &ledger, &authority, now_s)?;
    roll.offer_bans(bans.clone())?;
    home.save_bans(&bans)?;
    drop(lock);
    let list = new.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    eprintln!("{} is banned (certificate {list}); this is version {} of the bans.", args.whom, bans.version);
    spread(&home, &args.homes, &circle)
}

/// The certificates that are meant: a member's, or else the one with that number.
fn serials(whom: &str, ledger: &InvitationLedger, now_s: u64) -> Vec<u64> {
    let named = ledger.serials_of(whom, now_s);
    if !named.is_empty() {
        return named;
    }
    let by_number = whom.parse().ok().and_then(|serial| ledger.certificate(serial));
    by_number.map(|certificate| certificate.serial).into_iter().collect()
}

fn unknown(whom: &str, args: &BanArgs, circle: &str) -> UsageError {
    UsageError(format!(
        "no valid certificate has the name or number {whom}; `stroll circle members{}` lists them",
        args.homes.flags(circle)
    ))
}

/// The next version of the bans. When the list is full, those whose certificates are over anyway make room.
fn longer(
    old: Option<&Bans>,
    new: &[u64],
    ledger: &InvitationLedger,
    authority: &Authority,
    now_s: u64,
) -> Result<Bans, UsageError> {
    let version = old.map_or(0, |bans| bans.version).saturating_add(1);
    let mut serials = old.map(|bans| bans.serials.clone()).unwrap_or_default();
    serials.extend_from_slice(new);
    if serials.len() > BANS_LIMIT {
        let still_counts =
            |serial: &u64| ledger.certificate(*serial).is_some_and(|one| one.not_after_s >= now_s);
        serials.retain(still_counts);
    }
    authority.sign_bans(version, serials).map_err(|refusal| UsageError(format!("the bans: {refusal}")))
}

/// Signs a charter with the changes.
pub(super) fn amend(args: &AmendArgs) -> anyhow::Result<()> {
    let (circle, home, authority) = args.homes.open_authority()?;
    let lock = home.lock_authority()?;
    let credentials = home.load_credentials()?;
    let ledger = home.load_ledger()?;
    let old = credentials.roll.charter();
    let mut charter = old.clone();
    if let Some(source) = &args.source {
        charter.source.clone_from(source);
    }
    if args.no_alias {
        charter.aliases.clear();
    }
    constants::add_aliases(&mut charter, &args.alias);
    args.constants.write_into(&mut charter);
    args.ring.write_into(&mut charter, &ledger, &credentials, now_s())?;
    if charter == *old {
        return Err(UsageError(format!(
            "the charter says so already, nothing was changed; say what shall be different ({})",
            describe(&charter)
        ))
        .into());
    }
    constants::check(&charter)?;
    charter.version = charter.version.saturating_add(1);
    charter.issued_s = now_s();
    let charter = authority.sign_charter(charter);
    let (old_ring, mut roll) = (old.ring(), credentials.roll);
    roll.offer_charter(charter.clone()).map_err(|refusal| UsageError(format!("the charter: {refusal}")))?;
    home.save_charter(&charter)?;
    drop(lock);
    eprintln!("This is version {} of the charter of {circle}: {}", charter.version, describe(&charter));
    eprintln!("  source {}", charter.source);
    for alias in &charter.aliases {
        eprintln!("  alias {alias}");
    }
    if let (Some(old), Some(new)) = (old_ring, charter.ring())
        && new.epoch != old.epoch
    {
        let named = ledger.certificates().iter().rev().find(|one| member_id(&one.key) == new.first);
        eprintln!("{}", warning(old, new, named.map_or("its first member", |one| &one.name)));
    }
    spread(&home, &args.homes, &circle)
}

/// A running member takes it at once and tells the others.
fn spread(home: &Home, homes: &HomeArgs, circle: &str) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match runtime.block_on(Client::new(home.path()).reload()) {
        Ok(()) => eprintln!("The running member has taken it; the others learn it from there."),
        Err(_) => eprintln!(
            "The others learn it from this member as soon as it runs: {}",
            homes.run_command(circle)
        ),
    }
    Ok(())
}
