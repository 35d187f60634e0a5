//! A store of a node's that is meant in the place of its files, as its URL names it behind `?`.

use crate::stores::{StoreAddress, StoreRegistry};
use farline_core::transfer::Entry;
use farline_core::units::{Error, ErrorCode, Fault};
use std::fmt;

/// `?null`, `?memory=SIZE`, or `?store=NAME` of a store that the node's program brought.
#[derive(Clone, PartialEq, Eq)]
pub struct RemoteStore(Kind);

#[derive(Clone, PartialEq, Eq)]
enum Kind {
    /// One that this end has too.
    Known(StoreAddress),
    /// One that only the node knows.
    Named(String),
}

impl RemoteStore {
    /// Reads `query`; `None` when it names no store.
    pub(super) fn parse(query: &str, stores: &StoreRegistry) -> Option<Result<RemoteStore, Error>> {
        if let Some(known) = stores.parse_query(query) {
            return Some(known.map(|address| RemoteStore(Kind::Known(address))));
        }
        let name = query.strip_prefix("store=")?;
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase());
        is_name.then(|| Ok(RemoteStore(Kind::Named(name.to_owned()))))
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        match &self.0 {
            Kind::Known(address) => address.driver().name,
            Kind::Named(name) => name,
        }
    }

    /// Whether the path of the URL is a path in it; else it has one file.
    pub(super) fn has_paths(&self) -> bool {
        match &self.0 {
            Kind::Known(address) => address.driver().capabilities.paths,
            Kind::Named(_) => true,
        }
    }

    /// What a node that offers it lists in FEAT behind `FARLINE`.
    pub(super) fn feature(&self) -> String {
        match &self.0 {
            Kind::Known(address) => address.driver().feature(),
            Kind::Named(name) => format!("STORE {name}"),
        }
    }

    /// The value of `OPTS FARLINE store=` (S-1).
    pub(super) fn option(&self) -> String {
        match &self.0 {
            Kind::Known(address) => address.on_the_wire(),
            Kind::Named(name) => name.clone(),
        }
    }

    /// What is in it, as far as this end can tell without asking.
    ///
    /// # Errors
    /// When it holds nothing, or only the node knows.
    pub(super) fn listed(&self) -> Result<Vec<Entry>, Error> {
        match &self.0 {
            Kind::Known(address) if !address.driver().capabilities.paths => {
                Ok(address.open()?.list(b"")?.entries)
            }
            _ => {
                let message = format!("?{self} of one node cannot be copied to another from here");
                Err(Error::new(Fault::You, ErrorCode::Unsupported, message)
                    .hint("copy it to this host first, or run the copy at one of the nodes"))
            }
        }
    }
}

impl fmt::Display for RemoteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Known(address) => f.write_str(&address.on_the_wire().replace(':', "=")),
            Kind::Named(name) => write!(f, "store={name}"),
        }
    }
}

impl fmt::Debug for RemoteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
