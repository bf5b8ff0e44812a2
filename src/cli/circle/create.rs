//! `stroll circle create`: an authority, a charter and the first member.

use std::fs;
use std::mem;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::path::Path;
use std::process;
use std::time::Duration;

use anyhow::Context as _;
use stroll::base::units::{format_duration, parse_duration};
use stroll::driver::random_bytes;
use stroll::fetch::Address;
use stroll::trust::{
    Authority, Credentials, GateKey, Home, InvitationLedger, PrivateKey, Refusal, Roll, Suite,
};
use stroll::wire::records::Charter;

use crate::cli::exit::UsageError;
use crate::cli::homes::{self, HomeArgs, RootArgs};
use crate::cli::utc::{format_utc, now_s};

use super::constants::{self, Constants, format_rate, format_retention, rules_name};
use super::mode::{ModeArgs, describe_mode};

/// Create a circle: its authority, its charter, and this lab as its first member.
///
/// The authority's key stays here. It signs the charter and the members' certificates; whoever has it can let others in.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// What to call the circle
    name: String,

    /// What the members pull: the address of an FTP or HTTP server, or of a folder on it
    #[arg(long, value_name = "URL", env = "STROLL_SOURCE")]
    source: String,

    /// Another address of the same source, such as the name of a mirror of it; repeatable
    #[arg(long, value_name = "URL", env = "STROLL_ALIAS")]
    alias: Vec<String>,

    #[command(flatten)]
    mode: ModeArgs,

    #[command(flatten)]
    constants: Constants,

    /// Where this member listens for datagrams
    #[arg(long, value_name = "IP:PORT", value_parser = homes::parse_listen, default_value = "0.0.0.0:7433", env = "STROLL_LISTEN")]
    listen: SocketAddr,

    /// Where others reach this member [default: where it listens; if that is everywhere, the address from which it reaches the
    /// source]
    #[arg(long, value_name = "HOST:PORT", env = "STROLL_ADDRESS")]
    address: Option<String>,

    /// What to call this member [default: the computer's name]
    #[arg(long, value_name = "NAME", env = "STROLL_MEMBER")]
    member: Option<String>,

    /// For how long this member's certificate is good
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "365d", env = "STROLL_VALID")]
    valid: Duration,

    #[command(flatten)]
    root: RootArgs,
}

/// All that a new circle is.
struct Founded {
    authority: Authority,
    ledger: InvitationLedger,
    credentials: Credentials,
    address: SocketAddr,
}

/// Makes the circle in memory, then writes it, then says what was made.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    homes::check_name("NAME", &args.name)?;
    let root = args.root.path()?;
    let path = root.join(&args.name);
    if path.exists() {
        return Err(taken(&args.name, &path).into());
    }
    let mut founded = found(args)?;
    let home = write(&root, &args.name, &mut founded)?;
    tell(args, &founded, &home);
    Ok(())
}

fn found(args: &Args) -> anyhow::Result<Founded> {
    let now_s = now_s();
    let mut charter = constants::usual(&args.name, &args.source, now_s);
    args.constants.write_into(&mut charter);
    constants::add_aliases(&mut charter, &args.alias);
    let key = PrivateKey::from_seed(Suite::Ed25519, random_bytes()?);
    charter.mode = args.mode.mode(key.member_id())?;
    constants::check(&charter)?;
    let address = address(args)?;
    let member = args.member.clone().or_else(homes::host_name).unwrap_or_else(|| "founder".to_owned());

    let authority = Authority::new(PrivateKey::from_seed(Suite::Ed25519, random_bytes()?));
    let roll = Roll::new(Suite::Ed25519, authority.public(), authority.sign_charter(charter), None)
        .map_err(blame("the charter"))?;
    let mut ledger = InvitationLedger::new();
    let certificate = ledger
        .issue(&authority, key.public(), &member, now_s, args.valid)
        .map_err(blame("this member's certificate"))?;
    let gate = GateKey::from_bytes(random_bytes()?);
    // The first member has nobody to greet.
    let bootstrap = Vec::new();
    let credentials =
        Credentials { key, certificate, roll, gate, bootstrap, name: member, listen: args.listen };
    Ok(Founded { authority, ledger, credentials, address })
}

fn address(args: &Args) -> Result<SocketAddr, UsageError> {
    match &args.address {
        Some(text) => homes::resolve(text, args.listen),
        None if args.listen.ip().is_unspecified() => {
            let Some(ip) = ip_towards(&args.source, args.listen) else {
                return Err(UsageError(format!(
                    "address: this member listens everywhere ({}), and its address cannot be found by way of the source; say \
                     where others reach it, for example --address {}.example.org:{}",
                    args.listen,
                    homes::host_name().unwrap_or_else(|| "lab-a".to_owned()),
                    args.listen.port(),
                )));
            };
            homes::resolve(&SocketAddr::new(ip, args.listen.port()).to_string(), args.listen)
        }
        None => homes::resolve(&args.listen.to_string(), args.listen),
    }
}

