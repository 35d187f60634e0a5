//! One client's session: the control connection around the core's server machine.

use super::config::Anonymous;
use super::data::DataPlane;
use super::files::Files;
use super::reporter::Reporter;
use super::{Shared, diskless, tree};
use crate::channels::key::{PREAMBLE_LEN, Token};
use crate::mover::{Cancel, TREE_MODULE};
use farline_core::gridftp::server::{Answer, Ask, Input, Logins, Output, Rights, ServerConfig, ServerSession};
use farline_core::units::{Error, Fault, Time};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

/// How long a data connection's preamble may take: K-3.
const PREAMBLE_TIMEOUT: Duration = Duration::from_secs(5);
/// How soon to look again for the rest of a preamble that came in pieces.
const PEEK_AGAIN: Duration = Duration::from_millis(10);

/// Tells a client that the node is full; a data connection of a session that is served is let in (K-5).
pub(super) async fn turn_away(shared: &Shared, mut stream: TcpStream) {
    // A client that reads nothing loses the words, not we the task.
    let _ = stream.try_write(b"421 Too many sessions; try again later.\r\n");
    let mut preamble = [0; PREAMBLE_LEN];
    if let Ok(Ok(_)) = tokio::time::timeout(PREAMBLE_TIMEOUT, stream.read_exact(&mut preamble)).await {
        shared.doors.admit(&preamble, stream).await;
    }
}

/// What came on a control connection.
enum Received {
    /// So many bytes.
    Bytes(usize),
    /// The end.
    Nothing,
    /// A preamble: this is a data connection (K-5).
    Preamble([u8; PREAMBLE_LEN]),
}

/// Reads; from a connection that has said nothing yet, a preamble whole and not a byte beyond. Cancel-safe.
async fn receive(stream: &mut TcpStream, fresh: bool, into: &mut [u8]) -> Received {
    let begun = if fresh { preamble(stream).await } else { None };
    match begun {
        Some(received) => received,
        None => match stream.read(into).await {
            Ok(0) | Err(_) => Received::Nothing,
            Ok(len) => Received::Bytes(len),
        },
    }
}

/// Waits for a preamble; `None` when something else begins.
async fn preamble(stream: &mut TcpStream) -> Option<Received> {
    let mut preamble = [0; PREAMBLE_LEN];
    let mut tries = 0;
    while PEEK_AGAIN * tries < PREAMBLE_TIMEOUT {
        match stream.peek(&mut preamble).await {
            Ok(0) | Err(_) => break,
            Ok(len) if !Token::may_begin_with(&preamble[..len]) => return None,
            Ok(PREAMBLE_LEN) => {
                // All of it is there: this does not wait.
                return stream.read_exact(&mut preamble).await.ok().map(|_| Received::Preamble(preamble));
            }
            Ok(_) => {}
        }
        tries += 1;
        tokio::time::sleep(PEEK_AGAIN).await;
    }
    Some(Received::Nothing)
}

