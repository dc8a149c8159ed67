//! The newest times at which something happened, as the gaps between them.

use super::time::Timestamp;

/// Longer gaps are no rhythm to scale by; a bound also on what samples with
/// absurd times can do.
pub const GAP_MAX_MS: i64 = 600_000;

/// Gaps are kept in this unit, milliseconds: 600 s fit into 16 bits.
pub const UNIT_MS: i64 = 10;

/// The newest time and up to `N` gaps before it; two bytes a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gaps<const N: usize> {
    newest: Timestamp,
    /// In units, the latest first.
    gaps: [u16; N],
    len: u8,
}

impl<const N: usize> Default for Gaps<N> {
    fn default() -> Self {
        Self {
            newest: Timestamp::MIN,
            gaps: [0; N],
            len: 0,
        }
    }
}

impl<const N: usize> Gaps<N> {
    /// The newest time; [`Timestamp::MIN`] before the first.
    #[must_use]
    pub const fn newest(&self) -> Timestamp {
        self.newest
    }

    /// What happened before counts as having happened no earlier than this.
    pub fn forward_to(&mut self, at: Timestamp) {
        self.newest = self.newest.max(at);
    }

    /// The gaps in units of [`UNIT_MS`], the latest first.
    #[must_use]
    pub fn as_slice(&self) -> &[u16] {
        &self.gaps[..usize::from(self.len)]
    }

    /// The oldest time that is remembered.
    #[must_use]
    pub fn oldest(&self) -> Timestamp {
        let gaps = self.as_slice().iter();
        let span_ms: i64 = gaps.map(|gap| i64::from(*gap) * UNIT_MS).sum();
        Timestamp::from_millis(self.newest.millis() - span_ms)
    }

    /// Notes a time, if it is newer than those known.
    #[inline]
    pub fn push(&mut self, at: Timestamp) {
        if at <= self.newest {
            return;
        }
        let gap_ms = at.millis() - self.newest.millis();
        self.newest = at;
        if gap_ms > GAP_MAX_MS {
            return;
        }
        let gap = (gap_ms + UNIT_MS / 2) / UNIT_MS;
        self.gaps.copy_within(..N - 1, 1);
        self.gaps[0] = u16::try_from(gap.max(1)).unwrap_or(u16::MAX);
        self.len = (self.len + 1).min(N as u8);
    }
}
