//! The lab source over HTTP: files with single ranges and validators, and index pages as nginx writes them in JSON.
//! Started by `source`.

use std::fs::{self, Metadata};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::{
    ACCEPT_RANGES, ALLOW, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_RANGE, LAST_MODIFIED, RANGE,
};
use axum::http::{HeaderMap, HeaderName, Method, Response, StatusCode};
use axum::serve::ListenerExt as _;
use futures_util::stream;
use serde_json::json;
use tokio::net::TcpListener;

use super::source::{PIECE, Shop};

#[derive(Clone)]
struct Site {
    root: Arc<Path>,
    shop: Shop,
}

/// Answers until the task is ended.
pub(super) async fn serve(listener: TcpListener, root: PathBuf, shop: Shop) {
    let router = Router::new().fallback(answer).with_state(Site { root: root.into(), shop });
    // The end of a file must not wait until its beginning is acknowledged. If that cannot be had, it is slower.
    let listener = listener.tap_io(|connection| drop(connection.set_nodelay(true)));
    // It ends when the task is aborted.
    let _ = axum::serve(listener, router).await;
}

async fn answer(State(site): State<Site>, request: Request) -> Response<Body> {
    let is_head = request.method() == Method::HEAD;
    if !is_head && request.method() != Method::GET {
        return site.refuse(StatusCode::METHOD_NOT_ALLOWED, &[(ALLOW, "GET, HEAD".to_owned())]);
    }
    let path = request.uri().path();
    let found = below(&site.root, path).and_then(|file| Some((fs::metadata(&file).ok()?, file)));
    match found {
        Some((about, folder)) if about.is_dir() && path.ends_with('/') => site.index(&folder, is_head),
        Some((about, file)) if about.is_file() => site.file(&file, &about, request.headers(), is_head),
        _ => site.refuse(StatusCode::NOT_FOUND, &[]),
    }
}

/// Where a path leads; nowhere if it leads out, or to what is hidden. The names here need no escapes.
fn below(root: &Path, path: &str) -> Option<PathBuf> {
    let mut found = root.to_owned();
    for name in path.split('/').filter(|name| !name.is_empty()) {
        if name.starts_with('.') || name.contains(['\\', '%', '\0']) {
            return None;
        }
        found.push(name);
    }
    Some(found)
}

impl Site {
    fn refuse(&self, status: StatusCode, headers: &[(HeaderName, String)]) -> Response<Body> {
        self.shop.meter.refused();
        respond(status, headers, Body::empty())
    }

    fn index(&self, folder: &Path, is_head: bool) -> Response<Body> {
        let Ok(page) = index(folder) else { return self.refuse(StatusCode::INTERNAL_SERVER_ERROR, &[]) };
        let headers =
            [(CONTENT_TYPE, "application/json".to_owned()), (CONTENT_LENGTH, page.len().to_string())];
        respond(StatusCode::OK, &headers, if is_head { Body::empty() } else { page.into() })
    }

    fn file(&self, file: &Path, about: &Metadata, asked: &HeaderMap, is_head: bool) -> Response<Body> {
        let modified = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        let (tag, date) = (tag(about.len(), modified), httpdate::fmt_http_date(modified));
        let mut headers = vec![
            (ACCEPT_RANGES, "bytes".to_owned()),
            (CONTENT_TYPE, "application/octet-stream".to_owned()),
            (ETAG, tag.clone()),
            (LAST_MODIFIED, date.clone()),
        ];
        let text = |name| asked.get(name).and_then(|value| value.to_str().ok());
        // A range of another version would be of no use.
        let is_same = text(IF_RANGE).is_none_or(|known| known == tag || known == date);
        let range =
            text(RANGE).filter(|_| is_same).map_or(Asked::All, |range| parse_range(range, about.len()));
        let (status, range) = match range {
            Asked::All => (StatusCode::OK, 0..about.len()),
            Asked::Part(range) => {
                let of = format!("bytes {}-{}/{}", range.start, range.end - 1, about.len());
                headers.push((CONTENT_RANGE, of));
                (StatusCode::PARTIAL_CONTENT, range)
            }
            Asked::Beyond => {
                let of = [(CONTENT_RANGE, format!("bytes */{}", about.len()))];
                return self.refuse(StatusCode::RANGE_NOT_SATISFIABLE, &of);
            }
        };
        headers.push((CONTENT_LENGTH, (range.end - range.start).to_string()));
        if is_head {
            return respond(status, &headers, Body::empty());
        }
        match read(file, range) {
            Some(bytes) => respond(status, &headers, self.send(bytes)),
            None => self.refuse(StatusCode::INTERNAL_SERVER_ERROR, &[]),
        }
    }

