//! The tickets by which data connections go on from a control connection's TLS session (RFC 8446,
//! section 2.2).

use crate::sys::lock::lock;
use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;
use std::collections::VecDeque;
use std::sync::Mutex;

/// Tickets that are kept: a Farline node gives 16.
const MOST: usize = 16;

/// Those of one server. Each is taken once, as its RFC wants it (appendix C.4); of more than 16 the
/// oldest goes.
#[derive(Debug, Default)]
pub(crate) struct Tickets {
    left: Mutex<VecDeque<Tls13ClientSessionValue>>,
    /// The group of keys that the server chose.
    group: Mutex<Option<NamedGroup>>,
}

impl Tickets {
    /// Whether the next connection will be a stranger's.
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.left).is_empty()
    }
}

impl ClientSessionStore for Tickets {
    fn set_kx_hint(&self, _: ServerName<'static>, group: NamedGroup) {
        *lock(&self.group) = Some(group);
    }

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        *lock(&self.group)
    }

    fn set_tls12_session(&self, _: ServerName<'static>, _: Tls12ClientSessionValue) {}

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {}

    fn insert_tls13_ticket(&self, _: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        let mut tickets = lock(&self.left);
        if tickets.len() == MOST {
            tickets.pop_front();
        }
        tickets.push_back(ticket);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        lock(&self.left).pop_back()
    }
}
