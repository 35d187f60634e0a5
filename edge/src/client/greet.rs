//! Whether a node answers, how far it is, and what it can: without moving a byte.

use super::connect_options::ConnectOptions;
use super::control::Control;
use super::location::Remote;
use farline_core::gridftp::Pathname;
use farline_core::gridftp::client::Request;
use farline_core::units::{Error, Span};
use serde::Serialize;
use std::net::IpAddr;

/// What a node said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Greeting {
    /// The least round-trip time of a few commands.
    pub rtt: Span,
    /// This end's address towards it; over ssh nobody here knows.
    pub local: Option<IpAddr>,
    /// Whether it is Farline.
    pub farline: bool,
    /// Whether it speaks GridFTP at all: MODE E and parallel channels.
    pub gridftp: bool,
    /// Its features, as it announced them.
    pub features: Vec<String>,
}

/// Connects, logs in, and asks a few harmless things so that the kernel sees some round trips.
///
/// # Errors
/// When the node cannot be reached, does not speak FTP, or lets nobody in.
pub async fn greet(remote: &Remote, reach: &ConnectOptions) -> Result<Greeting, Error> {
    let (mut control, _) = Control::open(remote, reach, Vec::new()).await?;
    for _ in 0..3 {
        let look = control.try_request(Request::Stat(Pathname::new(b"/".to_vec())));
        // The answer does not matter, its time does.
        let _ = control.looked(look).await;
    }
    let features = control.features();
    Ok(Greeting {
        rtt: control.rtt(),
        local: control.local().ok().map(|local| local.ip()),
        farline: features.is_farline,
        gridftp: features.is_gridftp,
        features: features.lines().to_vec(),
    })
}
