//! Every command of the control channel, as values.
//!
//! [`Command::parse`] and [`Command::encode`] are inverse to each other. One table, [`VERBS`],
//! names each command with its syntax: the parser looks there, and so do HELP, SITE HELP and the
//! 501 replies.

mod options;
mod parse;
mod print;
mod site;
#[cfg(test)]
mod tests;
mod verbs;

pub use options::{CommandOptions, RetrieveOptions, StripeLayout};
pub use parse::CommandError;
pub use site::Site;
pub use verbs::{VERBS, Verb};

use super::address::Family;
use super::pathname::Pathname;
use super::timestamp::Timestamp;
use crate::units::ByteRanges;
use std::fmt;
use std::net::SocketAddr;

/// One command line.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Command {
    /// `ABOR`: end the running transfer.
    Abort,
    /// `ALLO n`: the next file stored has this many bytes (as GridFTP uses RFC 959's reservation).
    Allocate(u64),
    /// `APPE path`.
    Append(Pathname),
    /// `AUTH mechanism`: `TLS`, `GSSAPI` (RFC 2228, RFC 4217).
    Auth(String),
    /// `CDUP`.
    ChangeUp,
    /// `CKSM algorithm offset length path`; without a length, to the end (`-1` on the wire).
    Checksum {
        /// `MD5`, `ADLER32`, `SHA256` ...
        algorithm: String,
        /// First byte.
        offset: u64,
        /// Bytes, or to the end of the file.
        length: Option<u64>,
        /// The file.
        path: Pathname,
    },
    /// `CWD path`.
    ChangeDirectory(Pathname),
    /// `DCAU N|A|S subject`: how data channels are authenticated (GFD.20 section 3).
    DataAuthentication(DataAuthentication),
    /// `DELE path`.
    Delete(Pathname),
    /// `EPRT |1|host|port|` (RFC 2428).
    ExtendedPort(SocketAddr),
    /// `EPSV`, `EPSV 1`, `EPSV ALL` (RFC 2428).
    ExtendedPassive(Epsv),
    /// `ERET`: retrieve a part, or through a module.
    ExtendedRetrieve(Extent, Pathname),
    /// `ESTO`: store a part, or through a module.
    ExtendedStore(Extent, Pathname),
    /// `FEAT` (RFC 2389).
    Features,
    /// `HELP`, `HELP RETR`.
    Help(Option<String>),
    /// `LANG`, `LANG EN` (RFC 2640).
    Language(Option<String>),
    /// `LIST path`. Options such as `-la` before the path are dropped: every listing shows
    /// everything.
    List(Option<Pathname>),
    /// `MDTM path` (RFC 3659).
    ModifiedTime(Pathname),
    /// `MFMT time path` (draft-somers-ftp-mfxx).
    SetModified(Timestamp, Pathname),
    /// `MKD path`.
    MakeDirectory(Pathname),
    /// `MLSC path`: MLSD's lines as a reply on the control channel (GCT).
    MachineListControl(Option<Pathname>),
    /// `MLSD path` (RFC 3659).
    MachineList(Option<Pathname>),
    /// `MLSR path`: MLSD of a directory and all that is below it (GCT).
    MachineListTree(Option<Pathname>),
    /// `MLST path` (RFC 3659).
    MachineStatus(Option<Pathname>),
    /// `MODE S|E`; another letter is kept for the reply.
    Mode(Mode),
    /// `NLST path`.
    NameList(Option<Pathname>),
    /// `NOOP`.
    Noop,
    /// `OPTS` (RFC 2389).
    Options(CommandOptions),
    /// `PASS password`.
    Password(Vec<u8>),
    /// `SITE TOKEN token`, also written `OPTS TOKEN token`: a login by bearer token in one command.
    Token(Vec<u8>),
    /// `PASV`.
    Passive,
    /// `PBSZ n` (RFC 2228).
    ProtectionBuffer(u64),
    /// `PORT h,h,h,h,p,p`.
    Port(SocketAddr),
    /// `PROT C|S|E|P` (RFC 2228).
    Protection(Protection),
    /// `PWD`.
    PrintDirectory,
    /// `QUIT`.
    Quit,
    /// `REST n` or `REST 0-30,60-90`: what the receiver already holds.
    Restart(Restart),
    /// `RETR path`.
    Retrieve(Pathname),
    /// `RMD path`.
    RemoveDirectory(Pathname),
    /// `RNFR path`.
    RenameFrom(Pathname),
    /// `RNTO path`.
    RenameTo(Pathname),
    /// `SBUF n`: the socket buffer of data channels in bytes (GFD.20 section 5.1).
    SocketBuffer(u64),
    /// `SCKS algorithm digest`: the digest the next file stored must have (GCT).
    ExpectChecksum {
        /// As in CKSM.
        algorithm: String,
        /// In hexadecimal.
        digest: String,
    },
    /// `SITE ...`.
    Site(Site),
    /// `SIZE path` (RFC 3659).
    Size(Pathname),
    /// `SPAS`, `SPAS 1`: listen on every stripe (GFD.20 section 4.3).
    StripedPassive(Option<Family>),
    /// `SPOR hp hp ...`: connect every stripe.
    StripedPort(Vec<SocketAddr>),
    /// `STAT`, `STAT path`.
    Status(Option<Pathname>),
    /// `STOR path`.
    Store(Pathname),
    /// `STRU F`; another letter is kept for the reply.
    Structure(char),
    /// `SYST`.
    System,
    /// `TREV PERF|RESTART seconds`: how often markers come (GFD.47; GCT).
    TransferEvents {
        /// Which.
        event: TransferEvent,
        /// Zero turns them off.
        seconds: u64,
    },
    /// `TYPE A|I`; another letter is kept for the reply.
    Type(Type),
    /// `USER name`.
    User(Vec<u8>),
}

