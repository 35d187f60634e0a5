//! What drivers of channels and of stores have in common: one registry, and options as one table,
//! of which come their syntax, their help and their documentation.

mod registry;

pub use registry::{DriverRegistry, RegisteredDriver};

use farline_core::units::Bytes;
use std::collections::BTreeMap;
use std::fmt;

/// One option of a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverOption {
    /// What users and configuration files call it.
    pub name: &'static str,
    /// What it takes.
    pub kind: OptionKind,
    /// What it does and what happens without it, in a few words.
    pub help: &'static str,
}

/// What an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionKind {
    /// Nothing: it is given or not.
    Flag,
    /// A number within these limits, written `name=N`; or as `N` alone, in the first place, where
    /// `bare` is set.
    Number {
        /// The smallest.
        least: u64,
        /// The largest.
        most: u64,
        /// Whether it may stand without its name.
        bare: bool,
    },
    /// A size with its unit, such as `10GiB`, written `name=SIZE`; or as `SIZE` alone, in the first
    /// place.
    Size,
}

/// The values that were given for a driver's options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Values(BTreeMap<&'static str, Option<u64>>);

impl Values {
    /// Whether an option was given.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The number of an option, where it was given.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.0.get(name).copied().flatten()
    }

    /// The same values without the option `name`.
    #[must_use]
    pub fn without(&self, name: &str) -> Values {
        let mut values = self.clone();
        values.0.remove(name);
        values
    }

    /// The values as [`Self::parse`] reads them, each behind a `:`.
    pub(crate) fn text(&self, options: &[DriverOption]) -> String {
        let given = options.iter().filter_map(|option| Some((option, self.0.get(option.name)?)));
        let word = |(place, (option, value)): (usize, (&DriverOption, &Option<u64>))| match value {
            None => format!(":{}", option.name),
            Some(number) if place == 0 && option.may_be_bare() => format!(":{number}"),
            Some(number) => format!(":{}={number}", option.name),
        };
        given.enumerate().map(word).collect()
    }

    /// Reads `words`, such as `4` and `exchange`, by the table `options`.
    ///
    /// # Errors
    /// With the word that the table does not take, or takes once only.
    pub(crate) fn parse<'a>(
        options: &[DriverOption],
        words: impl Iterator<Item = &'a str>,
    ) -> Result<Values, String> {
        let mut values = Values::default();
        for (place, word) in words.enumerate() {
            let (name, number) =
                word.split_once('=').map_or((word, None), |(name, number)| (name, Some(number)));
            let found = options.iter().find_map(|option| {
                let value = match (option.kind, number) {
                    (OptionKind::Flag, None) if option.name == name => None,
                    (OptionKind::Number { least, most, .. }, Some(text)) if option.name == name => {
                        Some(within(text, least, most)?)
                    }
                    (OptionKind::Number { least, most, bare: true }, None) if place == 0 => {
                        Some(within(word, least, most)?)
                    }
                    (OptionKind::Size, Some(text)) if option.name == name => Some(size(text)?),
                    (OptionKind::Size, None) if place == 0 => Some(size(word)?),
                    _ => return None,
                };
                Some((option.name, value))
            });
            let (name, value) = found.ok_or_else(|| word.to_owned())?;
            if values.0.insert(name, value).is_some() {
                return Err(word.to_owned());
            }
        }
        Ok(values)
    }
}

impl DriverOption {
    fn may_be_bare(&self) -> bool {
        matches!(self.kind, OptionKind::Number { bare: true, .. } | OptionKind::Size)
    }
}

fn within(text: &str, least: u64, most: u64) -> Option<u64> {
    text.parse().ok().filter(|number| (least..=most).contains(number))
}

fn size(text: &str) -> Option<u64> {
    text.parse().ok().map(|Bytes(size)| size).filter(|&size| size > 0)
}

impl fmt::Display for DriverOption {
    /// The syntax behind the driver's name: `:N`, `:exchange`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            OptionKind::Flag => write!(f, ":{}", self.name),
            OptionKind::Number { least, most, bare: true } => write!(f, ":{least}-{most}"),
            OptionKind::Number { least, most, bare: false } => {
                write!(f, ":{}={least}-{most}", self.name)
            }
            OptionKind::Size => f.write_str(":SIZE"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: [DriverOption; 3] = [
        DriverOption {
            name: "pairs",
            kind: OptionKind::Number { least: 1, most: 16, bare: true },
            help: "how many",
        },
        DriverOption { name: "read", kind: OptionKind::Flag, help: "fetch" },
        DriverOption {
            name: "mtu",
            kind: OptionKind::Number { least: 256, most: 9000, bare: false },
            help: "of a packet",
        },
    ];

    fn parse(text: &str) -> Result<Values, String> {
        Values::parse(&TABLE, text.split(':').filter(|word| !word.is_empty()))
    }

    #[test]
    fn a_table_reads_what_it_lists_and_nothing_else() {
        let values = parse("4:read:mtu=1500").expect("all of the table");
        assert_eq!((values.number("pairs"), values.number("mtu")), (Some(4), Some(1500)));
        assert!(values.has("read") && !values.without("read").has("read"));
        assert_eq!(parse("pairs=4"), parse("4"), "its name may stand before it");
        assert_eq!(parse("").expect("nothing"), Values::default());
        for text in [":4:read:mtu=1500", ":4", ":read", ":mtu=256", ""] {
            assert_eq!(parse(text).expect("valid").text(&TABLE), text);
        }
        for (wrong, word) in [
            ("0", "0"),
            ("17", "17"),
            ("read:4", "4"),
            ("read:read", "read"),
            ("4:pairs=5", "pairs=5"),
            ("mtu", "mtu"),
            ("mtu=255", "mtu=255"),
            ("read=1", "read=1"),
            ("other", "other"),
        ] {
            assert_eq!(parse(wrong), Err(word.to_owned()), "{wrong}");
        }
    }

    #[test]
    fn a_size_has_a_unit_and_is_not_nothing() {
        const SIZE: [DriverOption; 1] =
            [DriverOption { name: "size", kind: OptionKind::Size, help: "how long" }];
        let parse = |text: &'static str| Values::parse(&SIZE, std::iter::once(text));
        assert_eq!(parse("10G").expect("a size").number("size"), Some(10 << 30));
        assert_eq!(parse("size=1KiB").expect("a size").number("size"), Some(1024));
        for wrong in ["", "0", "ten", "5X", "length=5"] {
            assert_eq!(parse(wrong), Err(wrong.to_owned()));
        }
        assert_eq!(SIZE[0].to_string(), ":SIZE");
    }

    #[test]
    fn a_table_shows_its_syntax() {
        let shown: Vec<String> = TABLE.iter().map(DriverOption::to_string).collect();
        assert_eq!(shown, [":1-16", ":read", ":mtu=256-9000"]);
    }
}
