//! The user that a node serves as, where root started it: it goes on with that user's rights alone,
//! and with the few capabilities that what it is told to do takes.

use super::Config;
use crate::sys::fs_user::FsUser;
use farline_core::units::{Error, ErrorCode, Fault};
use rustix::process::geteuid;
use rustix::thread::CapabilitySet;

/// Below it, ports are root's.
const FIRST_FREE_PORT: u16 = 1024;

/// Makes this process the user that `config` names, for good; where it names none, nothing.
/// Capabilities go from the calling thread, and those that it begins later: call it before there
/// are others, and before [`confine`](super::confine).
///
/// # Errors
/// When this host has no such user, this process may not become it, or the node needs more than it
/// may.
pub fn become_user(config: &Config) -> Result<(), Error> {
    let Some(name) = &config.user else { return Ok(()) };
    let wrong =
        |message: String| Error::new(Fault::You, ErrorCode::BadConfig, format!("user: {message}"));
    let user = FsUser::named(name).map_err(|error| wrong(format!("{name}: {error}")))?;
    let user = user.ok_or_else(|| wrong(format!("this host has no user `{name}`")))?;
    if user.uid() == geteuid() {
        return Ok(());
    }
    if !geteuid().is_root() {
        return Err(wrong(format!("only root can begin a node as `{name}`"))
            .hint("leave `user` out: a node serves as who starts it"));
    }
    if config.loads_congestion() || config.allow_held.is_some() {
        return Err(wrong("congestion controls are loaded by root alone".to_owned())
            .hint("leave out `user`, or allow_congestion and allow_held"));
    }
    // What asks PAM stays root's.
    config.identities.start(config.limits.login_timeout)?;
    user.become_process(needed(config)).map_err(|error| {
        let message = format!("this process cannot become `{name}`: {error}");
        Error::new(Fault::Here, ErrorCode::NotConfined, message)
    })
}

/// What a node of `config` takes besides the rights of its user.
fn needed(config: &Config) -> CapabilitySet {
    let udp = config.listen_udp.map(|listen| listen.port());
    let low = config.data_ports.map(|(low, _)| low);
    let ports = [Some(config.listen.port()), udp, low];
    // Port 0 is any that is free.
    let is_roots = |port: u16| (1..FIRST_FREE_PORT).contains(&port);
    let mut needed = CapabilitySet::empty();
    if ports.into_iter().flatten().any(is_roots) {
        needed |= CapabilitySet::NET_BIND_SERVICE;
    }
    if config.identities.have_owners() {
        needed |= CapabilitySet::SETUID | CapabilitySet::SETGID;
    }
    needed
}
