//! Streams through one queue as fluids: their real congestion controls, no packets, a few steps for each round trip.
//!
//! What a stream sends in a step is one batch. A batch meets the queue's backlog, waits, and is acknowledged one round trip
//! later; the [`Control`] of the stream is told what it would be told by packets. Where the queue
//! overflows, each stream loses its share of what does not fit, a whole number drawn by Poisson's law; the same law takes what
//! the line loses. So a simulated minute costs thousands of steps, not billions of packets, whatever the rate.
//!
//! What a batch cannot have is not here: bursts within a step, delayed acknowledgements, lost retransmissions, HyStart. The
//! packets of [`congestion::sim`](crate::congestion::sim) are the reference; a test holds this model against them.

use super::grid::Disturbance;
use super::staging::{Copies, Pool, Staged};
use crate::congestion::{Acked, Algorithm, Control, Event, Set, Start};
use crate::units::{Bytes, Rate, Rng, Span, Time};
use crate::wan::{Change, frames};
use std::collections::VecDeque;

/// Steps in a round trip.
const STEPS: f64 = 16.0;
/// Steps are never longer or shorter than this, in seconds: a sample must hold several, and a short path must end.
const STEP: (f64, f64) = (50e-6, 10e-3);
/// The least retransmission timeout (Linux), in seconds.
const LEAST_TIMEOUT: f64 = 0.2;

/// Streams, and the path that they share.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Bits per second on the wire.
    pub rate: Rate,
    /// Round-trip time without load.
    pub rtt: Span,
    /// Bytes on the wire that may wait.
    pub queue: Bytes,
    /// Bytes of IP in a packet.
    pub mtu: u32,
    /// Control and constants of each stream.
    pub streams: Vec<(Algorithm, Set)>,
    /// The most that one stream has on its way.
    pub window: Option<Bytes>,
    /// Other traffic, bits per second on the wire.
    pub cross: Rate,
    /// Probability that the line loses a packet.
    pub loss: f64,
    /// The most that the sending host does, bits per second on the wire.
    pub host: Option<Rate>,
    /// What happens on the way.
    pub disturbance: Option<Disturbance>,
    /// From what store the bytes come, through which pool; as fast as the network takes them when `None`.
    pub staged: Option<(Staged, Copies)>,
    /// Of every random choice.
    pub seed: u64,
}

/// What a stream sent in one step.
#[derive(Clone, Copy, Debug)]
struct Batch {
    sent_at: f64,
    due: f64,
    arrives: f64,
    lost: f64,
    /// The part due before the end of the last step was taken then.
    begun: bool,
    delivered: u64,
    delivered_at: f64,
    first_sent_at: f64,
}

/// What held a stream back, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Held {
    /// The congestion control.
    pub congestion: f64,
    /// The largest window allowed.
    pub window: f64,
    /// The host's rate.
    pub host: f64,
    /// The store.
    pub store: f64,
}

/// One stream.
#[derive(Debug)]
struct Stream {
    control: Box<dyn Control>,
    begins: f64,
    batches: VecDeque<Batch>,
    in_flight: f64,
    /// Packets that arrived, and the part of one that was not reported yet.
    delivered: u64,
    part: f64,
    delivered_at: f64,
    first_sent_at: f64,
    /// Losses found in batches of which nothing arrived: only a later batch tells of them.
    untold: bool,
    /// In recovery: it ends with the first batch sent from here on.
    recovery: Option<f64>,
    uses_window: bool,
    /// The window that the control allowed when the stream was last asked what it wants.
    allowed: f64,
    rtt: f64,
    deviation: f64,
    timer_from: f64,
    lost: f64,
    reductions: u64,
    timeouts: u64,
}

/// A simulation under way.
#[derive(Debug)]
pub struct Fluid {
    now: f64,
    /// Packets per second.
    capacity: f64,
    cross: f64,
    cross_before: f64,
    /// Packets.
    queue: f64,
    backlog: f64,
    /// Seconds.
    rtt: f64,
    loss: f64,
    window: f64,
    host: f64,
    packet: f64,
    payload: f64,
    streams: Vec<Stream>,
    sends: Vec<f64>,
    disturbance: Option<Disturbance>,
    pool: Option<Pool>,
    outage_until: f64,
    cross_until: f64,
    to_lose: f64,
    held: Held,
    rng: Rng,
}

