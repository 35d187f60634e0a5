//! `farline_core::congestion`'s machines as the congestion controls of QUIC connections.
//!
//! quinn tells a control of bytes, packet by packet; the machines count packets, and are told once
//! for each acknowledgement what the newest packet in it says of the path, as Linux tells its
//! controls. Pacing is quinn's: five quarters of a window each round trip (RFC 9002, section 7.7),
//! so that a machine which wants to be paced otherwise (BBR) is held by its window alone.

use crate::channels::handle::FlowState;
use crate::channels::session_buffers::{BufferShare, SessionBuffers, UNPROVEN_BUFFER};
use crate::channels::socket::TcpOptions;
use crate::sys::lock::lock;
use farline_core::congestion::{
    Acked, Algorithm, Constants, Control, Event, SavedPath, Start, Yielded,
};
use farline_core::units::{Bytes, Error, Rate, Rng, Span, Time};
use quinn::congestion::{Controller, ControllerFactory};
use quinn_proto::RttEstimator;
use std::any::Any;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

/// Headers of IPv6 and UDP (RFC 8200, 768).
const BELOW: u64 = 48;

/// The window of a held rate, in least round trips, and what acknowledgements may be late by.
const HELD_SPARE: f64 = 1.05;
const HELD_WAITS: Span = Span::from_millis(5);

/// Packets of the least window (RFC 9002, section 7.2).
const LEAST_PACKETS: f64 = 2.0;

/// What a connection may keep of what it sends beyond twice its control's window.
pub(super) const LEAST_SEND_WINDOW: u64 = 1 << 20;

/// Packets that may have been sent over a connection that still begins.
const MOST_BEFORE: u64 = 200;

/// What a connection's path was seen to be, for who looks from another thread.
#[derive(Debug)]
pub(super) struct Meter {
    /// Nanoseconds of the least round trip; the largest number before there was one.
    least_rtt: AtomicU64,
    /// Bytes that arrived, packets that were sent, and those that were lost.
    arrived: AtomicU64,
    sent: AtomicU64,
    lost: AtomicU64,
    /// Nanoseconds of the smoothed round trip; the largest number before there was one.
    smoothed_rtt: AtomicU64,
    /// Bytes that the control lets be on their way, and what the connection was last let keep of
    /// what it sends.
    window: AtomicU64,
    send_window: AtomicU64,
    /// Bytes that it may once send without proof, being over a path that is known: a writer that
    /// waits for what it wrote to arrive would have none for that.
    jump: AtomicU64,
    /// Its part of what its session may keep, once it is known whose it is, and what the user wants
    /// it to keep.
    share: OnceLock<BufferShare>,
    buffer: Option<Bytes>,
    /// What an earlier connection saw of the path, from when it is told until the control knows.
    saved: Mutex<Option<SavedPath>>,
    /// What is left of a held rate, once some of it was given up.
    yielded: Mutex<Option<Yielded>>,
    /// The control of a session that was known only after the connection had begun.
    chosen: Mutex<Option<QuicControl>>,
    /// The last one of these.
    last: Mutex<QuicControl>,
}

impl Default for Meter {
    fn default() -> Meter {
        Meter {
            least_rtt: AtomicU64::new(u64::MAX),
            arrived: AtomicU64::default(),
            sent: AtomicU64::default(),
            lost: AtomicU64::default(),
            smoothed_rtt: AtomicU64::new(u64::MAX),
            window: AtomicU64::default(),
            send_window: AtomicU64::default(),
            jump: AtomicU64::default(),
            share: OnceLock::new(),
            buffer: None,
            saved: Mutex::default(),
            yielded: Mutex::default(),
            chosen: Mutex::default(),
            last: Mutex::default(),
        }
    }
}

impl Meter {
    /// Of one of the connections of a session, which keep so much where the user says so.
    pub(super) fn of(session: &Arc<SessionBuffers>, buffer: Option<Bytes>) -> Arc<Meter> {
        let meter = Meter::unproven(buffer);
        meter.join(session);
        meter
    }

    /// Of one of which nobody knows yet whose it is.
    pub(super) fn unproven(buffer: Option<Bytes>) -> Arc<Meter> {
        Arc::new(Meter { buffer, ..Meter::default() })
    }

    /// It is one of this session's, from here on.
    pub(super) fn join(&self, session: &Arc<SessionBuffers>) {
        self.share.get_or_init(|| session.join());
    }

    /// The least round trip; `None` before there was one.
    pub(super) fn least_rtt(&self) -> Option<Span> {
        span(&self.least_rtt)
    }

