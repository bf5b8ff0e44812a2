//! What a command that pulls shows while it works: bars on a terminal, a line now and then elsewhere, or JSON.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;
use stroll::base::units::{human_duration, human_size};
use stroll::fetch::Fault;
use stroll::fetch::engine::{self, PullError};
use stroll::jobs::pull::{Event, Fate, Watch};

use super::progress::{Show, now};

/// Names are cut to this on a bar.
const NAME_WIDTH: usize = 28;

const LINE_EVERY: Duration = Duration::from_secs(10);

/// Shows what happens.
pub(super) struct Bars {
    show: Show,
    all: MultiProgress,
    state: Mutex<State>,
}

struct State {
    total: ProgressBar,
    files: BTreeMap<usize, File>,
    /// How many files there are, if that is known before they are done.
    wanted: Option<usize>,
    done: usize,
    /// Folders that were listed.
    folders: usize,
    bytes: u64,
    began: Instant,
    next_line: Instant,
    /// What is going on besides bytes, such as waiting for the token.
    doing: String,
    /// What a job wants to have said all the time, such as its lag.
    note: String,
}

struct File {
    name: String,
    /// Only where somebody sees it: thousands of small files would spend their time drawing nothing.
    bar: Option<ProgressBar>,
    /// The bar knows how much there is and how much was here before.
    is_placed: bool,
}

impl Bars {
    pub(super) fn new(show: Show, wanted: Option<usize>) -> Self {
        let target = match show {
            Show::Bar => ProgressDrawTarget::stderr(),
            Show::Line | Show::Json | Show::Nothing => ProgressDrawTarget::hidden(),
        };
        let all = MultiProgress::with_draw_target(target);
        let total = all.add(ProgressBar::no_length());
        total.set_style(style("{msg}  {bytes} at {bytes_per_sec}, {elapsed}"));
        if show == Show::Bar {
            total.enable_steady_tick(Duration::from_millis(250));
        }
        let state = State {
            total,
            files: BTreeMap::new(),
            wanted,
            done: 0,
            folders: 0,
            bytes: 0,
            began: now(),
            next_line: now() + LINE_EVERY,
            doing: String::new(),
            note: String::new(),
        };
        let bars = Self { show, all, state: Mutex::new(state) };
        bars.state().tell();
        bars
    }

    /// Writes a log line without tearing the bars.
    pub(super) fn bars(&self) -> &MultiProgress {
        &self.all
    }

    /// Takes the bars away.
    pub(super) fn clear(&self) {
        self.state().total.finish_and_clear();
        // What cannot be cleared is not worth an error.
        let _ = self.all.clear();
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with the bars in hand")
    }

    /// Says something that people should know.
    pub(super) fn say(&self, line: &str) {
        match self.show {
            Show::Bar => self.all.suspend(|| eprintln!("{line}")),
            Show::Line => eprintln!("{line}"),
            Show::Json | Show::Nothing => {}
        }
    }

    /// Something happened that only programs want to know.
    pub(super) fn event(&self, event: &serde_json::Value) {
        if self.show == Show::Json {
            eprintln!("{event}");
        }
    }

    /// What is said all the time from now on.
    pub(super) fn note(&self, note: String) {
        let mut state = self.state();
        if state.note != note {
            state.note = note;
            state.tell();
        }
        drop(state);
        self.line_if_due();
    }

    fn file_bar(&self, name: &str) -> ProgressBar {
        let bar = self.all.insert_before(&self.state().total, ProgressBar::no_length());
        bar.set_style(style("{prefix:28} {bytes:>11} at {bytes_per_sec}"));
        bar.set_prefix(shortened(name));
        bar
    }

    fn on_file(&self, index: usize, event: &engine::Event) {
        let mut state = self.state();
        match event {
            engine::Event::Opened { size, have } => state.place(index, *size, *have),
            engine::Event::Bytes(bytes) => state.advance(index, *bytes),
            engine::Event::Restarted(why) => {
                if let Some(file) = state.files.get_mut(&index) {
                    if let Some(bar) = &file.bar {
                        bar.set_position(0);
                    }
                    let line = restarted(*why).map(|why| format!("{}: starts anew, {why}", file.name));
                    drop(state);
                    if let Some(line) = line {
                        self.say(&line);
                    }
                }
            }
            engine::Event::Chunk(_) | engine::Event::WasCut(_) | engine::Event::Surplus(_) => {}
        }
    }

