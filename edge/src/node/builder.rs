//! The library's way to run a node.

use super::{Anonymous, Config, ConfigFile, Network, Node, NodeLimits, TlsKey};
use crate::channels::trust::GridSecurity;
use crate::stores::StoreDriver;
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
pub struct NodeBuilder(Result<Config, Error>);

impl Node {
    /// A node that serves the folder `root` and what is below it.
    pub fn builder(root: impl Into<PathBuf>) -> NodeBuilder {
        NodeBuilder(ConfigFile { root: Some(root.into()), ..ConfigFile::default() }.build())
    }
}

impl NodeBuilder {
    /// Sets what has no method of its own, such as [`Config::identities`]; not where what was said
    /// before cannot be.
    pub fn with(mut self, set: impl FnOnce(&mut Config)) -> NodeBuilder {
        if let Ok(config) = &mut self.0 {
            set(config);
        }
        self
    }

    /// Listens there for control connections; port 0 is any. 127.0.0.1:2811 when not said.
    pub fn listen(self, listen: SocketAddr) -> NodeBuilder {
        self.with(|config| config.listen = listen)
    }

    /// Takes control and data, encrypted, at that one UDP port, which needs a key for TLS. Not when
    /// not said.
    pub fn listen_udp(self, listen: SocketAddr) -> NodeBuilder {
        self.with(|config| config.listen_udp = Some(listen))
    }

    /// Lets anyone read, or write. Nobody when not said.
    pub fn anonymous(self, rights: Anonymous) -> NodeBuilder {
        self.with(|config| config.anonymous = rights)
    }

    /// Takes data ports from `low` to `high`, both included; any free port when not said.
    pub fn data_ports(self, low: u16, high: u16) -> NodeBuilder {
        self.with(|config| config.data_ports = Some((low, high)))
    }

    /// Tells clients to send data to this address, where it stands behind another.
    pub fn data_address(self, address: IpAddr) -> NodeBuilder {
        self.with(|config| config.data_address = Some(address))
    }

    /// Lets data go to and come from hosts other than the client. Not when not said.
    pub fn third_party(self, allowed: bool) -> NodeBuilder {
        self.with(|config| config.third_party = allowed)
    }

    /// Offers TLS with this key. Not when not said.
    pub fn tls(self, key: TlsKey) -> NodeBuilder {
        self.with(|config| config.tls = Some(key))
    }

    /// Accepts who comes with a proxy of a grid. Nobody does when not said.
    pub fn gsi(self, gsi: GridSecurity) -> NodeBuilder {
        self.with(|config| {
            config.identities.grid_mapfile = Some(gsi.folder.join("grid-mapfile"));
            config.gsi = Some(gsi);
        })
    }

    /// Lets clients give files to other users, see [`Config::allow_owner`]. Not when not said.
    pub fn allow_owner(self, allowed: bool) -> NodeBuilder {
        self.with(|config| config.allow_owner = allowed)
    }

    /// Lets clients send to `?null`, which drops what comes. Not when not said.
    pub fn allow_null(self, allowed: bool) -> NodeBuilder {
        self.with(|config| config.allow_null = allowed)
    }

    /// Memory that the `?memory=SIZE` stores of all sessions may take together; none when not said.
    pub fn allow_memory(self, most: Bytes) -> NodeBuilder {
        self.with(|config| config.allow_memory = Some(most))
    }

    /// Lets clients use this store instead of the files, as `farline://NODE/PATH?store=NAME`. Who
    /// may read, or write, the files may do so there.
    pub fn store(self, driver: StoreDriver) -> NodeBuilder {
        let added = |mut config: Config| config.stores.add(driver).map(|()| config);
        NodeBuilder(self.0.and_then(added))
    }

    /// How fast clients may test the line to here, all together; not at all when not said.
    pub fn allow_line(self, ceiling: Rate) -> NodeBuilder {
        self.with(|config| config.allow_line = Some(ceiling))
    }

    /// How fast clients may measure the path to here; not at all when not said.
    pub fn allow_profile(self, ceiling: Rate) -> NodeBuilder {
        self.with(|config| config.allow_profile = Some(ceiling))
    }

    /// What sessions may hold of booked rates together, each from its first round trip on and
    /// whatever is lost: for paths that are reserved. None when not said.
    pub fn allow_held(self, most: Rate) -> NodeBuilder {
        self.with(|config| config.allow_held = Some(most))
    }

    /// Lets third-party transfers lead to `network`, which is not public. None when not said.
    pub fn third_party_network(self, network: Network) -> NodeBuilder {
        self.with(|config| config.third_party_networks.push(network))
    }

    /// Lets clients have this host load Farline's congestion controls. Not when not said.
    pub fn allow_congestion(self, allowed: bool) -> NodeBuilder {
        self.with(|config| config.allow_congestion = allowed)
    }

    /// What is sent begins as over any path, whatever earlier transfers to the same address saw of
    /// it.
    pub fn fresh_start(self) -> NodeBuilder {
        self.with(|config| config.fresh_start = true)
    }

    /// Whether data connections under TLS have to resume the control connection's, of nobody's too;
    /// yes when not said. Old FTPS clients do not.
    pub fn tls_resumption(self, required: bool) -> NodeBuilder {
        self.with(|config| config.tls_resumption = required)
    }

    /// Sessions at once; 128 when not said.
    pub fn sessions(self, most: usize) -> NodeBuilder {
        self.with(|config| config.limits.sessions = most)
    }

    /// What one client, one address and all together may take.
    pub fn limits(self, limits: NodeLimits) -> NodeBuilder {
        self.with(|config| config.limits = limits)
    }

    /// How long nothing may move in a transfer before it is ended, `None` for ever; 300 s when not
    /// said.
    pub fn idle_timeout(self, idle_timeout: Option<Duration>) -> NodeBuilder {
        self.with(|config| config.idle_timeout = idle_timeout)
    }

    /// Checks all that was said.
    ///
    /// # Errors
    /// When a value makes no sense.
    pub fn build(self) -> Result<Config, Error> {
        self.0?.checked()
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
