//! The service: it listens, keeps what all requests share, and ends in good order.

mod api;
mod ask;
mod circuits;
mod events;
mod listen;
mod openapi;
mod page;
mod problem;
#[cfg(test)]
mod tests;

pub use openapi::document as openapi;

use super::clock::now;
use super::config::CalendarConfig;
use super::identity::{Caller, NamedCallers, NewToken, StoredToken, TokenHolders, fresh_secret};
use super::ledger::{Ledger, RecordKind};
use super::tls;
use super::wire::{ClosureDocument, ReservationDocument};
use super::writer::{self, CalendarTrouble, WriterHandle};
use crate::channels::trust::Fingerprint;
use crate::database::DatabaseAddress;
use crate::identity::CalendarRole;
use farline_core::calendar::{Book, BookRecord, Topology};
use farline_core::units::{Error, ErrorCode, Fault};
use rustls::ServerConfig;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::watch;

/// The database's file in the state folder.
const DATABASE: &str = "calendar.db";
/// The first token's file.
const FIRST_TOKEN: &str = "admin.token";
/// How old what is known of tokens may be: as long a revoked one may still be let in.
const FRESH: Duration = Duration::from_secs(1);

/// What all requests share.
pub(super) struct Shared {
    pub(super) book: Arc<RwLock<Book>>,
    pub(super) topology: Arc<Topology>,
    pub(super) writer: WriterHandle,
    /// A connection for reading.
    ledger: Mutex<Ledger>,
    holders: tokio::sync::Mutex<KnownHolders>,
    pub(super) named: Arc<NamedCallers>,
    /// The number of the log's last entry.
    pub(super) seq: watch::Receiver<u64>,
    /// What agents said last of each circuit.
    pub(super) circuits: circuits::HeardCircuits,
}

/// Who has a token, and since when that is known.
struct KnownHolders {
    holders: Arc<TokenHolders>,
    looked: Instant,
    /// The tokens that are being read: a database that hangs is asked once.
    reading: Option<tokio::task::JoinHandle<Result<Vec<StoredToken>, Error>>>,
}

impl Shared {
    /// Everybody who has a token of the calendar's own now.
    pub(super) async fn token_holders(self: &Arc<Self>) -> Arc<TokenHolders> {
        let mut known = self.holders.lock().await;
        if known.looked.elapsed() > FRESH {
            let shared = Arc::clone(self);
            let read = || tokio::spawn(async move { shared.stored(Ledger::tokens).await });
            let mut reading = known.reading.take().unwrap_or_else(read);
            // A database that cannot be read, or not for now, lets in whom it let in before.
            match tokio::time::timeout(FRESH, &mut reading).await {
                Ok(Ok(Ok(tokens))) => {
                    known.holders = Arc::new(TokenHolders::new(tokens, &self.topology));
                }
                Ok(_) => {}
                Err(_) => known.reading = Some(reading),
            }
            known.looked = Instant::now();
        }
        Arc::clone(&known.holders)
    }

    /// Whose token it is that somebody else signed, on a thread that may wait for the issuer's
    /// keys.
    pub(super) async fn by_token(self: &Arc<Self>, token: &str) -> Option<Caller> {
        let (named, token) = (Arc::clone(&self.named), token.to_owned());
        tokio::task::spawn_blocking(move || named.by_token(&token)).await.ok().flatten()
    }

    /// Reads the database on a thread that may wait.
    pub(super) async fn stored<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&mut Ledger) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let shared = Arc::clone(self);
        waiting(move || read(&mut shared.ledger.lock().unwrap_or_else(PoisonError::into_inner)))
            .await
    }

    /// Reads the book.
    pub(super) fn read<T>(&self, read: impl FnOnce(&Book) -> T) -> T {
        read(&self.book.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A calendar that listens.
pub struct Service {
    listener: TcpListener,
    address: SocketAddr,
    fingerprint: Fingerprint,
    tls: Arc<ServerConfig>,
    shared: Arc<Shared>,
    first_token: Option<PathBuf>,
    writer: std::thread::JoinHandle<()>,
    trouble: watch::Receiver<Option<CalendarTrouble>>,
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Service({})", self.address)
    }
}

fn store(path: &Path, what: impl std::fmt::Display) -> Error {
    let message = format!("{}: {what}", path.display());
    Error::new(Fault::Here, ErrorCode::CalendarStore, message)
}

/// The database at `url`, or that of the calendar whose state is in `folder`.
///
/// # Errors
/// When it cannot be opened or made.
pub fn open_ledger(folder: &Path, url: Option<&DatabaseAddress>) -> Result<Ledger, Error> {
    match url {
        Some(url) => Ledger::connect(url),
        None => Ledger::open(&folder.join(DATABASE)),
    }
}

/// Does `work`, which waits, on a thread that may.
async fn waiting<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| {
        let message = format!("the calendar's database: {error}");
        Err(Error::new(Fault::Bug, ErrorCode::CalendarStore, message))
    })
}

