//! The pods that the series themselves show to be exporters.

use std::collections::HashSet;

use super::super::store::DeviceRow;
use super::super::targets::TargetId;
use super::resolved::ResolvedRow;

/// The exporter pods of targets: a series that names its GPU's pod in `exported_pod` names
/// the exporter's pod in `pod`. This applies to its own target only, so that a series
/// cannot declare another target's workload an exporter.
#[derive(Debug, Default)]
pub(super) struct Exporters<'a> {
    targets: HashSet<(TargetId, &'a str)>,
}

impl<'a> Exporters<'a> {
    pub(super) fn among(rows: &[ResolvedRow<'a>]) -> Self {
        let behind = rows.iter().filter_map(|row| Some((row, row.exporter?)));
        let targets = behind.flat_map(|(row, pod)| row.targets.iter().map(move |id| (*id, pod)));
        let mut targets: Vec<_> = targets.collect();
        // Most neighbouring rows have the same target.
        targets.dedup();
        Self {
            targets: targets.into_iter().collect(),
        }
    }

    /// Whether `pod` is the exporter of the row's series.
    pub(super) fn is_behind(&self, row: &DeviceRow, pod: &str) -> bool {
        let mut targets = row.targets.iter();
        !self.targets.is_empty() && targets.any(|id| self.targets.contains(&(*id, pod)))
    }
}
