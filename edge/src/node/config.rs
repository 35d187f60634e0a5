//! What a node exports, where it listens and whom it lets in: from flags, from a TOML file, flags
//! first.

use super::bounce::{Network, Targets};
use super::limits::NodeLimits;
use crate::channels::Registry;
use crate::channels::driver::{Driver, Offered, Role};
use crate::channels::one_port;
use crate::channels::trust::GridSecurity;
use crate::identity::{ClientAuthorities, Identities, IdentityFile, IdentityRights, IssuerFile};
use crate::stores::StoreRegistry;
use farline_core::units::{
    Bytes, Error, ErrorCode, Fault, ParseQuantityError, Rate, Setting, SettingName,
};
use serde::Deserialize;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// What people without an account may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Anonymous {
    /// Nothing.
    #[default]
    None,
    /// Look and retrieve.
    Read,
    /// Also store, make, rename and remove.
    Write,
}

/// What a node shows under TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TlsKey {
    /// A key made at the start, with a certificate that it signed itself.
    Fresh,
    /// PEM files.
    Files {
        /// The certificate, and those between it and its authority.
        certificate: PathBuf,
        /// The private key.
        key: PathBuf,
    },
}

/// A node's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Where the control channel listens.
    pub listen: SocketAddr,
    /// The UDP port for control and data, `farlineq://`; none when absent. Needs a key for
    /// TLS.
    pub listen_udp: Option<SocketAddr>,
    /// The exported directory.
    pub root: PathBuf,
    /// What anonymous users may do.
    pub anonymous: Anonymous,
    /// Who else may come in, over TLS.
    pub identities: Identities,
    /// Data ports, both ends included; any free port when absent.
    pub data_ports: Option<(u16, u16)>,
    /// Which drivers a client may choose for its data, of those that this host can use; all when
    /// empty. The usual one is always there.
    pub channel: Vec<String>,
    /// The address that passive replies name; the one the client reached us at when absent.
    pub data_address: Option<IpAddr>,
    /// Whether data may go to and come from hosts other than the client: third-party transfers.
    pub third_party: bool,
    /// Networks that third-party transfers may lead to although they are not public.
    pub third_party_networks: Vec<Network>,
    /// The key for `AUTH TLS`, which is not offered without.
    pub tls: Option<TlsKey>,
    /// Whether data connections under TLS of who has no name and no key have to resume the control
    /// connection's TLS, as others' have (P-5). Without, whoever connects first has the data.
    pub tls_resumption: bool,
    /// What accepts who comes with a proxy of a grid (`gsiftp://`); nobody does when absent.
    pub gsi: Option<GridSecurity>,
    /// Whether clients may give files to other users, as far as this process may, and have them run
    /// as their owner. Over ssh they always may: they are who this process is.
    pub allow_owner: bool,
    /// Whether clients may send to `?null`, which drops what comes.
    pub allow_null: bool,
    /// How much memory all `?memory=SIZE` stores may take together; none when absent.
    pub allow_memory: Option<Bytes>,
    /// The stores that there are: Farline's, and those that the program brought, which clients may
    /// use instead of the files.
    pub stores: StoreRegistry,
    /// How fast clients may test the line to here, all together; not at all when absent.
    pub allow_line: Option<Rate>,
    /// How fast clients may measure the path to here; not at all when absent.
    pub allow_profile: Option<Rate>,
    /// Staging pool of each session that moves data; when absent it begins with 64 MiB and grows
    /// where that helps.
    pub staging: Option<Bytes>,
    /// What sessions may hold of booked rates together (O-8); none when absent.
    pub allow_held: Option<Rate>,
    /// Whether clients may have this host load Farline's congestion controls into its kernel. Those
    /// who come over ssh may, as far as their own rights go.
    pub allow_congestion: bool,
    /// Whether what is sent begins as over any path, whatever earlier transfers to the same address
    /// saw of it.
    pub fresh_start: bool,
    /// The user of this host that the program becomes before it serves, by [`super::become_user`].
    pub user: Option<String>,
    /// Whether the program confines itself to what is exported and needed, by [`super::confine`].
    pub sandbox: bool,
    /// What one client, one address and all together may take.
    pub limits: NodeLimits,
    /// How long nothing may move in a transfer before it is ended; for ever when absent.
    pub idle_timeout: Option<Duration>,
    /// How replies name settings.
    pub setting_name: SettingName,
    /// For measuring: files are read, and written, no faster than this.
    pub trial_read: Option<Rate>,
    /// See [`Self::trial_read`].
    pub trial_write: Option<Rate>,
}

