//! Typed views of replies: addresses, pathnames, numbers, times and entries.

use super::address::{parse_any, parse_extended, parse_host_port};
use super::facts::ListingEntry;
use super::pathname::Pathname;
use super::reply::Reply;
use super::timestamp::Timestamp;
use std::net::{IpAddr, SocketAddr};

impl Reply {
    /// The addresses of a passive reply: 227 (PASV), 229 (EPSV, SPAS), or 127 and 129 that come
    /// late (`AllowDelayed`).
    ///
    /// `host` is the control connection's peer, for EPSV gives the port alone. Empty when there is
    /// none.
    pub fn passive(&self, host: Option<IpAddr>) -> Vec<SocketAddr> {
        if !matches!(self.code, 127 | 129 | 227 | 229) {
            return Vec::new();
        }
        let texts: Vec<_> = self.lines.iter().map(|line| String::from_utf8_lossy(line)).collect();
        if let [only] = texts.as_slice() {
            // RFC 1123 section 4.1.2.6: clients scan for the digits, for the parentheses may be
            // missing.
            let inside = only
                .split_once('(')
                .map_or(&**only, |(_, rest)| rest.split(')').next().unwrap_or(rest));
            let bare = inside.trim_start_matches(|c: char| !(c.is_ascii_digit() || c == '|'));
            return parse_extended(inside, host)
                .or_else(|| parse_host_port(bare.trim_end_matches('.')))
                .into_iter()
                .collect();
        }
        texts.iter().filter_map(|text| parse_any(text.trim(), host)).collect()
    }

    /// The pathname of a 257 reply.
    pub fn quoted_path(&self) -> Option<Pathname> {
        self.lines.first().filter(|_| self.code == 257).and_then(|line| Pathname::unquote(line))
    }

    /// The number of a 213 reply to SIZE.
    pub fn size(&self) -> Option<u64> {
        self.first().trim().parse().ok().filter(|_| self.code == 213)
    }

    /// The time of a 213 reply to MDTM.
    pub fn modified(&self) -> Option<Timestamp> {
        Timestamp::parse(self.first().trim()).filter(|_| self.code == 213)
    }

    /// The digest of a 213 reply to CKSM, in lower case.
    pub fn digest(&self) -> Option<String> {
        let digest = self.first().trim().to_ascii_lowercase();
        let is_hex = !digest.is_empty() && digest.bytes().all(|b| b.is_ascii_hexdigit());
        (self.code == 213 && is_hex).then_some(digest)
    }

    /// The entries of an MLST or MLSC reply, and its lines that are none as
    /// [`ListingKind::Unread`].
    ///
    /// [`ListingKind::Unread`]: super::ListingKind::Unread
    pub fn entries(&self) -> Vec<ListingEntry> {
        let inner = self.lines.get(1..self.lines.len().saturating_sub(1)).unwrap_or_default();
        let read = |line: &Vec<u8>| {
            let entry = ListingEntry::parse(line).filter(|_| line.first() == Some(&b' '));
            entry.unwrap_or_else(|| ListingEntry::unread(line))
        };
        inner.iter().filter(|line| !line.is_empty()).map(read).collect()
    }

    /// Whether a 125 reply says that open data connections serve again, or a 150 that new ones are
    /// made.
    pub fn reuses_channels(&self) -> bool {
        self.code == 125
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gridftp::ListingKind;

    fn addresses(reply: &Reply) -> Vec<String> {
        let host = IpAddr::from([10, 0, 0, 1]);
        reply.passive(Some(host)).iter().map(SocketAddr::to_string).collect()
    }

    #[test]
    fn every_passive_reply_of_the_globus_server_is_read() {
        assert_eq!(
            addresses(&Reply::line(227, "Entering Passive Mode (127,0,0,1,232,39)")),
            ["127.0.0.1:59431"]
        );
        assert_eq!(
            addresses(&Reply::line(227, "Entering Passive Mode 127,0,0,1,232,39.")),
            ["127.0.0.1:59431"]
        );
        assert_eq!(
            addresses(&Reply::line(229, "Entering Extended Passive Mode (|||38777|)")),
            ["10.0.0.1:38777"]
        );
        assert_eq!(
            addresses(&Reply::line(229, "Entering Extended Passive Mode (|1|127.0.0.1|5|)")),
            ["127.0.0.1:5"]
        );
        let striped = Reply::new(
            229,
            ["Entering Striped Passive Mode.", " 127,0,0,1,194,229", " |2|::1|9|", "End"],
        );
        assert_eq!(addresses(&striped), ["127.0.0.1:49893", "[::1]:9"]);
        assert_eq!(addresses(&Reply::line(227, "Entering Passive Mode (1,2,3)")), [""; 0]);
        assert_eq!(addresses(&Reply::line(200, "Passive delayed.")), [""; 0]);
    }

    #[test]
    fn numbers_times_digests_and_entries_are_read() {
        assert_eq!(Reply::line(213, "6").size(), Some(6));
        assert_eq!(Reply::line(213, "x").size(), None);
        assert_eq!(
            Reply::line(213, "20261121210441").modified(),
            Timestamp::parse("20261121210441")
        );
        assert_eq!(Reply::line(213, "B1946AC9").digest().as_deref(), Some("b1946ac9"));
        assert_eq!(Reply::line(213, "none").digest(), None);
        let list =
            Reply::new(250, ["Contents of /", " Type=file;Size=6; a.txt", " Type=dir; d", "End."]);
        assert_eq!(
            list.entries().iter().map(|e| e.name.to_string()).collect::<Vec<_>>(),
            ["a.txt", "d"]
        );
        assert_eq!(Reply::line(250, " Type=file; a").entries(), []);
        // The rest of a name with a line's end in it.
        let torn = Reply::new(250, ["Contents of /", " Type=file; a", "b c", " c d", "End."]);
        let kinds: Vec<ListingKind> = torn.entries().into_iter().map(|e| e.kind).collect();
        assert_eq!(kinds, [ListingKind::File, ListingKind::Unread, ListingKind::Unread]);
    }
}
