//! What a server's replies mean. Pure.
//!
//! The codes of FTP are few and servers use them freely: 530 is a wrong password at one and a full house at the other.
//! So the words count too.
//!
//! The connection calls it. Public for the fuzzers only.

use std::time::Duration;

use super::super::fault::escape;
use super::super::{Fault, Login, Refusal};

/// A reply, complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Its three digits.
    pub code: u16,
    /// All its lines, not escaped.
    text: String,
    /// The same as bytes: paths have no encoding.
    bytes: Vec<u8>,
}

/// Bytes at the start of a reply that are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAReply;

/// Length of the first reply in these bytes; `None` if it is not complete. `is_over` if no more bytes will come.
///
/// A reply of several lines begins with `220-` and ends with `220 `. Some servers end it with another code, so one of the
/// same hundred ends it too; in a greeting, which is often prose, only a code that a greeting can have. A server that
/// closes the connection has ended it in any case.
pub fn frame(bytes: &[u8], is_over: bool) -> Result<Option<usize>, NotAReply> {
    let mut end = 0;
    let mut opening = None;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        end += line.len();
        if !line.ends_with(b"\n") && !is_over {
            return Ok(None);
        }
        match (opening, code_of(line)) {
            (None, _) if line.iter().all(u8::is_ascii_whitespace) => {}
            (None, None) => return Err(NotAReply),
            (None, Some((code, true))) => opening = Some(code),
            (None, Some((_, false))) => return Ok(Some(end)),
            (Some(opening), Some((code, false)))
                if ends(opening, code) || (is_over && end == bytes.len()) =>
            {
                return Ok(Some(end));
            }
            (Some(_), _) => {}
        }
    }
    Ok(None)
}

/// The code of a line, and whether more lines follow.
fn code_of(line: &[u8]) -> Option<(u16, bool)> {
    let digits = line.get(..3).filter(|digits| digits.iter().all(u8::is_ascii_digit))?;
    let code = std::str::from_utf8(digits).ok()?.parse().ok()?;
    match line.get(3) {
        Some(b'-') => Some((code, true)),
        None | Some(b' ' | b'\t' | b'\r' | b'\n') => Some((code, false)),
        Some(_) => None,
    }
}

