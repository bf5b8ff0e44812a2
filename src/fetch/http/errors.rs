//! What a failure of reqwest means. Called by the connection.

use std::error::Error;
use std::io;

use super::guard::Forbidden;
use crate::fetch::tls::{self, Advice};
use crate::fetch::{Address, Fault, escape};

/// Sources of an error that are looked at; chains are shorter.
const DEEPEST: usize = 16;

/// What went wrong, from the innermost cause that is known. `proxy` is the one on the way, if there is one.
pub(super) fn fault(error: &reqwest::Error, to: &Address, proxy: Option<String>) -> Fault {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    let mut innermost = String::new();
    for _ in 0..DEEPEST {
        let Some(current) = cause else { break };
        if let Some(fault) = known(current) {
            return fault;
        }
        innermost = current.to_string();
        cause = current.source();
    }
    let why = escape(&innermost);
    if error.is_connect() {
        let host = format!("{}:{}", to.host(), to.port());
        return match proxy {
            // In the words of hyper-util, for HTTP 407 as an answer to CONNECT.
            Some(proxy) if why.contains("proxy authorization") => Fault::proxy_login(&proxy),
            Some(proxy) => Fault::Connect { to: format!("{host} through the proxy {proxy}"), why },
            None => Fault::Connect { to: host, why },
        };
    }
    if error.is_builder() {
        return Fault::Unsupported(why);
    }
    Fault::Broken(why)
}

fn known(error: &(dyn Error + 'static)) -> Option<Fault> {
    if let Some(forbidden) = error.downcast_ref::<Forbidden>() {
        return Some(Fault::Redirect(forbidden.to_string()));
    }
    if let Some(error) = error.downcast_ref::<rustls::Error>() {
        return Some(tls::fault(error, Advice::CaFile));
    }
    if let Some(http) = error.downcast_ref::<hyper::Error>() {
        return http.is_parse().then(|| Fault::Nonsense(escape(&http.to_string())));
    }
    let io = error.downcast_ref::<io::Error>()?;
    // An IO error's source is not what it wraps, but the source of that.
    if let Some(fault) = io.get_ref().and_then(|inner| known(inner)) {
        return Some(fault);
    }
    // hyper says so of chunks that are none.
    let is_nonsense = matches!(io.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData);
    is_nonsense.then(|| Fault::Nonsense(escape(&io.to_string())))
}
