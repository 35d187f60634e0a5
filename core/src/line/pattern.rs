//! What frames carry: jitter test patterns and pseudo-random bits, and how many bits of what came
//! are wrong.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// The continuous jitter test pattern of IEEE 802.3, annex 48A: long runs of few transitions
    /// next to runs of many.
    Cjpat,
    /// The continuous random test pattern of the same annex.
    Crpat,
    /// `x^7 + x^6 + 1` (ITU-T O.150).
    Prbs7,
    /// `x^15 + x^14 + 1`.
    Prbs15,
    /// `x^23 + x^18 + 1`.
    Prbs23,
    /// The first 8 MiB of `x^31 + x^28 + 1`, of which the whole is 256 MiB.
    Prbs31,
}

/// The bytes of one lane of CJPAT, half of it: the other half is the same with the other running
/// disparity (IEEE P802.3ae's reflector, message 4348). What counts on a lane of 10GBASE-X is lost
/// behind a scrambler, as in 10GBASE-R and -W; bits are compared all the same.
const CJPAT: [(&[u8], usize); 5] =
    [(&[0x7e], 132), (&[0xf4, 0xeb], 3), (&[0xf4, 0xab], 1), (&[0xb5], 40), (&[0xf4, 0xeb], 4)];
/// The bytes of one lane of CRPAT.
const CRPAT: [u8; 12] = [0xbe, 0xd7, 0x23, 0x47, 0x6b, 0x8f, 0xb3, 0x14, 0x5e, 0xfb, 0x35, 0x59];
/// Lanes of 10GBASE-X, to which the bytes of a frame go in turn.
const LANES: usize = 4;
/// The longest payload of a frame.
pub(super) const LONGEST: usize = 9_216;
/// How much of the longest pattern is used.
const MOST: usize = 8 << 20;

impl Pattern {
    /// All of them, by the number that a header carries.
    pub const ALL: [Pattern; 6] = [
        Pattern::Cjpat,
        Pattern::Crpat,
        Pattern::Prbs7,
        Pattern::Prbs15,
        Pattern::Prbs23,
        Pattern::Prbs31,
    ];

    /// Its number in a header.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The pattern of a number; `None` where there is none.
    pub fn of_number(number: u8) -> Option<Pattern> {
        Pattern::ALL.get(usize::from(number)).copied()
    }

    /// One period, and behind it so much of the next that a payload of any frame can be taken at
    /// each place of the period.
    pub fn bytes(self) -> Vec<u8> {
        let mut bytes = match self {
            Pattern::Cjpat => {
                let half = CJPAT.iter().flat_map(|(bytes, times)| bytes.repeat(*times));
                lanes(half)
            }
            Pattern::Crpat => lanes(CRPAT.iter().copied()),
            Pattern::Prbs7 => prbs(7, 6),
            Pattern::Prbs15 => prbs(15, 14),
            Pattern::Prbs23 => prbs(23, 18),
            Pattern::Prbs31 => prbs(31, 28),
        };
        let period = bytes.len();
        for at in 0..LONGEST {
            bytes.push(bytes[at % period]);
        }
        bytes
    }

    /// Whether it is the same in each frame of a size.
    pub(super) fn is_constant(self) -> bool {
        matches!(self, Pattern::Cjpat | Pattern::Crpat)
    }

    /// Where in its period, of `len` bytes with what stands behind, the payload of frame `sequence`
    /// begins. Jitter patterns begin with each frame.
    pub fn place(self, sequence: u64, len: usize) -> usize {
        if self.is_constant() {
            return 0;
        }
        // Any step without a common factor visits every place.
        (sequence.wrapping_mul(1_459) % (len - LONGEST) as u64) as usize
    }
}

/// Each byte on every lane.
fn lanes(bytes: impl Iterator<Item = u8>) -> Vec<u8> {
    bytes.flat_map(|byte| [byte; LANES]).collect()
}

