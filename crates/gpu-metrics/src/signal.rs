//! Signals: the physical quantities that DCGM series report.

use crate::dcgm::fields::TABLE;

/// Index of a signal in the table of polled signals: the built-in ones
/// ([`crate::dcgm::fields`]), then configured fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SignalId(pub u16);

impl SignalId {
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }

    /// Its unit. Configured fields have [`Unit::Plain`] here, whatever unit is configured.
    #[must_use]
    pub fn unit(self) -> Unit {
        let known = TABLE.get(self.index());
        known.map_or(Unit::Plain, |(unit, ..)| *unit)
    }

    /// The first of its series names; a configured field has none here.
    #[must_use]
    pub fn series_name(self) -> Option<&'static str> {
        let (.., names) = TABLE.get(self.index())?;
        names.split(' ').next()
    }
}

/// The unit of a signal, and its valid raw values. Other values are no readings
/// (docs/numbers.md, "Readings").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Valid iff 0 ≤ v ≤ 100. The unit of a job with values between 0 and 1 is unknown.
    Percent,
    /// Valid iff 0 ≤ v ≤ 1.2, then clamped to 1 and served as percent.
    Ratio,
    /// Mebibytes, valid iff 0 ≤ v < 10^8 (all sentinels lie above).
    Mebibytes,
    /// Watts, valid iff 0 ≤ v < 10^6.
    Watts,
    /// Any finite value below the smallest sentinel (2^31 − 16) in magnitude.
    Plain,
}

/// A signal and all its series names.
#[derive(Clone, Debug, PartialEq)]
pub struct SignalSpec {
    pub id: SignalId,
    /// Short name used in configuration and logs: `memory_copy_utilization`.
    pub name: String,
    /// Series names to accept, compared case-insensitively.
    pub wire_names: Vec<String>,
    /// Its unit, which determines its validity test.
    pub unit: Unit,
}
