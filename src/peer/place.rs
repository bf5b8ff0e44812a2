//! Where others reach a member that listens everywhere and was not told its address. The running member asks, at its start.

use std::net::{SocketAddr, UdpSocket};

/// The address to tell others: where the member listens, or if that is everywhere, the address from which this computer
/// reaches the first of these members to which it has a way. Nothing is sent; behind a NAT somebody has to say it instead.
pub(super) fn shown_address(bound: SocketAddr, members: &[SocketAddr]) -> SocketAddr {
    if !bound.ip().is_unspecified() {
        return bound;
    }
    let way_to = |member: &SocketAddr| {
        let socket = UdpSocket::bind((bound.ip(), 0)).ok()?;
        socket.connect(member).ok()?;
        let ip = socket.local_addr().ok()?.ip();
        (!ip.is_unspecified()).then(|| SocketAddr::new(ip, bound.port()))
    };
    members.iter().find_map(way_to).unwrap_or(bound)
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
    fn who_knows_nobody_has_nothing_better_to_tell() {
        assert_eq!(shown_address(at("0.0.0.0:7434"), &[]), at("0.0.0.0:7434"));
    }
}
