//! Tells people what they should know while nobody looks: that the verdict on the circle's load has changed, and that data
//! is about to be flushed at the source unseen. To the log, a command and a webhook.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinHandle;
use tracing::{info, warn};

use crate::base::Time;
use crate::driver::{BootClock, Handle};
use crate::fetch::tls::client_config;
use crate::fetch::{Fault, Options};
use crate::jobs::State;
use crate::jobs::hook::Hook;
use crate::node::Event;
use crate::proto::load::Level;
use crate::proto::load::retention::{Retention, Warning};

use super::control::Served;
use super::dials::Dials;
use super::report::{RiskReport, StatusReport, VerdictReport};

/// How often the lag of each job, and the time since its last look, is compared with what the source keeps.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// How long a command or a webhook may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Who is told.
#[derive(Clone, Debug, Default)]
pub struct Notices {
    /// A command, with the notice in its environment.
    pub hook: Option<Hook>,
    /// A place that takes JSON.
    pub webhook: Option<Webhook>,
}

/// A place that takes JSON over HTTP.
#[derive(Clone, Debug)]
pub struct Webhook {
    url: url::Url,
    client: reqwest::Client,
}

impl Webhook {
    /// Posts go there.
    pub fn new(url: url::Url, options: &Options) -> Result<Self, Fault> {
        let tls = Arc::unwrap_or_clone(client_config(None)?);
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .user_agent(options.user_agent())
            .timeout(PATIENCE)
            .build()
            .map_err(|error| Fault::Unsupported(format!("webhook: {error}")))?;
        Ok(Self { url, client })
    }

    async fn post(&self, notice: &Notice) -> Result<(), reqwest::Error> {
        let body = notice.json().to_string();
        let post = self.client.post(self.url.clone()).header("content-type", "application/json").body(body);
        post.send().await?.error_for_status().map(drop)
    }
}

/// Something that people should know.
#[derive(Clone, Debug, PartialEq)]
struct Notice {
    /// `load` or `retention`.
    event: &'static str,
    circle: String,
    member: String,
    /// Which job it is about.
    job: Option<String>,
    level: String,
    reason: String,
    advice: Option<String>,
}

impl Notice {
    fn json(&self) -> serde_json::Value {
        let Self { event, circle, member, job, level, reason, advice } = self;
        json!({
            "version": 1, "event": event, "circle": circle, "member": member, "job": job,
            "level": level, "reason": reason, "advice": advice,
        })
    }

    fn vars(&self) -> Vec<(&'static str, String)> {
        vec![
            ("STROLL_EVENT", self.event.to_owned()),
            ("STROLL_CIRCLE", self.circle.clone()),
            ("STROLL_MEMBER", self.member.clone()),
            ("STROLL_JOB", self.job.clone().unwrap_or_default()),
            ("STROLL_LEVEL", self.level.clone()),
            ("STROLL_REASON", self.reason.clone()),
            ("STROLL_ADVICE", self.advice.clone().unwrap_or_default()),
        ]
    }
}

/// Starts to look out, until the node ends.
pub(super) fn spawn(handle: &Handle, served: Served, dials: Dials) -> JoinHandle<()> {
    let mut events = handle.events();
    tokio::spawn(async move {
        let mut looks = tokio::time::interval(LOOK_EVERY);
        let mut lags = Lags::default();
        let mut told = Level::Nominal.name().to_owned();
        loop {
            tokio::select! {
                _ = looks.tick() => {
                    let Some(status) = served.report().await else { return };
                    let notices = lags.look(&status, BootClock::new().now());
                    served.set_risks(lags.risks());
                    for notice in notices {
                        warn!(job = notice.job, "{}", notice.reason);
                        dials.notices().tell(notice);
                    }
                }
                event = events.recv() => match event {
                    Ok((_, Event::Load(_))) => {
                        let Some(status) = served.report().await else { return };
                        // The level may have changed again since. Level, reason and advice of a notice are of one moment.
                        if told != status.verdict.level {
                            told.clone_from(&status.verdict.level);
                            log(&status);
                            dials.notices().tell(of_load(status));
                        }
                    }
                    Ok(_) | Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return,
                },
            }
        }
    })
}

fn log(status: &StatusReport) {
    let VerdictReport { level, reason, .. } = &status.verdict;
    let advice = status.advice.as_deref().unwrap_or_default();
    if status.verdict.is_overloaded() {
        warn!(level, advice, "{reason}");
    } else {
        info!(level, advice, "{reason}");
    }
}

fn of_load(status: StatusReport) -> Notice {
    Notice {
        event: "load",
        circle: status.circle,
        member: status.name,
        job: None,
        level: status.verdict.level,
        reason: status.verdict.reason,
        advice: status.advice,
    }
}

/// How far each job is behind.
#[derive(Debug, Default)]
struct Lags {
    /// How long the source keeps what it has; a charter may change it.
    retention: Duration,
    jobs: BTreeMap<String, Retention>,
}

