//! One pattern: wildcards as rsync has them, and what part of a path they are held against.

/// A pattern, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NamePattern {
    tokens: Vec<Token>,
    /// It matches folders only: a `/` stood at its end.
    of_folders: bool,
    /// It ends in `***`, which matches the folder itself too.
    with_folder: bool,
    start: Start,
}

/// Where in a path a match may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// Where the copy begins.
    Root,
    /// The same, but as if a `/` stood there: `**` is first.
    Slash,
    /// So many names from the end.
    Last(usize),
    /// After any `/`.
    Anywhere,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Byte(u8),
    /// `?`.
    One,
    /// `*`.
    Name,
    /// `**`.
    Path,
    /// `[...]`.
    Class {
        bytes: Vec<(u8, u8)>,
        is_negated: bool,
    },
}

impl Token {
    fn takes(&self, byte: u8) -> bool {
        match self {
            Token::Byte(own) => *own == byte,
            Token::One | Token::Name => byte != b'/',
            Token::Path => true,
            Token::Class { bytes, is_negated } => {
                let is_in = bytes.iter().any(|(from, to)| (*from..=*to).contains(&byte));
                byte != b'/' && is_in != *is_negated
            }
        }
    }

    fn repeats(&self) -> bool {
        matches!(self, Token::Name | Token::Path)
    }
}

impl NamePattern {
    /// Takes `text` apart.
    ///
    /// # Errors
    /// What is wrong with it, and at which byte.
    pub(super) fn parse(text: &[u8]) -> Result<NamePattern, (usize, &'static str)> {
        let of_folders = text.len() > 1 && text.ends_with(b"/");
        let text = if of_folders { &text[..text.len() - 1] } else { text };
        let is_anchored = text.starts_with(b"/");
        let body = &text[usize::from(is_anchored)..];
        let slashes = body.iter().filter(|byte| **byte == b'/').count();
        let is_wild = body.iter().any(|byte| b"*?[".contains(byte));
        let spans_folders = body.windows(2).any(|pair| pair == b"**");
        // Without wildcards a backslash is a byte like others.
        let tokens = match is_wild {
            true => tokens(body).map_err(|(at, why)| (at + usize::from(is_anchored), why))?,
            false => body.iter().map(|byte| Token::Byte(*byte)).collect(),
        };
        let start = match (is_anchored, spans_folders) {
            (true, _) => Start::Root,
            (false, true) if body.starts_with(b"**") => Start::Slash,
            (false, true) => Start::Anywhere,
            (false, false) => Start::Last(slashes + 1),
        };
        Ok(NamePattern { tokens, of_folders, with_folder: body.ends_with(b"***"), start })
    }

    pub(super) fn matches(&self, path: &[u8], is_folder: bool) -> bool {
        if path.is_empty() || (self.of_folders && !is_folder) {
            return false;
        }
        let mut text = path.to_vec();
        if is_folder && self.with_folder {
            text.push(b'/');
        }
        match self.start {
            Start::Root => self.is_whole(&text),
            Start::Slash => {
                text.insert(0, b'/');
                self.is_whole(&text)
            }
            Start::Last(names) => {
                let slashes: Vec<usize> = (0..text.len()).filter(|&at| text[at] == b'/').collect();
                match slashes.len() + 1 {
                    held if held < names => false,
                    held if held == names => self.is_whole(&text),
                    held => self.is_whole(&text[slashes[held - names - 1] + 1..]),
                }
            }
            Start::Anywhere => {
                self.is_whole(&text)
                    || (0..text.len()).any(|at| text[at] == b'/' && self.is_whole(&text[at + 1..]))
            }
        }
    }

