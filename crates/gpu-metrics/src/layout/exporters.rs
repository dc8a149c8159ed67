//! The pods that the series themselves show to be exporters.

use std::collections::HashSet;
use std::sync::Arc;

use super::super::series::Scheme;
use super::super::store::DeviceRow;
use super::super::targets::TargetId;

/// Pods behind targets: a series that names its GPU's pod in `exported_pod` names the
/// exporter's in `pod`. This holds for its own target only, so a series cannot declare
/// another target's workload an exporter.
#[derive(Debug, Default)]
pub(super) struct Exporters<'a> {
    targets: HashSet<(TargetId, &'a str)>,
}

impl<'a> Exporters<'a> {
    pub(super) fn among(rows: impl Iterator<Item = &'a Arc<DeviceRow>>) -> Self {
        let exported = rows.filter(|row| row.told.scheme == Some(Scheme::Exported));
        let behind =
            exported.filter_map(|row| Some((row, row.told.labels.get_ignore_case("pod")?)));
        let targets = behind.flat_map(|(row, pod)| row.targets.iter().map(move |id| (*id, pod)));
        Self {
            targets: targets.collect(),
        }
    }

    /// Whether `pod` is the exporter of the row's series.
    pub(super) fn is_behind(&self, row: &DeviceRow, pod: &str) -> bool {
        let mut targets = row.targets.iter();
        !self.targets.is_empty() && targets.any(|id| self.targets.contains(&(*id, pod)))
    }
}
