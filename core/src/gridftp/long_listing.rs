//! Lines of `ls -l` as plain FTP servers list them (LIST), where there is no MLSD. RFC 959 leaves their
//! form open; this is the form of Unix, which nearly all servers write.

use super::facts::{ListingEntry, ListingKind};
use super::pathname::Pathname;

impl ListingEntry {
    /// Reads a line, without its end, such as `-rw-r--r--    1 0        0             348 Nov 25 02:52 a name`; `None`
    /// for others. The time is left out: it lacks the year or the hour, and the server's zone.
    pub fn parse_long(line: &[u8]) -> Option<ListingEntry> {
        let (mode, kind) = mode_of(line.get(..10)?)?;
        // Mode, links, owner, group, size, month, day, time or year; a name may begin with a space.
        let mut at = 0;
        let mut words = [&b""[..]; 8];
        for word in &mut words {
            at += line[at..].iter().position(|&byte| byte != b' ')?;
            let end = at + line[at..].iter().position(|&byte| byte == b' ')?;
            (*word, at) = (&line[at..end], end);
        }
        let name = line.get(at + 1..).filter(|name| !name.is_empty())?;
        let size = std::str::from_utf8(words[4]).ok()?.parse().ok()?;
        let mut entry = ListingEntry {
            name: Pathname::new(name),
            mode: Some(mode),
            size: (kind != ListingKind::Directory).then_some(size),
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
        use ListingKind::{Directory, File};
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
        ] {
            let (name, kind, size, mode) = expected;
            assert_eq!(parsed(line), Some((name.to_owned(), kind, size, mode)), "{line}");
        }
        let line = b"lrwxrwxrwx    1 0        0               6 Nov 25 02:52 way -> ../big";
        let link = ListingEntry::parse_long(line).expect("a link");
        assert_eq!((link.name, link.link), (Pathname::new("way"), Some(Pathname::new("../big"))));
    }

    #[test]
    fn other_lines_are_passed_over() {
        for line in
            ["total 12", "", "11-25-26  02:52AM <DIR> pub", "-rw-r--r-- 1 0 0 x Nov 25 02:52 f"]
        {
            assert_eq!(parsed(line), None, "{line}");
        }
    }

    proptest! {
        #[test]
        fn no_line_panics(line in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = ListingEntry::parse_long(&line);
        }
    }
}
