//! The way to a server: how a session is begun, what is asked of the server first, and what its
//! errors say.

use super::super::{DatabaseAddress, Schema};
use super::TIMEOUT;
use super::session::{Session, Trouble};
use super::tls::DatabaseTls;
use farline_core::units::{Error, ErrorCode, Fault};
use std::net::IpAddr;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::error::SqlState;

/// The first number of all of Farline's advisory locks.
const LOCKS: i32 = 0x4641_524c;

/// The way to a database.
#[derive(Debug)]
pub(super) struct PostgresConnector {
    schema: &'static Schema,
    url: DatabaseAddress,
    config: Config,
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

impl PostgresConnector {
    /// The way to the database at `url`.
    pub(super) fn new(
        schema: &'static Schema,
        url: &DatabaseAddress,
    ) -> Result<PostgresConnector, Error> {
        let wrong = |error: &dyn std::fmt::Display| {
            let message = format!("the {}'s database {url}: {error}", schema.owner);
            Error::new(Fault::You, ErrorCode::BadConfig, message)
        };
        let mut config: Config = url.secret().parse().map_err(|error| wrong(&error))?;
        if let Some(password) =
            std::env::var_os("PGPASSWORD").filter(|_| config.get_password().is_none())
        {
            config.password(std::os::unix::ffi::OsStrExt::as_bytes(&*password));
        }
        // Between hosts it is TLS, unless the URL says `sslmode=disable`; within one, where it says
        // so.
        if config.get_ssl_mode() == SslMode::Prefer {
            let mode = if is_local(&config) { SslMode::Disable } else { SslMode::Require };
            config.ssl_mode(mode);
        }
        config.application_name(format!("farline {}", schema.owner)).connect_timeout(TIMEOUT);
        config.tcp_user_timeout(TIMEOUT).keepalives_idle(TIMEOUT);
        Ok(PostgresConnector { schema, url: url.clone(), config })
    }

    /// The URL without what is secret.
    pub(super) fn name(&self) -> String {
        self.url.to_string()
    }

    /// An error of this database's.
    pub(super) fn error(&self, fault: Fault, what: &str) -> Error {
        let message = format!("the {}'s database {}: {what}", self.schema.owner, self.url);
        Error::new(fault, self.schema.code, message)
    }

    /// The name of the schema.
    fn schema(&self) -> String {
        format!("farline_{}", self.schema.owner)
    }

    /// Waits for whoever makes tables, and makes the schema where there is none: who may make none
    /// can have one made for him.
    pub(super) fn making(&self) -> String {
        let (schema, lock) = (self.schema(), self.schema.locks[1]);
        format!(
            "SELECT pg_advisory_xact_lock({LOCKS}, {lock});
             DO $$ BEGIN IF to_regnamespace('{schema}') IS NULL THEN CREATE SCHEMA {schema}; END IF; END $$"
        )
    }

    /// Begins a session, and takes the lock where that is wanted.
    pub(super) async fn session(&self, locks: bool) -> Result<Session, Trouble> {
        let client = if self.config.get_ssl_mode() == SslMode::Disable {
            let (client, connection) = self.config.connect(tokio_postgres::NoTls).await?;
            tokio::spawn(connection);
            client
        } else {
            let (client, connection) = self.config.connect(DatabaseTls::new()?).await?;
            tokio::spawn(connection);
            client
        };
        // One that died must not hold the lock for as long as TCP would take to notice.
        let settings = format!(
            "SET search_path TO {}; SET lock_timeout TO '5s'; SET tcp_keepalives_idle TO 10;
             SET tcp_keepalives_interval TO 5; SET tcp_keepalives_count TO 2",
            self.schema()
        );
        client.batch_execute(&settings).await?;
        let durable =
            "SELECT current_setting('fsync') = 'on', current_setting('synchronous_commit')";
        let durable = client.query_typed_one(durable, &[]).await?;
        if !durable.try_get::<_, bool>(0)? {
            let refused = "its server has `fsync` off: what it says is durable is not";
            let refused = self.error(Fault::There, refused);
            return Err(refused.hint("set fsync = on in its postgresql.conf").into());
        }
        // What is stricter stays.
        if !["on", "remote_apply"].contains(&durable.try_get::<_, &str>(1)?) {
            client.batch_execute("SET synchronous_commit TO on").await?;
        }
        if locks {
            let lock = format!("SELECT pg_try_advisory_lock({LOCKS}, {})", self.schema.locks[0]);
            if !client.query_typed_one(&lock, &[]).await?.try_get::<_, bool>(0)? {
                let taken = format!("another {} runs on this database", self.schema.owner);
                return Err(self.error(Fault::There, &taken).hint("end it first").into());
            }
        }
        Ok(Session::new(client))
    }

    /// What is said of a trouble.
    pub(super) fn told(&self, trouble: &Trouble) -> Error {
        let error = match trouble {
            Trouble::Other(error) => return error.clone(),
            Trouble::Late => return self.error(Fault::There, "it does not reply"),
            Trouble::Said(error) => error,
        };
        let said = match (error.as_db_error(), std::error::Error::source(error)) {
            (Some(said), _) => said.message().to_owned(),
            (None, Some(source)) => format!("{error}: {source}"),
            (None, None) => error.to_string(),
        };
        let made = self.error(Fault::There, &said);
        let Some(code) = error.code() else { return made };
        match *code {
            SqlState::DISK_FULL => made.hint("make room on its disk"),
            SqlState::READ_ONLY_SQL_TRANSACTION => {
                made.hint("name the server that takes changes, not a copy of it")
            }
            SqlState::INSUFFICIENT_PRIVILEGE => {
                let schema = self.schema();
                made.hint(format!(
                    "its user needs CREATE on the database, or on the schema {schema}"
                ))
            }
            SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
                made.hint("the password stands in the URL or in PGPASSWORD")
            }
            _ => made,
        }
    }
}
