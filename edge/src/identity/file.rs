//! Identities in a node's configuration file.

use super::{
    BEARER, CalendarRightsFile, CertificateName, ClientAuthorities, FileOwner, Grant, Identities,
    IdentityLimits, IdentityRights, Issuer, KeySource, Permissions, Person, StoredPassword,
    TokenIssuer,
};
use farline_core::gridftp::Pathname;
use farline_core::gridftp::server::is_anonymous;
use farline_core::units::{Error, ErrorCode, Fault, ParseQuantityError};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

/// One `[[identity]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct IdentityFile {
    /// See [`Person::name`].
    pub name: String,
    /// An argon2id hash, see [`StoredPassword`].
    pub password: Option<String>,
    /// See [`CertificateName`].
    #[serde(default)]
    pub certificates: Vec<String>,
    /// See [`Person::voms`].
    #[serde(default)]
    pub voms: Vec<String>,
    /// A right for each path: `{ "/raw" = "read", "/home/alice" = "write" }`.
    #[serde(default)]
    pub paths: BTreeMap<String, String>,
    /// See [`IdentityLimits::sessions`].
    pub sessions: Option<usize>,
    /// A rate such as `2Gbit/s`, see [`IdentityLimits::rate`].
    pub rate: Option<String>,
    /// A size such as `2TiB`, see [`IdentityLimits::bytes_per_day`].
    pub bytes_per_day: Option<String>,
    /// See [`IdentityLimits::files_per_day`].
    pub files_per_day: Option<u64>,
    /// See [`IdentityRights::third_party`].
    pub third_party: Option<bool>,
    /// See [`IdentityRights::allow_congestion`].
    pub allow_congestion: Option<bool>,
    /// See [`IdentityRights::allow_line`].
    pub allow_line: Option<bool>,
    /// See [`Person::clear_data`].
    #[serde(default)]
    pub clear_data: bool,
    /// A user of this host, see [`Person::owner`].
    pub owner: Option<String>,
    /// See [`Person::calendar`].
    pub calendar: Option<CalendarRightsFile>,
}

/// One `[[issuer]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct IssuerFile {
    /// See [`Issuer::url`].
    pub url: String,
    /// See [`KeySource::File`]; when absent the issuer is asked, see [`KeySource::Discovered`].
    pub keys: Option<PathBuf>,
    /// See [`KeySource::Discovered`].
    pub authorities: Option<PathBuf>,
    /// See [`Issuer::audiences`].
    pub audiences: Vec<String>,
    /// See [`Issuer::path`]; the exported root when absent.
    pub path: Option<String>,
    /// See [`IdentityLimits::sessions`].
    pub sessions: Option<usize>,
    /// A rate such as `2Gbit/s`, see [`IdentityLimits::rate`].
    pub rate: Option<String>,
    /// A size such as `2TiB`, see [`IdentityLimits::bytes_per_day`].
    pub bytes_per_day: Option<String>,
    /// See [`IdentityLimits::files_per_day`].
    pub files_per_day: Option<u64>,
    /// A user of this host, see [`Person::owner`].
    pub owner: Option<String>,
    /// See [`TokenIssuer::calendar`].
    pub calendar: Option<CalendarRightsFile>,
}

impl IdentityFile {
    /// With `is_mapped` a grid-mapfile may say by which certificates it logs in.
    ///
    /// # Errors
    /// When a value makes no sense; it says of whom.
    pub fn build(self, is_mapped: bool) -> Result<Person, Error> {
        let name = self.name;
        let wrong = |what: String| wrong(format!("identity {name}: {what}"));
        if name.is_empty() || name == BEARER || is_anonymous(name.as_bytes()) {
            return Err(wrong("this name is taken or empty".to_owned()));
        }
        let has_none = self.certificates.is_empty() && self.voms.is_empty();
        if self.password.is_none() && has_none && !is_mapped {
            return Err(wrong("it has neither password nor certificates".to_owned()));
        }
        if let Some(odd) = self.voms.iter().find(|name| !is_attribute(name)) {
            return Err(wrong(format!(
                "`{odd}` is no VOMS attribute, such as /vo/group/Role=writer"
            )));
        }
        if self.paths.is_empty() && self.calendar.is_none() {
            return Err(wrong("it has no paths, and could do nothing".to_owned()));
        }
        let limits = limits(self.sessions, self.rate, self.bytes_per_day, self.files_per_day)
            .map_err(wrong)?;
        let certificates = self.certificates.iter().map(|text| text.parse::<CertificateName>());
        let grants = self.paths.into_iter().map(|(path, right)| {
            let permissions: Permissions = right.parse()?;
            Ok(Grant::new(path, permissions))
        });
        Ok(Person {
            password: self
                .password
                .map(|text| StoredPassword::new(&text))
                .transpose()
                .map_err(wrong)?,
            certificates: certificates.collect::<Result<_, _>>().map_err(wrong)?,
            grants: grants.collect::<Result<_, String>>().map_err(wrong)?,
            limits,
            rights: IdentityRights {
                third_party: self.third_party,
                allow_congestion: self.allow_congestion,
                allow_line: self.allow_line,
            },
            clear_data: self.clear_data,
            voms: self.voms,
            calendar: self.calendar.map(CalendarRightsFile::build).transpose().map_err(wrong)?,
            owner: self.owner.map(|owner| FileOwner::named(&owner)).transpose().map_err(wrong)?,
            name,
        })
    }
}