    fn on_ended(&self, index: usize, fate: &Fate) {
        let mut state = self.state();
        state.done += 1;
        let name = state.files.remove(&index).map(|file| {
            if let Some(bar) = file.bar {
                bar.finish_and_clear();
                self.all.remove(&bar);
            }
            file.name
        });
        state.tell();
        drop(state);
        // Those without a checksum are told together at the end.
        if let (Fate::Failed(error), Some(name)) = (fate, name)
            && !matches!(error, PullError::Source(Fault::NoChecksum(_)))
        {
            self.complain(&format!("{name}: {}", chain(error)));
        }
    }

    /// Says what is wrong with one of several files, however quiet we are; of a single one the end will tell.
    pub(super) fn complain(&self, line: &str) {
        match self.show {
            _ if self.state().wanted == Some(1) => {}
            Show::Nothing => eprintln!("{line}"),
            Show::Bar | Show::Line | Show::Json => self.say(line),
        }
    }

    /// Now and then a line, where there is no bar.
    fn line_if_due(&self) {
        let mut state = self.state();
        if self.show == Show::Line && now() >= state.next_line {
            state.next_line = now() + LINE_EVERY;
            let line = state.line();
            drop(state);
            self.say(&line);
        }
    }
}

impl Watch for Bars {
    fn on(&self, event: Event<'_>) {
        if self.show == Show::Json {
            if let Some(line) = as_json(&event) {
                eprintln!("{line}");
            }
            return;
        }
        match event {
            Event::Began { index, address } => {
                let name = address.file_name().map_or_else(|_| address.to_string(), |name| name.to_string());
                let bar = (self.show == Show::Bar).then(|| self.file_bar(&name));
                self.state().files.insert(index, File { name, bar, is_placed: false });
            }
            Event::File { index, event } => self.on_file(index, event),
            Event::Ended { index, fate } => self.on_ended(index, fate),
            Event::Waiting { expected } => self.state().doing(match expected {
                Some(wait) => format!("waits for the token, about {}", about(wait)),
                None => "waits for the token".into(),
            }),
            Event::SlotBegan => self.state().doing(String::new()),
            Event::Listed { .. } => {
                let mut state = self.state();
                state.folders += 1;
                state.tell();
            }
            Event::SlotEnded { .. } | Event::Idle { .. } => {}
            Event::Pausing { wait, fault } => {
                self.say(&format!("{fault}; trying again in {}", about(wait)));
                self.state().doing(format!("leaves the source alone for {}", about(wait)));
            }
        }
        self.line_if_due();
    }
}

impl State {
    /// The file is so long, and so much of it is here already.
    fn place(&mut self, index: usize, size: Option<u64>, have: u64) {
        let Some(file) = self.files.get_mut(&index) else { return };
        let Some(bar) = &file.bar else { return };
        if let Some(size) = size {
            bar.set_length(size);
            bar.set_style(style(
                "{prefix:28} {bar:20} {bytes:>11} of {total_bytes} at {bytes_per_sec}, {eta} to go",
            ));
        }
        if !std::mem::replace(&mut file.is_placed, true) {
            bar.set_position(have);
            bar.reset_eta();
        }
    }

    fn advance(&mut self, index: usize, bytes: u64) {
        self.bytes += bytes;
        self.total.set_position(self.bytes);
        if let Some(bar) = self.files.get(&index).and_then(|file| file.bar.as_ref()) {
            bar.inc(bytes);
        }
    }

    fn doing(&mut self, what: String) {
        self.doing = what;
        self.tell();
    }

    fn tell(&self) {
        self.total.set_message(self.headline());
    }

    fn headline(&self) -> String {
        let mut line = match self.wanted {
            Some(wanted) => format!("{} of {wanted} files", self.done),
            None if self.folders > 0 => format!("{} files, {} folders", self.done, self.folders),
            None => format!("{} files", self.done),
        };
        for more in [&self.note, &self.doing].into_iter().filter(|more| !more.is_empty()) {
            line.push_str(", ");
            line.push_str(more);
        }
        line
    }

