//! A session whose sender holds a booked rate: what it was admitted, its sockets, its control (O-8).

use super::adapt::IncomingChannels;
use super::data::DataPlane;
use crate::channels::TcpOptions;
use crate::kernelcc::{self, CcRequest};
use crate::sys::fs_user::as_service;
use farline_core::congestion::Algorithm;
use farline_core::copy::HeldRate;
use farline_core::units::{Bytes, Error, ErrorCode, Fault, Rate};

impl DataPlane {
    /// Admits, or takes back, a rate that this session's sender holds.
    pub(super) fn hold_rate(&mut self, value: &str) -> Result<(), Error> {
        let held = HeldRate::parse(value).ok_or_else(|| {
            let message = format!("`{value}` is no rate and number of channels: BITS,CHANNELS");
            Error::new(Fault::You, ErrorCode::BadRate, message)
        })?;
        // What it had is free for what it asks for now.
        self.rate = None;
        self.channels.clear();
        self.options = TcpOptions { congestion: self.options.congestion, ..TcpOptions::default() };
        if held.rate == Rate::default() {
            return Ok(());
        }
        let admitted = self.shared.held.admit(held).inspect_err(|error| {
            self.shared.notices.say("allow_held", format_args!("{}: {error}", self.peer.ip()));
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

    /// Makes the control available that holds the session's rate over TCP, where this node sends.
    ///
    /// # Errors
    /// When this host cannot have it.
    pub(super) fn obtain_held(&mut self) -> Result<(), Error> {
        let usual = self.driver.is_none();
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
        IncomingChannels { listener, congestion, buffer, held }
    }
}
