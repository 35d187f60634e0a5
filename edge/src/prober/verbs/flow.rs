//! Messages of a run: a window of them, one way or both ways.

use super::peer_protocol::PeerProtocol;
use crate::sys::verbs::{Done, QpSet, Verb};
use farline_core::profile::verbs::{End, QpService, VerbsJob, VerbsMetric};
use farline_core::units::Error;
use std::hint::spin_loop;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// How long an end looks for news before it sleeps until there are some: waking up takes longer
/// than a message across a room.
const SPIN: Duration = Duration::from_micros(50);
/// How long after the last of them datagrams may still come, beyond a round trip, when their sender
/// has finished.
const QUIET: Duration = Duration::from_millis(100);

/// What this end does in a run.
#[derive(Clone, Copy)]
pub(super) struct Part {
    /// Whether it has messages of its own.
    pub(super) sends: bool,
    /// Whether the other end's datagrams come to it.
    pub(super) expects: bool,
}

impl Part {
    pub(super) fn of(job: &VerbsJob, near: bool) -> Part {
        let sends = near || job.way == VerbsMetric::BothWays;
        let comes = !near || job.way == VerbsMetric::BothWays;
        Part { sends, expects: comes && job.transport == QpService::Ud }
    }
}

pub(super) fn verb(job: &VerbsJob) -> Verb {
    match (job.transport, job.way) {
        (_, VerbsMetric::RoundTrip) | (QpService::Ud, _) => Verb::Send,
        (QpService::Rc, _) => Verb::Write,
        (QpService::Read, _) => Verb::Read,
    }
}

/// Says that this end has finished.
pub(super) fn over(protocol: &mut PeerProtocol) -> Result<(), Error> {
    protocol.say(&"over")
}

/// Hears that the other one has.
pub(super) fn other_over(protocol: &mut PeerProtocol) -> Result<(), Error> {
    protocol.hear::<String>().map(drop)
}

/// Takes news, or waits for some: from the device, and from the peer when `protocol` is given.
pub(super) fn news(
    pairs: &mut QpSet,
    into: &mut Vec<Done>,
    protocol: Option<&PeerProtocol>,
    most: Duration,
) -> std::io::Result<()> {
    let spun = Instant::now() + SPIN.min(most);
    loop {
        if pairs.poll(into)? || protocol.is_some_and(PeerProtocol::has_news) {
            return Ok(());
        }
        if Instant::now() >= spun {
            break;
        }
        spin_loop();
    }
    pairs.wait(into, protocol.map(PeerProtocol::as_fd), most)
}

/// Sends the messages of `job`, at most its depth of them unacknowledged on each queue pair, and
/// counts what comes.
///
/// # Errors
/// When the other end is gone; what breaks the connection is part of the answer.
pub(super) fn stream(
    pairs: &mut QpSet,
    protocol: &mut PeerProtocol,
    job: &VerbsJob,
    part: Part,
) -> Result<End, Error> {
    let mut flow = Flow::new(job, part);
    if part.sends && pairs.is_iwarp() && verb(job) == Verb::Write {
        flow.fence = Fence::Due;
    }
    let mut said = false;
    loop {
        if let Err(error) = flow.step(pairs, protocol, said) {
            flow.end.failure.get_or_insert_with(|| error.to_string());
        }
        let finished = flow.is_over(pairs) || flow.end.failure.is_some();
        if part.sends && finished && !said {
            over(protocol)?;
            said = true;
        }
        if flow.end.failure.is_some() || finished && protocol.has_news() && flow.is_quiet() {
            break;
        }
    }
    other_over(protocol)?;
    if !said {
        over(protocol)?;
    }
    Ok(flow.end)
}

/// Whether it is still to be asked whether the other end has what was written to it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fence {
    /// No: the completions say so, or nothing is written.
    Needless,
    /// When all is sent: iWARP's completions say no more than that.
    Due,
    /// It is being asked.
    Asked,
}

struct Flow<'a> {
    job: &'a VerbsJob,
    part: Part,
    began: Instant,
    deadline: Instant,
    posted: u64,
    /// Messages on their way, by queue pair.
    out: Vec<u64>,
    fence: Fence,
    first: Option<Instant>,
    last: Instant,
    done: Vec<Done>,
    end: End,
}

