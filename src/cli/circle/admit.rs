//! `stroll circle invite` and `stroll circle sign`: the two ways into a circle, from the authority's side.

use std::io::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use stroll::base::units::parse_duration;
use stroll::driver::random_bytes;
use stroll::trust::{
    BOOTSTRAP_LIMIT, Credentials, Grant, Home, Invitation, InvitationLedger, Request, expiry_warning,
};
use stroll::wire::member_id;
use stroll::wire::records::Certificate;

use crate::cli::exit::UsageError;
use crate::cli::homes::{self, HomeArgs};
use crate::cli::join::read_text;
use crate::cli::utc::{format_utc, now_s};

use super::{check_free, holds};

/// Invite a lab into the circle: prints the one command that it has to run.
///
/// The invitation works once, for whoever has it first: send it by a private channel. Inviting the same name again
/// replaces an invitation that was not used.
#[derive(Debug, clap::Args)]
pub(super) struct InviteArgs {
    /// What to call the new member
    name: String,

    /// For how long the invitation can be used
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "72h", env = "STROLL_EXPIRES")]
    expires: Duration,

    #[command(flatten)]
    homes: HomeArgs,
}

/// Sign a request that was made by `stroll join --request`, for a lab that cannot reach this member.
///
/// Prints the answer, which that lab gives to `stroll join`. Be sure from whom the request came.
#[derive(Debug, clap::Args)]
pub(super) struct SignArgs {
    /// The request: a file, - for stdin, or the line itself
    #[arg(value_name = "FILE|-")]
    request: String,

    /// Sign under this name instead of the one in the request
    #[arg(long, value_name = "NAME", env = "STROLL_MEMBER")]
    member: Option<String>,

    /// For how long the certificate is good
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "365d", env = "STROLL_VALID")]
    valid: Duration,

    #[command(flatten)]
    homes: HomeArgs,
}

/// Remembers the invitation, then shows it.
pub(super) fn invite(args: &InviteArgs) -> anyhow::Result<()> {
    homes::check_name("NAME", &args.name)?;
    let (circle, home, _) = args.homes.open_authority()?;
    let credentials = home.load_credentials()?;
    let now_s = now_s();
    let ledger = home.load_ledger()?;
    check_free(&args.name, &ledger, &credentials, now_s, &args.homes, &circle)?;
    let invitation = make_invitation(args, &home, &credentials, now_s)?;
    let replaced = home
        .update_ledger(|ledger| {
            let replaced = ledger.withdraw(&args.name);
            ledger.open(&invitation, now_s).map(|()| replaced)
        })?
        .context("the invitation")?;
    if replaced {
        eprintln!("The invitation that {} had before no longer works.", args.name);
    }
    eprintln!(
        "Send this to {} by a private channel; it works once, until {}:",
        args.name,
        format_utc(invitation.expires_s)
    );
    print_line(&format!("stroll join {}", *invitation.to_text()))?;
    eprintln!("This member has to be running when {} joins: {}", args.name, args.homes.run_command(&circle));
    Ok(())
}

fn make_invitation(
    args: &InviteArgs,
    home: &Home,
    credentials: &Credentials,
    now_s: u64,
) -> anyhow::Result<Invitation> {
    if args.expires.as_secs() == 0 {
        return Err(UsageError("expires: must be longer than a second".into()).into());
    }
    let invitation = Invitation::new(
        *credentials.roll.authority(),
        &credentials.roll.charter().name,
        &args.name,
        credentials.gate.clone(),
        bootstrap(home, credentials)?,
        now_s.saturating_add(args.expires.as_secs()),
        random_bytes()?,
    );
    Ok(invitation.map_err(|refusal| UsageError(format!("the invitation: {refusal}")))?)
}

/// Where a new member begins: with this member, which has the authority's key, and then with those it began with.
fn bootstrap(home: &Home, credentials: &Credentials) -> anyhow::Result<Vec<SocketAddr>> {
    let own = homes::load_address(home, credentials.listen)?;
    let others = credentials.bootstrap.iter().copied().filter(|address| Some(*address) != own);
    let addresses = own.into_iter().chain(others).take(BOOTSTRAP_LIMIT).collect::<Vec<_>>();
    if addresses.is_empty() {
        let file = homes::address_file(home);
        return Err(UsageError(format!(
            "it is not known where others reach this member; write its IP:PORT into {}",
            file.display()
        ))
        .into());
    }
    Ok(addresses)
}

/// Certifies the key in a request and prints all that its owner needs.
pub(super) fn sign(args: &SignArgs) -> anyhow::Result<()> {
    let request = Request::parse(&read_text(&args.request, &["sr"])?)
        .map_err(|error| UsageError(format!("the request: {error}")))?;
    let (circle, home, authority) = args.homes.open_authority()?;
    let credentials = home.load_credentials()?;
    let name = args.member.as_ref().unwrap_or(&request.name);
    let (ledger, now_s) = (home.load_ledger()?, now_s());
    let certificate = if let Some(known) = known(&request, name, &ledger, &credentials, now_s)? {
        known
    } else {
        let is_renewal = ledger.certificates().iter().any(|one| one.key == request.key && one.name == *name);
        if !is_renewal {
            check_free(name, &ledger, &credentials, now_s, &args.homes, &circle)?;
        }
        home.update_ledger(|ledger| ledger.issue(&authority, request.key, name, now_s, args.valid))?
            .map_err(|refusal| UsageError(format!("the certificate: {refusal}")))?
    };
    eprintln!(
        "Signed: {name}, key {}, certificate {} until {}",
        member_id(&request.key),
        certificate.serial,
        format_utc(certificate.not_after_s)
    );
    eprintln!("Send the line to {name}, who gives it to: stroll join FILE");
    print_line(&grant(&home, credentials, certificate)?.to_text())
}

/// The certificate that this key has already: a request that is signed twice gives the same answer, unless it is time
/// for a renewal.
fn known(
    request: &Request,
    name: &str,
    ledger: &InvitationLedger,
    credentials: &Credentials,
    now_s: u64,
) -> Result<Option<Certificate>, UsageError> {
    let mut of_key = ledger.certificates().iter().filter(|one| one.key == request.key);
    if let Some(banned) = of_key.clone().find(|one| credentials.roll.is_banned(one.serial)) {
        return Err(UsageError(format!(
            "the request: its key was banned (certificate {}); to come back that lab needs a new key, which \
             `stroll join --request` makes under another name for the circle",
            banned.serial
        )));
    }
    let is_good = |one: &&Certificate| {
        one.name == name && holds(one, credentials, now_s) && expiry_warning(one, now_s).is_none()
    };
    Ok(of_key.rfind(is_good).cloned())
}

fn grant(home: &Home, credentials: Credentials, certificate: Certificate) -> anyhow::Result<Grant> {
    Ok(Grant {
        bootstrap: bootstrap(home, &credentials)?,
        authority: *credentials.roll.authority(),
        succession: credentials.roll.succession().cloned(),
        certificate,
        charter: credentials.roll.charter().clone(),
        bans: credentials.roll.bans().cloned(),
        gate: credentials.gate,
    })
}

fn print_line(line: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush().context("cannot write the result")
}
