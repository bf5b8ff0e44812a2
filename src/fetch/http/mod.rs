//! HTTP and HTTPS sources, by HTTP/1.1 or 2.
//!
//! One client per connection, so that nothing of it (pool, pinned addresses, proxy) is ever shared with other options.
//! Redirects are followed by hand, each with its own look at scheme, host and login. What an answer means is judged in
//! `answers`, where redirects may lead in `guard`, what came is counted in `body`.

#[doc(hidden)]
pub mod answers;
mod body;
mod encoding;
mod errors;
mod guard;
mod list;
mod park;
mod proxy;
mod redirect;

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, HeaderMap, HeaderValue, IF_RANGE, RANGE};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, NoProxy, Proxy, Response, StatusCode};
use tokio::time::{Instant, timeout_at};

use answers::{BeyondEnd, Wanted};
use body::{Body, drain};
use guard::Guard;
use park::Park;
use redirect::Target;

use super::{
    Address, Ask, Connection, Cut, Fault, Login, Opened, Options, PackedListing, Sameness, Version, escape,
};

/// Redirects in a row. reqwest follows 10, wget 20, curl 50; a mirror needs one or two.
const REDIRECTS: usize = 5;

/// What HTTP/2 lets a server send ahead: 8 MiB are 80 MB/s at a round trip of 100 ms.
const WINDOW_BYTES: u32 = 8 << 20;

/// Fewer, larger frames.
const FRAME_BYTES: u32 = 64 << 10;

/// How long an unused connection is kept. Whoever has no slot closes it anyway.
const IDLE: Duration = Duration::from_secs(30);

/// A way to an HTTP source.
#[derive(Debug)]
pub struct Http {
    options: Arc<Options>,
    link: Link,
    body: Option<Body>,
    /// True once this source has answered GET where it did not answer HEAD.
    is_without_head: bool,
}

/// A client and what it has learnt: thrown away together.
#[derive(Debug)]
struct Link {
    client: Client,
    guard: Guard,
    park: Park,
    /// Whether the client may have a connection: it does not say.
    is_connected: bool,
}

/// An answer, and from where it came in the end.
struct Answer {
    response: Response,
    from: Address,
    /// The user whose login was sent.
    user: Option<String>,
}

impl Answer {
    fn status(&self) -> StatusCode {
        self.response.status()
    }

    fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// What it means if it is not what was hoped for. A proxy on the way may be its author.
    async fn into_fault(self, options: &Options) -> Fault {
        let (status, user) = (self.status(), self.user);
        let fault = answers::fault(status, self.response.headers(), now_s());
        let proxy = proxy::on_the_way(options, &self.from);
        drain(self.response).await;
        match (fault, proxy) {
            (Fault::Login(_), Some(proxy)) if status == StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
                Fault::proxy_login(&proxy)
            }
            (Fault::Login(_), _) => Fault::login(&format!("HTTP {status}"), user.as_deref()),
            (Fault::Failing(said), Some(proxy)) => {
                Fault::Failing(format!("{said}, through the proxy {proxy}"))
            }
            (fault, _) => fault,
        }
    }
}

impl Http {
    /// A connection with these options. Nothing is opened yet.
    pub fn new(options: Arc<Options>) -> Result<Self, Fault> {
        let link = Link::new(&options)?;
        Ok(Self { options, link, body: None, is_without_head: false })
    }

    /// The options that it was made with.
    pub(super) fn options(&self) -> &Options {
        &self.options
    }

    /// Asks and follows redirects, all within the time for one answer.
    async fn ask(
        &mut self,
        method: &Method,
        asked: &Address,
        headers: &HeaderMap,
        target: Target,
    ) -> Result<Answer, Fault> {
        let deadline = Instant::now() + self.options.answer_within;
        self.link.is_connected = true;
        let mut here = asked.clone();
        for _ in 0..=REDIRECTS {
            self.link.guard.goes_to(asked, &here).map_err(|no| Fault::Redirect(no.to_string()))?;
            self.link.park.take(&here);
            let mut request =
                self.link.client.request(method.clone(), here.url().clone()).headers(headers.clone());
            let login = self.login(asked, &here)?;
            if let Some(login) = &login {
                request = request.header(AUTHORIZATION, basic(login)?);
            }
            let Ok(answer) = timeout_at(deadline, request.send()).await else {
                return Err(Fault::Stalled(self.options.answer_within));
            };
            let response = answer
                .map_err(|error| errors::fault(&error, &here, proxy::on_the_way(&self.options, &here)))?;
            if !redirect::is_redirect(response.status()) {
                answers::check_head(response.headers())?;
                if response.status().is_success() {
                    encoding::check(response.headers(), asked, &here, target)?;
                }
                return Ok(Answer { response, from: here, user: login.map(|login| login.user) });
            }
            let next = redirect::next(&self.options, asked, &here, response.headers(), target);
            drain(response).await;
            let next = next?;
            here = next;
        }
        Err(Fault::Redirect(format!("more than {REDIRECTS} in a row")))
    }

