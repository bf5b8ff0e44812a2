//! `stroll doctor`: is everything in order, and if not, what is the cure?

use std::io::Write as _;
use std::time::Duration;

use serde_json::json;
use stroll::base::units::human_duration;
use stroll::peer::{Client, ControlError, MemberReport, RingReport, StatusReport};
use stroll::proto::agent::{Config, Rules};
use stroll::trust::{Home, expiry_warning};
use stroll::wire::records::{Charter, RuleSet};

use super::ending::Ending;
use super::exit::Ailing;
use super::homes::HomeArgs;
use super::inspection::inspect;
use super::transfer::Transfer;
use super::utc::now_s;

/// Examine this member: files, certificate, UDP both ways with each known member, clocks, the ring of tickets.
///
/// Every line is one finding: ✓ is well, ! deserves a look, ✗ must be mended, and then the cure stands beside it. The exit
/// code is 0 if nothing must be mended.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    home: HomeArgs,

    /// Print the findings as JSON
    #[arg(long, env = "STROLL_JSON")]
    json: bool,

    /// Also ask the source what it can do: a login, a listing and one byte, at once and in no slot
    #[arg(long, visible_alias = "source", env = "STROLL_ASK_SOURCE")]
    ask_source: bool,
}

/// Clocks further apart than this order tokens wrongly and may break certificates.
const CLOCK_WORTH_A_LOOK_MS: i64 = 5_000;

/// A certificate is renewed a month before its end: one that was not has a reason.
const EXPIRY_WORTH_A_LOOK_DAYS: u64 = 30;

/// A charter with more room than this many times the members does not fit them.
const ROOM_WORTH_A_LOOK: u32 = 4;

/// The cure where those of a ring are gone.
const BRING_BACK: &str = "bring those of the ring back that do not answer; if they never will, the authority founds a new \
                          ring: `stroll circle amend --new-ring`";

/// One finding.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Finding {
    Well(String),
    Look(String),
    Mend { what: String, cure: &'static str },
}

impl Finding {
    fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Well(what) => json!({ "level": "well", "what": what }),
            Self::Look(what) => json!({ "level": "look", "what": what }),
            Self::Mend { what, cure } => json!({ "level": "mend", "what": what, "cure": cure }),
        }
    }
}

