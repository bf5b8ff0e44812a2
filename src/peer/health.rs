//! Whether a member is well: the answer of `stroll status --check`, the colour of the page and a metric. A pure function of
//! the status, so that they never contradict each other.

use std::fmt;

use crate::jobs::{JobReport, State};

use super::report::{StatusReport, VerdictReport};

/// How bad it is. The words and the numbers are those of monitoring plugins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Severity {
    /// All is well.
    Ok = 0,
    /// It needs a look.
    Warning = 1,
    /// It needs help, or data is lost.
    Critical = 2,
    /// The member cannot be asked.
    Unknown = 3,
}

impl Severity {
    /// The exit code.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Warning => "WARNING",
            Self::Critical => "CRITICAL",
            Self::Unknown => "UNKNOWN",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.word())
    }
}

/// What there is to say about a member's health.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The worst of all findings.
    pub severity: Severity,
    /// The findings, the worst first; of a member that is well, a summary.
    pub text: String,
}

impl StatusReport {
    /// Whether all is well with this member, and if not, what is wrong.
    pub fn health(&self) -> Health {
        let mut findings: Vec<(Severity, String)> = Vec::new();
        findings.extend(self.cut_off());
        findings.extend(self.of_verdict());
        findings.extend(self.of_risks());
        findings.extend(self.backing_off().map(|text| (Severity::Warning, text)));
        findings.extend(self.all_paused());
        findings.extend(self.jobs.iter().filter_map(of_job));
        findings.extend(self.of_certificate());
        // The order among equals stays.
        findings.sort_by_key(|(severity, _)| std::cmp::Reverse(*severity));
        let Some((severity, _)) = findings.first() else {
            return Health { severity: Severity::Ok, text: self.summary() };
        };
        let texts: Vec<&str> = findings.iter().map(|(_, text)| text.as_str()).collect();
        Health { severity: *severity, text: texts.join("; ") }
    }

    fn cut_off(&self) -> Option<(Severity, String)> {
        let text = match self.cut_off_from()? {
            1 => "disconnected: the only other member does not answer".to_owned(),
            count => format!("disconnected: none of {count} other members answers"),
        };
        Some((Severity::Critical, text))
    }

    fn of_verdict(&self) -> Option<(Severity, String)> {
        let VerdictReport { level, reason, .. } = &self.verdict;
        let severity = match level.as_str() {
            "starved" => Severity::Critical,
            "overloaded" | "disturbed" => Severity::Warning,
            _ => return None,
        };
        Some((severity, format!("{level}: {reason}")))
    }

    fn of_risks(&self) -> impl Iterator<Item = (Severity, String)> {
        self.at_risk.iter().map(|risk| {
            let severity = if risk.lost { Severity::Critical } else { Severity::Warning };
            (severity, format!("{}: {}", risk.job, risk.reason))
        })
    }

    fn all_paused(&self) -> Option<(Severity, String)> {
        let count = self.jobs.len();
        let is_paused = |job: &JobReport| job.state == State::Paused;
        if count == 0 || !self.jobs.iter().all(is_paused) {
            return None;
        }
        let text = if count == 1 {
            "the only job is paused".to_owned()
        } else {
            format!("all {count} jobs are paused")
        };
        Some((Severity::Warning, text))
    }

    fn of_certificate(&self) -> Option<(Severity, String)> {
        let text = match self.expires_in_days? {
            0 => {
                return Some((
                    Severity::Critical,
                    "the certificate expires today, or has expired".to_owned(),
                ));
            }
            1 => "the certificate expires in 1 day".to_owned(),
            days => format!("the certificate expires in {days} days"),
        };
        Some((Severity::Warning, text))
    }

    fn summary(&self) -> String {
        let count = self.jobs.len();
        let noun = if count == 1 { "job" } else { "jobs" };
        format!("{count} {noun}, {}, {}: {}", self.state, self.verdict.level, self.verdict.reason)
    }
}

