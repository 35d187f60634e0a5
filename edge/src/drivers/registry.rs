//! The drivers of one kind that a client or a node has: a value, built in one place.

use super::DriverOption;
use farline_core::units::{Error, ErrorCode, Fault};
use std::fmt::{self, Write};
use std::sync::Arc;

/// A driver as its registry knows it.
pub trait RegisteredDriver: Sized {
    /// What it is a driver of, for people: `channel`, `store`.
    const KIND: &'static str;

    /// Farline's own, in the order in which people are told of them.
    fn builtin() -> Vec<Self>;

    /// What it is called.
    fn name(&self) -> &'static str;

    /// What users may call it; the first is its name.
    fn schemes(&self) -> &[&'static str];

    /// Its options.
    fn options(&self) -> &'static [DriverOption];

    /// Whether a scheme is a word of the protocol, which no driver can have.
    fn is_reserved(_scheme: &str) -> bool {
        false
    }
}

/// Drivers of one kind, in the order in which people are told of them.
pub struct DriverRegistry<D> {
    drivers: Vec<Arc<D>>,
}

impl<D: RegisteredDriver> DriverRegistry<D> {
    /// None.
    pub fn new() -> DriverRegistry<D> {
        DriverRegistry { drivers: Vec::new() }
    }

    /// Farline's own.
    pub fn builtin() -> DriverRegistry<D> {
        D::builtin().into_iter().map(Arc::new).collect()
    }

    /// Adds a driver.
    ///
    /// # Errors
    /// When one of its schemes is taken, or is not of lower-case letters.
    pub fn add(&mut self, driver: impl Into<Arc<D>>) -> Result<(), Error> {
        let driver = driver.into();
        for scheme in driver.schemes() {
            if self.find(scheme).is_some() {
                let message = format!("there is a {} driver `{scheme}` already", D::KIND);
                return Err(Error::new(Fault::Bug, ErrorCode::DriverExists, message));
            }
            let is_word = !scheme.is_empty() && scheme.bytes().all(|b| b.is_ascii_lowercase());
            if !is_word || D::is_reserved(scheme) {
                let message = format!("no {} driver can be called `{scheme}`", D::KIND);
                return Err(Error::new(Fault::You, ErrorCode::InvalidName, message)
                    .hint("take lower-case letters, and no word of the protocol"));
            }
        }
        self.drivers.push(driver);
        Ok(())
    }

    /// The same drivers without those that `keeps` denies.
    #[must_use]
    pub fn only(&self, keeps: impl Fn(&D) -> bool) -> DriverRegistry<D> {
        self.drivers().filter(|driver| keeps(driver)).map(Arc::clone).collect()
    }

    /// The driver that has this scheme.
    pub fn find(&self, scheme: &str) -> Option<&Arc<D>> {
        self.drivers().find(|driver| driver.schemes().contains(&scheme))
    }

    /// All drivers.
    pub fn drivers(&self) -> impl Iterator<Item = &Arc<D>> {
        self.drivers.iter()
    }

    /// What all drivers may be called.
    pub fn schemes(&self) -> impl Iterator<Item = &'static str> {
        self.drivers().flat_map(|driver| driver.schemes().iter().copied())
    }

    /// The options of all drivers as a table in Markdown.
    pub(crate) fn option_table(&self) -> String {
        let mut text = String::from("| option | of | what it does |\n|---|---|---|\n");
        for driver in self.drivers() {
            for option in driver.options() {
                let _ = writeln!(text, "| `{option}` | `{}` | {} |", driver.name(), option.help);
            }
        }
        text
    }
}

impl<D> FromIterator<Arc<D>> for DriverRegistry<D> {
    fn from_iter<I: IntoIterator<Item = Arc<D>>>(drivers: I) -> DriverRegistry<D> {
        DriverRegistry { drivers: drivers.into_iter().collect() }
    }
}

impl<D> Clone for DriverRegistry<D> {
    fn clone(&self) -> DriverRegistry<D> {
        DriverRegistry { drivers: self.drivers.clone() }
    }
}

impl<D: fmt::Debug> fmt::Debug for DriverRegistry<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.drivers).finish()
    }
}

impl<D: RegisteredDriver> Default for DriverRegistry<D> {
    fn default() -> DriverRegistry<D> {
        DriverRegistry::builtin()
    }
}

impl<D: RegisteredDriver> PartialEq for DriverRegistry<D> {
    /// Whether drivers of the same names are in it.
    fn eq(&self, other: &DriverRegistry<D>) -> bool {
        self.drivers().map(|driver| driver.name()).eq(other.drivers().map(|driver| driver.name()))
    }
}

impl<D: RegisteredDriver> Eq for DriverRegistry<D> {}
