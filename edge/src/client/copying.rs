//! The library's way to copy: a [`Client`] makes a [`CopyRequest`], which becomes a running
//! [`Copying`].
//!
//! A copy runs on a thread of its own with a runtime of its own, so that a program needs none: it
//! may wait by blocking, by `.await` in whatever runtime it has, or not at all.

use super::run::copy;
use super::{
    CancelToken, ConnectOptions, Existing, Location, Options, Outcome, Progress, RetryListener,
    RetryNotice, StoredProfiles, Verify,
};
use crate::stores::{StoreDriver, StoreRegistry};
use farline_core::congestion::ControlName;
use farline_core::copy::{HeldRate, RETRY_FOR};
use farline_core::units::{Bytes, Error, ErrorCode, Fault, Rate, Span};
use std::ffi::OsStr;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::{oneshot, watch};

/// Copies files and trees between this host and nodes, or between nodes.
///
/// ```
/// let folder = std::env::temp_dir().join(format!("farline-doc-{}", std::process::id()));
/// std::fs::create_dir_all(&folder)?;
/// std::fs::write(folder.join("a"), "some bytes")?;
/// let client = farline::Client::new();
/// let outcome = client.copy(folder.join("a"), folder.join("b"))?.start()?.wait()?;
/// assert_eq!((outcome.files, outcome.bytes), (1, 10));
/// assert_eq!(std::fs::read(folder.join("b"))?, b"some bytes");
/// std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Client {
    connect: ConnectOptions,
    stores: StoreRegistry,
}

impl Client {
    /// A client that reaches nodes as `farline cp` does: over ssh, or by URL; it trusts the
    /// system's certificate authorities.
    pub fn new() -> Client {
        Client::default()
    }

    /// Reaches nodes by these options instead.
    #[must_use]
    pub fn connect_options(mut self, connect: ConnectOptions) -> Client {
        self.connect = connect;
        self
    }

    /// Knows this store too: `NAME:PATH` is then a place in it.
    ///
    /// # Errors
    /// When its name is taken, or is not of lower-case letters.
    pub fn store(mut self, driver: StoreDriver) -> Result<Client, Error> {
        self.stores.add(driver)?;
        Ok(self)
    }

    /// Asks for a copy from `source` to `destination`, each as on the command line: a path,
    /// `host:path`, or a URL.
    ///
    /// # Errors
    /// [`Fault::You`] when either is no location.
    pub fn copy(
        &self,
        source: impl AsRef<OsStr>,
        destination: impl AsRef<OsStr>,
    ) -> Result<CopyRequest, Error> {
        Ok(CopyRequest {
            sources: vec![Location::parse_among(source.as_ref(), &self.stores)?],
            destination: Location::parse_among(destination.as_ref(), &self.stores)?,
            stores: self.stores.clone(),
            options: Options {
                connect: self.connect.clone(),
                retry_for: RETRY_FOR,
                ..Options::default()
            },
        })
    }
}

/// A copy that has not begun. What is not said, Farline chooses and tells the reason
/// ([`Outcome::reasons`]).
#[derive(Clone, Debug)]
#[must_use = "nothing is copied before `start`"]
pub struct CopyRequest {
    sources: Vec<Location>,
    destination: Location,
    stores: StoreRegistry,
    options: Options,
}

impl CopyRequest {
    /// Copies this too, to the same destination, which then is a folder.
    ///
    /// # Errors
    /// [`Fault::You`] when it is no location.
    pub fn and(mut self, source: impl AsRef<OsStr>) -> Result<CopyRequest, Error> {
        self.sources.push(Location::parse_among(source.as_ref(), &self.stores)?);
        Ok(self)
    }

    /// Sets what has no method of its own, such as [`Options::selection`] or
    /// [`Options::attributes`].
    pub fn with(mut self, set: impl FnOnce(&mut Options)) -> CopyRequest {
        set(&mut self.options);
        self
    }

    /// Copies folders with all that is in them. Otherwise a folder is an error.
    pub fn recursive(mut self, recursive: bool) -> CopyRequest {
        self.options.recursive = recursive;
        self
    }

    /// Moves no faster than this, all channels together.
    pub fn limit(mut self, limit: Rate) -> CopyRequest {
        self.options.limit = Some(limit);
        self
    }

    /// Opens so many channels, where Farline otherwise takes what the path asks for.
    pub fn channels(mut self, channels: usize) -> CopyRequest {
        self.options.overrides.streams = Some(channels);
        self
    }

    /// Holds this rate from the first round trip on, over channels that share it evenly, whatever
    /// is lost: only with a Farline node that admits it, over a path that is reserved.
    pub fn held(mut self, rate: Rate, channels: usize) -> CopyRequest {
        self.options.held = Some(HeldRate { rate, channels: channels.max(1) });
        self
    }

