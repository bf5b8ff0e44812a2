//! Twelve members with four tickets around a real FTP server for four: it never has to send anybody away, not even when
//! members are killed and come back.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]
#![allow(clippy::disallowed_methods, reason = "these tests are about real time")]

#[path = "common/crowd.rs"]
mod crowd;
#[path = "common/ftpd.rs"]
mod ftpd;
#[path = "common/lab.rs"]
mod lab;

use std::io::Read as _;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use crowd::{Crowd, TICKETS};
use ftpd::{Ftpd, Kind, Tls};

/// The killed stay away for longer than anybody's word counts.
const AWAY: Duration = Duration::from_secs(5);

#[test]
fn a_server_for_four_refuses_none_of_twelve_and_two_of_them_may_be_killed() {
    let mut crowd = Crowd::new();
    crowd.all_are_served(1);
    // A ring of four bears the crash of one holder; with two it may have to be founded anew.
    let killed = crowd.kill_some(1);
    thread::sleep(AWAY);
    for member in killed {
        crowd.run(member);
    }
    crowd.all_are_served(1);
    assert_eq!(crowd.refusals(), Vec::<String>::new(), "{}", crowd.logs());
}

/// What the other test would see.
#[test]
fn a_server_for_four_sends_the_fifth_away_and_says_so() {
    let server = Ftpd::with(Kind::Vsftpd, Tls::Off, Some(TICKETS));
    let greeting = |mut client: &TcpStream| {
        let mut code = [0; 3];
        client.read_exact(&mut code).unwrap();
        String::from_utf8(code.to_vec()).unwrap()
    };
    let clients: Vec<TcpStream> =
        (0..=TICKETS).map(|_| TcpStream::connect(("127.0.0.1", server.port)).unwrap()).collect();
    let greetings: Vec<String> = clients.iter().map(greeting).collect();
    assert_eq!(greetings, ["220", "220", "220", "220", "421"]);
    assert_eq!(server.refusals().len(), 1, "{:?}", server.refusals());
}
