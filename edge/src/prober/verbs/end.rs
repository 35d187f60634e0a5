//! One end of a measurement of verbs: it connects for each run anew, moves its messages, and says
//! what it saw.

use super::device::{counted, staleness};
use super::echo;
use super::flow::{self, Part};
use super::peer_protocol::PeerProtocol;
use crate::prober::TIMEOUT;
use crate::sys::verbs::{Address, Plan, QpSet, RdmaEndpoint};
use farline_core::profile::verbs::{End, QpService, Setup, VerbsJob, VerbsMetric};
use farline_core::units::{Error, ErrorCode, Fault, Rng, Span};
use socket2::SockRef;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Datagrams that may come before they are taken: as many as soft-RoCE takes in a burst between two
/// looks.
const DATAGRAMS: usize = 512;
/// Receives for messages that come one after the other.
const PINGS: usize = 4;

/// One end, which does one run after the other.
pub struct VerbsEnd {
    endpoint: RdmaEndpoint,
    side: Side,
}

enum Side {
    /// Measures, and finds the other end there.
    Near(SocketAddr),
    /// Is measured, and waits for the other end.
    Far(TcpListener),
}

impl VerbsEnd {
    /// The end that waits for the other one at `address`, its device's own, which is number
    /// `gid_index` in the device's table.
    ///
    /// # Errors
    /// When there is no such device, or nobody may listen there.
    pub fn far(address: IpAddr, gid_index: u8) -> Result<VerbsEnd, Error> {
        let endpoint = RdmaEndpoint::at(address, gid_index)?;
        let listener = TcpListener::bind((address, 0))
            .and_then(|listener| {
                // For a listening socket this bounds accept (socket(7)).
                SockRef::from(&listener).set_read_timeout(Some(TIMEOUT)).map(|()| listener)
            })
            .map_err(|error| {
                Error::new(
                    Fault::Here,
                    ErrorCode::ProfileListen,
                    format!("listening on {address}: {error}"),
                )
            })?;
        Ok(VerbsEnd { endpoint, side: Side::Far(listener) })
    }

    /// The end that measures from `address` to the other one, which waits at `to`.
    ///
    /// # Errors
    /// When there is no such device.
    pub fn near(address: IpAddr, gid_index: u8, to: SocketAddr) -> Result<VerbsEnd, Error> {
        Ok(VerbsEnd { endpoint: RdmaEndpoint::at(address, gid_index)?, side: Side::Near(to) })
    }

    /// The device's name.
    pub fn device(&self) -> String {
        self.endpoint.device().to_owned()
    }

    /// The port at which it waits; 0 for the near end.
    pub fn port(&self) -> u16 {
        match &self.side {
            Side::Near(_) => 0,
            Side::Far(listener) => listener.local_addr().map_or(0, |address| address.port()),
        }
    }

    /// Does one run.
    ///
    /// # Errors
    /// When no connection comes about; one that breaks is part of what it saw.
    pub fn run(&self, job: &VerbsJob) -> Result<End, Error> {
        let rtt = Duration::from_nanos(job.rtt_ns.as_nanos());
        let longest = Duration::from_secs_f64(job.most_s) + rtt * 8;
        let stream = self.meet().map_err(|error| {
            Error::new(
                Fault::Between,
                ErrorCode::ProfileSilent,
                format!("the ends of the measurement do not meet: {error}"),
            )
            .hint("is the path up? `ping` the other end")
        })?;
        let mut protocol = PeerProtocol::over(stream, longest).map_err(|error| here(&error))?;
        let began = Instant::now();
        let mut pairs =
            QpSet::new(&self.endpoint, self.plan(job)).map_err(|error| locked(job, &error))?;
        let bytes = pattern(job);
        pairs.fill(&bytes);
        let peer = self.connect(&mut pairs, &mut protocol, job, TIMEOUT + rtt * 8)?;
        let count = || counted(self.endpoint.device(), self.endpoint.port());
        // Before this end says that it is ready: the other one may send at once.
        let before = count();
        protocol.swap(&"ready".to_owned())?;
        let connect_ns = Span::from_nanos(began.elapsed().as_nanos() as u64);
        let near = matches!(self.side, Side::Near(_));
        let part = Part::of(job, near);
        let seen = match (job.way, near) {
            (VerbsMetric::RoundTrip, true) => echo::ping(&mut pairs, &mut protocol, job)?,
            (VerbsMetric::RoundTrip, false) => echo::pong(&mut pairs, &mut protocol)?,
            _ => flow::stream(&mut pairs, &mut protocol, job, part)?,
        };
        // A short run ends before what was read at its beginning is old.
        std::thread::sleep(staleness(self.endpoint.device(), self.endpoint.port()));
        let packets =
            before.zip(count()).map(|(before, after)| (after.0 - before.0, after.1 - before.1));
        let filled = match (job.transport, job.way) {
            (QpService::Ud, _) | (_, VerbsMetric::RoundTrip) => false,
            // The other end's writes fill this end's target, this end's reads its own.
            (QpService::Rc, way) => !near || way == VerbsMetric::BothWays,
            (QpService::Read, _) => part.sends && seen.done > 0,
        };
        let intact = (filled && seen.failure.is_none()).then(|| pairs.has(&bytes));
        let mtu_bytes = u64::from(self.endpoint.mtu().min(peer.mtu));
        Ok(End { connect_ns, packets, intact, mtu_bytes, ..seen })
    }