    /// Bytes that the connection may keep in each direction now.
    fn most(&self) -> u64 {
        let share = self.share.get().map_or(UNPROVEN_BUFFER.into(), BufferShare::len);
        self.buffer.map_or(share, |Bytes(len)| len.min(share))
    }

    /// As much of `wanted` as the connection may keep.
    pub(super) fn as_shared(&self, wanted: u64) -> u64 {
        let most = self.most();
        if let Some(share) = self.share.get().filter(|share| wanted > most && most == share.len()) {
            share.is_too_small();
        }
        wanted.min(most)
    }

    /// What the connection may keep of what it sends: twice what its control lets be on its way,
    /// and a little for what is written meanwhile. `None` while that is about what it was.
    pub(super) fn new_send_window(&self) -> Option<u64> {
        let read = |window: &AtomicU64| window.load(Ordering::Relaxed);
        let window = read(&self.window).max(read(&self.jump));
        let wanted = self.as_shared(window.saturating_mul(2).saturating_add(LEAST_SEND_WINDOW));
        let before = self.send_window.load(Ordering::Relaxed);
        let is_new = wanted > before || wanted < before - before / 4;
        is_new.then(|| self.send_window.store(wanted, Ordering::Relaxed)).map(|()| wanted)
    }

    /// How far the connection is.
    pub(super) fn flow(self: &Arc<Meter>) -> FlowState {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        FlowState {
            connection: Arc::as_ptr(self) as usize,
            arrived: read(&self.arrived),
            rtt: self.least_rtt(),
            smoothed_rtt: span(&self.smoothed_rtt),
            packets: (read(&self.sent), read(&self.lost)),
        }
    }

    /// What is left of a held rate, once some of it was given up.
    pub(super) fn yielded(&self) -> Option<Yielded> {
        *lock(&self.yielded)
    }

    /// Has a connection of which nobody knew whose it would be go on under `control`.
    pub(super) fn choose(&self, control: QuicControl) {
        let mut last = lock(&self.last);
        if *last != control {
            *last = control;
            *lock(&self.chosen) = Some(control);
        }
    }

    /// Has a connection that has only begun go by what an earlier one saw; says whether it does.
    pub(super) fn resume(&self, saved: SavedPath) -> bool {
        let begins = self.sent.load(Ordering::Relaxed) < MOST_BEFORE;
        if begins {
            *lock(&self.saved) = Some(saved);
            self.jump.store(saved.jump().0, Ordering::Relaxed);
        }
        begins
    }
}

/// What was noted of a round trip; `None` before there was one.
fn span(nanos: &AtomicU64) -> Option<Span> {
    let nanos = nanos.load(Ordering::Relaxed);
    (nanos < u64::MAX).then_some(Span::from_nanos(nanos))
}

/// Which control a connection has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QuicControl {
    pub(super) algorithm: Algorithm,
    /// The booked rate that it holds, if it holds one.
    held: Option<Rate>,
}

impl Default for QuicControl {
    fn default() -> QuicControl {
        QuicControl { algorithm: Algorithm::Cubic, held: None }
    }
}

impl QuicControl {
    /// As `sockets` say; CUBIC where nothing is said.
    ///
    /// # Errors
    /// When it is none of ours.
    pub(super) fn of(sockets: &TcpOptions) -> Result<QuicControl, Error> {
        let algorithm = match (sockets.held, sockets.congestion) {
            (Some(_), _) => Algorithm::Held,
            (None, None) => QuicControl::default().algorithm,
            (None, Some(name)) => name.as_str().parse()?,
        };
        Ok(QuicControl { algorithm, held: sockets.held })
    }
}

/// Makes controls of that kind, which note what they see in `meter`.
pub(super) fn controls(
    control: QuicControl,
    meter: &Arc<Meter>,
) -> Arc<dyn ControllerFactory + Send + Sync> {
    Arc::new(Controls { control, meter: Arc::clone(meter) })
}

#[derive(Debug)]
struct Controls {
    control: QuicControl,
    meter: Arc<Meter>,
}

impl ControllerFactory for Controls {
    fn build(self: Arc<Self>, now: Instant, mtu: u16) -> Box<dyn Controller> {
        Box::new(Adapted::new(self, now, mtu))
    }
}

/// What was known when packets of one moment were sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Instant,
    /// Packets that had been delivered, and when the last of them was.
    delivered: u64,
    delivered_at: Instant,
    /// When the newest packet was sent that had been acknowledged.
    first_sent: Instant,
}