    fn line(&self) -> String {
        let elapsed = now().duration_since(self.began).as_secs_f64();
        let rate = self.bytes as f64 / elapsed.max(1e-3);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rate is positive and no petabyte"
        )]
        let rate = rate as u64;
        format!("{}: {} at {}/s", self.headline(), human_size(self.bytes), human_size(rate))
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ")
}

fn shortened(name: &str) -> String {
    if name.chars().count() <= NAME_WIDTH {
        return name.to_owned();
    }
    let end: String = name.chars().rev().take(NAME_WIDTH - 1).collect();
    std::iter::once('…').chain(end.chars().rev()).collect()
}

/// To the second: more would only flicker.
fn about(wait: Duration) -> String {
    match wait.as_secs_f64().round().max(1.0) {
        seconds if seconds < 60.0 => format!("{seconds} s"),
        _ => human_duration(wait),
    }
}

/// An error with its causes, in one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line = format!("{line}: {error}");
        cause = error.source();
    }
    line
}

/// Why a file starts anew; `None` if nothing is lost by it.
fn restarted(why: engine::Restart) -> Option<&'static str> {
    match why {
        engine::Restart::Changed => Some("the source has another version"),
        engine::Restart::NoResume => Some("the source does not support resuming"),
        engine::Restart::Fresh => {
            Some("it was less than a minute old, so another version would not be noticed")
        }
        engine::Restart::JustWritten => None,
    }
}

fn as_json(event: &Event<'_>) -> Option<serde_json::Value> {
    Some(match event {
        Event::Began { index, address } => {
            json!({"event": "began", "file": index, "url": address.to_string()})
        }
        Event::File { index, event } => match event {
            engine::Event::Opened { size, have } => {
                json!({"event": "opened", "file": index, "size": size, "have": have})
            }
            engine::Event::Bytes(_) => return None,
            engine::Event::Restarted(why) => {
                json!({"event": "restarted", "file": index, "reason": restarted(*why)})
            }
            engine::Event::Chunk(change) => {
                json!({"event": "chunk", "file": index, "from": change.from, "to": change.to, "reason": change.reason})
            }
            engine::Event::WasCut(cut) => {
                json!({"event": "cut", "file": index, "connection": format!("{cut:?}").to_lowercase()})
            }
            engine::Event::Surplus(why) => json!({"event": "surplus", "file": index, "error": why}),
        },
        Event::Ended { index, fate } => match fate {
            Fate::Pulled { size, .. } => json!({"event": "pulled", "file": index, "size": size}),
            Fate::UpToDate(_) => json!({"event": "up_to_date", "file": index}),
            Fate::NotMeant => json!({"event": "not_meant", "file": index}),
            Fate::Planned { size } => json!({"event": "planned", "file": index, "size": size}),
            Fate::Failed(error) => json!({"event": "failed", "file": index, "error": chain(error)}),
            Fate::Interrupted => json!({"event": "interrupted", "file": index}),
        },
        Event::Waiting { expected } => {
            json!({"event": "waiting", "expected_s": expected.map(|wait| wait.as_secs_f64())})
        }
        Event::Listed { address, entries } => {
            json!({"event": "listed", "url": address.to_string(), "entries": entries})
        }
        Event::SlotBegan => json!({"event": "slot"}),
        Event::SlotEnded { bytes, chunk } => {
            json!({"event": "slot_ended", "bytes": bytes, "chunk": chunk})
        }
        Event::Idle { wait } => json!({"event": "idle", "wait_s": wait.map(|wait| wait.as_secs_f64())}),
        Event::Pausing { wait, fault } => {
            json!({"event": "pausing", "wait_s": wait.as_secs_f64(), "why": fault.to_string()})
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_keep_their_end() {
        assert_eq!(shortened("short"), "short");
        let long = shortened("V-V1_HrecOnline-1263081616-2000.gwf");
        assert_eq!(long.chars().count(), NAME_WIDTH);
        assert!(long.starts_with('…') && long.ends_with("1616-2000.gwf"));
    }

    #[test]
    fn causes_are_told_in_one_line() {
        let error = anyhow::anyhow!("no such file").context("cannot read").context("list");
        assert_eq!(chain(error.as_ref()), "list: cannot read: no such file");
    }
}
