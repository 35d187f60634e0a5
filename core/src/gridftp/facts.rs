//! What is known about one file, as MLST and MLSD lines: `Type=file;Size=6;Modify=...; name` (RFC
//! 3659 section 7).

use super::pathname::Pathname;
use super::timestamp::Timestamp;
use crate::units::percent;

/// What an entry is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListingKind {
    /// The listed directory itself (`cdir`).
    CurrentDirectory,
    /// A directory.
    Directory,
    /// A regular file.
    #[default]
    File,
    /// A device, a socket, or what else the server calls by a name of its own.
    Other,
    /// The listed directory's parent (`pdir`).
    ParentDirectory,
    /// A symbolic link; GCT spells it `Type=slink` or gives `UNIX.slink` next to the target's type.
    Symlink,
    /// What a list cannot hold or could not look at, or at its reader a line that is no entry: its
    /// name is no more than words for people.
    Unread,
}

/// One file, directory or link: the source of every listing format, and what every listing is read
/// into.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListingEntry {
    /// The name, or in MLST replies the whole pathname.
    pub name: Pathname,
    /// What it is.
    pub kind: ListingKind,
    /// Size in bytes.
    pub size: Option<u64>,
    /// When its content last changed.
    pub modified: Option<Timestamp>,
    /// What the asking user may do, as RFC 3659 section 7.5.5 spells it: `r` retrieve, `w` store,
    /// `el` enter and list ...
    pub permissions: Option<String>,
    /// Unix permission bits.
    pub mode: Option<u32>,
    /// Owner's number.
    pub uid: Option<u32>,
    /// Owner's name.
    pub owner: Option<String>,
    /// Group's number.
    pub gid: Option<u32>,
    /// Group's name.
    pub group: Option<String>,
    /// The same for two names exactly when they are one file.
    pub unique: Option<String>,
    /// What a symbolic link points to.
    pub link: Option<Pathname>,
    /// Hard links to the file.
    pub links: Option<u64>,
}

/// A fact that can be asked for with `OPTS MLST`, in the order FEAT announces them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fact {
    /// `Type`.
    Type,
    /// `Size`.
    Size,
    /// `Modify`.
    Modify,
    /// `Perm`.
    Perm,
    /// `UNIX.mode`.
    UnixMode,
    /// `UNIX.owner`.
    UnixOwner,
    /// `UNIX.uid`.
    UnixUid,
    /// `UNIX.group`.
    UnixGroup,
    /// `UNIX.gid`.
    UnixGid,
    /// `Unique`.
    Unique,
    /// `UNIX.slink`.
    UnixSlink,
    /// `UNIX.nlink`.
    UnixNlink,
}

impl Fact {
    /// Every fact.
    pub const ALL: [Fact; 12] = [
        Fact::Type,
        Fact::Size,
        Fact::Modify,
        Fact::Perm,
        Fact::UnixMode,
        Fact::UnixOwner,
        Fact::UnixUid,
        Fact::UnixGroup,
        Fact::UnixGid,
        Fact::Unique,
        Fact::UnixSlink,
        Fact::UnixNlink,
    ];

    /// The name on the wire. Names are compared without regard to case (RFC 3659 section 7.5).
    pub const fn name(self) -> &'static str {
        match self {
            Fact::Type => "Type",
            Fact::Size => "Size",
            Fact::Modify => "Modify",
            Fact::Perm => "Perm",
            Fact::UnixMode => "UNIX.mode",
            Fact::UnixOwner => "UNIX.owner",
            Fact::UnixUid => "UNIX.uid",
            Fact::UnixGroup => "UNIX.group",
            Fact::UnixGid => "UNIX.gid",
            Fact::Unique => "Unique",
            Fact::UnixSlink => "UNIX.slink",
            Fact::UnixNlink => "UNIX.nlink",
        }
    }

    /// The fact of a name, in any case.
    pub fn from_name(name: &str) -> Option<Fact> {
        Fact::ALL.into_iter().find(|fact| fact.name().eq_ignore_ascii_case(name))
    }
}

/// The facts that listings carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FactSet(u16);

impl FactSet {
    /// Every fact: the default.
    pub const ALL: FactSet = FactSet((1 << Fact::ALL.len()) - 1);

    /// No fact: names only.
    pub const NONE: FactSet = FactSet(0);

    /// Whether `fact` is in the set.
    pub const fn contains(self, fact: Fact) -> bool {
        self.0 >> fact as u16 & 1 == 1
    }

    /// The set with `fact` added.
    #[must_use]
    pub const fn with(self, fact: Fact) -> FactSet {
        FactSet(self.0 | 1 << fact as u16)
    }

    /// Reads the argument of `OPTS MLST`, `Type;Size;`: facts that are not known are left out (RFC
    /// 3659 section 7.9).
    pub fn parse(text: &str) -> FactSet {
        text.split(';')
            .filter_map(|name| Fact::from_name(name.trim()))
            .fold(FactSet::NONE, FactSet::with)
    }

