//! A test with a reflector of STAMP or TWAMP Light: every packet comes back, so that losses are of
//! both ways together.

use super::connected::bound;
use super::host::{DeviceDrops, TestClock, clock_state, kernel_clock, now};
use super::receive_watch::ReceiveWatch;
use super::reflect::is_passing;
use super::test::{LineProgress, LineRequestOptions, SILENT, TIMEOUT, unanswered};
use crate::sys::datagrams::{DatagramBuffers, prepare};
use crate::sys::transmit_times::TransmitTimes;
use farline_core::line::stamp::{
    AUTHENTICATED, Mac, PORT, ReflectorPacket, SenderPacket, StampTime, UNAUTHENTICATED,
};
use farline_core::line::{
    Arrived, ClockState, DelaySample, KernelTimes, LineSettings, LineState, LineTest,
    RatioDecision, ReceiveDrops, SentSecond, Tally, TestedSecond, framed_bits,
};
use farline_core::units::{Error, ErrorCode, Fault, Setting, Span, Time};
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::sync::atomic::Ordering;
use std::time::Duration;

const SECOND: u64 = 1_000_000_000;
/// How long a receive waits: so far apart packets are sent late at most.
const WAIT: Duration = Duration::from_micros(200);
/// So long after its end nothing more comes of a second.
const GRACE: u64 = 2 * SECOND;
/// Without any answer for so long at the begin or the end, nobody is there.
const SILENCE: u64 = 5 * SECOND;
/// What the kernel may hold of what comes back.
const BUFFER: usize = 8 << 20;
/// Packets that follow each other faster are not timed by the kernel one by one.
const LEAST_GAP_TIMED: u64 = 100_000;
/// A second in which less than this part was sent is short.
const ENOUGH: f64 = 0.98;
/// Header of the TLV that says that the rest is padding (RFC 8972, section 4.1).
const PADDING: [u8; 2] = [0x80, 1];

/// A packet whose answer is waited for.
struct Asked {
    second: u64,
    /// As the packet has it.
    sent: Time,
    /// When this host's device took it, where that is known.
    left: Option<Time>,
    is_answered: bool,
}

/// The test.
struct StampTest<'a> {
    socket: UdpSocket,
    clock: TestClock,
    state: (bool, Span),
    mac: Option<Mac<'a>>,
    packet: Vec<u8>,
    next: u32,
    times: Option<TransmitTimes>,
    /// The number of the packet from which on the kernel numbers them.
    timed_from: u32,
    /// Those from `next - asked.len()` on.
    asked: VecDeque<Asked>,
    sent: SentSecond,
    /// The number of the second's first packet.
    first: u32,
    drops: (DeviceDrops, u64),
    /// What the devices drop on the way in, and when that was last looked at.
    watch: Option<ReceiveWatch>,
    looked: u64,
    rtt_ns: u64,
    dropped: u32,
    heard: u64,
    /// When it was last told that nobody answers.
    told: u64,
    tally: Tally,
    test: LineTest,
}

