//! A folder served by any of the real HTTP and FTP servers that `tests/servers` unpacks, for tests that run the same
//! steps against all of them.

#![allow(dead_code, reason = "not every test file uses all of it")]

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::ftpd::{self, Ftpd};
use crate::web::{self, Web};

/// How long a server may take to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Every server that serves a plain folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    Nginx,
    Apache,
    Lighttpd,
    Caddy,
    MiniHttpd,
    MicroHttpd,
    Webfs,
    Vsftpd,
    Proftpd,
    PureFtpd,
    Pyftpdlib,
    InetutilsFtpd,
}

/// A running server and its folder; both end with the value.
pub(crate) struct Origin {
    running: Running,
    /// Passwords for the FTP servers that have users.
    netrc: String,
}

enum Running {
    Web(Web),
    Ftpd(Ftpd),
    Process { child: Child, folder: tempfile::TempDir, url: String },
    Inetd { inetd: Inetd, folder: tempfile::TempDir, url: String },
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Self::Process { child, .. } = self {
            end_group(child);
        }
    }
}

impl Origin {
    pub(crate) fn start(server: Server) -> Self {
        let mut netrc = String::new();
        let running = match server {
            Server::Nginx => Running::Web(Web::start(web::Kind::Nginx)),
            Server::Apache => Running::Web(Web::start(web::Kind::Apache)),
            Server::Lighttpd => Running::Web(Web::start(web::Kind::Lighttpd)),
            Server::Vsftpd | Server::Proftpd | Server::PureFtpd => {
                let kind = match server {
                    Server::Vsftpd => ftpd::Kind::Vsftpd,
                    Server::Proftpd => ftpd::Kind::Proftpd,
                    _ => ftpd::Kind::PureFtpd,
                };
                let user = if server == Server::Vsftpd { "anonymous" } else { "ada" };
                netrc = format!("machine 127.0.0.1 login {user} password right\n");
                Running::Ftpd(Ftpd::start(kind))
            }
            Server::Caddy | Server::MiniHttpd | Server::Webfs | Server::Pyftpdlib => process(server),
            Server::MicroHttpd | Server::InetutilsFtpd => inetd(server),
        };
        Self { running, netrc }
    }

    /// The folder that it serves.
    pub(crate) fn root(&self) -> PathBuf {
        match &self.running {
            Running::Web(web) => web.root(),
            Running::Ftpd(ftpd) => ftpd.root(),
            Running::Process { folder, .. } | Running::Inetd { folder, .. } => folder.path().join("root"),
        }
    }

    /// The address of a path below the root.
    pub(crate) fn url(&self, path: &str) -> String {
        match &self.running {
            Running::Web(web) => web.http(path).to_string(),
            Running::Ftpd(ftpd) => ftpd.address(path).to_string(),
            Running::Process { url, .. } | Running::Inetd { url, .. } => format!("{url}{path}"),
        }
    }

    /// What a netrc file must contain to log in; empty if nothing is needed.
    pub(crate) fn netrc(&self) -> &str {
        &self.netrc
    }
}

