//! Who we are at a source, and the secret that proves it.
//!
//! Logins are given (from an address, a setting, a password file or command) or come from `~/.netrc`. A login is good
//! for its own origin, or in the case of netrc for its exact host, and for nobody else. Secrets in files that others can
//! read are refused. A netrc file that others can read is an error only where one of its logins would be used.

mod netrc;

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use zeroize::Zeroizing;

pub use self::netrc::NetrcError;

use self::netrc::Netrc;
use super::children::RunningGroup;
use super::{Address, Fault};

/// No file with secrets is longer.
const LONGEST_FILE: u64 = 1_024 * 1_024;

/// Nor is a password.
const LONGEST_PASSWORD: u64 = 4_096;

/// How long a password command may think. Long enough for a human who is asked by it, too short to look like a hang.
const COMMAND_WITHIN: Duration = Duration::from_secs(30);

/// A password. It never prints itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Keeps a password.
    pub fn new(password: String) -> Self {
        Self(Zeroizing::new(password))
    }

    /// The first line of a file that only its owner can read.
    pub fn from_file(path: &Path) -> Result<Self, Fault> {
        let (bytes, access) = read_secrets(path)?;
        access.check(path)?;
        first_line(&bytes).ok_or_else(|| local(path, io::Error::other("it has no first line")))
    }

    /// The first line that a command prints. Waits for it, so call it before anything else runs.
    pub fn from_command(command: &str) -> Result<Self, Fault> {
        Self::from_command_within(command, COMMAND_WITHIN)
    }

    fn from_command_within(command: &str, time: Duration) -> Result<Self, Fault> {
        // The command is the user's own, but it may well hold a path or a name: it is not repeated.
        let fault = |source| Fault::Local { what: "the password command failed".to_owned(), source };
        let mut running = Running::start(command).map_err(fault)?;
        let output = running.output(time).map_err(fault)?;
        first_line(&output).ok_or_else(|| fault(io::Error::other("it printed no first line")))
    }

    /// The password, for the one who sends it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// A user with its password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// The user.
    pub user: String,
    /// The password.
    pub password: Secret,
}

impl Login {
    /// Whether it is the public login of FTP, whose password is no secret.
    pub fn is_anonymous(&self) -> bool {
        ["anonymous", "ftp"].iter().any(|user| self.user.eq_ignore_ascii_case(user))
    }
}

/// Where logins come from.
#[derive(Clone, Debug, Default)]
pub struct Logins {
    given: Vec<(Address, Login)>,
    netrc: Netrc,
    /// The netrc file, if others can read or write it.
    exposed: Option<PathBuf>,
}

impl Logins {
    /// Those of a netrc file.
    pub fn with_netrc(path: &Path) -> Result<Self, Fault> {
        let mut logins = Self::default();
        logins.read_netrc(path)?;
        Ok(logins)
    }

    /// Also those of a netrc file, which must exist. If others can read it, its logins are refused when they are looked up.
    pub fn read_netrc(&mut self, path: &Path) -> Result<(), Fault> {
        let (text, access) = read_secrets(path)?;
        self.exposed = (access == Access::Others).then(|| path.to_owned());
        let text = std::str::from_utf8(&text).map_err(|error| local(path, io::Error::other(error)))?;
        self.parse_netrc(text).map_err(|error| local(path, io::Error::other(error)))
    }

    /// Also those of a netrc file that was read already. The last one counts.
    pub fn parse_netrc(&mut self, text: &str) -> Result<(), NetrcError> {
        self.netrc = Netrc::parse(text)?;
        Ok(())
    }

    /// A login for everything at the origin of this address. It comes before those of netrc.
    pub fn give(&mut self, address: Address, login: Login) {
        self.given.push((address, login));
    }

    /// The login for an address that was asked for; `None` means anonymous.
    pub fn lookup(&self, address: &Address) -> Result<Option<Login>, Fault> {
        self.find(address, true)
    }

    /// The login for an address to which somebody else has sent us: never netrc's `default`.
    pub fn lookup_redirected(&self, address: &Address) -> Result<Option<Login>, Fault> {
        self.find(address, false)
    }

    fn find(&self, address: &Address, with_default: bool) -> Result<Option<Login>, Fault> {
        if let Some(given) = self.given_for(address) {
            return Ok(Some(given));
        }
        match (self.netrc.lookup(&address.host(), with_default), &self.exposed) {
            // The password of an anonymous user is no secret.
            (Some(login), Some(path)) if !login.is_anonymous() => {
                Access::Others.check(path)?;
                Ok(None)
            }
            (found, _) => Ok(found),
        }
    }

