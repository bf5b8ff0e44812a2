//! Bytes as text that people paste: a tag such as `st1-`, and base32 with a checksum.
//!
//! Base32 in lower case survives mail, chat, double clicks and being read aloud; the checksum tells "cut off while
//! pasting" from "forged". It is no protection against forgers: what is inside is signed, or secret.

use data_encoding::BASE32_NOPAD;
use zeroize::{Zeroize as _, Zeroizing};

use crate::wire::codec::Malformed;

use super::Refusal;

/// The longest text that is looked at. The longest grant, with a full list of bans, has some 2,800 characters.
const LENGTH_LIMIT: usize = 16_384;

const CHECKSUM: usize = 4;

/// The version of all kinds of text. A newer one is recognised, and refused with the right advice.
const VERSION: u32 = 1;

/// What a text can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    letters: &'static str,
    what: &'static str,
}

impl Kind {
    pub(super) const INVITATION: Self = Self { letters: "st", what: "an invitation" };
    pub(super) const REQUEST: Self = Self { letters: "sr", what: "a request for a certificate" };
    pub(super) const GRANT: Self = Self { letters: "sc", what: "a signed answer to a request" };
    pub(super) const KEY: Self = Self { letters: "sk", what: "a private key" };
    pub(super) const GATE: Self = Self { letters: "sg", what: "a gate key" };
    pub(super) const CERTIFICATE: Self = Self { letters: "sm", what: "a certificate" };
    pub(super) const CHARTER: Self = Self { letters: "sh", what: "a charter" };
    pub(super) const BANS: Self = Self { letters: "sb", what: "a list of bans" };
    pub(super) const SUCCESSION: Self = Self { letters: "su", what: "a succession" };

    const ALL: [Self; 9] = [
        Self::INVITATION,
        Self::REQUEST,
        Self::GRANT,
        Self::KEY,
        Self::GATE,
        Self::CERTIFICATE,
        Self::CHARTER,
        Self::BANS,
        Self::SUCCESSION,
    ];

    fn not_one(self) -> TextError {
        TextError::NotOne { what: self.what, letters: self.letters }
    }
}

/// What is wrong with a text that somebody pasted or a file that somebody edited.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// It does not even begin like one.
    #[error("this is not {what}, which would begin with `{letters}1-`")]
    NotOne {
        /// What was expected.
        what: &'static str,
        /// How that begins.
        letters: &'static str,
    },
    /// It is something else of ours.
    #[error("this is {found}, not {what}")]
    Other {
        /// What was expected.
        what: &'static str,
        /// What it is.
        found: &'static str,
    },
    /// It is one, but of a later version.
    #[error("this is {what} made by a newer stroll; please update this one")]
    Newer {
        /// What was expected.
        what: &'static str,
    },
    /// A character that cannot be part of it.
    #[error("{0:?} does not belong there; was something else pasted with it?")]
    Stray(char),
    /// The checksum is wrong.
    #[error("it is damaged or incomplete; was it cut off while pasting? Copy the whole of it again")]
    Damaged,
    /// The checksum is right, the content is not.
    #[error("it is complete, but does not say what it should")]
    Malformed,
    /// It was good until recently.
    #[error("it has expired; ask for a new one")]
    Expired,
    /// It is readable, but not believed.
    #[error("it is refused: {0}")]
    Refused(#[from] Refusal),
}

