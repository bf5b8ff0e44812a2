//! What a demo comes to: a table for people, JSON for programs, and whether all was right. Pure; called by `mod`.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};
use stroll::base::Ticket;
use stroll::base::units::{human_duration, human_size};

use super::meter::Seen;
use super::plan::Ring;
use super::replica::Comparison;

/// In a circle with a token at most one pulls. What a source sees of a slot's end and the next one's begin may touch for a moment;
/// where members are too many, die, or follow the papers' rules, tokens are made anew, and for a while there are two.
const MOST_SHARED: f64 = 0.10;

/// Where nothing of that is so, this is what a circle promises: hardly ever two at once, never more, and the same for everybody.
const MOST_SHARED_AT_PEACE: f64 = 0.01;
const MOST_AT_ONCE_AT_PEACE: usize = 2;
const LEAST_FAIRNESS: f64 = 0.98;

/// Members end their transfers in time, but the source hears of it when its machine gets round to it: two ends that are heard late
/// while a third transfer begins are no crowd. An overlap by a token too many lasts for a good part of a slot, which is
/// a hundred times this; and the share above has room for it, as one hundredth of the shortest demo is 40 ms.
const HEARD_LATE: Duration = Duration::from_millis(5);

/// In a shorter stream fairness is chance: whose turn is last when it ends has a slot's frames more than the one before, which
/// are two or three. Of twenty that makes 0.995 at worst, of five 0.9.
const FRAMES_FOR_FAIRNESS: u64 = 20;

/// One lab when it is over.
#[derive(Clone, Debug, Default)]
pub(super) struct LabReport {
    pub(super) name: String,
    pub(super) protocol: &'static str,
    /// Frames that had come when the stream ended.
    pub(super) frames_in_time: u64,
    pub(super) longest_lag: Duration,
    /// 99 of 100 times that the token needed to come back were no longer; `None` without a circle.
    pub(super) return_p99: Option<Duration>,
    /// The same of the times between two of its slots. Whom the token visits before a slot is due pulls nothing.
    pub(super) access_p99: Option<Duration>,
    pub(super) comparison: Comparison,
    /// Slots that it had; `None` without a circle.
    pub(super) slots: Option<u64>,
    /// The worst that it said of its circle.
    pub(super) verdict: Option<String>,
}

/// Labs around one source.
#[derive(Clone, Debug, Default)]
pub(super) struct Side {
    pub(super) seen: Seen,
    pub(super) labs: Vec<LabReport>,
}

/// What came of killing a holder.
#[derive(Clone, Debug)]
pub(super) struct Killed {
    pub(super) name: String,
    /// The ticket that it had, where there are some.
    pub(super) ticket: Option<Ticket>,
    /// How long after that the next slot began, or somebody else had the ticket.
    pub(super) made_good: Option<Duration>,
    /// Whether it had been started again by then.
    pub(super) was_back: bool,
}

/// Everything when it is over.
#[derive(Clone, Debug, Default)]
pub(super) struct Report {
    pub(super) took: Duration,
    pub(super) frames: u64,
    /// Where there are tickets.
    pub(super) ring: Option<Ring>,
    /// How long a slot was.
    pub(super) slot: Duration,
    pub(super) page: Option<String>,
    pub(super) circle: Side,
    pub(super) uncoordinated: Option<Side>,
    pub(super) is_overload: bool,
    /// Whether the token follows the rules that make tokens anew within seconds, and remove those too many.
    pub(super) is_guarded: bool,
    /// Whether a holder was to be killed, and what came of it.
    pub(super) wants_kill: bool,
    pub(super) killed: Option<Killed>,
    /// Members that ended with an error, and what they said.
    pub(super) disorderly: Vec<String>,
}

impl Side {
    /// Jain's index over what the labs had got when the stream ended.
    fn fairness(&self) -> f64 {
        jain(self.labs.iter().map(|lab| lab.frames_in_time as f64))
    }

    fn longest_lag(&self) -> Duration {
        self.labs.iter().map(|lab| lab.longest_lag).max().unwrap_or_default()
    }

    /// Of the member to which the token comes back latest.
    fn return_p99(&self) -> Option<Duration> {
        self.labs.iter().filter_map(|lab| lab.return_p99).max()
    }

    /// Of the member that has to wait longest for its next slot.
    fn access_p99(&self) -> Option<Duration> {
        self.labs.iter().filter_map(|lab| lab.access_p99).max()
    }

