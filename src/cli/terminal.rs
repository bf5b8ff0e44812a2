//! The terminal below everything that a command has written: where bars are drawn and taken away again.
//!
//! `indicatif` fills each line up to the right edge and counts rows by the width at the time of drawing. When the window
//! then becomes narrower, the terminal wraps the filled lines and rows stay behind. A [`Screen`] ends each line where its
//! text ends, cuts what is too wide, and erases by the width at the time of erasing.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};

use indicatif::{ProgressDrawTarget, TermLike};
use unicode_width::UnicodeWidthChar as _;

/// Redraws per second, at most.
const DRAWS_PER_SEC: u8 = 10;

/// Where a terminal does not tell its size.
const USUAL_COLUMNS: usize = 80;
const USUAL_ROWS: usize = 24;

/// Nothing can be laid out in fewer columns.
const FEWEST_COLUMNS: usize = 8;

/// Columns that a line leaves free: the terminal shows `^C` behind the last line, which must not wrap.
const MARGIN: usize = 3;

/// A place for bars on standard error.
pub(super) fn draw_target() -> ProgressDrawTarget {
    ProgressDrawTarget::term_like_with_hz(Box::new(Screen::default()), DRAWS_PER_SEC)
}

/// Whether standard error is a terminal on which lines can be erased.
pub(super) fn can_draw() -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    io::stderr().is_terminal() && !is_dumb
}

/// How wide a drawn line may be now.
pub(super) fn columns() -> usize {
    size().0.saturating_sub(MARGIN).max(FEWEST_COLUMNS)
}

/// How many lines can be drawn now.
pub(super) fn rows() -> usize {
    size().1
}

/// Columns and rows.
fn size() -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(io::stderr()).ok();
    let known = |count: u16, usual| if count == 0 { usual } else { usize::from(count) };
    size.map_or((USUAL_COLUMNS, USUAL_ROWS), |size| {
        (known(size.ws_col, USUAL_COLUMNS), known(size.ws_row, USUAL_ROWS))
    })
}

/// How many columns a text takes.
pub(super) fn width(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// The beginning of a text, if need be with an ellipsis for the rest.
pub(super) fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let Some(mut left) = columns.checked_sub(1) else { return String::new() };
    let fits = |c: &char| {
        let is_room = c.width().unwrap_or(0) <= left;
        left = left.saturating_sub(c.width().unwrap_or(0));
        is_room
    };
    let mut cut: String = text.chars().take_while(fits).collect();
    cut.push('…');
    cut
}

/// The end of a text, if need be with an ellipsis for the rest: numbers that count up stand at the end of a name.
pub(super) fn cut_front(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let reversed: String = text.chars().rev().collect();
    cut(&reversed, columns).chars().rev().collect()
}

/// Implements what `indicatif` draws on.
#[derive(Debug, Default)]
struct Screen(Mutex<Drawn>);

/// What is on the terminal, and what will be written to it next.
#[derive(Debug, Default)]
struct Drawn {
    /// The width of each line on the terminal. The cursor is at the end of the last one.
    lines: Vec<usize>,
    /// Written in one piece, so that nobody sees half a drawing.
    pending: String,
}

impl Drawn {
    /// Erases all lines in a terminal that is so wide now, and has wrapped what is wider.
    fn erase(&mut self, columns: usize) {
        let rows: usize = self.lines.iter().map(|width| width.div_ceil(columns.max(1)).max(1)).sum();
        for row in 0..rows {
            // Line by line: what is cleared down to the end of the screen is kept by tmux as history.
            self.pending.push_str(if row == 0 { "\r\x1b[2K" } else { "\x1b[1A\x1b[2K" });
        }
        self.lines.clear();
    }

    fn draw(&mut self, text: &str, columns: usize) {
        if !self.lines.is_empty() {
            self.pending.push('\n');
        }
        let text = cut(text, columns);
        self.lines.push(width(&text));
        self.pending.push_str(&text);
    }
}

impl Screen {
    fn drawn(&self) -> MutexGuard<'_, Drawn> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TermLike for Screen {
    fn width(&self) -> u16 {
        u16::try_from(size().0.max(FEWEST_COLUMNS)).unwrap_or(u16::MAX)
    }

    fn height(&self) -> u16 {
        u16::try_from(size().1).unwrap_or(u16::MAX)
    }

    // The cursor is moved only to clear lines, and one call clears them all.
    fn move_cursor_up(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_down(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_right(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_left(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.write_str(text)
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        // Spaces alone would fill a line up to the right edge.
        if !text.trim().is_empty() {
            self.drawn().draw(text, columns());
        }
        Ok(())
    }

    fn clear_line(&self) -> io::Result<()> {
        self.drawn().erase(size().0);
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        let pending = std::mem::take(&mut self.drawn().pending);
        let mut stderr = io::stderr().lock();
        stderr.write_all(pending.as_bytes())?;
        stderr.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_by_columns_and_never_in_the_middle_of_a_wide_character() {
        assert_eq!(cut("frame-0001.gwf", 14), "frame-0001.gwf");
        assert_eq!(cut("frame-0001.gwf", 8), "frame-0…");
        assert_eq!(cut_front("frame-0001.gwf", 8), "…001.gwf");
        assert_eq!(cut("漢字漢字", 8), "漢字漢字");
        for columns in 0..8 {
            for text in [cut("漢字漢字", columns), cut_front("漢字漢字", columns)] {
                assert!(width(&text) <= columns && text.contains('…') == (columns > 0), "{columns}: {text}");
            }
        }
    }

    #[test]
    fn as_many_rows_are_erased_as_the_lines_take_in_a_window_that_became_narrower() {
        let mut drawn = Drawn::default();
        drawn.erase(80);
        assert_eq!(drawn.pending, "", "nothing was drawn");
        drawn.draw(&"x".repeat(70), 77);
        drawn.draw("", 77);
        drawn.draw(&"y".repeat(200), 77);
        assert_eq!(drawn.lines, [70, 0, 77]);
        drawn.pending.clear();
        drawn.erase(40);
        assert_eq!(drawn.pending, format!("\r\x1b[2K{}", "\x1b[1A\x1b[2K".repeat(4)));
        drawn.pending.clear();
        drawn.erase(40);
        assert_eq!(drawn.pending, "", "erased already");
    }
}
