//! The head of a load frame's payload: whose it is, its number, when it was sent.

use super::pattern::Pattern;
use crc_fast::crc32_iscsi;

/// Bytes of a header, so that a frame of 64 bytes has room for it and two more.
pub const HEADER_BYTES: usize = 16;
/// The first byte; that of a message is another, and STAMP numbers get there after 4 billion.
pub(super) const KIND: u8 = 0xf1;

/// What a load frame says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadHeader {
    /// What it carries.
    pub pattern: Pattern,
    /// The lowest 16 bits of the session's number.
    pub tag: u16,
    /// The lowest 32 bits of its own number, from 0 on.
    pub sequence: u32,
    /// The lowest 32 bits of the microseconds since the test began, by the sender's clock.
    pub sent_us: u32,
}

impl LoadHeader {
    /// Its bytes; the last four are a check under `key`, which only the two ends know.
    pub fn write(&self, key: u64, into: &mut [u8]) {
        into[0] = KIND;
        into[1] = self.pattern.number();
        into[2..4].copy_from_slice(&self.tag.to_be_bytes());
        into[4..8].copy_from_slice(&self.sequence.to_be_bytes());
        into[8..12].copy_from_slice(&self.sent_us.to_be_bytes());
        let check = check(key, &into[..12]);
        into[12..16].copy_from_slice(&check.to_be_bytes());
    }

    /// How each byte of number and time, which stand at 4 to 11, changes the check from what it is
    /// with that byte 0.
    pub(super) fn check_changes(&self, key: u64) -> Box<[[u32; 256]; 8]> {
        let mut head = [0; HEADER_BYTES];
        LoadHeader { sequence: 0, sent_us: 0, ..*self }.write(key, &mut head);
        let zero = check(key, &head[..12]);
        let mut changes = Box::new([[0; 256]; 8]);
        for (at, changes) in changes.iter_mut().enumerate() {
            for (byte, change) in (0..=255).zip(changes) {
                head[4 + at] = byte;
                *change = check(key, &head[..12]) ^ zero;
            }
            head[4 + at] = 0;
        }
        changes
    }

    /// Reads a header and says how many of its bits are wrong: none, or one that the check gives
    /// away. `None` for what is no header of the session with this `key`.
    pub fn read(key: u64, bytes: &[u8]) -> Option<(LoadHeader, u32)> {
        let head: [u8; HEADER_BYTES] = bytes.get(..HEADER_BYTES)?.try_into().ok()?;
        if let Some(header) = parsed(key, &head) {
            return Some((header, 0));
        }
        (0..HEADER_BYTES * 8).find_map(|bit| {
            let mut mended = head;
            mended[bit / 8] ^= 1 << (bit % 8);
            parsed(key, &mended).map(|header| (header, 1))
        })
    }
}

fn parsed(key: u64, head: &[u8; HEADER_BYTES]) -> Option<LoadHeader> {
    let number =
        |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    if head[0] != KIND || number(12) != check(key, &head[..12]) {
        return None;
    }
    Some(LoadHeader {
        pattern: Pattern::of_number(head[1])?,
        tag: u16::from_be_bytes([head[2], head[3]]),
        sequence: number(4),
        sent_us: number(8),
    })
}

/// A CRC over the bytes and the key: it finds every wrong bit, and whoever does not know the key
/// guesses it once in four billion frames.
fn check(key: u64, bytes: &[u8]) -> u32 {
    let mut keyed = [0_u8; 20];
    keyed[..12].copy_from_slice(&bytes[..12]);
    keyed[12..].copy_from_slice(&key.to_be_bytes());
    crc32_iscsi(&keyed)
}

/// The whole number that ends with `low` and is nearest to `near`.
pub(super) fn unwrapped(low: u32, near: u64) -> u64 {
    let ahead = low.wrapping_sub(near as u32) as i32;
    near.saturating_add_signed(i64::from(ahead))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: LoadHeader =
        LoadHeader { pattern: Pattern::Crpat, tag: 7, sequence: 4_000_000_000, sent_us: 12_345 };

    #[test]
    fn a_header_is_read_back_also_with_one_wrong_bit() {
        let mut bytes = [0; 18];
        HEADER.write(99, &mut bytes);
        assert_eq!(LoadHeader::read(99, &bytes), Some((HEADER, 0)));
        assert_eq!(LoadHeader::read(98, &bytes), None, "another session's");
        for bit in 0..HEADER_BYTES * 8 {
            let mut wrong = bytes;
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(LoadHeader::read(99, &wrong), Some((HEADER, 1)), "bit {bit}");
        }
        assert_eq!(LoadHeader::read(99, &bytes[..15]), None);
    }

    #[test]
    fn numbers_are_whole_again_near_to_where_one_is() {
        assert_eq!(unwrapped(5, 0), 5);
        assert_eq!(unwrapped(2, (1 << 32) - 3), (1 << 32) + 2);
        assert_eq!(unwrapped(u32::MAX, 1 << 32), u64::from(u32::MAX));
        assert_eq!(unwrapped(u32::MAX, 0), 0, "nothing is before the first");
    }
}
