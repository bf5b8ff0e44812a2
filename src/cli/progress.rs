//! Progress on stderr: a bar on a terminal, a line now and then elsewhere.

use std::fmt;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use super::bars::layout;
use super::terminal;

/// How progress is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Style {
    /// A bar on a terminal, lines elsewhere.
    #[default]
    Auto,
    /// A bar; lines where there is no terminal.
    Bar,
    /// A line every ten seconds.
    Line,
    /// JSON, a line for everything that happens.
    Json,
    /// Nothing.
    None,
}

/// How progress is shown, once it is clear where to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Show {
    Bar,
    Line,
    Json,
    Nothing,
}

impl Style {
    /// What it comes to here and now.
    pub(super) fn resolve(self, is_quiet: bool) -> Show {
        self.resolve_on(terminal::can_draw(), is_quiet)
    }

    fn resolve_on(self, can_draw: bool, is_quiet: bool) -> Show {
        match self {
            Self::Auto if is_quiet => Show::Nothing,
            Self::Auto | Self::Bar if can_draw => Show::Bar,
            Self::Auto | Self::Bar | Self::Line => Show::Line,
            Self::Json => Show::Json,
            Self::None => Show::Nothing,
        }
    }
}

/// A bar is not shown before this: quick work needs none.
const BAR_AFTER: Duration = Duration::from_millis(700);
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Progress towards a known total; many threads may report it.
pub(super) struct Progress {
    bar: ProgressBar,
    next: Mutex<Next>,
}

/// What is to be shown next.
enum Next {
    Bar { from: Instant },
    Line { next: Instant },
    Nothing,
}

impl Progress {
    pub(super) fn new(style: Style, total: u64, what: &'static str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden()).with_message(what);
        bar.set_style(style_of(move |state: &ProgressState, out: &mut dyn fmt::Write| {
            // What cannot be drawn is not worth an error.
            let _ = out.write_str(&layout::share(what, state.fraction(), state.eta(), terminal::columns()));
        }));
        let next = match style.resolve(false) {
            Show::Bar => Next::Bar { from: now() + BAR_AFTER },
            Show::Line => Next::Line { next: now() + LINE_EVERY },
            // Nobody asked for the simulator's progress by program yet.
            Show::Json | Show::Nothing => Next::Nothing,
        };
        Self { bar, next: Mutex::new(next) }
    }

    /// So much more of the total is done.
    pub(super) fn advance(&self, by: u64) {
        self.bar.inc(by);
        // If another thread is showing it just now, that will do.
        let Ok(mut next) = self.next.try_lock() else { return };
        match *next {
            Next::Bar { from } if now() >= from => {
                // From here on the bar draws itself.
                self.bar.set_draw_target(terminal::draw_target());
                *next = Next::Nothing;
            }
            Next::Line { next: due } if now() >= due => {
                let percent = self.bar.position() * 100 / self.bar.length().unwrap_or(1).max(1);
                eprintln!("{}: {percent} %, {:.0?} to go", self.bar.message(), self.bar.eta());
                *next = Next::Line { next: now() + LINE_EVERY };
            }
            Next::Bar { .. } | Next::Line { .. } | Next::Nothing => {}
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A style that is one line, written by this function whenever it is drawn.
pub(super) fn style_of(
    line: impl Fn(&ProgressState, &mut dyn fmt::Write) + Clone + Send + Sync + 'static,
) -> ProgressStyle {
    let style = ProgressStyle::with_template("{line}").unwrap_or_else(|_| ProgressStyle::default_bar());
    style.with_key("line", line)
}

/// `1 file`, `2 files`.
pub(super) fn counted(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

#[expect(clippy::disallowed_methods, reason = "progress is about real time")]
pub(super) fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_terminal_a_bar_becomes_lines() {
        let shown =
            |style: Style, can_draw| (style.resolve_on(can_draw, false), style.resolve_on(can_draw, true));
        assert_eq!(shown(Style::Auto, true), (Show::Bar, Show::Nothing));
        assert_eq!(shown(Style::Auto, false), (Show::Line, Show::Nothing));
        assert_eq!(shown(Style::Bar, true), (Show::Bar, Show::Bar));
        assert_eq!(shown(Style::Bar, false), (Show::Line, Show::Line));
        assert_eq!(shown(Style::Json, true), (Show::Json, Show::Json));
        assert_eq!(shown(Style::None, true), (Show::Nothing, Show::Nothing));
    }
}