fn served_folder() -> tempfile::TempDir {
    let folder = tempfile::Builder::new().prefix("stroll-origin-").tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let root = folder.path().join("root");
    fs::create_dir(&root).unwrap();
    fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

fn unpacked(path: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/servers").join(path);
    assert!(path.exists(), "{} is not there: run tests/servers", path.display());
    path
}

fn process(server: Server) -> Running {
    let folder = served_folder();
    let root = folder.path().join("root");
    let port = ftpd::free_port();
    let (scheme, mut command) = match server {
        Server::Caddy => {
            let mut command = Command::new(unpacked("caddy/usr/bin/caddy"));
            command.args(["file-server", "--browse", "--listen", &format!("127.0.0.1:{port}"), "--root"]);
            command.arg(&root).env("HOME", folder.path());
            ("http", command)
        }
        Server::MiniHttpd => {
            let mut command = Command::new(unpacked("mini-httpd/usr/sbin/mini_httpd"));
            command.args(["-D", "-h", "127.0.0.1", "-p", &port.to_string(), "-u", "nobody", "-d"]).arg(&root);
            ("http", command)
        }
        Server::Webfs => {
            let mut command = Command::new(unpacked("webfs/usr/bin/webfsd"));
            command.args(["-F", "-i", "127.0.0.1", "-p", &port.to_string(), "-r"]).arg(&root);
            ("http", command)
        }
        _ => {
            let modules = unpacked("pyftpdlib/usr/lib/python3/dist-packages");
            let mut command = Command::new("python3");
            command.env("PYTHONPATH", modules).args(["-m", "pyftpdlib", "-i", "127.0.0.1", "-p"]);
            command.arg(port.to_string()).arg("-d").arg(&root);
            ("ftp", command)
        }
    };
    let log = fs::File::create(folder.path().join("log")).unwrap();
    command.current_dir(folder.path()).stdin(Stdio::null()).process_group(0);
    let mut child = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
    wait_until_it_listens(&mut child, port, &folder.path().join("log"));
    Running::Process { child, folder, url: format!("{scheme}://127.0.0.1:{port}/") }
}

fn wait_until_it_listens(child: &mut Child, port: u16, log: &Path) {
    let begun = Instant::now();
    while TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).is_err() {
        let said = || fs::read_to_string(log).unwrap_or_default();
        if let Some(status) = child.try_wait().unwrap() {
            panic!("the server ended: {status}\n{}", said());
        }
        assert!(begun.elapsed() < PATIENCE, "the server does not listen\n{}", said());
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn end_group(child: &mut Child) {
    let group = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    let _ = child.wait();
}

/// Starts one process per connection, with the socket as its standard input and output, as inetd does.
struct Inetd {
    port: u16,
    is_over: Arc<AtomicBool>,
}

impl Drop for Inetd {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, self.port)));
    }
}

impl Inetd {
    fn start(command: impl Fn() -> Command + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let is_over = Arc::new(AtomicBool::new(false));
        let end = Arc::clone(&is_over);
        std::thread::spawn(move || {
            let mut children: Vec<Child> = Vec::new();
            while let Ok((socket, _)) = listener.accept() {
                if end.load(Ordering::Relaxed) {
                    break;
                }
                children.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
                let (input, output) = (OwnedFd::from(socket.try_clone().unwrap()), OwnedFd::from(socket));
                let mut command = command();
                command.stdin(input).stdout(output).stderr(Stdio::null()).process_group(0);
                children.push(command.spawn().unwrap());
            }
            children.iter_mut().for_each(end_group);
        });
        Self { port, is_over }
    }
}

fn inetd(server: Server) -> Running {
    let folder = served_folder();
    let root = folder.path().join("root");
    let (scheme, inetd) = if server == Server::MicroHttpd {
        let program = unpacked("micro-httpd/usr/sbin/micro-httpd");
        let start = move || {
            let mut command = Command::new(&program);
            command.arg(&root);
            command
        };
        ("http", Inetd::start(start))
    } else {
        assert!(ftpd::is_root(), "inetutils-ftpd needs root");
        // It serves the home of the user `ftp`, so it gets a list of users of its own, in a mount namespace.
        let users = folder.path().join("passwd");
        let lines = format!("root:x:0:0::/:/bin/sh\nftp:x:65534:65534::{}:/bin/false\n", root.display());
        fs::write(&users, lines).unwrap();
        let program = unpacked("inetutils-ftpd/usr/sbin/ftpd");
        let script = "mount --bind \"$0\" /etc/passwd && exec \"$1\" -A";
        let start = move || {
            let mut command = Command::new("unshare");
            command.args(["-m", "sh", "-c", script]).arg(&users).arg(&program);
            command
        };
        ("ftp", Inetd::start(start))
    };
    let url = format!("{scheme}://127.0.0.1:{}/", inetd.port);
    Running::Inetd { inetd, folder, url }
}