/// Whether a file holds keys of an issuer.
#[cfg(feature = "tls")]
fn check_keys(text: &[u8]) -> Result<(), String> {
    super::issuer_keys::IssuerKeys::read(text).map(drop)
}

/// Nobody takes tokens.
#[cfg(not(feature = "tls"))]
fn check_keys(_text: &[u8]) -> Result<(), String> {
    Ok(())
}

impl IssuerFile {
    /// # Errors
    /// When a value makes no sense; it says of which.
    pub fn build(self) -> Result<TokenIssuer, Error> {
        let url = self.url;
        let wrong = |what: String| wrong(format!("issuer {url}: {what}"));
        if self.audiences.is_empty() {
            return Err(wrong("it has no audiences: what this node is called".to_owned()));
        }
        let keys = match (self.keys, self.authorities) {
            (Some(_), Some(_)) => {
                let message = "authorities are of issuers that are asked for their keys".to_owned();
                return Err(wrong(message));
            }
            (Some(file), None) => {
                let keys = std::fs::read(&file).map_err(|error| error.to_string());
                keys.and_then(|keys| check_keys(&keys))
                    .map_err(|why| wrong(format!("{}: {why}", file.display())))?;
                KeySource::File(file)
            }
            (None, _) if !url.starts_with("https://") => {
                let message = "without `keys` it is asked for them, by https:// alone".to_owned();
                return Err(wrong(message));
            }
            (None, authorities) => KeySource::Discovered { authorities },
        };
        let path = Pathname::new(self.path.unwrap_or_default());
        let limits = limits(self.sessions, self.rate, self.bytes_per_day, self.files_per_day)
            .map_err(wrong)?;
        let owner = self.owner.map(|owner| FileOwner::named(&owner)).transpose().map_err(wrong)?;
        let calendar = self.calendar.map(CalendarRightsFile::build).transpose().map_err(wrong)?;
        let audiences = self.audiences;
        let path = Pathname::root().resolve(&path);
        Ok(TokenIssuer { issuer: Issuer { keys, audiences, path, url }, limits, owner, calendar })
    }
}

impl Identities {
    /// Those of the tables of a file; where there is a grid-mapfile it may say by which
    /// certificates they log in.
    ///
    /// # Errors
    /// When a value makes no sense; it says of whom.
    pub(crate) fn of_file(
        people: Vec<IdentityFile>,
        issuers: Vec<IssuerFile>,
        authorities: ClientAuthorities,
        grid_mapfile: Option<PathBuf>,
    ) -> Result<Identities, Error> {
        let is_mapped = grid_mapfile.is_some();
        let people = people.into_iter().map(|file| file.build(is_mapped));
        let identities = Identities {
            people: people.collect::<Result<_, _>>()?,
            issuers: issuers.into_iter().map(IssuerFile::build).collect::<Result<_, _>>()?,
            authorities,
            grid_mapfile,
        };
        match identities.same_names() {
            Some(message) => Err(wrong(message)),
            None => Ok(identities),
        }
    }
}

/// Whether that is an attribute as it is written: without the parts that say that there is nothing.
fn is_attribute(name: &str) -> bool {
    let has_null = name.ends_with("/Role=NULL") || name.contains("/Capability=");
    name.len() > 1 && name.starts_with('/') && !name.ends_with('/') && !has_null
}

fn limits(
    sessions: Option<usize>,
    rate: Option<String>,
    bytes_per_day: Option<String>,
    files_per_day: Option<u64>,
) -> Result<IdentityLimits, String> {
    if sessions == Some(0) {
        return Err("with no sessions it may not come in".to_owned());
    }
    let (rate, bytes_per_day) = (quantity(rate)?, quantity(bytes_per_day)?);
    Ok(IdentityLimits { sessions, rate, bytes_per_day, files_per_day })
}

pub(super) fn quantity<Q: FromStr<Err = ParseQuantityError>>(
    text: Option<String>,
) -> Result<Option<Q>, String> {
    text.map(|text| text.parse()).transpose().map_err(|error: ParseQuantityError| error.to_string())
}

