//! `OPTS`: how transfers, listings and Farline's own extensions behave.

use crate::gridftp::facts::FactSet;
use crate::units::{Bytes, Span};

/// The argument of `OPTS`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommandOptions {
    /// `OPTS CKSM markers=n;`: a 113 reply every n seconds (GCT).
    Checksum {
        /// Time between them; zero turns them off.
        markers: Span,
    },
    /// `OPTS FARLINE name=value;`: a switch of Farline's own. The edge knows the names.
    Farline {
        /// What is switched.
        name: String,
        /// Its value, without `;` and control characters.
        value: String,
    },
    /// `OPTS MLST Type;Size;`.
    Facts(FactSet),
    /// `OPTS PASV AllowDelayed=1;`: whether PASV may be answered only after STOR or RETR.
    Passive {
        /// The value.
        allow_delayed: bool,
    },
    /// `OPTS RETR Parallelism=4,4,4;StripeLayout=Blocked;BlockSize=n;`.
    Retrieve(RetrieveOptions),
    /// `OPTS UTF8 ON` (draft-ietf-ftpext-utf-8-option).
    Utf8(bool),
}

/// What `OPTS RETR` sets; what is absent stays as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetrieveOptions {
    /// Channels to start with, at least and at most (GFD.20 section 5.3). GCT heeds the first
    /// number only.
    pub parallelism: Option<(u32, u32, u32)>,
    /// How blocks are spread over stripes.
    pub layout: Option<StripeLayout>,
    /// Bytes of a MODE E block (`BlockSize`).
    pub block_size: Option<Bytes>,
    /// Socket buffer (`WindowSize`).
    pub window: Option<Bytes>,
    /// Time between markers while the server sends; zero turns them off (GCT).
    pub markers: Option<Span>,
}

/// How a file's blocks are spread over stripes (GFD.20 section 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StripeLayout {
    /// In turn, block by block.
    Blocked,
    /// One run of bytes each.
    Partitioned,
}

impl CommandOptions {
    /// Reads what follows `OPTS `; the error names the part that was not understood.
    pub(super) fn parse(text: &str) -> Result<CommandOptions, String> {
        let (target, rest) = text.split_once(' ').unwrap_or((text, ""));
        let rest = rest.trim();
        match target.to_ascii_uppercase().as_str() {
            "CKSM" => {
                let (name, value) = single(rest)?;
                let markers = seconds(value).filter(|_| name.eq_ignore_ascii_case("markers"));
                Ok(CommandOptions::Checksum { markers: markers.ok_or_else(|| rest.to_owned())? })
            }
            "FARLINE" => {
                let (name, value) = single(rest)?;
                let fits = |text: &str| {
                    !text.is_empty()
                        && !text.contains(|c: char| c == ';' || c == '=' || c.is_control())
                };
                if !fits(name) || value.contains(|c: char| c == ';' || c.is_control()) {
                    return Err(rest.to_owned());
                }
                Ok(CommandOptions::Farline { name: name.to_owned(), value: value.to_owned() })
            }
            // RFC 3659 section 7.9: no facts at all is a legal choice.
            "MLST" => Ok(CommandOptions::Facts(FactSet::parse(rest))),
            "PASV" => match single(rest)? {
                (name, value @ ("0" | "1")) if name.eq_ignore_ascii_case("allowdelayed") => {
                    Ok(CommandOptions::Passive { allow_delayed: value == "1" })
                }
                _ => Err(rest.to_owned()),
            },
            "RETR" => RetrieveOptions::parse(rest).map(CommandOptions::Retrieve),
            "UTF8" | "UTF-8" => match rest.to_ascii_uppercase().as_str() {
                "" | "ON" => Ok(CommandOptions::Utf8(true)),
                "OFF" => Ok(CommandOptions::Utf8(false)),
                _ => Err(rest.to_owned()),
            },
            _ => Err(target.to_owned()),
        }
    }

    /// Prints what follows `OPTS `.
    pub(super) fn print(&self) -> String {
        match self {
            CommandOptions::Checksum { markers } => {
                format!("CKSM markers={};", whole_seconds(*markers))
            }
            CommandOptions::Farline { name, value } => format!("FARLINE {name}={value};"),
            CommandOptions::Facts(facts) => format!("MLST {}", facts.names()),
            CommandOptions::Passive { allow_delayed } => {
                format!("PASV AllowDelayed={};", u8::from(*allow_delayed))
            }
            CommandOptions::Retrieve(options) => format!("RETR {}", options.print()),
            CommandOptions::Utf8(on) => format!("UTF8 {}", if *on { "ON" } else { "OFF" }),
        }
    }
}

impl RetrieveOptions {
    fn parse(text: &str) -> Result<RetrieveOptions, String> {
        let mut options = RetrieveOptions::default();
        for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
            let wrong = || part.to_owned();
            let (name, value) = part.split_once('=').ok_or_else(wrong)?;
            let size = || value.parse().map(Bytes).map_err(|_| wrong());
            // GCT sends these names in any case.
            match name.trim().to_ascii_lowercase().as_str() {
                "blocksize" => options.block_size = Some(size()?),
                "markers" => options.markers = Some(seconds(value).ok_or_else(wrong)?),
                // A hint about segments that nothing heeds, GCT included.
                "packetsize" => _ = size()?,
                "parallelism" => options.parallelism = Some(three(value).ok_or_else(wrong)?),
                "stripelayout" => {
                    options.layout = Some(match value.to_ascii_lowercase().as_str() {
                        "blocked" => StripeLayout::Blocked,
                        "partitioned" => StripeLayout::Partitioned,
                        _ => return Err(wrong()),
                    });
                }
                "windowsize" => options.window = Some(size()?),
                _ => return Err(wrong()),
            }
        }
        Ok(options)
    }

    fn print(&self) -> String {
        let layout = self.layout.map(|layout| match layout {
            StripeLayout::Blocked => "StripeLayout=Blocked;".to_owned(),
            StripeLayout::Partitioned => "StripeLayout=Partitioned;".to_owned(),
        });
        let parts = [
            self.parallelism.map(|(start, min, max)| format!("Parallelism={start},{min},{max};")),
            layout,
            self.block_size.map(|size| format!("BlockSize={};", size.0)),
            self.window.map(|size| format!("WindowSize={};", size.0)),
            self.markers.map(|span| format!("markers={};", whole_seconds(span))),
        ];
        parts.into_iter().flatten().collect()
    }
}

/// `name=value;`.
fn single(text: &str) -> Result<(&str, &str), String> {
    let inner = text.strip_suffix(';').unwrap_or(text);
    inner
        .split_once('=')
        .map(|(name, value)| (name.trim(), value.trim()))
        .ok_or_else(|| text.to_owned())
}

/// `4,4,4`; one number stands for all three.
fn three(text: &str) -> Option<(u32, u32, u32)> {
    let numbers: Vec<u32> =
        text.split(',').map(|n| n.trim().parse().ok()).collect::<Option<_>>()?;
    match numbers[..] {
        [n] => Some((n, n, n)),
        [start, min, max] => Some((start, min, max)),
        _ => None,
    }
}

/// Whole seconds, at most a week: more is no interval but a mistake.
fn seconds(text: &str) -> Option<Span> {
    text.trim().parse().ok().filter(|&n: &u64| n <= 7 * 86_400).map(Span::from_secs)
}

fn whole_seconds(span: Span) -> u64 {
    span.as_nanos().div_ceil(1_000_000_000)
}
