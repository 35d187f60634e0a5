//! Connects channels by what both ends tell each other over the control connection, without
//! rdma_cm: both ends of clauses V-9 and V-10.

use super::fabric::{Fabric, refused};
use super::listener::Terms;
use super::ports::{explained, gid_index, towards};
use super::{RdmaChannel, lockable, shape};
use crate::channels::Channel;
use crate::channels::key::Key;
use crate::sys::verbs::{Domain, LocalPort, RdmaConnection};
use farline_core::rdma::{
    Acceptance, EndpointSettings, GreetingReply, Placement, QpAddress, QueuePair, RdmaGreeting,
    RdmaOffer, Refusal,
};
use farline_core::rdma::{ack_timeout_exponent, credits_for};
use farline_core::units::{Error, ErrorCode, Fault, Setting, Span};
use rustix::rand::{GetRandomFlags, getrandom};
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// A channel of this end's that waits for the node's word.
pub(super) struct Offered {
    local_port: LocalPort,
    link: RdmaConnection,
    settings: EndpointSettings,
    begin: u16,
    rtt: Span,
    own: QpAddress,
    text: String,
}

impl Offered {
    /// Makes the queue pairs of a session's channel of this number, to a node at `address`.
    ///
    /// # Errors
    /// When no RDMA device leads there, or this one has no room.
    pub(super) fn new(
        key: &Key,
        fabric: &Fabric,
        channel: u32,
        address: SocketAddr,
        known: Option<&Arc<Domain>>,
    ) -> Result<Offered, Error> {
        let failed = |error: io::Error| refused(address, 0, error);
        let local_port = local_port(towards(address).map_err(failed)?, known)?;
        let begin = fabric.begin();
        let queue_pairs = fabric.queue_pairs.max(1);
        let credits =
            if fabric.elastic { credits_for(fabric.rtt, fabric.slot_len, begin) } else { begin };
        let placement = Placement::between(false, fabric.read);
        let settings = EndpointSettings { queue_pairs, credits, placement, connected: true };
        let settings = settings.within(&local_port.domain().limits().map_err(failed)?)?;
        let settings = settings.lockable(begin, fabric.slot_len, &lockable())?;
        let mut link = RdmaConnection::new(Arc::clone(local_port.domain()), shape(&settings))
            .map_err(failed)?;
        let own = link
            .make_pairs(&local_port, &first_packets(queue_pairs).map_err(failed)?, fabric.read)
            .map_err(failed)?;
        let greeting = RdmaGreeting {
            proof: key.proof_of_queue_pair(channel, 0),
            channel,
            queue_pair: QueuePair(0),
            queue_pairs,
            credits: settings.credits,
            placement: settings.placement,
            ack_timeout: ack_timeout_exponent(fabric.rtt),
            mtu: own.mtu,
            begin: begin.min(settings.credits),
            rtt: fabric.rtt,
        };
        let text = RdmaOffer { greeting, address: own.clone() }.encode();
        Ok(Offered { local_port, link, settings, begin, rtt: fabric.rtt, own, text })
    }

    /// What to tell the node.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The protection domain, for the session's further channels.
    pub(super) fn domain(&self) -> &Arc<Domain> {
        self.local_port.domain()
    }

    /// The channel, by what the node answered.
    ///
    /// # Errors
    /// When the answer makes no sense, or the ends cannot be connected.
    pub(super) fn connect(mut self, text: &str) -> Result<RdmaChannel, Error> {
        let Acceptance { answer, address } = Acceptance::decode(text)?;
        let mtu = self.own.packets_to(&address)?;
        if answer.credits > self.settings.credits {
            return Err(Error::new(
                Fault::There,
                ErrorCode::RdmaBroken,
                "the node agreed to more slots than it was offered",
            )
            .hint(format!(
                "is it a Farline of another version? {} tcp goes another way",
                Setting::Channel
            )));
        }
        self.settings.credits = answer.credits;
        let joined = self.link.join(
            &self.local_port,
            &self.own,
            &address,
            mtu,
            ack_timeout_exponent(self.rtt),
        );
        let channel =
            joined.and_then(|()| RdmaChannel::over(self.link, self.settings, self.begin, self.rtt));
        channel.map_err(|error| not_connected(&error))
    }
}

