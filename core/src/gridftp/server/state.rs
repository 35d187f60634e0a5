//! What a session remembers from one command to the next.

use super::ask::ExpectedDigest;
use super::config::Rights;
use crate::gridftp::command::Mode;
use crate::gridftp::{FactSet, Pathname, Reply, StripeLayout};
use crate::units::{ByteRanges, Bytes, Span, Time};

/// The data channels' arrangement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Data {
    /// The server connects.
    Active,
    /// None yet.
    None,
    /// The server listens.
    Passive,
}

/// How far the login is.
#[derive(Debug, Default)]
pub(super) struct Login {
    /// The name given, while its password is awaited.
    pub(super) user: Option<Vec<u8>>,
    pub(super) rights: Option<Rights>,
    pub(super) failures: u32,
    /// When the connection, or a new login on it, began.
    pub(super) since: Time,
}

/// What stays until it is changed.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) facts: FactSet,
    /// Whether the client asked what links say, and does not only hear of it in lists: to who did
    /// not, one path is what it leads to.
    pub(super) asks_for_links: bool,
    pub(super) mode: Mode,
    pub(super) parallelism: u32,
    pub(super) layout: StripeLayout,
    pub(super) block_size: Option<Bytes>,
    pub(super) retrieve_buffer: Option<Bytes>,
    pub(super) store_buffer: Option<Bytes>,
    /// Between markers when the server receives; GCT's five seconds unless TREV says otherwise.
    pub(super) perf_every: Span,
    pub(super) ranges_every: Span,
    /// Between markers when the server sends: none unless `OPTS RETR markers=` asks for them.
    pub(super) retrieve_markers: Span,
    pub(super) checksum_markers: Span,
    /// After `EPSV ALL`.
    pub(super) only_epsv: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            facts: FactSet::ALL,
            asks_for_links: false,
            mode: Mode::Stream,
            parallelism: 1,
            layout: StripeLayout::Blocked,
            block_size: None,
            retrieve_buffer: None,
            store_buffer: None,
            perf_every: Span::from_secs(5),
            ranges_every: Span::from_secs(5),
            retrieve_markers: Span::ZERO,
            checksum_markers: Span::ZERO,
            only_epsv: false,
        }
    }
}

/// What the next transfer takes up, or RNTO.
#[derive(Debug, Default)]
pub(super) struct Next {
    pub(super) size: Option<u64>,
    pub(super) expected: Option<ExpectedDigest>,
    pub(super) held: ByteRanges,
    pub(super) rename_from: Option<Pathname>,
    /// A REST was refused: the transfer that its sender put behind it must not begin anew.
    restart_refused: bool,
}

impl Next {
    pub(super) fn refuse_restart(&mut self, refused: bool) {
        self.restart_refused |= refused;
    }

    pub(super) fn accept_restart(&mut self) {
        self.restart_refused = false;
    }

    /// The ranges held, or that a REST was refused; either is used up.
    pub(super) fn take_held(&mut self) -> Result<ByteRanges, ()> {
        let held = std::mem::take(&mut self.held);
        if std::mem::take(&mut self.restart_refused) { Err(()) } else { Ok(held) }
    }
}

/// The transfer that runs.
#[derive(Debug)]
pub(super) struct Running {
    /// Whether 150 or 125 was sent.
    pub(super) begun: bool,
    /// Whether the edge was told to abort it.
    pub(super) aborting: bool,
    /// Stream mode has no markers: plain FTP clients take a second 1xx reply for the last.
    pub(super) markers: bool,
    /// What 226 is to say besides.
    pub(super) words: Option<String>,
}

/// What the answer to the open ask is for.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) id: u64,
    pub(super) purpose: Purpose,
}

#[derive(Debug)]
pub(super) enum Purpose {
    Active(&'static str),
    Admit(Rights),
    ChangeDirectory(Pathname),
    Checksum,
    Entries(Pathname),
    Facts(Pathname),
    LogIn,
    LongList(Pathname),
    MakeDirectory(Pathname),
    ModifiedTime,
    Option {
        name: String,
        value: String,
    },
    Passive(PassiveForm),
    /// `Done` gives this reply.
    Plain(Reply),
    RenameFrom(Pathname),
    Size,
    Transfer(Running),
}

/// How a passive address is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PassiveForm {
    Extended,
    Plain,
    Striped,
}