pub(super) fn run(args: &Args, transfer: &Transfer) -> anyhow::Result<()> {
    // The command that prints a password ends with the process.
    let _ending = Ending::watch()?;
    let (_, home) = args.home.open()?;
    let mut findings = examine_files(&home);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    findings.extend(runtime.block_on(examine_circle(&home)));
    if args.ask_source {
        let source = home.load_credentials()?.roll.charter().source.clone();
        findings.extend(runtime.block_on(inspect(&source, transfer))?);
    }
    let ailments = findings.iter().filter(|finding| matches!(finding, Finding::Mend { .. })).count();
    let mut out = std::io::stdout().lock();
    if args.json {
        let list: Vec<_> = findings.iter().map(Finding::to_json).collect();
        writeln!(out, "{}", json!({ "version": 1, "ok": ailments == 0, "findings": list }))?;
    } else {
        for finding in &findings {
            match finding {
                Finding::Well(what) => writeln!(out, "✓ {what}")?,
                Finding::Look(what) => writeln!(out, "! {what}")?,
                Finding::Mend { what, cure } => writeln!(out, "✗ {what}\n    {cure}")?,
            }
        }
    }
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
            findings.extend(examine_identity(&status));
            findings.extend(examine_members(&status.members));
            let charter = home.load_credentials().ok().map(|credentials| credentials.roll.charter().clone());
            findings.extend(charter.and_then(|charter| examine_capacity(&charter, &status)));
            findings.extend(status.ring.iter().flat_map(|ring| examine_ring(ring, &status)));
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

/// Those who were probed just now.
pub(super) fn examine_members(members: &[MemberReport]) -> Vec<Finding> {
    if members.is_empty() {
        return vec![Finding::Look("no other member is known yet".to_owned())];
    }
    members.iter().flat_map(examine_member).collect()
}

/// Heard within the probe's two seconds means UDP works both ways.
fn examine_member(member: &MemberReport) -> Vec<Finding> {
    let MemberReport { name, address, .. } = member;
    let mut findings = Vec::new();
    match (member.heard_s, member.round_trip_ms) {
        (Some(ago), Some(ms)) if ago < 3.0 => {
            let clock = member.clock_offset_ms.map(|offset| format!(", clock {:+.2} s", offset as f64 / 1e3));
            let clock = clock.unwrap_or_default();
            findings
                .push(Finding::Well(format!("{name} at {address} answers, round trip {ms:.1} ms{clock}")));
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
    if let Some(days) = member.expires_in_days.filter(|days| *days <= EXPIRY_WORTH_A_LOOK_DAYS) {
        findings.push(Finding::Look(format!(
            "the certificate of {name} expires in {days} days; does it reach the member that renews it?"
        )));
    }
    findings
}

/// Who copies a member's files makes two members of one name, and nobody serves both.
fn examine_identity(status: &StatusReport) -> Option<Finding> {
    let seen = status.count("duplicate_identity");
    (seen > 0).then(|| {
        Finding::Look(
            "another process speaks, or spoke since the start, with this member's key; invite it, and let it join by itself"
                .to_owned(),
        )
    })
}

/// The capacity of a charter against the members that are there. Tickets are counted by [`examine_ring`].
fn examine_capacity(charter: &Charter, status: &StatusReport) -> Option<Finding> {
    let others = status.members.iter().filter(|member| !member.suspected).count();
    let members = u32::try_from(others).unwrap_or(u32::MAX).saturating_add(1);
    let capacity = charter.capacity;
    if charter.ring().is_some() || members < 2 {
        return None;
    }
    if members > capacity {
        return Some(Finding::Look(format!(
            "the charter is laid out for {capacity} members, and {members} are here: in a full circle each has a slot less \
             often than the charter says; the authority admits no more members, or changes it: \
             `stroll circle amend --capacity {members}`"
        )));
    }
    if capacity / members < ROOM_WORTH_A_LOOK {
        return Some(Finding::Well(format!("the charter's capacity of {capacity} fits {members} members")));
    }
    let config = Config::new(charter.slot, charter.skip, capacity, Rules::guarded()).ok()?;
    let wait = human_duration(config.min_interval());
    let effect = match charter.rules {
        RuleSet::Guarded => format!(
            "overload is reported only beyond {capacity} members, and if a token and its custodian are lost at once the \
             next token comes after {wait} or more"
        ),
        RuleSet::Classic | RuleSet::Early => {
            format!("each member waits {wait} or more between two slots, and the source is idle meanwhile")
        }
    };
    Some(Finding::Look(format!(
        "the charter is laid out for {capacity} members, and {members} are here: {effect}; the authority changes it: \
         `stroll circle amend --capacity {}`",
        members.saturating_mul(2)
    )))
}

/// What a ring bears depends on how many are in it; and who is in it may be cut off from the others.
fn examine_ring(ring: &RingReport, status: &StatusReport) -> Vec<Finding> {
    let RingReport { tickets, faults, epoch, .. } = ring;
    let mut findings = vec![Finding::Well(format!(
        "members take turns by tickets: {tickets} of them, faults {faults}, ring {epoch}"
    ))];
    let members = 1 + status.members.iter().filter(|member| !member.suspected).count();
    let borne = ring.faults_borne(members);
    if borne < usize::from(*faults) {
        let seats = members.min(usize::from(*tickets));
        let needed = 2 * u16::from(*faults) + 1;
        let so = match borne {
            0 => "bears no crash: those who are left stop until everybody is back".to_owned(),
            1 => "bears one crash at once".to_owned(),
            borne => format!("bears {borne} crashes at once"),
        };
        findings.push(Finding::Look(format!(
            "faults {faults} needs {needed} members and as many tickets; a ring of {seats} {so}"
        )));
    }
    if ring.ticket.is_some() && !ring.sure {
        findings.push(Finding::Mend {
            what: "too few members vouch for our ticket, so it is not used".to_owned(),
            cure: BRING_BACK,
        });
    }
    if let Some(waited) = ring.waited_s.filter(|_| ring.ticket.is_none() && status.verdict.is_overloaded()) {
        findings.push(Finding::Look(format!(
            "no ticket for {}; if nobody has one, {BRING_BACK}",
            human_duration(Duration::try_from_secs_f64(waited).unwrap_or_default())
        )));
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
        match &examine_member(&member(Some(0.5), -1240))[..] {
            [Finding::Well(well)] => assert!(well.ends_with("round trip 1.0 ms, clock -1.24 s"), "{well}"),
            findings => panic!("{findings:?}"),
        }
        assert!(matches!(examine_member(&member(Some(60.0), 10))[..], [Finding::Mend { .. }]));
        assert!(matches!(examine_member(&member(None, 10))[..], [Finding::Mend { .. }]));
        assert!(matches!(
            examine_member(&member(Some(0.5), -9_000))[..],
            [Finding::Well(_), Finding::Look(_)]
        ));
    }

    #[test]
    fn a_certificate_of_another_that_ends_soon_deserves_a_look() {
        let ending = |days| MemberReport { expires_in_days: Some(days), ..member(Some(0.5), 0) };
        assert!(matches!(examine_member(&ending(31))[..], [Finding::Well(_)]));
        match &examine_member(&ending(30))[..] {
            [Finding::Well(_), Finding::Look(look)] => {
                assert!(look.contains("of lab-b expires in 30 days"), "{look}");
            }
            findings => panic!("{findings:?}"),
        }
    }

    #[test]
    fn a_twin_deserves_a_look() {
        let mut status = in_ring(2, true);
        assert_eq!(examine_identity(&status), None);
        status.counters.insert("duplicate_identity".to_owned(), 1);
        assert!(matches!(examine_identity(&status), Some(Finding::Look(_))));
    }

    /// Among so many others, with three tickets of which we have the last.
    fn in_ring(others: usize, sure: bool) -> StatusReport {
        let other = serde_json::to_value(member(Some(0.5), 0)).unwrap();
        let status = json!({
            "version": 1, "circle": "virgo", "name": "lab-a", "member": "0a0b0c0d", "listen": "127.0.0.1:7433",
            "expires_s": 0, "state": "idle", "mode": "tickets", "cooling_s": 0.0, "charter_version": 1, "bans_version": 0,
            "ring": {
                "tickets": 3, "faults": 1, "epoch": 1, "ticket": 2, "sure": sure, "waiting": 0,
                "coordinates": { "from": 2, "to": 2, "count": 1 }, "coordinators": [],
            },
            "verdict": { "level": "nominal", "reason": "", "since_s": 0.0 },
            "counters": {}, "rejected": {}, "members": vec![other; others],
        });
        serde_json::from_value(status).unwrap()
    }

    fn charter(capacity: u32, rules: RuleSet) -> Charter {
        Charter {
            circle: stroll::base::CircleId::from_bytes([1; 16]),
            version: 1,
            issued_s: 0,
            name: "virgo".to_owned(),
            source: "http://127.0.0.1/".to_owned(),
            aliases: Vec::new(),
            slot: Duration::from_secs(4),
            skip: Duration::from_millis(100),
            capacity,
            bandwidth: 0,
            rules,
            scouts: 8,
            retention: Duration::ZERO,
            mode: stroll::wire::records::Mode::Token,
            signature: [0; 64],
        }
    }

    #[test]
    fn a_capacity_that_does_not_fit_the_members_deserves_a_look_with_the_command_that_changes_it() {
        let examined =
            |capacity, rules, others| examine_capacity(&charter(capacity, rules), &in_ring(others, true));
        for (capacity, rules, others, expected) in [
            (2, RuleSet::Guarded, 2, "members, and 3 are here: in a full circle each has a slot less often"),
            (2, RuleSet::Guarded, 2, "`stroll circle amend --capacity 3`"),
            (300, RuleSet::Guarded, 2, "overload is reported only beyond 300 members"),
            (300, RuleSet::Guarded, 2, "`stroll circle amend --capacity 6`"),
            (300, RuleSet::Classic, 2, "each member waits 10 min 0 s or more between two slots"),
        ] {
            match examined(capacity, rules, others) {
                Some(Finding::Look(look)) => assert!(look.contains(expected), "{look}"),
                finding => panic!("{capacity}, {others} others: {finding:?}"),
            }
        }
        for (capacity, others) in [(3, 2), (11, 2)] {
            let finding = examined(capacity, RuleSet::Classic, others);
            assert!(matches!(finding, Some(Finding::Well(_))), "{capacity}: {finding:?}");
        }
        assert_eq!(examined(300, RuleSet::Guarded, 0), None, "a founder that waits for the others");
    }

    #[test]
    fn a_ring_that_is_too_small_deserves_a_look_and_one_that_does_not_vouch_must_be_mended() {
        let examined = |status: StatusReport| examine_ring(status.ring.as_ref().unwrap(), &status);
        assert!(matches!(&examined(in_ring(2, true))[..], [Finding::Well(_)]));
        match &examined(in_ring(1, true))[..] {
            [Finding::Well(mode), Finding::Look(small)] => {
                assert!(mode.contains("3 of them, faults 1"), "{mode}");
                assert!(small.contains("a ring of 2 bears no crash"), "{small}");
            }
            findings => panic!("{findings:?}"),
        }
        match &examined(in_ring(2, false))[..] {
            [Finding::Well(_), Finding::Mend { cure, .. }] => assert!(cure.contains("--new-ring"), "{cure}"),
            findings => panic!("{findings:?}"),
        }
    }
}
