//! Which way the data of a copy went, as its outcome says it.

use crate::channels::driver::Offered;
use crate::channels::offers::{Offer, Route};
use serde::{Serialize, Serializer};

/// Which way data went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DataPath {
    /// Between this host and a data port of the other.
    #[default]
    Direct,
    /// Over connections to the node's control port, because its data ports could not be reached.
    ControlPort,
    /// By a driver that was asked for.
    Driver {
        /// Its name.
        name: &'static str,
        /// What people call it.
        title: &'static str,
    },
    /// Through ssh, because the node's data ports could not be reached.
    Ssh,
}

impl Serialize for DataPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            DataPath::Direct => "direct",
            DataPath::ControlPort => "control-port",
            DataPath::Driver { name, .. } => name,
            DataPath::Ssh => "ssh",
        })
    }
}

impl DataPath {
    pub(super) fn of(offer: &Offer) -> DataPath {
        let driver = offer.stack.channel();
        match offer.route {
            Route::ControlPort => DataPath::ControlPort,
            Route::Tunnel => DataPath::Ssh,
            Route::Straight if driver.capabilities.offered == Offered::Always => DataPath::Direct,
            Route::Straight => DataPath::Driver { name: driver.name, title: driver.title },
        }
    }
}
