//! A web server that says whatever a test wants it to, byte for byte.

#![allow(dead_code, reason = "each test file needs its own part of this")]

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stroll::fetch::Address;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// The longest head of a request that is listened to.
const HEAD_LIMIT: usize = 64 << 10;

/// What the server does next.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Say(Vec<u8>),
    /// The same over and over, until nobody listens.
    Endless(Vec<u8>),
    /// The same now and then, until nobody listens.
    Drip(Vec<u8>, Duration),
    Wait(Duration),
    /// Nothing more, for as long as somebody waits.
    Stall,
    /// A proper end of the connection.
    Close,
    /// An improper one.
    Reset,
}

pub(crate) fn say(text: &str) -> Step {
    Step::Say(text.as_bytes().to_vec())
}

/// An answer with this status line, these header fields, and a body that may be anything.
pub(crate) fn answer(status: &str, fields: &[&str], body: &[u8]) -> Step {
    let mut bytes = format!("HTTP/1.1 {status}\r\n").into_bytes();
    for field in fields {
        bytes.extend_from_slice(field.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body);
    Step::Say(bytes)
}

type Script = dyn Fn(usize, &str) -> Vec<Step> + Send + Sync;

/// The server. It ends with the value.
pub(crate) struct Liar {
    pub(crate) at: SocketAddr,
    heard: Arc<Mutex<Vec<String>>>,
    accepting: JoinHandle<()>,
}

impl Drop for Liar {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Liar {
    /// Answers the n-th request, from 0, with what the script says for it and its head.
    pub(crate) async fn start(script: impl Fn(usize, &str) -> Vec<Step> + Send + Sync + 'static) -> Self {
        Self::start_at("127.0.0.1:0", script).await
    }

    pub(crate) async fn start_at(
        at: &str,
        script: impl Fn(usize, &str) -> Vec<Step> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(at).await.expect("a port");
        let at = listener.local_addr().expect("bound");
        let heard = Arc::new(Mutex::new(Vec::new()));
        let log = heard.clone();
        let script: Arc<Script> = Arc::new(script);
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, script.clone(), log.clone()));
            }
        });
        Self { at, heard, accepting }
    }

    /// Always the same answer.
    pub(crate) async fn always(steps: Vec<Step>) -> Self {
        Self::start(move |_, _| steps.clone()).await
    }

    pub(crate) fn address(&self, path: &str) -> Address {
        Address::parse(&format!("http://{}/{path}", self.at)).expect("an address").0
    }

    /// The heads of all requests so far.
    pub(crate) fn heard(&self) -> Vec<String> {
        self.heard.lock().expect("not poisoned").clone()
    }
}

async fn serve(mut stream: TcpStream, script: Arc<Script>, log: Arc<Mutex<Vec<String>>>) {
    while let Some(head) = read_head(&mut stream).await {
        let number = {
            let mut log = log.lock().expect("not poisoned");
            log.push(head.clone());
            log.len() - 1
        };
        for step in script(number, &head) {
            if !perform(&mut stream, step).await {
                return;
            }
        }
    }
}

async fn read_head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
        if head.len() > HEAD_LIMIT {
            return None;
        }
    }
    String::from_utf8(head).ok()
}

/// Whether the connection goes on.
async fn perform(stream: &mut TcpStream, step: Step) -> bool {
    match step {
        Step::Say(bytes) => stream.write_all(&bytes).await.is_ok(),
        Step::Endless(bytes) => {
            while stream.write_all(&bytes).await.is_ok() {}
            false
        }
        Step::Drip(bytes, every) => {
            while stream.write_all(&bytes).await.is_ok() {
                tokio::time::sleep(every).await;
            }
            false
        }
        Step::Wait(time) => {
            tokio::time::sleep(time).await;
            true
        }
        Step::Stall => {
            // Until the other side gives up.
            let mut rest = [0; 1_024];
            while matches!(stream.read(&mut rest).await, Ok(read) if read > 0) {}
            false
        }
        Step::Close => false,
        Step::Reset => {
            // With unread bytes, or a linger of zero, closing is a reset.
            let _ = socket2::SockRef::from(&*stream).set_linger(Some(Duration::ZERO));
            false
        }
    }
}
