//! What a server session asks of the edge, and what the edge answers.

use super::config::Rights;
use crate::gridftp::{
    DataAuthentication, FactSet, Family, ListFormat, ListingEntry, Mode, Module, Pathname, Perf,
    StripeLayout, Timestamp,
};
use crate::units::{ByteRanges, Bytes, Error, Span};
use std::net::SocketAddr;

/// One thing the edge is asked to do. Every pathname is absolute, normalised and virtual: the edge
/// resolves it beneath its exported root.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ask {
    /// Whether there is room for one more session of a client that may enter. Answer: `Done`; an
    /// error ends the session with its words.
    Admit,
    /// Data channels will be connected *to* these addresses. Earlier listeners and channels are
    /// closed. The edge refuses what its policy forbids (RFC 2577: ports of others), and need not
    /// connect yet. Answer: `Done`.
    Active {
        /// One address for each stripe.
        addresses: Vec<SocketAddr>,
    },
    /// Authenticate data channels so from now on (`DCAU`); asked after `AUTH GSSAPI` alone, where
    /// the user's own identity is the default. When that changes, those open are closed. Answer:
    /// `Done`.
    Authenticate {
        /// By whose identity.
        how: DataAuthentication,
    },
    /// Compute a file's digest. Answers: any number of `Processed` when `markers` is not zero, then
    /// `Digest`.
    Checksum {
        /// One of the configured algorithms.
        algorithm: String,
        /// First byte.
        offset: u64,
        /// Bytes, or to the end of the file.
        length: Option<u64>,
        /// Time between `Processed` answers; zero for none.
        markers: Span,
        /// The file.
        path: Pathname,
    },
    /// The entries of a directory, without `.` and `..`. Answer: `Entries`.
    List {
        /// The directory.
        path: Pathname,
        /// What of each to say.
        facts: FactSet,
    },
    /// Whether this password is this user's. Answer: `LoggedIn`; the error `server-closing` ends
    /// the session with its words, and any other is a failed login.
    Login {
        /// As the client sent it.
        user: Vec<u8>,
        /// As the client sent it.
        password: Vec<u8>,
    },
    /// Make a directory; one that exists is the error `path-exists`, which globus-url-copy counts
    /// on. Answer: `Done`.
    MakeDirectory {
        /// The directory.
        path: Pathname,
    },
    /// Make a symbolic link; whatever is there stays. Answer: `Done`.
    MakeLink {
        /// What it says, relative to nothing: the link's reader resolves it.
        target: Pathname,
        /// Where.
        path: Pathname,
    },
    /// Listen for data channels. Earlier listeners and channels are closed. Answer: `Passive`.
    Passive {
        /// The IP family, or the control connection's.
        family: Option<Family>,
        /// Whether every stripe is to listen; otherwise one address is wanted.
        striped: bool,
    },
    /// Encrypt the data channels from now on with TLS, or no more (`PROT`). When that changes,
    /// those open are closed. Answer: `Done`.
    Protect {
        /// Whether.
        private: bool,
    },
    /// Make data connections by another driver from the next [`Passive`](Ask::Passive) on. Answer:
    /// `Done`.
    NetStack {
        /// One of the configured ones.
        name: String,
    },
    /// Delete a file, or an empty directory when `directory`. Answer: `Done`.
    Remove {
        /// What.
        path: Pathname,
        /// Whether it must be a directory rather than a file.
        directory: bool,
    },
    /// Rename, replacing a file at `to`. Answer: `Done`.
    Rename {
        /// The old name.
        from: Pathname,
        /// The new name.
        to: Pathname,
    },
    /// Set the permission bits. Answer: `Done`.
    SetMode {
        /// At most 0o7777.
        mode: u32,
        /// The file.
        path: Pathname,
    },
    /// Set the modification time. Answer: `Done`.
    SetModified {
        /// The time.
        time: Timestamp,
        /// The file.
        path: Pathname,
    },
    /// Set one of Farline's own options (`OPTS FARLINE`). Answer: `Done`, or `Value` where it
    /// becomes another than was asked for.
    SetOption {
        /// The option.
        name: String,
        /// Its value.
        value: String,
    },
    /// What is at a pathname, following a symbolic link: `kind` is the target's, `link` what the
    /// link says. Answer: `ListingEntry`.
    Stat {
        /// What.
        path: Pathname,
    },
    /// Move data. Answers: `Started` when the file is open, any number of `Ranges`, `Perf` and
    /// `Remark`, then `Finished`; or `Failed` at any point. After
    /// [`Output::Abort`](super::Output::Abort) it still answers, soon.
    Transfer(Box<TransferRequest>),
}

