//! What a server's replies mean. Pure.
//!
//! The codes of FTP are few and servers use them freely: 530 is a wrong password at one and a full house at the other.
//! So the words count too.
//!
//! The connection calls it. Public for the fuzzers only.

use std::time::Duration;

use super::super::fault::escape;
use super::super::{Fault, Refusal};

/// A reply, complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Its three digits.
    pub code: u16,
    /// All its lines, not escaped.
    text: String,
}

/// What was asked, for those codes that mean different things to different questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// To be let in.
    Entry,
    /// For a file that is known to be there.
    FileThatIs,
    /// For a file, or a folder, of which nothing is known yet.
    Anything,
    /// For something of the protocol.
    Manners,
}

impl Reply {
    /// Reads it from the bytes of all its lines. The last line decides.
    pub fn read(body: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(body).trim_end().to_owned();
        let last = text.lines().last()?;
        let digits = last.get(..3).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()))?;
        let code = digits.parse().ok().filter(|code| (100..700).contains(code))?;
        Some(Self { code, text })
    }

    /// What stands behind the code.
    pub fn words(&self) -> &str {
        self.text.get(4..).unwrap_or_default()
    }

    /// Code and words, fit for a message.
    pub fn said(&self) -> String {
        escape(&self.text)
    }

    /// Whether the server does not know the command.
    pub fn is_unknown_command(&self) -> bool {
        matches!(self.code, 202 | 500 | 501 | 502 | 504)
    }

    /// Whether a listing was cut.
    pub fn says_truncated(&self) -> bool {
        self.text.to_lowercase().contains("truncated")
    }

    fn has(&self, words: &[&str]) -> bool {
        let text = self.text.to_lowercase();
        words.iter().any(|word| text.contains(word))
    }

    fn is_overload(&self) -> bool {
        let crowded = ["too many", "maximum", "connections from your", "overload", "connected users"];
        let wrong = ["incorrect", "invalid", "authentication", "password", "wrong", "bad "];
        self.has(&crowded) || (self.has(&["limit", "busy", "try again", "try later"]) && !self.has(&wrong))
    }

    /// What it means that this came instead of what was hoped for.
    pub fn fault(&self, asked: Asked) -> Fault {
        let said = self.said();
        match self.code {
            120 | 421 => self.refusal(),
            // What cannot be had now for a reason of its own: not a crowd.
            425 | 426 | 431 | 450..=459 => match () {
                () if self.is_overload() => self.refusal(),
                () if self.code == 450 && self.has(&["no such file", "not found"]) => Fault::NotFound(said),
                () => Fault::Broken(said),
            },
            530 | 532 | 331 | 332 if self.is_overload() => self.refusal(),
            430 | 530 | 532 | 331 | 332 => Fault::Login(said),
            534..=536 | 521 | 522 | 533 => Fault::Tls(said),
            400..500 => Fault::Broken(said),
            // Some say it like this, and only to those who want to come in.
            500..600 if asked == Asked::Entry && self.is_overload() => self.refusal(),
            550 | 551 | 553 => self.about_a_file(asked, said),
            500..=504 if asked != Asked::Anything => Fault::Unsupported(said),
            501 => Fault::NotFound(said),
            500..600 => Fault::Unsupported(said),
            _ => Fault::Nonsense(said),
        }
    }

    fn about_a_file(&self, asked: Asked, said: String) -> Fault {
        let absent = self.has(&["no such", "not found", "does not exist", "doesn't exist", "can't find"]);
        let denied = self.has(&["denied", "permission", "not allowed", "forbidden", "prohibited"]);
        // vsftpd says "Failed to open file" to both.
        if denied || self.code == 553 || (asked == Asked::FileThatIs && !absent) {
            Fault::Denied(said)
        } else {
            Fault::NotFound(said)
        }
    }

    fn refusal(&self) -> Fault {
        let after = (self.code == 120).then(|| self.minutes()).flatten();
        Fault::Refused(Refusal::new(Some(self.code), after, &self.text))
    }

    /// `120 Service ready in 5 minutes`.
    fn minutes(&self) -> Option<Duration> {
        let digits = self.words().split(|c: char| !c.is_ascii_digit()).find(|digits| !digits.is_empty())?;
        let minutes = digits.parse::<u64>().ok().filter(|minutes| *minutes <= 24 * 60)?;
        Some(Duration::from_secs(minutes * 60))
    }

    /// The port in `229 Entering Extended Passive Mode (|||6446|)`.
    pub fn extended_port(&self) -> Option<u16> {
        let inside = self.text.split_once('(')?.1.split_once(')')?.0;
        let mark = inside.chars().next().filter(char::is_ascii_punctuation)?;
        let mut parts = inside.split(mark);
        let empty = [parts.next()?, parts.next()?, parts.next()?];
        let port = parts.next()?;
        let rest = parts.next()?;
        let sound = empty.iter().all(|part| part.is_empty()) && rest.is_empty() && parts.next().is_none();
        port.parse().ok().filter(|_| sound)
    }

    /// The port in `227 Entering Passive Mode (192,0,2,1,25,46)`. The address is not for us.
    pub fn passive_port(&self) -> Option<u16> {
        let digits_or_comma = |c: char| c.is_ascii_digit() || c == ',';
        let list = self.words().split(|c| !digits_or_comma(c)).find(|part| part.matches(',').count() == 5)?;
        let numbers = list.split(',').map(|part| part.parse::<u8>().ok()).collect::<Option<Vec<_>>>()?;
        let [_, _, _, _, high, low] = numbers.as_slice() else { return None };
        Some(u16::from_be_bytes([*high, *low]))
    }

    /// The size in `213 1234`: no more than a file can have.
    pub fn size(&self) -> Option<u64> {
        let size = self.words().trim().parse::<u64>().ok()?;
        (self.words().trim().bytes().all(|byte| byte.is_ascii_digit()) && i64::try_from(size).is_ok())
            .then_some(size)
    }

    /// The time in `213 20240131123400`, in seconds since 1970.
    pub fn time_s(&self) -> Option<i64> {
        super::super::listing::stamp(self.words().trim().as_bytes())
    }

    /// The folder in `257 "/home/ada" is the current directory`, with its doubled quotes undone.
    pub fn folder(&self) -> Option<String> {
        let (_, quoted) = self.text.split_once('"')?;
        let mut folder = String::new();
        let mut chars = quoted.chars();
        while let Some(c) = chars.next() {
            if c == '"' && chars.next() != Some('"') {
                return Some(folder);
            }
            folder.push(c);
        }
        None
    }
}