impl Fluid {
    /// The beginning of `scenario`. Streams begin within the first round trip, at times that the seed decides.
    pub fn new(scenario: &Scenario) -> Fluid {
        let wire = frames::wire_bytes(u64::from(scenario.mtu));
        let packet = wire as f64 * 8.0;
        let packets = |rate: Rate| rate.as_bps() as f64 / packet;
        let seed = Rng::new(scenario.seed);
        let mut rng = seed.fork(1);
        let rtt = scenario.rtt.as_secs_f64();
        let payload = (f64::from(scenario.mtu) - super::document::TCP_HEADERS as f64).max(1.0);
        let stream = |(i, (algorithm, set)): (usize, &(Algorithm, Set))| {
            let start = Start { packet: Bytes(wire), ..Start::default() };
            let control = algorithm.control(*set, start, &seed.fork(100 + i as u64));
            Stream::new(control, rng.unit() * rtt)
        };
        let streams: Vec<Stream> = scenario.streams.iter().enumerate().map(stream).collect();
        Fluid {
            now: 0.0,
            capacity: packets(scenario.rate).max(1e-9),
            cross: packets(scenario.cross),
            cross_before: packets(scenario.cross),
            queue: scenario.queue.0 as f64 / wire as f64,
            backlog: 0.0,
            rtt,
            loss: scenario.loss,
            window: scenario.window.map_or(f64::INFINITY, |window| (window.0 as f64 / f64::from(scenario.mtu)).max(1.0)),
            host: scenario.host.map_or(f64::INFINITY, packets),
            packet,
            payload,
            sends: vec![0.0; streams.len()],
            streams,
            disturbance: scenario.disturbance,
            pool: scenario.staged.as_ref().map(|(staged, copies)| Pool::new(*staged, copies, payload)),
            outage_until: 0.0,
            cross_until: f64::INFINITY,
            to_lose: 0.0,
            held: Held::default(),
            rng,
        }
    }

    /// The virtual time, in seconds.
    pub fn now(&self) -> f64 {
        self.now
    }

    /// Payload bytes of stream `index` that have arrived.
    pub fn delivered(&self, index: usize) -> f64 {
        let stream = &self.streams[index];
        (stream.delivered as f64 + stream.part) * self.payload
    }

    /// The same of all streams together.
    pub fn delivered_in_all(&self) -> f64 {
        (0..self.streams.len()).map(|index| self.delivered(index)).sum()
    }

    /// Packets lost so far, reductions of windows, and timeouts, of all streams together.
    pub fn losses(&self) -> (u64, u64, u64) {
        let sum = |pick: fn(&Stream) -> f64| self.streams.iter().map(pick).sum::<f64>() as u64;
        (sum(|s| s.lost.round()), sum(|s| s.reductions as f64), sum(|s| s.timeouts as f64))
    }

    /// What held the streams back so far, in stream-seconds.
    pub fn held(&self) -> Held {
        self.held
    }

    /// The window of stream `index`, in packets.
    pub fn window(&self, index: usize) -> f64 {
        self.streams[index].control.poll().window
    }

    /// Goes on to `end` seconds, or until `enough`, asked after each step, says so.
    pub fn run(&mut self, end: f64, mut enough: impl FnMut(&Fluid) -> bool) {
        while self.now < end && !enough(self) {
            self.step(end);
        }
    }

    fn step(&mut self, end: f64) {
        let round = self.rtt + self.backlog / self.capacity;
        let most = self.pool.as_ref().map_or(STEP.1, |pool| pool.longest_step().clamp(STEP.0, STEP.1));
        let step = (round / STEPS).clamp(STEP.0, most).min(end - self.now).max(1e-9);
        self.happen();
        let (now, queue_full) = (self.now, self.window);
        let mut wanted = 0.0;
        for (stream, send) in self.streams.iter_mut().zip(&mut self.sends) {
            stream.acknowledge(now, step);
            stream.tick(now, self.rtt);
            *send = stream.wants(now, step, queue_full, self.packet);
            wanted += *send;
        }
        let there = self.pool.as_mut().map_or(f64::INFINITY, |pool| pool.read(now, step));
        let most = there.min(self.host * step);
        let share = if wanted > most { most / wanted } else { 1.0 };
        self.transmit(step, share, there < self.host * step);
        if let Some(pool) = &mut self.pool {
            pool.take(wanted * share);
        }
        self.now += step;
    }

