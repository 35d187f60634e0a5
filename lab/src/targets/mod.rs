//! What the fuzzers feed: one function for each reader of bytes from the network. Each holds laws,
//! not just "no panic".
//!
//! `lab/fuzz/run` feeds them with libFuzzer; `lab/tests/it/corpus.rs` feeds them the committed
//! corpus and seeded mutations of it.

mod line;
mod proxy;
mod rdma;

use farline_core::gridftp::checked::{self, CHECKED_LEN, Check};
use farline_core::gridftp::gssapi::{
    SecurityCommand, SecurityCommands, decode_base64, encode_base64,
};
use farline_core::gridftp::mode_e::{HEADER_LEN, Header};
use farline_core::gridftp::{Command, Reply, ReplyReader};
use farline_core::transfer::{Layout, manifest_lines, parse_manifest};
use farline_core::udt::{Content, UdtPacket};
use std::mem::take;

pub use line::line;
pub use proxy::proxy;
pub use rdma::rdma;

/// Takes any bytes and panics when a law does not hold.
pub type Target = fn(&[u8]);

/// Every target, by the name of its corpus.
pub const ALL: [(&str, Target); 10] = [
    ("checked", checked),
    ("command", command),
    ("line", line),
    ("manifest", manifest),
    ("mode_e", mode_e),
    ("proxy", proxy),
    ("rdma", rdma),
    ("reply", reply),
    ("token", token),
    ("udt", udt),
];

/// A datagram: what is understood as a packet of UDT's is written back the same.
///
/// # Panics
/// When the law does not hold.
pub fn udt(datagram: &[u8]) {
    let Ok(packet) = UdtPacket::decode(datagram) else { return };
    let mut written = Vec::new();
    packet.encode(&mut written);
    if matches!(packet.content, Content::Data { .. }) {
        // The payload is the caller's.
        written.push(0);
    }
    assert_eq!(UdtPacket::decode(&written), Ok(packet), "{datagram:?}");
}

/// Lines of `ADAT` and `ENC`: cut anywhere they say the same, and a token is written back the same.
///
/// # Panics
/// When the law does not hold.
pub fn token(bytes: &[u8]) {
    let read = |parts: [&[u8]; 2]| {
        let mut commands = SecurityCommands::default();
        let mut read = Vec::new();
        for mut part in parts {
            while let Some(command) = commands.next(&mut part) {
                read.push(command);
            }
        }
        read
    };
    let whole = read([bytes, &[]]);
    let (first, second) = bytes.split_at(bytes.len() / 2);
    assert_eq!(read([first, second]), whole, "{bytes:?}");
    for command in whole {
        if let SecurityCommand::Adat(token) | SecurityCommand::Protected(token) = command {
            assert_eq!(decode_base64(encode_base64(&token).as_bytes()), Some(token));
        }
    }
}

/// A command line: what is understood can be printed and is then understood the same, on one line.
///
/// # Panics
/// When the law does not hold.
pub fn command(line: &[u8]) {
    let Ok(command) = Command::parse(line) else { return };
    // What cannot be printed was refused with an error: a name that would end the line early.
    let Ok(printed) = command.encode() else { return };
    let body = printed.strip_suffix(b"\r\n").expect("a command line ends with CR LF");
    assert!(
        !body.contains(&b'\n'),
        "two lines from one command: {:?}",
        String::from_utf8_lossy(&printed)
    );
    assert_eq!(
        Command::parse(body).as_ref(),
        Ok(&command),
        "{:?}",
        String::from_utf8_lossy(&printed)
    );
}

/// Replies: however the bytes are cut on their way, the same replies or the same refusal come out.
///
/// # Panics
/// When the law does not hold.
pub fn reply(bytes: &[u8]) {
    let read = |cut: usize| {
        let mut reader = ReplyReader::new();
        let mut replies: Vec<Reply> = Vec::new();
        for part in bytes.chunks(cut.max(1)) {
            let mut part = part;
            loop {
                match reader.next(&mut part) {
                    Ok(Some(reply)) => replies.push(reply),
                    Ok(None) => break,
                    Err(error) => return (replies, Some(error.code)),
                }
            }
        }
        (replies, None)
    };
    let whole = read(bytes.len());
    assert_eq!(whole, read(1), "cut into single bytes");
    assert_eq!(whole, read(7), "cut into sevens");
}

