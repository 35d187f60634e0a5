//! Settings as an error or a note names them: by a name that nothing else has, which a program puts
//! into its own words.

use std::fmt::{self, Display};

/// How a message names a setting, up to the name of its variant.
const MARK: &str = "`Setting::";

/// Makes the enum of settings from rows such as `NoEncrypt "no_encrypt";`.
macro_rules! settings {
    ($($(#[doc = $meaning:literal])+ $name:ident $word:literal;)+) => {
        /// Something that a caller can set and that a message names: it is shown by its variant, such
        /// as `` `Setting::NoEncrypt` ``, which is no name of a file, a user or a host. A command line
        /// puts its flag there ([`Setting::renamed`]).
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Setting {
            $($(#[doc = $meaning])+ $name,)+
        }

        impl Setting {
            /// All of them.
            pub const ALL: &[Setting] = &[$(Setting::$name),+];

            /// Its name in small letters: `no_encrypt`.
            pub const fn name(self) -> &'static str {
                match self { $(Setting::$name => $word,)+ }
            }

            const fn variant(self) -> &'static str {
                match self { $(Setting::$name => stringify!($name),)+ }
            }
        }
    };
}

settings! {
    /// That a node lets a line be tested.
    AllowLine "allow_line";
    /// That a node has a store of memory or of nothing.
    AllowNull "allow_null";
    /// That a node lets its path be profiled.
    AllowProfile "allow_profile";
    /// That a node admits held rates.
    AllowHeld "allow_held";
    /// That a tree's files land together.
    Atomic "atomic";
    /// Where replaced files are kept.
    Backup "backup";
    /// What carries the data.
    Channel "channel";
    /// That files are compared by content.
    Checksum "checksum";
    /// That what the source lacks is deleted.
    Delete "delete";
    /// That digests are kept with the files.
    DigestXattr "digest_xattr";
    /// Which way is measured.
    Direction "direction";
    /// That nothing is changed.
    DryRun "dry_run";
    /// That a node serves grids.
    Gsi "gsi";
    /// The most that a copy may use of a path.
    Limit "limit";
    /// An emulated link.
    Link "link";
    /// Where a node has control and data on one UDP port.
    ListenUdp "listen_udp";
    /// The most that may be deleted.
    MaxDelete "max_delete";
    /// That what is there is left alone.
    NoClobber "no_clobber";
    /// That data goes in the clear.
    NoEncrypt "no_encrypt";
    /// Where Farline is on the other host.
    RemoteFarline "remote_farline";
    /// That what is the same is left alone.
    SkipSame "skip_same";
    /// Which program is ssh.
    Ssh "ssh";
    /// That a node moves data between others.
    ThirdParty "third_party";
    /// That a node offers TLS.
    Tls "tls";
    /// Whom to trust, by an authority.
    TlsCa "tls_ca";
    /// Whom to trust, by a fingerprint.
    TlsPin "tls_pin";
    /// How arrived files are checked.
    Verify "verify";
}

impl Setting {
    /// `text` with what `name` calls each setting that stands in it by its variant.
    pub fn renamed(text: &str, name: impl Fn(Setting) -> String) -> String {
        let (mut shown, mut rest) = (String::with_capacity(text.len()), text);
        while let Some((before, after)) = rest.split_once(MARK) {
            shown.push_str(before);
            let named = after.split_once('`').and_then(|(variant, after)| {
                let setting = Setting::ALL.iter().find(|setting| setting.variant() == variant)?;
                Some((*setting, after))
            });
            match named {
                Some((setting, after)) => {
                    shown.push_str(&name(setting));
                    rest = after;
                }
                None => {
                    shown.push_str(MARK);
                    rest = after;
                }
            }
        }
        shown + rest
    }
}

impl Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{MARK}{}`", self.variant())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(setting: Setting) -> String {
        format!("--{}", setting.name().replace('_', "-"))
    }

    #[test]
    fn a_program_puts_its_own_names_in_the_place_of_the_library_s() {
        let hint =
            format!("let it go with {}, or leave {} out", Setting::NoEncrypt, Setting::TlsCa);
        assert_eq!(hint, "let it go with `Setting::NoEncrypt`, or leave `Setting::TlsCa` out");
        let shown = Setting::renamed(&hint, flags);
        assert_eq!(shown, "let it go with --no-encrypt, or leave --tls-ca out");
    }

    #[test]
    fn names_of_others_stay_as_they_are() {
        for text in [
            "there is no link called `link`",
            "only root can begin a node as `backup`",
            "does `ssh host true` work?",
            "`Setting::Unknown` and `Setting::",
            "`NoEncrypt`",
        ] {
            assert_eq!(Setting::renamed(text, flags), text);
        }
    }

    #[test]
    fn each_setting_has_one_name() {
        for setting in Setting::ALL {
            let named = Setting::ALL.iter().filter(|other| other.name() == setting.name());
            assert_eq!(named.count(), 1, "{setting}");
        }
    }
}
