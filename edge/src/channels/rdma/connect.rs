//! Connects RDMA channels to a node.

use super::exchange::Offered;
use super::fabric::{Fabric, refused};
use super::ports::explained_towards;
use super::{RdmaChannel, lockable, shape};
use crate::channels::key::Key;
use crate::sys::lock::lock;
use crate::sys::verbs::{Connecting, Domain, RdmaConnection};
use farline_core::rdma::{
    EndpointSettings, GreetingReply, Placement, QueuePair, RdmaGreeting, ack_timeout_exponent,
    credits_for,
};
use farline_core::units::{Error, ErrorCode, Fault, Setting, Span};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Opens the channels of one session.
#[derive(Debug)]
pub(super) struct RdmaDialer {
    key: Key,
    fabric: Fabric,
    /// Channels opened so far: each has a number of its own, and a proof.
    opened: AtomicU32,
    domain: Mutex<Option<Arc<Domain>>>,
}

impl RdmaDialer {
    /// For the session that `key` is of.
    pub(super) fn new(key: Key, fabric: Fabric) -> RdmaDialer {
        RdmaDialer { key, fabric, opened: AtomicU32::new(0), domain: Mutex::default() }
    }

    /// Whether channels are [offered](Self::offer) over the control connection.
    pub(super) fn is_by_exchange(&self) -> bool {
        self.fabric.exchange
    }

    /// The path's round-trip time.
    pub(super) fn rtt(&self) -> Span {
        self.fabric.rtt
    }

    /// Makes one channel's end, to be offered to the node at `address`.
    ///
    /// # Errors
    /// When no RDMA device leads there, or this one has no room.
    pub(super) fn offer(&self, address: SocketAddr) -> Result<Offered, Error> {
        let channel = self.opened.fetch_add(1, Ordering::Relaxed);
        let mut known = lock(&self.domain);
        let offered = Offered::new(&self.key, &self.fabric, channel, address, known.as_ref())?;
        *known = Some(Arc::clone(offered.domain()));
        Ok(offered)
    }

    /// Opens one channel to the node that listens at `address`; waits for it.
    ///
    /// # Errors
    /// When no RDMA device leads there, or the node takes no such channel.
    pub(super) fn open(
        &self,
        address: SocketAddr,
        timeout: Duration,
    ) -> Result<RdmaChannel, Error> {
        let channel = self.opened.fetch_add(1, Ordering::Relaxed);
        let first = Connecting::resolve(address, timeout)
            .map_err(|error| explained_towards(error, address))?;
        let mtu = first.mtu();
        let domain = {
            let mut known = lock(&self.domain);
            let domain = first.domain(known.as_ref())?;
            Arc::clone(known.insert(domain))
        };
        let failed = |error: io::Error| refused(address, mtu, error);
        let placement = Placement::between(domain.is_iwarp(), self.fabric.read);
        let queue_pairs = self.fabric.queue_pairs.max(1);
        let Fabric { slot_len, rtt, elastic, .. } = self.fabric;
        let begin = self.fabric.begin();
        let credits = if elastic { credits_for(rtt, slot_len, begin) } else { begin };
        let wished = EndpointSettings { queue_pairs, credits, placement, connected: true };
        let fit = wished.within(&domain.limits().map_err(failed)?)?;
        let mut settings = fit.lockable(begin, slot_len, &lockable())?;
        let credits = settings.credits;
        let begin = begin.min(credits);
        let mut link = RdmaConnection::new(domain, shape(&settings)).map_err(failed)?;
        let ack_timeout = ack_timeout_exponent(rtt);
        let mut next = Some(first);
        for on in 0..queue_pairs {
            let connecting = match next.take() {
                Some(first) => first,
                None => Connecting::resolve(address, timeout)?,
            };
            let queue_pair = QueuePair(on);
            let proof = self.key.proof_of_queue_pair(channel, on);
            let greeting = RdmaGreeting {
                proof,
                channel,
                queue_pair,
                queue_pairs,
                credits,
                placement,
                ack_timeout,
                mtu,
                begin,
                rtt,
            };
            let answer = link
                .connect(on, connecting, &greeting.encode(), ack_timeout, timeout)
                .map_err(failed)?;
            let answer = GreetingReply::decode(&answer)
                .filter(|answer| answer.credits <= credits)
                .ok_or_else(|| {
                    Error::new(
                        Fault::There,
                        ErrorCode::RdmaBroken,
                        "the node's answer to an RDMA connection is none of ours",
                    )
                    .hint(format!(
                        "is it a Farline node? {} tcp goes another way",
                        Setting::Channel
                    ))
                })?;
            settings.credits = answer.credits;
        }
        RdmaChannel::over(link, settings, begin, rtt).map_err(failed)
    }
}