/// What a server says it can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a line of FEAT, or is not")]
pub struct Features {
    /// It knows MLSD.
    pub mlsd: bool,
    /// It can start in the middle.
    pub rest: bool,
    /// Its names are UTF-8.
    pub utf8: bool,
    /// It offers TLS.
    pub tls: bool,
}

impl Features {
    /// Reads the reply to `FEAT`; a server that has none knows nothing special.
    pub fn read(reply: &Reply) -> Self {
        let mut features = Self::default();
        if reply.code != 211 {
            return features;
        }
        for line in reply.text.lines().map(|line| line.trim().to_ascii_uppercase()) {
            let mut words = line.split([' ', ';']).filter(|word| !word.is_empty());
            match words.next() {
                Some("MLST" | "MLSD") => features.mlsd = true,
                Some("REST") => features.rest = words.next() == Some("STREAM"),
                Some("UTF8") => features.utf8 = true,
                Some("AUTH") => features.tls |= words.any(|word| word.starts_with("TLS")),
                _ => {}
            }
        }
        features
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reply(text: &str) -> Reply {
        Reply::read(text.as_bytes()).expect(text)
    }

    fn refused(text: &str) -> bool {
        matches!(reply(text).fault(Asked::Entry), Fault::Refused(refusal) if refusal.code == Some(reply(text).code))
    }

    #[test]
    fn a_full_house_is_a_refusal_in_the_words_of_every_server() {
        for text in [
            "421 There are too many connected users, please try later.",
            "421 There are too many connections from your internet address.",
            "421 1 users (the maximum) are already logged in, sorry",
            "530 Sorry, the maximum number of allowed clients (1) are already connected.",
            "530 Sorry, the maximum number of clients (3) from your host are already connected.",
            "421 Service not available, closing control connection.",
            "530 User limit reached, try again later",
            "530-Hello\r\n530 This server is busy",
            "500 OOPS: too many clients",
            "450 too many transfers, try again later",
        ] {
            assert!(refused(text), "{text}");
        }
    }

    #[test]
    fn a_wrong_password_is_none() {
        for text in [
            "530 Login incorrect.",
            "530 Login authentication failed",
            "530 Login incorrect, please try again",
            "530 Please login with USER and PASS.",
            "430 Invalid user name or password",
            "332 Need account for login.",
            "532 Need account.",
        ] {
            assert!(matches!(reply(text).fault(Asked::Entry), Fault::Login(_)), "{text}");
        }
    }

    #[test]
    fn a_server_that_comes_later_says_when() {
        let Fault::Refused(refusal) = reply("120 Service ready in 5 minutes").fault(Asked::Entry) else {
            panic!("not refused");
        };
        assert_eq!(refusal.after, Some(Duration::from_secs(300)));
    }

    #[test]
    fn absent_and_forbidden_are_told_apart_where_the_server_does() {
        for (text, asked, absent) in [
            ("550 Failed to open file.", Asked::Anything, true),
            ("550 Failed to open file.", Asked::FileThatIs, false),
            ("550 x: No such file or directory", Asked::FileThatIs, true),
            ("550 x: Permission denied", Asked::Anything, false),
            ("550 Could not get file size.", Asked::Anything, true),
            ("550 Can't open x: No such file or directory", Asked::Anything, true),
            ("450 x: No such file or directory", Asked::Anything, true),
            ("553 Prohibited file name: x", Asked::Anything, false),
        ] {
            match reply(text).fault(asked) {
                Fault::NotFound(_) => assert!(absent, "{text}"),
                Fault::Denied(_) => assert!(!absent, "{text}"),
                other => panic!("{text}: {other}"),
            }
        }
    }

    #[test]
    fn transfers_that_broke_may_be_tried_again_without_telling_the_circle() {
        for text in [
            "425 Can't open data connection.",
            "426 Failure writing network stream.",
            "451 Local error.",
            "452 Disk full",
        ] {
            let fault = reply(text).fault(Asked::FileThatIs);
            assert!(matches!(fault, Fault::Broken(_)) && fault.is_temporary(), "{text}");
        }
        assert!(matches!(reply("522 session reuse required").fault(Asked::FileThatIs), Fault::Tls(_)));
        assert!(matches!(reply("502 REST not implemented").fault(Asked::Manners), Fault::Unsupported(_)));
    }

    #[test]
    fn what_a_server_says_is_escaped() {
        assert!(!reply("550 \u{1b}[2Jgone").fault(Asked::Anything).to_string().contains('\u{1b}'));
    }

    #[test]
    fn ports_are_read_and_addresses_are_not() {
        assert_eq!(reply("229 Entering Extended Passive Mode (|||6446|)").extended_port(), Some(6_446));
        assert_eq!(reply("229 Okay (!!!80!)").extended_port(), Some(80));
        assert_eq!(reply("227 Entering Passive Mode (192,0,2,1,25,46).").passive_port(), Some(25 * 256 + 46));
        assert_eq!(reply("227 Passive 192,0,2,1,25,46").passive_port(), Some(25 * 256 + 46));
        for text in ["229 (|||65536|)", "229 (||1|2|)", "229 ()", "229 (|||1|", "229 x", "229 (1234)"] {
            assert_eq!(reply(text).extended_port(), None, "{text}");
        }
        for text in ["227 (1,2,3,4,5)", "227 (1,2,3,4,256,1)", "227 (1,2,3,4,5,6,7)", "227 ok", "227 (,,,,,)"]
        {
            assert_eq!(reply(text).passive_port(), None, "{text}");
        }
    }

    #[test]
    fn sizes_and_times_have_bounds() {
        assert_eq!(reply("213 1234").size(), Some(1_234));
        for text in ["213 18446744073709551615", "213 -1", "213 +1", "213 1 2", "213 ", "213 0x10"] {
            assert_eq!(reply(text).size(), None, "{text}");
        }
        assert_eq!(reply("213 19700101000010").time_s(), Some(10));
        assert_eq!(reply("213 yesterday").time_s(), None);
    }

    #[test]
    fn features_of_real_servers_are_read() {
        let pure = "211-Extensions supported:\r\n UTF8\r\n EPRT\r\n MDTM\r\n SIZE\r\n REST STREAM\r\n MLST type*;size*;\r\n MLSD\r\n AUTH TLS\r\n211 End.";
        assert_eq!(Features::read(&reply(pure)), Features { mlsd: true, rest: true, utf8: true, tls: true });
        let old = "211-Features:\r\n AUTH SSL\r\n211 End";
        assert_eq!(Features::read(&reply(old)), Features::default());
        assert!(Features::read(&reply("211-F\r\n AUTH SSL;TLS-C;TLS-P\r\n211 End")).tls);
        assert_eq!(Features::read(&reply("500 MLSD UTF8?")), Features::default());
    }

    #[test]
    fn quoted_folders_are_read() {
        assert_eq!(reply("257 \"/a\"\"b\" is current").folder().as_deref(), Some("/a\"b"));
        assert_eq!(reply("257 \"/a").folder(), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            if let Some(reply) = Reply::read(&bytes) {
                for asked in [Asked::Entry, Asked::FileThatIs, Asked::Anything, Asked::Manners] {
                    let _ = reply.fault(asked);
                }
                let _ = (reply.extended_port(), reply.passive_port(), reply.size(), reply.time_s(), reply.folder());
                let _ = Features::read(&reply);
            }
        }

        #[test]
        fn any_near_miss_is_read_without_harm(text in "[1-6][0-9]{2}[ -][(|,)0-9\"äé]{0,30}") {
            let reply = Reply::read(text.as_bytes()).expect("a code");
            let _ = (reply.fault(Asked::Anything), reply.extended_port(), reply.passive_port(), reply.size(), reply.folder());
        }
    }
}
