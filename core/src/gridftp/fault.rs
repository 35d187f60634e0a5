//! Errors on the wire and back: one table of reply codes, GridFTP error names, codes and faults.

use super::reply::Reply;
use crate::units::{Error, ErrorCode, Fault, in_short};

/// One kind of failure on both sides of the wire.
struct Row {
    code: ErrorCode,
    fault: Fault,
    /// The reply code when the command had not begun to move data.
    reply: u16,
    /// The `c=` of a structured reply, as GCT's `globus_i_gfs_ftp_response_error.c` spells it where
    /// it has one.
    globus: &'static str,
}

const fn row(code: ErrorCode, fault: Fault, reply: u16, globus: &'static str) -> Row {
    Row { code, fault, reply, globus }
}

/// Sorted by code. An error of one of these codes arrives unchanged at a Farline client.
const TABLE: &[Row] = &[
    row(ErrorCode::Aborted, Fault::You, 426, "ABORTED"),
    // RFC 2428, section 2.
    row(ErrorCode::AddressFamily, Fault::You, 522, "ADDRESS_FAMILY"),
    row(ErrorCode::BadManifest, Fault::There, 501, "BAD_MANIFEST"),
    row(ErrorCode::BadRate, Fault::You, 501, "BAD_RATE"),
    // A Farline client asks in order: a command before this one was lost or changed on the way.
    row(ErrorCode::BadSequence, Fault::Between, 503, "BAD_SEQUENCE"),
    row(ErrorCode::BlocksMissing, Fault::Between, 451, "BLOCKS_MISSING"),
    row(ErrorCode::Busy, Fault::Refused, 450, "BUSY"),
    row(ErrorCode::CannotEncrypt, Fault::Refused, 550, "CANNOT_ENCRYPT"),
    row(ErrorCode::ChannelLost, Fault::Between, 426, "DATA_CHANNEL_LOST"),
    row(ErrorCode::CongestionCapability, Fault::Refused, 550, "CONGESTION_CAPABILITY"),
    row(ErrorCode::DataConnection, Fault::Between, 425, "DATA_CHANNEL_COMMUNICATION_FAILURE"),
    row(ErrorCode::DigestMismatch, Fault::Between, 451, "DIGEST_MISMATCH"),
    row(ErrorCode::DirectoryNotEmpty, Fault::You, 550, "DIRECTORY_NOT_EMPTY"),
    row(ErrorCode::HeldRateRefused, Fault::Refused, 550, "HELD_RATE_REFUSED"),
    row(ErrorCode::HeldRateTaken, Fault::Refused, 450, "HELD_RATE_TAKEN"),
    row(ErrorCode::Incomplete, Fault::There, 451, "INCOMPLETE"),
    row(ErrorCode::InvalidName, Fault::You, 553, "INVALID_NAME"),
    row(ErrorCode::Io, Fault::There, 451, "INTERNAL_ERROR"),
    row(ErrorCode::IsADirectory, Fault::You, 550, "IS_A_DIRECTORY"),
    row(ErrorCode::LineNotAllowed, Fault::Refused, 550, "LINE_NOT_ALLOWED"),
    row(ErrorCode::ListMemory, Fault::Refused, 552, "LIST_MEMORY"),
    row(ErrorCode::LockedMemory, Fault::There, 425, "LOCKED_MEMORY"),
    row(ErrorCode::LoginRefused, Fault::Refused, 530, "LOGIN_DENIED"),
    row(ErrorCode::NoRdma, Fault::There, 425, "NO_RDMA"),
    row(ErrorCode::NoRdmaPath, Fault::There, 425, "NO_RDMA_PATH"),
    row(ErrorCode::NoSpace, Fault::There, 552, "NO_SPACE_LEFT"),
    row(ErrorCode::NotADirectory, Fault::You, 550, "NOT_A_DIRECTORY"),
    row(ErrorCode::NotAFile, Fault::You, 553, "NOT_A_FILE"),
    row(ErrorCode::PathExists, Fault::You, 553, "PATH_EXISTS"),
    row(ErrorCode::PathNotFound, Fault::You, 550, "PATH_NOT_FOUND"),
    row(ErrorCode::PermissionDenied, Fault::Refused, 550, "PERMISSION_DENIED"),
    row(ErrorCode::ProfileBroken, Fault::Between, 426, "PROFILE_BROKEN"),
    row(ErrorCode::ProfileCeiling, Fault::Refused, 550, "PROFILE_CEILING"),
    row(ErrorCode::ProfileNotAllowed, Fault::Refused, 550, "PROFILE_NOT_ALLOWED"),
    row(ErrorCode::ProfileRunning, Fault::Refused, 450, "PROFILE_RUNNING"),
    row(ErrorCode::ProfileSilent, Fault::Between, 426, "PROFILE_SILENT"),
    row(ErrorCode::QuotaExceeded, Fault::Refused, 552, "QUOTA_EXCEEDED"),
    row(ErrorCode::RdmaAccess, Fault::There, 426, "RDMA_ACCESS"),
    row(ErrorCode::RdmaBroken, Fault::There, 426, "RDMA_BROKEN"),
    row(ErrorCode::RdmaDevice, Fault::There, 426, "RDMA_DEVICE"),
    row(ErrorCode::RdmaFabric, Fault::Between, 425, "RDMA_FABRIC"),
    row(ErrorCode::RdmaGid, Fault::There, 425, "RDMA_GID"),
    row(ErrorCode::RdmaMtu, Fault::Between, 425, "RDMA_MTU"),
    row(ErrorCode::RdmaPortDown, Fault::There, 425, "RDMA_PORT_DOWN"),
    row(ErrorCode::RdmaRoom, Fault::Refused, 425, "RDMA_ROOM"),
    row(ErrorCode::RdmaVersion, Fault::There, 425, "RDMA_VERSION"),
    row(ErrorCode::ReadOnly, Fault::Refused, 550, "READ_ONLY"),
    row(ErrorCode::RestartMismatch, Fault::You, 554, "RESTART_MISMATCH"),
    row(ErrorCode::SourceChanged, Fault::There, 451, "SOURCE_CHANGED"),
    row(ErrorCode::SourceUnreadable, Fault::There, 451, "SOURCE_UNREADABLE"),
    row(ErrorCode::SpecialFile, Fault::You, 553, "SPECIAL_FILE"),
    row(ErrorCode::StoreNotAllowed, Fault::Refused, 550, "STORE_NOT_ALLOWED"),
    row(ErrorCode::TooManyChannels, Fault::Refused, 425, "TOO_MANY_CHANNELS"),
    row(ErrorCode::TooManyRanges, Fault::Refused, 552, "TOO_MANY_RANGES"),
    row(ErrorCode::UnknownCongestion, Fault::You, 501, "UNKNOWN_CONGESTION"),
    row(ErrorCode::Unsupported, Fault::There, 504, "UNSUPPORTED"),
];

