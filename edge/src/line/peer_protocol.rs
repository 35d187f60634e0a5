//! Questions to the other end of a test and their answers, next to STAMP packets on the same
//! socket.

use super::carrier::{LineReceiver, LineSocket};
use super::host::{now, random, steady};
use super::reflect::is_passing;
use crate::sys::transmit_times::TransmitTimes;
use farline_core::line::stamp::{ReflectorPacket, SenderPacket};
use farline_core::line::{
    DelaySample, FOLLOW_UP_PACKET, FollowUp, FollowedSamples, KernelTimes, LineAnswer, LineRequest,
    read_message,
};
use farline_core::units::{Error, ErrorCode, Fault, Rate, Setting, Span, Time};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// After this long without an answer a question is asked again.
const AGAIN: u64 = 500_000_000;
/// So long an answer is waited for by a user who wants an end.
const AT_ONCE: Span = Span::from_secs(1);
/// STAMP packets whose answers are waited for.
const WAITED_FOR: usize = 4_096;

/// This end's side of it.
pub(super) struct PeerProtocol {
    socket: Arc<LineSocket>,
    receiver: LineReceiver,
    /// What the other end is called.
    target: String,
    /// STAMP packets on their way.
    asked: VecDeque<AskedDelay>,
    next: u32,
    times: Option<TransmitTimes>,
    samples: FollowedSamples,
    /// When the packet of the sample that waits was sent, by the steady clock.
    waiting: Time,
    kernel_times: KernelTimes,
    pub(super) clock: (bool, Span),
    /// Nobody waits any more for what does not come at once.
    stop: Arc<AtomicBool>,
    /// When the other end last said anything, by the steady clock.
    pub(super) heard: Time,
}

/// What came while this end listened.
#[derive(Debug)]
pub(super) enum Received {
    Answer(LineAnswer),
    /// And when its packet was sent, by the steady clock.
    Delay(DelaySample, Time),
}

/// A STAMP packet whose answer is waited for.
struct AskedDelay {
    number: u32,
    /// As the packet has it, whose format is coarser than a nanosecond.
    sent: Time,
    /// By the steady clock.
    at: Time,
    /// Under which its time is told, and that time.
    timed: Option<u32>,
    left: Option<Time>,
}

impl PeerProtocol {
    pub(super) fn new(
        socket: Arc<LineSocket>,
        receiver: LineReceiver,
        target: String,
        clock: (bool, Span),
        stop: Arc<AtomicBool>,
    ) -> PeerProtocol {
        PeerProtocol {
            times: socket.transmit_times(),
            socket,
            receiver,
            target,
            asked: VecDeque::new(),
            next: 0,
            samples: FollowedSamples::default(),
            waiting: Time::ZERO,
            kernel_times: KernelTimes::default(),
            clock,
            stop,
            heard: steady(),
        }
    }

    /// Asks; what is lost on the way is asked again by who waits for it.
    pub(super) fn ask(&self, request: &LineRequest) {
        let _ = self.socket.send(&request.bytes());
    }

    /// Sends a STAMP packet.
    pub(super) fn ask_delay(&mut self) {
        let mut packet = [0; FOLLOW_UP_PACKET];
        let (at, sent) = (steady(), now(self.clock));
        SenderPacket { sequence: self.next, sent, session: 1 }.write(None, &mut packet);
        FollowUp::ask(&mut packet);
        let Ok(timed) = self.socket.send_timed(&mut self.times, &packet, None) else {
            // Numbers begin anew.
            return self.asked.iter_mut().for_each(|asked| asked.timed = None);
        };
        if self.asked.len() >= WAITED_FOR {
            self.asked.pop_front();
        }
        let sent = SenderPacket::read(None, &packet).map_or(sent.time, |read| read.sent.time);
        self.asked.push_back(AskedDelay { number: self.next, sent, at, timed, left: None });
        self.next = self.next.wrapping_add(1);
    }

