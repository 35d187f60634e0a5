//! Messages of a run, one after the other there and back.

use super::flow::{news, other_over, over};
use super::peer_protocol::PeerProtocol;
use crate::sys::verbs::{Done, QpSet, Verb};
use farline_core::profile::verbs::{End, VerbsJob};
use farline_core::units::{Error, Span};
use std::time::{Duration, Instant};

/// How long a round trip may take beyond the path's own before it counts as lost.
const LOST: Duration = Duration::from_secs(1);

/// Sends one message after the other, each when the one before has come back.
///
/// # Errors
/// As [`stream`](super::flow::stream).
pub(super) fn ping(
    pairs: &mut QpSet,
    protocol: &mut PeerProtocol,
    job: &VerbsJob,
) -> Result<End, Error> {
    let (mut end, mut took) = (End::default(), Vec::new());
    let deadline = Instant::now() + Duration::from_secs_f64(job.most_s);
    let timeout = LOST + Duration::from_nanos(job.rtt_ns.as_nanos());
    let began = Instant::now();
    while end.done < job.messages && end.failure.is_none() && Instant::now() < deadline {
        let sent = Instant::now();
        let answered = pairs.post(0, Verb::Send, 1).and_then(|()| answer(pairs, sent + timeout));
        match answered {
            Ok(Some(Answer::Arrived(at))) => {
                end.done += 1;
                end.seconds = began.elapsed().as_secs_f64();
                took.push(at - sent);
            }
            Ok(Some(Answer::Broken(words))) => end.failure = Some(words),
            Ok(None) => end.unanswered += 1,
            Err(error) => end.failure = Some(error.to_string()),
        }
    }
    over(protocol)?;
    other_over(protocol)?;
    took.sort();
    end.round_trip_ns =
        took.get(took.len() / 2).map(|median| Span::from_nanos(median.as_nanos() as u64));
    Ok(end)
}

enum Answer {
    Arrived(Instant),
    Broken(String),
}

/// Waits for the message that comes back, and for the own one to be sent: the order does not
/// matter.
fn answer(pairs: &mut QpSet, until: Instant) -> std::io::Result<Option<Answer>> {
    let (mut done, mut sent, mut came) = (Vec::new(), false, None);
    while !sent || came.is_none() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        news(pairs, &mut done, None, left)?;
        for one in done.drain(..) {
            match one {
                Done::Sent(_) => sent = true,
                Done::Arrived(on, buffer) => {
                    came = Some(Instant::now());
                    pairs.receive(on, buffer)?;
                }
                Done::Failed(failure) => return Ok(Some(Answer::Broken(failure.to_string()))),
            }
        }
    }
    Ok(came.map(Answer::Arrived))
}

/// Sends every message back, until the other end has finished.
///
/// # Errors
/// As [`stream`](super::flow::stream).
pub(super) fn pong(pairs: &mut QpSet, protocol: &mut PeerProtocol) -> Result<End, Error> {
    let (mut end, mut done) = (End::default(), Vec::new());
    while !protocol.has_news() {
        let mut step = || {
            news(pairs, &mut done, Some(protocol), LOST)?;
            for one in done.drain(..) {
                match one {
                    Done::Arrived(on, buffer) => {
                        pairs.receive(on, buffer)?;
                        pairs.post(on, Verb::Send, 1)?;
                    }
                    Done::Sent(_) => end.done += 1,
                    Done::Failed(failure) => {
                        return Err(std::io::Error::other(failure.to_string()));
                    }
                }
            }
            Ok(())
        };
        if let Err(error) = step() {
            end.failure = Some(error.to_string());
            break;
        }
    }
    other_over(protocol)?;
    over(protocol)?;
    Ok(end)
}
