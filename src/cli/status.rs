//! `stroll status`: how a running member is.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

use stroll::peer::{Client, MemberReport, SpanReport, StatusReport, VerdictReport};
use tokio::signal::unix::{SignalKind, signal};

use super::homes::HomeArgs;
use super::utc::format_utc;

/// Show how the running member is: the token, waiting times, the other members.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    home: HomeArgs,

    /// Print it as JSON
    #[arg(long, env = "STROLL_JSON")]
    json: bool,

    /// Show it again every second, until interrupted
    #[arg(short, long, env = "STROLL_WATCH")]
    watch: bool,
}

const WATCH_EVERY: Duration = Duration::from_secs(1);

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let (_, home) = args.home.open()?;
    let client = Client::new(home.path());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        if !args.watch {
            return show(&client.status().await?, args);
        }
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        loop {
            show(&client.status().await?, args)?;
            // Being interrupted is how watching ends: no failure.
            tokio::select! {
                _ = interrupt.recv() => return Ok(()),
                _ = terminate.recv() => return Ok(()),
                () = tokio::time::sleep(WATCH_EVERY) => {}
            }
        }
    })
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
    let state = match status.state.as_str() {
        "run" => "pulls",
        "idle" => "holds the token",
        "cool" => "leaves the source alone",
        _ => "waits for the token",
    };
    let StatusReport { circle, name, member, listen, .. } = status;
    let _ = writeln!(text, "circle {circle}: {name} ({member}) on {listen} {state} [{}]", status.state);
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
    let VerdictReport { level, reason, since_s } = &status.verdict;
    let _ = writeln!(text, "{level} for {since_s:.0} s: {reason}");
    if let Some(advice) = &status.advice {
        let _ = writeln!(text, "{advice}");
    }
    let count = |name: &str| status.counters.get(name).copied().unwrap_or(0);
    let _ = writeln!(
        text,
        "{} visits, {} slots, {} handed off, {} unreachable, {} made, {} removed; charter {}, bans {}",
        count("visits"),
        count("slots"),
        count("handed_off"),
        count("unreachable"),
        count("regenerated"),
        count("removed"),
        status.charter_version,
        status.bans_version,
    );
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
    let noun = if status.members.len() == 1 { "member" } else { "members" };
    let _ = writeln!(text, "\n{} other {noun}", status.members.len());
    let width = status.members.iter().map(|member| member.name.chars().count()).max().unwrap_or(0);
    for member in &status.members {
        let _ = writeln!(text, "  {}", member_line(member, width));
    }
    text
}

fn describe(span: &SpanReport) -> String {
    let SpanReport { count, mean, p50, p90, p99, trend } = span;
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
