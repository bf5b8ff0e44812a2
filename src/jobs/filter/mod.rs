//! Which files are meant: rclone's filters.
//!
//! Rules are asked in order, and the first one that matches decides: those of `--exclude`, then those of `--include`, then
//! those of the file (`+ PATTERN`, `- PATTERN`, `!` to begin anew, `#` and `;` for remarks). What no rule matches is
//! meant, unless there is an `--include`: then only what is included is. (rclone does not say which of
//! `--include` and `--exclude` comes first; here what is excluded stays out.) Sizes and ages are asked afterwards.
//!
//! `mirror` and `subscribe` ask it about everything that a listing shows. Paths are relative to the job's root.

pub mod glob;

use std::fs;
use std::io::Read as _;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use glob::{Glob, GlobError};

use crate::fetch::EntryKind;

/// A file of rules is not longer than this.
const LONGEST_FILE: u64 = 1 << 20;

/// More rules than this are nobody's: each is asked about each file.
const MOST_RULES: usize = 10_000;

/// What is wrong with a filter.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    /// A pattern that cannot be read.
    #[error("pattern `{pattern}`: {why}")]
    Pattern {
        /// As it was written.
        pattern: String,
        /// What is wrong with it.
        why: GlobError,
    },
    /// A line of a file that is no rule.
    #[error("{}:{line}: `{text}` is not a rule; write + PATTERN, - PATTERN or !", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Counted from one.
        line: usize,
        /// As it was written.
        text: String,
    },
    /// A pattern of a file that cannot be read.
    #[error("{}:{line}: pattern `{pattern}`: {why}", path.display())]
    LinePattern {
        /// The file.
        path: PathBuf,
        /// Counted from one.
        line: usize,
        /// As it was written.
        pattern: String,
        /// What is wrong with it.
        why: GlobError,
    },
    /// A file that cannot be read.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What came of reading it.
        error: std::io::Error,
    },
    /// A file that is no file of rules.
    #[error("{}: longer than {LONGEST_FILE} bytes", .0.display())]
    TooLong(PathBuf),
    /// More rules than anybody's.
    #[error("more than {MOST_RULES} rules")]
    TooMany,
    /// Nothing would be left.
    #[error("{0} is more than {1}: no file is meant")]
    Nothing(&'static str, &'static str),
}

/// A filter as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// `--include`: only these.
    pub include: Vec<String>,
    /// `--exclude`: not these.
    pub exclude: Vec<String>,
    /// `--filter-from`: rules in a file.
    pub filter_from: Option<PathBuf>,
    /// `--max-age`: nothing older.
    pub max_age: Option<Duration>,
    /// `--min-age`: nothing younger.
    pub min_age: Option<Duration>,
    /// `--max-size`: nothing larger.
    pub max_size: Option<u64>,
    /// `--min-size`: nothing smaller.
    pub min_size: Option<u64>,
}

/// Which files are meant.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    rules: Vec<Rule>,
    /// What no rule matches is not meant.
    only_included: bool,
    max_age_s: Option<i64>,
    min_age_s: Option<i64>,
    max_size: Option<u64>,
    min_size: Option<u64>,
}

#[derive(Clone, Debug)]
struct Rule {
    is_include: bool,
    glob: Glob,
}

impl Filter {
    /// Reads a filter, and the file that it names.
    pub fn new(rules: &Rules) -> Result<Self, FilterError> {
        let from = match &rules.filter_from {
            Some(path) => Some((path.as_path(), read(path)?)),
            None => None,
        };
        Self::compile(rules, from.as_ref().map(|(path, text)| (*path, text.as_str())))
    }

    /// The same without a look at the disk.
    fn compile(rules: &Rules, from: Option<(&Path, &str)>) -> Result<Self, FilterError> {
        if rules.min_age.zip(rules.max_age).is_some_and(|(min, max)| min > max) {
            return Err(FilterError::Nothing("min-age", "max-age"));
        }
        if rules.min_size.zip(rules.max_size).is_some_and(|(min, max)| min > max) {
            return Err(FilterError::Nothing("min-size", "max-size"));
        }
        let seconds = |span: Duration| i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
        let mut filter = Self {
            rules: Vec::new(),
            only_included: !rules.include.is_empty(),
            max_age_s: rules.max_age.map(seconds),
            min_age_s: rules.min_age.map(seconds),
            max_size: rules.max_size,
            min_size: rules.min_size,
        };
        let excluded = rules.exclude.iter().map(|pattern| (false, pattern));
        for (is_include, pattern) in excluded.chain(rules.include.iter().map(|pattern| (true, pattern))) {
            let glob =
                Glob::parse(pattern).map_err(|why| FilterError::Pattern { pattern: pattern.clone(), why })?;
            filter.rules.push(Rule { is_include, glob });
        }
        if let Some((path, text)) = from {
            filter.add_lines(path, text)?;
        }
        if filter.rules.len() > MOST_RULES {
            return Err(FilterError::TooMany);
        }
        Ok(filter)
    }

