//! `stroll join`: become a member, by an invitation or by a signed answer to a request.
//!
//! ```text
//! by invitation    st1-… -> key made and saved -> asked over UDP -> certificate saved
//! by files         --request: key made and saved, sr1-… printed;  later sc1-… -> certificate saved
//! ```
//!
//! The key is saved before anybody hears of it, and found again by the next attempt: a joining that was interrupted is
//! simply repeated.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use stroll::base::units::{format_duration, parse_duration};
use stroll::driver::random_bytes;
use stroll::peer::{EnrolError, Enrolled, enrol};
use stroll::trust::{
    Credentials, FileError, GateKey, Grant, Home, Invitation, PrivateKey, Refusal, Request, Roll, Suite,
    expiry_warning,
};
use stroll::wire::records::Certificate;

use super::exit::{NotFound, Unreachable, UsageError};
use super::homes::{self, HomeArgs};
use super::reach;
use super::utc::{format_utc, now_s};

/// No text of ours comes near.
const TEXT_LIMIT: u64 = 64 << 10;

/// Where a member listens that was not told.
const LISTEN: &str = "0.0.0.0:7433";

/// Join a circle, by the invitation that one of its members sent.
///
/// Makes this member's key here, has it certified, saves what `stroll run` needs, and looks which members answer. If it is
/// interrupted, run the same command again.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stroll join st1-…               with the line that you were sent
  stroll join invitation.txt      with a file that holds it; - is stdin

Where the circle's authority cannot be reached:
  lab-b$ stroll join --request virgo > lab-b.req
  lab-a$ stroll circle sign lab-b.req > lab-b.crt
  lab-b$ stroll join lab-b.crt")]
pub(super) struct Args {
    /// The invitation, or the signed answer to a request: the line itself, a file that holds it, or - for stdin
    #[arg(value_name = "INVITE|FILE|-", required_unless_present = "request", conflicts_with = "request")]
    text: Option<String>,

    /// Make a key for this circle and print a request for a certificate, to be signed by `stroll circle sign`
    #[arg(long, value_name = "NAME", env = "STROLL_REQUEST")]
    request: Option<String>,

    /// What to call this member in the request [default: the computer's name]
    #[arg(long, value_name = "NAME", env = "STROLL_MEMBER")]
    member: Option<String>,

    /// Where this member listens for datagrams
    #[arg(long, value_name = "IP:PORT", value_parser = homes::parse_listen, default_value = LISTEN, env = "STROLL_LISTEN")]
    listen: SocketAddr,

    /// Where others reach this member [default: where it listens; if that is everywhere, the address from which it reaches the first members]
    #[arg(long, value_name = "HOST:PORT", env = "STROLL_ADDRESS")]
    address: Option<String>,

    /// How long to wait for an answer
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "15s", env = "STROLL_TIMEOUT")]
    timeout: Duration,

    #[command(flatten)]
    homes: HomeArgs,
}

/// Joins in the way that the arguments say.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    if let Some(circle) = &args.request {
        return request(args, circle);
    }
    let text = read_text(args.text.as_deref().unwrap_or_default(), &["st", "sc"])?;
    if has_tag(&text, "sc") { by_grant(args, &text) } else { by_invitation(args, &text) }
}

/// Has the key certified by whoever answers at the invitation's addresses.
fn by_invitation(args: &Args, text: &str) -> anyhow::Result<()> {
    let now_s = now_s();
    let invitation =
        Invitation::parse(text, now_s).map_err(|error| UsageError(format!("the invitation: {error}")))?;
    let name = args.homes.circle.clone().unwrap_or_else(|| invitation.circle_name.clone());
    homes::check_name("circle", &name)?;
    let address = args.address.as_deref().map(|text| homes::resolve(text, args.listen)).transpose()?;
    let home = create_or_open(&args.homes.root.path()?.join(&name))?;
    let member = home.is_complete().then(|| home.load_credentials()).transpose()?;
    if let Some(member) = &member {
        if member.roll.circle() != invitation.circle() {
            return Err(taken(&name).into());
        }
        if is_settled(member, now_s) {
            eprintln!("{} is a member of {name} already.", member.name);
            tell(args, &name, &home, &member.certificate);
            return Ok(());
        }
    }
    let key = own_key(&home)?;
    let Enrolled { certificate, roll, .. } = ask(args, &invitation, &key, &name, now_s)?;
    check_origin(&invitation, &key, &certificate, &roll, now_s)?;
    let arrived = Arrived { certificate, roll, gate: invitation.gate, bootstrap: invitation.bootstrap };
    let certificate = settle(args, &home, key, member, arrived)?;
    save_address(&home, address)?;
    eprintln!("{} is now a member of {name}, in {}", certificate.name, home.path().display());
    tell(args, &name, &home, &certificate);
    Ok(())
}

