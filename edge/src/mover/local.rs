//! Moves the blocks of a copy within this host: threads that read, compare and write, and one that
//! makes durable.

use super::journal::Journal;
use super::pace::Pace;
use super::shared::Cancel;
use super::tally::{Stage, Tally};
use super::{Audit, BLOCK_LEN};
use crate::stores::{Landed, Landing, ResumeState, Source};
use crate::sys::lock::lock;
use crate::sys::pool::{Slot, pool};
use farline_core::transfer::{Block, DigestAlgorithm, Layout, PieceDigest};
use farline_core::units::{ByteRanges, Error, ErrorCode, Fault};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Threads that read and write at once; more do not make one host's disks faster.
const MOST_THREADS: usize = 4;

/// What others see and change of it while it runs.
pub(crate) struct LocalState<'a> {
    /// Running totals.
    pub(crate) tally: &'a Tally,
    /// Holds it to a rate.
    pub(crate) pace: Option<&'a Pace>,
    /// How to break it off.
    pub(crate) cancel: &'a Cancel,
}

/// Journals what was written by this: one host need not suspect itself of intent.
pub(crate) const ALGORITHM: DigestAlgorithm = DigestAlgorithm::Crc64Nvme;

/// A copy within this host, before it moves anything.
pub(crate) struct LocalMove {
    layout: Arc<Layout>,
    source: Arc<dyn Source>,
    sink: Arc<dyn Landing>,
    held: ByteRanges,
    /// Of what was read, and so of what is in the sink.
    audit: Audit,
    next: AtomicU64,
}

impl LocalMove {
    /// From `source` to `sink`, but for what `resume_state` says is there.
    pub(crate) fn new(
        layout: Arc<Layout>,
        source: Arc<dyn Source>,
        sink: Arc<dyn Landing>,
        resume_state: ResumeState,
    ) -> LocalMove {
        let (held, audit) = (resume_state.blocks, Audit::resumed(resume_state.digests));
        LocalMove { layout, source, sink, held, audit, next: AtomicU64::new(0) }
    }

    /// How many threads read and write.
    pub(crate) fn threads(&self) -> usize {
        let most = if self.sink.wants_order() { 1 } else { MOST_THREADS };
        std::thread::available_parallelism().map_or(1, |n| n.get().min(most))
    }

    /// Moves what is not there, and lands it.
    ///
    /// # Errors
    /// When the destination takes no more, or the copy is cancelled: what is durable is kept.
    pub(crate) fn run(self, live: &LocalState<'_>) -> Result<Landed, Error> {
        self.sink.make_folders()?;
        let threads = self.threads();
        // Aligned, as direct I/O wants it.
        let buffers = pool(threads, BLOCK_LEN).map_err(|error| {
            let message = format!("no memory for staging: {error}");
            Error::new(Fault::Here, ErrorCode::NoMemory, message)
        })?;
        let journal = self.sink.journals().then(Journal::new);
        std::thread::scope(|scope| {
            if let Some(journal) = &journal {
                scope.spawn(|| journal.keep(&*self.sink));
            }
            let movers: Vec<_> = buffers
                .into_iter()
                .map(|buffer| scope.spawn(|| self.drive(live, journal.as_ref(), buffer)))
                .collect();
            for mover in movers {
                // A panic is this thread's own: it would otherwise land what was not written.
                mover.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            }
            journal.iter().for_each(Journal::end);
        });
        if let Some(error) = live.cancel.reason() {
            return Err(error);
        }
        let (verdicts, unreadable) = self.audit.finish();
        let landing = Instant::now();
        let mut landed =
            self.sink.land(Some((&verdicts.into_iter().collect(), &lock(&self.audit.digests))));
        (0..threads).for_each(|_| live.tally.add_network(landing));
        // The reader's own words say more than the verdict does.
        for (index, error) in unreadable {
            let path = &self.layout.entries()[index].path;
            if let Some(failure) = landed.failures.iter_mut().find(|(failed, _)| failed == path) {
                failure.1 = error;
            }
        }
        Ok(landed)
    }

    fn drive(&self, live: &LocalState<'_>, journal: Option<&Journal>, mut buffer: Slot) {
        let _busy = live.tally.thread(Stage::Channel);
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= self.layout.block_count() || live.cancel.reason().is_some() {
                return;
            }
            let block = self.layout.block(index);
            if self.held.contains(&block.range()) {
                continue;
            }
            if live
                .pace
                .is_some_and(|pace| pace.through(block.len, live.tally, live.cancel).is_err())
            {
                return;
            }
            if let Some(journal) = journal {
                let waiting = Instant::now();
                journal.admit(block.len, self.layout.pieces(block.offset, block.len).count());
                live.tally.add_network(waiting);
            }
            if let Err(error) = self.move_block(live, &block, &mut buffer) {
                live.cancel.cancel(error);
                return;
            }
            live.tally.add_bytes(block.len);
        }
    }

    fn move_block(
        &self,
        live: &LocalState<'_>,
        block: &Block,
        buffer: &mut Slot,
    ) -> Result<(), Error> {
        for piece in self.layout.pieces(block.offset, block.len) {
            let bytes = &mut buffer[..piece.len];
            let reading = Instant::now();
            let read = self.source.read(piece.entry, piece.file_offset, bytes);
            live.tally.add_store_wait(reading);
            if let Err(error) = read {
                self.audit.cannot_read(piece.entry, error);
                continue;
            }
            let digest = PieceDigest::of(&self.layout, &piece, bytes, ALGORITHM);
            lock(&self.audit.digests).insert(&digest);
            self.sink.record(std::slice::from_ref(&digest));
            let writing = Instant::now();
            let written = self.sink.write(piece.entry, piece.file_offset, bytes);
            live.tally.add_network(writing);
            written?;
        }
        Ok(())
    }
}
