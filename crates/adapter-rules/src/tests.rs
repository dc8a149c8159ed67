//! Properties of prometheus-adapter's rules, most of them from its tests
//! (`pkg/naming/*_test.go`, `pkg/custom-provider/series_registry_test.go`).

mod queries;
mod reading;
mod series;

use std::sync::Arc;

use super::raw::RuleEntry;
use super::rule::Rules;
use apimachinery::kinds::{Kind, Kinds};

fn kind(group: &str, plural: &str, singular: &str, kind: &str, namespaced: bool) -> Kind {
    Kind {
        group: group.into(),
        version: "v1".into(),
        plural: plural.into(),
        singular: singular.into(),
        short: Vec::new(),
        kind: kind.into(),
        namespaced,
        watchable: true,
    }
}

fn kinds() -> Kinds {
    let mut pods = kind("", "pods", "pod", "Pod", true);
    pods.short = vec![Arc::from("po")];
    Kinds::new(vec![
        pods,
        kind("", "services", "service", "Service", true),
        kind("", "nodes", "node", "Node", false),
        kind(
            "",
            "persistentvolumes",
            "persistentvolume",
            "PersistentVolume",
            false,
        ),
        kind("", "namespaces", "namespace", "Namespace", false),
        kind("apps", "deployments", "deployment", "Deployment", true),
        kind("apps", "statefulsets", "statefulset", "StatefulSet", true),
        kind("batch", "jobs", "job", "Job", true),
        kind("networking.k8s.io", "ingresses", "ingress", "Ingress", true),
        kind(
            "storage.k8s.io",
            "storageclasses",
            "storageclass",
            "StorageClass",
            false,
        ),
        kind(
            "extensions",
            "deployments",
            "deployment",
            "Deployment",
            true,
        ),
    ])
}

fn rules(yaml: &str) -> Rules {
    let raw: Vec<RuleEntry> = serde_saphyr::from_str(yaml).expect("the rules are YAML");
    Rules::resolve("rules", &raw)
}