    /// The socket to the other end.
    fn meet(&self) -> io::Result<TcpStream> {
        match &self.side {
            Side::Near(to) => TcpStream::connect_timeout(to, TIMEOUT),
            Side::Far(listener) => listener.accept().map(|(stream, _)| stream),
        }
    }

    fn plan(&self, job: &VerbsJob) -> Plan {
        let datagrams = job.transport == QpService::Ud;
        let receives = match (job.way, datagrams) {
            (VerbsMetric::RoundTrip, _) => PINGS,
            (_, true) => DATAGRAMS,
            (_, false) => 0,
        };
        let depth = usize::try_from(job.depth).unwrap_or(1).max(PINGS);
        // Datagrams have one queue pair an end.
        let pairs = if datagrams { 1 } else { job.queue_pairs };
        Plan {
            pairs,
            datagrams,
            depth,
            receives,
            size: usize::try_from(job.size_bytes.0).unwrap_or(1).max(1),
        }
    }

    /// Connects, as the run asks: datagrams have only their addresses to exchange.
    fn connect(
        &self,
        pairs: &mut QpSet,
        protocol: &mut PeerProtocol,
        job: &VerbsJob,
        timeout: Duration,
    ) -> Result<Address, Error> {
        let exchanged = job.setup == Setup::Exchange || job.transport == QpService::Ud;
        if exchanged && self.endpoint.is_iwarp() {
            return Err(Error::new(
                Fault::You,
                ErrorCode::ProfileDevices,
                "iWARP has no datagrams, and only rdma_cm connects it",
            )
            .hint("measure rc or read, connected by rdma_cm"));
        }
        let failed = |error: io::Error| {
            Error::new(
                Fault::Between,
                ErrorCode::NoRdmaPath,
                format!("no RDMA connection between the devices: {error}"),
            )
            .hint("`rdma link` shows whether both ports are up")
        };
        if exchanged {
            pairs.prepare(&self.endpoint).map_err(failed)?;
        }
        let own = pairs.address(&self.endpoint, job.seed as u32);
        let peer: Address = protocol.swap(&own)?;
        match &self.side {
            _ if exchanged => pairs
                .join(&self.endpoint, &own, &peer, job.setup.timeout_exponent())
                .map_err(failed)?,
            Side::Near(to) => pairs.dial(to.ip(), &own, &peer, timeout)?,
            Side::Far(_) => pairs.answer(&self.endpoint, &peer, timeout).map_err(failed)?,
        }
        Ok(peer)
    }
}

/// What a run's messages have: both ends know it.
fn pattern(job: &VerbsJob) -> Vec<u8> {
    let mut rng = Rng::new(job.seed);
    let len = usize::try_from(job.size_bytes.0).unwrap_or(1);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&rng.next_u64().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

fn here(error: &io::Error) -> Error {
    Error::new(
        Fault::Here,
        ErrorCode::ProfileEnd,
        format!("running an end of the measurement: {error}"),
    )
}

fn locked(job: &VerbsJob, error: &io::Error) -> Error {
    Error::new(
        Fault::Here,
        ErrorCode::LockedMemory,
        format!("the device has no room for messages of {}: {error}", job.size_bytes),
    )
    .hint("raise the limit of locked memory (`ulimit -l`), or measure smaller messages")
}
