//! Lines of progress, laid out in the columns that there are. What matters least is left out first.

use std::time::Duration;

use stroll::base::units::human_size;

use crate::cli::terminal::{cut, cut_front, width};

/// More columns of a name are not shown, however wide the terminal is.
const WIDEST_NAME: usize = 40;
const WIDEST_BAR: usize = 30;
const NARROWEST_BAR: usize = 10;

/// How far one file is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Amount {
    /// Bytes that are here.
    pub(super) have: u64,
    /// Of so many, if that is known.
    pub(super) size: Option<u64>,
    pub(super) rate_bytes_per_sec: u64,
    /// Until the end, if that can be estimated.
    pub(super) left: Option<Duration>,
}

/// A column, to the right of the name.
#[derive(Clone, Copy, Debug)]
enum Column {
    Bar,
    Percent,
    Bytes,
    Rate,
    Left,
}

/// A line about one file.
pub(super) fn file(name: &str, amount: &Amount, columns: usize) -> String {
    use Column::{Bar, Bytes, Left, Percent, Rate};
    // Each with the fewest columns that its name needs.
    let known: [(usize, &[Column]); 5] = [
        (20, &[Bar, Percent, Bytes, Rate, Left]),
        (20, &[Percent, Bytes, Rate, Left]),
        (16, &[Percent, Rate, Left]),
        (12, &[Percent, Left]),
        (0, &[Percent]),
    ];
    let unknown: [(usize, &[Column]); 2] = [(16, &[Bytes, Rate]), (0, &[Bytes])];
    let choices = if amount.size.is_some() { &known[..] } else { &unknown[..] };
    let taken = |shown: &[Column]| shown.iter().map(|column| column.width() + 2).sum::<usize>();
    let fits = |(least, shown): &&(usize, &[Column])| least + taken(shown) <= columns;
    let shown = choices.iter().find(fits).or(choices.last()).map_or(&[][..], |(_, shown)| *shown);
    let room = columns.saturating_sub(taken(shown));
    let has_bar = matches!(shown.first(), Some(Bar));
    // A bar shares what is left with the name.
    let name_room = if has_bar { room.min(24).max(room / 2) } else { room }.min(WIDEST_NAME);
    let bar = (NARROWEST_BAR + room - name_room).min(WIDEST_BAR);
    let name = cut_front(name, name_room);
    let mut line = format!("{name}{}", " ".repeat(name_room - width(&name)));
    for column in shown {
        line.push_str("  ");
        line.push_str(&column.text(amount, bar));
    }
    cut(&line, columns)
}

impl Column {
    /// At least, and for all but the bar at most.
    fn width(self) -> usize {
        match self {
            Self::Bar => NARROWEST_BAR,
            Self::Percent => "100 %".len(),
            Self::Bytes => "1023 MiB".len(),
            Self::Rate => "1023 MiB/s".len(),
            Self::Left => "59:59 left".len(),
        }
    }

    fn text(self, amount: &Amount, bar: usize) -> String {
        let (width, share) = (self.width(), amount.share());
        match self {
            Self::Bar => drawn_bar(share, bar),
            Self::Percent => format!("{:>3} %", (share * 100.0).floor()),
            Self::Bytes => format!("{:>width$}", human_size(amount.have)),
            Self::Rate => format!("{:>width$}", rate(amount.rate_bytes_per_sec)),
            Self::Left => format!("{:>width$}", format!("{} left", amount.left.map_or("-:--".into(), clock))),
        }
    }
}

fn drawn_bar(share: f64, columns: usize) -> String {
    let inner = columns.saturating_sub(2);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a few columns")]
    let filled = ((share * inner as f64) as usize).min(inner);
    let head = if filled > 0 && filled < inner { ">" } else { "" };
    let body = "=".repeat(filled - head.len());
    format!("[{body}{head}{}]", " ".repeat(inner - filled))
}

/// A line about work of which the share that is done is known.
pub(in crate::cli) fn share(what: &str, share: f32, left: Duration, columns: usize) -> String {
    let share = f64::from(share);
    let percent = format!("{:>3} %", (share * 100.0).floor());
    let left = format!("{} left", clock(left));
    let room = columns.saturating_sub(width(what) + width(&percent) + width(&left) + 3);
    let choices = [
        format!("{what} {} {percent} {left}", drawn_bar(share, room.min(WIDEST_BAR))),
        format!("{what} {percent} {left}"),
        format!("{percent} {left}"),
        percent,
    ];
    let least = usize::from(room < NARROWEST_BAR);
    let line = choices.iter().skip(least).find(|line| width(line) <= columns);
    line.or(choices.last()).cloned().unwrap_or_default()
}

impl Amount {
    fn share(&self) -> f64 {
        match self.size {
            None | Some(0) => 1.0,
            Some(size) => (self.have as f64 / size as f64).min(1.0),
        }
    }
}

/// What there is to say about all files together.
#[derive(Clone, Debug, Default)]
pub(super) struct Headline {
    /// How many files.
    pub(super) count: String,
    /// What a job wants to have said all the time, such as its lag.
    pub(super) note: String,
    /// What is going on besides bytes, such as waiting for the token.
    pub(super) doing: String,
}

impl Headline {
    /// All of it.
    pub(super) fn text(&self) -> String {
        joined(&[&self.count, &self.note, &self.doing])
    }

