//! Patterns for paths, in rclone's grammar.
//!
//! ```text
//!   *        anything but a slash        [a-z] [!a-z] [^a-z]   one of these, none of these
//!   **       anything                    {a,b}                 one or the other
//!   ?        one character but a slash   \x                    x itself
//!   /x       x at the root only          x/                    the folder x and all below it
//! ```
//!
//! A pattern becomes a little machine of states, all of which are followed at once: the time is at most the length of the path
//! times that of the pattern, whatever both say. Only [`Filter`](super::Filter) uses it.

use std::fmt;

/// The longest pattern.
const LONGEST: usize = 4_096;

/// The most states: alternatives are not copied, so this is about the length of the pattern.
const MOST_STATES: usize = 8_192;

/// What is wrong with a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GlobError {
    /// Nothing that could match.
    #[error("nothing")]
    Empty,
    /// Longer than anybody's.
    #[error("longer than {LONGEST} bytes")]
    TooLong,
    /// `[` without its end.
    #[error("a [ without its ]")]
    OpenClass,
    /// `[z-a]`.
    #[error("a range whose end comes before its begin")]
    Backwards,
    /// `{` without its end.
    #[error("a {{ without its }}")]
    OpenBrace,
    /// `}` without its begin.
    #[error("a }} without its {{")]
    CloseBrace,
    /// rclone's regular expressions in `{{…}}`.
    #[error("regular expressions in {{{{…}}}} are not understood here")]
    Expression,
    /// More stars than any path has names.
    #[error("*** is neither * nor **")]
    Stars,
    /// `\` at the end.
    #[error("a \\ with nothing after it")]
    OpenEscape,
}

/// One pattern.
#[derive(Clone)]
pub struct Glob {
    states: Vec<State>,
    /// A slash at the end: it means folders, and so all that is below them.
    is_folder: bool,
    /// A slash at the begin: it does not begin further down.
    is_anchored: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// This character.
    Char(char),
    /// One character but a slash.
    Any,
    /// One of these, or none of these; never a slash.
    Class(Class),
    /// Any number of characters, slashes too if `across`.
    Star { across: bool },
    /// To all of these without a character.
    Fork(Vec<usize>),
    /// To there without a character.
    Goto(usize),
    /// The end.
    Match,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Class {
    negated: bool,
    ranges: Vec<(char, char)>,
}

impl Class {
    fn has(&self, c: char) -> bool {
        self.ranges.iter().any(|(from, to)| (*from..=*to).contains(&c)) != self.negated
    }
}

impl Glob {
    /// Reads a pattern.
    pub fn parse(pattern: &str) -> Result<Self, GlobError> {
        if pattern.len() > LONGEST {
            return Err(GlobError::TooLong);
        }
        let is_anchored = pattern.starts_with('/');
        let rest = pattern.strip_prefix('/').unwrap_or(pattern);
        let (rest, is_folder) = match rest.strip_suffix('/') {
            Some(folder) => (folder, true),
            None => (rest, false),
        };
        let (rest, is_folder) = match rest {
            "" if !is_anchored && !is_folder => return Err(GlobError::Empty),
            // A lone slash is the root: everything.
            "" => ("**", false),
            rest => (rest, is_folder),
        };
        let mut builder = Builder { states: Vec::new(), chars: rest.chars().peekable() };
        builder.sequence(0)?;
        builder.states.push(State::Match);
        if builder.states.len() > MOST_STATES {
            return Err(GlobError::TooLong);
        }
        Ok(Self { states: builder.states, is_folder, is_anchored })
    }

    /// Whether the pattern means folders: it ends in a slash.
    pub fn is_folder(&self) -> bool {
        self.is_folder
    }

    /// Whether a file's path matches. A pattern for folders matches all that is below one.
    pub fn matches_file(&self, path: &str) -> bool {
        self.run(path, if self.is_folder { Stop::AtFolders } else { Stop::AtEnd })
    }

    /// Whether all that is below this folder matches: a pattern for folders that matches it or one above it, or one that
    /// ends in `/**`.
    pub fn matches_all_below(&self, folder: &str) -> bool {
        if self.is_folder {
            return self.run(folder, Stop::AtFolders) || self.run(folder, Stop::AtEnd);
        }
        // Every file has a last name.
        if matches!(self.states.as_slice(), [State::Star { .. }, State::Match]) && !self.is_anchored {
            return true;
        }
        // Once in the last `**`, always there.
        let ends_in_all = matches!(self.states.as_slice(), [.., State::Star { across: true }, State::Match]);
        ends_in_all && self.run(&format!("{folder}/"), Stop::AtEnd)
    }

    /// Whether some path below this folder may match.
    pub fn may_match_below(&self, folder: &str) -> bool {
        !self.is_anchored || self.run(&format!("{folder}/"), Stop::Alive) || self.matches_all_below(folder)
    }

