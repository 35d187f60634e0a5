//! Connections to a database: made when they are needed, made anew when they broke, and none for a
//! moment after that failed.

use super::super::{LedgerAddress, NotWritten};
use super::tls::DatabaseTls;
use farline_core::units::{Error, ErrorCode, Fault};
use std::net::IpAddr;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::error::{Severity, SqlState};
use tokio_postgres::{Client, Config};

/// How long a connection may take, and a reply.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long none is tried after one failed: at first, and at most.
const BACK_OFF: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];
/// The advisory lock of the calendar that changes the book.
const LOCK: &str = "SELECT pg_try_advisory_lock(1178686028, 1)";
/// What makes the tables of two that begin at once one after the other.
const MAKING: &str = "SELECT pg_advisory_xact_lock(1178686028, 2)";

const SCHEMA: &str = "farline_calendar";
const TABLES: &str = "
CREATE SCHEMA farline_calendar;
CREATE TABLE farline_calendar.meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE farline_calendar.record (
  kind TEXT NOT NULL, id BIGINT NOT NULL, over BOOLEAN NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (kind, id));
CREATE TABLE farline_calendar.log (
  seq BIGINT PRIMARY KEY, at TEXT NOT NULL, actor TEXT NOT NULL, verb TEXT NOT NULL,
  kind TEXT NOT NULL, body TEXT NOT NULL, hash BYTEA NOT NULL);
CREATE TABLE farline_calendar.done (
  actor TEXT NOT NULL, key TEXT NOT NULL, request BYTEA NOT NULL, status INTEGER NOT NULL,
  body TEXT NOT NULL, at BIGINT NOT NULL, PRIMARY KEY (actor, key));
CREATE TABLE farline_calendar.token (
  name TEXT PRIMARY KEY, digest TEXT NOT NULL UNIQUE, body TEXT NOT NULL);
";

/// Why something was not done at a database.
pub(super) enum Failure {
    /// By what PostgreSQL or the connection said.
    Database(tokio_postgres::Error),
    /// No reply came in time.
    Late,
    /// By what is in it.
    Other(Error),
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Failure {
        Failure::Database(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Other(error)
    }
}

impl Failure {
    /// Whether the connection goes on.
    fn leaves_connection(&self) -> bool {
        match self {
            Failure::Database(error) => error
                .as_db_error()
                .is_some_and(|said| said.parsed_severity() == Some(Severity::Error)),
            Failure::Late => false,
            Failure::Other(_) => true,
        }
    }
}

/// The way to a database, and the connection while there is one.
#[derive(Debug)]
pub(super) struct Sessions {
    url: LedgerAddress,
    config: Config,
    /// Its own, so that a ledger is the same for who has none. Absent when it is being dropped.
    runtime: Option<Runtime>,
    client: Option<Client>,
    /// Whether its connections hold the lock.
    locks: bool,
    /// Until when no connection is tried, by how long, and why.
    rest: Option<(Instant, Duration, Error)>,
}

impl Drop for Sessions {
    fn drop(&mut self) {
        // The one who drops it may be a task, which must not wait for a runtime to end.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Whether `config` leads to this host alone.
fn is_local(config: &Config) -> bool {
    let loopback = |address: &IpAddr| address.is_loopback();
    let local = |host: &Host| match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| loopback(&address))
        }
        Host::Unix(_) => true,
    };
    config.get_hostaddrs().iter().all(loopback)
        && (config.get_hosts().iter().all(local) || !config.get_hostaddrs().is_empty())
}

