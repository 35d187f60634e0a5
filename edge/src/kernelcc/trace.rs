//! What the flows of a control do: window, threshold, rtt and losses, as the control itself tells
//! or as TCP_INFO has it.

use super::bpf::{Events, Ring};
use super::claims::pin_paths;
use super::diag;
use super::load::CcGuard;
use super::record::{self, Claim, Entry, Record};
use farline_core::congestion::ControlName;
use farline_core::units::{Error, ErrorCode, Fault, Span};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Who told a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SampleSource {
    /// The control itself, through its ring buffer.
    Control,
    /// TCP_INFO, asked from time to time.
    TcpInfo,
}

/// A flow at a moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FlowSample {
    /// Microseconds of the kernel's monotonic clock.
    pub time_us: u64,
    /// The same number for the same flow.
    pub flow: u64,
    /// The control's registered name.
    pub control: ControlName,
    /// The flow's local port.
    pub local_port: u16,
    /// The flow's other end.
    pub remote: SocketAddr,
    /// Congestion window, in packets.
    pub cwnd: u32,
    /// Slow-start threshold, in packets; `None` before the first loss.
    pub ssthresh: Option<u32>,
    /// Smoothed round-trip time in microseconds.
    pub srtt_us: u32,
    /// Packets found lost when the control tells, sent again when TCP_INFO does, over the flow's
    /// life.
    pub lost: u32,
    /// Packets delivered over the flow's life, modulo 2^32.
    pub delivered: u32,
    /// `open`, `disorder`, `cwr`, `recovery` or `loss`.
    pub state: &'static str,
    /// Whether the sample was taken because the state changed.
    pub changed: bool,
    /// Who told it.
    pub told: SampleSource,
}

/// Without a loss so far (include/net/tcp.h).
const NO_THRESHOLD: u32 = 0x7fff_ffff;

fn threshold(packets: u32) -> Option<u32> {
    (packets < NO_THRESHOLD).then_some(packets)
}

fn state(number: u8) -> &'static str {
    match number {
        0 => "open",
        1 => "disorder",
        2 => "cwr",
        3 => "recovery",
        _ => "loss",
    }
}

/// Bytes of `struct event` of `bpf/flow.h`.
const EVENT: usize = 80;

fn parse(event: &[u8]) -> Option<FlowSample> {
    let event: &[u8; EVENT] = event.get(..EVENT)?.try_into().ok()?;
    let u32_at =
        |at: usize| u32::from_ne_bytes([event[at], event[at + 1], event[at + 2], event[at + 3]]);
    let u64_at = |at: usize| u64::from(u32_at(at)) | (u64::from(u32_at(at + 4)) << 32);
    let address: IpAddr = if u16::from_ne_bytes([event[40], event[41]]) == 2 {
        Ipv4Addr::new(event[48], event[49], event[50], event[51]).into()
    } else {
        Ipv6Addr::from(<[u8; 16]>::try_from(&event[48..64]).ok()?).to_canonical()
    };
    Some(FlowSample {
        time_us: u64_at(0),
        flow: u64_at(8),
        control: ControlName::from_kernel(&event[64..80])?,
        local_port: u16::from_ne_bytes([event[36], event[37]]),
        remote: SocketAddr::new(address, u16::from_be_bytes([event[38], event[39]])),
        cwnd: u32_at(16),
        ssthresh: threshold(u32_at(20)),
        srtt_us: u32_at(24),
        lost: u32_at(28),
        delivered: u32_at(32),
        state: state(event[42]),
        changed: event[43] == 1,
        told: SampleSource::Control,
    })
}

/// What has come of a ring buffer and was not taken yet.
struct Arrived {
    name: ControlName,
    /// No two samples of a flow without a change of state are closer than these microseconds.
    every_us: u64,
    ready: VecDeque<FlowSample>,
    /// The flows by where the kernel has them, which is nobody's business, and by their ends, as
    /// the kernel takes a place again: the number that each got, and when its last sample was.
    flows: HashMap<(u64, u16, SocketAddr), (u64, Option<u64>)>,
}

