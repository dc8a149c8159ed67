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

/// The owners of pods.
#[derive(Debug)]
pub(crate) struct Owners {
    /// Where they are from.
    pub(crate) source: &'static str,
    of_pods: HashMap<Named, Workload>,
    /// The value of the label that was asked for.
    labels: HashMap<Named, Arc<str>>,
}

/// A pod of the cluster, as far as owners are concerned.
#[derive(Debug, Deserialize)]
struct Pod {
    metadata: ObjectMeta,
}

impl Default for Owners {
    fn default() -> Self {
        Self {
            source: "names that only a Deployment gives",
            of_pods: HashMap::new(),
            labels: HashMap::new(),
        }
    }
}

impl Owners {
    /// Owners that are recorded, for tests.
    #[cfg(test)]
    pub(crate) fn recorded(of_pods: impl IntoIterator<Item = (Named, Workload)>) -> Self {
        Self {
            of_pods: of_pods.into_iter().collect(),
            ..Self::default()
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
        let owners = recorded(history, ends, namespace, "kube_pod_owner").await?;
        let mut labels = HashMap::new();
        if let Some(key) = label {
            let key = format!(
                "label_{}",
                key.replace(|c: char| !c.is_ascii_alphanumeric(), "_")
            );
            let series = recorded(history, ends, namespace, "kube_pod_labels").await?;
            let values = series.iter().filter_map(|labels| {
                let value = labels.get(&key).filter(|it| !it.is_empty())?;
                Some((pod(labels)?, value.into()))
            });
            labels.extend(values);
        }
        Ok(Self {
            source: "kube_pod_owner",
            of_pods: owners.iter().filter_map(owned).collect(),
            labels,
        })
    }

    /// `None`: the cluster cannot be asked.
    async fn of_cluster(
        history: &History,
        namespace: Option<&str>,
        label: Option<&str>,
    ) -> Option<Self> {
        let path = format!("/api/v1/{}pods", within(namespace));
        let pods = history.cluster.as_ref()?.read::<List<Pod>>(&path).await;
        let mut found = Self {
            source: "the pods of the cluster now",
            ..Self::default()
        };
        for Pod { metadata } in pods.ok()?.items {
            let text =
                |text: &Option<String>| Arc::<str>::from(text.as_deref().unwrap_or_default());
            let pod = (text(&metadata.namespace), text(&metadata.name));
            let mut owners = metadata.owner_references.iter().flatten();
            let owner = owners.find(|it| it.controller == Some(true));
            let owner = owner.map_or_else(
                || workload("Pod", &pod.1),
                |owner| above(&owner.kind, &owner.name),
            );
            let value = metadata
                .labels
                .as_ref()
                .and_then(|labels| labels.get(label?));
            let value = value.map(|value| (pod.clone(), Arc::from(value.as_str())));
            found.labels.extend(value);
            found.of_pods.insert(pod, owner);
        }
        Some(found)
    }

    /// The workload of a pod; `None`: it is unknown.
    pub(crate) fn of(&self, pod: &Named) -> Option<Workload> {
        let by_name = || {
            let (set, end) = pod.1.rsplit_once('-')?;
            let owner = above("ReplicaSet", set);
            (end.len() == 5 && is_random(end) && *owner.kind == *"Deployment").then_some(owner)
        };
        self.of_pods.get(pod).cloned().or_else(by_name)
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

/// The owner of an owner of pods: a Deployment gives its ReplicaSets its name and a hash, and a
/// CronJob its Jobs its name and the minute of the schedule.
fn above(kind: &str, name: &str) -> Workload {
    let (base, end) = name.rsplit_once('-').unwrap_or((name, ""));
    let is_minute = end.len() == 8 && end.bytes().all(|it| it.is_ascii_digit());
    let is_hash = (8..=10).contains(&end.len()) && is_random(end) && !is_minute;
    match kind {
        "ReplicaSet" if is_hash => workload("Deployment", base),
        "Job" if is_minute => workload("CronJob", base),
        _ => workload(kind, name),
    }
}

/// Whether a word has only letters of Kubernetes' own alphabet
/// (`k8s.io/apimachinery/pkg/util/rand`).
fn is_random(word: &str) -> bool {
    const ALPHABET: &str = "bcdfghjklmnpqrstvwxz2456789";
    word.chars().all(|it| ALPHABET.contains(it))
}

/// The label sets that a metric of kube-state-metrics had on any day of a period.
async fn recorded(
    history: &History,
    [from, to]: [Timestamp; 2],
    namespace: Option<&str>,
    metric: &str,
) -> Result<Vec<Labels>, Failure> {
    let scope = match namespace {
        Some(namespace) => equals("namespace", namespace),
        None => r#"namespace!="""#.to_owned(),
    };
    let matchers = history.matchers();
    let query = format!("last_over_time({metric}{{{scope}{matchers}}}[1d])");
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

/// The pod that a series of kube-state-metrics is about.
pub(super) fn pod(labels: &Labels) -> Option<Named> {
    Some((labels.get("namespace")?.into(), labels.get("pod")?.into()))
}

/// A pod and its owner; a pod without owner is its own.
fn owned(labels: &Labels) -> Option<(Named, Workload)> {
    let pod = pod(labels)?;
    let get = |label: &str| labels.get(label).filter(|it| !matches!(*it, "" | "<none>"));
    let owner = match (get("owner_kind"), get("owner_name")) {
        (Some(kind), Some(name)) => above(kind, name),
        _ => workload("Pod", &pod.1),
    };
    Some((pod, owner))
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
            let owner = Owners::default().of(&("ml".into(), pod.into()));
            let owner = owner.map(|owner| owner.name.to_string());
            assert_eq!(owner.as_deref(), name, "{pod}");
        }
    }

    #[test]
    fn series_name_the_owner_and_a_pod_without_one_is_its_own() {
        for (kind, name, owner) in [
            ("ReplicaSet", "infer-5d4f8c9b7", "Deployment infer"),
            ("ReplicaSet", "infer-large", "ReplicaSet infer-large"),
            ("Job", "train-28756245", "CronJob train"),
            ("Job", "train", "Job train"),
            ("StatefulSet", "train", "StatefulSet train"),
            ("<none>", "<none>", "Pod a"),
            ("", "", "Pod a"),
        ] {
            let labels = Labels::from_pairs([
                ("namespace", "ml"),
                ("pod", "a"),
                ("owner_kind", kind),
                ("owner_name", name),
            ]);
            let (pod, of) = owned(&labels).unwrap();
            assert_eq!((&*pod.0, &*pod.1), ("ml", "a"));
            assert_eq!(format!("{} {}", of.kind, of.name), owner);
        }
    }
}