/// `DCAU`'s argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataAuthentication {
    /// `N`: none.
    None,
    /// `A`: the user's own identity.
    Own,
    /// `S subject`.
    Subject(String),
}

/// `EPSV`'s argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Epsv {
    /// None: the control connection's family.
    Any,
    /// `1` or `2`.
    Family(Family),
    /// `ALL`: no other kind of data connection will be asked for in this session.
    All,
}

/// What `ERET` and `ESTO` say before the pathname.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extent {
    /// `ERET P offset length`: that part of the file, whose MODE E offsets start at 0.
    Part {
        /// First byte of the part in the file.
        offset: u64,
        /// Bytes of the part.
        length: u64,
    },
    /// `ESTO A offset`: what comes is a part that starts there.
    At {
        /// First byte of the part in the file.
        offset: u64,
    },
    /// `NAME="parms"`: a module of the server's (GFD.20 section 4.4).
    Module(Module),
}

/// A module and its parameters: `FARLINE.TREE="manifest"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// The name, of letters, digits, `.`, `_` and `-`; upper case.
    pub name: String,
    /// What stands between the quotes; on the wire `"` and `\` follow a `\`.
    pub parms: String,
}

/// How data travels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// `S`: bytes in order on one channel, which closes at the end.
    #[default]
    Stream,
    /// `E`: blocks with offsets on any number of channels (GFD.20 section 4.1).
    Extended,
    /// A mode that is not known.
    Other(char),
}

/// `TYPE`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Type {
    /// `A`: the initial one of RFC 959.
    #[default]
    Ascii,
    /// `I`, and `L 8`.
    Image,
    /// Another letter, which is not known.
    Other(char),
}

/// `PROT`'s argument (RFC 2228 section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// `C`.
    Clear,
    /// `S`: integrity.
    Safe,
    /// `E`.
    Confidential,
    /// `P`: integrity and confidentiality.
    Private,
}

/// What the receiver holds already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Restart {
    /// `REST n`: everything before `n` (MODE S).
    Offset(u64),
    /// `REST 0-30,60-90`: these ranges, ends exclusive (MODE E).
    Held(ByteRanges),
}

/// What `TREV` is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferEvent {
    /// 112 replies.
    Perf,
    /// 111 replies.
    Restart,
}

impl fmt::Debug for Command {
    /// The command line; a password is not shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown())
    }
}
