//! The member's metrics, in the OpenMetrics text format that Prometheus reads. The page serves them.
//!
//! Everything is read at the moment of the question: what the node and the jobs count is told, nothing is counted twice.

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, LabelSetEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::jobs::JobReport;

use super::history::{Histogram, Past};
use super::report::StatusReport;
use crate::jobs::State;

/// The content type of the text.
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Label `job` of bytes that borrowing commands pulled. Their own names would make a new time series per process.
const BORROWED: &str = "(borrowed)";

/// A member at one moment, as metrics.
pub(super) fn encode(status: StatusReport, past: Past) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape { status, past }));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry)?;
    Ok(text)
}

#[derive(Debug)]
struct Scrape {
    status: StatusReport,
    past: Past,
}

/// Labels with names that are known and values that are not.
struct Labels<'a, const N: usize>([(&'static str, &'a str); N]);

impl<const N: usize> EncodeLabelSet for Labels<'_, N> {
    fn encode(&self, encoder: &mut LabelSetEncoder) -> fmt::Result {
        self.0.encode(encoder)
    }
}

impl Collector for Scrape {
    fn encode(&self, encoder: DescriptorEncoder) -> fmt::Result {
        let mut out = Out { encoder };
        self.circle(&mut out)?;
        self.ring(&mut out)?;
        self.jobs(&mut out)?;
        let Past { return_time_histogram, access_interval_histogram, .. } = &self.past;
        let Past { handoff_histogram, confirmation_histogram, .. } = &self.past;
        out.histogram(
            "stroll_token_return_seconds",
            "Time between two visits of a token",
            return_time_histogram,
        )?;
        out.histogram(
            "stroll_access_interval_seconds",
            "Time between the beginnings of two slots",
            access_interval_histogram,
        )?;
        out.histogram("stroll_handoff_seconds", "From our yes to a token to its arrival", handoff_histogram)?;
        out.histogram(
            "stroll_handoff_confirmation_seconds",
            "From our first Move for a token to the EarlyStop, or to another proof that it was delivered",
            confirmation_histogram,
        )
    }
}

impl Scrape {
    fn circle(&self, out: &mut Out<'_>) -> fmt::Result {
        let status = &self.status;
        let count = |name: &str| status.count(name);
        out.info(
            "stroll_build",
            "Which program this is",
            [("version", env!("CARGO_PKG_VERSION")), ("circle", &status.circle), ("member", &status.name)],
        )?;
        out.counter("stroll_token_visits", "Visits of a token", count("visits"))?;
        out.counter("stroll_slots", "Slots in which this member could pull", count("slots"))?;
        out.counter_of("stroll_slot_seconds", "Time of these slots", self.past.slot_s)?;
        out.counter(
            "stroll_tokens_regenerated",
            "Tokens made here because one was believed lost",
            count("regenerated"),
        )?;
        out.counter("stroll_tokens_removed", "Spurious tokens removed here", count("removed"))?;
        let handoffs = [
            ("confirmed", count("handed_off")),
            ("unreachable", count("unreachable")),
            ("dropped", count("dropped")),
        ];
        out.counters("stroll_handoffs", "Handoffs by how they ended", "result", handoffs)?;
        let repeated = [("move", count("moves_repeated")), ("commit", count("commits_repeated"))];
        out.counters(
            "stroll_handoff_retransmissions",
            "Datagrams of handoffs that were sent again for want of an answer",
            "message",
            repeated,
        )?;
        out.counter(
            "stroll_commits_abandoned",
            "Commits that were repeated long enough without an answer",
            count("commits_abandoned"),
        )?;
        out.counter(
            "stroll_authority_conflicts",
            "Offers of a token that is here",
            count("authority_conflicts"),
        )?;
        out.counter(
            "stroll_duplicate_identity",
            "Signs of another process with this member's key",
            count("duplicate_identity"),
        )?;
        let rejected = status.rejected.iter().map(|(reason, count)| (reason.as_str(), *count));
        out.counters(
            "stroll_datagrams_rejected",
            "Datagrams that were dropped, by reason",
            "reason",
            rejected,
        )?;
        let suspected = status.members.iter().filter(|member| member.suspected).count();
        let members = [("known", status.members.len() - suspected), ("suspected", suspected)];
        out.gauges("stroll_members", "Other members, by state", "state", members)?;
        out.gauge(
            "stroll_retention_seconds",
            "How long the source keeps what it has, if the charter says so",
            status.retention_s.map(|kept_s| kept_s as f64),
        )?;
        out.gauge("stroll_load_factor", "Demand over capacity, as in the verdict", status.load_factor)?;
        out.gauge(
            "stroll_overloaded",
            "Whether the circle is overloaded, or gives this member no slot at all",
            Some(f64::from(u8::from(status.verdict.is_overloaded()))),
        )?;
        out.gauge(
            "stroll_check",
            "What `stroll status --check` says: 0 OK, 1 WARNING, 2 CRITICAL",
            Some(f64::from(status.health().severity.code())),
        )?;
        out.gauge(
            "stroll_backing_off_seconds",
            "How much longer the source is left alone",
            Some(status.cooling_s),
        )?;
        let at_risk = status.at_risk.len() as f64;
        out.gauge(
            "stroll_jobs_at_risk",
            "Jobs whose source may flush data before it was pulled",
            Some(at_risk),
        )?;
        out.gauge(
            "stroll_certificate_expiry_timestamp_seconds",
            "When this member's certificate expires",
            Some(status.expires_s as f64),
        )
    }

