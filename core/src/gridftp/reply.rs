//! Replies: three digits and text, on one line or several (RFC 959 section 4.2), written whole and
//! read from chunks.

use super::line::{Line, Lines, MAX_LINE};
use crate::units::{Error, ErrorCode, Fault};
use std::borrow::Cow;
use std::fmt;

/// The most text one reply may hold, in bytes: a directory listed on the control channel (MLSC) is
/// the longest.
pub const MAX_REPLY: usize = 8 << 20;

/// One reply.
#[derive(Clone, PartialEq, Eq)]
pub struct Reply {
    /// 100 to 659: 1xx more follows, 2xx done, 3xx go on, 4xx not now, 5xx no, 6xx protected (RFC
    /// 2228).
    pub code: u16,
    /// The text of each line, without code, separator and line end; at least one.
    pub lines: Vec<Vec<u8>>,
}

impl Reply {
    /// A reply of `lines`, each a text without line ends; ends in a text are replaced by blanks.
    pub fn new<T: Into<Vec<u8>>>(code: u16, lines: impl IntoIterator<Item = T>) -> Reply {
        let clean = |line: Vec<u8>| {
            line.into_iter().map(|b| if matches!(b, b'\r' | b'\n') { b' ' } else { b }).collect()
        };
        let mut lines: Vec<Vec<u8>> = lines.into_iter().map(|line| clean(line.into())).collect();
        if lines.is_empty() {
            lines.push(Vec::new());
        }
        Reply { code, lines }
    }

    /// A reply of one line.
    pub fn line(code: u16, text: impl Into<Vec<u8>>) -> Reply {
        Reply::new(code, [text.into()])
    }

    /// Whether more replies to the same command follow.
    pub const fn is_preliminary(&self) -> bool {
        self.code < 200
    }

    /// Whether the command succeeded.
    pub const fn is_success(&self) -> bool {
        self.code >= 200 && self.code < 300
    }

    /// Whether the command waits for another (331, 350).
    pub const fn is_intermediate(&self) -> bool {
        self.code >= 300 && self.code < 400
    }

    /// The first line.
    pub fn first(&self) -> Cow<'_, str> {
        self.lines.first().map_or(Cow::Borrowed(""), |line| String::from_utf8_lossy(line))
    }

    /// All lines, joined by blanks.
    pub fn text(&self) -> String {
        let lines: Vec<Cow<'_, str>> =
            self.lines.iter().map(|line| String::from_utf8_lossy(line)).collect();
        lines.join(" ")
    }

    /// The bytes on the wire.
    ///
    /// Lines between the first and the last are marked `ddd-`, except those that begin with a
    /// blank, which stand as they are: so FEAT (RFC 2389 section 3.2) and MLST (RFC 3659 section
    /// 7.2) want it, and no line can pass for the last.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let last = self.lines.len().saturating_sub(1);
        for (i, line) in self.lines.iter().enumerate() {
            let bare = i > 0 && i < last && line.first() == Some(&b' ');
            if !bare {
                let separator = if i == last { ' ' } else { '-' };
                out.extend_from_slice(format!("{:03}{separator}", self.code).as_bytes());
            }
            out.extend_from_slice(line);
            out.extend_from_slice(b"\r\n");
        }
        out
    }
}

impl fmt::Debug for Reply {
    /// The reply as on one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:03}", self.code)?;
        self.lines.iter().enumerate().try_for_each(|(i, line)| {
            let separator = if i == 0 { " " } else { " / " };
            write!(f, "{separator}{}", line.escape_ascii())
        })
    }
}

/// Reads replies from a control connection.
#[derive(Clone, Debug)]
pub struct ReplyReader {
    lines: Lines,
    /// The multi-line reply under way.
    open: Option<Reply>,
    /// Bytes in `open`.
    held: usize,
}

impl Default for ReplyReader {
    fn default() -> ReplyReader {
        ReplyReader::new()
    }
}

impl ReplyReader {
    /// A reader at the start of a connection.
    pub fn new() -> ReplyReader {
        ReplyReader { lines: Lines::new(MAX_LINE), open: None, held: 0 }
    }

    /// Whether no reply is under way.
    pub fn is_at_start(&self) -> bool {
        self.lines.is_at_start() && self.open.is_none()
    }

    /// Takes from the front of `bytes` up to the end of one reply; `None` when they do not complete
    /// one.
    ///
    /// # Errors
    /// With [`Fault::There`] when the bytes are no replies, or one is longer than [`MAX_LINE`] or
    /// [`MAX_REPLY`]; the connection is of no more use, for what answers which command is lost.
    pub fn next(&mut self, bytes: &mut &[u8]) -> Result<Option<Reply>, Error> {
        while let Some(line) = self.lines.next(bytes) {
            let line = match line {
                Line::Complete(line) => line,
                Line::TooLong(_) => {
                    return Err(broken(format!("a reply line longer than {MAX_LINE} bytes")));
                }
            };
            if let Some(reply) = self.take(line)? {
                return Ok(Some(reply));
            }
        }
        Ok(None)
    }

