//! Why there is no value, and what to check.

use super::ObjectSelection;
use super::lookup::{Lookup, Subject};
use gpu_metrics::absence::Absence;
use gpu_metrics::inventory::{Inventory, InventoryOrigin};

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
        if let Subject::Objects { selection, .. } = self.subject
            && !self.has_devices()
            && let Some(why) = self.without_devices(selection)
        {
            return format!("no value of {metric} for {of}: {why}");
        }
        if self.are_starting() {
            return format!(
                "no value of {metric} for {of}: the pods have not been Ready since their containers \
                 started; with gpu.includeStarting: true they have values"
            );
        }
        if self.narrowed.has_labels() {
            return format!(
                "no GPU of {of} with fresh samples for {metric} matches the metric selector"
            );
        }
        let absence = self
            .group()
            .map(|group| self.snapshot.absence(group.object));
        match (absence.and_then(why), self.provider.trouble()) {
            (_, Some(trouble)) => {
                format!("no GPU of {of} has enough fresh samples for {metric}: {trouble}")
            }
            (Some(why), None) => format!("no value of {metric} for {of}: {why}"),
            (None, None) => format!(
                "no GPU of {of} has enough fresh samples for {metric}: those of a new pod come with \
                 the next scrapes; otherwise check that its pods hold GPUs, that dcgm-exporter is \
                 up and that its series reach Prometheus with pod labels"
            ),
        }
    }

    /// Why objects have no devices, if the cluster's objects tell.
    fn without_devices(&self, selection: &'a ObjectSelection) -> Option<String> {
        let inventory = &self.snapshot.layout.inventory;
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
            if inventory.pod(namespace, name).is_none() {
                return Some(format!("there is no pod {name} in namespace {namespace}"));
            }
        }
        let pods = inventory.pods_in(selection.namespace.as_deref()).iter();
        let pods = pods.filter(|pod| pod.is_live() && selection.selects(&pod.name, &pod.labels));
        let mut pods = pods.filter(|_| resource == "pods").peekable();
        let request_none = pods.peek().is_some() && pods.all(|pod| !pod.requests_gpu());
        request_none.then(|| "the pods request no GPU".to_owned())
    }
}

fn has_workload(inventory: &Inventory, resource: &str, namespace: &str, name: &str) -> bool {
    inventory
        .workloads
        .iter()
        .any(|it| (&*it.kind.resource, &*it.namespace, &*it.name) == (resource, namespace, name))
}

/// The reason why a group with GPUs has no value, and what to check; `None`: it has no GPU.
fn why(Absence { cause, devices, of }: Absence) -> Option<String> {
    match cause {
        Some(cause) => Some(format!(
            "{devices} of {of} GPUs have been {cause}: check dcgm-exporter on their nodes, and in \
             Prometheus that its target is up"
        )),
        None => (of > 0).then(|| {
            "the window holds too few readings of it: values come with the next scrapes, \
             or the exporter does not report the field"
                .to_owned()
        }),
    }
}
