//! Why there is no value, and what to check.

use std::collections::BTreeSet;

use super::ObjectSelection;
use super::lookup::{Lookup, Subject};
use super::narrow::selectable_model;
use gpu_metrics::absence::{Absence, Missing};
use gpu_metrics::inventory::{Inventory, InventoryOrigin, Pod};
use gpu_metrics::layout::Object;
use gpu_metrics::line::Line;

impl<'a> Lookup<'a> {
    /// The subject in words: `pods ml/train-0`, `the cluster`.
    pub(super) fn described(&self) -> String {
        match self.subject {
            Subject::Cluster => "the cluster".to_owned(),
            _ => self.query.of.described(),
        }
    }

    /// Why there is no value.
    pub(super) fn absence(&self) -> String {
        let (of, metric) = (self.described(), &self.spec.name);
        let objects = self.objects();
        if let Subject::Objects { selection, .. } = self.subject
            && objects.is_empty()
            && let Some(why) = self.without_devices(selection)
        {
            return format!("no value of {metric} for {of}: {why}");
        }
        if self.narrowed.has_labels() {
            return self.unmatched(&objects);
        }
        let measure = &self.spec.measure;
        let absence = self
            .object()
            .map(|group| self.snapshot.absence(group, measure));
        match (absence.and_then(why), &self.current.trouble) {
            (_, Some(trouble)) => {
                format!("no GPU of {of} has enough fresh samples for {metric}: {trouble}")
            }
            (Some(why), None) => format!("no value of {metric} for {of}: {why}"),
            (None, None) => format!(
                "no GPU of {of} has enough fresh samples for {metric}: check that its pods hold GPUs, \
                 that dcgm-exporter is up and that its series reach Prometheus with pod labels"
            ),
        }
    }

    /// The reason that no GPU of these objects has the requested labels.
    fn unmatched(&self, objects: &[&Object]) -> String {
        let of = self.described();
        let members = objects.iter().flat_map(|object| &object.members);
        let lines = members.flat_map(|member| self.snapshot.present_lines(*member));
        let lines: Vec<&Line> = lines.collect();
        let models = lines.iter().filter_map(|line| selectable_model(line));
        let models: BTreeSet<String> = models.collect();
        if models.is_empty() || lines.iter().any(|it| self.narrowed.admits_model(it)) {
            let metric = &self.spec.name;
            return format!(
                "no GPU of {of} with fresh samples for {metric} matches the metric selector"
            );
        }
        let models: Vec<String> = models.into_iter().collect();
        let models = models.join(", ");
        format!("no GPU of {of} is of the model that the metric selector names: there are {models}")
    }

    /// Why objects have no devices, if the cluster's objects tell.
    fn without_devices(&self, selection: &'a ObjectSelection) -> Option<String> {
        let inventory = self.snapshot.layout().inventory();
        if inventory.authority != InventoryOrigin::Cluster {
            return None;
        }
        let resource = selection.resource.as_str();
        if let (Some(namespace), Some(name)) = (&selection.namespace, &selection.name) {
            if resource != "pods" {
                let is_known = has_workload(inventory, resource, namespace, name);
                return (!is_known).then(|| {
                    format!("no pod in namespace {namespace} belongs to {resource} {name}: check the name")
                });
            }
            let Some(pod) = inventory.pod(namespace, name) else {
                return Some(format!("there is no pod {name} in namespace {namespace}"));
            };
            if let Some(why) = self.placed_elsewhere(pod) {
                return Some(why);
            }
        }
        let pods = inventory.pods_in(selection.namespace.as_deref()).iter();
        let pods = pods.filter(|pod| pod.is_live() && selection.selects(&pod.name, &pod.labels));
        let mut pods = pods.filter(|_| resource == "pods").peekable();
        let request_none = pods.peek().is_some() && pods.all(|pod| !pod.requests_gpu());
        request_none.then(|| format!("the pods request no {}", self.current.gpus))
    }

    /// The reason that series place the pod on other nodes; `None`: they do not.
    fn placed_elsewhere(&self, pod: &Pod) -> Option<String> {
        let (
            node,
            Pod {
                namespace, name, ..
            },
        ) = (pod.node.as_deref()?, pod);
        let named = self.snapshot.layout().nodes_naming(namespace, name);
        let others: Vec<&str> = named.into_iter().filter(|named| *named != node).collect();
        (!others.is_empty()).then(|| {
            format!(
                "series name pod {namespace}/{name} on {}, but it runs on {node}: they are treated as \
                 series of an earlier pod with the same name; check that dcgm-exporter on {node} \
                 reports it, and which label names the node of its series",
                others.join(", ")
            )
        })
    }
}

fn has_workload(inventory: &Inventory, resource: &str, namespace: &str, name: &str) -> bool {
    inventory
        .workloads
        .iter()
        .any(|it| (&*it.kind.resource, &*it.namespace, &*it.name) == (resource, namespace, name))
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
        Absence::TooFewReadings => {
            "the window holds too few readings of it: values come with the next scrapes, \
                                    or the exporter does not report the field"
                .to_owned()
        }
    })
}
