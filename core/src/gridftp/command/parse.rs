//! Command lines into [`Command`]s.

use super::site::{Site, word};
use super::verbs::Verb;
use super::{
    Command, CommandOptions, DataAuthentication, Epsv, Extent, Mode, Module, Protection, Restart,
    TransferEvent, Type,
};
use crate::gridftp::address::{Family, parse_any, parse_extended, parse_host_port};
use crate::gridftp::pathname::Pathname;
use crate::gridftp::timestamp::Timestamp;
use crate::units::ByteRanges;
use std::fmt;

/// Why a line is no command.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommandError {
    /// The verb is known, its arguments are not understood: 501.
    Arguments {
        /// The verb.
        verb: &'static Verb,
        /// The part that was not understood.
        part: String,
    },
    /// The verb is not known: 500.
    Unknown {
        /// The verb, cut to a few characters.
        verb: String,
    },
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommandError::Arguments { verb, part } if part.is_empty() => {
                write!(f, "Syntax: {} {}", verb.name, verb.syntax)
            }
            CommandError::Arguments { verb, part } => {
                write!(
                    f,
                    "`{}` is not understood. Syntax: {} {}",
                    shown(part.as_bytes()),
                    verb.name,
                    verb.syntax
                )
            }
            CommandError::Unknown { verb } => {
                write!(f, "Command `{verb}` is not known; HELP lists those that are.")
            }
        }
    }
}

impl std::error::Error for CommandError {}

impl Command {
    /// Reads a command line, without its line end.
    ///
    /// # Errors
    /// [`CommandError`], whose text fits a 500 or 501 reply.
    pub fn parse(line: &[u8]) -> Result<Command, CommandError> {
        let line = without_telnet(line);
        let (name, rest) = word(line);
        let unknown = || CommandError::Unknown { verb: shown(name) };
        let verb = std::str::from_utf8(name).ok().and_then(Verb::find).ok_or_else(unknown)?;
        parse_arguments(verb.name, rest).map_err(|part| CommandError::Arguments { verb, part })
    }
}