/// One connection's control.
struct Adapted {
    made_by: Arc<Controls>,
    /// Whose machine it is now.
    control: QuicControl,
    begun: Instant,
    mtu: u64,
    /// What it was when the connection began.
    first_mtu: u64,
    /// Behind a lock that nobody waits for, since a control may be asked from any thread.
    machine: Mutex<Box<dyn Control>>,
    /// Moments of sending whose packets may be acknowledged yet, oldest first.
    sent: VecDeque<Sent>,
    delivered: u64,
    delivered_at: Instant,
    first_sent: Instant,
    /// Bytes, and the newest moment of sending, of the acknowledgement that is being told.
    acked: u64,
    newest: Option<Instant>,
    /// Whether nothing was on its way.
    is_idle: bool,
    /// Packets sent up to here belong to a window whose loss was told.
    recovery: Option<Instant>,
    /// Whether it began from what an earlier connection saw.
    resumes: bool,
}

impl Controls {
    /// A machine of `control` for packets of `mtu`, which begins as `start` says.
    fn machine(&self, control: QuicControl, mtu: u64, start: Start) -> Box<dyn Control> {
        let QuicControl { algorithm, held } = control;
        // An Ethernet's wire has the headers of IPv6 and UDP too.
        let packet = Bytes(mtu + if held.is_some() { BELOW } else { 0 });
        let start = Start { packet, held, ..start };
        // BBR draws the phase that it begins with; the place is as good a seed as any.
        let seed = Rng::new(Arc::as_ptr(&self.meter) as u64);
        algorithm.control(Constants::Linux, start, &seed)
    }
}

impl Adapted {
    fn new(made_by: Arc<Controls>, now: Instant, mtu: u16) -> Adapted {
        let mtu = u64::from(mtu);
        let control = made_by.control;
        let machine = made_by.machine(control, mtu, Start::default());
        Adapted {
            made_by,
            control,
            begun: now,
            mtu,
            first_mtu: mtu,
            machine: Mutex::new(machine),
            sent: VecDeque::new(),
            delivered: 0,
            delivered_at: now,
            first_sent: now,
            acked: 0,
            newest: None,
            is_idle: true,
            recovery: None,
            resumes: false,
        }
    }

    fn on_event(&mut self, now: Instant, event: Event) {
        let now = Time::from_nanos(nanos(self.begun, now));
        self.machine.get_mut().unwrap_or_else(PoisonError::into_inner).handle(now, event);
    }

    /// What was known when what was sent at `at` was sent; older moments are forgotten.
    fn sent_at(&mut self, at: Instant) -> Option<Sent> {
        while self.sent.front().is_some_and(|sent| sent.at < at) {
            self.sent.pop_front();
        }
        self.sent.front().filter(|sent| sent.at == at).copied()
    }
}

impl Controller for Adapted {
    fn on_sent(&mut self, now: Instant, _bytes: u64, _last_packet_number: u64) {
        self.made_by.meter.sent.fetch_add(1, Ordering::Relaxed);
        if self.is_idle {
            (self.delivered_at, self.first_sent, self.is_idle) = (now, now, false);
        }
        if self.sent.back().is_none_or(|sent| sent.at != now) {
            self.sent.push_back(Sent {
                at: now,
                delivered: self.delivered,
                delivered_at: self.delivered_at,
                first_sent: self.first_sent,
            });
        }
    }

