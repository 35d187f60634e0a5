//! [`Command`]s into command lines.

use super::{
    Command, DataAuthentication, Epsv, Extent, Mode, Protection, Restart, TransferEvent, Type,
};
use crate::gridftp::address::{extended, host_port};
use crate::gridftp::line::MAX_LINE;
use crate::gridftp::pathname::Pathname;
use crate::units::{ByteRanges, Error, ErrorCode, Fault};

/// Arguments after the verb.
enum Arguments<'a> {
    None,
    Text(String),
    Path(&'a Pathname),
    TextAndPath(String, &'a Pathname),
    Bytes(&'a [u8]),
}

impl Command {
    /// The command line, with its CR LF.
    ///
    /// # Errors
    /// With [`Fault::You`] and the code `invalid-name` when an argument holds what would end the
    /// line early and begin another command, and when the line is longer than [`MAX_LINE`].
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        let (verb, arguments) = self.parts();
        let mut line = verb.as_bytes().to_vec();
        if let Command::Site(site) = self {
            line.push(b' ');
            site.write_to(&mut line);
        }
        match arguments {
            Arguments::None => {}
            Arguments::Text(text) => line.extend_from_slice(format!(" {text}").as_bytes()),
            Arguments::Path(path) => {
                line.push(b' ');
                path.write_to(&mut line);
            }
            Arguments::TextAndPath(text, path) => {
                line.extend_from_slice(format!(" {text} ").as_bytes());
                path.write_to(&mut line);
            }
            Arguments::Bytes(bytes) => {
                line.push(b' ');
                line.extend_from_slice(bytes);
            }
        }
        if carries_a_line_end(&line) {
            return Err(Error::new(
                Fault::You,
                ErrorCode::InvalidName,
                format!("{}: no command line can carry this name", self.shown()),
            )
            .hint("names with line feeds or NUL travel only between two Farline ends, in a tree"));
        }
        if line.len() > MAX_LINE {
            let message = format!(
                "{verb}: the command line would have {} bytes, and {MAX_LINE} are allowed",
                line.len()
            );
            return Err(Error::new(Fault::You, ErrorCode::InvalidName, message));
        }
        line.extend_from_slice(b"\r\n");
        Ok(line)
    }

    /// The verb on the wire.
    pub fn verb(&self) -> &'static str {
        self.parts().0
    }

    /// The command line for people and logs: without password, control characters replaced.
    pub fn shown(&self) -> String {
        let (verb, arguments) = self.parts();
        let arguments = match arguments {
            Arguments::None => String::new(),
            Arguments::Text(text) => text,
            Arguments::Path(path) => path.to_string(),
            Arguments::TextAndPath(text, path) => format!("{text} {path}"),
            Arguments::Bytes(_) if matches!(self, Command::Password(_) | Command::Token(_)) => {
                "****".to_owned()
            }
            Arguments::Bytes(bytes) => Pathname::new(bytes).to_string(),
        };
        match self {
            Command::Site(site) => {
                let mut line = Vec::new();
                site.write_to(&mut line);
                format!("SITE {}", Pathname::new(line))
            }
            _ if arguments.is_empty() => verb.to_owned(),
            _ => format!("{verb} {arguments}"),
        }
    }

    fn parts(&self) -> (&'static str, Arguments<'_>) {
        use Arguments as A;
        let optional = |path| Option::map_or(path, A::None, A::Path);
        match self {
            Command::Abort => ("ABOR", A::None),
            Command::Allocate(size) => ("ALLO", A::Text(size.to_string())),
            Command::Append(path) => ("APPE", A::Path(path)),
            Command::Auth(mechanism) => ("AUTH", A::Text(mechanism.clone())),
            Command::ChangeUp => ("CDUP", A::None),
            Command::Checksum { algorithm, offset, length, path } => {
                let length = length.map_or("-1".to_owned(), |length| length.to_string());
                ("CKSM", A::TextAndPath(format!("{algorithm} {offset} {length}"), path))
            }
            Command::ChangeDirectory(path) => ("CWD", A::Path(path)),
            Command::DataAuthentication(how) => (
                "DCAU",
                A::Text(match how {
                    DataAuthentication::None => "N".to_owned(),
                    DataAuthentication::Own => "A".to_owned(),
                    DataAuthentication::Subject(subject) => format!("S {subject}"),
                }),
            ),
            Command::Delete(path) => ("DELE", A::Path(path)),
            Command::ExtendedPort(address) => ("EPRT", A::Text(extended(address))),
            Command::ExtendedPassive(Epsv::Any) => ("EPSV", A::None),
            Command::ExtendedPassive(Epsv::All) => ("EPSV", A::Text("ALL".to_owned())),
            Command::ExtendedPassive(Epsv::Family(family)) => {
                ("EPSV", A::Text(family.number().to_string()))
            }
            Command::ExtendedRetrieve(extent, path) => {
                ("ERET", A::TextAndPath(extent.print(), path))
            }
            Command::ExtendedStore(extent, path) => ("ESTO", A::TextAndPath(extent.print(), path)),
            Command::Features => ("FEAT", A::None),
            Command::Help(verb) => ("HELP", verb.clone().map_or(A::None, A::Text)),
            Command::Language(language) => ("LANG", language.clone().map_or(A::None, A::Text)),
            Command::List(path) => ("LIST", optional(path.as_ref())),
            Command::ModifiedTime(path) => ("MDTM", A::Path(path)),
            Command::SetModified(time, path) => ("MFMT", A::TextAndPath(time.to_string(), path)),
            Command::MakeDirectory(path) => ("MKD", A::Path(path)),
            Command::MachineListTree(path) => ("MLSR", optional(path.as_ref())),
            Command::MachineListControl(path) => ("MLSC", optional(path.as_ref())),
            Command::MachineList(path) => ("MLSD", optional(path.as_ref())),
            Command::MachineStatus(path) => ("MLST", optional(path.as_ref())),
            Command::Mode(mode) => (
                "MODE",
                A::Text(match mode {
                    Mode::Stream => "S".to_owned(),
                    Mode::Extended => "E".to_owned(),
                    Mode::Other(letter) => letter.to_string(),
                }),
            ),
            Command::NameList(path) => ("NLST", optional(path.as_ref())),
            Command::Noop => ("NOOP", A::None),
            Command::Options(options) => ("OPTS", A::Text(options.print())),
            Command::Password(password) => ("PASS", A::Bytes(password)),
            Command::Token(token) => ("SITE TOKEN", A::Bytes(token)),
            Command::Passive => ("PASV", A::None),
            Command::ProtectionBuffer(size) => ("PBSZ", A::Text(size.to_string())),
            // RFC 2428: PORT cannot hold an IPv6 address, so that one goes as EPRT.
            Command::Port(address) => match host_port(address) {
                Some(text) => ("PORT", A::Text(text)),
                None => ("EPRT", A::Text(extended(address))),
            },
            Command::Protection(level) => (
                "PROT",
                A::Text(match level {
                    Protection::Clear => "C".to_owned(),
                    Protection::Safe => "S".to_owned(),
                    Protection::Confidential => "E".to_owned(),
                    Protection::Private => "P".to_owned(),
                }),
            ),
            Command::PrintDirectory => ("PWD", A::None),
            Command::Quit => ("QUIT", A::None),
            Command::Restart(Restart::Offset(offset)) => ("REST", A::Text(offset.to_string())),
            Command::Restart(Restart::Held(held)) => ("REST", A::Text(ranges_that_fit(held))),
            Command::Retrieve(path) => ("RETR", A::Path(path)),
            Command::RemoveDirectory(path) => ("RMD", A::Path(path)),
            Command::RenameFrom(path) => ("RNFR", A::Path(path)),
            Command::RenameTo(path) => ("RNTO", A::Path(path)),
            Command::SocketBuffer(size) => ("SBUF", A::Text(size.to_string())),
            Command::ExpectChecksum { algorithm, digest } => {
                ("SCKS", A::Text(format!("{algorithm} {digest}")))
            }
            Command::Site(_) => ("SITE", A::None),
            Command::Size(path) => ("SIZE", A::Path(path)),
            Command::StripedPassive(None) => ("SPAS", A::None),
            Command::StripedPassive(Some(family)) => ("SPAS", A::Text(family.number().to_string())),
            Command::StripedPort(addresses) => {
                let all: Vec<String> = addresses
                    .iter()
                    .map(|address| host_port(address).unwrap_or_else(|| extended(address)))
                    .collect();
                ("SPOR", A::Text(all.join(" ")))
            }
            Command::Status(path) => ("STAT", optional(path.as_ref())),
            Command::Store(path) => ("STOR", A::Path(path)),
            Command::Structure(letter) => ("STRU", A::Text(letter.to_string())),
            Command::System => ("SYST", A::None),
            Command::TransferEvents { event, seconds } => {
                let event = match event {
                    TransferEvent::Perf => "PERF",
                    TransferEvent::Restart => "RESTART",
                };
                ("TREV", A::Text(format!("{event} {seconds}")))
            }
            Command::Type(kind) => (
                "TYPE",
                A::Text(match kind {
                    Type::Ascii => "A".to_owned(),
                    Type::Image => "I".to_owned(),
                    Type::Other(letter) => letter.to_string(),
                }),
            ),
            Command::User(name) => ("USER", A::Bytes(name)),
        }
    }
}

