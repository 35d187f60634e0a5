//! Work of this host that goes on while a copy waits for its peer: over a long path each round trip
//! is time enough to list ten thousand files.

use farline_core::units::{Error, ErrorCode, Fault};
use tokio::sync::oneshot;

/// Work on a thread of its own. One that nobody waits for any more holds nothing up.
pub(super) struct Meanwhile<T>(oneshot::Receiver<T>);

impl<T: Send + 'static> Meanwhile<T> {
    /// Begins `work`.
    ///
    /// # Errors
    /// When there is no thread for it.
    pub(super) fn begin(work: impl FnOnce() -> T + Send + 'static) -> Result<Meanwhile<T>, Error> {
        let (tell, told) = oneshot::channel();
        // Who is gone needs no result.
        let body = move || drop(tell.send(work()));
        let thread = std::thread::Builder::new().name("meanwhile".to_owned()).spawn(body);
        thread.map(|_| Meanwhile(told)).map_err(|error| {
            let message = format!("cannot start a thread: {error}");
            Error::new(Fault::Here, ErrorCode::NoThread, message)
                .hint("raise the limit of processes (ulimit -u)")
        })
    }

    /// What came of it.
    ///
    /// # Errors
    /// When it panicked.
    pub(super) async fn done(self) -> Result<T, Error> {
        self.0.await.map_err(|_| {
            Error::new(Fault::Bug, ErrorCode::ThreadLost, "a thread of the copy panicked")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_ends_while_something_else_is_waited_for() {
        let (go, gone) = std::sync::mpsc::channel();
        let work = Meanwhile::begin(move || gone.recv().map(|()| 7)).expect("a thread");
        go.send(()).expect("it waits");
        assert_eq!(work.done().await.expect("no panic"), Ok(7));
        let lost = Meanwhile::<()>::begin(|| panic!("as asked")).expect("a thread");
        assert_eq!(lost.done().await.expect_err("it panicked").code, ErrorCode::ThreadLost);
    }
}
