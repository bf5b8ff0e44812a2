//! The status page: read-only, on loopback unless asked otherwise, without anything from elsewhere. It works without
//! JavaScript, which only makes it move.
//!
//! ```text
//!   GET /            the page
//!   GET /live        its content alone, for the page's script
//!   GET /v1/status   the same as JSON, as `stroll status --json` prints it
//!   GET /v1/past     visits and samples as JSON
//!   GET /metrics     for Prometheus
//! ```

mod chart;
mod html;
mod ring;
mod tickets;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tracing::{info, warn};

use super::DONE;
use super::control::Served;
use super::history::{History, Past};
use super::metrics;
use super::report::{PageReport, StatusReport};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Nothing from elsewhere, nothing inline, and in nobody's frame.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// How often an address that another process uses is tried again.
const TRY_EVERY: Duration = Duration::from_secs(5);

/// What the page shows.
#[derive(Clone)]
pub(super) struct Shown {
    pub(super) served: Served,
    pub(super) history: History,
}

/// A member at one moment, as the page shows it.
struct View {
    status: StatusReport,
    past: Past,
}

/// Serves the page until the task is ended. Gives the address where it is; nothing if another process has that address: then
/// the page is served as soon as the address is free.
pub(super) async fn serve(
    address: SocketAddr,
    shown: Shown,
) -> io::Result<(Option<SocketAddr>, JoinHandle<()>)> {
    match TcpListener::bind(address).await {
        Ok(listener) => {
            let bound = listener.local_addr()?;
            shown.served.set_page(PageReport { address: bound.to_string(), problem: None });
            Ok((Some(bound), tokio::spawn(serve_on(listener, shown))))
        }
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            warn!(%address, "the status page is not served: another process uses its address; it is tried again");
            let problem = Some("address in use".to_owned());
            shown.served.set_page(PageReport { address: address.to_string(), problem });
            Ok((None, tokio::spawn(serve_when_free(address, shown))))
        }
        Err(error) => Err(error),
    }
}

async fn serve_when_free(address: SocketAddr, shown: Shown) {
    let listener = loop {
        sleep(TRY_EVERY).await;
        if let Ok(listener) = TcpListener::bind(address).await {
            break listener;
        }
    };
    info!(target: DONE, "status page at http://{address}/ now: the address is free");
    shown.served.set_page(PageReport { address: address.to_string(), problem: None });
    serve_on(listener, shown).await;
}

async fn serve_on(listener: TcpListener, shown: Shown) {
    let router = Router::new()
        .route("/", get(page))
        .route("/live", get(live))
        .route("/page.css", get(async || typed("text/css", STYLE)))
        .route("/page.js", get(async || typed("text/javascript", SCRIPT)))
        .route("/v1/status", get(status))
        .route("/v1/past", get(past))
        .route("/metrics", get(metrics_text))
        .with_state(shown)
        .layer(middleware::from_fn(with_manners));
    // It ends when the task is aborted.
    let _ = axum::serve(listener, router).await;
}

/// Refuses pages of other names (a name that was made to lead here would let another page read this one), and says what
/// a browser may do with ours.
async fn with_manners(request: Request, next: Next) -> Response {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    if !host.is_some_and(is_own_name) {
        return (StatusCode::MISDIRECTED_REQUEST, "ask for it by its address\n").into_response();
    }
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// An address, or this machine's name for itself: none that somebody else can make lead here.
fn is_own_name(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

fn typed(kind: &'static str, text: impl IntoResponse) -> impl IntoResponse {
    ([(CONTENT_TYPE, kind)], text)
}

async fn view(shown: &Shown) -> Result<View, StatusCode> {
    let status = shown.served.report().await.ok_or(StatusCode::SERVICE_UNAVAILABLE)?;
    Ok(View { status, past: shown.history.past() })
}

async fn page(State(shown): State<Shown>) -> Result<Response, StatusCode> {
    let view = view(&shown).await?;
    Ok(typed("text/html; charset=utf-8", html::page(&view)).into_response())
}

async fn live(State(shown): State<Shown>) -> Result<Response, StatusCode> {
    let view = view(&shown).await?;
    Ok(typed("text/html; charset=utf-8", html::content(&view)).into_response())
}

async fn status(State(shown): State<Shown>) -> Result<Json<StatusReport>, StatusCode> {
    Ok(Json(view(&shown).await?.status))
}

async fn past(State(shown): State<Shown>) -> Json<serde_json::Value> {
    let Past { visits, return_times, access_intervals, samples, .. } = shown.history.past();
    Json(json!({
        "version": 1,
        "visits": visits,
        "return_times_s": return_times,
        "access_intervals_s": access_intervals,
        "samples": samples,
    }))
}

async fn metrics_text(State(shown): State<Shown>) -> Result<Response, StatusCode> {
    let View { status, past } = view(&shown).await?;
    let text = metrics::encode(status, past).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    Ok(typed(metrics::CONTENT_TYPE, text).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_nobody_else_can_make_lead_here_are_answered() {
        for host in ["127.0.0.1:7480", "localhost", "LOCALHOST:80", "[::1]:7480", "192.0.2.7"] {
            assert!(is_own_name(host), "{host}");
        }
        for host in
            ["evil.example", "evil.example:7480", "", "localhost.evil.example", "127.0.0.1.evil.example:1"]
        {
            assert!(!is_own_name(host), "{host}");
        }
    }
}
