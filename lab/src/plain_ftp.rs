//! FTP servers of other people that know no GridFTP: vsftpd, and pyftpdlib's.

use crate::Running;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").port()
}

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
    let file = root.with_extension("vsftpd.conf");
    std::fs::write(&file, config).expect("written");
    let mut command = Command::new("vsftpd");
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin")).arg(&file);
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