impl Sessions {
    /// The way to the database at `url`; nothing is connected yet.
    pub(super) fn new(url: &LedgerAddress) -> Result<Sessions, Error> {
        let wrong = |error: &dyn std::fmt::Display| {
            let message = format!("the calendar's database {url}: {error}");
            Error::new(Fault::You, ErrorCode::BadConfig, message)
        };
        let mut config: Config = url.secret().parse().map_err(|error| wrong(&error))?;
        if let Some(password) =
            std::env::var_os("PGPASSWORD").filter(|_| config.get_password().is_none())
        {
            config.password(std::os::unix::ffi::OsStrExt::as_bytes(&*password));
        }
        // Between hosts it is TLS, unless the URL says `sslmode=disable`; within one, where it says so.
        if config.get_ssl_mode() == SslMode::Prefer {
            let mode = if is_local(&config) { SslMode::Disable } else { SslMode::Require };
            config.ssl_mode(mode);
        }
        config.application_name("farline calendar").connect_timeout(PATIENCE);
        config.tcp_user_timeout(PATIENCE).keepalives_idle(PATIENCE);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| {
            Error::new(Fault::Here, ErrorCode::NoRuntime, format!("cannot start: {error}"))
        })?;
        let runtime = Some(runtime);
        Ok(Sessions { url: url.clone(), config, runtime, client: None, locks: false, rest: None })
    }

    /// The URL without what is secret.
    pub(super) fn name(&self) -> String {
        self.url.to_string()
    }

    fn wait<T>(&self, future: impl Future<Output = T>) -> Result<T, Error> {
        let gone = || Error::new(Fault::Bug, ErrorCode::CalendarStore, "the runtime has ended");
        Ok(self.runtime.as_ref().ok_or_else(gone)?.block_on(future))
    }

    /// Takes the lock, on this connection and those after it.
    pub(super) fn lock(&mut self) -> Result<(), Error> {
        self.locks = true;
        (self.client, self.rest) = (None, None);
        self.run(async |_| Ok(()))
    }

    /// Runs `work` on a connection. Where that turns out to be broken, it is run once more on a new one.
    pub(super) fn run<T>(
        &mut self,
        work: impl AsyncFn(&Client) -> Result<T, Failure>,
    ) -> Result<T, Error> {
        self.run_for(0, work)
    }

    /// The same for work on so many rows.
    pub(super) fn run_for<T>(
        &mut self,
        rows: usize,
        work: impl AsyncFn(&Client) -> Result<T, Failure>,
    ) -> Result<T, Error> {
        let patience = PATIENCE + Duration::from_millis(rows as u64);
        let had_one = self.client.is_some();
        match self.once(patience, &work) {
            Err(Failure::Database(_)) if had_one && self.client.is_none() => {
                self.once(patience, &work)
            }
            outcome => outcome,
        }
        .map_err(|failure| self.told(&failure))
    }

    fn once<T>(
        &mut self,
        patience: Duration,
        work: &impl AsyncFn(&Client) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let client = match self.client.take() {
            Some(client) => client,
            None => self.connected()?,
        };
        let timed = self.wait(async {
            let outcome = tokio::time::timeout(patience, work(&client)).await;
            let outcome = outcome.unwrap_or(Err(Failure::Late));
            match &outcome {
                Err(failure) if failure.leaves_connection() => {
                    // Whatever was begun is over; outside of a transaction this says so, and no more.
                    let over = tokio::time::timeout(PATIENCE, client.batch_execute("ROLLBACK"));
                    (over.await.is_ok_and(|over| over.is_ok()), outcome)
                }
                Err(_) => (false, outcome),
                Ok(_) => (true, outcome),
            }
        });
        let (goes_on, outcome) = timed?;
        self.client = goes_on.then_some(client);
        outcome
    }

    /// Commits what was begun.
    pub(super) fn commit(&mut self) -> Result<(), NotWritten> {
        let Some(client) = self.client.take() else {
            let message = "there is no transaction to commit";
            return Err(Error::new(Fault::Bug, ErrorCode::CalendarStore, message).into());
        };
        let timed = self
            .wait(async { tokio::time::timeout(PATIENCE, client.batch_execute("COMMIT")).await })?;
        let failure = match timed {
            Ok(Ok(())) => {
                self.client = Some(client);
                return Ok(());
            }
            Ok(Err(error)) => Failure::Database(error),
            Err(_) => Failure::Late,
        };
        // An error that leaves the connection is a refusal; anything else may have come too late.
        let in_doubt = !failure.leaves_connection();
        self.client = (!in_doubt).then_some(client);
        Err(NotWritten { error: self.told(&failure), in_doubt })
    }

    /// A new connection, unless one failed a moment ago.
    fn connected(&mut self) -> Result<Client, Failure> {
        if let Some((until, _, why)) = &self.rest
            && Instant::now() < *until
        {
            return Err(Failure::Other(why.clone()));
        }
        let connecting = self.wait(async {
            let connecting = connect(&self.config, self.locks);
            tokio::time::timeout(PATIENCE, connecting).await.unwrap_or(Err(Failure::Late))
        });
        match connecting? {
            Ok(client) => {
                self.rest = None;
                Ok(client)
            }
            Err(failure) => {
                let why = self.told(&failure);
                let rest = self.rest.take().map_or(BACK_OFF[0], |(_, rest, _)| rest * 2);
                let rest = rest.min(BACK_OFF[1]);
                self.rest = Some((Instant::now() + rest, rest, why.clone()));
                Err(Failure::Other(why))
            }
        }
    }

    /// What is said of a failure.
    fn told(&self, failure: &Failure) -> Error {
        let error = match failure {
            Failure::Other(error) => return error.clone(),
            Failure::Late => {
                let message = format!("the calendar's database {} does not reply", self.url);
                return Error::new(Fault::There, ErrorCode::CalendarStore, message);
            }
            Failure::Database(error) => error,
        };
        let said = match (error.as_db_error(), std::error::Error::source(error)) {
            (Some(said), _) => said.message().to_owned(),
            (None, Some(source)) => format!("{error}: {source}"),
            (None, None) => error.to_string(),
        };
        let message = format!("the calendar's database {}: {said}", self.url);
        let made = Error::new(Fault::There, ErrorCode::CalendarStore, message);
        match error.code() {
            Some(code) if *code == SqlState::DISK_FULL => made.hint("make room on its disk"),
            Some(code) if *code == SqlState::READ_ONLY_SQL_TRANSACTION => {
                made.hint("name the server that takes changes, not a copy of it")
            }
            Some(code) if *code == SqlState::INSUFFICIENT_PRIVILEGE => {
                made.hint("its user needs CREATE on the database, or the schema farline_calendar")
            }
            Some(code)
                if *code == SqlState::INVALID_PASSWORD
                    || *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION =>
            {
                made.hint("the password stands in the URL or in PGPASSWORD")
            }
            _ => made,
        }
    }
}

