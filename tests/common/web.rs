//! Real web servers on loopback: nginx, lighttpd and apache2, plain and in TLS, with a folder behind a password and, at
//! nginx, one that takes a single connection at a time and one whose index is JSON. nginx listens on IPv6, too.
//!
//! Looked for below `target/servers/` (the script `tests/servers` puts them there), then where Debian installs them. One
//! that is absent fails the test.

#![allow(dead_code, reason = "each test file needs its own part of this")]

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use stroll::fetch::{Address, Options, tls};
use tempfile::TempDir;

/// How long a server may take to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Ports are free when they are chosen, and may be somebody else's a moment later.
const TRIES: usize = 5;

pub(crate) const USER: &str = "ada";
pub(crate) const PASSWORD: &str = "secret";
/// The same as `htpasswd -s` writes it.
const PASSWORD_LINE: &str = "ada:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Nginx,
    Lighttpd,
    Apache,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Lighttpd => "lighttpd",
            Self::Apache => "apache2",
        }
    }

    /// The program, and the root of the tree in which it was found.
    fn find(self) -> (PathBuf, PathBuf) {
        let unpacked = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/servers").join(self.name());
        for root in [unpacked, PathBuf::from("/")] {
            let program = root.join("usr/sbin").join(self.name());
            if program.exists() {
                return (program, root);
            }
        }
        panic!("{} is not here: run tests/servers", self.name());
    }
}

/// A web server that runs, and the folder that it serves. Both end with it.
pub(crate) struct Web {
    kind: Kind,
    folder: TempDir,
    port: u16,
    tls_port: u16,
    child: Child,
}

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Web {
    pub(crate) fn start(kind: Kind) -> Self {
        let (program, root) = kind.find();
        let folder = tempfile::Builder::new().prefix("stroll-web-").tempdir().expect("a folder");
        // Apache gives up being root, and must still see its files.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("may be entered");
        prepare(folder.path());
        for _ in 0..TRIES {
            let (port, tls_port) = (free_port(), free_port());
            let mut child = launch(kind, &program, &root, folder.path(), port, tls_port);
            if listens(&mut child, port) && listens(&mut child, tls_port) {
                return Self { kind, folder, port, tls_port, child };
            }
            let _ = child.kill();
            let _ = child.wait();
        }
        let said = fs::read_to_string(folder.path().join("said")).unwrap_or_default();
        let log = fs::read_to_string(folder.path().join("error.log")).unwrap_or_default();
        panic!("{} does not start:\n{said}\n{log}", kind.name());
    }

    pub(crate) fn http(&self, path: &str) -> Address {
        Address::parse(&format!("http://127.0.0.1:{}/{path}", self.port)).expect("an address").0
    }

    /// The same over IPv6; only nginx listens there.
    pub(crate) fn http_v6(&self, path: &str) -> Address {
        assert_eq!(self.kind, Kind::Nginx, "only nginx listens there");
        Address::parse(&format!("http://[::1]:{}/{path}", self.port)).expect("an address").0
    }

    pub(crate) fn https(&self, path: &str) -> Address {
        Address::parse(&format!("https://localhost:{}/{path}", self.tls_port)).expect("an address").0
    }

    /// Options that trust this server, and little patience.
    pub(crate) fn options(&self) -> Options {
        let tls = tls::client_config(Some(&self.folder.path().join("cert.pem"))).expect("its certificate");
        let patience = Duration::from_secs(20);
        Options { answer_within: patience, stall_after: patience, ..Options::new(tls) }
    }

    pub(crate) fn shared_options(&self) -> Arc<Options> {
        Arc::new(self.options())
    }

    /// Writes a file that was last changed so many seconds ago. Never over an old one in place: servers map files.
    pub(crate) fn put(&self, path: &str, bytes: &[u8], age_s: u64) {
        let place = self.root().join(path);
        fs::create_dir_all(place.parent().expect("it is in a folder")).expect("a folder");
        let new = self.folder.path().join("new");
        fs::write(&new, bytes).expect("written");
        fs::set_permissions(&new, fs::Permissions::from_mode(0o644)).expect("readable");
        #[allow(clippy::disallowed_methods, reason = "a test owns its files' times")]
        let changed = SystemTime::now() - Duration::from_secs(age_s);
        File::options().write(true).open(&new).and_then(|file| file.set_modified(changed)).expect("dated");
        fs::rename(&new, &place).expect("in place");
    }

    /// What nginx was asked for: method, path, status, bytes of the body, range, `|`, user agent. An answer is there when
    /// it has ended.
    pub(crate) fn requests(&self) -> Vec<String> {
        assert_eq!(self.kind, Kind::Nginx, "only nginx keeps such a log");
        let log = fs::read_to_string(self.folder.path().join("access.log")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }

    /// The certificate of its TLS side.
    pub(crate) fn certificate(&self) -> PathBuf {
        self.folder.path().join("cert.pem")
    }

    /// Makes a folder.
    pub(crate) fn make_folder(&self, path: &str) {
        let place = self.folder.path().join("www").join(path);
        fs::create_dir_all(&place).expect("a folder");
        fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).expect("may be entered");
    }

    /// The folder that it serves.
    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("www")
    }

    /// Where a file of it is on the disk.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join("www").join(path)
    }

    /// It is away.
    pub(crate) fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// It is back, at the same place.
    pub(crate) fn start_again(&mut self) {
        let (program, root) = self.kind.find();
        for _ in 0..TRIES {
            self.child = launch(self.kind, &program, &root, self.folder.path(), self.port, self.tls_port);
            if listens(&mut self.child, self.port) {
                return;
            }
            self.stop();
        }
        panic!("{} does not start again", self.kind.name());
    }

    pub(crate) fn remove(&self, path: &str) {
        fs::remove_file(self.folder.path().join("www").join(path)).expect("removed");
    }
}