    /// Uses this congestion control.
    pub fn congestion(mut self, name: impl Into<ControlName>) -> CopyRequest {
        self.options.overrides.congestion = Some(name.into());
        self
    }

    /// Reads ahead by no more than this.
    pub fn staging(mut self, staging: Bytes) -> CopyRequest {
        self.options.overrides.staging = Some(staging);
        self
    }

    /// Begins by the round-trip time alone, also where a profile of the path is stored.
    pub fn ignore_stored_profiles(mut self) -> CopyRequest {
        self.options.stored_profiles = StoredProfiles::Ignore;
        self
    }

    /// Its channels begin as over any path, whatever earlier copies saw of it.
    pub fn fresh_start(mut self) -> CopyRequest {
        self.options.fresh_start = true;
        self
    }

    /// Checks arrival so, or fails; when not said, by the digest of every file where the other end
    /// computes one.
    pub fn verify(mut self, verify: Verify) -> CopyRequest {
        self.options.verify = verify;
        self.options.compare_at_stock = verify == Verify::Digest;
        self
    }

    /// Does so with what is at the destination already; replaces it when not said.
    pub fn existing(mut self, existing: Existing) -> CopyRequest {
        self.options.existing = existing;
        self
    }

    /// Tries again for so long without progress after a fault that may pass (an outage, a node that
    /// starts again or is full), going on from what is durable; ten minutes when not said. Nothing:
    /// never.
    pub fn retry_for(mut self, retry_for: Span) -> CopyRequest {
        self.options.retry_for = retry_for;
        self
    }

    /// Has `tell` told whenever it is tried again.
    pub fn on_retry(mut self, tell: impl Fn(&RetryNotice) + Send + Sync + 'static) -> CopyRequest {
        self.options.on_retry = RetryListener::new(tell);
        self
    }

    /// Begins.
    ///
    /// # Errors
    /// [`Fault::You`] for a number of channels that cannot be, and [`Fault::Here`] when no thread
    /// or runtime can be had.
    pub fn start(self) -> Result<Copying, Error> {
        self.options.overrides.check()?;
        let here = |what: &str, error: std::io::Error| {
            Error::new(Fault::Here, ErrorCode::NoThread, format!("cannot start {what}: {error}"))
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| here("a runtime", error))?;
        let (tell, progress) = watch::channel(Progress::default());
        let (done, outcome) = oneshot::channel();
        let CopyRequest { sources, destination, options, .. } = self;
        let cancel = options.cancel.clone();
        let work = move || {
            let mut report = |progress: &Progress| {
                let _ = tell.send(*progress);
            };
            let result = runtime.block_on(copy(&sources, &destination, &options, &mut report));
            // Nobody may be there to hear it.
            let _ = done.send(result);
        };
        std::thread::Builder::new()
            .name("copy".to_owned())
            .spawn(work)
            .map_err(|error| here("a thread", error))?;
        Ok(Copying { progress, outcome: Some(outcome), cancel })
    }
}

/// A copy under way. As a future it resolves to what came of it; dropping it cancels the copy.
#[derive(Debug)]
#[must_use = "a copy ends when its handle is dropped"]
pub struct Copying {
    progress: watch::Receiver<Progress>,
    /// Taken when it is over.
    outcome: Option<oneshot::Receiver<Result<Outcome, Error>>>,
    cancel: CancelToken,
}

impl Copying {
    /// Where it stands.
    pub fn progress(&self) -> Progress {
        *self.progress.borrow()
    }

    /// A channel that changes whenever it stands elsewhere, several times a second.
    pub fn watch(&self) -> watch::Receiver<Progress> {
        self.progress.clone()
    }

    /// Asks it to end soon. What is durable stays, and the same copy goes on from there; nothing
    /// half-done stands under a final name. It then ends with the code `interrupted`.
    pub fn cancel(&self) {
        self.cancel.ask();
    }

    /// Blocks until it is over. Inside an asynchronous runtime use `.await` instead.
    ///
    /// # Errors
    /// When nothing could be copied. Single files that failed are in the outcome.
    pub fn wait(mut self) -> Result<Outcome, Error> {
        let outcome = self.outcome.take().and_then(|outcome| outcome.blocking_recv().ok());
        outcome.unwrap_or_else(|| Err(lost()))
    }
}

impl Future for Copying {
    type Output = Result<Outcome, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(outcome) = &mut self.outcome else { return Poll::Pending };
        let outcome = Pin::new(outcome).poll(context);
        outcome.map(|outcome| {
            self.outcome = None;
            outcome.unwrap_or_else(|_| Err(lost()))
        })
    }
}

impl Drop for Copying {
    fn drop(&mut self) {
        if self.outcome.is_some() {
            self.cancel.ask();
        }
    }
}

fn lost() -> Error {
    Error::new(Fault::Bug, ErrorCode::ThreadLost, "the copy's thread panicked")
}
