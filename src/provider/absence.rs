//! Why there is no value, and what to check.

use super::lookup::{Lookup, Subject};
use super::{ObjectSelection, ProviderError};
use gpu_metrics::aggregate::{Absence, Missing};
use gpu_metrics::grid::RowId;
use gpu_metrics::inventory::InventoryOrigin;
use gpu_metrics::layout::Object;
use gpu_metrics::policy::Measure;

impl<'a> Lookup<'a> {
    /// The subject in words, and its devices if it is one object.
    pub(super) fn described(&self) -> (String, Option<&'a Object>) {
        let layout = self.snapshot.layout();
        match self.subject {
            Subject::Objects { .. } if self.spec.measure == Measure::OriginalAverage => {
                ("the cluster".to_owned(), Some(layout.cluster()))
            }
            Subject::Objects {
                table, selection, ..
            } => {
                let resource = &selection.resource;
                let Some(name) = selection.name() else {
                    return (format!("the {resource} selected"), None);
                };
                let namespace = selection.namespace.as_deref();
                let group =
                    table.and_then(|(_, table)| table.objects.get(table.find(namespace, name)?));
                (format!("{resource} {name}"), group)
            }
            Subject::Namespace(name) => {
                let group = layout.object("namespaces", None, name);
                (format!("namespace {name}"), group)
            }
            Subject::Cluster => ("the cluster".to_owned(), Some(layout.cluster())),
        }
    }

    /// The error that there is no value.
    pub(super) fn no_value(&self) -> ProviderError {
        let (of, group) = self.described();
        let (metric, gpus) = (&self.spec.name, &self.current.gpus);
        let rows = self.rows(group);
        let request_none = match self.subject {
            Subject::Objects { selection, .. } => rows.is_empty() && self.request_none(selection),
            Subject::Namespace(_) | Subject::Cluster => false,
        };
        if request_none {
            let reason = format!("no value of {metric} for {of}: the pods request no {gpus}");
            return ProviderError::NoValue(reason);
        }
        if self.narrowed.has_labels() {
            return self.unmatched(&of, &rows);
        }
        let absence = group.map(|group| self.snapshot.absence(group));
        let reason = match (absence.and_then(why), &self.current.trouble) {
            (_, Some(trouble)) => {
                format!("no GPU of {of} has enough fresh samples for {metric}: {trouble}")
            }
            (Some(why), None) => format!("no value of {metric} for {of}: {why}"),
            (None, None) => format!(
                "no GPU of {of} has enough fresh samples for {metric}: check that its pods hold GPUs, \
                 that dcgm-exporter is up and that its series reach Prometheus with pod labels"
            ),
        };
        ProviderError::NoValue(reason)
    }

    /// The error that none of these rows, the GPUs of `of`, has the requested labels.
    fn unmatched(&self, of: &str, rows: &[RowId]) -> ProviderError {
        let layout = self.snapshot.layout();
        let facts = rows.iter().filter_map(|row| layout.fact(*row));
        let models: Vec<String> = self.narrowed.other_models(facts).into_iter().collect();
        ProviderError::NoValue(match models.as_slice() {
            [] => format!(
                "no GPU of {of} with fresh samples for {} matches the metric selector",
                self.spec.name
            ),
            models => format!(
                "no GPU of {of} is of the model that the metric selector names: there are {}",
                models.join(", ")
            ),
        })
    }

    /// The rows of one object, or of those selected.
    fn rows(&self, group: Option<&Object>) -> Vec<RowId> {
        match (group, self.subject) {
            (Some(group), _) => group.members.clone(),
            (
                None,
                Subject::Objects {
                    table: Some((_, table)),
                    selection,
                    ..
                },
            ) => {
                let (_, within) = table.within(selection.namespace.as_deref());
                let chosen = within
                    .iter()
                    .filter(|object| selection.which.selects(&object.name, &object.labels));
                chosen.flat_map(|object| object.members.clone()).collect()
            }
            (None, _) => Vec::new(),
        }
    }

    /// Whether the objects are pods and none of them requests a GPU.
    fn request_none(&self, selection: &ObjectSelection) -> bool {
        let inventory = self.snapshot.layout().inventory();
        if selection.resource != "pods" || inventory.authority != InventoryOrigin::Cluster {
            return false;
        }
        let pods = inventory.pods_in(selection.namespace.as_deref()).iter();
        let mut pods =
            pods.filter(|pod| pod.is_live() && selection.which.selects(&pod.name, &pod.labels));
        pods.clone().next().is_some() && pods.all(|pod| !pod.requests_gpu())
    }
}

/// The reason why a group with GPUs has no value, and what to check; `None`: it has no GPU.
fn why(absence: Absence) -> Option<String> {
    Some(match absence {
        Absence::NoDevice => return None,
        Absence::StoreBehind { newest } => format!(
            "Prometheus has had no new samples since {}: check that it scrapes dcgm-exporter, or the remote \
             write before it",
            newest.whole_second().date()
        ),
        Absence::Missing { why, devices, of } => {
            let exporters = "check dcgm-exporter on their nodes";
            let frozen = "restart dcgm-exporter on their nodes";
            let xid = "look for Xid errors on their nodes";
            let (what, since, remedy) = match why {
                Missing::Silent(since) => ("have been silent", Some(since), exporters),
                Missing::Frozen(since) => ("have unchanged readings", Some(since), frozen),
                Missing::Lost(since) => ("are left out by their exporters", Some(since), xid),
                Missing::Unseen => ("that its pods request have no samples", None, exporters),
            };
            let since = since.map(|since| format!(" since {}", since.whole_second().date()));
            let since = since.unwrap_or_default();
            format!("{devices} of {of} GPUs {what}{since}: {remedy}")
        }
        Absence::HandedOver { since } => format!(
            "its GPUs have been reported for another pod, or for none, since {}: check the pod labels of \
             dcgm-exporter's series",
            since.whole_second().date()
        ),
        Absence::TooFewReadings => {
            "the window holds too few readings of it: values come with the next scrapes, \
                                    or the exporter does not report the field"
                .to_owned()
        }
    })
}
