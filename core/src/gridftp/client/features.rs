//! What the server announced in FEAT, parsed once.

use crate::gridftp::Reply;
use crate::units::{Bytes, Rate};
use std::net::IpAddr;

/// The server's features (RFC 2389); none when it does not know FEAT. Clauses are those of
/// `docs/protocol.md`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerFeatures {
    /// Whether the server is Farline.
    pub is_farline: bool,
    /// Whether the server speaks MODE E: GridFTP servers announce its commands.
    pub is_gridftp: bool,
    /// Lists on the control channel.
    pub mlsc: bool,
    /// Tells the facts of a path (RFC 3659).
    pub mlst: bool,
    /// Sets times (draft-somers-ftp-mfxx).
    pub mfmt: bool,
    /// Tells times (RFC 3659); some servers set them too, where one stands before the path.
    pub mdtm: bool,
    /// The algorithms of CKSM, preferred first.
    pub checksums: Vec<String>,
    /// Changes what it sends by itself (D-1).
    pub adapt: bool,
    /// Reads and sets owners, ACLs and what else is no part of a file's content (T-11).
    pub attributes: bool,
    /// Keeps what it replaces, on wish.
    pub backup: bool,
    /// Speaks checked blocks (I-1).
    pub check: bool,
    /// Where its data ports are, when that is another address (K-6).
    pub data_address: Option<IpAddr>,
    /// The window that connections to its control port begin with, for a held rate (K-7).
    pub early_held: Option<Bytes>,
    /// Takes all that a client holds, however scattered.
    pub held: bool,
    /// What tells the server's kernel from all others.
    pub host: Option<String>,
    /// Knows data connections by a key.
    pub key: bool,
    /// Leaves paths out of a tree that it sends (T-10).
    pub leave: bool,
    /// Holds what it sends to a rate (O-2).
    pub limit: bool,
    /// Heeds another such rate while it sends (O-2).
    pub live_limit: bool,
    /// The rate that its line may be tested at, at most (M-7).
    pub line_ceiling: Option<Rate>,
    /// Offers a store in memory.
    pub memory: bool,
    /// Offers a store that keeps nothing.
    pub null: bool,
    /// Names what it leaves out of a tree (O-4).
    pub omitted: bool,
    /// Sends some of a folder alone (T-13).
    pub only: bool,
    /// Tells a client what it knows of the path to it (M-6).
    pub paths: bool,
    /// Admits rates that are held (O-8).
    pub rate: bool,
    /// Sends in order when asked to.
    pub order: bool,
    /// The rate that it may be measured at, at most (M-1).
    pub profile_ceiling: Option<Rate>,
    /// Whether it also sends when it is measured (M-1).
    pub profile_duplex: bool,
    /// Takes data from other hosts.
    pub third_party: bool,
    /// The fingerprint of the certificate on its data connections, as text.
    pub tls_fingerprint: Option<String>,
    /// Copies trees as one.
    pub tree: bool,
    /// Files can be compared by CRC-64/NVME (I-5).
    pub crc64: bool,
    /// Trees go in blocks of the length that is asked for (T-12).
    pub block: bool,
    /// Files of a tree that it stores land when they are whole, on wish.
    pub landing: bool,
    /// Names what does not land of a tree (O-5).
    pub unlanded: bool,
    /// Understands short records for zeros.
    pub zeros: bool,
    lines: Vec<String>,
}

impl PeerFeatures {
    /// The features of a 211 reply.
    pub fn of(reply: &Reply) -> PeerFeatures {
        let inner = reply.lines.get(1..reply.lines.len().saturating_sub(1)).unwrap_or_default();
        let line = |line: &Vec<u8>| String::from_utf8_lossy(line).trim().to_owned();
        PeerFeatures::parse(inner.iter().map(line).collect())
    }

    /// What every Farline server announces, for use between its greeting and its answer to FEAT.
    pub(super) fn of_any_farline() -> PeerFeatures {
        let lines = ["ERET", "ESTO", "FARLINE", "MLSC", "MLST", "PARALLEL", "SPAS"];
        PeerFeatures::parse(lines.map(str::to_owned).to_vec())
    }

