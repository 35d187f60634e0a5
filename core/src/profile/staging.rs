//! Cells whose bytes come from a store through a staging pool, as a transfer's do: ADTS's
//! experiment.

use super::driver::{self, ProfileDriver};
use crate::experiment::from_word;
use crate::plan::StagedSource;
pub use crate::plan::Stall;
use crate::units::{Bytes, Error, ErrorCode, Fault, Rate, Span};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a mover reads at once; a pool holds one such block for each stream and two more at least.
const BLOCK: Bytes = Bytes::mib(1);

/// Where bytes come from and go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StagingStore {
    /// From memory to nowhere.
    Memory,
    /// From a file to a file; the source stalls as [`Copies::stall`] says.
    File,
}

/// How reading and sending go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// In turns: the pool is filled, then emptied.
    Synchronous,
    /// At once.
    Asynchronous,
}

/// The axes of staging.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Copies {
    /// Sizes of the pool.
    pub staging_bytes: Vec<Bytes>,
    /// Stores.
    pub stores: Vec<StagingStore>,
    /// Whether reading waits for sending.
    pub orders: Vec<Order>,
    /// What the mover sends over.
    #[serde(default = "driver::tcp_alone", skip_serializing_if = "driver::is_tcp_alone")]
    pub drivers: Vec<ProfileDriver>,
    /// How a file's source stalls, as a busy disk does.
    pub stall: Stall,
    /// How fast a file's source is read while it does not stall; in the model every source.
    pub read_bps: Rate,
}

/// How the bytes of one cell come to the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Staged {
    /// The pool.
    pub staging_bytes: Bytes,
    /// From where to where.
    pub store: StagingStore,
    /// Whether reading waits for sending.
    pub order: Order,
    /// Over what.
    #[serde(default, skip_serializing_if = "ProfileDriver::is_tcp")]
    pub driver: ProfileDriver,
}

from_word!(StagingStore, Fault::You, ErrorCode::ProfileStore, "store", "memory and file");
from_word!(Order, Fault::You, ErrorCode::ProfileOrder, "order", "synchronous and asynchronous");

impl StagingStore {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            StagingStore::Memory => "memory",
            StagingStore::File => "file",
        }
    }
}

impl Order {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Order::Synchronous => "synchronous",
            Order::Asynchronous => "asynchronous",
        }
    }
}

impl fmt::Display for Staged {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{} {} staging {}{}",
            self.store.name(),
            self.order.name(),
            self.staging_bytes,
            self.over()
        )
    }
}

impl Staged {
    /// All but the pool's size, such as `file synchronous` or `memory asynchronous over tls`.
    pub(super) fn how(&self) -> String {
        format!("{} {}{}", self.store.name(), self.order.name(), self.over())
    }

    fn over(&self) -> String {
        if self.driver.is_tcp() { String::new() } else { format!(" over {}", self.driver.name()) }
    }
}

impl Copies {
    /// From memory, asynchronously, over TCP with a pool of 64 MiB; a file's source stalls for 50
    /// ms in every second.
    pub fn usual() -> Copies {
        Copies {
            staging_bytes: vec![Bytes::mib(64)],
            stores: vec![StagingStore::Memory],
            orders: vec![Order::Asynchronous],
            drivers: driver::tcp_alone(),
            stall: Stall { pause_ns: Span::from_millis(50), every_ns: Span::from_secs(1) },
            read_bps: Rate::from_bps(16_000_000_000),
        }
    }

    /// How many combinations there are.
    pub(super) fn count(&self) -> usize {
        let Copies { staging_bytes, stores, orders, drivers, .. } = self;
        staging_bytes.len() * stores.len() * orders.len() * drivers.len()
    }

    /// Whether the question is what drivers cost: a processor that is busy all the time is then an
    /// answer, not a reason to doubt it.
    pub fn asks_for_drivers(&self) -> bool {
        !driver::is_tcp_alone(&self.drivers)
    }