    /// Follows all states at once over the path.
    fn run(&self, path: &str, stop: Stop) -> bool {
        let path = path.strip_prefix('/').unwrap_or(path);
        let mut now = Set::new(self.states.len());
        let mut next = Set::new(self.states.len());
        self.enter(&mut now, 0);
        let mut is_start = true;
        for c in path.chars() {
            if c == '/' && stop == Stop::AtFolders && self.is_matched(&now) {
                return true;
            }
            // Without an anchor a match may begin after any slash.
            if is_start && !self.is_anchored {
                self.enter(&mut now, 0);
            }
            is_start = c == '/';
            next.clear();
            for &state in &now.list {
                self.step(&mut next, state, c);
            }
            std::mem::swap(&mut now, &mut next);
            if now.list.is_empty() && self.is_anchored {
                return false;
            }
        }
        match stop {
            Stop::AtEnd => self.is_matched(&now),
            Stop::AtFolders => false,
            Stop::Alive => !now.list.is_empty(),
        }
    }

    fn is_matched(&self, now: &Set) -> bool {
        now.has[self.states.len() - 1]
    }

    fn step(&self, next: &mut Set, state: usize, c: char) {
        match &self.states[state] {
            State::Char(wanted) if *wanted == c => self.enter(next, state + 1),
            State::Any if c != '/' => self.enter(next, state + 1),
            State::Class(class) if c != '/' && class.has(c) => self.enter(next, state + 1),
            State::Star { across } if *across || c != '/' => self.enter(next, state),
            _ => {}
        }
    }

    /// Enters a state and all that it leads to without a character. Its own stack: alternatives may lie deep.
    fn enter(&self, set: &mut Set, state: usize) {
        set.stack.push(state);
        while let Some(state) = set.stack.pop() {
            if !set.insert(state) {
                continue;
            }
            match &self.states[state] {
                State::Fork(to) => set.stack.extend(to),
                State::Goto(to) => set.stack.push(*to),
                State::Star { .. } => set.stack.push(state + 1),
                State::Char(_) | State::Any | State::Class(_) | State::Match => {}
            }
        }
    }
}

/// When a run says yes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// If all of the path matches.
    AtEnd,
    /// If the path up to some slash matches.
    AtFolders,
    /// If more could still match.
    Alive,
}

/// Which states are entered.
struct Set {
    list: Vec<usize>,
    has: Vec<bool>,
    /// Those that are about to be.
    stack: Vec<usize>,
}

impl Set {
    fn new(len: usize) -> Self {
        Self { list: Vec::with_capacity(len), has: vec![false; len], stack: Vec::new() }
    }

    fn insert(&mut self, state: usize) -> bool {
        let is_new = !std::mem::replace(&mut self.has[state], true);
        if is_new {
            self.list.push(state);
        }
        is_new
    }

    fn clear(&mut self) {
        for state in self.list.drain(..) {
            self.has[state] = false;
        }
    }
}

struct Builder<'a> {
    states: Vec<State>,
    chars: std::iter::Peekable<std::str::Chars<'a>>,
}

/// Deeper alternatives than this are refused: reading them takes the stack.
const DEEPEST: usize = 32;

