//! `stroll status`: how a running member is.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

use stroll::base::units::{format_duration, human_duration, human_size};
use stroll::jobs::{JobReport, State};
use stroll::peer::{
    BorrowerReport, Client, MemberReport, PageReport, RingReport, Severity, SpanReport, StatusReport,
    VerdictReport,
};
use tokio::signal::unix::{SignalKind, signal};

use super::ending::{END_WITHIN, Ending};
use super::exit::{Code, Failed, Told};
use super::homes::HomeArgs;
use super::utc::format_utc;

/// Show how the running member is: the token or the tickets, waiting times, the other members.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "they are switches, each on its own")]
pub(super) struct Args {
    #[command(flatten)]
    home: HomeArgs,

    /// Print it as JSON
    #[arg(long, env = "STROLL_JSON")]
    json: bool,

    /// Show it again every second, until interrupted
    #[arg(short, long, env = "STROLL_WATCH")]
    watch: bool,

    /// For monitoring plugins: one line, and exit code 0 (OK), 1 (WARNING), 2 (CRITICAL) or 3 (UNKNOWN: it cannot be asked)
    #[arg(long, conflicts_with_all = ["json", "watch", "fail_on_overload"], env = "STROLL_CHECK")]
    check: bool,

    /// End with exit code 15 if the circle is overloaded
    #[arg(long, conflicts_with = "watch", env = "STROLL_FAIL_ON_OVERLOAD")]
    fail_on_overload: bool,
}

const WATCH_EVERY: Duration = Duration::from_secs(1);

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    if args.check {
        return check(args);
    }
    let (_, home) = args.home.open()?;
    let client = Client::new(home.path());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        if !args.watch {
            let status = client.status().await?;
            show(&status, args)?;
            return judge(&status, args);
        }
        // A reader of standard output that does not read blocks this thread.
        let _ = Ending::watch()?.heed(None, END_WITHIN);
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let watching = async {
            loop {
                show(&client.status().await?, args)?;
                tokio::time::sleep(WATCH_EVERY).await;
            }
        };
        // Being interrupted is how watching ends: no failure.
        tokio::select! {
            _ = interrupt.recv() => Ok(()),
            _ = terminate.recv() => Ok(()),
            ended = watching => ended,
        }
    })
}

/// One line and an exit code, as monitoring plugins give them. Whatever keeps the member from being asked is unknown.
fn check(args: &Args) -> anyhow::Result<()> {
    let asked = ask(&args.home);
    let (severity, text) = match &asked {
        Ok(status) => {
            let health = status.health();
            (health.severity, format!("{} | {}", one_line(&health.text), figures(status)))
        }
        Err(error) => (Severity::Unknown, one_line(&format!("{error:#}"))),
    };
    writeln!(std::io::stdout(), "STROLL {severity} - {text}")?;
    match severity {
        Severity::Ok => Ok(()),
        severity => Err(Told(severity.code()).into()),
    }
}

fn ask(home: &HomeArgs) -> anyhow::Result<StatusReport> {
    let (_, home) = home.open()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(Client::new(home.path()).status())?)
}

/// A bar begins the figures, and a line is all that is read.
fn one_line(text: &str) -> String {
    text.lines().collect::<Vec<_>>().join(" ").replace('|', "/")
}

/// Figures in the form that monitoring systems draw.
fn figures(status: &StatusReport) -> String {
    let answering = status.members.iter().filter(|member| !member.suspected).count();
    let mut text = format!("members={answering} jobs={}", status.jobs.len());
    if let Some(load) = status.load_factor {
        // Writing to a string does not fail.
        let _ = write!(text, " load={load:.3};;;0");
    }
    let lag = status
        .jobs
        .iter()
        .filter_map(|job| job.lag_s)
        .fold(None, |most: Option<f64>, lag| Some(most.map_or(lag, |most| most.max(lag))));
    if let Some(lag) = lag {
        let _ = write!(text, " lag={lag:.0}s;;;0");
    }
    text
}

