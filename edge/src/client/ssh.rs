//! The user's own ssh, which starts `farline serve --stdio`, or a grid's server, at the other host
//! and carries what cannot go straight (docs/protocol.md, H-1 and H-2).
//!
//! One ssh logs in and is the master of the others, which so ask for no password again.

use super::connect_options::ConnectOptions;
use super::location::Remote;
use super::sshftp;
use crate::channels::Handle;
use crate::channels::driver::Tunnel;
use crate::channels::ordered::ByteStream;
use crate::sys::child::ended_within;
use crate::sys::tcp::TcpInfo;
use farline_core::congestion::ControlName;
use farline_core::units::{Error, ErrorCode, Fault, Setting};
use std::fs::DirBuilder;
use std::io::{self, IoSlice, IoSliceMut, IsTerminal, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How long a program that closed its output may take to end.
const TIMEOUT: Duration = Duration::from_secs(3);
/// As much of what ssh says as anybody reads.
const LONGEST_WORDS: usize = 64 << 10;

/// A running ssh with a server at its other end.
#[derive(Debug)]
pub(super) struct Ssh {
    /// Whether that is farline, and not a grid's server.
    is_farline: bool,
    program: Vec<String>,
    destination: Vec<String>,
    /// A folder of ours alone, with the master's socket.
    folder: PathBuf,
    host: String,
    child: Mutex<Child>,
}

impl Ssh {
    /// Starts ssh, and in it the server at the other end; the stream is the control channel.
    pub(super) fn start(
        remote: &Remote,
        connect: &ConnectOptions,
    ) -> Result<(Ssh, tokio::net::UnixStream), Error> {
        let failed = |what: &str, error: io::Error| {
            Error::new(Fault::Here, ErrorCode::NoSsh, format!("{what}: {error}"))
        };
        let program =
            if connect.ssh.is_empty() { vec!["ssh".to_owned()] } else { connect.ssh.clone() };
        let mut destination = Vec::new();
        if let Some(user) = &remote.user {
            destination.extend(["-l".to_owned(), user.clone()]);
        }
        if !remote.farline && remote.port != 0 {
            destination.extend(["-p".to_owned(), remote.port.to_string()]);
        }
        if let Some(address) = connect.address {
            // Its key is looked up by its name.
            destination.push(format!("-oHostName={address}"));
            destination.push(format!("-oHostKeyAlias={}", remote.host));
        }
        destination.extend(["--".to_owned(), remote.host.clone()]);
        let folder =
            folder().map_err(|error| failed("cannot make a folder for ssh's socket", error))?;
        let (ours, theirs) = UnixStream::pair().map_err(|error| failed("no socket pair", error))?;
        ours.set_nonblocking(true).map_err(|error| failed("no socket pair", error))?;
        let mut command = Command::new(&program[0]);
        // As scp has it: nothing of the user's configuration that would start, forward or ask for a
        // terminal.
        command.args(&program[1..]).args(["-x", "-a", "-T", "-M", "-S"]).arg(folder.join("s"));
        command.args([
            "-oControlPersist=no",
            "-oPermitLocalCommand=no",
            "-oClearAllForwardings=yes",
            "-oRemoteCommand=none",
        ]);
        command.args(&destination).arg(match remote.farline {
            true => remote_command(connect.remote_farline.as_deref()),
            false => sshftp::remote_command(connect.remote_sshftp.as_deref()),
        });
        // Questions about passwords and keys go to the terminal; what is said at one belongs there
        // too.
        let words = if io::stderr().is_terminal() { Stdio::inherit() } else { Stdio::piped() };
        let child = two_ways(&mut command, theirs, words).map_err(|error| {
            let _ = std::fs::remove_dir(&folder);
            failed(&format!("cannot run {}", program[0]), error)
                .hint(format!("install OpenSSH's client, or say which with {}", Setting::Ssh))
        })?;
        let ours = tokio::net::UnixStream::from_std(ours)
            .map_err(|error| failed("no socket pair", error))?;
        let ssh = Ssh {
            is_farline: remote.farline,
            program,
            destination,
            folder,
            host: remote.host.clone(),
            child: Mutex::new(child),
        };
        Ok((ssh, ours))
    }

    /// Why the session ended before it began, if ssh or the other host's shell says so.
    pub(super) fn failure(&self) -> Option<Error> {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        let status = ended(&mut child)?;
        let said = words(&mut child);
        let (host, said) = (&self.host, said.as_deref());
        let because = said.map(|said| format!(": {said}")).unwrap_or_default();
        Some(match status.code() {
            Some(0) => return None,
            Some(255) => {
                let refused =
                    |said: &str| said.contains("denied") || said.contains("verification failed");
                let (fault, code) = match said.is_some_and(refused) {
                    true => (Fault::Refused, ErrorCode::SshFailed),
                    false => (Fault::Between, ErrorCode::SshFailed),
                };
                let message = match said {
                    Some(said) => format!("ssh to {host} failed: {said}"),
                    None => format!("ssh to {host} failed; it says why above"),
                };
                Error::new(fault, code, message).hint(format!("does `ssh {host} true` work?"))
            }
            _ if !self.is_farline => no_sshftp(host, status, &because),
            Some(code @ (126 | 127)) => {
                let what = if code == 127 { "is not there" } else { "cannot be run" };
                Error::new(
                    Fault::There,
                    ErrorCode::NoRemoteFarline,
                    format!("farline {what} on {host}{because}"),
                )
                .hint(format!(
                    "copy this program there: `scp {} {host}:.local/bin/farline` (after `ssh \
                     {host} mkdir -p .local/bin`), \
                     or say where it is with {} PATH",
                    std::env::current_exe().unwrap_or_else(|_| "farline".into()).display(),
                    Setting::RemoteFarline
                ))
            }
            _ => Error::new(
                Fault::There,
                ErrorCode::RemoteFarlineFailed,
                format!("farline on {host} ended with {status}{because}"),
            )
            .hint(format!("is it of a version that knows `farline {REMOTE_NODE}`?")),
        })
    }
}

/// Why a grid's server at `host` that ended with `status` did not begin.
fn no_sshftp(host: &str, status: ExitStatus, because: &str) -> Error {
    let message = match status.code() {
        Some(126 | 127) => format!("{host} has no GridFTP server that ssh could start{because}"),
        _ => format!("the GridFTP server on {host} ended with {status}{because}"),
    };
    Error::new(Fault::There, ErrorCode::NoSshftp, message).hint(format!(
        "`globus-gridftp-server-enable-sshftp -nonroot` there makes ~/.globus/sshftp, and its \
         operator /etc/grid-security/sshftp; where farline is installed, write {host}:path"
    ))
}

impl Tunnel for Ssh {
    fn carry(&self, address: SocketAddr) -> io::Result<Box<dyn ByteStream>> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut command = Command::new(&self.program[0]);
        command.args(&self.program[1..]).arg("-S").arg(self.folder.join("s"));
        command.arg("-W").arg(address.to_string()).args(&self.destination);
        let child = two_ways(&mut command, theirs, Stdio::piped())?;
        Ok(Box::new(SshStream { stream: ours, child }))
    }
}