    /// Prints `Type;Size;`.
    pub fn names(self) -> String {
        Fact::ALL
            .into_iter()
            .filter(|&fact| self.contains(fact))
            .map(|fact| format!("{};", fact.name()))
            .collect()
    }

    /// Prints the argument of the FEAT line, chosen facts starred: `Type*;Size*;Perm;`.
    pub fn feature(self) -> String {
        let star = |fact| if self.contains(fact) { "*" } else { "" };
        Fact::ALL.into_iter().map(|fact| format!("{}{};", fact.name(), star(fact))).collect()
    }
}

impl Default for FactSet {
    fn default() -> FactSet {
        FactSet::ALL
    }
}

impl ListingEntry {
    /// Appends `facts name`, without a line end.
    pub fn write_facts(&self, facts: FactSet, out: &mut Vec<u8>) {
        for fact in Fact::ALL.into_iter().filter(|&fact| facts.contains(fact)) {
            if let Some(value) = self.value(fact) {
                out.extend_from_slice(fact.name().as_bytes());
                out.push(b'=');
                out.extend_from_slice(&value);
                out.push(b';');
            }
        }
        out.push(b' ');
        self.name.write_to(out);
    }

    fn value(&self, fact: Fact) -> Option<Vec<u8>> {
        let text = match fact {
            Fact::Type => match self.kind {
                ListingKind::CurrentDirectory => "cdir",
                ListingKind::Directory => "dir",
                ListingKind::File => "file",
                ListingKind::Other => "OS.unix=other",
                ListingKind::Unread => "OS.unix=unread",
                ListingKind::ParentDirectory => "pdir",
                ListingKind::Symlink => "OS.unix=slink",
            }
            .to_owned(),
            Fact::Size => self.size?.to_string(),
            Fact::Modify => self.modified?.to_string(),
            Fact::Perm => self.permissions.clone()?,
            Fact::UnixMode => format!("{:04o}", self.mode? & 0o7777),
            Fact::UnixOwner => self.owner.clone()?,
            Fact::UnixUid => self.uid?.to_string(),
            Fact::UnixGroup => self.group.clone()?,
            Fact::UnixGid => self.gid?.to_string(),
            Fact::Unique => self.unique.clone()?,
            Fact::UnixSlink => return self.link.as_ref().map(|link| escape(link.as_bytes())),
            Fact::UnixNlink => self.links?.to_string(),
        };
        // RFC 3659 section 7.2: a value holds no blank and no `;`. A group called `domain users` is
        // left out, for the name of the file would seem to begin there.
        (!text.bytes().any(|b| b == b';' || b <= b' ')).then(|| text.into_bytes())
    }

    /// Reads `facts name`, with or without the leading blank of MLST and MLSC replies.
    ///
    /// Facts that are not known, and values that do not parse, are passed over; `None` when there
    /// is no name, or what stands before it holds no fact.
    pub fn parse(line: &[u8]) -> Option<ListingEntry> {
        let line = line.strip_prefix(b" ").unwrap_or(line);
        // RFC 3659 section 7.2: the facts hold no blank, so the first one ends them; the name may
        // hold any number.
        let blank = line.iter().position(|&b| b == b' ')?;
        let (facts, name) = (&line[..blank], &line[blank + 1..]);
        if name.is_empty() || !(facts.is_empty() || facts.contains(&b'=')) {
            return None;
        }
        let mut entry = ListingEntry {
            name: Pathname::read(name),
            kind: ListingKind::Other,
            ..ListingEntry::default()
        };
        for fact in facts.split(|&b| b == b';') {
            let Some(equals) = fact.iter().position(|&b| b == b'=') else { continue };
            let (Ok(name), value) = (std::str::from_utf8(&fact[..equals]), &fact[equals + 1..])
            else {
                continue;
            };
            if let Some(fact) = Fact::from_name(name) {
                entry.take(fact, value);
            }
        }
        Some(entry)
    }

    /// What cannot stand in a list, or a line that is no entry: a reader learns that there is more.
    /// What no line can carry of its name is `?`.
    pub fn unread(words: &[u8]) -> ListingEntry {
        let legible = |&byte: &u8| if matches!(byte, b'\n' | 0) { b'?' } else { byte };
        let name = Pathname::new(words.iter().map(legible).collect::<Vec<u8>>());
        ListingEntry { name, kind: ListingKind::Unread, ..ListingEntry::default() }
    }

