//! Real FTP servers on loopback, each in a temporary folder with a configuration of its own. `tests/servers` brings
//! them.

#![allow(dead_code, reason = "not every test file uses all of it")]

use std::fmt::Write as _;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use stroll::fetch::{Address, FtpTls, Login, Options, Secret};

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Vsftpd,
    Proftpd,
    PureFtpd,
}

/// How its connections are secured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tls {
    Off,
    /// By `AUTH TLS`.
    Explicit,
    /// From the first byte.
    Implicit,
}

/// A certificate for 127.0.0.1, which nobody else trusts.
pub(crate) struct Certificate {
    der: rustls::pki_types::CertificateDer<'static>,
    pem: String,
    key_pem: String,
}

impl Certificate {
    pub(crate) fn new() -> Self {
        let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
        Self::of(&rcgen::CertificateParams::new(names).unwrap())
    }

    /// Any other, signed by itself.
    pub(crate) fn of(params: &rcgen::CertificateParams) -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let made = params.self_signed(&key).unwrap();
        Self { der: made.der().clone(), pem: made.pem(), key_pem: key.serialize_pem() }
    }

    /// A client that trusts this certificate alone.
    pub(crate) fn client(&self) -> Arc<rustls::ClientConfig> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.der.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider);
        Arc::new(
            builder
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(roots)
                .with_no_client_auth(),
        )
    }

    /// In PEM.
    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }

    /// A server that shows this certificate.
    pub(crate) fn server(&self) -> Arc<rustls::ServerConfig> {
        let key = rustls::pki_types::pem::PemObject::from_pem_slice(self.key_pem.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ServerConfig::builder_with_provider(provider);
        Arc::new(
            builder
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(vec![self.der.clone()], key)
                .unwrap(),
        )
    }
}

/// A running server. Gone when dropped.
pub(crate) struct Ftpd {
    child: Child,
    folder: tempfile::TempDir,
    pub(crate) kind: Kind,
    /// As addresses have it.
    host: &'static str,
    pub(crate) port: u16,
    pub(crate) tls: Tls,
    pub(crate) certificate: Certificate,
}

impl Ftpd {
    /// Starts a server that serves its folder to one user.
    pub(crate) fn start(kind: Kind) -> Self {
        Self::with(kind, Tls::Off, None)
    }

    /// The same, secured, or with a bound on its clients.
    pub(crate) fn with(kind: Kind, tls: Tls, clients: Option<u32>) -> Self {
        Self::begin(kind, tls, clients, "127.0.0.1")
    }

    /// vsftpd where there is nothing but IPv6.
    pub(crate) fn on_ipv6() -> Self {
        Self::begin(Kind::Vsftpd, Tls::Off, None, "[::1]")
    }

