//! What a copy moves data with: channels, congestion control and staging, for what is known of the
//! path, this host and the user's wishes.

use super::Copy;
use crate::channels::driver::CongestionBy;
use crate::channels::socket::{granted_buffer, may_choose};
use crate::channels::stack::Opener;
use crate::channels::{Stack, TcpOptions};
use crate::client::location::Remote;
use crate::client::outcome::DataDirection;
use crate::client::transfer_state::LiveTuning;
use crate::kernelcc::{self, CcRequest};
use crate::mover::{BLOCK_LEN, tuning_limits, window_limit};
use crate::plan::paths::{address_towards, seen};
use crate::sys::route::fq_towards;
use farline_core::congestion::{Algorithm, ControlName};
use farline_core::copy::{HeldRate, SeenPath};
use farline_core::plan::{ControlReason, PathEstimate, Reason};
use farline_core::transfer::{PathContext, PriorMeasurement, TransferParams};
use farline_core::units::{Bytes, Error, Fault, Setting, Span};
use std::net::IpAddr;

/// A path to `peer`, where its address is known, that is `rtt` long, over which this host sends, or
/// receives, and of which nothing else is known.
pub fn path_estimate(rtt: Span, peer: Option<IpAddr>, sending: bool) -> PathEstimate {
    PathEstimate {
        rtt,
        window: window_limit(if sending { "tcp_wmem" } else { "tcp_rmem" }),
        available: kernelcc::available()
            .into_iter()
            .filter(|&name| may_choose(name).is_ok())
            .collect(),
        default_congestion: kernelcc::default_control().unwrap_or(Algorithm::Reno.into()),
        // What the other host's device does only that host knows.
        fq: peer.filter(|_| sending).and_then(fq_towards),
    }
}

/// Whether Farline or this host's kernel knows a congestion control of that name.
///
/// # Errors
/// [`Fault::You`] when neither does.
pub(in crate::client) fn known(name: ControlName) -> Result<(), Error> {
    if kernelcc::available().contains(&name) {
        return Ok(());
    }
    name.as_str().parse::<Algorithm>().map(drop)
}

