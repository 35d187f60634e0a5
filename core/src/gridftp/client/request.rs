//! What the edge can request of a client session, and what it is told.

use super::features::PeerFeatures;
use crate::gridftp::{Command, ListingEntry, Mode, Module, Pathname, Perf, Reply};
use crate::units::{ByteRanges, Error};
use std::net::SocketAddr;

/// One thing to get done on the server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Request {
    /// Have the server connect its data channels: for retrieves in MODE E. MODE is sent first when
    /// it is another, for GCT arranges channels for the mode it is in.
    Active {
        /// How data will travel.
        mode: Mode,
        /// Where to, one for each stripe.
        addresses: Vec<SocketAddr>,
    },
    /// One command: MODE, OPTS, MKD, DELE, CKSM, QUIT ... Its final reply comes with `Done`.
    Exec(Command),
    /// The entries of a directory without `.` and `..`, over the control channel (MLSC). Servers
    /// without it list over a data channel ([`TransferKind::List`]).
    List(Pathname),
    /// Log in, learn the server's features, set TYPE I. The first request of a session.
    Login {
        /// `anonymous`, or a name.
        user: String,
        /// Not shown anywhere.
        password: String,
    },
    /// Have the server listen for data channels: for stores in MODE E, and for anything in MODE S.
    /// Connect as soon as [`Event::PassiveAt`] comes: GCT begins a transfer only when a channel is
    /// there. MODE is sent as for `Active`.
    Passive {
        /// How data will travel.
        mode: Mode,
        /// Whether on every stripe.
        striped: bool,
    },
    /// Rename.
    Rename {
        /// The old name.
        from: Pathname,
        /// The new name.
        to: Pathname,
    },
    /// The same, if the server is Farline; to another nothing is sent, and it fails as
    /// `unsupported`.
    ToFarline(Box<Request>),
    /// What is at a pathname: MLST, or SIZE and MDTM where the server has no MLST.
    Stat(Pathname),
    /// Move data, in the mode and over the channels that `Passive` or `Active` arranged. Channels
    /// of MODE E serve any number of transfers, those of MODE S one.
    Transfer(Transfer),
}

/// What is moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Which way.
    pub what: TransferKind,
    /// The server's file or directory.
    pub path: Pathname,
    /// A part of the file (`ERET P offset length`, `ESTO A offset`), whose MODE E offsets start at
    /// 0.
    pub part: Option<(u64, u64)>,
    /// A server's module that interprets the transfer (`ERET`, `ESTO`); then there is no part.
    pub module: Option<Module>,
    /// What the receiver holds already (REST). In MODE S only one range from 0 is of use.
    pub held: ByteRanges,
    /// Bytes that will come, told before a store (ALLO).
    pub size: Option<u64>,
}

/// Which way data moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferKind {
    /// MLSD: the server sends a listing.
    List,
    /// LIST: the server sends a listing in a form of its own.
    LongList,
    /// The same with `-a`, an option that many servers have from `ls`: with names that begin with a
    /// dot, too.
    LongListAll,
    /// The server sends.
    Retrieve,
    /// The server receives.
    Store,
}

impl Transfer {
    /// A whole file.
    pub fn new(what: TransferKind, path: Pathname) -> Transfer {
        Transfer { what, path, part: None, module: None, held: ByteRanges::new(), size: None }
    }
}

/// What happens to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// It succeeded; the server's last reply.
    Done(Reply),
    /// What `Stat` and `List` were about.
    Entries(Vec<ListingEntry>),
    /// It failed, in the server's own words, or for want of the server.
    Failed(Error),
    /// The server listens here: after `Passive`, or during a transfer when it was told it may
    /// delay.
    PassiveAt(Vec<SocketAddr>),
    /// How far one stripe is (112).
    Perf(Perf),
    /// How far a checksum is, in bytes (113).
    Processed(u64),
    /// What the server has stored (111); an increment or all of it, so add them up.
    Ranges(ByteRanges),
    /// Logged in; what the server can do.
    Ready(PeerFeatures),
    /// A word of an extension while a transfer runs (114).
    Remark(String),
    /// The server opened the file and data may move; it uses the last transfer's channels again if
    /// `reused`.
    Started {
        /// Whether it does.
        reused: bool,
    },
}