fn wrong(message: String) -> Error {
    Error::new(Fault::You, ErrorCode::BadConfig, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_issuer_without_a_file_of_keys_is_asked_by_https_alone() {
        let built = |more: &str| {
            let text = format!("audiences = ['https://node.example']\n{more}");
            let file: IssuerFile = toml::from_str(&text).expect("TOML");
            file.build().map(|built| built.issuer.keys).map_err(|error| error.message)
        };
        let asked = built("url = 'https://issuer.example'\nauthorities = 'ca.pem'");
        let expected = KeySource::Discovered { authorities: Some("ca.pem".into()) };
        assert_eq!(asked, Ok(expected));
        for (wrong, why) in [
            ("url = 'http://issuer.example'", "https:// alone"),
            ("url = 'https://issuer.example'\nkeys = '/no such file'", "/no such file"),
            ("url = 'https://issuer.example'\nkeys = '/proc/version'", "/proc/version: expected"),
            ("url = 'https://x'\nkeys = 'k'\nauthorities = 'a'", "authorities are of issuers"),
        ] {
            let refused = built(wrong).expect_err(why);
            assert!(refused.contains(why), "{refused}, not {why}");
        }
    }

    fn built(text: &str) -> Result<Person, String> {
        let file: IdentityFile = toml::from_str(text).map_err(|error| error.to_string())?;
        file.build(false).map_err(|error| error.message)
    }

    #[test]
    fn what_makes_no_sense_of_an_identity_is_refused() {
        let good = "name = 'a'\ncertificates = ['/CN=a']\npaths = { '/' = 'read' }";
        built(good).expect("valid");
        for (wrong, why) in [
            (good.replace("'a'", "'anonymous'"), "name is taken"),
            (good.replace("name = 'a'", "name = 'bearer'"), "name is taken"),
            (good.replace("['/CN=a']", "[]"), "neither password nor certificates"),
            (good.replace("'read'", "'rule'"), "`rule` is no right"),
            (good.replace("{ '/' = 'read' }", "{}"), "no paths"),
            (format!("{good}\nsessions = 0"), "no sessions"),
            (format!("{good}\nrate = 'fast'"), "fast"),
            (format!("{good}\nbytes_per_day = 'much'"), "much"),
            (format!("{good}\nfiles_per_day = -1"), "files_per_day"),
            (format!("{good}\npassword = 'secret'"), "argon2id"),
            (format!("{good}\nrole = 'x'"), "role"),
            (format!("{good}\nvoms = ['/vo/Role=NULL']"), "no VOMS attribute"),
            (format!("{good}\nvoms = ['vo']"), "no VOMS attribute"),
            (format!("{good}\nowner = 'no such user'"), "this host has no user"),
        ] {
            let refused = built(&wrong).expect_err(why);
            assert!(refused.contains(why), "{refused}, not {why}");
        }
    }

    #[test]
    fn two_of_one_name_are_refused_whoever_reads_the_tables() {
        let read = |names: &[&str]| {
            let person = |name: &&str| {
                let text = format!(
                    "name = '{name}'\ncertificates = ['/CN={name}']\npaths = {{ '/' = 'read' }}"
                );
                toml::from_str::<IdentityFile>(&text).expect("TOML")
            };
            let people = names.iter().map(person).collect();
            Identities::of_file(people, Vec::new(), ClientAuthorities::default(), None)
                .map(|identities| identities.people.len())
                .map_err(|error| (error.code, error.message))
        };
        assert_eq!(read(&["a", "b", "A"]), Ok(3));
        let twice = "two identities are called a".to_owned();
        assert_eq!(read(&["a", "b", "a"]), Err((ErrorCode::BadConfig, twice)));
    }

    #[test]
    fn two_issuers_of_one_url_are_refused() {
        let read = |urls: &[&str]| {
            let issuer = |url: &&str| {
                let text = format!("url = 'https://{url}'\naudiences = ['https://node.example']");
                toml::from_str::<IssuerFile>(&text).expect("TOML")
            };
            let issuers = urls.iter().map(issuer).collect();
            Identities::of_file(Vec::new(), issuers, ClientAuthorities::default(), None)
                .map(|identities| identities.issuers.len())
                .map_err(|error| (error.code, error.message))
        };
        assert_eq!(read(&["a.example", "b.example", "a.example/"]), Ok(3));
        let twice = "issuers 1 and 3 are both https://a.example".to_owned();
        let refused = read(&["a.example", "b.example", "a.example"]);
        assert_eq!(refused, Err((ErrorCode::BadConfig, twice)));
    }
}