impl Config {
    /// Where data of the session of `client`, which may what `rights` say, may go to, and come
    /// from.
    pub(super) fn targets(&self, client: IpAddr, rights: &IdentityRights) -> Targets<'_> {
        let third_party = rights.third_party.unwrap_or(self.third_party);
        Targets { client, third_party, networks: &self.third_party_networks }
    }

    /// Whether somebody may have data go to and come from other hosts.
    pub(super) fn has_third_party(&self) -> bool {
        self.third_party || self.identities.any_may(|rights| rights.third_party)
    }

    /// Whether somebody may have this host load congestion controls.
    pub(super) fn loads_congestion(&self) -> bool {
        self.allow_congestion || self.identities.any_may(|rights| rights.allow_congestion)
    }

    /// Refuses values that make no sense.
    pub(super) fn checked(self) -> Result<Config, Error> {
        let wrong = |message: String| Err(Error::new(Fault::You, ErrorCode::BadConfig, message));
        let limits = &self.limits;
        if limits.sessions.min(limits.sessions_per_address) == 0 {
            return wrong("a node with no sessions serves nobody".to_owned());
        }
        if limits.logins.min(limits.logins_per_address) == 0 || limits.login_timeout.is_zero() {
            return wrong("a node in which nobody may log in serves nobody".to_owned());
        }
        if let Some(few @ ..LEAST_DESCRIPTORS) = limits.descriptors {
            let least = format!("a node has {LEAST_DESCRIPTORS} at least");
            return wrong(format!("descriptors = {few} are too few to serve anybody: {least}"));
        }
        if !self.identities.is_empty() && self.tls.is_none() && self.gsi.is_none() {
            return Err(Error::new(
                Fault::You,
                ErrorCode::BadConfig,
                "identities log in over TLS alone, which this node does not offer",
            )
            .hint("say tls = true, or name tls_cert and tls_key"));
        }
        if self.gsi.is_none() && self.identities.people.iter().any(|person| !person.voms.is_empty())
        {
            return wrong("voms says nothing without gsi".to_owned());
        }
        if !self.has_third_party() && !self.third_party_networks.is_empty() {
            return wrong(
                "third_party_networks says nothing without third_party = true".to_owned(),
            );
        }
        if self.allow_line.is_none() && self.identities.any_may(|rights| rights.allow_line) {
            return wrong(
                "allow_line of an identity says nothing without a rate: the node's allow_line"
                    .to_owned(),
            );
        }
        // Of a program too, which reads no file.
        if let Some(message) = self.identities.same_names() {
            return wrong(message);
        }
        let (has_tls, has_gsi) = (self.tls.is_some(), self.gsi.is_some());
        if let Some(message) = self.identities.wrong_certificates(has_tls, has_gsi) {
            return wrong(message);
        }
        if self.listen_udp.is_some() {
            if !one_port::IS_BUILT {
                return Err(Error::not_built("farlineq://", one_port::DRIVER));
            }
            if self.tls.is_none() {
                let message = "farlineq:// is encrypted, and this node has no key for TLS";
                return Err(Error::new(Fault::You, ErrorCode::BadConfig, message)
                    .hint("say tls = true, or name tls_cert and tls_key"));
            }
            if self.drivers().find(one_port::DRIVER).is_none() {
                return wrong(format!(
                    "farlineq:// needs the channel {}, which is not named",
                    one_port::DRIVER
                ));
            }
        }
        if self.allow_line.is_some() && !cfg!(feature = "line") {
            return Err(Error::not_built("line tests", "line"));
        }
        if self.allow_profile.is_some() && !cfg!(feature = "profile") {
            return Err(Error::not_built("measurements of paths", "profile"));
        }
        match self.data_ports {
            Some((low, high)) if low == 0 || low > high => {
                wrong(no_range(&format!("{low}-{high}")))
            }
            _ => Ok(self),
        }
    }

    /// The stores that a client may use instead of the files.
    pub(super) fn offered(&self) -> StoreRegistry {
        self.stores.offered(self.allow_null, self.allow_memory)
    }

    /// The drivers that a client may choose, with the layers over them.
    pub(super) fn drivers(&self) -> Registry {
        let named = |driver: &Driver| self.channel.iter().any(|name| name == driver.name);
        Registry::builtin().only(|driver| {
            self.channel.is_empty()
                || named(driver)
                || driver.capabilities.offered != Offered::WhenAsked
                || matches!(driver.role, Role::Layer(_))
        })
    }
}

