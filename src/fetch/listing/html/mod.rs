//! Index pages of web servers, read while they arrive.
//!
//! ```text
//!   bytes ──> tags ──> rows ──> link ──> Collector
//!                └────> evidence: is it an index at all?
//! ```
//!
//! # Names
//!
//! Only links to a direct child of the folder count. The address of the link is the name, decoded once; the text that people
//! see is often cut. Where a server does not encode `:`, `?` or `#` in links, the text of the link tells that they are part of
//! the name.
//!
//! # Date and size
//!
//! They stand in the row of the link, before or behind it. A row is a `<tr>`, an `<li>`, a line of `<pre>`, or what stands
//! between two `<br>`. A row with two files, two dates or two sizes tells nothing: the mirror then asks for each file. Dates
//! only tell whether they are others than before, because most have no zone; sizes count if they are written to the byte.
//!
//! # Which pages are an index
//!
//! A folder may have an `index.html`, or a proxy may answer with a login page. Such a page must not pass for an empty folder.
//!
//! | title or headings | accepted with |
//! |---|---|
//! | any | columns that sort (`?C=N;O=D`), and entries or a link to the folder above |
//! | "Index of" and the like, or the path of the folder | entries, a link to the folder above, or an empty page without scripts of others; few links elsewhere |
//! | the name of the folder | a link to the folder above, sorting, date and size in nearly every row, or three entries; no prose |
//! | something else | `..`, or date and size in nearly every row; at most one link elsewhere; no prose |
//! | none | hardly anything but links to entries, with their names as text; or an empty `<pre>` |
//!
//! A password field speaks against it, and so do navigation, forms, frames and external scripts for the last three lines (but
//! for the third from last with both `..` and columns).
//!
//! A page that lacks the end of what it opened is cut. So is a page of caddy with exactly 10,000 entries: it lists no more, and
//! does not say so.

mod evidence;
mod link;
mod row;
mod tags;

use std::io::Read;

use url::Url;

use super::super::{Fault, NameError, PackedListing};
use super::{Collector, Found, Kind};
use evidence::Evidence;
use link::{Folder, Leads, Text};
use row::{CELL, Child, Facts, Row, attribute_number};
use tags::{Sink, Tag};

/// Entries at which caddy cuts its pages.
const CADDY_LIMIT: usize = 10_000;

/// Reads a page while it arrives; `folder` is its address. A page that is not an index is a fault.
pub fn read(page: impl Read, folder: &Url, hidden: bool) -> Result<PackedListing, Fault> {
    let mut reader = Reader::new(folder, hidden);
    tags::read(page, &mut reader).map_err(|error| Fault::NotAnIndex(error.to_string()))?;
    reader.finish()
}

/// Reads a whole page.
pub fn parse(page: &[u8], folder: &Url, hidden: bool) -> Result<PackedListing, Fault> {
    read(page, folder, hidden)
}

/// A link with so few letters shows an icon, not a name.
const ICON_LETTERS: usize = 2;

/// A link that is being read.
struct Open {
    href: Vec<u8>,
    text: Text,
    is_folder: bool,
}

/// How much of the page's structure is still open.
#[derive(Default)]
struct Ends {
    /// There was a `<html>` or `<body>`.
    has_frame: bool,
    has_ended: bool,
    /// Lists and tables that are open, and whether there was one.
    lists: u32,
    had_list: bool,
}

impl Ends {
    /// Every server closes what it opened: a page without its end was cut.
    fn is_whole(&self) -> bool {
        self.has_ended || (!self.has_frame && self.had_list && self.lists == 0)
    }
}

struct Reader {
    folder: Folder,
    collector: Collector,
    evidence: Evidence,
    row: Row,
    link: Option<Open>,
    ends: Ends,
    /// The title or heading that is being read.
    heading: Option<Vec<u8>>,
    /// The element whose text is not shown.
    skipped: Option<Vec<u8>>,
    pre: u32,
    head_cells: u32,
    /// Inside `<time datetime>`: the text repeats the attribute.
    is_timed: bool,
    is_of_caddy: bool,
}

impl Sink for Reader {
    fn start(&mut self, tag: &Tag) {
        match tag.name.as_slice() {
            b"a" => self.open_link(tag),
            b"html" | b"body" => self.ends.has_frame = true,
            b"base" => {
                if let Some(href) = tag.value("href") {
                    self.folder.set_base(href);
                }
            }
            b"title" | b"h1" | b"h2" | b"h3" | b"h4" | b"h5" => {
                self.end_row();
                self.heading = Some(Vec::new());
            }
            b"script" | b"style" | b"textarea" | b"noscript" | b"select" => self.skip(tag),
            b"pre" | b"ul" | b"ol" | b"table" => {
                self.end_row();
                self.ends.lists += 1;
                self.ends.had_list = true;
                let is_pre = tag.name == b"pre";
                self.pre += u32::from(is_pre);
                self.evidence.has_list |= is_pre;
            }
            b"tr" | b"li" => {
                self.close_link();
                self.end_row();
            }
            b"hr" | b"dt" | b"tbody" | b"thead" | b"tfoot" => self.end_row(),
            // Cells and list items may have paragraphs.
            b"p" if self.ends.lists == 0 => self.end_row(),
            b"br" if self.link.is_none() => self.end_row(),
            b"td" => self.row.begin_cell(),
            b"th" => self.head_cells += 1,
            b"input" if tag.is("type", "password") => self.evidence.asks_for_password = true,
            b"nav" | b"form" | b"iframe" | b"frameset" | b"video" => self.evidence.application_parts += 1,
            _ => {}
        }
        self.look_for_marks(tag);
        self.split_link();
    }