    fn begin(kind: Kind, tls: Tls, clients: Option<u32>, host: &'static str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(folder.path().join("root")).unwrap();
        let certificate = Certificate::new();
        let both = format!("{}{}", certificate.key_pem, certificate.pem);
        write_private(&folder.path().join("both.pem"), &both);
        let port = free_port();
        let setup = Setup { folder: folder.path(), host, port, tls, clients };
        let mut command = match kind {
            Kind::Vsftpd => setup.vsftpd(),
            Kind::Proftpd => setup.proftpd(),
            Kind::PureFtpd => setup.pure_ftpd(),
        };
        let log = fs::File::create(folder.path().join("log")).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).process_group(0);
        let child = command.spawn().unwrap();
        let mut server = Self { child, folder, kind, host, port, tls, certificate };
        server.wait_until_it_listens();
        server
    }

    /// The folder that it serves.
    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    /// Puts a file there, changed at a time of its own.
    pub(crate) fn put(&self, name: &str, bytes: &[u8], modified_s: u64) {
        let path = self.root().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        let time = std::time::UNIX_EPOCH + Duration::from_secs(modified_s);
        fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    }

    /// Where a file of it is.
    pub(crate) fn address(&self, path: &str) -> Address {
        let scheme = if self.tls == Tls::Implicit { "ftps" } else { "ftp" };
        Address::parse(&format!("{scheme}://{}:{}/{path}", self.host, self.port)).unwrap().0
    }

    /// Options with the right login, and trust in its certificate.
    pub(crate) fn options(&self) -> Options {
        self.options_with("right")
    }

    /// The same with another password.
    pub(crate) fn options_with(&self, password: &str) -> Options {
        let user = if self.kind == Kind::Vsftpd { "anonymous" } else { "ada" };
        let mut options = Options::new(self.certificate.client());
        if self.tls == Tls::Off {
            options.ftp_tls = FtpTls::Off;
        }
        let login = Login { user: user.to_owned(), password: Secret::new(password.to_owned()) };
        options.logins.give(self.address(""), login);
        options
    }

    /// Whom vsftpd has sent away, by its own log.
    pub(crate) fn refusals(&self) -> Vec<String> {
        assert_eq!(self.kind, Kind::Vsftpd);
        let log = fs::read_to_string(self.folder.path().join("vsftpd.log")).unwrap();
        log.lines().filter(|line| line.contains("refused")).map(str::to_owned).collect()
    }

    /// Waits until it serves no session: it counts one for a moment longer than the client does.
    pub(crate) fn wait_until_idle(&self) {
        let sessions = format!("/proc/{0}/task/{0}/children", self.child.id());
        let begun = Instant::now();
        while !fs::read_to_string(&sessions).unwrap().trim().is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(60), "the server still serves a session");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until it listens. Connecting to see would count as a client.
    fn wait_until_it_listens(&mut self) {
        let begun = Instant::now();
        while !listens(self.port) {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("{:?} ended: {status}\n{}", self.kind, self.log());
            }
            assert!(
                begun.elapsed() < Duration::from_secs(30),
                "{:?} does not listen\n{}",
                self.kind,
                self.log()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Ftpd {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.child.wait();
    }
}

struct Setup<'a> {
    folder: &'a Path,
    host: &'a str,
    port: u16,
    tls: Tls,
    clients: Option<u32>,
}

