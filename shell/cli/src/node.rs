//! Nodes as people name them on a command line.

use crate::interrupt;
use farline::client::{ConnectOptions, Greeting, Location, Remote, greet};
use farline_core::units::{Error, ErrorCode, Fault};
use std::ffi::OsStr;

/// A host's name stands for its Farline node, with its port behind a colon if it has one; `host:`
/// and `host:path` go over ssh.
pub(crate) fn remote(text: &str) -> Result<Remote, Error> {
    let behind = text.rsplit_once(':').map(|(_, behind)| behind);
    let is_ssh =
        behind.is_some_and(|behind| behind.parse::<u16>().is_err()) && !text.ends_with(']');
    let url =
        if text.contains("://") || is_ssh { text.to_owned() } else { format!("farline://{text}/") };
    match Location::parse(OsStr::new(&url))? {
        Location::Remote(remote) => Ok(remote),
        _ => Err(Error::new(Fault::You, ErrorCode::BadUrl, format!("{text} is not another host"))),
    }
}

/// Whether the node of `remote` answers, and how far it is.
pub(crate) fn hello(remote: &Remote, connect: &ConnectOptions) -> Result<Greeting, Error> {
    let runtime = interrupt::runtime("start")?;
    runtime.block_on(greet(remote, connect))
}
