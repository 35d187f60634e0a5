//! The list of a tree's entries as text: MLST fact lines (RFC 3659, section 7), one entry a line.
//!
//! `Type=file;Size=5;Modify=1795286624.000000001;UNIX.mode=0644; dir/name` with a path whose
//! control bytes and `%` are percent-encoded, so that any Unix name fits on a line. `Modify` is in
//! seconds since the Unix epoch here, because RFC 3659's calendar form cannot hold times before
//! year 0 or after 9999 and needs no less arithmetic.

use super::attributes::{Account, Attributes};
use super::layout::{Entry, EntryKind};
use crate::units::percent;
use std::fmt;
use std::io::Write as _;

/// Writes `entries`, each on a line that ends with `\n`.
pub fn manifest_lines(entries: &[Entry]) -> Vec<u8> {
    let mut text = Vec::new();
    for entry in entries {
        manifest_line(entry, &mut text);
    }
    text
}

/// Appends the line of one entry.
pub(super) fn manifest_line(entry: &Entry, text: &mut Vec<u8>) {
    match &entry.kind {
        EntryKind::Directory => text.extend(b"Type=dir;"),
        EntryKind::File { len } => put(text, format_args!("Type=file;Size={len};")),
        EntryKind::There { at } => {
            text.extend(b"Type=OS.unix=there;FARLINE.at=");
            escape(at, true, text);
            text.push(b';');
        }
        EntryKind::Symlink { target } => {
            text.extend(b"Type=OS.unix=symlink;UNIX.slink=");
            escape(target, true, text);
            text.push(b';');
        }
    }
    put(text, format_args!("Modify={};", Time(entry.modified_ns)));
    if entry.changed_ns != 0 {
        put(text, format_args!("UNIX.ctime={};", Time(entry.changed_ns)));
    }
    put(text, format_args!("UNIX.mode={:04o};", entry.mode));
    if let Some(attributes) = &entry.attributes {
        attribute_facts(attributes, text);
    }
    text.push(b' ');
    escape(&entry.path, false, text);
    text.push(b'\n');
}

/// Appends what a format makes.
fn put(text: &mut Vec<u8>, what: fmt::Arguments<'_>) {
    text.write_fmt(what).expect("memory takes every byte");
}

fn attribute_facts(attributes: &Attributes, text: &mut Vec<u8>) {
    let owners = [
        ("UNIX.uid", "UNIX.owner", &attributes.owner),
        ("UNIX.gid", "UNIX.group", &attributes.group),
    ];
    for (number, name, account) in owners {
        let Some(account) = account else { continue };
        put(text, format_args!("{number}={};", account.id));
        if let Some(known) = &account.name {
            put(text, format_args!("{name}="));
            escape(known.as_bytes(), true, text);
            text.push(b';');
        }
    }
    for (fact, accounts) in
        [("FARLINE.user", &attributes.users), ("FARLINE.group", &attributes.groups)]
    {
        for account in accounts {
            put(text, format_args!("{fact}={}:", account.id));
            escape(account.name.as_deref().unwrap_or_default().as_bytes(), true, text);
            text.push(b';');
        }
    }
    for (name, value) in &attributes.extended {
        text.extend(b"FARLINE.xattr=");
        let plain = |byte: u8| byte.is_ascii_graphic() && byte != b';' && byte != b':';
        percent::encode(name, plain, text);
        text.push(b':');
        escape(value, true, text);
        text.push(b';');
    }
}