/// What is read before anybody is served.
struct Opened {
    tls: Arc<ServerConfig>,
    fingerprint: Fingerprint,
    ledger: Ledger,
    /// For reading.
    second: Ledger,
    book: Book,
    first_token: Option<PathBuf>,
    holders: TokenHolders,
    named: NamedCallers,
}

/// Reads the state.
fn open(config: &CalendarConfig) -> Result<Opened, Error> {
    let state = &config.state;
    fs::create_dir_all(state).map_err(|error| store(state, error))?;
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    fs::set_permissions(state, private).map_err(|error| store(state, error))?;
    let named = NamedCallers::new(config.identities.clone(), &config.topology)?;
    let (tls, fingerprint) = tls::server(config.certificate.as_ref(), state)?;
    let mut ledger = open_ledger(state, config.database.as_ref())?;
    ledger.lock()?;
    let mut book = Book::new(Arc::clone(&config.topology), config.policy.clone(), config.limits);
    restore(&mut ledger, &mut book)?;
    let first_token = first_token(&mut ledger, state)?;
    let holders = TokenHolders::new(ledger.tokens()?, &config.topology);
    let second = open_ledger(state, config.database.as_ref())?;
    Ok(Opened { tls, fingerprint, ledger, second, book, first_token, holders, named })
}

/// Reads into `book` all that is not over.
fn restore(ledger: &mut Ledger, book: &mut Book) -> Result<(), Error> {
    let topology = Arc::clone(&book.network().topology);
    let other = |what: &str| {
        let message = format!("the calendar's database has a {what} that is not of this network");
        Error::new(Fault::Here, ErrorCode::CalendarStore, message).hint(
            "start it with the network it was begun with; sites and links may be added to that",
        )
    };
    ledger.records(RecordKind::Closure, false, |body| {
        let document = serde_json::from_str::<ClosureDocument>(body).ok();
        let closure = document.and_then(|document| document.to_closure(&topology));
        book.apply(&BookRecord::Closure(closure.ok_or_else(|| other("closure"))?));
        Ok(())
    })?;
    ledger.records(RecordKind::Reservation, false, |body| {
        let document = serde_json::from_str::<ReservationDocument>(body).ok();
        let reservation = document.and_then(|document| document.to_reservation(&topology));
        let reservation = reservation.ok_or_else(|| other("reservation"))?;
        book.apply(&BookRecord::Reservation(Arc::new(reservation)));
        Ok(())
    })?;
    book.skip_numbers(
        ledger.last_id(RecordKind::Reservation)?,
        ledger.last_id(RecordKind::Closure)?,
    );
    book.advance(now());
    Ok(())
}

impl Service {
    /// Reads the state, and listens.
    ///
    /// # Errors
    /// When the state cannot be read or made, or the address is not to be had.
    pub async fn bind(config: CalendarConfig) -> Result<Service, Error> {
        let (listen, topology) = (config.listen, Arc::clone(&config.topology));
        Service::over(waiting(move || open(&config)).await?, listen, topology).await
    }

