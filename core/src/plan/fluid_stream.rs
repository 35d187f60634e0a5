//! One stream of the fluid model: what it has on its way, what its control is told of it, and when
//! its timer runs out.

use crate::congestion::{Acked, Control, Event};
use crate::units::{Rng, Span, Time};
use std::collections::VecDeque;

/// The least retransmission timeout (Linux), in seconds.
const LEAST_TIMEOUT: f64 = 0.2;

/// What a stream sent in one step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch {
    pub(super) sent_at: f64,
    /// When the middle of it is acknowledged.
    pub(super) due: f64,
    /// How long it takes from its first packet to its last: what it was sent in, and by how much
    /// the queue grew meanwhile, in seconds.
    pub(super) sent_in: f64,
    pub(super) grew: f64,
    pub(super) arrives: f64,
    pub(super) lost: f64,
    /// The part that was taken before.
    pub(super) taken: f64,
    pub(super) delivered: u64,
    pub(super) delivered_at: f64,
    pub(super) first_sent_at: f64,
}

/// One stream.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) control: Box<dyn Control>,
    pub(super) begins: f64,
    pub(super) batches: VecDeque<Batch>,
    pub(super) in_flight: f64,
    /// Packets that arrived, and the part of one that was not reported yet.
    pub(super) delivered: u64,
    pub(super) part: f64,
    pub(super) delivered_at: f64,
    pub(super) first_sent_at: f64,
    /// Losses found in batches of which nothing arrived: only a later batch tells of them.
    pub(super) untold: bool,
    /// In recovery: it ends with the first batch sent from here on.
    pub(super) recovery: Option<f64>,
    pub(super) uses_window: bool,
    /// The window that the control allowed when the stream was last asked what it wants.
    pub(super) allowed: f64,
    /// Packets a second at which the control spaced them then.
    pub(super) pacing: Option<f64>,
    pub(super) rtt: f64,
    pub(super) deviation: f64,
    pub(super) timer_from: f64,
    pub(super) lost: f64,
    /// What the queue takes of what is sent in this step, and what it still has to take: a packet
    /// is dropped whole, though a step of a slow path holds less than one.
    pub(super) at_queue: f64,
    pub(super) owed: f64,
    pub(super) reductions: u64,
    pub(super) timeouts: u64,
}

impl Stream {
    pub(super) fn new(control: Box<dyn Control>, begins: f64) -> Stream {
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
            pacing: None,
            rtt: 0.0,
            deviation: 0.0,
            timer_from: begins,
            lost: 0.0,
            at_queue: 0.0,
            owed: 0.0,
            reductions: 0,
            timeouts: 0,
        }
    }

    /// What is due by the middle of this step is acknowledged: of a batch the part that has come,
    /// so that none comes faster than the line carries it. What is lost of a burst is its end.
    pub(super) fn acknowledge(&mut self, now: f64, step: f64) {
        let mut place = 0;
        while let Some(batch) = self.batches.get(place).copied() {
            let long = (batch.sent_in + batch.grew).max(1e-12);
            let come = ((now + step / 2.0 - batch.due) / long + 0.5).min(1.0);
            if come <= batch.taken {
                break;
            }
            let share = come - batch.taken;
            let is_burst = batch.grew > batch.sent_in;
            let lost = match (is_burst, come >= 1.0) {
                (false, _) => batch.lost * share,
                (true, true) => batch.lost,
                (true, false) => 0.0,
            };
            if come >= 1.0 {
                self.batches.remove(place);
            } else {
                self.batches[place].taken = come;
                place += 1;
            }
            let waited = batch.due + (come - share / 2.0 - 0.5) * batch.grew;
            self.acknowledged(now, &Batch { due: waited, ..batch }, batch.arrives * share, lost);
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
        // To an integer and back: rounding is a call of the mathematical library where the
        // processor may be old.
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
            // No control that is planned with counts them.
            lost: 0,
            interval: Span::from_secs_f64(
                (now - batch.delivered_at).max(batch.sent_at - batch.first_sent_at),
            ),
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
    pub(super) fn tick(&mut self, now: f64, handshake: f64) {
        let timeout = self.rtt + (4.0 * self.deviation).max(LEAST_TIMEOUT);
        // Before data brings a sample RFC 6298 goes by the handshake's: R + 4 R / 2 (2.2), and a
        // second at least.
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
    pub(super) fn wants(&mut self, now: f64, step: f64, most: f64, packet: f64) -> f64 {
        if now < self.begins {
            return 0.0;
        }
        let allowed = self.control.poll();
        self.allowed = allowed.window;
        self.pacing = allowed.pacing.map(|rate| rate.as_bps() as f64 / packet);
        let room = (allowed.window.max(1.0).min(most) - self.in_flight).max(0.0);
        self.pacing.map_or(room, |rate| room.min(rate * step))
    }

    /// The part of a train of this stream for which a queue with `room` more packets has place.
    /// Trains are of at most `most` packets, no longer than the window, nor than what a paced
    /// stream sends in a 1024th of a second (Linux's `tcp_tso_autosize`). Those of `crowd` streams
    /// meet at times: the fourth root of their number is what packets show
    /// (`trains_cost_fluids_what_they_cost_packets`).
    pub(super) fn fits(&self, most: f64, crowd: usize, room: f64) -> f64 {
        let train = match self.pacing {
            Some(rate) => most.min((rate / 1_024.0).max(1.0)),
            None => most.min(self.allowed),
        };
        // One packet is as much as a fluid: the queue itself says what passes.
        if train <= 1.0 {
            return 1.0;
        }
        (room / (train * (crowd as f64).sqrt().sqrt())).clamp(0.0, 1.0)
    }

    /// What the queue drops of `sent` packets, with `mean` of them to drop on average.
    pub(super) fn drops(&mut self, rng: &mut Rng, mean: f64, sent: f64) -> f64 {
        self.owed += poisson(rng, mean);
        let taken = self.owed.min(sent);
        self.owed -= taken;
        taken
    }

    pub(super) fn in_flight_after(&mut self, now: f64, sent: f64) {
        if self.in_flight <= 0.0 && sent > 0.0 {
            (self.first_sent_at, self.delivered_at, self.timer_from) = (now, now, now);
        }
        self.in_flight += sent;
    }
}

fn time(seconds: f64) -> Time {
    Time::ZERO + Span::from_secs_f64(seconds)
}

/// A whole number drawn by Poisson's law with this mean; of a large one the mean itself, whose
/// spread does not matter.
pub(super) fn poisson(rng: &mut Rng, mean: f64) -> f64 {
    if mean <= 0.0 {
        return 0.0;
    }
    if mean > 50.0 {
        return mean;
    }
    // Knuth: as many as uniform numbers can be multiplied before the product falls below e^-mean.
    let (mut count, mut product) = (0.0, rng.unit());
    // Which is never less than this; most means are small, and e^ costs more than the rest of a
    // step.
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