/// MODE E headers one after another: what is read is written back as the same bytes.
///
/// # Panics
/// When the law does not hold.
pub fn mode_e(bytes: &[u8]) {
    for header in bytes.chunks_exact(HEADER_LEN) {
        let header: &[u8; HEADER_LEN] = header.try_into().expect("the length of a header");
        if let Ok(read) = Header::decode(header) {
            assert_eq!(&read.encode(), header);
        }
    }
}

/// Checked headers: what is read is written back as the same bytes, what is written is read back
/// the same, and with one bit changed it is not taken.
///
/// # Panics
/// When the law does not hold.
pub fn checked(bytes: &[u8]) {
    for header in bytes.chunks_exact(CHECKED_LEN) {
        let whole: &[u8; CHECKED_LEN] = header.try_into().expect("the length of a header");
        if let Ok((header, check)) = checked::decode(whole) {
            assert_eq!(&checked::encode(&header, &check), whole);
        }
    }
    // Next to no bytes have the checksum of themselves: these are given theirs.
    let Some((first, rest)) = bytes.split_first_chunk::<HEADER_LEN>() else { return };
    let Ok(header) = Header::decode(first) else { return };
    let mut digest = [0; 32];
    rest.iter().take(32).zip(&mut digest).for_each(|(byte, digest)| *digest = *byte);
    let check = Check::of(rest, digest);
    let mut written = checked::encode(&header, &check);
    assert_eq!(checked::decode(&written), Ok((header, check)));
    let bit = rest.iter().fold(0, |bit, &byte| bit + usize::from(byte)) % (CHECKED_LEN * 8);
    written[bit / 8] ^= 1 << (bit % 8);
    assert!(checked::decode(&written).is_err(), "bit {bit} of {bytes:?}");
}

/// A manifest: what is taken names nothing outside the tree, survives being written again, and can
/// be laid out.
///
/// # Panics
/// When the law does not hold.
pub fn manifest(text: &[u8]) {
    let Ok(entries) = parse_manifest(text) else { return };
    for entry in &entries {
        assert!(!entry.path.starts_with(b"/") && !entry.path.contains(&0), "{:?}", entry.path);
        assert!(
            entry.path.split(|&byte| byte == b'/').all(|part| part != b".."),
            "{:?}",
            entry.path
        );
        assert!(entry.mode <= 0o7777);
    }
    assert_eq!(parse_manifest(&manifest_lines(&entries)).as_ref(), Ok(&entries));
    let layout = Layout::new(entries, 1 << 20);
    for index in [0, 1, layout.block_count() / 2, layout.block_count().saturating_sub(1)] {
        if index < layout.block_count() {
            let block = layout.block(index);
            assert!(block.len > 0 && block.len <= 1 << 20, "{block:?}");
            let covered: usize =
                layout.pieces(block.offset, block.len).map(|piece| piece.len).sum();
            assert_eq!(covered, block.len, "{block:?}");
        }
    }
}

/// Changes `bytes` a little, as `seed` says: flips, cuts, repeats, and splices of words that mean
/// something to a parser.
pub fn mutate(bytes: &[u8], seed: u64) -> Vec<u8> {
    const WORDS: [&[u8]; 12] = [
        b"\r\n",
        b"\0",
        b"..",
        b"/",
        b"%",
        b"%00",
        b";",
        b"=",
        b" ",
        b"18446744073709551615",
        b"-1",
        b"\xff\xf4",
    ];
    let mut rng = farline_core::units::Rng::new(seed);
    let mut bytes = bytes.to_vec();
    for _ in 0..1 + rng.below(6) {
        let at = rng.below(bytes.len() as u64 + 1) as usize;
        match rng.below(5) {
            0 if at < bytes.len() => bytes[at] ^= 1 << rng.below(8),
            1 => bytes.truncate(at),
            2 => {
                let word = WORDS[rng.below(WORDS.len() as u64) as usize];
                bytes.splice(at..at, word.iter().copied());
            }
            3 if at < bytes.len() => {
                drop(bytes.drain(at..(at + 1 + rng.below(8) as usize).min(bytes.len())))
            }
            _ => {
                let tail: Vec<u8> = take(&mut bytes);
                bytes = [&tail[..at], &tail[at.saturating_sub(9)..]].concat();
            }
        }
    }
    bytes
}