/// The file's shape: every key may be left out.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ConfigFile {
    /// See [`Config::listen`].
    pub listen: Option<SocketAddr>,
    /// See [`Config::listen_udp`].
    pub listen_udp: Option<SocketAddr>,
    /// See [`Config::root`].
    pub root: Option<PathBuf>,
    /// See [`Config::anonymous`].
    pub anonymous: Option<Anonymous>,
    /// See [`Identities::people`].
    #[serde(default)]
    pub identity: Vec<IdentityFile>,
    /// See [`Identities::issuers`].
    #[serde(default)]
    pub issuer: Vec<IssuerFile>,
    /// See [`ClientAuthorities::certificates`].
    pub client_authorities: Option<PathBuf>,
    /// See [`ClientAuthorities::revoked`].
    pub client_revoked: Option<PathBuf>,
    /// `LO-HI`, see [`Config::data_ports`].
    pub data_ports: Option<String>,
    /// See [`Config::channel`].
    pub channel: Option<Vec<String>>,
    /// See [`Config::data_address`].
    pub data_address: Option<IpAddr>,
    /// See [`Config::third_party`].
    pub third_party: Option<bool>,
    /// Such as `10.0.0.0/8`, see [`Config::third_party_networks`].
    pub third_party_networks: Option<Vec<String>>,
    /// Whether to offer TLS, with a key made at the start unless `tls_cert` and `tls_key` are
    /// given.
    pub tls: Option<bool>,
    /// See [`TlsKey::Files`].
    pub tls_cert: Option<PathBuf>,
    /// See [`TlsKey::Files`].
    pub tls_key: Option<PathBuf>,
    /// See [`GridSecurity::folder`].
    pub gsi: Option<PathBuf>,
    /// See [`GridSecurity::limited_proxies`]; yes when absent.
    pub gsi_limited_proxies: Option<bool>,
    /// See [`Config::allow_owner`].
    pub allow_owner: Option<bool>,
    /// See [`Config::allow_null`].
    pub allow_null: Option<bool>,
    /// A size such as `16GiB`, see [`Config::allow_memory`].
    pub allow_memory: Option<String>,
    /// A rate such as `2Gbit/s`, see [`Config::allow_line`].
    pub allow_line: Option<String>,
    /// A rate such as `2Gbit/s`, see [`Config::allow_profile`].
    pub allow_profile: Option<String>,
    /// A rate such as `4Gbit/s`, see [`Config::allow_held`].
    pub allow_held: Option<String>,
    /// A size such as `64MiB`, see [`Config::staging`].
    pub staging: Option<String>,
    /// See [`Config::allow_congestion`].
    pub allow_congestion: Option<bool>,
    /// See [`Config::fresh_start`].
    pub fresh_start: Option<bool>,
    /// See [`Config::tls_resumption`]; yes when absent.
    pub tls_resumption: Option<bool>,
    /// See [`Config::user`]; who starts it when absent.
    pub user: Option<String>,
    /// See [`Config::sandbox`]; yes when absent.
    pub sandbox: Option<bool>,
    /// See [`NodeLimits::sessions`].
    pub sessions: Option<usize>,
    /// See [`NodeLimits::sessions_per_address`].
    pub sessions_per_address: Option<usize>,
    /// See [`NodeLimits::logins`].
    pub logins: Option<usize>,
    /// See [`NodeLimits::logins_per_address`].
    pub logins_per_address: Option<usize>,
    /// Seconds, see [`NodeLimits::login_timeout`].
    pub login_timeout: Option<u64>,
    /// A size such as `2GiB`, see [`NodeLimits::list_memory`].
    pub list_memory: Option<String>,
    /// See [`NodeLimits::descriptors`].
    pub descriptors: Option<usize>,
    /// Seconds, see [`NodeLimits::drain`].
    pub drain: Option<u64>,
    /// Seconds, 0 for ever, see [`Config::idle_timeout`].
    pub timeout: Option<u64>,
}

