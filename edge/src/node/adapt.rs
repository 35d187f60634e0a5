//! `OPTS FARLINE adapt=`: what a node changes by itself of what it sends, and what it tells its
//! client of it (`docs/protocol.md`, D-1 to D-3).

use super::data_listener::DataListener;
use super::running::RunningTransfer;
use crate::channels::{Channel, Handle};
use crate::mover::{Incoming, OpenOutcome, Tally, tuning_limits, window_limit};
use crate::sys::tcp::TcpInfo;
use farline_core::congestion::ControlName;
use farline_core::transfer::{StoreMedium, TuningLimits, Waits};
use farline_core::units::{Bytes, Error, ErrorCode, Fault, Rate, Span};
use std::time::{Duration, Instant};

/// The FEAT line.
pub(super) const FEATURE: &str = "FARLINE ADAPT";

/// What a session's client lets the node change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Adapt {
    /// Whether the client said anything of it, and so wants to hear.
    pub(super) told: bool,
    channels: bool,
    congestion: bool,
}

impl Adapt {
    /// Reads the option's value (D-1).
    pub(super) fn parse(value: &str) -> Result<Adapt, Error> {
        let mut adapt = Adapt { told: true, ..Adapt::default() };
        for what in value.split('+') {
            match what {
                "none" if value == "none" => {}
                "channels" => adapt.channels = true,
                "congestion" => adapt.congestion = true,
                other => {
                    let message = format!(
                        "nothing is adapted that is called `{other}`; channels, congestion and \
                         none are known"
                    );
                    return Err(Error::new(Fault::You, ErrorCode::Unsupported, message));
                }
            }
        }
        Ok(adapt)
    }

    /// What the tuner may change of a transfer over `channels`, which is held to a rate or not, and
    /// of which the client may open more or not.
    pub(super) fn tuning_limits(
        self,
        paced: bool,
        may_open: bool,
        channels: &[Box<dyn Channel>],
    ) -> TuningLimits {
        // A rate that was asked for is shared out among the channels that there are.
        let congestion = channels.first().and_then(|channel| channel.congestion());
        let congestion = congestion.filter(|_| self.congestion && !paced);
        tuning_limits(self.channels && may_open && !paced, congestion)
    }
}

/// The connections that come in through a session's listener, with what the client wished of all of
/// them.
#[derive(Clone, Copy)]
pub(super) struct IncomingChannels<'a> {
    pub(super) listener: Option<&'a DataListener>,
    pub(super) congestion: Option<ControlName>,
    pub(super) buffer: Option<Bytes>,
    /// A rate that each holds, and the control that holds it, where this end sends over TCP.
    pub(super) held: Option<(Rate, ControlName)>,
    /// Whether a transfer may have more of them than it began with.
    pub(super) may_grow: bool,
}

impl IncomingChannels<'_> {
    /// The next within `timeout` whose client is still there: it may have given up since what came
    /// too late for a transfer (D-2).
    pub(super) fn next(&self, timeout: Duration) -> Result<Option<Box<dyn Channel>>, Error> {
        let Some(listener) = self.listener else { return Ok(None) };
        let Some(channel) = listener.accept(timeout)? else { return Ok(None) };
        let Ok(handle) = channel.handle() else { return Ok(None) };
        if handle.tcp_info().is_some_and(|info| !info.established) {
            return Ok(None);
        }
        if let Some(name) = self.congestion {
            // The listener had another when the client named this one; `set_option` has tried it.
            let _ = handle.set_congestion(name);
        }
        self.hold(&handle)?;
        if let Some(len) = self.buffer {
            // What the system does not grant it leaves as it was.
            let _ = handle.set_buffer(len);
        }
        Ok(Some(channel))
    }

    /// Has a channel hold its share of a rate, where there is one that this end sends over TCP.
    ///
    /// # Errors
    /// When it cannot.
    pub(super) fn hold(&self, handle: &Handle) -> Result<(), Error> {
        let Some((rate, control)) = self.held else { return Ok(()) };
        handle.hold(rate, control).map_err(|error| {
            let message = format!("this node cannot hold a rate over TCP: {error}");
            Error::new(Fault::There, ErrorCode::HeldRateRefused, message)
        })
    }

    /// The next that has come already (D-2).
    pub(super) fn take_another(&self) -> OpenOutcome {
        if !self.may_grow {
            return OpenOutcome::NotYet;
        }
        self.next(Duration::ZERO).ok().flatten().map_or(OpenOutcome::NotYet, OpenOutcome::Opened)
    }
}

/// Takes the time of one transfer, to say what held it back.
pub(super) struct Watch {
    began: Instant,
}

impl Watch {
    pub(super) fn new() -> Watch {
        Watch { began: Instant::now() }
    }

    /// Tells the client what limited this end, over channels of which the kernel says `tcp`, from
    /// or to a store that is a `medium`.
    pub(super) fn report_limit(
        &self,
        run: &RunningTransfer<'_>,
        tally: &Tally,
        tcp: &[TcpInfo],
        medium: StoreMedium,
        sending: bool,
    ) {
        let waits = tally.waits();
        let waits = Waits {
            has_path: !tcp.is_empty() || waits.path.total() > Span::ZERO,
            moving: self.began.elapsed().into(),
            channels: u32::try_from(tcp.len()).unwrap_or(u32::MAX),
            retransmits: tcp.iter().map(|tcp| tcp.retransmits).sum::<u64>() + waits.retransmits,
            rtt: tcp.iter().map(|tcp| tcp.min_rtt).min().unwrap_or_default(),
            bytes: Bytes(tally.bytes()),
            buffer: run.request.buffer_size,
            media: (medium, medium),
            window_limit: window_limit(if sending { "tcp_wmem" } else { "tcp_rmem" }),
            ..waits
        };
        let own = if sending { waits.sender_limit() } else { waits.receiver_limit() };
        run.reporter.remark(format!("FARLINE evidence={}", own.evidence));
        run.reporter.remark(format!("FARLINE limited={};", own.limit.name()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_change_is_a_list_and_other_words_are_refused() {
        let all = Adapt { told: true, channels: true, congestion: true };
        assert_eq!(Adapt::parse("channels+congestion").expect("a list"), all);
        assert_eq!(Adapt::parse("congestion").expect("a list"), Adapt { channels: false, ..all });
        assert_eq!(
            Adapt::parse("none").expect("nothing"),
            Adapt { channels: false, congestion: false, ..all }
        );
        for wrong in ["", "staging", "channels+", "none+channels"] {
            assert_eq!(
                Adapt::parse(wrong).expect_err("refused").code,
                ErrorCode::Unsupported,
                "{wrong}"
            );
        }
    }
}