/// The name of `error` in a structured reply.
pub(super) fn name_of(error: &Error) -> &'static str {
    TABLE.iter().find(|row| row.code == error.code).map_or("INTERNAL_ERROR", |row| row.globus)
}

/// The error at a client that a server calls `name`; one that no table has is the server's own.
pub(super) fn error_named(name: &str, message: String) -> Error {
    let row = TABLE.iter().find(|row| row.globus == name);
    let (fault, code) = row.map_or((Fault::There, ErrorCode::Io), |row| (row.fault, row.code));
    Error::new(fault, code, message)
}

/// The reply that tells a client of `error`.
///
/// `begun` says that data had begun to move: RFC 959 then wants a 4xx about the connection or the
/// action, where before it a 5xx says that asking again is of no use.
pub(super) fn reply_to(error: &Error, begun: bool) -> Reply {
    let row = TABLE.iter().find(|row| row.code == error.code);
    let number = match row.map(|row| row.reply) {
        Some(425) if begun => 426,
        Some(number) => number,
        None if begun => 451,
        None => match error.fault {
            Fault::Between => 425,
            Fault::Refused | Fault::You => 550,
            Fault::Here | Fault::There | Fault::Bug => 451,
        },
    };
    let globus = row.map_or("INTERNAL_ERROR", |row| row.globus);
    // GCT ends with a bare `550 End.`; many clients show only the last line, so ours carries the
    // words.
    let mut lines =
        vec![format!("GlobusError: v=1 c={globus}"), format!("GridFTP-Reason: {}", error.message)];
    lines.extend(error.hint.as_ref().map(|hint| format!("Hint: {hint}")));
    lines.push(error.message.clone());
    Reply::new(number, lines)
}

/// The error that a negative `reply` means; `doing` names the command, without its secrets.
pub(super) fn error_of(reply: &Reply, doing: &str) -> Error {
    let words = words(reply);
    let row = named(reply).or_else(|| guessed(reply.code, &words));
    let (fault, code) =
        row.map_or_else(|| by_code(reply.code, &words), |row| (row.fault, row.code));
    let doing = in_short(doing);
    let error = Error::new(fault, code, format!("{doing}: the server said {} {words}", reply.code));
    let hint = reply.lines.iter().find_map(|line| line.strip_prefix(b"Hint: "));
    match hint {
        Some(hint) => error.hint(String::from_utf8_lossy(hint)),
        None => error,
    }
}

