//! What a command that pulls shows while it works: bars on a terminal, a line now and then elsewhere, or JSON.

mod events;
pub(super) mod layout;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressState};
use stroll::base::units::{human_duration, human_size};
use stroll::fetch::Fault;
use stroll::fetch::engine::{self, PullError};
use stroll::jobs::pull::{Event, Fate, Watch};

use super::circles::Circle;
pub(super) use super::exit::chain;
use super::progress::{Show, counted, now, style_of};
use super::terminal;
use events::{as_json, change_as_json, restarted};
use layout::{Amount, Headline};

/// Rows that files leave free: for the total, and for the line above the bars.
const FREE_ROWS: usize = 2;

/// Whoever waits for longer than this in a new circle wants to know why; a full one tells how long a wait takes.
const REMARK_AFTER: Duration = Duration::from_secs(60);

const LOOK_EVERY: Duration = Duration::from_secs(1);

const LINE_EVERY: Duration = Duration::from_secs(10);

/// Shows what happens.
pub(super) struct Bars {
    show: Show,
    all: MultiProgress,
    state: Mutex<State>,
}

/// What the total counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counting {
    /// So many files that were named.
    Files(usize),
    /// The files and folders of a tree.
    Tree,
    /// Files that come one after the other. Its folder is listed again and again.
    Stream,
}

struct State {
    total: ProgressBar,
    files: BTreeMap<usize, File>,
    counting: Counting,
    /// Files that are here now.
    done: usize,
    failed: usize,
    /// Folders that were listed.
    folders: usize,
    bytes: u64,
    began: Instant,
    next_line: Instant,
    /// Slots come with a ticket, not with the token.
    has_tickets: bool,
    /// Since when a slot is awaited, and after how long that is worth a remark; `None` if none is, or it was made.
    overdue: Option<(Instant, Duration)>,
    /// What the total says; read whenever it is drawn.
    headline: Arc<Mutex<Headline>>,
}

struct File {
    name: String,
    /// Only where somebody sees it: thousands of small files would spend their time drawing nothing.
    bar: Option<ProgressBar>,
    /// The bar knows how much there is and how much was here before.
    is_placed: bool,
}

impl Bars {
    pub(super) fn new(show: Show, counting: Counting) -> Self {
        let target = match show {
            Show::Bar => terminal::draw_target(),
            Show::Line | Show::Json | Show::Nothing => ProgressDrawTarget::hidden(),
        };
        let all = MultiProgress::with_draw_target(target);
        let total = all.add(ProgressBar::no_length());
        let headline = Arc::new(Mutex::new(Headline::default()));
        let shown = Arc::clone(&headline);
        total.set_style(style_of(move |state: &ProgressState, out: &mut dyn fmt::Write| {
            let headline = lock(&shown);
            let line = headline.line(state.pos(), rate(state), state.elapsed(), terminal::columns());
            // What cannot be drawn is not worth an error.
            let _ = out.write_str(&line);
        }));
        let state = State {
            total,
            files: BTreeMap::new(),
            counting,
            done: 0,
            failed: 0,
            folders: 0,
            bytes: 0,
            began: now(),
            next_line: now() + LINE_EVERY,
            has_tickets: false,
            overdue: None,
            headline,
        };
        let bars = Self { show, all, state: Mutex::new(state) };
        bars.state().tell();
        if show == Show::Bar {
            bars.state().total.enable_steady_tick(Duration::from_millis(250));
        }
        bars
    }

    /// Says in the slots of which circle the command pulls, or why it uses none of the circles here. From now on it waits for that circle's token, or for a ticket.
    pub(super) fn entered(&self, circle: &Circle) {
        if let Some(name) = circle.name() {
            self.say(&format!("in the slots of circle {name}"));
            self.state().has_tickets = circle.has_tickets();
        } else if let Some(why) = circle.outside() {
            self.warn(why);
        }
    }