/// Where a node listens when nothing is said: this host alone, GridFTP's port.
pub const DEFAULT_LISTEN: &str = "127.0.0.1:2811";

/// File descriptors without which a node moves nothing: its own, and those of a transfer.
const LEAST_DESCRIPTORS: usize = 48;

/// Seconds in which nothing moves before a transfer is ended when nothing is said: longer than a
/// disk stalls.
const DEFAULT_TIMEOUT: u64 = 300;

impl ConfigFile {
    /// Reads `path`.
    ///
    /// # Errors
    /// When it cannot be read, is not TOML, or has a key that no node knows.
    pub fn read(path: &Path) -> Result<ConfigFile, Error> {
        let wrong = |what: String| {
            Error::new(Fault::You, ErrorCode::BadConfig, format!("{}: {what}", path.display()))
        };
        let text = std::fs::read_to_string(path).map_err(|error| match error.kind() {
            io::ErrorKind::IsADirectory => wrong("a folder, and no configuration file".to_owned())
                .hint(format!(
                    "to serve what is in it: farline serve {} {}",
                    Setting::Root,
                    path.display()
                )),
            _ => wrong(error.to_string()),
        })?;
        toml::from_str(&text).map_err(|error| wrong(error.to_string().trim_end().to_owned()))
    }

    /// Checks everything and fills in the defaults.
    ///
    /// # Errors
    /// When the root is missing or a value makes no sense.
    pub fn build(self) -> Result<Config, Error> {
        let wrong = |message: String| Error::new(Fault::You, ErrorCode::BadConfig, message);
        let root = self.root.ok_or_else(|| {
            wrong("no directory to serve".to_owned())
                .hint(format!("say which with {} DIR", Setting::Root))
        })?;
        let listen = match self.listen {
            Some(listen) => listen,
            None => DEFAULT_LISTEN.parse().map_err(|_| {
                Error::new(Fault::Bug, ErrorCode::BadDefault, "the default address is none")
            })?,
        };
        let list_memory = quantity("list_memory", self.list_memory)?;
        let staging = quantity("staging", self.staging)?;
        let allow_memory = quantity("allow_memory", self.allow_memory)?;
        let allow_line = quantity("allow_line", self.allow_line)?;
        let allow_profile = quantity("allow_profile", self.allow_profile)?;
        let allow_held = quantity("allow_held", self.allow_held)?;
        let tls = match (self.tls_cert, self.tls_key, self.tls) {
            (Some(_), _, Some(false)) | (_, Some(_), Some(false)) => {
                return Err(wrong(
                    "tls = false says nothing next to a certificate for it".to_owned(),
                ));
            }
            (Some(certificate), Some(key), _) => Some(TlsKey::Files { certificate, key }),
            (None, None, Some(true)) => Some(TlsKey::Fresh),
            (None, None, _) => None,
            _ => {
                return Err(wrong("a TLS certificate and its key go together".to_owned())
                    .hint(format!("give both {} and {}", Setting::TlsCert, Setting::TlsKey)));
            }
        };
        let data_ports = self.data_ports.as_deref().map(parse_ports).transpose().map_err(wrong)?;
        let networks = self.third_party_networks.unwrap_or_default();
        let networks: Result<_, String> = networks.iter().map(|text| text.parse()).collect();
        let third_party_networks: Vec<Network> = networks.map_err(wrong)?;
        let gsi = match (self.gsi, self.gsi_limited_proxies) {
            (Some(_), _) if !cfg!(feature = "gsi") => {
                return Err(Error::not_built("gsiftp://", "gsi"));
            }
            (Some(folder), limited) => {
                Some(GridSecurity { folder, limited_proxies: limited.unwrap_or(true) })
            }
            (None, Some(_)) => {
                return Err(wrong("gsi_limited_proxies says nothing without gsi".to_owned()));
            }
            (None, None) => None,
        };
        let grid_mapfile = gsi.as_ref().map(|gsi| gsi.folder.join("grid-mapfile"));
        let authorities = ClientAuthorities {
            certificates: self.client_authorities,
            revoked: self.client_revoked,
        };
        let identities =
            Identities::of_file(self.identity, self.issuer, authorities, grid_mapfile)?;
        let usual = NodeLimits::default();
        let drivers = Registry::builtin();
        let mut channel = Vec::new();
        for text in self.channel.unwrap_or_default() {
            let stack = drivers.stack(&text)?;
            let own = stack.channel();
            let needs_key = stack.is_encrypted() && !own.capabilities.encrypted;
            if needs_key && tls.is_none() && gsi.is_none() {
                let message = format!("the channel {text} needs a key for TLS, which is not there");
                return Err(wrong(message).hint("say tls = true, or name tls_cert and tls_key"));
            }
            channel.push(own.name.to_owned());
        }
        Config {
            listen,
            listen_udp: self.listen_udp,
            root,
            anonymous: self.anonymous.unwrap_or_default(),
            identities,
            data_ports,
            channel,
            data_address: self.data_address,
            third_party: self.third_party.unwrap_or(false),
            third_party_networks,
            tls,
            gsi,
            allow_owner: self.allow_owner.unwrap_or(false),
            allow_null: self.allow_null.unwrap_or(false),
            allow_memory,
            stores: StoreRegistry::builtin(),
            allow_line,
            allow_profile,
            allow_held,
            staging,
            allow_congestion: self.allow_congestion.unwrap_or(false),
            fresh_start: self.fresh_start.unwrap_or(false),
            tls_resumption: self.tls_resumption.unwrap_or(true),
            user: self.user,
            sandbox: self.sandbox.unwrap_or(true),
            limits: NodeLimits {
                sessions: self.sessions.unwrap_or(usual.sessions),
                sessions_per_address: self
                    .sessions_per_address
                    .unwrap_or(usual.sessions_per_address),
                logins: self.logins.unwrap_or(usual.logins),
                logins_per_address: self.logins_per_address.unwrap_or(usual.logins_per_address),
                login_timeout: self.login_timeout.map_or(usual.login_timeout, Duration::from_secs),
                list_memory: list_memory.unwrap_or(usual.list_memory),
                descriptors: self.descriptors.or(usual.descriptors),
                drain: self.drain.map_or(usual.drain, Duration::from_secs),
            },
            idle_timeout: Some(Duration::from_secs(self.timeout.unwrap_or(DEFAULT_TIMEOUT)))
                .filter(|idle_timeout| !idle_timeout.is_zero()),
            setting_name: SettingName::default(),
            trial_read: None,
            trial_write: None,
        }
        .checked()
    }
}

