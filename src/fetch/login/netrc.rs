//! The netrc file, read as curl reads it: words, quotes, comments at the start of a line, macros passed over.

use zeroize::Zeroizing;

use super::{Login, Secret};

/// What is wrong with a netrc file. Never says what stands there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetrcError {
    /// A quote that is not closed.
    #[error("line {0} has a quote without an end")]
    Quote(usize),
    /// `machine`, `login` or `password` with nothing behind it.
    #[error("the last word wants another one behind it")]
    Unfinished,
    /// A user or password before the first machine.
    #[error("line {0} belongs to no machine")]
    Homeless(usize),
}

/// The logins of a netrc file.
#[derive(Clone, Debug, Default)]
pub(super) struct Netrc {
    machines: Vec<Machine>,
}

#[derive(Clone, Debug, Default)]
struct Machine {
    /// `None` is the default.
    host: Option<String>,
    user: Option<String>,
    password: Option<Secret>,
}

impl Netrc {
    /// Reads a whole file.
    pub(super) fn parse(text: &str) -> Result<Self, NetrcError> {
        let mut machines: Vec<Machine> = Vec::new();
        let mut words = Words { text, line: 1, at_line_start: true };
        while let Some(word) = words.next()? {
            let line = words.line;
            match word.as_str() {
                "machine" => {
                    let host = Some(words.must()?.to_ascii_lowercase());
                    machines.push(Machine { host, ..Machine::default() });
                }
                "default" => machines.push(Machine::default()),
                "login" => {
                    let user = words.must()?.to_string();
                    machines.last_mut().ok_or(NetrcError::Homeless(line))?.user = Some(user);
                }
                "password" => {
                    let password = Secret::new(words.must()?.to_string());
                    machines.last_mut().ok_or(NetrcError::Homeless(line))?.password = Some(password);
                }
                "account" => drop(words.must()?),
                "macdef" => words.skip_macro(),
                // Others have words of their own.
                _ => {}
            }
        }
        Ok(Self { machines })
    }

    /// The first login for exactly this host, or the default if that is wanted and comes first.
    pub(super) fn lookup(&self, host: &str, with_default: bool) -> Option<Login> {
        let host = host.to_ascii_lowercase();
        let fits = |machine: &&Machine| match &machine.host {
            Some(name) => *name == host,
            None => with_default,
        };
        let exact = self.machines.iter().find(|machine| machine.host.as_ref() == Some(&host));
        let found = exact.or_else(|| self.machines.iter().find(fits))?;
        let password = found.password.clone().unwrap_or_else(|| Secret::new(String::new()));
        Some(Login { user: found.user.clone()?, password })
    }
}

struct Words<'a> {
    text: &'a str,
    line: usize,
    at_line_start: bool,
}