    /// Only where there are tickets.
    fn ring(&self, out: &mut Out<'_>) -> fmt::Result {
        let Some(ring) = &self.status.ring else { return Ok(()) };
        let count = |name: &str| self.status.count(name);
        let flag = |is_so: bool| Some(f64::from(u8::from(is_so)));
        out.gauge("stroll_ticket_held", "Whether this member has a ticket", flag(ring.ticket.is_some()))?;
        out.gauge("stroll_ticket_sure", "Whether it may use its ticket", flag(ring.sure))?;
        out.gauge(
            "stroll_tickets_coordinated",
            "Tickets that are this member's to give, its own included",
            Some(ring.coordinates.map_or(0.0, |range| range.count.into())),
        )?;
        out.gauge(
            "stroll_tickets_waiting",
            "Members that wait for a ticket, as far as this one knows",
            Some(ring.waiting as f64),
        )?;
        out.counter("stroll_tickets_taken", "Tickets that this member had", count("tickets_taken"))?;
        out.counter("stroll_tickets_lost", "Tickets lost, and not given back", count("tickets_lost"))?;
        out.counter(
            "stroll_tickets_excluded",
            "Members whose tickets were taken over here",
            count("excluded"),
        )
    }

    fn jobs(&self, out: &mut Out<'_>) -> fmt::Result {
        let jobs = &self.status.jobs;
        let sums = |of: fn(&JobReport) -> u64| {
            let mut sums = BTreeMap::new();
            for job in jobs {
                *sums.entry(job.name.as_str()).or_insert(0) += of(job);
            }
            sums
        };
        // By its own jobs, and by commands that borrow its slots: the source sees no difference.
        let mut bytes = sums(|job| job.bytes);
        *bytes.entry(BORROWED).or_insert(0) += self.status.borrowed_bytes;
        out.counters("stroll_bytes_transferred", "Bytes pulled in this member's slots", "job", bytes)?;
        out.counters("stroll_files_transferred", "Files pulled", "job", sums(|job| job.files))?;
        out.counters("stroll_files_deleted", "Replicas removed", "job", sums(|job| job.deleted))?;
        out.counters("stroll_entries_listed", "Entries of folders listed", "job", sums(|job| job.listed))?;
        out.counters("stroll_errors", "What went wrong", "job", sums(|job| job.errors))?;
        let mut refusals = BTreeMap::new();
        for job in jobs {
            for (code, count) in &job.refusals {
                *refusals.entry([("job", job.name.as_str()), ("code", code)]).or_insert(0) += count;
            }
        }
        let states = State::ALL.map(|state| {
            let count = jobs.iter().filter(|job| job.state == state).count();
            (state.word(), count as f64)
        });
        out.gauges("stroll_jobs", "Jobs, by what they do", "state", states)?;
        out.counters_by("stroll_source_refusals", "Refusals of the source, by code", refusals)?;
        let each = |of: fn(&JobReport) -> Option<f64>| {
            let values = jobs.iter().filter_map(|job| Some((job.name.as_str(), of(job)?)));
            values.collect::<BTreeMap<_, _>>()
        };
        let chunks = each(|job| job.chunk_bytes.map(|bytes| bytes as f64));
        out.gauges("stroll_chunk_bytes", "What a slot is to bring, by job", "job", chunks)?;
        let budgets = each(|job| job.budget_bytes.map(|bytes| bytes as f64));
        out.gauges("stroll_slot_budget_bytes", "What a job should pull in a slot", "job", budgets)?;
        let carried = each(|job| (job.slots > 0).then_some(job.last_slot_bytes as f64));
        out.gauges("stroll_slot_carried_bytes", "What a job's last slot carried", "job", carried)?;
        let intervals = each(|job| job.interval_s);
        out.gauges("stroll_job_interval_seconds", "Recent time between a job's slots", "job", intervals)?;
        out.gauges("stroll_lag_seconds", "How far a job is behind its source", "job", each(|job| job.lag_s))?;
        out.gauges(
            "stroll_unseen_seconds",
            "How long ago a job saw all that its source has",
            "job",
            each(|job| job.unseen_s),
        )?;
        out.gauges(
            "stroll_refused_names",
            "Listed names that a job cannot use: their files are never pulled",
            "job",
            each(|job| Some(job.refused as f64)),
        )?;
        out.gauges(
            "stroll_job_next_run_timestamp_seconds",
            "When a job runs next",
            "job",
            each(|job| job.next_run_s.map(|at_s| at_s as f64)),
        )?;
        out.gauges(
            "stroll_job_last_success_timestamp_seconds",
            "When a job last succeeded or delivered",
            "job",
            each(|job| job.last_success_s.map(|at_s| at_s as f64)),
        )
    }
}