    fn given_for(&self, address: &Address) -> Option<Login> {
        self.given.iter().find(|(at, _)| at.same_origin(address)).map(|(_, login)| login.clone())
    }
}

fn local(path: &Path, source: io::Error) -> Fault {
    Fault::Local { what: format!("cannot use {}", path.display()), source }
}

/// By whom a file can be read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    /// Its owner alone.
    Owner,
    /// Others, too.
    Others,
}

impl Access {
    #[cfg(unix)]
    fn of(metadata: &std::fs::Metadata) -> Self {
        use std::os::unix::fs::PermissionsExt as _;

        let others = metadata.permissions().mode() & 0o077;
        if others == 0 { Self::Owner } else { Self::Others }
    }

    #[cfg(not(unix))]
    fn of(_: &std::fs::Metadata) -> Self {
        Self::Owner
    }

    /// Refuses the secrets of a file that others can read.
    fn check(self, path: &Path) -> Result<(), Fault> {
        if self == Self::Owner {
            return Ok(());
        }
        let why = format!("others can read the passwords in it; run `chmod 600 {}`", path.display());
        Err(local(path, io::Error::new(io::ErrorKind::PermissionDenied, why)))
    }
}

/// Reads a file with secrets. Looks at the file that was opened, not at its name again.
fn read_secrets(path: &Path) -> Result<(Zeroizing<Vec<u8>>, Access), Fault> {
    let file = File::open(path).map_err(|error| local(path, error))?;
    let metadata = file.metadata().map_err(|error| local(path, error))?;
    if !metadata.is_file() {
        return Err(local(path, io::Error::other("it is not a file")));
    }
    let mut bytes = Zeroizing::new(Vec::new());
    file.take(LONGEST_FILE + 1).read_to_end(&mut bytes).map_err(|error| local(path, error))?;
    if bytes.len() as u64 > LONGEST_FILE {
        return Err(local(path, io::Error::other("it is too long")));
    }
    Ok((bytes, Access::of(&metadata)))
}

/// What stands before the first end of line; nothing is not a password.
fn first_line(bytes: &[u8]) -> Option<Secret> {
    let line = bytes.split(|byte| *byte == b'\n').next()?;
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let line = std::str::from_utf8(line).ok().filter(|line| !line.is_empty())?;
    Some(Secret::new(line.to_owned()))
}

/// A command that does not outlive us, nor do its children.
struct Running {
    child: Child,
    group: Option<RunningGroup>,
}

impl Running {
    fn start(command: &str) -> io::Result<Self> {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(command).stdin(Stdio::null()).stdout(Stdio::piped());
        shell.process_group(0);
        let (child, group) = RunningGroup::start(|| shell.spawn(), |child| Some(child.id()))?;
        Ok(Self { child, group })
    }

