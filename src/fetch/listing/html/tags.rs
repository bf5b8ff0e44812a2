//! Tags and text of a page, as the tokenizer finds them, in bounded memory: nothing is kept but the tag that is being read.
//! Text is passed on piece by piece; comments are dropped.

use std::io::{self, Read};

use html5gum::{Emitter, Error, IoReader, State, Tokenizer, naive_next_state};

/// Longer names of tags and attributes are cut: none of ours is.
const NAME_LIMIT: usize = 64;

/// Longer values of attributes are dropped: an encoded name of 255 bytes behind a long path takes less.
const VALUE_LIMIT: usize = 8 << 10;

/// More attributes of one tag are dropped.
const ATTRIBUTES_LIMIT: usize = 32;

/// Receives what a page consists of.
pub(super) trait Sink {
    /// A tag that opens an element, or stands alone.
    fn start(&mut self, tag: &Tag);
    /// A tag that closes an element.
    fn end(&mut self, name: &[u8]);
    /// A piece of text, decoded.
    fn text(&mut self, piece: &[u8]);
}

/// A tag with its attributes.
#[derive(Debug, Default)]
pub(super) struct Tag {
    pub(super) name: Vec<u8>,
    attributes: Vec<Attribute>,
    /// Whether something of it was dropped.
    pub(super) is_cut: bool,
}

#[derive(Debug, Default)]
struct Attribute {
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Tag {
    /// The value of an attribute; the first one counts if it is repeated.
    pub(super) fn value(&self, name: &str) -> Option<&[u8]> {
        self.attributes.iter().find(|found| found.name == name.as_bytes()).map(|found| found.value.as_slice())
    }

    /// True if the attribute's value is this word.
    pub(super) fn is(&self, name: &str, value: &str) -> bool {
        self.value(name).is_some_and(|found| found.eq_ignore_ascii_case(value.as_bytes()))
    }
}

/// Reads a page to its end.
pub(super) fn read(page: impl Read, sink: &mut impl Sink) -> io::Result<()> {
    let emitter = Tags { sink, tag: Tag::default(), is_end: false, last_start: Vec::new() };
    for token in Tokenizer::new_with_emitter(IoReader::new(page), emitter) {
        token?;
    }
    Ok(())
}

struct Tags<'a, S> {
    sink: &'a mut S,
    tag: Tag,
    is_end: bool,
    last_start: Vec<u8>,
}

fn push(buffer: &mut Vec<u8>, more: &[u8], limit: usize) -> bool {
    let fits = buffer.len() + more.len() <= limit;
    if fits {
        buffer.extend_from_slice(more);
    }
    fits
}

impl<S: Sink> Tags<'_, S> {
    fn begin(&mut self, is_end: bool) {
        self.is_end = is_end;
        self.tag.name.clear();
        self.tag.attributes.clear();
        self.tag.is_cut = false;
    }
}

impl<S: Sink> Emitter for Tags<'_, S> {
    type Token = ();

    fn set_last_start_tag(&mut self, last: Option<&[u8]>) {
        self.last_start = last.unwrap_or_default().to_vec();
    }

    fn emit_eof(&mut self) {}

    fn emit_error(&mut self, _: Error) {}

    fn should_emit_errors(&mut self) -> bool {
        false
    }

    fn pop_token(&mut self) -> Option<()> {
        None
    }

    fn emit_string(&mut self, piece: &[u8]) {
        self.sink.text(piece);
    }

    fn init_start_tag(&mut self) {
        self.begin(false);
    }

    fn init_end_tag(&mut self) {
        self.begin(true);
    }

    fn init_comment(&mut self) {}

    fn emit_current_tag(&mut self) -> Option<State> {
        if self.is_end {
            self.sink.end(&self.tag.name);
            return None;
        }
        self.last_start.clone_from(&self.tag.name);
        self.sink.start(&self.tag);
        naive_next_state(&self.tag.name)
    }

    fn emit_current_comment(&mut self) {}

    fn emit_current_doctype(&mut self) {}

    fn set_self_closing(&mut self) {}

    fn set_force_quirks(&mut self) {}

    fn push_tag_name(&mut self, piece: &[u8]) {
        self.tag.is_cut |= !push(&mut self.tag.name, piece, NAME_LIMIT);
    }

    fn push_comment(&mut self, _: &[u8]) {}

    fn push_doctype_name(&mut self, _: &[u8]) {}

    fn init_doctype(&mut self) {}

    fn init_attribute(&mut self) {
        if self.tag.attributes.len() < ATTRIBUTES_LIMIT {
            self.tag.attributes.push(Attribute::default());
        } else if let Some(last) = self.tag.attributes.last_mut() {
            *last = Attribute::default();
            self.tag.is_cut = true;
        }
    }

    fn push_attribute_name(&mut self, piece: &[u8]) {
        if let Some(last) = self.tag.attributes.last_mut() {
            self.tag.is_cut |= !push(&mut last.name, piece, NAME_LIMIT);
        }
    }

    fn push_attribute_value(&mut self, piece: &[u8]) {
        if let Some(last) = self.tag.attributes.last_mut() {
            self.tag.is_cut |= !push(&mut last.value, piece, VALUE_LIMIT);
        }
    }

    fn set_doctype_public_identifier(&mut self, _: &[u8]) {}

    fn set_doctype_system_identifier(&mut self, _: &[u8]) {}

    fn push_doctype_public_identifier(&mut self, _: &[u8]) {}

    fn push_doctype_system_identifier(&mut self, _: &[u8]) {}

    fn current_is_appropriate_end_tag_token(&mut self) -> bool {
        self.is_end && !self.last_start.is_empty() && self.last_start == self.tag.name
    }
}
