//! Asking a node to be the far end of a line test (docs/protocol.md, M-7).

use super::connect_options::ConnectOptions;
use super::control::Control;
use super::location::{ControlTransport, Remote};
use crate::line::{LineGrant, random};
use farline_core::copy::farline_option;
use farline_core::gridftp::client::Request;
use farline_core::units::Setting::AllowLine;
use farline_core::units::{Error, ErrorCode, Fault};
use std::net::SocketAddr;
use tokio::runtime::Builder;

/// Logs in at the node of `remote` and has it let a test begin: `session`, if one goes on.
///
/// # Errors
/// When it cannot be reached, and [`Fault::Refused`] when it does not allow it.
pub fn grant_line(
    remote: &Remote,
    connect: &ConnectOptions,
    session: Option<u64>,
) -> Result<LineGrant, Error> {
    if remote.transport == ControlTransport::Ssh {
        let message = format!("{remote}: a node that ssh starts is no far end of line tests");
        return Err(Error::new(Fault::You, ErrorCode::Unsupported, message).hint(format!(
            "run farline serve {AllowLine} RATE there, and name it as farline://HOST:PORT"
        )));
    }
    let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| {
        Error::new(Fault::Here, ErrorCode::NoRuntime, format!("cannot start: {error}"))
    })?;
    runtime.block_on(async {
        let (mut control, _) = Control::open(remote, connect, Vec::new()).await?;
        if control.features().line_ceiling.is_none() {
            let message = format!("{} lets no line be tested", control.server());
            return Err(Error::new(Fault::Refused, ErrorCode::LineNotAllowed, message)
                .hint(format!("its operator can allow it: farline serve {AllowLine} RATE")));
        }
        let session = session.unwrap_or_else(random);
        let option = farline_option("line", &format!("{session:x}"));
        let asked = control.request(Request::ToFarline(Box::new(option)));
        let reply = control.done(asked).await?;
        let port = reply.first().trim().strip_prefix("line=").and_then(|port| port.parse().ok());
        let port: u16 = port.ok_or_else(|| {
            let message = format!("{} names no port: {}", control.server(), reply.first());
            Error::new(Fault::There, ErrorCode::LineGone, message)
        })?;
        Ok(LineGrant { session, address: SocketAddr::new(control.peer()?.ip(), port) })
    })
}
