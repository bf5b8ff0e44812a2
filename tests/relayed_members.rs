//! Members as processes that reach each other only through a bad network: a [relay](relay) that delays, reorders, loses,
//! doubles and cuts, changes its mappings, and lets a stranger flood one of them. Real sockets, real time.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]
#![allow(clippy::disallowed_methods, reason = "these tests are about real time")]

#[path = "common/lab.rs"]
mod lab;
#[path = "common/relay.rs"]
mod relay;

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use lab::{
    Lab, QUICK, all_are_served, circle_of, nobody_shares_a_token, one_token_is_left, slots_were_exclusive,
};
use relay::{Faults, Relay};
use stroll::base::Rng;

/// The members' own addresses: what the relay knows them by.
fn locals(labs: &[Lab]) -> Vec<SocketAddr> {
    labs.iter().map(|lab| lab.local).collect()
}

/// A circle whose members know only the relay's fronts of each other.
fn relayed_circle(folder: &Path, relay: &Relay, count: usize) -> Vec<Lab> {
    let lab = |n: usize| {
        let mut lab = Lab::new(folder, &format!("lab-{n}"));
        lab.address = Some(relay.front(lab.local));
        lab
    };
    let labs = circle_of((0..count).map(lab).collect(), QUICK);
    all_are_served(&labs, 1);
    labs
}

fn slots(labs: &[Lab]) -> usize {
    labs.iter().map(Lab::slots_in_log).sum()
}

/// Lets real time pass, looking that nobody shares a token.
fn watch(labs: &[Lab], span: Duration) {
    let started = Instant::now();
    while started.elapsed() < span {
        nobody_shares_a_token(labs);
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Who holds a token now.
fn holder(labs: &[Lab]) -> usize {
    let started = Instant::now();
    loop {
        let holds = |lab: &Lab| lab.glance().is_some_and(|status| status["state"] == "pulling");
        if let Some(place) = labs.iter().position(holds) {
            return place;
        }
        assert!(started.elapsed() < Duration::from_secs(180), "nobody pulls");
    }
}

/// All but this one.
fn others(all: &[SocketAddr], one: SocketAddr) -> Vec<SocketAddr> {
    all.iter().copied().filter(|address| *address != one).collect()
}

#[test]
fn behind_a_bad_network_all_are_served_and_a_token_is_never_in_two_places() {
    let folder = tempfile::tempdir().unwrap();
    let relay = Relay::new(1);
    let labs = relayed_circle(folder.path(), &relay, 4);
    let twenty = Duration::from_millis(20);
    relay.set(Faults { delay: twenty, jitter: twenty, loss: 0.2, duplication: 0.05 });
    let before = relay.counts();
    all_are_served(&labs, 5);
    slots_were_exclusive(&labs);
    let after = relay.counts();
    println!("{before:?}\n{after:?}, {} slots", slots(&labs));
    assert!(after.lost > before.lost && after.doubled > before.doubled, "the network was bad: {after:?}");
    relay.set(Faults::default());
    let took = one_token_is_left(&labs);
    println!("one token {took:?} after the network was good again");
}

#[test]
fn after_one_way_cuts_of_the_holder_one_token_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let relay = Relay::new(2);
    let labs = relayed_circle(folder.path(), &relay, 3);
    let all = locals(&labs);
    for is_heard in [true, false] {
        let alone = holder(&labs);
        let (deaf, rest) = (all[alone], others(&all, all[alone]));
        if is_heard {
            relay.cut(&rest, &[deaf]);
        } else {
            relay.cut(&[deaf], &rest);
        }
        let at_others = || slots(&labs) - labs[alone].slots_in_log();
        let (before, started) = (at_others(), Instant::now());
        while at_others() < before + 4 {
            assert!(started.elapsed() < Duration::from_secs(180), "the others do not go on");
            watch(&labs, Duration::from_millis(100));
        }
        assert!(relay.counts().cut > 0, "something was cut");
        relay.heal();
        let took = one_token_is_left(&labs);
        println!("one token {took:?} after the cut, heard: {is_heard}");
    }
    slots_were_exclusive(&labs);
}

#[test]
fn two_halves_go_on_and_when_they_meet_one_token_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let relay = Relay::new(3);
    let labs = relayed_circle(folder.path(), &relay, 4);
    // The half without the token has the one who gave it away, and who watches over it: otherwise chance decides when
    // somebody there takes it for lost, and that can take a minute.
    let giver = holder(&labs);
    let taker = loop {
        let now = holder(&labs);
        if now != giver {
            break now;
        }
    };
    let mut rest = (0..4).filter(|n| *n != giver && *n != taker).map(|n| labs[n].local);
    let left = [labs[taker].local, rest.next().unwrap()];
    let right = [labs[giver].local, rest.next().unwrap()];
    relay.cut(&left, &right);
    relay.cut(&right, &left);
    // Each half makes itself a token if it has none.
    all_are_served(&labs, 3);
    relay.heal();
    let took = one_token_is_left(&labs);
    println!("one token {took:?} after the halves met");
    slots_were_exclusive(&labs);
}