fn prepare(folder: &Path) {
    for name in ["www/private", "www/limited", "tmp"] {
        fs::create_dir_all(folder.join(name)).expect("a folder");
    }
    for name in ["www", "www/private", "www/limited"] {
        fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o755)).expect("may be entered");
    }
    fs::write(folder.join("passwords"), PASSWORD_LINE).expect("written");
    fs::write(folder.join("plain-passwords"), format!("{USER}:{PASSWORD}\n")).expect("written");
    for name in ["passwords", "plain-passwords"] {
        fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o644)).expect("readable");
    }
    let made = rcgen::generate_simple_self_signed(["localhost".into()]).expect("a certificate");
    fs::write(folder.join("cert.pem"), made.cert.pem()).expect("written");
    fs::write(folder.join("key.pem"), made.signing_key.serialize_pem()).expect("written");
    let both = format!("{}{}", made.signing_key.serialize_pem(), made.cert.pem());
    fs::write(folder.join("both.pem"), both).expect("written");
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound").port()
}

#[allow(clippy::disallowed_methods, reason = "the shell waits for a process")]
fn listens(child: &mut Child, port: u16) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if matches!(child.try_wait(), Ok(Some(_))) {
            return false;
        }
        if TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).is_ok() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

fn launch(kind: Kind, program: &Path, root: &Path, folder: &Path, port: u16, tls_port: u16) -> Child {
    let config = folder.join("config");
    let text = match kind {
        Kind::Nginx => nginx(folder, port, tls_port),
        Kind::Lighttpd => lighttpd(folder, port, tls_port),
        Kind::Apache => apache(&root.join("usr/lib/apache2/modules"), folder, port, tls_port),
    };
    fs::write(&config, text).expect("written");
    let said = File::create(folder.join("said")).expect("a file");
    let mut command = Command::new(program);
    match kind {
        Kind::Nginx => {
            command.arg("-p").arg(folder).arg("-e").arg(folder.join("error.log")).arg("-c").arg(&config)
        }
        Kind::Lighttpd => {
            command.arg("-D").arg("-m").arg(root.join("usr/lib/lighttpd")).arg("-f").arg(&config)
        }
        Kind::Apache => command.arg("-X").arg("-d").arg(folder).arg("-f").arg(&config),
    };
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said).spawn().expect("the server starts")
}

