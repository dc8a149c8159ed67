//! Stateless noise: a number is a hash of its subject.
//!
//! The same seed, device and time bucket always give the same number, so any time can be
//! computed in any order.

/// The finaliser of splitmix64 (Steele, Lea, Flood 2014): every input bit
/// changes about half of the output bits.
const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// A hash from which numbers are drawn; [`Noise::at`] derives the noise of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noise(u64);

impl Noise {
    pub const fn new(seed: u64) -> Self {
        Self(mix(seed ^ 0x9e37_79b9_7f4a_7c15))
    }

    /// The noise of a part of this subject.
    pub const fn at(self, part: u64) -> Self {
        Self(mix(self
            .0
            .wrapping_add(part.wrapping_mul(0x9e37_79b9_7f4a_7c15))))
    }

    /// The noise of this subject in a time bucket.
    pub const fn at_bucket(self, bucket: i64) -> Self {
        self.at(bucket.cast_unsigned())
    }

    /// Uniform in [0, 1).
    pub(crate) const fn unit(self) -> f64 {
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in [low, high).
    pub const fn between(self, low: f64, high: f64) -> f64 {
        low + self.unit() * (high - low)
    }

    /// Uniform in 0..bound; 0 for an empty range.
    pub const fn below(self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.0 % bound }
    }

    /// True with the given probability.
    pub const fn chance(self, probability: f64) -> bool {
        probability > 0.0 && self.unit() < probability
    }

    /// Approximately normal with mean 0 and deviation 1: the sum of four uniform numbers
    /// of 16 bits (Irwin–Hall), cheap and bounded by ±3.5.
    pub(crate) const fn gauss(self) -> f64 {
        let sum = (self.0 & 0xffff)
            + ((self.0 >> 16) & 0xffff)
            + ((self.0 >> 32) & 0xffff)
            + (self.0 >> 48);
        (sum as f64 / 65_536.0 - 2.0) * 1.732_050_807_568_877_2
    }

    /// `len` characters as in Kubernetes' generated names: no vowels, no characters that
    /// look alike.
    pub fn suffix(self, len: usize) -> String {
        const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        (0..len as u64)
            .map(|place| {
                let pick = self.at(place).below(ALPHABET.len() as u64);
                char::from(ALPHABET[usize::try_from(pick).unwrap_or(0)])
            })
            .collect()
    }

    /// A UUID in its `8-4-4-4-12` form.
    pub(crate) fn uuid(self) -> String {
        let (high, low) = (self.at(1).0, self.at(2).0);
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff
        )
    }
}