impl Builder<'_> {
    /// Until the end, or within braces until `,` or `}` (which is left there).
    fn sequence(&mut self, depth: usize) -> Result<(), GlobError> {
        while let Some(&c) = self.chars.peek() {
            if depth > 0 && matches!(c, ',' | '}') {
                return Ok(());
            }
            self.chars.next();
            match c {
                '*' => self.stars()?,
                '?' => self.states.push(State::Any),
                '[' => self.class()?,
                '{' => self.braces(depth + 1)?,
                '}' => return Err(GlobError::CloseBrace),
                '\\' => {
                    let escaped = self.chars.next().ok_or(GlobError::OpenEscape)?;
                    self.states.push(State::Char(escaped));
                }
                plain => self.states.push(State::Char(plain)),
            }
        }
        if depth > 0 { Err(GlobError::OpenBrace) } else { Ok(()) }
    }

    fn stars(&mut self) -> Result<(), GlobError> {
        let across = self.chars.next_if_eq(&'*').is_some();
        if across && self.chars.peek() == Some(&'*') {
            return Err(GlobError::Stars);
        }
        self.states.push(State::Star { across });
        Ok(())
    }

    fn class(&mut self) -> Result<(), GlobError> {
        let negated = self.chars.next_if(|c| matches!(c, '!' | '^')).is_some();
        let mut ranges = Vec::new();
        loop {
            let from = match self.chars.next().ok_or(GlobError::OpenClass)? {
                // Right after the bracket it stands for itself.
                ']' if !ranges.is_empty() => break,
                '\\' => self.chars.next().ok_or(GlobError::OpenEscape)?,
                plain => plain,
            };
            let to = self.range_end(from)?;
            if to < from {
                return Err(GlobError::Backwards);
            }
            ranges.push((from, to));
        }
        self.states.push(State::Class(Class { negated, ranges }));
        Ok(())
    }

    /// The end of `a-z`, or `from` itself; a dash at the end stands for itself.
    fn range_end(&mut self, from: char) -> Result<char, GlobError> {
        let mut ahead = self.chars.clone();
        let is_range = ahead.next() == Some('-') && ahead.next().is_some_and(|c| c != ']');
        if !is_range {
            return Ok(from);
        }
        self.chars.next();
        match self.chars.next().ok_or(GlobError::OpenClass)? {
            '\\' => self.chars.next().ok_or(GlobError::OpenEscape),
            plain => Ok(plain),
        }
    }

    fn braces(&mut self, depth: usize) -> Result<(), GlobError> {
        if self.chars.peek() == Some(&'{') {
            return Err(GlobError::Expression);
        }
        if depth > DEEPEST {
            return Err(GlobError::TooLong);
        }
        let fork = self.states.len();
        self.states.push(State::Fork(Vec::new()));
        let (mut branches, mut ends) = (Vec::new(), Vec::new());
        loop {
            branches.push(self.states.len());
            self.sequence(depth)?;
            ends.push(self.states.len());
            self.states.push(State::Goto(0));
            if self.chars.next() == Some('}') {
                break;
            }
        }
        let after = self.states.len();
        for end in ends {
            self.states[end] = State::Goto(after);
        }
        self.states[fork] = State::Fork(branches);
        Ok(())
    }
}

