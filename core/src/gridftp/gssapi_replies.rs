//! What a server says that speaks RFC 2228's tokens: replies to `ADAT`, and protected replies,
//! taken apart for the client. What a token means is the edge's.

use super::gssapi::{MAX_TOKEN_LINE, decode_base64};
use super::line::{Line, Lines};

/// The longest reason that is kept of a refusal, in bytes.
const LONGEST_REASON: usize = 1024;

/// A server's reply to a step of the exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExchangeReply {
    /// 335: a token, and more is to come.
    GoOn(Vec<u8>),
    /// 235: the exchange is over; what token comes with it.
    Over(Vec<u8>),
    /// Any other reply, in the server's words.
    Refused(String),
    /// This is no reply, or holds no token where one should be.
    Broken,
}

/// A line of a server after the exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecurityReply {
    /// 631, 632 or 633: a token, which holds a line.
    Token(Vec<u8>),
    /// A line without protection: anybody between the ends may have said it.
    Clear,
}

/// Cuts what a server sends into replies, and takes the tokens out of them.
#[derive(Debug)]
pub struct SecurityReplyReader {
    lines: Lines,
    /// The code of the reply of several lines that is under way.
    open: Option<[u8; 3]>,
    reason: String,
}

impl Default for SecurityReplyReader {
    fn default() -> SecurityReplyReader {
        SecurityReplyReader { lines: Lines::new(MAX_TOKEN_LINE), open: None, reason: String::new() }
    }
}

impl SecurityReplyReader {
    /// Takes one reply to `ADAT` from the front of `bytes`; `None` when they do not complete one.
    pub fn exchange(&mut self, bytes: &mut &[u8]) -> Option<ExchangeReply> {
        loop {
            let Line::Complete(line) = self.lines.next(bytes)? else {
                return Some(ExchangeReply::Broken);
            };
            let head = line.first_chunk::<4>().map(|&[a, b, c, mark]| ([a, b, c], mark));
            let (code, is_last) = match (head, self.open) {
                (Some((code, b' ')), None) => (code, true),
                (Some((code, b' ')), Some(open)) if code == open => (code, true),
                (Some((code, b'-')), None) => (code, false),
                (_, Some(open)) => (open, false),
                _ => return Some(ExchangeReply::Broken),
            };
            if !code.iter().all(u8::is_ascii_digit) {
                return Some(ExchangeReply::Broken);
            }
            let is_marked = matches!(head, Some((own, b' ' | b'-')) if own == code);
            let text = if is_marked { &line[4..] } else { &line[..] };
            let token = text.trim_ascii().strip_prefix(b"ADAT=").map(decode_base64);
            self.record(text);
            self.open = (!is_last).then_some(code);
            if !is_last {
                continue;
            }
            let reason = std::mem::take(&mut self.reason);
            return Some(match (&code, token) {
                (b"335", Some(Some(token))) => ExchangeReply::GoOn(token),
                (b"235", Some(Some(token))) => ExchangeReply::Over(token),
                (b"235", None) => ExchangeReply::Over(Vec::new()),
                (b"335" | b"235", _) => ExchangeReply::Broken,
                _ => ExchangeReply::Refused(reason),
            });
        }
    }

    /// Takes one line of a protected reply from the front of `bytes`; `None` when they do not
    /// complete one.
    pub fn protected(&mut self, bytes: &mut &[u8]) -> Option<SecurityReply> {
        let Line::Complete(line) = self.lines.next(bytes)? else {
            return Some(SecurityReply::Clear);
        };
        let token = match line.first_chunk::<4>() {
            Some([b'6', b'3', b'1' | b'2' | b'3', b' ' | b'-']) => {
                decode_base64(line[4..].trim_ascii())
            }
            _ => None,
        };
        Some(token.map_or(SecurityReply::Clear, SecurityReply::Token))
    }

    /// Keeps a line of what may turn out to be a refusal.
    fn record(&mut self, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        let text = text.trim();
        if !text.is_empty() && self.reason.len() + text.len() + 2 <= LONGEST_REASON {
            if !self.reason.is_empty() {
                self.reason.push_str("; ");
            }
            self.reason.push_str(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gridftp::gssapi::{adat_command, adat_reply, protected_command, protected_reply};
    use proptest::prelude::*;

    fn all(text: &[u8], cut: usize) -> Vec<ExchangeReply> {
        let mut replies = SecurityReplyReader::default();
        let mut came = Vec::new();
        for mut part in [&text[..cut], &text[cut..]] {
            came.extend(std::iter::from_fn(|| replies.exchange(&mut part)));
        }
        came
    }

    #[test]
    fn replies_are_taken_apart_however_they_come() {
        let text = [
            adat_reply(b"\x01\x02", false),
            adat_reply(b"", true),
            adat_reply(b"\x03", true),
            b"535-FTPD GSSAPI error: major\r\n535-the peer\r\n 535 no end\r\n535 End.\r\n".to_vec(),
            b"335 ADAT=!\r\n235 fine\r\nnothing\r\n".to_vec(),
        ];
        let text = text.concat();
        for cut in 0..text.len() {
            let refused = "FTPD GSSAPI error: major; the peer; 535 no end; End.";
            let expected = [
                ExchangeReply::GoOn(vec![1, 2]),
                ExchangeReply::Over(Vec::new()),
                ExchangeReply::Over(vec![3]),
                ExchangeReply::Refused(refused.to_owned()),
                ExchangeReply::Broken,
                ExchangeReply::Over(Vec::new()),
                ExchangeReply::Broken,
            ];
            assert_eq!(all(&text, cut), expected, "cut at {cut}");
        }
    }

    #[test]
    fn a_line_without_protection_is_known_as_one() {
        let text = [
            protected_reply(b"\x01", false),
            protected_reply(b"\x02", true),
            b"631 Aw==\r\n633-BA==\r\n230 in\r\n632 !\r\n634 Aw==\r\n".to_vec(),
        ];
        let text = text.concat();
        let mut replies = SecurityReplyReader::default();
        let mut rest = &text[..];
        let came: Vec<_> = std::iter::from_fn(|| replies.protected(&mut rest)).collect();
        let token = |byte| SecurityReply::Token(vec![byte]);
        let clear = SecurityReply::Clear;
        let expected =
            [token(1), token(2), token(3), token(4), clear.clone(), clear.clone(), clear];
        assert_eq!(came, expected);
        assert_eq!(adat_command(b"\x01"), b"ADAT AQ==\r\n");
        assert_eq!(protected_command(b"\x01"), b"ENC AQ==\r\n");
    }

    #[test]
    fn a_refusal_without_end_is_kept_in_part() {
        let text = [&b"535-begin\r\n"[..], &b"more of it\r\n".repeat(10_000), b"535 End\r\n"];
        match &all(&text.concat(), 0)[..] {
            [ExchangeReply::Refused(reason)] => assert!(reason.len() <= LONGEST_REASON, "{reason}"),
            other => panic!("{other:?}"),
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let (mut exchange, mut protected) = (&bytes[..], &bytes[..]);
            let mut replies = SecurityReplyReader::default();
            while replies.exchange(&mut exchange).is_some() {}
            let mut replies = SecurityReplyReader::default();
            while replies.protected(&mut protected).is_some() {}
        }
    }
}
