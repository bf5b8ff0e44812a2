//! What the demo shows while it runs: a line for every member, with the token or the tickets where they are; a line a second where there is
//! no terminal.

use std::fmt::Write as _;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;
use stroll::base::Ticket;
use stroll::base::units::{human_duration, human_size};
use tokio::time::Instant;

use crate::cli::progress::Show;
use crate::cli::terminal::{self, width};

const LINE_EVERY: Duration = Duration::from_secs(1);

/// One member at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    pub(super) name: String,
    /// What it does, in one word.
    pub(super) state: String,
    pub(super) has_token: bool,
    pub(super) ticket: Option<Ticket>,
    pub(super) bytes: u64,
    /// Frames of the stream that are here.
    pub(super) frames: u64,
    pub(super) lag: Duration,
}

/// Everything at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Picture {
    pub(super) left: Duration,
    pub(super) has_tickets: bool,
    pub(super) page: Option<String>,
    pub(super) produced: u64,
    /// Transfers under way at the circle's source, and at that of the others.
    pub(super) transfers: (usize, Option<usize>),
    pub(super) rows: Vec<Row>,
}

/// Shows it.
pub(super) struct Screen {
    show: Show,
    all: MultiProgress,
    head: ProgressBar,
    rows: Vec<ProgressBar>,
    next_line: Instant,
}

impl Screen {
    pub(super) fn new(show: Show) -> Self {
        let target = match show {
            Show::Bar => terminal::draw_target(),
            Show::Line | Show::Json | Show::Nothing => ProgressDrawTarget::hidden(),
        };
        let all = MultiProgress::with_draw_target(target);
        let head = all.add(ProgressBar::no_length());
        head.set_style(style("{msg}"));
        Self { show, all, head, rows: Vec::new(), next_line: Instant::now() }
    }

    /// Says something that people should know.
    pub(super) fn say(&self, line: &str) {
        match self.show {
            Show::Bar => self.all.suspend(|| eprintln!("{line}")),
            Show::Line => eprintln!("{line}"),
            Show::Json => eprintln!("{}", json!({ "event": "said", "text": line })),
            Show::Nothing => {}
        }
    }

    /// Says what is going on, until there is something to show.
    pub(super) fn doing(&self, what: &str) {
        match self.show {
            Show::Bar => self.head.set_message(what.to_owned()),
            Show::Line | Show::Json | Show::Nothing => self.say(what),
        }
    }

    /// Shows how everything is.
    pub(super) fn draw(&mut self, picture: &Picture, now: Instant) {
        if self.show == Show::Bar {
            self.draw_bars(picture);
        } else if now >= self.next_line {
            self.next_line = now + LINE_EVERY;
            match self.show {
                Show::Json => eprintln!("{}", picture.to_json()),
                _ => self.say(&picture.line()),
            }
        }
    }

    fn draw_bars(&mut self, picture: &Picture) {
        let columns = terminal::columns();
        self.head.set_message(picture.headline(columns));
        while self.rows.len() < picture.rows.len() {
            let bar = self.all.add(ProgressBar::new(0));
            self.rows.push(bar);
        }
        for (bar, row) in self.rows.iter().zip(&picture.rows) {
            bar.set_style(style(row_template(columns)));
            bar.set_length(picture.produced);
            bar.set_position(row.frames);
            bar.set_prefix(row.prefix());
            bar.set_message(row.message());
        }
    }

    /// Takes the bars away.
    pub(super) fn clear(&self) {
        self.rows.iter().chain([&self.head]).for_each(ProgressBar::finish_and_clear);
    }
}

impl Picture {
    /// The first line. The page's address was said before, so it is the first to go where there is little room.
    fn headline(&self, columns: usize) -> String {
        let mut line = format!(
            "{} to go, frame {}; the source sends to {}",
            human_duration(self.left),
            self.produced,
            self.transfers.0
        );
        if let Some(others) = self.transfers.1 {
            // Writing to a string does not fail.
            let _ = write!(line, ", uncoordinated to {others}");
        }
        let page = self.page.as_ref().map(|page| format!("; status page at {page}")).unwrap_or_default();
        if width(&line) + width(&page) <= columns {
            line.push_str(&page);
        }
        line
    }