impl Lags {
    /// Whether a job is so far behind that data will be lost; said once, until it has caught up.
    fn look(&mut self, status: &StatusReport, now: Time) -> Vec<Notice> {
        let retention = Duration::from_secs(status.retention_s.unwrap_or(0));
        if self.retention != retention {
            *self = Self { retention, jobs: BTreeMap::new() };
        }
        self.jobs.retain(|name, _| status.jobs.iter().any(|job| job.name == *name));
        let mut notices = Vec::new();
        for job in &status.jobs {
            let span = |seconds: Option<f64>| seconds.and_then(|span| Duration::try_from_secs_f64(span).ok());
            let (lag, unseen) = (span(job.lag_s), span(job.unseen_s));
            if lag.or(unseen).is_none() {
                continue;
            }
            let (lag, unseen) = (lag.unwrap_or_default(), unseen.unwrap_or_default());
            let watched = self.jobs.entry(job.name.clone()).or_insert_with(|| Retention::new(retention));
            let before = watched.warning().is_some();
            if let Some(warning) = watched.handle(lag, unseen, now).filter(|_| !before) {
                notices.push(Notice {
                    event: "retention",
                    circle: status.circle.clone(),
                    member: status.name.clone(),
                    job: Some(job.name.clone()),
                    level: State::Lagging.word().to_owned(),
                    reason: warning.to_string(),
                    advice: status.advice.clone(),
                });
            }
        }
        notices
    }

    /// The jobs that may lose data at present.
    fn risks(&self) -> Vec<RiskReport> {
        let warned = self.jobs.iter().filter_map(|(job, watched)| Some((job, watched.warning()?)));
        let risk = |(job, warning): (&String, Warning)| RiskReport {
            job: job.clone(),
            reason: warning.to_string(),
            lost: warning.lost_in.is_some_and(|left| left.is_zero()) || warning.unseen >= warning.retention,
        };
        warned.map(risk).collect()
    }
}

impl Notices {
    /// Without waiting: a command that hangs must not keep the next notice.
    fn tell(&self, notice: Notice) {
        if let Some(hook) = self.hook.clone() {
            let vars = notice.vars();
            tokio::spawn(async move {
                match hook.run(&vars, PATIENCE).await {
                    Ok(status) if status.success() => {}
                    Ok(status) => warn!(%status, command = hook.command(), "the command for notices failed"),
                    Err(error) => warn!(%error, "the command for notices failed"),
                }
            });
        }
        if let Some(webhook) = self.webhook.clone() {
            tokio::spawn(async move {
                if let Err(error) = webhook.post(&notice).await {
                    // Without its address, which may hold a secret.
                    warn!(error = %error.without_url(), "the webhook failed");
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::JobReport;

    #[test]
    fn a_notice_of_data_at_risk_carries_the_advice_and_the_risk_lasts_as_long_as_its_reason() {
        let job = JobReport { name: "frames".into(), lag_s: Some(290.0), ..JobReport::default() };
        let mut status: StatusReport = serde_json::from_value(json!({
            "version": 1, "circle": "virgo", "name": "lab-a", "member": "0a", "listen": "", "expires_s": 0,
            "state": "waiting", "cooling_s": 0.0, "charter_version": 1, "bans_version": 0, "retention_s": 300,
            "verdict": { "level": "nominal", "reason": "", "since_s": 0.0 }, "counters": {}, "rejected": {},
            "members": [], "advice": "this circle can carry 455 KB/s per member now",
        }))
        .expect("a status");
        status.jobs = vec![job];
        let mut lags = Lags::default();
        let notices = lags.look(&status, Time::from_secs(1));
        assert_eq!(notices.len(), 1);
        let advice = notices[0].vars().into_iter().find(|(name, _)| *name == "STROLL_ADVICE");
        assert_eq!(advice.map(|(_, value)| value), status.advice);
        let [risk] = &lags.risks()[..] else { panic!("one job") };
        assert_eq!((risk.job.as_str(), risk.lost), ("frames", false));
        status.jobs[0].lag_s = Some(300.0);
        assert!(lags.look(&status, Time::from_secs(2)).is_empty(), "it was told");
        assert!(lags.risks()[0].lost);
        status.jobs[0].lag_s = Some(0.0);
        lags.look(&status, Time::from_secs(3));
        assert_eq!(lags.risks(), []);
    }

    #[test]
    fn a_notice_says_the_same_to_commands_and_webhooks() {
        let notice = Notice {
            event: "load",
            circle: "virgo".into(),
            member: "lab-a".into(),
            job: None,
            level: "overloaded".into(),
            reason: "load factor 1.5".into(),
            advice: Some("455 KB/s".into()),
        };
        let json = notice.json();
        for (name, value) in notice.vars() {
            let key = name.trim_start_matches("STROLL_").to_lowercase();
            assert_eq!(json[&key].as_str().unwrap_or_default(), value, "{name}");
        }
    }
}
