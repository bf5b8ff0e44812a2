//! Where a redirect may lead: never into a network that the source that was asked for is not in itself.
//!
//! A server on the internet that redirects to `http://169.254.169.254/` or to a printer in the lab makes us its hands.
//! Addresses written in the URL are checked when the redirect is read; names when they are resolved, because reqwest
//! resolves names, and names only, here. A name's addresses are kept for as long as the connection: it cannot
//! point elsewhere half a minute later.
//!
//! Through a proxy it is the proxy that resolves; then only written addresses can be checked.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::fetch::{Address, escape};

/// Names whose addresses are kept. A chain of redirects is shorter; beyond that all are forgotten.
const PINNED: usize = 64;

/// In which network an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Public,
    Private,
    LinkLocal,
    Loopback,
    /// Not the address of any host.
    Nowhere,
}

/// A redirect into a network where it has no business.
#[derive(Debug)]
pub(super) struct Forbidden(String);

impl fmt::Display for Forbidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is in a network that the source is not in", escape(&self.0))
    }
}

impl std::error::Error for Forbidden {}

/// Resolves names and refuses those that lead astray.
#[derive(Clone, Debug, Default)]
pub(super) struct Guard {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// The host that the user asked for.
    asked: String,
    /// The host to which a redirect leads.
    target: Option<String>,
    pins: BTreeMap<String, Vec<SocketAddr>>,
}