    fn add_lines(&mut self, path: &Path, text: &str) -> Result<(), FilterError> {
        for (index, line) in text.lines().enumerate() {
            let (line, number) = (line.trim(), index + 1);
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            if line == "!" {
                self.rules.clear();
                continue;
            }
            let (is_include, pattern) = match (line.strip_prefix("+ "), line.strip_prefix("- ")) {
                (Some(pattern), _) => (true, pattern.trim_start()),
                (None, Some(pattern)) => (false, pattern.trim_start()),
                (None, None) => {
                    let (path, text) = (path.to_owned(), line.to_owned());
                    return Err(FilterError::Line { path, line: number, text });
                }
            };
            let glob = Glob::parse(pattern).map_err(|why| {
                let (path, pattern) = (path.to_owned(), pattern.to_owned());
                FilterError::LinePattern { path, line: number, pattern, why }
            })?;
            self.rules.push(Rule { is_include, glob });
        }
        Ok(())
    }

    /// Whether a file is meant. A size or a time that the source does not tell speaks for the file: it is better pulled once
    /// too often than silently left out.
    pub fn allows_file(&self, path: &str, size: Option<u64>, modified_s: Option<i64>, now_s: i64) -> bool {
        let is_of_age =
            |modified_s| self.changed_within(now_s).is_none_or(|times| times.contains(&modified_s));
        self.allows_path(path)
            && size.is_none_or(|size| self.allows_size(size))
            && modified_s.is_none_or(is_of_age)
    }

    /// Whether a folder may hold a file that is meant; if not, it need not be listed.
    pub fn allows_folder(&self, path: &str) -> bool {
        for rule in &self.rules {
            if rule.is_include && rule.glob.may_match_below(path) {
                return true;
            }
            if !rule.is_include && rule.glob.matches_all_below(path) {
                return false;
            }
        }
        !self.only_included
    }

    /// Whether a name that was refused would have been meant: a path that ends in a slash is a folder's.
    pub fn allows_refused(&self, path: &str) -> bool {
        match path.strip_suffix('/') {
            Some(folder) => self.allows_folder(folder),
            None => self.allows_path(path),
        }
    }

    /// Whether an entry is meant, as far as its name tells.
    pub fn allows_entry(&self, path: &str, kind: EntryKind) -> bool {
        match kind {
            EntryKind::File => self.allows_path(path),
            EntryKind::Folder => self.allows_folder(path),
        }
    }

    /// When a file must have been changed to be meant, in seconds since 1970; `None` if ages do not matter.
    pub fn changed_within(&self, now_s: i64) -> Option<RangeInclusive<i64>> {
        let first = self.max_age_s.map(|max| now_s.saturating_sub(max));
        let last = self.min_age_s.map(|min| now_s.saturating_sub(min));
        let is_bound = first.is_some() || last.is_some();
        is_bound.then(|| first.unwrap_or(i64::MIN)..=last.unwrap_or(i64::MAX))
    }

    fn allows_path(&self, path: &str) -> bool {
        let decides = self.rules.iter().find(|rule| rule.glob.matches_file(path));
        decides.map_or(!self.only_included, |rule| rule.is_include)
    }

    fn allows_size(&self, size: u64) -> bool {
        self.max_size.is_none_or(|max| size <= max) && self.min_size.is_none_or(|min| size >= min)
    }
}

