//! `stroll circle show`: what this home knows of its circle.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::SocketAddr;

use anyhow::Context as _;
use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use stroll::base::CircleId;
use stroll::base::units::format_duration;
use stroll::trust::{Credentials, Home, Refusal, expiry_warning};
use stroll::wire::records::Certificate;

use crate::cli::homes::{self, HomeArgs};
use crate::cli::utc::{format_utc, now_s};

use super::constants::{format_rate, format_retention, rules_name};
use super::mode::describe_mode;

/// Show the circle: its charter, its authority, this member's certificate, and where all of it is kept.
#[derive(Debug, clap::Args)]
pub(super) struct ShowArgs {
    /// Print one JSON object; times in seconds, moments in seconds since 1970
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
            ("  source", charter.sources().collect::<Vec<_>>().join(", also ")),
            ("  mode", describe_mode(charter.mode)),
            ("  slot", format_duration(charter.slot)),
            ("  skip", format_duration(charter.skip)),
            ("  capacity", format!("{} members", charter.capacity)),
            ("  bandwidth", format_rate(charter.bandwidth)),
            ("  retention", format_retention(charter.retention)),
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
        let ring = charter.ring();
        json!({
            "name": self.name,
            "authority": HEXLOWER.encode(roll.circle().as_bytes()),
            "has_authority_key": self.has_authority,
            "charter": {
                "name": charter.name,
                "version": charter.version,
                "issued_s": charter.issued_s,
                "source": charter.source,
                "aliases": charter.aliases,
                "slot_s": charter.slot.as_secs_f64(),
                "skip_s": charter.skip.as_secs_f64(),
                "capacity": charter.capacity,
                "bandwidth_bytes_per_sec": charter.bandwidth,
                "rules": rules_name(charter.rules),
                "scouts": charter.scouts,
                "retention_s": charter.retention.as_secs(),
                "mode": if ring.is_some() { "tickets" } else { "token" },
                "tickets": ring.map(|ring| ring.tickets),
                "faults": ring.map(|ring| ring.faults),
                "first": ring.map(|ring| HEXLOWER.encode(ring.first.as_bytes())),
                "epoch": ring.map(|ring| ring.epoch),
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
pub(super) fn state(certificate: &Certificate, credentials: &Credentials, now_s: u64) -> &'static str {
    match credentials.roll.check_validity(certificate, now_s) {
        Ok(()) => "valid",
        Err(Refusal::Banned) => "banned",
        Err(Refusal::Expired) => "expired",
        Err(Refusal::NotYetValid) => "not yet valid",
        Err(_) => "refused",
    }
}

pub(super) fn print(text: &str) -> anyhow::Result<()> {
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
}