/// Takes in a fact of those; `None` when its value makes no sense.
fn take_attribute(attributes: &mut Attributes, name: &str, value: &str) -> Option<()> {
    let text = |value: &str| String::from_utf8(percent::decode(value.as_bytes())?).ok();
    let account = |value: &str| {
        let (id, name) = value.split_once(':')?;
        let name = text(name)?;
        Some(Account { id: id.parse().ok()?, name: (!name.is_empty()).then_some(name) })
    };
    match name {
        "UNIX.uid" => attributes.owner = Some(Account { id: value.parse().ok()?, name: None }),
        "UNIX.gid" => attributes.group = Some(Account { id: value.parse().ok()?, name: None }),
        // A name stands behind its number.
        "UNIX.owner" => attributes.owner.as_mut()?.name = Some(text(value)?),
        "UNIX.group" => attributes.group.as_mut()?.name = Some(text(value)?),
        "FARLINE.user" => attributes.users.push(account(value)?),
        "FARLINE.group" => attributes.groups.push(account(value)?),
        "FARLINE.xattr" => {
            let (name, value) = value.split_once(':')?;
            let name = percent::decode(name.as_bytes()).filter(|name| !name.contains(&0))?;
            attributes.extended.push((name, percent::decode(value.as_bytes())?));
        }
        _ => {}
    }
    Some(())
}

/// Nanoseconds since the Unix epoch, shown as seconds with nine digits behind the point.
struct Time(i64);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Time(ns) = *self;
        write!(f, "{}.{:09}", ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000))
    }
}

/// The time that [`Time`] shows.
fn parse_time(text: &str) -> Option<i64> {
    let (seconds, nanos) = text.split_once('.')?;
    let (seconds, nanos): (i64, u32) = (seconds.parse().ok()?, nanos.parse().ok()?);
    // The seconds of the earliest time lie beyond the range of nanoseconds.
    i64::try_from(i128::from(seconds) * 1_000_000_000 + i128::from(nanos)).ok()
}

/// The largest space of bytes that a manifest may describe: more than any file system holds, and
/// offsets in it still add up.
const MOST_SPACE: u64 = 1 << 62;

/// Reads what [`manifest_lines`] wrote, trusting nothing: a path that could leave the tree is
/// refused.
///
/// # Errors
/// Which line makes no sense, or names a path outside the tree.
pub fn parse_manifest(text: &[u8]) -> Result<Vec<Entry>, ManifestError> {
    let mut parser = ManifestParser::default();
    parser.push(text)?;
    parser.finish()
}

/// Reads a manifest part by part, so that its text need not be there whole next to its entries.
#[derive(Debug, Default)]
pub struct ManifestParser {
    entries: Vec<Entry>,
    /// The beginning of a line whose end has not come.
    rest: Vec<u8>,
    space: u64,
}

impl ManifestParser {
    /// Reads the next part of the text, which may end within a line.
    ///
    /// # Errors
    /// As [`parse_manifest`].
    pub fn push(&mut self, part: &[u8]) -> Result<(), ManifestError> {
        let mut lines = part.split(|&byte| byte == b'\n');
        let last = lines.next_back().unwrap_or_default();
        for line in lines {
            match self.rest.is_empty() {
                true => self.line(line)?,
                false => {
                    self.rest.extend(line);
                    let whole = std::mem::take(&mut self.rest);
                    self.line(&whole)?;
                }
            }
        }
        self.rest.extend(last);
        Ok(())
    }

    /// The entries; the last line may lack its end.
    ///
    /// # Errors
    /// As [`parse_manifest`].
    pub fn finish(mut self) -> Result<Vec<Entry>, ManifestError> {
        let rest = std::mem::take(&mut self.rest);
        if !rest.is_empty() {
            self.line(&rest)?;
        }
        Ok(self.entries)
    }

    fn line(&mut self, line: &[u8]) -> Result<(), ManifestError> {
        let entry = entry(line).and_then(|entry| {
            // Each file may waste the rest of a block before it.
            self.space = self
                .space
                .checked_add(entry.len().checked_add(1 << 20)?)
                .filter(|&space| space <= MOST_SPACE)?;
            Some(entry)
        });
        let entry = entry.ok_or(ManifestError { line: self.entries.len() + 1 })?;
        self.entries.push(entry);
        Ok(())
    }
}

/// A line of a manifest that makes no sense or names a path outside the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestError {
    /// Which line, from 1.
    pub line: usize,
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "line {} of the sender's file list is malformed or names a path outside the tree",
            self.line
        )
    }
}

