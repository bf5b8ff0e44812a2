//! The rules of the house that a machine can check: which way imports point, what the pure rooms may use, how long
//! a file may grow, and that nothing is left over.

use std::fs;
use std::path::{Path, PathBuf};

/// The rooms, and to which others each may look. A room may always look at itself.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("wire", &["base"]),
    ("trust", &["base", "wire"]),
    ("proto", &["base", "wire", "trust"]),
    ("node", &["base", "wire", "trust", "proto"]),
    ("sim", &["base", "wire", "trust", "proto", "node"]),
    ("driver", &["base", "wire", "trust", "proto", "node"]),
    ("fetch", &["base"]),
    ("jobs", &["base", "fetch"]),
    ("peer", &["base", "wire", "trust", "proto", "node", "driver", "fetch", "jobs"]),
    ("cli", &["base", "wire", "trust", "proto", "node", "sim", "driver", "peer", "fetch", "jobs"]),
];

/// Rooms without clock, socket, task, lock, global or unseeded randomness.
const PURE: &[&str] = &["base", "wire", "trust", "proto", "node", "sim"];

/// The one place in a pure room that touches the disk: key files.
const MAY_TOUCH_THE_DISK: &str = "src/trust/files";

const FORBIDDEN_IN_PURE: &[&str] = &[
    "Instant",
    "SystemTime",
    "HashMap",
    "HashSet",
    "thread_local!",
    "std::thread",
    "UdpSocket",
    "TcpStream",
    "TcpListener",
    "std::fs",
    "std::env",
    "std::io",
    "Mutex",
    "RwLock",
    "static mut",
    "OnceLock",
    "LazyLock",
    "tokio",
    "rayon",
    "indicatif",
    "println!",
    "rand::rng",
    "SysRng",
    "ThreadRng",
];

struct Source {
    path: PathBuf,
    text: String,
}

impl Source {
    /// The room: the first folder below `src`, or the file's own name.
    fn room(&self) -> String {
        let below = self.path.strip_prefix("src").expect("sources are below src");
        let first = below.components().next().expect("a file has a name").as_os_str().to_string_lossy();
        first.trim_end_matches(".rs").to_owned()
    }

    /// Lines of code, with their numbers: no comments, and nothing from the tests on.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text
            .lines()
            .enumerate()
            .take_while(|(_, line)| line.trim() != "#[cfg(test)]")
            .map(|(index, line)| (index + 1, line.split("//").next().unwrap_or(line)))
    }

    /// The rooms that this file names in paths such as `crate::base::Time` or `stroll::sim`.
    fn imports(&self) -> Vec<(usize, String)> {
        let mut found = Vec::new();
        for (number, line) in self.code() {
            for root in ["crate::", "stroll::"] {
                for (at, _) in line.match_indices(root) {
                    let rest = &line[at + root.len()..];
                    let names = rest.strip_prefix('{').map_or(vec![rest], |list| list.split(", ").collect());
                    found.extend(names.into_iter().map(|name| (number, first_word(name))));
                }
            }
        }
        found.retain(|(_, room)| !room.is_empty());
        found
    }
}

fn first_word(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

fn sources() -> Vec<Source> {
    let mut found = Vec::new();
    collect(Path::new("src"), &mut found);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(found.len() > 10, "the sources are not where they should be");
    found
}

fn collect(folder: &Path, found: &mut Vec<Source>) {
    for entry in fs::read_dir(folder).expect("the folder can be read") {
        let path = entry.expect("the entry can be read").path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("the file can be read");
            found.push(Source { path, text });
        }
    }
}

fn complain(what: &str, places: &[String]) {
    assert!(places.is_empty(), "{what}:\n  {}", places.join("\n  "));
}

#[test]
fn imports_point_to_the_left() {
    let mut wrong = Vec::new();
    for source in sources() {
        let room = source.room();
        let Some((_, allowed)) = MAY_IMPORT.iter().find(|(name, _)| *name == room) else {
            assert!(
                matches!(room.as_str(), "lib" | "main"),
                "{}: a room that the plan does not show",
                source.path.display()
            );
            continue;
        };
        for (line, other) in source.imports() {
            let is_room = MAY_IMPORT.iter().any(|(name, _)| *name == other);
            if !is_room {
                wrong.push(format!("{}:{line}: `{other}` is no room", source.path.display()));
            } else if other != room && !allowed.contains(&other.as_str()) {
                wrong.push(format!("{}:{line}: {room} looks at {other}", source.path.display()));
            }
        }
    }
    complain("imports that point to the right", &wrong);
}

#[test]
fn protocols_are_strangers() {
    let mut wrong = Vec::new();
    for source in sources().iter().filter(|source| source.room() == "proto") {
        let own = source.path.strip_prefix("src/proto").expect("it is below proto");
        let own = own.components().next().expect("a file has a name").as_os_str().to_string_lossy();
        let own = own.trim_end_matches(".rs");
        for (line, code) in source.code().filter(|(_, code)| code.contains("crate::proto::")) {
            let other = first_word(code.split("crate::proto::").nth(1).unwrap_or_default());
            if other != own {
                wrong.push(format!("{}:{line}: {own} knows {other}", source.path.display()));
            }
        }
    }
    complain("protocols that know each other", &wrong);
}

#[test]
fn the_pure_rooms_are_pure() {
    let mut wrong = Vec::new();
    let is_pure = |source: &&Source| {
        PURE.contains(&source.room().as_str()) && !source.path.starts_with(MAY_TOUCH_THE_DISK)
    };
    for source in sources().iter().filter(is_pure) {
        for (line, code) in source.code() {
            for word in FORBIDDEN_IN_PURE.iter().filter(|word| code.contains(**word)) {
                wrong.push(format!("{}:{line}: {word}", source.path.display()));
            }
        }
    }
    complain("clocks, sockets, locks, threads or unseeded randomness in pure rooms", &wrong);
}

#[test]
fn no_file_outgrows_a_reader() {
    let long = sources()
        .iter()
        .filter(|source| !source.path.ends_with("tests.rs"))
        .map(|source| (source, source.code().count()))
        .filter(|(_, lines)| *lines > 500)
        .map(|(source, lines)| format!("{}: {lines} lines before its tests", source.path.display()))
        .collect::<Vec<_>>();
    complain("files that want to be two", &long);
}

#[test]
fn every_file_says_what_it_is() {
    let silent = sources()
        .iter()
        .filter(|source| !source.text.starts_with("//! "))
        .map(|source| source.path.display().to_string())
        .collect::<Vec<_>>();
    complain("files without a word about themselves", &silent);
}

#[test]
fn nothing_is_left_over() {
    let mut left = Vec::new();
    for source in sources() {
        for (index, line) in source.text.lines().enumerate() {
            for word in ["TODO", "FIXME", "XXX", "HACK", "dbg!(", "todo!(", "unimplemented!("] {
                if line.contains(word) {
                    left.push(format!("{}:{}: {word}", source.path.display(), index + 1));
                }
            }
        }
    }
    complain("left over", &left);
}

#[test]
fn the_manual_draws_the_house_as_it_is() {
    let manual = fs::read_to_string("src/lib.rs").expect("the manual can be read");
    for (room, _) in MAY_IMPORT {
        assert!(Path::new("src").join(room).exists(), "{room} is in the plan but not in the house");
        assert!(manual.contains(&format!("`{room}")), "the manual's map does not show {room}");
    }
}
