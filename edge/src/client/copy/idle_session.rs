//! Sessions that a source of a copy has ended with: kept for the next source of the same server,
//! for what wildcards match by the hundred costs one connection and one login, or ended with the
//! copy.

use super::Copy;
use crate::client::control::Control;
use crate::client::location::Remote;
use farline_core::copy::farline_option;
use farline_core::gridftp::client::Request;
use farline_core::units::Error;

/// The session, and whose it is.
pub(in crate::client) struct IdleSession {
    server: Remote,
    control: Control,
}

impl Copy<'_> {
    /// A session with `remote`'s server: the one that is kept, or a new one. The requests `ahead`
    /// go out as early as may be; their numbers come back.
    ///
    /// # Errors
    /// When a new one cannot be had.
    pub(in crate::client) async fn session_with(
        &mut self,
        remote: &Remote,
        ahead: Vec<Request>,
    ) -> Result<(Control, Vec<u64>), Error> {
        match self.idle_session.take() {
            Some(IdleSession { server, mut control }) if server == remote.with_path(Vec::new()) => {
                if control.features().leave {
                    // What of one tree was left out is of that tree (T-10).
                    control.try_request(farline_option("leave", "none"));
                }
                if control.features().only {
                    // So is what alone was wanted of a folder (T-13).
                    control.try_request(farline_option("only", "none"));
                }
                let ahead = control.submit(ahead);
                Ok((control, ahead))
            }
            _ => Control::open_for_copy(remote, self.options, ahead, None).await,
        }
    }

    /// Keeps a session in which nothing is under way for the next source.
    pub(in crate::client) fn park(&mut self, remote: &Remote, control: Control) {
        self.idle_session = Some(IdleSession { server: remote.with_path(Vec::new()), control });
    }

    /// Is done with a session. What a node holds for it, and a circuit that is taken down behind
    /// it, end with the copy and not when the node misses its client: such a session is ended in
    /// due form.
    pub(in crate::client) fn let_go(&mut self, control: Control) {
        if self.options.held.is_some() || self.options.connect.address.is_some() {
            self.finished.push(control);
        }
    }

    /// Ends the sessions that have to be.
    pub(in crate::client) async fn leave(&mut self) {
        if let Some(IdleSession { control, .. }) = self.idle_session.take() {
            self.let_go(control);
        }
        for control in std::mem::take(&mut self.finished) {
            control.leave().await;
        }
    }
}