fn judge(status: &StatusReport, args: &Args) -> anyhow::Result<()> {
    if args.fail_on_overload && status.verdict.is_overloaded() {
        let message = format!("{}: {}", status.verdict.level, status.verdict.reason);
        return Err(Failed { code: Code::Overloaded, message }.into());
    }
    Ok(())
}

fn show(status: &StatusReport, args: &Args) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if args.json {
        serde_json::to_writer(&mut out, status).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        if args.watch && std::io::IsTerminal::is_terminal(&out) {
            // Clear the screen and go to its top.
            write!(out, "\x1b[2J\x1b[H")?;
        }
        write!(out, "{}", render(status))?;
    }
    out.flush()?;
    Ok(())
}

fn render(status: &StatusReport) -> String {
    let mut text = String::new();
    let StatusReport { circle, name, member, listen, .. } = status;
    let _ = writeln!(
        text,
        "circle {circle}: {name} ({member}) on {listen} {} [{}]",
        status.doing(),
        status.state
    );
    if let Some(ring) = &status.ring {
        text.push_str(&ring_lines(ring));
    }
    if let (Some(token), Some(session)) = (&status.token, status.session) {
        let _ = writeln!(text, "token {token}, session {session}");
    }
    for (what, span) in [("return time", status.return_time_s), ("access interval", status.access_interval_s)]
    {
        if let Some(span) = span {
            let _ = writeln!(text, "{what}: {}", describe(&span));
        }
    }
    if let Some(factor) = status.load_factor {
        let _ = writeln!(text, "load factor {factor:.2}");
    }
    if let Some(why) = status.backing_off() {
        let _ = writeln!(text, "{why}");
    }
    let VerdictReport { level, reason, since_s } = &status.verdict;
    let _ = writeln!(text, "{level} for {since_s:.0} s: {reason}");
    if let Some(advice) = &status.advice {
        let _ = writeln!(text, "{advice}");
    }
    for risk in &status.at_risk {
        let _ = writeln!(text, "data at risk: {}: {}", risk.job, risk.reason);
    }
    if let Some(PageReport { address, problem: Some(problem) }) = &status.page {
        let _ = writeln!(text, "page not served at {address}: {problem}");
    }
    if let Some(kept_s) = status.retention_s {
        let _ =
            writeln!(text, "the source keeps its data for {}", format_duration(Duration::from_secs(kept_s)));
    }
    let count = |name: &str| status.count(name);
    let rights = if status.ring.is_some() {
        status.ticket_counts()
    } else {
        format!(
            "{} visits, {} slots, {} handed off, {} unreachable, {} made, {} removed",
            count("visits"),
            count("slots"),
            count("handed_off"),
            count("unreachable"),
            count("regenerated"),
            count("removed"),
        )
    };
    let _ = writeln!(text, "{rights}; charter {}, bans {}", status.charter_version, status.bans_version);
    if count("duplicate_identity") > 0 {
        let _ =
            writeln!(text, "duplicate identity: another process speaks, or spoke, with this member's key");
    }
    let rejected: u64 = status.rejected.values().sum();
    let (sent, accepted) = (count("datagrams_sent"), count("datagrams_accepted"));
    let _ = writeln!(text, "datagrams: {sent} sent, {accepted} taken in, {rejected} dropped");
    let until = format_utc(status.expires_s);
    let _ = match status.expires_in_days {
        None => writeln!(text, "certificate until {until}"),
        Some(days) => {
            writeln!(text, "certificate until {until}: {days} days are left, and it was not renewed yet")
        }
    };
    if !status.jobs.is_empty() {
        text.push('\n');
        let width = status.jobs.iter().map(|job| job.name.chars().count()).max().unwrap_or(0);
        for job in &status.jobs {
            let _ = writeln!(text, "  {}", job_line(job, width));
            let overload = job.overload.as_ref().map(|why| format!("overloaded: {why}"));
            let lines = [runs(job), job.slot_words(), job.chunk_changes.last().cloned(), overload];
            for line in lines.into_iter().flatten() {
                let _ = writeln!(text, "  {:width$}                {line}", "");
            }
        }
    }
    if !status.borrowers.is_empty() {
        text.push('\n');
        for borrower in &status.borrowers {
            let _ = writeln!(text, "  {}", borrower_line(borrower));
        }
    }
    let noun = if status.members.len() == 1 { "member" } else { "members" };
    let _ = writeln!(text, "\n{} other {noun}", status.members.len());
    let width = status.members.iter().map(|member| member.name.chars().count()).max().unwrap_or(0);
    for member in &status.members {
        let _ = writeln!(text, "  {}", member_line(member, width));
    }
    text
}

