//! Through which proxy a request goes, for messages only: the HTTP library chooses by the same rules and does not tell.

use std::env;
use std::net::IpAddr;

use url::Url;

use crate::fetch::{Address, Options, Scheme};

/// The proxy on the way to this address, without its credentials.
pub(super) fn on_the_way(options: &Options, to: &Address) -> Option<String> {
    let is_exempt = variable("NO_PROXY").is_some_and(|list| exempts(&list, &to.host()));
    let proxy = match &options.proxy {
        _ if is_exempt => None,
        Some(proxy) => Some(proxy.clone()),
        None => {
            let by_scheme = if to.scheme() == Scheme::Https { "HTTPS_PROXY" } else { "HTTP_PROXY" };
            variable(by_scheme).or_else(|| variable("ALL_PROXY"))
        }
    }?;
    shown(&proxy)
}

fn variable(name: &str) -> Option<String> {
    let value = env::var(name).or_else(|_| env::var(name.to_ascii_lowercase())).ok()?;
    (!value.is_empty()).then_some(value)
}

/// Scheme, host and port.
fn shown(proxy: &str) -> Option<String> {
    let url = Url::parse(proxy).ok().filter(Url::has_host);
    let url =
        url.or_else(|| Url::parse(&format!("http://{proxy}")).ok().filter(|_| !proxy.contains("://")))?;
    let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
    Some(format!("{}://{}{port}", url.scheme(), url.host_str()?))
}

/// True if the list names this host, a domain around it, its address or a network around that.
fn exempts(list: &str, host: &str) -> bool {
    let host = host.trim_matches(['[', ']']);
    let ip = host.parse::<IpAddr>().ok();
    list.split(',').map(str::trim).any(|entry| match ip {
        _ if entry == "*" => true,
        Some(ip) => is_within(ip, entry),
        None => {
            let domain = entry.trim_start_matches('.').to_ascii_lowercase();
            let outside = host.to_ascii_lowercase();
            let outside = outside.strip_suffix(&domain).filter(|_| !domain.is_empty());
            outside.is_some_and(|outside| outside.is_empty() || outside.ends_with('.'))
        }
    })
}

fn is_within(ip: IpAddr, entry: &str) -> bool {
    let (network, bits) = entry.split_once('/').map_or((entry, None), |(ip, bits)| (ip, Some(bits)));
    let Ok(network) = network.parse::<IpAddr>() else { return false };
    let bits = bits.map_or(Some(128), |bits| bits.parse::<u32>().ok());
    match (ip, network, bits) {
        (IpAddr::V4(ip), IpAddr::V4(network), Some(bits)) => {
            (ip.to_bits() ^ network.to_bits()).leading_zeros() >= bits.min(32)
        }
        (IpAddr::V6(ip), IpAddr::V6(network), Some(bits)) => {
            (ip.to_bits() ^ network.to_bits()).leading_zeros() >= bits.min(128)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_shown_without_its_password() {
        assert_eq!(shown("http://ada:secret@proxy.lab:3128/").as_deref(), Some("http://proxy.lab:3128"));
        assert_eq!(shown("proxy.lab:3128").as_deref(), Some("http://proxy.lab:3128"));
        assert_eq!(shown("socks5://127.0.0.1:1080").as_deref(), Some("socks5://127.0.0.1:1080"));
        assert_eq!(shown("http://"), None);
    }

    #[test]
    fn hosts_domains_addresses_and_networks_are_exempt() {
        for (list, host) in [
            ("*", "a.example"),
            ("a.example", "a.example"),
            ("x, .example", "a.example"),
            ("example", "A.example"),
            ("127.0.0.1", "127.0.0.1"),
            ("10.0.0.0/8", "10.1.2.3"),
            ("::1", "[::1]"),
            ("fd00::/8", "[fd12::1]"),
        ] {
            assert!(exempts(list, host), "{list} {host}");
        }
        for (list, host) in [
            ("", "a.example"),
            ("ample", "a.example"),
            ("10.0.0.0/8", "11.1.2.3"),
            ("10.0.0.0/x", "10.0.0.1"),
        ] {
            assert!(!exempts(list, host), "{list} {host}");
        }
    }
}
