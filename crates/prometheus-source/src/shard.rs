//! Divides the devices of a query by the first digit of their UUIDs, if there are too many
//! for one answer. Pure.

/// The label with the UUID of a GPU (NVIDIA/dcgm-exporter,
/// `internal/pkg/rendermetrics`).
const UUID: &str = "UUID";

/// The digits that follow `GPU-` in a UUID.
const DIGITS: &str = "0123456789abcdef";

/// A part of the devices. `count` parts divide the UUIDs that begin with `GPU-` and a digit;
/// the rest, at index `count`, has all others. The parts are disjoint and complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    index: usize,
    /// A power of two up to [`Shard::MOST`]; 1: all devices, and there is no rest.
    count: usize,
}

impl Shard {
    /// The most parts by UUID.
    pub const MOST: usize = DIGITS.len();

    /// All devices.
    pub const ALL: Self = Self { index: 0, count: 1 };

    /// The first of `count` parts by UUID; `count` is a power of two.
    #[must_use]
    pub fn first_of(count: usize) -> Self {
        Self {
            index: 0,
            count: count.clamp(1, Self::MOST),
        }
    }

    /// The number of parts by UUID.
    #[must_use]
    pub const fn count(self) -> usize {
        self.count
    }

    /// Whether it is the rest, which cannot be divided.
    #[must_use]
    pub const fn is_rest(self) -> bool {
        self.count > 1 && self.index == self.count
    }

    /// The part after this one.
    #[must_use]
    pub fn next(self) -> Option<Self> {
        let index = self.index + 1;
        let last = if self.count == 1 { 0 } else { self.count };
        (index <= last).then_some(Self { index, ..self })
    }

    /// The first half, followed by the second; `None`: the part cannot be halved.
    #[must_use]
    pub fn halved(self) -> Option<Self> {
        let is_divisible = self.index < self.count && self.count < Self::MOST;
        is_divisible.then_some(Self {
            index: 2 * self.index,
            count: 2 * self.count,
        })
    }

    /// The matcher that selects its devices, in addition to others.
    pub(crate) fn matcher(self) -> Option<(&'static str, &'static str, String)> {
        let width = Self::MOST / self.count;
        if self.count == 1 {
            return None;
        }
        if self.is_rest() {
            return Some((UUID, "!~", format!("GPU-[{DIGITS}].*")));
        }
        let digits = &DIGITS[self.index * width..(self.index + 1) * width];
        Some((UUID, "=~", format!("GPU-[{digits}].*")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: &str = "UUID!~GPU-[0123456789abcdef].*";

    fn matchers(first: Shard) -> Vec<String> {
        let all = std::iter::successors(Some(first), |shard| shard.next());
        let texts = all.filter_map(Shard::matcher);
        let texts = texts.map(|(label, is, value)| format!("{label}{is}{value}"));
        texts.collect()
    }

    #[test]
    fn every_digit_is_in_one_part_and_all_else_in_the_rest() {
        assert_eq!(matchers(Shard::ALL), [] as [&str; 0]);
        let halves = ["UUID=~GPU-[01234567].*", "UUID=~GPU-[89abcdef].*", REST];
        assert_eq!(matchers(Shard::first_of(2)), halves);
        let most = matchers(Shard::first_of(Shard::MOST));
        assert_eq!(most.len(), 17);
        let ends = ["UUID=~GPU-[0].*", "UUID=~GPU-[f].*"];
        assert_eq!([&most[0], &most[15]], ends);
    }

    #[test]
    fn the_halves_of_a_part_begin_with_its_first_digit() {
        let second = Shard::first_of(2).next().unwrap();
        let half = second.halved().unwrap();
        let quarters = ["UUID=~GPU-[89ab].*", "UUID=~GPU-[cdef].*", REST];
        assert_eq!(matchers(half), quarters);
        let rest = second.next().unwrap();
        assert_eq!((rest.halved(), rest.next()), (None, None));
        assert_eq!(Shard::first_of(Shard::MOST).halved(), None);
    }
}