impl Setup<'_> {
    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// Anonymous users with a password: the one kind of user that it knows without the machine's own. It becomes
    /// `daemon`, who has a home on every machine.
    fn vsftpd(&self) -> Command {
        fs::write(self.folder.join("passwords"), "right\n").unwrap();
        fs::create_dir(self.folder.join("empty")).unwrap();
        let listen = match self.host.trim_matches(['[', ']']) {
            host if host.contains(':') => format!("listen=NO\nlisten_ipv6=YES\nlisten_address6={host}"),
            host => format!("listen=YES\nlisten_address={host}"),
        };
        let mut text = format!(
            "{listen}\nlisten_port={}\nbackground=NO\nanonymous_enable=YES\n\
             local_enable=NO\nanon_root={}\nsecure_email_list_enable=YES\nemail_password_file={}\n\
             secure_chroot_dir={}\nseccomp_sandbox=NO\nisolate=NO\nisolate_network=NO\n\
             xferlog_enable=YES\nxferlog_std_format=NO\nvsftpd_log_file={}\nftp_username=daemon\n",
            self.port,
            self.path("root"),
            self.path("passwords"),
            self.path("empty"),
            self.path("vsftpd.log"),
        );
        if !is_root() {
            text.push_str("run_as_launching_user=YES\n");
        }
        if let Some(clients) = self.clients {
            writeln!(text, "max_clients={clients}").unwrap();
        }
        if self.tls != Tls::Off {
            let pem = self.path("both.pem");
            write!(
                text,
                "ssl_enable=YES\nallow_anon_ssl=YES\nforce_anon_logins_ssl=YES\nforce_anon_data_ssl=YES\n\
                 rsa_cert_file={pem}\nrsa_private_key_file={pem}\nssl_ciphers=HIGH\nrequire_ssl_reuse=YES\n"
            )
            .unwrap();
        }
        if self.tls == Tls::Implicit {
            text.push_str("implicit_ssl=YES\n");
        }
        write_private(&self.folder.join("vsftpd.conf"), &text);
        let mut command = program("vsftpd/usr/sbin/vsftpd");
        command.arg(self.folder.join("vsftpd.conf"));
        command
    }

    fn proftpd(&self) -> Command {
        let (user, group) = unprivileged();
        let home = self.path("root");
        write_private(&self.folder.join("users"), &format!("ada:{HASH}:{user}:{group}::{home}:/bin/false\n"));
        let mut text = format!(
            "ServerName test\nServerType standalone\nDefaultServer on\nDefaultAddress 127.0.0.1\nSocketBindTight on\nPort {}\n\
             UseIPv6 off\nUseReverseDNS off\nModulePath {}\nPidFile {}\nScoreboardFile {}\nDelayEngine off\nControlsEngine off\n\
             AuthOrder mod_auth_file.c\nAuthUserFile {}\nRequireValidShell off\nWtmpLog off\nTransferLog none\n",
            self.port,
            servers().join("proftpd/usr/lib/proftpd").display(),
            self.path("pid"),
            self.path("scoreboard"),
            self.path("users"),
        );
        if is_root() {
            // Users are numbers everywhere but here.
            text.push_str("User nobody\nGroup nogroup\nDefaultRoot ~\n");
        } else {
            write!(text, "User {}\nGroup {}\n", own_name("-un"), own_name("-gn")).unwrap();
        }
        if let Some(clients) = self.clients {
            writeln!(text, "MaxClients {clients}").unwrap();
        }
        if self.tls != Tls::Off {
            let pem = self.path("both.pem");
            let options = if self.tls == Tls::Implicit { "TLSOptions UseImplicitSSL\n" } else { "" };
            write!(
                text,
                "LoadModule mod_tls.c\nTLSEngine on\nTLSRequired on\nTLSECCertificateFile {pem}\n\
                 TLSECCertificateKeyFile {pem}\nTLSVerifyClient off\n{options}"
            )
            .unwrap();
        }
        fs::write(self.folder.join("proftpd.conf"), text).unwrap();
        let mut command = program("proftpd/usr/sbin/proftpd");
        command.arg("-n").arg("-c").arg(self.folder.join("proftpd.conf"));
        command
    }

    fn pure_ftpd(&self) -> Command {
        assert!(is_root(), "pure-ftpd needs root");
        assert_ne!(self.tls, Tls::Implicit, "pure-ftpd has no such mode");
        let (user, group) = unprivileged();
        let entry = format!("ada:{HASH}:{user}:{group}::{}/./::::::::::::\n", self.path("root"));
        write_private(&self.folder.join("users"), &entry);
        let made = program("pure-ftpd/usr/bin/pure-pw")
            .args(["mkdb", &self.path("users.pdb"), "-f", &self.path("users")])
            .status()
            .unwrap();
        assert!(made.success());
        let mut command = program("pure-ftpd/usr/sbin/pure-ftpd");
        command.args(["-S", &format!("127.0.0.1,{}", self.port), "-E", "-H", "-A"]);
        command.args(["-l", &format!("puredb:{}", self.path("users.pdb")), "-g", &self.path("pid")]);
        if let Some(clients) = self.clients {
            command.args(["-c", &clients.to_string()]);
        }
        if self.tls == Tls::Explicit {
            command.args(["-Y", "2", "-2", &self.path("both.pem")]);
        }
        command
    }
}

/// `right`, hashed by SHA-512.
const HASH: &str =
    "$6$abc$Rp.m/P24RM5NK9HsFFYz3bJu1tH1bSAnhixavKK8fDYoeVUvwQRm1m4kCCGLQrdt7cOfeuBwv2sOboivTzdkq0";

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whom servers become that were started by root; otherwise they stay who they are.
fn unprivileged() -> (u32, u32) {
    if is_root() {
        (65_534, 65_534)
    } else {
        (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
    }
}

fn own_name(which: &str) -> String {
    let output = Command::new("id").arg(which).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn servers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target/servers")
}

fn program(path: &str) -> Command {
    let path = servers().join(path);
    assert!(path.exists(), "{} is not there: run tests/servers", path.display());
    Command::new(path)
}

fn write_private(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// Whether somebody listens on this port of 127.0.0.1, as the kernel's table of sockets has it.
fn listens(port: u16) -> bool {
    let (v4, v6) = (format!("0100007F:{port:04X}"), format!("{:024X}01000000:{port:04X}", 0));
    let is_listed = |table: &str, local: &str| {
        fs::read_to_string(table).unwrap_or_default().lines().any(|line| {
            let mut words = line.split_whitespace().skip(1);
            words.next() == Some(local) && words.nth(1) == Some("0A")
        })
    };
    is_listed("/proc/net/tcp", &v4) || is_listed("/proc/net/tcp6", &v6)
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
