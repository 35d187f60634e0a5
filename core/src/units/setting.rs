//! Settings as an error or a note names them: by the library's own name, which a program that has
//! another puts into its words.

use std::fmt::{self, Display};

/// Something that a caller can set and that a message names. It is shown in backticks, such as
/// `` `no_encrypt` ``: a field or method of the library. A command line replaces that by its flag
/// ([`Setting::renamed`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Setting {
    /// That a node lets a line be tested.
    AllowLine,
    /// That a node has a store of memory or of nothing.
    AllowNull,
    /// That a node lets its path be profiled.
    AllowProfile,
    /// That a node admits held rates.
    AllowHeld,
    /// That a tree's files land together.
    Atomic,
    /// Where replaced files are kept.
    Backup,
    /// What carries the data.
    Channel,
    /// That files are compared by content.
    Checksum,
    /// That what the source lacks is deleted.
    Delete,
    /// That digests are kept with the files.
    DigestXattr,
    /// Which way is measured.
    Direction,
    /// That nothing is changed.
    DryRun,
    /// That a node serves grids.
    Gsi,
    /// The most that a copy may use of a path.
    Limit,
    /// An emulated link.
    Link,
    /// Where a node has control and data on one UDP port.
    ListenUdp,
    /// The most that may be deleted.
    MaxDelete,
    /// That what is there is left alone.
    NoClobber,
    /// That data goes in the clear.
    NoEncrypt,
    /// Where Farline is on the other host.
    RemoteFarline,
    /// That what is the same is left alone.
    SkipSame,
    /// Which program is ssh.
    Ssh,
    /// That a node moves data between others.
    ThirdParty,
    /// That a node offers TLS.
    Tls,
    /// Whom to trust, by an authority.
    TlsCa,
    /// Whom to trust, by a fingerprint.
    TlsPin,
    /// How arrived files are checked.
    Verify,
}

/// Each with its name.
const NAMES: [(Setting, &str); 27] = [
    (Setting::AllowLine, "allow_line"),
    (Setting::AllowNull, "allow_null"),
    (Setting::AllowProfile, "allow_profile"),
    (Setting::AllowHeld, "allow_held"),
    (Setting::Atomic, "atomic"),
    (Setting::Backup, "backup"),
    (Setting::Channel, "channel"),
    (Setting::Checksum, "checksum"),
    (Setting::Delete, "delete"),
    (Setting::DigestXattr, "digest_xattr"),
    (Setting::Direction, "direction"),
    (Setting::DryRun, "dry_run"),
    (Setting::Gsi, "gsi"),
    (Setting::Limit, "limit"),
    (Setting::Link, "link"),
    (Setting::ListenUdp, "listen_udp"),
    (Setting::MaxDelete, "max_delete"),
    (Setting::NoClobber, "no_clobber"),
    (Setting::NoEncrypt, "no_encrypt"),
    (Setting::RemoteFarline, "remote_farline"),
    (Setting::SkipSame, "skip_same"),
    (Setting::Ssh, "ssh"),
    (Setting::ThirdParty, "third_party"),
    (Setting::Tls, "tls"),
    (Setting::TlsCa, "tls_ca"),
    (Setting::TlsPin, "tls_pin"),
    (Setting::Verify, "verify"),
];

impl Setting {
    /// All of them, each with its name.
    pub fn all() -> impl Iterator<Item = (Setting, &'static str)> {
        NAMES.into_iter()
    }

    /// The library's name for it.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(setting, _)| *setting == self).map_or("", |(_, name)| name)
    }

    /// `text` with what `name` calls each setting, in the place of the library's name for it.
    pub fn renamed(text: &str, name: impl Fn(Setting) -> String) -> String {
        NAMES.iter().fold(text.to_owned(), |text, (setting, _)| {
            let shown = setting.to_string();
            if text.contains(&shown) { text.replace(&shown, &name(*setting)) } else { text }
        })
    }
}

impl Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_puts_its_own_names_in_the_place_of_the_library_s() {
        let hint =
            format!("let it go with {}, or leave {} out", Setting::NoEncrypt, Setting::TlsCa);
        assert_eq!(hint, "let it go with `no_encrypt`, or leave `tls_ca` out");
        let flags = |setting: Setting| format!("--{}", setting.name().replace('_', "-"));
        let shown = Setting::renamed(&hint, flags);
        assert_eq!(shown, "let it go with --no-encrypt, or leave --tls-ca out");
        assert_eq!(
            Setting::renamed("does `ssh host true` work?", flags),
            "does `ssh host true` work?"
        );
    }

    #[test]
    fn each_setting_has_one_name() {
        for (setting, name) in Setting::all() {
            assert!(!name.is_empty() && setting.name() == name, "{name}");
            assert_eq!(Setting::all().filter(|(_, other)| *other == name).count(), 1, "{name}");
        }
    }
}