    /// Members that waited for a frame for longer than their slots explain: the next one comes, and brings it.
    fn late(&self, slot: Duration) -> Vec<&LabReport> {
        let is_late = |lab: &&LabReport| lab.access_p99.is_some_and(|p99| lab.longest_lag > p99 + slot);
        self.labs.iter().filter(is_late).collect()
    }

    fn to_json(&self) -> Value {
        json!({
            "shares": self.seen.shares(),
            "most_at_once": self.seen.most,
            "transfers": self.seen.transfers,
            "bytes": self.seen.bytes,
            "refusals": self.seen.refusals,
            "fairness": self.fairness(),
            "longest_lag_s": self.longest_lag().as_secs_f64(),
            "return_p99_s": self.return_p99().map(|span| span.as_secs_f64()),
            "access_p99_s": self.access_p99().map(|span| span.as_secs_f64()),
            "labs": self.labs.iter().map(LabReport::to_json).collect::<Vec<_>>(),
        })
    }
}

impl LabReport {
    fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "protocol": self.protocol,
            "frames_in_time": self.frames_in_time,
            "longest_lag_s": self.longest_lag.as_secs_f64(),
            "return_p99_s": self.return_p99.map(|span| span.as_secs_f64()),
            "access_p99_s": self.access_p99.map(|span| span.as_secs_f64()),
            "slots": self.slots,
            "verdict": self.verdict,
            "same": self.comparison.same,
            "missing": self.comparison.missing,
            "wrong": self.comparison.wrong,
        })
    }
}

impl Report {
    /// All that is not right, in words.
    pub(super) fn wrongs(&self) -> Vec<String> {
        let mut wrongs = Vec::new();
        let sides = [Some(&self.circle), self.uncoordinated.as_ref()];
        for lab in sides.into_iter().flatten().flat_map(|side| &side.labs) {
            let complaint = lab.comparison.complaint(self.is_overload);
            wrongs.extend(complaint.map(|complaint| format!("{}: {complaint}", lab.name)));
            if lab.slots == Some(0) {
                wrongs.push(format!("{} had no slot", lab.name));
            }
        }
        wrongs.extend(self.disorderly.iter().map(|name| format!("ended with an error: {name}")));
        wrongs.extend(self.crowd());
        wrongs.extend(self.unfairness());
        if self.is_overload && !self.circle.labs.iter().any(LabReport::is_overloaded) {
            wrongs.push("no member noticed the overload".to_owned());
        }
        match &self.killed {
            None if self.wants_kill => {
                wrongs.push("nobody was seen with the token, so nobody was killed".to_owned());
            }
            Some(Killed { name, ticket: None, made_good: None, .. }) => {
                wrongs.push(format!("no slot began after {name} was killed"));
            }
            Some(Killed { name, ticket: Some(ticket), made_good: None, .. }) => {
                wrongs.push(format!("ticket {ticket} did not come back after {name} was killed with it"));
            }
            _ => {}
        }
        wrongs
    }

    /// More at once than there may be. With tickets that must never be, not for a moment.
    fn crowd(&self) -> Option<String> {
        let seen = &self.circle.seen;
        let most_shared = if self.is_at_peace() { MOST_SHARED_AT_PEACE } else { MOST_SHARED };
        match self.ring {
            None if self.is_at_peace()
                && seen.most > MOST_AT_ONCE_AT_PEACE
                && seen.time_beyond(MOST_AT_ONCE_AT_PEACE) > HEARD_LATE =>
            {
                let time_ms = seen.time_beyond(MOST_AT_ONCE_AT_PEACE).as_millis();
                Some(format!("{} members of the circle pulled at once, for {time_ms} ms", seen.most))
            }
            None => (seen.beyond(1) > most_shared).then(|| {
                let percent = seen.beyond(1) * 100.0;
                format!("members of the circle pulled at the same time for {percent:.1} % of the time")
            }),
            Some(Ring { tickets, .. }) => (seen.most > tickets.into()).then(|| {
                let percent = seen.beyond(tickets.into()) * 100.0;
                format!(
                    "{} members of the circle pulled at once with {tickets} tickets, {percent:.2} % of the time",
                    seen.most
                )
            }),
        }
    }

    /// Whether the circle can do what it promises: a token by the rules of today, as many members as it was laid out for, and
    /// nobody dies.
    fn is_at_peace(&self) -> bool {
        self.ring.is_none() && self.is_guarded && !self.is_overload && !self.wants_kill
    }

    /// Some got less than others.
    fn unfairness(&self) -> Option<String> {
        let fairness = self.circle.fairness();
        let counts = self.is_at_peace() && self.frames >= FRAMES_FOR_FAIRNESS;
        (counts && fairness < LEAST_FAIRNESS)
            .then(|| format!("members of the circle were not served alike: fairness {fairness:.3}"))
    }

