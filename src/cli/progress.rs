//! Progress on stderr: a bar on a terminal, a line now and then elsewhere.

use std::io::IsTerminal as _;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How progress is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Style {
    /// A bar on a terminal, lines elsewhere.
    #[default]
    Auto,
    /// A bar.
    Bar,
    /// A line every ten seconds.
    Line,
    /// Nothing.
    None,
}

/// A bar is not shown before this: quick work needs none.
const BAR_AFTER: Duration = Duration::from_millis(700);
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Progress towards a known total; many threads may report it.
pub(super) struct Progress {
    bar: ProgressBar,
    show: Mutex<Show>,
}

/// What is to be shown next.
enum Show {
    Bar { from: Instant },
    Line { next: Instant },
    Nothing,
}

impl Progress {
    pub(super) fn new(style: Style, total: u64, what: &'static str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden()).with_message(what);
        if let Ok(style) = ProgressStyle::with_template("{msg} [{bar:30}] {percent:>3} %, {eta} to go") {
            bar.set_style(style.progress_chars("=> "));
        }
        let show = match style {
            Style::Auto if std::io::stderr().is_terminal() => Show::Bar { from: now() + BAR_AFTER },
            Style::Auto | Style::Line => Show::Line { next: now() + LINE_EVERY },
            Style::Bar => Show::Bar { from: now() + BAR_AFTER },
            Style::None => Show::Nothing,
        };
        Self { bar, show: Mutex::new(show) }
    }

    /// So much more of the total is done.
    pub(super) fn advance(&self, by: u64) {
        self.bar.inc(by);
        // If another thread is showing it just now, that will do.
        let Ok(mut show) = self.show.try_lock() else { return };
        match *show {
            Show::Bar { from } if now() >= from => {
                // From here on the bar draws itself.
                self.bar.set_draw_target(ProgressDrawTarget::stderr());
                *show = Show::Nothing;
            }
            Show::Line { next } if now() >= next => {
                let percent = self.bar.position() * 100 / self.bar.length().unwrap_or(1).max(1);
                eprintln!("{}: {percent} %, {:.0?} to go", self.bar.message(), self.bar.eta());
                *show = Show::Line { next: now() + LINE_EVERY };
            }
            Show::Bar { .. } | Show::Line { .. } | Show::Nothing => {}
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[expect(clippy::disallowed_methods, reason = "progress is about real time")]
fn now() -> Instant {
    Instant::now()
}
