//! Reads lists of digests as sources publish them: `SHA256SUMS`, `MD5SUMS`, `CHECKSUM`, `file.md5`, `file.sha256`.
//!
//! Pure, and bounded while it reads: such a list comes from a stranger. Lines that hold no digest are skipped (signatures,
//! remarks). A list in memory takes 8 bytes and the digest for each line, whatever the length of the names: names are
//! kept as hashes. A page of HTML is not a list.

mod list_name;

use super::digest::{Algorithm, Digest};
pub use list_name::ListName;

/// The most bytes that are read of a list.
pub const LARGEST: u64 = 1 << 30;

/// The most memory that the digests of one list take: 1.2 million of SHA-256.
pub const MOST_MEMORY: usize = 48 << 20;

/// Longer lines are skipped: a path of 4,096 bytes, all escaped, and a digest fit.
const LONGEST_LINE: usize = 10 << 10;

/// Why a list is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SumsError {
    /// A page instead of a list.
    #[error("a page of HTML or XML, not a list of checksums")]
    Page,
    /// More lines than fit into [`MOST_MEMORY`].
    #[error("more checksums than fit into {} MiB of memory", MOST_MEMORY >> 20)]
    TooMany,
    /// More bytes than [`LARGEST`].
    #[error("larger than {} MiB", LARGEST >> 20)]
    TooLarge,
}

/// What a list says of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// Nothing.
    Nothing,
    /// Its digest.
    Digest(Digest),
    /// Different digests of one kind: none of them can be trusted.
    Conflict,
}

/// Digests by the path that the list gives a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    sha256: Table<32>,
    sha512: Table<64>,
    blake3: Table<32>,
    md5: Table<16>,
    /// The first path, as long as all lines have the same.
    single: Option<Vec<u8>>,
    has_several: bool,
    /// Lines with digests that are not used here, such as SHA-1.
    unused: u64,
}

impl Sums {
    /// Reads a list. Without a hint the function follows from the number of digits.
    pub fn parse(content: &[u8], hint: Option<Algorithm>) -> Result<Self, SumsError> {
        let mut reader = SumsReader::new(hint);
        reader.push(content)?;
        reader.finish()
    }

    /// What the list says of a file, by its path relative to the list.
    pub fn said_of(&self, path: &[u8]) -> Said {
        let key = key(path);
        let digest = |digest: Digest| Said::Digest(digest);
        // The stronger function first. MD5 tells accidents only, so it comes last.
        [
            self.sha256.find(key, |bytes| digest(Digest::Sha256(bytes))),
            self.sha512.find(key, |bytes| digest(Digest::Sha512(bytes))),
            self.blake3.find(key, |bytes| digest(Digest::Blake3(bytes))),
            self.md5.find(key, |bytes| digest(Digest::Md5(bytes))),
        ]
        .into_iter()
        .reduce(|a, b| match (a, b) {
            (Said::Conflict, _) | (_, Said::Conflict) => Said::Conflict,
            (Said::Nothing, b) => b,
            (a, _) => a,
        })
        .unwrap_or(Said::Nothing)
    }

    /// What a list about one file says, such as `file.md5`: under its name, under its name in another folder, or without any
    /// name.
    pub fn said_of_only(&self, name: &[u8]) -> Said {
        match (self.said_of(name), &self.single) {
            (Said::Nothing, None) if !self.has_several => self.said_of(b""),
            (Said::Nothing, Some(path)) if !self.has_several && file_name(path) == name => self.said_of(path),
            (said, _) => said,
        }
    }