    fn take(&mut self, line: Vec<u8>) -> Result<Option<Reply>, Error> {
        let head = split(&line);
        let Some(mut reply) = self.open.take() else {
            return match head {
                Some((code, b'-', text)) => {
                    self.held = line.len();
                    self.open = Some(Reply { code, lines: vec![text.to_vec()] });
                    Ok(None)
                }
                Some((code, _, text)) => Ok(Some(Reply { code, lines: vec![text.to_vec()] })),
                // Telnet users' blank lines, and servers that print one after the greeting.
                None if line.is_empty() => Ok(None),
                None => Err(broken(format!("`{}` where a reply was due", shown(&line)))),
            };
        };
        self.held += line.len() + 1;
        if self.held > MAX_REPLY {
            return Err(broken(format!("a reply longer than {MAX_REPLY} bytes")));
        }
        let (text, ends) = match head {
            Some((code, separator, text)) if code == reply.code => (text, separator == b' '),
            _ => (&line[..], false),
        };
        reply.lines.push(text.to_vec());
        if ends {
            return Ok(Some(reply));
        }
        self.open = Some(reply);
        Ok(None)
    }
}

/// Code, separator and text of a line that begins with three digits from 100 to 659.
fn split(line: &[u8]) -> Option<(u16, u8, &[u8])> {
    let digits = line.get(..3)?;
    if !digits.iter().all(u8::is_ascii_digit)
        || !(b'1'..=b'6').contains(&digits[0])
        || digits[1] > b'5'
    {
        return None;
    }
    let code = digits.iter().fold(0, |code, digit| code * 10 + u16::from(digit - b'0'));
    match line.get(3) {
        None => Some((code, b' ', b"")),
        Some(&separator @ (b' ' | b'-')) => Some((code, separator, &line[4..])),
        Some(_) => None,
    }
}

fn shown(line: &[u8]) -> String {
    line[..line.len().min(60)].escape_ascii().to_string()
}

fn broken(what: String) -> Error {
    Error::new(Fault::There, ErrorCode::ProtocolBroken, format!("the server sent {what}"))
        .hint("is this the control port of an FTP or GridFTP server?")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(bytes: &[u8]) -> Result<Vec<Reply>, Error> {
        let (mut reader, mut bytes) = (ReplyReader::new(), bytes);
        let mut replies = Vec::new();
        while let Some(reply) = reader.next(&mut bytes)? {
            replies.push(reply);
        }
        Ok(replies)
    }

    #[test]
    fn reads_every_multi_line_shape_of_the_globus_server() {
        let bytes = b"211-Extensions supported\r\n MFMT\r\n 211 is inside\r\n211 End.\r\n\
            550-GlobusError: v=1 c=PATH_NOT_FOUND\r\n550-GridFTP-Errno: 2\r\n550 End.\r\n226 \
            Transfer Complete.\r\n";
        let replies = read(bytes).expect("real replies");
        assert_eq!(
            replies[0],
            Reply::new(211, ["Extensions supported", " MFMT", " 211 is inside", "End."])
        );
        assert_eq!(
            replies[1],
            Reply::new(550, ["GlobusError: v=1 c=PATH_NOT_FOUND", "GridFTP-Errno: 2", "End."])
        );
        assert_eq!(replies[2], Reply::line(226, "Transfer Complete."));
        assert_eq!(replies.iter().flat_map(Reply::encode).collect::<Vec<u8>>(), bytes);
    }

    #[test]
    fn what_is_no_reply_is_the_servers_fault() {
        for bytes in [
            &b"SSH-2.0-OpenSSH_9.2\r\n"[..],
            b"22 x\r\n",
            b"999 x\r\n",
            b"2200 x\r\n",
            b"\x16\x03\x01\r\n",
        ] {
            assert_eq!(read(bytes).map_err(|error| error.fault), Err(Fault::There));
        }
        let long = [b"220 ".to_vec(), vec![b'x'; MAX_LINE], b"\r\n".to_vec()].concat();
        assert!(read(&long).is_err_and(|error| error.message.contains("8192")));
    }

    #[test]
    fn a_reply_without_end_is_bounded() {
        let mut bytes = b"250-Contents\r\n".to_vec();
        while bytes.len() < MAX_REPLY + 2 * MAX_LINE {
            bytes.extend_from_slice(&[b' '; MAX_LINE]);
            bytes.extend_from_slice(b"\r\n");
        }
        assert!(read(&bytes).is_err());
    }

    proptest! {
        #[test]
        fn replies_survive_the_wire(code in 100u16..660, lines in prop::collection::vec("[ -~]{0,12}", 1..5)) {
            prop_assume!(code / 10 % 10 < 6);
            let reply = Reply::new(code, lines);
            prop_assert_eq!(read(&reply.encode()).ok(), Some(vec![reply]));
        }

        #[test]
        fn any_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = read(&bytes);
        }

        #[test]
        fn bytes_that_look_like_replies_are_safe(bytes in prop::collection::vec(prop::sample::select(b"125- \r\nx".to_vec()), 0..100)) {
            let _ = read(&bytes);
        }
    }
}