    fn take(&mut self, fact: Fact, value: &[u8]) {
        let text = String::from_utf8_lossy(value);
        match fact {
            Fact::Type => {
                self.kind = match text.to_ascii_lowercase().as_str() {
                    "cdir" => ListingKind::CurrentDirectory,
                    "dir" => ListingKind::Directory,
                    "file" => ListingKind::File,
                    "pdir" => ListingKind::ParentDirectory,
                    "os.unix=unread" => ListingKind::Unread,
                    "slink" | "os.unix=slink" | "os.unix=symlink" => ListingKind::Symlink,
                    other if other.starts_with("os.unix=slink:") => ListingKind::Symlink,
                    _ => ListingKind::Other,
                }
            }
            Fact::Size => self.size = text.parse().ok(),
            Fact::Modify => self.modified = Timestamp::parse(&text),
            Fact::Perm => self.permissions = Some(text.into_owned()),
            Fact::UnixMode => self.mode = u32::from_str_radix(&text, 8).ok(),
            Fact::UnixOwner => self.owner = Some(text.into_owned()),
            Fact::UnixUid => self.uid = text.parse().ok(),
            Fact::UnixGroup => self.group = Some(text.into_owned()),
            Fact::UnixGid => self.gid = text.parse().ok(),
            Fact::Unique => self.unique = Some(text.into_owned()),
            Fact::UnixSlink => self.link = Some(Pathname::new(unescape(value))),
            Fact::UnixNlink => self.links = text.parse().ok(),
        }
    }
}

/// Percent-encodes what a fact's value cannot hold, as GCT does for `UNIX.slink`.
fn escape(bytes: &[u8]) -> Vec<u8> {
    let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b';' | b'=') || byte >= 0x80;
    let mut text = Vec::with_capacity(bytes.len());
    percent::encode(bytes, plain, &mut text);
    text
}

/// Takes a `%` without two digits for itself: servers that encode nothing send it so.
fn unescape(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = bytes
            .get(at + 1..at + 3)
            .filter(|_| bytes[at] == b'%')
            .and_then(|d| std::str::from_utf8(d).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => (out.push(byte), at += 3).1,
            None => (out.push(bytes[at]), at += 1).1,
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GLOBUS: &[u8] = b" Type=file;Modify=20261121210441;Size=6;Perm=awr;UNIX.mode=0644;UNIX.owner=root;UNIX.uid=0;\
        UNIX.group=root;UNIX.gid=0;Unique=fe00-98406f; /tmp/a b.txt";

    #[test]
    fn reads_an_mlst_line_of_the_globus_server() {
        let entry = ListingEntry::parse(GLOBUS).expect("a line of the real server");
        assert_eq!(entry.name, Pathname::from("/tmp/a b.txt"));
        assert_eq!((entry.kind, entry.size, entry.mode), (ListingKind::File, Some(6), Some(0o644)));
        assert_eq!(entry.modified, Timestamp::parse("20261121210441"));
        assert_eq!(entry.unique.as_deref(), Some("fe00-98406f"));
    }

    #[test]
    fn only_the_chosen_facts_are_written() {
        let entry = ListingEntry {
            name: "d".into(),
            kind: ListingKind::Directory,
            size: Some(4096),
            mode: Some(0o755),
            ..ListingEntry::default()
        };
        let mut line = Vec::new();
        entry.write_facts(FactSet::parse("type;SIZE;nonsense;"), &mut line);
        assert_eq!(line, b"Type=dir;Size=4096; d");
        let group = ListingEntry { group: Some("domain users".into()), gid: Some(7), ..entry };
        line.clear();
        group.write_facts(FactSet::parse("UNIX.group;UNIX.gid;"), &mut line);
        assert_eq!(line, b"UNIX.gid=7; d", "a blank would end the facts");
        assert_eq!(FactSet::parse("size;type").names(), "Type;Size;");
        assert!(FactSet::NONE.with(Fact::Size).feature().starts_with("Type;Size*;Modify;"));
    }

    fn entries() -> impl Strategy<Value = ListingEntry> {
        let name =
            prop::collection::vec(1u8.., 1..9).prop_filter("no line feed", |n| !n.contains(&b'\n'));
        let link =
            prop::option::of(prop::collection::vec(any::<u8>(), 1..9).prop_map(Pathname::new));
        (
            name,
            link,
            any::<[Option<u64>; 2]>(),
            prop::option::of(0i64..9_000_000_000),
            prop::option::of(0u32..0o10000),
        )
            .prop_map(|(name, link, [size, links], seconds, mode)| ListingEntry {
                name: Pathname::new(name),
                kind: if link.is_some() { ListingKind::Symlink } else { ListingKind::File },
                modified: seconds.map(Timestamp::from_seconds),
                link,
                size,
                links,
                mode,
                ..ListingEntry::default()
            })
    }

    proptest! {
        #[test]
        fn entries_survive_the_wire(entry in entries()) {
            let mut line = Vec::new();
            entry.write_facts(FactSet::ALL, &mut line);
            prop_assert_eq!(ListingEntry::parse(&line), Some(entry));
        }

        #[test]
        fn any_line_is_safe(line in prop::collection::vec(prop::sample::select(b"Type=file;Size=%2UNIX.slink; a\xff".to_vec()), 0..60)) {
            let _ = ListingEntry::parse(&line);
        }
    }
}
