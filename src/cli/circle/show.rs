//! `stroll circle show` and `stroll circle members`: what this home knows.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::SocketAddr;

use anyhow::Context as _;
use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use stroll::base::CircleId;
use stroll::base::units::format_duration;
use stroll::trust::{Credentials, Home, InvitationLedger, Refusal, expiry_warning};
use stroll::wire::records::Certificate;

use crate::cli::homes::{self, HomeArgs};
use crate::cli::utc::{format_utc, now_s};

use super::constants::{format_rate, rules_name};

/// Show the circle: its charter, its authority, this member's certificate, and where all of it is kept.
#[derive(Debug, clap::Args)]
pub(super) struct ShowArgs {
    /// Print one JSON object; times in seconds, moments in seconds since 1970
    #[arg(long, env = "STROLL_JSON")]
    json: bool,

    #[command(flatten)]
    homes: HomeArgs,
}

/// List the members to whom this authority gave certificates, and the invitations that are open.
#[derive(Debug, clap::Args)]
pub(super) struct MembersArgs {
    /// Print one JSON object per line; moments in seconds since 1970
    #[arg(long, env = "STROLL_JSON")]
    json: bool,

    #[command(flatten)]
    homes: HomeArgs,
}

/// Everything that `show` shows.
struct Facts {
    name: String,
    home: Home,
    credentials: Credentials,
    address: Option<SocketAddr>,
    has_authority: bool,
    now_s: u64,
}

/// Prints what the home knows of its circle.
pub(super) fn show(args: &ShowArgs) -> anyhow::Result<()> {
    let (name, home) = args.homes.open()?;
    let credentials = home.load_credentials()?;
    let address = homes::load_address(&home, credentials.listen)?;
    let has_authority = home.load_authority()?.is_some();
    let facts = Facts { name, home, credentials, address, has_authority, now_s: now_s() };
    print(&if args.json { format!("{}\n", facts.to_json()) } else { facts.to_text() })
}

impl Facts {
    fn to_text(&self) -> String {
        let (charter, certificate) = (self.credentials.roll.charter(), &self.credentials.certificate);
        let address = self.address.map_or("not said".to_owned(), |address| address.to_string());
        let authority = if self.has_authority { "here" } else { "elsewhere" };
        let rows = [
            ("circle", named(&self.name, &charter.name)),
            ("authority", format!("{}, its key is {authority}", fingerprint(self.credentials.roll.circle()))),
            ("charter", format!("version {}, of {}", charter.version, format_utc(charter.issued_s))),
            ("  source", charter.source.clone()),
            ("  slot", format_duration(charter.slot)),
            ("  skip", format_duration(charter.skip)),
            ("  capacity", format!("{} members", charter.capacity)),
            ("  bandwidth", format_rate(charter.bandwidth)),
            ("  rules", format!("{}, {} scouts", rules_name(charter.rules), charter.scouts)),
            ("bans", self.bans()),
            ("member", format!("{}, {}", self.credentials.name, self.credentials.key.member_id())),
            ("  certificate", format!("{}, {}", certificate.serial, self.validity())),
            ("  listens at", self.credentials.listen.to_string()),
            ("  reached at", address),
            ("home", self.home.path().display().to_string()),
        ];
        rows.iter().fold(String::new(), |mut text, (what, value)| {
            let _ = writeln!(text, "{what:15}{value}");
            text
        })
    }

    fn to_json(&self) -> Value {
        let (roll, certificate) = (&self.credentials.roll, &self.credentials.certificate);
        let charter = roll.charter();
        json!({
            "name": self.name,
            "authority": HEXLOWER.encode(roll.circle().as_bytes()),
            "has_authority_key": self.has_authority,
            "charter": {
                "name": charter.name,
                "version": charter.version,
                "issued_s": charter.issued_s,
                "source": charter.source,
                "slot_s": charter.slot.as_secs_f64(),
                "skip_s": charter.skip.as_secs_f64(),
                "capacity": charter.capacity,
                "bandwidth_bytes_per_sec": charter.bandwidth,
                "rules": rules_name(charter.rules),
                "scouts": charter.scouts,
            },
            "bans": {
                "version": roll.bans_version(),
                "serials": roll.bans().map(|bans| bans.serials.as_slice()).unwrap_or_default(),
            },
            "member": {
                "name": self.credentials.name,
                "id": HEXLOWER.encode(self.credentials.key.member_id().as_bytes()),
                "serial": certificate.serial,
                "not_before_s": certificate.not_before_s,
                "not_after_s": certificate.not_after_s,
                "state": state(certificate, &self.credentials, self.now_s),
                "listen": self.credentials.listen,
                "address": self.address,
                "bootstrap": self.credentials.bootstrap,
            },
            "home": self.home.path(),
        })
    }

    fn bans(&self) -> String {
        match self.credentials.roll.bans() {
            None => "none".to_owned(),
            Some(bans) => {
                let serials = bans.serials.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
                format!("version {}, certificates {serials}", bans.version)
            }
        }
    }