impl Drop for Ssh {
    fn drop(&mut self) {
        let child = self.child.get_mut().unwrap_or_else(PoisonError::into_inner);
        if ended(child).is_none() {
            let _ = child.kill();
            let _ = child.wait();
        }
        // ssh removes its socket itself, unless it was killed.
        let _ = std::fs::remove_file(self.folder.join("s"));
        let _ = std::fs::remove_dir(&self.folder);
    }
}

/// Runs `command` with `theirs` for standard input and output.
fn two_ways(command: &mut Command, theirs: UnixStream, words: Stdio) -> io::Result<Child> {
    let input: OwnedFd = theirs.try_clone()?.into();
    command
        .stdin(Stdio::from(input))
        .stdout(Stdio::from(OwnedFd::from(theirs)))
        .stderr(words)
        .spawn()
}

/// A new folder for this user alone, of a short name: a socket's path has 107 bytes.
fn folder() -> io::Result<PathBuf> {
    let mut name = [0; 8];
    rustix::rand::getrandom(&mut name, rustix::rand::GetRandomFlags::empty())?;
    let base = std::env::var_os("XDG_RUNTIME_DIR").map_or_else(|| "/tmp".into(), PathBuf::from);
    let make = |base: PathBuf| {
        let path = base.join(format!("farline-{:016x}", u64::from_ne_bytes(name)));
        DirBuilder::new().mode(0o700).create(&path).map(|()| path)
    };
    make(base).or_else(|_| make("/tmp".into()))
}