fn named(reply: &Reply) -> Option<&'static Row> {
    let first = reply.lines.iter().find_map(|line| {
        let text = std::str::from_utf8(line).ok()?;
        text.split_once("GlobusError: v=1 c=").map(|(_, rest)| rest.trim())
    })?;
    // INTERNAL_ERROR is GCT's word for anything; the reply code says more.
    TABLE.iter().find(|row| row.globus == first && row.code != ErrorCode::Io)
}

/// Plain FTP servers have one 550 for everything: their words tell a missing file from a forbidden
/// one.
fn guessed(reply: u16, words: &str) -> Option<&'static Row> {
    let words = words.to_ascii_lowercase();
    let says = |needles: &[&str]| needles.iter().any(|needle| words.contains(needle));
    let code = match reply {
        // GCT answers `500 Command failed. ... No such file or directory` to RETR: the system's
        // words, whatever the code.
        // ProFTPD says 450 to LIST of what is not there, which does not come by waiting.
        450 | 500..=559 if says(&["no such file"]) => ErrorCode::PathNotFound,
        450 | 500..=559 if says(&["permission denied"]) => ErrorCode::PermissionDenied,
        // ProFTPD's words (MaxClients and its like) where others say 421: a place will be free.
        530 if says(&["maximum number"]) && says(&["already connected"]) => ErrorCode::Busy,
        500..=559 if says(&["not empty"]) => ErrorCode::DirectoryNotEmpty,
        500..=559 if says(&["not a directory"]) => ErrorCode::NotADirectory,
        500..=559 if says(&["is a directory"]) => ErrorCode::IsADirectory,
        500..=559 if says(&["no space left", "quota exceeded"]) => ErrorCode::NoSpace,
        // Of a data connection that the other end closed it says 500, too.
        500 if says(&["end-of-file was reached", "broken pipe", "connection reset"]) => {
            ErrorCode::DataConnection
        }
        550 | 553 if says(&["exists"]) => ErrorCode::PathExists,
        550 if says(&[
            "permission",
            "denied",
            "not allowed",
            "not permitted",
            "read-only",
            "forbidden",
        ]) =>
        {
            ErrorCode::PermissionDenied
        }
        550 if says(&["not found", "no such", "does not exist", "doesn't exist"]) => {
            ErrorCode::PathNotFound
        }
        _ => return None,
    };
    TABLE.iter().find(|row| row.code == code)
}

fn by_code(code: u16, words: &str) -> (Fault, ErrorCode) {
    match code {
        // GCT's word for what it did not do, not for what it does not know.
        500 if words.starts_with("Command failed") => (Fault::There, ErrorCode::Failed),
        421 => (Fault::There, ErrorCode::ServerClosing),
        425 | 426 => (Fault::Between, ErrorCode::DataConnection),
        430 | 530 | 532 | 534..=537 => (Fault::Refused, ErrorCode::LoginRefused),
        450 => (Fault::Refused, ErrorCode::Busy),
        451 => (Fault::There, ErrorCode::Io),
        452 | 552 => (Fault::There, ErrorCode::NoSpace),
        500 | 502 | 504 => (Fault::There, ErrorCode::Unsupported),
        501 | 503 => (Fault::There, ErrorCode::Rejected),
        550 | 553 => (Fault::Refused, ErrorCode::Refused),
        _ => (Fault::There, ErrorCode::Failed),
    }
}

