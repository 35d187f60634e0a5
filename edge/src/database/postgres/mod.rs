//! A connection to PostgreSQL: a schema of its own, written by the one who holds an advisory lock.
//!
//! A connection that breaks is made anew, later each time. Where it broke while a transaction was
//! committed, that is in doubt until the tables have been read again. The runtime is the
//! connection's own: its methods wait, and are called from threads that may.

mod connector;
mod session;
mod tls;

use super::connection::{Connection, Failure, NotCommitted};
use super::{DatabaseAddress, Row, Schema, Value};
use connector::PostgresConnector;
use farline_core::units::{Error, ErrorCode, Fault};
use session::{Session, Trouble};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// How long a connection may take, and a reply.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long none is tried after one failed: at first, and at most.
const BACK_OFF: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];
/// How long one that begins waits for one that ended to be gone.
const HANDOVER: Duration = Duration::from_secs(5);

/// The database of one subsystem at a server.
#[derive(Debug)]
pub(super) struct Postgres {
    connector: PostgresConnector,
    /// Its own, so that a database is the same for who has none. Absent when it is being dropped.
    runtime: Option<Runtime>,
    session: Option<Session>,
    /// Whether its sessions hold the lock.
    locks: bool,
    rest: Option<Rest>,
}

/// That a connection was not to be had: none is tried for a while.
#[derive(Debug)]
struct Rest {
    until: Instant,
    length: Duration,
    why: Error,
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // The one who drops it may be a task, which must not wait for a runtime to end.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Postgres {
    /// The way to the database at `url`; nothing is connected yet.
    pub(super) fn new(schema: &'static Schema, url: &DatabaseAddress) -> Result<Postgres, Error> {
        let connector = PostgresConnector::new(schema, url)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| {
            Error::new(Fault::Here, ErrorCode::NoRuntime, format!("cannot start: {error}"))
        })?;
        Ok(Postgres { connector, runtime: Some(runtime), session: None, locks: false, rest: None })
    }

    /// Waits for `future`, but no longer than `timeout`.
    fn wait<T>(
        &self,
        timeout: Duration,
        future: impl Future<Output = Result<T, Trouble>>,
    ) -> Result<T, Trouble> {
        let Some(runtime) = &self.runtime else {
            return Err(self.connector.error(Fault::Bug, "its runtime has ended").into());
        };
        // The timer is made within the runtime.
        let timed = async { tokio::time::timeout(timeout, future).await };
        runtime.block_on(timed).unwrap_or(Err(Trouble::Late))
    }

    /// Does `work` in a session, which is begun where there is none.
    fn on<T>(
        &mut self,
        timeout: Duration,
        work: impl AsyncFnOnce(&mut Session) -> Result<T, Trouble>,
    ) -> Result<T, Failure> {
        let had_one = self.session.is_some();
        let mut session = match self.session.take() {
            Some(session) => session,
            None => self.begun()?,
        };
        let outcome = self.wait(timeout, work(&mut session));
        if outcome.as_ref().map_or_else(Trouble::leaves_session, |_| true) {
            self.session = Some(session);
        }
        outcome.map_err(|trouble| {
            let broke = had_one && trouble.broke_session();
            Failure { error: self.connector.told(&trouble), broke }
        })
    }

    /// A new session, unless one failed a moment ago.
    fn begun(&mut self) -> Result<Session, Error> {
        if let Some(rest) = self.rest.as_ref().filter(|rest| Instant::now() < rest.until) {
            return Err(rest.why.clone());
        }
        match self.wait(TIMEOUT, self.connector.session(self.locks)) {
            Ok(session) => {
                self.rest = None;
                Ok(session)
            }
            Err(trouble) => {
                let why = self.connector.told(&trouble);
                let length = self.rest.take().map_or(BACK_OFF[0], |rest| rest.length * 2);
                let length = length.min(BACK_OFF[1]);
                self.rest = Some(Rest { until: Instant::now() + length, length, why: why.clone() });
                Err(why)
            }
        }
    }
}

impl Connection for Postgres {
    fn name(&self) -> String {
        self.connector.name()
    }

    fn lock(&mut self) -> Result<(), Error> {
        self.locks = true;
        let begun = Instant::now();
        // The server may not have noticed yet that the one before is gone.
        loop {
            (self.session, self.rest) = (None, None);
            match self.begun() {
                Err(_) if begun.elapsed() < HANDOVER => {
                    std::thread::sleep(Duration::from_millis(100));
                }
                outcome => {
                    self.session = Some(outcome?);
                    return Ok(());
                }
            }
        }
    }

    fn is_made(&self) -> &'static str {
        "SELECT count(*) FROM pg_class WHERE oid = to_regclass('meta')"
    }

    fn make_room(&mut self) -> Result<(), Failure> {
        let sql = self.connector.making();
        self.on(TIMEOUT, async |session| session.define(&sql).await)
    }

    fn define(&mut self, sql: &'static str) -> Result<(), Failure> {
        self.on(TIMEOUT, async |session| session.define(sql).await)
    }

    fn begin(&mut self) -> Result<(), Failure> {
        self.on(TIMEOUT, async |session| session.define("BEGIN").await)
    }

    fn commit(&mut self) -> Result<(), NotCommitted> {
        let Some(mut session) = self.session.take() else {
            return Err(self.connector.error(Fault::Bug, "there is nothing to commit").into());
        };
        match self.wait(TIMEOUT, session.define("COMMIT")) {
            Ok(()) => {
                self.session = Some(session);
                Ok(())
            }
            Err(trouble) => {
                // An error that leaves the session is a refusal; anything else may have come too
                // late.
                let in_doubt = !trouble.leaves_session();
                self.session = (!in_doubt).then_some(session);
                Err(NotCommitted { error: self.connector.told(&trouble), in_doubt })
            }
        }
    }

    fn rollback(&mut self) {
        // A session that is gone has taken back what it had begun, and so does one that ends here.
        if let Some(mut session) = self.session.take()
            && self.wait(TIMEOUT, session.define("ROLLBACK")).is_ok()
        {
            self.session = Some(session);
        }
    }

    fn query(&mut self, sql: &'static str, values: &[Value<'_>]) -> Result<Vec<Row>, Failure> {
        self.on(TIMEOUT, async |session| session.query(sql, values).await)
    }

    fn execute(&mut self, sql: &'static str, values: &[Value<'_>]) -> Result<u64, Failure> {
        self.on(TIMEOUT, async |session| session.execute(sql, values).await)
    }

    fn execute_each(&mut self, sql: &'static str, rows: &[Vec<Value<'_>>]) -> Result<(), Failure> {
        let timeout = TIMEOUT + Duration::from_millis(rows.len() as u64);
        self.on(timeout, async |session| session.execute_each(sql, rows).await)
    }
}