    pub(super) fn to_json(&self) -> Value {
        let wrongs = self.wrongs();
        let killed = self.killed.as_ref().map(|Killed { name, ticket, made_good, was_back }| {
            let after_s = made_good.map(|span| span.as_secs_f64());
            match ticket {
                None => json!({ "name": name, "next_slot_s": after_s }),
                Some(ticket) => {
                    json!({ "name": name, "ticket": ticket, "ticket_back_s": after_s, "was_back": was_back })
                }
            }
        });
        json!({
            "version": 1,
            "ok": wrongs.is_empty(),
            "wrong": wrongs,
            "took_s": self.took.as_secs_f64(),
            "frames": self.frames,
            "page": self.page,
            "mode": if self.ring.is_some() { "tickets" } else { "token" },
            "tickets": self.ring.map(|ring| ring.tickets),
            "faults": self.ring.map(|ring| ring.faults),
            "circle": self.circle.to_json(),
            "uncoordinated": self.uncoordinated.as_ref().map(Side::to_json),
            "killed": killed,
        })
    }

    /// For people.
    pub(super) fn to_text(&self) -> String {
        let mut text = self.table();
        for lab in &self.circle.labs {
            if let Some(verdict) = lab.verdict.as_ref().filter(|_| self.is_overload) {
                // Writing to a string does not fail.
                let _ = writeln!(text, "{} says: {verdict}", lab.name);
            }
        }
        if let Some(Killed { name, ticket, made_good: Some(span), was_back }) = &self.killed {
            let span = human_duration(*span);
            let with_it = if *was_back { ", when it was started again" } else { "" };
            let _ = match ticket {
                None => writeln!(text, "{name} was killed with the token; the next slot began {span} later"),
                Some(ticket) => {
                    writeln!(
                        text,
                        "{name} was killed with ticket {ticket}; the ring had it back {span} later{with_it}"
                    )
                }
            };
        }
        if self.wrongs().is_empty() {
            let _ = writeln!(text, "{}", self.praise());
        }
        text
    }

    fn praise(&self) -> String {
        let sides = [Some(&self.circle), self.uncoordinated.as_ref()];
        let labs = || sides.iter().flatten().flat_map(|side| &side.labs);
        let files: u64 = labs().map(|lab| lab.comparison.same).sum();
        format!(
            "All right: {files} files in {} replicas are the same as at the source, byte by byte",
            labs().count()
        )
    }

    /// Whether what members waited for frames is explained by their slots.
    fn waits(&self) -> String {
        let late = self.circle.late(self.slot);
        let slot = human_duration(self.slot);
        if self.circle.access_p99().is_none() {
            "No member has had two slots".to_owned()
        } else if late.is_empty() {
            format!(
                "Every member had each frame within the p99 of its access interval and one slot of {slot}"
            )
        } else {
            let waited = |lab: &&LabReport| {
                let p99 = lab.access_p99.map_or_else(String::new, human_duration);
                format!("{} for {} (p99 {p99})", lab.name, human_duration(lab.longest_lag))
            };
            let waited: Vec<String> = late.iter().map(waited).collect();
            format!(
                "Longer than the p99 of its access interval and one slot of {slot} waited {}",
                waited.join(", ")
            )
        }
    }

    /// The numbers of transfers at once that are told apart: up to as many as there may be, and more.
    fn classes(&self) -> Vec<String> {
        let tickets = self.ring.map_or(2, |ring| usize::from(ring.tickets));
        let class = |count| match count {
            0 => "no transfer".to_owned(),
            1 => "one transfer".to_owned(),
            2 => "two at once".to_owned(),
            count => format!("{count} at once"),
        };
        (0..=tickets).map(class).chain(["more at once".to_owned()]).collect()
    }

