//! An FTP server that says what a test wants it to say.
//!
//! It answers like an honest server with one file; a test replaces single answers, and what comes on the data
//! connection.

#![allow(dead_code, reason = "not every test file uses all of it")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stroll::fetch::Address;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// What is sent on a data connection.
#[derive(Clone)]
pub(crate) enum Sends {
    /// These bytes, then the end.
    Bytes(Vec<u8>),
    /// These bytes again and again, until the client has enough.
    Endless(Vec<u8>),
    /// These bytes, and then nothing.
    Stalls(Vec<u8>),
    /// One byte now and then.
    Drips(Duration),
}

/// What the server says. Keys are verbs; `""` is the greeting, `end` the reply after a transfer.
#[derive(Clone)]
pub(crate) struct Script {
    replies: BTreeMap<String, Vec<u8>>,
    data: Sends,
    /// The control connection is closed when data has begun to flow.
    dies: bool,
    /// After these replies the connection is closed.
    closes_after: Vec<String>,
}

impl Script {
    /// An honest server with a file of these bytes.
    pub(crate) fn honest(file: &[u8]) -> Self {
        let replies = [
            ("", "220 hello"),
            ("USER", "331 password?"),
            ("PASS", "230 in"),
            ("FEAT", "211-Features:\r\n REST STREAM\r\n MLST type*;size*;\r\n211 End"),
            ("TYPE", "200 binary"),
            ("MDTM", "213 20240101120000"),
            ("REST", "350 ok"),
            ("NOOP", "200 ok"),
            ("RETR", "150 here it comes"),
            ("MLSD", "150 here it comes"),
            ("LIST", "150 here it comes"),
            ("PWD", "257 \"/\" is here"),
            ("CWD", "250 ok"),
            ("QUIT", "221 bye"),
            ("end", "226 done"),
        ];
        let mut replies = replies
            .map(|(verb, reply)| (verb.to_owned(), reply.as_bytes().to_vec()))
            .into_iter()
            .collect::<BTreeMap<_, _>>();
        replies.insert("SIZE".to_owned(), format!("213 {}", file.len()).into_bytes());
        Self { replies, data: Sends::Bytes(file.to_vec()), dies: false, closes_after: Vec::new() }
    }

    /// Another answer.
    pub(crate) fn says(mut self, verb: &str, reply: impl Into<Vec<u8>>) -> Self {
        self.replies.insert(verb.to_owned(), reply.into());
        self
    }

    /// Another answer, after which it hangs up.
    pub(crate) fn leaves(mut self, verb: &str, reply: impl Into<Vec<u8>>) -> Self {
        self.closes_after.push(verb.to_owned());
        self.says(verb, reply)
    }

    /// The control connection dies under the data.
    pub(crate) fn dies(mut self) -> Self {
        self.dies = true;
        self
    }

    /// Other data.
    pub(crate) fn sends(mut self, data: Sends) -> Self {
        self.data = data;
        self
    }
}

/// A running server.
pub(crate) struct Liar {
    pub(crate) port: u16,
    heard: Arc<Mutex<Vec<String>>>,
    script: Arc<Mutex<Script>>,
}

impl Liar {
    pub(crate) async fn start(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let script = Arc::new(Mutex::new(script));
        let (ears, mouth) = (Arc::clone(&heard), Arc::clone(&script));
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                // A client that goes away in the middle is what these tests are about.
                tokio::spawn(talk(socket, Arc::clone(&mouth), Arc::clone(&ears)));
            }
        });
        Self { port, heard, script }
    }

    pub(crate) fn address(&self, path: &str) -> Address {
        Address::parse(&format!("ftp://127.0.0.1:{}/{path}", self.port)).unwrap().0
    }

    /// From now on it says something else.
    pub(crate) fn now(&self, script: Script) {
        *self.script.lock().unwrap() = script;
    }

    /// All commands so far.
    pub(crate) fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }

    /// How often a command came.
    pub(crate) fn count(&self, verb: &str) -> usize {
        self.heard().iter().filter(|line| line.split(' ').next() == Some(verb)).count()
    }
}

async fn talk(
    socket: TcpStream,
    script: Arc<Mutex<Script>>,
    heard: Arc<Mutex<Vec<String>>>,
) -> std::io::Result<()> {
    let (reader, mut writer) = socket.into_split();
    let mut lines = BufReader::new(reader);
    let now = || script.lock().unwrap().clone();
    say(&mut writer, &now(), "").await?;
    if now().closes_after.iter().any(String::is_empty) {
        return Ok(());
    }
    let mut passive: Option<TcpListener> = None;
    loop {
        let mut line = Vec::new();
        if lines.read_until(b'\n', &mut line).await? == 0 {
            return Ok(());
        }
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        let verb = line.split(' ').next().unwrap_or_default().to_owned();
        heard.lock().unwrap().push(line);
        let script = now();
        let scripted = script.replies.contains_key(&verb);
        match verb.as_str() {
            "EPSV" | "PASV" if !scripted => {
                let listener = TcpListener::bind("127.0.0.1:0").await?;
                let port = listener.local_addr()?.port();
                passive = Some(listener);
                let [high, low] = port.to_be_bytes();
                let reply = if verb == "EPSV" {
                    format!("229 ok (|||{port}|)\r\n")
                } else {
                    format!("227 ok (127,0,0,1,{high},{low})\r\n")
                };
                writer.write_all(reply.as_bytes()).await?;
            }
            "RETR" | "MLSD" | "LIST" => {
                say(&mut writer, &script, &verb).await?;
                let Some(listener) = passive.take() else { continue };
                let (data, _) = listener.accept().await?;
                if script.dies {
                    drop(lines);
                    drop(writer);
                    return send(data, &script.data).await;
                }
                // The end of the client is not the end of the conversation.
                let _ = send(data, &script.data).await;
                say(&mut writer, &script, "end").await?;
            }
            _ => say(&mut writer, &script, &verb).await?,
        }
        if script.closes_after.contains(&verb) {
            return Ok(());
        }
    }
}

async fn say(
    writer: &mut tokio::net::tcp::OwnedWriteHalf,
    script: &Script,
    verb: &str,
) -> std::io::Result<()> {
    let reply = script.replies.get(verb).map_or(&b"500 what?"[..], Vec::as_slice);
    if reply.is_empty() {
        return Ok(());
    }
    writer.write_all(reply).await?;
    writer.write_all(b"\r\n").await
}

async fn send(mut data: TcpStream, what: &Sends) -> std::io::Result<()> {
    match what {
        Sends::Bytes(bytes) => data.write_all(bytes).await?,
        Sends::Endless(bytes) => loop {
            data.write_all(bytes).await?;
        },
        Sends::Stalls(bytes) => {
            data.write_all(bytes).await?;
            // Until the client has had enough.
            let _ = data.read(&mut [0]).await;
        }
        Sends::Drips(pause) => loop {
            data.write_all(b"x").await?;
            tokio::time::sleep(*pause).await;
        },
    }
    data.shutdown().await
}