    fn awaited(&self) -> &'static str {
        if self.state().has_tickets { "a ticket" } else { "the token" }
    }

    /// Does the work; if it waits for a slot for long meanwhile, says what can be done about that.
    pub(super) async fn shown<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = Box::pin(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            let waited = self.state().overdue_at(now());
            if let Some(waited) = waited {
                let (awaited, waited) = (self.awaited(), about(waited));
                self.say(&format!(
                    "waits for {awaited} for {waited} already: `stroll doctor` examines the circle, --solo pulls without it"
                ));
            }
        }
    }

    /// Counts from the beginning: another run begins.
    pub(super) fn begin_anew(&self) {
        let mut state = self.state();
        (state.done, state.failed, state.folders, state.bytes) = (0, 0, 0, 0);
        state.began = now();
        state.total.reset();
        state.tell();
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

    fn state(&self) -> MutexGuard<'_, State> {
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

    /// Prints a warning. Where progress lines are not shown, it goes to the log instead.
    pub(super) fn warn(&self, line: &str) {
        match self.show {
            Show::Bar | Show::Line => self.say(line),
            Show::Json | Show::Nothing => tracing::warn!("{line}"),
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
        let state = self.state();
        if lock(&state.headline).note != note {
            lock(&state.headline).note = note;
            state.tell();
        }
        drop(state);
        self.line_if_due();
    }

    /// A bar for a file, if there is a row for it.
    fn file_bar(&self, name: &str) -> Option<ProgressBar> {
        let state = self.state();
        let shown = state.files.values().filter(|file| file.bar.is_some()).count();
        if self.show != Show::Bar || shown + FREE_ROWS >= terminal::rows() {
            return None;
        }
        let total = state.total.clone();
        drop(state);
        let bar = self.all.insert_before(&total, ProgressBar::no_length());
        let name = name.to_owned();
        bar.set_style(style_of(move |state: &ProgressState, out: &mut dyn fmt::Write| {
            let rate_bytes_per_sec = rate(state);
            let left = (rate_bytes_per_sec > 0).then(|| state.eta());
            let amount = Amount { have: state.pos(), size: state.len(), rate_bytes_per_sec, left };
            let _ = out.write_str(&layout::file(&name, &amount, terminal::columns()));
        }));
        Some(bar)
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
            engine::Event::WasCut(_) | engine::Event::Surplus(_) => {}
        }
    }

    fn on_ended(&self, index: usize, fate: &Fate) {
        let mut state = self.state();
        match fate {
            Fate::Pulled { .. } | Fate::UpToDate(_) | Fate::Planned { .. } => state.done += 1,
            Fate::Failed(_) => state.failed += 1,
            Fate::NotMeant | Fate::Interrupted => {}
        }
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
            _ if self.state().counting == Counting::Files(1) => {}
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
            for line in as_json(&event).into_iter().chain(change_as_json(&event)) {
                eprintln!("{line}");
            }
            return;
        }
        match event {
            Event::Began { index, address } => {
                let name = address.file_name().map_or_else(|_| address.to_string(), |name| name.to_string());
                let bar = self.file_bar(&name);
                self.state().files.insert(index, File { name, bar, is_placed: false });
            }
            Event::File { index, event } => self.on_file(index, event),
            Event::Ended { index, fate } => self.on_ended(index, fate),
            Event::Waiting { expected } => {
                let time = expected.map_or_else(String::new, |wait| format!(", about {}", about(wait)));
                let doing = format!("waits for {}{time}", self.awaited());
                let mut state = self.state();
                state.overdue = Some((now(), REMARK_AFTER.max(expected.unwrap_or_default() * 3)));
                state.doing(doing);
            }
            Event::SlotBegan => {
                let mut state = self.state();
                state.overdue = None;
                state.doing(String::new());
            }
            Event::Listed { .. } => {
                let mut state = self.state();
                state.folders += 1;
                state.tell();
            }
            Event::Budgeted { .. } | Event::SlotEnded { .. } | Event::Idle { .. } => {}
            Event::Pausing { wait, fault } => {
                self.say(&format!("{fault}; trying again in {}", about(wait)));
                self.state().doing(format!("leaves the source alone for {}", about(wait)));
            }
        }
        self.line_if_due();
    }
}

impl State {
    /// How long a slot has been awaited, if that is to be remarked on now: once for each wait.
    fn overdue_at(&mut self, now: Instant) -> Option<Duration> {
        let (_, waited) = self
            .overdue
            .map(|(since, after)| (after, now.saturating_duration_since(since)))
            .filter(|(after, waited)| waited >= after)?;
        self.overdue = None;
        Some(waited)
    }

