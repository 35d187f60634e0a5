//! The store `null`: drops what it is given, for measuring everything but a disk.

use super::driver::{Access, LandingOptions, Listing, Store, StoreCapabilities, StoreDriver};
use super::{Landed, Landing, Sink, Source};
use farline_core::transfer::{Digests, Layout, StoreMedium, VerdictList};
use farline_core::units::{Error, ErrorCode, Fault};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// The driver.
pub(super) fn driver() -> StoreDriver {
    let capabilities = StoreCapabilities {
        source: false,
        sink: true,
        access: Access::Random,
        paths: false,
        keeps: false,
        journals: false,
        durable: false,
    };
    let about = "drops what it is given; at a node where the operator allows it";
    let open = |_: &_| Ok(Arc::new(NullStore) as Arc<dyn Store>);
    StoreDriver {
        medium: StoreMedium::Memory,
        feature: Some("NULL"),
        ..StoreDriver::new("null", about, capabilities, open)
    }
}

/// Nowhere.
#[derive(Debug)]
struct NullStore;

impl Store for NullStore {
    fn list(&self, _start: &[u8]) -> Result<Listing, Error> {
        Err(nothing())
    }

    fn source(&self, _start: &[u8], _layout: &Arc<Layout>) -> Result<Arc<dyn Source>, Error> {
        Err(nothing())
    }

    fn sink(
        &self,
        _start: &[u8],
        layout: &Arc<Layout>,
        _options: LandingOptions,
    ) -> Result<Box<dyn Landing>, Error> {
        Ok(Box::new(NullSink { layout: Arc::clone(layout), left: Mutex::default() }))
    }
}

fn nothing() -> Error {
    let message = "`null` holds nothing that could be copied";
    Error::new(Fault::You, ErrorCode::NothingToRead, message).hint("read from memory:SIZE instead")
}

/// Throws bytes away.
#[derive(Debug)]
struct NullSink {
    layout: Arc<Layout>,
    left: Mutex<BTreeSet<usize>>,
}

impl Sink for NullSink {
    fn write(&self, _entry: usize, _offset: u64, _bytes: &[u8]) -> Result<(), Error> {
        Ok(())
    }

    fn write_zeros(&self, _entry: usize, _offset: u64, _len: u64) -> Result<(), Error> {
        Ok(())
    }
}

impl Landing for NullSink {
    fn leave(&self, entries: &BTreeSet<usize>) {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).clone_from(entries);
    }

    fn land(&self, check: Option<(&VerdictList, &Digests)>) -> Landed {
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        Landed::each(&self.layout, &left, check, |_, _| Ok(()))
    }
}
