//! Data connections that a node asks for while it sends (`docs/protocol.md`, D-2), opened from this
//! end next to the transfer.

use super::remote_progress::RemoteProgress;
use crate::channels::Channel;
use crate::channels::stack::Opener;
use crate::mover::Incoming;
use crate::sys::lock::lock;
use farline_core::units::Error;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

/// How soon a wish is noticed.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Opens what the node asks for and hands it to the receiver as if it had come in.
pub(super) struct ChannelOpener {
    opener: Opener,
    remote_progress: Arc<Mutex<RemoteProgress>>,
    /// Connections that were opened or tried, with those of the beginning.
    tried: Mutex<usize>,
    /// More than this the staging pool cannot serve.
    most: usize,
    arrivals: mpsc::Sender<Option<Box<dyn Channel>>>,
    arrived: Mutex<mpsc::Receiver<Option<Box<dyn Channel>>>>,
}

impl ChannelOpener {
    /// Opens by `opener` what `remote_progress` tells, beyond the `open` connections that there are
    /// and up to `most`.
    pub(super) fn new(
        opener: Opener,
        remote_progress: Arc<Mutex<RemoteProgress>>,
        open: usize,
        most: usize,
    ) -> ChannelOpener {
        let (arrivals, arrived) = mpsc::channel();
        ChannelOpener {
            opener,
            remote_progress,
            tried: Mutex::new(open),
            most,
            arrivals,
            arrived: Mutex::new(arrived),
        }
    }

    /// Begins to open what was asked for since.
    fn catch_up(&self) {
        let wanted = lock(&self.remote_progress).wanted_channels().min(self.most);
        let mut tried = lock(&self.tried);
        while *tried < wanted {
            *tried += 1;
            let (opener, arrivals) = (self.opener.clone(), self.arrivals.clone());
            // On threads of their own: the transfer must not wait a round trip for each. Who cannot
            // connect, or connects too late, is not missed.
            let open = move || {
                if let Ok(channel) = opener.open_one() {
                    let _ = arrivals.send(Some(channel));
                }
            };
            let _ = std::thread::Builder::new().name("further".to_owned()).spawn(open);
        }
    }
}

impl Incoming for ChannelOpener {
    fn accept(&self, timeout: Duration) -> Result<Option<Box<dyn Channel>>, Error> {
        let deadline = Instant::now() + timeout;
        loop {
            self.catch_up();
            let left = deadline.saturating_duration_since(Instant::now());
            match lock(&self.arrived).recv_timeout(left.min(LOOK_AGAIN)) {
                Ok(arrival) => return Ok(arrival),
                Err(_) if left <= LOOK_AGAIN => return Ok(None),
                Err(_) => {}
            }
        }
    }

    fn wake(&self) {
        let _ = self.arrivals.send(None);
    }
}
