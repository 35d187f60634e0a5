//! The library's way to run a node.

use super::{Anonymous, Config, ConfigFile, Node, TlsKey};
use farline_core::units::{Bytes, Error, Rate};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// What a node is to be. Nobody may enter, and nothing outside this host reaches it, unless that is
/// said.
///
/// ```
/// # let root = std::env::temp_dir();
/// let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// runtime.block_on(async {
///     let node = farline::Node::builder(&root)
///         .listen(([127, 0, 0, 1], 0).into())
///         .anonymous(farline::node::Anonymous::Read)
///         .bind()
///         .await?;
///     assert_ne!(node.address().port(), 0);
///     // `node.run().await` serves until it is dropped.
///     Ok::<(), farline::core::units::Error>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a node listens once it is bound"]
pub struct NodeBuilder {
    root: PathBuf,
    change: Vec<Change>,
}

#[derive(Debug)]
enum Change {
    Listen(SocketAddr),
    Anonymous(Anonymous),
    DataPorts(u16, u16),
    DataAddress(IpAddr),
    ThirdParty(bool),
    Tls(TlsKey),
    AllowNull(bool),
    AllowMemory(Bytes),
    AllowProfile(Rate),
    Sessions(usize),
    IdleTimeout(Option<Duration>),
}

impl Node {
    /// A node that serves the folder `root` and what is below it.
    pub fn builder(root: impl Into<PathBuf>) -> NodeBuilder {
        NodeBuilder { root: root.into(), change: Vec::new() }
    }
}

impl NodeBuilder {
    fn with(mut self, change: Change) -> NodeBuilder {
        self.change.push(change);
        self
    }

    /// Listens there for control connections; port 0 is any. 127.0.0.1:2811 when not said.
    pub fn listen(self, listen: SocketAddr) -> NodeBuilder {
        self.with(Change::Listen(listen))
    }

    /// Lets anyone read, or write. Nobody when not said.
    pub fn anonymous(self, rights: Anonymous) -> NodeBuilder {
        self.with(Change::Anonymous(rights))
    }

    /// Takes data ports from `low` to `high`, both included; any free port when not said.
    pub fn data_ports(self, low: u16, high: u16) -> NodeBuilder {
        self.with(Change::DataPorts(low, high))
    }

    /// Tells clients to send data to this address, where it stands behind another.
    pub fn data_address(self, address: IpAddr) -> NodeBuilder {
        self.with(Change::DataAddress(address))
    }

    /// Lets data go to and come from hosts other than the client. Not when not said.
    pub fn third_party(self, allowed: bool) -> NodeBuilder {
        self.with(Change::ThirdParty(allowed))
    }

    /// Offers TLS with this key. Not when not said.
    pub fn tls(self, key: TlsKey) -> NodeBuilder {
        self.with(Change::Tls(key))
    }

    /// Lets clients send to `?null`, which drops what comes. Not when not said.
    pub fn allow_null(self, allowed: bool) -> NodeBuilder {
        self.with(Change::AllowNull(allowed))
    }

    /// Memory that the `?memory=SIZE` stores of all sessions may take together; none when not said.
    pub fn allow_memory(self, most: Bytes) -> NodeBuilder {
        self.with(Change::AllowMemory(most))
    }

    /// How fast clients may measure the path to here; not at all when not said.
    pub fn allow_profile(self, ceiling: Rate) -> NodeBuilder {
        self.with(Change::AllowProfile(ceiling))
    }

    /// Sessions at once; 64 when not said.
    pub fn sessions(self, most: usize) -> NodeBuilder {
        self.with(Change::Sessions(most))
    }

    /// How long nothing may move in a transfer before it is ended, `None` for ever; 300 s when not
    /// said.
    pub fn idle_timeout(self, idle_timeout: Option<Duration>) -> NodeBuilder {
        self.with(Change::IdleTimeout(idle_timeout))
    }

    /// Checks all that was said.
    ///
    /// # Errors
    /// When a value makes no sense.
    pub fn build(self) -> Result<Config, Error> {
        let sessions = self.change.iter().rev().find_map(|change| match change {
            Change::Sessions(most) => Some(*most),
            _ => None,
        });
        let mut config =
            ConfigFile { root: Some(self.root), sessions, ..ConfigFile::default() }.build()?;
        for change in self.change {
            match change {
                Change::Listen(listen) => config.listen = listen,
                Change::Anonymous(rights) => config.anonymous = rights,
                Change::DataPorts(low, high) => {
                    let text = format!("{low}-{high}");
                    let ports = super::parse_ports(&text).map_err(|why| {
                        Error::new(farline_core::units::Fault::You, "bad-config", why)
                    })?;
                    config.data_ports = Some(ports);
                }
                Change::DataAddress(address) => config.data_address = Some(address),
                Change::ThirdParty(allowed) => config.third_party = allowed,
                Change::Tls(key) => config.tls = Some(key),
                Change::AllowNull(allowed) => config.allow_null = allowed,
                Change::AllowMemory(most) => config.allow_memory = Some(most),
                Change::AllowProfile(ceiling) => config.allow_profile = Some(ceiling),
                Change::Sessions(_) => {}
                Change::IdleTimeout(idle_timeout) => config.idle_timeout = idle_timeout,
            }
        }
        Ok(config)
    }

    /// Opens the folder and listens. Runs inside a tokio runtime.
    ///
    /// # Errors
    /// When a value makes no sense, the folder cannot be opened, or the address is taken.
    pub async fn bind(self) -> Result<Node, Error> {
        Node::bind(self.build()?).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_may_enter_a_node_of_which_nothing_is_said() {
        let config = Node::builder("/data").build().expect("valid");
        assert_eq!(config.anonymous, Anonymous::None);
        assert!(config.listen.ip().is_loopback() && config.tls.is_none() && !config.third_party);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert!(Node::builder("/data").data_ports(9, 1).build().is_err());
        assert!(Node::builder("/data").sessions(0).build().is_err());
    }
}
