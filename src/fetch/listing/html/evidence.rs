//! Whether a page is the index of its folder. See the table in the module's documentation.

use super::link::{Folder, trim};

/// Phrases of titles and headings of index pages. What is left of the text is a path.
const PHRASES: [&str; 40] = [
    "index of",
    "directory listing for",
    "directory listing of",
    "directory listing",
    "directory index of",
    "directory index for",
    "directory index",
    "directory list",
    "directory of",
    "directory:",
    "listing directory",
    "listing of",
    "listing for",
    "listing:",
    "contents of",
    "content of",
    "folder listing",
    "file listing",
    "files within",
    "files in",
    "folder:",
    "browsing",
    "index von",
    "inhalt von",
    "verzeichnisinhalt von",
    "verzeichnisinhalt",
    "verzeichnis von",
    "verzeichnis",
    "index de",
    "contenu de",
    "contenu du répertoire",
    "índice de",
    "contenido de",
    "indice di",
    "contenuto di",
    "inhoud van",
    "содержимое",
    "содержание",
    "の一覧",
    "目录",
];

/// Phrases that need no path behind them: a single word will do, or nothing.
const SURE_PHRASES: [&str; 6] =
    ["index of", "directory l", "directory i", "index von", "verzeichnisinhalt", "listing directory"];

/// Texts of links to the folder above, besides `..`.
const PARENT_TEXTS: [&str; 12] = [
    "parent directory",
    "to parent directory",
    "parent folder",
    "go up",
    "up to higher level directory",
    "übergeordnetes verzeichnis",
    "répertoire parent",
    "dossier parent",
    "directorio padre",
    "directory superiore",
    "родительский каталог",
    "親ディレクトリ",
];

/// Letters of prose that an index page may have besides its rows: a header line, the server's signature.
const SMALL_TALK: usize = 80;

/// The same for each row without date and size: a type, an owner.
const LETTERS_PER_ROW: usize = 24;

/// The same for a page without any title or heading.
const SILENT_LETTERS: usize = 8;

/// Longer titles and headings announce nothing.
const HEADING_LIMIT: usize = 2 << 10;

/// Headings behind these are not looked at.
const MOST_HEADINGS: usize = 8;

/// How a page announces what it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Announced {
    /// Nothing, not even a title.
    #[default]
    Silent,
    /// A title or heading about something else.
    Other,
    /// The name of the folder, or a path that is another one.
    Name,
    /// The path of the folder, or an index of something.
    Path,
}

/// What was found on a page so far.
#[allow(clippy::struct_excessive_bools, reason = "independent signs")]
#[derive(Debug, Default)]
pub(super) struct Evidence {
    announced: Announced,
    headings: usize,
    /// Children in all.
    pub(super) children: u64,
    /// Children whose link has the name as its text.
    pub(super) named: u64,
    /// Children whose link has another text, and that have neither date nor size.
    pub(super) misnamed: u64,
    /// Children with date or size.
    pub(super) with_columns: u64,
    /// Links to a folder above, and whether one of them says so.
    pub(super) above: u64,
    pub(super) has_parent: bool,
    pub(super) sorting: u64,
    pub(super) has_column_sorting: bool,
    pub(super) elsewhere: u64,
    /// Letters outside of links, titles, headings and rows with date or size.
    pub(super) letters: usize,
    pub(super) asks_for_password: bool,
    /// Parts of applications: external scripts, navigation, forms, frames.
    pub(super) application_parts: u64,
    pub(super) external_scripts: u64,
    pub(super) has_list: bool,
}

impl Evidence {
    /// Looks at a title or a heading.
    pub(super) fn add_heading(&mut self, text: &[u8], folder: &Folder) {
        if text.len() > HEADING_LIMIT || self.headings >= MOST_HEADINGS {
            return;
        }
        let text = String::from_utf8_lossy(text).replace('\u{a0}', " ");
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if !text.is_empty() {
            self.headings += 1;
            self.announced = self.announced.max(announced(&text, folder));
        }
    }

    /// Looks at the text of a link to a folder above.
    pub(super) fn add_parent(&mut self, text: &[u8]) {
        self.above += 1;
        let text = String::from_utf8_lossy(trim(text)).to_lowercase();
        let text = text.trim_matches(|c: char| !c.is_alphanumeric() && c != '.').trim();
        self.has_parent |=
            matches!(text, ".." | "up") || PARENT_TEXTS.iter().any(|parent| text.contains(parent));
    }