impl Copy<'_> {
    /// The congestion control of the channel driver that was asked for, where it has one of its
    /// own.
    ///
    /// # Errors
    /// [`Fault::You`] when it does not have the one that was asked for.
    pub(in crate::client) fn own_control(&self) -> Result<Option<ControlName>, Error> {
        let Some(stack) = &self.options.channel else { return Ok(None) };
        stack.control(self.asked_congestion())
    }

    /// Makes the congestion control that was asked for available to this host's channels, or notes
    /// why they use another.
    pub(in crate::client) fn obtain_congestion(&mut self) -> Result<(), Error> {
        let Some(name) = self.overrides.congestion else { return Ok(()) };
        if self.own_control()?.is_some() {
            return Ok(());
        }
        let obtained = kernelcc::obtain(&CcRequest::new(name));
        match obtained {
            Err(error) if error.fault == Fault::You => return Err(error),
            Err(error) => {
                self.overrides.congestion = None;
                self.stats.note(format!("without {name}: {error}"));
            }
            Ok(guard) if may_choose(guard.name).is_ok() => {
                // While somebody else's transfer has the plain name, ours is another.
                self.overrides.congestion = Some(guard.name);
                self.guard = Some(guard);
            }
            Ok(_) => {
                self.overrides.congestion = None;
                self.stats.note(format!(
                    "without {name}: this kernel has it for processes with CAP_NET_ADMIN only"
                ));
            }
        }
        Ok(())
    }

    /// The channel driver that the user asked for, or else that a profile of the path found best,
    /// where a session that is encrypted or not, as this one, can have it.
    pub(in crate::client) fn channel(&self, encrypt: bool) -> Option<Stack> {
        let advice = || {
            let name = self.overrides.prior.as_ref()?.channel?;
            self.options.drivers.stack(name).ok().filter(|stack| encrypt || !stack.is_encrypted())
        };
        self.options.channel.clone().or_else(advice)
    }

    /// Notes that data goes over `driver`, where nobody asked for it but a profile.
    pub(in crate::client) fn note_profiled(&mut self, driver: &'static str) {
        let Some(PriorMeasurement { channel, date, .. }) = &self.overrides.prior else {
            return;
        };
        if self.options.channel.is_none()
            && *channel == Some(driver)
            && let Some(params) = &mut self.stats.params
        {
            params.reasons.push(Reason::ChannelProfiled(driver, date.clone()));
        }
    }

    /// The congestion control that was asked for, to be told to the end that sends.
    pub(in crate::client) fn asked_congestion(&self) -> Option<ControlName> {
        self.options.overrides.congestion
    }

    /// Notes that a sender which is no Farline node is not told of the congestion control that was
    /// asked for.
    ///
    /// # Errors
    /// [`Fault::You`] for a name that neither Farline nor this host's kernel knows: nobody else
    /// will say so.
    pub(in crate::client) fn congestion_untold(&mut self, sender: &Remote) -> Result<(), Error> {
        let Some(name) = self.asked_congestion() else { return Ok(()) };
        known(name)?;
        self.stats.note(format!(
            "without {name}: {sender} sends, and is no Farline node that could be told"
        ));
        Ok(())
    }

    /// Chooses channels, congestion control and staging for what is known now.
    pub(in crate::client) fn choose(
        &mut self,
        rtt: Span,
        peer: Option<IpAddr>,
        size: Option<Bytes>,
        sending: bool,
    ) -> TransferParams {
        // Between two other hosts no driver of this one carries anything.
        let stack = self.options.channel.as_ref();
        let stack = stack.filter(|_| self.stats.direction != DataDirection::Elsewhere);
        let own_control = stack.and_then(|stack| stack.control(self.asked_congestion()).ok()?);
        let resumes_each = stack
            .is_some_and(|stack| own_control.is_some_and(|control| stack.resumes_each(control)));
        let seen = self.seen_path(peer, sending);
        let limits = [self.options.limit, self.options.held.map(|held| held.rate)];
        let context = PathContext {
            path: path_estimate(rtt, peer, sending),
            size,
            rate: limits.into_iter().flatten().chain(seen.map(|seen| seen.rate)).min(),
            resumes: seen.is_some() && self.options.limit.is_none() && resumes_each,
            saved: seen.map(|seen| seen.saved).filter(|_| self.resumes_by_channels(stack)),
            queue_pairs: stack.map_or(0, |stack| {
                stack.connections(rtt) * self.options.overrides.streams.unwrap_or(1)
            }),
        };
        let mut params = TransferParams::new(&context, &self.overrides, Bytes(BLOCK_LEN as u64));
        if let Some(wanted) = self.options.buffer {
            params.reasons.push(Reason::Buffers(wanted));
            if let Some(granted) = granted_buffer(wanted).filter(|&granted| granted < wanted) {
                let why = "net.core.wmem_max or net.core.rmem_max allows no more";
                self.stats.note(format!("socket buffers of {granted} rather than {wanted}: {why}"));
            }
        }
        if let (Some(name), Some(stack)) = (own_control, stack)
            && self.asked_congestion().is_none()
        {
            // What was chosen is for a kernel's channels.
            params.congestion = None;
            let why = ControlReason::Channel(stack.channel().title.to_owned());
            params.reasons.retain(|reason| !matches!(reason, Reason::Control(..)));
            params.reasons.push(Reason::Control(name, why));
        }
        if let Some(HeldRate { rate, channels }) = self.options.held {
            params.streams = channels;
            params.congestion = None;
            params.reasons = vec![Reason::Held { rate, channels }];
        }
        self.stats.rtt = rtt;
        self.stats.streams = params.streams;
        self.stats.direction = if sending { DataDirection::Out } else { DataDirection::In };
        self.stats.fixed.window = context.path.window;
        self.stats.params = Some(params.clone());
        params
    }

    /// What the last copy that went this way saw, where this one goes by it.
    fn seen_path(&self, peer: Option<IpAddr>, sending: bool) -> Option<SeenPath> {
        let peer = peer.filter(|_| sending && !self.options.fresh_start)?;
        seen(address_towards(peer)?, peer)
    }

    /// Whether this copy can begin from that by the number of its channels alone: they are TCP's,
    /// and this process may load no control for them that begins from it.
    fn resumes_by_channels(&self, stack: Option<&Stack>) -> bool {
        let by = stack.map(|stack| stack.channel().capabilities.congestion);
        let is_tcp = by.is_none_or(|by| by == CongestionBy::Kernel);
        let is_free = self.options.limit.is_none() && self.options.held.is_none();
        // What has its path already is an attempt after the first, which begins as over any.
        is_tcp && is_free && self.path.is_none() && !kernelcc::may_load()
    }

    /// Options of this end's data connections over a path of this round trip.
    pub(in crate::client) fn tcp_options(
        &self,
        congestion: Option<ControlName>,
        rtt: Span,
    ) -> TcpOptions {
        match self.options.held {
            None => TcpOptions { congestion, buffer: self.options.buffer, held: None },
            Some(held) => TcpOptions {
                congestion: None,
                buffer: Some(self.options.buffer.unwrap_or_else(|| held.buffer(rtt))),
                held: Some(held.share()),
            },
        }
    }

    /// Begins to load the control that holds a rate over TCP, if this copy is to hold one: by the
    /// time of [`Self::obtain_held`] it is there.
    pub(in crate::client) fn begin_held(&mut self) {
        let usual = || self.options.drivers.default_channel().map(|driver| driver.name);
        let asked = self.options.channel.as_ref().map(|stack| stack.channel().name);
        if self.options.held.is_some() && asked.is_none_or(|name| usual() == Some(name)) {
            let load = || kernelcc::obtain(&CcRequest::new(Algorithm::Held));
            self.loading = std::thread::Builder::new().name("control".to_owned()).spawn(load).ok();
        }
    }

    /// The control that holds the rate of what this end sends over TCP.
    ///
    /// # Errors
    /// When this host cannot have it.
    pub(in crate::client) fn obtain_held(&mut self) -> Result<ControlName, Error> {
        let loaded = self.loading.take().and_then(|loading| loading.join().ok());
        let obtain = || kernelcc::obtain(&CcRequest::new(Algorithm::Held));
        let guard = match self.guard.take().filter(|guard| guard.name.holds_rates()) {
            Some(guard) => guard,
            None => loaded.unwrap_or_else(obtain).map_err(|error| {
                let hint = error.hint.clone().unwrap_or_default();
                let error = error.while_doing("a rate cannot be held over TCP");
                error.hint(format!(
                    "a driver with a congestion control of its own needs no right, \
                    see farline cp {}; {hint}",
                    Setting::Channel
                ))
            })?,
        };
        let name = guard.name;
        self.guard = Some(guard);
        Ok(name)
    }

    /// What may change of a transfer that this end sends over channels with `congestion`, more of
    /// which open by `opener`.
    pub(in crate::client) fn tuning(
        &self,
        congestion: Option<ControlName>,
        opener: Option<Opener>,
    ) -> LiveTuning {
        let paced = self.state.pace.is_some() || self.state.rate.is_some();
        let congestion =
            congestion.filter(|_| self.options.overrides.congestion.is_none() && !paced);
        let channels = self.options.overrides.streams.is_none() && opener.is_some() && !paced;
        LiveTuning { tuning_limits: tuning_limits(channels, congestion), opener }
    }
}
