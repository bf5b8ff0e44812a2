//! Where the homes are, one folder per circle, and which of them a command means.
//!
//! What is in a home, `trust::files` knows. Here is the folder around them, the choice by name, and the one fact that a
//! home does not hold: the address at which others reach the member, where that is not the one it listens on.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use directories::ProjectDirs;
use stroll::trust::{Authority, Home};

use super::exit::UsageError;

/// Beside the home's own files: where others reach the member.
const ADDRESS: &str = "address";

/// A folder's name, at most; the same as that of a circle's name.
const NAME_LIMIT: usize = 64;

/// Where the homes are.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct RootArgs {
    /// Folder with one folder per circle [default: stroll/circles in the data folder]
    #[arg(long, value_name = "DIR", env = "STROLL_HOME")]
    pub(super) home: Option<PathBuf>,
}

/// Where the homes are, and which of them is meant.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct HomeArgs {
    #[command(flatten)]
    pub(super) root: RootArgs,

    /// Which circle, by its name here; may be left out if there is only one
    #[arg(long, value_name = "NAME", env = "STROLL_CIRCLE")]
    pub(super) circle: Option<String>,
}

impl HomeArgs {
    /// The circle that is meant, by its name here, and its home.
    pub(super) fn open(&self) -> anyhow::Result<(String, Home)> {
        self.root.open(self.circle.as_deref())
    }

    /// The same for what only the authority can do.
    pub(super) fn open_authority(&self) -> anyhow::Result<(String, Home, Authority)> {
        let (name, home) = self.open()?;
        let Some(authority) = home.load_authority()? else {
            bail!(
                "the authority's key of {name} is not here; only the one who created the circle can do this, \
                 in the home where that was done"
            );
        };
        Ok((name, home, authority))
    }

    /// The command that runs the member of this circle.
    pub(super) fn run_command(&self, name: &str) -> String {
        format!("stroll run{}", self.flags(name))
    }

    /// What to add to a command so that it means the same circle.
    pub(super) fn flags(&self, name: &str) -> String {
        let flags = self.root.flags();
        let is_clear = matches!(self.root.circles().as_deref(), Ok([only]) if only == name);
        if is_clear { flags } else { format!("{flags} --circle {}", quoted(name)) }
    }
}

impl RootArgs {
    /// The folder that holds the homes.
    pub(super) fn path(&self) -> anyhow::Result<PathBuf> {
        if let Some(home) = &self.home {
            return Ok(home.clone());
        }
        let dirs = ProjectDirs::from("", "", "stroll").ok_or_else(|| {
            UsageError("home: there is no home folder; say with --home where to look".into())
        })?;
        Ok(dirs.data_dir().join("circles"))
    }

    /// The home of the circle with this name, or of the only circle.
    pub(super) fn open(&self, circle: Option<&str>) -> anyhow::Result<(String, Home)> {
        let name = match circle {
            Some(name) => name.to_owned(),
            None => self.only_circle()?,
        };
        check_name("circle", &name)?;
        let path = self.path()?.join(&name);
        if !path.is_dir() {
            return Err(self.unknown(&name).into());
        }
        let home = Home::open(path)?;
        if !home.is_complete() {
            bail!("joining {name} was not completed; run the same `stroll join` again");
        }
        Ok((name, home))
    }

    /// The names of the circles here, in order. One whose joining was not completed is none yet.
    pub(super) fn circles(&self) -> anyhow::Result<Vec<String>> {
        let names = self.folders()?;
        let root = self.path()?;
        // One that cannot be opened is still meant; opening it then says what is wrong.
        let is_circle = |name: &String| Home::open(root.join(name)).map_or(true, |home| home.is_complete());
        Ok(names.into_iter().filter(is_circle).collect())
    }

