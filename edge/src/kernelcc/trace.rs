//! What the flows of a control do: window, threshold, rtt and losses, as the control itself tells or as TCP_INFO has it.

use super::diag;
use super::list::pin_paths;
use super::load::Held;
use farline_core::units::{Error, Fault, Span};
use libbpf_rs::query::MapInfoIter;
use libbpf_rs::{MapHandle, MapType, RingBuffer, RingBufferBuilder};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Who told a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    /// The control itself, through its ring buffer.
    Control,
    /// TCP_INFO, asked from time to time.
    TcpInfo,
}

/// A flow at a moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// Microseconds of the kernel's monotonic clock.
    pub time_us: u64,
    /// The same number for the same flow.
    pub flow: u64,
    /// The control's registered name.
    pub control: String,
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
    /// Packets found lost when the control tells, sent again when TCP_INFO does, over the flow's life.
    pub lost: u32,
    /// Packets delivered over the flow's life, modulo 2^32.
    pub delivered: u32,
    /// `open`, `disorder`, `cwr`, `recovery` or `loss`.
    pub state: &'static str,
    /// Whether the sample was taken because the state changed.
    pub changed: bool,
    /// Who told it.
    pub told: Told,
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

fn parse(event: &[u8]) -> Option<Sample> {
    let event: &[u8; EVENT] = event.get(..EVENT)?.try_into().ok()?;
    let u32_at = |at: usize| u32::from_ne_bytes([event[at], event[at + 1], event[at + 2], event[at + 3]]);
    let u64_at = |at: usize| u64::from(u32_at(at)) | (u64::from(u32_at(at + 4)) << 32);
    let address: IpAddr = if u16::from_ne_bytes([event[40], event[41]]) == 2 {
        Ipv4Addr::new(event[48], event[49], event[50], event[51]).into()
    } else {
        Ipv6Addr::from(<[u8; 16]>::try_from(&event[48..64]).ok()?).to_canonical()
    };
    let name = &event[64..80];
    let name = &name[..name.iter().position(|&byte| byte == 0).unwrap_or(name.len())];
    Some(Sample {
        time_us: u64_at(0),
        flow: u64_at(8),
        control: String::from_utf8_lossy(name).into_owned(),
        local_port: u16::from_ne_bytes([event[36], event[37]]),
        remote: SocketAddr::new(address, u16::from_be_bytes([event[38], event[39]])),
        cwnd: u32_at(16),
        ssthresh: threshold(u32_at(20)),
        srtt_us: u32_at(24),
        lost: u32_at(28),
        delivered: u32_at(32),
        state: state(event[42]),
        changed: event[43] == 1,
        told: Told::Control,
    })
}

/// The samples of all flows of one control.
pub struct Trace {
    name: String,
    from: From,
}

impl std::fmt::Debug for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Trace({})", self.name)
    }
}

enum From {
    Ring(RingBuffer<'static>, Rc<RefCell<VecDeque<Sample>>>),
    TcpInfo { every: Duration, next: Instant, ready: VecDeque<Sample> },
}

impl Trace {
    /// The trace of a control that this process holds.
    ///
    /// # Errors
    /// [`Fault::Here`] when its ring buffer cannot be read.
    pub fn of(held: &Held, every: Span) -> Result<Trace, Error> {
        match held.events() {
            Some(events) => Trace::ring(&held.name, std::slice::from_ref(events)),
            None => Trace::of_name(&held.name, every),
        }
    }

    /// The trace of a control that is registered, by whomever: from Farline's ring buffer when it is Farline's and this process
    /// may read it, else from TCP_INFO every `every`.
    ///
    /// # Errors
    /// [`Fault::Here`] when a ring buffer cannot be read.
    pub fn of_name(name: &str, every: Span) -> Result<Trace, Error> {
        let pinned = pin_paths(name).1;
        let rings: Vec<MapHandle> = if Path::new(&pinned).exists() {
            MapHandle::from_pinned_path(&pinned).into_iter().collect()
        } else if super::record::holder(name).is_some() {
            let maps = MapInfoIter::default().filter(|info| info.ty == MapType::RingBuf);
            let ours = maps.filter(|info| info.name.to_str().is_some_and(|name| name.starts_with("ev_")));
            ours.filter_map(|info| MapHandle::from_map_id(info.id).ok()).collect()
        } else {
            Vec::new()
        };
        if !rings.is_empty() {
            return Trace::ring(name, &rings);
        }
        Ok(Trace::by_tcp_info(name, every))
    }

    /// The trace of a control, whosever it is, from TCP_INFO every `every`: of the flows in this thread's network namespace.
    pub fn by_tcp_info(name: &str, every: Span) -> Trace {
        let from = From::TcpInfo { every: every.into(), next: Instant::now(), ready: VecDeque::new() };
        Trace { name: name.to_owned(), from }
    }

    fn ring(name: &str, rings: &[MapHandle]) -> Result<Trace, Error> {
        let failed = |error: libbpf_rs::Error| {
            Error::new(Fault::Here, "congestion-trace", format!("reading the trace of {name}: {error}"))
        };
        let samples = Rc::new(RefCell::new(VecDeque::new()));
        let mut builder = RingBufferBuilder::new();
        for ring in rings {
            let (samples, name) = (Rc::clone(&samples), name.to_owned());
            let note = move |event: &[u8]| {
                samples.borrow_mut().extend(parse(event).filter(|sample| sample.control == name));
                0
            };
            builder.add(ring, note).map_err(failed)?;
        }
        let ring = builder.build().map_err(failed)?;
        // Events from before the trace are no part of it.
        ring.consume().map_err(failed)?;
        samples.borrow_mut().clear();
        Ok(Trace { name: name.to_owned(), from: From::Ring(ring, samples) })
    }

    /// The next sample, or `None` when none came within `patience`.
    pub fn next(&mut self, patience: Duration) -> Option<Sample> {
        match &mut self.from {
            From::Ring(ring, samples) => {
                if samples.borrow().is_empty() {
                    // Interrupted by a signal is as good as nothing yet.
                    let _ = ring.poll(patience);
                }
                samples.borrow_mut().pop_front()
            }
            From::TcpInfo { every, next, ready } => {
                let until = Instant::now() + patience;
                while ready.is_empty() {
                    let now = Instant::now();
                    if *next > until {
                        std::thread::sleep(until.saturating_duration_since(now));
                        return None;
                    }
                    std::thread::sleep(next.saturating_duration_since(now));
                    *next = (*next + *every).max(Instant::now());
                    ready.extend(asked(&self.name));
                }
                ready.pop_front()
            }
        }
    }
}

/// The flows of `name` as TCP_INFO has them.
fn asked(name: &str) -> Vec<Sample> {
    let flows = diag::flows().unwrap_or_default();
    let now = clock_gettime(ClockId::Monotonic);
    let time_us = now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1_000;
    let ours = flows.iter().filter(|flow| flow.control == name);
    let sample = |flow: &diag::Flow| Sample {
        time_us,
        flow: flow.cookie,
        control: name.to_owned(),
        local_port: flow.local_port,
        remote: flow.remote,
        cwnd: flow.window(),
        ssthresh: threshold(flow.threshold()),
        srtt_us: flow.rtt_us(),
        lost: flow.retransmitted(),
        delivered: flow.delivered(),
        state: state(flow.state()),
        changed: false,
        told: Told::TcpInfo,
    };
    ours.map(sample).collect()
}