/// The command `name` with the arguments `rest`; the error is the part that was not understood.
fn parse_arguments(name: &str, rest: &[u8]) -> Result<Command, String> {
    let text = String::from_utf8_lossy(rest).trim().to_owned();
    let wrong = || text.clone();
    let number = || text.parse::<u64>().map_err(|_| wrong());
    let path = || if rest.is_empty() { Err(String::new()) } else { Ok(Pathname::read(rest)) };
    let optional_path = || (!rest.is_empty()).then(|| Pathname::read(rest));
    let optional_text = || (!text.is_empty()).then(|| text.clone());
    let letter = || text.chars().next().map(|c| c.to_ascii_uppercase()).ok_or_else(String::new);
    Ok(match name {
        "ABOR" => Command::Abort,
        // RFC 959 has a second number, ` R n`, for record files: there are none.
        "ALLO" => Command::Allocate(
            text.split(' ').next().and_then(|n| n.parse().ok()).ok_or_else(wrong)?,
        ),
        "APPE" => Command::Append(path()?),
        "AUTH" => Command::Auth(optional_text().ok_or_else(wrong)?.to_ascii_uppercase()),
        "CDUP" => Command::ChangeUp,
        "CKSM" => checksum(rest).ok_or_else(wrong)?,
        "CWD" => Command::ChangeDirectory(path()?),
        "DCAU" => {
            Command::DataAuthentication(match (letter()?, text.get(1..).unwrap_or("").trim()) {
                ('N', "") => DataAuthentication::None,
                ('A', "") => DataAuthentication::Own,
                ('S', subject) if !subject.is_empty() => {
                    DataAuthentication::Subject(subject.to_owned())
                }
                _ => return Err(wrong()),
            })
        }
        "DELE" => Command::Delete(path()?),
        "EPRT" => Command::ExtendedPort(parse_extended(&text, None).ok_or_else(wrong)?),
        "EPSV" => Command::ExtendedPassive(match text.to_ascii_uppercase().as_str() {
            "" => Epsv::Any,
            "ALL" => Epsv::All,
            family => Epsv::Family(Family::parse(family).ok_or_else(wrong)?),
        }),
        "ERET" => extent(rest, true)
            .map(|(extent, path)| Command::ExtendedRetrieve(extent, path))
            .ok_or_else(wrong)?,
        "ESTO" => extent(rest, false)
            .map(|(extent, path)| Command::ExtendedStore(extent, path))
            .ok_or_else(wrong)?,
        "FEAT" => Command::Features,
        "HELP" => Command::Help(optional_text()),
        "LANG" => Command::Language(optional_text()),
        "LIST" => Command::List(listed(rest)),
        "MDTM" => Command::ModifiedTime(path()?),
        "MFMT" => {
            let (time, path) = word(rest);
            let time = std::str::from_utf8(time)
                .ok()
                .and_then(Timestamp::parse)
                .filter(|_| !path.is_empty());
            Command::SetModified(time.ok_or_else(wrong)?, Pathname::read(path))
        }
        "MKD" => Command::MakeDirectory(path()?),
        "MLSC" => Command::MachineListControl(optional_path()),
        "MLSD" => Command::MachineList(optional_path()),
        "MLSR" => Command::MachineListTree(optional_path()),
        "MLST" => Command::MachineStatus(optional_path()),
        "MODE" => Command::Mode(match letter()? {
            'S' => Mode::Stream,
            'E' => Mode::Extended,
            other => Mode::Other(other),
        }),
        "NLST" => Command::NameList(listed(rest)),
        "NOOP" => Command::Noop,
        "OPTS" | "SITE" if is_token(rest) => Command::Token(word(rest).1.to_vec()),
        "OPTS" => Command::Options(CommandOptions::parse(&text)?),
        "PASS" => Command::Password(rest.to_vec()),
        "PASV" => Command::Passive,
        "PBSZ" => Command::ProtectionBuffer(number()?),
        "PORT" => Command::Port(parse_host_port(&text).ok_or_else(wrong)?),
        "PROT" => Command::Protection(match letter()? {
            'C' => Protection::Clear,
            'S' => Protection::Safe,
            'E' => Protection::Confidential,
            'P' => Protection::Private,
            _ => return Err(wrong()),
        }),
        "PWD" => Command::PrintDirectory,
        "QUIT" => Command::Quit,
        "REST" if text.contains('-') => {
            Command::Restart(Restart::Held(ByteRanges::parse(&text).ok_or_else(wrong)?))
        }
        "REST" => Command::Restart(Restart::Offset(number()?)),
        "RETR" => Command::Retrieve(path()?),
        "RMD" => Command::RemoveDirectory(path()?),
        "RNFR" => Command::RenameFrom(path()?),
        "RNTO" => Command::RenameTo(path()?),
        "SBUF" => Command::SocketBuffer(number()?),
        "SCKS" => match text.split_once(' ') {
            Some((algorithm, digest)) => Command::ExpectChecksum {
                algorithm: algorithm.to_ascii_uppercase(),
                digest: Some(digest.trim().to_ascii_lowercase())
                    .filter(|digest| {
                        !digest.is_empty() && digest.bytes().all(|b| b.is_ascii_hexdigit())
                    })
                    .ok_or_else(wrong)?,
            },
            None => return Err(wrong()),
        },
        "SITE" if text.is_empty() => return Err(wrong()),
        "SITE" => Command::Site(Site::parse(rest)?),
        "SIZE" => Command::Size(path()?),
        "SPAS" if text.is_empty() => Command::StripedPassive(None),
        "SPAS" => Command::StripedPassive(Some(Family::parse(&text).ok_or_else(wrong)?)),
        "SPOR" => {
            let addresses: Option<Vec<_>> =
                text.split_ascii_whitespace().map(|part| parse_any(part, None)).collect();
            Command::StripedPort(
                addresses.filter(|addresses| !addresses.is_empty()).ok_or_else(wrong)?,
            )
        }
        "STAT" => Command::Status(listed(rest)),
        "STOR" => Command::Store(path()?),
        "STRU" => Command::Structure(letter()?),
        "SYST" => Command::System,
        "TREV" => {
            let (event, seconds) = text.split_once(' ').ok_or_else(wrong)?;
            let event = match event.to_ascii_uppercase().as_str() {
                "PERF" => TransferEvent::Perf,
                "RESTART" => TransferEvent::Restart,
                _ => return Err(wrong()),
            };
            let seconds =
                seconds.trim().parse().ok().filter(|&n| n <= 7 * 86_400).ok_or_else(wrong)?;
            Command::TransferEvents { event, seconds }
        }
        // RFC 959: `A N` and `L 8` are what everyone means by A and L.
        "TYPE" => Command::Type(match (letter()?, text.get(1..).unwrap_or("").trim()) {
            ('A', "" | "N" | "n") => Type::Ascii,
            ('I', "") | ('L', "8") => Type::Image,
            // A form of these that is not known: RFC 959 has `A T` and `A C`, which nobody offers.
            ('A' | 'I', _) => return Err(wrong()),
            (other, _) => Type::Other(other),
        }),
        // No pathname, and no bytes in it stand for others.
        "USER" if rest.is_empty() => return Err(String::new()),
        "USER" => Command::User(rest.to_vec()),
        _ => return Err(wrong()),
    })
}