fn read(path: &Path) -> Result<String, FilterError> {
    let wrong = |error| FilterError::File { path: path.to_owned(), error };
    let file = fs::File::open(path).map_err(wrong)?;
    let mut text = String::new();
    file.take(LONGEST_FILE + 1).read_to_string(&mut text).map_err(wrong)?;
    if text.len() as u64 > LONGEST_FILE {
        return Err(FilterError::TooLong(path.to_owned()));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rules(include: &[&str], exclude: &[&str]) -> Rules {
        let owned = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        Rules { include: owned(include), exclude: owned(exclude), ..Rules::default() }
    }

    fn from_lines(text: &str) -> Result<Filter, FilterError> {
        Filter::compile(&Rules::default(), Some((Path::new("rules.txt"), text)))
    }

    fn allows(filter: &Filter, path: &str) -> bool {
        filter.allows_file(path, None, None, 0)
    }

    #[test]
    fn without_rules_everything_is_meant() {
        let filter = Filter::new(&Rules::default()).expect("a filter");
        assert!(allows(&filter, "a/b") && filter.allows_folder("a") && filter.changed_within(0).is_none());
    }

    #[test]
    fn with_an_include_only_that_is_meant_and_an_exclude_takes_away_from_it() {
        let filter = Filter::new(&rules(&["*.dat"], &[])).expect("a filter");
        assert!(allows(&filter, "a/b.dat") && !allows(&filter, "a/b.txt") && filter.allows_folder("a"));
        let filter = Filter::new(&rules(&["*.dat"], &["tmp/"])).expect("a filter");
        assert!(allows(&filter, "a/b.dat") && !allows(&filter, "a/tmp/b.dat"));
        assert!(filter.allows_folder("a") && !filter.allows_folder("a/tmp"));
        let filter = Filter::new(&rules(&[], &["*.txt"])).expect("a filter");
        assert!(allows(&filter, "a/b.dat") && !allows(&filter, "a/b.txt"));
        let filter = Filter::new(&rules(&["/2026/**"], &[])).expect("a filter");
        assert!(
            filter.allows_folder("2026") && filter.allows_folder("2026/03") && !filter.allows_folder("2025")
        );
    }

    #[test]
    fn in_a_file_of_rules_the_first_match_wins() {
        let filter = from_lines(
            "# remarks\n; and more\n- secret*.jpg\n+ *.jpg\n+ *.png\n+ file2.avi\n- /dir/tmp/** \n+ /dir/**\n- *\n",
        )
        .expect("a filter");
        for (path, meant) in [
            ("a.jpg", true),
            ("x/secret17.jpg", false),
            ("file2.avi", true),
            ("file3.avi", false),
            ("dir/x.txt", true),
            ("dir/tmp/x.txt", false),
            ("other/x.txt", false),
        ] {
            assert_eq!(allows(&filter, path), meant, "{path}");
        }
        // `*.jpg` could be anywhere, so nothing can be left out but what comes before it.
        assert!(filter.allows_folder("other"));
        let filter = from_lines("- /dir/tmp/\n+ /dir/**\n- *").expect("a filter");
        assert!(
            filter.allows_folder("dir") && !filter.allows_folder("dir/tmp") && !filter.allows_folder("other")
        );
        let cleared = from_lines("- *\n!\n- *.tmp").expect("a filter");
        assert!(allows(&cleared, "a") && !allows(&cleared, "a.tmp"));
    }

    #[test]
    fn sizes_and_ages_are_asked_where_they_are_known() {
        let day = Duration::from_secs(86_400);
        let limits = Rules {
            max_age: Some(7 * day),
            min_age: Some(day),
            max_size: Some(1_000),
            min_size: Some(10),
            ..Rules::default()
        };
        let filter = Filter::new(&limits).expect("a filter");
        let now = 10_000_000;
        let allows = |size, age: Option<i64>| filter.allows_file("f", size, age.map(|age| now - age), now);
        assert!(
            allows(Some(10), Some(86_400)) && allows(Some(1_000), Some(7 * 86_400)) && allows(None, None)
        );
        assert!(!allows(Some(9), None) && !allows(Some(1_001), None));
        assert!(
            !allows(None, Some(86_399)) && !allows(None, Some(7 * 86_400 + 1)) && !allows(None, Some(-5))
        );
        assert!(filter.changed_within(0).is_some());
        assert!(!filter.allows_file("f", None, Some(i64::MIN), i64::MAX));
        let none = Rules { min_size: Some(2), max_size: Some(1), ..Rules::default() };
        assert_eq!(
            Filter::new(&none).expect_err("nothing is left").to_string(),
            "min-size is more than max-size: no file is meant"
        );
    }

    #[test]
    fn an_error_names_the_pattern_and_where_it_stands() {
        let error = Filter::new(&rules(&["[a"], &[])).expect_err("no pattern");
        assert_eq!(error.to_string(), "pattern `[a`: a [ without its ]");
        let error = from_lines("+ a\n*.dat").expect_err("no rule");
        assert_eq!(error.to_string(), "rules.txt:2: `*.dat` is not a rule; write + PATTERN, - PATTERN or !");
        let error = from_lines("\n\n- {{x}}").expect_err("no pattern");
        assert!(error.to_string().starts_with("rules.txt:3: pattern `{{x}}`"), "{error}");
        let missing = Rules { filter_from: Some("/nonexistent/rules".into()), ..Rules::default() };
        assert!(matches!(Filter::new(&missing), Err(FilterError::File { .. })));
    }

    #[test]
    fn a_file_of_rules_is_read_from_the_disk_and_not_without_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("rules");
        fs::write(&path, "- *.tmp\n").expect("written");
        let named = Rules { filter_from: Some(path.clone()), ..Rules::default() };
        assert!(!allows(&Filter::new(&named).expect("a filter"), "a.tmp"));
        fs::write(&path, "#".repeat(2 << 20)).expect("written");
        assert!(matches!(Filter::new(&named), Err(FilterError::TooLong(_))));
    }

    proptest! {
        #[test]
        fn a_folder_that_is_left_out_holds_nothing_that_is_meant(
            lines in proptest::collection::vec(("[+-]", "/?([ab/]|\\*|\\*\\*[ab]){1,4}/?"), 0..5),
            folder in "[ab](/[ab]){0,2}", name in "[ab]{1,2}",
        ) {
            let lines: Vec<String> = lines.iter().map(|(sign, pattern)| format!("{sign} {pattern}")).collect();
            let text = lines.join("\n");
            let Ok(filter) = from_lines(&text) else { return Ok(()) };
            prop_assert!(filter.allows_folder(&folder) || !allows(&filter, &format!("{folder}/{name}")), "{}", text);
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in any::<String>()) {
            let _ = from_lines(&text);
        }
    }
}
