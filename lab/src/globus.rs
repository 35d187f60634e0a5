//! The client and the server of the Globus project, as tests run them.

use crate::{LinkUp, Running};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Globus' own client, for a minute at most.
pub fn globus_url_copy() -> Command {
    let mut command = crate::command("timeout");
    command.args(["60", "globus-url-copy"]);
    command
}

/// A real `globus-gridftp-server` for anonymous users on a free loopback port.
///
/// # Panics
/// When it is not installed or does not listen.
pub fn globus_server() -> (Running, String) {
    let port = crate::free_port();
    (globus_server_at(port), format!("ftp://127.0.0.1:{port}"))
}

/// The same at side b of a link, on port 2812; its files are this machine's.
///
/// # Panics
/// When it does not listen.
pub fn globus_server_behind(link: &LinkUp) -> (Running, String) {
    let mut command = link.command("b", "globus-gridftp-server");
    command.args([
        "-aa",
        "-p",
        "2812",
        "-log-level",
        "NONE",
        "-anonymous-user",
        "root",
        "-allow-root",
    ]);
    command.args(["-data-interface", "10.77.0.2", "-control-interface", "10.77.0.2"]);
    let server = Running(command.stdout(Stdio::null()).spawn().expect("farline runs"));
    let deadline = Instant::now() + Duration::from_secs(20);
    while !link.exec("b", &["sh", "-c", "ss -Hltn 'sport = 2812' | grep -q ."]).status.success() {
        assert!(Instant::now() < deadline, "globus-gridftp-server does not listen");
        std::thread::sleep(Duration::from_millis(50));
    }
    (server, "ftp://10.77.0.2:2812".to_owned())
}

/// The same on a port that is known: a server that comes again after it was killed.
///
/// # Panics
/// When it is not installed or does not listen.
pub fn globus_server_at(port: u16) -> Running {
    let mut command = Command::new("globus-gridftp-server");
    command.args(["-aa", "-p", &port.to_string(), "-log-level", "NONE"]);
    command.args(["-data-interface", "127.0.0.1", "-control-interface", "127.0.0.1"]);
    if rustix::process::geteuid().is_root() {
        command.args(["-anonymous-user", "root", "-allow-root"]);
    }
    let child = command
        .stdout(Stdio::null())
        .spawn()
        .expect("globus-gridftp-server is installed by make test");
    let server = Running(child);
    let deadline = Instant::now() + Duration::from_secs(20);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < deadline, "globus-gridftp-server does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    server
}