/// Reads the size or the rate that the setting `key` has, where it has one.
fn quantity<T: FromStr<Err = ParseQuantityError>>(
    key: &str,
    text: Option<String>,
) -> Result<Option<T>, Error> {
    let wrong = |error: ParseQuantityError| {
        Error::new(Fault::You, ErrorCode::BadConfig, format!("{key}: {error}"))
    };
    text.map(|text| text.parse().map_err(wrong)).transpose()
}

/// Reads `LO-HI`.
///
/// # Errors
/// In words, when it is no range of ports.
pub fn parse_ports(text: &str) -> Result<(u16, u16), String> {
    let range = text
        .split_once('-')
        .and_then(|(low, high)| Some((low.trim().parse().ok()?, high.trim().parse().ok()?)));
    range.filter(|&(low, high)| low > 0 && low <= high).ok_or_else(|| no_range(text))
}

fn no_range(text: &str) -> String {
    format!("`{text}` is not a range of ports such as 50000-50100")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_may_use_services_that_the_node_lets_not_all() {
        let read = |rights: &str, node: &str| {
            let text = format!(
                "root = '/data'\ntls = true\n{node}\n[[identity]]\nname = 'alice'\n\
                 certificates = ['sha256={}']\npaths = {{ '/' = 'write' }}\n{rights}\n",
                "ab".repeat(32)
            );
            let file = toml::from_str::<ConfigFile>(&text).expect("TOML");
            file.build().and_then(Config::checked)
        };
        let (client, elsewhere) = ([10, 0, 0, 1].into(), [8, 8, 8, 8].into());
        for (rights, node, may) in [
            ("", "", [false, false]),
            ("third_party = true\nallow_congestion = true", "", [true, true]),
            ("third_party = true", "third_party_networks = ['10.0.0.0/8']", [true, false]),
            ("", "third_party = true\nallow_congestion = true", [true, true]),
            (
                "third_party = false\nallow_congestion = false",
                "third_party = true\nallow_congestion = true",
                [false, true],
            ),
        ] {
            let config = read(rights, node).expect("valid");
            let own = config.identities.people[0].rights;
            let goes = config.targets(client, &own).allows(elsewhere).is_ok();
            assert_eq!([goes, config.loads_congestion()], may, "{rights} of {node}");
            let all = config.targets(client, &IdentityRights::default()).allows(elsewhere);
            assert_eq!(all.is_ok(), node.contains("third_party = true"), "{rights} of {node}");
        }
        let error = read("allow_line = true", "").expect_err("at what rate?");
        assert!(error.message.contains("allow_line"), "{error}");
        assert!(read("allow_line = false", "allow_line = '1G'").is_ok());
    }

    #[test]
    fn a_file_may_say_little_but_not_nonsense() {
        let read = |text: &str| {
            toml::from_str::<ConfigFile>(text)
                .map_err(|error| error.to_string())
                .map(ConfigFile::build)
        };
        let config = read("root = '/data'\nanonymous = 'read'\ndata_ports = '50000-50100'")
            .expect("TOML")
            .expect("valid");
        assert_eq!(
            (config.anonymous, config.data_ports, config.limits.clone()),
            (Anonymous::Read, Some((50000, 50100)), NodeLimits::default())
        );
        assert!(config.listen.ip().is_loopback(), "the default reaches nobody by accident");
        assert!(read("").expect("TOML").is_err(), "a root is needed");
        let few = read("root = '/data'\nsessions = 2\nlogin_timeout = 3\ndrain = 0");
        let limits = few.expect("TOML").expect("valid").limits;
        assert_eq!(
            (limits.sessions, limits.login_timeout.as_secs(), limits.drain.as_secs()),
            (2, 3, 0)
        );
        for nothing in
            ["sessions = 0", "logins_per_address = 0", "login_timeout = 0", "descriptors = 47"]
        {
            let text = format!("root = '/data'\n{nothing}");
            assert!(read(&text).expect("TOML").is_err(), "{nothing}");
        }
        let enough = read("root = '/data'\ndescriptors = 48").expect("TOML").expect("valid");
        assert_eq!(enough.limits.descriptors, Some(48));
        let networks = read("root = '/data'\nthird_party_networks = ['10.0.0.0/40']");
        assert!(networks.expect("TOML").is_err(), "no network");
        let idle = read("root = '/data'\nthird_party_networks = ['10.0.0.0/8']");
        assert!(idle.expect("TOML").is_err(), "it allows nothing");
        let twice =
            "[[identity]]\nname = 'a'\ncertificates = ['/CN=a']\npaths = { '/' = 'read' }\n";
        for (identities, names) in [(twice.to_owned(), 0), (twice.repeat(2), 1)] {
            let said = read(&format!("root = '/data'\ntls = true\n{identities}")).expect("TOML");
            let error = said.err().map(|error| error.message).unwrap_or_default();
            assert_eq!(error.matches("two identities are called a").count(), names, "{error}");
        }
        assert!(read("root = '/data'\ndata_ports = '9-1'").expect("TOML").is_err());
        assert!(read("rot = '/data'").is_err(), "a misspelt key is named, not ignored");
        let of = |text: &str| read(&format!("root = '/data'\nchannel = {text}")).expect("TOML");
        assert_eq!(of("['pigeon']").expect_err("no such driver").code, ErrorCode::BadChannel);
        let names = |config: Config| {
            config.drivers().drivers().map(|driver| driver.name).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(of("['tcp']").expect("valid")), "tcp tls ssh", "the usual ones stay");
        assert_eq!(names(of("['tls']\ntls = true").expect("valid")), "tcp tls ssh");
        assert_eq!(of("['tls']").expect_err("no key").code, ErrorCode::BadConfig);
        let all = names(config);
        assert!(all.len() > "tcp tls ssh".len(), "all that there are, when none is named");
        // A driver with an option is that driver.
        let optional = all.split(' ').find_map(|name| of(&format!("['{name}:bbr']")).ok());
        assert_eq!(names(optional.expect("one takes a control")).split(' ').count(), 4);
    }
}