    fn on_ack(&mut self, _: Instant, sent: Instant, bytes: u64, _: bool, rtt: &RttEstimator) {
        self.acked += bytes;
        let smoothed = u64::try_from(rtt.get().as_nanos()).unwrap_or(u64::MAX);
        self.made_by.meter.smoothed_rtt.store(smoothed, Ordering::Relaxed);
        self.newest = self.newest.max(Some(sent));
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, _: Option<u64>) {
        self.is_idle = in_flight == 0;
        let (bytes, Some(newest)) = (std::mem::take(&mut self.acked), self.newest.take()) else {
            return;
        };
        if let Some(control) = lock(&self.made_by.meter.chosen).take() {
            self.control = control;
            *self.machine.get_mut().unwrap_or_else(PoisonError::into_inner) =
                self.made_by.machine(control, self.mtu, Start::default());
            self.recovery = None;
        }
        if let Some(saved) = lock(&self.made_by.meter.saved).take() {
            // What was sent before longer packets were found is no whole window of those.
            let shorter = self.first_mtu as f64 / self.mtu as f64;
            let window = (Start::default().window * shorter).max(LEAST_PACKETS);
            let start = Start { window, saved: Some(saved), ..Start::default() };
            *self.machine.get_mut().unwrap_or_else(PoisonError::into_inner) =
                self.made_by.machine(self.control, self.mtu, start);
            (self.recovery, self.resumes) = (None, true);
        }
        self.made_by.meter.arrived.fetch_add(bytes, Ordering::Relaxed);
        let rtt = nanos(newest, now);
        self.made_by.meter.least_rtt.fetch_min(rtt, Ordering::Relaxed);
        let rtt = Span::from_nanos(rtt);
        self.on_event(now, Event::Rtt(rtt));
        if self.recovery.is_some_and(|until| newest > until) {
            self.recovery = None;
            self.on_event(now, Event::Recovered);
        }
        let packets = bytes.div_ceil(self.mtu).max(1);
        self.delivered += packets;
        let sent = self.sent_at(newest);
        let (delivered_at_send, interval) = sent.map_or((self.delivered, 0), |sent| {
            let sending = nanos(sent.first_sent, newest);
            (sent.delivered, sending.max(nanos(sent.delivered_at, now)))
        });
        (self.delivered_at, self.first_sent) = (now, newest);
        let acked = Acked {
            packets: u32::try_from(packets).unwrap_or(u32::MAX),
            delivered: self.delivered,
            delivered_at_send,
            lost: self.made_by.meter.lost.load(Ordering::Relaxed),
            interval: Span::from_nanos(interval),
            in_flight: u32::try_from((in_flight + bytes) / self.mtu).unwrap_or(u32::MAX),
            window_limited: !app_limited,
        };
        self.on_event(now, Event::Acked(acked));
        let machine = self.machine.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(yielded) = machine.yielded() {
            *lock(&self.made_by.meter.yielded) = Some(yielded);
        }
        self.made_by.meter.window.store(self.window(), Ordering::Relaxed);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, persistent: bool, lost: u64) {
        let packets = lost.div_ceil(self.mtu.max(1));
        self.made_by.meter.lost.fetch_add(packets, Ordering::Relaxed);
        // The path does not hold what was known of it, and its writers need not wait with so much.
        self.made_by.meter.jump.store(0, Ordering::Relaxed);
        if persistent {
            self.recovery = None;
            return self.on_event(now, Event::Timeout);
        }
        // Once for each window of data.
        if self.recovery.is_some_and(|until| sent <= until) {
            return;
        }
        match lost {
            0 => self.on_event(now, Event::Ecn),
            _ => {
                self.recovery = Some(now);
                self.on_event(now, Event::Loss);
            }
        }
    }

    fn on_mtu_update(&mut self, mtu: u16) {
        // What a flow that resumes may send without proof is so many bytes, and its machine has
        // them as packets of the length that was known then.
        if !self.resumes {
            self.mtu = u64::from(mtu);
        }
    }

    fn window(&self) -> u64 {
        let machine = self.machine.lock().unwrap_or_else(PoisonError::into_inner);
        let allowed = machine.poll();
        let window = (allowed.window * self.mtu as f64) as u64;
        let least_rtt = self.made_by.meter.least_rtt();
        let window = match (self.control.held, allowed.pacing, least_rtt) {
            // quinn paces by the window alone: that of a held rate is what it has on its way over
            // an empty path, and a little that waits.
            (Some(_), Some(rate), Some(rtt)) => {
                window.min(rate.bytes_in(rtt.mul_f64(HELD_SPARE) + HELD_WAITS).0 + self.mtu)
            }
            _ => window,
        };
        window.max((LEAST_PACKETS * self.mtu as f64) as u64)
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        // Asked for when the peer's address changed: what is known may be of another path.
        let mtu = u16::try_from(self.mtu).unwrap_or(u16::MAX);
        Box::new(Adapted::new(Arc::clone(&self.made_by), Instant::now(), mtu))
    }

    fn initial_window(&self) -> u64 {
        (Start::default().window * self.mtu as f64) as u64
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

fn nanos(from: Instant, to: Instant) -> u64 {
    u64::try_from(to.saturating_duration_since(from).as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::pacing_limits::PacingLimit;

    #[test]
    fn a_share_is_told_where_a_window_asks_for_more() {
        static OWN: AtomicU64 = AtomicU64::new(0);
        let session = Arc::new(SessionBuffers::among(&OWN));
        let struck = session.struck();
        let meter = Meter::of(&session, None);
        meter.window.store(100 << 20, Ordering::Relaxed);
        assert_eq!(meter.new_send_window(), Some(201 << 20));
        assert_eq!(struck.take(), []);
        let _another = session.join();
        assert_eq!(meter.new_send_window(), Some(128 << 20));
        assert_eq!(struck.take(), [PacingLimit::ChannelBuffers]);
        // What its user chose is nobody's limit.
        let chosen = Meter::of(&session, Some(Bytes(1 << 20)));
        chosen.window.store(100 << 20, Ordering::Relaxed);
        assert_eq!((chosen.new_send_window(), struck.take()), (Some(1 << 20), Vec::new()));
    }
}