fn ask(
    args: &Args,
    invitation: &Invitation,
    key: &PrivateKey,
    name: &str,
    now_s: u64,
) -> anyhow::Result<Enrolled> {
    eprintln!("Asking {} …", list(&invitation.bootstrap));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match runtime.block_on(enrol(invitation, key, now_s, args.timeout)) {
        Err(EnrolError::NoAnswer { tried }) => Err(silence(invitation, &tried, args.timeout).into()),
        answer => answer.with_context(|| format!("cannot join {name}")),
    }
}

/// Nobody answers strangers in this house, so there are several reasons for silence, and they all look alike.
fn silence(invitation: &Invitation, tried: &[SocketAddr], timeout: Duration) -> Unreachable {
    let tried = if tried.is_empty() { &invitation.bootstrap } else { tried };
    Unreachable(format!(
        "nobody answered at {} within {}. Is the founder's member running there (stroll run)? Is that UDP port open, \
         here and there? An invitation that has expired, was used with another key or was replaced by a newer one gets no \
         answer either; then ask for a new one. Nothing is lost: run the same command again",
        list(tried),
        format_duration(timeout),
    ))
}

/// What came back must be what the invitation promised, for the key that was made here.
fn check_origin(
    invitation: &Invitation,
    key: &PrivateKey,
    certificate: &Certificate,
    roll: &Roll,
    now_s: u64,
) -> anyhow::Result<()> {
    let checked = if *roll.authority() != invitation.authority {
        Err(Refusal::WrongCircle)
    } else if certificate.key != key.public() {
        Err(Refusal::WrongMember)
    } else {
        roll.check_certificate(certificate, now_s)
    };
    checked.context("the certificate that came back is not believed")
}

/// Takes the answer to a request that was made here.
fn by_grant(args: &Args, text: &str) -> anyhow::Result<()> {
    let grant = Grant::parse(text).map_err(|error| UsageError(format!("the signed answer: {error}")))?;
    let address = args.address.as_deref().map(|text| homes::resolve(text, args.listen)).transpose()?;
    let (name, home, key) = home_of(args, &grant)?;
    let roll = grant
        .accept(&key, now_s())
        .map_err(|refusal| UsageError(format!("the signed answer is not believed: {refusal}")))?;
    let member = home.is_complete().then(|| home.load_credentials()).transpose()?;
    if member.as_ref().is_some_and(|member| member.roll.circle() != roll.circle()) {
        return Err(taken(&name).into());
    }
    let Grant { certificate, gate, bootstrap, .. } = grant;
    let certificate = settle(args, &home, key, member, Arrived { certificate, roll, gate, bootstrap })?;
    save_address(&home, address)?;
    eprintln!("{} is now a member of {name}, in {}", certificate.name, home.path().display());
    tell(args, &name, &home, &certificate);
    Ok(())
}

/// The home whose key was certified: the circle may have another name here than in its charter.
fn home_of(args: &Args, grant: &Grant) -> anyhow::Result<(String, Home, PrivateKey)> {
    let root = args.homes.root.path()?;
    let names = match &args.homes.circle {
        Some(name) => {
            homes::check_name("circle", name)?;
            vec![name.clone()]
        }
        None => args.homes.root.folders()?,
    };
    for name in names {
        let Ok(home) = Home::open(root.join(&name)) else { continue };
        if let Ok(Some(key)) = home.load_key()
            && key.public() == grant.certificate.key
        {
            return Ok((name, home, key));
        }
    }
    bail!(
        "the signed answer is for {}, whose key is not in {}; give it to `stroll join` where the request was made",
        grant.certificate.name,
        root.display()
    )
}