impl fmt::Debug for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Glob({} states)", self.states.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn glob(pattern: &str) -> Glob {
        Glob::parse(pattern).expect(pattern)
    }

    #[track_caller]
    fn check(pattern: &str, yes: &[&str], no: &[&str]) {
        for path in yes {
            assert!(glob(pattern).matches_file(path), "{pattern} should match {path}");
        }
        for path in no {
            assert!(!glob(pattern).matches_file(path), "{pattern} should not match {path}");
        }
    }

    #[test]
    fn the_examples_of_rclones_manual_hold() {
        check("file.jpg", &["file.jpg", "directory/file.jpg"], &["afile.jpg", "directory/afile.jpg"]);
        check("/file.jpg", &["file.jpg"], &["afile.jpg", "directory/file.jpg"]);
        check("*.jpg", &["file.jpg", "directory/file.jpg"], &["file.jpg/something"]);
        check("/*.jpg", &["file.jpg"], &["directory/file.jpg"]);
        check("dir*/**", &["dir/x", "dir1/y/z", "a/dir2/y"], &["dir", "xdir/y"]);
        check("/dir/**", &["dir/x", "dir/x/y"], &["a/dir/x"]);
        check("dir/", &["dir/x", "a/dir/x/y"], &["dir", "xdir/y"]);
        check("**.jpg", &["a.jpg", "a/b.jpg"], &["a.png"]);
        check("?ee", &["see", "a/fee"], &["ee", "/ee"]);
        check("*.{jpg,png}", &["a.jpg", "b/a.png"], &["a.gif", "a.jpgpng"]);
        check("[a-c]x", &["ax", "cx"], &["dx", "-x"]);
        check("[!a-c]x", &["dx"], &["ax", "/x"]);
        check("[^a-c]x", &["dx"], &["ax"]);
        check("[]a-]x", &["]x", "-x", "ax"], &["bx"]);
        check(r"\*x\[", &["*x["], &["axx[", "x["]);
        check("{a{b,c},d/**}e", &["abe", "ace", "d/x/e", "d/e"], &["ae", "abce"]);
        check("a/*/c", &["a/b/c", "z/a/b/c"], &["a/b/d/c", "a//x/c", "xa/b/c"]);
        check("/", &["a", "a/b"], &[]);
        check("ü*漢", &["üx漢"], &["u漢"]);
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for (pattern, why) in [
            ("", GlobError::Empty),
            ("[a", GlobError::OpenClass),
            ("[z-a]", GlobError::Backwards),
            ("{a", GlobError::OpenBrace),
            ("a}", GlobError::CloseBrace),
            ("{{a.*}}", GlobError::Expression),
            ("a***", GlobError::Stars),
            ("a\\", GlobError::OpenEscape),
        ] {
            assert_eq!(Glob::parse(pattern).expect_err(pattern), why);
        }
        assert_eq!(Glob::parse(&"a".repeat(5_000)).expect_err("too long"), GlobError::TooLong);
        assert_eq!(Glob::parse(&"{a,".repeat(40)).expect_err("too deep"), GlobError::TooLong);
    }

    #[test]
    fn a_folder_is_entered_only_if_something_below_it_may_match() {
        let below = |pattern: &str, folder: &str| glob(pattern).may_match_below(folder);
        assert!(below("/a/b/*.dat", "a") && below("/a/b/*.dat", "a/b") && !below("/a/b/*.dat", "a/c"));
        assert!(!below("/a/b/*.dat", "a/b/c") && !below("/*.dat", "a"));
        assert!(below("*.dat", "x/y") && below("/**.dat", "x/y"));
        assert!(below("/a/", "a") && below("/a/", "a/b") && !below("/a/", "b"));
        assert!(below("/a/b/", "a") && below("/{a,b}/c", "b") && !below("/{a,b}/c", "d"));
    }

    #[test]
    fn a_folder_is_known_to_match_with_all_below_it() {
        let all = |pattern: &str, folder: &str| glob(pattern).matches_all_below(folder);
        assert!(all("tmp/", "tmp") && all("tmp/", "a/tmp") && all("tmp/", "a/tmp/b") && !all("tmp/", "a"));
        assert!(all("/tmp/**", "tmp") && all("/tmp/**", "tmp/x") && !all("/tmp/**", "a/tmp"));
        assert!(!all("*.dat", "x.dat") && !all("/tmp/**x", "tmp"));
        assert!(all("**", "a") && all("/**", "a/b") && all("*", "a/b") && all("/", "a") && !all("/*", "a"));
    }

    #[test]
    fn stars_do_not_multiply() {
        // A backtracking matcher needs about 2000^20 steps for this.
        let pattern = format!("{}b", "*a".repeat(1_000));
        assert!(!glob(&pattern).matches_file(&"a".repeat(2_000)));
        let braces = "{a,aa,*}".repeat(100);
        assert!(!glob(&format!("{braces}b")).matches_file(&"a".repeat(2_000)));
        assert!(!glob(&format!("{}b", "**a".repeat(500))).matches_file(&"a/".repeat(1_000)));
    }

    /// What rclone's documentation says of the simplest patterns, by trying everything.
    fn slow(pattern: &[char], path: &[char]) -> bool {
        match pattern {
            [] => path.is_empty(),
            ['*', '*', rest @ ..] => (0..=path.len()).any(|n| slow(rest, &path[n..])),
            ['*', rest @ ..] => {
                (0..=path.len()).take_while(|n| !path[..*n].contains(&'/')).any(|n| slow(rest, &path[n..]))
            }
            ['?', rest @ ..] => path.first().is_some_and(|c| *c != '/') && slow(rest, &path[1..]),
            [c, rest @ ..] => path.first() == Some(c) && slow(rest, &path[1..]),
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(pattern in any::<String>(), odd in r"[\[\]{},*?!^/\\a-c-]{0,30}", path in "[a-c/]{0,12}") {
            for text in [&pattern, &odd] {
                if let Ok(glob) = Glob::parse(text) {
                    let all = glob.matches_all_below(&path);
                    prop_assert!(!all || glob.may_match_below(&path));
                    glob.matches_file(&path);
                }
            }
        }

        #[test]
        fn the_machine_agrees_with_the_definition(pattern in "([ab/?]|\\*|\\*\\*[ab/]){1,7}", path in "[ab]{1,2}(/[ab]{1,3}){0,3}") {
            prop_assume!(!pattern.contains("***") && !pattern.starts_with('/') && !pattern.ends_with('/'));
            let chars: Vec<char> = pattern.chars().collect();
            let whole: Vec<char> = path.chars().collect();
            let anchored = Glob::parse(&format!("/{pattern}")).expect("a pattern");
            prop_assert_eq!(anchored.matches_file(&path), slow(&chars, &whole));
            let starts = std::iter::once(0).chain((0..whole.len()).filter(|n| whole[*n] == '/').map(|n| n + 1));
            let somewhere = starts.into_iter().any(|from| slow(&chars, &whole[from..]));
            prop_assert_eq!(Glob::parse(&pattern).expect("a pattern").matches_file(&path), somewhere);
        }

        #[test]
        fn a_folder_that_is_not_entered_holds_nothing_that_matches(
            pattern in "/?([ab/?]|\\*|\\*\\*[ab/]|\\{a,b/a\\}){1,7}/?", folder in "[ab]{1,2}(/[ab]{1,2}){0,2}", name in "[ab]{1,2}",
        ) {
            prop_assume!(!pattern.contains("***"));
            let Ok(glob) = Glob::parse(&pattern) else { return Ok(()) };
            let matches = glob.matches_file(&format!("{folder}/{name}"));
            prop_assert!(glob.may_match_below(&folder) || !matches);
            prop_assert!(!glob.matches_all_below(&folder) || matches);
        }
    }
}
