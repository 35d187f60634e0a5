//! A real sshd for a test: on a free port, with keys of its own, for this user alone, touching
//! nothing of the system.

use crate::Running;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A running sshd and the client's side of it.
#[derive(Debug)]
pub struct Sshd {
    /// The server.
    pub server: Running,
    /// Where it listens.
    pub port: u16,
    folder: PathBuf,
    host: String,
}

impl Sshd {
    /// Starts one in `folder`, which must be of this user alone; `more` are lines of its
    /// configuration, `wrap` what runs it (a namespace).
    ///
    /// # Panics
    /// When OpenSSH's server is not installed, or does not start.
    pub fn start(folder: &Path, host: &str, more: &str, wrap: &[&str]) -> Sshd {
        std::fs::create_dir_all(folder).expect("a folder");
        for key in ["host", "user"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(folder.join(key))
                .status();
            assert!(
                made.is_ok_and(|status| status.success()),
                "ssh-keygen is installed by make test"
            );
        }
        std::fs::copy(folder.join("user.pub"), folder.join("authorized")).expect("copied");
        let port = crate::free_port();
        let at = folder.display();
        let config = format!(
            "Port {port}\nListenAddress {host}\nHostKey {at}/host\nAuthorizedKeysFile \
             {at}/authorized\nPidFile none\n\
             StrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication \
             no\nPermitRootLogin yes\n\
             PermitUserEnvironment no\n{more}\n"
        );
        std::fs::write(folder.join("config"), config).expect("written");
        // Where sshd keeps the empty folder that it confines its unprivileged part to.
        let _ = std::fs::create_dir_all("/run/sshd");
        let program =
            ["/usr/sbin/sshd", "/usr/bin/sshd"].into_iter().find(|path| Path::new(path).exists());
        let program = program.expect("sshd is installed by make test");
        let words: Vec<&str> = wrap.iter().copied().chain([program]).collect();
        let log = std::fs::File::create(folder.join("log")).expect("a log");
        let mut command = crate::command(words[0]);
        command.args(&words[1..]).args(["-D", "-e", "-f"]).arg(folder.join("config"));
        let server =
            Running(command.stdin(Stdio::null()).stderr(log).spawn().expect("sshd starts"));
        let sshd = Sshd { server, port, folder: folder.to_owned(), host: host.to_owned() };
        // By its own word: not every test can reach it from here.
        let deadline = Instant::now() + Duration::from_secs(30);
        while !sshd.log().contains("Server listening on") {
            assert!(Instant::now() < deadline, "sshd does not listen: {}", sshd.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        sshd
    }

    /// What it said.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// The lines of a client configuration under which this is host `name`, reached through host
    /// `jump` if there is one.
    pub fn client_config(&self, name: &str, jump: Option<&str>) -> String {
        let at = self.folder.display();
        let jump = jump.map(|jump| format!("ProxyJump {jump}\n")).unwrap_or_default();
        format!(
            "Host {name}\nHostName {}\nPort {}\nIdentityFile {at}/user\nIdentitiesOnly \
             yes\nUserKnownHostsFile {at}/known\n\
             StrictHostKeyChecking accept-new\nLogLevel ERROR\n{jump}",
            self.host, self.port
        )
    }
}
