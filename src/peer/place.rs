//! Where others reach a member: what it was told, what a host's name stands for, or the address from which it reaches them.
//! The running member asks at its start, and then again and again: addresses change under a member that runs.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use tracing::info;

use crate::driver::Handle;
use crate::node::Command;

/// How often a member looks at its own addresses. Nothing is sent for it, and until it is noticed nobody reaches us.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// How often a name is looked up again: who changes an address behind a name lets it stand for minutes at least.
const RESOLVE_EVERY: Duration = Duration::from_secs(60);

/// An address that may change while the member runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A host's name and a port.
    Named(String),
    /// Where the socket listens, everywhere, and the first members.
    Everywhere { bound: SocketAddr, members: Vec<SocketAddr> },
}

impl Place {
    /// What may change; `None` for an address that was said, or on which the member listens.
    pub(super) fn new(
        said: Option<SocketAddr>,
        host: Option<&str>,
        bound: SocketAddr,
        members: &[SocketAddr],
    ) -> Option<Self> {
        match (host, said) {
            (Some(host), _) if host.parse::<SocketAddr>().is_err() => Some(Self::Named(host.to_owned())),
            (None, None) if bound.ip().is_unspecified() => {
                Some(Self::Everywhere { bound, members: members.to_vec() })
            }
            _ => None,
        }
    }

    /// Tells the node, for as long as it lives, when the address is not the one that others were told last.
    pub(super) async fn follow(self, mut told: SocketAddr, handle: Handle) {
        let every = if matches!(self, Self::Named(_)) { RESOLVE_EVERY } else { LOOK_EVERY };
        let mut looks = interval(every);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            // Without any address just now there is nothing to tell: the old one may come back.
            let Some(address) = self.look(told, &handle).await.filter(|address| *address != told) else {
                continue;
            };
            info!(%address, "is reached at another address now");
            if handle.command(Command::Moved { address }).await.is_err() {
                return;
            }
            told = address;
        }
    }

    async fn look(&self, told: SocketAddr, handle: &Handle) -> Option<SocketAddr> {
        match self {
            Self::Named(host) => {
                let found: Vec<_> = tokio::net::lookup_host(host).await.ok()?.collect();
                choose(&found, told)
            }
            Self::Everywhere { bound, members } => {
                if let Some(address) = way_to_any(*bound, members) {
                    return Some(address);
                }
                // Who began alone, or whose first members are gone, goes by those that it knows now.
                let known = handle.entries().await.ok()?;
                let known: Vec<_> = known.iter().map(|entry| entry.record.address).collect();
                way_to_any(*bound, &known)
            }
        }
    }
}

/// Of several addresses of one name, the one that was told is as good as any; otherwise one of the same family.
fn choose(found: &[SocketAddr], told: SocketAddr) -> Option<SocketAddr> {
    let can_be_reached = |address: &&SocketAddr| {
        !address.ip().is_unspecified() && !address.ip().is_multicast() && address.port() != 0
    };
    let found: Vec<SocketAddr> = found.iter().filter(can_be_reached).copied().collect();
    let same_family = found.iter().find(|address| address.is_ipv4() == told.is_ipv4());
    found.iter().find(|address| **address == told).or(same_family).or(found.first()).copied()
}

/// The address to tell others: where the member listens, or if that is everywhere, the address from which this computer
/// reaches the first of these members to which it has a way. Nothing is sent; behind a NAT somebody has to say it instead.
pub(super) fn shown_address(bound: SocketAddr, members: &[SocketAddr]) -> SocketAddr {
    if !bound.ip().is_unspecified() {
        return bound;
    }
    way_to_any(bound, members).unwrap_or(bound)
}

fn way_to_any(bound: SocketAddr, members: &[SocketAddr]) -> Option<SocketAddr> {
    members.iter().find_map(|member| {
        let socket = UdpSocket::bind((bound.ip(), 0)).ok()?;
        socket.connect(member).ok()?;
        let ip = socket.local_addr().ok()?.ip();
        (!ip.is_unspecified()).then(|| SocketAddr::new(ip, bound.port()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn who_listens_everywhere_tells_the_address_from_which_it_reaches_the_others() {
        let members = [at("[::1]:7433"), at("127.0.0.1:7433")];
        assert_eq!(shown_address(at("0.0.0.0:7434"), &members), at("127.0.0.1:7434"), "of its own family");
    }

    #[test]
    fn who_listens_at_one_address_tells_that() {
        assert_eq!(shown_address(at("127.0.0.2:7434"), &[at("127.0.0.1:7433")]), at("127.0.0.2:7434"));
    }

    #[test]
    fn only_what_nobody_said_may_change() {
        let (everywhere, said) = (at("0.0.0.0:7433"), Some(at("192.0.2.1:7433")));
        let place = |said, host, bound| Place::new(said, host, bound, &[]);
        assert!(matches!(place(None, None, everywhere), Some(Place::Everywhere { .. })));
        assert_eq!(place(said, None, everywhere), None);
        assert_eq!(place(None, None, at("192.0.2.1:7433")), None);
        assert_eq!(place(said, Some("192.0.2.1:7433"), everywhere), None);
        let named = Place::Named("lab.example.org:7433".to_owned());
        assert_eq!(place(said, Some("lab.example.org:7433"), everywhere), Some(named));
    }

    #[test]
    fn a_name_that_still_has_the_old_address_has_not_changed() {
        let found = ["[2001:db8::1]:7433", "0.0.0.0:7433", "192.0.2.2:7433", "192.0.2.1:7433"].map(at);
        assert_eq!(choose(&found, at("192.0.2.1:7433")), Some(at("192.0.2.1:7433")));
        assert_eq!(choose(&found, at("192.0.2.9:7433")), Some(at("192.0.2.2:7433")), "of its family");
        assert_eq!(choose(&found[..1], at("192.0.2.9:7433")), Some(found[0]));
        assert_eq!(choose(&found[1..2], at("192.0.2.9:7433")), None);
    }

    #[test]
    fn who_knows_nobody_has_nothing_better_to_tell() {
        assert_eq!(shown_address(at("0.0.0.0:7434"), &[]), at("0.0.0.0:7434"));
    }
}