    /// What comes within the socket's time.
    pub(super) fn listen(&mut self) -> Result<Vec<Received>, Error> {
        let (mut heard, waiting) = (Vec::new(), &mut self.asked);
        let (samples, sample_at) = (&mut self.samples, &mut self.waiting);
        let kernel_times = &mut self.kernel_times;
        let received = self.receiver.receive(&self.socket, |arrival| {
            if let Some(answer) = read_message(arrival.bytes) {
                heard.push(Received::Answer(answer));
            } else if let Some(packet) = ReflectorPacket::read(None, arrival.bytes)
                // An answer that nobody asked for, or that came already, counts for nothing.
                && let Some(place) = waiting.iter().position(|asked| {
                    (asked.number, asked.sent) == (packet.sender_sequence, packet.sender_sent.time)
                })
            {
                self.socket.read_times(&mut self.times, |number, left| {
                    if let Some(asked) = waiting.iter_mut().find(|one| one.timed == Some(number)) {
                        asked.left = Some(left);
                    }
                });
                let Some(asked) = waiting.remove(place) else { return };
                let sample = DelaySample {
                    sent: asked.left.unwrap_or(asked.sent),
                    received: packet.received,
                    returned: packet.sent.time,
                    came: arrival.received.unwrap_or(packet.sent.time),
                };
                let follow_up = FollowUp::read(arrival.bytes);
                *kernel_times = kernel_times.and(&KernelTimes {
                    packets: 1,
                    left_here: asked.left.is_some().into(),
                    came_here: arrival.received.is_some().into(),
                    left_there: follow_up.is_some().into(),
                });
                let before = samples.take(packet.sequence, sample, follow_up);
                let at = std::mem::replace(sample_at, asked.at);
                heard.extend(before.map(|sample| Received::Delay(sample, at)));
            }
        });
        match received {
            Ok(()) => {}
            Err(error) if is_passing(error.kind()) => return Ok(Vec::new()),
            Err(error) => {
                let message = format!("receiving: {error}");
                return Err(Error::new(Fault::Here, ErrorCode::LineSocket, message));
            }
        }
        if !heard.is_empty() {
            self.heard = steady();
        }
        Ok(heard)
    }

    /// Of how many packets since it was last asked the kernels told times.
    pub(super) fn take_kernel_times(&mut self) -> KernelTimes {
        std::mem::take(&mut self.kernel_times)
    }

    /// For how long the other end has said nothing.
    pub(super) fn silence(&self) -> Span {
        steady().since(self.heard)
    }

    /// Asks until there is an answer, for `timeout` at most, and not for long where the user wants
    /// an end.
    pub(super) fn answered(
        &mut self,
        make: impl Fn(u64) -> LineRequest,
        timeout: Span,
    ) -> Result<LineAnswer, Error> {
        let nonce = random();
        let begun = steady();
        let mut asked = Time::ZERO;
        let stop = Arc::clone(&self.stop);
        let most = || match stop.load(Ordering::Relaxed) {
            true => AT_ONCE.min(timeout),
            false => timeout,
        };
        while steady().since(begun) < most() {
            if steady().since(asked).as_nanos() > AGAIN {
                self.ask(&make(nonce));
                asked = steady();
            }
            for heard in self.listen()? {
                match heard {
                    Received::Answer(answer) if answer.nonce() == nonce => return Ok(answer),
                    Received::Answer(_) | Received::Delay(..) => {}
                }
            }
        }
        Err(Error::new(
            Fault::Between,
            ErrorCode::LineGone,
            format!("{} does not answer within {}", self.target, most()),
        )
        .hint(match *self.socket {
            LineSocket::Udp { .. } => {
                "run `farline line reflect` there, and let UDP through to its port".to_owned()
            }
            LineSocket::Ethernet(_) => {
                format!("run `farline line reflect {} DEV` there", Setting::Ethernet)
            }
        }))
    }

    /// Shows the other end where this one is, and begins the test `session` there, or goes on with
    /// it.
    pub(super) fn begin(
        &mut self,
        session: u64,
        rate: Rate,
        at_us: u64,
        timeout: Span,
    ) -> Result<LineAnswer, Error> {
        let cookie = match self.answered(|nonce| LineRequest::Hello { nonce }, timeout)? {
            LineAnswer::Cookie { cookie, .. } => cookie,
            other => return Err(strange(&other)),
        };
        let rate_bps = rate.as_bps();
        let begin = |nonce| LineRequest::Begin { nonce, cookie, session, rate_bps, at_us };
        match self.answered(begin, timeout)? {
            begun @ LineAnswer::Begun { .. } => Ok(begun),
            LineAnswer::Refused { most_bps, .. } => {
                let refused = |message: String| {
                    Error::new(Fault::Refused, ErrorCode::LineNotAllowed, message)
                };
                Err(match most_bps {
                    Some(most) => refused(format!(
                        "the other end lets {} be sent to it, not {rate}",
                        Rate::from_bps(most)
                    ))
                    .hint(format!(
                        "take a smaller {} or {}, or raise the rate there",
                        Setting::Rate,
                        Setting::Load
                    )),
                    None => refused("the other end has as many tests as it takes".to_owned()),
                })
            }
            other => Err(strange(&other)),
        }
    }
}

/// An answer to something else.
pub(super) fn strange(answer: &LineAnswer) -> Error {
    let message = format!("the other end answers something else: {answer:?}");
    Error::new(Fault::There, ErrorCode::LineGone, message)
}