    /// What the script has for this moment.
    fn happen(&mut self) {
        if self.now >= self.cross_until {
            (self.cross, self.cross_until) = (self.cross_before, f64::INFINITY);
        }
        let due = self.disturbance.take_if(|disturbance| disturbance.at_ns.as_secs_f64() <= self.now);
        let Some(Disturbance { change, .. }) = due else { return };
        match change {
            Change::Burst(bytes) => self.backlog = self.queue.min(self.backlog + bytes.0 as f64 * 8.0 / self.packet),
            Change::Cross(rate, span) => {
                self.cross = rate.as_bps() as f64 / self.packet;
                self.cross_until = span.map_or(f64::INFINITY, |span| self.now + span.as_secs_f64());
            }
            Change::Lose(count) => self.to_lose = count as f64,
            Change::Outage(span) => self.outage_until = self.now + span.as_secs_f64(),
            Change::Rate(rate) => self.capacity = (rate.as_bps() as f64 / self.packet).max(1e-9),
        }
    }

    /// The queue takes what the streams send in this step, and the wire and the line what they take.
    fn transmit(&mut self, step: f64, share: f64, by_store: bool) {
        let arrives: f64 = self.sends.iter().sum::<f64>() * share;
        let other = self.cross * step;
        let before = self.backlog;
        let after = before + arrives + other - self.capacity * step;
        let over = (after - self.queue).max(0.0);
        let dropped = if over > 0.0 { (over / (arrives + other)).min(1.0) } else { 0.0 };
        self.backlog = after.clamp(0.0, self.queue);
        let outage = self.now < self.outage_until;
        // Sent all through the step, so what arrives has met the mean of both backlogs.
        let due = self.now + self.rtt + (before + self.backlog) / 2.0 / self.capacity;
        let scripted = self.to_lose.min(arrives);
        self.to_lose -= scripted;
        for (stream, send) in self.streams.iter_mut().zip(&self.sends) {
            if self.now < stream.begins {
                continue;
            }
            let sent = send * share;
            let allowed = stream.allowed;
            stream.in_flight_after(self.now, sent);
            match () {
                () if share < 1.0 && by_store => self.held.store += step,
                () if share < 1.0 => self.held.host += step,
                () if self.window < allowed => self.held.window += step,
                () => self.held.congestion += step,
            }
            stream.uses_window = stream.in_flight + 1.0 > allowed;
            if sent <= 0.0 {
                continue;
            }
            let taken = if outage {
                sent
            } else {
                let at_queue = poisson(&mut self.rng, sent * dropped);
                let on_line = poisson(&mut self.rng, (sent - at_queue).max(0.0) * self.loss);
                let by_script = if arrives > 0.0 { scripted * sent / arrives } else { 0.0 };
                (at_queue + on_line + by_script).min(sent)
            };
            stream.lost += taken;
            stream.batches.push_back(Batch {
                sent_at: self.now,
                due,
                arrives: sent - taken,
                lost: taken,
                begun: false,
                delivered: stream.delivered,
                delivered_at: stream.delivered_at,
                first_sent_at: stream.first_sent_at,
            });
        }
    }
}

impl Stream {
    fn new(control: Box<dyn Control>, begins: f64) -> Stream {
        Stream {
            control,
            begins,
            batches: VecDeque::new(),
            in_flight: 0.0,
            delivered: 0,
            part: 0.0,
            delivered_at: begins,
            first_sent_at: begins,
            untold: false,
            recovery: None,
            uses_window: true,
            allowed: 0.0,
            rtt: 0.0,
            deviation: 0.0,
            timer_from: begins,
            lost: 0.0,
            reductions: 0,
            timeouts: 0,
        }
    }

    /// What is due in this step is acknowledged. A batch due within it gives its part now and the rest in the next, so that
    /// batches keep their delay on average.
    fn acknowledge(&mut self, now: f64, step: f64) {
        let mut place = 0;
        while let Some(batch) = self.batches.get_mut(place).copied() {
            let all = batch.due <= now;
            if !all && (batch.due >= now + step || batch.begun) {
                break;
            }
            let share = if all { 1.0 } else { 1.0 - (batch.due - now) / step };
            if all {
                self.batches.pop_front();
            } else {
                let rest = &mut self.batches[place];
                (rest.arrives, rest.lost, rest.begun) = (batch.arrives * (1.0 - share), batch.lost * (1.0 - share), true);
                place += 1;
            }
            self.acknowledged(now, &batch, batch.arrives * share, batch.lost * share);
        }
    }

