//! `stroll doctor`: is everything in order, and if not, what is the cure?

use std::io::Write as _;

use stroll::peer::{Client, ControlError, MemberReport};
use stroll::trust::{Home, expiry_warning};

use super::exit::Ailing;
use super::homes::HomeArgs;
use super::utc::now_s;

/// Examine this member: files, certificate, UDP both ways with each known member, clocks.
///
/// Every line is one finding: ✓ is well, ! deserves a look, ✗ must be mended, and then the cure stands beside it. The exit
/// code is 0 if nothing must be mended.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    home: HomeArgs,
}

/// Clocks further apart than this order tokens wrongly and may break certificates.
const CLOCK_WORTH_A_LOOK_MS: i64 = 5_000;

/// One finding.
#[derive(Debug, PartialEq, Eq)]
enum Finding {
    Well(String),
    Look(String),
    Mend { what: String, cure: &'static str },
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let (_, home) = args.home.open()?;
    let mut findings = examine_files(&home);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    findings.extend(runtime.block_on(examine_circle(&home)));
    let mut out = std::io::stdout().lock();
    for finding in &findings {
        match finding {
            Finding::Well(what) => writeln!(out, "✓ {what}")?,
            Finding::Look(what) => writeln!(out, "! {what}")?,
            Finding::Mend { what, cure } => writeln!(out, "✗ {what}\n    {cure}")?,
        }
    }
    let ailments = findings.iter().filter(|finding| matches!(finding, Finding::Mend { .. })).count();
    if ailments > 0 {
        return Err(Ailing(ailments).into());
    }
    Ok(())
}

fn examine_files(home: &Home) -> Vec<Finding> {
    let credentials = match home.load_credentials() {
        Ok(credentials) => credentials,
        Err(error) => {
            return vec![Finding::Mend {
                what: error.to_string(),
                cure: "mend the file, or join the circle again",
            }];
        }
    };
    let mut findings =
        vec![Finding::Well(format!("files in {} are readable and closed", home.path().display()))];
    let wall_s = now_s();
    match credentials.roll.check_validity(&credentials.certificate, wall_s) {
        Ok(()) => match expiry_warning(&credentials.certificate, wall_s) {
            Some(days) => findings.push(Finding::Look(format!(
                "the certificate expires in {days} days; ask the authority for a new one"
            ))),
            None => findings.push(Finding::Well("the certificate is valid".to_owned())),
        },
        Err(refusal) => findings.push(Finding::Mend {
            what: format!("the certificate is not valid: {refusal}"),
            cure: "ask the authority for a new one; check this machine's clock",
        }),
    }
    findings
}

async fn examine_circle(home: &Home) -> Vec<Finding> {
    match Client::new(home.path()).probe().await {
        Ok(status) => {
            let mut findings = vec![Finding::Well(format!("the member runs, on {}", status.listen))];
            if status.members.is_empty() {
                findings.push(Finding::Look("no other member is known yet".to_owned()));
            }
            findings.extend(status.members.iter().flat_map(examine_member));
            findings
        }
        Err(error @ ControlError::NotRunning(_)) => {
            vec![Finding::Mend {
                what: error.to_string(),
                cure: "then ask again: only a running member can look for the others",
            }]
        }
        Err(error) => vec![Finding::Mend { what: error.to_string(), cure: "restart the member" }],
    }
}

/// Heard within the probe's two seconds means UDP works both ways.
fn examine_member(member: &MemberReport) -> Vec<Finding> {
    let MemberReport { name, address, .. } = member;
    let mut findings = Vec::new();
    match (member.heard_s, member.round_trip_ms) {
        (Some(ago), Some(ms)) if ago < 3.0 => {
            findings.push(Finding::Well(format!("{name} at {address} answers, round trip {ms:.1} ms")));
        }
        _ => findings.push(Finding::Mend {
            what: format!("{name} at {address} does not answer"),
            cure: "is it running? do both firewalls let UDP through, in both directions?",
        }),
    }
    match member.clock_offset_ms {
        Some(offset) if offset.abs() > CLOCK_WORTH_A_LOOK_MS => {
            let seconds = offset as f64 / 1e3;
            findings.push(Finding::Look(format!(
                "the clock of {name} is {seconds:+.1} s off ours; does NTP run on both?"
            )));
        }
        _ => {}
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(heard_s: Option<f64>, clock_offset_ms: i64) -> MemberReport {
        MemberReport {
            name: "lab-b".to_owned(),
            member: "0a0b0c0d".to_owned(),
            address: "127.0.0.1:1".to_owned(),
            heard_s,
            round_trip_ms: heard_s.map(|_| 1.0),
            clock_offset_ms: Some(clock_offset_ms),
            waited_s: None,
            suspected: false,
            expires_s: 0,
            expires_in_days: None,
        }
    }

    #[test]
    fn silence_must_be_mended_and_a_wrong_clock_deserves_a_look() {
        assert!(matches!(examine_member(&member(Some(0.5), 10))[..], [Finding::Well(_)]));
        assert!(matches!(examine_member(&member(Some(60.0), 10))[..], [Finding::Mend { .. }]));
        assert!(matches!(examine_member(&member(None, 10))[..], [Finding::Mend { .. }]));
        assert!(matches!(
            examine_member(&member(Some(0.5), -9_000))[..],
            [Finding::Well(_), Finding::Look(_)]
        ));
    }
}
