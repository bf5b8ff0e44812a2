//! No listing, however large, takes much more memory than one of ten files.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]
#![allow(clippy::disallowed_methods, reason = "a process is watched while it runs")]

#[path = "common/desk.rs"]
mod desk;

use std::fs;
use std::io::{BufRead as _, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::time::Duration;

use desk::Desk;

/// What a listing may cost more than one of ten files.
const MOST_MORE_KIB: u64 = 64 << 10;

const MILLION: usize = 1_000_000;

/// What the folder's address answers with: its type, and what writes it.
type Page = (&'static str, fn(&mut dyn Write) -> std::io::Result<()>);

fn html(out: &mut dyn Write, count: usize) -> std::io::Result<()> {
    out.write_all(b"<html><head><title>Index of /pub/</title></head><body><h1>Index of /pub/</h1><pre><a href=\"../\">../</a>\n")?;
    for number in 0..count {
        writeln!(
            out,
            "<a href=\"frame-{number:09}.gwf\">frame-{number:09}.gwf</a>    18-Nov-2026 15:09     {number}"
        )?;
    }
    out.write_all(b"</pre></body></html>")
}

fn ten(out: &mut dyn Write) -> std::io::Result<()> {
    html(out, 10)
}

fn million(out: &mut dyn Write) -> std::io::Result<()> {
    html(out, MILLION)
}

/// 250 MiB for a million files.
fn json(out: &mut dyn Write) -> std::io::Result<()> {
    let pad = " ".repeat(150);
    out.write_all(b"[")?;
    for number in 0..MILLION {
        let comma = if number == 0 { "" } else { "," };
        write!(
            out,
            "{comma}\n{{ \"name\":\"frame-{number:09}.gwf\", \"type\":\"file\", \"mtime\":\"Wed, 18 Nov 2026 15:09:00 GMT\", \"size\":{number} {pad}}}"
        )?;
    }
    out.write_all(b"\n]")
}

/// A million files whose types are stated, so that a plan asks for none of them.
fn typed(out: &mut dyn Write) -> std::io::Result<()> {
    out.write_all(b"[")?;
    for number in 0..MILLION {
        let comma = if number == 0 { "" } else { "," };
        write!(
            out,
            "{comma}\n{{ \"name\":\"frame-{number:09}.gwf\", \"type\":\"file\", \"mtime\":\"Wed, 18 Nov 2026 15:09:00 GMT\", \"size\":{number} }}"
        )?;
    }
    out.write_all(b"\n]")
}

/// Names of 200 characters: more than fits, so the listing is cut.
fn long_names(out: &mut dyn Write) -> std::io::Result<()> {
    out.write_all(b"<html><head><title>Index of /pub/</title></head><body><pre><a href=\"../\">../</a>\n")?;
    let long = "n".repeat(190);
    for number in 0..500_000 {
        writeln!(out, "<a href=\"{long}{number:09}\">{number:09}</a>    18-Nov-2026 15:09     {number}")?;
    }
    out.write_all(b"</pre></body></html>")
}

/// One text without an end.
fn prose(out: &mut dyn Write) -> std::io::Result<()> {
    out.write_all(b"<html><head><title>")?;
    for _ in 0..200 {
        out.write_all(&vec![b'x'; 1 << 20])?;
    }
    Ok(())
}

fn serve(listener: TcpListener, (kind, page): Page) {
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            std::thread::spawn(move || answer(&stream, kind, page));
        }
    });
}

fn answer(stream: &TcpStream, kind: &str, page: fn(&mut dyn Write) -> std::io::Result<()>) {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let Some(first) = lines.next() else { return };
    while lines.next().is_some_and(|line| !line.is_empty()) {}
    let mut out = std::io::BufWriter::with_capacity(64 << 10, stream);
    // The client may leave early.
    if first.contains(" /pub/ ") {
        let _ = write!(out, "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n");
        let _ = page(&mut out);
    } else {
        let _ = out.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    }
    let _ = out.flush();
}

/// The most memory that a mirror of such a page ever has, in KiB, and its exit code.
fn peak_kib(page: Page, more: &[&str]) -> (u64, Option<i32>) {
    let (desk, listener) = (Desk::new(), TcpListener::bind("127.0.0.1:0").unwrap());
    let url = format!("http://{}/pub/", listener.local_addr().unwrap());
    serve(listener, page);
    let mut command = desk.stroll(&["mirror", &url, "replica", "--retries", "0", "--progress", "none"]);
    let log = fs::File::create(desk.home().join("log")).unwrap();
    let mut child =
        command.args(more).stdout(log.try_clone().map(Stdio::from).unwrap()).stderr(log).spawn().unwrap();
    let mut peak = 0;
    let status = loop {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let words = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        peak = words.unwrap_or(0).max(peak);
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    (peak, status.code())
}

#[test]
fn a_large_listing_costs_at_most_64_mib_more_than_one_of_ten_files() {
    let none = ["--include", "nothing"];
    let (small, code) = peak_kib(("text/html", ten), &none);
    assert_eq!(code, Some(0));
    assert!(small > 1_000, "it was looked at: {small} KiB");
    for (what, page, expected) in [
        ("a million files in HTML", ("text/html", million as fn(&mut dyn Write) -> _), 0),
        ("a million files in 250 MiB of JSON", ("application/json", json), 0),
        ("names that do not fit", ("text/html", long_names), 6),
        ("an endless title", ("text/html", prose), 7),
    ] {
        let (large, code) = peak_kib(page, &none);
        assert!(large < small + MOST_MORE_KIB, "{what}: {large} KiB, ten files: {small} KiB");
        assert_eq!(code, Some(expected), "{what}");
    }
    for (what, flags) in [
        ("a plan for all of them", &["--dry-run", "--json"][..]),
        ("--delete", &["--include", "nothing", "--delete"]),
    ] {
        let (large, code) = peak_kib(("application/json", typed), flags);
        assert!(large < small + MOST_MORE_KIB, "{what}: {large} KiB, ten files: {small} KiB");
        assert_eq!(code, Some(0), "{what}");
    }
}
