//! A control connection that GSSAPI protects: the exchange of ADAT, and then a token for each line.

use crate::channels::gsi::{Acceptor, DataSecurity, Gsi, GssContext, Peer, Step};
use farline_core::gridftp::gssapi::{
    ReplyLines, SecurityCommand, SecurityCommands, adat_reply, protected_reply,
};
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A control connection after its exchange.
pub(super) struct GssWire {
    stream: TcpStream,
    commands: SecurityCommands,
    replies: ReplyLines,
    context: Box<GssContext>,
    /// What came and was not asked for yet.
    plain: Vec<u8>,
}

/// Who came by an exchange, and what it delegated.
#[derive(Debug)]
pub(super) struct GssClient {
    pub(super) peer: Peer,
    pub(super) data: Option<DataSecurity>,
}

impl GssWire {
    /// Does the acceptor's end of the exchange over `stream`; the caller says for how long at most.
    ///
    /// # Errors
    /// In words for the operator, when nobody is let in; the client has heard them.
    pub(super) async fn accept(
        mut stream: TcpStream,
        gsi: Arc<Gsi>,
    ) -> Result<(GssWire, GssClient), String> {
        let gone = |error: io::Error| format!("the client went away: {error}");
        let mut commands = SecurityCommands::default();
        let mut acceptor = Some(blocking(move || gsi.accept()).await?);
        let mut buffer = vec![0; 16 << 10];
        loop {
            let read = stream.read(&mut buffer).await.map_err(gone)?;
            if read == 0 {
                return Err("the client went away before it was known".to_owned());
            }
            let mut came = &buffer[..read];
            while let Some(command) = commands.next(&mut came) {
                let SecurityCommand::Adat(token) = command else {
                    let reply = b"503 After AUTH GSSAPI comes ADAT, with a token in base 64.\r\n";
                    stream.write_all(reply).await.map_err(gone)?;
                    continue;
                };
                match step(&mut acceptor, token).await {
                    Ok(Step::More(token)) => {
                        let reply = adat_reply(&token, false);
                        stream.write_all(&reply).await.map_err(gone)?;
                    }
                    Ok(Step::Done(context, peer, data)) => {
                        stream.write_all(&adat_reply(&[], true)).await.map_err(gone)?;
                        let (replies, plain) = (ReplyLines::default(), Vec::new());
                        let mut wire = GssWire { stream, commands, replies, context, plain };
                        wire.take(came)?;
                        return Ok((wire, GssClient { peer, data }));
                    }
                    Err(why) => {
                        // Whoever is refused hears why; if not, the log says it all the same.
                        let reply = format!("535 Authentication refused: {}\r\n", one_line(&why));
                        let _ = stream.write_all(reply.as_bytes()).await;
                        let _ = stream.shutdown().await;
                        return Err(why);
                    }
                }
            }
        }
    }

    /// Reads; cancel-safe.
    pub(super) async fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.plain.is_empty() {
            let mut buffer = [0; 8 << 10];
            let read = self.stream.read(&mut buffer).await?;
            if read == 0 {
                return Ok(0);
            }
            self.take(&buffer[..read]).map_err(io::Error::other)?;
        }
        let len = into.len().min(self.plain.len());
        into[..len].copy_from_slice(&self.plain[..len]);
        self.plain.drain(..len);
        Ok(len)
    }

    fn take(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        while let Some(command) = self.commands.next(&mut bytes) {
            let SecurityCommand::Protected(token) = command else {
                // Anybody between the ends may have said it: the session ends, and whoever is the
                // client begins again.
                return Err("a command came without protection".to_owned());
            };
            let line = self.context.open(&token)?;
            self.plain.extend_from_slice(&line);
            if !line.ends_with(b"\n") {
                self.plain.extend_from_slice(b"\r\n");
            }
        }
        Ok(())
    }

    /// Writes whole replies.
    pub(super) async fn write(&mut self, replies: &[u8]) -> io::Result<()> {
        let mut bytes = Vec::new();
        for (line, is_last) in self.replies.cut(replies) {
            let token = self.context.seal(line).map_err(io::Error::other)?;
            bytes.extend_from_slice(&protected_reply(&token, is_last));
        }
        self.stream.write_all(&bytes).await
    }

    /// Ends the sending side.
    pub(super) async fn close(&mut self) -> io::Result<()> {
        self.stream.shutdown().await
    }
}

/// A step on a thread that may take its time: it makes keys and reads files.
async fn step(acceptor: &mut Option<Acceptor>, token: Vec<u8>) -> Result<Step, String> {
    let Some(current) = acceptor.take() else {
        return Err("the exchange is over".to_owned());
    };
    let (next, step) = blocking(move || current.take(&token)).await?;
    *acceptor = next;
    Ok(step)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    tokio::task::spawn_blocking(work).await.map_err(|error| error.to_string())?
}

/// A reason as a reply may say it: names in certificates are others' words.
fn one_line(text: &str) -> String {
    let cut: String = text.chars().take(300).collect();
    farline_core::units::escaped(&cut).replace(['\r', '\n'], " ")
}