    /// Who we are here. Another origin than the one that was asked for learns nothing of anybody.
    fn login(&self, asked: &Address, here: &Address) -> Result<Option<Login>, Fault> {
        if here.same_origin(asked) { self.options.logins.lookup(here) } else { Ok(None) }
    }

    async fn open_range(&mut self, ask: &Ask<'_>) -> Result<Opened, Fault> {
        let condition = ask.known.filter(|_| ask.from > 0).and_then(answers::if_range);
        let last = ask.length.map(|length| ask.from.saturating_add(length.max(1) - 1));
        let conditional = condition.is_some();
        let wanted = Wanted { from: ask.from, last, known: ask.known, conditional, now_s: now_s() };
        let answer = self
            .ask(&Method::GET, ask.address, &range_headers(&wanted, condition.as_deref())?, Target::File)
            .await?;
        match answer.status() {
            StatusCode::RANGE_NOT_SATISFIABLE if wanted.is_ranged() => {
                let beyond = answers::beyond_end(answer.headers(), &wanted)?;
                let from = answer.from.clone();
                drain(answer.response).await;
                match beyond {
                    BeyondEnd::Nothing(opened) => {
                        self.body = Some(Body::empty(from));
                        Ok(opened)
                    }
                    BeyondEnd::AskForAll => {
                        let answer =
                            self.ask(&Method::GET, ask.address, &HeaderMap::new(), Target::File).await?;
                        self.begin(answer, &wanted).await
                    }
                }
            }
            _ => self.begin(answer, &wanted).await,
        }
    }

    /// Begins to read an answer that brings bytes.
    async fn begin(&mut self, answer: Answer, wanted: &Wanted<'_>) -> Result<Opened, Fault> {
        let headers = answer.headers();
        let (opened, promised, most) = match answer.status() {
            StatusCode::OK => {
                let opened = answers::whole(headers, wanted)?;
                (opened, answers::content_length(headers)?, wanted.last.map(|last| last.saturating_add(1)))
            }
            StatusCode::PARTIAL_CONTENT if wanted.is_ranged() => {
                let opened = answers::partial(headers, wanted)?;
                let length = opened.length;
                (opened, length, length)
            }
            StatusCode::PARTIAL_CONTENT => {
                return Err(Fault::Nonsense("a part, where the whole was asked for".into()));
            }
            _ => return Err(answer.into_fault(&self.options).await),
        };
        let Answer { response, from, .. } = answer;
        self.body = Some(Body::new(response, from, promised, most, self.options.stall_after));
        Ok(opened)
    }

    async fn head(&mut self, address: &Address) -> Result<Opened, Fault> {
        let answer = self.ask(&Method::HEAD, address, &HeaderMap::new(), Target::File).await?;
        if answer.status() != StatusCode::OK {
            return Err(answer.into_fault(&self.options).await);
        }
        let wanted = Wanted { from: 0, last: None, known: None, conditional: false, now_s: now_s() };
        answers::whole(answer.headers(), &wanted)
    }

    async fn probe_by_range(&mut self, address: &Address) -> Result<Opened, Fault> {
        let opened = self.open_range(&Ask { address, from: 0, length: Some(1), known: None }).await?;
        self.cut().await;
        Ok(Opened { length: opened.version.size, ..opened })
    }
}

impl Connection for Http {
    async fn probe(&mut self, address: &Address) -> Result<Opened, Fault> {
        self.cut().await;
        if !self.is_without_head {
            match self.head(address).await {
                Err(fault) if may_be_about_head(&fault) => {}
                probed => return probed,
            }
        }
        let probed = match self.probe_by_range(address).await {
            // A server that rejects a request may close the connection behind its answer.
            Err(Fault::Broken(_)) => self.probe_by_range(address).await?,
            probed => probed?,
        };
        self.is_without_head = true;
        Ok(probed)
    }

    async fn probe_bytes(&mut self, address: &Address) -> Result<Opened, Fault> {
        self.cut().await;
        self.probe_by_range(address).await
    }

    /// Believes a difference only if an answer to GET shows it: caches and scripts answer HEAD with other fields.
    async fn verify(&mut self, address: &Address, known: &Version) -> Result<Sameness, Fault> {
        let said = known.compare(&self.probe(address).await?.version);
        if said != Sameness::Changed || self.is_without_head {
            return Ok(said);
        }
        Ok(known.compare(&self.probe_by_range(address).await?.version))
    }

    /// Believes that a file is gone only if GET says so, too.
    async fn exists(&mut self, address: &Address) -> Result<bool, Fault> {
        let probed = match self.probe(address).await {
            Err(Fault::NotFound(_)) => self.probe_by_range(address).await,
            probed => probed,
        };
        match probed {
            Err(Fault::NotFound(_)) => Ok(false),
            Ok(_) | Err(Fault::IsFolder(_) | Fault::Denied(_)) => Ok(true),
            Err(fault) => Err(fault),
        }
    }

    async fn list_packed(&mut self, address: &Address) -> Result<PackedListing, Fault> {
        self.cut().await;
        let answer = self.ask(&Method::GET, address, &HeaderMap::new(), Target::Folder).await?;
        if answer.status() != StatusCode::OK {
            return Err(answer.into_fault(&self.options).await);
        }
        list::read(answer.response, answer.from, self.options.stall_after, self.options.hidden).await
    }