/// Prints a request for a certificate of this home's key.
fn request(args: &Args, circle: &str) -> anyhow::Result<()> {
    homes::check_name("request", circle)?;
    let home = create_or_open(&args.homes.root.path()?.join(circle))?;
    let own_name = if home.is_complete() { Some(home.load_credentials()?.name) } else { None };
    let member = args.member.clone().or(own_name).or_else(homes::host_name);
    let member = member.unwrap_or_else(|| "member".to_owned());
    homes::check_name("member", &member)?;
    let key = own_key(&home)?;
    let request = Request::new(&key, &member)?;
    eprintln!("A request for {member}, key {}. Let the one who created {circle} sign it:", key.member_id());
    eprintln!("    stroll circle sign FILE");
    let flags = format!("{}{}", place_flags(args), args.homes.root.flags());
    eprintln!("and give the answer to: stroll join FILE{flags}");
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", request.to_text())?;
    out.flush().context("cannot write the request")
}

/// Nothing is set up before the answer comes, so where to listen has to be said with it: again, if it was said already.
fn place_flags(args: &Args) -> String {
    let listen = (args.listen.to_string() != LISTEN).then(|| format!(" --listen {}", args.listen));
    let address = args.address.as_ref().map(|address| format!(" --address {address}"));
    [listen, address].into_iter().flatten().collect()
}

/// What a new member gets, besides the key that it made itself.
struct Arrived {
    certificate: Certificate,
    roll: Roll,
    gate: GateKey,
    bootstrap: Vec<SocketAddr>,
}

/// Saves what came, or where there was a member already, what is newer of it.
fn settle(
    args: &Args,
    home: &Home,
    key: PrivateKey,
    member: Option<Credentials>,
    arrived: Arrived,
) -> anyhow::Result<Certificate> {
    let Arrived { certificate, roll, gate, bootstrap } = arrived;
    let Some(mut member) = member else {
        let name = certificate.name.clone();
        let credentials = Credentials { key, certificate, roll, gate, bootstrap, name, listen: args.listen };
        home.save_credentials(&credentials)?;
        return Ok(credentials.certificate);
    };
    // An older version of either is no reason to refuse the new certificate.
    let _ = member.roll.offer_charter(roll.charter().clone());
    if let Some(bans) = roll.bans() {
        let _ = member.roll.offer_bans(bans.clone());
    }
    if certificate.not_after_s >= member.certificate.not_after_s {
        member.name.clone_from(&certificate.name);
        member.certificate = certificate;
    }
    home.save_credentials(&member)?;
    Ok(member.certificate)
}

/// Whether a member needs no other certificate for now.
fn is_settled(member: &Credentials, now_s: u64) -> bool {
    member.roll.check_validity(&member.certificate, now_s).is_ok()
        && expiry_warning(&member.certificate, now_s).is_none()
}

fn tell(args: &Args, name: &str, home: &Home, certificate: &Certificate) {
    eprintln!(
        "  ✓ authority matches   ✓ key made here, never sent   ✓ certificate until {}",
        format_utc(certificate.not_after_s)
    );
    reach::tell(home);
    eprintln!("Next: {}", args.homes.run_command(name));
}

fn taken(name: &str) -> UsageError {
    UsageError(format!(
        "the name {name} is taken here by another circle; add --circle with a name of your own"
    ))
}

fn save_address(home: &Home, address: Option<SocketAddr>) -> anyhow::Result<()> {
    address.map_or(Ok(()), |address| homes::save_address(home, address))
}

/// A new home, or one in which something was begun.
fn create_or_open(path: &Path) -> Result<Home, FileError> {
    match Home::create(path) {
        Err(FileError::NotEmpty { .. }) => Home::open(path),
        home => home,
    }
}

/// The key of this home, made and saved now if there is none.
fn own_key(home: &Home) -> anyhow::Result<PrivateKey> {
    if let Some(key) = home.load_key()? {
        return Ok(key);
    }
    let key = PrivateKey::from_seed(Suite::Ed25519, random_bytes()?);
    home.save_key(&key)?;
    Ok(key)
}