impl Arrived {
    fn new(name: ControlName, every: Span) -> Arrived {
        let every_us = every.as_nanos() / 1_000;
        Arrived { name, every_us, ready: VecDeque::new(), flows: HashMap::new() }
    }

    fn take(&mut self, mut sample: FlowSample) {
        if sample.control != self.name {
            return;
        }
        let next = self.flows.len() as u64 + 1;
        let flow = self
            .flows
            .entry((sample.flow, sample.local_port, sample.remote))
            .or_insert((next, None));
        sample.flow = flow.0;
        if !sample.changed {
            if flow.1.is_some_and(|last| sample.time_us.saturating_sub(last) < self.every_us) {
                return;
            }
            flow.1 = Some(sample.time_us);
        }
        self.ready.push_back(sample);
    }
}

/// The samples of all flows of one control.
pub struct Trace {
    name: ControlName,
    from: From,
    /// Of a ring buffer there is one reader: each takes what the other then lacks.
    _reader: Option<Record>,
}

impl std::fmt::Debug for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Trace({})", self.name)
    }
}

enum From {
    Ring(Ring, Rc<RefCell<Arrived>>),
    TcpInfo { every: Duration, next: Instant, ready: VecDeque<FlowSample> },
}

/// TCP_INFO is asked no more often: each time the kernel goes through all connections.
const LEAST: Duration = Duration::from_millis(1);

impl Trace {
    /// The trace of a control that this process holds, with a sample of each flow `every` so often
    /// at most.
    ///
    /// # Errors
    /// [`Fault::Here`] when its ring buffer cannot be read; [`Fault::You`] when somebody else reads
    /// it.
    pub fn of(guard: &CcGuard, every: Span) -> Result<Trace, Error> {
        match guard.events() {
            Some(events) => Trace::ring(guard.name, events, every),
            None => Trace::of_name(guard.name, every),
        }
    }

    /// The trace of a control that is registered, by whomever: from Farline's ring buffer when it
    /// is Farline's and this process may read it, else from TCP_INFO; [`Trace::told`] says which.
    ///
    /// # Errors
    /// As [`Trace::of`].
    pub fn of_name(name: ControlName, every: Span) -> Result<Trace, Error> {
        let pinned = pin_paths(name).1;
        let ring = if Path::new(&pinned).exists() {
            Events::pinned(&pinned)
        } else if let Claim::Living(Entry { ring: Some(ring), .. }) =
            record::claim(&record::holders(), name)
        {
            Events::numbered(ring)
        } else {
            None
        };
        match ring {
            Some(ring) => Trace::ring(name, &ring, every),
            None => Ok(Trace::by_tcp_info(name, every)),
        }
    }

    /// The trace of a control, whosever it is, from TCP_INFO every `every`: of the flows in this
    /// thread's network namespace.
    pub fn by_tcp_info(name: ControlName, every: Span) -> Trace {
        let from = From::TcpInfo {
            every: LEAST.max(every.into()),
            next: Instant::now(),
            ready: VecDeque::new(),
        };
        Trace { name, from, _reader: None }
    }

    fn ring(name: ControlName, events: &Events, every: Span) -> Result<Trace, Error> {
        let reader = match Record::new(&record::readers(), name, None, false) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                return Err(traced(name));
            }
            // Without a place to say so nobody hears of this reader, or of another.
            reader => reader.ok(),
        };
        let arrived = Rc::new(RefCell::new(Arrived::new(name, every)));
        let note = {
            let arrived = Rc::clone(&arrived);
            move |event: &[u8]| {
                if let Some(sample) = parse(event) {
                    arrived.borrow_mut().take(sample);
                }
            }
        };
        let ring = events.read(note).map_err(|error| {
            let message = format!("reading the trace of {name}: {error}");
            Error::new(Fault::Here, ErrorCode::CongestionTrace, message)
        })?;
        *arrived.borrow_mut() = Arrived::new(name, every);
        Ok(Trace { name, from: From::Ring(ring, arrived), _reader: reader })
    }

    /// Who tells the samples.
    pub fn told(&self) -> SampleSource {
        match self.from {
            From::Ring(..) => SampleSource::Control,
            From::TcpInfo { .. } => SampleSource::TcpInfo,
        }
    }

    /// The next sample, or `None` when none came within `timeout`.
    pub fn next(&mut self, timeout: Duration) -> Option<FlowSample> {
        match &mut self.from {
            From::Ring(ring, arrived) => {
                if arrived.borrow().ready.is_empty() {
                    ring.poll(timeout);
                }
                arrived.borrow_mut().ready.pop_front()
            }
            From::TcpInfo { every, next, ready } => {
                let until = Instant::now() + timeout;
                while ready.is_empty() {
                    let now = Instant::now();
                    if *next > until {
                        std::thread::sleep(until.saturating_duration_since(now));
                        return None;
                    }
                    std::thread::sleep(next.saturating_duration_since(now));
                    *next = (*next + *every).max(Instant::now());
                    ready.extend(asked(self.name));
                }
                ready.pop_front()
            }
        }
    }
}