impl Guard {
    /// The next question goes to `here`, because the user asked for `asked`.
    pub(super) fn goes_to(&self, asked: &Address, here: &Address) -> Result<(), Forbidden> {
        let mut state = self.state();
        let host = here.host();
        state.asked = asked.host();
        if host == state.asked {
            state.target = None;
            return Ok(());
        }
        if host.parse::<IpAddr>().is_ok_and(|ip| !state.allows(ip)) {
            return Err(Forbidden(host));
        }
        state.target = Some(host);
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether a redirect may lead to this address.
    fn allows(&self, ip: IpAddr) -> bool {
        let there = place(ip);
        let asked_is_there = || match self.asked.parse::<IpAddr>() {
            Ok(asked) => place(asked) == there,
            Err(_) => {
                self.pins.get(&self.asked).is_some_and(|pins| pins.iter().any(|pin| place(pin.ip()) == there))
            }
        };
        there == Place::Public || (there != Place::Nowhere && asked_is_there())
    }

    /// Keeps what a name resolved to, and gives out what may be used of it.
    fn resolved(&mut self, name: &str, addresses: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, Forbidden> {
        let addresses = match &self.target {
            Some(target) if target == name => {
                let allowed = addresses.into_iter().filter(|at| self.allows(at.ip())).collect::<Vec<_>>();
                if allowed.is_empty() {
                    return Err(Forbidden(name.to_owned()));
                }
                allowed
            }
            _ => addresses,
        };
        if self.pins.len() >= PINNED {
            self.pins.clear();
        }
        self.pins.insert(name.to_owned(), addresses.clone());
        Ok(addresses)
    }
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.clone();
        Box::pin(async move {
            let name = name.as_str().to_owned();
            let pinned = guard.state().pins.get(&name).cloned();
            let found = match pinned {
                Some(pinned) => pinned,
                None => tokio::net::lookup_host((name.as_str(), 0)).await?.collect(),
            };
            let allowed = guard.state().resolved(&name, found)?;
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

fn place(ip: IpAddr) -> Place {
    match ip {
        IpAddr::V4(ip) => place_v4(ip),
        IpAddr::V6(ip) => place_v6(ip),
    }
}

fn place_v4(ip: Ipv4Addr) -> Place {
    let [a, b, c, _] = ip.octets();
    match (a, b, c) {
        // "This host": connecting there reaches the loopback on most machines.
        (0 | 127, ..) => Place::Loopback,
        (169, 254, _) => Place::LinkLocal,
        (10, ..)
        | (172, 16..=31, _)
        | (192, 168, _)
        | (100, 64..=127, _)
        | (198, 18..=19, _)
        | (192, 0, 0) => Place::Private,
        (224..=255, ..) => Place::Nowhere,
        _ => Place::Public,
    }
}

fn place_v6(ip: Ipv6Addr) -> Place {
    if let Some(inner) = inner_v4(ip) {
        return place_v4(inner);
    }
    match ip.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => Place::Loopback,
        [0xfe80..=0xfebf, ..] => Place::LinkLocal,
        [0xfc00..=0xfdff | 0xfec0..=0xfeff, ..] => Place::Private,
        [0xff00..=0xffff, ..] => Place::Nowhere,
        _ => Place::Public,
    }
}

/// The IPv4 address inside: mapped, compatible, translated (64:ff9b::/96) or tunnelled (2002::/16).
fn inner_v4(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let join = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match ip.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0, 0, 0, 0, 0, 0, high @ 1..=0xffff, low]
        | [0x2002, high, low, ..] => Some(join(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        Address::parse(text).expect(text).0
    }

    #[test]
    fn every_disguise_of_a_local_address_is_seen_through() {
        let where_is = |text: &str| place(text.parse().expect(text));
        for text in [
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "::1",
            "::",
            "::ffff:127.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
        ] {
            assert_eq!(where_is(text), Place::Loopback, "{text}");
        }
        for text in ["169.254.169.254", "fe80::1", "::ffff:169.254.169.254"] {
            assert_eq!(where_is(text), Place::LinkLocal, "{text}");
        }
        for text in [
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "100.64.0.1",
            "fd00::1",
            "::ffff:10.0.0.1",
        ] {
            assert_eq!(where_is(text), Place::Private, "{text}");
        }
        for text in ["224.0.0.1", "255.255.255.255", "ff02::1"] {
            assert_eq!(where_is(text), Place::Nowhere, "{text}");
        }
        for text in ["8.8.8.8", "172.32.0.1", "100.128.0.1", "2001:4860:4860::8888", "::ffff:8.8.8.8"] {
            assert_eq!(where_is(text), Place::Public, "{text}");
        }
    }

    #[test]
    fn a_redirect_stays_out_of_networks_in_which_the_source_is_not() {
        let may = |asked: &str, to: &str| Guard::default().goes_to(&address(asked), &address(to)).is_ok();
        assert!(may("http://8.8.8.8/", "http://9.9.9.9/"));
        assert!(!may("http://8.8.8.8/", "http://127.0.0.1/"));
        assert!(!may("http://8.8.8.8/", "http://[::ffff:127.0.0.1]/"));
        assert!(!may("http://8.8.8.8/", "http://169.254.169.254/"));
        assert!(!may("http://8.8.8.8/", "http://10.0.0.1/"));
        // The URL standard reads these as 127.0.0.1.
        assert!(!may("http://8.8.8.8/", "http://2130706433/"));
        assert!(!may("http://8.8.8.8/", "http://0x7f.1/"));
        assert!(!may("http://192.168.1.1/", "http://127.0.0.1/"));
        assert!(!may("http://127.0.0.1/", "http://169.254.169.254/"));
        assert!(may("http://192.168.1.1/", "http://10.0.0.1/"));
        assert!(may("http://127.0.0.1/", "http://127.0.0.2/"));
        assert!(may("http://10.0.0.1/", "http://9.9.9.9/"));
    }

    #[test]
    fn a_name_that_resolves_into_such_a_network_is_refused() {
        let addresses =
            |texts: &[&str]| texts.iter().map(|text| text.parse().expect("an address")).collect::<Vec<_>>();
        let guard = Guard::default();
        let asked = address("http://source.example/");
        guard.goes_to(&asked, &asked).expect("the source itself");
        let found = guard.state().resolved("source.example", addresses(&["9.9.9.9:0"]));
        assert_eq!(found.expect("public").len(), 1);
        guard.goes_to(&asked, &address("http://other.example/")).expect("a name");
        let found = guard.state().resolved("other.example", addresses(&["127.0.0.1:0", "8.8.8.8:0"]));
        assert_eq!(found.expect("one is public"), addresses(&["8.8.8.8:0"]));
        assert!(guard.state().resolved("other.example", addresses(&["127.0.0.1:0", "[fe80::1]:0"])).is_err());
        // A proxy's name is nobody's redirect.
        assert!(guard.state().resolved("proxy.lab", addresses(&["10.0.0.1:0"])).is_ok());
    }

    #[test]
    fn a_source_in_the_lab_may_redirect_within_the_lab() {
        let guard = Guard::default();
        let asked = address("http://source.lab/");
        guard.goes_to(&asked, &asked).expect("the source itself");
        let inside = vec!["10.0.0.1:0".parse().expect("an address")];
        guard.state().resolved("source.lab", inside).expect("asked for");
        assert!(guard.goes_to(&asked, &address("http://10.0.0.2/")).is_ok());
        assert!(guard.goes_to(&asked, &address("http://127.0.0.1/")).is_err());
    }
}
