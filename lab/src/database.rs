//! A PostgreSQL server of a test's own: Debian's program in a temporary folder, as a user without
//! privileges, on a socket in that folder and on a loopback port with TLS and a password.

use crate::ordinary::Ordinary;
use crate::{Running, command, free_port, succeed, wait_for};
use rustix::process::Signal;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The password of the user `farline`, with what has to be escaped in a URL.
pub const PASSWORD: &str = "s3cr%40t";

/// A server; it ends with the test.
#[derive(Debug)]
pub struct Database {
    user: Ordinary,
    programs: PathBuf,
    port: u16,
    running: Option<Running>,
}

/// Where Debian has the newest server's programs.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let programs = versions.filter_map(|entry| Some(entry.ok()?.path().join("bin")));
    programs.filter(|folder| folder.join("initdb").is_file()).max()
}

impl Database {
    /// Makes one and starts it; `None` where there is no PostgreSQL.
    ///
    /// # Panics
    /// When it is there and does not start.
    pub fn start() -> Option<Database> {
        let programs = programs()?;
        let port = free_port();
        let mut database = Database { user: Ordinary::new(), programs, port, running: None };
        let secret = database.folder().join("password");
        std::fs::write(&secret, PASSWORD.replace("%40", "@")).expect("written");
        database.user.own(&secret);
        let data = database.data();
        let mut make = database.program("initdb");
        make.arg("-D").arg(&data).args(["-U", "farline", "-A", "scram-sha-256", "--no-sync"]);
        make.args(["--no-locale", "-E", "UTF8"]).arg("--pwfile").arg(&secret);
        succeed(&mut make);
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
        for (name, text, mode) in [
            ("server.crt", made.cert.pem(), 0o644),
            ("server.key", made.signing_key.serialize_pem(), 0o600),
            (
                "pg_hba.conf",
                "local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n".to_owned(),
                0o600,
            ),
        ] {
            let path = data.join(name);
            std::fs::write(&path, text).expect("written");
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("so");
            database.user.own(&path);
        }
        database.begin(&[]);
        Some(database)
    }

    fn folder(&self) -> &Path {
        self.user.path()
    }

    fn data(&self) -> PathBuf {
        self.folder().join("data")
    }

    /// The certificate that it shows, in PEM.
    pub fn certificate(&self) -> PathBuf {
        self.data().join("server.crt")
    }

    fn program(&self, name: &str) -> Command {
        self.user.command(self.programs.join(name))
    }

    /// Starts it, with settings such as `fsync=off`.
    ///
    /// # Panics
    /// When it does not take connections within ten seconds.
    pub fn begin(&mut self, settings: &[&str]) {
        let folder = self.folder().display().to_string();
        let port = self.port.to_string();
        let mut server = self.program("postgres");
        server.arg("-D").arg(self.data()).args(["-k", &folder, "-p", &port, "-c", "ssl=on"]);
        server.args(["-c", "listen_addresses=127.0.0.1", "-c", "max_connections=20"]);
        settings.iter().for_each(|setting| {
            server.args(["-c", setting]);
        });
        server.stdout(Stdio::null()).stderr(Stdio::null());
        self.running = Some(Running(server.spawn().expect("postgres starts")));
        wait_for("PostgreSQL takes connections", || {
            let mut asks = command(self.programs.join("pg_isready"));
            asks.args(["-q", "-h", &folder, "-p", &port]).status().is_ok_and(|it| it.success())
        });
    }

    /// Ends it as a crash would: nothing is finished, and what was durable has to be recovered.
    ///
    /// # Panics
    /// When it does not run.
    pub fn crash(&mut self) {
        self.running.as_mut().expect("it runs").end(Signal::QUIT);
        self.running = None;
    }

    /// Its URL by the socket.
    pub fn url(&self) -> String {
        format!("postgres://farline@/postgres?host={}&port={}", self.folder().display(), self.port)
    }

    /// Its URL by TLS over loopback, with `password`.
    pub fn url_by_tls(&self, password: &str) -> String {
        format!("postgres://farline:{password}@127.0.0.1:{}/postgres?sslmode=require", self.port)
    }

    /// What `sql` returns.
    ///
    /// # Panics
    /// When PostgreSQL refuses it.
    pub fn sql(&self, sql: &str) -> String {
        let mut ask = command(self.programs.join("psql"));
        ask.args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-c", sql]).arg(self.url());
        succeed(&mut ask)
    }
}