    fn table(&self) -> String {
        let sides: Vec<&Side> =
            [Some(&self.circle), self.uncoordinated.as_ref()].into_iter().flatten().collect();
        let mut table = format!("{:34}{:>14}", "What the source saw", "circle");
        if self.uncoordinated.is_some() {
            let _ = write!(table, "{:>16}", "uncoordinated");
        }
        table.push('\n');
        let mut row = |name: &str, cell: &dyn Fn(&Side) -> String| {
            let _ = write!(table, "  {name:32}");
            for (index, side) in sides.iter().enumerate() {
                let width = if index == 0 { 14 } else { 16 };
                let _ = write!(table, "{:>width$}", cell(side));
            }
            table.push('\n');
        };
        for (class, name) in self.classes().iter().enumerate() {
            row(name, &|side| percent(side.seen.shares().get(class).copied().unwrap_or_default()));
        }
        row("most at once", &|side| side.seen.most.to_string());
        row("sent", &|side| human_size(side.seen.bytes));
        row("refused", &|side| side.seen.refusals.to_string());
        row("fairness among labs (1 is best)", &|side| format!("{:.3}", side.fairness()));
        row("longest wait for a frame", &|side| human_duration(side.longest_lag()));
        let mut p99 = |name: &str, of: fn(&Side) -> Option<Duration>| {
            row(name, &|side| of(side).map_or("–".to_owned(), human_duration));
        };
        if self.ring.is_none() {
            p99("p99 of the token's return time", Side::return_p99);
        }
        p99("p99 of the access interval", Side::access_p99);
        let _ = writeln!(table, "{}", self.waits());
        table
    }
}