    fn acknowledged(&mut self, now: f64, batch: &Batch, packets: f64, lost: f64) {
        let at = time(now);
        let before = self.in_flight;
        self.in_flight = (self.in_flight - packets - lost).max(0.0);
        self.untold |= lost > 0.0;
        if packets <= 0.0 {
            return;
        }
        self.timer_from = now;
        let sample = batch.due - batch.sent_at;
        self.measured(sample);
        self.control.handle(at, Event::Rtt(Span::from_secs_f64(sample)));
        if self.recovery.is_some_and(|from| batch.sent_at >= from) {
            self.recovery = None;
            self.control.handle(at, Event::Recovered);
        }
        if std::mem::take(&mut self.untold) && self.recovery.is_none() {
            self.control.handle(at, Event::Loss);
            self.recovery = Some(now);
            self.reductions += 1;
        }
        self.part += packets;
        // To an integer and back: rounding is a call of the mathematical library where the processor may be old.
        let whole = self.part as u32;
        if whole == 0 {
            return;
        }
        self.part -= f64::from(whole);
        self.delivered += u64::from(whole);
        self.delivered_at = now;
        self.first_sent_at = batch.sent_at;
        let acked = Acked {
            packets: whole,
            delivered: self.delivered,
            delivered_at_send: batch.delivered,
            interval: Span::from_secs_f64((now - batch.delivered_at).max(batch.sent_at - batch.first_sent_at)),
            in_flight: (before + 0.5) as u32,
            window_limited: self.uses_window,
        };
        self.control.handle(at, Event::Acked(acked));
    }

    /// RFC 6298, section 2, and Linux's least timeout.
    fn measured(&mut self, sample: f64) {
        if self.rtt == 0.0 {
            (self.rtt, self.deviation) = (sample, sample / 2.0);
            return;
        }
        self.deviation = 0.75 * self.deviation + 0.25 * (sample - self.rtt).abs();
        self.rtt = 0.875 * self.rtt + 0.125 * sample;
    }

    /// Looks at the retransmission timer.
    fn tick(&mut self, now: f64, handshake: f64) {
        let timeout = self.rtt + (4.0 * self.deviation).max(LEAST_TIMEOUT);
        // Before data brings a sample RFC 6298 goes by the handshake's: R + 4 R / 2 (2.2), and a second at least.
        let timeout = if self.rtt == 0.0 { (3.0 * handshake).max(1.0) } else { timeout };
        if self.in_flight > 0.0 && now > self.timer_from + timeout {
            self.batches.clear();
            (self.in_flight, self.untold, self.recovery) = (0.0, false, None);
            self.timer_from = now;
            self.control.handle(time(now), Event::Timeout);
            self.reductions += 1;
            self.timeouts += 1;
        }
    }

    /// Packets that may leave in this step.
    fn wants(&mut self, now: f64, step: f64, most: f64, packet: f64) -> f64 {
        if now < self.begins {
            return 0.0;
        }
        let allowed = self.control.poll();
        self.allowed = allowed.window;
        let room = (allowed.window.max(1.0).min(most) - self.in_flight).max(0.0);
        allowed.pacing.map_or(room, |rate| room.min(rate.as_bps() as f64 / packet * step))
    }

    fn in_flight_after(&mut self, now: f64, sent: f64) {
        if self.in_flight <= 0.0 && sent > 0.0 {
            (self.first_sent_at, self.delivered_at, self.timer_from) = (now, now, now);
        }
        self.in_flight += sent;
    }
}

fn time(seconds: f64) -> Time {
    Time::ZERO + Span::from_secs_f64(seconds)
}

/// A whole number drawn by Poisson's law with this mean; of a large one the mean itself, whose spread does not matter.
fn poisson(rng: &mut Rng, mean: f64) -> f64 {
    if mean <= 0.0 {
        return 0.0;
    }
    if mean > 50.0 {
        return mean;
    }
    // Knuth: as many as uniform numbers can be multiplied before the product falls below e^-mean.
    let (mut count, mut product) = (0.0, rng.unit());
    // Which is never less than this; most means are small, and e^ costs more than the rest of a step.
    if product <= 1.0 - mean {
        return 0.0;
    }
    let limit = (-mean).exp();
    while product > limit {
        count += 1.0;
        product *= rng.unit();
    }
    count
}

#[cfg(test)]
#[path = "fluid_tests.rs"]
mod tests;
