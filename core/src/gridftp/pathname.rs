//! Pathnames: bytes, absolute or relative, normalised without looking at any file system.

use std::fmt;

/// A pathname as it travels in commands: bytes, by convention UTF-8 (RFC 2640), separated by `/`
/// (RFC 3659 section 6).
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pathname(Vec<u8>);

impl Pathname {
    /// The pathname of `bytes`.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Pathname {
        Pathname(bytes.into())
    }

    /// The root of the server's tree.
    pub fn root() -> Pathname {
        Pathname(vec![b'/'])
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes, owned.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// The last component, or `/` for the root.
    pub fn name(&self) -> &[u8] {
        let trimmed = self.0.strip_suffix(b"/").unwrap_or(&self.0);
        match trimmed.rsplit(|&b| b == b'/').next() {
            Some(name) if !name.is_empty() => name,
            _ => b"/",
        }
    }

    /// The absolute pathname that `given` means in this directory: `.` and `..` resolved lexically,
    /// never above `/`, empty components and a trailing `/` dropped.
    ///
    /// Lexical on purpose: the result names a place in the virtual tree, and whoever opens it must
    /// resolve it beneath the exported root, for symbolic links are not looked at here.
    #[must_use]
    pub fn resolve(&self, given: &Pathname) -> Pathname {
        let base: &[u8] = if given.0.first() == Some(&b'/') { b"" } else { &self.0 };
        let mut parts: Vec<&[u8]> = Vec::new();
        for part in base.split(|&b| b == b'/').chain(given.0.split(|&b| b == b'/')) {
            match part {
                b"" | b"." => {}
                b".." => {
                    parts.pop();
                }
                name => parts.push(name),
            }
        }
        let mut path = Vec::with_capacity(base.len() + given.0.len() + 1);
        for part in &parts {
            path.push(b'/');
            path.extend_from_slice(part);
        }
        if path.is_empty() { Pathname::root() } else { Pathname(path) }
    }

    /// Whether a command line can carry this pathname.
    ///
    /// A line feed ends the line for nearly every server, and NUL ends the name; a carriage return
    /// travels as CR NUL (RFC 2640 section 3.1).
    pub fn fits_a_line(&self) -> bool {
        !self.0.iter().any(|b| matches!(b, b'\n' | 0))
    }

    /// Appends the pathname as commands carry it.
    pub(super) fn write_to(&self, out: &mut Vec<u8>) {
        for &byte in &self.0 {
            out.push(byte);
            if byte == b'\r' {
                out.push(0);
            }
        }
    }

    /// Reads a pathname from a command line; nothing may follow it.
    pub(super) fn read(bytes: &[u8]) -> Pathname {
        let mut path = Vec::with_capacity(bytes.len());
        let mut after_return = false;
        for &byte in bytes {
            if !(after_return && byte == 0) {
                path.push(byte);
            }
            after_return = byte == b'\r';
        }
        Pathname(path)
    }

    /// The pathname as a 257 reply quotes it: `"` doubled (RFC 959 appendix II).
    pub(super) fn quoted(&self) -> Vec<u8> {
        let mut out = vec![b'"'];
        for &byte in &self.0 {
            match byte {
                b'"' => out.extend_from_slice(b"\"\""),
                b'\r' | b'\n' => out.push(b'?'),
                byte => out.push(byte),
            }
        }
        out.push(b'"');
        out
    }

    /// Reads the pathname that a 257 reply quotes.
    pub(super) fn unquote(text: &[u8]) -> Option<Pathname> {
        let start = text.iter().position(|&b| b == b'"')? + 1;
        let mut path = Vec::new();
        let mut rest = text[start..].iter().peekable();
        while let Some(&byte) = rest.next() {
            if byte != b'"' {
                path.push(byte);
            } else if rest.peek() == Some(&&b'"') {
                rest.next();
                path.push(b'"');
            } else {
                return Some(Pathname(path));
            }
        }
        None
    }
}

impl From<&str> for Pathname {
    fn from(text: &str) -> Pathname {
        Pathname(text.as_bytes().to_vec())
    }
}

impl fmt::Display for Pathname {
    /// For people: bytes that are not UTF-8, and control characters, are replaced.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = String::from_utf8_lossy(&self.0);
        text.chars()
            .try_for_each(|c| fmt::Write::write_char(f, if c.is_control() { '?' } else { c }))
    }
}

impl fmt::Debug for Pathname {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_climbs_above_the_root() {
        let cwd = Pathname::from("/data/run7");
        for (given, expected) in [
            ("x.h5", "/data/run7/x.h5"),
            ("/x//y/./z/", "/x/y/z"),
            ("..", "/data"),
            ("../../../../etc/passwd", "/etc/passwd"),
            ("/..", "/"),
            ("", "/data/run7"),
            ("...", "/data/run7/..."),
        ] {
            assert_eq!(cwd.resolve(&Pathname::from(given)), Pathname::from(expected), "{given}");
        }
    }

    #[test]
    fn names_are_last_components() {
        assert_eq!(Pathname::from("/a/b").name(), b"b");
        assert_eq!(Pathname::from("/a/b/").name(), b"b");
        assert_eq!(Pathname::from("b").name(), b"b");
        assert_eq!(Pathname::root().name(), b"/");
    }

    #[test]
    fn quotes_are_doubled_in_257_replies() {
        assert_eq!(Pathname::from("/a\"b").quoted(), b"\"/a\"\"b\"");
        assert_eq!(Pathname::unquote(b"257 \"/a\"\"b\" created"), Some(Pathname::from("/a\"b")));
        assert_eq!(Pathname::unquote(b"257 /a created"), None);
        assert_eq!(Pathname::unquote(b"\"open"), None);
    }

    proptest! {
        #[test]
        fn resolved_pathnames_hold_no_dots_and_resolve_to_themselves(cwd in "(/[a.]{0,3}){0,4}", given in "[/.a]{0,12}") {
            let path = Pathname::root().resolve(&Pathname::from(&*cwd)).resolve(&Pathname::from(&*given));
            prop_assert!(path.as_bytes().starts_with(b"/"));
            prop_assert!(path.as_bytes().split(|&b| b == b'/').all(|part| part != b"." && part != b".."));
            prop_assert_eq!(Pathname::root().resolve(&path), path);
        }

        #[test]
        fn bytes_survive_a_command_line(bytes in prop::collection::vec(1u8.., 0..20)) {
            let path = Pathname::new(bytes);
            let mut line = Vec::new();
            path.write_to(&mut line);
            prop_assert_eq!(Pathname::read(&line), path);
        }
    }
}
