//! What a calendar is told at its start: flags and a TOML file.

use crate::channels::plain;
use crate::database::DatabaseAddress;
use crate::identity::{ClientAuthorities, Identities, IdentityFile, IssuerFile};
use farline_core::calendar::{
    BookLimits, BookingPolicy, ProjectPolicy, Topology, TopologyError, TopologySpec,
};
use farline_core::units::{Bytes, Error, ErrorCode, Fault, Setting, Span};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The port that nothing else is known for.
const PORT: u16 = 2812;

/// The configuration file; every key may be absent.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct CalendarConfigFile {
    /// Where to listen.
    pub listen: Option<SocketAddr>,
    /// The folder of the database, the key and the first token.
    pub state: Option<PathBuf>,
    /// The database in PostgreSQL; SQLite in the state folder when absent.
    pub database: Option<DatabaseAddress>,
    /// The network: a built-in name, or a TOML file.
    pub network: Option<String>,
    /// Certificate chain, in PEM.
    pub tls_cert: Option<PathBuf>,
    /// Its key, in PEM.
    pub tls_key: Option<PathBuf>,
    /// See [`Identities::people`]; those without `calendar` may do nothing here.
    pub identity: Vec<IdentityFile>,
    /// See [`Identities::issuers`]; those without `calendar` count for nothing here.
    pub issuer: Vec<IssuerFile>,
    /// See [`ClientAuthorities::certificates`].
    pub client_authorities: Option<PathBuf>,
    /// See [`ClientAuthorities::revoked`].
    pub client_revoked: Option<PathBuf>,
    /// How far ahead bookings may reach, such as `9600h`.
    pub horizon: Option<String>,
    /// The longest hold, such as `15min`.
    pub longest_hold: Option<String>,
    /// Quotas and priorities by project; `*` stands for all others.
    pub project: BTreeMap<String, ProjectFile>,
}

/// Quotas and priorities of one project, as the file has them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ProjectFile {
    /// The most that its holds may carry together, such as `40TB`.
    pub held: Option<String>,
    /// The most that all its reservations may carry together.
    pub booked: Option<String>,
    /// Higher goes first.
    pub priority: u8,
    /// Whether it may take bandwidth from lower priorities.
    pub may_preempt: bool,
}

/// The configuration, checked.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CalendarConfig {
    /// Where to listen.
    pub listen: SocketAddr,
    /// The folder of the database, the key and the first token.
    pub state: PathBuf,
    /// The database in PostgreSQL; SQLite in the state folder when absent.
    pub database: Option<DatabaseAddress>,
    /// The network.
    pub topology: Arc<Topology>,
    /// Certificate chain and key; made and kept in the state folder when absent.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Who may come besides those with a token of the calendar's own.
    pub identities: Identities,
    /// Bounds of bookings.
    pub limits: BookLimits,
    /// Quotas and priorities.
    pub policy: BookingPolicy,
}

/// The network that is called `name` or stands in the file of that name.
///
/// # Errors
/// When there is none, or it makes no sense.
pub fn topology(name: &str) -> Result<Topology, Error> {
    Topology::new(&topology_spec(name)?).map_err(|error| wrong(name, error))
}

/// The same as it is written.
///
/// # Errors
/// As [`topology`].
pub fn topology_spec(name: &str) -> Result<TopologySpec, Error> {
    if let Some(spec) = TopologySpec::named(name) {
        return Ok(spec);
    }
    let text = std::fs::read_to_string(name);
    let text = text.map_err(|error| wrong(name, TopologyError(plain(&error))))?;
    TopologySpec::from_toml(&text).map_err(|error| wrong(name, error))
}

fn wrong(name: &str, error: TopologyError) -> Error {
    Error::new(Fault::You, ErrorCode::BadNetwork, format!("{name}: {error}"))
        .hint("docs/calendar.md shows a network as TOML; `usn` is built in")
}

impl CalendarConfigFile {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// When it cannot be read, or has a key that is none.
    pub fn read(path: &Path) -> Result<CalendarConfigFile, Error> {
        let wrong = |error: String| {
            Error::new(Fault::You, ErrorCode::BadConfig, format!("{}: {error}", path.display()))
        };
        let text = std::fs::read_to_string(path).map_err(|error| wrong(plain(&error)))?;
        toml::from_str(&text).map_err(|error| wrong(error.to_string().trim_end().to_owned()))
    }

    /// Checks it.
    ///
    /// # Errors
    /// A value that makes no sense, or a state folder that is not named.
    pub fn build(self) -> Result<CalendarConfig, Error> {
        let wrong = |what: String| Error::new(Fault::You, ErrorCode::BadConfig, what);
        let span = |text: &Option<String>, default: Span| match text {
            None => Ok(default),
            Some(text) => text.parse::<Span>().map_err(|error| wrong(error.to_string())),
        };
        let size = |text: &Option<String>| match text {
            None => Ok(None),
            Some(text) => text.parse::<Bytes>().map(Some).map_err(|error| wrong(error.to_string())),
        };
        let defaults = BookLimits::default();
        let limits = BookLimits {
            horizon: span(&self.horizon, defaults.horizon)?,
            longest_hold: span(&self.longest_hold, defaults.longest_hold)?,
            ..defaults
        };
        let mut policy = BookingPolicy::default();
        for (name, file) in &self.project {
            let project = ProjectPolicy {
                held: size(&file.held)?,
                booked: size(&file.booked)?,
                priority: file.priority,
                may_preempt: file.may_preempt,
            };
            match name.as_str() {
                "*" => policy.others = project,
                _ => drop(policy.projects.insert(name.clone(), project)),
            }
        }
        let certificate = match (self.tls_cert, self.tls_key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err(wrong("tls_cert and tls_key go together".to_owned())),
        };
        let authorities = ClientAuthorities {
            certificates: self.client_authorities,
            revoked: self.client_revoked,
        };
        let identities = Identities::of_file(self.identity, self.issuer, authorities, None)?;
        if let Some(message) = identities.wrong_certificates(true, false) {
            return Err(wrong(message));
        }
        let state = self.state.ok_or_else(|| {
            wrong("no state folder is named".to_owned()).hint(format!(
                "a folder for the database, the key and the first token: {} DIR",
                Setting::State
            ))
        })?;
        Ok(CalendarConfig {
            listen: self.listen.unwrap_or((IpAddr::V4(Ipv4Addr::LOCALHOST), PORT).into()),
            state,
            database: self.database,
            topology: Arc::new(topology(self.network.as_deref().unwrap_or("usn"))?),
            certificate,
            identities,
            limits,
            policy,
        })
    }
}
