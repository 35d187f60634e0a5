//! A place in a store, as people write it: `null:`, `memory:10GiB`, `NAME:PATH`.

use super::driver::{Store, StoreDriver};
use crate::drivers::Values;
use farline_core::units::Error;
use std::fmt;
use std::sync::Arc;

/// A store with its options, and a path in it where it has paths.
#[derive(Clone)]
pub struct StoreAddress {
    driver: Arc<StoreDriver>,
    values: Values,
    path: Vec<u8>,
}

impl StoreAddress {
    pub(super) fn new(driver: Arc<StoreDriver>, values: Values, path: Vec<u8>) -> StoreAddress {
        StoreAddress { driver, values, path }
    }

    /// Whose it is.
    pub fn driver(&self) -> &StoreDriver {
        &self.driver
    }

    /// The path as it was written; empty for the whole store, and where it has none.
    pub fn path(&self) -> &[u8] {
        &self.path
    }

    /// What [`Store`] takes for the path: without slashes at its ends.
    pub(crate) fn start(&self) -> &[u8] {
        let path = self.path.strip_prefix(b"/").unwrap_or(&self.path);
        path.strip_suffix(b"/").unwrap_or(path)
    }

    /// Whether what is copied to it goes in there by its own name.
    pub(crate) fn names_folder(&self) -> bool {
        self.path.is_empty() || self.path.ends_with(b"/")
    }

    /// The last name of the path. A store without paths is called as its driver is, and one of
    /// which the whole is meant, or a folder's content, has no name.
    pub(crate) fn name(&self) -> &[u8] {
        match (self.driver.capabilities.paths, self.path.ends_with(b"/")) {
            (false, _) => self.driver.name.as_bytes(),
            (true, true) => b"",
            (true, false) => self.start().rsplit(|&byte| byte == b'/').next().unwrap_or_default(),
        }
    }

    /// The same store, with the content of the folder meant and not the folder by its name.
    #[must_use]
    pub(crate) fn content(mut self) -> StoreAddress {
        if !self.path.is_empty() && !self.path.ends_with(b"/") {
            self.path.push(b'/');
        }
        self
    }

    /// Opens the store.
    ///
    /// # Errors
    /// When it cannot be had.
    pub fn open(&self) -> Result<Arc<dyn Store>, Error> {
        self.driver.open(&self.values)
    }

    /// The store without the path, as `OPTS FARLINE store=` takes it (S-1).
    pub(crate) fn on_the_wire(&self) -> String {
        format!("{}{}", self.driver.name, self.values.text(self.driver.options))
    }
}

impl PartialEq for StoreAddress {
    fn eq(&self, other: &StoreAddress) -> bool {
        self.driver.name == other.driver.name
            && self.values == other.values
            && self.path == other.path
    }
}

impl Eq for StoreAddress {}

impl fmt::Display for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.driver.capabilities.paths {
            true => write!(f, "{}:{}", self.driver.name, String::from_utf8_lossy(&self.path)),
            false if self.driver.options.is_empty() => write!(f, "{}:", self.driver.name),
            false => f.write_str(&self.on_the_wire()),
        }
    }
}

impl fmt::Debug for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
