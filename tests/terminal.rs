//! What commands show on a terminal of a certain width, and what is left of it: a real pseudo-terminal (`script`), and a
//! small emulation of what a terminal does with the bytes.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]
#![allow(clippy::disallowed_methods, reason = "these tests are about real time")]

#[path = "common/desk.rs"]
mod desk;
#[path = "common/web.rs"]
mod web;

use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use desk::{Desk, noise};
use web::{Kind, Web};

const PATIENCE: Duration = Duration::from_secs(60);
const MIB: usize = 1 << 20;

/// A command on a terminal.
struct Terminal {
    child: Child,
    bytes: Receiver<Vec<u8>>,
    screen: Screen,
}

/// What is on a terminal that never scrolls.
#[derive(Default)]
struct Screen {
    columns: usize,
    rows: Vec<Vec<char>>,
    at: (usize, usize),
    /// Everything that came, as it came.
    all: String,
    pending: Vec<u8>,
}

impl Terminal {
    /// Starts `stroll` with these words.
    fn start(desk: &Desk, columns: usize, words: &str) -> Self {
        let shell = format!("stty cols {columns} rows 24; exec {} {words}", env!("CARGO_BIN_EXE_stroll"));
        let mut command = Command::new("script");
        command.args(["-qfc", &shell, "/dev/null"]).current_dir(desk.path(""));
        command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", desk.home()).env("TERM", "xterm");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (tell, bytes) = channel();
        let mut stdout = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            let mut chunk = vec![0; 4096];
            while let Ok(length @ 1..) = stdout.read(&mut chunk) {
                if tell.send(chunk[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child, bytes, screen: Screen { columns, ..Screen::default() } }
    }

    /// Waits until the screen shows something.
    #[track_caller]
    fn wait_until(&mut self, what: &str, is_so: impl Fn(&Screen) -> bool) {
        let begun = Instant::now();
        while !is_so(&self.screen) {
            assert!(begun.elapsed() < PATIENCE, "{what}: {:?}", self.screen.lines());
            if let Ok(bytes) = self.bytes.recv_timeout(Duration::from_millis(100)) {
                self.screen.take(&bytes);
            }
        }
    }

    /// Types Ctrl-C and gives what is on the screen when the command has ended.
    fn interrupt(mut self) -> Screen {
        self.child.stdin.as_mut().unwrap().write_all(b"\x03").unwrap();
        self.end()
    }

    fn end(mut self) -> Screen {
        while let Ok(bytes) = self.bytes.recv_timeout(PATIENCE) {
            self.screen.take(&bytes);
        }
        self.child.wait().unwrap();
        std::mem::take(&mut self.screen)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Screen {
    /// Lines that are not empty.
    fn lines(&self) -> Vec<String> {
        let lines = self.rows.iter().map(|row| row.iter().collect::<String>().trim_end().to_owned());
        lines.filter(|line| !line.is_empty()).collect()
    }

    fn shows(&self, text: &str) -> bool {
        self.lines().concat().contains(text)
    }

    fn take(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
        // A character, or an escape sequence, may have come in part.
        let end = match std::str::from_utf8(&self.pending) {
            Ok(_) => self.pending.len(),
            Err(error) => error.valid_up_to(),
        };
        let mut text = String::from_utf8_lossy(&self.pending[..end]).into_owned();
        let mut kept = self.pending.split_off(end);
        if let Some(escape) = text.rfind('\x1b')
            && !text[escape..].contains(|c: char| c.is_ascii_alphabetic())
        {
            let mut begun = text.split_off(escape).into_bytes();
            begun.append(&mut kept);
            kept = begun;
        }
        self.pending = kept;
        self.all.push_str(&text);
        self.show(&text);
    }

    fn show(&mut self, text: &str) {
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            match c {
                '\r' => self.at.1 = 0,
                '\n' => self.at.0 += 1,
                '\x1b' => {
                    let sequence: String = chars.by_ref().take_while(|c| !c.is_ascii_alphabetic()).collect();
                    // The letter at its end is gone: only two sequences are told apart, by their number.
                    match sequence.as_str() {
                        "[2" => self.row().clear(),
                        "[1" => self.at.0 = self.at.0.saturating_sub(1),
                        _ => {}
                    }
                }
                c => self.put(c),
            }
        }
    }

    fn put(&mut self, c: char) {
        let width = if ('\u{1100}'..='\u{ffdc}').contains(&c) && c != '…' { 2 } else { 1 };
        if self.at.1 + width > self.columns {
            self.at = (self.at.0 + 1, 0);
        }
        let column = self.at.1;
        let row = self.row();
        row.resize(row.len().max(column), ' ');
        row.truncate(column);
        row.push(c);
        // The second half of a wide character.
        row.extend(std::iter::repeat_n('\u{200b}', width - 1));
        self.at.1 += width;
    }

    fn row(&mut self) -> &mut Vec<char> {
        let row = self.at.0;
        self.rows.resize(self.rows.len().max(row + 1), Vec::new());
        &mut self.rows[row]
    }
}

#[test]
fn bars_fit_the_terminal_and_nothing_is_left_of_them_after_ctrl_c() {
    let (web, desk) = (Web::start(Kind::Nginx), Desk::new());
    let names = [
        "V-V1_HrecOnline-1263081616-2000-calibrated-and-reviewed.gwf",
        "漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字.dat",
    ];
    let urls = names.map(|name| {
        web.put(name, &noise(1, 4 * MIB), 1_000);
        web.http("").to_string() + name
    });
    for columns in [100, 80, 60, 40, 20] {
        let words = format!("get {} -o {columns}/ --bwlimit 200k --connections 2", urls.join(" "));
        let mut terminal = Terminal::start(&desk, columns, &words);
        let is_drawn = |screen: &Screen| {
            let lines = screen.lines();
            lines.len() == 3 && lines[..2].iter().all(|line| line.contains(" %")) && lines[2].starts_with('0')
        };
        terminal.wait_until("two bars and a total, each on one line", is_drawn);
        let lines = terminal.screen.lines();
        assert!(lines[0].contains("ewed.gwf") && lines[1].contains(".dat"), "{columns}: {lines:?}");
        assert!(lines[2].starts_with("0 of 2 files"), "{columns}: {lines:?}");
        let screen = terminal.interrupt();
        assert!(screen.shows("0 files pulled") && screen.shows("interrupted; "), "{:?}", screen.lines());
        assert!(
            !screen.shows(" %") && !screen.shows("0 of 2") && !screen.shows("^C"),
            "{:?}",
            screen.lines()
        );
    }
}

#[test]
fn a_subscription_does_not_count_its_looks_as_folders() {
    let (web, desk) = (Web::start(Kind::Nginx), Desk::new());
    web.put("s/f-1", b"frame", 1_000);
    let url = web.http("s/").to_string();
    let words = format!("subscribe {url} in/ --since all --settle 0s --poll 200ms");
    let mut terminal = Terminal::start(&desk, 80, &words);
    terminal.wait_until("the file", |screen| screen.shows("1 file, no lag"));
    let looks = || web.requests().iter().filter(|line| line.starts_with("GET /s/ ")).count();
    let begun = Instant::now();
    while looks() < 4 {
        assert!(begun.elapsed() < PATIENCE, "{:?}", web.requests());
        std::thread::sleep(Duration::from_millis(50));
    }
    let screen = terminal.interrupt();
    assert!(!screen.all.contains("folder"), "{}", screen.all);
}

/// A bar erased the last lines of a file that was written to the same terminal.
#[test]
fn data_on_the_terminal_is_not_erased_by_a_bar() {
    let (web, desk) = (Web::start(Kind::Nginx), Desk::new());
    web.put("f", b"one\ntwo\nthree\n", 1_000);
    let url = web.http("f").to_string();
    let screen = Terminal::start(&desk, 80, &format!("get {url} -o - --bwlimit 10")).end();
    assert_eq!(screen.lines()[..3], ["one", "two", "three"]);
    assert!(!screen.all.contains("left") && screen.shows("1 file pulled"), "{}", screen.all);
    let words = format!("subscribe {} in/ --since all --settle 0s --json --for 2s", web.http(""));
    let screen = Terminal::start(&desk, 80, &words).end();
    assert!(screen.shows("\"path\"") && !screen.all.contains("\x1b[2K"), "{}", screen.all);
}

#[test]
fn no_color_is_heeded() {
    let (web, desk) = (Web::start(Kind::Nginx), Desk::new());
    web.put("f", b"some bytes", 1_000);
    let url = web.http("f").to_string();
    let said = |words: &str| Terminal::start(&desk, 80, words).end().all;
    let (log, wrong) = (format!("get {url} -v --progress none --no-resume"), "get --nonsense");
    for words in [&log, wrong] {
        assert!(said(words).contains("\x1b["), "{words}: colours on a terminal");
    }
    // The words stand behind the program's name: `env` comes between.
    for words in [&log, wrong] {
        let shell = format!("NO_COLOR=1 exec {} {words}", env!("CARGO_BIN_EXE_stroll"));
        let mut command = Command::new("script");
        command.args(["-qfc", &shell, "/dev/null"]).current_dir(desk.path("")).env("HOME", desk.home());
        let output = command.env("TERM", "xterm").stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!said.contains("\x1b[") && !said.is_empty(), "{words}: {said:?}");
    }
}