fn ends(opening: u16, code: u16) -> bool {
    match opening {
        220 => matches!(code, 220 | 230),
        _ => opening / 100 == code / 100,
    }
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
        let body = body.trim_ascii();
        let text = String::from_utf8_lossy(body).into_owned();
        let last = text.lines().last()?;
        let digits = last.get(..3).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()))?;
        let code = digits.parse().ok().filter(|code| (100..700).contains(code))?;
        Some(Self { code, text, bytes: body.to_vec() })
    }

    /// Whether the server has done what it was asked.
    pub fn is_done(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// What stands behind the code.
    pub fn words(&self) -> &str {
        self.text.get(4..).unwrap_or_default()
    }

    /// Code and words, fit for a message. A bare code gets the words of the standard.
    pub fn said(&self) -> String {
        if self.words().trim().is_empty() {
            let meaning = suppaftp::Status::from(u32::from(self.code)).desc();
            return format!("{} {meaning}", self.code);
        }
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

    /// Whether it states in words that the file or folder does not exist. Codes do not: 550 means many things.
    pub fn says_absent(&self) -> bool {
        let absent = [
            "no such",
            "not found",
            "does not exist",
            "doesn't exist",
            "can't find",
            "cannot find",
            "not exist",
        ];
        matches!(self.code, 450 | 451 | 501 | 504 | 550..=553) && self.has(&absent)
    }

    /// Whether it states that there is nothing to list, if the folder is known to exist.
    pub fn says_empty(&self) -> bool {
        let empty = ["no files", "no file", "no matching", "no match", "no entries", "no data", "empty"];
        matches!(self.code, 450 | 550) && !self.says_denied() && (self.says_absent() || self.has(&empty))
    }

    /// Whether it names access rights as the reason.
    pub fn says_denied(&self) -> bool {
        self.has(&["denied", "permission", "not allowed", "forbidden", "prohibited", "not authorized"])
    }

    /// Whether it refuses the position of `REST`: the file may be shorter now.
    pub fn refuses_position(&self) -> bool {
        let position =
            ["rest ", "restart", "offset", "position", "beyond", "past the end", "too large", "seek"];
        matches!(self.code, 501 | 551 | 554) || (self.code == 550 && self.has(&position))
    }

    /// Whether it asks for TLS.
    pub fn wants_encryption(&self) -> bool {
        self.code >= 400 && self.has(&["tls", "ssl", "encrypt", "secure connection"])
    }

    fn has(&self, words: &[&str]) -> bool {
        let text = self.text.to_lowercase();
        words.iter().any(|word| text.contains(word))
    }

    /// Whether the server has too much to do.
    pub fn is_overload(&self) -> bool {
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
                () if self.says_absent() => Fault::NotFound(said),
                () => Fault::Broken(said),
            },
            530 | 532 | 331 | 332 if self.is_overload() => self.refusal(),
            430 | 530 | 532 | 331 | 332 => Fault::login(&said, None),
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

    /// The same of an answer to user and password: names the user, unless it is anonymous.
    pub fn login_fault(&self, login: &Login) -> Fault {
        match self.fault(Asked::Entry) {
            Fault::Login(_) => {
                Fault::login(&self.said(), (!login.is_anonymous()).then_some(login.user.as_str()))
            }
            fault => fault,
        }
    }

    fn about_a_file(&self, asked: Asked, said: String) -> Fault {
        // vsftpd says "Failed to open file" to both.
        let is_known = asked == Asked::FileThatIs && !self.says_absent();
        if self.says_denied() || self.code == 553 || is_known {
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
        let inside = match self.text.split_once('(') {
            Some((_, behind)) => behind.split_once(')')?.0,
            // Some servers leave out the parentheses.
            None => {
                self.words().split_whitespace().find(|word| word.starts_with("|||"))?.trim_end_matches('.')
            }
        };
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

    /// The facts in `250-Listing a`, ` type=file;size=7; a`, `250 End`: the line between the two.
    pub fn facts(&self) -> Option<&[u8]> {
        let mut lines = self.bytes.split(|byte| *byte == b'\n').skip(1);
        let line = lines.find(|line| !line.starts_with(b"250"))?;
        let line = line.strip_prefix(b" ").unwrap_or(line);
        Some(line.trim_ascii_end())
    }

    /// The folder in `257 "/home/ada" is the current directory`, with its doubled quotes undone, or the first word of
    /// `257 /home/ada`.
    pub fn folder(&self) -> Option<Vec<u8>> {
        let words = self.bytes.get(4..)?;
        let Some(quote) = words.iter().position(|byte| *byte == b'"') else {
            let word = words.split(u8::is_ascii_whitespace).find(|word| !word.is_empty())?;
            return is_folder(word).then(|| word.to_vec());
        };
        let mut folder = Vec::new();
        let mut bytes = words.get(quote + 1..)?.iter();
        while let Some(byte) = bytes.next() {
            if *byte == b'"' && bytes.next() != Some(&b'"') {
                return (!folder.is_empty()).then_some(folder);
            }
            folder.push(*byte);
        }
        None
    }
}

/// Whether an unquoted word can be the path of a folder: `/home/ada` or `C:\\ftp`.
fn is_folder(word: &[u8]) -> bool {
    word.starts_with(b"/") || word.get(1..3) == Some(b":\\") || word.get(1..3) == Some(b":/")
}

/// What a server says it can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a line of FEAT, or is not")]
pub struct Features {
    /// It knows MLSD.
    pub mlsd: bool,
    /// It knows MLST.
    pub mlst: bool,
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
                Some("MLST" | "MLSD") => (features.mlsd, features.mlst) = (true, true),
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
    fn a_bare_code_gets_the_words_of_the_standard() {
        assert!(reply("530").said().to_lowercase().contains("not logged in"), "{}", reply("530").said());
        assert!(reply("530 ").said().starts_with("530 "));
        assert_eq!(reply("530 go away").said(), "530 go away");
    }

    #[test]
    fn what_a_server_says_is_escaped() {
        assert!(!reply("550 \u{1b}[2Jgone").fault(Asked::Anything).to_string().contains('\u{1b}'));
    }

    #[test]
    fn ports_are_read_and_addresses_are_not() {
        assert_eq!(reply("229 Entering Extended Passive Mode (|||6446|)").extended_port(), Some(6_446));
        assert_eq!(reply("229 Okay (!!!80!)").extended_port(), Some(80));
        assert_eq!(reply("229 Extended Passive |||6446|").extended_port(), Some(6_446));
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
        assert_eq!(
            Features::read(&reply(pure)),
            Features { mlsd: true, mlst: true, rest: true, utf8: true, tls: true }
        );
        let old = "211-Features:\r\n AUTH SSL\r\n211 End";
        assert_eq!(Features::read(&reply(old)), Features::default());
        assert!(Features::read(&reply("211-F\r\n AUTH SSL;TLS-C;TLS-P\r\n211 End")).tls);
        assert_eq!(Features::read(&reply("500 MLSD UTF8?")), Features::default());
    }

    #[test]
    fn quoted_folders_are_read() {
        for (text, folder) in [
            ("257 \"/a\"\"b\" is current", &b"/a\"b"[..]),
            ("257 \"/a b\" is current", b"/a b"),
            ("257 /home/ada", b"/home/ada"),
            ("257 /home/ada is the current directory", b"/home/ada"),
            ("257 C:\\ftp is current", b"C:\\ftp"),
        ] {
            assert_eq!(reply(text).folder().as_deref(), Some(folder), "{text}");
        }
        for text in ["257 \"/a", "257 \"\" is current", "257 current directory", "257", "257 "] {
            assert_eq!(reply(text).folder(), None, "{text}");
        }
        let bytes = Reply::read(b"257 \"/caf\xe9\" is current").expect("a reply");
        assert_eq!(bytes.folder().as_deref(), Some(&b"/caf\xe9"[..]));
    }

    #[test]
    fn the_facts_of_mlst_are_between_its_first_line_and_its_last() {
        let text = "250-Listing a b\r\n type=file;size=7; /a b\r\n250 End";
        assert_eq!(reply(text).facts(), Some(&b"type=file;size=7; /a b"[..]));
        assert_eq!(reply("250 End").facts(), None);
        assert_eq!(reply("250-x\r\n250 End").facts(), None);
    }

    #[test]
    fn replies_are_cut_where_they_end() {
        for (text, length) in [
            ("220 hi\r\n331 x", 8),
            ("220 hi\r\r\n331 x", 9),
            ("\r\n220 hi\n", 9),
            ("220\r\n", 5),
            ("220-a\r\n 220 b\r\nc\r\n220 d\r\n", 25),
            ("220-150 GB\r\n250 GB free\r\n220 d\r\n", 32),
            ("211-a\r\n211-b\r\n211 c\r\n", 21),
            // Another code of the same hundred.
            ("213-status\r\n226 done\r\nx", 22),
        ] {
            assert_eq!(frame(text.as_bytes(), false), Ok(Some(length)), "{text:?}");
        }
        for unfinished in ["", "22", "220 hi", "220-a\r\n220-b\r\n", "220-a\r\n421 full\r\n"] {
            assert_eq!(frame(unfinished.as_bytes(), false), Ok(None), "{unfinished:?}");
        }
        for ended in ["220 hi", "220-a\r\n421 full\r\n", "220-a\r\n421 full"] {
            assert_eq!(frame(ended.as_bytes(), true), Ok(Some(ended.len())), "{ended:?}");
        }
        for nonsense in ["hello\r\n", "2a0 x\r\n", "22\r\n", "2200 x\r\n"] {
            assert_eq!(frame(nonsense.as_bytes(), false), Err(NotAReply), "{nonsense:?}");
        }
    }

    #[test]
    fn absence_is_a_matter_of_words() {
        for text in [
            "550 x: No such file or directory",
            "550 The system cannot find the file specified.",
            "450 x: File not found",
            "551 File does not exist",
        ] {
            assert!(reply(text).says_absent(), "{text}");
        }
        for text in [
            "550 Could not get file size.",
            "550 SIZE not allowed in ASCII mode",
            "550 x: not a plain file.",
            "550 Permission denied",
            "553 Requested action not taken",
            "530 not found",
        ] {
            assert!(!reply(text).says_absent(), "{text}");
        }
        assert!(
            reply("550 No files found.").says_empty() && reply("450 No such file or directory").says_empty()
        );
        assert!(!reply("550 Permission denied, no files").says_empty());
        assert!(!reply("550 Failed to open directory").says_empty());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..100), is_over: bool) {
            if let Ok(Some(length)) = frame(&bytes, is_over) {
                prop_assert!((1..=bytes.len()).contains(&length));
            }
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