impl Words<'_> {
    fn must(&mut self) -> Result<Zeroizing<String>, NetrcError> {
        self.next()?.ok_or(NetrcError::Unfinished)
    }

    fn next(&mut self) -> Result<Option<Zeroizing<String>>, NetrcError> {
        loop {
            let Some(first) = self.text.chars().next() else { return Ok(None) };
            if first.is_whitespace() {
                self.pass(first);
            } else if first == '#' && self.at_line_start {
                let end = self.text.find('\n').unwrap_or(self.text.len());
                self.text = self.text.get(end..).unwrap_or_default();
            } else {
                self.at_line_start = false;
                return if first == '"' { self.quoted().map(Some) } else { Ok(Some(self.bare())) };
            }
        }
    }

    fn pass(&mut self, c: char) {
        if c == '\n' {
            self.line += 1;
            self.at_line_start = true;
        }
        self.text = self.text.get(c.len_utf8()..).unwrap_or_default();
    }

    fn bare(&mut self) -> Zeroizing<String> {
        let end = self.text.find(char::is_whitespace).unwrap_or(self.text.len());
        let (word, rest) = self.text.split_at(end);
        self.text = rest;
        Zeroizing::new(word.to_owned())
    }

    /// `"…"`, with `\n`, `\r`, `\t`, and any other character standing for itself behind a backslash.
    fn quoted(&mut self) -> Result<Zeroizing<String>, NetrcError> {
        let begun = self.line;
        let mut word = Zeroizing::new(String::new());
        let mut chars = self.text.chars();
        chars.next();
        while let Some(c) = chars.next() {
            let meant = match c {
                '"' => {
                    self.text = chars.as_str();
                    return Ok(word);
                }
                '\n' => break,
                '\\' => match chars.next() {
                    Some('n') => '\n',
                    Some('r') => '\r',
                    Some('t') => '\t',
                    Some(other) => other,
                    None => break,
                },
                other => other,
            };
            word.push(meant);
        }
        Err(NetrcError::Quote(begun))
    }

    /// A macro ends at an empty line.
    fn skip_macro(&mut self) {
        let end = ["\n\n", "\n\r\n"].iter().filter_map(|end| self.text.find(end)).min();
        let skipped = end.map_or(self.text.len(), |end| end + 1);
        let (over, rest) = self.text.split_at(skipped);
        self.line += over.matches('\n').count();
        self.text = rest;
        self.at_line_start = true;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(text: &str, host: &str) -> Option<(String, String)> {
        let login = Netrc::parse(text).expect(text).lookup(host, true)?;
        Some((login.user, login.password.reveal().to_owned()))
    }

    #[allow(clippy::unnecessary_wraps, reason = "it is what `found` gives")]
    fn pair(user: &str, password: &str) -> Option<(String, String)> {
        Some((user.to_owned(), password.to_owned()))
    }

    #[test]
    fn entries_are_found_by_exact_host() {
        let text = "machine a.example login ada password 1\nmachine example\n  login eve\n  password 2\n";
        assert_eq!(found(text, "a.example"), pair("ada", "1"));
        assert_eq!(found(text, "EXAMPLE"), pair("eve", "2"));
        for other in ["b.example", "a.example.evil", "xample", ""] {
            assert_eq!(found(text, other), None, "{other}");
        }
    }

    #[test]
    fn the_default_comes_last_wherever_it_stands() {
        let text = "default login anonymous password me@lab machine h login ada password 1";
        assert_eq!(found(text, "h"), pair("ada", "1"));
        assert_eq!(found(text, "g"), pair("anonymous", "me@lab"));
        assert!(Netrc::parse(text).expect("a netrc").lookup("g", false).is_none());
    }

    #[test]
    fn quotes_comments_macros_and_accounts_are_understood() {
        let text = "# machine h login no password no\nmachine h account x login \"a d\\\"a\" password p#1\n\
                    macdef init\nmachine h login evil password evil\n\nmachine g login b password \"\\\\\\t\"";
        assert_eq!(found(text, "h"), pair("a d\"a", "p#1"));
        assert_eq!(found(text, "g"), pair("b", "\\\t"));
    }

    #[test]
    fn a_machine_without_a_user_is_no_login_and_one_without_a_password_has_none() {
        assert_eq!(found("machine h password x", "h"), None);
        assert_eq!(found("machine h login ada", "h"), pair("ada", ""));
    }

    #[test]
    fn broken_files_are_refused_without_repeating_what_they_say() {
        for (text, error) in [
            ("machine h login a password \"geheim", NetrcError::Quote(1)),
            ("\nmachine h password \"geheim\nlogin", NetrcError::Quote(2)),
            ("machine", NetrcError::Unfinished),
            ("machine h login a password", NetrcError::Unfinished),
            ("password geheim", NetrcError::Homeless(1)),
        ] {
            let found = Netrc::parse(text).expect_err(text);
            assert_eq!(found, error, "{text}");
            assert!(!found.to_string().contains("geheim"));
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_harm(text in any::<String>()) {
            let _ = Netrc::parse(&text);
        }

        #[test]
        fn any_words_are_read_without_harm(text in "(machine|login|password|macdef|default|account|[ \n\"\\\\#é]){0,30}") {
            let _ = Netrc::parse(&text);
        }

        #[test]
        fn what_was_written_is_read(password in "[^\0\n\r\t]{0,30}") {
            let quoted = password.replace('\\', "\\\\").replace('"', "\\\"");
            prop_assert_eq!(found(&format!("machine h login ada password \"{quoted}\""), "h"), pair("ada", &password));
        }
    }
}