/// The address from which this computer reaches the source. Looks the source's name up; nothing is sent to it.
fn ip_towards(source: &str, listen: SocketAddr) -> Option<IpAddr> {
    let (source, _) = Address::parse(source).ok()?;
    let host = source.host();
    let mut found = (host.trim_matches(['[', ']']), source.port()).to_socket_addrs().ok()?;
    let there = found.find(|there| there.is_ipv4() == listen.is_ipv4())?;
    let socket = UdpSocket::bind((listen.ip(), 0)).ok()?;
    socket.connect(there).ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|ip| !ip.is_unspecified())
}

/// What to mind about an address that nobody has named; nothing if all the world can reach it.
fn remark(args: &Args, address: SocketAddr) -> Option<String> {
    let ip = address.ip();
    let is_local = match ip {
        IpAddr::V4(ip) => ip.is_private() || ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unique_local() || ip.is_unicast_link_local(),
    };
    if ip.is_loopback() {
        Some(format!("Note: {address} can be reached from this computer only; --address names another one"))
    } else if args.address.is_none() && is_local {
        Some(format!("Note: {address} can be reached from this network only; --address names another one"))
    } else {
        None
    }
}

fn blame(what: &'static str) -> impl Fn(Refusal) -> UsageError {
    move |refusal| UsageError(format!("{what}: {refusal}"))
}

/// Writes everything under a name that nobody looks at, then gives it its own: half a circle is never seen.
fn write(root: &Path, name: &str, founded: &mut Founded) -> anyhow::Result<Home> {
    let (path, unfinished) = (root.join(name), root.join(format!(".{name}.{}", process::id())));
    let home = Home::create(&unfinished)?;
    let written = fill(&home, founded).and_then(|()| {
        fs::rename(&unfinished, &path).map_err(|error| match error.kind() {
            std::io::ErrorKind::DirectoryNotEmpty | std::io::ErrorKind::AlreadyExists => {
                taken(name, &path).into()
            }
            _ => anyhow::Error::new(error).context(format!("cannot create {}", path.display())),
        })
    });
    if written.is_err() {
        // Nobody knows these keys yet.
        let _ = fs::remove_dir_all(&unfinished);
    }
    written?;
    homes::sync_folder(root).with_context(|| format!("cannot write {}", root.display()))?;
    Ok(Home::open(path)?)
}

fn fill(home: &Home, founded: &mut Founded) -> anyhow::Result<()> {
    home.save_authority(&founded.authority)?;
    home.update_ledger(|ledger| mem::swap(ledger, &mut founded.ledger))?;
    homes::save_address(home, founded.address)?;
    Ok(home.save_credentials(&founded.credentials)?)
}

fn taken(name: &str, path: &Path) -> UsageError {
    UsageError(format!(
        "there is a circle {name} here already, in {}; nothing was changed. Choose another name",
        path.display()
    ))
}

fn tell(args: &Args, founded: &Founded, home: &Home) {
    let Founded { credentials, address, .. } = founded;
    let charter = credentials.roll.charter();
    let homes = HomeArgs { root: args.root.clone(), circle: None };
    eprintln!("Circle {} is created, in {}", args.name, home.path().display());
    eprintln!("  source    {}", charter.source);
    for alias in &charter.aliases {
        eprintln!("  alias     {alias}");
    }
    eprintln!("  charter   version {}: {}", charter.version, describe(charter));
    eprintln!(
        "  member    {}, at {address}, certificate {} until {}",
        credentials.name,
        credentials.certificate.serial,
        format_utc(credentials.certificate.not_after_s)
    );
    eprintln!("  authority its key is in that folder: keep a copy in a safe place");
    if let Some(remark) = remark(args, *address) {
        eprintln!("{remark}");
    }
    eprintln!("Next, run this member, and invite another lab:");
    eprintln!("    {}", homes.run_command(&args.name));
    eprintln!("    stroll circle invite lab-b{}", homes.flags(&args.name));
}

/// The constants on one line.
pub(super) fn describe(charter: &Charter) -> String {
    format!(
        "mode {}, slot {}, skip {}, capacity {}, bandwidth {}, rules {}, scouts {}, retention {}",
        describe_mode(charter.mode),
        format_duration(charter.slot),
        format_duration(charter.skip),
        charter.capacity,
        format_rate(charter.bandwidth),
        rules_name(charter.rules),
        charter.scouts,
        format_retention(charter.retention),
    )
}