/// The text that an argument means: itself if it begins like one of ours, a file, or - for stdin. What stands before the
/// text, such as `stroll join`, is dropped.
pub(super) fn read_text(argument: &str, tags: &[&str]) -> anyhow::Result<String> {
    if tags.iter().any(|tag| has_tag(argument, tag)) {
        return Ok(argument.to_owned());
    }
    let mut text = String::new();
    if argument == "-" {
        let stdin = std::io::stdin().lock();
        stdin.take(TEXT_LIMIT).read_to_string(&mut text).context("cannot read stdin")?;
    } else {
        let file = std::fs::File::open(argument).map_err(|error| not_read(argument, tags, error))?;
        file.take(TEXT_LIMIT).read_to_string(&mut text).with_context(|| format!("cannot read {argument}"))?;
    }
    Ok(from_tag(&text, tags).to_owned())
}

fn not_read(argument: &str, tags: &[&str], error: std::io::Error) -> anyhow::Error {
    // It may be most of a secret.
    let shown = if argument.chars().count() > 60 { "that text" } else { argument };
    match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::InvalidFilename => {
            let tags = tags.iter().map(|tag| format!("`{tag}1-`")).collect::<Vec<_>>().join(" or ");
            anyhow::Error::from(NotFound::File(shown.to_owned()))
                .context(format!("it does not begin with {tags}, so it should be a file"))
        }
        _ => anyhow::Error::new(error).context(format!("cannot read {shown}")),
    }
}

/// The text from the first word on that begins like one of ours; all of it if there is none.
fn from_tag<'a>(text: &'a str, tags: &[&str]) -> &'a str {
    let begins_word = |at: usize| at == 0 || text[..at].ends_with(char::is_whitespace);
    let begins_ours = |at: usize| tags.iter().any(|tag| has_tag(&text[at..], tag));
    let is_start = |(at, c): &(usize, char)| !c.is_whitespace() && begins_word(*at) && begins_ours(*at);
    text.char_indices().find(is_start).map_or(text, |(at, _)| &text[at..])
}

/// Whether a text begins with this tag, whatever its version.
fn has_tag(text: &str, tag: &str) -> bool {
    let text = text.trim_start();
    let Some((letters, rest)) = text.split_at_checked(tag.len()) else { return false };
    let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    letters.eq_ignore_ascii_case(tag) && after.len() < rest.len() && after.starts_with('-')
}

fn list(addresses: &[SocketAddr]) -> String {
    addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_known_whatever_their_case_and_version() {
        for text in ["st1-abc", " ST1-abc", "st12-", "st1-"] {
            assert!(has_tag(text, "st"), "{text}");
        }
        for text in ["", "s", "st", "st-abc", "st1", "sc1-abc", "stroll", "lab-b.req", "ß1-", "x st1-"] {
            assert!(!has_tag(text, "st"), "{text}");
        }
    }

    #[test]
    fn what_stands_before_the_text_is_dropped_and_line_breaks_are_not() {
        let tags = ["st", "sc"];
        assert_eq!(from_tag("stroll join st1-abc\n", &tags), "st1-abc\n");
        assert_eq!(
            from_tag("Send this to lab-b:\n    stroll join st1-abc\n  def\n", &tags),
            "st1-abc\n  def\n"
        );
        assert_eq!(from_tag("sc1-abc", &tags), "sc1-abc");
        assert_eq!(from_tag("nothing", &tags), "nothing");
        assert_eq!(from_tag("", &tags), "");
    }

    #[test]
    fn a_text_is_taken_as_it_is_and_from_a_file() {
        assert_eq!(read_text("st1-abc def", &["st"]).unwrap(), "st1-abc def");
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "stroll join st1-abc\n").unwrap();
        assert_eq!(read_text(file.path().to_str().unwrap(), &["st"]).unwrap(), "st1-abc\n");
    }

    #[test]
    fn what_is_neither_text_nor_file_is_said_to_be_so_but_not_shown_if_it_may_be_secret() {
        let error = format!("{:#}", read_text("lab-b.crt", &["st", "sc"]).unwrap_err());
        assert!(error.contains("`st1-` or `sc1-`") && error.contains("lab-b.crt: no such file"), "{error}");
        let error = format!("{:#}", read_text(&"t1-abcdef".repeat(40), &["st"]).unwrap_err());
        assert!(!error.contains("abcdef"), "{error}");
    }
}
