//! A web server for one check: it answers as a closure says, and remembers what it was asked.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// When the files of a site were changed.
pub(crate) const CHANGED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

/// What happens to a connection after an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    Next,
    Close,
    Stall,
    /// One byte more, and the end, late enough for a checkpoint in between.
    Fade,
    /// One byte more now and then.
    Drip,
}

/// An answer.
pub(crate) struct Answer {
    pub(crate) after: Duration,
    pub(crate) bytes: Vec<u8>,
    pub(crate) then: Then,
}

impl Answer {
    pub(crate) fn new(bytes: Vec<u8>, then: Then) -> Self {
        Self { after: Duration::ZERO, bytes, then }
    }

    pub(crate) fn status(line: &str, fields: &str) -> Self {
        let text = format!("HTTP/1.1 {line}\r\ncontent-length: 0\r\n{fields}\r\n");
        Self::new(text.into_bytes(), Then::Next)
    }
}

type Script = dyn Fn(&Request) -> Answer + Send + Sync;

/// What a client asked for.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) head: String,
    pub(crate) at: Instant,
}

impl Request {
    pub(crate) fn path(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }

    pub(crate) fn is_get(&self) -> bool {
        self.head.starts_with("GET ")
    }

    pub(crate) fn field(&self, name: &str) -> Option<String> {
        let is_it = |line: &&str| line.to_lowercase().starts_with(&format!("{name}:"));
        Some(self.head.lines().find(is_it)?.split_once(':')?.1.trim().to_owned())
    }
}

/// The server. Its threads wait for connections until the process ends.
pub(crate) struct Site {
    pub(crate) at: SocketAddr,
    log: Arc<Mutex<Vec<Request>>>,
    connections: Arc<AtomicUsize>,
}

impl Site {
    pub(crate) fn start(script: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let (log, connections) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
        let (script, heard, count): (Arc<Script>, _, _) =
            (Arc::new(script), log.clone(), connections.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                count.fetch_add(1, Ordering::SeqCst);
                let (script, heard) = (script.clone(), heard.clone());
                std::thread::spawn(move || serve(stream, &script, &heard));
            }
        });
        Self { at, log, connections }
    }

    /// A folder with these files.
    pub(crate) fn of(files: Vec<(&'static str, Vec<u8>)>) -> Self {
        Self::start(move |request| file_or_index(request, &files))
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.at)
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.log.lock().unwrap().clone()
    }

    /// Requests for bytes of files.
    pub(crate) fn gets(&self) -> Vec<Request> {
        self.requests().into_iter().filter(|one| one.is_get() && !one.path().ends_with('/')).collect()
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// What a web server with index pages answers.
pub(crate) fn file_or_index(request: &Request, files: &[(&'static str, Vec<u8>)]) -> Answer {
    let path = request.path();
    if path.ends_with('/') {
        let lines: Vec<String> = files
            .iter()
            .map(|(name, bytes)| {
                format!("<a href=\"./{name}\">{name}</a>   06-Nov-1994 08:49   {}\n", bytes.len())
            })
            .collect();
        let page = format!(
            "<html><head><title>Index of {path}</title></head><body><h1>Index of {path}</h1><hr><pre><a href=\"../\">../</a>\n{}</pre><hr></body></html>",
            lines.concat()
        );
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\n\r\n", page.len());
        return Answer::new(format!("{head}{page}").into_bytes(), Then::Next);
    }
    let wanted = path.rsplit('/').next().unwrap_or_default().replace("%3A", ":");
    let found = files.iter().find(|(name, _)| wanted == *name);
    let Some((_, bytes)) = found else { return Answer::status("404 Not Found", "") };
    let range = request.field("range").and_then(|range| {
        let (from, to) = range.strip_prefix("bytes=")?.split_once('-')?;
        let to = to.parse().unwrap_or(bytes.len() - 1).min(bytes.len() - 1);
        Some((from.parse::<usize>().ok()?, to))
    });
    let common = format!(
        "content-type: application/octet-stream\r\naccept-ranges: bytes\r\nlast-modified: {CHANGED}\r\n"
    );
    let (mut answer, body) = match range {
        Some((from, to)) => (
            format!(
                "HTTP/1.1 206 Partial Content\r\ncontent-range: bytes {from}-{to}/{}\r\ncontent-length: {}\r\n{common}\r\n",
                bytes.len(),
                to + 1 - from
            ),
            &bytes[from..=to],
        ),
        None => (format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n{common}\r\n", bytes.len()), &bytes[..]),
    };
    let mut all = std::mem::take(&mut answer).into_bytes();
    if request.is_get() {
        all.extend_from_slice(body);
    }
    Answer::new(all, Then::Next)
}

fn serve(mut stream: TcpStream, script: &Arc<Script>, log: &Mutex<Vec<Request>>) {
    while let Some(head) = read_head(&mut stream) {
        let request = Request { head, at: Instant::now() };
        log.lock().unwrap().push(request.clone());
        let answer = script(&request);
        std::thread::sleep(answer.after);
        if stream.write_all(&answer.bytes).is_err() {
            return;
        }
        match answer.then {
            Then::Next => {}
            Then::Close => return,
            Then::Stall => {
                let _ = stream.read(&mut [0; 1_024]);
                return;
            }
            Then::Fade => {
                std::thread::sleep(Duration::from_millis(400));
                let _ = stream.write_all(b"x");
                std::thread::sleep(Duration::from_millis(500));
                return;
            }
            Then::Drip => {
                while stream.write_all(b"x").is_ok() {
                    std::thread::sleep(Duration::from_millis(100));
                }
                return;
            }
        }
    }
}

fn read_head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    String::from_utf8(head).ok()
}