    /// The file is so long, and so much of it is here already.
    fn place(&mut self, index: usize, size: Option<u64>, have: u64) {
        let Some(file) = self.files.get_mut(&index) else { return };
        let Some(bar) = &file.bar else { return };
        if let Some(size) = size {
            bar.set_length(size);
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
        lock(&self.headline).doing = what;
        self.tell();
    }

    /// Brings the count up to date and draws it.
    fn tell(&self) {
        lock(&self.headline).count = self.count();
        self.total.tick();
    }

    fn count(&self) -> String {
        let count = match self.counting {
            Counting::Files(1) => format!("{} of 1 file", self.done),
            Counting::Files(wanted) => format!("{} of {wanted} files", self.done),
            Counting::Tree if self.folders > 0 => {
                format!("{}, {}", counted(self.done as u64, "file"), counted(self.folders as u64, "folder"))
            }
            Counting::Tree | Counting::Stream => counted(self.done as u64, "file"),
        };
        if self.failed > 0 && self.counting != Counting::Stream {
            return format!("{count}, {} failed", self.failed);
        }
        count
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
        format!("{}: {} at {}/s", lock(&self.headline).text(), human_size(self.bytes), human_size(rate))
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().expect("nobody panics with the headline in hand")
}

fn rate(state: &ProgressState) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate is positive and no petabyte"
    )]
    let rate = state.per_sec() as u64;
    rate
}

/// To the second: more would only flicker.
fn about(wait: Duration) -> String {
    match wait.as_secs_f64().round().max(1.0) {
        seconds if seconds < 60.0 => format!("{seconds} s"),
        _ => human_duration(wait),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use stroll::fetch::Address;

    use super::*;

    fn address() -> Address {
        Address::parse("http://h/f").unwrap().0
    }

    /// What the total says after these files have ended.
    fn said(bars: &Bars) -> String {
        lock(&bars.state().headline).text()
    }

    fn end(bars: &Bars, fate: &Fate) {
        bars.on(Event::Began { index: 0, address: &address() });
        bars.on(Event::Ended { index: 0, fate });
    }

    fn pulled() -> Fate {
        Fate::Pulled { size: 1, sha256: None, modified_s: None, etag: None }
    }

    /// An interrupted file was counted, so that Ctrl-C left "1 of 1 files".
    #[test]
    fn only_files_that_are_here_are_counted_as_done() {
        let bars = Bars::new(Show::Nothing, Counting::Files(1));
        end(&bars, &Fate::Interrupted);
        assert_eq!(said(&bars), "0 of 1 file");
        let bars = Bars::new(Show::Nothing, Counting::Files(4));
        let fault = Fault::Local { what: "test".into(), source: io::Error::other("test") };
        for fate in [pulled(), Fate::UpToDate(None), Fate::Failed(fault.into())] {
            end(&bars, &fate);
        }
        assert_eq!(said(&bars), "2 of 4 files, 1 failed");
    }

    #[test]
    fn looks_are_folders_of_a_tree_but_not_of_a_stream_and_each_run_counts_anew() {
        let listed = |bars: &Bars| bars.on(Event::Listed { address: &address(), entries: 1 });
        let (stream, tree) =
            (Bars::new(Show::Nothing, Counting::Stream), Bars::new(Show::Nothing, Counting::Tree));
        for bars in [&stream, &tree] {
            end(bars, &pulled());
            listed(bars);
            listed(bars);
        }
        assert_eq!((said(&stream), said(&tree)), ("1 file".to_owned(), "1 file, 2 folders".to_owned()));
        tree.begin_anew();
        listed(&tree);
        assert_eq!(said(&tree), "0 files, 1 folder");
    }

    #[test]
    fn a_wait_names_what_it_is_for() {
        let bars = Bars::new(Show::Nothing, Counting::Files(1));
        let waiting = Event::Waiting { expected: Some(Duration::from_secs(12)) };
        bars.on(waiting);
        assert_eq!(said(&bars), "0 of 1 file, waits for the token, about 12 s");
        bars.state().has_tickets = true;
        bars.on(waiting);
        assert_eq!(said(&bars), "0 of 1 file, waits for a ticket, about 12 s");
        bars.on(Event::SlotBegan);
        assert_eq!(said(&bars), "0 of 1 file");
    }

    /// A circle in which nobody else answers looked like one that is busy.
    #[test]
    fn a_long_wait_is_remarked_on_once() {
        let bars = Bars::new(Show::Nothing, Counting::Files(1));
        let later = |seconds| now() + Duration::from_secs(seconds);
        for (expected, too_soon, late) in [(None, 50, 70), (Some(Duration::from_secs(60)), 170, 190)] {
            bars.on(Event::Waiting { expected });
            let mut state = bars.state();
            assert_eq!(state.overdue_at(later(too_soon)), None, "{expected:?}");
            assert!(state.overdue_at(later(late)).is_some(), "{expected:?}");
            assert_eq!(state.overdue_at(later(late)), None, "said already");
        }
        bars.on(Event::Waiting { expected: None });
        bars.on(Event::SlotBegan);
        assert_eq!(bars.state().overdue_at(later(70)), None, "the slot came");
    }
}
