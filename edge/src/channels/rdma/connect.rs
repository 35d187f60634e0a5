//! Connects RDMA channels to a node.

use super::{RdmaChannel, shape};
use crate::channels::key::Key;
use crate::sys::lock::lock;
use crate::sys::verbs::{Connecting, Domain, Link};
use farline_core::rdma::{Answer, Greeting, MOST_CREDITS, Placement, QueuePair, Settings, ack_timeout_exponent};
use farline_core::units::{Error, Fault, Span};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Completions of one channel that any device has room for: soft-RoCE takes 32767.
const MOST_COMPLETIONS: usize = 32_000;

/// The most credits of a channel whose work must fit one completion queue.
fn most_credits(queue_pairs: u8) -> usize {
    let placement = Placement::Immediate;
    let fits = |credits: &u16| {
        let settings = Settings { queue_pairs, credits: *credits, placement, connected: true };
        usize::from(queue_pairs) * (settings.sends() + settings.receives()) <= MOST_COMPLETIONS
    };
    (1..=MOST_CREDITS).rev().find(fits).map_or(1, usize::from)
}

/// What the channels of a session are to be like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fabric {
    /// Queue pairs of each channel.
    pub queue_pairs: u8,
    /// The most slots that a channel's ends may advertise.
    pub credits: usize,
    /// The path's round-trip time.
    pub rtt: Span,
}

/// Opens the channels of one session.
#[derive(Debug)]
pub struct Dialler {
    key: Key,
    fabric: Fabric,
    /// Channels opened so far: each has a number of its own, and a proof.
    opened: AtomicU32,
    domain: Mutex<Option<Arc<Domain>>>,
}

impl Dialler {
    /// For the session that `key` is of.
    pub fn new(key: Key, fabric: Fabric) -> Dialler {
        Dialler { key, fabric, opened: AtomicU32::new(0), domain: Mutex::default() }
    }

    /// Opens one channel to the node that listens at `address`; waits for it.
    ///
    /// # Errors
    /// When no RDMA device leads there, or the node takes no such channel.
    pub fn open(&self, address: SocketAddr, timeout: Duration) -> Result<RdmaChannel, Error> {
        let channel = self.opened.fetch_add(1, Ordering::Relaxed);
        let failed = |error: std::io::Error| {
            Error::new(Fault::Between, "data-connection", format!("cannot connect to {address} by RDMA: {error}"))
        };
        let first = Connecting::resolve(address, timeout)?;
        let domain = {
            let mut known = lock(&self.domain);
            let domain = first.domain(known.as_ref())?;
            Arc::clone(known.insert(domain))
        };
        let placement = if domain.is_iwarp() { Placement::Behind } else { Placement::Immediate };
        let queue_pairs = self.fabric.queue_pairs.max(1);
        let fits = most_credits(queue_pairs);
        let credits = self.fabric.credits.clamp(1, fits) as u16;
        let mut settings = Settings { queue_pairs, credits, placement, connected: true };
        let mut link = Link::new(domain, shape(&settings)).map_err(failed)?;
        let ack_timeout = ack_timeout_exponent(self.fabric.rtt);
        let mut next = Some(first);
        for on in 0..queue_pairs {
            let connecting = match next.take() {
                Some(first) => first,
                None => Connecting::resolve(address, timeout)?,
            };
            let queue_pair = QueuePair(on);
            let proof = self.key.proof_of_queue_pair(channel, on);
            let greeting = Greeting { proof, channel, queue_pair, queue_pairs, credits, placement, ack_timeout };
            let answer = link.connect(on, connecting, &greeting.encode(), ack_timeout, timeout).map_err(failed)?;
            let answer = Answer::decode(&answer).filter(|answer| answer.credits <= credits).ok_or_else(|| {
                Error::new(Fault::There, "rdma-version", "the node speaks another version of the RDMA channel")
                    .hint("use --channel tcp")
            })?;
            settings.credits = answer.credits;
        }
        RdmaChannel::over(link, settings).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_the_work_of_a_channel_fits_the_smallest_completion_queue() {
        assert_eq!((most_credits(1), most_credits(8)), (256, 256));
        assert_eq!(most_credits(16), 249);
    }
}