    fn validity(&self) -> String {
        let certificate = &self.credentials.certificate;
        let span = format!(
            "good from {} until {}",
            format_utc(certificate.not_before_s),
            format_utc(certificate.not_after_s)
        );
        match state(certificate, &self.credentials, self.now_s) {
            "valid" => match expiry_warning(certificate, self.now_s) {
                None => span,
                Some(days) => format!("{span}: {days} days are left, have it renewed"),
            },
            state => format!("{span}: {state}"),
        }
    }
}

/// The name here, and the charter's if that is another one.
fn named(here: &str, in_charter: &str) -> String {
    if here == in_charter { here.to_owned() } else { format!("{here}, which others call {in_charter}") }
}

/// The hash of the authority's public key, in groups that people can compare.
fn fingerprint(circle: CircleId) -> String {
    let groups = circle.as_bytes().chunks(2).map(|pair| HEXLOWER.encode(pair));
    groups.collect::<Vec<_>>().join(" ")
}

/// What a certificate is worth now, in a word.
fn state(certificate: &Certificate, credentials: &Credentials, now_s: u64) -> &'static str {
    match credentials.roll.check_validity(certificate, now_s) {
        Ok(()) => "valid",
        Err(Refusal::Banned) => "banned",
        Err(Refusal::Expired) => "expired",
        Err(Refusal::NotYetValid) => "not yet valid",
        Err(_) => "refused",
    }
}

/// One line of the list.
struct Row {
    serial: Option<u64>,
    name: String,
    until_s: u64,
    state: &'static str,
    is_own: bool,
}

/// Prints who has a certificate, and who may still get one.
pub(super) fn members(args: &MembersArgs) -> anyhow::Result<()> {
    let (name, home) = args.homes.open()?;
    let credentials = home.load_credentials()?;
    let now_s = now_s();
    let rows = if home.load_authority()?.is_some() {
        rows(&home.load_ledger()?, &credentials, now_s)
    } else {
        eprintln!(
            "The authority of {name} is elsewhere: this home knows the certificate of its own member only."
        );
        vec![row(&credentials.certificate, &credentials, now_s)]
    };
    print(&if args.json { rows.iter().map(to_json_line).collect() } else { to_table(&rows) })
}

fn rows(ledger: &InvitationLedger, credentials: &Credentials, now_s: u64) -> Vec<Row> {
    let mut rows = ledger.certificates().iter().map(|one| row(one, credentials, now_s)).collect::<Vec<_>>();
    let open = ledger.invitations().iter().filter(|one| one.serial.is_none() && one.expires_s >= now_s);
    rows.extend(open.map(|one| Row {
        serial: None,
        name: one.name.clone(),
        until_s: one.expires_s,
        state: "invited",
        is_own: false,
    }));
    rows
}

fn row(certificate: &Certificate, credentials: &Credentials, now_s: u64) -> Row {
    Row {
        serial: Some(certificate.serial),
        name: certificate.name.clone(),
        until_s: certificate.not_after_s,
        state: state(certificate, credentials, now_s),
        is_own: certificate.key == credentials.key.public(),
    }
}

fn to_json_line(row: &Row) -> String {
    let line = json!({
        "serial": row.serial,
        "name": row.name,
        "until_s": row.until_s,
        "state": row.state,
        "is_own": row.is_own,
    });
    format!("{line}\n")
}

fn to_table(rows: &[Row]) -> String {
    let width = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0).max("member".len());
    let mut text = format!("serial  {:width$}  {:17}  state\n", "member", "until");
    for row in rows {
        let serial = row.serial.map_or("-".to_owned(), |serial| serial.to_string());
        let own = if row.is_own { ", this member" } else { "" };
        let until = format_utc(row.until_s);
        let _ = writeln!(text, "{serial:>6}  {:width$}  {until}  {}{own}", row.name, row.state);
    }
    text
}

fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush().context("cannot write the result")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fingerprint_is_whole_and_in_groups() {
        let circle = CircleId::from_bytes([0xab; 16]);
        assert_eq!(fingerprint(circle), ["abab"; 8].join(" "));
    }

    #[test]
    fn the_table_lines_up() {
        let row = |serial, name: &str, state, is_own| Row {
            serial,
            name: name.to_owned(),
            until_s: 1_767_520_859,
            state,
            is_own,
        };
        let table = to_table(&[
            row(Some(1), "lab-a", "valid", true),
            row(Some(12), "observatory", "banned", false),
            row(None, "lab-c", "invited", false),
        ]);
        assert_eq!(
            table,
            "serial  member       until              state\n\
             \x20    1  lab-a        2026-01-04 10:00Z  valid, this member\n\
             \x20   12  observatory  2026-01-04 10:00Z  banned\n\
             \x20    -  lab-c        2026-01-04 10:00Z  invited\n"
        );
    }
}