    fn end(&mut self, name: &[u8]) {
        if self.skipped.as_deref() == Some(name) {
            self.skipped = None;
            return;
        }
        self.row.end_element();
        match name {
            b"a" => self.close_link(),
            b"html" | b"body" => {
                self.ends.has_ended = true;
                self.end_row();
            }
            b"title" | b"h1" | b"h2" | b"h3" | b"h4" | b"h5" => self.end_heading(),
            b"pre" | b"ul" | b"ol" | b"table" => {
                self.end_row();
                self.ends.lists = self.ends.lists.saturating_sub(1);
                self.pre = self.pre.saturating_sub(u32::from(name == b"pre"));
            }
            b"tr" | b"li" | b"thead" | b"tbody" => self.end_row(),
            b"p" if self.ends.lists == 0 => self.end_row(),
            b"th" => self.head_cells = self.head_cells.saturating_sub(1),
            b"time" => self.is_timed = false,
            _ => self.split_link(),
        }
    }

    fn text(&mut self, piece: &[u8]) {
        if self.skipped.is_some() {
            return;
        }
        if let Some(heading) = &mut self.heading {
            // One more than the longest that counts.
            let room = (4usize << 10).saturating_sub(heading.len());
            heading.extend_from_slice(piece.get(..room).unwrap_or(piece));
        }
        if let Some(link) = &mut self.link {
            link.text.push(piece);
        } else if self.heading.is_none() && self.head_cells == 0 && !self.is_timed {
            self.take_text(piece);
        }
    }
}

impl Reader {
    fn new(folder: &Url, hidden: bool) -> Self {
        Self {
            folder: Folder::new(folder),
            collector: Collector::new(hidden).merging_repeats(),
            evidence: Evidence::default(),
            row: Row::default(),
            link: None,
            ends: Ends::default(),
            heading: None,
            skipped: None,
            pre: 0,
            head_cells: 0,
            is_timed: false,
            is_of_caddy: false,
        }
    }

    fn finish(mut self) -> Result<PackedListing, Fault> {
        let is_whole = self.ends.is_whole() && self.link.is_none();
        self.close_link();
        self.end_heading();
        self.end_row();
        self.evidence.judge().map_err(Fault::NotAnIndex)?;
        let is_cut_by_caddy = self.is_of_caddy && self.collector.len() >= CADDY_LIMIT;
        if !is_whole || is_cut_by_caddy {
            self.collector.mark_truncated();
        }
        Ok(self.collector.finish(None))
    }

    fn skip(&mut self, tag: &Tag) {
        if tag.name == b"script" && tag.value("src").is_some() {
            self.evidence.external_scripts += 1;
            self.evidence.application_parts += 1;
        }
        self.skipped = Some(tag.name.clone());
    }

    /// Text outside of links: the end of a line ends a row of `<pre>`.
    fn take_text(&mut self, piece: &[u8]) {
        if self.pre == 0 {
            return self.row.push(piece);
        }
        for (index, line) in piece.split(|byte| *byte == b'\n').enumerate() {
            if index > 0 {
                self.end_row();
            }
            self.row.push(line);
        }
    }

    /// Icons, classes and attributes that say something of the row.
    fn look_for_marks(&mut self, tag: &Tag) {
        let name = tag.name.as_slice();
        if name == b"time"
            && let Some(time) = tag.value("datetime")
        {
            self.row.push_time(time);
            self.is_timed = true;
        }
        let number = match name {
            b"data" => tag.value("value"),
            b"td" | b"span" | b"div" | b"size" => {
                ["data-order", "data-sort", "data-value", "data-size", "sort"]
                    .iter()
                    .find_map(|name| tag.value(name))
            }
            _ => None,
        };
        if let Some(number) = number.and_then(attribute_number) {
            self.row.push_attribute(number);
        }
        if is_folder_mark(tag) {
            match &mut self.link {
                Some(link) => link.is_folder = true,
                None => self.row.is_folder = true,
            }
        }
    }

    fn split_link(&mut self) {
        match &mut self.link {
            Some(link) => link.text.split(),
            None => self.row.push(b" "),
        }
    }

