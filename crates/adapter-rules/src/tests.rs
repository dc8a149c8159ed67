//! Properties of prometheus-adapter's rules, most of them from its tests
//! (`pkg/naming/*_test.go`, `pkg/custom-provider/series_registry_test.go`).

mod queries;
mod reading;
mod series;

use super::raw::RuleEntry;
use super::rule::Rules;
use apimachinery::kinds::{Kind, Kinds};

/// Group (`-` is the core), plural, singular, kind, and whether it is in a namespace.
const KINDS: &str = "
- pods pod Pod true
- services service Service true
- nodes node Node false
- persistentvolumes persistentvolume PersistentVolume false
- namespaces namespace Namespace false
apps deployments deployment Deployment true
apps statefulsets statefulset StatefulSet true
batch jobs job Job true
networking.k8s.io ingresses ingress Ingress true
storage.k8s.io storageclasses storageclass StorageClass false
extensions deployments deployment Deployment true
";

fn kinds() -> Kinds {
    let kind = |row: &str| {
        let words: Vec<&str> = row.split(' ').collect();
        let is_pod = words[1] == "pods";
        Kind {
            group: words[0].trim_start_matches('-').into(),
            version: "v1".into(),
            plural: words[1].into(),
            singular: words[2].into(),
            short: is_pod.then(|| "po".into()).into_iter().collect(),
            kind: words[3].into(),
            namespaced: words[4] == "true",
            watchable: true,
        }
    };
    Kinds::new(KINDS.trim().lines().map(kind).collect())
}

fn rules(yaml: &str) -> Rules {
    let raw: Vec<RuleEntry> = serde_saphyr::from_str(yaml).expect("the rules are YAML");
    Rules::resolve("rules", &raw)
}
