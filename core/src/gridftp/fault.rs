//! Errors on the wire and back: one table of reply codes, GridFTP error names, faults and slugs.

use super::reply::Reply;
use crate::units::{Error, Fault};

/// One kind of failure on both sides of the wire.
struct Row {
    /// The slug of [`Error::code`].
    slug: &'static str,
    fault: Fault,
    /// The reply code when the command had not begun to move data.
    reply: u16,
    /// The `c=` of a structured reply, as GCT's `globus_i_gfs_ftp_response_error.c` spells it where
    /// it has one.
    globus: &'static str,
}

const fn row(slug: &'static str, fault: Fault, reply: u16, globus: &'static str) -> Row {
    Row { slug, fault, reply, globus }
}

/// Sorted by slug. An edge that uses these slugs has its errors arrive unchanged at a Farline
/// client.
const TABLE: &[Row] = &[
    row("aborted", Fault::You, 426, "ABORTED"),
    row("bad-manifest", Fault::There, 501, "BAD_MANIFEST"),
    row("bad-sequence", Fault::You, 503, "BAD_SEQUENCE"),
    row("blocks-missing", Fault::Between, 451, "BLOCKS_MISSING"),
    row("busy", Fault::Refused, 450, "BUSY"),
    row("channel-lost", Fault::Between, 426, "DATA_CHANNEL_LOST"),
    row("congestion-capability", Fault::Refused, 550, "CONGESTION_CAPABILITY"),
    row("data-connection", Fault::Between, 425, "DATA_CHANNEL_COMMUNICATION_FAILURE"),
    row("digest-mismatch", Fault::Between, 451, "DIGEST_MISMATCH"),
    row("directory-not-empty", Fault::You, 550, "DIRECTORY_NOT_EMPTY"),
    row("incomplete", Fault::There, 451, "INCOMPLETE"),
    row("invalid-name", Fault::You, 553, "INVALID_NAME"),
    row("io", Fault::There, 451, "INTERNAL_ERROR"),
    row("is-a-directory", Fault::You, 550, "IS_A_DIRECTORY"),
    row("locked-memory", Fault::There, 425, "LOCKED_MEMORY"),
    row("login-refused", Fault::Refused, 530, "LOGIN_DENIED"),
    row("no-rdma", Fault::There, 425, "NO_RDMA"),
    row("no-rdma-path", Fault::There, 425, "NO_RDMA_PATH"),
    row("no-space", Fault::There, 552, "NO_SPACE_LEFT"),
    row("not-a-directory", Fault::You, 550, "NOT_A_DIRECTORY"),
    row("not-a-file", Fault::You, 553, "NOT_A_FILE"),
    row("path-exists", Fault::You, 553, "PATH_EXISTS"),
    row("path-not-found", Fault::You, 550, "PATH_NOT_FOUND"),
    row("permission-denied", Fault::Refused, 550, "PERMISSION_DENIED"),
    row("profile-broken", Fault::Between, 426, "PROFILE_BROKEN"),
    row("profile-ceiling", Fault::Refused, 550, "PROFILE_CEILING"),
    row("profile-not-allowed", Fault::Refused, 550, "PROFILE_NOT_ALLOWED"),
    row("profile-running", Fault::Refused, 450, "PROFILE_RUNNING"),
    row("profile-silent", Fault::Between, 426, "PROFILE_SILENT"),
    row("quota-exceeded", Fault::Refused, 552, "QUOTA_EXCEEDED"),
    row("rdma-access", Fault::There, 426, "RDMA_ACCESS"),
    row("rdma-broken", Fault::There, 426, "RDMA_BROKEN"),
    row("rdma-device", Fault::There, 426, "RDMA_DEVICE"),
    row("rdma-fabric", Fault::Between, 425, "RDMA_FABRIC"),
    row("rdma-gid", Fault::There, 425, "RDMA_GID"),
    row("rdma-mtu", Fault::Between, 425, "RDMA_MTU"),
    row("rdma-port-down", Fault::There, 425, "RDMA_PORT_DOWN"),
    row("rdma-room", Fault::Refused, 425, "RDMA_ROOM"),
    row("rdma-version", Fault::There, 425, "RDMA_VERSION"),
    row("read-only", Fault::Refused, 550, "READ_ONLY"),
    row("restart-mismatch", Fault::You, 554, "RESTART_MISMATCH"),
    row("source-unreadable", Fault::There, 451, "SOURCE_UNREADABLE"),
    row("special-file", Fault::You, 553, "SPECIAL_FILE"),
    row("store-not-allowed", Fault::Refused, 550, "STORE_NOT_ALLOWED"),
    row("too-many-channels", Fault::Refused, 425, "TOO_MANY_CHANNELS"),
    row("unknown-congestion", Fault::You, 501, "UNKNOWN_CONGESTION"),
    row("unsupported", Fault::There, 504, "UNSUPPORTED"),
];

/// The name of `error` in a structured reply.
pub(super) fn name_of(error: &Error) -> &'static str {
    TABLE.iter().find(|row| row.slug == error.code).map_or("INTERNAL_ERROR", |row| row.globus)
}

/// The error at a client that a server calls `name`; one that no table has is the server's own.
pub(super) fn error_named(name: &str, message: String) -> Error {
    let row = TABLE.iter().find(|row| row.globus == name);
    let (fault, slug) = row.map_or((Fault::There, "io"), |row| (row.fault, row.slug));
    Error::new(fault, slug, message)
}

