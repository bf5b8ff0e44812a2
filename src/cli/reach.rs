//! Whom a member reaches, told in a line or two: the end of `join`. What is wrong is told as `doctor` tells it, with the
//! cure; here it is a warning, since one can be a member though nobody answers just now.

use std::time::Duration;

use stroll::peer::{Client, ControlError, MemberReport, first_number, who_answers};
use stroll::trust::Home;

use super::doctor::{Finding, examine_members};
use super::exit::chain;

/// How long the others have to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// So many findings are told; `doctor` has them all.
const TOLD: usize = 3;

/// Asks around and tells who answers and how far their clocks are off.
pub(super) fn tell(home: &Home) {
    match ask_around(home) {
        Ok(members) => lines(&members).iter().for_each(|line| eprintln!("  {line}")),
        Err(error) => eprintln!("  ! the other members could not be asked: {}", chain(error.as_ref())),
    }
}

/// A member that runs asks for itself, as it does for `doctor`.
fn ask_around(home: &Home) -> anyhow::Result<Vec<MemberReport>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match Client::new(home.path()).probe().await {
            Ok(status) => Ok(status.members),
            Err(ControlError::NotRunning(_)) => {
                let first = home.begin_life(first_number())?;
                Ok(who_answers(&home.load_credentials()?, first, PATIENCE).await?)
            }
            Err(error) => Err(error.into()),
        }
    })
}

fn lines(members: &[MemberReport]) -> Vec<String> {
    let findings = examine_members(members);
    let (well, ailing): (Vec<_>, Vec<_>) =
        findings.into_iter().partition(|finding| matches!(finding, Finding::Well(_)));
    let mut lines: Vec<String> = summary(members, well.len(), &ailing).into_iter().collect();
    lines.extend(ailing.iter().take(TOLD).map(|finding| match finding {
        Finding::Well(what) | Finding::Look(what) => format!("! {what}"),
        Finding::Mend { what, cure } => format!("! {what}\n      {cure}"),
    }));
    if let Some(more) = ailing.len().checked_sub(TOLD + 1) {
        lines.push(format!("! and {} more; `stroll doctor` tells them all, once this member runs", more + 1));
    }
    lines
}

/// How many answer, and if no clock deserves a look, how far off the worst one is.
fn summary(members: &[MemberReport], reached: usize, ailing: &[Finding]) -> Option<String> {
    let known = members.len();
    let sign = if reached == known { '✓' } else { '!' };
    let clocks_agree = !ailing.iter().any(|finding| matches!(finding, Finding::Look(_)));
    let offsets = members.iter().filter_map(|member| member.clock_offset_ms).map(i64::unsigned_abs);
    let clock = offsets.max().filter(|_| clocks_agree && reached > 0);
    let clock = clock.map(|ms| format!("   ✓ clock offset {:.2} s", ms as f64 / 1e3)).unwrap_or_default();
    (known > 0).then(|| format!("{sign} {reached} of {known} members reached{clock}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, heard_s: Option<f64>, clock_offset_ms: i64) -> MemberReport {
        MemberReport {
            name: name.to_owned(),
            member: "0a0b0c0d".to_owned(),
            address: "127.0.0.1:1".to_owned(),
            heard_s,
            round_trip_ms: heard_s.map(|_| 1.0),
            clock_offset_ms: heard_s.map(|_| clock_offset_ms),
            waited_s: None,
            suspected: heard_s.is_none(),
            expires_s: 0,
            expires_in_days: None,
        }
    }

    #[test]
    fn all_are_reached_and_the_worst_clock_is_told() {
        let members = [member("lab-a", Some(0.1), 12), member("lab-b", Some(0.1), -41)];
        assert_eq!(lines(&members), ["✓ 2 of 2 members reached   ✓ clock offset 0.04 s"]);
    }

    #[test]
    fn who_does_not_answer_and_whose_clock_is_wrong_is_named_with_the_cure() {
        let members = [member("lab-a", Some(0.1), 61_000), member("lab-b", None, 0)];
        match &lines(&members)[..] {
            [summary, clock, silent] => {
                assert_eq!(summary, "! 1 of 2 members reached");
                assert!(
                    clock.starts_with("! the clock of lab-a is +61.0 s off ours; does NTP run"),
                    "{clock}"
                );
                assert!(silent.starts_with("! lab-b at 127.0.0.1:1 does not answer\n"), "{silent}");
                assert!(silent.contains("firewalls"), "{silent}");
            }
            lines => panic!("{lines:?}"),
        }
    }

    #[test]
    fn nobody_and_too_many_are_told_in_few_words() {
        assert_eq!(lines(&[]), ["! no other member is known yet"]);
        let silent = vec![member("lab-a", None, 0); 9];
        let lines = lines(&silent);
        assert_eq!(lines.len(), 1 + TOLD + 1);
        assert!(lines[1 + TOLD].starts_with("! and 6 more"), "{lines:?}");
    }
}
