//! Which calendar is asked, whom to take for it, and who asks: flags and their variables.

use crate::output::plain;
use farline::calendar::{CalendarAddress, CalendarClient};
use farline_core::units::{Error, ErrorCode, Fault};
use std::path::PathBuf;

/// The calendar.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct At {
    /// https://HOST:PORT; how to be known there: docs/calendar.md [default: FARLINE_CALENDAR]
    #[arg(long, value_name = "URL")]
    calendar: Option<String>,
    /// File with the token [default: FARLINE_CALENDAR_TOKEN_FILE]
    #[arg(long, value_name = "FILE", hide = true)]
    token_file: Option<PathBuf>,
    /// Fingerprint of its certificate [default: FARLINE_CALENDAR_PIN]
    #[arg(long, value_name = "SHA256", conflicts_with = "ca", hide = true)]
    pin: Option<String>,
    /// Its authority, in PEM [default: FARLINE_CALENDAR_CA, or the system's]
    #[arg(long, value_name = "FILE", hide = true)]
    ca: Option<PathBuf>,
    /// A certificate instead of a token, in PEM [default: none]
    #[arg(long, value_name = "FILE", requires = "key", hide = true)]
    cert: Option<PathBuf>,
    /// Its key, in PEM [default: none]
    #[arg(long, value_name = "FILE", requires = "cert", hide = true)]
    key: Option<PathBuf>,
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

impl At {
    /// A client of it.
    pub(crate) fn client(&self) -> Result<CalendarClient, Error> {
        CalendarClient::new(self.address()?)
    }

    /// Where it is.
    pub(crate) fn address(&self) -> Result<CalendarAddress, Error> {
        let you = |message: String| Error::new(Fault::You, ErrorCode::Usage, message);
        let url = self.calendar.clone().or_else(|| variable("FARLINE_CALENDAR"));
        let url = url.ok_or_else(|| {
            you("no calendar is named".to_owned())
                .hint("--calendar https://HOST:PORT, or set FARLINE_CALENDAR")
        })?;
        let pin = self.pin.clone().or_else(|| variable("FARLINE_CALENDAR_PIN"));
        let pin = pin.filter(|_| self.ca.is_none());
        let fingerprint = pin.map(|pin| pin.parse()).transpose().map_err(you)?;
        let authorities = match fingerprint {
            Some(_) => None,
            None => {
                let variable = variable("FARLINE_CALENDAR_CA").map(PathBuf::from);
                self.ca.clone().or(variable)
            }
        };
        let file = self
            .token_file
            .clone()
            .or_else(|| variable("FARLINE_CALENDAR_TOKEN_FILE").map(PathBuf::from));
        let token = match file.filter(|_| self.cert.is_none()) {
            None => None,
            Some(file) => {
                let text = std::fs::read_to_string(&file).map_err(|error| {
                    let message = format!("the token in {}: {}", file.display(), plain(&error));
                    Error::new(Fault::You, ErrorCode::PathNotFound, message)
                })?;
                Some(text.trim().to_owned())
            }
        };
        let certificate = self.cert.clone().zip(self.key.clone());
        let mut address = CalendarAddress::new(url);
        (address.trust.authorities, address.trust.fingerprint) = (authorities, fingerprint);
        (address.token, address.certificate) = (token, certificate);
        Ok(address)
    }
}
