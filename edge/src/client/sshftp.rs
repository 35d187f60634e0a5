//! `sshftp://`: a grid's server that ssh starts at the other host and that speaks over its standard
//! streams, as `globus-url-copy` has it. Its data goes straight between the hosts, in the clear.

use std::io;
use std::net::IpAddr;
use tokio::io::{AsyncRead, AsyncReadExt};

/// What the line begins with that says by which address ssh came in; whatever the other host's
/// shell says before it is passed over.
const MARK: &str = "sshftp-connection";
/// As much of what a shell says first as is passed over.
const LONGEST_WORDS: usize = 64 << 10;

/// What the other host's shell is to run: `program`, in that shell's words, or what a user or a
/// site has set up. It says first by which address ssh came in: the server takes its data ports'
/// address from there too, and an answer to EPSV names none.
pub(super) fn remote_command(program: Option<&str>) -> String {
    let run = match program {
        Some(program) => format!("exec {program}"),
        None => "for server in \"$HOME/.globus/sshftp\" /etc/grid-security/sshftp; do \
                 test -x \"$server\" && exec \"$server\"; done; exit 127"
            .to_owned(),
    };
    let script = format!("echo \"{MARK} $SSH_CONNECTION\"; {run}");
    // Whatever shell it is: `'` ends a quoted string, and `'\\''` stands for one.
    format!("exec sh -c '{}'", script.replace('\'', "'\\''"))
}

/// Reads what [`remote_command`] says first: the address by which ssh reached the other host, if it
/// names one. What follows is the server's.
///
/// # Errors
/// When the stream ends before, or says too much.
pub(super) async fn server_address(
    mut stream: impl AsyncRead + Unpin,
) -> io::Result<Option<IpAddr>> {
    let mut line = Vec::new();
    for _ in 0..LONGEST_WORDS {
        match stream.read_u8().await? {
            b'\n' => {
                let text = String::from_utf8_lossy(&line).into_owned();
                if let Some(connection) = text.trim_end().strip_prefix(MARK) {
                    return Ok(address_in(connection));
                }
                line.clear();
            }
            byte => line.push(byte),
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}

/// The server's address in what sshd puts into `SSH_CONNECTION`: the client's address and port, and
/// its own.
fn address_in(connection: &str) -> Option<IpAddr> {
    let address = connection.split_whitespace().nth(2)?;
    // Of an address of one link it names the interface too, which is the other host's own name.
    let address = address.split('%').next()?;
    address.parse::<IpAddr>().ok().map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// What the command says, run by a shell on this host whose user has this home.
    fn said(program: Option<&str>, home: &std::path::Path) -> (String, Option<i32>) {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(remote_command(program)).env("HOME", home);
        shell.env("SSH_CONNECTION", "192.0.2.1 4711 192.0.2.2 22");
        let output = shell.output().expect("a shell");
        (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code())
    }

    #[test]
    fn a_users_own_server_is_run_and_what_is_named_before_it() {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().expect("a folder");
        let first = format!("{MARK} 192.0.2.1 4711 192.0.2.2 22\n");
        let folder = home.path().join(".globus");
        std::fs::create_dir(&folder).expect("a folder");
        let script = folder.join("sshftp");
        std::fs::write(&script, "#!/bin/sh\necho '220 its own'\n").expect("written");
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("set");
        assert_eq!(said(None, home.path()), (format!("{first}220 its own\n"), Some(0)));
        let other = said(Some("printf '220 %s\\n' \"it's another\""), home.path());
        assert_eq!(other, (format!("{first}220 it's another\n"), Some(0)));
        assert_eq!(said(Some("/nowhere/sshftp"), home.path()), (first, Some(127)));
    }

    #[tokio::test]
    async fn the_servers_address_is_read_past_what_a_shell_says() {
        for (said, address) in [
            ("192.0.2.1 4711 192.0.2.2 22", Some("192.0.2.2")),
            ("fe80::1%eth0 4711 fe80::2%eth7 22", Some("fe80::2")),
            ("::ffff:192.0.2.1 4711 ::ffff:192.0.2.2 22", Some("192.0.2.2")),
            ("", None),
            ("UNKNOWN 65535 UNKNOWN 65535", None),
        ] {
            let all = format!("Welcome!\r\n\n{MARK} {said}\n220 ready\r\n");
            let mut stream = all.as_bytes();
            let read = server_address(&mut stream).await.expect("a line");
            assert_eq!(read, address.map(|address| address.parse().expect("one")), "{said}");
            assert_eq!(stream, b"220 ready\r\n", "the rest is the server's");
        }
        assert!(server_address(&b"Welcome!\n"[..]).await.is_err(), "it ends before");
        let endless = vec![b'a'; LONGEST_WORDS + 1];
        let error = server_address(&endless[..]).await.expect_err("it says too much");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
