//! The page's HTML. Everything that anybody else may have named (members, files, errors) goes through [`escape`].

use std::fmt::Write as _;

use jiff::Timestamp;

use crate::base::units::human_size;
use crate::fetch::plan::in_bytes;
use crate::jobs::JobReport;
use crate::peer::health::Severity;
use crate::peer::history::{Past, Sample};
use crate::peer::report::{BorrowerReport, MemberReport, SpanReport};
use crate::proto::load::Level;

use super::View;
use super::chart::{self, seconds};
use super::{ring, tickets};

/// Throughput is told over this many samples at once, or it would be all teeth: slots come and go.
const SMOOTHED: usize = 5;

/// Budget changes that are shown.
const CHANGES: usize = 6;

/// The whole page.
pub(super) fn page(view: &View) -> String {
    let title = escape(&format!("{} · {}", view.status.circle, view.status.name));
    let content = content(view);
    format!(
        r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="stylesheet" href="/page.css">
<noscript><meta http-equiv="refresh" content="5"></noscript>
<script src="/page.js" defer></script>
</head>
<body>
<main>
{content}
</main>
</body>
</html>
"#
    )
}

/// What changes.
pub(super) fn content(view: &View) -> String {
    let mut out = header(view);
    out.push_str(&verdict(view));
    out.push_str(&jobs(&view.status.jobs));
    out.push_str(&borrowers(&view.status.borrowers));
    out.push_str(r#"<div class="cards">"#);
    let (title, picture, words) = match &view.status.ring {
        None => ("The token's way", ring::ring(view), last_way(view)),
        Some(ring) => ("The ring of tickets", tickets::ring(view, ring), tickets::words(ring)),
    };
    let _ = write!(out, "<section><h2>{title}</h2>{picture}{words}</section>");
    let charts = [times(view), flow(&view.past)].concat();
    for stack in [charts.get(..2), charts.get(2..)].into_iter().flatten() {
        let _ = write!(out, r#"<div class="stack">{}</div>"#, stack.concat());
    }
    out.push_str("</div>");
    out.push_str(&members(&view.status.members));
    out.push_str(&footer(view));
    out
}

fn header(view: &View) -> String {
    let status = &view.status;
    format!(
        r#"<header><h1>{}</h1><span class="pill {}">{}</span><p>member {} ({}) on {}</p></header>"#,
        escape(&status.circle),
        escape(&status.state),
        status.doing(),
        escape(&status.name),
        escape(&status.member),
        escape(&status.listen),
    )
}

/// The verdict on the load in the colour of the member's health, and what else is wrong.
fn verdict(view: &View) -> String {
    let (status, verdict, health) = (&view.status, &view.status.verdict, view.status.health());
    let advice = status.advice.as_deref().map_or(String::new(), |advice| format!("; {}", escape(advice)));
    let colour = match health.severity {
        Severity::Ok if verdict.level == Level::Full.name() => "warning".to_owned(),
        severity => severity.word().to_lowercase(),
    };
    let wrong = match health.severity {
        Severity::Ok => String::new(),
        _ => format!("<br>{}", escape(&health.text)),
    };
    format!(
        r#"<p class="verdict {colour}"><strong>{level}</strong>: {}{advice}.{wrong}</p>"#,
        escape(&verdict.reason),
        level = escape(&verdict.level),
    )
}

fn jobs(jobs: &[JobReport]) -> String {
    if jobs.is_empty() {
        return String::new();
    }
    let mut rows = String::new();
    for job in jobs {
        let _ = write!(
            rows,
            r#"<tr><td data-label="job">{}</td><td data-label="state"><span class="pill {state}">{state}</span> {}</td><td class="long" data-label="from, to">{}{}{}</td><td class="number" data-label="files">{}</td><td class="number" data-label="bytes">{}</td><td class="number" data-label="lag">{}</td><td class="number" data-label="chunk">{}</td></tr>"#,
            escape(&job.name),
            seconds(job.state_s),
            what(job),
            runs(job),
            error(job),
            job.files,
            human_size(job.bytes),
            lag(job),
            job.budget_bytes.map_or("–".to_owned(), in_bytes),
            state = job.state.word(),
        );
    }
    let overloads =
        jobs.iter().filter_map(|job| Some(format!("{} is overloaded: {}", job.name, job.overload.as_ref()?)));
    let slots = jobs.iter().filter_map(|job| Some(format!("{}: {}", job.name, job.slot_words()?)));
    let changes = jobs.iter().flat_map(|job| job.chunk_changes.iter().rev().cloned()).take(CHANGES);
    let changes: Vec<String> = overloads.chain(slots).chain(changes).map(|why| escape(&why)).collect();
    let why = if changes.is_empty() { String::new() } else { format!("<p>{}</p>", changes.join("<br>")) };
    format!(
        r#"<section class="wide"><h2>Jobs</h2><table><thead><tr><th>job</th><th>state</th><th>from, to</th><th class="number">files</th><th class="number">bytes</th><th class="number">lag</th><th class="number">budget</th></tr></thead><tbody>{rows}</tbody></table>{why}</section>"#
    )
}

/// Source and target of a job, or the command line of an `exec` job.
fn what(job: &JobReport) -> String {
    if job.target.is_empty() {
        return format!("<code>{}</code>", escape(&job.source));
    }
    format!("{} → {}", escape(&job.source), escape(&job.target))
}

/// When a job runs next, and when it last succeeded.
fn runs(job: &JobReport) -> String {
    let moment = |at_s: i64| {
        Timestamp::from_second(at_s).map_or(String::new(), |at| at.strftime("%F %H:%MZ").to_string())
    };
    let next = job.next_run_s.map_or(String::new(), |at_s| format!("<br>next run {}", moment(at_s)));
    let last = job.last_success_s.map_or(String::new(), |at_s| {
        let outcome = job.last_outcome.as_deref().unwrap_or_default();
        format!("<br>last success {}: {}", moment(at_s), escape(outcome))
    });
    next + &last
}

/// How far behind, if that is known; if the source was not seen for long, for how long; and how many names were refused.
fn lag(job: &JobReport) -> String {
    let behind = match (job.lag_s, job.unseen_s) {
        (Some(lag_s), _) => seconds(lag_s),
        (None, Some(_)) => "?".to_owned(),
        (None, None) => "–".to_owned(),
    };
    let dark = job
        .dark()
        .map_or_else(String::new, |unseen| format!("<br>not seen for {}", seconds(unseen.as_secs_f64())));
    let refused = match job.refused {
        0 => String::new(),
        1 => "<br>1 name refused".to_owned(),
        count => format!("<br>{count} names refused"),
    };
    [behind, dark, refused].concat()
}

fn borrowers(borrowers: &[BorrowerReport]) -> String {
    if borrowers.is_empty() {
        return String::new();
    }
    let mut rows = String::new();
    for borrower in borrowers {
        let _ = write!(
            rows,
            r#"<tr><td data-label="command">{}</td><td data-label="state"><span class="pill {state}">{state}</span></td><td class="long" data-label="what">{}</td><td class="number" data-label="here for">{}</td><td class="number" data-label="slots">{}</td><td class="number" data-label="bytes">{}</td></tr>"#,
            escape(&borrower.name),
            escape(&borrower.what),
            seconds(borrower.since_s),
            borrower.slots,
            human_size(borrower.bytes),
            state = borrower.state.word(),
        );
    }
    format!(
        r#"<section class="wide"><h2>Commands in its slots</h2><table><thead><tr><th>command</th><th>state</th><th>what</th><th class="number">here for</th><th class="number">slots</th><th class="number">bytes</th></tr></thead><tbody>{rows}</tbody></table></section>"#
    )
}

fn error(job: &JobReport) -> String {
    let shown = job.last_error.as_deref().filter(|_| job.state.is_trouble());
    shown.map_or(String::new(), |error| format!(r#"<br><span class="error">{}</span>"#, escape(error)))
}

/// As people look for them.
pub(super) fn by_name(members: &[MemberReport]) -> Vec<&MemberReport> {
    let mut sorted: Vec<_> = members.iter().collect();
    sorted.sort_by_key(|member| (&member.name, &member.member));
    sorted
}

/// Where the token came from and went last, in words.
fn last_way(view: &View) -> String {
    let name = |id: &str| {
        let known = view.status.members.iter().find(|member| member.member == id);
        escape(known.map_or(id, |member| &member.name))
    };
    // In the colours of the picture.
    let way =
        |class: &str, word: &str, name: String| format!(r#"<span class="{class}">{word}</span> {name}"#);
    let Some(visit) = view.past.visits.last() else { return "<p>It was not here yet.</p>".to_owned() };
    let from =
        visit.from.as_deref().map_or("made here".to_owned(), |from| way("in", "came from", name(from)));
    let to = visit.to.as_deref().map_or("still here".to_owned(), |to| way("out", "went to", name(to)));
    let used = if visit.slot { "used" } else { "passed through" };
    format!(
        "<p>Last visit {} ago: {from}, {used}, {to}. Visit {} since the start.</p>",
        seconds(visit.ago_s),
        visit.number + 1
    )
}

fn times(view: &View) -> Vec<String> {
    let Past { return_times, access_intervals, .. } = &view.past;
    let card = |title: &str, values: &[f64], span: Option<SpanReport>| {
        let words = span.map_or(String::new(), |span| {
            let SpanReport { mean, p50, p99, trend, .. } = span;
            format!(
                "<p>mean {}, half within {}, 99 of 100 within {}, trend ×{trend:.2}</p>",
                seconds(mean),
                seconds(p50),
                seconds(p99)
            )
        });
        format!("<section><h2>{title}</h2>{}{words}</section>", chart::histogram(values, title))
    };
    let access = card("Access interval", access_intervals, view.status.access_interval_s);
    match view.status.ring {
        None => vec![card("Return time", return_times, view.status.return_time_s), access],
        Some(_) => vec![access],
    }
}

fn flow(past: &Past) -> Vec<String> {
    let rates = throughput(&past.samples);
    let lags: Vec<(f64, f64)> =
        past.samples.iter().filter_map(|sample| Some((sample.ago_s, sample.lag_s?))).collect();
    let chunks: Vec<(f64, f64)> =
        past.samples.iter().filter_map(|sample| Some((sample.ago_s, sample.chunk_bytes? as f64))).collect();
    let card = |title: &str, points: &[(f64, f64)], unit: fn(f64) -> String| {
        format!("<section><h2>{title}</h2>{}</section>", chart::line(points, title, unit))
    };
    vec![
        card("Throughput", &rates, |rate| format!("{}/s", bytes(rate))),
        card("Lag behind the source", &lags, seconds),
        card("Chunk", &chunks, bytes),
    ]
}

/// Bytes a second between samples that lie a little apart.
fn throughput(samples: &[Sample]) -> Vec<(f64, f64)> {
    let pairs = samples.iter().zip(samples.iter().skip(SMOOTHED));
    pairs
        .map(|(before, now)| {
            let span = (before.ago_s - now.ago_s).max(1e-3);
            (now.ago_s, now.bytes.saturating_sub(before.bytes) as f64 / span)
        })
        .collect()
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and no exabyte")]
fn bytes(value: f64) -> String {
    human_size(value as u64)
}

fn members(members: &[MemberReport]) -> String {
    let mut rows = String::new();
    for member in by_name(members) {
        let class = if member.suspected { r#" class="suspected""# } else { "" };
        let clock = member.clock_offset_ms.map_or("–".to_owned(), |ms| format!("{:+.1} s", tenths(ms)));
        let _ = write!(
            rows,
            r#"<tr{class}><td data-label="member">{}</td><td data-label="address">{}</td><td class="number" data-label="waits for">{}</td><td class="number" data-label="heard ago">{}</td><td class="number" data-label="round trip">{}</td><td class="number" data-label="clock">{clock}</td><td class="number" data-label="certificate">{}</td></tr>"#,
            escape(&member.name),
            escape(&member.address),
            member.waited_s.map_or("–".to_owned(), seconds),
            member.heard_s.map_or("never".to_owned(), seconds),
            member.round_trip_ms.map_or("–".to_owned(), |ms| seconds(ms / 1e3)),
            member.expires_in_days.map_or("–".to_owned(), |days| format!("{days} d")),
        );
    }
    format!(
        r#"<section class="wide"><h2>{} other {noun}</h2><table><thead><tr><th>member</th><th>address</th><th class="number">waits for</th><th class="number">heard ago</th><th class="number">round trip</th><th class="number">clock</th><th class="number">certificate</th></tr></thead><tbody>{rows}</tbody></table></section>"#,
        members.len(),
        noun = if members.len() == 1 { "member" } else { "members" },
    )
}

fn footer(view: &View) -> String {
    let status = &view.status;
    let count = |name: &str| status.count(name);
    let rejected: u64 = status.rejected.values().sum();
    let rights = if status.ring.is_some() {
        status.ticket_counts()
    } else {
        format!(
            "{} visits, {} slots, {} handed off, {} tokens made, {} removed",
            count("visits"),
            count("slots"),
            count("handed_off"),
            count("regenerated"),
            count("removed"),
        )
    };
    format!(
        "<footer>{rights}; charter {}, bans {}; {} datagrams sent, {} taken in, {rejected} dropped. stroll {}</footer>",
        status.charter_version,
        status.bans_version,
        count("datagrams_sent"),
        count("datagrams_accepted"),
        env!("CARGO_PKG_VERSION"),
    )
}

/// Text that is only text, between tags and in attributes.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in crate::fetch::escape(text).chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            char => out.push(char),
        }
    }
    out
}
/// Seconds, rounded so that nobody reads "-0.0".
fn tenths(ms: i64) -> f64 {
    (ms as f64 / 100.0).round() / 10.0 + 0.0
}
