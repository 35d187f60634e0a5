//! FTP servers of other people that know no GridFTP: vsftpd, ProFTPD, and pyftpdlib's.

use crate::{Running, free_port};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Waits until `server` listens; returns its URL.
fn listening(mut command: Command, port: u16, package: &str) -> (Running, String) {
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let server = Running(child.unwrap_or_else(|error| panic!("{package}: {error}")));
    let deadline = Instant::now() + Duration::from_secs(20);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < deadline, "{package} does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    (server, format!("ftp://127.0.0.1:{port}"))
}

/// vsftpd for the folder `root`, in which anonymous users may do everything;
/// the URL is that folder's. It knows no MLSD.
///
/// # Panics
/// When it is not installed or does not listen.
pub fn vsftpd(root: &Path) -> (Running, String) {
    vsftpd_with(root, "")
}

/// The same under TLS, which all must use, with data connections that go on from the control
/// connection's; `identity` has its certificate and key.
///
/// # Panics
/// When it is not installed or does not listen.
pub fn vsftpd_under_tls(root: &Path, identity: &Path) -> (Running, String) {
    let tls = "ssl_enable=YES\nallow_anon_ssl=YES\nforce_anon_data_ssl=YES\n\
               force_anon_logins_ssl=YES\nrequire_ssl_reuse=YES\nssl_ciphers=HIGH\n";
    let (server, url) = vsftpd_with(root, &format!("{tls}rsa_cert_file={}\n", identity.display()));
    (server, url.replacen("ftp", "ftps", 1))
}

fn vsftpd_with(root: &Path, more: &str) -> (Running, String) {
    let port = free_port();
    let config = format!(
        "listen=YES\nlisten_port={port}\nlisten_address=127.0.0.1\nanonymous_enable=YES\n\
         no_anon_password=YES\nanon_root={}\nwrite_enable=YES\nanon_upload_enable=YES\n\
         anon_mkdir_write_enable=YES\nanon_other_write_enable=YES\nanon_umask=022\n\
         anon_world_readable_only=NO\nseccomp_sandbox=NO\nrun_as_launching_user=YES\n\
         background=NO\nxferlog_enable=NO\nallow_writeable_chroot=YES\n{more}",
        root.display()
    );
    // It is read before the server listens.
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(&file, config).expect("written");
    let mut command = Command::new("vsftpd");
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin")).arg(file.path());
    let (server, url) = listening(command, port, "vsftpd");
    // Who runs it as itself is not shut into the folder.
    (server, format!("{url}{}", root.display()))
}

/// pyftpdlib's server for the folder `root`, which anonymous users may write to. It knows MLSD.
///
/// # Panics
/// When it is not installed or does not listen.
pub fn pyftpdlib(root: &Path) -> (Running, String) {
    let port = free_port();
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-m", "pyftpdlib", "-i", "127.0.0.1", "-w", "-p", &port.to_string(), "-d"]);
    command.arg(root);
    listening(command, port, "python3-pyftpdlib")
}

/// Where `lab/setup` unpacks ProFTPD, which Debian does not install next to vsftpd; `None` where it
/// is not.
pub fn proftpd_folder() -> Option<PathBuf> {
    let folder = PathBuf::from(std::env::var_os("HOME")?).join(".cache/farline/proftpd");
    folder.join("usr/sbin/proftpd").exists().then_some(folder)
}

/// ProFTPD, unpacked in `unpacked`, for the folder `root`, in which anonymous users may do
/// everything and of which it is the whole for them; only root may start it. It knows MLSD.
///
/// # Panics
/// When it does not listen.
pub fn proftpd(unpacked: &Path, root: &Path) -> (Running, String) {
    proftpd_with(unpacked, root, "")
}

/// The same under TLS, as [`vsftpd_under_tls`].
///
/// # Panics
/// When it does not listen.
pub fn proftpd_under_tls(unpacked: &Path, root: &Path, identity: &Path) -> (Running, String) {
    let identity = identity.display();
    let tls = format!(
        "LoadModule mod_tls.c\nTLSEngine on\nTLSRequired on\nTLSLog none\n\
         TLSRSACertificateFile {identity}\nTLSRSACertificateKeyFile {identity}\n"
    );
    // Certificates of elliptic curves have a name of their own there.
    let (server, url) = proftpd_with(unpacked, root, &tls.replace("TLSRSA", "TLSEC"));
    (server, url.replacen("ftp", "ftps", 1))
}

fn proftpd_with(unpacked: &Path, root: &Path, more: &str) -> (Running, String) {
    let port = free_port();
    let (here, below) = (unpacked.display(), root.display());
    let beside = |end: &str| root.with_extension(end);
    let pid = beside("proftpd.pid");
    let config = format!(
        "ServerName farline\nServerType standalone\nDefaultAddress 127.0.0.1\nPort {port}\n\
         UseIPv6 off\nUser root\nGroup root\nWtmpLog off\nTransferLog none\nSystemLog none\n\
         ScoreboardFile none\nPidFile {pid}\nModulePath {here}/usr/lib/proftpd\n{more}\
         AuthOrder mod_auth_unix.c\nRequireValidShell off\nUseFtpUsers off\nRootLogin on\n\
         AllowStoreRestart on\nTimesGMT on\n<Anonymous {below}>\nUser root\nGroup root\n\
         UserAlias anonymous root\nRequireValidShell off\nAllowOverwrite on\n</Anonymous>\n",
        pid = pid.display(),
    );
    let file = beside("proftpd.conf");
    std::fs::write(&file, config).expect("written");
    let mut command = Command::new(unpacked.join("usr/sbin/proftpd"));
    // What it is linked with lies next to it.
    let libraries = std::fs::read_dir(unpacked.join("usr/lib")).expect("a folder");
    let libraries: Vec<_> = libraries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    let libraries = std::env::join_paths(libraries).expect("paths without colons");
    command.env("LD_LIBRARY_PATH", libraries).arg("--nodaemon").arg("--config").arg(&file);
    listening(command, port, "proftpd-core")
}