impl Extent {
    fn print(&self) -> String {
        match self {
            Extent::Part { offset, length } => format!("P {offset} {length}"),
            Extent::At { offset } => format!("A {offset}"),
            Extent::Module(module) => {
                let parms = module.parms.replace('\\', "\\\\").replace('"', "\\\"");
                format!("{}=\"{parms}\"", module.name)
            }
        }
    }
}

/// Whether `line` holds a line feed, a NUL that is not a padded carriage return's, or a carriage
/// return without it.
fn carries_a_line_end(line: &[u8]) -> bool {
    let mut after_return = false;
    for &byte in line {
        if byte == b'\n' || (byte == 0) != after_return {
            return true;
        }
        after_return = byte == b'\r';
    }
    after_return
}

/// `0-30,60-90`, without the shortest ranges when the line would be too long: what is not said to
/// be held is sent again.
fn ranges_that_fit(held: &ByteRanges) -> String {
    const ROOM: usize = MAX_LINE - "REST ".len();
    let mut ranges: Vec<_> = held.iter().collect();
    let length = |range: &std::ops::Range<u64>| format!("{}-{},", range.start, range.end).len();
    let mut total: usize = ranges.iter().map(length).sum();
    if total > ROOM {
        ranges.sort_by_key(|range| range.end - range.start);
        let mut longest = ranges.into_iter().skip_while(|range| {
            let too_long = total > ROOM;
            total -= if too_long { length(range) } else { 0 };
            too_long
        });
        let mut kept = ByteRanges::new();
        longest.by_ref().for_each(|range| _ = kept.insert(range));
        return kept.to_string();
    }
    // `REST ` alone would be a syntax error; nothing held is a stream's beginning.
    if held.is_empty() { "0-0".to_owned() } else { held.to_string() }
}