/// Tests the path to a STAMP reflector and back; authenticated where there is a `key`.
///
/// # Errors
/// When nobody answers, or this host cannot send.
pub fn run_stamp(
    options: &LineRequestOptions,
    key: Option<&[u8]>,
    mut progress: impl FnMut(&LineProgress<'_>) -> Result<(), Error>,
) -> Result<LineTest, Error> {
    let settings = &options.settings;
    let keyed = key.map(|key| aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, key));
    let sign = keyed.as_ref().map(|key| move |bytes: &[u8]| super::host::mac(key, bytes));
    let socket = bound(&settings.target, PORT, settings)?;
    let failed = |error: std::io::Error| {
        Error::new(Fault::Here, ErrorCode::LineSocket, format!("a UDP socket: {error}"))
    };
    prepare(&socket, BUFFER, WAIT).map_err(failed)?;
    let local = socket.local_addr().map_err(failed)?.ip();
    let least = if key.is_some() { AUTHENTICATED } else { UNAUTHENTICATED };
    let payload = payload_of(settings, least, local.to_canonical().is_ipv6())?;
    let mut packet = vec![0; payload];
    if let Some([flags, kind, high, low, ..]) = packet.get_mut(least..) {
        let rest = (payload - least - 4) as u16;
        ([*flags, *kind], [*high, *low]) = (PADDING, rest.to_be_bytes());
    }
    let drops = DeviceDrops::of(local);
    let device = drops.read().1;
    let gap = (1e9 / settings.frames_a_second()) as u64;
    let mut running = StampTest {
        times: if gap < LEAST_GAP_TIMED { None } else { TransmitTimes::of(&socket) },
        timed_from: 0,
        clock: TestClock::start(Span::ZERO),
        state: clock_state(),
        mac: sign.as_ref().map(|sign| sign as Mac<'_>),
        packet,
        next: 0,
        asked: VecDeque::new(),
        sent: SentSecond::default(),
        first: 0,
        drops: (drops, device),
        watch: socket.peer_addr().ok().and_then(|peer| ReceiveWatch::towards(peer.ip())),
        looked: 0,
        rtt_ns: 0,
        dropped: 0,
        heard: 0,
        told: 0,
        tally: Tally::new(),
        // Whose clock the other end reads is not known.
        test: LineTest::new(settings.clone(), false),
        socket,
    };
    running.test.begun = Some(now(running.state).time);
    let mut buffers = DatagramBuffers::new();
    // Packets that are far apart are answered as seldom.
    let few = 4 * gap;
    let (mut due, end) = (0, settings.most_seconds.saturating_mul(SECOND));
    loop {
        let time = running.clock.since();
        let is_over = time >= end
            || options.stop.load(Ordering::Relaxed)
            || running.test.decision() != RatioDecision::Open;
        if is_over {
            break;
        }
        if time >= due {
            running.send(time)?;
            due = (due + gap).max(time.saturating_sub(10 * gap));
        } else {
            running.receive(&mut buffers)?;
        }
        running.settle(time, &mut progress)?;
        if time > running.heard + SILENCE.max(few) && running.tally.next() == 0 {
            return Err(running.nobody());
        }
        if time > running.heard + TIMEOUT.as_nanos().max(few) {
            break;
        }
    }
    let last = running.clock.since();
    running.over(last, true);
    while running.clock.since() < last + GRACE {
        running.receive(&mut buffers)?;
    }
    if running.tally.next() == 0 {
        return Err(running.nobody());
    }
    running.look_at_devices(running.clock.since());
    running.note_rows();
    let news = match last.saturating_sub(running.heard) {
        silence if silence > SILENCE.max(few) => running.break_off(silence, last),
        _ => running.test.settle_sent(),
    };
    running.settle_runs();
    let sent = Some(u64::from(running.next));
    running.test.totals = running.tally.totals(sent);
    let (first, entries) = running.tally.losses(0, sent, usize::MAX);
    running.test.note_losses(first, &entries);
    let state = || running.state();
    progress(&LineProgress { test: &running.test, news: &news, state: &state, silence: None })?;
    if options.stop.load(Ordering::Relaxed) && running.test.broken_off.is_none() {
        running.test.ended_by_user();
    }
    Ok(running.test)
}

/// Bytes of each packet, of which the first `least` are STAMP's own.
fn payload_of(settings: &LineSettings, least: usize, is_ipv6: bool) -> Result<usize, Error> {
    let wrong = |message: String, hint: String| {
        Err(Error::new(Fault::You, ErrorCode::LineFrames, message).hint(hint))
    };
    let turn = &settings.frames.turn;
    let Some(kind) = turn.first().filter(|first| turn.iter().all(|kind| kind == *first)) else {
        let message = format!("STAMP's packets are of one size, and {} is a mix", settings.frames);
        return wrong(message, format!("say one size, such as {} 512", Setting::Frames));
    };
    let around = framed_bits(least, is_ipv6) / 8;
    if u64::from(kind.frame_bytes) < around {
        let message = format!("a frame of {} bytes holds no packet of STAMP", kind.frame_bytes);
        return wrong(message, format!("{} {around} is the smallest", Setting::Frames));
    }
    Ok(kind.payload_bytes(is_ipv6))
}

impl StampTest<'_> {
    /// Nothing has ever come back that counts.
    fn nobody(&self) -> Error {
        let target = &self.test.settings.target;
        let at = self.socket.peer_addr().map_or(target.clone(), |to| to.to_string());
        let came =
            self.test.refused_answers.words().map_or(String::new(), |came| format!(": {came}"));
        let message = format!("{at} sends nothing back that is STAMP's{came}");
        Error::new(Fault::Between, ErrorCode::LineGone, message).hint(format!(
            "is a STAMP or TWAMP Light reflector at that port (`farline line reflect {} {} \
             '[::]:862'`), with the same key, and UDP let through?",
            Setting::Stamp,
            Setting::Listen
        ))
    }

    fn send(&mut self, time: u64) -> Result<(), Error> {
        if time / SECOND != self.sent.second {
            self.over(time, false);
        }
        let sent = now(self.state);
        SenderPacket { sequence: self.next, sent, session: 1 }.write(self.mac, &mut self.packet);
        let as_sent =
            SenderPacket::read(self.mac, &self.packet).map_or(sent.time, |read| read.sent.time);
        let mut sent = self.send_packet();
        if sent.as_ref().is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused) {
            // That is an earlier one's news: nobody is there now. This one has not been tried.
            self.timed_from = self.next;
            sent = self.send_packet();
        }
        match sent {
            Ok(()) => {}
            Err(error)
                if error.raw_os_error() == Some(libc::ENOBUFS) || is_passing(error.kind()) =>
            {
                // What was not sent has no number: it would be one of the line's losses.
                self.sent.own_drops += 1;
                self.timed_from = self.next;
                return Ok(());
            }
            Err(error) => {
                let message = format!("sending: {error}");
                return Err(Error::new(Fault::Here, ErrorCode::LineSocket, message));
            }
        }
        self.sent.frames += 1;
        let is_ipv6 = self.socket.local_addr().is_ok_and(|at| at.ip().to_canonical().is_ipv6());
        self.sent.framed_bits += framed_bits(self.packet.len(), is_ipv6);
        let second = time / SECOND;
        self.asked.push_back(Asked { second, sent: as_sent, left: None, is_answered: false });
        self.next = self.next.wrapping_add(1);
        self.note_left();
        Ok(())
    }

    fn send_packet(&mut self) -> std::io::Result<()> {
        match &mut self.times {
            Some(times) => times.send(&self.socket, &self.packet, None).map(drop),
            None => self.socket.send(&self.packet).map(drop),
        }
    }

    /// Nobody has answered for long: of the seconds since then nothing is known.
    fn break_off(&mut self, silence: u64, end: u64) -> Vec<TestedSecond> {
        let heard = self.heard / SECOND;
        let mut news = self.test.settle(heard.max(self.test.next_second()));
        news.extend(self.test.away(end.div_ceil(SECOND).min(self.test.settings.most_seconds)));
        let silence = Span::from_nanos(silence);
        self.test.broken_off = Some(unanswered(&self.test.settings.target, silence));
        news
    }

    /// Takes the kernel's word on when packets left.
    fn note_left(&mut self) {
        let Some(times) = &mut self.times else { return };
        times.read(&self.socket, |number, left| {
            let behind = self.next.wrapping_sub(self.timed_from.wrapping_add(number)) as usize;
            let place = self.asked.len().checked_sub(behind);
            if let Some(asked) = place.and_then(|place| self.asked.get_mut(place))
                && left >= asked.sent
            {
                asked.left = Some(left);
            }
        });
    }

    /// The second under way is over.
    fn over(&mut self, time: u64, is_part: bool) {
        let device = self.drops.0.read().1;
        if device > self.drops.1 {
            self.sent.own_drops += device - self.drops.1;
            // Whichever of them the device dropped: what comes still, comes.
            self.tally.note_own_range(self.first.into(), self.next.into());
        }
        (self.drops.1, self.first) = (device, self.next);
        self.look_at_devices(time);
        self.sent.next = self.next.into();
        let planned = self.test.settings.frames_a_second();
        self.sent.is_short = !is_part && (self.sent.frames as f64) < planned * ENOUGH;
        self.test.note_sent(self.sent);
        self.sent = SentSecond { second: time / SECOND, ..SentSecond::default() };
    }

    /// Of answers that a device here dropped, the packets were sent up to a round trip before.
    fn look_at_devices(&mut self, time: u64) {
        let since = std::mem::replace(&mut self.looked, time).saturating_sub(self.rtt_ns);
        let Some(drops) = self.watch.as_mut().and_then(ReceiveWatch::sample) else { return };
        let before = self.test.sender.device_drops;
        self.test.sender.device_drops = ReceiveDrops::either(before, Some(drops));
        if drops.all() > 0 {
            let last = self.sent.second;
            self.tally.note_own_seconds((since / SECOND).min(last), last);
        }
    }

    /// Runs of losses are of packets whose seconds count.
    fn settle_runs(&mut self) {
        loop {
            self.tally.settle(&self.test.settled_frames());
            if self.test.note_settled_there(self.tally.settled()) {
                return;
            }
        }
    }

    fn receive(&mut self, buffers: &mut DatagramBuffers) -> Result<(), Error> {
        match buffers.receive(&self.socket) {
            Ok(_) => {}
            Err(error) if is_passing(error.kind()) => return Ok(()),
            Err(error) => {
                let message = format!("receiving: {error}");
                return Err(Error::new(Fault::Here, ErrorCode::LineSocket, message));
            }
        }
        for arrival in buffers.arrivals() {
            let after_own_drops =
                std::mem::replace(&mut self.dropped, arrival.dropped) != arrival.dropped;
            for bytes in arrival.bytes.chunks(arrival.segment) {
                match ReflectorPacket::read(self.mac, bytes) {
                    Some(packet) => self.answered(&packet, arrival.received, after_own_drops),
                    None if ReflectorPacket::is_long_enough(self.mac, bytes.len()) => {
                        self.test.refused_answers.wrong_hmac += 1;
                    }
                    None => self.test.refused_answers.too_short += 1,
                }
            }
        }
        Ok(())
    }

    /// An answer; one that nobody asked for counts for nothing but itself.
    fn answered(&mut self, packet: &ReflectorPacket, came: Option<Time>, after_own_drops: bool) {
        let behind = self.next.wrapping_sub(packet.sender_sequence) as usize;
        let Some(asked) =
            self.asked.len().checked_sub(behind).and_then(|place| self.asked.get_mut(place))
        else {
            self.test.refused_answers.never_asked += 1;
            return;
        };
        if asked.sent != packet.sender_sent.time {
            self.test.refused_answers.other_time += 1;
            return;
        }
        self.heard = self.clock.since();
        let is_first = !std::mem::replace(&mut asked.is_answered, true);
        let sent = asked.left.unwrap_or(asked.sent);
        if is_first {
            self.test.kernel_times = self.test.kernel_times.and(&KernelTimes {
                packets: 1,
                left_here: asked.left.is_some().into(),
                came_here: came.is_some().into(),
                left_there: 0,
            });
        }
        let StampTime { is_synchronised, error_ns, .. } = packet.sent;
        let there = ClockState { is_synchronised, error_ns };
        self.test.clock_states = Some((kernel_clock(self.state), there));
        self.tally.arrive(&Arrived {
            sequence: u64::from(packet.sender_sequence),
            second: asked.second,
            compared_bits: 0,
            wrong_bits: 0,
            after_own_drops,
        });
        if is_first && let Some(came) = came {
            let (received, returned) = (packet.received, packet.sent.time);
            let sample = DelaySample { sent, received, returned, came };
            if let Some(rtt) = self.test.delay.add(&sample) {
                self.rtt_ns = rtt.as_nanos();
                self.test.note_rtt(self.heard / SECOND, rtt);
            }
        }
    }

    fn note_rows(&mut self) {
        for row in self.tally.rows(self.test.next_second(), usize::MAX) {
            self.test.note_row(row);
        }
    }

    fn settle(
        &mut self,
        time: u64,
        progress: &mut impl FnMut(&LineProgress<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        // What came of the seconds in which nobody answers is known when somebody does again.
        let end = time.saturating_sub(GRACE).min(self.heard) / SECOND;
        if end <= self.test.next_second() {
            return self.report_silence(time, progress);
        }
        self.note_rows();
        let news = self.test.settle(end);
        self.settle_runs();
        self.test.totals = self.tally.totals(None);
        while self.asked.front().is_some_and(|asked| asked.second < end) {
            self.asked.pop_front();
        }
        let state = || self.state();
        progress(&LineProgress { test: &self.test, news: &news, state: &state, silence: None })
    }

    /// Tells that nobody answers, where that is so, once a second.
    fn report_silence(
        &mut self,
        time: u64,
        progress: &mut impl FnMut(&LineProgress<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let silence = time.saturating_sub(self.heard);
        if silence < SILENT.as_nanos() || time < self.told + SECOND {
            return Ok(());
        }
        self.told = time;
        let (state, silence) = (|| self.state(), Some(Span::from_nanos(silence)));
        progress(&LineProgress { test: &self.test, news: &[], state: &state, silence })
    }

    fn state(&self) -> LineState {
        let written = now(self.state).time;
        LineState {
            schema: LineState::SCHEMA.to_owned(),
            session: 0,
            begun: Time::from_nanos(written.as_nanos().saturating_sub(self.clock.since())),
            written,
            next_frame: u64::from(self.next),
            instance: 0,
            test: self.test.clone(),
        }
    }
}