/// The reply that tells a client of `error`.
///
/// `begun` says that data had begun to move: RFC 959 then wants a 4xx about the connection or the
/// action, where before it a 5xx says that asking again is of no use.
pub(super) fn reply_to(error: &Error, begun: bool) -> Reply {
    let row = TABLE.iter().find(|row| row.slug == error.code);
    let code = match row.map(|row| row.reply) {
        Some(425) if begun => 426,
        Some(code) => code,
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
    Reply::new(code, lines)
}

/// The error that a negative `reply` means; `doing` names the command, without its secrets.
pub(super) fn error_of(reply: &Reply, doing: &str) -> Error {
    let words = words(reply);
    let row = named(reply).or_else(|| guessed(reply.code, &words));
    let (fault, slug) = row.map_or_else(|| by_code(reply.code), |row| (row.fault, row.slug));
    let error = Error::new(fault, slug, format!("{doing}: the server said {} {words}", reply.code));
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
    TABLE.iter().find(|row| row.globus == first && row.slug != "io")
}

/// Plain FTP servers have one 550 for everything: their words tell a missing file from a forbidden
/// one.
fn guessed(code: u16, words: &str) -> Option<&'static Row> {
    let words = words.to_ascii_lowercase();
    let says = |needles: &[&str]| needles.iter().any(|needle| words.contains(needle));
    let slug = match code {
        // GCT answers `500 Command failed. ... No such file or directory` to RETR: the system's
        // words, whatever the code.
        500..=559 if says(&["no such file"]) => "path-not-found",
        500..=559 if says(&["permission denied"]) => "permission-denied",
        500..=559 if says(&["not empty"]) => "directory-not-empty",
        550 | 553 if says(&["exists"]) => "path-exists",
        550 if says(&[
            "permission",
            "denied",
            "not allowed",
            "not permitted",
            "read-only",
            "forbidden",
        ]) =>
        {
            "permission-denied"
        }
        550 if says(&["not found", "no such", "does not exist", "doesn't exist"]) => {
            "path-not-found"
        }
        _ => return None,
    };
    TABLE.iter().find(|row| row.slug == slug)
}

fn by_code(code: u16) -> (Fault, &'static str) {
    match code {
        421 => (Fault::There, "server-closing"),
        425 | 426 => (Fault::Between, "data-connection"),
        430 | 530 | 532 | 534..=537 => (Fault::Refused, "login-refused"),
        450 => (Fault::Refused, "busy"),
        451 => (Fault::There, "io"),
        452 | 552 => (Fault::There, "no-space"),
        500 | 502 | 504 => (Fault::There, "unsupported"),
        501 | 503 => (Fault::There, "rejected"),
        550 | 553 => (Fault::Refused, "refused"),
        _ => (Fault::There, "failed"),
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
        assert_eq!((error.fault, error.code), (Fault::You, "path-not-found"));
        assert_eq!(
            error.message,
            "SIZE /x: the server said 550 System error in stat: No such file or directory"
        );
        let cwd = reply(
            550,
            &["/none: Could not change directory. : GlobusError: v=1 c=PATH_NOT_FOUND", "End."],
        );
        assert_eq!(error_of(&cwd, "CWD /none").code, "path-not-found");
    }

    #[test]
    fn plain_servers_words_are_read() {
        for (code, words, slug, fault) in [
            (550, "Failed to open file.", "refused", Fault::Refused),
            (550, "Permission denied.", "permission-denied", Fault::Refused),
            (550, "/x: No such file or directory", "path-not-found", Fault::You),
            (530, "Login incorrect.", "login-refused", Fault::Refused),
            (425, "Can't open data connection.", "data-connection", Fault::Between),
            (500, "Command not supported.", "unsupported", Fault::There),
            (
                500,
                "Command failed. : open failed.: No such file or directory",
                "path-not-found",
                Fault::You,
            ),
        ] {
            let error = error_of(&reply(code, &[words]), "X");
            assert_eq!((error.code, error.fault), (slug, fault), "{words}");
        }
    }

    #[test]
    fn every_error_of_the_table_survives_the_wire() {
        for row in TABLE.iter().filter(|row| row.slug != "io") {
            let error = Error::new(row.fault, row.slug, "why").hint("try this");
            let back = error_of(&reply_to(&error, false), "X");
            assert_eq!(
                (back.fault, back.code, back.hint.as_deref()),
                (row.fault, row.slug, Some("try this"))
            );
        }
        assert!(TABLE.windows(2).all(|pair| pair[0].slug < pair[1].slug));
    }

    /// The table of docs/rdma.md: what, code and fault, who finds it, what to do. A code may stand
    /// there more than once, with other faults.
    #[test]
    fn rdma_errors_of_the_docs_keep_code_and_fault_on_the_wire() {
        let page = include_str!("../../../docs/rdma.md");
        let cell = |line: &'static str| {
            line.strip_prefix("| ")?.split(" | ").nth(1)?.strip_prefix('`')?.split_once("`, ")
        };
        let rows: Vec<(&str, &str)> = page.lines().filter_map(cell).collect();
        assert!(rows.len() >= 14, "{rows:?}");
        for (code, faults) in &rows {
            for begun in [false, true] {
                let here = Error::new(Fault::Here, code, "why").hint("try this");
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