/// `MD5 0 -1 path`.
fn checksum(rest: &[u8]) -> Option<Command> {
    let (algorithm, rest) = word(rest);
    let (offset, rest) = word(rest);
    let (length, path) = word(rest);
    let text = |bytes| std::str::from_utf8(bytes).ok();
    let length = match text(length)? {
        "-1" => None,
        length => Some(length.parse().ok()?),
    };
    let algorithm = text(algorithm)
        .filter(|name| !name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic()))?;
    let offset = text(offset)?.parse().ok()?;
    (!path.is_empty()).then(|| Command::Checksum {
        algorithm: algorithm.to_ascii_uppercase(),
        offset,
        length,
        path: Pathname::read(path),
    })
}

/// Whether this is `TOKEN token`, which has neither spaces nor control characters.
fn is_token(rest: &[u8]) -> bool {
    let (name, token) = word(rest);
    let is_one = !token.is_empty() && token.iter().all(u8::is_ascii_graphic);
    name.eq_ignore_ascii_case(b"TOKEN") && is_one
}

/// What precedes the pathname of ERET and ESTO.
fn extent(rest: &[u8], retrieve: bool) -> Option<(Extent, Pathname)> {
    let (head, tail) = word(rest);
    let number = |bytes| std::str::from_utf8(bytes).ok()?.parse::<u64>().ok();
    let (extent, path) = match head {
        b"P" | b"p" if retrieve => {
            let (offset, tail) = word(tail);
            let (length, path) = word(tail);
            let (offset, length) = (number(offset)?, number(length)?);
            offset.checked_add(length)?;
            (Extent::Part { offset, length }, path)
        }
        b"A" | b"a" if !retrieve => {
            let (offset, path) = word(tail);
            (Extent::At { offset: number(offset)? }, path)
        }
        _ => {
            let (module, path) = module(rest)?;
            (Extent::Module(module), path)
        }
    };
    (!path.is_empty()).then(|| (extent, Pathname::read(path)))
}

/// `NAME="parms" path`, with `\"` and `\\` in the quotes.
fn module(rest: &[u8]) -> Option<(Module, &[u8])> {
    let equals = rest.windows(2).position(|pair| pair == b"=\"")?;
    let name = std::str::from_utf8(&rest[..equals]).ok().filter(|name| Module::is_name(name))?;
    let quoted = &rest[equals + 2..];
    let mut parms = Vec::new();
    let mut at = 0;
    loop {
        match quoted.get(at)? {
            b'"' => break,
            b'\\' => {
                parms.push(*quoted.get(at + 1)?);
                at += 2;
            }
            &byte => {
                parms.push(byte);
                at += 1;
            }
        }
    }
    let path = quoted.get(at + 1..)?.strip_prefix(b" ")?;
    Some((Module { name: name.to_ascii_uppercase(), parms: String::from_utf8(parms).ok()? }, path))
}

impl Module {
    /// Whether `name` can be a module's.
    pub(super) fn is_name(name: &str) -> bool {
        !name.is_empty()
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
    }
}

/// The path of LIST, NLST and STAT after options such as `-la`, which lftp and Windows clients
/// send.
fn listed(rest: &[u8]) -> Option<Pathname> {
    let mut rest = rest;
    while rest.first() == Some(&b'-') {
        rest = word(rest).1;
    }
    (!rest.is_empty()).then(|| Pathname::read(rest))
}

/// Drops Telnet's interrupt and data mark, which RFC 959 section 4.1.3 has clients put before ABOR
/// and STAT.
fn without_telnet(mut line: &[u8]) -> &[u8] {
    while let [0xFF, 0xF2 | 0xF4, rest @ ..] = line {
        line = rest;
    }
    line.strip_prefix(&[0xF2]).unwrap_or(line)
}

/// The start of something a client sent, safe to show.
fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .chars()
        .take(40)
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}