/// The ring of tickets, and our part in it.
fn ring_lines(ring: &RingReport) -> String {
    let RingReport { tickets, faults, epoch, waiting, .. } = ring;
    let mut text = format!("ring {epoch}: {tickets} tickets, faults {faults}; {waiting} waiting\n");
    let own = match (ring.ticket, ring.coordinates) {
        (Some(ticket), Some(range)) => {
            let sure = if ring.sure { "may be used" } else { "may not be used: too few vouch for it" };
            let coordinates = match range.count {
                1 => String::new(),
                _ => format!("; coordinates {}", range.describe(*tickets)),
            };
            format!("ticket {ticket}, {sure}{coordinates}")
        }
        _ => "no ticket".to_owned(),
    };
    let span = |seconds: f64| human_duration(Duration::try_from_secs_f64(seconds).unwrap_or_default());
    let waited = ring.waited_s.map_or(String::new(), |waited| format!("; waits for {}", span(waited)));
    // Writing to a string does not fail.
    let _ = writeln!(text, "{own}{waited}");
    let coordinators: Vec<String> =
        ring.coordinators.iter().map(|one| format!("{} {}", one.ticket, one.called())).collect();
    if !coordinators.is_empty() {
        let _ = writeln!(text, "in the ring: {}", coordinators.join(", "));
    }
    text
}

fn job_line(job: &JobReport, width: usize) -> String {
    let span = |seconds: f64| human_duration(Duration::try_from_secs_f64(seconds).unwrap_or_default());
    let maybe = |text: Option<String>| text.map_or(String::new(), |text| format!(", {text}"));
    let current = job.current.as_deref().map(|current| match job.current_bytes {
        Some((have, Some(size))) if size > 0 => format!("at {current} ({} %)", have.min(size) * 100 / size),
        _ => format!("at {current}"),
    });
    let error = job.last_error.clone().filter(|_| job.state.is_trouble());
    // The files of an external command are not counted.
    let done = match job.kind.as_str() {
        "exec" => format!("runs {}", job.source),
        _ => format!("{} files, {}", job.files, human_size(job.bytes)),
    };
    format!(
        "{:width$}  [{}]{} for {}: {done}{}{}{}{}",
        job.name,
        job.state.word(),
        " ".repeat(State::BackingOff.word().len().saturating_sub(job.state.word().len())),
        span(job.state_s),
        maybe(lag(job)),
        maybe((job.refused > 0).then(|| format!(
            "{} {} refused",
            job.refused,
            if job.refused == 1 { "name" } else { "names" }
        ))),
        maybe(current),
        maybe(error),
    )
}

