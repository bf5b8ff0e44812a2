//! The member's metrics, in the OpenMetrics text format that Prometheus reads. The page serves them.
//!
//! Everything is read at the moment of the question: what the node and the jobs count is told, nothing is counted twice.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, LabelSetEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::history::{Histogram, Past};
use super::report::StatusReport;

/// The content type of the text.
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

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
        let Past { return_time_histogram, access_interval_histogram, handoff_histogram, .. } = &self.past;
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
        out.histogram("stroll_handoff_seconds", "From our yes to a token to its arrival", handoff_histogram)
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
        out.gauge("stroll_load_factor", "Mean access interval over the nominal period", status.load_factor)?;
        out.gauge(
            "stroll_overloaded",
            "Whether the circle is overloaded, or gives this member no slot at all",
            Some(f64::from(u8::from(status.verdict.is_overloaded()))),
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
        let sum = |of: fn(&crate::jobs::JobReport) -> u64| jobs.iter().map(of).sum::<u64>();
        // By its own jobs, and by commands that borrow its slots: the source sees no difference.
        let bytes = sum(|job| job.bytes).saturating_add(self.status.borrowed_bytes);
        out.counter("stroll_bytes_transferred", "Bytes pulled in this member's slots", bytes)?;
        out.counter("stroll_files_transferred", "Files pulled", sum(|job| job.files))?;
        out.counter("stroll_files_deleted", "Replicas removed", sum(|job| job.deleted))?;
        out.counter("stroll_entries_listed", "Entries of folders that were listed", sum(|job| job.listed))?;
        out.counter("stroll_errors", "What went wrong", sum(|job| job.errors))?;
        let mut refusals = std::collections::BTreeMap::new();
        for (code, count) in jobs.iter().flat_map(|job| &job.refusals) {
            *refusals.entry(code.as_str()).or_insert(0) += count;
        }
        out.counters("stroll_source_refusals", "Refusals of the source, by code", "code", refusals)?;
        let each = |of: fn(&crate::jobs::JobReport) -> Option<f64>| {
            jobs.iter().filter_map(move |job| Some((job.name.as_str(), of(job)?)))
        };
        let chunks = each(|job| job.chunk_bytes.map(|bytes| bytes as f64));
        out.gauges("stroll_chunk_bytes", "What a slot is to bring, by job", "job", chunks)?;
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
        let mut values = values.into_iter().peekable();
        if values.peek().is_none() {
            return Ok(());
        }
        let mut metric = self.encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (of, value) in values {
            let labels = Labels([(label, of)]);
            metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&value, None)?;
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

    /// What a member says at whose verdict the circle is so.
    fn told(level: Level) -> String {
        let status = json!({
            "version": 1, "circle": "virgo", "name": "lab-a", "member": "0a0b0c0d", "listen": "127.0.0.1:7433",
            "expires_s": 0, "state": "wtok", "cooling_s": 0.0, "charter_version": 1, "bans_version": 0,
            "verdict": { "level": level.name(), "reason": "", "since_s": 0.0 },
            "counters": {}, "rejected": {}, "members": [],
        });
        let none = Histogram { bounds: &[], counts: vec![0], sum: 0.0 };
        let past = Past {
            visits: Vec::new(),
            return_times: Vec::new(),
            access_intervals: Vec::new(),
            samples: Vec::new(),
            return_time_histogram: none.clone(),
            access_interval_histogram: none.clone(),
            handoff_histogram: none,
            slot_s: 0.0,
        };
        encode(serde_json::from_value(status).expect("a status"), past).expect("metrics")
    }

    #[test]
    fn a_starved_member_is_overloaded_too_and_one_of_a_full_circle_is_not() {
        let overloaded = Level::ALL.map(|level| {
            let text = told(level);
            let line = text.lines().find_map(|line| line.strip_prefix("stroll_overloaded "));
            line.expect("the metric").parse::<f64>().expect("a number")
        });
        assert_eq!(overloaded, [0.0, 0.0, 1.0, 1.0]);
    }
}