    async fn open(&mut self, ask: Ask<'_>) -> Result<Opened, Fault> {
        self.cut().await;
        self.open_range(&ask).await
    }

    async fn warm(&mut self, address: &Address) {
        if self.link.is_connected || self.link.park.is_taken() {
            return;
        }
        // A client of its own: it has no connection yet, so it must make one, and nothing is ever sent.
        let Ok(client) = self.link.another_client(&self.options) else { return };
        self.link.park.park(address);
        let connecting = client.head(address.url().clone()).send();
        // Whatever goes wrong does so again when it matters.
        let _ = tokio::time::timeout(self.options.answer_within, connecting).await;
    }

    async fn read(&mut self) -> Result<Option<Bytes>, Fault> {
        let Some(body) = &mut self.body else { return Err(Fault::Broken("nothing is open".into())) };
        let read = body.read().await;
        if !matches!(read, Ok(Some(_))) {
            self.body = None;
        }
        read
    }

    async fn cut(&mut self) -> Cut {
        match self.body.take() {
            Some(body) => {
                let cut = body.cut().await;
                self.link.is_connected &= cut == Cut::Kept;
                cut
            }
            None => Cut::Kept,
        }
    }

    async fn close(&mut self) {
        self.body = None;
        // These options have made a client before.
        if let Ok(link) = Link::new(&self.options) {
            self.link = link;
        }
    }
}

impl Link {
    fn new(options: &Options) -> Result<Self, Fault> {
        let (guard, park) = (Guard::default(), Park::default());
        let client = client(options, &guard, &park)?;
        Ok(Self { client, guard, park, is_connected: false })
    }

    /// A client that has learnt the same and parks at the same place.
    fn another_client(&self, options: &Options) -> Result<Client, Fault> {
        client(options, &self.guard, &self.park)
    }
}

fn client(options: &Options, guard: &Guard, park: &Park) -> Result<Client, Fault> {
    let mut tls = (*options.tls).clone();
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let mut headers = HeaderMap::new();
    // Ranges of something compressed on the fly are ranges of nothing.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
    let mut builder = Client::builder()
        .tls_backend_preconfigured(tls)
        .dns_resolver(Arc::new(guard.clone()))
        .connector_layer(park.clone())
        .redirect(Policy::none())
        .referer(false)
        .user_agent(options.user_agent())
        .default_headers(headers)
        .connect_timeout(options.answer_within)
        .pool_max_idle_per_host(1)
        .pool_idle_timeout(IDLE)
        .http2_initial_stream_window_size(WINDOW_BYTES)
        .http2_initial_connection_window_size(WINDOW_BYTES)
        .http2_max_frame_size(FRAME_BYTES)
        .http2_max_header_list_size(u32::try_from(answers::HEADERS_LIMIT).unwrap_or(u32::MAX));
    if let Some(proxy) = &options.proxy {
        let proxy = Proxy::all(proxy).map_err(|error| {
            let why = error.source().map_or_else(|| error.to_string(), ToString::to_string);
            Fault::Unsupported(format!("invalid proxy URL: {}", escape(&why)))
        })?;
        builder = builder.proxy(proxy.no_proxy(NoProxy::from_env()));
    }
    builder.build().map_err(|error| Fault::Unsupported(escape(&error.to_string())))
}

/// True for faults of a HEAD request that GET may not have: servers reject it, forget it, or have signed only GET.
fn may_be_about_head(fault: &Fault) -> bool {
    matches!(
        fault,
        Fault::Unsupported(_)
            | Fault::Denied(_)
            | Fault::Failing(_)
            | Fault::Nonsense(_)
            | Fault::Broken(_)
            | Fault::Stalled(_)
    )
}

fn now_s() -> i64 {
    jiff::Timestamp::now().as_second()
}

fn range_headers(wanted: &Wanted<'_>, condition: Option<&str>) -> Result<HeaderMap, Fault> {
    let mut headers = HeaderMap::new();
    if !wanted.is_ranged() {
        return Ok(headers);
    }
    let last = wanted.last.map_or_else(String::new, |last| last.to_string());
    let value = |text: &str| {
        HeaderValue::from_str(text).map_err(|_| Fault::Unsupported("a tag that cannot be sent".into()))
    };
    headers.insert(RANGE, value(&format!("bytes={}-{last}", wanted.from))?);
    if let Some(condition) = condition {
        headers.insert(IF_RANGE, value(condition)?);
    }
    Ok(headers)
}

/// `Authorization: Basic`, which no log shows.
fn basic(login: &Login) -> Result<HeaderValue, Fault> {
    let plain = zeroize::Zeroizing::new(format!("{}:{}", login.user, login.password.reveal()));
    let encoded = data_encoding::BASE64.encode(plain.as_bytes());
    let mut value = HeaderValue::from_str(&format!("Basic {encoded}"))
        .map_err(|_| Fault::Login("a password that cannot be sent".into()))?;
    value.set_sensitive(true);
    Ok(value)
}
