//! A web server with one file, under any name, that writes down when it sent what: from when to when each answer lasted, and how many
//! bytes it took. It sends in small pieces, each after its time, through small buffers, so that what it counts is about what
//! somebody has read.

#![allow(dead_code, reason = "each test file needs its own part of this")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const PIECE: usize = 16 << 10;

/// One answer that brought bytes of the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) begun: Instant,
    pub(crate) ended: Option<Instant>,
    pub(crate) from: u64,
    pub(crate) bytes: u64,
}

struct Inner {
    file: Vec<u8>,
    bytes_per_sec: f64,
    /// How many questions more are refused with 503.
    refusals: AtomicU64,
    answers: Mutex<Vec<Answer>>,
    requests: AtomicU64,
    /// Connections that came, and of those the ones that are gone.
    connections: AtomicU64,
    gone: AtomicU64,
    /// How long each connection was there before it asked something.
    silences: Mutex<Vec<Duration>>,
    /// What each of the answers was about.
    paths: Mutex<Vec<String>>,
}

/// The server. Its threads end with their clients, and with the test.
#[derive(Clone)]
pub(crate) struct Counting {
    pub(crate) at: SocketAddr,
    inner: Arc<Inner>,
}

impl Counting {
    pub(crate) fn start(file: Vec<u8>, bytes_per_sec: f64, refusals: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        socket2::SockRef::from(&listener).set_send_buffer_size(64 << 10).unwrap();
        let at = listener.local_addr().unwrap();
        let inner = Arc::new(Inner {
            file,
            bytes_per_sec,
            refusals: AtomicU64::new(refusals),
            answers: Mutex::default(),
            requests: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            gone: AtomicU64::new(0),
            silences: Mutex::default(),
            paths: Mutex::default(),
        });
        let serving = Arc::clone(&inner);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let inner = Arc::clone(&serving);
                // A client that goes away is what these tests are about.
                inner.connections.fetch_add(1, Ordering::SeqCst);
                thread::spawn(move || {
                    drop(inner.serve(&stream));
                    inner.gone.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        Self { at, inner }
    }

    /// The folder that a circle has as its source.
    pub(crate) fn source(&self) -> String {
        format!("http://{}/data/", self.at)
    }

    pub(crate) fn url(&self, name: &str) -> String {
        format!("http://{}/data/{name}", self.at)
    }

    pub(crate) fn answers(&self) -> Vec<Answer> {
        self.inner.answers.lock().unwrap().clone()
    }

    /// What each of the answers was about: the last part of the path.
    pub(crate) fn paths(&self) -> Vec<String> {
        self.inner.paths.lock().unwrap().clone()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.answers().iter().map(|answer| answer.bytes).sum()
    }

    pub(crate) fn requests(&self) -> u64 {
        self.inner.requests.load(Ordering::SeqCst)
    }

    pub(crate) fn connections(&self) -> u64 {
        self.inner.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn open_connections(&self) -> u64 {
        self.connections() - self.inner.gone.load(Ordering::SeqCst)
    }

    /// How long each connection was there before it asked something.
    pub(crate) fn silences(&self) -> Vec<Duration> {
        self.inner.silences.lock().unwrap().clone()
    }

    /// For how long two answers were sent at once, in all.
    pub(crate) fn overlap(&self) -> Duration {
        let mut spans: Vec<(Instant, Instant)> =
            self.answers().iter().filter_map(|answer| Some((answer.begun, answer.ended?))).collect();
        spans.sort();
        let overlap = |pair: &[(Instant, Instant)]| pair[0].1.saturating_duration_since(pair[1].0);
        spans.windows(2).map(overlap).sum()
    }
}

impl Inner {
    fn serve(&self, stream: &TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut came = Some(Instant::now());
        loop {
            let (mut method, mut path, mut range) = (String::new(), String::new(), None);
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line)? == 0 {
                    return Ok(());
                }
                if method.is_empty() {
                    let mut words = line.split(' ');
                    words.next().unwrap_or_default().clone_into(&mut method);
                    words.next().unwrap_or_default().clone_into(&mut path);
                }
                let lower = line.to_ascii_lowercase();
                if let Some(asked) = lower.strip_prefix("range: bytes=") {
                    range = Some(asked.trim().to_owned());
                }
                if line == "\r\n" {
                    break;
                }
            }
            self.requests.fetch_add(1, Ordering::SeqCst);
            if let Some(came) = came.take() {
                self.silences.lock().unwrap().push(came.elapsed());
            }
            if path.ends_with('/') {
                index(stream)?;
            } else {
                self.answer(stream, &method, &path, range.as_deref())?;
            }
        }
    }

    fn answer(
        &self,
        mut stream: &TcpStream,
        method: &str,
        path: &str,
        range: Option<&str>,
    ) -> std::io::Result<()> {
        let refuse =
            self.refusals.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if refuse.is_ok() {
            return stream.write_all(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
        }
        let size = self.file.len();
        let (from, to) = match range.and_then(|range| range.split_once('-')) {
            Some((from, to)) => {
                (from.parse().unwrap_or(0), to.parse::<usize>().map_or(size, |last| size.min(last + 1)))
            }
            None => (0, size),
        };
        let status = if range.is_some() {
            format!("206 Partial Content\r\nContent-Range: bytes {from}-{}/{size}", to - 1)
        } else {
            "200 OK".to_owned()
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\nETag: \"one\"\r\nAccept-Ranges: bytes\r\n\r\n",
            to - from
        );
        stream.write_all(head.as_bytes())?;
        if method == "HEAD" {
            return Ok(());
        }
        let answer = Answer { begun: Instant::now(), ended: None, from: from as u64, bytes: 0 };
        let number = {
            let mut answers = self.answers.lock().unwrap();
            answers.push(answer);
            self.paths.lock().unwrap().push(path.rsplit('/').next().unwrap_or_default().to_owned());
            answers.len() - 1
        };
        let sent = self.send(stream, number, from, to);
        self.answers.lock().unwrap()[number].ended = Some(Instant::now());
        sent
    }

    fn send(&self, mut stream: &TcpStream, number: usize, from: usize, to: usize) -> std::io::Result<()> {
        for piece in self.file[from..to].chunks(PIECE) {
            thread::sleep(Duration::from_secs_f64(piece.len() as f64 / self.bytes_per_sec));
            stream.write_all(piece)?;
            self.answers.lock().unwrap()[number].bytes += piece.len() as u64;
        }
        Ok(())
    }
}

/// Every folder has the one file, as `f`.
fn index(mut stream: &TcpStream) -> std::io::Result<()> {
    let page = "<html><head><title>Index of /</title></head><body><h1>Index of /</h1><hr><pre><a href=\"../\">../</a>\n\
                <a href=\"f\">f</a>    01-Jan-2026 00:00    1M\n</pre><hr></body></html>\n";
    let head =
        format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n", page.len());
    stream.write_all(head.as_bytes())?;
    stream.write_all(page.as_bytes())
}