/// The bits of the shift register of `length` bits with a tap at `tap`, from all ones on, most
/// significant bit first: as many bytes as it has bits in its period, but at most [`MOST`].
fn prbs(length: u32, tap: u32) -> Vec<u8> {
    let period = (1_usize << length) - 1;
    let mask = (1_u64 << length) - 1;
    let mut register = mask;
    let mut next = || {
        let mut byte = 0_u8;
        for _ in 0..8 {
            let bit = (register >> (length - 1) ^ register >> (tap - 1)) & 1;
            register = (register << 1 | bit) & mask;
            byte = byte << 1 | bit as u8;
        }
        byte
    };
    (0..period.min(MOST)).map(|_| next()).collect()
}

/// How many bits of `came` differ from `expected`, which is as long.
pub(super) fn wrong_bits(came: &[u8], expected: &[u8]) -> u64 {
    if came == expected {
        return 0;
    }
    came.iter().zip(expected).map(|(a, b)| u64::from((a ^ b).count_ones())).sum()
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Pattern::Cjpat => "cjpat",
            Pattern::Crpat => "crpat",
            Pattern::Prbs7 => "prbs7",
            Pattern::Prbs15 => "prbs15",
            Pattern::Prbs23 => "prbs23",
            Pattern::Prbs31 => "prbs31",
        })
    }
}

impl FromStr for Pattern {
    type Err = String;
    fn from_str(text: &str) -> Result<Pattern, String> {
        let same = |pattern: &&Pattern| pattern.to_string() == text;
        Pattern::ALL.iter().find(same).copied().ok_or_else(|| {
            let all = Pattern::ALL.map(|pattern| pattern.to_string());
            format!("no pattern; there are {}", all.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cjpat_is_1504_bytes_of_four_equal_lanes() {
        let bytes = Pattern::Cjpat.bytes();
        assert_eq!((bytes.len() - LONGEST) * 2, 1_504);
        assert_eq!(&bytes[..8], [0x7e; 8]);
        assert_eq!(&bytes[132 * 4..132 * 4 + 8], [0xf4, 0xf4, 0xf4, 0xf4, 0xeb, 0xeb, 0xeb, 0xeb]);
        assert_eq!(bytes[752..], bytes[..LONGEST]);
    }

    #[test]
    fn prbs_bits_repeat_after_their_period_and_not_before() {
        // The sequence of x^7 + x^6 + 1 from all ones on begins 0000001 (ITU-T O.150 gives it up to
        // where it begins).
        let bytes = Pattern::Prbs7.bytes();
        let bit = |at: usize| bytes[at / 8] >> (7 - at % 8) & 1;
        assert!((0..600).all(|at| bit(at) == bit(at + 127)));
        let ones = (0..127).filter(|at| bit(*at) == 1).count();
        assert_eq!(ones, 64, "a maximal sequence has one 1 more than 0");
        for shift in 1..127 {
            assert!((0..127).any(|at| bit(at) != bit(at + shift)), "{shift}");
        }
        assert_eq!(Pattern::Prbs15.bytes().len() - LONGEST, 32_767);
    }

    #[test]
    fn wrong_bits_are_counted_one_by_one() {
        let expected = Pattern::Crpat.bytes();
        let mut came = expected.clone();
        assert_eq!(wrong_bits(&came, &expected), 0);
        came[17] ^= 0b1000_0001;
        came[1_000] ^= 0b10;
        assert_eq!(wrong_bits(&came, &expected), 3);
    }

    #[test]
    fn a_number_and_a_name_are_of_one_pattern() {
        for pattern in Pattern::ALL {
            assert_eq!(Pattern::of_number(pattern.number()), Some(pattern));
            assert_eq!(pattern.to_string().parse(), Ok(pattern));
        }
        assert_eq!(Pattern::of_number(6), None);
        assert!("prbs9".parse::<Pattern>().is_err());
    }
}