/// When a job runs next, and when it last succeeded.
fn runs(job: &JobReport) -> Option<String> {
    let moment = |at_s: i64| format_utc(u64::try_from(at_s).unwrap_or(0));
    let next = job.next_run_s.map(|at_s| format!("next run {}", moment(at_s)));
    let last = job.last_success_s.map(|at_s| {
        let outcome = job.last_outcome.as_deref().map_or(String::new(), |outcome| format!(": {outcome}"));
        format!("last success {}{outcome}", moment(at_s))
    });
    let parts: Vec<String> = [next, last].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// How far a job that follows a stream is behind, and for how long it has not seen its source if that is long.
fn lag(job: &JobReport) -> Option<String> {
    let behind = match (job.lag_s, job.unseen_s) {
        (Some(seconds), _) => human_duration(Duration::try_from_secs_f64(seconds).unwrap_or_default()),
        (None, Some(_)) => "?".to_owned(),
        (None, None) => return None,
    };
    let dark = job
        .dark()
        .map_or(String::new(), |unseen| format!(", source not seen for {}", human_duration(unseen)));
    Some(format!("lag {behind}{dark}"))
}

/// A command that borrows slots.
fn borrower_line(borrower: &BorrowerReport) -> String {
    let BorrowerReport { name, what, state, since_s, slots, bytes, .. } = borrower;
    let since = human_duration(Duration::try_from_secs_f64(*since_s).unwrap_or_default());
    let noun = if *slots == 1 { "slot" } else { "slots" };
    format!("{name}  [{}] here for {since}: {what}, {slots} {noun}, {}", state.word(), human_size(*bytes))
}

fn describe(span: &SpanReport) -> String {
    let SpanReport { count, mean, p50, p90, p99, trend, .. } = span;
    format!("mean {mean:.2} s, p50 {p50:.2}, p90 {p90:.2}, p99 {p99:.2} (over {count}), trend ×{trend:.2}")
}

fn member_line(member: &MemberReport, width: usize) -> String {
    let heard = member.heard_s.map_or("never heard".to_owned(), |ago| format!("heard {ago:.0} s ago"));
    let round_trip = member.round_trip_ms.map_or(String::new(), |ms| format!(", round trip {ms:.1} ms"));
    let clock = member.clock_offset_ms.filter(|offset| offset.abs() > 1000);
    let clock = clock.map_or(String::new(), |offset| format!(", clock {:+.1} s", offset as f64 / 1e3));
    let suspected = if member.suspected { ", does not answer" } else { "" };
    format!(
        "{:width$}  {}  {}  {heard}{round_trip}{clock}{suspected}",
        member.name, member.member, member.address
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_several_lines_and_bars_is_one_line_without_figures() {
        assert_eq!(one_line("a | b\nc"), "a / b c");
    }

    #[test]
    fn a_job_shows_its_next_run_and_its_last_success_and_a_command_what_it_runs() {
        let mut job =
            JobReport { kind: "exec".to_owned(), source: "wget -c x".to_owned(), ..JobReport::default() };
        assert_eq!(runs(&job), None);
        assert!(job_line(&job, 0).contains("runs wget -c x"), "{}", job_line(&job, 0));
        job.next_run_s = Some(86_400);
        assert_eq!(runs(&job).as_deref(), Some("next run 1970-01-02 00:00Z"));
        (job.last_success_s, job.last_outcome) = (Some(60), Some("done in 3 s".to_owned()));
        assert_eq!(
            runs(&job).as_deref(),
            Some("next run 1970-01-02 00:00Z, last success 1970-01-01 00:01Z: done in 3 s")
        );
    }

    #[test]
    fn a_lag_that_nobody_knows_and_a_source_that_nobody_saw_are_shown_as_such() {
        let job = |lag_s, unseen_s| JobReport { lag_s, unseen_s, ..JobReport::default() };
        assert_eq!(lag(&job(None, None)), None);
        assert_eq!(lag(&job(None, Some(3.0))).as_deref(), Some("lag ?"));
        assert_eq!(lag(&job(Some(0.0), Some(3.0))).as_deref(), Some("lag 0.0 s"));
        let dark = lag(&job(Some(0.0), Some(200.0)));
        assert_eq!(dark.as_deref(), Some("lag 0.0 s, source not seen for 3 min 20 s"));
        assert_eq!(lag(&job(Some(300.0), Some(200.0))).as_deref(), Some("lag 5 min 0 s"));
    }

    #[test]
    fn a_member_that_does_not_answer_and_a_wrong_clock_are_shown() {
        let member = MemberReport {
            name: "lab-b".to_owned(),
            member: "0a0b0c0d".to_owned(),
            address: "127.0.0.1:7433".to_owned(),
            heard_s: Some(12.4),
            round_trip_ms: Some(3.21),
            clock_offset_ms: Some(-61_000),
            waited_s: None,
            suspected: true,
            expires_s: 0,
            expires_in_days: None,
        };
        let line = member_line(&member, 8);
        assert_eq!(
            line,
            "lab-b     0a0b0c0d  127.0.0.1:7433  heard 12 s ago, round trip 3.2 ms, clock -61.0 s, does not answer"
        );
    }
}
