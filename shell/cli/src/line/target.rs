//! What TARGET of `farline line` names: a link that is up, a node, or a host with a reflector.

use crate::connect;
use crate::node::remote;
use farline::client::{ConnectOptions, Location, Remote, grant_line};
use farline::line::{HardwareAddress, LineProgress, LineRequestOptions, run, run_over};
use farline::link::Link;
use farline_core::line::LineTest;
use farline_core::units::{Error, ErrorCode, Fault};
use farline_core::wan::Path;

/// The other end of a test.
pub(super) enum LineTarget {
    /// Both ends run in the sides of a link.
    Link(Box<Link>),
    /// A node that allows it.
    Node(Box<Remote>, Box<ConnectOptions>),
    /// Where `farline line reflect` runs, or at which device.
    Host,
}

impl LineTarget {
    /// A URL is a node; what a link is called that is link; everything else is a host.
    /// A node is reached as `connect` says, which is for no other.
    pub(super) fn find(target: &str, mut connect: ConnectOptions) -> Result<LineTarget, Error> {
        if target.contains("://") {
            let node = Location::Remote(remote(target)?);
            connect::ask_for_password(&mut connect, [&node])?;
            if let Location::Remote(node) = node {
                return Ok(LineTarget::Node(Box::new(node), Box::new(connect)));
            }
        }
        let trust = &connect.trust;
        if trust.authorities.is_some() || trust.fingerprint.is_some() {
            let message = format!("--tls-ca and --tls-pin are for a node, and `{target}` is none");
            return Err(Error::new(Fault::You, ErrorCode::LineSetting, message)
                .hint("name the node: farlines://HOST/"));
        }
        if let Ok(link) = Link::find(target) {
            return Ok(LineTarget::Link(Box::new(link)));
        }
        if Path::named(target).is_ok() {
            let message = format!("the link `{target}` is not up");
            return Err(Error::new(Fault::You, ErrorCode::LinkGone, message)
                .hint(format!("bring it up with `farline link up {target}`")));
        }
        Ok(LineTarget::Host)
    }

    /// A device's hardware address, or a link by its name.
    pub(super) fn of_ethernet(target: &str) -> Result<LineTarget, Error> {
        match Link::find(target) {
            Ok(link) => Ok(LineTarget::Link(Box::new(link))),
            Err(_) => target.parse::<HardwareAddress>().map(|_| LineTarget::Host),
        }
    }

    /// Whether a link is called that.
    pub(super) fn is_link(target: &str) -> bool {
        Link::find(target).is_ok()
    }

    /// Whether only a host with a reflector is meant.
    pub(super) fn is_host(&self) -> bool {
        matches!(self, LineTarget::Host)
    }

    /// Runs a test with it.
    pub(super) fn run(
        &self,
        options: &LineRequestOptions,
        progress: impl FnMut(&LineProgress<'_>) -> Result<(), Error>,
    ) -> Result<LineTest, Error> {
        match self {
            LineTarget::Link(link) => run_over(link, options, progress),
            LineTarget::Host => run(options, progress),
            LineTarget::Node(remote, connect) => {
                let session = options.resume.as_ref().map(|state| state.session);
                let mut options = options.clone();
                options.granted = Some(grant_line(remote, connect, session)?);
                run(&options, progress)
            }
        }
    }
}
