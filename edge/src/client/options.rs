//! How a copy is to be made, how it is asked to end, and what is told of it meanwhile.

use super::backup::Backup;
use super::connect_options::ConnectOptions;
use super::selection::Selection;
use crate::channels::{Registry, Stack};
use crate::mover::LiveRate;
use crate::stores::DirectIo;
use farline_core::copy::{Existing, HeldRate};
use farline_core::plan::Stall;
use farline_core::transfer::{AttributeSet, Limit, UserOverrides};
use farline_core::units::{Bytes, Error, ErrorCode, Fault, Rate, Setting, Span};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How a copy is to be made.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// Copy folders with all that is in them.
    pub recursive: bool,
    /// How nodes are reached.
    pub connect: ConnectOptions,
    /// Not faster than this, all channels together.
    pub limit: Option<Rate>,
    /// A booked rate that is held from the first round trip on, whatever is lost: only between this
    /// host and a Farline node that admits it, over a path that is reserved.
    pub held: Option<HeldRate>,
    /// What it may change to while the copy runs: `limit`'s rate, or `held`'s, which it begins as.
    pub live_rate: Option<LiveRate>,
    /// Whether that is what was booked for it, rather than what somebody asked for.
    pub is_booked: bool,
    /// What the user fixed rather than leave to Farline.
    pub overrides: UserOverrides,
    /// Whether it begins as the stored profile of its path found best.
    pub stored_profiles: StoredProfiles,
    /// Whether its channels begin as over any path, whatever earlier copies saw of it.
    pub fresh_start: bool,
    /// How arrival is checked.
    pub verify: Verify,
    /// Fail where servers that are not Farline compute no checksum to compare with (CKSM);
    /// otherwise files of such are copied without.
    pub compare_at_stock: bool,
    /// No file takes its final name before all have come; otherwise each does when it is whole.
    pub atomic: bool,
    /// What becomes of files that are at the destination already.
    pub existing: Existing,
    /// What of files travels besides content, permissions and times.
    pub attributes: AttributeSet,
    /// How what is replaced or deleted at the destination is kept; absent: not.
    pub backup: Option<Backup>,
    /// How many files and folders that the source does not have are deleted at the destination, at
    /// most; absent: none. For one folder that is to hold what another holds.
    pub most_deleted: Option<u64>,
    /// Which files of the sources are copied.
    pub selection: Selection,
    /// Only say what would be copied, and why.
    pub dry_run: bool,
    /// Socket buffers of data connections; the kernel's own sizing when absent.
    pub buffer: Option<Bytes>,
    /// Whether files are read and written past the page cache.
    pub direct_io: DirectIo,
    /// What carries data, where it is not to be left to Farline.
    pub channel: Option<Stack>,
    /// The drivers that there are.
    pub drivers: Registry,
    /// How long it is tried again without progress after a fault that may pass; nothing: never.
    pub retry_for: Span,
    /// Who is told of it.
    pub on_retry: RetryListener,
    /// How it is asked to end early.
    pub cancel: CancelToken,
    /// How staging is put to the test.
    pub trial: Trial,
}

impl Options {
    /// Refuses a comparison that was asked for outright, before anything moves, where nobody
    /// compares: `why` says so.
    ///
    /// # Errors
    /// Then.
    pub(super) fn refuse_verify(&self, why: &str) -> Result<(), Error> {
        let wish = match self.verify {
            Verify::Checksum => "checksum",
            Verify::Digest if self.compare_at_stock => "digest",
            // It also says which digest is kept with each file.
            Verify::Blake3 if !self.attributes.digest => "blake3",
            _ => return Ok(()),
        };
        let message = format!("{} {wish}: {why}", Setting::Verify);
        Err(Error::new(Fault::You, ErrorCode::Unsupported, message)
            .hint(format!("without {} it is copied, and said to be not verified", Setting::Verify)))
    }
}

/// Whether a copy begins as the stored profile of its path found best: `farline profile NODE` and
/// `farline plan NODE` store one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoredProfiles {
    /// Where there is one.
    #[default]
    Use,
    /// By the round-trip time alone.
    Ignore,
}

/// A copy that failed, and is about to be tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetryNotice {
    /// Why.
    pub error: Error,
    /// How many attempts have failed.
    pub failures: u32,
    /// How long it waits before the next.
    pub wait: Span,
}

type TellRetry = Arc<dyn Fn(&RetryNotice) + Send + Sync>;

/// Is told when a copy is tried again.
#[derive(Clone, Default)]
pub struct RetryListener(Option<TellRetry>);

impl RetryListener {
    /// Has `tell` told.
    pub fn new(tell: impl Fn(&RetryNotice) + Send + Sync + 'static) -> RetryListener {
        RetryListener(Some(Arc::new(tell)))
    }

    pub(super) fn notify(&self, notice: &RetryNotice) {
        if let Some(tell) = &self.0 {
            tell(notice);
        }
    }
}

impl fmt::Debug for RetryListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RetryListener").field(&self.0.is_some()).finish()
    }
}

/// What a measurement does to a copy between here and a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trial {
    /// The source stalls so.
    pub stall: Option<Stall>,
    /// It gives no more than this.
    pub read: Option<Rate>,
    /// The destination takes no more than this.
    pub write: Option<Rate>,
    /// Making what came durable takes so much longer.
    pub sync: Option<Span>,
    /// Reading and sending take turns.
    pub in_turns: bool,
}

impl Trial {
    /// Whether the destination is slower than it is.
    pub(super) fn slows_sink(&self) -> bool {
        self.write.is_some() || self.sync.is_some()
    }
}

/// How often what waits looks whether the copy was asked to end.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Asks a copy that runs to end soon, with what it can go on from made durable.
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// Asks.
    pub fn ask(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was asked to.
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The error of a copy that ends because it was asked to.
    pub fn error() -> Error {
        Error::new(
            Fault::You,
            ErrorCode::Interrupted,
            "interrupted; nothing half-done was left under a final name",
        )
    }

    /// Ends when it is asked to: soon, since who asks wakes nobody.
    pub(super) async fn asked(&self) -> Error {
        loop {
            if let Some(reason) = self.reason() {
                return reason;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Why the copy ends, if it was asked to.
    pub(super) fn reason(&self) -> Option<Error> {
        self.is_asked().then(CancelToken::error)
    }
}

/// How a copy's arrival is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verify {
    /// CRC32C of every block, and CRC-64/NVME of every file, compared end to end: finds accidents.
    /// With an earlier Farline, and where nobody chose it of a copy between two other hosts in the
    /// clear, BLAKE3; with a server of another kind the checksum that it computes, if any (CKSM).
    #[default]
    Digest,
    /// CRC32C of every block, and BLAKE3 of every file, compared end to end: nobody can make
    /// another file that has the same.
    Blake3,
    /// CRC32C of every block.
    Checksum,
    /// By TCP's checksum alone.
    None,
}

/// Where a copy stands, for whoever watches it.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Progress {
    /// Bytes that have arrived.
    pub bytes: Bytes,
    /// What of them the pass that runs found there and did not move.
    pub resumed: Bytes,
    /// What holds the copy back now, as far as this end can tell.
    pub limited_by: Option<Limit>,
    /// Bytes in all, once known.
    pub bytes_total: Option<Bytes>,
    /// Files that have their final names, where that is known while others come.
    pub files: Option<u64>,
    /// Files in all, once known.
    pub files_total: Option<u64>,
    /// Since the start.
    pub elapsed: Span,
}