    /// As much as there is room for, beside bytes, rate and time.
    pub(super) fn line(
        &self,
        bytes: u64,
        rate_bytes_per_sec: u64,
        elapsed: Duration,
        columns: usize,
    ) -> String {
        let (sum, rate, time) = (human_size(bytes), rate(rate_bytes_per_sec), clock(elapsed));
        // A rate of nothing says nothing.
        let (sum, pace) = if bytes == 0 { <_>::default() } else { (sum.clone(), format!("{sum} at {rate}")) };
        let Self { count, note, doing } = self;
        let choices = [
            joined(&[count, note, doing, &pace, &time]),
            joined(&[count, note, doing, &pace]),
            joined(&[count, note, doing, &sum]),
            joined(&[count, note, doing]),
            joined(&[count, doing]),
            joined(&[if doing.is_empty() { count } else { doing }]),
        ];
        let fits = |line: &&String| width(line) <= columns;
        let line = choices.iter().find(fits).or(choices.last());
        cut(line.map_or("", String::as_str), columns)
    }
}

fn joined(parts: &[&str]) -> String {
    let parts: Vec<&str> = parts.iter().copied().filter(|part| !part.is_empty()).collect();
    parts.join(", ")
}

fn rate(bytes_per_sec: u64) -> String {
    format!("{}/s", human_size(bytes_per_sec))
}

/// A time as a clock shows it: `0:07`, `12:34`, `3h12m`, `2d04h`. Never wider than five columns up to 99 days.
pub(super) fn clock(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..3_600 => format!("{}:{:02}", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{:02}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 3] = [
        "f",
        "V-V1_HrecOnline-1263081616-2000-calibrated-and-reviewed.gwf",
        "漢字ファイル名前漢字ファイル名前.dat",
    ];

    fn amount(have: u64, size: Option<u64>) -> Amount {
        Amount { have, size, rate_bytes_per_sec: 1_023 << 20, left: Some(Duration::from_secs(3_599)) }
    }

    #[test]
    fn a_line_about_a_file_fits_however_narrow_the_terminal_is() {
        for columns in 8..200 {
            for name in NAMES {
                for size in [None, Some(0), Some(1_023 << 20), Some(1 << 40)] {
                    let line = file(name, &amount(1_023 << 20, size), columns);
                    assert!(width(&line) <= columns, "{columns}: {line}");
                }
            }
        }
    }

    #[test]
    fn the_less_room_there_is_the_less_is_said() {
        let amount = Amount {
            have: 412 << 20,
            size: Some(1 << 30),
            rate_bytes_per_sec: 25 << 20,
            left: Some(Duration::from_secs(26)),
        };
        let at = |columns| file("frame-0001.gwf", &amount, columns).trim_end().to_owned();
        let wide = "frame-0001.gwf            [==>     ]   40 %   412 MiB  25.0 MiB/s   0:26 left";
        assert_eq!(at(77), wide);
        assert!(
            at(57).contains("40 %") && at(57).contains("25.0 MiB/s") && !at(57).contains('['),
            "{}",
            at(57)
        );
        assert!(at(37).contains("40 %") && at(37).ends_with("0:26 left"), "{}", at(37));
        assert!(at(17).starts_with("…") && at(17).ends_with("40 %"), "{}", at(17));
    }

    #[test]
    fn a_bar_is_empty_at_the_beginning_and_full_only_at_the_end() {
        let bar = |have| {
            let line = file("f", &amount(have, Some(1_000)), 120);
            line.split('[').nth(1).and_then(|rest| rest.split(']').next()).map(str::to_owned).unwrap()
        };
        assert!(bar(0).chars().all(|c| c == ' '));
        assert!(bar(999).ends_with("> "), "{}", bar(999));
        assert!(bar(1_000).chars().all(|c| c == '='));
        assert!(file("f", &amount(999, Some(1_000)), 120).contains(" 99 %"));
    }

    #[test]
    fn the_headline_keeps_what_is_going_on_longest() {
        let headline = Headline {
            count: "3 files".into(),
            note: "lag 12 s, 3 files, 4.20 MiB behind".into(),
            doing: "waits for the token, about 12 s".into(),
        };
        for columns in 8..200 {
            let line = headline.line(432_013_312, 9_600_000, Duration::from_secs(44), columns);
            assert!(width(&line) <= columns, "{columns}: {line}");
        }
        let at = |columns| headline.line(432_013_312, 9_600_000, Duration::from_secs(44), columns);
        assert!(at(120).ends_with("412 MiB at 9.16 MiB/s, 0:44"), "{}", at(120));
        assert_eq!(at(77), "3 files, lag 12 s, 3 files, 4.20 MiB behind, waits for the token, about 12 s");
        assert_eq!(at(57), "3 files, waits for the token, about 12 s");
        assert_eq!(at(37), "waits for the token, about 12 s");
        assert_eq!(at(17), "waits for the to…");
    }

    #[test]
    fn a_line_about_a_share_fits_and_drops_its_bar_first() {
        let at = |columns| share("simulating", 0.5, Duration::from_secs(65), columns);
        for columns in 8..200 {
            assert!(width(&at(columns)) <= columns, "{}", at(columns));
        }
        assert!(at(77).starts_with("simulating [=") && at(77).ends_with(" 50 % 1:05 left"), "{}", at(77));
        assert_eq!(at(34), "simulating  50 % 1:05 left");
        assert_eq!(at(17), " 50 % 1:05 left");
    }

    #[test]
    fn clocks_are_narrow() {
        let of = |seconds| clock(Duration::from_secs(seconds));
        assert_eq!((of(7), of(754)), ("0:07".to_owned(), "12:34".to_owned()));
        assert_eq!((of(11_520), of(187_200)), ("3h12m".to_owned(), "2d04h".to_owned()));
    }
}