    /// Whether the tokens match all of `text`: every way at once, so that no pattern takes long.
    fn is_whole(&self, text: &[u8]) -> bool {
        let end = self.tokens.len();
        let mut at = vec![false; end + 1];
        at[0] = true;
        self.pass_empty(&mut at);
        for &byte in text {
            let mut next = vec![false; end + 1];
            for (index, token) in self.tokens.iter().enumerate() {
                if at[index] && token.takes(byte) {
                    next[if token.repeats() { index } else { index + 1 }] = true;
                }
            }
            self.pass_empty(&mut next);
            at = next;
        }
        at[end]
    }

    /// `*` and `**` match nothing too.
    fn pass_empty(&self, at: &mut [bool]) {
        for (index, token) in self.tokens.iter().enumerate() {
            at[index + 1] |= at[index] && token.repeats();
        }
    }
}

fn tokens(text: &[u8]) -> Result<Vec<Token>, (usize, &'static str)> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'?' => tokens.push(Token::One),
            b'*' => {
                let stars = text[at..].iter().take_while(|byte| **byte == b'*').count();
                tokens.push(if stars == 1 { Token::Name } else { Token::Path });
                at += stars - 1;
            }
            b'[' => {
                let (class, len) =
                    class(&text[at..]).map_err(|(within, why)| (at + within, why))?;
                tokens.push(class);
                at += len - 1;
            }
            b'\\' => {
                at += 1;
                let byte = text.get(at).ok_or((at - 1, "nothing follows the backslash"))?;
                tokens.push(Token::Byte(*byte));
            }
            byte => tokens.push(Token::Byte(byte)),
        }
        at += 1;
    }
    Ok(tokens)
}

/// The class that `text` begins with, and its length.
fn class(text: &[u8]) -> Result<(Token, usize), (usize, &'static str)> {
    const OPEN: (usize, &str) = (0, "the class is not closed: no ] follows");
    let is_negated = matches!(text.get(1), Some(b'!' | b'^'));
    let first = 1 + usize::from(is_negated);
    let mut bytes = Vec::new();
    let mut at = first;
    loop {
        let byte = *text.get(at).ok_or(OPEN)?;
        if byte == b']' && at > first {
            return Ok((Token::Class { bytes, is_negated }, at + 1));
        }
        if text[at..].starts_with(b"[:") {
            let len = text[at..].windows(2).position(|pair| pair == b":]").ok_or(OPEN)?;
            let known = named(&text[at + 2..at + len]);
            bytes.extend(known.ok_or((at, "no such class of characters"))?);
            at += len + 2;
            continue;
        }
        let single = |at: usize| match text.get(at) {
            Some(b'\\') => text.get(at + 1).map(|byte| (*byte, 2)),
            byte => byte.map(|byte| (*byte, 1)),
        };
        let (from, len) = single(at).ok_or(OPEN)?;
        at += len;
        match text.get(at..at + 2) {
            Some([b'-', after]) if *after != b']' => {
                let (to, len) = single(at + 1).ok_or(OPEN)?;
                bytes.push((from, to));
                at += 1 + len;
            }
            _ => bytes.push((from, from)),
        }
    }
}

fn named(name: &[u8]) -> Option<Vec<(u8, u8)>> {
    let is_in: fn(&u8) -> bool = match name {
        b"alnum" => u8::is_ascii_alphanumeric,
        b"alpha" => u8::is_ascii_alphabetic,
        b"blank" => |byte| matches!(byte, b' ' | b'\t'),
        b"cntrl" => u8::is_ascii_control,
        b"digit" => u8::is_ascii_digit,
        b"graph" => u8::is_ascii_graphic,
        b"lower" => u8::is_ascii_lowercase,
        b"print" => |byte| byte.is_ascii_graphic() || *byte == b' ',
        b"punct" => u8::is_ascii_punctuation,
        // rsync's isspace has the vertical tab too.
        b"space" => |byte| byte.is_ascii_whitespace() || *byte == 0x0b,
        b"upper" => u8::is_ascii_uppercase,
        b"xdigit" => u8::is_ascii_hexdigit,
        _ => return None,
    };
    Some((0..=u8::MAX).filter(is_in).map(|byte| (byte, byte)).collect())
}
