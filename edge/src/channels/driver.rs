//! What a channel driver is: data that says what it can, and the functions that open its channels.
//!
//! Neither client nor node knows a driver by name. What is special about one is a capability, of
//! which the planner makes use, or a method of [`Transport`]. A driver whose protocol runs over UDP
//! keeps the port that its channels share in its own [`Transport`], which lives as long as the
//! registry of the node or client does.

use super::Channel;
use super::arrivals::Arrivals;
use super::gsi::DataSecurity;
use super::key::Key;
use super::layer::Layer;
use super::one_port::SharedConnection;
use super::ordered::ByteStream;
use super::socket::TcpOptions;
use super::trust::ClientConfig;
use crate::drivers::{DriverOption, Values};
use farline_core::congestion::ControlName;
use farline_core::units::{Bytes, Error, ErrorCode, Fault, Span};
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// A channel driver, or a layer over channels.
#[non_exhaustive]
pub struct Driver {
    /// What `SITE SETNETSTACK` and results call it.
    pub name: &'static str,
    /// What users may call it in a stack; the first is its name.
    pub schemes: &'static [&'static str],
    /// What people call it, as in "over TCP".
    pub title: &'static str,
    /// What it is, in one sentence.
    pub about: &'static str,
    /// Its options.
    pub options: &'static [DriverOption],
    /// What the planner knows of it.
    pub capabilities: Capabilities,
    /// What a node that has it lists in FEAT behind `FARLINE`; nothing where any peer has it.
    pub features: &'static [&'static str],
    /// Where it stands in a stack, and what it does there.
    pub role: Role,
}

impl Driver {
    /// A driver of that name without options, which a node need not tell of in FEAT.
    pub fn new(
        name: &'static str,
        schemes: &'static [&'static str],
        about: &'static str,
        capabilities: Capabilities,
        role: Role,
    ) -> Driver {
        let (title, options, features) = (name, &[], &[]);
        Driver { name, schemes, title, about, options, capabilities, features, role }
    }

    /// What it puts over channels, where it is a layer.
    pub fn layer(&self) -> Option<&Arc<dyn Layer>> {
        match &self.role {
            Role::Layer(layer) => Some(layer),
            Role::Channel(_) => None,
        }
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Driver({})", self.name)
    }
}

/// What the planner knows of a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// What its channels carry.
    pub carries: Carries,
    /// Whether nobody on the way can read what it carries.
    pub encrypted: bool,
    /// Whether both hosts must be on one fabric, with devices for it.
    pub same_fabric: bool,
    /// Whose congestion control its channels are under.
    pub congestion: CongestionBy,
    /// Whether it carries data only for a session that has a key (K-1).
    pub needs_key: bool,
    /// Whether further channels may open in the middle of a transfer.
    pub grows: bool,
    /// The longest block that one message may carry; any when absent.
    pub max_block: Option<Bytes>,
    /// When it is offered.
    pub offered: Offered,
}

impl Capabilities {
    /// Those of a driver that connects any two hosts in the clear, when somebody asks for it.
    pub fn new(carries: Carries) -> Capabilities {
        Capabilities {
            carries,
            encrypted: false,
            same_fabric: false,
            congestion: CongestionBy::Below,
            needs_key: false,
            grows: false,
            max_block: None,
            offered: Offered::WhenAsked,
        }
    }
}

/// What a channel carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Carries {
    /// Bytes in order, over which a layer may stand.
    OrderedBytes,
    /// Slots of registered memory, which nothing can stand over.
    RegisteredSlots,
}

/// Whose congestion control channels are under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CongestionBy {
    /// The kernel's: a name can be set, and more channels fill a path that one does not.
    Kernel,
    /// The driver's own, in user space, which its channels name.
    Driver,
    /// That of what is below or behind it, of which nothing is known.
    Below,
}

