//! DER (X.690) as certificates of grids have it, read from its front: one part after another, none
//! copied.

pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;
pub(super) const BOOLEAN: u8 = 1;
pub(super) const INTEGER: u8 = 2;
pub(super) const BIT_STRING: u8 = 3;
pub(super) const OCTET_STRING: u8 = 4;
pub(super) const OBJECT: u8 = 6;
/// `GeneralizedTime`.
pub(super) const TIME: u8 = 0x18;
/// `[0]`, and a name of the kind `directoryName`.
pub(super) const FIRST: u8 = 0xa0;
pub(super) const DIRECTORY: u8 = 0xa4;

/// What is left to read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Der<'a>(pub(super) &'a [u8]);

/// One value.
pub(super) struct DerValue<'a> {
    pub(super) tag: u8,
    pub(super) content: &'a [u8],
    /// With tag and length.
    pub(super) whole: &'a [u8],
}

impl<'a> Der<'a> {
    pub(super) fn next(&mut self) -> Option<DerValue<'a>> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (len, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            0x81..=0x83 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                let len = bytes.iter().fold(0, |len, &byte| len << 8 | usize::from(byte));
                // In the fewest bytes, or it is not DER (X.690, section 10.1).
                let least = 1 << (8 * (bytes.len() - 1));
                (Some(len).filter(|&len| len >= least.max(0x80))?, rest)
            }
            _ => return None,
        };
        // Tags of several bytes are nowhere in what is read here.
        if tag & 0x1f == 0x1f {
            return None;
        }
        let (content, left) = rest.split_at_checked(len)?;
        let whole = &self.0[..self.0.len() - left.len()];
        self.0 = left;
        Some(DerValue { tag, content, whole })
    }

    /// The next part, which has to be of that kind.
    pub(super) fn take(&mut self, tag: u8) -> Option<DerValue<'a>> {
        self.next().filter(|part| part.tag == tag)
    }

    pub(super) fn within(&mut self, tag: u8) -> Option<Der<'a>> {
        self.take(tag).map(|part| Der(part.content))
    }

    pub(super) fn is(&self, tag: u8) -> bool {
        self.0.first() == Some(&tag)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `GeneralNames` of one directory name: the name.
    pub(super) fn name(&mut self) -> Option<&'a [u8]> {
        let mut names = self.within(SEQUENCE)?;
        let mut name = names.within(DIRECTORY)?;
        let whole = name.take(SEQUENCE)?.whole;
        (names.is_empty() && name.is_empty()).then_some(whole)
    }

    /// `AlgorithmIdentifier`: its OID.
    pub(super) fn algorithm(&mut self) -> Option<&'a [u8]> {
        Some(self.within(SEQUENCE)?.take(OBJECT)?.content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_stands_in_the_fewest_bytes() {
        for (head, len) in [
            (&[4, 0x7f][..], 0x7f),
            (&[4, 0x81, 0x80], 0x80),
            (&[4, 0x82, 1, 0], 0x100),
            (&[4, 0x83, 1, 0, 0], 0x1_0000),
        ] {
            let whole = [head, &vec![7; len]].concat();
            let part = Der(&whole).take(OCTET_STRING).expect("a string");
            assert_eq!((part.content.len(), part.whole.len()), (len, whole.len()));
        }
        for longer in [&[4, 0x80][..], &[4, 0x81, 1], &[4, 0x82, 0, 0x80], &[4, 0x83, 0, 1, 0]] {
            let whole = [longer, &[0; 300]].concat();
            assert!(Der(&whole).next().is_none(), "{longer:?}");
        }
    }
}