    /// The names of all folders here, in order.
    pub(super) fn folders(&self) -> anyhow::Result<Vec<String>> {
        let root = self.path()?;
        let entries = match fs::read_dir(&root) {
            // The home folder of system users may be /dev/null.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(Vec::new());
            }
            entries => entries.with_context(|| format!("cannot read {}", root.display()))?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.with_context(|| format!("cannot read {}", root.display()))?;
            if let Ok(name) = entry.file_name().into_string()
                && !name.starts_with('.')
                && entry.path().is_dir()
            {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// What to add to a command so that it looks in the same folder; nothing where the environment says it.
    pub(super) fn flags(&self) -> String {
        match &self.home {
            Some(home) if std::env::var_os("STROLL_HOME").as_deref() != Some(home.as_os_str()) => {
                format!(" --home {}", quoted(&home.to_string_lossy()))
            }
            _ => String::new(),
        }
    }

    /// Nothing is here, or only what `stroll join` has begun.
    fn no_circle(&self) -> anyhow::Result<UsageError> {
        let (path, begun) = (self.path()?, self.folders()?);
        let cure = match begun.as_slice() {
            [] => "create one with `stroll circle create`, or join one with `stroll join`".to_owned(),
            names => format!(
                "joining {} was begun; give the signed answer, or the invitation again, to `stroll join`",
                names.join(", ")
            ),
        };
        Ok(UsageError(format!("there is no circle in {}; {cure}", path.display())))
    }

    fn only_circle(&self) -> anyhow::Result<String> {
        let mut names = self.circles()?;
        match names.len() {
            0 => Err(self.no_circle()?.into()),
            1 => Ok(names.remove(0)),
            _ => Err(UsageError(format!(
                "circle: there are several here ({}); say which one is meant",
                names.join(", ")
            ))
            .into()),
        }
    }

    fn unknown(&self, name: &str) -> UsageError {
        let known = match self.circles() {
            Ok(names) if !names.is_empty() => format!("there are {}", names.join(", ")),
            _ => "there is none yet; `stroll circle create` and `stroll join` make one".to_owned(),
        };
        UsageError(format!("circle: there is no {name} here; {known}"))
    }
}

/// Refuses names that would lead out of the folder, or steer a terminal.
pub(super) fn check_name(field: &str, name: &str) -> Result<(), UsageError> {
    let complaint = if name.trim().is_empty() {
        "is empty"
    } else if name.len() > NAME_LIMIT {
        "is longer than 64 bytes"
    } else if name.chars().any(char::is_control) {
        "has control characters"
    } else if name.starts_with('.') || name.contains(['/', '\\']) {
        "begins with a dot or has a slash"
    } else {
        return Ok(());
    };
    Err(UsageError(format!("{field}: the name {complaint}")))
}

/// An address to listen on.
pub(super) fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "write IP:PORT, such as 0.0.0.0:7433 or [::]:7433".to_owned())
}

/// The address that somebody wrote as `HOST:PORT`, in the family in which the member listens if there is a choice.
pub(super) fn resolve(text: &str, listen: SocketAddr) -> Result<SocketAddr, UsageError> {
    let wrong = |reason: String| UsageError(format!("address: {reason}"));
    let found = text
        .to_socket_addrs()
        .map_err(|error| wrong(format!("`{text}` is not HOST:PORT of a host that is known ({error})")))?
        .collect::<Vec<_>>();
    let fits = |address: &&SocketAddr| address.is_ipv4() == listen.is_ipv4();
    let address = found.iter().find(fits).or(found.first()).copied();
    let address = address.ok_or_else(|| wrong(format!("`{text}` has no address")))?;
    if address.ip().is_unspecified() || address.ip().is_multicast() || address.port() == 0 {
        return Err(wrong(format!("{address} is none that others can reach")));
    }
    Ok(address)
}