    /// How many digests it has.
    pub fn len(&self) -> usize {
        self.sha256.0.len() + self.sha512.0.len() + self.blake3.0.len() + self.md5.0.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many lines have digests of functions that are not used here, such as SHA-1.
    pub fn unused(&self) -> u64 {
        self.unused
    }

    /// The memory that the digests take, in bytes.
    pub fn memory(&self) -> usize {
        self.sha256.memory() + self.sha512.memory() + self.blake3.memory() + self.md5.memory()
    }

    fn add(&mut self, path: Option<&[u8]>, digest: Digest) {
        if let Some(path) = path.filter(|_| !self.has_several) {
            match &self.single {
                None => self.single = Some(path.to_vec()),
                Some(first) if first != path => (self.single, self.has_several) = (None, true),
                Some(_) => {}
            }
        }
        let key = key(path.unwrap_or_default());
        match digest {
            Digest::Sha256(bytes) => self.sha256.0.push((key, bytes)),
            Digest::Sha512(bytes) => self.sha512.0.push((key, bytes)),
            Digest::Blake3(bytes) => self.blake3.0.push((key, bytes)),
            Digest::Md5(bytes) => self.md5.0.push((key, bytes)),
        }
    }
}

/// Digests of one function by the hash of the path, sorted once the list is read.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Table<const N: usize>(Vec<([u8; 8], [u8; N])>);

impl<const N: usize> Default for Table<N> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<const N: usize> Table<N> {
    fn find(&self, key: [u8; 8], digest: impl FnOnce([u8; N]) -> Said) -> Said {
        let first = self.0.partition_point(|(other, _)| *other < key);
        let mut same = self.0.iter().skip(first).take_while(|(other, _)| *other == key);
        match (same.next(), same.next()) {
            (None, _) => Said::Nothing,
            (Some((_, bytes)), None) => digest(*bytes),
            (Some(_), Some(_)) => Said::Conflict,
        }
    }

    fn memory(&self) -> usize {
        self.0.len() * (8 + N)
    }

    fn settle(&mut self) {
        self.0.sort_unstable();
        self.0.dedup();
        self.0.shrink_to_fit();
    }
}

/// Two of a million paths share a key with a probability of 3 in 100 million; the digest would then not match.
fn key(path: &[u8]) -> [u8; 8] {
    let mut key = [0; 8];
    blake3::Hasher::new().update(path).finalize_xof().fill(&mut key);
    key
}

fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

/// Reads a list piece by piece, as it comes.
#[derive(Debug)]
pub struct SumsReader {
    lines: Lines,
    sums: Sums,
}

impl SumsReader {
    /// Nothing yet.
    pub fn new(hint: Option<Algorithm>) -> Self {
        Self { lines: Lines::new(hint), sums: Sums::default() }
    }

    /// The next piece.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), SumsError> {
        let sums = &mut self.sums;
        self.lines.push(bytes, &mut |line| take(sums, line))
    }

    /// The memory that the digests take so far, in bytes.
    pub fn memory(&self) -> usize {
        self.sums.memory()
    }

    /// Nothing more comes.
    pub fn finish(mut self) -> Result<Sums, SumsError> {
        let sums = &mut self.sums;
        self.lines.finish(&mut |line| take(sums, line))?;
        sums.sha256.settle();
        sums.sha512.settle();
        sums.blake3.settle();
        sums.md5.settle();
        Ok(self.sums)
    }
}

fn take(sums: &mut Sums, line: Line<'_>) -> Result<(), SumsError> {
    match line {
        Line::Digest { path, digest } => sums.add(path, digest),
        Line::Unused => sums.unused += 1,
    }
    if sums.memory() > MOST_MEMORY { Err(SumsError::TooMany) } else { Ok(()) }
}

/// A line that says something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// The digest of a file, by its path relative to the list; `None` if the line does not name it.
    Digest {
        /// The path, without `./` before it.
        path: Option<&'a [u8]>,
        /// What its bytes should give.
        digest: Digest,
    },
    /// A digest that is not used here: of an unknown function, or another one than the list's name says.
    Unused,
}

/// What is done with each line.
pub type OnLine<'a> = &'a mut dyn FnMut(Line<'_>) -> Result<(), SumsError>;

/// Splits a list into its lines, piece by piece.
#[derive(Debug)]
pub struct Lines {
    hint: Option<Algorithm>,
    /// The beginning of a line whose end has not come yet.
    begun: Vec<u8>,
    is_too_long: bool,
    bytes: u64,
    has_begun: bool,
    signature: Signature,
}

/// How far a signed list was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signature {
    /// No sign of one.
    None,
    /// In the text that is signed.
    Text,
    /// In the signature.
    Inside,
}

impl Lines {
    /// Of a list whose name tells the function, or does not.
    pub fn new(hint: Option<Algorithm>) -> Self {
        Self {
            hint,
            begun: Vec::new(),
            is_too_long: false,
            bytes: 0,
            has_begun: false,
            signature: Signature::None,
        }
    }