fn traced(name: ControlName) -> Error {
    let by = match record::claim(&record::readers(), name) {
        Claim::Living(Entry { process: Some(process), .. }) => format!("process {process}"),
        _ => "another process".to_owned(),
    };
    Error::new(
        Fault::You,
        ErrorCode::CongestionTraced,
        format!("`{name}` is traced by {by}, and what the one reads the other would lack"),
    )
    .hint("end that trace first")
}

/// The flows of `name` as TCP_INFO has them.
fn asked(name: ControlName) -> Vec<FlowSample> {
    let flows = diag::flows().unwrap_or_default();
    let now = clock_gettime(ClockId::Monotonic);
    let time_us = now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1_000;
    let ours = flows.iter().filter(|flow| flow.control == name);
    let sample = |flow: &diag::Flow| FlowSample {
        time_us,
        flow: flow.cookie,
        control: name,
        local_port: flow.local_port,
        remote: flow.remote,
        cwnd: flow.window(),
        ssthresh: threshold(flow.threshold()),
        srtt_us: flow.rtt_us(),
        lost: flow.retransmitted(),
        delivered: flow.delivered(),
        state: state(flow.state()),
        changed: false,
        told: SampleSource::TcpInfo,
    };
    ours.map(sample).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use farline_core::congestion::Algorithm;

    /// `struct event` of `bpf/flow.h`, of the flow at `address`.
    fn event(time_us: u64, address: u64, port: u16, changed: bool) -> Vec<u8> {
        let mut event = vec![0; EVENT];
        event[..8].copy_from_slice(&time_us.to_ne_bytes());
        event[8..16].copy_from_slice(&address.to_ne_bytes());
        event[36..38].copy_from_slice(&port.to_ne_bytes());
        event[40..42].copy_from_slice(&2u16.to_ne_bytes());
        event[43] = u8::from(changed);
        event[64..68].copy_from_slice(b"htcp");
        event
    }

    #[test]
    fn flows_get_numbers_no_addresses_and_lines_as_asked() {
        let mut arrived = Arrived::new(Algorithm::HTcp.into(), Span::from_millis(500));
        let address = 0xffff_8881_0123_4567;
        // Every tenth of a second for two seconds, and a loss in between; then another connection
        // in the same place.
        for step in 0..20 {
            arrived.take(parse(&event(step * 100_000, address, 1, false)).expect("an event"));
        }
        arrived.take(parse(&event(1_950_000, address, 1, true)).expect("an event"));
        arrived.take(parse(&event(2_000_000, address, 2, false)).expect("an event"));
        arrived.take(parse(&event(2_000_000, address + 64, 3, false)).expect("an event"));
        let found: Vec<(u64, u64)> =
            arrived.ready.iter().map(|sample| (sample.flow, sample.time_us / 1_000)).collect();
        assert_eq!(
            found,
            [(1, 0), (1, 500), (1, 1_000), (1, 1_500), (1, 1_950), (2, 2_000), (3, 2_000)]
        );
        let mut others = Arrived::new("htcp_2".parse().expect("a name"), Span::ZERO);
        others.take(parse(&event(0, address, 1, false)).expect("an event"));
        assert!(others.ready.is_empty(), "another control's");
    }
}