impl Flow<'_> {
    fn new(job: &VerbsJob, part: Part) -> Flow<'_> {
        let began = Instant::now();
        Flow {
            job,
            part,
            began,
            deadline: began + Duration::from_secs_f64(job.most_s),
            posted: 0,
            out: vec![0; usize::from(job.queue_pairs)],
            fence: Fence::Needless,
            first: None,
            last: began,
            done: Vec::new(),
            end: End::default(),
        }
    }

    /// Whether nothing more of its own is to come.
    fn has_sent(&self) -> bool {
        !self.part.sends || self.end.done >= self.job.messages || Instant::now() >= self.deadline
    }

    /// Whether all of its own that was sent is there too.
    fn is_over(&mut self, pairs: &mut QpSet) -> bool {
        let idle = self.out.iter().all(|out| *out == 0);
        if self.fence == Fence::Due && self.has_sent() && idle {
            self.fence = Fence::Asked;
            for (on, out) in self.out.iter_mut().enumerate() {
                if let Err(error) = pairs.post(on, Verb::Fence, 1) {
                    self.end.failure.get_or_insert_with(|| error.to_string());
                }
                *out = 1;
            }
            return false;
        }
        self.has_sent() && (self.fence == Fence::Needless || self.fence == Fence::Asked && idle)
    }

    /// Whether the other end's datagrams have all come, or no more will, once it has finished.
    fn is_quiet(&self) -> bool {
        let rtt = Duration::from_nanos(self.job.rtt_ns.as_nanos());
        !self.part.expects
            || self.end.arrived >= self.job.messages
            || self.last.elapsed() >= QUIET + rtt
    }

    fn step(
        &mut self,
        pairs: &mut QpSet,
        protocol: &PeerProtocol,
        said: bool,
    ) -> std::io::Result<()> {
        let wait = self.post(pairs)?;
        // While it sends, what the other end says can wait, and must not keep it awake.
        let listens = (said || !self.part.sends) && !protocol.has_news();
        news(pairs, &mut self.done, listens.then_some(protocol), wait)?;
        let now = Instant::now();
        for done in std::mem::take(&mut self.done) {
            match done {
                Done::Sent(on) => {
                    if let Some(out) = self.out.get_mut(on) {
                        *out = out.saturating_sub(1);
                    }
                    if self.fence == Fence::Asked {
                        self.end.seconds = (now - self.began).as_secs_f64();
                    } else if now <= self.deadline {
                        self.end.done += 1;
                        self.end.seconds = (now - self.began).as_secs_f64();
                    }
                }
                Done::Arrived(on, buffer) => {
                    self.end.arrived += 1;
                    self.last = now;
                    self.end.arrival_s = (now - *self.first.get_or_insert(now)).as_secs_f64();
                    pairs.receive(on, buffer)?;
                }
                Done::Failed(failure) => {
                    self.end.failure.get_or_insert_with(|| failure.to_string());
                }
            }
        }
        Ok(())
    }

    /// Hands over what depth and pace allow; returns how long nothing more can be handed over
    /// without news.
    fn post(&mut self, pairs: &mut QpSet) -> std::io::Result<Duration> {
        let usual = Duration::from_millis(20);
        if !self.part.sends || Instant::now() >= self.deadline || self.fence == Fence::Asked {
            return Ok(usual);
        }
        let pace = self.job.bottleneck.and_then(|bottleneck| bottleneck.host_bps);
        for on in 0..self.out.len() {
            let mut room = (self.job.depth - self.out[on]).min(self.job.messages - self.posted);
            if let Some(pace) = pace {
                let each = pace.time_for(self.job.size_bytes).as_secs_f64();
                let due = (self.began.elapsed().as_secs_f64() / each) as u64 + 1;
                room = room.min(due.saturating_sub(self.posted));
                if room == 0 && self.posted < self.job.messages {
                    let next = self.began + Duration::from_secs_f64(each * self.posted as f64);
                    return Ok(next.saturating_duration_since(Instant::now()).min(usual));
                }
            }
            pairs.post(on, verb(self.job), room as usize)?;
            self.posted += room;
            self.out[on] += room;
        }
        Ok(usual)
    }
}
