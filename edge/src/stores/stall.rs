//! A source that stalls now and then, as a busy disk does: for measuring what staging is worth.

use super::Source;
use farline_core::profile::Stall;
use farline_core::units::{Error, Span};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Another source's bytes, but for the pauses.
pub struct StallingSource {
    source: Arc<dyn Source>,
    stall: Stall,
    began: Instant,
}

impl StallingSource {
    /// `source`, whose first span begins now.
    pub fn new(source: Arc<dyn Source>, stall: Stall) -> StallingSource {
        StallingSource { source, stall, began: Instant::now() }
    }
}

impl Source for StallingSource {
    fn read(&self, entry: usize, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        let left = self.stall.left(Span::from(self.began.elapsed()));
        if left > Span::ZERO {
            std::thread::sleep(Duration::from(left));
        }
        self.source.read(entry, offset, into)
    }
}
