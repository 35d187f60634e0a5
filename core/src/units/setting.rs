//! Settings as an error or a note names them: by a name that nothing else has, which a program puts
//! into its own words.

use std::fmt::{self, Display};

/// How a message names a setting, up to the name of its variant.
const MARK: &str = "`Setting::";

/// How the messages of a program name a setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SettingName {
    /// As a key of a file of settings: `` `no_encrypt` ``.
    #[default]
    Key,
    /// As a flag of a command line: `--no-encrypt`.
    Flag,
}

impl SettingName {
    /// What `setting` is called.
    pub fn of(self, setting: Setting) -> String {
        match self {
            SettingName::Key => format!("`{}`", setting.name()),
            SettingName::Flag => format!("--{}", setting.name().replace('_', "-")),
        }
    }
}

/// Makes the enum of settings from rows such as `NoEncrypt "no_encrypt";`.
macro_rules! settings {
    ($($(#[doc = $meaning:literal])+ $name:ident $word:literal;)+) => {
        /// Something that a caller can set and that a message names: it is shown by its variant,
        /// such as `` `Setting::NoEncrypt` ``, which is no name of a file, a user or a host. A
        /// command line puts its flag there ([`Setting::renamed`]).
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
    /// From which addresses circuits are made.
    Addresses "addresses";
    /// That a node loads congestion controls for its clients.
    AllowCongestion "allow_congestion";
    /// That a node admits held rates.
    AllowHeld "allow_held";
    /// That a node lets a line be tested.
    AllowLine "allow_line";
    /// How much memory a node's clients may fill.
    AllowMemory "allow_memory";
    /// That a node has a store of memory or of nothing.
    AllowNull "allow_null";
    /// That a node lets its path be profiled.
    AllowProfile "allow_profile";
    /// By what name a congestion control is registered.
    As "as";
    /// That a tree's files land together.
    Atomic "atomic";
    /// Where replaced files are kept.
    Backup "backup";
    /// Beneath which class of a device circuits are made.
    Below "below";
    /// How large socket buffers are.
    Buffer "buffer";
    /// How many frames leave at once.
    Burst "burst";
    /// The authority whose certificate a calendar shows.
    Ca "ca";
    /// What carries the data.
    Channel "channel";
    /// That files are compared by content.
    Checksum "checksum";
    /// The program that makes circuits.
    Command "command";
    /// Which congestion control sends.
    Congestion "congestion";
    /// The ports of data connections.
    DataPorts "data_ports";
    /// That what the source lacks is deleted.
    Delete "delete";
    /// That digests are kept with the files.
    DigestXattr "digest_xattr";
    /// Which way is measured.
    Direction "direction";
    /// That nothing is changed.
    DryRun "dry_run";
    /// The two ends of a measurement.
    Ends "ends";
    /// That whole frames are carried.
    Ethernet "ethernet";
    /// How long a line is tested.
    For "for";
    /// What frames a line is tested with.
    Frames "frames";
    /// That a node serves grids.
    Gsi "gsi";
    /// The most that hosts send.
    HostRate "host_rate";
    /// The most that a copy may use of a path.
    Limit "limit";
    /// An emulated link.
    Link "link";
    /// Where a node or a reflector listens.
    Listen "listen";
    /// Where a node has control and data on one UDP port.
    ListenUdp "listen_udp";
    /// Which part of a line's rate is sent.
    Load "load";
    /// For losses of how many frames at once a decision holds.
    LossBurst "loss_burst";
    /// The most that may be deleted.
    MaxDelete "max_delete";
    /// What a link is called.
    Name "name";
    /// That what is there is left alone.
    NoClobber "no_clobber";
    /// That data goes in the clear.
    NoEncrypt "no_encrypt";
    /// That a node is not confined.
    NoSandbox "no_sandbox";
    /// How long one way takes.
    OneWayDelay "one_way_delay";
    /// The fingerprint of the certificate that a calendar shows.
    Pin "pin";
    /// How much a link's queue holds.
    Queue "queue";
    /// How much is sent, or carried, in a second.
    Rate "rate";
    /// Where Farline is on the other host.
    RemoteFarline "remote_farline";
    /// How often each cell is measured.
    Repetitions "repetitions";
    /// That what was interrupted goes on.
    Resume "resume";
    /// The directory that a node exports.
    Root "root";
    /// How long a round trip takes.
    Rtt "rtt";
    /// By what a rate is divided, and times multiplied.
    Scale "scale";
    /// That the most that a line carries is searched.
    Search "search";
    /// How long one measurement takes.
    Seconds "seconds";
    /// Which constants a congestion control has.
    Set "set";
    /// That a reservation may have several routes.
    Several "several";
    /// That a model is asked, and nothing measured.
    Simulate "simulate";
    /// Which site of a network this host is.
    Site "site";
    /// That what is the same is left alone.
    SkipSame "skip_same";
    /// Which program is ssh.
    Ssh "ssh";
    /// How much memory data passes through.
    Staging "staging";
    /// That STAMP is spoken.
    Stamp "stamp";
    /// Where state is kept.
    State "state";
    /// Between which stores is copied.
    Store "store";
    /// How many channels a copy has.
    Streams "streams";
    /// That a node moves data between others.
    ThirdParty "third_party";
    /// How long nothing may move.
    Timeout "timeout";
    /// That a node offers TLS.
    Tls "tls";
    /// Whom to trust, by an authority.
    TlsCa "tls_ca";
    /// The certificate that a node shows.
    TlsCert "tls_cert";
    /// The key of that certificate.
    TlsKey "tls_key";
    /// Whom to trust, by a fingerprint.
    TlsPin "tls_pin";
    /// The file of a token.
    TokenFile "token_file";
    /// That a reservation's rate may change.
    Variable "variable";
    /// How arrived files are checked.
    Verify "verify";
    /// A path within a link.
    Vlan "vlan";
    /// Which VLANs circuits are made of.
    Vlans "vlans";
}

impl Setting {
    /// `text` with each setting that stands in it by its variant called as `name` says.
    pub fn renamed(text: &str, name: SettingName) -> String {
        let (mut shown, mut rest) = (String::with_capacity(text.len()), text);
        while let Some((before, after)) = rest.split_once(MARK) {
            shown.push_str(before);
            let named = after.split_once('`').and_then(|(variant, after)| {
                let setting = Setting::ALL.iter().find(|setting| setting.variant() == variant)?;
                Some((*setting, after))
            });
            match named {
                Some((setting, after)) => {
                    shown.push_str(&name.of(setting));
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

    #[test]
    fn a_program_puts_its_own_names_in_the_place_of_the_library_s() {
        let hint =
            format!("let it go with {}, or leave {} out", Setting::NoEncrypt, Setting::TlsCa);
        assert_eq!(hint, "let it go with `Setting::NoEncrypt`, or leave `Setting::TlsCa` out");
        let shown = Setting::renamed(&hint, SettingName::Flag);
        assert_eq!(shown, "let it go with --no-encrypt, or leave --tls-ca out");
        let shown = Setting::renamed(&hint, SettingName::Key);
        assert_eq!(shown, "let it go with `no_encrypt`, or leave `tls_ca` out");
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
            assert_eq!(Setting::renamed(text, SettingName::Flag), text);
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
