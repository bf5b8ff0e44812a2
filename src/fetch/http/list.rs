//! The index of a folder: parsed while it arrives, so that no page is ever held as a whole. Called by the connection.
//!
//! ```text
//!   network ── chunks ──> bounded channel ── Read ──> parser on a thread for blocking work ──> listing
//! ```

use std::io::{self, Read};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use reqwest::Response;
use reqwest::header::CONTENT_TYPE;
use tokio::sync::mpsc;

use super::body::Body;
use crate::fetch::{Address, Fault, PackedListing, escape, listing};

/// No folder's page is larger (C6).
const PAGE_LIMIT: u64 = 256 << 20;

/// Chunks that wait for the parser.
const QUEUE: usize = 4;

/// How an index is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Html,
    Json,
}

/// Tells by the media type; a missing one is taken for HTML.
fn form(response: &Response) -> Result<Form, Fault> {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match kind.as_str() {
        "" | "text/html" | "application/xhtml+xml" => Ok(Form::Html),
        "application/json" | "text/json" => Ok(Form::Json),
        other => Err(Fault::NotAnIndex(format!("its type is {}, not HTML or JSON", escape(other)))),
    }
}

/// Reads the index in the body of an answer from `from`.
pub(super) async fn read(
    response: Response,
    from: Address,
    stall_after: Duration,
    hidden: bool,
) -> Result<PackedListing, Fault> {
    let form = form(&response)?;
    let promised = super::answers::content_length(response.headers())?;
    if promised.is_some_and(|length| length > PAGE_LIMIT) {
        return Err(too_long());
    }
    let folder = from.url().clone();
    let mut body = Body::new(response, from, promised, None, stall_after);
    let (chunks, incoming) = mpsc::channel(QUEUE);
    let parsing = tokio::task::spawn_blocking(move || {
        let page = Chunks { incoming, current: Bytes::new() };
        match form {
            Form::Html => listing::html::read(page, &folder, hidden),
            Form::Json => listing::json::read(page, hidden),
        }
    });
    let mut total = 0;
    while let Some(chunk) = body.read().await? {
        total += chunk.len() as u64;
        if total > PAGE_LIMIT {
            return Err(too_long());
        }
        // The parser has seen enough.
        if chunks.send(chunk).await.is_err() {
            break;
        }
    }
    drop(chunks);
    parsing.await.unwrap_or_else(|error| Err(Fault::Nonsense(escape(&error.to_string()))))
}

fn too_long() -> Fault {
    Fault::Nonsense(format!("a folder's page of more than {PAGE_LIMIT} bytes"))
}

/// The chunks of a page, for a parser that reads.
struct Chunks {
    incoming: mpsc::Receiver<Bytes>,
    current: Bytes,
}

impl Read for Chunks {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.incoming.blocking_recv() {
                Some(chunk) => self.current = chunk,
                None => return Ok(0),
            }
        }
        let count = buffer.len().min(self.current.len());
        self.current.copy_to_slice(buffer.get_mut(..count).unwrap_or_default());
        Ok(count)
    }
}