impl std::error::Error for ManifestError {}

fn entry(line: &[u8]) -> Option<Entry> {
    let space = line.iter().position(|&byte| byte == b' ')?;
    let (facts, path) =
        (std::str::from_utf8(&line[..space]).ok()?, percent::decode(&line[space + 1..])?);
    let (mut kind, mut len, mut target, mut mode) = (None, None, None, None);
    let (mut modified_ns, mut changed_ns) = (None, 0);
    let (mut at, mut attributes) = (None, Attributes::default());
    for fact in facts.strip_suffix(';')?.split(';') {
        let (name, value) = fact.split_once('=')?;
        match name {
            "Type" => kind = Some(value),
            "Size" => len = Some(value.parse().ok()?),
            "UNIX.slink" => target = Some(percent::decode(value.as_bytes())?),
            "UNIX.mode" => {
                mode = Some(u32::from_str_radix(value, 8).ok().filter(|&mode| mode <= 0o7777)?)
            }
            "Modify" => {
                modified_ns = Some(parse_time(value)?);
            }
            "UNIX.ctime" => changed_ns = parse_time(value)?,
            "FARLINE.at" => at = Some(percent::decode(value.as_bytes())?),
            // Facts of a later version are skipped, as RFC 3659 has it.
            name => take_attribute(&mut attributes, name, value)?,
        }
    }
    let is_inside = |path: &[u8]| {
        !path.contains(&0)
            && (path.is_empty()
                || path.split(|&byte| byte == b'/').all(|part| !matches!(part, b"" | b"." | b"..")))
    };
    let kind = match kind? {
        "dir" => EntryKind::Directory,
        "file" => EntryKind::File { len: len? },
        "OS.unix=symlink" => EntryKind::Symlink { target: target?.into() },
        "OS.unix=there" => EntryKind::There { at: at.filter(|at| is_inside(at))?.into() },
        _ => return None,
    };
    is_inside(&path).then_some(Entry {
        path,
        kind,
        mode: mode?,
        modified_ns: modified_ns?,
        changed_ns,
        attributes: (attributes != Attributes::default()).then(|| Box::new(attributes)),
    })
}

