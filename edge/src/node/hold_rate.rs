//! A session whose sender holds a booked rate: what it was admitted, its sockets, its control
//! (O-8).

use super::adapt::IncomingChannels;
use super::data::DataPlane;
use super::held::Admitted;
use crate::channels::driver::Carries;
use crate::channels::{Channel, TcpOptions};
use crate::kernelcc::{self, CcRequest};
use crate::mover::{Incoming, reset};
use crate::sys::fs_user::as_service;
use farline_core::congestion::Algorithm;
use farline_core::copy::HeldRate;
use farline_core::units::{Bytes, Error, ErrorCode, Fault, Rate};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

impl DataPlane {
    /// Admits, or takes back, a rate that this session's sender holds.
    pub(super) fn hold_rate(&mut self, value: &str) -> Result<(), Error> {
        let held = HeldRate::parse(value).ok_or_else(|| {
            let message = format!("`{value}` is no rate and number of channels: BITS,CHANNELS");
            Error::new(Fault::You, ErrorCode::BadRate, message)
        })?;
        // What it had is free for what it asks for now. Nothing goes on at the old rate: not even
        // over what has come and not shown the key yet, which the new one lets in.
        self.rate = None;
        for channel in self.channels.drain(..) {
            // A channel that is dropped goes on with what is on its way.
            reset(&*channel);
        }
        let again = self.listener.take().map(|listener| listener.arrivals().key().clone());
        self.listener = again.map(|key| {
            let (refused, room) = (self.refused_connections(), self.room());
            let key = (key, self.client_ip());
            self.shared.listeners.open(key, self.layer(), refused, room)
        });
        self.options = TcpOptions { congestion: self.options.congestion, ..TcpOptions::default() };
        if held.rate == Rate::default() {
            return Ok(());
        }
        let admitted = self.shared.held.admit(held).inspect_err(|error| {
            self.shared.notices.say("allow_held", format_args!("{}: {error}", self.client_ip()));
        })?;
        self.options = TcpOptions {
            congestion: None,
            buffer: Some(held.buffer(self.rtt)),
            held: Some(held.share()),
        };
        self.rate = Some((admitted, None));
        Ok(())
    }

    /// The rate that each channel of this session's sender holds, if it holds one.
    pub(super) fn held_share(&self) -> Option<Rate> {
        self.rate.as_ref().map(|(admitted, _)| admitted.held.share())
    }

    /// Refuses a transfer over so many channels that would not hold the session's rate, if it has
    /// one.
    ///
    /// # Errors
    /// When nothing holds it, or each channel its share and all of them together more.
    pub(super) fn require_held(&self, channels: usize) -> Result<(), Error> {
        let Some((Admitted { held: HeldRate { rate, channels: booked }, .. }, _)) = &self.rate
        else {
            return Ok(());
        };
        let refused = |message: String, hint: &str| {
            Err(Error::new(Fault::You, ErrorCode::BadRate, message).hint(hint))
        };
        let give_back = "or give the rate back: rate=0,1";
        if self.listener.is_none() {
            let message =
                format!("{rate} is held over data connections of a session with a key alone");
            return refused(message, &format!("say key=, then PASV or EPSV, {give_back}"));
        }
        if let Some(driver) =
            self.driver.as_ref().filter(|by| by.capabilities.carries != Carries::OrderedBytes)
        {
            let message = format!("{rate} is not held over {}", driver.title);
            return refused(message, &format!("choose another by SITE SETNETSTACK, {give_back}"));
        }
        if channels > *booked {
            let channels_booked = if *booked == 1 { "channel" } else { "channels" };
            let message = format!(
                "{rate} is booked for {booked} {channels_booked}, and this transfer has {channels}"
            );
            return refused(
                message,
                "ask for as many, or book the rate for more: rate=BITS,CHANNELS",
            );
        }
        Ok(())
    }

    /// What comes in through `incoming` for a transfer that has `there` channels already: no more
    /// than the session's rate was booked for, if it has one.
    pub(super) fn booked<'a>(
        &self,
        incoming: &'a dyn Incoming,
        there: usize,
    ) -> Option<BookedChannels<'a>> {
        let (admitted, _) = self.rate.as_ref()?;
        let left = admitted.held.channels.saturating_sub(there);
        Some(BookedChannels { incoming, left: AtomicUsize::new(left) })
    }

    /// Has channels that came while this session received hold its rate: which end sends is known
    /// with the transfer.
    ///
    /// # Errors
    /// When one cannot.
    pub(super) fn hold_channels(&self) -> Result<(), Error> {
        let incoming = self.incoming(None);
        self.channels.iter().try_for_each(|channel| match channel.handle() {
            Ok(handle) => incoming.hold(&handle),
            // It is gone, which the transfer finds.
            Err(_) => Ok(()),
        })
    }

    /// Makes the control available that holds the session's rate over TCP, where this node sends.
    ///
    /// # Errors
    /// When this host cannot have it.
    pub(super) fn obtain_held(&mut self) -> Result<(), Error> {
        let usual = self.driver.is_none() && self.one_port.is_none();
        if let Some((_, control)) = self.rate.as_mut().filter(|(_, have)| usual && have.is_none()) {
            let obtained = as_service(|| kernelcc::obtain(&CcRequest::new(Algorithm::Held)));
            *control = Some(
                obtained
                    .map_err(|error| error.while_doing("this node cannot hold a rate over TCP"))?,
            );
        }
        Ok(())
    }

    /// The connections that come in through the session's listener, with buffers of this size each.
    pub(super) fn incoming(&self, buffer: Option<Bytes>) -> IncomingChannels<'_> {
        let (listener, congestion) = (self.listener.as_ref(), self.options.congestion);
        let held = self
            .rate
            .as_ref()
            .and_then(|(admitted, control)| Some((admitted.held.share(), control.as_ref()?.name)));
        // What holds a rate has the buffers that it needs.
        let buffer = buffer.filter(|_| self.rate.is_none());
        let may_grow = self.rate.is_none();
        IncomingChannels { listener, congestion, buffer, held, may_grow }
    }
}

/// Channels that come in, up to as many as a rate was booked for; those beyond are closed.
pub(super) struct BookedChannels<'a> {
    incoming: &'a dyn Incoming,
    left: AtomicUsize,
}

impl Incoming for BookedChannels<'_> {
    fn accept(&self, timeout: Duration) -> Result<Option<Box<dyn Channel>>, Error> {
        let channel = self.incoming.accept(timeout)?;
        let take = |left: usize| left.checked_sub(1);
        Ok(channel
            .filter(|_| self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()))
    }

    fn waits_at(&self) -> Option<BorrowedFd<'_>> {
        self.incoming.waits_at()
    }

    fn wake(&self) {
        self.incoming.wake();
    }
}
