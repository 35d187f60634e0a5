//! RFC 2228's words for a security mechanism that speaks in tokens: `ADAT`, `MIC`, `ENC` and `CONF`
//! from the client, `335`, `235` and `632` to it, with base 64 in between. What a token means is
//! the edge's.

use super::line::{Line, Lines};

/// The longest line accepted, in bytes: a chain of a dozen certificates in base 64.
pub(super) const MAX_TOKEN_LINE: usize = 128 * 1024;

/// One line of a client that speaks of security.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecurityCommand {
    /// `ADAT token`: a step of the exchange that sets security up.
    Adat(Vec<u8>),
    /// `MIC`, `ENC` or `CONF` and a token: a command within.
    Protected(Vec<u8>),
    /// Anything else, in the clear.
    Clear,
    /// A token that is none, or too long.
    Broken,
}

/// Cuts what a client sends into lines, and takes the tokens out of them.
#[derive(Debug)]
pub struct SecurityCommands(Lines);

impl Default for SecurityCommands {
    fn default() -> SecurityCommands {
        SecurityCommands(Lines::new(MAX_TOKEN_LINE))
    }
}

impl SecurityCommands {
    /// Takes from the front of `bytes` up to the end of one line; `None` when they do not complete
    /// one. Empty lines are passed over.
    pub fn next(&mut self, bytes: &mut &[u8]) -> Option<SecurityCommand> {
        loop {
            let line = match self.0.next(bytes)? {
                Line::Complete(line) if line.is_empty() => continue,
                Line::Complete(line) => line,
                Line::TooLong(_) => return Some(SecurityCommand::Broken),
            };
            let verb_len = line.iter().position(|&byte| byte == b' ').unwrap_or(line.len());
            let (verb, rest) = line.split_at(verb_len);
            let is_adat = verb.eq_ignore_ascii_case(b"ADAT");
            if !is_adat
                && ![b"MIC" as &[u8], b"ENC", b"CONF"]
                    .iter()
                    .any(|name| verb.eq_ignore_ascii_case(name))
            {
                return Some(SecurityCommand::Clear);
            }
            let token = decode_base64(rest.trim_ascii());
            return Some(match token {
                None => SecurityCommand::Broken,
                Some(token) if is_adat => SecurityCommand::Adat(token),
                Some(token) => SecurityCommand::Protected(token),
            });
        }
    }
}

/// Cuts replies into their lines, each of which is protected by itself, as Globus does it.
#[derive(Debug, Default)]
pub struct ReplyLines {
    /// The code of the reply of several lines that is under way.
    open: Option<[u8; 3]>,
}

impl ReplyLines {
    /// The lines of `replies`, which are whole, each with its end and whether its reply ends with
    /// it.
    pub fn cut<'a>(&mut self, replies: &'a [u8]) -> Vec<(&'a [u8], bool)> {
        replies
            .split_inclusive(|&byte| byte == b'\n')
            .map(|line| (line, self.ends_with(line)))
            .collect()
    }

    fn ends_with(&mut self, line: &[u8]) -> bool {
        let head = line.first_chunk::<4>().map(|&[a, b, c, separator]| ([a, b, c], separator));
        match (self.open, head) {
            (None, Some((code, b'-'))) => {
                self.open = Some(code);
                false
            }
            (Some(open), Some((code, b' '))) if open == code => {
                self.open = None;
                true
            }
            (open, _) => open.is_none(),
        }
    }
}

/// A protected line of a reply: `632`, as what the token holds is encrypted.
pub fn protected_reply(token: &[u8], is_last: bool) -> Vec<u8> {
    format!("632{}{}\r\n", if is_last { ' ' } else { '-' }, encode_base64(token)).into_bytes()
}

/// A step of the exchange, as the client says it.
pub fn adat_command(token: &[u8]) -> Vec<u8> {
    format!("ADAT {}\r\n", encode_base64(token)).into_bytes()
}

/// A command within: `ENC`, as what the token holds is encrypted.
pub fn protected_command(token: &[u8]) -> Vec<u8> {
    format!("ENC {}\r\n", encode_base64(token)).into_bytes()
}