impl LabReport {
    fn is_overloaded(&self) -> bool {
        self.verdict
            .as_deref()
            .is_some_and(|verdict| ["overloaded", "starved"].iter().any(|level| verdict.starts_with(level)))
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Jain's fairness index: 1 if all have the same, 1/n if one has everything.
fn jain(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let count = values.clone().count() as f64;
    let (sum, squares) =
        values.fold((0.0, 0.0), |(sum, squares), value| (sum + value, squares + value * value));
    if squares > 0.0 { sum * sum / (count * squares) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lab(name: &str, frames_in_time: u64) -> LabReport {
        let (name, slots) = (name.to_owned(), Some(3));
        LabReport { name, slots, frames_in_time, protocol: "http", ..LabReport::default() }
    }

    fn report() -> Report {
        let circle = Side { labs: vec![lab("lab-1", 8), lab("lab-2", 8)], ..Side::default() };
        Report { frames: 8, circle, uncoordinated: Some(Side::default()), ..Report::default() }
    }

    #[test]
    fn fairness_is_one_for_equals_and_least_for_one_who_has_all() {
        assert_eq!(jain([5.0, 5.0, 5.0].into_iter()), 1.0);
        assert_eq!(jain([9.0, 0.0, 0.0].into_iter()), 1.0 / 3.0);
        assert_eq!(jain([3.0, 1.0].into_iter()), 0.8);
        assert_eq!(jain([0.0, 0.0].into_iter()), 1.0);
    }

    #[test]
    fn a_report_without_wrongs_is_all_right() {
        let report = report();
        assert_eq!(report.wrongs(), Vec::<String>::new());
        assert!(report.to_text().contains("All right"));
        assert!(report.to_text().contains("uncoordinated"));
        assert_eq!(report.to_json()["ok"], true);
    }

    #[test]
    fn everything_that_can_be_wrong_is_named() {
        let mut report = report();
        report.circle.labs[0].comparison.wrong.push("stream/frame-000001.gwf".to_owned());
        report.circle.labs[1].comparison.missing.push("tree/notes/file-03.dat".to_owned());
        report.circle.labs[1].slots = Some(0);
        report.disorderly.push("lab-2".to_owned());
        report.killed =
            Some(Killed { name: "lab-2".to_owned(), ticket: None, made_good: None, was_back: false });
        let wrongs = report.wrongs().join("\n");
        for word in
            ["frame-000001", "file-03", "had no slot", "with an error: lab-2", "after lab-2 was killed"]
        {
            assert!(wrongs.contains(word), "{word}: {wrongs}");
        }
        assert!(!report.to_text().contains("All right"));
        report.killed = None;
        report.wants_kill = true;
        assert!(report.wrongs().join("\n").contains("nobody was killed"));
    }

    #[test]
    fn a_wait_for_a_frame_is_measured_by_the_slots_of_the_same_member() {
        let mut report = report();
        assert!(report.to_text().contains("No member has had two slots"));
        for (lab, (lag_ms, p99_ms)) in report.circle.labs.iter_mut().zip([(900, 1_000), (1_400, 1_500)]) {
            lab.longest_lag = Duration::from_millis(lag_ms);
            lab.access_p99 = Some(Duration::from_millis(p99_ms));
            // Visits that came before a slot was due.
            lab.return_p99 = Some(Duration::from_millis(p99_ms / 2));
        }
        report.slot = Duration::from_millis(400);
        let well =
            "Every member had each frame within the p99 of its access interval and one slot of 0.4 s\n";
        assert!(report.to_text().contains(well), "{}", report.to_text());
        assert_eq!(report.to_json()["circle"]["return_p99_s"], 0.75);
        assert_eq!(report.to_json()["circle"]["access_p99_s"], 1.5);
        // Not by that of another member, and a slot is all that it may be longer.
        report.circle.labs[0].longest_lag = Duration::from_millis(1_400);
        assert!(report.to_text().contains(well), "{}", report.to_text());
        report.circle.labs[0].longest_lag = Duration::from_millis(1_500);
        let late = "one slot of 0.4 s waited lab-1 for 1.5 s (p99 1.0 s)\n";
        assert!(report.to_text().contains(late), "{}", report.to_text());
    }

    /// So much time with none, one, two and more transfers.
    fn seen(times_ms: [u64; 4]) -> Seen {
        Seen::over(times_ms.map(Duration::from_millis))
    }

    #[test]
    fn a_circle_at_peace_shares_hardly_ever_and_never_by_three() {
        let mut report = Report { is_guarded: true, ..report() };
        let mut wrong = |times_ms| {
            report.circle.seen = seen(times_ms);
            report.wrongs().join("\n")
        };
        assert_eq!(wrong([10_000, 10_000, 0, 0]), "");
        assert_eq!(wrong([10_000, 10_000, 150, 0]), "");
        assert!(wrong([10_000, 10_000, 300, 0]).contains("at the same time for 1.5 % of the time"));
        assert!(wrong([10_000, 10_000, 0, 10]).contains("3 members of the circle pulled at once, for 10 ms"));
        assert_eq!(wrong([10_000, 10_000, 0, 4]), "", "the source heard of it late");
        let mut others = [report.clone(), report.clone(), report.clone()];
        others[0].is_guarded = false;
        others[1].wants_kill = true;
        others[2].is_overload = true;
        for mut other in others {
            other.circle.seen = seen([10_000, 10_000, 300, 100]);
            let wrongs = other.wrongs().join("\n");
            assert!(!wrongs.contains("same time") && !wrongs.contains("at once"), "{wrongs}");
            other.circle.seen = seen([10_000, 10_000, 3_000, 0]);
            assert!(
                other.wrongs().join("\n").contains("at the same time for 13.0 %"),
                "{:?}",
                other.wrongs()
            );
        }
    }

    #[test]
    fn members_of_a_circle_at_peace_are_served_alike() {
        let labs = vec![lab("lab-1", 34), lab("lab-2", 20), lab("lab-3", 34)];
        let circle = Side { labs, ..Side::default() };
        let report = Report { frames: 34, circle, is_guarded: true, ..Report::default() };
        assert!(
            report.wrongs().join("\n").contains("not served alike: fairness 0.952"),
            "{:?}",
            report.wrongs()
        );
        assert_eq!(Report { frames: 10, ..report.clone() }.wrongs(), Vec::<String>::new(), "that is chance");
        assert_eq!(Report { is_guarded: false, ..report }.wrongs(), Vec::<String>::new());
    }

    #[test]
    fn with_tickets_one_too_many_is_wrong_and_a_ticket_must_come_back() {
        let mut report = Report { ring: Some(Ring { tickets: 3, faults: 1 }), ..report() };
        report.circle.seen.most = 3;
        assert_eq!(report.wrongs(), Vec::<String>::new());
        let text = report.to_text();
        assert!(
            text.contains("3 at once") && text.contains("access interval") && !text.contains("token"),
            "{text}"
        );
        report.circle.seen.most = 4;
        assert!(report.wrongs().join("\n").contains("4 members of the circle pulled at once with 3 tickets"));
        report.circle.seen.most = 3;
        report.killed =
            Some(Killed { name: "lab-2".to_owned(), ticket: Some(1), made_good: None, was_back: false });
        assert_eq!(report.wrongs(), ["ticket 1 did not come back after lab-2 was killed with it"]);
        report.killed.as_mut().unwrap().made_good = Some(Duration::from_secs(7));
        assert!(report.to_text().contains("the ring had it back 7.0 s later\n"), "{}", report.to_text());
        report.killed.as_mut().unwrap().was_back = true;
        assert!(
            report.to_text().contains("7.0 s later, when it was started again\n"),
            "{}",
            report.to_text()
        );
    }

    #[test]
    fn overload_must_be_noticed_and_excuses_what_is_missing() {
        let mut report = report();
        report.is_overload = true;
        report.circle.labs[1].comparison.missing.push("stream/frame-000008.gwf".to_owned());
        assert_eq!(report.wrongs(), ["no member noticed the overload"]);
        report.circle.labs[0].verdict = Some("overloaded: load 1.9".to_owned());
        assert_eq!(report.wrongs(), Vec::<String>::new());
        assert!(report.to_text().contains("lab-1 says: overloaded"));
    }
}
