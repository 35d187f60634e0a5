//! Lines of `ls -l` as plain FTP servers list them (LIST), where there is no MLSD. RFC 959 leaves
//! their form open; these are the forms of Unix, which nearly all servers write, and of Microsoft's
//! IIS.

use super::facts::{ListingEntry, ListingKind};
use super::pathname::Pathname;

/// Months as `ls -l` has them in the C locale.
const MONTHS: [&[u8]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

impl ListingEntry {
    /// Reads a folder's list; a line that is no entry is one of unknown kind
    /// ([`ListingKind::Unread`]), but for the sum that `ls` begins with. Times are left out: they
    /// lack the year or the hour, and the server's zone.
    pub fn parse_long_list(text: &[u8]) -> Vec<ListingEntry> {
        lines(text).filter(|line| !is_sum(line)).map(read_by(ListingEntry::parse_long)).collect()
    }

    /// The same of a list by MLSD (RFC 3659 section 7).
    pub fn parse_facts_list(text: &[u8]) -> Vec<ListingEntry> {
        lines(text).map(read_by(ListingEntry::parse)).collect()
    }

    /// Reads a line, without its end, such as `-rw-r--r--    1 0        0             348 Nov 25
    /// 02:52 a name`, or as IIS has it `11-25-26  02:52AM       348 a name`; `None` for others.
    pub fn parse_long(line: &[u8]) -> Option<ListingEntry> {
        unix(line).or_else(|| iis(line))
    }
}

/// Lines that have something in them, without their ends.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&byte| byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .filter(|line| !line.is_empty())
}

fn is_sum(line: &[u8]) -> bool {
    line.strip_prefix(b"total ").is_some_and(|sum| sum.iter().all(u8::is_ascii_digit))
}

fn read_by(parse: fn(&[u8]) -> Option<ListingEntry>) -> impl Fn(&[u8]) -> ListingEntry {
    move |line| parse(line).unwrap_or_else(|| ListingEntry::unread(line))
}

/// Mode, links, owner, group (not with every server), size, month, day, time or year; a name may
/// begin with a space. A device has two numbers for a size.
fn unix(line: &[u8]) -> Option<ListingEntry> {
    let (mode, kind) = mode_of(line.get(..10)?)?;
    let (mut at, mut words) = (0, Vec::new());
    loop {
        at += line[at..].iter().position(|&byte| byte != b' ')?;
        let end = at + line[at..].iter().position(|&byte| byte == b' ')?;
        words.push(&line[at..end]);
        at = end;
        let month = words.len().checked_sub(3).filter(|&month| month >= 4);
        if month.is_some_and(|month| MONTHS.contains(&words[month])) {
            break;
        }
        // One that knows no month has a time that nobody can tell from a name.
        if words.len() == 9 {
            return None;
        }
    }
    let name = line.get(at + 1..).filter(|name| !name.is_empty())?;
    let size = std::str::from_utf8(words[words.len() - 4]).ok()?.parse();
    let size = match kind {
        ListingKind::Directory | ListingKind::Other => None,
        _ => Some(size.ok()?),
    };
    let mut entry = ListingEntry {
        name: Pathname::new(name),
        mode: Some(mode),
        size,
        ..ListingEntry::default()
    };
    if kind == ListingKind::Symlink {
        let arrow = name.windows(4).position(|four| four == b" -> ")?;
        entry.name = Pathname::new(&name[..arrow]);
        entry.link = Some(Pathname::new(&name[arrow + 4..]));
    }
    entry.kind = kind;
    Some(entry)
}