/// What a transfer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Receive, behind what the file holds.
    Append,
    /// Send a listing.
    List(ListFormat),
    /// Send the file.
    Retrieve,
    /// Receive the file. Without `part` and `held` the file begins anew.
    Store,
}

impl Action {
    /// Whether the server receives.
    pub const fn is_store(self) -> bool {
        matches!(self, Action::Append | Action::Store)
    }
}

/// A part of a file (`ERET P`, `ESTO A`). MODE E offsets, and the ranges of restarts and markers,
/// count from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilePart {
    /// Where it begins in the file.
    pub offset: u64,
    /// Its bytes; `None` for a store, whose end the sender decides.
    pub length: Option<u64>,
}

/// A digest that the stored file must have (`SCKS`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedDigest {
    /// One of the configured algorithms.
    pub algorithm: String,
    /// In lower-case hexadecimal.
    pub digest: String,
}

/// Everything a transfer needs besides the data channels, which [`Ask::Passive`] or
/// [`Ask::Active`] arranged.
///
/// MODE S: one channel, closed at the end; a listener serves one transfer. MODE E: sender connects;
/// channels that ended with EOD but no CLOSE may serve the next transfer. After a failed transfer
/// the edge closes its channels; a listener and the client's addresses stay good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransferRequest {
    /// What to do.
    pub action: Action,
    /// The file or directory.
    pub path: Pathname,
    /// The module that interprets the transfer, one of the configured.
    pub module: Option<Module>,
    /// Stream or Extended. Files move as images whatever TYPE says.
    pub mode: Mode,
    /// The part of the file, or all of it.
    pub part: Option<FilePart>,
    /// What the receiver holds already, so it is not sent. In MODE S either empty or one range from
    /// 0.
    pub held: ByteRanges,
    /// Channels to send on; at least 1, and 1 in MODE S. A receiver accepts as many as come.
    pub parallelism: u32,
    /// How blocks are spread over stripes.
    pub layout: StripeLayout,
    /// Bytes of a MODE E block, if the client cares.
    pub block_size: Option<Bytes>,
    /// Socket buffer, if the client cares.
    pub buffer_size: Option<Bytes>,
    /// Bytes that will come, when the client said (`ALLO`).
    pub size: Option<u64>,
    /// What the stored file must hash to.
    pub expected: Option<ExpectedDigest>,
    /// Time between `Perf` answers; zero for none.
    pub perf_every: Span,
    /// Time between `Ranges` answers; zero for none.
    pub ranges_every: Span,
}

/// What the edge says to an [`Ask`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// The digest, in hexadecimal.
    Digest(String),
    /// It is done.
    Done,
    /// The directory's entries as lines, from [`control_listing`](crate::gridftp::control_listing):
    /// of many that takes long, and a session's other words would wait.
    Entries(Vec<u8>),
    /// What is at the pathname.
    Entry(Box<ListingEntry>),
    /// It cannot be done. Slugs such as `path-not-found`, `path-exists`, `permission-denied`,
    /// `no-space` reach the client as the reply codes and GridFTP error names it knows.
    Failed(Error),
    /// All data moved; for a store, it rests where it belongs.
    Finished {
        /// Payload bytes.
        bytes: u64,
    },
    /// The user is let in.
    LoggedIn(Rights),
    /// Listening here, one address for each stripe.
    Passive(Vec<SocketAddr>),
    /// How far one stripe is: 112.
    Perf(Perf),
    /// How far a checksum is: 113.
    Processed {
        /// When.
        timestamp: Timestamp,
        /// Bytes hashed.
        bytes: u64,
    },
    /// What is *durably* stored, since the last such answer or in all: 111. Clients resume from it.
    Ranges(ByteRanges),
    /// A word of an extension to its client while the transfer runs, of one line: 114.
    Remark(String),
    /// The file is open and data may move: 150, or 125 when channels of the last transfer serve
    /// again.
    Started {
        /// Whether they do.
        reused: bool,
    },
    /// What the transfer's last reply says behind the usual words; comes before `Finished`.
    Words(String),
    /// What the option has become.
    Value(String),
}
