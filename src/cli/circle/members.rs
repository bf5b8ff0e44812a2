//! `stroll circle members`: who is there, as a running member knows it, and who has a certificate, as the authority does.

use std::fmt::Write as _;

use serde_json::json;
use stroll::peer::{Client, MemberReport, StatusReport};
use stroll::trust::{Credentials, InvitationLedger};
use stroll::wire::member_id;
use stroll::wire::records::Certificate;

use crate::cli::homes::HomeArgs;
use crate::cli::utc::{format_utc, now_s};

use super::show::{print, state};

/// List the members: those that the running member knows, and those to whom the authority gave certificates.
///
/// A member that runs is asked whom it knows. Where the authority's key is kept, its ledger adds who was not heard of,
/// who is banned, and the invitations that are open.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Print one JSON object per line; moments in seconds since 1970
    #[arg(long, env = "STROLL_JSON")]
    json: bool,

    #[command(flatten)]
    homes: HomeArgs,
}

/// One line of the list.
#[derive(Default)]
struct Row {
    /// The identity in short.
    id: Option<String>,
    serial: Option<u64>,
    name: String,
    address: Option<String>,
    heard_s: Option<f64>,
    until_s: u64,
    state: &'static str,
    is_own: bool,
    /// Who says so.
    source: &'static str,
}

/// Prints who is there and who may still come.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let (name, home) = args.homes.open()?;
    let credentials = home.load_credentials()?;
    let now_s = now_s();
    let ledger = if home.load_authority()?.is_some() { Some(home.load_ledger()?) } else { None };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let live = runtime.block_on(Client::new(home.path()).status()).ok();
    eprintln!("{}", source(&name, live.is_some(), ledger.is_some()));
    let mut rows = match &live {
        Some(status) => live_rows(status),
        None if ledger.is_none() => vec![certified(&credentials.certificate, &credentials, now_s)],
        None => Vec::new(),
    };
    if let Some(ledger) = &ledger {
        add_ledger(&mut rows, ledger, &credentials, now_s);
    }
    print(&if args.json { rows.iter().map(to_json_line).collect() } else { to_table(&rows) })
}

fn source(name: &str, is_live: bool, has_ledger: bool) -> String {
    match (is_live, has_ledger) {
        (true, true) => {
            format!("Whom the running member of {name} knows, and what the authority's ledger adds:")
        }
        (true, false) => format!("Whom the running member of {name} knows; there may be others:"),
        (false, true) => format!("No member of {name} runs here; this is the authority's ledger:"),
        (false, false) => format!(
            "No member of {name} runs here, and its authority is elsewhere: this home knows the certificate of its own \
             member only."
        ),
    }
}

fn live_rows(status: &StatusReport) -> Vec<Row> {
    let own = Row {
        id: Some(status.member.clone()),
        name: status.name.clone(),
        address: Some(status.listen.clone()),
        heard_s: Some(0.0),
        until_s: status.expires_s,
        state: "alive",
        is_own: true,
        source: "directory",
        ..Row::default()
    };
    let mut others: Vec<Row> = status.members.iter().map(live_row).collect();
    others.sort_by(|a, b| a.name.cmp(&b.name));
    std::iter::once(own).chain(others).collect()
}

fn live_row(member: &MemberReport) -> Row {
    let state = match (member.suspected, member.heard_s) {
        (true, _) => "suspected",
        (false, Some(_)) => "alive",
        (false, None) => "not heard yet",
    };
    Row {
        id: Some(member.member.clone()),
        name: member.name.clone(),
        address: Some(member.address.clone()),
        heard_s: member.heard_s,
        until_s: member.expires_s,
        state,
        source: "directory",
        ..Row::default()
    }
}

/// What the ledger knows besides: serials, certificates of members that were not met, invitations.
fn add_ledger(rows: &mut Vec<Row>, ledger: &InvitationLedger, credentials: &Credentials, now_s: u64) {
    for certificate in ledger.certificates() {
        let new = certified(certificate, credentials, now_s);
        match rows.iter_mut().find(|row| row.id == new.id && row.until_s == new.until_s) {
            Some(known) => {
                known.serial = new.serial;
                // Nobody who is banned is in a directory for long; if it is, that is what matters.
                if new.state == "banned" {
                    known.state = new.state;
                }
            }
            None => rows.push(new),
        }
    }
    let open = ledger.invitations().iter().filter(|one| one.serial.is_none() && one.expires_s >= now_s);
    rows.extend(open.map(|one| Row {
        name: one.name.clone(),
        until_s: one.expires_s,
        state: "invited",
        source: "ledger",
        ..Row::default()
    }));
}

fn certified(certificate: &Certificate, credentials: &Credentials, now_s: u64) -> Row {
    Row {
        id: Some(member_id(&certificate.key).to_string()),
        serial: Some(certificate.serial),
        name: certificate.name.clone(),
        until_s: certificate.not_after_s,
        state: state(certificate, credentials, now_s),
        is_own: certificate.key == credentials.key.public(),
        source: "ledger",
        ..Row::default()
    }
}

fn to_json_line(row: &Row) -> String {
    let line = json!({
        "serial": row.serial,
        "name": row.name,
        "id": row.id,
        "address": row.address,
        "heard_s": row.heard_s,
        "until_s": row.until_s,
        "state": row.state,
        "is_own": row.is_own,
        "source": row.source,
    });
    format!("{line}\n")
}

fn to_table(rows: &[Row]) -> String {
    let widest =
        |head: &str, of: &dyn Fn(&Row) -> usize| rows.iter().map(of).max().unwrap_or(0).max(head.len());
    let name = widest("member", &|row| row.name.chars().count());
    let place = widest("address", &|row| row.address.as_ref().map_or(1, String::len));
    let mut text = format!(
        "serial  {:name$}  {:8}  {:place$}  {:>9}  {:17}  state\n",
        "member", "id", "address", "heard", "until"
    );
    for row in rows {
        let or_dash = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
        let serial = or_dash(&row.serial.map(|serial| serial.to_string()));
        let heard = or_dash(&row.heard_s.filter(|_| !row.is_own).map(|ago| format!("{ago:.0} s ago")));
        let (id, address, until) = (or_dash(&row.id), or_dash(&row.address), format_utc(row.until_s));
        let own = if row.is_own { ", this member" } else { "" };
        let _ = writeln!(
            text,
            "{serial:>6}  {:name$}  {id:8}  {address:place$}  {heard:>9}  {until}  {}{own}",
            row.name, row.state
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_lines_up() {
        let row = |serial, name: &str, state, is_own| Row {
            serial,
            name: name.to_owned(),
            until_s: 1_767_520_859,
            state,
            is_own,
            ..Row::default()
        };
        let live = Row {
            id: Some("0a0b0c0d".to_owned()),
            address: Some("192.0.2.1:7433".to_owned()),
            heard_s: Some(12.4),
            ..row(Some(12), "observatory", "alive", false)
        };
        assert_eq!(
            to_table(&[row(Some(1), "lab-a", "valid", true), live, row(None, "lab-c", "invited", false)]),
            "serial  member       id        address             heard  until              state\n\
             \x20    1  lab-a        -         -                       -  2026-01-04 10:00Z  valid, this member\n\
             \x20   12  observatory  0a0b0c0d  192.0.2.1:7433   12 s ago  2026-01-04 10:00Z  alive\n\
             \x20    -  lab-c        -         -                       -  2026-01-04 10:00Z  invited\n"
        );
    }
}