    /// The next piece.
    pub fn push(&mut self, bytes: &[u8], with: OnLine<'_>) -> Result<(), SumsError> {
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        if self.bytes > LARGEST {
            return Err(SumsError::TooLarge);
        }
        let mut lines = bytes.split(|byte| *byte == b'\n').peekable();
        while let Some(piece) = lines.next() {
            let is_whole = lines.peek().is_some();
            if is_whole && self.begun.is_empty() && !self.is_too_long {
                self.read(piece, with)?;
                continue;
            }
            self.is_too_long |= self.begun.len() + piece.len() > LONGEST_LINE;
            if self.is_too_long {
                self.begun.clear();
            } else {
                self.begun.extend_from_slice(piece);
            }
            if is_whole {
                self.end_line(with)?;
            }
        }
        Ok(())
    }

    /// Nothing more comes.
    pub fn finish(&mut self, with: OnLine<'_>) -> Result<(), SumsError> {
        self.end_line(with)
    }

    fn end_line(&mut self, with: OnLine<'_>) -> Result<(), SumsError> {
        let line = std::mem::take(&mut self.begun);
        if std::mem::take(&mut self.is_too_long) {
            return Ok(());
        }
        self.read(&line, with)
    }

    fn read(&mut self, line: &[u8], with: OnLine<'_>) -> Result<(), SumsError> {
        if line.len() > LONGEST_LINE {
            return Ok(());
        }
        let mut line = line.strip_suffix(b"\r").unwrap_or(line);
        if !self.has_begun {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
            let text = line.trim_ascii_start();
            if text.starts_with(b"<") {
                return Err(SumsError::Page);
            }
            self.has_begun = !text.is_empty();
        }
        if line.starts_with(b"-----") {
            if line.starts_with(b"-----BEGIN PGP SIGNED") {
                self.signature = Signature::Text;
            } else if line.starts_with(b"-----BEGIN PGP SIGNATURE") {
                self.signature = Signature::Inside;
            } else if line.starts_with(b"-----END PGP SIGNATURE") {
                self.signature = Signature::None;
            }
            return Ok(());
        }
        if line.is_empty()
            || line.starts_with(b"#")
            || line.starts_with(b";")
            || self.signature == Signature::Inside
        {
            return Ok(());
        }
        // In a signed text a line that begins with a dash is escaped.
        let line = line.strip_prefix(b"- ").filter(|_| self.signature == Signature::Text).unwrap_or(line);
        let found =
            bsd(line, self.hint).or_else(|| gnu(line, self.hint)).or_else(|| named_first(line, self.hint));
        match found {
            None => Ok(()),
            Some(Found::Unused) => with(Line::Unused),
            Some(Found::Digest(path, digest)) => {
                let path = path.as_deref().map(without_dot);
                with(Line::Digest { path, digest })
            }
        }
    }
}

/// What a line has.
enum Found {
    Digest(Option<Vec<u8>>, Digest),
    Unused,
}

fn without_dot(path: &[u8]) -> &[u8] {
    let mut path = path;
    while let Some(rest) = path.strip_prefix(b"./") {
        path = rest;
    }
    path
}

/// `SHA256 (name) = HEX` as BSD writes it, or `SHA2-256(name)= HEX` as OpenSSL does; names may contain parentheses.
fn bsd(line: &[u8], hint: Option<Algorithm>) -> Option<Found> {
    let (line, is_escaped) = unmarked(line);
    let open = line.iter().position(|byte| *byte == b'(')?;
    let (function, rest) = (line.get(..open)?.trim_ascii_end(), line.get(open + 1..)?);
    let close = rest.iter().rposition(|byte| *byte == b')')?;
    let (name, rest) = (rest.get(..close)?, rest.get(close + 1..)?.trim_ascii_start());
    let hex = rest.strip_prefix(b"=")?.trim_ascii();
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'/');
    if function.is_empty() || !function.iter().all(is_word) || !is_hex(hex) {
        return None;
    }
    let Some(algorithm) = Algorithm::named(std::str::from_utf8(function).ok()?) else {
        return Some(Found::Unused);
    };
    if hint.is_some_and(|hint| hint != algorithm) {
        return Some(Found::Unused);
    }
    let digest = Digest::from_hex(algorithm, std::str::from_utf8(hex).ok()?).ok()?;
    Some(Found::Digest(Some(unescaped(name, is_escaped)?), digest))
}

