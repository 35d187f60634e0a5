//! What the server announced in FEAT.

use crate::gridftp::Reply;

/// The server's features (RFC 2389); none when it does not know FEAT.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    lines: Vec<String>,
}

impl Features {
    /// The features of a 211 reply.
    pub fn of(reply: &Reply) -> Features {
        let inner = reply.lines.get(1..reply.lines.len().saturating_sub(1)).unwrap_or_default();
        Features {
            lines: inner
                .iter()
                .map(|line| String::from_utf8_lossy(line).trim().to_owned())
                .collect(),
        }
    }

    /// What every Farline server announces, for use between its greeting and its answer to FEAT.
    pub(super) fn of_any_farline() -> Features {
        Features {
            lines: ["ERET", "ESTO", "FARLINE", "MLSC", "MLST", "PARALLEL", "SPAS"]
                .map(str::to_owned)
                .to_vec(),
        }
    }

    /// Whether a feature of this name was announced, with or without parameters.
    pub fn has(&self, name: &str) -> bool {
        self.parameters(name).next().is_some()
    }

    /// The parameters of every feature of this name: `TREE` for `FARLINE TREE`.
    pub fn parameters<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.lines.iter().filter_map(move |line| {
            let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
            first.eq_ignore_ascii_case(name).then_some(rest)
        })
    }

    /// Whether the server announces this extension of Farline's: `TREE` by the line `FARLINE TREE`.
    pub fn has_farline(&self, extension: &str) -> bool {
        self.parameters("FARLINE").any(|found| found == extension)
    }

    /// Whether the server is Farline.
    pub fn is_farline(&self) -> bool {
        self.has("FARLINE")
    }

    /// Whether the server speaks MODE E: GridFTP servers announce its commands.
    pub fn is_gridftp(&self) -> bool {
        ["PARALLEL", "SPAS", "ERET"].iter().any(|name| self.has(name))
    }

    /// The algorithms of CKSM, preferred first.
    pub fn checksums(&self) -> Vec<String> {
        let mut named: Vec<(u32, String)> = self
            .parameters("CKSM")
            .flat_map(|list| list.split(';'))
            .filter_map(|item| {
                let (name, preference) = item.trim().split_once(':').unwrap_or((item.trim(), "99"));
                (!name.is_empty())
                    .then(|| (preference.parse().unwrap_or(99), name.to_ascii_uppercase()))
            })
            .collect();
        named.sort_by_key(|(preference, _)| *preference);
        named.into_iter().map(|(_, name)| name).collect()
    }

    /// The lines, as announced.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_globus_servers_features_are_read() {
        let reply = Reply::new(
            211,
            [
                "Extensions supported",
                " CKSM MD5:10;ADLER32:10;SHA256:11;",
                " MLST Type*;Size*;",
                " SPAS",
                " FARLINE TREE",
                "End.",
            ],
        );
        let features = Features::of(&reply);
        assert!(
            features.has("mlst")
                && features.has("SPAS")
                && !features.has("SPA")
                && features.is_gridftp()
        );
        assert_eq!(features.checksums(), ["MD5", "ADLER32", "SHA256"]);
        assert_eq!(features.parameters("FARLINE").collect::<Vec<_>>(), ["TREE"]);
        assert_eq!(Features::of(&Reply::line(211, "none")), Features::default());
    }
}