/// Appends `bytes` as a path, or as a fact's value, which ends at a `;` and before a space.
fn escape(bytes: &[u8], in_fact: bool, text: &mut Vec<u8>) {
    let plain = |byte| match in_fact {
        true => matches!(byte, b'!'..=b'~') && byte != b';',
        false => byte >= 0x20 && byte != 0x7f,
    };
    percent::encode(bytes, plain, text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_path_cannot_leave_the_tree() {
        for path in ["../x", "/etc/passwd", "a/../b", "a//b", "a/.", "a%00b", "a/"] {
            let line = format!("Type=file;Size=1;Modify=0.000000000;UNIX.mode=0644; {path}\n");
            assert_eq!(parse_manifest(line.as_bytes()), Err(ManifestError { line: 1 }), "{path}");
        }
    }

    #[test]
    fn sizes_that_do_not_add_up_are_refused() {
        let line =
            |len: u64| format!("Type=file;Size={len};Modify=0.000000000;UNIX.mode=0644; f{len}\n");
        assert_eq!(parse_manifest(line(u64::MAX).as_bytes()), Err(ManifestError { line: 1 }));
        let both = [line(1 << 61), line((1 << 61) + 1)].concat();
        assert_eq!(parse_manifest(both.as_bytes()), Err(ManifestError { line: 2 }));
        assert_eq!(parse_manifest(line(1 << 61).as_bytes()).map(|entries| entries.len()), Ok(1));
    }

    /// A file whose time no such number holds has the earliest one.
    #[test]
    fn the_earliest_and_the_latest_time_survive_the_wire() {
        for modified_ns in [i64::MIN, i64::MIN + 1, i64::MAX] {
            let entries = vec![Entry {
                path: b"f".to_vec(),
                kind: EntryKind::File { len: 1 },
                mode: 0o644,
                modified_ns,
                changed_ns: modified_ns,
                attributes: None,
            }];
            assert_eq!(parse_manifest(&manifest_lines(&entries)), Ok(entries));
        }
        for text in ["-9223372037.145224191", "9223372036.854775808", "9223372036854775807.0"] {
            assert_eq!(parse_time(text), None, "{text}");
        }
    }

    fn attributes() -> impl Strategy<Value = Box<Attributes>> {
        let account = || {
            let name = prop::option::of("[^\0]{1,9}");
            (any::<u32>(), name).prop_map(|(id, name)| Account { id, name })
        };
        let bytes = || prop::collection::vec(1u8.., 1..9);
        let value = || prop::collection::vec(any::<u8>(), 0..30);
        (
            account(),
            prop::option::of(account()),
            prop::collection::vec((bytes(), value()), 0..3),
            prop::collection::vec(account(), 0..3),
            prop::collection::vec(account(), 0..3),
        )
            .prop_map(|(owner, group, extended, users, groups)| {
                Box::new(Attributes { owner: Some(owner), group, extended, users, groups })
            })
    }

    #[test]
    fn attributes_that_make_no_sense_make_no_entry() {
        let line = |facts: &str| format!("Type=file;Size=1;Modify=0.0;UNIX.mode=0644;{facts} f\n");
        for facts in [
            "UNIX.uid=x;",
            "UNIX.owner=a;",
            "FARLINE.xattr=a;",
            "FARLINE.user=7;",
            "FARLINE.xattr=%00:a;",
        ] {
            assert!(parse_manifest(line(facts).as_bytes()).is_err(), "{facts}");
        }
        assert!(parse_manifest(line("UNIX.uid=7;UNIX.owner=a;Later=1;").as_bytes()).is_ok());
        let out = "Type=OS.unix=there;FARLINE.at=../x;Modify=0.0;UNIX.mode=0644; f\n";
        assert!(parse_manifest(out.as_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn any_entry_survives_the_wire(
            parts in prop::collection::vec("[^/\0]{1,8}".prop_filter("no dots", |part| part != "." && part != ".."), 0..4),
            bytes in prop::collection::vec(1u8.., 0..12),
            len in 0u64..1 << 61, mode in 0u32..0o10000, modified_ns in any::<i64>(), changed_ns in any::<i64>(), kind in 0..4,
            attributes in prop::option::of(attributes()),
        ) {
            let kind = match kind {
                0 => EntryKind::Directory,
                1 => EntryKind::File { len },
                2 => EntryKind::There { at: parts.concat().into_bytes().into() },
                _ => EntryKind::Symlink { target: bytes.into() },
            };
            let entries = vec![Entry { path: parts.join("/").into_bytes(), kind, mode, modified_ns, changed_ns, attributes }];
            prop_assert_eq!(parse_manifest(&manifest_lines(&entries)), Ok(entries));
        }

        #[test]
        fn no_bytes_make_it_panic(text in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_manifest(&text);
        }

        #[test]
        fn parts_are_read_as_the_whole(
            lens in prop::collection::vec(0u64..1 << 20, 0..9),
            cuts in prop::collection::vec(0usize..600, 0..6),
            spoiled in prop::option::of(0usize..600),
        ) {
            let file = |(index, len): (usize, u64)| Entry {
                path: format!("f{index}").into_bytes(), kind: EntryKind::File { len }, mode: 0o644, modified_ns: 7, changed_ns: 0, attributes: None,
            };
            let mut text = manifest_lines(&lens.into_iter().enumerate().map(file).collect::<Vec<_>>());
            if let Some(byte) = spoiled.and_then(|at| text.get_mut(at)) {
                *byte = b'\n';
            }
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).chain([0, text.len()]).collect();
            cuts.sort_unstable();
            let mut parser = ManifestParser::default();
            let read = cuts.windows(2).try_for_each(|pair| parser.push(&text[pair[0]..pair[1]]));
            prop_assert_eq!(read.and_then(|()| parser.finish()), parse_manifest(&text));
        }
    }
}