    /// Begins with what was read.
    async fn over(
        opened: Opened,
        listen: SocketAddr,
        topology: Arc<Topology>,
    ) -> Result<Service, Error> {
        let Opened { tls, fingerprint, ledger, second, book, first_token, holders, named } = opened;
        let (sender, seq) = watch::channel(ledger.last_seq());
        let shared_book = Arc::new(RwLock::new(book.clone()));
        let (troubled, trouble) = watch::channel(None);
        let started = writer::start(book, Arc::clone(&shared_book), ledger, sender, troubled);
        let (writer, thread) = started
            .map_err(|error| Error::new(Fault::Here, ErrorCode::NoThread, error.to_string()))?;
        let listener = TcpListener::bind(listen).await.map_err(|error| {
            let message = format!("cannot listen on {listen}: {error}");
            Error::new(Fault::Here, ErrorCode::ListenFailed, message)
        })?;
        let address = listener
            .local_addr()
            .map_err(|error| Error::new(Fault::Here, ErrorCode::ListenFailed, error.to_string()))?;
        let shared = Arc::new(Shared {
            book: shared_book,
            topology,
            writer,
            ledger: Mutex::new(second),
            named: Arc::new(named),
            holders: tokio::sync::Mutex::new(KnownHolders {
                holders: Arc::new(holders),
                looked: Instant::now(),
                reading: None,
            }),
            seq,
            circuits: circuits::HeardCircuits::new(),
        });
        let writer = thread;
        Ok(Service { listener, address, fingerprint, tls, shared, first_token, writer, trouble })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Of its certificate.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// The file of the token that was made because there was none.
    pub fn first_token(&self) -> Option<&Path> {
        self.first_token.as_deref()
    }

    /// How many reservations are not over.
    pub fn standing(&self) -> usize {
        self.shared.read(|book| book.standing().count())
    }

    /// What is wrong with it, while something is.
    pub fn trouble(&self) -> watch::Receiver<Option<CalendarTrouble>> {
        self.trouble.clone()
    }

    /// Serves until `stop` ends, and then until all that was taken is durable.
    ///
    /// # Errors
    /// When the thread that decides came to its end before: then nothing can be booked any more,
    /// and whoever runs this starts it again, from its database.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), Error> {
        let described = || async { axum::Json(openapi::document()) };
        let router = api::routes(Arc::clone(&self.shared))
            .route("/v1/openapi.json", axum::routing::get(described));
        let mut trouble = self.trouble;
        // Its end of this channel goes with the thread.
        let gone = async { while trouble.changed().await.is_ok() {} };
        let stop = async {
            tokio::select! {
                () = stop => {}
                () = gone => {}
            }
        };
        listen::serve(self.listener, self.tls, router, &self.shared, stop).await;
        // The last handle goes with what is shared; the writer ends when it has done what waits.
        drop(self.shared);
        let writer = self.writer;
        let ended = tokio::task::spawn_blocking(move || writer.join());
        match tokio::time::timeout(Duration::from_secs(5), ended).await {
            Ok(Ok(Err(panic))) => Err(writer_panicked(&*panic)),
            _ => Ok(()),
        }
    }
}

/// What is said of a writer that panicked.
fn writer_panicked(panic: &(dyn std::any::Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or(panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic");
    let message = format!("the thread that decides has ended by a defect: {text}");
    Error::new(Fault::Bug, ErrorCode::CalendarStore, message)
        .hint("start the calendar again: all that it said yes to is in its database")
}

/// Makes a token for everything where there is none at all, in a file of the state folder.
fn first_token(ledger: &mut Ledger, state: &Path) -> Result<Option<PathBuf>, Error> {
    if !ledger.tokens()?.is_empty() {
        return Ok(None);
    }
    let path = state.join(FIRST_TOKEN);
    let admin = NewToken {
        name: "admin".to_owned(),
        project: "admin".to_owned(),
        role: CalendarRole::Admin,
        endpoints: vec!["*".to_owned()],
        highest_rate_bps: None,
        highest_volume_bytes: None,
        not_before: None,
        not_after: None,
        certificate: None,
    };
    let (secret, digest) = fresh_secret()?;
    // The file first: a token whose secret nobody has could never be made again under its name.
    let _ = fs::remove_file(&path);
    tls::write_secret(&path, &format!("{secret}\n")).map_err(|error| store(&path, error))?;
    ledger.add_token(&admin, &digest)?;
    Ok(Some(path))
}

/// Adds `token` to a calendar's ledger, and returns its secret, which is kept nowhere.
///
/// # Errors
/// A token that makes no sense in `topology`, or whose name is taken.
pub fn make_token(
    ledger: &mut Ledger,
    token: &NewToken,
    topology: &Topology,
) -> Result<String, Error> {
    token.rights(topology)?;
    let (secret, digest) = fresh_secret()?;
    ledger.add_token(token, &digest)?;
    Ok(secret)
}