    fn open_link(&mut self, tag: &Tag) {
        self.close_link();
        if tag.is_cut {
            // Its address is not known in full: something is missing in the listing.
            self.collector.mark_truncated();
        } else if let Some(href) = tag.value("href") {
            self.link = Some(Open { href: href.to_vec(), text: Text::default(), is_folder: false });
        }
    }

    fn close_link(&mut self) {
        let Some(Open { href, text, is_folder }) = self.link.take() else { return };
        let leads = self.folder.follow(&href, &text);
        let is_up = matches!(leads, Leads::Above | Leads::Itself) && href.len() > 1 && href.ends_with(b"/");
        if href.starts_with(b"?") || (is_up && href.starts_with(b"/")) || matches!(&href[..], b"../" | b"./")
        {
            self.collector.mark_folders();
        }
        match leads {
            Leads::Child { name, kind } => self.add_child(name, kind, &text, is_folder),
            Leads::Unclear(name) => self.collector.refuse(&name, NameError::NotEncoded),
            Leads::Itself => {}
            Leads::Sorted => {
                self.row.is_header = true;
                self.evidence.sorting += 1;
                self.evidence.has_column_sorting |= href.starts_with(b"?C=");
            }
            Leads::Paged => self.collector.mark_truncated(),
            Leads::Above => self.evidence.add_parent(&text.all()),
            Leads::Elsewhere => {
                self.is_of_caddy |= href.starts_with(b"https://caddyserver.com");
                self.evidence.elsewhere += 1;
            }
        }
    }

    fn add_child(&mut self, name: Vec<u8>, kind: Kind, text: &Text, is_folder: bool) {
        let found = text.find(&name);
        let kind = if is_folder || text.is_folder(&name) { Kind::Folder } else { kind };
        let is_named = found.is_some();
        let child = Child { is_named, is_misnamed: !is_named && text.letters() > ICON_LETTERS, name, kind };
        match &mut self.row.child {
            // A picture and a name that lead to the same place are one entry.
            Some(before) if before.name == child.name => {
                before.is_named |= child.is_named;
                before.is_misnamed |= child.is_misnamed;
                if child.kind == Kind::Folder {
                    before.kind = Kind::Folder;
                }
            }
            Some(_) => {
                self.row.is_shared = true;
                self.settle();
                self.row.child = Some(child);
            }
            None => self.row.child = Some(child),
        }
        // Some pages have date and size inside of the link, in elements of their own.
        if let Some(found) = found {
            for (index, part) in text.parts.iter().enumerate() {
                if found != usize::MAX && index != found {
                    self.row.push(&[CELL]);
                    self.row.push(part);
                }
            }
        }
    }

    /// Adds the entry of the row.
    fn settle(&mut self) {
        let Some(child) = self.row.child.take() else { return };
        // The text counts for the child that it stands behind; where it is shared it counts for none.
        self.row.child = Some(child.clone());
        let facts = self.row.facts();
        let kind = self.row.kind(&child);
        self.row.child = None;
        let Facts { when, size, has_columns } = facts;
        self.evidence.children += 1;
        self.evidence.named += u64::from(child.is_named);
        self.evidence.misnamed += u64::from(child.is_misnamed && !child.is_named && !has_columns);
        self.evidence.with_columns += u64::from(has_columns);
        if !has_columns && !self.row.is_shared {
            self.evidence.letters += self.row.letters();
        }
        self.collector.add(&Found { name: &child.name, kind, size, when });
    }

    fn end_row(&mut self) {
        if self.link.is_some() {
            return;
        }
        if self.row.child.is_some() {
            self.settle();
        } else if !self.row.is_header {
            self.evidence.letters += self.row.letters();
        }
        self.row = Row::default();
        self.is_timed = false;
    }

    fn end_heading(&mut self) {
        if let Some(heading) = self.heading.take() {
            self.evidence.add_heading(&heading, &self.folder);
            self.row = Row::default();
        }
    }
}

/// An icon, or a class of the row or link, that only folders have.
fn is_folder_mark(tag: &Tag) -> bool {
    let text =
        |name| tag.value(name).map(|value| String::from_utf8_lossy(value).to_lowercase()).unwrap_or_default();
    match tag.name.as_slice() {
        b"img" => {
            let alt = text("alt");
            matches!(
                alt.trim_matches(|c: char| !c.is_alphabetic()),
                "dir" | "directory" | "folder" | "verzeichnis"
            )
        }
        b"use" => matches!(text("xlink:href").as_str(), "#folder") || text("href") == "#folder",
        b"a" | b"li" | b"tr" | b"i" | b"svg" => text("class").split_ascii_whitespace().any(|class| {
            matches!(
                class,
                "directory"
                    | "dir"
                    | "folder"
                    | "icon-directory"
                    | "icon-folder"
                    | "fa-folder"
                    | "bi-folder"
                    | "is-dir"
            )
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