fn of_job(job: &JobReport) -> Option<(Severity, String)> {
    let severity = match job.state {
        State::Failed => Severity::Critical,
        State::Retrying | State::Lagging | State::BackingOff => Severity::Warning,
        State::Pulling | State::Waiting | State::Idle | State::Paused | State::Stopped => return None,
    };
    let why = job.last_error.as_ref().filter(|_| job.state.is_trouble());
    let why = why.map_or_else(String::new, |why| format!(": {why}"));
    Some((severity, format!("{} [{}]{why}", job.name, job.state.word())))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A member that is well, except for what is said.
    fn member(but: &Value) -> StatusReport {
        let mut status = json!({
            "version": 1, "circle": "virgo", "name": "lab-a", "member": "0a0b0c0d", "listen": "127.0.0.1:7433",
            "expires_s": 0, "state": "waiting", "cooling_s": 0.0, "charter_version": 1, "bans_version": 0,
            "verdict": { "level": "nominal", "reason": "50 % of the capacity is in use", "since_s": 0.0 },
            "counters": {}, "rejected": {}, "members": [other(false)], "jobs": [job("waiting", None)],
        });
        for (key, value) in but.as_object().expect("an object") {
            status[key] = value.clone();
        }
        serde_json::from_value(status).expect("a status")
    }

    fn other(suspected: bool) -> Value {
        json!({ "name": "lab-b", "member": "0b", "address": "127.0.0.1:1", "suspected": suspected, "expires_s": 0 })
    }

    fn job(state: &str, error: Option<&str>) -> Value {
        let state: State = serde_json::from_value(state.into()).expect("a state word");
        let report = JobReport {
            name: "stream".to_owned(),
            state,
            last_error: error.map(str::to_owned),
            ..JobReport::default()
        };
        serde_json::to_value(report).expect("a job")
    }

    fn verdict(level: &str) -> Value {
        json!({ "level": level, "reason": "the reason", "since_s": 0.0 })
    }

    fn risk(lost: bool) -> Value {
        json!([{ "job": "stream", "reason": "12h behind a source that keeps 1d", "lost": lost }])
    }

    #[test]
    fn each_trouble_has_its_severity_and_says_what_it_is() {
        use Severity::{Critical, Ok, Warning};
        let back_off = json!({
            "state": "backing-off", "cooling_s": 240.0, "backing_off_until_s": 1_767_520_800,
            "backing_off_reason": "429 Too Many Requests from example.org",
        });
        let dead_ring = json!({ "mode": "tickets", "verdict": {
            "level": "starved", "reason": "the ring is dead: too few members have vouched", "since_s": 3.0,
        } });
        let failed = json!([job("failed", Some("no such file")), job("pulling", None)]);
        let retrying = json!([job("retrying", Some("connection reset"))]);
        let one_paused = json!([job("paused", None), job("idle", None)]);
        let all_paused = json!([job("paused", None), job("paused", None)]);
        let cases = [
            (json!({}), Ok, "1 job, waiting, nominal: 50 % of the capacity is in use"),
            (json!({ "jobs": [], "members": [] }), Ok, "0 jobs, waiting, nominal: 50 %"),
            (json!({ "verdict": verdict("full") }), Ok, "full: the reason"),
            (json!({ "verdict": verdict("disturbed") }), Warning, "disturbed: the reason"),
            (json!({ "verdict": verdict("overloaded") }), Warning, "overloaded: the reason"),
            (json!({ "verdict": verdict("starved") }), Critical, "starved: the reason"),
            (dead_ring, Critical, "starved: the ring is dead"),
            (
                json!({ "members": [other(true)] }),
                Critical,
                "disconnected: the only other member does not answer",
            ),
            (
                json!({ "members": [other(true), other(true)] }),
                Critical,
                "disconnected: none of 2 other members",
            ),
            (json!({ "members": [other(true), other(false)] }), Ok, "1 job"),
            (
                json!({ "members": [], "unanswered": 2 }),
                Critical,
                "disconnected: none of 2 other members answers",
            ),
            (
                back_off,
                Warning,
                "backing off until 2026-01-04 10:00:00Z (for 4 min 0 s): 429 Too Many Requests from example.org",
            ),
            (json!({ "jobs": one_paused }), Ok, "2 jobs"),
            (json!({ "jobs": all_paused }), Warning, "all 2 jobs are paused"),
            (json!({ "jobs": [job("paused", None)] }), Warning, "the only job is paused"),
            (json!({ "jobs": retrying }), Warning, "stream [retrying]: connection reset"),
            (json!({ "jobs": failed }), Critical, "stream [failed]: no such file"),
            (json!({ "jobs": [job("stopped", None)] }), Ok, "1 job"),
            (json!({ "jobs": [job("lagging", Some("long ago"))] }), Warning, "stream [lagging]"),
            (json!({ "at_risk": risk(false) }), Warning, "stream: 12h behind a source that keeps 1d"),
            (json!({ "at_risk": risk(true) }), Critical, "stream: 12h behind a source that keeps 1d"),
            (json!({ "expires_in_days": 7 }), Warning, "the certificate expires in 7 days"),
            (json!({ "expires_in_days": 1 }), Warning, "the certificate expires in 1 day"),
            (json!({ "expires_in_days": 0 }), Critical, "the certificate expires today, or has expired"),
        ];
        for (but, severity, text) in cases {
            let health = member(&but).health();
            assert_eq!(health.severity, severity, "{but}: {health:?}");
            assert!(health.text.contains(text), "{but}: {health:?}");
        }
    }

    #[test]
    fn of_several_troubles_the_worst_is_first_and_decides() {
        let jobs = json!([job("retrying", Some("connection reset"))]);
        let status = member(&json!({ "jobs": jobs, "expires_in_days": 7, "members": [other(true)] }));
        let Health { severity, text } = status.health();
        assert_eq!(severity, Severity::Critical);
        let texts: Vec<&str> = text.split("; ").collect();
        assert_eq!(
            texts,
            [
                "disconnected: the only other member does not answer",
                "stream [retrying]: connection reset",
                "the certificate expires in 7 days",
            ]
        );
    }

    #[test]
    fn words_and_codes_are_those_of_monitoring_plugins() {
        let all = [Severity::Ok, Severity::Warning, Severity::Critical, Severity::Unknown];
        assert_eq!(all.map(Severity::word), ["OK", "WARNING", "CRITICAL", "UNKNOWN"]);
        assert_eq!(all.map(Severity::code), [0, 1, 2, 3]);
    }
}