/// Writes metrics; each has its own descriptor. One without any value is left out, since not every reader likes a descriptor
/// alone.
struct Out<'a> {
    encoder: DescriptorEncoder<'a>,
}

impl Out<'_> {
    fn info<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        labels: [(&'static str, &str); N],
    ) -> fmt::Result {
        self.encoder.encode_descriptor(name, help, None, MetricType::Info)?.encode_info(&Labels(labels))
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let mut metric = self.encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        metric.encode_counter::<NoLabelSet, _, u64>(&value, None)
    }

    fn counter_of(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        let mut metric = self.encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        metric.encode_counter::<NoLabelSet, _, f64>(&value, None)
    }

    fn counters<'v>(
        &mut self,
        name: &str,
        help: &str,
        label: &'static str,
        values: impl IntoIterator<Item = (&'v str, u64)>,
    ) -> fmt::Result {
        self.counters_by(name, help, values.into_iter().map(|(of, value)| ([(label, of)], value)))
    }

    fn counters_by<'v, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = ([(&'static str, &'v str); N], u64)>,
    ) -> fmt::Result {
        let mut values = values.into_iter().peekable();
        if values.peek().is_none() {
            return Ok(());
        }
        let mut metric = self.encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in values {
            metric.encode_family(&Labels(labels))?.encode_counter::<NoLabelSet, _, u64>(&value, None)?;
        }
        Ok(())
    }

    fn gauge(&mut self, name: &str, help: &str, value: Option<f64>) -> fmt::Result {
        let Some(value) = value else { return Ok(()) };
        self.encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
    }

    fn gauges<'v, V: prometheus_client::encoding::EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        label: &'static str,
        values: impl IntoIterator<Item = (&'v str, V)>,
    ) -> fmt::Result {
        let mut values = values.into_iter().peekable();
        if values.peek().is_none() {
            return Ok(());
        }
        let mut metric = self.encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (of, value) in values {
            let labels = Labels([(label, of)]);
            metric.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) -> fmt::Result {
        let mut metric = self.encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        let bounds = histogram.bounds.iter().copied().chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(histogram.counts.iter().copied()).collect();
        let count = histogram.counts.iter().sum();
        metric.encode_histogram::<NoLabelSet>(histogram.sum, count, &buckets, None)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::proto::load::Level;

    /// A member at whose verdict the circle is so.
    fn status(level: Level, jobs: &serde_json::Value) -> StatusReport {
        let status = json!({
            "jobs": jobs, "borrowed_bytes": 5,
            "version": 1, "circle": "virgo", "name": "lab-a", "member": "0a0b0c0d", "listen": "127.0.0.1:7433",
            "expires_s": 0, "state": "waiting", "cooling_s": 0.0, "charter_version": 1, "bans_version": 0,
            "verdict": { "level": level.name(), "reason": "", "since_s": 0.0 },
            "counters": {}, "rejected": {}, "members": [],
        });
        serde_json::from_value(status).expect("a status")
    }

    fn nothing_past() -> Past {
        let none = Histogram { bounds: &[], counts: vec![0], sum: 0.0 };
        Past {
            visits: Vec::new(),
            return_times: Vec::new(),
            access_intervals: Vec::new(),
            samples: Vec::new(),
            return_time_histogram: none.clone(),
            access_interval_histogram: none.clone(),
            handoff_histogram: none.clone(),
            confirmation_histogram: none,
            slot_s: 0.0,
        }
    }

    #[test]
    fn handoffs_are_counted_by_their_repetitions_and_timed() {
        let mut status = status(Level::Nominal, &json!([]));
        for (name, number) in [("moves_repeated", 3), ("commits_repeated", 4), ("commits_abandoned", 5)] {
            status.counters.insert(name.to_owned(), number);
        }
        let confirmed = Histogram { bounds: &[1.0], counts: vec![6, 1], sum: 2.5 };
        let text =
            encode(status, Past { confirmation_histogram: confirmed, ..nothing_past() }).expect("metrics");
        for line in [
            "stroll_handoff_retransmissions_total{message=\"move\"} 3",
            "stroll_handoff_retransmissions_total{message=\"commit\"} 4",
            "stroll_commits_abandoned_total 5",
            "stroll_handoff_confirmation_seconds_count 7",
            "stroll_handoff_confirmation_seconds_bucket{le=\"1.0\"} 6",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn what_jobs_count_has_their_names() {
        let job = |name: &str, bytes: u64| {
            let job = JobReport {
                name: name.to_owned(),
                bytes,
                refusals: BTreeMap::from([("421".to_owned(), 2)]),
                next_run_s: Some(1_900_000_000),
                last_success_s: Some(1_800_000_000),
                ..JobReport::default()
            };
            serde_json::to_value(job).expect("a report")
        };
        // One that ends while its successor begins is there twice; two metrics of one name would be refused.
        let status = status(Level::Nominal, &json!([job("a", 7), job("b", 2), job("a", 1)]));
        let text = encode(status, nothing_past()).expect("metrics");
        for line in [
            "stroll_bytes_transferred_total{job=\"a\"} 8",
            "stroll_bytes_transferred_total{job=\"b\"} 2",
            "stroll_bytes_transferred_total{job=\"(borrowed)\"} 5",
            "stroll_source_refusals_total{job=\"b\",code=\"421\"} 2",
            "stroll_job_next_run_timestamp_seconds{job=\"b\"} 1900000000.0",
            "stroll_job_last_success_timestamp_seconds{job=\"b\"} 1800000000.0",
        ] {
            assert_eq!(text.lines().filter(|found| *found == line).count(), 1, "{line}: {text}");
        }
    }

    #[test]
    fn a_starved_member_is_overloaded_too_and_one_of_a_full_circle_is_not() {
        let overloaded = Level::ALL.map(|level| {
            let text = encode(status(level, &json!([])), nothing_past()).expect("metrics");
            let line = text.lines().find_map(|line| line.strip_prefix("stroll_overloaded "));
            line.expect("the metric").parse::<f64>().expect("a number")
        });
        assert_eq!(overloaded, [0.0, 0.0, 0.0, 1.0, 1.0]);
    }
}