    fn parse(lines: Vec<String>) -> PeerFeatures {
        let named = Lines(&lines);
        let ours = |extension: &str| named.parameters("FARLINE").any(|found| found == extension);
        let told =
            |label: &str| named.parameters("FARLINE").find_map(|text| text.strip_prefix(label));
        let profile = told("PROFILE ").unwrap_or_default().split(' ');
        PeerFeatures {
            is_farline: named.has("FARLINE"),
            is_gridftp: ["PARALLEL", "SPAS", "ERET"].iter().any(|name| named.has(name)),
            mlsc: named.has("MLSC"),
            mlst: named.has("MLST"),
            mfmt: named.has("MFMT"),
            mdtm: named.has("MDTM"),
            checksums: named.checksums(),
            adapt: ours("ADAPT"),
            attributes: ours("ATTRIBUTES"),
            backup: ours("BACKUP"),
            check: ours("CHECK"),
            data_address: told("ADDRESS ").and_then(|address| address.parse().ok()),
            early_held: told("EARLYHELD ").and_then(|bytes| bytes.parse().ok()).map(Bytes),
            held: ours("HELD"),
            host: told("HOST ").map(str::to_owned),
            key: ours("KEY"),
            leave: ours("LEAVE"),
            limit: ours("LIMIT"),
            live_limit: ours("LIVELIMIT"),
            line_ceiling: told("LINE ").and_then(|rate| rate.parse().ok()).map(Rate::from_bps),
            memory: ours("MEMORY"),
            null: ours("NULL"),
            omitted: ours("OMITTED"),
            only: ours("ONLY"),
            order: ours("ORDER"),
            paths: ours("PATHS"),
            rate: ours("RATE"),
            profile_ceiling: profile
                .clone()
                .next()
                .and_then(|rate| rate.parse().ok())
                .map(Rate::from_bps),
            profile_duplex: profile.skip(1).any(|word| word == "DUPLEX"),
            third_party: ours("THIRDPARTY"),
            tls_fingerprint: told("TLS ").map(str::to_owned),
            tree: ours("TREE"),
            crc64: ours("CRC64"),
            block: ours("BLOCK"),
            landing: ours("LANDING"),
            unlanded: ours("UNLANDED"),
            zeros: ours("ZEROS"),
            lines,
        }
    }

    /// Whether the server announces an extension of Farline's that only a driver knows: `FABRIC` by
    /// the line `FARLINE FABRIC`.
    pub fn has_extension(&self, extension: &str) -> bool {
        Lines(&self.lines).parameters("FARLINE").any(|found| found == extension)
    }

    /// The lines, as announced.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }
}

/// The lines of FEAT, by the name that each begins with.
struct Lines<'a>(&'a [String]);

impl<'a> Lines<'a> {
    /// Whether a feature of this name was announced, with or without parameters.
    fn has(&self, name: &str) -> bool {
        self.parameters(name).next().is_some()
    }

    /// The parameters of every feature of this name: `TREE` for `FARLINE TREE`.
    fn parameters<'b>(&self, name: &'b str) -> impl Iterator<Item = &'a str> + use<'a, 'b> {
        self.0.iter().filter_map(move |line| {
            let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
            first.eq_ignore_ascii_case(name).then_some(rest)
        })
    }

    /// The algorithms of CKSM, preferred first.
    fn checksums(&self) -> Vec<String> {
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
        let features = PeerFeatures::of(&reply);
        let lines = Lines(features.lines());
        assert!(lines.has("mlst") && lines.has("SPAS") && !lines.has("SPA") && features.is_gridftp);
        assert!(features.mlst && !features.mlsc);
        assert_eq!(features.checksums, ["MD5", "ADLER32", "SHA256"]);
        assert_eq!(lines.parameters("FARLINE").collect::<Vec<_>>(), ["TREE"]);
        assert!(features.tree && features.is_farline && !features.zeros);
        assert_eq!(PeerFeatures::of(&Reply::line(211, "none")), PeerFeatures::default());
    }

    #[test]
    fn what_a_node_tells_of_itself_is_parsed_once() {
        let lines = [
            "Extensions supported",
            " farline KEY",
            " FARLINE ADDRESS 10.1.2.3",
            " FARLINE TLS 00ff",
            " FARLINE FABRIC",
            " FARLINE PROFILE 2000000000 DUPLEX",
            " FARLINE LINE 1000000000",
            " FARLINE TREES",
            "End.",
        ];
        let features = PeerFeatures::of(&Reply::new(211, lines));
        assert_eq!(features.data_address, "10.1.2.3".parse().ok());
        assert_eq!(features.tls_fingerprint.as_deref(), Some("00ff"));
        let measured = |lines: &[&str]| {
            let features = PeerFeatures::of(&Reply::new(211, lines.to_vec()));
            (features.profile_ceiling.map(Rate::as_bps), features.profile_duplex)
        };
        assert_eq!(measured(&lines), (Some(2_000_000_000), true));
        assert_eq!(features.line_ceiling.map(Rate::as_bps), Some(1_000_000_000));
        assert_eq!(measured(&["", " FARLINE PROFILE 5", ""]), (Some(5), false));
        assert_eq!(measured(&["", " FARLINE PROFILE", ""]), (None, false));
        assert!(features.key && !features.tree && !features.is_gridftp);
        assert!(features.has_extension("FABRIC") && !features.has_extension("FAB"));
    }
}
