//! What a server offers and to whom, fixed for one session.

use crate::gridftp::Pathname;
use crate::units::{SettingName, Span};

/// What a user may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rights {
    /// Retrieve and list.
    Read,
    /// Also store, make, rename and delete.
    Write,
}

/// Who may log in.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Logins {
    /// `anonymous` and `ftp`, with any password.
    Anonymous(Rights),
    /// Any name with any password: whoever reaches this session is known already, as over ssh.
    Anyone(Rights),
    /// Anonymous users if rights are given; and on a control channel that is encrypted, and there
    /// alone, whomever the edge lets in, which is asked about each
    /// ([`Ask::Login`](super::Ask::Login)).
    Asked {
        /// What anonymous users may do, if they may log in.
        anonymous: Option<Rights>,
    },
}

/// A server's side of the conversation; the defaults let anonymous users read.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The text of the 220 greeting.
    pub banner: String,
    /// Who may log in. Default: anonymous users, who may read.
    pub logins: Logins,
    /// Farline's own FEAT lines, such as `FARLINE TREE`: what a peer may use, announced as given.
    pub features: Vec<String>,
    /// The algorithms of CKSM and SCKS, preferred first, as `MD5` or `SHA256`. Default: none.
    pub checksums: Vec<String>,
    /// The modules of ERET and ESTO, in upper case. Default: none.
    pub modules: Vec<String>,
    /// The most channels a client may ask the server to send on. Default: 64.
    pub max_parallelism: u32,
    /// The drivers of data channels between which `SITE SETNETSTACK` chooses
    /// ([`Ask::NetStack`](super::Ask::NetStack)). Default: `tcp` alone.
    pub net_stacks: Vec<String>,
    /// How long the client may be silent while nothing runs. Default: 15 minutes, as RFC 1123
    /// section 4.1.3.2 wants at least five.
    pub idle: Span,
    /// How long a client may take from its connection, or from a new `USER`, to be let in, the TLS
    /// handshake with it; nothing that it says meanwhile makes it longer. Default: 10 seconds.
    pub login_within: Span,
    /// Whether `AUTH TLS` is offered ([`Output::StartTls`](super::Output::StartTls)).
    pub tls: bool,
    /// Whether `AUTH GSSAPI` is offered ([`Output::StartGssapi`](super::Output::StartGssapi)).
    /// Where it was taken, data channels are authenticated as DCAU says, and Farline's own features
    /// are not announced: they have another way.
    pub gssapi: bool,
    /// Whether the control channel is protected already, as over ssh; `AUTH` makes it so. Only
    /// then `PROT P` is offered.
    pub secure: bool,
    /// Whether a client may retrieve in MODE E over channels that it opened itself, if the edge
    /// agrees (`docs/protocol.md`, K-4).
    pub passive_retrieve: bool,
    /// Farline's options that are in force at once while a transfer runs
    /// ([`Output::OptionAtOnce`](super::Output::OptionAtOnce)). Default: none.
    pub options_at_once: Vec<String>,
    /// The directory that relative pathnames start from at first. Default: the root.
    pub home: Pathname,
    /// How its replies name settings. Default: as a file of settings does.
    pub setting_name: SettingName,
}

impl Default for ServerConfig {
    fn default() -> ServerConfig {
        ServerConfig {
            banner: "Farline GridFTP server ready.".to_owned(),
            logins: Logins::Anonymous(Rights::Read),
            features: Vec::new(),
            checksums: Vec::new(),
            modules: Vec::new(),
            max_parallelism: 64,
            net_stacks: vec!["tcp".to_owned()],
            idle: Span::from_secs(15 * 60),
            login_within: Span::from_secs(10),
            tls: false,
            gssapi: false,
            secure: false,
            passive_retrieve: false,
            options_at_once: Vec::new(),
            home: Pathname::root(),
            setting_name: SettingName::Key,
        }
    }
}