    fn line(&self) -> String {
        let frames: Vec<_> = self.rows.iter().map(|row| row.frames.to_string()).collect();
        format!(
            "{} to go, {}, frames: {} of {}",
            human_duration(self.left),
            self.holders(),
            frames.join(" "),
            self.produced
        )
    }

    fn holders(&self) -> String {
        if self.has_tickets {
            let holders = self.rows.iter().filter_map(|row| Some(format!("{} {}", row.ticket?, row.name)));
            let holders: Vec<String> = holders.collect();
            return format!(
                "tickets: {}",
                if holders.is_empty() { "–".to_owned() } else { holders.join(" ") }
            );
        }
        let holder = self.rows.iter().find(|row| row.has_token);
        format!("token: {}", holder.map_or("on its way", |row| &row.name))
    }

    fn to_json(&self) -> serde_json::Value {
        let rows = self.rows.iter().map(|row| {
            json!({
                "name": row.name, "state": row.state, "token": row.has_token, "ticket": row.ticket, "bytes": row.bytes,
                "frames": row.frames, "lag_s": row.lag.as_secs_f64(),
            })
        });
        json!({
            "event": "running", "left_s": self.left.as_secs_f64(), "frames": self.produced,
            "transfers": self.transfers.0, "uncoordinated_transfers": self.transfers.1,
            "members": rows.collect::<Vec<_>>(),
        })
    }
}

impl Row {
    fn prefix(&self) -> String {
        let right = if self.has_token || self.ticket.is_some() { '●' } else { ' ' };
        format!("{right} {:7} {:11}", self.name, self.state)
    }

    fn message(&self) -> String {
        format!("{:>9}, {} frames, lag {}", human_size(self.bytes), self.frames, human_duration(self.lag))
    }
}

/// A row in so many columns: texts take 54, a bar what is left.
fn row_template(columns: usize) -> &'static str {
    match columns {
        73.. => "{prefix} [{bar:16}] {msg}",
        65.. => "{prefix} [{bar:8}] {msg}",
        _ => "{prefix} {msg}",
    }
}

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template);
    style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("━╸ ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_shown_where_it_is() {
        let row = |name: &str, has_token| Row { name: name.to_owned(), has_token, ..Row::default() };
        let mut picture =
            Picture { rows: vec![row("lab-1", false), row("lab-2", true)], ..Picture::default() };
        assert!(picture.line().contains("token: lab-2"));
        assert!(picture.rows[1].prefix().starts_with("● lab-2"));
        assert!(!picture.rows[0].prefix().contains('●'));
        picture.rows[1].has_token = false;
        assert!(picture.line().contains("token: on its way"));
    }

    #[test]
    fn tickets_are_shown_where_they_are() {
        let row = |name: &str, ticket| Row { name: name.to_owned(), ticket, ..Row::default() };
        let rows = vec![row("lab-1", Some(2)), row("lab-2", None), row("lab-3", Some(0))];
        let picture = Picture { rows, has_tickets: true, ..Picture::default() };
        assert!(picture.line().contains("tickets: 2 lab-1 0 lab-3,"), "{}", picture.line());
        assert!(picture.rows[0].prefix().starts_with("● lab-1") && !picture.rows[1].prefix().contains('●'));
    }

    #[test]
    fn the_headline_has_the_page_and_the_others() {
        let picture = Picture {
            page: Some("http://127.0.0.1:1/".to_owned()),
            transfers: (1, Some(4)),
            ..Picture::default()
        };
        let line = picture.headline(120);
        assert!(line.contains("sends to 1, uncoordinated to 4"), "{line}");
        assert!(line.contains("http://127.0.0.1:1/"), "{line}");
        let line = picture.headline(77);
        assert!(line.contains("uncoordinated to 4") && !line.contains("http"), "no room for it: {line}");
    }

    #[test]
    fn a_row_fits_the_terminal_by_a_shorter_bar() {
        let state = "backing-off".into();
        let row = Row { name: "lab-1".into(), state, bytes: 1_023 << 20, frames: 100, ..Row::default() };
        let texts = width(&row.prefix()) + width(&row.message()) + 1;
        for (columns, bar) in [(77, 16), (65, 8), (64, 0)] {
            let has_bar = row_template(columns).contains(&format!("{{bar:{bar}}}"));
            assert_eq!(has_bar, bar > 0, "{columns}");
            let taken = if bar > 0 { texts + bar + 3 } else { texts };
            assert!(taken <= columns, "{columns}: {taken}");
        }
    }
}
