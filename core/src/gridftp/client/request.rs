//! What the edge can request of a client session, and what it is told.

use super::features::Features;
use crate::gridftp::{Command, Entry, Mode, Module, Pathname, Perf, Reply};
use crate::units::{ByteRanges, Error};
use std::net::SocketAddr;

/// One thing to get done on the server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Request {
    /// Have the server connect its data channels to these addresses, one for each stripe: for retrieves in MODE E.
    Active(Vec<SocketAddr>),
    /// One command: MODE, OPTS, MKD, DELE, CKSM, QUIT ... Its final reply comes with `Done`.
    Exec(Command),
    /// The entries of a directory, over the control channel (MLSC). Servers without it list over a data channel
    /// ([`What::List`]).
    List(Pathname),
    /// Log in, learn the server's features, set TYPE I. The first request of a session.
    Login {
        /// `anonymous`, or a name.
        user: String,
        /// Not shown anywhere.
        password: String,
    },
    /// Have the server listen for data channels: for stores in MODE E, and for anything in MODE S.
    Passive {
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
    /// What is at a pathname: MLST, or SIZE and MDTM where the server has no MLST.
    Stat(Pathname),
    /// Move data. Data channels were arranged by `Passive` or `Active`, or are kept from the last transfer (MODE E).
    Transfer(Transfer),
}

/// What is moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Which way.
    pub what: What,
    /// The server's file or directory.
    pub path: Pathname,
    /// How data travels: Stream or Extended. The session sends MODE when the server is in another.
    pub mode: Mode,
    /// A part of the file (`ERET P offset length`, `ESTO A offset`), whose MODE E offsets start at 0.
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
pub enum What {
    /// MLSD: the server sends a listing.
    List,
    /// The server sends.
    Retrieve,
    /// The server receives.
    Store,
}

impl Transfer {
    /// A whole file.
    pub fn new(what: What, path: Pathname, mode: Mode) -> Transfer {
        Transfer { what, path, mode, part: None, module: None, held: ByteRanges::new(), size: None }
    }
}

/// What happens to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// It succeeded; the server's last reply.
    Done(Reply),
    /// What `Stat` and `List` were about.
    Entries(Vec<Entry>),
    /// It failed, in the server's own words, or for want of the server.
    Failed(Error),
    /// The server listens here: after `Passive`, or during a transfer when it was told it may delay.
    PassiveAt(Vec<SocketAddr>),
    /// How far one stripe is (112).
    Perf(Perf),
    /// How far a checksum is, in bytes (113).
    Processed(u64),
    /// What the server has stored (111); an increment or all of it, so add them up.
    Ranges(ByteRanges),
    /// Logged in; what the server can do.
    Ready(Features),
    /// The server opened the file and data may move; it uses the last transfer's channels again if `reused`.
    Started {
        /// Whether it does.
        reused: bool,
    },
}