impl fmt::Display for CongestionBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CongestionBy::Kernel => "the kernel's",
            CongestionBy::Driver => "its own",
            CongestionBy::Below => "that below",
        })
    }
}

/// When a driver is offered for a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Offered {
    /// Always: any two hosts have it.
    Always,
    /// When a user asked for it.
    WhenAsked,
    /// When the control connection goes the same way, and nothing better came about.
    AsTheControlConnection,
}

impl fmt::Display for Offered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Offered::Always => "always",
            Offered::WhenAsked => "when asked for",
            Offered::AsTheControlConnection => "where the control connection goes so",
        })
    }
}

/// Where a driver stands in a stack.
pub enum Role {
    /// At its bottom: it opens channels.
    Channel(Box<dyn Transport>),
    /// Above: it changes the bytes of the channel below it.
    Layer(Arc<dyn Layer>),
}

/// What opens a driver's channels at the client, and takes them at the node.
pub trait Transport: Send + Sync {
    /// Whether this host can use it.
    ///
    /// # Errors
    /// Why it cannot.
    fn available(&self) -> Result<(), Error> {
        Ok(())
    }

    /// What of the options that a user gave holds with this peer.
    ///
    /// # Errors
    /// Why there can be no channel to it.
    fn agree(&self, values: &Values, _peer: &Peer<'_>) -> Result<Agreed, Error> {
        Ok(Agreed { values: values.clone(), notes: Vec::new() })
    }

    /// Connections inside one channel on a path of this round-trip time, where they are its way to
    /// fill a path; 0 where channels are.
    fn connections(&self, _values: &Values, _rtt: Span) -> usize {
        0
    }

    /// Whether each of its channels is a connection that under `control` begins from its part of
    /// what an earlier one saw of the path, so that few of them fill it from the first.
    fn resumes_each(&self, _control: ControlName) -> bool {
        false
    }

    /// The congestion control that its channels have where `asked` is asked for; `None` where it
    /// has none of its own.
    ///
    /// # Errors
    /// [`Fault::You`] when they cannot have that one.
    fn control(
        &self,
        _values: &Values,
        _asked: Option<ControlName>,
    ) -> Result<Option<ControlName>, Error> {
        Ok(None)
    }

    /// What opens channels of a session, at the client.
    ///
    /// # Errors
    /// When this driver does not connect in this session.
    fn dialer(&self, session: &Session, values: &Values) -> Result<Arc<dyn Dialer>, Error>;

    /// Listens for channels of a session, at the node.
    ///
    /// # Errors
    /// When no port can be had, or the driver has none.
    fn listen(&self, _listen: Listen) -> Result<Box<dyn Listener>, Error> {
        Err(Error::new(Fault::You, ErrorCode::Unsupported, "this driver has no port of its own"))
    }

    /// What takes channels that a client offers over the control connection; `None` where the
    /// driver is not connected so.
    fn taker(&self, _key: &Key) -> Option<Box<dyn Taker>> {
        None
    }
}

/// A peer, as its FEAT describes it.
#[non_exhaustive]
pub struct Peer<'a> {
    /// Its name, for people.
    pub server: &'a str,
    /// Whether it lists a feature behind `FARLINE`.
    pub has: &'a dyn Fn(&str) -> bool,
}

/// What this end and a peer come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// The options that hold.
    pub values: Values,
    /// What is not as it was asked for, and why.
    pub notes: Vec<String>,
}

/// A session, as far as its channels depend on it: the client's end.
#[derive(Clone)]
#[non_exhaustive]
pub struct Session {
    /// The key that opens every data connection (K-1), where the server knows keys.
    pub key: Option<Key>,
    /// The path's least round-trip time.
    pub rtt: Span,
    /// Options of sockets.
    pub sockets: TcpOptions,
    /// For channels of registered slots.
    pub slots: Slots,
    /// Whom to take for the node, where a driver encrypts by itself; nothing where the control
    /// connection is in the clear.
    pub trust: Option<Arc<ClientConfig>>,
    /// What carries connections to the peer's own ports, as its user's ssh does.
    pub tunnel: Option<Arc<dyn Tunnel>>,
    /// The control channel's own connection, where data may go over it.
    pub shared: Option<SharedConnection>,
    /// How data connections show whose they are, in a session by GSI.
    pub(crate) grid: Option<DataSecurity>,
}