/// What of the command line of Farline on another host this end relies on: a node that speaks over
/// its standard input and output.
const REMOTE_NODE: &str = "serve --stdio";

/// What the other host's shell is to run. Its PATH, without a login, often lacks what a user
/// installed.
fn remote_command(path: Option<&str>) -> String {
    match path {
        // In any shell `'` ends a quoted string and `'\''` stands for one; `~` must stay outside to
        // be expanded.
        Some(path) => {
            let (home, rest) = path.strip_prefix("~/").map_or(("", path), |rest| ("~/", rest));
            format!("exec {home}'{}' {REMOTE_NODE}", rest.replace('\'', "'\\''"))
        }
        None => format!(
            "exec sh -c 'PATH=\"$PATH:$HOME/.local/bin:$HOME/.cargo/bin:/usr/local/bin\"; exec \
             farline {REMOTE_NODE}'"
        ),
    }
}

/// The status of a program that has ended, or is about to.
fn ended(child: &mut Child) -> Option<ExitStatus> {
    ended_within(child, TIMEOUT)
}

/// The last thing that a program which has ended said on its standard error.
fn words(child: &mut Child) -> Option<String> {
    let mut said = Vec::new();
    child.stderr.take()?.take(LONGEST_WORDS as u64).read_to_end(&mut said).ok()?;
    let said = String::from_utf8_lossy(&said);
    let last = said.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    Some(last.chars().map(|c| if c.is_control() { ' ' } else { c }).collect())
}

/// A connection that an `ssh -W` carries; a socket pair with it.
#[derive(Debug)]
struct SshStream {
    stream: UnixStream,
    child: Child,
}

impl SshStream {
    /// `error`, or what ssh says of it.
    fn explain(&mut self, error: io::Error) -> io::Error {
        match ended(&mut self.child).and_then(|_| words(&mut self.child)) {
            Some(said) => io::Error::new(
                error.kind(),
                format!("ssh did not carry it: {said} (sshd needs AllowTcpForwarding)"),
            ),
            None => error,
        }
    }
}

impl Read for SshStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.read_vectored(&mut [IoSliceMut::new(into)])
    }

    fn read_vectored(&mut self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self.stream.read_vectored(parts) {
            Ok(0) if parts.iter().any(|part| !part.is_empty()) => {
                let error = self.explain(io::ErrorKind::UnexpectedEof.into());
                if error.get_ref().is_some() { Err(error) } else { Ok(0) }
            }
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(self.explain(error)),
            result => result,
        }
    }
}

impl Write for SshStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.stream.write_vectored(parts) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(self.explain(error)),
            result => result,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl ByteStream for SshStream {
    fn tcp_info(&self) -> Option<TcpInfo> {
        None
    }

    fn handle(&self) -> io::Result<Handle> {
        Handle::of(&self.stream)
    }

    fn congestion(&self) -> Option<ControlName> {
        None
    }

    fn finish(&mut self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Write)
    }
}

impl Drop for SshStream {
    fn drop(&mut self) {
        // Without its input it ends; one that hangs in a dead network does not.
        let _ = self.stream.shutdown(Shutdown::Both);
        if ended(&mut self.child).is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remote_command_survives_any_path() {
        assert_eq!(
            remote_command(Some("/opt/it's/farline")),
            "exec '/opt/it'\\''s/farline' serve --stdio"
        );
        assert_eq!(remote_command(Some("~/bin/farline")), "exec ~/'bin/farline' serve --stdio");
    }
}
