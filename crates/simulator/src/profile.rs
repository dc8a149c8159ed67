//! Generations of dcgm-exporter (`gpu_metrics::dcgm`, "Generations"), and the fields that they
//! print: the built-in ones of the server.

use gpu_metrics::signal::{SignalId, Unit};

/// A generation of dcgm-exporter, named by its first release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Profile {
    /// 2.0.13-2.1.1: empty labels when idle.
    V2_1,
    /// 3.3.5-3.4.1: no labels when idle.
    V3_3,
    /// 4.1.1-4.0.3: `pci_bus_id`, sharing mode.
    V4_1,
    /// 4.5.3-4.8.2: `FB_RESERVED`.
    V4_5_3,
    /// 4.6.0-4.8.3: `hostname`.
    V4_8_3,
}

impl Profile {
    /// All generations.
    pub(crate) const ALL: [Self; 5] = [
        Self::V2_1,
        Self::V3_3,
        Self::V4_1,
        Self::V4_5_3,
        Self::V4_8_3,
    ];

    /// Whether it prints a field.
    pub(crate) fn prints(self, field: SignalId) -> bool {
        match field {
            SignalId::FB_RESERVED => matches!(self, Self::V4_5_3 | Self::V4_8_3),
            _ => field.unit() != Unit::Ratio || self != Self::V2_1,
        }
    }

    /// Whether it collects on its own timer and serves cached text, so that a reading may
    /// be 2 × I old when scraped (`gpu_metrics::dcgm`, "Lines").
    pub(crate) const fn has_pipeline(self) -> bool {
        matches!(self, Self::V2_1 | Self::V3_3)
    }

    pub(super) const fn driver(self) -> &'static str {
        match self {
            Self::V2_1 => "470.182.03",
            Self::V3_3 => "535.86.10",
            Self::V4_1 | Self::V4_5_3 => "570.133.20",
            Self::V4_8_3 => "580.95.05",
        }
    }
}

/// The name of a field.
pub(super) fn name(field: SignalId) -> &'static str {
    field.series_name().unwrap_or_default()
}

/// Whether a field belongs to whole cards only (`gpu_metrics::dcgm`, "MIG").
pub(super) fn is_whole_card(field: SignalId) -> bool {
    field.unit() == Unit::Percent
}
