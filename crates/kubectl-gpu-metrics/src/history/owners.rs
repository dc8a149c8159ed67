//! Which workload a pod of the past belonged to.
//!
//! kube-state-metrics recorded it. Without it the cluster says it of the pods of now, and
//! names say it of pods whose names only a Deployment gives. Otherwise it is unknown.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use apimachinery::labels::Labels;
use apimachinery::promql::equals;
use apimachinery::time::Timestamp;
use cluster_checks::paths::within;
use gpu_metrics::batch::Batch;

use crate::Failure;
use crate::values::List;

use super::History;
use super::period::Period;

const DAY: Duration = Duration::from_secs(86_400);

/// An object that owns pods, directly or not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Workload {
    pub(crate) kind: Arc<str>,
    pub(crate) name: Arc<str>,
}

/// Namespace and name of an object.
pub(crate) type Named = (Arc<str>, Arc<str>);

/// Where owners are from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Evidence {
    /// Recorded by kube-state-metrics.
    Recorded,
    /// From the objects of the cluster now.
    Cluster,
    /// From the names of pods.
    #[default]
    Name,
}

impl Evidence {
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Recorded => "by kube_pod_owner",
            Self::Cluster => "by the objects of the cluster now",
            Self::Name => "by their names",
        }
    }
}

/// The owners of pods.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    evidence: Evidence,
    of_pods: HashMap<Named, Workload>,
    /// The value of the label that was asked for.
    labels: HashMap<Named, Arc<str>>,
}

/// An object of the cluster, as far as owners are concerned.
#[derive(Debug, Deserialize)]
struct Object {
    metadata: ObjectMeta,
}

/// The kinds that own pods for another object: kind, series, label, path.
const BETWEEN: [(&str, &str, &str, &str); 2] = [
    (
        "ReplicaSet",
        "kube_replicaset_owner",
        "replicaset",
        "/apis/apps/v1/{}replicasets",
    ),
    ("Job", "kube_job_owner", "job_name", "/apis/batch/v1/{}jobs"),
];

impl Owners {
    /// Owners that are recorded, for tests.
    #[cfg(test)]
    pub(crate) fn recorded(of_pods: impl IntoIterator<Item = (Named, Workload)>) -> Self {
        Self {
            evidence: Evidence::Recorded,
            of_pods: of_pods.into_iter().collect(),
            labels: HashMap::new(),
        }
    }

    /// The owners of the pods of a namespace or of all, and the values of a label.
    pub(crate) async fn read(
        history: &History,
        ends: [Timestamp; 2],
        namespace: Option<&str>,
        label: Option<&str>,
    ) -> Result<Self, Failure> {
        let recorded = Self::of_series(history, ends, namespace, label).await?;
        if !recorded.of_pods.is_empty() {
            return Ok(recorded);
        }
        // Without rights or a cluster, names are left.
        let found = Self::of_cluster(history, namespace, label).await;
        Ok(found.unwrap_or_default())
    }

    async fn of_series(
        history: &History,
        ends: [Timestamp; 2],
        namespace: Option<&str>,
        label: Option<&str>,
    ) -> Result<Self, Failure> {
        let mut found = Self {
            evidence: Evidence::Recorded,
            ..Self::default()
        };
        let mut direct = HashMap::new();
        let owners = recorded(history, ends, namespace, "kube_pod_owner").await?;
        for labels in &owners {
            direct.extend(owned(labels, "pod"));
        }
        if direct.is_empty() {
            return Ok(found);
        }
        let mut above = HashMap::new();
        for (kind, series, label, _) in BETWEEN {
            let owners = recorded(history, ends, namespace, series).await?;
            let owners = owners.iter().filter_map(|labels| owned(labels, label));
            above.extend(owners.map(|(object, owner)| ((kind, object), owner)));
        }
        found.of_pods = resolved(direct, &above);
        if let Some(key) = label {
            let key = format!(
                "label_{}",
                key.replace(|c: char| !c.is_ascii_alphanumeric(), "_")
            );
            let series = recorded(history, ends, namespace, "kube_pod_labels").await?;
            let values = series.iter().filter_map(|labels| {
                let value = labels.get(&key).filter(|it| !it.is_empty())?;
                Some((object(labels, "pod")?, value.into()))
            });
            found.labels = values.collect();
        }
        Ok(found)
    }