/// A node's end, for one session: takes offers.
pub(super) struct Exchange {
    key: Key,
    domain: Option<Arc<Domain>>,
    /// Channels whose proofs were used up.
    served: BTreeSet<u32>,
}

impl Exchange {
    /// For the session that `key` is of.
    pub(super) fn new(key: Key) -> Exchange {
        Exchange { key, domain: None, served: BTreeSet::new() }
    }

    /// Takes the channel that `text` offers to this host's address `ip`; returns it, and with
    /// what to tell who offers.
    ///
    /// # Errors
    /// When who offers has no right to the session, the ends cannot be connected, or the device has
    /// no room.
    pub(super) fn accept(
        &mut self,
        ip: IpAddr,
        terms: Terms,
        text: &str,
    ) -> Result<(Box<dyn Channel>, String), Error> {
        let RdmaOffer { greeting, address } = RdmaOffer::decode(text)?;
        if !self.key.proves_queue_pair(greeting.channel, 0, greeting.proof)
            || !self.served.insert(greeting.channel)
        {
            return Err(Error::new(
                Fault::Refused,
                ErrorCode::PermissionDenied,
                "the RDMA channel shows no right to this session",
            ));
        }
        if !greeting.placement.fits(false) {
            return Err(Refusal::OtherFabric.error(greeting.mtu));
        }
        let local_port = local_port(ip, self.domain.as_ref())
            .map_err(|error| Error { fault: Fault::There, ..error })?;
        self.domain = Some(Arc::clone(local_port.domain()));
        let (settings, begin) = terms
            .agree(&greeting, local_port.domain())
            .map_err(|refusal| refusal.error(greeting.mtu))?;
        let connected = (|| {
            let mut link = RdmaConnection::new(Arc::clone(local_port.domain()), shape(&settings))?;
            let reads = settings.placement == Placement::Read;
            let own = link.make_pairs(&local_port, &first_packets(settings.queue_pairs)?, reads)?;
            Ok((link, own))
        })();
        let no_room = |_: io::Error| Refusal::NoRoom.error(greeting.mtu);
        let (mut link, own) = connected.map_err(no_room)?;
        let mtu = own.packets_to(&address)?;
        let joined = link.join(&local_port, &own, &address, mtu, greeting.ack_timeout);
        let channel = joined
            .and_then(|()| RdmaChannel::over(link, settings, begin, greeting.rtt))
            .map_err(no_room)?;
        let answer = GreetingReply { credits: settings.credits };
        Ok((Box::new(channel), Acceptance { answer, address: own }.encode()))
    }
}

/// The port that has `ip`, with the GID to send from.
fn local_port(ip: IpAddr, known: Option<&Arc<Domain>>) -> Result<LocalPort, Error> {
    let mut local_port = LocalPort::at(ip, known).map_err(|error| explained(error, ip))?;
    if local_port.domain().is_iwarp() {
        return Err(Error::new(
            Fault::Between,
            ErrorCode::RdmaFabric,
            "iWARP is connected by rdma_cm alone",
        )
        .hint(format!("leave `:exchange` out, or use {} tcp", Setting::Channel)));
    }
    let index = gid_index(local_port.device(), local_port.port(), ip).ok_or_else(|| {
        Error::new(
            Fault::Here,
            ErrorCode::RdmaGid,
            format!("the RDMA device {} has no RoCE v2 GID of {ip}", local_port.device()),
        )
        .hint("`ip addr add` on the device's interface makes one; it must be up")
    })?;
    local_port.use_gid(index).map_err(|error| not_connected(&error))?;
    Ok(local_port)
}

/// Where each queue pair begins to count its packets, so that none is taken for one of an earlier
/// connection.
fn first_packets(count: u8) -> io::Result<Vec<u32>> {
    let mut bytes = [0; 4];
    (0..count)
        .map(|_| {
            // Four bytes come at once or not at all.
            getrandom(&mut bytes, GetRandomFlags::empty())?;
            Ok(u32::from_ne_bytes(bytes))
        })
        .collect()
}

fn not_connected(error: &io::Error) -> Error {
    Error::new(
        Fault::Here,
        ErrorCode::RdmaRoom,
        format!("the RDMA device makes no such connection: {error}"),
    )
    .hint(format!("use fewer queue pairs ({} rdma:1), or leave `:exchange` out", Setting::Channel))
}