/// Where others reach the member with this home: what was said, or else where it listens if that is a place. `None`:
/// nobody has said it, and it listens everywhere.
pub(super) fn load_address(home: &Home, listen: SocketAddr) -> anyhow::Result<Option<SocketAddr>> {
    let path = address_file(home);
    match fs::read_to_string(&path) {
        Ok(text) => {
            let address = text.trim().parse();
            address.map(Some).with_context(|| format!("{} is no address", path.display()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Ok(Some(listen).filter(|listen| !listen.ip().is_unspecified() && listen.port() != 0))
        }
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// The file in which that is kept.
pub(super) fn address_file(home: &Home) -> PathBuf {
    home.path().join(ADDRESS)
}

/// Remembers where others reach the member.
pub(super) fn save_address(home: &Home, address: SocketAddr) -> anyhow::Result<()> {
    let path = address_file(home);
    let new = home.path().join(format!(".{ADDRESS}.new"));
    let write = || {
        let _ = fs::remove_file(&new);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        writeln!(file, "{address}")?;
        file.sync_all()?;
        fs::rename(&new, &path)
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

/// What this computer calls itself, up to the first dot.
pub(super) fn host_name() -> Option<String> {
    let text = ["/proc/sys/kernel/hostname", "/etc/hostname"]
        .iter()
        .find_map(|path| fs::read_to_string(path).ok())?;
    let name = text.trim().split('.').next().unwrap_or_default();
    check_name("member", name).is_ok().then(|| name.to_owned())
}

/// A word as a shell takes it.
pub(super) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:@%+=,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Makes sure that a renamed folder is found again after the power fails.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    fs::File::open(path)?.sync_all()
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn root_with(circles: &[&str]) -> (TempDir, RootArgs) {
        let folder = TempDir::new().unwrap();
        for name in circles {
            let home = Home::create(folder.path().join(name)).unwrap();
            fs::write(home.path().join("circle.toml"), "").unwrap();
        }
        let root = RootArgs { home: Some(folder.path().to_owned()) };
        (folder, root)
    }

    fn complaint(result: anyhow::Result<(String, Home)>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn the_only_circle_needs_no_name() {
        let (folder, root) = root_with(&["virgo"]);
        // Neither a joining that was not completed nor a rest of something counts.
        Home::create(folder.path().join("unfinished")).unwrap();
        Home::create(folder.path().join(".virgo.17")).unwrap();
        fs::write(folder.path().join("file"), "").unwrap();
        assert_eq!(root.open(None).unwrap().0, "virgo");
        assert!(complaint(root.open(Some("unfinished"))).contains("not completed"));
    }

    #[test]
    fn several_circles_are_named_and_none_is_told_how_to_begin() {
        let (_folder, root) = root_with(&["virgo", "lyra"]);
        assert!(complaint(root.open(None)).contains("(lyra, virgo)"));
        assert_eq!(root.open(Some("lyra")).unwrap().0, "lyra");
        assert!(complaint(root.open(Some("orion"))).contains("no orion here; there are lyra, virgo"));
        let (_folder, root) = root_with(&[]);
        assert!(complaint(root.open(None)).contains("stroll circle create"));
        for nowhere in ["/nonexistent/circles", "/dev/null/circles"] {
            let root = RootArgs { home: Some(nowhere.into()) };
            assert_eq!(root.circles().unwrap(), Vec::<String>::new(), "{nowhere}");
        }
        let root = RootArgs { home: Some("/nonexistent/circles".into()) };
        assert!(complaint(root.open(None)).contains("no circle in /nonexistent/circles"));
    }

    #[test]
    fn names_do_not_lead_out_of_the_folder() {
        let (_folder, root) = root_with(&["virgo"]);
        for name in ["", " ", "..", "a/b", "/etc", "a\\b", "a\nb", &"x".repeat(65)] {
            assert!(complaint(root.open(Some(name))).starts_with("circle: the name"), "{name:?}");
        }
    }

    #[test]
    fn commands_that_are_printed_mean_the_same_circle() {
        let (folder, root) = root_with(&["virgo"]);
        let args = HomeArgs { root, circle: None };
        let home = format!(" --home {}", folder.path().display());
        assert_eq!(args.flags("virgo"), home);
        assert_eq!(args.run_command("virgo"), format!("stroll run{home}"));
        Home::create(folder.path().join("my circle")).unwrap();
        fs::write(folder.path().join("my circle/circle.toml"), "").unwrap();
        assert_eq!(args.flags("my circle"), format!("{home} --circle 'my circle'"));
    }

    #[test]
    fn words_are_quoted_for_the_shell_only_where_needed() {
        assert_eq!(quoted("lab-b"), "lab-b");
        assert_eq!(quoted("lab b"), "'lab b'");
        assert_eq!(quoted("it's $HOME"), r"'it'\''s $HOME'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn addresses_are_those_that_others_can_reach() {
        let listen = "0.0.0.0:7433".parse().unwrap();
        assert_eq!(resolve("192.0.2.1:7433", listen).unwrap(), "192.0.2.1:7433".parse().unwrap());
        assert_eq!(resolve("[2001:db8::1]:7433", listen).unwrap(), "[2001:db8::1]:7433".parse().unwrap());
        for text in ["192.0.2.1", "0.0.0.0:7433", "192.0.2.1:0", "224.0.0.1:7433", ":7433"] {
            assert!(resolve(text, listen).unwrap_err().0.starts_with("address: "), "{text}");
        }
    }

    #[test]
    fn the_address_is_what_was_said_or_else_where_the_member_listens() {
        let (_folder, root) = root_with(&["virgo"]);
        let (_, home) = root.open(None).unwrap();
        let (everywhere, here) = ("0.0.0.0:7433".parse().unwrap(), "192.0.2.1:7433".parse().unwrap());
        assert_eq!(load_address(&home, everywhere).unwrap(), None);
        assert_eq!(load_address(&home, here).unwrap(), Some(here));
        for port in [1, 2] {
            let said = SocketAddr::new([192, 0, 2, 9].into(), port);
            save_address(&home, said).unwrap();
            assert_eq!(load_address(&home, everywhere).unwrap(), Some(said));
        }
    }
}