/// What the server said, in one line: the reasons of a structured reply, else all of it.
fn words(reply: &Reply) -> String {
    let text = |line: &Vec<u8>| String::from_utf8_lossy(line).into_owned();
    let mut said: Vec<String> = ["GridFTP-Reason: ", "GridFTP-Error-String: "]
        .iter()
        .filter_map(|label| reply.lines.iter().find_map(|line| line.strip_prefix(label.as_bytes())))
        .map(|reason| String::from_utf8_lossy(reason).into_owned())
        .collect();
    if said.is_empty() {
        said = reply
            .lines
            .iter()
            .map(text)
            .filter(|line| line.trim() != "End." && !line.trim().is_empty())
            .collect();
    }
    let mut words = said.join(": ");
    if let Some((end, _)) = words.char_indices().nth(400) {
        words.truncate(end);
    }
    words.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(code: u16, lines: &[&str]) -> Reply {
        Reply::new(code, lines.iter().copied())
    }

    #[test]
    fn globus_errors_become_faults_with_the_servers_words() {
        let missing = reply(
            550,
            &[
                "GlobusError: v=1 c=PATH_NOT_FOUND",
                "GridFTP-Errno: 2",
                "GridFTP-Reason: System error in stat",
                "GridFTP-Error-String: No such file or directory",
                "End.",
            ],
        );
        let error = error_of(&missing, "SIZE /x");
        assert_eq!((error.fault, error.code), (Fault::You, ErrorCode::PathNotFound));
        assert_eq!(
            error.message,
            "SIZE /x: the server said 550 System error in stat: No such file or directory"
        );
        let cwd = reply(
            550,
            &["/none: Could not change directory. : GlobusError: v=1 c=PATH_NOT_FOUND", "End."],
        );
        assert_eq!(error_of(&cwd, "CWD /none").code, ErrorCode::PathNotFound);
    }

    #[test]
    fn plain_servers_words_are_read() {
        for (code, words, slug, fault) in [
            (550, "Failed to open file.", ErrorCode::Refused, Fault::Refused),
            (550, "Permission denied.", ErrorCode::PermissionDenied, Fault::Refused),
            (550, "/x: No such file or directory", ErrorCode::PathNotFound, Fault::You),
            (450, "/x: No such file or directory", ErrorCode::PathNotFound, Fault::You),
            (450, "/x: Permission denied", ErrorCode::PermissionDenied, Fault::Refused),
            (450, "Requested file action not taken", ErrorCode::Busy, Fault::Refused),
            (530, "Login incorrect.", ErrorCode::LoginRefused, Fault::Refused),
            (
                530,
                "Sorry, the maximum number of clients (1) from your host are already connected.",
                ErrorCode::Busy,
                Fault::Refused,
            ),
            // Whoever has failed too often does not come in by waiting.
            (
                530,
                "Maximum number of login attempts reached",
                ErrorCode::LoginRefused,
                Fault::Refused,
            ),
            (425, "Can't open data connection.", ErrorCode::DataConnection, Fault::Between),
            (500, "Command not supported.", ErrorCode::Unsupported, Fault::There),
            (500, "open: Not a directory", ErrorCode::NotADirectory, Fault::You),
            (550, "/x: Is a directory", ErrorCode::IsADirectory, Fault::You),
            (500, "write: No space left on device", ErrorCode::NoSpace, Fault::There),
            (
                500,
                "Command failed. : open failed.: No such file or directory",
                ErrorCode::PathNotFound,
                Fault::You,
            ),
            (
                500,
                "Command failed. : callback failed.: an end-of-file was reached",
                ErrorCode::DataConnection,
                Fault::Between,
            ),
            (500, "Command failed. : cancelled", ErrorCode::Failed, Fault::There),
        ] {
            let error = error_of(&reply(code, &[words]), "X");
            assert_eq!((error.code, error.fault), (slug, fault), "{words}");
        }
    }

    #[test]
    fn every_error_of_the_table_survives_the_wire() {
        for row in TABLE.iter().filter(|row| row.code != ErrorCode::Io) {
            let error = Error::new(row.fault, row.code, "why").hint("try this");
            let back = error_of(&reply_to(&error, false), "X");
            assert_eq!(
                (back.fault, back.code, back.hint.as_deref()),
                (row.fault, row.code, Some("try this"))
            );
        }
        assert!(TABLE.windows(2).all(|pair| pair[0].code < pair[1].code));
    }

    /// The table of docs/rdma.md: what, code and fault, who finds it, what to do. A code may stand
    /// there more than once, with other faults.
    #[test]
    fn rdma_errors_of_the_docs_keep_code_and_fault_on_the_wire() {
        let page = include_str!("../../../docs/rdma.md");
        let cell = |line: &'static str| {
            line.strip_prefix("| ")?.split(" | ").nth(1)?.strip_prefix('`')?.split_once("`, ")
        };
        let rows: Vec<(ErrorCode, &str)> = page
            .lines()
            .filter_map(cell)
            .map(|(slug, faults)| (ErrorCode::from_slug(slug).expect(slug), faults))
            .collect();
        assert!(rows.len() >= 14, "{rows:?}");
        for (code, faults) in &rows {
            for begun in [false, true] {
                let here = Error::new(Fault::Here, *code, "why").hint("try this");
                let back = error_of(&reply_to(&here, begun), "RETR x");
                assert_eq!(
                    (back.code, back.hint.as_deref()),
                    (*code, Some("try this")),
                    "begun: {begun}"
                );
                let fault = format!("{:?}", back.fault).to_lowercase();
                let said =
                    || rows.iter().filter(|row| row.0 == *code).flat_map(|row| row.1.split(" or "));
                assert!(
                    said().any(|said| said == fault),
                    "{code} comes back as {fault}, not {faults}"
                );
            }
        }
    }
}
