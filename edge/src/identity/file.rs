//! Identities in a node's configuration file.

use super::{
    BEARER, CertificateName, FileOwner, Grant, IdentityLimits, Issuer, Permissions, Person,
    StoredPassword, TokenIssuer,
};
use farline_core::gridftp::Pathname;
use farline_core::gridftp::server::is_anonymous;
use farline_core::units::{Error, ErrorCode, Fault, ParseQuantityError, Rate};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

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
    /// A right for each path: `{ "/raw" = "read", "/home/alice" = "write" }`.
    pub paths: BTreeMap<String, String>,
    /// See [`IdentityLimits::sessions`].
    pub sessions: Option<usize>,
    /// A rate such as `2Gbit/s`, see [`IdentityLimits::rate`].
    pub rate: Option<String>,
    /// See [`Person::clear_data`].
    #[serde(default)]
    pub clear_data: bool,
    /// A user of this host, see [`Person::owner`].
    pub owner: Option<String>,
}

/// One `[[issuer]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct IssuerFile {
    /// See [`Issuer::url`].
    pub url: String,
    /// See [`Issuer::keys`].
    pub keys: PathBuf,
    /// See [`Issuer::audiences`].
    pub audiences: Vec<String>,
    /// See [`Issuer::path`]; the exported root when absent.
    pub path: Option<String>,
    /// See [`IdentityLimits::sessions`].
    pub sessions: Option<usize>,
    /// A rate such as `2Gbit/s`, see [`IdentityLimits::rate`].
    pub rate: Option<String>,
    /// A user of this host, see [`Person::owner`].
    pub owner: Option<String>,
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
        if self.password.is_none() && self.certificates.is_empty() && !is_mapped {
            return Err(wrong("it has neither password nor certificates".to_owned()));
        }
        if self.paths.is_empty() {
            return Err(wrong("it has no paths, and could do nothing".to_owned()));
        }
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
            limits: limits(self.sessions, self.rate).map_err(wrong)?,
            clear_data: self.clear_data,
            owner: self.owner.map(|owner| FileOwner::named(&owner)).transpose().map_err(wrong)?,
            name,
        })
    }
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
        if let Err(error) = std::fs::read(&self.keys) {
            return Err(wrong(format!("{}: {error}", self.keys.display())));
        }
        let path = Pathname::new(self.path.unwrap_or_default());
        let limits = limits(self.sessions, self.rate).map_err(wrong)?;
        let owner = self.owner.map(|owner| FileOwner::named(&owner)).transpose().map_err(wrong)?;
        let (keys, audiences) = (self.keys, self.audiences);
        let path = Pathname::root().resolve(&path);
        Ok(TokenIssuer { issuer: Issuer { keys, audiences, path, url }, limits, owner })
    }
}

fn limits(sessions: Option<usize>, rate: Option<String>) -> Result<IdentityLimits, String> {
    if sessions == Some(0) {
        return Err("with no sessions it may not come in".to_owned());
    }
    let rate: Result<Option<Rate>, ParseQuantityError> = rate.map(|text| text.parse()).transpose();
    Ok(IdentityLimits { sessions, rate: rate.map_err(|error| error.to_string())? })
}

fn wrong(message: String) -> Error {
    Error::new(Fault::You, ErrorCode::BadConfig, message)
}

#[cfg(test)]
mod tests {
    use super::*;

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
            (format!("{good}\npassword = 'secret'"), "argon2id"),
            (format!("{good}\nrole = 'x'"), "role"),
            (format!("{good}\nowner = 'no such user'"), "this host has no user"),
        ] {
            let refused = built(&wrong).expect_err(why);
            assert!(refused.contains(why), "{refused}, not {why}");
        }
    }
}