/// What the channels of a session may take of the staging pool, where they hold registered slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Slots {
    /// Bytes of a slot.
    pub slot_len: Bytes,
    /// Slots that either end advertises to begin with.
    pub begin: usize,
    /// The most that may come to be; as many as the driver and the path take when absent.
    pub most: Option<usize>,
}

/// Carries connections to a peer's ports.
pub trait Tunnel: Send + Sync {
    /// A connection to `address`, as the peer sees it.
    ///
    /// # Errors
    /// When nothing can be run that carries it.
    fn carry(&self, address: SocketAddr) -> io::Result<Box<dyn ByteStream>>;
}

/// Opens the channels of one session.
pub trait Dialer: Send + Sync {
    /// Opens one channel to the node that listens at `address`; waits for it.
    ///
    /// # Errors
    /// When no way leads there, or the node takes no such channel.
    fn open(&self, address: SocketAddr, timeout: Duration) -> Result<Opened, Error>;

    /// Whether channels are [offered](Self::offer) over the control connection, and not
    /// [opened](Self::open).
    fn is_by_offer(&self) -> bool {
        false
    }

    /// Makes one channel's end, to be offered to the node at `address`.
    ///
    /// # Errors
    /// When this driver is not connected so, or nothing leads there.
    fn offer(&self, _address: SocketAddr) -> Result<Box<dyn OfferedChannel>, Error> {
        Err(Error::new(Fault::Bug, ErrorCode::Unsupported, "this driver offers no channels"))
    }
}

/// What a driver opened.
pub enum Opened {
    /// A connection, over which layers and MODE E stand.
    Bytes(Box<dyn ByteStream>),
    /// A connection that has shown the session's key inside its own encryption.
    Entered(Box<dyn ByteStream>),
    /// A channel as it is.
    Channel(Box<dyn Channel>),
}

/// A channel of this end's that waits for the node's word.
pub trait OfferedChannel: Send {
    /// What to tell the node.
    fn text(&self) -> &str;

    /// The channel, by what the node said.
    ///
    /// # Errors
    /// When that makes no sense, or the ends cannot be connected.
    fn connect(self: Box<Self>, reply: &str) -> Result<Box<dyn Channel>, Error>;
}

/// What a node gives a driver to listen with.
#[non_exhaustive]
pub struct Listen {
    /// The address of this host that the client reached.
    pub ip: IpAddr,
    /// The ports to choose from; any when absent.
    pub ports: Option<(u16, u16)>,
    /// Options of sockets.
    pub sockets: TcpOptions,
    /// For channels of registered slots.
    pub slots: Slots,
    /// The client's address, which its control connection came from.
    pub client: IpAddr,
    /// The least round trip to it; zero where nobody knows.
    pub rtt: Span,
    /// The session's key, and where its channels go to. A port must not keep it alive.
    pub arrivals: Arc<Arrivals>,
}

/// A port for a session's channels; it closes when this is dropped.
pub trait Listener: Send + Sync {
    /// Where it listens.
    fn address(&self) -> SocketAddr;
}

/// Takes channels of one session that are offered over the control connection.
pub trait Taker: Send + Sync {
    /// Takes the channel that `text` offers to this host's address `ip`; returns it, and what to
    /// tell who offers.
    ///
    /// # Errors
    /// When who offers has no right to the session, or the ends cannot be connected.
    fn take(
        &mut self,
        ip: IpAddr,
        slots: Slots,
        text: &str,
    ) -> Result<(Box<dyn Channel>, String), Error>;
}