/// What a step of the exchange is answered with: 335 when it goes on, 235 when it is over.
pub fn adat_reply(token: &[u8], is_over: bool) -> Vec<u8> {
    match (is_over, token.is_empty()) {
        (true, true) => b"235 GSSAPI authentication succeeded.\r\n".to_vec(),
        (is_over, _) => {
            let code = if is_over { 235 } else { 335 };
            format!("{code} ADAT={}\r\n", encode_base64(token)).into_bytes()
        }
    }
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// RFC 4648 section 4, with padding.
pub fn encode_base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let at = |i: usize| u32::from(three.get(i).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for i in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * i)) as usize & 63];
            text.push(if i > three.len() { '=' } else { char::from(digit) });
        }
    }
    text
}

/// The bytes that [`encode_base64`] wrote; nothing when it did not.
pub fn decode_base64(text: &[u8]) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let padding = text.iter().rev().take_while(|&&byte| byte == b'=').count();
    let digits = text.get(..text.len().checked_sub(padding)?)?;
    if padding > 2 {
        return None;
    }
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for four in digits.chunks(4) {
        let mut bits = 0u32;
        for &digit in four {
            bits = bits << 6 | u32::from(value(digit)?);
        }
        bits <<= 6 * (4 - four.len());
        bytes.extend_from_slice(&bits.to_be_bytes()[1..four.len()]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tokens_are_taken_out_of_lines_however_they_come() {
        let mut commands = SecurityCommands::default();
        let whole = b"ADAT AQID\r\n\r\nenc BA==\r\nMIC BQY=\r\nQUIT\r\nENC !\r\nADAT";
        for cut in 0..whole.len() {
            let mut commands = SecurityCommands::default();
            let mut came = Vec::new();
            for mut part in [&whole[..cut], &whole[cut..]] {
                came.extend(std::iter::from_fn(|| commands.next(&mut part)));
            }
            let expected = [
                SecurityCommand::Adat(vec![1, 2, 3]),
                SecurityCommand::Protected(vec![4]),
                SecurityCommand::Protected(vec![5, 6]),
                SecurityCommand::Clear,
                SecurityCommand::Broken,
            ];
            assert_eq!(came, expected, "cut at {cut}");
        }
        let long = [b"ADAT ".to_vec(), vec![b'A'; MAX_TOKEN_LINE], b"\r\n".to_vec()].concat();
        assert_eq!(commands.next(&mut &long[..]), Some(SecurityCommand::Broken));
    }

    #[test]
    fn each_line_of_a_reply_is_protected_by_itself() {
        let mut lines = ReplyLines::default();
        let cut = lines.cut(b"200 OK\r\n211-Extensions\r\n SIZE\r\n211-more\r\n212 no end\r\n211 End.\r\n250 OK\r\n");
        let ends: Vec<bool> = cut.iter().map(|(_, is_last)| *is_last).collect();
        assert_eq!(ends, [true, false, false, false, false, true, true]);
        assert_eq!(cut[2].0, b" SIZE\r\n");
        assert_eq!(protected_reply(b"\x01", false), b"632-AQ==\r\n");
        assert_eq!(adat_reply(b"\x01", false), b"335 ADAT=AQ==\r\n");
        assert!(adat_reply(b"", true).starts_with(b"235 "));
    }

    #[test]
    fn what_is_no_base_64_is_nothing() {
        for text in ["A", "AA", "AAA", "AA=A", "====", "A===", "AA\n=", "AA=="] {
            assert_eq!(decode_base64(text.as_bytes()).is_some(), text == "AA==", "{text:?}");
        }
        assert_eq!(decode_base64(b""), Some(Vec::new()));
    }

    proptest! {
        #[test]
        fn bytes_survive_base_64(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(decode_base64(encode_base64(&bytes).as_bytes()), Some(bytes));
        }

        #[test]
        fn any_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut commands = SecurityCommands::default();
            let mut rest = &bytes[..];
            while commands.next(&mut rest).is_some() {}
            let _ = decode_base64(&bytes);
            let _ = ReplyLines::default().cut(&bytes);
        }
    }
}