/// `HEX  name`, `HEX *name`, or only `HEX`.
fn gnu(line: &[u8], hint: Option<Algorithm>) -> Option<Found> {
    let (line, is_escaped) = unmarked(line);
    let digits = line.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(line.len());
    let (hex, rest) = line.split_at_checked(digits)?;
    if !rest.is_empty() && !rest.starts_with(b" ") && !rest.starts_with(b"\t") {
        return None;
    }
    let digest = match digest(hex, hint)? {
        Found::Digest(_, digest) => digest,
        Found::Unused => return Some(Found::Unused),
    };
    // A blank and a marker with no name behind them; more blanks than these are a name, as for md5sum.
    if matches!(rest, b"" | b" " | b"\t" | b"  " | b"  -" | b" *-") {
        return Some(Found::Digest(None, digest));
    }
    // One blank and a marker: blank for text, star for binary. Some writers leave the marker out, or use a tab.
    let rest = rest.get(1..)?;
    let name = rest.strip_prefix(b" ").or_else(|| rest.strip_prefix(b"*")).unwrap_or(rest);
    Some(Found::Digest(Some(unescaped(name, is_escaped)?), digest))
}

/// `name: HEX`, where `gpg --print-md` puts blanks between the digits.
fn named_first(line: &[u8], hint: Option<Algorithm>) -> Option<Found> {
    let colon = line.iter().rposition(|byte| *byte == b':')?;
    let (name, rest) = (line.get(..colon)?, line.get(colon + 1..)?);
    let hex: Vec<u8> = rest.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    match digest(&hex, hint)? {
        Found::Digest(_, digest) if !name.is_empty() => Some(Found::Digest(Some(name.to_vec()), digest)),
        Found::Digest(..) => None,
        Found::Unused => Some(Found::Unused),
    }
}

fn is_hex(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(u8::is_ascii_hexdigit)
}

/// A digest by its digits alone.
fn digest(hex: &[u8], hint: Option<Algorithm>) -> Option<Found> {
    if !is_hex(hex) {
        return None;
    }
    let Some(algorithm) = function_of(hex.len(), hint) else {
        // As many digits as CRC-32, MD5, SHA-1, Tiger, SHA-224, SHA-256, SHA-384 and SHA-512 have.
        return matches!(hex.len(), 8 | 32 | 40 | 48 | 56 | 64 | 96 | 128).then_some(Found::Unused);
    };
    let digest = Digest::from_hex(algorithm, std::str::from_utf8(hex).ok()?).ok()?;
    Some(Found::Digest(None, digest))
}

/// A backslash at the start of a line says that its name is escaped.
fn unmarked(line: &[u8]) -> (&[u8], bool) {
    line.strip_prefix(b"\\").map_or((line, false), |rest| (rest, true))
}

fn function_of(digits: usize, hint: Option<Algorithm>) -> Option<Algorithm> {
    match (digits, hint) {
        (32, None | Some(Algorithm::Md5)) => Some(Algorithm::Md5),
        (64, Some(Algorithm::Blake3)) => Some(Algorithm::Blake3),
        (64, None | Some(Algorithm::Sha256)) => Some(Algorithm::Sha256),
        (128, None | Some(Algorithm::Sha512)) => Some(Algorithm::Sha512),
        _ => None,
    }
}

fn unescaped(name: &[u8], is_escaped: bool) -> Option<Vec<u8>> {
    if name.is_empty() || !is_escaped {
        return (!name.is_empty()).then(|| name.to_vec());
    }
    let mut plain = Vec::with_capacity(name.len());
    let mut bytes = name.iter();
    while let Some(byte) = bytes.next() {
        plain.push(match byte {
            b'\\' => match bytes.next()? {
                b'n' => b'\n',
                b'r' => b'\r',
                b'\\' => b'\\',
                _ => return None,
            },
            plain => *plain,
        });
    }
    Some(plain)
}

#[cfg(test)]
mod tests;