    fn output(&mut self, time: Duration) -> io::Result<Zeroizing<Vec<u8>>> {
        let stdout = self.child.stdout.take().ok_or_else(|| io::Error::other("no output"))?;
        let (done, finished) = mpsc::channel();
        std::thread::spawn(move || {
            let mut bytes = Zeroizing::new(Vec::new());
            let result = stdout.take(LONGEST_PASSWORD).read_to_end(&mut bytes).map(|_| bytes);
            // Nobody may wait any more.
            let _ = done.send(result);
        });
        let output = finished.recv_timeout(time).map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        let status = self.child.wait()?;
        if status.success() { Ok(output) } else { Err(io::Error::other(status.to_string())) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            if let Some(group) = &self.group {
                let _ = rustix::process::kill_process_group(group.id(), rustix::process::Signal::KILL);
            }
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn file(text: &str, mode: u32) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), text).expect("written");
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).expect("a mode");
        file
    }

    fn address(text: &str) -> Address {
        Address::parse(text).expect(text).0
    }

    /// An error with its causes.
    fn causes(error: &dyn std::error::Error) -> String {
        let cause = error.source().map_or_else(String::new, |cause| format!(": {}", causes(cause)));
        format!("{error}{cause}")
    }

    fn login(user: &str) -> Login {
        Login { user: user.to_owned(), password: Secret::new("geheim".to_owned()) }
    }

    #[test]
    fn a_given_login_is_for_its_origin_alone() {
        let mut logins = Logins::default();
        logins.give(address("ftp://h/a"), login("ada"));
        assert_eq!(logins.lookup(&address("ftp://h:21/b")).expect("looked up"), Some(login("ada")));
        for other in ["ftps://h/a", "http://h/a", "ftp://h:2121/a", "ftp://g/a"] {
            assert_eq!(logins.lookup(&address(other)).expect("looked up"), None, "{other}");
        }
        assert!(!format!("{logins:?}").contains("geheim"));
    }

    #[test]
    fn netrc_serves_exact_hosts_and_its_default_only_those_who_were_asked_for() {
        let netrc = file("machine h login ada password x\ndefault login anonymous password y", 0o600);
        let mut logins = Logins::with_netrc(netrc.path()).expect("a netrc");
        let user = |found: Result<Option<Login>, Fault>| found.expect("looked up").map(|login| login.user);
        assert_eq!(user(logins.lookup(&address("ftp://H/a"))).as_deref(), Some("ada"));
        assert_eq!(user(logins.lookup(&address("ftp://h.evil/a"))).as_deref(), Some("anonymous"));
        assert_eq!(user(logins.lookup_redirected(&address("ftp://h.evil/a"))), None);
        logins.give(address("ftp://h/"), login("given"));
        assert_eq!(user(logins.lookup(&address("ftp://h/a"))).as_deref(), Some("given"));
    }

    #[test]
    fn secrets_that_others_can_read_are_refused_with_the_cure() {
        for mode in [0o644, 0o640, 0o604, 0o622] {
            let netrc = file("machine h login a password b", mode);
            let cure = format!("chmod 600 {}", netrc.path().display());
            let logins = Logins::with_netrc(netrc.path()).expect("a netrc");
            for refused in [logins.lookup(&address("ftp://h/a")).err(), Secret::from_file(netrc.path()).err()]
            {
                assert!(causes(&refused.expect("refused")).contains(&cure), "{mode:o}");
            }
        }
        assert!(Logins::with_netrc(Path::new("/does/not/exist")).is_err());
        assert!(Secret::from_file(Path::new("/")).is_err());
    }

    #[test]
    fn a_netrc_that_others_can_read_stops_only_those_who_would_use_it() {
        let text = "machine h login ada password x\ndefault login anonymous password me@lab";
        let netrc = file(text, 0o644);
        let mut logins = Logins::with_netrc(netrc.path()).expect("a netrc");
        assert!(logins.lookup(&address("http://h/a")).is_err());
        assert!(logins.lookup_redirected(&address("http://h/a")).is_err());
        let other = logins.lookup(&address("ftp://g/a")).expect("not in it").expect("the default");
        assert_eq!(other.user, "anonymous");
        assert_eq!(logins.lookup_redirected(&address("http://g/a")).expect("not in it"), None);
        logins.give(address("http://h/"), login("given"));
        assert_eq!(logins.lookup(&address("http://h/a")).expect("not needed"), Some(login("given")));
    }

    #[test]
    fn a_cause_is_told_once() {
        let fault = Secret::from_file(Path::new("/does/not/exist")).expect_err("not there");
        assert_eq!(causes(&fault).matches("No such file").count(), 1, "{}", causes(&fault));
    }

    #[test]
    fn a_password_is_the_first_line_of_a_file() {
        assert_eq!(
            Secret::from_file(file("geheim\r\nmore", 0o600).path()).expect("a password").reveal(),
            "geheim"
        );
        assert!(Secret::from_file(file("\n", 0o600).path()).is_err());
    }

    #[test]
    fn a_password_is_the_first_line_of_a_command_that_succeeds() {
        assert_eq!(Secret::from_command("printf 'geheim\\nmore\\n'").expect("a password").reveal(), "geheim");
        for failing in ["echo geheim; exit 3", "true", "exit 1"] {
            let fault = Secret::from_command(failing).expect_err(failing);
            assert!(!format!("{fault} {fault:?}").contains("geheim"), "{fault:?}");
        }
    }

    #[test]
    fn a_command_that_hangs_is_ended_with_its_children() {
        let marker = tempfile::tempdir().expect("a folder");
        let late = marker.path().join("late");
        let command = format!("(sleep 600; touch {}) & sleep 600", late.display());
        let fault = Secret::from_command_within(&command, Duration::from_millis(50)).expect_err("too late");
        assert!(matches!(fault, Fault::Local { source, .. } if source.kind() == io::ErrorKind::TimedOut));
    }
}
