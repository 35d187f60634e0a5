//! Listings for the data channel: `ls -l` lines, bare names, and fact lines, all from the same
//! entries; and those for a reply on the control channel.

use super::facts::{FactSet, ListingEntry, ListingKind};
use super::line::MAX_LINE;
use super::reply::MAX_REPLY;
use super::timestamp::Timestamp;
use crate::units::{Bytes, Error, ErrorCode, Fault};

/// Bytes of a reply's lines between its first and its last.
const MOST_LISTED: usize = MAX_REPLY - 2 * MAX_LINE;

/// The form of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListFormat {
    /// LIST: the shape of `ls -l`, for people and for old clients that parse it.
    Long,
    /// NLST: names alone.
    Names,
    /// MLSD: the facts chosen with `OPTS MLST`.
    Facts(FactSet),
    /// MLSR: the same of all that is below, by paths relative to the directory (GCT).
    Tree(FactSet),
}

impl ListFormat {
    /// Appends `entry` and CR LF; false, and nothing appended, when its name cannot stand in a
    /// listing (it holds a line feed or NUL): the caller says so rather than listing a name that
    /// does not exist.
    #[must_use]
    pub fn write(self, entry: &ListingEntry, now: Timestamp, out: &mut Vec<u8>) -> bool {
        let has_facts = matches!(self, ListFormat::Facts(_) | ListFormat::Tree(_));
        if !entry.name.fits_a_line() || (entry.kind == ListingKind::Unread && !has_facts) {
            return false;
        }
        match self {
            ListFormat::Long => write_long(entry, now, out),
            ListFormat::Names => entry.name.write_to(out),
            ListFormat::Facts(facts) | ListFormat::Tree(facts) => entry.write_facts(facts, out),
        }
        out.extend_from_slice(b"\r\n");
        true
    }
}

/// The lines of `entries` between the first and the last of MLSC's reply, each with its CR LF.
/// Names that cannot stand in a line are left out.
///
/// # Errors
/// With [`ErrorCode::ListMemory`] where that is more than [`MAX_REPLY`] leaves to them: no client
/// has to read it.
pub fn control_listing(
    entries: impl IntoIterator<Item = ListingEntry>,
    facts: FactSet,
) -> Result<Vec<u8>, Error> {
    let mut lines = Vec::new();
    for entry in entries.into_iter().filter(|entry| entry.name.fits_a_line()) {
        lines.push(b' ');
        entry.write_facts(facts, &mut lines);
        lines.extend_from_slice(b"\r\n");
        if lines.len() > MOST_LISTED {
            let message = format!(
                "the list of this folder has more than {}, which is what a reply may have",
                Bytes(MAX_REPLY as u64)
            );
            return Err(Error::new(Fault::Refused, ErrorCode::ListMemory, message)
                .hint("list it over a data connection (MLSD)"));
        }
    }
    Ok(lines)
}

/// Appends `-rw-r--r--   1 root     root            6 Nov 21 21:04 a.txt`, without a line end.
pub(super) fn write_long(entry: &ListingEntry, now: Timestamp, out: &mut Vec<u8>) {
    let is_directory = matches!(
        entry.kind,
        ListingKind::Directory | ListingKind::CurrentDirectory | ListingKind::ParentDirectory
    );
    let kind = match entry.kind {
        // Whatever it leads to: clients take the arrow for a part of another's name.
        _ if entry.link.is_some() => 'l',
        ListingKind::Symlink => 'l',
        ListingKind::File => '-',
        _ if is_directory => 'd',
        _ => '?',
    };
    let mode = entry.mode.unwrap_or(if is_directory { 0o755 } else { 0o644 });
    let owner = entry
        .owner
        .clone()
        .or(entry.uid.map(|uid| uid.to_string()))
        .unwrap_or_else(|| "-".to_owned());
    let group = entry
        .group
        .clone()
        .or(entry.gid.map(|gid| gid.to_string()))
        .unwrap_or_else(|| "-".to_owned());
    let modified = date(entry.modified.unwrap_or_default(), now);
    let (links, size) = (entry.links.unwrap_or(1), entry.size.unwrap_or(0));
    let line = format!(
        "{kind}{} {links:>3} {owner:<8} {group:<8} {size:>12} {modified} ",
        permissions(mode)
    );
    out.extend_from_slice(line.as_bytes());
    entry.name.write_to(out);
    if let Some(link) = entry.link.as_ref().filter(|link| link.fits_a_line()) {
        out.extend_from_slice(b" -> ");
        link.write_to(out);
    }
}