    /// Piece by piece, each as soon as the link has room for it.
    fn send(&self, bytes: Bytes) -> Body {
        let (link, transfer) = (self.shop.link.clone(), self.shop.meter.begin());
        Body::from_stream(stream::unfold((bytes, transfer), move |(mut bytes, transfer)| {
            let link = link.clone();
            async move {
                let piece = bytes.split_to(PIECE.min(bytes.len()));
                if piece.is_empty() {
                    return None;
                }
                link.take(piece.len()).await;
                transfer.sent(piece.len());
                Some((Ok::<_, io::Error>(piece), (bytes, transfer)))
            }
        }))
    }
}

fn respond(status: StatusCode, headers: &[(HeaderName, String)], body: Body) -> Response<Body> {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(name, value);
    }
    // Every value is one of ours, so all of them can be sent.
    response.body(body).unwrap_or_default()
}

fn tag(length: u64, modified: SystemTime) -> String {
    let since = modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("\"{:x}-{length:x}\"", since.as_nanos())
}

fn read(file: &Path, range: Range<u64>) -> Option<Bytes> {
    let (from, to) = (usize::try_from(range.start).ok()?, usize::try_from(range.end).ok()?);
    // Frames are small: the whole of one is as quickly read as a part.
    let bytes = Bytes::from(fs::read(file).ok()?);
    (to <= bytes.len()).then(|| bytes.slice(from..to))
}

/// What of a file is asked for.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    All,
    Part(Range<u64>),
    Beyond,
}

/// One range; what is no range, or several of them, asks for everything.
fn parse_range(text: &str, length: u64) -> Asked {
    let Some((first, last)) = text.strip_prefix("bytes=").and_then(|range| range.trim().split_once('-'))
    else {
        return Asked::All;
    };
    let range = match (first.parse::<u64>(), last.parse::<u64>()) {
        (Ok(first), Ok(last)) if first <= last => first..last.saturating_add(1).min(length),
        (Ok(first), Err(_)) if last.is_empty() => first..length,
        (Err(_), Ok(count)) if first.is_empty() => length.saturating_sub(count)..length,
        _ => return Asked::All,
    };
    if range.is_empty() { Asked::Beyond } else { Asked::Part(range) }
}

fn index(folder: &Path) -> io::Result<String> {
    let mut items = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (about, name) = (entry.metadata()?, entry.file_name());
        let name = name.to_string_lossy();
        let mtime = httpdate::fmt_http_date(about.modified()?);
        items.push(if about.is_dir() {
            json!({ "name": name, "type": "directory", "mtime": mtime })
        } else {
            json!({ "name": name, "type": "file", "mtime": mtime, "size": about.len() })
        });
    }
    Ok(serde_json::Value::from(items).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_the_standard_says() {
        for (text, asked) in [
            ("bytes=0-9", Asked::Part(0..10)),
            ("bytes=90-", Asked::Part(90..100)),
            ("bytes=-30", Asked::Part(70..100)),
            ("bytes=-300", Asked::Part(0..100)),
            ("bytes=90-1000", Asked::Part(90..100)),
            ("bytes=100-", Asked::Beyond),
            ("bytes=-0", Asked::Beyond),
            ("bytes=9-0", Asked::All),
            ("bytes=0-9,20-29", Asked::All),
            ("bytes=x-", Asked::All),
            ("lines=0-9", Asked::All),
        ] {
            assert_eq!(parse_range(text, 100), asked, "{text}");
        }
    }

    #[test]
    fn no_path_leads_out_of_the_folder() {
        let root = Path::new("/srv");
        assert_eq!(below(root, "/stream//a.gwf").as_deref(), Some(Path::new("/srv/stream/a.gwf")));
        for path in ["/../etc", "/stream/..", "/.hidden", "/%2e%2e/etc", "/a\\b"] {
            assert_eq!(below(root, path), None, "{path}");
        }
    }
}
