//! The threads that carry QUIC's connections: a runtime of their own, begun by the first who needs
//! it, so that whoever waits for a control connection does not seal packets meanwhile.

use std::future::Future;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread::available_parallelism;
use tokio::runtime::{Builder, Handle, Runtime};

/// More threads do not help: a connection is one task, and a session has few.
const MOST_THREADS: usize = 4;

/// A runtime that begins late and ends with its owner.
#[derive(Debug, Default)]
pub(super) struct Tasks(Mutex<Option<Runtime>>);

impl Tasks {
    /// Where tasks run.
    ///
    /// # Errors
    /// When the system gives no threads.
    pub(super) fn handle(&self) -> io::Result<Handle> {
        let mut runtime = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(runtime) = &*runtime {
            return Ok(runtime.handle().clone());
        }
        let threads = available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
        let begun = Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("quic")
            .enable_all()
            .build()?;
        let handle = begun.handle().clone();
        *runtime = Some(begun);
        Ok(handle)
    }

    /// Waits on this thread, which must not be one of a runtime's.
    ///
    /// # Errors
    /// When the system gives no threads.
    pub(super) fn wait<T>(&self, task: impl Future<Output = T>) -> io::Result<T> {
        Ok(self.handle()?.block_on(task))
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        let runtime = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(runtime) = runtime.take() {
            // A wait for its threads could come about on one of them.
            runtime.shutdown_background();
        }
    }
}
