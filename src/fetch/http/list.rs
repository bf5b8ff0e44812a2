//! The page of a folder: fetched within bounds, then read as a listing. Called by the connection.

use std::time::Duration;

use reqwest::Response;
use reqwest::header::CONTENT_TYPE;

use super::body::Body;
use crate::fetch::{Address, Fault, Listing, listing};

/// No folder's page is larger (C6).
const PAGE_LIMIT: u64 = 256 << 20;

/// A page as it came.
#[derive(Debug)]
pub(super) struct Page {
    /// From where, after redirects: what its links are relative to.
    pub(super) from: Address,
    /// The media type, without parameters, in small letters.
    pub(super) kind: String,
    pub(super) bytes: Vec<u8>,
}

/// Reads the page, and not more than a page.
pub(super) async fn page(response: Response, from: Address, stall_after: Duration) -> Result<Page, Fault> {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let promised = super::answers::content_length(response.headers())?;
    let too_long = || Fault::Nonsense(format!("a folder's page of more than {PAGE_LIMIT} bytes"));
    if promised.is_some_and(|length| length > PAGE_LIMIT) {
        return Err(too_long());
    }
    let mut body = Body::new(response, from.clone(), promised, None, stall_after);
    let mut bytes = Vec::new();
    while let Some(chunk) = body.read().await? {
        if bytes.len() as u64 + chunk.len() as u64 > PAGE_LIMIT {
            return Err(too_long());
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(Page { from, kind, bytes })
}

/// Reads a page as a listing: JSON by its type, HTML otherwise.
pub(super) fn parse(page: &Page, hidden: bool) -> Result<Listing, Fault> {
    match page.kind.as_str() {
        "application/json" => listing::json::parse(&page.bytes, hidden),
        _ => Ok(listing::html::parse(&page.bytes, page.from.url(), hidden)),
    }
}