    /// `None`: the cluster cannot be asked.
    async fn of_cluster(
        history: &History,
        namespace: Option<&str>,
        label: Option<&str>,
    ) -> Option<Self> {
        let cluster = history.cluster.as_ref()?;
        let list = async |path: &str| {
            let path = path.replace("{}", &within(namespace));
            let list = cluster.read::<List<Object>>(&path).await;
            list.ok().map(|list| list.items)
        };
        let controlled = |object: &Object| {
            let mut owners = object.metadata.owner_references.iter().flatten();
            let owner = owners.find(|it| it.controller == Some(true))?;
            Some((named(&object.metadata), workload(&owner.kind, &owner.name)))
        };
        let pods = list("/api/v1/{}pods").await?;
        let mut above = HashMap::new();
        for (kind, .., path) in BETWEEN {
            let objects = list(path).await.unwrap_or_default();
            let owners = objects.iter().filter_map(controlled);
            above.extend(owners.map(|(object, owner)| ((kind, object), owner)));
        }
        let labels = pods.iter().filter_map(|pod| {
            let value = pod.metadata.labels.as_ref()?.get(label?)?;
            Some((named(&pod.metadata), Arc::from(value.as_str())))
        });
        let own = |pod: &Object| {
            let pod = named(&pod.metadata);
            let owner = workload("Pod", &pod.1);
            (pod, owner)
        };
        let direct = pods
            .iter()
            .map(|pod| controlled(pod).unwrap_or_else(|| own(pod)));
        Some(Self {
            evidence: Evidence::Cluster,
            labels: labels.collect(),
            of_pods: resolved(direct.collect(), &above),
        })
    }

    /// The workload of a pod, and how it is known; `None`: it is unknown.
    pub(crate) fn of(&self, pod: &Named) -> Option<(Workload, Evidence)> {
        if let Some(owner) = self.of_pods.get(pod) {
            return Some((owner.clone(), self.evidence));
        }
        let name = of_deployment(&pod.1)?;
        Some((workload("Deployment", name), Evidence::Name))
    }

    /// The value of the label that was asked for.
    pub(crate) fn label(&self, pod: &Named) -> Option<&Arc<str>> {
        self.labels.get(pod)
    }
}

fn workload(kind: &str, name: &str) -> Workload {
    Workload {
        kind: kind.into(),
        name: name.into(),
    }
}

fn named(of: &ObjectMeta) -> Named {
    let text = |text: &Option<String>| text.as_deref().unwrap_or_default().into();
    (text(&of.namespace), text(&of.name))
}

/// Pods with the owners of their ReplicaSets and Jobs.
fn resolved(
    direct: HashMap<Named, Workload>,
    above: &HashMap<(&str, Named), Workload>,
) -> HashMap<Named, Workload> {
    let top = |(pod, owner): (Named, Workload)| {
        let between = (&*owner.kind, (Arc::clone(&pod.0), Arc::clone(&owner.name)));
        let owner = above.get(&between).cloned().unwrap_or(owner);
        (pod, owner)
    };
    direct.into_iter().map(top).collect()
}