/// `rwsr-xr-t`.
fn permissions(mode: u32) -> String {
    let special = [(0o4000, 's', 'S'), (0o2000, 's', 'S'), (0o1000, 't', 'T')];
    let mut text = String::with_capacity(9);
    for (class, (bit, with_x, without_x)) in special.into_iter().enumerate() {
        let bits = mode >> (6 - 3 * class);
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (bits & 1 != 0, mode & bit != 0) {
            (true, true) => with_x,
            (false, true) => without_x,
            (true, false) => 'x',
            (false, false) => '-',
        });
    }
    text
}

/// `Nov 21 21:04` within the last half year, `Nov 21  2025` otherwise: POSIX `ls -l`, and what
/// clients parse.
fn date(time: Timestamp, now: Timestamp) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    const HALF_YEAR: i64 = 31_556_952 / 2;
    let utc = time.utc();
    let month = MONTHS[usize::from(utc.month - 1) % 12];
    let age = now.seconds.saturating_sub(time.seconds);
    if (0..HALF_YEAR).contains(&age) {
        format!("{month} {:>2} {:02}:{:02}", utc.day, utc.hour, utc.minute)
    } else {
        format!("{month} {:>2}  {:04}", utc.day, utc.year)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(format: ListFormat, entry: &ListingEntry) -> String {
        let now = Timestamp::parse("20261122000000").expect("a valid time");
        let mut out = Vec::new();
        assert!(format.write(entry, now, &mut out));
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn a_list_that_is_longer_than_a_reply_is_refused() {
        let name = "n".repeat(1_000);
        let entry = ListingEntry { name: name.as_str().into(), ..ListingEntry::default() };
        let list = |count| control_listing(std::iter::repeat_n(entry.clone(), count), FactSet::ALL);
        let line = list(1).expect("a line");
        assert!(line.starts_with(b" ") && line.ends_with(b"n\r\n"), "{}", line.escape_ascii());
        let most = MOST_LISTED / line.len();
        let lines = list(most).expect("as many as fit");
        assert_eq!(lines.len(), most * line.len());
        let (first, last) = ("250-Contents of /\r\n", "250 End.\r\n");
        let reply = [first.as_bytes(), &lines[..], last.as_bytes()].concat();
        let read = crate::gridftp::ReplyReader::new().next(&mut &reply[..]).expect("a reply");
        assert_eq!(read.map(|reply| reply.lines.len()), Some(most + 2));
        let error = list(most + 1).expect_err("one too many");
        assert_eq!((error.code, error.fault), (ErrorCode::ListMemory, Fault::Refused));
        assert!(error.to_string().contains("8 MiB"), "{error}");
    }

    #[test]
    fn long_lines_have_the_shape_of_ls() {
        let file = ListingEntry {
            name: "a.txt".into(),
            size: Some(6),
            mode: Some(0o4644),
            owner: Some("root".into()),
            gid: Some(7),
            modified: Timestamp::parse("20261121210441"),
            ..ListingEntry::default()
        };
        assert_eq!(
            line(ListFormat::Long, &file),
            "-rwSr--r--   1 root     7                   6 Nov 21 21:04 a.txt\r\n"
        );
        let link = ListingEntry {
            name: "l".into(),
            kind: ListingKind::Symlink,
            mode: Some(0o1777),
            modified: Timestamp::parse("20200101000000"),
            link: Some("a.txt".into()),
            ..ListingEntry::default()
        };
        assert_eq!(
            line(ListFormat::Long, &link),
            "lrwxrwxrwt   1 -        -                   0 Jan  1  2020 l -> a.txt\r\n"
        );
        // Followed or not.
        let followed = ListingEntry { kind: ListingKind::File, ..link };
        assert!(line(ListFormat::Long, &followed).starts_with("lrwx"));
    }

    #[test]
    fn names_and_facts_come_from_the_same_entry() {
        let entry = ListingEntry { name: "x y".into(), size: Some(3), ..ListingEntry::default() };
        assert_eq!(line(ListFormat::Names, &entry), "x y\r\n");
        assert_eq!(line(ListFormat::Facts(FactSet::ALL), &entry), "Type=file;Size=3; x y\r\n");
    }

    #[test]
    fn a_name_with_a_line_feed_is_not_listed_as_two() {
        let entry = ListingEntry { name: "a\nb".into(), ..ListingEntry::default() };
        let mut out = Vec::new();
        assert!(!ListFormat::Long.write(&entry, Timestamp::default(), &mut out));
        assert!(out.is_empty());
    }
}