impl From<Malformed> for TextError {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

/// The text for these bytes, on one line.
pub(super) fn to_text(kind: Kind, payload: &[u8]) -> String {
    let mut bytes = Zeroizing::new(Vec::with_capacity(payload.len() + CHECKSUM));
    bytes.extend_from_slice(payload);
    bytes.extend_from_slice(&checksum(kind, payload));
    let mut text = format!("{}{VERSION}-", kind.letters);
    // Room for everything at once: a growing text leaves copies of secrets behind.
    text.reserve_exact(BASE32_NOPAD.encode_len(bytes.len()));
    BASE32_NOPAD.encode_append(&bytes, &mut text);
    text.make_ascii_lowercase();
    text
}

/// The bytes of this text. White space and line breaks do not matter, nor does the case.
pub(super) fn from_text(kind: Kind, text: &str) -> Result<Zeroizing<Vec<u8>>, TextError> {
    if text.len() > LENGTH_LIMIT {
        return Err(kind.not_one());
    }
    let mut compact = Zeroizing::new(String::with_capacity(text.len()));
    compact.extend(text.chars().filter(|character| !character.is_whitespace()));
    compact.make_ascii_uppercase();
    let (tag, body) = compact.split_once('-').ok_or_else(|| kind.not_one())?;
    check_tag(kind, tag)?;
    if let Some(stray) = body.chars().find(|character| !matches!(character, 'A'..='Z' | '2'..='7')) {
        return Err(TextError::Stray(stray));
    }
    let mut bytes = Zeroizing::new(BASE32_NOPAD.decode(body.as_bytes()).map_err(|_| TextError::Damaged)?);
    let length = bytes.len().checked_sub(CHECKSUM).ok_or(TextError::Damaged)?;
    let (payload, claimed) = bytes.split_at(length);
    if claimed != checksum(kind, payload) {
        return Err(TextError::Damaged);
    }
    bytes[length..].zeroize();
    bytes.truncate(length);
    Ok(bytes)
}

/// Whether the tag, in capitals, announces this kind in this version.
fn check_tag(kind: Kind, tag: &str) -> Result<(), TextError> {
    let (letters, version) = tag.split_at_checked(2).ok_or_else(|| kind.not_one())?;
    let found = Kind::ALL.into_iter().find(|other| other.letters.eq_ignore_ascii_case(letters));
    match (found, version.parse::<u32>()) {
        (Some(found), Ok(version)) if version >= VERSION => {
            if found != kind {
                Err(TextError::Other { what: kind.what, found: found.what })
            } else if version > VERSION {
                Err(TextError::Newer { what: kind.what })
            } else {
                Ok(())
            }
        }
        _ => Err(kind.not_one()),
    }
}

fn checksum(kind: Kind, payload: &[u8]) -> [u8; CHECKSUM] {
    let mut sum = [0; CHECKSUM];
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"stroll text").update(kind.letters.as_bytes()).update(payload);
    hasher.finalize_xof().fill(&mut sum);
    sum
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KIND: Kind = Kind::INVITATION;

    fn read(text: &str) -> Result<Vec<u8>, TextError> {
        from_text(KIND, text).map(|bytes| bytes.to_vec())
    }

    #[test]
    fn white_space_line_breaks_and_case_do_not_matter() {
        let text = to_text(KIND, b"some bytes that make a line or two");
        let reflowed = text.as_bytes().chunks(7).map(|chunk| std::str::from_utf8(chunk).unwrap());
        let reflowed = format!("  \n\t{}\u{a0}\r\n", reflowed.collect::<Vec<_>>().join("\r\n   "));
        assert_eq!(read(&reflowed), read(&text));
        assert_eq!(read(&text.to_uppercase()), read(&text));
        assert!(text.starts_with("st1-") && !text.contains(char::is_whitespace));
    }

    #[test]
    fn a_text_that_was_cut_is_damaged() {
        let text = to_text(KIND, b"some bytes");
        for length in 4..text.len() {
            assert_eq!(read(&text[..length]), Err(TextError::Damaged), "{length} characters");
        }
        for length in 0..4 {
            assert!(matches!(read(&text[..length]), Err(TextError::NotOne { .. })), "{length} characters");
        }
        assert!(matches!(read(&text[6..]), Err(TextError::NotOne { .. })), "the beginning is lost");
    }

    #[test]
    fn every_altered_character_is_noticed() {
        let text = to_text(KIND, b"some bytes");
        for at in 4..text.len() {
            for other in "abcdefghijklmnopqrstuvwxyz234567".chars().filter(|c| !text[at..].starts_with(*c)) {
                let altered = format!("{}{other}{}", &text[..at], &text[at + 1..]);
                assert_eq!(read(&altered), Err(TextError::Damaged), "{other} at {at}");
            }
        }
    }

    #[test]
    fn errors_say_what_it_is_instead() {
        assert!(matches!(read(""), Err(TextError::NotOne { .. })));
        assert!(matches!(read("hello"), Err(TextError::NotOne { .. })));
        assert!(matches!(read("st0-aaaa"), Err(TextError::NotOne { .. })));
        assert!(matches!(read("ä1-aaaa"), Err(TextError::NotOne { .. })));
        assert!(matches!(read(&"a".repeat(LENGTH_LIMIT + 1)), Err(TextError::NotOne { .. })));
        assert_eq!(read("st2-whatever"), Err(TextError::Newer { what: "an invitation" }));
        assert_eq!(
            read(&to_text(Kind::GRANT, b"bytes")).unwrap_err().to_string(),
            "this is a signed answer to a request, not an invitation"
        );
        assert_eq!(read("st1-abc…def"), Err(TextError::Stray('…')));
    }

    #[test]
    fn all_kinds_have_letters_of_their_own() {
        for (index, kind) in Kind::ALL.iter().enumerate() {
            assert!(Kind::ALL[..index].iter().all(|other| other.letters != kind.letters));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_round_trip(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(read(&to_text(KIND, &bytes)), Ok(bytes));
        }

        #[test]
        fn any_text_is_read_without_panic(text in "(st1-)?\\PC{0,80}") {
            let _ = read(&text);
        }
    }
}