/// The label sets that a metric of kube-state-metrics had on any day of a period.
async fn recorded(
    history: &History,
    [from, to]: [Timestamp; 2],
    namespace: Option<&str>,
    metric: &str,
) -> Result<Vec<Labels>, Failure> {
    let matchers = history.matchers();
    // The scrape may have moved the namespace into another label.
    let scopes = match namespace {
        Some(namespace) => ["namespace", "exported_namespace"]
            .map(|it| equals(it, namespace))
            .to_vec(),
        None => vec![r#"namespace!="""#.to_owned()],
    };
    let of = scopes.iter();
    let of = of.map(|scope| format!("last_over_time({metric}{{{scope}{matchers}}}[1d])"));
    let query = of.collect::<Vec<_>>().join(" or ");
    let days = to.since(from).as_secs().div_ceil(DAY.as_secs()).max(1);
    let count = u32::try_from(days).unwrap_or(u32::MAX);
    let period = Period {
        start: to - DAY * (count - 1),
        step: DAY,
        count: count as usize,
    };
    let answers = history.read(&query, period).await?;
    let series = answers.iter().flat_map(Batch::iter);
    let labels = series.filter_map(|series| Labels::from_json(series.labels).ok());
    Ok(labels.collect())
}

/// The object that a label of kube-state-metrics names. A scrape without `honorLabels` moves
/// the label.
fn object(labels: &Labels, label: &str) -> Option<Named> {
    let get = |label: &str| {
        let moved = labels.get(&format!("exported_{label}"));
        moved.or_else(|| labels.get(label)).map(Arc::from)
    };
    Some((get("namespace")?, get(label)?))
}

/// An object and its owner; an object without owner is its own.
fn owned(labels: &Labels, label: &str) -> Option<(Named, Workload)> {
    let object = object(labels, label)?;
    let get = |label: &str| labels.get(label).filter(|it| !matches!(*it, "" | "<none>"));
    let owner = match (get("owner_kind"), get("owner_name")) {
        (Some(kind), Some(name)) => workload(kind, name),
        _ if label == "pod" => workload("Pod", &object.1),
        _ => return None,
    };
    Some((object, owner))
}

/// The Deployment that names a pod so: its name, the hash of a template, and five characters,
/// the last two of Kubernetes' own alphabet
/// (`k8s.io/apimachinery/pkg/util/rand`). Jobs of a CronJob have a number in place of the hash.
fn of_deployment(pod: &str) -> Option<&str> {
    const ALPHABET: &str = "bcdfghjklmnpqrstvwxz2456789";
    let mut parts = pod.rsplitn(3, '-');
    let (end, hash, name) = (parts.next()?, parts.next()?, parts.next()?);
    let is_random = |word: &str| word.chars().all(|it| ALPHABET.contains(it));
    let is_hash = (8..=10).contains(&hash.len()) && hash.bytes().any(|it| it.is_ascii_alphabetic());
    (end.len() == 5 && is_hash && is_random(end) && is_random(hash)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_a_deployment_gives_tell_the_owner() {
        for (pod, name) in [
            ("infer-5d4f8c9b7-bcdfg", Some("infer")),
            ("infer-gpu-5d4f8c9b7-bcdfg", Some("infer-gpu")),
            ("infer-gpu-0", None),
            ("infer-batch-x", None),
            ("infer-0", None),
            // A Job of a CronJob, and a name that a person may give.
            ("infer-28756245-bcdfg", None),
            ("infer-5d4f8c9b7-pod01", None),
            ("bcdfg", None),
        ] {
            assert_eq!(of_deployment(pod), name, "{pod}");
        }
    }

    #[test]
    fn series_name_the_owner_under_either_label_and_none_is_the_pod_itself() {
        let of = |pairs: &[(&str, &str)], label: &str| {
            let labels = Labels::from_pairs(pairs.iter().copied());
            owned(&labels, label).map(|(object, owner)| {
                format!("{}/{} {} {}", object.0, object.1, owner.kind, owner.name)
            })
        };
        let moved = [
            ("namespace", "monitoring"),
            ("exported_namespace", "ml"),
            ("pod", "kube-state-metrics-0"),
            ("exported_pod", "a"),
            ("owner_kind", "Job"),
            ("owner_name", "train"),
        ];
        assert_eq!(of(&moved, "pod").unwrap(), "ml/a Job train");
        let alone = [("namespace", "ml"), ("pod", "a"), ("owner_kind", "<none>")];
        assert_eq!(of(&alone, "pod").unwrap(), "ml/a Pod a");
        let set = [("namespace", "ml"), ("replicaset", "a"), ("owner_kind", "")];
        assert_eq!(of(&set, "replicaset"), None);
    }
}
