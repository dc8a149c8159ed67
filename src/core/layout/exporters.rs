//! Which pods the data themselves show to be exporters.

use std::collections::HashSet;
use std::sync::Arc;

use super::super::series::Scheme;
use super::super::store::Row;

/// A scrape target and the pod behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Target<'a> {
    job: Option<&'a str>,
    instance: Option<&'a str>,
    pod: &'a str,
}

/// Pods behind targets: a series that names its GPU's pod in `exported_pod`
/// names the exporter's in `pod` (`dcgm.md` §2.6, rule c). It says so of its
/// own job and instance only: no series may declare another target's workload
/// an exporter.
#[derive(Debug, Default)]
pub(super) struct Exporters<'a> {
    targets: HashSet<Target<'a>>,
}

fn target<'a>(row: &'a Row, pod: &'a str) -> Target<'a> {
    Target {
        job: row.labels.get_ignore_case("job"),
        instance: row.labels.get_ignore_case("instance"),
        pod,
    }
}

impl<'a> Exporters<'a> {
    pub(super) fn among(rows: impl Iterator<Item = &'a Arc<Row>>) -> Self {
        let exported = rows.filter(|row| row.scheme == Some(Scheme::Exported));
        let targets =
            exported.filter_map(|row| Some(target(row, row.labels.get_ignore_case("pod")?)));
        Self {
            targets: targets.collect(),
        }
    }

    /// Whether `pod` is the exporter that the row's series come from.
    pub(super) fn is_behind(&self, row: &Row, pod: &str) -> bool {
        !self.targets.is_empty() && self.targets.contains(&target(row, pod))
    }
}