/// Connects, takes the lock where that is wanted, and makes what is not there.
async fn connect(config: &Config, locks: bool) -> Result<Client, Failure> {
    let client = if config.get_ssl_mode() == SslMode::Disable {
        let (client, connection) = config.connect(tokio_postgres::NoTls).await?;
        tokio::spawn(connection);
        client
    } else {
        let (client, connection) = config.connect(DatabaseTls::new()?).await?;
        tokio::spawn(connection);
        client
    };
    let here = |message: &str| Error::new(Fault::There, ErrorCode::CalendarStore, message);
    // A calendar that died must not hold the lock for as long as TCP would take to notice.
    let settings = format!(
        "SET search_path TO {SCHEMA}; SET lock_timeout TO '5s'; SET tcp_keepalives_idle TO 10;
         SET tcp_keepalives_interval TO 5; SET tcp_keepalives_count TO 2"
    );
    client.batch_execute(&settings).await?;
    let durable = client.query_typed_one(
        "SELECT current_setting('fsync') = 'on', current_setting('synchronous_commit')",
        &[],
    );
    let durable = durable.await?;
    if !durable.try_get::<_, bool>(0)? {
        let refused = here("its server has `fsync` off: what it says is durable is not");
        return Err(refused.hint("set fsync = on in its postgresql.conf").into());
    }
    // What is stricter stays.
    if !["on", "remote_apply"].contains(&durable.try_get::<_, &str>(1)?) {
        client.batch_execute("SET synchronous_commit TO on").await?;
    }
    let there = "SELECT to_regclass('farline_calendar.token') IS NOT NULL";
    if !client.query_typed_one(there, &[]).await?.try_get::<_, bool>(0)? {
        client.batch_execute(&format!("BEGIN; {MAKING}")).await?;
        if !client.query_typed_one(there, &[]).await?.try_get::<_, bool>(0)? {
            client.batch_execute(TABLES).await?;
        }
        client.batch_execute("COMMIT").await?;
    }
    if locks && !client.query_typed_one(LOCK, &[]).await?.try_get::<_, bool>(0)? {
        return Err(here("another calendar runs on this database").hint("end it first").into());
    }
    Ok(client)
}