/// Date, time, `<DIR>` or a size, and the name: one blank after a size, ten after `<DIR>`.
fn iis(line: &[u8]) -> Option<ListingEntry> {
    let text = std::str::from_utf8(line).ok()?;
    let (date, rest) = text.split_once("  ")?;
    let is_date = date.split('-').filter(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
    let (time, rest) = rest.split_once(' ')?;
    let is_time = time.len() >= 5 && time.as_bytes()[2] == b':';
    if date.len() < 8 || is_date.count() != 3 || !is_time {
        return None;
    }
    let rest = rest.trim_start_matches(' ');
    let (name, kind, size) = match rest.strip_prefix("<DIR>") {
        Some(name) => (name.strip_prefix("          ")?, ListingKind::Directory, None),
        None => {
            let (size, name) = rest.split_once(' ')?;
            (name, ListingKind::File, Some(size.parse().ok()?))
        }
    };
    let name = Pathname::new(Some(name).filter(|name| !name.is_empty())?);
    Some(ListingEntry { name, kind, size, ..ListingEntry::default() })
}

/// The permissions and the kind of `drwxr-xr-x`.
fn mode_of(text: &[u8]) -> Option<(u32, ListingKind)> {
    let kind = match text[0] {
        b'-' => ListingKind::File,
        b'd' => ListingKind::Directory,
        b'l' => ListingKind::Symlink,
        b'b' | b'c' | b'p' | b's' => ListingKind::Other,
        _ => return None,
    };
    let mut mode = 0;
    for (i, (&found, &expected)) in text[1..].iter().zip(b"rwxrwxrwx").enumerate() {
        let bit = 0o400 >> i;
        match found {
            b'-' => {}
            // Set-user-ID, set-group-ID and sticky: with the right to execute in small letters.
            b's' | b't' if expected == b'x' => mode |= bit,
            b'S' | b'T' if expected == b'x' => {}
            found if found == expected => mode |= bit,
            _ => return None,
        }
    }
    Some((mode, kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(line: &str) -> Option<(String, ListingKind, Option<u64>, u32)> {
        let entry = ListingEntry::parse_long(line.as_bytes())?;
        Some((entry.name.to_string(), entry.kind, entry.size, entry.mode?))
    }

    #[test]
    fn the_lines_of_real_servers_are_read() {
        use ListingKind::{Directory, File, Other};
        for (line, expected) in [
            // vsftpd 3.0.3, ProFTPD 1.3.8, pure-ftpd.
            (
                "-rw-r--r--    1 0        0             348 Nov 25 02:52 conf",
                ("conf", File, Some(348), 0o644),
            ),
            (
                "drwxr-xr-x    2 0        0            4096 Nov 25 02:51 empty",
                ("empty", Directory, None, 0o755),
            ),
            (
                "-rw-r--r--   1 ftp      ftp   5368709120 Jan  3  2024 a b",
                ("a b", File, Some(5_368_709_120), 0o644),
            ),
            (
                "drwxrwsrwt   3 root     users        17 Nov 21 21:04  lead",
                (" lead", Directory, None, 0o777),
            ),
            // With an ACL; without a group; a device; a name of months.
            ("-rw-r--r--+ 1 a b 3 Nov 25 02:52 acl", ("acl", File, Some(3), 0o644)),
            ("-rw-r--r-- 1 user 3 Nov 25 02:52 no group", ("no group", File, Some(3), 0o644)),
            ("crw-rw-rw- 1 root root 1,   3 Nov 25 02:52 null", ("null", Other, None, 0o666)),
            ("-rw-r--r-- 1 May Jun 3 Nov 25  2024 May 1 x", ("May 1 x", File, Some(3), 0o644)),
        ] {
            let (name, kind, size, mode) = expected;
            assert_eq!(parsed(line), Some((name.to_owned(), kind, size, mode)), "{line}");
        }
        let line = b"lrwxrwxrwx    1 0        0               6 Nov 25 02:52 way -> ../big";
        let link = ListingEntry::parse_long(line).expect("a link");
        assert_eq!((link.name, link.link), (Pathname::new("way"), Some(Pathname::new("../big"))));
    }

    #[test]
    fn the_lines_of_iis_are_read() {
        let read = |line: &str| {
            let entry = ListingEntry::parse_long(line.as_bytes())?;
            Some((entry.name.to_string(), entry.kind, entry.size))
        };
        assert_eq!(
            read("11-25-26  02:52AM       <DIR>          pub files"),
            Some(("pub files".to_owned(), ListingKind::Directory, None))
        );
        assert_eq!(
            read("11-25-2026  14:52             348  a"),
            Some((" a".to_owned(), ListingKind::File, Some(348)))
        );
    }

    #[test]
    fn no_line_is_passed_over() {
        for line in [
            "-rw-r--r-- 1 0 0 x Nov 25 02:52 f",
            "-????????? ? ? ? ? ? c.txt",
            "ls: cannot access 'b.txt': Permission denied",
            "lrwxrwxrwx 1 0 0 6 Nov 25 02:52 no arrow",
            "-rw-r--r-- 1 0 0 3 25.11. 02:52 elsewhere",
            "total eclipse",
        ] {
            assert_eq!(parsed(line), None, "{line}");
            let list = format!("total 12\r\n\r\n{line}\r\n");
            let listed = ListingEntry::parse_long_list(list.as_bytes());
            assert_eq!(listed, [ListingEntry::unread(line.as_bytes())], "{line}");
        }
    }

    proptest! {
        #[test]
        fn no_line_panics(line in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = ListingEntry::parse_long(&line);
        }
    }
}
