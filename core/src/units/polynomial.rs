//! Powers of x modulo the polynomial of a CRC, by which checksums are joined, and those of zeros
//! found without a look at them (M. Adler, zlib 1.3, `crc32_combine_op`).

/// The polynomial of a CRC whose lowest bit stands for the highest power.
#[derive(Debug)]
pub(crate) struct CrcPolynomial {
    /// Without its highest power, which is on the right.
    taps: u64,
    /// The power 0 of x.
    one: u64,
    /// x to the power of 8 times 2 to the power of each index.
    powers: [u64; 64],
}

impl CrcPolynomial {
    /// Of a CRC of so many bits.
    pub(crate) const fn new(taps: u64, bits: u32) -> CrcPolynomial {
        let one = 1 << (bits - 1);
        let mut polynomial = CrcPolynomial { taps, one, powers: [0; 64] };
        // x^8.
        polynomial.powers[0] = one >> 8;
        let mut at = 1;
        while at < 64 {
            let half = polynomial.powers[at - 1];
            polynomial.powers[at] = polynomial.times(half, half);
            at += 1;
        }
        polynomial
    }

    /// The product of two polynomials, modulo this one.
    pub(crate) const fn times(&self, a: u64, mut b: u64) -> u64 {
        let (mut product, mut bit) = (0, self.one);
        while bit != 0 {
            if a & bit != 0 {
                product ^= b;
            }
            b = (b >> 1) ^ (self.taps & (b & 1).wrapping_neg());
            bit >>= 1;
        }
        product
    }

    /// x to the power of the bits in `count` bytes.
    pub(crate) fn power_of_bytes(&self, count: u64) -> u64 {
        let ones = (0..64).filter(|at| count >> at & 1 == 1);
        ones.fold(self.one, |power, at| self.times(power, self.powers[at]))
    }
}