/// Serves one client to the end of its session.
pub(super) async fn serve(shared: Arc<Shared>, mut stream: TcpStream, peer: SocketAddr) {
    let Ok(local) = stream.local_addr() else { return };
    // Replies are short and a client waits for each.
    let _ = stream.set_nodelay(true);
    // A client that vanished without a word still holds the place that it was writing to.
    let _ = crate::sys::tcp::notice_dead_peer(&stream);
    let began = Instant::now();
    let now = || Time::from_nanos(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
    let mut session = ServerSession::new(rules(&shared), now());
    let data = Arc::new(Mutex::new(DataPlane::new(Arc::clone(&shared), local, peer)));
    let (answers, mut answered) = mpsc::unbounded_channel::<(u64, Answer)>();
    let mut cancel = Cancel::new();
    let mut received = vec![0; 16 * 1024];
    let mut fresh = true;
    loop {
        let wake = loop {
            match session.poll(now()) {
                Output::Send(bytes) => {
                    if stream.write_all(&bytes).await.is_err() {
                        session.handle(now(), Input::Closed);
                    }
                }
                Output::Ask { id, ask } => {
                    cancel = Cancel::new();
                    let job = Job { shared: Arc::clone(&shared), data: Arc::clone(&data), cancel: cancel.clone() };
                    let answers = answers.clone();
                    tokio::task::spawn_blocking(move || job.answer(id, ask, answers));
                }
                Output::Abort { .. } => {
                    cancel.cancel(Error::new(Fault::You, "aborted", "the client ended the transfer"));
                }
                Output::CloseChannels => {
                    let data = Arc::clone(&data);
                    // Behind the running job, if there is one.
                    tokio::task::spawn_blocking(move || data.lock().unwrap_or_else(PoisonError::into_inner).close_channels());
                }
                Output::Close => {
                    cancel.cancel(Error::new(Fault::You, "aborted", "the client went away"));
                    let _ = stream.shutdown().await;
                    return;
                }
                // `ServerConfig::tls` is false, so that the machine never asks.
                Output::StartTls => return,
                Output::Wait(wake) => break wake,
            }
        };
        let idle = async {
            match wake {
                Some(at) => tokio::time::sleep(at.since(now()).into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            came = receive(&mut stream, fresh, &mut received), if session.wants_input() => {
                fresh = false;
                match came {
                    Received::Nothing => session.handle(now(), Input::Closed),
                    Received::Bytes(len) => session.handle(now(), Input::Received(&received[..len])),
                    Received::Preamble(preamble) => {
                        shared.doors.admit(&preamble, stream).await;
                        return;
                    }
                }
            }
            Some((id, answer)) = answered.recv() => session.handle(now(), Input::Answer { id, answer }),
            () = idle => {}
        }
    }
}

fn rules(shared: &Shared) -> ServerConfig {
    let logins = match shared.config.anonymous {
        Anonymous::None => Logins::Asked { anonymous: None },
        Anonymous::Read => Logins::Anonymous(Rights::Read),
        Anonymous::Write => Logins::Anonymous(Rights::Write),
    };
    ServerConfig {
        banner: format!("Farline {} GridFTP server ready.", env!("CARGO_PKG_VERSION")),
        logins,
        features: [
            vec![tree::FEATURE.to_owned(), tree::CHECK_FEATURE.to_owned(), "FARLINE KEY".to_owned(), "FARLINE LIMIT".to_owned()],
            shared.config.third_party.then(|| "FARLINE THIRDPARTY".to_owned()).into_iter().collect(),
            diskless::features(shared.config.allow_null, shared.config.allow_memory),
        ]
        .concat(),
        passive_retrieve: true,
        modules: vec![TREE_MODULE.to_owned()],
        ..ServerConfig::default()
    }
}

/// What one ask needs on its thread.
struct Job {
    shared: Arc<Shared>,
    data: Arc<Mutex<DataPlane>>,
    cancel: Cancel,
}

impl Job {
    fn answer(self, id: u64, ask: Ask, answers: mpsc::UnboundedSender<(u64, Answer)>) {
        // The session may be gone by then, and nobody waits.
        let tell = move |answer: Answer| drop(answers.send((id, answer)));
        let answer = match ask {
            Ask::Transfer(request) => {
                let mut data = self.data.lock().unwrap_or_else(PoisonError::into_inner);
                data.transfer(&request, &self.cancel, &Reporter::new(&tell)).map(|bytes| Answer::Finished { bytes })
            }
            other => self.quick(other),
        };
        tell(answer.unwrap_or_else(Answer::Failed));
    }

    fn quick(&self, ask: Ask) -> Result<Answer, Error> {
        let files = Files::new(&self.shared.root, self.shared.config.anonymous == Anonymous::Write);
        let done = |()| Answer::Done;
        let mut data = self.data.lock().unwrap_or_else(PoisonError::into_inner);
        match ask {
            Ask::Act { addresses } => data.act(addresses).map(done),
            Ask::List { path } => files.list(&path).map(Answer::Entries),
            Ask::Login { .. } => Err(Error::new(Fault::Refused, "login-refused", "this node has no accounts")),
            Ask::MakeDirectory { path } => files.make_directory(&path).map(done),
            Ask::Passive { family, .. } => data.passive(family).map(|address| Answer::Passive(vec![address])),
            Ask::Remove { path, directory: true } => files.remove_directory(&path).map(done),
            Ask::Remove { path, directory: false } => files.remove_file(&path).map(done),
            Ask::Rename { from, to } => files.rename(&from, &to).map(done),
            Ask::SetMode { mode, path } => files.set_mode(&path, mode).map(done),
            Ask::SetModified { time, path } => files.set_modified(&path, time).map(done),
            Ask::SetOption { name, value } => data.set_option(&name, &value).map(done),
            Ask::Stat { path } => files.look(&path).map(|entry| Answer::Entry(Box::new(entry))),
            _ => Err(Error::new(Fault::Bug, "unsupported", "this node does not do that")),
        }
    }
}