fn nginx(folder: &Path, port: u16, tls_port: u16) -> String {
    let at = folder.display();
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {at}/tmp/{name};"))
        .join("\n");
    let places = format!(
        "root {at}/www;
         autoindex on;
         location /private/ {{ auth_basic here; auth_basic_user_file {at}/passwords; }}
         location /limited/ {{ limit_conn one 1; limit_conn_status 429; limit_rate 64k; add_header Retry-After 7 always; }}
         location /json/ {{ autoindex_format json; }}
         location /all-json/ {{ alias {at}/www/; autoindex_format json; }}
         location /busy/ {{ return 503; }}"
    );
    // There are machines without.
    let v6 = TcpListener::bind("[::1]:0").map_or_else(|_| String::new(), |_| format!("listen [::1]:{port};"));
    format!(
        "daemon off; master_process off; pid {at}/pid; error_log {at}/error.log;
         events {{ worker_connections 64; }}
         http {{
           log_format told '$request_method $uri $status $body_bytes_sent $http_range|$http_user_agent';
           access_log {at}/access.log told; {temporary}
           limit_conn_zone $server_name zone=one:1m;
           server {{ listen 127.0.0.1:{port}; {v6} server_name plain; {places} }}
           server {{ listen 127.0.0.1:{tls_port} ssl http2; server_name localhost;
             ssl_certificate {at}/cert.pem; ssl_certificate_key {at}/key.pem; {places} }}
         }}\n"
    )
}

fn lighttpd(folder: &Path, port: u16, tls_port: u16) -> String {
    let at = folder.display();
    format!(
        r#"server.modules = ("mod_auth", "mod_authn_file", "mod_dirlisting", "mod_openssl")
server.bind = "127.0.0.1"
server.port = {port}
server.document-root = "{at}/www"
server.errorlog = "{at}/error.log"
server.upload-dirs = ("{at}/tmp")
server.stat-cache-engine = "disable"
mimetype.assign = (".untyped" => "", "" => "application/octet-stream")
dir-listing.activate = "enable"
auth.backend = "plain"
auth.backend.plain.userfile = "{at}/plain-passwords"
auth.require = ("/private/" => ("method" => "basic", "realm" => "here", "require" => "valid-user"))
$SERVER["socket"] == "127.0.0.1:{tls_port}" {{
  ssl.engine = "enable"
  ssl.pemfile = "{at}/both.pem"
}}
"#
    )
}

fn apache(modules: &Path, folder: &Path, port: u16, tls_port: u16) -> String {
    let at = folder.display();
    let load = [
        "mpm_event",
        "authn_core",
        "authn_file",
        "authz_core",
        "authz_user",
        "auth_basic",
        "mime",
        "dir",
        "autoindex",
        "ssl",
        "socache_shmcb",
    ]
    .map(|name| format!("LoadModule {name}_module {}/mod_{name}.so", modules.display()))
    .join("\n");
    format!(
        "{load}
ServerName localhost
PidFile {at}/pid
ErrorLog {at}/error.log
DefaultRuntimeDir {at}/tmp
Mutex file:{at}/tmp
User nobody
Group nogroup
Listen 127.0.0.1:{port}
Listen 127.0.0.1:{tls_port}
TypesConfig /dev/null
DocumentRoot {at}/www
EnableSendfile on
<Directory {at}/www>
  Require all granted
  Options Indexes
</Directory>
<Location /table/>
  IndexOptions FancyIndexing HTMLTable
</Location>
<Location /private/>
  AuthType Basic
  AuthName here
  AuthUserFile {at}/passwords
  Require valid-user
</Location>
<VirtualHost 127.0.0.1:{tls_port}>
  DocumentRoot {at}/www
  SSLEngine on
  SSLCertificateFile {at}/cert.pem
  SSLCertificateKeyFile {at}/key.pem
</VirtualHost>
"
    )
}