    /// Refuses what cannot be measured with `streams` streams.
    pub(super) fn check(&self, streams: u32) -> Result<(), Error> {
        let wrong = |message: String| Err(Error::new(Fault::You, ErrorCode::ProfileGrid, message));
        fn twice<T: PartialEq>(values: &[T]) -> bool {
            values.iter().enumerate().any(|(i, value)| values[..i].contains(value))
        }
        let is_repeated = twice(&self.staging_bytes)
            || twice(&self.stores)
            || twice(&self.orders)
            || twice(&self.drivers);
        if self.count() == 0 || is_repeated {
            return wrong("the axes of staging need a value each, and none twice".to_owned());
        }
        if let Some(least) =
            self.staging_bytes.iter().find(|bytes| **bytes < Copies::least(streams))
        {
            let needed = Copies::least(streams);
            return wrong(format!(
                "staging of {least}: {streams} streams need {needed}, a block each and two to \
                 read ahead"
            ));
        }
        if self.stall.pause_ns >= self.stall.every_ns || self.read_bps == Rate::default() {
            return wrong("a source that never gives anything".to_owned());
        }
        Ok(())
    }

    /// The least pool for `streams` streams.
    pub(super) fn least(streams: u32) -> Bytes {
        Bytes(BLOCK.0 * (u64::from(streams) + 2))
    }
}

impl Staged {
    /// The source and its pool in the model.
    pub(super) fn source(self, copies: &Copies) -> StagedSource {
        StagedSource {
            pool: self.staging_bytes,
            read: copies.read_bps,
            in_turns: self.order == Order::Synchronous,
            stall: (self.store == StagingStore::File).then_some(copies.stall),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment;
    use crate::profile::{Form, Profile, preset};

    #[test]
    fn staging_hides_stalls_and_turns_cost_the_reading_time() {
        let grid = preset("adts-staging", Form::Quick).expect("a preset");
        let profile = Profile::modelled(grid);
        let far = profile.grid.paths.last().expect("paths").name.clone();
        let mean = |store, order, mib| {
            let staged =
                Staged { staging_bytes: Bytes::mib(mib), store, order, driver: ProfileDriver::Tcp };
            let of = |result: &&crate::profile::CellResult| {
                result.cell.path.name == far && result.cell.staged == Some(staged)
            };
            profile
                .cells
                .iter()
                .find(of)
                .and_then(crate::profile::CellResult::summary)
                .expect("a cell")
                .mean
                / 1e9
        };
        use {Order::*, StagingStore::*};
        assert!(mean(Memory, Asynchronous, 64) > 7.0, "{}", mean(Memory, Asynchronous, 64));
        assert!(mean(Memory, Synchronous, 64) < 0.85 * mean(Memory, Asynchronous, 64));
        // 50 ms at 8 Gbit/s are 50 MB: a pool of 16 MiB and a full queue of 30 MB run dry by a
        // hundredth of the time, one of 128 MiB does not.
        assert!(mean(File, Asynchronous, 16) < 0.995 * mean(File, Asynchronous, 128));
        assert!(mean(File, Synchronous, 16) <= mean(File, Asynchronous, 16));
        assert!(profile.cells.iter().any(|result| {
            result.valid().any(|one| one.limited_by == crate::profile::LimitedBy::Store)
        }));
    }

    #[test]
    fn the_pause_is_the_end_of_every_span() {
        let stall: Stall = "50ms/1s".parse().expect("it is one");
        let left = |ms| stall.left(Span::from_millis(ms));
        assert_eq!([left(0), left(949), left(1500)], [Span::ZERO; 3]);
        assert_eq!(
            (left(950), left(999), left(3960)),
            (Span::from_millis(50), Span::from_millis(1), Span::from_millis(40))
        );
        for text in ["", "50ms", "1s/50ms", "1s/1s", "x/1s"] {
            assert_eq!(text.parse::<Stall>().expect_err(text).code, ErrorCode::BadStall);
        }
    }

    #[test]
    fn a_pool_that_cannot_be_is_refused() {
        let grid = preset("adts-staging", Form::Quick).expect("a preset");
        let copies = grid.copies.clone().expect("staging");
        for (copies, words) in [
            (Copies { staging_bytes: vec![Bytes::mib(1)], ..copies.clone() }, "a block each"),
            (Copies { orders: vec![], ..copies.clone() }, "need a value each"),
            (Copies { drivers: vec![ProfileDriver::Tls; 2], ..copies.clone() }, "none twice"),
            (
                Copies {
                    stall: Stall { pause_ns: Span::from_secs(1), every_ns: Span::from_secs(1) },
                    ..copies
                },
                "never gives",
            ),
        ] {
            let error = crate::profile::Grid { copies: Some(copies), ..grid.clone() }
                .check()
                .expect_err(words);
            assert!(error.message.contains(words), "{error}");
        }
        assert_eq!(grid.largest_scale(), 4, "a pool of 16 MiB by 4 holds four blocks");
    }
}
