//! Finds workloads by the names of their pods, for readings of pods that departed before
//! any watch saw them.

use std::collections::HashMap;

use crate::inventory::{Inventory, Workload};

/// How many characters kube-controller-manager adds to the name of a pod
/// (`k8s.io/apiserver/pkg/storage/names/generate.go`).
const RANDOM_SUFFIX: usize = 5;

/// Kinds that name their pods by their own name and a random suffix.
const BY_SUFFIX: [&str; 3] = ["replicasets.apps", "jobs.batch", "daemonsets.apps"];

/// The workloads of an inventory, by resource, namespace and name.
#[derive(Debug)]
pub(crate) struct Workloads<'a>(HashMap<(&'a str, &'a str, &'a str), u32>);

impl<'a> Workloads<'a> {
    pub(crate) fn of(inventory: &'a Inventory) -> Self {
        let place = |(index, workload): (u32, &'a Workload)| {
            let key = (
                workload.kind.resource.as_ref(),
                workload.namespace.as_ref(),
                workload.name.as_ref(),
            );
            (key, index)
        };
        Self((0..).zip(&inventory.workloads).map(place).collect())
    }

    /// The workloads that created a pod of this name, as far as the name shows.
    pub(crate) fn of_pod(&self, namespace: &str, pod: &str) -> Vec<u32> {
        let mut found = Vec::new();
        let mut find = |resource: &str, name: &str| {
            found.extend(self.0.get(&(resource, namespace, name)).copied());
        };
        let Some((base, suffix)) = pod.rsplit_once('-') else {
            return found;
        };
        if suffix.bytes().all(|byte| byte.is_ascii_digit()) {
            find("statefulsets.apps", base);
        }
        if suffix.len() == RANDOM_SUFFIX {
            BY_SUFFIX.iter().for_each(|resource| find(resource, base));
            // A ReplicaSet's name is its Deployment's and a hash; an indexed Job's pods
            // also have an index.
            if let Some((name, _)) = base.rsplit_once('-') {
                find("deployments.apps", name);
                find("jobs.batch", name);
            }
        }
        found
    }
}