#[test]
fn members_go_on_when_their_mappings_change_and_when_one_moves() {
    let folder = tempfile::tempdir().unwrap();
    let relay = Relay::new(4);
    let mut labs = relayed_circle(folder.path(), &relay, 3);
    let before = (relay.counts().mappings, slots(&labs));
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(4) {
        relay.rebind();
        watch(&labs, Duration::from_millis(300));
    }
    let after = (relay.counts().mappings, slots(&labs));
    println!("{} new mappings, {} slots", after.0 - before.0, after.1 - before.1);
    assert!(after.0 >= before.0 + 6, "addresses changed");
    all_are_served(&labs, 1);
    // A datagram's source is where its answer goes, and nothing more: the others are known by what they signed.
    let fronts: Vec<String> = labs.iter().filter_map(|lab| Some(lab.address?.to_string())).collect();
    for lab in &labs {
        let status = lab.glance().unwrap();
        for member in status["members"].as_array().unwrap() {
            assert!(fronts.iter().any(|front| member["address"] == front.as_str()), "{member}");
        }
    }
    // What it signs anew is believed.
    labs[2].kill();
    let moved = relay.front(labs[2].local);
    labs[2].address = Some(moved);
    labs[2].run();
    for lab in &labs[..2] {
        lab.wait_until("knows the new address", |lab| {
            let status = lab.glance().unwrap_or_default();
            let members = status["members"].as_array().cloned().unwrap_or_default();
            members.iter().any(|member| member["address"] == moved.to_string().as_str())
        });
    }
    all_are_served(&labs, 1);
}

/// What a stranger sends who has seen the circle's datagrams but has none of its keys.
fn junk(rng: &mut Rng, recorded: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = recorded[rng.below(recorded.len())].clone();
    match rng.below(4) {
        0 => {
            bytes.truncate(1 + rng.below(1200));
            bytes.fill_with(|| u8::try_from(rng.below(256)).unwrap());
        }
        1 => bytes[0] ^= 0xff,
        2 => bytes.truncate(rng.below(bytes.len())),
        _ => {
            let place = rng.below(bytes.len());
            bytes[place] ^= 1 << rng.below(8);
        }
    }
    bytes
}

/// Sends by this socket 20 datagrams every millisecond, as far as the machine can; says how many bytes went out.
fn flood(
    socket: &UdpSocket,
    target: SocketAddr,
    span: Duration,
    mut next: impl FnMut() -> Vec<u8>,
) -> (u64, u64) {
    let (started, mut datagrams, mut sent_bytes) = (Instant::now(), 0_u64, 0);
    while started.elapsed() < span {
        let due = u64::try_from(started.elapsed().as_millis()).unwrap() * 20;
        while datagrams < due {
            let bytes = next();
            sent_bytes += bytes.len() as u64;
            let _ = socket.send_to(&bytes, target);
            datagrams += 1;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    (datagrams, sent_bytes)
}

/// What came back by now: datagrams and bytes.
fn answers(socket: &UdpSocket) -> (usize, u64) {
    socket.set_nonblocking(true).unwrap();
    let mut buffer = [0; 2048];
    let lens: Vec<usize> =
        std::iter::from_fn(|| socket.recv_from(&mut buffer).ok()).map(|(len, _)| len).collect();
    (lens.len(), lens.iter().sum::<usize>() as u64)
}

fn resident_kib(lab: &Lab) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", lab.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn a_flood_is_not_answered_and_takes_neither_slots_nor_memory() {
    let folder = tempfile::tempdir().unwrap();
    let relay = Relay::new(5);
    let labs = relayed_circle(folder.path(), &relay, 3);
    let (span, target) = (Duration::from_secs(3), labs[1].local);
    let start = slots(&labs);
    watch(&labs, span);
    let quiet = slots(&labs) - start;
    let recorded = relay.recorded(target);
    assert!(recorded.len() > 10, "there is something to repeat");

    // Junk: no answer at all.
    let (stranger, mut rng) = (UdpSocket::bind("127.0.0.1:0").unwrap(), Rng::seeded(6));
    let (start, before) = (slots(&labs), resident_kib(&labs[1]));
    let (datagrams, _) = flood(&stranger, target, span, || junk(&mut rng, &recorded));
    let flooded = slots(&labs) - start;
    println!(
        "{datagrams} junk datagrams; slots {quiet} before, {flooded} meanwhile; memory {before} KiB before"
    );
    assert_eq!(answers(&stranger), (0, 0), "strangers are not answered");
    assert!(flooded * 2 >= quiet, "{quiet} slots before, {flooded} meanwhile");

    // Repetitions of what members said: what is answered is less than what was sent, in number and length.
    let replayer = UdpSocket::bind("127.0.0.1:0").unwrap();
    let start = slots(&labs);
    let (mut recorded, mut sent) = (recorded, 0);
    let (datagrams, bytes) = flood(&replayer, target, span, || {
        sent += 1;
        if sent % 1000 == 0 {
            // The newest can do the most harm.
            recorded = relay.recorded(target);
        }
        recorded[rng.below(recorded.len())].clone()
    });
    let flooded = slots(&labs) - start;
    let (count, length) = answers(&replayer);
    println!(
        "{datagrams} repeated datagrams of {bytes} bytes; {count} answers of {length} bytes; {flooded} slots"
    );
    assert!(flooded * 2 >= quiet, "{quiet} slots before, {flooded} meanwhile");
    assert!(count <= 150 && length <= bytes / 10, "{count} answers");

    let after = resident_kib(&labs[1]);
    println!("memory {after} KiB after");
    assert!(after < before + 8 * 1024, "{before} KiB before, {after} KiB after");
    let status = labs[1].glance().unwrap();
    println!("rejected: {}", status["rejected"]);
    slots_were_exclusive(&labs);
}