    /// `Ok` if it is an index page; otherwise the reason.
    pub(super) fn judge(&self) -> Result<(), String> {
        if self.asks_for_password {
            return Err("the page asks for a password".to_owned());
        }
        let good = self.named.max(self.with_columns);
        let odd = self.elsewhere + self.misnamed;
        let is_brief =
            self.letters <= SMALL_TALK + LETTERS_PER_ROW * usize::try_from(good).unwrap_or(usize::MAX / 64);
        let is_plain = self.application_parts == 0 && is_brief;
        let has_frame = self.has_parent || self.sorting > 0;
        let has_columns = self.children > 0 && self.with_columns * 10 >= self.children * 9;
        // Columns that sort by `?C=N;O=D` are made by servers only.
        if self.has_column_sorting && self.sorting > 1 && (self.children > 0 || self.above > 0) {
            return Ok(());
        }
        let is_index = match self.announced {
            Announced::Path if self.children > 0 || has_frame => {
                has_frame && odd <= good + 10 || odd <= good + 3
            }
            Announced::Path => self.external_scripts == 0 && odd <= 2 && self.letters < 4 * SMALL_TALK,
            Announced::Name => is_plain && odd <= 2 && (has_frame || has_columns || good > 2),
            Announced::Other => {
                let is_sure = self.has_parent && has_columns && is_brief;
                let is_likely = (self.has_parent || has_columns) && is_plain;
                odd <= 1 && self.misnamed == 0 && (is_sure || is_likely)
            }
            Announced::Silent => {
                let is_bare = is_plain && self.letters <= SILENT_LETTERS && odd * 4 <= self.children;
                is_bare && (self.children > 0 || has_frame || (self.has_list && self.letters == 0))
            }
        };
        if is_index { Ok(()) } else { Err(self.reason(odd)) }
    }

    fn reason(&self, odd: u64) -> String {
        if self.children == 0 {
            return "the page names no files of this folder".to_owned();
        }
        if odd > 2 {
            return format!("{odd} of its links are not entries of this folder");
        }
        "neither its title nor its structure is that of a directory index".to_owned()
    }
}

fn announced(text: &str, folder: &Folder) -> Announced {
    let (name, path) = folder.path();
    let (name, path) =
        (String::from_utf8_lossy(&name).into_owned(), String::from_utf8_lossy(&path).into_owned());
    let lower = text.to_lowercase();
    for phrase in PHRASES {
        let Some(at) = lower.find(phrase) else { continue };
        // Case folding may change lengths; then the positions are of no use.
        let Some((before, after)) = text.get(..at).zip(text.get(at + phrase.len()..)) else { continue };
        let rest = format!("{} {}", before.trim(), after.trim());
        let rest = bare(&rest);
        let is_sure = SURE_PHRASES.iter().any(|sure| phrase.starts_with(sure));
        let is_path = rest.starts_with('/') || rest.ends_with('/') || rest.trim_matches('/') == name;
        if is_path && !rest.is_empty()
            || is_sure && !rest.contains(' ')
            || ends_with_path(rest, &path, folder)
        {
            return Announced::Path;
        }
    }
    let text = bare(text);
    if ends_with_path(text, &path, folder) {
        return Announced::Path;
    }
    let is_name = !name.is_empty() && (text == name || text.strip_suffix('/') == Some(&name));
    let is_path = text.contains('/') && (!text.contains(' ') || text.starts_with('/') || text.ends_with('/'));
    if is_name || is_path { Announced::Name } else { Announced::Other }
}

fn bare(text: &str) -> &str {
    text.trim_matches(|c: char| {
        c.is_whitespace() || matches!(c, ':' | '[' | ']' | '"' | '\'' | '(' | ')' | '\u{ab}' | '\u{bb}')
    })
}

/// `/pub/data/`, `host:80/pub/data/`, `host - /pub/data/`.
fn ends_with_path(text: &str, path: &str, folder: &Folder) -> bool {
    if path == "/" && !text.ends_with('/') {
        return false;
    }
    let text = if text.ends_with('/') { text.to_owned() } else { format!("{text}/") };
    // Breadcrumbs have blanks around their slashes.
    let joined = text.replace(" / ", "/").replace("/ ", "/").replace("//", "/");
    [text, joined].iter().any(|text| {
        let Some(before) = text.strip_suffix(path) else { return false };
        let before = before.trim_end().to_lowercase();
        before.is_empty() && text.len() > 1
            || before.ends_with(['-', ':', '~', '/'])
            || before.ends_with(&folder.host())
            || (path.len() > 1 && before.split(' ').count() <= 2)
    })
}
