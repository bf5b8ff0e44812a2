//! An FTP server that says what a test wants it to say.
//!
//! It answers like an honest server with one file; a test replaces single answers, and what comes on the data
//! connection.

#![allow(dead_code, reason = "not every test file uses all of it")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stroll::fetch::Address;
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

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

/// What the server says. Keys are verbs, or whole commands, which come first; `""` is the greeting, `end` the reply after
/// a transfer.
#[derive(Clone)]
pub(crate) struct Script {
    replies: BTreeMap<String, Vec<u8>>,
    data: Sends,
    /// Other data for single verbs or commands.
    data_of: BTreeMap<String, Sends>,
    /// The control connection is closed when data has begun to flow.
    dies: bool,
    /// After these replies the connection is closed.
    closes_after: Vec<String>,
    /// At the end of each line.
    line_end: &'static str,
    /// After `AUTH`, if the reply is 234.
    tls: Option<Arc<rustls::ServerConfig>>,
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
        Self {
            replies,
            data: Sends::Bytes(file.to_vec()),
            data_of: BTreeMap::new(),
            dies: false,
            closes_after: Vec::new(),
            line_end: "\r\n",
            tls: None,
        }
    }

    /// Other data for this verb or command.
    pub(crate) fn sends_for(mut self, command: &str, data: impl Into<Vec<u8>>) -> Self {
        self.data_of.insert(command.to_owned(), Sends::Bytes(data.into()));
        self
    }

    /// Lines end otherwise.
    pub(crate) fn ends_lines_with(mut self, line_end: &'static str) -> Self {
        self.line_end = line_end;
        self
    }

    /// `AUTH` begins TLS.
    pub(crate) fn secured(mut self, tls: Arc<rustls::ServerConfig>) -> Self {
        self.tls = Some(tls);
        self.says("AUTH", "234 go").says("PBSZ", "200 ok").says("PROT", "200 ok")
    }

    /// The reply to this command, or to its verb.
    fn reply(&self, line: &str) -> Option<&[u8]> {
        let verb = line.split(' ').next().unwrap_or_default();
        self.replies.get(line).or_else(|| self.replies.get(verb)).map(Vec::as_slice)
    }

    fn data(&self, line: &str) -> &Sends {
        let verb = line.split(' ').next().unwrap_or_default();
        self.data_of.get(line).or_else(|| self.data_of.get(verb)).unwrap_or(&self.data)
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
    heard: Arc<Mutex<Heard>>,
    script: Arc<Mutex<Script>>,
}

/// Commands, and which of them came in plain text.
#[derive(Default)]
struct Heard {
    all: Vec<String>,
    plain: Vec<String>,
}

impl Liar {
    pub(crate) async fn start(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard = Arc::new(Mutex::new(Heard::default()));
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
        self.heard.lock().unwrap().all.clone()
    }

    /// The commands that came in plain text.
    pub(crate) fn heard_in_plain_text(&self) -> Vec<String> {
        self.heard.lock().unwrap().plain.clone()
    }

    /// How often a command came.
    pub(crate) fn count(&self, verb: &str) -> usize {
        self.heard().iter().filter(|line| line.split(' ').next() == Some(verb)).count()
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

async fn talk(
    socket: TcpStream,
    script: Arc<Mutex<Script>>,
    heard: Arc<Mutex<Heard>>,
) -> std::io::Result<()> {
    let mut control: BufReader<Box<dyn Stream>> = BufReader::new(Box::new(socket));
    let now = || script.lock().unwrap().clone();
    say(&mut control, &now(), "").await?;
    if now().closes_after.iter().any(String::is_empty) {
        return Ok(());
    }
    let mut passive: Option<TcpListener> = None;
    let (mut is_secure, mut protects) = (false, false);
    loop {
        let mut line = Vec::new();
        if control.read_until(b'\n', &mut line).await? == 0 {
            return Ok(());
        }
        let line = String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned();
        let verb = line.split(' ').next().unwrap_or_default().to_owned();
        {
            let mut heard = heard.lock().unwrap();
            heard.all.push(line.clone());
            if !is_secure {
                heard.plain.push(line.clone());
            }
        }
        let script = now();
        let scripted = script.reply(&line).map(|reply| String::from_utf8_lossy(reply).into_owned());
        match verb.as_str() {
            "EPSV" | "PASV" if scripted.as_ref().is_none_or(|reply| reply.contains("{}")) => {
                let listener = TcpListener::bind("127.0.0.1:0").await?;
                let port = listener.local_addr()?.port();
                passive = Some(listener);
                let [high, low] = port.to_be_bytes();
                let reply = match (verb.as_str(), scripted) {
                    ("EPSV", None) => format!("229 ok (|||{port}|)"),
                    ("EPSV", Some(reply)) => reply.replace("{}", &port.to_string()),
                    (_, None) => format!("227 ok (127,0,0,1,{high},{low})"),
                    (_, Some(reply)) => reply.replace("{}", &format!("127,0,0,1,{high},{low}")),
                };
                control.write_all(format!("{reply}\r\n").as_bytes()).await?;
            }
            "RETR" | "MLSD" | "LIST" => {
                say(&mut control, &script, &line).await?;
                let begins = script.reply(&line).is_some_and(|reply| reply.starts_with(b"1"));
                let listener = passive.take().filter(|_| begins || script.dies);
                let Some(listener) = listener else {
                    if script.closes_after.contains(&verb) {
                        return Ok(());
                    }
                    continue;
                };
                let (data, _) = listener.accept().await?;
                if script.dies {
                    drop(control);
                    return send(Box::new(data), script.data(&line)).await;
                }
                // The end of the client is not the end of the conversation.
                let _ = match script.tls.as_ref().filter(|_| protects) {
                    Some(tls) => {
                        let data = TlsAcceptor::from(Arc::clone(tls)).accept(data).await?;
                        send(Box::new(data), script.data(&line)).await
                    }
                    None => send(Box::new(data), script.data(&line)).await,
                };
                say(&mut control, &script, "end").await?;
            }
            "AUTH"
                if script.tls.is_some()
                    && scripted.as_ref().is_some_and(|reply| reply.starts_with("234")) =>
            {
                say(&mut control, &script, &line).await?;
                let acceptor = TlsAcceptor::from(Arc::clone(script.tls.as_ref().unwrap()));
                control = BufReader::new(Box::new(acceptor.accept(control.into_inner()).await?));
                is_secure = true;
            }
            "PROT" => {
                protects = scripted.as_ref().is_some_and(|reply| reply.starts_with('2'));
                say(&mut control, &script, &line).await?;
            }
            _ => say(&mut control, &script, &line).await?,
        }
        if script.closes_after.contains(&verb) {
            return Ok(());
        }
    }
}

async fn say(control: &mut BufReader<Box<dyn Stream>>, script: &Script, line: &str) -> std::io::Result<()> {
    let reply = script.reply(line).unwrap_or(b"500 what?");
    if reply.is_empty() {
        return Ok(());
    }
    control.write_all(&[reply, script.line_end.as_bytes()].concat()).await?;
    control.flush().await
}

async fn send(mut data: Box<dyn Stream>, what: &Sends) -> std::io::Result<()> {
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
